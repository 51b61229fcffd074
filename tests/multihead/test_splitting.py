"""Statistics of splits, on trajectories whose answer is known and on real flows."""

import numpy as np
import pytest

from hdattn.multihead.flow import FlowProblem, solve_flow
from hdattn.multihead.priors import FlippingPrior
from hdattn.multihead.splitting import (
    excursions,
    head_counts,
    is_even,
    split_statistics,
)

P1 = FlippingPrior([0.8, 0.0], [0.0, 2.0])


def trajectory(*rows):
    """m [1, T, H, 2] with these overlaps [H] along direction 1, a row for each time."""
    along = np.array(rows, float)
    return np.stack([np.full_like(along, 0.8), along], axis=-1)[None]


def test_heads_near_zero_are_on_neither_side():
    np.testing.assert_array_equal(head_counts(np.array([2.0, -2.0, 0.19, -0.21])), [1, 2])
    np.testing.assert_array_equal(head_counts(np.zeros(4)), [0, 0])
    np.testing.assert_array_equal(is_even(np.array([[2, 2], [3, 1], [0, 0]])), [True, False, False])


def test_statistics_of_a_head_that_returns():
    tau = np.array([0.0, 1.0, 2.0, 3.0])
    m = trajectory([0, 0, 0, 0], [0.4, 0.4, 0.3, -0.4], [1, 1, 0.2, -1], [2, 2, -2, -2])
    found = split_statistics(tau, m)
    # half ranges 0, 0.4, 1: interpolated to 0.5 at 1 + 1/6; seen as split at the next record
    assert found.split_time[0] == pytest.approx(1 + 1 / 6)
    np.testing.assert_array_equal(found.early[0], [3, 1])
    np.testing.assert_array_equal(found.late[0], [2, 2])
    np.testing.assert_allclose(found.excursion[0], [0, 0, 0.3, 0])
    assert (found.early_even, found.late_even) == (0.0, 1.0)


def test_a_trajectory_that_never_splits_counts_no_heads():
    found = split_statistics(np.array([0.0, 1.0]), trajectory([0.1, -0.1], [0.2, -0.2]))
    assert np.isnan(found.split_time[0]) and found.early.sum() == 0


def test_a_head_that_ends_at_zero_made_no_excursion():
    m = trajectory([0, 0, 0], [0.5, 0.3, -0.5], [2, 0, -2])
    np.testing.assert_array_equal(excursions(m)[0], [0, 0, 0])


def test_uneven_starts_of_softmax_end_even_and_the_odd_head_crosses_zero():
    # three heads start on one side: the antisymmetric growth keeps them there at first
    m0 = np.array([[0.8, 0.05], [0.8, 0.05], [0.8, 0.03], [0.8, -0.13]])
    tau = np.concatenate([[0.0], np.geomspace(1, 1000, 120)])
    problem = FlowProblem("softmax", 5, P1, m0)
    flow = solve_flow(problem, tau, base_points=256, with_loss=False)
    found = split_statistics(flow.tau, flow.m[None])
    np.testing.assert_array_equal(np.sort(found.early[0]), [1, 3])
    np.testing.assert_array_equal(found.late[0], [2, 2])
    # the returning head was of order 0.1 to 1 on the wrong side; the others never were
    assert 0.05 < found.excursion.max() < 1.0
    assert np.count_nonzero(found.excursion > 0.01) == 1


@pytest.mark.parametrize("heads", [4, 6])
def test_random_seeds_end_even(heads):
    tau = np.concatenate([[0.0], np.geomspace(1, 2000, 60)])
    rng = np.random.default_rng(heads)
    flows = [
        solve_flow(
            FlowProblem("softmax", 5, P1, 0.01 * rng.standard_normal((heads, 2))),
            tau,
            base_points=128,
            seed=seed,
            with_loss=False,
        ).m
        for seed in range(4)
    ]
    assert split_statistics(tau, np.array(flows)).late_even == 1.0
