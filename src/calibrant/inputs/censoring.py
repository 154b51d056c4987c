"""Outcomes at a horizon from censored times: inverse probability of censoring weights."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError
from calibrant.errors.wording import number
from calibrant.inputs.conversion import as_numbers, as_values
from calibrant.inputs.group_rows import named_rows
from calibrant.inputs.predictions import check_index, index_of
from calibrant.runtime.arrays import ArrayLike

_LEAVE_OUT: Final = "correct the number, or leave the row out"


def censoring_weights(
    times: ArrayLike, events: ArrayLike, *, horizon: float, groups: ArrayLike | None = None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    r"""Return each row's outcome at a horizon, for censored data, and its inverse probability of censoring weight.

    A row is known at the horizon t if its event was observed before t, or if it was followed to t. Let T be the time of
    a row, and :math:`G(s^-)` the Kaplan-Meier estimate of the probability that a row is not censored before s:

    .. math:: w = \frac{1}{G(\min(T, t)^-)} \text{ for known rows, otherwise } 0, \qquad
        G(s^-) = \prod_{u < s} \Bigl(1 - \frac{c_u}{r_u - d_u}\Bigr)

    The numbers of rows at time u are r (at risk), d (with an event) and c (censored). Events precede censorings at the
    same time. So a row that is censored at t is known to have no event up to t. The weights add up to the number of
    rows, and the weighted share of events is 1 - S(t), with the Kaplan-Meier estimate S of the event-free probability.

    Parameters
    ----------
    times : array, (N,)
        The time of the event or of the censoring, from the time of the prediction: finite numbers of 0 or more.
    events : array, (N,)
        1 (or True) if the event was observed at this time, 0 if the row was censored.
    horizon : float
        The time t of the predicted probability, in the unit of ``times``. It is above 0, and at most the largest time.
    groups : array, (N,), optional
        The name of each row's group. The censoring is then estimated in each group. Without groups, it must not depend
        on what the probabilities or the events depend on.

    Returns
    -------
    outcomes : array of int, (N,)
        1 for an event at or before the horizon, otherwise 0. Rows of weight 0 have the outcome 0.
    weights : array of float, (N,)
        The sampling weights, 0 or from 1 to N. Pass them with ``weights_are="sampling"``.

    Raises
    ------
    calibrant.errors.InputError
        For times that are not finite numbers of 0 or more, for events other than 0 and 1, for arrays of different
        lengths, and for a horizon after the largest time. Also if the last row of a group is censored before the
        horizon, because its event-free probability at the horizon is then unknown.

    Notes
    -----
    Confidence intervals treat the weights as known, although they are estimated. Cost: one sort of N times.

    References
    ----------
    - Graf, E. et al. (1999). Assessment and comparison of prognostic classification schemes for survival data.
      *Statistics in Medicine* 18, 2529-2545.
    - Robins, J. M. and Rotnitzky, A. (1992). Recovery of information and adjustment for dependent censoring using
      surrogate markers. In *AIDS Epidemiology*, Birkhäuser, 297-331.

    Examples
    --------
    >>> import calibrant
    >>> times, events = [1, 2, 2, 4, 6], [1, 1, 0, 0, 1]
    >>> outcomes, weights = calibrant.censoring_weights(times, events, horizon=5)
    >>> outcomes.tolist(), [round(weight, 3) for weight in weights.tolist()]
    ([1, 1, 0, 0, 0], [1.0, 1.0, 0.0, 0.0, 3.0])

    The Kaplan-Meier estimate of the risk is 1 - (4 / 5) (3 / 4) = 0.4:

    >>> round(float(outcomes @ weights) / 5, 3)
    0.4
    """
    durations, observed = _times_and_events(times, events)
    limit = _horizon(horizon, durations)
    known = observed | (durations >= limit)
    weights = np.zeros(len(durations))
    for name, rows in _groups(groups, check_index("events", events, index_of(times)), len(durations)):
        uncensored = _uncensored_before(durations[rows], observed[rows], limit)
        if not uncensored.all():
            raise _unknown(name, durations[rows].max(), limit)
        weights[rows] = known[rows] / uncensored
    return (observed & (durations <= limit)).astype(np.int64), weights


def _uncensored_before(times: NDArray[Any], events: NDArray[np.bool_], horizon: float) -> NDArray[np.float64]:
    """Return G just before min(T, horizon) for each row; all are 0 if nobody is left at the horizon."""
    distinct, place = np.unique(times, return_inverse=True)
    n_events = np.bincount(place, events, len(distinct))
    n_censored = np.bincount(place, ~events, len(distinct))
    at_risk = np.cumsum((n_events + n_censored)[::-1])[::-1] - n_events  # of a censoring: events precede it
    kept = np.where(at_risk > 0, (at_risk - n_censored) / np.maximum(at_risk, 1), 1.0)
    uncensored = np.concatenate([[1.0], np.cumprod(kept)])
    before = np.count_nonzero(distinct < horizon)
    return np.zeros(len(times)) if uncensored[before] == 0 else uncensored[np.minimum(place, before)]


# ---------------------------------------------------------------- arguments


def _times_and_events(times: Any, events: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    durations, observed = _column("times", times), _column("events", events)
    if len(observed) != len(durations):
        expected = f"{len(durations)} entries, one for each time"
        raise InputError("events", expected, f"{len(observed)}", "pass one entry per row")
    one = (observed == 0) | (observed == 1)
    if durations.dtype.kind == "b" or (not one.all() and np.isin(durations, (0, 1)).all()):
        remedy = "call censoring_weights(times, events, horizon=...)"
        raise InputError("times", "times first and events second", "only 0 and 1 as times", remedy)
    good = np.isfinite(durations) & (durations >= 0)
    if not good.all():
        row = int(np.argmin(good))
        raise InputError("times", "finite numbers of 0 or more", f"{durations[row]} at row {row}", _LEAVE_OUT, row=row)
    if not one.all():
        raise _no_events(observed, int(np.argmin(one)))
    return durations, observed == 1


def _no_events(events: NDArray[Any], row: int) -> InputError:
    """Return the error of events other than 0 and 1; ``row`` is the first of them."""
    kinds = np.unique(events).tolist()
    remedy = _LEAVE_OUT
    if len(kinds) == 2 and np.isfinite(kinds).all():
        low, high = map(number, kinds)
        remedy = f"the values are {low} and {high}: pass np.asarray(events) == {high} if {high} is an event"
    elif kinds == list(range(len(kinds))):
        remedy = "for competing events, see docs/censoring.md"
    return InputError("events", "0 (censored) or 1 (event)", f"{events[row]} at row {row}", remedy, row=row)


def _column(argument: str, x: Any) -> NDArray[Any]:
    array = as_numbers(argument, as_values(argument, x))
    if array.ndim == 0 or array.size != len(array) or not array.size:
        raise InputError(argument, "one number per row", f"shape {array.shape}", "pass an array of shape (N,)")
    return array.reshape(-1)


def _horizon(x: Any, times: NDArray[Any]) -> float:
    is_number = isinstance(x, (int, float, np.integer, np.floating)) and not isinstance(x, bool)
    if not is_number or not 0 < x < np.inf:
        remedy = "pass the time by which the predicted event occurs or not"
        raise InputError("horizon", "a number above 0", repr(x), remedy)
    if x > times.max():
        expected = f"at most the largest time, {number(times.max())}"
        raise InputError("horizon", expected, number(x), "check the unit of times, or pass an earlier horizon")
    return float(x)


def _groups(groups: ArrayLike | None, index: Any, n: int) -> list[tuple[str | None, NDArray[np.intp]]]:
    """Return the name and the rows of each group that has rows; without groups, all rows."""
    if groups is None:
        return [(None, np.arange(n))]
    check_index("groups", groups, index)
    return [(name, rows) for name, rows in named_rows(groups, n) if len(rows)]


def _unknown(group: str | None, last: Any, horizon: float) -> InputError:
    whose = "a row" if group is None else f"a row of group {group!r}"
    expected = f"{whose} that is followed to the horizon of {number(horizon)}"
    remedy = "pass an earlier horizon" + ("" if group is None else ", or larger groups")
    return InputError("times", expected, f"a largest time of {number(last)}, which is a censoring", remedy)
