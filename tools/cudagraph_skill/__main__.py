"""`python -m cudagraph_skill` is the `skill` command, for machines where another program has that name."""

import sys

from cudagraph_skill.cli import main

sys.exit(main())
