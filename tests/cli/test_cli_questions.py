"""The command on the log of a decision model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from tests.in_process import fail, run, succeed

TEAMS = ("billing", "sales", "other")


def rows(n: int = 300, *, labels: bool = True) -> list[dict[str, Any]]:
    """Return answers of a model that is too sure about teams, and right about urgency."""
    rng = np.random.default_rng(5)
    made = []
    for i in range(n):
        p, said = rng.random(), rng.dirichlet((0.3, 0.3, 0.3))
        true = np.sqrt(said) / np.sqrt(said).sum()
        answers = {
            "urgent": {"noul": p},
            "team": {"probabilities": dict(zip(TEAMS, said.tolist(), strict=True)), "confidence": float(said.max())},
        }
        right = {"urgent": bool(rng.random() < p), "team": TEAMS[rng.choice(3, p=true)]}
        made.append({"id": f"r{i}", "answers": answers, **({"labels": right} if labels else {"hidden": right})})
    return made


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("log.jsonl").write_text("\n".join(map(json.dumps, rows())), encoding="utf-8")
    return "log.jsonl"


def test_every_question_has_a_row_and_a_section(log: str) -> None:
    out, err = succeed("report", log, "--json", "r.json", "--html", "r.html", "--markdown", "r.md")
    assert out.startswith("log.jsonl\n300 inputs, 2 questions\nquestions: urgent, team\n")
    assert "Evidence of miscalibration in 1 of 2 tested questions after Holm correction" in " ".join(out.split())
    assert "\nQuestion urgent\n" in out
    assert "\nQuestion team\n" in out
    summary = json.loads(Path("r.json").read_text(encoding="utf-8"))
    own = calibrant.evaluate(calibrant.read_decisions(log)).to_dict()
    assert summary["questions"] == json.loads(json.dumps(own["questions"]))
    assert "Question team" in Path("r.html").read_text(encoding="utf-8")
    assert "Question team" in Path("r.md").read_text(encoding="utf-8")
    assert "wrote r.html" in err


def test_a_yes_no_question_has_thresholds_by_net_benefit(log: str) -> None:
    status, out, _ = run("threshold", log, "--question", "urgent", "--thresholds", "0.2,0.5", "--json", "-")
    question = calibrant.read_decisions(log)["urgent"]
    curve = calibrant.net_benefit(question.probs, question.targets, thresholds=[0.2, 0.5])
    assert status == 0
    assert json.loads(out)["chosen"]["net_benefit"] == pytest.approx(curve.net_benefit.tolist())
    status, _, err = run("threshold", log, "--thresholds", "0.2")
    assert (status, "works only for one question; name it with --question" in err) == (2, True)
    status, _, err = run("threshold", log, "--question", "team", "--thresholds", "0.2")
    assert (status, "with a yes-no question" in err) == (1, True)


def test_one_question_has_the_report_of_its_arrays(log: str) -> None:
    out, _ = succeed("report", log, "--question", "team", "--json", "-", "--quiet")
    question = calibrant.read_decisions(log)["team"]
    expected = calibrant.evaluate(question.probs, question.targets, class_names=question.class_names).to_dict()
    assert json.loads(out)["estimates"] == expected["estimates"]
    assert run("report", log, "--question", "team", "--fail-if", "ece > 0.01", "--png", "team.png")[0] == 3
    assert Path("team.png").stat().st_size > 1000


def test_the_gate_fails_if_a_question_does(log: str) -> None:
    err = fail("report", log, "--gate", "--quiet", status=3)
    assert "--gate: Evidence of miscalibration in 1 of 2 tested questions after Holm correction: team." in err
    assert run("report", log, "--gate", "--question", "urgent", "--quiet")[0] == 0


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_labels_come_from_a_file_of_their_own(log: str, form: str) -> None:
    hidden = rows(labels=False)
    Path("answers.jsonl").write_text("\n".join(map(json.dumps, hidden)), encoding="utf-8")
    labels = [{"key": row["id"], **row["hidden"]} for row in hidden][::-1]
    truth = f"labels.{form}"
    if form == "jsonl":
        Path(truth).write_text("\n".join(map(json.dumps, labels)), encoding="utf-8")
    else:
        pa = pytest.importorskip("pyarrow")
        table = pa.Table.from_pylist(labels)
        write = (
            pytest.importorskip("pyarrow.csv").write_csv
            if form == "csv"
            else pytest.importorskip("pyarrow.parquet").write_table
        )
        write(table, truth)
    out, _ = succeed("report", "answers.jsonl", "--truth", truth, "--on", "key", "--json", "-", "--quiet")
    assert json.loads(out)["questions"] == json.loads(run("report", log, "--json", "-", "--quiet")[1])["questions"]
    assert f"{truth}: row 1 has no id under 'id'" in fail("report", "answers.jsonl", "--truth", truth)


def test_columns_that_are_named_are_read_as_columns(log: str) -> None:
    words = ("--probs", "answers.team.probabilities.*", "--target", "labels.team", "--json", "-", "--quiet")
    by_columns, by_question = (
        json.loads(run("report", log, *each)[1]) for each in (words, ("--question", "team", *words[4:]))
    )
    assert by_columns["estimates"]["brier"]["value"] == by_question["estimates"]["brier"]["value"]


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--by", "id"], 2, "--by does not work with the log of a decision model"),
        (["--logits"], 2, "--logits does not work with the log of a decision model"),
        (["--fail-if", "ece > 0.1"], 2, "--fail-if works only for one question; name it with --question"),
        (["--tolerance", "0.1"], 2, "--tolerance works only for one question; name it with --question"),
        (["--question", "tem"], 1, "has no question 'tem' with a labelled answer; did you mean 'team'?"),
        (["--on", "key"], 2, "--on names the column of ids in the file of --truth; pass --truth too"),
        (
            ["--question", "team", "--probs", "a"],
            1,
            "--question is only for the log of a decision model, which answers named questions; leave --score",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(log: str, words: list[str], status: int, said: str) -> None:
    ended, out, err = run("report", log, *words)
    assert (ended, out) == (status, "")
    assert said in err


def test_other_files_have_no_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.csv").write_text("score,outcome\n" + "0.2,0\n0.7,1\n" * 20, encoding="utf-8")
    err = fail("report", "p.csv", "--question", "team")
    assert (
        "p.csv: --question is only for the log of a decision model, which answers named questions; leave --question out"
        in err
    )
    Path("bad.jsonl").write_text(json.dumps({"answers": {"a": {"noul": 1.5}}, "labels": {"a": True}}), encoding="utf-8")
    assert "bad.jsonl: row 1: the answer to 'a' has the probability 1.5" in fail("report", "bad.jsonl")


def test_texts_stand_for_yes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = [{"answers": {"a": {"noul": i / 50}}, "labels": {"a": "yes" if i % 2 else "no"}} for i in range(50)]
    Path("log.jsonl").write_text("\n".join(map(json.dumps, made)), encoding="utf-8")
    assert "the label of 'a' is 'no', not true or false" in fail("report", "log.jsonl")
    assert run("report", "log.jsonl", "--yes", "yes", "--quiet")[0] == 0


# ---------------------------------------------------------------- thresholds


def test_threshold_certifies_every_question_and_writes_gates(log: str) -> None:
    out, err = succeed("threshold", log, "--max-risk", "0.3", "--gates", "gates.json", "--json", "all.json")
    assert "Some answers to" in out
    found = calibrant.certify_questions(calibrant.read_decisions(log), max_risk=0.3)
    gates = json.loads(Path("gates.json").read_text(encoding="utf-8"))
    assert gates.pop("generatedAt").endswith("Z")
    expected = found.gates()
    del expected["generatedAt"]
    assert gates == expected
    without = [name for name in found if found.gate(name) is None]
    assert ("does not contain the questions without a certified threshold: " + ", ".join(without) in err) == bool(
        without
    )
    whole = json.loads(Path("all.json").read_text(encoding="utf-8"))
    assert whole["questions"] == json.loads(json.dumps(found.to_dict()["questions"]))
    assert "observed gate" not in out
    assert "observed gate" in run("threshold", log, "--max-risk", "0.3", "--all")[1]


@pytest.mark.usefixtures("log")
def test_threshold_of_one_question_counts_its_refusals() -> None:
    lines = rows()
    for row in lines[:100]:
        row["answers"]["urgent"] = {"type": "refusal"}
    Path("refused.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    out, _ = succeed("threshold", "refused.jsonl", "--question", "urgent", "--max-risk", "0.3", "--json", "u.json")
    assert 'Decide "yes"' in out
    found = json.loads(Path("u.json").read_text(encoding="utf-8"))
    assert found["n"] == 200
    assert found["yes"]["coverage"] == pytest.approx(found["yes"]["n_automatic"] / 300)
    assert found["source"]["event"] == "urgent"


def test_threshold_without_a_gate_writes_none_and_says_so(log: str) -> None:
    err = fail("threshold", log, "--max-risk", "0.001", "--gates", "gates.json", status=4)
    assert "gates.json is not written, because no threshold is certified" in err
    assert not Path("gates.json").exists()


@pytest.mark.usefixtures("log")
def test_threshold_certifies_groups_of_rows() -> None:
    lines = [{**row, "meta": {"lang": "de" if i % 2 else "en"}} for i, row in enumerate(rows())]
    Path("meta.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    _, out, _ = run("threshold", "meta.jsonl", "--by", "meta.lang", "--max-risk", "0.3")
    assert "The thresholds of all groups are certified together" in out
    err = fail("threshold", "meta.jsonl", "--by", "meta.land")
    assert "row 1: the row has no text or number under 'meta.land'" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--per-class"], "--per-class does not work with the log of a decision model"),
        (["--yes-risk", "0.1", "--no-risk", "0.1"], "--yes-risk works only for one question"),
        (["--method", "betting"], "--method betting does not work with the log"),
        (["--cost-of-error", "5", "--cost-of-referral", "1"], "--cost-of-error does not work with the log"),
        (
            ["--gates", "g.json", "--question", "urgent"],
            "--gates writes the thresholds of all questions; leave --question out",
        ),
        (["--by", "a", "--by", "b"], "--by does not work with the log"),
    ],
)
def test_options_of_thresholds_that_logs_do_not_take(log: str, options: list[str], message: str) -> None:
    assert message in fail("threshold", log, *options, status=2)


def test_gates_of_another_file_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.csv").write_text("score,outcome\n0.5,1\n0.2,0\n", encoding="utf-8")
    for option in (["--gates", "g.json"], ["--each"]):
        err = fail("threshold", "p.csv", *option)
        assert (
            f"{option[0]} is only for the log of a decision model, which answers named questions; leave {option[0]} out"
            in err
        )


def test_stated_confidences_are_used_on_request(log: str) -> None:
    out, _ = succeed("report", log, "--stated", "--question", "team", "--json", "-", "--quiet")
    question = calibrant.read_decisions(log).stated()["team"]
    assert (
        json.loads(out)["estimates"]["ece"]
        == calibrant.evaluate(question.probs, question.targets).to_dict()["estimates"]["ece"]
    )
    lines = rows()
    del lines[3]["answers"]["team"]["confidence"]
    Path("some.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    err = fail("report", "some.jsonl", "--stated")
    assert (
        "some.jsonl: has none in row 4, but --stated needs a confidence between 0 and 1 in every answer to 'team'"
        in err
    )


@pytest.mark.usefixtures("log")
def test_a_gate_without_a_test_is_open() -> None:
    Path("few.jsonl").write_text("\n".join(map(json.dumps, rows(8))), encoding="utf-8")
    assert "--gate: No question has enough rows for a test" in fail("report", "few.jsonl", "--gate", status=4)
    assert run("report", "few.jsonl")[0] == 0
