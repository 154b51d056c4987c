"""`recalibrate`: from predictions, a table or a sketch to a map of the scores, with proof that it helps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, overload

from calibrant.errors import InputError, one_of_these
from calibrant.inputs.decision_log import DecisionLog, Question, check_no_other
from calibrant.inputs.predictions import Notion
from calibrant.inputs.weights import WeightsAre
from calibrant.recalibration.choice import FitOptions
from calibrant.recalibration.classes import of_classes
from calibrant.recalibration.events import of_event
from calibrant.recalibration.families import FAMILIES, PRIOR_ROWS, TEMPERATURE, Family, names_of
from calibrant.recalibration.labels import of_labels
from calibrant.recalibration.question_recalibrations import QuestionRecalibrations
from calibrant.recalibration.recalibrations import LabelRecalibrations, Recalibration
from calibrant.recalibration.softmax import CLASS_FAMILIES
from calibrant.report import evaluated_data
from calibrant.report.evaluated_data import EvaluatedData
from calibrant.runtime.arrays import ArrayLike
from calibrant.runtime.progress import counted
from calibrant.sketch import PredictedGroups
from calibrant.statistics.group_tests import holm
from calibrant.statistics.resampling import Resampling, Rng


@overload
def recalibrate(
    probs: DecisionLog,
    *,
    method: str = "auto",
    prior_rows: float = PRIOR_ROWS,
    level: float = 0.95,
    n_resamples: int = 1000,
    rng: Rng = 0,
) -> QuestionRecalibrations: ...


@overload
def recalibrate(
    probs: PredictedGroups,
    targets: ArrayLike | None = None,
    *,
    method: str = "auto",
    notion: Notion | None = None,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
    class_names: Sequence[str] | None = None,
    groups: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    weights_are: WeightsAre | None = None,
    prior_rows: float = PRIOR_ROWS,
    level: float = 0.95,
    n_resamples: int = 1000,
    rng: Rng = 0,
) -> Recalibration | LabelRecalibrations: ...


def recalibrate(
    probs: PredictedGroups | DecisionLog,
    targets: ArrayLike | None = None,
    *,
    method: str = "auto",
    notion: Notion | None = None,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
    class_names: Sequence[str] | None = None,
    groups: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    weights_are: WeightsAre | None = None,
    prior_rows: float = PRIOR_ROWS,
    level: float = 0.95,
    n_resamples: int = 1000,
    rng: Rng = 0,
) -> Recalibration | LabelRecalibrations | QuestionRecalibrations:
    r"""Fit the map that suits the scores best, and show how much it helps on rows that the map never saw.

    Scores of one event become scores. Probabilities of several classes become probabilities of all classes; with
    ``notion="top-label"`` only the probability of the predicted class is mapped, which is also all that a sketch holds.
    If there are several labels, each label has its own map. Holm's adjustment decides which gains are proven; other
    labels keep their scores. Each question of a `DecisionLog` has its own map, too: a predicate is one event, and the
    classes of a choice or a score are its options or levels. If the options differ between rows, the probability of the
    likeliest one is mapped.

    Pass rows that the model was not trained on. Each map but ``constant`` is fitted to the rows and to ``prior_rows``
    pseudo-rows, which have the same scores and outcomes in the proportions that these scores predict. With scores p of
    one event and their log-odds z = log(p / (1 - p)), s the logistic function:

    - ``identity``: p
    - ``cox`` (``platt``, ``sigmoid``, ``logistic``): s(a + b z), b > 0
    - ``beta``: s(c + a log p - b log(1 - p)), a and b at least 0
    - ``isotonic``: lines in log-odds between the blocks of the isotonic fit, each pulled towards the ``cox`` line
    - ``temperature`` (``ts``): s(b z); ``shift`` (``intercept``): s(a + z)
    - ``clipped``: p, but for scores of 0 and 1, which are moved
    - ``constant``: (events + 1/2) / (N + 1) for every score; the order of the scores is lost
    - ``histogram``: the observed frequency of 15 bins with equally many rows; it does not keep the order of the scores

    With probabilities p of C classes, and N rows:

    - ``identity``: p; ``clipped``: p, but for zeros, which are moved
    - ``temperature`` (``ts``): softmax(b log p)
    - ``vector`` (``svs``): softmax(a log p + c), with a factor and a constant for each class
    - ``matrix`` (``sms``): softmax(W log p + c). Both are fitted after b with the mean penalty
      C / N (\|c\|^2 + \|a / b - 1\|^2), and C (C - 1) / N times the squares of the other entries of W / b

    ``auto`` compares ``identity``, ``temperature``, ``cox``, ``beta``, ``isotonic`` and ``constant`` for one event. For
    classes it compares ``identity``, ``temperature``, ``vector`` (up to 10,000 classes) and ``matrix`` (up to 100
    classes, with at least 25 rows for each class on average). It takes the family with the smallest mean log loss out
    of fold. If that loss is smaller than the loss of ``identity`` by G with standard error se, the map is shrunk: its
    log-odds are moved towards the original ones by the share se^2 / (2 G^2). If the share is 1 or more, ``identity`` is
    taken. ``constant`` is not shrunk, and is taken only if the share is below 0.13; otherwise the best of the other
    families is tried in its place. Where a score of 0 or 1 was wrong, ``clipped`` takes the place of ``identity``. The
    gain of a row is its loss before less its loss after, by a map without its fold. To judge the whole procedure, the
    choice is repeated inside each set of four folds. With the mean gain O and its standard error, and the mean gain IS
    of the final map on its own rows, the interval of the true gain of the final map is

    .. math:: [O - t\,\mathrm{se},\ \max(O, IS) + t \max(\mathrm{se}, \mathrm{se}_{IS})] .

    The standard errors also allow for wrong predictions that these rows happen to lack: the scores imply how frequent
    wrong predictions are, and how much one of them changes the mean gain. The p-value agrees with the interval: it is
    at most 1 - ``level`` where the interval is above 0.

    Parameters
    ----------
    probs, targets, notion, weights, ignore_index, logits, class_names, weights_are
        As in `calibrant.evaluate`: arrays, a `ReliabilityTable` or a `CalibrationSketch` of one evaluated event. The
        notion "top-label" maps the probability of the predicted class; by default several classes are mapped together.
        Or ``probs`` is a `DecisionLog`, which comes with no other data.
    groups : array, (N,), optional
        As in `calibrant.evaluate`. All groups have one map; ``by_group`` says which groups stand out with it.
    method : str, default "auto"
        The family of the map, or "auto".
    clusters : array, (N,), or False, optional
        As in `calibrant.evaluate`. Whole clusters are dealt into folds, and the variance of the gain is that between
        clusters. For one event, the maps of the folds are fitted to at most 428 cells of the score. Pass the clusters
        if several rows have one outcome in common, such as visits of a patient: otherwise maps are fitted to outcomes
        of the rows that they are evaluated on, and show a gain that is not there.
    prior_rows : float, default 20
        The weight of the scores themselves in each fit, in rows. With 0, a fit of ``cox``, ``beta``, ``temperature``
        or ``shift`` is the plain maximum likelihood.
    level : float, default 0.95
        The confidence of the intervals. A gain is proven if its p-value is at most 1 - level.
    n_resamples : int, default 1000
        The number of simulated data sets behind the noise floors before and after.
    rng : int or numpy.random.Generator, default 0
        The seed of folds and simulated data sets.

    Returns
    -------
    Recalibration, LabelRecalibrations, or QuestionRecalibrations for a DecisionLog
        The map, its gain, and the measures before and after; of several labels or questions, these for each. After
        recalibration, the upper ends of the confidence intervals of ECE, smooth ECE and miscalibration are at least the
        means of their noise floors, because differences between prediction and outcome partly cancel across folds.

    Raises
    ------
    calibrant.errors.InputError
        As `calibrant.evaluate`; for fewer than 5 rows of either outcome, or outside the most frequent class; with a
        named method, for scores that do not rise with the outcomes, so that the slope is 0; for outcomes that a
        threshold separates, with ``prior_rows=0``; for ``matrix`` with more than 1,500 classes; for a method of
        classes with one event, a table or a sketch, and the other way round; for the notion "classwise"; for groups of
        several labels. A label or question that no map can be fitted to is named in ``refused`` of the result, with the
        reason; if no label has a map, an error is raised.

    Notes
    -----
    Logits are fitted as logits, and probabilities by their log-odds. Only scores of 0 and 1 are moved, whose log-odds
    are infinite: those of N rows by L = 1 / (2 N + 2), at most half the distance of the nearest other score. Zeros of
    classes are moved up to L in the same way. A map stores the limits of its scores as ``smallest`` and ``largest``,
    and moves scores beyond a limit to this limit. If the limits are 0 and 1, it moves only scores of 0 and 1, to
    2^-1022 and 1 - 2^-53. Small probabilities of classes are moved up to 1e-10 or to 1.5e-7, whichever is better, if
    this lowers the mean log loss of a fitted temperature by more than two standard errors; logits are not moved. A
    sketch has one cell for all scores up to 1.5e-7, and one for those near 1, so that its maps have these limits. If a
    probability of 0 or 1 was wrong, the log loss is infinite, and the gain is relative to the log loss of clipped
    probabilities. If the map is then ``identity`` or ``clipped``, or if a map gives an observed outcome the probability
    0, the gain is that in the Brier score. More than 4,396 distinct scores are dealt and evaluated in the cells of the
    standard grid. Rows of equal score are interchangeable, so the order of the rows plays no part. Cost: two reports,
    and about 0.2 s for the map of one event and its proof, from a sketch or from 2,000,000 scores. Classes need memory
    for some copies of their rows.

    References
    ----------
    Cox (1958). Kull, Silva Filho, Flach (2017), doi 10.1214/17-EJS1338SI. Guo, Pleiss, Sun, Weinberger (2017),
    arXiv 1706.04599. Berta, Holzmüller, Jordan, Bach (2025), arXiv 2511.03685. Bates, Hastie, Tibshirani (2023), doi
    10.1080/01621459.2023.2197686. James, Stein (1961), Proc. 4th Berkeley Symposium 1, 361-379, for the share.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(2_000)
    >>> fix = calibrant.recalibrate(scores, rng.random(2_000) < scores**2)
    >>> fix.chosen, fix.proven, round(fix.gain.value, 3), round(fix.gain.low, 3), round(fix.gain.high, 3)
    ('isotonic', True, 0.093, 0.075, 0.114)
    >>> fix.map([0.2, 0.5]).round(2).tolist()
    [0.04, 0.25]
    >>> logits = rng.normal(size=(2_000, 3))
    >>> labels = np.array([rng.choice(3, p=np.exp(z / 2) / np.exp(z / 2).sum()) for z in logits])
    >>> fix = calibrant.recalibrate(logits, labels, logits=True)
    >>> fix.chosen, fix.proven, round(1 / fix.map.parameters["factors"][0], 2)
    ('temperature', True, 2.05)
    """
    _family(method, (*FAMILIES, *CLASS_FAMILIES))
    if not isinstance(prior_rows, (int, float)) or isinstance(prior_rows, bool) or not 0 <= prior_rows < math.inf:
        raise InputError("prior_rows", "a number from 0", repr(prior_rows), "leave it out for the default, 20")
    asked = FitOptions(method, None, prior_rows, Resampling.of(level, n_resamples, rng))
    rows: dict[str, Any] = {"notion": notion, "weights": weights, "ignore_index": ignore_index}
    rows |= {"class_names": class_names, "groups": groups, "clusters": clusters, "weights_are": weights_are}
    if isinstance(probs, DecisionLog):
        check_no_other(targets=targets, **rows, logits=logits or None)
        return _of_questions(probs, asked)
    classwise = None if notion is None else False
    data = evaluated_data.of_arguments(probs, targets, **rows, logits=logits, classwise=classwise)
    return _of_data(data, notion, asked)


def _of_questions(log: DecisionLog, asked: FitOptions) -> QuestionRecalibrations:
    """Return the recalibration of each question, each for itself; one that no map can be fitted to is named."""
    fixes: dict[str, Recalibration] = {}
    refused: dict[str, str] = {}
    for name, question in counted("recalibrating questions", list(log.items())):
        try:
            fixes[name] = _of_question(question, asked)
        except InputError as error:
            refused[name] = f"expected {error.expected}, got {error.got}"
    adjusted = holm([fix.gain.p_value for fix in fixes.values()])
    return QuestionRecalibrations(
        log=log,
        method=asked.method,
        questions=fixes,
        adjusted_p_values=dict(zip(fixes, adjusted, strict=True)),
        refused=refused,
        level=asked.resampling.level,
    )


def _of_question(question: Question, asked: FitOptions) -> Recalibration:
    """Return the recalibration of a question: of its event or its classes; of options that differ, the likeliest."""
    notion: Notion | None = None if question.fixed else "top-label"
    data = evaluated_data.of_arguments(
        question.probs,
        question.targets,
        notion=notion,
        class_names=question.class_names,
        classwise=None if notion is None else False,
    )
    found = _of_data(data, notion, asked)
    assert isinstance(found, Recalibration)  # a question has no labels
    return found


def _of_data(data: EvaluatedData, notion: Notion | None, asked: FitOptions) -> Recalibration | LabelRecalibrations:
    """Return the recalibration of data; ``notion`` is what was asked for."""
    method = asked.method
    of_all = notion is None and data.notion == "top-label"
    if of_all and data.choices.data != "sketch":
        return of_classes(data, asked._replace(family=_family(method, CLASS_FAMILIES)))
    if data.notion == "classwise":
        remedy = "leave notion out to map all classes together, or pass one class at a time"
        raise InputError("notion", "'positive', 'top-label' or 'multilabel'", repr(data.notion), remedy)
    if data.notion == "multilabel":
        if data.groups:
            raise InputError("groups", "no groups of several labels", "groups", "pass one label at a time")
        return of_labels(data, asked._replace(family=_family(method, FAMILIES)))
    families = tuple(family for family in FAMILIES if family is not TEMPERATURE) if of_all else FAMILIES
    return of_event(data, asked._replace(family=_family(method, families, sketch=of_all)))


def _family(method: object, families: Sequence[Family], *, sketch: bool = False) -> Family | None:
    """Return the one of these families that has a name; None for "auto"."""
    if method == "auto":
        return None
    named = names_of(families)
    if isinstance(method, str) and method in named:
        return named[method]
    expected = f"one of {', '.join(['auto', *named])}"
    remedy = one_of_these(str(method), list(named))
    if isinstance(method, str) and method in names_of((*FAMILIES, *CLASS_FAMILIES)):
        of_event = families is FAMILIES
        expected += " for one event" if of_event else " for several classes"
        remedy = "pass probabilities of several classes, and leave notion out"
        if sketch:
            expected, remedy = (
                f"{expected} of a sketch",
                "pass the rows, because a sketch holds only the predicted class",
            )
        elif not of_event:
            remedy = "pass notion='top-label' (--notion top-label) to map the probability of the predicted class"
    raise InputError("method", expected, repr(method), remedy)
