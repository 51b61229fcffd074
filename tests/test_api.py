"""The library as a researcher imports it."""

import doctest
import importlib
import subprocess
import sys

import pytest

import hdattn


def test_example_of_the_docstring_runs():
    outcome = doctest.testmod(hdattn)
    assert outcome.attempted >= 9
    assert outcome.failed == 0


def test_importing_is_light():
    code = "import sys, hdattn, hdattn.singlehead, hdattn.multihead; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "scipy", "torch", "matplotlib"} & set(done.stdout.split())


@pytest.mark.parametrize("package", ["hdattn", "hdattn.singlehead", "hdattn.multihead"])
def test_everything_offered_exists(package):
    module = importlib.import_module(package)
    assert list(module.__all__) == sorted(module.__all__)
    assert dir(module) == module.__all__
    for name in module.__all__:
        assert getattr(module, name).__doc__


@pytest.mark.parametrize(
    ("package", "names"),
    [
        ("hdattn.singlehead", "Problem solve solve_curve alpha_interpolation train Spectrum"),
        ("hdattn.multihead", "FlowProblem solve_flow run_sgd bayes_risk population_loss"),
    ],
)
def test_the_solvers_are_offered_by_name(package, names):
    assert set(names.split()) <= set(importlib.import_module(package).__all__)


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match=r"hdattn\.singlehead.*nonsense"):
        _ = hdattn.singlehead.nonsense


def test_mistakes_are_user_errors():
    with pytest.raises(hdattn.UserError, match="alpha = -1"):
        hdattn.singlehead.Problem(alpha=-1, lam=0.1)
