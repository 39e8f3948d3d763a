"""`python tools/errors.py …` is `skill errors …` from a clone that is not installed."""

import sys

from cudagraph_skill.cli import main

sys.exit(main(["errors", *sys.argv[1:]]))
