"""What a prior of the amplitudes theta offers to the loss, quadrature and posterior."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np


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

    @property
    def size(self) -> float:
        """Root mean square of |theta|."""
        images = self.images()
        return float(np.sqrt(np.sum(images.weights @ images.centers**2 + images.spread**2)))

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
