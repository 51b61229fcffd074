"""Trained instances beside their theory: statistics over instances, flags, validation rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hdattn.figures import validation

if TYPE_CHECKING:
    from hdattn.store import Record


def theory_values(datasets: dict[str, np.ndarray], quantity: str) -> np.ndarray:
    """``quantity`` of a state-evolution record; ``overlap_error`` is ``Q0 - 2 M + Q``."""
    if quantity == "overlap_error":
        return datasets["Q0"] - 2 * datasets["M"] + datasets["Q"]
    return datasets[quantity]


def theory_flags(datasets: dict[str, np.ndarray]) -> np.ndarray:
    """Points of a state-evolution record that are not to be trusted."""
    return ~datasets["converged"] | (datasets["flags"] != "")


def theory_complaints(record: Record, what: str) -> list[str]:
    """One line for each flagged point of a state-evolution record."""
    datasets = record.datasets
    flagged = theory_flags(datasets)
    anywhere = flagged if flagged.ndim == 1 else flagged.any(axis=0)  # of several instances
    return complaints_at(f"theory, {what}", datasets["alpha"][anywhere])


def complaints_at(what: str, alphas: np.ndarray) -> list[str]:
    """One line for each sample ratio where ``what`` is not to be trusted."""
    return [f"{what}: not converged or unreliable at alpha = {alpha:g}" for alpha in alphas]


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Trained instances beside the theory for each instance's own target.

    ``trained`` and ``own`` are the records of the blocks, in the same order; the theory may hold
    more alphas than were trained.
    """

    trained: Sequence[Record]
    own: Sequence[Record]

    @property
    def alphas(self) -> np.ndarray:
        """Sample ratios that were trained [a]."""
        return self.trained[0].datasets["alpha"]

    @property
    def instances(self) -> int:
        """Number of instances."""
        return sum(len(record.datasets["instance"]) for record in self.trained)

    @property
    def dim(self) -> int:
        """Dimension d."""
        return self.trained[0].parameters["data"]["dim"]

    @property
    def _columns(self) -> np.ndarray:
        solved = self.own[0].datasets["alpha"].tolist()
        return np.array([solved.index(alpha) for alpha in self.alphas])

    def simulation(self, quantity: str) -> np.ndarray:
        """Trained values [instance, a]."""
        return np.concatenate([r.datasets[quantity] for r in self.trained])

    def theory(self, quantity: str) -> np.ndarray:
        """Theory for the instances' own targets [instance, a]."""
        curves = [theory_values(record.datasets, quantity) for record in self.own]
        return np.concatenate(curves)[:, self._columns]

    @cached_property
    def theory_flagged(self) -> np.ndarray:
        """Sample ratios [a] where the theory of some instance is not to be trusted."""
        theory = np.concatenate([theory_flags(record.datasets) for record in self.own])
        return theory[:, self._columns].any(axis=0)

    @cached_property
    def flagged(self) -> np.ndarray:
        """Sample ratios [a] where some instance's training or theory is not to be trusted."""
        return self.theory_flagged | ~self.simulation("converged").all(axis=0)

    def complaints(self, what: str) -> list[str]:
        """One line for each flagged sample ratio; ``what`` was trained."""
        return complaints_at(f"{what}, or the theory of its targets", self.alphas[self.flagged])

    def mean_and_error(self, quantity: str) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard error over instances of the trained values, each [a]."""
        pairs = [validation.mean_and_error(column) for column in self.simulation(quantity).T]
        return tuple(np.array(pairs).T)

    def residual(self, quantity: str) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard error [a] of simulation - theory, relative to the mean theory."""
        theory = self.theory(quantity)
        scale = theory.mean(axis=0)
        columns = (self.simulation(quantity) - theory).T
        pairs = np.array([validation.mean_and_error(column) for column in columns])
        return pairs[:, 0] / scale, pairs[:, 1] / scale

    def validation(
        self, figure: str, quantity: str, where: str, constants: Mapping[float, float]
    ) -> list[dict[str, Any]]:
        """Validation rows, one for each alpha; ``constants`` are those of the allowance."""
        theory, simulation = self.theory(quantity), self.simulation(quantity)
        return [
            validation.paired_row(
                f"alpha={alpha:g} {where}",
                theory[:, a],
                simulation[:, a],
                constants[alpha],
                self.dim,
                figure=figure,
                quantity=quantity,
                reliable=not flagged,
            )
            for a, (alpha, flagged) in enumerate(
                zip(self.alphas.tolist(), self.flagged, strict=True)
            )
        ]


def allowances(quantity: str, small: Ensemble) -> dict[float, float]:
    """Constant of the finite-size allowance at each alpha, from a smaller dimension.

    NaN where the smaller simulation or its theory is not to be trusted.
    """
    constants = validation.allowance_constants(small.dim, *small.residual(quantity), ~small.flagged)
    return dict(zip(small.alphas.tolist(), constants.tolist(), strict=True))


def rank_allowances(ensemble: Ensemble) -> dict[float, float]:
    """The same for the rank fraction: one eigenvalue, ``1/d``, at each alpha."""
    constants = 1 / np.maximum(ensemble.theory("rank_fraction").mean(axis=0), 1 / ensemble.dim)
    return dict(zip(ensemble.alphas.tolist(), constants.tolist(), strict=True))
