"""One case of the figure pruning, its records, and the rows of its table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hdattn.figures._activation_names import label

if TYPE_CHECKING:
    from hdattn.store import Record

SLACK = 1e-6  # of the Bayes risk's own quadrature


@dataclass(frozen=True)
class Panel:
    """One case: its place in the records, the spikes and the number of heads."""

    number: int
    mu: float
    spread: tuple[float, ...]
    heads: int

    @property
    def name(self) -> str:
        """For tables."""
        return f"omega={','.join(f'{omega:g}' for omega in self.spread)} H={self.heads}"

    @property
    def support(self) -> int:
        """Number of signals, 2^(number of random signs)."""
        return 2 ** len(self.spread)

    @property
    def case(self) -> dict[str, Any]:
        """As the step takes it."""
        mean = [self.mu, *[0] * len(self.spread)]
        prior = {"kind": "flip", "mean": mean, "std": [0, *self.spread]}
        return {"prior": prior, "heads": self.heads}


def row(panel, quantity, activation, protocol, instance, value, **where) -> dict[str, Any]:
    """Row of the table; ``where`` may hold removed, error, c, kept, method and flagged."""
    start = {"panel": panel.name, "quantity": quantity, "activation": activation}
    start |= {"protocol": protocol, "instance": instance, "value": value}
    places = ("removed", "error", "c", "kept", "method", "flagged")
    return start | {key: where.get(key) for key in places}


def gather(records: list[Record], name: str, panel: Panel, protocol: int) -> np.ndarray:
    """Values of one panel and protocol, [seed, removed(, head)]."""
    blocks = [record.datasets[name][panel.number, :, protocol] for record in records]
    return np.concatenate(blocks)[:, : panel.heads]


def method(records: list[Record], panel: Panel) -> str:
    """How the subsets of a panel were found: exhaustive or greedy."""
    return records[0].attributes["method"][panel.number]


def rows(panel, activation, protocol, number, records) -> Iterator[dict[str, Any]]:
    """Rows of one curve, seed by seed."""
    names = ("loss", "increase", "loss_error", "scale", "kept")
    found = {name: gather(records, name, panel, number) for name in names}
    seeds = np.concatenate([record.datasets["instance"] for record in records])
    for place in np.ndindex(found["loss"].shape):
        kept = " ".join(map(str, np.flatnonzero(found["kept"][place] == 1)))
        where = {"removed": place[1], "error": found["loss_error"][place]}
        where |= {"c": found["scale"][place], "kept": kept, "method": method(records, panel)}
        where["flagged"] = not reached(panel, records)
        start = (activation, protocol, int(seeds[place[0]]))
        for quantity in ("loss", "increase"):
            yield row(panel, quantity, *start, found[quantity][place], **where)


def impossible(panel: Panel, activation: str, records: list[Record], risk: float) -> Iterator[str]:
    """Losses below the Bayes risk, which no error allows."""
    for record in records:
        data = record.datasets
        slack = data["loss"][panel.number] + data["loss_error"][panel.number] - risk
        if np.nanmin(slack) < -SLACK:
            yield f"{label(activation)}, {panel.name}: {-np.nanmin(slack):.1e} below the Bayes risk"


def reached(panel: Panel, records: list[Record]) -> bool:
    """Whether the flows of all seeds reached their last time."""
    return all(record.datasets["converged"][panel.number].all() for record in records)


def doubts(panels: list[Panel], activation: str, records: list[Record]) -> Iterator[str]:
    """What the step doubts, and flows that stopped early."""
    for record in records:
        yield from (f"{label(activation)}, {message}" for message in record.messages)
        for panel in panels:
            if not reached(panel, [record]):
                yield f"{label(activation)}, {panel.name}: the integrator stopped early"
