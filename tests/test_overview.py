"""The overview shows the numbers that the figures drew, and is made where they all are."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from hdattn import configuration, overview
from hdattn import figures as figure_modules
from hdattn.configuration_files import FILES, read_files
from hdattn.errors import UserError
from hdattn.overview import draw
from hdattn.overview.numbers import Numbers

ROOT = Path(__file__).parents[1]

# Of each figure's CSV file the columns that a panel reads, and one more row that it must not.
TABLES = {
    "staging": """activation,quantity,source,head,spike,tau,value,standard_error
bayes,m,flow,0,0,0,0.1,
bayes,m,flow,0,0,9,0.8,
bayes,m,sgd,0,0,9,0.7,
softmax,m,sgd,0,0,9,7,""",
    "escape_time": """activation,quantity,source,dim,value,standard_error
softmax,escape,"flow, gamma to 0",100,5,
softmax,escape,"flow, gamma to 0",10000,9,
softmax,escape,sgd,100,5.1,0.2
softmax,arrival,sgd,100,7,0.2""",
    "stability": """panel,activation,heads,variance,source,value,standard_error
variance,bayes,2,1,closed form,0.1,
variance,bayes,2,4,closed form,0.4,
variance,bayes,2,4,Hessian by autograd,0.41,0.01
variance,softmax,2,4,closed form,7,""",
    "heads": """panel,quantity,activation,heads,value,bayes_risk,flagged
flipping,best loss,bayes,1,0.7,0.4,false
flipping,best loss,bayes,2,0.4,0.4,true
discrete,best loss,bayes,2,7,0.4,false""",
    "signal": """panel,quantity,activation,strength,value,bayes_risk,flagged
flipping,best loss,softmax,0.5,0.7,0.6,false
flipping,best loss,softmax,2,0.5,0.1,false
gaussian,best loss,softmax,2,7,0.1,false""",
    "pruning": """panel,quantity,activation,protocol,instance,value,removed
first,loss,softmax,renormalised,0,7,0
last,loss,softmax,renormalised,0,0.6,0
last,loss,softmax1,renormalised,0,0.5,0
last,loss,bayes,joint,0,0.4,0
last,bayes risk,,,,0.3,""",
    "learning_curves": """quantity,series,alpha,value,flagged,kappa,standard_error
test_error,theory,0.1,0.3,false,1.0,
test_error,theory,4,0.1,false,1.0,
test_error,lbfgs,4,0.11,false,1.0,0.01
train_loss,theory,4,7,false,1.0,
test_error_floor,,,0.07,,,""",
    "spectra": """alpha,series,s,value,bin_end,standard_error
4.0,histogram,0,1,2,
4.0,theory,1,0.5,,
4.0,theory,2,0.1,,
4.0,target,1,0.4,,
4.0,theory atom,0,0.28,,
40.0,theory,1,7,,""",
    "factorised": """quantity,series,alpha,value,flagged,head,standard_error
test_error,theory,0.1,0.02,false,tied,
test_error,theory,1,0.01,false,tied,
best_lam,theory,1,7,false,tied,""",
    "interpolation": """quantity,series,alpha,value,flagged,lam,standard_error
test_error,theory,0.1,0.3,false,0.0001,
test_error,lbfgs,0.1,0.31,false,0.0001,0.01
test_error,theory,0.1,0.35,false,0.0,
train_loss,theory,0.1,7,false,0.0,""",
    "scaling": """series,gamma,regime,channel,n,excess,flagged,exponent
theory,1.0,optimal,softmax,30,0.2,false,
theory,1.0,optimal,softmax,300,0.1,false,
fit,1.0,optimal,softmax,,,,0.5
theory,1.0,fixed,softmax,300,7,false,""",
    "emergence": """series,n,recovered
theory,30,1
theory,300,4
few modes,30,7""",
}


@pytest.fixture
def folder(tmp_path):
    """The figures' numbers, as a scale's folder holds them."""
    for model, names in overview.PANELS.items():
        (tmp_path / model).mkdir()
        for name in names:
            (tmp_path / model / f"{name}.csv").write_text(TABLES[name] + "\n")
    return tmp_path


def test_it_shows_what_the_figures_drew_and_nothing_else(folder):
    rows = draw.make_overview(folder, folder / "overview")
    with (folder / "overview.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    assert len(written) == len(rows)
    for name, table in TABLES.items():
        cells = {float(c) for line in table.splitlines()[1:] for c in line.split(",") if _number(c)}
        shown = {float(row["value"]) for row in written if row["figure"] == name}
        assert shown, name
        assert shown <= cells - {7.0}, name  # 7 is in the rows of other panels
    (sgd,) = (r for r in written if r["series"] == "softmax SGD")
    assert (sgd["x"], sgd["value"], sgd["standard_error"]) == ("100.0", "5.1", "0.2")
    assert b"/FontFile2" in (folder / "overview.pdf").read_bytes()
    with (folder / "overview.drawn.csv").open(newline="") as file:
        panels = {row["panel"].partition(" ")[0] for row in csv.DictReader(file)}
    assert panels == {f"({letter})" for letter in "abcdefghijkl"}


def _number(cell):
    try:
        float(cell)
    except ValueError:
        return False
    return True


def test_hollow_points_stay_hollow():
    numbers = Numbers([{"flagged": "true", "x": ""}, {"flagged": "false", "x": "2"}])
    assert numbers.flags().tolist() == [True, False]
    assert numbers.column("x")[1] == 2 and numbers.column("x")[0] != numbers.column("x")[0]


def test_a_figure_that_is_not_made_is_named(folder):
    (folder / "multihead/heads.csv").unlink()
    with pytest.raises(UserError, match=r"heads\.csv: not there; the overview shows it"):
        draw.make_overview(folder, folder / "overview")


def test_its_figures_exist():
    for model, names in overview.PANELS.items():
        assert all(model == figure_modules.module(name).MODEL for name in names)


def chosen(names):
    merged, sources = read_files(ROOT / file for file in FILES)
    return configuration.load({**merged, "scale": "smoke", "figures": names}, sources).run.figures


def test_asking_for_it_asks_for_its_figures():
    assert set(chosen("overview")) == set(overview.FIGURES)
    assert set(chosen(["rank", "overview"])) == {"rank", *overview.FIGURES}
    assert overview.is_among(chosen("all")) and not overview.is_among(chosen("rank"))


@pytest.mark.parametrize("name", ["overview", "costs"])
def test_where_it_comes_from_is_said(name):
    assert f"figures: '{name}' has no section of its own; it is drawn" in figure_modules.unknown(
        name, figure_modules.names()
    )


@pytest.mark.parametrize(("names", "planned"), [("overview", True), ("staging", False)])
def test_the_workflow_makes_it_where_its_figures_are_chosen(tmp_path, names, planned):
    command = [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile"), "-n"]
    command += ["--config", "scale=smoke", f"figures={names}"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert ("rule overview:" in run.stdout) is planned
