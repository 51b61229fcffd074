"""Training: every way of minimising reaches the same minimum, and edge cases end cleanly."""

import numpy as np
import pytest

from hdattn.errors import UserError
from hdattn.singlehead.erm import draw_start, fit, penalised, train
from hdattn.singlehead.heads import attention_matrix, width_of
from hdattn.singlehead.objective import AttentionLoss
from hdattn.singlehead.optimisers import lbfgs
from hdattn.singlehead.preconditioner import curvature_scaling
from hdattn.singlehead.samples import SampleStream, draw_teacher


def data_parameters(dim, tokens=2):
    target = {"kind": "mp", "kappa0": 0.5}
    return {"dim": dim, "target": target, "noise": 0.5, "tokens": tokens, "beta0": 1.0}


def samples(dim, alpha, tokens=2, instance=0):
    data = data_parameters(dim, tokens)
    stream = SampleStream(data, 3, instance, draw_teacher(data, 3, instance))
    return stream.rows(0, round(alpha * dim**2))


def proximal_descent(loss, lam, tolerance=1e-13):
    """Objective per sample and S by plain descent on S >= 0, where weight decay is a trace."""
    s, dim, step = np.eye(loss.dim), loss.dim, 1.0
    trace_weight = lam * dim  # lam ||W||_F^2 = lam sqrt(p d) Tr S, at p = d

    def objective(s):
        value, gradient = loss.value_and_gradient(s)
        return value + trace_weight * np.trace(s), gradient + trace_weight * np.eye(dim)

    value, gradient = objective(s)
    for _ in range(5000):
        eigenvalues, vectors = np.linalg.eigh(s - step * gradient)
        trial = (vectors * np.maximum(eigenvalues, 0)) @ vectors.T
        trial_value, trial_gradient = objective(trial)
        if trial_value > value:
            step /= 2
            continue
        if value - trial_value < tolerance * value:
            break
        s, value, gradient, step = trial, trial_value, trial_gradient, 1.1 * step
    return value / loss.samples, s


@pytest.mark.parametrize(("alpha", "lam", "tokens"), [(1, 0.1, 2), (3, 0.02, 2), (0.5, 0.1, 3)])
def test_optimisers_and_descent_on_s_reach_the_same_minimum(alpha, lam, tokens):
    loss = AttentionLoss([samples(14, alpha, tokens)])
    newton = fit(loss, lam=lam, kappa=1)
    adam = fit(loss, lam=lam, kappa=1, optimizer="adam", tolerance=1e-11)
    objective, s = proximal_descent(loss, lam)
    assert newton.converged and adam.converged
    # tolerances 1e-8 over ten steps; distances in S go as the square root of the objective's
    assert newton.objective == pytest.approx(objective, rel=1e-8)
    assert adam.objective == pytest.approx(objective, rel=1e-8)
    np.testing.assert_allclose(newton.S, s, atol=3e-4)
    np.testing.assert_allclose(adam.S, s, atol=3e-4)


def test_adam_at_its_usual_tolerance_stops_near_the_minimum():
    loss = AttentionLoss([samples(14, 1)])
    best = fit(loss, lam=0.1, kappa=1)
    adam = fit(loss, lam=0.1, kappa=1, optimizer="adam")
    assert adam.converged
    assert -1e-9 < adam.objective / best.objective - 1 < 1e-4  # 1e-7 a step, of 10 to 100 steps


def test_all_starts_reach_one_minimum():
    data, loss = data_parameters(14), AttentionLoss([samples(14, 1)])
    starts = [draw_start(data, 3, 0, 1.0, trial) for trial in range(3)]
    assert not np.array_equal(starts[0], starts[1])
    fits = [fit(loss, lam=0.1, kappa=1, start=start) for start in (*starts, 0.01 * starts[0])]
    for other in fits[1:]:
        assert other.objective == pytest.approx(fits[0].objective, rel=1e-8)
        np.testing.assert_allclose(other.S, fits[0].S, atol=3e-4)


def test_width_below_the_rank_binds_and_above_it_does_not():
    loss = AttentionLoss([samples(16, 2)])
    wide, square, narrow = (
        # lam_eff = lam sqrt(kappa) fixes the minimum over S
        fit(loss, lam=0.05 / np.sqrt(kappa), kappa=kappa)
        for kappa in (2.0, 1.0, 0.25)
    )
    assert wide.W.shape == (16, 32) and narrow.W.shape == (16, 4)
    assert wide.objective == pytest.approx(square.objective, rel=1e-8)
    np.testing.assert_allclose(wide.S, square.S, atol=3e-4)
    assert narrow.objective > 1.001 * square.objective


def test_report_is_consistent():
    x, y = samples(12, 1)
    lam, kappa = 0.1, 0.75
    start = draw_start(data_parameters(12), 3, 0, kappa)
    found = train(x, y, lam=lam, kappa=kappa, start=start)
    alpha, lam_eff = len(x) / 144, lam * np.sqrt(kappa)
    assert found.W.shape == (12, 9)
    assert found.penalty_value == pytest.approx(lam_eff / alpha * np.trace(found.S) / 12)
    assert found.train_loss == pytest.approx(AttentionLoss([(x, y)]).sample_losses(found.S).mean())
    assert found.objective == pytest.approx(found.train_loss + found.penalty_value)
    function = penalised(AttentionLoss([(x, y)]), lam, start.shape)
    assert found.history[0] == pytest.approx(function(start.ravel())[0])
    assert found.history[-1] == pytest.approx(found.objective)
    assert len(found.history) == found.iterations + 1 <= found.evaluations
    assert np.all(np.diff(found.history) <= 0)
    gradient = function(found.W.ravel())[1]
    assert found.gradient_norm == pytest.approx(np.linalg.norm(gradient))
    assert found.gradient_norm * np.linalg.norm(found.W) < 1e-4 * found.objective
    again = train(x, y, lam=lam, kappa=kappa, start=start)
    np.testing.assert_array_equal(again.W, found.W)


@pytest.mark.parametrize("optimizer", ["lbfgs", "adam"])
@pytest.mark.parametrize("lam", [20, 2000])
def test_strong_regularisation_ends_cleanly_at_zero(optimizer, lam):
    x, y = samples(10, 0.5)
    found = train(x, y, lam=lam, kappa=1, optimizer=optimizer)
    assert found.converged
    assert np.linalg.norm(found.S) < 1e-5
    # S = 0 attends uniformly
    assert found.train_loss == pytest.approx(((y - 0.5) ** 2).sum() / len(y), rel=1e-6)


def test_weak_regularisation_is_not_left_early():
    # samples do not determine S here: single steps of 1e-11 occur 1e-4 above the minimum
    loss = AttentionLoss([samples(24, 0.12)])
    usual = fit(loss, lam=1e-4, kappa=1)
    tight = fit(loss, lam=1e-4, kappa=1, tolerance=1e-11)
    assert usual.converged and tight.converged
    assert 0 <= usual.objective / tight.objective - 1 < 2e-6


def test_iteration_limits_are_reported():
    loss = AttentionLoss([samples(12, 1)])
    for optimizer in ("lbfgs", "adam"):
        for limit in (3, 20):
            found = fit(loss, lam=0.1, kappa=1, optimizer=optimizer, max_iterations=limit)
            assert not found.converged
            assert found.iterations == limit == len(found.history) - 1


def test_scaled_coordinates_save_evaluations_and_keep_the_minimum():
    loss, shape = AttentionLoss([samples(24, 3)]), (24, 24)
    start = np.random.default_rng(0).standard_normal(24**2)
    function = penalised(loss, 0.01, shape)
    plain = lbfgs(function, start, 1e-9, 5000)
    scaled = lbfgs(function, start, 1e-9, 5000, curvature_scaling(loss, 0.01, shape))
    assert scaled.value == pytest.approx(plain.value, rel=1e-8)
    assert scaled.evaluations < 0.7 * plain.evaluations  # .45 measured at d = 40 to 60


@pytest.mark.parametrize("shape", [(8, 8), (8, 5), (8, 11)])
def test_scaling_maps_are_transposes_of_each_other(shape):
    rng = np.random.default_rng(2)
    loss = AttentionLoss([samples(8, 1)])
    w, e, g = rng.standard_normal((3, shape[0] * shape[1]))
    forward, adjoint = curvature_scaling(loss, 0.1, shape)(w)
    assert forward(e) @ g == pytest.approx(e @ adjoint(g), rel=1e-12)
    assert not np.allclose(forward(e), e)


def test_starts_and_widths():
    data = data_parameters(30)
    start = draw_start(data, 3, 0, 0.5)
    assert start.shape == (30, 15) and width_of(0.01, 30) == 1
    assert np.std(start) == pytest.approx(1, abs=0.15)  # 450 draws: standard error .033
    np.testing.assert_array_equal(start, draw_start(data, 3, 0, 0.5))
    np.testing.assert_allclose(attention_matrix(start), start @ start.T / np.sqrt(450))


def test_impossible_arguments_are_refused():
    loss = AttentionLoss([samples(6, 1)])
    good = {"lam": 0.1, "kappa": 1.0}
    bad = [
        {"lam": -1},
        {"lam": float("nan")},
        {"kappa": 0},
        {"optimizer": "sgd"},
        {"start": np.zeros((6, 6))},
        {"start": np.ones((6, 5))},
        {"start": np.full((6, 6), np.nan)},
        {"tolerance": 0},
        {"max_iterations": 0},
    ]
    for change in bad:
        with pytest.raises(UserError):
            fit(loss, **(good | change))
