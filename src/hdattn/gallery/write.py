"""From the results on disk to the pages of the gallery."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template

from hdattn import overview
from hdattn.atomic import write_atomically
from hdattn.catalogue import FIGURES
from hdattn.errors import UserError
from hdattn.figures import validation
from hdattn.gallery import costs, markup
from hdattn.gallery.collect import Page, collect

_TEMPLATE = Path(__file__).with_name("page.html")
_CHECKOUT_CAPTIONS = Path(__file__).resolve().parents[3] / "workflow" / "report"
CAPTIONS = Path("workflow/report")
INDEX = "index.html"


def write_gallery(
    directory: Path, scales: Sequence[str] = (), captions: Path | None = None
) -> dict[Path, list[Page]]:
    """Write the page of each scale (all that have figures, unless named) and the one above them.

    ``directory`` is the project's folder; ``captions`` holds ``<figure>.rst``. Returns the pages
    written, with their figures. Raises ``UserError`` where a scale has no figures.
    """
    present = _scales(directory)
    for scale in scales or [""]:
        if scale not in present and (scale or not present):
            where = directory / FIGURES / scale
            raise UserError(f"{where}: there are no figures; make them with 'make figures' first")
    written = {}
    for scale in scales or present:
        folder = directory / FIGURES / scale
        pages = collect(directory, folder)
        priced = costs.draw_costs(pages, folder)
        body = _scale_body(scale, pages, directory, folder, _caption_folder(directory, captions))
        body += _section(folder, costs.NAME, "Costs", costs.CAPTION) if priced else ""
        written[_write(folder / INDEX, f"hdattn: figures, {scale} scale", body)] = pages
    _write(directory / FIGURES.parent / INDEX, "hdattn: figures", _top_body(directory, present))
    return written


def summary_lines(pages: Sequence[Page]) -> list[str]:
    """One line per figure: verdicts, flagged points, cost."""
    width = max((len(page.name) for page in pages), default=0)
    return [f"{page.name:<{width}}  {_summary(page)}" for page in pages]


def _summary(page: Page) -> str:
    counts = page.verdicts()
    total = sum(counts.values())
    parts = [f"{counts[validation.AGREE]} of {total} points agree"] if total else []
    parts += [f"{n} {kind}" for kind, n in list(counts.items())[1:] if n]
    parts += [f"{len(page.flagged)} flagged"] if page.flagged else []
    crowded = len(page.overlaps)
    parts += [f"{crowded} label{'s' * (crowded > 1)} crowded"] if crowded else []
    return ", ".join([*parts, *page.problems, markup.cost(page)])


def _scales(directory: Path) -> list[str]:
    found = {path.parents[1].name for path in (directory / FIGURES).glob("*/*head/*.png")}
    built_in = [scale for scale in ("smoke", "default", "paper") if scale in found]
    return [*built_in, *sorted(found - set(built_in))]


def _caption_folder(directory: Path, captions: Path | None) -> Path:
    own = directory / CAPTIONS
    return captions or (own if own.is_dir() else _CHECKOUT_CAPTIONS)


def _caption(folder: Path, name: str) -> str:
    file = folder / f"{name}.rst"
    return markup.caption(file.read_text(encoding="utf-8")) if file.is_file() else ""


def _scale_body(
    scale: str, pages: Sequence[Page], directory: Path, folder: Path, captions: Path
) -> str:
    rows = [row for page in pages for row in page.validation]
    papers = "".join(
        f'<option value="{model}" title="{escape(text)}">{model}</option>'
        for model, text in markup.PAPERS.items()
    )
    contents = " · ".join(f'<a href="#{page.name}">{page.name}</a>' for page in pages)
    table = folder / "validation.csv"
    numbers = f' <a href="{markup.link(table, folder)}">CSV</a>' if table.is_file() else ""
    parts = [
        f"<h1>Figures at the {escape(scale)} scale</h1>",
        f'<p class="faint"><a href="{markup.link(directory / "results" / INDEX, folder)}">'
        "all scales</a></p>",
        f"<p>{escape(validation.summary(rows).splitlines()[0])}.{numbers}</p>",
        markup.bullets(line.strip() for line in validation.summary(rows).splitlines()[1:]),
        '<nav><input id="search" type="search" placeholder="search" aria-label="search">',
        f'<select id="paper" aria-label="paper"><option value="">both papers</option>{papers}'
        "</select>",
        '<select id="verdict" aria-label="with"><option value="">all figures</option>'
        '<option value="disagree">with disagreements</option>'
        '<option value="flagged">with flagged points</option></select>',
        '<span id="count" class="faint" role="status"></span></nav>',
        f"<p>{contents}</p>",
        _section(folder, overview.NAME, "Overview", _caption(captions, overview.NAME)),
        *(markup.article(p, folder, directory, _caption(captions, p.name)) for p in pages),
    ]
    return "\n".join(parts)


def _section(folder: Path, name: str, title: str, caption: str) -> str:
    """A figure about all others; nothing where it was not drawn."""
    if not (folder / f"{name}.png").is_file():
        return ""
    files = " ".join(
        f'<a href="{name}.{ending}">{ending.upper()}</a>'
        for ending in ("pdf", "png", "csv")
        if (folder / f"{name}.{ending}").is_file()
    )
    return (
        f'<section id="{name}"><h2>{title}</h2>'
        f'<a href="{name}.pdf"><img loading="lazy" src="{name}.png" alt="{title}"></a>'
        f'{caption}<p class="files">{files}</p></section>'
    )


def _top_body(directory: Path, scales: Sequence[str]) -> str:
    folder = directory / FIGURES.parent
    items = []
    for scale in scales:
        page = directory / FIGURES / scale / INDEX
        count = len(list((directory / FIGURES / scale).glob("*head/*.png")))
        if page.is_file():
            href = markup.link(page, folder)
            items.append(f'<li><a href="{href}">{escape(scale)}</a>: {count} figures</li>')
    papers = markup.bullets(f"{model}: {text}" for model, text in markup.PAPERS.items())
    return f"<h1>Figures</h1>{papers}<p>At the scales</p><ul>{''.join(items)}</ul>"


def _write(path: Path, title: str, body: str) -> Path:
    template = Template(_TEMPLATE.read_text(encoding="utf-8"))
    path.parent.mkdir(parents=True, exist_ok=True)
    text = template.substitute(title=escape(title), body=body)
    write_atomically(path, text.encode())
    return path
