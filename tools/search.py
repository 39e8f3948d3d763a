"""`python tools/search.py …` is `skill search …` from a clone that is not installed."""

import sys

from cudagraph_skill.cli import main

sys.exit(main(["search", *sys.argv[1:]]))
