"""Find the lines that break a capture or corrupt replay, with the standard library alone and without running the code.

The life of `check_paths(["train.py:step"], options)`:

1. `input.targets.expand` resolves files, functions and folders; many files go to worker processes (`parallel.read_all`).
2. `reading.read_target` reads one file. `input.source.read_source` decodes and parses it: encodings, notebooks, newer syntax.
3. `interpreter.captures.Reader` finds what the file captures and with which arguments, and runs it twice as warm-up and once
   as capture on abstract values (`interpreter.machine.Machine`): `interpreter.values` says what is known of each.
4. What is not the user's code is answered by `library.answers`: builtins, containers, numpy, and torch, whose operations are
   the rows of `library.torch.ops`. The interpreter knows them only as `interpreter.library.Library`.
5. A row or a rule that fails reports a `findings.Finding` with the id of a hazard; `hazards` reads its prose from
   references/hazards.md.
6. `reading` drops what settings and comments silence; `paths.check_paths` joins the reports of all files.
7. `output` formats a report, `fixes` applies its edits.
"""

from cudagraph_skill.check.input.settings import Options
from cudagraph_skill.check.paths import check_paths
from cudagraph_skill.check.reading import check_text

__all__ = ["Options", "check_paths", "check_text"]
