"""Read settings: `[tool.cudagraph-skill]` of a pyproject.toml, overridden by flags.

[tool.cudagraph-skill]
select = ["CG1", "CG2"]      # ids or their beginnings; default all
ignore = ["CG108"]
exclude = ["third_party"]    # names of files or folders, or globs from this file's folder
"""

from __future__ import annotations

import math
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


LIKELY = "LIKELY"  # among ids: findings that are not certain


class Options(NamedTuple):
    """Select hazards by the beginnings of their ids and files by globs.

    `every` treats as captured every forward(), each function with tensor arguments, and methods of modules that the file does not
    call; `explain` keeps what a finding rests on; `python` names the interpreter whose packages are read. `until` is when
    reading one file has to end, by `time.monotonic`.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    every: bool = False
    explain: bool = False
    python: str = ""
    until: float = math.inf


def chosen(id_: str, options: Options, *, certain: bool = True) -> bool:
    """Return whether findings of this id are wanted; the longest matching prefix decides, `ignore` before `select`.

    The word `likely`, which is longer than any id, names all findings that are not certain.
    """
    names = (id_,) if certain else (id_, LIKELY)
    wanted = max((len(prefix) for prefix in options.select if _begins(names, prefix)), default=0 if not options.select else -1)
    refused = max((len(prefix) for prefix in options.ignore if _begins(names, prefix)), default=-1)
    return wanted >= 0 and refused < max(wanted, 1)


def _begins(names: tuple[str, ...], prefix: str) -> bool:
    return any(name.startswith(prefix) for name in names)


def excluded(path: Path, options: Options) -> bool:
    """Return whether to skip a file or folder, by its name or by a glob of its absolute path."""
    from fnmatch import fnmatchcase  # noqa: PLC0415 - needed for folders only

    if any(fnmatchcase(path.name, pattern) for pattern in (*_NEVER, *options.exclude)):
        return True
    whole = str(path.absolute())
    return any("/" in pattern and fnmatchcase(whole, pattern) for pattern in options.exclude)


def settings(target: Path, flags: Options) -> Options:
    """Return the options for one target: those of its project, overridden by flags.

    Raises:
        SkillError: a key or a value is not known.
    """
    chosen_options = _project(target)
    if flags.select:
        chosen_options["select"] = _ids(flags.select, "--select")
    if flags.ignore:
        chosen_options["ignore"] = _ids(flags.ignore, "--ignore")
    if flags.exclude:
        chosen_options["exclude"] = _globs(flags.exclude, Path.cwd())
    select, ignore, exclude = (chosen_options.get(key, ()) for key in ("select", "ignore", "exclude"))
    return flags._replace(select=select, ignore=ignore, exclude=exclude)


def _project(target: Path) -> dict[str, tuple[str, ...]]:
    """Return the settings of the nearest pyproject.toml that has some, at or above the target."""
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
        raise SkillError(f"{file} is not valid TOML: {error}") from None
    return tool.get(_TABLE) if isinstance(tool, dict) else None


def _checked(file: Path, table: Any) -> dict[str, tuple[str, ...]]:
    where = f"{file}: [tool.{_TABLE}]"
    if not isinstance(table, dict):
        raise SkillError(f"{where} is not a table: give it the keys {', '.join(_KEYS)}")
    checked: dict[str, tuple[str, ...]] = {}
    for key, value in table.items():
        if key not in _KEYS:
            raise SkillError(f"{where} has the key `{key}`, which is not known: it may have {', '.join(_KEYS)}")
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise SkillError(f"{where}: `{key}` must be a list of strings")
        checked[key] = _globs(value, file.parent) if key == "exclude" else _ids(value, f"{where}: `{key}`")
    return checked


def _ids(words: Iterable[str], where: str) -> tuple[str, ...]:
    """Resolve ids, prefixes of ids and names to ids; a flag may hold several, separated by commas."""
    table = hazards.table()
    names = {hazard.name: hazard.id for hazard in table.values()}
    ids = []
    for word in (part.strip() for flag in words for part in flag.split(",")):
        if word.upper() == LIKELY:
            ids.append(LIKELY)
            continue
        id_ = names.get(word.lower(), word.upper())
        if not re.fullmatch(r"CG\d{0,3}", id_) or not any(known.startswith(id_) for known in table):
            raise SkillError(f"{where}: `{word}` is not a hazard: give an id such as CG201, a prefix such as CG2, or likely")
        ids.append(id_)
    return tuple(ids)


def _globs(words: Iterable[str], folder: Path) -> tuple[str, ...]:
    """Make globs with a slash absolute; those without match names."""
    stripped = (part.strip().removeprefix("./").rstrip("/") for flag in words for part in flag.split(","))
    return tuple(
        pattern if "/" not in pattern or pattern.startswith("/") else f"{folder.absolute()}/{pattern}"
        for pattern in stripped
        if pattern
    )
