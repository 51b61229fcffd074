"""States of message passing, and what a run did."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hdattn.singlehead.attention import Array

ADVICE = {
    "diverged": "raise the damping (0.5, then 0.8)",
    "stalled": "raise the damping (0.5, then 0.8); minima of the prox may be competing",
    "unfinished": "allow more iterations, or a larger tolerance",
}
SOFT_ADVICE = ", raise lam, or start from the trained head"  # bayes has neither
HISTORY = ("Q", "M", "V", "objective", "prox_objective", "v_hat", "jump_probability", "residual")


@dataclass(frozen=True, eq=False)
class State:
    """Where message passing stands: S [d, d] with its eigenvalues, V, f [K, n], B, v_hat."""

    S: Array
    eigenvalues: Array
    V: float
    f: Array | None = None
    B: Array | None = None
    v_hat: float = 0.0


@dataclass(frozen=True, eq=False)
class AmpRun:
    """What message passing did.

    history: by name, [iterations + 1], the start first. Q = Tr S^2/d, M = Tr S S0/d (NaN without
    a teacher), V; objective: loss of S on the training set plus penalty, per sample;
    prox_objective: the same with the loss at the prox (Bayes: at omega), which is what the state
    evolution predicts, NaN at the start; v_hat, jump_probability, residual = ||S - S_old||/||S||
    over 1 - damping: of the step that led there.
    status: converged, diverged, stalled or unfinished.
    """

    state: State
    history: dict[str, Array]
    status: str
    iterations: int
    residual: float
    denoiser: str

    @property
    def converged(self) -> bool:
        """Whether the residual fell below the tolerance."""
        return self.status == "converged"

    @property
    def S(self) -> Array:
        """Last estimate [d, d]."""
        return self.state.S

    @property
    def eigenvalues(self) -> Array:
        """Eigenvalues of S [d]."""
        return self.state.eigenvalues

    @property
    def objective(self) -> float:
        """Objective of S per sample."""
        return float(self.history["objective"][-1])

    @property
    def advice(self) -> str:
        """What to try when it did not converge."""
        diverged = self.status == "diverged" and self.denoiser == "soft"
        return ADVICE.get(self.status, "") + (SOFT_ADVICE if diverged else "")


@dataclass
class Log:
    """History in the making; S0 [d, d]: the target, if it is known."""

    S0: Array | None
    rows: list[tuple[float, ...]] = field(default_factory=list)

    def add(self, state: State, objective: float, step: tuple[float, ...]) -> None:
        """Take down a state; step: prox_objective and what follows it in HISTORY."""
        dim = len(state.S)
        M = np.nan if self.S0 is None else float(np.vdot(state.S, self.S0)) / dim
        Q = float(np.mean(state.eigenvalues**2))
        self.rows.append((Q, M, state.V, objective, *step))

    def arrays(self) -> dict[str, Array]:
        """Values so far by name [iterations + 1]."""
        return dict(zip(HISTORY, np.array(self.rows).T, strict=True))
