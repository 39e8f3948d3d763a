"""The kernels of actor_critic.py: what stands between its products of matrices, and its updates of weights."""

import triton
import triton.language as tl


@triton.jit
def gather_kernel(
    seen, later, action, which, rows,
    BATCH: tl.constexpr, SEEN: tl.constexpr, ACTIONS: tl.constexpr, INPUT: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Put one observation of the batch into its three inputs: following, stored, and tried (the actor adds its actions)."""
    row, at = tl.program_id(0), tl.arange(0, WIDE)
    place = tl.load(which + row)
    before = tl.load(seen + place * SEEN + at, mask=at < SEEN)
    done = tl.load(action + place * ACTIONS + at - SEEN, mask=(at >= SEEN) & (at < INPUT))
    tl.store(rows + row * INPUT + at, tl.load(later + place * SEEN + at, mask=at < SEEN), mask=at < SEEN)
    tl.store(rows + (BATCH + row) * INPUT + at, tl.where(at < SEEN, before, done), mask=at < INPUT)
    tl.store(rows + (2 * BATCH + row) * INPUT + at, before, mask=at < SEEN)


@triton.jit
def act_kernel(
    out,
    noise,
    rows,
    chances,
    BATCH: tl.constexpr,
    ACTIONS: tl.constexpr,
    SEEN: tl.constexpr,
    LOW: tl.constexpr,
    HIGH: tl.constexpr,
):
    """Draw actions for the following observations and those of the batch, straight into the inputs of the critics."""
    row, at = tl.program_id(0), tl.arange(0, ACTIONS)
    mean, spread = tl.load(out + row * 2 * ACTIONS + at), tl.load(out + row * 2 * ACTIONS + ACTIONS + at)
    drawn = tl.load(noise + row * ACTIONS + at)
    spread = tl.minimum(tl.maximum(spread, LOW), HIGH)
    action = _tanh(mean + tl.exp(spread) * drawn)
    chance = -0.5 * drawn * drawn - spread - 0.9189385332046727 - tl.log(1 - action * action + 1e-6)
    tl.store(chances + row, tl.sum(chance, 0))
    tl.store(rows + (row + tl.where(row < BATCH, 0, BATCH)) * (SEEN + ACTIONS) + SEEN + at, action)


@triton.jit
def _tanh(x):
    return 1 - 2 / (tl.exp(2 * x) + 1)


@triton.jit
def _estimate(out, bias, last, net, row, BATCH: tl.constexpr, WIDTH: tl.constexpr):
    """Return the second hidden layer of one row before its nonlinearity, the last weights, and their product."""
    at = tl.arange(0, WIDTH)
    hidden = tl.load(out + (net * BATCH + row) * WIDTH + at) + tl.load(bias + net * WIDTH + at)
    weight = tl.load(last + net * WIDTH + at)
    return hidden, weight, tl.sum(tl.maximum(hidden, 0.0) * weight, 0)


@triton.jit
def error_kernel(
    out, target_out, bias, last, offset, target_bias, target_last, target_offset, reward, going_on, which, chances,
    errors, back, losses, steps,
    BATCH: tl.constexpr, WIDTH: tl.constexpr, GAMMA: tl.constexpr, ALPHA: tl.constexpr,
):  # fmt: skip
    """End both critics and both targets for one row: estimates, error, and its gradient at the second hidden layer."""
    row, at = tl.program_id(0), tl.arange(0, WIDTH)
    _, _, first = _estimate(target_out, target_bias, target_last, 0, row, BATCH, WIDTH)
    _, _, second = _estimate(target_out, target_bias, target_last, 1, row, BATCH, WIDTH)
    lower = tl.minimum(first + tl.load(target_offset), second + tl.load(target_offset + 1))
    place = tl.load(which + row)
    wanted = tl.load(reward + place) + GAMMA * tl.load(going_on + place) * (lower - ALPHA * tl.load(chances + row))
    loss = 0.0
    for net in tl.static_range(2):
        hidden, weight, estimate = _estimate(out, bias, last, net, row, BATCH, WIDTH)
        error = estimate + tl.load(offset + net) - wanted
        loss += error * error / BATCH
        tl.store(errors + net * BATCH + row, 2 * error / BATCH)
        tl.store(back + (net * BATCH + row) * WIDTH + at, tl.where(hidden > 0, 2 * error / BATCH * weight, 0.0))
    tl.store(losses + row, loss)
    if row == 0:
        tl.store(steps, tl.load(steps) + 1)  # of both optimizers


@triton.jit
def choice_kernel(out, bias, last, offset, back, BATCH: tl.constexpr, WIDTH: tl.constexpr):
    """Start the actor's gradient: only the lower of both estimates of a row has one."""
    row, at = tl.program_id(0), tl.arange(0, WIDTH)
    hidden0, weight0, first = _estimate(out, bias, last, 0, row, BATCH, WIDTH)
    hidden1, weight1, second = _estimate(out, bias, last, 1, row, BATCH, WIDTH)
    lower = first + tl.load(offset) < second + tl.load(offset + 1)
    tl.store(back + row * WIDTH + at, tl.where(hidden0 > 0, tl.where(lower, -weight0 / BATCH, 0.0), 0.0))
    tl.store(back + (BATCH + row) * WIDTH + at, tl.where(hidden1 > 0, tl.where(lower, 0.0, -weight1 / BATCH), 0.0))


@triton.jit
def action_kernel(
    back, hidden, weight, parts,
    BATCH: tl.constexpr, WIDTH: tl.constexpr, INPUT: tl.constexpr, ACTIONS: tl.constexpr, ROWS: tl.constexpr,
    PART: tl.constexpr,
):  # fmt: skip
    """Take the gradient from the first hidden layer of both critics to the actions: a part of the sum for each program."""
    row, part = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.program_id(1)
    net, at = part * PART // WIDTH, part * PART % WIDTH + tl.arange(0, PART)
    kept = tl.load(hidden + row[:, None] * 2 * WIDTH + net * WIDTH + at[None, :]) > 0
    slope = tl.where(kept, tl.load(back + (net * BATCH + row[:, None]) * WIDTH + at[None, :]), 0.0)
    action = tl.arange(0, ACTIONS)
    columns = tl.load(weight + (net * WIDTH + at[:, None]) * INPUT + INPUT - ACTIONS + action[None, :])
    where = (part * BATCH + row[:, None]) * ACTIONS + action[None, :]
    tl.store(parts + where, tl.dot(slope, columns, input_precision="tf32"))


@triton.jit
def policy_kernel(
    parts, out, noise, weight, hidden, slopes, back,
    BATCH: tl.constexpr, WIDTH: tl.constexpr, ACTIONS: tl.constexpr, PARTS: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, ALPHA: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr,
):  # fmt: skip
    """Take the gradient from the actions to the actor's output, and on to its second hidden layer."""
    row, at = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    action = tl.arange(0, ACTIONS)
    where = row[:, None] * ACTIONS + action[None, :]
    part = tl.arange(0, PARTS)[:, None, None] * BATCH * ACTIONS
    slope = tl.sum(tl.load(parts + part + where[None, :, :]), 0)
    mean = tl.load(out + (BATCH + row[:, None]) * 2 * ACTIONS + action[None, :])
    free = tl.load(out + (BATCH + row[:, None]) * 2 * ACTIONS + ACTIONS + action[None, :])
    spread = tl.minimum(tl.maximum(free, LOW), HIGH)
    drawn = tl.load(noise + BATCH * ACTIONS + where)
    acted = _tanh(mean + tl.exp(spread) * drawn)
    slope = (slope + ALPHA / BATCH * 2 * acted / (1 - acted * acted + 1e-6)) * (1 - acted * acted)
    wide = tl.where((free >= LOW) & (free <= HIGH), slope * tl.exp(spread) * drawn - ALPHA / BATCH, 0.0)
    if tl.program_id(1) == 0:
        tl.store(slopes + row[:, None] * 2 * ACTIONS + action[None, :], slope)
        tl.store(slopes + row[:, None] * 2 * ACTIONS + ACTIONS + action[None, :], wide)
    means = tl.load(weight + action[:, None] * WIDTH + at[None, :])
    spreads = tl.load(weight + (ACTIONS + action[:, None]) * WIDTH + at[None, :])
    product = tl.dot(slope, means, input_precision="tf32") + tl.dot(wide, spreads, input_precision="tf32")
    place = row[:, None] * WIDTH + at[None, :]
    tl.store(back + place, tl.where(tl.load(hidden + place) > 0, product, 0.0))


@triton.jit
def _state(weight, average, square, target, at, mask, TAU: tl.constexpr):
    """Load a weight, both averages and the target."""
    kept = tl.load(target + at, mask=mask) if TAU > 0 else 0.0
    return (
        tl.load(weight + at, mask=mask),
        tl.load(average + at, mask=mask, eviction_policy="evict_first"),
        tl.load(square + at, mask=mask, eviction_policy="evict_first"),
        kept,
    )


@triton.jit
def _adam(state, slope, weight, average, square, target, at, mask, steps, RATE: tl.constexpr, TAU: tl.constexpr):
    """Update weights in place: Adam, then the average of targets if TAU is not 0."""
    old, mean, spread, kept = state
    step = tl.load(steps)
    mean += (slope - mean) * (1 - 0.9)
    spread = spread * 0.999 + slope * slope * (1 - 0.999)
    rate = RATE / (1 - tl.exp(step * -0.10536051565782628))  # of 0.9 and 0.999 to the power of the step
    new = old - rate * mean / (tl.sqrt(spread / (1 - tl.exp(step * -0.0010005003335835335))) + 1e-8)
    tl.store(weight + at, new, mask=mask)
    tl.store(average + at, mean, mask=mask, eviction_policy="evict_first")
    tl.store(square + at, spread, mask=mask, eviction_policy="evict_first")
    if TAU > 0:
        tl.store(target + at, kept + TAU * (new - kept), mask=mask)


@triton.jit
def weight_kernel(
    slope, hidden, inputs, weight, average, square, target, steps,
    slope_net, slope_row, hidden_net, hidden_row, input_net, input_row,
    BATCH: tl.constexpr, OUT: tl.constexpr, IN: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    MASKED: tl.constexpr, RATE: tl.constexpr, TAU: tl.constexpr,
):  # fmt: skip
    """Multiply a tile of a weight's gradient and apply it at once: the gradient is never written."""
    net = tl.program_id(2)
    row, at = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    sample = tl.arange(0, BATCH)
    where = net * OUT * IN + row[:, None] * IN + at[None, :]
    state = _state(weight, average, square, target, where, None, TAU)  # on their way while the product is made
    back = tl.load(slope + net * slope_net + sample[None, :] * slope_row + row[:, None])
    if MASKED:
        on = tl.load(hidden + net * hidden_net + sample[None, :] * hidden_row + row[:, None]) > 0
        back = tl.where(on, back, 0.0)
    given = tl.load(inputs + net * input_net + sample[:, None] * input_row + at[None, :])
    product = tl.dot(back, given, input_precision="tf32")
    _adam(state, product, weight, average, square, target, where, None, steps, RATE, TAU)


@triton.jit
def bias_kernel(
    slope, hidden, weight, average, square, target, steps, slope_net, slope_row, hidden_net, hidden_row,
    BATCH: tl.constexpr, OUT: tl.constexpr, COLUMNS: tl.constexpr, MASKED: tl.constexpr, RATE: tl.constexpr, TAU: tl.constexpr,
):  # fmt: skip
    """Add up a bias's gradient over the batch and apply it."""
    at, sample, net = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS), tl.arange(0, BATCH), tl.program_id(1)
    back = tl.load(slope + net * slope_net + sample[:, None] * slope_row + at[None, :], mask=at[None, :] < OUT, other=0.0)
    if MASKED:
        back = tl.where(tl.load(hidden + net * hidden_net + sample[:, None] * hidden_row + at[None, :]) > 0, back, 0.0)
    state = _state(weight, average, square, target, net * OUT + at, at < OUT, TAU)
    _adam(state, tl.sum(back, 0), weight, average, square, target, net * OUT + at, at < OUT, steps, RATE, TAU)


@triton.jit
def last_kernel(
    slope, out, errors, losses, bias, bias_average, bias_square, bias_target, last, average, square, target,
    offset, offset_average, offset_square, offset_target, loss, steps,
    BATCH: tl.constexpr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr, RATE: tl.constexpr, TAU: tl.constexpr,
):  # fmt: skip
    """Update what belongs to the second hidden layer of the critics and to their output, but for the large weight."""
    at, sample, net = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS), tl.arange(0, BATCH), tl.program_id(1)
    where = (net * BATCH + sample[:, None]) * WIDTH + at[None, :]
    mine = net * WIDTH + at
    error = tl.load(errors + net * BATCH + sample)
    hidden = tl.maximum(tl.load(out + where) + tl.load(bias + mine)[None, :], 0.0)
    state = _state(last, average, square, target, mine, None, TAU)
    _adam(state, tl.sum(hidden * error[:, None], 0), last, average, square, target, mine, None, steps, RATE, TAU)
    state = _state(bias, bias_average, bias_square, bias_target, mine, None, TAU)
    total = tl.sum(tl.load(slope + where), 0)
    _adam(state, total, bias, bias_average, bias_square, bias_target, mine, None, steps, RATE, TAU)
    if tl.program_id(0) == 0:
        one = net + tl.arange(0, 1)
        final = _state(offset, offset_average, offset_square, offset_target, one, None, TAU)
        _adam(final, tl.sum(error, 0), offset, offset_average, offset_square, offset_target, one, None, steps, RATE, TAU)
        tl.store(loss, tl.sum(tl.load(losses + sample), 0))
