"""Scans of the multi-head layer: the best loss of its heads, beside the Bayes risk."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from hdattn.experiment import Experiment
from hdattn.fields import Count, physics, size
from hdattn.figures._activation_names import ActivationName
from hdattn.scan.grids import Axes, CountAxis, NonNegativeNumbers, Numbers, PositiveAxis

if TYPE_CHECKING:
    from hdattn.store import Record

_FLIPS = 8  # each Sobol point comes with 2^F images: more would not fit


class MultiHeadScan(Axes):
    """A grid over activations, heads, tokens and the strength of the flipping spikes."""

    model: Literal["multihead"] = physics("multihead", "Which model.")
    activation: tuple[ActivationName, ...] = physics(
        ("softmax", "softmax1", "bayes"),
        "Activations; bayes is B-softmax. Or names of extensions.",
        min_length=1,
    )
    heads: CountAxis = physics(..., "Numbers of heads H.")
    tokens: CountAxis = physics((5,), "Numbers of tokens L.")
    strength: PositiveAxis = physics((1.0,), "Factors of std: how strong the flipping spikes are.")
    mean: Numbers = physics((0.8, 0.0), "Mean of theta, a number per spike.")
    std: NonNegativeNumbers = physics(
        (0.0, 2.0), "Size of the random sign of theta, a number per spike."
    )
    starts: Count = size(2, "Random starts of the search at each point.")
    base_points: Annotated[Count, Field(ge=64)] = size(
        1024, "Sobol points of the search before their images, a power of two."
    )

    AXES: ClassVar = ("activation", "tokens", "strength", "heads")
    LOOK: ClassVar = ("loss",)

    @field_validator("activation", mode="before")
    @classmethod
    def _names(cls, value: Any) -> Any:
        return value.replace(",", " ").split() if isinstance(value, str) else value

    @field_validator("tokens")
    @classmethod
    def _several(cls, tokens: tuple[int, ...]) -> tuple[int, ...]:
        if min(tokens) < 2:
            raise ValueError("a sequence has at least 2 tokens; give 2 or more")
        return tokens

    @field_validator("base_points")
    @classmethod
    def _power(cls, points: int) -> int:
        if points & (points - 1):
            raise ValueError(f"{points} is not a power of two; take 1024 or 4096")
        return points

    @model_validator(mode="after")
    def _agree(self) -> MultiHeadScan:
        if len(self.mean) != len(self.std):
            raise ValueError(
                f"mean has {len(self.mean)} numbers, std has {len(self.std)}; give one per spike"
            )
        if sum(s > 0 for s in self.std) > _FLIPS:
            raise ValueError(f"std has more than {_FLIPS} flipping spikes; give fewer")
        return self

    def experiments(self, seed: int) -> dict[str, list[Experiment]]:
        """One search a point; one Bayes risk for each number of tokens and strength."""
        risks = itertools.product(self.tokens, self.strength)
        return {
            "optimum": [self._optimum(point, seed) for point in self._points()],
            "bayes": [self._bayes(tokens, strength) for tokens, strength in risks],
        }

    def rows(self, records: Mapping[str, Sequence[Record]]) -> Iterator[dict[str, Any]]:
        """A row for each point."""
        pairs = itertools.product(self.tokens, self.strength)
        risks = dict(zip(pairs, records["bayes"], strict=True))
        for point, record in zip(self._points(), records["optimum"], strict=True):
            bayes = risks[point["tokens"], point["strength"]].datasets
            yield {
                **point,
                **{name: float(record.datasets[name]) for name in ("loss", "loss_error")},
                **{name: float(bayes[name]) for name in ("bayes_risk", "bayes_risk_error")},
                "converged": record.converged,
                "flags": "; ".join(record.messages),
            }

    def _points(self) -> list[dict[str, Any]]:
        grids = itertools.product(*(getattr(self, name) for name in self.AXES))
        return [dict(zip(self.AXES, values, strict=True)) for values in grids]

    def _prior(self, strength: float) -> dict[str, Any]:
        std = [strength * s for s in self.std]
        return {"kind": "flip", "mean": list(self.mean), "std": std}

    def _optimum(self, point: Mapping[str, Any], seed: int) -> Experiment:
        return Experiment(
            "multihead/optimum",
            {
                "activation": point["activation"],
                "tokens": point["tokens"],
                "prior": self._prior(point["strength"]),
                "heads": point["heads"],
                "starts": self.starts,
                "seed": seed,
                "base_points": self.base_points,
                "held": [],
            },
            slug=f"{point['activation']}-H{point['heads']}-L{point['tokens']}",
        )

    def _bayes(self, tokens: int, strength: float) -> Experiment:
        parameters = {"tokens": tokens, "prior": self._prior(strength)}
        return Experiment("multihead/bayes", parameters, slug=f"L{tokens}")
