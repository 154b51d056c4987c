"""Fast loops for the host's processor, one block of rows at a time.

Each has its readable twin of the same name and signature in `reference`. They release the interpreter lock, allocate
nothing of the input's size, and accumulate in float64 whatever the input's type. Importing this module imports Numba
(about half a second), so it is imported inside functions.

The reading passes run at the speed of memory: see `bits` for how. They index whole arrays where they can: a view of
a row counts its references atomically, some 10 ns, more than the other work on a row of ten classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.kernels.bits import bits_of, exp, float_of, log, signed, unsigned
from calibrant.kernels.compiled import inlined, kernel
from calibrant.kernels.reference import BRIER, BRIER_SQUARES, CLEAN, CORRECT, IGNORED, INFINITE, NLL, NLL_SQUARES

_CHUNK = 64  # entries looked at together: of a row by the classwise histogram, of rows by their logarithms


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
def _bin_row(
    rows: Any, i: Any, y: Any, w: Any, plain: Any, bounds: Any, threshold: Any, counts: Any, sums: Any, positives: Any
) -> Any:
    """Add one row of class probabilities to the histograms of all classes."""
    row = rows[i]
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
def _first_of(rows: Any, i: Any, y: Any, largest: Any) -> Any:
    """Whether entry y of a row is the largest and no earlier entry equals it."""
    if rows[i, y] != largest:
        return False
    earlier = 0
    for j in range(y):
        earlier += rows[i, j] == largest
    return earlier == 0


@inlined()
def _good_probs(rows: Any, i: Any) -> Any:
    """Check slowly a row that holds a bit pattern above 1's: -0.0 is the only good one."""
    for j in range(rows.shape[1]):
        if not (rows[i, j] >= 0 and rows[i, j] <= 1):
            return False
    return True


@inlined()
def _largest(rows: Any, i: Any) -> Any:
    largest = rows[i, 0]
    for j in range(1, rows.shape[1]):
        largest = max(rows[i, j], largest)
    return largest


@kernel(reassociate=True)
def read_probs(
    probs: Any, targets: Any, weights: Any, weighted: Any, tolerance: Any, eps: Any, scoring: Any, uppers: Any,
    threshold: Any, top: Any, correct: Any, histograms: Any, totals: Any,
) -> Any:  # fmt: skip
    """See `reference.read_probs`."""
    n, size = probs.shape
    bits = unsigned(probs)
    one = unsigned(np.ones(1, dtype=probs.dtype))[0]
    classwise = histograms.size > 0
    plain = not weighted and threshold <= 0.0
    bounds = _bounds(uppers)
    counts, sums, positives = histograms[0], histograms[1], histograms[2]
    judged = 0
    for i in range(n):
        y = targets[i]
        w = weights[i] if weighted else 1.0
        if y < 0 or w == 0.0:
            top[i] = 0
            correct[i] = IGNORED
            continue
        pattern = bits[i, 0]
        for j in range(size):
            k = bits[i, j]
            pattern = k if k > pattern else pattern
        if pattern > one and not _good_probs(probs, i):
            return i
        largest = _largest(probs, i) if pattern > one else float_of(pattern)
        total = 0.0
        squares = 0.0
        for j in range(size):
            p = np.float64(probs[i, j])
            total += p
            squares += p * p
        if not abs(total - 1.0) <= tolerance:
            return i
        judged += 1
        hit = _first_of(probs, i, y, largest)
        top[i] = largest
        correct[i] = hit
        if scoring:
            own = np.float64(probs[i, y])
            brier = squares - 2.0 * own + 1.0
            totals[BRIER] += w * brier
            totals[BRIER_SQUARES] += w * brier * brier
            own = max(own, eps)
            if own > 0.0:
                loss = -np.log(own)
                totals[NLL] += w * loss
                totals[NLL_SQUARES] += w * loss * loss
            else:
                totals[INFINITE] += w
            totals[CORRECT] += w * hit
        if classwise:
            _bin_row(probs, i, y, w, plain, bounds, threshold, counts, sums, positives)
    if classwise and plain:
        for j in range(size):
            counts[0, j] += judged
    return CLEAN


@kernel(reassociate=True)
def read_logits(
    logits: Any, targets: Any, weights: Any, weighted: Any, eps: Any, scoring: Any, uppers: Any, threshold: Any,
    top: Any, correct: Any, histograms: Any, totals: Any, probs: Any, keep: Any,
) -> Any:  # fmt: skip
    """See `reference.read_logits`."""
    n, size = logits.shape
    bits = signed(logits)
    integer = bits.dtype.type
    sign = integer(8 * bits.itemsize - 1)
    magnitude = integer(~(integer(1) << sign))
    infinite = signed(np.full(1, np.inf, dtype=logits.dtype))[0]
    classwise = histograms.size > 0
    plain = not weighted and threshold <= 0.0
    bounds = _bounds(uppers)
    counts, sums, positives = histograms[0], histograms[1], histograms[2]
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
        order = integer(~magnitude)
        farthest = integer(0)
        for j in range(size):
            k = bits[i, j]
            m = integer(k & magnitude)
            farthest = m if m > farthest else farthest
            k = integer(k ^ integer(integer(k >> sign) & magnitude))
            order = k if k > order else order
        if farthest >= infinite:
            return i
        largest = float_of(integer(order ^ integer(integer(order >> sign) & magnitude)))
        at = i if keep else 0
        total = 0.0
        squares = 0.0
        if classwise or keep:
            for j in range(size):
                e = exp(logits[i, j] - largest)
                probs[at, j] = e
                wide = np.float64(e)
                total += wide
                squares += wide * wide
        else:
            for j in range(size):
                wide = np.float64(exp(logits[i, j] - largest))
                total += wide
                squares += wide * wide
        judged += 1
        hit = _first_of(logits, i, y, largest)
        top[i] = 1.0 / total
        correct[i] = hit
        if scoring:
            shifted = np.float64(logits[i, y]) - np.float64(largest)
            own = np.exp(shifted) / total
            brier = squares / (total * total) - 2.0 * own + 1.0
            loss = min(np.log(total) - shifted, ceiling)
            totals[BRIER] += w * brier
            totals[BRIER_SQUARES] += w * brier * brier
            totals[NLL] += w * loss
            totals[NLL_SQUARES] += w * loss * loss
            totals[CORRECT] += w * hit
        if classwise or keep:
            share = logits.dtype.type(1.0 / total)
            for j in range(size):
                probs[at, j] = probs[at, j] * share
        if classwise:
            _bin_row(probs, at, y, w, plain, bounds, threshold, counts, sums, positives)
    if classwise and plain:
        for j in range(size):
            counts[0, j] += judged
    return CLEAN


@inlined()
def _losses(given: Any, mass: Any, n: Any) -> Any:
    """Sum up w loss and w loss^2 over rows that gave these probabilities, above 0, to what happened.

    The logarithms are taken in vector lanes and left in ``given``; the sums keep the order of the rows, so that every
    variant of the kernel that calls this, and every number of rows left out before, gives the same bits.
    """
    for i in range(n):
        given[i] = -log(given[i])
    nll = 0.0
    nll_squares = 0.0
    for i in range(n):
        loss = given[i]
        nll += mass[i] * loss
        nll_squares += mass[i] * loss * loss
    return nll, nll_squares


@kernel()
def read_events(
    probs: Any, targets: Any, weights: Any, weighted: Any, eps: Any, logits: Any, scoring: Any,
    scores: Any, outcomes: Any, totals: Any,
) -> Any:  # fmt: skip
    """See `reference.read_events`."""
    ceiling = -np.log(eps) if eps > 0.0 else np.inf
    brier = 0.0
    brier_squares = 0.0
    nll = 0.0
    nll_squares = 0.0
    infinite = 0.0
    correct = 0.0
    given = np.empty(_CHUNK)  # what judged rows gave to what happened: their logarithms are taken together, in lanes
    mass = np.empty(_CHUNK)
    held = 0
    for i in range(probs.shape[0]):
        y = targets[i]
        w = weights[i] if weighted else 1.0
        if y < 0 or w == 0.0:
            outcomes[i] = IGNORED
            if logits:
                scores[i] = 0
            continue
        x = np.float64(probs[i])
        outcomes[i] = y
        if logits:
            if not np.isfinite(x):
                return i
            e = np.exp(-abs(x))
            p = (1.0 if x >= 0.0 else e) / (1.0 + e)
            scores[i] = p
            if scoring:
                square = (p - y) ** 2
                brier += w * square
                brier_squares += w * square * square
                correct += w if (scores[i] >= 0.5) == (y == 1) else 0.0
                signed = x if y == 1 else -x
                loss = min(np.log1p(e) + max(-signed, 0.0), ceiling)
                nll += w * loss
                nll_squares += w * loss * loss
        else:
            if not (x >= 0.0 and x <= 1.0):
                return i
            if scoring:
                square = (x - y) ** 2
                brier += w * square
                brier_squares += w * square * square
                correct += w if (x >= 0.5) == (y == 1) else 0.0
                own = max(x if y == 1 else 1.0 - x, eps)
                lost = own <= 0.0
                infinite += w if lost else 0.0
                given[held] = 1.0 if lost else own
                mass[held] = w
                held += 1
                if held == _CHUNK:
                    losses = _losses(given, mass, held)
                    nll += losses[0]
                    nll_squares += losses[1]
                    held = 0
    losses = _losses(given, mass, held)
    nll += losses[0]
    nll_squares += losses[1]
    totals[BRIER] += brier
    totals[BRIER_SQUARES] += brier_squares
    totals[NLL] += nll
    totals[NLL_SQUARES] += nll_squares
    totals[INFINITE] += infinite
    totals[CORRECT] += correct
    return CLEAN


@kernel(reassociate=True)
def tally_classes(probs: Any, targets: Any, tolerance: Any, uppers: Any, sums: Any, keys: Any) -> Any:
    """See `reference.tally_classes`."""
    n, size = probs.shape
    bits = unsigned(probs)
    one = unsigned(np.ones(1, dtype=probs.dtype))[0]
    keep = keys.shape[0] > 0
    bounds = _bounds(uppers)
    n_bins = uppers.shape[0]
    cells = np.zeros((2 * n_bins, 4))  # twice, rows in turn, so that none waits; of four columns one is padding
    for i in range(n):
        y = targets[i]
        if y < 0 or y >= size:
            return i
        pattern = bits[i, 0]
        total = 0.0
        for j in range(size):
            k = bits[i, j]
            pattern = k if k > pattern else pattern
        for j in range(size):
            total += np.float64(probs[i, j])
        if pattern > one or not abs(total - 1.0) <= tolerance:
            return i
        largest = float_of(pattern)
        same = np.int32(0)  # as wide as a pattern, so that lanes match
        for j in range(size):
            same = np.int32(same + np.int32(bits[i, j] == pattern))
        hit = probs[i, y] == largest  # no branch: nobody can foresee which rows are right
        if same > 1:
            hit = _first_of(probs, i, y, largest)
        if keep:
            keys[i] = 2 * np.int64(pattern) + np.int64(hit)
        else:
            b = _bin_of(largest, bounds) + n_bins * (i & 1)
            cells[b, 0] += 1.0
            cells[b, 1] += np.float64(largest)
            cells[b, 2] += hit
    sums += (cells[:n_bins] + cells[n_bins:]).T[:3]
    return CLEAN


@kernel()
def tally_events(probs: Any, targets: Any, fold: Any, half: Any, uppers: Any, sums: Any, keys: Any) -> Any:
    """See `reference.tally_events`."""
    bits = unsigned(probs)
    unit = np.ones(1, dtype=probs.dtype)  # 1 - p in the type of p
    one = unsigned(unit)[0]
    keep = keys.shape[0] > 0
    bounds = _bounds(uppers)
    n_bins = uppers.shape[0]
    cells = np.zeros((2 * n_bins, 4))  # as in tally_classes
    for i in range(probs.shape[0]):
        y = targets[i]
        if y < 0 or y > 1 or bits[i] > one:
            return i
        p = probs[i]
        if fold:
            predicts = p > 0.5 or (p == 0.5 and half)
            y = 1 if predicts == (y == 1) else 0
            p = max(p, unit[0] - p)
        if keep:
            keys[i] = 2 * np.int64(bits_of(p)) + y
        else:
            b = _bin_of(p, bounds) + n_bins * (i & 1)
            cells[b, 0] += 1.0
            cells[b, 1] += np.float64(p)
            cells[b, 2] += y
    sums += (cells[:n_bins] + cells[n_bins:]).T[:3]
    return CLEAN


@kernel()
def bin_rows(scores: Any, outcomes: Any, weights: Any, weighted: Any, uppers: Any, sums: Any) -> Any:
    """See `reference.bin_rows`."""
    bounds = _bounds(uppers)
    n_bins = uppers.shape[0]
    cells = np.zeros((2 * n_bins, 4))  # a bin's four sums beside each other, twice: rows in turn, so that none waits
    for i in range(scores.shape[0]):
        w = weights[i] if weighted else 1.0
        b = _bin_of(scores[i], bounds) + n_bins * (i & 1)
        p = np.float64(scores[i])
        y = np.float64(outcomes[i])
        cells[b, 0] += w
        cells[b, 1] += w * p
        cells[b, 2] += w * y
        cells[b, 3] += w * (p - y) * (p - y)
    sums += (cells[:n_bins] + cells[n_bins:]).T


@kernel()
def cell_rows(
    scores: Any, outcomes: Any, weights: Any, weighted: Any, edges: Any, low: Any, high: Any, shift: Any, first: Any,
    sums: Any,
) -> Any:  # fmt: skip
    """See `reference.cell_rows`."""
    one, half, size = scores.dtype.type(1), scores.dtype.type(0.5), sums.shape[0]
    for i in range(scores.shape[0]):
        p = scores[i]
        bucket = max(np.int64(bits_of(min(p, one - p)) >> shift) - first, 0)
        cell = np.int64(high[bucket] if p > half else low[bucket])
        cell += p > edges[cell]
        cell += p > edges[cell]
        while p > edges[cell]:  # never so far: the lookup is fine enough for two steps
            cell += 1
        cell = size - 1 if p == one else cell
        y = np.int64(outcomes[i])
        w = weights[i] if weighted else 1.0
        x = w * np.float64(p)
        sums[cell, y] += w
        sums[cell, 2 + y] += x
        sums[cell, 4] += x * np.float64(p)
        if weighted:
            sums[cell, 5 + y] += w * w


@kernel()
def bin_pooled(scores: Any, counts: Any, positives: Any, uppers: Any, sums: Any) -> Any:
    """See `reference.bin_pooled`."""
    bounds = _bounds(uppers)
    cells = np.zeros((uppers.shape[0], 4))
    for i in range(scores.shape[0]):
        b = _bin_of(scores[i], bounds)
        p = np.float64(scores[i])
        n = np.float64(counts[i])
        k = np.float64(positives[i])
        cells[b, 0] += n
        cells[b, 1] += n * p
        cells[b, 2] += k
        cells[b, 3] += (n - k) * p * p + k * (1.0 - p) * (1.0 - p)
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
