"""Run statements: what each kind of node in `ast` does, and how it leaves its block."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from cudagraph_skill.check.interpreter import syntax
from cudagraph_skill.check.interpreter.assignment import assign, bind
from cudagraph_skill.check.interpreter.attributes import bind_member
from cudagraph_skill.check.interpreter.branches import assume, decide, refills, takes_either
from cudagraph_skill.check.interpreter.capture_sites import calls_graph
from cudagraph_skill.check.interpreter.definitions import define, define_class, import_modules, import_names
from cudagraph_skill.check.interpreter.frames import BREAK, CONTINUE, NEXT, RAISE, RETURN
from cudagraph_skill.check.interpreter.goals import leading_to_captures
from cudagraph_skill.check.interpreter.identity import outline
from cudagraph_skill.check.interpreter.items import delete_item, look_at_updated_item, sample_item
from cudagraph_skill.check.interpreter.iteration import TURNS, iterate, run_generator
from cudagraph_skill.check.interpreter.operators import in_place, update_item
from cudagraph_skill.check.interpreter.remembered import remembered
from cudagraph_skill.check.interpreter.truth import holds
from cudagraph_skill.check.interpreter.values import (
    NONE,
    Host,
    Instance,
    Object,
    Sequence,
    Tensor,
    Value,
    const,
    quoted,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_skill.check.interpreter.machine import Machine
    from cudagraph_skill.check.interpreter.values import Origins

_REPEATING = 10_000  # steps that a loop may take outside of a capture to do the same again and again
_WARM = 5  # turns that it takes all the same: calls before a lazy capture, the capture, a replay


def _expression_statement(machine: Machine, node: ast.Expr) -> int:
    if not isinstance(node.value, ast.Constant):
        # A result that nobody keeps may be work that nobody waits for.
        machine.library.on_dropped(machine, machine.value(node.value), node.value)
    return NEXT


def _assign(machine: Machine, node: ast.Assign) -> int:
    value = machine.value(node.value)
    machine.copying = isinstance(node.value, (ast.Name, ast.Call))
    for target in node.targets:
        if machine.inside and isinstance(target, ast.Subscript) and _mentions(node.value, target):
            look_at_updated_item(machine, target, value)
        assign(machine, target, value)
    machine.copying = False
    return NEXT


@remembered
def _mentions(code: ast.expr, target: ast.Subscript) -> bool:
    """Tell whether code reads the item that it is assigned to: `d[k] = 0.9 * d[k]`."""
    text = ast.unparse(target)
    return any(isinstance(part, ast.Subscript) and ast.unparse(part) == text for part in syntax.nodes(code))


def _annotated(machine: Machine, node: ast.AnnAssign) -> int:
    if node.value is not None:
        assign(machine, node.target, machine.value(node.value))
    return NEXT


def _augmented(machine: Machine, node: ast.AugAssign) -> int:
    target = node.target
    if isinstance(target, ast.Subscript):
        update_item(machine, node, target)
        return NEXT
    old = machine.value(ast.copy_location(_loaded(target), target))
    new = machine.value(node.value)
    result = in_place(machine, node, old, new)
    # A tensor that was changed in place is the same; its name is not bound anew, as a replay would not see that.
    if result is not old or isinstance(old, (Host, Sequence)):
        assign(machine, target, result)
    return NEXT


def _if(machine: Machine, node: ast.If) -> int:
    truth, origins = holds(machine, node.test)
    wanted = machine.goal.way(node) if machine.goal is not None and not machine.inside else None
    if wanted is not None and truth is (not wanted):
        assume(machine, node.test, wanted)
        return machine.block(node.body if wanted else node.orelse)
    # A cache that earlier calls have filled: the capture does not fill it again.
    if truth is None and _filled(machine, origins, node):
        return machine.block(node.orelse)

    def then() -> int:
        return machine.block(node.body)

    def otherwise() -> int:
        takes_either(machine, node)
        return machine.block(node.orelse)

    return decide(machine, truth, origins, then, otherwise, node.test)


def _filled(machine: Machine, origins: Origins, node: ast.If | ast.While) -> bool:
    """Tell whether calls before this one have done what a branch or a loop does until it is done."""
    return not origins and machine.inside and machine.round > 1 and refills(node)


def _while(machine: Machine, node: ast.While) -> int:
    for turn in range(TURNS):
        truth, origins = holds(machine, node.test)
        if truth is False and not turn and _leads(machine, node.body):
            truth = None
        # What grows until it suffices has grown in the calls before.
        if truth is None and _filled(machine, origins, node):
            return machine.block(node.orelse)
        if truth is False and not origins:
            return machine.block(node.orelse)
        if truth is False:
            break
        status = machine.under(origins, lambda: machine.block(node.body), node.test)
        if status == BREAK:
            return NEXT
        # A loop that may not begin may not return either.
        if status in {RETURN, RAISE}:
            return NEXT if truth is None else status
        # Two turns show what one turn leaves for the next.
        if truth is None and turn:
            break
    return NEXT


def _for(machine: Machine, node: ast.For | ast.AsyncFor) -> int:
    source = machine.value(node.iter)
    status, before = NEXT, machine.steps
    same = not machine.inside and _repeats(node)
    lazy = not machine.inside and id(node) in leading_to_captures(machine.frame.module.tree)
    written: list[object] = []

    def turn(item: Value) -> int:
        nonlocal status
        assign(machine, node.target, item)
        mark = len(machine.journal)
        status = machine.block(node.body)
        return BREAK if status == NEXT and same and _is_enough(machine, written, mark, before) else status

    broke = iterate(machine, source, node.iter, turn, _WARM if lazy else 2)
    if _leads(machine, node.body):  # there were no items, or too few
        turn(Value())
    # Where the number of turns is not known, the loop may as well end without leaving.
    if status == RETURN or (broke and status == RAISE):
        return status if broke else NEXT
    return machine.block(node.orelse) if status != BREAK else NEXT


def _is_enough(machine: Machine, written: list[object], mark: int, before: int) -> bool:
    """Tell whether a loop that repeats itself has written the same in its last two turns, or takes too long.

    `written` has what earlier turns wrote; this turn began at `mark` of the journal, and the loop after `before` steps.
    """
    writes = machine.journal[mark:]
    now = [(key, outline(place if isinstance(place, Sequence) else place.get(key))) for place, key, _ in writes]
    # DDP changes its buckets after the first iterations without writing to anything of the user's.
    written.append((machine.torch.ddp_calls, now))
    if written[-2:-1] == written[-1:]:
        return True
    long = len(written) >= _WARM and machine.steps - before > _REPEATING
    machine.hurried = machine.hurried or long
    return long


def _try(machine: Machine, node: ast.Try) -> int:
    caught = machine.frame.catch
    findings = set(machine.findings)
    machine.frame.catch = caught or bool(node.handlers)
    status = machine.block(node.body)
    machine.frame.catch = caught
    if node.handlers:
        _report_swallowed(machine, node, findings)
    # The body is taken to succeed, as `try: import x` mostly does; handlers run where it certainly raises.
    if status == RAISE and node.handlers:
        status = NEXT
        for handler in node.handlers:
            status = machine.block(handler.body)
    elif status == NEXT:
        status = machine.block(node.orelse)
    for handler in node.handlers:
        if _leads(machine, handler.body):
            status = machine.block(handler.body)
    # A `return` in `finally` goes before that of the body.
    final = machine.block(node.finalbody)
    return final if final != NEXT else status


def _report_swallowed(machine: Machine, node: ast.Try, before: set[tuple[str, int, str]]) -> None:
    """Report what breaks the capture inside a `try` that catches: the program goes on with a capture that is invalid."""
    for key in set(machine.findings) - before:
        if machine.library.breaks_capture(key[2]):
            cause = machine.findings[key]
            message = f"the except of line {node.handlers[0].lineno} cannot save the capture that this breaks: it stays invalid"
            machine.add("CG233", cause.path, cause.line, cause.column, message, cause.via, certain=cause.certain)


def _with(machine: Machine, node: ast.With | ast.AsyncWith) -> int:
    return _enter(machine, node, 0)


def _enter(machine: Machine, node: ast.With | ast.AsyncWith, place: int) -> int:
    """Enter the contexts from `place` on, one within the other, and run the body in the last."""
    if place == len(node.items):
        return machine.block(node.body)
    item = node.items[place]
    context = machine.value(item.context_expr)
    if _leads(machine, [node]) and calls_graph(item.context_expr) and not isinstance(context, (Object, Instance)):
        context = Object("torch.cuda.graph", [], {}, machine.round)  # what it is was not found out

    def body(value: Value) -> int:
        if item.optional_vars is not None:
            assign(machine, item.optional_vars, value)
        return _enter(machine, node, place + 1)

    return enter(machine, context, item.context_expr, body, node)


def _leads(machine: Machine, body: list[ast.stmt]) -> bool:
    """Tell whether a block leads to the capture that is looked for."""
    return machine.goal is not None and not machine.inside and machine.goal.leads(body)


def _return(machine: Machine, node: ast.Return) -> int:
    value = machine.value(node.value)
    machine.frame.returned.append(value)
    return RETURN


def _raise(machine: Machine, node: ast.Raise) -> int:
    def evaluate() -> int:
        machine.value(node.exc)
        return NEXT

    # The message is made only where the call fails anyway: what it reads is not a fault of the capture.
    machine.hushed(evaluate)
    return RAISE


def _assert(machine: Machine, node: ast.Assert) -> int:
    truth, _ = holds(machine, node.test)
    # Only `assert False` is taken to raise: other assertions are there because they hold.
    return RAISE if truth is False and not machine.quiet and isinstance(node.test, ast.Constant) else NEXT


def _delete(machine: Machine, node: ast.Delete) -> int:
    for target in node.targets:
        if isinstance(target, ast.Name):
            slots = machine.frame.scope.slots  # in the journal, so that a branch that is not taken keeps the name
            machine.journal.append((slots, target.id, slots.get(target.id)))
            slots.pop(target.id, None)
        elif isinstance(target, ast.Subscript):
            delete_item(machine, target)
    return NEXT


def _global(machine: Machine, node: ast.Global) -> int:
    for name in node.names:
        machine.frame.scope.declared[name] = machine.frame.scope.global_scope
    return NEXT


def _nonlocal(machine: Machine, node: ast.Nonlocal) -> int:
    for name in node.names:
        scope = machine.frame.scope.outer
        while scope is not None and name not in scope.slots:
            scope = scope.outer
        # The outer function may itself have the name from a `global` or `nonlocal`.
        if scope is not None:
            machine.frame.scope.declared[name] = scope.declared.get(name, scope)
    return NEXT


def _match(machine: Machine, node: ast.Match) -> int:
    subject = machine.value(node.subject)
    if isinstance(subject, Tensor) and subject.on_gpu and any(isinstance(case.pattern, ast.MatchValue) for case in node.cases):
        machine.report("CG202", node.subject, f"matching {quoted(node.subject)} against values reads a GPU tensor on the host")
    return _cases(machine, subject, node.cases)


def _cases(machine: Machine, subject: Value, cases: list[ast.match_case]) -> int:
    if not cases:
        return NEXT
    case, rest = cases[0], cases[1:]
    truth = matches(machine, subject, case.pattern)
    if case.guard is not None and truth is not False:
        guarded, _ = holds(machine, case.guard)
        truth = guarded if truth else None if guarded is not False else False
    # What a tensor holds decides nothing here: matching it against values is reported above.
    origins = subject.origins if isinstance(subject, Host) else NONE
    return decide(machine, truth, origins, lambda: machine.block(case.body), lambda: _cases(machine, subject, rest))


def _leave(_: Machine, node: ast.stmt) -> int:
    return BREAK if isinstance(node, ast.Break) else CONTINUE


def enter(machine: Machine, context: Value, node: ast.expr, body: Callable[[Value], int], statement: ast.AST) -> int:
    """Run the body of a `with` inside its context; return how the body leaves."""
    if isinstance(context, Object) and context.name == "contextmanager":
        return _enter_generator(machine, context, body)
    opened = context.cls.find("__enter__") if isinstance(context, Instance) else None
    if isinstance(context, Instance) and opened:
        status = body(machine.call(bind_member(opened[1], context), [], {}, node))
        closed = context.cls.find("__exit__")
        if closed:
            # No exception: three times None.
            machine.call(bind_member(closed[1], context), [const(None)] * 3, {}, node)
        return status
    return machine.library.enter(machine, context, node, body, statement)


def _enter_generator(machine: Machine, context: Object, body: Callable[[Value], int]) -> int:
    """Run the body where a function with `@contextmanager` yields."""
    status = NEXT

    def yielded(given: Value) -> int:
        nonlocal status
        status = body(given)
        return NEXT

    run_generator(machine, context, yielded)
    return status


def matches(machine: Machine, subject: Value, pattern: ast.pattern) -> bool | None:
    """Tell whether a pattern fits, None where that is not known; bind the names of the pattern."""
    if isinstance(pattern, (ast.MatchValue, ast.MatchSingleton)):
        wanted = machine.value(pattern.value) if isinstance(pattern, ast.MatchValue) else const(pattern.value)
        if isinstance(subject, Host) and isinstance(wanted, Host) and subject.known and wanted.known:
            return subject.value == wanted.value
        return None
    if isinstance(pattern, ast.MatchAs):
        fit = pattern.pattern is None or matches(machine, subject, pattern.pattern)
        if pattern.name:
            bind(machine, pattern.name, subject, pattern)
        return fit
    if isinstance(pattern, ast.MatchOr):
        fits = [matches(machine, subject, option) for option in pattern.patterns]
        return True if True in fits else None if None in fits else False
    _bind_parts(machine, subject, pattern)
    return None


def _bind_parts(machine: Machine, subject: Value, pattern: ast.pattern) -> None:
    """Give each name in a pattern of a class, sequence or mapping some part of the subject: it may fit."""
    for part in ast.walk(pattern):
        name = getattr(part, "name", None) or getattr(part, "rest", None)
        if isinstance(name, str):
            bind(machine, name, sample_item(machine, subject, pattern), pattern)


@remembered
def _repeats(node: ast.For | ast.AsyncFor) -> bool:
    """Tell whether a loop does the same at each turn: its body does not mention what the turns differ in."""
    return isinstance(node.target, ast.Name) and not any(node.target.id in syntax.names(statement) for statement in node.body)


def _loaded(target: ast.expr) -> ast.expr:
    """Return the target of `target += …` as an expression that reads it."""
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load())
    if isinstance(target, ast.Attribute):
        return ast.Attribute(target.value, target.attr, ast.Load())
    return target


STATEMENTS: dict[type, Callable[[Machine, Any], int]] = {
    ast.Expr: _expression_statement,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.If: _if,
    ast.While: _while,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.Try: _try,
    ast.TryStar: _try,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Return: _return,
    ast.Raise: _raise,
    ast.Assert: _assert,
    ast.FunctionDef: define,
    ast.AsyncFunctionDef: define,
    ast.ClassDef: define_class,
    ast.Import: import_modules,
    ast.ImportFrom: import_names,
    ast.Global: _global,
    ast.Nonlocal: _nonlocal,
    ast.Delete: _delete,
    ast.Match: _match,
    ast.Break: _leave,
    ast.Continue: _leave,
}
