"""Online SGD against autograd, against the finite-gamma flow, and against itself recut."""

import numpy as np
import pytest
import torch

from hdattn.errors import UserError
from hdattn.multihead import learners
from hdattn.multihead.activations import ACTIVATIONS
from hdattn.multihead.flow import FlowProblem, solve_flow
from hdattn.multihead.sgd import run_sgd
from hdattn.multihead.start import initial_weights, make_start
from hdattn.multihead.teacher import SequenceStream, make_data, stream_checksum, stream_key

P1 = {"kind": "flip", "mean": [0.8, 0], "std": [0, 2]}


def data(dim, tokens=5, prior=P1):
    return {"dim": dim, "tokens": tokens, "prior": prior}


REFERENCE = {  # attention [L] from scores [H, L], b [H] and c, written for torch alone
    "softmax": lambda chi, b, c: torch.softmax(chi, dim=1).mean(dim=0),
    "bayes": lambda chi, b, c: torch.softmax((chi + b[:, None]).ravel(), 0).view_as(chi).sum(0),
    "softmax1": lambda chi, b, c: (
        c * (chi.exp() / ((-b).exp() + chi.exp().sum(dim=1))[:, None]).mean(dim=0)
    ),
}


# --- one step -------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_step_is_eta_times_autograd_gradient_of_the_finite_dimensional_loss(activation):
    """With as many spikes as dimensions, m is k in another basis: every component is compared."""
    dim, heads, batch, gamma = 7, 3, 5, 0.9
    description = data(dim, 4, {"kind": "flip", "mean": [0.5] * dim, "std": [1.0] * dim})
    start = {"kind": "gaussian", "sigma": 2.0, "b": [0.3, -0.2, 0.1], "c": 1.3}
    eta = gamma * batch / dim
    result = run_sgd(
        description,
        activation=activation,
        heads=heads,
        gamma=gamma,
        taus=[0, eta],
        root_seed=3,
        instances=[2],
        start=start,
        batch=batch,
        dtype=np.float64,
    )
    stream = SequenceStream(make_data(description), 3, 2)
    tokens = np.empty((2 * stream.unit, 4, dim), dtype=np.float32)
    locations = stream.draw(tokens)
    k = initial_weights(make_data(description), 3, 2, heads, make_start(start))
    k, b, c = (
        torch.tensor(x, dtype=torch.float64, requires_grad=True)
        for x in (k, start["b"], start["c"])
    )
    losses = []
    for x, location in zip(torch.tensor(tokens[:batch]).double(), locations, strict=False):
        attention = REFERENCE[activation](k @ x.T, b, c)
        losses.append(((x[location] - attention @ x) ** 2).sum() / dim)
    loss = torch.stack(losses).mean()
    loss.backward()
    stepped = [(p - eta * (0 if p.grad is None else p.grad)).detach() for p in (k, b, c)]
    # Double precision on both sides.
    np.testing.assert_allclose(result.m[0, 1] @ stream.spikes, stepped[0], rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(result.r[0, 1], stepped[0] @ stepped[0].T, rtol=1e-11)
    np.testing.assert_allclose(result.b[0, 1], stepped[1], rtol=1e-11)
    np.testing.assert_allclose(result.c[0, 1], stepped[2], rtol=1e-11)
    np.testing.assert_allclose(result.loss[0, 0], loss.detach(), rtol=1e-11)
    assert result.loss_samples.tolist() == [batch, batch]


def test_loss_of_uniform_attention_has_its_finite_dimensional_mean():
    """At k = 0: E l_D = (1 - 1/L) + (1 - 1/L)^2 E|theta|^2 / D, with gamma too small to move."""
    result = run_sgd(
        data(60),
        activation="softmax",
        heads=2,
        gamma=1e-9,
        taus=[0, 200 * 1e-9 / 60],
        instances=range(40),
        start={"kind": "gaussian", "sigma": 0.0},
    )
    loss = np.average(result.loss, axis=1, weights=result.loss_samples)
    expected = 0.8 + 0.64 * (0.8**2 + 2.0**2) / 60
    assert abs(loss.mean() - expected) < 4 * loss.std(ddof=1) / np.sqrt(len(loss))
    assert loss.std(ddof=1) / np.sqrt(len(loss)) < 0.005  # a tenth of the spikes' part, .0495


# --- the data -------------------------------------------------------------------------------


def test_sequences_have_the_law_of_the_model():
    """Bounds: 4.5 standard errors of the moments of n independent numbers."""
    stream = SequenceStream(make_data(data(24, 3)), 0, 0)
    tokens = np.empty((6000, 3, 24), dtype=np.float32)
    locations = stream.draw(tokens)
    np.testing.assert_allclose(stream.spikes @ stream.spikes.T, np.eye(2), atol=1e-14)
    counts = np.bincount(locations, minlength=3)
    assert np.all(np.abs(counts - 2000) < 4.5 * np.sqrt(6000 * 2 / 9))
    marked = tokens[np.arange(6000), locations] @ stream.spikes.T
    others = np.concatenate([tokens[locations != at, at] for at in range(3)])
    n = others.size
    assert abs(others.mean()) < 4.5 / np.sqrt(n)
    assert abs((others**2).mean() - 1) < 4.5 * np.sqrt(2 / n)
    assert abs((others**4).mean() - 3) < 4.5 * np.sqrt(96 / n)
    covariance = others.T @ others / len(others)
    off_diagonal = covariance[~np.eye(24, dtype=bool)]
    assert np.abs(off_diagonal).max() < 4.5 / np.sqrt(len(others))
    across = (tokens[np.arange(6000), locations] ** 2).sum(axis=1) - (marked**2).sum(axis=1)
    assert abs(across.mean() - 22) < 4.5 * np.sqrt(2 * 22 / 6000)  # chi-squared of D - F
    # Along the spikes theta adds mean .8 and a symmetric +-2 (variance 4).
    assert np.all(np.abs(marked.mean(axis=0) - [0.8, 0]) < 4.5 * np.sqrt([1 / 6000, 5 / 6000]))
    assert abs((marked[:, 1] ** 2).mean() - 5) < 4.5 * np.sqrt(18 / 6000)  # Var (2s + z)^2 = 18


def test_stream_does_not_depend_on_how_it_is_cut():
    description = make_data(data(15, 3))  # 45 components: 16 sequences fill whole blocks
    whole = np.empty((1200, 3, 15), dtype=np.float32)
    locations = SequenceStream(description, 0, 1).draw(whole)
    stream, pieces = SequenceStream(description, 0, 1), [16, 1040, 144]
    parts = [np.empty((n, 3, 15), dtype=np.float32) for n in pieces]
    found = [stream.draw(part) for part in parts]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    np.testing.assert_array_equal(np.concatenate(found), locations)
    with pytest.raises(ValueError, match="multiple of 16"):
        stream.draw(whole[:5])


def test_streams_of_instances_and_data_are_unrelated():
    description = make_data(data(64))
    for name in (stream_checksum, stream_key):
        names = {name(description, seed, i) for seed in (0, 1) for i in range(3)}
        assert len(names) == 6
        assert name(make_data(description.to_dict()), 0, 0) in names
    first, second = (np.empty((200, 5, 64), dtype=np.float32) for _ in range(2))
    SequenceStream(description, 0, 0).draw(first)
    SequenceStream(description, 0, 1).draw(second)
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 4.5 / np.sqrt(first.size)


def test_batch_size_heads_activation_and_rate_leave_the_sequences_alone():
    """The mean loss of the first 60 sequences at k = 0 is the same number for all of them."""

    def first_sixty(batch, **changes):
        options = {"activation": "softmax", "heads": 2, "gamma": 1e-9} | changes
        taus = [0, (60 / batch - 1) * batch * options["gamma"] / 37]
        start = {"kind": "gaussian", "sigma": 0.0}
        result = run_sgd(data(37), taus=taus, batch=batch, start=start, **options)
        assert result.loss_samples.sum() == 60
        return np.average(result.loss[0], weights=result.loss_samples)

    reference = first_sixty(1)
    for batch, changes in ((5, {}), (12, {"heads": 3}), (30, {"activation": "bayes"})):
        assert first_sixty(batch, **changes) == pytest.approx(reference, rel=1e-6)  # float32
    assert first_sixty(1, gamma=3e-9) == pytest.approx(reference, rel=1e-6)


def test_initial_weights_of_a_head_do_not_depend_on_the_number_of_heads():
    description, start = make_data(data(30)), make_start({"kind": "gaussian", "sigma": 0.2})
    four = initial_weights(description, 0, 5, 4, start)
    np.testing.assert_array_equal(four[:2], initial_weights(description, 0, 5, 2, start))


# --- blocks, precision, records -------------------------------------------------------------


@pytest.mark.parametrize(
    ("activation", "dim", "tokens", "heads", "batch"),
    [("bayes", 40, 10, 3, 1), ("softmax", 40, 9, 2, 1), ("softmax1", 130, 5, 4, 2)],
)
def test_instances_do_not_depend_on_their_block(monkeypatch, activation, dim, tokens, heads, batch):
    def run(instances):
        return run_sgd(
            data(dim, tokens),
            activation=activation,
            heads=heads,
            gamma=2.0,
            taus=[0.0, 0.7, 2.0],
            instances=instances,
            start={"kind": "gaussian", "sigma": 0.3},
            batch=batch,
        )

    names = ("m", "r", "b", "c", "loss")
    together = run(range(5))
    alone = [run([i]) for i in (4, 0)]
    monkeypatch.setattr(learners, "BUFFER", 1)  # one instance and one refill at a time
    small = run([3, 1])
    for name in names:
        block = getattr(together, name)
        for i, single in zip((4, 0), alone, strict=True):
            np.testing.assert_array_equal(getattr(single, name)[0], block[i])
        np.testing.assert_array_equal(getattr(small, name), block[[3, 1]])


def test_single_precision_does_not_matter():
    """The spread between instances is about .01; float32 moves a trajectory by less than 1e-5."""
    runs = [
        run_sgd(
            data(250),
            activation="bayes",
            heads=2,
            gamma=0.5,
            taus=[12.0],
            instances=range(2),
            dtype=dtype,
        )
        for dtype in (np.float32, np.float64)
    ]
    assert np.abs(runs[0].m).max() > 0.5  # past the linear start
    for name in ("m", "r", "b", "loss"):
        np.testing.assert_allclose(*(getattr(run, name) for run in runs), rtol=0, atol=1e-5)


def test_records_lie_at_the_nearest_steps_and_share_out_every_batch():
    eta = 0.5 * 2 / 100
    taus = [0.0, 0.1, 0.101, 0.149, 1.0]
    result = run_sgd(data(100), activation="softmax", heads=2, gamma=0.5, taus=taus)
    assert result.steps.tolist() == [0, 10, 10, 15, 100]
    np.testing.assert_allclose(result.tau, eta * result.steps)
    np.testing.assert_array_equal(result.m[:, 1], result.m[:, 2])
    assert result.loss_samples.tolist() == [2 * n for n in (5, 8, 8, 45, 43)]
    assert result.batch == 2 and result.eta == pytest.approx(eta) and not result.messages


# --- against the theory ---------------------------------------------------------------------


def mean_and_error(values):
    """Mean over instances and its standard error."""
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))


def extrapolate(small, large):
    """Mean at 1/D -> 0 and its error, from instances at D and 2 D."""
    (mean, error), (mean_2, error_2) = mean_and_error(small), mean_and_error(large)
    return 2 * mean_2 - mean, np.hypot(error, 2 * error_2)


M0 = np.array([[0.2, 0.3], [0.1, -0.3], [0, 0.1]])
R0 = M0 @ M0.T + 0.25 * np.eye(3)


@pytest.fixture(scope="module")
def two_sizes():
    """L=4, H=3, mean (1,0), spread (0,2.5), gamma=1 at tau=10: D=125 and 250."""
    return [
        run_sgd(
            data(dim, 4, {"kind": "flip", "mean": [1, 0], "std": [0, 2.5]}),
            activation="softmax",
            heads=3,
            gamma=1.0,
            taus=[0, 10],
            instances=range(instances),
            start={"kind": "order_parameters", "m": M0, "r": R0},
        )
        for dim, instances in ((125, 192), (250, 128))
    ]


FLOW_M = np.array([[0.653, 0.707], [0.525, -0.918], [0.646, 0.298]])
FLOW_R = np.array([[1.105, -0.298, 0.641], [-0.298, 1.276, 0.072], [0.641, 0.072, 0.720]])


def test_order_parameters_converge_to_the_finite_gamma_flow(two_sizes):
    """Bounds: 4 standard errors, plus .003 for O(1/D^2) and the rounding of the flow's values."""
    small, large = two_sizes
    for name, start, flow in (("m", M0, FLOW_M), ("r", R0, FLOW_R)):
        np.testing.assert_allclose(getattr(large, name)[0, 0], start, atol=1e-6)  # float32
        limit, error = extrapolate(getattr(small, name)[:, 1], getattr(large, name)[:, 1])
        assert np.all(np.abs(limit - flow) < 4 * error + 0.003), name


def test_deviation_from_the_flow_halves_when_the_dimension_doubles(two_sizes):
    """The norm of the deviation of r is .110 and .056, known to .014 and .015."""
    small, large = (np.linalg.norm(run.r[:, 1].mean(axis=0) - FLOW_R) for run in two_sizes)
    assert 1.2 < small / large < 3.5


def test_gamma_term_is_seen(two_sizes):
    """Without it the flow has r_00 = 1.005 and r_22 = .618, many standard errors away."""
    limit, error = extrapolate(*(run.r[:, 1] for run in two_sizes))
    for head, without in ((0, 1.005), (2, 0.618)):
        assert limit[head, head] - without > 5 * error[head, head]


def test_bayes_softmax_with_biases_follows_the_flow():
    """Bound: 4 standard errors and .004 for O(1/D^2) and the flow's own error."""
    m0 = np.array([[0.2, 0.6], [0.1, -0.3]])
    r0, b0 = m0 @ m0.T + 0.25 * np.eye(2), np.array([0.3, -0.3])
    prior = make_data(data(10)).prior
    problem = FlowProblem("bayes", 5, prior, m0, r0, gamma=1.0, b0=b0)
    flow = solve_flow(problem, np.array([3.0]))
    start = {"kind": "order_parameters", "m": m0, "r": r0, "b": b0}
    runs = [
        run_sgd(
            data(dim),
            activation="bayes",
            heads=2,
            gamma=1.0,
            taus=np.arange(3.1, step=0.1),
            instances=range(instances),
            start=start,
        )
        for dim, instances in ((125, 256), (250, 128))
    ]
    assert np.abs(flow.b[0] - b0).min() > 0.09  # b has moved by many times the bound
    for name in ("m", "r", "b"):
        limit, error = extrapolate(*(getattr(run, name)[:, -1] for run in runs))
        assert np.all(np.abs(limit - getattr(flow, name)[0]) < 4 * error + 0.004), name
    np.testing.assert_allclose(runs[0].b.sum(axis=2), 0, atol=1e-5)  # conserved, in float32
    loss, error = extrapolate(*(run.loss[:, -4:].mean(axis=1) for run in runs))
    assert abs(loss - flow.loss[0]) < 4 * error + 0.01  # falls by .01 over the last records


def test_escape_time_from_the_plateau_is_that_of_the_flow():
    """At D = 250 the flow takes 7.574 from +-1/sqrt(D); bound 4 standard errors plus 10/D."""
    result = run_sgd(
        data(250),
        activation="softmax",
        heads=2,
        gamma=0.25,
        taus=np.arange(0, 9, 0.05),
        instances=range(12),
        start={"kind": "pairs", "feature": 1},
    )
    spread = (result.m[:, :, 0, 1] - result.m[:, :, 1, 1]) / 2
    assert np.all(spread[:, -1] > 0.5)
    times = []
    for path in spread:
        after = np.argmax(path >= 0.5)
        times.append(np.interp(0.5, path[after - 1 : after + 1], result.tau[after - 1 : after + 1]))
    mean, error = mean_and_error(np.array(times))
    assert error < 0.06
    assert abs(mean - 7.574) < 4 * error + 10 / 250


def test_batch_size_drops_out_up_to_a_fiftieth_of_the_dimension():
    """On the same sequences the means differ by less than .1 B/D; at B = D/5 by more."""

    def means(batch):
        result = run_sgd(
            data(250),
            activation="softmax",
            heads=2,
            gamma=1.0,
            taus=[4.0],
            instances=range(16),
            start={"kind": "gaussian", "sigma": 0.3},
            batch=batch,
        )
        assert bool(result.messages) == (batch > 5)
        return np.concatenate([result.m.mean(axis=0).ravel(), result.r.mean(axis=0).ravel()])

    one = means(1)
    assert np.abs(means(5) - one).max() < 0.002
    assert np.abs(means(50) - one).max() > 0.002


# --- bad input and divergence ---------------------------------------------------------------


def test_diverging_run_is_reported_not_raised():
    result = run_sgd(
        data(100), activation="softmax", heads=2, gamma=1e300, taus=[0, 1e301], instances=range(2)
    )
    assert result.converged.tolist() == [False, False]
    assert np.isfinite(result.m[:, 0]).all() and not np.isfinite(result.m[:, 1]).any()


def test_warnings_are_messages():
    result = run_sgd(
        data(100),
        activation="softmax",
        heads=2,
        gamma=0.5,
        taus=[0],
        batch=3,
        start={"kind": "gaussian", "sigma": 0.4},
    )
    batch, sigma = result.messages
    assert "batch = 3" in batch and "dim/50 = 2" in batch and "sigma = 0.4" in sigma


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"gamma": 0}, "gamma = 0 must be positive"),
        ({"gamma": "fast"}, "gamma must be a number"),
        ({"heads": 0}, "heads = 0 must be"),
        ({"heads": 2.5}, "heads = 2.5 must be"),
        ({"batch": 0}, "batch = 0 must be"),
        ({"taus": []}, "taus must be"),
        ({"taus": [-1.0]}, "taus must be"),
        ({"gamma": 1e4, "taus": [0.0, 1.0]}, "less than one step, gamma B / D = 500"),
        ({"taus": [1e300]}, "takes 4e.301 steps"),
        ({"instances": []}, "instances: none"),
        ({"activation": "tanh"}, "activation 'tanh' is unknown"),
        ({"data": data(1)}, "dim = 1 cannot hold 2"),
        ({"data": data(9, 1)}, "at least 2 tokens"),
        ({"data": {"dim": 9, "tokens": 2}}, "prior missing"),
        ({"data": data(9) | {"noise": 1}}, "noise missing or unknown"),
        ({"start": {"kind": "zero"}}, "kind 'zero' is unknown"),
        ({"start": {"kind": "gaussian", "m": 1}}, "gaussian has no m"),
        ({"start": {"kind": "gaussian", "sigma": -1}}, "sigma = -1 must not"),
        ({"start": {"kind": "gaussian", "b": [1, 2, 3]}}, "b has shape"),
        ({"start": {"kind": "pairs", "feature": 2}}, "feature = 2 must be"),
        ({"start": {"kind": "order_parameters"}}, "lacks m"),
        ({"start": {"kind": "order_parameters", "m": [[1, 2]]}}, "m must be 2 rows of 2"),
        (
            {"start": {"kind": "order_parameters", "m": np.eye(2), "r": np.eye(2) / 2}},
            "negative eigenvalue",
        ),
    ],
)
def test_bad_input_is_one_clear_line(changes, match):
    options = {"data": data(20), "activation": "softmax", "heads": 2, "gamma": 0.5, "taus": [0.1]}
    with pytest.raises(UserError, match=match) as caught:
        run_sgd(**(options | changes))
    assert "\n" not in str(caught.value)
