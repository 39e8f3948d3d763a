"""Check one file or text: parse it, interpret what it captures, collect findings and notes."""

from __future__ import annotations

import ast
import gc
import re
import sys
from _thread import allocate_lock
from collections import deque
from contextlib import contextmanager, suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from cudagraph_skill.check.findings import LEFT_OUT, UNREAD_BODY, Report, Unread
from cudagraph_skill.check.hazards import hazard
from cudagraph_skill.check.input.packages import folders
from cudagraph_skill.check.input.settings import Options, chosen
from cudagraph_skill.check.input.source import Source, allowed, file_bytes, read_source, shown
from cudagraph_skill.check.input.targets import Target, no_function
from cudagraph_skill.check.interpreter.remembered import forget
from cudagraph_skill.errors import SkillError
from cudagraph_skill.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from cudagraph_skill.check.findings import Finding, Region
    from cudagraph_skill.check.input.modules import Project
    from cudagraph_skill.check.interpreter.captures import Reader
    from cudagraph_skill.check.interpreter.frames import Site
    from cudagraph_skill.check.interpreter.values import Value

_DEEP = 1500  # calls within each other that reading a file may take, wherever it is called from
_BUDGET = 20_000  # steps for each function of a file, and for each module on the way, where all functions are read
_PROGRAM = 200_000  # steps for a file that is run as a program, and for what that does not reach
_AIMED = 40_000  # steps for each way to a capture that nothing else reached
_AIMED_IN_ALL = 400_000  # and for all of them together
_SECONDS = 60  # for one file, whatever it holds
_STEP = re.compile(r"(?P<path>.*):(?P<line>\d+) in .*", re.DOTALL)  # of `Finding.via`
_ONE = allocate_lock()  # files are read one at a time in a process


def check_text(text: str, name: str, function: str | None, options: Options) -> Report:
    """Return what reading pasted source finds.

    Raises:
        SkillError: the source has no function of that name.
    """
    with _ONE, _room():
        return joined([_read(read_source(name, text), function, options)])


def read_target(target: Target, options: Options) -> Report | SkillError:
    """Return what reading one file finds; nothing of what goes wrong in reading it comes out as an exception."""
    try:
        data = _bytes(target.path)  # a slow disk must not hold up other files
        with _ONE, _room():
            return _read(read_source(target.path, data), target.function, options)
    except SkillError as error:
        return error
    except Exception as error:  # noqa: BLE001 - a mistake of ours in one file must not cost the others
        return Report([], [], [], [_failed(target.path, target.function or "the file", error)])


def _bytes(path: str) -> bytes | None:
    try:
        return file_bytes(path)
    except OSError:  # `read_source` meets it again, and says so
        return None


def joined(parts: Iterable[Report | SkillError]) -> Report:
    """Return one report of many, each finding and region once."""
    findings: list[Finding] = []
    whole = Report([], [], [], [])
    for part in parts:
        if isinstance(part, SkillError):
            raise part
        findings += part.findings
        whole.regions.extend(part.regions)
        whole.notes.extend(part.notes)
        whole.unread.extend(part.unread)
    whole.findings.extend(_once(findings))
    return whole


def _once(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield each finding once, in order: another way to the same line says no more, unless only that one is certain, or is shorter."""
    best: dict[tuple[str, int, str], Finding] = {}
    for item in findings:
        known = best.setdefault((item.path, item.line, item.id), item)
        if (not item.certain, len(item.via)) < (not known.certain, len(known.via)):
            best[item.path, item.line, item.id] = item
    yield from best.values()


class _Part(NamedTuple):
    """What one reader has read: captured code to its end, cut short, and with calls that lead nowhere; the ids of captures it came to."""

    whole: list[Region]
    cut: dict[Region, str]
    unfollowed: dict[Region, dict[str, Site]]
    done: set[int]
    too_long: bool
    steps: int


def _read(source: Source, function: str | None, options: Options) -> Report:
    report = Report([], [], list(source.notes), [])
    if source.tree is None:
        report.notes.append(source.problem)
        return report
    if function is None and not options.every and not _captures(source.text):
        return report
    if _makes_a_capture(source.tree, function):
        report.notes.append(
            f"{source.path}: {function} makes a capture, it is not captured itself: what the file captures was read"
        )
        function = None
    options = options._replace(until=monotonic() + _SECONDS)
    parts = _parts(source, function, options, report)
    if monotonic() > options.until:
        report.notes.append(f"{source.path}: reading took longer than {_SECONDS} seconds and was ended; the rest was not read")
    cut = list(_cut_short(parts))
    elsewhere = list(_unfollowed(parts))
    report.unread.extend([*cut, *elsewhere])
    if elsewhere and not options.python:
        report.notes.extend(_unopened(source))
    if function is None and not options.every:
        places = {(region.path, region.line) for region in cut}
        report.unread.extend(part for part in _not_reached(source, source.tree, parts) if (part.path, part.line) not in places)
    return _in_cells(report, source) if source.cells else report


def _in_cells(report: Report, source: Source) -> Report:
    """Return the report of a notebook with cells in its sentences; numbers stay those of the joined text, by which lines are found."""

    def placed(text: str) -> str:
        quoted_or_place = rf"`[^`]*`|({re.escape(source.path)}:|\bline )(\d+)\b"
        return re.sub(quoted_or_place, _in_cell, text)

    def _in_cell(match: re.Match[str]) -> str:
        if match[2] is None:  # code of the user's
            return match[0]
        return f"{match[1].removesuffix('line ')}{shown(source.cells, int(match[2]))}"

    findings = [
        finding._replace(
            message=placed(finding.message),
            via=tuple(map(placed, finding.via)),
            because=tuple(map(placed, finding.because)),
        )
        for finding in report.findings
    ]
    unread = [part._replace(name=placed(part.name), reason=placed(part.reason)) for part in report.unread]
    notes = [placed(note) if LEFT_OUT in note or UNREAD_BODY in note else note for note in report.notes]
    return report._replace(findings=findings, unread=unread, notes=notes)


def _parts(source: Source, function: str | None, options: Options, report: Report) -> list[_Part]:
    """Read the file in all ways, put what they find into the report, and return how far each came."""
    parts: list[_Part] = []
    compiled: dict[Region, list[Value]] = {}
    try:
        for reader in _readers(source, function, options, report.unread):
            for region in (region for region in reader.regions if region.how == "reduce-overhead"):
                compiled.setdefault(region, []).extend(reader.compiled_functions.get(region, ()))
            parts.append(
                _Part(reader.whole, reader.cut, reader.unfollowed, reader.done, reader.program_exhausted, reader.machine.steps)
            )
            _add(reader, source, options, report)
        if compiled:
            report.notes.extend(_of_compiled(compiled, options))
    except SkillError:
        raise
    except Exception as error:  # noqa: BLE001 - what the other functions of the file have stays
        report.unread.append(_failed(source.path, function or "the file", error))
    return parts


def _of_compiled(compiled: dict[Region, list[Value]], options: Options) -> Iterable[str]:
    """Return notes on functions that torch.compile graphs, each once."""
    from cudagraph_skill.check import compiled as bodies  # noqa: PLC0415 - not for a file that captures nothing
    from cudagraph_skill.check.interpreter.captures import Reader  # noqa: PLC0415 - not for a file that captures nothing
    from cudagraph_skill.check.library import answers  # noqa: PLC0415 - not for a file that captures nothing

    def make(source: Source) -> Reader:
        return Reader(_project(source, options), answers)

    return dict.fromkeys(bodies.notes(compiled, make, lambda reader: _wanted(reader, options)))


def _makes_a_capture(tree: ast.Module, function: str | None) -> bool:
    """Return whether a function captures for later replays; one that also replays at once may be a step that is captured wrongly."""
    from cudagraph_skill.check.interpreter.capture_sites import capture_paths, replays_at_once  # noqa: PLC0415 - not for a file that captures nothing

    named = _path_of(tree, (function or "").replace("<locals>.", "")) or []
    paths = capture_paths(tree) if named else []
    captures = [path[-1] for path in paths if path[: len(named)] == named and len(path) > len(named)]
    if not captures or not _has_parameters(named[-1]):
        return bool(captures)
    return not any(replays_at_once(named[-1], capture) for capture in captures)


def _has_parameters(function: ast.AST) -> bool:
    """Tell whether a function is given something: a step that captures what it is given does so at each call."""
    arguments = getattr(function, "args", None)
    return isinstance(arguments, ast.arguments) and bool(ast.unparse(arguments))


def _cut_short(parts: list[_Part]) -> Iterator[Unread]:
    """Yield captured code that no reader has read to its end."""
    whole = {(region.path, region.line) for part in parts for region in part.whole}
    cut = {(region.path, region.line): (region.name, reason) for part in parts for region, reason in part.cut.items()}
    for place, (name, reason) in cut.items():
        if place not in whole:
            yield Unread(*place, name, reason)


def _unfollowed(parts: list[_Part]) -> Iterator[Unread]:
    """Yield captured code that calls what is not here, as the reader has it that knew most."""
    least: dict[Region, dict[str, Site]] = {}
    for part in parts:
        for region, calls in part.unfollowed.items():
            least[region] = min(calls, least.get(region, calls), key=len)
    for region, calls in least.items():
        if calls:
            yield Unread(region.path, region.line, region.name, _called_elsewhere(region, calls))


def _called_elsewhere(region: Region, calls: dict[str, Site]) -> str:
    """Return a clause that names the first of these calls and counts the others."""
    name, (path, line, _) = next(iter(calls.items()))
    where = f"line {line}" if path == region.path else f"{path}:{line}"
    others = f" and {len(calls) - 1} more" if len(calls) > 1 else ""
    return f"it calls {name} ({where}){others}, whose code was not found"


def _unopened(source: Source) -> Iterator[str]:
    """Yield a note that says how packages are read that the file imports and that hold code which was not found."""
    from cudagraph_skill.check.input.modules import Project  # noqa: PLC0415 - not for a file that captures nothing
    from cudagraph_skill.check.interpreter.unfollowed import answered_for  # noqa: PLC0415 - not for a file that captures nothing

    missing = [name for name in Project(source).missing() if not answered_for(name)]
    if missing:
        listed = f"{', '.join(missing[:3])}{', …' * (len(missing) > 3)}"
        yield f"{source.path}: {listed}: packages are read where `--python PYTHON` names the interpreter that has them"


def _not_reached(source: Source, tree: ast.Module, parts: list[_Part]) -> Iterator[Unread]:
    """Yield captures of the file that no reader has come to."""
    from cudagraph_skill.check.interpreter.capture_sites import capture_paths, managers, names_torch  # noqa: PLC0415 - not for a file that captures nothing

    done = {node for part in parts for node in part.done}
    too_long = any(part.too_long for part in parts) or sum(part.steps for part in parts) > _AIMED_IN_ALL
    reason = (
        "the code in front of it is longer than this check reads"
        if too_long
        else "no call that this check can follow leads there"
    )
    missed = [(path, reason) for path in capture_paths(tree) if id(path[-1]) not in done and names_torch(tree, path[-1])]
    missed += [
        (path, f"{name} captures what it is given when it runs: name that function as FILE:FUNCTION")
        for path, name in managers(tree)
    ]
    for path, why in missed:
        name = ".".join(getattr(node, "name", "") for node in path[:-1]) or "<module>"
        yield Unread(source.path, getattr(path[-1], "lineno", 1), name, why)


def _add(reader: Reader, source: Source, options: Options, report: Report) -> None:
    """Put what a reader has found into the report, without what comments in the files silence."""
    report.findings[:] = _once([*report.findings, *_wanted(reader, options)])
    report.regions.extend(item for item in reader.regions if item not in report.regions)
    report.notes.extend(note for note in _read_in_part(reader, source) if note not in report.notes)


def _wanted(reader: Reader, options: Options) -> Iterator[Finding]:
    """Yield what a reader has found, by place, without what options and comments silence."""
    opened = reader.project.sources()
    for finding in sorted(reader.machine.findings.values(), key=lambda item: (item.path, item.line, item.column, item.id)):
        item = _at_the_users_line(finding, reader.project)
        if item is not None and chosen(item.id, options, certain=item.certain) and not _silenced(item, opened):
            yield item


def _read_in_part(reader: Reader, source: Source) -> Iterator[str]:
    """Yield notes on what was longer than the budgets."""
    if reader.project.beyond:
        yield f"{source.path}: installed packages were read in part: {', '.join(sorted(reader.project.beyond))}"
    if reader.program_exhausted:
        yield f"{source.path}: the program is larger than the budget of this check; it was read in part"


def _at_the_users_line(finding: Finding, project: Project) -> Finding | None:
    """Return a finding in an installed package as a likely one of the line of the user's that leads there; None if it is but a note.

    Which options, files and versions decide there is known only in part.
    """
    place = project.installed(finding.path)
    steps = [_STEP.match(step) for step in finding.via]
    users = [step for step in steps if step is not None and project.installed(step["path"]) is None]
    if place is None:
        return finding
    if hazard(finding.id).severity == "info":
        return None
    if not users:
        return finding._replace(edit=None, certain=False)
    message = f"leads to {place}:{finding.line}: {finding.message}; leave it out with an option, or override the method there"
    last = users[-1]
    return finding._replace(path=last["path"], line=int(last["line"]), column=1, message=message, edit=None, certain=False)


def _silenced(finding: Finding, opened: dict[str, Source]) -> bool:
    """Tell whether a comment in the finding's own file allows it, be that the file that was named or one that it imports."""
    source = opened.get(finding.path)
    return source is not None and allowed(source, finding)


def _attempt(reader: Reader, run: Callable[[], object], name: str, unread: list[Unread]) -> None:
    """Read one function; one on which this check fails is reported as unread, and what was found before stays."""
    try:
        run()
    except SkillError:
        raise
    except Exception as error:  # noqa: BLE001 - see above
        unread.append(_failed(reader.project.main.path, name, error))
        if not reader.machine.findings:
            reader.regions.clear()  # code that was not read is not clean


def _failed(path: str, name: str, error: Exception) -> Unread:
    """Return what the check could not read because it has a defect itself: where that is, for who reports it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" at {trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}" if trace else ""
    reason = printable(f"{error}")[:120]
    return Unread(path, 1, name, f"this check failed with {type(error).__name__}{f' ({reason})' * bool(reason)}{where}")


@contextmanager
def _room() -> Iterator[None]:
    """Give each file as deep a stack, however deep the caller stands in one, so that all find the same; and less tidying.

    Trees and values are many small objects that live on: the collector would go through them again and again.
    """
    depth, frame = 0, sys._getframe()
    while frame.f_back is not None:
        depth, frame = depth + 1, frame.f_back
    before, often = sys.getrecursionlimit(), gc.get_threshold()
    sys.setrecursionlimit(depth + _DEEP)
    gc.set_threshold(200_000, 10, 10)
    try:
        yield
    finally:
        forget()
        sys.setrecursionlimit(before)
        gc.set_threshold(*often)


def may_capture(path: str) -> bool:
    """Tell whether a file met in a folder is worth parsing; one that cannot be opened is, since that gives a note."""
    try:
        data = file_bytes(path)
    except OSError:
        return True
    return b"\0" in data or _captures(data.decode("latin-1"))  # UTF-16 has zeros


def _captures(text: str) -> bool:
    """Tell whether a file may capture anything: the words that it would need."""
    return any(
        word in text
        for word in (
            "cuda.graph",
            "CUDAGraph",
            "make_graphed_callables",
            "reduce-overhead",
            "max-autotune",
            "triton.cudagraphs",
            "import graph",
            "CudaGraphModule",
            "capture_begin",
            "CudaGraphWrapper",
            "CudaGraphHelper",
            "CudaGraphManager",
            "CUDAGraphCallback",
            "CUDAGraphTransform",
        )
    )


def _readers(source: Source, function: str | None, options: Options, unread: list[Unread]) -> Iterator[Reader]:
    """Yield those who have read the file, each with what it found."""
    from cudagraph_skill.check.interpreter.captures import Reader  # noqa: PLC0415 - not for a file that captures nothing
    from cudagraph_skill.check.library import answers  # noqa: PLC0415 - not for a file that captures nothing

    if function is not None:
        wanted = function.replace("<locals>.", "")
        path = _path_of(source.tree, wanted)
        if path is None:
            raise no_function(source, function)
        reader = Reader(_project(source, options), answers)
        _attempt(reader, lambda: reader.named(wanted, path), function, unread)
        yield reader
        return
    if options.every:
        yield from _every(source, unread, options)
        return
    if source.tree is not None:
        yield from _program(source, source.tree, unread, options)


def _project(source: Source, options: Options) -> Project:
    from cudagraph_skill.check.input.modules import Project  # noqa: PLC0415 - not for a file that captures nothing

    packages = folders(options.python) if options.python else ()
    return Project(source, explains=options.explain, folders=packages, until=options.until)


def _program(source: Source, tree: ast.Module, unread: list[Unread], options: Options) -> Iterator[Reader]:
    """Yield the file run as a program, then functions that capture and that it did not reach; at last, where that was too long, the nearest."""
    from cudagraph_skill.check.interpreter.capture_sites import capture_paths, nearest, roots  # noqa: PLC0415 - not for a file that captures nothing
    from cudagraph_skill.check.interpreter.captures import Reader  # noqa: PLC0415 - not for a file that captures nothing
    from cudagraph_skill.check.library import answers  # noqa: PLC0415 - not for a file that captures nothing

    main = Reader(_project(source, options), answers, _PROGRAM)
    _attempt(main, lambda: main.script(program=True), "the top level", unread)
    _attempt(main, main.compiled, "torch.compile", unread)
    yield main
    done, left, exhausted = set(main.done), _PROGRAM - main.machine.steps, bool(main.cut) or main.program_exhausted
    for find in (roots, nearest):
        for root in find(tree, done) if find is roots or exhausted else []:
            reader = Reader(_project(source, options), answers, max(left, _BUDGET))
            _attempt(reader, lambda: reader.run_root(root), ".".join(getattr(node, "name", "") for node in root), unread)  # noqa: B023 - called here
            done |= reader.done
            left -= reader.machine.steps
            exhausted = exhausted or bool(reader.cut) or reader.program_exhausted
            yield reader
    project, left = _project(source, options), _AIMED_IN_ALL
    for path in capture_paths(tree):
        for reader in _aimed(project, path, done, unread) if left > 0 else []:
            done |= reader.done
            left -= reader.machine.steps
            yield reader


def _aimed(project: Project, path: list[ast.AST], done: set[int], unread: list[Unread]) -> Iterator[Reader]:
    """Yield readers that take flags, counters and early returns to lead to a capture, until one has read it.

    Modules that the file imports are run once for all of them.
    """
    from cudagraph_skill.check.interpreter.captures import Reader  # noqa: PLC0415 - not for a file that captures nothing
    from cudagraph_skill.check.library import answers  # noqa: PLC0415 - not for a file that captures nothing

    ways: list[Callable[[Reader], None]] = [
        lambda reader: reader.script(),
        lambda reader: reader.run_definitions(path[:-1]),
        lambda reader: reader.run_definitions(path[:-1], bare=True),
    ]
    for way in ways:
        if id(path[-1]) in done:
            return
        project.restart()
        reader = Reader(project, answers, _AIMED)
        reader.aim(path)
        _attempt(reader, lambda: way(reader), f"the capture in line {getattr(path[-1], 'lineno', 0)}", unread)  # noqa: B023 - called here
        yield reader


def _every(source: Source, unread: list[Unread], options: Options) -> Iterator[Reader]:
    """Yield readers of each forward, and of each function of the module that seems to take tensors, read as captured code."""
    from cudagraph_skill.check.interpreter.captures import Reader  # noqa: PLC0415 - not for a file that captures nothing
    from cudagraph_skill.check.interpreter.guesses import aliases_in, takes_tensors  # noqa: PLC0415 - not for a file that captures nothing
    from cudagraph_skill.check.library import answers  # noqa: PLC0415 - not for a file that captures nothing

    shared: dict[tuple[ast.AST, int], Value] = {}  # what functions return: each is followed but once, and named itself besides
    project = _project(source, options)
    wanted, aliases = _forwards(project.main.tree), aliases_in(project.main.tree)
    first = Reader(project, answers, _BUDGET)
    if wanted:
        _attempt(first, lambda: _loaded(first), "the top level", unread)
    for name, path in wanted:
        reader, wrong = None, -1
        # Where arguments only looked like tensors, it is read again without these; or not at all, if none is left.
        while len(project.no_tensors) > wrong and (reader is None or takes_tensors(path[-1], aliases, project.no_tensors)):
            wrong = len(project.no_tensors)
            reader, summaries = Reader(project, answers, _BUDGET), dict(shared)
            _inherit(reader, first)
            reader.machine.summaries = summaries
            _attempt(reader, partial(reader.named, name, path), name, unread)
        if reader is not None and len(project.no_tensors) == wrong:
            shared.update(summaries)
            yield reader


def _forwards(tree: ast.Module) -> list[tuple[str, list[ast.AST]]]:
    """Return functions of a module that take tensors, and the forward of each class, with their names; the last of several with one name."""
    from cudagraph_skill.check.interpreter import syntax  # noqa: PLC0415 - not for a file that captures nothing
    from cudagraph_skill.check.interpreter.guesses import aliases_in, takes_tensors  # noqa: PLC0415 - not for a file that captures nothing

    last, aliases = {node.name: node for node in _definitions(tree)}, aliases_in(tree)
    forwards: list[tuple[str, list[ast.AST]]] = []
    classes: list[ast.ClassDef] = []
    for name, node in sorted(last.items(), key=lambda item: item[1].lineno):
        if isinstance(node, ast.ClassDef):
            classes.append(node)
            forwards += [(f"{name}.forward", [node, inner]) for inner in _named(node, "forward")[-1:]]
        elif takes_tensors(node, aliases):
            forwards.append((name, [node]))
    others = [
        (node, method) for node in classes if _is_module(node) for method in _methods(node) if takes_tensors(method, aliases)
    ]
    mentioned = syntax.attributes(tree) if others else frozenset()
    return forwards + [
        (f"{node.name}.{method.name}", [node, method]) for node, method in others if _is_entry(method.name, mentioned)
    ]


def _is_entry(name: str, mentioned: frozenset[str]) -> bool:
    """Tell whether a method is for code elsewhere: those that the file mentions are called with what they really get."""
    return name != "forward" and name not in mentioned and not name.startswith("__")


def _methods(node: ast.ClassDef) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the methods of a class; the last of several with one name."""
    methods = {inner.name: inner for inner in _definitions(node) if not isinstance(inner, ast.ClassDef)}
    return list(methods.values())


def _is_module(node: ast.ClassDef) -> bool:
    """Tell whether a class seems to be a torch module: it has a forward, or a base with that name."""
    bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
    return bool(_named(node, "forward")) or any(base.endswith("Module") for base in bases)


def _loaded(reader: Reader) -> None:
    """Run the top level of the file, once for all functions of it; what was read of a very large one stays."""
    from cudagraph_skill.check.interpreter.frames import Exhausted  # noqa: PLC0415 - not for a file that captures nothing

    with suppress(Exhausted, RecursionError):
        reader.machine.load(reader.project.main)


def _inherit(reader: Reader, first: Reader) -> None:
    """Tell a reader what the one that ran the top level has seen there."""
    ours, theirs = reader.machine, first.machine
    ours.created.update({node: list(made) for node, made in theirs.created.items()})
    ours.instances.update({node: list(made) for node, made in theirs.instances.items()})
    ours.observed.update(theirs.observed)
    ours.torch.validates = theirs.torch.validates


def _path_of(tree: ast.Module | None, name: str) -> list[ast.AST] | None:
    """Return the definitions that lead to a qualified name, outermost first; the last of several with one name."""
    path: list[ast.AST] = []
    scope: ast.AST | None = tree
    for part in name.split("."):
        definitions = _named(scope, part) if scope else []
        if not definitions:
            return None
        scope = definitions[-1]
        path.append(scope)
    return path


def _named(scope: ast.AST, name: str) -> list[ast.AST]:
    """Return definitions of a name right inside a scope; for `<lambda>` the lambdas that give no arguments to it."""
    if name != "<lambda>":
        return [node for node in _definitions(scope) if node.name == name]
    lambdas = [node for node in ast.walk(scope) if isinstance(node, ast.Lambda)]
    return [node for node in reversed(lambdas) if node.args.args or node.args.vararg] or list(lambdas)


def _definitions(scope: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Return functions and classes right inside a scope, in its branches and blocks too."""
    definitions: list[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef] = []
    waiting = deque(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.popleft()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            definitions.append(node)
        elif isinstance(node, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            waiting += ast.iter_child_nodes(node)
    return definitions
