"""Run what the claims rest on, and say what held on this machine."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill.bench import rounds
from cudagraph_skill.bench.ways import COMPILED
from cudagraph_skill.capture import session
from cudagraph_skill.capture.request import Request
from cudagraph_skill.check import hazards
from cudagraph_skill.diagnosis.entries import Entry, open_table
from cudagraph_skill.diagnosis.log import read
from cudagraph_skill.diagnosis.rank import Haystack
from cudagraph_skill.errors import SkillError
from cudagraph_skill.scaffold import file, receipt
from cudagraph_skill.setup import environment
from cudagraph_skill.verify import programs
from cudagraph_skill.verify.fences import PRELUDE, runnable
from cudagraph_skill.verify.programs import Ended, Machine, Program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from cudagraph_skill.verify.card import Claim

WANTED = {"error": "capture_error", "warning": "silent_wrong", "info": "safe"}
CALL = """\
import runpy, sys
runpy.run_path(sys.argv[1])[sys.argv[2]]()
"""
_ROUNDS = 2  # of a workload: a spread, in about a minute
_NEEDS = re.compile(r"^# needs: ([^(\n]+)", re.MULTILINE)
_JUDGED = re.compile(r"^def ((?:bad|good)_\w+)\(", re.MULTILINE)


class Plan(NamedTuple):
    """How to run: `root` is the skill's folder, `most` the programs of one claim (0: all), `deadline` seconds of a program."""

    root: Path
    machine: Machine
    most: int
    deadline: float
    listener: session.Listener


class Found(NamedTuple):
    """What a claim's programs did: how many ran, of how many there are; which went another way; what was not run, and why."""

    claim: Claim
    ran: int
    programs: int
    wrong: Sequence[str]
    left_out: Sequence[str]

    @property
    def state(self) -> str:
        """Return holds, differs, or not run."""
        return "differs" if self.wrong else "holds" if self.ran else "not run"


def machine(python: str) -> Machine:
    """Return what an interpreter and this machine have.

    Raises:
        SkillError: The interpreter does not answer, or has no torch that sees a GPU (exit code 3).
    """
    facts = environment.facts(python)
    version, seen = facts["packages"].get("torch", ""), int(facts.get("sees") or 0)
    if not version or not seen:
        said = f"torch {version} of {python} sees no GPU" if version else f"{python} has no torch"
        raise SkillError(f"skill verify runs on a GPU, and {said}: `skill doctor` says what to change", 3)
    names = environment.gpus() or [("GPU", "?")]
    shown = f"{seen} x {names[0][0]}, driver {names[0][1]}, torch {version}, Python {facts['python']}"
    packages = {name.replace("_", "-"): release for name, release in facts["packages"].items()}
    return Machine(python, packages, seen, shown)


def verified(claims: Sequence[Claim], plan: Plan) -> Iterator[Found]:
    """Run one claim after the other; yield what was found, and nothing after a cancel.

    Raises:
        SkillError: The machine lacks something that every program needs (exit code 3).
    """
    for claim in claims:
        found = [_KINDS[kind](given, plan) for kind, given in claim.probe.items()]
        plan.listener.say("")
        if plan.listener.cancelled():
            return
        if not claim.probe:
            why = "it was read, not run" if claim.status == "read" else f"nothing of this command shows it: {claim.seen}"
            yield Found(claim, 0, 0, [], [why])
            continue
        yield Found(
            claim,
            sum(part.ran for part in found),
            sum(part.programs for part in found),
            [line for part in found for line in part.wrong],
            [line for part in found for line in part.left_out],
        )


class _Part(NamedTuple):
    ran: int
    programs: int
    wrong: Sequence[str]
    left_out: Sequence[str] = ()


def _sampled(names: Sequence[Any], most: int) -> list[Any]:
    """Return at most so many, evenly spaced."""
    return [names[number * len(names) // most] for number in range(most)] if 0 < most < len(names) else list(names)


# Code of the references ------------------------------------------------------------------------------------------------


def _fences(patterns: Sequence[str], plan: Plan) -> _Part:
    listed = [
        Program(f"{fence.path}:{fence.line}", PRELUDE + fence.code, needs=fence.info.removeprefix("python run"))
        for fence in runnable(plan.root, patterns)
    ]
    sample = _sampled(listed, plan.most)
    able, left_out = _able(sample, plan.machine)
    wrong = [f"{done.program.name} {done.how}: {_last(done.output)}" for done in _each(able, plan) if done.how]
    return _Part(len(able), len(listed), sorted(wrong), left_out)


def _able(listed: Sequence[Program], here: Machine) -> tuple[list[Program], list[str]]:
    """Return the programs that this machine can run, and what the others need."""
    lacking = [(program, programs.lacks(here, program.needs)) for program in listed]
    needing = dict.fromkeys(f"{program.name} needs {lack}" for program, lack in lacking if lack)
    return [program for program, lack in lacking if not lack], list(needing)


def _each(listed: Sequence[Program], plan: Plan) -> Iterator[Ended]:
    all_ended = programs.ended(listed, plan.machine, plan.deadline, plan.listener.cancelled)
    for done, ended in enumerate(all_ended, 1):
        plan.listener.say(f"{done} of {len(listed)} programs ran")
        yield ended


def _last(output: str) -> str:
    return next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "it printed nothing")[:200]


# Programs of the error index -------------------------------------------------------------------------------------------


def _errors(pattern: str, plan: Plan) -> _Part:
    known = {path.stem.replace("_", "-"): path for path in sorted(plan.root.glob(pattern))}
    if not known:
        return _none_of(pattern)
    entries = {program: entry for entry in open_table(plan.root).entries for program in entry.programs}
    chosen = _sampled([name for name in known if name in entries], plan.most)
    listed = [
        Program(name, CALL, (str(known[name]), way), _needs(known[name])) for name in chosen for way in ("fails", "works")
    ]
    able, left_out = _able(listed, plan.machine)
    ran: dict[str, dict[str, Ended]] = {}
    for done in _each(able, plan):
        ran.setdefault(done.program.name, {})[done.program.arguments[1]] = done
    judged = [(name, _unlike(entries[name], ways)) for name, ways in sorted(ran.items())]
    return _Part(len(ran), len(known), [f"{n}: {s}" for n, s in judged if s], left_out)


def _none_of(pattern: str) -> _Part:
    return _Part(0, 0, [], [f"the programs {pattern} are not in this copy of the skill: they come with a clone and with pip"])


def _needs(path: Path) -> str:
    found = _NEEDS.search(path.read_text(encoding="utf-8"))
    return found[1].strip() if found else ""


def _unlike(entry: Entry, ways: Mapping[str, Ended]) -> str:
    """Return what of a program is not as its entry says."""
    fails, works = ways["fails"], ways["works"]
    if works.how:
        return f"the corrected way {works.how}: {_last(works.output)}"
    return "" if is_raised(entry, (fails.output, not fails.how), works.output) else f"not raised, but: {_last(fails.output)}"


def is_raised(entry: Entry, fails: tuple[str, bool], works: str) -> bool:
    """Return whether an output shows an entry's message, and that of the corrected way does not.

    `fails` is the output and whether the program ended well: so does that of an entry without a message.
    """
    output, ended_well = fails
    if not entry.phrases:
        return ended_well
    raised, calm = Haystack(read(output)), Haystack(read(works))
    return any(map(raised.find, entry.phrases)) and not any(map(calm.find, entry.phrases))


# Functions that check --run judges -------------------------------------------------------------------------------------


def _hazards(pattern: str, plan: Plan) -> _Part:
    listed = [(path, name) for path in sorted(plan.root.glob(pattern)) for name in _JUDGED.findall(path.read_text("utf-8"))]
    if not listed:
        return _none_of(pattern)
    chosen = _sampled(listed, plan.most)
    able = [(path, name) for path, name in chosen if not programs.lacks(plan.machine, _needs(path))]
    left_out = dict.fromkeys(f"{path.stem} needs {_needs(path)}" for path, _ in chosen if (path, _) not in able)
    wrong = []
    with session.Guests() as guests:
        for number, (path, name) in enumerate(able, 1):
            plan.listener.say(f"{number} of {len(able)}: {path.name}:{name}")
            wrong += _misjudged(path, name, plan, guests)
    return _Part(len(able), len(listed), wrong, list(left_out))


def _misjudged(path: Path, name: str, plan: Plan, guests: session.Guests) -> list[str]:
    text = path.read_text(encoding="utf-8")
    inputs = next((function for function in (f"inputs_{name}", "inputs") if f"def {function}(" in text), "")
    severity = hazards.hazard(path.name[:5].upper()).severity
    wanted = WANTED[severity] if name.startswith("bad") else "safe"
    request = Request(f"{path}:{name}", plan.machine.python, str(path.parent), inputs=inputs, deadline=plan.deadline)
    quiet = plan.listener._replace(say=lambda _: None)
    result = next(session.examine([request], guests, quiet), None)
    return [] if result is None or result.verdict == wanted else [f"{path.name}:{name} is {result.verdict}, not {wanted}"]


# Programs of skill scaffold, and workloads of skill bench --------------------------------------------------------------


def _scaffolds(asked: Sequence[Mapping[str, Any]], plan: Plan) -> _Part:
    wrong = []
    for options in asked:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "step.py")
            written = file.write(file.options(options), [], plan.machine.python, str(path))
            file.save_program(written, str(path))
            plan.listener.say(f"verifying {written.command}")
            made = receipt.verify(
                path,
                python=plan.machine.python,
                deadline=plan.deadline,
                on_progress=plan.listener.say,
                cancelled=plan.listener.cancelled,
            )
        wrong += [] if made.verdict == "ok" else [f"{written.command}: {made.said}"]
    return _Part(len(asked), len(asked), wrong)


def _bench(workload: str, plan: Plan) -> _Part:
    """Measure a workload, of which the graph by hand over a compiled step is to be the fastest way."""
    with session.Guests() as guests:
        measured = rounds.measured(rounds.Plan([workload], _ROUNDS, plan.machine.python, plan.deadline), guests, plan.listener)
    if measured is None:
        return _Part(0, 1, [])
    (result,) = measured.results
    walls = {row.way: min(min(part.wall) for part in row.timed) for row in result.rows if row.timed}
    if COMPILED not in walls:
        return _Part(1, 1, [f"{workload}: {COMPILED} failed: {next(row.why for row in result.rows if row.way == COMPILED)}"])
    best = min(walls, key=lambda way: walls[way])
    said = (
        f"{workload}: {best} is the fastest way, {walls[best] * 1e6:.0f} us, and {COMPILED} takes {walls[COMPILED] * 1e6:.0f}"
    )
    return _Part(1, 1, [] if best == COMPILED else [said])


_KINDS: Mapping[str, Callable[[Any, Plan], _Part]] = {
    "fences": _fences,
    "errors": _errors,
    "hazards": _hazards,
    "scaffolds": _scaffolds,
    "bench": _bench,
}
