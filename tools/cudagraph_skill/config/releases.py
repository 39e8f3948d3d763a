"""The releases of Megatron-Core, Megatron-Bridge and Transformer Engine that configurations are checked for."""

from __future__ import annotations

import re
from importlib import metadata
from typing import TYPE_CHECKING, NamedTuple

from cudagraph_skill.errors import SkillError
from cudagraph_skill.text import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

Release = tuple[int, ...]

# First and last release whose source was read. What constraints depend on changed between minor releases, but for one in 0.18.2.
_KNOWN: dict[str, tuple[Release, Release]] = {
    "megatron-core": ((0, 14), (0, 19)),
    "megatron-bridge": ((0, 2), (0, 6)),
    "transformer-engine": ((2, 0), (2, 20)),
}
# The Megatron-Core of each Bridge release: its submodule 3rdparty/Megatron-LM.
_CORE_OF_BRIDGE: dict[Release, Release] = {(0, 2): (0, 15), (0, 3): (0, 16), (0, 4): (0, 17), (0, 5): (0, 18), (0, 6): (0, 19)}
_REQUIREMENT = re.compile(r"([\w.-]+?)\s*==\s*(\S+)")
_RELEASE = re.compile(r"(?:core_)?v?(\d{1,4}(?:\.\d{1,4}){1,3})(?![\d.])[\w+.-]*")


class Releases(NamedTuple):
    """Release of each package, as (major, minor, ...); None where it is not known.

    Attributes:
        notes: How they came about where the user did not say.
    """

    core: Release
    bridge: Release | None
    engine: Release | None
    notes: tuple[str, ...] = ()


def dotted(release: Release) -> str:
    """Spell a release: "0.18.2"."""
    return ".".join(map(str, release))


def choose(wanted: Sequence[str], bridge_used: bool) -> Releases:
    """Return the releases that `--for` names, else those installed, else what a Bridge release brings, else the newest.

    Args:
        wanted: Requirements such as "megatron-core==0.16.1".
        bridge_used: Whether the configuration is one of Megatron-Bridge.

    Raises:
        SkillError: A requirement names another package, no release, or one outside of those that were read.
    """
    named: dict[str, Release] = {}
    for text in wanted:
        name, release = _named(text)
        if named.setdefault(name, release) != release:
            both = f"{dotted(named[name])} and {dotted(release)}"
            raise SkillError(f"skill config: `--for` asks for {name} {both}; leave one of them out")
    installed = {} if named else {name: found for name in _KNOWN if (found := _installed(name))}
    notes = [f"checked for the installed {name} {dotted(release)}" for name, release in installed.items()]
    releases = named | installed
    core, bridge = releases.get("megatron-core"), releases.get("megatron-bridge")
    if bridge is None and bridge_used:
        bridge = _bridge_of(core)
        notes += (
            [f"checked for megatron-bridge {dotted(bridge)}; name yours with --for megatron-bridge==VERSION"] if bridge else []
        )
    if core is None:
        core = _CORE_OF_BRIDGE[bridge[:2]] if bridge else _KNOWN["megatron-core"][1]
        reason = f"that of megatron-bridge {dotted(bridge)}" if bridge else "the newest that was read"
        notes.append(f"checked for megatron-core {dotted(core)}, {reason}; name yours with --for megatron-core==VERSION")
    return Releases(core, bridge, releases.get("transformer-engine"), tuple(notes))


def _bridge_of(core: Release | None) -> Release | None:
    """Return the Bridge release that brings a release of Megatron-Core, the newest where none was named."""
    if core is None:
        return _KNOWN["megatron-bridge"][1]
    return next((bridge for bridge, brought in _CORE_OF_BRIDGE.items() if brought == core[:2]), None)


def _named(text: str) -> tuple[str, Release]:
    match = _REQUIREMENT.fullmatch(text.strip())
    name = re.sub(r"[._]", "-", match[1].lower()) if match else ""
    name = {"te": "transformer-engine", "mcore": "megatron-core", "transformer-engine-torch": "transformer-engine"}.get(
        name, name
    )
    if not match or name not in _KNOWN:
        raise SkillError(
            f"skill config: `--for {quoted(text)}` is not a package and its release: write {', '.join(_KNOWN)} "
            "with a version, as in `--for megatron-core==0.18.2`"
        )
    release = _release(match[2])
    oldest, newest = _KNOWN[name]
    if release is None or not oldest <= release[:2] <= newest:
        raise SkillError(
            f"skill config: {name} {match[2]} is not a release that was read: those from {dotted(oldest)} to {dotted(newest)} were"
        )
    return name, release


def _release(text: str) -> Release | None:
    match = _RELEASE.fullmatch(text)
    return tuple(map(int, match[1].split("."))) if match else None


def _installed(name: str) -> Release | None:
    """Return the release of an installed package, at most the newest that was read."""
    distributions = {"transformer-engine": ("transformer-engine", "transformer-engine-torch")}.get(name, (name,))
    for distribution in distributions:
        try:
            release = _release(metadata.version(distribution))
        except metadata.PackageNotFoundError:
            continue
        oldest, newest = _KNOWN[name]
        return None if release is None or release[:2] < oldest else release if release[:2] <= newest else newest
    return None
