"""Phrases and signatures that the references were read by, looked up again in the sources.

    python tests/anchors.py torch@2.15=/path/to/torch-2.15/site-packages    phrases read in one version, in a folder
    python tests/anchors.py releases FOLDER Megatron-LM=/path/to/clone NVIDIA-NeMo/Megatron-Bridge=/path/to/clone

A source such as `torch@2.13 torch/cuda/graphs.py "keep_graph"` is an anchor: package and version, a file below the folder given
for it, a phrase that stands there. CI does this with the torch that it installs.

A source with ranges of releases says more: the file holds the phrase, or the signature (`signatures.py`), in each release of
the ranges, and in no other release of `RELEASES`.

    MCore@0.18- megatron/core/transformer/transformer_config.py TransformerConfig.cuda_graph_use_single_mempool=True
    TE@2.6-2.8 transformer_engine/pytorch/graph.py make_graphed_callables(fp8_weight_caching=False)
    Megatron-LM@-0.14,0.16- megatron/training/arguments.py "a phrase that 0.15 lacked"

`0.18` is every release 0.18.x, `-` alone every release, `none` no release. TE, MCore and Bridge are the wheels of
transformer-engine, megatron-core and megatron-bridge, which the command downloads to FOLDER and reads without installing them.
Command-line options, training loops, scripts, C++ and older releases are only in the repositories: Megatron-LM,
NVIDIA-NeMo/Megatron-Bridge and NVIDIA/TransformerEngine are tags of a clone; megatron/training is in the wheels since 0.17.
The result is kept in tests/anchored.json, and tests/test_anchors.py holds that it covers today's sources.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
import subprocess
import sys
import zipfile
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import signatures
from cudagraph_skill.corpus import load
from cudagraph_skill.paths import skill_root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cudagraph_skill.corpus.section import Section

KEPT = Path(__file__).resolve().parent / "anchored.json"

_CORE = "0.14.0 0.15.0 0.15.3 0.16.0 0.16.1 0.17.0 0.17.1 0.18.0 0.18.2 0.19.0"
_BRIDGE = "0.3.0 0.3.1 0.4.0 0.4.1 0.4.2 0.5.0 0.5.1 0.6.0"
RELEASES = {  # what is read, oldest first
    "TE": "1.10.0 1.11.0 1.12.0 1.13.0 2.1.0 2.2.0 2.3.0 2.4.0 2.5.0 2.6.0 2.6.0.post1 2.7.0 2.8.0 2.9.0 2.10.0 2.11.0 2.12.0 "
    "2.13.0 2.14.0 2.14.1 2.15.0 2.16.0 2.16.1 2.17.0 2.17.1 2.18.0 2.19.0 2.20.2".split(),
    "MCore": f"{_CORE} 0.19.2".split(),
    "Bridge": f"{_BRIDGE} 0.6.2".split(),
    "Megatron-LM": f"0.10.0 0.11.0 0.12.0 0.12.3 0.13.0 0.13.1 {_CORE}".split(),
    "NVIDIA-NeMo/Megatron-Bridge": f"0.1.0rc3 0.2.0 0.2.1 0.2.2 {_BRIDGE}".split(),
    "NVIDIA/TransformerEngine": "1.4.0 1.5.0 1.6.0 1.7.0 1.8.0 1.9.0 1.10.0 1.11.0 1.12.0 1.13.0 2.0.0 2.1.0 2.2.0 2.2.1 2.3.0 "
    "2.4.0 2.5.0 2.6.0 2.7.0 2.8.0 2.9.0 2.10.0 2.11.0 2.12.0 2.13.0 2.14.0 2.14.1 2.15.0 2.16.0 2.16.1 2.17.0 2.17.1 "
    "2.18.0".split(),
    # for tests/edges.py: the Python files, and the compiled libraries of one release of each minor
    "torch": "1.9.0 1.10.2 1.11.0 1.12.0 1.12.1 1.13.1 2.0.0 2.0.1 2.1.0 2.1.1 2.1.2 2.2.0 2.2.1 2.2.2 2.3.0 2.3.1 2.4.0 "
    "2.4.1 2.5.0 2.5.1 2.6.0 2.7.0 2.7.1 2.8.0 2.9.0 2.9.1 2.10.0 2.11.0 2.12.0 2.12.1 2.13.0 2.14.0 2.14.1 2.15.0".split(),
    "libtorch": "2.0.1 2.1.0 2.1.1 2.2.2 2.3.1 2.4.1 2.5.1 2.6.0 2.7.1 2.8.0 2.9.1 2.10.0 2.11.0 2.12.1 2.13.0 2.14.1 "
    "2.15.0".split(),
}
_WHEELS = {"TE": "transformer-engine", "MCore": "megatron-core", "Bridge": "megatron-bridge"}
# what stands before the version; the tags of Transformer Engine leave out a last zero
_TAGS = {"Megatron-LM": "core_v", "NVIDIA-NeMo/Megatron-Bridge": "v", "NVIDIA/TransformerEngine": "v"}

_ANCHOR = re.compile(r'(\S+?@(?!none )[\w.]+) (\S+) "(.+)"')
_RANGED = re.compile(r"([\w./-]+)@((?=[\d.,-]*-)[\d.,-]+|none) (\S+) (.+)")


class Anchor(NamedTuple):
    """Where a section's fact was read."""

    ref: str
    package: str
    path: str
    phrase: str


class Ranged(NamedTuple):
    """A source with ranges: `claim` is a phrase in quotes or a signature, `ranges` the releases that hold it."""

    source: str
    package: str
    ranges: str
    path: str
    claim: str

    @property
    def releases(self) -> list[str]:
        """Return the releases that the ranges name."""
        known = RELEASES[self.package]
        parts = [] if self.ranges == "none" else self.ranges.split(",")
        return [release for release in known if any(_within(known, release, part) for part in parts)]


def anchors(sections: Iterable[Section]) -> list[Anchor]:
    """Return all sources of one version, in order."""
    matches = ((section.ref, _ANCHOR.fullmatch(source)) for section in sections for source in section.sources)
    return [Anchor(ref, *match.groups()) for ref, match in matches if match]


def ranged(sections: Iterable[Section]) -> list[Ranged]:
    """Return all sources with ranges, each once, sorted."""
    sources = sorted({source for section in sections for source in section.sources})
    return [found for source in sources if (found := parsed(source))]


def parsed(source: str) -> Ranged | None:
    """Return a source with ranges, or None if it is of another form."""
    match = _RANGED.fullmatch(source)
    return Ranged(source, *match.groups()) if match else None


def digest(wanted: Iterable[Ranged]) -> str:
    """Return a hash of the text of the sources."""
    return hashlib.sha256("\n".join(anchor.source for anchor in wanted).encode()).hexdigest()[:16]


def gone(wanted: Iterable[Anchor], folder: Path) -> list[Anchor]:
    """Return the anchors whose phrase is missing from their file below `folder`."""
    return [anchor for anchor in wanted if not _stands(folder / anchor.path, anchor.phrase)]


def stale(anchor: Ranged, read: Callable[[str, str], str | None]) -> str:
    """Return what is wrong with an anchor, or nothing; `read` returns the text of a release's file, or None."""
    known, named = RELEASES[anchor.package], anchor.releases
    if all(read(release, anchor.path) is None for release in known):
        return "no release has this file"
    wrong = [
        f"{'not in' if release in named else 'also in'} {release}"
        for release in known
        if _holds(anchor, partial(read, release)) != (release in named)
    ]
    return ", ".join(wrong)


def _within(known: list[str], release: str, part: str) -> bool:
    """Return whether a release is in a range such as `0.16-0.18`, `0.18-` or `-`, whose ends are known."""
    first, _, last = part.partition("-")
    ends = [[number for number, name in enumerate(known) if f"{name}.".startswith(f"{end}.")] for end in (first, last) if end]
    if not all(ends):
        raise ValueError(f"a release of {part} is not in {' '.join(known)}")
    number = known.index(release)
    return (not first or number >= ends[0][0]) and (not last or number <= ends[-1][-1])


def _holds(anchor: Ranged, read: signatures.Read) -> bool:
    if anchor.claim.startswith('"'):
        text = read(anchor.path)
        return text is not None and anchor.claim[1:-1] in text
    return signatures.holds(anchor.claim, anchor.path, read)


def _stands(path: Path, phrase: str) -> bool:
    return path.is_file() and phrase in path.read_text(encoding="utf-8", errors="replace")


def in_wheel(wheel: Path, path: str) -> str | None:
    """Return the text of a wheel's file, or None if it has no such file."""
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(path).decode(errors="replace") if path in archive.namelist() else None


def _at_tag(clone: str, tag: str, path: str) -> str | None:
    command = ["git", "-C", clone, "cat-file", "blob", f"refs/tags/{tag}:{path}"]
    done = subprocess.run(command, capture_output=True, check=False)
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None


def _wheel(folder: Path, name: str, release: str) -> Path:
    """Return the wheel of a release for Python 3.12, downloaded if it is not in `folder`."""
    pattern = f"{name.replace('-', '_')}-{release}-*.whl"
    if not any(folder.glob(pattern)):
        options = "download --quiet --no-deps --only-binary :all: --python-version 3.12 --disable-pip-version-check".split()
        command = [sys.executable, "-m", "pip", *options, "--dest", str(folder), f"{name}=={release}"]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return next(folder.glob(pattern))


def reader(package: str, folder: Path, clones: dict[str, str]) -> Callable[[str, str], str | None]:
    """Return a function of a release and a path, which returns the file's text."""
    if package in _WHEELS:
        wheels = {release: _wheel(folder, _WHEELS[package], release) for release in RELEASES[package]}
        return cache(lambda release, path: in_wheel(wheels[release], path))
    clone = clones[package]
    end = ".0" if package == "NVIDIA/TransformerEngine" else ""
    tags = {release: f"{_TAGS[package]}{release.removesuffix(end)}" for release in RELEASES[package]}
    for tag in tags.values():
        subprocess.run(["git", "-C", clone, "show-ref", "--verify", "--quiet", f"refs/tags/{tag}"], check=True)
    return cache(lambda release, path: _at_tag(clone, tags[release], path))


def releases(folder: Path, clones: dict[str, str]) -> int:
    """Check all sources with ranges in all releases and keep the result; return 1 if one is stale."""
    wanted = ranged(load.sections(load.documents(skill_root())))
    folder.mkdir(parents=True, exist_ok=True)
    packages = sorted({anchor.package for anchor in wanted})
    readers = {package: reader(package, folder, clones) for package in packages}
    wrong = {anchor.source: stale(anchor, readers[anchor.package]) for anchor in wanted}
    kept = {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "digest": digest(wanted),
        "releases": {package: " ".join(RELEASES[package]) for package in packages},
        "anchors": {source: why or "passed" for source, why in wrong.items()},
    }
    KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    bad = {source: why for source, why in wrong.items() if why}
    print(f"{len(wanted)} sources, {sum(len(RELEASES[package]) for package in packages)} releases, {len(bad)} stale")
    print(*(f"  {source}\n    {why}" for source, why in bad.items()), sep="\n", end="\n" if bad else "")
    return 1 if bad else 0


def main() -> int:
    """Look up the anchors of each PACKAGE@VERSION=FOLDER, or those of all releases; exit 1 if one is stale."""
    if sys.argv[1:2] == ["releases"]:
        folder, *clones = sys.argv[2:]
        return releases(Path(folder), dict(clone.split("=", 1) for clone in clones))
    every = anchors(load.sections(load.documents(skill_root())))
    lost = 0
    for argument in sys.argv[1:]:
        package, _, folder = argument.partition("=")
        mine = [anchor for anchor in every if anchor.package == package]
        missing = gone(mine, Path(folder))
        print(f"{package}: {len(mine)} anchors, {len(missing)} gone", *missing, sep="\n  ")
        lost += len(missing)
    if not sys.argv[1:]:
        print(*sorted({anchor.package for anchor in every}), sep="\n")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
