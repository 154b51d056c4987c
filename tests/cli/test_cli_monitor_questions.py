"""``calibrant monitor`` on the logs of a decision model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import calibrant
from tests.in_process import fail, run, succeed
from tests.report.test_question_reports import rows_of


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for week in range(1, 7):
        rng, rows = np.random.default_rng(week), rows_of(250, seed=week)
        for row in rows:
            if week < 3:
                del row["answers"]["mood"], row["labels"]["mood"]
            if week > 3:
                row["labels"]["urgent"] = bool(rng.random() < row["answers"]["urgent"]["noul"] ** 3)
        rows[0]["answers"]["urgent"] = {"type": "refusal"}
        Path(f"week{week}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    Path("rows.csv").write_text("score,outcome\n" + "0.2,0\n0.7,1\n0.3,1\n0.6,0\n" * 20, encoding="utf-8")


def test_one_state_has_all_questions() -> None:
    expected = calibrant.Monitor()
    for week in range(1, 7):
        expected.update(calibrant.read_decisions(f"week{week}.jsonl"), label=f"week{week}")
        status, out, err = run("monitor", "state.json", f"week{week}.jsonl", "--json", "m.json", "--html", "m.html")
        assert status == 3 * (week > 3)
        assert "Refusals, which are not evaluated: 1, in urgent (1)." in err
        assert json.loads(Path("m.json").read_text(encoding="utf-8")) == expected.to_dict() | {"questions": "open"}
        assert (
            "The question mood first appeared in slice week3; earlier slices contain no evaluated answers to it."
            in " ".join(out.split())
        ) == (week >= 3)
    assert Path("state.json").read_bytes().decode() == expected.to_json()
    assert "1 of 4 questions shows evidence of miscalibration after closed testing: urgent" in " ".join(out.split())
    assert run("monitor", "state.json") == (3, out, "")
    assert run("monitor", "state.json", "week6.jsonl")[0] == 1  # the same label
    err = fail("monitor", "state.json", "--since-onset", "window.cal", "--quiet")
    assert "recalibrate the logs of these slices" in err


def test_labels_tolerances_and_pictures_work() -> None:
    words = ("--label", "first", "--tolerance", "0.05", "--png", "m.png", "--prometheus", "m.prom")
    assert run("monitor", "state.json", "week1.jsonl", *words)[0] == 0
    watch = calibrant.Monitor.from_json("state.json")
    assert (watch.labels, watch.settings["tolerance"]) == (["first"], 0.05)
    assert Path("m.png").stat().st_size > 1000
    assert 'group="urgent"' in Path("m.prom").read_text(encoding="utf-8")


def test_questions_may_be_declared() -> None:
    names = "urgent,tool,mood,open"
    assert run("monitor", "state.json", "week1.jsonl", "--groups", names)[0] == 0
    out, _ = succeed("monitor", "state.json", "week3.jsonl", "--groups", names)
    assert "New since" not in out
    assert run("monitor", "other.json", "week1.jsonl", "--groups", "urgent,tool,open")[0] == 0
    err = fail("monitor", "other.json", "week3.jsonl")
    assert "expected the declared questions (urgent, tool, open), got 'mood'" in err
    assert calibrant.Monitor.from_json("other.json").labels == ["week1"]


def test_one_question_is_watched_with_its_threshold() -> None:
    held_out = ("--question", "urgent", "--max-risk", "0.3")
    assert run("threshold", "week1.jsonl", *held_out, "--json", "threshold.json", "--quiet")[0] == 0
    words = ("--question", "urgent", "--threshold", "threshold.json")
    assert run("monitor", "state.json", "week2.jsonl", *words, "--since-onset", "w.cal")[0] == 0
    own, question = calibrant.Monitor(), calibrant.read_decisions("week2.jsonl")["urgent"]
    own.watch_threshold(json.loads(Path("threshold.json").read_text(encoding="utf-8")))
    own.update(question.probs, question.targets, label="week2")
    own.read_from = {"event": "urgent"}
    assert calibrant.Monitor.from_json("state.json").to_json() == own.to_json()
    assert len(own.to_dict()["promises"]) == 2  # yes and no
    err = fail("monitor", "state.json", "week3.jsonl")
    assert "expected scores of one event, as in the first slice, got a DecisionLog; pass one question" in err
    assert run("monitor", "open.json", "week1.jsonl", "--question", "open")[0] == 0


def test_the_thresholds_of_all_questions_are_watched() -> None:
    assert run("threshold", "week1.jsonl", "--max-risk", "0.4", "--json", "all.json", "--quiet")[0] == 0
    status, out, _ = run("monitor", "all_state.json", "week2.jsonl", "--threshold", "all.json")
    assert status == 0
    assert "for urgent is kept so far" in " ".join(out.split())
    found = json.loads(Path("all.json").read_text(encoding="utf-8"))
    own = calibrant.Monitor(threshold=found)
    own.update(calibrant.read_decisions("week2.jsonl"), label="week2")
    assert calibrant.Monitor.from_json("all_state.json").to_json() == own.to_json()
    words = ("--question", "urgent", "--threshold", "all.json")
    assert run("monitor", "one_state.json", "week2.jsonl", *words)[0] == 0
    Path("bad.json").write_text('{"questions": [7]}')
    for path, said in (
        ("bad.json", "is not a file with the thresholds of questions"),
        ("rows.csv", "is not a threshold file of calibrant"),
    ):
        status, _, err = run("monitor", "s.json", "week2.jsonl", "--question", "urgent", "--threshold", path)
        assert (status, said in err) == (1, True)
    Path("grouped.json").write_text(json.dumps({**found, "groups": [{**found, "name": "de"}]}))
    for words in (["--question", "urgent"], []):
        err = fail("monitor", "s.json", "week2.jsonl", *words, "--threshold", "grouped.json")
        assert "thresholds of groups" in err
        assert not Path("s.json").exists()
    found["questions"] = [each for each in found["questions"] if each["name"] != "urgent"]
    Path("less.json").write_text(json.dumps(found))
    status, _, err = run("monitor", "s.json", "week2.jsonl", "--question", "urgent", "--threshold", "less.json")
    assert (status, "contains no threshold for the question 'urgent'" in err) == (1, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["week1.jsonl", "--time", "day"],
            "--time needs a column of times, which the log of a decision model does not have",
        ),
        (
            ["week1.jsonl", "--since-onset", "w.cal"],
            "--since-onset works only for one question; name it with --question",
        ),
        (["week1.jsonl", "--by", "id"], "--by does not work with the log of a decision model"),
        (["week1.jsonl", "--groups", "a", "--question", "urgent"], "--groups names the questions to monitor together"),
        (["rows.csv", "--groups", "a"], "--groups needs --by, the column of the groups"),
    ],
)
def test_options_that_do_not_fit_are_refused(words: list[str], said: str) -> None:
    status, out, err = run("monitor", "state.json", *words)
    assert (status, out) == (2, "")
    assert said in err
    assert not Path("state.json").exists()


def test_a_state_of_questions_takes_no_columns() -> None:
    assert run("monitor", "state.json", "week1.jsonl")[0] == 0
    err = fail("monitor", "state.json", "rows.csv")
    assert "expected a DecisionLog, as in the first slice, got other data; begin a new monitor" in err
