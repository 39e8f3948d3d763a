"""The check on programs that nobody would write: no exception but SkillError, no mistake of ours as a note, an answer in time.

Programs come from a small grammar (`programs`), from real files whose expressions were exchanged (`grafts`) or whose words and
lines were (`mutants`). `python benchmarks/checking.py --fuzz 20000` reads more of them and counts what goes wrong by its place.
"""

from __future__ import annotations

import ast
import copy
import keyword
import re
import signal
import warnings
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from cudagraph_skill.check import Options, check_text, fixes, hazards, output
from cudagraph_skill.check.input.source import read_source
from cudagraph_skill.check.input.targets import names
from cudagraph_skill.errors import SkillError
from cudagraph_skill.text import Steps
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from cudagraph_skill.check.findings import Report

ROOT = Path(__file__).resolve().parent.parent
NAME = "<fuzz>"
SECONDS = 5  # for one way of reading one program
MISTAKE = "this check failed with"
EXAMPLES = settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
_STEPS = Steps(read=str, turn=str, ask=str, explain=str)
_SEEDS = st.integers(0, 2**32 - 1)

_TENSORS = "x y z mask idx w state loss out h logits".split()
_OTHERS = "i n flag cfg items cache opts model opt g s fn self cls d t".split()
_NAMES = _TENSORS + _OTHERS
_METHODS = """
item tolist cpu cuda to numpy nonzero sum mean max min any all add_ mul_ copy_ zero_ fill_ masked_fill_ index_put_ scatter_
view reshape expand repeat unbind chunk split sort topk unique backward detach clone requires_grad_ type float half bool long
size dim numel is_contiguous record_stream pin_memory resize_ set_ new_zeros new_tensor squeeze t T shape grad data device
dtype is_cuda register_hook append extend pop get items keys values update setdefault clear insert remove sort reverse copy
join format split startswith step zero_grad state_dict load_state_dict parameters named_parameters modules children train eval
forward apply add_param_group replay capture_begin capture_end reset pool wait_stream synchronize record wait query acquire
release result submit put __class__ __dict__ __call__ __init__ __getitem__ __len__ __iter__ __enter__ __exit__ nowhere
""".split()
_CALLS = """
torch.zeros torch.ones torch.empty torch.randn torch.rand torch.arange torch.tensor torch.as_tensor torch.from_numpy torch.cat
torch.stack torch.where torch.nonzero torch.unique torch.masked_select torch.einsum torch.matmul torch.addmm torch.bincount
torch.multinomial torch.manual_seed torch.set_default_dtype torch.cuda.synchronize torch.cuda.current_stream torch.cuda.Stream
torch.cuda.Event torch.cuda.CUDAGraph torch.cuda.graph_pool_handle torch.cuda.empty_cache torch.cuda.memory_allocated
torch.cuda.make_graphed_callables torch.nn.Linear torch.nn.Dropout torch.nn.BatchNorm1d torch.nn.Sequential
torch.nn.ModuleList torch.nn.ModuleDict torch.nn.Parameter torch.nn.LSTM torch.nn.functional.relu torch.nn.functional.dropout
torch.nn.functional.one_hot torch.nn.utils.clip_grad_norm_ torch.optim.SGD torch.optim.Adam torch.optim.lr_scheduler.StepLR
torch.autograd.grad torch.autograd.Function.apply torch.no_grad torch.compile torch.jit.script torch.distributed.all_reduce
torch.distributed.barrier torch.utils.checkpoint.checkpoint torch.vmap torch.amp.autocast torch.amp.GradScaler
torch.distributions.Categorical torch.linalg.svd torch.linalg.inv torch.fft.rfft torch.save len range enumerate zip map filter
sorted reversed list tuple dict set frozenset int float bool str repr print isinstance issubclass getattr setattr hasattr
delattr super type iter next sum min max abs any all open input eval vars globals locals id hash callable slice np.array
np.random.rand random.random random.choice time.time time.perf_counter os.environ.get math.sqrt functools.partial
itertools.count itertools.chain itertools.cycle collections.defaultdict collections.deque collections.Counter copy.deepcopy
functools.reduce functools.lru_cache contextlib.nullcontext weakref.ref threading.Thread asyncio.sleep operator.itemgetter
logging.info json.dumps unknown.thing fn model helper make M D g.replay opt.step cls self.forward self.helper super().forward
""".split()
_DECORATORS = """
torch.no_grad() torch.compile torch.compile(mode="reduce-overhead") torch.jit.script functools.wraps(fn)
functools.lru_cache(None) functools.cache property staticmethod classmethod contextlib.contextmanager helper helper(1)
dataclasses.dataclass nowhere.known(x) torch.inference_mode() torch._dynamo.disable abc.abstractmethod
functools.cached_property m.setter overload
""".split()
_CONTEXTS = """
torch.cuda.graph(g) torch.cuda.graph(g,pool=g.pool()) torch.cuda.stream(s) torch.no_grad() torch.autocast("cuda")
torch.amp.autocast("cuda") open("f") contextlib.suppress(Exception) contextlib.nullcontext() lock helper(x) nowhere()
torch.random.fork_rng() torch.cuda.device(0) torch.profiler.record_function("a") x
""".split()
_BINARY = "+ - * / // % ** @ & | ^ << >>".split()
_COMPARING = ["<", ">", "==", "!=", "<=", ">=", "is", "is not", "in", "not in"]
_HEAD = """\
import torch, random, time, os, math, functools, itertools, contextlib, collections, copy, json, dataclasses, asyncio, threading
import numpy as np
from torch import nn
from torch.cuda import graph
"""


@cache
def known() -> tuple[list[str], list[str]]:
    """Return the dotted and plain names that the check's own code asks for."""
    constants = set()
    for path in (ROOT / "tools/cudagraph_skill/check").rglob("*.py"):
        constants |= {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
    words = sorted(value for value in constants if isinstance(value, str))
    dotted = [word for word in words if re.fullmatch(r"[a-z_]+(\.\w+)+", word)]
    return dotted, [word for word in words if word.isidentifier() and not keyword.iskeyword(word)]


class Writer:
    """Writes a program that is mostly valid, from dice."""

    def __init__(self, dice: Random) -> None:
        self.dice = dice
        self.left = dice.choice((20, 60, 150))  # statements

    def one(self, *makers: Callable[[], str]) -> str:
        """Return what one of `makers` makes."""
        return self.dice.choice(makers)()

    def name(self) -> str:
        """Return a variable; two of three hold a tensor."""
        return self.dice.choice(self.dice.choice((_TENSORS, _TENSORS, _OTHERS)))

    def called(self) -> str:
        """Return the name of a callable."""
        return self.dice.choice(self.dice.choice((_CALLS, known()[0])))

    def attribute(self) -> str:
        """Return a method or another attribute."""
        return self.dice.choice(self.dice.choice((_METHODS, known()[1])))

    def atom(self) -> str:
        """Return a name or a constant."""
        constants = (
            "(0)",
            "(1)",
            "(-1)",
            "(2.5)",
            "None",
            "True",
            "False",
            "'a'",
            "'cuda'",
            "b'x'",
            "...",
            "()",
            "[]",
            "{}",
            "1e400",
            "10**99",
            "1j",
        )
        return self.dice.choice(
            (self.name(), self.name(), self.dice.choice(constants), "torch." + self.dice.choice(("float16", "pi", "cuda")))
        )

    def several(self, depth: int, most: int = 3) -> str:
        """Return expressions separated by commas, sometimes starred."""
        star = self.dice.choice(("", "", "", "", "*"))
        return ", ".join(star * (place == 1) + self.expression(depth) for place in range(self.dice.randint(0, most)))

    def arguments(self, depth: int) -> str:
        """Return the arguments of a call."""
        parts = [self.several(depth)]
        if self.dice.random() < 0.4:
            key = self.dice.choice(
                ("dim", "keepdim", "device", "non_blocking", "out", "key", "default", "pool", "mode", "size", "x", "fullgraph")
            )
            parts.append(f"{key}={self.expression(depth)}")
        if self.dice.random() < 0.1:
            parts.append(f"**{self.name()}")
        return ", ".join(part for part in parts if part)

    def expression(self, depth: int) -> str:  # noqa: C901, PLR0911, PLR0912 - one branch for each kind
        """Return an expression of at most this depth."""
        if depth <= 0:
            return self.atom()
        inner = depth - 1
        e, dice = self.expression, self.dice
        match dice.randint(0, 21):
            case 0 | 1:
                return self.atom()
            case 2 | 3 | 4:
                return f"{self.called()}({self.arguments(inner)})"
            case 5 | 6:
                return f"{e(inner)}.{self.attribute()}({self.arguments(inner)})"
            case 7:
                return f"{e(inner)}.{self.attribute()}"
            case 8:
                return f"({e(inner)} {dice.choice(_BINARY)} {e(inner)})"
            case 9:
                return f"({e(inner)} {dice.choice(_COMPARING)} {e(inner)} {dice.choice(_COMPARING)} {e(0)})"
            case 10:
                return f"({e(inner)} {dice.choice(('and', 'or'))} {e(inner)})"
            case 11:
                return f"({dice.choice(('not ', '-', '~', '+'))}{e(inner)})"
            case 12:
                return f"{e(inner)}[{self.index(inner)}]"
            case 13:
                return f"({e(inner)} if {e(inner)} else {e(inner)})"
            case 14:
                return f"(lambda {self.parameters(0)}: {e(inner)})"
            case 15:
                return self.comprehension(inner)
            case 16:
                return dice.choice(("[{}]", "({},)", "{{{}, 1}}")).format(self.several(inner) or "1")
            case 17:
                return f"{{{e(0)}: {e(inner)}, **{self.name()}}}"
            case 18:
                return f"f'{{{self.name()}!r:>{{n}}}} {{{self.name()}.item():.3f}} {{ {self.name()}=}}'"
            case 19:
                return f"({self.name()} := {e(inner)})"
            case 20:
                return f"(yield {e(inner)})" if dice.random() < 0.2 else f"(lambda f: f(f))(lambda f: {e(inner)})"
            case _:
                return f"(await {e(inner)})" if dice.random() < 0.2 else f"{e(inner)}.{dice.choice(_TENSORS)}"

    def index(self, depth: int) -> str:
        """Return an index or a slice."""
        return self.one(
            lambda: self.expression(depth),
            lambda: f"{self.expression(depth)}:{self.expression(0)}",
            lambda: "::-1",
            lambda: f"..., None, {self.expression(depth)}",
            lambda: f"{self.expression(depth)}, *{self.name()}",
            lambda: ":",
        )

    def comprehension(self, depth: int) -> str:
        """Return a comprehension of a list, set, dictionary or generator, with one loop or two."""
        loops = f"for {self.target()} in {self.expression(depth)}"
        if self.dice.random() < 0.4:
            loops += f" if {self.expression(depth)}"
        if self.dice.random() < 0.2:
            loops += f" for {self.target()} in {self.expression(0)}"
        form = self.dice.choice(("[{0} {1}]", "{{{0} {1}}}", "{{{0}: {0} {1}}}", "({0} {1})", "sum({0} {1})", "list({0} {1})"))
        return form.format(self.expression(depth), loops)

    def target(self) -> str:
        """Return an assignment target."""
        return self.one(
            self.name,
            self.name,
            lambda: f"{self.name()}.{self.attribute()}",
            lambda: f"{self.name()}[{self.index(1)}]",
            lambda: f"{self.name()}, {self.name()}",
            lambda: f"({self.name()}, *{self.name()})",
            lambda: f"[{self.name()}, ({self.name()}, self.{self.name()})]",
        )

    def parameters(self, depth: int = 1) -> str:
        """Return the parameters of a function or a lambda."""
        one, two, three, four = self.dice.sample(_NAMES, 4)
        value = self.expression(depth)
        return self.dice.choice(
            (
                "",
                one,
                f"{one}, {two}",
                f"{one}, {two}={value}",
                f"{one}, /, {two}, *, {three}={value}",
                f"*{one}, **{two}",
                f"{one}, *{two}, {three}={value}, **{four}",
            )
        )

    def block(self, depth: int, indent: str) -> list[str]:
        """Return the statements of one block."""
        lines = [line for _ in range(self.dice.randint(1, 4)) for line in self.statement(depth, indent)]
        return lines or [f"{indent}pass"]

    def statement(self, depth: int, indent: str) -> list[str]:
        """Return one statement."""
        self.left -= 1
        if self.left < 0:
            return [f"{indent}pass"]
        if depth <= 0 or self.dice.random() < 0.5:
            return [indent + self.simple()]
        return self.compound(depth - 1, indent)

    def simple(self) -> str:  # noqa: D102
        e = self.expression
        return self.one(
            lambda: f"{self.target()} = {e(3)}",
            lambda: f"{self.target()} = {self.target()} = {e(2)}",
            lambda: f"{self.name()} {self.dice.choice(_BINARY)}= {e(2)}",
            lambda: f"{self.name()}[{e(1)}] {self.dice.choice(_BINARY)}= {e(2)}",
            lambda: f"self.{self.name()} {self.dice.choice(_BINARY)}= {e(2)}",
            lambda: f"{self.name()}: {e(1)} = {e(2)}",
            lambda: e(3),
            lambda: e(3),
            lambda: f"return {e(2)}",
            lambda: f"global {self.name()}",
            lambda: f"nonlocal {self.name()}",
            lambda: f"del {self.name()}, {self.name()}[{e(1)}]",
            lambda: f"assert {e(2)}, {e(1)}",
            lambda: f"raise {e(1)} from {e(1)}",
            lambda: self.dice.choice(
                ("pass", "break", "continue", "return", "raise", "from . import a", "from .. import *", "import nowhere as x")
            ),
            lambda: f"yield {e(1)}",
            lambda: f"yield from {e(1)}",
        )

    def compound(self, depth: int, indent: str) -> list[str]:  # noqa: PLR0911 - one branch for each kind
        """Return one statement with blocks of at most this depth."""
        dice, e, more = self.dice, self.expression, indent + " "
        word = dice.choice(("", "", "", "", "async "))
        match dice.randint(0, 8):
            case 0 | 1:
                tail = [f"{indent}elif {e(1)}:", *self.block(depth, more)] if dice.random() < 0.3 else []
                return [f"{indent}if {e(2)}:", *self.block(depth, more), *tail, f"{indent}else:", *self.block(depth, more)]
            case 2:
                head = f"{indent}{word}for {self.target()} in {e(2)}:"
                return [head, *self.block(depth, more), f"{indent}else:", *self.block(depth, more)]
            case 3:
                return [f"{indent}while {e(2)}:", *self.block(depth, more)]
            case 4:
                items = ", ".join(f"{dice.choice(_CONTEXTS)} as {self.name()}" for _ in range(dice.randint(1, 2)))
                return [f"{indent}{word}with {items}:", *self.block(depth, more)]
            case 5:
                star = dice.choice(("", "", "", "*"))
                last = [f"{indent}else:", *self.block(depth, more), f"{indent}finally:", *self.block(depth, more)]
                caught = f"{indent}except{star} ({e(0)}, RuntimeError) as {self.name()}:"
                return [f"{indent}try:", *self.block(depth, more), caught, *self.block(depth, more), *last]
            case 6:
                return self.match(depth, indent)
            case 7:
                return self.function(depth, indent)
            case _:
                return self.cls(depth, indent)

    def match(self, depth: int, indent: str) -> list[str]:
        """Return a match statement with each kind of pattern."""
        one, two = self.dice.sample(_NAMES, 2)
        patterns = (
            "1",
            f"[{one}, *{two}]",
            f"{{'a': {one}, **{two}}}",
            f"torch.Tensor(shape={one})",
            f"'a' | None as {one}",
            "torch.pi",
            f"(1, {one})",
        )
        lines = [f"{indent}match {self.expression(1)}:"]
        for _ in range(self.dice.randint(1, 3)):
            lines += [f"{indent} case {self.dice.choice(patterns)} if {self.expression(1)}:", *self.block(depth, f"{indent}  ")]
        return [*lines, f"{indent} case _:", *self.block(depth, f"{indent}  ")]

    def function(self, depth: int, indent: str, name: str = "") -> list[str]:
        """Return a function, sometimes with decorators."""
        dice = self.dice
        name = name or dice.choice((*_NAMES, "helper", "forward", "__init__", "__call__", "__getattr__", "__enter__", "step"))
        marks = [f"{indent}@{dice.choice(_DECORATORS)}" for _ in range(dice.choice((0, 0, 1, 2)))]
        first = dice.choice(("", "self, ")) if indent else ""
        word = dice.choice(("", "", "", "", "async "))
        return [*marks, f"{indent}{word}def {name}({first}{self.parameters()}):", *self.block(depth, indent + " ")]

    def cls(self, depth: int, indent: str, name: str = "") -> list[str]:
        """Return a class, sometimes with bases and keywords."""
        bases = self.dice.choice(
            (
                "",
                "(nn.Module)",
                "(torch.autograd.Function)",
                "(M)",
                "(D, M, metaclass=cls)",
                "(dict)",
                "(*items)",
                f"({self.expression(1)})",
            )
        )
        body = [line for _ in range(self.dice.randint(1, 3)) for line in self.function(depth, indent + " ")]
        return [
            f"{indent}class {name or self.dice.choice(('M', 'D', 'x', 'C'))}{bases}:",
            f"{indent} a = {self.expression(1)}",
            *body,
        ]

    def program(self) -> str:
        """Return a whole file that captures."""
        depth = self.dice.choice((1, 2, 3, 6))
        top = [
            *self.block(1, ""),
            *self.cls(depth, "", "M"),
            *self.function(depth, "", "helper"),
            *self.function(depth, "", "step"),
        ]
        top += [*self.block(depth, ""), "g = torch.cuda.CUDAGraph()", "with torch.cuda.graph(g):", *self.block(depth, " ")]
        leaving = ("return", "raise", "break", "continue", "yield")
        lines = [line for line in [*top, *self.block(1, "")] if not line.startswith(leaving)]
        return "\n".join([_HEAD, *lines, "g.replay()"]) + "\n"


_DEEP = (
    "({})",
    "[{}]",
    "-{}",
    "f({})",
    "{}.a",
    "{}[0]",
    "{} + x",
    "x if {} else y",
    "lambda: {}",
    "{} and x",
    "not {}",
    "{{1: {}}}",
    "*{},",
    "x @ ({})",
)


def deep(form: str, times: int) -> str:
    """Return a program whose expression is nested in itself `times` times."""
    text = "x"
    for _ in range(times):
        text = form.format(text)
    head = f"import torch\ndef step(x: torch.Tensor):\n y = {text}\n return y\n"
    return f"{head}g = torch.cuda.CUDAGraph()\nwith torch.cuda.graph(g):\n step(torch.ones(2))\n"


def deep_blocks(head: str, times: int) -> str:
    """Return a program with a statement nested in itself `times` times."""
    lines = [f"{' ' * place}{head}" for place in range(times)]
    return (
        "\n".join(
            ["import torch", "def step(x):", *(f" {line}" for line in lines), f"{' ' * (times + 2)}return x.item()", "step(1)"]
        )
        + "\n"
    )


@cache
def pool() -> tuple[str, ...]:
    """Return real files, none very long."""
    library = Path(ast.__file__).parent
    files = [*(ROOT / "tests/hazards").glob("*.py"), *(ROOT / "tools").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    files += [*library.glob("*.py"), *library.glob("asyncio/*.py")]
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in sorted(files)]
    return tuple(text for text in texts if text.count("\n") < 700)


@cache
def parts() -> tuple[ast.expr, ...]:
    """Return the expressions of the files about graphs."""
    trees = [ast.parse(text) for text in pool() if "torch" in text and "def bad" in text]
    return tuple(node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.expr) and _loaded(node))


def _loaded(node: ast.expr) -> bool:
    stays = isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
    return stays and not isinstance(node, (ast.Starred, ast.FormattedValue, ast.JoinedStr, ast.Slice))


class _Graft(ast.NodeTransformer):
    """Puts expressions of other places where some stand."""

    def __init__(self, dice: Random, rate: float, others: tuple[ast.expr, ...]) -> None:
        self.dice, self.rate, self.others = dice, rate, others

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        """Keep an f-string as it is: not every expression fits there."""
        return node

    def visit(self, node: ast.AST) -> Any:
        """Replace a node, or visit its children."""
        if isinstance(node, ast.expr) and _loaded(node) and self.dice.random() < self.rate:
            return copy.deepcopy(self.dice.choice(self.others))
        return super().visit(node)


def grafted(dice: Random) -> str:
    """Replace some expressions of a real file with others of that file, or of programs about graphs."""
    while True:
        tree = ast.parse(dice.choice(pool()))
        own = tuple(node for node in ast.walk(tree) if isinstance(node, ast.expr) and _loaded(node))
        others = dice.choice((own, parts(), parts())) or parts()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                text = ast.unparse(_Graft(dice, dice.choice((0.01, 0.05, 0.2)), others).visit(tree))
                ast.parse(text)
        except (ValueError, SyntaxError, RecursionError):  # an expression where none may stand
            continue
        return text + "\n"


def mutated(dice: Random) -> str:
    """Exchange words and move, drop or double lines of a real file; the result is often not valid Python."""
    text = dice.choice(pool())
    words = sorted(set(re.findall(r"\b[A-Za-z_]\w*\b", text)) | set(_NAMES)) or ["x"]
    rate = dice.choice((0.0, 0.01, 0.1))
    text = re.sub(r"\b[A-Za-z_]\w*\b", lambda match: dice.choice(words) if dice.random() < rate else match[0], text)
    lines = text.split("\n")
    for _ in range(dice.randint(0, 6)):
        at, other = dice.randrange(len(lines)), dice.randrange(len(lines))
        match dice.randint(0, 4):
            case 0:
                lines[at], lines[other] = lines[other], lines[at]
            case 1:
                lines.insert(at, lines[other])
            case 2:
                lines[at] = ""
            case 3:
                indent = len(lines[at]) - len(lines[at].lstrip())
                lines[at:at] = Writer(dice).statement(2, " " * indent)
            case _:
                lines[at] = lines[at][: dice.randrange(len(lines[at]) + 1)]
    return "\n".join(lines)


def _late(_signal: int, _frame: FrameType | None) -> None:
    raise TimeoutError


def read(text: str) -> list[str]:
    """Read a program in each way; what is wrong with the answers."""
    wrong: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        source = read_source(NAME, text)
    functions = names(source.tree)[:40:7] if source.tree else []
    for function, options in [(None, Options(every=True)), (None, Options()), *((name, Options()) for name in functions)]:
        before = signal.signal(signal.SIGALRM, _late)
        signal.alarm(SECONDS)
        try:
            report = check_text(text, NAME, function, options)
        except SkillError:
            continue
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)
        wrong += [note for note in report.notes if MISTAKE in note] + _shown(report, text)
    return wrong


def _shown(report: Report, text: str) -> list[str]:
    """List what is wrong with findings and how they are printed."""
    lines = text.split("\n")
    wrong = [
        f"{finding} is at no line of the file"
        for finding in report.findings
        if not 1 <= finding.line <= len(lines) or finding.column < 1
    ]
    wrong += [f"{finding.id} is no hazard" for finding in report.findings if finding.id not in hazards.table()]
    reader = output.Reader(_STEPS, lambda _: (lines, []))
    for form in output.FORMS:
        output.written(report, form, reader)
    notes: list[str] = []
    fixes.patches(report, notes, [], {NAME: text.encode("utf-8", "replace")})
    return wrong + [note for note in notes if "would not be Python" in note]


KINDS: dict[str, Callable[[Random], str]] = {
    "programs": lambda dice: Writer(dice).program(),
    "grafts": grafted,
    "mutants": mutated,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_program_is_too_strange(kind: str) -> None:
    @EXAMPLES
    @given(_SEEDS)
    def reads(seed: int) -> None:
        text = KINDS[kind](Random(seed))
        assert read(text) == [], f"{kind}, seed {seed}:\n{text}"

    reads()


@pytest.mark.slow
@pytest.mark.parametrize("times", [30, 90, 400, 5000])
@pytest.mark.parametrize("form", _DEEP)
def test_deep_expressions_end_in_an_answer(form: str, times: int) -> None:
    assert read(deep(form, times)) == []


@pytest.mark.parametrize(
    "head", ["if x:", "for i in x:", "while x:", "with x:", "def step(x):", "class M:", "try:\n pass\nexcept x:"]
)
@pytest.mark.parametrize("times", [15, 19, 60])
def test_deep_blocks_end_in_an_answer(head: str, times: int) -> None:
    assert read(deep_blocks(head, times)) == []


def fuzz(first: int, last: int) -> dict[str, tuple[int, str, str]]:
    """Read the programs of these seeds: how often each thing went wrong, and the shortest program for it."""
    defects: dict[str, tuple[int, str, str]] = {}
    kinds = list(KINDS)
    for seed in range(first, last):
        kind = kinds[seed % len(kinds)]
        text = KINDS[kind](Random(seed))
        try:
            wrong = read(text)
        except (Exception, MemoryError) as error:  # noqa: BLE001 - it is counted
            wrong = [f"{type(error).__name__}: {error}"]
        for defect in dict.fromkeys(re.sub(r"^<fuzz>: \S+( \S+)?? could", "could", line) for line in wrong):
            times, _, shortest = defects.get(defect, (0, "", ""))
            defects[defect] = times + 1, f"{kind} {seed}", min(shortest or text, text, key=len)
    return defects
