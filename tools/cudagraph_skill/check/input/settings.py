"""Which hazards are reported and which files are read: `[tool.cudagraph-skill]` of a pyproject.toml, overridden by flags.

[tool.cudagraph-skill]
select = ["CG1", "CG2"]      # ids or their beginnings; default all
ignore = ["CG108"]
exclude = ["third_party"]    # names of files or folders, or globs from this file's folder
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill.check import hazards
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    from collections.abc import Iterable

_TABLE = "cudagraph-skill"
_KEYS = ("select", "ignore", "exclude")
_NEVER = (".*", "__pycache__", "node_modules", "site-packages", "venv", "build", "dist", "*.egg-info")


class Options(NamedTuple):
    """What to report and read: beginnings of ids, globs; `every`: each forward, and each function with tensor arguments, counts as captured."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    every: bool = False


def chosen(id_: str, options: Options) -> bool:
    """Whether findings of this id are wanted; the longest beginning decides, `ignore` over `select`."""
    wanted = max((len(each) for each in options.select if id_.startswith(each)), default=0 if not options.select else -1)
    refused = max((len(each) for each in options.ignore if id_.startswith(each)), default=-1)
    return wanted >= 0 and refused < max(wanted, 1)


def excluded(path: Path, options: Options) -> bool:
    """Whether a file or folder met on the way through a folder is left out: by its name, or by a glob of its whole path."""
    from fnmatch import fnmatchcase  # noqa: PLC0415 - needed for folders only

    if any(fnmatchcase(path.name, each) for each in (*_NEVER, *options.exclude)):
        return True
    whole = str(path.absolute())
    return any("/" in each and fnmatchcase(whole, each) for each in options.exclude)


def settings(target: Path, flags: Options) -> Options:
    """The options for one target: what its project says, each key overridden by a flag that was given.

    Raises:
        SkillError: a key or a value that means nothing.
    """
    said = _project(target)
    if flags.select:
        said["select"] = _ids(flags.select, "--select")
    if flags.ignore:
        said["ignore"] = _ids(flags.ignore, "--ignore")
    if flags.exclude:
        said["exclude"] = _globs(flags.exclude, Path.cwd())
    return Options(**said, every=flags.every)


def _project(target: Path) -> dict[str, tuple[str, ...]]:
    """The table of the nearest pyproject.toml that has one, at or above the target."""
    absolute = target.absolute()
    for folder in (absolute, *absolute.parents):
        file = folder / "pyproject.toml"
        try:
            data = file.read_bytes()
        except OSError:
            continue
        if _TABLE.encode() in data and (table := _table(file, data)) is not None:
            return _checked(file, table)
    return {}


def _table(file: Path, data: bytes) -> Any:
    import tomllib  # noqa: PLC0415 - few projects have settings

    try:
        tool = tomllib.loads(data.decode("utf-8-sig").replace("\r\n", "\n")).get("tool", {})
    except (ValueError, RecursionError) as error:
        raise SkillError(f"{file}: this is no TOML: {error}") from None
    return tool.get(_TABLE) if isinstance(tool, dict) else None


def _checked(file: Path, table: Any) -> dict[str, tuple[str, ...]]:
    where = f"{file}: [tool.{_TABLE}]"
    if not isinstance(table, dict):
        raise SkillError(f"{where} is no table: give it the keys {', '.join(_KEYS)}")
    said: dict[str, tuple[str, ...]] = {}
    for key, value in table.items():
        if key not in _KEYS:
            raise SkillError(f"{where} has the key `{key}`, which means nothing: it may have {', '.join(_KEYS)}")
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise SkillError(f"{where}: `{key}` must be a list of strings")
        said[key] = _globs(value, file.parent) if key == "exclude" else _ids(value, f"{where}: `{key}`")
    return said


def _ids(words: Iterable[str], where: str) -> tuple[str, ...]:
    """Ids, their beginnings or names, as ids; a flag may have several with commas between them."""
    table = hazards.table()
    names = {each.name: each.id for each in table.values()}
    found = []
    for word in (part.strip() for each in words for part in each.split(",")):
        id_ = names.get(word.lower(), word.upper())
        if not re.fullmatch(r"CG\d{0,3}", id_) or not any(each.startswith(id_) for each in table):
            raise SkillError(f"{where}: `{word}` is no hazard: give an id such as CG201, or the beginning of ids such as CG2")
        found.append(id_)
    return tuple(found)


def _globs(words: Iterable[str], folder: Path) -> tuple[str, ...]:
    """Globs with a slash as absolute ones; those without are compared with names."""
    stripped = (each.strip().removeprefix("./").rstrip("/") for word in words for each in word.split(","))
    return tuple(
        each if "/" not in each or each.startswith("/") else f"{folder.absolute()}/{each}" for each in stripped if each
    )
