"""Read the claims of card.yaml."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill.errors import SkillError
from cudagraph_skill.text import shortened

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


class Claim(NamedTuple):
    """A claim and how it was shown: `status` is run, measured or read, `seen` the machine and date, "" where nothing ran.

    `probe` says what to run, by kind; it is empty where nothing here can show the claim.
    """

    id: str
    said: str
    status: str
    seen: str
    limits: str
    probe: Mapping[str, Any]


def claims(root: Path) -> list[Claim]:
    """Return the claims in the order of the card.

    Raises:
        SkillError: PyYAML is not installed (exit code 3).
    """
    try:
        import yaml
    except ModuleNotFoundError:
        raise SkillError("card.yaml is read with PyYAML: `pip install pyyaml`", 3) from None
    card = yaml.safe_load((root / "card.yaml").read_text(encoding="utf-8"))
    runs = {run["id"]: run for run in card["evidence"]}
    return [_claim(row, runs.get(row.get("evidence"), {})) for row in card["claims"]]


def _claim(row: Mapping[str, Any], run: Mapping[str, Any]) -> Claim:
    seen = ", ".join(str(run[name]) for name in ("machine", "date") if name in run)
    return Claim(row["id"], row["claim"], row["status"], seen, row.get("limits", ""), row.get("probe", {}))


def chosen(known: Sequence[Claim], ids: Sequence[str]) -> list[Claim]:
    """Return the claims of these ids, or all.

    Raises:
        SkillError: There is no such claim.
    """
    names = [claim.id for claim in known]
    unknown = next((name for name in ids if name not in names), None)
    if unknown is None:
        return [claim for claim in known if not ids or claim.id in ids]
    near = get_close_matches(unknown, names, 1)
    hint = f"did you mean {near[0]}?" if near else "`skill verify --list` names them"
    raise SkillError(f"skill verify: card.yaml has no claim {shortened(unknown)}; {hint}")
