"""Configuration: layers of a scale, and one clear line for each mistake."""

import json
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest
import yaml

from hdattn import configuration, configuration_docs
from hdattn import figures as figure_modules
from hdattn.configuration_problems import Sources
from hdattn.errors import UserError
from hdattn.fields import (
    Count,
    NonNegative,
    Positive,
    PositiveGrid,
    PositiveList,
    Strict,
    physics,
    size,
)

ROOT = Path(__file__).parents[1]


class Section(Strict):
    noise: NonNegative = physics(0.5, "Label noise.")
    kappa0: Positive = physics(0.5, "Width of the target.")
    dim: Count = size(60, "Dimension d.")
    alphas: PositiveGrid = size((0.5, 1, 2), "Grid of alpha.")
    panels: PositiveList = size((1.0,), "Panels.")


@pytest.fixture
def toy(monkeypatch):
    """One figure, `toy`, in place of the real ones."""
    module = SimpleNamespace(MODEL="singlehead", TITLE="Toy", Section=Section)
    monkeypatch.setattr(figure_modules, "names", lambda: ("toy",))
    monkeypatch.setattr(figure_modules, "module", lambda name: module)


def load(toy_section=None, files=(), **run):
    merged = {"toy": toy_section or {}, **run}
    return configuration.load(merged, Sources(files))


def lines(toy_section=None, files=(), **run):
    with pytest.raises(UserError) as caught:
        load(toy_section, files, **run)
    return str(caught.value).splitlines()


def test_defaults_and_numeric_strings(toy):
    section = load({"noise": "1e-3", "dim": "40", "alphas": ["1e-1", 2]}).sections["toy"]
    assert (section.noise, section.dim, section.alphas) == (1e-3, 40, (0.1, 2.0))


def test_scale_overrides_section_and_users_scale_starts_from_default(toy):
    raw = {"dim": 50, "scales": {"default": {"dim": 60, "panels": [2]}, "mine": {"noise": 1}}}
    assert load(raw).sections["toy"].dim == 60
    assert load(raw, scale="smoke").sections["toy"].dim == 50
    mine = load(raw, scale="mine").sections["toy"]
    assert (mine.noise, mine.dim, mine.panels) == (1.0, 60, (2.0,))
    raw["scales"] |= {"smoke": {"dim": 5}, "mine": {"like": "smoke", "noise": 1}}
    quick = load(raw, scale="mine").sections["toy"]
    assert (quick.noise, quick.dim) == (1.0, 5)


def test_grid_from_ends_and_number(toy):
    grid = {"start": 0.1, "stop": 10, "points": 3}
    assert load({"alphas": grid}).sections["toy"].alphas == (0.1, 1.0, 10.0)
    linear = {**grid, "stop": 0.3, "spacing": "linear"}
    assert load({"alphas": linear}).sections["toy"].alphas == pytest.approx((0.1, 0.2, 0.3))


@pytest.mark.parametrize("figures", ["all", ["toy"], "toy", "toy, toy", "toy toy"])
def test_ways_to_name_figures(toy, figures):
    assert load(figures=figures).run.figures == ("toy",)


@pytest.mark.parametrize("figures", [None, "", " , ", []])
def test_no_figure_is_not_every_figure(toy, figures):
    (line,) = lines(figures=figures)
    assert "figures: figures is empty: name at least one figure, or 'all'" in line


@pytest.mark.parametrize(
    ("section", "key", "remedy"),
    [
        ({"nois": 1}, "toy.nois", "did you mean 'noise'?"),
        ({"noise": -1}, "toy.noise", "give a number of at least 0"),
        ({"kappa0": 0}, "toy.kappa0", "give a number above 0"),
        ({"kappa0": "wide"}, "toy.kappa0", "'wide' is not a number"),
        ({"kappa0": True}, "toy.kappa0", "a number is needed"),
        ({"kappa0": ".nan"}, "toy.kappa0", "is not a number"),
        ({"kappa0": "nan"}, "toy.kappa0", "give a finite number"),
        ({"kappa0": [1]}, "toy.kappa0", "give a number"),
        ({"dim": 1.5}, "toy.dim", "give a whole number"),
        ({"dim": 0}, "toy.dim", "at least 1"),
        ({"alphas": [1]}, "toy.alphas", "give at least 2"),
        ({"alphas": [2, 1]}, "toy.alphas", "must increase"),
        ({"alphas": [1, 1]}, "toy.alphas", "must increase"),
        ({"alphas": [-1, 1]}, "toy.alphas[0]", "give a number above 0"),
        ({"alphas": 3}, "toy.alphas", "give a list"),
        ({"alphas": {"start": 1, "stop": 2}}, "toy.alphas", "a grid is a list, or"),
        ({"alphas": {"start": 0, "stop": 2, "points": 3}}, "toy.alphas", "starts above 0"),
        ({"alphas": {"start": 1, "stop": 2, "points": 1}}, "toy.alphas", "at least 2 points"),
        ({"alphas": {"start": 1, "stop": 2, "points": 3, "spacing": "x"}}, "toy.alphas", "linear"),
        ({"scales": {"smoke": {"noise": 1}}}, "toy.scales.smoke.noise", "never physics"),
        ({"scales": {"paper": {"dim": -4}}}, "toy.scales.paper.dim", "at least 1"),
        ({"scales": {"mine": {"dimm": 4}}}, "toy.scales.mine.dimm", "did you mean 'dim'?"),
        ({"scales": {"mine": {"like": "big"}}}, "toy.scales.mine.like", "choose from smoke"),
        ({"scales": {"smoke": {"like": "paper"}}}, "toy.scales.smoke.like", "unknown"),
        ({"scales": [1]}, "toy.scales", "give a mapping"),
        ({"scales": {"smoke": None}}, "toy.scales.smoke", "give a mapping"),
        ({"scales": {"../up": {"dim": 4}}}, "toy.scales.../up", "a letter first; rename"),
        ({"dim": 1e6}, "toy.dim", "1e+06 is above 20000; lower it"),
        ({"scales": {"mine": {"dim": 1e6}}}, "toy.scales.mine.dim", "is above 20000"),
        ({"alphas": {"start": None, "stop": 2, "points": 3}}, "toy.alphas", "finite numbers"),
        ({"alphas": {"start": 1, "stop": ".inf", "points": 3}}, "toy.alphas", "not a number"),
        ({"alphas": {"start": 1, "stop": 2, "points": 1e11}}, "toy.alphas", "at most 10000"),
    ],
)
def test_one_line_names_the_key_and_ends_with_the_remedy(toy, section, key, remedy):
    (line,) = lines(section)
    assert line.startswith(f"--config: {key}: "), line
    assert remedy in line


def test_all_problems_at_once(toy):
    found = lines({"noise": -1, "dim": 0, "what": 1}, scale="huge", figures=["tiy"], seed=-1)
    assert len(found) == 6, found


def test_unknown_figure_scale_and_key_suggest(toy):
    assert "did you mean 'toy'" in lines(figures=["toi"])[0]
    assert "choose from smoke, default, paper" in lines(scale="huge")[0]
    assert "did you mean 'seed'" in lines(sede=1)[0]


def test_the_file_that_set_the_key_is_named(toy):
    files = [("config/a.yaml", {"toy": {"noise": -1}}), ("mine.yaml", {"toy": {"dim": -2}})]
    found = lines({"noise": -1, "dim": -2, "kappa0": -3}, files)
    assert [line.split(":")[0] for line in found] == ["config/a.yaml", "--config", "mine.yaml"]


def test_documentation_and_schema_are_in_step():
    assert (ROOT / "config/README.md").read_text() == configuration_docs.readme()
    assert json.loads((ROOT / "config/schema.json").read_text()) == configuration_docs.schema()


def test_shipped_configuration_follows_schema_and_models():
    merged = {}
    for name in ("config", "multihead", "singlehead"):
        merged.update(yaml.safe_load((ROOT / f"config/{name}.yaml").read_text()))
    jsonschema.validate(merged, configuration_docs.schema())
    for scale in configuration.BUILT_IN_SCALES:
        loaded = configuration.load({**merged, "scale": scale})
        assert set(loaded.sections) == set(figure_modules.names())
