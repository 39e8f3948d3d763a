"""gpu/verify.py for tests on machines without a GPU: the same but for its look for one. Programs then run on the CPU."""

from cudagraph_skill.scaffold.guest import verify


def nothing_lacks(processes: int) -> str:  # noqa: ARG001 - as the one in its place
    return ""


if __name__ == "__main__":
    verify.lacking = nothing_lacks
    verify.__file__ = __file__  # what it starts for each process
    verify.run()
