"""`python server/serve.py` is `skill serve` from a clone that is not installed, for an assistant's MCP settings."""

import sys
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "tools"))
import _start  # noqa: F401 - before anything that an old Python cannot read
from cudagraph_skill.cli import main

sys.exit(main(["serve", *sys.argv[1:]]))
