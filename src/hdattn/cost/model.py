"""From an experiment to its cost."""

from __future__ import annotations

from dataclasses import dataclass

from hdattn.cost import multihead, singlehead  # noqa: F401 (they register their models)
from hdattn.cost.operations import OPERATIONS
from hdattn.cost.work import MODELS, Parameters, Work, added
from hdattn.errors import UserError
from hdattn.experiment import Experiment
from hdattn.several import KEY, is_joint


@dataclass(frozen=True)
class Estimate:
    """Time of one thread (s), flop, bytes moved, and resident memory (MB) of a job."""

    seconds: float
    flops: float
    bytes: float
    memory_mb: float


def work_of(kind: str, parameters: Parameters) -> Work:
    """Work of an experiment, or of several in one; a kind without a model is a ``UserError``."""
    if is_joint(parameters):
        works = [work_of(kind, own) for own in parameters[KEY]]
        units = added(*(work.units for work in works))
        once = {name: 1.0 for name in units if name.startswith("start ")}
        return Work(units | once, max(work.memory_mb for work in works))
    if kind not in MODELS:
        raise UserError(
            f"{kind}: nothing says what this kind of experiment costs; add a function to "
            "src/hdattn/cost/singlehead.py or multihead.py"
        )
    return MODELS[kind](parameters)


def estimate(experiment: Experiment, machine_speed: float = 1.0) -> Estimate:
    """Cost of an experiment on a machine ``machine_speed`` times as fast as the calibrated one."""
    return estimate_of(work_of(experiment.kind, experiment.parameters), machine_speed)


def estimate_of(work: Work, machine_speed: float = 1.0) -> Estimate:
    """Cost of some work."""
    seconds = flops = moved = 0.0
    for name, units in work.units.items():
        operation = OPERATIONS[name]
        seconds += units * operation.seconds
        flops += units * operation.flops
        moved += units * operation.bytes
    return Estimate(seconds / machine_speed, flops, moved, work.memory_mb)
