"""Let all ranks of a program take each decision of the check together; a single process decides alone.

Each step of the check calls the program's own function, and that may wait for other ranks. So all ranks must make the same calls
in the same order, whatever each of them saw.
"""

from __future__ import annotations

from typing import Any

ADDRESS = "CUDAGRAPH_SKILL_RANKS"  # the environment variable that tells a rank the name of the host's socket


class Apart(BaseException):
    """The ranks cannot go on together; `verdict` is that of this rank, the message one sentence."""

    def __init__(self, verdict: str, sentence: str) -> None:
        super().__init__(sentence)
        self.verdict = verdict


class Alone:
    """The agreement of one process with itself."""

    several = False  # whether there are other ranks

    def agree(self, name: str, value: Any) -> list[Any]:  # noqa: ARG002 - other ranks compare the name
        """Return the values of all ranks, in their order, once each has come to this point; `name` says which point it is."""
        return [value]

    def draft(self, result: dict[str, Any]) -> None:
        """Report a result that counts if what follows does not come back; one that reports nothing passes over it."""

    def any(self, name: str, value: bool) -> bool:
        """Return whether it is so on any rank."""
        return any(self.agree(name, bool(value)))

    def most(self, name: str, value: float) -> float:
        """Return the largest number of all ranks."""
        return float(max(self.agree(name, value)))

    def same(self, name: str, text: str) -> str:
        """Return a text that is the same on all ranks: their own, if they agree, else all of them by rank."""
        texts = self.agree(name, text)
        if all(other == texts[0] for other in texts):
            return text
        return "; ".join(f"rank {rank}: {other}" for rank, other in enumerate(texts))
