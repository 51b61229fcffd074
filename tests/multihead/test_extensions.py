"""Activations and priors of one's own: derivatives without writing any, and how they are found."""

import json
import sys

import numpy as np
import pytest

import hdattn.multihead.extensions as package
from hdattn import extensions
from hdattn.configuration import scan_from
from hdattn.errors import UserError
from hdattn.multihead.activation_base import Activation
from hdattn.multihead.activations import ACTIVATIONS, get_activation, register
from hdattn.multihead.flow import FlowProblem, solve_flow
from hdattn.multihead.population import PopulationLoss
from hdattn.multihead.priors import PRIORS, FlippingPrior, make_prior
from hdattn.multihead.pruning import prune
from hdattn.multihead.quadrature import population_loss
from hdattn.multihead.sgd import run_sgd
from hdattn.multihead.trained_heads import Heads

P1 = FlippingPrior([0.8, 0.0], [0.0, 2.0])
# Sparse attention, which has neither a quadrature nor derivatives here.
SPARSE = """
import numpy as np

from hdattn.multihead.activation_base import Activation
from hdattn.multihead.activations import register


@register
class Sparse(Activation):
    name = "sparse"

    def attention(self, chi, b=0.0, c=1.0):
        ordered = -np.sort(-chi, axis=1)
        count = np.arange(1, chi.shape[1] + 1).reshape(-1, *(1,) * (chi.ndim - 2))
        excess = ordered.cumsum(axis=1) - 1
        size = (ordered * count > excess).sum(axis=1, keepdims=True)
        level = np.take_along_axis(excess, size - 1, axis=1) / size
        return np.maximum(chi - level, 0).mean(axis=0)
"""
TWO_SIZES = """
import numpy as np

from hdattn.multihead.prior_base import Images, Prior
from hdattn.multihead.priors import register


@register
class Two(Prior):
    kind = "two"
    keys = ("std",)

    def __init__(self, std):
        self.std = np.array(std, dtype=float)

    @property
    def dim_features(self):
        return self.std.size

    def images(self):
        centers = np.stack([self.std, 0.5 * self.std])
        return Images(np.array([0.5, 0.5]), centers, np.ones_like(centers), 0 * self.std)

    def sample(self, rng, size):
        return self.std * rng.choice([1.0, 0.5], (size, 1))

    def to_dict(self):
        return {"kind": self.kind, "std": self.std.tolist()}
"""


@pytest.fixture
def added(tmp_path, monkeypatch):
    """Add an extension for the length of a test."""
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    before = dict(ACTIVATIONS), dict(PRIORS)

    def add(name, text):
        (tmp_path / f"{name}.py").write_text(text)

    yield add
    for registry, content in zip((ACTIVATIONS, PRIORS), before, strict=True):
        registry.clear()
        registry.update(content)
    for path in tmp_path.glob("*.py"):
        sys.modules.pop(f"{package.__name__}.{path.stem}", None)


def numeric(name):
    """The activation ``name`` as one that only knows its forward map."""
    known = get_activation(name)

    class Numeric(Activation):
        has_b, has_c = known.has_b, known.has_c

        def attention(self, chi, b=0.0, c=1.0):
            return known.attention(chi, b, c)

    return Numeric()


# Central differences at a step h = 2^-17: h^2/6 times a third derivative and rounding / h are both
# near 1e-11.
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-9), (np.float32, 1e-5)])
@pytest.mark.parametrize("name", ["softmax", "softmax1", "bayes"])
def test_derivatives_that_nobody_wrote(name, dtype, tolerance):
    rng = np.random.default_rng(3)
    chi = 2 * rng.standard_normal((3, 4, 2, 5)).astype(dtype)
    b, c = rng.standard_normal((3, 2, 1)).astype(dtype), np.full((2, 1), 1.3, dtype)
    e = rng.standard_normal((4, 2, 5)).astype(dtype)
    before = chi.copy()
    found = numeric(name).backward(chi, b, c, e)
    for ours, written in zip(found, get_activation(name).backward(chi, b, c, e), strict=True):
        if written is None:
            assert ours is None
        else:
            assert ours.dtype == dtype and ours.shape == written.shape
            np.testing.assert_allclose(ours, written, atol=tolerance)
    np.testing.assert_array_equal(chi, before)


def test_gradient_of_the_loss_without_derivatives():
    weights, b = np.array([[0.7, 1.5], [0.6, -1.2]]), np.array([0.3, -0.2])
    ours, written = (
        PopulationLoss(rule, 4, P1, base_points=64).evaluate(weights, b, 1.2, covariance=True)
        for rule in (numeric("softmax1"), get_activation("softmax1"))
    )
    assert ours.loss == written.loss
    for name in ("grad_weights", "grad_b", "grad_c", "score_covariance"):
        np.testing.assert_allclose(getattr(ours, name), getattr(written, name), atol=1e-9)


def test_an_activation_is_found_by_its_name_and_does_everything(added):
    added("sparse", SPARSE)
    assert get_activation("sparse").name == "sparse"
    loss = population_loss("sparse", 5, P1, [[0.8, 2.0], [0.8, -2.0]])
    # Between the Bayes risk, .3721, and the loss of attending to nothing. Kinks leave no more than
    # the accuracy of plain means, 1e-3.
    assert loss.method == "sobol" and 0 < loss.error < 3e-3 and 0.3721 < loss.value < 1
    problem = FlowProblem("sparse", 5, P1, [[0.1, 0.1], [0.1, -0.1]])
    flow = solve_flow(problem, [0.0, 3.0], base_points=64, rtol=1e-3)  # kinks need small steps
    assert flow.converged and flow.loss[1] < flow.loss[0]
    data = {"dim": 50, "tokens": 5, "prior": P1.to_dict()}
    run = run_sgd(data, activation="sparse", heads=2, gamma=0.5, taus=[0, 3])
    assert run.converged.all() and run.m[0, 1, :, 0].mean() > run.m[0, 0, :, 0].mean()
    heads = Heads("sparse", 5, P1, np.array([[0.8, 2.0], [0.8, -2.0]]), np.zeros(2))
    curve = prune(heads, "renormalised", scan_points=64)
    assert curve.increase[0] == 0 and curve.increase[1] > 0.01


def test_the_command_line_knows_it_and_says_how_the_loss_was_found(added, command):
    added("sparse", SPARSE)
    line = "multihead loss --activation sparse --mean 0.8,0 --std 0,2 --m [[0.8,2],[0.8,-2]]"
    status, out, err = command(f"{line} --json")
    assert status == 0 and json.loads(out)["error"] > 0
    assert err.count("\n") == 1 and "Sobol points" in err


def test_a_prior_is_found_by_its_kind(added):
    added("two", TWO_SIZES)
    prior = make_prior({"kind": "two", "std": [2.0]})
    quadrature = population_loss("softmax", 4, prior, [[1.5]])
    points = PopulationLoss(get_activation("softmax"), 4, prior, base_points=4096)
    loss = points.loss(np.array([[1.5]]))
    assert loss == pytest.approx(quadrature.value, abs=5e-4)  # the accuracy of 4096 base points
    with pytest.raises(UserError, match="kind 'two' lacks std"):
        make_prior({"kind": "two"})


def test_keys_of_its_own_are_taken_on_the_command_line(added, command):
    added("two", TWO_SIZES.replace("std", "sizes"))
    line = "multihead loss --activation softmax --tokens 4 --prior two --m [[1.5]] --json"
    status, out, err = command(f"{line} --key sizes=[2]")
    assert (status, err) == (0, "")
    prior = make_prior({"kind": "two", "sizes": [2.0]})
    expected = population_loss("softmax", 4, prior, [[1.5]]).value
    assert json.loads(out)["loss"] == pytest.approx(expected, rel=1e-12)
    for options, complaint in (
        ("", "--key sizes=...: missing; --prior two needs it"),
        ("--key sizes=[2] --key df=3", "--key df: --prior two has none; leave it out"),
        ("--key sizes", "--key: 'sizes' is no key with a value; write it as df=3 or sizes=[1,2]"),
    ):
        status, out, err = command(f"{line} {options}")
        assert (status, out, err) == (2, "", f"hdattn: error: {complaint}\n")


def test_a_broken_extension_is_named_and_disturbs_no_other(added):
    added("broken", "import nothing_of_this_name")
    assert get_activation("softmax").name == "softmax"
    with pytest.raises(UserError) as caught:
        get_activation("broken")
    assert "multihead/extensions/broken.py: cannot be imported" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["os", "../softmax", "extensions.sparse", "", "__init__"])
def test_only_modules_in_the_folder_are_ever_imported(name):
    assert extensions.find("multihead", ACTIVATIONS, name) is None


def test_a_name_is_taken_once():
    with pytest.raises(UserError, match="'softmax' is registered twice"):

        @register
        class Again(Activation):
            name = "softmax"

            def attention(self, chi, b=0.0, c=1.0):
                return chi.mean(axis=0)


def changed(*pairs, source=None):
    """Source of an activation with a hand-written derivative, changed."""
    text = source or WRITTEN
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


WRITTEN = """
import numpy as np

from hdattn.multihead.activation_base import Activation, per_head
from hdattn.multihead.activations import register


@register
class Gates(Activation):
    name = "gates"
    has_b = True
    has_c = True

    def attention(self, chi, b=0.0, c=1.0):
        return c * self.gates(chi, b).mean(axis=0)

    def gates(self, chi, b):
        return 1 / (1 + np.exp(-chi - per_head(b, chi)))

    def forward(self, chi, b=0.0, c=1.0):
        gates = self.gates(chi, b)
        return c * gates.mean(axis=0), gates

    def pullback(self, gates, attention, c, e):
        d = gates * (1 - gates) * (e * (c / len(gates)))
        return d, d.sum(axis=1), (e * gates.mean(axis=0)).sum(axis=0)
"""
BODY = "return c * self.gates(chi, b).mean(axis=0)"
TRIPLE = "return d, d.sum(axis=1), (e * gates.mean(axis=0)).sum(axis=0)"


def test_a_sound_derivative_passes(added):
    added("gates", WRITTEN)
    assert get_activation("gates") is get_activation("gates")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            (BODY, "return c * self.gates(chi, b)"),
            "attention has shape (3, 4, 2, 5), not",
        ),
        ((BODY, "return 1.0"), "attention is no array but a float"),
        ((BODY, "return chi.mean(axis=0) * np.nan"), "attention is not finite"),
        ((BODY, "return chi.mean(axis=0) / 0"), "attention is not finite"),
        ((BODY, "raise KeyError('a')"), "attention fails (KeyError: 'a')"),
        (
            ("chi, b=0.0, c=1.0):\n        return c", "chi):\n        return 1"),
            "attention fails",
        ),
        ((BODY, f"chi += 1; {BODY}"), "attention changes the scores"),
        ((BODY, f"{BODY} + chi.mean()"), "attention of a sample depends on the others"),
        ((BODY, BODY.replace("c * ", "c**2 * ")), "attention is not linear in c"),
        (("per_head(b, chi)", "np.reshape(b, (3, 1, 1, 1))"), "attention fails (ValueError"),
        (("mean(axis=0), gates\n", "mean(axis=0)\n"), "forward returns no pair"),
        (("return c * gates", "return 2 * gates"), "the attention of forward is off by"),
        (("d = gates", "d = -gates"), "dl/dchi of pullback is off by"),
        ((TRIPLE, "return d"), "pullback returns no triple"),
        ((TRIPLE, TRIPLE.replace("d.sum(axis=1)", "d")), "dl/db of pullback has shape"),
        ((TRIPLE, TRIPLE.replace("d.sum(axis=1)", "None")), "dl/db of pullback is no array"),
        ((TRIPLE, TRIPLE.replace("(e * gates", "2 * (e * gates")), "dl/dc of pullback is off by"),
        (("has_c = True", "has_c = False"), "pullback returns dl/dc of a parameter that there is"),
        (("d = gates", "d = self.nothing * gates"), "pullback fails (AttributeError"),
    ],
)
def test_what_is_wrong_with_an_activation_is_one_line(added, command, change, problem):
    added("gates", changed(change))
    line = "multihead flow --activation gates --mean 0.8,0 --std 0,2 --tau 1"
    for _ in range(2):  # it is no sounder when asked for again
        status, out, err = command(line)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert "hdattn/multihead/extensions/gates.py: " in err and problem in err, err


def test_an_extension_that_leaves_ends_nothing(added, command):
    added("leaves", "import sys\n\nsys.exit(3)")
    line = "multihead loss --mean 0.8,0 --std 0,2 --m [[1,1]] --activation"
    status, _, err = command(f"{line} leaves")
    assert status == 2 and "leaves.py: cannot be imported (SystemExit: 3)" in err
    status, _, err = command(f"{line} softmaxx")
    assert status == 2 and "'softmaxx' is unknown; choose one of bayes, softmax" in err


def test_a_loss_that_is_not_finite_is_not_solved(added, command):
    added("gates", changed((BODY, f"{BODY} + np.where(abs(chi).max() > 20, np.nan, 0.0)")))
    line = "multihead loss --activation gates --mean 0.8,0 --std 0,2 --m"
    assert command(f"{line} [[1,1]]")[0] == 0
    status, out, err = command(f"{line} [[90,90]] --json")
    assert (status, json.loads(out)["loss"]) == (1, None)
    assert "not converged: the loss is not finite" in err


def test_a_scan_knows_it_too(added):
    added("gates", WRITTEN)
    scan = scan_from("multihead", {"heads": 2, "activation": "gates,softmax"}, "here")
    found = scan.experiments(0)["optimum"]
    assert [e.parameters["activation"] for e in found] == ["gates", "softmax"]
    with pytest.raises(UserError, match="activation 'softmaxx' is unknown; choose one of bayes"):
        scan_from("multihead", {"heads": 2, "activation": "softmaxx"}, "here")
