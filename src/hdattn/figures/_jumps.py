"""Times at which directions are learnt, and their order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hdattn.figures import style
from hdattn.figures._cases import Case
from hdattn.figures._ensembles import Flows
from hdattn.figures._ticks import plain_ticks
from hdattn.multihead.escape import crossing_time, head_spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

CASES = ("flipping", "softmax", "gaussian")
COLOURS = dict(zip(CASES, (style.VERMILLION, style.BLUE, style.GREEN), strict=True))


@dataclass(frozen=True)
class Jump:
    """When one seed learns one direction; NaN if it did not."""

    case: str
    source: str
    instance: int
    spike: int
    std: float
    tau: float

    def row(self) -> dict[str, Any]:
        """Row of the table."""
        where = {"case": self.case, "source": self.source, "quantity": "jump"}
        return (
            where
            | {"instance": self.instance, "spike": self.spike}
            | {
                "tau": self.tau,
                "value": self.std**2,
            }
        )


def flow_jumps(cases: dict[str, Flows], threshold: float) -> Iterator[Jump]:
    for name, flows in cases.items():
        for spike in flows.flipping:
            for i, tau in enumerate(flows.jumps(spike, threshold)):
                yield Jump(name, "flow", i, spike, flows.model.std[spike], float(tau))


def sgd_jumps(case: Case, threshold: float) -> Iterator[Jump]:
    for spike in map(int, case.flipping):
        spread = head_spread(case.sgd.m, spike)
        for number, values in zip(map(int, case.sgd.instance), spread, strict=True):
            tau = crossing_time(case.sgd.tau, values, threshold)
            yield Jump("flipping", "sgd", number, spike, case.section.std[spike], tau)


def times(axis: Axes, cases: dict[str, Flows], jumps: list[Jump], threshold: float) -> None:
    """Time of each jump of the flows against omega^2: geometric mean over seeds, and each seed."""
    for name, flows in cases.items():
        squares = np.array([flows.model.std[f] ** 2 for f in flows.flipping])
        times = np.array([flows.jumps(f, threshold) for f in flows.flipping])
        known = np.isfinite(times).all(axis=1)
        mean = np.exp(np.log(times[known]).mean(axis=1))
        style.theory(axis, squares[known], mean, COLOURS[name])
    for jump in jumps:
        if jump.source == "flow":
            look = {"marker": "o", "markersize": 2, "linestyle": "", "alpha": 0.7}
            axis.plot(jump.std**2, jump.tau, color=COLOURS[jump.case], **look)
    axis.set_yscale("log")
    _decades(axis.yaxis)
    axis.set_xlabel(r"$\omega_f^2$")
    axis.set_ylabel(r"time at which $f$ is learnt")


def _decades(axis: Axis) -> None:
    """Labels at powers of ten alone, of times between 10 and 10^4."""
    low, high = np.log10(axis.get_view_interval())
    plain_ticks(axis, [10.0**k for k in np.arange(np.ceil(low), np.floor(high) + 1)])


def consecutive(jumps: list[Jump]) -> list[tuple[Jump, Jump]]:
    """Pairs (stronger, next weaker) of the directions of one run of which the weaker is learnt.

    The stronger one has the time NaN where it is not learnt: then the order is broken.
    """
    ordered = sorted(jumps, key=lambda j: (j.case, j.source, j.instance, -j.std, j.spike))
    pairs = itertools.pairwise(ordered)
    same = ((a, b) for a, b in pairs if _seed(a) == _seed(b) and a.std > b.std)
    return [(a, b) for a, b in same if np.isfinite(b.tau)]


def _seed(jump: Jump) -> tuple[str, str, int]:
    return jump.case, jump.source, jump.instance


def order(axis: Axes, jumps: list[Jump]) -> None:
    """Time of the weaker direction against that of the stronger one: all above the diagonal."""
    pairs = consecutive(jumps)
    for strong, weak in pairs:
        filled = COLOURS[strong.case] if strong.source == "flow" else style.BLACK
        marker = "o" if strong.source == "flow" else "s"
        look = {"color": filled, "marker": marker, "markersize": 2.5, "linestyle": ""}
        axis.plot(strong.tau, weak.tau, **look)
    known = [jump.tau for pair in pairs for jump in pair if np.isfinite(jump.tau)]
    low, high = 0.7 * min(known, default=1), 1.5 * max(known, default=10)
    axis.plot([low, high], [low, high], color=style.GREY, linewidth=0.7, linestyle="--", zorder=0)
    axis.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
    for side in (axis.xaxis, axis.yaxis):
        _decades(side)
    axis.set_xlabel(r"time of the stronger direction")
    axis.set_ylabel(r"time of the next weaker one")
    first = sum(weak.tau > strong.tau for strong, weak in pairs)
    note = f"stronger first:\n{first} of {len(pairs)} pairs"
    axis.annotate(note, (0.96, 0.06), xycoords="axes fraction", ha="right", fontsize=6.5)
