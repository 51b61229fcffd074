"""Equations of motion of the order parameters as a flat system, for an integrator."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from hdattn.errors import UserError
from hdattn.multihead.activations import get_activation
from hdattn.multihead.flow_problem import FlowProblem
from hdattn.multihead.order_parameters import (
    noise_weights,
    order_parameter_gradient,
    order_parameter_velocity,
    perpendicular_velocity,
)
from hdattn.multihead.population import Evaluation, PopulationLoss

LOSS_POINTS = 1024
"""Base points on which the loss is followed between the steps of the integrator."""

Form = Literal["reduced", "order_parameters"]


class FlowEquations:
    """Right-hand side of the flow in a flat state (m, r_perp or r if any, b, c)."""

    def __init__(self, problem: FlowProblem, base_points: int | None, seed: int, form: Form):
        """Draw the points on which E is evaluated."""
        self.problem = problem
        self.form = form
        self.noise_dim = 0 if problem.noiseless else problem.heads
        if form not in get_args(Form):
            raise UserError(f"form {form!r} is unknown; choose one of {', '.join(get_args(Form))}")
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
        self.losses: dict[float, float] = {}  # E at every tau where the velocity was taken

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

    def loss(self, tau: np.ndarray, states: np.ndarray, solution) -> np.ndarray:
        """E [T] at states [T, size] of the integrator's ``solution``.

        Where there are many, E on a few points, and at the steps of the integrator, where E is
        known, what it is off by: that varies slowly and is interpolated.
        """
        if len(tau) <= len(solution.t) or self.population.base_points <= 2 * LOSS_POINTS:
            return self._losses(states)
        known = np.array([self.losses[t] for t in solution.t])
        off = known - self._losses(solution.y.T, LOSS_POINTS)
        return self._losses(states, LOSS_POINTS) + np.interp(tau, solution.t, off)

    def _losses(self, states: np.ndarray, points: int = 0) -> np.ndarray:
        """E [T] at states [T, size], on the first ``points`` base points if given."""
        parts = zip(states, *self._split(states)[2:], strict=True)
        return np.array(
            [self.population.loss(self._weights(x), b, c, points=points) for x, b, c in parts]
        )

    def __call__(self, tau: float, state: np.ndarray) -> np.ndarray:
        """Velocity of the state."""
        m, second, b, c = self._split(state)
        weights = self._weights(state)
        at = self.population.evaluate(weights, b, c, covariance=self.problem.gamma > 0)
        self.losses[tau] = at.loss
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
