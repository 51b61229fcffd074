"""Message passing on a block of instances over a grid of alpha, iterate by iterate.

Parameters: ``data, seed, block, block_size`` of the data experiment (the input ``data``), and
``alphas, lams, kappa, beta, penalty, denoiser, damping, iterations, tolerance, test_samples``.
``lams`` has one value for each alpha; in its place ``best``, the parameters of the experiment
that is the input ``best``, takes them from there. The bayes denoiser knows the limit law of the
target, not the instance's own spectrum.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from hdattn.singlehead.amp import MessagePassing, observe
from hdattn.singlehead.amp_measure import test_error
from hdattn.singlehead.amp_run import HISTORY, AmpRun
from hdattn.singlehead.problem import Problem
from hdattn.singlehead.sample_size import sample_count
from hdattn.singlehead.targets import limit_target
from hdattn.steps.singlehead.data import batches, instances, stream, teacher
from hdattn.store import Dataset, Record, Result

SYMBOLS = {
    "Q": ("overlap Tr S^2/d of the iterate", "Q"),
    "M": ("overlap Tr S S0/d of the iterate", "M"),
    "V": ("variance of the scores", "V"),
    "objective": ("objective of S per sample", ""),
    "prox_objective": ("objective per sample with the loss at the prox", ""),
    "v_hat": ("mean response of the output step", r"\hat v"),
    "jump_probability": ("share of samples whose prox has two minima", ""),
    "residual": ("relative change of S", ""),
}
_AXES = ("instance", "alpha")


def run(parameters: dict[str, Any], inputs: dict[str, Record]) -> Result:
    """Run every instance of the block at every alpha."""
    indices, alphas = instances(parameters), parameters["alphas"]
    lams = lams_of(parameters, inputs)
    rows = [
        [
            _pass(parameters, inputs["data"], position, *pair)
            for pair in zip(alphas, lams, strict=True)
        ]
        for position in range(len(indices))
    ]

    def gather(value: Any) -> np.ndarray:
        return np.array([[value(*point) for point in row] for row in rows])

    datasets = {
        "instance": Dataset(np.array(indices), "number of the instance", axes=("instance",)),
        "alpha": Dataset(np.array(alphas, float), "n/d^2", r"\alpha", ("alpha",)),
        "lam": Dataset(np.array(lams, float), "weight decay", r"\lambda", ("alpha",)),
        "status": Dataset(gather(lambda r, *_: r.status), "how the run ended", axes=_AXES),
        "converged": Dataset(gather(lambda r, *_: r.converged), "whether it converged", axes=_AXES),
        "iterations": Dataset(gather(lambda r, *_: r.iterations), "iterations done", axes=_AXES),
        "test_error": Dataset(
            gather(lambda _, e, *__: e), "test error on fresh samples", r"E_{\rm test}", _AXES
        ),
        "seconds": Dataset(gather(lambda *p: p[2]), "CPU time (s)", axes=_AXES, timing=True),
    }
    for name in HISTORY:
        values = gather(lambda r, *_, name=name: _padded(r, name, parameters["iterations"]))
        axes = (*_AXES, "iteration")
        datasets[name] = Dataset(values, *SYMBOLS[name], axes, allow_nan=True)
    residuals = gather(lambda r, *_: r.residual)
    return Result(
        datasets,
        converged=bool(datasets["converged"].values.all()),
        residual=float(residuals.max()),
        seeds={"root_seed": parameters["seed"], "data": parameters["data"]},
        messages=[
            f"instance {indices[i]}, alpha = {alphas[a]:g}: {rows[i][a][0].status}; try to "
            f"{rows[i][a][0].advice}"
            for i, a in np.argwhere(~datasets["converged"].values)
        ],
    )


def lams_of(parameters: Mapping[str, Any], inputs: Mapping[str, Record]) -> list[float]:
    """Weight decay at each alpha: given, or the best one."""
    if "best" not in inputs:
        return [float(lam) for lam in parameters["lams"]]
    known = inputs["best"].datasets
    lookup = dict(zip(known["alpha"].tolist(), known["lam"].tolist(), strict=True))
    return [lookup[alpha] for alpha in parameters["alphas"]]


def _pass(
    parameters: Mapping[str, Any], data: Record, position: int, alpha: float, lam: float
) -> tuple[AmpRun, float, float]:
    """Run, test error and CPU seconds of one instance at one alpha, ``n = round(alpha d^2)``."""
    began = time.process_time()
    physics, denoiser = parameters["data"], parameters["denoiser"]
    S0 = teacher(data, position).S0
    samples = sample_count(alpha, len(S0))
    problem = Problem(
        alpha=samples / len(S0) ** 2,
        lam=lam,
        target=limit_target(physics["target"], physics["dim"]),
        **{key: physics[key] for key in ("noise", "tokens", "beta0")},
        **{key: parameters[key] for key in ("kappa", "beta", "penalty")},
    )
    passing = MessagePassing(
        observe(batches(data, position, samples), problem, denoiser),
        problem,
        denoiser,
        parameters["damping"],
    )
    run_ = passing.run(tol=parameters["tolerance"], max_iterations=parameters["iterations"], S0=S0)
    test = stream(data, position, "test")
    error = test_error(run_, problem, test, parameters["test_samples"])
    return run_, error, time.process_time() - began


def _padded(run_: AmpRun, name: str, iterations: int) -> np.ndarray:
    values = np.full(iterations + 1, np.nan)
    values[: run_.iterations + 1] = run_.history[name]
    return values
