"""From the cache to the files of one figure."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hdattn import catalogue, store
from hdattn import figures as figure_modules
from hdattn.atomic import cannot_write
from hdattn.experiment import Experiment
from hdattn.fields import Strict
from hdattn.figures import details, drawn, style, validation
from hdattn.figures.look import Look
from hdattn.figures.overlaps import overlaps
from hdattn.several import Part, file_of, record_of


def make_figure(
    name: str, section: Strict, seed: int, stem: Path, look: Look | None = None
) -> figure_modules.Drawing:
    """Read the experiments of figure ``name``, draw it, and write its files.

    Writes ``stem.pdf`` and ``stem.png`` (or the formats of ``look``), ``stem.csv`` (the
    numbers drawn, by name), ``stem.drawn.csv`` (everything in the panels, as it stands there),
    ``stem.validation.csv`` (theory against simulation) and ``stem.json`` (what it was made from,
    flagged points, labels that overlap, SHA-256 of the files). Raises ``CacheError`` for a file of
    the cache that cannot be trusted, ``UserError`` where the file system refuses.
    """
    look = look or Look()
    experiments = catalogue.experiments_of(name, section, seed)
    records = _records(experiments)
    with style.context(look.style_sheet):
        figure = style.new_figure()
        drawing = figure_modules.module(name).draw(figure, records, section)
        look.resize(figure)
        with _writing(stem):
            style.save(figure, stem, look.formats)
        crowded, shown = overlaps(figure), drawn.rows(figure)
    with _writing(stem):
        style.write_csv(stem.with_name(f"{stem.name}.csv"), drawing.table)
        style.write_csv(stem.with_name(f"{stem.name}{drawn.ENDING}"), shown)
        part = stem.with_name(f"{stem.name}{validation.PART_ENDING}")
        validation.write(part, drawing.validation)
        endings = [*(f".{f}" for f in look.formats), ".csv", drawn.ENDING, validation.PART_ENDING]
        details.write(stem, name, section, seed, experiments, drawing, crowded, endings)
    return drawing


def _records(
    experiments: Mapping[str, Sequence[Experiment | Part]],
) -> dict[str, list[store.Record]]:
    """Records by role; each file is read once."""
    wanted = dict.fromkeys(file_of(e) for group in experiments.values() for e in group)
    files = {experiment: _read(experiment) for experiment in wanted}
    return {
        role: [record_of(files[file_of(e)], e) for e in group]
        for role, group in experiments.items()
    }


@contextlib.contextmanager
def _writing(stem: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise cannot_write(stem, error) from None


def _read(experiment: Experiment) -> store.Record:
    path = Path(catalogue.CACHE) / experiment.path
    return store.read(path, kind=experiment.kind, parameters=experiment.parameters)
