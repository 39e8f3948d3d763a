"""Captured code that calls what is not in the file: what was not read is named, and what needs no reading is not."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest
from cudagraph_skill.check import Options, check_paths, check_text
from cudagraph_skill.check.library.torch.tensor_methods import TENSOR_METHODS
from cudagraph_skill.check.output import exit_code, verdict
from cudagraph_skill.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """\
import torch
x = torch.zeros(4, device="cuda")
"""
CAPTURE = """\
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    {call}
"""
NAMED = {
    "a function of a package that is not there": ("from mylib import step\n", "step(x)", "`step`"),
    "a relative import of a file that is not there": ("from .steps import step\n", "step(x)", "`step`"),
    "an object of such a package": ("from mylib import Net\nnet = Net().cuda()\n", "net(x)", "`net`"),
    "a method of one": ("from mylib import Net\nnet = Net()\n", "net.encode(x)", "`net.encode`"),
    "a loaded model": ("net = torch.load('net.pt', weights_only=False)\n", "net(x)", "`net`"),
    "what is compiled": ("from mylib import net\nfast = torch.compile(net)\nfast(x)\n", "fast(x)", "`fast`"),
    "what a base class does": (
        "from mylib import Base\nclass Net(Base):\n    def forward(self, x):\n        return super().forward(x)\nnet = Net()\n",
        "net(x)",
        "`super().forward`",
    ),
    "what a class inherits": ("from mylib import Base\nclass Net(Base):\n    pass\nnet = Net()\n", "net(x)", "`net`"),
    "an attribute that nothing sets": (
        "class Net:\n    def __call__(self, x):\n        return self.norm(x)\nnet = Net()\n",
        "net(x)",
        "`self.norm`",
    ),
    "one of two": ("from mylib import net\ndef own(x):\n    return x\nrun = net if x.ndim else own\n", "run(x)", "`run`"),
}
KNOWN = {
    "layers of torch": ("net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()).cuda()\n", "net(x)"),
    "a method of a tensor that is not known": ("from mylib import net\ny = net(x)\n", "y.mul_(2).sum().backward()"),
    "a method of a container": ("from mylib import net\ncache = net(x)\n", "cache.get('a')"),
    "a kernel of Triton": (
        "import triton\nimport triton.language as tl\n@triton.jit\ndef kernel(x, n, B: tl.constexpr):\n    pass\n",
        "kernel[(triton.cdiv(4, 2),)](x, 4, B=2)",
    ),
    "another object of a value's type": ("def like(a, *, of):\n    return type(of)(a)\n", "like([x], of=(x,))"),
    "another object of a type that is not known": ("from mylib import batch\n", "type(batch)([x])"),
    "cuda-bindings and its handles": (
        "from cuda.bindings import runtime\ndef checked(result):\n    return result[1]\n",
        "checked(runtime.cudaStreamGetCaptureInfo(runtime.cudaStream_t(0).getPtr())).getPtr()",
    ),
    "the runtime that torch has": ("runtime = torch.cuda.cudart()\n", "runtime.cudaMemGetInfo(0)"),
    "Python's library": ("import functools, math\nfn = functools.partial(torch.mul, x)\n", "fn(math.sqrt(2.0))"),
    "a module that inherits from one that is not known, with its own forward": (
        "from mylib import Base\nclass Net(Base):\n    def forward(self, x):\n        return x * 2\nnet = Net().cuda()\n",
        "net(x)",
    ),
}


@pytest.mark.parametrize("name", NAMED)
def test_what_is_not_here_is_named(name: str) -> None:
    before, call, said = NAMED[name]
    report = check_text(HEAD + before + CAPTURE.format(call=call), "program.py", None, Options())
    assert len(report.regions) == 1
    (part,) = report.unread
    assert part.reason.startswith(f"it calls {said} (line ")
    assert (verdict(report), exit_code(report)) == ("partial", 4)


@pytest.mark.parametrize("name", KNOWN)
def test_what_needs_no_reading_is_not_named(name: str) -> None:
    before, call = KNOWN[name]
    report = check_text(HEAD + before + CAPTURE.format(call=call), "program.py", None, Options())
    assert (report.unread, len(report.regions)) == ([], 1)


def test_the_callable_of_make_graphed_callables_is_named() -> None:
    text = f"{HEAD}from mylib import net\nfast = torch.cuda.make_graphed_callables(net, (x,))\n"
    (part,) = check_text(text, "program.py", None, Options()).unread
    assert part.reason == "it calls `net` (line 4), whose code was not found"


def test_it_is_said_how_packages_are_read(tmp_path: Path) -> None:
    (tmp_path / "here.py").write_text("def own(x):\n    return x\n")
    program = tmp_path / "program.py"
    before = "import math, numpy\nfrom mylib.nets import net\nimport other as o\nfrom here import own\nfrom .near import far\n"
    program.write_text(HEAD + before + CAPTURE.format(call="net(own(x))"))
    (note,) = check_paths([str(program)], Options()).notes
    assert note == f"{program}: mylib, other: packages are read where `--python PYTHON` names the interpreter that has them"
    program.write_text(HEAD + before + CAPTURE.format(call="own(x)"))
    assert check_paths([str(program)], Options()).notes == []


def test_arguments_and_further_calls_are_counted() -> None:
    text = """\
    import torch
    def capture(model, loss_fn, optimizer, x, y):
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g):
            loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
        return g
    """
    (part,) = check_text(textwrap.dedent(text), "program.py", None, Options()).unread
    assert (part.line, part.name) == (4, "capture")
    assert part.reason == "it calls `model` (line 5) and 2 more, whose code was not found"


def test_a_line_in_another_file_has_its_path(tmp_path: Path) -> None:
    (tmp_path / "helpers.py").write_text("from mylib import net\ndef run(x):\n    return net(x)\n")
    program = tmp_path / "program.py"
    program.write_text(f"{HEAD}from helpers import run\n{CAPTURE.format(call='run(x)')}")
    (part,) = check_paths([str(program)], Options()).unread
    assert part.reason == f"it calls `net` ({tmp_path}/helpers.py:3), whose code was not found"


def test_a_caller_that_knows_the_model_decides() -> None:
    text = f"""\
{HEAD}
def capture(model):
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        model(x)
capture(torch.nn.ReLU())
"""
    assert check_text(text, "program.py", None, Options()).unread == []


@pytest.mark.parametrize(("options", "code"), [([], 4), (["--allow-unread"], 0)])
def test_what_was_not_found_may_be_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], code: int
) -> None:
    program = tmp_path / "program.py"
    program.write_text(f"{HEAD}from mylib import net\n{CAPTURE.format(call='net(x)')}")
    assert main(["check", str(program), *options]) == code
    assert "whose code was not found" in capsys.readouterr().out


def test_the_methods_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    there = {name for name in dir(torch.Tensor) if not name.startswith("_") and callable(getattr(torch.Tensor, name, None))}
    assert len(there - TENSOR_METHODS) <= 20  # a newer torch may have some more


def test_a_capture_of_warp_is_none_of_torch() -> None:
    text = """\
import torch, warp as wp
def train(n):
    wp.capture_begin()
    wp.launch(n)
    wp.capture_end()
"""
    report = check_text(text, "program.py", None, Options())
    assert (report.unread, report.regions, report.notes) == ([], [], [])
