"""Test errors of what message passing estimates, on fresh samples."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from hdattn.errors import NotYet
from hdattn.singlehead.amp import AmpRun
from hdattn.singlehead.attention import Array
from hdattn.singlehead.measure import test_losses
from hdattn.singlehead.observations import Observations, logit_differences
from hdattn.singlehead.problem import Problem
from hdattn.singlehead.quadrature import gaussian_trapezoid, sigmoid_step
from hdattn.singlehead.samples import CHUNK, SampleStream


def test_error(run: AmpRun, problem: Problem, test: SampleStream, samples: int) -> float:
    """Mean test error over the first ``samples`` of a stream.

    Of the attention of S (soft), or of the posterior mean of the attention (bayes).
    """
    if run.denoiser == "soft":
        return float(test_losses(run.S, test, problem.beta, samples).mean())
    if problem.tokens != 2:
        raise NotYet(f"tokens = {problem.tokens}: the Bayes test error is measured for tokens = 2")
    losses = [
        _posterior_losses(run, problem, test, start, min(start + CHUNK, samples))
        for start in range(0, samples, CHUNK)
    ]
    return float(np.concatenate(losses).mean())


def _posterior_losses(
    run: AmpRun, problem: Problem, test: SampleStream, start: int, stop: int
) -> Array:
    """||y - E[y | data]||^2 [n]: scores of a label are N(z(S), (V + noise/2) C)."""
    fresh = Observations([test.rows(start, stop)], logit_differences())
    spread = np.sqrt(3 * (run.state.V + problem.noise / 2))
    x, weights = gaussian_trapezoid(sigmoid_step(problem.beta0 * spread))
    mean = expit(problem.beta0 * (fresh.logits(run.S)[..., None] + spread * x)) @ weights
    return 2 * ((fresh.labels[[0, 1], [0, 1]] - mean) ** 2).sum(axis=0)
