"""What reports and comparisons look like in a terminal: columns, colours, remarks, at any width."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.measures.listed import of_profile
from calibrant.measures.profiles import STANDARD
from calibrant.render.blocks import Column, Table
from calibrant.render.terminal import Style, to_lines, to_terminal, wrapped
from calibrant.render.words import percentages
from tests.samples import draw_classes

FEW = {"n_resamples": 50}


def rows(seed: int = 0, n: int = 600, tilt: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Return scores of one event, and outcomes that agree with them where ``tilt`` is 1."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.02, 0.98, n)
    return p, (rng.random(n) < p**tilt).astype(int)


def classes(seed: int = 0, n: int = 600) -> tuple[np.ndarray, np.ndarray]:
    return draw_classes(seed, n, [1.0, 2.0, 0.5])


def many_groups(number: int, each: int = 40) -> calibrant.Report:
    """Return a report on groups, every tenth far off."""
    p, y = rows(3, number * each)
    groups = np.arange(len(p)) % number
    y = np.where(groups % 10 == 7, 1 - y, y)
    return calibrant.evaluate(p, y, groups=[f"g{k:03}" for k in groups], n_resamples=20)


REPORTS: dict[str, Any] = {
    "one event": lambda: calibrant.evaluate(*rows(), **FEW),
    "miscalibrated": lambda: calibrant.evaluate(*rows(tilt=2.0), **FEW),
    "values alone": lambda: calibrant.evaluate(*rows(), level=None),
    "classes": lambda: calibrant.evaluate(*classes(), **FEW),
    "each class": lambda: calibrant.evaluate(*classes(), notion="classwise", **FEW),
    "weights": lambda: calibrant.evaluate(*rows(), weights=np.linspace(0.1, 4000.7, 600), **FEW),
    "clusters": lambda: calibrant.evaluate(*rows(), clusters=np.arange(600) // 4, **FEW),
    "a tolerance": lambda: calibrant.evaluate(*rows(), tolerance=0.2, tolerance_of="rmsce", **FEW),
    "by name": lambda: calibrant.evaluate(*rows(), measures=("ks", "mce", "nll"), **FEW),
    "groups": lambda: calibrant.evaluate(
        *rows(), groups=["a name of forty characters or even of more"] * 590 + ["few rows"] * 10, **FEW
    ),
}


def lines_of(text: str) -> list[str]:
    return text.splitlines()


def text_of(result: Any, width: int = 80, *, complete: bool = False) -> str:
    return to_terminal(result._document(complete=complete), style=Style(width=width))


@pytest.mark.covering
@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize("name", REPORTS)
def test_no_line_is_wider_than_the_terminal(name: str, complete: bool) -> None:
    report = REPORTS[name]()
    for width in (50, 54, 55, 60, 66, 72, 76, 80, 120):
        for line in lines_of(text_of(report, width, complete=complete)):
            assert len(line) <= width, (width, line)


@pytest.mark.parametrize("width", range(50, 90))
def test_names_stay_whole_at_any_width(width: int) -> None:
    text = "columns: lm-evaluation-harness 0.4.13, top-label, pass --own-outcomes to the command or --same-outcomes"
    lines = wrapped(text, Style(width=width), later="  ")
    assert " ".join(line.strip() for line in lines) == text


def test_narrow_terminals_lose_the_noise_first_then_the_p_values() -> None:
    report = REPORTS["miscalibrated"]()
    heads = {
        w: next(line for line in lines_of(text_of(report, w)) if line.startswith("  measure")) for w in (80, 71, 60, 42)
    }
    assert [("95 % below" in head, re.search(r" p$", head) is not None) for head in heads.values()] == [
        (True, True),
        (True, True),
        (False, True),
        (False, False),
    ]
    assert "for a perfectly calibrated model with these predictions" in " ".join(text_of(report, 80).split())


def test_the_bars_shrink_and_are_left_out_before_the_gaps() -> None:
    report = REPORTS["miscalibrated"]()

    def scale(width: int) -> tuple[int, bool]:
        head = next(line for line in lines_of(text_of(report, width)) if line.startswith("  score"))
        bar = re.search(r"  0( +)1$", head)
        return (0 if bar is None else len(bar[1]) + 2), "diff." in head

    assert [scale(width) for width in (120, 80, 74, 66, 60, 51, 44)] == [
        (40, True),
        (26, True),
        (20, True),
        (12, True),
        (0, True),
        (0, True),
        (0, False),
    ]


def test_the_legend_explains_both_directions() -> None:
    report = REPORTS["miscalibrated"]()
    legend = "█ observed  ┃ predicted  ░┃ overestimated (+)  ┃█ underestimated (-)"
    assert legend in text_of(report)
    assert "█" not in text_of(report, 60)
    assert "█" not in report.to_markdown()


def test_columns_share_a_heading_and_go_together() -> None:
    headings = {"name": 0, "value": 0, "first: low": 1, "first: high": 1, "last": 0}
    table = [Table("t", [Column(heading, ["1", "2"], spare=spare) for heading, spare in headings.items()])]
    assert lines_of(to_lines(table, Style(width=30))) == [
        "                   first",
        "  name  value  low  high  last",
        "  1         1    1     1     1",
        "  2         2    2     2     2",
    ]
    assert lines_of(to_lines(table, Style(width=24)))[0] == "  name  value  last"


def test_a_text_over_several_columns_is_left_out() -> None:
    columns = [Column(name, [name, name]) for name in "abc"]
    table = [Table("t", columns, spanned={1: (2, "a long reason")})]
    assert lines_of(to_lines(table, Style(width=12))) == ["  a  b  c", "  a  b  c", "  a  b"]


# ---------------------------------------------------------------- which measures


def shown_labels(text: str) -> list[str]:
    """Return the labels in the table of measures, in order."""
    labels = {measure.label for measure in of_profile(STANDARD)}
    found = (re.match(r"  (\S.*?)  +[-+–\d]", line) for line in lines_of(text.split("\n\n")[2]))
    return [match[1] for match in found if match is not None and match[1] in labels]


def test_a_profile_shows_the_key_measures_and_says_how_many_others_there_are() -> None:
    report = REPORTS["classes"]()
    assert shown_labels(str(report)) == [
        "ECE",
        "smooth ECE",
        "Brier score",
        "Brier score (event)",
        "Brier skill",
        "log loss",
        "accuracy",
    ]
    assert f"{len(of_profile(STANDARD)) - 7} more measures, add --all, or use report.to_dict() in Python" in " ".join(
        str(report).split()
    )
    whole = text_of(report, complete=True)
    assert shown_labels(whole) == [measure.label for measure in of_profile(STANDARD)]
    assert "more measure" not in whole


def test_measures_that_were_asked_for_are_shown() -> None:
    report = calibrant.evaluate(*rows(), measures=("ks", "brier_event", "mean_gap"), **FEW)
    assert shown_labels(str(report)) == ["KS error", "Brier score (event)", "mean difference"]
    assert "more measure" not in str(report)
    assert shown_labels(str(REPORTS["a tolerance"]()))[-1] == "RMSCE"  # the tolerance is about it


def test_the_brier_score_of_the_event_is_shown_where_it_differs() -> None:
    for name, differs in (("one event", False), ("classes", True), ("each class", True)):
        assert ("Brier score (event)" in str(REPORTS[name]())) == differs
    table = calibrant.ReliabilityTable.from_scores(*rows())
    assert "Brier score (event)" not in str(calibrant.evaluate(table, level=None))


def test_a_low_end_of_0_beside_a_small_p_value_is_explained() -> None:
    report = calibrant.evaluate(*rows(5, 150, tilt=1.35), measures=["ece"], n_resamples=999)
    assert report["ece"].low == 0
    assert 0.025 < report["ece"].p_value <= 0.05  # between the levels of the interval's end and of the test
    said = " ".join(str(report).split())
    why = "because the lower end is conservative: it is above 0 only if p ≤ 0.025"
    assert f"ECE: the lower end of the CI is 0 although p is small, {why}" in said
    assert "the lower end of the CI is 0" not in str(REPORTS["one event"]())


# ---------------------------------------------------------------- colours


@pytest.mark.parametrize(
    ("options", "tilt", "colours", "claim"),
    [
        ({}, 2.0, [31], "Evidence of miscalibration (p ≤ 0.020)."),
        ({"tolerance": 0.2}, 1.0, [32], "ECE is within the tolerance of 0.2:"),
        ({"tolerance": 0.01}, 2.0, [31, 31], "ECE exceeds the tolerance of 0.01:"),
        ({"tolerance": 0.03}, 1.0, [33], "Inconclusive for a tolerance of 0.03:"),
    ],
)
def test_the_verdict_has_a_colour(options: dict[str, float], tilt: float, colours: list[int], claim: str) -> None:
    document = calibrant.evaluate(*rows(tilt=tilt), **options, **FEW)._document()
    said = to_terminal(document, style=Style(colour=True))
    assert f"  \x1b[1;{colours[-1]}m{claim}\x1b[0m" in said
    assert re.findall(r"\x1b\[1;(3\d)m", said) == [str(colour) for colour in colours]  # other sentences explain
    assert "\x1b" not in to_terminal(document, style=Style())
    assert re.sub(r"\x1b\[[\d;]*m", "", said) == to_terminal(document, style=Style())


def test_no_evidence_has_no_colour() -> None:
    """It is no good news without a tolerance: few rows give it, too."""
    said = to_terminal(REPORTS["one event"]()._document(), style=Style(colour=True))
    assert "\n  No evidence of miscalibration (p = " in said
    assert not re.search(r"\x1b\[1;3\dm", said)


def test_warnings_are_yellow() -> None:
    p = np.full(400, 0.01)
    document = calibrant.evaluate(p, np.arange(400) < 4, **FEW)._document()
    assert "\x1b[1;33mToo little data for reliable inference:\x1b[0m 4 events, fewer than 15." in to_terminal(
        document, style=Style(colour=True)
    )


# ---------------------------------------------------------------- weights, groups


def test_weights_are_not_called_rows() -> None:
    p, y = rows()
    weights = np.round(np.random.default_rng(1).uniform(0.5, 3, len(p)), 1)
    report = calibrant.evaluate(p, y, weights=weights, **FEW)
    said = text_of(report, complete=True)
    assert f"600 predictions, weight {weights.sum():,.1f} (event: outcome = 1)" in said
    head = next(line for line in lines_of(said) if line.startswith("  score"))
    assert "weight" in head
    assert "rows" not in head
    first = weights[p <= 1 / 15].sum()
    assert re.search(rf"0\.000 – 0\.067 +{first:,.1f} ", said)
    words = " ".join(said.split())
    assert re.search(
        r"MCE \(bins of 30 rows\): the largest difference is in the bin [\d. to]+ with weight [\d.]+", words
    )
    assert "rows" in next(line for line in lines_of(str(REPORTS["one event"]())) if line.startswith("  score"))


@pytest.mark.parametrize("notion", ["classwise", "multilabel"])
def test_weights_are_not_called_rows_where_every_class_is_judged(notion: Any) -> None:
    rng = np.random.default_rng(2)
    probs, weights = rng.dirichlet(np.ones(3), 400), np.round(rng.uniform(0.5, 3, 400), 1)
    labels = (rng.random(probs.shape) < probs).astype(int)
    targets = rng.integers(0, 3, 400) if notion == "classwise" else labels
    report = calibrant.evaluate(probs, targets, notion=notion, weights=weights, **FEW)
    for said in (str(report), report.to_markdown()):
        kind = "classes" if notion == "classwise" else "labels"
        assert f"400 predictions, 3 {kind}, weight {weights.sum():,.1f} (event: each" in said
    column = f"  {'class' if notion == 'classwise' else 'label'} "
    head = next(line for line in lines_of(str(report)) if line.startswith(column))
    assert "weight" in head
    assert "rows" not in head
    plain = calibrant.evaluate(probs, targets, notion=notion, weights=np.full(400, 2), **FEW)
    assert "rows" in next(line for line in lines_of(str(plain)) if line.startswith(column))
    assert "weight" not in str(plain)
    if notion == "multilabel":  # some labels are not known: rows have no single weight
        labels[:9, 1] = -1
        partly = calibrant.evaluate(probs, labels, notion=notion, weights=weights, ignore_index=-1, **FEW)
        assert str(partly).startswith("400 predictions, 3 labels (event: each label")
        assert "weight" in next(line for line in lines_of(str(partly)) if line.startswith(column))


@pytest.mark.parametrize(("number", "shown"), [(99, 99), (100, 20), (120, 20)])
@pytest.mark.slow
def test_of_a_hundred_groups_the_worst_twenty_are_shown(number: int, shown: int) -> None:
    report = many_groups(number)
    said = str(report)
    assert len(re.findall(r"^  g\d{3} ", said, re.MULTILINE)) == shown
    called = {group.name for group in report.groups if group.called_out}
    assert called == {f"g{k:03}" for k in range(7, number, 10)}
    listed = re.findall(r"^  (g\d{3}) ", said, re.MULTILINE)
    if shown == number:
        assert listed == [group.name for group in report.groups]
        return
    evidence = sorted(report.groups, key=lambda group: (group.p_value, -group.ece.value))
    assert listed == [group.name for group in evidence[:shown]]
    assert called <= set(listed)
    assert f"The 20 of {number} groups with the most evidence of miscalibration" in said
    assert f"to see the other {number - 20} groups, use --json, --html, or report.groups in Python" in said
    assert f"* evidence of miscalibration after Holm correction: {len(called)} of {number} groups" in said


def test_groups_without_a_test_say_why_below() -> None:
    p, y = rows()
    names = np.where(np.arange(600) < 50, [f"small {k // 10}" for k in range(600)], "large")
    said = str(calibrant.evaluate(p, y, groups=names, **FEW))
    assert re.search(r"^  small 0 .* –$", said, re.MULTILINE)
    flat = " ".join(said.split())
    assert "– small 2, small 3, small 1 and 2 more: fewer than 30 rows, too few for a test" in flat


# ---------------------------------------------------------------- comparisons


def compared(tilts: tuple[float, ...] = (1.0, 2.0), **options: Any) -> calibrant.report.Comparison:
    rng = np.random.default_rng(8)
    q = rng.uniform(0.05, 0.95, 1500)
    models = {f"model of tilt {tilt}": q**tilt for tilt in tilts}
    return calibrant.compare(models, (rng.random(1500) < q).astype(int), **options)


@pytest.mark.parametrize("tilts", [(1.0, 2.0), (1.0, 1.5, 2.0, 2.5)])
def test_a_comparison_fits_the_terminal(tilts: tuple[float, ...]) -> None:
    result = compared(tilts)
    for width in (50, 60, 80, 120):
        said = text_of(result, width)
        for line in lines_of(said):
            assert len(line) <= width, (width, line)
        for name, values in result.models.items():
            assert name in said
            assert f"{values['ece']:.4f}" in said
            assert f"{values['nll']:.4f}" in said


@pytest.mark.parametrize(("tilts", "every"), [((0.5, 2.0), "Both"), ((0.5, 1.7, 2.0), "All 3")])
def test_a_comparison_says_that_all_models_are_miscalibrated(tilts: tuple[float, ...], every: str) -> None:
    said = compared(tilts).verdict()[0]
    names = ", ".join(rf"model of tilt {tilt} \(p < 0\.001\)" for tilt in tilts)
    assert re.fullmatch(rf"{every} models show evidence of miscalibration: {names}\.", said)
    one = compared((1.0, 2.0)).verdict()
    assert re.fullmatch(r"model of tilt 1\.0 shows no evidence of miscalibration \(p = 0\.\d+\)\.", one[0])
    assert one[1] == "model of tilt 2.0 shows evidence of miscalibration (p < 0.001)."
    assert one[-1] == "Confidence intervals and p-values assume independent rows."


# ---------------------------------------------------------------- rare events


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        ((0.105, 0.2), ["10.5", "20.0"]),
        ((0.5, 0.5001), ["50.0", "50.0"]),
        ((0.00012, 0.0004), ["0.012", "0.040"]),
        ((0.0021, 0.0021), ["0.21", "0.21"]),
        ((0.0, 0.0), ["0.0", "0.0"]),
    ],
)
def test_small_shares_have_two_digits(shares: tuple[float, ...], said: list[str]) -> None:
    assert percentages(*shares) == said


def test_rounding_errors_have_no_digits() -> None:
    assert percentages(1e-13, -0.024, 0.024, sign="+", marks=[0.0]) == ["+0.0", "-2.4", "+2.4"]
    assert percentages(1e-6, -0.024, 0.024, sign="+", marks=[0.0]) == ["+0.0001", "-2.4000", "+2.4000"]


def test_a_verdict_on_rare_events_rounds_nothing_to_zero() -> None:
    rng = np.random.default_rng(0)
    p = rng.beta(0.5, 500, 200_000)
    sentences = " ".join(calibrant.evaluate(p, rng.random(len(p)) < p * 1.6, n_resamples=20).verdict())
    assert "mean predicted probability 0.10 %, observed frequency 0.17 %" in sentences
    assert re.search(r"\(difference -0\.0\d{2} percentage points, 95 % CI -0\.0\d+ to -0\.0\d+\)\.", sentences)
    assert re.search(r"from 0\.00\d+ by 0\.0*[1-9]\d", sentences)
    assert not re.search(r"(?<![\d.])[+-]?0\.0 percentage|\b0\.0 %|\bby 0\.0+ |\bbelow 0\.0+ ", sentences)
