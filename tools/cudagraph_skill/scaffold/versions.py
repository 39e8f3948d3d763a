"""The releases of torch, Transformer Engine and Megatron-Core that a program is written for."""

from __future__ import annotations

import json
import re
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill.capture import interpreter
from cudagraph_skill.errors import SkillError
from cudagraph_skill.text import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Versions(NamedTuple):
    """Release (major, minor) of each package that a program is written for."""

    torch: tuple[int, int]
    transformer_engine: tuple[int, int]
    megatron_core: tuple[int, int]


# The templates were written against the sources of all releases in this range.
OLDEST = Versions((2, 4), (2, 1), (0, 14))
NEWEST = Versions((2, 15), (2, 20), (0, 19))
_REQUIREMENT = re.compile(r"([\w.-]*)\s*([<>=!~]*)\s*(.*)", re.DOTALL)  # package, comparison and version
_RELEASE = re.compile(r"v?([0-9]{1,4})\.([0-9]{1,4})(?![0-9])[\w.+*-]*")


def choose(wanted: Sequence[str], installed: Mapping[str, str]) -> Versions:
    """Return the release of each package: of `wanted` ("torch==2.6"), else of `installed`, else the newest supported.

    Args:
        wanted: Requirements as `--for` takes them.
        installed: Versions by package, such as {"torch": "2.11.0+cu130"}.

    Raises:
        SkillError: A requirement is not one release of a supported package, or two of them contradict each other.
    """
    releases: dict[str, tuple[int, int]] = {}
    for name, release in map(_requirement, wanted):
        if releases.setdefault(name, release) != release:
            both = f"{_distribution(name)} {dotted(releases[name])} and {dotted(release)}"
            raise SkillError(
                f"skill scaffold: `--for` asks for {both}: a program is written for one release, leave one of them out"
            )
    releases = dict(_requirement(f"{name}=={text}") for name, text in installed.items()) | releases
    return Versions(*(_supported(name, releases.get(name, getattr(NEWEST, name))) for name in Versions._fields))


def package_of(requirement: str) -> str:
    """Return the package that a requirement names, spelled as a field of Versions."""
    return re.sub(r"[.-]", "_", re.split(r"\s*=", requirement.strip())[0].lower())


def dotted(release: tuple[int, int]) -> str:
    """Return a release as text: "2.6" for (2, 6)."""
    return f"{release[0]}.{release[1]}"


def _distribution(name: str) -> str:
    return name.replace("_", "-")


def _requirement(text: str) -> tuple[str, tuple[int, int]]:
    """Parse "torch==2.6.1" into ("torch", (2, 6))."""
    match = _REQUIREMENT.fullmatch(text.strip())
    assert match is not None
    package, sign, version = match.groups()
    name, release = re.sub(r"[.-]", "_", package.lower()), _RELEASE.fullmatch(version)
    if name in Versions._fields and sign in ("=", "==") and release:
        return name, (int(release[1]), int(release[2]))
    if name not in Versions._fields:
        why = f"the packages are {', '.join(map(_distribution, Versions._fields))}"
    elif not sign:
        why = "it names no release"
    elif sign in ("=", "=="):
        why = f"`{version[:60]}` is not a release with a major and a minor number"
    else:
        why = f"`{sign[:9]}` does not select a single release"
    raise SkillError(
        f"skill scaffold: `--for {quoted(text[:60])}`: {why}; write one release of one package, such as torch==2.6"
    )


def _supported(name: str, release: tuple[int, int]) -> tuple[int, int]:
    oldest, newest = getattr(OLDEST, name), getattr(NEWEST, name)
    if oldest <= release <= newest:
        return release
    nearest = oldest if release < oldest else newest
    package = _distribution(name)
    raise SkillError(
        f"skill scaffold: {package} {dotted(release)} is outside the supported range ({dotted(oldest)} to {dotted(newest)}); "
        f"nearest: `--for {package}=={dotted(nearest)}`"
    )


# Installed releases ---------------------------------------------------------------------------------------------------

DEADLINE = 20.0  # seconds; a warm interpreter answers in 0.05
_QUESTION = """
import json
from importlib.metadata import PackageNotFoundError, version
found = {}
for package, names in %r.items():
    for name in names:
        try:
            found.setdefault(package, version(name))
        except PackageNotFoundError:
            pass
print(json.dumps(found))
"""


def installed(python: str) -> dict[str, str]:
    """Return the installed versions of the three packages, such as {"torch": "2.11.0+cu130"}, without importing them.

    Raises:
        SkillError: The interpreter cannot be started, or does not answer (exit code 3).
    """
    command = [interpreter.interpreter(python), "-"]  # not -c: a program other than Python would quote the whole question
    packages = {name: interpreter.DISTRIBUTIONS[name] for name in Versions._fields}
    try:
        out, err = interpreter.answered(command, DEADLINE, (_QUESTION % packages).encode())
    except OSError as error:
        raise SkillError(f"{python}: {error.strerror}; name the Python that has torch with `--python`", 3) from None
    except subprocess.TimeoutExpired:
        raise SkillError(
            f"{python} reported no torch version within {DEADLINE:g} s; name another Python with `--python`", 3
        ) from None
    with suppress(ValueError):
        answer: Any = json.loads(out)
        if isinstance(answer, dict):
            return {str(name): str(version) for name, version in answer.items()}
    last = (err.decode("utf-8", "replace").strip().split("\n") or [""])[-1]
    raise SkillError(
        f"{python} reported no torch version{': ' * bool(last)}{last[:200]}; name a Python 3.10 or newer with `--python`",
        3,
    )
