"""Channels of one's own: the examples against closed forms, training and message passing."""

import re
from pathlib import Path

import numpy as np
import pytest

from hdattn.errors import UserError
from hdattn.singlehead.amp import MessagePassing
from hdattn.singlehead.channel_loss import ChannelLoss
from hdattn.singlehead.erm import fit
from hdattn.singlehead.example_channels import WIDTH, HuberLoss, LinearAttention
from hdattn.singlehead.observations import Observations
from hdattn.singlehead.problem import Problem
from hdattn.singlehead.samples import SampleStream, draw_teacher
from hdattn.singlehead.state_evolution import solve
from hdattn.singlehead.targets import Spectrum

RECIPE = Path(__file__).parents[2] / "docs" / "add-a-channel.md"
ALPHA, LAM, DIM = 1.0, 0.1, 40


def test_huber_loss_is_the_square_of_small_and_linear_in_large_residuals():
    r = np.array([0.5 * WIDTH, WIDTH, -3 * WIDTH, 5 * WIDTH])
    value, slope, _ = HuberLoss.rho(None, r)
    np.testing.assert_allclose(value, WIDTH**2 * np.array([0.25, 1, 5, 9]))
    np.testing.assert_allclose(slope, 2 * WIDTH * np.array([0.5, 1, -1, 1]))


@pytest.mark.parametrize("tokens", [2, 3])
def test_linear_attention_has_a_linear_prox(tokens):
    # l = |B(z - z0')|^2 at beta = beta0 = 1: f = (C + ...)^{-1} in closed form, v_hat = Tr of it
    problem = Problem(ALPHA, LAM, tokens=tokens)
    channel = LinearAttention(problem, 12)
    V, P = 0.7, problem.label_variance
    moments = channel.moments(0.9, 1.0, V)
    hessian = channel.hessian(np.zeros((channel.dimension, 1)), np.zeros((channel.dimension, 1)))
    L, C = hessian[:, :, 0], np.diag(channel.variances)
    response = np.linalg.solve(np.eye(len(C)) + V * L @ C, L)
    v_hat = np.trace(C @ response)
    # quadratic integrands, of which the points have the exact moments
    assert moments.v_hat == pytest.approx(v_hat, rel=1e-8)
    assert moments.m_hat == pytest.approx(v_hat, rel=1e-8)
    spread = np.trace(C @ response @ C @ response)
    assert moments.q_hat == pytest.approx((P - 2 * 1.0 + 0.9) * spread, rel=1e-8)
    assert moments.jump_probability == 0


def trained(kind, instance, tokens=2):
    """Observations, problem and fit of an instance on the channel's own loss."""
    data = {"dim": DIM, "target": {"kind": "mp", "kappa0": 0.5}, "noise": 0.5, "tokens": tokens}
    data["beta0"] = 1.0
    teacher = draw_teacher(data, 0, instance)
    batch = SampleStream(data, 0, instance, teacher).rows(0, round(ALPHA * DIM**2))
    problem = Problem(ALPHA, LAM, tokens=tokens, target=Spectrum(teacher.eigenvalues))
    seen = Observations([batch])
    return seen, teacher, problem, fit(ChannelLoss(seen, problem, kind), lam=LAM, kappa=1.0)


@pytest.mark.parametrize("kind", [LinearAttention, HuberLoss])
def test_theory_of_the_examples_agrees_with_training(kind):
    deviations = []
    for instance in range(3):
        _, teacher, problem, fitted = trained(kind, instance)
        theory = solve(problem, nodes=12, channel=kind)
        assert theory.converged and fitted.converged
        S, S0 = fitted.S, teacher.S0
        found = (np.vdot(S, S) / DIM, np.vdot(S, S0) / DIM, fitted.objective)
        expected = (theory.Q, theory.M, theory.objective)
        deviations.append(np.array(found) / expected - 1)
    mean, error = np.mean(deviations, axis=0), np.std(deviations, axis=0, ddof=1) / np.sqrt(3)
    # three standard errors of three instances, a finite size of 2/d, .5 % of the quadrature
    assert np.all(np.abs(mean) < 3 * error + 2 / DIM + 0.005), mean


@pytest.mark.parametrize("kind", [LinearAttention, HuberLoss])
def test_message_passing_of_the_examples_ends_at_the_minimum(kind):
    seen, _, problem, fitted = trained(kind, 0)
    run = MessagePassing(seen, problem, damping=0.3, channel=kind).run(tol=1e-5)
    assert run.converged
    # both within 1e-8 of the minimum
    assert run.objective == pytest.approx(fitted.objective, rel=1e-6)


def test_channels_of_ones_own_have_no_limit_without_penalty():
    with pytest.raises(UserError, match="lam > 0"):
        solve(Problem(ALPHA, 0.0), channel=LinearAttention)


def test_the_recipe_works_as_written():
    blocks = re.findall(r"```python\n(.*?)```", RECIPE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict = {}
    exec("\n".join(blocks), names)  # the recipe prints nothing; what it makes is checked
    theory, fitted = names["theory"], names["fitted"]
    assert theory.converged and fitted.converged
    # one instance at d = 40: 3/d, and its scatter of a few per cent
    assert fitted.objective == pytest.approx(theory.objective, rel=0.12)
    assert names["run"].objective == pytest.approx(fitted.objective, rel=1e-6)
