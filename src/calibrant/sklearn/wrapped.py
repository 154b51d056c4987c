"""What the classifiers around another classifier share: predictions out of fold, weights, metadata routing, tags."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import StratifiedGroupKFold, check_cv, cross_val_predict
from sklearn.utils import column_or_1d, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from calibrant.errors import InputError
from calibrant.inputs.conversion import as_numbers, as_values
from calibrant.runtime.arrays import ArrayLike, Float64s
from calibrant.sklearn.matched_labels import EstimatorRows, of_arrays, of_estimator
from calibrant.table.cluster_labels import as_clusters


class WrappedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier around ``estimator``, which remains unchanged if it is fitted, and is cloned and fitted if not.

    Its ``fit`` checks the labels, asks for the arguments of ``estimator.fit``, and reads the predictions. The
    parameters of each class include ``estimator``, ``cv`` and ``n_jobs``.
    """

    @property
    def n_features_in_(self) -> int:
        """The number of features that the fitted classifier has seen."""
        return int(self._classifier.n_features_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The names of the features that the fitted classifier has seen."""
        return np.asarray(self._classifier.feature_names_in_)

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

    @property
    def _classifier(self) -> Any:
        """The classifier that predicts."""
        return self.estimator_

    def _checked(self, X: Any, y: ArrayLike) -> tuple[Any, NDArray[Any]]:
        """Return rows that can be dealt into folds, and their labels."""
        if not hasattr(self.estimator, "predict_proba"):
            remedy, got = "use a classifier with predict_proba", f"a {type(self.estimator).__name__}"
            raise InputError("estimator", "a classifier with predict_proba", got, remedy)
        X, y = indexable(X, y)
        check_classification_targets(y)
        return X, column_or_1d(y, warn=True)

    def _params_of_estimator(
        self, labels: NDArray[Any], sample_weight: ArrayLike | None, fit_params: Mapping[str, Any], otherwise: str
    ) -> dict[str, Any] | None:
        """Return the keyword arguments of ``estimator.fit``, or None if the estimator is fitted.

        ``otherwise`` is said in the warning about weights that the estimator does not take.
        """
        if is_fitted(self.estimator):
            return None
        _check_classes(labels, sample_weight)
        if get_config().get("enable_metadata_routing", False):
            return dict(process_routing(self, "fit", sample_weight=sample_weight, **fit_params).estimator.fit)
        if sample_weight is None:
            return dict(fit_params)
        if has_fit_parameter(self.estimator, "sample_weight"):
            return {**fit_params, "sample_weight": sample_weight}
        if not any(name.endswith("sample_weight") for name in fit_params):
            message = f"{type(self.estimator).__name__} does not take sample_weight, {otherwise}"
            warnings.warn(message, UserWarning, stacklevel=3)
        return dict(fit_params)

    def _rows(
        self, X: Any, labels: NDArray[Any], clusters: ArrayLike | None, params: dict[str, Any] | None, notion: Any
    ) -> EstimatorRows:
        """Return predictions by the fitted estimator, or out of fold: by clones that were trained without the row.

        Whole clusters are dealt into folds if they are given.
        """
        if params is None:
            return of_estimator(self.estimator, X, labels, None, notion)
        cv, groups = self.cv, None
        if clusters is not None and clusters is not False:
            groups, _ = as_clusters(clusters, len(labels)).numbered()
            cv = 5 if cv is None else cv
            cv = StratifiedGroupKFold(cv) if isinstance(cv, (int, np.integer)) else cv
        splits = list(check_cv(cv, labels, classifier=True).split(X, labels, groups))
        probs = cross_val_predict(
            self.estimator, X, labels, cv=splits, method="predict_proba", n_jobs=self.n_jobs, params=params
        )
        return of_arrays(labels, probs, np.unique(labels), None, notion)


def is_fitted(estimator: Any) -> bool:
    """Return whether a classifier is fitted; what cannot be fitted is ready to predict."""
    if not hasattr(estimator, "fit"):
        return True
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def row_weights(sample_weight: ArrayLike | None, n: int) -> Float64s:
    """Return a weight for each row."""
    if sample_weight is None:
        return np.ones(n)
    weights = as_numbers("weights", as_values("weights", sample_weight))
    if weights.shape != (n,):
        expected = f"{n} numbers, one for each row"
        raise InputError("weights", expected, f"shape {weights.shape}", "pass a weight for each row")
    good = (weights >= 0) & (weights < np.inf)
    if not good.all():
        row = int(np.argmin(good))
        raise InputError("weights", "finite numbers from 0", f"{weights[row]}", "correct the weight", row=row)
    return weights.astype(np.float64)


def _check_classes(labels: NDArray[Any], sample_weight: ArrayLike | None) -> None:
    """Reject labels of a single class, and weights without which a single class is left."""
    kept = row_weights(sample_weight, len(labels)) > 0
    if sample_weight is not None and not kept.any():
        raise InputError("weights", "a weight above zero", "only weights of zero", "pass other weights")
    n_classes = len(np.unique(labels[kept]))
    if n_classes < 2:
        remedy = "fit on rows of every class"
        raise InputError("targets", "labels of at least two classes, with weight above 0", f"{n_classes} class", remedy)
