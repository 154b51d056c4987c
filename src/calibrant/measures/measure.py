"""What a measure is: a frozen value that says how it is computed, inferred, combined over classes and shown."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from calibrant.errors import InputError, check_choice
from calibrant.inputs.predictions import Layout
from calibrant.measures.binned.binned import Binning, Norm
from calibrant.measures.differences.pair import ComparedModel, Mean, ModelPair, influence_difference
from calibrant.results import Description, Estimate, Floor, Scale
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.design import Influence
from calibrant.statistics.group_tests import Compare
from calibrant.statistics.intervals import Link
from calibrant.statistics.null import Interval, Law

if TYPE_CHECKING:
    from calibrant.measures.context import Inference, Replicates
    from calibrant.measures.event import Event

SCALES: Final = ("probability", "square", "score", "ratio")
DIRECTIONS: Final = ("lower", "higher", "neither")
JUDGED: Final = ("event", "predictions", "classes")

Range: TypeAlias = tuple[float, float]

#: What a measure tells beyond its number.
Details: TypeAlias = Mapping[str, Any]

UNBOUNDED: Final[Range] = (-math.inf, math.inf)

#: The profile that reports show by default.
STANDARD: Final = "standard"

_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_NOTHING: Final[Details] = MappingProxyType({})


@dataclass(frozen=True)
class Unavailable:
    """Something that a measure does not have. The reason becomes the `Estimate.method`."""

    reason: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Null:
    """How the distribution of a measure under calibration is drawn.

    Attributes
    ----------
    replicate : callable, optional
        The measure on each of B simulated data sets, (B,), from sums that are shared between measures. Without it the
        measure's `value` is computed on the table of each simulated data set.
    statistic : callable, optional
        The statistic that decides the p-value, (B,), if it is not the measure itself.
    closed_form : callable, optional
        The distribution without resampling, for ``n_resamples=0``. It returns None if the data have no such
        distribution.
    """

    replicate: Callable[[Replicates], Float64s] | None = None
    statistic: Callable[[Replicates], Float64s] | None = None
    closed_form: Callable[[Inference], Law | None] | None = None


@dataclass(frozen=True, eq=False)
class OwnLaw:
    """A distribution under calibration that does not come from the shared simulated data sets.

    ``law`` returns None if the data have no such distribution.
    """

    law: Callable[[Inference], Law | None]


@dataclass(frozen=True)
class OverClasses:
    """How a measure of single classes combines to one number.

    Attributes
    ----------
    norm : {"l1", "l2", "max"}
        Mean, root mean square or maximum.
    binning : {"uniform", "quantile"}, optional
        The bins of each class that the interval of the mean is computed from. None: the mean has no interval.
    """

    norm: Norm = "l1"
    binning: Binning | None = None


@dataclass(frozen=True, eq=False)
class Difference:
    """How two models are compared by a measure.

    Attributes
    ----------
    value : callable
        The value of the measure for one model.
    estimate : callable
        The `Estimate` of first minus second, from a pair of models and a level. The pair gives the variance of
        differences, for two models on the same rows, on rows of the same clusters, or with sums alone.
    decides : bool
        Whether the test of this measure decides the comparison.
    mean : str, optional
        If the measure is a mean over predictions, the name of this mean in `PredictionMeans`.
    """

    value: Callable[[ComparedModel], float]
    estimate: Callable[[ModelPair, float], Estimate]
    decides: bool = False
    mean: Mean | None = None


def _within(range_: Range, value: float, low: float, high: float) -> Range:
    """Return the ends of an interval, not outside the range; a value that is outside by rounding stays inside."""
    return max(low, min(range_[0], value)), min(high, max(range_[1], value))


def no_details(event: Event) -> Details:
    """Return nothing: most measures have no details."""
    del event
    return _NOTHING


def exact(event: Event) -> float:
    """Return 0: a sketch gives this measure exactly, up to rounding."""
    del event
    return 0.0


NOT_ASKED: Final = "no interval was requested (level=None)"
NO_INTERVAL: Final = Unavailable("no interval: no method is known for this measure")
NO_BOUND: Final = Unavailable("no bound on the approximation error is known for this measure")
NO_FLOOR: Final = Unavailable("no noise floor: only measures for which lower values are better have a noise floor")
NOT_AN_ERROR: Final = Unavailable("no noise floor: the measure is not a calibration error")
PROPER_SCORE: Final = Unavailable("no noise floor: the measure also rewards discrimination")
NO_DIFFERENCE: Final = Unavailable("models are not compared by this measure")


@dataclass(frozen=True, eq=False, kw_only=True)
class Measure:
    """A measure of calibration: everything that reports, pages, comparisons and tests need to know about it.

    A name, a label, one sentence and ``value`` are enough. The rest has defaults that promise nothing: no interval, no
    certified error on a sketch. Measures that are better when lower have a noise floor and a p-value by default: a
    report draws simulated data sets anyway, and ``value`` is computed on each.

    Parameters
    ----------
    name : str
        The key in a report, in JSON and in ``--fail-if``: lower-case letters, digits and underscores.
    label : str
        The name as people write it, such as "ECE".
    meaning : str
        One sentence for readers who do not know the measure.
    computed : str, default ""
        One sentence for the methods section of a paper, without its full stop: which estimate it is. ``{bins}`` becomes
        the number and the kind of the bins. By default it is the label with the meaning.
    misleads : str, default ""
        When the number misleads, in one sentence; for the documentation.
    sources : tuple of str
        The papers to cite, such as "Brier 1950".
    value : callable
        A function from a `calibrant.measures.Event` to a float: NaN if these data have no value. ``event.table`` is the
        `ReliabilityTable` of the evaluated event.
    judges : {"event", "predictions", "classes"}, default "event"
        What it is a function of: the evaluated event's table, means over whole predictions, or every class's bins.
    scale : {"probability", "square", "score", "ratio"}, default "probability"
        The unit; charts show measures of one scale together.
    better : {"lower", "higher", "neither"}, default "lower"
        Which direction is better. Only measures that are better when lower have a noise floor by default.
    signed : bool, default False
        Whether it is shown with its sign.
    range : tuple of float, optional
        The least and the largest true value that the measure can have. No end of an interval lies outside, unless the
        estimate does, as an unbiased square may. By default (0, 1) for an error, which is better when lower and neither
        a ratio nor a mean over predictions; else unbounded.
    class_range : tuple of float, optional
        The range over predictions of exclusive classes, if it differs from ``range``.
    of_event : tuple of str, optional
        The label and the meaning for scores of one event, if they differ from ``label`` and ``meaning``.
    binning : {"uniform", "quantile"}, optional
        The bins it is computed over, if any.
    link : {"identity", "log", "logit"}, default "identity"
        The scale that makes its interval symmetric.
    profiles : frozenset of str, default {"standard"}
        The profiles whose reports show it.
    details : callable
        A function from an `Event` to a mapping of further facts. Its "reason" says why a value is NaN or infinite.
    bound : callable or Unavailable
        The certified error of the value on a sketch.
    influence : callable, optional
        For a measure that is smooth in the data: a function from an `Event` to an array, (2, K). For each of the K rows
        of ``event.table``, the array holds what one unit of weight adds to the measure, first with outcome 0, then with
        outcome 1. The measure then has an interval, that of the sum of the influences, symmetric on ``link``; with rows
        in clusters too.
    interval : callable or Unavailable, optional
        The confidence interval, from an `Inference`, if it is not that of ``influence``.
    implied : callable, optional
        For an error that is at least as large as certain other measures: a function from an `Inference` to the upper
        end that their intervals imply. The measure's own upper end is raised to it.
    caution : callable
        A function from an `Event` to a mapping of details, whose "flag" says why the interval of the measure may be too
        short.
    null : Null, OwnLaw or Unavailable, optional
        The distribution under calibration: noise floor and p-value.
    over_classes : OverClasses or Unavailable
        How the measure combines if every class is evaluated.
    difference : Difference or Unavailable
        How the measure compares two models: by default by its influence, if it has one.
    origin : float, optional
        Where charts of groups draw a line: the value of the measure for calibrated scores, or for scores that do not
        discriminate.
    compare_groups : callable, optional
        How far groups are from one common value of the measure, from the cells of each.
    functions : tuple of callable
        The public functions that return it.

    Raises
    ------
    calibrant.errors.InputError
        For a name that is not usable as a key, an empty label or meaning, a value that is not callable, unknown
        choices, and a range that does not rise.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant
    >>> from calibrant.measures import Measure
    >>> def largest_excess(event):
    ...     table = event.table
    ...     return max(0.0, float(np.cumsum(table.residuals).max() / table.total))
    >>> excess = Measure(
    ...     name="excess", label="largest excess", meaning="How far outcomes run ahead of the scores.",
    ...     value=largest_excess,
    ... )
    >>> report = calibrant.evaluate([0.2] * 50 + [0.8] * 50, [0] * 30 + [1] * 70, measures=["ece", excess])
    >>> list(report), round(report["excess"].value, 3), report["excess"].p_value < 0.01
    (['ece', 'excess'], 0.2, True)
    """

    name: str
    label: str
    meaning: str
    value: Callable[[Event], float]
    judges: Literal["event", "predictions", "classes"] = "event"
    scale: Scale = "probability"
    better: Literal["lower", "higher", "neither"] = "lower"
    signed: bool = False
    range: Range | None = None
    class_range: Range | None = None
    of_event: tuple[str, str] | None = None
    computed: str = ""
    misleads: str = ""
    sources: tuple[str, ...] = ()
    binning: Binning | None = None
    link: Link = "identity"
    profiles: frozenset[str] = frozenset({STANDARD})
    details: Callable[[Event], Details] = no_details
    caution: Callable[[Event], Details] = no_details
    bound: Callable[[Event], float] | Unavailable = NO_BOUND
    interval: Callable[[Inference], Interval] | Unavailable | None = None
    influence: Callable[[Event], Influence | Float64s | None] | None = None
    implied: Callable[[Inference], float] | None = None
    null: Null | OwnLaw | Unavailable | None = None
    over_classes: OverClasses | Unavailable = field(default_factory=OverClasses)
    difference: Difference | Unavailable = NO_DIFFERENCE
    origin: float | None = None
    compare_groups: Compare | None = None
    functions: tuple[Callable[..., Any], ...] = ()

    def __post_init__(self) -> None:
        self._check()
        if self.range is None:
            error = self.better == "lower" and self.scale != "ratio" and self.judges != "predictions"
            object.__setattr__(self, "range", (0.0, 1.0) if error else UNBOUNDED)
        if self.interval is None and self.influence is None:
            object.__setattr__(self, "interval", NO_INTERVAL)
        if self.null is None:
            object.__setattr__(self, "null", Null() if self.better == "lower" else NO_FLOOR)

    def _check(self) -> None:
        """Reject what is not a measure."""
        if not (isinstance(self.name, str) and _NAME.fullmatch(self.name)):
            expected = "lower-case letters, digits and underscores, a letter first"
            raise InputError("name", expected, repr(self.name), "pass a key such as 'my_measure'")
        for argument in ("label", "meaning"):
            text = getattr(self, argument)
            if not (isinstance(text, str) and text.strip()):
                raise InputError(argument, "a text", repr(text), "say what the measure is")
        if not callable(self.value):
            raise InputError("value", "a function of an event", repr(self.value), "pass a function")
        check_choice("judges", self.judges, JUDGED)
        check_choice("scale", self.scale, SCALES)
        check_choice("better", self.better, DIRECTIONS)
        for argument in ("range", "class_range"):
            ends = getattr(self, argument)
            if ends is not None and not ends[0] < ends[1]:
                raise InputError(
                    argument, "the least and the largest value", repr(ends), "pass (0.0, 1.0), for example"
                )

    def in_range(self, value: float, low: float, high: float, layout: Layout = "binary") -> tuple[float, float]:
        """Return the ends of an interval around a value, moved into the range."""
        return _within(self._range_of(layout), value, low, high)

    def difference_in_range(self, difference: Estimate, layout: Layout) -> Estimate:
        """Return the difference of two values with the ends of its interval moved into its range.

        A single row has two infinite ends, because it contains nothing about the variance. They become NaN.
        """
        if math.isinf(difference.low) and math.isinf(difference.high):
            return replace(difference, low=math.nan, high=math.nan)
        least, most = self._range_of(layout)
        ends = _within((least - most, most - least), difference.value, difference.low, difference.high)
        return replace(difference, low=ends[0], high=ends[1])

    def law_in_range(self, law: Law | None) -> Law | None:
        """Return the distribution under calibration with a noise floor in the range; closed forms may exceed it."""
        most = (self.range or UNBOUNDED)[1]
        if law is None or law.floor.upper <= most or self.scale == "ratio":  # the floor of a ratio is a distance from 1
            return law
        return replace(law, floor=Floor(min(law.floor.mean, most), most))

    def _range_of(self, layout: Layout) -> Range:
        return (self.class_range if layout == "multiclass" else None) or self.range or UNBOUNDED

    @property
    def comparison(self) -> Difference | Unavailable:
        """How models are compared by the measure: as it says, or by its influence."""
        if self.influence is None or self.difference != NO_DIFFERENCE:
            return self.difference
        return Difference(value=lambda model: model.event.value(self), estimate=partial(influence_difference, self))

    @property
    def root_rate(self) -> bool:
        """Whether the noise floor falls with the square root of the number of rows: that of mean gaps over bins."""
        over_bins = self.binning is not None and self.scale == "probability"
        return over_bins and isinstance(self.null, Null) and self.over_classes != OverClasses(norm="max")


def descriptions_of(measures: Sequence[Measure], *, of_event: bool = False) -> dict[str, Description]:
    """Return what a report holds about each measure itself, by name: label, meaning, scale, direction.

    With ``of_event``, they are of the scores of one event.
    """
    found = {}
    for measure in measures:
        label, meaning = (measure.of_event if of_event else None) or (measure.label, measure.meaning)
        found[measure.name] = Description(
            label=label,
            meaning=meaning,
            scale=measure.scale,
            better=measure.better,
            signed=measure.signed,
            binning=measure.binning,
        )
    return found
