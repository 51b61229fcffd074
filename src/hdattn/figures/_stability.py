"""Growth rates at the plateau by closed form, autograd and flow, of one activation, L and H."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hdattn.figures import validation

if TYPE_CHECKING:
    from hdattn.store import Record

MEASURES = {"autograd": "Hessian by autograd", "growth_rate": "growth under the flow"}


@dataclass(frozen=True)
class Spectrum:
    """Growth rates -lambda_f of one activation, L and H along the spikes that fluctuate.

    variance, closed [F]: omega_f^2 and the closed form. mean, error: by name of the measure, over
    ``scrambles`` of the Sobol points.
    """

    activation: str
    tokens: int
    heads: int
    variance: np.ndarray
    closed: np.ndarray
    mean: dict[str, np.ndarray]
    error: dict[str, np.ndarray]
    scrambles: int

    @classmethod
    def read(cls, record: Record) -> list[Spectrum]:
        """One for each L and H of an experiment."""
        given, data = record.parameters, record.datasets
        std = np.array(given["prior"]["std"], dtype=float)
        chosen = np.flatnonzero(std)
        spectra = []
        for (i, tokens), (j, heads) in itertools.product(
            enumerate(data["tokens"]), enumerate(data["heads"])
        ):
            rates = {"autograd": -data["autograd"][i, j], "growth_rate": data["growth_rate"][i, j]}
            summaries = {
                name: np.transpose([validation.mean_and_error(c) for c in values[:, chosen].T])
                for name, values in rates.items()
            }
            spectra.append(
                cls(
                    given["activation"],
                    int(tokens),
                    int(heads),
                    std[chosen] ** 2,
                    -data["eigenvalue"][i, j, chosen],
                    {name: values[0] for name, values in summaries.items()},
                    {name: values[1] for name, values in summaries.items()},
                    given["scrambles"],
                )
            )
        return spectra

    @property
    def per_beta(self) -> np.ndarray:
        """What turns growth rates into beta: H / (2 omega_f^2)."""
        return self.heads / (2 * self.variance)

    def validation(self) -> Iterator[dict[str, Any]]:
        """Closed form against both measures; nothing is excused."""
        where = f"{self.activation} L={self.tokens} H={self.heads}"
        for name, label in MEASURES.items():
            rows = zip(self.variance, self.closed, self.mean[name], self.error[name], strict=True)
            for variance, closed, mean, error in rows:
                yield validation.row(
                    f"{where} variance={variance:.4g}",
                    closed,
                    mean,
                    error,
                    self.scrambles,
                    0.0,
                    1.0,
                    figure="stability",
                    quantity=f"growth rate, {label}",
                )

    def table(self, panel: str) -> Iterator[dict[str, Any]]:
        """Growth rates by closed form and by both measures."""
        where = (panel, self.activation, self.tokens, self.heads)
        for f, variance in enumerate(self.variance):
            yield row(*where, None, variance, "closed form", self.closed[f])
            for name, label in MEASURES.items():
                values = (label, self.mean[name][f], self.error[name][f])
                yield row(*where, None, variance, *values)


def row(
    panel, activation, tokens, heads, mu, variance, source, value, error=None
) -> dict[str, Any]:
    """One row of the figure's table."""
    names = ("panel", "activation", "tokens", "heads", "mu", "variance", "source")
    start = dict(zip(names, (panel, activation, tokens, heads, mu, variance, source), strict=True))
    return start | {"value": value, "standard_error": error}
