"""One sweep of the state evolution, in coordinates in which its fixed points are looked for.

(Q, M, V) -> output channel -> (v_hat, m_hat, q_hat) -> input channel -> (Q, M, V), on the point
(log Q, atanh M/sqrt(Q Q0), log V).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hdattn.singlehead.channel import Channel, ChannelMoments
from hdattn.singlehead.denoisers import PENALTIES, Estimate
from hdattn.singlehead.problem import Problem

FAR = 40.0  # largest coordinate that is looked at: Q from 1e-17 to 1e17
TINY_RESPONSE = 1e-10  # v_hat V, of order one at any solution, below which it is not believed
REFRESH = 0.03  # change of a coordinate from which the minimisations start afresh
SLOPE_STEP = 1e-3  # of the differences that give the derivative of a sweep
VANISHED = 1e-12  # Q/Q0 below which S is taken to vanish


@dataclass
class Sweep:
    """One sweep of the state evolution; remembers its last point, image and moments."""

    problem: Problem
    channel: Channel
    moments: ChannelMoments | None = None
    estimate: Estimate | None = None
    input_channel: tuple[float, float, float] | None = None
    collapsed: bool = False
    fresh: np.ndarray | None = None
    """Where the minimisations of the prox were last started afresh."""
    last: tuple[np.ndarray, np.ndarray, bool] | None = None
    """Last point, its image, and whether fresh starts of the prox would give the same."""

    def __call__(self, point: np.ndarray, cold: bool = False) -> np.ndarray:
        """Image of (log Q, atanh M/sqrt(Q Q0), log V); cold: with fresh starts of the prox."""
        # minima followed from point to point may merge, and new ones appear unseen
        cold = cold or self.fresh is None or np.abs(point - self.fresh).max() > REFRESH
        self.fresh = point.copy() if cold else self.fresh
        image = self._image(point, cold)
        self.last = (point.copy(), image, cold or self.channel.doubts == 0)
        return image

    def afresh(self, point: np.ndarray) -> np.ndarray:
        """Image with fresh starts of the prox, computed anew only where it may differ."""
        if self.last is not None and self.last[2] and np.array_equal(self.last[0], point):
            return self.last[1]
        return self(point, cold=True)

    def _image(self, point: np.ndarray, cold: bool) -> np.ndarray:
        Q, M, V = decode(np.clip(point, -FAR, FAR), self.problem.target.Q0)
        moments = self.channel.moments(Q, M, V, cold)
        # far from any solution the mean response may have the wrong sign: S then shrinks
        self.moments = replace(moments, v_hat=max(moments.v_hat, TINY_RESPONSE / V))
        self.input_channel = input_channel(self.problem, self.moments)
        self.estimate = PENALTIES[self.problem.penalty].estimate(
            self.problem.target, *self.input_channel
        )
        new_V = self.estimate.D / (2 * self.problem.alpha * self.moments.v_hat)
        self.collapsed = self.estimate.Q <= 1e-3 * VANISHED * Q
        if self.collapsed:
            # the threshold exceeds the edge: S shrinks; how fast is immaterial
            return point + np.array([-2.0, 0.0, -2.0])
        return encode(self.estimate.Q, self.estimate.M, new_V, self.problem.target.Q0)


def input_channel(problem: Problem, moments: ChannelMoments) -> tuple[float, float, float]:
    """(a, b, strength) of R = a S0 + b Z from the hatted parameters."""
    v_hat = moments.v_hat
    return (
        moments.m_hat / v_hat,
        float(np.sqrt(moments.q_hat / (2 * problem.alpha))) / v_hat,
        problem.lam_eff / (problem.alpha * v_hat),
    )


def slope(sweep: Sweep, point: np.ndarray) -> np.ndarray:
    """Derivative [3, 3] of a sweep at a point, by forward differences."""
    image = sweep(point)
    steps = SLOPE_STEP * np.eye(3)
    return np.array([(sweep(point + step) - image) / SLOPE_STEP for step in steps]).T


def encode(Q: float, M: float, V: float, Q0: float) -> np.ndarray:
    """The point (log Q, atanh M/sqrt(Q Q0), log V)."""
    cosine = np.clip(M / np.sqrt(Q * Q0), -1 + 1e-15, 1 - 1e-15)
    return np.array([np.log(Q), np.arctanh(cosine), np.log(V)])


def decode(point: np.ndarray, Q0: float) -> tuple[float, float, float]:
    """(Q, M, V) of a point."""
    Q = float(np.exp(point[0]))
    return Q, float(np.tanh(point[1]) * np.sqrt(Q * Q0)), float(np.exp(point[2]))


def distance(point: np.ndarray, image: np.ndarray) -> float:
    """Largest change of (log Q, atanh M/sqrt(Q Q0), log V).

    Close to perfect recovery, where the second coordinate diverges and rounding moves it, its
    change counts in proportion to 1 - M^2/(Q Q0).
    """
    change = np.abs(image - point)
    change[1] *= min(1.0, 1e3 / np.cosh(min(point[1], 300.0)) ** 2)
    return float(change.max())
