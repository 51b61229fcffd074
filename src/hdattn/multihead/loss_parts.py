"""What the loss consists of: misses, and noise let through by aligned and misaligned heads.

``sum_l (delta_{l,eps} - A_l)^2 = (1 - A_eps)^2 + sum_{l != eps} A_l^2``. Attention is a sum over
heads; a head is aligned with a sequence where its score grows with what is random in theta,
``m_h . (theta - E theta) >= 0``, and misaligned where that lowers it: what it then attends to is
noise.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass

import numpy as np

from hdattn.errors import UserError
from hdattn.multihead.activations import WeightedHeads, get_activation
from hdattn.multihead.population import PopulationLoss
from hdattn.multihead.priors import FiniteSupport, Prior


@dataclass(frozen=True)
class LossParts:
    """Means over sequences, which add up to the loss.

    miss: ``(1 - A_eps)^2``. aligned, misaligned: ``sum_{l != eps}`` of the squared attention of
    the heads that are, summed over them. cross: what their product adds.
    """

    miss: float
    aligned: float
    misaligned: float
    cross: float

    @property
    def loss(self) -> float:
        """E on the points used."""
        return sum(astuple(self))


def has_parts(activation: str, prior: Prior) -> bool:
    """Whether theta is one of finitely many points, and attention a sum over heads."""
    weighted = isinstance(get_activation(activation), WeightedHeads)
    return weighted and isinstance(prior, FiniteSupport)


def decompose_loss(
    activation: str,
    tokens: int,
    prior: Prior,
    m: np.ndarray,
    b: np.ndarray,
    c: float,
    *,
    base_points: int = 4096,
    seed: int = 0,
) -> LossParts:
    """Parts of E at m [H, F], b [H] and c with r = m m^T, on Sobol points.

    Raises :class:`UserError` where :func:`has_parts` is false.
    """
    if not has_parts(activation, prior):
        raise UserError(
            "parts of the loss need a prior on finitely many points (flip or discrete) and heads "
            "with weights of their own"
        )
    rule = get_activation(activation)
    points = PopulationLoss(rule, tokens, prior, base_points=base_points, seed=seed)
    centers = points.images.centers
    along = (centers - points.images.weights @ centers) @ np.asarray(m).T
    sums = np.zeros(4)
    for weight, scores, (_, image) in points.scores(m):
        attention, weights = rule.forward(scores, b, c)
        # attention is linear in the weights of the heads
        shares = weights * (attention / np.maximum(weights.sum(axis=0), 1e-300))
        aligned = along[image] >= -1e-9
        good, bad = shares[aligned, 1:].sum(axis=0), shares[~aligned, 1:].sum(axis=0)
        miss = np.sum((1.0 - attention[0]) ** 2)
        noise = np.sum(good**2), np.sum(bad**2), 2.0 * np.sum(good * bad)
        sums += weight * np.array([miss, *noise])
    return LossParts(*map(float, sums / points.base_points))
