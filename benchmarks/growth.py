"""Growth of cost with d, n, T, H, L and D: exponents fitted to times, and those expected.

The sizes take turns; each round gives a least-squares slope of log time against log size. The
expected exponents count the dominant work, or range over the works that weigh alike at these sizes;
fixed costs lower what is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.flops import random_loss, random_matrix
from benchmarks.timing import Settings, race, row
from hdattn.multihead.activations import get_activation
from hdattn.multihead.population import PopulationLoss
from hdattn.multihead.priors import FlippingPrior
from hdattn.multihead.sgd import run_sgd

TITLE = "growth of cost"
MARGIN = 0.35  # of an exponent, that sizes this small may be off
PRIOR = FlippingPrior([0.8, 0.0, 0.0], [0.0, 1.5, 1.2])


def gradient(samples: int, dim: int, tokens: int = 2) -> Callable[[], object]:
    """Loss and gradient of training."""
    loss, s = random_loss(samples, dim, tokens), random_matrix(dim)
    return lambda: loss.value_and_gradient(s)


def population(heads: int, tokens: int, points: int) -> Callable[[], object]:
    """Loss and gradient of the population, softmax heads."""
    loss = PopulationLoss(get_activation("softmax"), tokens, PRIOR, base_points=points)
    weights = np.random.default_rng(0).standard_normal((heads, PRIOR.dim_features))
    return lambda: loss.evaluate(weights)


def sgd(dim: int, tokens: int, heads: int) -> Callable[[], object]:
    """Online SGD of one instance for a fixed time tau."""
    data = {"dim": dim, "tokens": tokens, "prior": PRIOR.to_dict()}
    options = {"activation": "softmax", "heads": heads, "gamma": 0.5, "taus": [0.5]}
    return lambda: run_sgd(data, **options)


class Case(NamedTuple):
    """What grows with which sizes (and those of a trial), the work at a size, what is expected."""

    what: str
    sizes: Sequence[int]
    quick: Sequence[int]
    work: Callable[[int], Callable[[], object]]
    exponents: tuple[int, int]
    reason: str


CASES = (
    Case(
        "training gradient against d at n = d^2/2",
        *((80, 120, 180, 270), (24, 32)),
        *(
            lambda d: gradient(d**2 // 2, d),
            (3, 4),
            "passes of n d, products of n d^2",
        ),
    ),
    Case(
        "training gradient against n at d = 60",
        *((2048, 4096, 8192, 16384), (1024, 2048)),
        *(lambda n: gradient(n, 60), (1, 1), "samples in blocks"),
    ),
    Case(
        "training gradient against T - 1 at d = 60",
        *((1, 2, 4, 8), (1, 2)),
        *(lambda k: gradient(2048, 60, k + 1), (1, 1), "2 (T - 1) products; pairs of tokens add"),
    ),
    Case(
        "population loss against H",
        *((4, 8, 16, 32), (2, 4)),
        *(lambda heads: population(heads, 5, 2048), (1, 1), "H L scores a point"),
    ),
    Case(
        "population loss against L",
        *((4, 8, 16, 32), (4, 8)),
        *(lambda tokens: population(4, tokens, 2048), (1, 1), "H L scores a point"),
    ),
    Case(
        "population loss against points",
        *((1024, 4096, 16384, 65536), (1024, 2048)),
        *(lambda points: population(4, 5, points), (1, 1), "points in blocks"),
    ),
    Case(
        "online SGD to a fixed tau against D",
        *((800, 1600, 3200, 4800), (100, 200)),
        *(lambda dim: sgd(dim, 5, 4), (2, 2), "tau D / gamma sequences of L D numbers"),
    ),
    Case(
        "online SGD against L at D = 800",
        *((4, 8, 16, 32), (4, 8)),
        *(lambda tokens: sgd(800, tokens, 4), (1, 1), "L D numbers a sequence"),
    ),
    Case(
        "online SGD against H at D = 800",
        *((2, 4, 8, 16), (2, 4)),
        *(lambda heads: sgd(800, 5, heads), (0, 0), "mostly drawing, which needs no H"),
    ),
)


def exponents(sizes: Sequence[float], seconds: np.ndarray) -> np.ndarray:
    """Slopes [rounds] of log seconds [rounds, sizes] against log size."""
    return np.polyfit(np.log(sizes), np.log(seconds).T, 1)[0]


def measure(settings: Settings) -> list[dict]:
    """A row for each case."""
    rows = []
    for case in CASES:
        sizes = settings.size(case.sizes, case.quick)
        seconds = race([case.work(size) for size in sizes], settings.rounds)
        times = ", ".join(f"{1e3 * t:.3g}" for t in np.median(seconds, axis=0))
        low, high = case.exponents
        expected = low if low == high else f"{low} to {high}"
        detail = f"expected {expected}: {case.reason}; "
        detail += f"{times} ms at {', '.join(map(str, sizes))}"
        bounds = {"at_least": low - MARGIN, "at_most": high + MARGIN}
        values = exponents(sizes, seconds)
        rows.append(row(case.what, values, "exponent", detail=detail, **bounds))
    return rows
