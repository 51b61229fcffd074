"""How large amplitudes and overlaps may be: tokens are standard normal, so that 10 is a lot."""

from __future__ import annotations

import numpy as np

from hdattn.errors import UserError

LARGEST = 1e3


def refuse_large(name: str, values: np.ndarray, largest: float = LARGEST) -> np.ndarray:
    """``values``, or :class:`UserError` naming ``name`` where one is above ``largest`` in size."""
    size = float(np.max(np.abs(values), initial=0.0))
    if not size <= largest:
        raise UserError(
            f"{name} has an entry of size {size:g}; give at most {largest:g}: tokens have noise of "
            "size 1, beside which that is no different"
        )
    return values
