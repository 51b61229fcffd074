"""What is measured on a trained head, under the names of the theory."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hdattn.errors import UserError
from hdattn.singlehead.attention import Array
from hdattn.singlehead.heads import head_named
from hdattn.singlehead.objective import AttentionLoss
from hdattn.singlehead.samples import CHUNK, SampleStream, Teacher

# An eigenvalue counts towards the rank above RANK_THRESHOLD times the largest of S. L-BFGS leaves
# modes that should vanish at 1e-6 or less (Adam: 1e-5), while the smallest kept modes are about
# 1/d apart, so that 1e-4 loses a fraction of about 1e-4 of the spectrum. Where the largest itself
# is that small beside the target, in the head's own units, S is 0 up to the optimiser: rank 0.
RANK_THRESHOLD = 1e-4


@dataclass(frozen=True, eq=False)
class Measurement:
    """Overlaps, spectrum and errors of a trained S against its teacher.

    Attributes
    ----------
    Q, M, Q0: ``Tr S^2/d``, ``Tr S S0/d``, ``Tr S0^2/d``.
    overlap_error: ``||S - S0||_F^2/d = Q - 2M + Q0``.
    rank_fraction: fraction of the d singular values of S above ``RANK_THRESHOLD`` times the
        largest; 0 where none is above ``RANK_THRESHOLD (beta0/beta) sqrt(Q0)``: S = 0.
    eigenvalues: of S [d], ascending; of its symmetric part where S is not symmetric.
    asymmetry: ``||(S - S^T)/2||_F^2/||S||_F^2``, 0 for tied and direct heads.
    negativity: share of negative eigenvalues in the sum of squares of ``eigenvalues``.
    test_error, test_error_stderr: mean of ``||y - A_S||^2`` (or of the loss of another task) over
        fresh samples, its standard error.
    """

    Q: float
    M: float
    Q0: float
    overlap_error: float
    rank_fraction: float
    eigenvalues: Array
    asymmetry: float
    negativity: float
    test_error: float
    test_error_stderr: float


def measure(
    weights: Array,
    teacher: Teacher,
    test: SampleStream,
    *,
    beta: float = 1.0,
    test_samples: int = 32 * CHUNK,
    head: str = "tied",
    task: str = "seq2lab",
) -> Measurement:
    """Measure trained weights, W [d, p] or another head's, on samples of the test stream."""
    s = head_named(head).matrix(weights)
    if s.shape != teacher.S0.shape:
        raise UserError(f"S is {len(s)} x {len(s)} but the teacher has dimension {len(teacher.S0)}")
    errors = test_losses(s, test, beta, test_samples, task)
    return measurement(weights, teacher, errors, head, unit=test.data["beta0"] / beta)


def measurement(
    weights: Array, teacher: Teacher, errors: Array, head: str, *, unit: float = 1.0
) -> Measurement:
    """Measurement of weights whose losses on fresh samples are ``errors`` [n].

    unit: beta0/beta, by which S is larger than the target when the head has learnt it.
    """
    kind = head_named(head)
    s, target = kind.matrix(weights), teacher.S0
    dim, eigenvalues = len(s), kind.eigenvalues(weights)
    return Measurement(
        Q=float(np.vdot(s, s)) / dim,
        M=float(np.vdot(s, target)) / dim,
        Q0=teacher.Q0,
        overlap_error=float(np.sum((s - target) ** 2)) / dim,
        rank_fraction=_rank_fraction(kind.singular_values(weights), unit * math.sqrt(teacher.Q0)),
        eigenvalues=eigenvalues,
        asymmetry=_share(np.sum((s - s.T) ** 2) / 4, np.sum(s**2)),
        negativity=_share(np.sum(eigenvalues[eigenvalues < 0] ** 2), np.sum(eigenvalues**2)),
        test_error=float(errors.mean()),
        test_error_stderr=float(errors.std(ddof=1) / math.sqrt(errors.size)),
    )


def _rank_fraction(values: Array, scale: float) -> float:
    """Fraction of singular values [d] that stand out; scale: their size where S is not 0."""
    largest = float(values.max())
    if largest <= RANK_THRESHOLD * scale:
        return 0.0
    return float(np.mean(values > RANK_THRESHOLD * largest))


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0 else 0.0


def test_losses(
    s: Array, test: SampleStream, beta: float, test_samples: int, task: str = "seq2lab"
) -> Array:
    """Losses ``||y - A_S||^2`` [n] on the first samples of a stream, a chunk at a time."""
    if test_samples < 2:
        raise UserError(f"test_samples is {test_samples}; give at least 2")
    losses, symmetric = [], np.array_equal(s, s.T)
    for start in range(0, test_samples, CHUNK):
        batch = test.rows(start, min(start + CHUNK, test_samples))
        loss = AttentionLoss([batch], beta, task=task, symmetric=symmetric)
        losses.append(loss.sample_losses(s))
    return np.concatenate(losses)
