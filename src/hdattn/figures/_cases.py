"""One activation of a figure: SGD runs, the flows from the same starts, and their comparison."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hdattn.figures import validation
from hdattn.figures._multihead import ALL_NAMES, MultiHead
from hdattn.figures._trajectories import Trajectories, loss_windows

if TYPE_CHECKING:
    from hdattn.store import Record

CHECKED = (0.25, 0.5, 1.0)  # fractions of the time of the first split at which theory is tested


@dataclass(frozen=True)
class Case:
    """Runs and flows of one activation; ``levels``: scalars of its Bayes experiment, if any."""

    activation: str
    section: MultiHead
    sgd: Trajectories
    flow: Trajectories
    levels: dict[str, float]

    @classmethod
    def read(cls, name: str, records: dict[str, list[Record]], section: MultiHead) -> Case:
        """Case of activation ``name``, from all its blocks."""
        sgd, flow = (Trajectories.merge(records[f"{kind}_{name}"]) for kind in ("sgd", "flow"))
        levels = {
            key: float(value)
            for record in records.get("bayes", [])
            for key, value in record.datasets.items()
        }
        return cls(name, section, sgd, flow, levels)

    @property
    def flipping(self) -> np.ndarray:
        """Directions with a random sign, strongest first: they are learnt in this order."""
        std = np.array(self.section.std)
        return np.argsort(-std, kind="stable")[: np.count_nonzero(std)]

    @cached_property
    def reliable(self) -> np.ndarray:
        """[I] False where SGD diverged or the integrator stopped."""
        return self.sgd.converged & self.flow.converged

    @property
    def averaged(self) -> np.ndarray:
        """Positions of the instances behind means: the reliable ones, or all if there are none."""
        return np.flatnonzero(self.reliable if self.reliable.any() else ~self.reliable)

    @cached_property
    def split(self) -> int:
        """Record of SGD at which the mean flow is half-way through its first split."""
        first = self.flipping[0]
        spread = self.flow.at(self.flow.spread, self.sgd.tau)[self.averaged, :, first]
        reached = np.flatnonzero(spread.mean(axis=0) > self.section.std[first] / 2)
        return int(reached[0]) if reached.size else len(self.sgd.tau) - 1

    @cached_property
    def example(self) -> int:
        """Position of the run whose distance from its flow, until the split, is the median one."""
        difference = self.sgd.m - self.flow.at(self.flow.m, self.sgd.tau)
        distance = np.mean(difference[:, : self.split + 1] ** 2, axis=(1, 2, 3))
        ordered = self.averaged[np.argsort(distance[self.averaged])]
        return int(ordered[(len(ordered) - 1) // 2])

    def rate(self, spike: int) -> float:
        """Growth rate |lambda_f| = (2/H) omega_f^2 beta of the head spread at the plateau."""
        beta = self.levels[f"beta_{self.activation}"]
        return 2 / self.section.heads * self.section.std[spike] ** 2 * beta

    def flags(self) -> list[str]:
        """One line for each run that cannot be trusted."""
        problems = (
            (self.sgd.converged, "SGD diverged"),
            (self.flow.converged, "the integrator of the flow stopped early"),
        )
        return [
            f"{ALL_NAMES[self.activation]}, run {number}: {problem}"
            for fine, problem in problems
            for number in self.sgd.instance[~fine]
        ]

    def validation(self, figure: str) -> Iterator[dict[str, Any]]:
        """Theory against simulation until the first split, run by run.

        The allowance for finite size is C/D with C = E |theta|^2, since at dimension D the hidden
        token weighs 1 + |theta|^2 / D in the loss.
        """
        constant = float(np.sum(np.square([self.section.mean, self.section.std])))
        records = sorted({max(1, round(fraction * self.split)) for fraction in CHECKED})
        for quantity, (theory, simulation) in self._compared().items():
            for k in records:
                yield validation.paired_row(
                    f"{self.activation} tau={self.sgd.tau[k]:g}",
                    theory[self.averaged, k],
                    simulation[self.averaged, k],
                    constant,
                    self.section.dim,
                    figure=figure,
                    quantity=quantity,
                    reliable=bool(self.reliable.all()),
                )

    def _compared(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Flow and SGD [I, T] of each quantity that is compared.

        Along the direction that splits first, SGD is projected on the pattern of its own flow:
        head by head, and without the bias that noise gives to a spread.
        """
        sgd, flow, tau, first = self.sgd, self.flow, self.sgd.tau, self.flipping[0]
        m = flow.at(flow.m, tau)
        size = np.linalg.norm(m[..., first], axis=2)
        aligned = np.sum(sgd.m[..., first] * m[..., first], axis=2) / size
        compared = {
            "head norm r_hh": (flow.at(flow.norm, tau), sgd.norm),
            "overlap with the first split": (size, aligned),
            "loss": (flow.averages(flow.loss, loss_windows(tau)), sgd.loss),
        }
        for spike in np.flatnonzero(self.section.mean):
            overlaps = (values[..., spike].mean(axis=2) for values in (m, sgd.m))
            compared["overlap with the mean"] = tuple(overlaps)
        return compared
