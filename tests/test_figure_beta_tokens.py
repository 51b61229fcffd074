"""The figure beta_tokens: its section, its experiments, and a real tiny run."""

import numpy as np
import pytest

from hdattn import configuration
from hdattn.errors import UserError
from hdattn.figures import beta_tokens, style

TINY = {"dim": 20, "small_dim": 12, "instances": 3, "block_size": 3, "nodes": 8}
TINY |= {"token_nodes": 8, "token_counts": [2, 3], "both_betas": [0.5, 1], "head_betas": [1]}
TINY |= {"test_samples": 2048, "alphas": [0.6, 2], "theory_alphas": [0.6, 2]}


def section(changes=None):
    merged = {"figures": "beta_tokens", "beta_tokens": changes or {}}
    return configuration.load(merged).sections["beta_tokens"]


@pytest.mark.parametrize(
    "changes, line",
    [
        ({"token_counts": [1, 2]}, "token_counts"),
        ({"both_betas": [0, 1]}, "both_betas[0]: 0 will not do; give a number above 0"),
        ({"dim": 20}, "small_dim: 30 is not below dim = 20"),
    ],
)
def test_a_bad_value_gives_a_line_that_says_how_to_mend_it(changes, line):
    with pytest.raises(UserError) as caught:
        section(changes)
    assert line in str(caught.value)


def test_tokens_rescale_alpha_by_their_logits():
    cases = dict(section(TINY).cases["tokens"])
    np.testing.assert_allclose(cases[3].alphas, [0.6 * 2 / 5, 2 * 2 / 5])
    assert cases[2].alphas == (0.6, 2) and cases[3].tokens == 3
    roles = beta_tokens.experiments(section(TINY), 0)
    assert roles["both 1 lbfgs"] == roles["head 1 lbfgs"] == roles["tokens 2 lbfgs"]


@pytest.fixture(scope="module")
def drawn(figure_project):
    records = figure_project.records(beta_tokens, section(TINY))
    with style.context():
        figure = style.new_figure()
        return figure, beta_tokens.draw(figure, records, section(TINY)), records


def values(drawing, panel, at, series):
    rows = [r for r in drawing.table if (r["panel"], r["at"], r["series"]) == (panel, at, series)]
    return np.array([row["value"] for row in rows])


def test_lower_temperatures_of_both_err_more(drawn):
    figure, drawing, _ = drawn
    assert all(axis.get_xlabel() and axis.get_ylabel() for axis in figure.axes)
    for series in ("theory", "lbfgs"):
        low, high = (values(drawing, "both", beta, series) for beta in (0.5, 1))
        assert low.shape == (2,) and np.all(low < 0.6 * high)


def test_curves_of_several_tokens_lie_on_one_another_once_rescaled(drawn):
    _, drawing, _ = drawn
    two, three = (values(drawing, "rescaled", tokens, "theory") for tokens in (2, 3))
    np.testing.assert_allclose(three, two, rtol=0.1)  # a few per cent at lambda = .01


def test_training_agrees_with_its_theory(drawn):
    _, drawing, _ = drawn
    assert drawing.flagged == [] and len(drawing.validation) == 2 * (2 + 1 + 2)
    for row in drawing.validation:
        # 2/d for test errors, 5/d for the error of S; 5 standard errors of 3 instances
        finite = 5 if row["quantity"] == "overlap_error" else 2
        bound = finite / 20 * row["theory"] + 5 * row["standard_error"]
        assert abs(row["simulation"] - row["theory"]) < bound, row


def test_what_did_not_converge_is_listed_and_not_judged(figure_project):
    assert figure_project.hides(beta_tokens, section(TINY)) == []
