"""Any channel of the logits that the softmax sees, integrated by quasi-Monte Carlo.

A channel of one's own is a subclass: a label map, a loss and its first two derivatives. In an
orthonormal token basis whose first vector is constant, the K products z = (P_jk), j <= k, k >= 1,
are independent: C = diag(1 + delta_jk); the scores are h = L z up to a constant a sample.
"""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from dataclasses import replace
from functools import lru_cache

import numpy as np

from hdattn.singlehead.attention import Array
from hdattn.singlehead.channel import Block, Channel
from hdattn.singlehead.newton import descend, response
from hdattn.singlehead.problem import Problem
from hdattn.singlehead.quadrature import sobol_gaussians
from hdattn.singlehead.token_basis import basis_pairs, score_map
from hdattn.singlehead.two_tokens import LONGEST_STEP

SCRAMBLES = 4
DIFFERENCE = 1e-5  # step of the differences that stand for the derivative by the label


class SampledChannel(Channel):
    """Logits z [K, n] of T tokens; nodes: about nodes^4/6 points, a power of two; 0: none."""

    def __init__(self, problem: Problem, nodes: int):
        self.tokens, self.beta, self.beta0 = problem.tokens, problem.beta, problem.beta0
        self.map = score_map(problem.tokens)
        self.variances = product_variances(problem.tokens)
        points = quasi_points(nodes)
        # a cell of the standard Gaussian in 2K dimensions has a volume of about 1/points
        cell = max(points, 1) ** (-0.5 / self.variances.size)
        super().__init__(np.diag(self.variances), problem.label_variance, cell)
        self.parts: list[slice] = []
        for scramble in range(SCRAMBLES if points else 0):
            self._add_scramble(scramble, points)

    def _add_scramble(self, scramble: int, points: int) -> None:
        """A share of the points: eta and -eta, for E f.eta to vanish with the spread of omega."""
        size, before = points // SCRAMBLES // 2, len(self.blocks)
        scores, eta = np.split(sobol_gaussians(2 * self.dimension, size, scramble), 2)
        deviations = np.sqrt(self.variances)[:, None]
        scores = np.sqrt(self.prior_variance) * deviations * np.hstack([scores, scores])
        eta = deviations * np.hstack([eta, -eta])
        self.add_points(np.full(2 * size, 1 / points), scores, eta)
        self.parts.append(slice(before, len(self.blocks)))

    @abstractmethod
    def hessian(self, y: Array, z: Array) -> Array:
        """Second derivatives of the loss in z, [K, K, n]."""

    def convex_hessian(self, y: Array, z: Array) -> Array:
        """Positive semidefinite, for Newton's method where the Hessian will not do: nothing."""
        return np.zeros((len(z), *z.shape))

    def doubtful(self, block: Block, V: float) -> Array:
        """Points whose prox may have two minima: all, unless a subclass knows better."""
        return np.arange(block.weights.size)

    def label_logits(self, block: Block) -> Array:
        """beta0 z0'/beta."""
        return block.label_scores * (self.beta0 / self.beta)

    def label_pull(self, block: Block, z: Array) -> Array:
        """d l(y(z0'), z)/d z0', by central differences."""
        steps = DIFFERENCE * np.eye(self.dimension)[:, :, None]
        up, down = (
            [self.loss_gradient(self.label(block.label_scores + s), z)[0] for s in signed]
            for signed in (steps, -steps)
        )
        return (np.array(up) - np.array(down)) / (2 * DIFFERENCE)

    def error(self, Q: float, M: float) -> float:
        """Test error E l(y, z) over the points."""
        ratio = M / self.prior_variance
        spread = np.sqrt(max(Q - M * ratio, 0.0))
        return float(
            sum(
                b.weights @ self.loss_gradient(b.y, ratio * b.label_scores + spread * b.eta)[0]
                for b in self.blocks
            )
        )

    def coarse(self):
        """The first scramble."""
        return next(iter(self.replicas()), None)

    def replicas(self):
        """One channel for each scramble."""
        alone = []
        for part in self.parts:
            channel = copy(self)
            channel.parts = []
            channel.blocks = [replace(b, weights=SCRAMBLES * b.weights) for b in self.blocks[part]]
            alone.append(channel)
        return alone

    def descend(self, y, omega, V, start):
        """Safeguarded Newton of each sample."""
        return descend(self, y, omega, V, self.variances, start, LONGEST_STEP / self.beta)

    def response_trace(self, y, z, V):
        """-Tr (C df/domega) [n]."""
        return np.einsum("kkn->n", response(self.hessian(y, z), V, self.variances))

    def response_square(self, y, z, V):
        """Tr[(C df/domega)^2] [n]."""
        matrix = response(self.hessian(y, z), V, self.variances)
        return np.einsum("kln,lkn->n", matrix, matrix)


def quasi_points(nodes: int) -> int:
    """The power of two from nodes^4/6 on, so that 18 nodes give 2^15; 0 for none."""
    return 2 ** int(np.ceil(np.log2(nodes**4 / 6))) if nodes else 0


@lru_cache(maxsize=8)
def product_variances(tokens: int) -> Array:
    """Variances [K] of the products P_jk: two if j = k, else one."""
    return np.array([2.0 if j == k else 1.0 for j, k in basis_pairs(tokens)])


@lru_cache(maxsize=8)
def row_maps(tokens: int) -> Array:
    """L_a^T (1 - 1 1^T/T) L_a for every row a: [T, K, K]."""
    rows = score_map(tokens).reshape(tokens, tokens, -1)
    rows = rows - rows.mean(1, keepdims=True)
    return np.einsum("abk,abl->akl", rows, rows)
