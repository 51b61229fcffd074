"""What is measured on a trained head, under the names of the theory."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hdattn.errors import UserError
from hdattn.singlehead.attention import Array
from hdattn.singlehead.erm import attention_matrix
from hdattn.singlehead.objective import AttentionLoss
from hdattn.singlehead.samples import CHUNK, SampleStream, Teacher, padded_spectrum

# An eigenvalue counts towards the rank above RANK_THRESHOLD * sqrt(Q0), the target's own scale.
# L-BFGS leaves modes that should vanish at 1e-6 or less (Adam: 1e-5), while the smallest kept
# modes are about 1/d apart, so that 1e-4 loses a fraction of about 1e-4 of the spectrum. The
# scale is the target's, not the largest eigenvalue's, so that S = 0 has rank 0.
RANK_THRESHOLD = 1e-4


@dataclass(frozen=True, eq=False)
class Measurement:
    """Overlaps, spectrum and errors of a trained S against its teacher.

    Attributes
    ----------
    Q, M, Q0: ``Tr S^2/d``, ``Tr S S0/d``, ``Tr S0^2/d``.
    overlap_error: ``||S - S0||_F^2/d = Q - 2M + Q0``.
    rank_fraction: fraction of the d eigenvalues of S above ``RANK_THRESHOLD sqrt(Q0)``.
    eigenvalues: of S [d], ascending.
    test_error, test_error_stderr: mean of ``||y - A_S||^2`` over fresh samples, its standard
        error.
    """

    Q: float
    M: float
    Q0: float
    overlap_error: float
    rank_fraction: float
    eigenvalues: Array
    test_error: float
    test_error_stderr: float


def measure(
    weights: Array,
    teacher: Teacher,
    test: SampleStream,
    *,
    beta: float = 1.0,
    test_samples: int = 32 * CHUNK,
) -> Measurement:
    """Measure a trained factor W [d, p] on ``test_samples`` samples of the test stream."""
    dim, width = weights.shape
    s, target = attention_matrix(weights), teacher.S0
    if target.shape != s.shape:
        raise UserError(f"W has {dim} rows but the teacher has dimension {target.shape[0]}")
    eigenvalues = padded_spectrum(weights, math.sqrt(width * dim))
    errors = test_losses(s, test, beta, test_samples)
    return Measurement(
        Q=float(np.vdot(s, s)) / dim,
        M=float(np.vdot(s, target)) / dim,
        Q0=teacher.Q0,
        overlap_error=float(np.sum((s - target) ** 2)) / dim,
        rank_fraction=float(np.mean(eigenvalues > RANK_THRESHOLD * math.sqrt(teacher.Q0))),
        eigenvalues=eigenvalues,
        test_error=float(errors.mean()),
        test_error_stderr=float(errors.std(ddof=1) / math.sqrt(errors.size)),
    )


def test_losses(s: Array, test: SampleStream, beta: float, test_samples: int) -> Array:
    """Losses ``||y - A_S||^2`` [n] on the first samples of a stream, a chunk at a time."""
    if test_samples < 2:
        raise UserError(f"test_samples is {test_samples}; give at least 2")
    losses = []
    for start in range(0, test_samples, CHUNK):
        batch = test.rows(start, min(start + CHUNK, test_samples))
        losses.append(AttentionLoss([batch], beta).sample_losses(s))
    return np.concatenate(losses)
