"""Typed fields of the configuration: numbers, counts, grids.

Numeric strings are accepted, since YAML reads ``1e-3`` as a string; other strings, and booleans
where a number is due, are not. A field made with :func:`size` may be overridden by a built-in
scale; a field made with :func:`physics` may not.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from pydantic.functional_validators import AfterValidator, BeforeValidator

from hdattn import ranges

MAXIMUM_POINTS = 10_000
"""Points of a grid."""

LIMITS = {
    **dict.fromkeys(("dim", "small_dim", "simulated_dim", "gamma_dim", "dims"), 20_000),
    **dict.fromkeys(("instances", "block_size", "blocks", "records", "tau_points"), 10_000),
    **dict.fromkeys(("seeds", "plane_seeds", "random_seeds", "bins", "iterations"), 10_000),
    **dict.fromkeys(("heads", "discrete_heads", "tokens", "token_counts", "token_grid"), 1000),
    **dict.fromkeys(("scrambles", "starts", "searches", "polish", "start_scales"), 1000),
    **dict.fromkeys(("base_points", "points", "check_points", "optimum_points"), 2**24),
    **dict.fromkeys(("plane_points", "random_points", "density_points"), 2**24),
    **dict.fromkeys(("test_samples", "validation_samples", "sequences", "tested"), 2**24),
    **dict.fromkeys(("tau_max", "tau_dims", "tau_flow", "tau_sgd", "gamma"), 1e7),
    **{"nodes": 500, "spectral_exponent": 20, "sigma": 1000},
}
"""Largest values that a figure's keys of these names may have: what lies above is a slip."""


def _number(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("a number is needed, not true or false")
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise ValueError(f"{ranges.shown(value)} is not a number") from None
    return _of_size(value, ranges.remedy)


def _of_size(value: Any, remedy: Callable[[float], str | None]) -> Any:
    """``value``; ``ValueError`` where it is a number whose ``remedy`` is not None."""
    advice = remedy(value) if isinstance(value, (int, float)) else None
    if advice:
        raise ValueError(f"{ranges.shown(value)} will not do; {advice}")
    return value


def _whole(value: Any) -> Any:
    return _count(value, ranges.LARGEST_COUNT)


def _seed(value: Any) -> Any:
    return _count(value, ranges.LARGEST_SEED)


def _count(value: Any, largest: int) -> Any:
    if isinstance(value, bool) or not isinstance(value, int):
        value = _number(value)
    advice = f"give a whole number of at most {largest}"
    _of_size(value, lambda number: advice if largest < number < np.inf else None)
    return int(value) if isinstance(value, float) and value.is_integer() else value


_Numeric = BeforeValidator(_number, json_schema_input_type=float | str)
Number = Annotated[float, _Numeric, Field(allow_inf_nan=False)]
Positive = Annotated[Number, Field(gt=0)]
NonNegative = Annotated[Number, Field(ge=0)]
Whole = Annotated[int, BeforeValidator(_seed), Field(ge=0)]
Count = Annotated[int, BeforeValidator(_whole), Field(ge=1)]


def _expand_grid(value: Any) -> Any:
    """Turn ``{start, stop, points, spacing}`` into the list of its points."""
    if not isinstance(value, Mapping):
        return value
    spacing = value.get("spacing", "log")
    unknown = set(value) - {"start", "stop", "points", "spacing"}
    if unknown or not {"start", "stop", "points"} <= set(value):
        raise ValueError("a grid is a list, or {start, stop, points, spacing: log or linear}")
    start, stop = _number(value["start"]), _number(value["stop"])
    points = _count(value["points"], MAXIMUM_POINTS)
    if not all(isinstance(x, (int, float)) and np.isfinite(x) for x in (start, stop)):
        raise ValueError("a grid starts and stops at finite numbers")
    if spacing not in ("log", "linear"):
        raise ValueError(f"spacing is {spacing!r}: use log or linear")
    if not isinstance(points, int) or not 2 <= points <= MAXIMUM_POINTS or not start < stop:
        raise ValueError(
            f"a grid has start below stop, at least 2 points and at most {MAXIMUM_POINTS}"
        )
    if spacing == "linear":
        return np.linspace(start, stop, points).tolist()
    if start <= 0:
        raise ValueError("a log grid starts above 0")
    return six_digits(np.geomspace(start, stop, points))


def six_digits(points: np.ndarray) -> list[float]:
    """The points to six digits; ``ValueError`` where two are the same then."""
    rounded = [float(f"{x:.6g}") for x in points]
    if len(set(rounded)) < len(rounded):
        raise ValueError(f"{len(rounded)} points are too many: some agree in six digits; take less")
    return rounded


def _increasing(values: tuple[float, ...]) -> tuple[float, ...]:
    if any(b <= a for a, b in itertools.pairwise(values)):
        raise ValueError("the points of a grid must increase, without repeats")
    return values


_GridPoints = Annotated[tuple[Positive, ...], AfterValidator(_increasing)]

_GridInput = list[float | str] | dict[str, float | str]
_Expanded = BeforeValidator(_expand_grid, json_schema_input_type=_GridInput)

PositiveGrid = Annotated[_GridPoints, Field(min_length=2), _Expanded]
"""At least two positive points in increasing order: a line is drawn through them."""

PositiveList = Annotated[_GridPoints, Field(min_length=1), _Expanded]
"""One or more positive points in increasing order: markers, panels or curves."""


class Strict(BaseModel):
    """Base of the configuration's models: unknown keys are errors, values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    def beyond_limits(self) -> list[str]:
        """Lines ``key: ...`` about values above :data:`LIMITS`, which no machine would finish."""
        lines = []
        for key in type(self).model_fields:
            value = getattr(self, key)
            if isinstance(value, Strict):
                lines += [f"{key}.{line}" for line in value.beyond_limits()]
            elif key in LIMITS and (largest := _largest(value)) > LIMITS[key]:
                lines.append(f"{key}: {largest:g} is above {LIMITS[key]:g}; lower it")
        return lines

    def doubts(self) -> list[str]:
        """Lines ``key: value is ...`` about values that are legal, but beyond the theory."""
        lines = []
        for name, info in type(self).model_fields.items():
            limit, reason = (info.json_schema_extra or {}).get("usual", (None, ""))
            if limit is not None and getattr(self, name) > limit:
                lines.append(f"{name}: {getattr(self, name):g} is above {limit:g}: {reason}")
        return lines


class FigureSection(Strict):
    """Base of what every figure's section has."""

    per_job: Annotated[int, BeforeValidator(_whole), Field(ge=1, le=1000)] = Field(
        1,
        description="Experiments of one kind that one job computes, one after another: for those "
        "that take less time than Python takes to start.",
        json_schema_extra={"size": True},
    )


def size(default: Any, description: str, **kwargs: Any) -> Any:
    """Field that a scale may override: a size, a grid, a number of instances."""
    return Field(default, description=description, json_schema_extra={"size": True}, **kwargs)


def physics(
    default: Any, description: str, *, usual: tuple[float, str] | None = None, **kwargs: Any
) -> Any:
    """Field that the built-in scales may not override: a parameter of the model.

    ``usual`` is the largest value that the theory covers, and what is lost above it; a larger
    one is warned of (:meth:`Strict.doubts`).
    """
    extra = {"size": False} | ({"usual": list(usual)} if usual else {})
    return Field(default, description=description, json_schema_extra=extra, **kwargs)


def is_size(model: type[BaseModel], name: str) -> bool:
    """Whether ``name`` is a field of ``model`` that a built-in scale may override."""
    extra = model.model_fields[name].json_schema_extra
    return isinstance(extra, dict) and bool(extra.get("size"))


def _largest(value: Any) -> float:
    """Largest number in a value, a list or a mapping; -inf where there is none."""
    values = value.values() if isinstance(value, Mapping) else value
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        return float(value) if isinstance(value, (int, float)) else -np.inf
    return max(map(_largest, values), default=-np.inf)
