"""The error that every command reports as one sentence and an exit code."""

from __future__ import annotations


class SkillError(Exception):
    """What the user has to change, in one sentence; `exit_code` is 2 for misuse, 3 for something the machine lacks.

    `fields` are what a command's JSON has beside `error`, so that its readers find what they look for there.
    """

    def __init__(self, sentence: str, exit_code: int = 2) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code
        self.fields: dict[str, str] = {}
