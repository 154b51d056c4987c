"""The Triton kernels: read rows of class probabilities or logits once, and add scores to the cells of a grid.

Only `cuda` imports this module, and only if Triton is used. `cuda` and `cuda_cells` also hold plain twins of these
kernels: read those first. The bits repeat: the length of a row alone decides the order of its sums, and only integers
are added across programs.

A program reads ROWS rows. Its COLS parallel lanes go through the columns in panels of PANEL. Within a panel each lane
adds its own numbers in float32, and threads exchange nothing while data streams in. At the end of a panel the lanes are
added in float32, by a tree. Panels are added in ACC, float64 if there are several. So a sum of terms of one sign is
rounded no more often for 262,144 columns than for 16,384: at most `cuda.ROUNDINGS` times.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, import-untyped, import-not-found"

from __future__ import annotations

import triton
import triton.language as tl

from calibrant.kernels.reference import IGNORED

#: The scale of the values: declared probabilities, declared logits, or decided by a value on the device.
PROBABILITIES, LOGITS, UNDECLARED = range(3)

_IGNORED = tl.constexpr(IGNORED)
_LOG2E = tl.constexpr(1.4426950408889634)
_INFINITY = tl.constexpr(float("inf"))
_NONE = tl.constexpr(2147483647)  # no column
_FAULTS = tl.constexpr(5)  # counters of faults; the counter of normalised rows follows
_PROBABILITIES, _LOGITS, _UNDECLARED = tl.constexpr(PROBABILITIES), tl.constexpr(LOGITS), tl.constexpr(UNDECLARED)


@triton.jit
def _log1p(x):
    """Return log(1 + x), also if 1 + x is rounded: the lost part is added in first order."""
    rounded = 1.0 + x
    return tl.log(rounded) + (x - (rounded - 1.0)) / rounded


@triton.jit
def _tile(values, base, live, start, C, step, COLS: tl.constexpr):
    """Return COLS columns of the rows from ``start``, with 0 outside the rows, and a mask of what is inside."""
    column = start + tl.arange(0, COLS)
    there = live[:, None] & (column < C)[None, :]
    where = values + base[:, None] + column[None, :].to(tl.int64) * step
    return tl.load(where, mask=there, other=0.0).to(tl.float32), there


@triton.jit
def _read_probs(
    values,
    base,
    live,
    C,
    step,
    p_target,
    tolerance,
    slack,
    SINGLE: tl.constexpr,
    ACC: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    PANEL: tl.constexpr,
    STAGES: tl.constexpr,
):
    lane = tl.arange(0, COLS)[None, :]
    end = COLS if SINGLE else C
    largest = tl.full([ROWS], -1.0, tl.float32)
    best = tl.zeros([ROWS], tl.int32)
    smallest = tl.zeros([ROWS], tl.float32)
    total = tl.zeros([ROWS], ACC)
    squares = tl.zeros([ROWS], ACC)
    for panel in range(0, end, PANEL):
        x, _ = _tile(values, base, live, panel, C, step, COLS)
        within = tl.minimum(tl.maximum(x, 0.0), 1.0)
        high, low, sums, second = x, x, x, within * within
        tile = tl.zeros([ROWS, COLS], tl.int32) + panel  # first column of the tile with the lane's largest
        for start in tl.range(panel + COLS, min(panel + PANEL, end), COLS, num_stages=STAGES):
            x, _ = _tile(values, base, live, start, C, step, COLS)
            above = x > high
            high = tl.where(above, x, high)
            tile = tl.where(above, start, tile)
            low = tl.minimum(low, x)
            sums += x
            within = tl.minimum(tl.maximum(x, 0.0), 1.0)
            second += within * within
        panel_high = tl.max(high, 1)
        first = tl.min(tl.where(high == panel_high[:, None], tile + lane, _NONE), 1)
        best = tl.where(panel_high > largest, first, best)  # the first if several are equal
        largest = tl.maximum(largest, panel_high)
        smallest = tl.minimum(smallest, tl.min(low, 1))
        total += tl.sum(sums, 1).to(ACC)
        squares += tl.sum(second, 1).to(ACC)
    infinite = (total != total) | (largest == _INFINITY) | (smallest == -_INFINITY)
    outside = (smallest < -slack) | (largest > 1.0 + slack)
    off = tl.abs(total - 1.0) > tolerance
    fault = tl.where(infinite, 1, tl.where(outside, 2, tl.where(off, 3, 0)))
    nobody = tl.zeros([ROWS], tl.int32)
    largest = tl.minimum(largest, 1.0)
    p_target = tl.minimum(tl.maximum(p_target, 0.0), 1.0)
    return largest, best, p_target, tl.log(p_target), squares.to(tl.float32), total.to(tl.float32), fault, nobody


@triton.jit
def _read_logits(
    values,
    base,
    live,
    C,
    step,
    x_target,
    tolerance,
    slack,
    LOOK: tl.constexpr,
    SINGLE: tl.constexpr,
    ACC: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    PANEL: tl.constexpr,
    STAGES: tl.constexpr,
):
    # With m the largest so far, rest + 1 is the sum of exp(x - m), and second + 1 the sum of its squares. The 1 is the
    # term of the largest. It is left out so that log1p(rest) keeps its digits in confident rows; -1 stands for an empty
    # sum, whose m is -inf. When m grows by d, (rest + 1) exp(-d) becomes the new rest: one exponential per entry.
    # A logit of -inf is a class of probability 0: it is in no sum, and -inf is never subtracted from -inf.
    lane = tl.arange(0, COLS)[None, :]
    end = COLS if SINGLE else C
    largest = tl.full([ROWS], -_INFINITY, tl.float32)
    best = tl.zeros([ROWS], tl.int32)
    refused = tl.zeros([ROWS], tl.int32)
    total = tl.full([ROWS], -1.0, ACC)
    squares = tl.full([ROWS], -1.0, ACC)
    smallest = tl.zeros([ROWS], tl.float32)
    plain = tl.zeros([ROWS], ACC)
    for panel in range(0, end, PANEL):
        x, there = _tile(values, base, live, panel, C, step, COLS)
        bad = tl.where(x < _INFINITY, 0, 1)  # +inf and NaN
        if LOOK:
            low, sums = x, x
        real = there & (x > -_INFINITY)
        high = tl.where(real, x, -_INFINITY)
        rest = tl.where(real, 0.0, -1.0)
        second = rest
        tile = tl.zeros([ROWS, COLS], tl.int32) + panel
        for start in tl.range(panel + COLS, min(panel + PANEL, end), COLS, num_stages=STAGES):
            x, there = _tile(values, base, live, start, C, step, COLS)
            bad = tl.where(x < _INFINITY, bad, 1)
            if LOOK:
                low = tl.minimum(low, x)
                sums += x
            d = tl.where(there & (x > -_INFINITY), x - high, -_INFINITY)
            e = tl.exp2(-tl.abs(d) * _LOG2E)
            above = d > 0.0
            rest = tl.where(above, rest * e + e, rest + e)
            e *= e
            second = tl.where(above, second * e + e, second + e)
            tile = tl.where(above, start, tile)
            high = tl.where(above, x, high)
        panel_high = tl.max(high, 1)
        place = tl.where(high == panel_high[:, None], tile + lane, _NONE)
        first = tl.min(place, 1)
        leads = place == first[:, None]
        w = tl.exp2(tl.where(high > -_INFINITY, high - panel_high[:, None], -_INFINITY) * _LOG2E)
        panel_rest = tl.sum(tl.where(leads, rest, (rest + 1.0) * w), 1).to(ACC)
        panel_second = tl.sum(tl.where(leads, second, (second + 1.0) * (w * w)), 1).to(ACC)
        above = panel_high > largest
        grown = tl.where(panel_high > -_INFINITY, panel_high.to(ACC) - largest.to(ACC), 0.0)
        e = tl.exp(-tl.abs(grown))
        total = tl.where(above, panel_rest + (total + 1.0) * e, total + (panel_rest + 1.0) * e)
        e *= e
        squares = tl.where(above, panel_second + (squares + 1.0) * e, squares + (panel_second + 1.0) * e)
        best = tl.where(above, first, best)
        largest = tl.where(above, panel_high, largest)
        refused = tl.maximum(refused, tl.max(bad, 1))
        if LOOK:
            smallest = tl.minimum(smallest, tl.min(low, 1))
            plain += tl.sum(sums, 1).to(ACC)
    fault = tl.where((refused == 0) & (largest > -_INFINITY), 0, 1)
    normal = (smallest >= -slack) & (largest <= 1.0 + slack) & (tl.abs(plain - 1.0) <= tolerance) & LOOK
    rest = total.to(tl.float32)
    share = 1.0 / (rest + 1.0)
    loss = _log1p(rest)
    shifted = x_target - largest
    second = (squares.to(tl.float32) + 1.0) * share * share
    return share, best, tl.exp(shifted) * share, shifted - loss, second, largest + loss, fault, normal.to(tl.int32)


@triton.jit(do_not_specialize=["n", "ignore_index"])
def read_rows(
    values,
    targets,
    scale,
    top,
    correct,
    p_target,
    log_p_target,
    squares,
    total,
    counters,
    n,
    depth,
    sheet,
    row,
    step,
    C,
    ignore_index,
    tolerance,
    slack,
    SCALE: tl.constexpr,
    IGNORING: tl.constexpr,
    SINGLE: tl.constexpr,
    SEVERAL: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    PANEL: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Read ROWS rows; row i is ``values[i // depth, :, i % depth]``, with strides ``sheet``, ``step`` and ``row``."""
    ACC: tl.constexpr = tl.float64 if SEVERAL else tl.float32
    index = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    inside = index < n
    base = (index // depth) * sheet + (index % depth) * row
    target = tl.load(targets + index, mask=inside, other=0).to(tl.int64)
    judged = inside
    if IGNORING:
        judged = inside & (target != ignore_index)
    aimed = judged & (target >= 0) & (target < C)
    x_target = tl.load(values + base + target * step, mask=aimed, other=0.0).to(tl.float32)

    if SCALE == _PROBABILITIES:
        a, best, b, c, d, e, fault, one = _read_probs(
            values, base, judged, C, step, x_target, tolerance, slack, SINGLE, ACC, ROWS, COLS, PANEL, STAGES
        )
    elif SCALE == _LOGITS:
        a, best, b, c, d, e, fault, one = _read_logits(
            values, base, judged, C, step, x_target, tolerance, slack, False, SINGLE, ACC, ROWS, COLS, PANEL, STAGES
        )
    else:
        if tl.load(scale) != 0:
            a, best, b, c, d, e, fault, one = _read_logits(
                values, base, judged, C, step, x_target, tolerance, slack, True, SINGLE, ACC, ROWS, COLS, PANEL, STAGES
            )
        else:
            a, best, b, c, d, e, fault, one = _read_probs(
                values, base, judged, C, step, x_target, tolerance, slack, SINGLE, ACC, ROWS, COLS, PANEL, STAGES
            )

    fault = tl.where(judged, tl.where(aimed | (fault != 0), fault, 4), 0)
    good = judged & (fault == 0)
    void = tl.where(judged, float("nan"), 0.0)
    tl.store(top + index, tl.where(good, a, void), mask=inside)
    tl.store(p_target + index, tl.where(good, b, void), mask=inside)
    tl.store(log_p_target + index, tl.where(good, c, void), mask=inside)
    tl.store(squares + index, tl.where(good, d, void), mask=inside)
    tl.store(total + index, tl.where(good, e, void), mask=inside)
    tl.store(correct + index, tl.where(good, (best == target).to(tl.uint8), _IGNORED), mask=inside)

    if tl.max(fault, 0) > 0:
        for kind in tl.static_range(1, _FAULTS):
            number = tl.sum((fault == kind).to(tl.int32), 0)
            tl.atomic_add(counters + kind - 1, number.to(tl.int64), mask=number > 0, sem="relaxed")
    if SCALE == _UNDECLARED:
        number = tl.sum(tl.where(good, one, 0), 0)
        tl.atomic_add(counters + _FAULTS, number.to(tl.int64), mask=number > 0, sem="relaxed")


@triton.jit(do_not_specialize=["n", "ignore_index"])
def look_beyond(
    values,
    targets,
    skip,
    far,
    n,
    depth,
    sheet,
    row,
    step,
    C,
    ignore_index,
    low,
    high,
    IGNORING: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
):
    """Write 1 to ``far`` if a judged value is below ``low`` or above ``high``; read nothing if ``skip`` holds 1."""
    if tl.load(skip) == 0:
        index = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
        judged = index < n
        base = (index // depth) * sheet + (index % depth) * row
        if IGNORING:
            judged = judged & (tl.load(targets + index, mask=judged, other=0).to(tl.int64) != ignore_index)
        lowest = tl.zeros([ROWS, COLS], tl.float32)
        highest = tl.zeros([ROWS, COLS], tl.float32)
        for start in range(0, C, COLS):
            x, _ = _tile(values, base, judged, start, C, step, COLS)
            lowest = tl.where(x < lowest, x, lowest)
            highest = tl.where(x > highest, x, highest)
        beyond = (tl.min(lowest, 1) < low) | (tl.max(highest, 1) > high)
        any_beyond = tl.max(beyond.to(tl.int32), 0)
        tl.atomic_max(far, any_beyond, mask=any_beyond > 0, sem="relaxed")


@triton.jit(do_not_specialize=["n"])
def add_cells(
    scores,
    outcomes,
    edges,
    scales,
    sums,
    refused,
    n,
    columns,
    n_edges,
    STEPS: tl.constexpr,
    LOW_BITS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Add scores, row after row of ``columns``, to slots of `cuda_cells.CellTable`: int64 (columns, 6, n_edges + 1).

    The sums are the counts and the sums of scores for each outcome, and the sum of squares in two parts, low bits and
    high bits. All are integers, so the order in which the device adds them does not matter.
    """
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = index < n
    y = tl.load(outcomes + index, mask=inside, other=2).to(tl.int32)
    judged = inside & (y <= 1)
    p = tl.load(scores + index, mask=judged, other=0.0).to(tl.float32)
    good = judged & (p >= 0.0) & (p <= 1.0)
    place = tl.zeros([BLOCK], tl.int32)  # binary search: the number of edges below the score
    for k in tl.static_range(STEPS):
        further = place + (1 << (STEPS - 1 - k))
        edge = tl.load(edges + further - 1, mask=further <= n_edges, other=_INFINITY)
        place = tl.where(edge < p, further, place)
    place = tl.where(p == 1.0, n_edges, place)
    units = tl.where(good, p * tl.load(scales + place), 0.0).to(tl.int64)
    square = units * units
    size = n_edges + 1
    slot = sums + (index % columns) * (6 * size) + place
    tl.atomic_add(slot + y * size, tl.full([BLOCK], 1, tl.int64), mask=good, sem="relaxed")
    there = good & (units > 0)
    tl.atomic_add(slot + (2 + y) * size, units, mask=there, sem="relaxed")
    tl.atomic_add(slot + 4 * size, square & ((1 << LOW_BITS) - 1), mask=there, sem="relaxed")
    tl.atomic_add(slot + 5 * size, square >> LOW_BITS, mask=there, sem="relaxed")
    number = tl.sum((judged & (good == 0)).to(tl.int32), 0)
    tl.atomic_add(refused, number.to(tl.int64), mask=number > 0, sem="relaxed")
