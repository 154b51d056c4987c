"""Bucket sums as settings and plain arrays, and back; what comes from a file is checked like input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple
from typing import Any, Final, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.clusters.cells import EVENT_CELLS, CoarseCells
from calibrant.clusters.labels import HASH, LabelKind
from calibrant.clusters.sums import SCALARS, BucketSums
from calibrant.errors import InputError

_PLACES: Final = ("bucket", "cell")
_SUMS: Final = ("weight", "positives", "gaps")
_ROUNDING: Final = 1e-9  # of a sum, relative to the weight
_FLOAT32: Final = 1e-6  # the same, and scores of float32 are counted by edges rounded to float32
_DAMAGED: Final = "read them again, or make the sums anew"
_OTHER: Final = "read them with the calibrant that wrote them, or a newer one"


#: The columns of stored sums.
COLUMNS: Final = ("hashes", *_PLACES, *_SUMS, *SCALARS)


def settings_of(sums: BucketSums) -> dict[str, Any]:
    """Return what is stored next to the columns, as plain Python."""
    return {
        "hash": sums.hash_name,
        "kind": sums.kind,
        "pooled": sums.pooled,
        "scored": sums.scored,
        "grid": [int(setting) for setting in astuple(sums.cells)],
    }


def columns_of(sums: BucketSums) -> dict[str, NDArray[Any]]:
    """Return all sums that survive an addition, by the names in `COLUMNS`.

    The occupied cells are in ``bucket``, ``cell``, ``weight``, ``positives`` and ``gaps``, one entry each; the sums
    named in `SCALARS` have an entry for each bucket. ``hashes`` is empty for pooled buckets.
    """
    bucket, cell = np.nonzero(sums.n)
    return {
        "hashes": np.empty(0, np.uint64) if sums.hashes is None else sums.hashes,
        "bucket": bucket.astype(np.uint16),
        "cell": cell.astype(np.uint16),
        **dict(zip(_SUMS, sums.cell_sums[bucket, cell].T.copy(), strict=True)),
        **dict(zip(SCALARS, sums.scalars.T.copy(), strict=True)),
    }


def from_arrays(arrays: Mapping[str, Any], *, cells: CoarseCells = EVENT_CELLS, argument: str = "arrays") -> BucketSums:
    """Return the sums of `settings_of` and `columns_of`, together in one mapping, for these coarse cells.

    Raises
    ------
    InputError
        For sums of another hash or of other cells, and for arrays that are not sums of rows.
    """
    try:
        sums = _read(arrays, cells, argument)
        sound = _sound(sums)
    except InputError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
        raise InputError(argument, "sums over buckets of clusters", f"others ({error!r})", _DAMAGED) from None
    if not sound:
        raise InputError(argument, "sums over buckets of clusters", "numbers that are no such sums", _DAMAGED)
    return sums


def _read(arrays: Mapping[str, Any], cells: CoarseCells, argument: str) -> BucketSums:
    """Return the sums with the shapes and types that they should have; their numbers are not checked yet."""
    hash_name, kind = str(arrays["hash"]), str(arrays["kind"])
    if hash_name != HASH:
        raise InputError(argument, f"labels hashed with {HASH}", repr(hash_name)[:80], _OTHER)
    if not np.array_equal(arrays["grid"], astuple(cells)):
        raise InputError(argument, f"sums in {cells.n_cells} coarse cells", "other cells", _OTHER)
    pooled, scored = (bool(_array(arrays, name, "b", ndim=0)) for name in ("pooled", "scored"))
    hashes = _array(arrays, "hashes", "u").astype(np.uint64)
    n_buckets = cells.n_buckets if pooled else len(hashes)
    if kind not in get_args(LabelKind) or len(hashes) > (0 if pooled else n_buckets) or n_buckets > cells.n_buckets:
        raise ValueError("clusters")
    bucket, cell = (_array(arrays, name, "iu").astype(np.int64) for name in _PLACES)
    if not (_below(bucket, n_buckets) and _below(cell, cells.n_cells) and _increase(bucket * cells.n_cells + cell)):
        raise IndexError("places of cells")
    cell_sums = np.zeros((n_buckets, cells.n_cells, 3))
    cell_sums[bucket, cell] = np.stack([_array(arrays, name, "f") for name in _SUMS], axis=1)
    scalars = np.stack([_array(arrays, name, "f") for name in SCALARS], axis=1, dtype=np.float64)
    if len(scalars) != n_buckets:
        raise ValueError("buckets")
    own = None if pooled else hashes
    return BucketSums(kind, own, cell_sums, scalars, scored=scored, cells=cells)  # type: ignore[arg-type]


def _array(arrays: Mapping[str, Any], name: str, kinds: str, ndim: int = 1) -> NDArray[Any]:
    array = np.asarray(arrays[name])
    if array.ndim != ndim or array.dtype.kind not in kinds:
        msg = f"{name} of shape {array.shape} and type {array.dtype}"
        raise TypeError(msg)
    return array


def _below(places: NDArray[np.int64], size: int) -> bool:
    return bool(((places >= 0) & (places < size)).all())


def _increase(numbers: NDArray[Any]) -> bool:
    return bool((numbers[1:] > numbers[:-1]).all())


def _sound(sums: BucketSums) -> bool:
    """Return whether the numbers can be sums of rows, up to rounding."""
    if not (np.isfinite(sums.cell_sums).all() and np.isfinite(sums.scalars).all()):
        return False
    if sums.hashes is not None and not _increase(sums.hashes):
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return _sound_cells(sums) and _sound_scalars(sums)


def _sound_cells(sums: BucketSums) -> bool:
    """Return whether cells hold outcomes of 0 and 1, and scores between their ends."""
    bucket, cell = np.nonzero(sums.cell_sums.any(axis=2))
    n, y, gaps = sums.cell_sums[bucket, cell].T
    edges = sums.cells.edges
    low, high = np.append(0.0, edges)[cell], np.append(edges, 1.0)[cell]
    score_sums, slack = gaps + y, _FLOAT32 * n
    outcomes = (y >= 0) & (y <= n * (1 + _ROUNDING))
    return bool((outcomes & (score_sums >= low * n - slack) & (score_sums <= high * n + slack)).all())


def _sound_scalars(sums: BucketSums) -> bool:
    """Return whether the sums over all cells fit the weights of the buckets."""
    weight, slack = sums.weight, _ROUNDING * sums.weight
    rows, *scores, tilt = (sums.scalar(name) for name in SCALARS)
    right, _, _, infinite = scores
    counted = np.array_equal(rows, np.rint(rows)) and np.array_equal(rows > 0, weight > 0) and (rows >= 0).all()
    scored = all((x >= -slack).all() for x in scores) and all((x <= weight + slack).all() for x in (right, infinite))
    known = sums.scored or not any(x.any() for x in scores)
    return bool(counted and scored and known and (np.abs(tilt) <= weight + slack).all() and np.isfinite(weight).all())
