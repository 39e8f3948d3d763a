"""Keep what was installed where, so that it can be taken out again as it was."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from cudagraph_skill import files
from cudagraph_skill.setup.clients import places


def _file(path: Path) -> Path:
    xdg = os.environ.get("XDG_STATE_HOME", "")
    base = Path(xdg) if xdg.startswith("/") else Path(places()["home"], ".local", "state")
    return base / "cudagraph-skill" / f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:24]}.json"


def read(path: Path) -> dict[str, Any]:
    """Return what was kept about a file or folder; nothing where there is no receipt that can be read."""
    with suppress(OSError, ValueError):
        kept = json.loads(_file(path).read_text(encoding="utf-8"))
        if isinstance(kept, dict) and kept.get("path") == str(path):
            return kept
    return {}


def write(path: Path, kept: dict[str, Any]) -> None:
    """Keep what was done to a file or folder.

    Raises:
        OSError: It cannot be kept.
    """
    file = _file(path)
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    files.save(json.dumps({"path": str(path), **kept}, indent=1), file, force=True)


def remove(path: Path) -> None:
    """Forget a file or folder."""
    with suppress(OSError):
        _file(path).unlink()
