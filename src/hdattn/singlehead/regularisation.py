"""The weight decay of least test error, by the state evolution."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.optimize import minimize_scalar

from hdattn.errors import UserError
from hdattn.singlehead.problem import Problem
from hdattn.singlehead.solution import Solution
from hdattn.singlehead.state_evolution import Continuation


def best_lambda(
    problem: Problem, low: float = 1e-3, high: float = 1.0, *, tol: float = 0.05, **options
) -> Solution:
    """Solution at the lam in [low, high] of least test error; its problem holds that lam.

    tol: of log lam; the error is flat there, right to about tol^2. ``options`` are those of
    ``solve``. A minimum at an end of the range is returned as such: widen the range then. Raises
    UserError unless 0 < low < high.
    """
    if not 0 < low < high:
        raise UserError(f"lam from {low} to {high}: give 0 < low < high")
    path, best = Continuation(**options), []

    def error(log_lam: float) -> float:
        solution = path.solve(replace(problem, lam=float(np.exp(log_lam))), log_lam)
        if not best or solution.test_error < best[0].test_error:
            best[:] = [solution]
        return solution.test_error

    bounds = (np.log(low), np.log(high))
    minimize_scalar(error, bounds=bounds, method="bounded", options={"xatol": tol})
    return best[0]
