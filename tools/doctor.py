"""`python tools/doctor.py ...` is `skill doctor ...` from a clone that is not installed."""

import sys

import _start  # noqa: F401 - before anything that an old Python cannot read
from cudagraph_skill.cli import launched

sys.exit(launched("doctor"))
