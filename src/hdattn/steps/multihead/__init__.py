"""Experiments of the multi-head model (paper A).

Data, SGD and flow come in blocks of instances: their parameters hold ``"block"`` k and
``"block_size"`` b, for the instances k b to k b + b - 1. SGD and flow are recorded at
``"tau_points"`` equidistant times from 0 to ``"tau_max"``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hdattn.steps.blocks import instances
from hdattn.store import Dataset


def times(parameters: Mapping[str, Any]) -> np.ndarray:
    """Times tau of the records: [tau_points]."""
    return np.linspace(0.0, float(parameters["tau_max"]), parameters["tau_points"])


def seeds(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """What the random streams of a block are keyed with."""
    return {
        "root_seed": parameters["seed"],
        "data": parameters["data"],
        "instances": list(instances(parameters)),
    }


def trajectories(
    indices: range, tau: np.ndarray, arrays: Mapping[str, np.ndarray]
) -> dict[str, Dataset]:
    """Datasets of the trajectories of a block: m, r, b, c, loss and converged, first axis instance.

    Records after a breakdown are NaN.
    """
    axes = {"m": ("head", "spike"), "r": ("head", "head'"), "b": ("head",), "c": (), "loss": ()}
    names = {
        "m": ("overlaps k_h . k*_f", "m_{hf}"),
        "r": ("products k_h . k_h'", "r_{hh'}"),
        "b": ("biases", "b_h"),
        "c": ("output scale", "c"),
        "loss": ("loss per sample", r"\ell"),
    }
    return {
        "instance": Dataset(np.array(indices), "number of the instance", axes=("instance",)),
        "tau": Dataset(tau, "time gamma * samples / D", r"\tau", ("tau",)),
        "converged": Dataset(
            arrays["converged"], "whether the instance reached the last time", axes=("instance",)
        ),
        **{
            name: Dataset(
                arrays[name], *names[name], ("instance", "tau", *axes[name]), allow_nan=True
            )
            for name in names
        },
    }
