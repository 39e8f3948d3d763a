"""Decode with a small transformer: one sequence, a token a step, KV cache, top-k sampling with temperature.

`plain` is one graph of the step over torch.compile: products wait for the small kernels between them, attention has one block a
head and reads the whole cache, and top-k is a sort. `after` uses, of references/after-capture.md:

- "Hand-fused kernels: when they pay, and Triton in a capture": five a layer. The norm is in the product after it, rotation and
  the write to the cache in the first product, the residual in the product before it; several programs share the positions of a
  head that are seen so far, and the last of them adds up.
- "Sampling and bookkeeping on the device: the host looks every N steps": one kernel cuts to the top, draws, looks up the next
  input and counts the position.
- "Branches inside one graph: fork and join": the random numbers, by the call that eager makes, are drawn beside the layers.

Numbers are rounded to bfloat16 where eager rounds them; only sums are added in another order.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import decode_kernels as kernels
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from workflows import captured

if TYPE_CHECKING:
    from collections.abc import Callable

DEVICE, DTYPE, SEED, STEPS = "cuda", "bfloat16", 0, 256  # STEPS are compared
BATCH, WIDTH, HEADS, HEAD, HIDDEN, LAYERS, VOCABULARY = 1, 2048, 16, 128, 4096, 3, 16384
PROMPT, LENGTH = 256, 768  # the cache begins with a prompt; when it is full, decoding starts again behind the prompt
TOP, TEMPERATURE, EPS = 50, 0.8, 1e-5
SPLITS, BLOCK = 16, 64  # of the positions of a sequence: programs that share them, positions that one reads at once
# Rows (or pairs of rows) of a program, and its warps
TILES = {"qkv": (2, 4), "out": (4, 4), "gated": (2, 4), "down": (2, 4), "head": (4, 4)}


# Eager: what one would write ------------------------------------------------------------------------------------------


class Layer(nn.Module):
    """Attention with rotary positions and a cache, then a gated feed-forward part."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH, EPS), nn.RMSNorm(WIDTH, EPS)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate, self.up = nn.Linear(WIDTH, HIDDEN, bias=False), nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)
        self.register_buffer("keys", torch.randn(BATCH, HEADS, LENGTH, HEAD))  # those of the prompt are random here
        self.register_buffer("values", torch.randn(BATCH, HEADS, LENGTH, HEAD))

    def forward(self, x: Tensor, position: Tensor, turn: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm1(x)).view(BATCH, 3, HEADS, 1, HEAD).unbind(1)
        self.keys.index_copy_(2, position, rotated(k, turn))
        self.values.index_copy_(2, position, v)
        seen = (torch.arange(LENGTH, device=x.device) <= position)[None]
        mixed = F.scaled_dot_product_attention(rotated(q, turn), self.keys, self.values, attn_mask=seen)
        x = x + self.out(mixed.reshape(BATCH, WIDTH))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def rotated(x: Tensor, turn: Tensor) -> Tensor:
    """Rotate pairs of neighbours by the angles of this position."""
    a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = turn.unbind(-1)
    return torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2).to(x.dtype)


def sampled(logits: Tensor, noise: Tensor) -> Tensor:
    """Draw one of the TOP likeliest tokens: the one whose exponential clock rings first."""
    scores = logits.float() / TEMPERATURE
    least = scores.topk(TOP).values[:, -1:]
    return (scores.masked_fill(scores < least, -math.inf).softmax(-1) / noise).argmax(-1)


class Decoder(nn.Module):
    """The model and what decoding changes; a call makes one step with `run`, which is `step` or replays a graph."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(SEED)
        with torch.device(DEVICE):
            self.embedding = nn.Embedding(VOCABULARY, WIDTH)
            self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
            self.norm, self.head = nn.RMSNorm(WIDTH, EPS), nn.Linear(WIDTH, VOCABULARY, bias=False)
            self.tokens, self.position = torch.arange(BATCH), torch.tensor([PROMPT])
            self.logits = torch.zeros(BATCH, VOCABULARY, dtype=torch.bfloat16)
            angles = torch.arange(LENGTH)[:, None] * 10000.0 ** (-torch.arange(0, HEAD, 2) / HEAD)
        self.turns = torch.stack([angles.cos(), angles.sin()], -1)
        self.bfloat16().requires_grad_(requires_grad=False)
        self.x = self.embedding(self.tokens)  # the next input: only `after` looks it up ahead
        self.ahead: Callable[..., tuple[Tensor, ...]] = self.next
        self.run: Callable[[], object] = self.step

    def next(self, tokens: Tensor, position: Tensor, noise: Tensor) -> tuple[Tensor, ...]:
        """Return the next tokens, the next position and the logits."""
        x, turn = self.embedding(tokens), self.turns[position]
        for layer in self.layers:
            x = layer(x, position, turn)
        logits = self.head(self.norm(x))
        return sampled(logits, noise), torch.where(position + 1 < LENGTH, position + 1, PROMPT), logits

    def step(self) -> Tensor:
        """Make one step; all that the next one needs stays on the GPU."""
        noise = torch.empty(BATCH, VOCABULARY, device=DEVICE).exponential_()
        for kept, new in zip(
            (self.tokens, self.position, self.logits), self.ahead(self.tokens, self.position, noise), strict=True
        ):
            kept.copy_(new)
        return self.tokens

    def forward(self) -> Tensor:
        self.run()
        return self.tokens

    def start(self, tokens: Tensor | None = None) -> Decoder:
        """Go back to the first step and its random numbers; or only put these tokens in place of the drawn ones."""
        self.tokens.copy_(torch.arange(BATCH) if tokens is None else tokens)
        self.x.copy_(self.embedding(self.tokens))
        if tokens is None:
            self.position.fill_(PROMPT)
            torch.manual_seed(SEED)
        return self


def eager() -> Callable[[], object]:
    """Return the eager step."""
    return Decoder().start()


def plain(compiled: bool = True) -> Callable[[], object]:
    """Return a replay of the step, captured by hand over torch.compile."""
    program = Decoder()
    if compiled:
        program.ahead = torch.compile(program.next)
    program.run = captured(program.step)
    return program.start()


# After: five kernels a layer, one for the logits, one for the rest ------------------------------------------------------


class Fused:
    """The step in few kernels, on the tensors of a program."""

    def __init__(self, program: Decoder) -> None:
        self.program, self.side = program, torch.cuda.Stream()
        self.query, self.mixed = torch.empty(2, WIDTH, device=DEVICE, dtype=torch.bfloat16)
        self.hidden = self.query.new_empty(HIDDEN)
        self.noise, self.sums = torch.empty(VOCABULARY, device=DEVICE), torch.empty(HEADS, SPLITS, 2, device=DEVICE)
        self.parts = torch.empty(HEADS, SPLITS, HEAD, device=DEVICE)
        self.arrived = torch.zeros(HEADS, device=DEVICE, dtype=torch.int32)

    def step(self) -> Tensor:
        """Make one step; the random numbers need nothing of it, so they are drawn on a stream beside it."""
        program, x, (rows, warps) = self.program, self.program.x, TILES["head"]
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            self.noise.exponential_()
        for layer in program.layers:
            self.layer(layer, x)
        given = (x, program.norm.weight, program.head.weight, program.logits)
        kernels.head_kernel[(VOCABULARY // rows,)](*given, WIDTH, EPS, rows, num_warps=warps)
        torch.cuda.current_stream().wait_stream(self.side)
        state = (program.logits, self.noise, program.embedding.weight, program.tokens, x, program.position)
        kernels.sample_kernel[(1,)](*state, WIDTH, VOCABULARY, TOP, TEMPERATURE, PROMPT, LENGTH, num_warps=32)
        return program.tokens

    def layer(self, layer: Any, x: Tensor) -> None:
        """Launch the five kernels of a layer."""
        place, cache = self.program.position, (layer.keys, layer.values)
        rows, warps = TILES["qkv"]
        given: tuple[Any, ...] = (x, layer.norm1.weight, layer.qkv.weight, self.program.turns, place, self.query, *cache)
        kernels.qkv_kernel[(3 * WIDTH // 2 // rows,)](*given, WIDTH, HEAD, LENGTH, EPS, rows, num_warps=warps)
        given = (self.query, *cache, place, self.parts, self.sums, self.arrived, self.mixed)
        kernels.attention_kernel[(HEADS, SPLITS)](*given, HEAD, LENGTH, SPLITS, BLOCK, num_warps=4)
        rows, warps = TILES["out"]
        kernels.residual_kernel[(WIDTH // rows,)](x, self.mixed, layer.out.weight, WIDTH, rows, num_warps=warps)
        rows, warps = TILES["gated"]
        given = (x, layer.norm2.weight, layer.gate.weight, layer.up.weight, self.hidden)
        kernels.gated_kernel[(HIDDEN // rows,)](*given, WIDTH, EPS, rows, num_warps=warps)
        rows, warps = TILES["down"]
        kernels.residual_kernel[(WIDTH // rows,)](x, self.hidden, layer.down.weight, HIDDEN, rows, num_warps=warps)


def after() -> Callable[[], object]:
    """Return a replay of the kernels."""
    program = Decoder()
    program.run = captured(Fused(program).step)
    return program.start()


# How they agree, and what must be moved and computed --------------------------------------------------------------------


def forced(program: Any, history: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Return tokens and logits of steps that are all given the tokens of `history`, or their own if there is none."""
    tokens, logits = [], []
    program.start()
    for number in range(STEPS):
        if history and number:
            program.start(history[number - 1])
        tokens.append(program().clone())
        logits.append(program.logits.float())
    return tokens, logits


def by_rounding(tokens: tuple[Tensor, Tensor], logits: tuple[Tensor, Tensor], noise: Tensor) -> bool:
    """Return whether two tokens are so close, in the race or at the cut, that what moved the logits decides between them."""
    moved = 2 * (logits[0] - logits[1]).abs().max() / TEMPERATURE
    scores = logits[0][0] / TEMPERATURE
    race, least = scores - noise[0].log(), scores.topk(TOP).values[-1]
    mine, other = (int(token) for token in tokens)
    close = (race[mine] - race[other], scores[mine] - least, scores[other] - least)
    return bool(torch.stack(close).abs().min() <= moved)


def compared() -> dict[str, float | bool | str]:
    """Compare 256 steps: after the same tokens, with the same random numbers, each way draws the next one."""
    program: Any = eager()
    tokens, logits = forced(program, [])
    torch.manual_seed(SEED)
    noises = [torch.empty(BATCH, VOCABULARY, device=DEVICE).exponential_() for _ in range(STEPS)]
    for weight in program.parameters():
        moved = torch.randint(-1, 2, weight.shape, device=DEVICE, dtype=torch.int16) * (weight != 0)
        weight.view(torch.int16).add_(moved)  # by one unit in the last place, up, down or not
    found: dict[str, float | bool | str] = {"tokens": STEPS}
    off, rounding = {}, True
    for name, way in (("1 ulp", lambda: program), ("plain", plain), ("after", after)):
        drawn, scores = forced(way(), tokens)
        differ = [number for number in range(STEPS) if not torch.equal(drawn[number], tokens[number])]
        pairs = [((tokens[n], drawn[n]), (logits[n], scores[n]), noises[n]) for n in differ]
        rounding = all(by_rounding(*pair) for pair in pairs)
        off[name] = max(float((a - b).norm() / b.norm()) for a, b in zip(scores, logits, strict=True))
        found |= {f"same tokens, {name}": STEPS - len(differ), f"logits off, {name}": off[name]}
    found["the tokens of after differ only where rounding decides"] = rounding
    return found | {"after no further off than 1 ulp": off["after"] <= off["1 ulp"]}


def floor() -> tuple[float, float]:
    """Return bytes that must move and operations that must be done in a step of all sequences."""
    program, seen = Decoder(), (PROMPT + LENGTH + 1) / 2  # positions, the mean of a run
    weights = sum(weight.numel() for name, weight in program.named_parameters() if "embedding" not in name)  # all are read once
    cache = sum(2 * BATCH * WIDTH * seen for _ in program.layers)  # keys and values that are seen are read once
    return 2 * (weights + cache), 2 * BATCH * weights + 2 * cache  # two bytes each; a product and a sum for each sequence
