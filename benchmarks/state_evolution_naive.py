"""State evolution against the way one would first write it: processor time of one solved point.

    python benchmarks/state_evolution_naive.py [--alpha 1] [--lam 0.1] [--iterations 2]

The naive solver draws 1000 samples (omega, label) afresh at each iteration, minimises the prox of
each with scipy's minimize from two starts, and differentiates it by forward differences. It shares
the input channel with the package. A few of its iterations are timed, at the fixed point; printed
are its time for as many damped iterations as a solved point needs (counted on the package's own
channel), and the same at equal accuracy, extrapolated: its error falls like one over the square
root of the number of samples.
"""

import argparse
import os
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402 (threads first)
from scipy.optimize import minimize  # noqa: E402

from hdattn.singlehead.problem import Problem  # noqa: E402
from hdattn.singlehead.starts import default_start  # noqa: E402
from hdattn.singlehead.state_evolution import make_channel, solve  # noqa: E402
from hdattn.singlehead.sweep import Sweep, distance, encode  # noqa: E402

SAMPLES = 1000
STEP = 1e-4  # of the forward differences
NAMES = ("v_hat", "m_hat", "q_hat")
DIGITS = 1e-4  # residual at which the damped iteration is stopped
COVARIANCE = np.array([[3.0, 1.0], [1.0, 3.0]])
PRECISION = np.linalg.inv(COVARIANCE)


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


def naive_moments(rng, P, Q, M, V):
    """v_hat, m_hat and q_hat [3], and their standard errors, from fresh samples."""
    root = np.linalg.cholesky(COVARIANCE)
    rows = []
    for _ in range(SAMPLES):
        z0 = np.sqrt(P) * root @ rng.standard_normal(2)
        omega = M / P * z0 + np.sqrt(Q - M**2 / P) * root @ rng.standard_normal(2)
        f = force(z0, omega, V)
        by_omega, by_label = np.empty((2, 2)), np.empty((2, 2))
        for j, step in enumerate(STEP * np.eye(2)):
            by_omega[:, j] = (force(z0, omega + step, V) - f) / STEP
            by_label[:, j] = (force(z0 + step, omega, V) - f) / STEP
        traces = -np.trace(COVARIANCE @ by_omega), np.trace(COVARIANCE @ by_label)
        rows.append((*traces, f @ COVARIANCE @ f))
    rows = np.array(rows)
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


def measure_package(problem):
    """Solution, its seconds, exact moments [3], and the relative accuracy of the solution's."""
    solve(problem, nodes=10)  # imports and tables
    begun = time.process_time()
    solution = solve(problem)
    seconds = time.process_time() - begun
    fine = solve(problem, nodes=26)
    exact, found = (np.array([getattr(s, name) for name in NAMES]) for s in (fine, solution))
    return solution, seconds, exact, np.abs(found / exact - 1).max()


def measure_naive(problem, solution, iterations):
    """Seconds of an iteration at the solution, its moments and their standard errors [3]."""
    rng = np.random.default_rng(0)
    begun = time.process_time()
    rounds = [
        naive_moments(rng, problem.label_variance, solution.Q, solution.M, solution.V)
        for _ in range(iterations)
    ]
    seconds = (time.process_time() - begun) / iterations
    return seconds, *np.mean(rounds, axis=0)


def main() -> None:
    """Time both and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--alpha", type=float, default=1.0)
    parser.add_argument("--lam", type=float, default=0.1)
    parser.add_argument("--iterations", type=int, default=2, help="naive iterations to time")
    options = parser.parse_args()
    problem = Problem(options.alpha, options.lam)
    solution, ours, exact, accuracy = measure_package(problem)
    seconds, found, errors = measure_naive(problem, solution, options.iterations)
    error, count = (errors / exact).max(), damped_iterations(problem)
    samples = SAMPLES * (error / accuracy) ** 2
    one, equal = count * seconds, count * seconds * samples / SAMPLES

    print(f"alpha = {options.alpha:g}, lam = {options.lam:g}, one thread")
    print(f"package: {ours:.2f} s a point; moments right to {accuracy:.1e} (26 against 18 nodes)")
    print(f"naive: {seconds:.1f} s an iteration of {SAMPLES} samples ({options.iterations} timed)")
    for row in zip(NAMES, exact, found, errors, strict=True):
        print("  {}: package {:.5f}, naive {:.5f} +- {:.5f}".format(*row))
    print(
        f"naive point, right to {error:.1%}: {count} damped iterations, {one:.0f} s extrapolated;"
    )
    print(f"  ratio {one / ours:.0f}")
    print(f"at equal accuracy: {samples:.1e} samples an iteration, {equal:.1e} s extrapolated;")
    print(f"  ratio {equal / ours:.1e}")


if __name__ == "__main__":
    main()
