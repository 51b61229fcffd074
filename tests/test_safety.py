"""Nothing in a file is executed, and nothing in a configuration leads out of the results."""

import ast
import re
from pathlib import Path

import pytest

from hdattn import configuration
from hdattn.catalogue import CACHE, Catalogue
from hdattn.configuration_files import read_file
from hdattn.errors import UserError
from hdattn.experiment import Experiment

ROOT = Path(__file__).parents[1]
SOURCES = [p for folder in ("src", "scripts", "workflow") for p in (ROOT / folder).rglob("*.py")]
# What turns data into code: calls by name, and modules whose files do so when they are read.
CALLS = {"eval", "exec", "compile", "unsafe_load", "full_load", "system", "popen"}
MODULES = {"pickle", "cPickle", "dill", "joblib", "marshal", "shelve", "cloudpickle"}
OPTIONS = {"allow_pickle", "shell"}


def dangers(source):
    """What in ``source`` can run data as code."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from MODULES & {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            yield from MODULES & {str(node.module).partition(".")[0]}
        elif isinstance(node, ast.Call):
            yield from _dangers_of_call(node)


def _dangers_of_call(call):
    name = ast.unparse(call.func)
    own = name.rpartition(".")[2]
    yield from OPTIONS & {keyword.arg for keyword in call.keywords}
    if own in CALLS and name not in ("re.compile",):
        yield name
    if name in ("torch.load", "torch.save"):
        yield name


def test_no_source_runs_data_as_code():
    assert len(SOURCES) > 200
    found = {path.name: list(dangers(path.read_text("utf-8"))) for path in SOURCES}
    assert {name: what for name, what in found.items() if what} == {}


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "from shelve import open",
        "numpy.load(path, allow_pickle=True)",
        "eval(text)",
        "subprocess.run(line, shell=True)",
        "torch.load(path)",
    ],
)
def test_each_danger_would_be_seen(line):
    assert list(dangers(line))


def test_tags_of_yaml_make_no_objects(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("scale: !!python/object/apply:os.mkdir ['made']\n")
    with pytest.raises(UserError, match=re.escape(str(path))):
        read_file(path)
    assert not Path("made").exists()


OUT = ["../up", "/tmp/up", "a/b", "..", "", "a\0b", "-rf"]


@pytest.mark.parametrize("name", OUT)
@pytest.mark.parametrize(
    "merged",
    [
        lambda name: {"scale": name},
        lambda name: {"figures": [name]},
        lambda name: {"rank": {"scales": {name: {"dim": 20}}}, "scale": name},
        lambda name: {"scans": {name: {"model": "singlehead"}}},
        lambda name: {"scans": {"mine": {"model": name}}},
        lambda name: {"staging": {"tau_max": {name: 10}}},
        lambda name: {"splitting": {"line": {"activation": name}}},
    ],
    ids=["scale", "figure", "scale of a section", "scan", "model", "activation", "model's"],
)
def test_names_in_a_configuration_lead_nowhere(merged, name):
    with pytest.raises(UserError):
        configuration.load(merged(name))


@pytest.mark.parametrize("slug", OUT)
def test_no_experiment_lies_outside_the_cache(slug):
    with pytest.raises(ValueError, match="cannot name a file"):
        Experiment("singlehead/erm", {}, slug=slug)
    with pytest.raises(ValueError, match="cannot name a file"):
        Experiment(f"singlehead/{slug}", {})


def test_all_files_of_a_run_lie_in_the_results():
    catalogue = Catalogue(configuration.load({"figures": "all"}))
    paths = [CACHE / experiment.path for experiment in catalogue.experiments]
    paths += [Path(entry.stem) for entry in catalogue.figures.values()]
    assert len(paths) > 300
    for path in paths:
        assert path.parts[0] == "results" and ".." not in path.parts
