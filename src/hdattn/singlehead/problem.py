"""What is to be solved: one point of the regularised ERM of a single attention head."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hdattn.errors import UserError
from hdattn.singlehead.denoisers import PENALTIES
from hdattn.singlehead.targets import MarchenkoPastur, Spectrum

# Between these the fixed point is found, or said not to be, in double precision. Beyond them the
# answer is known without: the remedy that is told.
_LIMITS = {
    "alpha": (1e-6, 1e9, "below, nothing is learnt; above, the test error is its floor"),
    "lam": (1e-10, 1e6, "below, take 0, the limit lam -> 0; above, S = 0"),
    "kappa": (1e-4, 1e3, "only lam sqrt(kappa) enters"),
    "noise": (0.0, 1e6, "above, the labels no longer depend on the target"),
    "beta": (1e-3, 1e3, "only beta0/beta, and lam/beta, matter to the head"),
    "beta0": (1e-3, 1e2, "below, the labels are uniform; above, one-hot"),
}


# beta0 sqrt(Q0), up to which the quadrature of the channel follows the labels' steps: at 37 a point
# takes 23 CPU seconds and is not converged, at 120 more than 66.
_SHARPEST = 40.0


@dataclass(frozen=True)
class Problem:
    """Parameters of the model.

    alpha: samples/d^2. lam: weight decay on W. kappa: p/d of the student. target: law of S0.
    noise: Delta, the variance of the symmetric noise inside the label softmax. tokens: T.
    beta, beta0: inverse temperatures of the student and of the label. penalty: "nuclear" (weight
    decay on factors) or "frobenius" (symmetric S, lam_eff d ||S||_F^2).
    """

    alpha: float
    lam: float
    kappa: float = 1.0
    target: MarchenkoPastur | Spectrum = field(default_factory=MarchenkoPastur)
    noise: float = 0.5
    tokens: int = 2
    beta: float = 1.0
    beta0: float = 1.0
    penalty: str = "nuclear"

    def __post_init__(self):
        for name in _LIMITS:
            _require(name, getattr(self, name), positive=name not in ("lam", "noise"))
        sharpness = self.beta0 * float(np.sqrt(self.target.Q0))
        if sharpness > _SHARPEST:
            raise UserError(
                f"beta0 = {self.beta0:g}: beta0 sqrt(Q0) is {sharpness:.3g}, give at most "
                f"{_SHARPEST:g}: beyond, labels are one-hot; lower beta0 or kappa0"
            )
        if int(self.tokens) != self.tokens or self.tokens < 2:
            raise UserError(f"tokens = {self.tokens}: attention needs an integer of at least 2")
        if self.penalty not in PENALTIES:
            known = ", ".join(sorted(PENALTIES))
            raise UserError(f"penalty = {self.penalty!r}: unknown; choose one of {known}")

    @property
    def lam_eff(self) -> float:
        """lam sqrt(kappa), the strength of the penalty on S."""
        return self.lam * float(np.sqrt(self.kappa))

    @property
    def label_variance(self) -> float:
        """Q0 + noise/2: variance of the label's scores in the channel."""
        return self.target.Q0 + self.noise / 2


def _require(name: str, value, positive: bool) -> None:
    """Refuse what is not a finite number above zero (or not below it), and what is out of range."""
    bound = "above 0" if positive else "of at least 0"
    try:
        good = np.isfinite(value) and (value > 0 if positive else value >= 0)
    except TypeError:
        good = False
    if not good:
        raise UserError(f"{name} = {value}: must be a finite number {bound}")
    low, high, beyond = _LIMITS[name]
    if value and not low <= value <= high:
        zero = "0, or " if not positive and low else ""
        raise UserError(f"{name} = {value:g}: give {zero}{low:g} to {high:g}; {beyond}")
