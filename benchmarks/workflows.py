"""The workflows of SKILL.md on four launch-bound workloads, on a GPU. Needs torch alone.

    python benchmarks/workflows.py > out.json                all of them, each in a process of its own, none ever profiled
    python benchmarks/workflows.py decode manual             one, as one line of JSON

Times are microseconds of wall per step: batches of about 80 ms between two synchronizations, 15 batches, median with 10th and
90th percentile. `loss` is that of step 30 from one seed, warm-up counted, so that variants can be compared.
"""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
import sys
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Callable

VARIANTS = ("eager", "make_graphed", "reduce-overhead", "manual", "manual over compile")
_STEPS = 30


class Workload(NamedTuple):
    """A model, its inputs on the GPU, a loss of the model's output, and how it is trained (`optimizer` None: inference)."""

    model: nn.Module
    inputs: tuple[Tensor, ...]
    loss: Callable[[Tensor], Tensor]
    optimizer: Callable[[nn.Module], torch.optim.Optimizer] | None
    clip: bool = False
    autocast: bool = False


class Block(nn.Module):
    """A pre-norm transformer block of width 768 with 12 heads."""

    def __init__(self, cache: int = 0) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(768), nn.LayerNorm(768)
        self.qkv, self.out = nn.Linear(768, 2304), nn.Linear(768, 768)
        self.up, self.down = nn.Linear(768, 3072), nn.Linear(3072, 768)
        if cache:
            self.register_buffer("keys", torch.zeros(1, 12, cache, 64))
            self.register_buffer("values", torch.zeros(1, 12, cache, 64))

    def forward(self, x: Tensor, position: Tensor | None = None) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, 12, 64).permute(2, 0, 3, 1, 4)
        if position is None:
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            self.keys.index_copy_(2, position, k)
            self.values.index_copy_(2, position, v)
            seen = (torch.arange(self.keys.shape[2], device=x.device) <= position)[None]
            mixed = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=seen)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, 768))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    """Twelve blocks; with `cache` each call is one token at `position`, without it a whole sequence."""

    def __init__(self, cache: int = 0) -> None:
        super().__init__()
        self.embed = nn.Embedding(8192, 768)
        self.blocks = nn.ModuleList(Block(cache) for _ in range(12))
        self.head = nn.Linear(768, 8192)

    def forward(self, tokens: Tensor, position: Tensor | None = None) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, position)
        return self.head(x)


class ActorCritic(nn.Module):
    """Two small networks over one observation, their outputs side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 8))
        self.critic = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.actor(x), self.critic(x)], 1)


def mlp() -> Workload:
    """Build a training step of a multilayer perceptron, batch 640, SGD."""
    sizes = (4096, 2048, 1024, 512, 256)
    layers = [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())]
    target = torch.randn(640, 256, device="cuda")
    inputs = (torch.randn(640, 4096, device="cuda"),)
    return Workload(
        nn.Sequential(*layers), inputs, lambda out: F.mse_loss(out, target), lambda m: torch.optim.SGD(m.parameters(), lr=0.1)
    )


def decode() -> Workload:
    """Build the step of one token through a 12-layer bf16 decoder with a static KV cache of 1024."""
    inputs = (torch.zeros(1, 1, dtype=torch.long, device="cuda"), torch.tensor([700], device="cuda"))
    return Workload(Decoder(1024).bfloat16(), inputs, lambda out: out.float().logsumexp(-1).mean(), None)


def gpt() -> Workload:
    """Build a training step of a 12-layer GPT, 4 sequences of 256, bf16 autocast, clipping, AdamW."""
    tokens = torch.randint(8192, (4, 256), device="cuda")
    loss = lambda out: F.cross_entropy(out.flatten(0, 1).float(), tokens.flatten())  # noqa: E731
    optimizer = lambda m: torch.optim.AdamW(m.parameters(), lr=1e-4, capturable=True)  # noqa: E731
    return Workload(Decoder(), (tokens,), loss, optimizer, clip=True, autocast=True)


def actor_critic() -> Workload:
    """Build a PPO-like update of two small networks, batch 256, Adam."""
    action = torch.randn(256, 8, device="cuda")
    advantage, old = torch.randn(2, 256, device="cuda")

    def loss(out: Tensor) -> Tensor:
        score = -((out[:, :8] - action) ** 2).sum(1) / 8
        ratio = (score - score.detach()).exp()
        surrogate = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
        return F.mse_loss(out[:, 8], old) - surrogate.mean() - 0.01 * score.mean()

    inputs = (torch.randn(256, 64, device="cuda"),)
    return Workload(ActorCritic(), inputs, loss, lambda m: torch.optim.Adam(m.parameters(), lr=1e-4, capturable=True))


WORKLOADS = {work.__name__: work for work in (mlp, decode, gpt, actor_critic)}


def stepper(work: Workload, variant: str) -> Callable[[], Tensor]:
    """Return a function that runs one step of the given variant and returns the tensor that holds its loss."""
    model = work.model.cuda().train(work.optimizer is not None)
    optimizer = work.optimizer(model) if work.optimizer else None
    amp = torch.autocast("cuda", torch.bfloat16, enabled=work.autocast, cache_enabled=False)
    call: Any = model
    if variant == "make_graphed":
        with amp, torch.set_grad_enabled(optimizer is not None):
            call = torch.cuda.make_graphed_callables(model, work.inputs)
    elif variant == "reduce-overhead":
        call = torch.compile(model, mode="reduce-overhead")
    elif variant == "manual over compile":
        call = torch.compile(model)

    def step() -> Tensor:
        with amp, torch.set_grad_enabled(optimizer is not None):
            loss = work.loss(call(*work.inputs))
        if optimizer:
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            if work.clip:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        return loss.detach()

    return captured(step) if variant.startswith("manual") else step


def captured(step: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """Run three warm-up steps on a side stream, capture one, and return a function that replays it."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()

    def replay(_kept: object = step) -> Tensor:  # the graph knows addresses only: what it reads must live as long as it
        graph.replay()
        return loss

    return replay


def measure(name: str, variant: str) -> dict[str, Any]:
    """Measure one variant of one workload."""
    torch.manual_seed(0)
    started = time.perf_counter()
    step = stepper(WORKLOADS[name](), variant)
    done = 3 if variant.startswith("manual") else 0
    for _ in range(_STEPS - done):
        loss = step()
    loss = loss.clone()  # a replay writes into the same tensor again
    torch.cuda.synchronize()
    ready = time.perf_counter() - started
    batch = max(1, int(0.08 / seconds(step, 20)))
    times = sorted(seconds(step, batch) * 1e6 for _ in range(15))
    return {
        "workload": name,
        "variant": variant,
        "us": round(statistics.median(times), 1),
        "p10": round(times[1], 1),
        "p90": round(times[13], 1),
        "loss": float(loss.item()),
        "ready_s": round(ready, 1),
        "reserved_mib": torch.cuda.max_memory_reserved() >> 20,
    }


def seconds(step: Callable[[], Tensor], count: int) -> float:
    """Return the wall time of one step, over `count` of them between two synchronizations."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / count


def main() -> None:
    """Measure one variant in this process, or all of them one after the other in processes of their own."""
    if sys.argv[1:]:
        print(json.dumps(measure(sys.argv[1], sys.argv[2])))
        return
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    rows = []
    for name in WORKLOADS:
        for variant in VARIANTS:
            done = subprocess.run([sys.executable, __file__, name, variant], capture_output=True, text=True, check=False)
            failed = {"workload": name, "variant": variant, "failed": done.stderr[-400:]}
            rows.append(json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else failed)
            print(rows[-1], file=sys.stderr)
    machine = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    head = {
        "date": time.strftime("%Y-%m-%d"),
        "gpu": machine,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "command": "python benchmarks/workflows.py",
    }
    print(json.dumps({**head, "results": rows}, indent=1))


if __name__ == "__main__":
    main()
