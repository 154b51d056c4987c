"""What measures are computed from: an event, its inference and its replicates. Each sum is computed once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError
from calibrant.estimators import binned, isotonic, smooth
from calibrant.estimators.certified import Certified
from calibrant.kernels import dispatch
from calibrant.results import CalibrationCurve, ClasswiseCalibration, ReliabilityDiagram, ScoreDecomposition
from calibrant.sampling import corp, curves
from calibrant.sampling.binned import BinMoments, BinStatistics, clopper_pearson, consistency_band
from calibrant.sampling.cells import Cells
from calibrant.sampling.classwise import ClassBins
from calibrant.sampling.means import PredictionMeans
from calibrant.sampling.null import Law, floor_of, p_value
from calibrant.sampling.resampling import Resampling, Stream, draw_outcomes, in_blocks
from calibrant.sampling.smooth import NullSmooth
from calibrant.table import ReliabilityTable

Float64s = NDArray[np.float64]


class Computable(Protocol):
    """The part of a `calibrant.measures.Measure` that this module uses."""

    @property
    def name(self) -> str: ...
    @property
    def value(self) -> Callable[[Event], float]: ...
    @property
    def bound(self) -> Callable[[Event], float] | Unavailable: ...
    @property
    def null(self) -> Null | OwnLaw | Unavailable | None: ...


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Something that a measure does not have. The reason becomes the `Estimate.method`."""

    reason: str


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Null:
    """How the law of a measure under calibration is drawn.

    Attributes
    ----------
    replicate : callable, optional
        The measure on each of B replicates, (B,), from sums that are shared between measures. Without it the measure's
        `value` is computed on the table of each replicate.
    statistic : callable, optional
        The statistic that decides the p-value, (B,), if it is not the measure itself.
    closed_form : callable, optional
        The law without resampling, for ``n_resamples=0``.
    limits : bool
        Whether the details also give the closed form's p-value. The correction for many groups uses it.
    """

    replicate: Callable[[Replicates], Float64s] | None = None
    statistic: Callable[[Replicates], Float64s] | None = None
    closed_form: Callable[[Inference], Law] | None = None
    limits: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class OwnLaw:
    """A law that does not come from the shared replicates. ``law`` returns None if these data have none."""

    law: Callable[[Inference], Law | None]


_BAND: Final = "band"  # the keys of the two bands among the draws
_CURVE: Final = "curve"


@dataclass(frozen=True, eq=False, kw_only=True)
class Classes:
    """Every class judged by itself, in addition to the event: errors, bins, the certified error of the mean error."""

    errors: ClasswiseCalibration
    bins: ClassBins
    names: tuple[str, ...] | None = None
    bound: float = 0.0


@dataclass(frozen=True, eq=False, kw_only=True)
class Event:
    """One judged event, with the means of its predictions and the errors of its classes.

    Attributes
    ----------
    table : ReliabilityTable
        The scores and outcomes of the event.
    n_bins : int
        The number of bins of the binned measures.
    means : PredictionMeans or None
        Means over whole predictions.
    classes : Classes or None
        Every class by itself; None if classes are not judged. ``no_classes`` says why.
    """

    table: ReliabilityTable
    n_bins: int = 15
    means: PredictionMeans | None = None
    classes: Classes | None = None
    no_classes: str = "one event is judged, no classes"
    _values: dict[Computable, float] = field(default_factory=dict, init=False, repr=False)

    def value(self, measure: Computable) -> float:
        """Return a measure of the event, computed once.

        Raises
        ------
        calibrant.errors.InputError
            If the measure's function does not return a number.
        """
        if measure not in self._values:
            self._values[measure] = number_of(measure, self)
        return self._values[measure]

    def bound(self, measure: Computable) -> float:
        """Return the certified error of the value: 0 if the value is exact, NaN if no bound is known."""
        if isinstance(measure.bound, Unavailable):
            return 0.0 if self.certified is None else math.nan
        return measure.bound(self)

    @property
    def predictions(self) -> PredictionMeans:
        """The means over whole predictions.

        Raises
        ------
        calibrant.errors.InputError
            If only a table of the event is known.
        """
        if self.means is None:
            raise InputError("event", "means over whole predictions", "a table alone", "use evaluate")
        return self.means

    @cached_property
    def bins(self) -> binned.Bins:
        """The equal-width bins."""
        return binned.bin_table(self.table, self.n_bins)

    @cached_property
    def quantile_bins(self) -> binned.Bins:
        """The equal-mass bins."""
        return binned.quantile_bins(self.table, self.n_bins)

    @cached_property
    def smooth_error(self) -> smooth.SmoothError:
        """The smooth calibration error with its certified bound."""
        if self.certified is not None:
            return self.certified.smooth_error()
        return smooth.smooth_error(self.table.scores, self.table.residuals, self.table.total)

    @cached_property
    def certified(self) -> Certified | None:
        """The certified errors of a table on a grid; None for an exact table."""
        return Certified.of(self.table)

    @cached_property
    def decomposition(self) -> ScoreDecomposition:
        """CORP's decomposition of the Brier score."""
        return isotonic.corp(self.table, "brier")

    @cached_property
    def recalibrated_bound(self) -> float:
        """The certified error of the isotonic parts of the decomposition."""
        return 0.0 if self.certified is None else self.certified.recalibrated()

    @property
    def judged_classes(self) -> Classes:
        """Every class by itself.

        Raises
        ------
        calibrant.errors.InputError
            If classes are not judged.
        """
        if self.classes is None:
            raise InputError("event", "judged classes", self.no_classes, "use evaluate with classwise=True")
        return self.classes

    @property
    def outcome_rate(self) -> float:
        """The share of rows with outcome 1."""
        return self.table.sums.positives / self.table.total

    def diagram(self) -> ReliabilityDiagram:
        """Return the equal-width bins as a diagram."""
        return binned.diagram(self.bins, weighted=self.table.counts.dtype.kind == "f")


def number_of(measure: Computable, event: Event) -> float:
    """Return the value of a measure for an event; reject anything but a number."""
    value = measure.value(event)
    try:
        return float(value)
    except (TypeError, ValueError):
        expected = f"a number from the value of measure {measure.name!r}"
        raise InputError("measures", expected, repr(value), "return a float for every event") from None


class Draws(NamedTuple):
    """A statistic on the data, and on each of B replicates: (B,) or (B, ...)."""

    observed: float
    replicates: Float64s


@dataclass(frozen=True, eq=False, kw_only=True)
class Inference:
    """What is inferred from one judged event: laws under calibration, intervals, bands.

    Attributes
    ----------
    event : Event
        The event.
    cells : Cells
        Its table, pooled to few enough rows for resampling.
    resampling : Resampling
        The level, the number of replicates and the seed.
    measures : sequence of Measure
        The measures whose replicates are drawn, all in one pass.
    smooth_bandwidth : float, optional
        The bandwidth at which smoothed residuals of replicates are compared; by default the data's smooth error.
    """

    event: Event
    cells: Cells
    resampling: Resampling
    measures: Sequence[Computable] = ()
    smooth_bandwidth: float | None = None
    _laws: dict[Computable, Law | None] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, event: Event, resampling: Resampling, measures: Iterable[Computable]) -> Inference:
        """Return the inference from an event for some measures."""
        return cls(event=event, cells=Cells.of(event.table), resampling=resampling, measures=tuple(measures))

    def at(self, level: float) -> Inference:
        """Return the inference at another level, with the same draws."""
        other = replace(self, resampling=replace(self.resampling, level=level))
        for name in ("uniform", "quantile", "null_smooth", "shown", "draws"):
            if name in self.__dict__:
                other.__dict__[name] = self.__dict__[name]
        return other

    # ------------------------------------------------------------ shared sums

    @cached_property
    def uniform(self) -> BinStatistics:
        """The equal-width bins of the cells."""
        return BinStatistics(BinMoments.of(self.cells, binned.uniform_bin_of(self.cells.table, self.event.n_bins)))

    @cached_property
    def quantile(self) -> BinStatistics:
        """The equal-mass bins of the cells."""
        return BinStatistics(BinMoments.of(self.cells, binned.quantile_bin_of(self.cells.table, self.event.n_bins)))

    @cached_property
    def null_smooth(self) -> NullSmooth:
        """The smooth errors of replicates."""
        bandwidth = self.event.smooth_error.value if self.smooth_bandwidth is None else self.smooth_bandwidth
        return NullSmooth.of(self.cells, bandwidth)

    @cached_property
    def shown(self) -> NDArray[np.intp]:
        """The cells at which the curves are evaluated."""
        return curves.shown_cells(self.cells)

    @cached_property
    def observed(self) -> Replicates:
        """The data in the form of one replicate. Its bins are those of the cells, as for every replicate."""
        return Replicates(inference=self, positives=self.cells.positives[None])

    # ------------------------------------------------------------ the law under calibration

    def law(self, measure: Computable) -> Law | None:
        """Return the noise floor and the p-value of a measure, computed once; None if it has no law."""
        if measure not in self._laws:
            self._laws[measure] = self._law(measure)
        return self._laws[measure]

    def rejects(self, measure: Computable) -> bool:
        """Return whether the measure's own test rejects calibration at (1 - level) / 2.

        Only then may the lower end of an interval be above 0.
        """
        law = self.law(measure)
        return law is not None and law.p_value <= self.resampling.tail

    def replicates_of(self, measure: Computable) -> Float64s:
        """Return the values of a measure on the B replicates, (B,)."""
        return self._draws_of(measure)[measure].replicates

    @cached_property
    def folds(self) -> tuple[Float64s, Float64s, Float64s, Float64s]:
        """The out-of-fold isotonic fits: trials, successes, forecasts and base rates of each fold."""
        return corp.out_of_fold(self.cells, self.resampling.seed)

    def _draws_of(self, measure: Computable) -> Mapping[Any, Draws]:
        return self.draws if measure in self.measures else self._draw([measure], {})

    def _law(self, measure: Computable) -> Law | None:
        null = measure.null
        if isinstance(null, OwnLaw):
            return null.law(self)
        if not isinstance(null, Null) or math.isnan(self.event.value(measure)):
            return None
        closed_form = None
        if null.closed_form is not None and (null.limits or not self.resampling.n_resamples):
            closed_form = null.closed_form(self)
        if not self.resampling.n_resamples:
            return closed_form
        draws = self._draws_of(measure)
        values, statistic = draws[measure].replicates, draws[measure, "statistic"]
        if np.isnan(values).any():
            return None
        limits = {} if closed_form is None else self.resampling.limits(closed_form.p_value)
        floor = floor_of(values, self.resampling.level)
        return Law(floor, p_value(statistic.replicates, statistic.observed), self.resampling.source, limits)

    @cached_property
    def draws(self) -> Mapping[Any, Draws]:
        """Every measure on B replicates under calibration, and the rates for the two bands."""
        bands: dict[Any, Statistic] = {
            _BAND: lambda replicates: replicates.uniform_rates,
            _CURVE: lambda replicates: replicates.fits[:, self.shown],
        }
        return self._draw(self.measures, bands)

    def _draw(self, measures: Iterable[Computable], work: dict[Any, Statistic]) -> Mapping[Any, Draws]:
        for measure in measures:
            if isinstance(measure.null, Null) and not math.isnan(self.event.value(measure)):
                work[measure] = measure.null.replicate or partial(_values, measure)
                if measure.null.statistic is not None:
                    work[measure, "statistic"] = measure.null.statistic
        # The data come first: they fill the caches that all replicates share, before several threads need them.
        observed = {key: function(self.observed) for key, function in work.items()}

        def block(rng: np.random.Generator, size: int) -> dict[Any, Float64s]:
            outcomes = draw_outcomes(self.cells, self.cells.scores, rng, size)
            replicates = Replicates(inference=self, positives=outcomes)
            return {key: function(replicates) for key, function in work.items()}

        blocks = list(in_blocks(self.resampling.n_resamples, self.resampling.seed, Stream.CALIBRATED, block))
        draws = {key: Draws(observed[key].flat[0], np.concatenate([one[key] for one in blocks])) for key in work}
        return {**draws, **{(key, "statistic"): draws[key] for key in work if (key, "statistic") not in work}}

    # ------------------------------------------------------------ diagram and curves

    def diagram(self) -> ReliabilityDiagram:
        """Return the equal-width bins, Clopper-Pearson intervals of their rates, and the band of calibrated scores."""
        plain, moments = self.event.diagram(), self.uniform.bins
        low, high, least, most = (np.full(len(plain.accuracies), math.nan) for _ in range(4))
        filled, rows = self.event.bins.counts > 0, self.event.bins.rate_rows
        positives = plain.accuracies[filled] * rows[filled]
        low[filled], high[filled] = clopper_pearson(positives, rows[filled], self.resampling.tail)
        if self.resampling.n_resamples:
            band = self.resampling.band(self.draws[_BAND].replicates)
        else:
            band = consistency_band(moments.score_sums / moments.counts, moments.rows, self.resampling.tail)
        least[moments.index], most[moments.index] = band
        return replace(plain, lows=low, highs=high, band_lows=least, band_highs=most, level=self.resampling.level)

    def curves(self) -> dict[str, CalibrationCurve]:
        """Return the isotonic and the smooth curve with their bands."""
        resampling = self.resampling
        band = resampling.band(self.draws[_CURVE].replicates) if resampling.n_resamples else None
        return {
            "isotonic": curves.isotonic_curve(self.cells, self.shown, band, resampling),
            "smooth": curves.smooth_curve(self.cells, self.shown, self.event.smooth_error.value, resampling),
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class Replicates:
    """B replicates of an event's outcomes under calibration: ``positives`` of each cell, (B, K), and sums over them."""

    inference: Inference
    positives: Float64s

    @cached_property
    def gap_sums(self) -> Float64s:
        """The sum of score - outcome of each cell, (B, K)."""
        return self.inference.cells.score_sums - self.positives

    @cached_property
    def uniform_gaps(self) -> Float64s:
        """The sum of score - outcome of each equal-width bin, (B, M)."""
        return self.inference.uniform.over_bins(self.gap_sums)

    @cached_property
    def quantile_gaps(self) -> Float64s:
        """The sum of score - outcome of each equal-mass bin, (B, M)."""
        return self.inference.quantile.over_bins(self.gap_sums)

    @cached_property
    def uniform_squares(self) -> Float64s:
        """The sum of (score - outcome)^2 of each equal-width bin, (B, M), in units of squared weight."""
        cells = self.inference.cells
        exact = cells.table.square_scores
        squares = cells.counts * cells.scores**2 if exact is None else exact
        return self.inference.uniform.over_bins(cells.units * (squares + self.positives * (1 - 2 * cells.scores)))

    @cached_property
    def uniform_rates(self) -> Float64s:
        """The outcome rate of each equal-width bin, (B, M)."""
        uniform = self.inference.uniform
        return uniform.over_bins(self.positives) / uniform.bins.counts

    @cached_property
    def fits(self) -> Float64s:
        """The isotonic fit at each cell, (B, K)."""
        return dispatch.isotonic_fits(self.inference.cells.counts, self.positives)

    @cached_property
    def smooth(self) -> tuple[Float64s, Float64s]:
        """The smooth calibration errors, (B,), and S at the bandwidth of the data's error, (B,)."""
        return self.inference.null_smooth(self.gap_sums)

    def events(self) -> Iterator[Event]:
        """Yield each replicate as an event, for measures that need a table."""
        cells, n_bins = self.inference.cells, self.inference.event.n_bins
        positives = self.positives
        if cells.table.square_weights is None:
            positives = positives.astype(cells.table.positives.dtype)
        for row in positives:
            yield Event(table=cells.with_positives(row), n_bins=n_bins)


def _values(measure: Computable, replicates: Replicates) -> Float64s:
    """Return a measure's value on the table of each replicate."""
    return np.array([number_of(measure, event) for event in replicates.events()])


Statistic: TypeAlias = Callable[[Replicates], Float64s]
