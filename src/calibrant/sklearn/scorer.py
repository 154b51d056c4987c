"""The measures as scikit-learn scorers, for cross-validation and model selection."""

from __future__ import annotations

import functools
import inspect
import numbers
from collections.abc import Callable
from typing import Any, Final, Self

import numpy as np
from sklearn import get_config
from sklearn.utils.metadata_routing import MetadataRequest

from calibrant import measures
from calibrant.errors import InputError, check_choice
from calibrant.errors.wording import in_terms
from calibrant.measures.listed import FURTHER
from calibrant.runtime.arrays import ArrayLike
from calibrant.sklearn.matched_labels import OF_ESTIMATOR, check_arguments, name_of, of_estimator, parameters_of, takes

#: Which direction is better for each of the library's own functions that return a number.
_BETTER: Final = {function: m.better for m in measures.MEASURES for function in m.functions} | dict(FURTHER)

#: The functions by the keys of a report, and by their names.
_BY_NAME: Final = {
    **{
        name: function
        for m in measures.MEASURES
        for function in reversed(m.functions)
        for name in (m.name, function.__name__)
    },
    **{function.__name__: function for function in FURTHER},
}

#: The functions that need a column for each class, even for two classes.
_OF_CLASSES: Final = (
    measures.classwise_calibration_error,
    measures.ranked_probability_score,
    measures.spherical_score,
    measures.thresholded_adaptive_calibration_error,
    measures.top_k_calibration_error,
    measures.top_r_calibration_error,
)

#: Names behind ``neg_``, where the function's own would say it twice.
_SPOKEN: Final = {measures.negative_log_likelihood: "log_loss"}

#: The library's own functions that return something else.
_NO_NUMBER: Final = tuple(
    function
    for function in (getattr(measures, name) for name in measures.__all__)
    if inspect.isfunction(function) and function not in _BETTER
)


class Scorer:
    """A measure of calibrant as a scikit-learn scorer: ``scorer(estimator, X, y) -> float``, greater is better.

    `make_scorer` builds it. It can be pickled, and takes part in scikit-learn's metadata routing.

    Attributes
    ----------
    metric, greater_is_better, pos_label
        The arguments of `make_scorer`.
    kwargs : mapping
        Passed on to the measure.

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
        name = name_of(metric)  # scikit-learn's displays show it
        self.__name__ = name if greater_is_better else f"neg_{_SPOKEN.get(metric, name)}"
        self._request: bool | str | None = None

    def __call__(self, estimator: Any, X: Any, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
        """Return the measure of a fitted classifier on these rows; the sign is turned unless greater is better.

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
            As in `ReliabilityDisplay.from_estimator`, and the errors of the measure.
        """
        weights = {} if sample_weight is None else {"weights": sample_weight}
        if weights and not takes(self.metric, "weights"):
            remedy = "use a metric that takes a keyword argument 'weights', or score without sample_weight"
            raise InputError("sample_weight", f"no weights for {name_of(self.metric)}", "weights", remedy)
        with in_terms(*OF_ESTIMATOR):
            rows = of_estimator(estimator, X, y, self.pos_label, self._notion)
            value = self.metric(rows.probs, rows.targets, **weights, **self.kwargs)
        if not (isinstance(value, numbers.Real) or (isinstance(value, np.ndarray) and value.ndim == 0)):
            raise InputError(
                "metric", "a measure that returns a number", f"a {type(value).__name__}", "return a number"
            )
        return float(value) if self.greater_is_better else -float(value)

    # ------------------------------------------------------------ what tuners of thresholds ask of a scorer

    @property
    def _sign(self) -> int:
        return 1 if self.greater_is_better else -1

    @property
    def _kwargs(self) -> dict[str, Any]:
        return {**self.kwargs, "pos_label": self.pos_label}

    def _score_func(
        self,
        y_true: ArrayLike,
        y_pred: Any,
        *,
        pos_label: Any = None,
        sample_weight: ArrayLike | None = None,
        **kwargs: Any,
    ) -> float:
        """Return the measure of decisions: the probability of the decided label is 1."""
        y_true, y_pred = np.asarray(y_true), np.asarray(y_pred)
        positive = np.unique(np.concatenate([y_true, y_pred]))[-1] if pos_label is None else pos_label
        weights = {} if sample_weight is None else {"weights": sample_weight}
        decided, observed = (y_pred == positive).astype(np.float64), (y_true == positive).astype(np.int64)
        return float(self.metric(decided, observed, **weights, **kwargs))

    @property
    def _notion(self) -> Any:
        """The evaluated event; classwise measures need a column for each class, even for two classes."""
        return self.kwargs.get("notion", "classwise" if self.metric in _OF_CLASSES else None)

    def set_score_request(self, *, sample_weight: bool | str | None) -> Self:
        """Request sample weights from scikit-learn's metadata routing, or decline them.

        Parameters
        ----------
        sample_weight : bool, None or str
            True or False; None raises if weights are passed; a string is the name under which they are passed.

        Returns
        -------
        Scorer
            The scorer itself.

        Raises
        ------
        calibrant.errors.InputError
            If metadata routing is not enabled.
        """
        if not get_config().get("enable_metadata_routing", False):
            remedy = "call sklearn.set_config(enable_metadata_routing=True) first"
            raise InputError("sample_weight", "enabled metadata routing", "disabled metadata routing", remedy)
        named = isinstance(sample_weight, str) and sample_weight.isidentifier()
        if not named and not isinstance(sample_weight, (bool, type(None))):
            raise InputError("sample_weight", "True, False, None or a name", repr(sample_weight), "pass True")
        self._request = sample_weight
        return self

    def get_metadata_routing(self) -> Any:
        """Return the request for scikit-learn's metadata routing."""
        request = MetadataRequest(owner=self)
        request.score.add_request(param="sample_weight", alias=self._request)
        return request

    _get_metadata_request = get_metadata_routing  # what tuners of thresholds ask in scikit-learn 1.5

    def __repr__(self) -> str:
        options = {"greater_is_better": self.greater_is_better}
        if self.pos_label is not None:
            options["pos_label"] = self.pos_label
        words = ", ".join(f"{name}={value!r}" for name, value in {**options, **self.kwargs}.items())
        return f"make_scorer({name_of(self.metric)}, {words})"


def make_scorer(metric: Any, *, greater_is_better: bool | None = None, pos_label: Any = None, **kwargs: Any) -> Scorer:
    """Make a scorer of scikit-learn from a measure of calibrant.

    Pass it as ``scoring`` to `cross_val_score`, `cross_validate`, `GridSearchCV`, `learning_curve` and the like. It
    matches labels to ``estimator.classes_``: labels may be of any type, and a fold may lack a class.
    `TunedThresholdClassifierCV` takes it too, but passes predicted labels instead of probabilities: each predicted
    label counts as a probability of 1.

    Parameters
    ----------
    metric : str or callable
        A measure of calibrant that returns a number: its key in a report, such as ``"ece"``, or the function. Or your
        own function ``metric(probs, targets, **kwargs)``. For two classes ``probs`` is (N,), the probability of one
        label, and ``targets`` are 0 and 1. For more classes (or ``notion="classwise"``, or calibrant's measures of all
        classes) they are (N, C) and 0 to C - 1 in the order of ``estimator.classes_``. Sample weights are passed as
        ``weights``.
    greater_is_better : bool, optional
        Whether greater is better; if not, the sign is turned, because scikit-learn's searches maximise. The default
        is right for calibrant's measures (`calibrant.accuracy`, say, is better when greater); other functions need it.
    pos_label : label, optional
        The label whose probability is evaluated, against all others if there are more than two classes. By default
        ``estimator.classes_[1]`` for two classes; for more, the measure gets all classes. So for two classes the score
        is that of ``estimator.predict_proba(X)[:, 1]``. `calibrant.evaluate` evaluates both columns by the predicted
        class.
    kwargs
        Passed on to the measure: ``n_bins``, ``notion``, ``norm``...

    Returns
    -------
    Scorer
        It takes ``sample_weight``, and after `set_score_request` also through scikit-learn's metadata routing.

    Raises
    ------
    calibrant.errors.InputError
        For a metric that is not a function or does not return a number, for one whose ideal value is neither the
        smallest nor the largest, such as the calibration slope, for arguments that it does not take, and if
        ``greater_is_better`` is missing for a function that is not calibrant's.

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
    if isinstance(metric, str):
        check_choice("metric", metric, tuple(_BY_NAME))
        metric = _BY_NAME[metric]
    while isinstance(metric, functools.partial) and not metric.args:
        metric, kwargs = metric.func, {**metric.keywords, **kwargs}
    _check_metric(metric)
    if greater_is_better is None:
        if metric not in _BETTER:
            remedy = "pass greater_is_better=False for an error, True for a score"
            raise InputError("greater_is_better", f"True or False for {name_of(metric)}", "None", remedy)
        greater_is_better = _BETTER[metric] == "higher"
    elif not isinstance(greater_is_better, (bool, np.bool_)):
        raise InputError("greater_is_better", "True or False", repr(greater_is_better), "pass True or False")
    for name in ("probs", "targets", "weights"):
        if name in kwargs:
            source = "sample_weight" if name == "weights" else "the estimator and y"
            remedy = f"leave {name} out, because the scorer takes it from {source}"
            raise InputError(name, "no such argument in make_scorer", "a value", remedy)
    check_arguments(metric, kwargs, ("probs", "targets", "weights"))
    if kwargs.get("notion") == "multilabel":
        remedy = "score one label at a time, with one estimator for each label"
        raise InputError("notion", "'positive', 'top-label' or 'classwise'", "'multilabel'", remedy)
    return Scorer(metric, bool(greater_is_better), pos_label, kwargs)


def _check_metric(metric: Any) -> None:
    """Reject what is not a function of probabilities and targets that returns a score."""
    if not callable(metric):
        remedy = "pass the function itself, such as calibrant.expected_calibration_error, or 'ece'"
        raise InputError("metric", "a function or its name", repr(metric), remedy)
    if metric in _NO_NUMBER:
        remedy = "pass another measure, or your own function that returns one of the numbers"
        raise InputError("metric", "a measure that returns a number", name_of(metric), remedy)
    if next(iter(parameters_of(metric) or ()), "") == "y_true":
        remedy = "pass measures of scikit-learn to sklearn.metrics.make_scorer"
        raise InputError(
            "metric", "a function of (probs, targets)", f"{name_of(metric)}, whose first argument is y_true", remedy
        )
    if metric in [function for function, better in _BETTER.items() if better == "neither"]:
        remedy = "pass a function that returns the distance from the ideal value"
        raise InputError("metric", "a measure whose best value is its smallest or its largest", name_of(metric), remedy)
