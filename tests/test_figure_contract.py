"""A figure module with a mistake: a line that names its file, and the other figures go on."""

import re
import sys
from pathlib import Path

import pytest

from hdattn import configuration, figures
from hdattn.catalogue import Catalogue
from hdattn.errors import UserError
from hdattn.figures import registry

PAGE = (Path(__file__).parents[1] / "docs/add-a-figure.md").read_text()
SOUND = re.search(r"<!-- file: \S+noise_levels.py -->\n```python\n(.*?)```", PAGE, re.DOTALL)[1]
FILE = "hdattn/figures/noise_levels.py"


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Write the module ``noise_levels``, of which the registry then knows."""
    monkeypatch.setattr(figures, "__path__", [*figures.__path__, str(tmp_path)])

    def forget():
        for function in (registry._found, registry._sorted, registry.module):
            function.cache_clear()
        sys.modules.pop("hdattn.figures.noise_levels", None)

    def write(text):
        (tmp_path / "noise_levels.py").write_text(text)
        forget()

    yield write
    forget()


def planned(names, **sections):
    return Catalogue(configuration.load({"figures": names, "scale": "smoke", **sections}))


def refused(names="noise_levels"):
    with pytest.raises(UserError) as caught:
        planned(names)
    (line,) = str(caught.value).splitlines()
    return line


def test_the_module_of_the_recipe_is_sound(written):
    written(SOUND)
    assert list(planned("noise_levels").figures) == ["noise_levels"]
    assert "noise_levels" in figures.names() and not figures.broken()


BODY = '    """One theory curve for each noise."""\n'


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("MODEL = ", "MODEL == = "), r", line \d+: .*; mend it, or take the file away"),
        (("MODEL = ", "import nowhere\nMODEL = "), r", line \d+: cannot be .*No module named"),
        (("MODEL = ", "raise SystemExit(3)\nMODEL = "), r", line \d+: cannot .*SystemExit: 3"),
        (('MODEL = "singlehead"\n', ""), ": MODEL is None, not multihead or singlehead;"),
        (('"singlehead"\n', '"x"\n'), ": MODEL is 'x', not multihead or singlehead;"),
        (("TITLE = ", "NAME = "), ": TITLE is no text; docs/add-a-figure.md"),
        (("class Section(", "class Keys("), r".*(NameError|Section is no subclass)"),
        (("def experiments(", "def runs("), r": there is no function experiments\(section, seed\)"),
        (("(section: Section, seed: int)", "(section: Section)"), ": there is no function exp"),
        (("def draw(", "def paint("), r": there is no function draw\(figure, records, section\)"),
        ((BODY, f"{BODY}    return []\n"), ": experiments returned a list; return {role:"),
        ((BODY, f"{BODY}    return None\n"), ": experiments returned None; return {role:"),
        ((BODY, BODY + '    return {"a": [1]}\n'), ": experiments returned no list of Experiment"),
        ((BODY, f"{BODY}    1 / 0\n"), r", line \d+: experiments failed \(ZeroDivisionError"),
        (('"lam": section', '"lamda": section'), ": the parameters of .*KeyError: 'lam'"),
        (('"alphas": list', '"alpha": list'), r": the parameters of .*KeyError: 'alphas'"),
    ],
)
def test_one_line_names_the_file(written, change, problem):
    assert change[0] in SOUND
    written(SOUND.replace(*change, 1))
    for names in ("noise_levels", "all"):
        assert re.match(f"\\S*/noise_levels.py{problem}", refused(names)), refused(names)
    assert list(planned("rank").figures) == ["rank"]


def test_a_slug_that_leads_out_of_the_cache(written):
    slug = re.search(r"slug=(f?\"[^\"]*\")", SOUND)[1]
    written(SOUND.replace(slug, '"../../../x"'))
    assert re.match(rf"{FILE}, line \d+: experiments failed \(ValueError", refused())


def test_a_section_of_a_broken_module_is_no_unknown_key(written):
    written("MODEL = ")
    assert list(planned("rank", noise_levels={"noises": [1]}).figures) == ["rank"]


def test_the_commands_go_on_and_say_so(written, command):
    written("MODEL = ")
    status, out, err = command("figures")
    assert status == 0 and "rank" in out
    assert "/noise_levels.py, line 1: invalid syntax; mend it" in err
