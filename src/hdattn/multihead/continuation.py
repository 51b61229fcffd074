"""Best losses along a curve of neighbouring problems, each starting from the others' optima."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import OptimizeResult

from hdattn.errors import UserError
from hdattn.multihead.optima import Optimum, best_of
from hdattn.multihead.optimum_search import Search, make_search
from hdattn.multihead.priors import Prior


def optimum_curve(
    activation: str,
    tokens: int,
    problems: Sequence[tuple[Prior, int]],
    *,
    starts: int = 3,
    seed: int = 0,
    base_points: int | None = None,
    polish: int = 1,
) -> list[Optimum]:
    """Optima for a sequence of (prior, number of heads), in the order given.

    ``starts`` random starts at every point; then the best is followed along the curve and back,
    so that each point is reached from both of its neighbours as well. ``base_points`` and
    ``polish`` as for one optimum (:mod:`hdattn.multihead.optima`). Raises :class:`UserError` for an
    empty curve, no heads or no starts.
    """
    if not problems or starts < 1 or min(heads for _, heads in problems) < 1:
        raise UserError(
            f"{len(problems)} points and starts = {starts} will not do; "
            "give at least one of both, and at least 1 head at each point"
        )
    searches = [
        make_search(activation, tokens, prior, heads, base_points=base_points, seed=seed)
        for prior, heads in problems
    ]
    rng = np.random.default_rng(seed)
    ends = [
        [search.descend(search.points(), search.random(rng)) for _ in range(starts)]
        for search in searches
    ]
    _follow(searches, ends, rng)
    _follow(searches[::-1], ends[::-1], rng)
    return [best_of(search, found, polish) for search, found in zip(searches, ends, strict=True)]


def _follow(
    searches: Sequence[Search], ends: Sequence[list[OptimizeResult]], rng: np.random.Generator
) -> None:
    """Add to the ends at each point those of descents from the best end at the point before."""
    for before, known, search, found in zip(searches, ends, searches[1:], ends[1:], strict=False):
        losses = [before.points(1, 1).loss(*before.unpack(end.x)) for end in known]
        best = before.unpack(known[int(np.argmin(losses))].x)
        warm = search.adapted(*best, before.prior, rng)
        found += [search.descend(search.points(), x) for x in warm]
