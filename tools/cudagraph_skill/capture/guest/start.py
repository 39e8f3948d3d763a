"""Start the guest in the user's interpreter: `python start.py COMMANDS REPORTS [program]`, two file descriptors.

`start.py rank PROGRAM ARGUMENTS` is one rank of a program, as torchrun starts it.

It is run as a file and loads our package from where it lies, so that no folder of ours stands on the user's `sys.path`. It
keeps to the syntax of Python 3.6, so that an interpreter that is too old can say so.
"""

import sys

OLDEST = (3, 10)  # as a name, because an interpreter below it must get as far as the comparison


def main() -> int:
    """Load the package and serve; the exit code is that of the program in program mode, else 0."""
    if sys.path and sys.path[0] == __file__.rpartition("/")[0]:
        del sys.path[0]
    import json
    import os
    from pathlib import Path

    package = str(Path(__file__).resolve().parents[2])
    if sys.argv[1] == "rank":
        arguments = sys.argv[2:]
        sys.argv[1:] = []
        load(package)
        from cudagraph_skill.capture.guest import ranks

        return ranks.run(arguments)
    commands, reports = int(sys.argv[1]), int(sys.argv[2])
    program = sys.argv[3:] == ["program"]
    sys.argv[1:] = []
    if sys.version_info < OLDEST:
        version = ".".join(map(str, sys.version_info[:2]))
        sentence = f"{sys.executable} is Python {version}, and the check needs 3.10 or newer: name another with `--python`"
        os.write(reports, (json.dumps({"event": "unfit", "said": sentence}) + "\n").encode())
        return 0
    load(package)
    from cudagraph_skill.capture.guest import server

    return server.run_program(commands, reports) if program else server.serve(commands, reports)


def load(folder: str) -> None:
    """Make `cudagraph_skill.capture.guest` importable from `folder`, and nothing else that lies beside it.

    The `__init__` files on the way are not run: they import what the user's interpreter may lack.
    """
    from types import ModuleType

    for name in ("cudagraph_skill", "cudagraph_skill.capture"):
        package = ModuleType(name)
        package.__path__ = [folder + name[len("cudagraph_skill") :].replace(".", "/")]
        sys.modules[name] = package


if __name__ == "__main__":
    sys.exit(main())
