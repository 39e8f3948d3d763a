"""`python tools/explain.py …` is `skill explain …` from a clone that is not installed."""

import sys

from cudagraph_skill.cli import main

sys.exit(main(["explain", *sys.argv[1:]]))
