"""Find where the source of a file captures, and which functions lead there; nothing is run for it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from cudagraph_skill.check.interpreter import syntax
from cudagraph_skill.check.interpreter.remembered import remembered
from cudagraph_skill.check.interpreter.values import Host, Mapping

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_skill.check.interpreter.frames import Frame
    from cudagraph_skill.check.interpreter.values import Value

_WRAPPERS = ("make_graphed_callables", "CudaGraphModule")
# Of Megatron-Core, NeMo and Lightning Thunder: what they capture is given to them by code elsewhere
_MANAGERS = ("FullCudaGraphWrapper", "TECudaGraphHelper", "CudaGraphManager", "CUDAGraphCallback", "CUDAGraphTransform")
GRAPHED_MODES = {"reduce-overhead", "max-autotune"}  # of torch.compile
GRAPHED_OPTION = "triton.cudagraphs"  # the same switch in its `options`
# What makes a tensor of a given size
_FACTORIES = ("zeros", "ones", "empty", "full", "rand", "randn", "randint", "arange", "new_zeros", "new_ones", "new_empty")
_BUILDERS = 6  # functions that are run because they may make an object; the nearest first

Definition = ast.FunctionDef | ast.AsyncFunctionDef
Path = list[ast.AST]  # definitions from the top level down, outermost first


def capture_paths(tree: ast.Module) -> list[Path]:
    """Return the paths of functions and classes down to each statement or call that may capture, by line."""
    return _paths_to(tree, _captures)


def _paths_to(tree: ast.Module, wanted: Callable[[ast.AST], bool]) -> list[Path]:
    paths: list[Path] = []
    waiting: list[tuple[ast.AST, Path]] = [(tree, [])]
    while waiting:
        node, path = waiting.pop()
        for child in ast.iter_child_nodes(node):
            if wanted(child):
                paths.append([*path, child])
            waiting.append((child, [*path, child] if isinstance(child, (Definition, ast.ClassDef)) else path))
    return sorted(paths, key=lambda path: getattr(path[-1], "lineno", 0))


def path_to(tree: ast.Module, node: ast.AST) -> Path:
    """Return the path of definitions down to a node; an empty one if the tree does not have it."""
    return next(iter(_paths_to(tree, lambda child: child is node)), [])


def managers(tree: ast.Module) -> list[tuple[Path, str]]:
    """Return the paths to each call that makes an object which captures for a framework, and the name of its class."""
    paths = _paths_to(tree, lambda node: any(_calls(node, name) for name in _MANAGERS))
    return [(path, next(name for name in _MANAGERS if _calls(path[-1], name))) for path in paths]


def _captures(node: ast.AST) -> bool:
    # By its name alone, however torch was imported: the interpreter finds out what it is.
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return any(calls_graph(item.context_expr) for item in node.items)
    return any(_calls(node, name) for name in _WRAPPERS) or (isinstance(node, ast.Expr) and begins(node))


def _captures_or_compiles(node: ast.AST) -> bool:
    return _captures(node) or (isinstance(node, ast.Call) and is_reduce_overhead(node))


def calls_graph(node: ast.expr) -> bool:
    """Return whether an expression calls something that is named `graph`."""
    return _calls(node, "graph")


def names_torch(tree: ast.Module, node: ast.AST) -> bool:
    """Return whether a statement or call that may capture is one of torch's by its spelling, whatever its values are."""
    if _calls(node, "CudaGraphModule"):
        sources = [statement.module or "" for statement in syntax.nodes(tree) if isinstance(statement, ast.ImportFrom)]
        return any(source.startswith("tensordict") for source in sources)
    if not isinstance(node, (ast.With, ast.AsyncWith)):
        return not _is_of_warp(tree, node)
    names = {
        alias.asname or alias.name
        for statement in syntax.nodes(tree)
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("torch.cuda")
        for alias in statement.names
        if alias.name == "graph"
    }
    return any(_is_cuda_graph(item.context_expr, names) for item in node.items)


def _is_of_warp(tree: ast.Module, node: ast.AST) -> bool:
    """Return whether a statement begins a capture of Warp's own, `wp.capture_begin()`."""
    imports = [alias for statement in syntax.nodes(tree) if isinstance(statement, ast.Import) for alias in statement.names]
    names = {alias.asname or alias.name for alias in imports if alias.name == "warp"}
    call = node.value if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None
    owner = call.func.value if call is not None and isinstance(call.func, ast.Attribute) else None
    return isinstance(owner, ast.Name) and owner.id in names


def _is_cuda_graph(node: ast.expr, names: set[str]) -> bool:
    function = node.func if isinstance(node, ast.Call) else None
    if isinstance(function, ast.Attribute):
        return function.attr == "graph" and ast.unparse(function.value).endswith("cuda")
    return isinstance(function, ast.Name) and function.id in names


def begins(node: ast.AST) -> bool:
    """Return whether a node calls `capture_begin`, itself or in a part of it."""
    return _calls_inside(node, "capture_begin")


class Span(NamedTuple):
    """The statements between `capture_begin` and `capture_end`; `begins` are those that begin it, one for each branch.

    `length` is the number of statements behind them in the same block that it ends with.
    """

    begins: list[ast.Expr]
    captured: list[ast.stmt]
    length: int


@remembered
def spans(tree: ast.Module) -> dict[int, Span]:
    """Return what stands between `capture_begin` and `capture_end`, by the id of the statement that begins it."""
    found: dict[int, Span] = {}
    blocks = [
        block
        for node in syntax.nodes(tree)
        for name in ("body", "orelse", "finalbody")
        if isinstance(block := getattr(node, name, None), list)
    ]
    for block in blocks:
        for place, statement in enumerate(block):
            first = (
                [
                    part
                    for part in ast.walk(statement)
                    if isinstance(part, ast.Expr) and begins(part) and not _is_of_warp(tree, part)
                ]
                if isinstance(statement, (ast.Expr, ast.If))
                else []
            )
            span = _ended(block[place + 1 :]) if first else None
            if span is not None:
                found[id(statement)] = Span(first, *span)
    return found


def _ended(statements: list[ast.stmt]) -> tuple[list[ast.stmt], int] | None:
    """Return the statements in front of a `capture_end`, which may stand in the `finally` around them; None if there is none."""
    for place, statement in enumerate(statements):
        if isinstance(statement, ast.Try) and any(_calls_inside(last, "capture_end") for last in statement.finalbody):
            return [*statements[:place], *statement.body], place + 1
        if isinstance(statement, (ast.Expr, ast.If)) and _calls_inside(statement, "capture_end"):
            return statements[:place], place + 1
    return None


def roots(tree: ast.Module, done: set[int]) -> list[Path]:
    """Return functions and methods from which a capture is reached, and that no other function of the file refers to.

    So are those that compile with CUDA graphs: what they keep of the outputs is looked at.
    """
    captures = [path for path in _paths_to(tree, _captures_or_compiles) if id(path[-1]) not in done]
    holders = {getattr(node, "name", "") for path in captures for node in path[:-1]}
    named = {node.name: node for node in tree.body if isinstance(node, (Definition, ast.ClassDef))}
    mentions = {name: syntax.words(node) for name, node in named.items()}
    reaching = _reaching(holders, mentions)
    paths: list[Path] = []
    for name, node in named.items():
        # What another function mentions is called by it, with arguments that need no guess.
        mentioned = any(name in words for other, words in mentions.items() if other != name)
        if name in reaching and not mentioned:
            paths += _methods_that_reach(node, reaching) if isinstance(node, ast.ClassDef) else [[node]]
    return paths


def nearest(tree: ast.Module, done: set[int]) -> list[Path]:
    """Return functions and methods that hold a capture themselves."""
    paths: list[Path] = []
    for path in capture_paths(tree):
        depth = 2 if isinstance(path[0], ast.ClassDef) else 1
        if id(path[-1]) not in done and len(path) > depth and path[:depth] not in paths:
            paths.append(path[:depth])
    return paths


def _reaching(names: set[str], mentions: dict[str, frozenset[str]]) -> set[str]:
    """Return the names, and all that mention one of them, or something that does."""
    reaching = set(names)
    while more := {name for name, words in mentions.items() if words & reaching} - reaching:
        reaching |= more
    return reaching


def _methods_that_reach(owner: ast.ClassDef, reaching: set[str]) -> list[Path]:
    methods = [node for node in owner.body if isinstance(node, Definition)]
    wanted = [method for method in methods if method.name in reaching and method.name != "__init__"]
    called = {word for method in methods for word in syntax.words(method)}
    # Methods that call each other in a circle have no outermost one: then each of them is tried.
    return [[owner, method] for method in wanted if method.name not in called] or [[owner, method] for method in wanted]


def builders(tree: ast.Module, classes: set[str]) -> list[Definition]:
    """Return functions of the module that may make objects of these classes: they mention one, or something that does."""
    named = {node.name: node for node in tree.body if isinstance(node, (Definition, ast.ClassDef))}
    mentions = {name: syntax.words(node) for name, node in named.items()}
    reaching = _reaching(classes, mentions)
    functions = [node for name, node in named.items() if name in reaching and isinstance(node, Definition)]
    # Those that mention a class themselves come first.
    return sorted(functions, key=lambda node: not mentions[node.name] & classes)[:_BUILDERS]


def loops_with_replay(tree: ast.Module, statement: ast.AST) -> bool:
    """Tell whether a capture stands, unguarded, in a loop that replays it once and goes over anything but sizes."""
    loops = [node for node in syntax.nodes(tree) if isinstance(node, (ast.For, ast.While))]
    holding = [loop for loop in loops if _directly_in(loop.body, statement)]
    return any(_replays_once(loop) and not _are_sizes(_targets(loop), loop.body) for loop in holding)


def replays(frame: Frame, statement: ast.AST) -> bool:
    """Tell whether the function that captures also replays, once, what is no graph for one of several sizes."""
    functions = [node for node in ast.walk(frame.module.tree) if isinstance(node, Definition) and node.name == frame.function]
    holding = [node for node in functions if _directly_in(node.body, statement)]
    return any(_replays_once(node) and not _are_sizes(_parameters(node), node.body) for node in holding)


def _replays_once(owner: ast.For | ast.While | Definition) -> bool:
    """Tell whether a loop or function replays, and not in a loop within it."""
    inner = [loop for node in owner.body for loop in ast.walk(node) if isinstance(loop, (ast.For, ast.While, ast.ListComp))]
    return _calls_inside(owner, "replay") and not any(_calls_inside(loop, "replay") for loop in inner)


def _targets(loop: ast.For | ast.While) -> set[str]:
    return {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)} if isinstance(loop, ast.For) else set()


def _parameters(function: Definition) -> set[str]:
    return {argument.arg for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}


def _are_sizes(names: set[str], body: list[ast.stmt]) -> bool:
    """Tell whether one of these names is the extent of a slice or of a new tensor: then each turn captures another shape."""
    nodes = [node for statement in body for node in ast.walk(statement)]
    extents: list[ast.AST] = [node for node in nodes if isinstance(node, ast.Slice)]
    extents += [node for node in nodes if isinstance(node, ast.Call) and any(_calls(node, name) for name in _FACTORIES)]
    return any(isinstance(part, ast.Name) and part.id in names for node in extents for part in ast.walk(node))


def replays_at_once(function: ast.AST, capture: ast.AST) -> bool:
    """Tell whether a function captures and replays at each call, one after the other."""
    body = function.body if isinstance(function, Definition) else []
    replayed = any(isinstance(statement, ast.Expr) and _calls(statement.value, "replay") for statement in body)
    return replayed and _directly_in(body, capture)


def is_reduce_overhead(node: ast.Call) -> bool:
    """Tell whether a call compiles with CUDA graphs."""
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    mode, options = given.get("mode"), given.get("options")
    if isinstance(options, ast.Dict):
        return any(
            isinstance(key, ast.Constant)
            and key.value == GRAPHED_OPTION
            and isinstance(value, ast.Constant)
            and bool(value.value)
            for key, value in zip(options.keys, options.values, strict=True)
        )
    return isinstance(mode, ast.Constant) and mode.value in GRAPHED_MODES


def compiles_with_graphs(kwargs: dict[str, Value]) -> bool:
    """Tell whether torch.compile graphs what it gets with these arguments, which it takes by keyword only."""
    mode, options = kwargs.get("mode"), kwargs.get("options")
    switch = options.slots.get(GRAPHED_OPTION) if isinstance(options, Mapping) else None
    return (isinstance(mode, Host) and mode.value in GRAPHED_MODES) or (isinstance(switch, Host) and switch.value is True)


def _directly_in(body: list[ast.stmt], statement: ast.AST) -> bool:
    """Tell whether a statement is run each time that the body is: under no `if`, in no inner loop."""
    nested = [inner.body for inner in body if isinstance(inner, (ast.With, ast.Try))]
    return any(inner is statement for inner in body) or any(_directly_in(inner, statement) for inner in nested)


def _calls_inside(node: ast.AST, name: str) -> bool:
    return any(_calls(inner, name) for inner in syntax.nodes(node))


def _calls(node: ast.AST, name: str) -> bool:
    """Tell whether an expression is a call of `name` or `….name`."""
    if not isinstance(node, ast.Call):
        return False
    function = node.func
    return (function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")) == name
