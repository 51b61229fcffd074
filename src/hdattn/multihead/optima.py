"""Best loss over m, b and c at r_perp = 0, by L-BFGS from several starts on Sobol points.

The points are a sample, and the least loss on a sample is biased downwards; heads that B-softmax
does not need diverge so as to fit it. So the ends of the descents are compared on other points,
the result is stated by quadrature, and an optimum that fits its own points better than it should
is flagged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import OptimizeResult

from hdattn.errors import UserError
from hdattn.multihead.optimum_search import TOLERANCE, Search, make_search
from hdattn.multihead.priors import Prior

POLISH = 4  # times as many base points for the last descent, other ones
SCRAMBLES = 8  # independent sets of points that tell the sampling error
OVERFIT = 6.0  # sampling errors by which the loss may exceed that on the fitted points
DIVERGED = 3.0  # times the root mean square of |theta|: no head needs to be that long


@dataclass(frozen=True)
class Optimum:
    """Best order parameters found: m [H, F], b [H], c.

    loss: E there by quadrature, ``loss_error`` its error. sample_loss: E on the points that were
    fitted; sampling_error: standard deviation of E over sets of as many points. start_losses [S]:
    E at the end of each start, on points that none was fitted to. iterations, residual: of the
    last descent, the residual the largest entry of its gradient. diverged [H]: heads much longer
    than theta, which fit single points.
    """

    m: np.ndarray
    b: np.ndarray
    c: float
    loss: float
    loss_error: float
    sample_loss: float
    sampling_error: float
    start_losses: np.ndarray
    converged: bool
    iterations: int
    residual: float
    diverged: np.ndarray

    @property
    def overfit(self) -> bool:
        """Whether a head diverged, or the fitted points show a loss too low to be true."""
        allowed = OVERFIT * self.sampling_error + self.loss_error
        return bool(self.diverged.any()) or self.loss - self.sample_loss > allowed

    def messages(self) -> list[str]:
        """Doubts about this optimum, one line each."""
        found = []
        if self.overfit:
            found.append(
                f"heads overfit their points, which show the loss {self.sample_loss:.6f} where it "
                f"is {self.loss:.6f} ({int(self.diverged.sum())} of {len(self.m)} heads diverged): "
                "there are more heads than needed, or too few points"
            )
        if not self.converged:
            found.append(f"the descent stopped at a gradient of {self.residual:.1e}")
        return found


def find_optimum(
    activation: str,
    tokens: int,
    prior: Prior,
    heads: int,
    *,
    starts: int = 8,
    seed: int = 0,
    base_points: int | None = None,
    held: Sequence[int] = (),
) -> Optimum:
    """Least E(m, r = m m^T, b, c) over the heads' order parameters.

    ``base_points`` (a power of two; at least 16384 points with their images unless given) for the
    starts, four times as many for the last descent. Overlaps with the directions ``held`` stay
    zero. Raises :class:`UserError` for fewer than one head or start, or an impossible direction.
    """
    if heads < 1 or starts < 1:
        raise UserError(f"heads = {heads} and starts = {starts} must be at least 1")
    if not set(held) < set(range(prior.dim_features)):
        raise UserError(f"held {list(held)} must be some of the {prior.dim_features} directions")
    search = make_search(
        activation, tokens, prior, heads, held=tuple(held), base_points=base_points, seed=seed
    )
    rng = np.random.default_rng(seed)
    ends = [search.descend(search.points(), search.random(rng)) for _ in range(starts)]
    return best_of(search, ends, POLISH)


def best_of(search: Search, ends: Sequence[OptimizeResult], polish: int = 1) -> Optimum:
    """Optimum from the best of the ends of several descents on the points of ``search``.

    They are compared on other points, ``polish`` times as many, and the best one descends on
    these unless polish is 1.
    """
    others = search.points(polish, 1)
    losses = np.array([others.loss(*search.unpack(end.x)) for end in ends])
    best = ends[int(np.argmin(losses))]
    end = search.descend(others, best.x) if polish > 1 else best
    m, b, c = search.unpack(end.x)
    values = [search.points(polish, 2 + k).loss(m, b, c) for k in range(SCRAMBLES)]
    loss = search.quadrature(end.x)
    residual = float(np.max(np.abs(end.jac)))
    return Optimum(
        m,
        b,
        c,
        loss=loss.value,
        loss_error=loss.error,
        sample_loss=float(end.fun),
        sampling_error=float(np.std(values, ddof=1)),
        start_losses=losses,
        converged=bool(residual < 100 * TOLERANCE),
        iterations=int(end.nit),
        residual=residual,
        diverged=np.linalg.norm(m, axis=1) > DIVERGED * search.prior.size,
    )
