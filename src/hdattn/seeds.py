"""Random streams: a function of root seed, data parameters and instance, and of nothing else.

Optimiser, regularisation, width and sample ratio do not enter, so every training run on the
same data parameters sees the same teacher and the same samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hdattn.canonical import digest

_WORD = 8  # hexadecimal digits of a 32-bit word of entropy


def seed_sequence(
    root_seed: int, data_parameters: Mapping[str, Any], instance: int, *stream: int
) -> np.random.SeedSequence:
    """Seed of one stream of one instance.

    ``stream`` numbers the purposes within an instance (teacher, training chunk 0, 1, ...);
    different tuples give independent streams.
    """
    text = digest(data_parameters, 4 * _WORD)
    words = [int(text[i : i + _WORD], 16) for i in range(0, len(text), _WORD)]
    return np.random.SeedSequence([root_seed, *words, instance], spawn_key=stream)


def generator(
    root_seed: int, data_parameters: Mapping[str, Any], instance: int, *stream: int
) -> np.random.Generator:
    """Generator on :func:`seed_sequence`."""
    seed = seed_sequence(root_seed, data_parameters, instance, *stream)
    return np.random.Generator(np.random.PCG64(seed))
