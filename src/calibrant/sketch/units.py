"""The sums of a sketch in the units of weights that results are computed in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calibrant.clusters import BucketSums, ClusterSums
from calibrant.clusters.sums import SCALARS
from calibrant.inputs.weights import unit_of
from calibrant.sketch.sums import SQUARED, Curves, SketchSums, Totals

_COUNTED = tuple(SCALARS.index(name) for name in ("right", "infinite"))


def in_units(part: SketchSums) -> SketchSums:
    """Return the sums with weights divided by their unit; the same object if the unit is 1.

    If all weights are equal, counts are then integers, as without weights.
    """
    totals, curves = part.totals, part.curves
    if curves.squares is None or totals.whole or not totals.n:
        return part
    unit, equal = unit_of(totals.n, totals.weight, totals.square_weight)
    if equal and not np.array_equal(np.rint(curves.counts / unit).sum(axis=(1, 2)), curves.rows):
        return part  # so many rows that the unit is not exact enough to count them
    if unit == 1 and not equal:
        return part
    clusters = None
    if part.clusters is not None:
        event, *classes = (_buckets(sums, unit, equal) for sums in part.clusters.parts)
        clusters = ClusterSums(event, tuple(classes))
    return SketchSums(_totals(totals, unit, equal), _curves(curves, unit, equal), clusters)


def _totals(totals: Totals, unit: float, equal: bool) -> Totals:
    names = ("weight", "entries", "infinite", *SQUARED)
    divided = {name: getattr(totals, name) / unit for name in names}
    if equal:
        counts = {name: float(round(divided[name])) for name in ("entries", "correct", "infinite")}
        divided |= counts | dict.fromkeys(("weight", "square_weight", "quartic_weight"), float(totals.n))
        alike = {f"squared_{name}": divided[name] for name in SQUARED}
        return replace(totals, whole=True, **divided, **alike)
    squared = {f"squared_{name}": getattr(totals, f"squared_{name}") / unit / unit for name in SQUARED}
    square, quartic = totals.square_weight / unit / unit, totals.quartic_weight / unit / unit / unit / unit
    return replace(totals, square_weight=square, quartic_weight=quartic, **divided, **squared)


def _curves(curves: Curves, unit: float, equal: bool) -> Curves:
    counts, sums = curves.counts / unit, curves.sums / unit
    if equal:
        return Curves(np.rint(counts).astype(np.int64), sums, None, curves.rows)
    return Curves(counts, sums, None if curves.squares is None else curves.squares / unit / unit, curves.rows)


def _buckets(sums: BucketSums, unit: float, equal: bool) -> BucketSums:
    cell_sums, scalars = sums.cell_sums / unit, sums.scalars / unit
    scalars[:, SCALARS.index("rows")] = sums.rows
    if equal:
        cell_sums[:, :, :2] = np.rint(cell_sums[:, :, :2])
        scalars[:, _COUNTED] = np.rint(scalars[:, _COUNTED])
    return replace(sums, cell_sums=cell_sums, scalars=scalars)
