"""Fast loops for the host's processor over evaluated events, clusters and tables: fill bins, cells, runs and sums.

Like the loops of `host`, they have readable versions, here in `reference_tables`, and are imported inside functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.kernels import reference_tables
from calibrant.kernels.compiled import inlined, kernel
from calibrant.kernels.inlined import CHUNK, LINE, added, bin_of, cell_of, place_of, rounded, start_of
from calibrant.kernels.reference_tables import N_MOMENTS

_DIGIT = 11  # bits: the counts of their values fit into a processor's first cache
_LEAST = 1024  # slots of the smallest table of labels
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, its bits well mixed: the golden ratio


@kernel(reference_tables.bin_rows)
def bin_rows(scores: Any, outcomes: Any, weights: Any, uppers: Any, sums: Any) -> Any:
    """See `reference_tables.bin_rows`."""
    n_bins, places = uppers.shape[0], np.empty(CHUNK, np.uint32)
    if weights.shape[0] == 0:
        # For each bin and outcome the count, and the pairs of p and of (p - y)^2. There are two sets, for rows in turn:
        # no addition waits.
        lines = np.zeros((4 * n_bins, LINE))
        for begin in range(0, scores.shape[0], CHUNK):
            size = min(CHUNK, scores.shape[0] - begin)
            some, hits = scores[begin : begin + size], outcomes[begin : begin + size]
            for j in range(size):
                places[j] = place_of(some[j], hits[j], j & 1, uppers)
            for j in range(size):
                p, at = np.float64(some[j]), np.uint64(places[j])
                gap = p - np.float64(hits[j])
                lines[at, 0] += 1.0
                lines[at, 1], lines[at, 2] = added(lines[at, 1], lines[at, 2], p)
                lines[at, 3], lines[at, 4] = added(lines[at, 3], lines[at, 4], gap * gap)
        for place in range(4 * n_bins):
            b = (place // 2) % n_bins
            sums[0, 0, b] += lines[place, 0]
            sums[0, 2, b] += lines[place, 0] * (place % 2)
            for k, column in ((1, 1), (3, 3)):
                sums[0, k, b], lost = added(sums[0, k, b], lines[place, column + 1], lines[place, column])
                sums[1, k, b] += lost
        return
    for i in range(scores.shape[0]):
        b, w, p, y = bin_of(scores[i], uppers), weights[i], np.float64(scores[i]), np.float64(outcomes[i])
        for k, term in enumerate((w, w * p, w * y, w * ((p - y) * (p - y)))):
            sums[0, k, b], sums[1, k, b] = added(sums[0, k, b], sums[1, k, b], term)


@kernel(reference_tables.cell_rows)
def cell_rows(
    scores: Any, outcomes: Any, weights: Any, edges: Any, starts: Any, shift: Any, first: Any, sums: Any
) -> Any:
    """See `reference_tables.cell_rows`."""
    weighted = weights.shape[0] > 0
    places = np.empty(CHUNK, np.uint32)
    # A line for each cell: counts of outcomes 0 and 1, scores of each, squares, and what the last three have lost.
    lines = np.zeros((0 if weighted else sums.shape[1], LINE))
    one, two = scores.dtype.type(1), np.uint64(2)
    for begin in range(0, scores.shape[0], CHUNK):
        size = min(CHUNK, scores.shape[0] - begin)
        some, hits = scores[begin : begin + size], outcomes[begin : begin + size]
        for j in range(size):
            places[j] = start_of(some[j], one, shift, first)
        for j in range(size):
            cell = cell_of(some[j], starts[places[j]], edges)
            p, y = np.float64(some[j]), np.uint64(hits[j])
            if weighted:
                w = weights[begin + j]
                for k, term in ((y, w), (two + y, w * p), (np.uint64(4), w * (p * p)), (np.uint64(5) + y, w * w)):
                    sums[0, cell, k], sums[1, cell, k] = added(sums[0, cell, k], sums[1, cell, k], term)
            else:
                lines[cell, y] += 1.0
                k, lost = two + y, np.uint64(5) + y
                lines[cell, k], lines[cell, lost] = added(lines[cell, k], lines[cell, lost], p)
                lines[cell, 4], lines[cell, 7] = added(lines[cell, 4], lines[cell, 7], p * p)
    if not weighted:
        sums[0] += lines[:, :5]
        sums[1, :, 2:] += lines[:, 5:]


@kernel(reference_tables.bin_pooled)
def bin_pooled(scores: Any, counts: Any, positives: Any, uppers: Any, sums: Any) -> Any:
    """See `reference_tables.bin_pooled`."""
    cells = np.zeros((uppers.shape[0], 4))
    for i in range(scores.shape[0]):
        b = bin_of(scores[i], uppers)
        p = np.float64(scores[i])
        n = np.float64(counts[i])
        k = np.float64(positives[i])
        cells[b, 0] += n
        cells[b, 1] += n * p
        cells[b, 2] += k
        cells[b, 3] += (n - k) * p * p + k * (1.0 - p) * (1.0 - p)
    sums[0] += cells.T


@kernel(reference_tables.sum_pooled, reassociate=True)
def sum_pooled(scores: Any, counts: Any, positives: Any, sums: Any) -> None:
    """See `reference_tables.sum_pooled`."""
    total, score_sum, positive_sum, squares = 0.0, 0.0, 0.0, 0.0
    for i in range(scores.shape[0]):
        p = np.float64(scores[i])
        n = np.float64(counts[i])
        k = np.float64(positives[i])
        total += n
        score_sum += n * p
        positive_sum += k
        squares += (n - k) * p * p + k * (1.0 - p) * (1.0 - p)
    sums[0, 0] += total
    sums[0, 1] += score_sum
    sums[0, 2] += positive_sum
    sums[0, 3] += squares


@kernel(reference_tables.sort_keys)
def sort_keys(keys: Any, scratch: Any) -> Any:
    """See `reference_tables.sort_keys`.

    A radix sort by digits of what a key exceeds the least by, the lowest digit first. NumPy's sort is not faster with
    vector instructions, and takes several times longer where it has none for it.
    """
    n, kind = keys.shape[0], keys.dtype.type
    if n == 0:
        return
    least, most = keys.min(), keys.max()
    n_bits = 0
    while n_bits < 8 * keys.itemsize and (most - least) >> kind(n_bits) > 0:
        n_bits += 1
    passes = -(-n_bits // _DIGIT)
    digit = -(-n_bits // max(passes, 1))
    mask = kind((1 << digit) - 1)
    places = np.zeros((passes, 1 << digit), np.int64)  # first the counts of each digit, then where its next key goes
    for i in range(n):
        for no in range(passes):
            places[no, np.uint64(((keys[i] - least) >> kind(digit * no)) & mask)] += 1
    source, target = keys, scratch
    for no in range(passes):
        shift, nexts = kind(digit * no), places[no]
        start = 0
        for value in range(nexts.shape[0]):
            count = nexts[value]
            nexts[value] = start
            start += count
        for i in range(n):
            at = np.uint64(((source[i] - least) >> shift) & mask)
            target[np.uint64(nexts[at])] = source[i]
            nexts[at] += 1
        source, target = target, source
    if passes % 2 == 1:
        keys[:] = source


@inlined()
def _place_of(key: Any, least: Any, shift: Any) -> Any:
    return np.uint64((max(key, least) - least) >> shift)


@kernel(reference_tables.count_places)
def count_places(keys: Any, least: Any, shift: Any, counts: Any) -> Any:
    """See `reference_tables.count_places`."""
    for i in range(keys.shape[0]):
        counts[_place_of(keys[i], least, shift)] += 1


@kernel(reference_tables.move_keys)
def move_keys(keys: Any, least: Any, shift: Any, part_of: Any, nexts: Any, target: Any) -> Any:
    """See `reference_tables.move_keys`."""
    for i in range(keys.shape[0]):
        part = np.uint64(part_of[_place_of(keys[i], least, shift)])
        target[np.uint64(nexts[part])] = keys[i]
        nexts[part] += 1


@kernel(reference_tables.count_runs)
def count_runs(keys: Any) -> Any:
    """See `reference_tables.count_runs`."""
    if keys.shape[0] == 0:
        return 0
    number = 1
    for i in range(1, keys.shape[0]):
        number += (keys[i] ^ keys[i - 1]) > 1
    return number


@kernel(reference_tables.fill_runs)
def fill_runs(keys: Any, bits: Any, counts: Any, positives: Any) -> Any:
    """See `reference_tables.fill_runs`."""
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
def _fill(sums: Any, b: Any, mass: Any, score_sum: Any, positive_sum: Any, squares: Any) -> Any:
    """Add the four sums of a run of rows to a bin."""
    sums[0, b] += mass
    sums[1, b] += score_sum
    sums[2, b] += positive_sum
    sums[3, b] += squares


@kernel(reference_tables.bin_quantiles)
def bin_quantiles(scores: Any, counts: Any, positives: Any, total: Any, sums: Any, uppers: Any) -> Any:
    """See `reference_tables.bin_quantiles`."""
    n_bins = sums.shape[1]
    cumulative = counts[0] - counts[0]
    last = 0
    largest = 0.0
    mass, score_sum, positive_sum, squares = 0.0, 0.0, 0.0, 0.0
    for i in range(scores.shape[0]):
        n = counts[i]
        cumulative += n
        place = n_bins * (2 * cumulative - n)
        if last < n_bins - 1 and place >= 2 * total * (last + 1):
            _fill(sums, last, mass, score_sum, positive_sum, squares)
            mass, score_sum, positive_sum, squares = 0.0, 0.0, 0.0, 0.0
            while last < n_bins - 1 and place >= 2 * total * (last + 1):
                uppers[last] = largest
                last += 1
        p = np.float64(scores[i])
        k = np.float64(positives[i])
        mass += n
        score_sum += n * p
        positive_sum += k
        squares += (n - k) * p * p + k * (1.0 - p) * (1.0 - p)
        largest = p
    _fill(sums, last, mass, score_sum, positive_sum, squares)
    while last < n_bins:
        uppers[last] = largest
        last += 1


@inlined()
def _pool(counts: Any, positives: Any, starts: Any, mass: Any, positive_sums: Any) -> Any:
    """Pool adjacent violators; write each block's first row, weight and positives, and return how many there are."""
    blocks = 0
    i = 0
    while i < counts.shape[0]:
        n, k, start = np.float64(counts[i]), np.float64(positives[i]), i
        i += 1
        # Rows with a rate that is not larger join at once: for single outcomes, a run of ones and then zeros.
        while i < counts.shape[0] and np.float64(positives[i]) * n <= k * np.float64(counts[i]):
            n += np.float64(counts[i])
            k += np.float64(positives[i])
            i += 1
        while blocks > 0 and positive_sums[blocks - 1] * n >= k * mass[blocks - 1]:
            blocks -= 1
            n += mass[blocks]
            k += positive_sums[blocks]
            start = starts[blocks]
        mass[blocks], positive_sums[blocks], starts[blocks] = n, k, start
        blocks += 1
    return blocks


@kernel(reference_tables.pool_violators)
def pool_violators(counts: Any, positives: Any, starts: Any) -> Any:
    """See `reference_tables.pool_violators`."""
    return _pool(counts, positives, starts, np.empty(counts.shape[0]), np.empty(counts.shape[0]))


@kernel(reference_tables.lipschitz_sum)
def lipschitz_sum(scores: Any, residuals: Any) -> Any:
    """See `reference_tables.lipschitz_sum`. A row adds one breakpoint at most, so each stack fits into K."""
    size = scores.shape[0]
    places, drops = np.empty((2, size)), np.empty((2, size))  # of the left stack and of the right one
    heights = np.zeros(2, np.int64)
    best, moved = 0.0, 0.0
    last = np.float64(scores[0])
    for i in range(size):
        p = np.float64(scores[i])
        moved += p - last
        last = p
        rest = abs(residuals[i])
        here = 1 if residuals[i] > 0 else 0
        there = 1 - here
        side = 1.0 if here == 1 else -1.0
        while rest > 0:
            at = heights[here] - 1
            place = places[here, at] + moved * side if at >= 0 else side
            if at < 0 or place * side >= 1:  # this one and all behind it are beyond the end
                place, part = side, rest
            elif drops[here, at] <= rest:
                heights[here] = at
                part = drops[here, at]
            else:
                drops[here, at] -= rest
                part = rest
            best += side * place * part
            places[there, heights[there]] = place + moved * side
            drops[there, heights[there]] = part
            heights[there] += 1
            rest -= part
    return best


@kernel(reference_tables.isotonic_fits)
def isotonic_fits(counts: Any, positives: Any, fits: Any) -> None:
    """See `reference_tables.isotonic_fits`."""
    size = counts.shape[0]
    starts, mass, positive_sums = np.empty(size, np.int64), np.empty(size), np.empty(size)
    for b in range(positives.shape[0]):
        blocks = _pool(counts, positives[b], starts, mass, positive_sums)
        for j in range(blocks):
            stop = starts[j + 1] if j + 1 < blocks else size
            fits[b, starts[j] : stop] = positive_sums[j] / mass[j]


@kernel(reference_tables.residuals)
def residuals(scores: Any, outcomes: Any, weights: Any, out: Any, sums: Any) -> None:
    """See `reference_tables.residuals`."""
    weighted = weights.shape[0] > 0
    totals, lost, sizes, lost_sizes = np.zeros(CHUNK), np.zeros(CHUNK), np.zeros(CHUNK), np.zeros(CHUNK)
    for begin in range(0, scores.shape[0], CHUNK):
        size = min(CHUNK, scores.shape[0] - begin)
        end = begin + size
        some, hits, rest = scores[begin:end], outcomes[begin:end], out[begin:end]
        for j in range(size):
            rest[j] = np.float64(hits[j]) - np.float64(some[j])
        if weighted:
            mass = weights[begin:end]
            for j in range(size):
                rest[j] *= mass[j]
        for j in range(size):
            totals[j], lost[j] = added(totals[j], lost[j], rest[j])
            sizes[j], lost_sizes[j] = added(sizes[j], lost_sizes[j], abs(rest[j]))
    for j in range(CHUNK):
        for k, total, gone in ((0, totals[j], lost[j]), (1, sizes[j], lost_sizes[j])):
            sums[0, k], left = added(sums[0, k], gone, total)
            sums[1, k] += left


@kernel(reference_tables.residual_moments)
def residual_moments(scores: Any, residuals: Any, shift: Any, moments: Any) -> Any:
    """See `reference_tables.residual_moments`."""
    n_cells = moments.shape[1]
    last = np.int32(n_cells - 1)
    cells, offsets, sums = np.empty(CHUNK, np.int32), np.empty(CHUNK), np.zeros(n_cells * LINE)
    for begin in range(0, scores.shape[0], CHUNK):
        size = min(CHUNK, scores.shape[0] - begin)
        some, sizes = scores[begin : begin + size], residuals[begin : begin + size]
        for j in range(size):
            place = np.float64(some[j]) * n_cells
            c = min(np.int32(place), last)
            cells[j], offsets[j] = c, place - c - 0.5
        for j in range(size):
            at, d, r = np.uint64(LINE * cells[j]), offsets[j], sizes[j]
            for power in range(N_MOMENTS):
                sums[at + np.uint64(power)] += rounded(r, shift)
                r *= d
    for i in range(n_cells):
        for power in range(N_MOMENTS):
            moments[0, i, power] += sums[LINE * i + power]


# ---------------------------------------------------------------- clusters


@inlined()
def _slot_of(words: Any, i: Any, mask: Any) -> Any:
    """Return the slot from where the search for a row starts."""
    mixed = np.uint64(0)
    for j in range(words.shape[1]):
        mixed = (mixed ^ np.uint64(words[i, j])) * _FACTOR
        mixed ^= mixed >> np.uint64(32)
    return mixed & mask


@inlined()
def _equal(words: Any, i: Any, keys: Any, k: Any) -> Any:
    different = 0
    for j in range(words.shape[1]):
        different += words[i, j] != keys[k, j]
    return different == 0


@inlined()
def _enter(keys: Any, count: Any, slots: Any) -> None:
    """Enter the numbers of these distinct keys into an empty table."""
    mask = np.uint64(slots.shape[0] - 1)
    for number in range(count):
        slot = _slot_of(keys, number, mask)
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = number


@inlined()
def _number(words: Any, most: Any, numbers: Any, begin: Any, count: Any, slots: Any, firsts: Any, keys: Any) -> Any:
    """Return the first row without a number and the count of numbers, once the table is half full or no row is left."""
    n, width, mask = words.shape[0], words.shape[1], np.uint64(slots.shape[0] - 1)
    places, guesses, hits = np.empty(CHUNK, np.uint64), np.empty(CHUNK, np.int32), np.empty(CHUNK, np.bool_)
    while begin < n and count <= most and count + CHUNK <= firsts.shape[0]:
        stop = min(begin + CHUNK, n)
        for i in range(begin, stop):
            places[i - begin] = _slot_of(words, i, mask)
        for i in range(begin, stop):
            guesses[i - begin] = slots[places[i - begin]]
        for i in range(begin, stop):
            guess = guesses[i - begin]
            hits[i - begin] = guess >= 0 and _equal(words, i, keys, guess)
        for i in range(begin, stop):
            number = guesses[i - begin]
            if not hits[i - begin]:
                slot = places[i - begin]
                while slots[slot] >= 0 and not _equal(words, i, keys, slots[slot]):
                    slot = (slot + np.uint64(1)) & mask
                if slots[slot] < 0:
                    slots[slot] = count
                    firsts[count] = i
                    for j in range(width):
                        keys[count, j] = words[i, j]
                    count += 1
                number = slots[slot]
            numbers[i] = number
        begin = stop
    return begin, count


@kernel(reference_tables.number_rows)
def number_rows(words: Any, most: Any, numbers: Any) -> Any:
    """See `reference_tables.number_rows`: a hash table, at most half full, of the numbers given so far.

    The table outgrows the nearest cache. So the first slots of many rows are read together, then the keys with these
    numbers: the processor waits for all of them at once.
    """
    n, width = words.shape
    begin, count, size = 0, 0, _LEAST
    firsts, keys = np.empty(0, np.int64), np.empty((0, width), words.dtype)
    while True:
        slots, longer = np.full(size, -1, np.int32), np.empty(size // 2, np.int64)
        wider = np.empty((size // 2, width), words.dtype)
        longer[:count], wider[:count] = firsts[:count], keys[:count]
        firsts, keys = longer, wider
        _enter(keys, count, slots)
        begin, count = _number(words, most, numbers, begin, count, slots, firsts, keys)
        if begin >= n or count > most:
            return firsts[: min(count, most + 1)].copy()
        size *= 4


@kernel(reference_tables.bucket_rows)
def bucket_rows(
    buckets: Any,
    scores: Any,
    outcomes: Any,
    weights: Any,
    coarse: Any,
    edges: Any,
    starts: Any,
    shift: Any,
    first: Any,
    sums: Any,
) -> Any:
    """See `reference_tables.bucket_rows`.

    The products are stored before they are added. Fused with the addition they would have other last bits than the
    reference's.
    """
    weighted = weights.shape[0] > 0
    places, masses, gaps = np.empty(CHUNK, np.uint32), np.ones(CHUNK), np.empty(CHUNK)
    one, width, flat = scores.dtype.type(1), np.uint32(sums.shape[2]), sums.reshape(2, -1, 3)
    for begin in range(0, scores.shape[0], CHUNK):
        size = min(CHUNK, scores.shape[0] - begin)
        some, hits = scores[begin : begin + size], outcomes[begin : begin + size]
        for j in range(size):
            places[j] = start_of(some[j], one, shift, first)
            gaps[j] = np.float64(some[j]) - np.float64(hits[j])
        if weighted:
            chunk_weights = weights[begin : begin + size]
            for j in range(size):
                masses[j] = chunk_weights[j]
                gaps[j] *= chunk_weights[j]
        for j in range(size):
            cell = coarse[cell_of(some[j], starts[places[j]], edges)]
            places[j] = np.uint32(buckets[begin + j]) * width + np.uint32(cell)
        for j in range(size):
            at = np.uint64(places[j])
            for k, term in enumerate((masses[j], masses[j] * np.float64(hits[j]), gaps[j])):
                flat[0, at, k], flat[1, at, k] = added(flat[0, at, k], flat[1, at, k], term)
