"""What a run on the GPU shows of one callable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cudagraph_skill.capture.cost import Cost
    from cudagraph_skill.capture.region_map import RegionMap
    from cudagraph_skill.check.findings import Finding, Region


class Step(NamedTuple):
    """One step of a capture on the GPU: `outcome` is ok, failed, differs or skipped, `seconds` its wall time."""

    name: str
    outcome: str
    said: str
    seconds: float


class CaptureResult(NamedTuple):
    """What a run on the GPU showed of one callable.

    `verdict` is safe, capture_error, silent_wrong, not_repeatable (two eager copies differ too much to compare with),
    error_in_eager (it fails without a graph), misuse or lacking; `said` is one sentence about what was seen. `findings` are
    the observed lines, then what the static check adds; `unconfirmed` is what that says and this run did not show. `graph` has
    nodes by kind and the host copies among them, `rounds` what was replayed and compared, `machine` the GPU and the versions;
    each is empty where the run did not come so far. `target` is the code that was captured, `output` the tail of what the
    user's code printed, `command` runs it without a graph, or is "". `signatures` has a verdict for each, if there are several.
    `ranks` has the verdict, the sentence and the lines of each rank of a program under torchrun; one that another kept from a
    verdict of its own is "stopped". `map` has the regions, if a map was asked for, `cost` what a call takes, if that was asked.
    `reference` is a section about the trainer that the target calls, or "".
    """

    verdict: str
    said: str
    findings: list[Finding]
    unconfirmed: list[Finding]
    steps: list[Step]
    graph: Mapping[str, Any]
    rounds: Mapping[str, Any]
    machine: Mapping[str, str]
    notes: list[str]
    target: Region
    output: str = ""
    command: str = ""
    signatures: Sequence[Mapping[str, Any]] = ()
    ranks: Sequence[Mapping[str, Any]] = ()
    map: RegionMap | None = None
    reference: str = ""
    cost: Cost | None = None
