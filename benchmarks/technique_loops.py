"""More programs of benchmarks/techniques.py: loops around replays, and kernels written by hand."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from technique_programs import Work, captured, one, seeded, stack
from torch import Tensor, nn

_TOKENS, _WIDTH, _WORDS = 64, 512, 8192


def lanes(way: str, *, moved: bool) -> Work:
    """Replay the graphs of four requests, ten layers of 2048 at batch 1, one after the other, or on four streams."""
    model = stack(2048, 10, torch.bfloat16)
    seeded(model.parameters(), moved=moved)
    inputs = torch.randn(4, 1, 2048, device="cuda", dtype=torch.bfloat16)
    streams = [torch.cuda.Stream() for _ in inputs]
    outs: dict[int, Tensor] = {}

    def step(lane: int) -> None:
        with torch.no_grad():
            outs[lane] = model(inputs[lane])

    graphs = [captured(lambda lane=lane: step(lane), streams[lane]) for lane in range(4)]  # type: ignore[misc]

    def run() -> None:
        main = torch.cuda.current_stream()
        if way == "before":
            for graph in graphs:
                graph.replay()
            return
        for graph, stream in zip(graphs, streams, strict=True):
            stream.wait_stream(main)
            with torch.cuda.stream(stream):
                graph.replay()
        for stream in streams:
            main.wait_stream(stream)

    return Work(run, lambda: [outs[lane] for lane in range(4)], graphs)


def one_batch(way: str, *, moved: bool) -> Work:
    """Replay the graphs of those four requests one after the other, or one graph of a batch of four."""
    if way == "before":
        return lanes(way, moved=moved)
    model = stack(2048, 10, torch.bfloat16)
    seeded(model.parameters(), moved=moved)
    inputs = torch.randn(4, 1, 2048, device="cuda", dtype=torch.bfloat16)
    outs: list[Tensor] = []

    def step() -> None:
        with torch.no_grad():
            outs[:] = [model(inputs.flatten(0, 1))]

    return one(step, lambda: list(outs[0].split(1)))


def sampling(way: str, *, moved: bool) -> Work:
    """Decode 64 tokens greedily: choose and test each eagerly, or in the graph, with a look at the stop flag every 16."""
    cell, table = stack(_WIDTH, 6), torch.randn(_WORDS, _WIDTH, device="cuda")
    seeded([*cell.parameters(), table], moved=moved)
    hidden = torch.randn(1, _WIDTH, device="cuda")
    start = hidden.clone()
    token, position = torch.zeros(1, dtype=torch.long, device="cuda"), torch.zeros(1, dtype=torch.long, device="cuda")
    text = torch.zeros(_TOKENS, dtype=torch.long, device="cuda")
    stopped, flag = torch.zeros(1, dtype=torch.bool, device="cuda"), torch.zeros(1, dtype=torch.bool).pin_memory()
    logits = torch.empty(1, _WORDS, device="cuda")

    def step() -> None:
        with torch.no_grad():
            hidden.copy_(torch.tanh(cell(hidden) + table[token]))
            torch.mm(hidden, table.mT, out=logits)
            if way == "after":
                token.copy_(logits.argmax(1))
                text.index_copy_(0, position, token)
                stopped.logical_or_(token == _WORDS - 1)
                position.add_(1).clamp_(max=_TOKENS - 1)

    graph = captured(step)

    def run() -> None:
        hidden.copy_(start)
        for state in (token, position, stopped):
            state.zero_()
        for number in range(_TOKENS):
            graph.replay()
            if way == "before":
                token.copy_(logits.argmax(1))
                text[number] = token[0]
                if token.item() == _WORDS - 1:
                    break
            elif number % 16 == 15:
                flag.copy_(stopped)
                if flag.item():
                    break

    return Work(run, lambda: [text], [graph])


def run_ahead(way: str, *, moved: bool) -> Work:
    """Run 64 steps after each of which the host may correct the token: read it at once, or one step late, and go back."""
    cell, table = stack(_WIDTH, 6), torch.randn(_WORDS, _WIDTH, device="cuda")
    seeded([*cell.parameters(), table], moved=moved)
    past = torch.randn(_TOKENS + 2, _WIDTH, device="cuda")  # the state before each step: going back is a smaller position
    text = torch.zeros(_TOKENS + 2, dtype=torch.long, device="cuda")
    position, last = torch.zeros(1, dtype=torch.long, device="cuda"), torch.zeros(1, dtype=torch.long, device="cuda")
    read = [torch.zeros(1, dtype=torch.long).pin_memory() for _ in range(2)]
    copied = [torch.cuda.Event() for _ in range(2)]

    def step() -> None:
        with torch.no_grad():
            hidden = torch.tanh(cell(past[position]) + table[text[position]])
            last.copy_((hidden @ table.mT).argmax(1))
            position.add_(1).clamp_(max=_TOKENS)
            past.index_copy_(0, position, hidden)
            text.index_copy_(0, position, last)

    graph = captured(step)

    def launch(number: int) -> None:
        graph.replay()
        read[number % 2].copy_(last, non_blocking=True)
        copied[number % 2].record()

    def wrong(number: int) -> bool:
        copied[number % 2].synchronize()
        return int(read[number % 2]) % 32 == 5

    def run() -> None:
        text.zero_()
        position.zero_()
        if way == "after":
            launch(0)
        for number in range(_TOKENS):
            if way == "before" or number + 1 < _TOKENS:
                launch(number + (way == "after"))
            if wrong(number):  # the host chooses another token: what ran ahead is computed again
                text[number + 1] = 7
                position.fill_(number + 1)
                if way == "after" and number + 1 < _TOKENS:
                    launch(number + 1)

    return Work(run, lambda: [text[: _TOKENS + 1]], [graph])


def several_steps(way: str, *, moved: bool) -> Work:
    """Train a tiny network for eight steps: a copy and a replay for each, or for all."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64)).cuda()
    params = seeded(model.parameters(), moved=moved)
    data = torch.randn(8, 2, 32, 64).pin_memory()
    count = 1 if way == "before" else 8
    batch = torch.zeros(count, 2, 32, 64, device="cuda")
    optimizer = torch.optim.AdamW(params, capturable=True, fused=True)

    def step() -> None:
        for x, y in batch:
            optimizer.zero_grad(set_to_none=True)
            F.mse_loss(model(x), y).backward()
            optimizer.step()

    for weight in params:
        weight.requires_grad_(True)
    start = [weight.detach().clone() for weight in params]
    graph = captured(step)
    states = [value for state in optimizer.state.values() for value in state.values()]
    with torch.no_grad():
        torch._foreach_copy_([weight.detach() for weight in params], start)
        torch._foreach_zero_(states)  # the two have not warmed up for as many steps

    def run() -> None:
        for first in range(0, 8, count):
            batch.copy_(data[first : first + count], non_blocking=True)
            graph.replay()

    return Work(run, lambda: [weight.detach() for weight in params], [graph])


def random_ahead(way: str, *, moved: bool) -> Work:
    """Take 16 steps with four draws each: drawn in the step, or all in one kernel before; the two draw other numbers."""
    seeded([], moved=moved)
    x = torch.randn(256, 64, device="cuda")
    noise = torch.zeros(16, 4, 256, 64, device="cuda")
    number = torch.zeros(1, dtype=torch.long, device="cuda")

    def step() -> None:
        drawn = [torch.randn_like(x) for _ in range(4)] if way == "before" else noise[number][0]
        number.add_(1).remainder_(16)
        for part in drawn:
            x.mul_(0.5).add_(part)

    graph = captured(step)

    def run() -> None:
        if way == "after":
            noise.normal_()
        for _ in range(16):
            graph.replay()

    return Work(run, list, [graph])


_GATES = """
extern "C" __global__ void gates(const float* z, float* c, float* h, int n) {
  int k = blockIdx.x * blockDim.x + threadIdx.x, row = k / n, col = k % n;
  const float* a = z + row * 4 * n + col;
  float i = 1.f / (1.f + expf(-a[0])), f = 1.f / (1.f + expf(-a[n])), o = 1.f / (1.f + expf(-a[3 * n]));
  c[k] = f * c[k] + i * tanhf(a[2 * n]);
  h[k] = o * tanhf(c[k]);
}"""


def _recurrent(fused: Any, *, moved: bool) -> Work:
    torch.manual_seed(0)
    weight = torch.randn(1024, 256, device="cuda") / 16
    seeded([weight], moved=moved)
    x = torch.randn(16, 64, 1024, device="cuda")
    h, c = torch.zeros(64, 256, device="cuda"), torch.zeros(64, 256, device="cuda")

    def gates(z: Tensor) -> None:
        i, f, g, o = z.chunk(4, 1)
        c.copy_(f.sigmoid() * c + i.sigmoid() * g.tanh())
        h.copy_(o.sigmoid() * c.tanh())

    def step() -> None:
        with torch.no_grad():
            for part in x:
                (fused or (lambda z, *_: gates(z)))(torch.addmm(part, h, weight.mT), c, h)

    return one(step, lambda: [h, c])


def gates_nvrtc(way: str, *, moved: bool) -> Work:
    """Run 16 steps of an LSTM by hand: its gates as torch operations, or one kernel that NVRTC compiled."""
    options = ["--fmad=false"]  # torch's separate kernels round after each product
    kernel = torch.cuda._compile_kernel(_GATES, "gates", nvcc_options=options) if way == "after" else None  # noqa: SLF001

    def fused(z: Tensor, c: Tensor, h: Tensor) -> None:
        assert kernel is not None
        kernel((64, 1, 1), (256, 1, 1), (z, c, h, 256))

    return _recurrent(fused if way == "after" else None, moved=moved)


def gates_triton(way: str, *, moved: bool) -> Work:
    """Run the same with one Triton kernel."""
    import technique_kernels

    return _recurrent(technique_kernels.gates if way == "after" else None, moved=moved)


def dependent_launch(way: str, *, moved: bool) -> Work:
    """Run a chain of 64 small Triton kernels, each launched when the one before has ended, or is about to."""
    import technique_kernels

    seeded([], moved=moved)
    x = torch.randn(1 << 16, device="cuda")
    return one(lambda: technique_kernels.chain(x, 64, early=way == "after"), lambda: [x])
