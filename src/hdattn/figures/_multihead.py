"""What the multi-head figures share: the model's keys, and their experiments."""

from __future__ import annotations

from typing import Annotated, Any, Protocol

from pydantic import Field, ValidationInfo, field_validator
from pydantic.functional_validators import AfterValidator

from hdattn.experiment import Experiment
from hdattn.fields import Count, FigureSection, NonNegative, Number, Positive, Strict, physics, size

NAMES = {"softmax": "softmax", "bayes": "B-softmax"}
"""Activations with a plateau known exactly, in the order in which figures show them."""

ALL_NAMES = {"softmax": "softmax", "softmax1": "softmax-1", "bayes": "B-softmax"}
"""Activations of the paper in the order in which figures show them, and what they are called."""

HARMLESS_BATCH = 50
"""Up to dim / 50 sequences a step leave the law of the trajectories alone."""

USUAL_SIGMA = (0.3, "heads do not start near zero, as the plateau theory has it")

Vector = Annotated[tuple[Number, ...], Field(min_length=1)]
Spreads = Annotated[tuple[NonNegative, ...], Field(min_length=1)]


def _power_of_two(points: int) -> int:
    if points & (points - 1):
        raise ValueError(f"{points} is not a power of two; take 1024, 4096 or 16384")
    return points


SobolPoints = Annotated[Count, Field(ge=2), AfterValidator(_power_of_two)]
"""A number of Sobol points."""


class Runs(Protocol):
    """What describes simulations at one dimension: blocks of instances of one model."""

    tokens: int
    heads: int
    std: tuple[float, ...]
    prior: dict[str, Any]
    start: dict[str, Any]
    gamma: float
    dim: int
    batch: int | None
    instances: int
    block_size: int
    base_points: int


class SpikeModel(Strict):
    """Keys of the model: heads that specialise on flipping spikes from a plateau known exactly."""

    tokens: Annotated[Count, Field(ge=2)] = physics(5, "Tokens L of a sequence.")
    heads: Count = physics(4, "Heads H.")
    mean: Vector = physics((0.8, 0.0, 0.0), "Mean of the signal along each hidden spike.")
    std: Spreads = physics(
        (0.0, 1.5, 1.2), "Size of the random sign along each hidden spike; 0 for a constant one."
    )

    @field_validator("heads")
    @classmethod
    def _several(cls, heads: int) -> int:
        if heads < 2:
            raise ValueError("one head cannot specialise; give at least 2")
        return heads

    @field_validator("std")
    @classmethod
    def _splits(cls, std: tuple[float, ...], info: ValidationInfo) -> tuple[float, ...]:
        """Something to specialise on, and a prior whose plateau has a closed form."""
        if not any(std):
            raise ValueError("no entry is positive: nothing will specialise; make one positive")
        mean = info.data.get("mean")
        if mean is None:
            return std
        if len(mean) != len(std):
            raise ValueError(
                f"has {len(std)} entries where mean has {len(mean)}; give one each per spike"
            )
        if sum(m != 0 for m in mean) > 1 or any(m and s for m, s in zip(mean, std, strict=True)):
            raise ValueError(
                "the plateau is known for a mean along one constant direction; make mean 0 in all "
                "entries but one, and std 0 there"
            )
        return std

    @property
    def prior(self) -> dict[str, Any]:
        """Prior of the signal, as the solvers take it."""
        return {"kind": "flip", "mean": self.mean, "std": self.std}


class MultiHead(SpikeModel, FigureSection):
    """Keys of the model and of its simulations that figures with SGD have."""

    gamma: Positive = physics(0.5, "Learning-rate scale: SGD has the rate gamma batch / dim.")
    sigma: Positive = physics(0.1, "Initial weights are N(0, sigma^2 / dim).", usual=USUAL_SIGMA)
    dim: Annotated[Count, Field(ge=HARMLESS_BATCH)] = size(1000, "Dimension D of the tokens.")
    batch: Count | None = size(
        None, "Sequences per step; dim / 50 unless given, above which the flow may not describe it."
    )
    instances: Annotated[Count, Field(ge=2)] = size(8, "Independent runs.")
    block_size: Count = size(4, "Runs that one job does side by side.")
    base_points: SobolPoints = size(
        4096, "Sobol points of the flow before symmetrisation, a power of two."
    )

    @field_validator("block_size")
    @classmethod
    def _divides(cls, block_size: int, info: ValidationInfo) -> int:
        instances = info.data.get("instances")
        if instances is not None and instances % block_size:
            raise ValueError(
                f"{block_size} does not divide instances = {instances}; make instances a multiple"
            )
        return block_size

    def doubts(self) -> list[str]:
        """Also a batch that the flow may not describe."""
        lines = super().doubts()
        dim = self.smallest_dim
        if self.batch is not None and self.batch > dim / HARMLESS_BATCH:
            lines.append(
                f"batch: {self.batch} is above dim / {HARMLESS_BATCH} = {dim / HARMLESS_BATCH:g}: "
                "the flow may not describe it"
            )
        return lines

    @property
    def smallest_dim(self) -> int:
        """Smallest dimension that is simulated."""
        return self.dim

    @property
    def start(self) -> dict[str, Any]:
        """Initial weights, as the solvers take them."""
        return {"kind": "gaussian", "sigma": self.sigma}


def data_blocks(section: Runs, seed: int) -> list[Experiment]:
    """Spikes and initial weights of all instances, block by block."""
    shared = {
        "data": {"dim": section.dim, "tokens": section.tokens, "prior": section.prior},
        "seed": seed,
        "block_size": section.block_size,
        "heads": section.heads,
        "start": section.start,
    }
    return [
        Experiment(
            "multihead/data",
            shared | {"block": block},
            slug=f"D{section.dim}-b{block}",
        )
        for block in range(section.instances // section.block_size)
    ]


def sgd(
    section: Runs, activation: str, tau_max: float, tau_points: int, data: Experiment
) -> Experiment:
    """Online SGD on one block of data, recorded at ``tau_points`` times up to ``tau_max``."""
    parameters = {"activation": activation, "gamma": section.gamma, "batch": section.batch}
    parameters |= {"tau_max": tau_max, "tau_points": tau_points}
    return _from_data("multihead/sgd", data, parameters)


def flow(
    section: Runs, activation: str, tau_max: float, tau_points: int, data: Experiment
) -> Experiment:
    """Flow at the SGD's gamma, from the initial weights of one block of data."""
    parameters = {"activation": activation, "gamma": section.gamma}
    parameters |= {"base_points": section.base_points, "tau_max": tau_max, "tau_points": tau_points}
    return _from_data("multihead/flow", data, parameters)


def _from_data(kind: str, data: Experiment, parameters: dict[str, Any]) -> Experiment:
    """Experiment on one block of data, whose parameters it repeats."""
    slug = f"{parameters['activation']}-{data.slug}"
    return Experiment(kind, data.parameters | parameters, {"data": data}, slug)


def bayes(section: SpikeModel) -> Experiment:
    """Bayes risk and closed forms of the plateau."""
    return Experiment(
        "multihead/bayes",
        {"tokens": section.tokens, "prior": section.prior},
        slug=f"L{section.tokens}",
    )
