"""Heads trained by the flow, and pruned: the best subset at every size, under each protocol.

Parameters: ``{"activation", "tokens", "cases": [{"prior", "heads"}, ...], "sigma", "dim", "seed",
"block", "block_size", "points", "tau_max", "scan_points", "retrain_tau"}``. Every instance of the
block starts, in every case, at ``m_hf ~ N(0, sigma^2 / dim)``, ``r = m m^T``, and has Sobol points
of its own: ``points`` in all, with their images. ``scan_points``: base points on which subsets are
compared where pairs of heads do not give their losses. ``retrain_tau``: how long the survivors of
the protocol that leaves c alone are trained again by the flow; 0 for not.

Cases with fewer heads or spikes than others fill their arrays with NaN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hdattn.multihead.bayes import bayes_risk
from hdattn.multihead.priors import make_prior
from hdattn.multihead.pruning import (
    PruningCurve,
    protocols,
    prune,
    retrained_curve,
    subset_losses,
)
from hdattn.multihead.token_moments import Quadrature
from hdattn.multihead.trained_heads import Heads, train_heads
from hdattn.seeds import generator
from hdattn.steps.blocks import instances
from hdattn.store import Dataset, Record, Result

_CASE = ("case", "instance")


@dataclass(frozen=True)
class _Pruned:
    """One instance of one case."""

    heads: Heads
    converged: bool
    residual: float
    curves: list[PruningCurve]


def run(parameters: dict[str, Any], inputs: dict[str, Record]) -> Result:
    """Train and prune every instance of the block in every case."""
    indices, cases = instances(parameters), parameters["cases"]
    risks = [bayes_risk(parameters["tokens"], make_prior(case["prior"])) for case in cases]
    found = [[_pruned(parameters, case, i) for i in indices] for case in cases]
    doubts = [
        f"case {k}, seed {i}: {doubt}"
        for k, group in enumerate(found)
        for i, pruned in zip(indices, group, strict=True)
        for doubt in pruned.heads.doubts()
    ]
    everything = [pruned for group in found for pruned in group]
    return Result(
        {**_trained(indices, found), **_risks(risks), **_curves(found)},
        converged=all(pruned.converged for pruned in everything),
        residual=max(pruned.residual for pruned in everything),
        seeds={"root_seed": parameters["seed"], "instances": list(indices)},
        attributes={"method": [group[0].curves[0].method for group in found]},
        messages=doubts,
    )


def _pruned(parameters: dict[str, Any], case: Mapping[str, Any], instance: int) -> _Pruned:
    """Heads from the seed of this instance, and their curves."""
    prior, activation = make_prior(case["prior"]), parameters["activation"]
    keys = {"tokens": parameters["tokens"], "prior": case["prior"], "dim": parameters["dim"]}
    heads, flow = train_heads(
        activation,
        parameters["tokens"],
        prior,
        case["heads"],
        parameters["tau_max"],
        sigma=parameters["sigma"],
        dim=parameters["dim"],
        rng=generator(parameters["seed"], keys, instance),
        points=parameters["points"],
        seed=instance,
    )
    losses = subset_losses(heads, parameters["scan_points"])
    curves = [prune(heads, name, losses=losses) for name in protocols(activation)]
    if parameters["retrain_tau"]:
        gentle = next(c for c in curves if c.protocol in ("joint", "renormalised"))
        sizes = {"points": parameters["points"], "seed": instance}
        curves.append(retrained_curve(heads, gentle, parameters["retrain_tau"], **sizes))
    return _Pruned(heads, flow.converged, flow.residual, curves)


def _trained(indices: range, found: list[list[_Pruned]]) -> dict[str, Dataset]:
    """Order parameters of the heads that were pruned."""

    def gathered(name: str) -> np.ndarray:
        return padded([[np.asarray(getattr(p.heads, name)) for p in group] for group in found])

    converged = np.array([[pruned.converged for pruned in group] for group in found])
    return {
        "instance": Dataset(np.array(indices), "number of the instance", axes=("instance",)),
        "m": Dataset(
            gathered("m"), "overlaps k_h . k*_f", "m_{hf}", (*_CASE, "head", "spike"), True
        ),
        "b": Dataset(gathered("b"), "biases", "b_h", (*_CASE, "head"), True),
        "c": Dataset(gathered("c"), "output scale", "c", _CASE, True),
        "converged": Dataset(converged, "whether the flow reached its last time", axes=_CASE),
    }


def _risks(risks: Sequence[Quadrature]) -> dict[str, Dataset]:
    values = np.array([risk.value for risk in risks])
    return {"bayes_risk": Dataset(values, "Bayes risk", r"\ell_{\rm Bayes}", axes=("case",))}


def _curves(found: list[list[_Pruned]]) -> dict[str, Dataset]:
    """Datasets [case, instance, protocol, removed]; ``kept`` has an axis for the heads besides."""
    names = [curve.protocol for curve in found[0][0].curves]
    axes = (*_CASE, "protocol", "removed")
    datasets = {"protocol": Dataset(np.array(names), "protocol", axes=("protocol",))}
    labels = {"loss": "loss of the survivors", "loss_error": "its error", "scale": "their c"}
    for name, text in (labels | {"increase": "loss minus that of all heads"}).items():
        values = [[np.array([getattr(c, name) for c in p.curves]) for p in g] for g in found]
        datasets[name] = Dataset(padded(values), text, axes=axes, allow_nan=True)
    kept = [[np.array([c.masks() for c in p.curves], float) for p in g] for g in found]
    text = "1 where a head survives, else 0"
    datasets["kept"] = Dataset(padded(kept), text, axes=(*axes, "head"), allow_nan=True)
    return datasets


def padded(values: Sequence[Sequence[np.ndarray]]) -> np.ndarray:
    """One array of arrays [case][instance][...] of several shapes, NaN where one is shorter."""
    shapes = np.array([[array.shape for array in group] for group in values])
    result = np.full((*shapes.shape[:2], *shapes.max(axis=(0, 1))), np.nan)
    for place in np.ndindex(*shapes.shape[:2]):
        array = values[place[0]][place[1]]
        result[(*place, *(slice(size) for size in array.shape))] = array
    return result
