"""Join the results of one target that is called with several signatures: a graph serves one of them."""

from __future__ import annotations

from typing import Any

# From the worst to the best: what was seen of one signature counts before what could not be seen of another
_WORST = ("capture_error", "silent_wrong", "error_in_eager", "misuse", "lacking", "not_repeatable", "stopped", "safe")
_SHOWN, _LISTED = 120, 6  # characters of a signature; signatures in a note


def joined(results: dict[str, dict[str, Any]], passed: dict[str, int]) -> dict[str, Any]:
    """Return the worst result, with the verdict of each signature; `passed` is how often the program had each so far."""
    worst = min(results.values(), key=lambda result: _WORST.index(result["verdict"]))
    if len(passed) == 1:
        return worst
    verdicts: list[dict[str, Any]] = [
        {"signature": name, "calls": calls, "verdict": results[name]["verdict"] if name in results else "not checked"}
        for name, calls in passed.items()
    ]
    listed = "; ".join(f"({_short(row['signature'])}) in {row['calls']} calls: {row['verdict']}" for row in verdicts[:_LISTED])
    listed += f"; and {len(verdicts) - _LISTED} more" * (len(verdicts) > _LISTED)
    said = (
        f"{worst['said']}. It is called with {len(passed)} signatures, of which {len(results)} were checked, and each needs a graph of "
        "its own, or buckets"
    )
    agreed = all(result.get("agreed", False) for result in results.values())
    return {
        **worst,
        "agreed": agreed,
        "said": said,
        "notes": [f"signatures: {listed}", *worst["notes"]],
        "signatures": verdicts,
    }


class Reports:
    """The reports of one signature: its drafts tell of those before it, too."""

    def __init__(self, reports: Any, name: str, results: dict[str, dict[str, Any]], passed: dict[str, int]) -> None:
        self._reports, self._name, self._results, self._passed = reports, name, results, passed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reports, name)

    def draft(self, result: dict[str, Any]) -> None:
        """Report a result of this signature, joined with those of the others."""
        self._reports.draft(joined({**self._results, self._name: result}, self._passed))


def _short(signature: str) -> str:
    return signature if len(signature) <= _SHOWN else f"{signature[: _SHOWN - 1]}…"
