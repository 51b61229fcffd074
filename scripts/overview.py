"""Draw the overview of a scale from the numbers that its figures drew."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from hdattn.errors import UserError
from hdattn.figures.look import Look
from hdattn.overview.draw import make_overview


def main() -> None:
    """Parse paths, call the library, write the overview's files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--stem", required=True, type=Path)
    parser.add_argument("--look", default={}, type=json.loads)
    arguments = parser.parse_args()
    make_overview(arguments.folder, arguments.stem, Look(**arguments.look))


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(str(error))
