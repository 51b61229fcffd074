"""Print how theory and simulation agree at a scale; exit status 1 where they do not."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hdattn.figures import validation


def main() -> int:
    """Print the summary of the rows of all figures; status 1 on a disagreement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    rows = validation.collect(parser.parse_args().folder)
    print(validation.summary(rows))
    return int(bool(validation.disagreements(rows)))


if __name__ == "__main__":
    sys.exit(main())
