"""The readable form of every loop over evaluated rows, clusters and tables; NumPy runs it for small inputs.

As in `reference`, each function has a compiled version, here in `host_tables`. ``weights`` is (n,), or (0,) if each row
weighs 1. Sums are pairs, as in `compensated`; those of tables, whose rows have an order, are plain.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.kernels.compensated import add, add_binned
from calibrant.kernels.reference_lookup import bins_of, cells_of
from calibrant.runtime.arrays import Float64s, Floats, Int64s, Keys, UInt8s, UInt16s

#: Moments of the residuals that `residual_moments` keeps for each cell: powers 0 to 5 of the offset from the middle.
N_MOMENTS: Final = 6

_ROUNDS: Final = 64  # of pooling all violators at once: some ten do for data, and no data take long
_WIDE: Final = 2048  # cells of a row from where SciPy fits faster, in spite of its import


def bin_rows(scores: Floats, outcomes: UInt8s, weights: Float64s, uppers: Floats, sums: Float64s) -> None:
    """Add evaluated rows to a histogram: ``sums`` (2, 4, M) of weight, w p, w y and w (p - y)^2 in each bin."""
    p, bins = scores.astype(np.float64), bins_of(scores, uppers)
    columns: tuple[NDArray[Any], ...] = (np.ones(len(p), np.uint8), p, outcomes, (p - outcomes) ** 2)
    for k, terms in enumerate(columns):
        add_binned(sums[:, k], bins, weights * terms if len(weights) else terms)


def cell_rows(
    scores: Floats,
    outcomes: UInt8s,
    weights: Float64s,
    edges: Floats,
    starts: UInt16s,
    shift: int,
    first: int,
    sums: Float64s,
) -> None:
    """Add evaluated rows to the cells of a grid, from the `table.grid.Lookup` of the scores' type.

    ``sums`` is (2, cells, 5), with weights (2, cells, 7): pairs. The columns: the weight of the rows with outcome 0,
    with outcome 1; the sum of w p for each outcome; the sum of w p^2; with weights, the sum of w^2 for each outcome.
    """
    p, cells = scores.astype(np.float64), cells_of(scores, edges, starts, shift, first)
    places, w = 2 * cells + outcomes, weights if len(weights) else np.ones(len(p), np.uint8)
    add_binned(sums[..., 0:2], places, w)
    add_binned(sums[..., 2:4], places, w * p)
    add_binned(sums[..., 4], cells, w * p**2)
    if len(weights):
        add_binned(sums[..., 5:7], places, w**2)


def bin_pooled(scores: Floats, counts: NDArray[Any], positives: NDArray[Any], uppers: Floats, sums: Float64s) -> None:
    """Add the rows of a table to a histogram: ``sums`` as in `bin_rows`."""
    p, bins = scores.astype(np.float64), bins_of(scores, uppers)
    for total, values in zip(sums[0], _pooled_sums(p, counts, positives), strict=True):
        total += np.bincount(bins, values, len(uppers))


def _pooled_sums(p: Float64s, counts: NDArray[Any], positives: NDArray[Any]) -> tuple[Float64s, ...]:
    """Return n, n p, k and (n - k) p^2 + k (1 - p)^2 of each row of a table."""
    n, k = counts.astype(np.float64), positives.astype(np.float64)
    return n, n * p, k, (n - k) * p**2 + k * (1 - p) ** 2


def sum_pooled(scores: Floats, counts: NDArray[Any], positives: NDArray[Any], sums: Float64s) -> None:
    """Add n, n p, k and (n - k) p^2 + k (1 - p)^2 of the rows of a table to the sums (2, 4)."""
    for k, column in enumerate(_pooled_sums(scores.astype(np.float64), counts, positives)):
        sums[0, k] += column.sum()


def sort_keys(keys: Keys, scratch: Keys) -> None:
    """Sort packed events (bits << 1 | outcome) in place; ``scratch`` for as many may be overwritten."""
    del scratch
    keys.sort()


def _places_of(keys: Keys, least: np.unsignedinteger[Any], shift: np.unsignedinteger[Any]) -> NDArray[np.intp]:
    places: NDArray[np.intp] = ((np.maximum(keys, least) - least) >> shift).astype(np.intp)
    return places


def count_places(keys: Keys, least: np.unsignedinteger[Any], shift: np.unsignedinteger[Any], counts: Int64s) -> None:
    """Add keys to the counts of their places: what a key exceeds ``least`` by, without its last ``shift`` bits."""
    counts += np.bincount(_places_of(keys, least, shift), minlength=len(counts))


def move_keys(
    keys: Keys,
    least: np.unsignedinteger[Any],
    shift: np.unsignedinteger[Any],
    part_of: Int64s,
    nexts: Int64s,
    target: Keys,
) -> None:
    """Write keys to ``target``, each to where the next key of the part of its place goes, and move that on."""
    parts = part_of[_places_of(keys, least, shift)]
    order = np.argsort(parts, kind="stable")
    sizes = np.bincount(parts, minlength=len(nexts))
    target[np.repeat(nexts - np.cumsum(sizes) + sizes, sizes) + np.arange(len(keys))] = keys[order]
    nexts += sizes


def count_runs(keys: Keys) -> int:
    """Return the number of distinct scores among sorted keys (bits << 1 | outcome)."""
    return len(_first_of_runs(keys))


def _first_of_runs(keys: Keys) -> NDArray[np.intp]:
    bits, starts = keys >> keys.dtype.type(1), np.ones(len(keys), bool)
    np.not_equal(bits[1:], bits[:-1], out=starts[1:])
    return starts.nonzero()[0]


def fill_runs(
    keys: Keys,
    bits: Keys,
    counts: Int64s,
    positives: Int64s,
) -> None:
    """Write, for each distinct score among sorted keys, its bits, its count and its count of outcomes 1."""
    first = _first_of_runs(keys)
    bits[:] = keys[first] >> keys.dtype.type(1)
    counts[:-1] = first[1:] - first[:-1]
    counts[-1] = len(keys) - first[-1]
    positives[:] = np.add.reduceat((keys & keys.dtype.type(1)).astype(np.int64), first)


def bin_quantiles(
    scores: Floats, counts: NDArray[Any], positives: NDArray[Any], total: float, sums: Float64s, uppers: Float64s
) -> None:
    """Add the rows of a table to M equal-mass bins that never split a score.

    A score with count n and cumulative count C (with this n) goes to bin min(M - 1, floor(M (C - n/2) / total)): the
    last b with 2 b total <= M (2 C - n), in integers if the counts are integers. ``sums`` is as in `bin_rows`.
    ``uppers`` (M,) receives the largest score of each bin; for an empty bin that of the bin before, or 0.
    """
    cumulative, n_bins = np.cumsum(counts), sums.shape[1]
    bins = np.searchsorted(2 * total * np.arange(1, n_bins), n_bins * (2 * cumulative - counts), side="right")
    p = scores.astype(np.float64)
    for sum_, values in zip(sums, _pooled_sums(p, counts, positives), strict=True):
        sum_ += np.bincount(bins, values, n_bins)
    ends = np.searchsorted(bins, np.arange(n_bins), side="right")
    uppers[:] = np.where(ends > 0, p[ends - 1], 0.0)


def pool_violators(counts: NDArray[Any], positives: NDArray[Any], starts: Int64s) -> int:
    """Pool adjacent violators: return the number of blocks with constant isotonic fit of positives / counts.

    ``starts`` (K,) receives the first row of each block. The fit of a block is its rate, and the rates increase from
    block to block.
    """
    places, _, _ = _pool(counts, positives[None])
    starts[: len(places)] = places
    return len(places)


def lipschitz_sum(scores: Floats, residuals: Float64s) -> float:
    """Return the largest sum of h(p) R over functions h with slopes and values in [-1, 1]; the scores p increase.

    Let V(x) be the best sum so far if h is x at the current score. V is concave and piecewise linear. Here are its
    maximum and its breakpoints, each with its drop of slope: those left and those right of the maximum are one stack
    each, the nearest on top. On the way to the next score the left ones move left by the distance and the right ones
    move right; ``moved`` is their common offset. Adding R x moves the maximum: R > 0 uses up drops of slope on the
    right, which are on the left from then on. At x = -1 and x = 1 the drop is infinite.
    """
    left: list[tuple[float, float]] = []  # places plus `moved`, increasing
    right: list[tuple[float, float]] = []  # places less `moved`, decreasing
    best, moved = 0.0, 0.0
    last = float(scores[0])
    for p, r in zip(scores.astype(np.float64).tolist(), residuals.tolist(), strict=True):
        moved, last, rest = moved + (p - last), p, abs(r)
        here, there, side = (right, left, 1.0) if r > 0 else (left, right, -1.0)
        while rest > 0:
            place, drop = here.pop() if here else (np.inf * side, np.inf)
            place += moved * side
            if place * side >= 1:  # this one and all behind it are beyond the end
                place, drop = side, np.inf
            part = min(drop, rest)
            best += side * place * part
            there.append((place + moved * side, part))
            rest -= part
            if part < drop < np.inf:
                here.append((place - moved * side, drop - part))
    return best


def isotonic_fits(counts: Float64s, positives: Float64s, fits: Float64s) -> None:
    """Write the nondecreasing fit of each row of positives (B, K) / counts (K,) to ``fits`` (B, K).

    A cell of no weight has the value of the block on its left, or, before all others, of the first block.
    """
    if len(counts) > _WIDE and counts.all():
        places, mass = _pool_stacked(counts, positives)
        positive_sums = np.add.reduceat(positives.ravel(), places)
    else:
        places, mass, positive_sums = _pool(counts, positives)
    with np.errstate(invalid="ignore"):  # no cell may have weight
        rates = positive_sums / mass
    fits[:] = np.repeat(rates, np.diff(places, append=fits.size)).reshape(fits.shape)


def _pool_stacked(counts: Float64s, positives: Float64s) -> tuple[NDArray[np.intp], Float64s]:
    """Return the place in the flat rows of positives, (B, K), where each block of the fits starts, and its weight.

    SciPy takes one row. So each row is lifted above the one before, by more than its rates differ: none are pooled. Its
    own weights of the blocks are added in another order than the positives: rates could be above 1.
    """
    from scipy.optimize import isotonic_regression

    rates = positives / counts
    rates += (np.ptp(rates) + 1) * np.arange(len(rates))[:, None]
    weights = np.tile(counts, len(rates))
    places = isotonic_regression(rates.ravel(), weights=weights).blocks[:-1]
    return places, np.add.reduceat(weights, places)


def _pool(counts: NDArray[Any], positives: NDArray[Any]) -> tuple[NDArray[np.intp], Float64s, Float64s]:
    """Pool the violators of each row of positives, (B, K).

    The result is the place in the flat rows where each block starts, its weight and its positives. The blocks are the
    same in whatever order neighbours are pooled. So all violators are pooled at once, a number of times. If some are
    left even then, they are pooled from left to right.
    """
    held: NDArray[np.intp] = np.flatnonzero(counts > 0)
    if len(held) == 0:
        held = np.arange(min(len(counts), 1))
    sums = np.empty((2, len(positives), len(held)))  # the weights, and the positives
    sums[0], sums[1] = counts[held], positives[:, held]
    n, k = sums.reshape(2, -1)
    # A cell of no weight belongs to the block on its left, or to the first.
    places_of_rows = len(counts) * np.arange(len(positives))[:, None] + held
    places_of_rows[:, :1] -= held[:1]
    first_of_rows = np.zeros(places_of_rows.shape, bool)  # no block joins the row before
    first_of_rows[:, :1] = True
    places, heads = places_of_rows.ravel(), first_of_rows.ravel()
    for _ in range(_ROUNDS):
        starts = heads.copy()
        starts[1:] |= k[1:] * n[:-1] > k[:-1] * n[1:]
        first = np.flatnonzero(starts)
        if len(first) == len(starts):
            return places, n, k
        block = starts.cumsum() - 1
        n, k = (np.bincount(block, sums).astype(np.float64, copy=False) for sums in (n, k))
        heads, places = heads[first], places[first]
    blocks: list[tuple[float, float, int, bool]] = []
    for mass, positive_sum, place, head in zip(n.tolist(), k.tolist(), places.tolist(), heads.tolist(), strict=True):
        while not head and blocks[-1][1] * mass >= positive_sum * blocks[-1][0]:
            mass_before, positives_before, place, head = blocks.pop()
            mass, positive_sum = mass + mass_before, positive_sum + positives_before
        blocks.append((mass, positive_sum, place, head))
    mass_of, positives_of, place_of, _ = np.array(blocks).T
    return place_of.astype(np.intp), mass_of, positives_of


def residuals(scores: Floats, outcomes: UInt8s, weights: Float64s, out: Float64s, sums: Float64s) -> None:
    """Write w (y - p) of each row to ``out``; add them, and their absolute values, to the sums (2, 2)."""
    out[:] = outcomes - scores.astype(np.float64)
    if len(weights):
        out *= weights
    add(sums, np.stack([out, np.abs(out)]))


def residual_moments(scores: Floats, residuals: Float64s, shift: float, moments: Float64s) -> None:
    """Add residuals to equal cells of [0, 1]: ``moments`` (2, cells, `N_MOMENTS`), entry j the sum of r d^j.

    d is the score's offset from the middle of its cell, in cell widths, between -1/2 and 1/2. Every term is rounded to
    a multiple of 2^-52 ``shift``, which float64 adds without rounding while sums are below the shift.
    """
    n_cells = moments.shape[1]
    places = scores.astype(np.float64) * n_cells
    cells = np.minimum(places.astype(np.intp), n_cells - 1)
    terms, offsets = residuals, places - cells - 0.5
    for power in range(N_MOMENTS):
        moments[0, :, power] += np.bincount(cells, (terms + shift) - shift, n_cells)
        terms = terms * offsets


# ---------------------------------------------------------------- clusters


def number_rows(words: NDArray[np.unsignedinteger[Any]], most: int, numbers: Int64s) -> Int64s:
    """Return where each distinct row of words (n, k) comes first, in increasing order.

    ``numbers`` (n,) receives the number of each row: its distinct row's index in that order. With more than ``most``
    distinct rows, return the first ``most`` + 1; then ``numbers`` has no meaning.
    """
    # Rows of equal width that differ still differ without their last zero bytes, which NumPy's bytes lose.
    keys = (
        words[:, 0]
        if words.shape[1] == 1
        else np.ascontiguousarray(words).view(f"S{words.itemsize * words.shape[1]}")[:, 0]
    )
    _, first, places = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    numbers[:] = np.argsort(order)[places]
    return first[order][: most + 1].astype(np.int64, copy=False)


def bucket_rows(
    buckets: UInt16s,
    scores: Floats,
    outcomes: UInt8s,
    weights: Float64s,
    coarse: UInt16s,
    edges: Floats,
    starts: UInt16s,
    shift: int,
    first: int,
    sums: Float64s,
) -> None:
    """Add evaluated rows to the coarse cells of their buckets: ``sums`` (2, buckets, cells, 3) of w, w y and w (p - y).

    The cell in the grid comes from the `table.grid.Lookup` of the scores' type; ``coarse`` has the coarse cell of
    each cell of the grid.
    """
    w, gaps = weights if len(weights) else np.ones(len(scores), np.uint8), scores.astype(np.float64) - outcomes
    cells = buckets.astype(np.intp) * sums.shape[2] + coarse[cells_of(scores, edges, starts, shift, first)]
    for entry, terms in enumerate((w, w * outcomes, w * gaps)):
        add_binned(sums[..., entry], cells, terms)
