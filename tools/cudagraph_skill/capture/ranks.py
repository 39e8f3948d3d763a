"""Make one result of those of all ranks of a program, and say of each rank how it ended."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cudagraph_skill.check.hazards import hazard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudagraph_skill.capture.host import Ended
    from cudagraph_skill.capture.hub import Hub, Rank
    from cudagraph_skill.capture.result import CaptureResult

# From the worst to the best; `stopped` is no verdict of the code, and counts where no rank has another
_WORST = ("lacking", "misuse", "error_in_eager", "capture_error", "silent_wrong", "not_repeatable", "safe", "stopped")
_LINES = 3  # findings of a rank that are listed in its row
# Where a rank waits for others, or for the GPU that does: in the check's own agreement, a collective, a synchronisation
_WAITING = re.compile(
    r"/torch/distributed/|/torch/cuda/(__init__|streams)\.py$|/cudagraph_skill/capture/guest/ranks\.py$|/torch/_ops\.py$"
)
# What communication says where another rank went away
_EFFECT = re.compile(r"NCCL|gloo|Connection (closed|reset|refused)|[Rr]emote|Broken pipe|DistBackendError|DistNetworkError")


def not_begun(whole: Ended) -> dict[str, Any]:
    """Return the result where no rank came so far as to report to us: torchrun or the interpreter ended first."""
    how, detail = str(whole.ended.get("how", "")), str(whole.ended.get("detail", ""))
    if how == "deadline":
        return {"verdict": "lacking", "said": "torchrun had started no rank by the deadline; `--deadline` gives it longer"}
    last = next((line.strip() for line in reversed(whole.output.split("\n")) if line.strip()), "")
    reason = f": {last[:200]}" if last else ""
    verdict = "misuse" if detail == "2" else "lacking"  # argparse's exit code
    return {"verdict": verdict, "said": f"torchrun ended before any rank began (exit {detail or how}){reason}"}


def outcomes(hub: Hub, whole: Ended) -> dict[int, tuple[dict[str, Any] | None, dict[str, Any]]]:
    """Return for each rank its result, or None if `session` has to describe how it ended; and that end."""
    blamed = _blamed(hub)
    return {number: _outcome(hub.ranks.get(number), blamed, whole) for number in range(max(hub.world, len(hub.ranks)))}


def _outcome(rank: Rank | None, blamed: set[int], whole: Ended) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    if rank is None:
        return _stopped("it never began"), {}
    ended = rank.ended or {}
    if blamed and rank.number not in blamed and not rank.agreed:
        if rank.answer is None:
            return _stopped(_waited(rank, blamed)), ended
        if _is_effect(rank):
            return _stopped(f"{rank.answer.get('said', '')}: {_named(blamed)} had ended"), ended
    if rank.answer is None and not ended and blamed:
        return _outside(), {}
    if rank.answer is None and not blamed:  # the whole run was ended, by its memory or its caller
        return None, ended or whole.ended
    return rank.answer, ended or {"how": "done"}


def _stopped(sentence: str) -> dict[str, Any]:
    return {"verdict": "stopped", "said": sentence}


def _outside() -> dict[str, Any]:
    return {"verdict": "lacking", "said": "its process was killed from outside, as by the kernel where memory is short"}


def _named(ranks: set[int]) -> str:
    return ", ".join(f"rank {number}" for number in sorted(ranks))


def _waited(rank: Rank, blamed: set[int]) -> str:
    """Describe a rank that was ended because another one hung or ended."""
    if rank.point:
        return f"waited for {_named(blamed)} at {rank.point}"
    where = next((frame for frame in reversed(_stack(rank)) if not _is_library(str(frame[0]))), None)
    at = f", at {Path(str(where[0])).name}:{where[1]}" if where else ""
    return f"waited for {_named(blamed)}{at}" if where else f"was ended after {_named(blamed)}"


def _is_library(path: str) -> bool:
    return path.startswith("<") or any(part in path for part in ("/site-packages/", "/cudagraph_skill/", "/lib/python3"))


def _stack(rank: Rank) -> list[Any]:
    return list((rank.ended or {}).get("stack") or ())


def _blamed(hub: Hub) -> set[int]:
    """Return the ranks that kept others from a verdict; none if no rank was over alone.

    It is the first that was over, but for one whose error tells that another went away.
    """
    alone = [rank for rank in hub.ranks.values() if rank.order and not rank.agreed]
    causes = [rank for rank in alone if not _is_effect(rank)]
    if not causes:
        return {rank.number for rank in alone}
    first = min(causes, key=lambda rank: rank.order)
    late = [rank for rank in hub.ranks.values() if rank.answer is None and (rank.ended or {}).get("how") == "deadline"]
    if first not in late:
        return {first.number}
    busy = [rank for rank in late if not _waits(rank)] or [rank for rank in late if not rank.point] or late
    return {rank.number for rank in busy}


def _is_effect(rank: Rank) -> bool:
    """Return whether a rank ended because it noticed that another one had."""
    result = rank.answer or {}
    return result.get("verdict") == "stopped" or bool(_EFFECT.search(str(result.get("said", ""))))


def _waits(rank: Rank) -> bool:
    """Return whether a rank that ran out of time waited for others rather than worked, slept or looped on its own."""
    return bool(rank.point) or any(_WAITING.search(str(frame[0])) for frame in _stack(rank)[-1:])


def together(results: dict[int, CaptureResult], hub: Hub) -> CaptureResult:
    """Return the result of the rank that decides, with a row for each rank.

    Verdicts that all came to together decide by the worst; those that ranks came to alone by the first such.
    """
    deciding = {rank.number for rank in hub.ranks.values() if rank.agreed} | _blamed(hub)
    candidates = {number: result for number, result in results.items() if number in deciding} or results
    number, worst = min(candidates.items(), key=lambda item: (_WORST.index(item[1].verdict), not _explains(item[1]), item[0]))
    rows = [_row(each, result) for each, result in sorted(results.items())]
    count = len(results)
    if count > 1 and not _alike(rows, hub):
        notes = [_noted(row) for row in rows if row["rank"] != number]
        worst = worst._replace(said=f"on rank {number} of {count}: {worst.said}", notes=[*notes, *worst.notes])
    elif count > 1:
        worst = worst._replace(said=f"{worst.said}; on all {count} ranks")
    if worst.verdict == "stopped":
        worst = worst._replace(verdict="lacking")
    return worst._replace(ranks=rows)


def _explains(result: CaptureResult) -> bool:
    """Return whether a rank saw a line with a known cause: what that does, communication brings to the others."""
    return any(finding.observed and hazard(finding.id).severity != "info" for finding in result.findings)


def _row(number: int, result: CaptureResult) -> dict[str, Any]:
    lines = [f"{finding.path}:{finding.line} {finding.id}" for finding in result.findings[:_LINES]]
    return {"rank": number, "verdict": result.verdict, "summary": result.said, "findings": lines}


def _noted(row: dict[str, Any]) -> str:
    """Return one line about a rank that differs from the one that decides."""
    lines = f" ({', '.join(row['findings'])})" if row["findings"] else ""
    return f"rank {row['rank']}: {row['verdict']}: {row['summary']}{lines}"


def _alike(rows: Sequence[dict[str, Any]], hub: Hub) -> bool:
    """Return whether all ranks say the same; in a verdict of all together, differences may have other sizes."""
    together = all(rank.agreed for rank in hub.ranks.values())
    return len({(row["verdict"], *row["findings"], "" if together else row["summary"]) for row in rows}) == 1
