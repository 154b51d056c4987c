"""The rows behind the bins of every class. A row is in a bin of each class, so that sums over classes do not add up.

Its outcomes are one-hot: the sums S of two classes' bins have the covariance - sum p p' under calibration, with p and
p' the scores of the rows in both bins.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.predictions import Predictions
from calibrant.inputs.weights import integer_weights
from calibrant.kernels import compensated
from calibrant.kernels.compiling import kernels_for
from calibrant.kernels.row_blocks import in_order
from calibrant.runtime.arrays import Float64s, Floats
from calibrant.runtime.cached import cached_property
from calibrant.runtime.dataclass import dataclass
from calibrant.table.cluster_labels import mix64

if TYPE_CHECKING:
    from calibrant.kernels.device_rows import DeviceRows

_ENTRIES: Final = 2**18  # scores that are in memory together
_SAMPLE: Final = 512  # rows whose covariance stands for that of all
_CANDIDATES: Final = 8  # times as many rows are looked at more closely
_OFFSET: Final = np.uint64(0x9E3779B9)  # 2^32 over the golden ratio
_MOST: Final = 2.0  # of the dependence: that of two classes, whose S are opposite
_TOGETHER: Final = 64  # classes


@dataclass(frozen=True, eq=False)
class ClassRows:
    """The evaluated rows of exclusive classes, and ``uppers``, the largest score of each bin, (M,)."""

    predictions: Predictions
    uppers: Floats

    @cached_property
    def dependence(self) -> float:
        """How much larger the variance of sum |S| over classes and bins is under calibration than for independent S.

        With standard deviations s and correlations r of normal S it is at most 1 + sum r^2 s s' / sum s^2 over pairs:
        the covariance of two folded normals is at most (1 - 2 / pi) r^2 s s', equal for r = 1. The sums are those of
        512 rows, chosen by a hash of their scores, so that the order of the rows plays no part.
        """
        if self.predictions.rows.on_device:
            return self._dependence_on_device()
        scores, _, q = next(self._sample())
        p, places = scores.astype(np.float64), self._places(scores)
        of_bins, size = places.ravel(), scores.shape[1] * len(self.uppers)
        variances = compensated.binned(of_bins, (q[:, None] * p * (1 - p)).ravel(), size)
        of_rows = compensated.binned(of_bins, (q[:, None] * p**2).ravel(), size)
        some = variances > 0
        if not some.any():
            return 1.0
        roots = np.sqrt(np.where(some, variances, 1.0))
        scaled = np.where(some[places], p / np.sqrt(roots)[places], 0.0) * np.sqrt(q)[:, None]
        own = compensated.total_of(of_rows[some] ** 2 / variances[some])
        pairs = compensated.total_of(self._products(scaled, places).ravel() ** 2) - own
        return min(1 + max(pairs, 0.0) / compensated.total_of(variances), _MOST)

    def _dependence_on_device(self) -> float:
        few = self.predictions.take(self._some())
        rows = cast("DeviceRows", few.rows)
        pairs, own, total = rows.dependence(ClassRows(few, self.uppers)._squares(slice(0, few.n)), self.uppers)
        return 1.0 if total == 0 else min(1 + max(pairs - own, 0.0) / total, _MOST)

    def _products(self, scaled: Float64s, places: NDArray[np.intp]) -> Float64s:
        """Return the products of rows over the bins that they share, (n, n), some classes at a time.

        The factors are rounded to so few bits (21 of 1,000 classes) that any order adds their products exactly.
        """
        n, n_classes = scaled.shape
        unit = math.ldexp(1.0, math.frexp(float(scaled.max()))[1] - (53 - n_classes.bit_length()) // 2)
        scaled = np.rint(scaled / unit) * unit
        products, rows = np.zeros((n, n)), np.arange(n)[:, None]
        for first in range(0, n_classes, _TOGETHER):
            part = slice(first, first + _TOGETHER)
            dense = np.zeros((n, scaled[:, part].shape[1] * len(self.uppers)))
            dense[rows, places[:, part] - first * len(self.uppers)] = scaled[:, part]
            products += dense @ dense.T
        return products

    def variances(self, slopes: Float64s) -> Float64s:
        """Return the variance of sum f S for slopes f of all bins, class by class: (R, C M) to (R,).

        It is sum q (psi - mean)^2 with psi = sum over classes of f (p - y), what a row adds.
        """
        if self.predictions.device_rows is not None:
            q = self._squares(slice(0, self.predictions.n))
            sums_of_rows = self.predictions.device_rows.slope_sums(
                self.predictions.evaluated, q, q if self._whole else np.sqrt(q), self.uppers, slopes
            )
            return _variances(sums_of_rows)
        kernels = kernels_for("rows", self.predictions.n * self.predictions.rows.width)
        step = max(1, _ENTRIES // self.predictions.rows.width)
        n = self.predictions.n

        def work(index: int) -> Float64s:
            sums = np.zeros((2, len(slopes), 5))
            for p, y, q in self._blocks(index * step, min((index + 1) * step, n)):
                w = q if self._whole else np.sqrt(q)
                kernels.slope_rows(p, y, q, w, self.uppers, slopes, sums)
            return sums

        sums_of_rows = np.zeros((2, len(slopes), 5))
        for part in in_order(work, -(-n // step)):
            compensated.merge(sums_of_rows, part)
        return _variances(compensated.joined(sums_of_rows))

    @cached_property
    def _whole(self) -> bool:
        return integer_weights(self.predictions.weights)

    def _places(self, p: Floats) -> NDArray[np.intp]:
        """Return the bin of each score among the bins of all classes, (n, C)."""
        bins = np.searchsorted(self.uppers, p)
        return bins + np.arange(p.shape[1]) * len(self.uppers)

    def _blocks(self, start: int, stop: int) -> Iterator[tuple[Floats, NDArray[np.int64], Float64s]]:
        """Yield the probabilities, (n, C), labels and q of the evaluated ones of these rows."""
        predictions = self.predictions
        for first, block in predictions.rows.blocks(start, stop):
            rows = slice(first, first + len(block))
            p, y, q = block, predictions.targets[rows], self._squares(rows)
            keep = predictions.evaluated[rows]
            if not keep.all():
                p, y, q = p[keep], y[keep], q[keep]
            if predictions.logits:
                wide = np.exp(p.astype(np.float64) - p.max(axis=1, keepdims=True))
                p = (wide / wide.sum(axis=1, keepdims=True)).astype(p.dtype)
            yield p, y.astype(np.int64, copy=False), q

    def _squares(self, rows: slice) -> Float64s:
        """Return what rows add to variances: w for whole weights, w^2 for others."""
        weights, n = self.predictions.weights, rows.stop - rows.start
        if weights is None:
            return np.ones(n)
        return np.asarray(weights[rows] if self._whole else weights[rows] ** 2)

    def _sample(self) -> Iterator[tuple[Floats, NDArray[np.int64], Float64s]]:
        """Yield some evaluated rows, see `_some`."""
        few_rows = self.predictions.take(self._some())
        return ClassRows(few_rows, self.uppers)._blocks(0, few_rows.n)

    def _some(self) -> NDArray[np.intp]:
        """Return some evaluated rows: those whose rounded scores of three classes have the smallest hashes."""
        predictions, keep = self.predictions, np.flatnonzero(self.predictions.evaluated)
        if len(keep) > _SAMPLE:
            hashes = self._hashes([predictions.rows.raw(0, keep)])
            few = np.flatnonzero(hashes < np.uint64(min(_CANDIDATES * _SAMPLE / len(keep), 1.0) * (2**64 - 2**12)))
            keep = keep[few] if len(few) >= _SAMPLE else keep
            classes = range(0, predictions.n_classes, max(predictions.n_classes // 3, 1))
            scores = [predictions.rows.raw(k, keep) for k in classes]
            hashes, exact = self._hashes(scores), self._hashes(scores, rounded=False)
            keep = keep[np.lexsort((exact, hashes))[:_SAMPLE]]
        return keep

    def _hashes(self, scores: Sequence[NDArray[Any]], *, rounded: bool = True) -> NDArray[np.uint64]:
        """Return a hash of each row from its scores of some classes, as they were passed.

        Rounded scores have about 20 significant bits, so that their last bits, which differ between processors, leave
        nearly all hashes unchanged. The offset keeps short decimals away from the edges of rounding.
        """
        hashes = np.zeros(len(scores[0]), np.uint64)
        for column in scores:
            bits = column if self.predictions.rows.bfloat16 else column.astype(np.float64).view(np.uint64)
            if rounded and not self.predictions.rows.bfloat16:
                bits = (bits + _OFFSET) >> np.uint64(32)
            hashes = mix64(hashes ^ bits.astype(np.uint64))
        return hashes


def _variances(sums: Float64s) -> Float64s:
    """Return the variances from the sums of `reference.slope_rows`, (R, 5)."""
    square, linear, total, mean, weight = sums.T
    mean = mean / weight
    return np.asarray(np.maximum(square - mean * (2 * linear - mean * total), 0.0))
