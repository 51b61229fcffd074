"""The keys of config/config.yaml: what to run, at which scale, and how figures are to look."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic.functional_validators import BeforeValidator

from hdattn import figures as figure_modules
from hdattn import overview, style_sheet
from hdattn.canonical import digest
from hdattn.fields import NonNegative, Positive, Strict, Whole, physics, size


def chosen_figures(value: Any) -> list[str]:
    """Figures as a list, or a string with commas or spaces; ``all`` is every figure.

    Raises ``ValueError`` for what names none; whether there are such figures is not looked at.
    """
    if value == "all" or value in (["all"], ("all",)):
        return [*figure_modules.names(), *figure_modules.broken()]
    if isinstance(value, str):
        value = value.replace(",", " ").split()
    if value is None:
        value = []
    if not isinstance(value, (list, tuple)) or not all(isinstance(v, str) for v in value):
        raise ValueError("figures is a list of names, or names with commas or spaces between")
    if not value:
        raise ValueError("figures is empty: name at least one figure, or 'all'")
    return list(dict.fromkeys(name for asked in value for name in _shown_by(asked)))


def _shown_by(name: str) -> tuple[str, ...]:
    """The figures whose numbers the overview shows, or the figure itself."""
    return overview.FIGURES if name == overview.NAME else (name,)


def _width(value: Any) -> Any:
    """``own``, ``single``, ``double``, or inches."""
    if value in ("own", "single", "double"):
        return value
    try:
        width = float(value)
    except (TypeError, ValueError):
        width = math.nan
    if isinstance(value, bool) or not 1 <= width <= 40:
        raise ValueError(f"{value!r} is no width; give own, single, double, or 1 to 40 inches")
    return width


def _formats(value: Any) -> Any:
    """Formats as a list, or a string with commas or spaces; pdf and png are among them."""
    if isinstance(value, str):
        value = value.replace(",", " ").split()
    known = ("pdf", "png", "svg")
    if not isinstance(value, (list, tuple)) or not all(v in known for v in value):
        raise ValueError(f"formats are among {', '.join(known)}, as a list")
    if not {"pdf", "png"} <= set(value):
        raise ValueError(
            "pdf and png are always made, the gallery shows them; name them, and svg to have it too"
        )
    return tuple(f for f in known if f in value)


def _style_sheet(value: Any) -> Any:
    if value is None:
        return value
    if not isinstance(value, str) or not os.path.isfile(value):
        raise ValueError(f"there is no file {value!r}; give the path of an .mplstyle file")
    if why := style_sheet.problem(value):
        raise ValueError(why)
    return value


class Run(Strict):
    """What to run, at which scale (config/config.yaml)."""

    scale: str = size("default", "Scale: smoke, default, paper, or one of your own.")
    figures: Annotated[
        tuple[str, ...], BeforeValidator(chosen_figures, json_schema_input_type=str | list[str])
    ] = size("all", "Figures to make: 'all', a list, or names with commas or spaces between.")
    seed: Whole = physics(0, "Root seed of every random stream.")
    device: Literal["auto", "cpu", "cuda"] = size(
        "auto", "Where training runs: auto takes a GPU if there is one."
    )
    training_set_limit_mb: NonNegative = size(
        32, "Training sets up to this size are stored with the teacher, larger ones redrawn (MB)."
    )
    machine_speed: Positive = size(
        1, "Speed of a core over that of the cost model's machine: 'hdattn cost --check' tells."
    )
    job_memory_gb: Positive = size(
        1000, "Memory that one job may ask for (GB): a run with a larger one is refused."
    )
    job_hours: Positive = size(
        720, "Hours that one job may ask for: a run with a longer one is refused."
    )
    figure_width: Annotated[
        Literal["own", "single", "double"] | Positive, BeforeValidator(_width)
    ] = size(
        "own",
        "Width of the figures: own (what each chooses), single or double column, or inches.",
    )
    figure_formats: Annotated[tuple[str, ...], BeforeValidator(_formats)] = size(
        ("pdf", "png"), "Files of each figure: pdf and png, and svg where it is named."
    )
    style_sheet: Annotated[str | None, BeforeValidator(_style_sheet)] = size(
        None, "A matplotlib style sheet of your own, laid over the figures' style."
    )

    def look(self) -> dict[str, Any]:
        """How figures are to look: fields of :class:`hdattn.figures.look.Look`."""
        return {
            "width": self.figure_width,
            "formats": list(self.figure_formats),
            "style_sheet": self.style_sheet,
        }

    def style_sheet_digest(self) -> str:
        """Digest of the user's style sheet, empty without one: a change redraws the figures."""
        return digest(Path(self.style_sheet).read_text("utf-8")) if self.style_sheet else ""
