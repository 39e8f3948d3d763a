"""How many findings of `skill check --all` on training programs are right.

    python benchmarks/training.py missing FOLDER   the commands that bring the repositories of training.json to FOLDER
    python benchmarks/training.py run FOLDER       the figures; FOLDER has each as OWNER+NAME, at the commit of training.json

training.json names findings that were drawn at random and judged by reading the source: PATH:LINE:ID, and why one is false,
or nothing. A finding is false where the line, in captured code, does not do what it says: an array that was taken for a
tensor, a branch for another device. Those of `split: dev` were used to improve the check; those of `split: test` were drawn
afterwards, from repositories that nobody had looked at. Findings that are no longer reported do not count.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from cudagraph_skill.check import Options, check_paths
from real import place, repositories, ways_to_bring


def reported(folder: Path, repository: dict[str, Any]) -> set[str]:
    """Return the findings in a repository, as PATH:LINE:ID."""
    root = place(folder, repository)
    report = check_paths([str(root)], Options(every=True))
    return {f"{Path(item.path).relative_to(root)}:{item.line}:{item.id}" for item in report.findings}


def main() -> int:
    """Run `missing` or `run`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("missing", "run"))
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    folder = args.folder.resolve()
    listed = repositories("", "training.json")
    absent = ways_to_bring(folder, listed)
    if args.what == "missing":
        print("\n".join(absent))
        return 0
    if len(absent) == len(listed):
        print(f"no repository is in {folder}: `training.py missing {folder}` lists how to bring them", file=sys.stderr)
        return 2
    for split in ("dev", "test"):
        there = [repository for repository in repositories(split, "training.json") if place(folder, repository).is_dir()]
        now = {repository["repository"]: reported(folder, repository) for repository in there}
        kept = {
            f"{repository['repository']}/{finding}": why
            for repository in there
            for finding, why in repository["findings"].items()
            if finding in now[repository["repository"]]
        }
        wrong = sum(map(bool, kept.values()))
        judged = sum(len(repository["findings"]) for repository in there)
        print(f"{split:5s} repositories {len(there)}  findings {sum(map(len, now.values()))}  judged {judged}  ", end="")
        print(f"still reported {len(kept)}, of these false {wrong} ({wrong / max(len(kept), 1):.1%})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
