"""A transformer encoder in half precision over batches of 32 sequences of 16 to 512 tokens: inference, true tokens returned.

`plain` pads each batch to a bucket of the longest sequence, with a graph for each bucket, over the compiled model. It leaves no
gap, but three of four rows that it multiplies are padding. `after` uses, of references/after-capture.md:

- "Packing instead of padding: `varlen_attn` in a graph": tokens of all sequences one after another; where a sequence lies is
  data in device memory, so one graph holds for all batches whose tokens fill the same bucket of their total. Tokens, positions
  and tiles are parts of one static tensor, which one copy fills.
- "Hand-fused kernels: when they pay, and Triton in a capture": attention over a list of tiles. `varlen_attn` starts blocks for
  the longest sequence in each of them; the list has as many tiles as a batch of this total can need, and an unused one ends at
  once. Products do what stands beside them: `addmm_` with beta 1 adds the residual (biases are constant, so norms add the sum
  of all before them), `_addmm_activation` applies GELU in the tanh form.

A row is multiplied in other tiles, and less is rounded to half between kernels: equal but for rounding.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Callable

LAYERS, WIDTH, HEADS, VOCABULARY = 6, 1024, 16, 8192
SEQUENCES, SHORTEST, LONGEST, TYPICAL, SPREAD = 32, 16, 512, 64, 0.9  # lengths of a log-normal distribution, cut at both ends
BUCKET, TOTAL, TILE = 128, 256, 64  # lengths are padded, and totals of tokens filled up, to a multiple; rows of attention
_BATCHES, _COMPARED = 16, 64
DTYPE = "float16"  # of products, for the floor


# The program as a user has it -----------------------------------------------------------------------------------------


class Layer(nn.Module):
    """A pre-norm layer: attention of the true tokens to one another, GELU."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Encoder(nn.Module):
    """Embeddings of tokens and positions, the layers, and a last norm."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, tokens: Tensor, true: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x, true[:, None, None, :])
        return self.norm(x)


def _model() -> Encoder:
    torch.manual_seed(0)
    return Encoder().cuda().half().eval().requires_grad_(False)


class Batch(NamedTuple):
    """A batch on the device, as the loader of a program makes it: padded to a length, and where its true tokens lie."""

    tokens: Tensor
    true: Tensor
    index: Tensor


def _sequences() -> list[list[Tensor]]:
    """Make the sequences of the batches on the host."""
    made = torch.Generator().manual_seed(1)
    lengths = (torch.randn(_BATCHES, SEQUENCES, generator=made) * SPREAD).exp() * TYPICAL
    kept = lengths.clamp(SHORTEST, LONGEST).long().tolist()
    return [[torch.randint(VOCABULARY, (length,), generator=made) for length in row] for row in kept]


def _padded(sequences: list[Tensor], multiple: int) -> Batch:
    longest = -(-max(map(len, sequences)) // multiple) * multiple
    tokens = torch.zeros(SEQUENCES, longest, dtype=torch.long)
    true = torch.zeros(SEQUENCES, longest, dtype=torch.bool)
    for row, sequence in enumerate(sequences):
        tokens[row, : len(sequence)], true[row, : len(sequence)] = sequence, True
    return Batch(tokens.cuda(), true.cuda(), true.flatten().nonzero().squeeze(1).cuda())


def eager() -> Callable[[], Tensor]:
    """Encode each batch padded to its longest sequence, without a graph."""
    return _eager(_model())


def _eager(model: nn.Module) -> Callable[[], Tensor]:
    batches = itertools.cycle([_padded(sequences, 1) for sequences in _sequences()])

    def step() -> Tensor:
        batch = next(batches)
        with torch.no_grad():
            return model(batch.tokens, batch.true).flatten(0, 1)[batch.index]

    return step


class Graph(NamedTuple):
    """A captured call: the tensors that it reads, and the one that it writes."""

    graph: torch.cuda.CUDAGraph
    inputs: tuple[Tensor, ...]
    out: Tensor
    call: object  # holds the weights: the graph knows their addresses only


def _captured(call: Callable[..., Tensor], inputs: tuple[Tensor, ...], pool: Any) -> Graph:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.no_grad():
        for _ in range(3):
            call(*inputs)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool), torch.no_grad():
        out = call(*inputs)
    return Graph(graph, inputs, out, call)


def plain() -> Callable[[], Tensor]:
    """Make a graph for each bucket of the longest sequence, over the compiled model (over the model itself it is slower)."""
    return _plain(torch.compile(_model(), dynamic=False))


def _plain(model: Callable[..., Tensor]) -> Callable[[], Tensor]:
    batches = [_padded(sequences, BUCKET) for sequences in _sequences()]
    pool, graphs = torch.cuda.graph_pool_handle(), {}
    for batch in sorted(batches, key=lambda batch: -batch.tokens.shape[1]):
        if batch.tokens.shape[1] not in graphs:
            graphs[batch.tokens.shape[1]] = _captured(model, (batch.tokens.clone(), batch.true.clone()), pool)

    turns = itertools.cycle(batches)

    def step() -> Tensor:
        batch = next(turns)
        found = graphs[batch.tokens.shape[1]]
        found.inputs[0].copy_(batch.tokens), found.inputs[1].copy_(batch.true)
        found.graph.replay()
        return found.out.flatten(0, 1)[batch.index]

    return step


# The program past the graph -------------------------------------------------------------------------------------------


@triton.jit
def _embed(x: tl.tensor, tokens: tl.tensor, places: tl.tensor, token: tl.tensor, place: tl.tensor, width: tl.constexpr) -> None:
    """Add the embeddings of a row's token and position."""
    row, cols = tl.program_id(0), tl.arange(0, width)
    first = tl.load(token + tl.load(tokens + row) * width + cols)
    tl.store(x + row * width + cols, first + tl.load(place + tl.load(places + row) * width + cols))


@triton.jit
def _norm(x: tl.tensor, shift: tl.tensor, weight: tl.tensor, bias: tl.tensor, out: tl.tensor, width: tl.constexpr) -> None:
    """Norm a row of the residual stream, to which the biases of all branches so far are still to be added."""
    row, cols = tl.program_id(0), tl.arange(0, width)
    value = tl.load(x + row * width + cols).to(tl.float32) + tl.load(shift + cols)
    value = value - tl.sum(value, 0) / width
    value = value * tl.rsqrt(tl.sum(value * value, 0) / width + 1e-5)
    tl.store(out + row * width + cols, (value * tl.load(weight + cols) + tl.load(bias + cols)).to(tl.float16))


@triton.jit
def _attention(
    qkv: tl.tensor, tiles: tl.tensor, out: tl.tensor,
    heads: tl.constexpr, size: tl.constexpr, tile: tl.constexpr, scale: tl.constexpr,
) -> None:  # fmt: skip
    """Attend from one tile of a sequence's rows to all of the sequence, in one head; a tile past the last has no rows."""
    head, at, width = tl.program_id(0), tiles + tl.program_id(1) * 3, heads * size
    start, stop, first = tl.load(at), tl.load(at + 1), tl.load(at + 2)
    cols, rows = head * size + tl.arange(0, size)[None, :], first + tl.arange(0, tile)[:, None]
    q = tl.load(qkv + rows * (3 * width) + cols, mask=rows < stop, other=0.0)
    top = tl.full([tile], float("-inf"), tl.float32)
    total, mixed = tl.zeros([tile], tl.float32), tl.zeros([tile, size], tl.float32)
    for begin in range(start, stop, tile):
        keys = begin + tl.arange(0, tile)
        place = qkv + keys[:, None] * (3 * width) + cols
        k = tl.load(place + width, mask=keys[:, None] < stop, other=0.0)
        v = tl.load(place + 2 * width, mask=keys[:, None] < stop, other=0.0)
        scores = tl.where(keys[None, :] < stop, tl.dot(q, tl.trans(k)) * scale, float("-inf"))
        higher = tl.maximum(top, tl.max(scores, 1))
        weights, kept = tl.exp(scores - higher[:, None]), tl.exp(top - higher)
        total, top = total * kept + tl.sum(weights, 1), higher
        mixed = mixed * kept[:, None] + tl.dot(weights.to(tl.float16), v)
    tl.store(out + rows * width + cols, (mixed / total[:, None]).to(tl.float16), mask=rows < stop)


class Packed:
    """The encoder over packed tokens; its input is tokens, positions, and the tiles of attention in one row of int32."""

    def __init__(self, model: Encoder) -> None:
        self.model = model
        branches = [torch.zeros(WIDTH, device="cuda"), *(b.bias for layer in model.layers for b in (layer.out, layer.down))]
        self.shifts = torch.stack(branches).cumsum(0, dtype=torch.float32)  # constant in inference

    def __call__(self, packed: Tensor) -> Tensor:
        total = _total(packed)
        tokens, places, tiles = packed.split([total, total, len(packed) - 2 * total])
        x, model = torch.empty(total, WIDTH, dtype=torch.float16, device="cuda"), self.model
        _embed[(total,)](x, tokens, places, model.tokens.weight, model.positions.weight, WIDTH)
        for number, layer in enumerate(model.layers):
            mixed = self.attention(layer.qkv(self.norm(2 * number, layer.norm1, x)), tiles)
            x.addmm_(mixed, layer.out.weight.t())  # beta is 1: the product itself adds to the residual stream
            normed = self.norm(2 * number + 1, layer.norm2, x)
            wide = torch._addmm_activation(layer.up.bias, normed, layer.up.weight.t(), use_gelu=True)
            x.addmm_(wide, layer.down.weight.t())
        return self.norm(2 * LAYERS, model.norm, x)

    def norm(self, number: int, norm: nn.LayerNorm, x: Tensor) -> Tensor:
        out = torch.empty_like(x)
        _norm[(len(x),)](x, self.shifts[number], norm.weight, norm.bias, out, WIDTH)
        return out

    def attention(self, qkv: Tensor, tiles: Tensor) -> Tensor:
        out, size = qkv.new_empty(len(qkv), WIDTH), WIDTH // HEADS
        _attention[(HEADS, len(tiles) // 3)](qkv, tiles, out, HEADS, size, TILE, size**-0.5, num_stages=2)
        return out


def _total(packed: Tensor) -> int:
    return (len(packed) - 3 * (SEQUENCES + 1)) * TILE // (2 * TILE + 3)


def _packed(sequences: list[Tensor]) -> tuple[Tensor, int]:
    """Pack sequences, filled up to the bucket by one sequence more, and count the true tokens."""
    true = sum(map(len, sequences))
    filled = [*sequences, torch.zeros(-true % TOTAL, dtype=torch.long)]
    places, tiles, stop = [torch.arange(len(sequence)) for sequence in filled], [], 0
    for sequence in filled:
        start, stop = stop, stop + len(sequence)
        tiles += [(start, stop, first) for first in range(start, stop, TILE)]
    tiles.sort(key=lambda tile: tile[0] - tile[1])  # longest first: none of them begins when the others end
    most = stop // TILE + len(filled)  # tiles of any batch with this total: the last of a sequence need not be full
    tiles += [(0, 0, 0)] * (most - len(tiles))
    return torch.cat([*filled, *places, torch.tensor(tiles).flatten()]).int().cuda(), true


def after() -> Callable[[], Tensor]:
    """Make a graph for each bucket of the total of tokens."""
    call, batches = Packed(_model()), [_packed(sequences) for sequences in _sequences()]
    pool, graphs = torch.cuda.graph_pool_handle(), {}
    for packed, _ in sorted(batches, key=lambda batch: -len(batch[0])):
        if len(packed) not in graphs:
            graphs[len(packed)] = _captured(call, (packed.clone(),), pool)

    turns = itertools.cycle(batches)

    def step() -> Tensor:
        packed, true = next(turns)
        found = graphs[len(packed)]
        found.inputs[0].copy_(packed)
        found.graph.replay()
        return found.out[:true]

    return step


# How they agree, and the floor ----------------------------------------------------------------------------------------


def _outputs(step: Callable[[], Tensor]) -> list[Tensor]:
    return [step().float() for _ in range(_COMPARED)]


def _apart(outputs: list[Tensor], reference: list[Tensor]) -> float:
    return max(float((out - other).norm() / other.norm()) for out, other in zip(outputs, reference, strict=True))


def _perturbed() -> Encoder:
    """Return the model with each weight one unit in the last place higher or lower."""
    model, made = _model(), torch.Generator("cuda").manual_seed(2)
    for parameter in model.parameters():
        sign = torch.randint(2, parameter.shape, device="cuda", generator=made) * 2 - 1
        parameter.mul_(1 + sign * torch.finfo(torch.float16).eps)
    return model


def compared() -> dict[str, float | bool | str]:
    """Compare the true tokens' outputs of 64 steps: the largest relative difference from eager, and what an ulp does."""
    reference, mine, graph = _outputs(eager()), _outputs(after()), _outputs(plain())
    single = _outputs(_eager(_model().float()))
    off = _apart(_outputs(_eager(_perturbed())), reference)
    return {
        "steps": _COMPARED,
        "plain from eager": _apart(graph, reference),
        "after from eager": _apart(mine, reference),
        "eager with weights 1 ulp of float16 off": off,
        "eager from float32": _apart(reference, single),
        "after from float32": _apart(mine, single),
        "after no further from eager than weights 1 ulp of float16 off": _apart(mine, reference) <= off,
    }


def floor() -> tuple[float, float]:
    """Return the bytes that a step must move and the FLOPs that it must do for true tokens, on average over the batches."""
    lengths = torch.tensor([[len(sequence) for sequence in sequences] for sequences in _sequences()]).double()
    total = float(lengths.sum() / _BATCHES)
    layers = sum(parameter.numel() for parameter in Layer().to("meta").parameters()) * LAYERS
    moved = 2 * layers  # weights, half: read once
    moved += 2 * total * WIDTH * (2 + LAYERS * 9 + 1)  # activations once: both embeddings, what products write, the output
    flops = 2 * total * 12 * WIDTH**2 * LAYERS  # a multiplication and an addition for each weight of a product and true token
    flops += 4 * float((lengths**2).sum() / _BATCHES) * WIDTH * LAYERS  # attention: two products
    return moved, flops
