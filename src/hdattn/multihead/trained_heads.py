"""Heads that were trained: a thing that has a loss, can be cut down, trained on and judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hdattn.errors import UserError
from hdattn.multihead.activations import get_activation
from hdattn.multihead.flow import FlowProblem, solve_flow
from hdattn.multihead.population import PopulationLoss
from hdattn.multihead.priors import Prior
from hdattn.multihead.quadrature import population_loss
from hdattn.multihead.token_moments import Quadrature

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

    def retrained(self, tau: float, *, base_points: int, seed: int = 0) -> Heads:
        """Heads after gradient flow for a time ``tau`` from where they are, in m, b and c."""
        problem = FlowProblem(
            self.activation, self.tokens, self.prior, self.m, b0=self.b, c0=self.c
        )
        flow = solve_flow(
            problem, np.array([tau]), base_points=base_points, seed=seed, with_loss=False
        )
        return replace(self, m=flow.m[-1], b=flow.b[-1], c=float(flow.c[-1]))

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
