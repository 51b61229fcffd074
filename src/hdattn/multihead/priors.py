"""Priors of the spike amplitudes theta in R^F, drawn afresh for each sequence.

A prior is described in configuration by a dictionary ``{"kind": ..., ...}``; :func:`make_prior`
turns it into one of the classes registered in :data:`PRIORS`.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hdattn.errors import UserError

PRIORS: dict[str, type[Prior]] = {}


def register(prior: type[Prior]) -> type[Prior]:
    """Class decorator: make ``prior`` known under its ``kind``."""
    PRIORS[prior.kind] = prior
    return prior


@dataclass(frozen=True)
class Images:
    """A prior as a mixture, with the symmetry that maps its components onto one another.

    With probability ``weights[i]`` theta is ``centers[i] + spread * normal``. The noise g along
    direction f is multiplied by ``signs[i, f]`` in image i: the expectation of a function of
    theta and g is the weighted mean over i of its averages over the same points g.

    weights [I], centers [I, F], signs [I, F] of +-1, spread [F].
    """

    weights: np.ndarray
    centers: np.ndarray
    signs: np.ndarray
    spread: np.ndarray


class Prior(ABC):
    """Distribution P_theta on R^F."""

    kind: ClassVar[str]
    keys: ClassVar[tuple[str, ...]]

    @property
    @abstractmethod
    def dim_features(self) -> int:
        """Number F of spike directions."""

    @abstractmethod
    def images(self) -> Images:
        """Mixture components and the signs of the noise in each of them."""

    def log_likelihood_ratio(self, x: np.ndarray) -> np.ndarray:
        """``log E_theta exp(theta . x - |theta|^2 / 2)`` [...] of projections x [F, ...].

        The posterior of the hidden location is the softmax over tokens of this.
        """
        images = self.images()
        variance = 1.0 + images.spread**2
        quadratic = 0.5 * np.tensordot(images.spread**2 / variance, x**2, axes=1)
        linear = np.tensordot(images.centers / variance, x, axes=1)
        norm = 0.5 * (images.centers**2 / variance + np.log(variance)).sum(axis=1)
        constant = np.log(images.weights) - norm
        terms = linear + constant.reshape(-1, *(1,) * (x.ndim - 1))
        return quadratic + np.logaddexp.reduce(terms, axis=0)

    @abstractmethod
    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """``size`` independent draws of theta: array [size, F]."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Description from which :func:`make_prior` makes an equal prior."""


class FiniteSupport(Prior):
    """Prior on finitely many points: ``support()`` [n, F] with probabilities ``weights()`` [n]."""

    @abstractmethod
    def support(self) -> np.ndarray:
        """Support points theta: array [n, F]."""

    @abstractmethod
    def weights(self) -> np.ndarray:
        """Probabilities of the support points: array [n], summing to one."""


@register
class FlippingPrior(FiniteSupport):
    """Flipping spikes ``theta_f = mean_f + std_f s_f`` with independent fair signs s_f.

    ``std_f = 0`` makes direction f constant. Raises :class:`UserError` for shapes that differ,
    negative or non-finite entries of ``std`` or a non-finite ``mean``.
    """

    kind = "flip"
    keys = ("mean", "std")

    def __init__(self, mean: Any, std: Any):
        """Prior with these vectors of F entries each."""
        self.mean, self.std = _mean_and_std(mean, std)

    @property
    def dim_features(self) -> int:
        """Number F of spike directions."""
        return self.mean.size

    @property
    def flipping(self) -> np.ndarray:
        """Indices of the directions with std > 0 (F_flip of them)."""
        return np.flatnonzero(self.std > 0)

    def signs(self) -> np.ndarray:
        """All joint flips: [2^F_flip, F] of +-1, +1 along constant directions, identity first."""
        signs = np.ones((2**self.flipping.size, self.dim_features))
        signs[:, self.flipping] = list(itertools.product((1.0, -1.0), repeat=self.flipping.size))
        return signs

    def support(self) -> np.ndarray:
        """Support points mean + std * signs: [2^F_flip, F]."""
        return self.mean + self.std * self.signs()

    def weights(self) -> np.ndarray:
        """Equal probabilities: [2^F_flip]."""
        count = 2**self.flipping.size
        return np.full(count, 1.0 / count)

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """``size`` independent draws of theta: array [size, F]."""
        signs = 2.0 * rng.integers(0, 2, (size, self.dim_features)) - 1.0
        return self.mean + self.std * signs

    def images(self) -> Images:
        """The joint flips (g_f, s_f) -> -(g_f, s_f), which enumerate theta exactly."""
        spread = np.zeros(self.dim_features)
        return Images(self.weights(), self.support(), self.signs(), spread)

    def to_dict(self) -> dict[str, Any]:
        """``{"kind": "flip", "mean": [...], "std": [...]}``."""
        return {"kind": self.kind, "mean": self.mean.tolist(), "std": self.std.tolist()}

    def __repr__(self) -> str:
        """Expression that makes an equal prior."""
        return f"FlippingPrior(mean={self.mean.tolist()}, std={self.std.tolist()})"


def make_prior(description: Mapping[str, Any]) -> Prior:
    """Prior described by ``{"kind": "flip", "mean": [...], "std": [...]}``.

    Raises :class:`UserError` for an unknown kind, missing or unknown keys, and impossible values.
    """
    arguments = dict(description)
    kind = arguments.pop("kind", None)
    if kind not in PRIORS:
        raise UserError(f"prior: kind {kind!r} is unknown; choose one of {', '.join(PRIORS)}")
    keys = PRIORS[kind].keys
    missing = [key for key in keys if key not in arguments]
    unknown = [key for key in arguments if key not in keys]
    if missing or unknown:
        problem = "lacks " + ", ".join(missing) if missing else "has no " + ", ".join(unknown)
        raise UserError(f"prior: kind {kind!r} {problem}; it takes {' and '.join(keys)}")
    return PRIORS[kind](**arguments)


def _mean_and_std(mean: Any, std: Any) -> tuple[np.ndarray, np.ndarray]:
    """Both as float vectors of one length F >= 1, checked."""
    mean, std = vector("mean", mean), vector("std", std)
    if mean.size != std.size:
        raise UserError(
            f"prior: mean has {mean.size} entries and std has {std.size}; give one each per spike"
        )
    if np.any(std < 0):
        raise UserError(f"prior: std {std.tolist()} has a negative entry; use 0 for a constant one")
    return mean, std


def vector(name: str, value: Any) -> np.ndarray:
    """``value`` as a finite, non-empty float vector; :class:`UserError` naming ``name`` if not."""
    try:
        array = np.array(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise UserError(f"prior: {name} must be a list of numbers, not {value!r}") from error
    if array.ndim != 1 or array.size == 0 or not np.all(np.isfinite(array)):
        raise UserError(f"prior: {name} must be a non-empty list of finite numbers, not {value!r}")
    return array
