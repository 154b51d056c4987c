"""The measures as scorers of scikit-learn, for cross-validation and for the choice of models."""

from __future__ import annotations

import functools
import inspect
import numbers
from collections.abc import Callable
from typing import Any, Final, Self

import numpy as np

from calibrant import measures
from calibrant.errors import InputError, MissingDependencyError, renaming
from calibrant.sklearn.arguments import check_arguments, name_of, parameters_of, takes
from calibrant.sklearn.labels import OF_ESTIMATOR, of_estimator

try:
    from sklearn import get_config
    from sklearn.utils.metadata_routing import MetadataRequest
except ImportError as error:
    raise MissingDependencyError("scikit-learn", "for calibrant.sklearn", "sklearn") from error

#: Whether greater is better for each of the library's own functions that return a number.
_GREATER: Final = {function: m.better == "higher" for m in measures.MEASURES for function in m.functions}

#: The library's own functions that return something else.
_NO_NUMBER: Final = tuple(
    function
    for function in (getattr(measures, name) for name in measures.__all__)
    if inspect.isfunction(function) and function not in _GREATER
)


class Scorer:
    """A measure of calibrant as a scorer of scikit-learn: ``scorer(estimator, X, y) -> float``, greater is better.

    It is made by `make_scorer`, can be pickled, and takes part in scikit-learn's metadata routing.

    Attributes
    ----------
    metric, greater_is_better, pos_label
        As given to `make_scorer`.
    kwargs : mapping
        What is passed on to the measure.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> import calibrant
    >>> from calibrant.sklearn import make_scorer
    >>> X, y = load_iris(return_X_y=True)
    >>> scorer = make_scorer(calibrant.brier_score)
    >>> round(scorer(GaussianNB().fit(X[::2], y[::2]), X[1::2], y[1::2]), 4)
    -0.0664
    """

    def __init__(self, metric: Callable[..., Any], greater_is_better: bool, pos_label: Any, kwargs: Any) -> None:
        self.metric, self.greater_is_better, self.pos_label, self.kwargs = metric, greater_is_better, pos_label, kwargs
        self.__name__ = f"{'' if greater_is_better else 'neg_'}{name_of(metric)}"  # scikit-learn's displays show it
        self._request: bool | str | None = None

    def __call__(self, estimator: Any, X: Any, y: Any, *, sample_weight: Any = None) -> float:
        """Return the measure of a fitted classifier on these rows, with the sign turned unless greater is better.

        Parameters
        ----------
        estimator : classifier
            Fitted, with `predict_proba` and `classes_`.
        X, y
            The rows and their labels.
        sample_weight : array, (N,), optional
            Frequency weights: 2 equals the row twice.

        Raises
        ------
        calibrant.errors.InputError
            As `ReliabilityDisplay.from_estimator`, and what the measure itself raises.
        """
        weights = {} if sample_weight is None else {"weights": sample_weight}
        if weights and not takes(self.metric, "weights"):
            remedy = "give the metric a keyword argument 'weights', or score without sample_weight"
            raise InputError("sample_weight", f"none, since {name_of(self.metric)} takes no weights", "weights", remedy)
        with renaming(**OF_ESTIMATOR):
            rows = of_estimator(estimator, X, y, self.pos_label, self._notion)
            value = self.metric(rows.probs, rows.targets, **weights, **self.kwargs)
        if not (isinstance(value, numbers.Real) or (isinstance(value, np.ndarray) and value.ndim == 0)):
            raise InputError("metric", "a measure that returns a number", f"a {type(value).__name__}", "return one")
        return float(value) if self.greater_is_better else -float(value)

    @property
    def _notion(self) -> Any:
        """The judged event, of which the classwise ones need a column for each class, also with two classes."""
        classwise = self.metric is measures.classwise_calibration_error
        return self.kwargs.get("notion", "classwise" if classwise else None)

    def set_score_request(self, *, sample_weight: bool | str | None) -> Self:
        """Say whether scikit-learn shall hand sample weights to this scorer, where metadata routing is enabled.

        Parameters
        ----------
        sample_weight : bool, None or str
            True or False; None for an error where weights are given; or the name under which they are given.

        Returns
        -------
        Scorer
            The scorer itself.

        Raises
        ------
        calibrant.errors.InputError
            Where metadata routing is not enabled.
        """
        if not get_config().get("enable_metadata_routing", False):
            remedy = "call sklearn.set_config(enable_metadata_routing=True) first"
            raise InputError("sample_weight", "metadata routing to be enabled", "a request without it", remedy)
        named = isinstance(sample_weight, str) and sample_weight.isidentifier()
        if not named and not isinstance(sample_weight, (bool, type(None))):
            raise InputError("sample_weight", "True, False, None or a name", repr(sample_weight), "pass True")
        self._request = sample_weight
        return self

    def get_metadata_routing(self) -> Any:
        """Return what was requested, as scikit-learn's routing asks for it."""
        request = MetadataRequest(owner=self)
        request.score.add_request(param="sample_weight", alias=self._request)
        return request

    def __repr__(self) -> str:
        own = {"greater_is_better": self.greater_is_better}
        if self.pos_label is not None:
            own["pos_label"] = self.pos_label
        said = ", ".join(f"{name}={value!r}" for name, value in {**own, **self.kwargs}.items())
        return f"make_scorer({name_of(self.metric)}, {said})"


def make_scorer(metric: Any, *, greater_is_better: bool | None = None, pos_label: Any = None, **kwargs: Any) -> Scorer:
    """Make a scorer of scikit-learn from a measure of calibrant.

    What `cross_val_score`, `cross_validate`, `GridSearchCV`, `learning_curve` and the like take as ``scoring``. The
    labels are matched to ``estimator.classes_``, so that they may be anything, and a fold may lack a class.

    Parameters
    ----------
    metric : callable
        One of calibrant's measures that return a number, or a function ``metric(probs, targets, **kwargs)`` of your
        own. With two classes ``probs`` is (N,), the probability of one label, and ``targets`` are 0 and 1; with more
        (or with ``notion="classwise"``) they are (N, C) and 0 to C - 1 in the order of ``estimator.classes_``. Sample
        weights come as ``weights``.
    greater_is_better : bool, optional
        Whether more is better; if not, the sign is turned, as scikit-learn's searches look for the maximum. Of
        calibrant's own measures it is known (all but `calibrant.accuracy` are errors); for others it must be said.
    pos_label : label, optional
        The label whose probability is judged, with more than two classes against all others. By default
        ``estimator.classes_[1]`` of two classes, and with more the measure gets all.
    kwargs
        Passed on to the measure: ``n_bins``, ``notion``, ``norm``...

    Returns
    -------
    Scorer
        It takes ``sample_weight``, by `set_score_request` also through scikit-learn's metadata routing.

    Raises
    ------
    calibrant.errors.InputError
        For a metric that is no function or returns no number, for arguments that it does not take, and where it is
        not known whether greater is better.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.naive_bayes import GaussianNB
    >>> import calibrant
    >>> from calibrant.sklearn import make_scorer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> scorer = make_scorer(calibrant.expected_calibration_error, n_bins=10)
    >>> scorer
    make_scorer(expected_calibration_error, greater_is_better=False, n_bins=10)
    >>> cross_val_score(GaussianNB(), X, y, scoring=scorer, cv=3).round(3)
    array([-0.084, -0.05 , -0.048])
    """
    if not callable(metric):
        remedy = "pass the function itself, such as calibrant.expected_calibration_error"
        raise InputError("metric", "a function", repr(metric), remedy)
    while isinstance(metric, functools.partial) and not metric.args:
        metric, kwargs = metric.func, {**metric.keywords, **kwargs}
    if metric in _NO_NUMBER:
        remedy = "pass one that does, or a function of your own that returns a part of it"
        raise InputError("metric", "a measure that returns a number", name_of(metric), remedy)
    if next(iter(parameters_of(metric) or ()), "") == "y_true":
        remedy = "pass scikit-learn's own measures to sklearn.metrics.make_scorer"
        raise InputError("metric", "a function of (probs, targets)", f"{name_of(metric)}, which takes y first", remedy)
    if greater_is_better is None:
        if metric not in _GREATER:
            remedy = "pass greater_is_better=False for an error, True for a score"
            raise InputError("greater_is_better", f"True or False for {name_of(metric)}", "None", remedy)
        greater_is_better = _GREATER[metric]
    elif not isinstance(greater_is_better, (bool, np.bool_)):
        raise InputError("greater_is_better", "True or False", repr(greater_is_better), "say which of the two")
    for name in ("probs", "targets", "weights"):
        if name in kwargs:
            source = "sample_weight" if name == "weights" else "the estimator and y"
            raise InputError(name, "nothing in make_scorer", "a value", f"the scorer makes it of {source}")
    check_arguments(metric, kwargs, ("probs", "targets", "weights"))
    if kwargs.get("notion") == "multilabel":
        remedy = "score one label at a time, with an estimator for each"
        raise InputError("notion", "'positive', 'top-label' or 'classwise'", "'multilabel'", remedy)
    return Scorer(metric, bool(greater_is_better), pos_label, kwargs)
