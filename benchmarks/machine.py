"""What the numbers were measured on."""

from __future__ import annotations

import os
import platform
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import race

PACKAGES = ("numpy", "scipy", "torch", "snakemake")


def describe() -> dict[str, Any]:
    """Processor, cores, memory, versions, and rates of matrix products on one thread."""
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9,
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
        "blas": f"{blas['name']} {blas['version']}",
        "gemm_gflops": {name: gemm_rate(name) / 1e9 for name in ("float64", "float32")},
        "date": time.strftime("%Y-%m-%d %H:%M"),
    }


def gemm_rate(dtype: str, size: int = 1024) -> float:
    """Flop per second of a square matrix product: what is taken for the peak of a core."""
    a = np.random.default_rng(0).standard_normal((size, size)).astype(dtype)
    out = np.empty_like(a)
    seconds = race([lambda: np.matmul(a, a, out=out)], 7)
    return 2 * size**3 / float(np.median(seconds))


def _processor() -> str:
    """Model and clock of the processor as the system tells them."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    known = dict(line.split(":", 1) for line in lines if ":" in line)
    known = {key.strip(): value.strip() for key, value in known.items()}
    name, clock = known.get("model name", platform.machine()), known.get("cpu MHz")
    family = "family {}, model {}".format(known.get("cpu family", "?"), known.get("model", "?"))
    return f"{name} ({family})" + (f", {float(clock):.0f} MHz" if clock else "")
