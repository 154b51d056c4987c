"""Five new users, from nothing to a decision: what each types, the mistakes too, and that each message's remedy works.

A script is a list of lines. ``REMEDY`` types what the last message says. The numbers that a person decides by are
computed again, row by row.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.in_process import run

pytest.importorskip("duckdb", reason="the report extra is not installed")

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("in_folder")]

REMEDY = "what the last message says"


@dataclass(frozen=True)
class Screen:
    """A line that a person typed, its exit status, and what it wrote to each stream."""

    line: str
    status: int
    shown: str
    message: str


def remedy(screen: Screen) -> str:
    """The line that the message of a screen says to type."""
    message, line = " ".join(screen.message.split()), screen.line
    if command := re.search(r"(?:type|such as|run): (calibrant .+)$", message):
        return command[1]
    if option := re.search(r"No such option '(--[\w-]+)'; did you mean '(--[\w-]+)'", message):
        return line.replace(option[1], option[2])
    if name := re.search(r"\((--[\w-]+)\); did you mean '(\w+)'", message):
        return re.sub(rf"({name[1]}) \w+", rf"\1 {name[2]}", line)
    if option := re.search(r"(?:pass|with) (--[\w-]+(?: (?:\"[^\"]*\"|[\w,-]+(?= ?$)))?)", message):
        return f"{line} {option[1]}"
    pytest.fail(f"{line}\nhas no remedy: {message}")


def in_process(line: str) -> Screen:
    """Run a line in this process, in 80 columns."""
    return Screen(line, *run(*shlex.split(line)[1:]))


def in_a_process_of_its_own(line: str) -> Screen:
    """Run a line as a shell does: one process starts one session of Spark."""
    code = "from calibrant.cli import main; main(prog_name='calibrant')"
    done = subprocess.run(
        [sys.executable, "-c", code, *shlex.split(line)[1:]], capture_output=True, text=True, check=False
    )
    return Screen(line, done.returncode, done.stdout, done.stderr)


def typed(*script: str, run: Callable[[str], Screen] = in_process) -> list[Screen]:
    """Type the lines of a script."""
    screens: list[Screen] = []
    for entry in script:
        screens.append(run(remedy(screens[-1]) if entry is REMEDY else entry))
    for before, after in pairwise(screens):
        if before.status in (1, 2):  # a mistake is understood: the same message does not come twice
            assert after.message != before.message
    return screens


def lines_and_statuses(screens: list[Screen]) -> list[tuple[str, int]]:
    return [(screen.line.removeprefix("calibrant "), screen.status) for screen in screens]


def ece_in(path: Path) -> float:
    return float(json.loads(path.read_text(encoding="utf-8"))["estimates"]["ece"]["value"])


def naive_ece(scores: Any, outcomes: Any, n_bins: int = 15) -> float:
    """The ECE over bins (j / M, (j + 1) / M], the first with 0 as well, written row by row."""
    gaps = np.zeros(n_bins)
    for score, outcome in zip(scores, outcomes, strict=True):
        gaps[max(int(np.ceil(score * n_bins - 1e-12)) - 1, 0)] += score - outcome
    return float(np.abs(gaps).sum() / len(scores))


def sigmoid(log_odds: Any) -> Any:
    return 1 / (1 + np.exp(-log_odds))


def test_an_analyst_with_a_csv() -> None:
    """Per cents and words in columns with names of their own; may the campaign use these risks?"""
    rng = np.random.default_rng(0)
    risks = np.round(100 * sigmoid(rng.normal(-1, 1, 6_000)), 2)
    churned = rng.random(len(risks)) < risks / 100
    segments = rng.choice(["shop", "web"], len(risks))
    rows = [
        f"{k},{segment},{risk}%,{'yes' if left else 'no'}"
        for k, (segment, risk, left) in enumerate(zip(segments, risks, churned, strict=True), start=1)
    ]
    Path("churn.csv").write_text("\n".join(["customer_id,segment,churn_risk,churned", *rows]) + "\n", encoding="utf-8")
    screens = typed(
        "calibrant report churn.csv",
        "calibrant report churn.csv --score churn_risk --outcome churned",
        REMEDY,
        "calibrant report churn.csv --score churn_risk --outcome churned --percent --labels no,yes --by segments",
        REMEDY,
        "calibrant report churn.csv --score churn_risk --outcome churned --percent --labels no,yes "
        "--tolerance 0.03 --gate --json report.json",
    )
    start = "report churn.csv --score churn_risk --outcome churned"
    assert lines_and_statuses(screens) == [
        ("report churn.csv", 1),
        (start, 1),
        (f"{start} --labels no,yes --percent", 0),
        (f"{start} --percent --labels no,yes --by segments", 1),
        (f"{start} --percent --labels no,yes --by segment", 0),
        (f"{start} --percent --labels no,yes --tolerance 0.03 --gate --json report.json", 0),
    ]
    assert "--score" in screens[0].message
    assert "churn_risk" in screens[0].message
    assert ece_in(Path("report.json")) == pytest.approx(naive_ece(risks / 100, churned), abs=1e-9)


def test_a_researcher_with_logits_of_two_networks() -> None:
    """Labels that begin with 1; is the new network better calibrated than the old one?"""
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 2, (3_000, 10))
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = np.array([rng.choice(10, p=row) for row in probs])
    np.savez("new.npz", logits=logits, labels=labels + 1)
    np.savez("old.npz", logits=1.8 * logits, labels=labels + 1)
    screens = typed(
        "calibrant report old.npz",
        REMEDY,
        "calibrant report old.npz --labels 1-10 --tolerence 0.03 --gate",
        REMEDY,
        "calibrant compare old.npz new.npz",
        REMEDY,
        "calibrant compare old.npz new.npz --labels 1-10 --gate",
        "calibrant report new.npz --labels 1-10 --json new.json",
    )
    assert lines_and_statuses(screens) == [
        ("report old.npz", 1),
        ("report old.npz --labels 1-10", 0),
        ("report old.npz --labels 1-10 --tolerence 0.03 --gate", 2),
        ("report old.npz --labels 1-10 --tolerance 0.03 --gate", 3),
        ("compare old.npz new.npz", 1),
        ("compare old.npz new.npz --labels 1-10", 0),
        ("compare old.npz new.npz --labels 1-10 --gate", 0),
        ("report new.npz --labels 1-10 --json new.json", 0),
    ]
    assert "new is better calibrated than old" in " ".join(screens[5].shown.split())
    right = probs.argmax(axis=1) == labels
    assert ece_in(Path("new.json")) == pytest.approx(naive_ece(probs.max(axis=1), right), abs=1e-6)


def test_a_physician_with_a_risk_score() -> None:
    """A missing risk and two visits of each patient; may the ward rely on the score?"""
    rng = np.random.default_rng(0)
    log_odds = rng.normal(-2, 1, 600)
    died = rng.random(600) < sigmoid(0.6 + 0.6 * log_odds)
    risks = np.round(sigmoid(log_odds), 4)
    rows = [f"{k // 2},{'ICU' if k % 6 < 2 else 'ward'},{risks[k] if k != 7 else ''},{died[k]:d}" for k in range(600)]
    Path("cohort.csv").write_text("\n".join(["patient,ward,risk,died", *rows]) + "\n", encoding="utf-8")
    screens = typed(
        "calibrant report cohort.csv",
        "calibrant report cohort.csv --score risk --outcome died",  # one of two that the message lists
        REMEDY,
        REMEDY,
        'calibrant report cohort.csv --score risk --outcome died --where "risk IS NOT NULL" --cluster patients',
        REMEDY,
        'calibrant report cohort.csv --score risk --outcome died --where "risk IS NOT NULL" --cluster patient '
        "--by ward --gate --json report.json",
    )
    start = "report cohort.csv --score risk --outcome died"
    rest = f'{start} --where "risk IS NOT NULL"'
    assert lines_and_statuses(screens) == [
        ("report cohort.csv", 1),
        (start, 1),
        (rest, 0),
        (f"{rest} --cluster patient", 0),
        (f"{rest} --cluster patients", 1),
        (f"{rest} --cluster patient", 0),
        (f"{rest} --cluster patient --by ward --gate --json report.json", 3),
    ]
    assert f"type: {screens[1].line}; (2) if 'ICU' in column 'ward' is the event" in " ".join(
        screens[0].message.split()
    )
    rest_of_rows = np.arange(600) != 7
    assert ece_in(Path("report.json")) == pytest.approx(naive_ece(risks[rest_of_rows], died[rest_of_rows]), abs=1e-9)


def test_a_developer_with_answers_of_a_language_model() -> None:
    """Confidences such as "85%" in JSON lines; does the application have to ask a person?"""
    rng = np.random.default_rng(0)
    claimed = rng.choice([50, 60, 70, 80, 90, 95, 99], 1_500)
    right = rng.random(len(claimed)) < 0.25 + 0.5 * claimed / 100
    tasks = rng.choice(["maths", "trivia"], len(claimed))
    answers = zip(tasks.tolist(), claimed.tolist(), right.tolist(), strict=True)
    lines = [
        json.dumps({"id": k, "meta": {"task": task}, "confidence": f"{confidence}%", "correct": correct})
        for k, (task, confidence, correct) in enumerate(answers)
    ]
    Path("answers.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    screens = typed(
        "calibrant report answers.jsonl",
        REMEDY,
        "calibrant report answers.jsonl --percent --by meta.task --html answers.html",
        "calibrant report answers.jsonl --percent --tolerance 5 --gate",
        "calibrant report answers.jsonl --percent --tolerance 0.05 --gate --json report.json",
    )
    assert lines_and_statuses(screens) == [
        ("report answers.jsonl", 1),
        ("report answers.jsonl --percent", 0),
        ("report answers.jsonl --percent --by meta.task --html answers.html", 0),
        ("report answers.jsonl --percent --tolerance 5 --gate", 2),
        ("report answers.jsonl --percent --tolerance 0.05 --gate --json report.json", 3),
    ]
    assert "Overestimates the event" in screens[1].shown
    assert {"maths", "trivia"} <= set(screens[2].shown.split())
    assert "such as 0.02" in screens[3].message
    assert "trivia" in Path("answers.html").read_text(encoding="utf-8")
    assert ece_in(Path("report.json")) == pytest.approx(naive_ece(claimed / 100, right), abs=1e-9)


@pytest.mark.spark
@pytest.mark.filterwarnings("default")  # warnings of pyspark are its own
@pytest.mark.skipif(shutil.which("java") is None and "JAVA_HOME" not in os.environ, reason="there is no Java here")
def test_an_engineer_with_spark() -> None:
    """A file for each day; is today like the days before?"""
    pytest.importorskip("pyspark", reason="the extra spark is not installed")
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    days = [rng.random(2_000) for _ in range(3)]
    clicks = [rng.random(2_000) < scores**1.5 * (k == 2) + scores * (k < 2) for k, scores in enumerate(days)]
    for name, scores, clicked in zip(("day-1", "day-2", "today"), days, clicks, strict=True):
        pq.write_table(pa.table({"score": scores, "clicked": clicked.astype(int)}), f"{name}.parquet")
    spark = "calibrant report 'day-*.parquet' --engine spark --master 'local[2]'"
    screens = typed(
        spark,
        REMEDY,
        f"{spark} --outcome click --sketch week.cal",
        REMEDY,
        "calibrant report today.parquet --outcome clicked --sketch today.cal",
        "calibrant compare today.cal --baseline week.cal --gate",
        "calibrant report week.cal --json week.json",
        run=in_a_process_of_its_own,
    )
    spark = spark.removeprefix("calibrant ")
    assert lines_and_statuses(screens) == [
        (spark, 1),
        (f"{spark} --score score --outcome clicked", 0),
        (f"{spark} --outcome click --sketch week.cal", 1),
        (f"{spark} --outcome clicked --sketch week.cal", 0),
        ("report today.parquet --outcome clicked --sketch today.cal", 0),
        ("compare today.cal --baseline week.cal --gate", 3),
        ("report week.cal --json week.json", 0),
    ]
    scores, outcomes = np.concatenate(days[:2]), np.concatenate(clicks[:2])
    assert ece_in(Path("week.json")) == pytest.approx(naive_ece(scores, outcomes), abs=1e-9)
