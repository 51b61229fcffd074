"""Gather a scan from the cache: tidy table as CSV and HDF5, and a quick look."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from hdattn.configuration import scan_from
from hdattn.errors import UserError
from hdattn.scan.table import make_scan


def main() -> None:
    """Parse the section and the path, call the library, write the scan's files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("--section", required=True, type=json.loads)
    parser.add_argument("--seed", required=True, type=int)
    parser.add_argument("--stem", required=True, type=Path)
    arguments = parser.parse_args()
    scan = scan_from(arguments.section["model"], arguments.section, f"scans.{arguments.name}")
    make_scan(scan, arguments.seed, arguments.stem)


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(str(error))
