"""Where the skill's own files are: a checkout, an editable install or a wheel."""

from __future__ import annotations

import os
from pathlib import Path

from cudagraph_skill.errors import SkillError

_PACKAGE = Path(__file__).resolve().parent


def skill_root() -> Path:
    """Return the folder that holds SKILL.md, card.yaml and references/.

    Raises:
        SkillError: neither the checkout around this package nor the copy inside a wheel is complete.
    """
    for folder in (_PACKAGE.parent.parent, _PACKAGE / "_skill"):
        if (folder / "SKILL.md").is_file() and (folder / "card.yaml").is_file():
            return folder
    raise SkillError(f"SKILL.md and card.yaml are missing beside {_PACKAGE}: install cudagraph-skill again", 3)


def cache_dir() -> Path:
    """Return the user's cache folder for search indexes; it need not exist. CUDAGRAPH_SKILL_CACHE overrides XDG_CACHE_HOME.

    Raises:
        OSError: the user has no home folder and neither variable is set.
    """
    if named := os.environ.get("CUDAGRAPH_SKILL_CACHE"):
        return Path(named).expanduser()
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    if xdg.startswith("/"):  # the specification has relative paths ignored
        return Path(xdg) / "cudagraph-skill"
    home = os.path.expanduser("~")  # noqa: PTH111 - Path.home() raises RuntimeError where this returns "~"
    if not home.startswith("/"):
        raise OSError("no home folder")
    return Path(home) / ".cache" / "cudagraph-skill"
