"""The `skill` command: parse arguments, call a capability, print its answer.

The life of `skill search "question"`:

1. `main.main` parses the arguments. Each command is one module with `add`, which declares its arguments, and `run`, which
   answers and returns the exit code.
2. `search.run` imports what it needs only now, so that start-up stays short, and opens the index (`open_references`).
3. `corpus.output` formats the answer; `next_step` spells the next command the way this one was called.
4. `main` turns a `SkillError` into one sentence on stderr, or JSON on stdout if that was asked for, and its exit code.

`arguments` holds what commands share in their arguments, `terminal` what they share in writing. Nothing imports this package.
"""

from cudagraph_skill.cli.main import launched, main

__all__ = ["launched", "main"]
