"""Online SGD at dimension D on single-location regression, vectorised over instances.

Each step draws a batch of B fresh D-dimensional sequences and moves the weights against the
gradient of the batch mean of the per-sample loss ``l_D = (1/D) ||X_eps - sum_l A_l X_l||^2``,
with learning rate ``eta = gamma B / D``; b and c move at the same rate. Time is
``tau = eta * steps = gamma * samples / D``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hdattn.errors import UserError
from hdattn.multihead.activations import Activation, get_activation
from hdattn.multihead.learners import Learners, Model
from hdattn.multihead.start import GaussianStart, Start, make_start
from hdattn.multihead.teacher import SequenceData, make_data, whole_number

_MOST_STEPS = 1e10  # years of computing at the smallest dimensions


@dataclass(frozen=True)
class SgdResult:
    """Trajectories of a block of instances, I instances at T times.

    Attributes
    ----------
    tau: [T] times of the records, ``eta * steps``: the multiples of eta nearest to those asked.
    steps: [T] numbers of steps taken before each record.
    m, r: [I, T, H, F] overlaps k_h . k*_f and [I, T, H, H] products k_h . k_h', float64.
    b, c: [I, T, H] and [I, T].
    loss: [I, T] mean of l_D over the batches drawn around each record, each before it is used:
        the steps nearer to this record than to its neighbours, none before the first record
        and only the batch at hand after the last; ``loss_samples`` [T] counts sequences.
    converged: [I] False where a run diverged; its records are then not finite from there on.
    batch, eta, seconds: batch size, learning rate, processor time.
    messages: warnings, one line each.
    """

    tau: np.ndarray
    steps: np.ndarray
    m: np.ndarray
    r: np.ndarray
    b: np.ndarray
    c: np.ndarray
    loss: np.ndarray
    loss_samples: np.ndarray
    converged: np.ndarray
    batch: int
    eta: float
    seconds: float
    messages: list[str] = field(default_factory=list)


def run_sgd(
    data: SequenceData | Mapping[str, Any],
    *,
    activation: str | Activation,
    heads: int,
    gamma: float,
    taus: Sequence[float],
    root_seed: int = 0,
    instances: Iterable[int] = (0,),
    start: Start | Mapping[str, Any] = GaussianStart(),  # noqa: B008 (frozen)
    batch: int | None = None,
    dtype: type = np.float32,
) -> SgdResult:
    """Online SGD of the given instances, recorded at times ``taus``.

    ``data`` is ``{"dim": D, "tokens": L, "prior": {...}}``; ``batch`` defaults to
    max(1, D // 50), up to which the law of the trajectories does not depend on it. Instance i is
    the same to the last bit in whichever block it runs. Tokens are drawn in float32; ``dtype`` is
    the precision of the weights and of all arithmetic. Raises :class:`UserError` for impossible
    values; a diverging run is reported in ``converged``.
    """
    begun = time.process_time()
    data, start = make_data(data), make_start(start)
    heads = whole_number("heads", heads, minimum=1)
    batch, messages = _batch(batch, data.dim)
    eta = _positive("gamma", gamma) * batch / data.dim
    steps, record = np.unique(_record_steps(taus, eta), return_inverse=True)
    rule = get_activation(activation) if isinstance(activation, str) else activation
    model = Model(data, rule, heads, gamma, batch, start, np.dtype(dtype))
    blocks = [_trajectories(model, steps, root_seed, part) for part in _parts(model, instances)]
    arrays = [np.concatenate(parts)[:, record] for parts in zip(*blocks, strict=True)]
    finite = [np.isfinite(x).reshape(len(x), -1).all(axis=1) for x in arrays]
    return SgdResult(
        eta * steps[record],
        steps[record],
        *arrays,
        loss_samples=batch * np.diff(_loss_windows(steps))[record],
        converged=np.all(finite, axis=0),
        batch=batch,
        eta=eta,
        seconds=time.process_time() - begun,
        messages=messages + start.messages(),
    )


def _trajectories(
    model: Model, steps: np.ndarray, root_seed: int, instances: Sequence[int]
) -> tuple[np.ndarray, ...]:
    """Records m, r, b, c, loss of a few instances, each with axes [I, T, ...]."""
    learners = Learners(model, root_seed, instances)
    losses = np.zeros((len(steps), len(instances)))
    window_sizes = np.diff(_loss_windows(steps))
    owner = np.repeat(np.arange(len(steps)), window_sizes)  # record of each step from steps[0] on
    records = []
    with np.errstate(all="ignore"):  # a diverging run is reported, not warned of
        for step in range(steps[-1] + 1):
            if step == steps[len(records)]:
                records.append(learners.record())
            loss = learners.step(*learners.next_batch())
            if step >= steps[0]:
                losses[owner[step - steps[0]]] += loss
    arrays = [np.stack(values, axis=1) for values in zip(*records, strict=True)]
    return *arrays, (losses / window_sizes[:, None]).T


def _loss_windows(steps: np.ndarray) -> np.ndarray:
    """Edges [T + 1] of the steps whose losses each record averages: midway between records."""
    return np.concatenate([steps[:1], (steps[:-1] + steps[1:] + 1) // 2, steps[-1:] + 1])


def _parts(model: Model, instances: Iterable[int]) -> list[list[int]]:
    """The instances in groups whose tokens fit the buffer."""
    instances = [whole_number("instance", i, minimum=0) for i in instances]
    if not instances:
        raise UserError("instances: none given; ask for at least one")
    count = math.ceil(len(instances) / model.units_held)
    return [list(map(int, part)) for part in np.array_split(instances, count)]


def _batch(batch: int | None, dim: int) -> tuple[int, list[str]]:
    """Batch size, by default the largest harmless one, and a warning where it is larger."""
    harmless = max(1, dim // 50)
    if batch is None:
        return harmless, []
    batch = whole_number("batch", batch, minimum=1)
    if batch <= harmless:
        return batch, []
    return batch, [f"batch = {batch} is above dim/50 = {dim / 50:g}: the flow may not describe it"]


def _record_steps(taus: Sequence[float], eta: float) -> np.ndarray:
    """Steps nearest to the times ``taus``."""
    taus = np.asarray(taus, dtype=float)
    if taus.ndim != 1 or not taus.size or not np.isfinite(taus).all() or taus.min() < 0:
        raise UserError("taus must be a non-empty list of finite times that are not negative")
    if taus.max() > _MOST_STEPS * eta:
        raise UserError(
            f"tau = {taus.max():g} takes {taus.max() / eta:.1g} steps of eta = {eta:g}; lower it"
        )
    if 0 < taus.max() < eta:
        raise UserError(
            f"tau = {taus.max():g} is less than one step, gamma B / D = {eta:g}, so that nothing "
            "would be trained; raise tau, lower gamma, or take a larger dim"
        )
    return np.rint(taus / eta).astype(int)


def _positive(name: str, value: float) -> float:
    """``value``; :class:`UserError` naming ``name`` unless it is a positive, finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise UserError(f"{name} must be a number, not {value!r}")
    if not 0 < value < math.inf:
        raise UserError(f"{name} = {value} must be positive and finite: online SGD needs steps")
    return float(value)
