"""SGD at several dimensions: what such figures have in common."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, ValidationInfo, field_validator

from hdattn.experiment import Experiment
from hdattn.fields import Count, FigureSection, Positive, physics, size
from hdattn.figures import _multihead
from hdattn.figures._multihead import HARMLESS_BATCH, SobolPoints, SpikeModel

Dimension = Annotated[Count, Field(ge=HARMLESS_BATCH)]


class SizeScan(SpikeModel, FigureSection):
    """Keys of figures with SGD at several dimensions; smaller ones have more instances."""

    gamma: Positive = physics(1, "Learning-rate scale: SGD has the rate gamma batch / dim.")
    dims: Annotated[tuple[Dimension, ...], Field(min_length=2)] = size(
        (250, 500, 1000, 2000),
        "Dimensions D of SGD; validation judges all but the smallest, which sets its allowance.",
    )
    instances: Annotated[Count, Field(ge=3)] = size(
        16, "Independent runs at the largest dimension; as many times more as D is smaller."
    )
    blocks: Count = size(2, "Jobs into which the runs at one dimension are divided.")
    base_points: SobolPoints = size(
        8192, "Sobol points of the flow before symmetrisation, a power of two."
    )
    scrambles: Annotated[Count, Field(ge=2)] = size(
        4, "Independent scrambles of the Sobol points, for the error of the flow."
    )

    @field_validator("dims")
    @classmethod
    def _grow(cls, dims: tuple[int, ...]) -> tuple[int, ...]:
        if any(b <= a for a, b in itertools.pairwise(dims)):
            raise ValueError(f"{list(dims)} must increase, without repeats")
        return dims

    @field_validator("blocks")
    @classmethod
    def _divides(cls, blocks: int, info: ValidationInfo) -> int:
        instances = info.data.get("instances")
        if instances is not None and instances % blocks:
            raise ValueError(
                f"{blocks} does not divide instances = {instances}; make instances a multiple"
            )
        return blocks

    def block_size(self, dim: int) -> int:
        """Runs of one job at dimension ``dim``."""
        return self.instances // self.blocks * max(1, round(self.dims[-1] / dim))


@dataclass(frozen=True)
class Simulation:
    """Runs at one dimension, as the builders of experiments take them."""

    section: SizeScan
    dim: int
    start: dict[str, Any]
    gamma: float
    instances: int
    block_size: int
    batch: int | None = None  # None for the largest that leaves the law alone

    @property
    def tokens(self) -> int:
        """L."""
        return self.section.tokens

    @property
    def heads(self) -> int:
        """H."""
        return self.section.heads

    @property
    def std(self) -> tuple[float, ...]:
        """Spreads of the signal."""
        return self.section.std

    @property
    def prior(self) -> dict[str, Any]:
        """Prior of the signal."""
        return self.section.prior

    @property
    def base_points(self) -> int:
        """Sobol points of the flow."""
        return self.section.base_points


def sgd_blocks(
    section: SizeScan,
    seed: int,
    activation: str,
    dim: int,
    gamma: float,
    start: dict[str, Any],
    tau_max: float,
    tau_points: int,
    batch: int | None = None,
) -> list[Experiment]:
    """Online SGD of all runs at dimension ``dim``, block by block."""
    block_size = section.block_size(dim)
    runs = Simulation(section, dim, start, gamma, section.blocks * block_size, block_size, batch)
    return [
        _multihead.sgd(runs, activation, tau_max, tau_points, data)
        for data in _multihead.data_blocks(runs, seed)
    ]


def flow_of(
    section: SizeScan,
    seed: int,
    activation: str,
    gamma: float,
    start: dict[str, Any],
    tau_max: float,
    tau_points: int,
) -> Experiment:
    """Flow from a start that does not depend on D, one for each scramble."""
    runs = Simulation(section, section.dims[-1], start, gamma, section.scrambles, section.scrambles)
    (data,) = _multihead.data_blocks(runs, seed)
    return _multihead.flow(runs, activation, tau_max, tau_points, data)
