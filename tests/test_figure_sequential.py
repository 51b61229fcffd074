"""The figure sequential: its section, its experiments, and the order that it finds."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from hdattn import configuration
from hdattn.errors import UserError
from hdattn.figures import sequential, style
from hdattn.figures._jumps import Jump, consecutive

CONFIG = Path(__file__).parents[1] / "config" / "multihead.yaml"
PAIR = {"heads": 2, "mean": [0.8, 0, 0], "std": [0, 2, 1.2]}
TINY = PAIR | {
    **{"dim": 100, "instances": 3, "block_size": 3, "base_points": 64, "tau_sgd": 8, "records": 5},
    **{"softmax": PAIR, "gaussian": PAIR | {"activation": "bayes", "amplitudes": "gauss"}},
    **{"seeds": 2, "points": 256, "tau_points": 60},
    "tau_flow": {"flipping": 400, "softmax": 60, "gaussian": 60},
}


def section(changes=None, scale="default"):
    merged = {"figures": "sequential", "scale": scale, "sequential": changes or {}}
    return configuration.load(merged).sections["sequential"]


@pytest.mark.parametrize("scale", ["smoke", "default", "paper"])
def test_project_configuration_holds_the_base_sets(scale):
    merged = {"figures": "sequential", "scale": scale, **yaml.safe_load(CONFIG.read_text())}
    models = configuration.load(merged).sections["sequential"].models
    assert models["flipping"].prior["std"] == (0, 2, 1.5, 1) and models["flipping"].heads == 8
    assert models["softmax"].prior["std"] == (0, 1.5, 1.2) and models["softmax"].heads == 4
    assert models["gaussian"].prior["kind"] == "gauss"


@pytest.mark.parametrize(
    "changes, line",
    [
        ({"heads": 1}, "heads: one head cannot specialise; give at least 2"),
        ({"softmax": {"heads": 1}}, "softmax.heads: one head cannot specialise"),
        ({"softmax": {"tokens": 2}}, "softmax heads never specialise at tokens = 2"),
        ({"gaussian": {"std": [0, 1]}}, "has 2 entries where mean has 3"),
        ({"softmax": {"activation": "tanh"}}, "softmax.activation"),
        ({"points": 1000}, "points: 1000 is not a power of two"),
        ({"tau_flow": {"softmax": 3}}, "map each of flipping, softmax, gaussian to a time"),
        ({"seeds": 1}, "seeds: 1 will not do; give a number of at least 2"),
    ],
)
def test_a_bad_value_gives_one_line(changes, line):
    with pytest.raises(UserError) as caught:
        section(changes)
    assert line in str(caught.value) and "\n" not in str(caught.value)


def test_more_seeds_only_add_blocks():
    def paths(seeds):
        return {e.path for e in sequential.experiments(section({"seeds": seeds}), 0)["softmax"]}

    assert paths(5) == paths(3) < paths(10)


def jump(spike, std, tau, instance=0):
    return Jump("flipping", "flow", instance, spike, std, tau)


def test_pairs_compare_neighbouring_strengths_of_one_run():
    jumps = [jump(1, 2.0, 10.0), jump(3, 1.0, 40.0), jump(2, 1.5, 50.0), jump(1, 2.0, 9.0, 1)]
    jumps.append(jump(2, 1.5, float("nan"), 1))
    pairs = [(a.tau, b.tau) for a, b in consecutive(jumps)]
    assert pairs == [(10.0, 50.0), (50.0, 40.0)]  # the second would fall below the diagonal


def test_a_weaker_direction_that_alone_is_learnt_breaks_the_order():
    ((strong, weak),) = consecutive([jump(1, 2.0, float("nan")), jump(2, 1.5, 30.0)])
    assert weak.tau == 30.0 and not weak.tau > strong.tau


@pytest.fixture(scope="module")
def drawn(figure_project):
    """Figure and drawing of a tiny real run."""
    records = figure_project.records(sequential, section(TINY))
    with style.context():
        figure = style.new_figure()
        return figure, sequential.draw(figure, records, section(TINY))


def test_stronger_direction_comes_first_in_a_real_run(drawn):
    _, drawing = drawn
    rows = [r for r in drawing.table if r["quantity"] == "jump" and r["source"] == "flow"]
    times = {(r["case"], r["instance"], r["spike"]): r["tau"] for r in rows}
    # B-softmax pairs on both directions: the weaker one is not learnt before the stronger one
    for seed in range(2):
        first, second = (times["flipping", seed, spike] for spike in (1, 2))
        # rate of the plateau, 2^2 beta = 0.643, from seeds of 0.1/sqrt(10^4): below 0.5 after about
        # ln(500)/0.643 = 9.7, and some time to reach the plateau
        assert 5 < first < 40
        assert np.isnan(second) or second > first


def test_everything_is_drawn_and_noted(drawn):
    figure, drawing = drawn
    assert len(figure.axes) == 6 and all(a.get_xlabel() and a.get_ylabel() for a in figure.axes)
    assert len({frozenset(row) for row in drawing.table}) == 1
    assert drawing.flagged == [] and len(drawing.validation) == 12


def test_what_did_not_converge_is_listed_and_not_judged(figure_project):
    assert figure_project.hides(sequential, section(TINY)) == []
