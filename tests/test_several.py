"""Several experiments in one job: the same records as from jobs of their own."""

import itertools
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from hdattn import configuration, configuration_files, figures, several, steps, store
from hdattn.catalogue import Catalogue, experiments_of
from hdattn.cost import OPERATIONS, estimate
from hdattn.experiment import Experiment
from hdattn.several import Part, file_of, join, record_of

ROOT = Path(__file__).resolve().parents[1]
TARGET = {"kind": "mp", "kappa0": 0.5}


def data(dim):
    parameters = {"dim": dim, "target": TARGET, "noise": 0.5, "tokens": 2, "beta0": 1}
    return Experiment(
        "singlehead/data",
        {"data": parameters, "seed": 0, "block": 0, "block_size": 2},
    )


def best(alphas, source=None):
    """Theory of Bayes-optimal inference: in the limit, or for the instances of ``source``."""
    limit = {"target": TARGET, "noise": 0.5, "tokens": 2, "beta0": 1}
    inputs = {} if source is None else {"data": source}
    own = limit if source is None else source.parameters
    return Experiment("singlehead/bayes_optimal", {**own, "alphas": alphas}, inputs, "best")


def compute(experiment, folder):
    path = folder / experiment.path
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        inputs = {role: folder / e.path for role, e in experiment.inputs.items()}
        for source in experiment.inputs.values():
            compute(source, folder)
        steps.compute(experiment.kind, experiment.parameters, inputs, path)
    return store.read(path, kind=experiment.kind, parameters=experiment.parameters)


def test_joint_experiments_give_the_records_of_single_ones(tmp_path):
    single = [best([0.5, 1]), best([1.0], data(8)), best([0.5], data(10))]
    joined = join({"limit": single[:1], "own": single[1:]}, per_job=3)
    assert len({file_of(e) for group in joined.values() for e in group}) == 1
    for alone, entry in zip(single, itertools.chain(*joined.values()), strict=True):
        expected = compute(alone, tmp_path)
        record = record_of(compute(file_of(entry), tmp_path), entry)
        assert record.parameters == expected.parameters
        assert list(record.details) == list(expected.details)
        for name, dataset in expected.details.items():
            if not dataset.timing:
                assert np.array_equal(record.datasets[name], dataset.values), name
            assert record.details[name].axes == dataset.axes
        for name in ("kind", "converged", "residual", "seeds", "attributes", "messages"):
            assert getattr(record, name) == getattr(expected, name), name


def test_one_that_is_not_converged_marks_the_whole_and_itself():
    def step(parameters, records):
        fine = parameters["alpha"] < 2
        return store.Result({}, converged=fine, residual=parameters["alpha"], messages=["slow"])

    result = several.run(step, {"several": [{"alpha": 1}, {"alpha": 3}]}, {})
    assert not result.converged and result.residual == 3 and result.messages == ["slow"]
    assert [one["converged"] for one in result.attributes["several"]] == [True, False]


def test_jobs_are_of_one_kind_and_of_even_size():
    limits = [best([alpha]) for alpha in (0.5, 1, 2, 3, 4)]
    joined = join({"limit": limits, "again": limits[:1]}, per_job=3)
    sizes = Counter(file_of(e) for e in joined["limit"])
    assert sorted(sizes.values()) == [2, 3]
    assert joined["again"] == joined["limit"][:1]
    other_order = join({"again": limits[:1], "limit": limits[::-1]}, per_job=3)
    assert other_order["limit"] == joined["limit"][::-1]
    costs = {file_of(e): estimate(file_of(e)).seconds for e in joined["limit"]}
    start = OPERATIONS["start theory"].seconds  # of three jobs less
    alone = sum(estimate(e).seconds for e in limits)
    assert sum(costs.values()) == pytest.approx(alone - 3 * start)
    assert join({"limit": limits}, per_job=1) == {"limit": limits}


def test_what_others_read_or_another_figure_has_keeps_its_own_file():
    source = data(8)
    roles = {"own": [best([1.0], source), best([2.0], source)], "data": [source, data(10)]}
    roles["rank 1"] = [best([3.0]), best([4.0])]
    joined = join(roles, per_job=9, shared=("rank *",))
    assert all(isinstance(e, Part) for e in joined["own"])
    assert joined["data"] == roles["data"]
    assert joined["rank 1"] == roles["rank 1"]


def load(scale):
    merged, sources = configuration_files.read_files(
        ROOT / name for name in configuration_files.FILES
    )
    return configuration.load({**merged, "scale": scale, "figures": "all"}, sources)


@pytest.mark.parametrize("scale", ["smoke", "default"])
def test_a_figure_asks_for_the_files_that_were_planned(scale):
    """Its job gets the section as canonical JSON, whose keys are in another order."""
    for name, entry in Catalogue(load(scale)).figures.items():
        section = type(entry.section).model_validate(json.loads(entry.section_json))
        again = experiments_of(name, section, 0)
        assert again.keys() == entry.experiments.keys()
        for role, group in entry.experiments.items():
            assert again[role] == group, f"{name}: {role}"


@pytest.mark.parametrize("scale", ["smoke", "default"])
def test_no_two_figures_compute_the_same_in_joint_jobs(scale):
    """Else joining would make a run longer: such roles belong into ``SHARED``."""
    loaded = load(scale)
    seen: dict[tuple, str] = {}
    for name, section in loaded.sections.items():
        module = figures.module(name)
        roles = module.experiments(section, 0)
        joined = join(roles, section.per_job, getattr(module, "SHARED", ()))
        own = {}
        for role, group in roles.items():
            for alone, entry in zip(group, joined[role], strict=True):
                own[alone] = file_of(entry)
        for alone, file in own.items():
            assert seen.setdefault(alone, file) == file, f"{name}: {alone.kind} {alone.slug}"


@pytest.mark.parametrize(
    ("modules", "unwanted"),
    [
        (["figures.make", *(f"figures.{name}" for name in figures.names())], "torch scipy.stats"),
        (
            [f"steps.{kind.replace('/', '.')}" for kind in steps.KINDS],
            "torch scipy.stats matplotlib pydantic",
        ),
    ],
)
def test_what_takes_long_to_import_is_imported_where_it_is_used(modules, unwanted):
    """A job is a process: what it imports in vain is paid hundreds of times."""
    loads = "; ".join(f"import hdattn.{module}" for module in modules)
    code = f"import sys; {loads}; print(*(set({unwanted.split()!r}) & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []
