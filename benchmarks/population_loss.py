"""Population loss by symmetric Sobol points against plain Monte Carlo, at equal accuracy.

    python benchmarks/population_loss.py [--points 1024 8192] [--flow-points 256] [--rounds 5]

The library evaluates loss and gradient on scrambled Sobol points closed under flips, with
hand-written derivatives. The plain way draws signs and normals and takes the gradient by torch
autograd; it is given the reduction to the span of the spikes all the same. Its number of samples is
the one at which its loss has the rms error of the Sobol loss, both against the quadrature. Then a
short gradient flow in both ways, by the same integrator: the plain one has the number of samples at
which the overlaps at the end have the same rms error, against a flow on many Sobol points.

Prints the processor time of each, their ratio (median over rounds in which the two take turns,
so that both see the same machine), and the time of one quadrature of each activation.
"""

import argparse
import itertools
import os
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402 (threads first)
import torch  # noqa: E402
from scipy.integrate import solve_ivp  # noqa: E402

from hdattn.multihead.activations import get_activation  # noqa: E402
from hdattn.multihead.flow import FlowProblem, solve_flow  # noqa: E402
from hdattn.multihead.population import PopulationLoss  # noqa: E402
from hdattn.multihead.priors import FlippingPrior  # noqa: E402
from hdattn.multihead.quadrature import population_loss  # noqa: E402

TOKENS, TAU = 5, 10.0
PRIOR = FlippingPrior([0.8, 0.0, 0.0], [0.0, 1.5, 1.2])
POINT = np.array([[0.8, 1.5, 0.2], [0.8, -1.5, 0.2], [0.7, 0.3, 1.2], [0.7, 0.1, -1.2]])
START = 0.3 * np.array([[1.0, 1.0, 0.5], [0.5, -1.0, 0.5], [0.0, 0.5, -1.0], [0.5, 0.0, 1.0]])
CHUNK = 2**14  # samples that plain Monte Carlo handles at once: more are slower
SCRAMBLES, PROBE = 32, 8  # runs behind the rms errors of a loss and of a flow
PROBE_SAMPLES = 2**14
REFERENCE_POINTS = 2**14
ATTENTION = {
    "softmax": lambda chi: torch.softmax(chi, dim=1).mean(dim=2),
    "bayes": lambda chi: torch.softmax(chi.flatten(1), dim=1).view_as(chi).sum(dim=2),
}


class PlainMonteCarlo:
    """Loss and gradient of heads [H, F] by autograd, on ``samples`` independent sequences."""

    def __init__(self, activation: str, samples: int, seed: int):
        """Draw the sequences, the hidden token first."""
        self.attention = ATTENTION[activation]
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((samples, TOKENS, PRIOR.dim_features))
        x[:, 0] += PRIOR.sample(rng, samples)
        self.x = torch.from_numpy(x)

    def evaluate(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """Loss and gradient."""
        heads = torch.from_numpy(weights).requires_grad_()
        target = torch.eye(1, TOKENS, dtype=torch.float64)
        total = 0.0
        for part in self.x.split(CHUNK):
            attention = self.attention(part @ heads.T)
            loss = (attention - target).square().sum() / len(self.x)
            loss.backward()
            total += loss.item()
        return total, heads.grad.numpy()

    def flow(self) -> np.ndarray:
        """Overlaps [H, F] at the end of the gradient flow."""
        velocity = lambda _, m: -self.evaluate(m.reshape(START.shape))[1].ravel()  # noqa: E731
        solution = solve_ivp(velocity, (0.0, TAU), START.ravel(), rtol=1e-6, atol=1e-9)
        return solution.y[:, -1].reshape(START.shape)


def sobol_flow(activation: str, points: int, seed: int) -> np.ndarray:
    """The same with the library, biases fixed at zero as there."""
    problem = FlowProblem(activation, TOKENS, PRIOR, START)
    flow = solve_flow(problem, np.array([TAU]), base_points=points, seed=seed, with_loss=False)
    return flow.m[-1]


def rms(errors) -> float:
    """Root of the mean square."""
    return float(np.sqrt(np.mean(np.square(errors))))


def race(kinds: list, rounds: int) -> np.ndarray:
    """Seconds [rounds, kinds] of functions that take turns."""
    seconds = np.empty((rounds, len(kinds)))
    for row in seconds:
        for i, kind in enumerate(kinds):
            begun = time.process_time()
            kind()
            row[i] = time.process_time() - begun
    return seconds


def compare_losses(activation: str, points: int, rounds: int) -> None:
    """Loss and gradient at one point."""
    exact = population_loss(activation, TOKENS, PRIOR, POINT).value
    rule = get_activation(activation)
    sets = [
        PopulationLoss(rule, TOKENS, PRIOR, base_points=points, seed=i) for i in range(SCRAMBLES)
    ]
    error = rms([one.evaluate(POINT).loss - exact for one in sets])
    probes = [PlainMonteCarlo(activation, PROBE_SAMPLES, i) for i in range(SCRAMBLES)]
    plain = rms([one.evaluate(POINT)[0] - exact for one in probes])
    samples = round(PROBE_SAMPLES * (plain / error) ** 2)
    naive = PlainMonteCarlo(activation, samples, SCRAMBLES)
    kinds = [lambda: sets[0].evaluate(POINT), lambda: naive.evaluate(POINT)]
    report(f"E, gradient {activation}", error, points, samples, race(kinds, rounds))


def compare_flows(activation: str, points: int, rounds: int) -> None:
    """Overlaps at the end of a flow."""
    exact = sobol_flow(activation, REFERENCE_POINTS, SCRAMBLES)
    error = rms([sobol_flow(activation, points, seed) - exact for seed in range(PROBE)])
    probes = [PlainMonteCarlo(activation, PROBE_SAMPLES, seed) for seed in range(PROBE)]
    plain = rms([one.flow() - exact for one in probes])
    samples = round(PROBE_SAMPLES * (plain / error) ** 2)
    naive = PlainMonteCarlo(activation, samples, PROBE)
    kinds = [lambda: sobol_flow(activation, points, 0), naive.flow]
    report(f"flow to {TAU:g} {activation}", error, points, samples, race(kinds, rounds))


def report(what: str, error: float, points: int, samples: int, seconds: np.ndarray) -> None:
    """One line."""
    images = len(PRIOR.support())
    sobol, plain = np.median(seconds, axis=0)
    ratio = np.median(seconds[:, 1] / seconds[:, 0])
    print(
        f"{what:22s} | {error:9.1e} | {points * images:7d} {samples:9d} |"
        f" {1e3 * sobol:10.2f} {1e3 * plain:10.1f} | {ratio:7.0f}",
        flush=True,
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--points", type=int, nargs="+", default=[1024, 8192], help="Sobol points before images"
    )
    parser.add_argument("--flow-points", type=int, default=256, help="the same, of the flows")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("                       |    rms    |  points of each   |  time of each (ms)    | ratio")
    print(
        "                       |   error   |   Sobol     plain |      Sobol      plain | of times"
    )
    for activation, points in itertools.product(ATTENTION, options.points):
        compare_losses(activation, points, options.rounds)
    compare_flows("softmax", options.flow_points, options.rounds)
    for activation in ("softmax", "softmax1", "bayes"):
        kind = lambda name=activation: population_loss(name, TOKENS, PRIOR, POINT)  # noqa: E731
        print(f"quadrature, {activation}: {1e3 * np.median(race([kind], options.rounds)):.0f} ms")


if __name__ == "__main__":
    main()
