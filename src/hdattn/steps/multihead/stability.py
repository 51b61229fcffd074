"""Stability of the plateau: closed form, automatic differentiation, and growth under the flow.

Parameters: ``{"activation", "tokens": [...], "prior", "heads": [...], "base_points",
"scrambles"}``. The growth is measured on other scrambles of the Sobol points than the Hessian, so
that their errors are independent.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hdattn.multihead.plateau import plateau_eigenvalues
from hdattn.multihead.priors import make_prior
from hdattn.multihead.stability import antisymmetric_eigenvalues, growth_rates, plateau_hessian
from hdattn.store import Dataset, Record, Result


def run(parameters: dict[str, Any], inputs: dict[str, Record]) -> Result:
    """Eigenvalues of the head-antisymmetric modes along each spike, for each L and H."""
    grid = [
        [_measure(parameters, tokens, heads) for heads in parameters["heads"]]
        for tokens in parameters["tokens"]
    ]
    closed, autograd, growth = (
        np.array([[case[part] for case in row] for row in grid]) for part in range(3)
    )
    axes = ("tokens", "heads")
    sampled = (*axes, "scramble", "spike")
    symbol = r"\lambda_f"
    return Result(
        {
            "tokens": Dataset(np.array(parameters["tokens"]), "number of tokens", "L", axes[:1]),
            "heads": Dataset(np.array(parameters["heads"]), "number of heads", "H", axes[1:]),
            "eigenvalue": Dataset(closed, "closed form", symbol, (*axes, "spike")),
            "autograd": Dataset(autograd, "eigenvalue of the Hessian by autograd", symbol, sampled),
            "growth_rate": Dataset(
                growth, "growth rate of the head spread", r"-\lambda_f", sampled
            ),
        }
    )


def _measure(
    parameters: dict[str, Any], tokens: int, heads: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Closed form [F], eigenvalues by autograd and growth rates [scrambles, F]."""
    problem = (parameters["activation"], tokens, make_prior(parameters["prior"]), heads)
    scrambles, points = parameters["scrambles"], parameters["base_points"]
    hessians = [plateau_hessian(*problem, base_points=points, seed=s) for s in range(scrambles)]
    # All H - 1 eigenvalues of a direction are equal to rounding: heads are alike at the plateau.
    autograd = [antisymmetric_eigenvalues(h).mean(axis=1) for h in hessians]
    others = range(scrambles, 2 * scrambles)
    growth = [growth_rates(*problem, base_points=points, seed=s) for s in others]
    return plateau_eigenvalues(*problem), np.array(autograd), np.array(growth)
