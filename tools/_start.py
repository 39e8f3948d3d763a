"""The first import of each launcher: a Python that is too old for the rest says so. Plain enough for Python 2.7 to read."""

import sys

OLDEST = (3, 11)
if sys.version_info < OLDEST:
    found, needed = (".".join(map(str, each)) for each in (sys.version_info[:3], OLDEST))
    sys.stderr.write(
        sys.executable + " is Python " + found + ", and Python " + needed + " or newer is needed: "
        "type python" + needed + " " + sys.argv[0] + " in its place\n"
    )
    sys.exit(3)
