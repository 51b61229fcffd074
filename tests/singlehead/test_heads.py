"""Heads other than the tied one, and the task on sequences: definitions, gradients, minima."""

import numpy as np
import pytest

from hdattn.errors import UserError
from hdattn.singlehead.attention import softmax_rows
from hdattn.singlehead.erm import draw_start, fit, penalised, train
from hdattn.singlehead.heads import HEADS
from hdattn.singlehead.measure import measure
from hdattn.singlehead.objective import AttentionLoss
from hdattn.singlehead.paths import fit_path
from hdattn.singlehead.problem import Problem
from hdattn.singlehead.samples import SampleStream, draw_teacher
from hdattn.singlehead.state_evolution import solve
from hdattn.singlehead.targets import Spectrum
from hdattn.singlehead.torch_objective import TorchAttentionLoss

DATA = {"target": {"kind": "mp", "kappa0": 0.5}, "noise": 0.5, "tokens": 2, "beta0": 1.0}
BETA, LAM, KAPPA = 1.3, 0.2, 0.7


def random_samples(tokens, dim=6, samples=30):
    rng = np.random.default_rng(tokens)
    return rng.standard_normal((samples, tokens, dim)), rng.dirichlet(
        np.ones(tokens), (samples, tokens)
    )


def drawn(dim, alpha, instance=0, tokens=2, purpose="train"):
    data = DATA | {"dim": dim, "tokens": tokens}
    teacher = draw_teacher(data, 3, instance)
    stream = SampleStream(data, 3, instance, teacher, purpose)
    return teacher, stream, stream.rows(0, round(alpha * dim**2))


def losses_by_definition(x, y, s, task):
    """Loss of every sample as the model defines it, for any S."""
    dim = x.shape[2]
    h = np.einsum("nad,de,nbe->nab", x, s, x) - np.trace(s) * np.eye(x.shape[1])
    error = y - softmax_rows(BETA * h / np.sqrt(dim))
    if task == "seq2seq":
        return ((error @ x) ** 2).sum(axis=(1, 2)) / dim
    return (error**2).sum(axis=(1, 2))


@pytest.mark.parametrize("task", ["seq2lab", "seq2seq"])
@pytest.mark.parametrize("tokens", [2, 3])
def test_losses_by_definition_for_any_s(task, tokens):
    x, y = random_samples(tokens)
    s = np.random.default_rng(1).standard_normal((6, 6))
    for matrix, symmetric in ((s, False), (s + s.T, True), (s + s.T, False)):
        expected = losses_by_definition(x, y, matrix, task)
        for backend in (AttentionLoss, TorchAttentionLoss):
            options = {"device": "cpu"} if backend is TorchAttentionLoss else {}
            loss = backend([(x, y)], BETA, task=task, symmetric=symmetric, **options)
            # the same expression in another order: rounding only
            np.testing.assert_allclose(loss.sample_losses(matrix), expected, rtol=1e-11)
            assert loss.value_and_gradient(matrix)[0] == pytest.approx(expected.sum(), rel=1e-12)


@pytest.mark.parametrize("task", ["seq2lab", "seq2seq"])
@pytest.mark.parametrize("tokens", [2, 3])
@pytest.mark.parametrize("name", HEADS)
def test_gradients_against_finite_differences(name, tokens, task):
    head, shape = HEADS[name], HEADS[name].shape(6, KAPPA)
    loss = AttentionLoss([random_samples(tokens)], BETA, task=task, symmetric=head.symmetric)
    function = penalised(loss, LAM * head.decay(6, KAPPA), shape, head)
    w = head.draw(np.random.default_rng(2), 6, KAPPA).ravel()
    gradient = function(w)[1]
    for direction in np.random.default_rng(3).standard_normal((8, w.size)):
        if name == "direct":  # weights are symmetric throughout
            matrix = direction.reshape(shape)
            direction = ((matrix + matrix.T) / 2).ravel()
        plus, minus = (function(w + sign * 1e-5 * direction)[0] for sign in (1, -1))
        # central differences: truncation of order step^2, rounding of order 1e-16/step
        assert gradient @ direction == pytest.approx((plus - minus) / 2e-5, abs=2e-8)


@pytest.mark.parametrize("task", ["seq2lab", "seq2seq"])
def test_torch_gradient_agrees_with_numpy(task):
    x, y = random_samples(3)
    s = np.random.default_rng(1).standard_normal((6, 6))
    ours = AttentionLoss([(x, y)], BETA, task=task, symmetric=False).value_and_gradient(s)[1]
    theirs = TorchAttentionLoss([(x, y)], BETA, "cpu", task=task, symmetric=False)
    np.testing.assert_allclose(theirs.value_and_gradient(s)[1], ours, atol=1e-11)


def proximal_descent(loss, prox, penalty, start):
    """Objective per sample and S by proximal gradient: prox(R, step), penalty(S)."""
    s, step = start, 1.0
    value, gradient = loss.value_and_gradient(s)
    value += penalty(s)
    for _ in range(5000):
        trial = prox(s - step * gradient, step)
        trial_value, trial_gradient = loss.value_and_gradient(trial)
        trial_value += penalty(trial)
        if trial_value > value:
            step /= 2
            continue
        if value - trial_value < 1e-13 * value:
            break
        s, value, gradient, step = trial, trial_value, trial_gradient, 1.1 * step
    return value / loss.samples, s


def singular_threshold(r, cut):
    u, values, v = np.linalg.svd(r)
    return (u * np.maximum(values - cut, 0)) @ v


DESCENTS = {  # prox and penalty in S, at kappa = 1: what weight decay amounts to
    "direct": lambda dim, lam: (
        lambda r, step: r / (1 + 2 * step * lam * dim),
        lambda s: lam * dim * np.sum(s**2),
    ),
    "untied": lambda dim, lam: (
        lambda r, step: singular_threshold(r, step * lam * dim),
        lambda s: lam * dim * np.linalg.norm(s, "nuc"),
    ),
}


@pytest.mark.parametrize("task", ["seq2lab", "seq2seq"])
@pytest.mark.parametrize("head, lam", [("direct", 0.1), ("untied", 0.1)])
def test_optimisers_and_proximal_gradient_reach_the_same_minimum(head, lam, task):
    x, y = drawn(12, 1.5)[2]
    loss = AttentionLoss([(x, y)], task=task, symmetric=HEADS[head].symmetric)
    options = {"lam": lam, "kappa": 1, "head": head}
    lbfgs = fit(loss, **options)
    adam = fit(loss, **options, optimizer="adam", tolerance=1e-11)
    objective, s = proximal_descent(loss, *DESCENTS[head](12, lam), np.eye(12))
    assert lbfgs.converged and adam.converged
    # tolerances 1e-8 over ten steps; distances in S go as the square root of the objective's
    assert lbfgs.objective == pytest.approx(objective, rel=1e-8)
    assert adam.objective == pytest.approx(objective, rel=1e-8)
    np.testing.assert_allclose(lbfgs.S, s, atol=5e-4)
    assert lbfgs.objective == pytest.approx(lbfgs.train_loss + lbfgs.penalty_value)


def test_untied_factors_do_no_worse_than_tied_ones_and_leave_the_cone():
    teacher, _, (x, y) = drawn(16, 1)
    tied = train(x, y, lam=0.05, kappa=1)
    untied = train(x, y, lam=0.05, kappa=1, head="untied")
    # every tied S is within reach at the same penalty
    assert untied.objective < tied.objective
    test = drawn(16, 1, purpose="test")[1]
    ours = measure(untied.W, teacher, test, head="untied", test_samples=2048)
    theirs = measure(tied.W, teacher, test, test_samples=2048)
    assert theirs.asymmetry == theirs.negativity == 0
    antisymmetric = (untied.S - untied.S.T) / 2
    share = np.sum(antisymmetric**2) / np.sum(untied.S**2)
    assert ours.asymmetry == pytest.approx(share) and share > 0.01
    values = np.linalg.eigvalsh((untied.S + untied.S.T) / 2)
    assert ours.negativity == pytest.approx(np.sum(values[values < 0] ** 2) / np.sum(values**2))
    # the factors balance: Q^T Q = K^T K
    Q, K = untied.W
    np.testing.assert_allclose(Q.T @ Q, K.T @ K, atol=0.02)


def test_direct_training_agrees_with_the_theory_of_the_frobenius_penalty():
    dim, alpha, lam = 40, 0.5, 0.1
    names = ("Q", "M", "test_error", "train_loss", "objective")
    residuals = []
    for instance in range(6):
        teacher, _, (x, y) = drawn(dim, alpha, instance)
        found = train(x, y, lam=lam, kappa=1, head="direct")
        test = drawn(dim, alpha, instance, purpose="test")[1]
        both = {**vars(found), **vars(measure(found.W, teacher, test, head="direct"))}
        problem = Problem(alpha, lam, target=Spectrum(teacher.eigenvalues), penalty="frobenius")
        theory = solve(problem, nodes=14)
        residuals.append([both[name] / getattr(theory, name) - 1 for name in names])
    mean, error = np.mean(residuals, axis=0), np.std(residuals, axis=0, ddof=1) / np.sqrt(6)
    # 4 standard errors (t of 5 degrees of freedom at 99 %) and 1/d, 1.5/d for errors
    assert np.all(np.abs(mean) < 4 * error + np.array([1, 1, 1.5, 1.5, 1.5]) / dim), mean


def test_a_path_ends_where_separate_trainings_end():
    x, y = drawn(16, 1)[2]
    lams = [0.3, 0.01, 0.05]
    for name, head in HEADS.items():
        loss = AttentionLoss([(x, y)], symmetric=head.symmetric)
        start = draw_start(DATA | {"dim": 16}, 3, 0, 1.0, head=name)
        path = fit_path(loss, lams, kappa=1.0, start=start, head=name)
        for lam, found in zip(lams, path, strict=True):
            alone = fit(loss, lam=lam, kappa=1, start=start, head=name)
            # tolerance 1e-8 over ten steps, at weak penalties up to 1e-6
            assert found.objective == pytest.approx(alone.objective, rel=1e-6)


def test_without_penalty_labels_are_interpolated_below_the_threshold_only():
    # the threshold is .1535, blurred by order 1/d
    below, above = (
        fit(AttentionLoss([drawn(16, alpha)[2]]), lam=0, kappa=1) for alpha in (0.08, 0.6)
    )
    assert below.train_loss < 1e-6 < 1e-3 < above.train_loss


def test_sequences_and_labels_merge_as_d_grows():
    gaps = []
    for dim in (10, 40):
        x, y = drawn(dim, 1)[2]
        fits = [train(x, y, lam=0.1, kappa=1, task=task) for task in ("seq2lab", "seq2seq")]
        distance = np.sum((fits[0].S - fits[1].S) ** 2) / np.sum(fits[0].S ** 2)
        gaps.append(distance)
    # the metric x x^T/d is 1 + O(1/sqrt(d)), sample by sample
    assert gaps[1] < 0.5 * gaps[0] and gaps[1] < 0.05


@pytest.mark.parametrize(
    "change, line",
    [
        ({"head": "twisted"}, "head 'twisted' does not exist; use one of tied, untied, direct"),
        ({"task": "seq2vec"}, "task 'seq2vec' does not exist; use one of seq2lab, seq2seq"),
        ({"lam": -0.1}, "lam is -0.1; give a finite number >= 0"),
        ({"head": "untied", "start": np.ones((6, 6))}, "ask for weights of shape \\(2, 6, 6\\)"),
    ],
)
def test_bad_requests_give_one_line(change, line):
    x, y = random_samples(2)
    with pytest.raises(UserError, match=line):
        train(x, y, **({"lam": 0.1, "kappa": 1} | change))


def test_a_loss_of_symmetric_s_is_not_for_untied_factors():
    loss = AttentionLoss([random_samples(2)])
    with pytest.raises(UserError, match="build the loss with symmetric=False"):
        fit(loss, lam=0.1, kappa=1, head="untied")
