"""`python tools/check.py …` is `skill check …` from a clone that is not installed."""

import sys

from cudagraph_skill.cli import main

sys.exit(main(["check", *sys.argv[1:]]))
