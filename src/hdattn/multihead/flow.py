"""Gradient flow of the order parameters in tau = gamma * samples / D, at D -> infinity.

With reduced weights ``W_h = (m_h, V_h)``, ``V V^T = r_perp``::

    dm/dtau      = -g_m
    dr_perp/dtau = -(g_V V^T + V g_V^T) + gamma G,   G_hh' = E sum_l d_hl d_h'l
    db/dtau      = -dE/db,   dc/dtau = -dE/dc

gamma = 0 is plain gradient flow; gamma > 0 is online SGD at that learning-rate scale.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.integrate import solve_ivp

from hdattn.errors import UserError
from hdattn.multihead.flow_equations import FlowEquations, Form
from hdattn.multihead.flow_problem import FlowProblem

__all__ = ["Flow", "FlowProblem", "solve_flow"]


@dataclass(frozen=True)
class Flow:
    """Solution at times tau [T]: m [T, H, F], r [T, H, H], b [T, H], c [T], loss [T].

    converged: the integrator reached the last time. residual: largest rate of change there.
    iterations: accepted steps. evaluations: of E and its gradient.
    """

    tau: np.ndarray
    m: np.ndarray
    r: np.ndarray
    b: np.ndarray
    c: np.ndarray
    loss: np.ndarray | None
    converged: bool
    iterations: int
    evaluations: int
    residual: float


def solve_flow(
    problem: FlowProblem,
    tau: np.ndarray,
    *,
    base_points: int | None = None,
    rtol: float | None = None,
    seed: int = 0,
    form: Form = "reduced",
    with_loss: bool = True,
) -> Flow:
    """Flow of ``problem`` from tau = 0, at the increasing times ``tau`` [T].

    base_points: Sobol points before images; None for 2^14 with and 4096 without r_perp. rtol: of
    the adaptive Runge-Kutta 4(5); None for 1e-6 at gamma = 0, 1e-4 at gamma > 0. ``form`` chooses
    the equations: ``order_parameters`` integrates (m, r) and needs r_perp > 0 (a check).
    ``with_loss=False`` leaves out the loss.
    """
    tau = np.asarray(tau, dtype=float)
    if tau.ndim != 1 or tau.size == 0 or tau[0] < 0 or np.any(np.diff(tau) <= 0):
        raise UserError("tau must be a list of increasing times, none of them negative")
    equations = FlowEquations(problem, base_points, seed, form)
    rtol = rtol or (1e-4 if problem.gamma else 1e-6)
    span = (0.0, max(tau[-1], np.finfo(float).tiny))
    solution = solve_ivp(
        equations, span, equations.start(), rtol=rtol, atol=1e-3 * rtol, dense_output=True
    )
    reached = tau[tau <= solution.t[-1]]
    states = solution.sol(reached).T
    m, r, b, c = equations.unpack(states)
    return Flow(
        tau=reached,
        m=m,
        r=r,
        b=b,
        c=c,
        loss=equations.loss(reached, states, solution) if with_loss else None,
        converged=bool(solution.success),
        iterations=len(solution.t) - 1,
        evaluations=int(solution.nfev),
        residual=float(np.max(np.abs(equations(solution.t[-1], solution.y[:, -1])))),
    )
