"""Activations against plain formulas, autograd and extreme scores."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hdattn.errors import UserError
from hdattn.multihead.activations import ACTIVATIONS, get_activation

HEADS, TOKENS, SAMPLES = 3, 4, 7
NAMES = sorted(ACTIVATIONS)


def _torch_attention(name, chi, b, c):
    """The definitions, written once more: chi [H, L, N], b [H, N], c [N]."""
    exponentials = torch.exp(chi)
    if name == "softmax":
        return (exponentials / exponentials.sum(1, keepdim=True)).mean(0)
    if name == "softmax1":
        z = torch.exp(-b)[:, None] + exponentials.sum(1, keepdim=True)
        return c * (exponentials / z).mean(0)
    joint = exponentials * torch.exp(b)[:, None]
    return (joint / joint.sum((0, 1))).sum(0)


def _inputs(dtype=np.float64):
    rng = np.random.default_rng(5)
    chi = 2.0 * rng.standard_normal((HEADS, TOKENS, SAMPLES))
    b = rng.standard_normal((HEADS, SAMPLES))
    c = 1.0 + 0.3 * rng.standard_normal(SAMPLES)
    e = rng.standard_normal((TOKENS, SAMPLES))
    return [x.astype(dtype) for x in (chi, b, c, e)]


# float32: 1e-7 a rounding, some ten of them on numbers of order one, and exp of scores up to 8.
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-14), (np.float32, 3e-6)])
@pytest.mark.parametrize("name", NAMES)
def test_attention_and_pullback_agree_with_autograd(name, dtype, tolerance):
    chi, b, c, e = _inputs(dtype)
    leaves = [torch.tensor(x.astype(float), requires_grad=True) for x in (chi, b, c)]
    attention = _torch_attention(name, *leaves)
    (attention * torch.tensor(e.astype(float))).sum().backward()

    activation = get_activation(name)
    np.testing.assert_allclose(
        activation.attention(chi, b, c), attention.detach().numpy(), atol=tolerance
    )
    d, db, dc = activation.backward(chi, b, c, e)
    assert d.dtype == dtype
    np.testing.assert_allclose(d, leaves[0].grad.numpy(), atol=tolerance)
    for has, ours, theirs in ((activation.has_b, db, leaves[1]), (activation.has_c, dc, leaves[2])):
        if has:
            np.testing.assert_allclose(ours, theirs.grad.numpy(), atol=tolerance)
        else:
            assert ours is None
            assert theirs.grad is None


@pytest.mark.parametrize("name", NAMES)
def test_biases_of_all_shapes_and_sample_axes_mean_the_same(name):
    chi, b, _, _ = _inputs()
    activation = get_activation(name)
    one = activation.attention(chi, b[:, 0], 1.2)
    each = activation.attention(chi, np.tile(b[:, :1], (1, SAMPLES)), np.full(SAMPLES, 1.2))
    grouped = activation.attention(chi.reshape(HEADS, TOKENS, SAMPLES, 1), b[:, 0], 1.2)
    np.testing.assert_array_equal(one, each)
    np.testing.assert_array_equal(one, grouped[..., 0])
    np.testing.assert_array_equal(
        activation.attention(chi, 0.3), activation.attention(chi, np.full(HEADS, 0.3))
    )


@pytest.mark.parametrize("name", NAMES)
def test_scores_of_any_size_leave_attention_finite(name):
    chi = 1e4 * np.random.default_rng(1).standard_normal((HEADS, TOKENS, SAMPLES))
    activation = get_activation(name)
    attention, weights = activation.forward(chi, np.array([-1e4, 0.0, 1e4]), 1.0)
    d, _, _ = activation.pullback(weights, attention, 1.0, np.ones((TOKENS, SAMPLES)))
    assert np.all(np.isfinite(attention))
    assert np.all(np.isfinite(d))
    # A sum of at most H weights that each sum to at most one; rounding only.
    assert np.all(attention.sum(axis=0) <= 1.0 + 1e-12)


def test_softmax_one_becomes_softmax_when_no_head_can_idle():
    chi, *_ = _inputs()
    # exp(-40) = 4e-18 is below the rounding of Z_h, which is of order one.
    np.testing.assert_allclose(
        get_activation("softmax1").attention(chi, 40.0, 1.0),
        get_activation("softmax").attention(chi),
        rtol=1e-14,
    )


def test_unknown_activation_is_named_with_the_choices():
    with pytest.raises(UserError, match="'relu' is unknown; choose one of bayes, softmax"):
        get_activation("relu")


def test_softmax_one_head_that_hardly_attends():
    """b -> -inf: ``A_l = (c/H) sum_h exp(chi_hl + b_h)``, relative to itself, and no overflow."""
    chi, _, c, e = _inputs()
    activation = get_activation("softmax1")
    for b in (-40.0, -600.0, -1e6):
        attention, weights = activation.forward(chi, b, c)
        expected = c * np.exp(chi + b).mean(axis=0)
        np.testing.assert_allclose(attention, expected, rtol=1e-12)
        d, db, dc = activation.pullback(weights, attention, c, e)
        np.testing.assert_allclose(d, c / HEADS * np.exp(chi + b) * e, rtol=1e-12)
        np.testing.assert_allclose(db, d.sum(axis=1), rtol=1e-12)
        np.testing.assert_allclose(dc * c, (e * attention).sum(axis=0), rtol=1e-9, atol=1e-300)
    np.testing.assert_array_equal(attention, 0)
