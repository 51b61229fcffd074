"""Fixed points of a map of a few unknowns: damped start, then Anderson acceleration."""

from __future__ import annotations

import numpy as np


class AndersonMixer:
    """Proposes the next point from the history of (point, image) pairs.

    The first `warmup` steps are damped by 1/2; then the last `memory` differences are combined
    (type II). When the residual grows well beyond the best one, the history is dropped and
    a few damped steps follow.
    """

    def __init__(self, memory: int = 4, warmup: int = 3, damping: float = 0.5, limit: float = 1.0):
        self.memory, self.warmup, self.damping, self.limit = memory, warmup, damping, limit
        self.points: list[np.ndarray] = []
        self.residuals: list[np.ndarray] = []
        self.best = np.inf
        self.cooling = warmup
        self.restarts = 0

    def propose(self, point: np.ndarray, image: np.ndarray) -> np.ndarray:
        """Next point to evaluate, at most `limit` away in every coordinate."""
        residual = image - point
        size = np.abs(residual).max()
        if size > 4 * self.best and len(self.points) > 1:
            self._restart()
        self.best = min(self.best, size)
        self.points.append(point)
        self.residuals.append(residual)
        self.points, self.residuals = (
            part[-self.memory - 1 :] for part in (self.points, self.residuals)
        )
        step = self._step(residual)
        return point + step * min(1.0, self.limit / max(np.abs(step).max(), 1e-300))

    def _restart(self):
        self.points, self.residuals, self.best = [], [], np.inf
        self.restarts += 1
        self.cooling = self.warmup

    def _step(self, residual):
        if self.cooling > 0 or len(self.points) < 2:
            self.cooling -= 1
            # each restart halves the damping: slow directions need patience, not memory
            return residual * self.damping * max(0.5**self.restarts, 0.1)
        change_r = np.diff(np.array(self.residuals), axis=0).T
        change_x = np.diff(np.array(self.points), axis=0).T
        gamma = np.linalg.lstsq(change_r, residual, rcond=1e-10)[0]
        return residual - (change_x + change_r) @ gamma
