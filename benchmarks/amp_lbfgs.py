"""Message passing against L-BFGS: processor time to the same objective on the same samples.

    python -m benchmarks.amp_lbfgs [--dim 100] [--alpha 2] [--lam 0.1] [--instances 2]

L-BFGS trains to its usual tolerance; message passing runs until its objective is as low, to one
part in 1e-7. Their minima are compared, and the time of one iteration is printed. The two take
turns, instance by instance, so that both see the same machine.
"""

import argparse
import time

import numpy as np

from hdattn.singlehead.amp import MessagePassing, observe
from hdattn.singlehead.erm import draw_start, fit
from hdattn.singlehead.problem import Problem
from hdattn.singlehead.samples import SampleStream, draw_teacher
from hdattn.singlehead.targets import Spectrum

SAME = 1e-7
KAPPA0, NOISE = 0.5, 0.5


def timed(function):
    """Value of a function and the processor seconds it took."""
    begun = time.process_time()
    value = function()
    return value, time.process_time() - begun


def compare(dim: int, alpha: float, lam: float, number: int, damping: float) -> tuple:
    """Seconds of L-BFGS and of message passing, iterations of the latter, difference of minima."""
    data = {"dim": dim, "target": {"kind": "mp", "kappa0": KAPPA0}, "noise": NOISE, "tokens": 2}
    data["beta0"] = 1.0
    teacher = draw_teacher(data, 0, number)
    samples = round(alpha * dim**2)
    problem = Problem(samples / dim**2, lam, target=Spectrum(teacher.eigenvalues), noise=NOISE)
    batch = SampleStream(data, 0, number, teacher).rows(0, samples)
    seen = observe([batch], problem)
    start = draw_start(data, 0, number, 1.0)
    trained, lbfgs_seconds = timed(lambda: fit(seen, lam=lam, kappa=1.0, start=start))
    passing = MessagePassing(seen, problem, damping=damping)
    full = passing.run(tol=1e-6)
    below = np.flatnonzero(full.history["objective"] <= trained.objective * (1 + SAME))
    if not below.size:
        return lbfgs_seconds, np.nan, full.iterations, full.objective / trained.objective - 1
    count = int(below[0])
    _, seconds = timed(lambda: passing.run(tol=1e-30, max_iterations=count))
    return lbfgs_seconds, seconds, count, full.objective / trained.objective - 1


def main() -> None:
    """Measure each instance and print a line for it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--alpha", type=float, default=2.0)
    parser.add_argument("--lam", type=float, default=0.1)
    parser.add_argument("--damping", type=float, default=0.0)
    parser.add_argument("--instances", type=int, default=2)
    options = parser.parse_args()
    print(f"d = {options.dim}, alpha = {options.alpha:g}, lam = {options.lam:g}, one thread")
    print("instance | L-BFGS (s) | message passing (s)  iterations  s/iteration | ratio | excess")
    for number in range(options.instances):
        lbfgs, amp, count, excess = compare(
            options.dim, options.alpha, options.lam, number, options.damping
        )
        print(
            f"{number:8d} | {lbfgs:10.2f} | {amp:19.2f} {count:11d} {amp / max(count, 1):12.4f} |"
            f" {lbfgs / amp:5.2f} | {excess:.1e}"
        )


if __name__ == "__main__":
    main()
