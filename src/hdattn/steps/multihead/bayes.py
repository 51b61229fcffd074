"""Bayes risk of a prior and, where it has a closed form, the unspecialised plateau.

Parameters: ``{"tokens", "prior"}``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hdattn.errors import UserError
from hdattn.multihead.bayes import bayes_risk
from hdattn.multihead.plateau import plateau, unspecialised_point
from hdattn.multihead.priors import FlippingPrior, Prior, make_prior
from hdattn.store import Dataset, Record, Result


def run(parameters: dict[str, Any], inputs: dict[str, Record]) -> Result:
    """Values by quadrature, each with its estimated error."""
    tokens, prior = parameters["tokens"], make_prior(parameters["prior"])
    values = {"bayes_risk": (bayes_risk(tokens, prior), "Bayes risk", r"\ell_{\rm Bayes}")}
    mu = _plateau_mean(prior)
    if mu is not None:
        closed = plateau(tokens, mu)
        values |= {
            "plateau_loss": (closed.loss, "loss of unspecialised heads", r"\ell_{\rm plateau}"),
            "beta_softmax": (closed.beta_softmax, "escape coefficient, softmax", r"\beta"),
            "beta_bayes": (closed.beta_bayes, "escape coefficient, B-softmax", r"\beta_{\rm B}"),
        }
    datasets = {}
    for name, (result, long_name, symbol) in values.items():
        datasets[name] = Dataset(np.array(result.value), long_name, symbol)
        datasets[f"{name}_error"] = Dataset(np.array(result.error), f"error of the {long_name}")
    return Result(datasets, residual=max(float(result.error) for result, *_ in values.values()))


def _plateau_mean(prior: Prior) -> float | None:
    """Size mu of the mean at the plateau, None where the plateau has no closed form."""
    if not isinstance(prior, FlippingPrior):
        return None
    try:
        return float(np.sum(unspecialised_point(prior, 1)))
    except UserError:
        return None
