"""Online SGD of a block of instances at dimension D.

Parameters: those of the data experiment (the input ``data``), and ``activation``, ``gamma``,
``batch`` (null for the largest that leaves the law alone), ``tau_max``, ``tau_points``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hdattn.errors import UserError
from hdattn.multihead.sgd import run_sgd
from hdattn.multihead.teacher import SequenceData, make_data, stream_checksum, stream_key
from hdattn.steps.multihead import instances, seeds, times, trajectories
from hdattn.store import Dataset, Record, Result


def run(parameters: dict[str, Any], inputs: dict[str, Record]) -> Result:
    """Train every instance of the block.

    The loss of a record is the mean over the batches drawn around it, each before it is used.
    Raises ``UserError`` where this machine draws other sequences than the one the data came from.
    """
    data, indices = make_data(parameters["data"]), instances(parameters)
    _check_streams(data, parameters["seed"], indices, inputs["data"])
    run = run_sgd(
        data,
        activation=parameters["activation"],
        heads=parameters["heads"],
        gamma=parameters["gamma"],
        taus=times(parameters),
        root_seed=parameters["seed"],
        instances=indices,
        start=parameters["start"],
        batch=parameters["batch"],
    )
    samples = Dataset(run.loss_samples, "sequences behind each loss", axes=("tau",))
    checksums = [stream_checksum(data, parameters["seed"], i) for i in indices]
    drawn = Dataset(np.array(checksums), "SHA-256 of the first sequences", axes=("instance",))
    diverged = [i for i, fine in zip(indices, run.converged, strict=True) if not fine]
    return Result(
        trajectories(indices, run.tau, vars(run))
        | {"loss_samples": samples, "stream_checksum": drawn},
        converged=not diverged,
        seeds=seeds(parameters),
        attributes={"batch": run.batch, "eta": run.eta},
        messages=run.messages + [f"instance {i}: SGD diverged" for i in diverged],
    )


def _check_streams(
    data: SequenceData, root_seed: int, indices: Sequence[int], record: Record
) -> None:
    for instance, known in zip(indices, record.datasets["stream_key"], strict=True):
        if stream_key(data, root_seed, instance) != known:
            raise UserError(
                f"instance {instance}: this machine draws other sequences than those the data file "
                "was made with; remove the data file, and make it here with this version of numpy"
            )
