"""Python values that a program changes after its capture: found where a replay follows and its GPU work depends on them.

Lines that are to be found end in their hazard; programs without such a line are to stay without a finding of these hazards.
"""

from __future__ import annotations

from textwrap import dedent

import pytest
from cudagraph_skill.check import Options, check_text

HAZARDS = {"CG102", "CG103", "CG110"}
HEAD = """
import torch
import torch.nn.functional as F
from torch import nn
x = torch.zeros(4, 8, device="cuda")
net = nn.Linear(8, 16).cuda()
"""
NET = """
class Net(nn.Module):
    def __init__(self, scale=1.0):
        super().__init__()
        self.scale, self.epoch, self.verbose = scale, 0, False
    def set_scale(self, value):
        self.scale = value
    def forward(self, x):
        {}
model = Net().cuda()
"""
SCALED = NET.format("return x * self.scale{}")
FOUND = SCALED.format("  # CG102")
SILENT = SCALED.format("")
# What is defined, the call that is captured, what the program does afterwards
CHANGED = {
    "a setter": (FOUND, "model(x)", "for step in range(100):\n    model.set_scale(1 / (step + 1))\n    graph.replay()"),
    "an attribute": (FOUND, "model(x)", "for step in range(9):\n    model.scale = 1 - step / 9\n    graph.replay()"),
    "behind the replay": (FOUND, "model(x)", "while True:\n    graph.replay()\n    model.scale *= 0.99"),
    "late in a long loop": (FOUND, "model(x)", "for t in range(50):\n    if t > 25: model.scale = 2.0\n    graph.replay()"),
    "another type": (FOUND, "model(x)", "model.scale = torch.full((), 0.5)\ngraph.replay()"),
    "setattr": (FOUND, "model(x)", "for value in (0.2, 0.1):\n    setattr(model, 'scale', value)\n    graph.replay()"),
    "an unknown schedule": (
        f"from schedules import loader, scale_at\n{FOUND}",
        "model(x)",
        "for step, batch in enumerate(loader):\n    model.scale = scale_at(step)\n    x.copy_(batch)\n    graph.replay()",
    ),
    "a property with a setter": (
        """
class Noise:
    def __init__(self):
        self._sigma = 1.0
    @property
    def sigma(self):
        return self._sigma  # CG102
    @sigma.setter
    def sigma(self, value):
        self._sigma = value
noise = Noise()
""",
        "x + noise.sigma * torch.randn_like(x)",
        "for sigma in (0.9, 0.8):\n    noise.sigma = sigma\n    graph.replay()",
    ),
    "a global": (
        "weight = 0.0\ndef loss():\n    return net(x).mean() + weight * net(x).square().sum()  # CG102",
        "loss()",
        "for epoch in range(10):\n    weight = min(1.0, epoch / 10)\n    for _ in range(5): graph.replay()",
    ),
    "a global of a function": (
        "beta = 1.0\ndef f():\n    return beta * x.sum()  # CG102\ndef update(step):\n    global beta\n    beta = 1 + step",
        "f()",
        "for step in range(10):\n    update(step)\n    graph.replay()",
    ),
    "a closure": (
        """
def build():
    strength = 0.1
    def penalty():
        return strength * x.square()  # CG102
    def strengthen(value):
        nonlocal strength
        strength = value
    return penalty, strengthen
penalty, strengthen = build()
""",
        "penalty()",
        "for value in (0.2, 0.3):\n    strengthen(value)\n    graph.replay()",
    ),
    "a dataclass": (
        """
from dataclasses import dataclass
@dataclass
class Config:
    guidance: float = 7.5
config = Config()
def denoise():
    cond, uncond = net(x).chunk(2, -1)
    return uncond + config.guidance * (cond - uncond)  # CG102
""",
        "denoise()",
        "for t in range(9):\n    config.guidance = 1.0 + t\n    graph.replay()",
    ),
    "a namespace": (
        "from types import SimpleNamespace\nstate = SimpleNamespace(tau=1.0)\n"
        "def f():\n    return (x / state.tau).softmax(-1)  # CG102",
        "f()",
        "for _ in range(3):\n    state.tau *= 0.9\n    graph.replay()",
    ),
    "a dict": (
        "config = {'weight': 1.0}\ndef f():\n    return net(x).mean() * config['weight']  # CG102",
        "f()",
        "for i in range(100):\n    config['weight'] = 0.9**i\n    graph.replay()",
    ),
    "a class": (
        "class Hyper:\n    margin = 0.2\ndef f():\n    return (x + Hyper.margin).relu()  # CG102",
        "f()",
        "Hyper.margin = 0.3\ngraph.replay()",
    ),
    "the decay of an average": (
        """
class Average:
    def __init__(self, model, decay=0.9):
        self.decay, self.source = decay, list(model.parameters())
        self.shadow = [p.detach().clone() for p in self.source]
    @torch.no_grad()
    def update(self):
        for s, p in zip(self.shadow, self.source):
            s.mul_(self.decay).add_(p, alpha=1 - self.decay)  # CG102
ema = Average(net)
""",
        "ema.update()",
        "for step in range(1, 1000):\n    ema.decay = min(0.999, (1 + step) / (10 + step))\n    graph.replay()",
    ),
    "epsilon-greedy": (
        """
class Agent:
    def __init__(self):
        self.eps = 1.0
    def act(self):
        greedy = net(x).argmax(-1)
        explore = torch.rand(4, device="cuda") < self.eps  # CG102
        return torch.where(explore, torch.randint(0, 16, (4,), device="cuda"), greedy)
    def decay(self):
        self.eps = max(0.05, self.eps * 0.995)
agent = Agent()
""",
        "agent.act()",
        "while True:\n    graph.replay()\n    agent.decay()",
    ),
    "a flag": (
        NET.format("y = x * 2\n        if self.verbose:  # CG102\n            y = y + x.tanh()\n        return y"),
        "model(x)",
        "for epoch in range(10):\n    if epoch == 5: model.verbose = True\n    graph.replay()",
    ),
    "the name of a strategy": (
        "how = 'mean'\ndef pool():\n    return x.mean(-1) if how == 'mean' else x.amax(-1)  # CG102",
        "pool()",
        "graph.replay()\nhow = 'max'\ngraph.replay()",
    ),
    "p of a layer": (
        "model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)).cuda()\ndef f():\n    return model(x)  # CG102",
        "f()",
        "for epoch in range(10):\n    model[1].p = 0.5 - epoch / 20\n    graph.replay()",
    ),
    "p of F.dropout": (
        NET.format("return F.dropout(x, p=self.scale, training=True)  # CG102"),
        "model(x)",
        "for epoch in range(10):\n    model.scale = 0.5 - epoch / 20\n    graph.replay()",
    ),
    "an option of a loss": (
        "loss_fn = nn.CrossEntropyLoss(label_smoothing=0.1)\ny = torch.zeros(4, dtype=torch.long, device='cuda')\n"
        "def f():\n    return loss_fn(net(x), y)  # CG102",
        "f()",
        "for epoch in range(3):\n    loss_fn.label_smoothing = 0.1 - epoch / 30\n    graph.replay()",
    ),
    # Not changed, not read, or not replayed
    "no replay follows": (SILENT, "model(x)", "graph.replay()\nmodel.scale = 2.0\nmodel(x)"),
    "back at the replay": (
        SILENT,
        "model(x)",
        "for _ in range(9):\n    model.scale = 0.0\n    model(x.clone())\n    model.scale = 1.0\n    graph.replay()",
    ),
    "the same value": (SILENT, "model(x)", "for _ in range(9):\n    model.set_scale(1.0)\n    graph.replay()"),
    "an attribute that is not read": (
        SILENT,
        "model(x)",
        "for epoch in range(9):\n    model.epoch = epoch\n    graph.replay()",
    ),
    "another object": (SILENT, "model(x)", "other = Net(2.0)\nfor i in range(9):\n    other.scale = i\n    graph.replay()"),
    "a context": (
        """
from contextlib import contextmanager
@contextmanager
def scaled(value):
    before, model.scale = model.scale, value
    try:
        yield
    finally:
        model.scale = before
"""
        + SILENT,
        "model(x)",
        "for _ in range(9):\n    with scaled(0.5): model(x.clone())\n    graph.replay()",
    ),
    "a flag without GPU work": (
        NET.format("if self.verbose: self.epoch += 1\n        return x * 2"),
        "model(x)",
        "for i in range(9):\n    model.verbose = i == 5\n    graph.replay()",
    ),
    "changed by the capture too, which is CG101": (
        NET.format("self.scale += 1.0\n        return x * self.scale"),
        "model(x)",
        "for i in range(9):\n    model.scale = 0.0\n    graph.replay()",
    ),
    "asked for in a check": (
        NET.format("if x.shape[0] < self.scale: raise ValueError(self.scale)\n        return x * 2"),
        "model(x)",
        "for i in range(9):\n    model.scale = i / 9\n    graph.replay()",
    ),
    "set in the capture before it is read": (
        NET.format("self.scale = 2.0\n        return x * self.scale"),
        "model(x)",
        "for i in range(9):\n    model.scale = i\n    graph.replay()",
    ),
    "a mode": (
        NET.format("return x + 1 if self.training else x"),
        "model(x)",
        "for _ in range(9):\n    graph.replay()\n    model.eval()",
    ),
    "a tensor that is filled": (
        NET.format("return x * self.scale_now") + "model.scale_now = torch.ones((), device='cuda')\n"
        "def fill(value):\n    model.scale = value\n    model.scale_now.fill_(value)",
        "model(x)",
        "for i in range(9):\n    fill(i)\n    graph.replay()",
    ),
    "a local of the same name": (
        "alpha = 0.5\ndef f():\n    alpha = 0.1\n    return x * alpha",
        "f()",
        "for _ in range(9):\n    alpha *= 0.9\n    graph.replay()",
    ),
    "the variable of a loop in the capture": (
        "def f():\n    for i in range(3): y = x * i\n    return y",
        "[f() * i for i in range(3)]",
        "for i in range(9): graph.replay()",
    ),
    "used behind the replay": (
        SILENT.replace("return x * self.scale", "return x * 2"),
        "model(x)",
        "for i in range(9):\n    model.scale = 1 / (i + 1)\n    graph.replay()\n    token = (y / model.scale).softmax(-1)",
    ),
    "captured again": (
        "",
        "x * 2",
        SILENT + "for epoch in range(9):\n    model.scale = 1 / (epoch + 1)\n    graph = torch.cuda.CUDAGraph()\n"
        "    with torch.cuda.graph(graph): y = model(x)\n    for _ in range(9): graph.replay()",
    ),
    "a graph for each value": (
        SILENT,
        "x * 2",
        "graphs = {}\nfor scale in (1.0, 2.0):\n    model.scale = scale\n    graphs[scale] = torch.cuda.CUDAGraph()\n"
        "    with torch.cuda.graph(graphs[scale]): y = model(x)\n"
        "for step in range(9):\n    model.scale = 1.0 if step % 2 else 2.0\n    graphs[model.scale].replay()",
    ),
    "a second graph for the second value": (
        SILENT,
        "model(x)",
        "model.scale, other = 2.0, torch.cuda.CUDAGraph()\nwith torch.cuda.graph(other, pool=graph.pool()): z = model(x)\n"
        "for _ in range(9):\n    graph.replay()\n    other.replay()",
    ),
}
STEP = """
opt = torch.optim.{}
sched = torch.optim.lr_scheduler.StepLR(opt, 10)
def adjust(value):
    for group in opt.param_groups:
        group["lr"] = value
def step():
    opt.zero_grad(set_to_none=False)
    net(x).square().mean().backward()
    opt.step(){}
"""
SGD, ADAM = "SGD(net.parameters(), lr=0.1)", "AdamW(net.parameters(), lr=1e-3, capturable=True)"
LOOP = "for epoch in range(100):\n    graph.replay()\n    {}"
SCHEDULED = {
    "SGD": (STEP.format(SGD, "  # CG110"), "step()", LOOP.format("sched.step()")),
    "capturable": (STEP.format(ADAM, "  # CG110"), "step()", LOOP.format("sched.step()")),
    "by hand": (STEP.format(ADAM, "  # CG110"), "step()", LOOP.format("adjust(1e-3 * (1 - epoch / 100))")),
    "momentum": (
        STEP.format("SGD(net.parameters(), lr=0.1, momentum=0.5)", "  # CG110"),
        "step()",
        LOOP.format("opt.param_groups[0]['momentum'] = 0.9"),
    ),
    "a tensor rate": (
        STEP.format("AdamW(net.parameters(), lr=torch.tensor(1e-3, device='cuda'), capturable=True)", ""),
        "step()",
        LOOP.format("sched.step()"),
    ),
    "an eager step": (
        STEP.format(SGD, ""),
        "net(x).square().mean().backward()",
        LOOP.format("opt.step()\n    sched.step()\n    adjust(0.1)"),
    ),
    "before the capture": (STEP.format(SGD, "") + "step()\nsched.step()\nadjust(0.2)", "step()", LOOP.format("pass")),
}
WRAPPER = """
class Graphed:
    def __init__(self):
        self.graph, self.graphs = None, {{}}
    def run(self, scale):
        return net(x) * scale{}
    def capture(self, scale):
        self.run(scale)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.y = self.run(scale)
        return graph
    def once(self, batch, scale=1.0, verbose=False):
        if self.graph is None:
            self.graph = self.capture(scale)
        x.copy_(batch)
        self.graph.replay()
        return self.y.clone()
    def each(self, scale):
        if scale not in self.graphs:
            self.graphs[scale] = self.capture(scale)
        self.graphs[scale].replay()
graphed = Graphed()
"""
WHOLE = {
    "an argument": WRAPPER.format("  # CG103") + "for i in range(100): graphed.once(x, 1 - i / 200)",
    "a keyword": WRAPPER.format("  # CG103") + "graphed.once(x)\ngraphed.once(x, scale=0.5)",
    "an argument for the host": WRAPPER.format("") + "graphed.once(x)\ngraphed.once(x, verbose=True)",
    "the same argument": WRAPPER.format("") + "graphed.once(x, 0.5)\ngraphed.once(x, scale=0.5)",
    "an argument that leads past the graph": WRAPPER.format("")
    + """
def call(scale):
    if scale != 1.0:
        return graphed.run(scale)
    if graphed.graph is None:
        graphed.graph = graphed.capture(scale)
    graphed.graph.replay()
call(1.0)
for i in range(100): call(1 / (i + 1))
""",
    "a graph for each argument": WRAPPER.format("") + "for scale in (1.0, 2.0, 1.0): graphed.each(scale)",
    "the caller's own variable": """
        def train(x):
            temperature = 1.0
            y = x / temperature
            g = torch.cuda.CUDAGraph()
            with torch.cuda.graph(g):
                y = (x / temperature).softmax(-1)  # CG102
            for _ in range(100):
                temperature *= 0.99
                g.replay()
        train(x)
    """,
    "another method": """
        class Trainer:
            def __init__(self):
                self.alpha = 0.5
            def step(self):
                return net(x).square().mean() * self.alpha  # CG102
            def anneal(self):
                self.alpha *= 0.99
            def train(self, loader):
                self.step()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    loss = self.step()
                for batch in loader:
                    x.copy_(batch)
                    graph.replay()
                    self.anneal()
    """,
    "a counter before the capture": """
        class Trainer:
            def __init__(self):
                self.gamma, self.calls, self.graph = 1.0, 0, None
            def loss(self):
                return net(x).abs().mean() ** self.gamma  # CG102
            def step(self, batch):
                self.gamma = 2.0 - 1.0 / (self.calls + 1)
                self.calls += 1
                x.copy_(batch)
                if self.calls <= 3:
                    return self.loss()
                if self.graph is None:
                    self.graph = torch.cuda.CUDAGraph()
                    with torch.cuda.graph(self.graph):
                        self.y = self.loss()
                self.graph.replay()
        trainer = Trainer()
        for batch in torch.randn(100, 4, 8):
            trainer.step(batch)
    """,
    "capture_begin": """
        clip = 1.0
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(torch.cuda.Stream()):
            graph.capture_begin()
            y = x.clamp(-clip, clip)  # CG102
            graph.capture_end()
        for _ in range(3):
            clip /= 2
            graph.replay()
    """,
    "a graphed callable": NET.format("return x * self.scale  # CG102")
    + "fast = torch.cuda.make_graphed_callables(model, (x,))\nfor step in range(9):\n    model.scale = step\n    fast(x)",
    "a CudaGraphModule": "from tensordict.nn import CudaGraphModule\n"
    + NET.format("return x * self.scale  # CG102")
    + "fast = CudaGraphModule(model)\nfor step in range(9):\n    model.scale = step\n    fast(x)",
    "a size": """
        def serve(loader):
            n = 4
            g = torch.cuda.CUDAGraph()
            with torch.cuda.graph(g):
                y = x[:n] * 2
            for batch in loader:
                n = batch.shape[0]
                x[:n].copy_(batch)
                g.replay()
        serve([torch.zeros(2, 8), torch.zeros(3, 8)])
    """,
    "captured again on a change": """
        class Runner:
            scale = 1.0
            def capture(self):
                self.graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(self.graph):
                    self.y = x * self.scale
            def set_scale(self, value):
                if value != self.scale:
                    self.scale = value
                    self.capture()
        runner = Runner()
        runner.capture()
        for i in range(10):
            runner.set_scale(1.0 + i // 5)
            runner.graph.replay()
    """,
    "a graph that is dropped on a change": """
        class Runner:
            scale, graph = 1.0, None
            def set_scale(self, value):
                self.scale, self.graph = value, None
            def forward(self):
                if self.graph is None:
                    self.graph = torch.cuda.CUDAGraph()
                    with torch.cuda.graph(self.graph):
                        self.y = x * self.scale
                self.graph.replay()
        runner = Runner()
        for epoch in range(10):
            runner.set_scale(1 / (epoch + 1))
            for _ in range(100): runner.forward()
    """,
    "a closure for each value": """
        def make(scale):
            g = torch.cuda.CUDAGraph()
            with torch.cuda.graph(g):
                y = x * scale
            def run():
                g.replay()
                return y
            return run
        low, high = make(1.0), make(2.0)
        for _ in range(5):
            low()
            high()
    """,
    "a cached graph for each value": """
        from functools import lru_cache
        @lru_cache
        def graph_for(scale):
            g = torch.cuda.CUDAGraph()
            with torch.cuda.graph(g):
                y = x * scale
            return g
        def forward(scale):
            graph_for(scale).replay()
        for scale in (1.0, 2.0, 1.0): forward(scale)
    """,
}


def _found(text: str) -> tuple[set[tuple[int, str]], set[tuple[int, str]]]:
    """Return what is found of these hazards in a program, and what is to be found."""
    lines = enumerate(text.splitlines(), 1)
    wanted = {(number, line[-5:]) for number, line in lines if line[-7:-5] == "# "}
    report = check_text(text, "program.py", None, Options())
    assert report.regions
    assert report.notes == []
    return {(finding.line, finding.id) for finding in report.findings if finding.id in HAZARDS}, wanted


@pytest.mark.parametrize("name", [*CHANGED, *SCHEDULED])
def test_what_the_program_changes_before_a_replay_is_found(name: str) -> None:
    before, call, after = (CHANGED | SCHEDULED)[name]
    capture = f"{call}\ngraph = torch.cuda.CUDAGraph()\nwith torch.cuda.graph(graph):\n    y = {call}\n"
    found, wanted = _found(f"{HEAD}{before}\n{capture}{after}\n")
    assert found == wanted


@pytest.mark.parametrize("name", WHOLE)
def test_what_whole_programs_change_is_found(name: str) -> None:
    found, wanted = _found(HEAD + dedent(WHOLE[name]))
    assert found == wanted


def test_what_an_unknown_function_returns_is_likely_to_be_another_value() -> None:
    before, call, after = CHANGED["an unknown schedule"]
    text = f"{HEAD}{before}\n{call}\ngraph = torch.cuda.CUDAGraph()\nwith torch.cuda.graph(graph):\n    y = {call}\n{after}"
    (finding,) = check_text(text, "program.py", None, Options()).findings
    assert not finding.certain
    assert finding.message.startswith("`self.scale` is set after the capture (line 24); ")


def test_what_a_function_that_is_named_depends_on_is_not_known() -> None:
    before, call, after = CHANGED["a setter"]
    text = f"{HEAD}{before}\ngraph = torch.cuda.CUDAGraph()\nwith torch.cuda.graph(graph):\n    y = {call}\n{after}"
    assert check_text(text, "program.py", "Net.forward", Options()).findings == []


@pytest.mark.parametrize(
    "made",
    [
        "{}",
        "list({})",
        "[float(t) for t in {}]",
        "list(zip({}, {}))",
        "torch.stack({})",
        "[0.5 for _ in range(4)]",
        "{}['ids']",
    ],
)
def test_a_length_of_which_nothing_is_known_is_as_fixed_as_a_shape(made: str) -> None:
    text = f"""{HEAD}
from data import loader
def body():
    return net(x[:n])
batch = {made.replace("{}", "next(loader)")}
n = len(batch)
body()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = body()
for item in loader:
    batch = {made.replace("{}", "item")}
    n = len(batch)
    graph.replay()
"""
    assert check_text(text, "program.py", None, Options()).findings == []


def test_a_length_that_is_known_to_be_another_is_found() -> None:
    found, wanted = _found(f"""{HEAD}
def body():
    return net(x[:n])  # CG102
batch = [1, 2]
n = len(batch)
body()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = body()
batch = [1, 2, 3]
n = len(batch)
graph.replay()
""")
    assert found == wanted
