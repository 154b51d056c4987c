"""`prior_shift`: the map of scores for another event rate, known or estimated from scores without outcomes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np

from calibrant.errors import InputError, quoted
from calibrant.errors.wording import number
from calibrant.inputs import notions
from calibrant.inputs.conversion import as_numbers, as_values
from calibrant.inputs.predictions import as_predictions, check_weights_are
from calibrant.inputs.weights import WeightsAre, effective_n, effective_rows, integer_weights, may_be_sampling
from calibrant.measures.means.means import counted_rows
from calibrant.recalibration.events import fitted_to, map_event
from calibrant.recalibration.maps import CalibrationMap, Fitted
from calibrant.recalibration.pieces import probabilities
from calibrant.recalibration.prior_check import ReadScores, Shares, check_at_end, check_of_reference
from calibrant.recalibration.prior_result import PriorEstimate, PriorShift
from calibrant.recalibration.softmax import log_softmax
from calibrant.runtime.arrays import ArrayLike, Float64s
from calibrant.runtime.progress import counted
from calibrant.sketch import CalibrationSketch
from calibrant.statistics.design import CLUSTERS, rare
from calibrant.statistics.folds import DealtRows
from calibrant.statistics.mixture import ClassMixture
from calibrant.statistics.resampling import check_level
from calibrant.table import ReliabilityTable
from calibrant.table.cluster_labels import as_clusters

#: The share of the event, or those of all classes: in order, or by their names.
Prior: TypeAlias = float | Sequence[float] | Mapping[str, float]

#: The fewest scores that an estimate or a check needs.
LEAST_SCORES: Final = 30

#: The most classes whose shares are estimated.
MOST_CLASSES: Final = 200

_SUM: Final = 1e-6  # the largest error of the sum of shares


def shares_of(argument: str, prior: object) -> Shares:
    """Return valid shares.

    Raises
    ------
    InputError
        For a share that is not above 0 and below 1, for one class, and for a sum other than 1.
    """
    if prior is None or isinstance(prior, (str, bytes)):
        expected = "one share above 0 and below 1, or the shares of all classes"
        raise InputError(argument, expected, repr(prior), "pass a number such as 0.02")
    names = tuple(map(str, prior)) if isinstance(prior, Mapping) else None
    given = as_values(argument, list(prior.values()) if isinstance(prior, Mapping) else prior)
    values = as_numbers(argument, given).astype(np.float64)
    if values.ndim > 1 or values.shape in ((0,), (1,)):
        remedy = "pass the share of every class, or for one event a number alone"
        raise InputError(argument, "one share, or the shares of at least two classes", f"shape {values.shape}", remedy)
    shares = values.reshape(-1)
    good = (shares > 0) & (shares < 1)
    if not good.all():
        remedy = "pass a share such as 0.02; a share of 0 or 1 needs no map, because every score becomes 0 or 1"
        raise InputError(argument, "a share above 0 and below 1", number(shares[~good][0]), remedy)
    total = float(shares.sum())
    if values.ndim and abs(total - 1) > _SUM:
        remedy = "pass the share of every class" + " with more digits" * (abs(total - 1) < 0.02)
        raise InputError(argument, "shares with the sum 1", f"the sum {total:.6g}", remedy)
    return Shares(tuple(shares.tolist()), names)


def named_shares(prior: Shares | None, trained: Shares, class_names: Sequence[str] | None) -> tuple[Shares, Shares]:
    """Return the new shares (the trained ones, if they are not known) and the trained shares, both in one order.

    Raises
    ------
    InputError
        For shares of other classes, and for names that are missing.
    """
    new = trained if prior is None else prior
    if class_names is not None and trained.of_event:
        raise InputError("class_names", "no names for one event", f"{len(class_names)}", "leave class_names out")
    if len(new.values) != len(trained.values):
        of = ["the share of one event" if each.of_event else f"{len(each.values)} shares" for each in (trained, new)]
        raise InputError(
            "prior", f"{of[0]}, as trained_prior", of[1], "pass prior and trained_prior for the same classes"
        )
    names = trained.names or new.names if class_names is None else tuple(map(str, class_names))
    if names is None:
        return new, trained
    if len(names) != len(trained.values) or len(set(names)) < len(names):
        expected = f"{len(trained.values)} different names, one for each share"
        raise InputError("class_names", expected, ", ".join(map(quoted, names[:10])), "name each class once")
    ordered = _in_order("trained_prior", trained, names)
    return (ordered if prior is None else _in_order("prior", new, names)), ordered


def _in_order(argument: str, shares: Shares, names: tuple[str, ...]) -> Shares:
    """Return shares in the order of names; those without names are in that order."""
    if unknown := [name for name in shares.names or () if name not in names]:
        known = ", ".join(map(quoted, names[:10]))
        remedy = "use the same class names in prior, trained_prior and class_names"
        raise InputError(argument, f"the classes {known}", quoted(unknown[0]), remedy)
    places = range(len(names)) if shares.names is None else map(shares.names.index, names)
    return Shares(tuple(shares.values[place] for place in places), names)


def prior_shift(
    probs: ArrayLike | None = None,
    *,
    trained_prior: Prior,
    prior: Prior | None = None,
    logits: bool = False,
    reference: ArrayLike | CalibrationSketch | ReliabilityTable | None = None,
    class_names: Sequence[str] | None = None,
    weights: ArrayLike | None = None,
    weights_are: WeightsAre | None = None,
    clusters: ArrayLike | None = None,
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

    If ``probs``, scores of the new population without outcomes, is passed instead of ``prior``, the new shares are
    estimated by maximum likelihood. The expectation-maximisation of Saerens, Latinne and Decaestecker (2002) converges
    to the same estimate. The log-likelihood :math:`\sum_i \log \sum_k \pi'_k p_{ik} / \pi_k` is concave.

    Parameters
    ----------
    probs : array, (N,) or (N, C), optional
        Scores of the new population, to estimate its shares: probabilities of the event, or of all classes.
    trained_prior : float, sequence or mapping
        The event rate of the training population, after undersampling, above 0 and below 1. For classes the share of
        each, in the order of the columns or by their names; the sum is 1.
    prior : float, sequence or mapping, optional
        The event rate of the new population, or the share of each class, if it is known.
    logits : bool, default False
        Whether ``probs`` and ``reference`` are log-odds, or logits of classes.
    reference : array, CalibrationSketch or ReliabilityTable, optional
        Scores of the training population that the model was not trained on, such as those of held-out rows after the
        same undersampling. They check the assumption. A sketch or a table works for one event only.
    class_names : sequence of str, optional
        The names of the classes, in the order of the columns. By default the names in ``trained_prior`` or ``prior``,
        if one is a mapping.
    weights, weights_are, clusters : optional
        As in `calibrant.evaluate`, of the rows of ``probs``. Pass the cluster of each row if rows may be dependent.
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
        ``probs``, or with both; for weights, clusters or a reference without ``probs``; for invalid scores, weights or
        clusters; for fewer than 30 scores, for equal scores or others that several shares explain, for an estimate of
        more than 200 classes, and for a reference with ``clusters``.

    Notes
    -----
    The ends of an interval are the shares at which twice the log-likelihood falls by the quantile of chi-square with 1
    degree of freedom. For classes, the other shares change along the least favourable line while one share is varied.
    With sampling weights or clusters, the quantile is that of Student's t squared, times the design effect of the
    estimate, from the influences of the rows (Rao and Scott 1984). Its degrees of freedom allow for the kurtosis of the
    sums of influences over clusters, which is large if few clusters contain most events. If the estimate of a share is
    0, the map uses 1 / (2 N + 2), as if half a row were in the class. An interval by cluster is too short if the events
    are in few clusters. If the effective number of clusters, weighted by the estimated probabilities of any outcome or
    class, is below 15, ``flag`` is a caution.

    The check compares the share of ``probs`` in cells of the scores with that of the reference scores, each weighted by
    :math:`w = \sum_k \pi'_k p_k / \pi_k`, the ratio of the two distributions under the assumption, and the means of the
    reference scores with ``trained_prior``. The statistic is chi-square of the differences, with their covariance,
    which allows for the estimated shares. For one event there are up to ten cells with equally many scores. For classes
    there are two cells for each predicted class, which are cut at the median of the probability of that class. The
    check assumes independent rows. Without reference scores the assumption cannot be checked, because any distribution
    of the new scores can come from some training population by a change of the rate alone. The exception is an
    estimated share of 0 or 1: the scores can then contradict the assumption.

    The map of one event is a line in log-odds with slope 1; that of classes has the constants
    :math:`\log(\pi'_k / \pi_k)`. Scores of 0 and 1 have infinite log-odds, so no rate changes them: they are moved to
    the nearest numbers, as by every map. Cost: some passes over the rows; equal rows are pooled.

    References
    ----------
    Elkan (2001), IJCAI, 973-978. Saerens, Latinne, Decaestecker (2002), doi 10.1162/089976602753284446. Lipton, Wang,
    Smola (2018), arXiv 1802.03916, for the assumption. Rao, Scott (1984), doi 10.1214/aos/1176346391.

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
    known, trained = None if prior is None else shares_of("prior", prior), shares_of("trained_prior", trained_prior)
    check_level(level)
    if (prior is None) == (probs is None):
        got, remedy = "both" if probs is not None else "neither", "pass a known prior, or probs to estimate it"
        raise InputError("prior", "either prior or probs", got, remedy)
    of_probs = {"reference": reference, "weights": weights, "clusters": clusters}
    for argument, value in of_probs.items():
        if probs is None and value is not None:
            remedy = f"leave {argument} out, or pass probs instead of prior"
            raise InputError(argument, f"probs together with {argument}", "no probs", remedy)
    check_weights_are(weights_are, given=weights is not None)
    new, trained = named_shares(known, trained, class_names)
    if probs is None:
        assumed = {"prior": list(new.values), "trained_prior": list(trained.values)}
        return PriorShift(map=_map(new, trained, None, assumed), prior=new.values, trained_prior=trained.values)
    if reference is not None and clusters is not None:
        remedy = "leave reference out; or leave clusters out, if the rows are independent"
        raise InputError("reference", "no reference together with clusters", "both", remedy)
    rows = _rows("probs", probs, trained, logits=logits, weights=weights, weights_are=weights_are, clusters=clusters)
    compared = None if reference is None else _reference(reference, trained, logits=logits)
    return _estimated(trained, rows, compared, level)


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


def _rows(
    argument: str,
    probs: Any,
    trained: Shares,
    *,
    logits: bool,
    weights: Any = None,
    weights_are: WeightsAre | None = None,
    clusters: Any = None,
) -> ReadScores:
    """Return valid rows in an order that their numbers alone decide; without clusters, equal rows are pooled."""
    array = as_numbers(argument, as_values(argument, probs))
    x = np.asarray(array, np.float64)
    shape = "(N,), a score for each row" if trained.of_event else f"(N, {len(trained.values)}), a column for each class"
    if x.ndim != (1 if trained.of_event else 2) or (x.ndim == 2 and x.shape[1] != len(trained.values)):
        remedy = (
            "for one event, pass its column, such as probs[:, 1]; for classes, pass trained_prior with one number for "
            "each class"
        )
        raise InputError(argument, f"shape {shape}", f"shape {x.shape}", remedy)
    try:
        valid = as_predictions(array, np.zeros(len(x), int), weights=weights, weights_are=weights_are, logits=logits)
        notions.read(valid, notions.resolve(valid, None))
    except InputError as error:
        raise error.renamed({"probs": argument}) from None
    w = np.ones(len(x)) if valid.weights is None else valid.weights
    labels = None if clusters is None else as_clusters(clusters, len(x))
    held = np.flatnonzero(w > 0)
    if len(held) < LEAST_SCORES:
        got = f"{len(held)}{' with weight above 0' * (weights is not None)}"
        raise InputError(argument, f"at least {LEAST_SCORES} scores", got, "pass more scores")
    by_label = [] if labels is None else [labels.hashes[held]]
    order = held[np.lexsort([*by_label, w[held], *x[held].reshape(len(held), -1).T])]
    x, w, whole = x[order], w[order], integer_weights(w)
    differ = np.append(True, np.any(np.diff(x.reshape(len(x), -1), axis=0) != 0, axis=1))
    if differ.sum() == 1:
        remedy = "pass rows with different scores, because equal scores contain no information"
        raise InputError(argument, "scores that differ", "equal scores", remedy)
    numbers, flag = None, ""
    if weights_are is None and whole and may_be_sampling(len(w), float(w.sum()), float(np.sum(w**2))):
        flag = counted_rows(len(w), float(w.sum()))
    if labels is not None:
        numbers, distinct = labels.take(order).numbered()
        if len(distinct) < 2:
            remedy = "pass rows of more clusters, because one cluster does not show how clusters vary"
            raise InputError("clusters", "at least 2 clusters", "1", remedy)
    elif whole:
        x, w = x[differ], np.add.reduceat(w, np.flatnonzero(differ))
    dealt = DealtRows.of(w, np.ones(len(w)) if whole else w, numbers)
    return ReadScores(_columns(x, trained, logits=logits), dealt, len(held), flag)


def _columns(x: Float64s, trained: Shares, *, logits: bool) -> Float64s:
    """Return the probabilities of all columns; of one event those without and with it."""
    if trained.of_event:
        return np.column_stack([probabilities(-x), probabilities(x)] if logits else [1 - x, x])
    return np.exp(log_softmax(x)) if logits else x


def _reference(reference: Any, trained: Shares, *, logits: bool) -> ReadScores:
    """Return the rows of reference scores: of arrays, or the cells of a sketch or a table of one event."""
    if not isinstance(reference, (CalibrationSketch, ReliabilityTable)):
        return _rows("reference", reference, trained, logits=logits)
    notion = reference.notion if isinstance(reference, CalibrationSketch) else "positive"
    if notion != "positive" or not trained.of_event:
        expected = "a sketch of one event" if trained.of_event else "an array of the probabilities of all classes"
        got = f"a {type(reference).__name__} of notion {notion!r}"
        raise InputError("reference", expected, got, "pass an array of scores")
    table = reference.table if isinstance(reference, CalibrationSketch) else reference
    counts = table.counts.astype(np.float64)
    dealt = DealtRows.of(counts, table.own_weights.sum(axis=0) / counts, None)
    return ReadScores(_columns(table.scores.astype(np.float64), trained, logits=False), dealt, table.n)


def _estimated(trained: Shares, rows: ReadScores, reference: ReadScores | None, level: float) -> PriorShift:
    """Return the correction to the shares under which the scores are most likely."""
    if len(trained.values) > MOST_CLASSES:
        got, remedy = f"{len(trained.values):,}", "pass prior, if the class shares of the new rows are known"
        raise InputError("trained_prior", f"up to {MOST_CLASSES} classes", got, remedy)
    mixture = ClassMixture(rows.probs / trained.columns, rows.dealt)
    if not mixture.is_determined:
        remedy = "pass scores that differ" if trained.of_event else "merge classes with proportional probabilities"
        what = "event rate of the new rows is" if trained.of_event else "class shares of the new rows are"
        remedy = f"{remedy}, or pass prior, if the {what} known"
        raise InputError("probs", "scores that determine the shares", "scores that several shares explain", remedy)
    columns = [1] if trained.of_event else list(range(len(trained.values)))
    intervals = [mixture.interval(k, level) for k in counted("estimating shares", columns)]
    lows, highs = zip(*intervals, strict=True)
    clusters = rows.dealt.clusters
    estimate = PriorEstimate(
        n=rows.n,
        value=tuple(mixture.shares[columns].tolist()),
        low=lows,
        high=highs,
        level=level,
        clusters=None if clusters is None else int(clusters.max()) + 1,
    )
    if reference is not None:
        check, unchecked = check_of_reference(rows, reference, trained, mixture, level)
    else:
        check = check_at_end(mixture, level)
        unchecked = "" if check else "reference scores of the training population are missing"
    half = 0.5 / (effective_rows(rows.dealt.weights, rows.n) + 1)  # of a row, in place of a share of 0
    empty = mixture.shares <= 0
    used = np.where(empty, half, mixture.shares * (1 - half * empty.sum()))[columns]
    new = Shares(tuple(used.tolist()), trained.names)
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
        flag="; ".join(filter(None, [*_flags(mixture, estimate, new), rows.flag])),
    )


def _flags(mixture: ClassMixture, estimate: PriorEstimate, new: Shares) -> Iterator[str]:
    """Yield the cautions: about shares that are estimated as 0 or 1, and about few clusters."""
    names = new.names or tuple(map(str, range(len(new.values))))
    empty = [name for name, value in zip(names, estimate.value, strict=False) if value == 0]
    if new.of_event and estimate.value[0] in (0, 1):
        end = f"{estimate.value[0]:.0f}"
        limit = "the limit of the possible values"
        yield f"the estimated event rate is {end}, {limit}, so the map uses {new.values[0]:.3g} instead"
    elif empty:
        listed = ", ".join(empty[:10])
        has = "class has" if len(empty) == 1 else "classes have"
        small = f"as if half a row were in {'it' if len(empty) == 1 else 'each of them'}"
        yield f"{len(empty)} {has} an estimated share of 0 ({listed}), so the map uses a small share instead, {small}"
    if estimate.is_open:
        shares = "event rate" if new.of_event else "class shares"
        yield f"the scores do not determine the {shares}, because a confidence interval ranges from 0 to 1"
    if mixture.rows.clusters is not None:
        cases = (mixture.rows.weights[:, np.newaxis] * mixture.shares * mixture.ratios)[:, mixture.shares > 0]
        sums = [np.bincount(mixture.rows.clusters, column) for column in cases.T]
        least = min(effective_n(float(each.sum()), float(np.sum(each**2))) for each in sums)
        yield rare(float(f"{least:.2g}"), unit=CLUSTERS)


def _fitted(rows: ReadScores, trained: Shares) -> Fitted:
    """Return what a map was fitted to: the scores of the event, or the largest probability of each row."""
    scores = rows.probs[:, 1] if trained.of_event else rows.probs.max(axis=1)
    distinct, place = np.unique(scores, return_inverse=True)
    counts = np.rint(np.bincount(place, rows.dealt.weights / rows.dealt.units)).astype(np.int64)
    table = ReliabilityTable(scores=distinct, counts=counts, positives=np.zeros_like(counts), n=rows.n)
    return replace(fitted_to(table, clustered=rows.dealt.clusters is not None), positives=None)
