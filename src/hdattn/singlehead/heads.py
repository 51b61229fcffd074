"""What is trained: a tied factor W, separate factors of queries and keys, or S itself.

A head turns its weights w, an array of :meth:`Head.shape`, into S and carries the gradient back.
Its penalty is ``lam * decay * ||w||^2``:

    tied      S = W W^T / sqrt(p d)     lam ||W||_F^2
    untied    S = Q K^T / sqrt(p d)     lam (||Q||_F^2 + ||K||_F^2) / 2: the same where Q = K
    direct    S symmetric               lam_eff d ||S||_F^2, lam_eff = lam sqrt(kappa)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np

from hdattn.errors import UserError
from hdattn.singlehead.attention import Array


def width_of(kappa: float, dim: int) -> int:
    """Width ``p = round(kappa d)``, at least 1."""
    if not (math.isfinite(kappa) and kappa > 0):
        raise UserError(f"kappa is {kappa}; give a finite number > 0")
    return max(1, round(kappa * dim))


def attention_matrix(weights: Array) -> Array:
    """``S = W W^T / sqrt(p d)`` of a factor W [d, p]."""
    dim, width = weights.shape
    return weights @ weights.T / math.sqrt(width * dim)


def padded_spectrum(factor: Array, scale: float) -> Array:
    """Eigenvalues [d] of ``factor factor^T / scale``, ascending, with exact zeros of low rank."""
    dim = factor.shape[0]
    singular = np.linalg.svd(factor, compute_uv=False)
    values = np.zeros(dim)
    values[dim - singular.size :] = np.sort(singular**2 / scale)
    return values


class Head(ABC):
    """One way to parametrise S."""

    name: str
    symmetric = True
    factored = True

    @abstractmethod
    def shape(self, dim: int, kappa: float) -> tuple[int, ...]:
        """Shape of the weights."""

    @abstractmethod
    def matrix(self, w: Array) -> Array:
        """S [d, d]."""

    @abstractmethod
    def pullback(self, w: Array, gradient: Array) -> Array:
        """Gradient in w of a loss whose gradient in S is ``gradient`` [d, d]."""

    def decay(self, dim: int, kappa: float) -> float:
        """The penalty of unit weights at lam = 1."""
        return 1.0

    def draw(self, rng: np.random.Generator, dim: int, kappa: float) -> Array:
        """Random initial weights, iid N(0, 1)."""
        return rng.standard_normal(self.shape(dim, kappa))

    def eigenvalues(self, w: Array) -> Array:
        """Eigenvalues [d] of the symmetric part of S, ascending."""
        s = self.matrix(w)
        return np.linalg.eigvalsh((s + s.T) / 2)

    def singular_values(self, w: Array) -> Array:
        """Singular values [d] of S."""
        return np.linalg.svd(self.matrix(w), compute_uv=False)


class Tied(Head):
    """One factor W [d, p] for queries and keys: S is positive semi-definite."""

    name = "tied"

    def shape(self, dim, kappa):
        """[d, p]."""
        return (dim, width_of(kappa, dim))

    def matrix(self, w):
        """``W W^T / sqrt(p d)``."""
        return attention_matrix(w)

    def pullback(self, w, gradient):
        """For a symmetric gradient in S."""
        return (2 / math.sqrt(w.size)) * (gradient @ w)

    def eigenvalues(self, w):
        """From the singular values of W, which keeps null ones exact."""
        return padded_spectrum(w, math.sqrt(w.size))

    singular_values = eigenvalues


class Untied(Head):
    """Factors of queries and keys, w[0] = Q and w[1] = K [d, p]: any S of rank p."""

    name = "untied"
    symmetric = False

    def shape(self, dim, kappa):
        """[2, d, p]."""
        return (2, dim, width_of(kappa, dim))

    def matrix(self, w):
        """``Q K^T / sqrt(p d)``."""
        return w[0] @ w[1].T / math.sqrt(w[0].size)

    def pullback(self, w, gradient):
        """Of both factors."""
        return np.stack([gradient @ w[1], gradient.T @ w[0]]) / math.sqrt(w[0].size)

    def decay(self, dim, kappa):
        """Half on each factor: the nuclear norm of S at balanced factors."""
        return 0.5


class Direct(Head):
    """A symmetric S [d, d], not factorised. Kappa matters to lam_eff only."""

    name = "direct"
    factored = False

    def shape(self, dim, kappa):
        """[d, d]."""
        return (dim, dim)

    def matrix(self, w):
        """The symmetric part of w; the rest is penalised to nothing."""
        return (w + w.T) / 2

    def pullback(self, w, gradient):
        """For a symmetric gradient in S."""
        return gradient

    def decay(self, dim, kappa):
        """``sqrt(kappa) d``."""
        return math.sqrt(kappa) * dim

    def draw(self, rng, dim, kappa):
        """A symmetric Gaussian matrix with Q = 1/2."""
        w = super().draw(rng, dim, kappa) / math.sqrt(dim)
        return (w + w.T) / 2


HEADS: dict[str, Head] = {head.name: head for head in (Tied(), Untied(), Direct())}


def head_named(name: str) -> Head:
    """The head of this name; raises ``UserError`` where there is none."""
    if name not in HEADS:
        raise UserError(f"head {name!r} does not exist; use one of {', '.join(HEADS)}")
    return HEADS[name]
