"""Ranges of releases that the text claims, and the facts that hold both edges of each.

    python tests/edges.py                 list the claims that nothing holds, and count all by package
    python tests/edges.py FOLDER Megatron-LM=CLONE NVIDIA-NeMo/Megatron-Bridge=CLONE NVIDIA/TransformerEngine=CLONE
                                          look up every fact in the packages, and keep the result in tests/edges.json

"torch >=2.13", "up to torch 2.12", "MCore 0.15 to 0.17", or "since 2.6" where the package was named before, is a claim with
one edge or two. An edge lies between two neighbouring releases: what is said is true of one and not of the other.
tests/edges.txt has the facts, each on a line: words that stand in the claim's line or anchor, and a source with ranges, as
tests/anchors.py reads it.

    keep_graph = torch@2.8- torch/cuda/graphs.py "keep_graph"
    #stale-default-stream = libtorch@2.13- libtorch_cpu.so "has a stale reference to the default stream"

A claim holds if facts whose words are near it, or ranged sources of what it names, have all its edges. The ranged sources of
its section count where there are none of these. A phrase may also show what one package asks of another: it names both the
other package and the release.

    #delayed-wgrad-in-graph-engine = Megatron-LM@0.17- megatron/training/arguments.py "requires TE version >= 2.12.0."

`torch` is the smallest wheel of a release: Python files, stubs, headers. `libtorch` is the printable text of the libraries in
its CUDA wheel, one release of each minor; GCC may cut a text in two there. FOLDER keeps both, 4 GB. A line
`? FILE#anchor torch >=2.13` is a claim that nothing holds yet.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import subprocess
import sys
import zipfile
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import anchors
from cudagraph_skill.corpus.load import documents
from cudagraph_skill.corpus.load import sections as read_sections
from cudagraph_skill.paths import skill_root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from cudagraph_skill.corpus.section import Section

HERE = Path(__file__).resolve().parent
KEPT = HERE / "edges.json"
FACTS = HERE / "edges.txt"

HELD = {"torch": "torch", "libtorch": "torch", "TE": "TE", "MCore": "MCore", "Megatron-LM": "MCore", "Bridge": "Bridge"}
HELD |= {"NVIDIA-NeMo/Megatron-Bridge": "Bridge", "NVIDIA/TransformerEngine": "TE"}  # what a source's package is in the text

_NAMES = {  # how the text names a package, and what its versions look like
    "torch": (r"torch|PyTorch", r"1\.(9|1[0-3])(\.\d)?$|2\.(\d|1[0-5])(\.\d)?$"),
    "TE": (r"TE|Transformer Engine|TransformerEngine|transformer-engine", r"[12]\.\d"),
    "MCore": (r"MCore|megatron-core|Megatron-Core|Megatron-LM|Megatron", r"0\.1\d"),
    "Bridge": (r"Bridge|megatron-bridge|Megatron-Bridge", r"0\.[1-6](\.\d)?$"),
    "CUDA": (r"CUDA|toolkit", r"1[0-3]\.\d"),
    "driver": (r"drivers?", r"[345]\d\d\.|1[0-3]\.\d"),
    "NCCL": (r"NCCL", r"2\.\d"),
    "vLLM": (r"vLLM|vllm", r"0\.\d"),
    "SGLang": (r"SGLang|sglang", r"0\.\d"),
    "transformers": (r"transformers", r"[45]\.\d"),
    "other": (
        r"Python|cuDNN|CUPTI|ROCm|cuBLAS|cuda[.-]bindings|Triton|FlashInfer|Lightning|accelerate|"
        r"TensorRT-LLM|torchao|WSL|flash-attention|cuda\.core",
        r"\d",
    ),
}
_HOME = [
    ("api-megatron-bridge", "Bridge"),
    ("megatron|constraints", "MCore TE"),
    ("pytorch|compile|autograd|capture|graph", "torch"),
]
_ANY = "|".join(names for names, _ in _NAMES.values())
_NAME = re.compile(
    r"(?<![\w./-])(?:" + "|".join(f"(?P<{name}>{names})" for name, (names, _) in _NAMES.items()) + r")(?![\w(/.=])"
)
_V = r"v?(\d+(?:\.\d+){1,2})(?![\d%xX])(?!\.\d)(?! (?:ms|us|µs|s|GiB|MB|times|x|tokens|nightlies)\b)"
_RANGE = re.compile(
    rf"""(?P<op>>=|<=|(?<=[\w ])<|(?<=[\w ])>)\s?{_V}(?:(?:,|,?\ and)?\ ?(?P<op2><=|<)\ ?{_V})?
    |\b(?P<word>since|from|until|up\ to|before|after|through)\ (?P<name>{_ANY})?(?:`|\*\*)?\ ?{_V}
        (?:\ (?P<to>to|until|through|up\ to)\ {_V})?
    |(?<![\d.\w-]){_V}\ (?P<span>to|through|until|up\ to|-)\ {_V}
    |(?<![\d.\w-]){_V}(?:\ (?:and|or)\ (?P<open>later|newer|above|up|older|earlier|before)\b|(?P<plus>\+)(?!\w))""",
    re.VERBOSE | re.IGNORECASE,
)
_OPENING = {"since": ">=", "from": ">=", "until": "<=", "up to": "<=", "through": "<=", "before": "<", "after": ">"}
_OPENING |= {"older": "<=", "earlier": "<=", "before ": "<"}


class Claim(NamedTuple):
    """A range in a line of a section: of `package`, with `edges` such as (">=", "2.13")."""

    section: Section
    line: str
    text: str
    package: str
    edges: tuple[tuple[str, str], ...]

    @property
    def key(self) -> str:
        """Return how a `?` line names the claim."""
        return f"{Path(self.section.path).stem}#{self.section.anchor} {self.package} {self.text}"

    @property
    def near(self) -> str:
        """Return the text in which a fact's words must stand: the line, or a whole entry of Megatron's."""
        whole = self.package != "torch" and self.line.startswith(("- **Versions**", "- **Raised by** "))
        return f"#{self.section.anchor} {self.section.text if whole else self.line}"


class Fact(NamedTuple):
    """Words of a claim's line in lower case, and the source that holds its edges."""

    words: tuple[str, ...]
    source: anchors.Ranged


def claims(sections: Iterable[Section]) -> Iterator[Claim]:
    """Yield every range of releases in headings and text, in order."""
    for section in sections:
        before: list[str] = []
        for line in (section.headings[-1], *section.text.split("\n")):
            # Not claims: what a page was read in, headings of tables by release, and what a fence needs to run.
            if re.match(r"Read |```|.* by (release|version)", line):
                continue
            names = [(match.start(), str(match.lastgroup)) for match in _NAME.finditer(line)]
            for match in _RANGE.finditer(line):
                edges = _edges(match)
                here = [name for start, name in names if start <= (match.end() if match["name"] else match.start())]
                package = _package(section.path, [*here[::-1], *before[::-1]], edges[0][1])
                if package and all(re.match(_NAMES[package][1], version) for _, version in edges):
                    yield Claim(section, line, match.group(), package, edges)
            before += [name for _, name in names]


def _edges(match: re.Match[str]) -> tuple[tuple[str, str], ...]:
    first, *rest = [group for group in match.groups() if group and re.fullmatch(r"\d+(\.\d+){1,2}", group)]
    if match["op"]:
        return ((match["op"], first), *((match["op2"], last) for last in rest))
    if match["word"]:
        return ((_OPENING[match["word"].lower()], first), *(("<=", last) for last in rest))
    if match["span"]:
        return ((">=", first), ("<=", rest[0]))
    return ((_OPENING.get((match["open"] or "").lower(), ">="), first),)


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _package(path: str, named: list[str], version: str) -> str:
    """Return the package that a range is of: the one named last, or the topic of the file, whose versions look like this."""
    home = next((names.split() for pattern, names in _HOME if re.search(pattern, path)), ["torch"])
    if named and not re.match(_NAMES[named[0]][1], version) and len(named) == 1 and named[0] == "other":
        return ""
    return next((name for name in [*named, *home] if re.match(_NAMES[name][1], version)), "")


def _minor(release: str) -> str:
    return ".".join(release.split(".")[:2])


@cache
def order(package: str) -> list[str]:
    """Return all releases of a package of the text that were read, as wheels or as tags, oldest first."""
    known = {release for source, held in HELD.items() if held == package for release in anchors.RELEASES[source]}
    return sorted(known, key=lambda release: [int(part) for part in re.findall(r"\d+", release)])


@cache
def boundary(package: str, operator: str, version: str) -> int | None:
    """Return the number of the first release beyond an edge, or None where no release was read on one of its sides."""
    known = order(package)
    numbers = [number for number, release in enumerate(known) if f"{release}.".startswith(f"{version}.")]
    if not numbers:
        return None
    return numbers[0] if operator in {">=", "<"} else numbers[-1] + 1


@cache
def edges_of(source: anchors.Ranged) -> frozenset[int]:
    """Return the boundaries that a source holds: where its ranges begin and end; the newest release ends an open range.

    An edge needs a release of the source on each of its sides, of the neighbouring minor releases at least.
    """
    package = HELD[source.package]
    known = order(package)
    read = {_minor(release) for release in anchors.RELEASES[source.package]}
    found: set[int | None] = set()
    for part in source.ranges.split(","):
        first, _, last = part.partition("-")
        found.add(boundary(package, ">=", first) if first and first != "none" else None)
        found.add(boundary(package, "<=", last) if last else len(known))
    return frozenset(number for number in found if number and {_minor(one) for one in known[number - 1 : number + 1]} <= read)


def names(source: anchors.Ranged, package: str, edge: tuple[str, str]) -> bool:
    """Return whether a phrase of another package names this package and the first release beyond an edge.

    `requires TE version >= 2.12.0` does, for ">=" and "<" of TE 2.12.
    """
    operator, version = edge
    release = re.escape(re.sub(r"^(\d+\.\d+)\.0$", r"\1", version))
    wanted = rf"(?<![a-z])({_NAMES[package][0]})(?![a-z]).*(?<![\d.]){release}(\.0)?(?!\d|\.\d)"
    other = HELD[source.package] != package and operator in {">=", "<"}
    return other and bool(re.search(wanted, source.claim, re.IGNORECASE))


@cache
def facts() -> tuple[Fact, ...]:
    """Return the facts of tests/edges.txt."""
    lines = [line for line in FACTS.read_text(encoding="utf-8").splitlines() if line and line[0] not in "?;"]
    made = []
    for line in lines:
        words, source = re.split(r" = (?=\S+@)", line, maxsplit=1)
        found = anchors.parsed(source)
        if not found:
            raise ValueError(f"not a source with a range: {line}")
        made.append(Fact(tuple(words.lower().split(" & ")), found))
    return tuple(made)


@cache
def _named() -> tuple[Fact, ...]:
    """Return the ranged sources of all sections as facts: their words are the phrase, or a signature's name and arguments."""
    made = []
    for text in json.loads(anchors.KEPT.read_text(encoding="utf-8"))["anchors"]:
        source = anchors.parsed(text)
        if source:
            claim = source.claim
            word = claim[1:-1] if claim.startswith('"') else re.split(r"[(=:]", claim)[0].rsplit(".", 1)[-1]
            arguments = [] if claim.startswith(('"', "--")) else re.findall(r"(?<=[(\s])(\w+)=", claim)
            made += [Fact((word.strip().lower(), *map(str.lower, arguments)), source)] if len(word) >= 8 else []
    return tuple(made)


def listed() -> Counter[str]:
    """Return the claims that tests/edges.txt lists as held by nothing."""
    return Counter(line[2:] for line in FACTS.read_text(encoding="utf-8").splitlines() if line.startswith("? "))


@cache
def _own(section: Section) -> list[anchors.Ranged]:
    return anchors.ranged([section])


def holders(claim: Claim) -> list[anchors.Ranged]:
    """Return the sources that speak of a claim: facts with its words, or else the ranged sources of its section."""
    near = claim.near.lower()
    mine = [fact.source for fact in (*facts(), *_named()) if all(word in near for word in fact.words)]
    mine = [source for source in mine if HELD[source.package] == claim.package]
    return mine or [source for source in _own(claim.section) if HELD[source.package] == claim.package]


def holds(claim: Claim) -> bool:
    """Return whether each edge of a claim is the edge of a source that speaks of it."""
    if claim.package not in HELD.values():
        return False
    known = {number for source in holders(claim) for number in edges_of(source)}
    near = claim.near.lower()
    others = [fact.source for fact in facts() if all(word in near for word in fact.words)]
    return all(
        boundary(claim.package, *edge) in known or any(names(source, claim.package, edge) for source in others)
        for edge in claim.edges
    )


def _pip(folder: Path, release: str, *platforms: str) -> None:
    """Download the wheel of a torch release, for a Python that it was built for."""
    number = _number(release)
    python = "3.12" if number >= (2, 2) else "3.10" if number >= (2,) else "3.9"
    options = "--quiet --no-deps --only-binary :all: --disable-pip-version-check --python-version".split()
    names = [option for platform in platforms for option in ("--platform", platform)]
    command = [sys.executable, "-m", "pip", "download", *options, python, *names, "--dest", str(folder), f"torch=={release}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "PIP_CONSTRAINT": os.devnull})


def _python_files(folder: Path, release: str) -> Path:
    if not any(folder.glob(f"torch-{release}-*.whl")):
        _pip(folder, release, "macosx_15_0_arm64")
    return next(folder.glob(f"torch-{release}-*.whl"))


def _libraries(folder: Path, release: str) -> Path:
    """Return a folder with the printable text of a release's libraries, made from its CUDA wheel, which is then deleted."""
    kept = folder / f"libtorch-{release}"
    if not kept.exists():
        wheels, part = folder / "cuda", folder / f"part-{release}"
        part.mkdir(parents=True, exist_ok=True)
        _pip(wheels, release, "manylinux_2_28_x86_64", "manylinux2014_x86_64", "manylinux1_x86_64", "linux_x86_64")
        wheel = next(wheels.glob(f"torch-{release}-*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if re.fullmatch(r"torch/lib/(libtorch_(cuda|cuda_linalg|cpu|python)|libc10|libc10_cuda)\.so", name):
                    (part / Path(name).name).write_bytes(b"\0".join(re.findall(rb"[\x20-\x7e\n\t]{8,}", archive.read(name))))
        wheel.unlink()
        part.rename(kept)
    return kept


def _compiled(folder: Path, wanted: Iterable[anchors.Ranged]) -> Callable[[str, str], str | None]:
    """Return a reader of the libraries, which returns the wanted phrases that a library has: its whole text is large."""
    phrases: dict[str, set[bytes]] = {}
    for source in wanted:
        phrases.setdefault(source.path, set()).add(source.claim[1:-1].encode())
    found: dict[tuple[str, str], str] = {}
    for release in anchors.RELEASES["libtorch"]:
        for path, mine in phrases.items():
            file = _libraries(folder, release) / path
            text = file.read_bytes() if file.is_file() else b""
            found[release, path] = "\n".join(phrase.decode() for phrase in mine if phrase in text)
    return lambda release, path: found.get((release, path))


def _reader(
    package: str, folder: Path, clones: dict[str, str], wanted: Iterable[anchors.Ranged]
) -> Callable[[str, str], str | None]:
    if package == "libtorch":
        return _compiled(folder, [source for source in wanted if source.package == package])
    if package == "torch":
        wheels = {release: zipfile.ZipFile(_python_files(folder, release)) for release in anchors.RELEASES[package]}
        names = {release: set(wheel.namelist()) for release, wheel in wheels.items()}
        return cache(lambda release, path: wheels[release].read(path).decode() if path in names[release] else None)
    return anchors.reader(package, folder, clones)


def look_up(folder: Path, clones: dict[str, str]) -> int:
    """Look up all facts in all releases and keep the result; return 1 if one is stale."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = sorted({fact.source for fact in facts()}, key=lambda source: (source.package, source.path, source.claim))
    readers = {package: _reader(package, folder, clones, wanted) for package in sorted({source.package for source in wanted})}
    wrong = {source.source: anchors.stale(source, readers[source.package]) for source in wanted}
    kept = {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "releases": {package: " ".join(anchors.RELEASES[package]) for package in readers},
        "facts": {source: wrong[source] or "passed" for source in sorted(wrong)},
    }
    KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    bad = {source: why for source, why in wrong.items() if why}
    print(f"{len(wanted)} facts, {len(bad)} stale", *(f"  {source}\n    {why}" for source, why in bad.items()), sep="\n")
    return 1 if bad else 0


def main() -> int:
    """Look up the facts, or list the claims without one."""
    if sys.argv[1:]:
        folder, *clones = sys.argv[1:]
        return look_up(Path(folder), dict(clone.split("=", 1) for clone in clones))
    found = list(claims(read_sections(documents(skill_root()))))
    held = [holds(claim) for claim in found]
    for claim, held_too in zip(found, held, strict=True):
        if not held_too and claim.package in HELD.values():
            print(f"? {claim.key}\n    {claim.line[:300]}")
    for package, number in Counter(claim.package for claim in found).most_common():
        passed = sum(one for one, claim in zip(held, found, strict=True) if claim.package == package)
        print(f"{package}: {passed} of {number} ranges hold at both edges")
    return 0


if __name__ == "__main__":
    sys.exit(main())
