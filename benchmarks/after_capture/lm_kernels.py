"""Triton kernels of lm_step.py: each replaces what autograd, autocast, GradScaler or AdamW do in several kernels.

A program works on a row of a contiguous matrix, on a part of it, or on one head of one sequence; widths are powers of two, or
multiples of 1024 in `gate`. Sums are in float32.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

# Numbers of a step that the GPU alone changes: `state` (float64) and `numbers` (float32), which `prepare` makes from it.
STATE = ("scale", "good steps", "beta1 ** step", "beta2 ** step", "calls")
NUMBERS = ("loss", "factor of gradients", "size of a step", "decay", "root of the second correction", "finite")
EPSILON = tl.constexpr(1e-5)
BETA1, BETA2, TINY, WEIGHT_DECAY = tl.constexpr(0.9), tl.constexpr(0.999), tl.constexpr(1e-8), tl.constexpr(0.01)
GROWTH, BACKOFF, INTERVAL = tl.constexpr(2.0), tl.constexpr(0.5), tl.constexpr(2000)  # as in GradScaler


@triton.jit
def norm(
    x: tl.tensor,
    rows: tl.tensor,
    delta: tl.tensor,
    weight: tl.tensor,
    total: tl.tensor,
    out: tl.tensor,
    root: tl.tensor,
    width: tl.constexpr,
    first: tl.constexpr,
) -> None:
    """Add a branch to the residual stream, and norm the sum; at first, the stream is rows of the embedding."""
    row, cols = tl.program_id(0), tl.arange(0, width)
    at = row * width + cols
    if first:
        value = tl.load(x + tl.load(rows + row) * width + cols)
    else:
        value = tl.load(x + at) + tl.load(delta + at).to(tl.float32)
    inverse = tl.rsqrt(tl.sum(value * value, 0) / width + EPSILON)
    tl.store(total + at, value)
    tl.store(out + at, (value * inverse * tl.load(weight + cols)).to(tl.float16))
    tl.store(root + row, inverse)


@triton.jit
def norm_backward(
    grad: tl.tensor, x: tl.tensor, root: tl.tensor, weight: tl.tensor, stream: tl.tensor,
    half: tl.tensor, parts: tl.tensor, rows: tl.tensor, embedding: tl.tensor,
    each: tl.constexpr, width: tl.constexpr, last: tl.constexpr, first: tl.constexpr,
) -> None:  # fmt: skip
    """Add a norm's gradient to that of the residual stream, in place, with a half copy; at first, to the embedding's rows."""
    cols = tl.arange(0, width)
    scale = tl.load(weight + cols)
    part = tl.zeros([width], tl.float32)
    for number in range(each):
        row = tl.program_id(0) * each + number
        at = row * width + cols
        given, inverse = tl.load(grad + at).to(tl.float32), tl.load(root + row)
        normed = tl.load(x + at) * inverse
        part += given * normed
        given = given * scale
        result = inverse * (given - normed * (tl.sum(given * normed, 0) / width))
        if not last:
            result += tl.load(stream + at)
        if first:
            tl.atomic_add(embedding + tl.load(rows + row) * width + cols, result)
        else:
            tl.store(stream + at, result)
            tl.store(half + at, result.to(tl.float16))
    tl.store(parts + tl.program_id(0) * width + cols, part)


@triton.jit
def attention(
    qkv: tl.tensor, out: tl.tensor, heads: tl.constexpr, length: tl.constexpr, size: tl.constexpr, scale: tl.constexpr
) -> None:
    """Attend causally in one head of one sequence, short enough for one tile."""
    width: tl.constexpr = heads * size
    rows, cols = tl.arange(0, length), tl.arange(0, size)
    head, start = tl.program_id(0) % heads, tl.program_id(0) // heads * length
    at = (start + rows)[:, None] * (3 * width) + head * size + cols[None, :]
    q, k, v = tl.load(qkv + at), tl.load(qkv + at + width), tl.load(qkv + at + 2 * width)
    scores = tl.where(rows[:, None] >= rows[None, :], tl.dot(q, tl.trans(k)) * scale, float("-inf"))
    weights = tl.exp(scores - tl.max(scores, 1)[:, None])
    mixed = tl.dot(weights.to(tl.float16), v) / tl.sum(weights, 1)[:, None]
    tl.store(out + (start + rows)[:, None] * width + head * size + cols[None, :], mixed.to(tl.float16))


@triton.jit
def attention_backward(
    grad: tl.tensor,
    qkv: tl.tensor,
    out: tl.tensor,
    heads: tl.constexpr,
    length: tl.constexpr,
    size: tl.constexpr,
    scale: tl.constexpr,
) -> None:
    """Make the gradients of query, key and value, side by side as they are multiplied next; the weights are made again."""
    width: tl.constexpr = heads * size
    rows, cols = tl.arange(0, length), tl.arange(0, size)
    head, start = tl.program_id(0) % heads, tl.program_id(0) // heads * length
    at = (start + rows)[:, None] * (3 * width) + head * size + cols[None, :]
    q, k, v = tl.load(qkv + at), tl.load(qkv + at + width), tl.load(qkv + at + 2 * width)
    given = tl.load(grad + (start + rows)[:, None] * width + head * size + cols[None, :])
    scores = tl.where(rows[:, None] >= rows[None, :], tl.dot(q, tl.trans(k)) * scale, float("-inf"))
    weights = tl.exp(scores - tl.max(scores, 1)[:, None])
    weights = weights / tl.sum(weights, 1)[:, None]
    tl.store(out + at + 2 * width, tl.dot(tl.trans(weights.to(tl.float16)), given).to(tl.float16))
    moved = tl.dot(given, tl.trans(v))
    moved = (weights * (moved - tl.sum(weights * moved, 1)[:, None])).to(tl.float16)
    tl.store(out + at, (tl.dot(moved, k) * scale).to(tl.float16))
    tl.store(out + at + width, (tl.dot(tl.trans(moved), q) * scale).to(tl.float16))


@triton.jit
def gate(up: tl.tensor, out: tl.tensor, hidden: tl.constexpr, block: tl.constexpr) -> None:
    """Multiply the second half of a row by SiLU of the first."""
    row, cols = tl.program_id(0), tl.program_id(1) * block + tl.arange(0, block)
    opened = tl.load(up + row * 2 * hidden + cols).to(tl.float32)
    value = tl.load(up + row * 2 * hidden + hidden + cols).to(tl.float32)
    tl.store(out + row * hidden + cols, (opened * tl.sigmoid(opened) * value).to(tl.float16))


@triton.jit
def gate_backward(grad: tl.tensor, up: tl.tensor, out: tl.tensor, hidden: tl.constexpr, block: tl.constexpr) -> None:
    """Make the gradients of both halves of a row."""
    row, cols = tl.program_id(0), tl.program_id(1) * block + tl.arange(0, block)
    at = row * 2 * hidden + cols
    opened, value = tl.load(up + at).to(tl.float32), tl.load(up + at + hidden).to(tl.float32)
    given, sigmoid = tl.load(grad + row * hidden + cols).to(tl.float32), tl.sigmoid(opened)
    tl.store(out + at, (given * value * sigmoid * (1 + opened * (1 - sigmoid))).to(tl.float16))
    tl.store(out + at + hidden, (given * opened * sigmoid).to(tl.float16))


@triton.jit
def cross_entropy(
    logits: tl.tensor, targets: tl.tensor, losses: tl.tensor, state: tl.tensor, count: tl.constexpr, size: tl.constexpr
) -> None:
    """Write the loss of a row, and its scaled gradient in place of the half logits; float32 is in registers only."""
    row, cols = tl.program_id(0), tl.arange(0, size)
    value = tl.load(logits + row * size + cols).to(tl.float32)
    target = cols == tl.load(targets + row)
    value = value - tl.max(value, 0)
    total = tl.sum(tl.exp(value), 0)
    tl.store(losses + row, tl.log(total) - tl.sum(tl.where(target, value, 0.0), 0))
    share = tl.load(state).to(tl.float32) / count
    tl.store(logits + row * size + cols, ((tl.exp(value) / total - target.to(tl.float32)) * share).to(tl.float16))


@triton.jit
def squares(grads: tl.tensor, sums: tl.tensor, count: tl.constexpr, parts: tl.constexpr, block: tl.constexpr) -> None:
    """Sum the squares of one part of all gradients; infinite or no number where a gradient is."""
    total = tl.zeros([block], tl.float32)
    for start in range(tl.program_id(0) * block, count, parts * block):
        value = tl.load(grads + start + tl.arange(0, block))
        total += value * value
    tl.store(sums + tl.program_id(0), tl.sum(total, 0))


@triton.jit
def prepare(
    sums: tl.tensor, losses: tl.tensor, state: tl.tensor, numbers: tl.tensor,
    parts: tl.constexpr, rows: tl.constexpr, clip: tl.constexpr, peak: tl.constexpr, warm: tl.constexpr, steps: tl.constexpr,
) -> None:  # fmt: skip
    """Make the numbers of this step, and move the state on: as schedule, clipping, GradScaler and AdamW do in many kernels."""
    total = tl.sum(tl.load(sums + tl.arange(0, parts)), 0)
    finite = total < float("inf")
    scale, good, calls = tl.load(state), tl.load(state + 1), tl.load(state + 4) + 1
    length = tl.sqrt(total) / scale.to(tl.float32)
    one = tl.full([], 1.0, tl.float64)
    power1 = tl.load(state + 2) * tl.where(finite, tl.full([], BETA1, tl.float64), one)
    power2 = tl.load(state + 3) * tl.where(finite, tl.full([], BETA2, tl.float64), one)
    speed = (tl.minimum(calls / warm, (steps - calls) / (steps - warm)) * peak).to(tl.float32)
    tl.store(numbers, tl.sum(tl.load(losses + tl.arange(0, rows)), 0) / rows)
    tl.store(numbers + 1, tl.minimum(clip / (length + 1e-6), 1.0) / scale.to(tl.float32))
    tl.store(numbers + 2, (speed / (1.0 - power1)).to(tl.float32))
    tl.store(numbers + 3, 1.0 - speed * WEIGHT_DECAY)
    tl.store(numbers + 4, tl.sqrt(1.0 - power2).to(tl.float32))
    tl.store(numbers + 5, finite.to(tl.float32))
    grown = good + 1 == INTERVAL
    tl.store(state, tl.where(finite, tl.where(grown, scale * GROWTH, scale), scale * BACKOFF))
    tl.store(state + 1, tl.where(finite & (grown == 0), good + 1, 0.0))
    tl.store(state + 2, power1)
    tl.store(state + 3, power2)
    tl.store(state + 4, calls)


@triton.jit
def adamw(
    weights: tl.tensor,
    half: tl.tensor,
    grads: tl.tensor,
    first: tl.tensor,
    second: tl.tensor,
    numbers: tl.tensor,
    block: tl.constexpr,
) -> None:
    """Unscale, clip, update, and cast the weights for the next step, in one pass over flat buffers; skip if not finite."""
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    if tl.load(numbers + 5) > 0:
        grad = tl.load(grads + at) * tl.load(numbers + 1)
        mean = tl.load(first + at)
        mean += (grad - mean) * (1 - BETA1)
        square = tl.load(second + at) * BETA2 + grad * grad * (1 - BETA2)
        weight = tl.load(weights + at) * tl.load(numbers + 3)
        weight -= tl.load(numbers + 2) * mean / (tl.sqrt(square) / tl.load(numbers + 4) + TINY)
        tl.store(first + at, mean)
        tl.store(second + at, square)
        tl.store(weights + at, weight)
        tl.store(half + at, weight.to(tl.float16))


# Calls ----------------------------------------------------------------------------------------------------------------


def mixed(qkv: Tensor, length: int, size: int) -> Tensor:
    """Return the attention of sequences of one length, from a matrix of query, key and value."""
    out = qkv.new_empty(len(qkv), qkv.shape[1] // 3)
    heads = out.shape[1] // size
    attention[(len(qkv) // length * heads,)](qkv, out, heads, length, size, size**-0.5, num_warps=8)
    return out


def mixed_backward(grad: Tensor, qkv: Tensor, length: int, size: int) -> Tensor:
    """Return the gradient of the matrix of query, key and value."""
    out, heads = torch.empty_like(qkv), grad.shape[1] // size
    attention_backward[(len(qkv) // length * heads,)](grad, qkv, out, heads, length, size, size**-0.5, num_warps=8)
    return out


def gated(up: Tensor) -> Tensor:
    """Return the second half of each row, times SiLU of the first."""
    out = up.new_empty(len(up), up.shape[1] // 2)
    gate[(len(up), out.shape[1] // 1024)](up, out, out.shape[1], 1024)
    return out


def gated_backward(grad: Tensor, up: Tensor) -> Tensor:
    """Return the gradient of both halves."""
    out = torch.empty_like(up)
    gate_backward[(len(up), grad.shape[1] // 1024)](grad, up, out, grad.shape[1], 1024)
    return out
