"""Online SGD against a plain loop over steps, and against the drawing of its random numbers.

The plain loop is that of a first script: one instance after another, at each step a fresh
sequence (or a batch as large as the package's), the loss as the model writes it, autograd, a step.
The package's run is whole, set-up included; of the plain loop one instance is timed for a while,
since instances and steps cost the same. For large dimensions: the rate of whole steps over that of
bare float32 normals from the same generators.
"""

from __future__ import annotations

import numpy as np
import torch

from benchmarks.timing import Settings, race, row
from hdattn.multihead.activations import get_activation
from hdattn.multihead.learners import Learners, Model
from hdattn.multihead.sgd import run_sgd
from hdattn.multihead.start import GaussianStart
from hdattn.multihead.teacher import draw_spikes, make_data

TITLE = "online SGD against a plain loop, and against its random numbers"
TARGET, SHARE = 20, 60
SMALL = 250  # above it, what counts is the rate at which the numbers are drawn
PRIOR = {"kind": "flip", "mean": [0.8, 0, 0], "std": [0, 1.5, 1.2]}
TOKENS, HEADS, GAMMA = 5, 4, 0.5
INSTANCES = 64
NUMBERS = 2**24  # components of tokens drawn in a round at large dimensions


def data_of(dim: int):
    """The data of the benchmark at one dimension."""
    return make_data({"dim": dim, "tokens": TOKENS, "prior": PRIOR})


class PlainLoop:
    """One instance of softmax heads, step by step, with autograd."""

    def __init__(self, dim: int, batch: int, steps: int):
        """At the start."""
        data = data_of(dim)
        self.dim, self.batch, self.steps, self.prior = dim, batch, steps, data.prior
        self.rng = np.random.default_rng(0)
        self.spikes = torch.from_numpy(draw_spikes(data, 0, 0).astype(np.float32))
        self.heads = (0.1 / dim**0.5 * torch.randn(HEADS, dim)).requires_grad_()

    def __call__(self) -> None:
        """Some steps."""
        each = torch.arange(self.batch)
        for _ in range(self.steps):
            x = torch.randn(self.batch, TOKENS, self.dim)
            hidden = torch.from_numpy(self.rng.integers(TOKENS, size=self.batch))
            theta = torch.from_numpy(self.prior.sample(self.rng, self.batch).astype(np.float32))
            x[each, hidden] += theta @ self.spikes
            attention = torch.softmax(x @ self.heads.T, dim=1).mean(dim=2)
            output = (attention[:, :, None] * x).sum(dim=1)
            loss = (x[each, hidden] - output).square().sum() / (self.dim * self.batch)
            (gradient,) = torch.autograd.grad(loss, self.heads)
            with torch.no_grad():
                self.heads -= GAMMA * self.batch * gradient


def against_loops(dim: int, settings: Settings) -> list[dict]:
    """Ratios of time per sequence at one dimension, for both kinds of plain loop."""
    batch, instances = max(1, dim // 50), settings.size(INSTANCES, 4)
    sequences = settings.size(dim, 50) // batch * batch
    arguments = {"activation": "softmax", "heads": HEADS, "gamma": GAMMA}
    arguments |= {"taus": [GAMMA * sequences / dim], "instances": range(instances)}
    plain = {1: PlainLoop(dim, 1, sequences), batch: PlainLoop(dim, batch, sequences // batch)}
    kinds = [lambda: run_sgd(data_of(dim), **arguments), *plain.values()]
    seconds = race(kinds, settings.rounds)
    return [
        row(
            f"D = {dim}, {instances} instances, plain loop in "
            + ("steps of one sequence" if size == 1 else f"the same batches of {size}"),
            instances * seconds[:, i] / seconds[:, 0],
            "x",
            at_least=TARGET if size == 1 and dim <= SMALL else None,
            detail=f"{1e6 * np.median(seconds[:, 0]) / instances / sequences:.1f} against "
            f"{1e6 * np.median(seconds[:, i]) / sequences:.0f} us a sequence",
        )
        for i, size in enumerate(plain, start=1)
    ]


def learning(dim: int, instances: int, activation: str):
    """A step of SGD of all instances, as a function without arguments."""
    model = Model(
        *(data_of(dim), get_activation(activation), HEADS, GAMMA, max(1, dim // 50)),
        *(GaussianStart(), np.dtype(np.float32)),
    )
    learners = Learners(model, 0, range(instances))
    return lambda: learners.step(*learners.next_batch())


def drawing(shape: tuple[int, ...]):
    """The normals of a step, from a generator for each instance, instance by instance."""
    tokens = torch.empty(shape)
    generators = [torch.Generator().manual_seed(i) for i in range(shape[0])]
    return lambda: [
        part.normal_(generator=one) for part, one in zip(tokens, generators, strict=True)
    ]


def against_drawing(dim: int, settings: Settings) -> list[dict]:
    """Share of the drawing rate that whole steps reach."""
    shape = (8, max(1, dim // 50), TOKENS, dim)
    steps = max(1, settings.size(NUMBERS, 2**20) // int(np.prod(shape)))
    kinds = {"drawing": drawing(shape)}
    kinds |= {name: learning(dim, shape[0], name) for name in ("softmax", "bayes")}
    repeated = [lambda kind=kind: [kind() for _ in range(steps)] for kind in kinds.values()]
    seconds = race(repeated, settings.rounds)
    nanoseconds = 1e9 * np.median(seconds, axis=0) / (steps * np.prod(shape))
    return [
        row(
            f"D = {dim}, {name}: rate over that of drawing",
            100 * seconds[:, 0] / seconds[:, i],
            "%",
            at_least=SHARE,
            detail=f"{nanoseconds[i]:.1f} ns a component of a token, {nanoseconds[0]:.1f} ns of "
            "them to draw it",
        )
        for i, name in enumerate(kinds)
        if i
    ]


def measure(settings: Settings) -> list[dict]:
    """Small dimensions against loops, large ones against drawing."""
    torch.set_num_threads(1)
    small, large = settings.size((125, 250, 1000), (50,)), settings.size((1000, 2000), (1000,))
    rows = [line for dim in small for line in against_loops(dim, settings)]
    return rows + [line for dim in large for line in against_drawing(dim, settings)]
