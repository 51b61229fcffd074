"""The figure pruning: its section, its experiments, and a tiny real run."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from hdattn import configuration
from hdattn.errors import UserError
from hdattn.figures import pruning, style

CONFIG = Path(__file__).parents[1] / "config" / "multihead.yaml"
TINY = {
    **{"spreads": [[2]], "heads": [4], "seeds": 2, "points": 256, "tau_max": 800},
    **{"scan_points": 64, "retrain_tau": 5},
}


def section(changes=None, scale="default"):
    merged = {"figures": "pruning", "scale": scale, "pruning": changes or {}}
    return configuration.load(merged).sections["pruning"]


@pytest.mark.parametrize("scale", ["smoke", "default", "paper"])
def test_project_configuration_holds_the_base_sets(scale):
    merged = {"figures": "pruning", "scale": scale, **yaml.safe_load(CONFIG.read_text())}
    loaded = configuration.load(merged).sections["pruning"]
    assert (loaded.tokens, loaded.mu, loaded.heads) == (5, 0.8, (6, 8))
    assert loaded.spreads == ((2,), (1.5, 1.2))
    last = loaded.panels()[-1]
    assert last.case["prior"]["mean"] == [0.8, 0, 0] and last.case["heads"] == 8


@pytest.mark.parametrize(
    "changes, line",
    [
        ({"heads": [0]}, "heads[0]: 0 will not do; give a number of at least"),
        ({"heads": [1]}, "give a number of at least 2"),
        ({"spreads": [[]]}, "spreads[0]: [] will not do; give at least 1"),
        ({"spreads": [[-1]]}, "give a number above 0"),
        ({"activations": ["relu"]}, "activation 'relu' is unknown; choose one of bayes, softmax"),
        ({"activations": ["bayes", "bayes"]}, "names one twice"),
        ({"retrain_tau": -1}, "retrain_tau: -1 will not do; give a number of at least 0"),
        ({"points": 1000}, "1000 is not a power of two"),
    ],
)
def test_a_bad_value_gives_one_line(changes, line):
    with pytest.raises(UserError) as caught:
        section(changes)
    assert line in str(caught.value) and "\n" not in str(caught.value)


def test_more_seeds_only_add_experiments():
    def paths(seeds):
        groups = pruning.experiments(section({"seeds": seeds}), 0).values()
        return {e.path for group in groups for e in group}

    assert paths(1) < paths(2) and len(paths(2)) == 2 * 3


@pytest.fixture(scope="module")
def drawn(figure_project):
    """Figure and drawing of a tiny real run."""
    records = figure_project.records(pruning, section(TINY))
    with style.context():
        figure = style.new_figure()
        return figure, pruning.draw(figure, records, section(TINY))


def values(drawing, activation, protocol, quantity="increase"):
    """[instance, removed]."""
    wanted = (activation, protocol, quantity)
    rows = [r for r in drawing.table if (r["activation"], r["protocol"], r["quantity"]) == wanted]
    return np.array([r["value"] for r in rows]).reshape(2, -1)


CURVES = [
    ("softmax", "renormalised"),
    ("softmax1", "kept"),
    ("softmax1", "renormalised"),
    ("softmax1", "refitted"),
    ("bayes", "joint"),
    ("bayes", "retrained"),
]


@pytest.mark.parametrize("curve", CURVES)
def test_curves_start_at_zero_and_stay_above_the_bayes_risk(drawn, curve):
    (risk,) = (r["value"] for r in drawn[1].table if r["quantity"] == "bayes risk")
    assert risk == pytest.approx(0.372127, abs=1e-6)
    assert np.all(values(drawn[1], *curve)[:, 0] == 0)
    assert values(drawn[1], *curve).shape == (2, 4)
    assert np.all(values(drawn[1], *curve, "loss") > risk - 1e-6)


def test_b_softmax_falls_off_a_cliff_where_softmax_does_not(drawn):
    cliff, gradual = values(drawn[1], "bayes", "joint"), values(drawn[1], "softmax", "renormalised")
    assert np.all(np.abs(cliff[:, 2]) < 2e-3)  # the flow on 128 points is 1e-3 off the optimum
    assert np.all(cliff[:, 3] > 0.3)
    assert np.all(gradual[:, 1] > 0.005)  # three heads of an even split are an uneven one


def test_training_again_costs_nothing_where_a_head_for_each_signal_is_left(drawn):
    again = values(drawn[1], "bayes", "retrained")
    assert np.all(np.abs(again[:, :3]) < 2e-3)


def test_everything_is_drawn_and_noted(drawn):
    figure, drawing = drawn
    assert len(figure.axes) == 2
    assert len({tuple(row) for row in drawing.table}) == 1
    kept = [r for r in drawing.table if r["removed"] == 3 and r["quantity"] == "loss"]
    assert all(r["kept"].isdigit() for r in kept) and len(kept) == 2 * 8
    assert not drawing.flagged


def test_what_did_not_converge_is_listed_and_not_judged(figure_project):
    assert figure_project.hides(pruning, section(TINY)) == []
