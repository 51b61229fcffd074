"""The figure interpolation: its section, its steps, and a real tiny run."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from hdattn import configuration, steps, store
from hdattn.errors import UserError
from hdattn.figures import interpolation, style
from hdattn.singlehead.thresholds import alpha_interpolation, alpha_recovery

CONFIG = Path(__file__).parents[1] / "config" / "singlehead.yaml"
TINY = {"dim": 16, "small_dim": 10, "instances": 3, "block_size": 3, "nodes": 8}
TINY |= {"lams": [1e-4, 1e-2], "solved_lams": [1e-2], "recovery_lams": [1e-3, 1e-2]}
TINY |= {"test_samples": 1024, "alphas": [0.1, 0.5], "theory_alphas": [0.1, 0.5]}
TINY |= {"ridgeless_alphas": [0.05, 0.14], "theory_kappa0s": [0.1, 1], "probe_dim": 12}
TINY |= {"probe_kappa0s": [0.5], "probe_alphas": [0.06, 0.5]}
TINY |= {"recovery_alphas": [0.1, 0.5], "recovery_theory_alphas": [0.1, 0.3]}


def section(changes=None):
    merged = {"figures": "interpolation", "interpolation": changes or {}}
    return configuration.load(merged).sections["interpolation"]


@pytest.mark.parametrize(
    "changes, line",
    [
        ({"solved_lams": [0.5]}, "solved_lams: 0.5 is not among lams; add it there"),
        ({"lams": [0, 0.1]}, "lams[0]: 0 will not do; give a number above 0"),
        ({"small_dim": 60}, "small_dim: 60 is not below dim = 50"),
    ],
)
def test_a_bad_value_gives_a_line_that_says_how_to_mend_it(changes, line):
    with pytest.raises(UserError) as caught:
        section(changes)
    assert line in str(caught.value)


@pytest.mark.parametrize("scale", ["smoke", "default", "paper"])
def test_the_limit_of_the_project_lies_below_the_threshold(scale):
    yaml_section = yaml.safe_load(CONFIG.read_text())["interpolation"]
    merged = {"figures": "interpolation", "scale": scale, "interpolation": yaml_section}
    loaded = configuration.load(merged).sections["interpolation"]
    assert max(loaded.ridgeless_alphas) < alpha_interpolation(loaded.kappa0, loaded.noise)


def test_the_limit_beyond_the_threshold_is_refused_in_one_line(tmp_path):
    (experiment,) = interpolation.experiments(section({"ridgeless_alphas": [0.1, 0.2]}), 0)[
        "ridgeless"
    ]
    with pytest.raises(UserError, match=r"below the interpolation threshold alpha = 0\.15348"):
        steps.compute(experiment.kind, experiment.parameters, {}, tmp_path / "ridgeless.h5")


def test_steps_give_the_closed_forms_and_the_limit_of_small_weight_decays(tmp_path):
    roles = interpolation.experiments(section(TINY), 0)
    found = {}
    for role in ("thresholds", "ridgeless", "clean ridgeless"):
        (experiment,) = roles[role]
        path = tmp_path / "result.h5"
        steps.compute(experiment.kind, experiment.parameters, {}, path)
        found[role] = store.read(path).datasets
    closed = found["thresholds"]
    assert closed["alpha_interpolation"][1, 2] == alpha_interpolation(1.0, 0.5)
    assert closed["alpha_recovery"].tolist() == [alpha_recovery(k) for k in (0.1, 0.5, 1)]
    # given digits: e = 1.21232, .93 at two alphas (kappa0 = .5, noise = .5), flags are none
    limit = found["ridgeless"]
    overlap_error = limit["Q0"] - 2 * limit["M"] + limit["Q"]
    assert overlap_error[0] == pytest.approx(1.21232, rel=1e-4)
    assert limit["flags"].tolist() == ["", ""]
    clean = found["clean ridgeless"]
    assert clean["Q"][1] == clean["M"][1] == clean["Q0"][1]  # recovered beyond .211


@pytest.fixture(scope="module")
def drawn(figure_project):
    records = figure_project.records(interpolation, section(TINY))
    with style.context():
        figure = style.new_figure()
        return figure, interpolation.draw(figure, records, section(TINY)), records


def values(drawing, quantity, series, **where):
    return np.array(
        [
            row["value"]
            for row in drawing.table
            if (row["quantity"], row.get("series")) == (quantity, series)
            and all(row.get(key) == value for key, value in where.items())
        ]
    )


def test_labels_are_fitted_below_the_threshold_only(drawn):
    figure, drawing, _ = drawn
    assert all(axis.get_xlabel() and axis.get_ylabel() for axis in figure.axes)
    assert values(drawing, "share of instances fitted", None).tolist() == [1, 0]
    for series in ("theory", "lbfgs"):
        weak = values(drawing, "train_loss", series, lam=1e-4)
        strong = values(drawing, "train_loss", series, lam=1e-2)
        assert weak[0] < 0.02 * strong[0]  # proportional to lambda or better
        assert weak[1] > 0.5 * strong[1]  # noise is left at any lambda


def test_without_noise_the_target_is_recovered_beyond_the_threshold(drawn):
    _, drawing, _ = drawn
    theory = values(drawing, "overlap_error", "theory", lam=0.0)
    assert theory[0] > 0.4 and theory[1] == pytest.approx(0, abs=1e-12)
    trained = values(drawing, "overlap_error", "lbfgs", lam=1e-3)
    assert trained[1] < 0.02 < 0.3 < trained[0]


def test_training_agrees_with_its_theory(drawn):
    _, drawing, _ = drawn
    rows = [row for row in drawing.validation if row["quantity"] != "share fitted"]
    assert len(rows) == 2 * 2 + 2 and len(drawing.validation) == len(rows) + 2
    for row in rows:
        if "without noise" in row["point"]:
            continue  # tiny errors beyond the recovery: the test above looks at S
        # 8/d where labels are nearly fitted, and 5 standard errors of 3 instances
        bound = 8 / 16 * abs(row["theory"]) + 5 * row["standard_error"]
        assert abs(row["simulation"] - row["theory"]) < bound, row


def test_what_did_not_converge_is_listed_and_not_judged(figure_project):
    assert figure_project.hides(interpolation, section(TINY)) == []
