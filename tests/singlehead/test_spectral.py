"""Free convolution against eigendecomposition, against a second method and against identities."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.interpolate import PchipInterpolator

from hdattn.errors import UserError
from hdattn.singlehead.targets import MarchenkoPastur, Spectrum, power_law


def goe(rng, dim):
    """Symmetric matrix whose spectrum tends to the semicircle of variance 1."""
    x = rng.normal(size=(dim, dim))
    return (x + x.T) / np.sqrt(2 * dim)


def marchenko_pastur_quantiles(kappa0, dim):
    """Eigenvalues at the quantiles of the limit law of S0, zeros included."""
    low, high = (1 - np.sqrt(kappa0)) ** 2, (1 + np.sqrt(kappa0)) ** 2
    theta = np.linspace(0, np.pi, 20001)
    y = (low + high) / 2 - (high - low) / 2 * np.cos(theta)
    density = np.sqrt(np.maximum((y - low) * (high - y), 0)) / y * np.sin(theta)
    mass = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2)])
    count = round(dim * min(kappa0, 1))
    quantile = PchipInterpolator(mass / mass[-1], y)((np.arange(count) + 0.5) / count)
    return np.concatenate([np.zeros(dim - count), quantile / np.sqrt(kappa0)])


LAWS = [
    *[(MarchenkoPastur(k), s) for k in (0.05, 0.5, 2.0) for s in (0.03, 0.166, 0.25, 1.0, 5.0)],
    (Spectrum(marchenko_pastur_quantiles(0.5, 60)), 0.3),
    (power_law(1.2, 300), 0.1),
    (power_law(0.75, 200), 0.02),
    (Spectrum([1.0, 1.0, 2.0]), 0.4),
    (Spectrum([-1.0, 0.5]), 3.0),
]


@pytest.mark.parametrize(("target", "sigma"), LAWS)
def test_moments_are_those_of_the_sum(target, sigma):
    # mass 1, mean and variance of S0 + sigma Z, and 2 int rho x h = 1 (E over pairs of one) are
    # exact; the rule is spectral, 3e-7 is its worst case between closely spaced levels
    x, weights, h = target.convolve(sigma).nodes()
    assert weights.sum() == pytest.approx(1, abs=3e-7)
    assert weights @ x == pytest.approx(target.T0, abs=3e-7 * (1 + sigma))
    assert weights @ x**2 == pytest.approx(target.Q0 + sigma**2, rel=1e-6)
    assert 2 * weights @ (x * h) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(("target", "sigma"), LAWS)
def test_derivative_in_the_noise_is_the_divergence(target, sigma):
    # d/d(sigma^2) int rho p^2 = D with p = (x - tau)_+, D = 2 int rho p h; central differences of
    # step 1e-4 in sigma^2 relative leave 1e-7 of curvature and 1e-6 of quadrature
    tau = target.T0 * 0.8

    def second_moment(variance):
        x, weights, _ = target.convolve(np.sqrt(variance)).nodes(tau)
        return weights @ (x - tau) ** 2

    x, weights, h = target.convolve(sigma).nodes(tau)
    step = 3e-3 * sigma**2
    slope = (second_moment(sigma**2 + step) - second_moment(sigma**2 - step)) / (2 * step)
    assert slope == pytest.approx(2 * weights @ ((x - tau) * h), rel=2e-4, abs=1e-6)


@pytest.mark.parametrize("kappa0", [0.5, 2.0])
@pytest.mark.parametrize("sigma", [0.5, 1.5])
def test_cubic_agrees_with_a_long_list_of_quantiles(kappa0, sigma):
    # two methods without a line in common; 1500 quantiles leave an error of order 1/1500 in the
    # law, which the convolution smooths
    limit = MarchenkoPastur(kappa0).convolve(sigma)
    listed = Spectrum(marchenko_pastur_quantiles(kappa0, 1500)).convolve(sigma)
    # the last quantile lies below the edge of S0, which moves the density near the upper edge
    x = np.linspace(limit.intervals[0, 0] + 0.05, limit.intervals[-1, 1] - 0.3, 41)
    np.testing.assert_allclose(listed.density(x), limit.density(x), atol=2e-4)
    np.testing.assert_allclose(listed.hilbert(x), limit.hilbert(x), atol=5e-4)
    np.testing.assert_allclose(listed.intervals[0, 0], limit.intervals[0, 0], atol=1e-3)


@pytest.mark.parametrize("kind", ["limit", "instance", "power law"])
def test_eigenvalues_of_a_random_matrix_follow_the_law(kind):
    # Rigidity: eigenvalues of S0 + sigma Z leave their quantiles by O(log d / d); the Kolmogorov
    # distance at d = 500 stays below 6/d with room (observed 1.5 to 2.5/d)
    rng, dim, sigma = np.random.default_rng(5), 500, 0.4
    factor = rng.normal(size=(dim, dim // 2))
    s0 = factor @ factor.T / np.sqrt(dim * (dim // 2))
    target = MarchenkoPastur(0.5)
    if kind == "instance":
        target = Spectrum(np.linalg.eigvalsh(s0))
    if kind == "power law":
        target = power_law(1.2, dim)
        s0 = np.diag(target.eigenvalues)
    eigenvalues, vectors = np.linalg.eigh(s0 + sigma * goe(rng, dim))
    law = target.convolve(sigma)
    mass = np.array([law.nodes(upper=cut)[1].sum() for cut in eigenvalues[::25]])
    assert np.abs(mass - (np.arange(0, dim, 25) + 0.5) / dim).max() < 6 / dim
    # E[S0 | eigenvector at x] = x - 2 sigma^2 h(x): overlaps averaged over windows of 50, whose
    # sampling error is about sigma sqrt(2/50)/sqrt(50) < .02; the bound is five times that
    overlap = np.einsum("ij,ij->j", vectors, s0 @ vectors)
    expected = eigenvalues - 2 * sigma**2 * law.hilbert(eigenvalues)
    windows = (overlap - expected).reshape(-1, 50).mean(1)
    assert np.abs(windows).max() < 0.1


@pytest.mark.parametrize(("target", "sigma"), LAWS)
def test_hilbert_transform_is_the_principal_value(target, sigma):
    # outside the support h(x) = int rho/(x - y), by the quadrature nodes; away from the edge by a
    # tenth of the width that rule is good to 1e-7
    law = target.convolve(sigma)
    x, weights, _ = law.nodes()
    width = law.intervals[-1, 1] - law.intervals[0, 0]
    for point in (law.intervals[0, 0] - 0.1 * width, law.intervals[-1, 1] + 0.1 * width):
        direct = weights @ (1 / (point - x))
        assert law.hilbert(np.array([point]))[0] == pytest.approx(direct, rel=1e-5)


def test_hilbert_transform_inside_by_an_independent_principal_value():
    # Cauchy weight of QUADPACK on the density itself
    law = MarchenkoPastur(0.5).convolve(0.7)
    (low, high), point = law.intervals[0], 1.1

    def density(y):
        return float(law.density(np.array([y]))[0])

    value = -quad(density, low, high, weight="cauchy", wvar=point, epsabs=1e-7)[0]
    assert law.hilbert(np.array([point]))[0] == pytest.approx(value, abs=1e-5)


def test_density_matches_the_nodes_and_vanishes_outside():
    law = power_law(1.2, 300).convolve(0.1)
    x, weights, _ = law.nodes()
    # cumulative mass by the rule between two cuts against a fine trapezoid of the density
    low, high = law.intervals[0]
    grid = np.linspace(low, high, 20001)
    inside = (x > low) & (x < high)
    assert np.trapezoid(law.density(grid), grid) == pytest.approx(weights[inside].sum(), rel=1e-4)
    assert np.all(law.density(np.array([low - 1e-3, law.intervals[-1, 1] + 1e-3])) == 0)


def test_outliers_of_a_power_law_sit_where_rank_one_theory_says():
    # mode i with l_i > sigma is an eigenvalue l + sigma^2/l, up to 1/d; 5/d at d = 400
    target, sigma = power_law(1.5, 400), 0.3
    law = target.convolve(sigma)
    found = law.intervals[law.outlier_mask()].mean(1)[::-1]
    top = target.eigenvalues[::-1][:3]
    np.testing.assert_allclose(found[:3], top + sigma**2 / top, atol=5 / 400 * sigma)


def test_repeated_eigenvalues_are_merged():
    twice = Spectrum(np.repeat([0.3, 1.0, 2.5], 40))
    once = Spectrum([0.3, 1.0, 2.5])
    assert twice.levels.size == 3
    x = np.linspace(-1, 4, 50)
    np.testing.assert_allclose(twice.convolve(0.5).density(x), once.convolve(0.5).density(x))
    assert twice != once
    assert Spectrum([2.5, 0.3, 1.0]) == once


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: MarchenkoPastur(0.0), "kappa0"),
        (lambda: MarchenkoPastur(float("nan")), "kappa0"),
        (lambda: Spectrum([]), "eigenvalues"),
        (lambda: Spectrum([1.0, float("inf")]), "eigenvalues"),
        (lambda: Spectrum([0.0, 0.0]), "zero"),
        (lambda: power_law(0.5, 10), "exponent"),
        (lambda: power_law(1.0, 0), "dim"),
    ],
)
def test_impossible_targets_are_refused(make, word):
    with pytest.raises(UserError, match=word):
        make()


def test_power_law_is_normalised():
    target = power_law(0.8, 123)
    assert abs(target.Q0 - 1) < 1e-12
    assert target.eigenvalues[-1] / target.eigenvalues[0] == pytest.approx(123**0.8)
