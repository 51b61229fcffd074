"""The figure staging: its section, its experiments, and what it draws from a real tiny run."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from hdattn import configuration, steps, store
from hdattn.catalogue import CACHE, with_inputs
from hdattn.errors import UserError
from hdattn.figures import make, staging, style, validation
from hdattn.figures._cases import Case
from hdattn.figures._trajectories import Trajectories, loss_windows

CONFIG = Path(__file__).parents[1] / "config" / "multihead.yaml"
TINY = {
    **{"heads": 2, "mean": [0.8, 0], "std": [0, 2], "dim": 150, "instances": 4, "block_size": 2},
    **{"tau_max": {"softmax": 8, "bayes": 8}, "records": 9, "base_points": 128},
}
ROWS = 4 * 3  # quantities compared, and times at which they are


def section(changes=None, scale="default"):
    merged = {"figures": "staging", "scale": scale, "staging": changes or {}}
    return configuration.load(merged).sections["staging"]


# --- configuration --------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["smoke", "default", "paper"])
def test_project_configuration_is_the_base_set_of_the_papers_figure(scale):
    merged = {"figures": "staging", "scale": scale, **yaml.safe_load(CONFIG.read_text())}
    loaded = configuration.load(merged).sections["staging"]
    assert (loaded.tokens, loaded.heads) == (5, 4)
    assert (loaded.mean, loaded.std) == ((0.8, 0, 0), (0, 1.5, 1.2))
    sizes = {"smoke": (100, 4), "default": (1000, 8), "paper": (4000, 32)}
    assert (loaded.dim, loaded.instances) == sizes[scale]


@pytest.mark.parametrize(
    "changes, line",
    [
        ({"heads": 1}, "heads: one head cannot specialise; give at least 2"),
        ({"tokens": 1}, "tokens: 1 will not do; give a number of at least 2"),
        ({"tokens": 2}, "softmax heads never specialise at tokens = 2"),
        ({"std": [0, 0, 0]}, "std: no entry is positive: nothing will specialise"),
        ({"std": [0, 1]}, "std: has 2 entries where mean has 3; give one each per spike"),
        ({"std": [0, -1, 1]}, "std[1]: -1 will not do; give a number of at least 0"),
        ({"mean": [0.8, 0.1, 0]}, "make mean 0 in all entries but one, and std 0 there"),
        ({"mean": [0, 0.8, 0]}, "make mean 0 in all entries but one, and std 0 there"),
        ({"gamma": 0}, "gamma: 0 will not do; give a number above 0"),
        ({"dim": 40}, "dim: 40 will not do; give a number of at least 50"),
        ({"instances": 1}, "instances: 1 will not do; give a number of at least 2"),
        ({"instances": 10}, "block_size: 4 does not divide instances = 10"),
        ({"base_points": 1000}, "base_points: 1000 is not a power of two"),
        ({"tau_max": {}}, "tau_max: {} will not do; give at least 1"),
        ({"tau_max": 10}, "tau_max: 10 will not do; map softmax and bayes"),
        ({"tau_max": {"softmax1": 10}}, "will not do; map softmax and bayes"),
        ({"tau_max": {"bayes": -1}}, "tau_max.bayes: -1 will not do; give a number above 0"),
        ({"records": 2}, "records: 2 will not do; give a number of at least 5"),
        ({"instance": 4}, "instance: unknown key; did you mean 'instances'?"),
    ],
)
def test_a_bad_value_gives_one_line_that_says_how_to_mend_it(changes, line):
    with pytest.raises(UserError) as caught:
        section(changes)
    assert line in str(caught.value) and "\n" not in str(caught.value)
    assert "staging." in str(caught.value)


def test_all_problems_are_told_at_once():
    with pytest.raises(UserError) as caught:
        section({"heads": 1, "gamma": -1, "std": [0, 0, 0]})
    assert len(str(caught.value).splitlines()) == 3


def test_values_beyond_the_theory_are_warned_of():
    doubts = section({"sigma": 0.4, "batch": 30}).doubts()
    assert doubts == [
        "sigma: 0.4 is above 0.3: heads do not start near zero, as the plateau theory has it",
        "batch: 30 is above dim / 50 = 20: the flow may not describe it",
    ]
    assert section({"sigma": 0.3, "batch": 20}).doubts() == []


def test_two_tokens_are_fine_for_b_softmax_alone():
    assert section({"tokens": 2, "tau_max": {"bayes": 50}}).activations == ["bayes"]


# --- experiments ----------------------------------------------------------------------------


def all_paths(changes, seed=0):
    groups = staging.experiments(section(changes), seed).values()
    return {str(e.path) for e in with_inputs(e for group in groups for e in group)}


def test_more_instances_only_add_blocks():
    few, many = all_paths({"instances": 8}), all_paths({"instances": 16})
    # per block of 4: data, two SGD and two flows; one Bayes experiment in all
    assert few < many and (len(few), len(many)) == (11, 21)


def test_what_results_depend_on_enters_the_names_and_nothing_else():
    base = all_paths({})
    assert base == all_paths({"heads": "4", "sigma": "1e-1"})
    assert not (all_paths({"sigma": 0.2}) & base) - all_paths({"gamma": 1}, seed=1)
    assert {
        p for p in base & all_paths({"gamma": 1}) if "data" not in p and "bayes/" not in p
    } == set()
    assert len(base & all_paths({"gamma": 1})) == 3  # both blocks of data, and Bayes
    assert len(base & all_paths({}, seed=1)) == 1


# --- a real run -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Folder in which the experiments of the tiny section have been run."""
    folder = tmp_path_factory.mktemp("project")
    for group in staging.experiments(section(TINY), 0).values():
        for e in with_inputs(group):
            inputs = {role: folder / CACHE / i.path for role, i in e.inputs.items()}
            path = folder / CACHE / e.path
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                steps.compute(e.kind, e.parameters, inputs, path)
    return folder


@pytest.fixture
def records(project):
    groups = staging.experiments(section(TINY), 0)
    return {
        role: [store.read(project / CACHE / e.path) for e in group]
        for role, group in groups.items()
    }


@pytest.fixture
def drawn(records):
    with style.context():
        figure = style.new_figure()
        return figure, staging.draw(figure, records, section(TINY))


def select(table, **where):
    return [row for row in table if all(row[key] == value for key, value in where.items())]


def test_files_of_the_figure(project, monkeypatch):
    monkeypatch.chdir(project)
    drawing = make.make_figure("staging", section(TINY), 0, Path("figures/staging"))
    for ending in ("pdf", "png", "csv", "validation.csv"):
        assert Path(f"figures/staging.{ending}").stat().st_size > 1000
    with open("figures/staging.csv", newline="") as file:
        assert len(list(csv.DictReader(file))) == len(drawing.table)


def test_panels_are_labelled_and_everything_drawn_is_in_the_table(drawn, records):
    figure, drawing = drawn
    assert len(figure.axes) == 6 and all(axis.get_ylabel() for axis in figure.axes)
    assert all(axis.get_xlabel() for axis in figure.axes[3:])
    assert figure.get_size_inches()[0] == style.DOUBLE_COLUMN
    assert len({tuple(row) for row in drawing.table}) == 1  # the same keys in each row
    loss = np.concatenate([r.datasets["loss"] for r in records["sgd_bayes"]])
    rows = select(drawing.table, activation="bayes", quantity="loss", source="sgd")
    np.testing.assert_allclose([row["value"] for row in rows], loss.mean(axis=0))
    np.testing.assert_allclose(
        [row["standard_error"] for row in rows], loss.std(axis=0, ddof=1) / np.sqrt(4)
    )
    m = records["flow_softmax"][1].datasets["m"]
    spread = select(
        drawing.table, activation="softmax", quantity="spread", source="flow", instance=3
    )
    np.testing.assert_allclose(
        [row["value"] for row in spread], np.abs(m[1, :, 0, 1] - m[1, :, 1, 1]) / 2
    )


def test_theory_agrees_with_this_run(drawn):
    _, drawing = drawn
    assert drawing.flagged == [] and len(drawing.validation) == 2 * ROWS
    for row in drawing.validation:
        # at dimension D the hidden token weighs 1 + |theta|^2 / D, |theta|^2 = 4.64: to first order
        # m grows faster by that factor and r by its square; 4 runs know their error poorly
        bound = 2 * 4.64 / 150 * abs(row["theory"]) + 4 * row["standard_error"]
        assert abs(row["simulation"] - row["theory"]) < bound, row


def test_a_diverged_run_is_hollow_flagged_and_left_out_of_means(records):
    bad = records["sgd_bayes"][0]
    details = dict(bad.details)
    for name in ("m", "r", "loss"):
        values = details[name].values.copy()
        values[1, 4:] = np.nan
        details[name] = replace(details[name], values=values)
    details["converged"] = replace(details["converged"], values=np.array([True, False]))
    records["sgd_bayes"][0] = replace(bad, details=details, converged=False)
    with style.context():
        figure = style.new_figure()
        drawing = staging.draw(figure, records, section(TINY))
    assert drawing.flagged == ["B-softmax, run 1: SGD diverged"]
    verdicts = {row["verdict"] for row in drawing.validation if row["point"].startswith("bayes")}
    assert verdicts == {validation.UNRELIABLE}
    faces = [
        line.get_markerfacecolor() for line in figure.axes[4].lines if line.get_marker() == "o"
    ]
    assert faces.count("white") == 1
    rows = select(drawing.table, activation="bayes", quantity="loss", source="sgd")
    assert np.isfinite([row["value"] for row in rows]).all()


# --- theory against simulation --------------------------------------------------------------


def synthetic_case(factor=1.0, rows=12, runs=8, seed=0):
    """Exact flow, and SGD at D = 1000 with 0.3 % of noise, everything in it times ``factor``."""
    rng = np.random.default_rng(seed)
    tau = np.linspace(0, 20, rows)
    m = np.stack(
        [
            np.tile(0.8 * (1 - np.exp(-tau)), (2, 1)).T,
            np.outer(0.01 * np.exp(0.25 * tau), [1, -1]),
        ],
        axis=-1,
    )
    m = np.tile(m, (runs, 1, 1, 1))
    r = m @ m.swapaxes(2, 3) + 0.1 * np.eye(2)
    loss = np.tile(0.8 - 0.01 * tau, (runs, 1))
    fine = np.ones(runs, bool)
    flow = Trajectories(np.arange(runs), tau, m, r, loss, fine)

    def noisy(values):
        return factor * values * (1 + 0.003 * rng.standard_normal(values.shape))

    loss = flow.averages(loss, loss_windows(tau))  # SGD averages its loss around each record
    sgd = replace(flow, m=noisy(m), r=noisy(r), loss=noisy(loss))
    return Case("bayes", section(TINY | {"dim": 1000, "instances": 8}), sgd, flow, {})


def verdicts(case):
    rows = list(case.validation("staging"))
    assert len(rows) == ROWS
    return [row["verdict"] for row in rows]


def test_an_exact_simulation_agrees():
    # with 8 runs a verdict allows 5.4 standard errors
    assert set(verdicts(synthetic_case())) == {validation.AGREE}


@pytest.mark.parametrize("factor", [0.95, 1.05])
def test_a_five_per_cent_error_of_the_theory_disagrees_everywhere(factor):
    assert set(verdicts(synthetic_case(factor))) == {validation.DISAGREE}


def test_split_is_found_where_the_spread_passes_half_its_size():
    # 0.01 exp(tau/4) = 1 at tau = 18.4, after 10.1 of the 11 steps to 20
    assert synthetic_case().split == 11


def test_averages_between_records_are_exact_for_straight_lines():
    case = synthetic_case(rows=5)
    edges = loss_windows(case.flow.tau)
    np.testing.assert_allclose(edges, [0, 2.5, 7.5, 12.5, 17.5, 20])
    middle = (edges[1:] + edges[:-1]) / 2
    averages = case.flow.averages(case.flow.loss, edges)
    np.testing.assert_allclose(averages[3], 0.8 - 0.01 * middle, rtol=1e-13)


def test_what_did_not_converge_is_listed_and_not_judged(figure_project):
    assert figure_project.hides(staging, section(TINY)) == []
