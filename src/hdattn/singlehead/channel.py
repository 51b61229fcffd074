"""Output channels: moments of f = -dl/dz(z*) over the scores, for any loss of K logits.

(omega, z0') is Gaussian of covariance [[Q, M], [M, P]] (x) C, P = Q0 + noise/2, and
z* = argmin l(y, z) + (z - omega)^T C^{-1} (z - omega)/(2V) is the global minimum.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

SAME_MINIMUM = 1e-4  # minima of the prox closer than this are one
BLOCK = 2048  # samples handled together: their arrays stay in the cache of a core


@dataclass(frozen=True)
class ChannelMoments:
    """v_hat, m_hat, q_hat, train loss per sample, jump probability."""

    v_hat: float
    m_hat: float
    q_hat: float
    train_loss: float
    jump_probability: float


@dataclass
class Block:
    """Some quadrature points: weights [n], z0' and independent eta ~ N(0, C) [K, n], label y."""

    weights: np.ndarray
    label_scores: np.ndarray
    eta: np.ndarray
    y: np.ndarray
    first: np.ndarray | None = None
    """Minima found last from omega [K, n]: where the next descents start."""
    second: np.ndarray | None = None
    """Distinct minima found last from the label's logits [K, k], for the points `index`."""
    index: np.ndarray | None = None
    share: np.ndarray | None = None
    """Share [k] of each of their cells in which the second minimum is the lower."""

    def take(self, index: np.ndarray) -> Block:
        """The points of an index."""
        return Block(
            self.weights[index], self.label_scores[:, index], self.eta[:, index], self.y[:, index]
        )


class Channel(ABC):
    """A label map, a loss and its prox; subclasses also choose the quadrature points.

    covariance: C [K, K]. prior_variance: P. cell: root-mean-square radius of a quadrature cell in
    each coordinate of the standardised scores, over which a jump of the prox is smoothed.
    doubts: number of points whose prox might have had two minima when last looked at afresh.
    """

    def __init__(self, covariance: np.ndarray, prior_variance: float, cell: float = 0.0):
        self.covariance, self.prior_variance, self.cell = covariance, prior_variance, cell
        self.root = np.linalg.cholesky(covariance)
        self.blocks: list[Block] = []
        self.doubts = 0

    @property
    def dimension(self) -> int:
        """K, the number of logits."""
        return len(self.covariance)

    @abstractmethod
    def label(self, scores: np.ndarray) -> np.ndarray:
        """Label y [., n] of label scores z0' [K, n]."""

    @abstractmethod
    def label_logits(self, block: Block) -> np.ndarray:
        """The student's logits that reproduce the label as well as can be, [K, n]."""

    @abstractmethod
    def label_pull(self, block: Block, z: np.ndarray) -> np.ndarray:
        """d l(y(z0'), z)/d z0' at fixed z, [K, n]."""

    @abstractmethod
    def descend(self, y, omega, V: float, start) -> tuple[np.ndarray, np.ndarray]:
        """Local minimum z [K, n] reached from start, and the minimised value [n] times V."""

    @abstractmethod
    def loss_gradient(self, y, z) -> tuple[np.ndarray, np.ndarray]:
        """Loss [n] and its gradient in z [K, n]."""

    @abstractmethod
    def response_trace(self, y, z, V: float) -> np.ndarray:
        """-Tr(C df/domega) [n], from -C df/domega = C L (1 + V C L)^{-1}, L = l''(z*)."""

    @abstractmethod
    def response_square(self, y, z, V: float) -> np.ndarray:
        """Tr[(C df/domega)^2] [n]."""

    @abstractmethod
    def doubtful(self, block: Block, V: float) -> np.ndarray:
        """Index of the points whose prox might have a second minimum."""

    def add_points(self, weights, label_scores, eta) -> None:
        """Take quadrature points, cut into blocks."""
        for first in range(0, weights.size, BLOCK):
            part = slice(first, first + BLOCK)
            scores = np.ascontiguousarray(label_scores[:, part])
            noise = np.ascontiguousarray(eta[:, part])
            self.blocks.append(Block(weights[part], scores, noise, self.label(scores)))

    @abstractmethod
    def error(self, Q: float, M: float) -> float:
        """Test error of a head with the overlaps Q and M against fresh labels."""

    def coarse(self) -> Channel | None:
        """A channel of fewer points, from whose fixed point that of this one is near."""
        return None

    def replicas(self) -> list[Channel]:
        """Channels with independent parts of the quadrature points; none of a lattice."""
        return []

    def moments(self, Q: float, M: float, V: float, cold: bool = False) -> ChannelMoments:
        """ChannelMoments at (Q, M, V); v_hat and m_hat by Stein's identity.

        With omega = (M/P) z0' + s eta, s^2 = Q - M^2/P: E f.eta = -s v_hat and
        E f.z0' = P m_hat - M v_hat. Unlike the mean derivative of f this holds also when the prox
        jumps. cold: start every minimisation afresh.
        """
        ratio = M / self.prior_variance
        spread = float(np.sqrt(max(Q - M * ratio, 1e-16 * Q)))
        if cold:
            self.doubts = 0
        sums = sum(self._block_sums(block, ratio, spread, V, cold) for block in self.blocks)
        pull_eta, pull_label, q_hat, train_loss, jump = (float(value) for value in sums)
        v_hat = -pull_eta / spread
        m_hat = (pull_label + M * v_hat) / self.prior_variance
        return ChannelMoments(v_hat, m_hat, q_hat, train_loss, jump)

    def response_square_mean(self, V: float) -> float:
        """v2 = E Tr[(C df/domega)^2] at the minima of the last `moments`, for the replicon."""
        total = 0.0
        for block in self.blocks:
            some = block.take(block.index)
            share = some.weights * block.share
            total += block.weights @ self.response_square(block.y, block.first, V)
            total += share @ self.response_square(some.y, block.second, V)
            total -= share @ self.response_square(some.y, block.first[:, block.index], V)
        return float(total)

    def _block_sums(self, block: Block, ratio, spread, V, cold) -> np.ndarray:
        """E of (f.eta, f.z0', f^T C f, l, [two minima]) over a block."""
        omega = ratio * block.label_scores + spread * block.eta
        value = self._descend_first(block, omega, V, cold)
        second_value = self._descend_second(block, omega, V)
        block.share = np.empty(0)
        if block.index.size == 0:
            return self._sums(block, block.first, block.weights)
        some = block.take(block.index)
        share = self._second_share(some, block, value[block.index] - second_value, ratio, spread, V)
        block.share = share
        weights = block.weights.copy()
        weights[block.index] *= 1 - share
        sums = self._sums(block, block.first, weights)
        sums += self._sums(some, block.second, some.weights * share)
        sums[4] = some.weights.sum()
        return sums

    def _sums(self, block: Block, z, weights) -> np.ndarray:
        loss, gradient = self.loss_gradient(block.y, z)
        f = -gradient
        return np.array(
            [
                weights @ (f * block.eta).sum(0),
                weights @ (f * block.label_scores).sum(0),
                weights @ ((self.covariance @ f) * f).sum(0),
                weights @ loss,
                0.0,
            ]
        )

    def _descend_first(self, block: Block, omega, V, cold) -> np.ndarray:
        start = omega if cold or block.first is None else block.first
        if start is omega:
            block.index = None
        block.first, value = self.descend(block.y, omega, V, start)
        return value

    def _descend_second(self, block: Block, omega, V) -> np.ndarray:
        """Values of the second minima, which the block keeps with the index of their points.

        Afresh: the lowest one reached from the label's logits or, where that is another minimum
        than the first, from mixtures of omega and them. Otherwise those known are followed.
        """
        if block.index is not None:
            return self._follow_second(block, omega, V, block.second)
        block.index = self.doubtful(block, V)
        self.doubts += block.index.size
        logits = self.label_logits(block)
        value = self._follow_second(block, omega, V, logits[:, block.index])
        y, first = block.y[:, block.index], block.first[:, block.index]
        here = omega[:, block.index]
        for j in range(self.dimension if block.index.size else 0):
            start = here.copy()
            start[j] = logits[j, block.index]
            other, other_value = self.descend(y, here, V, start)
            better = (other_value < value) & (np.abs(other - first).max(0) > SAME_MINIMUM)
            block.second = np.where(better, other, block.second)
            value = np.where(better, other_value, value)
        return value

    def _follow_second(self, block: Block, omega, V, start) -> np.ndarray:
        y, first = block.y[:, block.index], block.first[:, block.index]
        second, value = self.descend(y, omega[:, block.index], V, start)
        apart = np.abs(second - first).max(0, initial=0.0) > SAME_MINIMUM
        block.second, block.index = second[:, apart], block.index[apart]
        return value[apart]

    def _second_share(self, some: Block, block: Block, excess, ratio, spread, V) -> np.ndarray:
        """Share [k] of each quadrature cell in which the second minimum is the lower.

        By the envelope theorem the difference of the two minimal values has gradient -(f2 - f1) in
        omega and the difference of the label pulls in z0'. Where it is small compared with its
        variation over a cell both minima count: the moments are then continuous in Q, M and V.
        """
        one, two = block.first[:, block.index], block.second
        by_omega = self.loss_gradient(some.y, two)[1] - self.loss_gradient(some.y, one)[1]
        by_label = ratio * by_omega + self.label_pull(some, two) - self.label_pull(some, one)
        slope2 = spread**2 * ((self.root.T @ by_omega) ** 2).sum(0)
        slope2 += self.prior_variance * ((self.root.T @ by_label) ** 2).sum(0)
        width = V * self.cell * np.sqrt(slope2)
        return ndtr(excess / np.maximum(width, 1e-9 * np.abs(excess) + 1e-300))
