"""Deviation of SGD from the flow with and without its gamma term."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hdattn.figures import validation
from hdattn.figures._trajectories import Trajectories


@dataclass(frozen=True)
class Series:
    """Mean head norm (1/H) sum_h r_hh over runs, or over scrambles of a flow's Sobol points.

    tau, mean, error [T]; runs: how many; fine: none of them diverged.
    """

    tau: np.ndarray
    mean: np.ndarray
    error: np.ndarray
    runs: int
    fine: bool

    @classmethod
    def of(cls, runs: Trajectories) -> Series:
        """Series over the runs that did not diverge."""
        norms = runs.norm[runs.converged]
        if not len(norms):
            norms = runs.norm
        mean, error = np.transpose([validation.mean_and_error(column) for column in norms.T])
        return cls(runs.tau, mean, error, len(norms), bool(runs.converged.all()))


@dataclass(frozen=True)
class Deviation:
    """Runs at one dimension and gamma; its flow, and the one at gamma = 0."""

    dim: int
    gamma: float
    sgd: Series
    flow: Series
    gradient_flow: Series

    @property
    def with_term(self) -> tuple[float, float]:
        """SGD minus flow at the last time, and its standard error."""
        return _difference(self.sgd, self.flow)

    @property
    def without_term(self) -> tuple[float, float]:
        """SGD minus gradient flow at the last time, and its standard error."""
        return _difference(self.sgd, self.gradient_flow)

    @property
    def gap(self) -> float:
        """Flow minus gradient flow at the last time: what dropping the term costs at any D."""
        return _difference(self.flow, self.gradient_flow)[0]


def _difference(a: Series, b: Series) -> tuple[float, float]:
    return float(a.mean[-1] - b.mean[-1]), float(np.hypot(a.error[-1], b.error[-1]))


def extrapolated(deviations: Sequence[Deviation]) -> tuple[float, float]:
    """SGD at the last time for 1/D to 0, and its standard error, from the two largest dimensions.

    A correction of order 1/D cancels; one of order 1/D^2 is left.
    """
    small, large = sorted(deviations, key=lambda d: d.dim)[-2:]
    weights = np.array([-small.dim, large.dim]) / (large.dim - small.dim)
    means = np.array([small.sgd.mean[-1], large.sgd.mean[-1]])
    errors = np.array([small.sgd.error[-1], large.sgd.error[-1]])
    return float(weights @ means), float(np.linalg.norm(weights * errors))
