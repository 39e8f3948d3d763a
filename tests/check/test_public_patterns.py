"""Patterns of public code that the check once called wrong, or did not see: each program with the lines that it is to name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cudagraph_skill.check import Options, check_paths, check_text, reading
from cudagraph_skill.check.interpreter import capture_sites
from cudagraph_skill.check.output import exit_code

if TYPE_CHECKING:
    from cudagraph_skill.check.findings import Finding, Report

CAPTURE = """
import torch
g = torch.cuda.CUDAGraph()
x = torch.zeros(4, 4, device="cuda")
"""


def read(text: str, function: str | None = None, *, every: bool = False, explain: bool = False) -> Report:
    return check_text(text, "train.py", function, Options(every=every, explain=explain))


def ids(report: Report) -> set[str]:
    return {finding.id for finding in report.findings}


# Conditions of which nothing is known ---------------------------------------------------------------------------------

CONDITIONAL = """
import torch
def run(x, flag, config, items):
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        y = torch.zeros(4, device="cuda") * 2
        {}
"""


@pytest.mark.parametrize(
    "line",
    [
        "if flag: y.item()",
        "if config.dense: pass\n        else: y.item()",
        "z = y.item() if 'step' in items else 0",
        "while flag: y.item()\n        if flag: y.item()",
    ],
)
def test_what_an_unknown_condition_decides_is_likely(line: str) -> None:
    found = [finding for finding in read(CONDITIONAL.format(line)).findings if finding.id == "CG201"]
    assert found
    assert not any(finding.certain for finding in found if "while" not in line)


def test_what_stands_behind_a_condition_is_certain() -> None:
    report = read(CONDITIONAL.format("if flag: y = y + 1\n        y.item()"))
    assert [(finding.id, finding.certain) for finding in report.findings] == [("CG201", True)]


# Counters -------------------------------------------------------------------------------------------------------------

COUNTER = """
import torch
class Cache: pass
cache = Cache()
cache.seen = {start}
def step(x):
    cache.seen {change}
    if cache.seen {test}:
        return x + 1
    return x * 2
"""


@pytest.mark.parametrize(
    ("start", "change", "test", "frozen"),
    [
        ("1", "+= x.size(1)", "> 0", False),  # grows from 1: true at every call
        ("1", "+= 1", ">= 1", False),
        ("1", "+= 1", "!= 0", False),
        ("1", "+= 1", "> 100", True),
        ("1", "-= 1", "> 0", True),  # passes zero: hash(-1) == hash(-2) must not hide it
        ("0", "= 1 - cache.seen", "> 0", True),
    ],
)
def test_a_counter_that_only_grows_has_passed_a_threshold_for_good(start: str, change: str, test: str, *, frozen: bool) -> None:
    assert ("CG101" in ids(read(COUNTER.format(start=start, change=change, test=test), "step"))) is frozen


# Optimizers -----------------------------------------------------------------------------------------------------------

OPTIMIZER = """
import torch
def build(parameters, use_fused, lr, options):
    {}
def run(parameters, use_fused, options):
    lr = torch.zeros((), device="cuda")
    optimizer = build(parameters, use_fused, lr, options)
    optimizer.step()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("return torch.optim.SGD(parameters, lr=lr)", {"CG238"}),
        ("return torch.optim.SGD(parameters, lr=lr, **options)", set()),
        ("return torch.optim.SGD(parameters, lr=lr, **({'fused': True} if use_fused else {}))", set()),
        ("kwargs = {'fused': True} if use_fused else {}\n    return torch.optim.SGD(parameters, lr=lr, **kwargs)", set()),
        ("return torch.optim.SGD(parameters, lr=lr, **{'momentum': 0.9})", {"CG238"}),
        ("return torch.optim.Adam(parameters, **options)", set()),
        ("return torch.optim.Adam(parameters, **{'lr': 1e-3})", {"CG235"}),
    ],
)
def test_options_that_nobody_knows_are_not_taken_to_be_absent(line: str, wanted: set[str]) -> None:
    assert ids(read(OPTIMIZER.format(line))) & {"CG235", "CG238"} == wanted


ADAGRAD = """
import torch
w = torch.nn.Parameter(torch.zeros(4, device="cuda"))
optimizer = torch.optim.{}
with torch.cuda.graph(torch.cuda.CUDAGraph()):
    w.sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        ("Adagrad([w], lr=0.1)", set()),
        ("Adagrad([w], lr=0.1, lr_decay=0.1)", {"CG112"}),
        ("Adagrad([w], lr=0.1, lr_decay=0.1, fused=True)", set()),
        ("Adagrad([{'params': [w], 'lr_decay': 0.1}, {'params': [], 'fused': True}], lr=0.1)", {"CG112"}),
        ("SGD([w], lr=0.1, momentum=0.9)", {"CG405"}),
    ],
)
def test_adagrad_makes_its_state_early_and_counts_on_the_gpu_where_it_is_fused(made: str, wanted: set[str]) -> None:
    assert ids(read(ADAGRAD.format(made))) & {"CG112", "CG405"} == wanted


SCALER = """
import torch
def run(optimizer, scaler=torch.amp.GradScaler()):
    {}
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        scaler.step(optimizer)
"""


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("pass", False),
        ("optimizer = torch.optim.SGD([torch.zeros(3, device='cuda')], lr=0.1)", True),
        ("optimizer = torch.optim.SGD([torch.zeros(3, device='cuda')], lr=0.1, fused=True)", False),
    ],
)
def test_an_optimizer_from_elsewhere_is_not_called_unfused(line: str, *, wanted: bool) -> None:
    assert ("CG237" in ids(read(SCALER.format(line)))) is wanted


# Streams --------------------------------------------------------------------------------------------------------------

STREAMS = """
import torch
class Runner:
    def __init__(self, stream):
        self.stream, self.given = torch.cuda.Stream(), stream
        self.other = torch.cuda.Stream()
        self.lanes = [torch.cuda.Stream() for _ in range(4)]
        self.x = torch.zeros(4, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
    def on(self, stream):
        return torch.cuda.stream(stream)
    def capture(self):
        with torch.cuda.graph(self.graph, stream=self.stream):
{}
"""


WORK = "with torch.cuda.stream(self.other): self.x * 2"
FORKED = {
    f"self.other.wait_stream(self.stream)|{WORK}|self.stream.wait_stream(self.other)": set(),
    "self.other.wait_stream(self.stream)|with self.on(self.other): self.x * 2|self.stream.wait_stream(self.other)": set(),
    f"self.other.wait_stream(self.given)|{WORK}|self.given.wait_stream(self.other)": set(),
    "for lane in self.lanes[1:]:|    lane.wait_stream(self.stream)|    with torch.cuda.stream(lane): self.x * 2|"
    "for lane in self.lanes[1:]: self.stream.wait_stream(lane)": set(),
    f"self.other.wait_stream(self.stream)|{WORK}": {"CG402"},
    WORK: {"CG401"},
}


@pytest.mark.parametrize("lines", FORKED)
def test_the_stream_of_a_capture_is_the_one_that_it_was_given(lines: str) -> None:
    body = "\n".join(f"            {line}" for line in lines.split("|"))
    assert ids(read(STREAMS.format(body))) & {"CG401", "CG402", "CG410"} == FORKED[lines]


HELPER = """
import torch
from contextlib import contextmanager
@contextmanager
def body(run, handle):
    stream, before = torch.cuda.Stream(), torch.cuda.current_stream()
    if handle:
        run(stream.cuda_stream)
    torch.cuda.set_stream(stream)
    yield
    torch.cuda.set_stream(before)
"""
USER = """
import torch
from helper import body
from driver import run
x = torch.zeros(4, device="cuda")
with torch.cuda.graph(torch.cuda.CUDAGraph()):
    with body(run, {}):
        x + 1
"""


@pytest.mark.parametrize("handle", [False, True])
def test_a_stream_is_reported_where_it_was_entered_unless_other_code_has_its_handle(tmp_path: Path, handle: bool) -> None:
    (tmp_path / "helper.py").write_text(HELPER)
    (tmp_path / "train.py").write_text(USER.format(handle))
    findings = check_paths([str(tmp_path / "train.py")], Options()).findings
    found = [(Path(finding.path).name, finding.line, finding.id) for finding in findings]
    assert found == ([] if handle else [("helper.py", 9, "CG401")])


# Captures in loops ----------------------------------------------------------------------------------------------------

LOOPS = {
    "for n in (1, 2):\n    y = torch.zeros(n, 4, device='cuda')\n    with torch.cuda.graph(g): y + 1\n    g.replay()": False,
    "for n in (1, 2):\n    y = x[:n]\n    with torch.cuda.graph(g): y + 1\n    g.replay()": False,
    "for n in (1, 2):\n    with torch.cuda.graph(g): x + 1\n    for _ in range(9): g.replay()": False,
    "for n in range(9):\n    x.copy_(x)\n    with torch.cuda.graph(g): x + 1\n    g.replay()": True,
    "def f(n):\n    y = torch.zeros(n, device='cuda')\n    with torch.cuda.graph(g): y + 1\n    g.replay()\nf(1); f(2)": False,
    "def f(y):\n    with torch.cuda.graph(g): x + 1\n    for _ in range(9): g.replay()\nf(1); f(2)": False,
    "def f(y):\n    x.copy_(y)\n    with torch.cuda.graph(g): x + 1\n    g.replay()\nf(x); f(x)": True,
}


@pytest.mark.parametrize("text", LOOPS)
def test_a_capture_for_each_size_is_not_a_capture_for_each_step(text: str) -> None:
    assert ("CG409" in ids(read(CAPTURE + text))) is LOOPS[text]


# Outputs, and what is guessed -----------------------------------------------------------------------------------------

OUTPUTS = """
import torch
class Runner:
    def __init__(self, fn):
        self.fn, self.static, self.graph = fn, {{"x": torch.zeros(4, device="cuda")}}, torch.cuda.CUDAGraph()
    def capture(self):
        with torch.cuda.graph(self.graph):
            self.out = self.fn(**self.static)
def work(x):
    return {}
runner = Runner({})
runner.capture()
"""


@pytest.mark.parametrize("made", ["x + 1", "[x + 1]", "(x + 1, 2)", "{'a': x + 1}"])
@pytest.mark.parametrize("given", ["work", "unknown()"])
def test_outputs_that_are_kept_are_no_side_effect(made: str, given: str) -> None:
    assert "CG107" not in ids(read(OUTPUTS.format(made, given)))


def test_weights_of_a_module_that_nobody_moves_are_taken_to_be_on_the_gpu() -> None:
    text = """
import torch
from torch.distributions import Categorical
class Policy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.logits = torch.nn.Parameter(torch.zeros(4))
    def act(self):
        return Categorical(logits=self.logits, validate_args=False).sample()
def build():
    return Policy()
"""
    assert ids(read(text, "Policy.act")) == set()


@pytest.mark.parametrize(
    "definition",
    [
        "def f(x: torch.Tensor, batch=True):\n    if batch: return x + 1\n    return x",
        "def f(x: torch.Tensor, timesteps):\n    for t in range(timesteps): x = x + h(timesteps)\n    return x",
        "def f(x: torch.Tensor, k):\n    return x[:k] + h(k)",
    ],
)
def test_arguments_that_only_numbers_suit_are_no_tensors(definition: str) -> None:
    assert ids(read(f"import torch\n{definition}\n", every=True)) & {"CG202", "CG207", "CG216"} == set()


@pytest.mark.parametrize(
    ("alias", "annotation", "tensor"),
    [
        ("T = torch.Tensor", "T", True),
        ("T = torch.Tensor", "'T'", True),
        ("T: TypeAlias = torch.Tensor", "T", True),
        ("from torch import Tensor as T", "T", True),
        ("if TYPE_CHECKING:\n    from torch import Tensor as T", "T", True),
        ("T = torch.Tensor\nMask = Optional[T]", "Mask", True),
        ("Tensor = TypeVar('torch.tensor')", "Tensor", True),
        ("T = torch.Tensor", "list[T]", False),
        ("T = torch.Tensor | float", "T", False),
        ("T = np.ndarray", "T", False),
        ("T = U\nU = T", "T", False),
    ],
)
def test_an_annotation_may_be_a_name_of_the_modules_own(alias: str, annotation: str, *, tensor: bool) -> None:
    text = f"import torch\n{alias}\ndef f(given: {annotation}):\n    if given > 0:\n        return given\n"
    wanted = {"CG202"} if tensor else set()
    assert ids(read(text, "f")) == wanted
    assert ids(read(text, every=True)) == wanted


METHODS = """
import torch
class Net(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        return self.helper(x)
    def helper(self, x: torch.Tensor):
        return x * 2
    def encode(self, x: torch.Tensor):
        return x.sum().item()
"""


HEADER = "import cv2\nimport numpy as np\nimport torch\n"


@pytest.mark.parametrize(
    "text",
    [
        "def crop(x, low=0):\n    return torch.as_tensor(np.logical_or(x < low, x.mean() > 1) * 1.0)",
        "def flip(x):\n    sign = np.random.choice([-1, 1], size=(x.shape[0],))\n    return sign * x",
        "def trace(cost):\n    i = cost.shape[0] - 1\n    return np.argmin((cost[i], cost[i - 1]))",
        "def load(weights=()):\n    prepare(weights)\n    for w in weights:\n        print(str(w))",
        "def warp(im, targets=()):\n    im = cv2.resize(im, (1, 1))\n    if im.shape[0] > targets.max(): return im",
        "def check(obs: dict | np.ndarray):\n    if obs.mean() > 0: return obs",
        "def save(name, data):\n    return data.clone().clamp(0, 255).numpy()",
        # The function that is called tells: numpy would refuse a GPU tensor outside of a capture too
        "def outer(x, args):\n    if x.mean() > 0: return inner(x)\ndef inner(signal):\n    return np.interp(signal, [0], [1])",
    ],
)
def test_arguments_that_numpy_gets_are_no_gpu_tensors(text: str) -> None:
    assert read(HEADER + text, every=True).findings == []


def test_what_is_made_an_array_if_it_is_a_tensor_is_one_afterwards() -> None:
    text = """
def plot(images, masks):
    if isinstance(masks, torch.Tensor):
        masks = masks.cpu().numpy()
    if masks.max() > 1:
        return images.reshape(-1)
"""
    assert 8 not in {finding.line for finding in read(HEADER + text, every=True).findings}


def test_devices_without_graphs_are_not_asked_for() -> None:
    text = """
def pick(x, out):
    torch.relu(x)
    if "mps" in out.device.type:
        out = out.cpu()
    return out.cpu() if out.device.type == "xpu" else out
"""
    assert read(HEADER + text, every=True).findings == []


def test_sizes_that_torchvision_gives_are_numbers() -> None:
    text = """
import torch
import torchvision.transforms.functional as F
def crop(img: torch.Tensor, size):
    _, height, width = F.get_dimensions(img)
    if height > size:
        return img
    return F.crop(img, int(round((height - size) / 2)), 0, size, size)
"""
    assert read(text, every=True).findings == []


def test_buffers_go_to_the_gpu_with_a_module_whose_parts_are_there() -> None:
    text = """
import torch
from torch import nn
class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))
    def forward(self, x):
        return x * self.scale
class Whole(nn.Module):
    def __init__(self, part):
        super().__init__()
        self.part = part
        self.register_buffer("index", torch.tensor([0, 1]))
    def forward(self, x):
        return self.part(x)[self.index]
if __name__ == "__main__":
    whole = Whole(Part())
    whole(torch.zeros(3, 3))
"""
    assert read(text, every=True).findings == []


@pytest.mark.parametrize(
    "text",
    [
        # An extent of what is made
        "def schedule(timesteps):\n    return torch.linspace(0, timesteps + 1, timesteps)",
        # `as_tensor` gives a tensor back as it is
        "def shift(x: torch.Tensor, by):\n    return x + torch.as_tensor(by * 2).to(x.device)",
        # What is assigned to the name of a buffer is one
        "class Queue(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.scale = torch.nn.Linear(4, 4)\n"
        "        self.register_buffer('queue', torch.randn(8, 4))\n"
        "        self.queue = torch.nn.functional.normalize(self.queue, dim=0)\n"
        "    def forward(self, x):\n"
        "        self.queue[:4] = self.scale(x)\n"
        "queue = Queue()\n",
        # What grows until it suffices
        "class Rotary(torch.nn.Module):\n"
        "    def __init__(self, end: int):\n"
        "        super().__init__()\n"
        "        self.end = end\n"
        "    def forward(self, x: torch.Tensor):\n"
        "        while x.shape[1] >= self.end:\n"
        "            self.end *= 2\n"
        "        return x * self.end\n",
    ],
)
def test_numbers_buffers_and_what_grows(text: str) -> None:
    assert read(HEADER + text, every=True).findings == []


def test_methods_that_nothing_calls_are_read_with_all() -> None:
    report = read(METHODS, every=True)
    assert {region.name for region in report.regions} == {"Net.forward", "Net.encode"}
    assert [(finding.id, finding.line) for finding in report.findings] == [("CG201", 9)]


STACK = """
import torch
from torch import nn
class Mine(nn.Transformer):
    pass
class Other(nn.Transformer):
    def forward(self, *args, **kwargs):
        return super().forward(*args, **kwargs)
x = torch.zeros(8, 4, 16, device="cuda")
mask = torch.zeros(8, 8, device="cuda")
layers = {}(16, 4).cuda()
layers(x, x)
with torch.cuda.graph(torch.cuda.CUDAGraph()):
    layers(x, x{})
"""
MASKS = {  # tests/hazards/cg215_tensor_equality.py shows them on a GPU
    "": False,
    ", mask": True,
    ", None, mask": True,
    ", tgt_mask=mask": True,
    ", memory_mask=mask": False,
    ", tgt_mask=mask, tgt_is_causal=True": False,
    ", tgt_mask=mask, tgt_is_causal=False": False,
}


@pytest.mark.parametrize("made", ["nn.Transformer", "Mine", "Other"])
@pytest.mark.parametrize("masks", MASKS)
def test_a_transformer_compares_its_masks_where_nobody_says_what_they_are(made: str, masks: str) -> None:
    assert ("CG215" in ids(read(STACK.format(made, masks)))) is MASKS[masks]


# --explain-finding ----------------------------------------------------------------------------------------------------

EXPLAINED = """
import torch
from elsewhere import build
class Trainer:
    def __init__(self, model, flag):
        self.model, self.flag, self.count = model, flag, 0
        self.graph = torch.cuda.CUDAGraph()
        self.x = torch.zeros(8, 4, device="cuda")
    def step(self, x):
        loss = self.model(x).mean()
        if self.flag:
            torch.nonzero(x)
        self.count += 1
        loss.item()
        return x * self.count
    def capture(self):
        with torch.cuda.graph(self.graph):
            self.step(self.x)
trainer = Trainer(build(), build())
trainer.capture()
"""


def test_a_finding_says_what_it_rests_on() -> None:
    found: dict[str, Finding] = {finding.id: finding for finding in read(EXPLAINED, explain=True).findings}
    assert found["CG211"].because == (
        "`x` is a GPU tensor of 2 dimensions (float)",
        "stands under `self.flag` (train.py:11), of which nothing is known",
    )
    (assumed,) = found["CG201"].because
    assert "nothing is known of it" in assumed
    assert "set at train.py:10" in assumed
    assert found["CG101"].because == (
        "held 1 at one call of the captured code, and 2 at the next",
        "`x * self.count` (train.py:15) depends on it",
    )
    assert all(finding.because == () for finding in read(EXPLAINED).findings)


@pytest.mark.parametrize("absolute", [True, False])
def test_a_file_has_one_name_whether_it_was_named_or_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, absolute: bool
) -> None:
    (tmp_path / "layers.py").write_text("import torch\ndef gate(x: torch.Tensor):\n    return x * x.sum().item()\n")
    (tmp_path / "model.py").write_text("import torch\nimport layers\ndef run(x: torch.Tensor):\n    return layers.gate(x)\n")
    monkeypatch.chdir(tmp_path)
    report = check_paths([str(tmp_path) if absolute else "."], Options(every=True))
    place = str(tmp_path / "layers.py") if absolute else "layers.py"
    assert [(finding.path, finding.line) for finding in report.findings] == [(place, 3)]


COMPILED = """
import torch
model = torch.nn.Linear(8, 8).cuda()
{option}
first, second = torch.zeros(8, 8, device="cuda"), torch.ones(8, 8, device="cuda")
kept = []
{code}
"""
REDUCED = 'fast = torch.compile(model, mode="reduce-overhead")'


@pytest.mark.parametrize(
    ("code", "option", "line"),
    [
        ("for _ in range(3):\n    kept.append(fast(first))", REDUCED, 8),
        ("for _ in range(3):\n    kept.append(fast(first).detach())", REDUCED, 8),
        ("for _ in range(3):\n    kept.append(fast(first))", REDUCED.replace("reduce-overhead", "max-autotune"), 8),
        (
            "with torch.no_grad():\n    while True:\n        one = fast(first)\n        two = fast(second)\n        one - two",
            REDUCED,
            9,
        ),
        ("for _ in range(3):\n    kept.append(fast(first).clone())", REDUCED, 0),
        ("for _ in range(3):\n    kept.append(2 * fast(first))", REDUCED, 0),
        # The backward that is to come keeps both.
        ("for _ in range(3):\n    one = fast(first)\n    two = fast(second)\n    (one - two).sum().backward()", REDUCED, 0),
        ("for _ in range(3):\n    kept.append(fast(first))", "fast = torch.compile(model)", 0),
        ("kept.append(fast(first))", REDUCED, 0),
    ],
)
def test_outputs_of_a_compiled_function_last_until_its_next_call(code: str, option: str, line: int) -> None:
    found = read(COMPILED.format(code=code, option=option)).findings
    assert [(finding.id, finding.line) for finding in found] == ([("CG311", line)] if line else [])


def test_one_mistake_is_one_finding_with_the_lines_where_it_shows(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("""
import torch
model = torch.nn.Linear(8, 8).cuda()
x = torch.zeros(8, 8, device="cuda")
optimizer = torch.optim.Adam(model.parameters())
def step():
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    step()
""")
    report = check_paths([str(path)], Options())
    assert [(finding.line, finding.id, finding.part_of) for finding in report.findings] == [
        (5, "CG235", ""),
        (9, "CG235", f"{path}:5"),
    ]
    command = [sys.executable, "-m", "cudagraph_skill", "check", str(path)]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    assert shown.stdout.count(" CG235 error ") == 1
    assert f"  also: {path}:9: `optimizer.step()` steps Adam" in shown.stdout
    assert "1 line fails at capture" in shown.stdout


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("run = FullCudaGraphWrapper(get_forward_backward_func())", "FullCudaGraphWrapper"),
        ("helper = TECudaGraphHelper(model=model, config=config)", "TECudaGraphHelper"),
        ("trainer = Trainer(callbacks=[CUDAGraphCallback(capture_iteration=20)])", "CUDAGraphCallback"),
        ("fast = thunder.jit(model, transforms=[CUDAGraphTransform()])", "CUDAGraphTransform"),
    ],
)
def test_captures_of_frameworks_are_named_where_they_are_not_read(line: str, name: str) -> None:
    report = read(f"import torch\ndef train(model, config):\n    {line}\n")
    assert [(part.line, part.name) for part in report.unread] == [(3, "train")]
    assert report.unread[0].reason.startswith(f"{name} captures what it is given")
    assert exit_code(report) == 4


def test_compiling_through_accelerate_captures() -> None:
    plugin = 'plugin = TorchDynamoPlugin(backend="inductor", mode="reduce-overhead")'
    assert [region.how for region in read(f"from accelerate.utils import TorchDynamoPlugin\n{plugin}\n").regions] == [
        "reduce-overhead"
    ]


def test_a_default_device_that_a_fixture_sets_is_not_known() -> None:
    text = """
import pytest, torch
from tensordict.nn import CudaGraphModule
@pytest.fixture(autouse=True)
def on_gpu():
    torch.set_default_device("cuda")
    yield
def test_random():
    def func(x):
        return x + torch.randn_like(x)
    func = CudaGraphModule(func)
    x = torch.randn(10)
    for _ in range(10):
        func(x)
"""
    report = read(text)
    assert (report.findings, report.unread, len(report.regions)) == ([], [], 1)


def test_a_default_device_that_a_call_set_and_took_back_is_not_known_to_the_next() -> None:
    text = """
import torch
class Runner:
    def __init__(self, config):
        torch.set_default_device("cuda")
        self.net = torch.nn.Linear(4, 4)
        if config.graphs:
            self.capture()
        torch.set_default_device("cpu")
    def capture(self):
        out, x = torch.zeros(8, 4), torch.zeros(8, 4)
        out[:4] = self.net(x[:4])
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            out[:4] = self.net(x[:4])
"""
    report = read(text)
    assert (report.findings, report.unread, len(report.regions)) == ([], [], 1)


def test_a_library_that_the_check_knows_is_not_read_in_its_own_repository(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    package = tmp_path / "transformer_engine/pytorch"
    package.mkdir(parents=True)
    (tmp_path / "transformer_engine/__init__.py").write_text("")
    (package / "__init__.py").write_text("from .graph import make_graphed_callables\n")
    (package / "graph.py").write_text("def make_graphed_callables(modules, sample_args):\n    return modules\n")
    test = tmp_path / "tests/test_graph.py"
    test.parent.mkdir()
    test.write_text("""
import torch
import transformer_engine.pytorch as te
def test_linear():
    def step(x):
        return x * x.sum().item()
    x = torch.zeros(8, device="cuda")
    graphed = te.make_graphed_callables(step, (x,))
    graphed(x)
""")
    report = check_paths([str(test)], Options())
    assert [(finding.line, finding.id) for finding in report.findings] == [(6, "CG201")]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("ema[k] = 0.9 * ema[k] + 0.1 * v", [("CG302", False)]),
        ("ema[k].mul_(0.9).add_(v, alpha=0.1)", []),
        ("local[k] = 0.9 * local[k] + 0.1 * v", []),
    ],
)
def test_an_average_of_weights_that_is_replaced_is_reported(line: str, wanted: list[tuple[str, bool]]) -> None:
    text = f"""
import torch
from zoo import make
model = make().cuda()
ema = {{k: v.detach().clone() for k, v in model.state_dict().items()}}
def step():
    local = {{k: v for k, v in ema.items()}}
    with torch.no_grad():
        for k, v in model.state_dict().items():
            {line}
for _ in range(3):
    step()
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    step()
"""
    found = [finding for finding in read(text).findings if finding.id == "CG302"]
    assert [(finding.id, finding.certain) for finding in found] == wanted


@pytest.mark.parametrize("name", [*capture_sites._WRAPPERS, *capture_sites._MANAGERS])
def test_a_file_that_names_what_captures_is_read(name: str) -> None:
    assert reading._captures(f"made = {name}(model)")


REBOUND = """
import torch
buffer = torch.zeros(8, device="cuda")
x = buffer[:4]
y = x * 2
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    y = x * 2
"""


@pytest.mark.parametrize("fill", ["buffer[:4].copy_(x)", "buffer[:4] = x", "buffer.zero_()"])
def test_a_name_is_free_once_its_memory_gets_the_new_data(fill: str) -> None:
    assert read(f"{REBOUND}x = torch.ones(4, device='cuda')\n{fill}\ng.replay()\n").findings == []


def test_memory_that_was_filled_before_the_name_was_bound_is_not_new_data() -> None:
    report = read(f"{REBOUND}buffer.zero_()\nx = x + 1\ng.replay()\n")
    assert [(finding.id, finding.line) for finding in report.findings] == [("CG304", 10)]


def test_each_replay_wants_its_own_data() -> None:
    once = "x = torch.ones(4, device='cuda')\nbuffer[:4] = x\ng.replay()\n"
    report = read(f"{REBOUND}{once}x = torch.ones(4, device='cuda') * 2\ng.replay()\n")
    assert [(finding.id, finding.line) for finding in report.findings] == [("CG304", 12)]
