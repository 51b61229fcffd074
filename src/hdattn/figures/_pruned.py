"""Heads of several activations trained by the flow on sets of spikes: keys, experiments, labels."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, field_validator
from pydantic.functional_validators import AfterValidator

from hdattn.errors import UserError
from hdattn.experiment import Experiment
from hdattn.fields import Count, Number, Positive, PositiveList, physics, size
from hdattn.figures import style
from hdattn.figures._ensembles import Ensemble, FlowModel, ensemble
from hdattn.figures._multihead import ALL_NAMES
from hdattn.multihead.activations import get_activation

BLOCK = 1  # flows that one job does: they are long


def _registered(name: str) -> str:
    try:
        get_activation(name)
    except UserError as error:
        raise ValueError(str(error)) from error
    return name


ActivationName = Annotated[str, AfterValidator(_registered)]
"""Name of an activation of the library or of an extension."""


def label(activation: str) -> str:
    """What figures call an activation."""
    return ALL_NAMES.get(activation, activation)


def colour(activation: str) -> str:
    """Its colour; purple for an extension."""
    return style.MEANING.get(activation, style.PURPLE)


class TrainedSection(Ensemble):
    """Keys of heads trained by the flow: one constant spike, and others with random signs."""

    tokens: Annotated[Count, Field(ge=2)] = physics(5, "Tokens L of a sequence.")
    mu: Number = physics(0.8, "Mean of the signal along the first spike, which is constant.")
    activations: Annotated[tuple[ActivationName, ...], Field(min_length=1, max_length=4)] = physics(
        tuple(ALL_NAMES), "Activations shown; an extension's name is one."
    )
    tau_max: Positive = size(3000, "Time for which the flow trains the heads.")

    @field_validator("activations")
    @classmethod
    def _once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(names)) < len(names):
            raise ValueError(f"{list(names)} names one twice; leave the second out")
        return names

    def model(self, spread: tuple[float, ...], heads: int) -> FlowModel:
        """Heads on the constant spike and on random signs of these sizes."""
        zeros = (0.0,) * len(spread)
        keys = {"tokens": self.tokens, "heads": heads}
        return FlowModel(mean=(self.mu, *zeros), std=(0.0, *spread), **keys)

    def flows(self, model: FlowModel, activation: str, seed: int, seeds: int) -> list[Experiment]:
        """Flows of ``seeds`` seeds of this activation."""
        # A copy is not validated: extensions are not among the activations of the other figures.
        model = model.model_copy(update={"activation": activation})
        return ensemble(self, model, seed, self.tau_max, seeds, block_size=BLOCK)


def spread_name(spread: tuple[float, ...]) -> str:
    """Short name of a set of spikes: its spreads."""
    return ",".join(f"{omega:g}" for omega in spread)


def sorted_spread(spread: PositiveList) -> tuple[float, ...]:
    """Strongest first."""
    return tuple(sorted(spread, reverse=True))


def experiment(kind: str, source: Experiment, role: str, extra: dict[str, Any], seconds: float):
    """Experiment of ``kind`` on the heads that ``source`` trained, whose parameters it repeats."""
    hint = {"mem_mb": 600, "seconds": seconds}
    return Experiment(kind, source.parameters | extra, {role: source}, source.slug, hint)
