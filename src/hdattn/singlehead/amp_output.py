"""Output steps of message passing: from the cavity logits omega to f, for every sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hdattn.singlehead.attention import Array
from hdattn.singlehead.channel import SAME_MINIMUM, Block
from hdattn.singlehead.observations import Observations
from hdattn.singlehead.problem import Problem
from hdattn.singlehead.state_evolution import make_channel


@dataclass(frozen=True, eq=False)
class Output:
    """f [K, n], v_hat = -mean Tr C df/domega, and the mean loss at the prox.

    jump_probability: share of the samples whose prox has a second minimum.
    """

    f: Array
    v_hat: float
    train_loss: float
    jump_probability: float = 0.0


class OutputStep(Protocol):
    """What message passing needs to know about the labels."""

    def __call__(self, omega: Array, V: float) -> Output:
        """f and its moments at cavity logits omega [K, n] and variance V."""

    def loss(self, z: Array) -> float:
        """Mean loss per sample at logits z [K, n]."""


class ErmOutput:
    """f = C^{-1}(z* - omega)/V at the global minimum z* of l(y, z) + |z - omega|_C^2/(2V)."""

    def __init__(self, observations: Observations, problem: Problem, channel=make_channel):
        self.channel = channel(problem, 0)
        self.scores = observations.label_scores(problem.beta0)
        self.y = self.channel.label(self.scores)

    def __call__(self, omega: Array, V: float) -> Output:
        """Both minima of the prox, and the better of them."""
        z, value = self.channel.descend(self.y, omega, V, omega)
        share = self._try_label_logits(omega, V, z, value)
        loss, gradient = self.channel.loss_gradient(self.y, z)
        return Output(-gradient, self.response(z, V), float(loss.mean()), share)

    def _try_label_logits(self, omega, V, z, value) -> float:
        """Overwrite z where the descent from the label's own logits ends lower; share of doubles.

        Only samples whose prox may have two minima are descended again.
        """
        block = Block(np.ones(self.y.shape[1]), self.scores, omega, self.y)
        index = self.channel.doubtful(block, V)
        start = self.channel.label_logits(block)[:, index]
        second, second_value = self.channel.descend(self.y[:, index], omega[:, index], V, start)
        apart = np.abs(second - z[:, index]).max(0, initial=0.0) > SAME_MINIMUM
        better = apart & (second_value < value[index])
        z[:, index[better]] = second[:, better]
        return float(apart.sum()) / self.y.shape[1]

    def response(self, z: Array, V: float) -> float:
        """-mean Tr C df/domega at prox z."""
        return float(self.channel.response_trace(self.y, z, V).mean())

    def pull(self, z: Array) -> Array:
        """-dl/dz [K, n] at logits z."""
        return -self.channel.loss_gradient(self.y, z)[1]

    def loss(self, z: Array) -> float:
        """Mean of l(y, z)."""
        return float(self.channel.loss_gradient(self.y, z)[0].mean())


class BayesOutput:
    """f = C^{-1}(z0' - omega)/(V + noise/2): the label reveals z0', so the channel is linear."""

    def __init__(self, observations: Observations, problem: Problem):
        self.observations, self.problem = observations, problem
        self.scores = observations.label_scores(problem.beta0)
        self.inverse = np.linalg.inv(observations.covariance)

    def __call__(self, omega: Array, V: float) -> Output:
        """The linear channel; its loss is that of the plain attention at omega."""
        spread = V + self.problem.noise / 2
        f = self.inverse @ (self.scores - omega) / spread
        return Output(f, len(f) / spread, self.loss(omega))

    def loss(self, z: Array) -> float:
        """Mean of ||y - softmax_rows(beta0 h)||^2 at logits z."""
        return self.observations.mean_loss(z, self.problem.beta0)
