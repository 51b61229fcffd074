"""Extreme values: a line that says what to give instead, never an exception or a late failure."""

import pytest

from hdattn import configuration, ranges, solvable
from hdattn import figures as figure_modules
from hdattn.catalogue import Catalogue
from hdattn.configuration_files import FILES, read_files
from hdattn.errors import UserError
from hdattn.singlehead import problem
from hdattn.singlehead.targets import MarchenkoPastur

EXTREMES = [
    *(1e300, 1e-300, 1e15, 1e-15, -1, 10**400, 10**9, 10**6, "1" * 400, "x", None),
    *([], {}, [1, 2], [1e-15, 1e15], [1, 2, 10**400], [[[1]]], {"x": [1]}),
    *({"softmax": 1e15}, {"start": 1e-15, "stop": 1e15, "points": 20}),
]


@pytest.fixture(scope="module")
def merged():
    return read_files(FILES)[0]


def planned(section, name):
    """Catalogue of figure ``name`` alone."""
    return Catalogue(configuration.load({"figures": [name], "scale": "smoke", name: section}))


# Every key of every section: a mistake is told of before the first job, in lines that can be read.
@pytest.mark.parametrize("name", figure_modules.names())
def test_extreme_values_of_every_key(name, merged, monkeypatch):
    monkeypatch.setattr(figure_modules, "names", lambda: (name,))
    scales = merged[name]["scales"]
    base = {k: v for k, v in merged[name].items() if k != "scales"} | scales.get("smoke", {})
    refused = 0
    for key in figure_modules.module(name).Section.model_fields:
        for value in EXTREMES:
            try:
                planned({**base, key: value}, name)
            except UserError as error:
                refused += 1
                lines = str(error).splitlines()
                assert len(lines) < 13 and all(len(line) < 700 for line in lines), (key, value)
    assert refused > 50  # a section has several keys, and each takes few of these values


def message(section, name="rank"):
    with pytest.raises(UserError) as caught:
        planned(section, name)
    (line,) = str(caught.value).splitlines()
    return line


@pytest.mark.parametrize(
    ("section", "line"),
    [
        ({"lams": [1e300]}, "rank.lams[0]: 1e+300 will not do; give a number of at most 1e+15"),
        ({"noise": -1e300}, "rank.noise: -1e+300 will not do; give a number of at least -1e+15"),
        ({"noise": 1e-300}, "rank.noise: 1e-300 will not do; give 0, or a number of at least"),
        ({"dim": 10**400}, "rank.dim: a number of 401 digits will not do; give a whole number"),
        ({"beta": "1" * 400}, "1111... will not do; give a finite number"),
        ({"lams": [1e9]}, "rank.lams: lam = 1e+09: give 0, or 1e-10 to 1e+06; below, take 0"),
        ({"noise": 1e9}, "rank.noise: noise = 1e+09: give 0 to 1e+06"),
        ({"beta": 1e9}, "rank.beta: beta = 1e+09: give 0.001 to 1000"),
        ({"kappa0": 1e9}, "rank.kappa0: kappa0 = 1e+09: a width p0/d is 0.0001 to 1000"),
        ({"kappa0": 900, "beta0": 90}, "rank.beta0: beta0 = 90: beta0 sqrt(Q0) is 2.7e+03"),
        ({"alphas": [1, 1e7]}, "rank: a job needs "),
    ],
)
def test_a_line_names_the_key(section, line):
    assert line in message(section)


def test_a_job_too_large_names_its_sizes():
    line = message({"alphas": [1, 1e7]})
    assert ", dim, alphas), or raise" in line and line.endswith("or raise the limit")


def test_amplitudes_beside_which_noise_is_nothing():
    line = message({"std": [0, 1e9, 1]}, "staging")
    assert line == "staging.std: std = 1e+09: give at most 1000 in size"


def test_dimensions_of_random_starts():
    assert "escape_time.random_dims: 1 will not do; give dimensions of at least 10" in message(
        {"random_dims": [1, 2]}, "escape_time"
    )


def test_limits_inside_a_section_of_a_section():
    assert "deactivation.many.heads: 2000 is above 1000; lower it" in message(
        {"many": {"heads": 2000}}, "deactivation"
    )


def test_the_ranges_are_those_of_a_problem():
    limits = {name: limits[:2] for name, limits in problem._LIMITS.items()}
    assert limits | {"kappa0": solvable.RANGES["kappa0"]} == solvable.RANGES
    assert solvable.SHARPEST == problem._SHARPEST
    low, high = solvable.RANGES["kappa0"]
    assert MarchenkoPastur(low) and MarchenkoPastur(high)
    for kappa0 in (0.99 * low, 1.01 * high):
        with pytest.raises(UserError):
            MarchenkoPastur(kappa0)


def test_what_is_shown_of_a_value():
    assert ranges.shown(1 / 3) == "0.333333333333"
    assert ranges.shown(10**30) == "a number of 31 digits"
    assert len(ranges.shown("x" * 500)) == 63


@pytest.mark.parametrize(
    ("scans", "line"),
    [
        (0, "scans: give a mapping of names to scans"),
        ({"a": {"model": [1], "alpha": 1}}, "scans.a.model: [1] will not do; choose from"),
        ({"a": {"model": "singlehead", "alpha": 1, "tokens": 1e300}}, "scans.a.tokens[0]: 1e+300"),
        ({"a": {"model": "singlehead", "alpha": 1, "lam": 1e9}}, "scans.a.lam: lam = 1e+09: give"),
        ({"a": {"model": "singlehead", "alpha": 1, "nodes": 1000}}, "scans.a.nodes: 1000 is above"),
        ({"a": {"model": "multihead", "heads": 2, "strength": 1e9}}, "scans.a: std = 2e+09"),
    ],
)
def test_scans_of_the_configuration(scans, line):
    with pytest.raises(UserError) as caught:
        Catalogue(configuration.load({"figures": "rank", "scans": scans}))
    assert line in str(caught.value) and len(str(caught.value).splitlines()) == 1
