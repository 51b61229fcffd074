"""Priors of the spike amplitudes theta in R^F, drawn afresh for each sequence.

A prior is described in configuration by a dictionary ``{"kind": ..., ...}``; :func:`make_prior`
turns it into one of the classes registered in :data:`PRIORS`. Other priors are modules of
:mod:`hdattn.multihead.extensions`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from hdattn import extensions
from hdattn.errors import UserError
from hdattn.multihead.prior_base import FiniteSupport, Images, Prior
from hdattn.multihead.sizes import refuse_large

PRIORS: dict[str, type[Prior]] = {}


def register(prior: type[Prior]) -> type[Prior]:
    """Class decorator: make ``prior`` known under its ``kind``, which must be free."""
    extensions.refuse_taken("prior", prior.kind, PRIORS)
    PRIORS[prior.kind] = prior
    return prior


class _MeanAndStd(Prior):
    """Independent amplitudes described by their means and standard deviations, [F] each."""

    keys = ("mean", "std")

    def __init__(self, mean: Any, std: Any):
        """Prior with these vectors of F entries each."""
        self.mean, self.std = _vector("mean", mean), _vector("std", std)
        if self.mean.size != self.std.size:
            raise UserError(
                f"prior: mean has {self.mean.size} entries and std has {self.std.size}; "
                "give one each per spike"
            )
        if np.any(self.std < 0):
            raise UserError(
                f"prior: std {self.std.tolist()} has a negative entry; use 0 for a constant one"
            )

    @property
    def dim_features(self) -> int:
        """Number F of spike directions."""
        return self.mean.size

    def signs(self) -> np.ndarray:
        """All joint flips of the k directions with std > 0: [2^k, F] of +-1, identity first."""
        fluctuating = np.flatnonzero(self.std > 0)
        signs = np.ones((2**fluctuating.size, self.dim_features))
        signs[:, fluctuating] = list(itertools.product((1.0, -1.0), repeat=fluctuating.size))
        return signs

    def to_dict(self) -> dict[str, Any]:
        """``{"kind": ..., "mean": [...], "std": [...]}``."""
        return {"kind": self.kind, "mean": self.mean.tolist(), "std": self.std.tolist()}

    def __repr__(self) -> str:
        """Expression that makes an equal prior."""
        return f"{type(self).__name__}(mean={self.mean.tolist()}, std={self.std.tolist()})"


@register
class FlippingPrior(_MeanAndStd, FiniteSupport):
    """Flipping spikes ``theta_f = mean_f + std_f s_f`` with independent fair signs s_f.

    ``std_f = 0`` makes direction f constant. Raises :class:`UserError` for shapes that differ,
    negative or non-finite entries of ``std`` or a non-finite ``mean``.
    """

    kind = "flip"

    def support(self) -> np.ndarray:
        """Support points mean + std * signs: [2^F_flip, F]."""
        return self.mean + self.std * self.signs()

    def weights(self) -> np.ndarray:
        """Equal probabilities: [2^F_flip]."""
        count = len(self.signs())
        return np.full(count, 1.0 / count)

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """``size`` independent draws of theta: array [size, F]."""
        signs = 2.0 * rng.integers(0, 2, (size, self.dim_features)) - 1.0
        return self.mean + self.std * signs

    def images(self) -> Images:
        """The joint flips (g_f, s_f) -> -(g_f, s_f), which enumerate theta exactly."""
        spread = np.zeros(self.dim_features)
        return Images(self.weights(), self.support(), self.signs(), spread)


@register
class GaussianPrior(_MeanAndStd):
    """Gaussian amplitudes ``theta_f ~ N(mean_f, std_f^2)``, independent.

    Raises :class:`UserError` as :class:`FlippingPrior` does.
    """

    kind = "gauss"

    def images(self) -> Images:
        """One Gaussian, and the joint flips of noise and amplitude about the mean."""
        signs = self.signs()
        count = len(signs)
        return Images(np.full(count, 1 / count), np.tile(self.mean, (count, 1)), signs, self.std)

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """``size`` independent draws of theta: array [size, F]."""
        return self.mean + self.std * rng.standard_normal((size, self.dim_features))


@register
class DiscretePrior(FiniteSupport):
    """General prior on finitely many points: ``support`` [n, F] with ``weights`` [n].

    Raises :class:`UserError` for shapes that differ, points given twice, weights that are not
    positive or do not sum to one.
    """

    kind = "discrete"
    keys = ("support", "weights")

    def __init__(self, support: Any, weights: Any):
        """Prior with these points, a row each, and their probabilities."""
        self._weights = _vector("weights", weights)
        rows = [_vector("support", row) for row in support] if np.iterable(support) else []
        if len({row.size for row in rows}) != 1 or len(rows) != self._weights.size:
            raise UserError(
                f"prior: support must be {self._weights.size} rows of equal length, one per weight"
            )
        _check_weights(self._weights)
        self._support = np.array(rows)
        points, counts = np.unique(self._support, axis=0, return_counts=True)
        if np.any(counts > 1):
            raise UserError(
                f"prior: support has the point {points[np.argmax(counts)].tolist()} twice; "
                "give it once, with the sum of its weights"
            )

    @property
    def dim_features(self) -> int:
        """Number F of spike directions."""
        return self._support.shape[1]

    def support(self) -> np.ndarray:
        """Support points theta: array [n, F]."""
        return self._support.copy()

    def weights(self) -> np.ndarray:
        """Probabilities of the support points: array [n]."""
        return self._weights.copy()

    def images(self) -> Images:
        """One image per support point, with the same noise in each."""
        spread = np.zeros(self.dim_features)
        return Images(self.weights(), self.support(), np.ones_like(self._support), spread)

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """``size`` independent draws of theta: array [size, F]."""
        return self._support[rng.choice(self._weights.size, size, p=self._weights)]

    def to_dict(self) -> dict[str, Any]:
        """``{"kind": "discrete", "support": [[...], ...], "weights": [...]}``."""
        return {
            "kind": self.kind,
            "support": self._support.tolist(),
            "weights": self._weights.tolist(),
        }

    def __repr__(self) -> str:
        """Expression that makes an equal prior."""
        return f"DiscretePrior({self._support.tolist()}, {self._weights.tolist()})"


def make_prior(description: Mapping[str, Any]) -> Prior:
    """Prior described by ``{"kind": "flip", "mean": [...], "std": [...]}``.

    Raises :class:`UserError` for an unknown kind, missing or unknown keys, and impossible values.
    """
    arguments = dict(description)
    prior = get_prior(arguments.pop("kind", None))
    keys, kind = prior.keys, prior.kind
    missing = [key for key in keys if key not in arguments]
    unknown = [key for key in arguments if key not in keys]
    if missing or unknown:
        problem = "lacks " + ", ".join(missing) if missing else "has no " + ", ".join(unknown)
        raise UserError(f"prior: kind {kind!r} {problem}; it takes {' and '.join(keys)}")
    return prior(**arguments)


def get_prior(kind: Any) -> type[Prior]:
    """Class registered under ``kind``; :class:`UserError` listing the kinds if unknown."""
    found = extensions.find("multihead", PRIORS, kind)
    if found is None:
        known = ", ".join(extensions.known("multihead", PRIORS))
        raise UserError(f"prior: kind {kind!r} is unknown; choose one of {known}")
    return found


def _check_weights(weights: np.ndarray) -> None:
    """:class:`UserError` unless all are positive and they sum to one."""
    low = np.flatnonzero(weights <= 0)
    if low.size:
        raise UserError(
            f"prior: entry {low[0] + 1} of weights is {weights[low[0]]:g}, and all must be "
            "positive; leave that point out of support and weights"
        )
    total = float(weights.sum())
    if abs(total - 1.0) > 1e-9:
        raise UserError(
            f"prior: weights {weights.tolist()} must sum to one; they sum to {total:.12g}, give "
            "them with ten digits or more"
        )


def _vector(name: str, value: Any) -> np.ndarray:
    """``value`` as a finite, non-empty float vector; :class:`UserError` naming ``name`` if not."""
    try:
        array = np.array(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise UserError(f"prior: {name} must be a list of numbers, not {value!r}") from error
    if array.ndim != 1 or array.size == 0 or not np.all(np.isfinite(array)):
        raise UserError(f"prior: {name} must be a non-empty list of finite numbers, not {value!r}")
    return refuse_large(f"prior: {name}", array)
