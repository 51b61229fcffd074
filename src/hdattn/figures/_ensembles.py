"""Gradient flows of many seeds in the span of the spikes: their keys, experiments and records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field

from hdattn.experiment import Experiment
from hdattn.fields import Count, FigureSection, Positive, physics, size
from hdattn.figures._multihead import ALL_NAMES, USUAL_SIGMA, SobolPoints, SpikeModel
from hdattn.multihead.escape import crossing_time, head_spread

if TYPE_CHECKING:
    from hdattn.store import Record

TAU_FIRST = 0.5  # first time recorded after zero
LEAST_DIM = 10  # of the seeds of a flow


class FlowModel(SpikeModel):
    """Model of an ensemble: heads of one activation on spikes with random signs or sizes."""

    activation: Literal[tuple(ALL_NAMES)] = physics("softmax", "Activation of the heads.")
    amplitudes: Literal["flip", "gauss"] = physics(
        "flip", "Amplitudes along the spikes: random signs of size std, or normal."
    )

    @property
    def prior(self) -> dict[str, Any]:
        """Prior of the signal, as the solvers take it."""
        return {"kind": self.amplitudes, "mean": self.mean, "std": self.std}

    @property
    def label(self) -> str:
        """What a figure calls it."""
        law = r", normal $\theta$" if self.amplitudes == "gauss" else ""
        return f"{ALL_NAMES[self.activation]}, $H={self.heads}${law}"


class Ensemble(FigureSection):
    """Keys of the flows of many seeds."""

    sigma: Positive = physics(0.1, "Initial weights are N(0, sigma^2 / dim).", usual=USUAL_SIGMA)
    flow_dim: Annotated[Positive, Field(ge=LEAST_DIM)] = physics(
        10000, "Dimension D that sets the size of the seeds of the flows."
    )
    points: Annotated[SobolPoints, Field(ge=64)] = size(
        4096, "Sobol points of a flow in all, with their images, a power of two."
    )
    tau_points: Annotated[Count, Field(ge=20)] = size(200, "Times of a flow, spaced on a log axis.")


def ensemble(
    section: Ensemble,
    model: FlowModel,
    seed: int,
    tau_max: float,
    seeds: int,
    *,
    block_size: int,
    points: int | None = None,
    losses: bool = False,
    end_loss: bool = False,
) -> list[Experiment]:
    """Flows of ``seeds`` seeds of ``model`` in blocks; the last block is filled up."""
    total = points or section.points
    images = 2 ** sum(s > 0 for s in model.std)
    shared = {
        "activation": model.activation,
        "tokens": model.tokens,
        "prior": model.prior,
        "heads": model.heads,
        "sigma": section.sigma,
        "dim": int(section.flow_dim),
        "seed": seed,
        "block_size": block_size,
        "base_points": max(2, total // images),
        "tau_first": TAU_FIRST,
        "tau_max": tau_max,
        "tau_points": section.tau_points,
        "losses": losses,
        "end_loss": end_loss,
    }
    return [
        Experiment(
            "multihead/flows",
            shared | {"block": block},
            slug=f"{model.activation}-H{model.heads}-b{block}",
        )
        for block in range(-(-seeds // block_size))
    ]


@dataclass(frozen=True)
class Flows:
    """Flows of one model: tau [T], m [I, T, H, F], converged [I].

    loss [I, T], on points of its own, and end_loss [I], by quadrature, or None.
    """

    model: FlowModel
    tau: np.ndarray
    m: np.ndarray
    loss: np.ndarray | None
    end_loss: np.ndarray | None
    converged: np.ndarray

    @classmethod
    def merge(cls, records: Sequence[Record], model: FlowModel, seeds: int) -> Flows:
        """The first ``seeds`` flows of all blocks."""
        blocks = [record.datasets for record in records]
        names = [name for name in ("m", "loss", "end_loss", "converged") if name in blocks[0]]
        found = {name: np.concatenate([b[name] for b in blocks])[:seeds] for name in names}
        return cls(model, blocks[0]["tau"], **({"loss": None, "end_loss": None} | found))

    @property
    def flipping(self) -> list[int]:
        """Directions that split, strongest first."""
        std = np.array(self.model.std)
        return [int(f) for f in np.argsort(-std, kind="stable")[: np.count_nonzero(std)]]

    def spread(self, spike: int) -> np.ndarray:
        """Half the range of m_hf over the heads, [I, T]."""
        return head_spread(self.m, spike)

    def jumps(self, spike: int, threshold: float) -> np.ndarray:
        """Time at which the spread along ``spike`` reaches ``threshold``, NaN if never: [I]."""
        return np.array([crossing_time(self.tau, s, threshold) for s in self.spread(spike)])

    def flags(self) -> list[str]:
        """One line for each flow that stopped early."""
        return [
            f"{self.model.label}, seed {i}: the integrator of the flow stopped early"
            for i in np.flatnonzero(~self.converged)
        ]
