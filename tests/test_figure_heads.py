"""The figure heads: its section, its experiments, and what it draws from a real tiny run."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from hdattn import configuration
from hdattn.errors import UserError
from hdattn.figures import heads, style

CONFIG = Path(__file__).parents[1] / "config" / "multihead.yaml"
NAMES = ("softmax", "softmax1", "bayes")


def section(changes=None, scale="default", from_file=False):
    keys = yaml.safe_load(CONFIG.read_text())["heads"] if from_file else changes or {}
    merged = {"figures": "heads", "scale": scale, "heads": keys}
    return configuration.load(merged).sections["heads"]


@pytest.mark.parametrize("scale", ["smoke", "default", "paper"])
def test_project_configuration_is_the_base_set(scale):
    loaded = section(scale=scale, from_file=True)
    assert (loaded.tokens, loaded.mean, loaded.std) == (5, (0.8, 0, 0), (0, 1.5, 1.2))
    assert {name: support for name, (*_, support) in loaded.curves().items()} == {
        "flipping": 4,
        "discrete": 3,
    }
    assert 4 in loaded.heads and 3 in loaded.discrete_heads


@pytest.mark.parametrize(
    "changes, line",
    [
        ({"heads": [2, 1]}, "heads: [2, 1] must increase, without repeats"),
        ({"heads": [0, 1, 2]}, "heads[0]: 0 will not do; give a number of at least 1"),
        ({"heads": [4]}, "heads: [4] will not do; give at least 2"),
        ({"support": [[1, 0], [1, 0]], "weights": [0.5, 0.5]}, "the point [1.0, 0.0] twice"),
        ({"support": []}, "support: [] will not do; give at least 2"),
        ({"weights": [0.5, 0.6]}, "support must be 2 rows of equal length"),
        ({"weights": [0.5, 0.3, 0.3]}, "must sum to one; they sum to 1.1"),
        ({"std": [0, -1, 1]}, "std[1]: -1 will not do; give a number of at least 0"),
    ],
)
def test_a_bad_value_gives_one_line(changes, line):
    with pytest.raises(UserError) as caught:
        section(changes)
    assert line in str(caught.value) and "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def drawn(figure_project):
    loaded = section(scale="smoke", from_file=True)
    records = figure_project.records(heads, loaded)
    with style.context():
        figure = style.new_figure()
        return figure, heads.draw(figure, records, loaded), records, loaded


def rows(drawing, panel, quantity, name):
    wanted = {"panel": panel, "quantity": quantity, "activation": name}
    return [r for r in drawing.table if all(r[k] == v for k, v in wanted.items())]


@pytest.mark.parametrize("panel, support", [("flipping", 4), ("discrete", 3)])
def test_b_softmax_meets_bayes_at_the_size_of_the_support_and_the_others_do_not(
    drawn, panel, support
):
    for name in NAMES:
        found = rows(drawn[1], panel, "best loss", name)
        excess = {r["heads"]: r["value"] - r["bayes_risk"] for r in found}
        few = [value for count, value in excess.items() if count < support]
        many = [value for count, value in excess.items() if count >= support]
        assert min(few) > 5e-3
        if name == "bayes":
            # 15 parameters placed by 1024 points; spare heads change nothing
            assert min(many) > -1e-6 and max(many) < 1e-2
        else:
            assert min(many) > 2e-2  # they saturate above


def test_heads_of_b_softmax_are_those_of_the_posterior(drawn):
    overlaps = rows(drawn[1], "posterior", "m", "bayes")
    biases = rows(drawn[1], "posterior", "b", "bayes")
    assert len(overlaps) == 6 and len(biases) == 3
    # 1024 points place them to some 0.2; their range is 3.5 for m and 2 for b
    assert max(abs(r["value"] - r["exact"]) for r in overlaps) < 0.5
    assert max(abs(r["value"] - r["exact"]) for r in biases) < 0.5


def test_parts_add_up_and_misaligned_softmax_heads_let_noise_through(drawn):
    for name in NAMES:
        parts = {q: [r["value"] for r in rows(drawn[1], "parts", q, name)] for q in heads.PARTS}
        total = np.sum(list(parts.values()), axis=0)
        loss = [r["value"] for r in rows(drawn[1], "flipping", "best loss", name)]
        np.testing.assert_allclose(total, loss, atol=6e-3)  # parts are from 4096 points
        if name == "softmax":
            assert parts["misaligned"][-1] > 1.5 * parts["aligned"][-1]


def test_everything_is_drawn(drawn):
    figure, drawing, records, loaded = drawn
    assert len(figure.axes) == 6 and all(a.get_xlabel() and a.get_ylabel() for a in figure.axes)
    best = [r for r in drawing.table if r["quantity"] == "best loss"]
    assert len(best) == 3 * (len(loaded.heads) + len(loaded.discrete_heads))
    assert len(drawing.flagged) == sum(len(r.messages) for group in records.values() for r in group)


def test_what_did_not_converge_is_listed_and_not_judged(figure_project):
    assert figure_project.hides(heads, section(scale="smoke", from_file=True)) == []
