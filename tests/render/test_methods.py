"""The paragraph of methods: it has every choice, and nothing that was not computed."""

from __future__ import annotations

import json
import re
from html import escape
from importlib.metadata import version
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant import CalibrationSketch, ReliabilityTable
from calibrant.measures import MEASURES, Measure
from calibrant.measures.profiles import PROFILES
from calibrant.render.blocks import Source
from calibrant.render.markdown import text
from calibrant.report import methods_text
from calibrant.report.measure_document import shown_estimates
from calibrant.report.report import Report
from tests.in_process import run

RNG = np.random.default_rng(0)
N = 400
SCORES = RNG.random(N).round(2)
OUTCOMES = (RNG.random(N) < SCORES**1.2).astype(int)
CLASSES = RNG.dirichlet(np.ones(3), N)
LABELS = (RNG.random((N, 1)) > np.cumsum(CLASSES, axis=1)).sum(axis=1).clip(max=2)
GROUPS = np.array(["north", "south"])[np.arange(N) % 2]


def event(**options: Any) -> Report:
    return calibrant.evaluate(SCORES, OUTCOMES, **{"n_resamples": 20, **options})


def of_classes(**options: Any) -> Report:
    return calibrant.evaluate(CLASSES, options.pop("targets", LABELS), **{"n_resamples": 20, **options})


def missing() -> Any:
    """Return labels that begin with five times -1."""
    return np.where(np.arange(N) < 5, -1, LABELS)


def sketch() -> CalibrationSketch:
    filled = CalibrationSketch()
    filled.update(SCORES, OUTCOMES)
    return filled


TABLE = ReliabilityTable.from_scores(SCORES, OUTCOMES)
DOUBLE = {"weights": np.full(N, 2)}
FRACTIONS = {"weights": np.where(np.arange(N) < 3, 0.0, 0.3 + SCORES)}


@pytest.mark.parametrize(
    ("report", "sentence"),
    [
        (lambda: event(), f"Calibration was evaluated with calibrant {version('calibrant')} on 400 predictions."),
        (lambda: event(), f"evaluated event is outcome = 1. The event was observed in {OUTCOMES.sum()} rows ("),
        (lambda: of_classes(), "on 400 predictions of 3 classes. The evaluated event is the predicted class"),
        (
            lambda: of_classes(notion="classwise"),
            "We evaluated each class separately, with its predicted probability as the score. The observed frequency, "
            "averaged over the classes, is 33.33 %",
        ),
        (
            lambda: calibrant.evaluate(np.log(CLASSES), LABELS, logits=True, level=None),
            "to probabilities by the softmax.",
        ),
        (
            lambda: calibrant.evaluate(np.log(SCORES + 0.01), OUTCOMES, logits=True, level=None),
            "Logits were transformed to probabilities by the logistic function.",
        ),
        (lambda: calibrant.evaluate(TABLE, level=None), "The predictions were summarised as a table"),
        (lambda: calibrant.evaluate(sketch(), level=None), "The predictions were summarised as a sketch"),
        (lambda: event(**DOUBLE), "The rows have weights with a total of 800. A row with weight w counts as w"),
        (lambda: event(**FRACTIONS), "Variances use sums of squared weights"),
        (lambda: event(**FRACTIONS), "3 rows of weight 0 were left out."),
        (lambda: of_classes(targets=missing(), ignore_index=-1), "5 rows without a target were left out."),
        (lambda: event(), "Rows were assumed to be independent."),
        (lambda: event(clusters=np.arange(N) // 4), "The rows are in 100 clusters. The largest cluster has 1 % of the"),
        (lambda: event(clusters=np.arange(N) // 4), "a random normal multiplier for each cluster"),
        (lambda: event(clusters=np.arange(N)), "Each cluster has one row, so rows were assumed to be independent."),
        (lambda: event(clusters=np.maximum(np.arange(N), 20)), "pooled at random into 256 larger ones"),
        (lambda: event(n_bins=7), "over 7 bins of equal width, weighted by their rows (Naeini et al. 2015)."),
        (lambda: event(n_bins=7), "over 7 bins of equal frequency (Nguyen and O'Connor 2015)."),
        (lambda: event(), "Confidence intervals have a level of 95 % and are not adjusted for the number of measures."),
        (lambda: event(level=0.9), "Confidence intervals have a level of 90 %"),
        (lambda: event(level=None), "No confidence intervals were computed."),
        (lambda: event(), "central limit theorem (the mean prediction, the mean difference, the Brier score"),
        (lambda: event(measures=["kuiper"]), "There is no interval for the Kuiper error: no method is known for"),
        (
            lambda: event(),
            "from 20 simulated data sets with outcomes drawn from the predicted probabilities (the ECE, the",
        ),
        (lambda: event(n_resamples=0), "and its p-value was computed in closed form."),
        (lambda: event(), "and its p-value was computed from 20 simulated data sets with outcomes drawn from"),
        (lambda: event(), "the Cauchy combination (Liu and Xie 2020) of tests of calibration in the large, the calib"),
        (
            lambda: calibrant.evaluate([0.5] * N, OUTCOMES, n_resamples=20),
            "the Cauchy combination (Liu and Xie 2020) of tests of calibration in the large and the ECE, and",
        ),
        (lambda: of_classes(notion="classwise"), "The test of calibration is a test of the ECE over all classes, and"),
        (lambda: event(), "The random seed is 0."),
        (lambda: event(rng=7), "The random seed is 7."),
        (
            lambda: event(rng=np.random.default_rng(0)),
            "The random seed is unknown, because the caller passed a generator.",
        ),
        (lambda: event(tolerance=0.02), "One-sided 95 % confidence bounds were used to test whether the ECE is"),
        (lambda: event(), "pointwise 95 % band from 20 simulated data sets with outcomes drawn from the fitted"),
        (lambda: event(bands="simultaneous"), "a simultaneous 95 % band (Dimitriadis et al. 2023)."),
        (lambda: event(n_resamples=0), "(CORP, Dimitriadis et al. 2021) has no confidence band."),
        (lambda: event(profile="clinical"), "Net benefit was computed at 99 thresholds from 0.01 to 0.99"),
        (lambda: event(profile="forecast"), "The Murphy curve is the mean elementary score at 99 thresholds"),
        (
            lambda: event(groups=GROUPS),
            "Each of 2 groups was evaluated separately. The test was repeated in the 2 groups",
        ),
        (
            lambda: event(groups=GROUPS, profile="clinical"),
            "the O:E ratio, the calibration slope and the AUROC between groups was tested by Coch",
        ),
        (lambda: of_classes(notion="classwise"), "combined over classes by the mean ("),
        (lambda: of_classes(notion="classwise"), "the root mean square (the RMSCE)"),
        (lambda: of_classes(), "The ECE of each class was tested, with Holm's (1979) correction"),
    ],
)
def test_each_choice_is_in_the_paragraph(report: Any, sentence: str) -> None:
    assert sentence in report().methods


PLAIN = event().methods


@pytest.mark.parametrize(
    "options",
    [
        {"n_bins": 7},
        {"level": 0.9},
        {"level": None},
        {"n_resamples": 0},
        {"n_resamples": 21},
        {"rng": 1},
        {"rng": np.random.default_rng(0)},
        {"bands": "simultaneous"},
        {"tolerance": 0.02},
        {"measures": ["ece"]},
        {"profile": "clinical"},
        {"profile": "forecast"},
        {"clusters": np.arange(N) // 4},
        {"groups": GROUPS},
        DOUBLE,
        FRACTIONS,
    ],
    ids=lambda options: next(iter(options)),
)
def test_each_choice_changes_the_paragraph(options: Any) -> None:
    assert event().methods == PLAIN
    assert event(**options).methods != PLAIN


@pytest.mark.covering
@pytest.mark.parametrize("level", [0.95, None])
@pytest.mark.parametrize("notion", [None, "classwise", "positive"])
@pytest.mark.parametrize("profile", PROFILES)
def test_every_shown_measure_is_named_and_no_other(profile: str, notion: Any, level: float | None) -> None:
    make = event if notion == "positive" else of_classes
    report = make(profile=profile, notion=notion, level=level)
    shown = shown_estimates(report)
    text = report.methods
    for measure in MEASURES:
        sentence = measure.computed.split(" {bins}")[0]
        assert (sentence in text) == (measure.name in shown), measure.name
    assert not re.search(r"\bNone\b|\bnan\b|\binf\b|[{}]|\.\.|  ", text)
    assert text.endswith(".")
    assert json.loads(report.to_json())["methods"] == text


def test_every_measure_has_its_sentence() -> None:
    """Of a measure without one the paragraph has the label and the meaning; those of the package have their own."""
    for measure in MEASURES:
        assert measure.computed.startswith("The ")
        assert " is " in measure.computed
        assert "{bins}" in measure.computed or measure.binning is None
    own = Measure(name="own", label="my error", meaning="How far off it is.", value=lambda _: 0.25)
    assert " my error: How far off it is. " in event(measures=["ece", own], level=None).methods


def test_a_measure_without_a_value_says_why() -> None:
    text = calibrant.evaluate([0.2, 0.8], [0, 1], measures=["ece", "mce"], level=None).methods
    assert "There is no value for the MCE: no bin has 30 rows." in text


def test_what_was_not_computed_is_not_mentioned() -> None:
    text = event(measures=["ece"], level=None).methods
    for word in ("interval by", "seed", "test", "floor", "cluster", "weight 0", "Net benefit", "group", "smooth ECE"):
        assert word not in text


def test_the_clinical_report_shows_it_and_others_do_not() -> None:
    """The terminal has the short paragraph; Markdown has both."""
    for profile in PROFILES:
        report = event(profile=profile)
        flat, said = " ".join(str(report).split()), report.to_markdown()
        clinical = profile == "clinical"
        assert (report.to_dict()["methods_brief"] in flat) == clinical
        assert ("for the full methods and the results, use --html or --json, or report.methods" in flat) == clinical
        assert ("### Methods" in said) == clinical
        assert (text(report.methods) in said) == (text(report.to_dict()["methods_brief"]) in said) == clinical


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    "make",
    [
        event,
        lambda **options: event(**options, n_resamples=0, level=None),
        lambda **options: event(**options, groups=GROUPS, clusters=np.arange(N) // 4, weights=1 + SCORES),
        lambda **options: of_classes(**options, groups=GROUPS, clusters=np.arange(N) // 4, weights=1 + SCORES),
        lambda **options: of_classes(**options, notion="classwise", groups=GROUPS, weights=np.full(N, 2)),
    ],
    ids=["event", "values", "event, all", "top label, all", "classwise"],
)
def test_the_short_paragraph_has_at_most_120_words(make: Any, profile: str) -> None:
    report = make(profile=profile)
    summary = report.to_dict()
    brief = summary["methods_brief"]
    assert brief == methods_text.brief(report, Source())
    assert len(brief.split()) <= 120
    assert brief.startswith("We evaluated the calibration of 400 predictions")
    assert version("calibrant") in brief
    assert ("confidence intervals" in brief) == (summary["level"] is not None)
    assert ("within 100 clusters" in brief) == (summary["clusters"] is not None)
    assert ("repeated in 2 groups, with Holm's correction" in brief) == bool(summary["groups"])
    assert ("reliability diagram has 15 bins" in brief) == (summary["diagram"] is not None)
    assert not re.search(r"\bNone\b|\bnan\b|[{}]|\.\.|  ", brief)
    assert json.loads(report.to_json())["methods_brief"] == brief


def test_the_page_shows_it_as_text(tmp_path: Any) -> None:
    own = Measure(name="own", label="<b>my</b> & error", meaning="<script>", value=lambda _: 0.25)
    report = event(profile="clinical", measures=["ece", own])
    page = report.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    assert ">Methods<" in page
    assert escape(report.methods, quote=False) in page.replace("&#39;", "'").replace("&#34;", '"')
    assert "<b>my</b>" not in page
    assert "<b>my</b>" not in report.to_markdown()
    plain = event(level=None).to_html(tmp_path / "plain.html").read_text(encoding="utf-8")
    assert ">Methods<" not in plain


def test_reports_on_groups_have_theirs_and_the_dictionary_has_one() -> None:
    report = event(groups=GROUPS)
    assert "on 200 predictions" in report.groups[0].report.methods
    assert "methods" not in report.to_dict()["groups"][0]["report"]


def test_the_command_names_the_event_and_the_condition(tmp_path: Any) -> None:
    path = tmp_path / "rows.csv"
    lines = [f"{score},{outcome},{i % 2}" for i, (score, outcome) in enumerate(zip(SCORES, OUTCOMES, strict=True))]
    path.write_text("\n".join(["risk,died,part", *lines]), encoding="utf-8")
    arguments = ["report", str(path), "--score", "risk", "--outcome", "died", "--profile", "clinical"]
    arguments += ["--where", "part = 1", "--n-resamples", "20"]
    text = json.loads(run(*arguments, "--json", "-")[1])["methods"]
    assert "The evaluated event is died = 1. The event was observed in" in text
    assert "Only rows with part = 1 were used." in text
    assert "on 200 predictions" in text
    assert "(event: died = 1, observed frequency" in " ".join(run(*arguments)[1].split())
