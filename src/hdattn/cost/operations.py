"""What an operation costs: seconds, flop and bytes moved of one unit of each.

Calibrated on one thread of a 2.1 GHz server core with 67 GFLOP/s in float64 matrix products:
`python -m hdattn.cost.calibration` fits the seconds to the benchmark files of a finished run, by
least squares of relative errors, all kinds of experiment together. Flop and bytes are counted.
"""

from __future__ import annotations

from typing import NamedTuple


class Operation(NamedTuple):
    """Cost of one unit."""

    seconds: float
    flops: float
    bytes: float
    unit: str


OPERATIONS = {
    # start-up: interpreter, imports, reading inputs and writing the result
    "start data": Operation(0.6, 0, 0, "job without a solver"),
    "start theory": Operation(1.1, 0, 0, "job with scipy's solvers"),
    "start risk": Operation(0.4, 0, 0, "job of quadratures alone"),
    "start flow": Operation(2.3, 0, 0, "job with scipy.stats, for Sobol points"),
    "start torch": Operation(3.0, 0, 0, "job with torch, for float32 streams or derivatives"),
    # single head
    "normals": Operation(2.0e-8, 20, 8, "float64 normal number drawn"),
    "products": Operation(1.7e-11, 1, 0.05, "flop of float64 matrix products"),
    "weights": Operation(5e-11, 1, 0.1, "flop of products with the weights"),
    "stream": Operation(8e-9, 6, 40, "token component read by an evaluation"),
    "softmax": Operation(2e-8, 20, 64, "entry of an attention matrix of an evaluation"),
    "evaluation": Operation(7e-4, 0, 0, "call of the gradient"),
    "decomposition": Operation(1e-10, 1, 0.2, "flop of eigen- and singular values"),
    "sample prox": Operation(4.0e-6, 800, 1500, "sample in a step of message passing"),
    "lattice prox": Operation(2.3e-6, 500, 1000, "lattice point in a sweep, two tokens"),
    "sampled prox": Operation(8.5e-7, 150, 300, "quadrature point times logits squared"),
    "spectral sweep": Operation(7e-3, 1e5, 1e5, "convolution of a spectrum"),
    "modes": Operation(2.5e-5, 1e4, 1e4, "eigenvalue in a convolution"),
    "node pairs": Operation(1.2e-8, 6, 72, "pair of nodes in the replicon"),
    "mode alone": Operation(1.6e-7, 200, 400, "eigenvalue without repulsion"),
    "ridgeless point": Operation(0.28, 1e8, 1e8, "alpha of the limit lambda -> 0"),
    "threshold": Operation(0.033, 1e7, 1e7, "threshold in closed form"),
    # multi-head
    "component": Operation(8e-9, 12, 24, "float32 token component: drawn and used"),
    "head component": Operation(3e-10, 4, 2, "token component times heads"),
    "SGD score": Operation(5e-8, 40, 60, "score of SGD"),
    "SGD step": Operation(4e-4, 0, 0, "step of SGD"),
    "instance": Operation(1.5e-3, 0, 0, "stream opened"),
    "score": Operation(2e-8, 40, 80, "entry of the attention, of a loss with gradient"),
    "projection": Operation(2e-9, 4, 8, "score times directions, of a loss with gradient"),
    "block": Operation(9e-5, 0, 0, "block of points times images"),
    "autograd": Operation(7e-8, 60, 200, "score times rows of a Hessian"),
    "quadrature": Operation(0.05, 1e7, 1e7, "pair of heads"),
    "risk": Operation(3e-5, 5000, 5000, "node of a Bayes risk"),
    "plateau": Operation(0.018, 1e6, 1e6, "closed form"),
}
"""Cost of a unit of every operation."""
