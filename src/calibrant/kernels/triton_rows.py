"""Kernels of Triton: read predictions on a GPU once, and add them to integers, which then move into states of metrics.

Two kernels read: `rows_kernel` one row of predictions after the other, `entries_kernel` each class of a row. They add
to integers, so that the order in which the device adds does not matter; `states_kernel`, `class_bins_kernel` and
`cells_kernel` move these integers into states. `fused` runs them. With ``TRITON_INTERPRET=1`` they run on tensors of
the host, for tests.
"""

from __future__ import annotations

from typing import Final

import triton
import triton.language as tl

#: How many numbers `rows_kernel` counts, without bins: faults of four kinds, evaluated rows, rows of logits that
#: could be probabilities, right rows, infinite losses.
N_COUNTED: Final = 8

# Numbers are written out below: of a global one, Triton asks at each launch if it is still the same.


# ---------------------------------------------------------------- one row


@triton.jit
def _nothing(places, SUM: tl.constexpr, W: tl.constexpr):
    """Return what `_with` adds a value to, for each place: the largest value, its class, four sums, the least value."""
    lowest = tl.full(places.shape, float("-inf"), W)
    zero = tl.zeros(places.shape, SUM)
    return lowest, tl.zeros(places.shape, tl.int32), zero, zero, zero, zero, -lowest


@triton.jit
def _with(
    x, c, inside, m, best, rest, second, total, squares, low, as_logits, PROBS: tl.constexpr, LOGITS: tl.constexpr
):
    """Add the value of class c: to the largest value and its class, and to sums.

    ``rest`` and ``second`` are the sums of exp(x - m) and of its square, without the largest value's own term, 1, so
    that they keep their digits. They are NaN if a value is NaN; so is ``squares``, the sum of squared probabilities.
    """
    new = x > m
    if LOGITS:
        if as_logits:
            e = tl.where(x == float("-inf"), 0.0, tl.exp(-tl.abs(x - m))).to(rest.dtype)
            rest = tl.where(new, (rest + 1.0) * e, rest + e)
            second = tl.where(new, (second + 1.0) * (e * e), second + e * e)
    if PROBS:
        low = tl.where(inside, tl.minimum(low, x), low)
        total += tl.where(inside, x, 0.0)
        p = tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)
        p = tl.minimum(p, 1.0, propagate_nan=tl.PropagateNan.ALL).to(squares.dtype)
        squares += p * p
    return tl.where(new, x, m), tl.where(new, c, best), rest, second, total, squares, low


@triton.jit
def _summed(lanes):
    """Return the sums over the lanes of each row."""
    return tl.sum(lanes, 1).to(tl.float64)


@triton.jit
def _wide(
    x_ptr, live, n_classes, class_step, as_logits,
    PROBS: tl.constexpr, LOGITS: tl.constexpr, BLOCK_C: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    """Read rows of many classes in chunks, and return what `_narrow` returns.

    ``x_ptr`` are the places of the rows' first values. Each of BLOCK_C lanes reads one value of a chunk; what the lanes
    hold is joined at the end.
    """
    m, best, rest, second, total, squares, low = _nothing(live[:, None] & (tl.arange(0, BLOCK_C) >= 0)[None, :], W, W)
    for start in range(0, n_classes, BLOCK_C):
        classes = start + tl.arange(0, BLOCK_C)
        inside = live[:, None] & (classes < n_classes)[None, :]
        steps = classes.to(tl.int64) * class_step
        x = tl.load(x_ptr[:, None] + steps[None, :], mask=inside, other=float("-inf")).to(W)
        m, best, rest, second, total, squares, low = _with(
            x, classes[None, :], inside, m, best, rest, second, total, squares, low, as_logits, PROBS, LOGITS
        )
    top = tl.max(m, 1)
    place = tl.min(tl.where(m == top[:, None], best, n_classes), 1)
    if LOGITS:
        own = (m == top[:, None]) & (best == place[:, None])
        shift = tl.where(m > float("-inf"), tl.exp(m - top[:, None]), 0.0)
        rest = tl.where(own, rest, (rest + 1.0) * shift)
        second = tl.where(own, second, (second + 1.0) * shift * shift)
    return top, place, _summed(rest), _summed(second), _summed(total), _summed(squares), tl.min(low, 1)


@triton.jit
def _narrow(
    x_ptr, live, n_classes, class_step, as_logits,
    PROBS: tl.constexpr, LOGITS: tl.constexpr, UNROLL: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    """Read rows of few classes, a thread a row, and return the largest value, its class, four sums, the least value."""
    m, best, rest, second, total, squares, low = _nothing(live, tl.float64, W)
    step = tl.zeros((), tl.int64) + class_step
    for start in range(0, n_classes, UNROLL):
        for k in tl.static_range(UNROLL):
            c = start + k
            inside = live & (c < n_classes)
            x = tl.load(x_ptr + c * step, mask=inside, other=float("-inf")).to(W)
            m, best, rest, second, total, squares, low = _with(
                x, c, inside, m, best, rest, second, total, squares, low, as_logits, PROBS, LOGITS
            )
    return m, best, rest, second, total, squares, low


@triton.jit
def _log1p(x):
    """Return log(1 + x) of float64 numbers from 0 on, with all digits of small ones."""
    return tl.where(x < 1e-4, x * (1.0 - x * (0.5 - x * (1.0 / 3.0))), tl.log(1.0 + x))


@triton.jit
def _is_logit(PROBS: tl.constexpr, LOGITS: tl.constexpr, seen_ptr, far_ptr):
    """Return whether values are logits, if they can be both: as in earlier batches, or if one is far from [0, 1]."""
    flag = 0
    if LOGITS:
        flag = 1
        if PROBS:
            earlier = tl.load(seen_ptr) + tl.load(seen_ptr + 1)
            flag = tl.where(earlier > 0, tl.load(seen_ptr + 1) > 0, tl.load(far_ptr) > 0).to(tl.int32)
    return flag


@triton.jit
def _target(t_ptr, rows, live, ignored, FLOATS: tl.constexpr, IGNORES: tl.constexpr):
    """Return the targets as int64, which of them are whole numbers, and which rows are evaluated."""
    t = tl.load(t_ptr + rows, mask=live, other=0)
    y = t.to(tl.int64)
    whole = live
    if FLOATS:
        whole = live & (y.to(t.dtype) == t)
    evaluated = live
    if IGNORES:
        evaluated = live & ~(whole & (y == ignored))
    return y, whole, evaluated


@triton.jit
def _row_start(x_ptr, rows, depth, sheet_step, depth_step, FLAT: tl.constexpr):
    """Return where the rows' first values are: of (N, C, ...) values, row i is at i // depth and i % depth."""
    if FLAT:
        return x_ptr + rows * sheet_step
    return x_ptr + (rows // depth) * sheet_step + (rows % depth) * depth_step


# ---------------------------------------------------------------- adding a score


@triton.jit
def _below(score, edges_ptr, n_edges, BLOCK: tl.constexpr, STEPS: tl.constexpr):
    """Return how many edges are below each score."""
    low = tl.zeros((BLOCK,), tl.int32)
    high = tl.zeros((BLOCK,), tl.int32) + n_edges
    for _ in tl.static_range(STEPS):
        middle = (low + high) // 2
        open_ = low < high
        beyond = open_ & (tl.load(edges_ptr + middle, mask=open_, other=2.0) < score)
        high = tl.where(open_ & ~beyond, middle, high)
        low = tl.where(beyond, middle + 1, low)
    return low


@triton.jit
def _fixed(score, scale):
    """Return a score as a whole number of units, rounded half to even."""
    exact = score.to(tl.float64) * scale
    whole = exact.to(tl.int64)
    part = exact - whole.to(tl.float64)
    return whole + ((part > 0.5) | ((part == 0.5) & (whole % 2 == 1))).to(tl.int64)


@triton.jit
def _add_to_cells(
    score, outcome, ok, cells_ptr, edges_ptr, scales_ptr, n_edges, BLOCK: tl.constexpr, STEPS: tl.constexpr
):
    """Add scores to slots: count and outcomes in one word, units by outcome, squared units in two parts."""
    slots = n_edges + 1
    slot = tl.where(score == 1.0, n_edges, _below(score, edges_ptr, n_edges, BLOCK, STEPS))
    slot = tl.where(ok, slot, 0)
    units = tl.where(ok, score * tl.load(scales_ptr + slot, mask=ok, other=0.0), 0.0).to(tl.int64)
    square = units * units
    yes = outcome.to(tl.int64)
    tl.atomic_add(cells_ptr + slot, 1 + (yes << 32), mask=ok, sem="relaxed")
    tl.atomic_add(cells_ptr + (1 + yes) * slots + slot, units, mask=ok, sem="relaxed")
    tl.atomic_add(cells_ptr + 3 * slots + slot, square & ((1 << 28) - 1), mask=ok, sem="relaxed")
    tl.atomic_add(cells_ptr + 4 * slots + slot, square >> 28, mask=ok, sem="relaxed")


@triton.jit
def _plus(state_ptr, number, inside):
    """Add numbers to a state."""
    tl.store(state_ptr, tl.load(state_ptr, mask=inside, other=0) + number, mask=inside)


# ---------------------------------------------------------------- kernels


@triton.jit
def rows_kernel(
    x_ptr, t_ptr, seen_ptr, far_ptr, uppers_ptr, edges_ptr, scales_ptr, work_ptr, sums_ptr, cells_ptr,
    out_ptr, correct_ptr, keys_ptr, n, n_classes, depth, sheet_step, class_step, depth_step, ignored, tolerance, slack,
    scale, n_bins, n_edges,
    WIDE: tl.constexpr, SINGLE: tl.constexpr, FLAT: tl.constexpr, FLOATS: tl.constexpr, IGNORES: tl.constexpr,
    PROBS: tl.constexpr, LOGITS: tl.constexpr, EVENT: tl.constexpr, FAR: tl.constexpr, BINS: tl.constexpr,
    CELLS: tl.constexpr, COPIES: tl.constexpr, KEYS: tl.constexpr, TOTALS: tl.constexpr, COLUMNS: tl.constexpr,
    STEPS: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_C: tl.constexpr, DOUBLE: tl.constexpr,
):  # fmt: skip
    """Read rows, and add their evaluated event to bins, cells, keys and sums of scores.

    Integers are added to ``work_ptr`` and ``cells_ptr``; each program has its own four sums of scores in ``sums_ptr``.
    ``out_ptr`` takes the columns top and largest value; with ``COLUMNS`` 2 also p_target, log_p_target and squares, and
    ``correct_ptr`` whether the row is right. With ``FAR``, a flag is set if a value is out of [0, 1], and no more.
    """
    W: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    as_logits = _is_logit(PROBS, LOGITS, seen_ptr, far_ptr)
    cells_ptr += (tl.program_id(0) % COPIES) * 5 * (n_edges + 1)
    bins = tl.arange(0, BINS)
    pairs = tl.zeros((BINS,), tl.int64)
    scores = tl.zeros((BINS,), tl.int64)
    size = tl.zeros((), tl.int64) + n  # four columns of it may not fit into 32 bits
    n_evaluated = tl.zeros((BLOCK_N,), tl.int64)
    n_normal = tl.zeros((BLOCK_N,), tl.int64)
    n_right = tl.zeros((BLOCK_N,), tl.int64)
    n_infinite = tl.zeros((BLOCK_N,), tl.int64)
    brier = tl.zeros((BLOCK_N,), tl.float64)
    nll = tl.zeros((BLOCK_N,), tl.float64)
    brier_squares = tl.zeros((BLOCK_N,), tl.float64)
    nll_squares = tl.zeros((BLOCK_N,), tl.float64)
    for first in range(tl.program_id(0).to(tl.int64) * BLOCK_N, n, tl.num_programs(0) * BLOCK_N):
        rows = (first + tl.arange(0, BLOCK_N)).to(tl.int64)
        live = rows < n
        y, whole, evaluated = _target(t_ptr, rows, live, ignored, FLOATS, IGNORES)
        aimed = evaluated & whole & (y >= 0) & (y < (2 if SINGLE else n_classes))
        y = tl.where(aimed, y, 0)
        start = _row_start(x_ptr, rows, depth, sheet_step, depth_step, FLAT)
        if SINGLE:
            x = tl.load(start, mask=live, other=0.0).to(W)
            infinite = (x != x) | (tl.abs(x) == float("inf"))
            no_logits = infinite
            outside = (x < -slack) | (x.to(tl.float64) - 1.0 > slack)
            off = live & False
            p = x
            if LOGITS:
                if as_logits:
                    e = tl.exp(-tl.abs(x).to(tl.float64))
                    p = (tl.where(x >= 0, 1.0, e) / (1.0 + e)).to(W)
            within = tl.minimum(tl.maximum(p, 0.0), 1.0)
            top = tl.maximum(within, 1.0 - within)
            p_target = tl.where(y == 1, within, 1.0 - within)
            log_p = tl.log(p_target.to(tl.float64))
            if LOGITS:
                if as_logits:
                    margin = tl.where(y == 1, x, -x).to(tl.float64)
                    log_p = tl.minimum(margin, 0.0) - _log1p(tl.exp(-tl.abs(margin)))
            loss = within.to(tl.float64) - y.to(tl.float64)
            loss = loss * loss
            squares = loss
            correct = (within >= 0.5) == (y == 1)
            m = x
        else:
            if WIDE:
                m, best, rest, second, total, squares, low = _wide(
                    start, live, n_classes, class_step, as_logits, PROBS, LOGITS, BLOCK_C, W
                )
            else:
                m, best, rest, second, total, squares, low = _narrow(
                    start, live, n_classes, class_step, as_logits, PROBS, LOGITS, BLOCK_C, W
                )
            x = tl.load(start + y * class_step, mask=live, other=0.0).to(W)
            infinite = (squares != squares) | (m == float("inf")) | (low == float("-inf"))
            no_logits = (rest != rest) | (tl.abs(m) == float("inf"))
            outside = (low < -slack) | (m.to(tl.float64) - 1.0 > slack)
            off = ~(tl.abs(total - 1.0) <= tolerance)
            within = tl.minimum(tl.maximum(x, 0.0), 1.0)
            top = tl.minimum(tl.maximum(m, 0.0), 1.0)
            p_target = within
            log_p = tl.log(within.to(tl.float64))
            if LOGITS:
                if as_logits:
                    sums = 1.0 + rest
                    given = x.to(tl.float64) - m.to(tl.float64)
                    top = (1.0 / sums).to(W)
                    p_target = (tl.exp(given) / sums).to(W)
                    log_p = given - _log1p(rest)
                    squares = (1.0 + second) / (sums * sums)
            loss = squares - 2.0 * p_target.to(tl.float64) + 1.0
            correct = best == y
        if FAR:
            if tl.max((evaluated & outside).to(tl.int32), 0) > 0:
                tl.store(far_ptr, 1)
        kind = tl.where(infinite, 1, tl.where(outside, 2, tl.where(off, 3, 0)))
        fault = kind
        if LOGITS:
            if as_logits:
                fault = no_logits.to(tl.int32)
        fault = tl.where((fault == 0) & ~aimed, 4, fault)
        fault = tl.where(evaluated, fault, 0)
        good = evaluated & (fault == 0)
        if not FAR:
            if tl.max(fault, 0) > 0:
                for k in tl.static_range(4):
                    tl.atomic_add(work_ptr + k, tl.sum((fault == k + 1).to(tl.int64)))
        n_evaluated += evaluated.to(tl.int64)
        if (PROBS and LOGITS) and not SINGLE:  # Triton 3.3 takes no longer chain
            n_normal += (good & (kind == 0) & (as_logits != 0)).to(tl.int64)
        void = tl.where(evaluated, float("nan"), 0.0).to(W)
        score = top
        outcome = correct
        if EVENT == "positive":
            score = within
            if not SINGLE:  # of two classes the second
                one = tl.load(start + class_step, mask=live, other=0.0).to(W)
                score = tl.minimum(tl.maximum(one, 0.0), 1.0)
                if LOGITS:
                    if as_logits:
                        score = (tl.exp(one.to(tl.float64) - m.to(tl.float64)) / (1.0 + rest)).to(W)
            outcome = y == 1
        if EVENT == "folded":  # 0.5 predicts class 0
            outcome = (within > 0.5) == (y == 1)
        score = tl.where(good, score, void)
        outcome = good & outcome
        if COLUMNS > 0:
            shown = void if COLUMNS > 1 else tl.where(evaluated, void, -1.0)  # `entries_kernel` leaves these rows out
            tl.store(out_ptr + rows, tl.where(good, top, shown), mask=live)
            tl.store(out_ptr + size + rows, m, mask=live)
        if COLUMNS > 1:
            tl.store(out_ptr + 2 * size + rows, tl.where(good, p_target, void), mask=live)
            tl.store(out_ptr + 3 * size + rows, tl.where(good, log_p.to(W), void), mask=live)
            tl.store(out_ptr + 4 * size + rows, tl.where(good, squares.to(W), void), mask=live)
            tl.store(correct_ptr + rows, tl.where(good, correct.to(tl.int32), 255).to(tl.uint8), mask=live)
        if KEYS:  # as `tensors.pack` packs scores with outcomes
            bits = score.to(tl.int64, bitcast=True) if DOUBLE else score.to(tl.int32, bitcast=True)
            key = (bits << 1) | outcome.to(bits.dtype)
            tl.store(keys_ptr + rows, tl.where(evaluated, key, -1), mask=live)
        if BINS > 1:
            place = tl.minimum(_below(score, uppers_ptr, n_bins, BLOCK_N, STEPS), n_bins - 1)
            hot = good[:, None] & (place[:, None] == bins[None, :])
            pair = 1 + (outcome.to(tl.int64) << 32)
            pairs += tl.sum(tl.where(hot, pair[:, None], 0), 0)
            scores += tl.sum(tl.where(hot, _fixed(tl.where(good, score, 0.0), scale)[:, None], 0), 0)
        if CELLS:
            _add_to_cells(score, outcome, good, cells_ptr, edges_ptr, scales_ptr, n_edges, BLOCK_N, STEPS)
        if TOTALS:
            lost = good & (log_p == float("-inf"))
            n_infinite += lost.to(tl.int64)
            n_right += (good & correct).to(tl.int64)
            log_p = tl.where(good & ~lost, log_p, 0.0)
            loss = tl.where(good, loss, 0.0)
            brier += loss
            nll -= log_p
            brier_squares += loss * loss
            nll_squares += log_p * log_p
    if not FAR:
        tl.atomic_add(work_ptr + 4, tl.sum(n_evaluated))
        tl.atomic_add(work_ptr + 5, tl.sum(n_normal))
    if BINS > 1:
        keep = (bins < n_bins) & (pairs > 0)
        tl.atomic_add(work_ptr + 8 + bins, pairs, mask=keep)
        tl.atomic_add(work_ptr + 8 + n_bins + bins, scores, mask=keep)
    if TOTALS:
        tl.atomic_add(work_ptr + 6, tl.sum(n_right))
        tl.atomic_add(work_ptr + 7, tl.sum(n_infinite))
        mine = sums_ptr + 4 * tl.program_id(0)
        tl.store(mine, tl.sum(brier))
        tl.store(mine + 1, tl.sum(nll))
        tl.store(mine + 2, tl.sum(brier_squares))
        tl.store(mine + 3, tl.sum(nll_squares))


@triton.jit
def states_kernel(
    before_ptr, far_ptr, work_ptr, parts_ptr, counts_ptr, positives_ptr, sums_ptr, total_ptr, infinite_ptr, right_ptr,
    brier_ptr, nll_ptr, brier_squares_ptr, nll_squares_ptr, faults_ptr, seen_ptr, n_programs, unit, n_bins, width,
    PROBS: tl.constexpr, LOGITS: tl.constexpr, BINS: tl.constexpr, TOTALS: tl.constexpr, SQUARES: tl.constexpr,
    CHECKED: tl.constexpr, PROGRAMS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Move what the programs of `rows_kernel` counted into the states of a metric, and set their integers to 0.

    ``before_ptr`` is the state `seen` as earlier batches left it; ``width`` the number of columns.
    """
    as_logits = _is_logit(PROBS, LOGITS, before_ptr, far_ptr)
    earlier = tl.load(before_ptr) + tl.load(before_ptr + 1)
    evaluated = tl.load(work_ptr + 4)
    normal = tl.load(work_ptr + 5)
    right = tl.load(work_ptr + 6)
    infinite = tl.load(work_ptr + 7)
    kinds = tl.arange(0, 4)
    faults = tl.load(work_ptr + kinds)
    bins = tl.arange(0, BINS)
    here = bins < n_bins
    tl.debug_barrier()  # all is read before anything is written: `before_ptr` may be `seen_ptr`
    if CHECKED:
        _plus(faults_ptr + kinds, faults, kinds < 4)
        # Probabilities after logits. Only where earlier batches decide are rows normal.
        again = (normal == evaluated) & (evaluated > 0) & (earlier > 0)
        _plus(faults_ptr + 4, again.to(tl.int64), True)
    tl.store(seen_ptr + as_logits, 1)
    tl.store(seen_ptr + 2, tl.maximum(tl.load(seen_ptr + 2), PRECISION))
    tl.store(seen_ptr + 3, tl.maximum(tl.load(seen_ptr + 3), width))
    if BINS > 1:
        pairs = tl.load(work_ptr + 8 + bins, mask=here, other=0)
        scores = tl.load(work_ptr + 8 + n_bins + bins, mask=here, other=0)
        positives = pairs >> 32
        _plus(counts_ptr + bins, pairs - (positives << 32), here)
        _plus(positives_ptr + bins, positives, here)
        _plus(sums_ptr + bins, scores.to(tl.float64) * unit, here)
        tl.store(work_ptr + 8 + bins, pairs * 0, mask=here)
        tl.store(work_ptr + 8 + n_bins + bins, pairs * 0, mask=here)
    if TOTALS:
        programs = tl.arange(0, PROGRAMS)
        inside = programs < n_programs
        parts = parts_ptr + 4 * programs
        _plus(total_ptr, evaluated, True)
        _plus(infinite_ptr, infinite, True)
        _plus(brier_ptr, tl.sum(tl.load(parts, mask=inside, other=0.0)), True)
        _plus(nll_ptr, tl.sum(tl.load(parts + 1, mask=inside, other=0.0)), True)
        if SQUARES:
            _plus(right_ptr, right, True)
            _plus(brier_squares_ptr, tl.sum(tl.load(parts + 2, mask=inside, other=0.0)), True)
            _plus(nll_squares_ptr, tl.sum(tl.load(parts + 3, mask=inside, other=0.0)), True)
    tl.store(work_ptr + kinds, faults * 0)
    tl.store(work_ptr + 4 + kinds, faults * 0)


@triton.jit
def entries_kernel(
    x_ptr, t_ptr, top_ptr, largest_ptr, seen_ptr, far_ptr, uppers_ptr, edges_ptr, scales_ptr, bins_ptr, cells_ptr,
    n, n_classes, depth, sheet_step, class_step, depth_step, scale, n_bins, n_edges,
    FLAT: tl.constexpr, PROBS: tl.constexpr, LOGITS: tl.constexpr, BINS: tl.constexpr, CELLS: tl.constexpr,
    STEPS: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_C: tl.constexpr, DOUBLE: tl.constexpr,
):  # fmt: skip
    """Add each class of good rows to its bins or cells; ``top_ptr`` and ``largest_ptr`` are columns of `rows_kernel`.

    Of most rows nearly all classes are in the first bin, which is added in registers.
    """
    SIZE: tl.constexpr = BLOCK_N * BLOCK_C
    W: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    as_logits = _is_logit(PROBS, LOGITS, seen_ptr, far_ptr)
    classes = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    known = classes < n_classes
    steps = classes.to(tl.int64) * class_step
    pairs = tl.zeros((BLOCK_C,), tl.int64)
    scores = tl.zeros((BLOCK_C,), tl.int64)
    for first in range(tl.program_id(0).to(tl.int64) * BLOCK_N, n, tl.num_programs(0) * BLOCK_N):
        rows = (first + tl.arange(0, BLOCK_N)).to(tl.int64)
        live = rows < n
        top = tl.load(top_ptr + rows, mask=live, other=0.0)
        good = live & (top >= 0)  # of rows that are left out it is -1, of faulty ones NaN
        y = tl.load(t_ptr + rows, mask=good, other=0).to(tl.int64)
        start = _row_start(x_ptr, rows, depth, sheet_step, depth_step, FLAT)
        ok = good[:, None] & known[None, :]
        x = tl.load(start[:, None] + steps[None, :], mask=ok, other=0.0).to(W)
        p = tl.minimum(tl.maximum(x, 0.0), 1.0)
        if LOGITS:
            if as_logits:
                largest = tl.load(largest_ptr + rows, mask=good, other=0.0)
                p = tl.exp(x - largest[:, None]) * top[:, None]
        right = y[:, None] == classes[None, :]
        if BINS:
            units = tl.where(ok, _fixed(p, scale), 0)
            pair = tl.where(ok, 1 + (right.to(tl.int64) << 32), 0)
            low = p <= tl.load(uppers_ptr)
            pairs += tl.sum(tl.where(low, pair, 0), 0)
            scores += tl.sum(tl.where(low, units, 0), 0)
            high = ok & ~low
            if tl.max(tl.reshape(high, (SIZE,)).to(tl.int32), 0) > 0:
                place = _below(tl.reshape(p, (SIZE,)), uppers_ptr, n_bins, SIZE, STEPS)
                place = tl.reshape(tl.minimum(place, n_bins - 1), (BLOCK_N, BLOCK_C))
                at = bins_ptr + place.to(tl.int64) * n_classes + classes[None, :]
                tl.atomic_add(at, pair, mask=high, sem="relaxed")
                tl.atomic_add(at + n_bins * n_classes, units, mask=high, sem="relaxed")
        if CELLS:
            column = classes[None, :].to(tl.int64) + tl.zeros((BLOCK_N, 1), tl.int64)
            at = cells_ptr + tl.reshape(column, (SIZE,)) * (5 * (n_edges + 1))
            flat, outcome, inside = tl.reshape(p, (SIZE,)), tl.reshape(right, (SIZE,)), tl.reshape(ok, (SIZE,))
            _add_to_cells(flat, outcome, inside, at, edges_ptr, scales_ptr, n_edges, SIZE, STEPS)
    if BINS:
        tl.atomic_add(bins_ptr + classes, pairs, mask=known & (pairs > 0), sem="relaxed")
        tl.atomic_add(bins_ptr + n_bins * n_classes + classes, scores, mask=known & (scores > 0), sem="relaxed")


@triton.jit
def class_bins_kernel(bins_ptr, counts_ptr, positives_ptr, sums_ptr, size, unit, BLOCK: tl.constexpr):
    """Move the bins of classes into the states, and set their integers to 0."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    pairs = tl.load(bins_ptr + at, mask=inside, other=0)
    scores = tl.load(bins_ptr + size + at, mask=inside, other=0)
    positives = pairs >> 32
    _plus(counts_ptr + at, pairs - (positives << 32), inside)
    _plus(positives_ptr + at, positives, inside)
    _plus(sums_ptr + at, scores.to(tl.float64) * unit, inside)
    tl.store(bins_ptr + at, pairs * 0, mask=inside)
    tl.store(bins_ptr + size + at, pairs * 0, mask=inside)


@triton.jit
def _slot(cells_ptr, scales_ptr, at, inside, slots, COPIES: tl.constexpr):
    """Return absent and present outcomes and three sums of slots, over all copies, and set their integers to 0."""
    pairs = tl.zeros_like(at).to(tl.int64)
    no, yes, low, high = pairs, pairs, pairs, pairs
    for copy in range(COPIES):
        here = cells_ptr + copy * 5 * slots + at
        pairs += tl.load(here, mask=inside, other=0)
        no += tl.load(here + slots, mask=inside, other=0)
        yes += tl.load(here + 2 * slots, mask=inside, other=0)
        low += tl.load(here + 3 * slots, mask=inside, other=0)
        high += tl.load(here + 4 * slots, mask=inside, other=0)
        for k in tl.static_range(5):
            tl.store(here + k * slots, pairs * 0, mask=inside)
    unit = 1.0 / tl.load(scales_ptr + at, mask=inside, other=1.0).to(tl.float64)
    squares = (high.to(tl.float64) * (1 << 28) + low.to(tl.float64)) * unit * unit
    present = pairs >> 32
    return pairs - (present << 32) - present, present, no.to(tl.float64) * unit, yes.to(tl.float64) * unit, squares


@triton.jit
def cells_kernel(
    cells_ptr,
    scales_ptr,
    work_ptr,
    counts_ptr,
    sums_ptr,
    slots,
    parts,
    cells,
    CHECKED: tl.constexpr,
    PARTS: tl.constexpr,
    COPIES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Move the slots of a grid into the states of its cells: slots 1 to ``parts`` are the first cell.

    The second axis of programs are classes. A faulty row that nobody counts makes all sums NaN.
    """
    cells_ptr += tl.program_id(1).to(tl.int64) * 5 * slots
    counts_ptr += tl.program_id(1).to(tl.int64) * 2 * cells
    sums_ptr += tl.program_id(1).to(tl.int64) * 3 * cells
    faulty = tl.sum(tl.load(work_ptr + tl.arange(0, 4)))
    void = tl.where((faulty > 0) & (not CHECKED), float("nan"), 0.0).to(tl.float64)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = (at < slots) & ((at == 0) | (at > parts))
    absent, present, no, yes, squares = _slot(cells_ptr, scales_ptr, at, inside, slots, COPIES)
    cell = tl.where(at == 0, 0, at - parts + 1)
    _plus(counts_ptr + cell, absent, inside)
    _plus(counts_ptr + cells + cell, present, inside)
    _plus(sums_ptr + cell, no + void, inside)
    _plus(sums_ptr + cells + cell, yes + void, inside)
    _plus(sums_ptr + 2 * cells + cell, squares + void, inside)
    if tl.program_id(0) == 0:
        one = 1 + tl.arange(0, PARTS)
        of_none, of_all, n, y, squared = _slot(cells_ptr, scales_ptr, one, one <= parts, slots, COPIES)
        _plus(counts_ptr + 1, tl.sum(of_none), True)
        _plus(counts_ptr + cells + 1, tl.sum(of_all), True)
        _plus(sums_ptr + 1, tl.sum(n) + void, True)
        _plus(sums_ptr + cells + 1, tl.sum(y) + void, True)
        _plus(sums_ptr + 2 * cells + 1, tl.sum(squared) + void, True)
