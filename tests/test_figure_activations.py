"""The figure activations: its section, its experiments, and what it draws from a tiny run."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from hdattn import configuration
from hdattn.catalogue import with_inputs
from hdattn.errors import UserError
from hdattn.figures import activations, staging, style, validation

CONFIG = Path(__file__).parents[1] / "config" / "multihead.yaml"
TINY = {
    **{"heads": 2, "mean": [0.8, 0], "std": [0, 2], "dim": 150, "dims": [60, 100], "instances": 4},
    **{"tau_max": {"softmax": 8, "softmax1": 8, "bayes": 8}, "records": 9, "base_points": 128},
    **{
        "tau_dims": {"softmax1": 6, "bayes": 6},
        "seeds": 1,
        "points": 256,
        "tau_points": 20,
        "tau_flow": 200,
    },
}


def load(name, scale):
    merged = {"figures": name, "scale": scale, **yaml.safe_load(CONFIG.read_text())}
    return configuration.load(merged).sections[name]


def section(changes=None):
    merged = {"figures": "activations", "scale": "default", "activations": changes or {}}
    return configuration.load(merged).sections["activations"]


@pytest.mark.parametrize("scale", ["smoke", "default", "paper"])
def test_project_configuration_is_the_base_set_at_three_dimensions_or_more(scale):
    loaded = load("activations", scale)
    assert (loaded.tokens, loaded.heads, loaded.std) == (5, 4, (0, 1.5, 1.2))
    assert len(loaded.dims) >= 2 and max(loaded.dims) < loaded.dim
    assert loaded.activations == ["softmax", "softmax1", "bayes"]


@pytest.mark.parametrize("scale", ["smoke", "default", "paper"])
def test_runs_of_the_figure_staging_are_shared(scale):
    def paths(module, name):
        groups = module.experiments(load(name, scale), 0).values()
        return {e.path for e in with_inputs(e for group in groups for e in group)}

    assert paths(staging, "staging") <= paths(activations, "activations")


@pytest.mark.parametrize(
    "changes, line",
    [
        ({"dims": [500, 250]}, "dims: [500, 250] must increase, without repeats, and stay below"),
        ({"dims": [500, 1000]}, "and stay below dim"),
        ({"dims": [500]}, "dims: [500] will not do; give at least 2"),
        ({"tau_max": {"sigmoid": 1}}, "map softmax and softmax1 and bayes (or one of them)"),
        ({"tau_max": {"bayes": 9}}, "tau_dims: 'softmax' is not in tau_max"),
        ({"tau_dims": {"relu": 1}}, "tau_dims: 'relu' is not in tau_max"),
        ({"heads": 1}, "heads: one head cannot specialise"),
    ],
)
def test_a_bad_value_gives_one_line(changes, line):
    with pytest.raises(UserError) as caught:
        section(changes)
    assert line in str(caught.value) and "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def drawn(figure_project):
    records = figure_project.records(activations, section(TINY))
    with style.context():
        figure = style.new_figure()
        return figure, activations.draw(figure, records, section(TINY)), records


def test_start_of_b_and_c_is_recorded(drawn):
    for role, group in drawn[2].items():
        if role.startswith(("sgd_softmax1", "flow_softmax1")):
            for record in group:
                np.testing.assert_array_equal(record.datasets["b"][:, 0], 0.0)
                np.testing.assert_array_equal(record.datasets["c"][:, 0], 1.0)
                assert np.ptp(record.datasets["c"]) > 0.1  # and c is trained


def test_b_softmax_reaches_the_bayes_line_and_softmax_stays_above(drawn):
    rows = [r for r in drawn[1].table if r["quantity"] == "loss by quadrature"]
    end = {r["activation"]: r["value"] for r in rows}
    risk = float(drawn[2]["bayes"][0].datasets["bayes_risk"])
    assert risk - 1e-6 < end["bayes"] < risk + 0.01  # 256 points in all
    assert end["softmax"] > end["softmax1"] + 0.02 > risk + 0.04


def test_validation_covers_every_activation_and_dimension_and_agrees(drawn):
    rows = drawn[1].validation
    points = {(r["point"].split()[0], r["point"].split()[-1]) for r in rows}
    scanned = {(a, f"D={d}") for a in ("softmax1", "bayes") for d in (60, 100, 150)}
    assert points == scanned | {("softmax", "D=150")}
    assert {"output scale c", "mean bias b_h"} < {r["quantity"] for r in rows}
    agree = [r["verdict"] == validation.AGREE for r in rows]
    # four instances at the smallest sizes: first-order corrections in 1/D and little more
    assert np.mean(agree) > 0.9


def test_everything_is_drawn(drawn):
    figure, drawing, _ = drawn
    assert len(figure.axes) == 3 and all(a.get_xlabel() and a.get_ylabel() for a in figure.axes)
    assert len({tuple(row) for row in drawing.table}) == 1
    assert drawing.flagged == []


def test_what_did_not_converge_is_listed_and_not_judged(figure_project):
    assert figure_project.hides(activations, section(TINY)) == []
