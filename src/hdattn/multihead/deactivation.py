"""Heads that switch off: their total attention on sequences of their own sign and of the other.

The total attention of a head is the sum of its weights over the tokens: 1 for softmax, below 1 for
softmax-1, and for B-softmax the head's share of the joint mass. A head's *own* sequences are those
in which theta has the head's sign along every direction that the head has learnt.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hdattn.multihead.priors import Prior
from hdattn.multihead.teacher import SequenceStream

LEARNT = 0.25
"""A head has learnt a direction where its overlap is this part of its largest one or more."""

BINS = 50
"""Bins of the histograms between 0 and 1."""

_CHUNK = 256  # D-dimensional sequences drawn at once, a multiple of the stream's unit


@dataclass(frozen=True)
class Deactivation:
    """Statistics of the total attention of each head, [H, 2]: own sequences, then the others.

    histogram [H, 2, BINS]: fraction of the sequences in each bin of [0, 1]. mean, median; count of
    sequences. A head that has learnt no direction has no other sequences: NaN.
    """

    mean: np.ndarray
    median: np.ndarray
    count: np.ndarray
    histogram: np.ndarray


def own_sequences(m: np.ndarray, theta: np.ndarray, random: np.ndarray) -> np.ndarray:
    """Whether theta [n, F] has the sign of each head m [H, F] where it has learnt: [H, n].

    ``random`` [F] marks the directions with a random sign; the others do not count.
    """
    along = np.where(random, m, 0.0)
    learnt = np.abs(along) > LEARNT * np.abs(along).max(axis=1, keepdims=True)
    agree = np.sign(m)[:, None] == np.sign(theta)[None]
    return np.all(agree | ~learnt[:, None], axis=2)


def deactivation(totals: np.ndarray, own: np.ndarray) -> Deactivation:
    """Statistics of total attention [H, n] on sequences that are a head's own or not, [H, n]."""
    groups = [[head[mine], head[~mine]] for head, mine in zip(totals, own, strict=True)]
    edges = np.linspace(0.0, 1.0, BINS + 1)
    inside = 1.0 - 0.5 / BINS  # rounding leaves softmax heads a little above 1

    def each(statistic) -> np.ndarray:
        return np.array([[statistic(x) if x.size else np.nan for x in pair] for pair in groups])

    histogram = [
        [np.histogram(np.minimum(x, inside), edges)[0] / (x.size or np.nan) for x in pair]
        for pair in groups
    ]
    count = np.array([[x.size for x in pair] for pair in groups])
    return Deactivation(each(np.mean), each(np.median), count, np.array(histogram))


def population_scores(
    tokens: int, prior: Prior, weights: np.ndarray, count: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Scores chi [H, L, n] of n sequences and their theta [n, F], from reduced weights [H, F+K].

    The exact law of the scores at any D, without the D-dimensional tokens.
    """
    heads, dim = weights.shape
    theta = prior.sample(rng, count)
    chi = weights @ rng.standard_normal((dim, tokens * count))
    chi = chi.reshape(heads, tokens, count)
    chi[:, 0] += weights[:, : prior.dim_features] @ theta.T
    return chi, theta


def sequence_scores(
    stream: SequenceStream, weights: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """The same from the next ``count`` D-dimensional sequences and weights k [H, D].

    ``count`` is rounded up to whole chunks of 256.
    """
    data, chi, theta = stream.data, [], []
    k = weights.astype(np.float32).T
    for _ in range(-(-count // _CHUNK)):
        x = np.empty((_CHUNK, data.tokens, data.dim), dtype=np.float32)
        theta.append(stream.draw_labelled(x)[1])
        chi.append((x @ k).T.astype(float))
    return np.concatenate(chi, axis=2), np.concatenate(theta).astype(float)
