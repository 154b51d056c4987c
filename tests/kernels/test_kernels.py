"""Every compiled loop against its readable version, and the same numbers from any layout and any number of threads.

Tolerances. Compiled versions add the same terms in another order, in float64: for n terms below 1 in a row or a bin
that is n 2^-53 times their sum, for the sizes here below 1e-12 (`SUMS`). From logits in float32 each exponential is off
by 1e-7, and by 2^-24 d where a difference d of two logits is rounded; over d exp(-d) <= .37 that stays below 2e-7 of
the row's total (`SINGLE`), and 1e-15 becomes 2e-15 in float64 (`DOUBLE`).
"""

from __future__ import annotations

import functools
import importlib
import json
import math
import threading
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.isotonic import IsotonicRegression

import calibrant
from calibrant.errors import InputError
from calibrant.kernels import compiling, dispatch, host, host_tables, reference, reference_tables
from calibrant.kernels.compensated import binned, joined, largest_of, shift_of, total_of
from calibrant.kernels.inlined import EXP_TERMS
from calibrant.kernels.row_blocks import Rows
from calibrant.measures.binned.binned import largest_members, uniform_edges
from calibrant.table import grid

DTYPES = ("float32", "float64")
CLASSES = (1, 2, 63, 64, 65, 1000)  # one; the least; the histogram's chunk of 64, one less and one more; many chunks
SUMS = 1e-12
SINGLE, DOUBLE = 2e-7, 2e-15
VOID = 77  # what an output holds before a kernel writes it


def logits_bound(dtype):
    return SINGLE if dtype == "float32" else DOUBLE


def normal_rows(n, size, dtype, seed=0):
    """Logits whose largest entries differ by little (ties are made apart), a few of them far below."""
    rng = np.random.default_rng([seed, n, size])
    z = rng.normal(0, 3, (n, size))
    z[rng.random((n, size)) < 0.05] -= 60
    return z.astype(dtype)


def probability_rows(n, size, dtype, seed=0):
    """Rows of probabilities with exact zeros and ones, negative zeros, ties for the largest, and scores on edges."""
    rng = np.random.default_rng([seed, n, size])
    p = rng.dirichlet(np.full(size, 0.3), n).astype(dtype) if size > 1 else np.ones((n, 1), dtype)
    for i in range(0, n, 5):
        p[i] = 0
        p[i, rng.integers(size)] = 1
    for i in range(1, n, 5):
        p[i] = -0.0
        p[i, rng.permutation(size)[: min(size, 4)]] = 1 / min(size, 4)
    if size > 2:
        for i in range(2, n, 5):
            p[i] = 0
            p[i, rng.permutation(size)[:3]] = 0.3, 0.6, 0.1
    return p


def labels_and_weights(n, size, seed=1):
    rng = np.random.default_rng([seed, n, size])
    targets = rng.integers(0, size, n)
    targets[rng.random(n) < 0.2] = -1
    weights = rng.integers(0, 3, n) * 0.75
    return targets, weights


def uppers_of(n_bins, dtype, closed="right"):
    return largest_members(uniform_edges(n_bins), closed, np.dtype(dtype))


def run(module, name, n, shape, dtype, *args, keep=None, **kwargs):
    """Run a reading kernel on fresh outputs and return them."""
    top, correct = np.full(n, VOID, dtype), np.full(n, VOID, np.uint8)
    histograms, totals = np.zeros((2, 3, *shape)), np.zeros((2, reference.N_TOTALS))
    extra = () if keep is None else (np.full((n if keep else 0, args[0].shape[1]), VOID, dtype),)
    found = getattr(module, name)(*args, *kwargs.values(), top, correct, *extra, histograms, totals)
    return found, top, correct, joined(histograms), joined(totals), extra[0] if keep else None


# ---------------------------------------------------------------- compiled versions


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", CLASSES)
@pytest.mark.parametrize("n", [1, 23])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n_bins", "threshold"), [(0, 0.0), (1, 0.0), (15, 0.0), (10, 0.1), (15, 1 / 16)])
def test_read_probs_equals_its_reference(dtype, size, n, weighted, n_bins, threshold):
    probs = probability_rows(n, size, dtype)
    targets, weights = labels_and_weights(n, size)
    eps = 1e-3 if n_bins == 10 else 0.0
    shape = (n_bins, size) if n_bins else (0, 0)
    options = {
        "targets": targets,
        "weights": weights if weighted else np.empty(0),
        "tolerance": 1e-3,
        "eps": eps,
        "scoring": n_bins != 1,
        "uppers": uppers_of(max(n_bins, 1), dtype),
        "threshold": threshold,
    }
    fast = run(host, "read_probs", n, shape, dtype, probs, **options)
    slow = run(reference, "read_probs", n, shape, dtype, probs, **options)
    assert fast[0] == slow[0] == reference.CLEAN
    np.testing.assert_array_equal(fast[1], slow[1])
    np.testing.assert_array_equal(fast[2], slow[2])
    np.testing.assert_array_equal(fast[3][[0, 2]], slow[3][[0, 2]])  # counts: multiples of .75, exact
    np.testing.assert_allclose(fast[3][1], slow[3][1], rtol=SUMS, atol=SUMS)
    np.testing.assert_allclose(fast[4], slow[4], rtol=SUMS, atol=SUMS)
    assert (fast[4] != 0).any() == (n_bins != 1 and (targets >= 0).any())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", CLASSES)
@pytest.mark.parametrize("n", [1, 23])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_bins", [0, 15])
@pytest.mark.parametrize("keep", [False, True])
def test_read_logits_equals_its_reference(dtype, size, n, weighted, n_bins, keep):
    logits = normal_rows(n, size, dtype)
    targets, weights = labels_and_weights(n, size)
    eps, threshold = (1e-3, 0.1) if n == 23 and n_bins else (0.0, 0.0)
    shape = (n_bins, size) if n_bins else (0, 0)
    options = {
        "targets": targets,
        "weights": weights if weighted else np.empty(0),
        "eps": eps,
        "scoring": not keep,
        "uppers": uppers_of(max(n_bins, 1), dtype),
        "threshold": threshold,
    }
    fast = run(host, "read_logits", n, shape, dtype, logits, keep=keep, **options)
    slow = run(reference, "read_logits", n, shape, dtype, logits, keep=keep, **options)
    bound = logits_bound(dtype)
    assert fast[0] == slow[0] == reference.CLEAN
    resolution = np.finfo(dtype).eps
    np.testing.assert_allclose(fast[1], slow[1], rtol=bound + resolution)
    np.testing.assert_array_equal(fast[2], slow[2])
    mass = max(1.0, float(weights.sum() if weighted else n))
    # Brier: squares and products of two; squares of losses have twice the losses' own error, relative to them.
    np.testing.assert_allclose(fast[4], slow[4], rtol=8 * bound, atol=8 * bound * mass)
    if keep:
        np.testing.assert_allclose(fast[5], slow[5], rtol=0, atol=bound + resolution)
    # A softmax that differs in its last bit may fall into another bin than the reference's. So the histograms are held
    # against the reference that reads the softmax which the fast loop itself left.
    soft = run(host, "read_logits", n, shape, dtype, logits, keep=True, **options)[5]
    own = options | {"tolerance": 1e-3}
    own = {k: own[k] for k in ("targets", "weights", "tolerance", "eps", "scoring", "uppers", "threshold")}
    readable = run(reference, "read_probs", n, shape, dtype, soft, **own)
    np.testing.assert_array_equal(fast[3][[0, 2]], readable[3][[0, 2]])
    np.testing.assert_allclose(fast[3][1], readable[3][1], rtol=SUMS, atol=SUMS)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 200])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize("eps", [0.0, 1e-3])
@pytest.mark.parametrize("scoring", [False, True])
def test_read_events_equals_its_reference(dtype, n, weighted, logits, eps, scoring):
    rng = np.random.default_rng([3, n])
    values = rng.normal(0, 6, n) if logits else rng.choice([0, -0.0, 1, 0.5, 0.3, *rng.random(5)], n)
    if logits and n > 1:
        values[:8] = 0, -0.0, 800, -800, 1e-30, -1e-30, 40, -40
    values = values.astype(dtype)
    targets, weights = labels_and_weights(n, 2)
    found = {}
    for module in (host, reference):
        scores, outcomes = np.full(n, VOID, dtype), np.full(n, VOID, np.uint8)
        totals = np.zeros((2, reference.N_TOTALS))
        bad = module.read_events(
            values,
            targets,
            weights if weighted else np.empty(0),
            eps,
            logits,
            scoring,
            scores if logits else np.empty(0, dtype),
            outcomes,
            totals,
        )
        assert bad == reference.CLEAN
        found[module] = scores, outcomes, joined(totals)
    fast, slow = found[host], found[reference]
    # Both compute in float64 and round once: equal up to one rounding of the scores' type.
    np.testing.assert_allclose(fast[0], slow[0], rtol=np.finfo(dtype).eps, atol=0)
    np.testing.assert_array_equal(fast[1], slow[1])
    np.testing.assert_allclose(fast[2], slow[2], rtol=SUMS, atol=SUMS)
    assert scoring or not fast[2].any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_bins", [1, 2, 10, 15, 64])
@pytest.mark.parametrize("weighted", [False, True])
def test_bin_rows_equals_its_reference(dtype, n_bins, weighted):
    rng = np.random.default_rng(4)
    scores = np.concatenate([rng.random(100), np.arange(n_bins + 1) / n_bins, [0.0, -0.0, 1.0]]).astype(dtype)
    outcomes = rng.integers(0, 2, len(scores)).astype(np.uint8)
    weights = rng.integers(1, 4, len(scores)) * 0.5 if weighted else np.empty(0)
    for closed in ("right", "left"):
        fast, slow = np.zeros((2, 2, 4, n_bins))
        uppers = uppers_of(n_bins, dtype, closed)
        host_tables.bin_rows(scores, outcomes, weights, uppers, fast)
        reference_tables.bin_rows(scores, outcomes, weights, uppers, slow)
        fast, slow = joined(fast), joined(slow)
        np.testing.assert_array_equal(fast[[0, 2]], slow[[0, 2]])
        np.testing.assert_allclose(fast, slow, rtol=SUMS, atol=SUMS)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["standard", "fine"])
@pytest.mark.parametrize("weighted", [False, True])
def test_cell_rows_equals_its_reference(dtype, name, weighted):
    rng = np.random.default_rng(14)
    lookup = grid.lookup(name, np.dtype(dtype))
    edges = lookup.edges[:: 97 if name == "standard" else 441]
    beside = [np.nextafter(edges, np.full_like(edges, side)) for side in (-1, 2)]
    scores = np.concatenate([rng.random(200), edges, *beside, [0.0, -0.0, 1.0, 1e-30, 2.0**-60]]).astype(dtype)
    scores = scores[(scores >= 0) & (scores <= 1)]
    outcomes = rng.integers(0, 2, len(scores)).astype(np.uint8)
    weights = rng.integers(1, 9, len(scores)) * 0.25 if weighted else np.empty(0)
    shape = (len(lookup.edges) + 1, 7 if weighted else 5)
    fast, slow = np.zeros((2, 2, *shape))
    host_tables.cell_rows(scores, outcomes, weights, *lookup, fast)
    reference_tables.cell_rows(scores, outcomes, weights, *lookup, slow)
    fast, slow = joined(fast), joined(slow)
    np.testing.assert_array_equal(fast[:, :2], slow[:, :2])
    np.testing.assert_allclose(fast, slow, rtol=SUMS, atol=SUMS)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["standard", "fine"])
def test_the_lookup_finds_the_cell_of_every_edge_and_bucket_and_of_their_neighbours(dtype, name):
    lookup = grid.lookup(name, np.dtype(dtype))
    edges = lookup.edges
    unsigned = np.uint32 if dtype == "float32" else np.uint64
    buckets = (np.arange(len(lookup.starts) // 2) + lookup.first).astype(unsigned) << unsigned(lookup.shift)
    ends = buckets.view(dtype)
    edges = np.concatenate([edges, ends, 1 - ends])  # a bucket has its last score in the cell that is furthest
    tails = 10.0 ** np.random.default_rng(15).uniform(-40, 0, 20_000)
    beside = [np.nextafter(edges, np.full_like(edges, side)) for side in (-1, 2)]
    scores = np.concatenate([edges, *beside, tails, 1 - tails]).astype(dtype)
    scores = scores[(scores >= 0) & (scores <= 1)]
    found = np.zeros((2, len(lookup.edges) + 1, 5))
    host_tables.cell_rows(scores, np.zeros(len(scores), np.uint8), np.empty(0), *lookup, found)
    found = joined(found)
    np.testing.assert_array_equal(found[:, 0], np.bincount(grid.cell_of(scores, name), minlength=len(found)))


def tallied(module, name, probs, targets, *args, keep, n_bins=15):
    """Run a tally on fresh outputs and return them."""
    uppers = uppers_of(n_bins, probs.dtype, "left")
    sums, keys = np.zeros((2, 3, n_bins)), np.zeros(len(probs) if keep else 0, f"i{probs.dtype.itemsize}")
    options = (*args, uppers) if name == "tally_events" else (1e-3, uppers)
    found = getattr(module, name)(probs, targets, *options, keys, sums)
    return found, joined(sums), keys


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", CLASSES)
@pytest.mark.parametrize("keep", [False, True])
def test_tally_classes_equals_its_reference(dtype, size, keep):
    probs = np.abs(probability_rows(40, size, dtype))  # of negative zeros a tally says that they are unusual
    probs[3] = 1 / size  # ties
    targets = np.arange(40) % size
    fast = tallied(host, "tally_classes", probs, targets, keep=keep)
    slow = tallied(reference, "tally_classes", probs, targets, keep=keep)
    assert fast[0] == slow[0] == reference.CLEAN
    np.testing.assert_array_equal(fast[1][[0, 2]], slow[1][[0, 2]])
    np.testing.assert_allclose(fast[1], slow[1], rtol=SUMS, atol=SUMS)
    np.testing.assert_array_equal(fast[2], slow[2])
    for row, column, bad in ((7, 0, -1), (7, 0, size), (9, 0, np.nan), (9, size - 1, -0.0), (9, 0, 1.5), (9, 0, 0.9)):
        spoiled, wrong = probs.copy(), targets.copy()
        if row == 7:
            wrong[row] = bad
        else:
            spoiled[row, column] = bad
        found = [tallied(module, "tally_classes", spoiled, wrong, keep=keep) for module in (host, reference)]
        if bad == 0.9 and abs(spoiled[row].sum() - 1) <= 1e-3:
            continue  # for one class, or by chance, no fault
        assert found[0][0] == found[1][0] == row, bad
        assert not found[0][1].any()
        assert not found[1][1].any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("fold", [False, True])
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("keep", [False, True])
def test_tally_events_equals_its_reference(dtype, fold, half, keep):
    rng = np.random.default_rng(30)
    probs = np.concatenate([[0, 1, 0.5, 0.5, 0.2, 0.8], rng.random(50)]).astype(dtype)
    targets = rng.integers(0, 2, len(probs))
    fast = tallied(host, "tally_events", probs, targets, fold, half, keep=keep)
    slow = tallied(reference, "tally_events", probs, targets, fold, half, keep=keep)
    assert fast[0] == slow[0] == reference.CLEAN
    np.testing.assert_array_equal(fast[1][[0, 2]], slow[1][[0, 2]])
    np.testing.assert_allclose(fast[1], slow[1], rtol=SUMS, atol=SUMS)
    np.testing.assert_array_equal(fast[2], slow[2])
    for bad in (np.nan, -0.0, 1.5, -1.0, np.inf):
        spoiled = probs.copy()
        spoiled[11] = bad
        for module in (host, reference):
            found = tallied(module, "tally_events", spoiled, targets, fold, half, keep=keep)
            assert found[0] == 11
            assert not found[1].any()
    for bad in (-1, 2):
        wrong = targets.copy()
        wrong[4] = bad
        for module in (host, reference):
            assert tallied(module, "tally_events", probs, wrong, fold, half, keep=keep)[0] == 4


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["standard", "fine"])
@pytest.mark.parametrize("kind", [np.int64, np.uint8])
@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 300])  # of chunks of 64: none, a part, one, one more, many
def test_sum_events_equals_its_reference(dtype, name, kind, n):
    rng = np.random.default_rng([31, n])
    lookup = grid.lookup(name, np.dtype(dtype))
    probs = np.concatenate([[0, 1, 0.5, 1, 0, -0.0, 0.2, 0.8, 1e-30], rng.random(n)])[:n].astype(dtype)
    targets = np.concatenate([[0, 1, 0, 0, 1, 0], rng.integers(0, 2, n)])[:n].astype(kind)
    cells, totals = np.zeros((2, 2, len(lookup.edges) + 1, 5)), np.zeros((2, 2, reference.N_TOTALS))
    for k, module in enumerate((host, reference)):
        assert module.sum_events(probs, targets, *lookup, cells[k], totals[k]) == reference.CLEAN
    fast, slow = map(joined, cells)
    np.testing.assert_array_equal(fast[:, :2], slow[:, :2])
    np.testing.assert_allclose(fast, slow, rtol=SUMS, atol=SUMS)
    np.testing.assert_allclose(*map(joined, totals), rtol=SUMS, atol=SUMS)
    for bad in (np.nan, 1.5, -1.0, np.inf, np.nextafter(np.ones(1, dtype), np.full(1, 2, dtype))[0]):
        if n > 62:
            spoiled = probs.copy()
            spoiled[[41, 62]] = bad
            found = [module.sum_events(spoiled, targets, *lookup, cells[0], totals[0]) for module in (host, reference)]
            assert found == [41, 41]
    for bad in (2, np.iinfo(kind).max, np.iinfo(kind).min or 3):
        if n > 62:
            wrong = targets.copy()
            wrong[[4, 5]] = bad
            found = [module.sum_events(probs, wrong, *lookup, cells[0], totals[0]) for module in (host, reference)]
            assert found == [4, 4]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_bins", [1, 2, 10, 15])
@pytest.mark.parametrize("weighted", [False, True])
def test_bin_pooled_equals_its_reference(dtype, n_bins, weighted):
    rng = np.random.default_rng(21)
    scores = np.unique(np.concatenate([rng.random(60), np.arange(n_bins + 1) / n_bins]).astype(dtype))
    counts = rng.integers(1, 9, len(scores)) * (0.75 if weighted else 1)
    positives = counts * (rng.random(len(scores)) < 0.5)
    fast, slow = np.zeros((2, 2, 4, n_bins))
    for module, sums in ((host_tables, fast), (reference_tables, slow)):
        module.bin_pooled(scores, counts, positives, uppers_of(n_bins, dtype), sums)
    fast, slow = joined(fast), joined(slow)
    np.testing.assert_array_equal(fast[[0, 2]], slow[[0, 2]])
    np.testing.assert_allclose(fast, slow, rtol=SUMS, atol=SUMS)


@pytest.mark.parametrize("unsigned", [np.uint32, np.uint64])
@pytest.mark.parametrize("bits", [1, 8, 31, 63])
@pytest.mark.parametrize("n", [0, 1, 2, 5_000])
def test_sort_keys_equals_its_reference(unsigned, bits, n):
    bits = min(bits, 8 * unsigned().itemsize - 1)
    keys = np.random.default_rng([24, n, bits]).integers(0, 1 << bits, n, dtype=unsigned)
    keys |= unsigned(1 << bits)  # the highest bit is in all keys, whatever their number
    expected = sorted(keys.tolist())
    for module in (host_tables, reference_tables):
        own = keys.copy()
        module.sort_keys(own, np.empty_like(own))
        assert own.tolist() == expected


@pytest.mark.parametrize("unsigned", [np.uint32, np.uint64])
def test_count_places_equals_its_reference(unsigned):
    keys = np.random.default_rng(30).integers(0, 99, 500).astype(unsigned)
    expected = [1 + sum(max(k - 40, 0) // 4 == place for k in keys.tolist()) for place in range(15)]
    for module in (host_tables, reference_tables):
        counts = np.ones(15, np.int64)
        module.count_places(keys, unsigned(40), unsigned(2), counts)
        assert counts.tolist() == expected


@pytest.mark.parametrize("unsigned", [np.uint32, np.uint64])
def test_move_keys_equals_its_reference(unsigned):
    keys = np.random.default_rng(31).integers(0, 99, 500).astype(unsigned)
    part_of = np.repeat([0, 1, 2], [3, 9, 3])
    for module in (host_tables, reference_tables):
        nexts, target = np.array([0, 400, 800]), np.zeros(1200, unsigned)
        module.move_keys(keys, unsigned(40), unsigned(2), part_of, nexts, target)
        for part in range(3):
            moved = [k for k in keys.tolist() if part_of[max(k - 40, 0) // 4] == part]
            assert target[400 * part : nexts[part]].tolist() == moved


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("part", [1, 50, 10_000])
def test_parts_hold_every_score_once_and_whole(monkeypatch, dtype, part):
    """Scores below 2^-32 share a place, 0 and 1 are ends, and many rows of one score fill a part."""
    monkeypatch.setattr(dispatch, "SMALL", 99)
    monkeypatch.setattr(dispatch, "_PART", part)
    monkeypatch.setattr(dispatch, "lanes_of", lambda n, _width, _cost: [(a, min(a + 77, n)) for a in range(0, n, 77)])
    rng = np.random.default_rng([32, part])
    tiny = 2.0 ** -rng.uniform(30, 149, 50)
    scores = np.concatenate([rng.random(200), tiny, np.repeat([0.0, 0.25, 1.0, 2.0**-32, 2.0**-33], 40)]).astype(dtype)
    for chosen in (scores, np.zeros(150, dtype), np.ones(150, dtype), scores[:3], scores[:0]):
        outcomes = rng.integers(0, 2, len(chosen)).astype(np.uint8)
        found = dispatch.distinct_keys(dispatch.pack(chosen, outcomes))
        expected, places, counts = np.unique(chosen, return_inverse=True, return_counts=True)
        columns = expected, counts, np.bincount(places, outcomes, len(expected)).astype(np.int64)
        for own, column in zip(found, columns, strict=True):
            assert own.dtype == column.dtype
            assert own.tolist() == column.tolist()


@pytest.mark.parametrize("unsigned", [np.uint32, np.uint64])
@pytest.mark.parametrize("n", [1, 2, 300])
def test_the_runs_equal_their_references(unsigned, n):
    rng = np.random.default_rng([5, n])
    # The largest key is that of the score 1 with outcome 1; neighbours that differ in the outcome alone are one run.
    one = int(np.ones(1, np.float32 if unsigned is np.uint32 else np.float64).view(unsigned)[0])
    keys = np.sort(rng.choice(np.array([0, 1, 2, 3, 6, 2 * one, 2 * one + 1], unsigned), n))
    number = host_tables.count_runs(keys)
    assert number == reference_tables.count_runs(keys)
    outputs = []
    for module in (host_tables, reference_tables):
        bits, counts, positives = np.zeros(number, unsigned), np.zeros(number, np.int64), np.zeros(number, np.int64)
        module.fill_runs(keys, bits, counts, positives)
        outputs.append((bits.tolist(), counts.tolist(), positives.tolist()))
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 400])
def test_pool_violators_equals_its_reference(rows, weighted):
    rng = np.random.default_rng([18, rows])
    counts = rng.integers(1, 6, rows)
    for positives in (rng.integers(0, counts + 1), counts, 0 * counts, np.minimum(counts, np.arange(rows) // 70)):
        scale = 0.75 if weighted else 1
        starts = []
        for module in (host_tables, reference_tables):
            out = np.full(rows, VOID)
            n = module.pool_violators(counts * scale, positives * scale, out)
            starts.append(out[:n].tolist())
        assert starts[0] == starts[1]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 2, 400])
@pytest.mark.parametrize("size", [1, 0.001, 30])
def test_lipschitz_sum_equals_its_reference(dtype, rows, size):
    rng = np.random.default_rng([21, rows])
    scores = np.unique(rng.random(rows).astype(dtype))
    for residuals in (rng.normal(size=rows) * size, np.full(rows, size), np.full(rows, -size), np.zeros(rows)):
        fast, slow = (module.lipschitz_sum(scores, residuals) for module in (host_tables, reference_tables))
        assert fast == pytest.approx(slow, rel=rows * 2.0**-52, abs=SUMS)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cells", [1, 2, 300, reference_tables._WIDE + 1])
def test_isotonic_fits_equals_its_reference(cells, weighted):
    rng = np.random.default_rng([20, cells])
    least = cells > reference_tables._WIDE  # SciPy's fit is for cells that all have weight
    counts = rng.integers(least, 4, cells) * (0.7 if weighted else 1.0)  # elsewhere some have none
    counts[-1] = 1.0
    positives = counts * rng.random((5, cells)) if weighted else rng.binomial(counts.astype(int), 0.5, (5, cells)) * 1.0
    fast, slow = np.empty_like(positives), np.empty_like(positives)
    host_tables.isotonic_fits(counts, positives, fast)
    reference_tables.isotonic_fits(counts, positives, slow)
    np.testing.assert_allclose(fast, slow, rtol=cells * 2.0**-52)
    assert (np.diff(fast, axis=1) >= 0).all()
    held = counts > 0
    np.testing.assert_allclose(fast[0][held], sklearn_isotonic(counts[held], positives[0][held]), rtol=1e-9)


@pytest.mark.parametrize("module", [host_tables, reference_tables])
@pytest.mark.parametrize("cells", [50, 5_000])
def test_a_block_of_outcomes_1_has_a_fit_of_1_with_any_weights(module, cells):
    rng = np.random.default_rng(cells)
    counts = rng.random(cells) + 0.1
    positives = (rng.random((20, cells)) < np.linspace(0, 1.5, cells)) * counts
    fits = np.empty_like(positives)
    module.isotonic_fits(counts, positives, fits)
    assert (fits[:, -1] == 1.0).all()


def test_pooling_one_neighbour_after_the_other_is_no_slower_than_many_at_once():
    # The heavy last cell pools one block at a time, in more rounds than there are: the loop pools what is left.
    cells, counts = 500, np.ones(500)
    counts[-1] = 1_000.0
    positives = np.arange(cells) / cells
    positives[-1] = 0.0
    rows = np.stack([positives, np.minimum(positives, 0.5), positives[::-1] * counts])
    fast, slow = np.empty_like(rows), np.empty_like(rows)
    host_tables.isotonic_fits(counts, rows, fast)
    reference_tables.isotonic_fits(counts, rows, slow)
    assert len(np.unique(slow[0])) < cells - reference_tables._ROUNDS
    np.testing.assert_allclose(fast, slow, rtol=cells * 2.0**-52)


def sklearn_isotonic(counts, positives):
    fitted = IsotonicRegression().fit(np.arange(len(counts)), positives / counts, sample_weight=counts)
    return fitted.predict(np.arange(len(counts)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 200])
@pytest.mark.parametrize("weighted", [False, True])
def test_sum_pooled_equals_its_reference(dtype, rows, weighted):
    rng = np.random.default_rng([19, rows])
    scores, counts = np.sort(rng.random(rows, dtype=dtype)), rng.integers(1, 6, rows)
    positives = rng.integers(0, counts + 1)
    if weighted:
        counts, positives = counts * 0.75, positives * 0.75
    found, expected = np.zeros((2, 2, 4))
    host_tables.sum_pooled(scores, counts, positives, found)
    reference_tables.sum_pooled(scores, counts, positives, expected)
    found, expected = joined(found), joined(expected)
    # Two orders of adding n positive numbers differ by at most n eps of their sum.
    np.testing.assert_allclose(found, expected, rtol=rows * 2.0**-52)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 200])
@pytest.mark.parametrize("weighted", [False, True])
def test_residuals_equals_its_reference(dtype, n, weighted):
    rng = np.random.default_rng([19, n])
    scores, outcomes = rng.random(n).astype(dtype), rng.integers(0, 2, n).astype(np.uint8)
    weights = rng.random(n) if weighted else np.empty(0)
    fast, slow = np.full(n, VOID, float), np.full(n, VOID, float)
    sums = np.zeros((2, 2, 2))
    host_tables.residuals(scores, outcomes, weights, fast, sums[0])
    reference_tables.residuals(scores, outcomes, weights, slow, sums[1])
    sums = [joined(pairs) for pairs in sums]
    np.testing.assert_array_equal(fast, slow)
    np.testing.assert_allclose(*sums, rtol=0, atol=SUMS)
    assert sums[0] == pytest.approx([fast.sum(), np.abs(fast).sum()], abs=SUMS)


def public_functions(module):
    return {name for name, x in vars(module).items() if getattr(x, "__module__", None) == module.__name__} - {
        name for name in vars(module) if name.startswith("_")
    }


def test_every_kernel_has_a_reference_and_a_test():
    names = set()
    for family, (readable, compiled) in compiling.VERSIONS.items():
        readable, compiled = (importlib.import_module(f"calibrant.kernels.{name}") for name in (readable, compiled))
        kernels = {name for name, x in vars(compiled).items() if type(x).__name__ == "Compiled"}
        assert public_functions(readable) == kernels, family
        names |= kernels
    tests = Path(__file__).parent.parent  # some kernels have their test where they are used
    homes = (
        "kernels/test_kernels.py",
        "table/test_clusters.py",
        "statistics/test_class_rows.py",
        "recalibration/test_classes.py",
    )
    tested = " ".join(tests.joinpath(home).read_text("utf-8") for home in homes)
    assert [
        name for name in names if f"def test_{name}_equals_its_reference" not in tested and not name.endswith("_runs")
    ] == []


def test_no_rows_make_no_runs():
    assert host_tables.count_runs(np.empty(0, np.uint32)) == reference_tables.count_runs(np.empty(0, np.uint32)) == 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_bins", [1, 2, 7, 15, 40])
@pytest.mark.parametrize("weighted", [False, True])
def test_bin_quantiles_equals_its_reference(dtype, n_bins, weighted):
    rng = np.random.default_rng(6)
    for rows in (1, 3, 60):
        scores = np.sort(rng.choice(1000, rows, replace=False) / 1000).astype(dtype)
        counts = rng.integers(1, 30, rows)
        positives = rng.integers(0, counts + 1)
        if weighted:
            counts, positives = counts * 0.5, positives * 0.5
        outputs = []
        for module in (host_tables, reference_tables):
            sums, uppers = np.zeros((4, n_bins)), np.full(n_bins, VOID, np.float64)
            module.bin_quantiles(scores, counts, positives, counts.sum(), sums, uppers)
            outputs.append((sums, uppers))
        np.testing.assert_array_equal(outputs[0][0][[0, 2]], outputs[1][0][[0, 2]])
        np.testing.assert_allclose(outputs[0][0], outputs[1][0], rtol=SUMS, atol=SUMS)
        np.testing.assert_array_equal(outputs[0][1], outputs[1][1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_cells", [1, 2, 100, 1 << 14])
def test_residual_moments_equals_its_reference(dtype, n_cells):
    rng = np.random.default_rng(7)
    scores = np.concatenate([rng.random(200), [0.0, 1.0, 0.5]]).astype(dtype)
    residuals = rng.normal(size=len(scores))
    fast, slow = np.zeros((2, 2, n_cells, reference_tables.N_MOMENTS))
    shift = shift_of(largest_of(residuals), len(residuals))
    host_tables.residual_moments(scores, residuals, shift, fast)
    reference_tables.residual_moments(scores, residuals, shift, slow)
    fast, slow = joined(fast), joined(slow)
    # An offset is a difference of numbers up to n_cells: absolute error n_cells 2^-52 each. A term may be rounded to
    # the multiple next to the other's.
    np.testing.assert_allclose(fast, slow, rtol=0, atol=len(scores) * (n_cells + shift) * 2.0**-52)


def test_blocks_of_rows_that_are_copied_can_be_kept():
    values = np.arange(400_000, dtype=np.float32).reshape(100_000, 4) / 400_000
    rows = Rows(values[:, 1:3].reshape(100_000, 2, 1))
    assert rows.direct is None
    kept = np.concatenate([block for _, block in rows.blocks(0, rows.n)])
    np.testing.assert_array_equal(kept, values[:, 1:3])


def test_a_class_of_many_rows_is_evaluated_like_its_column():
    rng = np.random.default_rng(6)
    probs, labels = rng.dirichlet([1, 1, 1], 150_000), rng.integers(0, 3, 150_000)
    ece = functools.partial(calibrant.expected_calibration_error, binning="quantile")
    found = calibrant.classwise_calibration_errors(probs, labels, binning="quantile")
    assert found == pytest.approx([ece(probs[:, k].copy(), labels == k) for k in range(3)], rel=1e-12)


# ---------------------------------------------------------------- compensated sums


def terms_of(kind, n):
    rng = np.random.default_rng(n)
    sizes = 2.0 ** rng.integers(0, 60, n)
    return {
        "even": rng.random(n),
        "of all sizes": rng.normal(size=n) * 2.0 ** rng.integers(-200, 200, n),
        "cancelling": np.concatenate([sizes * np.arange(1, n + 1), -sizes * np.arange(1, n + 1), rng.random(n)]),
        "equal": np.full(n, 0.1),
        "tiny": rng.random(n) * 2.0**-1040,
        "huge": rng.random(n) * 2.0**960,
        "zeros": np.zeros(n),
        "none": np.zeros(0),
    }[kind]


@pytest.mark.parametrize("kind", ["even", "of all sizes", "cancelling", "equal", "tiny", "huge", "zeros", "none"])
@pytest.mark.parametrize("n", [2, 1000, 100_000])
def test_sums_of_terms_are_the_nearest_float64(kind, n):
    """`math.fsum` rounds the exact sum once. Terms near the largest float64 are added as they come.

    Where terms cancel, the sum is off by at most 2^-90 of their sizes.
    """
    terms = terms_of(kind, n)
    cancelled = 2.0**-90 * np.abs(terms).sum() if kind == "cancelling" else 0
    bound = {"rel": 1e-12} if kind == "huge" else {"rel": 0, "abs": cancelled}
    assert total_of(terms) == pytest.approx(math.fsum(terms), **bound)
    places = np.random.default_rng(2).integers(0, 7, len(terms))
    expected = [math.fsum(terms[places == place]) for place in range(8)]
    assert binned(places, terms, 8).tolist() == pytest.approx(expected, **bound)


def test_a_bin_of_scores_far_below_the_others_has_the_nearest_sum():
    rng = np.random.default_rng(3)
    scores = np.concatenate([rng.random(3000) * 10.0 ** rng.uniform(-30, -20, 3000), rng.uniform(0.5, 1, 3000)])
    uppers = uppers_of(2, "float64")
    for module in (host, reference):
        for order in (np.arange(6000), rng.permutation(6000)):
            sums = np.zeros((2, 3, 2))
            p, y = scores[order], np.ones(6000, np.int64)
            assert module.tally_events(p, y, False, False, uppers, np.empty(0, np.int64), sums) == reference.CLEAN
            assert joined(sums)[1].tolist() == [math.fsum(scores[:3000]), math.fsum(scores[3000:])]


@pytest.mark.parametrize("weighted", [False, True])
def test_compiled_sums_are_the_nearest_float64(weighted):
    """Also those of kernels that let sums be reordered, whichever kernel was compiled first."""
    rng, n = np.random.default_rng(4), 5_000
    p, y = rng.random(n), rng.integers(0, 2, n)
    weights = rng.lognormal(0, 5, n) if weighted else np.empty(0)
    mass = weights if weighted else np.ones(n)
    totals, outcomes = np.zeros((2, reference.N_TOTALS)), np.empty(n, np.uint8)
    host.read_events(p, y, weights, 0.0, False, True, p, outcomes, totals)
    assert joined(totals)[reference.BRIER] == math.fsum(mass * (p - y) ** 2)
    rows, totals = np.stack([1 - p, p], axis=1), np.zeros((2, reference.N_TOTALS))
    empty = uppers_of(1, "float64"), 0.0, np.empty(n), outcomes, np.zeros((2, 3, 0, 0))
    host.read_probs(rows, y, weights, 1e-3, 0.0, True, *empty, totals)
    assert joined(totals)[reference.CORRECT] == math.fsum(mass * (rows.argmax(axis=1) == y))
    sums = np.zeros((2, 4, 3))
    host_tables.bin_rows(p, y.astype(np.uint8), weights, uppers_of(3, "float64"), sums)
    bins = np.searchsorted(uppers_of(3, "float64"), p)
    for k, terms in enumerate((mass, mass * p, mass * y, mass * (p - y) * (p - y))):
        assert joined(sums)[k].tolist() == [math.fsum(terms[bins == b]) for b in range(3)], k


# ---------------------------------------------------------------- edges, in exact arithmetic


def on_and_around_edges(n_bins, dtype):
    edges = np.array([j / n_bins for j in range(n_bins + 1)], dtype=dtype)
    around = np.concatenate([edges, np.nextafter(edges, dtype(-1)), np.nextafter(edges, dtype(2)), [dtype(0.123)]])
    return edges, around[(around >= 0) & (around <= 1)]


@pytest.mark.parametrize("closed", ["right", "left"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_edges_belong_where_rational_arithmetic_puts_them(dtype, closed):
    """The edge j / M is the nearest double (Fraction says so), rounded to the scores' type; all else is comparison."""
    for n_bins in range(1, 41):
        edges, scores = on_and_around_edges(n_bins, dtype)
        for j in range(n_bins + 1):
            assert abs(Fraction(j / n_bins) - Fraction(j, n_bins)) <= Fraction(float(np.spacing(j / n_bins))) / 2
        exact = [Fraction(float(edge)) for edge in edges]
        expected = [0] * n_bins
        for score in scores:
            p = Fraction(float(score))
            if closed == "right":
                b = next(b for b in range(n_bins) if p <= exact[b + 1])
            else:
                b = next(b for b in reversed(range(n_bins)) if p >= exact[b])
            expected[b] += 1
        # Three ways to the bins: the histogram of events, that of a table's rows, and the one of every class.
        outcomes = np.zeros(len(scores), int)
        assert calibrant.reliability_diagram(scores, outcomes, n_bins, closed=closed).counts.tolist() == expected
        if closed == "right":
            table = calibrant.ReliabilityTable.from_scores(scores, outcomes)
            assert calibrant.evaluate(table, n_bins=n_bins, level=None).diagram.counts.tolist() == expected
        pairs = np.stack([scores, 1 - scores], axis=1)
        least = float(np.nextafter(dtype(0), dtype(1)))
        for threshold in (0.0, least):  # the path without a branch, and the general one, which leaves out zeros alone
            histograms, _ = read(pairs, np.ones(len(scores), int), n_bins, closed, threshold)[-2:]
            assert histograms[0, :, 0].sum() == np.count_nonzero(scores >= threshold)
            assert histograms[0, 1:, 0].tolist() == expected[1:]


def read(probs, targets, n_bins=0, closed="right", threshold=0.0, weights=None, logits=False):
    rows = dispatch.Rows(np.asarray(probs)[:, :, None])
    uppers = uppers_of(n_bins, rows.dtype, closed) if n_bins else None
    options = {"eps": 0.0, "scoring": True, "uppers": uppers, "threshold": threshold, "tolerance": 1e-3}
    found = dispatch.read_classes(rows, targets, weights, logits=logits, **options)
    return found.top, found.correct, found.histograms, found.totals


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_bins", [100, 257, 3600, 99_991, 1_000_000])
def test_many_bins_belong_where_the_search_puts_them(dtype, n_bins):
    # Arithmetic guesses the bin or the one below, in NumPy for as many scores as here; a binary search needs no guess.
    rng = np.random.default_rng(20)
    j = rng.integers(0, n_bins + 1, 600)
    edges = (j / n_bins).astype(dtype)
    scores = np.concatenate([edges, np.nextafter(edges, dtype(-1)), np.nextafter(edges, dtype(2)), rng.random(600)])
    scores = np.clip(scores, 0, 1).astype(dtype)
    for closed in ("right", "left"):
        uppers = uppers_of(n_bins, dtype, closed)
        found = calibrant.reliability_diagram(scores, np.zeros(len(scores), int), n_bins, closed=closed).counts
        assert (found == np.bincount(np.searchsorted(uppers, scores), minlength=n_bins)).all()


# ---------------------------------------------------------------- bad rows


BAD = (np.nan, np.inf, -np.inf, -0.1, 1.1, -1e-30, float(np.nextafter(np.float32(1), np.float32(2))))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", CLASSES)
def test_a_bad_row_is_found_wherever_it_is(dtype, size):
    n = 4
    good = probability_rows(n, size, dtype, seed=9)
    targets = np.zeros(n, np.int64)
    none, edges = np.empty(0), np.ones(1, dtype)
    for row in range(n):
        for column in sorted({0, size // 2, size - 1}):
            for bad in BAD:
                for module in (host, reference):
                    probs = good.copy()
                    probs[row, column] = bad
                    probs[row + 1 :, 0] = np.nan  # the first is named, not the last
                    args = probs, targets, none, np.inf, 0.0, True, edges, 0.0
                    assert run(module, "read_probs", n, (0, 0), dtype, *args)[0] == row
                    if not bad < np.inf:  # a logit of -inf masks a class
                        args = probs, targets, none, 0.0, True, edges, 0.0
                        assert run(module, "read_logits", n, (0, 0), dtype, *args, keep=False)[0] == row


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("module", [host, reference])
def test_a_row_that_is_not_judged_is_not_looked_at(dtype, module):
    probs = np.array([[np.nan, 2], [0.5, 0.5], [np.inf, -1]], dtype)
    targets, weights = np.array([-1, 1, 0]), np.array([1.0, 1.0, 0.0])
    edges = np.ones(1, dtype)
    args = probs, targets, weights, 1e-3, 0.0, True, edges, 0.0
    for found in (
        run(module, "read_probs", 3, (1, 2), dtype, *args),
        run(module, "read_logits", 3, (1, 2), dtype, *args[:3], *args[4:], keep=True),
    ):
        assert found[0] == reference.CLEAN
        assert found[1].tolist() == [0, 0.5, 0]
        assert found[2].tolist() == [255, 0, 255]
        assert found[3].tolist() == [[[1, 1]], [[0.5, 0.5]], [[0, 1]]]
        assert found[4] == pytest.approx([0.5, np.log(2), 0, 0, 0.25, np.log(2) ** 2], rel=SUMS)
        assert found[5] is None or found[5].tolist() == [[0, 0], [0.5, 0.5], [0, 0]]


@pytest.mark.parametrize("module", [host, reference])
@pytest.mark.parametrize("size", [2, 63, 64, 65])
def test_row_sums_are_held_to_the_tolerance(module, size):
    for total, bad in ((1.0, False), (1.0009, False), (0.9991, False), (1.0011, True), (0.9989, True)):
        probs = np.full((2, size), total / size)
        probs[0] = 1 / size
        args = probs, np.zeros(2, np.int64), np.empty(0), 1e-3, 0.0, True, np.ones(1), 0.0
        assert run(module, "read_probs", 2, (0, 0), "float64", *args)[0] == (1 if bad else reference.CLEAN)


@pytest.mark.parametrize("threads", ["1", "7"])
@pytest.mark.parametrize("n_bins", [0, 15])
def test_the_first_bad_row_of_many_blocks_is_named(monkeypatch, threads, n_bins):
    monkeypatch.setenv("CALIBRANT_NUM_THREADS", threads)
    n = 200_000  # of 2: 4 blocks of 2^17 entries, and stretches of 2^16 where they are converted
    for first in (0, 1, 65_535, 65_536, 123_456, n - 1):
        probs = np.full((n, 2), 0.5, np.float32)
        probs[first, 1] = np.nan
        probs[-1, 0] = 3
        for layout in (probs, np.asfortranarray(probs)):
            with pytest.raises(dispatch.BadRow) as error:
                read(layout, np.zeros(n, np.int64), n_bins)
            assert error.value.row == first
        with pytest.raises(InputError, match=rf"at row {first}") as error:
            calibrant.expected_calibration_error(probs, np.zeros(n, int))
        assert error.value.row == first


# ---------------------------------------------------------------- the exponential


def true_exp(x):
    with mpmath.workdps(40):
        return mpmath.exp(mpmath.mpf(float(x)))


def off(found, x):
    with mpmath.workdps(40):
        return float(abs(mpmath.mpf(float(found)) / true_exp(x) - 1))


def softmax_of(x):
    """The kernel's softmax of the logits (0, x) of every row, and the top probability."""
    rows = dispatch.Rows(np.stack([np.zeros_like(x), x], axis=1)[:, :, None])
    found = dispatch.read_classes(
        rows,
        np.zeros(len(x), np.int64),
        None,
        logits=True,
        tolerance=1e-3,
        eps=0.0,
        scoring=False,
        uppers=None,
        threshold=0.0,
        keep=True,
    )
    return found.probs, found.top


def test_exp32_is_within_its_bound():
    """Rows (0, x): from x = -17.4 down 1 + exp(x) is 1 in float32, and the softmax is the exponential itself.

    Above, it is read off the loss of class 0, log(1 + exp(x)) in float64, to about 4e-16 / exp(x) < 2e-8.
    """
    rng = np.random.default_rng(10)
    low = np.concatenate([-rng.uniform(17.5, 87, 300), [-87, -17.5]]).astype(np.float32)
    probs, top = softmax_of(low)
    assert (top == 1).all()
    assert max(map(off, probs[:, 1], low)) <= 1e-7
    high = np.concatenate([-rng.uniform(0, 17.5, 300), [0, -0.34657359, -0.34657362, -1e-6]]).astype(np.float32)
    losses = [calibrant.negative_log_likelihood(np.array([[0, x]], np.float32), [0], logits=True) for x in high]
    assert max(map(off, np.expm1(losses), high)) <= 1e-7 + 2e-8
    # Smaller arguments are raised to -87, in no sum to be seen.
    assert calibrant.negative_log_likelihood(np.array([[0, -1e4]], np.float32), [1], logits=True) == 1e4


def test_the_terms_of_exp32_have_the_least_error():
    """min e with |r^2 q(r) - (exp(r) - 1 - r)| <= e exp(r) is a linear program in q and e."""
    r = np.cos(np.pi * (np.arange(2000) + 0.5) / 2000) * np.log(2) / 2
    powers, target = r[:, None] ** np.arange(2, 7), np.expm1(r) - r
    error = np.abs(powers @ EXP_TERMS - target) / np.exp(r)
    rows, right, e = powers * 1e9 / np.exp(r)[:, None], target * 1e9 / np.exp(r), -np.ones((len(r), 1))
    best = linprog(
        [0, 0, 0, 0, 0, 1],
        A_ub=np.vstack([np.hstack([rows, e]), np.hstack([-rows, e])]),
        b_ub=np.concatenate([right, -right]),
        bounds=(None, None),
    )
    assert error.max() == pytest.approx(best.fun / 1e9, rel=1e-2)
    assert error.max() < 3.1e-9


def test_exp64_is_within_its_bound():
    """Rows (0, x): below -37.5 the softmax is the exponential itself; above, three roundings of 2^-53 are added."""
    rng = np.random.default_rng(11)
    x = np.concatenate([-rng.uniform(0, 708, 300), -rng.uniform(0, 37, 300), [0, -708, -37.5, -0.34657359027997264]])
    probs, _ = softmax_of(x)
    for row, argument in zip(probs, x, strict=True):
        with mpmath.workdps(40):
            exact = true_exp(argument) / (1 + true_exp(argument))
            error = float(abs(mpmath.mpf(float(row[1])) / exact - 1))
        assert error <= 1e-15 + (3 * 2.0**-53 if argument > -37.5 else 0)


def test_the_logarithm_is_within_its_bound():
    """Of single events the loss is the logarithm itself: at every power of two, near 1, and among subnormals."""
    tails = 10.0 ** np.random.default_rng(16).uniform(-323, 0, 400)
    ends = [1.0, 0.5, 5e-324, 2.0**-1022, np.nextafter(2.0**-1022, 0), np.nextafter(1, 0), 0.5**0.5, 1e-300]
    probs = np.concatenate([tails, 2.0 ** -np.arange(1074.0), 1 - tails[tails > 1e-16], ends])
    for p in probs[probs > 0]:
        totals, one, outcomes = np.zeros((2, reference.N_TOTALS)), np.array([p]), np.empty(1, np.uint8)
        host.read_events(one, np.ones(1, np.int64), np.empty(0), 0.0, False, True, one, outcomes, totals)
        exact = -mpmath.log(mpmath.mpf(float(p)))
        assert abs(joined(totals)[reference.NLL] - float(exact)) <= 1e-15 * float(exact)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [2, 64, 65, 1000])
def test_the_loss_is_that_of_log_sum_exp(dtype, size):
    logits = normal_rows(6, size, dtype, seed=12)
    for shift in (0, 500, -500):  # exact in both types, so the loss does not move
        moved = (np.round(logits * 256) / 256 + shift).astype(dtype)
        targets = np.arange(6) % size
        losses = []
        with mpmath.workdps(40):
            for row, y in zip(moved, targets, strict=True):
                terms = [mpmath.exp(mpmath.mpf(float(z))) for z in row]
                losses.append(mpmath.log(mpmath.fsum(terms)) - mpmath.mpf(float(row[y])))
            truth = float(sum(losses) / 6)
        found = calibrant.negative_log_likelihood(moved, targets, logits=True)
        # The total is off by 1e-7 (float32) of itself, its logarithm by as much absolutely; float64 adds the rounding
        # of a loss up to 70.
        assert found == pytest.approx(truth, rel=0, abs=1e-7 if dtype == "float32" else 1e-15 + 70 * 2.0**-52)


# ---------------------------------------------------------------- layouts


def exact_rows(n, size, seed=13):
    """Probabilities that are multiples of 1/64: exact in every type, bfloat16 included, and rows sum to 1 exactly."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(64, rng.dirichlet(np.full(size, 0.5), n)) / 64


def bfloat16(array):
    return (array.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def layouts(probs):
    """The same (n, C) rows in every layout, as `Rows`; the last by their name's type."""
    n, size = probs.shape
    for dtype in DTYPES:
        plain = probs.astype(dtype)
        yield f"C {dtype}", dispatch.Rows(plain[:, :, None])
        yield f"Fortran {dtype}", dispatch.Rows(np.asfortranarray(plain)[:, :, None])
        wide = np.full((2 * n, 3 * size), np.nan, dtype)
        wide[::2, 1::3] = plain
        yield f"strided {dtype}", dispatch.Rows(wide[::2, 1::3][:, :, None])
        yield f"reversed {dtype}", dispatch.Rows(np.ascontiguousarray(plain[::-1, ::-1])[::-1, ::-1][:, :, None])
        frozen = plain.copy()
        frozen.flags.writeable = False
        yield f"read-only {dtype}", dispatch.Rows(frozen[:, :, None])
        yield f"other byte order {dtype}", dispatch.Rows(plain.astype(plain.dtype.newbyteorder())[:, :, None])
        raw = np.frombuffer(b"\0" + plain.tobytes(), np.uint8)[1:].view(dtype).reshape(n, size)
        yield f"unaligned {dtype}", dispatch.Rows(raw[:, :, None])
        for depth in (d for d in (2, 5, n) if n % d == 0):
            deep = np.ascontiguousarray(plain.reshape(n // depth, depth, size).transpose(0, 2, 1))
            yield f"(B, C, {depth}) {dtype}", dispatch.Rows(deep)
    yield "float16", dispatch.Rows(probs.astype(np.float16)[:, :, None])
    yield "bfloat16", dispatch.Rows(bfloat16(probs)[:, :, None], bfloat16=True)
    deep = np.ascontiguousarray(probs.reshape(n // 2, 2, size).transpose(0, 2, 1))
    yield "bfloat16 (B, C, 2)", dispatch.Rows(bfloat16(deep), bfloat16=True)


@pytest.mark.parametrize("size", [3, 65])
@pytest.mark.parametrize("logits", [False, True])
def test_every_layout_gives_the_same(size, logits):
    n = 2310 if size == 65 else 30  # 150,150 entries: three stretches of the converting copy
    values = exact_rows(n, size)
    if logits:
        values = values * 8 - 3
    targets, weights = labels_and_weights(n, size)
    expected = {}
    for name, rows in layouts(values):
        dtype = rows.dtype
        assert dtype == (np.float64 if "64" in name else np.float32), name
        options = {"eps": 0.0, "scoring": True, "uppers": uppers_of(10, dtype), "threshold": 0.05, "tolerance": 1e-3}
        found = dispatch.read_classes(rows, targets, weights, logits=logits, **options)
        top, correct, totals, histograms = found.top, found.correct, found.totals, found.histograms
        if dtype not in expected:
            expected[dtype] = top, correct, totals, histograms
        first = expected[dtype]
        assert top.tobytes() == first[0].tobytes(), name
        assert correct.tobytes() == first[1].tobytes(), name
        np.testing.assert_allclose(totals, first[2], rtol=SUMS, err_msg=name)
        np.testing.assert_array_equal(histograms[[0, 2]], first[3][[0, 2]], err_msg=name)
        np.testing.assert_allclose(histograms[1], first[3][1], rtol=SUMS, err_msg=name)
        np.testing.assert_array_equal(rows.pick(n - 1), values[n - 1].astype(dtype), err_msg=name)
    if not logits:  # multiples of 1/64 are the same in both types, and so is all that is made of them
        assert expected[np.dtype(np.float32)][3].tobytes() == expected[np.dtype(np.float64)][3].tobytes()


@pytest.mark.parametrize("logits", [False, True])
def test_every_layout_of_events_gives_the_same(logits):
    n = 70_000  # more than one stretch of the converting copy
    rng = np.random.default_rng(14)
    values = rng.integers(0, 65, (n, 1)) / 64 * (8 if logits else 1)
    y = rng.integers(0, 2, n)
    expected = {}
    for name, rows in layouts(values):
        scores, outcomes, totals = dispatch.read_events(rows, y, None, eps=1e-3, logits=logits, scoring=True)
        first = expected.setdefault(rows.dtype, (scores, outcomes, totals))
        assert scores.tobytes() == first[0].tobytes(), name
        assert outcomes.tobytes() == first[1].tobytes(), name
        np.testing.assert_allclose(totals, first[2], rtol=SUMS, err_msg=name)


def test_layouts_reach_the_measures():
    probs, labels = exact_rows(400, 4), np.random.default_rng(15).integers(0, 4, 400)
    expected = json.loads(calibrant.evaluate(probs, labels, n_resamples=99).to_json())
    variants = {
        "float16": probs.astype(np.float16),
        "float32": probs.astype(np.float32),
        "Fortran": np.asfortranarray(probs),
        "reversed": np.ascontiguousarray(probs[::-1])[::-1],
        "strided": np.repeat(probs, 2, axis=0)[::2],
        "big-endian": probs.astype(">f8"),
        "read-only": np.frombuffer(probs.tobytes()).reshape(probs.shape),
        "list": probs.tolist(),
        "sheets": np.ascontiguousarray(probs.reshape(20, 20, 4).transpose(0, 2, 1)),
    }
    for name, variant in variants.items():
        own = labels.reshape(20, 20) if name == "sheets" else labels
        found = json.loads(calibrant.evaluate(variant, own, clusters=False, n_resamples=99).to_json())
        for measure, entry in expected["estimates"].items():
            # Counts are exact; sums are of multiples of 1/64, exact in any order, but for the logarithms.
            bound = 1e-7 if measure == "smece" else SUMS
            assert found["estimates"][measure]["value"] == pytest.approx(entry["value"], abs=bound), (name, measure)
        assert found["diagram"] == expected["diagram"], name


def test_bfloat16_tensors_are_read_as_they_are():
    torch = pytest.importorskip("torch")
    probs, labels = exact_rows(50, 4), np.random.default_rng(16).integers(0, 4, 50)
    expected = evaluate(probs, labels).to_dict()
    found = evaluate(torch.tensor(probs, dtype=torch.bfloat16), torch.tensor(labels)).to_dict()
    assert found["diagram"] == expected["diagram"]
    assert found["estimates"]["brier"]["value"] == pytest.approx(expected["estimates"]["brier"]["value"], rel=SUMS)


# ---------------------------------------------------------------- blocks and threads

#: Few resamples: what is tested is that they do not depend on threads.
evaluate = functools.partial(calibrant.evaluate, n_resamples=70)


def report_of(threads, monkeypatch, *args, **kwargs):
    monkeypatch.setenv("CALIBRANT_NUM_THREADS", threads)
    return evaluate(*args, **kwargs).to_json()


@pytest.fixture(scope="module")
def many():
    """500,000 events (4 blocks, 3 lanes of moments) and 60,000 rows of 10 (5 blocks, 4 lanes of histograms)."""
    rng = np.random.default_rng(17)
    p = rng.random(500_000).astype(np.float32)
    rows = rng.normal(0, 2, (60_000, 10)).astype(np.float32)
    return p, rng.random(len(p)) < p**1.3, rng.integers(1, 4, len(p)) / 3, rows, rng.integers(0, 10, len(rows))


@pytest.mark.slow
def test_threads_change_no_bit(many, monkeypatch):
    p, y, weights, logits, labels = many
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    row_weights = weights[: len(labels)]
    cases = {
        "events": ((p, y), {}),
        "weighted events": ((p, y), {"weights": weights}),
        "log-odds": ((p * 9 - 4, y), {"logits": True}),
        "strided events": ((np.repeat(p, 2)[::2], y), {}),
        "probabilities": ((probs, labels), {}),
        "without classes": ((probs, labels), {"classwise": False}),
        "logits": ((logits, labels), {"logits": True}),
        "weighted logits": ((np.asfortranarray(logits), labels), {"logits": True, "weights": row_weights}),
    }
    for name, (args, options) in cases.items():
        one = report_of("1", monkeypatch, *args, **options)
        for threads in ("2", "7"):
            assert report_of(threads, monkeypatch, *args, **options) == one, name


def test_blocks_add_up_to_the_whole(many, monkeypatch):
    monkeypatch.setenv("CALIBRANT_KERNELS", "numba")
    # Blocks and lanes against one call of the loop over all rows.
    _, _, _, logits, labels = many
    n, size = logits.shape
    options = {"weights": np.empty(0), "eps": 0.0, "scoring": True}
    options |= {"uppers": uppers_of(15, "float32"), "threshold": 0.0}
    whole = run(host, "read_logits", n, (15, size), "float32", logits, labels, keep=False, **options)
    top, correct, histograms, totals = read(logits, labels, 15, logits=True)
    assert top.tobytes() == whole[1].tobytes()
    assert correct.tobytes() == whole[2].tobytes()
    np.testing.assert_array_equal(histograms[[0, 2]], whole[3][[0, 2]])
    np.testing.assert_allclose(histograms[1], whole[3][1], rtol=SUMS)
    np.testing.assert_allclose(totals, whole[4], rtol=SUMS)


def test_two_threads_at_once_have_the_same_bits(many):
    p, y = (column[:150_000] for column in many[:2])  # two blocks
    expected, found = evaluate(p, y).to_json(), {}

    def work(k):
        found[k] = evaluate(p, y).to_json()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == dict.fromkeys(range(3), expected)


@pytest.mark.parametrize("wish", ["0", "-1", "two", "", "1.5"])
def test_a_wish_for_no_number_of_threads_is_refused(monkeypatch, wish):
    monkeypatch.setenv("CALIBRANT_NUM_THREADS", wish)
    with pytest.raises(InputError, match="CALIBRANT_NUM_THREADS: expected a positive integer"):
        calibrant.expected_calibration_error([0.5], [1])
