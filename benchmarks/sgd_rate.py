"""Rate of online SGD against the rate at which the machine draws the random numbers it needs.

    python benchmarks/sgd_rate.py [--dims 250 1000 2000] [--instances 8] [--numbers 1e8]

Prints, for each dimension, nanoseconds of processor time per component of a token: of bare
float32 normals from torch and from numpy's fastest generator, and of whole steps of SGD (softmax
and B-softmax, drawing included); then the rate of SGD over those of the two generators, and the
processor time of an instance at gamma = .5 to tau = 60. A step of each kind follows another, so
that all see the same machine, however busy.
"""

import argparse
import os
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402 (threads first)
import torch  # noqa: E402

from hdattn.multihead.activations import get_activation  # noqa: E402
from hdattn.multihead.learners import Learners, Model  # noqa: E402
from hdattn.multihead.start import GaussianStart  # noqa: E402
from hdattn.multihead.teacher import make_data  # noqa: E402

PRIOR = {"kind": "flip", "mean": [0.8, 0, 0], "std": [0, 1.5, 1.2]}
TOKENS, HEADS, GAMMA, TAU = 5, 4, 0.5, 60.0


def learning(dim: int, batch: int, instances: int, activation: str):
    """A step of SGD of all instances, as a function without arguments."""
    data = make_data({"dim": dim, "tokens": TOKENS, "prior": PRIOR})
    rule = get_activation(activation)
    model = Model(data, rule, HEADS, GAMMA, batch, GaussianStart(), np.dtype(np.float32))
    learners = Learners(model, 0, range(instances))
    return lambda: learners.step(*learners.next_batch())


def drawing_torch(shape: tuple[int, ...]):
    """The normals of a step, from a generator for each instance, instance by instance."""
    tokens = torch.empty(shape)
    generators = [torch.Generator().manual_seed(i) for i in range(shape[0])]
    return lambda: [
        part.normal_(generator=one) for part, one in zip(tokens, generators, strict=True)
    ]


def drawing_numpy(shape: tuple[int, ...]):
    """The same with numpy's SFC64 and ziggurat."""
    tokens = np.empty(shape, dtype=np.float32)
    generators = [np.random.Generator(np.random.SFC64(i)) for i in range(shape[0])]
    return lambda: [
        one.standard_normal(out=part, dtype=np.float32)
        for part, one in zip(tokens, generators, strict=True)
    ]


def measure(dim: int, count: int, instances: int) -> np.ndarray:
    """Nanoseconds per component of the four kinds of step, taken in turn."""
    batch = max(1, dim // 50)
    shape = (instances, batch, TOKENS, dim)
    kinds = [
        drawing_torch(shape),
        drawing_numpy(shape),
        learning(dim, batch, instances, "softmax"),
        learning(dim, batch, instances, "bayes"),
    ]
    seconds = np.zeros(len(kinds))
    rounds = max(1, count // int(np.prod(shape)))
    for _ in range(rounds):
        for i, kind in enumerate(kinds):
            begun = time.process_time()
            kind()
            seconds[i] += time.process_time() - begun
    return 1e9 * seconds / (rounds * np.prod(shape))


def main() -> None:
    """Measure each dimension and print a line for it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dims", type=int, nargs="+", default=[125, 250, 500, 1000, 2000])
    parser.add_argument("--instances", type=int, default=8)
    parser.add_argument("--numbers", type=float, default=1e8, help="components of each kind")
    options = parser.parse_args()
    print("      |        ns per component        |        ratio of rates        |  s/instance")
    print("    D |  torch   numpy  softmax  bayes | softmax  bayes  softmax/numpy |   to tau=60")
    for dim in options.dims:
        torch_ns, numpy_ns, softmax, bayes = measure(dim, int(options.numbers), options.instances)
        seconds = softmax * 1e-9 * TAU * dim**2 * TOKENS / GAMMA
        print(
            f"{dim:5d} | {torch_ns:6.2f} {numpy_ns:7.2f} {softmax:8.2f} {bayes:6.2f} |"
            f" {torch_ns / softmax:7.0%} {torch_ns / bayes:6.0%} {numpy_ns / softmax:14.0%} |"
            f" {seconds:11.2f}"
        )


if __name__ == "__main__":
    main()
