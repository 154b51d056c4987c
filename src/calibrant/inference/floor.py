"""The noise floor before there are any data: what chance shows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from calibrant.errors import check_choice, check_integer
from calibrant.inference.decision import check_tolerance, one_sided
from calibrant.inputs.conversion import as_array
from calibrant.measures.binned import binned
from calibrant.measures.binned.bin_inference import absolute_interval
from calibrant.measures.binned.bin_sums import BinMoments, BinSums
from calibrant.measures.context import Inference
from calibrant.measures.event import Event
from calibrant.measures.listed import MEASURES
from calibrant.measures.measure import Null
from calibrant.results import Floor
from calibrant.runtime.arrays import ArrayLike, Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import MINORITY
from calibrant.statistics.null import floor_of
from calibrant.statistics.resampling import Resampling, Rng, Stream
from calibrant.table import ReliabilityTable

#: Laws of scores to choose from: parameters of a beta law, and what such scores are like.
SCORE_LAWS: Final[Mapping[str, tuple[float, float, str]]] = {
    "uniform": (1.0, 1.0, "uniform on [0, 1]"),
    "confident": (8.0, 1.0, "mostly near 1 with mean 0.89, like the top label of a good classifier"),
    "rare": (1.0, 20.0, "mostly near 0 with mean 0.05, like predictions of a rare event"),
}

#: The measures whose floors are drawn.
_DRAWN: Final = tuple(measure for measure in MEASURES if isinstance(measure.null, Null))

#: The measures whose floors fall with the square root of the number of rows: means of gaps over bins.
_ROOT_RATE: Final = tuple(measure.name for measure in _DRAWN if measure.root_rate)

_POINTS: Final = 4_000  # the most distinct scores; more rows share them
_MOST: Final = 10**15
_PROOFS: Final = 1_000  # samples whose upper bounds are drawn
_POWER: Final = 0.8


@dataclass(frozen=True)
class NoiseFloor:
    """The noise floors of the measures at a number of rows.

    Attributes
    ----------
    n : int
        The number of rows.
    n_bins : int
        The number of bins of the binned measures.
    scores : str
        The distribution of the scores: a name of `SCORE_LAWS`, or "given".
    level : float
        The share of calibrated samples below each floor's ``upper``.
    floors : mapping
        The `Floor` of each measure that is drawn under calibration, by name. The mce is there only if a bin holds 30
        rows.
    """

    n: int
    n_bins: int
    scores: str
    level: float
    floors: Mapping[str, Floor]

    def rows_for(self, size: float, measure: str = "ece") -> int:
        """Return about how many rows bring the mean floor of a binned l1 or l2 error down to this size.

        The floor is inversely proportional to the square root of the number of rows.
        """
        check_choice("measure", measure, _ROOT_RATE)
        return int(np.ceil(self.n * (self.floors[measure].mean / size) ** 2))


def noise_floor(
    n: int,
    n_bins: int = 15,
    *,
    scores: ArrayLike = "uniform",
    level: float = 0.95,
    n_resamples: int = 1000,
    rng: Rng = 0,
) -> NoiseFloor:
    r"""Return the noise floor of each measure: what perfectly calibrated scores show by chance.

    For the ECE the mean is close to :math:`\sqrt{2/\pi} \sum_b \sqrt{v_b} / N` with :math:`v_b = \sum_{i \in b} p_i
    (1 - p_i)`: more bins and fewer rows make it larger.

    Parameters
    ----------
    n : int
        The number of rows.
    n_bins : int, default 15
        The bins of the binned measures.
    scores : {"uniform", "confident", "rare"} or array, default "uniform"
        How the scores are spread: evenly over 0 to 1, like Beta(8, 1) (top labels) or like Beta(1, 20) (rare events).
        Or an array: the n rows then have the distribution of these scores.
    level, n_resamples, rng
        As in `calibrant.evaluate`; at least one resample.

    Returns
    -------
    NoiseFloor
        The floor of each measure.

    Raises
    ------
    calibrant.errors.InputError
        For a number of rows or bins, a law or scores that cannot be used.

    References
    ----------
    Bröcker, Smith (2007), doi 10.1175/WAF993.1.

    Examples
    --------
    >>> from calibrant.inference import noise_floor
    >>> floor = noise_floor(500, 15).floors["ece"]
    >>> round(floor.mean, 2), round(floor.upper, 2)
    (0.05, 0.07)
    """
    check_integer("n", n, "pass the number of rows, such as 500", most=_MOST)
    binned.check_bins(n_bins)
    resampling = Resampling.of(level, n_resamples, rng, least=1)
    name, table = _table(int(n), scores)
    inference = Inference(event=Event(table=table, n_bins=n_bins), resampling=resampling, measures=_DRAWN)
    draws = replace(inference, smooth_bandwidth=1.0).draws
    floors = {measure.name: floor_of(draws[measure].replicates, level) for measure in _DRAWN if measure in draws}
    return NoiseFloor(int(n), n_bins, name, level, floors)


def rows_to_prove(
    tolerance: float, n_bins: int = 15, *, scores: ArrayLike = "uniform", level: float = 0.95, rng: Rng = 0
) -> int:
    """Return about how many rows prove that the ECE of calibrated scores is below a tolerance.

    With so many rows the one-sided upper bound of the ECE is below the tolerance in 80 % of samples. The bound is drawn
    at 4,000 rows, where its 80 % quantile is q; it falls with the root of the rows, so 4,000 (q / tolerance)^2 do. If
    the event is rare it takes at least so many rows that 80 % of samples hold 15 of the less frequent outcome.

    Parameters
    ----------
    tolerance : float
        The largest error that is tolerated.
    n_bins : int, default 15
        The bins of the ECE.
    scores
        How the scores are spread, as in `noise_floor`.
    level : float, default 0.95
        The confidence of the proof.
    rng
        As in `calibrant.evaluate`.

    Returns
    -------
    int
        The number of rows, accurate to a few percent. A model that is not calibrated needs more.

    Raises
    ------
    calibrant.errors.InputError
        For a tolerance outside (0, 1), and as `noise_floor`.

    Examples
    --------
    >>> from calibrant.inference import rows_to_prove
    >>> 8_250 < rows_to_prove(0.02) < 8_850
    True
    """
    check_tolerance(tolerance, optional=False)
    binned.check_bins(n_bins)
    settings = Resampling.of(level, _PROOFS, rng)
    _, table = _table(_POINTS, scores)
    cells = Cells.from_table(table)
    bins = BinMoments.of(cells, binned.uniform_bin_of(cells.table, n_bins))

    def block(generator: np.random.Generator, size: int) -> Float64s:
        drawn = cells.calibrated.draw(generator, size)
        of_cells = cells.counts * cells.scores**2 + drawn * (1 - 2 * cells.scores)
        positives, squares = (np.add.reduceat(x, bins.first, axis=1) for x in (drawn, of_cells))
        return np.array([_upper_end(bins, *one, one_sided(level)) for one in zip(positives, squares, strict=True)])

    highs = settings.draws(Stream.CALIBRATED, block)
    rows = _POINTS * (float(np.quantile(highs, _POWER)) / tolerance) ** 2
    return math.ceil(max(rows, _rows_with_both(float(np.sum(cells.counts * cells.scores)) / cells.total)))


def _upper_end(bins: BinMoments, positives: Float64s, squared_residuals: Float64s, level: float) -> float:
    """Return the upper end of the ECE of bins with these outcomes."""
    gaps = bins.score_sums - positives
    drawn = replace(
        bins, gap_sums=gaps, squared_gaps=gaps, squared_positives=positives, squared_residuals=squared_residuals
    )
    return absolute_interval(BinSums(moments=drawn), float(np.abs(gaps).sum()) / bins.total, level, rejected=False)[1]


def _rows_with_both(rate: float) -> float:
    """Return about how many rows have enough of the less frequent outcome for a decision."""
    from scipy.special import gammaincinv

    rarer = min(rate, 1 - rate)
    return float(gammaincinv(MINORITY, _POWER)) / rarer if rarer > 0 else 0.0  # the count has Poisson's law


def _table(n: int, scores: ArrayLike) -> tuple[str, ReliabilityTable]:
    """Return a table of n rows whose scores have the requested law. Its outcomes are not used."""
    points = min(n, _POINTS)
    shares = (np.arange(points) + 0.5) / points
    if isinstance(scores, str):
        check_choice("scores", scores, SCORE_LAWS)
        from scipy.special import betaincinv

        a, b, _ = SCORE_LAWS[scores]
        name, placed = scores, np.asarray(betaincinv(a, b, shares))
    else:
        sample = ReliabilityTable.from_scores(scores, np.zeros(np.shape(as_array("scores", scores)), dtype=np.int64))
        upto = np.cumsum(sample.counts) / sample.total
        name, placed = "given", sample.scores[np.searchsorted(upto, shares)].astype(np.float64)
    counts = np.diff(np.arange(points + 1) * n // points)  # as equal as possible, and the remainder is spread evenly
    distinct, first = np.unique(placed, return_index=True)
    counts = np.add.reduceat(counts, first)
    return name, ReliabilityTable(distinct, counts, np.zeros_like(counts), n)
