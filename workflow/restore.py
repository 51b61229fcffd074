"""Inputs that must be there again although their readers are finished.

Snakemake would leave such a file missing, or, when one reader is unfinished, make it anew and
rerun all the finished readers too. It is remade here instead, dated before its readers: same
parameters and same code give the same numbers, so they need not run again.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from hdattn.errors import UserError
from hdattn.experiment import Experiment


def lost_inputs(
    experiments: Iterable[Experiment], cache: Path, bad: set[Path]
) -> list[tuple[Experiment, float]]:
    """Inputs to remake, inputs first, each with the time of its oldest finished reader.

    A missing file is remade when it has a finished reader, and either went ``bad`` or is needed
    by an unfinished reader. ``experiments`` come with inputs before what reads them.
    """
    readers = defaultdict(list)
    experiments = list(experiments)
    for experiment in experiments:
        for read in experiment.inputs.values():
            readers[read].append(cache / experiment.path)
    lost = []
    for experiment in experiments:
        path = cache / experiment.path
        if path.exists():
            continue
        finished = [p.stat().st_mtime for p in readers[experiment] if p.exists()]
        if finished and (path in bad or len(finished) < len(readers[experiment])):
            lost.append((experiment, min(finished)))
    return lost


def remake(experiment: Experiment, cache: Path, before: float) -> None:
    """Run one experiment now and date its file a second before the time ``before``."""
    output = cache / experiment.path
    inputs = [f"{role}={cache / e.path}" for role, e in experiment.inputs.items()]
    script = Path(os.environ["HDATTN_SCRIPTS"], "compute.py")
    command = [sys.executable, str(script), experiment.kind]
    command += ["--parameters", experiment.parameters_json, "--output", str(output)]
    run = subprocess.run(
        [*command, "--inputs", *inputs], capture_output=True, text=True, check=False
    )
    if run.returncode:
        raise UserError(f"{output}: cannot be made anew: {run.stderr.strip()}")
    os.utime(output, (before - 1, before - 1))
