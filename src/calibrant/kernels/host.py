"""Fast loops for the host's processor over predictions: one read of a block of rows. `host_tables` does the rest.

Each has its readable version of the same name and signature in `reference`. They release the interpreter lock, allocate
nothing of the input's size, and accumulate in float64 for every input type. Importing this module imports Numba
(about half a second), so it is imported inside functions.

The reading passes run at the speed of memory: `bits` explains how. They index the full array where they can. A view of
a row counts its references atomically and costs some 10 ns, more than the other work on a row of ten classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.kernels import reference
from calibrant.kernels.bin_lookup import CHUNK, LINE, add_tallies, add_tally, bin_of, cell_of, start_of, tallies_of
from calibrant.kernels.bits import bits_of, exp, float_of, log, signed, unsigned
from calibrant.kernels.compiled import inlined, kernel
from calibrant.kernels.reference import BRIER, BRIER_SQUARES, CLEAN, CORRECT, IGNORED, INFINITE, NLL, NLL_SQUARES


@inlined(reassociate=True)
def _bin_row(
    rows: Any, i: Any, y: Any, w: Any, plain: Any, uppers: Any, threshold: Any, counts: Any, sums: Any, positives: Any
) -> Any:
    """Add one row of class probabilities to the histograms of all classes."""
    row = rows[i]
    size = row.shape[0]
    if plain:
        # Most classes of most rows are in the first bin: their scores are added without a branch. A row of
        # probabilities has fewer entries above 1/M than there are bins: only those move to another bin.
        low = uppers[0]
        for start in range(0, size, CHUNK):
            part, lowest = row[start : start + CHUNK], sums[0, start : start + CHUNK]
            above = 0
            for j in range(part.shape[0]):
                p = part[j]
                lowest[j] += np.float64(p) if p <= low else 0.0
                above += p > low
            if above > 0:
                for j in range(part.shape[0]):
                    p = part[j]
                    if p > low:
                        b, k = bin_of(p, uppers), start + j
                        counts[b, k] += 1.0
                        counts[0, k] -= 1.0
                        sums[b, k] += np.float64(p)
        positives[bin_of(row[y], uppers), y] += 1.0
    else:
        for j in range(size):
            p = row[j]
            if p >= threshold:
                b = bin_of(p, uppers)
                counts[b, j] += w
                sums[b, j] += w * np.float64(p)
        if row[y] >= threshold:
            positives[bin_of(row[y], uppers), y] += w


@inlined()
def _first_of(rows: Any, i: Any, y: Any, largest: Any) -> Any:
    """Return whether entry y of a row is the largest and no earlier entry equals it."""
    if rows[i, y] != largest:
        return False
    earlier = 0
    for j in range(y):
        earlier += rows[i, j] == largest
    return earlier == 0


@inlined()
def _good_probs(rows: Any, i: Any) -> Any:
    """Return whether a row with a bit pattern above that of 1 is valid: only -0.0 is allowed."""
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


@kernel(reference.read_probs, reassociate=True)
def read_probs(
    probs: Any,
    targets: Any,
    weights: Any,
    weighted: Any,
    tolerance: Any,
    eps: Any,
    scoring: Any,
    uppers: Any,
    threshold: Any,
    top: Any,
    correct: Any,
    histograms: Any,
    totals: Any,
) -> Any:
    """See `reference.read_probs`."""
    n, size = probs.shape
    bits = unsigned(probs)
    one = unsigned(np.ones(1, dtype=probs.dtype))[0]
    classwise = histograms.size > 0
    plain = not weighted and threshold <= 0.0
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
            p_target = np.float64(probs[i, y])
            brier = squares - 2.0 * p_target + 1.0
            totals[BRIER] += w * brier
            totals[BRIER_SQUARES] += w * brier * brier
            p_target = max(p_target, eps)
            if p_target > 0.0:
                loss = -np.log(p_target)
                totals[NLL] += w * loss
                totals[NLL_SQUARES] += w * loss * loss
            else:
                totals[INFINITE] += w
            totals[CORRECT] += w * hit
        if classwise:
            _bin_row(probs, i, y, w, plain, uppers, threshold, counts, sums, positives)
    if classwise and plain:
        for j in range(size):
            counts[0, j] += judged
    return CLEAN


@kernel(reference.read_logits, reassociate=True)
def read_logits(
    logits: Any,
    targets: Any,
    weights: Any,
    weighted: Any,
    eps: Any,
    scoring: Any,
    uppers: Any,
    threshold: Any,
    top: Any,
    correct: Any,
    histograms: Any,
    totals: Any,
    probs: Any,
    keep: Any,
) -> Any:
    """See `reference.read_logits`."""
    n, size = logits.shape
    bits = signed(logits)
    integer = bits.dtype.type
    sign = integer(8 * bits.itemsize - 1)
    magnitude = integer(~(integer(1) << sign))
    infinite = signed(np.full(1, np.inf, dtype=logits.dtype))[0]
    classwise = histograms.size > 0
    plain = not weighted and threshold <= 0.0
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
        masks = farthest >= infinite  # or holds what is no logit
        if masks and not _masks_some(logits, i):
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
            p_target = np.exp(shifted) / total
            brier = squares / (total * total) - 2.0 * p_target + 1.0
            loss = min(np.log(total) - shifted, ceiling)
            totals[BRIER] += w * brier
            totals[BRIER_SQUARES] += w * brier * brier
            if loss == np.inf:
                totals[INFINITE] += w
                loss = 0.0
            totals[NLL] += w * loss
            totals[NLL_SQUARES] += w * loss * loss
            totals[CORRECT] += w * hit
        if classwise or keep:
            share = logits.dtype.type(1.0 / total)
            for j in range(size):
                probs[at, j] = probs[at, j] * share
            if masks:  # `exp` gives the least positive number there
                for j in range(size):
                    if logits[i, j] == -np.inf:
                        probs[at, j] = 0
        if classwise:
            _bin_row(probs, at, y, w, plain, uppers, threshold, counts, sums, positives)
    if classwise and plain:
        for j in range(size):
            counts[0, j] += judged
    return CLEAN


@inlined()
def _masks_some(logits: Any, i: Any) -> Any:
    """Return whether a row has a finite logit, and -inf wherever it has none: those classes have probability 0."""
    some = False
    for j in range(logits.shape[1]):
        x = logits[i, j]
        if not x < np.inf:  # NaN too
            return False
        some = some or x > -np.inf
    return some


@inlined()
def _losses(p_outcome: Any, mass: Any, n: Any) -> Any:
    """Return the sums of w loss and w loss^2 over rows with these probabilities, above 0, of their outcomes.

    The logarithms are taken in vector lanes and stored in ``p_outcome``. The sums keep the order of the rows. So every
    variant of the calling kernel gives the same bits, however many rows were left out before.
    """
    for i in range(n):
        p_outcome[i] = -log(p_outcome[i])
    nll = 0.0
    nll_squares = 0.0
    for i in range(n):
        loss = p_outcome[i]
        nll += mass[i] * loss
        nll_squares += mass[i] * loss * loss
    return nll, nll_squares


@kernel(reference.read_events)
def read_events(
    probs: Any,
    targets: Any,
    weights: Any,
    weighted: Any,
    eps: Any,
    logits: Any,
    scoring: Any,
    scores: Any,
    outcomes: Any,
    totals: Any,
) -> Any:
    """See `reference.read_events`."""
    ceiling = -np.log(eps) if eps > 0.0 else np.inf
    brier = 0.0
    brier_squares = 0.0
    nll = 0.0
    nll_squares = 0.0
    infinite = 0.0
    correct = 0.0
    p_outcomes = np.empty(CHUNK)  # probabilities of the outcomes; their logarithms are taken together, in lanes
    mass = np.empty(CHUNK)
    n_held = 0
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
                p_outcome = max(x if y == 1 else 1.0 - x, eps)
                infinite_loss = p_outcome <= 0.0
                infinite += w if infinite_loss else 0.0
                p_outcomes[n_held] = 1.0 if infinite_loss else p_outcome
                mass[n_held] = w
                n_held += 1
                if n_held == CHUNK:
                    losses = _losses(p_outcomes, mass, n_held)
                    nll += losses[0]
                    nll_squares += losses[1]
                    n_held = 0
    losses = _losses(p_outcomes, mass, n_held)
    nll += losses[0]
    nll_squares += losses[1]
    totals[BRIER] += brier
    totals[BRIER_SQUARES] += brier_squares
    totals[NLL] += nll
    totals[NLL_SQUARES] += nll_squares
    totals[INFINITE] += infinite
    totals[CORRECT] += correct
    return CLEAN


@kernel(reference.tally_classes, reassociate=True)
def tally_classes(probs: Any, targets: Any, tolerance: Any, uppers: Any, sums: Any, keys: Any) -> Any:
    """See `reference.tally_classes`."""
    n, size = probs.shape
    bits = unsigned(probs)
    one = unsigned(np.ones(1, dtype=probs.dtype))[0]
    keep = keys.shape[0] > 0
    tallies = tallies_of(uppers.shape[0])
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
        same = np.int32(0)  # as wide as a bit pattern, so that lanes match
        for j in range(size):
            same = np.int32(same + np.int32(bits[i, j] == pattern))
        hit = probs[i, y] == largest  # no branch: no processor can predict which rows are right
        if same > 1:
            hit = _first_of(probs, i, y, largest)
        if keep:
            keys[i] = 2 * np.int64(pattern) + np.int64(hit)
        else:
            add_tally(largest, hit, i & 1, uppers, tallies)
    add_tallies(tallies, sums)
    return CLEAN


@kernel(reference.tally_events)
def tally_events(probs: Any, targets: Any, fold: Any, half: Any, uppers: Any, sums: Any, keys: Any) -> Any:
    """See `reference.tally_events`."""
    bits = unsigned(probs)
    unit = np.ones(1, dtype=probs.dtype)  # for 1 - p in the type of p
    one = unsigned(unit)[0]
    keep = keys.shape[0] > 0
    tallies = tallies_of(uppers.shape[0])
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
            add_tally(p, y, i & 1, uppers, tallies)
    add_tallies(tallies, sums)
    return CLEAN


@kernel(reference.sum_events)
def sum_events(
    probs: Any, targets: Any, edges: Any, starts: Any, shift: Any, first: Any, cells: Any, totals: Any
) -> Any:
    """See `reference.sum_events`."""
    one, half = probs.dtype.type(1), probs.dtype.type(0.5)
    places, losses = np.empty(CHUNK, np.uint32), np.empty(CHUNK)
    sums = np.zeros(cells.shape[0] * LINE)
    # A sum for each entry of a chunk: one sum of all rows would be slower, since every addition waits for the last.
    brier, brier_squares, nll, nll_squares = np.zeros(CHUNK), np.zeros(CHUNK), np.zeros(CHUNK), np.zeros(CHUNK)
    infinite: Any = 0  # integers: a sum of floats would prevent vector lanes
    correct: Any = 0
    for begin in range(0, probs.shape[0], CHUNK):
        size = min(CHUNK, probs.shape[0] - begin)
        scores, outcomes = probs[begin : begin + size], targets[begin : begin + size]
        wrong = 0
        for j in range(size):
            p, y = scores[j], outcomes[j]
            wrong += (not (p >= 0)) | (not (p <= one)) | ((y != 0) & (y != 1))
            places[j] = start_of(p, one, shift, first)
            x = np.float64(p)
            p_outcome = x if y == 1 else 1.0 - x
            miss = 1.0 - x if y == 1 else x
            square = miss * miss
            brier[j] += square
            brier_squares[j] += square * square
            losses[j] = 1.0 if p_outcome <= 0.0 else p_outcome
            infinite += p_outcome <= 0.0
            correct += (p >= half) == (y == 1)
        if wrong:
            for j in range(size):
                p, y = scores[j], outcomes[j]
                if not (p >= 0 and p <= one) or (y != 0 and y != 1):
                    return begin + j
        for j in range(size):
            loss = -log(losses[j])
            nll[j] += loss
            nll_squares[j] += loss * loss
        for j in range(size):
            places[j] = np.uint32(LINE) * np.uint32(cell_of(scores[j], starts[places[j]], edges))
        for j in range(size):
            x, cell = np.float64(scores[j]), np.uint64(places[j])
            own = cell + np.uint64(outcomes[j])
            sums[own] += 1.0
            sums[own + np.uint64(2)] += x
            sums[cell + np.uint64(4)] += x * x
    for i in range(cells.shape[0]):
        for j in range(cells.shape[1]):
            cells[i, j] += sums[LINE * i + j]
    totals[BRIER] += brier.sum()
    totals[BRIER_SQUARES] += brier_squares.sum()
    totals[NLL] += nll.sum()
    totals[NLL_SQUARES] += nll_squares.sum()
    totals[INFINITE] += infinite
    totals[CORRECT] += correct
    return CLEAN
