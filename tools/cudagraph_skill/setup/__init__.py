"""Register the server or the skill's folder with an assistant, and say what on this machine does not fit.

The life of `skill install codex --yes`:

1. `clients.CLIENTS` says where each client keeps its configuration and its skills, in which format and under which key.
2. `serving.command` is what starts the server here: the installed script, the package, or the clone's launcher.
3. `registration.registered` plans a `Change`: the bytes before and after. `entry` inserts text where the format has it
   (`jsonc` finds the places in JSON with comments) and compares what both texts parse to; nothing is formatted anew.
4. `registration.write` keeps a receipt of the inserted pieces (`receipts`) and replaces the file. `--undo` takes them out.
5. `folder` does the same for a copy of the skill's own files. `output` formats all of it.

`skill doctor` is `doctor.checks`: `environment` asks the interpreter that has torch, in a process of its own.
"""
