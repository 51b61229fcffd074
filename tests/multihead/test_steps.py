"""Experiments of the multi-head model, run through the cache as the workflow runs them."""

import numpy as np
import pytest

from hdattn import steps, store
from hdattn.errors import UserError
from hdattn.experiment import Experiment
from hdattn.multihead.flow import Flow
from hdattn.multihead.priors import FlippingPrior
from hdattn.multihead.quadrature import population_loss
from hdattn.steps.multihead import flow as flow_step

PRIOR = {"kind": "flip", "mean": [0.8, 0], "std": [0, 2]}
DATA = {
    "data": {"dim": 60, "tokens": 4, "prior": PRIOR},
    "seed": 5,
    "block": 0,
    "block_size": 2,
    "heads": 2,
    "start": {"kind": "gaussian", "sigma": 0.3},
}
RUN = {"activation": "bayes", "gamma": 0.5, "tau_max": 3, "tau_points": 4}
SGD = RUN | {"batch": 1}
FLOW = RUN | {"base_points": 256}
ALONE = {"block": 1, "block_size": 1}  # instance 1 in a block of its own


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def compute(cache, kind, parameters, inputs=None):
    """Record of an experiment, made unless it is there, and read back with all checks."""
    experiment = Experiment(kind, parameters)
    path = cache / experiment.path
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        steps.compute(kind, experiment.parameters, inputs or {}, path)
    return store.read(path, kind=kind, parameters=parameters), path


def trajectories(cache, step, extra, block=None):
    data = DATA | (block or {})
    record, path = compute(cache, "multihead/data", data)
    return compute(cache, f"multihead/{step}", data | extra, {"data": path})[0], record


def test_data_holds_orthonormal_spikes_and_the_overlaps_of_its_weights(cache):
    d = compute(cache, "multihead/data", DATA)[0].datasets
    assert d["spikes"].shape == (2, 2, 60) and d["weights"].shape == (2, 2, 60)
    # rounding of a QR decomposition in double precision
    np.testing.assert_allclose(
        np.einsum("ifd,igd->ifg", d["spikes"], d["spikes"]), [np.eye(2)] * 2, atol=1e-13
    )
    np.testing.assert_allclose(d["m"], np.einsum("ihd,ifd->ihf", d["weights"], d["spikes"]))
    np.testing.assert_allclose(d["r"], np.einsum("ihd,igd->ihg", d["weights"], d["weights"]))
    # r_hh is sigma^2 chi^2_D / D: 5 of its standard deviations, sigma^2 sqrt(2/D)
    assert abs(d["r"][:, [0, 1], [0, 1]] - 0.09).max() < 5 * 0.09 * np.sqrt(2 / 60)
    assert len(set(d["stream_key"])) == 2


@pytest.mark.parametrize("step, extra", [("sgd", SGD), ("flow", FLOW)])
def test_an_instance_does_not_depend_on_the_block_it_runs_in(cache, step, extra):
    together, data = trajectories(cache, step, extra)
    alone, own_data = trajectories(cache, step, extra, ALONE)
    assert together.datasets["instance"].tolist() == [0, 1]
    assert alone.datasets["instance"].tolist() == [1]
    own = ("stream_checksum",) if step == "sgd" else ()
    for name in ("m", "r", "b", "c", "loss", *own):
        assert together.datasets[name][1:].tobytes() == alone.datasets[name].tobytes(), name
    for name in ("spikes", "weights", "m", "r", "stream_key"):
        assert data.datasets[name][1].tobytes() == own_data.datasets[name][0].tobytes(), name


def test_sgd_and_flow_start_from_the_weights_of_the_data(cache):
    sgd, data = trajectories(cache, "sgd", SGD)
    flow, _ = trajectories(cache, "flow", FLOW)
    for name in ("m", "r"):
        # SGD keeps its weights in float32
        np.testing.assert_allclose(sgd.datasets[name][:, 0], data.datasets[name], atol=1e-7)
        np.testing.assert_allclose(flow.datasets[name][:, 0], data.datasets[name], atol=1e-14)
    # times are multiples of eta = 1/120: tau_max = 3 and its thirds are among them
    np.testing.assert_allclose(sgd.datasets["tau"], [0, 1, 2, 3], rtol=1e-12)
    np.testing.assert_allclose(flow.datasets["tau"], [0, 1, 2, 3], rtol=1e-12)
    assert sgd.attributes == {"batch": 1, "eta": 0.5 / 60}


def test_sgd_follows_the_flow(cache):
    sgd, _ = trajectories(cache, "sgd", SGD)
    flow, _ = trajectories(cache, "flow", FLOW)
    # m_h0 fluctuates by sqrt(gamma tau G / D) = 0.02 (G = 0.02); the mean moves by 0.3
    moved = flow.datasets["m"][:, -1, :, 0] - flow.datasets["m"][:, 0, :, 0]
    assert moved.min() > 0.2
    np.testing.assert_allclose(
        sgd.datasets["m"][:, -1, :, 0], flow.datasets["m"][:, -1, :, 0], atol=0.08
    )


def test_loss_of_the_flow_is_that_of_its_order_parameters(cache):
    record, _ = trajectories(cache, "flow", FLOW | {"base_points": 4096})
    d = record.datasets
    prior = FlippingPrior(PRIOR["mean"], PRIOR["std"])
    exact = population_loss("bayes", 4, prior, d["m"][0, -1], d["r"][0, -1], d["b"][0, -1])
    # 4096 base points: 2e-4 according to the theory of the rule, against quadrature or more points
    assert d["loss"][0, -1] == pytest.approx(exact.value, abs=6e-4)
    assert np.ptp(d["b"].sum(axis=-1)) < 1e-5  # the flow conserves sum_h b_h


def test_another_stream_of_sequences_is_refused(cache, tmp_path):
    record, path = compute(cache, "multihead/data", DATA)
    forged = {**record.details}
    keys = np.array(["0" * 64, *record.datasets["stream_key"][1:]])
    forged["stream_key"] = store.Dataset(keys, "SHA-256", axes=("instance",))
    other = tmp_path / path.name
    result = store.Result(forged, attributes=record.attributes)
    store.write(other, record.kind, DATA, result, physics_digest="0" * 16, wall_time=0.0)
    with pytest.raises(UserError, match="instance 0: this machine draws other sequences"):
        compute(tmp_path, "multihead/sgd", DATA | SGD, {"data": other})


def test_a_diverging_run_is_reported_and_kept(cache):
    # the first step leaves the range of float32
    record, _ = trajectories(cache, "sgd", SGD | {"gamma": 1e41, "tau_max": 1e41, "batch": None})
    assert not record.converged and not record.datasets["converged"].any()
    assert record.messages == ["instance 0: SGD diverged", "instance 1: SGD diverged"]
    assert np.isfinite(record.datasets["m"][:, 0]).all()


def test_a_flow_that_stops_early_is_reported_and_padded(cache, monkeypatch):
    solve = flow_step.solve_flow

    def stops(problem, tau, *, seed, **options):
        flow = solve(problem, tau[: len(tau) - 2 * seed], seed=seed, **options)
        return Flow(**vars(flow) | {"converged": seed == 0})

    monkeypatch.setattr(flow_step, "solve_flow", stops)
    record, _ = trajectories(cache, "flow", FLOW | {"base_points": 128})
    assert record.datasets["converged"].tolist() == [True, False]
    assert record.messages == ["instance 1: the integrator stopped at tau = 1"]
    assert np.isfinite(record.datasets["loss"]).sum(axis=1).tolist() == [4, 2]


def test_bayes_gives_the_check_values(cache):
    prior = {"kind": "flip", "mean": [0.8, 0, 0], "std": [0, 1.5, 1.2]}
    record, _ = compute(cache, "multihead/bayes", {"tokens": 5, "prior": prior})
    known = {"bayes_risk": 0.463182, "plateau_loss": 0.6957229}
    known |= {"beta_softmax": 0.061958, "beta_bayes": 0.160768}
    for name, value in known.items():
        assert record.datasets[name] == pytest.approx(value, abs=1e-6)  # digits of the value
        assert 0 <= record.datasets[f"{name}_error"] < 1e-6


def test_bayes_of_a_prior_without_plateau(cache):
    prior = {"kind": "flip", "mean": [0.8], "std": [1.0]}
    record, _ = compute(cache, "multihead/bayes", {"tokens": 3, "prior": prior})
    assert set(record.datasets) == {"bayes_risk", "bayes_risk_error"}


def test_a_gradient_flow_does_not_depend_on_the_block_it_runs_in(cache):
    parameters = {
        **{"activation": "bayes", "tokens": 4, "prior": PRIOR, "heads": 2, "sigma": 0.1},
        **{"dim": 1000, "seed": 5, "base_points": 64, "tau_first": 0.5, "tau_max": 20},
        **{"tau_points": 20, "losses": False, "end_loss": True},
    }
    both = {"block": 0, "block_size": 2}
    together, alone = (
        compute(cache, "multihead/flows", parameters | block)[0].datasets for block in (both, ALONE)
    )
    for name in ("m", "b", "end_loss"):
        assert together[name][1].tobytes() == alone[name][0].tobytes(), name
