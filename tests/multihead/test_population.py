"""Sobol population loss against simulation, finite differences and its own symmetries."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hdattn.errors import UserError
from hdattn.multihead.activations import ACTIVATIONS, get_activation
from hdattn.multihead.bayes import bayes_point
from hdattn.multihead.population import PopulationLoss
from hdattn.multihead.priors import DiscretePrior, FlippingPrior, GaussianPrior

TOKENS = 4
PRIOR = FlippingPrior([0.8, 0.0], [0.0, 2.0])
GAUSS = GaussianPrior([0.8, 0.0], [0.5, 2.0])
POINTS = DiscretePrior([[0.8, 1.0], [0.5, -2.0], [1.0, 0.0]], [0.5, 0.3, 0.2])
M = np.array([[0.7, 1.0], [0.6, -0.8], [0.3, 0.4]])
V = np.array([[0.5, 0.1, 0.0], [0.1, 0.4, -0.2], [0.0, -0.2, 0.6]])
B = np.array([-0.3, 0.2, 0.0])
C = 1.2
NAMES = sorted(ACTIVATIONS)


def _loss(name, prior=PRIOR, **options):
    return PopulationLoss(get_activation(name), TOKENS, prior, **options)


def _simulated_scores(prior, samples, dim, rng):
    """Scores [H, L, n] of sequences drawn in R^D, signal in token 0, with heads of overlaps M."""
    frame = np.linalg.qr(rng.standard_normal((dim, 5)))[0].T
    heads = np.hstack([M, V]) @ frame
    tokens = rng.standard_normal((TOKENS, samples, dim))
    tokens[0] += prior.sample(rng, samples) @ frame[:2]
    return np.einsum("hd,lnd->hln", heads, tokens)


@pytest.mark.parametrize("prior", [PRIOR, GAUSS, POINTS], ids=lambda prior: prior.kind)
@pytest.mark.parametrize("name", NAMES)
def test_loss_and_score_covariance_agree_with_simulation(name, prior):
    activation = get_activation(name)
    chi = _simulated_scores(prior, 60_000, 12, np.random.default_rng(3))
    attention, weights = activation.forward(chi, B, C)
    error = attention - np.array([1.0, 0, 0, 0])[:, None]
    d, _, _ = activation.pullback(weights, attention, C, 2.0 * error)
    products = np.einsum("hln,kln->hkn", d, d).reshape(9, -1)
    samples = np.vstack([np.sum(error**2, axis=0), products])

    at = _loss(name, prior=prior, noise_dim=3, base_points=2**13).evaluate(
        np.hstack([M, V]), B, C, covariance=True
    )
    theory = np.append(at.loss, at.score_covariance)
    # Four standard errors of the simulation, and 2e-4 for the Sobol points (2^13, measured).
    bound = 4 * samples.std(axis=1) / np.sqrt(samples.shape[1]) + 2e-4
    assert np.all(np.abs(samples.mean(axis=1) - theory) < bound)


@pytest.mark.parametrize("prior", [PRIOR, GAUSS, POINTS], ids=lambda prior: prior.kind)
@pytest.mark.parametrize("noise_dim", [0, 3])
@pytest.mark.parametrize("name", NAMES)
def test_gradient_is_the_derivative_of_the_loss(name, noise_dim, prior):
    population = _loss(name, prior=prior, noise_dim=noise_dim, base_points=64)
    shape = (3, 2 + noise_dim)
    start = np.concatenate([np.hstack([M, V])[:, : shape[1]].ravel(), B, [C]])

    def loss(x):
        return population.loss(x[:-4].reshape(shape), x[-4:-1], x[-1])

    at = population.evaluate(start[:-4].reshape(shape), B, C)
    ours = np.concatenate([at.grad_weights.ravel(), at.grad_b, [at.grad_c]])
    step = 1e-5
    steps = step * np.eye(start.size)
    differences = [(loss(start + s) - loss(start - s)) / (2 * step) for s in steps]
    # Central differences: truncation of order step^2 = 1e-10, rounding 1e-16 / step = 1e-11.
    np.testing.assert_allclose(ours, differences, atol=2e-9)
    assert at.loss == pytest.approx(loss(start), abs=1e-14)


def _torch_attention(name, chi, b, c):
    """Attention [L, n] of scores [H, L, n], written anew."""
    if name == "bayes":
        shifted = chi + b[:, None, None]
        return torch.softmax(shifted.flatten(0, 1), dim=0).view_as(chi).sum(dim=0)
    if name == "softmax":
        return torch.softmax(chi, dim=1).mean(dim=0)
    idle = (-b)[:, None, None].expand(-1, 1, chi.shape[2])
    return c * torch.softmax(torch.cat([chi, idle], dim=1), dim=1)[:, :-1].mean(dim=0)


@pytest.mark.parametrize("prior", [PRIOR, GAUSS, POINTS], ids=lambda prior: prior.kind)
@pytest.mark.parametrize("name", NAMES)
def test_gradient_is_that_of_autograd_on_the_same_points(name, prior):
    population = _loss(name, prior=prior, noise_dim=3, base_points=64)
    start = (np.hstack([M, V]), B, C)
    weights, b, c = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in start)
    noise = np.concatenate(population.blocks, axis=-1)
    loss = 0.0
    for p, signs, center in zip(
        population.images.weights, population.signs, population.centers, strict=True
    ):
        x = noise * signs[:, None, None]
        x[:, 0] += center[:, None]
        chi = torch.einsum("hf,fln->hln", weights, torch.from_numpy(x))
        missed = _torch_attention(name, chi, b, c) - torch.eye(TOKENS, 1, dtype=chi.dtype)
        loss = loss + p * missed.square().sum(dim=0).mean()
    loss.backward()
    at = population.evaluate(np.hstack([M, V]), B, C)
    # The same sums in another order: rounding.
    assert at.loss == pytest.approx(loss.item(), abs=1e-14)
    np.testing.assert_allclose(at.grad_weights, weights.grad.numpy(), atol=1e-14)
    for ours, theirs in ((at.grad_b, b.grad), (at.grad_c, c.grad)):
        np.testing.assert_allclose(ours, 0.0 if theirs is None else theirs.numpy(), atol=1e-14)


@pytest.mark.parametrize("prior", [PRIOR, GaussianPrior([0.8, 0.0], [0.0, 2.0])])
@pytest.mark.parametrize("name", NAMES)
def test_loss_is_even_along_a_direction_of_zero_mean(name, prior):
    population = _loss(name, prior=prior, noise_dim=3, base_points=256)
    mirror = np.array([1.0, -1.0, -1.0, -1.0, -1.0])
    weights = np.hstack([M, V])
    at, mirrored = (population.evaluate(w, B, C) for w in (weights, weights * mirror))
    # The images are the same points in another order: rounding of sums of order one.
    assert at.loss == pytest.approx(mirrored.loss, abs=1e-14)
    np.testing.assert_allclose(at.grad_weights, mirrored.grad_weights * mirror, atol=1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_equal_heads_have_equal_gradients(name):
    weights = np.tile(np.hstack([M, V])[:1], (4, 1))
    at = PopulationLoss(get_activation(name), TOKENS, PRIOR, noise_dim=3, base_points=256).evaluate(
        weights
    )
    np.testing.assert_allclose(at.grad_weights, np.tile(at.grad_weights[:1], (4, 1)), atol=1e-15)


def test_bayes_point_has_zero_gradient():
    prior = FlippingPrior([0.8, 0.3], [0.0, 2.0])
    weights, b = bayes_point(prior)
    population = _loss("bayes", prior=prior, base_points=2**13)
    at = population.evaluate(weights, b)
    away = population.evaluate(0.5 * weights, b)
    # Sampling error at 2^13 base points, largest over ten seeds: 1.2e-3 and 3e-4.
    assert np.max(np.abs(at.grad_weights)) < 2.5e-3
    assert np.max(np.abs(at.grad_b)) < 1e-3
    assert np.max(np.abs(away.grad_weights)) > 0.1
    assert np.max(np.abs(away.grad_b)) > 0.03


def test_points_depend_on_the_seed_only():
    one, same, other = (
        _loss("softmax", base_points=128, seed=seed).evaluate(M).loss for seed in (1, 1, 2)
    )
    assert one == same
    assert one != other


@pytest.mark.parametrize(
    ("tokens", "options", "message"),
    [
        (1, {}, "at least 2"),
        (4, {"base_points": 1000}, "power of two"),
        (4, {"base_points": 1}, "power of two"),
    ],
)
def test_impossible_sizes_are_refused(tokens, options, message):
    with pytest.raises(UserError, match=message):
        PopulationLoss(get_activation("softmax"), tokens, PRIOR, **options)
