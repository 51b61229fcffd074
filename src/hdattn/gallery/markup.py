"""HTML of the gallery's parts."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hdattn.catalogue import CACHE
from hdattn.gallery.collect import Page
from hdattn.job_costs import total

PAPERS = {
    "multihead": "Specialization of softmax attention heads (arXiv 2603.03993)",
    "singlehead": "Single-head attention in high dimensions (arXiv 2509.24914)",
}
_NUMBERS = ("theory", "simulation", "standard_error", "instances", "z", "allowance")


def caption(text: str) -> str:
    """reStructuredText as HTML; where it cannot be parsed, the text as it is."""
    from docutils.core import publish_parts
    from docutils.utils import SystemMessage

    settings = {
        "report_level": 5,
        "halt_level": 3,
        "file_insertion_enabled": False,
        "raw_enabled": False,
        "math_output": "HTML",
        "_disable_config": True,
    }
    try:
        return publish_parts(text, writer="html5", settings_overrides=settings)["fragment"]
    except SystemMessage:
        return f"<p>{escape(text)}</p>"


def article(page: Page, folder: Path, directory: Path, caption_html: str) -> str:
    """One figure; ``folder`` is where the page lies, since all links are relative to it."""
    verdicts = page.verdicts()
    image = link(page.stem.with_suffix(".png"), folder)
    target = link(page.files.get("PDF", page.stem.with_suffix(".png")), folder)
    files = " ".join(f'<a href="{link(p, folder)}">{escape(n)}</a>' for n, p in page.files.items())
    parts = [
        f'<article id="{page.name}" data-paper="{page.model}" '
        f'data-disagree="{verdicts["disagree"]}" data-flagged="{len(page.flagged)}">',
        f'<h2><a href="#{page.name}">{page.name}</a> <small>{escape(page.model)}</small></h2>',
        f'<p class="faint">{escape(page.title)}</p>',
        f'<a href="{target}"><img loading="lazy" src="{image}" alt="{escape(page.title)}"></a>',
        caption_html,
        f'<p class="files">{files}</p>',
        _details("Files not as they were drawn", str(len(page.problems)), bullets(page.problems)),
        _details("Validation", _verdict_line(verdicts), validation_table(page.validation)),
        _details("Flagged points", str(len(page.flagged)), bullets(page.flagged)),
        _details("Crowded labels", str(len(page.overlaps)), bullets(page.overlaps)),
        _details("Parameters", instances(page.parameters), _parameters(page.parameters)),
        _details("HDF5 files", _file_count(page), _experiments(page, folder, directory)),
        _details("Provenance and cost", cost(page), _provenance(page)),
        "</article>",
    ]
    return "\n".join(filter(None, parts))


def link(path: Path, folder: Path) -> str:
    """``path`` relative to ``folder``, for an attribute."""
    return escape(quote(os.path.relpath(path, folder).replace(os.sep, "/")))


def instances(parameters: Mapping[str, Any] | None) -> str:
    """The numbers of instances among the parameters."""
    found = (parameters or {}).items()
    counts = [f"{key} = {_plain(v)}" for key, v in found if "instances" in key or "runs" in key]
    return ", ".join(counts)


def cost(page: Page) -> str:
    """What the jobs behind the figure took."""
    if not page.costs:
        return "cost unknown"
    whole = total(page.costs.values())
    cpu = f", {whole.cpu_seconds:.0f} s CPU" if whole.cpu_seconds else ""
    return f"{whole.seconds:.0f} s of {whole.jobs} jobs{cpu}"


def bullets(lines: Iterable[str]) -> str:
    """A list; nothing without lines."""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose cells are HTML already, each a whole ``<td>``."""
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return (
        f'<div class="scroll"><table><thead><tr>{titles}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def cell(value: Any, kind: str = "value") -> str:
    """A cell with escaped text."""
    return f'<td class="{kind}">{escape(str(value))}</td>'


def validation_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Theory against simulation, the verdict first; nothing without rows."""
    body = [
        [
            cell(row["verdict"], row["verdict"]),
            cell(row["quantity"]),
            cell(row["point"]),
            *(cell(_number(row[key]), "number") for key in _NUMBERS),
        ]
        for row in rows
    ]
    head = ["verdict", "quantity", "point", *(key.replace("_", " ") for key in _NUMBERS)]
    return table(head, body) if body else ""


def _details(title: str, summary: str, body: str) -> str:
    if not body:
        return ""
    note = f' <span class="faint">{summary}</span>' if summary else ""
    return f"<details><summary>{title}{note}</summary>{body}</details>"


def _verdict_line(verdicts: Mapping[str, int]) -> str:
    return ", ".join(f'<span class="{k}">{n} {k}</span>' for k, n in verdicts.items() if n)


def _parameters(parameters: Mapping[str, Any] | None) -> str:
    if parameters is None:
        return "<p>Unknown: the figure was drawn by a version that did not record them.</p>"
    rows = [[cell(key), cell(_plain(value))] for key, value in parameters.items()]
    return table(["key", "value"], rows)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _file_count(page: Page) -> str:
    gone = f", {len(page.missing)} no longer there" if page.missing else ""
    return f"{len(page.cached)}{gone}"


def _experiments(page: Page, folder: Path, directory: Path) -> str:
    groups = {**page.experiments, **({"behind them": page.inputs} if page.inputs else {})}
    rows = []
    for role, paths in groups.items():
        names = [_cached_link(path, page, folder, directory) for path in paths]
        rows.append([cell(role), f'<td class="value">{"<br>".join(names)}</td>'])
    return table(["role", "files"], rows) if rows else ""


def _cached_link(path: str, page: Page, folder: Path, directory: Path) -> str:
    if path in page.missing:
        return f"{escape(path)} (no longer there)"
    return f'<a href="{link(directory / CACHE / path, folder)}">{escape(path)}</a>'


def _provenance(page: Page) -> str:
    rows = [[cell(key), cell("; ".join(values))] for key, values in page.provenance.items()]
    rows += [
        [cell(f"jobs of {rule}"), cell(f"{c.jobs}: {c.seconds:.0f} s, {c.cpu_seconds:.0f} s CPU")]
        for rule, c in page.costs.items()
    ]
    return table(["what", "value"], rows)


def _number(value: float) -> str:
    return f"{value:.4g}" if isinstance(value, int) or math.isfinite(value) else "–"
