"""Colours of figures, some with a fixed meaning.

Okabe and Ito's, which colour-blind readers tell apart.
"""

BLUE, VERMILLION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, BLACK, GREY, LIGHT_GREY = "#E69F00", "#56B4E9", "#000000", "#666666", "#C8C8C8"

SERIES = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)
"""Colours of the values of one parameter, in order (kappa, lambda, D, head, ...)."""

MEANING = {
    "softmax": BLUE,
    "bayes": VERMILLION,
    "softmax1": GREEN,
    "bayes_risk": BLACK,
    "target": GREY,
    "simulation": LIGHT_GREY,
    "threshold": GREY,
    "reference": BLACK,
}
"""Colours that mean one thing in all figures (``bayes`` is B-softmax, ``bayes_risk`` its bound)."""
