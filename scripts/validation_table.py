"""Gather the validation rows of all figures of a scale into one table."""

from __future__ import annotations

import argparse
from pathlib import Path

from hdattn import published
from hdattn.figures import validation


def main() -> None:
    """Parse paths, call the library, write the table and its digest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--output", required=True, type=Path)
    arguments = parser.parse_args()
    table = arguments.output
    validation.write(table, validation.collect(arguments.folder))
    published.write(table.with_suffix(""), {"name": table.stem}, [table.suffix])


if __name__ == "__main__":
    main()
