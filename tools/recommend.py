"""`python tools/recommend.py …` is `skill recommend …` from a clone that is not installed."""

import sys

from cudagraph_skill.cli import main

sys.exit(main(["recommend", *sys.argv[1:]]))
