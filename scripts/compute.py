"""Run one experiment and write its file to the cache (rules generate, solve and train)."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from hdattn import steps
from hdattn.errors import UserError


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
    steps.compute(arguments.kind, arguments.parameters, inputs, arguments.output)


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(str(error))
