"""Initial value problem of the order parameters."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hdattn.errors import UserError
from hdattn.multihead.activations import get_activation
from hdattn.multihead.order_parameters import perpendicular
from hdattn.multihead.priors import Prior
from hdattn.multihead.sizes import refuse_large


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
        heads = len(refuse_large("m", m0))
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
