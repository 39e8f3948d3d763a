"""Run a user's code on what is known of its values, without running it.

One file:

1. `captures.Reader` reads it: `script` runs the top level as the program does, `named` one function that the user named.
2. `capture_sites` says which statements capture and which functions lead there; `entry_points` finds the object, closure and
   arguments that a function needs, and `guesses` makes up what nobody gives.
3. `machine.Machine.block` runs statements, `.value` evaluates expressions, `.call` follows calls: each looks the kind of node
   or value up in a table (`statements.STATEMENTS`, `expressions.EXPRESSIONS`, `calls.CALLS`). What is not the user's is asked
   of `library.Library`.
4. Captured code runs in rounds, as a warm-up and a capture would. `memory.Memory` keeps what each round wrote and read;
   `memory.Memory.read` marks a host value that changes from round to round with its origin.
5. Where GPU work depends on a marked value, `reports.Reports.sink` reports the origin; hazards that do not depend on change
   are reported at once with `reports.Reports.report`. `frames.Frames.via` gives the calls that lead there.
6. `replays.Replays` follows what a script does after its capture. Where it changes a Python value before a replay, `frozen.Frozen`
   reads the capture once more with a mark on that value.
7. A capture that nothing has come to is a `goals.Goal`: conditions and early returns are taken to lead there. What is not known at
   all and used as a tensor is one by `assumptions`, and what follows from that is likely, not certain.
8. What a finding rests on is kept by `reasons` where that is asked for. Functions of installed packages are followed on steps of
   their own (`calls`); `input.modules` opens their files.

`values` describes what is known of a value; `join` there makes one of two that may be.
"""
