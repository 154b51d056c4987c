"""Calibration curves, the observed frequency by score, with their confidence and consistency bands."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrant.kernels import dispatch
from calibrant.measures.context import Inference, Replicates
from calibrant.measures.loess.loess import loess_curve
from calibrant.measures.means.means import gap_variance
from calibrant.measures.smooth.smooth import event_error
from calibrant.measures.smooth.smooth_inference import DesignEffects, Mesh
from calibrant.results import CalibrationCurve, CurveKind
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import LazyMapping
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.cells import Cells, Outcomes
from calibrant.statistics.design import Clustered, SamplingDesign
from calibrant.statistics.resampling import Resampling, Stream, alpha_of, t_quantile
from calibrant.table import GridCells, ReliabilityTable

_POINTS: Final = 64  # points of a curve along the scores, and again as many along the rows
_NARROWEST: Final = 1e-3  # bandwidths below it show single cells


def shown_cells(cells: Cells) -> NDArray[np.intp]:
    """Return the cells at which curves are given: evenly along the scores and along the rows, both ends included."""
    along = np.searchsorted(cells.scores, np.linspace(cells.scores[0], cells.scores[-1], _POINTS))
    mass = np.cumsum(cells.counts)
    among = np.searchsorted(mass, np.linspace(0, mass[-1], _POINTS))
    return np.unique(np.clip(np.concatenate([along, among]), 0, len(cells) - 1))


def shown_fits(replicates: Replicates) -> Float64s:
    """Return the isotonic fits of simulated data sets at the shown cells, (B, M)."""
    design = replicates.inference.design
    return replicates.fits[:, design.coarse(design.fine.of(shown_cells))]


def curves_of(inference: Inference, kinds: Sequence[CurveKind]) -> Mapping[str, CalibrationCurve]:
    """Return these curves with their bands, computed when they are looked at."""
    design, resampling = inference.design, inference.resampling
    bandwidth = inference.event.of(event_error).value  # without the table
    drawn = inference.replicates_of(shown_fits) if resampling.n_resamples else None
    makers: Mapping[CurveKind, Callable[[], CalibrationCurve]] = {
        "isotonic": lambda: isotonic_curve(design, None if drawn is None else resampling.band(drawn), resampling),
        "smooth": lambda: smooth_curve(design, bandwidth, resampling.level),
        "loess": lambda: loess_curve(design, design.fine.of(shown_cells), resampling.level),
    }
    return LazyMapping(lambda: {kind: makers[kind]() for kind in kinds})


def isotonic_curve(
    design: SamplingDesign, consistency: tuple[Float64s, Float64s] | None, resampling: Resampling
) -> CalibrationCurve:
    """Return the isotonic fit x at the shown cells; ``consistency`` is its band under calibration.

    Confidence band: quantiles of fits to data drawn around x (Dimitriadis, Gneiting and Jordan 2021). Both need
    resampling. A simultaneous confidence band needs none; where the fit is outside it is widened.
    """
    cells = design.fine
    shown = cells.of(shown_cells)
    rates = dispatch.isotonic_fits(cells.counts, cells.positives[None])[0][shown]
    nothing = np.full(len(shown), math.nan)
    confidence = (nothing, nothing)
    if resampling.bands == "simultaneous":
        confidence = IsotonicBand.of(cells.table, resampling.level).at(cells.scores[shown])
    elif resampling.n_resamples:
        confidence = resampling.band(_refits(design, resampling))
    least, most = consistency or (nothing, nothing)
    return CalibrationCurve(
        kind="isotonic",
        scores=cells.scores[shown],
        rates=rates,
        confidence_lows=np.minimum(confidence[0], rates),
        confidence_highs=np.maximum(confidence[1], rates),
        consistency_lows=least,
        consistency_highs=most,
        level=resampling.level,
        bands=resampling.bands,
    )


def _refits(design: SamplingDesign, resampling: Resampling) -> Float64s:
    """Return isotonic fits at the shown cells, (B, M), to outcomes drawn around the fit x.

    Events of independent rows occur with the rate x; events of clusters are n x + sum_h Z_h (y_h - n_h x).
    """
    cells, shown = design.cells, design.coarse(design.fine.of(shown_cells))
    fit = dispatch.isotonic_fits(cells.counts, cells.positives[None])[0]
    if isinstance(design, Clustered):
        around = design.y - design.n * fit

        def of_clusters(rng: np.random.Generator, size: int) -> Float64s:
            positives = cells.counts * fit + rng.standard_normal((size, len(around))) @ around
            return np.clip(dispatch.isotonic_fits(cells.counts, positives), 0.0, 1.0)[:, shown]

        return resampling.draws(Stream.REFITTED, of_clusters)
    refitted = Outcomes(cells.counts, cells.square_weights, fit)

    def of_rows(rng: np.random.Generator, size: int) -> Float64s:
        return dispatch.isotonic_fits(cells.counts, refitted.draw(rng, size))[:, shown]

    return resampling.draws(Stream.REFITTED, of_rows, cells=len(cells))


def smooth_curve(design: SamplingDesign, bandwidth: float, level: float) -> CalibrationCurve:
    """Return the kernel regression of outcomes on scores of the cells, with the reflected Gaussian kernel.

    rate(t) = sum y K_s(t, p) / sum K_s(t, p) with s the smooth calibration error. The bands are pointwise and normal:
    sums of independent outcomes, of the variance of the fitted rates (confidence) and of the scores (consistency),
    around sum p K / sum K for the latter. The curve's own bias is in neither. For rows in clusters the variances have
    the design effects at the bandwidth, and Student's quantile the degrees of freedom of the mean difference.
    """
    cells, s = design.fine, max(bandwidth, _NARROWEST)
    shown = cells.of(shown_cells)
    mesh = Mesh.fine_enough(cells, s)

    columns = (cells.counts, cells.positives, cells.score_sums)
    mass, events, claims = (mesh.smoothed_at_cells(column, s) for column in columns)
    mass = np.maximum(mass, np.finfo(float).tiny)
    rate, mean_score = (np.clip(sums / mass, 0.0, 1.0) for sums in (events, claims))
    t, deff = t_quantile(level, gap_variance(design).df), DesignEffects.of(design, s).at(cells.scores)[0]

    def around(middle: Float64s, variances: Float64s) -> tuple[Float64s, Float64s]:
        half = t * np.sqrt(mesh.at_cells(mesh.variance(variances, s)) * deff) / mass
        return np.clip(middle - half, 0.0, 1.0)[shown], np.clip(middle + half, 0.0, 1.0)[shown]

    low, high = around(rate, cells.square_weights * rate * (1 - rate))
    least, most = around(mean_score, cells.null_variances)
    return CalibrationCurve(
        kind="smooth",
        scores=cells.scores[shown],
        rates=rate[shown],
        confidence_lows=low,
        confidence_highs=high,
        consistency_lows=least,
        consistency_highs=most,
        level=level,
        bandwidth=s,
    )


_EVENLY: Final = 512  # scores between which rows are pooled: so many along the scores, and as many along the rows


@dataclass(frozen=True, eq=False)
class IsotonicBand:
    """A simultaneous confidence band of the observed frequency, if it never falls with the score.

    Take any run of neighbouring scores. If the rate q never falls, the number of outcomes in the run is at most
    binomial with the rate at its right end, and at least binomial with the rate at its left end. So the Clopper-Pearson
    lower bound of the run's rate bounds q from below at its right end and everywhere to the right; the upper bound
    bounds q from above at its left end and everywhere to the left. G scores have G (G + 1) / 2 runs. Each bound is at
    alpha / (G (G + 1)), so all of them hold together with probability 1 - alpha at least, at any number of rows. The
    band is the largest lower and the smallest upper bound at each score (Dimitriadis, Dümbgen, Henzi, Puke and Ziegel
    2023, doi 10.1093/biomet/asac068).

    It is two step functions: each cell's smallest and largest score, and the bounds there, all (G,).

    ``lows`` hold from a cell's largest score on, ``highs`` up to its smallest score. Both never fall. A lower end may
    exceed an upper end: then no rate that never falls fits these outcomes.
    """

    firsts: Float64s
    lasts: Float64s
    lows: Float64s
    highs: Float64s

    @classmethod
    def of(cls, table: ReliabilityTable, level: float) -> IsotonicBand:
        """Return the band of a table at a confidence level.

        More than about 1,000 scores are pooled into so many cells, by the scores alone: pooled cells give fewer runs,
        and the band stays valid. The same holds for the cells of a grid. Cost: O(K) and G^2 incomplete beta functions.
        """
        firsts, lasts = _ends(table)
        starts = _starts(table)
        counts, positives = (np.add.reduceat(x.astype(np.float64), starts) for x in (table.counts, table.positives))
        alpha = alpha_of(level) / len(starts) / (len(starts) + 1)
        lows = _rising(counts, positives, alpha)
        highs = 1 - _rising(counts[::-1], (counts - positives)[::-1], alpha)[::-1]
        return cls(firsts[starts], lasts[np.append(starts[1:], len(table)) - 1], lows, highs)

    def at(self, scores: Float64s) -> tuple[Float64s, Float64s]:
        """Return the lower and the upper ends at these scores."""
        lows, highs = np.append(0.0, self.lows), np.append(self.highs, 1.0)
        return (
            lows[np.searchsorted(self.lasts, scores, side="right")],
            highs[np.searchsorted(self.firsts, scores, side="left")],
        )


def _rising(counts: Float64s, positives: Float64s, alpha: float) -> Float64s:
    """Return the largest Clopper-Pearson lower bound of the runs that end at each cell or before it, (G,).

    A bound exceeds b where the distribution function at b is below ``alpha``. So only runs that raise the largest bound
    so far need a quantile.
    """
    from scipy.special import betainc, betaincinv

    rows, hits = (np.append(0.0, np.cumsum(sums)) for sums in (counts, positives))
    lows, largest = np.zeros(len(counts)), 0.0
    for stop in range(1, len(rows)):
        run, hit = rows[stop] - rows[:stop], hits[stop] - hits[:stop]
        some = hit > 0
        run, hit = run[some], hit[some]
        higher = betainc(hit, run - hit + 1, largest) < alpha
        if higher.any():
            bounds = betaincinv(hit[higher], run[higher] - hit[higher] + 1, alpha)
            largest = max(largest, float(bounds.max()))
        lows[stop - 1] = largest
    return lows


def _ends(table: ReliabilityTable) -> tuple[Float64s, Float64s]:
    """Return between which scores the rows of a table lie: of a cell with several its ends, else the score twice."""
    scores, cells = table.scores.astype(np.float64), GridCells.of(table)
    if cells is None:
        return scores, scores
    return np.where(cells.several, cells.low, scores), np.where(cells.several, cells.high, scores)


def _starts(table: ReliabilityTable) -> NDArray[np.intp]:
    """Return the first row of each cell of the band: every row of a short table, else parts even in score and mass."""
    if len(table) <= 2 * _EVENLY:
        return np.arange(len(table))
    scores, mass = table.scores, np.cumsum(table.counts)
    along = np.searchsorted(scores, np.linspace(scores[0], scores[-1], _EVENLY, endpoint=False))
    among = np.searchsorted(mass, np.linspace(0, mass[-1], _EVENLY, endpoint=False), side="right")
    return np.unique(np.concatenate([along, among]))
