"""Pruning of heads trained by the flow: the best subset at every size, under each protocol.

Parameters: those of the ``flows`` experiment (the input ``flows``), and ``scan_points``, base
points on which subsets are compared where pairs of heads do not give their losses, and
``retrain_tau``: how long the survivors of the protocol that leaves c alone are trained again by the
flow; 0 for not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hdattn.multihead.priors import make_prior
from hdattn.multihead.pruning import PruningCurve, protocols, prune, subset_losses
from hdattn.multihead.trained_heads import Heads
from hdattn.steps.blocks import instances
from hdattn.store import Dataset, Record, Result

RETRAINED = "retrained"


def run(parameters: dict[str, Any], inputs: dict[str, Record]) -> Result:
    """Prune the heads of every instance of the block, as they are at the last time."""
    indices, flows = instances(parameters), inputs["flows"].datasets
    heads = [_last(parameters, flows, position) for position in range(len(indices))]
    curves = [_curves(parameters, h, seed) for h, seed in zip(heads, indices, strict=True)]
    axes = ("instance", "protocol", "removed")
    names = [curve.protocol for curve in curves[0]]
    kept = [[_masks(curve) for curve in group] for group in curves]
    datasets = {
        "instance": Dataset(np.array(indices), "number of the instance", axes=axes[:1]),
        "protocol": Dataset(np.array(names), "protocol", axes=axes[1:2]),
        "kept": Dataset(np.array(kept), "whether a head survives", axes=(*axes, "head")),
    }
    labels = {"loss": "loss of the survivors", "loss_error": "its error", "c": "output scale"}
    for name, text in (labels | {"increase": "loss minus that of all heads"}).items():
        values = [[getattr(curve, name) for curve in group] for group in curves]
        datasets[name] = Dataset(np.array(values), text, axes=axes)
    doubts = [
        f"seed {i}: {doubt}" for i, h in zip(indices, heads, strict=True) for doubt in h.doubts()
    ]
    return Result(
        datasets,
        converged=bool(flows["converged"].all()),
        attributes={"method": curves[0][0].method},
        messages=doubts,
    )


def _last(parameters: dict[str, Any], flows: dict[str, np.ndarray], position: int) -> Heads:
    """Heads at the last time that their flow reached."""
    m, b, c = (flows[name][position] for name in "mbc")
    last = np.flatnonzero(np.isfinite(c))[-1]
    prior = make_prior(parameters["prior"])
    activation, tokens = parameters["activation"], parameters["tokens"]
    return Heads(activation, tokens, prior, m[last], b[last], float(c[last]))


def _curves(parameters: dict[str, Any], heads: Heads, seed: int) -> list[PruningCurve]:
    """One curve for each protocol, and one after training again."""
    losses = subset_losses(heads, parameters["scan_points"])
    curves = [prune(heads, name, losses=losses) for name in protocols(heads.activation)]
    if parameters["retrain_tau"]:
        gentle = next(c for c in curves if c.protocol in ("joint", "renormalised"))
        curves.append(_retrained(parameters, heads, gentle, seed))
    return curves


def _retrained(
    parameters: dict[str, Any], heads: Heads, curve: PruningCurve, seed: int
) -> PruningCurve:
    """The survivors of ``curve`` after another stretch of flow, on points of their own."""
    tau, points = parameters["retrain_tau"], parameters["base_points"]
    ends = [heads] + [
        heads.only(kept, c).retrained(tau, base_points=points, seed=seed)
        for kept, c in zip(curve.kept[1:], curve.c[1:], strict=True)
    ]
    losses = [end.loss() for end in ends]
    return PruningCurve(
        RETRAINED,
        curve.kept,
        np.array([end.c for end in ends]),
        np.array([loss.value for loss in losses]),
        np.array([loss.error for loss in losses]),
        curve.method,
    )


def _masks(curve: PruningCurve) -> np.ndarray:
    """Which heads survive, [removed, H]."""
    masks = np.zeros((len(curve.kept), len(curve.kept[0])), dtype=bool)
    for mask, kept in zip(masks, curve.kept, strict=True):
        mask[list(kept)] = True
    return masks
