"""Format what would be installed, and what the checks of this machine say."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from cudagraph_skill.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudagraph_skill.setup.doctor import Check
    from cudagraph_skill.setup.folder import Copy
    from cudagraph_skill.setup.registration import Change

_LONG = 200  # characters; more on a line is a configuration in one line, which may hold secrets of other servers
_SECRET = re.compile(r"""([\w-]*(?:token|key|secret|passw|auth)[\w-]*["']?\s*[:=]\s*["'])[^"']+""", re.IGNORECASE)


def difference(change: Change) -> str:
    """Return a change as a unified diff with one line around it: other servers may have secrets beside theirs."""
    from difflib import unified_diff  # noqa: PLC0415 - where something changes only

    before, after = ((data or b"").decode().splitlines() for data in (change.before, change.after))
    names = (
        "/dev/null" if change.before is None else str(change.path),
        "/dev/null" if change.after is None else str(change.path),
    )
    lines = [_shown(line) for line in unified_diff(before, after, *names, lineterm="", n=1)]
    pieces = change.kept.get("pieces", ()) if any(len(line) > _LONG for line in (*before, *after)) else ()
    lines += [f"inserted at character {piece.at}: {printable(piece.text.strip())}" for piece in pieces]
    return "\n".join(lines) or "--- only the end of the last line changes"


def _shown(line: str) -> str:
    """Return a line of a diff, without the value of what may be a secret."""
    line = printable(line.replace("\t", "    "))
    return _SECRET.sub(r"\1…", line) if len(line) <= _LONG else f"{line[0]} ({len(line) - 1} characters in one line)"


def copy_text(copy: Copy) -> str:
    """Return what becomes of a folder of the skill, its files counted by folder."""
    if not copy.files:
        return f"- {copy.folder}: {len(copy.digests)} files"
    size = sum(path.stat().st_size for path in copy.files.values())
    counts = Counter(name.partition("/")[0] for name in copy.files if "/" in name)
    alone = [name for name in copy.files if "/" not in name]
    parts = [*alone, *(f"{name}/ ({count} files)" for name, count in counts.items())]
    sign = "~" if copy.digests else "+"
    return f"{sign} {copy.folder}: {len(copy.files)} files, {size / 1e6:.1f} MB\n  " + ", ".join(parts)


def checks_text(checks: Sequence[Check]) -> str:
    """Return one line a check, with its fix below where it has one, and a line that sums up."""
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        lines.append(f"{check.state:<5} {check.name:<{width}}  {printable(check.said)}")
        lines += [f"{'':5} {'':{width}}  fix: {printable(check.fix)}"] if check.fix else []
    wrong = sum(check.state == "wrong" for check in checks)
    lines.append("nothing to fix" if not wrong else f"{wrong} to fix")
    return "\n".join(lines)


def checks_data(checks: Sequence[Check]) -> dict[str, Any]:
    """Return the checks as JSON has them."""
    return {"ok": all(check.state != "wrong" for check in checks), "checks": [check._asdict() for check in checks]}
