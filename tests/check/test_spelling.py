"""A call reads the same by position and by keyword."""

from __future__ import annotations

import re

import pytest
from cudagraph_skill.check import Options, check_text
from cudagraph_skill.check.interpreter.values import Value, const
from cudagraph_skill.check.library.binding import signature
from cudagraph_skill.check.library.parameters import SIGNATURES, spelled
from cudagraph_skill.check.library.torch import ops

SETUP = """\
import torch
import torch.nn.functional as F
from torch import nn

x = torch.randn(4, 4, device="cuda")
number = torch.tensor(2, device="cuda")
mask = x > 0
cpu = torch.randn(4, 4)
ids = torch.tensor([0, 1])
network = nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(network.parameters(), 0.1)
scaler = torch.amp.GradScaler()
side = torch.cuda.Stream()
"""
CAPTURE = """
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
"""
VALUES = ("x", "number", "cpu", "(mask,)", "-2", "True", "'nuc'")


def findings(lines: list[str], setup: str = SETUP) -> list[tuple[int, str, str]]:
    """Return line, hazard and reason of each finding, without the source that it quotes."""
    text = setup + CAPTURE + "\n".join(f"    {line}" for line in lines)
    report = check_text(text, "program.py", None, Options())
    assert report.notes == []
    assert report.regions
    return sorted((finding.line, finding.id, re.sub(r"`[^`]*`", "", finding.message)) for finding in report.findings)


@pytest.mark.parametrize(
    ("by_position", "by_keyword", "hazard"),
    [
        ("torch.linalg.svd(x)", "torch.linalg.svd(A=x)", "CG220"),
        ("torch.linalg.inv(x)", "torch.linalg.inv(A=x)", "CG219"),
        ("torch.linalg.solve(x, x)", "torch.linalg.solve(A=x, B=x)", "CG219"),
        ("torch.linalg.norm(x, 'nuc')", "torch.linalg.norm(A=x, ord='nuc')", "CG220"),
        ("torch.linalg.norm(x.view(8, 8), 2)", "torch.linalg.norm(input=x.view(8, 8), ord=2)", "CG220"),
        ("torch.linalg.norm(x.flatten(), 2)", "torch.linalg.norm(input=x.flatten(), ord=2)", ""),
        ("torch.linalg.norm(x, 2, (0, 1))", "torch.linalg.norm(A=x, ord=2, dim=(0, 1))", "CG220"),
        ("torch.norm(x, 'nuc')", "torch.norm(input=x, p='nuc')", "CG220"),
        ("torch.norm(x, 2)", "torch.norm(input=x, p=2)", ""),
        ("torch.linalg.eigh(x)", "torch.linalg.eigh(A=x)", "CG220"),
        ("torch.linalg.cholesky(x)", "torch.linalg.cholesky(A=x)", "CG219"),
        ("torch.where(mask)", "torch.where(condition=mask)", "CG211"),
        ("torch.where(mask, x, cpu)", "torch.where(mask, input=x, other=cpu)", "CG221"),
        (
            "torch.isin(torch.arange(4, device='cuda'), torch.arange(400, device='cuda'))",
            "torch.isin(elements=torch.arange(4, device='cuda'), test_elements=torch.arange(400, device='cuda'))",
            "",
        ),
        ("torch.isin(torch.zeros(4, device='cuda'), torch.zeros(400, device='cuda'))",
         "torch.isin(elements=torch.zeros(4, device='cuda'), test_elements=torch.zeros(400, device='cuda'))", "CG212"),
        ("x.index_put_((mask,), x)", "x.index_put_(indices=(mask,), values=x)", "CG210"),
        ("scaler.step(optimizer)", "scaler.step(optimizer=optimizer)", "CG237"),
        (
            "nn.utils.vector_to_parameters(x, network.parameters())",
            "nn.utils.vector_to_parameters(vec=x, parameters=network.parameters())",
            "CG303",
        ),
        ("torch.save(x, 'weights.pt')", "torch.save(obj=x, f='weights.pt')", "CG234"),
        ("x.copy_(cpu)", "x.copy_(src=cpu)", "CG221"),
        ("x.unsqueeze(0).cuda(0, True)", "x.unsqueeze(0).cuda(device=0, non_blocking=True)", ""),
    ],
)  # fmt: skip
def test_a_call_fails_however_it_is_spelled(by_position: str, by_keyword: str, hazard: str) -> None:
    read = findings([by_position])
    assert [id_ for _, id_, _ in read] == ([hazard] if hazard else [])
    assert findings([by_keyword]) == read


@pytest.mark.parametrize(
    ("by_position", "by_keyword", "hazard"),
    [
        ("with torch.cuda.stream(side): x * 2", "with torch.cuda.stream(stream=side): x * 2", "CG401"),
        ("torch.cuda.set_stream(side); x * 2", "torch.cuda.set_stream(stream=side); x * 2", "CG401"),
        ("torch.Generator('cuda')", "torch.Generator(device='cuda')", "CG611"),
        ("cpu.to(torch.device('cuda'))", "cpu.to(torch.device(type='cuda'))", "CG221"),
        ("nn.Parameter(cpu).cuda()", "nn.Parameter(data=cpu).cuda()", "CG221"),
        ("torch.autograd.set_detect_anomaly(True)", "torch.autograd.set_detect_anomaly(mode=True)", "CG231"),
        ("torch.backends.cudnn.flags(True, True)", "torch.backends.cudnn.flags(enabled=True, benchmark=True)", "CG412"),
        (
            "nn.utils.clip_grad_norm_(network.parameters(), 1.0, 2.0, True)",
            "nn.utils.clip_grad_norm_(error_if_nonfinite=True, parameters=network.parameters(), max_norm=1.0)",
            "CG230",
        ),
        ("nn.utils.get_total_norm([x], 2.0, True)", "nn.utils.get_total_norm(tensors=[x], error_if_nonfinite=True)", "CG230"),
        (
            "nn.utils.rnn.pack_padded_sequence(x, number)",
            "nn.utils.rnn.pack_padded_sequence(lengths=number, input=x)",
            "CG203",
        ),
        (
            "torch.func.functional_call(lambda v: v.item(), {}, (x,))",
            "torch.func.functional_call(module=lambda v: v.item(), parameter_and_buffer_dicts={}, args=(x,))",
            "CG201",
        ),
        (
            "torch.cond(mask.any(), lambda v: v.item(), lambda v: v.item(), (x,))",
            "torch.cond(pred=mask.any(), true_fn=lambda v: v.item(), false_fn=lambda v: v.item(), operands=(x,))",
            "CG201",
        ),
        (
            "torch.utils.checkpoint.checkpoint(lambda v: v.item(), x, use_reentrant=False)",
            "torch.utils.checkpoint.checkpoint(function=lambda v: v.item(), use_reentrant=False, v=x)",
            "CG201",
        ),
        ("network.requires_grad_(False)", "network.requires_grad_(requires_grad=False)", "CG114"),
    ],
)
def test_an_object_is_used_the_same_however_the_call_is_spelled(by_position: str, by_keyword: str, hazard: str) -> None:
    read = findings([by_position])
    assert hazard in {id_ for _, id_, _ in read}
    assert findings([by_keyword]) == read


TRANSFORMER = "layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2), 2).cuda()\n"


@pytest.mark.parametrize(
    ("setup", "by_position", "by_keyword", "hazards"),
    [
        (TRANSFORMER, "layers(x, mask, None, True)", "layers(x, mask=mask, is_causal=True)", []),
        (TRANSFORMER, "layers(x, mask)", "layers(src=x, mask=mask)", ["CG215"]),
        (
            "from torch.distributed import all_reduce\n",
            "all_reduce(x, 0, None, True)",
            "all_reduce(tensor=x, async_op=True)",
            ["CG703", "CG704"],
        ),
        (
            "import threading\n",
            "threading.Thread(None, network, None, (x,)).start()",
            "threading.Thread(target=network, args=(x,)).start()",
            ["CG404", "CG408"],
        ),
        (
            "train = nn.RNN(4, 4, 2, 'tanh', True, False, 0.5).cuda()\ntrain(x)\ntorch.manual_seed(1)\n",
            "train(x)",
            "train(input=x)",
            ["CG610", "CG610"],
        ),
    ],
)  # fmt: skip
def test_what_is_no_operation_reads_the_same(setup: str, by_position: str, by_keyword: str, hazards: list[str]) -> None:
    read = findings([by_position], SETUP + setup)
    assert sorted(id_ for _, id_, _ in read) == hazards
    assert findings([by_keyword], SETUP + setup) == read


@pytest.mark.parametrize(
    "switched_off",
    ["torch.cuda.amp.autocast(False)", "torch.autocast('cuda', None, False)", "torch.autocast('cuda', enabled=False)"],
)
def test_autocast_that_is_off_keeps_no_casts(switched_off: str) -> None:
    for context, hazards in ((switched_off, []), ("torch.autocast('cuda')", ["CG607"])):
        program = f"{SETUP}graph = torch.cuda.CUDAGraph()\nwith {context}:\n    network(x)\n    with torch.cuda.graph(graph):\n"
        report = check_text(f"{program}        y = network(x)\n", "program.py", None, Options())
        assert [finding.id for finding in report.findings if finding.id == "CG607"] == hazards


@pytest.mark.parametrize("name", SIGNATURES)
def test_each_signature_reads_the_same_by_position_and_by_keyword(name: str) -> None:
    names = signature(SIGNATURES[name]).positional
    values: list[Value] = [const(place) for place in range(len(names))]
    named = dict(zip(names, values, strict=True))
    for count in range(len(names) + 1):
        given = {key: named[key] for key in names[:count]}
        assert spelled(name, values[:count], {}) == spelled(name, [], given) == (values[:count], given)


@pytest.mark.parametrize("spelling", ["", "stream="])
def test_a_stream_that_is_waited_for_is_joined_however_it_is_spelled(spelling: str) -> None:
    lines = [
        "current = torch.cuda.current_stream()",
        f"side.wait_stream({spelling}current)",
        "with torch.cuda.stream(side):",
        "    y = x * 2",
        f"current.wait_stream({spelling}side)",
    ]
    assert findings(lines) == []


@pytest.mark.parametrize("spelling", ["", "generator="])
def test_a_generator_is_registered_however_that_is_spelled(spelling: str) -> None:
    program = f"{SETUP}generator = torch.Generator('cuda')\ngraph = torch.cuda.CUDAGraph()\n"
    program += f"graph.register_generator_state({spelling}generator)\nwith torch.cuda.graph(graph):\n"
    program += "    y = torch.randn(4, device='cuda', generator=generator)\n"
    assert check_text(program, "program.py", None, Options()).findings == []


def calls(name: str) -> list[tuple[str, bool]]:
    """Return the ways to name an operation, and whether it is a method: then its first argument stands before the dot."""
    if name.startswith("Tensor."):
        return [("x." + name.removeprefix("Tensor."), True)]
    prefix = {"rnn": "nn.utils.", "init": "nn.", "torch": ""}.get(name.partition(".")[0], "torch.")
    if "." in name:
        return [(prefix + name, False)]
    if name.startswith("__"):
        return []
    as_method = [] if name in {"where", "unfold"} else [(f"x.{name}", True)]  # the methods have rows of their own
    return [(f"torch.{name}", False), *as_method]


def spellings(row: ops.Operation, name: str) -> list[tuple[str, str]]:
    """Return calls of an operation by position, each with the same call by keyword."""
    shape = signature(row.signature)
    pairs = []
    for function, is_method in calls(name):
        names = [*shape.positional, *([shape.rest] if shape.rest else [])][1 if is_method else 0 :]
        if not names:
            continue
        for value in VALUES:
            for count in range(1, len(names) + 1):
                given = ["x" if place == 0 and not is_method else value for place in range(count)]
                if shape.rest in names[:count]:
                    given[-1] = "(2, 2)"
                words = [f"{word}={text}" for word, text in zip(names, given, strict=False) if word != "from"]
                if len(words) == len(given):
                    pairs.append((f"{function}({', '.join(given)})", f"{function}({', '.join(reversed(words))})"))
    return pairs


@pytest.mark.slow
@pytest.mark.parametrize("row", ops.rows(), ids=lambda row: row.names[0])
def test_every_row_reads_the_same_by_position_and_by_keyword(row: ops.Operation) -> None:
    pairs = [pair for name in row.names[:2] for pair in spellings(row, name)]
    by_position, by_keyword = (["pass", *(pair[place] for pair in pairs)] for place in (0, 1))
    assert findings(by_position) == findings(by_keyword)


RECURRENT = "layer = nn.GRU(4, 4, 2, dropout=0.5).cuda()\n"


@pytest.mark.parametrize(
    ("between", "fails"),
    [
        ("layer(x)\ntorch.cuda.manual_seed(1)\n", True),
        ("layer(x)\ntorch.cuda.default_generators[0].set_state(torch.cuda.get_rng_state())\n", True),
        ("with torch.random.fork_rng():\n    layer(x)\n", True),
        ("layer(x)\nif torch.cuda.is_available():\n    torch.manual_seed(1)\nprint('seeded', flush=True)\n", True),
        ("for seed in range(3):\n    layer(x)\n    torch.manual_seed(seed)\n", True),
        ("torch.manual_seed(1)\nlayer(x)\n", False),
        ("layer(x)\ntorch.manual_seed(1)\nlayer(x)\n", False),
        ("for seed in range(3):\n    torch.manual_seed(seed)\n    layer(x)\n", False),
        ("layer(x)\nwith torch.random.fork_rng(devices=[]):\n    x.normal_()\n", False),
        ("layer(x)\nwith torch.random.fork_rng(enabled=False):\n    x.normal_()\n", False),
        ("layer(x)\ntorch.random.set_rng_state(torch.get_rng_state())\n", False),
        ("layer(x)\ntorch.Generator('cuda').manual_seed(1)\n", False),
        ("layer(x)\nlayer.eval()\ntorch.manual_seed(1)\n", False),
        # what is not known: whether it is seeded, whether a layer is called again, and by whom
        ("import sys\nlayer(x)\nif len(sys.argv) > 1:\n    torch.manual_seed(1)\n", False),
        ("import sys\nlayer(x)\ntorch.manual_seed(1)\nif len(sys.argv) > 1:\n    layer(x)\n", False),
        ("import sys\nif len(sys.argv) > 1:\n    layer(x)\ntorch.manual_seed(1)\n", False),
        ("import trainer\nlayer(x)\ntorch.manual_seed(1)\ntrainer.warm_up()\n", False),
        ("import trainer\nlayer(x)\ntorch.manual_seed(1)\ntrainer.Trainer(layer).fit()\n", False),
        ("layer(x)\ntorch.manual_seed(1)\ntorch.func.functional_call(layer, {}, (x,))\n", False),
        ("layer(x)\ntorch.manual_seed(1)\nlist(map(layer, [x]))\n", False),
    ],
)
def test_a_seed_before_the_capture_is_found_where_no_layer_may_be_called_after_it(between: str, fails: bool) -> None:
    found = {id_ for _, id_, _ in findings(["y = layer(x)"], SETUP + RECURRENT + between)}
    assert ("CG610" in found) is fails
