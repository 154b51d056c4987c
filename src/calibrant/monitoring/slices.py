"""What a monitor keeps of each slice, and how it describes a drift."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from calibrant.monitoring.evidence import FAMILIES, TILTS, start_shares
from calibrant.monitoring.state import pack
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import cached_property
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.e_processes import Bounds, Mixture
from calibrant.statistics.intervals import PRIOR_ROWS
from calibrant.statistics.resampling import alpha_of

#: What suffices to repair a drift of a family: "refit" where no family has most of the evidence.
REPAIRS: Final = {"level": "offset", "slope": "slope", "range": "refit"}

#: The sums of a slice.
SUMS: Final = ("n", "predicted", "gap", "square", "information", "skewness", "tilted", "tilted_information")

_MOST: Final = 0.8  # of the evidence, so that a family is named
_NEARLY: Final = 4.0  # a likelihood ratio: a simpler repair that fits so much worse at most suffices
_RANGE: Final = 0.9  # of the shares of starts
_CHOICES: Final = 2  # intervals of the size allow for so many choices of an alarm: simulated


class Impossible(NamedTuple):
    """The weight of the events with a score of 0, and that of the non-events with a score of 1."""

    events: float = 0.0
    non_events: float = 0.0

    def __bool__(self) -> bool:
        return any(each > 0 for each in self[:])

    def __add__(self, other: Impossible) -> Impossible:  # type: ignore[override]
        return Impossible(self.events + other.events, self.non_events + other.non_events)


@dataclass(frozen=True, eq=False, kw_only=True)
class Slice:
    """The sums of a slice of rows with scores p and outcomes y.

    Attributes
    ----------
    label : str
        Its name.
    n, predicted, gap, square, information, skewness : float
        The weight of the rows, and the sums of p, of p - y, of (p - y)^2, of p (1 - p) and of p (1 - p) (1 - 2 p). Of
        rows in clusters ``square`` is the sum of squares of the sums of p - y over clusters.
    tilted, tilted_information : float
        The sums of f (p - y) and of f^2 p (1 - p), with f the log-odds less their mean, as the slope tilts use them.
    growth : (50,)
        By how much the logarithm of the likelihood ratio of each tilt grew.
    bounds : Bounds
        The confidence sequence of the mean of p - q over all rows up to it, with the true probabilities q.
    impossible : Impossible
        The outcomes that their scores exclude.
    digest : str
        What identifies its rows; empty if other rows could be equal by chance.
    log_evidence : float
        The logarithm of the evidence after it, with that of groups, and without impossible outcomes.
    """

    label: str
    n: float
    predicted: float
    gap: float
    square: float
    information: float
    skewness: float
    tilted: float
    tilted_information: float
    growth: Float64s
    bounds: Bounds = Bounds(-1.0, 1.0, informative=False)
    impossible: Impossible = Impossible()
    digest: str = ""
    log_evidence: float = 0.0

    @cached_property
    def packed(self) -> str:
        """The growth as text."""
        return pack(self.growth)


@dataclass(frozen=True, eq=False, kw_only=True)
class Group:
    """The state of one group: its evidence, its sums, and whether it was ever flagged.

    Attributes
    ----------
    mixture : Mixture
        The mixture of tilts and starts.
    n, gap : float
        The weight of its rows, and the sum of p - y.
    impossible : Impossible
        The outcomes that their scores exclude.
    most : float
        The largest logarithm of the e-value after closed testing so far.
    kind : str
        The kind of a question; empty for other groups, and before its first rows.
    since : int
        The number of the slice in which it appeared, from 0; 0 for one that was declared.
    """

    mixture: Mixture
    n: float = 0.0
    gap: float = 0.0
    impossible: Impossible = Impossible()
    most: float = -math.inf
    kind: str = ""
    since: int = 0


@dataclass(frozen=True, kw_only=True)
class Drift:
    """What an alarm says about a drift: its onset, its size, its kind, and the recalibration that suffices.

    Attributes
    ----------
    since, earliest, latest : str
        The most likely first slice of the drift, and the ends of its 90 % credible interval.
    first : int
        The number of the slice ``since``, from 0.
    difference, low, high : float
        The mean predicted probability minus the observed frequency from the slice ``since`` on, with an interval that
        allows for any first slice from ``earliest`` to ``latest``.
    family : {"level", "slope", "range", "several"}
        The kind of error with at least 80 % of the evidence: in the level at all scores, in the slope, or in one range
        of scores. Without such a kind: "level" or "slope" if this one error explains the outcomes nearly as well
        as the best one; else "several".
    shares : mapping of str to float
        The shares of the errors "level", "slope" and "range" in the evidence.
    repair : {"offset", "slope", "refit"}
        The recalibration that suffices: of the offset, of the slope, or by a new map ("refit").
    offset, slope : float
        Rough estimates, from one step of a fit, for the recalibration s(offset + slope log-odds), with s the logistic
        function.
    """

    since: str
    earliest: str
    latest: str
    first: int
    difference: float
    low: float
    high: float
    family: str
    shares: dict[str, float]
    repair: str
    offset: float
    slope: float


def drift_of(slices: Sequence[Slice], level: float) -> Drift:
    """Return when a drift began, and what it is, from the slices up to an alarm."""
    starts, tilts, best = start_shares(np.stack([each.growth for each in slices]))
    first, upto = int(np.argmax(starts)), np.cumsum(starts)
    tail = (1 - _RANGE) / 2
    earliest, latest = (min(int(np.searchsorted(upto, share)), len(slices) - 1) for share in (tail, 1 - tail))
    shares = {family: float(sum(tilts[i] for i, t in enumerate(TILTS) if t.family == family)) for family in FAMILIES}
    leading = max(shares, key=shares.__getitem__)
    family = leading if shares[leading] >= _MOST else _simplest(best)
    since, starts_of_range = slices[first:], slice(min(earliest, first), max(latest, first) + 1)
    differences, lows, highs = _sizes(slices, level)
    tilted, information = sum(each.tilted for each in since), sum(each.tilted_information for each in since)
    gap, spread = sum(each.gap for each in since), sum(each.information for each in since)
    family = family if spread > 0 else "several"  # scores of 0 and 1 alone: no line in log-odds repairs them
    return Drift(
        since=slices[first].label,
        earliest=slices[starts_of_range][0].label,
        latest=slices[starts_of_range][-1].label,
        first=first,
        difference=float(differences[first]),
        low=float(lows[starts_of_range].min()),
        high=float(highs[starts_of_range].max()),
        family=family,
        shares=shares,
        repair=REPAIRS.get(family, "refit"),
        offset=-gap / spread if spread > 0 else 0.0,
        slope=1 - tilted / information if information > 0 else 1.0,
    )


def _simplest(best: Float64s) -> str:
    """Return the family that one number repairs and that fits nearly as well as any, by the best fit of each tilt.

    With one constant score, a shift of the level and a shift of its range are the same.
    """
    for family in ("level", "slope"):
        own = max(fit for fit, tilt in zip(best.tolist(), TILTS, strict=True) if tilt.family == family)
        if own >= float(best.max()) - math.log(_NEARLY):
            return family
    return "several"


def _sizes(slices: Sequence[Slice], level: float) -> tuple[Float64s, Float64s, Float64s]:
    """Return the mean difference from each slice on, (T,), with an interval.

    With the sum S of p - y and its variance v, the sum D of p - q is inside if (S - D)^2 <= z^2 v, or if (S - D)^2 <=
    z^2 (v + g (S - D)). The skewness g of the outcomes is by how much the variance grows with their number; for few
    events it is 1, as for a Poisson distribution (Wilson 1927, doi 10.1080/01621459.1927.10502953). The first interval
    is farther towards 0, which matters because the alarm chose large differences. The variance is the one seen,
    steadied by what calibration implies.
    """
    from scipy.special import ndtri

    names = ("n", "predicted", "gap", "square", "information", "skewness")
    sums = np.array([[getattr(each, name) for name in names] for each in slices])
    n, predicted, gap, square, information, skewness = np.cumsum(sums[::-1], axis=0)[::-1].T
    variance = np.maximum((n * square + PRIOR_ROWS * information) / (n + PRIOR_ROWS) - gap**2 / n, 0.0)
    z = float(ndtri(1 - alpha_of(level) / (2 * _CHOICES)))
    shift = z**2 / 2 * np.divide(skewness, information, out=np.zeros(len(n)), where=information > 0)
    plain = z * np.sqrt(variance)
    half = np.hypot(shift, plain)
    low = np.maximum(gap - np.maximum(plain, half + shift), predicted - n)
    high = np.minimum(gap + np.maximum(plain, half - shift), predicted)
    return gap / n, low / n, high / n
