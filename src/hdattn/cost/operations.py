"""What an operation costs: seconds, flop and bytes moved of one unit of each.

Seconds are of one thread of a server core that does 67 GFLOP/s in float64 matrix products. FIT:
found together with the others of its family by non-negative least squares of the relative errors
over the 457 jobs of a default run (CPU time where a job was sampled to its end, else wall time).
TIMED: timed alone. Flop and bytes are counted, to an order of magnitude where marked so (~).
"""

from __future__ import annotations

from typing import NamedTuple

FIT, TIMED = "fit", "timed alone"


class Operation(NamedTuple):
    """Cost of one unit, what the unit is, and where the seconds come from."""

    seconds: float
    flops: float
    bytes: float
    unit: str
    source: str


OPERATIONS = {
    # start-up: interpreter, imports, reading inputs and writing the result
    "start data": Operation(0.7, 0, 0, "job without a solver", TIMED),
    "start theory": Operation(1.1, 0, 0, "job with scipy's solvers", TIMED),
    "start risk": Operation(0.45, 0, 0, "job of quadratures or of data alone", TIMED),
    "start flow": Operation(2.0, 0, 0, "job with Sobol points, from scipy.stats", TIMED),
    "start torch": Operation(3.0, 0, 0, "job with torch, for its streams or derivatives", TIMED),
    # single head
    "normals": Operation(5e-8, 40, 24, "normal number drawn for a token, with its label", TIMED),
    "products": Operation(1.7e-11, 1, 0.05, "flop of products with the samples", TIMED),
    "products of weights": Operation(2e-11, 1, 0.1, "flop of products with weights", TIMED),
    "stream": Operation(1.6e-9, 2, 16, "component of a token read by a gradient", TIMED),
    "decomposition": Operation(2.5e-10, 20, 2, "entry of a matrix times its dimension", TIMED),
    "weights": Operation(1.6e-7, 40, 160, "weight in a step of the optimiser", FIT),
    "softmax": Operation(3.6e-7, 40, 100, "entry of an attention matrix in a gradient", FIT),
    "evaluation": Operation(3.4e-4, 0, 0, "call of the gradient", FIT),
    "sample prox": Operation(1.4e-6, 800, 1500, "~ logit in a step of message passing", FIT),
    "lattice prox": Operation(2.1e-6, 500, 1000, "~ lattice point in a sweep, T = 2", FIT),
    "sampled prox": Operation(6e-7, 150, 300, "~ point times squared logits, T > 2", FIT),
    "spectral sweep": Operation(1.6e-3, 1e5, 1e5, "~ convolution of a spectrum", FIT),
    "modes": Operation(4e-5, 1e4, 1e4, "~ eigenvalue in a convolution", FIT),
    "node pairs": Operation(1.65e-8, 6, 72, "pair of nodes in the replicon", FIT),
    "mode alone": Operation(3.4e-7, 200, 400, "~ eigenvalue without repulsion", FIT),
    "ridgeless point": Operation(0.25, 1e8, 1e8, "~ alpha of the limit lambda -> 0", FIT),
    "threshold": Operation(0.033, 1e7, 1e7, "~ threshold in closed form", FIT),
    # multi-head
    "component": Operation(9e-9, 12, 24, "float32 component of a token, drawn and used", FIT),
    "head component": Operation(5e-11, 4, 2, "the same times heads", TIMED),
    "SGD step": Operation(4e-4, 0, 0, "step of SGD", FIT),
    "instance step": Operation(3.9e-5, 1000, 1000, "~ instance in a step of SGD", FIT),
    "instance": Operation(2e-3, 0, 0, "stream opened", FIT),
    "stream key": Operation(1e-3, 0, 0, "spikes and first labels of a stream drawn", TIMED),
    "score": Operation(1.35e-8, 40, 80, "score in a population loss with gradient", FIT),
    "projection": Operation(1.1e-9, 4, 8, "the same times directions", FIT),
    "block": Operation(2.6e-4, 0, 0, "block of points times image", FIT),
    "autograd": Operation(1e-8, 60, 200, "score times rows of a Hessian", FIT),
    "quadrature": Operation(0.02, 1e7, 1e7, "~ pair of heads", FIT),
    "risk": Operation(3e-5, 5000, 5000, "~ node of a Bayes risk", FIT),
    "plateau": Operation(0.008, 1e6, 1e6, "~ closed form", FIT),
}
"""Cost of a unit of every operation."""
