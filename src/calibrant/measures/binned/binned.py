"""Calibration errors of binned scores: equal-width and equal-mass bins, l1, l2 and maximum, plain and debiased."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError, check_choice, check_integer
from calibrant.inputs.notions import Events
from calibrant.inputs.weights import effective_n, rate_rows
from calibrant.kernels import dispatch
from calibrant.results import ClasswiseCalibration, ReliabilityDiagram
from calibrant.runtime.arrays import Float64s, Floats
from calibrant.runtime.cached import cached_property
from calibrant.runtime.dataclass import dataclass
from calibrant.table import ReliabilityTable

Binning = Literal["uniform", "quantile"]
Norm = Literal["l1", "l2", "max"]
Closed = Literal["right", "left"]

BINNINGS: Final = ("uniform", "quantile")
NORMS: Final = ("l1", "l2", "max")
SIDES: Final = ("right", "left")

#: The maximum in a report is over bins with at least so many rows.
LEAST_ROWS: Final = 30

#: The fewest effective clusters of a bin that takes part in the maximum.
LEAST_CLUSTERS: Final = 10

_ROUNDING: Final = 1e-9  # relative rounding error of the effective sample size of a bin
_MOST_BINS = 1_000_000  # with more, neighbouring edges are equal in single precision


@dataclass(frozen=True, eq=False)
class Bins:
    """Sums over the bins of a histogram of scores.

    Each array is (M,): ``counts`` (weight), ``score_sums``, ``positives`` (sum of outcomes) and ``square_residuals``
    (sum of (score - outcome)^2); ``edges`` is (M + 1,). If weights are not integers, ``square_weights`` is the sum of
    their squares, ``own_products`` the sum of weight^2 (score - outcome)^2, and ``square_sums``, (2, M), those of
    weight^2 score and of weight^2 outcome.
    """

    edges: Float64s
    counts: Float64s
    score_sums: Float64s
    positives: Float64s
    square_residuals: Float64s
    square_weights: Float64s | None = None
    own_products: Float64s | None = None
    square_sums: Float64s | None = None

    @property
    def squared(self) -> Bins:
        """The same bins with squared weights; themselves, if weights are whole."""
        if self.square_weights is None or self.square_sums is None:
            return self
        scores, positives = self.square_sums
        return replace(self, counts=self.square_weights, score_sums=scores, positives=positives, square_weights=None)

    @cached_property
    def rate_rows(self) -> Float64s:
        """The number of equal rows in which each observed frequency would be as uncertain; 0 in an empty bin."""
        squared, filled = self.squared, self.counts > 0
        rows, kinds = np.zeros_like(self.counts), np.stack([squared.counts - squared.positives, squared.positives])
        rates = self.positives[filled] / self.counts[filled]
        rows[filled] = rate_rows(rates, self.counts[filled], kinds[:, filled])
        return rows

    @cached_property
    def total(self) -> float:
        return float(self.counts.sum())

    @cached_property
    def gap_sums(self) -> Float64s:
        """S, the sum of score - outcome over each bin."""
        return self.score_sums - self.positives

    @cached_property
    def gaps(self) -> Float64s:
        """Mean score minus mean outcome of each bin, NaN if it is empty."""
        return _ratio(self.gap_sums, self.counts)

    @cached_property
    def rows(self) -> Float64s:
        """Effective sample size per bin (Kish); the count, if weights are integers."""
        if self.square_weights is None:
            return self.counts
        filled = self.square_weights > 0
        rows = np.zeros_like(self.counts)
        rows[filled] = effective_n(self.counts[filled], self.square_weights[filled])
        return rows


def _ratio(top: Float64s, bottom: Float64s) -> Float64s:
    return np.divide(top, bottom, out=np.full_like(top, np.nan), where=bottom > 0)


def check_bins(n_bins: object, binning: object = "uniform", norm: object = "l1", closed: object = "right") -> None:
    """Reject an invalid number of bins, binning, norm or side."""
    check_integer("n_bins", n_bins, "pass the number of bins, such as 15", most=_MOST_BINS)
    check_choice("binning", binning, BINNINGS)
    check_choice("norm", norm, NORMS)
    check_choice("closed", closed, SIDES)


def check_threshold(threshold: object) -> None:
    """Reject a threshold that is not a number in [0, 1]."""
    is_number = isinstance(threshold, (int, float, np.floating, np.integer)) and not isinstance(threshold, bool)
    if not is_number or not 0 <= threshold <= 1:  # type: ignore[operator]
        raise InputError("threshold", "a number in [0, 1]", repr(threshold), "pass 0 to keep every score")


def uniform_edges(n_bins: int) -> Float64s:
    """Return j / M for j = 0..M; linspace is not used, because its edge 3 of 10 is not 3 / 10."""
    return np.arange(n_bins + 1) / n_bins


def largest_members(edges: Float64s, closed: Closed, dtype: np.dtype[Any]) -> Floats:
    """Return the largest score of each bin, in the type of the scores.

    For right-closed bins (e_j, e_j+1] it is the upper edge, for left-closed bins [e_j, e_j+1) the number before it. The
    last bin always contains 1. Edges are rounded to the type of the scores first: so a score printed as 0.6 lies on the
    edge 0.6, in single and in double precision.
    """
    uppers = edges[1:].astype(dtype)
    if closed == "left":
        uppers[:-1] = np.nextafter(uppers[:-1], dtype.type(-1))
    return uppers


def bin_events(events: Events, n_bins: int, closed: Closed = "right") -> Bins:
    """Return the equal-width bins of events."""
    return edged_bins(events, uniform_edges(n_bins), closed)


def edged_bins(events: Events, edges: Float64s, closed: Closed = "right") -> Bins:
    """Return the bins of events between these edges; the outer bins reach to 0 and 1."""
    ends = np.concatenate([[0.0], edges[1:-1], [1.0]])
    uppers = largest_members(ends, closed, events.scores.dtype)
    return Bins(ends, *dispatch.bin_rows(events.scores, events.outcomes, events.weights, uppers))


def bin_table(table: ReliabilityTable, n_bins: int, closed: Closed = "right") -> Bins:
    """Return the equal-width bins of the rows of a table, each row by its score."""
    edges = uniform_edges(n_bins)
    uppers = largest_members(edges, closed, table.scores.dtype)
    sums = dispatch.bin_pooled(table.scores, table.counts, table.positives, uppers)
    return _of_rows(table, edges, sums, lambda: uniform_bin_of(table, n_bins, closed))


def uniform_bin_of(table: ReliabilityTable, n_bins: int, closed: Closed = "right") -> NDArray[np.intp]:
    """Return the equal-width bin of each row of a table."""
    return np.searchsorted(largest_members(uniform_edges(n_bins), closed, table.scores.dtype), table.scores)


def quantile_bin_of(table: ReliabilityTable, n_bins: int) -> NDArray[np.intp]:
    """Return the equal-mass bin of each row: floor(M (C - w/2) / W), with C the cumulative weight including the row."""
    counts = table.counts
    if int(counts.sum()) > 2**62 // n_bins:  # as `dispatch.bin_quantiles`: 2 M W does not fit into int64
        counts = counts.astype(np.float64)
    place = n_bins * (2 * np.cumsum(counts) - counts)
    return np.asarray(np.searchsorted(2 * counts.sum() * np.arange(1, n_bins), place, side="right"))


def sample_quantile_bin_of(table: ReliabilityTable, n_bins: int) -> NDArray[np.intp]:
    """Return the bin of each row, cut at the type-7 quantiles of all predictions as R cuts them.

    The bins are (q_k, q_k+1] with q_k the quantile of k / M; the lowest score is in the first bin, and equal cuts count
    once. A quantile of N sorted predictions lies in [x_j, x_j+1) with j = floor((N - 1) k / M): only its position
    matters here, so integers decide. Weights that are not integers count as many small equal ones.
    """
    steps, cumulated = np.arange(1, n_bins), np.cumsum(table.counts)
    if table.whole:
        quotient, rest = divmod(int(cumulated[-1]) - 1, n_bins)  # (N - 1) k does not always fit into int64
        j, between = steps * quotient + steps * rest // n_bins, steps * rest % n_bins > 0
        cuts = np.searchsorted(cumulated, j, side="right")
        lowest = np.searchsorted(cumulated, j + between, side="right") == 0
    else:
        mass = cumulated[-1] * steps / n_bins
        cuts, lowest = np.searchsorted(cumulated, mass), cumulated[0] > mass
    return np.asarray(np.searchsorted(cuts[~lowest], np.arange(len(cumulated))))


def quantile_bins(table: ReliabilityTable, n_bins: int) -> Bins:
    """Return equal-mass bins of the rows of a table; they never split a score."""
    sums, uppers = dispatch.bin_quantiles(table.scores, table.counts, table.positives, n_bins)
    uppers[-1] = 1.0
    return _of_rows(table, np.concatenate([[0.0], uppers]), sums, lambda: quantile_bin_of(table, n_bins))


def _of_rows(table: ReliabilityTable, edges: Float64s, sums: Float64s, place: Callable[[], NDArray[np.intp]]) -> Bins:
    """Return the bins of a table from sums by the mean scores of its rows; ``place`` returns the bin of each row.

    On a grid the exact sums replace them. Weights that are not integers add the sums of squared weights.
    """
    squares = table.square_weights
    if table.grid is None and squares is None:
        return Bins(edges, *sums)
    at, size = place(), sums.shape[1]

    def over_bins(values: NDArray[Any]) -> Float64s:
        return np.bincount(at, values, size).astype(np.float64)

    if table.grid is not None:
        sums[1], sums[3] = over_bins(table.positives - table.residuals), over_bins(table.square_residuals)
    bins = Bins(edges, *sums)
    if squares is None:
        return bins
    weights = squares.sum(axis=0)
    square_sums = np.stack([over_bins(table.scores * weights), over_bins(squares[1])])
    products = over_bins(table.own_products)
    return replace(bins, square_weights=over_bins(weights), own_products=products, square_sums=square_sums)


Remainder = Literal["first", "last", "tail"]


def even_sizes(n: int, n_bins: int, remainder: Remainder) -> NDArray[np.int64]:
    """Return the sizes of M bins of n // M rows each, after distributing the remaining rows.

    They go one each to the "first" bins (as in `numpy.array_split`), one each to the "last" bins, or all to the "tail",
    the last bin.
    """
    least, rest = divmod(n, n_bins)
    sizes = np.full(n_bins, least)
    if remainder == "first":
        sizes[:rest] += 1
    elif remainder == "last":
        sizes[n_bins - rest :] += 1
    else:
        sizes[-1] += rest
    return sizes


def sized_bins(table: ReliabilityTable, sizes: NDArray[np.int64]) -> Bins:
    """Return bins of these sizes for the rows of a table, in the order of their scores.

    If a boundary splits tied scores, each bin takes its share of their number and the same share of their outcomes.
    This is the mean over all orders of the tied rows.
    """
    upto = np.concatenate([[0], np.cumsum(table.counts)])
    ends = np.concatenate([[0], np.cumsum(sizes)])

    def cut(values: NDArray[Any]) -> Float64s:
        return np.diff(np.interp(ends, upto, np.concatenate([[0.0], np.cumsum(values)])))

    last = np.maximum(np.searchsorted(upto, ends) - 1, 0)  # the row where each bin ends
    return Bins(
        table.scores[last].astype(np.float64),
        sizes.astype(np.float64),
        cut(table.positives - table.residuals),
        cut(table.positives),
        cut(table.square_residuals),
    )


def calibration_error(bins: Bins, norm: Norm, least_rows: int = 1) -> float:
    """Return the l1, l2 or maximum norm of the bins' gaps, weighted by their shares; empty bins add nothing.

    The maximum is over the bins with at least ``least_rows`` rows, NaN without such a bin.
    """
    if norm == "l1":
        return float(absolute_error(bins.gap_sums, bins.total))
    held = enough_rows(bins.rows, least_rows) if norm == "max" else bins.counts > 0
    return norm_of_gaps(norm, bins.gap_sums[held], bins.counts[held], bins.total)


def norm_of_gaps(norm: Norm, gap_sums: Float64s, counts: Float64s, total: float) -> float:
    """Return a norm of the gaps of filled bins, from S and n of each, (M,)."""
    if norm == "l1":
        return float(absolute_error(gap_sums, total))
    return float(root_square_error(gap_sums, counts, total) if norm == "l2" else largest_gap(gap_sums, counts))


def absolute_error(gap_sums: Float64s, total: float) -> Float64s:
    """Return the l1 error from S of each bin, (..., M): sum |S| / N."""
    return np.asarray(np.abs(gap_sums).sum(axis=-1) / total)


def root_square_error(gap_sums: Float64s, counts: Float64s, total: float) -> Float64s:
    """Return the l2 error from S of each filled bin, (..., M): the root of sum(S^2 / n) / N."""
    return np.asarray(np.sqrt((gap_sums**2 / counts).sum(axis=-1) / total))


def largest_gap(gap_sums: Float64s, counts: Float64s) -> Float64s:
    """Return the largest |S| / n of the bins, (..., M); NaN without bins."""
    if len(counts) == 0:
        return np.full(gap_sums.shape[:-1], np.nan)
    return np.asarray(np.abs(gap_sums / counts).max(axis=-1))


def enough_rows(rows: Float64s, least_rows: int) -> NDArray[np.bool_]:
    """Return which bins hold at least ``least_rows`` rows; for 1, which are not empty."""
    return np.asarray(rows >= least_rows * (1 - _ROUNDING) if least_rows > 1 else rows > 0)


def debiased_square(
    gap_sums: Float64s, squared_residuals: Float64s, counts: Float64s, rows: Float64s, total: float
) -> Float64s:
    """Return the unbiased estimate of the squared l2 error from S and Q of each bin, (..., M); it may be negative.

    sum_b (S_b^2 - Q_b) / (n_b - 1) / N (a U-statistic: Bröcker 2012, Ferro and Fricker 2012, Kumar 2019, Sun 2024).
    If weights are not integers, the divisor is n_b - n_b / rows_b = n_b - sum w^2 / n_b, and Q is in units of squared
    weight. Bins of one row add nothing.
    """
    several = rows > 1 + _ROUNDING
    n = counts[several]
    parts = (gap_sums[..., several] ** 2 - squared_residuals[..., several]) / (n - n / rows[several])
    return np.asarray(parts.sum(axis=-1) / total)


def debiased_square_error(bins: Bins) -> float:
    """Return the unbiased estimate of the squared l2 error of bins."""
    squares = bins.square_residuals if bins.own_products is None else bins.own_products
    return float(debiased_square(bins.gap_sums, squares, bins.counts, bins.rows, bins.total))


def gaussian_debiased_error(bins: Bins) -> float:
    """Return sum o_b (2 |D_b| - E |X_b|), X_b normal with mean D_b and the variance of the bin's observed frequency.

    A bin whose rate is 0 or 1 has variance 0 and adds |D_b| (Kumar 2019).
    """
    from scipy.special import erf

    filled = bins.counts > 0
    gaps, rates = np.abs(bins.gaps[filled]), bins.positives[filled] / bins.counts[filled]
    spread = np.sqrt(rates * (1 - rates) / bins.rate_rows[filled])
    z = np.divide(gaps, spread, out=np.full_like(gaps, np.inf), where=spread > 0)
    expected = spread * math.sqrt(2 / math.pi) * np.exp(-(z**2) / 2) + gaps * erf(z / math.sqrt(2))
    return float(bins.counts[filled] @ (2 * gaps - expected) / bins.total)


def diagram(bins: Bins, *, weighted: bool) -> ReliabilityDiagram:
    """Return the bins as a reliability diagram."""
    return ReliabilityDiagram(
        bins.edges,
        bins.counts if weighted else np.rint(bins.counts).astype(np.int64),
        _ratio(bins.score_sums, bins.counts),
        _ratio(bins.positives, bins.counts),
        bins.counts / bins.total,
    )


def classwise_errors(
    histograms: Float64s,
    total: float | Float64s,
    norm: Norm,
    edges: Float64s | None = None,
    held: NDArray[np.bool_] | None = None,
) -> ClasswiseCalibration:
    """Return the calibration error of each class from histograms (3, bins, classes) of counts, scores and outcomes.

    ``total`` is the weight of the evaluated rows, ``edges`` are the ends of the bins; both may differ between classes.
    Without edges the bins are uniform. The maximum is over the bins ``held``, by default over those that are not empty.
    """
    counts, score_sums, positives = histograms
    mass = counts.sum(axis=0)
    residuals = np.abs(score_sums - positives)
    if norm == "l1":
        errors = _ratio(residuals.sum(axis=0), mass)
    elif norm == "l2":
        squares = np.divide(residuals**2, counts, out=np.zeros_like(counts), where=counts > 0)
        errors = np.sqrt(_ratio(squares.sum(axis=0), mass))
    else:
        held = counts > 0 if held is None else held
        gaps = np.divide(residuals, counts, out=np.zeros_like(counts), where=held)
        errors = np.where(held.any(axis=0), gaps.max(axis=0), np.nan)
    kept_shares = np.nan_to_num(_ratio(mass, np.broadcast_to(np.asarray(total, dtype=np.float64), mass.shape)))
    ends = np.broadcast_to(uniform_edges(len(counts)) if edges is None else edges, (len(mass), len(counts) + 1))
    return ClasswiseCalibration(
        errors=errors,
        kept=kept_shares,
        supports=positives.sum(axis=0),
        value=combine(errors, norm),
        edges=ends,
        counts=counts.T,
        confidences=_ratio(score_sums, counts).T,
        accuracies=_ratio(positives, counts).T,
    )


def combine(errors: Float64s, norm: Norm) -> float:
    """Return the mean (l1), root mean square (l2) or maximum (max) over the classes that have an error."""
    defined = errors[~np.isnan(errors)]
    if len(defined) == 0:
        return float("nan")
    if norm == "l1":
        return float(defined.mean())
    return float(np.sqrt(np.mean(defined**2))) if norm == "l2" else float(defined.max())
