"""A classifier of scikit-learn that abstains below a threshold of its probabilities."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import accuracy_score
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted

from calibrant.errors import InputError
from calibrant.errors.wording import in_terms
from calibrant.inputs.conversion import as_array
from calibrant.inputs.notions import class_rows
from calibrant.inputs.predictions import as_predictions
from calibrant.runtime.arrays import ArrayLike, Float64s
from calibrant.sklearn.matched_labels import OF_ESTIMATOR, listed, probabilities_of
from calibrant.sklearn.wrapped import WrappedClassifier, is_fitted, row_weights
from calibrant.thresholds import Threshold, TwoSidedThreshold, certify_threshold
from calibrant.thresholds.result import Method

#: The place of a row that is not decided. Behind the labels of the classes stands the label for abstaining.
_ABSTAINS: Final = -1

_OUT_OF_FOLD: Final = (
    "the scores are out-of-fold predictions of estimators that were fitted to parts of the rows, so the "
    "confidence level is approximate"
)


class ThresholdedClassifier(WrappedClassifier):
    r"""A classifier that predicts where it is confident, and abstains elsewhere.

    With the confidence :math:`c(x) = \max_k p_k(x)` and the threshold t, `predict` returns the class with the largest
    probability if :math:`c(x) \ge t`, and the label ``abstain`` otherwise.

    Without a ``threshold``, `fit` calls `calibrant.certify_threshold`: the error rate of decided rows is above
    ``max_risk`` with a probability of at most 1 - ``confidence``. A fitted ``estimator`` remains unchanged. Pass rows
    to `fit` that it was not trained on. An ``estimator`` that is not fitted is fitted to all rows, and the threshold is
    certified from predictions out of fold. The promise is then approximate, and ``threshold_`` has a ``flag``.

    With a ``threshold`` and a fitted ``estimator``, `fit` need not be called.

    Parameters
    ----------
    estimator : classifier
        A classifier with ``predict_proba``, fitted or not.
    threshold : Threshold, TwoSidedThreshold, float or None, default None
        Which rows are decided:

        - None: `fit` certifies a threshold.
        - A number from 0 to 1: rows with at least this confidence.
        - A `Threshold` of the predicted class: the same with its ``value``. With ``per_class=True``, each predicted
          class has the threshold in ``by_group``, and a class without one is never predicted.
        - A `Threshold` of one event, for two classes: ``classes_[1]`` is predicted where its probability is at least
          ``value``, and no row is predicted as ``classes_[0]``. The side "no" predicts ``classes_[0]`` where the
          probability of ``classes_[1]`` is at most ``value``, and nothing else.
        - A `TwoSidedThreshold`, for two classes: its sides ``yes`` and ``no`` together. Rows between ``no.value`` and
          ``yes.value`` abstain.

        A threshold whose ``value`` is None decides no row, without a warning. Its ``reason`` explains the missing
        value.
    max_risk, confidence, method, largest_cluster, max_weight
        As in `calibrant.certify_threshold`. Not used with a given ``threshold``.
    per_class : bool, default False
        Whether `fit` certifies a threshold for each predicted class, with one promise for all of them together.
    abstain : label, optional
        What `predict` returns for rows that are not decided. The default is -1 for classes that are numbers and
        "abstain" for classes that are text. It must be of their kind, and no class may equal it. Boolean classes need
        a number, because -1 is true as a condition; `predict` then returns numbers.
    cv : int, splitter or iterable of splits, default 5
        The folds, if the estimator is not fitted and no threshold is given, as in `RecalibratedClassifier`.
    n_jobs : int, optional
        The number of folds that are fitted at the same time.

    Attributes
    ----------
    estimator_ : classifier
        After `fit`, the fitted classifier: ``estimator`` itself if it was fitted, else a clone.
    threshold_ : calibrant.Threshold
        After `fit` without a given ``threshold``, the certified one. A ``threshold`` that is set later replaces it.
    classes_ : array, (C,)
        The labels, in the order of the columns. They do not contain ``abstain``.
    n_features_in_ : int
        The number of features that the fitted classifier has seen.
    feature_names_in_ : array
        The names of the features that the fitted classifier has seen.

    See Also
    --------
    calibrant.certify_threshold, calibrant.certify_two_sided
    RecalibratedClassifier : A classifier with recalibrated probabilities.

    Notes
    -----
    Metrics of scikit-learn count the label ``abstain`` as an error. `score` is the accuracy of decided rows instead,
    and `coverage` is their share. `score` rises with the threshold, so a search must not choose the threshold by it.

    Predictions out of fold come from models that were fitted to fewer rows than ``estimator_``, so the risk of
    ``estimator_`` at the certified threshold may be larger than theirs. In a simulation with ``confidence=0.9`` and a
    logistic regression that overfits, 13 % of the data sets had a larger risk than ``max_risk`` instead of at most
    10 %. To keep the promise exact, hold rows out.

    A `Threshold` that was certified from confidences (N,), with targets that say whether the predicted class was right,
    is also treated as a threshold of one event. To apply it to the confidence instead, pass its ``value``.

    A certified `Threshold` of groups is rejected, because `predict` does not know the groups of rows.

    ``GridSearchCV`` and ``cross_val_score`` clone a model, and the clone of a fitted estimator is not fitted. Wrap a
    fitted estimator in ``sklearn.frozen.FrozenEstimator`` (scikit-learn 1.6 or later) to keep it fitted.

    Cost of `fit`: the predictions of a fitted estimator, or ``cv`` + 1 fits, and one call of
    `calibrant.certify_threshold`. Cost of `predict`: the predictions of the estimator and O(N C).

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from calibrant.sklearn import ThresholdedClassifier
    >>> X, y = make_classification(6_000, random_state=0)
    >>> fitted = LogisticRegression().fit(X[:1_000], y[:1_000])
    >>> model = ThresholdedClassifier(fitted, max_risk=0.05).fit(X[1_000:3_000], y[1_000:3_000])
    >>> round(model.threshold_.value, 2)
    0.87
    >>> model.predict(X[3_000:3_010])
    array([ 0,  1, -1,  0,  0,  0, -1,  0,  0, -1])

    The classifier decides 70 % of new rows, and 5 % of these decisions are wrong. The estimator alone is wrong in 12 %:

    >>> round(model.coverage(X[3_000:]), 2), round(1 - model.score(X[3_000:], y[3_000:]), 2)
    (0.7, 0.05)
    >>> round(1 - fitted.score(X[3_000:], y[3_000:]), 2)
    0.12

    A threshold that is known needs no `fit`:

    >>> ThresholdedClassifier(fitted, 0.95).predict(X[3_000:3_010])
    array([ 0,  1, -1, -1,  0,  0, -1,  0,  0, -1])
    """

    def __init__(
        self,
        estimator: Any,
        threshold: Any = None,
        *,
        max_risk: float = 0.05,
        confidence: float = 0.95,
        method: Method | None = None,
        largest_cluster: float | None = None,
        max_weight: float | None = None,
        per_class: bool = False,
        abstain: Any = None,
        cv: Any = 5,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.threshold = threshold
        self.max_risk = max_risk
        self.confidence = confidence
        self.method = method
        self.largest_cluster = largest_cluster
        self.max_weight = max_weight
        self.per_class = per_class
        self.abstain = abstain
        self.cv = cv
        self.n_jobs = n_jobs

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
        **fit_params: Any,
    ) -> Self:
        """Certify the threshold if none is given, and fit the estimator if it is not fitted.

        Parameters
        ----------
        X, y
            The rows and their labels, as the estimator takes them. For a fitted estimator, rows outside its training
            data; labels that it does not know are an error.
        sample_weight : array, (N,), optional
            Frequency weights of the rows that certify the threshold, and weights of the estimator if it is fitted here
            and takes them. Weights that are not whole numbers are sampling weights; the method is then "betting" by
            default.
        clusters : array, (N,), optional
            The cluster of each row, for the folds and for `calibrant.certify_threshold`. Pass it if several rows have
            one outcome in common, such as visits of a patient.
        **fit_params
            Passed on to ``estimator.fit``. A fitted estimator ignores them. With metadata routing, ``sample_weight``
            and ``fit_params`` go to the estimator as it requests them.

        Returns
        -------
        ThresholdedClassifier
            The classifier itself. If no threshold is certified, it abstains for every row.

        Raises
        ------
        calibrant.errors.InputError
            For an estimator without ``predict_proba``, for fewer than two classes, for a threshold or a label
            ``abstain`` that does not suit the classes, and as `calibrant.certify_threshold`.
        """
        X, labels = self._checked(X, y)
        own, found = self.threshold is None, None
        with in_terms(*OF_ESTIMATOR):
            otherwise = "so that only the threshold uses the weights" if own else "so they are not used"
            params = self._params_of_estimator(labels, sample_weight, fit_params, otherwise)
            if own:
                rows = self._rows(X, labels, clusters, params, "classwise")  # a column for each class, also for two
                found = certify_threshold(
                    rows.probs,
                    rows.targets,
                    max_risk=self.max_risk,
                    confidence=self.confidence,
                    method=self.method,
                    largest_cluster=self.largest_cluster,
                    max_weight=self.max_weight,
                    per_class=self.per_class,
                    class_names=rows.class_names,
                    weights=sample_weight,
                    clusters=clusters,
                )
                if params is not None:
                    flag = "; ".join(filter(None, (found.flag, _OUT_OF_FOLD)))
                    found = replace(found, approximate=True, flag=flag)
            estimator = self.estimator if params is None else clone(self.estimator).fit(X, labels, **params)
            classes = as_array("estimator.classes_", estimator.classes_)
            _with_abstain(classes, self.abstain)
            _rule_of(found if own else self.threshold, classes, named=own)
        self.estimator_ = estimator
        if found is not None:
            self.threshold_ = found
        elif hasattr(self, "threshold_"):
            del self.threshold_
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the predicted label of rows that are decided, and the label ``abstain`` for the others.

        If several labels have the largest probability, the first of them is predicted.

        Parameters
        ----------
        X
            Rows, as the estimator takes them.

        Returns
        -------
        array, (N,)
            The labels, in the type of ``classes_`` if it can hold ``abstain``.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Without a fitted estimator, or without a threshold.
        calibrant.errors.InputError
            For a threshold or a label ``abstain`` that does not suit the classes, and for probabilities outside [0, 1],
            NaN, and rows that do not sum to 1 within 0.001.
        """
        places = self._places(X)
        return np.asarray(_with_abstain(self.classes_, self.abstain)[places])

    def accepts(self, X: Any) -> NDArray[np.bool_]:
        """Return which rows are decided.

        Parameters
        ----------
        X
            Rows, as the estimator takes them.

        Returns
        -------
        array of bool, (N,)
            True for decided rows, False for rows for which `predict` returns ``abstain``.

        Raises
        ------
        sklearn.exceptions.NotFittedError, calibrant.errors.InputError
            As `predict`.
        """
        return np.asarray(self._places(X) != _ABSTAINS)

    def predict_proba(self, X: Any) -> Any:
        """Return the probabilities of the estimator, as it returns them, for decided rows and others.

        Parameters
        ----------
        X
            Rows, as the estimator takes them.

        Returns
        -------
        array, (N, C)
            A column for each of ``classes_``.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Without a fitted estimator, or without a threshold.
        """
        check_is_fitted(self)
        return self._classifier.predict_proba(X)

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy of the decided rows.

        Parameters
        ----------
        X, y
            The rows, as the estimator takes them, and their labels.
        sample_weight : array, (N,), optional
            The weights of the rows.

        Returns
        -------
        float
            The share of decided rows with the right label, in [0, 1], higher is better. NaN if no row with a weight
            above 0 is decided. Rows that abstain do not count, so read it together with `coverage`.

        Raises
        ------
        sklearn.exceptions.NotFittedError, calibrant.errors.InputError
            As `predict`.
        """
        places = self._places(X)
        labels = column_or_1d(y)
        check_consistent_length(places, labels)
        with in_terms(*OF_ESTIMATOR):
            weights = row_weights(sample_weight, len(labels))
        decided = (places != _ABSTAINS) & (weights > 0)
        if not decided.any():
            return math.nan
        predicted = self.classes_[places[decided]]
        return float(accuracy_score(labels[decided], predicted, sample_weight=weights[decided]))

    def coverage(self, X: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of rows that are decided.

        Parameters
        ----------
        X
            Rows, as the estimator takes them.
        sample_weight : array, (N,), optional
            The weights of the rows.

        Returns
        -------
        float
            The share, in [0, 1]. NaN if every weight is 0.

        Raises
        ------
        sklearn.exceptions.NotFittedError, calibrant.errors.InputError
            As `predict`.
        """
        decided = self.accepts(X)
        with in_terms(*OF_ESTIMATOR):
            weights = row_weights(sample_weight, len(decided))
        total = float(weights.sum())
        return float(weights[decided].sum()) / total if total > 0 else math.nan

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, in the order of the columns."""
        return as_array("estimator.classes_", self._classifier.classes_)

    def __sklearn_is_fitted__(self) -> bool:
        certified = self.threshold is not None or hasattr(self, "threshold_")
        return certified and (hasattr(self, "estimator_") or is_fitted(self.estimator))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if _is_of_event(self.threshold):
            tags.classifier_tags.multi_class = False
        return tags

    @property
    def _classifier(self) -> Any:
        return getattr(self, "estimator_", self.estimator)

    def _places(self, X: Any) -> NDArray[np.intp]:
        """Return the place of each row's label in ``classes_``, or -1 if it is not decided."""
        check_is_fitted(self)
        own = self.threshold is None
        with in_terms(*OF_ESTIMATOR):
            classes, probs = probabilities_of(self._classifier, X)
            rule = _rule_of(self.threshold_ if own else self.threshold, classes, named=own)
            values, _, _ = class_rows(as_predictions(probs, np.zeros(len(probs), np.int64)), 0, len(probs))
        return rule(values)


# ---------------------------------------------------------------- which rows are decided


def _by_confidence(least: Float64s, probs: Float64s) -> NDArray[np.intp]:
    """Return the class with the largest probability if that is at least the class's entry of ``least``, else -1."""
    places = probs.argmax(axis=1)
    return np.where(probs.max(axis=1) >= least[places], places, _ABSTAINS)


def _by_event(limits: Float64s, probs: Float64s) -> NDArray[np.intp]:
    """Return 1 where the probability of class 1 is at least the first limit, 0 where it is at most the other, else -1.

    A row that both limits decide is -1 too.
    """
    yes, no = probs[:, 1] >= limits[0], probs[:, 1] <= limits[1]
    return np.where(yes & ~no, 1, np.where(no & ~yes, 0, _ABSTAINS))


def _is_of_event(threshold: Any) -> bool:
    """Return whether a threshold is about the probability of one event."""
    return isinstance(threshold, (Threshold, TwoSidedThreshold)) and threshold.notion == "positive"


def _rule_of(threshold: Any, classes: NDArray[Any], *, named: bool) -> Callable[[Float64s], NDArray[np.intp]]:
    """Return which class a threshold decides for each row; ``named`` says that ``by_group`` has the names of classes.

    Raises
    ------
    InputError
        For what is not a threshold, and for a threshold that does not suit the classes.
    """
    n_classes = len(classes)
    values: list[float | None]  # None becomes NaN, which no probability reaches
    if _is_of_event(threshold) and n_classes != 2:
        remedy = "certify a threshold from estimator.predict_proba(X)"
        if isinstance(threshold, Threshold) and threshold.value is not None:
            remedy += "; if the scores of this threshold are confidences of predicted classes, pass threshold.value"
        expected = f"a threshold for the confidence of the predicted class, because there are {n_classes} classes"
        raise InputError("threshold", expected, "a threshold for the probability of one event", remedy)
    if isinstance(threshold, TwoSidedThreshold):
        values = [threshold.yes.value, threshold.no.value]
        return partial(_by_event, np.array(values, np.float64))
    if not isinstance(threshold, Threshold):
        return partial(_by_confidence, np.full(n_classes, _number(threshold)))
    if threshold.by_group and not threshold.per_class:
        remedy = "pass one of threshold.by_group, or certify a threshold without groups"
        raise InputError("threshold", "one threshold for all rows", "thresholds of groups", remedy)
    if threshold.notion == "positive":
        values = [threshold.value, None] if threshold.side == "yes" else [None, threshold.value]
        return partial(_by_event, np.array(values, np.float64))
    if threshold.n_classes not in (None, n_classes):
        remedy = "certify a threshold from the probabilities of this estimator"
        raise InputError("threshold", f"a threshold for {n_classes} classes", f"one for {threshold.n_classes}", remedy)
    values = [threshold.value] * n_classes
    if threshold.per_class:
        certified = {name: part.value for name, part in threshold.by_group.items()}
        values = [certified.get(name) for name in _names_in(threshold, classes, named=named)]
    return partial(_by_confidence, np.array(values, np.float64))


def _number(threshold: Any) -> float:
    number = isinstance(threshold, (int, float, np.number)) and not isinstance(threshold, bool)
    if number and 0 <= threshold <= 1:
        return float(threshold)
    percent = number and 1 < threshold <= 100
    remedy = f"pass a share such as {float(threshold) / 100:g}, not percent" if percent else "pass a number such as 0.9"
    expected = "a Threshold, a TwoSidedThreshold, a number from 0 to 1, or None"
    raise InputError("threshold", expected, repr(threshold), remedy)


def _names_in(threshold: Threshold, classes: NDArray[Any], *, named: bool) -> list[str]:
    """Return what the classes are called in ``by_group``: their names, or their indices if none were given.

    Raises
    ------
    InputError
        For other names, and for names that are also indices of other classes.
    """
    names, indices = list(map(str, classes.tolist())), list(map(str, range(len(classes))))
    if named or names == indices:
        return names
    given = list(threshold.by_group)
    known = [own for own in (names, indices) if set(given) <= set(own)]
    if len(known) == 1:
        return known[0]
    if known:
        expected = f"predicted classes that are names or indices of the classes {listed(names)}, but not both"
        remedy = "leave threshold out, and call fit on held-out rows with per_class=True"
    else:
        expected = f"predicted classes among {listed(names)}"
        remedy = "certify it with class_names=list(map(str, estimator.classes_))"
    raise InputError("threshold", expected, listed(given), remedy)


# ---------------------------------------------------------------- the label for abstaining


def _with_abstain(classes: NDArray[Any], abstain: Any) -> NDArray[Any]:
    """Return the labels of the classes and behind them the label for abstaining, in one array.

    Raises
    ------
    InputError
        For a label that is a class or of another kind, and for no label where no default suits the classes.
    """
    labels, kind = classes.tolist(), classes.dtype.kind
    text = kind in "UT"
    if not text and kind not in "biuf":
        remedy = "convert the labels to numbers or text, and fit the estimator again"
        raise InputError("estimator.classes_", "numbers or text", f"dtype {classes.dtype}", remedy)
    label = abstain
    if abstain is None:
        if kind == "b":
            remedy = "pass abstain=-1, and check predictions with == 1, because Python treats -1 as true"
            raise InputError("abstain", "a label, because the classes are booleans", "None", remedy)
        label = "abstain" if text else -1
    elif not isinstance(abstain, str if text else numbers.Real):
        wanted, default = ("text", "'abstain'") if text else ("a number", "-1")
        raise InputError("abstain", f"{wanted}, like the classes", repr(abstain), f"pass abstain={default}")
    if label in labels:
        got = repr(label) if abstain is not None else f"None, which stands for {label!r}"
        remedy = f"pass another label, such as abstain={_free_label(labels, text=text)!r}"
        raise InputError("abstain", "a label that is not a class", got, remedy)
    if text:
        return np.concatenate([classes, np.array([label], "U" if kind == "U" else classes.dtype)])
    own = np.asarray(label)
    least = np.min_scalar_type(label) if own.dtype.kind in "iu" else own.dtype  # -1 fits in the type of signed classes
    return np.append(classes, own).astype(np.result_type(classes.dtype, least))


def _free_label(labels: Sequence[Any], *, text: bool) -> Any:
    """Return a label that is not a class."""
    free: Any = "undecided" if text else 0
    while free in labels:
        free = free + "_" if text else free - 1
    return free
