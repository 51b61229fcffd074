"""One module per figure: arrays in, matplotlib figure and numbers out.

A figure module defines

``MODEL``
    ``"multihead"`` or ``"singlehead"``: the family, and the configuration file of its section.
``TITLE``
    One line, for lists and the report.
``Section``
    The typed configuration section (:class:`hdattn.fields.FigureSection`).
``experiments(section, seed)``
    ``{role: [Experiment, ...]}``: what has to be computed.
``draw(figure, records, section)``
    Draws on an empty matplotlib figure from ``{role: [Record, ...]}`` (same order as the
    experiments) and returns a :class:`Drawing`. Imports no pyplot, computes nothing expensive.
``SHARED`` (optional)
    Patterns of roles that another figure has too: they keep files of their own when the section's
    ``per_job`` joins experiments (:mod:`hdattn.several`).

The name of the figure is the name of the module; a module placed here is found by itself. One
that lacks any of this, or does not import, is a line about its file (:mod:`.contract`) for whoever
asks for it; the other figures go on.
"""

from hdattn.figures.contract import MODELS
from hdattn.figures.drawing import Drawing
from hdattn.figures.registry import broken, module, names, unknown

__all__ = ["MODELS", "Drawing", "broken", "module", "names", "unknown"]
