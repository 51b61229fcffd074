"""Loss against time for softmax, softmax-1 and B-softmax, and the Bayes risk."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, ValidationInfo, field_validator

from hdattn.experiment import Experiment
from hdattn.fields import Count, Positive, physics, size
from hdattn.figures import _multihead, style, validation
from hdattn.figures._biases import bias_rows, biases, table_row
from hdattn.figures._cases import Case
from hdattn.figures._ensembles import Ensemble, FlowModel, Flows, ensemble
from hdattn.figures._multihead import ALL_NAMES, USUAL_SIGMA, MultiHead
from hdattn.figures._sizes import Dimension
from hdattn.figures._ticks import plain_ticks
from hdattn.figures._timed import TAU_MAX, TauMax, Timed
from hdattn.figures._trajectories import loss_windows
from hdattn.figures.drawing import Drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hdattn.store import Record

MODEL = "multihead"
TITLE = "Three activations: loss against time, and the Bayes risk"
SHARED = ("bayes", "*_softmax_*", "*_bayes_*")  # with staging

FLOW_STEPS = 2  # times of the flow between two records of SGD
BLOCK = 3  # gradient flows that one job does
ONE = "softmax1"  # the activation with an output scale


class Section(Timed, MultiHead, Ensemble):
    """Configuration of the figure."""

    known: ClassVar[Mapping[str, str]] = ALL_NAMES

    sigma: Positive = physics(0.1, "Initial weights are N(0, sigma^2 / dim).", usual=USUAL_SIGMA)
    tau_max: TauMax = size({"softmax": 200, "softmax1": 100, "bayes": 100}, TAU_MAX)
    records: Annotated[Count, Field(ge=5)] = size(41, "Times at which SGD is recorded.")
    dims: Annotated[tuple[Dimension, ...], Field(min_length=2)] = size(
        (250, 500), "Smaller dimensions D, at which SGD is compared with the flow as well."
    )
    tau_dims: TauMax = size(
        {"softmax": 60, "softmax1": 60, "bayes": 60},
        "Activations compared at the smaller dimensions, each with the time at which it ends.",
    )
    seeds: Annotated[Count, Field(ge=1)] = size(3, "Gradient flows of each activation.")
    tau_flow: Positive = size(6000, "Last time of the gradient flows.")

    @field_validator("tau_dims")
    @classmethod
    def _shown(cls, tau_dims: dict[str, float], info: ValidationInfo) -> dict[str, float]:
        missing = set(tau_dims) - set(info.data.get("tau_max", ALL_NAMES))
        if missing:
            raise ValueError(f"{min(missing)!r} is not in tau_max; name activations that are shown")
        return tau_dims

    @field_validator("dims")
    @classmethod
    def _smaller(cls, dims: tuple[int, ...], info: ValidationInfo) -> tuple[int, ...]:
        every = [*dims, info.data.get("dim", np.inf)]
        if any(b <= a for a, b in itertools.pairwise(every)):
            raise ValueError(f"{list(dims)} must increase, without repeats, and stay below dim")
        return dims

    @property
    def smallest_dim(self) -> int:
        """Smallest dimension that is simulated."""
        return self.dims[0]

    def at(self, dim: int) -> Section:
        """The same at dimension ``dim``."""
        return self.model_copy(update={"dim": dim})

    def sizes(self, name: str) -> tuple[int, ...]:
        """Dimensions at which SGD is run with an activation."""
        return (*self.dims, self.dim) if name in self.tau_dims else (self.dim,)

    def model(self, name: str) -> FlowModel:
        """Model of the gradient flows."""
        keys = ("tokens", "heads", "mean", "std")
        return FlowModel(activation=name, **{key: getattr(self, key) for key in keys})


def experiments(section: Section, seed: int) -> dict[str, list[Experiment]]:
    """SGD and flow at each dimension, both from the same initial weights; gradient flows."""
    roles = {"bayes": [_multihead.bayes(section)]}
    for dim in (*section.dims, section.dim):
        here = section.at(dim)
        data = _multihead.data_blocks(here, seed)
        last = section.tau_max if dim == section.dim else section.tau_dims
        for name, tau in last.items():
            times = FLOW_STEPS * (section.records - 1) + 1
            roles[f"sgd_{name}_{dim}"] = [
                _multihead.sgd(here, name, tau, section.records, d) for d in data
            ]
            roles[f"flow_{name}_{dim}"] = [_multihead.flow(here, name, tau, times, d) for d in data]
    for name in section.activations:
        sizes = {"seeds": section.seeds, "block_size": BLOCK, "losses": True, "end_loss": True}
        roles[f"gradient_{name}"] = ensemble(
            section, section.model(name), seed, section.tau_flow, **sizes
        )
    return roles


def draw(figure: Figure, records: dict[str, list[Record]], section: Section) -> Drawing:
    """Mean loss against time; deviation of SGD against D; b and c of softmax-1."""
    axes = style.panels(figure, 1, 3, width="double", height=2.6)
    drawing = Drawing([])
    cases = {
        (name, dim): _case(name, dim, records, section)
        for name in section.activations
        for dim in section.sizes(name)
    }
    for name in section.activations:
        model = section.model(name)
        gradient = Flows.merge(records[f"gradient_{name}"], model, section.seeds)
        drawing.table += _losses(axes[0], cases[name, section.dim], gradient)
        scan = [cases[name, dim] for dim in section.sizes(name)]
        if len(scan) > 1:
            drawing.table += _deviations(axes[1], scan)
        drawing.flagged += gradient.flags() + [flag for case in scan for flag in _flags(case)]
        drawing.validation += [row for case in scan for row in _validation(case)]
    _finish_losses(axes[0], cases[section.activations[0], section.dim].levels["bayes_risk"])
    if ONE in section.activations:
        gradient = records[f"gradient_{ONE}"][0].datasets
        drawing.table += biases(axes[2], cases[ONE, section.dim], gradient)
    _legend(figure, section)
    return drawing


def _case(name: str, dim: int, records: dict[str, list[Record]], section: Section) -> Case:
    chosen = {f"{kind}_{name}": records[f"{kind}_{name}_{dim}"] for kind in ("sgd", "flow")}
    return Case.read(name, chosen | {"bayes": records["bayes"]}, section.at(dim))


def _flags(case: Case) -> list[str]:
    return [f"D = {case.section.dim}: {flag}" for flag in case.flags()]


def _losses(axis: Axes, case: Case, gradient: Flows) -> Iterator[dict[str, Any]]:
    """Loss of SGD and its flow, means over runs, and of gradient flows to long times."""
    colour, dim = style.MEANING[case.activation], case.section.dim
    for i, loss in enumerate(gradient.loss):
        style.theory(axis, gradient.tau[1:], loss[1:], colour, linewidth=0.5, linestyle="--")
        for tau, value in zip(gradient.tau, loss, strict=True):
            yield table_row(case, "loss", "gradient flow", value, instance=i, tau=tau)
        end = gradient.end_loss[i]
        yield table_row(case, "loss by quadrature", "gradient flow", end, instance=i, tau=tau)
    flow = case.flow.loss[case.averaged].mean(axis=0)
    style.theory(axis, case.flow.tau[1:], flow[1:], colour)
    for tau, value in zip(case.flow.tau, flow, strict=True):
        yield table_row(case, "loss", "flow", value, dim=dim, tau=tau)
    edges = loss_windows(case.sgd.tau)
    middle = (edges[1:] + edges[:-1]) / 2
    mean, error = _mean(case.sgd.loss[case.averaged])
    look = {"method": "sgd", "markersize": 2.2, "flagged": np.full(len(mean), not _fine(case))}
    style.simulation(axis, middle, mean, error, colour, **look)
    for tau, value, bar in zip(middle, mean, error, strict=True):
        yield table_row(case, "loss", "sgd", value, dim=dim, tau=tau, standard_error=bar)


def _fine(case: Case) -> bool:
    return bool(case.reliable.all())


def _mean(runs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error over the first axis."""
    return np.transpose([validation.mean_and_error(column) for column in runs.T])


def _finish_losses(axis: Axes, risk: float) -> None:
    axis.axhline(risk, color=style.MEANING["bayes_risk"], linestyle="--", linewidth=1.0, zorder=4)
    axis.set(xscale="log", xlim=(1, None), ylabel="loss per sample")
    axis.set_xlabel(r"$\tau = \gamma\,\times$ samples$\,/D$")


def _deviations(axis: Axes, cases: list[Case]) -> Iterator[dict[str, Any]]:
    """Loss of SGD minus flow, mean over the times until the first split, against D."""
    dims = np.array([case.section.dim for case in cases])
    values, errors = np.transpose([validation.mean_and_error(_excess(case)) for case in cases])
    colour = style.MEANING[cases[0].activation]
    constant = np.sum(values / dims / errors**2) / np.sum((dims * errors) ** -2.0)
    x = np.geomspace(0.8 * dims[0], 1.25 * dims[-1], 20)
    style.theory(axis, x, constant / x, colour, linewidth=0.8, linestyle="--")
    for dim, value in zip(x, constant / x, strict=True):
        yield table_row(cases[0], "loss minus flow", "C/D, C fitted", value, dim=dim)
    look = {"method": "sgd", "flagged": [not _fine(case) for case in cases]}
    style.simulation(axis, dims, values, errors, colour, **look)
    axis.set(xscale="log", yscale="log", xlabel="$D$", ylabel="loss, SGD minus flow")
    plain_ticks(axis.xaxis, dims)
    for case, value, error in zip(cases, values, errors, strict=True):
        where = {"dim": case.section.dim, "standard_error": error}
        yield table_row(case, "loss minus flow", "sgd", value, **where)


def _excess(case: Case) -> np.ndarray:
    """Loss of each run minus that of its flow, mean over the records until the first split."""
    flow = case.flow.averages(case.flow.loss, loss_windows(case.sgd.tau))
    return (case.sgd.loss - flow)[case.averaged, : case.split + 1].mean(axis=1)


def _validation(case: Case) -> Iterator[dict[str, Any]]:
    """Theory against simulation until the first split, and b and c of softmax-1."""
    rows = [*case.validation("activations")]
    if case.activation == ONE:
        rows += bias_rows(case, "activations")
    for row in rows:
        yield row | {"point": f"{row['point']} D={case.section.dim}"}


def _legend(figure: Figure, section: Section) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=style.MEANING[name], label=ALL_NAMES[name])
        for name in section.activations
    ]
    grey = {"color": style.GREY}
    handles += [
        Line2D([], [], label=rf"flow, $\gamma={section.gamma:g}$", **grey),
        Line2D([], [], label=r"$\gamma\to 0$", linestyle="--", linewidth=0.6, **grey),
        Line2D([], [], label="SGD", linestyle="", marker="o", markersize=2.5, **grey),
        Line2D([], [], label="Bayes risk", linestyle="--", color=style.MEANING["bayes_risk"]),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
