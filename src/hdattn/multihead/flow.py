"""Gradient flow of the order parameters in tau = gamma * samples / D, at D -> infinity.

With reduced weights ``W_h = (m_h, V_h)``, ``V V^T = r_perp``::

    dm/dtau      = -g_m
    dr_perp/dtau = -(g_V V^T + V g_V^T) + gamma G,   G_hh' = E sum_l d_hl d_h'l
    db/dtau      = -dE/db,   dc/dtau = -dE/dc

gamma = 0 is plain gradient flow; gamma > 0 is online SGD at that learning-rate scale.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from scipy.integrate import solve_ivp

from hdattn.errors import UserError
from hdattn.multihead.activations import get_activation
from hdattn.multihead.order_parameters import (
    noise_weights,
    order_parameter_gradient,
    order_parameter_velocity,
    perpendicular,
    perpendicular_velocity,
)
from hdattn.multihead.population import Evaluation, PopulationLoss
from hdattn.multihead.priors import Prior

Form = Literal["reduced", "order_parameters"]


@dataclass(frozen=True, eq=False)
class FlowProblem:
    """What flows, and from where.

    activation: name. tokens: L. prior: of theta in R^F. m0 [H, F]. r0 [H, H], or None for
    ``r = m m^T``. gamma: learning-rate scale, 0 for gradient flow. b0 [H], or None for zero. c0.

    Raises :class:`UserError` for shapes that disagree, r0 - m0 m0^T not positive semi-definite, or
    gamma < 0.
    """

    activation: str
    tokens: int
    prior: Prior
    m0: np.ndarray
    r0: np.ndarray | None = None
    gamma: float = 0.0
    b0: np.ndarray | None = None
    c0: float = 1.0
    r_perp0: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        """Convert to arrays and check."""
        m0 = np.asarray(self.m0, dtype=float)
        features = self.prior.dim_features
        if m0.ndim != 2 or m0.shape[1] != features:
            raise UserError(
                f"m has shape {m0.shape}; it needs a row per head and {features} columns, one per "
                "spike of the prior"
            )
        heads = len(m0)
        r0 = m0 @ m0.T if self.r0 is None else np.asarray(self.r0, dtype=float)
        b0 = np.zeros(heads) if self.b0 is None else np.asarray(self.b0, dtype=float)
        if b0.shape != (heads,):
            raise UserError(f"b has shape {b0.shape}; it needs one entry for each of {heads} heads")
        if not self.gamma >= 0:
            raise UserError(f"gamma is {self.gamma}; it must not be negative")
        get_activation(self.activation)
        for name, value in {"m0": m0, "r0": r0, "b0": b0, "r_perp0": perpendicular(m0, r0)}.items():
            object.__setattr__(self, name, value)

    @property
    def heads(self) -> int:
        """Number of heads H."""
        return len(self.m0)

    @property
    def noiseless(self) -> bool:
        """True if r_perp is zero and stays so: the heads never leave the span of the spikes."""
        return self.gamma == 0 and not np.any(self.r_perp0)


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
    ``with_loss=False`` leaves out the loss, which costs half an evaluation at each output time.
    """
    tau = np.asarray(tau, dtype=float)
    if tau.ndim != 1 or tau.size == 0 or tau[0] < 0 or np.any(np.diff(tau) <= 0):
        raise UserError("tau must be a list of increasing times, none of them negative")
    equations = _Equations(problem, base_points, seed, form)
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
        loss=equations.loss(states) if with_loss else None,
        converged=bool(solution.success),
        iterations=len(solution.t) - 1,
        evaluations=int(solution.nfev),
        residual=float(np.max(np.abs(equations(solution.t[-1], solution.y[:, -1])))),
    )


class _Equations:
    """Right-hand side of the flow in a flat state (m, r_perp or r if any, b, c)."""

    def __init__(self, problem: FlowProblem, base_points: int | None, seed: int, form: Form):
        """Draw the points on which E is evaluated."""
        self.problem = problem
        self.form = form
        self.noise_dim = 0 if problem.noiseless else problem.heads
        if form == "order_parameters" and not self.noise_dim:
            raise UserError("the (m, r) form needs r - m m^T > 0: give r, or use the reduced form")
        self.population = PopulationLoss(
            get_activation(problem.activation),
            problem.tokens,
            problem.prior,
            noise_dim=self.noise_dim,
            base_points=base_points or (2**14 if self.noise_dim else 4096),
            seed=seed,
        )

    def start(self) -> np.ndarray:
        """State at tau = 0."""
        problem = self.problem
        second = problem.r_perp0 if self.form == "reduced" else problem.r0
        second = second if self.noise_dim else np.empty(0)
        return np.concatenate([problem.m0.ravel(), second.ravel(), problem.b0, [problem.c0]])

    def unpack(self, state: np.ndarray) -> tuple[np.ndarray, ...]:
        """(m, r, b, c) of states [..., size]."""
        m, second, b, c = self._split(state)
        if self.form == "order_parameters":
            return m, second, b, c
        r = m @ m.swapaxes(-1, -2)
        return m, r + second if self.noise_dim else r, b, c

    def _split(self, state: np.ndarray) -> tuple[np.ndarray, ...]:
        """m, the second block of the state (r_perp, r or empty), b and c."""
        heads, features = self.problem.m0.shape
        lead = state.shape[:-1]
        stop = heads * features
        m = state[..., :stop].reshape(*lead, heads, features)
        second = state[..., stop : stop + heads * self.noise_dim]
        second = second.reshape(*lead, heads, self.noise_dim)
        return m, second, state[..., -1 - heads : -1], state[..., -1]

    def _weights(self, state: np.ndarray) -> np.ndarray:
        """Reduced weights [H, F+K] of one state."""
        m, second, _, _ = self._split(state)
        if not self.noise_dim:
            return m
        r_perp = second if self.form == "reduced" else second - m @ m.T
        return np.hstack([m, noise_weights(r_perp)])

    def loss(self, states: np.ndarray) -> np.ndarray:
        """E [T] at states [T, size]."""
        parts = zip(states, *self._split(states)[2:], strict=True)
        return np.array([self.population.loss(self._weights(state), b, c) for state, b, c in parts])

    def __call__(self, tau: float, state: np.ndarray) -> np.ndarray:
        """Velocity of the state."""
        m, second, b, c = self._split(state)
        weights = self._weights(state)
        at = self.population.evaluate(weights, b, c, covariance=self.problem.gamma > 0)
        velocity = self._velocity(m, second, weights[:, m.shape[1] :], at)
        return np.concatenate([*(part.ravel() for part in velocity), -at.grad_b, [-at.grad_c]])

    def _velocity(self, m, second, v, at: Evaluation) -> tuple[np.ndarray, np.ndarray]:
        gamma = self.problem.gamma
        features = m.shape[1]
        if self.form == "order_parameters":
            grad_m, grad_r = order_parameter_gradient(m, v, at.grad_weights)
            return order_parameter_velocity(m, second, grad_m, grad_r, gamma, at.score_covariance)
        grad_m, grad_v = at.grad_weights[:, :features], at.grad_weights[:, features:]
        if not self.noise_dim:
            return -grad_m, second
        return -grad_m, perpendicular_velocity(grad_v, v, gamma, at.score_covariance)
