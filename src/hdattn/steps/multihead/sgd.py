"""Online SGD of a block of instances at dimension D.

Parameters: those of the data experiment (the input ``data``), and ``activation``, ``gamma``,
``batch`` (null for the largest that leaves the law alone), ``tau_max``, ``tau_points``.
"""

from __future__ import annotations

from typing import Any

from hdattn.errors import UserError
from hdattn.multihead.sgd import run_sgd
from hdattn.multihead.teacher import make_data, stream_checksum
from hdattn.steps.multihead import instances, seeds, times, trajectories
from hdattn.store import Dataset, Record, Result


def run(parameters: dict[str, Any], inputs: dict[str, Record]) -> Result:
    """Train every instance of the block.

    The loss of a record is the mean over the batches drawn around it, each before it is used.
    Raises ``UserError`` where this machine draws other sequences than the one the data came from.
    """
    _check_streams(parameters, inputs["data"])
    indices = instances(parameters)
    run = run_sgd(
        parameters["data"],
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
    diverged = [i for i, fine in zip(indices, run.converged, strict=True) if not fine]
    return Result(
        {**trajectories(indices, run.tau, vars(run)), "loss_samples": samples},
        converged=not diverged,
        seeds=seeds(parameters),
        attributes={"batch": run.batch, "eta": run.eta},
        messages=run.messages + [f"instance {i}: SGD diverged" for i in diverged],
    )


def _check_streams(parameters: dict[str, Any], record: Record) -> None:
    data = make_data(parameters["data"])
    for instance, known in zip(
        instances(parameters), record.datasets["stream_checksum"], strict=True
    ):
        if stream_checksum(data, parameters["seed"], instance) != known:
            raise UserError(
                f"instance {instance}: this machine draws other sequences than those the data file "
                "was made with; remove the data file, and make it here with this version of torch"
            )
