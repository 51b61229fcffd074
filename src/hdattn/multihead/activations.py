"""Attention activations: scores chi to attention A, with hand-written derivatives.

One layout everywhere: heads first, then tokens, then any number of sample axes *P (points,
batch, instances), so that sums over heads and tokens run over contiguous samples::

    chi, d, weights [H, L, *P]    A, e [L, *P]    b [H] or [H, *P]    c scalar or [*P]

The dtype of ``chi`` (float32 or float64) is kept. Other activations are modules of
:mod:`hdattn.multihead.extensions`; docs/add-an-activation.md is the recipe.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from hdattn import extensions
from hdattn.errors import UserError
from hdattn.multihead.activation_base import Activation, per_head

ACTIVATIONS: dict[str, Activation] = {}


def register(activation: type[Activation]) -> type[Activation]:
    """Class decorator: make ``activation`` known under its ``name``, which must be free."""
    extensions.refuse_taken("activation", activation.name, ACTIVATIONS)
    ACTIVATIONS[activation.name] = activation()
    return activation


class WeightedHeads(Activation):
    """Attention that is a sum over heads of non-negative weights [H, L, *P], up to a scale."""

    def attention(self, chi: np.ndarray, b=0.0, c=1.0) -> np.ndarray:
        """Attention A [L, *P]."""
        return self.forward(chi, b, c)[0]

    @abstractmethod
    def forward(self, chi: np.ndarray, b=0.0, c=1.0) -> tuple[np.ndarray, np.ndarray]:
        """Attention A [L, *P] and the weights [H, L, *P]."""

    def head_totals(self, chi: np.ndarray, b=0.0) -> np.ndarray:
        """Weights of each head summed over the tokens, [H, *P]."""
        return self.forward(chi, b)[1].sum(axis=1)


@register
class Softmax(WeightedHeads):
    """``A_l = (1/H) sum_h s_hl`` with ``s_hl = exp(chi_hl) / sum_l' exp(chi_hl')``."""

    name = "softmax"

    def forward(self, chi, b=0.0, c=1.0):
        """Attention and head weights s_hl."""
        weights = chi - chi.max(axis=1, keepdims=True)
        np.exp(weights, out=weights)
        weights /= weights.sum(axis=1, keepdims=True)
        return weights.mean(axis=0), weights

    def pullback(self, weights, attention, c, e):
        """``d_hl = (1/H) s_hl (e_l - sum_l' s_hl' e_l')``."""
        return _head_pullback(weights, e / len(weights))[0], None, None


@register
class SoftmaxOne(WeightedHeads):
    """softmax-1: ``A_l = (c/H) sum_h s_hl``, ``s_hl = exp(chi_hl) / (exp(-b_h) + Z_h)``.

    ``Z_h = sum_l exp(chi_hl)``: a head attends to nothing where all its scores are below -b_h.
    """

    name = "softmax1"
    has_b = True
    has_c = True

    def forward(self, chi, b=0.0, c=1.0):
        """Attention and head weights s_hl."""
        idle = -per_head(b, chi)
        largest = np.maximum(chi.max(axis=1, keepdims=True), idle)
        weights = chi - largest
        np.exp(weights, out=weights)
        weights /= weights.sum(axis=1, keepdims=True) + np.exp(idle - largest)
        return c * weights.mean(axis=0), weights

    def pullback(self, weights, attention, c, e):
        """``d_hl = (c/H) s_hl (e_l - sum_l' s_hl' e_l')``; b and c as below.

        ``dl/db_h = (c/H) (1 - S_h) sum_l e_l s_hl`` with ``S_h = sum_l s_hl``, and
        ``dl/dc = sum_l e_l A_l / c``.
        """
        d, along = _head_pullback(weights, e * (c / len(weights)))
        dc = (e * weights.mean(axis=0)).sum(axis=0)
        return d, (1.0 - weights.sum(axis=1)) * along, dc


@register
class BayesSoftmax(WeightedHeads):
    """B-softmax: ``A_l = sum_h P_hl``, P the softmax of ``chi_hl + b_h`` over heads and tokens."""

    name = "bayes"
    has_b = True

    def forward(self, chi, b=0.0, c=1.0):
        """Attention and joint weights P_hl."""
        weights = chi + per_head(b, chi)
        weights -= weights.max(axis=(0, 1))
        np.exp(weights, out=weights)
        weights /= weights.sum(axis=(0, 1))
        return weights.sum(axis=0), weights

    def pullback(self, weights, attention, c, e):
        """``d_hl = P_hl (e_l - sum_l' e_l' A_l')`` and ``dl/db_h = sum_l d_hl``."""
        d = weights * (e - (e * attention).sum(axis=0))
        return d, d.sum(axis=1), None


def _head_pullback(weights: np.ndarray, e: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``d_hl = s_hl (e_l - sum_l' s_hl' e_l')`` of weights s [H, L, *P], and that sum [H, *P]."""
    d = weights * e
    along = d.sum(axis=1)
    d -= weights * along[:, None]
    return d, along


def get_activation(name: str) -> Activation:
    """Activation registered under ``name``; :class:`UserError` listing the names if unknown."""
    found = extensions.find("multihead", ACTIVATIONS, name)
    if found is None:
        known = ", ".join(extensions.known("multihead", ACTIVATIONS))
        raise UserError(f"activation {name!r} is unknown; choose one of {known}")
    return found
