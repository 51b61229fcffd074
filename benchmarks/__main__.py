"""Measure, entry by entry, and keep each as soon as it is there.

    python -m benchmarks                   everything (make bench), under 15 minutes on 2 cores
    python -m benchmarks --only a,b        these entries again
    python -m benchmarks --resume          what an interrupted run has not measured yet
    python -m benchmarks --quick           every entry at tiny sizes, nothing kept: does it work?

Entries e, i and j look at a finished default scale: of this folder, or of the one that
``--project`` names. Results go to benchmarks/results.json and the table of docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

from benchmarks.entries import ENTRIES, entry
from benchmarks.machine import describe
from benchmarks.table import ROOT, number, read_results, write_results
from benchmarks.timing import MissingRun, Settings, met
from hdattn.errors import UserError

ROUNDS = 5


def letters(text: str) -> list[str]:
    """``a,b`` as a list of entries."""
    asked = [letter.strip() for letter in text.split(",") if letter.strip()]
    if unknown := [letter for letter in asked if letter not in ENTRIES]:
        raise argparse.ArgumentTypeError(
            f"no entry {', '.join(unknown)}; there are {', '.join(ENTRIES)}"
        )
    return asked


def rounds(text: str) -> int:
    """A number of rounds, at least 5."""
    if not text.isdigit() or int(text) < ROUNDS:
        raise argparse.ArgumentTypeError(f"{text}: give a whole number of at least {ROUNDS}")
    return int(text)


def measure(letter: str, settings: Settings) -> dict[str, Any]:
    """Measure an entry and print its rows."""
    module = entry(letter)
    print(f"({letter}) {module.TITLE}", flush=True)
    load, begun, date = os.getloadavg()[0], time.perf_counter(), time.strftime("%Y-%m-%d %H:%M")
    rows = module.measure(settings)
    for line in rows:
        spread = f"{number(line['low'], line['unit'])} to {number(line['high'], line['unit'])}"
        verdict = {True: "met", False: "MISSED", None: ""}[met(line)]
        print(f"    {line['what']}: {number(line['median'], line['unit'])} ({spread}) {verdict}")
    seconds = time.perf_counter() - begun
    return {"date": date, "load": load, "seconds": seconds, "rows": rows}


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", type=letters, default=list(ENTRIES), metavar="a,b,...")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=rounds, default=ROUNDS)
    parser.add_argument("--project", type=Path, default=ROOT, metavar="FOLDER")
    options = parser.parse_args()
    results = read_results()
    whole = len(options.only) == len(ENTRIES) and not options.resume
    if not options.quick and (whole or not results["machine"]):
        results |= {"machine": describe(), "run": time.strftime("%Y-%m-%d %H:%M:%S")}
        write_results(results)
    for letter in options.only:
        results = read_results()  # anew: another process may have measured another entry
        kept = results["entries"]
        if options.resume and kept.get(letter, {}).get("run") == results["run"]:
            continue
        rows = {name: one["rows"] for name, one in kept.items()}
        settings = Settings(options.rounds, options.project.resolve(), options.quick, rows)
        try:
            found = measure(letter, settings)
        except (MissingRun, UserError) as reason:
            print(f"    left out: {reason}")
            continue
        if not options.quick:
            keep(letter, found)


def keep(letter: str, found: dict[str, Any]) -> None:
    """Add an entry to the results."""
    results = read_results()
    results["entries"][letter] = {"run": results["run"]} | found
    write_results(results)


if __name__ == "__main__":
    main()
