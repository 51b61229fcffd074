"""The figure deactivation: its section, its experiments, and a tiny real run."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from hdattn import configuration
from hdattn.catalogue import Catalogue
from hdattn.figures import deactivation, style

CONFIG = Path(__file__).parents[1] / "config" / "multihead.yaml"
TINY = {
    **{"dim": 50, "instances": 4, "block_size": 2, "tau_sgd": 20, "base_points": 256},
    **{"gamma": 0.25, "sequences": 2000, "tested": 512, "points": 256, "tau_max": 300},
    **{"tau_points": 20, "many": {"heads": 4, "mean": [0.8, 0], "std": [0, 2]}},
}


def section(changes=None, scale="default"):
    merged = {"figures": "deactivation", "scale": scale, "deactivation": changes or {}}
    return configuration.load(merged).sections["deactivation"]


@pytest.mark.parametrize("scale", ["smoke", "default", "paper"])
def test_project_configuration_holds_the_base_sets_and_shares_heads_with_pruning(scale):
    merged = {"figures": "deactivation pruning", "scale": scale}
    loaded = configuration.load(merged | yaml.safe_load(CONFIG.read_text()))
    here = loaded.sections["deactivation"]
    assert (here.heads, here.mean, here.std) == (2, (0.8, 0), (0, 2))
    assert (here.many.heads, here.many.std) == (8, (0, 1.5, 1.2))
    figures = Catalogue(loaded).figures
    flows = {
        name: {
            source
            for e in figures[name].direct()
            for source in e.inputs.values()
            if source.kind == "multihead/flows"
        }
        for name in figures
    }
    assert len(flows["deactivation"]) == 3 and flows["deactivation"] < flows["pruning"]


@pytest.fixture(scope="module")
def drawn(figure_project):
    """Figure and drawing of a tiny real run."""
    records = figure_project.records(deactivation, section(TINY))
    with style.context():
        figure = style.new_figure()
        return figure, deactivation.draw(figure, records, section(TINY))


def value(drawing, row, activation, sequences, quantity="mean", source="flow"):
    wanted = (row, activation, source, sequences, quantity)
    keys = ("row", "activation", "source", "sequences", "quantity")
    (found,) = [r["value"] for r in drawing.table if tuple(r[k] for k in keys) == wanted]
    return found


@pytest.mark.parametrize("row", ["few", "many"])
def test_heads_switch_off_where_they_can(drawn, row):
    for sequences in ("own", "other"):
        assert value(drawn[1], row, "softmax", sequences) == pytest.approx(1, abs=1e-12)
    for activation in ("softmax1", "bayes"):
        own, other = (value(drawn[1], row, activation, s) for s in ("own", "other"))
        assert 0 < other < own - 0.1 and own < 1


def test_shares_of_the_joint_mass_sum_to_one(drawn):
    # Two heads of opposite signs on sequences of both signs in equal number (2000 drawn ones).
    shares = [value(drawn[1], "few", "bayes", s) for s in ("own", "other")]
    assert sum(shares) == pytest.approx(1, abs=0.03)


def test_simulation_agrees_with_the_flow(drawn):
    rows = drawn[1].validation
    assert len(rows) == 4 and {r["verdict"] for r in rows} == {"agree"}
    assert all(r["instances"] == 4 and np.isfinite(r["z"]) for r in rows)


def test_everything_is_drawn_and_noted(drawn):
    figure, drawing = drawn
    assert len(figure.axes) == 6 and all(a.get_title() for a in figure.axes)
    assert len({tuple(row) for row in drawing.table}) == 1
    fractions = [
        r["value"]
        for r in drawing.table
        if (r["row"], r["activation"], r["source"], r["quantity"])
        == ("few", "bayes", "flow", "fraction")
        and r["sequences"] == "own"
    ]
    assert sum(fractions) == pytest.approx(1)
    assert not drawing.flagged
