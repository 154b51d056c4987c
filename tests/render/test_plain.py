"""The plain sentence of a report: facts of the rows of one bin, which the verdict does not contradict."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.render.blocks import Source
from calibrant.report.findings_text import plainly
from tests.samples import draw

FEW: Any = {"n_resamples": 100}
SAID = re.compile(
    r"(?:When|On average,) the (?:score said|model was) about ([\d.]+) %(?: sure)?, (?:and )?"
    r"(?:the event \((.+)\) occurred in|it was right in) ([\d.]+) % of the cases "
    r"\(([\d,.]+) of ([\d,.]+) (rows|units of weight)\)\."
)


def of_power(power: float, n: int = 3_000, **options: Any) -> tuple[calibrant.Report, np.ndarray, np.ndarray]:
    scores, outcomes = draw(2, n, lambda p: p**power)
    return calibrant.evaluate(scores, outcomes, **{**FEW, **options}), scores, outcomes


def parts(report: calibrant.Report) -> tuple[float, str, float, float, float]:
    found = SAID.fullmatch(plainly(report, Source()))
    assert found is not None, plainly(report, Source())
    said, event, seen, events, rows = (found[i] for i in range(1, 6))
    return float(said), event, float(seen), float(events.replace(",", "")), float(rows.replace(",", ""))


@pytest.mark.parametrize("n_bins", [5, 15])
@pytest.mark.parametrize("power", [1.0, 1.5, 0.6])
def test_it_has_the_numbers_of_the_rows_of_one_bin(power: float, n_bins: int) -> None:
    """Of the bin that contributes most to the ECE, if there is evidence of miscalibration; otherwise of the fullest."""
    report, scores, outcomes = of_power(power, n_bins=n_bins)
    assert report.miscalibrated == (power != 1.0)
    of_row = np.clip(np.ceil(scores * n_bins) - 1, 0, n_bins - 1)
    groups = [of_row == k for k in range(n_bins)]
    errors = [rows.mean() * abs(scores[rows].mean() - outcomes[rows].mean()) for rows in groups]
    sizes = errors if report.miscalibrated else [rows.sum() for rows in groups]
    rows = groups[int(np.argmax(sizes))]
    said, event, seen, events, number = parts(report)
    assert (events, number) == (outcomes[rows].sum(), rows.sum())
    assert event == "outcome = 1"
    assert said == pytest.approx(100 * scores[rows].mean(), abs=0.5)
    assert seen == pytest.approx(100 * outcomes[rows].mean(), abs=0.5)


def test_a_bin_within_its_band_or_with_few_rows_is_not_chosen() -> None:
    rng = np.random.default_rng(4)
    scores = np.concatenate([np.full(20, 0.95), np.full(600, 0.5), np.full(600, 0.15)])
    outcomes = np.concatenate([np.zeros(20), rng.random(600) < 0.5, rng.random(600) < 0.35]).astype(int)
    report = calibrant.evaluate(scores, outcomes, **FEW)
    assert report.miscalibrated
    assert parts(report)[0] == 15
    assert parts(report)[4] == 600
    scores, events = np.repeat([0.5, 0.15], [5_000, 200]), np.repeat([2_460, 60], [5_000, 200])
    outcomes = np.concatenate([np.arange(5_000) < events[0], np.arange(200) < events[-1]]).astype(int)
    report = calibrant.evaluate(scores, outcomes, **FEW)
    assert abs(0.5 - 0.492) * 5_000 > abs(0.15 - 0.3) * 200  # more of the ECE, but not beyond chance
    assert report.miscalibrated
    assert parts(report)[3:] == (60, 200)


def test_rows_without_a_full_bin_are_taken_together_and_few_rows_say_nothing() -> None:
    report, scores, outcomes = of_power(1.0, 60, n_bins=30)
    assert plainly(report, Source()).startswith("On average, the score said about ")
    said, _, _, events, number = parts(report)
    assert (events, number) == (outcomes.sum(), 60)
    assert said == pytest.approx(100 * scores.mean(), abs=0.5)
    assert plainly(of_power(1.0, 29)[0], Source()) == ""
    probs = np.random.default_rng(0).dirichlet(np.ones(3), 90)
    assert plainly(calibrant.evaluate(probs, np.arange(90) % 3, notion="classwise", **FEW), Source()) == ""


def test_the_top_label_the_event_and_weights_are_named() -> None:
    rng = np.random.default_rng(1)
    probs = rng.dirichlet(np.full(4, 0.3), 1_500)
    sharp = probs**2 / (probs**2).sum(axis=1, keepdims=True)
    labels = np.array([rng.choice(4, p=row) for row in probs])
    report = calibrant.evaluate(sharp, labels, **FEW)
    assert re.match(
        r"When the model was about \d+ % sure, it was right in \d+ % of the cases", plainly(report, Source())
    )
    said, _, seen, *_ = parts(report)
    assert said > seen
    binary, *_ = of_power(1.5)
    assert "the event (bought = yes) occurred in" in plainly(binary, Source(event="bought = yes"))
    weighted, *_ = of_power(1.5, weights=np.linspace(0.1, 1.3, 3_000))
    assert plainly(weighted, Source()).endswith(" units of weight).")


@pytest.mark.parametrize(("rate", "scale"), [(0.002, 3.0), (0.0005, 1.0)])
def test_rare_events_keep_their_digits(rate: float, scale: float) -> None:
    rng = np.random.default_rng(0)
    scores = rng.random(20_000) * 2 * rate
    report = calibrant.evaluate(scores, rng.random(20_000) < scale * scores, **FEW)
    said, _, seen, events, number = parts(report)
    assert said == pytest.approx(100 * scores.mean(), rel=0.1)
    assert seen == pytest.approx(100 * events / number, rel=0.1)
    assert seen > 0


def test_the_page_begins_with_it_and_markdown_has_it_second(tmp_path: Path) -> None:
    report, *_ = of_power(1.5)
    sentence = plainly(report, Source())
    page = report.to_html(tmp_path / "a.html").read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")
    heading, place, first = (page.index(word) for word in ('<h2 class="verdict', sentence, '<div class="first'))
    assert heading < place < first
    assert report.to_markdown().split("\n\n")[2] == sentence
    assert "the score said" not in str(report)  # two more lines
    assert sentence not in report.verdict()
