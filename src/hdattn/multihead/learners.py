"""The step of online SGD: a few instances at dimension D moved together, each on its own data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hdattn.multihead.activations import Activation
from hdattn.multihead.start import Start, initial_weights, order_parameters
from hdattn.multihead.teacher import SequenceData, SequenceStream, sequence_unit

BUFFER = 2**20  # components of tokens held at a time: 4 MB stay in the cache and make long steps


@dataclass(frozen=True)
class Model:
    """What all instances of a run have in common."""

    data: SequenceData
    activation: Activation
    heads: int
    gamma: float
    batch: int
    start: Start
    dtype: np.dtype

    @property
    def unit(self) -> int:
        """Sequences an instance draws at a time at the least: whole batches of whole units."""
        return math.lcm(self.batch, sequence_unit(self.data))

    @property
    def units_held(self) -> int:
        """How many instances fit the buffer with a unit each, at least one."""
        return max(1, BUFFER // (self.unit * self.data.tokens * self.data.dim))


class Learners:
    """Weights of a few instances with their streams: one step moves all of them."""

    def __init__(self, model: Model, root_seed: int, instances: Sequence[int]):
        """At the start, nothing drawn yet."""
        data, dtype, count = model.data, model.dtype, len(instances)
        self.model = model
        self.streams = [SequenceStream(data, root_seed, i) for i in instances]
        self.spikes = np.stack([stream.spikes for stream in self.streams])
        weights = [initial_weights(data, root_seed, i, model.heads, model.start) for i in instances]
        self.k = np.stack(weights).astype(dtype)
        biases = model.start.biases(model.heads).astype(dtype)
        self.b = np.repeat(biases[:, None, None], count, axis=1)  # [H, I, 1]: chi is [H, L, I, B]
        self.c = np.full((count, 1), model.start.c, dtype=dtype)
        held = max(1, model.units_held // count) * model.unit
        self._drawn = np.empty((count, held, data.tokens, data.dim), dtype=np.float32)
        self._locations = np.empty(self._drawn.shape[:2], dtype=np.intp)
        self._used = self._drawn.shape[1]
        self._residual = np.empty((count, model.batch, 1, data.dim), dtype=dtype)
        self._gradient = np.empty_like(self.k)
        self._grid = np.ogrid[:count, : model.batch]

    def next_batch(self) -> tuple[np.ndarray, np.ndarray]:
        """Tokens X [I, B, L, D] and locations eps [I, B] of a fresh batch of each instance."""
        if self._used == self._drawn.shape[1]:
            for i, stream in enumerate(self.streams):
                self._locations[i] = stream.draw(self._drawn[i])
            self._used = 0
        part = slice(self._used, self._used + self.model.batch)
        self._used = part.stop
        tokens = self._drawn[:, part].astype(self.model.dtype, copy=False)
        return tokens, self._locations[:, part]

    def record(self) -> tuple[np.ndarray, ...]:
        """m [I, H, F], r [I, H, H], b [I, H] and c [I] as they are now, in float64."""
        m, r = order_parameters(self.k, self.spikes)
        return m, r, self.b[..., 0].T.astype(float), self.c[:, 0].astype(float)

    def step(self, tokens: np.ndarray, locations: np.ndarray) -> np.ndarray:
        """One step of every instance on its batch; returns the mean loss before it, [I].

        ``eta`` times the gradient of the batch mean is gamma/D times the sum over the batch of
        ``sum_l d_hl X_l``, where d follows from ``e_l = dl_D/dA_l = -(2/D) X_l . residual`` and
        ``residual = X_eps - sum_l A_l X_l``.
        """
        rule, rate = self.model.activation, self.model.gamma / self.model.data.dim
        batch = slice(self.model.batch)  # leaves out a twin
        attention, weights = rule.forward(twinned(self._scores(tokens)), self.b, self.c)
        miss = -attention  # delta_{l, eps} - A_l: [L, I, B]
        miss[locations, *self._grid] += 1
        e = twinned(self._products(miss[..., batch], tokens))
        e *= self.model.dtype.type(-2 / self.model.data.dim)
        d, db, dc = rule.pullback(weights, attention, self.c, e)
        self._descend(rate * d[..., batch], tokens)
        if db is not None:
            self.b -= rate * db[..., batch].sum(axis=2, keepdims=True)
        if dc is not None:
            self.c -= rate * dc[..., batch].sum(axis=1, keepdims=True)
        return -0.5 * (miss * e).sum(axis=0)[:, batch].mean(axis=1)

    def _scores(self, tokens: np.ndarray) -> np.ndarray:
        """``chi_hl = k_h . X_l``: [H, L, I, B]."""
        count, batch, length, dim = tokens.shape
        chi = self.k @ tokens.reshape(count, batch * length, dim).swapaxes(1, 2)
        return np.ascontiguousarray(chi.reshape(count, -1, batch, length).transpose(1, 3, 0, 2))

    def _products(self, miss: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """``X_l . residual`` [L, I, B], with ``residual = sum_l miss_l X_l`` in R^D."""
        rows = np.ascontiguousarray(miss.transpose(1, 2, 0))[:, :, None, :]
        np.matmul(rows, tokens, out=self._residual)
        products = np.matmul(tokens, self._residual.swapaxes(2, 3))[..., 0]
        return np.ascontiguousarray(products.transpose(2, 0, 1))

    def _descend(self, shift: np.ndarray, tokens: np.ndarray) -> None:
        """``k_h <- k_h - sum_{batch, l} shift_hl X_l`` with shift [H, L, I, B]."""
        count, batch, length, dim = tokens.shape
        shift = shift.transpose(2, 0, 3, 1).reshape(count, -1, batch * length)
        np.matmul(shift, tokens.reshape(count, batch * length, dim), out=self._gradient)
        self.k -= self._gradient


def twinned(samples: np.ndarray) -> np.ndarray:
    """``samples`` [..., I, B]; a lone one twice.

    numpy sums over heads and tokens of a single sample in another order than over those of
    several; a twin keeps an instance the same to the last bit when it runs alone.
    """
    return np.repeat(samples, 2, axis=-1) if samples.shape[-2:] == (1, 1) else samples
