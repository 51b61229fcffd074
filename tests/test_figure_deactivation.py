"""The figure deactivation: its section, its experiments, and a tiny real run."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from hdattn import configuration
from hdattn.errors import UserError
from hdattn.figures import deactivation, style

CONFIG = Path(__file__).parents[1] / "config" / "multihead.yaml"
TINY = {
    **{"dim": 50, "instances": 4, "block_size": 2, "base_points": 256},
    **{"tau_sgd": {"softmax1": 20, "bayes": 20}},
    **{"gamma": 0.25, "sequences": 2000, "tested": 512, "points": 256, "tau_max": 300},
    "many": {"heads": 4, "mean": [0.8, 0], "std": [0, 2]},
}


def section(changes=None, scale="default"):
    merged = {"figures": "deactivation", "scale": scale, "deactivation": changes or {}}
    return configuration.load(merged).sections["deactivation"]


@pytest.mark.parametrize("scale", ["smoke", "default", "paper"])
def test_project_configuration_holds_the_base_sets(scale):
    merged = {"figures": "deactivation", "scale": scale, **yaml.safe_load(CONFIG.read_text())}
    loaded = configuration.load(merged).sections["deactivation"]
    assert (loaded.heads, loaded.mean, loaded.std) == (2, (0.8, 0), (0, 2))
    assert (loaded.many.heads, loaded.many.std) == (8, (0, 1.5, 1.2))


@pytest.mark.parametrize(
    "changes, line",
    [
        ({"heads": 0}, "heads: 0 will not do; give a number of at least"),
        ({"many": {"heads": 1}}, "many.heads: one head cannot specialise"),
        ({"tau_sgd": {"bayes": 40}}, "map each of softmax1, bayes to a time"),
        ({"sequences": 10}, "sequences: 10 will not do; give a number of at least 1000"),
    ],
)
def test_a_bad_value_gives_one_line(changes, line):
    with pytest.raises(UserError) as caught:
        section(changes)
    assert line in str(caught.value) and "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def drawn(figure_project):
    """Figure and drawing of a tiny real run."""
    records = figure_project.records(deactivation, section(TINY))
    with style.context():
        figure = style.new_figure()
        return figure, deactivation.draw(figure, records, section(TINY))


def value(drawing, activation, source, sequences, quantity="mean"):
    wanted = (activation, source, sequences, quantity)
    keys = ("activation", "source", "sequences", "quantity")
    found = [r["value"] for r in drawing.table if tuple(r[k] for k in keys) == wanted]
    return found[0] if quantity in ("mean", "median") else found


@pytest.mark.parametrize("source", ["flow", "sgd", "many"])
def test_b_softmax_heads_leave_the_other_sign_to_others(drawn, source):
    own, other = (value(drawn[1], "bayes", source, s) for s in ("own", "other"))
    assert 0 < other < own - 0.1 and own < 1


@pytest.mark.parametrize("source", ["flow", "many"])
def test_softmax_one_heads_attend_less_to_the_other_sign(drawn, source):
    own, other = (value(drawn[1], "softmax1", source, s) for s in ("own", "other"))
    assert 0 < other < own < 1


def test_shares_of_the_joint_mass_sum_to_one(drawn):
    # Two heads of opposite signs on sequences of both signs in about equal number (2000 drawn).
    shares = [value(drawn[1], "bayes", "flow", s) for s in ("own", "other")]
    assert sum(shares) == pytest.approx(1, abs=0.03)


def test_simulation_agrees_with_the_flow(drawn):
    rows = drawn[1].validation
    assert len(rows) == 4 and {r["verdict"] for r in rows} == {"agree"}
    assert all(r["instances"] == 4 and np.isfinite(r["z"]) for r in rows)


def test_everything_is_drawn_and_noted(drawn):
    figure, drawing = drawn
    assert len(figure.axes) == 4
    assert len({tuple(row) for row in drawing.table}) == 1
    assert sum(value(drawing, "bayes", "flow", "own", "fraction")) == pytest.approx(1)
    assert not drawing.flagged


def test_what_did_not_converge_is_listed_and_not_judged(figure_project):
    assert figure_project.hides(deactivation, section(TINY)) == []
