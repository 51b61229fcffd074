"""The figure factorised: its section, its experiments, and a real tiny run."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from hdattn import configuration
from hdattn.errors import UserError
from hdattn.figures import factorised, style

CONFIG = Path(__file__).parents[1] / "config" / "singlehead.yaml"
TINY = {"kappa0": 0.1, "dim": 20, "small_dim": 10, "instances": 3, "block_size": 3, "nodes": 8}
TINY |= {"test_samples": 2048, "validation_samples": 2048, "alphas": [0.2, 0.5]}
TINY |= {"lams": [0.03, 0.08], "direct_lams": [0.002, 0.006], "theory_alphas": [0.2, 0.5]}
TINY |= {"scan_kappa0s": [0.5], "scan_theory_kappa0s": [0.1, 0.5]}


def section(changes=None, scale="default"):
    merged = {"figures": "factorised", "scale": scale, "factorised": changes or {}}
    return configuration.load(merged).sections["factorised"]


@pytest.mark.parametrize("scale, dim", [("smoke", 40), ("default", 60), ("paper", 100)])
def test_project_configuration(scale, dim):
    yaml_section = yaml.safe_load(CONFIG.read_text())["factorised"]
    loaded = section(yaml_section, scale)
    assert (loaded.dim, loaded.kappa0, loaded.noise) == (dim, 0.05, 0.05)
    # p0 is whole at both sizes, so that kappa0 is the same
    for size in (loaded.dim, loaded.small_dim):
        assert size * loaded.kappa0 == pytest.approx(round(size * loaded.kappa0))


@pytest.mark.parametrize(
    "changes, line",
    [
        ({"scan_alpha": 3}, "alphas: scan_alpha = 3 is not among them; add it"),
        ({"lam_ranges": {"tied": [0.1, 1]}}, "lam_ranges: give a range [low, high] of tied and"),
        ({"lams": [-0.1, 0.1]}, "lams[0]: -0.1 will not do; give a number above 0"),
        ({"small_dim": 90}, "small_dim: 90 is not below dim = 60"),
        ({"lams": [0.1]}, "lams"),
    ],
)
def test_a_bad_value_gives_a_line_that_says_how_to_mend_it(changes, line):
    with pytest.raises(UserError) as caught:
        section(changes)
    assert line in str(caught.value)


def test_heads_see_the_same_data():
    roles = factorised.experiments(section(TINY), 0)
    assert [e.inputs["data"] for e in roles["tied"]] == [e.inputs["data"] for e in roles["direct"]]
    assert roles["tied"][0] != roles["direct"][0]


@pytest.fixture(scope="module")
def drawn(figure_project):
    records = figure_project.records(factorised, section(TINY))
    with style.context():
        figure = style.new_figure()
        return figure, factorised.draw(figure, records, section(TINY)), records


def series(drawing, quantity, name, head):
    return [
        row["value"]
        for row in drawing.table
        if (row["quantity"], row["series"], row["head"]) == (quantity, name, head)
    ]


def test_direct_training_is_worse_everywhere_in_theory_and_simulation(drawn):
    figure, drawing, _ = drawn
    assert all(axis.get_xlabel() and axis.get_ylabel() for axis in figure.axes)
    for quantity in ("test_error", "scan_test_error"):
        for name in ("theory", "lbfgs"):
            tied, direct = (series(drawing, quantity, name, head) for head in ("tied", "direct"))
            assert len(tied) == len(direct) == 2
            assert np.all(np.array(direct) > 1.1 * np.array(tied))
    ratio = np.divide(
        *(series(drawing, "scan_test_error", "theory", h) for h in ("direct", "tied"))
    )
    assert ratio[0] > 2 * ratio[1]  # most at small kappa0


def test_validation_chooses_without_looking_at_the_test_error(drawn):
    _, drawing, records = drawn
    found = records["tied"][0].datasets
    picked = found["validation_error"].argmin(axis=2)[..., None]
    expected = np.take_along_axis(found["test_error"], picked, 2)[..., 0].mean(axis=0)
    np.testing.assert_allclose(series(drawing, "test_error", "lbfgs", "tied"), expected)


def test_training_agrees_with_its_theory(drawn):
    _, drawing, _ = drawn
    assert len(drawing.validation) == 2 * 2 * 2
    for row in drawing.validation:
        # targets of rank 2: corrections of order 5/d, and 5 standard errors of 3 instances
        bound = 5 / 20 * abs(row["theory"]) + 5 * row["standard_error"]
        assert abs(row["simulation"] - row["theory"]) < bound, row


def test_what_did_not_converge_is_listed_and_not_judged(figure_project):
    assert figure_project.hides(factorised, section(TINY)) == []
