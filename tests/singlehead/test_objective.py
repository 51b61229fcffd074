"""The loss of S: value by definition, gradient by finite differences and by autograd."""

import itertools

import numpy as np
import pytest
import torch

from hdattn.errors import UserError
from hdattn.singlehead.erm import penalised
from hdattn.singlehead.objective import AttentionLoss, attention_loss
from hdattn.singlehead.token_basis import score_map, token_basis
from hdattn.singlehead.torch_objective import TorchAttentionLoss

BETA, LAM = 1.3, 0.2


def problem(tokens, dim=7, width=5, samples=40, seed=0):
    """Random tokens, labels and factor; labels need not come from a teacher here."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((samples, tokens, dim))
    y = rng.dirichlet(np.ones(tokens), (samples, tokens))
    return x, y, rng.standard_normal((dim, width))


def torch_objective(x, y, weights):
    """Objective per sample written as the model defines it, on W, for autograd."""
    x, y = torch.tensor(x), torch.tensor(y)
    dim, width = weights.shape
    s = weights @ weights.T / (width * dim) ** 0.5
    h = torch.einsum("nad,de,nbe->nab", x, s, x) - torch.trace(s) * torch.eye(
        x.shape[1], dtype=s.dtype
    )
    attention = torch.softmax(BETA * h / dim**0.5, dim=-1)
    return (((y - attention) ** 2).sum() + LAM * (weights**2).sum()) / len(x)


@pytest.mark.parametrize("tokens", [2, 3, 5])
@pytest.mark.parametrize("width", [3, 7, 9])
def test_value_and_gradient_against_autograd(tokens, width):
    x, y, weights = problem(tokens, width=width)
    leaf = torch.tensor(weights, requires_grad=True)
    expected = torch_objective(x, y, leaf)
    expected.backward()
    value, gradient = penalised(AttentionLoss([(x, y)], BETA), LAM, weights.shape)(weights.ravel())
    # two float64 evaluations of the same expression: rounding only
    assert value == pytest.approx(expected.item(), rel=1e-13)
    np.testing.assert_allclose(gradient, leaf.grad.numpy().ravel(), atol=1e-13)


@pytest.mark.parametrize("tokens", [2, 3])
def test_gradient_against_finite_differences(tokens):
    x, y, weights = problem(tokens)
    function = penalised(AttentionLoss([(x, y)], BETA), LAM, weights.shape)
    w = weights.ravel()
    gradient = function(w)[1]
    step = 1e-5
    for i in range(0, w.size, 6):
        bump = step * (np.arange(w.size) == i)
        difference = (function(w + bump)[0] - function(w - bump)[0]) / (2 * step)
        # central differences: truncation of order step^2, rounding of order 1e-16/step
        assert gradient[i] == pytest.approx(difference, abs=1e-9)


def test_gradient_in_s_is_the_symmetric_derivative():
    x, y, _ = problem(tokens=2)
    loss = AttentionLoss([(x, y)], BETA)
    rng = np.random.default_rng(3)
    s, change = (a + a.T for a in rng.standard_normal((2, 7, 7)))
    step = 1e-5
    plus, minus = (loss.value_and_gradient(s + sign * step * change)[0] for sign in (1, -1))
    value, gradient = loss.value_and_gradient(s)
    np.testing.assert_array_equal(gradient, gradient.T)
    assert np.vdot(gradient, change) == pytest.approx((plus - minus) / (2 * step), rel=1e-7)
    assert loss.sample_losses(s).sum() == pytest.approx(value, rel=1e-13)
    assert loss.sample_losses(s).shape == (40,)


@pytest.mark.parametrize("tokens", [2, 3])
def test_bits_do_not_depend_on_how_batches_are_cut(tokens):
    x, y, _ = problem(tokens, samples=2500)
    s = np.eye(7)
    whole = AttentionLoss([(x, y)]).value_and_gradient(s)
    edges = [0, 1, 700, 701, 1900, 2500]
    cut = [(x[a:b], y[a:b]) for a, b in itertools.pairwise(edges)]
    parts = AttentionLoss(iter(cut)).value_and_gradient(s)
    assert whole[0] == parts[0]
    np.testing.assert_array_equal(whole[1], parts[1])


@pytest.mark.parametrize("tokens", [2, 4])
def test_torch_backend_agrees_with_numpy(tokens):
    x, y, weights = problem(tokens, samples=1500)
    s = weights @ weights.T
    ours = AttentionLoss([(x, y)], BETA)
    theirs = TorchAttentionLoss([(x, y)], BETA, device="cpu")
    value, gradient = ours.value_and_gradient(s)
    torch_value, torch_gradient = theirs.value_and_gradient(s)
    assert torch_value == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(torch_gradient, gradient, atol=1e-11 * np.abs(gradient).max())
    np.testing.assert_allclose(theirs.sample_losses(s), ours.sample_losses(s), rtol=1e-11)
    assert (theirs.samples, theirs.dim, theirs.tokens) == (1500, 7, tokens)


def test_large_logits_stay_finite():
    x, y, _ = problem(tokens=3)
    value, gradient = AttentionLoss([(x, y)]).value_and_gradient(1e6 * np.eye(7))
    assert np.isfinite(value) and np.all(np.isfinite(gradient))


@pytest.mark.parametrize("tokens", [2, 3, 6])
def test_token_basis_is_orthonormal_and_products_give_scores_up_to_a_constant(tokens):
    basis = token_basis(tokens)
    np.testing.assert_allclose(basis @ basis.T, np.eye(tokens), atol=1e-14)
    np.testing.assert_allclose(basis[0], tokens**-0.5)
    h = np.random.default_rng(1).standard_normal((tokens, tokens))
    h += h.T
    rotated = basis @ h @ basis.T
    seen = [rotated[j, k] for k in range(1, tokens) for j in range(k + 1)]
    rest = h.ravel() - score_map(tokens) @ seen
    np.testing.assert_allclose(rest, rest[0], atol=1e-13)
    assert len(seen) == tokens * (tokens + 1) // 2 - 1


def test_bad_samples_and_devices_are_refused():
    x, y, _ = problem(tokens=2)
    for batches in ([], [(x, y[:5])], [(x[:, :1], y[:, :1, :1])], [(x[0], y[0])]):
        with pytest.raises(UserError):
            AttentionLoss(batches)
    with pytest.raises(UserError, match="cannot be used"):
        attention_loss([(x, y)], device="no such device")
    assert isinstance(attention_loss([(x, y)], device="cpu"), AttentionLoss)
