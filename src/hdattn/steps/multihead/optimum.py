"""Best loss over the heads' order parameters, by descents from several starts.

Parameters: ``{"activation", "tokens", "prior", "heads", "starts", "seed", "base_points", "held"}``;
overlaps with the directions ``held`` stay zero. The loss is by quadrature.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hdattn.multihead.optima import find_optimum
from hdattn.multihead.priors import make_prior
from hdattn.store import Dataset, Record, Result

LABELS = {
    "c": "output scale",
    "loss": "loss by quadrature",
    "loss_error": "error of the loss",
    "sample_loss": "loss on the points that were fitted",
    "sampling_error": "standard deviation of the loss over sets of points",
    "overfit": "whether heads fit the points",
}
"""Numbers that describe an optimum, and what they are."""


def run(parameters: dict[str, Any], inputs: dict[str, Record]) -> Result:
    """Find the optimum; doubts about it are messages."""
    optimum = find_optimum(
        parameters["activation"],
        parameters["tokens"],
        make_prior(parameters["prior"]),
        parameters["heads"],
        starts=parameters["starts"],
        seed=parameters["seed"],
        base_points=parameters["base_points"],
        held=parameters["held"],
    )
    scalars = {key: Dataset(np.array(getattr(optimum, key)), text) for key, text in LABELS.items()}
    return Result(
        {
            "m": Dataset(optimum.m, "overlaps k_h . k*_f", "m_{hf}", ("head", "spike")),
            "b": Dataset(optimum.b, "biases", "b_h", ("head",)),
            "diverged": Dataset(optimum.diverged, "heads that fit points", axes=("head",)),
            "start_losses": Dataset(optimum.start_losses, "loss of each start", axes=("start",)),
            **scalars,
        },
        converged=optimum.converged,
        residual=optimum.residual,
        seeds={"root_seed": parameters["seed"]},
        messages=optimum.messages(),
    )
