"""Heads that were trained: a thing that has a loss, can be cut down, trained on and judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hdattn.errors import UserError
from hdattn.multihead.activations import get_activation
from hdattn.multihead.flow import Flow, FlowProblem, solve_flow
from hdattn.multihead.order_parameters import initial_order_parameters
from hdattn.multihead.population import PopulationLoss
from hdattn.multihead.priors import Prior
from hdattn.multihead.quadrature import population_loss
from hdattn.multihead.token_moments import Quadrature

_TIMES = 101  # of a flow that trains: the last one it reaches counts
_DIVERGED = 3.0  # times the root mean square of |theta|: no head needs to be that long


@dataclass(frozen=True, eq=False)
class Heads:
    """Trained heads with ``r = m m^T``: m [H, F], b [H], c.

    Raises :class:`UserError` where there is no head, or the shapes disagree.
    """

    activation: str
    tokens: int
    prior: Prior
    m: np.ndarray
    b: np.ndarray
    c: float = 1.0

    def __post_init__(self) -> None:
        """Check; c is 1 for an activation without it."""
        if not get_activation(self.activation).has_c:
            object.__setattr__(self, "c", 1.0)
        if np.ndim(self.m) != 2 or len(self.m) == 0:
            raise UserError("heads: m has no head; give a row of overlaps for each head")
        if self.m.shape[1] != self.prior.dim_features or np.shape(self.b) != (len(self.m),):
            raise UserError(
                f"heads: m is {self.m.shape[0]} x {self.m.shape[1]} and b has shape "
                f"{np.shape(self.b)}; give {self.prior.dim_features} overlaps and one b for a head"
            )

    def only(self, kept: Sequence[int], c: float) -> Heads:
        """The heads ``kept``, with output scale c."""
        rows = list(kept)
        return replace(self, m=self.m[rows], b=self.b[rows], c=c)

    def loss(self) -> Quadrature:
        """E by quadrature."""
        return population_loss(self.activation, self.tokens, self.prior, self.m, b=self.b, c=self.c)

    def points(self, base_points: int, seed: int = 0) -> PopulationLoss:
        """A set of Sobol points for these heads."""
        rule = get_activation(self.activation)
        return PopulationLoss(rule, self.tokens, self.prior, base_points=base_points, seed=seed)

    def retrained(self, tau: float, *, points: int, seed: int = 0) -> Heads:
        """Heads after gradient flow for a time ``tau`` from where they are, in m, b and c.

        ``points``: Sobol points in all, with their images.
        """
        start = FlowProblem(self.activation, self.tokens, self.prior, self.m, b0=self.b, c0=self.c)
        return _after(start, tau, points, seed)[0]

    def doubts(self) -> Iterator[str]:
        """Signs that training fitted the points it was done on, one line each.

        Heads that B-softmax does not need may diverge towards single points, which the loss on
        those points rewards and the loss does not.
        """
        diverged = np.linalg.norm(self.m, axis=1) > _DIVERGED * self.prior.size
        if diverged.any():
            yield (
                f"{np.sum(diverged)} of {len(self.m)} heads diverged, to fit single points: there "
                "are more heads than needed, or too few points"
            )


def train_heads(
    activation: str,
    tokens: int,
    prior: Prior,
    heads: int,
    tau: float,
    *,
    sigma: float,
    dim: float,
    rng: np.random.Generator,
    points: int,
    seed: int = 0,
) -> tuple[Heads, Flow]:
    """Heads after gradient flow for a time ``tau`` in the span of the spikes, and their flow.

    The start is ``m_hf ~ N(0, sigma^2 / dim)`` from ``rng``, ``r = m m^T``; ``points`` Sobol points
    in all, with their images. Raises :class:`UserError` for no head.
    """
    if heads < 1:
        raise UserError(f"heads = {heads} must be at least 1")
    m, _ = initial_order_parameters(rng, heads, prior.dim_features, sigma=sigma, dim=dim)
    return _after(FlowProblem(activation, tokens, prior, m), tau, points, seed)


def _after(start: FlowProblem, tau: float, points: int, seed: int) -> tuple[Heads, Flow]:
    images = len(start.prior.images().weights)
    base = 2 ** int(np.log2(max(2.0, points / images)))
    times = np.linspace(0.0, tau, _TIMES)
    flow = solve_flow(start, times, base_points=base, seed=seed, with_loss=False)
    m, b, c = flow.m[-1], flow.b[-1], float(flow.c[-1])
    return Heads(start.activation, start.tokens, start.prior, m, b, c), flow
