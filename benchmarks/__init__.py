"""Ratios behind the claims of speed, each measured in one run: ``python -m benchmarks``."""

import os

# One thread each, before numpy is loaded: what a job of the workflow has.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"
