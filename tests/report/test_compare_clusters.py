"""Models compared by cluster: rows and sketches, against rows that are copies and against known truth."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit

import calibrant
from calibrant import CalibrationSketch, compare, evaluate
from calibrant.errors import InputError
from calibrant.render.page import to_page
from tests.samples import sketch_of

NAMES = ("debiased_square", "ece", "brier", "nll", "accuracy")


def models(seed: int = 0, clusters: int = 80, each: int = 1, noise: float = 0.5) -> dict[str, Any]:
    """Two models of the same rows, ``each`` copies of every row; the first is too extreme."""
    rng = np.random.default_rng([seed, clusters])
    q = rng.uniform(0.02, 0.98, clusters)
    y = (rng.random(clusters) < q).astype(int)
    first, second = expit(1.6 * logit(q)), expit(logit(q) + noise * rng.normal(size=clusters))
    return {name: np.repeat(x, each) for name, x in (("a", first), ("b", second), ("y", y))} | {
        "labels": np.repeat(np.arange(clusters), each)
    }


def by_cluster(data: dict[str, Any], **options: Any) -> calibrant.Comparison:
    return compare(data["a"], data["b"], data["y"], **{"clusters": data["labels"], **options})


def numbers(comparison: calibrant.Comparison) -> dict[str, tuple[float, float, float]]:
    pair = comparison.pairs[0]
    return {name: (pair[name].value, pair[name].low, pair[name].high) for name in NAMES}


def sketches(data: dict[str, Any], seeds: tuple[int, int] = (0, 0)) -> list[CalibrationSketch]:
    """A sketch of each model's rows, in some order."""
    found = []
    for name, seed in zip("ab", seeds, strict=True):
        sketch = CalibrationSketch()
        order = np.random.default_rng(seed).permutation(len(data["y"]))
        sketch.update(data[name][order], data["y"][order], clusters=data["labels"][order])
        found.append(sketch)
    return found


def test_copies_say_what_one_row_of_each_says() -> None:
    """Ten copies of each row: by cluster the intervals stay as wide, and without clusters they shrink threefold."""
    alone, copies = models(1, 250), models(1, 250, each=10)
    one, found, plain = (
        compare(alone["a"], alone["b"], alone["y"]),
        by_cluster(copies),
        by_cluster(copies, clusters=None),
    )
    for name in ("brier", "nll", "accuracy"):
        widths = [np.ptp(numbers(each)[name][1:]) for each in (one, found, plain)]
        assert widths[1] == pytest.approx(widths[0], rel=0.03), name
        assert widths[2] == pytest.approx(widths[0] / math.sqrt(10), rel=0.03), name
    assert np.ptp(numbers(found)["debiased_square"][1:]) == pytest.approx(
        np.ptp(numbers(one)["debiased_square"][1:]), rel=0.1
    )
    assert found.pairs[0]["debiased_square"].p_value == pytest.approx(one.pairs[0]["debiased_square"].p_value, abs=0.05)
    for name, test in found.tests.items():
        assert test.p_value == pytest.approx(one.tests[name].p_value, abs=0.1)


def test_the_differences_are_those_of_the_values_shown() -> None:
    data = models(2, 60, each=5)
    found = by_cluster(data)
    for name in NAMES:
        a, b = (found.models[model][name] for model in "AB")
        assert found.pairs[0][name].value == pytest.approx(a - b, abs=1e-14)
        assert found.pairs[0][name].method.endswith("; by cluster")
        assert found.pairs[0][name].details["clusters"] == 60
    report = calibrant.evaluate(data["a"], data["y"], clusters=data["labels"], n_resamples=0)
    for name in NAMES:
        assert found.models["A"][name] == pytest.approx(report[name].value, rel=1e-12)
    assert found.tests["A"].p_value == pytest.approx(report.test.p_value, rel=1e-9)
    np.testing.assert_allclose(found.diagrams["A"].lows, report.diagram.lows, rtol=1e-12)
    np.testing.assert_allclose(found.diagrams["A"].band_highs, report.diagram.band_highs, rtol=1e-12)


def test_clusters_of_one_row_are_independent_rows() -> None:
    data = models(3, 200)
    found, plain = by_cluster(data), by_cluster(data, clusters=None)
    assert numbers(found) == numbers(plain)
    assert found.pairs[0]["ece"].method == f"{plain.pairs[0]['ece'].method}; clusters of one row"
    assert found.clusters == {"clusters": 200, "largest_cluster": 1 / 200}
    assert "independent" not in str(found)
    assert "assume independent rows" in str(plain)
    assert "assume independent rows" in to_page(plain._document(full=True))


def test_the_first_line_names_the_clusters() -> None:
    found = by_cluster(models(4, 60, each=3))
    assert str(found).startswith("180 rows in 60 clusters, 2 models")
    assert "in 60 clusters" in to_page(found._document(full=True))
    assert found.to_dict()["clusters"] == {"clusters": 60, "largest_cluster": pytest.approx(1 / 60)}
    few = by_cluster(models(4, 12, each=30))
    flag = few.pairs[0]["ece"].details["flag"]
    assert "one outcome occurs in only " in flag
    assert " clusters, fewer than 15, so intervals may be too short" in flag
    assert f"Caution: {flag}." in few.verdict()


@pytest.mark.parametrize("with_sketches", [False, True])
def test_the_caution_of_each_of_several_models_is_said_once(with_sketches: bool) -> None:
    """The models have rows of the same clusters, and each has outcomes of its own."""
    rng = np.random.default_rng(3)
    labels, p = np.repeat(np.arange(12), 30), rng.random((3, 360))
    right = [np.where((labels < holding) & (rng.random(360) < 0.5), 0, 1) for holding in (3, 4, 5)]
    if with_sketches:
        given = {}
        for name, scores, y in zip("ABC", p, right, strict=True):
            given[name] = CalibrationSketch()
            given[name].update(scores, y, clusters=labels)
        found = compare(given, paired=True)
    else:
        pairs = {name: (scores, y) for name, scores, y in zip("ABC", p, right, strict=True)}
        found = compare(pairs, clusters=labels, own_outcomes=True)
    few = [
        f"Caution: {name}: one outcome occurs in only {k} clusters, fewer than 15"
        for name, k in zip("ABC", (3, 4, 5), strict=True)
    ]
    cautions = [text for text in found.verdict() if text.startswith("Caution: ")]
    assert [caution.partition(", so intervals")[0] for caution in cautions] == few
    alike = compare(dict(zip("ABC", p, strict=True)), right[0], clusters=labels)
    (caution,) = [text for text in alike.verdict() if text.startswith("Caution: ")]
    assert caution.startswith("Caution: one outcome occurs in only 3 clusters")


def test_images_are_clusters_unless_they_are_not() -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.dirichlet(np.ones(3), (30, 8)).transpose(0, 2, 1) for _ in "ab")
    y = rng.integers(0, 3, (30, 8))
    guessed, given = compare(a, b, y), compare(a, b, y, clusters=np.repeat(np.arange(30), 8))
    assert numbers(guessed) == numbers(given)
    assert guessed.clusters["clusters"] == 30
    assert compare(a, b, y, clusters=False).clusters is None
    one = compare(a[:1], b[:1], y[:1])
    assert one.clusters is None
    assert "rows of one image" in one.pairs[0]["ece"].details["flag"]


def test_weights_tolerance_and_many_models() -> None:
    data = models(6, 100, each=4)
    weights = np.random.default_rng(6).random(400) + 0.1
    both = {"a": data["a"], "b": data["b"], "c": (data["a"] + data["b"]) / 2}
    found = compare(both, data["y"], clusters=data["labels"], weights=weights, tolerance=0.4)
    assert len(found.pairs) == 3
    assert {pair.decision.state for pair in found.pairs} == {"proven"}
    assert all(pair["debiased_square"].details["pairs"] == 3 for pair in found.pairs)
    twice = compare(both, data["y"], clusters=data["labels"], weights=np.full(400, 2))
    rows = compare(
        {name: np.repeat(x, 2) for name, x in both.items()},
        np.repeat(data["y"], 2),
        clusters=np.repeat(data["labels"], 2),
    )
    for name, found_numbers in numbers(twice).items():
        assert found_numbers == pytest.approx(numbers(rows)[name], rel=1e-9), name


def test_clusters_that_cannot_be_used() -> None:
    data = models(7, 50, each=2)
    for labels, words in (
        (np.zeros(100), "at least 2 clusters"),
        (np.arange(50), "expected 100 labels, one for each row"),
        ([None] * 100, "a missing value at row 0"),
    ):
        with pytest.raises(InputError, match=words):
            by_cluster(data, clusters=labels)
    with pytest.raises(InputError, match="paired: expected None for predictions"):
        by_cluster(data, paired=True)


# ---------------------------------------------------------------- sketches


@pytest.mark.parametrize("clusters", [60, 700])
def test_paired_sketches_are_the_rows(clusters: int) -> None:
    """Whatever the order of the rows in each; the rows alone tell which of them only one model has right."""
    data = models(8, clusters, each=3)
    found, rows = compare(*sketches(data, (1, 2)), paired=True), by_cluster(data)
    for name in ("debiased_square", "ece", "brier", "nll"):
        assert numbers(found)[name] == pytest.approx(numbers(rows)[name], rel=1e-9, abs=1e-13), name
    assert numbers(found)["accuracy"][0] == pytest.approx(numbers(rows)["accuracy"][0])
    assert np.ptp(numbers(found)["accuracy"]) == pytest.approx(np.ptp(numbers(rows)["accuracy"]), rel=0.2)
    assert found.paired
    assert "Sketches do not contain individual rows" not in str(found)


def test_rows_with_their_own_number_as_label_pair_as_rows_do() -> None:
    """The difference of Brier scores is as sharp as row by row; without the labels it is many times as wide."""
    data = models(9, 4_000, noise=0.1)
    rows = compare(data["a"], data["b"], data["y"])
    labelled = sketches(data, (1, 2))
    paired, apart = compare(*labelled, paired=True), compare(*labelled)
    width = np.ptp(numbers(rows)["brier"][1:])
    assert np.ptp(numbers(paired)["brier"][1:]) == pytest.approx(width, rel=0.2)  # 255 degrees of freedom
    assert np.ptp(numbers(apart)["brier"][1:]) > 4 * width
    assert not apart.paired


def test_unpaired_sketches_add_the_errors_by_cluster() -> None:
    data = models(10, 120, each=5)
    one, other = sketches(data)
    reports = [calibrant.evaluate(sketch, n_resamples=0) for sketch in (one, other)]
    found = compare(one, other).pairs[0]
    half = sum(report["brier"].high - report["brier"].value for report in reports)
    assert found["brier"].high - found["brier"].value == pytest.approx(half)
    plain = [CalibrationSketch() for _ in "ab"]
    for name, sketch in zip("ab", plain, strict=True):
        sketch.update(data[name], data["y"])
    rows = compare(*plain).pairs[0]
    for name in ("debiased_square", "brier", "nll", "accuracy"):
        assert np.ptp([found[name].low, found[name].high]) > 1.5 * np.ptp([rows[name].low, rows[name].high]), name
    mixed = compare(one, plain[1]).pairs[0]
    assert np.ptp([mixed["brier"].low, mixed["brier"].high]) < np.ptp([found["brier"].low, found["brier"].high])


def test_sketches_that_cannot_be_paired() -> None:
    data = models(11, 60, each=2)
    one, other = sketches(data)
    plain = sketch_of(data["b"], data["y"])
    with pytest.raises(InputError, match="probs_b: expected a sketch with clusters, because paired=True"):
        compare(one, plain, paired=True)
    text = sketch_of(data["b"], data["y"], clusters=data["labels"].astype(str))
    with pytest.raises(InputError, match="clusters: expected labels that are whole numbers, got text"):
        compare(one, text, paired=True)
    with pytest.raises(InputError, match="clusters: expected no value with a CalibrationSketch"):
        compare(one, other, clusters=data["labels"])


# ---------------------------------------------------------------- known truth


@pytest.mark.slow
@pytest.mark.parametrize("shared", [1.0, 0.5, 0.0])
def test_intervals_hold_the_true_difference(shared: float) -> None:
    """Questions with ten answers each, in two sketches that share all, half or none of their questions.

    Both models answer about the same events with random intercepts of clusters; the true Brier scores are those of a
    million rows.
    """
    rng = np.random.default_rng(12)

    def draw(clusters: int) -> tuple[Any, Any, Any, Any]:
        labels = np.repeat(np.arange(clusters), 10)
        q, u = rng.random(len(labels)), rng.normal(size=clusters)[labels]
        y = (rng.random(len(labels)) < expit(logit(q) + u)).astype(int)
        return expit(1.5 * logit(q)), expit(0.8 * logit(q) + 0.3), y, labels

    a, b, y, _ = draw(100_000)
    truth = float(np.mean((a - y) ** 2) - np.mean((b - y) ** 2))
    held, n = 0, 300
    for _ in range(n):
        first, other = draw(100), draw(100)
        own = first[3] < 100 * shared
        sketch_a, sketch_b = CalibrationSketch(), CalibrationSketch()
        sketch_a.update(first[0], first[2], clusters=first[3])
        if own.any():
            sketch_b.update(first[1][own], first[2][own], clusters=first[3][own])
        if not own.all():
            more = other[3] >= 100 * shared
            sketch_b.update(other[1][more], other[2][more], clusters=1_000 + other[3][more])
        brier = compare(sketch_a, sketch_b, paired=True, level=0.9).pairs[0]["brier"]
        held += brier.low <= truth <= brier.high
    assert abs(held / n - 0.9) < 4 * math.sqrt(0.09 / n) + 0.02


# ---------------------------------------------------------------- independent samples


def sample(seed: int, n: int = 2_000, *, weights: bool = False, clusters: bool = False) -> CalibrationSketch:
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    y = (rng.random(n) < p**1.3).astype(int)
    sketch = CalibrationSketch()
    options: dict[str, Any] = {"weights": rng.lognormal(0, 0.5, n)} if weights else {}
    sketch.update(p, y, **options, **({"clusters": np.arange(n) // 8} if clusters else {}))
    return sketch


@pytest.mark.parametrize("kind", ["rows", "weights", "clusters"])
def test_squares_of_errors_of_independent_samples_add_up(kind: str) -> None:
    one, other = (sample(seed, weights=kind == "weights", clusters=kind == "clusters") for seed in (1, 2))
    apart, unknown = (compare(one, other, paired=side).pairs[0] for side in (False, None))
    alone = [evaluate(each, n_resamples=0) for each in (one, other)]
    halves = [report["brier"].high - report["brier"].value for report in alone]
    half = {name: (pair["brier"].high - pair["brier"].low) / 2 for name, pair in (("apart", apart), ("not", unknown))}
    assert half["apart"] == pytest.approx(math.hypot(*halves), rel=0.02)  # a report blends the variance with five rows
    assert half["not"] == pytest.approx(sum(halves), rel=0.02)
    for name in ("brier", "nll", "accuracy", "debiased_square"):
        widths = [pair[name].high - pair[name].low for pair in (apart, unknown)]
        assert widths[0] == pytest.approx(widths[1] / math.sqrt(2), rel=0.02), name  # of equal samples
        assert apart[name].value == unknown[name].value


def test_the_accuracies_of_independent_samples_are_those_of_newcombe() -> None:
    # Newcombe (1998, doi 10.1002/(SICI)1097-0258(19980430)17:8<873::AID-SIM779>3.0.CO;2-I), table II, method 10:
    # 56/70 against 48/80 has the interval .0524 to .3339.
    def of_answers(right: int, n: int) -> CalibrationSketch:
        sketch = sketch_of(np.full(n, 0.9), (np.arange(n) < right).astype(int))
        return sketch

    found = compare(of_answers(56, 70), of_answers(48, 80), paired=False).pairs[0]["accuracy"]
    assert (found.low, found.high) == pytest.approx((0.0524, 0.3339), abs=5e-5)


def test_predictions_are_paired_whatever_is_asked() -> None:
    for paired in (True, False):
        with pytest.raises(InputError, match="paired"):
            compare([0.2, 0.8], [0.3, 0.9], [0, 1], paired=paired)
    with pytest.raises(InputError, match="paired"):
        compare(sample(1), sample(2), paired="no")


def test_a_comparison_whose_weights_of_few_rows_decide_is_flagged() -> None:
    # Log-normal(1) weights: fewer than 30 of 100 rows decide, and more of 20,000. Intervals of differences at 95 % held
    # 0.92 of 358 where fewer did, in samples of 500 rows, and the verdict rejected 0.07 at 5 %.
    for n, flagged in ((100, True), (20_000, False)):
        rng = np.random.default_rng(0)
        p, weights = rng.random(n), rng.lognormal(0, 1, n)
        y = (rng.random(n) < p).astype(int)
        assert bool(np.sum(weights**2) ** 2 / np.sum(weights**4) < 30) is flagged
        sketches = [CalibrationSketch(), CalibrationSketch()]
        for sketch, scores in zip(sketches, (p, p**1.1), strict=True):
            sketch.update(scores, y, weights=weights)
        clusters = np.arange(n) // 5
        for comparison in (
            compare(p, p**1.1, y, weights=weights),
            compare(*sketches),
            compare(p, p**1.1, y, weights=weights, clusters=clusters),
        ):
            flag = comparison.pairs[0]["brier"].details.get("flag", "")
            assert ("few rows have most of the weight" in flag) is flagged
        whole = compare(p, p**1.1, y, weights=np.ceil(weights)).pairs[0]["brier"].details.get("flag", "")
        assert "weights of few rows" not in whole
