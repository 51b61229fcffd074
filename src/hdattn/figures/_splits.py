"""Panels of splits along one direction: trajectories of many seeds, and sizes of the groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from hdattn.figures import style
from hdattn.figures._ensembles import Flows
from hdattn.multihead.splitting import SplitStatistics

if TYPE_CHECKING:
    from matplotlib.axes import Axes


NOTABLE = 0.02  # a smaller excursion is not shown


def row(case: str, quantity: str, value: float, **where: Any) -> dict[str, Any]:
    places = {key: where.get(key) for key in ("instance", "head", "spike", "tau")}
    return {"case": case, "quantity": quantity, **places, "value": value}


def _case(flows: Flows) -> str:
    return f"L{flows.model.tokens} H{flows.model.heads}"


def trajectories(axis: Axes, flows: Flows, found: SplitStatistics) -> list[dict[str, Any]]:
    """m_h1 of all heads and seeds in grey; the seed of the largest excursion, if any, in colour."""
    spike, rows = flows.flipping[0], []
    seed, head = np.unravel_index(np.argmax(found.excursion), found.excursion.shape)
    for i, trajectory in enumerate(flows.m[..., spike]):
        for h, values in enumerate(trajectory.T):
            wanderer = i == seed and h == head and found.excursion.max() > NOTABLE
            colour = style.VERMILLION if wanderer else style.BLUE if i == seed else style.LIGHT_GREY
            look = {"linewidth": 1.4 if wanderer else 0.9 if i == seed else 0.4}
            look["zorder"] = 4 if wanderer else 3 if i == seed else 1
            style.theory(axis, flows.tau, values, colour, **look)
            place = {"instance": i, "head": h, "spike": spike}
            rows += [
                row(_case(flows), "m", v, tau=t, **place)
                for t, v in zip(flows.tau, values, strict=True)
            ]
    axis.set(xscale="log", xlim=(10, flows.tau[-1]))
    axis.set_xlabel(r"$\tau$")
    axis.set_ylabel(rf"$m_{{h{spike}}}$")
    note = f"$H={flows.model.heads}$, excursion {found.excursion.max():.2f}"
    axis.set_title(note, fontsize=7.5, pad=3)
    return rows


def checked(axis: Axes, check: Flows) -> Iterator[dict[str, Any]]:
    """One flow on many points, dashed, on that of the same seed on few."""
    spike, look = check.flipping[0], {"linewidth": 0.6, "linestyle": "--", "zorder": 5}
    for h, values in enumerate(check.m[0, :, :, spike].T):
        style.theory(axis, check.tau, values, style.BLACK, **look)
        place = {"instance": 0, "head": h, "spike": spike}
        for t, value in zip(check.tau, values, strict=True):
            yield row(_case(check), "m, on many points", value, tau=t, **place)


def statistics(flows: Flows, found: SplitStatistics) -> Iterator[dict[str, Any]]:
    name = _case(flows)
    yield row(name, "fraction even, early", found.early_even)
    yield row(name, "fraction even, late", found.late_even)
    for i, excursion in enumerate(found.excursion.max(axis=1)):
        yield row(name, "largest excursion", excursion, instance=i)
        yield row(name, "split time", found.split_time[i], instance=i)
        for when in ("early", "late"):
            for side, count in zip("+-", getattr(found, when)[i], strict=True):
                yield row(name, f"heads {side}, {when}", count, instance=i)


def histogram(axis: Axes, singles: list[Flows], stats: list[SplitStatistics]) -> None:
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
            (place - 0.5 - len(set(counts[0]) | set(counts[1])) / 2, 1.04),
            ha="center",
            fontsize=7,
        )
        place += 0.7
    positions = np.array(x)
    axis.bar(positions - 0.2, early, 0.4, color=style.LIGHT_GREY, label="at the split")
    axis.bar(positions + 0.2, late, 0.4, color=style.BLUE, label="at the end")
    axis.set_xticks(positions, labels, fontsize=6, rotation=60)
    axis.set_ylim(0, 1.4)
    axis.set_yticks([0, 0.5, 1])
    axis.set_xlabel("sizes of the two groups")
    axis.set_ylabel("fraction of seeds")
    axis.legend(fontsize=6.5, loc="upper center", ncols=2)
