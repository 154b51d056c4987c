"""Fast loops for the host's processor, one block of rows at a time.

Each has its readable twin of the same name and signature in `reference`. They release the interpreter lock, allocate
nothing of the input's size, and accumulate in float64 whatever the input's type. Importing this module imports Numba
(about half a second), so it is imported inside functions.

Two things make the reading passes run at the speed of memory:

- The largest entry of a row is found among the *bits* of its floats, seen as integers, because LLVM does not
  vectorise a floating-point maximum. For floats that are not negative the orders agree; for logits ``k ^ ((k >> 31) &
  0x7fffffff)`` turns the sign-magnitude order into the integers' own. Seen as unsigned integers, every NaN, infinity,
  negative number and number above 1 is larger than 1's bits: the same maximum validates the row.
- The exponential is a polynomial with the exponent added into the bits of its result, because Numba has no vector exp.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic, overload

from calibrant.kernels.compiled import inlined, kernel
from calibrant.kernels.reference import BRIER, CLEAN, CORRECT, IGNORED, INFINITE, NLL

_CHUNK = 64  # entries of a row looked at together by the classwise histogram

_f32 = np.float32
_LOG2E = 1.4426950408889634


@intrinsic  # type: ignore[untyped-decorator]
def _bits_of(_context: Any, number: Any) -> Any:
    """See a float's bits as the signed integer of its width."""
    to = {types.float32: types.int32, types.float64: types.int64}[number]

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(to))

    return to(number), generate


@intrinsic  # type: ignore[untyped-decorator]
def _float_of(_context: Any, bits: Any) -> Any:
    """See an integer's bits as the float of its width."""
    to = {types.int32: types.float32, types.uint32: types.float32}.get(bits, types.float64)

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(to))

    return to(bits), generate


@inlined()
def _exp32(x: Any) -> Any:
    """exp(x) for x <= 0 in float32, relative error below 1e-7; exp(-87) for anything smaller.

    x = k ln 2 + r with |r| <= ln(2) / 2: adding 1.5 * 2^23 rounds x / ln 2 to the integer k and leaves k in the low
    bits, whence it is shifted into the exponent. exp(r) is its Taylor polynomial of degree 7 (remainder 5e-9).
    """
    x = max(x, _f32(-87.0))
    shifted = x * _f32(_LOG2E) + _f32(12582912.0)
    k = shifted - _f32(12582912.0)
    r = x - k * _f32(0.693359375)  # ln 2 in two parts: the first has few bits, so that k times it is exact
    r = r - k * _f32(-2.12194440e-4)
    p = _f32(1 / 5040)
    p = p * r + _f32(1 / 720)
    p = p * r + _f32(1 / 120)
    p = p * r + _f32(1 / 24)
    p = p * r + _f32(1 / 6)
    p = p * r + _f32(0.5)
    p = p * r + _f32(1)
    p = p * r + _f32(1)
    return p * _float_of(np.int32((_bits_of(shifted) << np.int32(23)) + np.int32(0x3F800000)))


@inlined()
def _exp64(x: Any) -> Any:
    """exp(x) for x <= 0 in float64, as `_exp32` but of degree 13 (remainder 4e-18); exp(-708) below that."""
    x = max(x, -708.0)
    shifted = x * _LOG2E + 6755399441055744.0
    k = shifted - 6755399441055744.0
    r = x - k * 0.693147180369123816490
    r = r - k * 1.90821492927058770002e-10
    p = 1 / 6227020800
    p = p * r + 1 / 479001600
    p = p * r + 1 / 39916800
    p = p * r + 1 / 3628800
    p = p * r + 1 / 362880
    p = p * r + 1 / 40320
    p = p * r + 1 / 5040
    p = p * r + 1 / 720
    p = p * r + 1 / 120
    p = p * r + 1 / 24
    p = p * r + 1 / 6
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    return p * _float_of(np.int64((_bits_of(shifted) << np.int64(52)) + np.int64(0x3FF0000000000000)))


def _exp(x: Any) -> Any:
    """exp(x) for x <= 0 in the type of x; compiled code sees the overload below."""
    return np.exp(x)


@overload(_exp, jit_options={"fastmath": {"contract"}})  # type: ignore[untyped-decorator]
def _exp_of(x: Any) -> Any:
    narrow = x == types.float32

    def single(x: Any) -> Any:
        return _exp32(x)

    def double(x: Any) -> Any:
        return _exp64(x)

    return single if narrow else double


def _unsigned(floats: Any) -> Any:
    """See an array of floats as the unsigned integers of their width; compiled code sees the overload below."""
    return floats.view(np.uint32 if floats.itemsize == 4 else np.uint64)


@overload(_unsigned)  # type: ignore[untyped-decorator]
def _unsigned_of(floats: Any) -> Any:
    def single(floats: Any) -> Any:
        return floats.view(np.uint32)

    def double(floats: Any) -> Any:
        return floats.view(np.uint64)

    return single if floats.dtype == types.float32 else double


def _signed(floats: Any) -> Any:
    """See an array of floats as the signed integers of their width; compiled code sees the overload below."""
    return floats.view(np.int32 if floats.itemsize == 4 else np.int64)


@overload(_signed)  # type: ignore[untyped-decorator]
def _signed_of(floats: Any) -> Any:
    def single(floats: Any) -> Any:
        return floats.view(np.int32)

    def double(floats: Any) -> Any:
        return floats.view(np.int64)

    return single if floats.dtype == types.float32 else double


@inlined()
def _bounds(uppers: Any) -> Any:
    """Put a number below every score before the largest members of the bins."""
    bounds = np.empty(uppers.shape[0] + 1, uppers.dtype)
    bounds[0] = -1
    bounds[1:] = uppers
    return bounds


@inlined()
def _bin_of(p: Any, bounds: Any) -> Any:
    """Index of the bin with bounds[b] < p <= bounds[b + 1]: floor(p M), off by at most one, corrected without a branch.

    The edges are j / M rounded to the scores' type: for M up to a million the product is in the right bin or beside.
    """
    last = bounds.shape[0] - 2
    b = min(int(np.float64(p) * (last + 1)), last)
    return b - (p <= bounds[b]) + (p > bounds[b + 1])


@inlined(reassociate=True)
def _bin_row(row: Any, y: Any, w: Any, plain: Any, bounds: Any, threshold: Any, histograms: Any) -> Any:
    """Add one row of class probabilities to the histograms of all classes."""
    counts, sums, positives = histograms[0], histograms[1], histograms[2]
    size = row.shape[0]
    if plain:
        # Most classes of most rows fall in the first bin: their scores are added without a branch. A row of
        # probabilities has fewer entries above 1/M than there are bins, and only those are moved to another bin.
        low = bounds[1]
        for start in range(0, size, _CHUNK):
            stop = min(start + _CHUNK, size)
            above = 0
            for j in range(start, stop):
                p = row[j]
                sums[0, j] += np.float64(p) if p <= low else 0.0
                above += p > low
            if above > 0:
                for j in range(start, stop):
                    p = row[j]
                    if p > low:
                        b = _bin_of(p, bounds)
                        counts[b, j] += 1.0
                        counts[0, j] -= 1.0
                        sums[b, j] += np.float64(p)
        positives[_bin_of(row[y], bounds), y] += 1.0
    else:
        for j in range(size):
            p = row[j]
            if p >= threshold:
                b = _bin_of(p, bounds)
                counts[b, j] += w
                sums[b, j] += w * np.float64(p)
        if row[y] >= threshold:
            positives[_bin_of(row[y], bounds), y] += w


@inlined()
def _first_of(row: Any, y: Any, largest: Any) -> Any:
    """Whether entry y is the largest and no earlier entry equals it."""
    if row[y] != largest:
        return False
    earlier = 0
    for j in range(y):
        earlier += row[j] == largest
    return earlier == 0


@inlined()
def _good_probs(row: Any) -> Any:
    """Check slowly a row that holds a bit pattern above 1's: -0.0 is the only good one."""
    for j in range(row.shape[0]):
        if not (row[j] >= 0 and row[j] <= 1):
            return False
    return True


@inlined()
def _largest(row: Any) -> Any:
    largest = row[0]
    for j in range(1, row.shape[0]):
        largest = max(row[j], largest)
    return largest


@kernel(reassociate=True)
def read_probs(
    probs: Any, targets: Any, weights: Any, weighted: Any, tolerance: Any, eps: Any, uppers: Any, threshold: Any,
    top: Any, correct: Any, histograms: Any, totals: Any,
) -> Any:  # fmt: skip
    """See `reference.read_probs`."""
    n, size = probs.shape
    bits = _unsigned(probs)
    one = _unsigned(np.ones(1, dtype=probs.dtype))[0]
    classwise = histograms.size > 0
    plain = not weighted and threshold <= 0.0
    bounds = _bounds(uppers)
    judged = 0
    for i in range(n):
        y = targets[i]
        w = weights[i] if weighted else 1.0
        if y < 0 or w == 0.0:
            top[i] = 0
            correct[i] = IGNORED
            continue
        row = probs[i]
        patterns = bits[i]
        pattern = patterns[0]
        for j in range(size):
            k = patterns[j]
            pattern = k if k > pattern else pattern
        if pattern > one and not _good_probs(row):
            return i
        largest = _largest(row) if pattern > one else _float_of(pattern)
        total = 0.0
        squares = 0.0
        for j in range(size):
            p = np.float64(row[j])
            total += p
            squares += p * p
        if not abs(total - 1.0) <= tolerance:
            return i
        judged += 1
        hit = _first_of(row, y, largest)
        top[i] = largest
        correct[i] = hit
        own = np.float64(row[y])
        totals[BRIER] += w * (squares - 2.0 * own + 1.0)
        own = max(own, eps)
        if own > 0.0:
            totals[NLL] -= w * np.log(own)
        else:
            totals[INFINITE] += w
        if hit:
            totals[CORRECT] += w
        if classwise:
            _bin_row(row, y, w, plain, bounds, threshold, histograms)
    if classwise and plain:
        for j in range(size):
            histograms[0, 0, j] += judged
    return CLEAN


@kernel(reassociate=True)
def read_logits(
    logits: Any, targets: Any, weights: Any, weighted: Any, eps: Any, uppers: Any, threshold: Any,
    top: Any, correct: Any, histograms: Any, totals: Any, probs: Any, keep: Any,
) -> Any:  # fmt: skip
    """See `reference.read_logits`."""
    n, size = logits.shape
    bits = _signed(logits)
    integer = bits.dtype.type
    sign = integer(8 * bits.itemsize - 1)
    magnitude = integer(~(integer(1) << sign))
    infinite = _signed(np.full(1, np.inf, dtype=logits.dtype))[0]
    classwise = histograms.size > 0
    plain = not weighted and threshold <= 0.0
    bounds = _bounds(uppers)
    ceiling = -np.log(eps) if eps > 0.0 else np.inf
    judged = 0
    for i in range(n):
        y = targets[i]
        w = weights[i] if weighted else 1.0
        if y < 0 or w == 0.0:
            top[i] = 0
            correct[i] = IGNORED
            if keep:
                for j in range(size):
                    probs[i, j] = 0
            continue
        row = logits[i]
        patterns = bits[i]
        order = integer(~magnitude)
        farthest = integer(0)
        for j in range(size):
            k = patterns[j]
            m = integer(k & magnitude)
            farthest = m if m > farthest else farthest
            k = integer(k ^ integer(integer(k >> sign) & magnitude))
            order = k if k > order else order
        if farthest >= infinite:
            return i
        largest = _float_of(integer(order ^ integer(integer(order >> sign) & magnitude)))
        soft = probs[i if keep else 0]
        total = 0.0
        squares = 0.0
        if classwise or keep:
            for j in range(size):
                e = _exp(row[j] - largest)
                soft[j] = e
                wide = np.float64(e)
                total += wide
                squares += wide * wide
        else:
            for j in range(size):
                wide = np.float64(_exp(row[j] - largest))
                total += wide
                squares += wide * wide
        judged += 1
        hit = _first_of(row, y, largest)
        top[i] = 1.0 / total
        correct[i] = hit
        shifted = np.float64(row[y]) - np.float64(largest)
        own = np.exp(shifted) / total
        totals[BRIER] += w * (squares / (total * total) - 2.0 * own + 1.0)
        totals[NLL] += w * min(np.log(total) - shifted, ceiling)
        if hit:
            totals[CORRECT] += w
        if classwise or keep:
            share = logits.dtype.type(1.0 / total)
            for j in range(size):
                soft[j] = soft[j] * share
        if classwise:
            _bin_row(soft, y, w, plain, bounds, threshold, histograms)
    if classwise and plain:
        for j in range(size):
            histograms[0, 0, j] += judged
    return CLEAN


@kernel()
def read_events(
    probs: Any, targets: Any, weights: Any, weighted: Any, eps: Any, logits: Any, scoring: Any,
    scores: Any, outcomes: Any, totals: Any,
) -> Any:  # fmt: skip
    """See `reference.read_events`."""
    ceiling = -np.log(eps) if eps > 0.0 else np.inf
    brier = 0.0
    nll = 0.0
    infinite = 0.0
    correct = 0.0
    for i in range(probs.shape[0]):
        y = targets[i]
        w = weights[i] if weighted else 1.0
        if y < 0 or w == 0.0:
            outcomes[i] = IGNORED
            if logits:
                scores[i] = 0
            continue
        value = probs[i]
        x = np.float64(value)
        outcomes[i] = y
        if logits:
            if not np.isfinite(x):
                return i
            e = np.exp(-abs(x))
            p = (1.0 if x >= 0.0 else e) / (1.0 + e)
            scores[i] = p
            if scoring:
                brier += w * (p - y) ** 2
                correct += w if (scores[i] >= 0.5) == (y == 1) else 0.0
                signed = x if y == 1 else -x
                nll += w * min(np.log1p(e) + max(-signed, 0.0), ceiling)
        else:
            if not (x >= 0.0 and x <= 1.0):
                return i
            if scoring:
                brier += w * (x - y) ** 2
                correct += w if (x >= 0.5) == (y == 1) else 0.0
                own = max(x if y == 1 else 1.0 - x, eps)
                if own > 0.0:
                    nll -= w * np.log(own)
                else:
                    infinite += w
    totals[BRIER] += brier
    totals[NLL] += nll
    totals[INFINITE] += infinite
    totals[CORRECT] += correct
    return CLEAN


@kernel()
def bin_rows(scores: Any, outcomes: Any, weights: Any, weighted: Any, uppers: Any, sums: Any) -> Any:
    """See `reference.bin_rows`."""
    bounds = _bounds(uppers)
    cells = np.zeros((uppers.shape[0], 4))  # a bin's four sums beside each other
    for i in range(scores.shape[0]):
        w = weights[i] if weighted else 1.0
        cell = cells[_bin_of(scores[i], bounds)]
        p = np.float64(scores[i])
        y = np.float64(outcomes[i])
        cell[0] += w
        cell[1] += w * p
        cell[2] += w * y
        cell[3] += w * (p - y) * (p - y)
    sums += cells.T


@kernel()
def bin_pooled(scores: Any, counts: Any, positives: Any, uppers: Any, sums: Any) -> Any:
    """See `reference.bin_pooled`."""
    bounds = _bounds(uppers)
    cells = np.zeros((uppers.shape[0], 4))
    for i in range(scores.shape[0]):
        cell = cells[_bin_of(scores[i], bounds)]
        p = np.float64(scores[i])
        n = np.float64(counts[i])
        k = np.float64(positives[i])
        cell[0] += n
        cell[1] += n * p
        cell[2] += k
        cell[3] += (n - k) * p * p + k * (1.0 - p) * (1.0 - p)
    sums += cells.T


@kernel(reassociate=True)
def sum_pooled(scores: Any, counts: Any, positives: Any) -> Any:
    """See `reference.sum_pooled`."""
    total, score_sum, hits, squares = 0.0, 0.0, 0.0, 0.0
    for i in range(scores.shape[0]):
        p = np.float64(scores[i])
        n = np.float64(counts[i])
        k = np.float64(positives[i])
        total += n
        score_sum += n * p
        hits += k
        squares += (n - k) * p * p + k * (1.0 - p) * (1.0 - p)
    return total, score_sum, hits, squares


@kernel()
def count_runs(keys: Any) -> Any:
    """See `reference.count_runs`."""
    if keys.shape[0] == 0:
        return 0
    number = 1
    for i in range(1, keys.shape[0]):
        number += (keys[i] ^ keys[i - 1]) > 1
    return number


@kernel()
def fill_runs(keys: Any, bits: Any, counts: Any, positives: Any) -> Any:
    """See `reference.fill_runs`."""
    run = -1
    current = keys[0]
    for i in range(keys.shape[0]):
        key = keys[i]
        if run < 0 or (key ^ current) > 1:
            run += 1
            current = key
            bits[run] = key >> 1
            counts[run] = 0
            positives[run] = 0
        counts[run] += 1
        positives[run] += np.int64(key & 1)


@inlined()
def _fill(sums: Any, b: Any, mass: Any, score_sum: Any, hits: Any, squares: Any) -> Any:
    """Add the four sums of a run of rows to a bin."""
    sums[0, b] += mass
    sums[1, b] += score_sum
    sums[2, b] += hits
    sums[3, b] += squares


@kernel()
def bin_quantiles(scores: Any, counts: Any, positives: Any, total: Any, sums: Any, uppers: Any) -> Any:
    """See `reference.bin_quantiles`."""
    n_bins = sums.shape[1]
    cumulative = counts[0] - counts[0]
    last = 0
    largest = 0.0
    mass, score_sum, hits, squares = 0.0, 0.0, 0.0, 0.0
    for i in range(scores.shape[0]):
        n = counts[i]
        cumulative += n
        place = n_bins * (2 * cumulative - n)
        if last < n_bins - 1 and place >= 2 * total * (last + 1):
            _fill(sums, last, mass, score_sum, hits, squares)
            mass, score_sum, hits, squares = 0.0, 0.0, 0.0, 0.0
            while last < n_bins - 1 and place >= 2 * total * (last + 1):
                uppers[last] = largest
                last += 1
        p = np.float64(scores[i])
        k = np.float64(positives[i])
        mass += n
        score_sum += n * p
        hits += k
        squares += (n - k) * p * p + k * (1.0 - p) * (1.0 - p)
        largest = p
    _fill(sums, last, mass, score_sum, hits, squares)
    while last < n_bins:
        uppers[last] = largest
        last += 1


@kernel()
def pool_violators(counts: Any, positives: Any, starts: Any) -> Any:
    """See `reference.pool_violators`."""
    mass = np.empty(counts.shape[0])
    hits = np.empty(counts.shape[0])
    blocks = 0
    i = 0
    while i < counts.shape[0]:
        n, k, start = np.float64(counts[i]), np.float64(positives[i]), i
        i += 1
        # Rows whose rate is not larger join at once: of single outcomes, a whole run of ones and then zeros.
        while i < counts.shape[0] and np.float64(positives[i]) * n <= k * np.float64(counts[i]):
            n += np.float64(counts[i])
            k += np.float64(positives[i])
            i += 1
        while blocks > 0 and hits[blocks - 1] * n >= k * mass[blocks - 1]:
            blocks -= 1
            n += mass[blocks]
            k += hits[blocks]
            start = starts[blocks]
        mass[blocks], hits[blocks], starts[blocks] = n, k, start
        blocks += 1
    return blocks


@kernel(reassociate=True)
def residuals(scores: Any, outcomes: Any, weights: Any, weighted: Any, out: Any) -> Any:
    """See `reference.residuals`."""
    total = 0.0
    size = 0.0
    for i in range(scores.shape[0]):
        r = np.float64(outcomes[i]) - np.float64(scores[i])
        if weighted:
            r *= weights[i]
        out[i] = r
        total += r
        size += abs(r)
    return total, size


@kernel()
def residual_moments(scores: Any, residuals: Any, moments: Any) -> Any:
    """See `reference.residual_moments`."""
    n_cells = moments.shape[0]
    for i in range(scores.shape[0]):
        place = np.float64(scores[i]) * n_cells
        c = min(int(place), n_cells - 1)
        d = place - c - 0.5
        r = residuals[i]
        cell = moments[c]
        cell[0] += r
        r *= d
        cell[1] += r
        r *= d
        cell[2] += r
        r *= d
        cell[3] += r
        r *= d
        cell[4] += r
        r *= d
        cell[5] += r


@kernel()
def cosine_sums(scores: Any, residuals: Any, coefficients: Any) -> Any:
    """See `reference.cosine_sums`: each row is turned by its own angle again and again, error about k times 1e-16."""
    for i in range(scores.shape[0]):
        angle = np.pi * np.float64(scores[i])
        c, s = np.cos(angle), np.sin(angle)
        x, y = residuals[i], 0.0
        for k in range(coefficients.shape[0]):
            coefficients[k] += x
            x, y = x * c - y * s, x * s + y * c
