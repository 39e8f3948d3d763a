"""How much of the captures in public code `skill check` reads, and what it finds there.

    python benchmarks/real.py missing FOLDER           the commands that bring the repositories of real.json to FOLDER
    python benchmarks/real.py run FOLDER               the figures; FOLDER has each as OWNER+NAME, at the commit of real.json
    python benchmarks/real.py run FOLDER --split test    only those that the check was not tuned on
    python benchmarks/real.py run FOLDER --misses      the captures that were not read, and the findings, in `split: dev`

real.json names files by repository and commit, and the lines where they capture: a `with` of torch.cuda.graph, `capture_begin`,
`make_graphed_callables`, CudaGraphModule. They were listed by syntax; nothing of the files is kept here. A capture counts as
read where the report has a region at its line. `torch.cuda.synchronize()` is written into each `with` as its first statement,
and `NAME.sum().item()` behind its first assignment of a call: each is found where the report has a finding at that line. The
files are in use, so findings in them as they are would be mistakes of the check, unless `true` of their repository says that
reading them showed otherwise, and why.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import sys
import time
from multiprocessing import Pool
from pathlib import Path
from typing import Any, NamedTuple

from cudagraph_skill.check import Options, check_text
from cudagraph_skill.check.hazards import hazard

HERE = Path(__file__).resolve().parent


class File(NamedTuple):
    """One file of a repository, and the lines where it captures."""

    path: Path
    captures: tuple[int, ...]
    true: frozenset[str]  # findings in it that reading has shown to be right


def repositories(split: str, listing: str = "real.json") -> list[dict[str, Any]]:
    """Return the repositories of a split; all for ""."""
    listed: list[dict[str, Any]] = json.loads((HERE / listing).read_text(encoding="utf-8"))
    return [repository for repository in listed if split in ("", repository["split"])]


def place(folder: Path, repository: dict[str, Any]) -> Path:
    """Return where a repository is to lie."""
    return folder / str(repository["repository"]).replace("/", "+")


def ways_to_bring(folder: Path, listed: list[dict[str, Any]]) -> list[str]:
    """Return the commands that bring the repositories which are not there."""
    absent = [(repository, place(folder, repository)) for repository in listed if not place(folder, repository).is_dir()]
    return [
        f"git clone https://github.com/{repository['repository']} {target} && git -C {target} checkout {repository['commit']}"
        for repository, target in absent
    ]


def files(folder: Path, split: str) -> list[File]:
    """Return the files that are there."""
    listed = [
        File(place(folder, repository) / path, tuple(lines), frozenset(repository.get("true", ())))
        for repository in repositories(split)
        for path, lines in repository["captures"].items()
    ]
    return [file for file in listed if file.path.is_file()]


def examined(file: File) -> dict[str, Any]:
    """Return what the check makes of a file, and of it with each statement inserted."""
    os.chdir(file.path.parent)
    text = file.path.read_text(encoding="utf-8", errors="replace")
    start = time.perf_counter()
    report = check_text(text, str(file.path), None, Options())
    seconds = time.perf_counter() - start
    regions = {region.line for region in report.regions if Path(region.path).name == file.path.name}
    lines = text.split("\n")
    inserted = {"synchronize": [], "item": []}  # type: dict[str, list[bool]]
    for block in (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.With) and node.lineno in file.captures):
        for name, line, statement in _statements(block):
            changed = "\n".join([*lines[:line], statement, *lines[line:]])
            found = check_text(changed, str(file.path), None, Options()).findings
            inserted[name].append(any(finding.line == line + 1 for finding in found))
    serious = [finding for finding in report.findings if hazard(finding.id).severity != "info"]
    named = [(f"{finding.path}:{finding.line} {finding.id}", finding.certain) for finding in serious]
    return {
        "file": str(file.path),
        "seconds": seconds,
        "captures": [line in regions for line in file.captures],
        "silent": not report.unread and not all(line in regions for line in file.captures),
        "unread": [f"{part.path}:{part.line}: {part.reason}" for part in report.unread],
        "elsewhere": len({part.line for part in report.unread if part.reason.endswith("whose code was not found")}),
        "certain": [line for line, certain in named if certain],
        "likely": [line for line, certain in named if not certain],
        "false": [line for line, _ in named if line.rpartition("/")[2] not in file.true],
        **inserted,
    }


def _statements(block: ast.With) -> list[tuple[str, int, str]]:
    """Return each statement to insert: its name, the line that it follows, its text."""
    first = block.body[0]
    begins = min([first.lineno, *(decorator.lineno for decorator in getattr(first, "decorator_list", []))])
    if begins == block.lineno:
        return []
    indent = " " * first.col_offset
    wanted = [("synchronize", begins - 1, f"{indent}import torch; torch.cuda.synchronize()")]
    made = [
        statement
        for statement in block.body
        if isinstance(statement, ast.Assign)
        and isinstance(statement.value, ast.Call)
        and isinstance(statement.targets[0], (ast.Name, ast.Attribute))
    ]
    for statement in made[:1]:
        name = ast.unparse(statement.targets[0])
        wanted.append(("item", statement.end_lineno or statement.lineno, f"{indent}{name}.sum().item()"))
    return wanted


def figures(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Return the figures of all files."""
    shares = {
        name: [answer for row in rows for answer in row[key]]
        for name, key in (("captures read", "captures"), ("synchronize found", "synchronize"), ("item found", "item"))
    }
    return {
        "files": str(len(rows)),
        **{name: f"{sum(answers)} of {len(answers)}" for name, answers in shares.items()},
        "captures that call code that was not found": str(sum(row["elsewhere"] for row in rows)),
        "silent about a capture that was not read": str(sum(row["silent"] for row in rows)),
        "errors and warnings, certain": str(sum(len(row["certain"]) for row in rows)),
        "errors and warnings, likely": str(sum(len(row["likely"]) for row in rows)),
        "of these, not shown to be right": str(sum(len(row["false"]) for row in rows)),
        "seconds of the slowest": f"{max(row['seconds'] for row in rows):.1f}",
    }


def main() -> int:
    """Run `missing` or `run`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("missing", "run"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--split", choices=("dev", "test"), default="")
    parser.add_argument("--misses", action="store_true")
    args = parser.parse_args()
    folder = args.folder.resolve()
    absent = ways_to_bring(folder, repositories(args.split))
    if args.what == "missing":
        print("\n".join(absent))
        return 0
    if absent:
        print(
            f"{len(absent)} repositories are not in {folder}: `real.py missing {folder}` lists how to bring them",
            file=sys.stderr,
        )
    known = files(folder, args.split)
    if not known:
        return 2
    with Pool() as pool:
        rows = pool.map(examined, known, chunksize=1)
    for name, value in figures(rows).items():
        print(f"{name:42s} {value}")
    shown = {str(file.path) for file in files(folder, "dev")} if args.misses else set()
    for row in (row for row in rows if row["file"] in shown):
        for line in (*row["unread"], *row["certain"], *row["likely"]):
            print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
