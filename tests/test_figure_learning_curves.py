"""The figure learning_curves: its section, its experiments, and a real tiny run."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from hdattn import configuration, store
from hdattn.catalogue import with_inputs
from hdattn.errors import UserError
from hdattn.figures import learning_curves, make, style, validation
from hdattn.singlehead.channel import Channel
from hdattn.steps.singlehead import state_evolution

CONFIG = Path(__file__).parents[1] / "config" / "singlehead.yaml"
TINY = {
    "dim": 12,
    "small_dim": 8,
    "instances": 3,
    "block_size": 3,
    "alphas": [0.5, 2],
    "adam_alphas": [2],
    "theory_alphas": [0.5, 2],
    "nodes": 12,
    "test_samples": 256,
}
LARGER = {
    **{**TINY, "dim": 28, "small_dim": 14, "instances": 9, "alphas": [3, 4], "adam_alphas": [4]},
    **{"kappas": [1], "start_scales": [1], "test_samples": 2048},
}


def section(changes=None, scale="default"):
    merged = {"figures": "learning_curves", "scale": scale, "learning_curves": changes or {}}
    return configuration.load(merged).sections["learning_curves"]


def draw(records, changes):
    with style.context():
        figure = style.new_figure()
        return figure, learning_curves.draw(figure, records, section(changes))


@pytest.mark.parametrize("scale", ["smoke", "default", "paper"])
def test_project_configuration(scale):
    merged = {"scale": scale, "figures": "learning_curves", **yaml.safe_load(CONFIG.read_text())}
    loaded = configuration.load(merged).sections["learning_curves"]
    assert (loaded.kappa0, loaded.noise, loaded.lam, loaded.kappas) == (0.5, 0.5, 0.01, (0.75, 1))
    sizes = {"smoke": (24, 3), "default": (60, 8), "paper": (100, 64)}
    assert (loaded.dim, loaded.instances) == sizes[scale]


@pytest.mark.parametrize(
    "changes, line",
    [
        ({"kappa0": 0}, "kappa0: 0 will not do; give a number above 0"),
        ({"noise": -0.1}, "noise: -0.1 will not do; give a number of at least 0"),
        ({"lam": 0}, "lam: 0 will not do; give a number above 0"),
        ({"tokens": 1}, "tokens: 1 will not do; give a number of at least 2"),
        ({"alphas": [0, 1]}, "alphas[0]: 0 will not do; give a number above 0"),
        ({"alphas": [1]}, "alphas: "),
        ({"alphas": [0.3, 1], "adam_alphas": [2]}, "adam_alphas: 2 is not among alphas"),
        ({"instances": 10, "block_size": 4}, "block_size: 4 does not divide instances = 10"),
        ({"instances": 2, "block_size": 4}, "block_size: 4 does not divide instances = 2"),
        ({"nodes": 13}, "nodes: the quadrature needs an even number of nodes, 8 or more; got 13"),
        ({"test_samples": 1}, "test_samples: a standard error needs at least 2 test samples"),
        ({"small_dim": 60}, "small_dim: 60 is not below dim = 60; give two sizes"),
        ({"kappas": [0.01, 1]}, "small_dim: 30 leaves no column for kappas = 0.01"),
        ({"kappa0": 0.01}, "small_dim: 30 leaves no column for kappa0 = 0.01"),
        ({"start_scales": []}, "start_scales: "),
        ({"alpha": [1, 2]}, "alpha: unknown key; did you mean 'alphas'?"),
    ],
)
def test_a_bad_value_gives_one_line(changes, line):
    with pytest.raises(UserError) as caught:
        section(changes)
    assert line in str(caught.value) and "\n" not in str(caught.value)
    assert "learning_curves." in str(caught.value)


def paths(changes, seed=0):
    groups = learning_curves.experiments(section(changes), seed).values()
    return {str(e.path) for e in with_inputs(e for group in groups for e in group)}


def test_more_instances_only_add_blocks():
    few, many = paths({"instances": 4}), paths({"instances": 8})
    assert few < many
    # per block of 2: data, theory and training at two sizes; theory and training of the second
    # width, and Adam
    assert len(many) - len(few) == 2 * 9


def test_what_results_depend_on_enters_the_names():
    base = paths({})
    assert base == paths({"lam": "1e-2", "instances": "4"})
    theory = {p for p in base if "state_evolution/lam" in p}
    data = {p for p in base if "/data/" in p}
    assert base & paths({}, seed=1) == theory
    assert base & paths({"lam": 0.02}) == data
    assert not base & paths({"noise": 0.6})
    assert base & paths({"test_samples": 100}) == {p for p in base if "/erm/" not in p}


def test_job_count_at_default_scale():
    merged = {"figures": "learning_curves", **yaml.safe_load(CONFIG.read_text())}
    loaded = configuration.load(merged).sections["learning_curves"]
    groups = learning_curves.experiments(loaded, 0).values()
    needed = set(with_inputs(e for group in groups for e in group))
    assert len(needed) <= 40


@pytest.fixture(scope="module")
def records(figure_project):
    return figure_project.records(learning_curves, section(TINY))


def test_files_of_the_figure(figure_project, records, monkeypatch):
    monkeypatch.chdir(figure_project.folder)
    stems = [Path("figures/a"), Path("figures/b")]
    drawings = [make.make_figure("learning_curves", section(TINY), 0, stem) for stem in stems]
    for ending in ("pdf", "png", "csv", "validation.csv"):
        first, second = (stem.with_name(f"{stem.name}.{ending}").read_bytes() for stem in stems)
        assert first == second and len(first) > 1000
    with open("figures/a.csv", newline="") as file:
        assert len(list(csv.DictReader(file))) == len(drawings[0].table)


def test_everything_drawn_is_labelled_and_in_the_table(records):
    figure, drawing = draw(records, TINY)
    assert len(figure.axes) == 6
    assert all(axis.get_xlabel() and axis.get_ylabel() for axis in figure.axes)
    assert figure.get_size_inches()[0] == style.DOUBLE_COLUMN
    trained = np.concatenate([r.datasets["test_error"] for r in records["lbfgs 0.75"]])
    rows = [
        r
        for r in drawing.table
        if (r["quantity"], r["series"], r.get("kappa")) == ("test_error", "lbfgs", 0.75)
    ]
    assert [r["alpha"] for r in rows] == [0.5, 2]
    np.testing.assert_allclose([r["value"] for r in rows], trained.mean(0))
    np.testing.assert_allclose(
        [r["standard_error"] for r in rows], trained.std(0, ddof=1) / np.sqrt(3)
    )


def test_every_simulated_point_has_a_row_with_its_own_theory(records):
    _, drawing = draw(records, TINY)
    # three quantities; two widths at two alphas, and Adam at one
    assert len(drawing.validation) == 3 * (2 * 2 + 1)
    (row,) = [
        r
        for r in drawing.validation
        if (r["quantity"], r["point"]) == ("train_loss", "alpha=2 kappa=1 Adam")
    ]
    own = np.concatenate([r.datasets["train_loss"] for r in records["own 1"]])[:, 1]
    adam = np.concatenate([r.datasets["train_loss"] for r in records["adam"]])[:, 0]
    assert row["theory"] == pytest.approx(own.mean())
    assert row["standard_error"] == pytest.approx((adam - own).std(ddof=1) / np.sqrt(3))


def test_an_unconverged_training_is_hollow_listed_and_not_judged(records):
    bad = records["lbfgs 1"][0]
    converged = bad.datasets["converged"].copy()
    converged[1, 0] = False
    details = {**bad.details, "converged": replace(bad.details["converged"], values=converged)}
    figure, drawing = draw({**records, "lbfgs 1": [replace(bad, details=details)]}, TINY)
    assert any("L-BFGS, kappa = 1" in line and "alpha = 0.5" in line for line in drawing.flagged)
    verdicts = {
        r["verdict"] for r in drawing.validation if r["point"] == "alpha=0.5 kappa=1 L-BFGS"
    }
    assert verdicts == {validation.UNRELIABLE}
    white = [line for line in figure.axes[0].lines if line.get_markerfacecolor() == "white"]
    assert [line.get_xdata().tolist() for line in white] == [[0.5]]


def test_five_percent_on_v_hat_is_caught(figure_project, monkeypatch):
    records = figure_project.records(learning_curves, section(LARGER))
    sound = draw(records, LARGER)[1].validation
    assert {r["verdict"] for r in sound} == {validation.AGREE}
    moments = Channel.moments

    def planted(self, *arguments, **options):
        found = moments(self, *arguments, **options)
        return replace(found, v_hat=1.05 * found.v_hat)

    monkeypatch.setattr(Channel, "moments", planted)
    groups = learning_curves.experiments(section(LARGER), 0)
    for role in ("own 1", "small own"):
        records[role] = [
            replace(record, details=solved(figure_project, experiment).datasets)
            for record, experiment in zip(records[role], groups[role], strict=True)
        ]
    rows = draw(records, LARGER)[1].validation
    # 5 % on v_hat more than doubles the overlap error at these alphas
    caught = [r["verdict"] for r in rows if r["quantity"] == "overlap_error"]
    assert set(caught) == {validation.DISAGREE}
    assert len(validation.disagreements(rows)) >= len(caught)


def solved(project, experiment):
    """What the present code finds, without the cache."""
    inputs = {role: store.read(project.path(e)) for role, e in experiment.inputs.items()}
    return state_evolution.run(experiment.parameters, inputs)


def test_what_did_not_converge_is_listed_and_not_judged(figure_project):
    assert figure_project.hides(learning_curves, section(TINY)) == []
