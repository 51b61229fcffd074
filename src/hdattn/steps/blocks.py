"""The instances of one job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def instances(parameters: Mapping[str, Any]) -> range:
    """Numbers of the instances in a block."""
    first = parameters["block"] * parameters["block_size"]
    return range(first, first + parameters["block_size"])
