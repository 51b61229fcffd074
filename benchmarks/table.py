"""The table in docs/benchmarks.md, made from benchmarks/results.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.entries import ENTRIES, entry
from benchmarks.timing import met

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results.json"
PAGE = ROOT / "docs/benchmarks.md"
BEGIN, END = "<!-- table: made by python -m benchmarks -->", "<!-- end of table -->"


def read_results() -> dict[str, Any]:
    """What was measured: ``{"machine": ..., "run": ..., "entries": {letter: ...}}``."""
    if not RESULTS.exists():
        return {"machine": {}, "run": "", "entries": {}}
    return json.loads(RESULTS.read_text(encoding="utf-8"))


def write_results(results: dict[str, Any]) -> None:
    """Keep the results, and put their table on the page."""
    results["entries"] = dict(sorted(results["entries"].items()))
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n{render(results)}{END}{after}", encoding="utf-8")


def render(results: dict[str, Any]) -> str:
    """Machine and a table for each entry as Markdown."""
    lines = [_machine(results["machine"]), ""]
    for letter in ENTRIES:
        lines += [f"### ({letter}) {entry(letter).TITLE}", "", *_entry(letter, results), ""]
    return "\n".join(lines)


def _entry(letter: str, results: dict[str, Any]) -> list[str]:
    """Table of an entry, or how to get it."""
    found = results["entries"].get(letter)
    if found is None:
        return [f"Not measured yet: `python -m benchmarks --only {letter}`."]
    return [
        f"Measured {found['date']} at a load of {found['load']:.1f}, {found['seconds']:.0f} s.",
        "",
        "| | median | smallest to largest | rounds | target | met |",
        "|---|---|---|---|---|---|",
        *(_line(line) for line in found["rows"]),
        "",
        *(f"- {line['what']}: {line['detail']}." for line in found["rows"] if line["detail"]),
    ]


def _machine(machine: dict[str, Any]) -> str:
    packages = ", ".join(f"{name} {version}" for name, version in machine["packages"].items())
    rates = ", ".join(f"{rate:.1f} in {name}" for name, rate in machine["gemm_gflops"].items())
    return (
        f"Machine: {machine['processor']}, {machine['cores']} cores, "
        f"{machine['memory_gb']:.1f} GB, {machine['system']}; Python {machine['python']}, "
        f"{packages}, {machine['blas']}, one thread each. Square matrix products reach, in "
        f"Gflop/s of a core, {rates} ({machine['date']})."
    )


def _line(line: dict[str, Any]) -> str:
    unit = line["unit"]
    median, low, high = (number(line[key], unit) for key in ("median", "low", "high"))
    spread = f"{low} to {high}" if line["rounds"] > 1 else ""
    bounds = [line["at_least"], line["at_most"]]
    signs = [
        f"{sign} {number(bound, unit)}"
        for sign, bound in zip("≥≤", bounds, strict=True)
        if bound is not None
    ]
    verdict = {True: "yes", False: "**no**", None: ""}[met(line)]
    cells = (line["what"], median, spread, line["rounds"], ", ".join(signs), verdict)
    return "| " + " | ".join(map(str, cells)) + " |"


def number(value: float, unit: str) -> str:
    """A number with its unit."""
    text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return text if unit == "exponent" else f"{text} {unit}"
