"""From the numbers of the figures to the files of the overview."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hdattn import published
from hdattn.errors import UserError
from hdattn.figures import drawn, style
from hdattn.figures.look import Look
from hdattn.overview import NAME, PANELS, multihead, singlehead
from hdattn.overview.numbers import Numbers
from hdattn.overview.panel import Panel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEIGHT = 4.9  # inches
_SMALL = {"font.size": 6.5, "axes.titlesize": 6.5, "axes.labelsize": 6.5, "legend.fontsize": 6}
_SMALL |= {"xtick.labelsize": 6, "ytick.labelsize": 6, "lines.markersize": 2.5}
_PAPERS = {"multihead": "multi-head paper", "singlehead": "single-head paper"}
_DRAW = {"multihead": multihead, "singlehead": singlehead}


def make_overview(folder: Path, stem: Path, look: Look | None = None) -> list[dict[str, Any]]:
    """Draw the overview of the figures in ``folder``, that of a scale, and write its files.

    Writes ``stem.pdf`` and ``stem.png`` (or the formats of ``look``), ``stem.csv``,
    ``stem.drawn.csv`` and ``stem.json`` (the SHA-256 of the others); returns the rows of the
    first CSV. Raises ``UserError`` where a figure's numbers are not there.
    """
    look = look or Look()
    with style.context(look.style_sheet, _SMALL):
        figure = style.new_figure("double", HEIGHT)
        rows = _draw(figure, folder)
        look.resize(figure)
        style.save(figure, stem, look.formats)
        shown = drawn.rows(figure)
    style.write_csv(stem.with_name(f"{stem.name}.csv"), rows)
    style.write_csv(stem.with_name(f"{stem.name}{drawn.ENDING}"), shown)
    endings = [*(f".{ending}" for ending in look.formats), ".csv", drawn.ENDING]
    published.write(stem, {"name": NAME}, endings)
    return rows


def _draw(figure: Figure, folder: Path) -> list[dict[str, Any]]:
    """A half of the page for each paper, three rows of two panels in each."""
    halves = figure.subfigures(1, len(PANELS), wspace=0.02)
    rows, letters = [], iter("abcdefghijklmnopqrstuvwxyz")
    for half, (model, names) in zip(halves, PANELS.items(), strict=True):
        half.suptitle(_PAPERS[model], fontsize=8)
        for axis, name in zip(half.subplots(len(names) // 2, 2).flat, names, strict=True):
            panel = Panel(name, axis)
            getattr(_DRAW[model], name)(panel, _numbers(folder / model / f"{name}.csv"))
            axis.set_title(f"({next(letters)}) {axis.get_title()}", pad=3)
            rows += panel.rows
    return rows


def _numbers(path: Path) -> Numbers:
    if not path.is_file():
        raise UserError(f"{path}: not there; the overview shows it, make the figure first")
    return Numbers.read(path)
