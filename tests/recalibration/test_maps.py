"""Maps of one event: fits against naive formulas and scikit-learn, forms against Python, stored maps, errors."""

from __future__ import annotations

import itertools
import json
import math
import pickle
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import narwhals as nw
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression, minimize
from scipy.special import expit, logit
from sklearn.metrics import roc_auc_score

import calibrant
from calibrant.errors import FileError, InputError
from calibrant.recalibration import CalibrationMap
from calibrant.recalibration.families import FAMILIES, names_of
from calibrant.recalibration.maps import Watch
from calibrant.recalibration.pieces import CLIP
from calibrant.recalibration.scored_rows import FitRows
from calibrant.results.envelope import digest_of

MARK = " with zeros"
FAMILY = names_of(FAMILIES)
NAMES = [family.name for family in FAMILIES]
RISING = [family.name for family in FAMILIES if family.keeps_order]
MAPS = [*NAMES, *(f"{name}{MARK}" for name in NAMES if name != "identity")]
EDGES = np.array([0.0, CLIP / 2, CLIP, 1 - CLIP, 1 - CLIP / 2, 1.0])
POINTS = np.concatenate([np.linspace(0, 1, 10_001), EDGES])


def sample(n: int, seed: int, slope: float = 0.7, shift: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Scores, and outcomes whose log-odds are a line of those of the scores."""
    rng = np.random.default_rng(seed)
    p = rng.beta(1.2, 0.8, n)
    return p, (rng.random(n) < expit(shift + slope * logit(p))).astype(np.int64)


def rows_of(p: np.ndarray, y: np.ndarray) -> FitRows:
    scores, place = np.unique(p, return_inverse=True)
    return FitRows.of_scores(scores, np.bincount(place).astype(float), np.bincount(place, y).astype(float))


def with_zeros(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores of a forest of 50 trees, some of them 0 or 1, and outcomes."""
    p, y = sample(n, seed)
    return np.random.default_rng(seed).binomial(50, p) / 50, y


def fitted(method: str, seed: int = 0, n: int = 2_000) -> CalibrationMap:
    """Return a map; one of scores that are 0 or 1, too, if the name of the method has a mark."""
    drawn = with_zeros if method.endswith(MARK) else sample
    return calibrant.recalibrate(*drawn(n, seed), method=method.removesuffix(MARK), n_resamples=0).map


def loss(t: np.ndarray, k: np.ndarray, n: np.ndarray) -> float:
    """The log loss of log-odds t, row by row."""
    return float(np.sum(n * np.logaddexp(0, t) - k * t))


# ---------------------------------------------------------------- fits


@pytest.mark.parametrize("prior", [0.0, 20.0])
@pytest.mark.parametrize("method", ["cox", "shift", "temperature", "beta"])
def test_a_fit_is_the_largest_likelihood_with_the_prior_rows(method: str, prior: float) -> None:
    p, y = sample(500, 3, slope=1.6)
    log_p, log_q = np.log(p), np.log1p(-p)
    weight = prior / len(p)

    def predictor(parameters: np.ndarray) -> np.ndarray:
        if method == "beta":
            constant, a, b = parameters
            return constant + a * log_p - b * log_q
        intercept = parameters[0] if method != "temperature" else 0.0
        slope = parameters[-1] if method != "shift" else 1.0
        return intercept + slope * (log_p - log_q)

    def naive(parameters: np.ndarray) -> float:
        t = predictor(parameters)
        return loss(t, y, np.ones(len(p))) + weight * loss(t, p, np.ones(len(p)))

    numbers = 3 if method == "beta" else 2 if method == "cox" else 1
    best = minimize(naive, np.ones(numbers), method="BFGS", options={"gtol": 1e-10})
    fit = FAMILY[method].fit(replace(rows_of(p, y), prior_rows=prior))
    ours = np.array([v for name, v in fit.parameters.items() if not {(method, name), ("", name)} & _FIXED])
    # BFGS ends where its numerical gradient is rounding: about 1e-6 of the parameters.
    np.testing.assert_allclose(ours, best.x, rtol=2e-5, atol=2e-5)
    assert naive(ours) <= best.fun + 1e-9


_FIXED = {("shift", "slope"), ("temperature", "intercept"), ("", "smallest"), ("", "largest")}


def test_cox_is_the_logistic_regression_of_scikit_learn() -> None:
    from sklearn.linear_model import LogisticRegression

    p, y = sample(1_000, 1)
    model = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-12).fit(logit(p)[:, None], y)
    fit = FAMILY["cox"].fit(rows_of(p, y))
    expected = [model.intercept_[0], model.coef_[0, 0]]
    np.testing.assert_allclose([fit.parameters["intercept"], fit.parameters["slope"]], expected, rtol=1e-10)


def test_six_separated_rows_have_the_published_slope() -> None:
    """Slope and intercept of the specification, by hand with 10 prior rows."""
    rows = FitRows.of_scores(np.array([0.1, 0.2, 0.3, 0.7, 0.8, 0.9]), np.ones(6), np.array([0, 0, 0, 1, 1, 1.0]))
    fit = FAMILY["platt"].fit(replace(rows, prior_rows=10.0))
    assert fit.parameters["intercept"] == pytest.approx(0, abs=1e-12)
    assert fit.parameters["slope"] == pytest.approx(1.3994445, abs=5e-8)


@pytest.mark.parametrize("method", ["cox", "beta", "temperature"])
def test_separated_rows_need_prior_rows(method: str) -> None:
    rows = FitRows.of_scores(np.array([0.6, 0.7, 0.8, 0.9]), np.ones(4), np.array([0, 0, 1, 1.0]))
    if method == "temperature":
        rows = FitRows.of_scores(np.array([0.1, 0.2, 0.8, 0.9]), np.ones(4), np.array([0, 0, 1, 1.0]))
    with pytest.raises(InputError, match="leave prior_rows out"):
        FAMILY[method].fit(rows)
    assert FAMILY[method].fit(replace(rows, prior_rows=20.0)).rising


def test_beta_with_a_negative_factor_has_a_factor_of_zero() -> None:
    """Outcomes that rise with log p and fall with -log(1 - p) would need b < 0."""
    rng = np.random.default_rng(5)
    p = rng.uniform(0.01, 0.99, 4_000)
    y = (rng.random(4_000) < expit(1 + np.log(p) + 0.6 * np.log1p(-p))).astype(int)
    numbers = FAMILY["beta"].fit(rows_of(p, y)).parameters
    assert numbers["negative"] == 0
    assert numbers["positive"] > 0
    design = np.stack([np.ones_like(p), np.log(p)])

    def naive(x: np.ndarray) -> float:
        return loss(x @ design, y, np.ones(len(p)))

    best = minimize(naive, [0.0, 1.0], method="BFGS")
    np.testing.assert_allclose([numbers["constant"], numbers["positive"]], best.x, rtol=1e-4, atol=1e-4)


def naive_isotonic(p: np.ndarray, y: np.ndarray, prior: float) -> tuple[np.ndarray, np.ndarray]:
    """The knots of the shrunken isotonic fit, by its definition."""
    scores, place = np.unique(p, return_inverse=True)
    n, k = np.bincount(place).astype(float), np.bincount(place, y).astype(float)
    cox = FAMILY["cox"].fit(FitRows.of_scores(scores, n, k, prior)).parameters
    q = expit(cox["intercept"] + cox["slope"] * logit(scores))
    blocks = isotonic_regression(k / n, weights=n).blocks
    sums = [[float(np.sum(c[a:b])) for a, b in itertools.pairwise(blocks)] for c in (n, k, n * q)]
    x = [float(np.sum((n * logit(scores))[a:b])) for a, b in itertools.pairwise(blocks)]
    stack: list[list[float]] = []
    for rows, events, expected, odds in zip(*sums, x, strict=True):
        block = [rows + 32, events + 32 * expected / rows, (rows + 32) * odds / rows]
        while stack and stack[-1][1] / stack[-1][0] >= block[1] / block[0]:
            block = [one + other for one, other in zip(stack.pop(), block, strict=True)]
        stack.append(block)
    weight, value, odds = np.array(stack).T
    return odds / weight, logit(value / weight)


@pytest.mark.parametrize("seed", range(4))
def test_the_isotonic_map_is_its_definition(seed: int) -> None:
    p, y = sample(800, seed)
    p = np.round(p, 2).clip(0.01, 0.99)  # ties
    x, y_knots = naive_isotonic(p, y, 20.0)
    numbers = FAMILY["isotonic"].fit(replace(rows_of(p, y), prior_rows=20.0)).parameters
    np.testing.assert_allclose(numbers["log_odds"], x, rtol=1e-10)
    np.testing.assert_allclose(numbers["mapped"], y_knots, rtol=1e-9)


def test_the_histogram_has_the_rates_of_bins_with_equally_many_rows() -> None:
    p, y = sample(3_000, 2)
    fit = FAMILY["histogram"].fit(rows_of(p, y))
    order = np.argsort(p)
    expected = [y[part].mean() for part in np.array_split(order, 15)]
    np.testing.assert_allclose(fit.parameters["rates"], expected, rtol=1e-12)


@pytest.mark.parametrize("method", ["cox", "temperature", "isotonic", "beta"])
def test_scores_that_rank_the_wrong_way_are_an_error(method: str) -> None:
    p, y = sample(400, 0)
    with pytest.raises(InputError, match=r"scores that are not higher for events \(slope 0\)"):
        calibrant.recalibrate(1 - p, y, method=method, n_resamples=0)


# ---------------------------------------------------------------- maps


@pytest.mark.parametrize("method", RISING)
def test_a_map_increases_and_keeps_off_zero_and_one(method: str) -> None:
    fix = fitted(method)
    mapped = fix(np.sort(POINTS))
    assert (np.diff(mapped) >= 0).all()
    if method != "identity":
        assert (np.diff(fix(np.linspace(CLIP, 1 - CLIP, 10_001))) > 0).all()
        assert 0 < mapped[0] < fix(1e-300) < fix(1e-30) < fix(CLIP)
        assert fix(1 - CLIP) < mapped[-1] < 1


@pytest.mark.parametrize("method", RISING)
def test_the_inverse_is_the_score_that_becomes_the_probability(method: str) -> None:
    fix = fitted(method)
    for q in (0.02, 0.2, 0.5, 0.9):
        assert float(fix(fix.inverse(q))) == pytest.approx(q, abs=1e-12)
    if method != "identity":
        with pytest.raises(InputError, match="a probability that the map reaches"):
            fitted(method + MARK).inverse(1e-12)


def test_a_map_of_bins_has_no_inverse() -> None:
    for method in ("histogram", "constant"):
        with pytest.raises(InputError, match="a strictly increasing map of one event, got a map of bins"):
            fitted(method).inverse(0.5)


@pytest.mark.parametrize("method", MAPS)
def test_log_odds_are_mapped_as_their_probabilities(method: str) -> None:
    fix = fitted(method)
    z = np.concatenate([np.linspace(-20, 20, 401), [-700, -100]])
    np.testing.assert_allclose(fix(z, logits=True), fix(expit(z)), rtol=1e-8, atol=1e-300)
    beyond = np.array([37.0, 40, 800, 1e6, 1e29, np.inf])  # double precision has no probabilities of these
    if method in ("cox", "temperature", "shift", "clipped"):
        slope, intercept = fix.parameters["slope"], fix.parameters["intercept"]
        np.testing.assert_allclose(1 - fix(beyond[:3], logits=True), expit(-intercept - slope * beyond[:3]), atol=2e-16)
    for far in (beyond, -beyond):
        mapped = fix(far, logits=True)
        assert np.isfinite(mapped).all()
        assert (np.diff(mapped) * np.sign(far[0]) >= 0).all()


LOGITS = [(8.0, 0.0), (0.01, 0.0), (100.0, 50.0), (1e4, -3e4), (1e-6, 0.0)]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("n", [600, 6_000])
@pytest.mark.parametrize(("scale", "shift"), LOGITS)
def test_logits_are_fitted_as_logits(scale: float, shift: float, n: int, kind: type) -> None:
    """The map undoes any scale and shift of the logits, with the likelihood of another program, and keeps the ranks."""
    rng = np.random.default_rng(1)
    z = rng.normal(0, 2, n)
    y = (rng.random(n) < expit(0.9 * z + 0.2)).astype(int)
    given = (scale * z + shift).astype(kind)
    fix = calibrant.recalibrate(given, y, logits=True, method="cox", prior_rows=0, n_resamples=0)
    from sklearn.linear_model import LogisticRegression

    back = (given.astype(float) - shift) / scale
    model = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-12).fit(back[:, None], y)
    slope, intercept = model.coef_[0, 0], model.intercept_[0]
    ours = fix.map.parameters
    assert ours["slope"] * scale == pytest.approx(slope, rel=1e-6)
    assert ours["intercept"] + ours["slope"] * shift == pytest.approx(intercept, abs=1e-5)
    np.testing.assert_allclose(fix.map(given, logits=True), expit(slope * back + intercept), atol=1e-5)
    after = float(np.mean(np.logaddexp(0, np.where(y == 1, -1, 1) * (slope * back + intercept))))
    # More than 4,396 scores are evaluated in cells, whose loss before is rounded.
    assert fix.after["nll"].value == pytest.approx(after, abs=0.02 + 1e-5 * fix.before["nll"].value)
    assert fix.after["auroc"].value == pytest.approx(roc_auc_score(y, back), abs=1e-7)


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("given", ["float32", "float64", "float32, two classes", "probabilities"])
def test_losses_of_far_logits_are_those_of_the_logits(given: str, clustered: bool) -> None:
    """A probability of single precision is 1 from 17 on, and the cells of clusters end near 9."""
    rng = np.random.default_rng(3)
    z = rng.normal(0, 16, 3_000).clip(-25, 25).astype(np.float32).astype(float)
    y = (rng.random(3_000) < expit(z / 8)).astype(int)
    how: dict[str, Any] = {"logits": given != "probabilities"}
    if given == "float32, two classes":
        how["notion"] = "top-label"
        passed = np.stack([0 * z, z], axis=1).astype(np.float32), y
        z, y = np.abs(z), (y == (z >= 0)).astype(int)
    else:
        passed = expit(z) if given == "probabilities" else z.astype(given), y
    clusters = np.arange(3_000) // 3 if clustered else None
    fix = calibrant.recalibrate(*passed, method="temperature", n_resamples=0, clusters=clusters, **how)

    def loss(slope: float) -> float:
        return float(np.mean(np.logaddexp(0, slope * np.where(y == 1, -z, z))))

    before, after = loss(1), loss(fix.map.parameters["slope"])
    assert fix.before["nll"].value == pytest.approx(before, rel=1e-4)
    assert fix.after["nll"].value == pytest.approx(after, abs=0.03 if clustered else 0.002)
    assert fix.gain.low < before - after < fix.gain.high
    assert fix.after["auroc"].value == pytest.approx(roc_auc_score(y, z), abs=1e-6)
    assert "infinite" not in str(fix)
    assert ("are pooled at each end" in fix.flag) == clustered


def test_the_auroc_after_is_that_of_the_mapped_scores() -> None:
    """Logits above 37 have the probability 1, so that a map tells more scores apart than the report before."""
    rng = np.random.default_rng(0)
    z = rng.normal(0, 30, 3_000)
    y = (rng.random(3_000) < expit(z / 20)).astype(int)
    fix = calibrant.recalibrate(z, y, logits=True, method="temperature", n_resamples=0)
    assert fix.before["auroc"].value == pytest.approx(roc_auc_score(y, expit(z)), abs=1e-12)
    assert fix.after["auroc"].value == pytest.approx(roc_auc_score(y, fix.map(z, logits=True)), abs=1e-12)
    assert fix.distinct_scores == (len(np.unique(expit(z))), 3_000)
    assert f"the {fix.distinct_scores[0]:,} different scores only 3,000 different values" in " ".join(str(fix).split())


def test_tiny_probabilities_are_not_merged() -> None:
    rng = np.random.default_rng(0)
    p = expit(rng.normal(-16, 6, 6_000))
    y = (rng.random(6_000) < expit(0.3 * logit(p) + 3)).astype(int)
    fix = calibrant.recalibrate(p, y, n_resamples=0)
    assert fix.distinct_scores == (6_000, 6_000)
    assert fix.after["auroc"].value == pytest.approx(roc_auc_score(y, fix.map(p)), abs=1e-9)


def test_a_sketch_says_which_scores_it_merges() -> None:
    rng = np.random.default_rng(0)
    p = expit(rng.normal(-14, 3, 4_000))
    y = (rng.random(4_000) < expit(0.3 * logit(p) + 3)).astype(int)
    sketch = calibrant.CalibrationSketch()
    sketch.update(p, y)
    merged = np.count_nonzero(p <= CLIP)
    fix = calibrant.recalibrate(sketch, method="cox", n_resamples=0)
    assert f"{merged:,} rows have scores within 1.5e-7 of 0 or 1" in fix.flag
    assert "are pooled" not in calibrant.recalibrate(p, y, method="cox", n_resamples=0).flag


@pytest.mark.parametrize("method", ["cox", "temperature", "isotonic", "beta", "shift"])
def test_one_wrong_logit_of_700_is_no_reason_for_no_result(method: str) -> None:
    rng = np.random.default_rng(1)
    z = rng.normal(0, 2, 400)
    y = (rng.random(400) < expit(z)).astype(int)
    z[0], y[0] = -700, 1
    fix = calibrant.recalibrate(z, y, logits=True, method=method, n_resamples=0)
    assert fix.before["nll"].value == pytest.approx(np.mean(np.logaddexp(0, np.where(y == 1, -z, z))))
    assert math.isfinite(fix.gain.value)
    assert str(fix)
    assert ("the slope is 0" in fix.flag) == (method in ("cox", "temperature", "isotonic"))


@pytest.mark.parametrize("method", ["cox", "beta", "temperature", "shift"])
def test_a_fit_converges_to_rounding(method: str) -> None:
    """So that the order of sums, which differs between processors, moves no parameter by 1e-9."""
    for seed, scale in ((0, 1.0), (1, 12.0), (2, 0.05)):
        p, y = sample(20_000, seed)
        z = scale * logit(p)
        one = FAMILY[method].fit(rows_of(expit(z), y)).pieces
        other = FAMILY[method].fit(replace(rows_of(expit(z), y), prior_rows=1e-12)).pieces
        for name in ("constants", "positive", "negative"):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-9, atol=1e-9)


def test_float32_scores_are_mapped_as_numbers() -> None:
    p, y = sample(3_000, 4)
    single = calibrant.recalibrate(p.astype(np.float32), y, method="isotonic", n_resamples=0).map
    double = calibrant.recalibrate(p, y, method="isotonic", n_resamples=0).map
    # float32 moves a score by at most 6e-8, and a line rises by at most 100.
    np.testing.assert_allclose(single(p), double(p), atol=1e-5)
    assert single(p.astype(np.float32)).dtype == np.float64


@pytest.mark.parametrize(
    ("value", "message"),
    [(math.nan, "nan at row 1"), (1.5, "1.5 at row 1"), (-0.1, "-0.1 at row 1"), (math.inf, "inf at row 1")],
)
def test_an_invalid_score_is_named(value: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fitted("cox")([0.5, value])


@pytest.mark.parametrize("method", MAPS)
def test_sql_and_expressions_equal_python(method: str) -> None:
    fix = fitted(method)
    frame = pl.DataFrame({"the score": POINTS, "i": np.arange(len(POINTS))})  # noqa: F841 - DuckDB reads it
    query = f"SELECT {fix.to_sql('the score')} AS q FROM frame ORDER BY i"
    np.testing.assert_allclose(duckdb.sql(query).fetchnumpy()["q"], fix(POINTS), rtol=0, atol=1e-12)
    for native in (pl.DataFrame({"s": POINTS}), pa.table({"s": POINTS})):
        column = nw.from_native(native).select(q=fix.to_expression("s"))["q"].to_numpy()
        np.testing.assert_allclose(column, fix(POINTS), rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", NAMES)
def test_sql_and_expressions_turn_invalid_scores_into_null(method: str) -> None:
    fix = fitted(method)
    invalid = [None, math.nan, 1.5, -0.1, math.inf]
    values = ", ".join("(NULL)" if v is None else f"('{v}')" for v in invalid)
    query = f"SELECT {fix.to_sql('v')} FROM (SELECT CAST(column0 AS DOUBLE) AS v FROM (VALUES {values}) w(column0))"
    assert duckdb.sql(query).fetchall() == [(None,)] * len(invalid)
    column = nw.from_native(pl.DataFrame({"v": invalid})).select(q=fix.to_expression("v"))["q"]
    assert column.to_list() == [None] * len(invalid)


@pytest.mark.parametrize("method", MAPS)
def test_onnx_equals_python(method: str, tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="it writes the model")
    runtime = pytest.importorskip("onnxruntime", reason="it runs the model")
    fix = fitted(method)
    fix.to_onnx(tmp_path / "map.onnx")
    session = runtime.InferenceSession(tmp_path / "map.onnx")
    np.testing.assert_allclose(session.run(None, {"score": POINTS})[0], fix(POINTS), rtol=0, atol=1e-12)
    assert np.isnan(session.run(None, {"score": np.array([math.nan, 1.5, -0.1])})[0]).all()


@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize("method", MAPS)
def test_the_layer_of_torch_equals_python(method: str, logits: bool) -> None:
    torch = pytest.importorskip("torch")
    from calibrant.torch import RecalibrationLayer

    fix = fitted(method)
    layer = RecalibrationLayer(fix, logits=logits)
    x = np.linspace(-20, 20, 2_001) if logits else POINTS
    mapped = fix(x, logits=logits)
    np.testing.assert_allclose(layer(torch.from_numpy(x)).numpy(), mapped, rtol=0, atol=1e-12)
    single = layer(torch.from_numpy(x).float())
    assert single.dtype == torch.float32
    assert method == "identity" or single.max() < 1
    # The rounding of a score, 6e-8, times the steepest rise of these maps, and steps at their edges.
    if not method.startswith("histogram"):
        np.testing.assert_allclose(single.numpy(), mapped, rtol=0, atol=2e-5)
    invalid = [math.nan] if logits else [math.nan, 1.5, -0.1]
    assert layer(torch.tensor(invalid)).isnan().all()
    for kind in (torch.float16, torch.bfloat16):
        half = layer(torch.from_numpy(x).to(kind))
        assert half.dtype == kind
        assert method == "identity" or (half.min() > 0 and half.max() < 1)
    assert layer(torch.rand(2, 3).half()).shape == (2, 3)
    again = RecalibrationLayer(fix, logits=logits)
    again.load_state_dict(layer.state_dict())
    meta = layer.to("meta")
    assert meta(torch.empty(5, device="meta")).shape == (5,)


# ---------------------------------------------------------------- stored maps


@pytest.mark.parametrize("method", NAMES)
def test_a_stored_map_is_the_same(method: str, tmp_path: Path) -> None:
    fix = fitted(method)
    text = fix.to_json(tmp_path / "map.json")
    again = CalibrationMap.from_json(text)
    assert again == fix == CalibrationMap.read(tmp_path / "map.json")
    assert again.to_json() == text
    np.testing.assert_array_equal(again(POINTS), fix(POINTS))
    assert hash(again) == hash(fix)
    assert pickle.loads(pickle.dumps(fix)) == fix


def _changed(text: str, change: Any) -> str:
    """Return a map with another content and the right checksum."""
    content = json.loads(text)
    del content["checksum"]
    change(content)
    return json.dumps({**content, "checksum": digest_of(content)}).replace("Infinity", "1e999")


@pytest.mark.parametrize(
    ("scores", "smallest", "largest"),
    [
        ([0.0, 0.3, 0.9], 1 / 202, 1),
        ([0.3, 0.9, 1.0], 0, 1 - 1 / 202),
        ([0.0, 1e-3, 0.5], 5e-4, 1),  # half the smallest other score
        ([0.0, 2 * CLIP, 0.5], CLIP, 1),
        ([0.5, 1 - 2.0**-53, 1.0], 0, 1 - 2.0**-53),
        ([1e-300, 0.5, 0.6], 0, 1),
        ([0.0, CLIP, 1.0], CLIP / 2, 1 - 1 / 202),
    ],
)
def test_scores_of_0_and_1_are_moved_by_half_a_row(scores: list[float], smallest: float, largest: float) -> None:
    rows = FitRows.of_scores(np.array(scores), np.array([50.0, 20.0, 30.0]), np.array([1.0, 10.0, 29.0]), 20.0)
    assert (rows.smallest, rows.largest) == (pytest.approx(smallest, rel=1e-12), pytest.approx(largest, rel=1e-12))
    fit = FAMILY["clipped"].fit(rows)
    np.testing.assert_allclose(fit.pieces.log_odds(np.array(scores)), logit(np.clip(scores, smallest, largest)))
    assert fit.rising
    for family in FAMILIES:
        stored = family.fit(rows).parameters
        assert family.name == "identity" or (stored["smallest"], stored["largest"]) == (rows.smallest, rows.largest)


def test_a_map_of_version_1_is_read() -> None:
    """It has one limit for both ends."""

    def old(content: Any) -> None:
        content["version"] = 1
        content["parameters"] = {"intercept": 0.5, "slope": 2.0, "smallest": 0.01}

    read = CalibrationMap.from_json(_changed(fitted("cox").to_json(), old))
    np.testing.assert_allclose(read([0.0, 0.3, 1.0]), expit(0.5 + 2 * logit([0.01, 0.3, 0.99])), rtol=1e-12)


def test_a_reader_is_told_which_scores_are_moved() -> None:
    said = "Before the map, scores outside [0.00025, 1 - 0.00025] are moved to the nearer end of this interval."
    for drawn, moved in ((with_zeros, True), (sample, False)):
        fix = calibrant.recalibrate(*drawn(2_000, 0), method="cox", n_resamples=0)
        assert (said in " ".join(str(fix).split())) == moved


@pytest.mark.parametrize(("method", "formula"), [("temperature", ""), ("cox", " + 0.168")])
def test_a_reader_sees_the_line_of_a_map(method: str, formula: str) -> None:
    fix = calibrant.recalibrate(*sample(2_000, 0), method=method, n_resamples=0)
    assert f"{fix.map.parameters['slope']:.3g} × log-odds{formula}." in " ".join(str(fix).split())


@pytest.mark.parametrize(
    ("alias", "name"), [(alias, family.name) for family in FAMILIES for alias in family.aliases], ids=str
)
def test_an_alias_is_its_family(alias: str, name: str) -> None:
    given, named = (calibrant.recalibrate(*sample(300, 0), method=method, n_resamples=0) for method in (alias, name))
    assert (given.chosen, given.map.parameters) == (name, named.map.parameters)


def test_a_shift_is_named_as_the_clinical_papers_do() -> None:
    fix = calibrant.recalibrate(*sample(300, 0), method="intercept", n_resamples=0)
    assert fix.chosen == "shift"
    assert "Map: a shift of the log-odds (intercept update)" in " ".join(str(fix).split())


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("method", [name for name in RISING if name != "identity"])
def test_a_shrunk_map_has_a_mean_of_log_odds(method: str, share: float) -> None:
    p, y = with_zeros(2_000, 0)
    fit = FAMILY[method].fit(rows_of(p, y))
    moved = np.clip(POINTS, fit.pieces.smallest, fit.pieces.largest)
    wanted = (1 - share) * fit.pieces.log_odds(POINTS) + share * (np.log(moved) - np.log1p(-moved))
    # A line between knots that are 1e-7 apart has lost digits of its slope.
    np.testing.assert_allclose(fit.shrunk(share).pieces.log_odds(POINTS), wanted, rtol=0, atol=1e-7)


@pytest.mark.parametrize("method", MAPS)
def test_sql_needs_no_more_than_ln_and_exp(method: str) -> None:
    """SQLite has neither LEAST nor GREATEST."""
    fix = fitted(method)
    with sqlite3.connect(":memory:") as connection:
        _with_functions(connection)
        connection.execute("CREATE TABLE t (i INTEGER, s REAL)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", enumerate(POINTS.tolist()))
        found = connection.execute(f"SELECT {fix.to_sql('s')} FROM t ORDER BY i").fetchall()
        np.testing.assert_allclose(np.array(found)[:, 0], fix(POINTS), rtol=1e-9, atol=1e-12)
        query = f"SELECT {fix.to_sql('v')} FROM (SELECT ? AS v)"
        assert [connection.execute(query, (v,)).fetchone() for v in (None, 1.5, -0.1, math.inf)] == [(None,)] * 4
    connection.close()


def _with_functions(connection: sqlite3.Connection) -> None:
    """Register LN and EXP where SQLite was built without them; as in other databases, what overflows is an error."""
    connection.create_function("LN", 1, math.log, deterministic=True)
    connection.create_function("EXP", 1, math.exp, deterministic=True)


@pytest.mark.parametrize("quote", [None, "", 3, "[]"])
def test_a_quotation_mark_is_one_character(quote: Any) -> None:
    with pytest.raises(InputError, match="quote: expected one character"):
        _COX.to_sql("the score", quote=quote)
    with pytest.raises(InputError, match="column: expected the name of a column"):
        _COX.to_sql(3)


@pytest.mark.parametrize("name", ["order", "End", "p 1", 'a"b'])
def test_names_that_sql_reads_otherwise_are_quoted(name: str) -> None:
    with duckdb.connect() as connection:
        connection.register("t", pa.table({name: [0.5]}))
        (found,) = connection.sql(f"SELECT {_COX.to_sql(name)} FROM t").fetchall()
    assert found == (pytest.approx(_COX(0.5)),)


def test_a_changed_or_cut_map_is_refused(tmp_path: Path) -> None:
    text = fitted("isotonic").to_json()
    for other in (
        text.replace('"n": 2000', '"n": 2001'),
        text[:-40],
        "{}",
        "[1]",
        "not JSON",
        '{"schema": NaN}',
        "\ud800",
    ):
        with pytest.raises(InputError, match=r"^text: expected"):
            CalibrationMap.from_json(other)
    (tmp_path / "m.json").write_text(text[:-40])
    with pytest.raises(FileError, match=r"m\.json: expected JSON, got invalid JSON"):
        CalibrationMap.read(tmp_path / "m.json")
    with pytest.raises(FileError, match=r"nm\.json: no such file; did you mean 'm\.json'\?"):
        CalibrationMap.read(tmp_path / "nm.json")
    with pytest.raises(FileError, match=r"nothing_like_it: no such file; pass a map that calibrant wrote"):
        CalibrationMap.read(tmp_path / "nothing_like_it")
    with pytest.raises(InputError, match="at most 64,000,000 bytes"):
        CalibrationMap.from_json(" " * 64_000_001)


#: JSON has no infinity, but 1e999 is read as one.
INFINITE = math.inf

CHANGES: dict[str, Any] = {
    "another version": lambda x: x.update(version=4),
    "another kind": lambda x: x.update(kind="spline"),
    "no kind": lambda x: x.pop("kind"),
    "a text for a number": lambda x: x["parameters"].update(slope="1"),
    "a knot back": lambda x: x["parameters"]["log_odds"].reverse(),
    "another length": lambda x: x["parameters"]["mapped"].pop(),
    "no knots": lambda x: x["parameters"].update(log_odds=[], mapped=[]),
    "a falling line": lambda x: x["parameters"]["mapped"].reverse(),
    "a negative slope": lambda x: x["parameters"].update(slope=-1.0),
    "a number too large": lambda x: x["parameters"].update(slope=10**400),
    "a true for a number": lambda x: x["parameters"].update(slope=True),
    "no smallest score": lambda x: x["parameters"].pop("smallest"),
    "a smallest score below 0": lambda x: x["parameters"].update(smallest=-0.1),
    "a largest score of 0.5": lambda x: x["parameters"].update(largest=0.5),
    "a slope far too large": lambda x: x["parameters"].update(slope=1e308),
    "knots far too far": lambda x: x["parameters"].update(mapped=[y * 1e307 for y in x["parameters"]["mapped"]]),
    "class names of one text": lambda x: x["event"].update(class_names="ab"),
    "class names of numbers": lambda x: x["event"].update(class_names=[1, 2]),
    "equal class names": lambda x: x["event"].update(class_names=["a", "a"]),
    "no class names": lambda x: x["event"].pop("class_names"),
    "an unknown notion": lambda x: x["event"].update(notion="risk"),
    "a notion of another kind": lambda x: x["event"].update(notion=[]),
    "rows without end": lambda x: x["fitted"].update(n=10**400),
    "one quantile": lambda x: x["fitted"].update(quantiles=[0.5]),
    "a smallest score of 0.5": lambda x: x["parameters"].update(smallest=0.5),
    "no rows": lambda x: x["fitted"].update(n=0),
    "a field too many": lambda x: x["fitted"].update(more=1),
    "fitted of another kind": lambda x: x.update(fitted=[1]),
    "an infinite slope": lambda x: x["parameters"].update(slope=INFINITE),
    "an infinite knot": lambda x: x["parameters"]["mapped"].append(x["parameters"]["mapped"].pop() * INFINITE),
    "proven is a text": lambda x: x.update(proven="false"),
    "evidence of another kind": lambda x: x.update(evidence=[1]),
    "event of another kind": lambda x: x.update(event="risk"),
    "half a row": lambda x: x["fitted"].update(n=0.5),
    "a text for the smallest score": lambda x: x["fitted"].update(low="0"),
    "a largest score above 1": lambda x: x["fitted"].update(high=2.0),
    "an infinite weight": lambda x: x["fitted"].update(positives=INFINITE),
    "a quantile of text": lambda x: x["fitted"].update(quantiles=["0"]),
    "falling quantiles": lambda x: x["fitted"]["quantiles"].reverse(),
    "a number for clusters": lambda x: x["fitted"].update(cluster=1),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.filterwarnings("error")
def test_a_forged_map_is_refused(change: Any) -> None:
    with pytest.raises(InputError, match=r"^text: expected"):
        CalibrationMap.from_json(_changed(fitted("isotonic").to_json(), change))


def test_a_map_is_checked_for_drift() -> None:
    p, y = sample(4_000, 0)
    fix = calibrant.recalibrate(p, y, n_resamples=0).map
    new = sample(4_000, 1)[0]
    assert not fix.check(new).drifted
    drift = fix.check(new**2)
    assert drift.drifted
    # The quantiles 0.05 apart resolve the Kolmogorov distance of the two samples to 0.05.
    ranks = np.searchsorted(np.sort(p), np.sort(new**2)) / len(p)
    distance = float(np.max(np.abs(ranks - np.arange(4_000) / 4_000)))
    assert drift.distance == pytest.approx(distance, abs=0.05)
    assert fix.check([0.0, 1.0] * 5).outside == 1
    with pytest.raises(InputError, match="at least one score"):
        fix.check([])


@pytest.mark.parametrize(
    ("probs", "message"),
    [([0.2, math.nan], "nan at row 1"), ([0.2, 2.0], "2 at row 1"), (["a"], "strings such as 'a'")],
)
def test_scores_that_a_map_rejects_are_not_checked_for_drift(probs: Any, message: str) -> None:
    for read in (_COX, _COX.check):
        with pytest.raises(InputError, match=message):
            read(probs)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50), st.integers(1, 49))
def test_drift_is_the_same_whatever_the_batches(scores: list[float], cut: int) -> None:
    fix = _COX
    watch = Watch(fix.fitted)
    for part in (scores[:cut], scores[cut:]):
        watch.add(part)
    assert watch.result() == fix.check(scores)


_COX = fitted("cox")
