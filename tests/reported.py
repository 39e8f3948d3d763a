"""What a guest reports, kept for tests."""

from __future__ import annotations

from typing import Any

from cudagraph_skill.capture.guest.agreement import Alone


class Report(Alone):
    """What the host would hear."""

    def __init__(self) -> None:
        self.results: list[dict[str, Any]] = []

    def progress(self, said: str) -> None:
        """Ignore progress."""

    def result(self, result: dict[str, Any]) -> None:
        """Keep the result."""
        self.results.append(result)
