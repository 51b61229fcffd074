"""Panels of the multi-head paper."""

from __future__ import annotations

from hdattn.figures import style
from hdattn.overview.numbers import Numbers
from hdattn.overview.panel import Panel

NAMES = {"softmax": "softmax", "softmax1": "softmax-1", "bayes": "B-softmax"}
SPIKES = (style.BLACK, style.PURPLE, style.ORANGE)
HEADS = (style.GREEN, style.PURPLE, style.ORANGE)


def staging(panel: Panel, numbers: Numbers) -> None:
    """Overlaps of every head in one run with B-softmax: flow and SGD."""
    overlaps = numbers.where(activation="bayes", quantity="m")
    named = set()
    for (spike, head, source), curve in overlaps.by("spike", "head", "source"):
        series, colour = f"{source} head {head} spike {spike}", SPIKES[int(spike) % len(SPIKES)]
        if source == "sgd":
            panel.points(series, curve, "tau", "value", colour, method="sgd", markersize=1)
            continue
        label = None if spike in named else ("mean" if spike == "0" else f"spike {spike}")
        named.add(spike)
        panel.line(series, curve, "tau", "value", colour, linewidth=0.8, label=label)
    panel.axis.set(xlabel=r"time $\tau$", ylabel=r"overlaps $m_{hf}$")
    panel.axis.set_title("heads split in stages")
    panel.headroom(0.3)
    panel.axis.legend(loc="upper left", ncols=2, columnspacing=1)


def escape_time(panel: Panel, numbers: Numbers) -> None:
    """Time to leave the plateau against D: flow and SGD."""
    for (name,), rows in numbers.where(quantity="escape").by("activation"):
        colour = style.MEANING[name]
        flow, sgd = rows.where(source="flow, gamma to 0"), rows.where(source="sgd")
        panel.line(f"{name} flow", flow, "dim", "value", colour, label=NAMES[name])
        panel.points(f"{name} SGD", sgd, "dim", "value", colour, method="sgd")
    panel.axis.set(xscale="log", xlabel="$D$", ylabel=r"time to leave, $\tau$")
    panel.axis.set_ylim(bottom=0)
    panel.axis.set_title(r"the plateau lasts $\log D$")
    panel.axis.legend(loc="upper left")


def stability(panel: Panel, numbers: Numbers) -> None:
    """Growth rates at the plateau against the variance of each direction, B-softmax."""
    chosen = numbers.where(panel="variance", activation="bayes")
    for ((heads,), rows), colour in zip(chosen.by("heads"), HEADS, strict=False):
        closed, found = (rows.where(source=s) for s in ("closed form", "Hessian by autograd"))
        name = f"$H={heads}$"
        panel.line(f"H={heads} closed form", closed, "variance", "value", colour, label=name)
        panel.points(f"H={heads} Hessian", found, "variance", "value", colour, method="lbfgs")
    panel.axis.set(xlabel=r"variance $\omega_f^2$", ylabel=r"growth rate $-\lambda_f$")
    panel.axis.set_title(r"growth rate $\propto\omega_f^2/H$")
    panel.axis.legend(loc="upper left")


def heads(panel: Panel, numbers: Numbers) -> None:
    """Best loss against the number of heads."""
    _losses(panel, numbers, "heads")
    panel.axis.set(xlabel="heads $H$", ylabel="best loss")
    panel.axis.set_title("B-softmax reaches Bayes")
    panel.headroom(0.25)
    panel.axis.legend(loc="upper right")


def signal(panel: Panel, numbers: Numbers) -> None:
    """Best loss against the strength of the signal."""
    _losses(panel, numbers, "strength")
    panel.axis.set(xlabel="signal strength", ylabel="best loss", ylim=(0, None))
    panel.axis.set_title("and at every strength")


def _losses(panel: Panel, numbers: Numbers, x: str) -> None:
    rows = numbers.where(panel="flipping", quantity="best loss")
    for (name,), curve in rows.by("activation"):
        panel.line(name, curve, x, "value", style.MEANING[name], label=NAMES[name])
    bound = {"label": "Bayes risk", "linestyle": "--", "linewidth": 0.9, "zorder": 4}
    colour = style.MEANING["bayes_risk"]
    panel.line("bayes risk", curve, x, "bayes_risk", colour, **bound)


def pruning(panel: Panel, numbers: Numbers) -> None:
    """Loss against the heads removed, in the last case of the figure."""
    *_, (_, rows) = numbers.by("panel")
    protocols = {"softmax": "renormalised", "softmax1": "renormalised", "bayes": "joint"}
    for name, protocol in protocols.items():
        curve = rows.where(quantity="loss", activation=name, protocol=protocol, instance="0")
        panel.line(name, curve, "removed", "value", style.MEANING[name])
    panel.level("bayes risk", rows.where(quantity="bayes risk").column("value")[0])
    panel.axis.set(xlabel="heads removed", ylabel="loss")
    panel.axis.set_title("spare heads can go")
