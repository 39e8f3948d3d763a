"""Capture and compare in the user's interpreter, with the user's torch. Nothing here imports what that may lack.

One request:

1. `start.main` starts the guest; `server.serve` imports torch once and forks for each request, `server.run_program` runs the
   user's own program with `live`, which checks one call of the target in it. Under `torchrun`, `ranks.run` does so for each rank,
   and each decision that leads to calls of the target is taken by all ranks together (`agreement`).
2. In the fork, `verdict.prepare` imports the user's module with `load.Source`, and a second fork runs `verdict.run`.
   `processes` reports events and ends what a run leaves behind.
3. `checks.run` calls one copy of the callable eagerly and captures another (`checks.capture_and_replay`), replays it on new inputs,
   and compares results and state (`comparison.compare`). `state` finds, saves and restores what the callable can reach; `tensors`
   copies and compares nested values.
4. If the capture failed, `why_failed.explain` names the error's line and every other line that fails under capture.
   If a replay was wrong, `why_wrong.explain` names the lines behind it; `deciding_line` finds the statement that decided, and
   `operations` records what ran.
5. `verdict.examine` returns the result: verdict, causes, graph (`nodes`), rounds, machine and notes.
"""
