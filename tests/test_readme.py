"""The README's figures are what today's configuration and code draw, with their captions."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from hdattn.errors import UserError
from hdattn.gallery import readme

ROOT = Path(__file__).parents[1]


def test_the_figures_are_in_step():
    """Where this fails: `make figures FIGURES=<name>`, then `make images`."""
    assert readme.out_of_step() == {}


def test_the_page_shows_them_all_with_their_captions():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.with_block(text) == text
    for name in readme.SHOWN:
        assert text.count(f"(docs/images/{name}.png)") == 1
    assert {path.stem for path in (ROOT / readme.IMAGES).glob("*.png")} == set(readme.SHOWN)


@pytest.fixture
def copy(tmp_path):
    """What the README's figures depend on, in a folder of its own."""
    for name in ("config", "docs/images"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "README.md", tmp_path)
    return tmp_path


def test_a_change_of_parameters_is_noticed(copy):
    path = copy / "config/singlehead.yaml"
    sections = yaml.safe_load(path.read_text(encoding="utf-8"))
    sections["rank"]["noise"] = sections["spectra"]["noise"] = 0.6
    path.write_text(yaml.safe_dump(sections))
    # The overview has a panel of it.
    assert set(readme.out_of_step(copy)) == {"overview", "spectra"}
    assert readme.out_of_step(copy)["spectra"] == "drawn with other parameters than today's"


def test_a_change_of_the_code_is_noticed(copy):
    path = copy / readme.RECORD
    record = json.loads(path.read_text(encoding="utf-8"))
    record["heads"]["code"] = "0" * 16
    path.write_text(json.dumps(record))
    assert readme.out_of_step(copy) == {"heads": "drawn with other code than today's"}


def test_another_image_is_noticed(copy):
    shutil.copy(copy / "docs/images/heads.png", copy / "docs/images/staging.png")
    (copy / "docs/images/scaling.png").unlink()
    assert readme.out_of_step(copy) == {
        "staging": "the image is not the one that was recorded",
        "scaling": "there is no such image, or no record of it",
    }


def test_an_image_is_drawn_from_the_results(copy, tmp_path, monkeypatch):
    def draw(directory, names, root, folder):
        assert (directory, root) == (tmp_path / "elsewhere", copy)
        for name in names:
            (folder / "singlehead").mkdir(exist_ok=True)
            (folder / f"singlehead/{name}.png").write_bytes(b"new")

    monkeypatch.setattr(readme, "_draw", draw)
    page = copy / "README.md"
    page.write_text(page.read_text(encoding="utf-8").replace("`spectra`", "`spektra`"))
    (copy / "docs/images/spectra.png").write_bytes(b"old")
    names = list(readme.out_of_step(copy))
    readme.update(tmp_path / "elsewhere", names, copy)
    assert names == ["spectra"]
    assert (copy / "docs/images/spectra.png").read_bytes() == b"new"
    assert readme.out_of_step(copy) == {}
    assert page.read_text(encoding="utf-8") == (ROOT / "README.md").read_text(encoding="utf-8")


def test_mistakes_are_one_line(tmp_path):
    with pytest.raises(UserError, match="nosuch: not in the README; choose from overview, staging"):
        readme.main(["nosuch"])
    with pytest.raises(UserError, match="put them where figures go"):
        readme.with_block("# hdattn\n")


def test_nothing_is_drawn_where_all_are_in_step(monkeypatch, capsys):
    monkeypatch.setattr(readme, "out_of_step", dict)
    readme.main([])
    assert "all are in step" in capsys.readouterr().out
