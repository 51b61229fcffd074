"""Best loss over m, b and c at r_perp = 0, by L-BFGS from several starts on Sobol points.

The points are a sample, and the least loss on a sample is biased downwards; heads that B-softmax
does not need diverge so as to fit it. So starts are compared, and the result is stated, by
quadrature, and an optimum that fits its own points better than it should is flagged. Directions
outside the spikes are left out: they gain nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from hdattn.errors import UserError
from hdattn.multihead.activations import get_activation
from hdattn.multihead.population import PopulationLoss
from hdattn.multihead.priors import Prior
from hdattn.multihead.quadrature import population_loss
from hdattn.multihead.token_moments import Quadrature

SEARCH_POINTS = 16384
"""Points in all, base points times images, on which the starts descend unless told otherwise."""

POLISH = 4  # times as many base points for the last descent, other ones
SCRAMBLES = 4  # independent sets of points that tell the sampling error
TOLERANCE = 1e-5  # on the gradient, where a descent has converged
OVERFIT = 4.0  # sampling errors by which the loss may exceed that on the fitted points
DIVERGED = 3.0  # times the root mean square of |theta|: no head needs to be that long


@dataclass(frozen=True)
class Optimum:
    """Best order parameters found: m [H, F], b [H], c.

    loss: E there by quadrature, ``loss_error`` its error. sample_loss: E on the points that were
    fitted; sampling_error: standard deviation of E over sets of as many points. start_losses [S]:
    E by quadrature at the end of each start. iterations, residual: of the last descent, the
    residual the largest entry of its gradient. diverged [H]: heads much longer than theta, which
    fit single points.
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


@dataclass(frozen=True)
class _Search:
    """One problem, and the layout (m without held columns, b, c) of its unknowns."""

    activation: str
    tokens: int
    prior: Prior
    heads: int
    free: np.ndarray

    def unpack(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """m [H, F], b [H] and c of the unknowns."""
        rule = get_activation(self.activation)
        m = np.zeros((self.heads, self.prior.dim_features))
        stop = self.heads * self.free.size
        m[:, self.free] = x[:stop].reshape(self.heads, -1)
        b = x[stop : stop + self.heads] if rule.has_b else np.zeros(self.heads)
        return m, b, float(x[-1]) if rule.has_c else 1.0

    def start(self, rng: np.random.Generator) -> np.ndarray:
        """Directions without spread at their mean, the others N(mean, 1); b = 0, c = 1."""
        rule, images = get_activation(self.activation), self.prior.images()
        mean = images.weights @ images.centers
        variance = images.weights @ (images.centers - mean) ** 2 + images.spread**2
        normals = rng.standard_normal((self.heads, mean.size))
        m = mean + np.where(variance > 0, normals, 0.0)
        b = np.zeros(self.heads if rule.has_b else 0)
        return np.concatenate([m[:, self.free].ravel(), b, [1.0] if rule.has_c else []])

    def points(self, base_points: int, seed: int) -> PopulationLoss:
        """A set of points."""
        rule = get_activation(self.activation)
        return PopulationLoss(rule, self.tokens, self.prior, base_points=base_points, seed=seed)

    def descend(self, points: PopulationLoss, x: np.ndarray) -> OptimizeResult:
        """L-BFGS from ``x``."""
        rule = get_activation(self.activation)

        def loss_and_gradient(x: np.ndarray) -> tuple[float, np.ndarray]:
            at = points.evaluate(*self.unpack(x))
            parts = [at.grad_weights[:, self.free].ravel()]
            parts += [at.grad_b] if rule.has_b else []
            parts += [[at.grad_c]] if rule.has_c else []
            return at.loss, np.concatenate(parts)

        options = {"gtol": TOLERANCE, "ftol": 1e-13, "maxiter": 1000}
        return minimize(loss_and_gradient, x, jac=True, method="L-BFGS-B", options=options)

    def loss(self, x: np.ndarray) -> Quadrature:
        """E by quadrature."""
        m, b, c = self.unpack(x)
        return population_loss(self.activation, self.tokens, self.prior, m, b=b, c=c)


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
    free = np.setdiff1d(np.arange(prior.dim_features), held)
    if not set(held) < set(range(prior.dim_features)):
        raise UserError(f"held {list(held)} must be some of the {prior.dim_features} directions")
    search = _Search(activation, tokens, prior, heads, free)
    base = base_points or _base_points(prior)
    points = search.points(base, seed)
    rng = np.random.default_rng(seed)
    ends = [search.descend(points, search.start(rng)) for _ in range(starts)]
    losses = [search.loss(end.x).value for end in ends]
    return _polished(search, ends[int(np.argmin(losses))], base, seed, np.array(losses))


def _base_points(prior: Prior) -> int:
    images = len(prior.images().weights)
    return 2 ** int(np.ceil(np.log2(max(2.0, SEARCH_POINTS / images))))


def _polished(
    search: _Search, best: OptimizeResult, base: int, seed: int, losses: np.ndarray
) -> Optimum:
    """Descend from the best start on more points, and evaluate."""
    fitted = search.points(POLISH * base, seed + 1)
    end = search.descend(fitted, best.x)
    others = (search.points(POLISH * base, seed + 2 + k) for k in range(SCRAMBLES))
    values = [points.loss(*search.unpack(end.x)) for points in others]
    loss = search.loss(end.x)
    residual = float(np.max(np.abs(end.jac)))
    m, b, c = search.unpack(end.x)
    images = search.prior.images()
    size = np.sum(images.weights @ images.centers**2 + images.spread**2)
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
        diverged=np.linalg.norm(m, axis=1) > DIVERGED * np.sqrt(size),
    )
