"""Digests of code: they follow what can change a result, and nothing else."""

import textwrap
from pathlib import Path

import pytest

import hdattn
from hdattn.errors import UserError
from hdattn.physics_code import INFRASTRUCTURE, SourceTree, is_kind, physics_digest
from hdattn.steps import KINDS

FILES = {
    "__init__": "def __getattr__(name):\n    from pkg import unused\n",
    "unused": "x = 1",
    "store": "from pkg import unused",
    "seeds": "from pkg.canonical import digest\n",
    "canonical": "def digest(value): return hash(value)\n",
    "steps.__init__": "import pkg.unused",
    "steps.single.erm": """
        '''Train.'''
        import numpy as np
        from pkg import store
        from pkg.single import channel
        from pkg.single.erm import train

        def run(parameters):
            '''Run.'''
            return train(parameters, scale=1e-3)
        """,
    "single.__init__": "from pkg.single.amp import everything",
    "single.amp": "everything = 1",
    "single.channel": "from .prox import prox as global_prox\nfrom ..seeds import digest\n",
    "single.prox": "def prox(x):\n    # shrink\n    return max(x - 1, 0)\n",
    "single.erm": """
        from collections.abc import Mapping

        class Fit:
            '''A fit.'''
            lam = 0.5
            "Regularisation."

        def train(parameters, scale):
            import pkg.single.optimisers as optimisers
            if scale:
                from pkg.multi import teacher
            return optimisers.lbfgs(parameters)
        """,
    "single.optimisers": "def lbfgs(f): return f\n",
    "multi.__init__": "",
    "multi.teacher": "from __future__ import annotations\n",
}
STEP = "pkg.steps.single.erm"


@pytest.fixture
def tree(tmp_path):
    return make_tree(tmp_path / "pkg")


def make_tree(root, **changed):
    for name, text in (FILES | changed).items():
        path = root.joinpath(*name.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return SourceTree("pkg", root, frozenset({"pkg.store"}))


def test_closure(tree):
    assert tree.closure(STEP) == [
        "pkg.canonical",  # through seeds
        "pkg.multi.teacher",  # in a branch of a function
        "pkg.seeds",  # ..seeds
        "pkg.single.channel",  # from package import module
        "pkg.single.erm",
        "pkg.single.optimisers",  # import in a function
        "pkg.single.prox",  # .prox
        STEP,
    ]


@pytest.mark.parametrize("module", ["single.prox", "single.optimisers", "canonical"])
def test_changed_code_changes_the_digest(tmp_path, tree, module):
    changed = make_tree(tmp_path / "b" / "pkg", **{module: FILES[module] + "\nx = 2\n"})
    assert changed.digest(STEP) != tree.digest(STEP)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("max(x - 1, 0)", "max(x - 2, 0)"),
        ("max(x - 1, 0)", "max(x - 1.0, 0)"),
        ("max(x - 1, 0)", "max(x + 1, 0)"),
        ("max(x - 1, 0)", "min(x - 1, 0)"),
        ("max(x - 1, 0)", "max(x, 1 - 0)"),
        ("max(x - 1, 0)", "None"),
        ("prox(x)", "prox(x, /)"),
        ("prox(x)", "prox(x=0)"),
        ("prox(x)", "prox(*, x)"),
        ("def prox", "@abs\ndef prox"),
        ("return", "yield"),
        ("    return", "    x = 'a'\n    return"),
        ("    return", "    for x in x: break\n    return"),
    ],
)
def test_small_changes_of_code(tmp_path, tree, old, new):
    text = FILES["single.prox"].replace(old, new)
    assert text != FILES["single.prox"]
    changed = make_tree(tmp_path / "b" / "pkg", **{"single.prox": text})
    assert changed.digest(STEP) != tree.digest(STEP)


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("single.prox", "'''Prox.'''\ndef prox(x):\n  '''Of x.'''\n  return max( x-1,0 )  # done"),
        ("single.prox", "\n\n\ndef prox(\n    x\n):\n    return (max(x - 1, 0))\n"),
        ("steps.single.erm", FILES["steps.single.erm"].replace("1e-3", "0.001")),
        ("steps.single.erm", FILES["steps.single.erm"].replace("'''Run.'''", '"""Goes."""')),
        ("single.erm", FILES["single.erm"].replace('"Regularisation."', "")),
        # Not among the dependencies:
        ("unused", "x = 2"),
        ("store", "x = 2"),
        ("__init__", "x = 2"),
        ("single.__init__", "x = 2"),
        ("single.amp", "everything = 2"),
        ("steps.__init__", "x = 2"),
    ],
)
def test_what_leaves_the_digest_alone(tmp_path, tree, module, text):
    changed = make_tree(tmp_path / "b" / "pkg", **{module: text})
    assert changed.digest(STEP) == tree.digest(STEP)


def test_moving_code_between_modules_changes_the_digest(tmp_path, tree):
    swapped = make_tree(
        tmp_path / "b" / "pkg",
        **{"single.prox": FILES["single.optimisers"], "single.optimisers": FILES["single.prox"]},
    )
    assert swapped.digest(STEP) != tree.digest(STEP)


def closure_of(tmp_path, text, **changed):
    return make_tree(tmp_path / "c" / "pkg", **{"steps.single.erm": text}, **changed).closure(STEP)


@pytest.mark.parametrize(
    ("text", "added"),
    [
        # A name that is no module, or the package itself, brings the package's __init__.
        ("from pkg.single import everything", ["pkg.single", "pkg.single.amp"]),
        ("from pkg import single", ["pkg.single", "pkg.single.amp"]),
        ("import pkg.single", ["pkg.single", "pkg.single.amp"]),
        ("from pkg.single import *", ["pkg.single", "pkg.single.amp"]),
        ("from ...single import amp", ["pkg.single.amp"]),
        ("import pkg.single.amp, os.path", ["pkg.single.amp"]),
        ("from pkg.single.amp import everything as e", ["pkg.single.amp"]),
        ("import pkg", ["pkg", "pkg.unused"]),
        ("import pkgother, numpy as pkg", []),
        ("from pkg.store import read\nimport pkg.store.inner", []),
        ("class A:\n  def f(self):\n    async def g():\n      import pkg.unused", ["pkg.unused"]),
        ("try:\n  import pkg.unused\nexcept ImportError:\n  pass", ["pkg.unused"]),
    ],
)
def test_forms_of_import(tmp_path, text, added):
    assert closure_of(tmp_path, text) == sorted([*added, STEP])


def test_cycles_end(tmp_path):
    found = closure_of(tmp_path, "import pkg.unused", unused="import pkg.steps.single.erm")
    assert found == [STEP, "pkg.unused"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import importlib", "computed names"),
        ("from importlib import import_module", "computed names"),
        ("import pkg.absent", "no such module"),
        ("x = 1\ndef broken(:\n", "line 2"),
    ],
)
def test_code_whose_dependencies_are_unknown_is_an_error(tmp_path, text, expected):
    with pytest.raises(UserError, match=expected):
        closure_of(tmp_path, text)


def test_looking_up_versions_is_no_computed_import(tmp_path):
    assert closure_of(tmp_path, "import importlib.metadata") == [STEP]


REAL = SourceTree("hdattn", Path(hdattn.__file__).parent, INFRASTRUCTURE)


@pytest.mark.parametrize("kind", KINDS)
def test_real_steps(kind):
    model, step = kind.split("/")
    closure = REAL.closure(f"hdattn.steps.{model}.{step}")
    assert any(module.startswith(f"hdattn.{model}.") for module in closure)
    assert not any(module.startswith("hdattn.figures") for module in closure)
    assert physics_digest(kind) == REAL.digest(f"hdattn.steps.{model}.{step}")


@pytest.mark.parametrize("kind", ["singlehead/data", "singlehead/erm", "multihead/sgd"])
def test_simulations_depend_on_the_random_streams(kind):
    closure = REAL.closure(f"hdattn.steps.{kind.replace('/', '.')}")
    assert {"hdattn.seeds", "hdattn.canonical"} <= set(closure)


@pytest.mark.parametrize("package", ["hdattn", "hdattn.singlehead", "hdattn.multihead"])
def test_a_step_that_leans_on_a_lazy_package_would_be_refused(package):
    # These load their names on demand, so what a step takes from them could not be followed.
    with pytest.raises(UserError, match="computed names"):
        REAL.closure(package)


def test_infrastructure_exists():
    assert [name for name in INFRASTRUCTURE if REAL.file(name) is None] == []


@pytest.mark.parametrize(
    "kind", ["singlehead/absent", "absent", "", "../steps/singlehead/erm", "a/b/c"]
)
def test_unknown_kinds(kind):
    assert not is_kind(kind)
    with pytest.raises(UserError, match="no such kind"):
        physics_digest(kind)
