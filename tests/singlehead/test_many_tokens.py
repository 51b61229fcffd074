"""Any number of tokens: derivatives, global prox, quadrature against the lattice, training."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from hdattn.singlehead.attention import softmax_rows
from hdattn.singlehead.channel import Block
from hdattn.singlehead.erm import draw_start, train
from hdattn.singlehead.example_channels import HuberLoss, LinearAttention
from hdattn.singlehead.many_tokens import ManyTokenChannel
from hdattn.singlehead.measure import measure
from hdattn.singlehead.population import attention_error, sampled_error
from hdattn.singlehead.problem import Problem
from hdattn.singlehead.sampled_channel import product_variances
from hdattn.singlehead.samples import SampleStream, draw_teacher
from hdattn.singlehead.state_evolution import make_channel, solve
from hdattn.singlehead.targets import Spectrum
from hdattn.singlehead.token_basis import score_map
from hdattn.singlehead.two_tokens import TwoTokenChannel, steepest_concavity

P = 1.75  # Q0 + noise/2 at kappa0 = .5, noise = .5
EASY, HARD = (1.19449, 1.32874, 0.154704), (1.4624, 1.3810, 2.303)


def some(tokens, count=64, beta=1.3, beta0=0.8, kind=ManyTokenChannel):
    """A channel with a block of random samples, and random z."""
    problem = Problem(1.0, 0.1, tokens=tokens, beta=beta, beta0=beta0)
    channel = kind(problem, 0)
    rng, K = np.random.default_rng(tokens), channel.dimension
    label_scores, eta, z = 2 * rng.standard_normal((3, K, count))
    channel.add_points(np.full(count, 1 / count), label_scores, eta)
    return channel, channel.blocks[0], z


@pytest.mark.parametrize("kind", [ManyTokenChannel, LinearAttention, HuberLoss])
@pytest.mark.parametrize("tokens", [2, 3, 5])
def test_derivatives_are_those_of_the_loss(tokens, kind):
    channel, block, z = some(tokens, kind=kind)
    _, gradient = channel.loss_gradient(block.y, z)
    hessian, pull = channel.hessian(block.y, z), channel.label_pull(block, z)
    for k in range(channel.dimension):
        step = np.zeros((channel.dimension, 1))
        step[k] = 1e-6
        (up, g_up), (down, g_down) = (channel.loss_gradient(block.y, z + s) for s in (step, -step))
        # central differences of step 1e-6: 1e-12 and rounding of 1e-9; no residual of these samples
        # is that close to the kink in the slope of the Huber loss
        np.testing.assert_allclose(gradient[k], (up - down) / 2e-6, atol=1e-7)
        np.testing.assert_allclose(hessian[k], (g_up - g_down) / 2e-6, atol=1e-7)
        labels = (channel.label(block.label_scores + s) for s in (step, -step))
        up, down = (channel.loss_gradient(y, z)[0] for y in labels)
        np.testing.assert_allclose(pull[k], (up - down) / 2e-6, atol=1e-6)
    convex = np.moveaxis(channel.convex_hessian(block.y, z), 2, 0)
    assert np.linalg.eigvalsh(convex)[:, 0].min() > -1e-12


def test_loss_is_that_of_the_attention_with_the_covariance_of_the_scores():
    # h = L z: its loss written out, and Var h_ab = 1 + delta_ab without correlations
    channel, block, z = some(3)
    h = (score_map(3) @ z).T.reshape(-1, 3, 3)
    plain = ((softmax_rows(1.3 * h) - block.y.T.reshape(-1, 3, 3)) ** 2).sum(axis=(1, 2))
    np.testing.assert_allclose(channel.loss_gradient(block.y, z)[0], plain, rtol=1e-12)
    L = score_map(3) - score_map(3).mean(0)
    full = np.eye(9)
    for a in range(3):
        for b in range(3):
            full[3 * a + b, 3 * b + a] = 1.0
            full[3 * a + b, 3 * a + b] = 1.0 + (a == b)
    centre = np.eye(9) - 1 / 9  # the softmax ignores a constant
    np.testing.assert_allclose((L * product_variances(3)) @ L.T, centre @ full @ centre, atol=1e-12)


@pytest.mark.parametrize("tokens", [3, 4, 6])
def test_concavity_is_bounded_row_by_row(tokens):
    # random labels, two thirds of them near corners, and random rows: v^T l'' v >= -2 c(y) |v|^2
    rng = np.random.default_rng(0)
    y = rng.dirichlet(np.full(tokens, 0.2), size=4000)
    y[::3] = rng.dirichlet(np.ones(tokens), size=len(y[::3]))
    A = softmax_rows(3 * rng.standard_normal((4000, tokens)))
    r = A - y
    weight = A + r - (A * r).sum(1, keepdims=True)
    square = (A**2).sum(1)[:, None, None]
    pair = A[:, :, None] * A[:, None, :]
    hessian = -2 * pair * (weight[:, :, None] + weight[:, None, :] - square)
    index = np.arange(tokens)
    hessian[:, index, index] += 2 * A * weight
    lowest = np.linalg.eigvalsh(hessian)[:, 0]
    bound = -2 * steepest_concavity((1 + np.ptp(y, axis=1)) / 2)
    assert np.all(lowest > bound)
    assert lowest.min() < 0.8 * bound.min()  # and it is not far from being reached


def test_prox_is_the_global_minimum():
    # 25 random starts of scipy's minimiser find nothing lower; labels and omega at odds
    channel, block, _ = some(3, count=8, beta=1.0, beta0=1.0)
    V, omega = 6.0, 1.5 * block.eta
    lowest = channel._descend_first(block, omega, V, cold=True)
    second = channel._descend_second(block, omega, V)
    lowest[block.index] = np.minimum(lowest[block.index], second)
    rng = np.random.default_rng(1)
    for i in range(8):

        def value(z, i=i):
            loss, gradient = channel.loss_gradient(block.y[:, [i]], z[:, None])
            shift = z - omega[:, i]
            pull = shift / channel.variances
            return V * loss[0] + shift @ pull / 2, V * gradient[:, 0] + pull

        starts = omega[:, i] + 3 * rng.standard_normal((25, 5))
        best = min(minimize(value, s, jac=True, tol=1e-10).fun for s in starts)
        assert lowest[i] <= best + 1e-7


@pytest.mark.parametrize("point", [EASY, HARD])
def test_moments_are_those_of_the_lattice(point):
    # at two tokens the lattice is right to 1e-5; the replicas say what the points are worth
    exact = TwoTokenChannel(P, 1.0, 1.0, 18).moments(*point)
    channel = ManyTokenChannel(Problem(1.0, 0.1), 14)
    moments = channel.moments(*point)
    for name in ("v_hat", "m_hat", "q_hat", "train_loss"):
        parts = [getattr(replica.moments(*point), name) for replica in channel.replicas()]
        error = np.std(parts, ddof=1) / 2
        # 5: an error estimated from four parts is itself uncertain to 40 %
        assert abs(getattr(moments, name) - getattr(exact, name)) < 5 * error + 1e-4
        assert error < 0.01 * getattr(exact, name)
        assert getattr(moments, name) == pytest.approx(np.mean(parts), rel=1e-6)
    v2 = TwoTokenChannel(P, 1.0, 1.0, 18)
    v2.moments(*point)
    expected = v2.response_square_mean(point[2])
    assert channel.response_square_mean(point[2]) == pytest.approx(expected, rel=6e-3)


def test_solution_of_two_tokens_within_the_stated_error():
    problem = Problem(1.0, 0.1)
    exact = solve(problem)
    sampled = solve(problem, nodes=12, channel=ManyTokenChannel)
    assert sampled.converged and set(sampled.quadrature_error) == {"Q", "M", "V", "test_error"}
    for name, error in sampled.quadrature_error.items():
        assert abs(getattr(sampled, name) - getattr(exact, name)) < 5 * error + 1e-4
        assert 0 < error < 0.01 * getattr(exact, name)
    assert exact.quadrature_error == {}


def test_small_spread_of_omega_leaves_no_noise():
    # v_hat at Q -> 0 is that of S = 0, where omega = 0 for all samples: smooth in sqrt(Q)
    channel = make_channel(Problem(1.0, 0.1, tokens=3), 12)
    v_hat = [channel.moments(Q, 0.0, 1.0, cold=True).v_hat for Q in (1e-10, 1e-6, 1e-3)]
    np.testing.assert_allclose(v_hat[:2], v_hat[2], rtol=2e-3)


def test_envelope_identity():
    # central difference of step 2 % in lambda: 1e-4; the points are the same on both sides
    problem, step = Problem(0.8, 0.05, tokens=3), 0.02
    up, down = (
        solve(replace(problem, lam=problem.lam * f), nodes=12).objective
        for f in (1 + step, 1 - step)
    )
    middle = solve(problem, nodes=12)
    trace = middle.penalty_value * problem.alpha / problem.lam_eff
    slope = (up - down) / (2 * step * problem.lam)
    # the identity holds in the limit of many points: 1 % at 2^12
    assert slope == pytest.approx(trace / problem.alpha, rel=0.01)


def test_error_of_rows_is_that_of_whole_matrices():
    # at two tokens against quadrature (2^15 points: 1e-4), at three against 2e5 draws of S-free h
    assert sampled_error(1.2, 1.3, P, 1.0, 1.0, 2) == pytest.approx(
        attention_error(1.2, 1.3, P, 1.0, 1.0), rel=5e-4
    )
    rng, root = np.random.default_rng(0), np.sqrt(product_variances(3))[:, None]
    z0, eta = root * rng.standard_normal((2, 5, 200_000))
    Q, M = 1.1, 0.9
    z = M / P * np.sqrt(P) * z0 + np.sqrt(Q - M**2 / P) * eta
    labels, outputs = (
        softmax_rows(b * (score_map(3) @ w).T.reshape(-1, 3, 3))
        for b, w in ((0.7, np.sqrt(P) * z0), (1.2, z))
    )
    losses = ((labels - outputs) ** 2).sum(axis=(1, 2))
    error = losses.std() / np.sqrt(losses.size)
    assert abs(sampled_error(Q, M, P, 1.2, 0.7, 3) - losses.mean()) < 4 * error


@pytest.mark.parametrize("alpha, lam", [(0.8, 0.05)])
def test_theory_agrees_with_training_of_three_tokens(alpha, lam):
    dim, differences = 40, []
    data = {"dim": dim, "target": {"kind": "mp", "kappa0": 0.5}, "noise": 0.5, "tokens": 3}
    data["beta0"] = 1.0
    samples = round(alpha * dim**2)
    for instance in range(3):
        teacher = draw_teacher(data, 0, instance)
        x, y = SampleStream(data, 0, instance, teacher).rows(0, samples)
        start = draw_start(data, 0, instance, 1.0)
        fitted = train(x, y, lam=lam, kappa=1.0, start=start)
        test = SampleStream(data, 0, instance, teacher, "test")
        measured = measure(fitted.W, teacher, test, test_samples=8192)
        own = Problem(alpha, lam, tokens=3, target=Spectrum(teacher.eigenvalues))
        theory = solve(own, nodes=12)
        pairs = (
            (measured.Q, theory.Q),
            (measured.M, theory.M),
            (measured.test_error, theory.test_error),
            (fitted.train_loss, theory.train_loss),
            (fitted.objective, theory.objective),
        )
        differences.append([found / expected - 1 for found, expected in pairs])
    mean, spread = np.mean(differences, axis=0), np.std(differences, axis=0, ddof=1) / np.sqrt(3)
    # three standard errors of three instances, a finite size of 2/d, .5 % of the quadrature
    assert np.all(np.abs(mean) < 3 * spread + 2 / dim + 0.005), mean


def test_doubtful_samples_are_all_that_have_two_minima():
    channel, block, _ = some(3, count=2000, beta=1.0, beta0=1.0)
    scores = 0.6 * block.label_scores
    block = Block(block.weights, scores, block.eta, channel.label(scores))
    V, omega = 2.0, 2 * block.eta
    doubtful = set(channel.doubtful(block, V))
    assert len(doubtful) < 2000 and not channel.doubtful(block, 0.5).size
    first = channel.descend(block.y, omega, V, omega)[0]
    other = channel.descend(block.y, omega, V, channel.label_logits(block))[0]
    two = np.flatnonzero(np.abs(first - other).max(0) > 1e-3)
    assert two.size and set(two) <= doubtful
