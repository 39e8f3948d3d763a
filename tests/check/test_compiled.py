"""What torch.compile leaves out of its CUDA graphs is said in notes, and so is what was not read of it."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

import pytest
from cudagraph_skill.check import Options, check_paths, check_text
from cudagraph_skill.check.findings import LEFT_OUT, UNREAD_BODY, Report
from cudagraph_skill.check.output import Reader, next_step, summary
from cudagraph_skill.text import Steps

if TYPE_CHECKING:
    from pathlib import Path

READER = Reader(Steps(read=str, turn=str, ask=str, explain=str), lambda _: ([], []))
BODY = """
    import torch
    x, cache = torch.ones(4, device="cuda"), torch.zeros(4, device="cuda")
    ids, seen = torch.zeros(4), torch.zeros(4, device="cuda")

    @torch.compile(mode="reduce-overhead")
    def step(x, cache):
        {line}
        return x * cache

    for _ in range(4):
        step(x, cache)
"""


def read(text: str) -> Report:
    return check_text(dedent(text), "train.py", None, Options())


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("cache.add_(x)", "`cache.add_(x)` writes to a tensor that is made outside (mutated inputs)"),
        ("cache[0] = x.sum()", "`cache[0]` writes to a tensor that is made outside (mutated inputs)"),
        ("seen.add_(x)", "`seen.add_(x)` writes to a tensor that is made outside (mutated inputs)"),
        ("x = x / x.max().item()", "reads a value from the GPU on the host"),
        ("x = x * 2 if x.sum() > 0 else x", "is needed on the host"),
        ("x = x[x > 0]", "`x[x > 0]`"),
        ("x = x + ids.to('cuda')", "unless it can make the tensor on the GPU: `ids.to('cuda')`"),
        ("x = x + x.cpu().sum()", "`x.cpu()` copies a GPU tensor to the host"),
    ],
)
def test_what_keeps_a_compiled_function_from_one_graph_is_a_note(line: str, said: str) -> None:
    report = read(BODY.format(line=line))
    assert report.findings == []
    assert [(note.partition(": ")[0], LEFT_OUT in note, said in note) for note in report.notes] == [("train.py:8", True, True)]
    assert summary(report, READER).endswith(
        "torch.compile leaves 1 place out of its CUDA graphs. Next: ask torch what it graphed."
    )


@pytest.mark.parametrize(
    "line",
    [
        "x = x.clone().add_(1)",
        "x = x.relu()",
        "x[0, 0] + 1.0",
        "y = torch.zeros_like(x); y[0] = 1.0; x = x + y",
        "x = torch.where(x > 0, x, 0.0)",
        "x = x.max(cache)",
        "assert (x > 0).all(), 'negative'",
    ],
)
def test_what_torch_compile_graphs_gives_no_note(line: str) -> None:
    report = read(BODY.format(line=line))
    assert (report.notes, report.findings) == ([], [])
    assert "see-why-graphs-are-skipped" in next_step(report, READER.steps)


def test_a_buffer_and_a_marked_address_may_be_written() -> None:
    module = """
    import torch
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(4))
        def forward(self, x):
            self.seen.add_(x)
            return x + self.seen
    fast = torch.compile(Net().cuda(), mode="max-autotune")
    fast(torch.ones(4, device="cuda"))
    """
    assert read(module).notes == []
    marked = BODY.format(line="cache.add_(x)").replace("    for _", "    torch._dynamo.mark_static_address(cache)\n    for _")
    assert read(marked).notes == []


STATE = """
    import torch
    class {name}:
        def __init__(self):
            super().__init__()
            {made}
        def step(self, x):
            part = self.cache[0]
            part.add_(x)
            return part * x
    net = Net()
    fast = torch.compile(net.step, mode="reduce-overhead")
    fast(torch.ones(4, device="cuda"))
"""


@pytest.mark.parametrize(
    ("name", "made", "lines"),
    [
        ("Net(torch.nn.Module)", 'self.register_buffer("cache", torch.zeros(2, 4, device="cuda"))', []),
        ("Net(torch.nn.Module)", 'self.cache = torch.nn.Parameter(torch.zeros(2, 4, device="cuda"))', []),
        ("Net", 'self.cache = torch.zeros(2, 4, device="cuda")', ["train.py:9"]),
    ],
)
def test_a_view_of_a_buffer_may_be_written_and_one_of_a_plain_attribute_not(name: str, made: str, lines: list[str]) -> None:
    report = read(STATE.format(name=name, made=made))
    assert [note.partition(": ")[0] for note in report.notes] == lines


def test_a_compiled_module_is_read_where_a_function_makes_it() -> None:
    report = read("""
    import torch
    class Net(torch.nn.Module):
        def forward(self, x):
            return x / x.max().item()
    def main():
        fast = torch.compile(Net().cuda(), mode="reduce-overhead")
        fast(torch.ones(4, device="cuda"))
    if __name__ == "__main__":
        main()
    """)
    assert [note.partition(": ")[0] for note in report.notes] == ["train.py:5"]


def test_a_compiled_function_within_another_is_inlined() -> None:
    report = read("""
    import torch
    @torch.compile(mode="reduce-overhead")
    def inner(x):
        return x * 2
    @torch.compile(mode="reduce-overhead")
    def outer(x):
        return inner(x) + 1
    outer(torch.ones(4, device="cuda"))
    """)
    assert (report.notes, report.findings) == ([], [])


def test_a_function_of_another_file_is_read_there(tmp_path: Path) -> None:
    (tmp_path / "helpers.py").write_text(
        "import torch\ndef step(x, cache: torch.Tensor):\n    cache.add_(1)\n    return x / x.max().item()\n"
    )
    program = tmp_path / "train.py"
    program.write_text('import torch\nfrom helpers import step\nfast = torch.compile(step, mode="max-autotune")\n')
    notes = check_paths([str(program)], Options()).notes
    assert [note.partition(": ")[0] for note in notes] == [f"{tmp_path}/helpers.py:4", f"{tmp_path}/helpers.py:3"]
    assert f"what it compiles in {program}:3 without a CUDA graph" in notes[1]


def test_a_function_that_a_long_program_compiles_is_read() -> None:
    report = read("""
    import torch
    def step(x):
        return x / x.max().item()
    def main(flags):
        global step
        if flags.compile:
            step = torch.compile(step, mode="reduce-overhead")
        step(torch.ones(4, device="cuda"))
    if __name__ == "__main__":
        from settings import flags
        for a in range(10 ** 9):
            for b in range(10 ** 9):
                {str(c): [c * d for d in range(10 ** 9)] for c in range(10 ** 9)}
        main(flags)
    """)
    assert [note.partition(": ")[0] for note in report.notes if LEFT_OUT in note] == ["train.py:4"]


METHODS = """
    import torch
    class Net(torch.nn.Module):
        {decorator}
        def forward(self, x, cache):
            return cache.add_(x)
    net = Net().cuda()
    {call}
    net(torch.ones(4, device="cuda"), torch.ones(4, device="cuda"))
"""


@pytest.mark.parametrize(
    ("decorator", "call"),
    [
        ('@torch.compile(mode="reduce-overhead")', ""),
        ("", 'net.compile(mode="reduce-overhead")'),
        ("", 'net.forward = torch.compile(net.forward, mode="reduce-overhead")'),
        ("", 'net = torch.compile(net, options={"triton.cudagraphs": True})'),
        ("", 'options = {"triton.cudagraphs": True}\n    net = torch.compile(net, options=options)'),
    ],
)
def test_a_module_is_compiled_in_several_ways(decorator: str, call: str) -> None:
    report = read(METHODS.format(decorator=decorator, call=call))
    assert [(note.partition(": ")[0], "mutated inputs" in note) for note in report.notes] == [("train.py:6", True)]
    assert [region.how for region in report.regions] == ["reduce-overhead"]


def test_options_without_graphs_capture_nothing() -> None:
    report = read(METHODS.format(decorator="", call='net = torch.compile(net, options={"triton.cudagraphs": False})'))
    assert (report.regions, report.notes) == ([], [])


def test_it_is_said_where_the_code_of_a_compiled_model_was_not_read() -> None:
    report = read("""
    import torch
    from models import load
    model = load().cuda()
    model.forward = torch.compile(model.forward, mode="reduce-overhead")
    layer = torch.compile(torch.nn.Linear(4, 4).cuda(), mode="reduce-overhead")
    """)
    assert report.notes == [f"train.py:5: {UNREAD_BODY}"]
    assert "The code of 1 compiled function was not read." in summary(report, READER)


def test_a_comment_silences_such_a_note() -> None:
    assert read(BODY.format(line="x = x / x.max().item()  # cg: allow CG201 - rarely called")).notes == []
