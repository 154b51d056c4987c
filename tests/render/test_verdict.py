"""The verdict's sentences: each template, for one event and for the top label, their order, and how numbers are cut."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calibrant
from calibrant.render import page, words
from calibrant.render.blocks import Sentence
from calibrant.report.findings_text import conclusion_of, deciding, key_numbers, next_steps
from calibrant.report.report import Report
from calibrant.results import Code, Finding
from tests.samples import tilted

NUMBER = r"[-+]?\d+(?:\.\d+)?"
CI = rf"95 % CI {NUMBER} to {NUMBER}"
DIFFERENCE = rf"\(difference [-+]\d+\.\d+ percentage points, {CI}\)"
INDEPENDENT = "Confidence intervals and p-values assume independent rows."

RNG = np.random.default_rng(0)
N = 1200
SCORES = RNG.uniform(0.02, 0.98, N)
OUTCOMES = (RNG.random(N) < SCORES).astype(int)
PROBS = RNG.dirichlet([1.0, 2.0, 0.5], N)
LABELS = (RNG.random((N, 1)) > PROBS.cumsum(1)).sum(1).clip(max=2)


def top(power: float) -> np.ndarray:
    return PROBS**power / (PROBS**power).sum(axis=1, keepdims=True)


def of_event(scores: Any = SCORES, outcomes: Any = OUTCOMES, **options: Any) -> Report:
    return calibrant.evaluate(scores, outcomes, **{"n_resamples": 0, **options})


def of_top(power: float = 1.0, **options: Any) -> Report:
    return calibrant.evaluate(top(power), LABELS, **{"n_resamples": 0, **options})


def with_facts(report: Report, old: Code, new: Code, **facts: Any) -> Report:
    """Return a report with another finding in place of one."""
    findings = [
        Finding(new, {**finding.facts, **facts}) if finding.code == old else finding for finding in report.findings
    ]
    assert findings != list(report.findings)
    return replace(report, findings=tuple(findings))


def one(report: Report, pattern: str) -> str:
    """Return the only sentence of the verdict that is the pattern as a whole."""
    found = [sentence for sentence in report.verdict() if re.fullmatch(pattern, sentence)]
    assert len(found) == 1, report.verdict()
    return found[0]


TEMPLATES: list[tuple[Any, str]] = [
    (lambda: of_event(SCORES**2), r"Evidence of miscalibration \(p < 0\.001\)\."),
    (lambda: of_top(2.0), r"Evidence of miscalibration \(p < 0\.001\)\."),
    (
        of_event,
        r"No evidence of miscalibration \(p = 0\.\d{3}\)\. The data are compatible with an ECE of up to 0\.\d{3} "
        r"\(upper end of the 95 % CI\)\.",
    ),
    (
        lambda: of_event(np.full(400, 0.01), np.arange(400) < 4),
        r"Too little data for reliable inference: 4 events, fewer than 15\. "
        r"Treat p-values and intervals as rough\.",
    ),
    (
        lambda: calibrant.evaluate(np.tile([0.98, 0.02], (400, 1)), np.arange(400) < 4, n_resamples=0),
        r"Too little data for reliable inference: 4 incorrect predictions, fewer than 15\. .*",
    ),
    (
        lambda: of_event(SCORES**0.5),
        rf"Overestimates the event: mean predicted probability {NUMBER} %, "
        rf"observed frequency {NUMBER} % {DIFFERENCE}\.",
    ),
    (
        lambda: of_event(SCORES**2),
        rf"Underestimates the event: mean predicted probability {NUMBER} %, "
        rf"observed frequency {NUMBER} % {DIFFERENCE}\.",
    ),
    (lambda: of_top(2.0), rf"Over-confident: mean confidence {NUMBER} %, accuracy {NUMBER} % {DIFFERENCE}\."),
    (lambda: of_top(0.5), rf"Under-confident: mean confidence {NUMBER} %, accuracy {NUMBER} % {DIFFERENCE}\."),
    (of_event, rf"No clear over- or underestimation: mean predicted probability .* {DIFFERENCE}\."),
    (of_top, rf"No clear over- or under-confidence: mean confidence {NUMBER} %, accuracy {NUMBER} % {DIFFERENCE}\."),
    (
        lambda: of_event(tilted(SCORES, 2.0)),
        rf"Predictions are too extreme: calibration slope 0\.\d\d \({CI}; ideal 1\)\.",
    ),
    (
        lambda: of_event(tilted(SCORES, 0.5)),
        rf"Predictions are too moderate: calibration slope \d\.\d\d \({CI}; ideal 1\)\.",
    ),
    (lambda: of_top(2.0), rf"Predictions are too extreme: calibration slope 0\.\d\d \({CI}; ideal 1\)\."),
    (of_event, rf"Calibration slope \d\.\d\d \({CI}; ideal 1\)\."),
    (
        of_event,
        rf"ECE 0\.\d{{3}} \({CI}\); a perfectly calibrated model would stay below 0\.\d{{3}} in 95 % of samples of "
        r"this size\.",
    ),
    (
        lambda: of_event(tilted(SCORES, 2.0)),
        r"Isotonic recalibration would lower the Brier score on these data from 0\.\d{3} by 0\.\d{3} \(\d+ %\); "
        r"expect less on new data \(see calibrant recalibrate\)\.",
    ),
    (
        lambda: of_top(2.0),
        r"Isotonic recalibration would lower the top-label Brier score on these data from 0\.\d{3} by .*",
    ),
    (lambda: of_event(tolerance=0.2), r"ECE is within the tolerance of 0\.2: upper 95 % confidence bound 0\.\d{3}\."),
    (
        lambda: of_event(SCORES**3, tolerance=0.01),
        r"ECE exceeds the tolerance of 0\.01: lower 95 % confidence bound 0\.\d{3}\.",
    ),
    (
        lambda: of_event(tolerance=0.03),
        r"Inconclusive for a tolerance of 0\.03: 95 % confidence bounds 0\.\d{3} and 0\.\d{3}\. "
        r"(About [\d,]+ more rows would settle it if the true ECE equals the estimate\.|The estimate is too close .*)",
    ),
    (of_event, INDEPENDENT.replace(".", r"\.")),
    (
        lambda: of_event(clusters=np.arange(N) // 4),
        r"Confidence intervals and p-values allow for dependence within 300 clusters; for the mean difference the data "
        r"are worth about [\d,]+ independent rows\.",
    ),
    (
        lambda: of_event(groups=np.arange(N) % 3),
        r"No group shows evidence of miscalibration after Holm correction \(3 tested\)\.",
    ),
    (
        lambda: of_event(np.where(np.arange(N) % 3 == 1, SCORES**3, SCORES), groups=np.arange(N) % 3),
        r"1 of 3 groups shows evidence of miscalibration after Holm correction: 1 \(-\d+\.\d percentage points\)\.",
    ),
]


@pytest.mark.parametrize(("make", "pattern"), TEMPLATES)
def test_each_template(make: Any, pattern: str) -> None:
    one(make(), pattern)


def test_a_component_that_would_be_significant_alone_is_said_once_and_has_no_direction() -> None:
    report = with_facts(of_event(), Code.RIGHT_ON_AVERAGE, Code.TOO_HIGH, by_itself=0.03)
    assert any(sentence.startswith("No clear over- or underestimation: ") for sentence in report.verdict())
    alone = one(report, r"Not significant overall\. One component alone would be: .*")
    assert alone.endswith("mean difference, unadjusted p = 0.030.")


def test_the_order_is_cautions_evidence_direction_slope_size_gain_tolerance_dependence_groups() -> None:
    starts = (
        "Caution: ",
        "Evidence of miscalibration (",
        "Overestimates the event: ",
        "Predictions are too ",
        "ECE 0.",
        "Isotonic recalibration would lower ",
        "ECE exceeds the tolerance of ",
        "Confidence intervals and p-values ",
        "3 of 3 groups show evidence ",
    )
    scores = 1 - SCORES**2
    said = of_event(scores, tolerance=0.01, groups=np.arange(N) % 3).verdict()
    assert len(said) == len(starts)
    for sentence, start in zip(said, starts, strict=True):
        assert sentence.startswith(start)
    few = of_event(np.full(400, 0.01), np.arange(400) < 4).verdict()
    assert few[0].startswith("Too little data ")
    assert few[1].startswith("No evidence of miscalibration")


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (of_event, ("No evidence of miscalibration", "")),
        (lambda: of_event(SCORES**2), ("Evidence of miscalibration: underestimates the event", "bad")),
        (lambda: of_top(2.0), ("Evidence of miscalibration: over-confident", "bad")),
        (lambda: of_event(np.full(400, 0.01), np.arange(400) < 4), ("Too little data", "caution")),
        (lambda: of_event(tolerance=0.2), ("Within the tolerance of 0.2", "good")),
        (lambda: of_event(SCORES**3, tolerance=0.01), ("Above the tolerance of 0.01", "bad")),
        (lambda: of_event(tolerance=0.03), ("Inconclusive for the tolerance of 0.03", "")),
        (lambda: of_event(level=None), ("Calibration report", "")),
    ],
)
def test_the_headline_is_the_decision_or_the_evidence_with_its_direction(make: Any, expected: tuple[str, str]) -> None:
    assert conclusion_of(make()) == Sentence(*expected)


def test_the_deciding_sentence_is_about_the_tolerance_or_the_evidence() -> None:
    few = np.full(400, 0.5), np.arange(400) < 4
    assert deciding(of_event(*few)).startswith("Evidence of miscalibration (p ")
    assert of_event(*few).verdict()[0].startswith("Too little data")
    assert deciding(of_event(SCORES**3, tolerance=0.01)).startswith("ECE exceeds the tolerance of 0.01: ")


def test_the_key_numbers_are_those_of_the_report() -> None:
    own = of_event(tilted(SCORES, 2.0))
    difference, slope, ece = key_numbers(own)
    assert difference[:2] == ("difference in percentage points", f"{100 * own['mean_gap'].value:+.1f}")
    assert slope[:2] == ("calibration slope", f"{own['calibration_slope'].value:.2f}")
    assert ece[:2] == ("ECE", f"{own['ece'].value:.3f}")
    assert ece.interval == f"95 % CI {own['ece'].low:.3f} to {own['ece'].high:.3f}"
    assert ece.compared == f"calibrated: below {own['ece'].floor.upper:.3f}"
    assert (difference.compared, slope.compared) == ("ideal 0", "ideal 1")
    assert {number.interval for number in key_numbers(of_event(level=None))} == {""}


def test_the_next_steps_follow_from_the_findings() -> None:
    recalibrate, cluster = "Recalibrate the scores on held-out rows", "If one patient or user has several rows, "
    assert [step.startswith(cluster) for step in next_steps(of_event())] == [True]
    bad = next_steps(of_event(SCORES**3, groups=np.arange(N) % 4))
    assert bad[0] == "Examine the groups with evidence of miscalibration: 0, 1, 2 and 1 more."
    assert bad[1].startswith(recalibrate)
    assert bad[2].startswith(cluster)
    assert len(bad) == 3
    falling = next_steps(of_event(1 - SCORES))
    assert falling[0] == "Check that the scores and the outcomes belong together."
    assert not any(step.startswith(recalibrate) for step in falling)
    few = next_steps(of_event(np.full(400, 0.01), np.arange(400) < 4))
    assert few[0] == "Collect more data, until each outcome has at least 15 rows (or clusters)."
    assert next_steps(of_event(clusters=np.arange(N) // 4)) == []
    undecided = with_facts(of_event(tolerance=0.03), Code.UNDECIDED, Code.UNDECIDED, more_rows=1234)
    step = "Collect about 1,234 more rows to decide whether the ECE is within the tolerance."
    assert next_steps(undecided)[0] == step


NEAR = st.floats(-2, 2, allow_nan=False).map(lambda x: round(x, 8))


@given(values=st.lists(NEAR, min_size=1, max_size=4), marks=st.lists(NEAR, max_size=3), places=st.integers(0, 4))
def test_no_number_reads_as_a_mark_from_which_it_differs(values: list[float], marks: list[float], places: int) -> None:
    """One more digit where rounding would hide a difference, and the same number of digits for all."""
    near = [mark + 10**-k for k, mark in enumerate(marks, 2)]
    said = words.texts([*values, *near], places, marks)
    digits = {len(text.partition(".")[2]) for text in said}
    assert len(digits) == 1
    (shown,) = digits
    assert shown >= places
    for value, text in zip([*values, *near], said, strict=True):
        assert float(text) == pytest.approx(value, abs=0.500001 * 10.0**-shown)
        for mark in marks:
            if value != mark and abs(value - mark) > 1e-9:
                assert text != f"{mark:z.{shown}f}"
    if not marks:
        assert shown == places


@pytest.mark.parametrize(
    "name", ["</style><script>alert(1)</script>", '"; } body { display: none } /*', "a\\", "two\nlines"]
)
def test_the_running_head_on_paper_is_a_string_whatever_the_title(name: str) -> None:
    text = page.to_page(of_event(level=None)._document(full=True), title=name, date=name)
    style = text[text.index("<style>") : text.index("</style>")]
    contents = re.findall(r"@top-(?:left|right) { content: (.*?); }", style)
    assert len(contents) == 2
    for content in contents:
        assert re.fullmatch(r'"(?:[A-Za-z0-9 ._-]|\\[0-9a-f]{6} )*"', content)
    told = re.sub(r"\\([0-9a-f]{6}) ", lambda match: chr(int(match[1], 16)), contents[0][1:-1])
    assert told == name.replace("\n", " ")
    assert text.count("<script>") == 1


def test_the_checklist_of_the_clinical_profile_has_the_numbers_of_the_report() -> None:
    report = calibrant.evaluate(
        SCORES, OUTCOMES, profile="clinical", groups=np.array(["north", "south"])[np.arange(N) % 2], n_resamples=0
    )
    events, shown = int(OUTCOMES.sum()), page.to_page(report._document(full=True))
    slope = report["calibration_slope"]
    expected = (
        f"1,200 predictions, {events} events and {N - events} non-events",
        "Performance was examined in 2 groups.",
        "Predictions by group: north 600, south 600.",
        "Rows were assumed to be independent.",
        f"calibration slope {slope.value:.4f} (95 % CI {slope.low:.4f} to {slope.high:.4f})",
    )
    for said in (shown, report.to_markdown()):
        assert "TRIPOD+AI checklist" in said
        for item in ("8a", "10", "11", "12d", "12e", "14", "15", "21", "23a", "23b"):
            assert re.search(rf"(<td class=\"name\">|\| ){item}(</td>| \|)", said), item
        for sentence in expected:
            assert sentence in said
    for profile in ("standard", "forecast"):
        assert "TRIPOD" not in calibrant.evaluate(SCORES, OUTCOMES, profile=profile, n_resamples=0).to_markdown()
