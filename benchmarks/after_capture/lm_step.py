"""A training step of a small language model: float16 autocast, four microbatches, GradScaler, clipping, AdamW, a schedule.

`plain` is one graph of that step over a compiled forward. It leaves no gap, but casts every weight for every microbatch, adds
every weight's gradient to the sum of them, and reads all gradients three more times. `after` uses, of
references/after-capture.md:

- "One cast of the weights for several microbatches": they are merged into one batch, so that weights are read, and their
  gradients written, once a step; the optimizer's kernel writes the half copy that the next step multiplies.
- "Flat parameter and gradient buffers": one kernel for the norm, one for all of the update. Products write weight gradients
  there, float32 out of half operands; nothing is zeroed, cast or added.
- "Hand-fused kernels: when they pay, and Triton in a capture": residual and norm, SwiGLU, attention of a short sequence, cross
  entropy in half logits.

The mathematics is that of `eager`; rounding is not: a microbatch's weight gradient is rounded to half there, never here. The
gradients of the embedding's rows are added by atomics, in no fixed order.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

sys.path[:0] = [str(Path(__file__).resolve().parent)]

import lm_kernels as kernels  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

LAYERS, WIDTH, HEADS, HIDDEN, VOCABULARY = 4, 1024, 16, 3072, 8192
MICROBATCHES, SEQUENCES, LENGTH = 4, 1, 128  # sequences of a microbatch, tokens of a sequence
TOKENS, SIZE = MICROBATCHES * SEQUENCES * LENGTH, WIDTH // HEADS
CLIP, PEAK, WARM, STEPS, SCALE = 1.0, 3e-4, 20, 10_000, 4096.0
_BATCHES, _COMPARED, _PARTS, _BLOCK, _ROWS = 8, 60, 1024, 4096, 2
_HALF, _FLOAT = torch.float16, torch.float32
DTYPE = "float16"  # of products, for the floor


# The program as a user has it -----------------------------------------------------------------------------------------


class Block(nn.Module):
    """A pre-norm block: causal attention, SwiGLU; no biases, no positions."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH, eps=1e-5), nn.RMSNorm(WIDTH, eps=1e-5)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 2 * HIDDEN, bias=False), nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm1(x)).view(-1, LENGTH, 3, HEADS, SIZE).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(-1, LENGTH, WIDTH))
        opened, value = self.up(self.norm2(x)).chunk(2, -1)
        return x + self.down(F.silu(opened) * value)


class Model(nn.Module):
    """A decoder with tied embedding, from tokens to the mean loss."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(WIDTH, eps=1e-5)
        nn.init.normal_(self.embedding.weight, std=0.02)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.embedding.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def _model() -> Model:
    torch.manual_seed(0)
    return Model().cuda()


def _batches() -> list[Tensor]:
    """Make the batches on the device: tokens and targets of the microbatches."""
    made = torch.Generator("cuda").manual_seed(1)
    shape = (2, MICROBATCHES, SEQUENCES, LENGTH)
    return [torch.randint(VOCABULARY, shape, device="cuda", generator=made) for _ in range(_BATCHES)]


class Program:
    """A model, and all that trains it; a call makes one step of the batch in `batch`."""

    def __init__(self, model: Model, call: Callable[[Tensor, Tensor], Tensor], dtype: torch.dtype = _HALF) -> None:
        self.call, self.dtype, self.parameters = call, dtype, list(model.parameters())
        self.batch = _batches()[0].clone()
        self.calls, self.rate = torch.zeros((), device="cuda"), torch.zeros((), device="cuda")
        self.optimizer = torch.optim.AdamW(self.parameters, lr=self.rate, fused=True, capturable=True)
        self.scaler = torch.amp.GradScaler("cuda", init_scale=SCALE)

    def __call__(self) -> Tensor:
        total = torch.zeros((), device="cuda")
        self.optimizer.zero_grad(set_to_none=True)
        for tokens, targets in zip(*self.batch, strict=True):
            with torch.autocast("cuda", _HALF, enabled=self.dtype is _HALF, cache_enabled=False):
                loss = self.call(tokens, targets) / MICROBATCHES
            self.scaler.scale(loss).backward()
            total += loss.detach()
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.parameters, CLIP)
        self.calls += 1
        self.rate.copy_(PEAK * torch.minimum(self.calls / WARM, (STEPS - self.calls) / (STEPS - WARM)))
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return total

    def restart(self, weights: list[Tensor]) -> None:
        """Undo in place what warm-up steps did."""
        with torch.no_grad():
            torch._foreach_copy_(self.parameters, weights)
        torch._foreach_zero_([tensor for state in self.optimizer.state.values() for tensor in state.values()])
        self.calls.zero_()
        self.scaler.load_state_dict(self.scaler.state_dict() | {"scale": SCALE, "_growth_tracker": 0})


def _fed(batch: Tensor, step: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """Return a function that makes a step of the next batch of the list."""
    batches = itertools.cycle(_batches())

    def fed() -> Tensor:
        batch.copy_(next(batches))
        return step()

    return fed


def _captured(step: Callable[[], Tensor], restart: Callable[[], None]) -> Callable[[], Tensor]:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    restart()

    def replay(_kept: object = step) -> Tensor:  # the graph knows addresses only: what it reads must live as long as it
        graph.replay()
        return loss

    return replay


def eager() -> Callable[[], Tensor]:
    """Make the step without a graph."""
    return _eager(_HALF)


def _eager(dtype: torch.dtype, ulp: float = 0.0) -> Callable[[], Tensor]:
    """Make the step, multiplying in `dtype`, from weights of which each is `ulp` of itself higher or lower."""
    model, made = _model(), torch.Generator("cuda").manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters() if ulp else ():
            sign = torch.randint(2, parameter.shape, device="cuda", generator=made) * 2 - 1
            parameter.mul_(1 + sign * ulp)
    program = Program(model, model, dtype)
    return _fed(program.batch, program)


def plain() -> Callable[[], Tensor]:
    """Make the step as one graph over the compiled model (over the model itself it is slower)."""
    program = Program(model := _model(), torch.compile(model))
    weights = [parameter.detach().clone() for parameter in program.parameters]
    return _fed(program.batch, _captured(program, lambda: program.restart(weights)))


# The program past the graph -------------------------------------------------------------------------------------------


class Flat(NamedTuple):
    """A buffer for all parameters, and its parts: norms (one matrix), the embedding, then four matrices a layer."""

    whole: Tensor
    norms: Tensor
    embedding: Tensor
    layers: list[list[Tensor]]


def _flat(model: Model, dtype: torch.dtype, fill: bool) -> Flat:
    """Make a buffer like the parameters, with their values or with zeros."""
    norms = [norm.weight for block in model.blocks for norm in (block.norm1, block.norm2)] + [model.norm.weight]
    matrices = [m.weight for b in model.blocks for m in (b.qkv, b.out, b.up, b.down)]
    ordered = [torch.stack(norms).detach(), model.embedding.weight.detach(), *(m.detach() for m in matrices)]
    count = sum(tensor.numel() for tensor in ordered)
    whole = torch.zeros(-(-count // _BLOCK) * _BLOCK, dtype=dtype, device="cuda")
    if fill:
        whole[:count].copy_(torch.cat([tensor.flatten() for tensor in ordered]))
    parts = [part.view_as(t) for part, t in zip(whole[:count].split([t.numel() for t in ordered]), ordered, strict=True)]
    return Flat(whole, parts[0], parts[1], [parts[at : at + 4] for at in range(2, len(parts), 4)])


class Step:
    """The step by hand: every product is one call of cuBLAS, and all between two products is one kernel."""

    def __init__(self, model: Model) -> None:
        self.weights, self.half = _flat(model, _FLOAT, True), _flat(model, _HALF, True)
        self.grads, self.first, self.second = (_flat(model, _FLOAT, False) for _ in range(3))
        self.batch = _batches()[0].clone()
        self.state = torch.tensor([SCALE, 0, 1, 1, 0], dtype=torch.float64, device="cuda")
        self.numbers, self.sums = torch.zeros(len(kernels.NUMBERS), device="cuda"), torch.zeros(_PARTS, device="cuda")
        self.losses = torch.zeros(TOKENS, device="cuda")
        self.parts = torch.zeros(2 * LAYERS + 1, TOKENS // _ROWS, WIDTH, device="cuda")

    def __call__(self) -> Tensor:
        tokens, targets = self.batch.flatten(1)
        self.backward(tokens, targets, *self.forward(tokens))
        self.update()
        return self.numbers[0]

    def forward(self, tokens: Tensor) -> tuple[list[Any], Normed]:
        """Return what the backward pass reads of each layer, and the last norm."""
        x, delta, kept = self.weights.embedding, tokens, []
        for number, (qkv, out, up, down) in enumerate(self.half.layers):
            norm1 = self.norm(2 * number, x, tokens, delta)
            projected = norm1.out @ qkv.t()
            mixed = kernels.mixed(projected, LENGTH, SIZE)
            norm2 = self.norm(2 * number + 1, norm1.stream, tokens, mixed @ out.t())
            wide = norm2.out @ up.t()
            hidden = kernels.gated(wide)
            x, delta = norm2.stream, hidden @ down.t()
            kept.append((norm1, projected, mixed, norm2, wide, hidden))
        return kept, self.norm(2 * LAYERS, x, tokens, delta)

    def norm(self, number: int, x: Tensor, tokens: Tensor, delta: Tensor) -> Normed:
        stream = torch.empty(TOKENS, WIDTH, device="cuda")
        out, root = torch.empty_like(stream, dtype=_HALF), stream.new_empty(TOKENS)
        kernels.norm[(TOKENS,)](x, tokens, delta, self.weights.norms[number], stream, out, root, WIDTH, number == 0)
        return Normed(stream, out, root)

    def backward(self, tokens: Tensor, targets: Tensor, kept: list[Any], last: Normed) -> None:
        """Fill the flat gradients."""
        logits = last.out @ self.half.embedding.t()
        kernels.cross_entropy[(TOKENS,)](logits, targets, self.losses, self.state, TOKENS, VOCABULARY, num_warps=8)
        weight_gradient(logits, last.out, self.grads.embedding)
        stream = torch.empty_like(last.stream)
        delta = self.norm_backward(2 * LAYERS, logits @ self.half.embedding, last, stream, tokens)
        for number in reversed(range(LAYERS)):
            qkv, out, up, down = self.half.layers[number]
            norm1, projected, mixed, norm2, wide, hidden = kept[number]
            grads = self.grads.layers[number]
            weight_gradient(delta, hidden, grads[3])
            wide = kernels.gated_backward(delta @ down, wide)
            weight_gradient(wide, norm2.out, grads[2])
            delta = self.norm_backward(2 * number + 1, wide @ up, norm2, stream, tokens)
            weight_gradient(delta, mixed, grads[1])
            projected = kernels.mixed_backward(delta @ out, projected, LENGTH, SIZE)
            weight_gradient(projected, norm1.out, grads[0])
            delta = self.norm_backward(2 * number, projected @ qkv, norm1, stream, tokens)
        torch.sum(self.parts, 1, out=self.grads.norms)

    def norm_backward(self, number: int, grad: Tensor, norm: Normed, stream: Tensor, tokens: Tensor) -> Tensor:
        """Move the gradient of the residual stream past a norm, in place, and return its half copy."""
        half = torch.empty_like(grad)
        kernels.norm_backward[(TOKENS // _ROWS,)](
            grad, norm.stream, norm.root, self.weights.norms[number], stream, half, self.parts[number], tokens,
            self.grads.embedding, _ROWS, WIDTH, number == 2 * LAYERS, number == 0,
        )  # fmt: skip
        return half

    def update(self) -> None:
        """Norm of all gradients, schedule, scale, clipping and AdamW: three kernels."""
        count = self.grads.whole.numel()
        kernels.squares[(_PARTS,)](self.grads.whole, self.sums, count, _PARTS, _BLOCK)
        constants = (_PARTS, TOKENS, CLIP, PEAK, WARM, STEPS)
        kernels.prepare[(1,)](self.sums, self.losses, self.state, self.numbers, *constants)
        flat = [buffer.whole for buffer in (self.weights, self.half, self.grads, self.first, self.second)]
        kernels.adamw[(count // _BLOCK,)](*flat, self.numbers, _BLOCK, num_warps=8)

    def restart(self, model: Model) -> None:
        """Undo in place what warm-up steps did."""
        weights = _flat(model, _FLOAT, True).whole
        self.weights.whole.copy_(weights), self.half.whole.copy_(weights)
        self.first.whole.zero_(), self.second.whole.zero_()
        self.state.copy_(torch.tensor([SCALE, 0, 1, 1, 0]))


class Normed(NamedTuple):
    """A norm of the residual stream: the stream, what the next product reads, and one over the root of each row."""

    stream: Tensor
    out: Tensor
    root: Tensor


def weight_gradient(grad: Tensor, given: Tensor, out: Tensor) -> None:
    """Write the gradient of a weight, float32 of half operands, where it belongs in the flat buffer."""
    torch.mm(grad.t(), given, out_dtype=_FLOAT, out=out)


def after() -> Callable[[], Tensor]:
    """Make the step as one graph of few kernels."""
    step = Step(model := _model())
    with torch.no_grad():
        return _fed(step.batch, _captured(step, lambda: step.restart(model)))


# How they agree, and the floor ----------------------------------------------------------------------------------------


def _losses(step: Callable[[], Tensor]) -> Tensor:
    return torch.stack([step().clone() for _ in range(_COMPARED)]).double()


def _apart(losses: Tensor, reference: Tensor) -> float:
    return float(((losses - reference).abs() / reference).max())


def compared() -> dict[str, float | bool | str]:
    """Compare the losses of 60 steps: the largest relative difference from eager, and what a unit in the last place does."""
    reference, single, mine, graph = (_losses(step) for step in (eager(), _eager(_FLOAT), after(), plain()))
    off = _apart(_losses(_eager(_HALF, 2.0**-10)), reference)
    return {
        "steps": _COMPARED,
        "loss at the end": float(reference[-1]),
        "plain from eager": _apart(graph, reference),
        "after from eager": _apart(mine, reference),
        "eager with weights 1 ulp of float32 off": _apart(_losses(_eager(_HALF, 2.0**-23)), reference),
        "eager with weights 1 ulp of float16 off": off,
        "eager from float32": _apart(reference, single),
        "after from float32": _apart(mine, single),
        "after no further from eager than weights 1 ulp of float16 off": _apart(mine, reference) <= off,
    }


def floor() -> tuple[float, float]:
    """Return the bytes that a step must move and the FLOPs that it must do."""
    with torch.device("meta"):
        model = Model()
    count = sum(parameter.numel() for parameter in model.parameters())
    products = count - sum(p.numel() for p in model.parameters() if p.ndim == 1)
    moved = 24 * count  # weight and both moments, float32: read and written
    moved += 8 * count  # gradient, float32: written, and read when the norm of all is known
    moved += 6 * count  # half weight: written, read by the forward pass, and again by the backward pass
    layer = 2 * (2 * WIDTH + 3 * WIDTH + WIDTH + 3 * HIDDEN) + 4 * 2 * WIDTH  # of a token: inputs of products, the stream
    moved += TOKENS * (LAYERS * layer + 2 * VOCABULARY)  # activations once, though the cache may hold them
    flops = 6 * products * TOKENS  # a multiplication and an addition, forward and twice backward, for each weight and token
    flops += LAYERS * 6 * TOKENS * LENGTH * WIDTH  # attention: two products forward, four backward, half of each is masked
    return float(moved), float(flops)
