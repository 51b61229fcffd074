"""A small project of its own folder, run by the real workflow, and digests of what it made."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import h5py
import yaml

ROOT = Path(__file__).resolve().parents[2]
SCALE = "faults"
FIGURES = ("staging", "learning_curves")
# Twenty jobs of a second or two: many moments to be killed at, in little time. Those of the second
# figure make two experiments each, in one file.
SIZES = {
    "staging": {"per_job": 1, "dim": 60, "instances": 4, "block_size": 4, "records": 5,
                "base_points": 64, "tau_max": {"softmax": 20, "bayes": 10}},
    "learning_curves": {"per_job": 2, "dim": 12, "small_dim": 8, "instances": 3, "block_size": 3,
                        "test_samples": 1024, "alphas": [0.5, 2], "theory_alphas": [0.5, 2]},
}  # fmt: skip
# Wall times are stored beside the results; they are not results.
_TIMINGS = {"seconds"}


class Workspace:
    """A working folder with a configuration of its own; the code is this checkout's."""

    def __init__(self, folder: Path, figures: tuple[str, ...] = FIGURES):
        self.folder = folder
        self.figures = figures
        (folder / "config").mkdir(parents=True)
        for file in sorted((ROOT / "config").glob("*.yaml")):
            content = yaml.safe_load(file.read_text())
            for name in SIZES.keys() & content.keys():
                scales = content[name]["scales"]
                scales[SCALE] = {**scales["smoke"], **SIZES[name]}
            (folder / "config" / file.name).write_text(yaml.safe_dump(content))

    @property
    def selection(self) -> list[str]:
        """Scale and figures, for ``--config``."""
        return [f"scale={SCALE}", f"figures=[{','.join(self.figures)}]"]

    @property
    def cache(self) -> Path:
        """Folder of the cached results."""
        return self.folder / "results" / "cache"

    def command(self, *flags: str, cores: int = 2) -> list[str]:
        """The command a user types: the same one, whatever happened before."""
        return [
            *(sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile")),
            *("--cores", str(cores), *flags),
            *("--config", *self.selection),
        ]

    def start(self, *flags: str) -> subprocess.Popen[str]:
        """Start a run in a process group of its own."""
        return subprocess.Popen(
            self.command(*flags),
            cwd=self.folder,
            process_group=0,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(
        self,
        *flags: str,
        cores: int = 2,
        env: Mapping[str, str | None] | None = None,
        cwd: Path | None = None,
        through: Sequence[str] = (),
    ) -> subprocess.CompletedProcess[str]:
        """Run to the end; the finished process with its output. None unsets a variable.

        ``through``: a command that starts it.
        """
        changed = {**os.environ, **(env or {})}
        return subprocess.run(
            [*through, *self.command(*flags, cores=cores)],
            cwd=cwd or self.folder,
            env={name: value for name, value in changed.items() if value is not None},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def files(self) -> list[Path]:
        """Cached results, sorted."""
        return sorted(self.cache.rglob("*.h5"))

    def written(self) -> dict[Path, int]:
        """When each cached result was written."""
        return {path: path.stat().st_mtime_ns for path in self.files()}

    def digests(self) -> dict[str, str]:
        """Digest of each result's arrays (timings aside) and of each figure's PDF and numbers."""
        found = {str(p.relative_to(self.folder)): _arrays_digest(p) for p in self.files()}
        for ending in ("pdf", "csv"):
            for path in sorted((self.folder / "results/figures").rglob(f"*.{ending}")):
                if path.stem == "costs":
                    continue  # times of the jobs
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                found[str(path.relative_to(self.folder))] = digest
        return found


class SmokeScale(Workspace):
    """Every figure at the smoke scale, with the configuration of this checkout."""

    selection = ("scale=smoke",)

    def __init__(self, folder: Path):
        super().__init__(folder, ())
        shutil.rmtree(folder / "config")


def differences(found: dict[str, str], reference: dict[str, str]) -> str:
    """Names of the files that are missing, added or different."""
    names = sorted(found.keys() | reference.keys())
    return ", ".join(name for name in names if found.get(name) != reference.get(name))


def _arrays_digest(path: Path) -> str:
    checksum = hashlib.sha256()

    def add(name: str, item) -> None:
        if isinstance(item, h5py.Dataset) and re.split(r"[./]", name)[-1] not in _TIMINGS:
            value = item[()]
            checksum.update(f"{name} {value.dtype} {value.shape}".encode())
            checksum.update(value.tobytes())

    with h5py.File(path, locking=False) as file:
        checksum.update(str(file.attrs["parameters"]).encode())
        file.visititems(add)
    return checksum.hexdigest()


def kill_all(run: subprocess.Popen[str]) -> None:
    """``kill -9`` of a run and all its jobs, in no order."""
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate()


def jobs_of(run: subprocess.Popen[str]) -> list[int]:
    """Process numbers of the computing jobs of a run."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            group = int(status.read_bytes().rpartition(b")")[2].split()[2])
            command = (status.parent / "cmdline").read_bytes()
        except (OSError, ValueError):
            continue  # it ended meanwhile
        if group == run.pid and b"compute.py" in command and not command.startswith(b"/bin/"):
            found.append(int(status.parent.name))
    return found
