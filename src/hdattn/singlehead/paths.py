"""Training along a path of weight decays, each warm-started from the last."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hdattn.singlehead.attention import Array
from hdattn.singlehead.erm import Fit, fit
from hdattn.singlehead.heads import head_named
from hdattn.singlehead.objective import Loss

WARM_NOISE = 0.03  # of the initial weights in a warm start


def fit_path(
    loss: Loss,
    lams: Sequence[float],
    *,
    kappa: float,
    start: Array,
    head: str = "tied",
    tolerance: float | None = None,
) -> list[Fit]:
    """L-BFGS at each lam of a list, each from the minimum at the next larger lam, in its order.

    ``start`` are the weights at the largest lam; a share of them is added to every warm start of
    a factor, so that modes which vanished can come back. ``tolerance`` as in ``fit``.
    """
    options = {"kappa": kappa, "head": head, "tolerance": tolerance}
    fits: dict[int, Fit] = {}
    weights = start
    for i in np.argsort(-np.asarray(lams), kind="stable"):
        fits[int(i)] = fit(loss, lam=float(lams[i]), start=weights, **options)
        weights = fits[int(i)].W
        if head_named(head).factored:
            weights = weights + WARM_NOISE * start
    return [fits[i] for i in range(len(lams))]
