"""One module per kind of experiment: parameters and inputs in, arrays out.

The module of kind ``model/step`` is ``hdattn.steps.model.step``; it defines
``run(parameters, inputs) -> Result``, where ``inputs`` maps a role to the record read from that
input's file. Its imports decide when a result is stale (:mod:`hdattn.physics_code`).
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from hdattn import physics_code, several, store
from hdattn.errors import UserError

RULES = {
    "generate": ("multihead/data", "singlehead/data"),
    "solve": (
        *("multihead/flow", "multihead/bayes", "singlehead/state_evolution"),
        *("multihead/plateau", "multihead/stability", "multihead/escape"),
        *("multihead/flows", "multihead/optimum", "multihead/optima", "multihead/bayes_curve"),
        *("multihead/pruning", "multihead/deactivation"),
        *("singlehead/bayes_optimal", "singlehead/best_regularisation"),
        *("singlehead/amp_state_evolution", "singlehead/ridgeless", "singlehead/thresholds"),
        *("singlehead/scaling", "singlehead/exponents"),
    ),
    "train": (
        *("multihead/sgd", "singlehead/erm", "singlehead/erm_path", "singlehead/amp"),
        "singlehead/recovery",
    ),
}
"""Kinds that each workflow rule makes."""

KINDS = tuple(kind for kinds in RULES.values() for kind in kinds)


def module(kind: str) -> ModuleType:
    """Module of a kind of experiment; ``UserError`` where there is none."""
    if kind not in KINDS:
        raise UserError(f"there is no experiment kind {kind!r}; choose from {', '.join(KINDS)}")
    return importlib.import_module(f"hdattn.steps.{kind.replace('/', '.')}")


def compute(
    kind: str, parameters: Mapping[str, Any], inputs: Mapping[str, Path], output: Path
) -> None:
    """Run one experiment and write its file; inputs are verified as they are read."""
    step = module(kind)
    start = time.perf_counter()
    records = {role: store.read(path) for role, path in inputs.items()}
    if several.is_joint(parameters):
        result = several.run(step.run, parameters, records)
    else:
        result = step.run(dict(parameters), records)
    store.write(
        output,
        kind,
        parameters,
        result,
        physics_digest=physics_code.physics_of(kind, parameters),
        wall_time=time.perf_counter() - start,
    )
