"""What the figures of power-law targets share: keys, experiments, simulated modes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field, ValidationInfo, field_validator

from hdattn.experiment import Experiment
from hdattn.fields import Count, FigureSection, Number, Positive, physics, size
from hdattn.figures import validation
from hdattn.figures._ensemble import theory_flags
from hdattn.figures._singlehead import below_dim, whole_blocks

if TYPE_CHECKING:
    from hdattn.singlehead.decomposition import MatrixParts
    from hdattn.store import Record

Exponent = Annotated[Number, Field(gt=0.5)]
"""A spectral exponent gamma."""

Dimension = Annotated[Count, Field(ge=20)]
"""Dimension d of a target."""


class PowerLaw(FigureSection):
    """Keys of the theory of power-law targets."""

    noise: Positive = physics(0.5, "Delta, the variance of the noise inside the label softmax.")
    nodes: Annotated[Count, Field(ge=8, multiple_of=2)] = size(
        14, "Quadrature points per axis of the output channel (even)."
    )


class SimulatedPowerLaw(PowerLaw):
    """Keys of those with simulations too."""

    simulated_dim: Annotated[Count, Field(ge=8)] = size(80, "Dimension d of the simulations.")
    small_dim: Annotated[Count, Field(ge=8)] = size(
        40, "Smaller dimension, from which the finite-size allowance of the validation is measured."
    )
    instances: Count = size(4, "Instances (target and data) behind each simulated point.")
    block_size: Count = size(4, "Instances trained by one job.")
    test_samples: Annotated[Count, Field(ge=2)] = size(
        32768, "Fresh samples behind the test error of an instance, and behind its floor."
    )

    @field_validator("small_dim")
    @classmethod
    def _smaller(cls, value: int, info: ValidationInfo) -> int:
        return below_dim(value, _Renamed(info.data.get("simulated_dim", value + 1)))

    @field_validator("block_size")
    @classmethod
    def _whole_blocks(cls, value: int, info: ValidationInfo) -> int:
        return whole_blocks(value, info)


@dataclass(frozen=True)
class _Renamed:
    """The dimension under the key that ``below_dim`` reads."""

    dim: int

    @property
    def data(self) -> dict[str, int]:
        return {"dim": self.dim}


def power_law(gamma: float, dim: int) -> dict[str, Any]:
    """Target of an experiment."""
    return {"kind": "powerlaw", "spectral_exponent": gamma, "dim": dim}


def theory(
    section: PowerLaw,
    target: dict[str, Any],
    regime: str,
    sizes: Sequence[float],
    *,
    lam_eff: float | None = None,
) -> Experiment:
    """Theory of one target at given n."""
    shared = {"target": target, "noise": section.noise, "nodes": section.nodes}
    gamma = target.get("spectral_exponent")
    return Experiment(
        "singlehead/scaling",
        shared | {"regime": regime, "lam_eff": lam_eff, "sizes": list(sizes)},
        slug=f"{regime}-{'levels' if gamma is None else f'gamma{gamma:g}'}",
    )


def simulations(
    section: SimulatedPowerLaw,
    seed: int,
    gamma: float,
    alphas: Sequence[float],
    *,
    dim: int | None = None,
    regime: str = "optimal",
    lam_eff: float | None = None,
) -> list[Experiment]:
    """Training of all instances at each alpha, one experiment a block."""
    dim = section.simulated_dim if dim is None else dim
    target = {"kind": "powerlaw", "spectral_exponent": gamma}
    data = {"dim": dim, "target": target, "noise": section.noise, "tokens": 2, "beta0": 1}
    made = []
    for block in range(section.instances // section.block_size):
        shared = {"data": data, "seed": seed, "block": block, "block_size": section.block_size}
        source = Experiment("singlehead/data", shared, slug=f"d{dim}-b{block}")
        more = {"alphas": list(alphas), "regime": regime, "lam_eff": lam_eff, "kappa": 1, "beta": 1}
        more |= {"nodes": section.nodes, "test_samples": section.test_samples}
        made.append(
            Experiment(
                "singlehead/recovery",
                shared | more,
                {"data": source},
                slug=f"{regime}-d{dim}-gamma{gamma:g}-b{block}",
            )
        )
    return made


def eigenvalues(gamma: float, dim: int) -> np.ndarray:
    """sqrt(d) i^-gamma/norm, descending."""
    values = np.arange(1, dim + 1.0) ** -gamma
    return values / np.sqrt(np.mean(values**2))


def squared_overlap(data: Mapping[str, np.ndarray], eigenvalue: float) -> np.ndarray:
    """``1 - b^2/(a l)^2`` [n] of a mode that is kept, else zero."""
    with np.errstate(invalid="ignore"):
        signal = data["a"] * eigenvalue
        kept = (signal > data["b"]) & (signal + data["b"] ** 2 / signal > data["threshold"])
        return np.where(kept, 1 - (data["b"] / signal) ** 2, 0.0)


def around(sizes: Sequence[float], points: int) -> list[float]:
    """The sizes n themselves, on a grid of so many more from a quarter to twice their range."""
    grid = np.geomspace(sizes[0] / 4, sizes[-1] * 2, points)
    return sorted({float(f"{n:.6g}") for n in (*sizes, *grid)})


@dataclass(frozen=True, eq=False)
class Recovery:
    """Simulated instances beside the theory of their target; both at the same n, in order."""

    trained: Sequence[Record]
    theory: Record

    @property
    def dim(self) -> int:
        """Dimension d."""
        return int(self.trained[0].parameters["data"]["dim"])

    @property
    def alphas(self) -> np.ndarray:
        """Sample ratios [a]."""
        return self.trained[0].datasets["alpha"]

    @property
    def sizes(self) -> np.ndarray:
        """Sample sizes n [a]."""
        return self.alphas * self.dim**2

    def values(self, name: str) -> np.ndarray:
        """Measured values [instance, a, ...]."""
        return np.concatenate([record.datasets[name] for record in self.trained])

    @property
    def columns(self) -> np.ndarray:
        """Positions of the simulated sizes among those of the theory."""
        n = self.theory.datasets["n"]
        return np.abs(np.log(n) - np.log(self.sizes[:, None])).argmin(1)

    def predicted(self, name: str) -> np.ndarray:
        """Theory at the simulated sizes [a]."""
        return self.theory.datasets[name][self.columns]

    @property
    def theory_flagged(self) -> np.ndarray:
        """Sizes [a] where the theory is not to be trusted."""
        return theory_flags(self.theory.datasets)[self.columns]

    @property
    def flagged(self) -> np.ndarray:
        """Sizes [a] where training or theory is not to be trusted."""
        return self.theory_flagged | ~self.values("converged").all(0)

    def parts(self) -> list[MatrixParts]:
        """Over, under, approximation and sum of each a, arrays over instances."""
        from hdattn.singlehead.decomposition import spectral_parts

        gamma = self.trained[0].parameters["data"]["target"]["spectral_exponent"]
        targets = eigenvalues(gamma, self.dim)[::-1]
        values, seen = self.values("eigenvalues"), self.values("seen")
        counts, scale = self.predicted("recovered"), self.predicted("scale")
        return [
            spectral_parts(values[:, a], seen[:, a], targets, int(counts[a]), scale[a])
            for a in range(len(counts))
        ]

    def measured(self, quantity: str) -> np.ndarray:
        """[instance, a] of what is stored, of ``excess``, above the samples' own floor, ``rank``,
        the sum over all modes of what S holds of them, or of a part or the sum of parts."""
        if quantity in self.trained[0].datasets:
            return self.values(quantity)
        if quantity == "excess":
            return self.values("test_error") - self.values("test_error_floor")
        if quantity == "rank":
            return self.values("captured").sum(-1)
        return np.array([getattr(parts, quantity) for parts in self.parts()]).T

    def expected(self, quantity: str) -> np.ndarray:
        """Theory [a] of the same."""
        if quantity == "rank":
            return self.dim * self.predicted("rank_fraction")
        if quantity != "total":
            return self.predicted(quantity)
        return sum(self.predicted(name) for name in ("over", "under", "approximation"))

    def mean_and_error(self, quantity: str) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard error over instances, each [a]."""
        pairs = [validation.mean_and_error(column) for column in self.measured(quantity).T]
        return tuple(np.array(pairs).T)

    def complaints(self, what: str) -> list[str]:
        """One line for each flagged size, also those of the theory alone."""
        solved = self.theory.datasets
        alone = theory_flags(solved)
        alone[self.columns] = False
        sizes = [*self.sizes[self.flagged], *solved["n"][alone]]
        return [f"{what}: not converged or unreliable at n = {n:g}" for n in sizes]

    def validation(
        self, figure: str, quantity: str, where: str, small: Recovery
    ) -> list[dict[str, Any]]:
        """Rows of the validation table, the finite-size allowance measured at ``small``."""
        mean, error = small.mean_and_error(quantity)
        scale = small.expected(quantity)
        deviations = mean / scale - 1
        constants = validation.allowance_constants(
            small.dim, deviations, error / scale, ~small.flagged
        )
        measured, expected = self.measured(quantity), self.expected(quantity)
        return [
            validation.row(
                f"alpha={alpha:g} {where}",
                expected[a],
                *validation.mean_and_error(measured[:, a]),
                len(measured),
                constants[a],
                self.dim,
                figure=figure,
                quantity=quantity,
                reliable=not self.flagged[a],
            )
            for a, alpha in enumerate(self.alphas.tolist())
        ]
