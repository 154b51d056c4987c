"""Differences of two models, first minus second, of their measures, with intervals.

Each difference is written once. How it varies depends on the data that both models share: see `ModelPair`.

A calibration error is a sum of squares or of sizes of gaps, which is not normal where gaps are near zero: there the
variance of the square includes the noise of its own estimate, and the size is bounded from both sides.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.weights import tidy_weight
from calibrant.measures.binned.bin_inference import SteadyGaps, larger
from calibrant.measures.binned.bin_sums import BinSums
from calibrant.measures.binned.binned import absolute_error
from calibrant.measures.means.means import PredictionMeans
from calibrant.results import Estimate
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import cached_property
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.design import Influence
from calibrant.statistics.intervals import FEWEST, Variance, link_slope, thinned, unbiased_end
from calibrant.statistics.null import Interval
from calibrant.statistics.resampling import alpha_of

if TYPE_CHECKING:
    from calibrant.measures.event import Event
    from calibrant.measures.measure import Measure

#: The means over predictions that are compared, as `PredictionMeans` has them.
Mean: TypeAlias = Literal["brier", "nll", "accuracy"]


class Caution(NamedTuple):
    """A warning about a model; without a name about both, or with the name in its text."""

    text: str
    model: str | None = None


def told(cautions: Sequence[Caution]) -> list[str]:
    """Return warnings as texts, each once: with the name of their model, unless all models have the same."""
    of_models = [each for each in cautions if each.model is not None]
    is_same = len({each.text for each in of_models}) == 1
    texts = [each.text if is_same else f"{each.model}: {each.text}" for each in of_models if each.text]
    of_both = [each.text for each in cautions if each.model is None and each.text]
    return list(dict.fromkeys([*texts, *of_both]))


class ComparedModel(Protocol):
    """One of two models; ``square`` is its unbiased squared l2 error, ``absolute`` its l1 error."""

    @property
    def name(self) -> str: ...

    @property
    def means(self) -> PredictionMeans: ...

    @property
    def event(self) -> Event: ...

    @property
    def square(self) -> float: ...

    @property
    def absolute(self) -> float: ...


class OnlyRight(NamedTuple):
    """The shares of rows that only the first, only the second model predicts right, and the weight of all rows."""

    first: float
    second: float
    total: float

    @property
    def variance(self) -> float:
        """The variance of a row's difference of right answers."""
        return self.first + self.second - (self.first - self.second) ** 2

    def interval(self, value: float, rows: float, z: float) -> tuple[float, float]:
        """Return the interval of Bonett and Price (2012) of the difference, seen in so many rows.

        With p and q the two shares, each counted with one row more in n + 2: p - q -+ z sqrt((p + q - (p - q)^2) /
        (n + 2)). Unlike the normal interval it has a width if the models never differed.
        """
        p, q = ((share * rows + 1) / (rows + 2) for share in (self.first, self.second))
        half = z * math.sqrt(max(p + q - (p - q) ** 2, 0.0) / (rows + 2))
        return min(p - q - half, value), max(p - q + half, value)


_ENOUGH: Final = 10  # outcomes that decide a variance, so that the observed one is trusted
_FADES: Final = 6  # outcomes that were seen, after which what an unseen one adds has shrunk by the factor e
_LEAST_CHANCE: Final = 2.0**-53  # of an outcome that a score of 0 or 1 excludes, in the losses that were not seen


class Flips(NamedTuple):
    """How the loss of each row changes if its outcome is the other one; scores are those of the event."""

    changes: Float64s  # (n,): the loss with the other outcome minus the one that was seen
    scores: Float64s  # (n,): the probabilities of the event
    #: squares, single: (n,): what the row adds to the variance of a weighted sum, and what one outcome of it does.
    squares: Float64s
    single: Float64s
    total: float  # the weight of all rows
    own: NDArray[np.uint8] | None = None  # (n,): the outcomes, if each model has outcomes of its own
    together: float = 1.0  # how many times the variance of independent rows that of rows in clusters is


def loss_changes(scores: Float64s, outcomes: NDArray[Any], mean: Mean, classes: int = 0) -> Float64s:
    """Return by how much the Brier score or the log loss of one event changes if the outcome is the other one.

    A score of 0 or 1 excludes an outcome that would cost an infinite loss. It counts as one of probability 2^-53. For
    classes, the event is that the predicted class is right, and all others count as equally probable.
    """
    others = max(classes - 1, 1)
    if mean == "brier":
        changes = scores - (1 - scores) / others
        return np.asarray((2 if classes else 1) * changes * (2.0 * outcomes - 1))
    odds = np.log(np.maximum(scores, _LEAST_CHANCE)) - np.log(np.maximum(1 - scores, _LEAST_CHANCE))
    return np.asarray((odds + math.log(others)) * (2.0 * outcomes - 1))


def with_unseen(seen: float, flips: Sequence[Flips | None], tail: float) -> float:
    r"""Return the variance of a difference of mean losses with the outcomes that were possible and did not occur.

    The difference of a row's losses changes by :math:`D_i` if its outcome is the other one. Where models differ in few
    unlikely outcomes, most samples contain none of them, and the observed variance is far too small. With
    :math:`v_i = p_i (1 - p_i)`, scores imply that :math:`m = (\sum v_i D_i^2)^2 / \sum v_i D_i^4` outcomes of size
    :math:`D^2 = \sum v_i D_i^4 / \sum v_i D_i^2` decide the variance, and it is as large as if k of them occurred. If
    m < 10, the variance of k + c^2 exp(-k / 6) of them is returned. With c = -log(tail) / z, a difference that the
    expected outcomes would offset is significant only if the probability of no such outcome is below the tail (the
    "rule of three", Hanley and Lippman-Hand 1983). With the factor exp(-k / 6), the interval of a Poisson mean from k
    outcomes covers it with 95 % or nearly so for every mean. Both m and D are the larger ones of both models. If each
    model has outcomes of its own, and they differ in a row, :math:`D_i^2` is the sum of the squares of both changes.

    ``seen`` is the observed variance, ``flips`` are the values of each model, None where the losses are not of one
    event, and ``tail`` is the one-sided error of the statement.
    """
    from scipy.special import ndtri

    known = [each for each in flips if each is not None]
    if len(known) < len(flips) or not math.isfinite(seen):
        return seen
    first, last = known[0], known[-1]
    squares = first.changes**2
    if len(known) > 1:
        squares = (first.changes - last.changes) ** 2
        if first.own is not None and last.own is not None:
            squares = squares + 2 * first.changes * last.changes * (first.own != last.own)
    sums = np.array([_implied(each, squares) for each in known])
    sums = sums[sums[:, 1] > 0]
    if not len(sums) or np.any(sums[:, 0] ** 2 >= _ENOUGH * sums[:, 1]):
        return seen
    size, ratio = float(np.max(sums[:, 1] / sums[:, 0])) / first.total**2, math.log(tail) / float(ndtri(tail))
    return seen + first.together * size * ratio**2 * math.exp(-seen / size / _FADES)


def _implied(flips: Flips, squares: Float64s) -> tuple[float, float]:
    """Return the sums of v D^2 and of v D^4."""
    implied = flips.squares * flips.scores * (1 - flips.scores) * squares
    return float(np.sum(implied)), float(np.sum(implied * flips.single * squares))


@dataclass(frozen=True, eq=False)
class ModelPair(ABC):
    """Two models, and how the differences of their measures vary: the design of a pair.

    The designs are `paired.RowPair`, `paired.ClusterPair` and `unpaired.SummedPair`. ``facts`` belong to the details
    of every difference.
    """

    first: ComparedModel
    second: ComparedModel
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """The rows; the fewer, if the models have others."""
        return min(self.first.means.n, self.second.means.n)

    @property
    @abstractmethod
    def cautions(self) -> Sequence[Caution]:
        """Warnings where intervals are not to be trusted; empty texts are none."""

    @property
    def flag(self) -> str:
        """The warnings of both models, or nothing."""
        return "; ".join(told(self.cautions))

    # ------------------------------------------------------------ means over predictions

    @property
    @abstractmethod
    def mean_method(self) -> str:
        """How the intervals of differences of means are made."""

    @abstractmethod
    def half_width(self, mean: Mean, level: float) -> float:
        """Return half the width of the interval of the difference of the means."""

    def change(self, mean: Mean) -> float:
        """Return the difference of the means."""
        one, other = (float(getattr(model.means, mean)) for model in (self.first, self.second))
        return one - other

    def mean_interval(self, mean: Mean, value: float, level: float) -> Interval:
        """Return the symmetric interval of the difference of the means."""
        half = self.half_width(mean, level)
        return Interval(value - half, value + half, self.mean_method)

    @property
    def only_right(self) -> OnlyRight | None:
        """Which rows only one model predicts right; None if that is not known."""
        return None

    @abstractmethod
    def accuracy_interval(self, value: float, level: float) -> Interval:
        """Return the interval of the difference of the accuracies."""

    # ------------------------------------------------------------ calibration errors

    @property
    def square_method(self) -> str:
        """How the interval of the difference of the squared l2 errors is made; by default as that of means."""
        return self.mean_method

    @abstractmethod
    def square_variance(self) -> Variance:
        """Return the variance of the difference of the squared l2 errors."""

    @property
    def square_rounding(self) -> float:
        """The most that this difference is by rounding, and its standard error."""
        return 0.0

    def square_details(self, spread: Variance) -> dict[str, float]:
        """Return what this variance adds to the details."""
        return {"standard_error": spread.error}

    @abstractmethod
    def absolute_interval(self, level: float) -> Interval:
        """Return the interval of the difference of the l1 errors."""

    # ------------------------------------------------------------ measures with an influence

    @abstractmethod
    def influence_variance(self, measure: Measure) -> Variance | None:
        """Return the variance of the difference of a measure, by influences; None where a model has none."""


@dataclass(frozen=True, eq=False, kw_only=True)
class UnitModel(ABC):
    """One model and what its units, rows or buckets of clusters, add to its measures; r = p - y is of a row."""

    name: str  # its name
    bins: BinSums  # the equal-width bins of its evaluated rows, (M,)
    means: PredictionMeans  # the means over its predictions
    event: Event  # its evaluated event
    _changed: dict[Measure, Float64s | None] = field(default_factory=dict, init=False, repr=False)

    @property
    def square(self) -> float:
        """The unbiased estimate of the squared l2 error."""
        return self.bins.square

    @property
    def absolute(self) -> float:
        """The l1 error."""
        return float(absolute_error(self.bins.moments.gap_sums, self.bins.moments.total))

    @cached_property
    def gaps(self) -> Float64s:
        """The gap D of each bin."""
        return self.bins.moments.gap_sums / self.bins.moments.counts

    @property
    def steady(self) -> Float64s:
        """D without its noise."""
        return SteadyGaps.of(self.bins).values

    @cached_property
    def thin(self) -> tuple[float, Float64s]:
        """The estimate G of the l1 error, which is biased downwards everywhere, and the slopes g' of the bins."""
        roots = np.sqrt(self.bins.variances)
        g, slopes = thinned(self.bins.moments.gap_sums / roots)
        return float(np.sum(roots * g)) / self.bins.moments.total, slopes

    @cached_property
    def above(self) -> float:
        """G with its largest bias, an estimate of the l1 error that is biased upwards; infinite with few bins."""
        roots = float(np.sum(np.sqrt(self.bins.variances)))
        several = roots**2 >= FEWEST * self.sign_variance
        return unbiased_end(self.thin[0], roots / self.bins.moments.total, 0.0, several=several)

    @property
    @abstractmethod
    def sign_variance(self) -> float:
        """The variance of sum sign(S) S over the bins."""

    @abstractmethod
    def scores(self, mean: Mean) -> Float64s:
        """Return what each unit adds to a mean over predictions."""

    def changes(self, measure: Measure) -> Float64s | None:
        """Return what each unit adds to a measure, by its influence, computed once; None where that is not known."""
        if measure not in self._changed:
            influence = self.event.influence(measure)
            added = None if influence is None else self.added(influence)
            if added is not None:
                added = added / link_slope(self.event.value(measure), measure.link)
            self._changed[measure] = added
        return self._changed[measure]

    @abstractmethod
    def flips(self, mean: Mean) -> Flips | None:
        """Return how the losses of rows change with the other outcome; None where they are not those of one event."""

    @abstractmethod
    def added(self, influence: Influence) -> Float64s | None:
        """Return what each unit adds to a measure with this influence; None where that is not known."""

    @abstractmethod
    def influence(self, gaps: Float64s) -> Float64s:
        """Return 2 D r - D^2, what each unit adds to the squared l2 error, for these gaps of the bins."""

    @abstractmethod
    def sloped(self, slopes: Float64s) -> Float64s:
        """Return f r, what each unit adds to the l1 error, for these slopes f of the bins."""

    def unseen(self, slopes: Float64s) -> float:
        """Return the variance of sum f S / N that calibration implies beyond what was seen."""
        bins, moments = self.bins, self.bins.moments
        excess = np.maximum(bins.variances - moments.squared_residuals * bins.deff, 0.0)
        return float(np.sum(excess * slopes**2)) / moments.total**2


@dataclass(frozen=True, eq=False)
class UnitPair(ModelPair):
    """Two models of the same units. What units have in common cancels in the differences of what each adds."""

    first: UnitModel
    second: UnitModel

    absolute_method = "Gaussian thinning, bounds of both models subtracted, which is conservative"

    def changes(self, mean: Mean) -> Float64s:
        """Return what each unit adds to the difference of the means."""
        return self.first.scores(mean) - self.second.scores(mean)

    @abstractmethod
    def variance(self, changes: Float64s, unseen: float = 0.0) -> Variance:
        """Return the variance of a difference from what each unit adds to it, and from what was not seen."""

    @abstractmethod
    def noise(self) -> float:
        """Return the variance of the difference of the squared errors where all gaps are 0."""

    def half_width(self, mean: Mean, level: float) -> float:
        spread = self.variance(self.changes(mean))
        if mean != "accuracy":
            flips = [model.flips(mean) for model in (self.first, self.second)]
            spread = spread._replace(value=with_unseen(spread.value, flips, alpha_of(level) / 2))
        return spread.half_width(level)

    def square_variance(self) -> Variance:
        """Return the larger of two variances, `larger`, of the differences of the influences."""
        one, other = self.first, self.second
        plain = self.variance(one.influence(one.gaps) - other.influence(other.gaps))
        steady = self.variance(one.influence(one.steady) - other.influence(other.steady))
        return larger(plain, steady, self.noise())

    def influence_variance(self, measure: Measure) -> Variance | None:
        """Return the variance of the differences of what units add."""
        one, other = self.first.changes(measure), self.second.changes(measure)
        return None if one is None or other is None else self.variance(one - other)

    def absolute_interval(self, level: float) -> Interval:
        """Return the interval between two bounds that hold wherever the gaps are.

        low = G_A - U_B - t sd, high = U_A - G_B + t sd: the thinned G is biased downwards. U is biased upwards: the
        reported error, or G with its largest bias, whichever gives the nearer end. Each sd is that of the differences
        of what units add to what is subtracted.
        """

        def most(above: UnitModel, below: UnitModel) -> float:
            value, slopes = below.thin
            lower = below.sloped(slopes)

            def end(upper: float, directions: Float64s) -> float:
                unseen = below.unseen(slopes) + above.unseen(directions)
                return upper - value + self.variance(lower - above.sloped(directions), unseen).half_width(level)

            plain = end(above.absolute, np.sign(above.gaps))
            return plain if math.isinf(above.above) else min(plain, end(above.above, above.thin[1]))

        low, high = -most(self.second, self.first), most(self.first, self.second)
        return Interval(low, high, self.absolute_method)


def influence_difference(measure: Measure, pair: ModelPair, level: float) -> Estimate:
    """Return the difference of a measure that has an influence; the interval is that of the sum of the influences."""
    first, second = (model.event.value(measure) for model in (pair.first, pair.second))
    value = first - second
    if not math.isfinite(value):
        return Estimate(value, method="not available: the measure has no finite value for both models")
    variance = pair.influence_variance(measure)
    if variance is None or not math.isfinite(variance.value):
        return Estimate(value, method="no interval: the variance of the difference cannot be estimated from these data")
    half = variance.half_width(level)
    return Estimate(value, value - half, value + half, method=pair.mean_method)


def square_difference(pair: ModelPair, level: float) -> Estimate:
    """Return the difference of the squared l2 errors, which decides; p is 1 where nothing differs or varies."""
    value, spread, rounding = pair.first.square - pair.second.square, pair.square_variance(), pair.square_rounding
    half = spread.half_width(level)
    return Estimate(
        value,
        value - half,
        value + half,
        p_value=spread.p_value(value) if spread.error > rounding else float(abs(value) <= rounding),
        method=pair.square_method,
        details=pair.square_details(spread),
    )


def absolute_difference(pair: ModelPair, level: float) -> Estimate:
    """Return the difference of the l1 errors."""
    return _estimate(pair.first.absolute - pair.second.absolute, pair.absolute_interval(level))


def loss_difference(pair: ModelPair, level: float) -> Estimate:
    """Return the difference of the log losses; infinite, or not a number where both are infinite, with the reason."""
    lost = {model.name: tidy_weight(model.means.infinite) for model in (pair.first, pair.second)}
    if not any(lost.values()):
        return mean_difference(pair, level, mean="nll")
    first, second = lost.values()
    value = math.nan if first and second else math.inf if first else -math.inf
    sentences = [
        f"{count:,} observed outcome{'s' * (count != 1)} had predicted probability 0 in {name}"
        for name, count in lost.items()
        if count
    ]
    reason = f"infinite: {'; '.join(sentences)}"
    return Estimate(value, method=f"not available: {reason}", details={"infinite_rows": lost, "reason": reason})


def accuracy_difference(pair: ModelPair, level: float) -> Estimate:
    """Return the difference of the accuracies."""
    value, only = pair.change("accuracy"), pair.only_right
    details: dict[str, Any] = {}
    if only is not None:
        shares = {"only_first": only.first, "only_second": only.second}
        details = {name: tidy_weight(share * only.total) for name, share in shares.items()}
    return _estimate(value, pair.accuracy_interval(value, level), details)


def mean_difference(pair: ModelPair, level: float, *, mean: Mean) -> Estimate:
    """Return the difference of a mean over predictions."""
    value = pair.change(mean)
    return _estimate(value, pair.mean_interval(mean, value, level))


def _estimate(value: float, interval: Interval, details: Mapping[str, Any] | None = None) -> Estimate:
    return Estimate(value, interval.low, interval.high, method=interval.method, details=details or {})
