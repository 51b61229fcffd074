"""Figures that show several activations, each followed for a time of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field, ValidationInfo, field_validator

from hdattn.fields import Positive, size
from hdattn.figures._multihead import NAMES, SpikeModel

TauMax = Annotated[dict[str, Positive], Field(min_length=1)]
TAU_MAX = "Activations shown, each with the time tau = gamma samples / dim at which it ends."


class Timed(SpikeModel):
    """Activations, and the times until which they are followed."""

    known: ClassVar[Mapping[str, str]] = NAMES
    """Activations that may be shown, in the order of their rows, and what they are called."""

    tau_max: TauMax = size({"softmax": 200, "bayes": 100}, TAU_MAX)

    @field_validator("tau_max", mode="before")
    @classmethod
    def _known(cls, tau_max: Any) -> Any:
        if not isinstance(tau_max, Mapping) or not set(tau_max) <= set(cls.known):
            raise ValueError(
                f"{tau_max!r} will not do; map {' and '.join(cls.known)} (or one of them) to a time"
            )
        return tau_max

    @field_validator("tau_max")
    @classmethod
    def _unstable(cls, tau_max: dict[str, float], info: ValidationInfo) -> dict[str, float]:
        if info.data.get("tokens") == 2 and "softmax" in tau_max:
            raise ValueError(
                "softmax heads never specialise at tokens = 2, where their growth rate vanishes; "
                "set tokens to 3 or more, or leave softmax out"
            )
        return tau_max

    @property
    def activations(self) -> list[str]:
        """Activations shown, in the order of their rows."""
        return [name for name in self.known if name in self.tau_max]
