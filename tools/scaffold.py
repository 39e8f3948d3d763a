"""`python tools/scaffold.py …` is `skill scaffold …` from a clone that is not installed."""

import sys

from cudagraph_skill.cli import main

sys.exit(main(["scaffold", *sys.argv[1:]]))
