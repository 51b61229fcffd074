"""The figure splitting: its section, its experiments, and a tiny real run."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from hdattn import configuration
from hdattn.errors import UserError
from hdattn.figures import splitting, style

CONFIG = Path(__file__).parents[1] / "config" / "multihead.yaml"
PLANE = {"tokens": 5, "heads": 2, "mean": [0.8, 0, 0], "std": [0, 2, 1.5]}
TINY = {
    **{"heads": [2, 4], "seeds": 3, "points": 128, "tau_single": 1000, "tau_points": 60},
    **{"axes": PLANE, "corners": PLANE | {"std": [0, 2, 1]}, "tau_plane": 100},
    **{"plane_seeds": {"axes": 1, "corners": 1}, "plane_points": {"axes": 128, "corners": 128}},
    **{"check_points": 256, "starts": 1, "optimum_points": 64},
}


def section(changes=None, scale="default"):
    merged = {"figures": "splitting", "scale": scale, "splitting": changes or {}}
    return configuration.load(merged).sections["splitting"]


@pytest.mark.parametrize("scale", ["smoke", "default", "paper"])
def test_project_configuration_holds_the_base_sets(scale):
    merged = {"figures": "splitting", "scale": scale, **yaml.safe_load(CONFIG.read_text())}
    loaded = configuration.load(merged).sections["splitting"]
    assert loaded.heads == (4, 6) and loaded.single.std == (0, 2)
    assert (loaded.axes.tokens, loaded.axes.std) == (5, (0, 1.5, 1.2))
    assert (loaded.corners.tokens, loaded.corners.mean) == (10, (0.5, 0, 0))
    assert loaded.tau_plane == 6000


@pytest.mark.parametrize(
    "changes, line",
    [
        ({"heads": [1]}, "heads: [1] will not do; give even numbers of heads, at least 2"),
        ({"heads": [3]}, "give even numbers of heads"),
        ({"single": {"heads": 1}}, "single.heads: one head cannot specialise"),
        ({"axes": {"tokens": 2}}, "with 2 their growth rate vanishes"),
        ({"axes": {"activation": "bayes"}}, "the figure is about softmax heads"),
        ({"axes": {"mean": [0.8, 0], "std": [0, 1]}}, "two entries of std must be positive"),
        ({"plane_seeds": {"axes": 3}}, "map each of axes, corners to a number"),
    ],
)
def test_a_bad_value_gives_one_line(changes, line):
    with pytest.raises(UserError) as caught:
        section(changes)
    assert line in str(caught.value) and "\n" not in str(caught.value)


def test_more_seeds_only_add_blocks():
    def paths(seeds):
        return {e.path for e in splitting.experiments(section({"seeds": seeds}), 0)["single_4"]}

    assert paths(20) < paths(200) and len(paths(200)) == 20


@pytest.fixture(scope="module")
def drawn(figure_project):
    """Figure, drawing and records of a tiny real run."""
    records = figure_project.records(splitting, section(TINY))
    with style.context():
        figure = style.new_figure()
        return figure, splitting.draw(figure, records, section(TINY)), records


def values(drawing, case, quantity):
    return [r["value"] for r in drawing.table if (r["case"], r["quantity"]) == (case, quantity)]


def test_every_final_split_is_even(drawn):
    for case in ("L5 H2", "L5 H4"):
        assert values(drawn[1], case, "fraction even, late") == [1.0]
        assert len(values(drawn[1], case, "largest excursion")) == 3


def test_best_loss_is_no_higher_than_without_a_second_split(drawn):
    for case in splitting.PLANES:
        (best,), (single,) = (values(drawn[1], case, f"loss, {x}") for x in ("best", "one split"))
        # quadrature of optima of 256 points: equal to the sampling error where nothing is gained
        assert best < single + 2e-3
        (end,) = values(drawn[1], case, "loss at the end")
        assert 0.3 < best < end + 2e-3 < 0.75


def test_held_direction_is_zero_at_the_crosses(drawn):
    _, _, records = drawn
    assert np.all(records["optimum_axes"][1].datasets["m"][:, 2] == 0)


def test_everything_is_drawn_and_noted(drawn):
    figure, drawing, _ = drawn
    assert len(figure.axes) == 6 and all(a.get_xlabel() and a.get_ylabel() for a in figure.axes)
    assert len({tuple(row) for row in drawing.table}) == 1
    assert not [flag for flag in drawing.flagged if "integrator" in flag]


def test_what_did_not_converge_is_listed_and_not_judged(figure_project):
    assert figure_project.hides(splitting, section(TINY)) == []
