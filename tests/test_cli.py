"""The command line: names, values, exit statuses, and one line for each mistake."""

import json
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

from hdattn.commands import reference
from hdattn.commands.output import progress
from hdattn.errors import UserError

SOLVE = "singlehead solve --alpha 1 --lam 0.1"
PRIOR = "--tokens 5 --prior flip --mean 0.8,0 --std 0,2"
POINT = "--tokens 3 --mean 0.8,0 --std 0,2 --m [[.7,1.5],[.6,-1.2],[.3,.4]]"
TRAIN = "singlehead train --alpha 2 --lam 0.05 --kappa 0.75 --dim 12 --instances 2 --seed 3"


@pytest.fixture
def answer(command):
    """Run a command line with --json that succeeds without warnings; returns the object."""

    def call(line: str) -> dict:
        status, out, err = command(f"{line} --json")
        assert (status, err) == (0, "")
        assert out.count("\n") == 1
        return json.loads(out, parse_constant=pytest.fail)

    return call


# --- singlehead: theory ---------------------------------------------------------------------


# Values to all digits shown, of an independent solver with Gauss-Hermite quadrature: their last
# digit is the tolerance.
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            "--alpha 4 --lam 0.01 --kappa 1 --kappa0 0.5 --noise 0.5 --tokens 2 --beta 1 --beta0 1",
            {"Q": 1.19449, "M": 1.32874, "V": 0.154704, "test_error": 0.080392},
        ),
        (
            "--alpha 1 --lam 0.1",
            {"Q": 0.79395, "M": 1.06119, "V": 0.47877, "test_error": 0.098490},
        ),
        (
            "--alpha .5 --lam .1 --penalty frobenius",
            {"Q": 0.31061, "M": 0.60665, "V": 0.88531, "train_loss": 0.07752},
        ),
    ],
)
def test_solve_gives_the_check_values(answer, options, expected):
    values = answer(f"singlehead solve {options}")
    assert {name: values[name] for name in expected} == pytest.approx(expected, rel=2e-4)


def test_solve_prints_the_names_of_the_design_and_a_table(command, answer):
    values = answer(SOLVE)
    assert list(values) == [
        "Q", "M", "V", "q_hat", "m_hat", "v_hat", "Q0", "test_error", "test_error_floor",
        "train_loss", "penalty_value", "rank_fraction", "jump_probability", "replicon",
        "spectrum", "converged", "iterations", "residual", "seconds",
    ]  # fmt: skip
    assert list(values["spectrum"]) == ["atom_at_zero", "edges", "outliers"]
    assert values["converged"] is True
    status, out, err = command(SOLVE)
    assert (status, err) == (0, "")
    table = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert float(table["Q"]) == pytest.approx(values["Q"], rel=1e-5)  # six digits are shown
    assert table["converged"] == "yes"


def test_density_has_the_mass_of_the_rank(answer):
    # alpha = 40: two bulks, so that the grid has a gap to respect.
    values = answer("singlehead density --alpha 40 --points 600")
    assert list(values) == ["x", "density", "atom_at_zero"]
    x, density = np.array(values["x"]), np.array(values["density"])
    assert len(x) == 600
    gap = np.argmax(np.diff(x))
    assert 0.0 < x[0] < 1e-6
    assert (x[gap], x[gap + 1], x[-1]) == pytest.approx((0.0612, 0.1117, 3.6164), abs=1e-4)
    mass = sum(np.trapezoid(density[part], x[part]) for part in np.split(np.arange(600), [gap + 1]))
    # The trapezoidal rule in the angle is exact to 1e-4 at 300 points an interval.
    assert mass + values["atom_at_zero"] == pytest.approx(1.0, abs=2e-4)
    assert values["atom_at_zero"] == pytest.approx(0.2598, abs=1e-4)


def test_scaling_prints_a_curve_and_its_exponent(answer):
    values = answer("singlehead scaling --gamma 1.5 --dim 60 --channel linear --points 12")
    assert {"n", "excess", "local_exponent", "exponent", "exponent_error", "window"} <= set(values)
    assert len(values["n"]) == len(values["excess"]) == len(values["local_exponent"]) == 12
    lo, hi = values["window"]
    assert values["n"][0] < lo < hi < values["n"][-1]
    # the limit is 2/3; finite-d drift at d = 60
    assert values["exponent"] == pytest.approx(2 / 3, abs=0.1)


def test_scaling_takes_sizes_and_says_where_nothing_is_learnt(command):
    line = "singlehead scaling --gamma 1.5 --dim 60 --regime fixed --channel linear"
    sizes = "1e3,6e5,1e6,2e6,3e6,4e6"
    status, out, err = command(f"{line} --sizes {sizes} --json")
    assert status == 0 and "no solution but S = 0 for n up to 1000" in err and err.count("\n") == 1
    assert json.loads(out)["n"] == [float(size) for size in sizes.split(",")]


def test_power_law_target_is_the_unit_norm_one(answer):
    values = answer(f"{SOLVE} --target powerlaw --gamma 1.2 --dim 40")
    assert values["Q0"] == pytest.approx(1.0)
    # The strongest eigenvalue of i^-gamma, sum of squares d, is sqrt(40 / zeta_40(2.4)) = 5.4.
    assert 2 < max(values["spectrum"]["outliers"]) < 6


def test_thresholds(answer):
    values = answer("singlehead thresholds --kappa0 .5 --noise 1 --tokens 2")
    assert values == pytest.approx(
        {"alpha_interpolation": 0.14555, "alpha_recovery": 0.42217 / 2}, abs=1e-5
    )


def test_lambda_zero_is_the_limit(command):
    status, out, err = command("singlehead solve --alpha .1 --lam 0 --noise 1 --json")
    values = json.loads(out)
    assert status == 0
    assert "V diverges" in err
    assert values["V"] is None
    # Limit of lambda -> 0 found by solving down to lambda = 1e-6 and by the reduced equations.
    assert values["Q0"] - 2 * values["M"] + values["Q"] == pytest.approx(1.2734, abs=2e-4)


def test_width_below_the_rank_is_a_warning(command):
    status, out, err = command(f"{SOLVE} --kappa .2 --json")
    assert status == 0
    assert json.loads(out)["rank_fraction"] > 0.2
    assert err.startswith("hdattn: warning: rank above kappa: ")
    assert err.count("\n") == 1


def test_what_did_not_converge_is_printed_with_status_1(command, monkeypatch):
    from hdattn.singlehead import state_evolution

    short = partial(state_evolution.solve, tol=0.0)  # no residual is below it
    monkeypatch.setattr(state_evolution, "solve", short)
    status, out, err = command(f"{SOLVE} --json")
    assert status == 1
    assert json.loads(out)["converged"] is False
    assert "hdattn: warning: not converged: residual" in err


def test_values_that_are_not_finite_are_null(command, monkeypatch):
    from dataclasses import replace

    from hdattn.singlehead import state_evolution

    solved = state_evolution.solve
    monkeypatch.setattr(
        state_evolution, "solve", lambda problem: replace(solved(problem), replicon=np.nan)
    )
    out = command(f"{SOLVE} --json")[1]
    assert json.loads(out, parse_constant=pytest.fail)["replicon"] is None


# --- singlehead: training -------------------------------------------------------------------


def test_train_gives_a_list_per_name(answer):
    values = answer(TRAIN)
    assert list(values) == [
        "Q", "M", "Q0", "test_error", "train_loss", "penalty_value", "rank_fraction",
        "eigenvalues", "seconds", "converged",
    ]  # fmt: skip
    assert all(len(column) == 2 for column in values.values())
    spectra = np.array(values["eigenvalues"])
    assert spectra.shape == (2, 12)
    # Identities of the definitions: Q = Tr S^2/d and penalty = (lambda_eff/alpha) Tr S/d.
    assert values["Q"] == pytest.approx((spectra**2).mean(axis=1))
    scale = 0.05 * np.sqrt(0.75) / 2
    assert values["penalty_value"] == pytest.approx(scale * spectra.mean(axis=1))


def test_progress_is_a_bar_on_a_terminal_and_silent_elsewhere(monkeypatch, capsys):
    assert list(progress(range(3), "done")) == [0, 1, 2]
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert list(progress(range(3), "done")) == [0, 1, 2]
    out, err = capsys.readouterr()
    assert out == "" and "done" in err and "3/3" in err


def test_train_direct_has_the_frobenius_penalty(answer):
    line = "singlehead train --alpha 2 --lam 0.05 --kappa 1 --dim 12 --instances 2 --seed 3"
    values = answer(f"{line} --direct")
    # (lambda_eff/alpha) ||S||_F^2/d, and negative eigenvalues as well
    assert values["penalty_value"] == pytest.approx(0.05 / 2 * np.array(values["Q"]))
    assert np.min(values["eigenvalues"]) < 0
    same = answer(f"{line} --penalty frobenius")
    assert same["Q"] == values["Q"]


def test_train_untied_tells_how_far_s_is_from_the_cone(answer):
    values = answer(f"{TRAIN} --untied --kappa 1")
    assert 0 < np.min(values["asymmetry"]) < 1 and 0 <= np.min(values["negativity"]) < 1


def test_train_on_sequences_is_another_loss_on_the_same_data(answer):
    labels, sequences = (answer(f"{TRAIN} --kappa 1 {task}") for task in ("", "--task seq2seq"))
    assert sequences["Q0"] == labels["Q0"]
    # x x^T/d is the identity up to order 1/sqrt(d)
    assert sequences["test_error"] != labels["test_error"]
    assert sequences["test_error"] == pytest.approx(labels["test_error"], rel=0.5)


def test_train_draws_the_instances_of_the_workflow(answer):
    from hdattn.singlehead.samples import draw_teacher

    data = {"dim": 12, "target": {"kind": "mp", "kappa0": 0.5}}
    data |= {"noise": 0.5, "tokens": 2, "beta0": 1}
    teachers = [draw_teacher(data, 3, instance) for instance in range(2)]
    assert answer(TRAIN)["Q0"] == pytest.approx([teacher.Q0 for teacher in teachers])


def test_train_on_a_power_law_beside_its_theory(answer):
    line = "singlehead train --alpha 1 --lam 0.1 --dim 30 --instances 2 --theory"
    values = answer(f"{line} --target powerlaw --gamma 1.2")
    assert values["Q0"] == pytest.approx([1, 1])
    # finite size of about 3/d, and scores that are not Gaussian
    assert values["M"] == pytest.approx(values["theory_M"], rel=0.1)
    assert values["theory_M"][0] == pytest.approx(values["theory_M"][1], rel=1e-9)


def test_three_tokens_come_with_the_error_of_their_quadrature(answer):
    values = answer("singlehead solve --alpha 1 --lam 0.1 --tokens 3")
    assert values["converged"]
    assert 0 < values["quadrature_error"]["test_error"] < 2e-3 * values["test_error"]


def test_adam_and_lbfgs_reach_the_same_minimum(answer):
    line = TRAIN.replace("--kappa 0.75", "--kappa 1")
    lbfgs, adam = answer(line), answer(f"{line} --optimizer adam")
    for name in ("train_loss", "penalty_value"):
        # Adam stops at relative changes of 1e-7 in ten steps in a row: near 1e-3 in these.
        assert adam[name] == pytest.approx(lbfgs[name], rel=3e-3)


def test_train_table_has_a_row_per_instance(command):
    lines = command(TRAIN)[1].splitlines()
    assert lines[-3].split()[0] == "Q"
    assert len(lines[-1].split()) == 9  # all names but the eigenvalues


def test_spectrum_that_cannot_fit_is_refused_with_its_size(command):
    line = "singlehead solve --alpha 1 --target powerlaw --gamma 1.2 --dim 1e9"
    status, out, err = command(line)
    assert (status, out) == (2, "")
    assert "1e+09 eigenvalues need about 16 TB of memory" in err and "lower --dim" in err


def test_training_set_that_cannot_fit_is_refused_with_its_size(command):
    status, out, err = command("singlehead train --alpha 100 --dim 10000")
    assert (status, out) == (2, "")
    # n T (d + T) numbers of 8 bytes: 1e10 x 2 x 1e4 x 8 = 1.6e15.
    assert "1e+10 samples need about 1.6e+03 TB" in err


# --- multihead ------------------------------------------------------------------------------


# Quadrature of an independent program, to all digits shown.
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--activation softmax", 0.5316210),
        ("--activation bayes --b -.3,.2,0", 0.2834021),
        ("--activation softmax1 --b -.3,.2,0 --c 1.4", 0.4710097),
    ],
)
def test_loss(answer, options, expected):
    values = answer(f"multihead loss {options} {POINT}")
    assert list(values) == ["loss", "loss_error", "error"]
    assert values["loss"] == pytest.approx(expected, abs=1e-7)
    assert 0 <= values["loss_error"] < 1e-5
    assert values["error"] == values["loss_error"]


def test_loss_takes_r_and_shifts_of_b(answer):
    point = "multihead loss --activation bayes --tokens 3 --mean 1 --std 0 --m [[.5],[.8]]"
    plain = answer(f"{point} --r [[.25,.4],[.4,.64]]")["loss"]  # r = m m^T
    assert plain == pytest.approx(answer(point)["loss"], abs=1e-6)
    shifted = answer(f"{point} --b 3,3")["loss"]  # only differences of b matter
    assert shifted == pytest.approx(plain, abs=1e-6)
    assert answer(f"{point} --r [[1,.4],[.4,1]]")["loss"] > plain + 0.01  # noise costs


def test_bayes(answer):
    values = answer("multihead bayes --tokens 5 --mean .8,0,0 --std 0,1.5,1.2")
    assert list(values) == ["bayes_risk", "error"]
    assert values["bayes_risk"] == pytest.approx(0.463182, abs=1e-6)


@pytest.mark.parametrize("options", ["softmax", "softmax1 --b -.5,1 --c 1.3", "bayes --b .3,-.1"])
def test_loss_on_discrete_points_is_that_of_the_flips_they_make_up(answer, options):
    line = f"multihead loss --activation {options} --m [[.7,1.5],[.6,-1.2]]"
    flip = answer(f"{line} --mean .8,0 --std 0,2")
    discrete = answer(f"{line} --support [[.8,2],[.8,-2]] --weights .5,.5")
    # one law in two descriptions: both are quadratures, good to seven digits
    assert discrete["loss"] == pytest.approx(flip["loss"], abs=1e-7)
    uneven = answer(f"{line} --support [[.8,2],[.8,-2]] --weights .9,.1")
    assert abs(uneven["loss"] - flip["loss"]) > 1e-3


def test_flipping_prior_is_a_discrete_prior(answer):
    flip = answer("multihead bayes --mean .8,0 --std 0,2")
    discrete = answer("multihead bayes --support [[.8,2],[.8,-2]] --weights .5,.5")
    assert discrete["bayes_risk"] == pytest.approx(flip["bayes_risk"], abs=1e-7)


# Escape times at D = 1e4 from +-1/sqrt(D) in the gradient flow, of an independent program. The
# 4096 Sobol points of the command give growth rates to 2e-3, hence times to as much.
@pytest.mark.parametrize(("activation", "tau"), [("softmax", 14.47), ("bayes", 6.388)])
def test_flow_escapes_when_it_should(answer, activation, tau):
    line = f"multihead flow --activation {activation} {PRIOR} --init-m [[0,.01],[0,-.01]]"
    values = answer(f"{line} --tau {tau + 1} --points 400")
    assert list(values) == ["tau", "m", "r", "b", "c", "loss"]
    m = np.array(values["m"])
    assert m.shape == (400, 2, 2)
    assert np.array(values["r"]) == pytest.approx(m @ m.swapaxes(1, 2), abs=1e-6)
    spread = (m[:, 0, 1] - m[:, 1, 1]) / 2
    assert np.interp(0.5, spread, values["tau"]) == pytest.approx(tau, rel=3e-3)


def test_flow_starts_from_its_seed(answer):
    line = f"multihead flow --activation softmax {PRIOR} --heads 3 --tau .2 --points 2 --dim 400"
    first, again, other = (answer(f"{line} --seed {seed}") for seed in (1, 1, 2))
    assert first == again
    assert first["m"][0] != other["m"][0]
    # k_h(0) ~ N(0, sigma^2 I/D): r_hh = sigma^2 (1 +- 3 sqrt(2/D)).
    diagonal = np.diag(first["r"][0])
    assert diagonal == pytest.approx(np.full(3, 0.01), rel=3 * np.sqrt(2 / 400))


def test_sgd_puts_the_instance_in_front(answer):
    line = f"multihead sgd --activation bayes {PRIOR} --heads 3 --dim 60 --tau 1 --points 5"
    two, one = answer(f"{line} --instances 2"), answer(f"{line} --instances 1")
    shapes = {name: np.shape(two[name]) for name in two}
    assert shapes == {
        "tau": (5,), "m": (2, 5, 3, 2), "r": (2, 5, 3, 3), "b": (2, 5, 3), "c": (2, 5),
        "loss": (2, 5),
    }  # fmt: skip
    assert two["m"][0] == one["m"][0]  # an instance is the same whatever runs beside it
    assert two["m"][0] != two["m"][1]


def test_sgd_starts_where_it_is_told(answer):
    line = f"multihead sgd --activation softmax {PRIOR} --dim 60 --instances 1 --tau 1 --points 2"
    values = answer(f"{line} --init-m [[.1,.2],[.3,-.1]] --init-r [[.3,0],[0,.3]]")
    # Weights are float32.
    assert np.array(values["m"][0][0]) == pytest.approx(np.array([[0.1, 0.2], [0.3, -0.1]]), 1e-5)
    assert np.array(values["r"][0][0]) == pytest.approx(np.diag([0.3, 0.3]), abs=1e-6)


def test_sgd_that_diverges_has_status_1(command):
    line = f"multihead sgd --activation softmax {PRIOR} --dim 40 --instances 1 --points 3"
    status, out, err = command(f"{line} --gamma 1e40 --tau 1e39 --json")
    assert status == 1
    assert None in json.loads(out)["loss"][0]
    assert "1 of 1 instances diverged" in err


@pytest.mark.parametrize(("activation", "beta"), [("softmax", 0.061958), ("bayes", 0.160768)])
def test_stability(answer, activation, beta):
    values = answer(f"multihead stability --activation {activation} {PRIOR} --heads 4")
    assert list(values) == ["plateau_loss", "eigenvalues", "growth_rates"]
    assert values["plateau_loss"] == pytest.approx(0.6957229, abs=1e-7)
    # -(2/H) omega^2 beta with H = 4, omega = 2, and beta quoted to six decimals
    assert values["eigenvalues"] == pytest.approx([0, -2 * beta], abs=1e-6)
    # measured on 2^15 points, which know the rates to 1e-3 at H = 4
    assert values["growth_rates"] == pytest.approx([0, 2 * beta], abs=2e-3)


def test_stability_says_why_softmax_stays_together_with_two_tokens(command):
    two = "--tokens 2 --mean .8,0 --std 0,2 --json"
    status, out, err = command(f"multihead stability --activation softmax {two}")
    assert status == 0 and err.count("\n") == 1
    assert "softmax heads never specialise at tokens = 2: beta" in err and "mirror images" in err
    assert json.loads(out)["eigenvalues"] == pytest.approx([0, 0], abs=1e-9)
    assert command(f"multihead stability --activation bayes {two}")[2] == ""


@pytest.mark.parametrize(
    ("options", "warning"),
    [
        ("sgd --dim 60 --instances 1 --batch 30", "batch = 30 is above dim/50"),
        ("sgd --dim 60 --instances 1 --sigma .5", "sigma = 0.5 is above 0.3"),
        ("flow --dim 60 --sigma .5", "sigma = 0.5 is above 0.3"),
    ],
)
def test_doubtful_settings_are_warned_of(command, options, warning):
    name, options = options.split(" ", 1)
    line = f"multihead {name} --activation softmax {PRIOR} --tau .5 --points 2 {options}"
    status, _, err = command(line)
    assert status == 0
    assert err.startswith("hdattn: warning: ")
    assert warning in err
    assert err.count("\n") == 1


# --- mistakes -------------------------------------------------------------------------------


def test_optimum_of_b_softmax_is_the_bayes_risk(answer):
    line = "multihead optimum --activation bayes --tokens 3 --prior discrete --heads 2 --starts 1"
    prior = "--support [[2],[-1]] --weights .4,.6"
    best = answer(f"{line} {prior}")
    assert set(best) == {"loss", "loss_error", "m", "b", "c"}
    assert np.shape(best["m"]) == (2, 1) and len(best["b"]) == 2
    risk = answer(f"multihead bayes --tokens 3 {prior}")["bayes_risk"]
    # as many heads as points: the sample of 65536 points places them to 1e-4 in the loss
    assert risk - 1e-6 < best["loss"] < risk + 1e-4


def test_optimum_of_every_activation_on_normal_amplitudes_is_above_the_bayes_risk(answer):
    prior = "--tokens 3 --prior gauss --mean 0 --std 1.5"
    risk = answer(f"multihead bayes {prior}")["bayes_risk"]
    for name in ("softmax", "softmax1", "bayes"):
        best = answer(f"multihead optimum --activation {name} --heads 2 --starts 1 {prior}")
        assert best["loss"] > risk + best["loss_error"], name  # no two heads are the posterior
        assert best["loss"] < 2 / 3 - 0.01, name  # uniform attention has the loss 1 - 1/L


def test_an_optimum_that_did_not_converge_is_printed_with_status_1(command, monkeypatch):
    from hdattn.multihead import optimum_search

    for name in ("ITERATIONS", "_ROUGH_ITERATIONS"):
        monkeypatch.setattr(optimum_search, name, 1)
    line = f"multihead optimum --activation softmax {PRIOR} --starts 1 --json"
    status, out, err = command(line)
    assert status == 1 and set(json.loads(out)) == {"loss", "loss_error", "m", "b", "c"}
    assert "the descent stopped at a gradient of" in err


@pytest.mark.parametrize(
    ("library", "line", "warning"),
    [
        ("flow.solve_flow", "flow --tau 1e6", "tau = 1e+06 may take many minutes"),
        ("optima.find_optimum", "optimum --heads 1000", "this takes about 12 minutes"),
    ],
)
def test_what_takes_long_says_so_first(command, monkeypatch, library, line, warning):
    def stopped(*_, **__):
        raise UserError("stopped")

    monkeypatch.setattr(f"hdattn.multihead.{library}", stopped)
    _, _, err = command(f"multihead {line} --activation softmax {PRIOR}")
    assert warning in err and err.endswith("stopped\n")


@pytest.mark.parametrize("activation", ["softmax", "softmax1", "bayes"])
@pytest.mark.parametrize(
    "prior",
    ["--prior gauss --mean .5,0 --std 0,1", "--support [[1,0],[0,2]] --weights .3,.7"],
)
@pytest.mark.parametrize("name", ["flow", "sgd"])
def test_trajectories_of_every_activation_and_prior(answer, name, activation, prior):
    size = "--dim 20 --instances 1" if name == "sgd" else "--init-m [[.2,.1],[.1,.3]]"
    line = f"multihead {name} --activation {activation} {prior} {size} --tau .2 --points 2"
    values = answer(line)
    loss = np.ravel(values["loss"])
    assert np.isfinite(loss).all() and np.shape(values["m"])[-2:] == (2, 2)


FLOW = f"multihead flow --activation softmax {PRIOR}"
LOSS = f"multihead loss --activation softmax {PRIOR}"
SGD = f"multihead sgd --activation softmax {PRIOR}"
DISCRETE = "multihead bayes --support [[1],[2]]"
STABILITY = "multihead stability --activation bayes --tokens 3 --std 0,2"
OPTIMUM = "multihead optimum --activation softmax"

BAD = [
    ("nonsense", ["No such command 'nonsense'"]),
    ("singlehead", ["Missing command"]),
    ("singlehead slove", ["did you mean solve?"]),
    ("--nonsense", ["--nonsense"]),
    ("singlehead solve", ["--alpha: missing"]),
    ("singlehead solve --alpha", ["--alpha"]),
    ("singlehead bayes --alpha 1 --lam 3", ["no such option; see 'hdattn singlehead bayes"]),
    ("singlehead solve --alpha 1e12", ["alpha = 1e+12: give 1e-06 to 1e+09; below, nothing"]),
    ("singlehead solve --alpha 1e-300", ["alpha = 1e-300: give 1e-06"]),
    (f"{SOLVE} --beta 1e-9", ["beta = 1e-09: give 0.001 to 1000"]),
    (f"{SOLVE} --kappa0 1e9", ["kappa0 = 1e+09: a width p0/d is 0.0001 to 1000"]),
    ("singlehead thresholds --kappa0 1e-9 --noise 1e-9", ["kappa0 = 1e-09"]),
    ("singlehead thresholds --noise 1e12", ["noise = 1e+12: give 0 to 1e+06"]),
    ("singlehead train --alpha 1e-6 --dim 20", ["alpha d^2 = 0.0004 samples, not one"]),
    ("singlehead amp --alpha 1e-6 --dim 20", ["alpha d^2 = 0.0004 samples, not one"]),
    (f"{SOLVE} --nosie 1", ["--nosie: no such option; did you mean --noise?"]),
    (f"{SOLVE} 7 8", ["'7 8' belongs to no option"]),
    (f"{SOLVE} --json=3", ["--json"]),
    ("singlehead solve --alpha four", ["--alpha: 'four' is not a number"]),
    ("singlehead solve --alpha 0", ["--alpha: 0 will not do; give a finite number above 0"]),
    ("singlehead solve --alpha nan", ["--alpha: nan will not do"]),
    ("singlehead solve --alpha inf", ["--alpha: inf will not do"]),
    ("singlehead solve --alpha -1 --noise -1 --kappa0 0 --tokens 1", [
        "--alpha", "--noise", "--kappa0", "--tokens",
    ]),
    (f"{SOLVE} --tokens 2.5", ["--tokens: 2.5 will not do; give a whole number"]),
    (f"{SOLVE} --penalty ridge", ["--penalty"]),
    (f"{SOLVE} --gamma 1.2", ["--gamma: only --target powerlaw has it"]),
    (f"{SOLVE} --dim 40", ["--dim: only --target powerlaw has it"]),
    (f"{SOLVE} --target powerlaw", ["--gamma: missing", "--dim: missing"]),
    (f"{SOLVE} --target powerlaw --gamma 1.2 --dim 9 --kappa0 1", ["--kappa0: a power-law"]),
    (f"{SOLVE} --target powerlaw --gamma .5 --dim 9", ["--gamma: .5 will not do"]),
    ("singlehead scaling --gamma .5 --dim 9", ["--gamma: .5 will not do"]),
    ("singlehead scaling --gamma 1 --dim 90 --points 5", ["a slope needs 4: give more of them"]),
    ("singlehead scaling --gamma 1 --dim 90 --lam 1", ["--lam: the optimal regime"]),
    ("singlehead scaling --gamma 1 --dim 90 --noise 0", ["noise = 0: scaling laws are those of"]),
    ("singlehead scaling --gamma 1 --dim 90 --sizes 9,1e3", ["a slope needs 4: give more of them"]),
    ("singlehead scaling --gamma .6 --dim 9 --regime fixed", ["too short for a slope at"]),
    ("singlehead density --alpha 1 --points 1", ["--points: 1 will not do"]),
    ("singlehead thresholds --alpha 1", ["--alpha: no such option"]),
    (f"{TRAIN} --optimizer sgd", ["--optimizer"]),
    (f"{TRAIN} --instances 0", ["--instances: 0 will not do"]),
    ("singlehead train --alpha 1 --lam 0", ["--lam: training needs a value above 0"]),
    (f"{TRAIN} --lam -0.1", ["--lam: -0.1 will not do; give a finite number of at least 0"]),
    (f"{SOLVE} --lam -0.1", ["--lam: -0.1 will not do; give a finite number of at least 0"]),
    ("singlehead solve --alpha 4 --lam 0", ["below the interpolation threshold alpha = 0.15348"]),
    (f"{TRAIN} --untied --direct", ["--direct: --untied trains two factors; leave it out"]),
    (f"{TRAIN} --untied --theory", ["--theory: there is none of untied factors"]),
    (f"{TRAIN} --untied --penalty frobenius", ["--penalty: --untied has weight decay"]),
    (f"{TRAIN} --direct --penalty nuclear", ["--penalty: --direct has the penalty frobenius"]),
    (f"{TRAIN} --task seq2vec", ["--task"]),
    (f"{LOSS} --m [[1,2],[3]]", ["--m: '[[1,2],[3]]' has rows of different lengths"]),
    (f"{LOSS} --m 1,2", ["--m: '1,2' is not a matrix"]),
    (f"{LOSS} --m [[1,NaN]]", ["--m: '[[1,NaN]]' is not a matrix of finite numbers"]),
    (f"{LOSS} --m [[1,true]]", ["--m: '[[1,true]]' is not a matrix"]),
    (f"{LOSS} --m [[1,2,3]]", ["--m: it is 1 x 3; give 1 x 2"]),
    (f"{LOSS} --m [[1,2]] --r [[1,2],[3,4]]", ["--r: it is 2 x 2; give 1 x 1"]),
    (f"{LOSS} --m [[1,2]] --r [[1]]", ["negative eigenvalue"]),
    (f"{LOSS} --m [[1,0],[0,1]] --r [[2,1],[0,2]]", ["r is not symmetric"]),
    (f"{LOSS} --m [[1,2]] --b 1", ["--b: --activation softmax has none"]),
    (f"{LOSS} --m [[1,2]] --b 1 --c 2", ["--b: --activation", "--c: --activation"]),
    (f"{LOSS.replace('softmax', 'bayes')} --m [[1,2]] --b 1,2", ["--b: it has 2 numbers"]),
    (f"multihead loss --activation nope {PRIOR} --m [[1,2]]", ["--activation: 'nope' is unknown"]),
    (f"multihead loss {PRIOR} --m [[1,2]]", ["--activation: missing"]),
    ("multihead bayes", ["--mean: missing", "--std: missing"]),
    ("multihead bayes --mean 1 --std 1,2", ["mean has 1 entries and std has 2"]),
    ("multihead bayes --mean 1 --std -1", ["std [-1.0] has a negative entry"]),
    ("multihead bayes --mean 1,inf --std 1,1", ["--mean: '1,inf' is not a list"]),
    ("multihead bayes --mean 1 --std 1 --support [[1]]", ["--support: not with --mean and --std"]),
    (f"multihead bayes --mean {'0,' * 12}0 --std {'1,' * 12}1", ["13 flipping directions"]),
    (f"{DISCRETE} --weights .5,.6", ["weights [0.5, 0.6] must sum to one"]),
    (f"{DISCRETE} --weights 1,0", ["entry 2 of weights is 0, and all must be positive"]),
    (f"{DISCRETE} --weights .3333333,.6666666", ["they sum to 0.9999999, give"]),
    (f"{DISCRETE} --weights 1", ["support must be 1 rows of equal length, one per weight"]),
    (DISCRETE, ["--weights: missing"]),
    (f"{STABILITY} --mean .8,0 --heads 1", ["heads is 1; specialisation needs at least 2"]),
    (f"{STABILITY} --mean .8,0 --heads 1e6", ["--heads: 1e6 will not do"]),
    (f"{STABILITY} --mean 1e6,0", ["mean has an entry of size 1e+06; give at most 1000"]),
    ("multihead bayes --prior gauss --mean 0,0 --std 0,1e200", ["std has an entry of size 1e+200"]),
    ("multihead bayes --support [[1],[1e9]] --weights .5,.5", ["support has an entry of size"]),
    (f"{LOSS} --m [[1e200,0]]", ["m has an entry of size 1e+200; give at most 1000"]),
    (f"{LOSS} --m [[1,0]] --r [[1e9]]", ["r has an entry of size 1e+09"]),
    (f"{FLOW} --init-m [[1e12,0]]", ["m has an entry of size 1e+12"]),
    (f"{STABILITY} --mean .8,.3", ["--mean: the plateau is known for a mean along one constant"]),
    (f"{STABILITY} --mean 0,.8", ["--std 0 there"]),
    ("multihead stability --activation bayes --mean .8 --std 0", ["nothing will specialise"]),
    ("multihead stability --activation bayes --support [[1]] --weights 1", ["--prior discrete"]),
    (f"multihead stability --activation softmax1 {PRIOR}", ["'softmax1' has no plateau"]),
    ("multihead bayes --support []", ["--support: '[]' is not a matrix", ]),
    ("multihead bayes --support [[1],[1]] --weights .5,.5", ["support has the point [1.0] twice"]),
    (f"{OPTIMUM} --mean 1 --std -1", ["std [-1.0] has a negative entry; use 0"]),
    (f"{OPTIMUM} --support [[1,2],[3,4],[1,2]] --weights .5,.2,.3", ["the point [1.0, 2.0] twice"]),
    (f"{OPTIMUM} --support [[1],[2]] --weights .5,.6", ["must sum to one"]),
    (f"{OPTIMUM} {PRIOR} --heads 0", ["--heads: 0 will not do; give a whole number of at least 1"]),
    (f"{OPTIMUM} {PRIOR} --starts 0", ["--starts: 0 will not do"]),
    (f"{FLOW} --init-m [[1,2]] --seed 3", ["--seed: --init-m says where to start"]),
    (f"{FLOW} --init-m [[1,2]] --heads 2", ["--init-m: it has 1 rows, --heads says 2"]),
    (f"{FLOW} --init-r [[1]]", ["--init-r: it needs --init-m"]),
    (f"{FLOW} --init-m [[1,0]] --init-r [[.5]]", ["negative eigenvalue"]),
    (f"{FLOW} --dim 3", ["dim is 3"]),
    (f"{FLOW} --heads 5000", ["--heads: 5000 will not do"]),
    (f"{FLOW} --points 1e6", ["--points: 1e6 will not do"]),
    (f"{FLOW} --heads 1000 --tokens 50", ["lower --heads or --tokens"]),
    (f"{FLOW} --gamma -1", ["--gamma: -1 will not do"]),
    (f"{FLOW} --tau 0", ["--tau: 0 will not do"]),
    (f"{FLOW} --tau 1e300", ["--tau: 1e300 will not do; give a finite number above 0 and of at"]),
    (f"{FLOW} --gamma 1e300", ["--gamma: 1e300 will not do"]),
    (f"{FLOW} --sigma 1e300", ["--sigma: 1e300 will not do"]),
    (f"{FLOW} --tokens 1e9", ["--tokens: 1e9 will not do; give a whole number of at least 2"]),
    (f"{SGD} --instances 1e9", ["--instances: 1e9 will not do"]),
    (f"{SGD} --seed 1e30", ["--seed: 1e30 will not do; give a whole number"]),
    (f"{OPTIMUM} {PRIOR} --starts 1e9", ["--starts: 1e9 will not do"]),
    (f"{SOLVE} --tokens 1e9", ["--tokens: 1e9 will not do"]),
    (f"{TRAIN} --instances 1e11", ["--instances: 1e11 will not do"]),
    (f"{TRAIN} --beta 1e300", ["beta = 1e+300: give 0.001 to 1000"]),
    (f"{TRAIN} --noise 1e300", ["noise = 1e+300: give 0 to 1e+06"]),
    (f"{TRAIN} --beta0 1e200", ["beta0 = 1e+200: give 0.001 to 100"]),
    (f"{TRAIN} --kappa 1e-9", ["kappa = 1e-09: give 0.0001 to 1000"]),
    (f"{TRAIN} --lam 1e-300", ["lam = 1e-300: give 0, or 1e-10 to 1e+06"]),
    (f"{SGD} --gamma 0", ["--gamma: 0 will not do; give a finite number above 0"]),
    (f"{SGD} --tau 1 --gamma 1e4 --dim 50", ["less than one step, gamma B / D = 200"]),
    (f"{SGD} --dim 1", ["dim = 1 cannot hold 2 orthonormal spikes"]),
    (f"{SGD} --dim 1e9 --batch 1000", ["lower --dim, --batch or --heads"]),
    (f"{SGD} --init-m [[1,0]] --sigma .1", ["--sigma: --init-m says where to start"]),
    ("show", ["FILE.h5: missing"]),
    ("show nowhere.h5", ["nowhere.h5"]),
    ("show pyproject.toml", ["pyproject.toml"]),
    ("check --directory nowhere", ["--directory"]),
    ("figures --scale nowhere", ["nowhere"]),
]  # fmt: skip


def test_perfect_recovery_has_the_density_of_the_target(command):
    status, out, _ = command("singlehead density --alpha 1 --noise 0 --lam 0 --points 2000 --json")
    assert status == 0
    found = json.loads(out)
    x, density = np.array(found["x"]), np.array(found["density"])
    # 2000 points dense at the square roots: the trapezoid rule is right to 1e-5
    assert np.trapezoid(density, x) == pytest.approx(0.5, abs=1e-4)
    assert np.trapezoid(density * x**2, x) == pytest.approx(1.5, abs=1e-4)  # Q0 = 1 + kappa0
    assert found["atom_at_zero"] == pytest.approx(0.5)


@pytest.mark.parametrize(("line", "expected"), BAD, ids=[line for line, _ in BAD])
def test_each_mistake_is_one_line(command, line, expected):
    status, out, err = command(line)
    assert (status, out) == (2, "")
    lines = err.splitlines()
    assert len(lines) == len(expected), err
    for text, part in zip(lines, expected, strict=True):
        assert text.startswith("hdattn: error: ")
        assert part in text


def test_interruption_is_one_line(command, monkeypatch):
    from hdattn.multihead import flow

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(flow, "solve_flow", interrupted)
    status, out, err = command(FLOW)
    assert (status, out) == (130, "")
    assert err.split() == ["hdattn:", "interrupted"]


# --- the process ----------------------------------------------------------------------------


def process(*arguments: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, **options
    )


def test_process_reports_bad_input_without_traceback():
    done = process("-m", "hdattn", "singlehead", "solve", "--alpha", "x", "--lam", "y")
    assert done.returncode == 2
    assert done.stdout == ""
    assert [line[:24] for line in done.stderr.splitlines()] == [
        "hdattn: error: --alpha: ",
        "hdattn: error: --lam: 'y",
    ]


def test_closed_pipe_leaves_no_traceback():
    line = f"{sys.executable} -m hdattn multihead flow --activation softmax --mean 1 --std 0"
    # Two thousand points make more text than a pipe holds, so that writing must fail.
    line += " --init-m [[.1]] --tau .01 --points 2000 --json | head -c 1"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("{", "")


def test_help_loads_nothing_heavy():
    code = "; ".join(
        [
            "import sys",
            "from hdattn.cli import run",
            "run(['--help'])",
            "run(['multihead', 'flow', '--help'])",
            "print('LOADED', *sys.modules)",
        ]
    )
    loaded = process("-c", code).stdout.split("LOADED")[1].split()
    assert "click" in loaded
    assert not {"numpy", "scipy", "torch", "matplotlib", "h5py", "yaml"} & set(loaded)


def test_reference_is_in_step_with_the_commands(request):
    written = (request.config.rootpath / reference.FILE).read_text(encoding="utf-8")
    assert written == reference.reference(), "run: python -m hdattn.commands.reference"
