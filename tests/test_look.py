"""A user's own look: other files of the same numbers, and one line for each mistake."""

import hashlib
import re
from pathlib import Path
from types import SimpleNamespace

import matplotlib
import pytest

from hdattn import configuration, style_sheet
from hdattn.configuration_files import FILES, read_files
from hdattn.errors import UserError
from hdattn.experiment import Experiment
from hdattn.fields import FigureSection, Positive, physics
from hdattn.figures import details, make, style
from hdattn.figures.drawing import Drawing
from hdattn.figures.look import Look

ROOT = Path(__file__).parents[1]
BAYES = Experiment("multihead/bayes", {"tokens": 5, "prior": {"kind": "flip"}}, slug="L5")


class Section(FigureSection):
    """Of a figure that draws one line and reads nothing."""

    slope: Positive = physics(2.0, "Slope.")


def draw_line(figure, records, section):
    (axis,) = style.panels(figure)
    style.theory(axis, [0, 1], [0, section.slope], style.BLUE)
    return Drawing([{"x": 1, "y": section.slope}], flagged=["theory at x = 0: hollow"])


@pytest.fixture
def draw(tmp_path, monkeypatch):
    """Make the figure with a look; the stem of its files."""
    module = SimpleNamespace(
        MODEL="multihead", TITLE="A line", draw=draw_line, experiments=lambda *_: {"line": []}
    )
    monkeypatch.setattr("hdattn.figures.module", lambda name: module)

    def call(folder, **look):
        stem = tmp_path / folder / "line"
        stem.parent.mkdir()
        make.make_figure("line", Section(), 0, stem, Look(**look))
        return stem

    return call


def width_in_inches(stem):
    """Of the page in the PDF file."""
    box = re.search(rb"/MediaBox \[ ?([\d. ]+)\]", Path(f"{stem}.pdf").read_bytes())[1]
    return float(box.split()[2]) / 72


@pytest.mark.parametrize(
    ("width", "inches"), [("own", 3.25), ("single", 3.25), ("double", 6.75), (5.0, 5.0)]
)
def test_width(draw, width, inches):
    # matplotlib writes the page in points, rounded to less than a thousandth of an inch
    assert width_in_inches(draw("a", width=width)) == pytest.approx(inches, abs=1e-3)


def test_formats_and_style_sheet_change_no_number(draw, tmp_path):
    sheet = tmp_path / "mine.mplstyle"
    sheet.write_text("lines.linewidth: 5\naxes.facecolor: eeeeee\n")
    plain = draw("plain")
    mine = draw("mine", formats=("pdf", "png", "svg"), style_sheet=str(sheet))
    assert not Path(f"{plain}.svg").exists()
    assert b"eeeeee" in Path(f"{mine}.svg").read_bytes()
    told = [details.read(stem) for stem in (plain, mine)]
    assert told[0].pop("files") != told[1].pop("files")
    assert told[0] == told[1]
    for ending in ("csv", "drawn.csv", "validation.csv"):
        assert Path(f"{mine}.{ending}").read_bytes() == Path(f"{plain}.{ending}").read_bytes()
    assert Path(f"{mine}.pdf").read_bytes() != Path(f"{plain}.pdf").read_bytes()


def test_what_a_figure_was_made_from_lies_beside_it(draw):
    stem = draw("a")
    assert details.read(stem) == {
        "name": "line",
        "model": "multihead",
        "title": "A line",
        "seed": 0,
        "parameters": {"per_job": 1, "slope": 2.0},
        "experiments": {"line": []},
        "inputs": [],
        "flagged": ["theory at x = 0: hollow"],
        "overlaps": [],
        "files": {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for ending in ("pdf", "png", "csv", "drawn.csv", "validation.csv")
            for path in [Path(f"{stem}.{ending}")]
        },
    }
    assert details.read(Path("nosuch/figure")) is None


def test_files_behind_a_figure_are_listed_once(tmp_path):
    data = Experiment("multihead/data", {"seed": 0}, slug="D8")
    sgd = Experiment("multihead/sgd", {"seed": 0}, {"data": data}, slug="D8")
    stem = tmp_path / "staging"
    roles = {"sgd": [sgd, sgd], "bayes": [BAYES]}
    details.write(stem, "staging", Section(), 0, roles, Drawing([]))
    found = details.read(stem)
    assert found["experiments"] == {"sgd": [str(sgd.path)], "bayes": [str(BAYES.path)]}
    assert found["inputs"] == [str(data.path)]


def run_keys(**keys):
    merged, sources = read_files(ROOT / file for file in FILES)
    return configuration.load({**merged, **keys}, sources).run


@pytest.mark.parametrize(
    ("keys", "look"),
    [
        ({}, Look()),
        ({"figure_width": "double"}, Look(width="double")),
        ({"figure_width": "4.5"}, Look(width=4.5)),
        ({"figure_formats": "svg,png,pdf"}, Look(formats=("pdf", "png", "svg"))),
    ],
)
def test_keys_of_the_configuration(keys, look):
    chosen = run_keys(**keys).look()
    assert Look(**chosen | {"formats": tuple(chosen["formats"])}) == look


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("figure_width", "wide", "'wide' is no width; give own, single, double, or 1 to 40 inches"),
        ("figure_width", True, "True is no width; give"),
        ("figure_width", 0.1, "0.1 is no width; give"),
        ("figure_formats", ["pdf", "gif"], "formats are among pdf, png, svg, as a list"),
        ("figure_formats", "svg", "pdf and png are always made"),
        ("style_sheet", "nosuch.mplstyle", "there is no file 'nosuch.mplstyle'; give the path"),
    ],
)
def test_a_mistake_is_one_line(key, value, line):
    with pytest.raises(UserError) as caught:
        run_keys(**{key: value})
    assert str(caught.value).startswith(f"--config: {key}: {line}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"root:x:0:0:root:/root:/bin/bash\n", ", line 1: 'root' is no key of matplotlib; see"),
        (b"# mine\n\ngarbage\n", ", line 3: 'garbage' is no 'key: value'; mend it"),
        (b"lines.linewidth: abc\n", ', line 1: lines.linewidth: "Key lines.linewidth: Could not'),
        (b"font.size: 9\nnonsense.key: 3", ", line 2: 'nonsense.key' is no key of matplotlib"),
        (b"backend: agg\n", ", line 1: backend is no matter of style; take the line out"),
        (b"text.usetex: true\n", ", line 1: text.usetex: there is no latex and no dvipng here"),
        (b"\xff\xfe\n", " is not UTF-8 text; give the path of an .mplstyle file"),
    ],
)
def test_a_mistake_in_the_style_sheet_is_one_line(tmp_path, monkeypatch, content, complaint):
    monkeypatch.setenv("PATH", str(tmp_path))  # a machine without LaTeX
    sheet = tmp_path / "mine.mplstyle"
    sheet.write_bytes(content)
    with pytest.raises(UserError) as caught:
        run_keys(style_sheet=str(sheet))
    assert str(caught.value).startswith(f"--config: style_sheet: {sheet}{complaint}")
    assert "\n" not in str(caught.value)


def test_what_matplotlib_takes_is_taken(tmp_path):
    """Comments, quotes, colours with #, cyclers, and every sheet that comes with matplotlib."""
    sheet = tmp_path / "mine.mplstyle"
    sheet.write_text(
        'axes.facecolor: "#eeeeee" # light\ngrid.color: eeeeee\n'
        "axes.prop_cycle: cycler('color', ['k', 'r'])\ntext.usetex: False\n"
    )
    theirs = sorted(Path(matplotlib.get_data_path(), "stylelib").glob("*.mplstyle"))
    assert len(theirs) > 10
    assert {style_sheet.problem(str(path)) for path in [sheet, *theirs]} == {None}


def test_an_edit_of_the_style_sheet_is_seen(tmp_path):
    sheet = tmp_path / "mine.mplstyle"
    digests = []
    for text in ("lines.linewidth: 5\n", "lines.linewidth: 6\n"):
        sheet.write_text(text)
        digests.append(run_keys(style_sheet=str(sheet)).style_sheet_digest())
    assert len({*digests, run_keys().style_sheet_digest()}) == 3
