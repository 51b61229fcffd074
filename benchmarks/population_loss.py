"""Population loss and flow against plain Monte Carlo with autograd, at equal accuracy.

The library evaluates loss and gradient on scrambled Sobol points closed under flips, with
hand-written derivatives, and losses alone by quadrature (there equal accuracy is 1e-5, far above
its error). The plain way draws signs and normals and takes the gradient by torch autograd; it is
given the reduction to the span of the spikes all the same. Its number of samples is the one at
which its loss has the rms error of the other, both against the quadrature. Then a short gradient
flow in both ways, by the same integrator: the plain one has the number of samples at which the
overlaps at the end have the same rms error, against a flow on many Sobol points. Fewer points
than any figure of the default scale uses are measured, too, without a target.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from scipy.integrate import solve_ivp

from benchmarks.timing import Settings, race, rms, row
from hdattn.multihead.activations import get_activation
from hdattn.multihead.flow import FlowProblem, solve_flow
from hdattn.multihead.population import PopulationLoss
from hdattn.multihead.priors import FlippingPrior
from hdattn.multihead.quadrature import population_loss

TITLE = "population loss and flow against plain Monte Carlo with autograd"
TARGET = 50
TOKENS, TAU = 5, 10.0
PRIOR = FlippingPrior([0.8, 0.0, 0.0], [0.0, 1.5, 1.2])
POINT = np.array([[0.8, 1.5, 0.2], [0.8, -1.5, 0.2], [0.7, 0.3, 1.2], [0.7, 0.1, -1.2]])
START = 0.3 * np.array([[1.0, 1.0, 0.5], [0.5, -1.0, 0.5], [0.0, 0.5, -1.0], [0.5, 0.0, 1.0]])
CHUNK = 2**14  # samples that plain Monte Carlo handles at once: more are slower
LOSSES = (1024, 8192, 65536)  # points before images
FLOWS = (256, 1024, 4096)
IN_USE = {"search": 4096, "flow": 1024}  # the fewest points at the default scale
TIMED = 2**18  # samples at most that are timed; the time of more is extrapolated
FLOW_TIMED = 2**17  # the same for a flow
SCRAMBLES, PROBE = 32, 8  # runs behind the rms errors of a loss and of a flow
PROBE_SAMPLES = 2**14
ASKED = 1e-5  # error of the losses of optima; the quadrature is far more accurate
REFERENCE_POINTS = 2**15
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

    def evaluate(self, weights: np.ndarray, gradient: bool = True):
        """Loss, and its gradient or None."""
        heads = torch.from_numpy(weights).requires_grad_(gradient)
        target = torch.eye(1, TOKENS, dtype=torch.float64)
        total = 0.0
        for part in self.x.split(CHUNK):
            attention = self.attention(part @ heads.T)
            loss = (attention - target).square().sum() / len(self.x)
            if gradient:
                loss.backward()
            total += loss.item()
        return total, heads.grad.numpy() if gradient else None

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


def sobol_losses(activation: str, points: int, count: int) -> list[PopulationLoss]:
    """Losses on independent scrambles."""
    rule = get_activation(activation)
    return [PopulationLoss(rule, TOKENS, PRIOR, base_points=points, seed=i) for i in range(count)]


def compare_losses(activation: str, settings: Settings) -> list[dict]:
    """Loss and gradient at one point on Sobol points, and the loss by quadrature."""
    exact = population_loss(activation, TOKENS, PRIOR, POINT)
    scrambles = settings.size(SCRAMBLES, 4)
    probes = [PlainMonteCarlo(activation, PROBE_SAMPLES, i) for i in range(scrambles)]
    probe = rms([one.evaluate(POINT, False)[0] - exact.value for one in probes])
    most = settings.size(TIMED, 2**14)

    def compared(what, error, ours, target, gradient):
        naive = lambda n: partial(  # noqa: E731
            PlainMonteCarlo(activation, n, SCRAMBLES).evaluate, POINT, gradient
        )
        samples = round(PROBE_SAMPLES * (probe / error) ** 2)
        return _ratio(f"{what}, {activation}", error, ours, naive, samples, most, target, settings)

    rows = []
    for points in settings.size(LOSSES, LOSSES[:1]):
        sets = sobol_losses(activation, points, scrambles)
        error = rms([one.loss(POINT) - exact.value for one in sets])
        ours, target = partial(sets[0].evaluate, POINT), _target(points, "search")
        rows.append(compared(f"E and gradient on {points} points", error, ours, target, True))
    ours = partial(population_loss, activation, TOKENS, PRIOR, POINT)
    what, error = f"E by quadrature (error {exact.error:.0e})", max(exact.error, ASKED)
    return [*rows, compared(what, error, ours, TARGET, False)]


def compare_flows(activation: str, points: int, settings: Settings) -> dict:
    """Overlaps at the end of a flow."""
    count, size = settings.size(PROBE, 2), settings.size(PROBE_SAMPLES, 2048)
    exact = sobol_flow(activation, settings.size(REFERENCE_POINTS, 1024), SCRAMBLES)
    error = rms([sobol_flow(activation, points, seed) - exact for seed in range(count)])
    probes = [PlainMonteCarlo(activation, size, seed) for seed in range(count)]
    samples = round(size * (rms([one.flow() - exact for one in probes]) / error) ** 2)
    ours = partial(sobol_flow, activation, points, 0)
    naive = lambda n: PlainMonteCarlo(activation, n, PROBE).flow  # noqa: E731
    most, target = settings.size(FLOW_TIMED, 2**11), _target(points, "flow")
    what = f"flow to tau = {TAU:g} on {points} points, {activation}"
    return _ratio(what, error, ours, naive, samples, most, target, settings)


def _target(points: int, use: str) -> int | None:
    """The target, where the default scale uses so many points."""
    return TARGET if points >= IN_USE[use] else None


def _ratio(what, error, ours, naive, samples, most, target, settings) -> dict:
    """Row of ``ours`` with this error, which ``naive(n)`` reaches with n = ``samples``.

    The time of more than ``most`` samples is extrapolated.
    """
    timed = min(samples, most)
    seconds = race([ours, naive(timed)], settings.rounds)
    seconds[:, 1] *= samples / timed
    us, them = np.median(seconds, axis=0)
    detail = (
        f"rms error {error:.1e}: {1e3 * us:.3g} ms against {samples:.1e} samples in {them:.2g} s"
    )
    detail += f", extrapolated from {timed:.1e}" if timed < samples else ""
    return row(what, seconds[:, 1] / seconds[:, 0], "x", at_least=target, detail=detail)


def measure(settings: Settings) -> list[dict]:
    """Losses of both activations, then flows."""
    torch.set_num_threads(1)
    rows = [line for name in ATTENTION for line in compare_losses(name, settings)]
    flows = [compare_flows("softmax", points, settings) for points in settings.size(FLOWS, (64,))]
    return rows + flows
