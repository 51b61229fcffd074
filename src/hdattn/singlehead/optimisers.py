"""Full-batch optimisers for a smooth function given as ``w -> (value, gradient)``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from hdattn.singlehead.attention import Array

Function = Callable[[Array], tuple[float, Array]]
LinearMap = Callable[[Array], Array]
Scaling = Callable[[Array], tuple[LinearMap, LinearMap]]

MEMORY = 10  # pairs kept by L-BFGS; more save no evaluations in the rescaled coordinates
WARM_UP = 15  # steps of L-BFGS before its coordinates are rescaled; 10 to 20 serve as well
ADAM_RATE, ADAM_MEAN, ADAM_SQUARE, ADAM_EPSILON = 0.1, 0.9, 0.999, 1e-8
SUSTAINED = 10  # steps over which a change must stay below the tolerance
ROUNDING = 1e-14  # relative decrease in one step that is nothing but rounding


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


def lbfgs(
    function: Function,
    start: Array,
    tolerance: float,
    max_iterations: int,
    scaling: Scaling | None = None,
) -> Minimum:
    """L-BFGS until the relative decrease of the value over ten steps is below ``tolerance``.

    With ``scaling``, L-BFGS restarts after 15 steps in coordinates e, ``w = w1 + P e``, in which
    the function is better conditioned; ``scaling(w1)`` returns the maps P and P^T.
    """
    if scaling is None:
        return _plain_lbfgs(function, start, tolerance, max_iterations)
    first = _plain_lbfgs(function, start, tolerance, min(WARM_UP, max_iterations))
    if first.converged or max_iterations <= WARM_UP:
        return first
    forward, adjoint = scaling(first.w)

    def scaled(e: Array) -> tuple[float, Array]:
        value, gradient = function(first.w + forward(e))
        return value, adjoint(gradient)

    rest = _plain_lbfgs(scaled, np.zeros_like(start), tolerance, max_iterations - WARM_UP)
    w = first.w + forward(rest.w)
    return Minimum(
        w=w,
        value=rest.value,
        gradient=function(w)[1],
        converged=rest.converged,
        iterations=first.iterations + rest.iterations,
        evaluations=first.evaluations + rest.evaluations + 1,
        history=np.concatenate([first.history, rest.history[1:]]),
    )


def _plain_lbfgs(
    function: Function, start: Array, tolerance: float, max_iterations: int
) -> Minimum:
    history: list[float] = []

    def recorded(w: Array) -> tuple[float, Array]:
        value, gradient = function(w)
        if not history:
            history.append(value)
        return value, gradient

    def watch(intermediate_result: OptimizeResult) -> None:
        history.append(float(intermediate_result.fun))
        if _is_calm(history, tolerance):
            raise StopIteration

    found = minimize(
        recorded,
        start,
        jac=True,
        method="L-BFGS-B",
        callback=watch,
        options={
            "maxcor": MEMORY,
            "ftol": ROUNDING,
            "gtol": 0.0,
            "maxiter": max_iterations,
            "maxfun": 20 * max_iterations,
        },
    )
    return Minimum(
        w=found.x,
        value=float(found.fun),
        gradient=found.jac,
        converged=found.status == 0 or _is_calm(history, tolerance),
        iterations=int(found.nit),
        evaluations=int(found.nfev),
        history=np.array(history),
    )


def _is_calm(history: list[float], tolerance: float) -> bool:
    """Whether the last ten steps together lowered the value by less than ``tolerance``.

    One small step proves little: where the penalty is weak the decreases are erratic, and
    single steps below 1e-11 occur while the value is still 1e-5 above its minimum.
    """
    return len(history) > SUSTAINED and (
        history[-1 - SUSTAINED] - history[-1] <= tolerance * abs(history[-1])
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
