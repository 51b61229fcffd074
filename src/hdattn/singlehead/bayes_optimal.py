"""Bayes-optimal error: what no training can beat when only the spectrum of the target is known.

The noise stands inside the softmax, so a label reveals its noisy scores exactly and the channel is
linear. With q the overlap of the posterior mean with the target and K = T(T+1)/2 - 1 logits a
sample, the posterior mean is a spectral denoiser of S0 + sigma Z,

    sigma^2 = (Q0 - q + noise/2)/(2 alpha K),   xi(x) = x - 2 sigma^2 h(x),   q = int rho xi^2.

Since int rho x h = 1/2, the mean square error e = Q0 - q is sigma^2 (1 - 4 sigma^2 int rho h^2):
nothing is lost by subtraction where it is small. beta and lambda play no part.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

import numpy as np

from hdattn.singlehead.posterior import posterior_error
from hdattn.singlehead.problem import Problem
from hdattn.singlehead.thresholds import logit_count

RECOVERED = 1e-10  # Q0 - q over Q0 below which recovery is taken to be perfect (no noise only)
INFORMED = 1e-6  # Q0 - q over Q0 of a start next to the target, which is unstable at low alpha
SAME_POINT = 1e-3  # fixed points whose Q0 - q differ by less, relatively, are one


@dataclass(frozen=True)
class BayesOptimal:
    """Fixed point of the Bayes-optimal state evolution.

    q: overlap E Tr S S0/d of the posterior mean S, which equals Tr S^2/d. sigma: noise of the
    equivalent observation S0 + sigma Z. bayes_test_error: E ||y - E[y | data]||^2 per sample.
    """

    problem: Problem
    q: float
    sigma: float
    Q0: float
    bayes_test_error: float
    converged: bool
    iterations: int
    residual: float
    seconds: float
    flags: list[str] = field(default_factory=list)

    @property
    def overlap_error(self) -> float:
        """E ||S - S0||^2/d = Q0 - q, the least mean square error."""
        return self.Q0 - self.q


def solve_bayes(problem: Problem, *, tol: float = 1e-9, max_iterations: int = 2000) -> BayesOptimal:
    """Iterate from the prior mean to a fixed point.

    tol: largest relative change of Q0 - q. The iteration is monotone, so this is the fixed point
    that message passing reaches; where another one lies closer to the target a flag says so.
    Non-convergence is told by `converged` and `residual`.
    """
    began = time.perf_counter()
    Q0, noise = problem.target.Q0, problem.noise
    error, *outcome = _iterate(problem, prior_error(problem.target), tol, max_iterations)
    close = _iterate(problem, INFORMED * Q0, tol, max_iterations)[0]
    iterations, residual = outcome
    flags = [] if residual < tol else [f"not converged: residual {residual:.1e}"]
    if close < (1 - SAME_POINT) * error:
        flags.append(f"a second fixed point, q = {Q0 - close:.6g}, is reached from the target only")
    return BayesOptimal(
        problem,
        q=Q0 - error,
        sigma=effective_noise(problem, error),
        Q0=Q0,
        bayes_test_error=posterior_error(
            Q0 - error, error + noise / 2, problem.beta0, problem.tokens
        ),
        converged=residual < tol,
        iterations=iterations,
        residual=residual,
        seconds=time.perf_counter() - began,
        flags=flags,
    )


def solve_bayes_curve(problem: Problem, alphas, **options) -> list[BayesOptimal]:
    """Solve at each alpha of a list."""
    return [solve_bayes(replace(problem, alpha=float(alpha)), **options) for alpha in alphas]


def bayes_trajectory(problem: Problem, iterations: int) -> np.ndarray:
    """q [iterations + 1] of Bayes-optimal message passing that starts from the prior mean."""
    errors = [prior_error(problem.target)]
    for _ in range(iterations):
        errors.append(mean_square_error(problem.target, effective_noise(problem, errors[-1])))
    return problem.target.Q0 - np.array(errors)


def prior_error(target) -> float:
    """E ||S0 - T0 I||^2/d, the error of the prior mean."""
    return target.Q0 - target.T0**2


def effective_noise(problem: Problem, error: float) -> float:
    """Sigma of the observation S0 + sigma Z that the data amount to at error e = Q0 - q."""
    load = 2 * problem.alpha * logit_count(problem.tokens)
    return float(np.sqrt((error + problem.noise / 2) / load))


def mean_square_error(target, sigma: float) -> float:
    """E ||S0 - E[S0 | S0 + sigma Z]||^2/d."""
    _, weights, h = target.convolve(sigma).nodes()
    return sigma**2 * (1 - 4 * sigma**2 * float(weights @ h**2))


def _iterate(
    problem: Problem, error: float, tol: float, max_iterations: int
) -> tuple[float, int, float]:
    """Fixed point of e = Q0 - q from a start, iterations, and last relative change."""
    residual, iteration = np.inf, 0
    while residual >= tol and iteration < max_iterations:
        iteration += 1
        new = mean_square_error(problem.target, effective_noise(problem, error))
        if problem.noise == 0 and new < RECOVERED * problem.target.Q0:
            return 0.0, iteration, 0.0
        residual, error = abs(new - error) / new, new
    return error, iteration, residual
