"""Softmax heads split in two groups of equal size, and a second time only much later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field, ValidationInfo, field_validator

from hdattn.errors import UserError
from hdattn.experiment import Experiment
from hdattn.fields import Count, Positive, physics, size
from hdattn.figures import style
from hdattn.figures._ensembles import Ensemble, FlowModel, Flows, ensemble
from hdattn.figures._multihead import SobolPoints
from hdattn.figures._planes import plane, second
from hdattn.figures._splits import checked, histogram, statistics, trajectories
from hdattn.figures.drawing import Drawing
from hdattn.multihead.splitting import split_statistics

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hdattn.store import Record

MODEL = "multihead"
TITLE = "Heads split evenly in the end, and a second time only much later"

PLANES = ("axes", "corners")
SEEDS_BLOCK, PLANE_BLOCK = 10, 2  # flows that one job does


class Section(Ensemble):
    """Configuration of the figure."""

    single: FlowModel = physics(
        FlowModel(mean=(0.8, 0), std=(0, 2)), "Heads on one direction; their number is heads."
    )
    heads: Annotated[tuple[Count, ...], Field(min_length=1, max_length=3)] = physics(
        (4, 6), "Numbers of heads H on one direction, a panel each for the first two."
    )
    axes: FlowModel = physics(FlowModel(), "Heads on two comparable directions.")
    corners: FlowModel = physics(
        FlowModel(tokens=10, mean=(0.5, 0, 0), std=(0, 2, 1)), "Heads on a strong and a weak one."
    )
    threshold: Positive = physics(0.5, "Heads are split when half the range of m_hf reaches this.")
    seeds: Annotated[Count, Field(ge=2)] = size(20, "Seeds of the flows on one direction.")
    tau_single: Positive = size(3000, "Last time of the flows on one direction.")
    plane_seeds: dict[str, Count] = size(
        {"axes": 8, "corners": 4}, "Seeds of the flows on two directions."
    )
    plane_points: dict[str, SobolPoints] = size(
        {"axes": 4096, "corners": 16384},
        "Sobol points in all of the flows on two directions, whose long second split needs more.",
    )
    tau_plane: Positive = size(6000, "Last time of the flows on two directions.")
    check_points: SobolPoints = size(65536, "Points in all of one flow that checks the few.")
    starts: Count = size(3, "Starts of the search for an optimum.")
    optimum_points: SobolPoints = size(4096, "Base points of that search.")

    @field_validator("heads")
    @classmethod
    def _even(cls, heads: tuple[int, ...]) -> tuple[int, ...]:
        if min(heads) < 2 or any(h % 2 for h in heads):
            raise ValueError(f"{list(heads)} will not do; give even numbers of heads, at least 2")
        return heads

    @field_validator("single", "axes", "corners")
    @classmethod
    def _softmax(cls, model: FlowModel, info: ValidationInfo) -> FlowModel:
        if model.activation != "softmax" or model.tokens == 2:
            raise ValueError(
                "the figure is about softmax heads on 3 tokens or more (with 2 their growth rate "
                "vanishes and nothing splits); set activation: softmax and tokens: 3 or more"
            )
        if info.field_name != "single" and np.count_nonzero(model.std) != 2:
            raise ValueError("two entries of std must be positive: a plane is drawn")
        return model

    @field_validator("plane_seeds", "plane_points")
    @classmethod
    def _complete(cls, value: dict[str, int]) -> dict[str, int]:
        if set(value) != set(PLANES):
            raise ValueError(f"{value} will not do; map each of {', '.join(PLANES)} to a number")
        return value

    def counted(self) -> list[FlowModel]:
        """Models on one direction, one for each number of heads."""
        return [self.single.model_copy(update={"heads": heads}) for heads in self.heads]


def experiments(section: Section, seed: int) -> dict[str, list[Experiment]]:
    """Flows of many seeds, one of them on more points, and optima with and without second split."""
    roles = {}
    for model in section.counted():
        sizes = {"seeds": section.seeds, "block_size": SEEDS_BLOCK}
        roles[f"single_{model.heads}"] = ensemble(section, model, seed, section.tau_single, **sizes)
    for name in PLANES:
        model, points = getattr(section, name), section.plane_points[name]
        sizes = {"seeds": section.plane_seeds[name], "block_size": PLANE_BLOCK}
        roles[name] = ensemble(
            section, model, seed, section.tau_plane, points=points, end_loss=True, **sizes
        )
        weak = int(np.argsort(model.std)[-2])
        roles[f"optimum_{name}"] = [_optimum(section, model, seed, h) for h in ([], [weak])]
    roles["check"] = ensemble(
        section,
        section.counted()[0],
        seed,
        section.tau_single,
        seeds=1,
        block_size=1,
        points=section.check_points,
    )
    return roles


def _optimum(section: Section, model: FlowModel, seed: int, held: list[int]) -> Experiment:
    if model.heads < 2:
        raise UserError("heads: one head cannot split; give at least 2")
    parameters = {"activation": model.activation, "tokens": model.tokens, "prior": model.prior}
    sizes = {"starts": section.starts, "base_points": section.optimum_points, "seed": seed}
    return Experiment(
        "multihead/optimum",
        parameters | sizes | {"heads": model.heads, "held": held},
        slug=f"{model.activation}-H{model.heads}-L{model.tokens}",
    )


def draw(figure: Figure, records: dict[str, list[Record]], section: Section) -> Drawing:
    """Trajectories on one direction, head counts; two planes, and the time of the second split."""
    axes = style.panels(figure, 2, 3, width="double", height=4.4)
    drawing = Drawing([])
    singles = [
        Flows.merge(records[f"single_{model.heads}"], model, section.seeds)
        for model in section.counted()
    ]
    stats = [split_statistics(s.tau, s.m, s.flipping[0], section.threshold) for s in singles]
    check = Flows.merge(records["check"], singles[0].model, 1)
    for axis, flows, found in zip(axes, singles, stats, strict=False):
        drawing.table += trajectories(axis, flows, found)
    drawing.table += checked(axes[0], check)
    for flows, found in zip(singles, stats, strict=True):
        drawing.table += statistics(flows, found)
    histogram(axes[2], singles, stats)
    planes = {
        name: Flows.merge(records[name], getattr(section, name), section.plane_seeds[name])
        for name in PLANES
    }
    for axis, (name, flows) in zip(axes[3:], planes.items(), strict=False):
        drawing.table += plane(axis, name, flows, records[f"optimum_{name}"])
    drawing.table += second(axes[5], planes)
    every = (*singles, *planes.values(), check)
    drawing.flagged += [flag for flows in every for flag in flows.flags()]
    drawing.flagged += [
        f"optimum of {name}: {message}"
        for name in PLANES
        for record in records[f"optimum_{name}"]
        for message in record.messages
    ]
    return drawing
