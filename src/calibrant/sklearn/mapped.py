"""A classifier whose probabilities pass a map that exists, as an estimator of scikit-learn."""

from __future__ import annotations

from typing import Any, Self

from numpy.typing import NDArray
from sklearn.base import clone

from calibrant.errors import InputError
from calibrant.errors.wording import in_terms
from calibrant.inputs.conversion import as_array
from calibrant.recalibration import CalibrationMap
from calibrant.runtime.arrays import ArrayLike
from calibrant.sklearn.matched_labels import OF_ESTIMATOR
from calibrant.sklearn.recalibration import MappingClassifier
from calibrant.sklearn.wrapped import is_fitted


class MappedClassifier(MappingClassifier):
    r"""A classifier whose probabilities pass a map: of `calibrant.prior_shift`, or one that was stored.

    A model that was trained with undersampled non-events predicts the event too often. `calibrant.prior_shift` makes
    the map for the event rate without undersampling, and needs no rows.

    For two classes, with p the probability of ``classes_[1]``, the columns are 1 - m(p) and m(p). For more classes the
    map acts on all columns.

    Parameters
    ----------
    estimator : classifier
        A classifier with ``predict_proba``. A fitted one remains unchanged, and needs no `fit` here.
    fitted_map : calibrant.CalibrationMap
        The map, of one event for two classes, or of all classes in the order of ``classes_``.

    Attributes
    ----------
    estimator_ : classifier
        The classifier that predicts: ``estimator`` itself if it was fitted, else a fitted clone.
    classes_ : array, (C,)
        The labels, in the order of the columns.

    See Also
    --------
    RecalibratedClassifier : The same with a map that is fitted to rows.

    Notes
    -----
    In a pipeline of imbalanced-learn, let the map follow the sampler: ``estimator`` is the whole pipeline, which is
    fitted to all rows and undersamples them itself.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> import calibrant
    >>> from calibrant.sklearn import MappedClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(20_000) < 400
    >>> X = rng.normal(size=(20_000, 1)) + 2 * y[:, np.newaxis]
    >>> model = LogisticRegression().fit(X[:800], y[:800])  # as many non-events as events
    >>> print(model.predict_proba(X)[:, 1].mean().round(2), y.mean())
    0.24 0.02
    >>> mapped = MappedClassifier(model, calibrant.prior_shift(prior=0.02, trained_prior=0.5).map)
    >>> print(mapped.predict_proba(X)[:, 1].mean().round(2))
    0.02
    """

    def __init__(self, estimator: Any, fitted_map: CalibrationMap) -> None:
        self.estimator = estimator
        self.fitted_map = fitted_map

    @property
    def _classifier(self) -> Any:
        return getattr(self, "estimator_", self.estimator)

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, in the order of the columns."""
        return as_array("estimator.classes_", self._classifier.classes_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if getattr(self.fitted_map, "n_classes", 0) is None:
            tags.classifier_tags.multi_class = False
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_") or is_fitted(self.estimator)

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, **fit_params: Any) -> Self:
        """Fit the estimator if it is not fitted.

        Parameters
        ----------
        X, y
            The rows and their labels, as the estimator takes them.
        sample_weight : array, (N,), optional
            The weights of the rows, if the estimator takes them.
        **fit_params
            Passed on to ``estimator.fit``. A fitted estimator ignores them. With metadata routing, ``sample_weight``
            and ``fit_params`` go to the estimator as it requests them.

        Returns
        -------
        MappedClassifier
            The classifier itself.

        Raises
        ------
        calibrant.errors.InputError
            For an estimator without ``predict_proba``, for a map of other classes, and for fewer than two classes.
        """
        X, labels = self._checked(X, y)
        with in_terms(*OF_ESTIMATOR):
            params = self._params_of_estimator(labels, sample_weight, fit_params, "so that no weights are used")
            self.estimator_ = self.estimator if params is None else clone(self.estimator).fit(X, labels, **params)
            self._map  # noqa: B018 - it is checked
        return self

    @property
    def _map(self) -> CalibrationMap:
        """The map, if it is for these classes."""
        fitted: object = self.fitted_map
        if not isinstance(fitted, CalibrationMap):
            remedy = "pass the map of calibrant.prior_shift or of CalibrationMap.read"
            raise InputError("fitted_map", "a CalibrationMap", f"a {type(fitted).__name__}", remedy)
        number, labels = fitted.n_classes or 2, self.classes_.tolist()
        if number != len(labels) or fitted.kind == "labels":
            got = "a map of labels" if fitted.kind == "labels" else f"a map of {number}"
            raise InputError("fitted_map", f"a map of {len(labels)} classes", got, "make the map for these classes")
        names = fitted.event["class_names"]
        if fitted.n_classes and names is not None and names != list(map(str, labels)):
            expected, got = (", ".join(map(str, each[:10])) for each in (labels, names))
            remedy = "make the map for the expected classes in the expected order"
            raise InputError("fitted_map", f"the classes {expected}", got, remedy)
        return fitted
