"""Format what was found in a configuration as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudagraph_skill.config.releases import dotted
from cudagraph_skill.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_skill.config.examine import Report, Violation

REFERENCE = "references/constraints.md"


def data(report: Report, corrected: str | None = None) -> dict[str, Any]:
    """Return a report as JSON has it; `corrected` is the text with all corrections, where they were asked for."""
    releases = report.releases
    return {
        "violations": [_violation(violation) for violation in report.violations],
        "renames": [
            {"old": rename.old, "new": rename.new, "message": rename.message, "line": rename.line} for rename in report.renames
        ],
        "notes": report.notes,
        "unread": report.unread,
        "checked_for": {
            "megatron-core": dotted(releases.core),
            "megatron-bridge": dotted(releases.bridge) if releases.bridge else None,
            "transformer-engine": dotted(releases.engine) if releases.engine else None,
        },
        **({"corrected": corrected} if corrected is not None else {}),
    }


def _violation(violation: Violation) -> dict[str, Any]:
    place = {"line": violation.line} | ({"where": violation.where} if violation.where else {})
    return {"id": violation.id, "message": violation.message, "fix": violation.fix} | place


def text(report: Report, name: str) -> str:
    """Return a report for a person, one paragraph for each finding, and a last line that says what was found in all."""
    return "\n".join(map(printable, [*_findings(report, name), _summary(report)]))


def _findings(report: Report, name: str) -> Iterator[str]:
    for violation in report.violations:
        where = f" in {violation.where}" if violation.where else ""
        yield f"{name}:{violation.line}: violates {violation.id}{where}: {violation.message}"
        yield from [f"    fix: {violation.fix}"] if violation.fix else []
        yield f"    see {REFERENCE}#{violation.id}"
    for rename in report.renames:
        yield f"{name}:{rename.line}: renamed: {rename.message}"
    yield from (f"note: {note}" for note in report.notes)
    yield from (f"not read: {reason}" for reason in report.unread)


def _summary(report: Report) -> str:
    releases = report.releases
    packages = [f"megatron-core {dotted(releases.core)}"]
    packages += [f"megatron-bridge {dotted(releases.bridge)}"] if releases.bridge else []
    packages += [f"transformer-engine {dotted(releases.engine)}"] if releases.engine else []
    if not report.violations and not report.renames:
        found = "nothing found in what was read" if report.unread else "nothing found"
    else:
        found = f"{_count(len(report.violations), 'violation')}, {_count(len(report.renames), 'old name')}"
    several = f" in {len(report.setups)} configurations" if len(report.setups) > 1 else ""
    return f"{found}{several}, for {', '.join(packages)}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def exit_code(report: Report) -> int:
    """Return 1 if something needs a change, 4 if nothing was found but not all was read, else 0."""
    if report.violations or report.renames:
        return 1
    return 4 if report.unread else 0
