"""From the cache to the files of one figure."""

from __future__ import annotations

from pathlib import Path

from hdattn import catalogue, store
from hdattn import figures as figure_modules
from hdattn.experiment import Experiment
from hdattn.fields import Strict
from hdattn.figures import style, validation


def make_figure(name: str, section: Strict, seed: int, stem: Path) -> figure_modules.Drawing:
    """Read the experiments of figure ``name``, draw it, and write its files.

    Writes ``stem.pdf``, ``stem.png``, ``stem.csv`` (everything drawn) and
    ``stem.validation.csv`` (theory against simulation). Raises ``CacheError`` for a file of the
    cache that cannot be trusted.
    """
    experiments = catalogue.experiments_of(name, section, seed)
    records = {role: [_read(e) for e in group] for role, group in experiments.items()}
    with style.context():
        figure = style.new_figure()
        drawing = figure_modules.module(name).draw(figure, records, section)
        style.save(figure, stem)
    style.write_csv(stem.with_name(f"{stem.name}.csv"), drawing.table)
    validation.write(stem.with_name(f"{stem.name}{validation.PART_ENDING}"), drawing.validation)
    return drawing


def _read(experiment: Experiment) -> store.Record:
    path = Path(catalogue.CACHE) / experiment.path
    return store.read(path, kind=experiment.kind, parameters=experiment.parameters)
