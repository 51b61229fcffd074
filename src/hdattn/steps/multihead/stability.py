"""Stability of the plateau: closed form, automatic differentiation, and growth under the flow.

Parameters: ``{"activation", "tokens", "prior", "heads", "base_points", "scrambles"}``. The growth
is measured on other scrambles of the Sobol points than the Hessian, so that their errors are
independent.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hdattn.multihead.plateau import plateau_eigenvalues
from hdattn.multihead.priors import make_prior
from hdattn.multihead.stability import antisymmetric_eigenvalues, growth_rates, plateau_hessian
from hdattn.store import Dataset, Record, Result


def run(parameters: dict[str, Any], inputs: dict[str, Record]) -> Result:
    """Eigenvalues of the head-antisymmetric modes along each spike, scramble by scramble."""
    scrambles, prior = parameters["scrambles"], make_prior(parameters["prior"])
    problem = (parameters["activation"], parameters["tokens"], prior, parameters["heads"])
    points = parameters["base_points"]
    hessians = [plateau_hessian(*problem, base_points=points, seed=s) for s in range(scrambles)]
    # All H - 1 eigenvalues of a direction are equal to rounding: heads are alike at the plateau.
    autograd = np.array([antisymmetric_eigenvalues(h).mean(axis=1) for h in hessians])
    seeds = range(scrambles, 2 * scrambles)
    growth = np.array([growth_rates(*problem, base_points=points, seed=s) for s in seeds])
    closed = plateau_eigenvalues(*problem)
    return Result(
        {
            "eigenvalue": Dataset(closed, "closed form", r"\lambda_f", ("spike",)),
            "autograd": Dataset(
                autograd,
                "eigenvalue of the Hessian by autograd",
                r"\lambda_f",
                ("scramble", "spike"),
            ),
            "growth_rate": Dataset(
                growth, "growth rate of the head spread", r"-\lambda_f", ("scramble", "spike")
            ),
        }
    )
