"""The adaptive test of calibration over many numbers of bins at once: T-Cal (Lee et al. 2022)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.inference.event_rows import UNUSED_LEVEL, EventRows, varies
from calibrant.inputs.predictions import Notion
from calibrant.measures.binned.binned import uniform_bin_of
from calibrant.measures.binned.cluster_bins import ClusterBins
from calibrant.results import TestResult
from calibrant.runtime.arrays import ArrayLike, Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.sketch import Arguments, Predicted
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import Clustered
from calibrant.statistics.null import p_value
from calibrant.statistics.resampling import Resampling, Rng, Stream, check_draws

_FINEST: Final = 2048  # bins; near 1/2 the cells of the standard grid are hardly narrower
_FINEST_COARSE: Final = 256  # bins of rows in clusters, whose coarse cells are 1/300 wide
_ROUNDING: Final = 1e-9  # where a deviation is 0, squared errors up to this are rounding


def t_cal_test(
    probs: Predicted,
    targets: ArrayLike | None = None,
    *,
    n_resamples: int = 1000,
    rng: Rng = 0,
    notion: Notion | None = None,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
    clusters: ArrayLike | None = None,
) -> TestResult:
    r"""Test calibration by the debiased squared l2 error over 2, 4, 8, ... bins at once: adaptive T-Cal.

    .. math:: T_m = \frac{1}{N} \sum_{b=1}^{m} \frac{1}{n_b}
        \Bigl[\Bigl(\sum_{i \in b} (y_i - p_i)\Bigr)^2 - \sum_{i \in b} (y_i - p_i)^2\Bigr], \qquad
        T = \max_m T_m / \operatorname{sd} T_m

    over m = 2, 4, ... equal-width bins. Each :math:`T_m` sums the products of pairs of residuals that share a bin, and
    has mean 0 under calibration. Few bins detect smooth errors best, many bins detect wiggly ones. Larger T is worse.
    The law of T under calibration is simulated: outcomes :math:`y^* \sim B(p)` are drawn B times at the same scores,
    and the p-value is (1 + #{T* >= T}) / (B + 1).

    Parameters
    ----------
    n_resamples : int, default 1000
        How many samples B of outcomes to draw; the p-value of T is at least 1 / (B + 1).
    rng : int or numpy.random.Generator or numpy.random.SeedSequence, default 0
        The seed: equal seeds give equal p-values. A Generator advances with each call. The number of threads plays no
        part.
    probs, targets, notion, weights, ignore_index, logits, clusters
        As in `spiegelhalter_test`. With weights that are not whole numbers N is (sum w)^2 / sum w^2. With clusters only
        pairs of rows of different clusters count, the distribution of T comes from simulated data sets as in `ks_test`,
        and there are at most 256 bins, whose edges are those of the 428 cells.

    Returns
    -------
    TestResult
        ``details`` hold ``n_bins`` (the m that decided), ``square_error`` (its :math:`T_m`), ``statistics`` (of each m)
        and ``n_resamples``.

    Raises
    ------
    calibrant.errors.InputError
        As `spiegelhalter_test`; for ``n_resamples`` below 1 and an invalid ``rng``.

    Notes
    -----
    From the paper: the estimator :math:`T_m`, equal-width bins whose number doubles, and outcomes drawn from the
    scores. Ours:

    - T is the maximum of standardised statistics, with its own law. The paper rejects if any of the tests does at its
      share of the level. A maximum has a p-value and is less conservative, because the :math:`T_m` are dependent.
    - The scores are kept, not resampled, so the test is exact for independent rows with up to 4,396 distinct scores.
    - Bins are closed on the right.
    - There are at most N / 2 and 2,048 bins. The paper goes on to about N^2 / log N bins, where no bin holds two rows.

    sd is exact: :math:`N^2 \operatorname{var} T_m = 2 \sum_b n_b^{-2} [(\sum v)^2 - \sum v^2]` with v = p (1 - p).

    Cost: a sort of the scores, then O(B K log N) for K distinct scores. More than 4,396 are pooled into the cells of
    the standard grid.

    References
    ----------
    Lee, Huang, Hassani, Dobriban (2022), arXiv 2203.01850.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.inference import t_cal_test
    >>> p = np.linspace(0.01, 0.99, 400)
    >>> test = t_cal_test(p, p > 0.3)
    >>> test.details["n_bins"], round(test.p_value, 6)
    (4, 0.000999)
    """
    check_draws(n_resamples)
    rows = EventRows.of_arguments(Arguments(probs, targets, notion, weights, ignore_index, logits), clusters)
    resampling = Resampling.of(UNUSED_LEVEL, n_resamples, rng, least=1)
    scales = _RowScales.of(rows.cells) if rows.clusters is None else _ClusterScales.of(rows.clusters)
    errors, statistics = scales.observed()

    def block(generator: np.random.Generator, size: int) -> Float64s:
        return np.asarray(scales.drawn(generator, size)[1].max(axis=-1))

    replicates = resampling.draws(Stream.CALIBRATED, block)
    best = int(np.argmax(statistics))
    details: dict[str, Any] = {
        "n_bins": scales.n_bins[best],
        "square_error": float(errors[best]),
        "statistics": dict(zip(scales.n_bins, map(float, statistics), strict=True)),
        "n_resamples": int(n_resamples),
    }
    value, law = float(statistics[best]), "drawn from the scores" if rows.clusters is None else "of resamples"
    return rows.result(value, p_value(replicates, value), f"adaptive T-Cal, law {law}", **details)


def _numbers_of_bins(most: float) -> tuple[int, ...]:
    """Return 2, 4, 8, ... up to ``most``."""
    return tuple(2**k for k in range(1, max(2, int(most)).bit_length()))


@dataclass(frozen=True, eq=False, kw_only=True)
class _Scales(ABC):
    """The statistics T_m = sum_b (S_b^2 - Q_b) / (N n_b) of every number of bins m.

    S is the sum of y - p over a bin, and Q the sum of the squares of its independent parts, which are rows or buckets
    of clusters. ``deviations`` are the standard deviations of the statistics under calibration.
    """

    n_bins: tuple[int, ...]
    counts: tuple[Float64s, ...]
    total: float
    deviations: Float64s

    def statistics(self, sums: Iterable[tuple[Float64s, Float64s]]) -> tuple[Float64s, Float64s]:
        """Return T_m and T_m / sd T_m, (..., scales), from S and Q of each scale; 0 or infinite where sd is 0."""
        parts = [np.sum((s**2 - q) / n, axis=-1) for (s, q), n in zip(sums, self.counts, strict=True)]
        errors = np.stack(parts, axis=-1) / self.total
        certain = np.where(np.abs(errors) <= _ROUNDING, 0.0, np.copysign(np.inf, errors))
        return errors, np.divide(errors, self.deviations, out=certain, where=self.deviations > 0)

    @abstractmethod
    def observed(self) -> tuple[Float64s, Float64s]:
        """Return the statistics of the data."""

    @abstractmethod
    def drawn(self, rng: np.random.Generator, size: int) -> tuple[Float64s, Float64s]:
        """Return the statistics of simulated data sets under calibration."""


@dataclass(frozen=True, eq=False, kw_only=True)
class _RowScales(_Scales):
    """The bins of every scale for independent rows, and the first cell of each bin.

    A bin of fewer than two predictions has no pair of residuals and would add only rounding errors. ``held`` are the
    other bins.
    """

    cells: Cells
    first: tuple[NDArray[np.intp], ...]
    held: tuple[NDArray[np.intp], ...]

    @classmethod
    def of(cls, cells: Cells) -> _RowScales:
        """Lay out 2, 4, 8, ... bins, as long as at least two predictions fall into each on average."""
        n_bins = _numbers_of_bins(min(_FINEST, cells.effective_n / 2))
        lone = cells.null_variances**2 / cells.rows  # the sum of v^2 over the predictions of a cell
        first, held, counts, variances = [], [], [], []
        for m in n_bins:
            starts = np.flatnonzero(np.diff(uniform_bin_of(cells.table, m), prepend=-1))
            several = np.flatnonzero(np.add.reduceat(cells.rows, starts) > 1 + _ROUNDING)
            mass, null_variances, squares = (
                np.add.reduceat(column, starts)[several] for column in (cells.counts, cells.null_variances, lone)
            )
            first.append(starts)
            held.append(several)
            counts.append(mass)
            variances.append(2 * np.sum(np.maximum(null_variances**2 - squares, 0.0) / mass**2))
        return cls(
            cells=cells,
            n_bins=n_bins,
            first=tuple(first),
            held=tuple(held),
            counts=tuple(counts),
            total=cells.total,
            deviations=np.sqrt(np.asarray(variances)) / cells.total,
        )

    def _sums(self, positives: Float64s) -> Iterator[tuple[Float64s, Float64s]]:
        """Yield S and Q of each scale, (..., M), of outcomes per cell, (..., K)."""
        cells = self.cells
        gaps = cells.score_sums - positives
        squares = cells.units * (cells.score_sums * cells.scores + positives * (1 - 2 * cells.scores))
        for first, held in zip(self.first, self.held, strict=True):
            s, q = (np.add.reduceat(column, first, axis=-1)[..., held] for column in (gaps, squares))
            yield s, q

    def observed(self) -> tuple[Float64s, Float64s]:
        return self.statistics(self._sums(self.cells.positives))

    def drawn(self, rng: np.random.Generator, size: int) -> tuple[Float64s, Float64s]:
        return self.statistics(self._sums(self.cells.calibrated.draw(rng, size)))


@dataclass(frozen=True, eq=False, kw_only=True)
class _ClusterScales(_Scales):
    """The bins of every scale for rows in clusters.

    ``bins`` have S_hb, the sums of bucket h, of each scale. ``scaled``, (H, M), are those of simulated data sets before
    they are multiplied by normals: c S_hb, as in `measures.simulated`. Given them, N^2 var T_m is
    2 sum_(h != h') (sum_b c^2 S_hb S_h'b / n_b)^2.
    """

    bins: tuple[ClusterBins, ...]
    scaled: tuple[Float64s, ...]

    @classmethod
    def of(cls, rows: Clustered) -> _ClusterScales:
        """Lay out 2, 4, 8, ... bins of whole coarse cells."""
        n_bins = _numbers_of_bins(min(_FINEST_COARSE, rows.effective_n / 2))
        bins = tuple(ClusterBins.of(rows, uniform_bin_of(rows.fine.table, m)) for m in n_bins)
        scaled = tuple(scale.null_gaps * varies(scale.gaps, scale.moments.squared_residuals) for scale in bins)
        variances = []
        for scale, sums in zip(bins, scaled, strict=True):
            products = (sums / scale.moments.counts) @ sums.T
            np.fill_diagonal(products, 0.0)
            variances.append(2 * np.sum(products**2))
        return cls(
            n_bins=n_bins,
            bins=bins,
            scaled=scaled,
            counts=tuple(scale.moments.counts for scale in bins),
            total=rows.total,
            deviations=np.sqrt(np.asarray(variances)) / rows.total,
        )

    def observed(self) -> tuple[Float64s, Float64s]:
        return self.statistics((scale.gaps.sum(axis=0), scale.own_squares) for scale in self.bins)

    def drawn(self, rng: np.random.Generator, size: int) -> tuple[Float64s, Float64s]:
        normals = rng.standard_normal((size, len(self.scaled[0])))
        return self.statistics((normals @ sums, normals**2 @ sums**2) for sums in self.scaled)
