"""The pages lead somewhere, name what there is, and what they compute is right."""

import doctest
import re
from pathlib import Path

import pytest

from hdattn import figures

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "config/README.md"])
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
HOSTS = ("https://arxiv.org/abs/",)


def links(text):
    """Targets of a page, those in blocks of code left out."""
    return LINK.findall(FENCE.sub("", text))


def anchors(text):
    """Names of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in links(page.read_text(encoding="utf-8")):
        if target.startswith("http"):
            assert target.startswith(HOSTS), f"{target}: not among the hosts that pages refer to"
            continue
        path, _, fragment = target.partition("#")
        file = (page.parent / path) if path else page
        assert file.exists(), target
        assert not fragment or fragment in anchors(file.read_text(encoding="utf-8")), target


def test_every_page_is_reached_from_the_readme():
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached:
            reached.add(page)
            targets = links(page.read_text(encoding="utf-8"))
            files = [(page.parent / t.partition("#")[0]).resolve() for t in targets]
            waiting += [file for file in files if file.suffix == ".md" and file.is_file()]
    assert set(PAGES) <= reached


def test_every_figure_is_in_the_index():
    text = (ROOT / "docs/reproduce.md").read_text(encoding="utf-8")
    listed = re.findall(r"`make figures FIGURES=(\w+)`", text)
    assert len(set(listed)) == len(listed)
    assert set(figures.names()) <= set(listed)


def test_commands_on_the_pages_exist():
    """``hdattn ...`` in code names commands that there are."""
    from hdattn.cli import cli

    known = set(cli.commands)
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for name in re.findall(r"(?:`|^ {4}|^)hdattn ([a-z]+)\b", text, re.MULTILINE):
            assert name in known, f"{page.name}: hdattn {name}"


def test_tutorial():
    done = doctest.testfile(str(ROOT / "docs/tutorial.md"), module_relative=False)
    assert done.attempted > 20
    assert done.failed == 0
