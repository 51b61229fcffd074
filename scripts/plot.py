"""Draw one figure from the cache: PDF, PNG, the numbers drawn, and its validation rows."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from hdattn import figures
from hdattn.errors import UserError
from hdattn.figures import make
from hdattn.figures.look import Look


def main() -> None:
    """Parse the section and the path, call the library, write the figure's files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figure")
    parser.add_argument("--section", required=True, type=json.loads)
    parser.add_argument("--seed", required=True, type=int)
    parser.add_argument("--stem", required=True, type=Path)
    parser.add_argument("--look", default={}, type=json.loads)
    arguments = parser.parse_args()
    section = figures.module(arguments.figure).Section.model_validate(arguments.section)
    look = Look(**arguments.look)
    make.make_figure(arguments.figure, section, arguments.seed, arguments.stem, look)


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(str(error))
