"""The callable that a request names is found, built anew each time, and given the inputs that were asked for."""

# ruff: noqa: E501 - a program as a user writes it stands on one line
from __future__ import annotations

import functools
import importlib.util
import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", reason="torch is not installed; CI has it and fails without it")

import torch
from cudagraph_skill.capture.guest import checks, load, state, tensors
from user_files import line_of, same_interpreter, written

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["same_interpreter"]
pytestmark = pytest.mark.usefixtures("same_interpreter")

NET = """
    import torch

    COUNT = [0]


    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 2)

        def forward(self, x, scale=1):
            return self.layer(x) * scale

        def shifted(self, x):
            return self(x) + 1

        @staticmethod
        def doubled(x):
            return x * 2

        @classmethod
        def halved(cls, x):
            return x / 2


    class Wants:
        def __init__(self, size):
            self.size = size


    net = Net()
    table = {"a": 1}


    def step(x, y):
        return x + y


    def alone():
        return torch.ones(1)


    def dict_inputs():
        return {"x": torch.ones(1), "y": torch.zeros(1)}


    def pair_inputs(device):
        return (torch.ones(1, device=device),), {"y": torch.zeros(1)}


    def tuple_inputs():
        return torch.ones(1), torch.zeros(1)


    def tensor_inputs():
        return torch.ones(2, 3)
"""
MADE = "import torch\n\n\ndef make({}):\n    return {}\n"


def asked(path: Path, name: str = "", **options: Any) -> dict[str, Any]:
    """Return a request for a callable of a file, on the CPU."""
    shown = f"{path.name}:{name}" if name else path.name
    return {"file": str(path), "name": name, "device": "cpu", "shown": shown, **options}


def fresh(path: Path, name: str = "", **options: Any) -> load.Subject:
    return load.Source(asked(path, name, **options)).fresh()


def called(found: load.Subject) -> Any:
    args, kwargs = found.inputs()
    assert load.unfit(found, args, kwargs) == ""
    return found.call(*args, **kwargs)


@pytest.fixture
def net(tmp_path: Path) -> Path:
    return written(tmp_path / "net.py", NET)


# What a file names


NAMED: dict[str, tuple[str, dict[str, Any], tuple[int, ...]]] = {
    "function": ("step", {"shapes": ["3", "3"]}, (3,)),
    "function without arguments": ("alone", {}, (1,)),
    "dict of inputs": ("step", {"inputs": "dict_inputs"}, (1,)),
    "inputs with keywords for a device": ("step", {"inputs": "pair_inputs"}, (1,)),
    "tuple of inputs": ("step", {"inputs": "tuple_inputs"}, (1,)),
    "one tensor as inputs": ("Net", {"inputs": "tensor_inputs"}, (2, 2)),
    "class": ("Net", {"shapes": ["4x3"]}, (4, 2)),
    "class with a number": ("Net", {"shapes": ["4x3", "=0.5"]}, (4, 2)),
    "instance": ("net", {"shapes": ["4x3"]}, (4, 2)),
    "method": ("Net.shifted", {"shapes": ["4x3"]}, (4, 2)),
    "method of an instance": ("net.shifted", {"shapes": ["4x3"]}, (4, 2)),
    "static method": ("Net.doubled", {"shapes": ["4"]}, (4,)),
    "class method": ("Net.halved", {"shapes": ["4"]}, (4,)),
    "layer of an instance": ("net.layer", {"shapes": ["4x3"]}, (4, 2)),
}


@pytest.mark.parametrize("kind", NAMED)
def test_what_is_named_can_be_called_with_what_was_asked_for(net: Path, kind: str) -> None:
    name, options, shape = NAMED[kind]
    assert called(fresh(net, name, **options)).shape == shape


WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "a name that is not there": ("nothing", {}, "net.py:nothing has no nothing; it has: Net, Wants, net, step, alone,"),
    "an attribute that is not there": ("Net.nothing", {}, "net.py:Net.nothing has no Net.nothing"),
    "something that cannot be called": ("table", {}, "table is a dict, which cannot be called"),
    "inputs that are not there": ("step", {"inputs": "nothing"}, "has no function nothing: `--inputs` names the function"),
    "arguments without shapes": ("step", {}, "step takes x, y: give their shapes (`--shape 8x16 --shape 8x16`)"),
    "neither name nor make": ("", {}, "net.py has no function `make`: name the callable as net.py:FUNCTION"),
    "a make that is not there": ("", {"make": "build"}, "net.py has no function build"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_cannot_be_had_is_said_in_a_sentence(net: Path, kind: str) -> None:
    name, options, said = WRONG[kind]
    with pytest.raises(load.Misuse, match=re.escape(said)):
        fresh(net, name, **options)


def test_a_class_that_wants_arguments_raises_as_it_does_for_its_owner(net: Path) -> None:
    with pytest.raises(load.Raised, match=r"calling Wants\(\)") as raised:
        fresh(net, "Wants")
    assert isinstance(raised.value.error, TypeError)


MAKES = {
    "with a device": ("device", "{'fn': lambda x: x * 2, 'inputs': lambda: torch.ones(2, device=device)}"),
    "without": ("", "{'fn': lambda x: x * 2, 'inputs': lambda: (torch.ones(2),)}"),
    "fixed inputs": ("", "{'fn': lambda x: x * 2, 'inputs': [torch.ones(2)]}"),
    "keywords": ("", "{'fn': lambda *, x: x * 2, 'inputs': lambda: {'x': torch.ones(2)}}"),
    "no inputs": ("", "{'fn': lambda: torch.full((2,), 2.0)}"),
}


@pytest.mark.parametrize("kind", MAKES)
def test_make_gives_a_function_with_its_inputs(tmp_path: Path, kind: str) -> None:
    assert called(fresh(written(tmp_path / "made.py", MADE.format(*MAKES[kind])))).tolist() == [2, 2]


def test_make_names_its_state_and_its_warm_up(tmp_path: Path) -> None:
    source = "import torch\n\n\ndef build():\n    t = torch.zeros(1)\n    return {'fn': lambda: t.add_(1), 'state': [t], 'warmup': 5}\n"
    found = fresh(written(tmp_path / "made.py", source), make="build")
    assert found.state is not None
    called(found)
    assert [each.tolist() for each in found.state()] == [[1]]
    assert found.warmup == 5


@pytest.mark.parametrize("wrong", ["None", "torch.ones", "{'inputs': ()}", "{'fn': 3}"])
def test_make_that_returns_something_else_is_told_what_to_return(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(load.Misuse, match="it must return a dict with `fn`"):
        fresh(written(tmp_path / "made.py", MADE.format("", wrong)))


def test_make_that_raises_is_told_with_what_it_raised(tmp_path: Path) -> None:
    with pytest.raises(load.Raised, match="calling make") as raised:
        fresh(written(tmp_path / "made.py", MADE.format("", "1 / 0")))
    assert isinstance(raised.value.error, ZeroDivisionError)


# Shapes


SHAPES = {
    "8x128": ((8, 128), torch.float32),
    "4": ((4,), torch.float32),
    "0x3": ((0, 3), torch.float32),
    "scalar": ((), torch.float32),
    "scalar:bf16": ((), torch.bfloat16),
    "2x2:half": ((2, 2), torch.float16),
    "2:int64<5": ((2,), torch.int64),
    "2:int32": ((2,), torch.int32),
    "2:bool": ((2,), torch.bool),
}


@pytest.mark.parametrize("text", SHAPES)
def test_a_shape_says_sizes_and_dtype(text: str) -> None:
    made = load._shape(text, "cpu")()
    assert (tuple(made.shape), made.dtype) == SHAPES[text]


def test_whole_numbers_stay_below_what_is_named() -> None:
    made = load._shape("1000:int64<5", "cpu")()
    assert sorted(set(made.tolist())) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("text", "value"), [("=3", 3), ("=-2", -2), ("=0.5", 0.5), ("=1e3", 1000.0), ("=1e-3", 0.001)])
def test_a_number_is_itself(text: str, value: float) -> None:
    made = load._shape(text, "cpu")()
    assert made == value
    assert type(made) is type(value)


@pytest.mark.parametrize("text", ["", "x", "8x", "8*8", "8x8:int9", "8x8:", "8<5", "=", "=x", "=True", "-3", "8 x 8"])
def test_what_is_no_shape_is_told_how_to_write_one(text: str) -> None:
    with pytest.raises(load.Misuse, match="write 8x128, 8x128:bf16"):
        load._shape(text, "cpu")


def test_arguments_that_do_not_fit_are_told_with_the_signature(net: Path) -> None:
    found = fresh(net, "step", shapes=["3", "3"])
    assert load.unfit(found, (1, 2), {}) == ""
    said = load.unfit(found, (1,), {"z": 2})
    assert said.startswith("step(x, y) cannot take what its inputs gave, 1 argument and z (")
    assert load.unfit(fresh(net, "Net", shapes=["4x3"]), (1, 2, 3), {}).startswith("Net(x, scale=1) cannot take")
    assert load.unfit(replace(found, call=max), (1,), {}) == ""


# Where a file is


def test_a_file_in_a_package_has_its_relative_imports(tmp_path: Path) -> None:
    for folder in ("pkg", "pkg/inner"):
        written(tmp_path / folder / "__init__.py", "")
    written(tmp_path / "pkg/base.py", "VALUE = 7\n")
    path = written(tmp_path / "pkg/inner/train.py", "from ..base import VALUE\n\n\ndef step():\n    return VALUE\n")
    found = fresh(path, "step")
    assert called(found) == 7
    assert found.call.__module__ == "pkg.inner.train"
    assert (
        fresh(
            written(tmp_path / "pkg/__init__.py", "from .base import VALUE\n\n\ndef step():\n    return VALUE\n"), "step"
        ).call()
        == 7
    )


@pytest.mark.parametrize("name", ["queue.py", "profile.py", "torch.py", "my-train.py", "train.v2.py", "1st.py", "class.py"])
def test_a_file_may_be_named_as_a_library_or_as_no_name_at_all(tmp_path: Path, name: str) -> None:
    before = sys.modules["torch"]
    path = written(tmp_path / name, "class Step:\n    n = 3\n\n    def __call__(self):\n        return self.n\n")
    source = load.Source(asked(path, "Step"))
    assert called(source.fresh()) == called(source.fresh()) == 3
    assert sys.modules["torch"] is before


def test_a_module_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "mine_only.py", "def step():\n    return 5\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert load.Source({"module": "mine_only", "name": "step", "shown": "mine_only:step"}).fresh().call() == 5
    with pytest.raises(load.Misuse, match="there is no module mine_other on the path"):
        load.Source({"module": "mine_other", "name": "step"}).load()


@pytest.mark.parametrize(("source", "error"), [("import no_such_thing", ModuleNotFoundError), ("1 / 0", ZeroDivisionError), ("def f(:", SyntaxError), ("import sys; sys.exit(3)", SystemExit)])  # fmt: skip
def test_a_file_that_raises_is_told_with_what_it_raised(tmp_path: Path, source: str, error: type[BaseException]) -> None:
    with pytest.raises(load.Raised, match="importing") as raised:
        load.Source(asked(written(tmp_path / "bad.py", source + "\n"), "f")).load()
    assert isinstance(raised.value.error, error)


# Where a callable is defined


def test_a_definition_is_the_code_behind_whatever_can_be_called(tmp_path: Path) -> None:
    source = """
        import functools
        import torch


        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.func = torch.nn.GELU()

            def forward(self, x):
                return self.func(x)


        class Called:
            def __call__(self):
                return 1


        def make():
            def inner(x):
                return x

            return inner


        @torch.no_grad()
        def plain(x):
            return x
    """
    path = written(tmp_path / "kinds.py", source)
    fresh(written(tmp_path / "use.py", "import kinds\n\n\ndef step():\n    pass\n"), "step")
    kinds = sys.modules["kinds"]
    wanted = {
        "def forward": (kinds.Net(), "Net.forward"),
        "def __call__": (kinds.Called(), "Called.__call__"),
        "def inner": (functools.partial(functools.partial(kinds.make()), 1), "make.<locals>.inner"),
        "@torch.no_grad": (kinds.plain, "plain"),
    }
    for text, (function, name) in wanted.items():
        assert load.definition(function) == (str(path), line_of(path, text), name)
    assert load.definition(len) == ("", 0, "len")
    assert load.definition(kinds.Net().forward)[2] == "Net.forward"


def test_a_request_is_told_where_its_callable_is(net: Path) -> None:
    request = asked(net, "Net.shifted", shapes=["4x3"])
    load.Source(request).fresh()
    assert request["found"] == {"path": str(net), "line": line_of(net, "def shifted"), "name": "Net.shifted"}


# Twice


def test_two_copies_share_nothing_and_start_alike(tmp_path: Path) -> None:
    written(tmp_path / "helper.py", "SEEN = []\n")
    source = "import torch\nimport helper\n\nnet = torch.nn.Linear(2, 2)\nCOUNT = [0]\n\n\ndef step(x):\n    COUNT[0] += 1\n    helper.SEEN.append(1)\n    return net(x) * COUNT[0], len(helper.SEEN)\n"
    source_ = load.Source(asked(written(tmp_path / "twice.py", source), "step", shapes=["1x2"]))
    source_.load()
    one, x = source_.fresh(), torch.ones(1, 2)
    [one.call(x) for _ in range(3)]
    other = source_.fresh()
    first, seen = other.call(x)
    assert seen == 1
    assert one.call(x)[1] == 4
    assert one.call.__globals__["helper"] is not other.call.__globals__["helper"]
    assert one.call.__globals__["net"] is not other.call.__globals__["net"]
    assert torch.equal(one.call.__globals__["net"].weight, other.call.__globals__["net"].weight)
    assert torch.equal(first, other.call.__globals__["net"](x))


def test_a_module_that_a_library_wrote_to_a_temporary_file_stays(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "torch.nn.written"  # as PyTorch Geometric does it: the compiler imports it by this name once more
    spec = importlib.util.spec_from_file_location(name, written(net.parent / "temporary" / "torch.nn.written_1.py", "X = 1\n"))
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    load.Source(asked(net, "Net", shapes=["4x3"])).fresh()
    assert importlib.import_module(name) is module


def test_modules_of_a_package_without_an_init_file_are_imported_again(tmp_path: Path) -> None:
    written(tmp_path / "parts" / "helper.py", "SEEN = []\n")
    source = (
        "import torch\nfrom parts import helper\n\n\ndef step(x):\n    helper.SEEN.append(1)\n    return x * len(helper.SEEN)\n"
    )
    source_ = load.Source(asked(written(tmp_path / "apart.py", source), "step", shapes=["1x2"]))
    one, other = source_.fresh(), source_.fresh()
    assert [subject.call(torch.ones(1)).item() for subject in (one, one, other)] == [1, 2, 1]


ONCE = "import os\nimport torch\n\nif os.environ.get('GPU_TEST_ONCE'):\n    raise RuntimeError('only once')\nos.environ['GPU_TEST_ONCE'] = '1'\nTOTAL = torch.zeros(1)\n\n\ndef step():\n    return TOTAL.add_(1)\n"


def test_where_a_second_copy_cannot_be_built_the_first_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_TEST_ONCE", "")
    source = load.Source(asked(written(tmp_path / "once.py", ONCE), "step"))
    first, second = checks.pair(source)
    assert first is second
    assert not source.builds_anew
    assert source.why_reused == "building a second one raised RuntimeError"
    assert [first.call().item() for _ in range(2)] == [1, 2]
    assert source.fresh() is first
    assert first.call().item() == 1
    source.put_back()
    assert tensors.tensors([first.call()])[0].item() == 1


def test_where_a_second_copy_can_be_built_there_are_two(net: Path) -> None:
    source = load.Source(asked(net, "Net", shapes=["4x3"]))
    first, second = checks.pair(source)
    one: Any = first.call
    other: Any = second.call
    assert source.builds_anew
    assert one is not other
    assert torch.equal(one.layer.weight, other.layer.weight)


def test_a_copy_that_is_used_again_for_a_while_is_restored_and_then_built_anew(net: Path) -> None:
    source = load.Source(asked(net, "Net", shapes=["4x3"]))
    first = source.fresh()
    layer: Any = first.call
    before = layer.layer.weight.detach().clone()
    with source.reusing(first):
        with torch.no_grad():
            layer.layer.weight.add_(1)
        assert source.fresh() is first
        assert torch.equal(layer.layer.weight, before)
    assert source.builds_anew
    assert source.fresh() is not first


def test_what_the_inputs_keep_is_put_back_but_is_no_state_of_the_callable(tmp_path: Path) -> None:
    source = "import torch\n\nkept = []\n\ndef batch():\n    kept.append(torch.ones(2))\n    return kept[-1]\n\ndef step(x):\n    return x\n"
    path = written(tmp_path / "train.py", source)
    found = fresh(path, "step", inputs="batch")
    found.inputs()
    assert not state.tensors(found.roots)
    assert len(state.tensors(found.reach)) == 1
