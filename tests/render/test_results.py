"""The paragraph for the results section of a paper: its numbers are those of the table and of the rows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.measures.profiles import PROFILES
from calibrant.render.words import percent
from calibrant.report.measure_document import measures_table, shown_estimates

N = 400
RNG = np.random.default_rng(5)
SCORES = RNG.random(N)
OUTCOMES = (RNG.random(N) < SCORES**1.5).astype(int)
PROBS = RNG.dirichlet(np.ones(3), N)
LABELS = RNG.integers(0, 3, N)
GROUPS = np.array(["north", "south"])[(SCORES > 0.5).astype(int)]
FEW: Any = {"n_resamples": 50}


def of_event(**options: Any) -> calibrant.Report:
    return calibrant.evaluate(SCORES, OUTCOMES, **{**FEW, **options})


def of_classes(**options: Any) -> calibrant.Report:
    return calibrant.evaluate(PROBS, LABELS, **{**FEW, **options})


@pytest.mark.covering
@pytest.mark.parametrize("level", [0.95, 0.9, None])
@pytest.mark.parametrize("notion", ["positive", None, "classwise"])
@pytest.mark.parametrize("profile", PROFILES)
def test_every_number_is_that_of_the_table(profile: str, notion: Any, level: float | None) -> None:
    """Each "the measure was value (CI low to high; ..)" has the texts of the measure's row."""
    report = (of_event if notion == "positive" else of_classes)(profile=profile, notion=notion, level=level)
    table = measures_table(report, shown_estimates(report), full=True)
    rows = {table.cells(place)[0]: table.cells(place) for place in table.places}
    said = re.findall(
        r"[Tt]he ([A-Za-z:_ ]+?(?: \(event\)| at 0\.5)?) was ([-+]?[\d.]+)(?: \(([^()]*)\))?", report.results
    )
    said = [(label, value.rstrip("."), notes) for label, value, notes in said if label in rows]
    assert len(said) >= 3
    for label, value, notes in said:
        row = rows[label]
        assert value == row[1], label
        interval = re.search(r"CI ([-+.\d]+) to ([-+.\d]+)", notes)
        if level is None:
            assert interval is None
            continue
        assert (" – ".join(interval.groups()) if interval else "") == (row[2] if "–" in row[2] else ""), label
        assert interval is None or notes.startswith(f"{percent(level)} CI")
        upper = re.search(r"if calibrated, below ([.\d]+) in", notes)
        assert upper is None or upper[1] == row[4], label
    assert not re.search(r"\bNone\b|\bnan\b|\binf\b|[{}]|\.\.|  ", report.results)


def test_the_rows_and_the_events_are_counted() -> None:
    text = of_event().results
    events = int(OUTCOMES.sum())
    assert f"We evaluated {N} predictions. The event (outcome = 1) was observed in {events} of {N} (" in text
    assert f"({100 * events / N:.4g} %), and the mean predicted probability was {100 * SCORES.mean():.4g} %." in text
    weights = SCORES + 0.5
    weighted = of_event(weights=weights).results
    assert f"{(weights * OUTCOMES).sum():.1f} of {weights.sum():.1f} units of weight" in weighted
    correct = int((PROBS.argmax(1) == LABELS).sum())
    assert f"(the predicted class is correct) was observed in {correct} of {N}" in of_classes().results
    assert f"mean confidence was {100 * PROBS.max(1).mean():.4g} %" in of_classes().results


def test_it_says_what_was_tested_and_decided_and_found_in_groups() -> None:
    report = of_event(groups=GROUPS, tolerance=0.01)
    for sentence in report.verdict()[-3:]:
        if "group" in sentence or "tolerance" in sentence:
            assert sentence in report.results
    assert "found evidence of miscalibration (p ≤ 0.020)" in report.results
    calibrated = calibrant.evaluate(SCORES, RNG.random(N) < SCORES, **FEW)
    assert "found no evidence of miscalibration (p =" in calibrated.results
    assert "test" not in of_event(level=None).results


def test_where_it_is_shown(tmp_path: Path) -> None:
    for profile in PROFILES:
        report, clinical = of_event(profile=profile), profile == "clinical"
        page = report.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
        assert (">Results<" in page) == clinical
        assert (report.results in page) == clinical
        assert page.count('class="copy needs-script"') == 3 * clinical
        assert ("<details><summary>Results</summary>" in report.to_markdown()) == clinical
        assert ("report.results" in str(report)) == clinical
        assert json.loads(report.to_json())["results"] == report.results
    assert "results" not in of_event(groups=GROUPS).to_dict()["groups"][0]["report"]


def test_the_command_names_the_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.in_process import run

    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("risk,died\n" + "\n".join(f"{p},{y}" for p, y in zip(SCORES, OUTCOMES, strict=True)))
    _, out, _ = run("report", "a.csv", "--score", "risk", "--outcome", "died", "--json", "-", "--n-resamples", "0")
    assert "The event (died = 1) was observed in" in json.loads(out)["results"]
