"""Teacher and sample stream: the same bits however they are cut, and the stated statistics."""

import itertools

import numpy as np
import pytest

from hdattn.errors import UserError
from hdattn.singlehead.samples import CHUNK, SampleStream, draw_teacher
from hdattn.singlehead.targets import power_law


def parameters(dim=12, kappa0=0.5, noise=0.5, tokens=2, beta0=1.0):
    target = {"kind": "mp", "kappa0": kappa0}
    return {"dim": dim, "target": target, "noise": noise, "tokens": tokens, "beta0": beta0}


def stream_of(data, instance=0, stream="train"):
    return SampleStream(data, 7, instance, draw_teacher(data, 7, instance), stream)


def logits_of(y):
    """Scores with noise, up to a constant per row, recovered from the label attention."""
    return np.log(y)


@pytest.mark.parametrize("tokens", [2, 3])
def test_prefixes_and_other_cuts_give_the_same_bits(tokens):
    data = parameters(tokens=tokens)
    x, y = stream_of(data).rows(0, 2 * CHUNK + 10)
    edges = [0, 1, 37, CHUNK, CHUNK + 5, 2 * CHUNK + 10]
    parts = [stream_of(data).rows(a, b) for a, b in itertools.pairwise(edges)]
    assert x.tobytes() == np.concatenate([part[0] for part in parts]).tobytes()
    assert y.tobytes() == np.concatenate([part[1] for part in parts]).tobytes()


def test_rows_have_the_stated_shapes_and_labels_are_attention():
    x, y = stream_of(parameters(tokens=4)).rows(3, 8)
    assert x.shape == (5, 4, 12) and y.shape == (5, 4, 4)
    assert np.all(y > 0)
    np.testing.assert_allclose(y.sum(axis=-1), 1, rtol=1e-14)
    assert stream_of(parameters()).rows(5, 5)[0].shape == (0, 2, 12)


def test_instances_streams_and_parameters_are_independent():
    sums = {
        stream_of(parameters()).first_rows_checksum(),
        stream_of(parameters(), instance=1).first_rows_checksum(),
        stream_of(parameters(), stream="test").first_rows_checksum(),
        stream_of(parameters(noise=0.25)).first_rows_checksum(),
    }
    assert len(sums) == 4
    as_integers = parameters() | {"beta0": 1, "dim": 12.0}
    assert stream_of(as_integers).first_rows_checksum() in sums


def test_scores_have_the_variances_of_the_model():
    # noiseless labels reveal the scores: log y_ab - log y_aa = beta0 (h_ab - h_aa), T = 2;
    # Var h_ab = Q0 (1 + delta_ab) and independent, hence variance 3 Q0, cov(u, v) = Q0
    data = parameters(dim=40, noise=0, beta0=0.7)
    stream = stream_of(data)
    h = logits_of(stream.rows(0, 40 * CHUNK)[1]) / 0.7
    u, v = h[:, 0, 0] - h[:, 0, 1], h[:, 1, 1] - h[:, 1, 0]
    Q0 = stream.teacher.Q0
    # relative standard error sqrt(2/40960) = .7 %, more from the kurtosis (of order 12/d)
    assert np.mean(u**2) / (3 * Q0) == pytest.approx(1, abs=0.03)
    assert np.mean(v**2) / (3 * Q0) == pytest.approx(1, abs=0.03)
    assert np.mean(u * v) / Q0 == pytest.approx(1, abs=0.06)
    assert abs(np.mean(u)) < 4 * np.sqrt(3 * Q0 / len(u))


def test_noise_has_the_stated_variance_and_is_symmetric():
    # the same stream with and without the teacher's part: y depends on x, S0 and the noise only
    data = parameters(dim=6, noise=0.8, tokens=3)
    stream = stream_of(data)
    x, y = stream.rows(0, 30 * CHUNK)
    S0 = stream.teacher.S0
    h0 = np.einsum("nad,de,nbe->nab", x, S0, x) - np.eye(3) * np.trace(S0)
    noise = logits_of(y) - h0 / np.sqrt(6)
    differences = noise - noise[:, :, :1]  # rows are known up to a constant each
    # Var(n_01 - n_00) = Delta/2 + Delta, Var(n_02 - n_01) = Delta; rel. s.e. sqrt(2/30720) = .8 %
    assert np.var(differences[:, 0, 1]) / 1.2 == pytest.approx(1, abs=0.035)
    assert np.var(differences[:, 0, 2] - differences[:, 0, 1]) / 0.8 == pytest.approx(1, abs=0.035)
    # symmetric noise: (n01 - n00) - (n10 - n11) = n11 - n00, of variance 2 Delta (4 Delta if not)
    crossed = differences[:, 0, 1] - (noise[:, 1, 0] - noise[:, 1, 1])
    assert np.var(crossed) / 1.6 == pytest.approx(1, abs=0.035)


def test_teacher_spectrum_and_its_second_moment():
    data = parameters(dim=60)
    teachers = [draw_teacher(data, 1, instance) for instance in range(40)]
    assert teachers[0].W0.shape == (60, 30)
    direct = np.linalg.eigvalsh(teachers[0].S0)
    np.testing.assert_allclose(teachers[0].eigenvalues, direct, atol=1e-12)
    assert np.count_nonzero(teachers[0].eigenvalues) == 30
    Q0 = np.array([teacher.Q0 for teacher in teachers])
    assert pytest.approx(np.sum(teachers[0].S0 ** 2) / 60, rel=1e-12) == teachers[0].Q0
    # E Q0 = 1 + kappa0 + 1/d exactly for Gaussian W0; about 7 % of fluctuation per teacher
    assert np.mean(Q0) == pytest.approx(1.5 + 1 / 60, abs=4 * np.std(Q0) / np.sqrt(40))
    assert 0.03 < np.std(Q0) / 1.5 < 0.12


@pytest.mark.parametrize("kind", ["powerlaw", "eigenvalues"])
def test_given_eigenvalues_are_those_of_the_teacher_in_a_random_basis(kind):
    dim, values = 30, np.append(np.zeros(20), np.linspace(0.5, 3, 10))
    target = {"kind": kind, "eigenvalues": values}
    if kind == "powerlaw":
        target, values = {"kind": kind, "spectral_exponent": 1.2}, power_law(1.2, dim).eigenvalues
    data = parameters(dim=dim) | {"target": target}
    teachers = [draw_teacher(data, 7, instance) for instance in range(200)]
    for teacher in teachers[:3]:
        np.testing.assert_allclose(teacher.eigenvalues, values, atol=1e-12)
        np.testing.assert_allclose(np.linalg.eigvalsh(teacher.S0), values, atol=1e-12)
    assert teachers[0].W0.shape == (dim, np.count_nonzero(values))
    # Haar: E S0 = T0 I, and E (S0_ij)^2 = (Q0 - T0^2) d/((d - 1)(d + 2)) off the diagonal, where
    # 200 matrices of 435 entries that are hardly correlated give a mean square to about 1 %
    S0 = np.array([teacher.S0 for teacher in teachers])
    T0, Q0 = values.mean(), (values**2).mean()
    off = S0[:, *np.triu_indices(dim, 1)]
    expected = (Q0 - T0**2) * dim / ((dim - 1) * (dim + 2))
    assert np.mean(off**2) == pytest.approx(expected, rel=0.05)
    diagonal = np.einsum("nii->ni", S0)
    assert np.abs(diagonal.mean(0) - T0).max() < 5 * diagonal.std() / np.sqrt(200)
    assert np.abs(off.mean(0)).max() < 5 * off.std() / np.sqrt(200)


@pytest.mark.parametrize(
    ("target", "line"),
    [
        ({"kind": "unknown"}, "choose from mp, powerlaw, eigenvalues, levels"),
        ({"kind": "mp", "kappa0": 0.5, "spectral_exponent": 1}, "has kappa0, nothing else"),
        ({"kind": "powerlaw", "kappa0": 0.5}, "spectral_exponent"),
        ({"kind": "powerlaw", "spectral_exponent": 0.4}, "must exceed 1/2"),
        ({"kind": "powerlaw", "spectral_exponent": 1, "dim": 13}, "13 eigenvalues, but dim = 12"),
        ({"kind": "eigenvalues", "eigenvalues": [1, 2]}, "2 eigenvalues, but dim = 12"),
        ({"kind": "eigenvalues", "eigenvalues": [-1, *range(11)]}, "none below 0"),
    ],
)
def test_impossible_targets_are_refused_in_one_line(target, line):
    with pytest.raises(UserError, match=line) as caught:
        draw_teacher(parameters() | {"target": target}, 0, 0)
    assert "\n" not in str(caught.value)


def test_impossible_data_parameters_are_refused():
    bad = [
        parameters(dim=0),
        parameters(dim=2.5),
        parameters(tokens=1),
        parameters(noise=-0.1),
        parameters(beta0=float("nan")),
        parameters(kappa0=0),
        parameters() | {"target": {"kind": "unknown"}},
        parameters() | {"alpha": 1},
    ]
    for data in bad:
        with pytest.raises(UserError):
            draw_teacher(data, 0, 0)
    stream = stream_of(parameters())
    with pytest.raises(UserError, match="start <= stop"):
        stream.rows(5, 2)
    with pytest.raises(UserError, match="does not exist"):
        stream_of(parameters(), stream="holdout")
