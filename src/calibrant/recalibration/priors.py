"""`prior_shift`: the map of scores for another event rate, known or estimated from scores without outcomes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np

from calibrant.errors import InputError, quoted
from calibrant.errors.wording import number as exact
from calibrant.inputs.conversion import as_numbers, as_values
from calibrant.recalibration.events import fitted_to, map_event
from calibrant.recalibration.maps import CalibrationMap, Fitted, check_rows
from calibrant.recalibration.pieces import probabilities
from calibrant.recalibration.prior_check import Rows, Shares, check_at_end, check_of_reference
from calibrant.recalibration.prior_result import PriorEstimate, PriorShift
from calibrant.recalibration.softmax import log_softmax
from calibrant.runtime.arrays import ArrayLike, Float64s
from calibrant.runtime.progress import counted
from calibrant.sketch import CalibrationSketch
from calibrant.statistics.mixture import Mixture
from calibrant.statistics.resampling import check_level
from calibrant.table import ReliabilityTable

#: The share of the event, or those of all classes: in order, or by their names.
Prior: TypeAlias = float | Sequence[float] | Mapping[str, float]

#: The fewest scores that an estimate or a check needs.
LEAST_SCORES: Final = 30

#: The most classes whose shares are estimated.
MOST_CLASSES: Final = 200

_SUM: Final = 1e-6  # by which shares may miss the sum 1
_OF_EVENT: Final = 2  # columns of one event: without it, with it


def shares_of(argument: str, prior: object) -> Shares:
    """Return valid shares.

    Raises
    ------
    InputError
        For a share that is not above 0 and below 1, for one class, and for a sum other than 1.
    """
    what = "a share above 0 and below 1"
    if prior is None or isinstance(prior, (str, bytes)):
        raise InputError(argument, f"{what}, or those of all classes", repr(prior), "pass a number such as 0.02")
    names = None
    if isinstance(prior, Mapping):
        names, entries = tuple(map(str, prior)), list(prior.values())
    elif isinstance(prior, (int, float, np.number)) and not isinstance(prior, bool):
        entries = [prior]
    else:
        entries = as_numbers(argument, as_values(argument, prior)).reshape(-1).tolist()
    if not isinstance(prior, (int, float, np.number)) and len(entries) < _OF_EVENT:
        remedy = "pass the share of every class, or for one event a number alone"
        raise InputError(argument, "the shares of at least two classes", f"{len(entries)}", remedy)
    for entry in entries:
        if isinstance(entry, bool) or not isinstance(entry, (int, float, np.number)):
            raise InputError(argument, what, repr(entry), "pass a share such as 0.02")
        if not 0 < entry < 1:
            remedy = "pass a share such as 0.02; at a share of 0 or 1 every score becomes 0 or 1, without a map"
            raise InputError(argument, what, exact(float(entry)), remedy)
    values = tuple(map(float, entries))
    if len(values) > 1 and abs(sum(values) - 1) > _SUM:
        remedy = "pass the share of every class" + " with more digits" * (abs(sum(values) - 1) < 0.02)
        raise InputError(argument, "shares with the sum 1", f"the sum {sum(values):.6g}", remedy)
    return Shares(values, names)


def named_shares(prior: Shares | None, trained: Shares, class_names: Sequence[str] | None) -> tuple[Shares, Shares]:
    """Return the new shares (the trained ones, if they are not known) and the trained shares, both in one order.

    Raises
    ------
    InputError
        For shares of other classes, and for names that are missing.
    """
    if class_names is not None and trained.of_event:
        raise InputError("class_names", "no names for one event", f"{len(class_names)}", "leave class_names out")
    names = trained.names if class_names is None else tuple(map(str, class_names))
    if prior is not None and len(prior.values) != len(trained.values):
        of = ["the share of one event" if each.of_event else f"{len(each.values)} shares" for each in (trained, prior)]
        raise InputError("prior", f"{of[0]}, as trained_prior", of[1], "pass the shares of the same classes twice")
    if names is None and prior is not None:
        names = prior.names
    ordered = [_in_order(argument, each, names) for argument, each in (("prior", prior), ("trained_prior", trained))]
    return ordered[0] or ordered[1], ordered[1]


def _in_order(argument: str, shares: Any, names: tuple[str, ...] | None) -> Any:
    """Return shares in the order of names; those without names are in that order."""
    if shares is None or names is None:
        return shares
    if len(names) != len(shares.values) or len(set(names)) < len(names):
        expected = f"{len(shares.values)} different names, one for each share"
        raise InputError("class_names", expected, f"{len(names)}", "name each class once")
    if shares.names is None:
        return Shares(shares.values, names)
    if unknown := [name for name in shares.names if name not in names]:
        known = ", ".join(map(quoted, names[:10]))
        raise InputError(argument, f"the classes {known}", quoted(unknown[0]), "use the same names in both")
    return Shares(tuple(shares.values[shares.names.index(name)] for name in names), names)


def prior_shift(
    probs: ArrayLike | None = None,
    *,
    trained_prior: Prior,
    prior: Prior | None = None,
    logits: bool = False,
    reference: ArrayLike | CalibrationSketch | ReliabilityTable | None = None,
    class_names: Sequence[str] | None = None,
    level: float = 0.95,
) -> PriorShift:
    r"""Return the map of scores for another event rate, or other shares of the classes; no outcomes are needed.

    A model that was trained with undersampled non-events, or in a population where the event is more frequent,
    predicts the event too often. If its scores p were calibrated at the rate :math:`\pi`, and if only the rate changed
    to :math:`\pi'`, Bayes' theorem corrects them (Elkan 2001):

    .. math:: p' = \frac{p \pi' / \pi}{p \pi' / \pi + (1 - p) (1 - \pi') / (1 - \pi)},

    a shift of the log-odds by logit :math:`\pi'` - logit :math:`\pi`. For classes, p'_k is proportional to
    :math:`p_k \pi'_k / \pi_k`. The order of the scores of one event, and so the AUROC, remains.

    The map assumes that cases of each class are as before (label shift): only their shares changed. It also assumes
    calibrated scores in the training population. Nothing of this is proven: the evidence of the map says "assumed".

    With ``probs`` instead of ``prior``, scores of the new population without outcomes, the new shares are estimated by
    maximum likelihood, the limit of the expectation-maximisation of Saerens, Latinne and Decaestecker (2002). The
    log-likelihood :math:`\sum_i \log \sum_k \pi'_k p_{ik} / \pi_k` is concave.

    Parameters
    ----------
    probs : array, (N,) or (N, C), optional
        Scores of the new population, to estimate its shares: probabilities of the event, or of all classes.
    trained_prior : float, sequence or mapping
        The event rate of the training population, after undersampling, above 0 and below 1. For classes the share of
        each, in the order of the columns or by their names; the sum is 1.
    prior : float, sequence or mapping, optional
        The same of the new population, if it is known.
    logits : bool, default False
        Whether ``probs`` and ``reference`` are log-odds, or logits of classes.
    reference : array, CalibrationSketch or ReliabilityTable, optional
        Scores of the training population that the model was not trained on, such as those of held-out rows after the
        same undersampling. They check the assumption.
    class_names : sequence of str, optional
        The names of the classes, in the order of the columns. By default those of a mapping.
    level : float, default 0.95
        The confidence of the intervals. The check rejects the assumption if its p-value is at most 1 - level.

    Returns
    -------
    PriorShift
        The map, the shares, and for ``probs`` their confidence intervals and the check of the assumption.

    Raises
    ------
    calibrant.errors.InputError
        For shares of 0 or 1, for shares of classes without the sum 1, for unknown names; without ``prior`` and
        ``probs``, or with both; for invalid scores; for fewer than 30 scores, for equal scores, and for an estimate of
        more than 200 classes.

    Notes
    -----
    The ends of an interval are the shares at which twice the log-likelihood falls by the quantile of chi-square with 1
    degree of freedom. Other shares follow along the least favourable line, on which one event leaves no choice.
    If the estimate of a share is 0, the map has 1 / (2 N + 2), half a row.

    The check compares the share of ``probs`` in cells of the scores with that of the reference scores, each weighted by
    :math:`w = \sum_k \pi'_k p_k / \pi_k`, the ratio of the two distributions under the assumption, and the means of the
    reference scores with ``trained_prior``. The statistic is chi-square of the differences, with their covariance,
    which allows for the estimated shares. One event has up to ten cells with equally many scores; classes have two for
    each predicted class, by the median of its probability. Without reference scores the assumption cannot be checked:
    for every distribution of the scores there is one of the training population from which only the rate differs. Only
    an estimate at the end of its range can contradict it.

    The map of one event is a line in log-odds with slope 1; that of classes has the constants
    :math:`\log(\pi'_k / \pi_k)`. Scores of 0 and 1 have infinite log-odds, so no rate changes them: they are moved to
    the nearest numbers, as by every map. Estimates assume independent rows. Rows with equal scores are pooled. Cost:
    some passes over the distinct rows.

    References
    ----------
    Elkan (2001), IJCAI, 973-978. Saerens, Latinne, Decaestecker (2002), doi 10.1162/089976602753284446. Lipton, Wang,
    Smola (2018), arXiv 1802.03916, for the assumption.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant
    >>> fix = calibrant.prior_shift(prior=0.02, trained_prior=0.5)
    >>> fix.map([0.5, 0.9]).round(3)
    array([0.02 , 0.155])
    >>> calibrant.prior_shift(prior={"cat": 0.9, "dog": 0.1}, trained_prior={"cat": 0.5, "dog": 0.5}).map([[0.5, 0.5]])
    array([[0.9, 0.1]])

    The rate of a new population from its scores alone:

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=5_000) + 2 * (rng.random(5_000) < 0.1)
    >>> scores = 1 / (1 + np.exp(2 - 2 * x))  # trained with as many events as non-events
    >>> fix = calibrant.prior_shift(scores, trained_prior=0.5)
    >>> [round(each[0], 3) for each in (fix.estimate.value, fix.estimate.low, fix.estimate.high)]
    [0.101, 0.088, 0.114]
    """
    trained = shares_of("trained_prior", trained_prior)
    known = None if prior is None else shares_of("prior", prior)
    check_level(level)
    if (prior is None) == (probs is None):
        got, remedy = "both" if probs is not None else "neither", "pass a known prior, or probs to estimate it"
        raise InputError("prior", "either prior or probs", got, remedy)
    if probs is None and reference is not None:
        remedy = "leave reference out, or pass probs instead of prior"
        raise InputError("reference", "scores to compare with, in probs", "no probs", remedy)
    new, trained = named_shares(known, trained, class_names)
    if probs is None:
        return _known(new, trained)
    return _estimated(new, trained, _rows("probs", probs, trained, logits=logits), reference, level, logits=logits)


def _known(new: Shares, trained: Shares) -> PriorShift:
    assumed = {"prior": list(new.values), "trained_prior": list(trained.values)}
    return PriorShift(map=_map(new, trained, None, assumed), prior=new.values, trained_prior=trained.values)


def _map(new: Shares, trained: Shares, fitted: Fitted | None, assumed: dict[str, Any]) -> CalibrationMap:
    """Return the map from one prior to another: of one event a line in log-odds, if anything changes."""
    if not trained.of_event:
        constants = np.log(new.columns) - np.log(trained.columns)
        parameters = {"factors": [1.0] * len(constants), "constants": constants.tolist(), "smallest": 0.0}
        kind, notion = "softmax", "classes"
    else:
        intercept = _logit(new.values[0]) - _logit(trained.values[0])
        parameters = {"intercept": intercept, "slope": 1.0, "smallest": 0.0, "largest": 1.0}
        kind, notion = "line", "positive"
        if not intercept:
            kind, parameters = "identity", {}
    event = map_event(notion, trained.names)
    return CalibrationMap(kind=kind, parameters=parameters, event=event, fitted=fitted, evidence={"assumed": assumed})


def _logit(share: float) -> float:
    return math.log(share) - math.log1p(-share)


def _rows(argument: str, probs: Any, trained: Shares, *, logits: bool) -> Rows:
    """Return valid rows in an order that their numbers alone decide."""
    array = as_numbers(argument, as_values(argument, probs))
    x = np.asarray(array, np.float64)
    shape = "(N,), a score for each row" if trained.of_event else f"(N, {len(trained.values)}), a column for each class"
    if x.ndim != (1 if trained.of_event else 2) or (x.ndim == 2 and x.shape[1] != len(trained.values)):
        remedy = "pass the column of the event, such as probs[:, 1]" if trained.of_event else "pass all columns"
        raise InputError(argument, f"shape {shape}", f"shape {x.shape}", remedy)
    if len(x) < LEAST_SCORES:
        raise InputError(argument, f"at least {LEAST_SCORES} scores", f"{len(x)}", "pass more scores")
    check_rows(argument, x, array.dtype.name, logits=logits)
    distinct, counts = np.unique(x, axis=0, return_counts=True)
    if len(distinct) == 1:
        remedy = "pass scores of all rows; equal scores say nothing about the event rate"
        raise InputError(argument, "scores that differ", "equal scores", remedy)
    if trained.of_event and logits:
        distinct = np.column_stack([probabilities(-distinct), probabilities(distinct)])
    elif trained.of_event:
        distinct = np.column_stack([1 - distinct, distinct])
    elif logits:
        distinct = np.exp(log_softmax(distinct))
    return Rows(distinct, counts.astype(np.float64))


def _reference(reference: Any, trained: Shares, *, logits: bool) -> Rows:
    """Return the rows of reference scores: of arrays, or the cells of a sketch or a table of one event."""
    if not isinstance(reference, (CalibrationSketch, ReliabilityTable)):
        return _rows("reference", reference, trained, logits=logits)
    notion = reference.notion if isinstance(reference, CalibrationSketch) else "positive"
    if notion != "positive" or not trained.of_event:
        expected = "a sketch of one event" if trained.of_event else "an array of the probabilities of all classes"
        got = f"a {type(reference).__name__} of notion {notion!r}"
        raise InputError("reference", expected, got, "pass an array of scores")
    table = reference.table if isinstance(reference, CalibrationSketch) else reference
    scores = table.scores.astype(np.float64)
    return Rows(np.column_stack([1 - scores, scores]), table.counts.astype(np.float64))


def _estimated(new: Shares, trained: Shares, rows: Rows, reference: Any, level: float, *, logits: bool) -> PriorShift:
    """Return the correction to shares that scores without outcomes have most likely."""
    from scipy.special import chdtri

    if len(trained.values) > MOST_CLASSES:
        got, remedy = f"{len(trained.values):,}", "pass prior, if the shares are known"
        raise InputError("trained_prior", f"up to {MOST_CLASSES} classes", got, remedy)
    compared = None if reference is None else _reference(reference, trained, logits=logits)
    mixture = Mixture(rows.probs / trained.columns, rows.counts)
    found = mixture.shares()
    drop = float(chdtri(1, 1 - level)) / 2
    columns = [1] if trained.of_event else list(range(len(found)))
    intervals = [mixture.interval(k, found, drop) for k in counted("estimating shares", columns)]
    lows, highs = zip(*intervals, strict=True)
    estimate = PriorEstimate(
        n=rows.n,
        certain=int(rows.counts[(rows.probs == 1).any(axis=1)].sum()),
        value=tuple(found[columns].tolist()),
        low=lows,
        high=highs,
        level=level,
        at_end=tuple(bool(found[k] in (0, 1)) for k in columns),
    )
    if compared is not None:
        check, unchecked = check_of_reference(rows, compared, trained, mixture, found, level)
    else:
        check = check_at_end(mixture, found, level)
        unchecked = "" if check else "there are no reference scores of the training population"
    used = _within(found, rows.n)
    new = Shares((float(used[1]),) if trained.of_event else tuple(used.tolist()), trained.names)
    assumed: dict[str, Any] = {"prior": list(new.values), "trained_prior": list(trained.values)}
    assumed |= {"low": list(lows), "high": list(highs)}
    assumed |= {"level": level, "n": rows.n, "check_p_value": None if check is None else check.p_value}
    return PriorShift(
        map=_map(new, trained, _fitted(rows, trained), assumed),
        prior=new.values,
        trained_prior=trained.values,
        estimate=estimate,
        check=check,
        unchecked=unchecked,
        flag=_flag(estimate, new),
    )


def _within(found: Float64s, n: int) -> Float64s:
    """Return shares above 0: half a row in N + 1 in place of 0."""
    half = 0.5 / (n + 1)
    empty = found <= 0
    return np.where(empty, half, found * (1 - half * empty.sum()))


def _flag(estimate: PriorEstimate, new: Shares) -> str:
    """Return a caution about shares that are estimated as 0 or 1, or nothing."""
    if not any(estimate.at_end):
        return ""
    if new.of_event:
        end = "0" if estimate.value[0] == 0 else "1"
        return f"the estimate is {end}, the end of its range, so that the map is for the rate {new.values[0]:.3g}"
    names = new.names or tuple(map(str, range(len(new.values))))
    empty = [name for name, at_end in zip(names, estimate.at_end, strict=True) if at_end]
    return f"{len(empty)} classes have the estimate 0, in whose place the map has half a row: {', '.join(empty[:10])}"


def _fitted(rows: Rows, trained: Shares) -> Fitted:
    """Return what a map was fitted to: the scores of the event, or the largest probability of each row."""
    scores = rows.probs[:, 1] if trained.of_event else rows.probs.max(axis=1)
    distinct, place = np.unique(scores, return_inverse=True)
    counts = np.bincount(place, rows.counts).astype(np.int64)
    table = ReliabilityTable(scores=distinct, counts=counts, positives=np.zeros_like(counts), n=rows.n)
    return replace(fitted_to(table, clustered=False), positives=None)
