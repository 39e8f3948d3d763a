"""Try the ways of calling a function with and without graphs on this GPU, and write the code of the fastest right one.

1. `trials.tuned` checks and maps the call, compares each way with eager calls, and times them in rounds, each in a process.
2. `choice` says which one to take, and why.
3. `code` writes it around the user's function; `output` writes the table.
"""
