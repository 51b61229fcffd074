"""What the single-head figures share: the model's keys, and their experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import Field, ValidationInfo, field_validator

from hdattn.experiment import Experiment
from hdattn.fields import Count, FigureSection, NonNegative, Positive, physics, size
from hdattn.singlehead.sample_size import check_sample_ratios

Decay = float | Sequence[float]
"""One weight decay, or a path of them."""

# Of the fixed points: four digits to draw with; where the prox jumps the grid allows little more.
TOLERANCE = 1e-5


class SingleHead(FigureSection):
    """Keys of the model and of its simulations that every single-head figure has."""

    kappa0: Positive = physics(0.5, "Rank of the target over the dimension, p0/d.")
    noise: NonNegative = physics(0.5, "Delta, the variance of the noise inside the label softmax.")
    tokens: Annotated[Count, Field(ge=2)] = physics(
        2, "Number of tokens T; above 2 the theory is quasi-Monte Carlo, Q right to about 3e-3."
    )
    beta0: Positive = physics(1, "Inverse temperature of the labels.")
    beta: Positive = physics(1, "Inverse temperature of the trained head.")
    instances: Count = size(4, "Instances (target and data) behind each simulated point.")
    block_size: Count = size(2, "Instances trained by one job.")
    test_samples: Count = size(32768, "Fresh samples behind the test error of an instance.")
    nodes: Count = size(
        18, "Quadrature points per axis of the output channel (even); nodes^4/6 in all above T = 2."
    )

    @field_validator("instances")
    @classmethod
    def _error_bars(cls, value: int) -> int:
        if value < 2:
            raise ValueError(
                f"{value} has no error bar; give at least 2, or 3 for a verdict of the validation"
            )
        return value

    @field_validator("nodes")
    @classmethod
    def _even(cls, value: int) -> int:
        if value % 2 or value < 8:
            raise ValueError(
                f"the quadrature needs an even number of nodes, 8 or more; got {value}"
            )
        return value

    @field_validator("test_samples")
    @classmethod
    def _enough(cls, value: int) -> int:
        if value < 2:
            raise ValueError("a standard error needs at least 2 test samples")
        return value

    @field_validator("block_size")
    @classmethod
    def _whole_blocks(cls, value: int, info: ValidationInfo) -> int:
        return whole_blocks(value, info)

    def data(self, dim: int) -> dict[str, Any]:
        """Data parameters at dimension ``dim``."""
        return {
            "dim": dim,
            "target": {"kind": "mp", "kappa0": self.kappa0},
            "noise": self.noise,
            "tokens": self.tokens,
            "beta0": self.beta0,
        }


def check_dim(dim: int, ratios: Mapping[str, float | Sequence[float] | None]) -> int:
    """``dim``, if every factor of width ratio times dim has a column; ``ratios`` by their key."""
    for key, values in ratios.items():
        for ratio in np.atleast_1d([] if values is None else values):
            if round(ratio * dim) < 1:
                raise ValueError(
                    f"{dim} leaves no column for {key} = {ratio:g}; give at least {1 / ratio:.0f}"
                )
    return dim


def whole_blocks(value: int, info: ValidationInfo) -> int:
    """``block_size`` where it divides the instances."""
    instances = info.data.get("instances", value)
    if instances % value:
        raise ValueError(f"{value} does not divide instances = {instances}; give whole blocks")
    return value


def below_dim(value: int, info: ValidationInfo) -> int:
    """``value``, if it is a smaller size than ``dim``: validator of ``small_dim``."""
    if value >= info.data.get("dim", value + 1):
        raise ValueError(f"{value} is not below dim = {info.data['dim']}; give two sizes")
    return value


def data_blocks(section: SingleHead, seed: int, dim: int) -> list[Experiment]:
    """Teachers and streams, one experiment a block."""
    return [
        Experiment(
            "singlehead/data",
            {
                "data": section.data(dim),
                "seed": seed,
                "block": block,
                "block_size": section.block_size,
            },
            slug=f"d{dim}-b{block}",
        )
        for block in range(section.instances // section.block_size)
    ]


def limit_curve(
    section: SingleHead, alphas: Sequence[float], lam: Decay, kappa: float, **more: Any
) -> Experiment:
    """Theory in the limit of infinite dimension, at one weight decay or several."""
    parameters = {
        "target": {"kind": "mp", "kappa0": section.kappa0},
        "noise": section.noise,
        "tokens": section.tokens,
        "beta0": section.beta0,
        **_solver(section, alphas, lam, kappa),
        **more,
    }
    return Experiment(
        "singlehead/state_evolution",
        parameters,
        slug=f"{_decays(lam)}-kappa{kappa:g}",
    )


def own_curves(
    section: SingleHead,
    seed: int,
    dim: int,
    alphas: Sequence[float],
    lam: Decay,
    kappa: float,
    **more: Any,
) -> list[Experiment]:
    """Theory for the instances' own spectra, one experiment a block."""
    return [
        Experiment(
            "singlehead/state_evolution",
            {**data.parameters, **_solver(section, alphas, lam, kappa), **more},
            {"data": data},
            slug=f"own-d{dim}-{_decays(lam)}-kappa{kappa:g}-b{data.parameters['block']}",
        )
        for data in data_blocks(section, seed, dim)
    ]


def _decays(lam: Decay) -> str:
    return f"{len(lam)}lams" if np.ndim(lam) else f"lam{lam:g}"


def _solver(
    section: SingleHead, alphas: Sequence[float], lam: Decay, kappa: float
) -> dict[str, Any]:
    return {
        **({"lams": list(lam)} if np.ndim(lam) else {"lam": lam}),
        "kappa": kappa,
        "beta": section.beta,
        "penalty": "nuclear",
        "alphas": list(alphas),
        "nodes": section.nodes,
        "tolerance": TOLERANCE,
    }


def trainings(
    section: SingleHead,
    seed: int,
    dim: int,
    alphas: Sequence[float],
    lam: float,
    kappa: float,
    optimizer: str = "lbfgs",
    *,
    start: tuple[int, float] = (0, 1.0),
) -> list[Experiment]:
    """Training of all instances over a grid of alpha, one experiment a block.

    ``start`` is the number of the draw of the initial W and the size of its entries.
    """
    check_sample_ratios(alphas, dim)
    return [
        Experiment(
            "singlehead/erm",
            {
                **data.parameters,
                "alphas": list(alphas),
                "lam": lam,
                "kappa": kappa,
                "beta": section.beta,
                "optimizer": optimizer,
                "trial": start[0],
                "start_scale": start[1],
                "test_samples": section.test_samples,
            },
            {"data": data},
            slug=f"{optimizer}-d{dim}-lam{lam:g}-kappa{kappa:g}-b{data.parameters['block']}",
        )
        for data in data_blocks(section, seed, dim)
    ]
