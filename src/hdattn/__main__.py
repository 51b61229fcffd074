"""``python -m hdattn``: the same as the command ``hdattn``."""

from hdattn.cli import main

main()
