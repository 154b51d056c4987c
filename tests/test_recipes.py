"""The pages about quantile forecasts, censoring and soft labels: short, and their numbers against closed forms."""

from __future__ import annotations

import contextlib
import csv
import doctest
import io
from pathlib import Path
from typing import Any

import make_recipes
import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import calibrant
from calibrant.compat import bensemble
from calibrant.errors import InputError
from tests.samples import draw
from tests.test_docs import DOCS, ROOT, fenced

PAGES = ("quantiles", "censoring", "soft-labels")


def run_page(name: str) -> dict[str, Any]:
    """Run the examples of a page, and return their variables; tests/test_docs.py checks what they print."""
    text = fenced((DOCS / f"{name}.md").read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for example in doctest.DocTestParser().get_examples(text):
            exec(compile(example.source, name, "single"), names)
    return names


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_short(name: str) -> None:
    assert len((DOCS / f"{name}.md").read_text(encoding="utf-8").split()) <= 500


def test_the_coverage_of_quantiles_is_that_of_the_normal_distribution() -> None:
    """With the standard deviation 0.8, the coverage of level t is Phi(0.8 z_t); 4 standard errors at most."""
    page = run_page("quantiles")
    taus, n, report = np.array(page["taus"]), page["n"], page["report"]
    true = ndtr(0.8 * ndtri(taus))
    bins = report.diagram
    held = bins.counts > 0
    np.testing.assert_allclose(bins.confidences[held], taus, rtol=1e-12)  # a bin for each level
    covered = (page["outcomes"][:, None] <= page["quantiles"]).mean(axis=0)
    np.testing.assert_allclose(bins.accuracies[held], covered, rtol=1e-12)
    assert (np.abs(covered - true) < 4 * np.sqrt(true * (1 - true) / n)).all()
    inside = ((bins.lows <= bins.accuracies) & (bins.accuracies <= bins.highs))[held]
    assert inside.all()
    assert report["mean_gap"].value == pytest.approx(taus.mean() - covered.mean(), abs=1e-12)
    # The variance of the mean over cases, from one number for each case; 1,000 clusters share 256 buckets at random, by
    # which the half width has a relative standard deviation of 4 %.
    residuals = taus.mean() - (page["outcomes"][:, None] <= page["quantiles"]).mean(axis=1)
    half = (report["mean_gap"].high - report["mean_gap"].low) / 2
    assert half == pytest.approx(1.96 * residuals.std(ddof=1) / np.sqrt(n), rel=0.15)
    # The interval between the levels 5 % and 95 %.
    of_interval = 2 * ndtr(0.8 * ndtri(0.95)) - 1
    assert page["gap"].low < 0.9 - of_interval < page["gap"].high
    drawn = page["ax"].collections, page["ax"].lines
    points = np.concatenate([np.asarray(line.get_xydata()) for line in drawn[1]] + [c.get_offsets() for c in drawn[0]])
    for tau, share in zip(taus, covered, strict=True):
        assert np.isclose(points, [tau, share]).all(axis=1).any(), tau


def test_the_file_of_quantiles_has_the_forecasts_of_the_page(tmp_path: Path) -> None:
    page, path = run_page("quantiles"), tmp_path / "quantiles.csv"
    make_recipes.write_quantiles(path)
    with path.open(encoding="utf-8") as file:
        rows = [[float(row["quantile"]), float(row["outcome"])] for row in csv.DictReader(file)]
    quantiles, outcomes = np.array(rows).T.reshape(2, page["n"], -1)
    np.testing.assert_allclose(quantiles, page["quantiles"], atol=1e-6)
    np.testing.assert_allclose(outcomes[:, 0], page["outcomes"], atol=1e-6)


def test_the_example_of_censoring_finds_the_true_ratio() -> None:
    """The true risks are those of exponential times; the O:E ratio is their mean over the mean prediction."""
    page = run_page("censoring")
    true = (1 - np.exp(-5 * page["rates"])).mean() / page["predicted"].mean()
    assert page["oe"].low < true < page["oe"].high
    assert page["kind"][~page["events"]].max() == 0
    assert set(page["outcomes"].tolist()) == {0, 1}


def soft_rows(scores: np.ndarray, soft: np.ndarray) -> dict[str, Any]:
    """The arguments of `evaluate` for soft labels of one event, as the page passes them."""
    n = len(scores)
    return {
        "probs": np.repeat(scores, 2),
        "targets": np.tile([0, 1], n),
        "weights": np.stack([1 - soft, soft], axis=1).ravel(),
        "weights_are": "sampling",
        "clusters": np.repeat(np.arange(n), 2),
    }


def test_soft_labels_have_closed_forms() -> None:
    rng = np.random.default_rng(1)
    n = 200  # up to 256 clusters have a bucket each
    scores, soft = rng.random(n), rng.beta(2, 2, n)
    report = calibrant.evaluate(**soft_rows(scores, soft), n_resamples=0, measures="all")
    gaps = scores - soft
    assert report["mean_gap"].value == pytest.approx(gaps.mean(), abs=1e-12)
    half = (report["mean_gap"].high - report["mean_gap"].low) / 2
    assert half == pytest.approx(1.96 * gaps.std(ddof=1) / np.sqrt(n), rel=0.002)
    assert report["brier"].value == pytest.approx(np.mean(gaps**2 + soft * (1 - soft)), rel=1e-12)
    cross_entropy = -np.mean(soft * np.log(scores) + (1 - soft) * np.log1p(-scores))
    assert report["nll"].value == pytest.approx(cross_entropy, rel=1e-12)
    bin_of_row = np.ceil(scores * 15).astype(int) - 1
    ece = np.abs(np.bincount(bin_of_row, gaps, 15)).sum() / n
    assert report["ece"].value == pytest.approx(ece, rel=1e-12)


def test_soft_labels_of_classes_have_closed_forms() -> None:
    page = run_page("soft-labels")
    probs, soft, report = page["probs"], page["soft"], page["report"]
    brier = np.mean(np.sum((probs - soft) ** 2 + soft * (1 - soft), axis=1))
    assert report["brier"].value == pytest.approx(brier, rel=1e-12)
    assert report["nll"].value == pytest.approx(-np.mean(np.sum(soft * np.log(probs), axis=1)), rel=1e-12)
    assert report["mean_gap"].value == pytest.approx(probs.max(axis=1).mean() - page["chosen"].mean(), abs=1e-12)


def test_annotations_that_count_each_item_once_are_soft_labels() -> None:
    rng = np.random.default_rng(4)
    scores, annotators = rng.random(200), rng.integers(2, 6, 200)
    items = np.repeat(np.arange(200), annotators)
    labels = rng.random(len(items)) < scores[items] ** 1.5
    weights = 1 / annotators[items]
    each = calibrant.evaluate(
        scores[items], labels, weights=weights, weights_are="sampling", clusters=items, n_resamples=0
    )
    shares = np.bincount(items, labels) / annotators
    soft = calibrant.evaluate(**soft_rows(scores, shares), n_resamples=0)
    for name in ("mean_gap", "brier", "ece"):
        assert each[name].value == pytest.approx(soft[name].value, rel=1e-12, abs=1e-12), name
    for end in ("low", "high"):  # the sums of the clusters are the same; their degrees of freedom differ a little
        assert getattr(each["mean_gap"], end) == pytest.approx(getattr(soft["mean_gap"], end), abs=1e-3)


def test_hard_labels_are_soft_labels_of_0_and_1() -> None:
    scores, outcomes = draw(2, 300)
    soft = calibrant.evaluate(**soft_rows(scores, outcomes.astype(float)), n_resamples=0)
    hard = calibrant.evaluate(scores, outcomes, clusters=np.arange(300), n_resamples=0)
    for name in ("mean_gap", "brier", "ece"):
        for end in ("value", "low", "high"):
            assert getattr(soft[name], end) == pytest.approx(getattr(hard[name], end), rel=1e-9, abs=1e-12), name


def test_the_error_at_soft_labels_names_a_page_and_its_way_works() -> None:
    rng = np.random.default_rng(3)
    scores, soft = rng.random(50), rng.beta(2, 2, 50)
    classes = np.stack([1 - scores, scores], axis=1), np.stack([1 - soft, soft], axis=1)
    for arguments in ((scores, soft), classes):
        with pytest.raises(InputError, match=r"for soft labels, .* \(see docs/soft-labels\.md\)") as caught:
            calibrant.evaluate(*arguments)
        assert (ROOT / caught.value.remedy.rpartition("(see ")[2].partition(")")[0]).exists()
    with pytest.raises(InputError, match=r"for soft labels, see docs/soft-labels\.md$"):
        bensemble.brier_score(*classes)  # it has neither weights nor clusters


@pytest.mark.slow
@pytest.mark.parametrize("concentration", [4, 20])
def test_noise_floors_of_soft_labels_are_conservative(concentration: float) -> None:
    """What the page says. The mean ECE of 40 samples has a relative standard error of about 3 %."""
    values = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        scores = rng.uniform(0.05, 0.95, 400)
        soft = rng.beta(scores * concentration, (1 - scores) * concentration)
        report = calibrant.evaluate(**soft_rows(scores, soft), n_resamples=200)
        values.append(
            [report["ece"].value, report["ece"].floor.mean, report["mean_gap"].low <= 0, report.miscalibrated]
        )
    ece, floor, _, rejected = np.mean(values, axis=0)
    assert 1.05 < floor / ece < 1.3
    assert rejected <= 0.05
    assert np.mean([low for _, _, low, _ in values]) > 0.9
