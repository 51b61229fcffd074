"""How heads split in two groups along a direction, measured on many trajectories."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hdattn.multihead.escape import crossing_time, head_spread

SHARE = 0.1
"""A head counts as + or - from this part of the largest ``|m_hf|`` of all heads on."""


@dataclass(frozen=True)
class SplitStatistics:
    """Splits of I trajectories along one direction.

    split_time [I]: when the head spread reaches the threshold, NaN if never.
    early, late [I, 2]: numbers of heads (+, -) then (zero if never) and at the last time.
    excursion [I, H]: see :func:`excursions`.
    """

    split_time: np.ndarray
    early: np.ndarray
    late: np.ndarray
    excursion: np.ndarray

    @property
    def early_even(self) -> float:
        """Fraction of trajectories whose first groups are of equal size."""
        return float(np.mean(is_even(self.early)))

    @property
    def late_even(self) -> float:
        """Fraction of trajectories whose final groups are of equal size."""
        return float(np.mean(is_even(self.late)))


def split_statistics(
    tau: np.ndarray, m: np.ndarray, direction: int = 1, threshold: float = 0.5
) -> SplitStatistics:
    """Statistics of overlaps m [I, T, H, F] at times tau [T] along ``direction``.

    A trajectory has split when its head spread ``(max_h m_hf - min_h m_hf) / 2`` reaches
    ``threshold``.
    """
    spread = head_spread(m, direction)
    times = np.array([crossing_time(tau, values, threshold) for values in spread])
    first = np.argmax(spread >= threshold, axis=1)
    early = head_counts(m[np.arange(len(m)), first, :, direction])
    early[np.isnan(times)] = 0
    late = head_counts(m[:, -1, :, direction])
    return SplitStatistics(times, early, late, excursions(m, direction))


def head_counts(along: np.ndarray, share: float = SHARE) -> np.ndarray:
    """Numbers of heads on either side, [..., 2], of overlaps along one direction [..., H].

    Heads within ``share`` of the largest overlap from zero are on neither side.
    """
    sides = _sides(along, share)
    return np.stack([(sides > 0).sum(axis=-1), (sides < 0).sum(axis=-1)], axis=-1)


def is_even(counts: np.ndarray) -> np.ndarray:
    """Whether counts [..., 2] are equal and not zero."""
    return (counts[..., 0] == counts[..., 1]) & (counts[..., 0] > 0)


def excursions(m: np.ndarray, direction: int = 1, share: float = SHARE) -> np.ndarray:
    """How far each head went on the side opposite to the one where it ends: [I, H], m [I, T, H, F].

    Zero for heads that end on neither side, and for those that never were on the wrong one.
    """
    along = m[..., direction]
    wrong = -along * _sides(along[:, -1], share)[:, None]
    return np.maximum(wrong.max(axis=1), 0.0)


def _sides(along: np.ndarray, share: float) -> np.ndarray:
    """+1, -1 or 0 for overlaps [..., H]."""
    limit = share * np.abs(along).max(axis=-1, keepdims=True)
    return np.sign(along) * (np.abs(along) > limit)
