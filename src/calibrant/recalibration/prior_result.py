"""`PriorShift`: the map for another event rate or other shares of the classes, as a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from calibrant.inputs.predictions import Notion
from calibrant.recalibration.maps import CalibrationMap, plain_fitted
from calibrant.recalibration.recalibrations import MapCurve, RecalibrationResult, plain_curve
from calibrant.render.shown import NO_SOURCE
from calibrant.results.values import plain
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import cached_property
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.resampling import alpha_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from calibrant.render.blocks import Document, Source

#: The version of the dictionary of a correction.
SCHEMA_VERSION: Final = 1

_POINTS: Final = 101  # of the curve of a map


def corrected(scores: Float64s, prior: float, trained_prior: float) -> Float64s:
    """Return the probabilities of one event at another rate, by Bayes' theorem (Elkan 2001); the rate may be 0 or 1."""
    event = scores * (prior / trained_prior)
    return np.asarray(event / (event + (1 - scores) * ((1 - prior) / (1 - trained_prior))))


@dataclass(frozen=True, eq=False, kw_only=True)
class PriorEstimate:
    """The estimated shares of a population, from its scores without outcomes.

    Attributes
    ----------
    n : int
        The number of scores.
    value, low, high : tuple of float
        The most likely share of each class, with its confidence interval; for one event, the share of the event alone.
        If a share is 0, the map uses a small share instead, as if half a row were in the class.
    level : float
        The confidence of each interval.
    clusters : int or None
        The number of clusters; None for independent rows.
    """

    n: int
    value: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    level: float
    clusters: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether the interval of a share is from 0 to 1, so that the scores do not determine the shares."""
        return (0, 1) in zip(self.low, self.high, strict=True)


@dataclass(frozen=True, eq=False, kw_only=True)
class PriorCheck:
    """Whether the scores contradict the assumption that only the shares changed.

    Attributes
    ----------
    kind : {"reference", "end"}
        "reference": the new scores are compared with the mixture that reference scores of the training population and
        the estimated shares imply. "end", without reference scores: an estimated share is 0 or 1, and the check tests
        whether the scores are compatible with this share.
    statistic : float
        The statistic of the check: chi-square; for the kind "end", the deviation in standard errors.
    df : int or None
        The degrees of freedom of chi-square.
    p_value : float
        The probability of a statistic at least this large under the assumption; for the kind "end", of one at most this
        large, times the number of shares that are 0.
    level : float
        The check rejects the assumption if the p-value is at most 1 - level.
    n_reference : int or None
        The number of reference scores.
    cells : tuple of str
        The names of the cells of the scores.
    observed, expected : tuple of float
        The share of the new scores in each cell, and that of the fitted mixture.
    reference_mean, reference_error : tuple of float
        The mean of the reference scores of each class, with its standard error; for one event, that of the event alone.
        Under the assumption it estimates the share in the training population.
    """

    kind: str
    statistic: float
    df: int | None
    p_value: float
    level: float
    n_reference: int | None = None
    cells: tuple[str, ...] = ()
    observed: tuple[float, ...] = ()
    expected: tuple[float, ...] = ()
    reference_mean: tuple[float, ...] = ()
    reference_error: tuple[float, ...] = ()

    @property
    def rejects(self) -> bool:
        """Whether the scores contradict the assumption."""
        return self.p_value <= alpha_of(self.level)


@dataclass(frozen=True, eq=False, kw_only=True)
class PriorShift(RecalibrationResult):
    """The result of `prior_shift`: the map of scores for another event rate, and what it assumes.

    Attributes
    ----------
    map : CalibrationMap
        The map. Its evidence says what is assumed.
    prior, trained_prior : tuple of float
        The share of each class in the new and in the training population; for one event, the share of the event alone.
    estimate : PriorEstimate or None
        How the new shares were estimated; None if they were known.
    check : PriorCheck or None
        Whether the scores contradict the assumption; None if they cannot show it, and without scores.
    unchecked : str
        Why scores do not check the assumption.
    flag : str
        A caution, such as few events.
    """

    map: CalibrationMap
    prior: tuple[float, ...]
    trained_prior: tuple[float, ...]
    estimate: PriorEstimate | None = None
    check: PriorCheck | None = None
    unchecked: str = ""
    flag: str = ""

    __repr__ = RecalibrationResult.__repr__

    @property
    def proven(self) -> bool:
        """False: without outcomes nothing is proven."""
        return False

    @property
    def objection(self) -> str:
        """Why the map is not written without ``--anyway``; empty if it is."""
        if self.check is not None and self.check.rejects:
            return "the scores contradict its assumption"
        if self.estimate is None or not self.estimate.is_open:
            return ""
        return f"the scores do not determine the {'event rate' if self.n_classes is None else 'class shares'}"

    @property
    def notion(self) -> Notion:
        """The evaluated event."""
        return "positive" if self.n_classes is None else "top-label"

    @property
    def n_classes(self) -> int | None:
        """The number of classes; None for one event."""
        return self.map.n_classes

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes, or their numbers; for one event, the word "event"."""
        names = self.map.event["class_names"]
        return ("event",) if self.n_classes is None else tuple(names or map(str, range(self.n_classes)))

    @property
    def unchanged(self) -> bool:
        """Whether both populations have the same shares."""
        return self.prior == self.trained_prior

    def fitted(self) -> CalibrationMap:
        return self.map

    @cached_property
    def curve(self) -> MapCurve | None:
        """The map of one event with its pointwise confidence band, from the confidence interval of the estimated rate.

        A known rate has no band: ``lows`` and ``highs`` are NaN. None for a map of classes.
        """
        if self.n_classes is not None:
            return None
        scores = np.linspace(0, 1, _POINTS)[1:-1]
        lows = highs = np.full(len(scores), np.nan)
        if self.estimate is not None:
            ends = (*self.estimate.low, *self.estimate.high)
            lows, highs = (corrected(scores, end, *self.trained_prior) for end in ends)
        return MapCurve(scores=scores, mapped=self.map(scores), lows=lows, highs=highs)

    def plot(self, **options: Any) -> Axes:
        """Draw the map of one event, or the shares of the classes, with matplotlib, and return the axes.

        Parameters
        ----------
        **options
            ``ax``, the axes to draw on, ``color``, ``line`` and ``legend``, as in `calibrant.plot.calibration_curve`.
        """
        from calibrant.plot.diagrams import draw_series
        from calibrant.recalibration.prior_document import figure_of

        size = (4.8, 5.1) if self.n_classes is None else (4.8, 1.4 + 0.36 * self.n_classes)
        drawn = {"color": None, "line": None, "legend": self.n_classes is not None, "ax": None, **options}
        return draw_series(figure_of(self), size, **drawn)

    def _document(self, source: Source = NO_SOURCE, *, full: bool = False, **_: bool) -> Document:
        from calibrant.recalibration.prior_document import document_of

        return document_of(self, source, full=full)

    def to_dict(self, *, curves: bool = True) -> dict[str, Any]:
        missing: dict[str, str] = {}
        found = {} if self.estimate is None else vars(self.estimate)
        check = None if self.check is None else {**vars(self.check), "rejects": self.check.rejects}
        return {
            "schema_version": SCHEMA_VERSION,
            "notion": self.notion,
            "n_classes": self.n_classes,
            "method": "prior",
            "assumed": True,
            "proven": False,
            "prior": list(self.prior),
            "trained_prior": list(self.trained_prior),
            "estimate": {name: plain(value, f"estimate.{name}", missing) for name, value in found.items()} or None,
            "check": None if check is None else {k: plain(v, f"check.{k}", missing) for k, v in check.items()},
            "unchecked": self.unchecked,
            "map": {"kind": self.map.kind, "parameters": dict(self.map.parameters)},
            "class_names": self.map.event["class_names"],
            "fitted": plain_fitted(self.map.fitted),
            "curve": plain(plain_curve(self.curve), "curve", missing) if curves else None,
            "flag": self.flag,
            "not_finite": missing,
        }
