"""An evaluated event: what the values of measures are computed from. Each sum is computed once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from calibrant.errors import InputError
from calibrant.measures.means.means import PredictionMeans
from calibrant.measures.measure import Measure, Unavailable
from calibrant.results import ClasswiseCalibration
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import Memo, cached_property
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import Clustered, Influence, SamplingDesign
from calibrant.statistics.impossible import ImpossibleOutcomes, impossible_outcomes
from calibrant.statistics.intervals import has_link, link_slope
from calibrant.table import GridCells, ReliabilityTable

if TYPE_CHECKING:
    from calibrant.measures.estimates import ClassBins

_ROUNDING: Final = 1e-20  # relative: a smaller sum of squares around a mean is rounding


@dataclass(frozen=True, eq=False, kw_only=True)
class Classes:
    """Every class evaluated alone, in addition to the event: errors, bins, the certified error of the mean error.

    ``impossible`` says whether the scores of a class exclude one of its outcomes.
    """

    errors: ClasswiseCalibration
    bins: ClassBins
    names: tuple[str, ...] | None = None
    bound: float = 0.0
    impossible: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class Event(Memo):
    """One evaluated event, with the means of its predictions and the errors of its classes.

    Attributes
    ----------
    table : ReliabilityTable
        The scores and outcomes of the event.
    n_bins : int
        The number of bins of the binned measures.
    means : PredictionMeans or None
        Means over whole predictions.
    classes : Classes or None
        Every class alone; None if classes are not evaluated. ``no_classes`` says why.
    asked_classes : int
        The number of classes to evaluate one by one. If it is above 0 and ``classes`` is None, the data are a sketch
        that does not keep single classes.
    clusters : Clustered or None
        The rows in clusters; None if they are independent.
    logits : bool
        Whether the scores were computed from logits, so that scores of 0 and 1 are rounded ones.
    """

    table: ReliabilityTable
    n_bins: int = 15
    means: PredictionMeans | None = None
    classes: Classes | None = None
    no_classes: str = "only one event is evaluated, not classes"
    asked_classes: int = 0
    clusters: Clustered | None = None
    logits: bool = False

    def value(self, measure: Measure) -> float:
        """Return a measure of the event, computed once.

        Raises
        ------
        calibrant.errors.InputError
            If the measure's function does not return a number.
        """
        return self.of(number_of, measure)

    def influence(self, measure: Measure) -> Influence | None:
        """Return what each row adds to a measure, on the scale of its link; None if it has no influence here.

        None also where the link of the value is infinite, and where no row adds more than another: the rows then do not
        tell how the measure varies.
        """
        influence = None if measure.influence is None else measure.influence(self)
        if influence is None or isinstance(influence, Influence):
            return influence
        cells, values = Cells(self.table), as_influence(measure, influence, self.table)
        value = self.value(measure)
        if not has_link(value, measure.link):
            return None
        made = Influence.of_cells(cells, link_slope(value, measure.link) * values)
        size = float(np.sum(self.table.own_weights * values**2)) * link_slope(value, measure.link) ** 2
        return made if made.square > _ROUNDING * size else None

    def bound(self, measure: Measure) -> float:
        """Return the certified error of the value: 0 if the value is exact, NaN if no bound is known."""
        if isinstance(measure.bound, Unavailable):
            return 0.0 if self.grid_cells is None else math.nan
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
    def cells(self) -> Cells:
        """The rows pooled to few cells: those of the table, or of the standard grid where that has fewer."""
        return Cells.from_table(self.table)

    @cached_property
    def design(self) -> SamplingDesign:
        """How sums over the rows vary."""
        return SamplingDesign(self.cells) if self.clusters is None else self.clusters

    @cached_property
    def impossible(self) -> ImpossibleOutcomes | None:
        """The outcomes that the scores exclude; None without any.

        If the log loss of one event is finite, a score of 0 or 1 with such an outcome was computed from a logit.
        """
        finite = self.means is not None and self.means.event and not self.means.infinite
        return impossible_outcomes(self.table, logits=self.logits or finite)

    @cached_property
    def grid_cells(self) -> GridCells | None:
        """The cells of a table on a grid; None for an exact table."""
        return GridCells.of(self.table)

    @property
    def evaluated_classes(self) -> Classes:
        """Every class alone; rejects an event without evaluated classes."""
        if self.classes is None:
            raise InputError("event", "evaluated classes", self.no_classes, "use evaluate with classwise=True")
        return self.classes

    @property
    def outcome_rate(self) -> float:
        """The share of rows with outcome 1."""
        return self.table.sums.positives / self.table.total


def certified(bound: Callable[[GridCells, Event], float]) -> Callable[[Event], float]:
    """Return a bound of a table on a grid as one of any event: 0 for an exact table."""

    def of_event(event: Event) -> float:
        return 0.0 if event.grid_cells is None else bound(event.grid_cells, event)

    return of_event


def as_influence(measure: Measure, values: Any, table: ReliabilityTable) -> Float64s:
    """Return the influence of a measure as an array; reject anything but two finite numbers for each row of a table."""
    shape = (2, len(table))
    try:
        array = np.asarray(values)
    except ValueError:  # rows of several lengths
        array = np.empty(0, object)
    got = f"an array {array.shape} of {array.dtype}"
    if array.shape == shape and array.dtype.kind in "fiu":
        if np.isfinite(array).all():
            return array.astype(np.float64)
        got = "NaN or infinity among them"
    expected = (
        f"two finite numbers for each row of event.table, {shape}, from the influence function of {measure.name!r}"
    )
    remedy = "return what each row adds to the measure, first with outcome 0, and then with outcome 1"
    raise InputError("measures", expected, got, remedy)


def number_of(event: Event, measure: Measure) -> float:
    """Return the value of a measure for an event; reject anything but a number."""
    value = measure.value(event)
    try:
        return float(value)
    except (TypeError, ValueError):
        expected = f"a number from the value function of measure {measure.name!r}"
        raise InputError("measures", expected, repr(value), "return a float for every event") from None
