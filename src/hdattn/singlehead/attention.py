"""The attention head itself: scores and row softmax, written as the model defines them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def scores(x: Array, s: Array) -> Array:
    """Scores ``h_ab = (x_a^T S x_b - delta_ab Tr S)/sqrt(d)`` of every sample.

    ``x`` [n, T, d] tokens, ``s`` [d, d] symmetric; returns [n, T, T].
    """
    samples, tokens, dim = x.shape
    projected = (x.reshape(-1, dim) @ s).reshape(samples, tokens, dim)
    h = np.einsum("nad,nbd->nab", projected, x)
    diagonal = np.arange(tokens)
    h[:, diagonal, diagonal] -= np.trace(s)
    return h / np.sqrt(dim)


def softmax_rows(logits: Array) -> Array:
    """Softmax over the last axis; safe for large logits."""
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)
