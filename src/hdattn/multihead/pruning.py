"""What it costs to remove heads: the best subset at every size, and its loss.

Survivors keep their overlaps m and biases b. What becomes of the output is the *protocol*:

- ``joint`` (B-softmax): the joint softmax over the survivors renormalises itself;
- ``kept``: the prefactor c/H of each head stays, so that attention is lost with the heads;
- ``renormalised``: c stays, that is c/n for n survivors (for softmax, which has no c, the mean);
- ``refitted``: c is the best one for the survivors, in closed form since the loss is quadratic in
  it. b is not refitted: that, with m, is re-training (:meth:`Heads.retrained`).

All subsets of a size are tried up to 10 heads; beyond, heads go one by one, each time the one whose
loss costs least, and the result says ``greedy``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from hdattn.errors import UserError
from hdattn.multihead.activations import get_activation
from hdattn.multihead.quadrature import head_moments
from hdattn.multihead.token_moments import COARSER, Quadrature
from hdattn.multihead.trained_heads import Heads

EXHAUSTIVE = 10
"""Up to so many heads all subsets are tried."""

SCAN_POINTS = 1024
"""Base points on which subsets are compared where their losses are no sums over pairs."""

Subset = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class PruningCurve:
    """Loss after removing 0, 1, ..., R heads under one protocol; arrays have R + 1 entries.

    kept: indices of the survivors. scale: their c. loss, loss_error: E and its error, by
    quadrature where the activation has one. method: ``exhaustive`` or ``greedy``.
    """

    protocol: str
    kept: tuple[Subset, ...]
    scale: np.ndarray
    loss: np.ndarray
    loss_error: np.ndarray
    method: str

    @property
    def increase(self) -> np.ndarray:
        """Loss minus the loss of all heads."""
        return self.loss - self.loss[0]

    def masks(self) -> np.ndarray:
        """Whether a head survives, [R + 1, H]."""
        return np.array([np.isin(self.kept[0], kept) for kept in self.kept])


def protocols(activation: str) -> tuple[str, ...]:
    """Protocols under which heads of this activation can be pruned."""
    if get_activation(activation).has_c:
        return ("kept", "renormalised", "refitted")
    return ("joint",) if activation == "bayes" else ("renormalised",)


def prune(
    heads: Heads,
    protocol: str,
    *,
    most: int | None = None,
    exhaustive: int = EXHAUSTIVE,
    scan_points: int = SCAN_POINTS,
    losses: SubsetLosses | None = None,
) -> PruningCurve:
    """Best subset of every size from all heads down to ``most`` fewer (all but one unless given).

    ``losses`` may be shared between the protocols of the same heads. Raises :class:`UserError` for
    an unknown protocol, and for more heads than can be removed.
    """
    count = len(heads.m)
    most = count - 1 if most is None else most
    if protocol not in protocols(heads.activation):
        choices = ", ".join(protocols(heads.activation))
        raise UserError(f"pruning: {heads.activation} has no protocol {protocol!r}; take {choices}")
    if not 0 <= most < count:
        raise UserError(
            f"pruning: {most} of {count} heads cannot be removed, since one has to stay; "
            f"give 0 to {count - 1}"
        )
    losses = losses or subset_losses(heads, scan_points)

    def score(kept: Subset) -> float:
        return losses.compare(kept, _scale(protocol, heads, kept, losses.compare))

    greedy = count > exhaustive
    chosen = [tuple(range(count))]
    for _ in range(most):
        chosen.append(min(_candidates(chosen[-1], count, greedy), key=score))
    scales = [_scale(protocol, heads, kept, losses.compare) for kept in chosen]
    found = [losses.value(kept, scale) for kept, scale in zip(chosen, scales, strict=True)]
    return _curve(protocol, chosen, scales, found, "greedy" if greedy else "exhaustive")


def retrained_curve(
    heads: Heads, curve: PruningCurve, tau: float, *, points: int, seed: int = 0
) -> PruningCurve:
    """The survivors of ``curve`` after gradient flow for a time ``tau``, as a protocol of its own.

    All heads are left as they are: nothing was removed, nothing is trained again.
    """
    cut = zip(curve.kept[1:], curve.scale[1:], strict=True)
    survivors = [heads.only(kept, c).retrained(tau, points=points, seed=seed) for kept, c in cut]
    ends = [heads, *survivors]
    losses = [end.loss() for end in ends]
    return _curve("retrained", curve.kept, [end.c for end in ends], losses, curve.method)


def _curve(
    protocol: str,
    kept: Sequence[Subset],
    scales: Sequence[float],
    losses: Sequence[Quadrature],
    method: str,
) -> PruningCurve:
    values, errors = np.transpose([(loss.value, loss.error) for loss in losses])
    return PruningCurve(protocol, tuple(kept), np.array(scales), values, errors, method)


def _candidates(last: Subset, count: int, greedy: bool) -> Iterable[Subset]:
    """Subsets with one head less than ``last``: of all ``count`` heads, or of ``last``."""
    return itertools.combinations(last if greedy else range(count), len(last) - 1)


def _scale(
    protocol: str, heads: Heads, kept: Subset, loss: Callable[[Subset, float], float]
) -> float:
    """Output scale c of the survivors; with all of them nothing is changed.

    ``loss(kept, c) = 1 - 2 c a + c^2 q`` gives the best c = a/q from its values at +-1.
    """
    count = len(heads.m)
    if protocol in ("joint", "renormalised") or len(kept) == count:
        return heads.c
    if protocol == "kept":
        return heads.c * len(kept) / count
    above, below = loss(kept, 1.0), loss(kept, -1.0)
    hits, squares = (below - above) / 4.0, (above + below) / 2.0 - 1.0
    return hits / squares


class SubsetLosses:
    """Losses of subsets of heads on a fixed set of Sobol points, and by quadrature."""

    def __init__(self, heads: Heads, base_points: int):
        """Draw the points."""
        self.heads = heads
        self._points = heads.points(base_points)

    def compare(self, kept: Subset, c: float) -> float:
        """E on the points: its error is much the same for all subsets."""
        part = self.heads.only(kept, c)
        return self._points.loss(part.m, part.b, c)

    def value(self, kept: Subset, c: float) -> Quadrature:
        """E by quadrature, or on independent points where there is none."""
        return self.heads.only(kept, c).loss()


class PairLosses(SubsetLosses):
    """Losses of softmax and softmax-1 heads, sums over pairs, by quadrature once and for all."""

    def __init__(self, heads: Heads, idle: np.ndarray):
        """Moments on the fine and on the coarse grid; ``idle`` are the biases [H]."""
        self.heads = heads
        problem = (heads.m, idle, heads.tokens, heads.prior)
        self._moments = [head_moments(*problem, step) for step in (1.0, COARSER)]

    def compare(self, kept: Subset, c: float) -> float:
        """The same as :meth:`value`."""
        return self._loss(kept, c, 0)

    def value(self, kept: Subset, c: float) -> Quadrature:
        """E and the change of it on the coarse grid."""
        fine, coarse = (self._loss(kept, c, grid) for grid in (0, 1))
        return Quadrature(fine, abs(fine - coarse))

    def _loss(self, kept: Subset, c: float, grid: int) -> float:
        hits, products = self._moments[grid]
        rows: Sequence[int] = list(kept)
        share = c / len(rows)
        products = products[np.ix_(rows, rows)].sum()
        return float(1.0 - 2.0 * share * hits[rows].sum() + share**2 * products)


def subset_losses(heads: Heads, base_points: int = SCAN_POINTS) -> SubsetLosses:
    """Losses of subsets of ``heads``: exact where they are sums over pairs of heads."""
    idle = {"softmax": np.full(len(heads.m), np.inf), "softmax1": np.asarray(heads.b, float)}
    if heads.activation in idle:
        return PairLosses(heads, idle[heads.activation])
    return SubsetLosses(heads, base_points)
