"""Scans of the single head: state evolution and, with ``train``, trained instances beside it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator

from hdattn.experiment import Experiment
from hdattn.fields import Count, physics, size
from hdattn.scan.grids import Axes, CountAxis, NonNegativeAxis, PositiveAxis
from hdattn.singlehead.sample_size import check_sample_ratios

if TYPE_CHECKING:
    from hdattn.store import Record

THEORY = ("Q", "M", "Q0", "test_error", "train_loss", "rank_fraction")


class SingleHeadScan(Axes):
    """A grid over the parameters of the single head; every axis takes one or several values."""

    model: Literal["singlehead"] = physics("singlehead", "Which model.")
    alpha: PositiveAxis = physics(..., "Sample ratios n/d^2.")
    lam: PositiveAxis = physics((0.01,), "Weight decays lambda.")
    kappa: PositiveAxis = physics((1.0,), "Widths p/d of the trained W.")
    kappa0: PositiveAxis = physics((0.5,), "Widths p0/d of the target.")
    noise: NonNegativeAxis = physics((0.5,), "Noises Delta inside the label softmax.")
    tokens: CountAxis = physics((2,), "Numbers of tokens T.")
    beta: PositiveAxis = physics((1.0,), "Inverse temperatures of the head.")
    beta0: PositiveAxis = physics((1.0,), "Inverse temperatures of the labels.")
    train: bool = physics(False, "Also train heads on drawn data.")
    dim: Count = size(60, "Dimension d of the training.")
    instances: Count = size(4, "Instances trained at each point.")
    optimizer: Literal["lbfgs", "adam"] = size("lbfgs", "How heads are trained.")
    test_samples: Annotated[Count, Field(ge=2)] = size(32768, "Fresh samples behind a test error.")
    nodes: Annotated[Count, Field(ge=8, multiple_of=2)] = size(
        18, "Quadrature points per axis of the output channel (even)."
    )

    AXES: ClassVar = ("alpha", "lam", "kappa", "kappa0", "noise", "tokens", "beta", "beta0")
    LOOK: ClassVar = ("test_error",)

    @field_validator("tokens")
    @classmethod
    def _several(cls, tokens: tuple[int, ...]) -> tuple[int, ...]:
        if min(tokens) < 2:
            raise ValueError("a sequence has at least 2 tokens; give 2 or more")
        return tokens

    def experiments(self, seed: int) -> dict[str, list[Experiment]]:
        """One curve over alpha for each combination of the others; one training a point."""
        found = {"theory": [self._curve(point) for point in self._curves()]}
        if self.train:
            points = itertools.product(self._curves(), self.alpha)
            found["train"] = [self._training(p, alpha, seed) for p, alpha in points]
        return found

    def rows(self, records: Mapping[str, Sequence[Record]]) -> Iterator[dict[str, Any]]:
        """A row for each point or, where heads were trained, for each of its instances."""
        trained = iter(records.get("train", ()))
        for point, record in zip(self._curves(), records["theory"], strict=True):
            theory = record.datasets
            for a, alpha in enumerate(self.alpha):
                where = {"alpha": alpha, **point}
                values = {name: float(theory[name][a]) for name in THEORY}
                values["converged"] = bool(theory["converged"][a])
                values["flags"] = str(theory["flags"][a])
                if not self.train:
                    yield {**where, **values}
                    continue
                expected = {f"theory_{name}": value for name, value in values.items()}
                for row in _instances(next(trained)):
                    yield {**where, **row, **expected}

    def _curves(self) -> list[dict[str, float]]:
        names = self.AXES[1:]
        grids = itertools.product(*(getattr(self, name) for name in names))
        return [dict(zip(names, values, strict=True)) for values in grids]

    def _curve(self, point: Mapping[str, Any]) -> Experiment:
        shared = {key: point[key] for key in ("lam", "kappa", "noise", "tokens", "beta", "beta0")}
        return Experiment(
            "singlehead/state_evolution",
            {
                **shared,
                "target": {"kind": "mp", "kappa0": point["kappa0"]},
                "penalty": "nuclear",
                "alphas": list(self.alpha),
                "nodes": self.nodes,
                "tolerance": 1e-5,
            },
            slug=f"lam{point['lam']:g}-kappa{point['kappa']:g}",
        )

    def _training(self, point: Mapping[str, Any], alpha: float, seed: int) -> Experiment:
        data = {
            "dim": self.dim,
            "target": {"kind": "mp", "kappa0": point["kappa0"]},
            **{key: point[key] for key in ("noise", "tokens", "beta0")},
        }
        block = {"data": data, "seed": seed, "block": 0, "block_size": self.instances}
        source = Experiment("singlehead/data", block, slug=f"d{self.dim}-b0")
        check_sample_ratios([alpha], self.dim)
        return Experiment(
            "singlehead/erm",
            {
                **block,
                **{key: point[key] for key in ("lam", "kappa", "beta")},
                "alphas": [alpha],
                "optimizer": self.optimizer,
                "trial": 0,
                "start_scale": 1.0,
                "test_samples": self.test_samples,
            },
            {"data": source},
            slug=f"{self.optimizer}-d{self.dim}-lam{point['lam']:g}-alpha{alpha:g}",
        )


def _instances(record: Record) -> Iterator[dict[str, Any]]:
    """What was measured on each instance of a training at one alpha."""
    names = (*THEORY, "test_error_stderr", "penalty_value")
    for i, instance in enumerate(record.datasets["instance"]):
        values = {name: float(record.datasets[name][i, 0]) for name in names}
        converged = bool(record.datasets["converged"][i, 0])
        yield {"instance": int(instance), **values, "converged": converged}
