"""Output channel: the prox is global, Stein's identity, quadrature against Monte Carlo."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from hdattn.singlehead.channel import Block
from hdattn.singlehead.two_tokens import (
    COVARIANCE,
    TwoTokenChannel,
    colour,
    descend,
    loss_terms,
    steepest_concavity,
)

P = 1.75  # Q0 + noise/2 at kappa0 = .5, noise = .5
EASY = (1.19449, 1.32874, 0.154704)
HARD = (1.4624, 1.3810, 2.303)


def sample(rng, count, Q, M, prior_variance=P):
    """Independent draws of (z0', omega, label), by Cholesky: no code of the package."""
    root = np.linalg.cholesky(COVARIANCE)
    z0, eta = root @ rng.normal(size=(2, count)), root @ rng.normal(size=(2, count))
    z0 = np.sqrt(prior_variance) * z0
    omega = M / prior_variance * z0 + np.sqrt(Q - M**2 / prior_variance) * eta
    return z0, omega, expit(z0)


def brute_force_value(y, omega, V, beta):
    """Least value of V l + (z - omega)^T C^{-1} (z - omega)/2 by a grid and a polish."""

    def value(z):
        shift = z - omega
        loss = 2 * np.sum((y - expit(beta * z)) ** 2)
        return V * loss + shift @ np.linalg.solve(COVARIANCE, shift) / 2

    axis = np.linspace(-25, 25, 126)
    u, v = np.meshgrid(axis, axis, indexing="ij")
    du, dv = u - omega[0], v - omega[1]
    loss = 2 * (y[0] - expit(beta * u)) ** 2 + 2 * (y[1] - expit(beta * v)) ** 2
    grid = V * loss + (3 * du**2 - 2 * du * dv + 3 * dv**2) / 16
    best = np.unravel_index(np.argmin(grid), grid.shape)
    return minimize(value, np.array([u[best], v[best]]), tol=1e-10).fun


@pytest.mark.parametrize(("V", "beta", "spread"), [(0.5, 1, 1), (3, 1, 2), (30, 1, 2.5), (8, 2, 2)])
def test_prox_is_the_global_minimum(V, beta, spread):
    # samples with labels and omega at odds, where up to four minima compete; the polish of the
    # brute force is good to 1e-8
    count = 60
    z0, omega, _ = sample(np.random.default_rng(3), count, 1.5, 0.3)
    omega = spread * omega
    channel = TwoTokenChannel(P, beta, beta, 4)
    channel.blocks = []
    channel.add_points(np.full(count, 1 / count), spread * z0 / beta, omega)
    (block,) = channel.blocks
    lowest = channel._descend_first(block, omega, V, cold=True)
    second = channel._descend_second(block, omega, V)
    lowest[block.index] = np.minimum(lowest[block.index], second)
    assert (block.index.size > 0) == (V > 1)
    expected = [brute_force_value(block.y[:, i], omega[:, i], V, beta) for i in range(count)]
    np.testing.assert_allclose(lowest, expected, rtol=1e-6, atol=1e-8)


def test_concavity_bound_holds_and_is_tight():
    # exact maximum of -l''/beta^2 over z by a fine grid; the table may exceed it by .002
    y, z = np.linspace(0, 1, 101), np.linspace(-30, 30, 6001)
    second = loss_terms(y[:, None], z[None, :], 1.0)[2]
    exact = (-second).max(1)
    bound = steepest_concavity(y)
    assert np.all(bound >= exact - 1e-9)
    assert np.all(bound <= exact + 2e-3)


@pytest.mark.parametrize("point", [EASY, HARD])
def test_lattice_agrees_with_monte_carlo(point):
    # 4e5 draws: five standard errors of each mean; the lattice's own error (1e-5) is far below
    Q, M, V = point
    rng = np.random.default_rng(11)
    z0, omega, y = sample(rng, 400_000, Q, M)
    z, _ = descend(y, omega, V, 1.0, omega)
    loss, first, _ = loss_terms(y, z, 1.0)
    f = -first
    draws = {
        "q_hat": ((COVARIANCE @ f) * f).sum(0),
        "train_loss": loss.sum(0),
        "pull_omega": (f * omega).sum(0),
        "pull_label": (f * z0).sum(0),
    }
    moments = TwoTokenChannel(P, 1.0, 1.0, 18).moments(Q, M, V)
    theory = {
        "q_hat": moments.q_hat,
        "train_loss": moments.train_loss,
        "pull_omega": -Q * moments.v_hat + M * moments.m_hat,
        "pull_label": -M * moments.v_hat + P * moments.m_hat,
    }
    for name, draw in draws.items():
        error = draw.std() / np.sqrt(draw.size)
        assert abs(draw.mean() - theory[name]) < 5 * error + 1e-5, name


def derivative_form(channel, Q, M, V, step=1e-4):
    """v_hat = -E Tr(C df/domega), m_hat = E Tr(C df/dz0') by central differences of f."""
    v_hat = m_hat = 0.0
    ratio, spread = M / channel.prior_variance, np.sqrt(Q - M**2 / channel.prior_variance)

    def force(block, omega, y):
        starts = (omega, channel.label_logits(block))
        found = [descend(y, omega, V, channel.beta, start) for start in starts]
        z = np.where(found[1][1] < found[0][1], found[1][0], found[0][0])
        return -loss_terms(y, z, channel.beta)[1]

    for block in channel.blocks:
        omega = ratio * block.label_scores + spread * block.eta
        for j in range(2):
            shift = np.zeros((2, 1))
            shift[j] = step
            by_omega = force(block, omega + shift, block.y) - force(block, omega - shift, block.y)
            up = Block(block.weights, block.label_scores + shift, block.eta, block.y)
            down = Block(block.weights, block.label_scores - shift, block.eta, block.y)
            by_label = force(up, omega, channel.label(up.label_scores)) - force(
                down, omega, channel.label(down.label_scores)
            )
            v_hat -= block.weights @ (COVARIANCE[j] @ by_omega) / (2 * step)
            m_hat += block.weights @ (COVARIANCE[j] @ by_label) / (2 * step)
    return v_hat, m_hat


def test_stein_form_is_the_mean_derivative_where_the_prox_is_smooth():
    # both by the same lattice, whose error on either is a few 1e-6 at 18 nodes; step 1e-4 adds 1e-8
    channel = TwoTokenChannel(P, 1.0, 1.0, 18)
    moments = channel.moments(*EASY)
    v_hat, m_hat = derivative_form(channel, *EASY)
    assert moments.v_hat == pytest.approx(v_hat, rel=3e-5)
    assert moments.m_hat == pytest.approx(m_hat, rel=3e-5)
    assert moments.jump_probability == 0


def test_stein_form_differs_from_the_mean_derivative_where_the_prox_jumps():
    # kappa0 = .5, alpha = .5, lambda = .01, noise = 1: the jumps, of probability 3e-5 in all, are
    # missed by the derivative, which comes out .2 % off (and scatters)
    prior_variance, point = 2.0, (2.156, 1.588, 6.03)
    channel = TwoTokenChannel(prior_variance, 1.0, 1.0, 20)
    moments = channel.moments(*point)
    v_hat, _ = derivative_form(channel, *point)
    assert 1e-6 < moments.jump_probability < 1e-3
    assert 5e-4 < abs(moments.v_hat - v_hat) / v_hat < 1e-2


@pytest.mark.parametrize("V", [0.2, 2.0])
def test_response_is_the_derivative_of_the_force(V):
    # df/domega by central differences of step 1e-4 (error 1e-8), Tr (C df/domega)^2 from them
    rng = np.random.default_rng(0)
    _, omega, y = sample(rng, 50, 1.2, 1.3)
    channel = TwoTokenChannel(P, 1.0, 1.0, 4)
    z, _ = descend(y, omega, V, 1.0, omega)
    jacobian = np.empty((50, 2, 2))
    for j in range(2):
        shift = np.zeros((2, 1))
        shift[j] = 1e-4
        plus, _ = descend(y, omega + shift, V, 1.0, z)
        minus, _ = descend(y, omega - shift, V, 1.0, z)
        f_plus, f_minus = (-loss_terms(y, w, 1.0)[1] for w in (plus, minus))
        jacobian[:, :, j] = (f_plus - f_minus).T / 2e-4
    product = COVARIANCE @ jacobian
    expected = np.einsum("nij,nji->n", product, product)
    np.testing.assert_allclose(channel.response_square(y, z, V), expected, rtol=1e-5, atol=1e-9)


def test_smoothed_jumps_make_the_moments_continuous():
    # with two minima competing on a per cent of the lattice, a relative change 1e-5 of V may move
    # the moments by about as much; without smoothing over cells single points move them by 1e-3
    channel = TwoTokenChannel(2.0, 1.0, 1.0, 10)
    V = 40.0 * (1 + 1e-5 * np.arange(30))
    v_hat = np.array([channel.moments(4.0, 1.5, v, cold=True).v_hat for v in V])
    assert channel.moments(4.0, 1.5, 40.0, cold=True).jump_probability > 1e-3
    assert np.abs(np.diff(v_hat) / v_hat[0]).max() < 1e-4


def test_colour_has_the_covariance_of_the_scores():
    # exact: u = sqrt(2) e + o, v = sqrt(2) e - o
    unit = colour(np.eye(2))
    np.testing.assert_allclose(unit @ unit.T, COVARIANCE, rtol=1e-14)
