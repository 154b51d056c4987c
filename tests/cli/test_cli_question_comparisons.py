"""The command on the logs of several decision models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from tests.cli.test_cli_questions import rows
from tests.in_process import run, succeed


def write(name: str, made: list[dict[str, Any]], model: str) -> str:
    Path(name).write_text("\n".join(json.dumps({**row, "model": model}) for row in made), encoding="utf-8")
    return name


@pytest.fixture
def pins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Return two logs: the second one has other rows first, and answers about urgency with noise."""
    monkeypatch.chdir(tmp_path)
    rng, made = np.random.default_rng(8), json.loads(json.dumps(rows()))
    for row in made:
        row["answers"]["urgent"]["noul"] = float(np.clip(row["answers"]["urgent"]["noul"] + rng.normal(0, 0.4), 0, 1))
    return write("old.jsonl", rows(), "pin-1"), write("new.jsonl", made[20:] + made[:20], "pin-2")


def test_logs_of_several_models_are_compared_by_question(pins: tuple[str, str]) -> None:
    words = ("--on", "id", "--json", "c.json", "--html", "c.html", "--markdown", "c.md", "--gate")
    status, out, err = run("compare", *pins, *words)
    assert status == 3
    assert out.startswith(
        "old.jsonl … new.jsonl (2 files)\n300 inputs, 2 questions, 2 models\nquestions: urgent, team\n"
    )
    assert "pin-2 has a worse Brier score than pin-1 in 1 of 2 questions: urgent" in " ".join(out.split())
    assert "--gate: question 'urgent': pin-1 is better calibrated than pin-2" in err
    assert "question 'team'" not in err
    logs = {name: calibrant.read_decisions(path) for name, path in zip(("pin-1", "pin-2"), pins, strict=True)}
    expected = json.loads(calibrant.compare(logs).to_json())
    summary = json.loads(Path("c.json").read_text(encoding="utf-8"))
    assert {name: summary[name] for name in expected} == expected
    assert "Question team" in Path("c.html").read_text(encoding="utf-8")
    assert "Question team" in Path("c.md").read_text(encoding="utf-8")


def test_one_question_has_a_comparison(pins: tuple[str, str]) -> None:
    status, out, _ = run("compare", *pins, "--question", "team", "--json", "-", "--quiet", "--gate", "--png", "t.png")
    logs = {name: calibrant.read_decisions(path) for name, path in zip(("pin-1", "pin-2"), pins, strict=True)}
    expected = json.loads(calibrant.compare(logs)["team"].to_json())
    summary = json.loads(out)
    assert (status, {name: summary[name] for name in expected}) == (0, expected)
    assert Path("t.png").stat().st_size > 1000


def test_stated_confidences_are_compared_on_request(pins: tuple[str, str]) -> None:
    status, out, _ = run("compare", *pins, "--stated", "--json", "-", "--quiet")
    logs = {name: calibrant.read_decisions(path).stated() for name, path in zip(("pin-1", "pin-2"), pins, strict=True)}
    expected = json.loads(calibrant.compare(logs).to_json())
    assert (status, json.loads(out)["questions"]) == (0, expected["questions"])


def test_conditions_and_tolerances_are_about_every_question(pins: tuple[str, str]) -> None:
    status, out, err = run("compare", *pins, "--fail-if", "brier.low > 0", "--quiet")
    assert (status, out) == (3, "")
    assert "--fail-if 'brier.low > 0' holds: question 'urgent': brier.low of pin-2 minus pin-1 is +0." in err
    assert "team" not in err
    assert run("compare", *pins, "--fail-if", "brier.low > 0.5", "--quiet")[0] == 0
    status, out, err = run("compare", *pins, "--tolerance", "0.01", "--gate")
    assert status == 4
    said = "whether the ECE of pin-2 exceeds that of pin-1 by more than the tolerance of 0.01 in 2 of 2 questions"
    assert said in " ".join(out.split())
    assert "--gate: question 'team': Inconclusive for a tolerance of 0.01" in err
    assert run("compare", *pins, "--tolerance", "0.9", "--gate", "--quiet")[0] == 0


def test_labels_of_several_models_come_from_one_file(pins: tuple[str, str]) -> None:
    labels = [{"key": row["id"], **row["labels"]} for row in rows()]
    Path("truth.jsonl").write_text("\n".join(map(json.dumps, labels)), encoding="utf-8")
    bare = []
    for path in pins:
        made = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
        model = made[0].pop("model")
        bare.append(write(f"bare-{path}", [{"id": row["id"], "answers": row["answers"]} for row in made], model))
    words = ("--json", "-", "--quiet")
    out, _ = succeed("compare", *bare, "--truth", "truth.jsonl", "--on", "key", *words)
    assert json.loads(out)["questions"] == json.loads(run("compare", *pins, *words)[1])["questions"]


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--by", "id"], 2, "--by does not work with the log of a decision model"),
        (["--own-outcomes"], 2, "--own-outcomes does not work with the log of a decision model"),
        (["--independent"], 2, "--independent does not work with the log of a decision model"),
        (["--png", "c.png"], 2, "--png works only for one question; name it with --question"),
        (["--on", "name"], 2, "for decision logs, --on takes one of custom_id, id, row_id, input_id"),
        (["--question", "tem"], 1, "old.jsonl: has no question 'tem' with a labelled answer; did you mean 'team'?"),
        (["--baseline", "old.jsonl"], 2, "--baseline does not work with the log of a decision model"),
        (["new.jsonl"], 1, "new.jsonl: is named twice; name the log of each model once"),
        (["other.csv"], 1, "other.csv: is not the log of a decision model, but old.jsonl is"),
        (["bad.jsonl"], 1, "bad.jsonl: expected the label yes for 'urgent' in the row with the id 'r0', as in pin-1"),
    ],
)
def test_what_logs_of_several_models_do_not_take_is_refused(
    pins: tuple[str, str], words: list[str], status: int, said: str
) -> None:
    Path("other.csv").write_text("score,outcome\n" + "0.2,0\n0.7,1\n" * 20, encoding="utf-8")
    write(
        "bad.jsonl",
        [{**row, "labels": {**row["labels"], "urgent": not row["labels"]["urgent"]}} for row in rows()],
        "b",
    )
    ended, out, err = run("compare", *pins, *words)
    assert (ended, out) == (status, "")
    assert said in err
