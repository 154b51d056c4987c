"""Recalibration as estimators of scikit-learn: of columns of probabilities, and of a classifier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from calibrant.errors import InputError
from calibrant.errors.wording import NO_OPTIONS, in_terms
from calibrant.inputs.conversion import as_array, as_numbers, is_bfloat16, widened
from calibrant.inputs.notions import explain
from calibrant.inputs.predictions import as_predictions, rounding, sum_tolerance
from calibrant.recalibration import CalibrationMap, Recalibration, recalibrate
from calibrant.runtime.arrays import ArrayLike
from calibrant.sklearn.matched_labels import OF_ESTIMATOR, EstimatorRows, of_arrays
from calibrant.sklearn.wrapped import WrappedClassifier
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
    array([0.04, 0.25])
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

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, clusters: ArrayLike | None = None
    ) -> Self:
        """Fit the map to probabilities and labels.

        Parameters
        ----------
        X : array or data frame, (N,), (N, 1), (N, 2) or (N, C)
            Probabilities in [0, 1], as ``predict_proba`` returns them. One column is the probability of the event. Two
            columns are the probabilities of the non-event and of the event. C columns are those of C classes.
        y : array, (N,)
            The labels, of any type. The distinct labels, sorted, belong to the columns in this order. The event is the
            second of two labels. If a class does not occur in ``y``, the labels must be the indices of the columns,
            0 to C - 1.
        sample_weight : array, (N,), optional
            Frequency weights: 2 equals the row twice.
        clusters : array, (N,), optional
            The cluster of each row. Pass it if several rows have one outcome in common, as for `calibrant.recalibrate`.

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
                raise InputError(
                    "probs", expected, ", ".join(names), "select the expected columns in the expected order"
                )
            return _mapped(self.map_, _valid(values))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Tests of scikit-learn that pass any two-dimensional array do not apply: these columns are probabilities.
        tags.input_tags.one_d_array, tags.input_tags.two_d_array = True, False
        tags.input_tags.positive_only = True
        tags.target_tags.required = True
        return tags


class MappingClassifier(WrappedClassifier):
    """A classifier around another one whose probabilities pass a map."""

    @property
    def _map(self) -> CalibrationMap:
        return cast(CalibrationMap, self.map_)

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
            probs = _valid(as_array("probs", self._classifier.predict_proba(X)))
            return _mapped(self._map, probs)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label with the largest recalibrated probability.

        It may differ from the label that the estimator predicts, because a map moves the score at which the
        probability is 0.5. If several labels have the largest probability, the first of them is returned.

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


class RecalibratedClassifier(MappingClassifier):
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
        The folds, if the estimator is not fitted, as in ``sklearn.model_selection.check_cv``. An integer is the number
        of stratified folds; with ``clusters``, each cluster is in one fold.
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

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
        **fit_params: Any,
    ) -> Self:
        """Fit the map, and the estimator first if it is not fitted.

        Parameters
        ----------
        X, y
            The rows and their labels, as the estimator takes them. For a fitted estimator, rows outside its training
            data; labels that it does not know are an error.
        sample_weight : array, (N,), optional
            Frequency weights of the map, and weights of the estimator if it is fitted here and takes them.
        clusters : array, (N,), optional
            The cluster of each row, for the folds and for `calibrant.recalibrate`. Pass it if several rows have one
            outcome in common, such as visits of a patient.
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
            outcome, and as `calibrant.recalibrate`.
        """
        X, labels = self._checked(X, y)
        with in_terms(*OF_ESTIMATOR):
            only = "so that only the map uses the weights"
            params = self._params_of_estimator(labels, sample_weight, fit_params, only)
            rows = self._rows(X, labels, clusters, params, None)
            if params is None:
                estimator, classes = self.estimator, as_array("estimator.classes_", self.estimator.classes_)
            else:
                estimator, classes = clone(self.estimator).fit(X, labels, **params), np.unique(labels)
            fix = _recalibration(rows, self.get_params(deep=False), sample_weight, clusters)
        self.estimator_, self.classes_ = estimator, classes
        self.recalibration_, self.map_ = fix, fix.map
        return self


# ---------------------------------------------------------------- what both share


def _recalibration(
    rows: EstimatorRows, options: Mapping[str, Any], weights: ArrayLike | None, clusters: ArrayLike | None
) -> Recalibration:
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
    """Return the mapped probabilities, in the shape of ``probs``; a map of one event maps the second of two columns."""
    if fitted.n_classes is None and probs.ndim == 2 and probs.shape[1] == 2:
        mapped = fitted(probs[:, 1])
        return np.column_stack([1 - mapped, mapped])
    return np.asarray(fitted(probs))


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


def _labels_of_columns(y: ArrayLike, width: int) -> NDArray[Any]:
    """Return the labels of the columns: those of y, sorted, or the indices of the columns."""
    distinct, n = np.unique(as_array("targets", y)), max(width, 2)
    if len(distinct) == n:
        return distinct
    if distinct.dtype.kind in "fiub" and np.isin(distinct, np.arange(n)).all():
        return np.arange(n)
    columns = f"{n} columns" if width > 1 else "the event and the non-event"
    remedy = f"pass rows of every class, or the labels 0 to {n - 1}"
    raise InputError("targets", f"{n} distinct labels, for {columns}", f"{len(distinct)}", remedy)
