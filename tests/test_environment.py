"""environment.yml, requirements.lock and pyproject.toml name the same versions."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from rattler import MatchSpec, Version

ROOT = Path(__file__).parents[1]
CONDA_NAMES = {
    "pytorch": "torch",
    "matplotlib-base": "matplotlib",
    "snakemake-minimal": "snakemake",
}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def lock() -> dict[str, str]:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    assert all(len(pin) == 2 for pin in pins), "every line of the lock is name==version"
    return {normal(name): version for name, version in pins}


def conda_specs() -> dict[str, MatchSpec]:
    entries = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    specs = [MatchSpec(entry) for entry in entries if isinstance(entry, str)]
    return {CONDA_NAMES.get(s.name.normalized, s.name.normalized): s for s in specs}


def requirements() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    return {normal(re.split(r"[<>=]", item)[0]) for group in groups for item in group}


def test_conda_versions_are_those_of_the_lock():
    pins = lock()
    for name, spec in conda_specs().items():
        if name in ("python", "pip"):
            continue
        assert spec.version is not None, f"{name} has no version in environment.yml"
        assert str(spec.version) == f"=={Version(pins[name])}", name


def test_every_direct_dependency_is_in_both():
    assert requirements() <= set(lock())
    assert requirements() <= set(conda_specs())


def test_torch_is_pinned_without_a_build_tag():
    assert lock()["torch"] == "2.13.0"


@pytest.mark.parametrize("name", ["numpy", "scipy", "h5py", "matplotlib", "snakemake", "pydantic"])
def test_the_lock_is_what_is_installed(name):
    from importlib.metadata import version

    assert version(name) == lock()[name]
