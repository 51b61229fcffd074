"""Run one experiment and write its file to the cache (rules generate, solve and train)."""

from __future__ import annotations

import gc

gc.disable()  # modules leave no garbage, and looking for it takes a quarter of the start

import argparse  # noqa: E402
import json  # noqa: E402
import sys  # noqa: E402
from pathlib import Path  # noqa: E402

from hdattn import steps  # noqa: E402
from hdattn.errors import UserError  # noqa: E402


def main() -> None:
    """Parse paths and parameters, call the library, write one file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind")
    parser.add_argument("--parameters", required=True, type=json.loads)
    parser.add_argument("--inputs", nargs="*", default=[], metavar="ROLE=FILE")
    parser.add_argument("--output", required=True, type=Path)
    arguments = parser.parse_args()
    pairs = (item.split("=", 1) for item in arguments.inputs)
    inputs = {role: Path(path) for role, path in pairs}
    steps.module(arguments.kind)
    gc.freeze()
    gc.enable()
    steps.compute(arguments.kind, arguments.parameters, inputs, arguments.output)


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(str(error))
