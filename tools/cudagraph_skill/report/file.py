"""Write a report to the file that an option names."""

from __future__ import annotations

import os
from pathlib import Path

from cudagraph_skill import files
from cudagraph_skill.errors import SkillError
from cudagraph_skill.text import operand, shortened


def refuse(option: str, file: str, suffix: str, force: bool, source: Path | None = None) -> None:
    """Raise if a report cannot be written, or would replace the `source` that it is made of: said before the work.

    Raises:
        SkillError: the message says what to change.
    """
    path = _target(option, file, suffix, force)
    if source is not None and path.exists() and source.exists() and path.samefile(source):
        raise SkillError(f"{option} {operand(shortened(file))}: that is the trace itself; name another file")


def save(content: str | bytes, option: str, file: str, suffix: str, force: bool) -> None:
    """Write the report, whole or not at all.

    Raises:
        SkillError: it cannot be written, or is there.
    """
    path = _target(option, file, suffix, force)
    try:
        files.save(content, path, force)
    except OSError as error:
        raise SkillError(f"{option} {operand(file)}: not written: {error.strerror}; name a file in a folder of yours") from None


def _target(option: str, file: str, suffix: str, force: bool) -> Path:
    real, why = files.target(file, lambda path: _obstacle(path, suffix, force))
    if why:
        raise SkillError(f"{option} {operand(shortened(file))}: {why}")
    return real


def _obstacle(path: Path, suffix: str, force: bool) -> str:
    if not path.name or path.is_dir():
        return f"a file is needed, for example {operand(str(path / f'report{suffix}'))}"
    if path.suffix != suffix:
        return f"its name has to end in {suffix}; for example {operand(str(path.with_suffix(suffix)))}"
    real = Path(os.path.realpath(path))
    return files.occupied(path, force) or ("" if real.suffix == suffix else f"it is a link to {real}; name another file")
