"""The programs of tests/errors, made to fail and to work on a GPU, and what they printed.

    python tests/raised.py run [ID ...] > out.json     on a GPU machine, with torch and the standard library only
    python tests/raised.py keep out.json               back here: adds what was seen to tests/evidence/errors.json

Each file has `fails()`, which raises what its entry in references/errors-*.md describes, and `works()`, which does the same
work right. Both run in processes of their own. A comment `# needs: gpus=2` or `# needs: torch>=2.13` says what a file needs;
`transformer-engine` must be installed, `megatron-core==0.19.2` and `megatron-bridge==0.6.2` are looked for in $MEGATRON (or in
`megatron` of the temporary folder) as `core-0.19.2` and `bridge`. Programs whose needs are missing are left out.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import runpy
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import on_gpu

if TYPE_CHECKING:
    from cudagraph_skill.diagnosis.entries import Entry

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "tests" / "errors"
EVIDENCE = ROOT / "tests" / "evidence" / "errors.json"
MEGATRON = Path(os.environ.get("MEGATRON") or Path(tempfile.gettempdir()) / "megatron")
_DEADLINE_SECONDS = 150
_KEPT = 8000  # characters of an output: all of a chained traceback, not all of a C++ one


def programs() -> dict[str, Path]:
    """Return every program by its id: that of its entry, or one that was merged into the entry."""
    return {path.stem.replace("_", "-"): path for path in sorted(PROGRAMS.glob("*.py"))}


def needs(path: Path) -> str:
    """Read the requirements of a program, "" for one GPU and torch 2.11."""
    match = re.search(r"^# needs: (.+)$", path.read_text(), re.MULTILINE)
    return match[1].strip() if match else ""


def folders(needs: str) -> list[Path]:
    """Return the folders that hold the Megatron packages of `needs`."""
    core = re.search(r"megatron-core==([\d.]+)", needs)
    return [*([MEGATRON / f"core-{core[1]}"] if core else []), *([MEGATRON / "bridge"] if "megatron-bridge" in needs else [])]


def lacks(needs: str) -> str:
    """Return "needs …" if this machine lacks a GPU, a version or a package of `needs`, else ""."""
    engine = "transformer-engine" not in needs or on_gpu.release("transformer-engine")
    present = engine and all(folder.is_dir() for folder in folders(needs))
    return on_gpu.lacks(needs) if present else f"needs {needs}"


def command(needs: str, path: Path, way: str) -> list[str]:
    """Return the command that runs one function of a program, with the packages of `needs` on its path."""
    arguments = on_gpu.python(needs, str(Path(__file__).resolve()), "call", str(path), way)
    found = [*map(str, folders(needs)), *filter(None, [os.environ.get("PYTHONPATH")])]
    return ["env", f"PYTHONPATH={os.pathsep.join(found)}", *arguments] if folders(needs) else arguments


def digest(path: Path) -> str:
    """Return a hash of the program."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _run_all(chosen: list[str]) -> dict[str, Any]:
    known = {name: path for name, path in programs().items() if not chosen or name in chosen}
    rows = {name: {"id": name, "digest": digest(path), "needs": needs(path)} for name, path in known.items()}
    jobs = [{"id": name, "way": way} for name in rows for way in ("fails", "works") if not lacks(rows[name]["needs"])]
    several = [job for job in jobs if on_gpu.gpus(rows[job["id"]]["needs"]) > 1]
    alone = [job for job in jobs if job not in several]

    def start(job: dict[str, Any], _: Path) -> list[str]:
        return command(rows[job["id"]]["needs"], known[job["id"]], job["way"])

    for group, at_once in ((alone, 12), (several, 3)):
        for ended in on_gpu.each(group, start, _DEADLINE_SECONDS, at_once):
            rows[ended.job["id"]][ended.job["way"]] = {  # type: ignore[assignment]
                "code": ended.code,
                "seconds": ended.seconds,
                "output": _neutral(ended.output),
            }
    return {**described(), "results": list(rows.values())}


def described() -> dict[str, Any]:
    """Return what the machine of a run is, with Transformer Engine's version where it is installed."""
    engine = on_gpu.release("transformer-engine")
    return {**on_gpu.machine("python tests/raised.py run"), **({"transformer_engine": engine} if engine else {})}


def _neutral(output: str) -> str:
    """Replace the machine's paths and addresses in an output, and leave out the middle of a long one."""
    text = output.replace(f"{ROOT}/", "").replace(str(MEGATRON), "/env/megatron").replace(str(Path(sys.prefix)), "/env")
    text = re.sub(r"/tmp/\S*?(?=[/\s\"'])", "/tmp/x", text)
    text = re.sub(r"0x[0-9a-f]{6,}", "0x0", text)
    return text if len(text) <= _KEPT else f"{text[: _KEPT // 2]}\n...\n{text[-_KEPT // 2 :]}"


def seen(entry: Entry, row: dict[str, Any]) -> bool:
    """Return whether a run shows the entry's message, if it has one, and that the corrected way works."""
    from cudagraph_skill.verify.probes import is_raised

    if "fails" not in row:
        return False
    fails, works = row["fails"], row["works"]
    return is_raised(entry, (fails["output"], fails["code"] == 0), works["output"]) and works["code"] == 0


def _keep(run: dict[str, Any]) -> None:
    """Add a run to the evidence: a program keeps its newest result that shows its entry; a changed one loses it."""
    from cudagraph_skill.diagnosis.entries import open_table

    entries = {program: entry for entry in open_table(ROOT).entries for program in entry.programs}
    current = {name: digest(path) for name, path in programs().items()}
    runs = [*(json.loads(EVIDENCE.read_text()) if EVIDENCE.exists() else []), run]
    taken: set[str] = set()
    for kept_run in reversed(runs):
        rows = [row for row in kept_run["results"] if current.get(row["id"]) == row["digest"] and row["id"] not in taken]
        kept_run["results"] = [row for row in rows if row["id"] in entries and seen(entries[row["id"]], row)]
        taken |= {row["id"] for row in kept_run["results"]}
    EVIDENCE.write_text(json.dumps([kept_run for kept_run in runs if kept_run["results"]], indent=1) + "\n")
    unseen = sorted(set(current) - taken)
    print(f"{len(taken)} seen; not seen: {', '.join(unseen) or 'none'}", file=sys.stderr)


def _call(path: str, way: str) -> None:
    """Run one function of one program on this rank's GPU."""
    if "LOCAL_RANK" in os.environ:
        import torch

        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    runpy.run_path(path)[way]()


def main() -> None:
    """Run `run [ID ...]`, `keep FILE` or, in a child process, `call FILE fails|works`."""
    if sys.argv[1:2] == ["run"]:
        print(json.dumps(_run_all(sys.argv[2:]), indent=1))
    elif sys.argv[1:2] == ["keep"] and len(sys.argv) == 3:
        _keep(json.loads(Path(sys.argv[2]).read_text()))
    elif sys.argv[1:2] == ["call"] and len(sys.argv) == 4:
        _call(*sys.argv[2:])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
