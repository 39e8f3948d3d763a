"""Format what held of the claims on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudagraph_skill.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudagraph_skill.verify.card import Claim
    from cudagraph_skill.verify.probes import Found

_SHOWN = 6  # lines of one kind below a claim


def listed_text(claims: Sequence[Claim]) -> str:
    """Return each claim with where it was seen, its limits, and what is run for it."""
    return "\n".join(line for claim in claims for line in _listed(claim))


def _listed(claim: Claim) -> list[str]:
    lines = [f"{claim.id} ({claim.status})", f"  {claim.said}"]
    lines += [f"  seen on: {claim.seen}"] if claim.seen else []
    lines += [f"  limits: {claim.limits}"] if claim.limits else []
    return [*lines, f"  runs: {_probe(claim)}"]


def _probe(claim: Claim) -> str:
    return ", ".join(claim.probe) or "nothing"


def listed_data(claims: Sequence[Claim]) -> dict[str, Any]:
    """Return the claims as JSON has them."""
    return {"claims": [claim._asdict() for claim in claims]}


def found_text(found: Found) -> str:
    """Return one claim: whether it holds, and below it what does not, what was not run, and where it was seen before."""
    claim = found.claim
    count = f"{found.ran} of {found.programs} ran" if found.programs else "nothing ran"
    differ = f", {len(found.wrong)} of them otherwise" if found.wrong else ""
    lines = [f"{found.state:<8} {claim.id}: {claim.said}", f"{'':9}{count}{differ}"]
    lines += _some("differs", found.wrong) + _some("not run", found.left_out)
    return "\n".join(lines)


def _some(word: str, lines: Sequence[str]) -> list[str]:
    shown = [f"{'':9}{word}: {printable(line)}" for line in lines[:_SHOWN]]
    return [*shown, f"{'':9}{word}: {len(lines) - _SHOWN} more, see `--json`"] if len(lines) > _SHOWN else shown


def summary(all_found: Sequence[Found], machine: str) -> str:
    """Return the line that sums up."""
    states = [found.state for found in all_found]
    return f"{states.count('holds')} hold, {states.count('differs')} differ, {states.count('not run')} not run, on {machine}"


def found_data(all_found: Sequence[Found], machine: str) -> dict[str, Any]:
    """Return what was found as JSON has it."""
    return {
        "machine": machine,
        "ok": all(found.state != "differs" for found in all_found),
        "claims": [
            {
                "id": found.claim.id,
                "claim": found.claim.said,
                "state": found.state,
                "ran": found.ran,
                "programs": found.programs,
                "wrong": list(found.wrong),
                "not_run": list(found.left_out),
                "seen": found.claim.seen,
                "limits": found.claim.limits,
            }
            for found in all_found
        ],
    }
