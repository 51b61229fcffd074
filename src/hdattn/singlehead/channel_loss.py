"""Training on the loss of any channel of the products that the softmax sees."""

from __future__ import annotations

import numpy as np

from hdattn.singlehead.attention import Array
from hdattn.singlehead.observations import Observations
from hdattn.singlehead.problem import Problem
from hdattn.singlehead.sampled_channel import SampledChannel


class ChannelLoss:
    """Sum of l(y, z(S)) over a training set, for :func:`hdattn.singlehead.erm.fit`.

    channel: a subclass of SampledChannel, for a symmetric S. Labels are made from the noisy scores
    of the target, which the attention that the samples come with reveals.
    """

    symmetric = True

    def __init__(self, observations: Observations, problem: Problem, channel: type[SampledChannel]):
        self.observations, self.channel = observations, channel(problem, 0)
        self.beta, self.tokens = problem.beta, observations.tokens
        self.dim, self.samples = observations.dim, observations.samples
        self.y = self.channel.label(observations.label_scores(problem.beta0))

    def value_and_gradient(self, s: Array) -> tuple[float, Array]:
        """Loss and its gradient [d, d] (symmetric) at symmetric s [d, d]."""
        loss, gradient = self.channel.loss_gradient(self.y, self.observations.logits(s))
        return float(np.sum(loss)), self.observations.adjoint(gradient)
