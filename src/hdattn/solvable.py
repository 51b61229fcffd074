"""Parameters that the solvers would refuse, found before any job runs.

Experiments call a parameter by one name whichever figure or scan asks for them, so that one look
at their parameters covers all sections. The ranges of the single head are those of
:class:`hdattn.singlehead.problem.Problem`, which takes long to import and says what is wrong: it
is asked only about a value that will not do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from hdattn.errors import UserError
from hdattn.experiment import Experiment
from hdattn.multihead.sizes import LARGEST

RANGES = {
    "alpha": (1e-6, 1e9),
    "lam": (1e-10, 1e6),
    "kappa": (1e-4, 1e3),
    "kappa0": (1e-4, 1e3),
    "noise": (0.0, 1e6),
    "beta": (1e-3, 1e3),
    "beta0": (1e-3, 1e2),
}
"""Least and largest value of what a single head is solved for; ``lam`` may also be 0."""

SHARPEST = 40.0
"""Largest beta0 sqrt(Q0)."""

_SINGLE = {name: name for name in RANGES} | {f"{name}s": name for name in RANGES}
_SINGLE |= {"lam_range": "lam", "lam_eff": "lam"}
_SEVERAL = ("mean", "std", "support")  # of a prior


class Refused(NamedTuple):
    """A parameter, its value, and a line about both."""

    name: str
    value: float
    line: str


def refused(experiments: Iterable[Experiment]) -> list[Refused]:
    """What the solvers would refuse in ``experiments``: of each parameter the ends."""
    found: dict[str, list[Refused]] = {}
    for experiment in experiments:
        single = experiment.kind.startswith("singlehead/")
        for part in _mappings(experiment.parameters):
            for one in _single(part) if single else _several(part):
                found.setdefault(one.name, []).append(one)
    ends = ((min(group), max(group)) for group in found.values())
    return list(dict.fromkeys(one for pair in ends for one in pair))


def _mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    """All mappings in a value, itself among them."""
    if isinstance(value, Mapping):
        yield value
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return
    for item in value:
        yield from _mappings(item)


def numbers(value: Any) -> Iterator[float]:
    """All numbers in a value: itself, or those in a list or mapping."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value


def _ends(value: Any) -> set[float]:
    """Least and largest number: of a grid that goes too far, its end is said."""
    held = list(numbers(value))
    return {min(held), max(held)} if held else set()


def _single(part: Mapping[str, Any]) -> Iterator[Refused]:
    for key in part.keys() & _SINGLE.keys():
        name = _SINGLE[key]
        low, high = RANGES[name]
        for value in _ends(part[key]):
            if not low <= value <= high and not (name == "lam" and value == 0):
                yield Refused(name, value, _complaint(**{name: value}))
    kappa0, beta0 = (part.get("target") or {}).get("kappa0", 0.0), part.get("beta0", 0.0)
    in_range = beta0 <= RANGES["beta0"][1] and kappa0 <= RANGES["kappa0"][1]
    if in_range and beta0 * (1 + kappa0) ** 0.5 > SHARPEST:
        yield Refused("beta0", beta0, _complaint(beta0=beta0, kappa0=kappa0))


def _several(part: Mapping[str, Any]) -> Iterator[Refused]:
    for key in _SEVERAL:
        for value in _ends(part.get(key)):
            if abs(value) > LARGEST:
                line = f"{key} = {value:g}: give at most {LARGEST:g} in size"
                yield Refused(key, value, line)


def _complaint(kappa0: float | None = None, **parameters: float) -> str:
    """What the library says about these parameters."""
    from hdattn.singlehead.problem import Problem
    from hdattn.singlehead.targets import MarchenkoPastur

    try:
        target = MarchenkoPastur(kappa0) if kappa0 else MarchenkoPastur()
        Problem(**{"alpha": 1.0, "lam": 1.0, **parameters}, target=target)
    except UserError as error:
        return str(error)
    raise AssertionError(f"{parameters}, kappa0 = {kappa0}: Problem takes what RANGES do not")
