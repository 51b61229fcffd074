"""What an activation is: a forward map, and derivatives that have a fallback."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from hdattn.errors import UserError

STEP = 2.0**-17
"""Step of the central differences: truncation and rounding are both near 1e-11."""


class Activation(ABC):
    """Attention A [L, *P] of H heads with scores chi [H, L, *P].

    A subclass has a ``name`` and defines :meth:`attention`. ``has_b`` and ``has_c`` say whether
    the head biases b and the output scale c, in which A is linear, are trainable parameters;
    where they are not, the arguments ``b`` and ``c`` are not looked at. Derivatives are central
    differences unless :meth:`forward` and :meth:`pullback` are defined too.
    """

    name: ClassVar[str]
    has_b: ClassVar[bool] = False
    has_c: ClassVar[bool] = False

    @abstractmethod
    def attention(self, chi: np.ndarray, b=0.0, c=1.0) -> np.ndarray:
        """Attention A [L, *P] from the scores chi [H, L, *P]; each sample P by itself."""

    def forward(self, chi: np.ndarray, b=0.0, c=1.0) -> tuple[np.ndarray, Any]:
        """Attention A [L, *P], and whatever :meth:`pullback` needs to know of this point."""
        return self.attention(chi, b, c), (chi, b, c)

    def pullback(
        self, saved: Any, attention: np.ndarray, c, e: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
        """Vector-Jacobian product at the point where :meth:`forward` was called.

        With ``e_l = dl/dA_l`` [L, *P] returns d = dl/dchi [H, L, *P], dl/db [H, *P] and dl/dc
        [*P], per sample; None for a parameter that the activation does not have.
        """
        return _central_differences(self, *saved, e)

    def backward(self, chi: np.ndarray, b, c, e: np.ndarray):
        """:meth:`forward` followed by :meth:`pullback`: (d, dl/db, dl/dc)."""
        attention, saved = self.forward(chi, b, c)
        return self.pullback(saved, attention, c, e)

    def head_totals(self, chi: np.ndarray, b=0.0) -> np.ndarray:
        """Total attention of each head, [H, *P]; :class:`UserError` where heads have none."""
        raise UserError(f"activation {self.name!r} does not say how much each head attends")


def per_head(b, chi: np.ndarray) -> np.ndarray:
    """Biases b (scalar, [H] or [H, *P]) broadcastable to chi [H, L, *P], in its dtype."""
    b = np.asarray(b, dtype=chi.dtype)
    if b.ndim <= 1:
        return b.reshape(b.shape + (1,) * (chi.ndim - 1) if b.ndim else ())
    return b[:, None]


def _central_differences(rule: Activation, chi, b, c, e):
    """The products of :meth:`Activation.pullback` in double precision, two calls per entry."""
    shape, dtype = chi.shape, chi.dtype
    chi, e = chi.astype(float), e.astype(float)
    biases = np.array(np.broadcast_to(per_head(b, chi), (shape[0], 1, *shape[2:]))[:, 0])

    def slope(parameter: np.ndarray, entry: tuple[int, ...]) -> np.ndarray:
        here = parameter[entry].copy()
        parameter[entry] = here + STEP
        above = rule.attention(chi, biases, c)
        parameter[entry] = here - STEP
        difference = above - rule.attention(chi, biases, c)
        parameter[entry] = here
        return (e * difference).sum(axis=0) / (2.0 * STEP)

    d = np.array([[slope(chi, (h, k)) for k in range(shape[1])] for h in range(shape[0])])
    db = np.array([slope(biases, (h,)) for h in range(shape[0])]) if rule.has_b else None
    dc = (e * rule.attention(chi, biases, 1.0)).sum(axis=0) if rule.has_c else None
    return d.astype(dtype), *(x if x is None else x.astype(dtype) for x in (db, dc))
