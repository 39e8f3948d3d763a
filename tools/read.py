"""`python tools/read.py …` is `skill read …` from a clone that is not installed."""

import sys

from cudagraph_skill.cli import main

sys.exit(main(["read", *sys.argv[1:]]))
