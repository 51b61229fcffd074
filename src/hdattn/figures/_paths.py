"""Training along paths of weight decays beside its theory: experiments and records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import AfterValidator

from hdattn.experiment import Experiment
from hdattn.fields import Positive
from hdattn.figures._ensemble import Ensemble, complaints_at, theory_flags, theory_values
from hdattn.figures._singlehead import (
    SingleHead,
    data_blocks,
)
from hdattn.singlehead.sample_size import check_sample_ratios

if TYPE_CHECKING:
    from hdattn.store import Record


def _ordered(value: tuple[float, float]) -> tuple[float, float]:
    if value[0] >= value[1]:
        raise ValueError("the lower end is not below the upper; give [low, high]")
    return value


LamRange = Annotated[tuple[Positive, Positive], AfterValidator(_ordered)]
"""Weight decays [low, high] among which the best is sought."""


def best_curve(
    section: SingleHead,
    alphas: Sequence[float],
    kappa: float,
    lam_range: tuple[float, float],
    penalty: str = "nuclear",
) -> Experiment:
    """Weight decay of least test error by theory in the limit, and the theory there."""
    parameters = {
        "target": {"kind": "mp", "kappa0": section.kappa0},
        "noise": section.noise,
        "tokens": section.tokens,
        "beta0": section.beta0,
        "beta": section.beta,
        "kappa": kappa,
        "penalty": penalty,
        "alphas": list(alphas),
        "lam_range": list(lam_range),
        "nodes": section.nodes,
    }
    return Experiment("singlehead/best_regularisation", parameters, slug="best")


def path_trainings(
    section: SingleHead,
    seed: int,
    dim: int,
    alphas: Sequence[float],
    lams: Sequence[float],
    kappa: float,
    *,
    head: str = "tied",
    task: str = "seq2lab",
    **more: Any,
) -> list[Experiment]:
    """Training of all instances over alpha and a path of weight decays, an experiment a block."""
    check_sample_ratios(alphas, dim)
    options = {
        "alphas": list(alphas),
        "lams": list(lams),
        "kappa": kappa,
        "beta": section.beta,
        "head": head,
        "task": task,
        "test_samples": section.test_samples,
        **more,
    }
    return [
        Experiment(
            "singlehead/erm_path",
            {**data.parameters, **options},
            {"data": data},
            slug=f"{head}-{task}-d{dim}-kappa{kappa:g}-b{data.parameters['block']}",
        )
        for data in data_blocks(section, seed, dim)
    ]


@dataclass(frozen=True, eq=False)
class Selection(Ensemble):
    """An ensemble at one weight decay for each instance and alpha.

    ``trained`` and ``own`` are the blocks of paths and of their theory; ``picked`` and
    ``theory_picked`` [instance, a] number the weight decays of each, the latter None where theory
    has not been solved.
    """

    picked: np.ndarray
    theory_picked: np.ndarray | None

    def simulation(self, quantity: str) -> np.ndarray:
        """Trained values [instance, a]."""
        return _pick(super().simulation(quantity), self.picked)

    def theory(self, quantity: str) -> np.ndarray:
        """Theory for the instances' own targets [instance, a]."""
        return self._solved(lambda datasets: theory_values(datasets, quantity))

    @cached_property
    def theory_flagged(self) -> np.ndarray:
        """Sample ratios [a] where the theory of some instance is not to be trusted."""
        if self.theory_picked is None:
            return np.zeros(len(self.alphas), bool)
        return self._solved(theory_flags).any(axis=0)

    def _solved(self, value: Callable[[dict[str, np.ndarray]], np.ndarray]) -> np.ndarray:
        values = np.concatenate([value(record.datasets) for record in self.own])
        return _pick(np.moveaxis(values[..., self._columns], 1, 2), self.theory_picked)


def _pick(values: np.ndarray, index: np.ndarray) -> np.ndarray:
    return np.take_along_axis(values, index[..., None], axis=2)[..., 0]


def _least(errors: np.ndarray, converged: np.ndarray) -> np.ndarray:
    """Position along the last axis of the least error among those that converged."""
    return np.where(converged, errors, np.inf).argmin(axis=-1)


class PathEnsemble:
    """Trained paths of weight decays beside the theory of their targets, at all or some of them."""

    def __init__(self, trained: Sequence[Record], own: Sequence[Record]):
        self._records = trained, own
        self.lams = trained[0].datasets["lam"]
        self.alphas = trained[0].datasets["alpha"]
        self.dim = trained[0].parameters["data"]["dim"]
        self._solved = own[0].datasets["lam"].tolist()
        self._shape = (sum(len(r.datasets["instance"]) for r in trained), len(self.alphas))

    def at(self, lam: float) -> Selection:
        """The ensemble at one weight decay."""
        known = self._solved.index(lam) if lam in self._solved else None
        return self._numbered(self.lams.tolist().index(lam), known)

    def first(self) -> Selection:
        """The ensemble at the first weight decay of both, where there is one of each."""
        return self._numbered(0, 0)

    def best(self) -> Selection:
        """Each instance at the weight decay of least validation error; theory at its own best.

        Of those that converged, if any did.
        """
        trained = (
            np.concatenate([r.datasets[name] for r in self._records[0]])
            for name in ("validation_error", "converged")
        )
        theory = (
            np.stack([self.at(lam).theory(name) for lam in self._solved], axis=-1)
            for name in ("test_error", "converged")
        )
        return Selection(*self._records, _least(*trained), _least(*theory))

    @property
    def flagged(self) -> np.ndarray:
        """Sample ratios [a] where any weight decay is flagged.

        Also one that :meth:`best` left out: it might have been the best.
        """
        return np.any([self.at(lam).flagged for lam in self.lams], axis=0)

    def complaints(self, what: str) -> list[str]:
        """One line for each sample ratio that is flagged; ``what`` was trained."""
        return complaints_at(f"{what}, or the theory of its targets", self.alphas[self.flagged])

    def chosen(self) -> np.ndarray:
        """Weight decays [instance, a] that :meth:`best` takes in training."""
        return self.lams[self.best().picked]

    def _numbered(self, trained: int, solved: int | None) -> Selection:
        theory = None if solved is None else np.full(self._shape, solved)
        return Selection(*self._records, np.full(self._shape, trained), theory)


def at_lam(record: Record, index: int) -> Record:
    """A record at one of its weight decays, by number."""
    details = {}
    for name, dataset in record.details.items():
        if "lam" in dataset.axes:
            axis = dataset.axes.index("lam")
            axes = dataset.axes[:axis] + dataset.axes[axis + 1 :]
            values = np.take(dataset.values, index, axis)
            dataset = replace(dataset, values=values, axes=axes)
        details[name] = dataset
    return replace(record, details=details)
