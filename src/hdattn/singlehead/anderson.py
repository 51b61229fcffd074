"""Fixed points of a map of a few unknowns: damped start, then Anderson acceleration."""

from __future__ import annotations

import numpy as np


class AndersonMixer:
    """Proposes the next point from the history of (point, image) pairs.

    Steps are damped by 1/2 until the residual is below `near` and for the first `warmup` of them;
    then the last `memory` differences are combined (type II). When the residual grows well beyond
    the best one the history is dropped and damped steps follow, more cautious each time.
    """

    def __init__(self, memory: int = 4, warmup: int = 3, near: float = 0.25):
        self.memory, self.warmup, self.near = memory, warmup, near
        self.limit, self.reach = 0.5, 4.0
        self.restarts = -1
        self._forget()

    def _forget(self):
        self.restarts += 1
        self.history: list[tuple[np.ndarray, np.ndarray]] = []
        self.best = np.inf
        self.cooling = self.warmup

    def propose(self, point: np.ndarray, image: np.ndarray) -> np.ndarray:
        """Next point to evaluate."""
        residual = image - point
        size = np.abs(residual).max()
        if size > 4 * self.best and self.cooling <= 0:
            self._forget()
        self.best = min(self.best, size)
        self.history = [*self.history[-self.memory :], (point, residual)]
        return point + self._step(residual, size)

    def _step(self, residual: np.ndarray, size: float) -> np.ndarray:
        if self.cooling > 0 or size > self.near or len(self.history) < 2:
            self.cooling -= 1
            return np.clip(residual * max(0.5 * 0.8**self.restarts, 0.1), -1.0, 1.0)
        change_x, change_r = (
            np.diff(np.array(part), axis=0).T for part in zip(*self.history, strict=True)
        )
        gamma = np.linalg.lstsq(change_r, residual, rcond=1e-10)[0]
        step = residual - (change_x + change_r) @ gamma
        # a step much longer than the residual extrapolates too far to be trusted
        longest = min(self.limit, self.reach * size)
        return step * min(1.0, longest / max(np.abs(step).max(), 1e-300))
