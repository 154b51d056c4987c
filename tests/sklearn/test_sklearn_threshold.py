"""The classifier that abstains: against a naive loop and `certify_threshold`, and the conventions of scikit-learn."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest

sklearn = pytest.importorskip("sklearn")

import pandas as pd  # noqa: E402
import polars as pl  # noqa: E402
from scipy.special import expit, softmax  # noqa: E402
from scipy.stats import binom  # noqa: E402
from sklearn.base import BaseEstimator, ClassifierMixin, clone  # noqa: E402
from sklearn.datasets import make_blobs, make_classification  # noqa: E402
from sklearn.exceptions import NotFittedError  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.metrics import accuracy_score  # noqa: E402
from sklearn.model_selection import GridSearchCV, StratifiedGroupKFold, cross_val_predict, cross_val_score  # noqa: E402
from sklearn.naive_bayes import GaussianNB  # noqa: E402
from sklearn.neighbors import KNeighborsClassifier  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.svm import LinearSVC  # noqa: E402
from sklearn.utils import estimator_checks  # noqa: E402

import calibrant  # noqa: E402
from calibrant.errors import InputError  # noqa: E402
from calibrant.sklearn import ThresholdedClassifier  # noqa: E402

#: What cannot pass, and why.
ONE_AND_MINUS_ONE = {"check_classifiers_classes": "its classes are -1 and 1, so that abstaining needs another label"}
ABSTAINS = ONE_AND_MINUS_ONE | {"check_classifiers_train": "predict must equal the argmax of predict_proba in each row"}


class Ready(ClassifierMixin, BaseEstimator):
    """Returns its features as probabilities."""

    def __init__(self, classes=(0, 1), dtype="float64"):
        self.classes = classes
        self.dtype = dtype

    @property
    def classes_(self):
        return self.classes if isinstance(self.classes, np.ndarray) else np.array(self.classes)

    @property
    def n_features_in_(self):
        return len(self.classes)

    def fit(self, X, y):  # noqa: ARG002
        return self

    def predict_proba(self, X):
        return np.asarray(X).astype(self.dtype)

    def __sklearn_is_fitted__(self):
        return True


def binary(n=1_500, seed=0, dtype="float64"):
    """Return calibrated probabilities of two classes, and the classes 0 and 1."""
    rng = np.random.default_rng(seed)
    p = expit(rng.normal(0, 3, n)).astype(dtype)
    return np.column_stack([1 - p, p]), (rng.random(n) < p).astype(int)


def several(n=1_500, seed=0):
    """Return calibrated probabilities of three classes, and the classes 0 to 2."""
    rng = np.random.default_rng(seed)
    probs = softmax(rng.normal(0, 3, (n, 3)), axis=1)
    return probs, (rng.random((n, 1)) > probs.cumsum(axis=1)).sum(axis=1)


def naive(probs, decide, abstain=-1):
    """Return decisions row by row; ``decide`` returns the class, or None."""
    return [abstain if (label := decide(row.tolist())) is None else label for row in probs]


def largest(row):
    return row.index(max(row))


def by_class(probs, classes, **options):
    names = options.pop("class_names", None)
    return calibrant.certify_threshold(probs, classes, max_risk=0.15, per_class=True, class_names=names, **options)


# ---------------------------------------------------------------- the checks of scikit-learn


@pytest.mark.skipif(not hasattr(sklearn.utils, "get_tags"), reason="before scikit-learn 1.6 they differ")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("options", "failures"),
    [
        ({"threshold": 0.6}, ABSTAINS),
        pytest.param({"threshold": 0.0}, ONE_AND_MINUS_ONE, marks=pytest.mark.slow),
        # Some checks have 12 rows, too few for the default promise.
        pytest.param({"max_risk": 0.5, "confidence": 0.5}, ABSTAINS, marks=pytest.mark.slow),
    ],
)
def test_the_checks_of_scikit_learn(options, failures):
    model = ThresholdedClassifier(LogisticRegression(), **options)
    results = estimator_checks.check_estimator(model, expected_failed_checks=failures, on_skip=None)
    assert {result["check_name"] for result in results if result["status"] == "xfail"} == failures.keys()


# ---------------------------------------------------------------- kinds of thresholds


@pytest.mark.parametrize("threshold", [0, 0.5, np.float32(0.75), 0.9, 1.0, 1])
@pytest.mark.parametrize("make", [binary, several])
def test_a_number_is_the_least_confidence(threshold, make):
    probs, _ = make()
    probs[0] = np.eye(probs.shape[1])[1]
    probs[1] = 1 / probs.shape[1]  # of equal probabilities the first counts
    model = ThresholdedClassifier(Ready(tuple(range(probs.shape[1]))), threshold)
    expected = naive(probs, lambda row: largest(row) if max(row) >= threshold else None)
    assert model.predict(probs).tolist() == expected
    assert model.accepts(probs).tolist() == [label != -1 for label in expected]
    np.testing.assert_array_equal(model.predict_proba(probs), probs)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("width", [2, 3])
def test_fit_certifies_the_threshold_of_the_rows(dtype, width):
    probs, y = (binary if width == 2 else several)()
    names = np.array(["ash", "birch", "cedar"][:width])
    model = ThresholdedClassifier(Ready(names, dtype), max_risk=0.15, confidence=0.9).fit(probs, names[y])
    own = calibrant.certify_threshold(probs.astype(dtype), y, max_risk=0.15, confidence=0.9)
    assert model.threshold_.value == own.value
    assert 0 < own.coverage < 1
    assert not model.threshold_.approximate
    assert model.accepts(probs).sum() == own.n_automatic  # the very rows of the certificate
    assert (1 - model.score(probs, names[y])) == pytest.approx(own.risk, abs=1e-12)
    assert model.coverage(probs) == pytest.approx(own.coverage, abs=1e-12)
    expected = naive(probs.astype(dtype), lambda row: names[largest(row)] if max(row) >= own.value else None, "abstain")
    assert model.predict(probs).tolist() == expected
    given = ThresholdedClassifier(Ready(names, dtype), own)
    assert given.predict(probs).tolist() == expected


def test_each_predicted_class_has_its_threshold():
    probs, y = several()
    names = ["ash", "birch", "cedar"]
    probs[(probs.argmax(axis=1) == 2) & (np.arange(len(y)) % 50 > 0)] = [0.6, 0.3, 0.1]  # cedar is predicted rarely
    own = by_class(probs, y, class_names=names)
    limits = [own.by_group[name].value for name in names]
    assert limits[2] is None
    assert len(set(limits)) == 3

    def decide(row):
        k = largest(row)
        return k if limits[k] is not None and row[k] >= limits[k] else None

    expected = naive(probs, lambda row: None if (k := decide(row)) is None else names[k], "abstain")
    fitted = ThresholdedClassifier(Ready(names), max_risk=0.15, per_class=True).fit(probs, np.array(names)[y])
    indices = by_class(probs, y)  # by_group has the names 0, 1 and 2
    without = replace(own, by_group={name: own.by_group[name] for name in ("birch", "ash")})
    for model in (fitted, *(ThresholdedClassifier(Ready(names), given) for given in (own, indices, without))):
        assert model.predict(probs).tolist() == expected
    again = ThresholdedClassifier(Ready(), max_risk=0.15, per_class=True).fit(*binary())  # the names are the indices
    assert set(again.predict(binary()[0]).tolist()) == {0, 1, -1}


def test_names_of_predicted_classes_that_do_not_suit_the_classes():
    probs, y = several()
    own = by_class(probs, y, class_names=["1", "2", "3"])
    assert ThresholdedClassifier(Ready((1, 2, 3)), own).predict(probs).max() == 3
    ambiguous = replace(own, by_group={name: own.by_group[name] for name in ("1", "2")})
    with pytest.raises(
        InputError, match=r"threshold: expected predicted classes that are names or indices of .*not both"
    ):
        ThresholdedClassifier(Ready((1, 2, 3)), ambiguous).predict(probs)
    fitted = ThresholdedClassifier(Ready((1, 2, 3)), max_risk=0.15, per_class=True).fit(probs, y + 1)  # the remedy
    fitted.threshold_ = ambiguous
    assert set(fitted.predict(probs).tolist()) == {1, 2, -1}
    with pytest.raises(
        InputError, match=r"^threshold: expected predicted classes among ash, birch, cedar, got 1, 2, 3"
    ):
        ThresholdedClassifier(Ready(("ash", "birch", "cedar")), own).predict(probs)


def test_two_sided_thresholds_decide_both_classes():
    probs, y = binary()
    two = calibrant.certify_two_sided(probs[:, 1], y, yes_risk=0.1, no_risk=0.1)
    yes, no = two.yes.value, two.no.value
    rules = {
        two: lambda row: "yes" if row[1] >= yes else "no" if row[1] <= no else None,
        two.yes: lambda row: "yes" if row[1] >= yes else None,
        two.no: lambda row: "no" if row[1] <= no else None,
        replace(two, yes=replace(two.yes, value=None)): lambda row: "no" if row[1] <= no else None,
        replace(two, no=replace(two.no, value=None)): lambda row: "yes" if row[1] >= yes else None,
        # At a score that both sides accept, no decision is certified.
        replace(two, no=replace(two.no, value=1.0)): lambda row: None if row[1] >= yes else "no",
    }
    for threshold, rule in rules.items():
        model = ThresholdedClassifier(Ready(("no", "yes")), threshold)
        expected = naive(probs, rule, "abstain")
        assert model.predict(probs).tolist() == expected
        assert 0 < model.coverage(probs) < 1
    certified = ThresholdedClassifier(Ready(("no", "yes")), two)
    assert certified.accepts(probs).sum() == two.yes.n_automatic + two.no.n_automatic


def test_a_threshold_of_one_event_below_one_half_still_decides_for_the_event():
    probs, y = binary()
    positive = calibrant.certify_threshold(probs[:, 1], y, max_risk=0.4)
    assert positive.value < 0.5
    decided = ThresholdedClassifier(Ready(), positive).predict(probs)
    assert decided.tolist() == naive(probs, lambda row: 1 if row[1] >= positive.value else None)


@pytest.mark.filterwarnings("error")
def test_without_a_certified_threshold_nothing_is_decided():
    probs, y = binary(300)
    rng = np.random.default_rng(0)
    model = ThresholdedClassifier(Ready(), max_risk=0.01).fit(binary(600)[0], rng.integers(0, 2, 600))
    assert model.threshold_.value is None
    assert model.threshold_.reason
    for threshold in (model.threshold_, replace(model.threshold_, notion="positive")):
        given = ThresholdedClassifier(Ready(), threshold)
        assert not given.accepts(probs).any()
        assert given.coverage(probs) == 0
        assert math.isnan(given.score(probs, y))
        assert set(given.predict(probs).tolist()) == {-1}


@pytest.mark.parametrize(
    ("threshold", "message"),
    [
        (95, "expected a Threshold, a TwoSidedThreshold, a number from 0 to 1, or None, got 95; .* 0.95, not percent"),
        (-0.1, "expected a Threshold.* got -0.1; pass a number such as 0.9"),
        (math.nan, "expected a Threshold.* got nan"),
        (True, "expected a Threshold.* got True"),
        ("high", "expected a Threshold.* got 'high'"),
    ],
)
def test_what_is_not_a_threshold(threshold, message):
    probs, y = binary(200)
    model = ThresholdedClassifier(Ready(), threshold)
    for call in (lambda: model.predict(probs), lambda: model.fit(probs, y)):
        with pytest.raises(InputError, match=f"^threshold: {message}"):
            call()


def test_thresholds_that_do_not_suit_the_classes():
    probs, y = binary()
    three = Ready((0, 1, 2))
    two = calibrant.certify_two_sided(probs[:, 1], y, yes_risk=0.1, no_risk=0.1)
    expected = (
        "^threshold: expected a threshold for the confidence of the predicted class, because there are 3 classes, got "
        "a threshold for the probability of one event"
    )
    with pytest.raises(InputError, match=expected + ".*from estimator.predict_proba.X.$"):
        ThresholdedClassifier(three, two).predict(several()[0])
    with pytest.raises(InputError, match=expected + ".*pass threshold.value"):
        ThresholdedClassifier(three, two.yes).predict(several()[0])
    assert ThresholdedClassifier(three, two.yes.value).coverage(several()[0]) > 0
    with pytest.raises(InputError, match=r"^threshold: expected a threshold for 3 classes, got one for 2"):
        ThresholdedClassifier(three, calibrant.certify_threshold(probs, y, max_risk=0.1)).predict(several()[0])
    groups = calibrant.certify_threshold(probs, y, max_risk=0.1, groups=np.where(np.arange(1_500) % 2, "a", "b"))
    with pytest.raises(InputError, match=r"^threshold: expected one threshold for all rows, got thresholds of groups"):
        ThresholdedClassifier(Ready(), groups).predict(probs)
    assert ThresholdedClassifier(Ready(), groups.by_group["a"]).coverage(probs) > 0  # the remedy


# ---------------------------------------------------------------- the label for abstaining


@pytest.mark.parametrize(
    ("classes", "abstain", "label", "dtype"),
    [
        (np.array([0, 1]), None, -1, "int64"),
        (np.array([0, 1], "int32"), None, -1, "int32"),
        (np.array([3, 7], "uint8"), None, -1, "int16"),
        (np.array([1.0, 2.0]), None, -1, "float64"),
        (np.array([1.0, 2.0], "float32"), None, -1, "float32"),
        (np.array([-1, 1]), 0, 0, "int64"),
        (np.array([0, 1]), -9, -9, "int64"),
        (np.array([0, 1], "int8"), 999, 999, "int32"),
        (np.array([False, True]), -1, -1, "int8"),
        (np.array(["a", "b"]), None, "abstain", "<U7"),
        (np.array(["a", "b"]), "?", "?", "<U1"),
        (np.array(["a", "b"], object), None, "abstain", "<U7"),  # as classes_ has it
        (np.array([1, 2], object), None, -1, "int64"),
        (np.array(["a", "b"], np.dtypes.StringDType()), None, "abstain", np.dtypes.StringDType()),
    ],
)
def test_the_label_for_abstaining(classes, abstain, label, dtype):
    probs = np.array([[0.9, 0.1], [0.5, 0.5], [0.1, 0.9]])
    decided = ThresholdedClassifier(Ready(classes), 0.8, abstain=abstain).predict(probs)
    assert decided.tolist() == [classes.tolist()[0], label, classes.tolist()[1]]
    assert decided.dtype == np.dtype(dtype)


def test_nan_as_the_label_makes_numbers_of_integers():
    decided = ThresholdedClassifier(Ready(), 0.8, abstain=math.nan).predict([[0.1, 0.9], [0.5, 0.5]])
    np.testing.assert_array_equal(decided, [1.0, math.nan])


@pytest.mark.parametrize(
    ("classes", "abstain", "message", "works"),
    [
        ([-1, 1], None, "a label that is not a class, got None, which stands for -1; .* such as abstain=0", 0),
        ([-1, 0], None, "a label that is not a class, got None, which stands for -1; .* such as abstain=-2", -2),
        ([0.0, 1.0], 1, "a label that is not a class, got 1; pass another label, such as abstain=-1", -1),
        (["abstain", "b"], None, "a label .* stands for 'abstain'; .* such as abstain='undecided'", "undecided"),
        (["b", "undecided"], "b", "a label .* got 'b'; .* such as abstain='undecided_'", "undecided_"),
        ([False, True], None, "a label, because the classes are booleans, got None; pass abstain=-1, and c", -1),
        ([0, 1], "none", "a number, like the classes, got 'none'; pass abstain=-1", -1),
        (["a", "b"], -1, "text, like the classes, got -1; pass abstain='abstain'", "abstain"),
    ],
)
def test_labels_that_do_not_suit_the_classes(classes, abstain, message, works):
    probs, _ = binary(50)
    model = ThresholdedClassifier(Ready(np.array(classes)), 0.8, abstain=abstain)
    with pytest.raises(InputError, match=f"^abstain: expected {message}"):
        model.predict(probs)
    assert model.set_params(abstain=works).predict(probs).tolist().count(works) > 0  # the remedy


def test_classes_that_are_neither_numbers_nor_text():
    days = np.array(["2026-01-01", "2026-01-02"], "datetime64[D]")
    with pytest.raises(InputError, match=r"^estimator\.classes_: expected numbers or text, got dtype datetime64"):
        ThresholdedClassifier(Ready(days), 0.8).predict([[0.5, 0.5]])


def test_a_label_that_does_not_suit_is_an_error_of_fit():
    probs, y = binary()
    with pytest.raises(InputError, match=r"^abstain: expected a label that is not a class, got 1"):
        ThresholdedClassifier(Ready(), abstain=1).fit(probs, y)


# ---------------------------------------------------------------- the promise


def test_the_promise():
    n_sets, max_risk, confidence = 150, 0.2, 0.9
    steps = np.linspace(0.5, 1, 20_001)
    right = 0.55 + 0.4 * (steps - 0.5) / 0.5  # the probability that the predicted class is right, uniform confidence
    risks = (np.cumsum((1 - right)[::-1]) / np.arange(1, len(steps) + 1))[::-1]  # of rows with at least this confidence
    broken = certified = 0
    for seed in range(n_sets):
        rng = np.random.default_rng(seed)
        top, predicted = rng.uniform(0.5, 1, 500), rng.integers(0, 2, 500)
        p = np.where(predicted == 1, top, 1 - top)
        y = np.where(rng.random(500) < np.interp(top, steps, right), predicted, 1 - predicted)
        found = ThresholdedClassifier(Ready(), max_risk=max_risk, confidence=confidence)
        value = found.fit(np.column_stack([1 - p, p]), y).threshold_.value
        if value is not None:
            certified += 1
            broken += np.interp(value, steps, risks) > max_risk
    assert certified > 0.7 * n_sets
    assert broken <= binom.ppf(0.9999, n_sets, 1 - confidence)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:lbfgs failed to converge")
def test_the_promise_of_predictions_out_of_fold_is_approximate():
    """The number in the notes: with predictions out of fold 20 of 150 data sets have a larger risk, 13 %."""
    rng = np.random.default_rng(99)

    def rows(n, rng):
        X = rng.normal(size=(n, 200))
        return X, (rng.random(n) < expit(3 * X[:, 0] + 2 * X[:, 1] * X[:, 2])).astype(int)

    new, broken = rows(20_000, rng), 0
    for seed in range(150):
        model = ThresholdedClassifier(LogisticRegression(C=1e4, max_iter=300), max_risk=0.3, confidence=0.9)
        model.fit(*rows(300, np.random.default_rng(seed)))
        broken += 1 - model.score(*new) > 0.3  # NaN without a threshold
    assert 0.09 < broken / 150 < 0.18


# ---------------------------------------------------------------- fit


def test_a_weight_of_2_is_the_row_twice():
    probs, y = binary(800)
    weights = np.arange(800) % 3
    weighted = ThresholdedClassifier(Ready(), max_risk=0.1).fit(probs, y, sample_weight=weights)
    repeated = ThresholdedClassifier(Ready(), max_risk=0.1).fit(probs.repeat(weights, axis=0), y.repeat(weights))
    plain = ThresholdedClassifier(Ready(), max_risk=0.1).fit(probs, y)
    assert weighted.threshold_.value == repeated.threshold_.value != plain.threshold_.value
    new, truth = binary(500, seed=1)
    twice = np.arange(500) % 3
    for name, arguments in (("score", (new, truth)), ("coverage", (new,))):
        value = getattr(plain, name)(*arguments, sample_weight=twice)
        assert value == pytest.approx(getattr(plain, name)(*(part.repeat(twice, axis=0) for part in arguments)))
    assert math.isnan(plain.score(new, truth, np.zeros(500)))
    assert math.isnan(plain.coverage(new, np.zeros(500)))


@pytest.mark.parametrize("method", ["closed", "fixed-sequence", "betting"])
def test_clusters_and_the_method_reach_certify_threshold(method):
    probs, y = binary(1_200)
    clusters = np.arange(1_200) // 3
    model = ThresholdedClassifier(Ready(), max_risk=0.2, method=method).fit(probs, y, clusters=clusters)
    own = calibrant.certify_threshold(probs, y, max_risk=0.2, method=method, clusters=clusters)
    assert model.threshold_.value == own.value is not None
    assert model.threshold_.method == method
    assert model.threshold_.clusters == own.clusters
    assert model.threshold_.approximate
    if method == "betting":
        exact = ThresholdedClassifier(Ready(), max_risk=0.2, largest_cluster=3).fit(probs, y, clusters=clusters)
        assert (exact.threshold_.method, exact.threshold_.approximate) == ("betting", False)
        assert exact.threshold_.value == own.value


def test_a_classifier_is_fitted_and_certified_out_of_fold():
    X, y = make_classification(1_200, random_state=0)
    clusters, weights = np.arange(1_200) // 3, np.arange(1_200) % 2 + 1
    for options, splits in (
        ({}, 4),
        ({"clusters": clusters}, list(StratifiedGroupKFold(4).split(X, y, clusters))),
        ({"sample_weight": weights}, 4),
    ):
        params = {"sample_weight": weights} if "sample_weight" in options else {}
        model = ThresholdedClassifier(GaussianNB(), max_risk=0.15, cv=4).fit(X, y, **options)
        probs = cross_val_predict(GaussianNB(), X, y, cv=splits, method="predict_proba", params=params)
        own = calibrant.certify_threshold(
            probs, y, max_risk=0.15, clusters=options.get("clusters"), weights=options.get("sample_weight")
        )
        assert model.threshold_.value == own.value is not None
        assert model.threshold_.approximate
        assert "out-of-fold predictions" in model.threshold_.flag
        assert "out-of-fold predictions" in " ".join(str(model.threshold_).split())
        alone = GaussianNB().fit(X, y, **params)
        np.testing.assert_array_equal(model.predict_proba(X), alone.predict_proba(X))
        expected = naive(alone.predict_proba(X), lambda row, t=own.value: largest(row) if max(row) >= t else None)
        assert model.predict(X).tolist() == expected
    assert not hasattr(model.estimator, "classes_")
    named = [
        ThresholdedClassifier(GaussianNB(), max_risk=0.15, cv=cv).fit(X, y, clusters=clusters).threshold_.value
        for cv in (None, 5, StratifiedGroupKFold(5))
    ]
    assert len(set(named)) == 1


@pytest.mark.parametrize("frozen", [False, True])
def test_a_fitted_classifier_remains(frozen):
    X, y = make_classification(1_500, random_state=0)
    fitted = LogisticRegression().fit(X[:300], y[:300])
    estimator = pytest.importorskip("sklearn.frozen").FrozenEstimator(fitted) if frozen else fitted
    before = pickle.dumps(fitted)
    model = ThresholdedClassifier(estimator, max_risk=0.1).fit(X[300:], y[300:])
    assert pickle.dumps(fitted) == before
    assert model.estimator_ is estimator
    own = calibrant.certify_threshold(fitted.predict_proba(X[300:]), y[300:], max_risk=0.1)
    assert model.threshold_.value == own.value
    assert (model.n_features_in_, model.classes_.tolist()) == (20, [0, 1])
    assert (clone(model).fit(X, y).estimator_ is estimator) == frozen  # as the documentation says


def test_a_given_threshold_needs_no_fit_if_the_estimator_is_fitted():
    X, y = make_classification(400, random_state=0)
    unfitted = ThresholdedClassifier(LogisticRegression(), 0.8)
    fitted = LogisticRegression().fit(X, y)
    for model in (unfitted, ThresholdedClassifier(fitted), ThresholdedClassifier(LogisticRegression())):
        for call in (model.predict, model.accepts, model.predict_proba, model.coverage):
            with pytest.raises(NotFittedError):
                call(X)
        assert not hasattr(model, "threshold_")
    assert not hasattr(unfitted, "classes_")
    assert not hasattr(unfitted, "n_features_in_")
    ready = ThresholdedClassifier(fitted, 0.8)
    assert ready.classes_.tolist() == [0, 1]
    assert ready.n_features_in_ == 20
    np.testing.assert_array_equal(unfitted.fit(X, y).predict(X), ready.predict(X))
    assert not hasattr(unfitted, "threshold_")
    assert ready.fit(X, y).estimator_ is fitted
    np.testing.assert_array_equal(unfitted.predict(X), ready.predict(X))


def test_a_threshold_that_is_set_later_replaces_the_certified_one():
    probs, y = binary()
    model = ThresholdedClassifier(Ready(), max_risk=0.1).fit(probs, y)
    certified = model.accepts(probs)
    model.set_params(threshold=0.99)
    np.testing.assert_array_equal(model.accepts(probs), probs.max(axis=1) >= 0.99)
    np.testing.assert_array_equal(model.set_params(threshold=None).accepts(probs), certified)
    model.set_params(threshold=0.99).fit(probs, y)
    with pytest.raises(NotFittedError):
        model.set_params(threshold=None).predict(probs)


def test_weights_that_an_estimator_does_not_take():
    X, y = make_classification(600, random_state=0)
    model = ThresholdedClassifier(KNeighborsClassifier(30), max_risk=0.2)
    with pytest.warns(
        UserWarning, match="KNeighborsClassifier does not take sample_weight, so that only the threshold"
    ):
        model.fit(X, y, sample_weight=np.ones(600))
    with pytest.warns(UserWarning, match="KNeighborsClassifier does not take sample_weight, so they are not used"):
        model.set_params(threshold=0.8).fit(X, y, sample_weight=np.ones(600))
    pipeline = ThresholdedClassifier(make_pipeline(StandardScaler(), GaussianNB()), 0.8)
    weights = np.arange(600) % 3 + 1
    pipeline.fit(X, y, sample_weight=weights, gaussiannb__sample_weight=weights)
    own = make_pipeline(StandardScaler(), GaussianNB()).fit(X, y, gaussiannb__sample_weight=weights)
    np.testing.assert_array_equal(pipeline.predict_proba(X), own.predict_proba(X))


def test_metadata_routing():
    X, y = make_classification(600, random_state=0)
    weights = np.arange(600) % 3 + 1
    direct = ThresholdedClassifier(GaussianNB(), max_risk=0.2).fit(X, y, sample_weight=weights)
    with sklearn.config_context(enable_metadata_routing=True):
        model = ThresholdedClassifier(GaussianNB().set_fit_request(sample_weight=True), max_risk=0.2)
        assert model.fit(X, y, sample_weight=weights).threshold_.value == direct.threshold_.value
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        outer = make_pipeline(scaler, model.set_fit_request(sample_weight=True, clusters=True))
        outer.fit(X, y, sample_weight=weights, clusters=np.arange(600) // 5)
        assert outer[-1].threshold_.clusters["clusters"] == 120


@pytest.mark.parametrize(
    ("estimator", "y", "kwargs", "message"),
    [
        (LinearSVC(), None, {}, "estimator: expected a classifier with predict_proba, got a LinearSVC"),
        (GaussianNB(), np.zeros(600), {}, "y: expected labels of at least two classes, .* got 1 class; fit on rows"),
        (GaussianNB(), None, {"sample_weight": np.zeros(600)}, "sample_weight: expected a weight above zero"),
        (GaussianNB(), None, {"sample_weight": [1, 2]}, r"sample_weight: expected 600 numbers, .* got shape \(2,\)"),
        (GaussianNB(), None, {"sample_weight": ["1"] * 600}, "sample_weight: expected real numbers, got strings"),
        (GaussianNB(), None, {"clusters": np.zeros((600, 2))}, "clusters: expected 600 labels, one for each row"),
    ],
)
def test_what_fit_refuses(estimator, y, kwargs, message):
    X, labels = make_classification(600, random_state=0)
    with pytest.raises(InputError, match=f"^{message}"):
        ThresholdedClassifier(estimator).fit(X, labels if y is None else y, **kwargs)


def test_rows_that_cannot_certify():
    probs, y = binary()
    with pytest.raises(InputError, match=r"expected at least \d+ rows"):
        ThresholdedClassifier(Ready()).fit(probs[:40], y[:40])
    with pytest.raises(InputError, match=r"^method: expected one of"):
        ThresholdedClassifier(Ready(), method="open").fit(probs, y)
    with pytest.raises(InputError, match=r"^y: expected labels among estimator\.classes_, 0, 1, got 2 at row 0"):
        ThresholdedClassifier(Ready()).fit(probs, np.where(np.arange(1_500) == 0, 2, y))
    with pytest.raises(ValueError, match="continuous"):
        ThresholdedClassifier(Ready()).fit(probs, probs[:, 0])


@pytest.mark.parametrize(
    ("probs", "message"),
    [
        ([[0.5, 0.5], [math.nan, 0.5]], "expected finite numbers, got nan at row 1"),
        ([[0.5, 0.5], [0.5, 0.6]], "expected rows that sum to 1"),
        ([[1.5, -0.5]], r"expected values in \[0, 1\]"),
        ([[0.2, 0.3, 0.5]], r"expected a column for each of 2 classes, got shape \(1, 3\)"),
        ([0.2, 0.3], r"expected a column for each of 2 classes, got shape \(2,\)"),
    ],
)
def test_probabilities_that_predict_refuses(probs, message):
    with pytest.raises(InputError, match=rf"^estimator\.predict_proba\(X\): {message}"):
        ThresholdedClassifier(Ready(), 0.8).predict(probs)


def test_an_estimator_of_one_class():
    with pytest.raises(InputError, match=r"^estimator: expected at least two classes, got one class, 0"):
        ThresholdedClassifier(Ready((0,)), 0.8).predict([[1.0]])


def test_rounding_is_read_as_1():
    assert ThresholdedClassifier(Ready(), 1.0).predict([[1 + 2e-16, -2e-16]]).tolist() == [0]


# ---------------------------------------------------------------- score and coverage


def test_the_score_is_the_accuracy_of_decided_rows():
    probs, codes = several()
    y = np.array(["ash", "birch", "cedar"])[codes]
    model = ThresholdedClassifier(Ready(("ash", "birch", "cedar")), 0.9)
    pairs = [(a, b) for a, b in zip(model.predict(probs).tolist(), y.tolist(), strict=True) if a != "abstain"]
    assert model.score(probs, y) == pytest.approx(sum(a == b for a, b in pairs) / len(pairs))
    assert model.coverage(probs) == pytest.approx(len(pairs) / len(y))
    everything = model.set_params(threshold=0)
    assert everything.score(probs, pd.Series(y)) == accuracy_score(y, everything.predict(probs))
    assert everything.coverage(probs) == 1
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.score(probs, y[:-1])
    with pytest.raises(InputError, match=r"^sample_weight: expected 1500 numbers, one for each row, got shape \(2,\)"):
        model.score(probs, y, [1, 2])
    with pytest.raises(InputError, match=r"^sample_weight: expected 1500 numbers"):
        model.coverage(probs, [1, 2])


# ---------------------------------------------------------------- conventions


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("series", [pd.Series, pl.Series, list])
def test_frames_and_labels_of_any_type(frame, series):
    X, codes = make_blobs(900, centers=3, cluster_std=1.5, random_state=0)
    y = np.array(["ash", "birch", "cedar"])[codes]
    features = frame({"f0": X[:, 0], "f1": X[:, 1]})
    model = ThresholdedClassifier(GaussianNB(), max_risk=0.2).fit(features, series(y.tolist()))
    plain = ThresholdedClassifier(GaussianNB(), max_risk=0.2).fit(X, y)
    assert model.predict(features).tolist() == plain.predict(X).tolist()
    assert 0.7 < model.score(features, series(y.tolist())) == plain.score(X, y)
    own = getattr(GaussianNB().fit(features, y), "feature_names_in_", None)  # older ones do not read those of polars
    np.testing.assert_array_equal(getattr(model, "feature_names_in_", None), own)
    assert not hasattr(plain, "feature_names_in_")


def test_a_search_and_cross_validation():
    X, y = make_classification(600, random_state=0)
    model = ThresholdedClassifier(make_pipeline(StandardScaler(), GaussianNB()), 0.8)
    grid = {"threshold": [0.6, 0.9], "estimator__gaussiannb__var_smoothing": [1e-9, 0.5]}
    search = GridSearchCV(model, grid, cv=3).fit(X, y)
    assert search.best_params_["threshold"] == 0.9  # the score rises with the threshold
    assert cross_val_score(model, X, y, cv=3).min() > cross_val_score(model.set_params(threshold=0), X, y, cv=3).min()


def test_copies():
    probs, y = binary()
    two = calibrant.certify_two_sided(probs[:, 1], y, yes_risk=0.1, no_risk=0.1)
    classwise = by_class(probs, y)
    for threshold in (None, 0.8, two, two.no, classwise):
        model = ThresholdedClassifier(Ready(), threshold, max_risk=0.1, abstain=-5)
        copied = clone(model)
        assert copied.get_params(deep=False).keys() == model.get_params(deep=False).keys()
        assert repr(copied) == repr(model)
        fitted = copied.fit(probs, y)
        again = pickle.loads(pickle.dumps(fitted))
        np.testing.assert_array_equal(again.predict(probs), fitted.predict(probs))
        assert set(again.predict(probs).tolist()) <= {-5, 0, 1}
        assert 0 < again.coverage(probs) < 1
        assert "ThresholdedClassifier" in fitted._repr_html_()


def test_the_tags_describe_the_input():
    get_tags = getattr(sklearn.utils, "get_tags", None)
    if get_tags is None:
        pytest.skip("scikit-learn has tags as objects from 1.6 on")
    tags = get_tags(ThresholdedClassifier(LogisticRegression(), 0.8))
    assert (tags.estimator_type, tags.input_tags.sparse, tags.classifier_tags.multi_class) == ("classifier", True, True)
    assert not get_tags(ThresholdedClassifier(GaussianNB())).input_tags.sparse
    probs, y = binary()
    two = calibrant.certify_two_sided(probs[:, 1], y, yes_risk=0.1, no_risk=0.1)
    for threshold in (two, two.yes):
        assert not get_tags(ThresholdedClassifier(GaussianNB(), threshold)).classifier_tags.multi_class

    class Binary(GaussianNB):
        def __sklearn_tags__(self):
            tags = super().__sklearn_tags__()
            tags.classifier_tags.multi_class = False
            return tags

    assert not get_tags(ThresholdedClassifier(Binary())).classifier_tags.multi_class
