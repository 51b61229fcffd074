"""Run Snakemake and write what it used: ``python measured.py FILE CORES ARGUMENTS...``.

FILE becomes ``{"own": ..., "jobs": ...}``, processor seconds of the main process and of all the
jobs it started. CORES, as ``0,1``, are the cores to use, or empty for any.
"""

import atexit
import json
import os
import resource
import sys
from pathlib import Path


def tell(file: str) -> None:
    """Write the processor seconds so far."""
    who = {"own": resource.RUSAGE_SELF, "jobs": resource.RUSAGE_CHILDREN}
    usage = {name: sum(resource.getrusage(one)[:2]) for name, one in who.items()}
    Path(file).write_text(json.dumps(usage), encoding="utf-8")


if __name__ == "__main__":
    sys.path.pop(0)  # this folder: none of its modules is to be found by the workflow
    from snakemake.cli import main

    output = str(Path(sys.argv.pop(1)).absolute())
    if cores := sys.argv.pop(1):
        os.sched_setaffinity(0, map(int, cores.split(",")))
    atexit.register(tell, output)
    sys.argv[0] = "snakemake"
    main()
