"""Softmax heads split in two groups of equal size, and a second time only much later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field, ValidationInfo, field_validator

from hdattn.errors import UserError
from hdattn.experiment import Experiment
from hdattn.fields import Count, Positive, physics, size
from hdattn.figures import style
from hdattn.figures._ensembles import Ensemble, FlowModel, Flows, ensemble
from hdattn.figures._multihead import SobolPoints
from hdattn.figures.drawing import Drawing
from hdattn.multihead.splitting import SplitStatistics, split_statistics

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hdattn.store import Record

MODEL = "multihead"
TITLE = "Heads split evenly in the end, and a second time only much later"

PLANES = ("axes", "corners")
COLOURS = {"axes": style.BLUE, "corners": style.VERMILLION}
SEEDS_BLOCK, PLANE_BLOCK = 10, 2  # flows that one job does
OPTIMUM_SECONDS = 60


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
        resources={"mem_mb": 800, "seconds": OPTIMUM_SECONDS},
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
        drawing.table += _trajectories(axis, flows, found)
    _checked(axes[0], check)
    for flows, found in zip(singles, stats, strict=True):
        drawing.table += _statistics(flows, found)
    _histogram(axes[2], singles, stats)
    planes = {
        name: Flows.merge(records[name], getattr(section, name), section.plane_seeds[name])
        for name in PLANES
    }
    for axis, (name, flows) in zip(axes[3:], planes.items(), strict=False):
        drawing.table += _plane(axis, name, flows, records[f"optimum_{name}"])
    drawing.table += _second(axes[5], planes)
    drawing.flagged += [flag for flows in (*singles, *planes.values()) for flag in flows.flags()]
    drawing.flagged += [
        f"optimum of {name}: {message}"
        for name in PLANES
        for record in records[f"optimum_{name}"]
        for message in record.messages
    ]
    return drawing


def _row(case: str, quantity: str, value: float, **where: Any) -> dict[str, Any]:
    places = {key: where.get(key) for key in ("instance", "head", "spike", "tau")}
    return {"case": case, "quantity": quantity, **places, "value": value}


def _name(flows: Flows) -> str:
    return f"L{flows.model.tokens} H{flows.model.heads}"


def _trajectories(axis: Axes, flows: Flows, found: SplitStatistics) -> list[dict[str, Any]]:
    """m_h1 of all heads and seeds in grey; the seed of the largest excursion in colour."""
    spike, rows = flows.flipping[0], []
    seed, head = np.unravel_index(np.argmax(found.excursion), found.excursion.shape)
    for i, trajectory in enumerate(flows.m[..., spike]):
        for h, values in enumerate(trajectory.T):
            wanderer = i == seed and h == head
            colour = style.VERMILLION if wanderer else style.BLUE if i == seed else style.LIGHT_GREY
            look = {"linewidth": 1.4 if wanderer else 0.9 if i == seed else 0.4}
            look["zorder"] = 4 if wanderer else 3 if i == seed else 1
            style.theory(axis, flows.tau, values, colour, **look)
            place = {"instance": i, "head": h, "spike": spike}
            rows += [
                _row(_name(flows), "m", v, tau=t, **place)
                for t, v in zip(flows.tau, values, strict=True)
            ]
    axis.set(xscale="log", xlim=(10, flows.tau[-1]))
    axis.set_xlabel(r"$\tau$")
    axis.set_ylabel(rf"$m_{{h{spike}}}$")
    note = f"$H={flows.model.heads}$, excursion {found.excursion.max():.2f}"
    axis.set_title(note, fontsize=7.5, pad=3)
    return rows


def _checked(axis: Axes, check: Flows) -> None:
    """One flow on many points, dashed, on that of the same seed on few."""
    look = {"color": style.BLACK, "linewidth": 0.6, "linestyle": "--", "zorder": 5}
    axis.plot(check.tau, check.m[0, :, :, check.flipping[0]], **look)


def _statistics(flows: Flows, found: SplitStatistics) -> Iterator[dict[str, Any]]:
    name = _name(flows)
    yield _row(name, "fraction even, early", found.early_even)
    yield _row(name, "fraction even, late", found.late_even)
    for i, excursion in enumerate(found.excursion.max(axis=1)):
        yield _row(name, "largest excursion", excursion, instance=i)
        yield _row(name, "split time", found.split_time[i], instance=i)
        for when in ("early", "late"):
            for side, count in zip("+-", getattr(found, when)[i], strict=True):
                yield _row(name, f"heads {side}, {when}", count, instance=i)


def _histogram(axis: Axes, singles: list[Flows], stats: list[SplitStatistics]) -> None:
    """How often the heads are in groups of these sizes: at the first split, and at the end."""
    labels, early, late, x = [], [], [], []
    place = 0.0
    for flows, found in zip(singles, stats, strict=True):
        counts = [
            Counter(tuple(sorted(map(int, row), reverse=True)) for row in rows)
            for rows in (found.early, found.late)
        ]
        for key in sorted(set(counts[0]) | set(counts[1]), reverse=True):
            labels.append(f"{key[0]},{key[1]}")
            early.append(counts[0][key] / len(flows.m))
            late.append(counts[1][key] / len(flows.m))
            x.append(place)
            place += 1
        axis.annotate(
            f"$H={flows.model.heads}$",
            (place - 0.5 - len(set(counts[0]) | set(counts[1])) / 2, 1.08),
            ha="center",
            fontsize=7,
        )
        place += 0.7
    positions = np.array(x)
    axis.bar(positions - 0.2, early, 0.4, color=style.LIGHT_GREY, label="at the split")
    axis.bar(positions + 0.2, late, 0.4, color=style.BLUE, label="at the end")
    axis.set_xticks(positions, labels, fontsize=6, rotation=60)
    axis.set_ylim(0, 1.25)
    axis.set_yticks([0, 0.5, 1])
    axis.set_xlabel("sizes of the two groups")
    axis.set_ylabel("fraction of seeds")
    axis.legend(fontsize=6, loc="center right", bbox_to_anchor=(1.0, 0.65))


def _plane(axis: Axes, name: str, flows: Flows, optima: list[Record]) -> Iterator[dict[str, Any]]:
    """Overlaps with both directions: paths and end points of the flows, and the optimum.

    Heads may change sign and place together, so all are drawn up to the signs: the optimum with
    its mirror images.
    """
    first, second = flows.flipping
    for i, path in enumerate(flows.m):
        for h in range(path.shape[1]):
            points = path[:, h, first], path[:, h, second]
            axis.plot(*points, color=style.LIGHT_GREY, linewidth=0.5, zorder=1)
            end = [values[-1] for values in points]
            axis.plot(*end, marker="o", markersize=3, color=COLOURS[name], linestyle="", zorder=3)
            for spike, value in zip((first, second), end, strict=True):
                place = {"instance": i, "head": h, "spike": spike}
                yield _row(name, "end of the flow", value, tau=flows.tau[-1], **place)
        yield _row(name, "loss at the end", flows.end_loss[i], tau=flows.tau[-1], instance=i)
    yield from _optima(axis, name, (first, second), optima)
    axis.set(xlabel=rf"$m_{{h{first}}}$", ylabel=rf"$m_{{h{second}}}$")
    omega = ", ".join(f"{flows.model.std[f]:g}" for f in (first, second))
    axis.set_title(rf"$L={flows.model.tokens}$, $\omega=({omega})$", fontsize=7.5, pad=3)


def _optima(axis: Axes, name: str, plane: tuple[int, int], optima: list[Record]):
    """Stars at the optimum, crosses at the best without a second split; their losses."""
    looks = ({"marker": "*", "markersize": 8}, {"marker": "x", "markersize": 5})
    lines = []
    for look, record, label in zip(looks, optima, ("best", "one split"), strict=True):
        m = record.datasets["m"][:, list(plane)]
        axis.plot(*m.T, linestyle="", color=style.BLACK, markerfacecolor="none", zorder=4, **look)
        loss = float(record.datasets["loss"])
        lines.append(f"{label} {loss:.6f}")
        yield _row(name, f"loss, {label}", loss)
        for h, overlaps in enumerate(record.datasets["m"]):
            for spike, value in enumerate(overlaps):
                yield _row(name, f"m, {label}", value, head=h, spike=spike)
    low, high = axis.get_ylim()
    axis.set_ylim(low, high + 0.35 * (high - low))
    note = {"xycoords": "axes fraction", "ha": "center", "va": "top", "fontsize": 6.5}
    axis.annotate("\n".join(lines), (0.5, 0.98), **note)


def _second(axis: Axes, planes: dict[str, Flows]) -> Iterator[dict[str, Any]]:
    """Spread along both directions against time: the second split comes much later."""
    for name, flows in planes.items():
        for number, spike in enumerate(flows.flipping):
            for i, spread in enumerate(flows.spread(spike)):
                label = None
                if i == 0:
                    omega = rf"$\omega_{spike}={flows.model.std[spike]:g}$"
                    label = f"$L={flows.model.tokens}$, {omega}"
                look = {"linewidth": 0.8, "linestyle": "--" if number else "-", "label": label}
                style.theory(axis, flows.tau[1:], spread[1:], COLOURS[name], **look)
                for t, value in zip(flows.tau, spread, strict=True):
                    yield _row(name, "spread", value, instance=i, spike=spike, tau=t)
    axis.set(xscale="log", yscale="log", xlim=(1, max(f.tau[-1] for f in planes.values())))
    axis.set_ylim(1e-6, 100)
    axis.set_xlabel(r"$\tau$")
    axis.set_ylabel("head spread")
    axis.legend(fontsize=6, loc="upper left")
