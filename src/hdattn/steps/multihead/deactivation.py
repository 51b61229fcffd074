"""Total attention of trained heads on sequences of their own sign and of the other.

Parameters: those of the experiment that trained the heads (the input ``trained``: ``flows``,
``flow`` or ``sgd``), and ``sequences``, how many are drawn for each instance, and ``drawn``:
``population``, where scores are drawn from their law, or ``tokens``, where the heads are rebuilt in
R^D from their order parameters (which determine the law of their scores) and see fresh
D-dimensional sequences.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hdattn.multihead.activations import get_activation
from hdattn.multihead.deactivation import (
    BINS,
    Deactivation,
    deactivation,
    own_sequences,
    population_scores,
    sequence_scores,
)
from hdattn.multihead.priors import make_prior
from hdattn.multihead.quadrature import reduced_weights
from hdattn.multihead.start import OrderParameterStart
from hdattn.multihead.teacher import SequenceStream, make_data
from hdattn.seeds import generator
from hdattn.steps.blocks import instances
from hdattn.store import Dataset, Record, Result

_FRESH = 1  # added to the root seed: sequences that no training has seen


def run(parameters: dict[str, Any], inputs: dict[str, Record]) -> Result:
    """Statistics of every instance of the block, at the last time of its training."""
    indices = instances(parameters)
    trained = inputs["trained"].datasets
    found = [_instance(parameters, trained, *place) for place in enumerate(indices)]
    axes = ("instance", "head", "own or other")
    datasets = {
        "instance": Dataset(np.array(indices), "number of the instance", axes=axes[:1]),
        "edges": Dataset(np.linspace(0, 1, BINS + 1), "edges of the bins", axes=("edge",)),
        "histogram": Dataset(
            np.array([x.histogram for x in found]),
            "fraction of sequences in each bin",
            axes=(*axes, "bin"),
            allow_nan=True,
        ),
    }
    texts = {"mean": "mean of S_h", "median": "median of S_h", "count": "number of sequences"}
    for name, text in texts.items():
        values = np.array([getattr(x, name) for x in found])
        datasets[name] = Dataset(values, text, axes=axes, allow_nan=True)
    return Result(datasets, converged=bool(trained["converged"].all()))


def _instance(
    parameters: dict[str, Any], trained: dict[str, np.ndarray], position: int, instance: int
) -> Deactivation:
    m, b = (trained[name][position, -1] for name in "mb")
    r = trained["r"][position, -1] if "r" in trained else m @ m.T
    model = parameters.get("data", parameters)
    prior, count = make_prior(model["prior"]), parameters["sequences"]
    if parameters["drawn"] == "tokens":
        data = make_data(parameters["data"])
        stream = SequenceStream(data, parameters["seed"] + _FRESH, instance)
        start, rng = OrderParameterStart(m=m, r=r), np.random.default_rng(instance)
        chi, theta = sequence_scores(stream, start.weights(rng, stream.spikes, len(m)), count)
    else:
        rng = generator(parameters["seed"] + _FRESH, {"prior": model["prior"]}, instance)
        weights = reduced_weights(m, r)
        chi, theta = population_scores(model["tokens"], prior, weights, count, rng)
    random = np.ptp(prior.images().centers, axis=0) > 0
    totals = get_activation(parameters["activation"]).head_totals(chi, b)
    return deactivation(totals, own_sequences(m, theta, random))
