"""State evolution against the way one would first write it: processor time of a solved point.

The naive solver draws samples (omega, label) afresh at each iteration, minimises the prox of each
with scipy's minimize from two starts, and differentiates it by forward differences. It shares the
input channel with the package. A part of an iteration is timed, at the fixed point; its time is
that of as many damped iterations of 1000 samples as a solved point needs (counted on the package's
own channel). The package solves it as the figures do, and with as few nodes as are needed to be as
accurate as the naive solver.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from benchmarks.timing import Settings, race, row
from hdattn.singlehead.problem import Problem
from hdattn.singlehead.starts import default_start
from hdattn.singlehead.state_evolution import make_channel, solve, solve_curve
from hdattn.singlehead.sweep import Sweep, distance, encode

TITLE = "state evolution against the naive solver"
TARGET = 1000
SAMPLES = 1000  # of an iteration of the naive solver
STEP = 1e-4  # of the forward differences
NAMES = ("v_hat", "m_hat", "q_hat")
DIGITS = 1e-4  # residual at which the damped iteration is stopped
COVARIANCE = np.array([[3.0, 1.0], [1.0, 3.0]])
PRECISION = np.linalg.inv(COVARIANCE)
PROBLEM = Problem(1.0, 0.1)


def sigmoid(z):
    """The softmax of two tokens."""
    return 1 / (1 + np.exp(-z))


def force(z0, omega, V):
    """f = C^{-1}(z* - omega)/V of one sample: the better of two local minima."""
    y = sigmoid(z0)

    def value(z):
        shift = z - omega
        return 2 * np.sum((y - sigmoid(z)) ** 2) + shift @ PRECISION @ shift / (2 * V)

    best = min((minimize(value, start) for start in (omega, z0)), key=lambda found: found.fun)
    return PRECISION @ (best.x - omega) / V


class NaiveChannel:
    """Moments of the output channel at a fixed point, sample by sample."""

    def __init__(self, problem, solution, samples):
        """At the order parameters of a solution, so many samples a call."""
        self.variance = problem.label_variance
        self.Q, self.M, self.V = solution.Q, solution.M, solution.V
        self.samples, self.rng, self.rows = samples, np.random.default_rng(0), []

    def __call__(self):
        """Draw samples and keep their v_hat, m_hat and q_hat."""
        root, P = np.linalg.cholesky(COVARIANCE), self.variance
        for _ in range(self.samples):
            z0 = np.sqrt(P) * root @ self.rng.standard_normal(2)
            spread = np.sqrt(self.Q - self.M**2 / P)
            omega = self.M / P * z0 + spread * root @ self.rng.standard_normal(2)
            f = force(z0, omega, self.V)
            by_omega, by_label = np.empty((2, 2)), np.empty((2, 2))
            for j, step in enumerate(STEP * np.eye(2)):
                by_omega[:, j] = (force(z0, omega + step, self.V) - f) / STEP
                by_label[:, j] = (force(z0 + step, omega, self.V) - f) / STEP
            traces = -np.trace(COVARIANCE @ by_omega), np.trace(COVARIANCE @ by_label)
            self.rows.append((*traces, f @ COVARIANCE @ f))

    def moments(self):
        """Means [3] so far, and standard errors of an iteration of 1000 samples [3]."""
        rows = np.array(self.rows)
        return rows.mean(0), rows.std(0, ddof=1) / np.sqrt(SAMPLES)


def damped_iterations(problem):
    """Iterations of the plain fixed point, damped by 1/2, to the accuracy of the naive solver."""
    sweep = Sweep(problem, make_channel(problem, 12))
    point = encode(*default_start(problem), problem.target.Q0)
    for count in range(1, 1000):
        image = sweep(point)
        if distance(point, image) < DIGITS:
            return count
        point = 0.5 * (point + image)
    raise SystemExit("the damped iteration does not settle here; choose an easier point")


def moments_of(solution):
    """v_hat, m_hat and q_hat [3]."""
    return np.array([getattr(solution, name) for name in NAMES])


def coarsest(exact, error):
    """Fewest nodes whose moments are as right as the naive ones, and their relative error."""
    for nodes in range(4, 20, 2):
        accuracy = np.abs(moments_of(solve(PROBLEM, nodes=nodes)) / exact - 1).max()
        if accuracy <= error:
            return nodes, accuracy
    raise SystemExit("the package is less accurate than the naive solver")


def measure(settings: Settings) -> list[dict]:
    """Ratios of times for a point alone, as accurate as the naive one, and of a curve."""
    solution, exact = solve(PROBLEM), moments_of(solve(PROBLEM, nodes=26))
    accuracy = np.abs(moments_of(solution) / exact - 1).max()
    naive = NaiveChannel(PROBLEM, solution, settings.size(100, 5))
    naive()
    error = (naive.moments()[1] / exact).max()
    nodes, rough = coarsest(exact, error)
    alphas = np.geomspace(0.5, 2, settings.size(12, 3))
    kinds = [lambda: solve(PROBLEM), lambda: solve(PROBLEM, nodes=nodes), naive]
    kinds.append(lambda: solve_curve(PROBLEM, alphas))
    point, coarse, part, curve = race(kinds, settings.rounds).T
    count, timed = damped_iterations(PROBLEM), len(naive.rows)
    found, errors = naive.moments()
    error = (errors / exact).max()
    deviation = (np.abs(found - exact) / (errors * np.sqrt(SAMPLES / timed))).max()
    iteration = part / naive.samples * SAMPLES
    one = count * iteration
    same = f"{SAMPLES * (error / accuracy) ** 2:.0e}"
    return [
        row(
            "a point, as the figures solve it",
            one / point,
            "x",
            at_least=TARGET,
            detail=f"{np.median(point):.2f} s, moments right to {accuracy:.0e}, against {count} "
            f"iterations of {np.median(iteration):.0f} s, right to {error:.0%} "
            f"(extrapolated from {timed} samples timed, whose moments are {deviation:.1f} standard "
            f"errors from the package's at most); {same} samples would be as right",
        ),
        row(
            "a point at equal accuracy",
            one / coarse,
            "x",
            at_least=TARGET,
            detail=f"{nodes} nodes in place of 18, moments right to {rough:.1%}: "
            f"{np.median(coarse):.2f} s",
        ),
        row(
            "a point of a curve, as the figures solve it",
            one / curve * alphas.size,
            "x",
            at_least=TARGET,
            detail=f"continuation through {alphas.size} alphas: "
            f"{np.median(curve) / alphas.size:.2f} s a point",
        ),
    ]
