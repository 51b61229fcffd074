"""Input steps of message passing: spectral denoisers of R, with their response D."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hdattn.singlehead.attention import Array
from hdattn.singlehead.denoisers import PENALTIES
from hdattn.singlehead.problem import Problem

SLOPE_STEP = 1e-3  # of sigma: step of the differences that give the slope of the Bayes denoiser

EDGE = 1e-6  # of an interval's width: distance that keeps off the branch points at its ends


@dataclass(frozen=True, eq=False)
class Estimated:
    """S = phi(R) with its eigenvalues [d], and D = (1/d^2) sum of dS_ij/dR_ij, over i <= j twice.

    D = (2/d^2) [sum_{i<j} (phi_i - phi_j)/(x_i - x_j) + sum_i phi'_i].
    """

    S: Array
    eigenvalues: Array
    D: float


class InputStep(Protocol):
    """A denoiser of R = S0 + noise, acting on eigenvalues."""

    def start(self) -> tuple[float, float]:
        """S = s I and V with which message passing starts: s, V."""

    def denoise(self, x: Array, v_hat: float) -> tuple[Array, Array]:
        """phi and phi' at eigenvalues x [d]."""


class PenaltyInput:
    """phi of the penalty on S: the soft threshold at lam_eff/(alpha v_hat) for weight decay."""

    def __init__(self, problem: Problem):
        self.problem, self.penalty = problem, PENALTIES[problem.penalty]

    def start(self) -> tuple[float, float]:
        """S = 0, V = 1/beta^2."""
        return 0.0, 1 / self.problem.beta**2

    def denoise(self, x: Array, v_hat: float) -> tuple[Array, Array]:
        """phi and phi'."""
        strength = self.problem.lam_eff / (self.problem.alpha * v_hat)
        return self.penalty.denoise(x, strength), self.penalty.slope(x, strength)

    def penalty_value(self, eigenvalues: Array) -> float:
        """Penalty per sample of S with these eigenvalues."""
        value = np.mean(self.penalty.value(eigenvalues))
        return float(self.problem.lam_eff / self.problem.alpha * value)


class BayesInput:
    """xi(x) = x - 2 sigma^2 h(x), the posterior mean given the law of S0 + sigma Z.

    At a Bayes-optimal point sigma^2 = 1/(2 alpha v_hat). At finite d a few eigenvalues lie outside
    the support of the law, where xi is steep without bound and iterations would not settle: there
    h is that of the nearest edge.
    """

    def __init__(self, problem: Problem):
        self.problem = problem

    def start(self) -> tuple[float, float]:
        """The prior: S = T0 I, V = Q0 - T0^2."""
        target = self.problem.target
        return target.T0, target.Q0 - target.T0**2

    def denoise(self, x: Array, v_hat: float) -> tuple[Array, Array]:
        """Xi, and its slope by central differences."""
        sigma = 1 / np.sqrt(2 * self.problem.alpha * v_hat)
        law, step = self.problem.target.convolve(sigma), SLOPE_STEP * sigma
        points = np.concatenate([x, x - step, x + step])
        h = law.hilbert(_nearest(points, law.intervals))
        xi, low, high = np.split(points - 2 * sigma**2 * h, 3)
        return xi, (high - low) / (2 * step)

    def penalty_value(self, eigenvalues: Array) -> float:
        """Nothing is penalised."""
        return 0.0


def _nearest(x: Array, intervals: Array) -> Array:
    """Points nearest to x [n] in a union of intervals [k, 2], a little inside of their edges."""
    margin = EDGE * (intervals[:, 1] - intervals[:, 0])
    inside = np.clip(x[:, None], intervals[:, 0] + margin, intervals[:, 1] - margin)
    return inside[np.arange(x.size), np.argmin(np.abs(inside - x[:, None]), axis=1)]


def estimate(step: InputStep, R: Array, v_hat: float) -> Estimated:
    """Apply a denoiser to the eigenvalues of symmetric R [d, d]."""
    x, vectors = np.linalg.eigh(R)
    phi, slope = step.denoise(x, v_hat)
    return Estimated((vectors * phi) @ vectors.T, phi, response(x, phi, slope))


def response(x: Array, phi: Array, slope: Array) -> float:
    """D from eigenvalues x of R, their images and slopes, all [d]."""
    gap = x[:, None] - x
    same = np.abs(gap) < 1e-12 * max(np.abs(x).max(), 1e-300)
    ratio = (phi[:, None] - phi) / np.where(same, 1.0, gap)
    ratio = np.where(same, 0.5 * (slope[:, None] + slope), ratio)
    return float(ratio.sum() + slope.sum()) / x.size**2
