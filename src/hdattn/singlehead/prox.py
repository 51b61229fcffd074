"""Global proximal operator of the two-token square loss.

z* = argmin l(y, z) + (z - omega)^T C^{-1} (z - omega) / (2V). The loss is not convex: each
minimisation is a safeguarded Newton descent, vectorised over samples, from several starts.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

COVARIANCE = np.array([[3.0, 1.0], [1.0, 3.0]])
# C = 4 on (1, 1)/sqrt(2), 2 on (1, -1)/sqrt(2): colour() is C^(1/2) up to a rotation
MAX_NEWTON = 80
BLOCK = 2048  # samples handled together: their arrays stay in the cache of a core
STEP_TOLERANCE = 1e-7  # the step after it is quadratically smaller, below rounding


def colour(xi: np.ndarray) -> np.ndarray:
    """Map standard Gaussians [2, n] = (even, odd) to covariance C: (u, v) = sqrt(2) e +- o."""
    even = np.sqrt(2.0) * xi[0]
    return np.stack([even + xi[1], even - xi[1]])


def loss_terms(y, z, beta):
    """Per token: loss 2 (y - s)^2 and its first two derivatives in z; all [2, n]."""
    s = expit(beta * z)
    miss, slope = y - s, s * (1 - s)
    first = -4 * beta * miss * slope
    second = 4 * beta**2 * slope * (slope - miss * (1 - 2 * s))
    return 2 * miss**2, first, second


def inverse_times(shift):
    """C^{-1} x for x [2, n]."""
    return np.stack([3 * shift[0] - shift[1], 3 * shift[1] - shift[0]]) / 8


def objective(loss, shift, V):
    """V l + (z - omega)^T C^{-1} (z - omega)/2 for each sample [n]."""
    quadratic = (3 * shift[0] ** 2 - 2 * shift[0] * shift[1] + 3 * shift[1] ** 2) / 16
    return V * (loss[0] + loss[1]) + quadratic


def _newton_step(first, second, shift, V):
    """Newton direction of the objective; curvature clipped at zero where it is indefinite."""
    g = V * first + inverse_times(shift)
    a, b = V * second[0] + 0.375, V * second[1] + 0.375
    bad = (a * b <= 1 / 64) | (a <= 0)
    if bad.any():
        a = np.where(bad, V * np.maximum(second[0], 0) + 0.375, a)
        b = np.where(bad, V * np.maximum(second[1], 0) + 0.375, b)
    determinant = a * b - 1 / 64
    return np.stack([-(b * g[0] + g[1] / 8), -(a * g[1] + g[0] / 8)]) / determinant


def descend(y, omega, V, beta, start):
    """Local minimum reached from `start`: z [2, n] and its objective [n]."""
    z, value = np.empty_like(omega), np.empty(omega.shape[1])
    for first in range(0, value.size, BLOCK):
        part = slice(first, first + BLOCK)
        z[:, part], value[part] = _descend_block(
            y[:, part], omega[:, part], V, beta, start[:, part]
        )
    return z, value


def _descend_block(y, omega, V, beta, start):
    z = np.array(start)
    loss, first, second = loss_terms(y, z, beta)
    value = objective(loss, z - omega, V)
    active = np.arange(z.shape[1])
    current = (y, omega, z, value, first, second)
    z_out, value_out = z.copy(), value.copy()
    for _ in range(MAX_NEWTON):
        y_a, omega_a, z_a, value_a, first_a, second_a = current
        step = _newton_step(first_a, second_a, z_a - omega_a, V)
        new, terms, new_value = _line_search(y_a, omega_a, V, beta, z_a, value_a, step)
        z_out[:, active], value_out[active] = new, new_value
        going = np.abs(new - z_a).max(0) > STEP_TOLERANCE
        if not going.any():
            break
        active = active[going]
        current = tuple(
            part[..., going] for part in (y_a, omega_a, new, new_value, terms[0], terms[1])
        )
    return z_out, value_out


def _line_search(y, omega, V, beta, z, value, step):
    """Halve the step of each sample until the objective does not increase."""
    new = z + step
    loss, first, second = loss_terms(y, new, beta)
    new_value = objective(loss, new - omega, V)
    factor = 1.0
    worse = np.flatnonzero(new_value > value * (1 + 1e-14) + 1e-300)
    while worse.size and factor > 1e-9:
        factor *= 0.5
        trial = z[:, worse] + factor * step[:, worse]
        loss, f1, f2 = loss_terms(y[:, worse], trial, beta)
        trial_value = objective(loss, trial - omega[:, worse], V)
        new[:, worse], new_value[worse] = trial, trial_value
        first[:, worse], second[:, worse] = f1, f2
        worse = worse[trial_value > value[worse] * (1 + 1e-14) + 1e-300]
    return new, (first, second), new_value
