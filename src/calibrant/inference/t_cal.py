"""The adaptive test of calibration over many numbers of bins at once: T-Cal (Lee et al. 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.estimators.binned import uniform_bin_of
from calibrant.inputs import Notion
from calibrant.results import TestResult
from calibrant.sampling.cells import Cells
from calibrant.sampling.null import p_value
from calibrant.sampling.resampling import Rng, Stream, check_draws, draw_outcomes, in_blocks, seed_of
from calibrant.sketch import table_of

Float64s = NDArray[np.float64]

_FINEST: Final = 2048  # bins; near 1/2 the cells of the standard grid are hardly narrower
_ROUNDING: Final = 1e-9  # where a deviation is 0, squared errors up to this are rounding


def t_cal_test(
    probs: Any,
    targets: Any = None,
    *,
    n_resamples: int = 1000,
    rng: Rng = 0,
    notion: Notion | None = None,
    weights: Any = None,
    ignore_index: int | None = None,
    logits: bool = False,
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
        How many samples B of outcomes to draw; the p-value is at least 1 / (B + 1).
    rng : int or numpy.random.Generator or numpy.random.SeedSequence, default 0
        The seed: equal seeds give equal p-values. A Generator advances with each call. The number of threads plays no
        part.
    probs, targets, notion, weights, ignore_index, logits
        As in `spiegelhalter_test`. With weights that are not whole numbers N is (sum w)^2 / sum w^2.

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
    - The scores are kept, not resampled, so the test is exact for them.
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
    table = table_of(probs, targets, notion=notion, weights=weights, ignore_index=ignore_index, logits=logits)
    seed = seed_of(rng)
    scales = _Scales.of(Cells.of(table))
    errors, statistics = scales.statistics(scales.cells.positives)

    def block(generator: np.random.Generator, size: int) -> Float64s:
        drawn = draw_outcomes(scales.cells, scales.cells.scores, generator, size)
        return np.asarray(scales.statistics(drawn)[1].max(axis=-1))

    replicates = np.concatenate(list(in_blocks(n_resamples, seed, Stream.CALIBRATED, block)))
    best = int(np.argmax(statistics))
    details = {
        "n_bins": scales.n_bins[best],
        "square_error": float(errors[best]),
        "statistics": dict(zip(scales.n_bins, map(float, statistics), strict=True)),
        "n_resamples": int(n_resamples),
    }
    value = float(statistics[best])
    method = "adaptive T-Cal, law drawn from the scores"
    return TestResult(value, p_value(replicates, value), method, table.n, {**details, **table.provenance})


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class _Scales:
    """The bins of every scale: first cells, weights and deviations.

    A bin of fewer than two predictions has no pair of residuals and would add only rounding errors. ``held`` are the
    other bins. ``deviations`` are the standard deviations of the statistics under calibration.
    """

    cells: Cells
    n_bins: tuple[int, ...]
    first: tuple[NDArray[np.intp], ...]
    held: tuple[NDArray[np.intp], ...]
    counts: tuple[Float64s, ...]
    deviations: Float64s

    @classmethod
    def of(cls, cells: Cells) -> _Scales:
        """Lay out 2, 4, 8, ... bins, as long as at least two predictions fall into each on average."""
        most = max(2, min(_FINEST, int(cells.effective_n / 2)))
        n_bins = tuple(2**k for k in range(1, most.bit_length()))
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
            deviations=np.sqrt(np.asarray(variances)) / cells.total,
        )

    def statistics(self, positives: Float64s) -> tuple[Float64s, Float64s]:
        """Return T_m and T_m / sd T_m, (..., scales), of outcomes per cell, (..., cells)."""
        cells = self.cells
        gaps = cells.score_sums - positives
        squares = cells.units * (cells.score_sums * cells.scores + positives * (1 - 2 * cells.scores))
        parts = []
        for first, held, counts in zip(self.first, self.held, self.counts, strict=True):
            pairs = np.add.reduceat(gaps, first, axis=-1) ** 2 - np.add.reduceat(squares, first, axis=-1)
            parts.append(np.sum(pairs[..., held] / counts, axis=-1) / cells.total)
        errors = np.stack(parts, axis=-1)
        certain = np.where(np.abs(errors) <= _ROUNDING, 0.0, np.copysign(np.inf, errors))
        return errors, np.divide(errors, self.deviations, out=certain, where=self.deviations > 0)
