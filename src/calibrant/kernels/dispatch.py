"""Run the kernels over rows of any layout, in the blocks and on the threads of `blocks`.

A kernel takes the rows of a block, then what belongs to these rows (targets, weights), settings, what it writes for
each row, and sums that it adds to. ``weights`` is None if each row weighs 1; kernels get an empty array then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.kernels import compensated
from calibrant.kernels.compiling import SMALL, kernels_for
from calibrant.kernels.reference import BRIER as BRIER
from calibrant.kernels.reference import BRIER_SQUARES as BRIER_SQUARES
from calibrant.kernels.reference import CLEAN, N_TOTALS
from calibrant.kernels.reference import CORRECT as CORRECT
from calibrant.kernels.reference import IGNORED as IGNORED
from calibrant.kernels.reference import INFINITE as INFINITE
from calibrant.kernels.reference import NLL as NLL
from calibrant.kernels.reference import NLL_SQUARES as NLL_SQUARES
from calibrant.kernels.reference_tables import N_MOMENTS as N_MOMENTS
from calibrant.kernels.row_blocks import BadRow as BadRow
from calibrant.kernels.row_blocks import Rows, bounds_of, in_order, lanes_of, n_threads
from calibrant.runtime.arrays import Float64s, Floats, Int64s, Keys, UInt8s, UInt16s

_NO_WEIGHTS = np.empty(0)
_NO_EDGES: dict[int, Floats] = {4: np.ones(1, np.float32), 8: np.ones(1, np.float64)}

# Events are sorted in parts that fit into a processor's cache, and parts are sorted at the same time.
_PART = 1 << 16  # keys, about
_OCTAVES = 32  # scores below 2^-32 share a place
_FINE = 9  # bits of a mantissa that separate places
_PLACES = (_OCTAVES << _FINE) + 1  # the last one for the score 1


def _check_status(status: int | None, first: int) -> None:
    """Raise for the row that a kernel rejects in rows from ``first`` on."""
    if status is not None and status != CLEAN:
        raise BadRow(first + status)


def _added(
    kernel: Callable[..., Any],
    rows: Rows | NDArray[Any],
    bounds: list[tuple[int, int]],
    shapes: Sequence[tuple[int, ...]],
    *,
    columns: Sequence[NDArray[Any]] = (),
    settings: Sequence[Any] = (),
    outputs: Sequence[NDArray[Any]] = (),
) -> list[Float64s]:
    """Run a kernel over blocks of rows; return its sums, of these shapes, which are `compensated`.

    Raises
    ------
    BadRow
        At the first row that the kernel rejects.
    """

    def work(block: int) -> list[Float64s]:
        start, stop = bounds[block]
        sums = [np.zeros((2, *shape)) for shape in shapes]
        if len(bounds) == 1 and not isinstance(rows, Rows):  # without the microseconds that parts take
            _check_status(kernel(rows, *columns, *settings, *outputs, *sums), 0)
            return sums
        for first, part in rows.blocks(start, stop) if isinstance(rows, Rows) else ((start, rows[start:stop]),):
            at = slice(first, first + len(part))
            status = kernel(part, *[x[at] for x in columns], *settings, *[x[at] for x in outputs], *sums)
            _check_status(status, first)
        return sums

    if len(bounds) == 1:
        n_threads(1)  # a bad wish is refused for any input
        return list(map(compensated.joined, work(0)))
    totals = [np.zeros((2, *shape)) for shape in shapes]
    for block_sums in in_order(work, len(bounds)):
        for total, sums in zip(totals, block_sums, strict=True):
            compensated.merge(total, sums)
    return list(map(compensated.joined, totals))


# ---------------------------------------------------------------- predictions


class ClassReading(NamedTuple):
    """What `read_classes` returns; see `reference.read_probs`. ``probs`` is (n, C), or (0, C) if it was not kept."""

    top: Floats
    correct: UInt8s
    probs: Floats
    histograms: Float64s
    totals: Float64s


def read_classes(
    rows: Rows,
    targets: Int64s,
    weights: Float64s | None,
    *,
    logits: bool,
    tolerance: float,
    eps: float,
    scoring: bool,
    uppers: Floats | None,
    threshold: float,
    keep: bool = False,
) -> ClassReading:
    """Run `reference.read_probs` or `read_logits` over all rows.

    ``uppers`` requests the histograms of the classes. With ``keep``, the softmax of logits is returned.

    Raises
    ------
    BadRow
        At the first row with a value outside [0, 1] or a sum that is not 1; or with logits that are NaN, +inf or all
        -inf.
    """
    kernels = kernels_for("rows", rows.n * rows.width)
    top, correct = np.empty(rows.n, rows.dtype), np.empty(rows.n, np.uint8)
    probs = np.empty((rows.n if keep else 0, rows.width), rows.dtype)
    n_bins, n_classes = (0, 0) if uppers is None else (len(uppers), rows.width)
    edges = _NO_EDGES[rows.dtype.itemsize] if uppers is None else uppers
    histograms, totals = _added(
        kernels.read_logits if logits else kernels.read_probs,
        rows,
        lanes_of(rows.n, rows.width, 3 * n_bins * n_classes) if n_classes else bounds_of(rows.n, rows.width),
        [(3, n_bins, n_classes), (N_TOTALS,)],
        columns=(targets, _NO_WEIGHTS if weights is None else weights),
        settings=(*(() if logits else (tolerance,)), eps, scoring, edges, threshold),
        outputs=(top, correct, probs) if logits else (top, correct),
    )
    return ClassReading(top, correct, probs, histograms, totals)


def read_events(
    rows: Rows, targets: Int64s, weights: Float64s | None, *, eps: float, logits: bool, scoring: bool
) -> tuple[Floats, UInt8s, Float64s]:
    """Run `reference.read_events` over all rows; return the probabilities, the outcomes and the totals."""
    kernel, direct = kernels_for("rows", rows.n).read_events, rows.direct
    outcomes = np.empty(rows.n, np.uint8)
    scores = np.empty(rows.n, rows.dtype) if logits or direct is None else np.empty(0, rows.dtype)

    def read(block: Floats, *arguments: Any) -> Any:
        events, scores_of_block = block.reshape(-1), arguments[-3]
        if not logits and len(scores):  # the rows are converted block by block
            scores_of_block[:] = events
        return kernel(events, *arguments)

    (totals,) = _added(
        read,
        rows,
        bounds_of(rows.n, rows.width),
        [(N_TOTALS,)],
        columns=(targets, _NO_WEIGHTS if weights is None else weights),
        settings=(eps, logits, scoring),
        outputs=(scores, outcomes),
    )
    return scores if logits or direct is None else direct[:, 0], outcomes, totals


def tally(
    probs: Floats, targets: Int64s, *, uppers: Floats | None, tolerance: float, fold: bool, half: bool
) -> NDArray[Any] | None:
    """Evaluate (n,) events or the top labels of (n, C) rows in one read.

    By `reference.tally_events` or `tally_classes`.

    Returns
    -------
    array or None
        With ``uppers``, the sums (3, M) of the bins with these largest members; else the packed events (n,), signed.
        None if a row is invalid or unusual: the reading passes then find out which.
    """
    kernels = kernels_for("rows", probs.size)
    single, n = probs.ndim == 1, len(probs)
    keys = np.empty(n if uppers is None else 0, np.int32 if probs.dtype.itemsize == 4 else np.int64)
    edges = _NO_EDGES[probs.dtype.itemsize] if uppers is None else uppers
    try:
        (sums,) = _added(
            kernels.tally_events if single else kernels.tally_classes,
            probs,
            bounds_of(n, 1 if single else probs.shape[1]),
            [(3, len(edges))],
            columns=(targets,),
            settings=(fold, half, edges) if single else (tolerance, edges),
            outputs=(keys,),
        )
    except BadRow:
        return None
    return keys if uppers is None else sums


def sum_events(
    probs: Floats, targets: Int64s | UInt8s, edges: Floats, starts: UInt16s, shift: int, first: int
) -> tuple[Float64s, Float64s] | None:
    """Evaluate (n,) probabilities of single events in one read, by `reference.sum_events`.

    Returns
    -------
    cells, totals or None
        The sums (cells, 5) and the totals. None if a row is invalid or unusual: the reading passes then find out
        which.
    """
    kernel, bounds = kernels_for("rows", len(probs)).sum_events, lanes_of(len(probs), 1, len(edges))
    shapes, settings = [(len(edges) + 1, 5), (N_TOTALS,)], (edges, starts, shift, first)
    try:
        cells, totals = _added(kernel, probs, bounds, shapes, columns=(targets,), settings=settings)
    except BadRow:
        return None
    return cells, totals


# ---------------------------------------------------------------- evaluated rows


def bin_rows(scores: Floats, outcomes: UInt8s, weights: Float64s | None, uppers: Floats) -> Float64s:
    """Run `reference_tables.bin_rows` over all rows; return the sums (4, M)."""
    kernel, bounds = kernels_for("tables", len(scores)).bin_rows, bounds_of(len(scores), 1)
    columns = outcomes, _NO_WEIGHTS if weights is None else weights
    return _added(kernel, scores, bounds, [(4, len(uppers))], columns=columns, settings=(uppers,))[0]


def cell_rows(
    scores: Floats, outcomes: UInt8s, weights: Float64s | None, edges: Floats, starts: UInt16s, shift: int, first: int
) -> Float64s:
    """Run `reference_tables.cell_rows` over all rows; return the sums (cells, 5), with weights (cells, 7)."""
    kernel, bounds = kernels_for("tables", len(scores)).cell_rows, lanes_of(len(scores), 1, len(edges))
    columns, settings = (outcomes, _NO_WEIGHTS if weights is None else weights), (edges, starts, shift, first)
    shape = len(edges) + 1, 5 if weights is None else 7
    return _added(kernel, scores, bounds, [shape], columns=columns, settings=settings)[0]


def bucket_rows(
    buckets: UInt16s,
    scores: Floats,
    outcomes: UInt8s,
    weights: Float64s | None,
    coarse: UInt16s,
    shape: tuple[int, int],
    lookup: tuple[Floats, UInt16s, int, int],
) -> Float64s:
    """Run `reference_tables.bucket_rows` over all rows; return the sums (buckets, cells, 3)."""
    kernel, bounds = kernels_for("tables", len(scores)).bucket_rows, lanes_of(len(scores), 1, 3 * shape[0] * shape[1])
    columns = scores, outcomes, _NO_WEIGHTS if weights is None else weights
    return _added(kernel, buckets, bounds, [(*shape, 3)], columns=columns, settings=(coarse, *lookup))[0]


def residuals(scores: Floats, outcomes: UInt8s, weights: Float64s | None) -> tuple[Float64s, float, float]:
    """Run `reference_tables.residuals` over all rows; return them, their sum and the sum of their absolute values."""
    kernel, bounds, out = kernels_for("tables", len(scores)).residuals, bounds_of(len(scores), 1), np.empty(len(scores))
    columns = outcomes, _NO_WEIGHTS if weights is None else weights
    total, size = _added(kernel, scores, bounds, [(2,)], columns=columns, outputs=(out,))[0].tolist()
    return out, total, size


def residual_moments(scores: Floats, residuals: Float64s, n_cells: int, largest: float) -> tuple[Float64s, float]:
    """Run `reference_tables.residual_moments` over all rows.

    Returns
    -------
    moments, rounding
        The moments (cells, `N_MOMENTS`), and by how much a term was rounded at most: some 2^-33 of the ``largest``
        residual. No sum is rounded.
    """
    kernel = kernels_for("tables", len(scores)).residual_moments
    lanes = lanes_of(len(scores), 1, n_cells, max(16, len(scores) >> 20))
    shift = compensated.shift_of(largest, max(stop - start for start, stop in lanes))
    shapes = [(n_cells, N_MOMENTS)]
    (moments,) = _added(kernel, scores, lanes, shapes, columns=(residuals,), settings=(shift,))
    return moments, shift * 2.0**-53


def number_rows(words: NDArray[np.unsignedinteger[Any]], most: int) -> tuple[Int64s, Int64s]:
    """Run `reference_tables.number_rows`; return the number of each row and the first row of each number."""
    numbers = np.empty(len(words), np.int64)
    return numbers, kernels_for("tables", len(words)).number_rows(words, most, numbers)


# ---------------------------------------------------------------- tables


def bin_pooled(scores: Floats, counts: NDArray[Any], positives: NDArray[Any], uppers: Floats) -> Float64s:
    """Run `reference_tables.bin_pooled` over the rows of a table; return the sums (4, M)."""
    kernel, bounds = kernels_for("tables", len(scores)).bin_pooled, bounds_of(len(scores), 1)
    return _added(kernel, scores, bounds, [(4, len(uppers))], columns=(counts, positives), settings=(uppers,))[0]


def sum_pooled(scores: Floats, counts: NDArray[Any], positives: NDArray[Any]) -> tuple[float, float, float, float]:
    """Run `reference_tables.sum_pooled` over the rows of a table."""
    kernel, bounds = kernels_for("tables", len(scores)).sum_pooled, bounds_of(len(scores), 1)
    sums = _added(kernel, scores, bounds, [(4,)], columns=(counts, positives))[0].tolist()
    return sums[0], sums[1], sums[2], sums[3]


def bin_quantiles(
    scores: Floats, counts: NDArray[Any], positives: NDArray[Any], n_bins: int
) -> tuple[Float64s, Float64s]:
    """Run `reference_tables.bin_quantiles`; return the sums (4, M) and the largest score of each bin."""
    sums, uppers = np.zeros((4, n_bins)), np.zeros(n_bins)
    if int(counts.sum()) > 2**62 // n_bins:  # 2 M times the total does not fit into int64
        counts, positives = counts.astype(np.float64), positives.astype(np.float64)
    kernels_for("tables", len(scores)).bin_quantiles(scores, counts, positives, counts.sum(), sums, uppers)
    return sums, uppers


def pool_violators(counts: NDArray[Any], positives: NDArray[Any]) -> Int64s:
    """Run `reference_tables.pool_violators`; return the first row of each block."""
    kernel, bounds = kernels_for("tables", len(counts)).pool_violators, bounds_of(len(counts), 1)

    def work(block: int) -> Int64s:
        a, b = bounds[block]
        starts = np.empty(b - a, np.int64)
        return starts[: kernel(counts[a:b], positives[a:b], starts)] + a

    # The fit of all rows equals the fit of the blocks into which the parts were pooled.
    starts = np.concatenate(list(in_order(work, len(bounds))))
    if len(bounds) == 1:
        return starts
    last = np.empty(len(starts), np.int64)
    n = kernel(np.add.reduceat(counts, starts), np.add.reduceat(positives, starts), last)
    return np.asarray(starts[last[:n]])


def isotonic_fits(counts: Float64s, positives: Float64s) -> Float64s:
    """Run `reference_tables.isotonic_fits`; return the fits (B, K)."""
    fits = np.empty_like(positives)
    kernels_for("tables", len(counts)).isotonic_fits(counts, positives, fits)
    return fits


# ---------------------------------------------------------------- sorting


def pack(scores: Floats, outcomes: UInt8s) -> Keys:
    """Return each score in [0, 1] and its outcome as one integer of the score's width, ``bits << 1 | outcome``.

    The integers sort like the scores, ties are adjacent, and the highest bit is 0.
    """
    unsigned = np.uint32 if scores.dtype.itemsize == 4 else np.uint64
    keys = np.left_shift(scores.view(unsigned), 1)  # the sign bit of -0.0 is shifted out
    keys |= outcomes
    return np.asarray(keys)


def distinct_keys(keys: Keys) -> tuple[Floats, Int64s, Int64s]:
    """Return the distinct scores of packed events in order, their counts and their counts of outcomes 1, exactly.

    The keys may be overwritten.
    """
    kernels, floats = kernels_for("tables", len(keys)), np.dtype(f"f{keys.itemsize}")
    moved, ends = _parted(keys, floats) if len(keys) > SMALL else (keys.copy(), [len(keys)])
    parts, scratch = _cut(moved, ends), _cut(keys, ends)

    def count(part: int) -> int:
        kernels.sort_keys(parts[part], scratch[part])
        return int(kernels.count_runs(parts[part]))

    numbers = list(accumulate(in_order(count, len(parts))))
    n = numbers[-1]
    columns = np.empty(n, keys.dtype), np.empty(n, np.int64), np.empty(n, np.int64)
    runs = list(zip(*(_cut(column, numbers) for column in columns), strict=True))

    def fill(part: int) -> None:
        if len(parts[part]):
            kernels.fill_runs(parts[part], *runs[part])

    for _ in in_order(fill, len(parts)):
        pass
    bits, counts, positives = columns
    return bits.view(floats), counts, positives


def _cut(column: NDArray[Any], ends: list[int]) -> list[NDArray[Any]]:
    return [column[a:b] for a, b in pairwise([0, *ends])]


def _parted(keys: Keys, floats: np.dtype[Any]) -> tuple[Keys, list[int]]:
    """Return the keys moved into parts in the order of their scores, and where each part ends.

    The leading bits of a key are its place. Parts hold whole places, so that equal scores are together.
    """
    kernels, kind = kernels_for("tables", len(keys)), keys.dtype.type
    least = kind(np.array(2.0**-_OCTAVES, floats).view(keys.dtype) << kind(1))
    shift = kind(np.finfo(floats).nmant + 1 - _FINE)
    lanes = lanes_of(len(keys), 1, _PLACES)

    def count(lane: int) -> Int64s:
        a, b = lanes[lane]
        counts = np.zeros(_PLACES, np.int64)
        kernels.count_places(keys[a:b], least, shift, counts)
        return counts

    counts = np.stack(list(in_order(count, len(lanes))))
    fill = np.cumsum(counts.sum(axis=0)) // _PART
    change = np.diff(fill, prepend=fill[0]) > 0  # a part begins
    part_of = np.cumsum(change)
    sizes = np.add.reduceat(counts, np.append(0, np.flatnonzero(change)), axis=1).T  # (parts, lanes)
    stops = np.cumsum(sizes).reshape(sizes.shape)
    nexts, target = (stops - sizes).T.copy(), np.empty_like(keys)

    def move(lane: int) -> None:
        a, b = lanes[lane]
        kernels.move_keys(keys[a:b], least, shift, part_of, nexts[lane], target)

    for _ in in_order(move, len(lanes)):
        pass
    return target, stops[:, -1].tolist()
