"""Fast loops for the host's processor over predictions: one read of a block of rows. `host_tables` does the rest.

Each has its readable version of the same name and signature in `reference`. They release the interpreter lock, allocate
nothing of the input's size, and accumulate in float64 for every input type. Importing this module imports Numba
(about half a second), so it is imported inside functions.

The reading passes run at the speed of memory: `inlined` explains how. They index the full array where they can. A view
of a row counts its references atomically and costs some 10 ns, more than the other work on a row of ten classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.kernels import reference
from calibrant.kernels.compiled import exact, inlined, kernel, pasted
from calibrant.kernels.inlined import (
    CHUNK,
    LINE,
    add_tallies,
    add_tally,
    added,
    bin_of,
    bits_of,
    cell_of,
    exp,
    float_of,
    log,
    place_of,
    signed,
    start_of,
    tallies_of,
    unsigned,
)
from calibrant.kernels.reference import (
    BRIER,
    BRIER_SQUARES,
    CLEAN,
    CORRECT,
    IGNORED,
    INFINITE,
    N_TOTALS,
    NLL,
    NLL_SQUARES,
)


@inlined(reassociate=True)
def _bin_row(rows: Any, i: Any, y: Any, w: Any, plain: Any, uppers: Any, threshold: Any, histograms: Any) -> Any:
    """Add one row of class probabilities to the histograms of all classes."""
    row = rows[i]
    size = row.shape[0]
    counts, sums, positives = histograms[0, 0], histograms[0, 1], histograms[0, 2]
    lost_counts, lost_sums, lost_positives = histograms[1, 0], histograms[1, 1], histograms[1, 2]
    if plain:
        # Most classes of most rows are in the first bin: their scores are added without a branch. A row of
        # probabilities has fewer entries above 1/M than there are bins: only those move to another bin.
        low = uppers[0]
        for start in range(0, size, CHUNK):
            stop = start + CHUNK
            part, lowest, lost = row[start:stop], sums[0, start:stop], lost_sums[0, start:stop]
            above = 0
            for j in range(part.shape[0]):
                p = part[j]
                lowest[j], lost[j] = added(lowest[j], lost[j], np.float64(p) if p <= low else 0.0)
                above += p > low
            if above > 0:
                for j in range(part.shape[0]):
                    p = part[j]
                    if p > low:
                        b, k = bin_of(p, uppers), start + j
                        counts[b, k] += 1.0
                        counts[0, k] -= 1.0
                        sums[b, k], lost_sums[b, k] = added(sums[b, k], lost_sums[b, k], np.float64(p))
        positives[bin_of(row[y], uppers), y] += 1.0
    else:
        for j in range(size):
            p = row[j]
            if p >= threshold:
                b = bin_of(p, uppers)
                counts[b, j], lost_counts[b, j] = added(counts[b, j], lost_counts[b, j], w)
                sums[b, j], lost_sums[b, j] = added(sums[b, j], lost_sums[b, j], w * np.float64(p))
        if row[y] >= threshold:
            b = bin_of(row[y], uppers)
            positives[b, y], lost_positives[b, y] = added(positives[b, y], lost_positives[b, y], w)


@inlined()
def _first_of(rows: Any, i: Any, y: Any, largest: Any) -> Any:
    """Return whether entry y of a row is the largest and no earlier entry equals it."""
    if rows[i, y] != largest:
        return False
    earlier = 0
    for j in range(y):
        earlier += rows[i, j] == largest
    return earlier == 0


@pasted
def _largest_pattern(bits: Any, i: Any) -> Any:
    pattern = bits[i, 0]
    for j in range(bits.shape[1]):
        k = bits[i, j]
        pattern = k if k > pattern else pattern
    return pattern


@inlined()
def _valid_probs(rows: Any, i: Any) -> Any:
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


@exact
def _add_scores(totals: Any, w: Any, brier: Any, loss: Any, hit: Any) -> None:
    """Add the scores of one row of class probabilities to the totals."""
    infinite = loss == np.inf
    loss = 0.0 if infinite else loss
    terms = (brier, loss, np.float64(infinite), np.float64(hit), brier * brier, loss * loss)
    for k in range(N_TOTALS):
        totals[0, k], totals[1, k] = added(totals[0, k], totals[1, k], w * terms[k])


@kernel(reference.read_probs, reassociate=True)
def read_probs(
    probs: Any,
    targets: Any,
    weights: Any,
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
    weighted, classwise = weights.shape[0] > 0, histograms.size > 0
    plain = classwise & (not weighted) & (threshold <= 0.0)
    n_evaluated = 0
    for i in range(n):
        y = targets[i]
        w = weights[i] if weighted else 1.0
        if y < 0 or w == 0.0:
            top[i] = 0
            correct[i] = IGNORED
            continue
        pattern = _largest_pattern(bits, i)
        if pattern > one and not _valid_probs(probs, i):
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
        n_evaluated += 1
        hit = _first_of(probs, i, y, largest)
        top[i] = largest
        correct[i] = hit
        if scoring:
            p_target = np.float64(probs[i, y])
            _add_scores(totals, w, squares - 2.0 * p_target + 1.0, -np.log(max(p_target, eps)), hit)
        if classwise:
            _bin_row(probs, i, y, w, plain, uppers, threshold, histograms)
    if plain:
        histograms[0, 0, 0] += n_evaluated
    return CLEAN


@pasted
def _largest_logit(bits: Any, i: Any, sign: Any, magnitude: Any) -> Any:
    """Return the bits of a row's largest logit, and the largest bits of all without their signs."""
    integer = bits.dtype.type
    order = integer(~magnitude)
    farthest = integer(0)
    for j in range(bits.shape[1]):
        k = bits[i, j]
        m = integer(k & magnitude)
        farthest = m if m > farthest else farthest
        k = integer(k ^ integer(integer(k >> sign) & magnitude))
        order = k if k > order else order
    return integer(order ^ integer(integer(order >> sign) & magnitude)), farthest


@inlined()
def _lacks_logit(logits: Any, i: Any, masks: Any) -> Any:
    """Return whether a row has NaN or inf, or -inf alone; where it has others, -inf is a class of probability 0.

    It has none of them if ``masks`` is false.
    """
    if not masks:
        return False
    some = False
    for j in range(logits.shape[1]):
        x = logits[i, j]
        if not x < np.inf:  # NaN too
            return True
        some = some or x > -np.inf
    return not some


@inlined()
def _scratch(probs: Any) -> Any:
    """Return an array for the softmax of rows: that of all rows, or else of one."""
    return probs if probs.shape[0] > 0 else np.empty((1, probs.shape[1]), dtype=probs.dtype)


@pasted
def _normalise(probs: Any, at: Any, total: Any, logits: Any, i: Any, masks: Any) -> None:
    """Divide the exponentials of a row by their sum; ``masks`` says that some of its logits are -inf."""
    share = logits.dtype.type(1.0 / total)
    for j in range(logits.shape[1]):
        probs[at, j] = probs[at, j] * share
    if masks:  # `exp` gives the least positive number there
        for j in range(logits.shape[1]):
            if logits[i, j] == -np.inf:
                probs[at, j] = 0


@kernel(reference.read_logits, reassociate=True)
def read_logits(
    logits: Any,
    targets: Any,
    weights: Any,
    eps: Any,
    scoring: Any,
    uppers: Any,
    threshold: Any,
    top: Any,
    correct: Any,
    probs: Any,
    histograms: Any,
    totals: Any,
) -> Any:
    """See `reference.read_logits`."""
    n, size = logits.shape
    bits = signed(logits)
    integer = bits.dtype.type
    sign = integer(8 * bits.itemsize - 1)
    magnitude = integer(~(integer(1) << sign))
    infinite = signed(np.full(1, np.inf, dtype=logits.dtype))[0]
    weighted, classwise = weights.shape[0] > 0, histograms.size > 0
    plain = classwise & (not weighted) & (threshold <= 0.0)
    keep = probs.shape[0] > 0
    needed = classwise or keep
    soft = _scratch(probs)
    ceiling = -np.log(eps)
    n_evaluated = 0
    for i in range(n):
        y = targets[i]
        w = weights[i] if weighted else 1.0
        at = min(i, soft.shape[0] - 1)
        if y < 0 or w == 0.0:
            top[i] = 0
            correct[i] = IGNORED
            if keep:
                soft[i] = 0
            continue
        largest_bits, farthest = _largest_logit(bits, i, sign, magnitude)
        masks = farthest >= infinite  # or holds what is not a logit
        if _lacks_logit(logits, i, masks):
            return i
        largest = float_of(largest_bits)
        total = 0.0
        squares = 0.0
        if needed:
            for j in range(size):
                e = exp(logits[i, j] - largest)
                soft[at, j] = e
                wide = np.float64(e)
                total += wide
                squares += wide * wide
        else:
            for j in range(size):
                wide = np.float64(exp(logits[i, j] - largest))
                total += wide
                squares += wide * wide
        n_evaluated += 1
        hit = _first_of(logits, i, y, largest)
        top[i] = 1.0 / total
        correct[i] = hit
        if scoring:
            shifted = np.float64(logits[i, y]) - np.float64(largest)
            brier = squares / (total * total) - 2.0 * (np.exp(shifted) / total) + 1.0
            _add_scores(totals, w, brier, min(np.log(total) - shifted, ceiling), hit)
        if needed:
            _normalise(soft, at, total, logits, i, masks)
        if classwise:
            _bin_row(soft, at, y, w, plain, uppers, threshold, histograms)
    if plain:
        histograms[0, 0, 0] += n_evaluated
    return CLEAN


@inlined()
def _score_held(terms: Any, mass: Any, n: Any, of_probs: Any, weighted: Any, lanes: Any) -> None:
    """Add the scores of n rows to lanes: of their terms the squared error and the loss are given, and `infinite`, hit.

    With ``of_probs`` the loss is still the probability of the outcome: logarithms are taken in vector lanes.
    """
    losses = terms[NLL]
    if of_probs:
        for j in range(n):
            losses[j] = -log(losses[j])
    for j in range(n):
        terms[BRIER_SQUARES, j] = terms[BRIER, j] * terms[BRIER, j]
        terms[NLL_SQUARES, j] = losses[j] * losses[j]
    for k in range(N_TOTALS):
        some, sums, lost = terms[k], lanes[0, k], lanes[1, k]
        if weighted:
            for j in range(n):
                some[j] *= mass[j]
        elif k in (INFINITE, CORRECT):
            for j in range(n):
                sums[j] += some[j]
            continue
        for j in range(n):
            sums[j], lost[j] = added(sums[j], lost[j], some[j])


@inlined()
def _add_lanes(lanes: Any, totals: Any) -> None:
    """Add the pairs of lanes, (2, k, CHUNK), to those of totals, (2, k)."""
    for k in range(lanes.shape[1]):
        for j in range(CHUNK):
            totals[0, k], lost = added(totals[0, k], lanes[1, k, j], lanes[0, k, j])
            totals[1, k] += lost


@pasted
def _of_outcome(p: Any, y: Any) -> Any:
    """Return the probability of an outcome, where p is that of 1."""
    return p if y == 1 else 1.0 - p


@pasted
def _sigmoid(x: Any) -> Any:
    """Return 1 / (1 + exp(-x)), and exp(-|x|)."""
    e = np.exp(-abs(x))
    return (1.0 if x >= 0.0 else e) / (1.0 + e), e


@pasted
def _logit_loss(x: Any, y: Any, e: Any, ceiling: Any) -> Any:
    """Return the log loss of an outcome with log-odds x, where e is exp(-|x|)."""
    return min(np.log1p(e) + max(-x if y == 1 else x, 0.0), ceiling)


@kernel(reference.read_events)
def read_events(
    probs: Any,
    targets: Any,
    weights: Any,
    eps: Any,
    logits: Any,
    scoring: Any,
    scores: Any,
    outcomes: Any,
    totals: Any,
) -> Any:
    """See `reference.read_events`."""
    weighted = weights.shape[0] > 0
    ceiling = -np.log(eps)
    terms, mass, lanes = np.empty((N_TOTALS, CHUNK)), np.empty(CHUNK), np.zeros((2, N_TOTALS, CHUNK))
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
            p, e = _sigmoid(x)
            scores[i] = p
            if not scoring:
                continue
            hit = (scores[i] >= 0.5) == (y == 1)
            terms[NLL, held] = _logit_loss(x, y, e, ceiling)
            terms[INFINITE, held] = 0.0
        else:
            if not (x >= 0.0 and x <= 1.0):
                return i
            if not scoring:
                continue
            p, hit = x, (x >= 0.5) == (y == 1)
            p_outcome = max(_of_outcome(x, y), eps)
            infinite = p_outcome <= 0.0
            terms[NLL, held] = 1.0 if infinite else p_outcome
            terms[INFINITE, held] = infinite
        terms[BRIER, held] = (p - y) ** 2
        terms[CORRECT, held] = hit
        mass[held] = w
        held += 1
        if held == CHUNK:
            _score_held(terms, mass, held, not logits, weighted, lanes)
            held = 0
    _score_held(terms, mass, held, not logits, weighted, lanes)
    _add_lanes(lanes, totals)
    return CLEAN


@kernel(reference.tally_classes, reassociate=True)
def tally_classes(probs: Any, targets: Any, tolerance: Any, uppers: Any, keys: Any, sums: Any) -> Any:
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
        pattern = _largest_pattern(bits, i)
        total = 0.0
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
            add_tally(largest, place_of(largest, hit, i & 1, uppers), tallies)
    add_tallies(tallies, sums)
    return CLEAN


@kernel(reference.tally_events)
def tally_events(probs: Any, targets: Any, fold: Any, half: Any, uppers: Any, keys: Any, sums: Any) -> Any:
    """See `reference.tally_events`."""
    bits = unsigned(probs)
    unit = np.ones(1, dtype=probs.dtype)  # for 1 - p in the type of p
    one = unsigned(unit)[0]
    keep = keys.shape[0] > 0
    tallies, places, scores = tallies_of(uppers.shape[0]), np.empty(CHUNK, np.uint32), np.empty(CHUNK, probs.dtype)
    for begin in range(0, probs.shape[0], CHUNK):
        size = min(CHUNK, probs.shape[0] - begin)
        end = begin + size
        some, patterns, labels = probs[begin:end], bits[begin:end], targets[begin:end]
        wrong = 0
        for j in range(size):
            wrong += (labels[j] < 0) | (labels[j] > 1) | (patterns[j] > one)
        if wrong:
            j = 0
            while not (labels[j] < 0 or labels[j] > 1 or patterns[j] > one):
                j += 1
            return begin + j
        for j in range(size):
            p, y = some[j], labels[j]
            if fold:
                predicts = p > 0.5 or (p == 0.5 and half)
                y = 1 if predicts == (y == 1) else 0
                p = max(p, unit[0] - p)
            if keep:
                keys[begin + j] = 2 * np.int64(bits_of(p)) + y
            else:
                scores[j], places[j] = p, place_of(p, y, j & 1, uppers)
        if not keep:
            for j in range(size):
                add_tally(scores[j], np.uint64(places[j]), tallies)
    add_tallies(tallies, sums)
    return CLEAN


@inlined()
def _first_wrong(scores: Any, outcomes: Any) -> Any:
    """Return the place of the first score outside [0, 1], or outcome other than 0 and 1; there is one."""
    j = 0
    while scores[j] >= 0 and scores[j] <= 1 and (outcomes[j] == 0 or outcomes[j] == 1):
        j += 1
    return j


@kernel(reference.sum_events)
def sum_events(
    probs: Any, targets: Any, edges: Any, starts: Any, shift: Any, first: Any, cells: Any, totals: Any
) -> Any:
    """See `reference.sum_events`. Its totals are plain: it is for sketches, which add up batches as they come."""
    one, half = probs.dtype.type(1), probs.dtype.type(0.5)
    places, losses = np.empty(CHUNK, np.uint32), np.empty(CHUNK)
    sums = np.zeros(cells.shape[1] * LINE)
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
            return begin + _first_wrong(scores, outcomes)
        for j in range(size):
            loss = -log(losses[j])
            nll[j] += loss
            nll_squares[j] += loss * loss
        for j in range(size):
            places[j] = np.uint32(LINE) * np.uint32(cell_of(scores[j], starts[places[j]], edges))
        for j in range(size):
            x, cell = np.float64(scores[j]), np.uint64(places[j])
            count_place = cell + np.uint64(outcomes[j])
            sums[count_place] += 1.0
            k, lost = count_place + np.uint64(2), count_place + np.uint64(5)
            sums[k], sums[lost] = added(sums[k], sums[lost], x)
            k, lost = cell + np.uint64(4), cell + np.uint64(7)
            sums[k], sums[lost] = added(sums[k], sums[lost], x * x)
    for i in range(cells.shape[1]):
        for j in range(cells.shape[2]):
            cells[0, i, j] += sums[LINE * i + j]
        for j in range(3):
            cells[1, i, 2 + j] += sums[LINE * i + 5 + j]
    totals[0, BRIER] += brier.sum()
    totals[0, BRIER_SQUARES] += brier_squares.sum()
    totals[0, NLL] += nll.sum()
    totals[0, NLL_SQUARES] += nll_squares.sum()
    totals[0, INFINITE] += infinite
    totals[0, CORRECT] += correct
    return CLEAN


@kernel(reference.slope_rows)
def slope_rows(probs: Any, targets: Any, squares: Any, masses: Any, uppers: Any, slopes: Any, sums: Any) -> Any:
    """See `reference.slope_rows`."""
    n_bins, n_slopes = uppers.shape[0], slopes.shape[0]
    psi, terms = np.empty(n_slopes), np.empty(5)
    for i in range(probs.shape[0]):
        psi[:] = 0.0
        for k in range(probs.shape[1]):
            p = probs[i, k]
            place = np.uint64(k * n_bins) + bin_of(p, uppers)
            gap = np.float64(p) - np.float64(k == targets[i])
            for r in range(n_slopes):
                psi[r] += slopes[r, place] * gap
        for r in range(n_slopes):
            q, w = squares[i], masses[i]
            terms[0], terms[1], terms[2], terms[3], terms[4] = q * (psi[r] * psi[r]), q * psi[r], q, w * psi[r], w
            for k in range(5):
                sums[0, r, k], sums[1, r, k] = added(sums[0, r, k], sums[1, r, k], terms[k])


@kernel(reference.log_totals, reassociate=True)
def log_totals(logits: Any, largest: Any, floor: Any, shifts: Any, means: Any, scratch: Any) -> Any:
    """See `reference.log_totals`."""
    size = logits.shape[1]
    number = logits.dtype.type
    lowest = number(floor)
    for i in range(logits.shape[0]):
        most = number(largest[i])
        total = 0.0
        for j in range(size):
            e = exp(logits[i, j] - most)
            scratch[j] = e
            total += np.float64(e)
        shift = number(np.float64(most) + np.log(total))
        mean = 0.0
        for j in range(size):
            mean += np.float64(scratch[j]) * np.float64(max(logits[i, j] - shift, lowest))
        shifts[i] = shift
        means[i] = mean / total


@kernel(reference.temper_rows, reassociate=True)
def temper_rows(values: Any, shifts: Any, floor: Any, largest: Any, slope: Any, moments: Any) -> Any:
    """See `reference.temper_rows`; the sums of a row are in the type of the numbers."""
    size = values.shape[1]
    number = values.dtype.type
    b = number(slope)
    lowest = number(floor)
    for i in range(values.shape[0]):
        most = number(largest[i])
        top = most - number(shifts[i])
        least = lowest - top
        total = number(0)
        first = number(0)
        second = number(0)
        for j in range(size):
            around = max(values[i, j] - most, least)
            e = exp(b * around)
            total += e
            first += e * around
            second += e * around * around
        mean = np.float64(first) / np.float64(total)
        moments[i, 0] = mean + np.float64(top)
        moments[i, 1] = np.float64(second) / np.float64(total) - mean * mean
