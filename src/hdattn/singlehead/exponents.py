"""Exponents of scaling laws: predicted, local, and fitted in a window of sample sizes n."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hdattn.errors import UserError
from hdattn.singlehead.attention import Array

REGIMES = ("optimal", "fixed", "vanishing")
LEAST_POINTS = 4  # in the window of a fit


@dataclass(frozen=True)
class Fit:
    """Exponent of a power law ``excess ~ n^-exponent`` in a window [lo, hi] of n.

    error: the larger of the standard error of the slope and half of its change from the lower to
    the upper half of the window, since the drift of a finite d exceeds the scatter of a theory.
    """

    exponent: float
    error: float
    window: tuple[float, float]
    points: int


def predicted_exponent(regime: str, spectral_exponent: float) -> float:
    """Exponent of the excess error in n, as d grows; see :mod:`hdattn.singlehead.regimes`."""
    if not (np.isfinite(spectral_exponent) and spectral_exponent > 0.5):
        raise UserError(f"spectral exponent {spectral_exponent}: must exceed 1/2")
    check_regime(regime)
    exponents = {"optimal": 1 - 0.5 / spectral_exponent, "fixed": 2 - 1 / spectral_exponent}
    return exponents.get(regime, 1.0)


def check_regime(regime: str) -> None:
    """Raises UserError for one that does not exist."""
    if regime not in REGIMES:
        raise UserError(f"regime {regime!r}: choose one of {', '.join(REGIMES)}")


def local_exponents(sizes: Array, errors: Array) -> Array:
    """-d log errors/d log n by second-order differences."""
    order = 2 if len(sizes) > 2 else 1
    return -np.gradient(np.log(errors), np.log(sizes), edge_order=order)


def fit_exponent(sizes: Array, errors: Array, window: tuple[float, float]) -> Fit:
    """Least squares of log errors against log n inside a window.

    Raises UserError where the window holds fewer than LEAST_POINTS sizes.
    """
    sizes, errors = np.asarray(sizes, float), np.asarray(errors, float)
    inside = require_points(sizes, window)
    x, y = np.log(sizes[inside]), np.log(errors[inside])
    slope, offset = np.polyfit(x, y, 1)
    residual = y - slope * x - offset
    scatter = np.sqrt(residual @ residual / (x.size - 2) / np.sum((x - x.mean()) ** 2))
    half = x.size // 2
    halves = [np.polyfit(x[part], y[part], 1)[0] for part in (slice(half + 1), slice(half, None))]
    error = max(float(scatter), 0.5 * abs(halves[1] - halves[0]))
    return Fit(-float(slope), error, window, int(inside.sum()))


def require_points(sizes: Array, window: tuple[float, float]) -> Array:
    """Which sizes lie in a window; raises UserError where there are too few for a slope."""
    rounding = 1 + 1e-9  # its ends are sizes themselves
    inside = (sizes >= window[0] / rounding) & (sizes <= window[1] * rounding)
    if inside.sum() < LEAST_POINTS:
        raise UserError(
            f"window [{window[0]:.4g}, {window[1]:.4g}] of n: {inside.sum()} of the {sizes.size} "
            f"sizes lie in it; a slope needs {LEAST_POINTS}: give more of them"
        )
    return inside


def extrapolate(dims: Array, exponents: Array, spectral_exponent: float) -> float:
    """Exponent as d grows, from those fitted at the two largest of ``dims``.

    A window about sqrt(d) learnt modes leaves a deviation of order d^-(gamma - 1/2) and, since
    modes are counted one by one, d^-1/2; the two determine the larger.
    """
    x = np.asarray(dims, float)[-2:] ** -min(spectral_exponent - 0.5, 0.5)
    small, large = np.asarray(exponents, float)[-2:]
    return float((large * x[0] - small * x[1]) / (x[0] - x[1]))
