"""Input channel: moments of the spectral denoisers against random matrices and closed forms."""

import numpy as np
import pytest

from hdattn.singlehead.denoisers import PENALTIES, Penalty
from hdattn.singlehead.targets import MarchenkoPastur, Spectrum

A, B, STRENGTH = 0.9, 0.35, 0.25


def random_problem(dim, seed):
    """S0 of Marchenko-Pastur law (kappa0 = .5) and R = a S0 + b Z."""
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(dim, dim // 2))
    s0 = factor @ factor.T / np.sqrt(dim * (dim // 2))
    z = rng.normal(size=(dim, dim))
    return s0, A * s0 + B * (z + z.T) / np.sqrt(2 * dim)


def divided_differences(r, s, slope):
    gap = r[:, None] - r
    same = gap == 0
    return np.where(same, slope[:, None], (s[:, None] - s) / np.where(same, 1, gap))


@pytest.mark.parametrize("name", ["nuclear", "frobenius"])
def test_moments_are_those_of_a_denoised_random_matrix(name):
    # one draw at d = 400 against the theory for its own S0: linear statistics fluctuate by O(1/d)
    # and M by the overlap's noise, 2/d; bounds 10/d
    dim, penalty = 400, PENALTIES[name]
    s0, noisy = random_problem(dim, 1)
    r, vectors = np.linalg.eigh(noisy)
    s = penalty.denoise(r, STRENGTH)
    theory = penalty.estimate(Spectrum(np.linalg.eigvalsh(s0)), A, B, STRENGTH)
    matrix = (vectors * s) @ vectors.T
    ratio = divided_differences(r, s, penalty.slope(r, STRENGTH))
    assert pytest.approx(np.sum(matrix**2) / dim, abs=10 / dim) == theory.Q
    assert pytest.approx(np.sum(matrix * s0) / dim, abs=10 / dim) == theory.M
    assert pytest.approx(ratio.mean(), abs=10 / dim) == theory.D
    assert theory.penalty == pytest.approx(penalty.value(s).mean(), abs=10 / dim)
    second = penalty.difference_square(MarchenkoPastur(0.5), A, B, STRENGTH)
    assert second == pytest.approx((ratio**2).mean(), abs=10 / dim)
    if name == "nuclear":
        assert theory.rank_fraction == pytest.approx(np.mean(s > 0), abs=3 / dim)


def test_difference_square_is_the_response_to_a_random_perturbation():
    # ||dS||^2/||dR||^2 for a random symmetric dR of relative size 1e-5: mean of the squared
    # divided differences, with a sampling error of order 1/d (d = 300, bound 10/d)
    dim, penalty = 300, PENALTIES["nuclear"]
    s0, noisy = random_problem(dim, 2)
    change = np.random.default_rng(3).normal(size=(dim, dim))
    change = 1e-5 * (change + change.T)

    def denoised(matrix):
        r, vectors = np.linalg.eigh(matrix)
        return (vectors * penalty.denoise(r, STRENGTH)) @ vectors.T

    response = np.sum((denoised(noisy + change) - denoised(noisy)) ** 2) / np.sum(change**2)
    theory = penalty.difference_square(Spectrum(np.linalg.eigvalsh(s0)), A, B, STRENGTH)
    assert theory == pytest.approx(response, abs=10 / dim)


def test_closed_form_of_the_linear_denoiser_is_the_general_quadrature():
    # the base class integrates over the law of R; the rule is spectral
    penalty, target = PENALTIES["frobenius"], MarchenkoPastur(0.5)
    closed = penalty.estimate(target, A, B, STRENGTH)
    general = Penalty.estimate(penalty, target, A, B, STRENGTH)
    for name in ("Q", "M", "D", "penalty", "rank_fraction"):
        assert getattr(closed, name) == pytest.approx(getattr(general, name), rel=1e-9)
    squares = Penalty.difference_square(penalty, target, A, B, STRENGTH)
    assert penalty.difference_square(target, A, B, STRENGTH) == pytest.approx(squares, rel=1e-9)


@pytest.mark.parametrize("name", ["nuclear", "frobenius"])
def test_denoiser_minimises_its_objective_and_undo_inverts_it(name):
    # phi(r) = argmin over allowed s of (s - r)^2/2 + strength value(s), by a grid of step 1e-3
    penalty = PENALTIES[name]
    s = np.arange(0 if name == "nuclear" else -4000, 4001) * 1e-3
    for r in (-1.3, 0.1, 0.8, 2.4):
        best = s[np.argmin((s - r) ** 2 / 2 + STRENGTH * penalty.value(s))]
        assert penalty.denoise(r, STRENGTH) == pytest.approx(best, abs=1e-3)
    assert penalty.undo(penalty.denoise(2.4, STRENGTH), STRENGTH) == pytest.approx(2.4)
