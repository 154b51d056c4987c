"""Scores added to the cells of a grid by torch operations, against exact sums, the host's kernel and each other."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from calibrant.errors import InputError  # noqa: E402
from calibrant.kernels import dispatch, tensor_cells, tensors  # noqa: E402
from calibrant.table import grid  # noqa: E402

GRIDS = ("standard", "fine")


def table_of(name, dtype=np.float32):
    return tensor_cells.cell_table(grid.edges(name).astype(dtype), torch.device("cpu"))


def cells_of(scores, outcomes, name="standard", evaluated=None):
    scores = np.asarray(scores)
    evaluated = np.ones(scores.shape, bool) if evaluated is None else evaluated
    columns = [torch.as_tensor(x) for x in (scores, outcomes, evaluated)]
    return tensor_cells.cells(*columns, table_of(name, scores.dtype))


def around_edges(name, dtype):
    """Return every edge of a grid, the numbers before and after it, and scores of every size."""
    edges, rng = grid.edges(name).astype(dtype), np.random.default_rng(5)
    sizes = 10.0 ** -rng.uniform(0, 29, 500)
    x = [edges, np.nextafter(edges, dtype(-1)), np.nextafter(edges, dtype(2)), sizes, 1 - sizes, rng.random(500)]
    x = np.concatenate(x).astype(dtype)
    return x[(x >= 0) & (x <= 1)]


def exact_cells(x, y, name):
    """Return the counts (2, K) and the sums (3, K) of cells, these added without rounding and then rounded once."""
    cell, size = grid.cell_of(x, name), len(grid.edges(name)) + 1
    counts, sums, p = np.zeros((2, size), np.int64), np.zeros((3, size)), x.astype(np.float64)
    np.add.at(counts, (y, cell), 1)
    order = np.argsort(cell, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(cell[order])) + 1):
        no, yes = rows[y[rows] == 0], rows[y[rows] == 1]
        sums[:, cell[rows[0]]] = math.fsum(p[no]), math.fsum(p[yes]), math.fsum(p[rows] ** 2)
    return counts, sums


@pytest.mark.parametrize("name", GRIDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cells_around_every_edge_are_those_of_the_grid(name, dtype):
    x = around_edges(name, dtype)
    y = np.random.default_rng(6).integers(0, 2, len(x))
    found = cells_of(x, y, name)
    counts, sums = exact_cells(x, y, name)
    assert found.counts.dtype == torch.int64
    assert found.sums.dtype == torch.float64
    np.testing.assert_array_equal(found.counts, counts)
    # Whole numbers, until the 75 or 79 slots of the first cell are added in float64; those of double precision are
    # the squares of numbers cut to 2^-56, and exact to 2^-50.
    np.testing.assert_allclose(found.sums, sums, rtol=1e-14 if dtype == np.float32 else 2e-15, atol=0)
    exact = np.arange(sums.shape[1]) != 1
    np.testing.assert_allclose(found.sums[:, exact], sums[:, exact], rtol=2.0**-51, atol=0)
    assert int(found.refused) == 0


def test_cells_are_those_of_the_host_kernel():
    rng = np.random.default_rng(7)
    x = rng.beta(0.2, 0.2, 3000).astype(np.float32)
    y = (rng.random(3000) < x).astype(np.uint8)
    lookup = grid.lookup("standard", x.dtype)
    host = dispatch.cell_rows(x, y, None, *lookup).T
    found = cells_of(x, y)
    np.testing.assert_array_equal(found.counts, host[:2])
    np.testing.assert_allclose(found.sums, host[2:], rtol=1e-12, atol=0)


def test_cells_have_the_same_bits_in_any_order_and_of_any_parts():
    rng = np.random.default_rng(8)
    x, y = rng.random(2500).astype(np.float32) ** 9, rng.integers(0, 2, 2500)
    x[rng.random(2500) < 0.3] = 1
    whole, order = cells_of(x, y), rng.permutation(2500)
    mixed = cells_of(x[order], y[order])
    assert torch.equal(whole.counts, mixed.counts)
    assert torch.equal(whole.sums, mixed.sums)
    parts = [cells_of(x[a:b], y[a:b]) for a, b in ((0, 1), (1, 1025), (1025, 2500))]
    assert torch.equal(sum(part.counts for part in parts), whole.counts)
    torch.testing.assert_close(sum(part.sums for part in parts), whole.sums, rtol=1e-15, atol=0)


def test_every_column_has_cells_of_its_own():
    rng = np.random.default_rng(9)
    x, y = rng.random((700, 3)).astype(np.float32), rng.integers(0, 2, (700, 3))
    evaluated = rng.random((700, 3)) < 0.8
    found = cells_of(x, y, evaluated=evaluated)
    for k in range(3):
        kept = evaluated[:, k]
        alone = cells_of(x[kept, k], y[kept, k])
        assert torch.equal(found.counts[k], alone.counts)
        assert torch.equal(found.sums[k], alone.sums)


def test_what_is_not_judged_is_in_no_cell():
    x = np.array([0.5, np.nan, 0.25, 7.0, -1e-9, 0.25, 1.0, 0.0], np.float32)
    y = np.array([0, 1, 255, 1, 0, 1, 1, 0])
    evaluated = np.array([True, True, False, True, True, False, True, True])
    found = cells_of(x, y, evaluated=evaluated)
    assert found.counts.sum(1).tolist() == [2, 1]
    assert found.sums.sum(1).tolist() == [0.5, 1.0, 1.25]
    assert found.counts[:, 0].tolist() == [1, 0]
    assert found.counts[:, -1].tolist() == [0, 1]
    assert int(found.refused) == 3
    empty = cells_of(x[:0], y[:0])
    assert int(empty.counts.sum()) == int(empty.refused) == 0


def test_saturated_scores_do_not_fill_an_accumulator():
    """Where a cell's unit is smallest beside its scores: in (e, 4 e], just above the first edge e."""
    edge = grid.edges("standard")[2].astype(np.float32)
    found = cells_of(np.full(5000, edge), np.ones(5000, int))
    assert found.sums[1].sum().item() == 5000 * float(edge)
    assert found.sums[2].sum().item() == pytest.approx(5000 * float(edge) ** 2, rel=1e-15)
    whole = float(edge) * table_of("standard").scales.double()
    slot = int(torch.searchsorted(table_of("standard").edges, torch.tensor(edge)))
    assert whole[slot] == int(whole[slot]) <= 2**26


@pytest.mark.parametrize("name", GRIDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_units_and_bounds_of_slots(name, dtype):
    """What makes sums exact: scores are multiples of the unit, 2^26 of them at most (2^55), and near the bound."""
    table = tensor_cells.cell_table(grid.edges(name).astype(dtype), torch.device("cpu"))
    edges, scales, bounds = (x.double().numpy() for x in table[:3])
    apart = np.diff(edges) > 0
    assert apart.all() or (name == "fine" and dtype == np.float32 and (~apart).sum() < 20)  # nobody is between equals
    lower, upper = edges[:-1], edges[1:]
    units = 1 / scales[1:-1]
    digits = np.finfo(dtype).nmant
    assert (np.frexp(units)[0] == 0.5).all()
    assert (np.spacing(np.maximum(lower, 2.0**-101).astype(dtype)) == units).all()
    assert (upper / units <= 2.0 ** (digits + 3)).all()
    inner = bounds[1:-1]
    assert (upper <= inner).all()
    assert (inner <= 8 * np.maximum(lower, 2.0**-101)).all()
    kept = np.r_[edges[0], edges[table.parts :]]
    np.testing.assert_array_equal(kept, grid.edges(name).astype(dtype).astype(float))


def test_more_scores_than_an_accumulator_holds_are_refused():
    x = torch.empty(1, device="meta").expand(1 << 34)
    with pytest.raises(
        InputError, match="scores: expected fewer than 17,179,869,184 scores at once, got 17,179,869,184; add"
    ):
        tensor_cells.cells(x, x.bool(), x.bool(), None)
    assert (1 << 34) * (1 << 28) < 1 << 63


def test_cells_without_double_precision_come_in_pairs(monkeypatch):
    x = around_edges("standard", np.float32)
    y = np.arange(len(x)) % 2
    whole = cells_of(x, y)
    monkeypatch.setattr(tensors, "has_float64", lambda _device: False)
    columns = cells_of(np.stack([x, x], 1), np.stack([y, y], 1))
    assert columns.sums.shape == (2, 2, 3, whole.counts.shape[1])
    pairs = cells_of(x, y)
    assert pairs.sums.dtype == torch.float32
    assert torch.equal(pairs.counts, whole.counts)
    assert torch.equal(columns.sums[:, 1], pairs.sums)
    # Pairs hold 48 digits; squares below float32's least are 0.
    torch.testing.assert_close(tensors.joined(pairs.sums), whole.sums, rtol=2.0**-46, atol=1e-44)
