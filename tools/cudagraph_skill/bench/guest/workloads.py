"""The workloads: models, batches on the GPU, and how a step uses them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

BATCHES = 10


@dataclass
class Work:
    """A model and its batches, each the inputs of the model and a target; without an optimizer a step is inference.

    `part` is the sub-module that gets graphs of its own in one of the ways.
    """

    model: nn.Module
    part: nn.Module
    batches: list[tuple[tuple[Tensor, ...], Tensor]]
    loss: Callable[[Tensor, Tensor], Tensor]
    optimizer: torch.optim.Optimizer | None = None
    autocast: bool = False
    clip: float = 0.0


def mlp(device: str) -> Work:
    """Make the blog's training: three blocks with dropout and a linear layer, batch 640, mean squared error, SGD."""
    sizes, drops = (4096, 2048, 1024, 512), (0.2, 0.1, 0.1)
    blocks = [
        nn.Sequential(nn.Linear(sizes[number], sizes[number + 1]), nn.ReLU(), nn.Dropout(drop))
        for number, drop in enumerate(drops)
    ]
    model = nn.Sequential(*blocks, nn.Linear(512, 256)).to(device)
    batches = [((torch.randn(640, 4096, device=device),), torch.randn(640, 256, device=device)) for _ in range(BATCHES)]
    return Work(model, blocks[1], batches, functional.mse_loss, torch.optim.SGD(model.parameters(), lr=0.1))


def mlp_tf32(device: str) -> Work:
    """Make the same with matrix products in TF32."""
    torch.set_float32_matmul_precision("high")
    return mlp(device)


class Block(nn.Module):
    """A pre-norm transformer block; with `cache` it takes one token at a position and attends to all up to it."""

    def __init__(self, width: int, heads: int, cache: int = 0) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        if cache:
            self.register_buffer("keys", torch.zeros(1, heads, cache, self.size))
            self.register_buffer("values", torch.zeros(1, heads, cache, self.size))

    def forward(self, x: Tensor, position: Tensor | None = None) -> Tensor:
        """Attend, then apply two linear layers, each added to its input."""
        split = self.project(self.before(x)).unflatten(-1, (3, self.heads, self.size)).permute(2, 0, 3, 1, 4)
        query, key, value = split.unbind(0)
        mixed = self._cached(query, key, value, position) if position is not None else self._causal(query, key, value)
        x = x + self.mix(mixed.transpose(1, 2).flatten(2))
        return x + self.narrow(functional.gelu(self.widen(self.after(x))))

    def _causal(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(query, key, value, is_causal=True)

    def _cached(self, query: Tensor, key: Tensor, value: Tensor, position: Tensor) -> Tensor:
        keys, values = self.keys.index_copy_(2, position, key), self.values.index_copy_(2, position, value)
        seen = torch.arange(keys.shape[2], device=keys.device)[None] <= position
        return functional.scaled_dot_product_attention(query, keys, values, attn_mask=seen)


class Language(nn.Module):
    """Token and position embeddings, blocks, and a linear layer."""

    def __init__(self, depth: int, width: int, heads: int, length: int, cache: int = 0) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(8192, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, cache) for _ in range(depth))
        self.head = nn.Linear(width, 8192)
        self.register_buffer("order", torch.arange(length))

    def forward(self, tokens: Tensor, position: Tensor | None = None) -> Tensor:
        """Return the scores of the next token."""
        x = self.embed(tokens) + self.place(self.order[: tokens.shape[1]] if position is None else position)
        for block in self.blocks:
            x = block(x) if position is None else block(x, position)
        return self.head(x)


def transformer(device: str) -> Work:
    """Make the training of a small language model: 6 layers, 4 sequences of 128, bf16 autocast, clipping, AdamW."""
    model = Language(6, 512, 8, 128).to(device)
    tokens = [torch.randint(8192, (4, 129), device=device) for _ in range(BATCHES)]
    batches = [((both[:, :-1].contiguous(),), both[:, 1:].contiguous()) for both in tokens]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=device == "cuda")

    def loss(scores: Tensor, target: Tensor) -> Tensor:
        return functional.cross_entropy(scores.flatten(0, 1).float(), target.flatten())

    return Work(model, model.blocks[0], batches, loss, optimizer, autocast=True, clip=1.0)


def decode(device: str) -> Work:
    """Make the decoding of one token: 12 layers in bf16, a static KV cache of 1024, no gradients."""
    model = Language(12, 768, 12, 1024, cache=1024).to(device, torch.bfloat16).eval()
    batches = [
        (
            (torch.randint(8192, (1, 1), device=device), torch.tensor([700 + number], device=device)),
            torch.zeros((), device=device),
        )
        for number in range(BATCHES)
    ]
    return Work(model, model.blocks[0], batches, lambda scores, _: scores.float().logsumexp(-1).mean())


class Residual(nn.Module):
    """Two convolutions with batch norm, added to their input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*_convolution(width, width), *_convolution(width, width)[:2])

    def forward(self, x: Tensor) -> Tensor:
        """Add what the convolutions compute."""
        return functional.relu(x + self.body(x))


def _convolution(given: int, made: int, stride: int = 1) -> list[nn.Module]:
    return [nn.Conv2d(given, made, 3, stride, 1, bias=False), nn.BatchNorm2d(made), nn.ReLU()]


def convolutions(device: str) -> Work:
    """Make the training of a residual network: batch 32 of 64 x 64, bf16 autocast, channels last, SGD with momentum."""
    stages = [
        nn.Sequential(*_convolution(given, made, 2), Residual(made), Residual(made))
        for given, made in ((3, 64), (64, 128), (128, 256))
    ]
    model: Any = nn.Sequential(*stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 100)).to(device)
    model = model.to(memory_format=torch.channels_last)
    batches = [
        (
            (torch.randn(32, 3, 64, 64, device=device).contiguous(memory_format=torch.channels_last),),
            torch.randint(100, (32,), device=device),
        )
        for _ in range(BATCHES)
    ]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def loss(scores: Tensor, target: Tensor) -> Tensor:
        return functional.cross_entropy(scores.float(), target)

    return Work(model, stages[1], batches, loss, optimizer, autocast=True)


WORKLOADS: dict[str, Callable[[str], Work]] = {
    "mlp": mlp,
    "mlp-tf32": mlp_tf32,
    "transformer": transformer,
    "decode": decode,
    "convolutions": convolutions,
}
