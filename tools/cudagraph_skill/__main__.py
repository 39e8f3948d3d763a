"""`python -m cudagraph_skill` is the `skill` command, for machines where another program has that name."""

import sys


def run() -> int:
    """Run the command; a Ctrl-C while its modules load is exit code 130 as one after it."""
    try:
        from cudagraph_skill.cli import main  # noqa: PLC0415 - a Ctrl-C in here is caught
    except KeyboardInterrupt:
        return 130
    return main()


if __name__ == "__main__":
    sys.exit(run())
