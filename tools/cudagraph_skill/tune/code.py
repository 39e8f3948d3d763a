"""Write a way around the user's function: as a module that imports it, or as a patch to the user's file, which a program needs.

The wrapper in both is the one that was measured, from guest/wrappers.
"""

from __future__ import annotations

import ast
import difflib
import io
import re
from keyword import iskeyword
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cudagraph_skill.capture.guest import wrappers
from cudagraph_skill.capture.request import in_program, locate, parameters
from cudagraph_skill.check.input.source import read_source
from cudagraph_skill.errors import SkillError
from cudagraph_skill.tune.choice import taken
from cudagraph_skill.tune.ways import OF_MODULES, WAYS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cudagraph_skill.capture.request import Request
    from cudagraph_skill.check.findings import Region
    from cudagraph_skill.tune.trials import Trial, Tuning
    from cudagraph_skill.tune.ways import Way

_FOLDER = Path(str(wrappers.__file__)).parent
_INFERENCE_MODE = ("torch.inference_mode()", "torch.inference_mode", "inference_mode()", "inference_mode")


class Target(NamedTuple):
    """Where the user's callable is: its file ("" for a module by name), its dotted module, its name ("" for `make`).

    `is_main`: the file is the program itself, of which an import would give another copy.
    """

    file: str
    module: str
    name: str
    maker: str
    warm_ups: int | None = None
    is_main: bool = False

    @property
    def argument(self) -> str:
        """Return the argument of a wrapper for other warm-ups than the usual ones, "" for none."""
        return f", warm_ups={self.warm_ups}" if self.warm_ups is not None else ""


def target(request: Request) -> Target:
    """Return where the callable of a request is.

    Raises:
        SkillError: its file is not there.
    """
    file, module, name = locate(request.target)
    maker = request.make or ("make" if not name else "")
    return Target(file, module or _dotted(Path(file).absolute()), "" if maker else name, maker, request.warmup)


def of_program(request: Request, seen: Region) -> Target:
    """Return where the target of a program is; of a module by its name, `seen` has the file that the run found.

    Raises:
        SkillError: its file is not there.
    """
    file, module, name = locate(in_program(request))
    by_module = request.program[0] == "-m"
    main = request.program[1] if by_module else request.program[0]
    if file:
        is_main = Path(file).resolve() == Path(request.folder, main).resolve()
        root = Path(request.folder) if by_module else Path(request.folder, main).parent
        return Target(file, Path(file).stem if is_main else _below(Path(file), root), name, "", request.warmup, is_main)
    found = seen.path if seen.path.endswith(".py") and name.rpartition(".")[2] in seen.name.split(".") else ""
    return Target(found, module, name, "", request.warmup, by_module and module in (main, f"{main}.__main__"))


def _below(file: Path, root: Path) -> str:
    """Return the name by which a program imports a file, from its folder `root`."""
    folder, root = file.parent.resolve(), root.resolve()
    if (folder / "__init__.py").exists() or root not in folder.parents:
        return _dotted(file.absolute())
    return ".".join([*folder.relative_to(root).parts, file.stem])


def _dotted(file: Path) -> str:
    """Return the name by which Python imports a file from the folder above its packages."""
    parts = [] if file.stem == "__init__" else [file.stem]
    folder = file.parent
    while (folder / "__init__.py").exists():
        parts.insert(0, folder.name)
        folder = folder.parent
    return ".".join(parts)


class Proposal(NamedTuple):
    """The code of a way ("": there is none): a module, or a diff with its changes; `said` is why it is no diff."""

    code: str
    changes: Sequence[Change] = ()
    said: str = ""


def proposed(request: Request, tuning: Tuning, patch: bool = False) -> Proposal:
    """Return the code of the way to take: a module, or with `patch`, and for a program, a change of the user's file.

    Raises:
        SkillError: the callable's file is not there.
    """
    trial = taken(tuning.trials)
    if trial is None:
        return Proposal("")
    place = of_program(request, tuning.checked.target) if request.program else target(request)
    if not (patch or request.program):
        return Proposal(module(trial, place))
    try:
        made = changes(trial, place)
    except SkillError as error:
        return Proposal(module(trial, place), said=str(error))
    return Proposal("".join(change.diff() for change in made), made)


# A module that imports it ---------------------------------------------------------------------------------------------


def module(trial: Trial, place: Target) -> str:
    """Return the source of a module that imports the user's callable, and has it under the same name in this way."""
    way = WAYS[trial.name]
    source = (_FOLDER / f"{way.module}.py").read_text(encoding="utf-8") if way.module else _PLAIN
    imported, use = _use(trial, place, way)
    title = f'"""`{place.name or place.maker}` of {place.module}, called by way of {trial.name}."""'
    body = re.sub(r'\A""".*?"""', title, source, count=1, flags=re.DOTALL)
    typing_only = "\nif TYPE_CHECKING:"
    where = body.index(typing_only) if typing_only in body else len(body.rstrip())
    return f"{body[:where].rstrip()}\n\n{imported}\n\n{body[where:].lstrip()}\n\n{use}\n".replace("\n\n\n\n", "\n\n\n")


_PLAIN = '''"""Compile a function."""

from __future__ import annotations

import torch
'''


def _use(trial: Trial, place: Target, way: Way) -> tuple[str, str]:
    """Return the import of the user's callable, and the statements that call it in this way."""
    if way.guest == OF_MODULES:
        return _use_of_modules(trial.modules, place)

    def around(function: str) -> str:
        return way.around(function, place.argument, trial.in_inference_mode)

    if place.is_main:
        where = place.file or place.module
        return "", f"# In {where}, below its definition: {place.name} = {around(place.name)}"
    first, _, rest = place.name.partition(".")
    if place.maker:
        device = "device" if place.file and parameters(place.file, place.maker) else ""
        made = way.around('made["fn"]', ', made.get("warmup", 3)', trial.in_inference_mode)
        return _import(place, place.maker, "make_eager"), (
            f"def {place.maker}({device and f'{device}: str'}) -> dict[str, object]:\n"
            '    """Return what the eager one gives, called in this way."""\n'
            f'    made = make_eager({device})\n    return {{**made, "fn": {made}}}'
        )
    if rest:
        return _import(place, first, first), f"{place.name} = {around(place.name)}"
    return _import(place, first, "eager"), f"{first} = {around('eager')}"


def _import(place: Target, name: str, alias: str) -> str:
    """Return the import of a name of the user's module, or of that itself; of one that no statement can name, a call."""
    if all(part.isidentifier() and not iskeyword(part) for part in place.module.split(".")):
        renamed = name if name == alias else f"{name} as {alias}"
        return f"from {place.module} import {renamed}" if name else f"import {place.module} as {alias}"
    return f'{alias} = __import__("importlib").import_module("{place.module}"){f".{name}" if name else ""}'


def _use_of_modules(names: Sequence[str], place: Target) -> tuple[str, str]:
    names = list(map(_spelled, names))
    owners = list(dict.fromkeys(re.split(r"\W", name)[0] for name in names))
    if place.name and not place.is_main and set(owners) <= _assigned(place):
        listed = "\n".join(f"graph_module(program.{name})" for name in names)
        first = place.name.split(".")[0]
        return _import(place, "", "program"), f"{listed}\n{first} = program.{first}"
    listed = "\n".join(f"    graph_module({name})" for name in names)
    said = f"of `{place.name or place.maker}` by these names"
    parameters = ", ".join(f"{owner}: Any" for owner in owners)
    return "", f'def graph_modules({parameters}) -> None:\n    """Call this once, with the objects {said}."""\n{listed}'


def _spelled(path: str) -> str:
    """Return the path of a module as Python has it: `layers.0` is an item; what no expression reaches has a name of its own."""
    last = path.rpartition(":")[2].removeprefix("argument ")
    expression = re.sub(r"\.(\d+)(?=\W|$)", r"[\1]", last)
    try:
        ast.parse(expression if expression[:1].isidentifier() else "", mode="eval")
    except SyntaxError:
        return "_".join(["module", *re.findall(r"\w+", last)])
    return expression


def _assigned(place: Target) -> set[str]:
    """Return the names that the user's file gives values at its top level."""
    tree = read_source(place.file).tree if place.file else None
    stored = (
        node for item in (tree.body if tree else ()) if isinstance(item, (ast.Assign, ast.AnnAssign)) for node in ast.walk(item)
    )
    return {node.id for node in stored if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


# A patch to the user's file -------------------------------------------------------------------------------------------


class Change(NamedTuple):
    """A file before (None: it is new) and after."""

    path: Path
    before: str | None
    after: str

    def diff(self) -> str:
        """Return the change as a unified diff."""
        old = [] if self.before is None else self.before.splitlines(keepends=True)
        name = "/dev/null" if self.before is None else str(self.path)
        return "".join(difflib.unified_diff(old, self.after.splitlines(keepends=True), name, str(self.path)))


def changes(trial: Trial, place: Target) -> list[Change]:
    """Return the changes that decorate the user's function, with the wrapper as a file beside it.

    Raises:
        SkillError: it is no function that is defined in a file of the user's, or the wrapper's file is there and another one.
    """
    way = WAYS[trial.name]
    if not way.decorators:
        raise SkillError(f"a patch decorates a function, and {trial.name} is around modules: take the module of code instead")
    if not place.file or not place.name:
        raise SkillError("a patch decorates a function that is named as FILE:FUNCTION: take the module of code instead")
    if _INSTALLED.search(str(Path(place.file).resolve())):
        use = "import the module of code" if "." in place.name else f"call `{place.name}` of the module of code instead"
        raise SkillError(f"{place.file} is of an installed package, which is not to be changed: in the program, {use}")
    source = read_source(place.file)
    function = _definition(source.tree, place.name) if source.tree else None
    if function is None:
        raise SkillError(f"{place.file} has no `def {place.name}`, which could be decorated: take the module of code instead")
    mode = next((node for node in function.decorator_list if ast.unparse(node) in _INFERENCE_MODE), None)
    if trial.in_inference_mode and way.compiling and mode is None:
        raise SkillError(f"`def {place.name}` is not decorated with torch.inference_mode(): take the module of code instead")
    if kinds := _kinds(function) & {"classmethod", "property"}:
        raise SkillError(f"{place.name} is a {kinds.pop()}, and the wrapper decorates functions and methods: call one from it")
    before = _as_it_is(Path(place.file))
    assert source.tree is not None
    decorators = _decorators(place, way)
    placed = _placed(function, decorators[: way.by_hand], decorators[way.by_hand :], mode if trial.in_inference_mode else None)
    after = _decorated(before, source.tree, placed, _imported_from(place, way))
    beside = _wrapper_file(Path(place.file).parent, way) if way.module else []
    return [Change(Path(place.file), before, after), *beside]


def _as_it_is(path: Path) -> str:
    """Return the text of a file with its own line ends.

    Raises:
        SkillError: it is not UTF-8.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return file.read()
    except UnicodeDecodeError:
        raise SkillError(f"{path} is not UTF-8, and would be written as that: take the module of code instead") from None


def _wrapper_file(folder: Path, way: Way) -> list[Change]:
    path, source = folder / f"{way.module}.py", (_FOLDER / f"{way.module}.py").read_text(encoding="utf-8")
    if not path.exists():
        return [Change(path, None, source)]
    if path.read_text(encoding="utf-8") == source:
        return []
    raise SkillError(f"{path} is there already, and is another module: rename it, or take the module of code instead")


def _decorators(place: Target, way: Way) -> list[str]:
    if place.warm_ups is None or not way.by_hand:
        return list(way.decorators)
    return [f"partial({way.wrapper}{place.argument})", *way.decorators[1:]]


def _imported_from(place: Target, way: Way) -> list[str]:
    decorators = _decorators(place, way)
    lines = ["from functools import partial"] if decorators[0].startswith("partial") else []
    lines += ["import torch"] if any(each.startswith("torch.") for each in decorators) else []
    dot = "." if "." in place.module or Path(place.file).name == "__init__.py" else ""
    return [*lines, *([f"from {dot}{way.module} import {way.wrapper}"] if way.module else [])]


_INSTALLED = re.compile(r"/(site|dist)-packages/|/lib/python3[^/]*/")


def _definition(node: ast.AST, name: str) -> ast.FunctionDef | None:
    """Return the function of a dotted name, in any block; the last, as Python has it. Of a class it is what its calls run."""
    first, _, rest = name.partition(".")
    found = [each for each in _definitions(node) if each.name == first]
    inner = max(found, key=lambda each: each.lineno, default=None)
    if inner is not None and rest:
        return _definition(inner, rest)
    if isinstance(inner, ast.ClassDef):
        return _definition(inner, "forward") or _definition(inner, "__call__")
    return inner if isinstance(inner, ast.FunctionDef) else None


def _definitions(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Yield what is defined in the blocks of a node, and in none of these definitions."""
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield inner
        elif isinstance(inner, (ast.stmt, ast.ExceptHandler)):
            yield from _definitions(inner)


def _kinds(function: ast.FunctionDef) -> set[str]:
    """Return the decorators of a method that are plain names, such as `staticmethod`."""
    return {each.id for each in function.decorator_list if isinstance(each, ast.Name)}


_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"  # the byte order mark


def _placed(
    function: ast.FunctionDef, capturing: list[str], compiling: list[str], mode: ast.expr | None
) -> list[tuple[int, str]]:
    """Return the lines of new decorators, and the number of lines before each: all on top, or what compiles below `mode`."""
    outer = [number for number, node in enumerate(function.decorator_list, 1) if ast.unparse(node) == "staticmethod"]
    inside = function.decorator_list[max(outer, default=0) :]
    top = min([function.lineno, *(node.lineno for node in inside)]) - 1
    below = top if mode is None else mode.end_lineno or mode.lineno
    indent = " " * function.col_offset
    places = [(top, decorator) for decorator in capturing] + [(below, decorator) for decorator in compiling]
    return [(place, f"{indent}@{decorator}") for place, decorator in places]


def _decorated(text: str, tree: ast.Module, placed: list[tuple[int, str]], imports: list[str]) -> str:
    mark, end = text[: text.startswith(_MARK)], "\r\n" if "\r\n" in text else "\n"
    lines = io.StringIO(text.removeprefix(_MARK), newline="").readlines()  # as Python counts them
    for place, line in reversed(placed):
        lines.insert(place, f"{line}{end}")
    first = min(place for place, _ in placed)
    there = {ast.unparse(node) for node in tree.body}
    new = [f"{line}{end}" for line in imports if line not in there]
    after = _after_imports(tree, first)
    lines[after:after] = new
    return mark + "".join(lines)


def _after_imports(tree: ast.Module, before: int) -> int:
    """Return the number of lines before the place of a new import: after the imports of the top, and the docstring."""
    ends = [0]
    for number, node in enumerate(tree.body):
        docstring = number == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if docstring or isinstance(node, (ast.Import, ast.ImportFrom)):
            ends.append(node.end_lineno or node.lineno)
    return max(end for end in ends if end <= before)
