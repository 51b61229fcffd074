"""Spikes, initial weights and keys of the sequence streams of a block of instances.

Parameters: ``{"data": {dim, tokens, prior}, "seed", "block", "block_size", "heads", "start"}``.
Heads and start do not enter the seeds: runs that differ in them see the same sequences.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hdattn.multihead.start import initial_weights, make_start, order_parameters
from hdattn.multihead.teacher import draw_spikes, make_data, stream_key
from hdattn.steps.multihead import instances, seeds
from hdattn.store import Dataset, Record, Result


def run(parameters: dict[str, Any], inputs: dict[str, Record]) -> Result:
    """Draw the spikes and the weights at tau = 0; name each stream."""
    data, start = make_data(parameters["data"]), make_start(parameters["start"])
    seed, heads, indices = parameters["seed"], parameters["heads"], instances(parameters)
    spikes = np.array([draw_spikes(data, seed, i) for i in indices])
    weights = np.array([initial_weights(data, seed, i, heads, start) for i in indices])
    m, r = order_parameters(weights, spikes)
    keys = np.array([stream_key(data, seed, i) for i in indices])
    datasets = {
        "instance": Dataset(np.array(indices), "number of the instance", axes=("instance",)),
        "spikes": Dataset(spikes, "hidden spikes", "k^*_f", ("instance", "spike", "D")),
        "weights": Dataset(weights, "initial weights", "k_h(0)", ("instance", "head", "D")),
        "m": Dataset(m, "overlaps k_h . k*_f", "m_{hf}(0)", ("instance", "head", "spike")),
        "r": Dataset(r, "products k_h . k_h'", "r_{hh'}(0)", ("instance", "head", "head'")),
        "b": Dataset(start.biases(heads), "biases", "b_h(0)", ("head",)),
        "stream_key": Dataset(keys, "SHA-256 of seed and first labels", axes=("instance",)),
    }
    return Result(
        datasets, seeds=seeds(parameters), attributes={"c": start.c}, messages=start.messages()
    )
