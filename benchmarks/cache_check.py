"""The check of a whole cache: how long it takes the first time, and when little has changed.

    python benchmarks/cache_check.py [--files 10000] [--kilobytes 20]

Writes a cache of so many results to a temporary folder, checks it as ``hdattn check`` does, then
once more, and again with 20 files replaced and 5 damaged; prints seconds and how many files each
had to read. Fails when the first takes a minute or the damage is not found.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from hdattn.cache_check import CheckReport, check
from hdattn.experiment import Experiment
from hdattn.store import Dataset, Result, write

KIND, PHYSICS = "singlehead/erm", "0123456789abcdef"
LIMIT = 60.0  # seconds


def add(folder: Path, number: int, values: np.ndarray) -> Path:
    """Write one result."""
    experiment = Experiment(KIND, {"alpha": number}, slug="bench")
    path = folder / experiment.path
    result = Result({"Q": Dataset(values, "overlap")})
    write(path, KIND, experiment.parameters, result, physics_digest=PHYSICS, wall_time=0.0)
    return path


def timed(what: str, folder: Path) -> tuple[CheckReport, float]:
    """Check ``folder`` and print what it took."""
    start = time.perf_counter()
    report = check(folder, physics=lambda kind, stored: PHYSICS)
    seconds = time.perf_counter() - start
    print(f"{what}: {seconds:.2f} s, {report.files} files, {report.files_read} of them read")
    return report, seconds


def main() -> None:
    """Write, check, change, check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10000)
    parser.add_argument("--kilobytes", type=int, default=20)
    options = parser.parse_args()
    values = np.random.default_rng(0).standard_normal(options.kilobytes * 128)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = [add(folder, number, values) for number in range(options.files)]
        time.sleep(2.5)  # files younger than two seconds are read again next time
        _, first = timed("first", folder)
        again, _ = timed("unchanged", folder)
        for number in range(20):
            add(folder, number, 2 * values)
        for path in paths[-5:]:
            path.write_bytes(path.read_bytes()[:-1])
        changed, _ = timed("20 replaced, 5 truncated", folder)
    assert first < LIMIT, first
    assert again.files_read == 0
    assert (len(changed.bad), changed.files_read) == (5, 25)


if __name__ == "__main__":
    main()
