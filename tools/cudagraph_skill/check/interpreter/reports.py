"""Collect findings: at once, or when GPU work turns out to depend on a value that changes from call to call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill.check.findings import Edit, Finding
from cudagraph_skill.check.interpreter import reasons
from cudagraph_skill.check.interpreter.frames import Frames, Site
from cudagraph_skill.check.interpreter.values import NONE, Host, Object, Origin, Origins, Value, origins_of, quoted

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable

Slot = tuple[int, Any]  # the id of a holder, and the name, key or index in it

# A guard for captures, and a rank: reported where a change of state, or a collective, depends on one.
_REPORTED_ELSEWHERE = {"CG115", "CG706"}


class Write(NamedTuple):
    """A write to a slot that outlives the call: in which round, where, and whether captured code did it."""

    round: int
    path: str
    line: int
    column: int
    inside: bool
    via: tuple[str, ...]


class Since(NamedTuple):
    """A Python value that a capture found in a slot, what is there at a replay, where that was set, and which hazard it is."""

    then: Host
    now: Value
    site: Site
    hazard: str


class Reports(Frames):
    """The findings of the round that reports, and what decides whether code that runs now may add one."""

    def __init__(self, main_path: str) -> None:
        super().__init__(main_path)
        self.findings: dict[tuple[str, int, str], Finding] = {}
        self.inside = False  # in captured code, not in what runs between calls
        self.reporting = False
        self.explaining = False  # what findings rest on is kept
        self.places: reasons.Places = {}  # where names and attributes got their values, if it is
        self.conditions: list[tuple[Site, ast.AST]] = []  # of which nothing is known, and that decide that this code runs
        self.assuming = 0  # operations on assumed tensors are being followed, or branches of a condition that is not known
        self.quiet = 0  # in code that this capture would not reach
        self.control: list[tuple[Origins, ast.AST | None, int]] = []  # what decides that this code runs, where, how quietly
        self.writes: dict[Slot, list[Write]] = {}
        self.starts: list[dict[Slot, tuple[object, Value | None]]] = []  # of each round: what the dirty slots held
        self.sunk: set[Slot] = set()  # slots on which GPU work depends
        self.since: dict[Slot, Since] = {}  # what the program changes between the capture that is read once more and a replay

    def report(self, hazard: str, node: ast.AST, message: str, edit: Edit | None = None, *, certain: bool = True) -> None:
        """Add a finding at `node`, unless this round does not report."""
        if self.reporting and not self.quiet and self.inside:
            self.add(hazard, *self.site(node), message, self.via(), edit, certain=certain, because=self.reasons(node))

    def reasons(self, node: ast.AST) -> tuple[str, ...]:
        """Return what a finding at `node` rests on, where that is asked for."""
        if not self.explaining or not self.frames:
            return ()
        return reasons.of_line(node, self.frame.scope, self.places, self.conditions)

    def report_part(self, hazard: str, node: ast.AST, made: Object, message: str) -> None:
        """Add a finding at `node` that is corrected where an object was made."""
        self.report(hazard, node, message)
        key = (*self.site(node)[:2], hazard)
        if key in self.findings and made.site is not None and made.site[:2] != key[:2]:
            self.findings[key] = self.findings[key]._replace(part_of=f"{made.site[0]}:{made.site[1]}")

    def report_at(self, hazard: str, made: Object, message: str, edit: Edit | None = None) -> None:
        """Add a finding where an object was made: that is where the user changes its options."""
        if self.reporting and not self.quiet and self.inside and made.site is not None:
            self.add(hazard, *made.site, message, (), edit)

    def add(
        self,
        hazard: str,
        path: str,
        line: int,
        column: int,
        message: str,
        via: tuple[str, ...],
        edit: Edit | None = None,
        *,
        certain: bool = True,
        because: tuple[str, ...] = (),
    ) -> None:
        """Add a finding, the first for its line and hazard."""
        # Text with a GPU tensor in it fails the capture (CG204): that it is printed only once does not matter then.
        if hazard == "CG108" and (path, line, "CG204") in self.findings:
            return
        # Loops and repeated calls come to the same line again: the first message stays, unless only this one is certain.
        known = self.findings.get((path, line, hazard))
        certain = certain and not self.assuming
        if known is None or (certain and not known.certain):
            self.findings[path, line, hazard] = Finding(
                path, line, column, hazard, message, via, edit, certain, because=because
            )

    def origin(self, hazard: str, node: ast.AST, message: str, slot: Slot | None = None) -> Origins:
        """Return a mark for a value that changes at every call, set at `node`; nothing outside captured code."""
        if not self.inside or not self.frames:
            return NONE
        return frozenset((Origin(hazard, *self.site(node), message, self.via(), slot),))

    def sink(self, *values: Value, node: ast.AST | None = None) -> None:
        """Report what makes these values change: GPU work at `node` depends on them."""
        self.emit(origins_of(values), node)
        # The work also depends on every changing condition that it stands under.
        for origins, where, quiet in self.control:
            if not quiet:
                self.emit(origins, where, decided=True)

    def emit(self, origins: Origins, node: ast.AST | None = None, *, decided: bool = False) -> None:
        """Report the places that make a frozen value change; an argument, where it is used."""
        if not origins or not self.reporting or (self.quiet and not decided):
            return
        for origin in sorted(origins, key=lambda mark: (mark.path, mark.line, mark.column, mark.id, mark.message)):
            if origin.id in _REPORTED_ELSEWHERE:
                continue
            # The caller passes the argument rightly: the line to change is the one that freezes it.
            because = self._reasons_of_change(origin, node)
            certain = self._is_certain(origin.slot)
            if origin.id == "CG103" and node is not None:
                self.add(origin.id, *self.site(node), origin.message, self.via(), certain=certain, because=because)
                continue
            self.add(origin.id, *origin[1:6], certain=certain, because=because)
            if origin.slot is not None:
                self._report_writes(origin.id, origin.slot)

    def _reasons_of_change(self, origin: Origin, node: ast.AST | None) -> tuple[str, ...]:
        if not self.explaining or not self.frames:
            return ()
        used = () if node is None else (f"{quoted(node)} ({self.site(node)[0]}:{self.site(node)[1]}) depends on it",)
        return (reasons.of_change(origin, *self.held(origin.slot)), *used)

    def _is_certain(self, slot: Slot | None) -> bool:
        """Tell whether what a slot holds is known to change: what a script puts there may be anything."""
        return slot not in self.since or type(self.since[slot].now) is not Value

    def held(self, slot: Slot | None) -> tuple[Value | None, Value | None]:
        """Return what a slot held at the start of the last two calls."""
        if slot in self.since:
            return self.since[slot].then, self.since[slot].now
        before, after = (start.get(slot, (None, None))[1] if slot else None for start in ([{}, {}, *self.starts])[-2:])
        return before, after

    def _report_writes(self, hazard: str, slot: Slot) -> None:
        """Report where captured code changes a slot on which GPU work depends: no replay makes that change."""
        if slot in self.sunk:
            return
        self.sunk.add(slot)
        for write in self.writes.get(slot, ()):
            if write.inside:
                message = "changes here at every call, but a replay repeats the value that it had at capture"
                self.add(hazard, write.path, write.line, write.column, message, write.via)

    def under(self, origins: Origins, run: Callable[[], int], node: ast.AST | None = None, level: int | None = None) -> int:
        """Run code that is reached only because of values with these origins."""
        if not origins:
            return run()
        self.control.append((origins, node, self.quiet if level is None else level))
        try:
            return run()
        finally:
            self.control.pop()

    def perhaps(self, test: ast.AST | None, run: Callable[[], int]) -> int:
        """Run captured code that a condition decides of which nothing is known: what it reports is likely, not certain."""
        if not self.inside:
            return run()
        self.assuming += 1
        self.conditions += [(self.site(test), test)] if test is not None else []
        try:
            return run()
        finally:
            self.assuming -= 1
            del self.conditions[len(self.conditions) - (test is not None) :]

    def hushed(self, run: Callable[[], int]) -> int:
        """Run code that this capture would not reach: for what it would do, not for its own faults."""
        self.quiet += 1
        try:
            return run()
        finally:
            self.quiet -= 1


def only_guard(origins: Origins) -> bool:
    """Tell whether nothing but a test for a running capture decides."""
    return bool(origins) and all(origin.id == "CG115" for origin in origins)
