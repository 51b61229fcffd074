"""Message passing with both denoisers beside its theory, and the panels that show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hdattn.figures import style
from hdattn.figures._amp import Pair, Passed, statistics
from hdattn.figures._curves import add_rows
from hdattn.figures._ensemble import complaints_at, theory_flags, theory_values
from hdattn.figures.drawing import Drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hdattn.figures.bayes import Section
    from hdattn.store import Record

LOOK = {"soft": (style.BLUE, "soft threshold"), "bayes": (style.VERMILLION, "Bayes denoiser")}
ERM, OPTIMAL = (style.BLUE, r"trained, best $\lambda$"), (style.VERMILLION, "Bayes-optimal")


class Comparison:
    """Message passing with both denoisers on one ensemble, and the theory of its targets.

    Values are [instance, alpha] by denoiser and quantity (test_error, overlap_error).
    """

    def __init__(self, records: dict[str, list[Record]], prefix: str):
        self.soft = Passed(records[f"{prefix}soft"], records[f"{prefix}soft own"])
        self.bayes = Passed(records[f"{prefix}bayes"], records[f"{prefix}bayes own"])
        self.alphas = self.soft.runs[0].datasets["alpha"]
        self.dim, self.instances = self.soft.dim, self.soft.instances

    def simulation(self, denoiser: str, quantity: str) -> np.ndarray:
        """What message passing ended with."""
        passed = getattr(self, denoiser)
        if quantity == "test_error":
            return passed.simulation(quantity)
        Q, M = (passed.simulation(name)[:, :, -1] for name in "QM")
        return self.bayes.theory("Q0") - 2 * M + Q

    def theory(self, denoiser: str, quantity: str) -> np.ndarray:
        """The same by theory for each instance's own target."""
        if denoiser == "bayes":
            return self.bayes.theory({"test_error": "bayes_test_error"}.get(quantity, quantity))
        if quantity == "test_error":
            return self.soft.theory(quantity)[:, :, -1]
        Q, M = (self.soft.theory(name)[:, :, -1] for name in "QM")
        return self.bayes.theory("Q0") - 2 * M + Q

    def converged(self, denoiser: str) -> np.ndarray:
        """Whether all instances did, and the optimum of their targets, at each alpha."""
        return getattr(self, denoiser).simulation("converged").all(axis=0) & self.optimal

    @property
    def optimal(self) -> np.ndarray:
        """Whether the Bayes-optimal theory of all instances is to be trusted, at each alpha."""
        found = [theory_flags(record.datasets) for record in self.bayes.own]
        return ~np.concatenate(found).any(axis=0)

    def pair(self, denoiser: str, quantity: str) -> Pair:
        """Both, for the validation table."""
        return Pair(self.dim, self.simulation(denoiser, quantity), self.theory(denoiser, quantity))

    def gap(self) -> tuple[np.ndarray, np.ndarray]:
        """Test error, soft over bayes less 1, at each alpha: mean and standard error."""
        ratio = self.simulation("soft", "test_error") / self.simulation("bayes", "test_error")
        return statistics(ratio - 1)

    def complaints(self) -> list[str]:
        """One line for each alpha where some run or the theory of its target did not converge."""
        lines = complaints_at(f"Bayes-optimal, d = {self.dim}", self.alphas[~self.optimal])
        for denoiser, (_, label) in LOOK.items():
            lines += getattr(self, denoiser).complaints(f"{label}, d = {self.dim}")
        return lines


def draw_errors(axis: Axes, quantity, erm, optimal, large: Comparison, drawing: Drawing) -> None:
    optimum = optimal["bayes_test_error" if quantity == "test_error" else quantity]
    lines = ((ERM, theory_values(erm, quantity), erm), (OPTIMAL, optimum, optimal))
    for (colour, label), values, solved in lines:
        flagged = theory_flags(solved)
        style.theory(axis, solved["alpha"], values, colour, label=label, flagged=flagged)
        columns = {"alpha": solved["alpha"], "value": values, "flagged": flagged}
        add_rows(drawing, quantity=quantity, series=label, **columns)
    for denoiser, (colour, label) in LOOK.items():
        own, doubtful = large.theory(denoiser, quantity).mean(axis=0), ~large.optimal
        style.theory(axis, large.alphas, own, colour, thin=True, flagged=doubtful)
        mean, error = statistics(large.simulation(denoiser, quantity))
        flagged = ~large.converged(denoiser)
        named = f"message passing, {label}"
        style.simulation(
            axis, large.alphas, mean, error, colour, method="amp", label=named, flagged=flagged
        )
        add_rows(
            drawing,
            quantity=quantity,
            series=f"theory d={large.dim} {label}",
            alpha=large.alphas,
            value=own,
            flagged=doubtful,
        )
        add_rows(
            drawing,
            quantity=quantity,
            series=named,
            alpha=large.alphas,
            value=mean,
            standard_error=error,
            instances=large.instances,
            flagged=flagged,
        )


def draw_floor(axis: Axes, section: Section, drawing: Drawing) -> None:
    """The error that the label noise leaves when S0 is known."""
    from hdattn.singlehead.posterior import posterior_error

    floor = posterior_error(1 + section.kappa0, section.noise / 2, section.beta0, section.tokens)
    if floor > 0:
        style.level(axis, floor, "label noise alone")
    axis.legend(loc="best", fontsize=6.5)
    add_rows(drawing, quantity="floor", series="label noise alone", value=floor)


def draw_gap(axis: Axes, erm, optimal, large: Comparison, drawing: Drawing) -> None:
    values = erm["test_error"] / optimal["bayes_test_error"] - 1
    doubtful = theory_flags(erm) | theory_flags(optimal)
    style.theory(axis, erm["alpha"], values, style.BLACK, label="theory", flagged=doubtful)
    mean, error = large.gap()
    flagged = ~(large.converged("soft") & large.converged("bayes"))
    style.simulation(
        axis,
        large.alphas,
        mean,
        error,
        style.BLACK,
        method="amp",
        label=f"message passing, $d={large.dim}$",
        flagged=flagged,
    )
    axis.set_ylabel("test error over Bayes, less 1")
    axis.legend(loc="best")
    columns = {"alpha": erm["alpha"], "value": values, "flagged": doubtful}
    add_rows(drawing, quantity="gap", series="theory", **columns)
    add_rows(
        drawing,
        quantity="gap",
        series="message passing",
        alpha=large.alphas,
        value=mean,
        standard_error=error,
        instances=large.instances,
        flagged=flagged,
    )


def draw_decay(axis: Axes, erm, section: Section, drawing: Drawing) -> None:
    flagged = theory_flags(erm)
    style.theory(axis, erm["alpha"], erm["lam"], style.BLUE, flagged=flagged)
    axis.set_ylabel(r"best weight decay $\lambda$")
    columns = {"alpha": erm["alpha"], "value": erm["lam"], "flagged": flagged}
    add_rows(drawing, quantity="lam", series="best", **columns)
    low, high = section.lam_range
    at_end = [
        alpha
        for alpha, lam in zip(erm["alpha"], erm["lam"], strict=True)
        if not 1.1 * low < lam < high / 1.1
    ]
    drawing.flagged += [
        f"best weight decay at an end of lam_range at alpha = {a:g}" for a in at_end
    ]
