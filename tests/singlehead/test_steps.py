"""The steps data, erm and state_evolution of the single-head model, end to end at tiny size."""

from __future__ import annotations

import numpy as np
import pytest

from hdattn import steps, store
from hdattn.errors import UserError
from hdattn.singlehead.problem import Problem
from hdattn.singlehead.samples import SampleStream, draw_teacher
from hdattn.singlehead.state_evolution import solve
from hdattn.singlehead.targets import MarchenkoPastur, Spectrum
from hdattn.steps.singlehead import data as data_step
from hdattn.steps.singlehead.erm import sample_count

DATA = {
    "dim": 10,
    "target": {"kind": "mp", "kappa0": 0.5},
    "noise": 0.5,
    "tokens": 2,
    "beta0": 1,
}
BLOCK = {"data": DATA, "seed": 3, "block": 1, "block_size": 2}
TRAINING = {
    **BLOCK,
    # 100 and 600 samples: less and more than the 4 d^2 = 400 that are stored
    "alphas": [1, 6],
    "lam": 0.1,
    "kappa": 1,
    "beta": 1,
    "optimizer": "lbfgs",
    "trial": 0,
    "start_scale": 1,
    "test_samples": 64,
}
THEORY = {"lam": 0.1, "kappa": 1, "beta": 1, "penalty": "nuclear", "nodes": 10}
LIMIT = {"target": DATA["target"], "noise": 0.5, "tokens": 2, "beta0": 1}


def _make(folder, kind, parameters, **inputs):
    path = folder / f"{kind.replace('/', '-')}.h5"
    steps.compute(kind, parameters, inputs, path)
    return path, store.read(path)


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.delenv(data_step.LIMIT_VARIABLE, raising=False)
    return _make(tmp_path, "singlehead/data", BLOCK)


@pytest.fixture
def keys_only(tmp_path, monkeypatch):
    """The same block without its training set."""
    monkeypatch.setenv(data_step.LIMIT_VARIABLE, "0")
    folder = tmp_path / "keys"
    folder.mkdir()
    return _make(folder, "singlehead/data", BLOCK)


def test_data_are_the_teachers_and_prefixes_of_their_streams(data):
    datasets = data[1].datasets
    assert datasets["instance"].tolist() == [2, 3]
    for position, instance in enumerate((2, 3)):
        teacher = draw_teacher(DATA, 3, instance)
        stream = SampleStream(DATA, 3, instance, teacher)
        assert np.array_equal(datasets["W0"][position], teacher.W0)
        assert np.array_equal(datasets["eigenvalues"][position], teacher.eigenvalues)
        assert datasets["first_rows_checksum"][position] == stream.first_rows_checksum()
        x, y = stream.rows(0, 400)
        assert np.array_equal(datasets["x"][position], x)
        assert np.array_equal(datasets["y"][position], y)


def test_the_limit_counts_the_whole_block(tmp_path, monkeypatch):
    # 2 instances x 400 samples x 2 tokens x (10 + 2) float64 = 153.6 kB
    monkeypatch.setenv(data_step.LIMIT_VARIABLE, "0.153")
    assert "x" not in _make(tmp_path, "singlehead/data", BLOCK)[1].datasets
    monkeypatch.setenv(data_step.LIMIT_VARIABLE, "0.154")
    assert "x" in _make(tmp_path, "singlehead/data", BLOCK)[1].datasets
    monkeypatch.setenv(data_step.LIMIT_VARIABLE, "much")
    with pytest.raises(UserError, match="HDATTN_TRAINING_SET_LIMIT_MB is 'much'"):
        _make(tmp_path, "singlehead/data", BLOCK)


@pytest.mark.parametrize("samples", [1, 400, 401, 1024, 2500])
def test_stored_and_drawn_training_sets_have_the_same_bits(data, keys_only, samples):
    stored, drawn = (
        [np.concatenate(part) for part in zip(*data_step.batches(r, 1, samples), strict=True)]
        for r in (data[1], keys_only[1])
    )
    assert len(stored[0]) == samples
    assert np.array_equal(stored[0], drawn[0]) and np.array_equal(stored[1], drawn[1])


def test_training_does_not_see_whether_its_samples_were_stored(tmp_path, data, keys_only):
    results = []
    for number, (path, _) in enumerate((data, keys_only)):
        folder = tmp_path / str(number)
        folder.mkdir()
        _, record = _make(folder, "singlehead/erm", TRAINING, data=path)
        results.append(record)
    digests = {record.provenance["content_digest"] for record in results}
    assert len(digests) == 1


def test_training_measures_what_its_matrix_says(tmp_path, data):
    _, record = _make(tmp_path, "singlehead/erm", TRAINING, data=data[0])
    d = record.datasets
    assert record.converged and record.messages == []
    assert d["Q"].shape == (2, 2) and d["eigenvalues"].shape == (2, 2, 10)
    assert d["alpha"].tolist() == [1, 6]
    # Tr S^2/d from the eigenvalues, and the objective's two parts: rounding
    np.testing.assert_allclose((d["eigenvalues"] ** 2).mean(-1), d["Q"], rtol=1e-10)
    np.testing.assert_allclose(d["overlap_error"], d["Q"] - 2 * d["M"] + d["Q0"], atol=1e-10)
    np.testing.assert_allclose(d["train_loss"] + d["penalty_value"], d["objective"], rtol=1e-12)
    # lambda ||W||^2/n = lambda_eff Tr S/(d alpha)
    penalty = 0.1 * d["eigenvalues"].mean(-1) / d["alpha"]
    np.testing.assert_allclose(d["penalty_value"], penalty, rtol=1e-10)
    last = [[h[np.isfinite(h)][-1] for h in row] for row in d["history"]]
    np.testing.assert_allclose(last, d["objective"], rtol=1e-9)


def test_the_start_is_drawn_by_number_and_scaled(tmp_path, data):
    first = {}
    for trial, scale in ((0, 1), (1, 1), (0, 0.1)):
        parameters = {**TRAINING, "alphas": [1], "trial": trial, "start_scale": scale}
        _, record = _make(tmp_path, "singlehead/erm", parameters, data=data[0])
        first[trial, scale] = record.datasets["history"][0, 0, 0]
    assert len(set(first.values())) == 3


def test_limit_curve_is_the_solvers(tmp_path):
    parameters = {**THEORY, **LIMIT, "alphas": [1, 4], "density_points": 300}
    _, record = _make(tmp_path, "singlehead/state_evolution", parameters)
    d = record.datasets
    assert record.converged and d["flags"].tolist() == ["", ""]
    direct = solve(Problem(4.0, 0.1, target=MarchenkoPastur(0.5)), nodes=10)
    for name in ("Q", "M", "test_error", "train_loss", "rank_fraction", "objective"):
        # two runs from different starts stop within the solver's tolerance of 1e-7
        assert d[name][1] == pytest.approx(getattr(direct, name), rel=1e-5)
    # the density has the mass of the positive eigenvalues; trapezoid between edge-dense points
    mass = [np.trapezoid(y, x) for x, y in zip(d["density_x"], d["density"], strict=True)]
    np.testing.assert_allclose(mass, d["rank_fraction"], atol=2e-4)
    np.testing.assert_allclose(d["atom_at_zero"], 1 - d["rank_fraction"])


def test_a_tolerance_of_its_own_ends_the_iteration_early(tmp_path):
    parameters = {**THEORY, **LIMIT, "alphas": [1]}
    exact = _make(tmp_path, "singlehead/state_evolution", parameters)[1].datasets
    rough = _make(tmp_path, "singlehead/state_evolution", {**parameters, "tolerance": 1e-3})[1]
    assert rough.converged and rough.datasets["iterations"] < exact["iterations"]
    # an error is a few residuals at this easy point
    assert rough.datasets["Q"] == pytest.approx(exact["Q"], rel=1e-2)


def test_own_curves_are_those_of_the_targets_eigenvalues(tmp_path, data):
    parameters = {**THEORY, **BLOCK, "alphas": [1, 4]}
    _, record = _make(tmp_path, "singlehead/state_evolution", parameters, data=data[0])
    assert record.datasets["Q"].shape == (2, 2)
    target = Spectrum(draw_teacher(DATA, 3, 3).eigenvalues)
    direct = solve(Problem(4.0, 0.1, target=target), nodes=10)
    assert record.datasets["Q"][1, 1] == pytest.approx(direct.Q, rel=1e-5)  # tolerance as above
    assert record.datasets["Q0"][1, 1] == pytest.approx(target.Q0)


def test_power_law_targets_and_unknown_ones(tmp_path):
    target = {"kind": "powerlaw", "spectral_exponent": 1.2, "dim": 30}
    parameters = {**THEORY, **LIMIT, "target": target, "alphas": [1]}
    _, record = _make(tmp_path, "singlehead/state_evolution", parameters)
    assert record.datasets["Q0"][0] == pytest.approx(1)
    with pytest.raises(UserError, match="target kind 'gauss': choose from mp, powerlaw"):
        parameters["target"] = {"kind": "gauss"}
        _make(tmp_path, "singlehead/state_evolution", parameters)


PATH = {
    **{key: TRAINING[key] for key in (*BLOCK, "kappa", "beta", "test_samples")},
    "alphas": [1, 2],
    "lams": [0.05, 0.1, 0.3],
    "head": "tied",
    "task": "seq2lab",
    "validation_samples": 500,
}


def test_a_path_meets_single_trainings_and_validates_on_samples_of_its_own(tmp_path, data):
    single = {**TRAINING, "alphas": [1]}
    alone = _make(tmp_path, "singlehead/erm", single, data=data[0])[1].datasets
    record = _make(tmp_path, "singlehead/erm_path", PATH, data=data[0])[1]
    d = record.datasets
    assert record.converged and d["lam"].tolist() == [0.05, 0.1, 0.3]
    assert d["test_error"].shape == d["validation_error"].shape == (2, 2, 3)
    # the optimiser's tolerance is 1e-8
    np.testing.assert_allclose(d["objective"][:, 0, 1], alone["objective"][:, 0], rtol=1e-7)
    np.testing.assert_allclose(d["test_error"][:, 0, 1], alone["test_error"][:, 0], rtol=1e-2)
    assert np.all(np.diff(d["penalty_value"] / PATH["lams"], axis=2) < 0)  # Tr S falls with lam
    # two samples of 64 and 500 differ, by no more than their spread allows
    assert np.all(d["validation_error"] != d["test_error"])
    np.testing.assert_allclose(d["validation_error"], d["test_error"], rtol=0.7)
    assert np.all(d["asymmetry"] == 0)


@pytest.mark.parametrize("head, task", [("untied", "seq2lab"), ("direct", "seq2seq")])
def test_a_path_of_another_head_or_task(tmp_path, data, head, task):
    parameters = {**PATH, "alphas": [1], "lams": [0.1], "head": head, "task": task}
    del parameters["validation_samples"]
    d = _make(tmp_path, "singlehead/erm_path", parameters, data=data[0])[1].datasets
    assert "validation_error" not in d
    assert np.all((d["asymmetry"] > 0) == (head == "untied"))
    assert np.all(d["eigenvalues"].min(axis=-1) < 0)


def test_a_training_set_that_cannot_fit_is_refused_with_its_size():
    data = {"dim": 10_000, "tokens": 2}
    with pytest.raises(
        UserError, match=r"4e\+08 samples at dim = 10000, alpha = 4 need about 64 TB"
    ):
        sample_count(data, 4)


def test_curves_at_several_weight_decays_are_those_at_each(tmp_path, data):
    shared = {**THEORY, **BLOCK, "alphas": [1, 4]}
    del shared["lam"]
    found = _make(
        tmp_path, "singlehead/state_evolution", {**shared, "lams": [0.3, 0.1]}, data=data[0]
    )[1].datasets
    alone = _make(tmp_path, "singlehead/state_evolution", {**shared, "lam": 0.1}, data=data[0])[1]
    assert found["lam"].tolist() == [0.3, 0.1] and found["Q"].shape == (2, 2, 2)
    for name in ("Q", "rank_fraction", "atom_at_zero", "edges"):
        np.testing.assert_array_equal(found[name][:, 1], alone.datasets[name])


PASSING = {
    **{**BLOCK, "alphas": [2], "lams": [0.1], "kappa": 1, "beta": 1, "penalty": "nuclear"},
    **{"denoiser": "soft", "damping": 0, "iterations": 5, "tolerance": 1e-6, "test_samples": 64},
}
RECOVERY = {
    **{**BLOCK, "data": {**DATA, "target": {"kind": "powerlaw", "spectral_exponent": 1}}},
    **{"alphas": [1], "regime": "fixed", "lam_eff": 0.1, "kappa": 1, "beta": 1, "nodes": 10},
    "test_samples": 64,
}


@pytest.mark.parametrize(
    "step, parameters, names",
    [
        ("erm", TRAINING, ("Q", "objective", "test_error", "eigenvalues")),
        ("erm_path", PATH, ("Q", "objective", "validation_error", "eigenvalues")),
        ("amp", PASSING, ("Q", "V", "prox_objective", "test_error")),
        ("recovery", RECOVERY, ("Q", "test_error", "eigenvalues", "overlap")),
        ("state_evolution", {**THEORY, **BLOCK, "alphas": [1]}, ("Q", "V", "test_error")),
    ],
)
def test_an_instance_does_not_depend_on_the_block_it_is_in(tmp_path, step, parameters, names):
    blocks = []
    for block in ({"block": 1, "block_size": 2}, {"block": 3, "block_size": 1}):
        folder = tmp_path / str(block["block"])
        folder.mkdir()
        changed = {**parameters, **block}
        given = {key: changed[key] for key in BLOCK}
        data, record = _make(folder, "singlehead/data", given)
        made = _make(folder, f"singlehead/{step}", changed, data=data)[1]
        blocks.append((record.datasets, made.datasets))
    (both, together), (one, alone) = blocks
    assert (both["instance"].tolist(), one["instance"].tolist()) == ([2, 3], [3])
    assert both["eigenvalues"][1].tobytes() == one["eigenvalues"][0].tobytes()
    for name in names:
        assert together[name][1].tobytes() == alone[name][0].tobytes(), name
