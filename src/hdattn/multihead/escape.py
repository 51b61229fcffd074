"""Times read off trajectories: arrival at the plateau, escape from it, and the growth between."""

from __future__ import annotations

import numpy as np


def head_spread(m: np.ndarray, direction: int) -> np.ndarray:
    """Half the difference between the largest and the smallest ``m_hf`` over heads: [..., T].

    m is [..., T, H, F]. For two heads it is ``|m_0f - m_1f| / 2``.
    """
    along = m[..., direction]
    return 0.5 * (along.max(axis=-1) - along.min(axis=-1))


def crossing_time(tau: np.ndarray, values: np.ndarray, threshold: float) -> float:
    """First time [T] at which ``values`` [T] reach ``threshold`` from below; NaN if never.

    Interpolates linearly. A trajectory that starts above the threshold crosses at ``tau[0]``.
    """
    above = np.flatnonzero(values >= threshold)
    if above.size == 0:
        return float("nan")
    i = int(above[0])
    if i == 0:
        return float(tau[0])
    part = (threshold - values[i - 1]) / (values[i] - values[i - 1])
    return float(tau[i - 1] + part * (tau[i] - tau[i - 1]))


def escape_time(
    tau: np.ndarray, m: np.ndarray, direction: int = 1, threshold: float = 0.5
) -> float:
    """Time at which the head spread along ``direction`` reaches ``threshold``, m [T, H, F]."""
    return crossing_time(tau, head_spread(m, direction), threshold)


def arrival_time(
    tau: np.ndarray, m: np.ndarray, mu: float, direction: int = 0, fraction: float = 0.5
) -> float:
    """Time at which the head mean along ``direction`` reaches ``fraction`` of mu, m [T, H, F]."""
    return crossing_time(tau, m[..., direction].mean(axis=-1) / mu, fraction)


def growth_rate(tau: np.ndarray, spread: np.ndarray, low: float, high: float) -> float:
    """Slope of ``log(spread)`` [T] where it first rises from ``low`` to ``high``, by least squares.

    NaN where fewer than three times fall in that window.
    """
    stop = int(np.argmax(spread >= high)) if np.any(spread >= high) else spread.size
    start = stop - int(np.argmax(spread[:stop][::-1] < low)) if np.any(spread[:stop] < low) else 0
    if stop - start < 3:
        return float("nan")
    return float(np.polyfit(tau[start:stop], np.log(spread[start:stop]), 1)[0])
