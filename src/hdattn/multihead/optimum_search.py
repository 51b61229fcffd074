"""Descents over m, b and c at r_perp = 0 on a fixed set of Sobol points.

Directions outside the spikes are left out: they gain nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from hdattn.multihead.activations import get_activation
from hdattn.multihead.population import PopulationLoss
from hdattn.multihead.priors import Prior
from hdattn.multihead.quadrature import population_loss
from hdattn.multihead.token_moments import Quadrature

SEARCH_POINTS = 16384
"""Points in all, base points times images, on which the starts descend unless told otherwise."""

TOLERANCE = 1e-5  # on the gradient, where a descent has converged
ITERATIONS = 1000  # of a descent, at the most
_ROUGH = 8  # times fewer points for the first iterations from a random start
_ROUGH_ITERATIONS = 40  # too few for heads to diverge so as to fit those points
_JITTER = 0.3  # of the overlaps of a split head, without which its halves would stay together


@dataclass(frozen=True)
class Search:
    """One problem, and the layout (m without held columns, b, c) of its unknowns x.

    ``free``: directions whose overlaps may differ from zero. ``base_points``: of the descents.
    """

    activation: str
    tokens: int
    prior: Prior
    heads: int
    free: np.ndarray
    base_points: int
    seed: int
    _sets: dict[tuple[int, int], PopulationLoss] = field(default_factory=dict, repr=False)

    def pack(self, m: np.ndarray, b: np.ndarray, c: float) -> np.ndarray:
        """Unknowns of m [H, F], b [H] and c."""
        rule = get_activation(self.activation)
        parts = [np.asarray(m)[:, self.free].ravel(), np.atleast_1d(b if rule.has_b else [])]
        return np.concatenate([*parts, [c] if rule.has_c else []])

    def unpack(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """m [H, F], b [H] and c of the unknowns."""
        rule = get_activation(self.activation)
        m = np.zeros((self.heads, self.prior.dim_features))
        stop = self.heads * self.free.size
        m[:, self.free] = x[:stop].reshape(self.heads, -1)
        b = x[stop : stop + self.heads] if rule.has_b else np.zeros(self.heads)
        return m, b, float(x[-1]) if rule.has_c else 1.0

    def points(self, factor: int = 1, stream: int = 0) -> PopulationLoss:
        """Points of independent ``stream``, ``factor`` times as many as for descents."""
        if (factor, stream) not in self._sets:
            rule = get_activation(self.activation)
            self._sets[factor, stream] = PopulationLoss(
                rule,
                self.tokens,
                self.prior,
                base_points=factor * self.base_points,
                seed=self.seed + stream,
            )
        return self._sets[factor, stream]

    def random(self, rng: np.random.Generator) -> np.ndarray:
        """Descent from directions without spread at their mean, the others N(mean, 1).

        b = 0 and c = 1. The first iterations are on fewer points.
        """
        mean, deviation = moments(self.prior)
        normals = rng.standard_normal((self.heads, mean.size))
        m = mean + np.where(deviation > 0, normals, 0.0)
        x = self.pack(m, np.zeros(self.heads), 1.0)
        rule, base = get_activation(self.activation), max(2, self.base_points // _ROUGH)
        few = PopulationLoss(rule, self.tokens, self.prior, base_points=base, seed=self.seed)
        return self.descend(few, x, _ROUGH_ITERATIONS).x

    def descend(
        self, points: PopulationLoss, x: np.ndarray, most: int | None = None
    ) -> OptimizeResult:
        """L-BFGS from ``x``, at most ``most`` iterations if given."""

        def loss_and_gradient(x: np.ndarray) -> tuple[float, np.ndarray]:
            at = points.evaluate(*self.unpack(x))
            return at.loss, self.pack(at.grad_weights, at.grad_b, at.grad_c)

        options = {"gtol": TOLERANCE, "ftol": 1e-13, "maxiter": most or ITERATIONS}
        return minimize(loss_and_gradient, x, jac=True, method="L-BFGS-B", options=options)

    def quadrature(self, x: np.ndarray) -> Quadrature:
        """E by quadrature, or on other points for an activation that has none."""
        m, b, c = self.unpack(x)
        return population_loss(self.activation, self.tokens, self.prior, m, b=b, c=c)

    def adapted(
        self, m: np.ndarray, b: np.ndarray, c: float, prior: Prior, rng: np.random.Generator
    ) -> list[np.ndarray]:
        """Starts from the optimum of a neighbour: another prior, or fewer or more heads.

        Overlaps grow with the spread of the amplitudes. A new head is half of an old one, which
        changes nothing for B-softmax: as such, and moved at random. Which head is split or left
        out is what costs least.
        """
        (_, old), (_, new) = moments(prior), moments(self.prior)
        m = np.asarray(m) * np.where(old > 0, new / np.where(old > 0, old, 1.0), 1.0)
        count = len(m)
        while len(m) > self.heads:
            every = (np.delete(np.arange(len(m)), h) for h in range(len(m)))
            m, b = self._best([(m[kept], b[kept]) for kept in every], c)
        while len(m) < self.heads:
            m, b = self._best([_halved(m, b, h) for h in range(len(m))], c)
        if self.heads <= count:
            return [self.pack(m, b, c)]
        shift = np.where(new > 0, _JITTER * rng.standard_normal(m.shape), 0.0)
        shift[:count] = 0.0
        return [self.pack(m, b, c), self.pack(m + shift, b, c)]

    def _best(self, candidates: list[tuple[np.ndarray, np.ndarray]], c: float):
        losses = [self.points().loss(m, b, c) for m, b in candidates]
        return candidates[int(np.argmin(losses))]


def _halved(m: np.ndarray, b: np.ndarray, head: int) -> tuple[np.ndarray, np.ndarray]:
    """Heads with one of them twice, at half its weight in B-softmax."""
    b = np.append(b, b[head])
    b[[head, -1]] -= np.log(2.0)
    return np.vstack([m, m[head]]), b


def make_search(
    activation: str,
    tokens: int,
    prior: Prior,
    heads: int,
    *,
    held: tuple[int, ...] = (),
    base_points: int | None = None,
    seed: int = 0,
) -> Search:
    """Search; at least 16384 points with their images unless ``base_points`` says otherwise."""
    free = np.setdiff1d(np.arange(prior.dim_features), held)
    images = len(prior.images().weights)
    base = base_points or 2 ** int(np.ceil(np.log2(max(2.0, SEARCH_POINTS / images))))
    return Search(activation, tokens, prior, heads, free, base, seed)


def moments(prior: Prior) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation [F] of the amplitudes."""
    images = prior.images()
    mean = images.weights @ images.centers
    variance = images.weights @ (images.centers - mean) ** 2 + images.spread**2
    return mean, np.sqrt(variance)
