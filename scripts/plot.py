"""Draw one figure from the cache: PDF, PNG, the numbers drawn, and its validation rows."""

from __future__ import annotations

import gc

gc.disable()  # a plot ends within seconds; looking for garbage takes a fifth of them

import argparse  # noqa: E402
import json  # noqa: E402
import sys  # noqa: E402
from pathlib import Path  # noqa: E402

from hdattn import figures  # noqa: E402
from hdattn.errors import UserError  # noqa: E402
from hdattn.figures import make  # noqa: E402
from hdattn.figures.look import Look  # noqa: E402


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
