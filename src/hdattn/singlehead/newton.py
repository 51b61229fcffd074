"""Newton's method for the prox of any smooth loss of K logits, all samples at once.

Minimises V l(y, z) + (z - omega)^T C^{-1} (z - omega)/2 for a diagonal C, sample by sample. Arrays
have the sample as their last index, so that small linear algebra runs over long vectors.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from hdattn.singlehead.attention import Array

MAX_NEWTON = 80
STEP_TOLERANCE = 1e-5  # the step after it is quadratically smaller, about 1e-10


class SmoothLoss(Protocol):
    """A loss with two derivatives."""

    def loss_gradient(self, y: Array, z: Array) -> tuple[Array, Array]:
        """Loss [n] and its gradient [K, n]."""

    def hessian(self, y: Array, z: Array) -> Array:
        """Second derivatives [K, K, n]."""

    def convex_hessian(self, y: Array, z: Array) -> Array:
        """Positive semidefinite [K, K, n] in place of the Hessian where that is indefinite."""


def eliminate(matrix: Array, right: Array) -> tuple[Array, Array]:
    """Solve matrix [K, K, n] x = right [K, ..., n], symmetric; and which matrices are definite.

    Gaussian elimination without pivoting: stable for positive definite matrices, which have
    positive pivots only. What it returns for others is not to be used.
    """
    a, x = matrix.copy(), right.copy()
    definite = np.ones(a.shape[2], dtype=bool)
    tiny = np.finfo(float).tiny
    for j in range(len(a)):
        definite &= a[j, j] > 0
        a[j, j] = np.where(definite, a[j, j], np.maximum(np.abs(a[j, j]), tiny))
        factor = a[j + 1 :, j] / a[j, j]
        a[j + 1 :, j + 1 :] -= factor[:, None] * a[j, j + 1 :]
        x[j + 1 :] -= _stretched(factor, x) * x[j]
    for j in reversed(range(len(a))):
        x[j] -= (_stretched(a[j, j + 1 :], x) * x[j + 1 :]).sum(0)
        x[j] /= a[j, j]
    return x, definite


def _stretched(factor: Array, x: Array) -> Array:
    """[k, n] as [k, 1, ..., n] with as many indices as x."""
    return factor.reshape(len(factor), *[1] * (x.ndim - 2), factor.shape[1])


def descend(
    loss: SmoothLoss,
    y: Array,
    omega: Array,
    V: float,
    variances: Array,
    start: Array,
    longest: float,
) -> tuple[Array, Array]:
    """Local minimum z [K, n] reached from `start`, and V l + |z - omega|^2_C/2 there [n].

    variances [K]: the diagonal of C. longest: limit of each coordinate of a step. Samples leave
    the iteration as they converge.
    """
    precision = (1 / variances)[:, None]
    z_out = np.array(start)
    value_out, gradient = _objective(loss, y, omega, V, precision, z_out)
    active = np.arange(z_out.shape[1])
    part = (y, omega, z_out, value_out, gradient)
    for _ in range(MAX_NEWTON):
        y, omega, z, value, gradient = part
        step = _step(loss, y, z, V, precision, gradient)
        step *= np.minimum(1, longest / np.maximum(np.abs(step).max(0), 1e-300))
        new, new_value, gradient = _line_search(loss, y, omega, V, precision, z, value, step)
        going = np.abs(new - z).max(0) > STEP_TOLERANCE
        z_out[:, active], value_out[active] = new, new_value
        if not going.any():
            break
        active = active[going]
        part = tuple(x[..., going] for x in (y, omega, new, new_value, gradient))
    return z_out, value_out


def _objective(loss, y, omega, V, precision, z) -> tuple[Array, Array]:
    value, gradient = loss.loss_gradient(y, z)
    pull = precision * (z - omega)
    return V * value + ((z - omega) * pull).sum(0) / 2, V * gradient + pull


def _step(loss, y, z, V, precision, gradient) -> Array:
    """Newton step; where the Hessian is indefinite, with its convex stand-in."""
    step, definite = eliminate(_shifted(loss.hessian(y, z), V, precision), -gradient)
    bad = np.flatnonzero(~definite)
    if bad.size:
        convex = loss.convex_hessian(y[:, bad], z[:, bad])
        step[:, bad] = eliminate(_shifted(convex, V, precision), -gradient[:, bad])[0]
    return step


def _shifted(hessian: Array, V: float, precision: Array) -> Array:
    """V l'' + C^{-1}."""
    total = V * hessian
    index = np.arange(len(hessian))
    total[index, index] += precision
    return total


def _line_search(loss, y, omega, V, precision, z, value, step):
    """Halve the step of each sample until its value does not increase."""
    new = z + step
    new_value, gradient = _objective(loss, y, omega, V, precision, new)
    allowed = value * (1 + 1e-14) + 1e-300
    worse = np.flatnonzero(new_value > allowed)
    factor = 1.0
    while worse.size and factor > 1e-9:
        factor *= 0.5
        trial = z[:, worse] + factor * step[:, worse]
        new[:, worse] = trial
        new_value[worse], gradient[:, worse] = _objective(
            loss, y[:, worse], omega[:, worse], V, precision, trial
        )
        worse = worse[new_value[worse] > allowed[worse]]
    return new, new_value, gradient


def response(hessian: Array, V: float, variances: Array) -> Array:
    """-C df/domega = C L (1 + V C L)^{-1} up to similarity, as [K, K, n]; L = l'' at the prox.

    Similar to (V L + C^{-1})^{-1} L, whose trace and trace of the square are the same.
    """
    return eliminate(_shifted(hessian, V, (1 / variances)[:, None]), hessian)[0]
