"""``calibrant report --ordered``: classes that are ordered levels."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import calibrant
from calibrant.files import reading
from tests.in_process import fail, run, succeed
from tests.measures.test_ordered import drawn

LEVELS = ("low", "middle", "high")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    probs, targets = drawn(300, 3)
    lines = [",".join(f"p_{name}" for name in LEVELS) + ",target"]
    lines += [",".join([*map(repr, p.tolist()), LEVELS[y]]) for p, y in zip(probs, targets, strict=True)]
    Path("triage.csv").write_text("\n".join(lines), encoding="utf-8")
    return "triage.csv"


def test_a_table_has_the_report_of_its_arrays(table: str) -> None:
    out, _ = succeed("report", table, "--ordered", "--json", "r.json", "--n-resamples", "99")
    assert "\nEvents: at least this level\n" in out
    probs, targets = drawn(300, 3)
    expected = calibrant.evaluate(probs, targets, class_names=LEVELS, ordered=True, n_resamples=99)
    found = json.loads(Path("r.json").read_text(encoding="utf-8"))
    assert found["estimates"] == expected.to_dict()["estimates"]
    assert found["at_least"] == expected.to_dict()["at_least"]
    assert [event["name"] for event in found["at_least"]] == ["middle", "high"]


def test_measures_and_conditions_of_levels(table: str) -> None:
    out, _ = succeed("report", table, "--ordered", "--measures", "rps,within_one", "--n-resamples", "0")
    assert "\n  RPS  " in out
    assert "\n  within one level  " in out
    err = fail("report", table, "--ordered", "--fail-if", "rps > 0.01", "--quiet", "--n-resamples", "0", status=3)
    assert "--fail-if 'rps > 0.01' holds: rps is 0." in err
    assert "--profile standard leaves rps out" in fail("report", table, "--fail-if", "rps > 0.01", "--quiet", status=2)
    _, out, _ = run("report", table, "--measures", "rps,ece", "--n-resamples", "0")
    assert "RPS: not available: the classes were not declared as ordered levels" in out


def test_the_configuration_may_declare_the_order(table: str) -> None:
    Path("calibrant.toml").write_text("[report]\nordered = true\n", encoding="utf-8")
    out, _ = succeed("report", table, "--n-resamples", "0")
    assert "Events: at least this level" in out


def test_many_rows_need_exact(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_ROWS", 100)
    err = fail("report", table, "--ordered")
    assert "triage.csv: has so many rows that only a sketch is kept, without the probabilities of each row" in err
    assert "pass --exact to keep the rows, or leave --ordered out" in err
    out, _ = succeed("report", table, "--ordered", "--exact", "--n-resamples", "0")
    assert "Events: at least this level" in out


def test_rows_may_become_a_sketch_too(table: str) -> None:
    out, _ = succeed("report", table, "--ordered", "--sketch", "rows.cal", "--n-resamples", "0")
    assert "Events: at least this level" in out
    err = fail("report", "rows.cal", "--ordered", status=2)
    assert "--ordered has no effect on a sketch, because a sketch contains no rows; leave it out" in err


def test_other_data_are_refused(table: str) -> None:
    err = fail("report", table, "--ordered", "--score", "p_high", "--outcome", "target = 'high'", status=2)
    assert "--score does not work with --ordered, which needs rows with probabilities of levels; leave one out" in err
    err = fail("report", table, "--ordered", "--notion", "multilabel", status=2)
    assert "--notion multilabel is for labels that do not exclude each other; leave --ordered out" in err
    scores = np.random.default_rng(0).random(50)
    lines = [f"{p!r},{int(p > 0.5)}" for p in scores.tolist()]
    Path("event.csv").write_text("\n".join(["score,outcome", *lines]), encoding="utf-8")
    assert "event.csv: --ordered: expected False for one event" in fail("report", "event.csv", "--ordered")
    rows = [{"answers": {"q": {"noul": p}}, "labels": {"q": p > 0.5}} for p in scores.tolist()]
    Path("log.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    err = fail("report", "log.jsonl", "--ordered", status=2)
    assert "--ordered does not work with the log of a decision model" in err


def test_one_score_question_is_ordered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    probs, targets = drawn(200, 3)
    rows = [
        {
            "answers": {
                "mood": {"score": 1.0, "probabilities": dict(zip("012", p.tolist(), strict=True))},
                "good": {"noul": float(p[2])},
            },
            "labels": {"mood": int(y), "good": bool(y == 2)},
        }
        for p, y in zip(probs, targets, strict=True)
    ]
    Path("log.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    out, _ = succeed("report", "log.jsonl", "--question", "mood", "--n-resamples", "0")
    assert "Events: at least this level" in out
    assert run("report", "log.jsonl", "--question", "mood", "--fail-if", "rps > 0.01", "--quiet")[0] == 3
    err = fail("report", "log.jsonl", "--question", "good", "--fail-if", "rps > 0.01", "--quiet")
    assert "--fail-if 'rps > 0.01': only reports on ordered levels have rps" in err
