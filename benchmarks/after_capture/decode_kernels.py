"""The kernels of decode.py: one sequence, so that each projection is a product of a matrix and a vector."""

import triton
import triton.language as tl


@triton.jit
def _normed(x, gain, WIDTH: tl.constexpr, EPS: tl.constexpr):
    """Return x over its root mean square, rounded where eager rounds."""
    at = tl.arange(0, WIDTH)[None, :]
    value = tl.load(x + at).to(tl.float32)
    scale = tl.rsqrt(tl.sum(value * value, 1) / WIDTH + EPS)[:, None]
    return (value * scale * tl.load(gain + at).to(tl.float32)).to(tl.bfloat16).to(tl.float32)


@triton.jit
def _weights(weight, rows, WIDTH: tl.constexpr):
    """Load whole rows at once, so that all bytes of this program are under way together."""
    return tl.load(weight + rows[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :], eviction_policy="evict_first")


@triton.jit
def _product(weights, x):
    return tl.sum(weights.to(tl.float32) * x, 1).to(tl.bfloat16).to(tl.float32)


@triton.jit
def qkv_kernel(
    x, gain, weight, turns, position, query, keys, values,
    WIDTH: tl.constexpr, HEAD: tl.constexpr, LENGTH: tl.constexpr, EPS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Norm, projection, rotation and the write to the cache; a program has ROWS pairs of neighbouring rows."""
    pair = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    even, odd = _weights(weight, 2 * pair, WIDTH), _weights(weight, 2 * pair + 1, WIDTH)
    place, part = tl.load(position), tl.program_id(0) * ROWS * 2 // WIDTH
    inside, head = pair % (HEAD // 2), (pair % (WIDTH // 2)) // (HEAD // 2)
    turn = turns + (place * (HEAD // 2) + inside) * 2
    cos = tl.load(turn, mask=inside + part * HEAD < 2 * HEAD, other=1.0)  # values are not rotated
    sin = tl.load(turn + 1, mask=inside + part * HEAD < 2 * HEAD, other=0.0)
    normed = _normed(x, gain, WIDTH, EPS)
    a, b = _product(even, normed), _product(odd, normed)
    left, right = (a * cos - b * sin).to(tl.bfloat16), (b * cos + a * sin).to(tl.bfloat16)
    kept = (head * LENGTH + place) * HEAD + 2 * inside
    if part == 0:
        tl.store(query + head * HEAD + 2 * inside, left)
        tl.store(query + head * HEAD + 2 * inside + 1, right)
    elif part == 1:
        tl.store(keys + kept, left)
        tl.store(keys + kept + 1, right)
    else:
        tl.store(values + kept, left)
        tl.store(values + kept + 1, right)


@triton.jit
def attention_kernel(
    query, keys, values, position, parts, sums, arrived, mixed,
    HEAD: tl.constexpr, LENGTH: tl.constexpr, SPLITS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One head, its seen positions shared by SPLITS programs; the last to arrive adds up their parts."""
    head, split, at = tl.program_id(0), tl.program_id(1), tl.arange(0, HEAD)
    count = tl.load(position).to(tl.int32) + 1
    share = tl.cdiv(count, SPLITS)
    end = min(split * share + share, count)
    q = tl.load(query + head * HEAD + at).to(tl.float32)[None, :] * (1.4426950408889634 / HEAD**0.5)
    most, total, part = -1e30, 0.0, tl.zeros([HEAD], tl.float32)
    for first in range(split * share, end, BLOCK):
        place = first + tl.arange(0, BLOCK)
        where = (head * LENGTH + place)[:, None] * HEAD + at[None, :]
        key = tl.load(keys + where, mask=place[:, None] < end, other=0.0)
        value = tl.load(values + where, mask=place[:, None] < end, other=0.0)
        score = tl.where(place < end, tl.sum(key.to(tl.float32) * q, 1), -1e30)
        higher = tl.maximum(most, tl.max(score, 0))
        weight, shrink = tl.exp2(score - higher), tl.exp2(most - higher)
        part = part * shrink + tl.sum(value.to(tl.float32) * weight[:, None], 0)
        total, most = total * shrink + tl.sum(weight, 0), higher
    mine = head * SPLITS + split
    tl.store(parts + mine * HEAD + at, part)
    tl.store(sums + 2 * mine, most)
    tl.store(sums + 2 * mine + 1, total)
    tl.debug_barrier()  # all threads have stored before one of them counts
    if tl.atomic_add(arrived + head, 1, sem="acq_rel") == SPLITS - 1:
        each = head * SPLITS + tl.arange(0, SPLITS)
        highest = tl.load(sums + 2 * each, cache_modifier=".cg")
        scale = tl.exp2(highest - tl.max(highest, 0))
        whole = tl.sum(tl.load(sums + 2 * each + 1, cache_modifier=".cg") * scale, 0)
        every = tl.load(parts + each[:, None] * HEAD + at[None, :], cache_modifier=".cg")
        tl.store(mixed + head * HEAD + at, (tl.sum(every * scale[:, None], 0) / whole).to(tl.bfloat16))
        tl.store(arrived + head, 0)


@triton.jit
def residual_kernel(x, y, weight, WIDTH: tl.constexpr, ROWS: tl.constexpr):
    """Add weight @ y to x: each program reads and writes its own elements of x, so it can be done in place."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    weights = _weights(weight, rows, WIDTH)
    out = _product(weights, tl.load(y + tl.arange(0, WIDTH)[None, :]).to(tl.float32))
    tl.store(x + rows, (tl.load(x + rows).to(tl.float32) + out).to(tl.bfloat16))


@triton.jit
def gated_kernel(x, gain, gate, up, y, WIDTH: tl.constexpr, EPS: tl.constexpr, ROWS: tl.constexpr):
    """Multiply silu(gate @ norm(x)) by up @ norm(x)."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    gates, ups = _weights(gate, rows, WIDTH), _weights(up, rows, WIDTH)
    normed = _normed(x, gain, WIDTH, EPS)
    a, b = _product(gates, normed), _product(ups, normed)
    tl.store(y + rows, ((a / (1 + tl.exp(-a))).to(tl.bfloat16).to(tl.float32) * b).to(tl.bfloat16))


@triton.jit
def head_kernel(x, gain, weight, logits, WIDTH: tl.constexpr, EPS: tl.constexpr, ROWS: tl.constexpr):
    """Norm and logits."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    weights = _weights(weight, rows, WIDTH)
    tl.store(logits + rows, _product(weights, _normed(x, gain, WIDTH, EPS)).to(tl.bfloat16))


@triton.jit
def sample_kernel(
    logits, noise, embedding, tokens, x, position,
    WIDTH: tl.constexpr, OUT: tl.constexpr, TOP: tl.constexpr, TEMPERATURE: tl.constexpr, PROMPT: tl.constexpr,
    LENGTH: tl.constexpr,
):  # fmt: skip
    """Cut to the TOP highest, draw, look up the next input and count the position."""
    at, wide = tl.arange(0, OUT), tl.arange(0, WIDTH)
    logit = tl.load(logits + at)
    bits = logit.to(tl.int16, bitcast=True).to(tl.int32)
    order = tl.where(bits < 0, bits ^ 0x7FFF, bits)  # integers in the order of the bfloat16 numbers
    least = -32768  # becomes the highest number that at least TOP reach: 16 counts in place of a sort
    for bit in tl.static_range(16):
        higher = least + (32768 >> bit)
        least = tl.where(tl.sum((order >= higher).to(tl.int32), 0) >= TOP, higher, least)
    score = logit.to(tl.float32) / TEMPERATURE
    chance = tl.where(order >= least, tl.exp(score - tl.max(score, 0)), 0.0)
    token = tl.argmax(chance / tl.load(noise + at), 0).to(tl.int64)
    tl.store(tokens, token)
    tl.store(x + wide, tl.load(embedding + token * WIDTH + wide))
    place = tl.load(position) + 1
    tl.store(position, tl.where(place < LENGTH, place, PROMPT))
