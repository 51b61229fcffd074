"""Test errors of what message passing estimates, on fresh samples."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from hdattn.singlehead.amp_run import AmpRun
from hdattn.singlehead.attention import Array
from hdattn.singlehead.measure import test_losses
from hdattn.singlehead.observations import Observations, logit_differences
from hdattn.singlehead.population import row_gaussians, row_softmax
from hdattn.singlehead.problem import Problem
from hdattn.singlehead.quadrature import gaussian_trapezoid, sigmoid_step
from hdattn.singlehead.samples import CHUNK, SampleStream
from hdattn.singlehead.token_basis import score_map

LABEL_POINTS = 256  # quasi-random noises behind a mean label: right to about 1e-3 of its spread


def test_error(run: AmpRun, problem: Problem, test: SampleStream, samples: int) -> float:
    """Mean test error over the first ``samples`` of a stream.

    Of the attention of S (soft), or of the posterior mean of the attention (bayes).
    """
    if run.denoiser == "soft":
        return float(test_losses(run.S, test, problem.beta, samples).mean())
    posterior_losses = _two_token_losses if problem.tokens == 2 else _row_losses
    losses = [
        posterior_losses(run, problem, test, start, min(start + CHUNK, samples))
        for start in range(0, samples, CHUNK)
    ]
    return float(np.concatenate(losses).mean())


def _two_token_losses(
    run: AmpRun, problem: Problem, test: SampleStream, start: int, stop: int
) -> Array:
    """||y - E[y | data]||^2 [n]: scores of a label are N(z(S), (V + noise/2) C)."""
    fresh = Observations([test.rows(start, stop)], logit_differences())
    spread = np.sqrt(3 * (run.state.V + problem.noise / 2))
    x, weights = gaussian_trapezoid(sigmoid_step(problem.beta0 * spread))
    mean = expit(problem.beta0 * (fresh.logits(run.S)[..., None] + spread * x)) @ weights
    return 2 * ((fresh.labels[[0, 1], [0, 1]] - mean) ** 2).sum(axis=0)


def _row_losses(run: AmpRun, problem: Problem, test: SampleStream, start: int, stop: int) -> Array:
    """The same at any T, row by row: noise of the differences h_ab - h_aa, quasi-random."""
    tokens = problem.tokens
    fresh = Observations([test.rows(start, stop)])
    h = (score_map(tokens) @ fresh.logits(run.S)).reshape(tokens, tokens, -1)
    spread = np.sqrt(run.state.V + problem.noise / 2)
    (noise,) = row_gaussians(tokens, 1, LABEL_POINTS)
    losses = np.zeros(h.shape[2])
    for a in range(tokens):
        order = [a, *(b for b in range(tokens) if b != a)]  # itself first
        known = (h[a, order[1:]] - h[a, a])[..., None]
        mean = row_softmax(problem.beta0 * (known + spread * noise[:, None])).mean(2)
        losses += ((fresh.labels[a, order] - mean) ** 2).sum(0)
    return losses
