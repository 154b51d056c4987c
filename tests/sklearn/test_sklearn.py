"""The scorers against calibrant's own functions on the same folds, the displays against the numbers of their reports.

Tolerance: a scorer and the function called by hand add the same doubles in the same order, so they are equal; against
naive formulas 1e-12.
"""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest

sklearn = pytest.importorskip("sklearn")

import pandas as pd  # noqa: E402
from scipy import stats  # noqa: E402
from sklearn.base import BaseEstimator, ClassifierMixin, clone  # noqa: E402
from sklearn.calibration import CalibrationDisplay  # noqa: E402
from sklearn.datasets import load_iris, make_classification  # noqa: E402
from sklearn.ensemble import RandomForestClassifier  # noqa: E402
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError  # noqa: E402
from sklearn.inspection import permutation_importance  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.metrics import brier_score_loss, log_loss  # noqa: E402
from sklearn.model_selection import (  # noqa: E402
    GridSearchCV,
    KFold,
    LearningCurveDisplay,
    StratifiedKFold,
    TunedThresholdClassifierCV,
    cross_val_score,
    cross_validate,
)
from sklearn.naive_bayes import GaussianNB  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.svm import LinearSVC  # noqa: E402
from sklearn.tree import DecisionTreeClassifier  # noqa: E402

import calibrant  # noqa: E402
from calibrant.errors import InputError, MissingDependencyError  # noqa: E402
from calibrant.errors.exceptions import install_command  # noqa: E402
from calibrant.errors.faults import Fault  # noqa: E402
from calibrant.sklearn import ReliabilityDisplay, make_scorer  # noqa: E402
from calibrant.sklearn import display as displays  # noqa: E402
from calibrant.sklearn import scorer as scorers  # noqa: E402

#: Every measure that returns a number, with an argument of its own.
MEASURES = {
    "accuracy": (calibrant.accuracy, {}),
    "ace": (calibrant.adaptive_calibration_error, {"n_bins": 5}),
    "auroc": (calibrant.auroc, {}),
    "brier": (calibrant.brier_score, {}),
    "ece": (calibrant.expected_calibration_error, {"n_bins": 10}),
    "folded ece": (calibrant.expected_calibration_error, {"notion": "top-label"}),
    "mce": (calibrant.maximum_calibration_error, {"n_bins": 4}),
    "nll": (calibrant.negative_log_likelihood, {"eps": 1e-9}),
    "rmsce": (calibrant.root_mean_square_calibration_error, {"debiased": True}),
    "smece": (calibrant.smooth_calibration_error, {}),
    "top-label brier": (calibrant.top_label_brier_score, {}),
    "skill": (calibrant.brier_skill_score, {}),
    "log loss skill": (calibrant.log_loss_skill_score, {}),
    "ici": (calibrant.integrated_calibration_index, {"span": 0.5}),
    "kuiper": (calibrant.kuiper_calibration_error, {}),
    "cutoff": (calibrant.cutoff_calibration_error, {}),
    "gaussian debiased": (calibrant.gaussian_debiased_calibration_error, {"n_bins": 8}),
    "kernel": (calibrant.kernel_calibration_error, {"width": 0.1}),
    "lipschitz": (calibrant.lipschitz_calibration_error, {}),
    "sweep": (calibrant.monotone_sweep_calibration_error, {"norm": "l2"}),
    "truthful": (calibrant.truthful_calibration_error, {}),
}
#: The ones that are better when higher.
HIGHER = (
    calibrant.accuracy,
    calibrant.auroc,
    calibrant.brier_skill_score,
    calibrant.log_loss_skill_score,
    calibrant.spherical_score,
)
CLASSWISE = {
    "classwise": (calibrant.classwise_calibration_error, {"norm": "l2"}),
    "tace": (calibrant.thresholded_adaptive_calibration_error, {"threshold": 0.1}),
    "top k": (calibrant.top_k_calibration_error, {"k": 1}),
    "top r": (calibrant.top_r_calibration_error, {"r": 2}),
    "rps": (calibrant.ranked_probability_score, {}),
    "spherical": (calibrant.spherical_score, {}),
    "classwise notion": (calibrant.expected_calibration_error, {"notion": "classwise"}),
}
NAMES = np.array(["birch", "ash", "cedar"])  # not in the order of their codes


class Sharpened(ClassifierMixin, BaseEstimator):
    """What is known to be true, P(y = classes_[1]) = 1 / (1 + exp(-x)), its log-odds multiplied by a factor."""

    def __init__(self, factor=1.0):
        self.factor = factor

    def fit(self, X, y, sample_weight=None):  # noqa: ARG002
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        p = 1 / (1 + np.exp(-self.factor * np.asarray(X, dtype=float)[:, 0]))
        return np.column_stack([1 - p, p])

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class Fixed(ClassifierMixin, BaseEstimator):
    """Predicts what it is given, whatever the rows."""

    def __init__(self, probs, classes):
        self.probs, self.classes = probs, classes
        self.classes_ = classes

    def fit(self, X, y):  # noqa: ARG002
        return self

    def predict_proba(self, X):  # noqa: ARG002
        return self.probs


def known(n=2000, seed=0):
    """Make rows of which the truth is known."""
    rng = np.random.default_rng(seed)
    x = 2 * rng.normal(size=n)
    return x[:, None], (rng.random(n) < 1 / (1 + np.exp(-x))).astype(int)


def two(names=None):
    X, y = make_classification(400, 6, n_informative=3, flip_y=0.2, random_state=0)
    return X, y if names is None else np.asarray(names)[y]


def drawing():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    return plt


def three():
    X, y = load_iris(return_X_y=True)
    return X, y


def zero(probs, targets):  # noqa: ARG001
    return 0.0


def naive_ece(probs, outcomes, n_bins):
    """Add up the bins ((j-1)/M, j/M], one after another."""
    total = 0.0
    for j in range(n_bins):
        rows = [i for i, p in enumerate(probs) if (p > j / n_bins or j == 0) and p <= (j + 1) / n_bins]
        if rows:
            total += abs(np.mean([probs[i] for i in rows]) - np.mean([outcomes[i] for i in rows])) * len(rows)
    return total / len(probs)


# ---------------------------------------------------------------- a scorer's number


@pytest.mark.parametrize("measure", MEASURES)
def test_each_fold_scores_what_the_measure_says_by_hand_of_two_classes(measure):
    metric, kwargs = MEASURES[measure]
    X, y = two()
    folds = list(StratifiedKFold(4).split(X, y))
    scores = cross_val_score(GaussianNB(), X, y, scoring=make_scorer(metric, **kwargs), cv=folds)
    sign = 1 if metric in HIGHER else -1
    for score, (train, test) in zip(scores, folds, strict=True):
        probs = GaussianNB().fit(X[train], y[train]).predict_proba(X[test])[:, 1]
        assert score == sign * metric(probs, y[test], **kwargs)


@pytest.mark.parametrize("measure", [*MEASURES, *CLASSWISE])
def test_each_fold_scores_what_the_measure_says_by_hand_of_three_classes_with_names(measure):
    metric, kwargs = (MEASURES | CLASSWISE)[measure]
    X, codes = three()
    y = NAMES[codes]
    folds = list(StratifiedKFold(3).split(X, y))
    scores = cross_val_score(GaussianNB(), X, y, scoring=make_scorer(metric, **kwargs), cv=folds)
    sign = 1 if metric in HIGHER else -1
    for score, (train, test) in zip(scores, folds, strict=True):
        probs = GaussianNB().fit(X[train], y[train]).predict_proba(X[test])
        columns = {"ash": 0, "birch": 1, "cedar": 2}
        assert score == sign * metric(probs, [columns[name] for name in y[test]], **kwargs)


@pytest.mark.parametrize("measure", CLASSWISE)
def test_classwise_measures_get_both_columns_of_two_classes(measure):
    metric, kwargs = CLASSWISE[measure]
    X, y = two(["no", "yes"])
    model = GaussianNB().fit(X, y)
    expected = metric(model.predict_proba(X), (y == "yes").astype(int), **kwargs)
    assert make_scorer(metric, **kwargs)(model, X, y) == (expected if metric in HIGHER else -expected)


def test_the_calibration_error_of_a_scorer_is_the_naive_sum_over_bins():
    X, y = two()
    model = GaussianNB().fit(X, y)
    score = make_scorer(calibrant.expected_calibration_error, n_bins=10)(model, X, y)
    assert score == pytest.approx(-naive_ece(model.predict_proba(X)[:, 1], y, 10), abs=1e-12)


def test_proper_scores_are_those_of_scikit_learn():
    X, y = two(["no", "yes"])
    model = LogisticRegression().fit(X, y)
    brier = brier_score_loss(y, model.predict_proba(X)[:, 1], pos_label="yes")
    assert make_scorer(calibrant.brier_score)(model, X, y) == pytest.approx(-brier, abs=1e-12)
    for X, y in (two(["no", "yes"]), three()):
        model = GaussianNB(var_smoothing=0.1).fit(X, y)
        nll = log_loss(y, model.predict_proba(X), labels=model.classes_)
        assert make_scorer(calibrant.negative_log_likelihood)(model, X, y) == pytest.approx(-nll, abs=1e-12)


@pytest.mark.parametrize("labels", [[0, 1], [-1, 1], [1, 2], ["a", "b"], [False, True], [7.0, 8.0]])
def test_the_names_of_labels_play_no_part(labels):
    X, y = two()
    named = np.array(labels)[y]
    scorer = make_scorer(calibrant.expected_calibration_error)
    expected = scorer(GaussianNB().fit(X, y), X, y)
    assert scorer(GaussianNB().fit(X, named), X, named) == expected


@pytest.mark.parametrize(
    "container",
    [
        list,
        pd.Series,
        lambda y: pd.Series(y, dtype="category"),
        lambda y: pd.Series(y, index=np.arange(len(y)) * 7),
        lambda y: y.astype(object),
        lambda y: y[:, None],
    ],
)
def test_labels_come_in_any_container(container):
    X, y = two(["no", "yes"])
    model = GaussianNB().fit(X, y)
    scorer = make_scorer(calibrant.brier_score)
    assert scorer(model, X, container(y)) == scorer(model, X, y)


def test_labels_may_be_of_another_type_of_number_than_those_of_the_fit():
    X, y = two()
    model = GaussianNB().fit(X, y)
    scorer = make_scorer(calibrant.brier_score)
    assert scorer(model, X, y.astype(float)) == scorer(model, X, y.astype(bool)) == scorer(model, X, y)


def test_frames_and_pipelines_are_scored():
    X, y = two(["no", "yes"])
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(frame, y)
    expected = calibrant.brier_score(model.predict_proba(frame)[:, 1], y == "yes")
    assert make_scorer(calibrant.brier_score)(model, frame, pd.Series(y)) == -expected


def test_a_label_judged_by_pos_label_is_the_column_of_its_name():
    X, y = two(["no", "yes"])
    model = GaussianNB().fit(X, y)
    of_no = make_scorer(calibrant.expected_calibration_error, pos_label="no", n_bins=7)
    assert of_no(model, X, y) == -calibrant.expected_calibration_error(model.predict_proba(X)[:, 0], y == "no", 7)

    # The errors of a score and of its complement are equal, their means over rows with the event are not.
    def mean_of_events(probs, targets):
        return float(probs[targets == 1].mean())

    labels = ({"pos_label": "no"}, {"pos_label": "yes"}, {})
    no, yes, default = (make_scorer(mean_of_events, greater_is_better=True, **label) for label in labels)
    assert default(model, X, y) == yes(model, X, y)
    assert abs(yes(model, X, y) - no(model, X, y)) > 1e-3


def test_one_of_three_classes_is_judged_against_the_rest():
    X, codes = three()
    y = NAMES[codes]
    model = GaussianNB(var_smoothing=0.1).fit(X, y)
    for k, name in enumerate(["ash", "birch", "cedar"]):
        score = make_scorer(calibrant.expected_calibration_error, pos_label=name)(model, X, y)
        assert score == -calibrant.expected_calibration_error(model.predict_proba(X)[:, k], y == name)


def test_a_class_that_a_fold_lacks_keeps_its_column():
    X, codes = three()
    y = NAMES[codes]
    model = GaussianNB(var_smoothing=0.1).fit(X, y)
    fold = y != "ash"  # the first column
    expected = calibrant.expected_calibration_error(model.predict_proba(X[fold]), np.where(y[fold] == "cedar", 2, 1))
    assert make_scorer(calibrant.expected_calibration_error)(model, X[fold], y[fold]) == -expected


@pytest.mark.parametrize("present", ["no", "yes"])
def test_a_fold_with_one_of_two_labels_is_scored(present):
    X, y = two(["no", "yes"])
    model = GaussianNB().fit(X, y)
    fold = y == present
    expected = np.mean((model.predict_proba(X[fold])[:, 1] - (present == "yes")) ** 2)
    assert make_scorer(calibrant.brier_score)(model, X[fold], y[fold]) == pytest.approx(-expected, abs=1e-12)


def test_folds_that_lack_a_class_of_a_whole_cross_validation():
    X, codes = three()
    order = np.concatenate([np.arange(0, 100), np.arange(100, 150)])  # the last fold of three is one class, by itself
    folds = [
        (np.delete(order, np.arange(k, 150, 3)), order[k:50:3]) for k in range(3)
    ]  # tested on the first class alone
    scores = cross_val_score(
        GaussianNB(), X, NAMES[codes], scoring=make_scorer(calibrant.brier_score), cv=folds, error_score="raise"
    )
    for score, (train, test) in zip(scores, folds, strict=True):
        probs = GaussianNB().fit(X[train], codes[train]).predict_proba(X[test])
        assert score == pytest.approx(-calibrant.brier_score(probs, codes[test]), abs=1e-12)


def test_a_measure_of_ones_own_gets_probs_first_and_indices_and_its_arguments():
    got = {}

    def own(probs, targets, *, weights=None, power):
        got.update(probs=probs, targets=targets, weights=weights, power=power)
        return np.float32(0.25)

    X, codes = three()
    model = GaussianNB().fit(X, NAMES[codes])
    score = make_scorer(own, greater_is_better=True, power=3)(model, X, NAMES[codes], sample_weight=np.ones(150))
    assert score == 0.25
    assert type(score) is float
    assert got["power"] == 3
    np.testing.assert_array_equal(got["probs"], model.predict_proba(X))
    np.testing.assert_array_equal(got["targets"], np.searchsorted(model.classes_, NAMES[codes]))
    np.testing.assert_array_equal(got["weights"], np.ones(150))


def test_a_part_of_a_decomposition_is_a_measure_of_ones_own():
    def miscalibration(probs, targets, **kwargs):
        return calibrant.score_decomposition(probs, targets, **kwargs).miscalibration

    X, y = two()
    model = GaussianNB().fit(X, y)
    expected = calibrant.score_decomposition(model.predict_proba(X)[:, 1], y, score="log").miscalibration
    assert make_scorer(miscalibration, greater_is_better=False, score="log")(model, X, y) == -expected


# ---------------------------------------------------------------- the sign


@pytest.mark.parametrize("measure", [*MEASURES, *CLASSWISE])
def test_of_every_own_measure_it_is_known_whether_greater_is_better(measure):
    metric, kwargs = (MEASURES | CLASSWISE)[measure]
    X, y = known()
    scorer = make_scorer(metric, **kwargs)
    perfect = Fixed(np.eye(2)[y], np.array([0, 1]))
    wrong = Fixed(np.eye(2)[1 - y], np.array([0, 1]))
    assert scorer.greater_is_better == (metric in HIGHER)
    assert scorer(perfect, X, y) > scorer(wrong, X, y)


def test_every_public_measure_is_known_to_the_scorers():
    public = {getattr(calibrant.measures, name) for name in calibrant.measures.__all__}
    assert {*scorers._BETTER, *scorers._NO_NUMBER} == {metric for metric in public if inspect.isfunction(metric)}
    assert {metric for metric, _ in (MEASURES | CLASSWISE).values()} == {
        metric for metric, better in scorers._BETTER.items() if better != "neither"
    }


@pytest.mark.parametrize("name", ["oe_ratio", "calibration_slope", "calibration_intercept"])
def test_what_is_right_in_between_is_no_score(name):
    with pytest.raises(InputError, match="metric: expected a measure whose best value is its smallest or its largest"):
        make_scorer(name)
    with pytest.raises(InputError, match="metric: expected a measure whose best value is its smallest or its largest"):
        make_scorer(name, greater_is_better=True)


def test_the_sign_can_be_said():
    X, y = two()
    model = GaussianNB().fit(X, y)
    lower = make_scorer(calibrant.brier_score)(model, X, y)
    assert make_scorer(calibrant.brier_score, greater_is_better=True)(model, X, y) == -lower > 0


def test_a_partial_of_an_own_measure_keeps_its_sign():
    scorer = make_scorer(functools.partial(calibrant.expected_calibration_error, n_bins=5))
    X, y = two()
    model = GaussianNB().fit(X, y)
    assert scorer(model, X, y) == -calibrant.expected_calibration_error(model.predict_proba(X)[:, 1], y, 5)
    both = functools.partial(calibrant.classwise_calibration_error, n_bins=5)
    expected = calibrant.classwise_calibration_error(model.predict_proba(X), y, 5)
    assert make_scorer(both)(model, X, y) == -expected


# ---------------------------------------------------------------- choosing models


@pytest.mark.parametrize("measure", ["ece", "brier", "nll", "smece"])
def test_a_search_chooses_the_calibrated_model(measure):
    metric, kwargs = MEASURES[measure]
    X, y = known(4000)
    search = GridSearchCV(Sharpened(), {"factor": [0.3, 1.0, 3.0]}, scoring=make_scorer(metric, **kwargs), cv=4)
    search.fit(X, y)
    assert search.best_params_ == {"factor": 1.0}
    folds = [metric(Sharpened(1.0).fit(X, y).predict_proba(X[t])[:, 1], y[t], **kwargs) for _, t in folds_of(X, y, 4)]
    assert search.best_score_ == pytest.approx(-np.mean(folds), abs=1e-12)
    accuracy = GridSearchCV(Sharpened(), {"factor": [0.3, 1.0, 3.0]}, scoring="accuracy", cv=4).fit(X, y)
    assert len(set(accuracy.cv_results_["mean_test_score"])) == 1  # which cannot tell them apart


def folds_of(X, y, n):
    return StratifiedKFold(n).split(X, y)


def test_a_search_by_accuracy_maximises_it():
    X, y = two()
    own = GridSearchCV(LogisticRegression(), {"C": [1e-3, 1.0]}, scoring=make_scorer(calibrant.accuracy)).fit(X, y)
    usual = GridSearchCV(LogisticRegression(), {"C": [1e-3, 1.0]}, scoring="accuracy").fit(X, y)
    assert own.best_params_ == usual.best_params_
    np.testing.assert_allclose(own.cv_results_["mean_test_score"], usual.cv_results_["mean_test_score"], atol=1e-12)


def test_a_halving_search_chooses_the_calibrated_model():
    from sklearn.experimental import enable_halving_search_cv  # noqa: F401
    from sklearn.model_selection import HalvingGridSearchCV

    X, y = known(4000)
    scorer = make_scorer(calibrant.brier_score)
    search = HalvingGridSearchCV(Sharpened(), {"factor": [0.2, 1.0, 4.0]}, scoring=scorer, cv=3, random_state=0)
    assert search.fit(X, y).best_params_ == {"factor": 1.0}


@pytest.mark.slow
def test_several_scorers_at_once():
    X, y = two(["no", "yes"])
    scoring = {name: make_scorer(metric, **kwargs) for name, (metric, kwargs) in MEASURES.items()}
    scoring["neg_log_loss"] = "neg_log_loss"
    result = cross_validate(LogisticRegression(), X, y, scoring=scoring, cv=3)
    for name, scorer in list(scoring.items())[:-1]:
        np.testing.assert_array_equal(
            result[f"test_{name}"], cross_val_score(LogisticRegression(), X, y, scoring=scorer, cv=3)
        )
    np.testing.assert_allclose(result["test_nll"], result["test_neg_log_loss"], atol=1e-12)
    search = GridSearchCV(LogisticRegression(), {"C": [1e-4, 1.0]}, scoring=scoring, refit="brier", cv=3).fit(X, y)
    assert search.best_params_ == {"C": 1.0}


def test_a_measure_may_be_named():
    model, (X, y) = LogisticRegression(), two(["no", "yes"])
    model.fit(X, y)
    names = {
        "ece": calibrant.expected_calibration_error,
        "smooth_calibration_error": calibrant.smooth_calibration_error,
        "brier": calibrant.brier_score,
        "accuracy": calibrant.accuracy,
    }
    for name, metric in names.items():
        assert repr(make_scorer(name)) == repr(make_scorer(metric))
        assert make_scorer(name)(model, X, y) == make_scorer(metric)(model, X, y)
    with pytest.raises(InputError, match=r"metric: expected one of .*'ece'.* got 'ecee'; did you mean 'ece'"):
        make_scorer("ecee")
    assert make_scorer("nll").__name__ == "neg_log_loss"  # a display would write "Negative negative log likelihood"
    assert make_scorer("ece").__name__ == "neg_expected_calibration_error"


@pytest.mark.parametrize("labels", [["no", "yes"], [0, 1]])
@pytest.mark.parametrize("pos_label", [None, 0])
def test_a_threshold_is_tuned_by_a_measure_of_the_decisions(labels, pos_label):
    """Of decisions with probability 1 the Brier score is the share of errors, and the accuracy that of hits."""
    X, y = two(labels)
    positive = None if pos_label is None else labels[pos_label]
    tuned = {
        scoring: TunedThresholdClassifierCV(LogisticRegression(), scoring=scorer, cv=3, thresholds=20).fit(X, y)
        for scoring, scorer in {
            "sklearn": "accuracy",
            "accuracy": make_scorer("accuracy", pos_label=positive),
            "brier": make_scorer("brier", pos_label=positive),
        }.items()
    }
    for name in ("accuracy", "brier"):
        shift = 1.0 if name == "brier" else 0.0
        assert tuned[name].best_score_ + shift == pytest.approx(tuned["sklearn"].best_score_, abs=1e-12)
        if positive is None:
            assert tuned[name].best_threshold_ == pytest.approx(tuned["sklearn"].best_threshold_)
    decided = make_scorer("brier")
    assert decided._score_func(y, y, sample_weight=np.ones(len(y))) == 0


def test_the_importance_of_a_column_is_what_shuffling_it_costs():
    X, y = known(500)
    X = np.column_stack([X, np.random.default_rng(1).normal(size=500)])
    result = permutation_importance(Sharpened().fit(X, y), X, y, scoring=make_scorer(calibrant.brier_score))
    assert result.importances_mean[0] > 0.05
    assert result.importances_mean[1] == 0


def test_a_learning_curve_is_named_after_the_measure():
    plt = drawing()
    X, y = two()
    scorer = make_scorer(calibrant.expected_calibration_error)
    display = LearningCurveDisplay.from_estimator(
        LogisticRegression(), X, y, scoring=scorer, negate_score=True, train_sizes=[0.5, 1.0], cv=3
    )
    assert display.score_name == "Expected calibration error"
    assert (display.test_scores < 0).all()
    plt.close("all")


# ---------------------------------------------------------------- weights and routing


def test_weight_two_is_the_row_twice():
    X, y = two(["no", "yes"])
    model = GaussianNB().fit(X, y)
    weights = np.arange(len(y)) % 3  # 0, 1, 2
    twice = np.repeat(np.arange(len(y)), weights)
    for metric, kwargs in MEASURES.values():
        scorer = make_scorer(metric, **kwargs)
        assert scorer(model, X, y, sample_weight=weights) == pytest.approx(scorer(model, X[twice], y[twice]), abs=1e-12)


def test_routed_weights_reach_the_measure_of_each_fold():
    X, y = known(300)
    weights = np.random.default_rng(1).integers(1, 5, 300).astype(float)
    folds = list(KFold(3).split(X))
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = make_scorer(calibrant.expected_calibration_error).set_score_request(sample_weight=True)
        model = Sharpened().set_fit_request(sample_weight=False)
        other = make_scorer(calibrant.accuracy).set_score_request(sample_weight=False)
        params = {"sample_weight": weights}
        scores = cross_val_score(model, X, y, scoring=scorer, cv=folds, params=params)
        several = cross_validate(model, X, y, scoring={"a": scorer, "b": other}, cv=folds, params=params)
        search = GridSearchCV(model, {"factor": [1.0]}, scoring=scorer, cv=folds).fit(X, y, sample_weight=weights)
    expected = [
        -calibrant.expected_calibration_error(Sharpened().predict_proba(X[t])[:, 1], y[t], weights=weights[t])
        for _, t in folds
    ]
    assert scores.tolist() == several["test_a"].tolist() == expected
    assert search.best_score_ == np.mean(expected)


def test_weights_under_another_name_are_routed():
    X, y = known(300)
    weights = np.arange(300) % 4 + 1.0
    folds = list(KFold(3).split(X))
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = make_scorer(calibrant.brier_score).set_score_request(sample_weight="importance")
        scores = cross_val_score(Sharpened(), X, y, scoring=scorer, cv=folds, params={"importance": weights})
    p = Sharpened().predict_proba(X)[:, 1]
    expected = [-np.average((p[t] - y[t]) ** 2, weights=weights[t]) for _, t in folds]
    np.testing.assert_allclose(scores, expected, atol=1e-12)


def test_weights_that_nobody_asked_for_are_an_error_and_refused_ones_are_left_out():
    X, y = known(300)
    params = {"sample_weight": np.arange(300) % 4 + 1.0}
    with sklearn.config_context(enable_metadata_routing=True):
        model = Sharpened().set_fit_request(sample_weight=True)
        scorer = make_scorer(calibrant.brier_score)
        with pytest.raises(UnsetMetadataPassedError, match="explicitly set as requested or not"):
            cross_val_score(model, X, y, scoring=scorer, params=params)
        scorer.set_score_request(sample_weight=False)
        scores = cross_val_score(model, X, y, scoring=scorer, params=params)
        assert scorer.set_score_request(sample_weight=None) is scorer
        with pytest.raises(UnsetMetadataPassedError):
            cross_val_score(model, X, y, scoring=scorer, params=params)
    np.testing.assert_array_equal(scores, cross_val_score(Sharpened(), X, y, scoring=scorer))


def test_a_request_is_kept_by_copies_and_by_clones_of_a_search():
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = make_scorer(calibrant.brier_score).set_score_request(sample_weight="importance")
        search = clone(GridSearchCV(Sharpened(), {"factor": [1.0]}, scoring=scorer))
        for own in (search.scoring, copy.copy(scorer), copy.deepcopy(scorer), pickle.loads(pickle.dumps(scorer))):
            assert own is not scorer
            assert str(own.get_metadata_routing()) == "{'score': {'sample_weight': 'importance'}}"


def test_a_request_without_routing_is_refused():
    with pytest.raises(InputError, match=r"expected enabled metadata routing, .*enable_metadata_routing=True"):
        make_scorer(calibrant.brier_score).set_score_request(sample_weight=True)


@pytest.mark.parametrize("request_", ["not a name", 1, 0.5])
def test_a_request_is_true_false_none_or_a_name(request_):
    with (
        sklearn.config_context(enable_metadata_routing=True),
        pytest.raises(InputError, match="sample_weight: expected True, False, None or a name"),
    ):
        make_scorer(calibrant.brier_score).set_score_request(sample_weight=request_)


# ---------------------------------------------------------------- copies and processes


def test_a_scorer_survives_a_pickle():
    X, y = two(["no", "yes"])
    model = GaussianNB().fit(X, y)
    scorer = make_scorer(calibrant.expected_calibration_error, pos_label="no", n_bins=9)
    copied = pickle.loads(pickle.dumps(scorer))
    assert copied(model, X, y) == scorer(model, X, y)
    assert repr(copied) == repr(scorer)


@pytest.mark.slow
def test_processes_score_as_one_does():
    """What processes need is tested above without them: a pickled scorer scores the same."""
    X, y = two(["no", "yes"])
    scoring = {
        "ece": make_scorer(calibrant.expected_calibration_error),
        "nll": make_scorer(calibrant.negative_log_likelihood),
    }
    one = cross_validate(LogisticRegression(), X, y, scoring=scoring, cv=4)
    both = cross_validate(LogisticRegression(), X, y, scoring=scoring, cv=4, n_jobs=2)
    for name in ("test_ece", "test_nll"):
        np.testing.assert_array_equal(one[name], both[name])


def test_a_scorer_says_how_it_was_made():
    scorer = make_scorer(calibrant.expected_calibration_error, n_bins=10, pos_label="yes")
    said = "make_scorer(expected_calibration_error, greater_is_better=False, pos_label='yes', n_bins=10)"
    assert repr(scorer) == said
    names = {"make_scorer": make_scorer, "expected_calibration_error": calibrant.expected_calibration_error}
    assert repr(eval(said, names)) == said
    assert repr(make_scorer(calibrant.accuracy)) == "make_scorer(accuracy, greater_is_better=True)"


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("metric", "kwargs", "message"),
    [
        (15, {}, r"metric: expected a function or its name, got 15; pass the function itself"),
        (calibrant.score_decomposition, {}, "expected a measure that returns a number, got score_decomposition"),
        (calibrant.reliability_diagram, {}, "returns a number, got reliability_diagram"),
        (calibrant.classwise_calibration_errors, {}, "returns a number, got classwise_calibration_errors"),
        (zero, {}, "greater_is_better: expected True or False for zero, got None; pass greater_is_better=False for an"),
        (calibrant.brier_score, {"greater_is_better": 1}, "greater_is_better: expected True or False, got 1"),
        (
            calibrant.brier_score,
            {"weights": [1]},
            ("weights: expected no such argument in make_scorer, got a value; .* takes it from sample_weight"),
        ),
        (
            calibrant.brier_score,
            {"probs": [1]},
            ("probs: expected no such argument in make_scorer, got a value; .* takes it from the estimator and y"),
        ),
        (calibrant.expected_calibration_error, {"n_bin": 3}, "n_bin: expected an argument of .*did you mean 'n_bins'"),
        (calibrant.brier_score, {"n_bins": 3}, "n_bins: expected an argument of brier_score"),
        (calibrant.expected_calibration_error, {"notion": "multilabel"}, "notion: expected 'positive', 'top-label' or"),
        (
            brier_score_loss,
            {"greater_is_better": False},
            (
                "brier_score_loss, whose first argument is y_true; pass measures of scikit-learn to "
                r"sklearn\.metrics\.make_scorer"
            ),
        ),
    ],
)
def test_what_makes_no_scorer(metric, kwargs, message):
    with pytest.raises(InputError, match=message):
        make_scorer(metric, **kwargs)


ECE = make_scorer(calibrant.expected_calibration_error)


@pytest.mark.parametrize("door", ["scorer", "display"])
@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (
            LinearSVC(),
            r"estimator: expected a classifier with predict_proba, got a LinearSVC; .*CalibratedClassifierCV",
        ),
        (
            RandomForestClassifier(n_estimators=2),
            "estimator: expected a classifier with one output, got a classifier with several outputs",
        ),
    ],
)
def test_estimators_that_have_no_probabilities_to_judge(door, estimator, message):
    X, y = two()
    several = isinstance(estimator, RandomForestClassifier)
    estimator.fit(X, np.column_stack([y, 1 - y]) if several else y)
    with pytest.raises(InputError, match=message):
        ECE(estimator, X, y) if door == "scorer" else ReliabilityDisplay.from_estimator(estimator, X, y)


@pytest.mark.parametrize("model", [GaussianNB(), make_pipeline(StandardScaler(), LogisticRegression())])
def test_an_unfitted_estimator_says_so_itself(model):
    X, y = two()
    with pytest.raises(NotFittedError, match="not fitted"):
        ECE(model, X, y)
    with pytest.raises(NotFittedError, match="not fitted"):
        ReliabilityDisplay.from_estimator(model, X, y)


def test_an_estimator_without_classes_is_refused():
    class Bare:
        def predict_proba(self, X):
            return np.full((len(X), 2), 0.5)

    with pytest.raises(InputError, match="estimator: expected a classifier with classes_, got a Bare"):
        ECE(Bare(), np.zeros((2, 1)), [0, 1])


def test_an_estimator_of_one_class_is_refused():
    model = DecisionTreeClassifier().fit([[0.0], [1.0]], ["a", "a"])
    with pytest.raises(
        InputError, match="estimator: expected at least two classes, got one class, 'a'; fit the classifier on"
    ):
        ECE(model, [[0.0]], ["a"])


def test_an_estimator_whose_columns_are_not_its_classes_is_refused():
    model = Fixed(np.full((2, 3), 1 / 3), np.array([0, 1]))
    message = r"predict_proba\(X\): expected a column for each of 2 classes, got shape \(2, 3\)"
    with pytest.raises(InputError, match=message):
        ECE(model, np.zeros((2, 1)), [0, 1])


def test_a_label_that_the_estimator_never_saw_is_named():
    X, codes = three()
    y = NAMES[codes]
    model = GaussianNB().fit(X[codes > 0], y[codes > 0])
    message = (
        r"^y: expected labels among estimator\.classes_, 'ash', 'cedar', got 'birch' at row 0; .*without this label"
    )
    for own in (ECE, ReliabilityDisplay.from_estimator):
        with pytest.raises(InputError, match=message):
            own(model, X, y)


@pytest.mark.parametrize(
    ("y", "fault", "message"),
    [
        ([0, 1, 0], Fault.VALUE, r"^y: expected 2 labels, one for each row of probabilities, got 3"),
        ([[0, 1], [1, 0]], Fault.VALUE, r"^y: expected one label for each row, got shape \(2, 2\)"),
        ([0, np.nan], Fault.MISSING, "^y: expected a label in every row, got nan at row 1"),
        (
            ["0", "1"],
            Fault.UNKNOWN_NAME,
            ("^y: expected labels among estimator.classes_, 0, 1, got '0' at row 0; one set of labels is strings"),
        ),
        ([0, None], Fault.MISSING, "^y: expected a label in every row, got a missing value at row 1"),
    ],
)
def test_labels_that_are_none(y, fault, message):
    with pytest.raises(InputError, match=message) as caught:
        ECE(Fixed(np.full((2, 2), 0.5), np.array([0, 1])), np.zeros((2, 1)), y)
    assert caught.value.fault is fault


def test_bad_probabilities_are_those_of_the_estimator():
    model = Fixed(np.array([[0.5, 0.5], [np.nan, 0.5], [0.1, 0.9]]), np.array([0, 1]))
    message = r"^estimator\.predict_proba\(X\): expected finite numbers, got nan at row 1"
    with pytest.raises(InputError, match=message):
        make_scorer(calibrant.brier_score, pos_label=0)(model, np.zeros((3, 1)), [0, 1, 1])
    with pytest.raises(InputError, match=message):
        ReliabilityDisplay.from_estimator(model, np.zeros((3, 1)), [0, 1, 1], pos_label=0)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"pos_label": "ahs"}, "pos_label: expected one of 'ash', 'birch', 'cedar', got 'ahs'; did you mean 'ash'"),
        ({"notion": "positive"}, "notion: expected 'top-label' or 'classwise' for 3 classes, .* pass pos_label"),
        (
            {"pos_label": "ash", "notion": "top-label"},
            "notion: expected 'positive' for one class, got pos_label='ash' with",
        ),
        (
            {"pos_label": "ash", "notion": "classwise"},
            "notion: expected 'positive' for one class, got pos_label='ash' with",
        ),
    ],
)
def test_events_that_are_none_of_three_classes(kwargs, message):
    X, codes = three()
    model = GaussianNB().fit(X, NAMES[codes])
    with pytest.raises(InputError, match=message):
        make_scorer(calibrant.expected_calibration_error, **kwargs)(model, X, NAMES[codes])


NORMAL = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7]])
#: Probabilities with a fault each.
FAULTY = {
    "sums": NORMAL - 0.05,
    "logits": np.log(NORMAL) * 3,
    "percent": NORMAL * 100,
    "rounding": np.array([[1.000001, -1e-6, 0], *NORMAL[1:]]),
    "nan": np.where(NORMAL == 0.5, np.nan, NORMAL),
    "logits of two": np.array([[2.0, -2], [1, -1], [-3, 3]]),
}
DOORS = {
    "scorer": (ECE, lambda p, y: ECE(Fixed(p, np.arange(p.shape[1])), np.zeros((3, 1)), y)),
    "estimator": (
        ReliabilityDisplay.from_estimator,
        lambda p, y: ReliabilityDisplay.from_estimator(Fixed(p, np.arange(p.shape[1])), np.zeros((3, 1)), y),
    ),
    "arrays": (ReliabilityDisplay.from_predictions, lambda p, y: ReliabilityDisplay.from_predictions(y, p)),
}


@pytest.mark.parametrize("fault", FAULTY)
@pytest.mark.parametrize("door", DOORS)
def test_remedies_name_arguments_of_the_function_that_was_called(door, fault):
    function, call = DOORS[door]
    probs = FAULTY[fault]
    with pytest.raises(InputError) as caught:
        call(probs, [0, 1, 1])
    remedy, known = caught.value.remedy, inspect.signature(function).parameters
    assert caught.value.argument in {*known, "estimator.predict_proba(X)"}
    own = remedy.replace("calibrant.evaluate with notion=", "")
    assert not {name for name in re.findall(r"\b(\w+)=(?!=)", own) if name != "axis"} - set(known), remedy
    assert not re.search(r"\b(probs|targets|preds)\b", remedy), remedy
    if "calibrant.evaluate with notion='multilabel'" in remedy:
        calibrant.evaluate(probs, np.eye(3, dtype=int), notion="multilabel", level=None)


def test_a_measure_that_returns_no_number_is_refused():
    X, y = two()
    scorer = make_scorer(np.subtract, greater_is_better=True)
    with pytest.raises(InputError, match="metric: expected a measure that returns a number, got a ndarray"):
        scorer(GaussianNB().fit(X, y), X, y)


def test_weights_for_a_measure_without_them_are_refused():
    X, y = two()
    scorer = make_scorer(zero, greater_is_better=True)
    model = GaussianNB().fit(X, y)
    assert scorer(model, X, y) == 0
    with pytest.raises(InputError, match="sample_weight: expected no weights for zero"):
        scorer(model, X, y, sample_weight=np.ones(len(y)))


def test_weights_of_another_length_are_named_as_scikit_learn_does():
    X, y = two()
    with pytest.raises(InputError, match=r"^sample_weight: expected 400 numbers, one per row"):
        ECE(GaussianNB().fit(X, y), X, y, sample_weight=[1.0, 2.0])


def test_the_limit_of_scikit_learn_without_routing():
    """Several scorers with weights and no routing: scikit-learn asks for a private method (its issue 31599)."""
    X, y = known(200)
    scoring = {"ece": ECE, "brier": make_scorer(calibrant.brier_score)}
    search = GridSearchCV(Sharpened(), {"factor": [1.0]}, scoring=scoring, refit="ece")
    if tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 7):
        with pytest.raises(AttributeError):
            search.fit(X, y, sample_weight=np.ones(200))
    with sklearn.config_context(enable_metadata_routing=True):
        for scorer in scoring.values():
            scorer.set_score_request(sample_weight=True)
        search = GridSearchCV(
            Sharpened().set_fit_request(sample_weight=True), {"factor": [1.0]}, scoring=scoring, refit="ece"
        )
        search.fit(X, y, sample_weight=np.arange(200) % 3 + 1.0)
        assert search.best_score_ < 0


# ---------------------------------------------------------------- displays: what is drawn


def fast(**kwargs):
    """Name options of a display that needs few resamples."""
    return {"n_resamples": 50, **kwargs}


def evaluated(display, probs, targets, **kwargs):
    """Whether a display's report is what evaluate says of these arrays."""
    expected = calibrant.evaluate(probs, targets, n_resamples=50, **kwargs)
    return display.report.to_dict() == expected.to_dict()


@pytest.fixture
def figures():
    plt = drawing()
    before = dict(plt.rcParams)
    yield plt
    plt.close("all")
    assert dict(plt.rcParams) == before


def filled(display):
    diagram = display.report.diagram
    return diagram, diagram.counts > 0


def segments(ax):
    """Return all vertical strokes as rows of place, low, high."""
    from matplotlib.collections import LineCollection

    found = [stroke for own in ax.collections if isinstance(own, LineCollection) for stroke in own.get_segments()]
    return np.array([(a[0], a[1], b[1]) for a, b in found if a[0] == b[0]])


def test_points_stand_where_the_report_says_with_their_intervals(figures):
    X, y = two(["no", "yes"])
    display = ReliabilityDisplay.from_estimator(GaussianNB().fit(X, y), X, y, kind="points", **fast())
    diagram, own = filled(display)
    drawn = np.vstack([np.asarray(c.get_offsets()) for c in display.ax_.collections if c.get_label() == "GaussianNB"])
    np.testing.assert_array_equal(drawn, np.column_stack([diagram.confidences, diagram.accuracies])[own])
    whiskers = np.column_stack([diagram.confidences, diagram.lows, diagram.highs])[own]
    np.testing.assert_array_equal(segments(display.ax_), whiskers)
    probs = GaussianNB().fit(X, y).predict_proba(X)[:, 1]
    assert display.report["ece"].value == pytest.approx(naive_ece(probs, y == "yes", 15), abs=1e-12)
    assert display.ax_ is display.figure_.axes[0] is figures.gcf().axes[0]
    assert display.ax_.get_xlabel() == "Mean predicted probability (positive class: yes)"


def test_bars_are_as_high_as_the_outcome_rates_of_the_report(figures):
    X, y = two()
    display = ReliabilityDisplay.from_estimator(GaussianNB().fit(X, y), X, y, n_bins=10, name="bayes", **fast())
    diagram, own = filled(display)
    (bars,) = [container for container in display.ax_.containers if container.get_label() == "bayes"]
    np.testing.assert_array_equal([bar.get_height() for bar in bars], diagram.accuracies[own])
    np.testing.assert_array_equal([bar.get_x() for bar in bars], diagram.edges[:-1][own])
    assert display.ax_.get_xlabel().endswith("(positive class: 1)")
    bare = ReliabilityDisplay.from_estimator(
        GaussianNB().fit(X, y), X, y, kind="points", intervals=False, band=False, counts=False, **fast()
    )
    assert len(segments(bare.ax_)) == 0 < len(segments(display.ax_))
    assert figures.get_fignums() == [1, 2]


@pytest.mark.parametrize("labels", [None, ["no", "yes"]])
def test_bins_of_equal_mass_hold_scikit_learns_points(labels, figures):
    """Without ties, and with as many rows in each bin, both cut at the same places."""
    X, y = two(labels)
    model = LogisticRegression().fit(X, y)
    X, y = X[:300], y[:300]
    display = ReliabilityDisplay.from_estimator(model, X, y, strategy="quantile", n_bins=10, kind="points", **fast())
    theirs = CalibrationDisplay.from_estimator(model, X, y, strategy="quantile", n_bins=10)
    np.testing.assert_array_equal(display.diagram.counts, 30)
    np.testing.assert_allclose(display.diagram.confidences, theirs.prob_pred, rtol=1e-12)
    np.testing.assert_allclose(display.diagram.accuracies, theirs.prob_true, rtol=1e-12)
    drawn = np.vstack([c.get_offsets() for c in display.ax_.collections if c.get_label() == "LogisticRegression"])
    np.testing.assert_array_equal(drawn, np.column_stack([display.diagram.confidences, display.diagram.accuracies]))
    whiskers = np.column_stack([display.diagram.confidences, display.diagram.lows, display.diagram.highs])
    np.testing.assert_array_equal(segments(display.ax_), whiskers)
    hits = 30 * display.diagram.accuracies
    np.testing.assert_allclose(display.diagram.lows, stats.beta(hits, 31 - hits).ppf(0.025), rtol=1e-9)
    plain = ReliabilityDisplay.from_estimator(model, X, y, n_bins=10, **fast())
    assert display.report.to_json() == plain.report.to_json()
    assert plain.diagram is plain.report.diagram
    ace = display.report["ace"]
    assert ace.value == pytest.approx(np.abs(theirs.prob_pred - theirs.prob_true).mean(), abs=1e-12)
    said = f"LogisticRegression: adaptive ECE {ace.value:.4f} ({ace.low:.4f} – {ace.high:.4f})"
    assert said in [text.get_text() for text in display.ax_.texts]
    again = display.plot(kind="smooth")
    assert again.diagram is display.diagram
    assert display.plot(kind="bars", number="smece").ax_.texts[0].get_text().startswith("LogisticRegression: smooth")
    arrays = ReliabilityDisplay.from_predictions(
        y,
        model.predict_proba(X),
        class_names=model.classes_,
        sample_weight=np.full(300, 2),
        strategy="quantile",
        n_bins=10,
    )
    np.testing.assert_array_equal(arrays.diagram.counts, 60)
    weightless = ReliabilityDisplay.from_estimator(model, X, y, strategy="quantile", level=None)
    assert weightless.diagram.lows is None
    for made in (arrays, weightless):
        np.testing.assert_array_equal(made.diagram.confidences.size, made.report.n_bins)
    with pytest.raises(InputError, match=r"diagram: expected a calibrant\.ReliabilityDiagram, got a dict"):
        ReliabilityDisplay(display.report, diagram={})
    figures.close("all")


@pytest.mark.parametrize("kind", ["points", "isotonic", "smooth"])
def test_displays_on_one_axes_keep_their_bands_colours_and_entries(kind, figures):
    X, y = two()
    _, ax = figures.subplots()
    models = {
        "a": GaussianNB().fit(X, y),
        "b": LogisticRegression().fit(X, y),
        "c": DecisionTreeClassifier(max_depth=3),
    }
    models["c"].fit(X, y)
    for name, model in models.items():
        options = {"color": "tab:red", "linestyle": "--", "alpha": 0.7} if name == "b" else {}
        strategy = "quantile" if name == "c" else "uniform"
        made = ReliabilityDisplay.from_estimator(
            model, X, y, kind=kind, name=name, ax=ax, strategy=strategy, **options, **fast()
        )
        assert made.ax_ is ax
    handles, names = ax.get_legend_handles_labels()
    shown = [text.get_text() for text in ax.get_legend().get_texts()]
    assert shown[:3] == ["a", "b", "c"]
    for name in models:
        assert names.count(name) == 1
        assert sum(f"Calibrated (95 % band): {name}" == entry for entry in shown) == 1
    dashed = [line for line in ax.lines if line.get_alpha() is not None]
    assert [(line.get_color(), line.get_linestyle(), line.get_alpha()) for line in dashed] == [("tab:red", "--", 0.7)]
    first, other = handles[names.index("a")], handles[names.index("c")]
    looks = [h.get_facecolor().tolist() if kind == "points" else h.get_color() for h in (first, other)]
    assert looks[0] != looks[1]


@pytest.mark.parametrize("kind", ["isotonic", "smooth"])
def test_a_curve_is_the_one_of_the_report(kind, figures):
    X, y = two()
    display = ReliabilityDisplay.from_estimator(GaussianNB().fit(X, y), X, y, kind=kind, name="bayes", **fast())
    (line,) = [line for line in display.ax_.lines if line.get_label() == "bayes"]
    np.testing.assert_array_equal(line.get_xdata(), display.report.curves[kind].scores)
    np.testing.assert_array_equal(line.get_ydata(), display.report.curves[kind].rates)
    assert len(figures.get_fignums()) == 1


def test_what_is_computed_once_is_drawn_again_elsewhere(figures):
    X, y = two()
    display = ReliabilityDisplay.from_estimator(GaussianNB().fit(X, y), X, y, **fast())
    report = display.report
    figure, (left, right) = figures.subplots(1, 2)
    assert display.plot(left, kind="points", name="again") is display
    assert (display.ax_, display.figure_, display.report) == (left, figure, report)
    assert "again" in left.get_legend_handles_labels()[1]
    display.plot(ax=right, kind="smooth")
    assert display.ax_ is right
    assert "GaussianNB" in right.get_legend_handles_labels()[1]


def test_two_models_share_axes(figures):
    X, y = two()
    first = ReliabilityDisplay.from_estimator(GaussianNB().fit(X, y), X, y, kind="points", **fast())
    second = ReliabilityDisplay.from_estimator(
        LogisticRegression().fit(X, y), X, y, kind="points", ax=first.ax_, name="logistic", **fast()
    )
    assert second.ax_ is first.ax_
    assert first.ax_.get_xlabel() == "Mean predicted probability (positive class: 1)"
    assert {"GaussianNB", "logistic"} <= set(first.ax_.get_legend_handles_labels()[1])
    assert len(figures.get_fignums()) == 1


def test_the_points_are_those_of_scikit_learns_own_display(figures):
    X, y = two(["no", "yes"])
    model = GaussianNB().fit(X, y)
    for n_bins in (5, 12):
        own = ReliabilityDisplay.from_estimator(model, X, y, n_bins=n_bins, pos_label="no", **fast())
        theirs = CalibrationDisplay.from_estimator(model, X, y, n_bins=n_bins, pos_label="no")
        diagram, kept = filled(own)
        np.testing.assert_allclose(diagram.accuracies[kept], theirs.prob_true, atol=1e-12)
        np.testing.assert_allclose(diagram.confidences[kept], theirs.prob_pred, atol=1e-12)
        assert own.pos_label == theirs.pos_label == "no"
    assert figures.get_fignums()


@pytest.mark.usefixtures("figures")
def test_a_report_of_ones_own_is_drawn():
    report = calibrant.evaluate([0.2, 0.4, 0.9], [0, 1, 1], level=None)
    display = ReliabilityDisplay(report, name="mine").plot(kind="points")
    assert display.report is report
    assert display.ax_.get_xlabel() == "Mean predicted probability"
    assert "mine" in display.ax_.get_legend_handles_labels()[1]


# ---------------------------------------------------------------- displays: what is judged


@pytest.mark.usefixtures("figures")
def test_an_estimator_is_judged_as_its_predictions_are():
    X, codes = three()
    frame, y = pd.DataFrame(X), pd.Series(NAMES[codes], dtype="category")
    model = make_pipeline(StandardScaler(), GaussianNB(var_smoothing=0.1)).fit(frame, y)
    probs, weights = model.predict_proba(frame), np.arange(150) % 3 + 1.0
    own = ReliabilityDisplay.from_estimator(model, frame, y, sample_weight=weights, n_bins=8, level=0.9, **fast())
    same = ReliabilityDisplay.from_predictions(
        y, probs, class_names=model.classes_, sample_weight=weights, n_bins=8, level=0.9, **fast()
    )
    targets = np.searchsorted(model.classes_, NAMES[codes])
    names = ["ash", "birch", "cedar"]
    for display, name in ((own, "Pipeline"), (same, None)):
        assert evaluated(display, probs, targets, weights=weights, n_bins=8, level=0.9, class_names=names)
        assert (display.report.notion, display.pos_label, display.name) == ("top-label", None, name)


@pytest.mark.parametrize(
    ("labels", "kwargs", "positive"),
    [
        ([0, 1], {}, 1),
        ([False, True], {}, 1),
        ([0.0, 1.0], {}, 1),
        ([-1, 1], {}, 1),
        ([0, 1], {"pos_label": 0}, 0),
        ([1, 2], {"pos_label": 2}, 1),
        (["no", "yes"], {"pos_label": "yes"}, 1),
        (["no", "yes"], {"pos_label": "no"}, 0),
        (["no", "yes"], {"class_names": ["no", "yes"]}, 1),
        (["no", "yes"], {"class_names": ["yes", "no"]}, 0),
        (["no", "yes"], {"class_names": ["no", "yes"], "pos_label": "no"}, 0),
        ([3, 8], {"class_names": np.array([3, 8])}, 1),
        (["a", "b"], {"class_names": ["a", "c", "b"], "pos_label": "b"}, 1),
    ],
)
@pytest.mark.parametrize("turned", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.usefixtures("figures")
def test_one_column_is_the_probability_of_the_positive_label(labels, kwargs, positive, turned):
    """The column is an array of one dimension for labels that are text, of two for numbers, or turned the other way."""
    shape = (-1,) if isinstance(labels[0], str) != turned else (-1, 1)
    X, codes = known(200)
    p = Sharpened().predict_proba(X)[:, 1]
    display = ReliabilityDisplay.from_predictions(np.array(labels)[codes], p.reshape(shape), **kwargs, **fast())
    assert evaluated(display, p, (codes == positive).astype(int))
    assert display.pos_label == np.array(labels)[positive]


@pytest.mark.parametrize("positive", [None, "no", "yes"])
@pytest.mark.usefixtures("figures")
def test_of_two_columns_the_judged_one_is_taken(positive):
    X, codes = known(200)
    both, y = Sharpened().predict_proba(X), np.array(["no", "yes"])[codes]
    display = ReliabilityDisplay.from_predictions(y, both, class_names=["no", "yes"], pos_label=positive, **fast())
    k = 0 if positive == "no" else 1
    assert evaluated(display, both[:, k], (codes == k).astype(int))
    assert display.report.class_names == (("yes", "no"), ("no", "yes"))[k]
    assert display.pos_label == ["no", "yes"][k]
    plain = ReliabilityDisplay.from_predictions(codes, both, **fast())
    assert evaluated(plain, both[:, 1], codes)
    assert plain.report.class_names == ("0", "1")


@pytest.mark.usefixtures("figures")
def test_one_class_of_several_is_judged_against_the_rest():
    X, codes = three()
    y = NAMES[codes]
    model = GaussianNB(var_smoothing=0.1).fit(X, y)
    probs = model.predict_proba(X)
    display = ReliabilityDisplay.from_estimator(model, X, y, pos_label="birch", **fast())
    assert evaluated(display, probs[:, 1], y == "birch")
    assert display.ax_.get_xlabel().endswith("(positive class: birch)")
    columns = ReliabilityDisplay.from_predictions(codes, probs[:, [1, 0, 2]], pos_label=2, **fast())
    assert evaluated(columns, probs[:, 2], codes == 2)


@pytest.mark.usefixtures("figures")
def test_the_folded_notion_is_handed_on():
    X, y = two()
    model = GaussianNB().fit(X, y)
    display = ReliabilityDisplay.from_estimator(model, X, y, notion="top-label", **fast())
    assert evaluated(display, model.predict_proba(X)[:, 1], y, notion="top-label")


@pytest.mark.usefixtures("figures")
def test_predictions_come_from_any_library():
    torch = pytest.importorskip("torch")
    X, codes = known(200)
    both = Sharpened().predict_proba(X)
    expected = ReliabilityDisplay.from_predictions(codes, both, **fast()).report
    for y_true, y_prob in (
        (codes.tolist(), both.tolist()),
        (pd.Series(codes), pd.DataFrame(both, columns=["no", "yes"])),
        (torch.tensor(codes), torch.tensor(both)),
    ):
        assert ReliabilityDisplay.from_predictions(y_true, y_prob, **fast()).report.to_dict() == expected.to_dict()
    half = torch.tensor(both).to(torch.bfloat16)
    single = ReliabilityDisplay.from_predictions(codes, half[:, 1].float(), n_bins=4, **fast())
    bits = ReliabilityDisplay.from_predictions(codes, half, n_bins=4, **fast())
    assert bits.report["ece"].value == pytest.approx(single.report["ece"].value, abs=1e-12)


# ---------------------------------------------------------------- displays: what is refused

P = np.array([0.2, 0.9, 0.6, 0.3])
BOTH = np.column_stack([1 - P, P])
THREE = np.array([[0.2, 0.3, 0.5], [0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
Y = np.array([0, 1, 1, 0])
WORDS = np.array(["no", "yes", "yes", "no"])


@pytest.mark.parametrize(
    ("y_true", "y_prob", "kwargs", "message"),
    [
        (
            P,
            Y,
            {},
            (
                "y_true: expected labels as the first argument and probabilities as the second, got "
                r"fractions as the first argument; the arguments look swapped; "
                r"the order in scikit-learn is from_predictions\(y_true, "
                r"y_prob\)"
            ),
        ),
        (
            BOTH,
            Y,
            {},
            ("y_true: expected labels as the first argument and probabilities as the second, got fractions as th"),
        ),
        (
            P,
            WORDS,
            {},
            ("y_true: expected labels as the first argument and probabilities as the second, got fractions as th"),
        ),
        (
            P,
            Y.astype(float),
            {},
            ("y_true: expected labels as the first argument and probabilities as the second, got fractions as th"),
        ),
        (WORDS, P, {}, "pos_label: expected a label, .* got None with labels 'no', 'yes'; pass pos_label"),
        (Y + 1, P, {}, "pos_label: expected a label, because the labels are not 0 and 1, got None with labels 1, 2"),
        (P, P, {}, "pos_label: expected a label, because the labels are not 0 and 1"),
        (WORDS, P, {"pos_label": "Yes"}, "pos_label: expected one of the labels 'no', 'yes', got 'Yes'; did you mean"),
        (WORDS, P, {"class_names": "no yes"}, "class_names: expected an array, got a str"),
        (WORDS, P, {"class_names": ["yes"]}, "class_names: expected at least two labels, got 1"),
        (WORDS, BOTH, {"class_names": ["no", "yes", "so"]}, "class_names: expected 2 labels, .* of y_prob, got 3"),
        (WORDS, BOTH, {"class_names": ["no", "no"]}, "class_names: expected distinct labels, got 'no', 'no'"),
        (WORDS, BOTH, {"class_names": ["no", "jes"]}, "y_true: expected labels among class_names, .* 'yes' at row 1"),
        (WORDS, P, {"class_names": ["no", "yes", "so"]}, "pos_label: expected one of 'no', 'yes', 'so', got None"),
        (WORDS, BOTH, {}, "y_true: expected labels among the indices of the columns, 0, 1, got 'no' at row 0"),
        (Y + 1, BOTH, {}, "y_true: expected labels among the indices of the columns, .* 2 at row 1; pass class_names"),
        (Y[:3], P, {}, "y_true: expected 4 labels, one for each row of probabilities, got 3"),
        (BOTH.round(), P, {}, r"y_true: expected one label for each row, got shape \(4, 2\)"),
        (Y, np.stack([BOTH, BOTH]), {}, r"y_prob: expected an array of shape .* got shape \(2, 4, 2\)"),
        (Y, [], {}, r"y_prob: expected an array .* got shape \(0,\)"),
        (Y, P + 1, {}, r"y_prob: expected values in \[0, 1\]"),
        (Y, 100 * BOTH, {}, r"y_prob: expected values in \[0, 1\]"),
        (Y, np.where(P > 0.5, np.nan, P), {}, "y_prob: expected finite numbers, got nan at row 1"),
        (Y, P.astype(str), {}, "y_prob: expected real numbers, got strings"),
        (Y, P, {"sample_weight": [1, 2]}, "sample_weight: expected 4 numbers"),
        (Y, P, {"n_bins": 0}, "n_bins: "),
        (Y, P, {"level": 2}, "level: "),
        (Y, P, {"kind": "line"}, "kind: expected one of 'bars', 'points', 'isotonic', 'smooth', got 'line'"),
        (Y, P, {"notion": "top"}, "notion: expected one of .* did you mean 'top-label'"),
        (Y, BOTH, {"notion": "classwise"}, "notion: expected 'positive' or 'top-label' for a diagram, .* pos_label"),
        (Y, THREE, {"notion": "positive"}, "notion: expected 'top-label' or 'classwise' for 3 classes, .* pass pos"),
        (Y, THREE, {"notion": "top-label", "pos_label": 1}, "notion: expected 'positive' for one class, got pos_"),
        (Y, P, {"strategy": "quantiles"}, "strategy: expected one of 'uniform', 'quantile', got 'quantiles'; did you"),
        (Y, P, {"linestyle": ":"}, "line: expected no line properties for kind='bars', got linestyle"),
        (Y, P, {"kind": "points", "c": "red"}, "line: expected properties that nothing else sets, got 'color'; pass"),
        (Y, P, {"color": "reddish"}, "color: expected a colour that matplotlib knows"),
        (Y, P, {"kind": "isotonic", "intervals": False}, "intervals: expected an argument of calibration_curve"),
        (Y, P, {"band_": False}, "band_: .*did you mean 'band'"),
        (Y, P, {"kind": "isotonic", "level": None}, "result: expected a report with calibration curves"),
        (Y, P, {"ax": 3}, "ax: expected a matplotlib Axes"),
    ],
)
@pytest.mark.usefixtures("figures")
def test_predictions_that_are_refused(y_true, y_prob, kwargs, message):
    with pytest.raises(InputError, match=f"^{message}"):
        ReliabilityDisplay.from_predictions(y_true, y_prob, **fast(), **kwargs)


def test_nothing_is_computed_for_options_that_do_not_exist(monkeypatch):
    def never(*_args, **_kwargs):
        raise AssertionError

    monkeypatch.setattr(displays, "evaluate", never)
    refused = ({"kind": "line"}, {"colour": "red"}, {"notion": "classwise"}, {"strategy": "mass"}, {"gid": "a"})
    for kwargs in refused:
        with pytest.raises(InputError):
            ReliabilityDisplay.from_predictions(Y, P, **kwargs)
        with pytest.raises(InputError):
            ReliabilityDisplay.from_estimator(Fixed(BOTH, np.array([0, 1])), P, Y, **kwargs)


def test_a_display_is_of_a_report_on_one_event():
    with pytest.raises(
        InputError, match="report: expected a report on one evaluated event, got a report with notion='classwise"
    ):
        ReliabilityDisplay(calibrant.evaluate(THREE, Y, notion="classwise", level=None))
    with pytest.raises(
        InputError,
        match=r"report: expected a calibrant\.Report, got a ndarray; call ReliabilityDisplay.from_predictions",
    ):
        ReliabilityDisplay(P)


# ---------------------------------------------------------------- the import


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_without_scikit_learn_the_import_says_what_to_do():
    code = """
import sys
sys.modules["sklearn"] = None
try:
    import calibrant.sklearn
except ImportError as error:
    print(type(error).__name__, error)
"""
    needed = "scikit-learn is needed for calibrant.sklearn and is not installed"
    assert run(code) == f"MissingDependencyError {needed}; run: {install_command('sklearn')}"
    assert issubclass(MissingDependencyError, ImportError)


@pytest.mark.slow
def test_calibrant_loads_no_scikit_learn_and_scorers_no_matplotlib():
    code = (
        "import sys, calibrant; print('sklearn' in sys.modules);"
        "import calibrant.sklearn; print('matplotlib' in sys.modules)"
    )
    assert run(code).split() == ["False", "False"]
