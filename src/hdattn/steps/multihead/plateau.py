"""Closed forms of the plateau on a grid of token numbers and means.

Parameters: ``{"tokens": [...], "mu": [...]}``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hdattn.multihead.plateau import plateau
from hdattn.store import Dataset, Record, Result

_NAMES = {
    "loss": ("loss of unspecialised heads", r"\ell_{\rm plateau}"),
    "beta_softmax": ("escape coefficient, softmax", r"\beta"),
    "beta_bayes": ("escape coefficient, B-softmax", r"\beta_{\rm B}"),
}


def run(parameters: dict[str, Any], inputs: dict[str, Record]) -> Result:
    """Loss and both betas, [tokens, mu] each."""
    tokens, mu = parameters["tokens"], parameters["mu"]
    grid = [[plateau(length, mean) for mean in mu] for length in tokens]
    datasets = {
        "tokens": Dataset(np.array(tokens), "number of tokens", "L", ("tokens",)),
        "mu": Dataset(np.array(mu, dtype=float), "size of the mean", r"\mu", ("mu",)),
    }
    for name, labels in _NAMES.items():
        values = np.array([[getattr(point, name).value for point in row] for row in grid])
        datasets[name] = Dataset(values, *labels, ("tokens", "mu"))
    errors = [getattr(point, name).error for row in grid for point in row for name in _NAMES]
    return Result(datasets, residual=max(errors))
