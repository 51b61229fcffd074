"""What an edit plans anew: exactly what depends on it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml
from workspace import ROOT, SCALE, Workspace

_IGNORED = shutil.ignore_patterns(".*", "results", "__pycache__", "tests", "docs", "benchmarks")


def _append(file: str, text: str) -> Callable[[Path], None]:
    def edit(project: Path) -> None:
        path = project / file
        path.write_text(path.read_text() + text)

    return edit


def _reformat(project: Path) -> None:
    """Join a line that a parenthesis continues, and indent differently where Python lets."""
    path = project / "src/hdattn/singlehead/denoisers.py"
    path.write_text(re.sub(r"\(\n\s+", "(", path.read_text()))


def _reorder(project: Path) -> None:
    for path in sorted((project / "config").glob("*.yaml")):
        content = yaml.safe_load(path.read_text())
        reverse = {key: content[key] for key in reversed(content)}
        path.write_text(yaml.safe_dump(reverse, sort_keys=False))


def _set(figure: str, key: str, value: object) -> Callable[[Path], None]:
    def edit(project: Path) -> None:
        for path in sorted((project / "config").glob("*head.yaml")):
            content = yaml.safe_load(path.read_text())
            if figure in content:
                content[figure][key] = value
                path.write_text(yaml.safe_dump(content, sort_keys=False))

    return edit


# Edit -> (how, kinds of experiment planned anew, figures drawn anew).
_THEORY = {"singlehead/state_evolution"}
EDITS: dict[str, tuple[Callable[[Path], None], set[str], set[str]]] = {
    "no edit, but another checkout": (lambda project: None, set(), set()),
    "comment in physics code": (
        _append("src/hdattn/singlehead/denoisers.py", "\n# a comment\n"),
        set(),
        set(),
    ),
    "formatting of physics code": (_reformat, set(), set()),
    "physics of the state evolution": (
        _append("src/hdattn/singlehead/fixed_point.py", "\n_UNUSED = 1\n"),
        _THEORY,
        {"learning_curves"},
    ),
    "physics of online SGD": (
        _append("src/hdattn/multihead/learners.py", "\n_UNUSED = 1\n"),
        {"multihead/sgd"},
        {"staging"},
    ),
    "style of all figures": (
        _append("src/hdattn/figures/style.py", "\n_UNUSED = 1\n"),
        set(),
        {"staging", "learning_curves"},
    ),
    "order of keys": (_reorder, set(), set()),
    "parameter of another figure": (_set("rank", "noise", 0.25), set(), set()),
    "parameter of a figure": (
        _set("staging", "gamma", 0.25),
        {"multihead/flow", "multihead/sgd"},
        {"staging"},
    ),
}


def planned(project: Path, figures: tuple[str, ...]) -> tuple[set[str], set[str]]:
    """Kinds of experiment and figures that a dry run would make."""
    command = [sys.executable, "-m", "snakemake", "-n", "--cores", "1"]
    command += ["--config", f"scale={SCALE}", f"figures=[{','.join(figures)}]"]
    plan = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    if plan.returncode:
        raise RuntimeError(plan.stdout + plan.stderr)
    kinds = set(re.findall(r"wildcards: kind=(\S+),", plan.stdout))
    return kinds, {name for name in figures if f"rule {name}:" in plan.stdout}


def exact_reruns(folder: Path, made: Workspace) -> Iterator[tuple[str, str]]:
    """Each edit of a copied project with its failure, empty when the plan is the expected one."""
    here = {str(path.parent.relative_to(made.cache)) for path in made.files()}
    for name, (edit, kinds, figures) in EDITS.items():
        project = folder / name
        shutil.copytree(ROOT, project, ignore=_IGNORED)
        for part in ("results", ".snakemake", "config"):
            shutil.copytree(made.folder / part, project / part, dirs_exist_ok=True)
        edit(project)
        found = planned(project, made.figures)
        expected = (kinds & here, figures & set(made.figures))
        yield name, "" if found == expected else f"planned {found}, expected {expected}"
        shutil.rmtree(project)
