"""The README's figures: drawn from real results, and a record that says of what.

``python -m hdattn.gallery.readme --directory DIR`` draws them from the cache of the project folder
DIR into ``docs/images/`` and writes the README's part between its marks. A test compares the
record, ``docs/images/record.json``, with the configuration and the code of today.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from hdattn import figures as figure_modules
from hdattn import overview, project
from hdattn.canonical import digest
from hdattn.catalogue import FigureEntry
from hdattn.errors import UserError
from hdattn.figures.code import own_digest

ROWS = (
    ("staging", "learning_curves"),
    ("stability", "spectra"),
    ("heads", "factorised"),
    ("pruning", "scaling"),
)
SHOWN = (overview.NAME, *(name for row in ROWS for name in row))
SCALE = "default"
IMAGES = Path("docs/images")
RECORD = IMAGES / "record.json"
BEGIN, END = "<!-- figures: written by `make images` -->", "<!-- end of figures -->"
_ROOT = Path(__file__).resolve().parents[3]


def block() -> str:
    """The README's part: the overview, then a table with a figure of each paper in a row."""
    captions = {name: figure_modules.module(name).TITLE for row in ROWS for name in row}
    image = f"![a panel per result of both papers]({IMAGES}/{overview.NAME}.png)"
    lines = [BEGIN, "", image, "", "| multihead | singlehead |", "|---|---|"]
    for row in ROWS:
        cells = [f"![{captions[n]}]({IMAGES}/{n}.png)<br>`{n}`: {captions[n]}" for n in row]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", END])


def described(root: Path = _ROOT) -> dict[str, dict[str, str]]:
    """What today's configuration and code would draw, by image: digests of each."""
    entries = project.catalogue_of(root, SCALE, " ".join(overview.FIGURES)).figures
    whole = {
        overview.NAME: {
            "parameters": digest([entries[name].section_json for name in overview.FIGURES]),
            "code": own_digest("hdattn.overview.multihead")
            + own_digest("hdattn.overview.singlehead"),
        }
    }
    return whole | {name: _described(entries[name]) for name in SHOWN if name in entries}


def _described(entry: FigureEntry) -> dict[str, str]:
    return {
        "parameters": digest(entry.section_json),
        "code": own_digest(f"hdattn.figures.{entry.name}"),
    }


def out_of_step(root: Path = _ROOT) -> dict[str, str]:
    """Images that are not what today's configuration and code would draw, and why."""
    path = root / RECORD
    record = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    today, found = described(root), {}
    for name in SHOWN:
        image, noted = root / IMAGES / f"{name}.png", record.get(name)
        if noted is None or not image.is_file():
            found[name] = "there is no such image, or no record of it"
        elif noted["sha256"] != _checksum(image):
            found[name] = "the image is not the one that was recorded"
        elif changed := [key for key, value in today[name].items() if noted[key] != value]:
            found[name] = f"drawn with other {' and '.join(changed)} than today's"
    return found


def update(directory: Path, names: Iterable[str], root: Path = _ROOT) -> None:
    """Draw ``names`` from the cache of ``directory``; write images, record and the README's part.

    Raises ``CacheError`` where a result is missing or cannot be trusted.
    """
    names = list(names)
    path = root / RECORD
    record = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    today = described(root)
    with tempfile.TemporaryDirectory() as folder:
        _draw(directory, names, root, Path(folder))
        for name in names:
            (drawn,) = Path(folder).rglob(f"{name}.png")
            image = root / IMAGES / drawn.name
            image.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(drawn, image)
            record[name] = {"scale": SCALE, "sha256": _checksum(image), **today[name]}
    ordered = {name: record[name] for name in SHOWN if name in record}
    path.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
    page = root / "README.md"
    page.write_text(with_block(page.read_text(encoding="utf-8")), encoding="utf-8")


def with_block(text: str) -> str:
    """``text`` of the README with today's part between its marks."""
    pattern = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
    if not pattern.search(text):
        raise UserError(f"README.md: lacks the lines {BEGIN} and {END}; put them where figures go")
    return pattern.sub(lambda _: block(), text)


def _draw(directory: Path, names: Sequence[str], root: Path, folder: Path) -> None:
    """The files of the figures ``names`` below ``folder``."""
    from hdattn.figures.make import make_figure
    from hdattn.overview.draw import make_overview

    wanted = overview.FIGURES if overview.NAME in names else names
    catalogue = project.catalogue_of(root, SCALE, " ".join(wanted))
    with contextlib.chdir(directory):  # the cache is found from here
        for entry in catalogue.figures.values():
            stem = folder / entry.model / entry.name
            stem.parent.mkdir(exist_ok=True)
            make_figure(entry.name, entry.section, catalogue.run.seed, stem)
    if overview.NAME in names:
        make_overview(folder, folder / overview.NAME)


def _checksum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _parse(arguments: Sequence[str] | None) -> Any:
    parser = argparse.ArgumentParser(description="Draw the README's figures.")
    parser.add_argument("names", nargs="*", help="only these; without any, those out of step")
    parser.add_argument("--directory", type=Path, default=Path(), help="project with the results")
    parser.add_argument("--all", action="store_true", help="also those that are in step")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw what is asked for and say it."""
    given = _parse(arguments)
    unknown = sorted(set(given.names) - set(SHOWN))
    if unknown:
        raise UserError(f"{unknown[0]}: not in the README; choose from {', '.join(SHOWN)}")
    names = given.names or (SHOWN if given.all else list(out_of_step()))
    if names:
        update(given.directory.resolve(), names)
    print(f"drawn: {', '.join(names) or 'nothing, all are in step'}")


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(str(error))
