"""How often reading one operation says what a GPU showed: whether it can be captured.

    python benchmarks/operations.py              the share that agrees, and what differs
    python benchmarks/operations.py --check      exit 1 unless exactly the operations of operations_differ.txt differ
    python benchmarks/operations.py --write      write that list anew; a test holds that it only shrinks
    python benchmarks/operations.py --program NAME   print the program that stands for one operation

Each operation is a body that a GPU warmed up three times on a side stream and captured once (evidence/operations.json and
evidence/operations_common.json). The check reads the same program. It agrees where it finds an error and the capture raised,
or finds none and the capture passed; of an operation whose replay went wrong it may also find a warning.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from textwrap import indent
from typing import Any, NamedTuple

from cudagraph_skill.check import Options, check_text
from cudagraph_skill.check.hazards import hazard

HERE = Path(__file__).resolve().parent
EVIDENCE = ("operations.json", "operations_common.json")
DIFFERING = HERE / "operations_differ.txt"

_PROGRAM = """\
import torch
import torch.nn as nn
import torch.nn.functional as F

D = "cuda"
x = torch.randn(64, 64, device=D)
i = torch.arange(64, device=D)
m = x > 0
t = torch.tensor(3, device=D)
{setup}

def body():
{body}

side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        body()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    out = body()
graph.replay()
"""


class Probe(NamedTuple):
    """One operation that a GPU has seen; `key` tells it from others of the same name."""

    key: str
    setup: str
    body: str
    verdict: str


def probes() -> list[Probe]:
    """Return the probed operations of all evidence, without those that fail before any capture."""
    loaded: list[Probe] = []
    for file in EVIDENCE:
        evidence: dict[str, Any] = json.loads((HERE / "evidence" / file).read_text(encoding="utf-8"))
        loaded += [
            Probe(f"{file.removesuffix('.json')}: {result['name']}", result.get("setup", ""), result["body"], result["verdict"])
            for result in evidence["results"]
            if result["verdict"] != "broken"
        ]
    return loaded


def program(probe: Probe) -> str:
    """Return the program that captures the operation."""
    return _PROGRAM.format(setup=probe.setup, body=indent(probe.body.strip("\n"), "    "))


def verdict(probe: Probe) -> str:
    """Return what reading the program says: error, wrong or ok."""
    report = check_text(program(probe), "operation.py", None, Options())
    if report.notes or not report.regions:
        raise AssertionError(f"{probe.key}: {report.notes or 'no capture was found'}")
    severities = {hazard(finding.id).severity for finding in report.findings}
    return "error" if "error" in severities else "wrong" if "warning" in severities else "ok"


def agrees(probe: Probe, read: str) -> bool:
    """Say whether the reading fits what the GPU showed."""
    if probe.verdict == "wrong":
        return read != "ok"
    return (read == "error") == (probe.verdict == "error")


def differing(read_by_probe: dict[Probe, str]) -> list[str]:
    """Return a line for each operation that is read otherwise than the GPU showed."""
    return sorted(
        f"{probe.key}: the GPU showed {probe.verdict}, the check reads {read}"
        for probe, read in read_by_probe.items()
        if not agrees(probe, read)
    )


def listed() -> list[str]:
    """Return the lines of the list of known differences."""
    return [line for line in DIFFERING.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]


def main() -> int:
    """Print the figures; with --check, compare with the list."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--program", metavar="NAME")
    options = parser.parse_args()
    known = probes()
    if options.program:
        wanted = [probe for probe in known if options.program in {probe.key, probe.key.partition(": ")[2]}]
        print("\n".join(program(probe) for probe in wanted))
        return 0 if wanted else 1
    read_by_probe = {probe: verdict(probe) for probe in known}
    lines = differing(read_by_probe)
    failing = [probe for probe in known if probe.verdict == "error"]
    found = sum(read_by_probe[probe] == "error" for probe in failing)
    print(f"{len(known) - len(lines)} of {len(known)} operations agree; {found} of {len(failing)} that fail are found")
    if options.write:
        DIFFERING.write_text(
            "# Operations that the check reads otherwise than a GPU showed. A line may go, none may come.\n"
            + "".join(f"{line}\n" for line in lines),
            encoding="utf-8",
        )
    elif not options.check:
        print("\n".join(lines))
    elif changed := sorted({*lines} ^ {*listed()}):
        print("changed:", *changed, sep="\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
