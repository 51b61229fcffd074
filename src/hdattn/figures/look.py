"""How figures are to look, as their user wants it: no number depends on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hdattn.figures.style import WIDTHS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Look:
    """A user's own look.

    Attributes
    ----------
    width: ``own`` (what each figure chooses), ``single`` or ``double`` column, or inches.
    formats: endings of the files, among pdf, png and svg.
    style_sheet: a matplotlib style sheet that is laid over the figures' own.
    """

    width: str | float = "own"
    formats: tuple[str, ...] = ("pdf", "png")
    style_sheet: str | None = None

    def resize(self, figure: Figure) -> None:
        """Give ``figure`` the wanted width, in its proportions; letters keep their size."""
        if self.width == "own":
            return
        wanted = WIDTHS.get(self.width, self.width)
        width, height = figure.get_size_inches()
        figure.set_size_inches(wanted, height * wanted / width)
