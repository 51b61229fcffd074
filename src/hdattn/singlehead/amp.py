"""Approximate message passing on a training set: the algorithm whose iterates the theory follows.

With z(S) the logits of S, adjoint the transpose of that map, and C the covariance of the logits,

    omega = z(S) - V C f_old,           f = C^{-1}(z* - omega)/V,   v_hat = -mean Tr C df/domega
    B = v_hat S + adjoint(f)/(alpha d),   R = B/v_hat
    S = phi(R),   V = D/(2 alpha v_hat)

where -V C f_old and v_hat S are the Onsager terms: they make omega and R Gaussian around the
target, as the state evolution says. Damping replaces f, B and v_hat by running means with the
same weights, so that the Onsager terms stay right; damped iterates follow a state evolution too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hdattn.errors import UserError
from hdattn.singlehead.amp_input import BayesInput, InputStep, PenaltyInput, estimate, response
from hdattn.singlehead.amp_output import BayesOutput, ErmOutput, Output, OutputStep
from hdattn.singlehead.amp_run import AmpRun, Log, State
from hdattn.singlehead.attention import Array
from hdattn.singlehead.observations import Observations, logit_differences
from hdattn.singlehead.problem import Problem
from hdattn.singlehead.state_evolution import ChannelFactory, make_channel

DENOISERS = ("soft", "bayes")
TINY = 1e-12
RUNAWAY = 1e3  # Q over its natural scale from which a run is told to diverge
PATIENCE = 40  # iterations without progress after which a run ends
WARM_SWEEPS = 200


def observe(batches, problem: Problem, denoiser: str = "soft") -> Observations:
    """Training set in the basis that a denoiser works in; batches (x [n, T, d], y [n, T, T])."""
    if denoiser not in DENOISERS:
        raise UserError(f"denoiser {denoiser!r}: choose from {', '.join(DENOISERS)}")
    basis = logit_differences() if denoiser == "soft" and problem.tokens == 2 else None
    return Observations(batches, basis, problem.beta)


@dataclass
class MessagePassing:
    """Message passing on a training set.

    denoiser: soft (towards the trained head: prox of the loss and denoiser of the penalty) or
    bayes (posterior mean). The problem's alpha must be that of the observations. overlaps: M of
    the state evolution at each iteration; with it, v_hat is Stein's estimate wherever S is not
    zero, which stays right when the prox jumps. channel: for soft, another channel than softmax
    attention with the square loss.
    """

    observations: Observations
    problem: Problem
    denoiser: str = "soft"
    damping: float = 0.0
    overlaps: Array | None = None
    channel: ChannelFactory = make_channel

    def __post_init__(self):
        if not 0 <= self.damping < 1:
            raise UserError(f"damping = {self.damping}: give a number from 0 up to, not 1")
        if abs(self.problem.alpha / self.observations.alpha - 1) > 1e-9:
            raise UserError(
                f"alpha = {self.problem.alpha:g}, but the samples make {self.observations.alpha:g}"
            )
        soft = self.denoiser == "soft"
        self.output: OutputStep = (
            ErmOutput(self.observations, self.problem, self.channel)
            if soft
            else BayesOutput(self.observations, self.problem)
        )
        self.input: InputStep = (PenaltyInput if soft else BayesInput)(self.problem)

    def cold_state(self) -> State:
        """S = 0 and V = 1/beta^2 (soft), or the prior mean (bayes); f = 0."""
        scale, V = self.input.start()
        dim = self.observations.dim
        return State(scale * np.eye(dim), np.full(dim, scale), V)

    def warm_state(self, S: Array) -> State:
        """State with fixed point S, if S is the minimiser: f = -dl/dz at z(S), V self-consistent.

        S [d, d] symmetric, say of a trained head (denoiser soft only).
        """
        if self.denoiser != "soft":
            raise UserError(
                "a warm start is for denoiser soft, whose fixed point is a trained head"
            )
        z = self.observations.logits(S)
        f = self.output.pull(z)
        G = self.observations.adjoint(f) / (self.problem.alpha * self.observations.dim)
        V = self.input.start()[1]
        for _ in range(WARM_SWEEPS):
            v_hat = self.output.response(z, V)
            if not v_hat > 0:
                raise UserError("S is no minimum: the mean curvature of the loss is not positive")
            x = np.linalg.eigvalsh(S + G / v_hat)
            old, V = (
                V,
                response(x, *self.input.denoise(x, v_hat)) / (2 * self.problem.alpha * v_hat),
            )
            if abs(V - old) < 1e-10 * V:
                break
        return State(S, np.linalg.eigvalsh(S), V, f, v_hat * S + G, v_hat)

    def run(
        self,
        *,
        start: State | None = None,
        tol: float = 1e-6,
        max_iterations: int = 300,
        S0: Array | None = None,
    ) -> AmpRun:
        """Iterate until ||S - S_old||/||S||/(1 - damping) < tol, at most ``max_iterations`` times.

        S0 [d, d]: the target, to follow M. A run ends early where it diverges or makes no progress
        for 40 iterations; see :class:`AmpRun` for what tells.
        """
        state = self.cold_state() if start is None else start
        z, log = self.observations.logits(state.S), Log(S0)
        log.add(state, self._objective(state, z), (np.nan,) * 4)
        best, improved, residual, status = np.inf, 0, np.inf, "unfinished"
        for iteration in range(1, max_iterations + 1):
            new, output = self._step(state, z, iteration - 1)
            if not self._healthy(new):
                status = "diverged"
                break
            change = np.linalg.norm(new.S - state.S) / max(np.linalg.norm(new.S), TINY)
            residual, state = float(change / (1 - self.damping)), new
            z = self.observations.logits(state.S)
            prox_objective = output.train_loss + self.input.penalty_value(state.eigenvalues)
            step = (prox_objective, state.v_hat, output.jump_probability, residual)
            log.add(state, self._objective(state, z), step)
            if residual < tol:
                status = "converged"
                break
            if residual < 0.9 * best:
                best, improved = residual, iteration
            if iteration - improved > PATIENCE:
                status = "stalled"
                break
        done = len(log.rows) - 1
        return AmpRun(state, log.arrays(), status, done, residual, self.denoiser)

    def _step(self, state: State, z: Array, iteration: int) -> tuple[State | None, Output | None]:
        """One iteration; no state where v_hat is not positive, and nothing can follow."""
        observations, alpha = self.observations, self.problem.alpha
        omega = z
        if state.f is not None:
            omega = z - state.V * (observations.covariance @ state.f)
        output = self.output(omega, max(state.V, TINY))
        v_new = self._v_hat(output, omega, iteration)
        B = v_new * state.S + observations.adjoint(output.f) / (alpha * observations.dim)
        f, v_hat = output.f, v_new
        if state.B is not None and self.damping:
            f, B, v_hat = (
                (1 - self.damping) * new + self.damping * old
                for new, old in ((f, state.f), (B, state.B), (v_hat, state.v_hat))
            )
        if not (v_hat > 0 and np.all(np.isfinite(B))):
            return None, output
        estimated = estimate(self.input, B / v_hat, v_hat)
        V = estimated.D / (2 * alpha * v_hat)
        return State(estimated.S, estimated.eigenvalues, V, f, B, v_hat), output

    def _v_hat(self, output: Output, omega: Array, iteration: int) -> float:
        """Sample Stein estimate where the overlap is known, else the mean derivative.

        With [[-Q, M], [-M, P]] (v_hat, m_hat)^T = (E f.omega, E f.z0')^T, P = Q0 + noise/2 and Q
        that of omega. Where S is proportional to I nothing is random in omega but the labels' side.
        """
        M = 0.0 if self.overlaps is None else self.overlaps[min(iteration, len(self.overlaps) - 1)]
        inverse = np.linalg.inv(self.observations.covariance)
        K, n = omega.shape
        Q = float(np.vdot(omega, inverse @ omega)) / (K * n)
        if M <= 0 or Q <= TINY:
            return output.v_hat
        P = self.problem.label_variance
        pulls = [float(np.vdot(output.f, other)) / n for other in (omega, self.output.scores)]
        return (M * pulls[1] - P * pulls[0]) / (Q * P - M**2)

    def _healthy(self, state: State | None) -> bool:
        scale = self.problem.label_variance * (self.problem.beta0 / self.problem.beta) ** 2
        return state is not None and bool(
            np.isfinite(state.V) and np.mean(state.eigenvalues**2) < RUNAWAY * scale
        )

    def _objective(self, state: State, z: Array) -> float:
        return self.output.loss(z) + self.input.penalty_value(state.eigenvalues)
