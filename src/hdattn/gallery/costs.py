"""The figure ``costs``: where the time went, by figure and rule."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hdattn.figures import style
from hdattn.gallery.collect import Page
from hdattn.job_costs import total
from hdattn.steps import RULES

NAME = "costs"
CAPTION = (
    "<p>Seconds of jobs, wall time, by the rule that ran them: drawing the data, theory, training "
    "and the figure itself. Jobs that figures share count for each of them, so that the bars add "
    "up to more than the run took.</p>"
)
_ROW, _MARGIN = 0.16, 0.7  # inches of a figure's bar, and of what is not bars
_COLOURS = dict(zip((*RULES, "plot"), style.SERIES, strict=False))


def draw_costs(pages: Sequence[Page], folder: Path) -> bool:
    """Write ``costs.pdf``, ``.png`` and ``.csv`` in ``folder``; False where no cost is known.

    Bars are seconds of jobs, wall time; those that figures share count for each of them.
    """
    known = [page for page in pages if page.costs]
    if not known:
        return False
    known.sort(key=lambda page: total(page.costs.values()).seconds)
    with style.context():
        figure = style.new_figure()
        (axis,) = style.panels(figure, width="double", height=_MARGIN + _ROW * len(known))
        left = np.zeros(len(known))
        for rule, colour in _COLOURS.items():
            seconds = np.array(
                [page.costs[rule].seconds if rule in page.costs else 0.0 for page in known]
            )
            axis.barh(range(len(known)), seconds, left=left, color=colour, label=rule, height=0.7)
            left += seconds
        names = [page.name.replace("_", " ") for page in known]  # cmr10 has no underscore
        axis.set_yticks(range(len(known)), names)
        axis.tick_params(axis="y", length=0)
        axis.set(xlabel="seconds of jobs", ylim=(-0.6, len(known) - 0.4))
        axis.legend(loc="lower right")
        style.save(figure, folder / NAME)
    style.write_csv(
        folder / f"{NAME}.csv",
        [
            {"figure": page.name, "rule": rule, **cost._asdict()}
            for page in pages
            for rule, cost in page.costs.items()
        ],
    )
    return True
