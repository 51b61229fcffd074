"""Interpolation and recovery thresholds over ranks of a Marchenko-Pastur target.

Parameters: ``kappa0s, noises, tokens``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hdattn.singlehead.thresholds import alpha_interpolation, alpha_recovery
from hdattn.store import Dataset, Record, Result


def run(parameters: dict[str, Any], inputs: dict[str, Record]) -> Result:
    """Both thresholds in closed form."""
    kappa0s, noises, tokens = (parameters[key] for key in ("kappa0s", "noises", "tokens"))
    interpolation = [[alpha_interpolation(k, noise, tokens) for k in kappa0s] for noise in noises]
    recovery = [alpha_recovery(k, tokens) for k in kappa0s]
    return Result(
        {
            "kappa0": Dataset(np.array(kappa0s, float), "p0/d", r"\kappa_0", ("kappa0",)),
            "noise": Dataset(np.array(noises, float), "label noise", r"\Delta", ("noise",)),
            "alpha_interpolation": Dataset(
                np.array(interpolation),
                "largest alpha at which all labels are fitted",
                axes=("noise", "kappa0"),
            ),
            "alpha_recovery": Dataset(
                np.array(recovery),
                "least alpha of perfect recovery from noiseless labels",
                axes=("kappa0",),
            ),
        }
    )
