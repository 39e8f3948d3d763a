"""Run a user's code on what is known of its values, without running it.

Statements and expressions are followed as Python would: into helpers, methods, properties, closures, decorators and modules of
the project. A branch that is decided by known values is taken alone; otherwise both are, and what they wrote is joined.
"""

from __future__ import annotations

import ast
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill.check.interpreter.capture_sites import Span, begins, spans
from cudagraph_skill.check.interpreter.frames import NEXT, Exhausted, Frame
from cudagraph_skill.check.interpreter.memory import Memory
from cudagraph_skill.check.interpreter.reports import only_guard
from cudagraph_skill.check.interpreter.symbols import mix
from cudagraph_skill.check.interpreter.values import (
    NONE,
    Function,
    Instance,
    Mapping,
    Object,
    Origins,
    Sequence,
    Tensor,
    Value,
    const,
    origins_of,
    quoted,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from cudagraph_skill.check.input.modules import Module, Project
    from cudagraph_skill.check.interpreter.frames import Site
    from cudagraph_skill.check.interpreter.goals import Goal
    from cudagraph_skill.check.interpreter.library import Library

_LOADING = 50_000  # steps that the top level of one module may take


_STRIDE = 4_000  # steps between two looks at the clock


class Language(NamedTuple):
    """The functions that follow each kind of statement, of expression and of called value."""

    statements: dict[type, Callable[[Machine, Any], int]]
    expressions: dict[type, Callable[[Machine, Any], Value]]
    calls: dict[type, Callable[..., Value]]


class Machine(Memory):
    """Follow statements, expressions and calls; ask the library about what is not the user's."""

    def __init__(self, project: Project, language: Language, library: Library[Machine], budget: int = 200_000) -> None:
        super().__init__(project.main.path)
        self.project = project
        self.language = language
        self.library = library
        self.explaining = project.explains
        # A test's fixture may set it, which nothing in the file calls.
        if project.main.source is not None and "set_default_device" in project.main.source.text:
            self.torch.default_device = ""
        self.budget = budget
        self.steps = 0
        self.packaged = 0  # steps taken in installed packages
        self.gpu_calls = 0
        self.left: Origins = NONE  # what decided that the last statement left its block
        self.hurried = False  # a loop was left because it took long, before it had nothing new to show
        self.outline = False  # the top level of a module of the project is read, not that of the file itself
        self.varying: tuple[ast.AST, frozenset[str]] | None = None  # arguments of the captured function that differ each time
        self.goal: Goal | None = None  # the capture that conditions are taken to lead to
        # What the program has made, for who looks for a function's closure, its objects and its arguments
        self.created: dict[ast.AST, list[Function]] = {}
        self.instances: dict[ast.AST, list[Instance]] = {}
        self.observed: dict[ast.AST, tuple[list[Value], dict[str, Value]]] = {}
        self.guessed: dict[int, ast.arg] = {}  # arguments of the captured function that only look like tensors, by their memory
        # Results by function and round, where each function is followed but once in a round
        self.summaries: dict[tuple[ast.AST, int], Value] | None = None
        self.unfollowed: dict[str, Site] = {}  # what the capture that is read calls without its code being here, and where
        # What the reader of captures is told
        self.region_hook: Callable[..., object] | None = None  # a `with torch.cuda.graph(…)` is reached
        self.leaving: Callable[[Frame], None] | None = None  # a call ends

    def refutes(self, tensors: Iterable[Tensor]) -> bool:
        """Note arguments that numpy gets: it takes no GPU tensors outside of captures either, so they were guessed wrongly."""
        wrong = {self.guessed[memory] for tensor in tensors for memory in tensor.storages & self.guessed.keys()}
        self.project.no_tensors |= wrong
        return bool(wrong)

    def block(self, statements: list[ast.stmt]) -> int:
        """Run statements until one leaves the block; return how it leaves."""
        between = spans(self.frame.module.tree) if self.frame.module.begins_captures else {}
        skipped = 0  # statements that ran as part of a capture
        for place, statement in enumerate(statements):
            if skipped:
                skipped -= 1
                continue
            self.left = NONE
            mark = len(self.journal)
            status = self.statement(statement)
            if status == NEXT and id(statement) in between and not self.inside:
                status, skipped = self._capture(between[id(statement)]), between[id(statement)].length
            if status == NEXT:
                continue
            rest = statements[place + 1 :]
            if self.goal is not None and self.goal.leads(rest):
                self._stay(statement, mark)
                continue
            if only_guard(self.left) and rest and isinstance(statement, ast.If):
                self._look_behind_guard(self.left, statement, rest)
            return status
        return NEXT

    def _stay(self, statement: ast.stmt, mark: int) -> None:
        """Go on behind a statement that left the block: the capture that is looked for stands there, so it does not leave then."""
        if isinstance(statement, ast.If):
            self.undo(mark)

    def _capture(self, span: Span) -> int:
        """Run what stands between `capture_begin` and `capture_end` as the body of a `with torch.cuda.graph`."""
        call = next(node for node in ast.walk(span.begins[0]) if isinstance(node, ast.Call) and begins(node))
        graph = self.value(call.func.value) if isinstance(call.func, ast.Attribute) else Value()
        given = {keyword.arg: self.value(keyword.value) for keyword in call.keywords if keyword.arg}
        context = Object("torch.cuda.graph", [graph], given, self.round)
        return self.library.enter(self, context, call, lambda _: self.block(span.captured), span.begins[0])

    def _look_behind_guard(self, origins: Origins, statement: ast.If, rest: list[ast.stmt]) -> None:
        """Look at what a guard for captures leaves out: GPU work there is missing from the graph."""
        self.left = NONE
        mark = len(self.journal)
        returned = list(self.frame.returned)
        level = self.quiet
        self.hushed(lambda: self.under(origins, lambda: self.block(rest), statement.test, level))
        # The capture does not run this code, so nothing that it wrote or returned stays.
        self.undo(mark)
        self.frame.returned[:] = returned

    def statement(self, node: ast.stmt) -> int:
        """Run one statement; return how it leaves."""
        self.steps += 1
        if self.steps > self._looks_up_at:
            self._look_up()
        run = self.language.statements.get(type(node))
        return run(self, node) if run else NEXT

    @property
    def budget(self) -> int:
        """The number of steps at which reading ends."""
        return self._budget

    @budget.setter
    def budget(self, steps: int) -> None:
        self._budget, self._looks_up_at = steps, 0

    def _look_up(self) -> None:
        """Go on for some steps, unless the budget of steps or the time for this file is over."""
        if self.steps > self.budget or monotonic() > self.project.until:
            raise Exhausted(self.inside)
        self._looks_up_at = min(self.budget, self.steps + _STRIDE)

    def value(self, node: ast.expr | None) -> Value:
        """Return what an expression is; None for no expression."""
        if node is None:
            return const(None)
        self.steps += 1
        if self.steps > self._looks_up_at:  # lambdas that call lambdas need no statement
            self._look_up()
        evaluate = self.language.expressions.get(type(node))
        return evaluate(self, node) if evaluate else Value()

    def call(self, function: Value, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
        """Return what calling something gives."""
        run = self.language.calls.get(type(function))
        if run is not None:
            return run(self, function, args, kwargs, node)
        self.library.on_unknown(self)
        # Nothing is known of the function: its result depends on all that it gets, and it may read all of that.
        parts = [*args, *kwargs.values()]
        if self.inside:
            for part in parts:
                self.use(part)
        # Which function it is changes at every call, and it works on tensors: the graph has the one of the capture.
        if function.origins and any(isinstance(part, Tensor) for part in parts):
            self.emit(function.origins, node)
            return Value(mix("call", function.sym))
        return Value(mix("call", function.sym, *(arg.sym for arg in args)), origins_of([function, *parts]))

    def load(self, module: Module, *, program: bool = False) -> None:
        """Run a module once, as its import does; as the program itself it may take all steps that there are."""
        if module.started or not self.project.admits(module):
            return
        module.started = True
        module.scope.slots["__name__"] = const("__main__" if module is self.project.main else module.name)
        inside, reporting = self.inside, self.reporting
        frames, control, turn = self.frames, self.control, self.round
        outline, steps = self.outline, self.steps
        # An import in captured code runs at the first call only: it belongs to no round, and nothing of it is captured.
        self.inside = self.reporting = False
        self.frames, self.control, self.round = [Frame(module, module.scope, "<module>", module.tree)], [], 0
        self.outline = module is not self.project.main
        # A large module must not take the budget of the file that imports it.
        self.steps = steps if program else max(0, self.budget - _LOADING)
        try:
            self.block(module.tree.body)
        except Exhausted:
            # What was read of an imported module stays; the file itself says that it was read in part.
            if not frames:
                raise
        finally:
            self.outline, self.steps = outline, self.steps if program else steps
            self.frames, self.control, self.round = frames, control, turn
            self.inside, self.reporting = inside, reporting

    # GPU work ---------------------------------------------------------------------------------------------------------

    def gpu_work(self, node: ast.AST, *values: Value) -> None:
        """Note that something is launched on the GPU with these arguments."""
        self.gpu_calls += 1
        self.library.note_library(self, node)
        if not self.inside:
            return
        for value in values:
            self.use(value)
            if isinstance(value, Sequence):
                self.known_items(value, node)  # notes that the list is looked into
        self.sink(*values, node=node)
        self.library.on_launch(self)

    def guarded_change(self) -> None:
        """Report a guard for captures under which GPU state is changed: the graph lacks that change."""
        for origins, where, _ in self.control:
            if self.reporting and where is not None and only_guard(origins):
                message = f"{quoted(where)} keeps a change of GPU state out of the capture: no replay makes it"
                self.add("CG115", *self.site(where), message, self.via())

    def finish_round(self, result: Value) -> None:
        """Look back at a call: outputs, streams, and state that was rebound instead of copied into."""
        self.use(result)
        # A number that is returned beside tensors stays that of the capture, too.
        self.sink(*_leaves(result))
        self.report_left_behind()
        self.library.on_end(self)


def _leaves(value: Value) -> Iterator[Value]:
    """Yield the host values that a result holds."""
    if isinstance(value, (Sequence, Mapping)):
        for item in value.each():
            yield from _leaves(item)
    elif not isinstance(value, (Instance, Function)):
        yield value
