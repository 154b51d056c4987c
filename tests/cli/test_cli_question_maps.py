"""``calibrant recalibrate`` on the log of a decision model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import calibrant
from tests.in_process import fail, run, succeed
from tests.recalibration.test_question_recalibrations import with_rare
from tests.report.test_question_reports import rows_of

FAST = ("--n-resamples", "0")


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    rows = with_rare(rows_of(600, sharpen=2.0))
    Path("log.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return "log.jsonl"


def test_one_file_has_the_proven_maps(log: str) -> None:
    files = ("--json", "r.json", "--html", "r.html", "--markdown", "r.md")
    out, err = succeed("recalibrate", log, "--map", "maps.json", *files, *FAST)
    assert out.startswith("log.jsonl\n600 inputs, 5 questions\nquestions: urgent, tool, mood, open and 1 more\n")
    assert "maps.json does not contain urgent, mood, rare, for which there is no evidence that any map helps;" in err
    own = calibrant.recalibrate(calibrant.read_decisions(log), n_resamples=0)
    assert calibrant.read_maps("maps.json") == {name: own.maps[name] for name in ("tool", "open")}
    summary = json.loads(Path("r.json").read_text(encoding="utf-8"))
    expected = json.loads(own.to_json())
    assert {name: summary[name] for name in expected} == expected
    assert all("Question tool" in Path(name).read_text(encoding="utf-8") for name in ("r.html", "r.md"))
    _, err = succeed("recalibrate", log, "--map", "all.json", "--anyway", "--quiet", *FAST)
    assert "all.json does not contain rare, for which no map can be fitted" in err
    assert list(calibrant.read_maps("all.json")) == ["urgent", "tool", "mood", "open"]


def test_without_a_proven_map_the_status_is_3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, n in (("fine.jsonl", 200), ("few.jsonl", 6)):
        Path(name).write_text("\n".join(map(json.dumps, rows_of(n))), encoding="utf-8")
    status, out, err = run("recalibrate", "fine.jsonl", "--map", "maps.json", *FAST)
    assert status == 3
    assert "No evidence that recalibration helps any of 4 questions" in " ".join(out.split())
    assert "not written: there is no evidence that any map helps;" in err
    assert not Path("maps.json").exists()
    status, out, err = run("recalibrate", "few.jsonl", "--map", "maps.json", "--anyway", *FAST)
    assert status == 3
    assert "No map can be fitted to any question." in out
    assert "not written: no map can be fitted" in err
    assert not Path("maps.json").exists()


def test_one_question_has_a_plain_map(log: str) -> None:
    read = calibrant.read_decisions(log)
    for name in ("tool", "open"):
        status, _, _ = run("recalibrate", log, "--question", name, "--map", f"{name}.json", "--quiet", *FAST)
        own = calibrant.recalibrate(read, n_resamples=0)[name]
        assert status == 0
        assert calibrant.CalibrationMap.read(f"{name}.json") == own.map
    files = ("--sql", "tool.sql", "--png", "tool.png", "--quiet")
    assert run("recalibrate", log, "--question", "tool", "--method", "vector", *files, *FAST)[0] == 0
    assert "calibrated_search" in Path("tool.sql").read_text(encoding="utf-8")
    assert "expected at least 5 rows of each outcome, got 4" in fail("recalibrate", log, "--question", "rare")


@pytest.mark.parametrize("option", ["--sql", "--onnx", "--png", "--svg"])
def test_what_is_of_one_map_needs_a_question(log: str, option: str) -> None:
    status, out, err = run("recalibrate", log, option, f"x.{option.removeprefix('--')}")
    assert (status, out) == (2, "")
    assert f"{option} works only for one question; name it with --question" in err


def test_maps_of_questions_are_not_applied_to_columns(log: str) -> None:
    run("recalibrate", log, "--map", "maps.json", "--quiet", *FAST)
    err = fail("apply", "maps.json", log, "--output", "new.csv")
    assert "maps.json: expected one calibration map, got the maps of 2 questions: 'tool', 'open'; make the map" in err
    assert not Path("new.csv").exists()


def test_methods_and_names_of_questions_are_any_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = "<b>\x1b[31mred\u202e\nline"
    rows: list[dict[str, Any]] = [{"answers": {name: {"noul": 0.9}}, "labels": {name: i % 2 == 0}} for i in range(100)]
    Path("log.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    out, err = succeed("recalibrate", "log.jsonl", "--map", "maps.json", "--method", "shift", *FAST)
    assert list(calibrant.read_maps("maps.json")) == [name]
    assert not {"\x1b", "\u202e"} & {*out, *err}
    status, out, err = run("recalibrate", "log.jsonl", "--map", "maps.json", "--method", "matrix", *FAST)
    assert status == 3
    assert not {"\x1b", "\u202e"} & {*out, *err}
