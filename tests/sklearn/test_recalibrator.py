"""The estimators that recalibrate: against `calibrant.recalibrate`, and the conventions of scikit-learn."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

sklearn = pytest.importorskip("sklearn")

import pandas as pd  # noqa: E402
import polars as pl  # noqa: E402
from scipy.special import softmax  # noqa: E402
from sklearn.base import clone  # noqa: E402
from sklearn.datasets import make_blobs, make_classification  # noqa: E402
from sklearn.exceptions import DataConversionWarning, NotFittedError  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.model_selection import GridSearchCV, StratifiedGroupKFold, cross_val_predict  # noqa: E402
from sklearn.naive_bayes import GaussianNB  # noqa: E402
from sklearn.neighbors import KNeighborsClassifier  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import FunctionTransformer, StandardScaler  # noqa: E402
from sklearn.svm import LinearSVC  # noqa: E402
from sklearn.utils import estimator_checks  # noqa: E402

import calibrant  # noqa: E402
from calibrant.errors import InputError  # noqa: E402
from calibrant.sklearn import MappedClassifier, RecalibratedClassifier, Recalibrator  # noqa: E402

#: What cannot pass, and why.
EXPECTED_FAILURES = {
    "check_fit2d_1feature": "it has 3 rows of a class, and a map needs 5 rows of each outcome",
    "check_n_features_in_after_fitting": "before scikit-learn 1.7 it has 4 rows of a class",
}

#: What cannot pass with a map of one event, and why.
OF_TWO_CLASSES = {"check_classifier_not_supporting_multiclass": "the error names the map, in other words"}

#: The checks of scikit-learn that need no data.
OF_PARAMETERS = (
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_repr",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_valid_tag_types",
)


def one_event(n=1000, seed=0):
    """Return overconfident probabilities of "yes", and the labels."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 2, n)
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-z / 2)), "yes", "no")
    return 1 / (1 + np.exp(-z)), y


def several(n=900, seed=0):
    """Return overconfident probabilities of three classes, and the classes."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 1.5, (n, 3))
    classes = (rng.random((n, 1)) > softmax(z, axis=1).cumsum(axis=1)).sum(axis=1)
    return softmax(2 * z, axis=1), classes


def two(n=600):
    """Return features and labels that naive Bayes predicts too extremely, without scores of 0 and 1."""
    X, y = make_classification(n, n_redundant=4, random_state=0)
    return X, np.array(["no", "yes"])[y]


def both(p):
    return np.column_stack([1 - p, p])


# ---------------------------------------------------------------- the checks of scikit-learn


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(sklearn.utils, "get_tags"), reason="before scikit-learn 1.6 they differ")
@pytest.mark.filterwarnings("ignore")
def test_the_checks_of_scikit_learn():
    model = RecalibratedClassifier(LogisticRegression())
    estimator_checks.check_estimator(model, expected_failed_checks=EXPECTED_FAILURES)
    estimator_checks.check_estimator(Recalibrator())  # of these, one applies to probabilities
    of_two = MappedClassifier(LogisticRegression(), calibrant.prior_shift(prior=0.2, trained_prior=0.5).map)
    estimator_checks.check_estimator(of_two, expected_failed_checks=OF_TWO_CLASSES)


@pytest.mark.parametrize("check", OF_PARAMETERS)
def test_the_checks_of_parameters(check):
    if not hasattr(estimator_checks, check):
        pytest.skip("this scikit-learn does not have the check")
    getattr(estimator_checks, check)("Recalibrator", Recalibrator())


# ---------------------------------------------------------------- columns of probabilities


@pytest.mark.parametrize("method", ["auto", "cox", "isotonic"])
def test_a_recalibrator_applies_the_map_of_recalibrate(method):
    p, y = one_event()
    new = np.linspace(0, 1, 101)
    options = {"method": method, "prior_rows": 5, "level": 0.9, "rng": 3}
    fix = calibrant.recalibrate(p, y == "yes", n_resamples=0, **options)
    mapped = fix.map(new)
    for fitted, columns, expected in ((p, new, mapped), (p[:, None], new[:, None], mapped[:, None])):
        np.testing.assert_array_equal(Recalibrator(**options).fit(fitted, y).transform(columns), expected)
    recalibrator = Recalibrator(**options).fit(both(p), y)
    np.testing.assert_array_equal(recalibrator.transform(both(new)), both(mapped))
    assert recalibrator.classes_.tolist() == ["no", "yes"]
    assert (recalibrator.recalibration_.gain, recalibrator.recalibration_.method) == (fix.gain, method)


def test_a_recalibrator_of_classes_applies_the_map_of_recalibrate():
    probs, classes = several()
    fix = calibrant.recalibrate(probs, classes, method="temperature", n_resamples=0)
    names = np.array(["ash", "birch", "cedar"])
    recalibrator = Recalibrator("temperature").fit(probs, names[classes])
    np.testing.assert_array_equal(recalibrator.transform(probs), fix.map(probs))
    assert recalibrator.transform(probs).shape == (900, 3)
    np.testing.assert_allclose(recalibrator.transform(probs).sum(axis=1), 1, atol=1e-12)
    assert recalibrator.classes_.tolist() == names.tolist()


def test_integers_are_indices_of_columns_if_a_class_is_missing():
    probs, classes = several()
    kept = classes != 1
    recalibrator = Recalibrator("temperature").fit(probs[kept], classes[kept])
    fix = calibrant.recalibrate(probs[kept], classes[kept], method="temperature", n_resamples=0)
    np.testing.assert_array_equal(recalibrator.transform(probs), fix.map(probs))
    assert recalibrator.classes_.tolist() == [0, 1, 2]


def test_a_map_without_proof_is_applied():
    p, y = one_event(60)
    recalibrator = Recalibrator("shift").fit(p, y)
    assert not recalibrator.recalibration_.proven
    assert not np.allclose(recalibrator.transform(p), p)


def test_a_weight_of_2_is_the_row_twice_and_0_is_no_row():
    p, y = one_event(300)
    weights = np.arange(300) % 3
    weighted = Recalibrator("cox").fit(p, y, sample_weight=weights)
    repeated = Recalibrator("cox").fit(p.repeat(weights), y.repeat(weights))
    np.testing.assert_allclose(weighted.transform(p), repeated.transform(p), atol=1e-9)
    assert not np.allclose(weighted.transform(p), Recalibrator("cox").fit(p, y).transform(p))


def test_clusters_reach_recalibrate():
    p, y = one_event(300)
    clusters = np.arange(300) // 10
    fix = Recalibrator("cox").fit(p, y, clusters=clusters).recalibration_
    own = calibrant.recalibrate(p, y == "yes", method="cox", clusters=clusters, n_resamples=0)
    assert fix.gain == own.gain
    assert fix.before.clusters["clusters"] == 30


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_keep_their_names(frame):
    p, y = one_event()
    X = frame({"no": 1 - p, "yes": p})
    recalibrator = Recalibrator("cox").fit(X, y)
    plain = Recalibrator("cox").fit(both(p), y)
    np.testing.assert_array_equal(recalibrator.transform(X), plain.transform(both(p)))
    assert recalibrator.feature_names_in_.tolist() == ["no", "yes"]
    assert recalibrator.get_feature_names_out().tolist() == ["no", "yes"]
    out = recalibrator.set_output(transform="pandas").transform(X)
    assert isinstance(out, pd.DataFrame)
    assert out.columns.tolist() == ["no", "yes"]
    one = Recalibrator("cox").fit(frame({"yes": p}), y)
    assert one.transform(frame({"yes": p})).shape == (1000, 1)
    with pytest.raises(InputError, match="X: expected the columns no, yes, as in fit, got yes, no; select"):
        recalibrator.transform(X[["yes", "no"]])
    assert not hasattr(recalibrator.fit(both(p), y), "feature_names_in_")


def test_a_recalibrator_is_a_step_of_a_pipeline():
    p, y = one_event()
    pipeline = make_pipeline(FunctionTransformer(np.sqrt), Recalibrator("cox"))
    np.testing.assert_array_equal(pipeline.fit_transform(p, y), Recalibrator("cox").fit(np.sqrt(p), y).map_(np.sqrt(p)))
    assert pipeline.set_params(recalibrator__prior_rows=3)[-1].prior_rows == 3


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([0.2, 1.5], [0, 1], r"X: expected values in \[0, 1\], got 1.5 at row 1"),
        ([0.2, np.nan], [0, 1], "X: expected finite numbers, got nan at row 1"),
        ([[0.2, 0.8], [0.5, 0.6]], [0, 1], "X: expected rows that sum to 1 .* at row 1"),
        ([], [], r"X: expected an array of shape \(N,\) or \(N, C\), got shape \(0,\)"),
        (["a", "b"], [0, 1], "X: expected real numbers, got strings"),
        ([0.2, 0.8], [1, 2, 3], "y: expected 2 distinct labels, for the event and the non-event, got 3"),
        ([[0.2, 0.3, 0.5]] * 2, ["a", "b"], "y: expected 3 distinct labels, for 3 columns, got 2"),
        ([0.2, 0.8], [0, 1], "y: expected at least 5 rows"),
        ([0.2, 0.8, 0.5], [0, 1], "y: expected 3 labels"),
    ],
)
def test_probabilities_that_are_refused(X, y, message):
    with pytest.raises(InputError, match=f"^{message}"):
        Recalibrator().fit(X, y)


def test_columns_that_transform_refuses():
    p, y = one_event()
    with pytest.raises(NotFittedError):
        Recalibrator().transform(p)
    with pytest.raises(InputError, match=r"^method: expected one of"):
        Recalibrator("sigmoids").fit(p, y)
    recalibrator = Recalibrator("cox").fit(p, y)
    with pytest.raises(InputError, match=r"^X: expected 1 column, as in fit, got 2"):
        recalibrator.transform(both(p))
    with pytest.raises(InputError, match=r"^X: expected values in .* at row 1"):
        recalibrator.transform([0.5, -0.5])
    assert recalibrator.transform([1 + 2e-16]) == recalibrator.transform([1.0])  # rounding


# ---------------------------------------------------------------- classifiers


def of_fitted(X, y):
    """Return a fitted classifier and its recalibration by hand."""
    fitted = GaussianNB().fit(X[:300], y[:300])
    p = fitted.predict_proba(X[300:])[:, 1]
    return fitted, calibrant.recalibrate(p, y[300:] == "yes", class_names=["no", "yes"], n_resamples=0)


@pytest.mark.parametrize("frozen", [False, True])
def test_a_fitted_classifier_remains_and_its_predictions_are_mapped(frozen):
    X, y = two()
    fitted, fix = of_fitted(X, y)
    estimator = pytest.importorskip("sklearn.frozen").FrozenEstimator(fitted) if frozen else fitted
    before = pickle.dumps(fitted)
    model = RecalibratedClassifier(estimator).fit(X[300:], y[300:])
    assert pickle.dumps(fitted) == before
    assert model.estimator_ is estimator
    expected = both(fix.map(fitted.predict_proba(X)[:, 1]))
    np.testing.assert_array_equal(model.predict_proba(X), expected)
    np.testing.assert_array_equal(model.predict(X), np.where(expected[:, 1] > 0.5, "yes", "no"))
    assert model.map_ == fix.map
    assert (clone(model).fit(X, y).estimator_ is estimator) == frozen  # as the documentation says


def test_what_predicts_without_fit_is_fitted():
    class Ready:
        classes_ = np.array([0, 1])

        def predict_proba(self, X):
            return both(np.asarray(X)[:, 0])

    p, y = one_event()
    model = RecalibratedClassifier(Ready(), "cox").fit(p[:, None], (y == "yes").astype(int))
    np.testing.assert_array_equal(
        model.predict_proba(p[:, None]), Recalibrator("cox").fit(both(p), y).transform(both(p))
    )
    assert not hasattr(model, "n_features_in_")


def test_a_classifier_is_fitted_and_mapped_out_of_fold():
    X, y = two()
    model = RecalibratedClassifier(GaussianNB(), cv=4).fit(X, y)
    p = cross_val_predict(GaussianNB(), X, y, cv=4, method="predict_proba")[:, 1]
    fix = calibrant.recalibrate(p, y == "yes", n_resamples=0)
    np.testing.assert_array_equal(model.predict_proba(X), both(fix.map(GaussianNB().fit(X, y).predict_proba(X)[:, 1])))
    assert not hasattr(model.estimator, "classes_")
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.n_features_in_ == 20


def test_a_classifier_of_several_classes():
    X, codes = make_blobs(600, centers=3, cluster_std=5, random_state=0)
    y = np.array(["ash", "birch", "cedar"])[codes]
    fitted = KNeighborsClassifier(15, weights="distance").fit(X[:300], y[:300])
    model = RecalibratedClassifier(fitted, "temperature").fit(X[300:], y[300:])
    fix = calibrant.recalibrate(fitted.predict_proba(X[300:]), codes[300:], method="temperature", n_resamples=0)
    probs = model.predict_proba(X)
    np.testing.assert_array_equal(probs, fix.map(fitted.predict_proba(X)))
    np.testing.assert_array_equal(model.predict(X), model.classes_[probs.argmax(axis=1)])
    assert list(model.recalibration_.before.class_names) == ["ash", "birch", "cedar"]


@pytest.mark.slow
def test_whole_clusters_are_dealt_into_folds():
    X, y = two()
    clusters = np.arange(600) // 10
    model = RecalibratedClassifier(GaussianNB(), "cox", cv=3).fit(X, y, clusters=clusters)
    splits = list(StratifiedGroupKFold(3).split(X, y, clusters))
    p = cross_val_predict(GaussianNB(), X, y, cv=splits, method="predict_proba")[:, 1]
    fix = calibrant.recalibrate(p, y == "yes", method="cox", clusters=clusters, n_resamples=0)
    assert model.recalibration_.gain == fix.gain
    same = RecalibratedClassifier(GaussianNB(), "cox", cv=StratifiedGroupKFold(3)).fit(X, y, clusters=clusters)
    assert same.map_ == model.map_
    folds = [RecalibratedClassifier(GaussianNB(), "cox", cv=cv).fit(X, y, clusters=clusters).map_ for cv in (None, 5)]
    assert folds[0] == folds[1]


@pytest.mark.slow
def test_weights_reach_the_estimator_and_the_map():
    X, y = two()
    weights = np.arange(600) % 3 + 1
    model = RecalibratedClassifier(GaussianNB(), "cox").fit(X, y, sample_weight=weights)
    params = {"params": {"sample_weight": weights}, "method": "predict_proba", "cv": 5}
    p = cross_val_predict(GaussianNB(), X, y, **params)[:, 1]
    fix = calibrant.recalibrate(p, y == "yes", method="cox", weights=weights, class_names=["no", "yes"], n_resamples=0)
    assert model.map_ == fix.map
    own = GaussianNB().fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(model.estimator_.predict_proba(X), own.predict_proba(X))
    with pytest.warns(UserWarning, match="KNeighborsClassifier does not take sample_weight, so that only the map"):
        RecalibratedClassifier(KNeighborsClassifier(30)).fit(X, y, sample_weight=weights)
    pipeline = RecalibratedClassifier(make_pipeline(StandardScaler(), GaussianNB()), "cox")
    pipeline.fit(X, y, sample_weight=weights, gaussiannb__sample_weight=weights)
    assert pipeline.recalibration_.before["brier_event"].value < 1


@pytest.mark.slow
def test_metadata_routing():
    X, y = two()
    weights = np.arange(600) % 3 + 1
    direct = RecalibratedClassifier(GaussianNB(), "cox").fit(X, y, sample_weight=weights)
    with sklearn.config_context(enable_metadata_routing=True):
        model = RecalibratedClassifier(GaussianNB().set_fit_request(sample_weight=True), "cox")
        assert model.fit(X, y, sample_weight=weights).map_ == direct.map_
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        outer = make_pipeline(scaler, model.set_fit_request(sample_weight=True, clusters=True))
        outer.fit(X, y, sample_weight=weights, clusters=np.arange(600) // 5)
        assert outer[-1].recalibration_.before.clusters["clusters"] == 120
        declined = RecalibratedClassifier(GaussianNB().set_fit_request(sample_weight=False), "cox")
        declined.fit(X, y, sample_weight=weights)
        np.testing.assert_array_equal(declined.estimator_.theta_, GaussianNB().fit(X, y).theta_)
        with pytest.raises(ValueError, match="sample_weight"):
            RecalibratedClassifier(GaussianNB()).fit(X, y, sample_weight=weights)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("series", [pd.Series, pl.Series, list])
def test_frames_and_labels_of_any_type(frame, series):
    X, y = two()
    names = [f"f{k}" for k in range(20)]
    features = frame(dict(zip(names, X.T, strict=True)))
    model = RecalibratedClassifier(GaussianNB(), "cox").fit(features, series(y.tolist()))
    plain = RecalibratedClassifier(GaussianNB(), "cox").fit(X, y)
    np.testing.assert_allclose(model.predict_proba(features), plain.predict_proba(X), atol=1e-9)
    own = getattr(GaussianNB().fit(features, y), "feature_names_in_", None)  # older ones do not read those of polars
    np.testing.assert_array_equal(getattr(model, "feature_names_in_", None), own)
    assert not hasattr(plain, "feature_names_in_")


@pytest.mark.slow
def test_a_search_over_methods_and_the_estimator():
    X, y = two()
    model = RecalibratedClassifier(make_pipeline(StandardScaler(), GaussianNB()))
    grid = {"method": ["shift", "cox"], "estimator__gaussiannb__var_smoothing": [1e-9, 0.5]}
    search = GridSearchCV(model, grid, scoring="neg_log_loss", cv=3).fit(X, y)
    assert search.best_params_["method"] == "cox"
    assert search.best_estimator_.recalibration_.chosen == "cox"


@pytest.mark.parametrize(
    "estimator", [Recalibrator("cox", level=0.9), RecalibratedClassifier(GaussianNB(), "cox", cv=3)]
)
def test_copies(estimator):
    p, y = one_event()
    assert clone(estimator).get_params(deep=False).keys() == estimator.get_params(deep=False).keys()
    fitted = clone(estimator).fit(p[:, None], y)
    again = pickle.loads(pickle.dumps(fitted))
    method = "transform" if hasattr(estimator, "transform") else "predict_proba"
    np.testing.assert_array_equal(getattr(again, method)(p[:, None]), getattr(fitted, method)(p[:, None]))
    assert again.recalibration_.gain == fitted.recalibration_.gain


def test_the_tags_describe_the_input():
    get_tags = getattr(sklearn.utils, "get_tags", None)
    if get_tags is None:
        pytest.skip("scikit-learn has tags as objects from 1.6 on")
    tags = get_tags(Recalibrator())
    assert (tags.input_tags.one_d_array, tags.input_tags.positive_only, tags.target_tags.required) == (True, True, True)
    model = get_tags(RecalibratedClassifier(LogisticRegression()))
    assert (model.estimator_type, model.input_tags.sparse) == ("classifier", True)
    assert not get_tags(RecalibratedClassifier(GaussianNB())).input_tags.sparse

    class Binary(GaussianNB):
        def __sklearn_tags__(self):
            tags = super().__sklearn_tags__()
            tags.classifier_tags.multi_class = False
            return tags

    assert not get_tags(RecalibratedClassifier(Binary())).classifier_tags.multi_class
    assert model.classifier_tags.multi_class


@pytest.mark.parametrize(
    ("estimator", "y", "kwargs", "message"),
    [
        (LinearSVC(), None, {}, "estimator: expected a classifier with predict_proba, got a LinearSVC"),
        (GaussianNB(), np.zeros(600), {}, "y: expected labels of at least two classes, .* got 1 class; fit on rows"),
        (GaussianNB(), None, {"sample_weight": np.zeros(600)}, "sample_weight: expected a weight above zero"),
        (GaussianNB(), None, {"sample_weight": [1, 2]}, r"sample_weight: expected 600 numbers, .* got shape \(2,\)"),
        (GaussianNB(), None, {"sample_weight": ["1"] * 600}, "sample_weight: expected real numbers, got strings"),
        (GaussianNB(), np.arange(600) < 4, {}, "y: expected at least 5 rows"),
        (
            GaussianNB(),
            None,
            {"clusters": np.zeros((600, 2))},
            r"clusters: expected 600 labels, one for each row, got shape \(600, 2\)",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:The least populated class")
def test_what_a_classifier_refuses(estimator, y, kwargs, message):
    X, labels = two()
    with pytest.raises(InputError, match=f"^{message}"):
        RecalibratedClassifier(estimator).fit(X, labels if y is None else y, **kwargs)


def test_errors_of_a_fitted_classifier():
    X, y = two()
    with pytest.raises(NotFittedError):
        RecalibratedClassifier(GaussianNB()).predict(X)
    fitted = GaussianNB().fit(X[:300], y[:300])
    with pytest.raises(InputError, match=r"^y: expected labels among estimator\.classes_, .* got 'maybe' at row 0"):
        RecalibratedClassifier(fitted).fit(X, np.where(np.arange(600) == 0, "maybe", y))
    with pytest.raises(ValueError, match="continuous"):
        RecalibratedClassifier(fitted).fit(X, X[:, 0])
    with pytest.warns(DataConversionWarning):
        RecalibratedClassifier(fitted, "cox").fit(X[300:], y[300:, None])


# ---------------------------------------------------------------- a map that exists


def test_a_mapped_classifier_corrects_undersampling():
    """Trained with as many non-events as events; the mean probability is then the rate of all rows."""
    X, y = make_classification(60_000, weights=[0.95], flip_y=0, class_sep=0.8, random_state=0)
    y = np.array(["no", "yes"])[y]
    events, others = np.flatnonzero(y == "yes"), np.flatnonzero(y == "no")
    rows = np.concatenate([events, others[: len(events)]])
    model, rate = LogisticRegression().fit(X[rows], y[rows]), len(events) / len(y)
    fitted = calibrant.prior_shift(prior=rate, trained_prior=0.5).map
    mapped = MappedClassifier(model, fitted)
    raw = model.predict_proba(X)[:, 1]
    np.testing.assert_allclose(mapped.predict_proba(X)[:, 1], fitted(raw))
    assert raw.mean() > 2 * rate
    assert mapped.predict_proba(X)[:, 1].mean() == pytest.approx(rate, rel=0.1)
    np.testing.assert_array_equal(mapped.predict(X), np.where(fitted(raw) > 0.5, "yes", "no"))
    assert mapped.fit(X[:100], y[:100]).estimator_ is model  # a fitted one remains
    assert clone(mapped).fitted_map == fitted


def test_a_mapped_classifier_fits_what_is_not_fitted():
    X, y = make_blobs(300, centers=3, random_state=0)
    fitted = calibrant.prior_shift(prior=[0.2, 0.3, 0.5], trained_prior=[1 / 3] * 3).map
    with pytest.raises(NotFittedError):
        MappedClassifier(GaussianNB(), fitted).predict_proba(X)
    mapped = MappedClassifier(GaussianNB(), fitted).fit(X, y, sample_weight=np.ones(300))
    np.testing.assert_allclose(mapped.predict_proba(X), fitted(GaussianNB().fit(X, y).predict_proba(X)))
    assert mapped.n_features_in_ == 2
    assert pickle.loads(pickle.dumps(mapped)).fitted_map == fitted


def test_a_mapped_classifier_takes_the_map_of_recalibrate():
    p, y = one_event()
    fitted = calibrant.recalibrate(p, y == "yes", n_resamples=0).map
    X = np.log(p / (1 - p))[:, np.newaxis]
    model = LogisticRegression().fit(X, y)
    found = MappedClassifier(model, fitted).predict_proba(X)
    np.testing.assert_allclose(found[:, 1], fitted(model.predict_proba(X)[:, 1]))


def test_a_mapped_classifier_takes_the_shares_of_two_classes():
    X, y = two()
    model = GaussianNB().fit(X, y)
    shares = calibrant.prior_shift(prior=[0.8, 0.2], trained_prior=[0.5, 0.5]).map
    event = calibrant.prior_shift(prior=0.2, trained_prior=0.5).map
    found, expected = (MappedClassifier(model, fitted).predict_proba(X) for fitted in (shares, event))
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("prior", "names", "message"),
    [
        ([0.2, 0.3, 0.5], None, "a map of 2 classes, got a map of 3"),
        ([0.2, 0.8], ["yes", "no"], "the classes no, yes, got yes, no"),
    ],
)
def test_a_map_of_other_classes_is_refused(prior, names, message):
    X, y = two()
    fitted = calibrant.prior_shift(prior=prior, trained_prior=prior[::-1], class_names=names).map
    with pytest.raises(InputError, match=message):
        MappedClassifier(GaussianNB(), fitted).fit(X, y)
    with pytest.raises(InputError, match="a CalibrationMap, got a str"):
        MappedClassifier(GaussianNB(), "map.json").fit(X, y)
