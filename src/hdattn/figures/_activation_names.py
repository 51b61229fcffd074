"""Names and colours of activations, those of extensions among them."""

from __future__ import annotations

from typing import Annotated

from pydantic.functional_validators import AfterValidator

from hdattn.errors import UserError
from hdattn.figures import style
from hdattn.figures._multihead import ALL_NAMES
from hdattn.multihead.activations import get_activation


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
