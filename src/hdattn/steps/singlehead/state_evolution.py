"""State evolution over a grid of alpha, for a limit target or for the targets of a block.

Parameters: ``lam, kappa, noise, tokens, beta, beta0, penalty, target, alphas, nodes``; optionally
``tolerance``, in place of the solver's own, and ``density_points``, to store the density of the
spectrum of S. With ``data, seed, block, block_size`` in place of ``noise, tokens, beta0, target``,
and the data experiment as input, the curve is solved for each instance's own eigenvalues: an
instance dimension comes first. With ``lams`` in place of ``lam`` there is a curve for each, along a
dimension before that of alpha.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hdattn.singlehead.attention import Array
from hdattn.singlehead.problem import Problem
from hdattn.singlehead.solution import Solution
from hdattn.singlehead.state_evolution import solve_curve
from hdattn.singlehead.targets import MarchenkoPastur, Spectrum, limit_target
from hdattn.store import Dataset, Record, Result

FIELDS = {
    "Q": ("overlap Tr S^2/d", "Q"),
    "M": ("overlap Tr S S0/d", "M"),
    "V": ("variance of the scores", "V"),
    "q_hat": ("conjugate of Q", r"\hat q"),
    "m_hat": ("conjugate of M", r"\hat m"),
    "v_hat": ("conjugate of V", r"\hat v"),
    "Q0": ("overlap Tr S0^2/d of the target", "Q_0"),
    "test_error": ("test error E ||y - A_S||^2, per sample", r"E_{\rm test}"),
    "test_error_floor": ("least test error on the ray S = c S0", "E_0"),
    "train_loss": ("training loss per sample", r"E_{\rm train}"),
    "penalty_value": ("penalty per sample", ""),
    "objective": ("training loss plus penalty, per sample", ""),
    "rank_fraction": ("fraction of positive eigenvalues of S", ""),
    "jump_probability": ("probability that the prox has two minima", ""),
    "replicon": ("stability of the replica-symmetric solution (stable below 1)", ""),
    "residual": ("residual of the fixed point", ""),
    "iterations": ("iterations of the solver", ""),
    "converged": ("whether the solver converged", ""),
}
_NEED_NOT_BE_FINITE = {"replicon", "residual"}


def run(parameters: dict[str, Any], inputs: dict[str, Record]) -> Result:
    """Solve the curve (or one curve per instance)."""
    targets, physics, axes = curve_targets(parameters, inputs)
    options = {key: parameters[key] for key in ("kappa", "beta", "penalty")}
    accuracy = {"nodes": int(parameters["nodes"])}
    if "tolerance" in parameters:
        accuracy["tol"] = parameters["tolerance"]
    alphas, several = parameters["alphas"], "lams" in parameters
    lams = parameters["lams"] if several else [parameters["lam"]]
    solutions = np.empty((len(targets), len(lams), len(alphas)), dtype=object)
    for i, j in np.ndindex(solutions.shape[:2]):
        problem = Problem(alpha=1.0, lam=lams[j], target=targets[i], **physics, **options)
        solutions[i, j] = solve_curve(problem, alphas, **accuracy)
    if not several:
        solutions = solutions[:, 0]
    result = _result(
        parameters,
        solutions if axes else solutions[0],
        (*axes, *(("lam",) if several else ()), "alpha"),
    )
    if several:
        result.datasets["lam"] = Dataset(
            np.array(lams, float), "weight decay", r"\lambda", ("lam",)
        )
    return result


def curve_targets(
    parameters: Mapping[str, Any], inputs: Mapping[str, Record]
) -> tuple[list[MarchenkoPastur | Spectrum], dict[str, Any], tuple[str, ...]]:
    """Targets, what belongs to the data, and the axis of the targets."""
    physics = ("noise", "tokens", "beta0")
    if "data" in inputs:
        own = [Spectrum(values) for values in inputs["data"].datasets["eigenvalues"]]
        return own, {key: parameters["data"][key] for key in physics}, ("instance",)
    target = limit_target(parameters["target"])
    return [target], {key: parameters[key] for key in physics}, ()


def _result(parameters: Mapping[str, Any], solutions: Array, axes: tuple[str, ...]) -> Result:
    datasets = {
        "alpha": Dataset(np.array(parameters["alphas"], float), "n/d^2", r"\alpha", ("alpha",)),
        "flags": Dataset(
            _each(solutions, lambda s: "; ".join(s.flags)), "what to distrust", axes=axes
        ),
        "seconds": Dataset(
            _each(solutions, lambda s: s.seconds), "time to solve (s)", axes=axes, timing=True
        ),
        **_spectra(solutions, axes),
    }
    for name, (long_name, symbol) in FIELDS.items():
        values = np.array([getattr(s, name) for s in solutions.ravel()]).reshape(solutions.shape)
        loose = name in _NEED_NOT_BE_FINITE
        datasets[name] = Dataset(values, long_name, symbol, axes, allow_nan=loose)
    for name in solutions.ravel()[0].quadrature_error:
        values = _each(solutions, lambda s, name=name: s.quadrature_error.get(name, 0.0))
        datasets[f"{name}_quadrature_error"] = Dataset(
            values, f"standard error of {name} by scrambles of the quadrature", axes=axes
        )
    if parameters.get("density_points"):
        datasets |= _densities(solutions, axes, int(parameters["density_points"]))
    return Result(
        datasets,
        converged=bool(datasets["converged"].values.all()),
        residual=float(datasets["residual"].values.max()),
        messages=_messages(solutions),
    )


def _each(solutions: Array, value: Any) -> Array:
    return np.array([value(s) for s in solutions.ravel()]).reshape(solutions.shape)


def _messages(solutions: Array) -> list[str]:
    found = {}
    for solution in solutions.ravel():
        for flag in solution.flags:
            found.setdefault(flag, []).append(solution.problem.alpha)
    return [
        f"{flag} at alpha = " + ", ".join(f"{alpha:g}" for alpha in sorted(set(alphas)))
        for flag, alphas in found.items()
    ]


def _spectra(solutions: Array, axes: tuple[str, ...]) -> dict[str, Dataset]:
    """Edges of the continuous part and isolated eigenvalues of S, padded with NaN."""
    spectra = [solution.spectrum for solution in solutions.ravel()]
    edges = _padded([np.reshape(s["edges"], (-1, 2)) for s in spectra], solutions.shape)
    outliers = _padded([np.array(s["outliers"], float) for s in spectra], solutions.shape)
    return {
        "atom_at_zero": Dataset(
            _each(solutions, lambda s: s.atom_at_zero), "fraction of null eigenvalues", axes=axes
        ),
        "edges": Dataset(
            edges, "edges of the bulk of S", axes=(*axes, "interval", "side"), allow_nan=True
        ),
        "outliers": Dataset(
            outliers, "isolated eigenvalues of S", axes=(*axes, "outlier"), allow_nan=True
        ),
    }


def _padded(pieces: Sequence[Array], shape: tuple[int, ...]) -> Array:
    """Arrays of different lengths as one, padded with NaN, with ``shape`` in front."""
    longest = max(len(piece) for piece in pieces)
    padded = np.full((len(pieces), longest, *pieces[0].shape[1:]), np.nan)
    for row, piece in zip(padded, pieces, strict=True):
        row[: len(piece)] = piece
    return padded.reshape(*shape, *padded.shape[1:])


def _densities(solutions: Array, axes: tuple[str, ...], points: int) -> dict[str, Dataset]:
    grids = [_grid(solution, points) for solution in solutions.ravel()]
    heights = [s.density(x) for s, x in zip(solutions.ravel(), grids, strict=True)]
    axes = (*axes, "point")
    return {
        "density_x": Dataset(
            _padded(grids, solutions.shape), "eigenvalue of S", "s", axes, allow_nan=True
        ),
        "density": Dataset(
            _padded(heights, solutions.shape),
            "density of the continuous part of S, of mass rank_fraction",
            r"\rho(s)",
            axes,
            allow_nan=True,
        ),
    }


def _grid(solution: Solution, points: int) -> Array:
    """Points on the bulk of S, dense at its edges, where the density has square roots."""
    edges = solution.spectrum["edges"]
    if not edges:
        return np.empty(0)
    unit = (1 - np.cos(np.linspace(0, np.pi, max(points // len(edges), 2)))) / 2
    # A bulk that starts at zero is cut there: its first point is the limit from the right.
    starts = [(max(lo, 1e-9 * hi), hi) for lo, hi in edges]
    return np.concatenate([lo + (hi - lo) * unit for lo, hi in starts])
