"""Flop rate of the training gradient against that of the matrix products it is made of.

At T = 2 loss and gradient on n samples take two products, of shapes [n, d] x [d, d] and
[d, n] x [n, d]: 4 n d^2 flop in all; softmax, pullback and elementwise work come on top. The bare
products go through as much memory, in the same blocks. Peak is a square product of 1024.
"""

from __future__ import annotations

import numpy as np

from benchmarks.machine import gemm_rate
from benchmarks.timing import Settings, race, row
from hdattn.singlehead.objective import BLOCK, AttentionLoss

TITLE = "flop rate of the gradient against that of matrix products"
SAME_SHAPE, OF_PEAK = 40, 35
DIMS = (60, 100, 200)


def gradient_flops(samples: int, dim: int) -> int:
    """Flop of the matrix products behind loss and gradient at T = 2."""
    return 4 * samples * dim**2


def random_loss(samples: int, dim: int, tokens: int = 2) -> AttentionLoss:
    """Loss on samples and labels that mean nothing."""
    rng = np.random.default_rng(0)
    labels = rng.dirichlet(np.ones(tokens), (samples, tokens))
    return AttentionLoss([(rng.standard_normal((samples, tokens, dim)), labels)])


def random_matrix(dim: int) -> np.ndarray:
    """A symmetric S [d, d]."""
    w = np.random.default_rng(1).standard_normal((dim, dim))
    return w @ w.T / dim


def bare_products(samples: int, dim: int):
    """The two products of each block and nothing else, as a function without arguments."""
    count = -(-samples // BLOCK)
    rows = np.random.default_rng(2).standard_normal((2, count, BLOCK, dim))
    s, out, gradient = random_matrix(dim), np.empty((BLOCK, dim)), np.empty((dim, dim))

    def products() -> None:
        for left, right in zip(*rows, strict=True):
            np.matmul(left, s, out=out)
            np.matmul(left.T, right, out=gradient)

    return products, count * BLOCK


def measure(settings: Settings) -> list[dict]:
    """Shares of the rate of the bare products, and of the peak at the largest dimension."""
    rows = []
    for dim in settings.size(DIMS, (60,)):
        samples = BLOCK * -(-settings.size(dim**2, 1024) // BLOCK // 2)
        loss, s = random_loss(samples, dim), random_matrix(dim)
        products, padded = bare_products(samples, dim)
        seconds = race([lambda: loss.value_and_gradient(s), products], settings.rounds)  # noqa: B023
        rate = gradient_flops(samples, dim) / seconds[:, 0]
        bare = gradient_flops(padded, dim) / seconds[:, 1]
        detail = (
            f"{np.median(rate) / 1e9:.1f} of {np.median(bare) / 1e9:.1f} Gflop/s, n = {samples}, "
            f"{1e3 * np.median(seconds[:, 0]):.1f} ms"
        )
        target = SAME_SHAPE if dim <= 100 else None
        what = f"d = {dim}: rate over that of its bare products"
        rows.append(row(what, 100 * rate / bare, "%", at_least=target, detail=detail))
        if dim > 100:
            peak = gemm_rate("float64")
            detail = f"peak {peak / 1e9:.1f} Gflop/s (1024 x 1024 x 1024)"
            what = f"d = {dim}: rate over the peak"
            rows.append(row(what, 100 * rate / peak, "%", at_least=OF_PEAK, detail=detail))
    return rows
