"""What is inferred from an event, each once: simulated data sets, null distributions, intervals.

It does not depend on measures of the library. They compute what they need of simulated data sets from `Replicates`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from calibrant.kernels import dispatch
from calibrant.measures.event import Event, number_of
from calibrant.measures.measure import Measure, Null, OwnLaw, Unavailable
from calibrant.measures.simulated import RowNull, Sums, null_of
from calibrant.measures.unseen import UNSEEN, unseen_events
from calibrant.results import Estimate
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import Memo, cached_property
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import SamplingDesign
from calibrant.statistics.intervals import RATE, Variance, linked_interval
from calibrant.statistics.null import Interval, Law, floor_of, p_value
from calibrant.statistics.resampling import Resampling, Stream

_NOT_FINITE: Final = "no interval: the ends are not finite, because too few rows determine the measure"
_ROUNDING: Final = 1e-12  # relative: ends that differ by less are equal
_RAISED: Final = "the upper end is raised to a bound that the intervals of other error measures imply"


class Draws(NamedTuple):
    """A statistic on the data, and on each of B simulated data sets: (B,) or (B, ...)."""

    observed: float
    replicates: Float64s


@dataclass(frozen=True, eq=False, kw_only=True)
class Inference(Memo):
    """What is inferred from one evaluated event: distributions under calibration, intervals, bands.

    Attributes
    ----------
    event : Event
        The event.
    resampling : Resampling
        The level, the number of simulated data sets and the seed.
    measures : sequence of Measure
        The measures to compute on the simulated data sets, which are drawn in one pass.
    smooth_bandwidth : float, optional
        The kernel bandwidth at which smoothed residuals of simulated data sets are compared with those of the data; by
        default the smooth calibration error of the data.
    statistics : sequence of callable
        Further statistics to compute on the same simulated data sets.
    drawn_by : Inference, optional
        An inference at another level, whose draws this one uses.
    """

    event: Event
    resampling: Resampling
    measures: Sequence[Measure] = ()
    statistics: Sequence[Statistic] = ()
    smooth_bandwidth: float | None = None
    drawn_by: Inference | None = None

    def at(self, level: float) -> Inference:
        """Return the inference at another level, with the same draws."""
        return replace(self, resampling=replace(self.resampling, level=level), drawn_by=self.drawn_by or self)

    # ------------------------------------------------------------ shared sums

    @property
    def level(self) -> float:
        """The confidence of the intervals."""
        return self.resampling.level

    @property
    def design(self) -> SamplingDesign:
        """How sums over the rows vary."""
        return self.event.design

    @property
    def cells(self) -> Cells:
        """The cells of the rows; coarse ones for clusters."""
        return self.design.cells

    @cached_property
    def observed(self) -> Replicates:
        """The data in the form of a simulated data set, with the bins of the cells."""
        return Replicates(inference=self, sums=self.event.of(null_of).observed)

    # ------------------------------------------------------------ the distribution under calibration

    def law(self, measure: Measure) -> Law | None:
        """Return the noise floor and the p-value of a measure, computed once; None if it has no law."""
        return self.of(Inference._law, measure)

    def rejects(self, measure: Measure) -> bool:
        """Return whether the measure's own test rejects calibration at (1 - level) / 2.

        Only then may the lower end of an interval be above 0.
        """
        law = self.law(measure)
        return law is not None and law.p_value <= self.resampling.tail

    def interval(self, measure: Measure) -> Interval:
        """Return the interval of a measure, computed once; NaN with the reason if it has none.

        The upper end of an error is not below what the intervals of other errors imply: else a report would contradict
        itself.
        """
        return self.of(Inference._interval, measure)

    def _interval(self, measure: Measure) -> Interval:
        if isinstance(measure.interval, Unavailable):
            return Interval(math.nan, math.nan, measure.interval.reason)
        make = measure.interval or partial(Inference.interval_by_variance, measure=measure)
        low, high, method = make(self)
        value = self.event.value(measure)
        if self._unseen and measure.judges != "classes":
            low, high, method = self._with_unseen(measure, value, Interval(low, high, method))
        layout = self.event.predictions.layout if measure.judges == "predictions" else "binary"
        low, high = measure.in_range(value, low, high, layout)
        if not (math.isfinite(low) and math.isfinite(high)):
            explained = method.startswith(("no interval", "not available"))
            return Interval(math.nan, math.nan, method if explained else _NOT_FINITE)
        implied = -math.inf if measure.implied is None else measure.implied(self)
        if implied > high + _ROUNDING * abs(high):
            high, method = measure.in_range(value, low, implied, layout)[1], f"{method}; {_RAISED}"
        return Interval(low, high, method)

    @cached_property
    def _unseen(self) -> tuple[Event, ...]:
        """The event with the most of an outcome that did not occur; empty if both outcomes did."""
        return unseen_events(self.event, self.level)

    def _with_unseen(self, measure: Measure, value: float, interval: Interval) -> Interval:
        """Return an interval that contains the values with outcomes that did not occur."""
        low, high, method = interval
        found = [x for x in (number_of(event, measure) for event in self._unseen) if not math.isnan(x)]
        if not found or (math.isnan(low) and measure.interval is not None):
            return interval
        if math.isnan(low):
            low, high, method = value, value, RATE
        if isinstance(measure.null, Null) and not self.rejects(measure):
            low = min(low, 0.0)
        ends = Interval(min(low, *found), max(high, *found), f"{method}; {UNSEEN}")
        return interval if ends[:2] == interval[:2] else ends

    def variance(self, measure: Measure) -> Variance | None:
        """Return the variance of a smooth measure on the scale of its link; None if these data have none."""
        influence = self.event.influence(measure)
        return None if influence is None else self.design.variance(influence)

    def interval_by_variance(self, measure: Measure) -> Interval:
        """Return the interval of a measure from its variance, symmetric on its link."""
        value, variance = self.event.value(measure), self.variance(measure)
        if variance is None:
            return Interval(math.nan, math.nan, "no interval: the variance cannot be estimated from these rows")
        return linked_interval(value, variance, self.level, measure.link)

    def replicates_of(self, key: Measure | Statistic) -> Float64s:
        """Return the values of a measure, or another statistic, on the B simulated data sets, (B, ...)."""
        return self._draws_of(key)[key].replicates

    def _draws_of(self, key: Measure | Statistic) -> Mapping[Measure | Statistic, Draws]:
        return self.draws if key in self.measures or key in self.statistics else self._draw([key])

    def _law(self, measure: Measure) -> Law | None:
        null = measure.null
        if isinstance(null, OwnLaw):
            return null.law(self)
        if not isinstance(null, Null) or math.isnan(self.event.value(measure)):
            return None
        if not self.resampling.n_resamples:
            return None if null.closed_form is None else null.closed_form(self)
        draws = self._draws_of(measure)
        values, statistic = draws[measure].replicates, draws[null.statistic or measure]
        if np.isnan(values).any():
            return None
        floor = floor_of(values, self.resampling.level)
        return Law(floor, p_value(statistic.replicates, statistic.observed), self.resampling.source)

    @cached_property
    def draws(self) -> Mapping[Measure | Statistic, Draws]:
        """Every measure, and every other statistic, on B simulated data sets under calibration."""
        return self._draw([*self.measures, *self.statistics]) if self.drawn_by is None else self.drawn_by.draws

    @cached_property
    def _independent(self) -> Mapping[Measure | Statistic, Draws]:
        """The measures that fall with the root of the rows, on B data sets simulated as if rows were independent."""
        if self.drawn_by is not None:
            return self.drawn_by._independent
        null = self.event.of(null_of)
        if not self.resampling.n_resamples or isinstance(null, RowNull):
            return {}
        return self._draw([measure for measure in self.measures if measure.root_rate], null.independent)

    def _draw(
        self, keys: Iterable[Measure | Statistic], draw: Draw | None = None
    ) -> Mapping[Measure | Statistic, Draws]:
        work: dict[Measure | Statistic, Statistic] = {}
        for key in keys:
            if not isinstance(key, Measure):
                work[key] = key
            elif isinstance(key.null, Null) and not math.isnan(self.event.value(key)):
                work[key] = key.null.replicate or partial(_values, key)
                if key.null.statistic is not None:
                    work[key.null.statistic] = key.null.statistic
        observed = {key: function(self.observed) for key, function in work.items()}
        blocks = list(self.blocks(work, self.resampling.n_resamples, draw))
        return {key: Draws(observed[key].flat[0], np.concatenate([one[key] for one in blocks])) for key in work}

    def blocks(
        self, work: Mapping[Any, Statistic], n_resamples: int, draw: Draw | None = None
    ) -> Iterator[dict[Any, Float64s]]:
        """Yield statistics of simulated data sets under calibration, block by block."""
        drawn = draw or self.event.of(null_of).drawn

        def block(rng: np.random.Generator, size: int) -> dict[Any, Float64s]:
            replicates = Replicates(inference=self, sums=drawn(rng, size))
            return {key: function(replicates) for key, function in work.items()}

        resampling = replace(self.resampling, n_resamples=n_resamples)
        return resampling.blocks(Stream.CALIBRATED, block, cells=len(self.cells))

    # ------------------------------------------------------------ the clusters behind an estimate

    def finish(self, measure: Measure, estimate: Estimate) -> Estimate:
        """Return the estimate with the clusters and the effective number of rows behind it, if rows are in clusters."""
        sample = self.design.sample
        if not sample.facts:
            return estimate
        details, rows = dict(sample.facts), self.effective_rows(measure)
        if rows is not None:
            details["effective_rows"] = rows
        method = f"{estimate.method}{sample.suffix}"
        return replace(estimate, method=method, details={**estimate.details, **details})

    def effective_rows(self, measure: Measure) -> float | None:
        """Return how many independent rows would tell as much of a measure; None where that is not known.

        N / deff for a mean, N (mean of T* for independent rows / mean of T*)^2 for a calibration error; at most N.
        """
        n = self.cells.effective_n
        variance = self.variance(measure)
        if variance is not None:
            return variance.effective_rows(n)
        if measure not in self._independent:  # also of measures that do not fall with the root of the rows
            return None
        draws = (self.draws[measure], self._independent[measure])
        mean, mean_of_independent = (float(each.replicates.mean()) for each in draws)
        return n * min(mean_of_independent / mean, 1.0) ** 2 if mean > 0 else n


@dataclass(frozen=True, eq=False, kw_only=True)
class Replicates(Memo):
    """B data sets simulated under calibration: the ``positives`` of each cell, (B, K), and sums over them."""

    inference: Inference
    sums: Sums

    @property
    def positives(self) -> Float64s:
        """The sum of outcomes of each cell, (B, K); with rows in clusters it may lie outside the possible range."""
        return self.sums.positives

    @property
    def gap_sums(self) -> Float64s:
        """The sum of score - outcome of each cell, (B, K)."""
        return self.sums.cell_gaps

    @property
    def uniform_gaps(self) -> Float64s:
        """The sum of score - outcome of each equal-width bin, (B, M)."""
        return self.sums.uniform_gaps

    @cached_property
    def fits(self) -> Float64s:
        """The isotonic fit at each cell, (B, K)."""
        return np.clip(dispatch.isotonic_fits(self.inference.cells.counts, self.positives), 0.0, 1.0)

    def events(self) -> Iterator[Event]:
        """Yield each simulated data set as an event, for measures that need a table."""
        for row in self.sums.table_positives:
            yield Event(table=self.inference.cells.with_positives(row), n_bins=self.inference.event.n_bins)


def _values(measure: Measure, replicates: Replicates) -> Float64s:
    """Return a measure's value on the table of each simulated data set."""
    return np.array([number_of(event, measure) for event in replicates.events()])


Statistic: TypeAlias = Callable[[Replicates], Float64s]
Draw: TypeAlias = Callable[[np.random.Generator, int], Sums]
