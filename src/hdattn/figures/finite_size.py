"""Deviation of SGD from its flow against the dimension, with and without the gamma term."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field, ValidationInfo, field_validator

from hdattn.experiment import Experiment
from hdattn.fields import Count, Number, Positive, PositiveList, physics, size
from hdattn.figures import style, validation
from hdattn.figures._deviations import Deviation, Series, extrapolated
from hdattn.figures._multihead import NAMES, SobolPoints, Spreads, Vector
from hdattn.figures._sizes import Dimension, SizeScan, flow_of, sgd_blocks
from hdattn.figures._ticks import plain_ticks
from hdattn.figures._trajectories import Trajectories
from hdattn.figures.drawing import Drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hdattn.store import Record

MODEL = "multihead"
TITLE = "SGD deviates from the finite-gamma flow by 1/D, from gradient flow for good"

BATCH = 1  # steps of eta = gamma B / D are an error of order B / D in themselves: so it falls too
WITH, WITHOUT = style.BLUE, style.VERMILLION  # colours of the flow with and without its term
GAP = r"gap of the flows $+\;C/D$"


class Section(SizeScan):
    """Configuration of the figure."""

    tokens: Annotated[Count, Field(ge=2)] = physics(4, "Tokens L of a sequence.")
    heads: Count = physics(3, "Heads H.")
    mean: Vector = physics((1.0, 0.0), "Mean of the signal along each hidden spike.")
    std: Spreads = physics(
        (0.0, 2.5), "Size of the random sign along each hidden spike; 0 for a constant one."
    )
    activation: Literal["softmax", "bayes"] = physics("softmax", "softmax or bayes (B-softmax).")
    gamma: Positive = physics(2, "Learning-rate scale at which the dimension is varied.")
    gammas: PositiveList = size((1, 2, 4, 8), "Learning-rate scales at the dimension gamma_dim.")
    start_m: Annotated[tuple[tuple[Number, ...], ...], Field(min_length=2)] = physics(
        ((0.2, 0.3), (0.1, -0.3), (0.0, 0.1)), "Overlaps m_hf at the start, a row per head."
    )
    start_r_perp: Positive = physics(
        0.25, "Squared length of each head outside the spikes at the start, r = m m^T + this."
    )
    tau: Positive = physics(10, "Time gamma samples / dim at which SGD and flow are compared.")
    dims: Annotated[tuple[Dimension, ...], Field(min_length=2)] = size(
        (64, 128, 256, 512),
        "Dimensions D of SGD; validation judges all but the smallest, which sets its allowance.",
    )
    instances: Annotated[Count, Field(ge=3)] = size(
        300, "Independent runs at the largest dimension; as many times more as D is smaller."
    )
    gamma_dim: Dimension = size(128, "Dimension D at which gamma is varied.")
    records: Annotated[Count, Field(ge=5)] = size(21, "Times at which SGD and flow are recorded.")
    base_points: SobolPoints = size(
        16384, "Sobol points of the flow before symmetrisation, a power of two."
    )

    @field_validator("start_m")
    @classmethod
    def _fits(cls, rows: tuple[tuple[float, ...], ...], info: ValidationInfo) -> Any:
        heads, mean = info.data.get("heads"), info.data.get("mean")
        if heads is None or mean is None:
            return rows
        if len(rows) != heads or any(len(row) != len(mean) for row in rows):
            raise ValueError(f"give {heads} rows (heads) of {len(mean)} numbers (spikes)")
        return rows

    @property
    def start(self) -> dict[str, Any]:
        """Initial weights with the overlaps asked for."""
        m = np.array(self.start_m)
        r = m @ m.T + self.start_r_perp * np.eye(len(m))
        return {"kind": "order_parameters", "m": m.tolist(), "r": r.tolist()}


def experiments(section: Section, seed: int) -> dict[str, list[Experiment]]:
    """SGD against D at one gamma, and against gamma at one D; the flow at each gamma and at 0."""

    def sgd(dim: int, gamma: float) -> list[Experiment]:
        return sgd_blocks(section, seed, section.activation, dim, gamma, *times, batch=BATCH)

    times = (section.start, section.tau, section.records)
    roles = {f"dim_{dim}": sgd(dim, section.gamma) for dim in section.dims}
    for gamma in section.gammas:
        roles[f"gamma_{gamma:g}"] = sgd(section.gamma_dim, gamma)
    for gamma in sorted({0.0, section.gamma, *section.gammas}):
        roles[f"flow_{gamma:g}"] = [flow_of(section, seed, section.activation, gamma, *times)]
    return roles


def draw(figure: Figure, records: dict[str, list[Record]], section: Section) -> Drawing:
    """Head norm in time; its deviation from both flows against D, and against gamma."""
    series = {role: Series.of(Trajectories.merge(group)) for role, group in records.items()}

    def deviation(role: str, dim: int, gamma: float) -> Deviation:
        return Deviation(dim, gamma, series[role], series[f"flow_{gamma:g}"], series["flow_0"])

    by_dim = [deviation(f"dim_{dim}", dim, section.gamma) for dim in section.dims]
    by_gamma = [deviation(f"gamma_{g:g}", section.gamma_dim, g) for g in section.gammas]
    axes = style.panels(figure, 1, 3, width="double", height=2.4)
    _trajectories(axes[0], by_dim)
    table = [*_series_rows(by_dim), *_against_dim(axes[1], by_dim)]
    _against_gamma(axes[2], by_gamma)
    table += [*_rows("D", by_dim), *_rows("gamma", by_gamma)]
    flagged = [
        f"D = {d.dim}, gamma = {d.gamma:g}: a run diverged or its flow stopped"
        for d in by_dim + by_gamma
        if not _fine(d)
    ]
    return Drawing(table, list(_validation(by_dim, section)), flagged)


def _fine(deviation: Deviation) -> bool:
    return deviation.sgd.fine and deviation.flow.fine and deviation.gradient_flow.fine


def _trajectories(axis: Axes, deviations: Sequence[Deviation]) -> None:
    """Head norm against tau: both flows and SGD at each D."""
    last = deviations[-1]
    label = rf"flow, $\gamma = {last.gamma:g}$"
    style.theory(axis, last.flow.tau, last.flow.mean, WITH, label=label)
    bare = r"without $\gamma$ term"
    style.theory(axis, last.gradient_flow.tau, last.gradient_flow.mean, WITHOUT, label=bare)
    shades = np.linspace(0.75, 0.0, len(deviations))
    for d, shade in zip(deviations, shades, strict=True):
        hollow = np.full(len(d.sgd.tau), not _fine(d))
        look = {"method": "sgd", "markersize": 2.4, "label": rf"SGD, $D = {d.dim}$"}
        look["flagged"] = hollow
        style.simulation(axis, d.sgd.tau, d.sgd.mean, d.sgd.error, f"{shade:.2f}", **look)
    axis.set_xlabel(r"$\tau = \gamma\,\times$ samples$\,/D$")
    axis.set_ylabel(r"mean head norm $\frac{1}{H}\sum_h r_{hh}$")
    axis.legend(loc="upper left", fontsize=6.5)


def _against_dim(axis: Axes, deviations: Sequence[Deviation]) -> list[dict[str, Any]]:
    """Deviation at the last time against D; lines C / D and gap + C / D, with C fitted: rows."""
    dims = np.array([d.dim for d in deviations])
    fine_dims = np.geomspace(dims[0] / 1.3, dims[-1] * 1.3, 50)
    values, errors = np.transpose([d.with_term for d in deviations])
    constant = np.sum(values / dims / errors**2) / np.sum((dims * errors) ** -2.0)
    correction = constant / fine_dims
    look = {"linewidth": 0.8, "linestyle": "--"}
    lines = {
        "C/D": (np.abs(correction), WITH, "$C/D$"),
        "gap + C/D": (np.abs(deviations[0].gap + correction), WITHOUT, GAP),
    }
    rows = []
    for source, (values, colour, label) in lines.items():
        style.theory(axis, fine_dims, values, colour, label=label, **look)
        where = (deviations[0].gamma, deviations[0].sgd.tau[-1])
        rows += [
            _row("D, line", source, dim, *where, value, None, None)
            for dim, value in zip(fine_dims, values, strict=True)
        ]
    _markers(axis, dims, deviations)
    axis.set_ylim(bottom=axis.get_ylim()[0] / 4)  # room for the legend
    axis.set_xlabel("$D$")
    axis.set_ylabel(rf"SGD minus flow at $\tau = {deviations[0].sgd.tau[-1]:g}$")
    axis.legend(loc="lower left", fontsize=6.5)
    return rows


def _against_gamma(axis: Axes, deviations: Sequence[Deviation]) -> None:
    """Deviation at the last time against gamma; line: the gap between the flows."""
    gammas = np.array([d.gamma for d in deviations])
    gaps = np.abs([d.gap for d in deviations])
    style.theory(axis, gammas, gaps, style.BLACK, label="gap of the flows", linewidth=0.8)
    _markers(axis, gammas, deviations)
    axis.set_ylim(bottom=axis.get_ylim()[0] / 3)
    axis.set_xlabel(r"$\gamma$")
    axis.set_ylabel(rf"SGD minus flow, $D = {deviations[0].dim}$")
    axis.legend(loc="lower right", fontsize=6.5)


def _markers(axis: Axes, x: np.ndarray, deviations: Sequence[Deviation]) -> None:
    """Both deviations, without sign, on a double log scale."""
    cases = (
        ("with_term", WITH, "o", r"with $\gamma$ term"),
        ("without_term", WITHOUT, "s", "without"),
    )
    hollow = [not _fine(d) for d in deviations]
    for name, colour, marker, label in cases:
        values, errors = np.transpose([getattr(d, name) for d in deviations])
        look = {"fmt": marker, "label": label, "flagged": hollow}
        style.simulation(axis, x, np.abs(values), errors, colour, **look)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.yaxis.set_minor_formatter("")
    plain_ticks(axis.xaxis, x)


def _series_rows(deviations: Sequence[Deviation]) -> Iterator[dict[str, Any]]:
    """Rows of the first panel."""
    last = deviations[-1]
    drawn = [("flow", None, last.flow), ("gradient flow", None, last.gradient_flow)]
    drawn += [("sgd", d.dim, d.sgd) for d in deviations]
    for source, dim, series in drawn:
        for tau, mean, error in zip(series.tau, series.mean, series.error, strict=True):
            yield _row("tau", source, dim, last.gamma, tau, mean, error, series.runs)


def _rows(panel: str, deviations: Sequence[Deviation]) -> Iterator[dict[str, Any]]:
    """Rows of a panel of deviations."""
    for d in deviations:
        tau = d.sgd.tau[-1]
        for name, (value, error) in (("flow", d.with_term), ("gradient flow", d.without_term)):
            source = f"sgd minus {name}"
            yield _row(panel, source, d.dim, d.gamma, tau, value, error, d.sgd.runs)
        yield _row(panel, "flow minus gradient flow", d.dim, d.gamma, tau, d.gap, None, d.flow.runs)


def _row(*values: Any) -> dict[str, Any]:
    names = ("panel", "source", "dim", "gamma", "tau", "value", "standard_error", "runs")
    return dict(zip(names, values, strict=True))


def _validation(deviations: Sequence[Deviation], section: Section) -> Iterator[dict[str, Any]]:
    """Head norm at each D but the smallest, which sets the allowance, and for 1/D to 0."""
    theory = deviations[0].flow.mean[-1]
    value, error = deviations[0].with_term
    (constant,) = validation.allowance_constants(
        section.dims[0], [value / theory], [error / theory]
    )
    where = {"figure": "finite_size", "quantity": "head norm r_hh"}
    start = f"{NAMES[section.activation]} gamma={section.gamma:g}"
    for d in deviations[1:]:
        value, error = d.with_term
        comparison = (theory, theory + value, error, d.sgd.runs, constant, d.dim)
        fine = _fine(d) and _fine(deviations[0])
        yield validation.row(f"{start} D={d.dim}", *comparison, **where, reliable=fine)
    mean, error = extrapolated(deviations)
    error = float(np.hypot(error, deviations[-1].flow.error[-1]))
    runs, fine = deviations[-1].sgd.runs, all(map(_fine, deviations[-2:]))
    limit = (theory, mean, error, runs, 0.0, section.dims[-1])
    yield validation.row(f"{start} 1/D to 0", *limit, **where, reliable=fine)
