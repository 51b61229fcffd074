"""The figure ``overview``: a panel per result of both papers, from the numbers that figures drew.

It computes nothing: each panel reads the CSV file of one figure at the same scale.
"""

from collections.abc import Container

NAME = "overview"
PANELS = {
    "multihead": ("staging", "escape_time", "stability", "heads", "signal", "pruning"),
    "singlehead": (
        "learning_curves",
        "spectra",
        "factorised",
        "interpolation",
        "scaling",
        "emergence",
    ),
}
FIGURES = tuple(name for names in PANELS.values() for name in names)
"""Figures of which it shows a panel each."""


def is_among(figures: Container[str]) -> bool:
    """Whether all that it shows is among ``figures``."""
    return all(name in figures for name in FIGURES)
