"""Total attention of trained heads on sequences of their own sign and of the other.

Parameters: ``{"activation", "seed", "sgd": [...], "flow": [...], "sequences", "tested", "many":
{"tokens", "prior", "heads", "sigma", "dim", "tau_max", "points"}}``; the inputs ``sgd_k`` and
``flow_k`` are the k-th blocks of runs of SGD and of their flows, with these parameters. Heads are
looked at as they are at the end. Those of the flow see ``sequences`` draws from the law of the
scores; those of SGD are rebuilt in R^D from their order parameters (which determine that law) and
see ``tested`` fresh D-dimensional sequences; ``many`` are trained here by gradient flow.
"""

from __future__ import annotations

from collections.abc import Iterator
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
from hdattn.multihead.trained_heads import train_heads
from hdattn.seeds import generator
from hdattn.steps.blocks import instances
from hdattn.store import Dataset, Record, Result

_FRESH = 1  # added to the root seed: sequences that no training has seen
_TEXTS = {
    "mean": "mean of the total attention",
    "median": "median of the total attention",
    "count": "number of sequences",
    "histogram": "fraction of the sequences in each bin",
}


def run(parameters: dict[str, Any], inputs: dict[str, Record]) -> Result:
    """Statistics of every run of SGD, of every flow, and of many heads."""
    many, converged = _many(parameters)
    found = {
        "sgd": list(_runs(parameters, inputs, "sgd")),
        "flow": list(_runs(parameters, inputs, "flow")),
        "many": [many],
    }
    edges = np.linspace(0, 1, BINS + 1)
    datasets = {"edges": Dataset(edges, "edges of the bins", axes=("edge",))}
    for source, group in found.items():
        for name, text in _TEXTS.items():
            axes = ("instance", "head", "own or other", "bin")[: 3 + (name == "histogram")]
            values = np.array([getattr(x, name) for x in group])
            datasets[f"{source}_{name}"] = Dataset(values, text, axes=axes, allow_nan=True)
    converged &= all(record.datasets["converged"].all() for record in inputs.values())
    return Result(datasets, converged=converged, seeds={"root_seed": parameters["seed"]})


def _runs(
    parameters: dict[str, Any], inputs: dict[str, Record], source: str
) -> Iterator[Deactivation]:
    """Every instance of every block of ``sgd`` or ``flow``."""
    look = _tokens if source == "sgd" else _law
    for k, block in enumerate(parameters[source]):
        trained = inputs[f"{source}_{k}"].datasets
        for position, instance in enumerate(instances(block)):
            m, r, b = (trained[name][position, -1] for name in "mrb")
            yield _statistics(parameters, m, b, *look(parameters, block["data"], m, r, instance))


def _tokens(parameters, data, m, r, instance) -> tuple[np.ndarray, np.ndarray, Any]:
    """Scores of D-dimensional sequences, theta, and the prior."""
    data = make_data(data)
    stream = SequenceStream(data, parameters["seed"] + _FRESH, instance)
    start, rng = OrderParameterStart(m=m, r=r), np.random.default_rng(instance)
    weights = start.weights(rng, stream.spikes, len(m))
    return *sequence_scores(stream, weights, parameters["tested"]), data.prior


def _law(parameters, model, m, r, instance) -> tuple[np.ndarray, np.ndarray, Any]:
    """Scores drawn from their law, theta, and the prior."""
    prior = make_prior(model["prior"])
    keys = {"tokens": model["tokens"], "prior": model["prior"]}
    rng = generator(parameters["seed"] + _FRESH, keys, instance)
    scores = population_scores(
        model["tokens"], prior, reduced_weights(m, r), parameters["sequences"], rng
    )
    return *scores, prior


def _many(parameters: dict[str, Any]) -> tuple[Deactivation, bool]:
    """Statistics of many heads, and whether their flow converged."""
    model = parameters["many"]
    keys = {key: model[key] for key in ("tokens", "prior", "dim")}
    heads, flow = train_heads(
        parameters["activation"],
        model["tokens"],
        make_prior(model["prior"]),
        model["heads"],
        model["tau_max"],
        sigma=model["sigma"],
        dim=model["dim"],
        rng=generator(parameters["seed"], keys, 0),
        points=model["points"],
    )
    look = _law(parameters, model, heads.m, heads.m @ heads.m.T, 0)
    return _statistics(parameters, heads.m, heads.b, *look), flow.converged


def _statistics(parameters, m, b, chi, theta, prior) -> Deactivation:
    random = np.ptp(prior.images().centers, axis=0) > 0
    totals = get_activation(parameters["activation"]).head_totals(chi, b)
    return deactivation(totals, own_sequences(m, theta, random))
