"""What the pages, the Markdown and the terminal show of a comparison: its numbers, its pictures, its verdict."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.render.blocks import Details, Figures, Heading, Table
from calibrant.render.figure import Figure, Points
from calibrant.render.page import to_page
from calibrant.render.terminal import Style, to_terminal
from calibrant.report.comparison_document import deciding
from tests.in_process import succeed
from tests.render.test_html import EVIL, Page, classes, numbers, read
from tests.render.test_markdown import cells

DIGITS = Path(__file__).resolve().parent.parent.parent / "examples" / "digits.parquet"


def page_of(found: calibrant.Comparison, title: str = "") -> Page:
    return read(to_page(found._document(full=True), title=title))


def sharpened(*powers: float, **options: Any) -> calibrant.Comparison:
    """Return a comparison of models whose odds are those of the event to a power."""
    rng = np.random.default_rng(7)
    p = rng.random(4_000)
    models = {f"m{i}": p**a / (p**a + (1 - p) ** a) for i, a in enumerate(powers)}
    return calibrant.compare(models, rng.random(4_000) < p, **options)


# ---------------------------------------------------------------- the page


def test_the_files_hold_the_numbers_to_the_last_bit() -> None:
    probs, targets = classes(800, 3)
    found = calibrant.compare({"sharp": probs, "flat": np.full_like(probs, 1 / 3)}, targets)
    page = page_of(found)
    files = page.files()
    for row in files["models.csv"]:
        assert {name: float(row[name]) for name in found.descriptions} == found.models[row["model"]]
    for row in files["differences.csv"]:
        own = found.pairs[0][row["measure"]]
        assert [float(row[name]) for name in ("value", "low", "high")] == [own.value, own.low, own.high]
        assert numbers([row], "p_value")[0] == (own.p_value if row["measure"] == found.decides else None)
    for row, standing in zip(files["leaderboard.csv"], found.leaderboard, strict=True):
        assert row["model"] == standing.name
        assert float(row["brier_high"]) == standing["brier"].high
        assert float(row["difference_low"]) == standing.difference.low
        assert float(row["adjusted_p_value"]) == standing.adjusted_p_value
        (own,) = (row for row in files["models.csv"] if row["model"] == standing.name)
        assert float(own["ece_if_calibrated"]) == standing["ece"].floor.upper
        assert own["calibration"] == ("miscalibrated" if standing.miscalibrated else "no evidence")
    for i, name in enumerate(found.names, 1):
        bins = found.diagrams[name]
        rows = files[f"reliability-diagram-{i}.csv"]
        assert numbers(rows, "accuracy") == bins.accuracies[bins.counts > 0].tolist()
    assert found.verdict()[0].replace(" ", "") in "".join(page.text).replace(" ", "").replace("\N{NO-BREAK SPACE}", "")


def test_names_and_titles_are_text() -> None:
    probs, targets = classes(400, 3)
    found = calibrant.compare({EVIL: probs, "<b>": np.full_like(probs, 1 / 3)}, targets)
    page = page_of(found, "</title><script>1</script>")
    assert len(page.all("script")) == 1
    assert page.titles[0].startswith("</title><script>1</script>")


def test_a_pair_is_named_once_below_the_models() -> None:
    page = page_of(sharpened(3.0, 2.0))
    assert "Differences in the Brier score: m0 − m1" in page.text
    assert page.tables[-2][0] == ["first − second", "difference", "95 % CI", "calibration: p"]
    assert page.tables[-1][0] == ["measure", "difference", "95 % CI", "remark"]
    assert [row[0].partition(" (")[0] for row in page.tables[-1][1:]] == [
        "Brier score",
        "log loss",
        "accuracy at 0.5",
        "ECE",
        "debiased squared CE",
    ]
    several = page_of(sharpened(3.0, 2.0, 1.0))
    assert [row[0] for row in several.tables[-2][1:]] == ["m0 − m1", "m0 − m2", "m1 − m2"]
    names = [row[0] for row in several.tables[-1][1:]]
    assert names == [name for pair in ("m0 − m1", "m0 − m2", "m1 − m2") for name in (pair, "", "", "", "")]
    assert [row["first"] for row in several.files()["differences.csv"]] == ["m0"] * 10 + ["m1"] * 5


def test_of_many_models_a_page_shows_the_pairs_with_the_best_and_the_diagrams_of_the_first() -> None:
    found = sharpened(*np.linspace(1.0, 2.3, 14))
    best = found.leaderboard[0].name
    page = page_of(found)
    named = [(row["first"], row["second"]) for row in page.files()["differences.csv"]]
    assert len(named) == 13 * 5
    assert all(best in pair for pair in named)
    assert "The diagrams of the 2 other models are left out." in "".join(page.text)
    assert sum(name.startswith("reliability-diagram") for name in page.files()) == 12
    assert len(page.files()["models.csv"]) == len(page.files()["leaderboard.csv"]) == 14


def folded(found: calibrant.Comparison) -> list[Figure]:
    """Return the charts of the measures that a page folds."""
    details = [block for block in found._document(full=True).blocks if isinstance(block, Details)]
    (of_pairs,) = (block for block in details if block.summary == "The differences in all measures")
    return [figure for block in of_pairs.blocks if isinstance(block, Figures) for figure in block.figures]


def test_the_measures_of_every_pair_are_folded_below_the_one_that_ranks() -> None:
    for sort_by, label in (("brier", "Brier score"), ("nll", "log loss")):
        found = sharpened(3.0, 2.0, 1.0, sort_by=sort_by)
        labels = [figure.label for figure in folded(found)]
        assert len(labels) == len(found.descriptions) - 1
        assert label not in labels
        blocks = found._document(full=True).blocks
        at = next(i for i, block in enumerate(blocks) if isinstance(block, Heading) and "Differences" in block.text)
        assert blocks[at].text == f"Differences in the {label}"
        assert blocks[at + 1].marks
        values = [f"{pair[sort_by].value:+.4f}" for pair in found.pairs]
        assert list(blocks[at + 2].columns[1].texts) == values
        assert "differences-in-brief.csv" not in page_of(found).files()
        rows = cells(found.to_markdown())
        assert [row[1] for row in rows if len(row) == 4 and " − m" in row[0]] == values


@pytest.mark.parametrize(
    ("powers", "calibration", "best"),
    [
        ((1.0, 1.0), "No evidence of miscalibration in either model", "either may have the best Brier score"),
        ((3.0, 1.0), "m1 shows no evidence of miscalibration", "m1 has the best Brier score"),
        ((3.0, 2.0), "Both models show evidence of miscalibration", "m1 has the best Brier score"),
        ((3.0, 2.0, 4.0), "All 3 models show evidence of miscalibration", "m1 has the best Brier score"),
        (
            (3.0, 1.0, 1.0, 4.0),
            "m1, m2 show no evidence of miscalibration",
            "2 of 4 models may have the best Brier score",
        ),
        (
            (1.0, 1.0, 1.0, 1.0, 4.0),
            "4 of 5 models show no evidence of miscalibration",
            "4 of 5 models may have the best",
        ),
    ],
)
def test_the_conclusion_says_first_which_models_are_calibrated(
    powers: tuple[float, ...], calibration: str, best: str
) -> None:
    found = sharpened(*powers)
    first, _, second = found._document().conclusion.text.partition("; ")
    assert first == calibration
    assert second.startswith(best)
    said = found.verdict()
    assert "evidence of miscalibration" in said[0]
    text, markdown = " ".join(str(found).split()), " ".join(found.to_markdown().split())
    for place in (text, markdown):
        order = [place.index(word) for word in ("of miscalibration", "Brier score", "Leaderboard", "Models")]
        assert order == sorted(order)


def test_the_first_screen_has_the_picture_of_the_measure_that_ranks() -> None:
    found = sharpened(3.0, 2.0, 1.0, sort_by="nll")
    first = found._document(full=True).first
    assert first is not None
    assert first.diagram is not None
    assert first.diagram.title == "Log loss of each model"
    assert [name.parts[0] for name in first.diagram.y.names.values()] == [each.name for each in found.leaderboard]
    page = page_of(found)
    assert "Log loss of each model" in page.text
    assert not page.all("input", of="c-ends")  # there is nothing to switch off
    assert found._document().first is None


def looks_of(found: calibrant.Comparison) -> set[str]:
    """Return how the differences look on a page."""
    (chosen,) = (block for block in found._document(full=True).blocks if isinstance(block, Figure))
    marks = [mark for figure in (chosen, *folded(found)) for mark in figure.marks if isinstance(mark, Points)]
    page = page_of(found)
    assert all(page.all("path", of=mark.look) for mark in marks)
    return {mark.look for mark in marks}


def test_a_better_second_model_is_good_news_and_a_worse_one_is_not() -> None:
    for powers, warns in (((3.0, 2.0), False), ((2.0, 3.0), True), ((1.0, 1.01), False)):
        found = sharpened(*powers)
        assert ("bad" in page_of(found).all("h2", of="verdict")[0]["class"].split()) == warns
        assert looks_of(found) - {"dot"} == (set() if powers[1] == 1.01 else {"out" if warns else "good"})


def test_a_higher_accuracy_of_the_second_model_is_good_news() -> None:
    rng = np.random.default_rng(3)
    p = rng.random(1_000)
    assert looks_of(calibrant.compare({"turned": 1 - p, "straight": p}, rng.random(1_000) < p)) == {"good"}


@pytest.mark.parametrize(
    ("powers", "sentence"),
    [
        ((3.0, 2.0), "Both models show evidence of miscalibration: "),
        ((3.0, 2.0, 4.0), "All 3 models show evidence of miscalibration: "),
        ((3.0, 1.0), None),
    ],
)
def test_the_verdict_says_if_every_model_is_miscalibrated(powers: tuple[float, ...], sentence: str | None) -> None:
    found = sharpened(*powers)
    said = [own for own in found.verdict() if "models show evidence of miscalibration: " in own]
    assert [own.partition(": ")[0] + ": " for own in said] == ([] if sentence is None else [sentence])
    shown = " ".join(page_of(found).text).replace("\N{NO-BREAK SPACE}", " ")
    assert all(own in shown for own in said)


@pytest.mark.parametrize(
    ("power", "tolerance", "conclusion", "tone"),
    [
        (1.0, None, "No evidence of miscalibration in either model; either may have the best Brier score", ""),
        (3.0, None, "m0 shows no evidence of miscalibration; m0 has the best Brier score", "bad"),
        (1.0, 0.5, "Within the tolerance of 0.5", "good"),
        (1.4, 0.002, "Above the tolerance of 0.002", "bad"),
        (1.0, 0.001, "Inconclusive for the tolerance of 0.001", ""),
    ],
)
def test_the_conclusion(power: float, tolerance: float | None, conclusion: str, tone: str) -> None:
    found = sharpened(1.0, power if power > 1 else 1.001, tolerance=tolerance)
    assert found._document().conclusion == (conclusion, tone)
    (section,) = page_of(found).all("h2", of="verdict")
    assert ("bad" in section["class"].split()) == (tone == "bad")
    assert deciding(found.pairs[0], found) in found.verdict()
    assert (deciding(found.pairs[0], found) == found.verdict()[0]) == (tolerance is not None)


def test_the_method_of_a_difference_is_that_of_a_pair_that_has_it() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.random((2, 300))
    targets = rng.random(300) < a
    found = calibrant.compare({"never": np.where(targets, 0.0, a), "a": a, "b": b}, targets)
    said = "".join(page_of(found).text)
    assert found.pairs[2]["nll"].method in said
    assert found.pairs[0]["nll"].method not in said


def test_differences_too_small_to_draw_have_a_chart_all_the_same() -> None:
    rng = np.random.default_rng(3)
    probs = rng.random(200)
    page = page_of(calibrant.compare(probs, probs + 1e-15 * (probs < 0.9), rng.random(200) < probs))
    assert max(len(text.strip()) for text in page.text if re.fullmatch(r"\s*-?[\d.e-]+\s*", text)) <= 9
    assert "-0.0000" not in "".join(page.text)


def test_an_infinite_difference_is_left_out_of_the_chart_and_explained() -> None:
    targets = np.array([0, 1] * 100)
    good, bad = np.where(targets == 1, 0.8, 0.3), np.where(targets == 1, 0.0, 0.5)
    found = calibrant.compare({"good": good, "bad": bad}, targets)
    page = page_of(found)
    row = next(own for own in page.tables[-1] if "log loss" in own)
    assert row[1:3] == ["", ""]
    assert "probability 0" in row[3]
    assert [own for own in page.titles if own.startswith("good minus bad: ")]
    assert "log loss: infinite: 100 observed outcomes had predicted probability 0 in bad" in " ".join(
        str(found).split()
    )


def test_a_model_without_a_tested_order_has_a_dash_in_the_leaderboard() -> None:
    found = calibrant.compare([0.2], [0.4], [1])
    board = next(block for block in found._document().blocks if isinstance(block, Table))
    assert board.columns[4].texts == ["–", "–"]
    assert board.columns[5].texts == ["", ""]
    assert not board.bars
    assert not any(
        isinstance(block, Figure) and not any(isinstance(mark, Points) for mark in block.marks)
        for block in found._document(full=True).blocks
    )


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    target = tmp_path / "comparison.html"
    out, _ = succeed("compare", DIGITS, "--scores", "p_*,overconfident_*", "--html", target)
    assert "overconfident" in out
    assert read(target.read_text(encoding="utf-8")).files().keys() >= {"models.csv", "differences.csv"}


# ---------------------------------------------------------------- groups


@pytest.fixture(scope="module")
def wards() -> calibrant.Comparison:
    """Return two models in 120 wards; the second one is far off in every tenth."""
    rng = np.random.default_rng(4)
    p = rng.uniform(0.1, 0.9, 6_000)
    groups = np.arange(6_000) % 120
    other = np.where(groups % 10 == 0, 1 - p, p)
    names = np.array([f"w{k:03}" for k in groups])
    kept = (groups != 5) | (np.arange(6_000) < 2_400)  # 20 rows
    return calibrant.compare({"a": p[kept], "b": other[kept]}, (rng.random(6_000) < p)[kept], groups=names[kept])


def test_the_terminal_shows_the_groups_that_stand_out_most(wards: calibrant.Comparison) -> None:
    text = str(wards)
    part = text[text.index("Groups: a minus b, debiased squared CE (the 20 of 120 groups") :]
    found = sum(group.called_out[0] for group in wards.groups)
    assert 0 < found <= 12
    said = f"After Holm correction, {found} of 119 comparisons show that one of the two models is better calibrated"
    assert f"{said} (marked)." in " ".join(part.split())
    rows = re.findall(r"^  (w\d{3}) .*?( \*)?$", part, re.MULTILINE)
    assert len(rows) == 20
    assert {name for name, mark in rows if mark} == {group.name for group in wards.groups if group.called_out[0]}
    assert "– w005: fewer than 30 rows, too few for a test" in part
    assert "to see the other 100 groups, use --json, --html, or comparison.groups in Python" in " ".join(part.split())


def test_the_page_shows_all_groups(wards: calibrant.Comparison) -> None:
    page = page_of(wards)
    rows = page.files()["groups-1.csv"]
    assert [row["group"] for row in rows] == [group.name for group in wards.groups]
    for row, group in zip(rows, wards.groups, strict=True):
        square = group.comparison.pairs[0][wards.decides]
        assert float(row["value"]) == square.value
        assert row["called_out"] == str(group.called_out[0])
    shown = {row[0]: row[-1] for row in page.tables[-1]}
    assert shown["w005"] == "fewer than 30 rows, too few for a test"


def test_the_verdict_says_which_groups_differ(wards: calibrant.Comparison) -> None:
    (said,) = (sentence for sentence in wards.verdict() if "after Holm correction" in sentence)
    flagged = [group for group in wards.groups if group.called_out[0]]
    assert said.startswith(f"{len(flagged)} of 119 groups show a difference in calibration after Holm correction: ")
    least = min(flagged, key=lambda group: group.adjusted_p_values[0])
    assert f": {least.name} (a is better calibrated than b), " in said
    assert said.endswith(f" and {len(flagged) - 3} more.")
    rng = np.random.default_rng(1)
    p = rng.random(300)
    alike = calibrant.compare({"a": p, "b": p, "c": p}, rng.random(300) < p, groups=["x", "y", "z"] * 100)
    none = "No group shows a difference in calibration after Holm correction (9 comparisons in 3 groups)."
    assert none in alike.verdict()
    small = calibrant.compare({"a": p[:20], "b": p[:20]}, rng.random(20) < p[:20], groups=["x", "y"] * 10)
    assert not any("Holm" in sentence for sentence in small.verdict())


# ---------------------------------------------------------------- Markdown and the terminal


def test_the_markdown() -> None:
    rng = np.random.default_rng(1)
    probs = rng.random(800)
    result = calibrant.compare({"old": probs**2, "new": probs}, rng.random(800) < probs)
    source = result.to_markdown()
    assert source.startswith("## Comparison of models\n\n**new shows no evidence of miscalibration (p = ")
    rows = cells(source)
    assert rows[0][:5] == ["model", "Brier score", "rank", "among the best", "difference to the best"]
    assert rows[1][:4] == ["new", f"{result.models['new']['brier']:.4f}", "1", "yes"]
    assert "\n### Models\n" in source
    rows = rows[3:]
    accuracy = result.descriptions["accuracy"].label
    assert rows[0][:6] == ["model", "calibration", "Brier score", "log loss", accuracy, "mean prediction"]
    assert rows[0][-1] == "debiased squared CE"
    assert rows[1][:2] == ["old", "miscalibrated"]
    assert rows[1][6] == f"{result.models['old']['ece']:.4f}"
    assert "\n### old minus new\n" in source
    assert rows[3] == ["measure", "difference", "95 % CI", "main test: p"]
    assert [row[0] for row in rows[4:6]] == ["Brier score", "log loss"]
    assert "| --- | ---: | ---: | ---: |" in source


def test_the_markdown_of_many_models_folds_their_measures_and_differences() -> None:
    found = sharpened(*np.linspace(1.0, 1.7, 8))
    source = found.to_markdown()
    assert source.count("<details>") == 3
    assert "<details><summary>Models</summary>" in source
    assert f"{found.models['m7']['debiased_square']:.6f}" in source
    assert "m0 − m7" in source
    assert " minus " not in str(found)


@pytest.mark.parametrize("width", [44, 50, 60, 80, 120])
def test_a_narrow_terminal_shows_what_does_not_fit_below(width: int) -> None:
    found = sharpened(1.0, 1.5, 2.0, 2.5)
    text = to_terminal(found._document(), style=Style(width=width))
    assert max(map(len, text.splitlines())) <= width
    for name, values in found.models.items():
        standing = next(each for each in found.leaderboard if each.name == name)
        assert re.search(rf"^  {name} .*{standing.difference.low:.4f} to {standing.difference.high:.4f}", text, re.M)
        for key in ("ece", "nll"):
            number = f"{values[key]:.4f}"
            assert re.search(rf"^  {name} .*{re.escape(number)}", text, re.M), (name, key)


def test_the_bar_of_a_difference_is_its_interval_with_the_estimate_in_it() -> None:
    found = sharpened(1.0, 1.5, 2.0)
    lines = [line for line in to_terminal(found._document(), style=Style(width=110)).splitlines() if "█" in line]
    start = lines[0].index("█")
    bars = [line[start:] for line in lines]
    assert bars[0] == "█"
    most = max(each.difference.high for each in found.leaderboard)
    for bar, standing in zip(bars, found.leaderboard, strict=True):
        part = standing.difference
        assert bar.index("█") == pytest.approx(40 * part.value / most, abs=1)
        assert len(bar) == pytest.approx(max(40 * part.high / most, 1), abs=1)
