"""Bayes risks along a curve of priors.

Parameters: ``{"tokens", "priors"}``, a list of priors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hdattn.multihead.bayes import bayes_risk
from hdattn.multihead.priors import make_prior
from hdattn.store import Dataset, Record, Result


def run(parameters: dict[str, Any], inputs: dict[str, Record]) -> Result:
    """Risks by quadrature, each with its estimated error."""
    risks = [bayes_risk(parameters["tokens"], make_prior(prior)) for prior in parameters["priors"]]
    values, errors = (np.array([getattr(r, name) for r in risks]) for name in ("value", "error"))
    return Result(
        {
            "bayes_risk": Dataset(values, "Bayes risk", r"\ell_{\rm Bayes}", ("point",)),
            "bayes_risk_error": Dataset(errors, "error of the Bayes risk", axes=("point",)),
        },
        residual=float(errors.max()),
    )
