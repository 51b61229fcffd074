"""Training of a head against torch autograd with Adam, to the same objective.

The package trains to its usual tolerance: L-BFGS in coordinates that even out the curvature, with
the gradient written by hand. The plain way is Adam on ``W`` with the loss as the model writes it;
it stops where its objective is within one part in a million of the package's minimum. All its
steps are run, a part of them in each round.
"""

from __future__ import annotations

import math
import time

import numpy as np
import torch

from benchmarks.timing import Settings, row
from hdattn.singlehead.erm import draw_start, fit
from hdattn.singlehead.objective import attention_loss
from hdattn.singlehead.samples import SampleStream, draw_teacher

TITLE = "training against torch autograd with Adam"
TARGET = 10
EXCESS = 1e-6  # over the minimum, at which Adam may stop
RATE = 0.1  # of Adam; the fastest of .03, .1 and .3
LEAST_STEPS = 20  # of Adam between two looks at the clock
MOST_STEPS = 4000
SCAN = (("lam = 0.01, alpha = 1", 1.0, 0.01), ("lam = 0.1, alpha = 1", 1.0, 0.1))


class PlainTraining:
    """Adam by autograd on the factor W [d, p]."""

    def __init__(self, x: np.ndarray, y: np.ndarray, lam: float, start: np.ndarray):
        """Ready to step, on all samples each time."""
        self.x, self.y, self.lam = torch.from_numpy(x), torch.from_numpy(y), lam
        self.eye = torch.eye(x.shape[1], dtype=torch.float64)
        self.w = torch.tensor(start, requires_grad=True)
        self.adam = torch.optim.Adam([self.w], lr=RATE)
        self.steps, self.value = 0, math.inf

    def objective(self) -> torch.Tensor:
        """Loss and penalty per sample, as the model is written."""
        dim, width = self.w.shape
        s = self.w @ self.w.T / math.sqrt(dim * width)
        scores = (self.x @ s @ self.x.transpose(1, 2) - self.eye * s.trace()) / math.sqrt(dim)
        misses = self.y - torch.softmax(scores, dim=-1)
        return (misses.square().sum() + self.lam * self.w.square().sum()) / len(self.x)

    def run(self, count: int, target: float) -> float:
        """Steps until the objective is at the target; processor seconds, of ``count`` at most."""
        begun = time.process_time()
        for _ in range(count):
            self.adam.zero_grad()
            value = self.objective()
            value.backward()
            self.value = value.item()
            if self.value <= target:
                break
            self.adam.step()
            self.steps += 1
        return time.process_time() - begun


def compare(what: str, dim: int, alpha: float, lam: float, settings: Settings) -> dict:
    """Fit again and again, and between the fits a part of the steps of Adam."""
    data = {"dim": dim, "target": {"kind": "mp", "kappa0": 0.5}, "noise": 0.5, "tokens": 2}
    data["beta0"] = 1.0
    teacher = draw_teacher(data, 0, 0)
    x, y = SampleStream(data, 0, 0, teacher).rows(0, round(alpha * dim**2))
    loss, start = attention_loss([(x, y)]), draw_start(data, 0, 0, 1.0)
    trained = fit(loss, lam=lam, kappa=1.0, start=start)
    target = trained.objective * (1 + EXCESS)
    plain = PlainTraining(x, y, lam, start)
    plain.run(2, target)
    ours, theirs = [], [0.0]
    part = LEAST_STEPS
    while plain.value > target and plain.steps < MOST_STEPS:
        begun = time.process_time()
        fit(loss, lam=lam, kappa=1.0, start=start)
        ours.append(time.process_time() - begun)
        theirs.append(plain.run(part, target))
        part = max(LEAST_STEPS, plain.steps // settings.rounds)
    reached = "to the same objective" if plain.value <= target else "and still above"
    return row(
        what,
        sum(theirs) / np.array(ours),
        "x",
        at_least=TARGET,
        detail=f"d = {dim}: {trained.evaluations} evaluations in {np.median(ours):.2f} s against "
        f"{plain.steps} steps in {sum(theirs):.1f} s {reached} (one part in {1 / EXCESS:.0e})",
    )


def measure(settings: Settings) -> list[dict]:
    """Ratios of times at a weak and at a stronger penalty."""
    torch.set_num_threads(1)
    dim = settings.size(60, 16)
    return [compare(what, dim, alpha, lam, settings) for what, alpha, lam in SCAN]
