"""Experiments with message passing, and its iterates beside the state evolution's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hdattn.experiment import Experiment
from hdattn.figures import validation
from hdattn.figures._singlehead import SingleHead, data_blocks
from hdattn.singlehead.sample_size import check_sample_ratios

if TYPE_CHECKING:
    from hdattn.store import Record


@dataclass(frozen=True)
class Passing:
    """How message passing is run; ``lams``: one for each alpha, or the experiment that knows."""

    alphas: Sequence[float]
    lams: Sequence[float] | Experiment
    denoiser: str = "soft"
    damping: float = 0.0
    iterations: int = 100
    tolerance: float = 1e-6
    kappa: float = 1.0

    def parameters(self, section: SingleHead) -> dict[str, Any]:
        """What both the algorithm and its theory depend on."""
        best = isinstance(self.lams, Experiment)
        return {
            "alphas": list(self.alphas),
            **({"best": self.lams.parameters} if best else {"lams": list(self.lams)}),
            "kappa": self.kappa,
            "beta": section.beta,
            "penalty": "nuclear",
            "denoiser": self.denoiser,
            "damping": self.damping,
            "iterations": self.iterations,
        }

    @property
    def inputs(self) -> dict[str, Experiment]:
        """The experiment that knows the weight decays, if there is one."""
        return {"best": self.lams} if isinstance(self.lams, Experiment) else {}


def passings(section: SingleHead, seed: int, dim: int, passing: Passing) -> list[Experiment]:
    """Message passing on all instances, one experiment a block."""
    check_sample_ratios(passing.alphas, dim)
    return [
        Experiment(
            "singlehead/amp",
            {
                **data.parameters,
                **passing.parameters(section),
                "tolerance": passing.tolerance,
                "test_samples": section.test_samples,
            },
            {"data": data, **passing.inputs},
            slug=f"{passing.denoiser}-d{dim}-b{data.parameters['block']}",
        )
        for data in data_blocks(section, seed, dim)
    ]


def own_trajectories(
    section: SingleHead, seed: int, dim: int, passing: Passing
) -> list[Experiment]:
    """State evolution of message passing for the instances' own targets, iterate by iterate."""
    return [
        Experiment(
            "singlehead/amp_state_evolution",
            {**data.parameters, **passing.parameters(section), "nodes": section.nodes},
            {"data": data, **passing.inputs},
            slug=f"{passing.denoiser}-d{dim}-b{data.parameters['block']}",
        )
        for data in data_blocks(section, seed, dim)
    ]


@dataclass(frozen=True, eq=False)
class Passed:
    """Message passing on an ensemble beside its theory; records of the blocks in one order."""

    runs: Sequence[Record]
    own: Sequence[Record]

    @property
    def dim(self) -> int:
        """Dimension d."""
        return self.runs[0].parameters["data"]["dim"]

    @property
    def instances(self) -> int:
        """Number of instances."""
        return len(self.simulation("converged"))

    @property
    def iterations(self) -> int:
        """Iterations of the longest run."""
        return int(self.simulation("iterations").max())

    def simulation(self, name: str) -> np.ndarray:
        """Values of the runs, instance first; finished runs stay where they ended."""
        values = np.concatenate([record.datasets[name] for record in self.runs])
        if values.ndim < 3:
            return values
        done = np.concatenate([record.datasets["iterations"] for record in self.runs])
        past = np.minimum(np.arange(values.shape[2]), done[:, :, None])
        return np.take_along_axis(values, past, axis=2)

    def theory(self, name: str) -> np.ndarray:
        """Theory of the instances' own targets, instance first."""
        return np.concatenate([record.datasets[name] for record in self.own])

    def reached(self, iteration: int, ended: bool) -> bool:
        """Whether all runs came to an iteration or converged before; all converged, if ended."""
        converged = self.simulation("converged")
        alive = self.simulation("iterations") >= iteration
        return bool((converged if ended else converged | alive).all())

    def complaints(self, what: str) -> list[str]:
        """One line for each alpha where some run did not converge."""
        alphas = self.runs[0].datasets["alpha"]
        late = ~self.simulation("converged").all(axis=0)
        return [f"{what}: not converged at alpha = {alpha:g}" for alpha in alphas[late]]


@dataclass(frozen=True, eq=False)
class Pair:
    """Simulation and theory [instance, point] of one quantity at dimension ``dim``."""

    dim: int
    simulation: np.ndarray
    theory: np.ndarray

    def constants(self, trusted: Sequence[bool]) -> np.ndarray:
        """Constants of the finite-size allowance, for points at a larger dimension."""
        mean, error = statistics(self.simulation - self.theory)
        scale = np.abs(self.theory.mean(axis=0))
        return validation.allowance_constants(self.dim, mean / scale, error / scale, trusted)


def validation_rows(
    large: Pair,
    small: Pair,
    points: Sequence[str],
    reliable: tuple[Sequence[bool], Sequence[bool]],
    **where: Any,
) -> list[dict[str, Any]]:
    """Validation rows, one for each point; allowances are measured at the smaller dimension.

    ``reliable``: at which points each can be trusted.
    """
    constants = small.constants(reliable[1])
    return [
        validation.paired_row(
            point,
            large.theory[:, i],
            large.simulation[:, i],
            constant,
            large.dim,
            reliable=bool(reliable[0][i]),
            **where,
        )
        for i, (point, constant) in enumerate(zip(points, constants, strict=True))
    ]


def statistics(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error over instances of values [instance, point]."""
    pairs = np.array([validation.mean_and_error(column) for column in values.T])
    return pairs[:, 0], pairs[:, 1]
