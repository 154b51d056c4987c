"""Recalibration as estimators of scikit-learn: of columns of probabilities, and of a classifier."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, Final, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    MetaEstimatorMixin,
    OneToOneFeatureMixin,
    TransformerMixin,
    clone,
)
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import StratifiedGroupKFold, check_cv, cross_val_predict
from sklearn.utils import column_or_1d, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from calibrant.clusters import as_clusters
from calibrant.errors import InputError
from calibrant.errors.wording import NO_OPTIONS, in_terms
from calibrant.inputs.arrays import as_array, as_numbers, as_values, is_bfloat16, widened
from calibrant.inputs.notions import explain
from calibrant.inputs.predictions import as_predictions, rounding, sum_tolerance
from calibrant.recalibration import CalibrationMap, Recalibration, recalibrate
from calibrant.sklearn.arguments import OF_ESTIMATOR, Rows, of_arrays, of_estimator
from calibrant.statistics.resampling import Rng

#: The names of the arguments of `Recalibrator`, for errors, and the terms of remedies.
_OF_COLUMNS: Final = (
    {"probs": "X", "targets": "y", "weights": "sample_weight"},
    replace(NO_OPTIONS, probs="X", targets="y", rows="X"),
)


class Recalibrator(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    r"""Recalibrate columns of probabilities, as a transformer of scikit-learn.

    `fit` calls `calibrant.recalibrate` with probabilities of a model and the labels. `transform` applies the fitted map
    to new probabilities. Fit it to rows that the model was not trained on.

    For one event, the map is q = m(p), such as :math:`m(p) = \sigma(a + b \log \frac{p}{1 - p})`. For C classes, it is
    :math:`q = \mathrm{softmax}(W \log p + c)`. `calibrant.recalibrate` lists the methods.

    Parameters
    ----------
    method : str, default "auto"
        The family of the map, as in `calibrant.recalibrate`. "auto" keeps the probabilities where no map helps.
    prior_rows : float, default 20
        The weight of the probabilities themselves in each fit, in rows.
    level : float, default 0.95
        The confidence of the intervals. A gain is proven if its p-value is at most 1 - level.
    n_resamples : int, default 0
        The number of simulated data sets behind the noise floors of ``recalibration_``. The map does not depend on it.
    rng : int or numpy.random.Generator, default 0
        The seed of folds and simulated data sets.

    Attributes
    ----------
    recalibration_ : calibrant.Recalibration
        The map, its gain, and the measures before and after.
    map_ : calibrant.CalibrationMap
        The map alone, for other programs: ``map_.to_json()``.
    classes_ : array, (C,)
        The labels of the columns; for one column, those of the non-event and of the event.
    n_features_in_ : int
        The number of columns.
    feature_names_in_ : array, (C,)
        The names of the columns, if `fit` got a data frame with text as names.

    See Also
    --------
    RecalibratedClassifier : A classifier with recalibrated probabilities.

    Notes
    -----
    `transform` applies the map also if its gain is not proven. Read ``recalibration_.proven`` before you use the map. A
    map that is named by ``method`` is fitted in any case. With "auto" the identity is the first candidate.

    X are probabilities and not features. Therefore the estimator tags declare one-dimensional input, as those of
    ``IsotonicRegression`` do, although C columns are accepted.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.sklearn import Recalibrator
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(2_000)
    >>> y = np.where(rng.random(2_000) < p**2, "yes", "no")
    >>> recalibrator = Recalibrator().fit(p, y)
    >>> recalibrator.transform([0.2, 0.5]).round(2)
    array([0.04, 0.24])
    >>> recalibrator.transform([[0.8, 0.2], [0.5, 0.5]]).round(2)
    Traceback (most recent call last):
        ...
    calibrant.errors.InputError: X: expected 1 column, as in fit, got 2; pass the same columns as in fit
    >>> recalibrator.recalibration_.chosen, recalibrator.recalibration_.proven
    ('isotonic', True)
    """

    def __init__(
        self,
        method: str = "auto",
        *,
        prior_rows: float = 20.0,
        level: float = 0.95,
        n_resamples: int = 0,
        rng: Rng = 0,
    ) -> None:
        self.method = method
        self.prior_rows = prior_rows
        self.level = level
        self.n_resamples = n_resamples
        self.rng = rng

    def fit(self, X: Any, y: Any, sample_weight: Any = None, clusters: Any = None) -> Self:
        """Fit the map to probabilities and labels.

        Parameters
        ----------
        X : array or data frame, (N,), (N, 1), (N, 2) or (N, C)
            Probabilities in [0, 1], as ``predict_proba`` returns them. One column is the probability of the event. Two
            columns are the probabilities of the non-event and of the event. C columns are those of C classes.
        y : array, (N,)
            The labels, of any type. Sorted, they are those of the columns. The event is the second of two labels. If
            labels are missing, the labels 0 to C - 1 are the indices of the columns.
        sample_weight : array, (N,), optional
            Frequency weights: 2 equals the row twice.
        clusters : array, (N,), optional
            The cluster of each row. Pass it if rows share an outcome, as for `calibrant.recalibrate`.

        Returns
        -------
        Recalibrator
            The recalibrator itself.

        Raises
        ------
        calibrant.errors.InputError
            For probabilities outside [0, 1], NaN, and rows of columns that do not sum to 1 within 0.001; for labels
            that do not match the columns; for fewer than 5 rows of either outcome; and as `calibrant.recalibrate`.
        """
        with in_terms(*_OF_COLUMNS):
            values, names = _columns(X)
            probs = _valid(values)
            width = 1 if probs.ndim == 1 else probs.shape[1]
            classes = _labels_of_columns(y, width)
            fix = _recalibration(of_arrays(y, probs, classes, None, None), self.get_params(), sample_weight, clusters)
        self.n_features_in_ = width
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.classes_ = classes
        self.recalibration_, self.map_ = fix, fix.map
        return self

    def transform(self, X: Any) -> Any:
        """Return the recalibrated probabilities.

        Parameters
        ----------
        X : array or data frame, (N,), (N, 1), (N, 2) or (N, C)
            Probabilities, with the columns of `fit`.

        Returns
        -------
        array of float64
            The recalibrated probabilities, in the shape of X; a data frame after ``set_output``. Two or more columns
            sum to 1. Values that rounding has moved out of [0, 1] are read as 0 and 1.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`.
        calibrant.errors.InputError
            For invalid probabilities, as in `fit`, and for other columns than in `fit`.
        """
        check_is_fitted(self)
        with in_terms(*_OF_COLUMNS):
            values, names = _columns(X)
            width = 1 if values.ndim == 1 else values.shape[1]
            if width != self.n_features_in_:
                expected = f"{self.n_features_in_} column{'s' * (self.n_features_in_ != 1)}, as in fit"
                raise InputError("probs", expected, f"{width}", "pass the same columns as in fit")
            known = getattr(self, "feature_names_in_", None)
            if names is not None and known is not None and names.tolist() != known.tolist():
                expected = f"the columns {', '.join(known)}, as in fit"
                raise InputError("probs", expected, ", ".join(names), "select the columns in this order")
            return _mapped(self.map_, _valid(values))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Tests of scikit-learn that pass any two-dimensional array do not apply: these columns are probabilities.
        tags.input_tags.one_d_array, tags.input_tags.two_d_array = True, False
        tags.input_tags.positive_only = True
        tags.target_tags.required = True
        return tags


class RecalibratedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    r"""A classifier whose probabilities are recalibrated.

    A fitted ``estimator`` remains unchanged. Pass rows to `fit` that it was not trained on: ``fit`` predicts these rows
    and fits the map to the predictions. An ``estimator`` that is not fitted is fitted to all rows, and the map is
    fitted to predictions out of fold, each by a clone that was trained without the row.

    For two classes, with p the probability of ``classes_[1]``, the columns are 1 - m(p) and m(p). For more classes the
    map acts on all columns.

    Parameters
    ----------
    estimator : classifier
        A classifier with ``predict_proba``, fitted or not.
    method : str, default "auto"
        The family of the map, as in `calibrant.recalibrate`. "auto" keeps the probabilities where no map helps.
    cv : int, splitter or iterable of splits, default 5
        The folds, if the estimator is not fitted, as in ``sklearn.model_selection.check_cv``. An integer deals
        stratified folds, with ``clusters`` whole clusters.
    n_jobs : int, optional
        The number of folds that are fitted at the same time.
    prior_rows, level, n_resamples, rng
        As in `Recalibrator`.

    Attributes
    ----------
    estimator_ : classifier
        The fitted classifier: ``estimator`` itself if it was fitted, else a clone.
    classes_ : array, (C,)
        The labels, in the order of the columns.
    recalibration_ : calibrant.Recalibration
        The map, its gain, and the measures before and after.
    map_ : calibrant.CalibrationMap
        The map alone.

    See Also
    --------
    Recalibrator : The same for columns of probabilities.

    Notes
    -----
    As in `Recalibrator`, the map is applied also if its gain is not proven.

    ``GridSearchCV`` and ``cross_val_score`` clone a model, and the clone of a fitted estimator is not fitted. Wrap a
    fitted estimator in ``sklearn.frozen.FrozenEstimator`` (scikit-learn 1.6 or later) to keep it fitted.

    Cost of `fit`: the predictions of a fitted estimator, or ``cv`` + 1 fits, and one call of `calibrant.recalibrate`.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.metrics import log_loss
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from calibrant.sklearn import RecalibratedClassifier
    >>> X, y = make_classification(4_000, n_redundant=4, random_state=0)
    >>> fitted = GaussianNB().fit(X[:1_000], y[:1_000])
    >>> model = RecalibratedClassifier(fitted).fit(X[1_000:2_000], y[1_000:2_000])
    >>> round(log_loss(y[2_000:], fitted.predict_proba(X[2_000:])), 2)
    0.66
    >>> round(log_loss(y[2_000:], model.predict_proba(X[2_000:])), 2)
    0.35
    >>> model.recalibration_.proven
    True

    Without held-out rows, one call trains the classifier and fits the map:

    >>> model = RecalibratedClassifier(GaussianNB()).fit(X[:2_000], y[:2_000])
    >>> round(log_loss(y[2_000:], model.predict_proba(X[2_000:])), 2)
    0.34
    """

    def __init__(
        self,
        estimator: Any,
        method: str = "auto",
        *,
        cv: Any = 5,
        n_jobs: int | None = None,
        prior_rows: float = 20.0,
        level: float = 0.95,
        n_resamples: int = 0,
        rng: Rng = 0,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.n_jobs = n_jobs
        self.prior_rows = prior_rows
        self.level = level
        self.n_resamples = n_resamples
        self.rng = rng

    def fit(self, X: Any, y: Any, sample_weight: Any = None, clusters: Any = None, **fit_params: Any) -> Self:
        """Fit the map, and the estimator first if it is not fitted.

        Parameters
        ----------
        X, y
            The rows and their labels, as the estimator takes them. For a fitted estimator, rows outside its training
            data; labels that it does not know are an error.
        sample_weight : array, (N,), optional
            Frequency weights of the map, and weights of the estimator if it is fitted here and takes them.
        clusters : array, (N,), optional
            The cluster of each row, for the folds and for `calibrant.recalibrate`. Pass it if rows share an outcome.
        **fit_params
            Passed on to ``estimator.fit``. A fitted estimator ignores them. With metadata routing, ``sample_weight``
            and ``fit_params`` go to the estimator as it requests them.

        Returns
        -------
        RecalibratedClassifier
            The classifier itself.

        Raises
        ------
        calibrant.errors.InputError
            For an estimator without ``predict_proba``, for fewer than two classes, for fewer than 5 rows of either
            outcome, for predictions that do not rise with the outcomes, and as `calibrant.recalibrate`.
        """
        if not hasattr(self.estimator, "predict_proba"):
            remedy = "use a classifier with predict_proba"
            raise InputError(
                "estimator", "a classifier with predict_proba", f"a {type(self.estimator).__name__}", remedy
            )
        X, y = indexable(X, y)
        check_classification_targets(y)
        labels = column_or_1d(y, warn=True)
        with in_terms(*OF_ESTIMATOR):
            if _is_fitted(self.estimator):
                estimator = self.estimator
                classes = as_array("estimator.classes_", estimator.classes_)
                rows = of_estimator(estimator, X, labels, None, None)
            else:
                classes = _classes_with_weight(labels, sample_weight)
                params = self._params_of_estimator(sample_weight, fit_params)
                probs = cross_val_predict(
                    self.estimator,
                    X,
                    labels,
                    cv=self._splits(X, labels, clusters),
                    method="predict_proba",
                    n_jobs=self.n_jobs,
                    params=params,
                )
                estimator = clone(self.estimator).fit(X, labels, **params)
                rows = of_arrays(labels, probs, classes, None, None)
            fix = _recalibration(rows, self.get_params(deep=False), sample_weight, clusters)
        self.estimator_, self.classes_ = estimator, classes
        self.recalibration_, self.map_ = fix, fix.map
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the recalibrated probabilities.

        Parameters
        ----------
        X
            Rows, as the estimator takes them.

        Returns
        -------
        array of float64, (N, C)
            A column for each of ``classes_``. The columns sum to 1.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`.
        """
        check_is_fitted(self)
        with in_terms(*OF_ESTIMATOR):
            probs = _valid(as_array("probs", self.estimator_.predict_proba(X)))
            return _mapped(self.map_, probs)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label with the largest recalibrated probability.

        It may differ from the label that the estimator predicts, because a map moves the score at which the
        probability is 0.5. The first of several equal probabilities counts.

        Parameters
        ----------
        X
            Rows, as the estimator takes them.

        Returns
        -------
        array, (N,)
            The labels.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`.
        """
        places = np.argmax(self.predict_proba(X), axis=1)
        return np.asarray(self.classes_[places])

    @property
    def n_features_in_(self) -> int:
        """The number of features that the fitted classifier has seen."""
        return int(self.estimator_.n_features_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The names of the features that the fitted classifier has seen."""
        return np.asarray(self.estimator_.feature_names_in_)

    def get_metadata_routing(self) -> Any:
        """Return the requests of this classifier and of the estimator for scikit-learn's metadata routing."""
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=self).add_self_request(self)
        return router.add(estimator=self.estimator, method_mapping=to_fit)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "__sklearn_tags__"):
            of_estimator = self.estimator.__sklearn_tags__()
            tags.input_tags = deepcopy(of_estimator.input_tags)
            if of_estimator.classifier_tags is not None:
                tags.classifier_tags.multi_class = of_estimator.classifier_tags.multi_class
        return tags

    def _splits(self, X: Any, labels: NDArray[Any], clusters: Any) -> list[Any]:
        """Return the folds; whole clusters are dealt if they are given."""
        if clusters is None or clusters is False:
            return list(check_cv(self.cv, labels, classifier=True).split(X, labels))
        groups, _ = as_clusters(clusters, len(labels)).numbered()
        cv = 5 if self.cv is None else self.cv
        folds = StratifiedGroupKFold(cv) if isinstance(cv, (int, np.integer)) else check_cv(cv, labels, classifier=True)
        return list(folds.split(X, labels, groups))

    def _params_of_estimator(self, sample_weight: Any, fit_params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments of ``estimator.fit``."""
        if get_config().get("enable_metadata_routing", False):
            return dict(process_routing(self, "fit", sample_weight=sample_weight, **fit_params).estimator.fit)
        if sample_weight is None:
            return dict(fit_params)
        if has_fit_parameter(self.estimator, "sample_weight"):
            return {**fit_params, "sample_weight": sample_weight}
        if not any(name.endswith("sample_weight") for name in fit_params):
            name = type(self.estimator).__name__
            message = f"{name} does not take sample_weight, so that only the map uses the weights"
            warnings.warn(message, UserWarning, stacklevel=3)
        return dict(fit_params)


# ---------------------------------------------------------------- what both share


def _recalibration(rows: Rows, options: Mapping[str, Any], weights: Any, clusters: Any) -> Recalibration:
    """Return the map of these rows."""
    fix = recalibrate(
        rows.probs,
        rows.targets,
        class_names=rows.class_names,
        weights=weights,
        clusters=clusters,
        **{name: options[name] for name in ("method", "prior_rows", "level", "n_resamples", "rng")},
    )
    return cast(Recalibration, fix)  # only notion="multilabel" returns several


def _mapped(fitted: CalibrationMap, probs: NDArray[Any]) -> NDArray[np.float64]:
    """Return the mapped probabilities, in the shape of ``probs``; of two columns the second is mapped."""
    if probs.ndim == 2 and probs.shape[1] == 2:
        mapped = fitted(probs[:, 1])
        return np.column_stack([1 - mapped, mapped])
    return fitted(probs)


def _valid(probs: NDArray[Any]) -> NDArray[Any]:
    """Return probabilities (N,) or (N, C), with those that rounding has moved out of [0, 1] set to 0 and 1.

    Raises
    ------
    InputError
        For other values outside [0, 1], and for two or more columns that do not sum to 1.
    """
    slack, rows = rounding(probs.dtype.name), probs.reshape(len(probs), -1)
    valid: NDArray[np.bool_] = np.all((rows >= -slack) & (rows <= 1 + slack), axis=1)
    if rows.shape[1] > 1:
        valid &= np.abs(rows.sum(axis=1, dtype=np.float64) - 1) <= sum_tolerance(probs.dtype.name)
    if not valid.all():
        raise explain(as_predictions(probs, np.zeros(len(probs), np.int64)), int(np.argmin(valid)))
    return np.asarray(np.clip(probs, 0, 1))


def _columns(X: Any) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Return X as an array (N,) or (N, C), and the names of its columns if they are text."""
    values = as_array("probs", X)
    values = widened(values.view(np.uint16)) if is_bfloat16(X, values) else as_numbers("probs", values)
    columns = getattr(X, "column_names", getattr(X, "columns", None))
    if columns is not None and values.ndim == 1:  # a data frame with one column
        values = values[:, np.newaxis]
    if values.ndim not in (1, 2) or values.size == 0:
        remedy = "pass the probability of the event, or a column for each class"
        raise InputError("probs", "an array of shape (N,) or (N, C)", f"shape {values.shape}", remedy)
    names = np.array([] if columns is None else list(columns), dtype=object)
    text = len(names) > 0 and all(isinstance(name, str) for name in names)
    return values, names if text else None


def _labels_of_columns(y: Any, width: int) -> NDArray[Any]:
    """Return the labels of the columns: those of y, sorted, or the indices of the columns."""
    distinct, n = np.unique(as_array("targets", y)), max(width, 2)
    if len(distinct) == n:
        return distinct
    if distinct.dtype.kind in "fiub" and np.isin(distinct, np.arange(n)).all():
        return np.arange(n)
    columns = f"{n} columns" if width > 1 else "the event and the non-event"
    remedy = f"pass rows of every class, or the labels 0 to {n - 1}"
    raise InputError("targets", f"{n} distinct labels, for {columns}", f"{len(distinct)}", remedy)


def _classes_with_weight(labels: NDArray[Any], weights: Any) -> NDArray[Any]:
    """Return the sorted labels; reject weights without which a single class is left."""
    kept = labels
    if weights is not None:
        numbers = as_values("weights", weights)
        if numbers.shape != labels.shape:
            expected = f"{len(labels)} numbers, one for each row"
            raise InputError("weights", expected, f"shape {numbers.shape}", "pass a weight for each row")
        kept = labels[numbers > 0]
        if not len(kept):
            raise InputError("weights", "a weight above zero", "only weights of zero", "pass other weights")
    n_classes = len(np.unique(kept))
    if n_classes < 2:
        remedy = "fit on rows of every class"
        raise InputError("targets", "labels of at least two classes, with weight above 0", f"{n_classes} class", remedy)
    return np.unique(labels)


def _is_fitted(estimator: Any) -> bool:
    """Return whether a classifier is fitted; what cannot be fitted is ready to predict."""
    if not hasattr(estimator, "fit"):
        return True
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True
