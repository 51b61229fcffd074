"""Trajectories of SGD or of the flow: the blocks of all instances put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hdattn.store import Record


@dataclass(frozen=True)
class Trajectories:
    """I instances at T times: tau [T], m [I, T, H, F], r [I, T, H, H], loss [I, T].

    b [I, T, H] and c [I, T] where they were recorded. instance [I] numbers the instances;
    converged [I] is False where SGD diverged or the integrator stopped, after which the records
    are NaN.
    """

    instance: np.ndarray
    tau: np.ndarray
    m: np.ndarray
    r: np.ndarray
    loss: np.ndarray
    converged: np.ndarray
    b: np.ndarray | None = None
    c: np.ndarray | None = None

    @classmethod
    def merge(cls, records: Sequence[Record]) -> Trajectories:
        """All blocks of one experiment; they share their times."""
        blocks = [record.datasets for record in records]
        names = ("instance", "m", "r", "loss", "converged", "b", "c")
        arrays = {name: np.concatenate([block[name] for block in blocks]) for name in names}
        return cls(tau=blocks[0]["tau"], **arrays)

    @property
    def spread(self) -> np.ndarray:
        """Standard deviation of m_hf over the heads, [I, T, F]: zero where heads are alike."""
        return self.m.std(axis=2)

    @property
    def norm(self) -> np.ndarray:
        """Mean over the heads of |k_h|^2 = r_hh, [I, T]."""
        return np.trace(self.r, axis1=2, axis2=3) / self.r.shape[2]

    def at(self, values: np.ndarray, tau: np.ndarray) -> np.ndarray:
        """``values`` [I, T, ...] of these trajectories at other times ``tau``, by interpolation."""
        left = self._left(tau)
        weight = (tau - self.tau[left]) / (self.tau[left + 1] - self.tau[left])
        weight = weight.reshape(-1, *(1,) * (values.ndim - 2))
        return values[:, left] * (1 - weight) + values[:, left + 1] * weight

    def averages(self, values: np.ndarray, edges: np.ndarray) -> np.ndarray:
        """Mean [I, W] of ``values`` [I, T] between consecutive times ``edges`` [W + 1]."""
        steps = np.diff(self.tau) * (values[:, 1:] + values[:, :-1]) / 2
        integral = np.concatenate([np.zeros((len(values), 1)), np.cumsum(steps, axis=1)], axis=1)
        left = self._left(edges)
        rest = (edges - self.tau[left]) * (values[:, left] + self.at(values, edges)) / 2
        return np.diff(integral[:, left] + rest, axis=1) / np.diff(edges)

    def _left(self, tau: np.ndarray) -> np.ndarray:
        """Position of the last record before each time, of the first of two records at least."""
        return np.clip(np.searchsorted(self.tau, tau) - 1, 0, len(self.tau) - 2)


def loss_windows(tau: np.ndarray) -> np.ndarray:
    """Edges [T + 1] of the times over which SGD averages its loss: midway between records."""
    return np.concatenate([tau[:1], (tau[:-1] + tau[1:]) / 2, tau[-1:]])
