"""Full-batch optimisers for a smooth function given as ``w -> (value, gradient)``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from hdattn.singlehead.attention import Array

Function = Callable[[Array], tuple[float, Array]]

MEMORY = 30  # pairs kept by L-BFGS; 10 to 20 % fewer evaluations than 10, at no visible cost
ADAM_RATE, ADAM_MEAN, ADAM_SQUARE, ADAM_EPSILON = 0.1, 0.9, 0.999, 1e-8
SUSTAINED = 10  # steps in a row that must stay below Adam's tolerance


@dataclass(frozen=True, eq=False)
class Minimum:
    """Where an optimiser stopped; ``history`` is the value at the start and after every step."""

    w: Array
    value: float
    gradient: Array
    converged: bool
    iterations: int
    evaluations: int
    history: Array


def lbfgs(function: Function, start: Array, tolerance: float, max_iterations: int) -> Minimum:
    """L-BFGS until the relative decrease of the value in one step is below ``tolerance``."""
    history = [function(start)[0]]
    found = minimize(
        function,
        start,
        jac=True,
        method="L-BFGS-B",
        callback=lambda intermediate_result: history.append(intermediate_result.fun),
        options={
            "maxcor": MEMORY,
            "ftol": tolerance,
            "gtol": 0.0,
            "maxiter": max_iterations,
            "maxfun": 20 * max_iterations,
        },
    )
    return Minimum(
        w=found.x,
        value=float(found.fun),
        gradient=found.jac,
        converged=found.status == 0,
        iterations=int(found.nit),
        evaluations=int(found.nfev) + 1,
        history=np.array(history),
    )


def adam(function: Function, start: Array, tolerance: float, max_iterations: int) -> Minimum:
    """Adam at rate 0.1 until ten steps in a row change the value by less than ``tolerance``.

    The change is relative. A single small change is not enough: Adam overshoots, and its value
    is stationary at every turning point.
    """
    w = start.copy()
    mean, square = np.zeros_like(w), np.zeros_like(w)
    value, gradient = function(w)
    history, calm = [value], 0
    while calm < SUSTAINED and len(history) <= max_iterations:
        step = len(history)
        mean += (1 - ADAM_MEAN) * (gradient - mean)
        square += (1 - ADAM_SQUARE) * (gradient**2 - square)
        scale = np.sqrt(square / (1 - ADAM_SQUARE**step)) + ADAM_EPSILON
        w -= ADAM_RATE / (1 - ADAM_MEAN**step) * mean / scale
        value, gradient = function(w)
        calm = calm + 1 if abs(value - history[-1]) <= tolerance * abs(value) else 0
        history.append(value)
    steps = len(history) - 1
    return Minimum(w, value, gradient, calm >= SUSTAINED, steps, steps + 1, np.array(history))
