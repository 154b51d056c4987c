"""Logs of decision models: the same arrays from every form, and one sentence for every fault."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import calibrant
from calibrant.errors import FileError, InputError
from calibrant.files import decisions
from calibrant.files.decision_columns import add_columns
from calibrant.files.decision_rows import is_decisions
from calibrant.files.decisions import is_decision_log

TEAMS, MOODS = ("billing", "technical", "sales"), ("calm", "annoyed", "angry")
N = 40


class Truth:
    """Random answers: P(yes), probabilities of teams and of moods, and what was right."""

    def __init__(self, n: int = N) -> None:
        rng = np.random.default_rng(7)
        self.urgent, self.team, self.mood = rng.random(n), rng.dirichlet((1, 1, 1), n), rng.dirichlet((1, 1, 1), n)
        self.is_urgent = (rng.random(n) < self.urgent).tolist()
        self.of_team = [int(rng.choice(3, p=p)) for p in self.team]
        self.of_mood = [int(rng.choice(3, p=p)) for p in self.mood]

    def labels(self, i: int) -> dict[str, Any]:
        return {"urgent": self.is_urgent[i], "team": TEAMS[self.of_team[i]], "mood": MOODS[self.of_mood[i]]}


def as_map(truth: Truth, i: int) -> dict[str, Any]:
    """Return answers as Jev writes them."""
    team, mood = truth.team[i].tolist(), truth.mood[i].tolist()
    return {
        "urgent": {"noul": float(truth.urgent[i])},
        "team": {
            "choice": TEAMS[int(np.argmax(team))],
            "probabilities": dict(zip(TEAMS, team, strict=True)),
            "confidence": max(team),
        },
        "mood": {
            "score": float(np.dot(mood, range(3))),
            "probabilities": dict(zip(MOODS[::-1], mood[::-1], strict=True)),
            "legend": {mood: k for k, mood in enumerate(MOODS)},
            "confidence": max(mood),
        },
    }


def as_levels(truth: Truth, i: int) -> dict[str, Any]:
    """Return answers as Clef writes them: the levels of a score are numbers, whose texts are in a legend."""
    answers = as_map(truth, i)
    answers["mood"]["probabilities"] = {str(k): p for k, p in reversed([*enumerate(truth.mood[i].tolist())])}
    answers["mood"]["legend"] = {str(k): text for k, text in enumerate(MOODS)}
    return {name: {"type": {"urgent": "noul", "mood": "score"}.get(name, "choice"), **a} for name, a in answers.items()}


def as_list(truth: Truth, i: int) -> list[dict[str, Any]]:
    """Return answers as OpenAI writes them."""
    team = [{"value": name, "probability": p} for name, p in zip(TEAMS, truth.team[i].tolist(), strict=True)]
    mood = [{"value": k + 1, "label": MOODS[k], "probability": p} for k, p in enumerate(truth.mood[i].tolist())]
    return [
        {"type": "predicate", "name": "urgent", "probability": float(truth.urgent[i])},
        {
            "type": "choice",
            "name": "team",
            "choice": "billing",
            "confidence": 0.5,
            "probabilities": team[i % 3 :] + team[: i % 3],
        },
        {"type": "score", "name": "mood", "score": 1.5, "confidence": 0.5, "probabilities": mood[::-1]},
    ]


def flat(value: dict[str, Any], start: str) -> dict[str, Any]:
    """Return an object as columns with dots in their names."""
    columns: dict[str, Any] = {}
    for key, each in value.items():
        columns |= flat(each, f"{start}.{key}") if isinstance(each, dict) else {f"{start}.{key}": each}
    return columns


def cached(truth: Truth, i: int) -> list[dict[str, Any]]:
    """Return the lines of jev-eval's cache."""
    questions: dict[str, Any] = {
        "urgent": {"type": "noul"},
        "team": {"type": "choice", "criteria": dict.fromkeys(TEAMS, "")},
        "mood": {"type": "score", "criteria": list(MOODS)},
    }
    answers = as_map(truth, i)
    del answers["mood"]["legend"]
    return [
        {"row": i, "id": name, "question": questions[name], "answer": answers[name], "gold": label, "model": "jev"}
        for name, label in truth.labels(i).items()
    ]


FORMS: dict[str, Callable[[Truth, int], list[dict[str, Any]]]] = {
    "map": lambda truth, i: [{"id": i, "answers": as_map(truth, i), "labels": truth.labels(i)}],
    "levels": lambda truth, i: [{"answers": as_levels(truth, i), "gold": truth.labels(i)}],
    "list": lambda truth, i: [{"model": "m", "answers": as_list(truth, i), "expected": truth.labels(i)}],
    "list, levels by number": lambda truth, i: [
        {"answers": as_list(truth, i), "labels": truth.labels(i) | {"mood": truth.of_mood[i] + 1}}
    ],
    "levels by number": lambda truth, i: [
        {"answers": as_levels(truth, i), "labels": truth.labels(i) | {"mood": truth.of_mood[i]}}
    ],
    "wrapped": lambda truth, i: [
        {"request": {"input": "x"}, "response": {"answers": as_list(truth, i)}, "labels": truth.labels(i)}
    ],
    "batch": lambda truth, i: [
        {
            "custom_id": f"r{i}",
            "response": {"id": "x", "body": {"answers": as_list(truth, i)}},
            "labels": truth.labels(i),
        }
    ],
    "result": lambda truth, i: [{"result": {"answers": as_map(truth, i)}, "labels": truth.labels(i)}],
    "flat": lambda truth, i: [flat(as_map(truth, i), "answers") | flat(truth.labels(i), "labels")],
    "cache": cached,
}


def check(log: calibrant.DecisionLog, truth: Truth) -> None:
    """Assert that a log has the very numbers of the truth."""
    assert list(log) == ["urgent", "team", "mood"]
    assert [question.kind for question in log.values()] == ["predicate", "choice", "score"]
    assert log.n == len(truth.urgent)
    for name, probs, targets in (
        ("urgent", truth.urgent, np.array(truth.is_urgent)),
        ("team", truth.team, np.array(truth.of_team)),
        ("mood", truth.mood, np.array(truth.of_mood)),
    ):
        question = log[name]
        order = (
            slice(None)
            if name == "urgent"
            else [question.classes.index(c) for c in {"team": TEAMS}.get(name, question.classes)]
        )
        np.testing.assert_array_equal(question.probs if name == "urgent" else question.probs[:, order], probs)
        places = targets if name != "team" else np.array([question.classes.index(TEAMS[k]) for k in targets])
        np.testing.assert_array_equal(question.targets, places)
        np.testing.assert_array_equal(question.rows, np.arange(log.n))
    assert log["mood"].classes in (MOODS, ("0", "1", "2"))


def lists_in(row: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Return the lists of answers in a row."""
    inside = [each for value in row.values() if isinstance(value, dict) for each in lists_in(value)]
    return inside + ([row["answers"]] if isinstance(row.get("answers"), list) else [])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["objects", "jsonl", "json", "parquet", "arrow"])
def test_every_form_gives_the_same_numbers(form: str, kind: str, tmp_path: Any) -> None:
    truth = Truth()
    rows = [row for i in range(N) for row in FORMS[form](truth, i)]
    assert all(map(is_decisions, rows))
    source: Any = rows
    if kind in ("jsonl", "json"):
        source = tmp_path / f"log.{kind}"
        source.write_text("\n".join(map(json.dumps, rows)) if kind == "jsonl" else json.dumps(rows))
    elif kind != "objects":
        if form in ("cache", "list, levels by number"):
            pytest.skip("columns of a table have one type")
        for answers in [value for row in rows for value in lists_in(row)]:
            for each in [each for answer in answers for each in answer.get("probabilities", ())]:
                each["value"] = str(each["value"])  # one type
        pa, source = pytest.importorskip("pyarrow"), tmp_path / f"log.{kind}"
        table = pa.Table.from_pylist(rows)
        if kind == "parquet":
            pytest.importorskip("pyarrow.parquet").write_table(table, source)
        else:
            pytest.importorskip("pyarrow.feather").write_feather(table, source)
    check(calibrant.read_decisions(source), truth)


@pytest.mark.parametrize("form", FORMS)
def test_answers_are_the_same_from_a_file_and_from_objects(form: str, tmp_path: Any) -> None:
    """Options change their order, levels are missing, labels are of several types."""
    truth = Truth(400)
    rows = [row for i in range(400) for row in FORMS[form](truth, i)]
    for row in rows[150:170]:
        row.get("labels", {}).pop("team", None)
    for row in rows[200:300] if form == "map" else []:
        probs = row["answers"]["team"]["probabilities"]
        row["answers"]["team"]["probabilities"] = dict(reversed(probs.items()))
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    together, alone = calibrant.read_decisions(path), calibrant.read_decisions(rows)
    assert list(together) == list(alone)
    for name, question in together.items():
        expected = vars(alone[name])
        for key, value in vars(question).items():
            np.testing.assert_array_equal(value, expected[key])


def test_objects_of_a_client_are_read() -> None:
    truth = Truth()
    responses = [SimpleNamespace(model_dump=lambda i=i: {"model": "m", "answers": as_list(truth, i)}) for i in range(N)]
    check(calibrant.read_decisions(responses, labels=[truth.labels(i) for i in range(N)]), truth)
    rows = [{"id": i, "response": response} for i, response in enumerate(responses)]
    log = calibrant.read_decisions(rows, labels={str(i): truth.labels(i) for i in range(N)})
    check(log, truth)
    assert log.models == ("m",)
    assert log.ids == tuple(map(str, range(N)))


@pytest.mark.parametrize("form", ["jsonl", "map", "csv"])
def test_labels_come_from_a_file_of_their_own(form: str, tmp_path: Any) -> None:
    truth, path = Truth(), tmp_path / ("labels.csv" if form == "csv" else "labels.jsonl")
    rows = [{"key": i, **({"labels": truth.labels(i)} if form == "map" else truth.labels(i))} for i in range(N)]
    if form == "csv":
        lines = ["key,urgent,team,mood"]
        lines += [f"{row['key']},{str(row['urgent']).lower()},{row['team']},{row['mood']}" for row in rows]
        path.write_text("\n".join(lines[:1] + lines[:0:-1]))
    else:
        path.write_text("\n".join(map(json.dumps, rows[::-1])))
    source = [{"id": i, "answers": as_map(truth, i)} for i in range(N)]
    check(calibrant.read_decisions(source, labels=path, on="key"), truth)
    with pytest.raises(FileError, match="row 1 has no id under 'id'"):
        calibrant.read_decisions(source, labels=path)


def test_a_question_is_evaluated() -> None:
    truth = Truth(400)
    log = calibrant.read_decisions([FORMS["map"](truth, i)[0] for i in range(400)])
    report = calibrant.evaluate(log["team"].probs, log["team"].targets, class_names=log["team"].classes, n_resamples=0)
    assert report.n == 400
    assert report["accuracy"].value == np.mean(truth.team.argmax(axis=1) == truth.of_team)


def test_options_that_differ_keep_the_order_of_each_row() -> None:
    def row(options: dict[str, float], label: str) -> dict[str, Any]:
        return {"answers": {"tool": {"probabilities": options}}, "labels": {"tool": label}}

    log = calibrant.read_decisions(
        [row({"a": 0.7, "b": 0.3}, "a"), row({"c": 0.2, "d": 0.3, "e": 0.5}, "d"), row({"b": 0.4, "a": 0.6}, "b")]
    )
    tool = log["tool"]
    assert tool.classes == ()
    assert tool.probs.tolist() == [[0.7, 0.3, 0.0], [0.2, 0.3, 0.5], [0.4, 0.6, 0.0]]
    assert tool.targets.tolist() == [0, 1, 0]


def test_a_truth_value_and_its_text_are_two_options() -> None:
    def row(label: object) -> dict[str, Any]:
        probs = [{"value": True, "probability": 0.5}, {"value": "true", "probability": 0.3}]
        probs.append({"value": False, "probability": 0.2})
        return {"answers": [{"type": "choice", "name": "q", "probabilities": probs}], "labels": {"q": label}}

    log = calibrant.read_decisions([row(True), row("true"), row(False)])
    assert log["q"].targets.tolist() == [0, 1, 2]
    assert log["q"].classes == (True, "true", False)
    for label in (1, 0, "false", "True"):
        with pytest.raises(InputError, match="which is not an option"):
            calibrant.read_decisions([row(label)])


def test_what_is_not_evaluated_is_counted() -> None:
    answer, refusal = {"noul": 0.5}, {"type": "refusal"}
    rows = [
        {"answers": {"a": answer, "b": refusal}, "labels": {"a": True, "b": False}},
        {"answers": {"a": answer}, "labels": {"a": None, "b": True, "c": True}},
        {"answers": {"a": refusal, "b": answer, "d": answer}, "labels": {"a": True, "b": True}},
        {"error": {"code": 500}, "response": None, "labels": {"a": True}},
        {"answers": {"e": refusal}, "labels": {}},
    ]
    log = calibrant.read_decisions(rows)
    assert log.n == 5
    assert (log["a"].n, log["a"].refusals, log["a"].unanswered, log["a"].unlabelled) == (1, 1, 1, 1)
    assert (log["b"].n, log["b"].refusals, log["b"].unanswered, log["b"].unlabelled) == (1, 1, 1, 0)
    assert dict(log.refusals) == {"a": 1, "b": 1, "e": 1}
    assert (dict(log.unanswered), dict(log.unlabelled)) == ({"c": 1}, {"d": 1})
    with pytest.raises(KeyError, match="no question 'aa'; did you mean 'a'"):
        log["aa"]


def test_stated_confidences_are_held_against_the_probabilities() -> None:
    truth = Truth()
    log = calibrant.read_decisions([FORMS["map"](truth, i)[0] for i in range(N)])
    assert (log["team"].differing, log["urgent"].differing, log["urgent"].confidence) == (0, 0, None)
    log = calibrant.read_decisions([FORMS["list"](truth, i)[0] for i in range(N)])
    expected = np.count_nonzero(np.abs(truth.team.max(axis=1) - 0.5) > 1e-3)
    assert log["team"].differing == expected > 0


def test_unnamed_answers_have_the_name_of_their_place() -> None:
    answers = [{"type": "predicate", "name": None, "probability": 0.2}, {"type": "predicate", "probability": 0.4}]
    log = calibrant.read_decisions([{"answers": answers, "labels": {"question_1": True, "question_2": 0}}])
    assert [(name, log[name].probs[0]) for name in log] == [("question_1", 0.2), ("question_2", 0.4)]


def test_a_text_stands_for_true_if_the_caller_says_so() -> None:
    rows = [{"answers": {"a": {"noul": 0.5}}, "labels": {"a": label}} for label in ("yes", "no", "yes")]
    with pytest.raises(InputError, match=r"not true or false.*pass yes='yes' if this text means true"):
        calibrant.read_decisions(rows)
    assert calibrant.read_decisions(rows, yes="yes")["a"].targets.tolist() == [1, 0, 1]


def answered(answer: Any, label: Any = "x") -> dict[str, Any]:
    return {"answers": {"a": answer}, "labels": {"a": label}}


NESTED: Any = json.loads("[" * 500 + "]" * 500)
FAULTS: dict[str, tuple[list[Any], str]] = {
    "no rows": ([], "the log contains no rows"),
    "no answers": ([{"id": 1}], "got an error in row 1: the row contains no answers"),
    "no probabilities": ([answered({"choice": "x"})], "the answer to 'a' has no probabilities"),
    "nested": ([answered(NESTED)], "the answer to 'a' is not an object"),
    "unknown type": ([answered({"type": "rank", "noul": 0.5})], "unknown type 'rank'"),
    "sum": ([answered({"probabilities": {"x": 0.5, "y": 0.4}})], "add up to 0.9, not 1"),
    "range": ([answered({"noul": 0.5}, True), answered({"noul": 1.5}, True)], "in row 2: .* has the probability 1.5"),
    "NaN": ([answered({"noul": float("nan")}, True)], "has the probability nan"),
    "text": ([answered({"noul": "0.5"}, True)], "a probability that is not a number"),
    "truth value": ([answered({"probabilities": {"x": True, "y": 0.0}})], "a probability that is not a number"),
    "no option": ([answered({"probabilities": {"x": 0.5, "z": 0.5}}, "X")], "label of 'a' is 'X'.*capital letters"),
    "one option": ([answered({"probabilities": {"x": 1.0}})], "fewer than two"),
    "label of a predicate": ([answered({"noul": 0.5}, 0.7)], "label of 'a' is 0.7, not true or false"),
    "a list as label": ([answered({"probabilities": {"x": 0.5, "y": 0.5}}, ["x"])], "which is not an option"),
    "kinds": (
        [answered({"noul": 0.5}, True), answered({"probabilities": {"x": 0.5, "y": 0.5}})],
        "got an error in row 2: the answer to 'a' has type choice, but answers in earlier rows have type predicate",
    ),
    "twice": (
        [{"answers": [{"type": "predicate", "name": "a", "probability": 0.5}] * 2, "labels": {"a": True}}],
        "'a' is answered twice",
    ),
    "option twice": (
        [
            {
                "answers": [{"type": "choice", "name": "a", "probabilities": [{"value": "x", "probability": 0.5}] * 2}],
                "labels": {"a": "x"},
            }
        ],
        "the same option twice",
    ),
    "id twice": (
        [{"id": 1, **answered({"noul": 0.5}, True)}] * 2,
        "got an error in row 2: row 1 already has the id '1'",
    ),
    "two services": (
        [answered({"noul": 0.5}, True), {"answers": [{"type": "predicate", "name": "a", "probability": 0.5}]}],
        "the answers are a list, but the answers in earlier rows are a map",
    ),
    "no labels": ([{"answers": {"a": {"noul": 0.5}}}], "the log contains no labels"),
    "labels of other questions": (
        [{"answers": {"a": {"noul": 0.5}, "b": {"noul": 0.5}}, "labels": {"A": True, "b": None}}],
        "questions have no",
    ),
    "no object": ([3], "an object in row 1, got int"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_named(fault: str) -> None:
    rows, words = FAULTS[fault]
    with pytest.raises(InputError, match=words):
        calibrant.read_decisions(rows)


def test_faults_of_a_file_name_the_file(tmp_path: Any) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, [answered({"noul": 0.5}, True), answered({"noul": 2}, True)])))
    with pytest.raises(FileError, match=r"log\.jsonl: row 2: the answer to 'a' has the probability 2"):
        calibrant.read_decisions(path)
    path.write_text('{"answers": ' + "[" * 100_000)
    with pytest.raises(FileError, match="line 1 is not valid JSON"):
        calibrant.read_decisions(path)
    (tmp_path / "x.npz").write_bytes(b"")
    with pytest.raises(FileError, match="a npz file, which cannot contain a log of decisions"):
        calibrant.read_decisions(tmp_path / "x.npz")


def test_many_questions_are_read() -> None:
    rows = [{"answers": {f"q{k}": {"noul": k / 10_000} for k in range(10_000)}, "labels": {"q5": True, "q7": False}}]
    with pytest.raises(InputError, match="9,998 of 10,000 answered questions have no labels: 'q0', 'q1', 'q2'"):
        calibrant.read_decisions(rows)
    rows[0]["labels"] = {f"q{k}": k % 2 == 0 for k in range(10_000)}
    assert len(calibrant.read_decisions(rows)) == 10_000


def test_other_logs_are_not_mistaken() -> None:
    for row in (
        {"answers": ["a", "b"], "target": 1},
        {"answers": {"text": ["Paris"], "answer_start": [3]}},
        {"question": "q", "answer": "a", "gold": 1, "id": 3},
        {"answers": {"urgent": "yes"}},
    ):
        assert not is_decisions(row)


# ---------------------------------------------------------------- cells without types, and odd values


def test_cells_of_a_csv_stand_for_what_the_answers_need(tmp_path: Any) -> None:
    """An empty cell is missing, and a text may be a truth value, a level's text or its number."""
    levels = [{"value": k, "label": str(k + 1), "probability": p} for k, p in enumerate((0.2, 0.5, 0.3))]
    answers = [
        {"type": "predicate", "name": "u", "probability": 0.7},
        {"type": "choice", "name": "t", "probabilities": [{"value": v, "probability": 0.5} for v in ("true", "1")]},
        {"type": "choice", "name": "b", "probabilities": [{"value": v, "probability": 0.5} for v in (True, False)]},
        {"type": "score", "name": "s", "probabilities": levels},
    ]
    rows = [{"id": f"0{i}", "answers": answers} for i in range(5)]
    path = tmp_path / "labels.csv"
    path.write_text("id,u,t,b,s\n00,true,true,true,1\n01,False,1,false,3\n02,,,,\n03,1,true,True,2\n09,0,1,false,1\n")
    log = calibrant.read_decisions(rows, labels=path)
    assert log["u"].targets.tolist() == [1, 0, 1]
    assert log["t"].targets.tolist() == [0, 1, 0]
    assert log["b"].targets.tolist() == [0, 1, 0]
    assert log["s"].targets.tolist() == [0, 2, 1]
    assert [log[name].unlabelled for name in log] == [2, 2, 2, 2]
    assert log.unmatched == 1
    path.write_text("id,u\n00,yes\n01,\n02,no\n")
    only = [{**row, "answers": answers[:1]} for row in rows]
    assert calibrant.read_decisions(only, labels=path, yes="yes")["u"].targets.tolist() == [1, 0]
    flat = tmp_path / "log.csv"
    flat.write_text("answers.u.noul,labels.u\n" + "0,false\n" * 5 + "0.5,true\n,true\n")
    log = calibrant.read_decisions(flat)
    assert (log["u"].probs.tolist(), log["u"].unanswered) == ([0, 0, 0, 0, 0, 0.5], 1)


def test_text_tables_have_any_separator_and_cells_of_several_lines(tmp_path: Any) -> None:
    for name, between in (("log.csv", ";"), ("log.tsv", "\t"), ("other.csv", ",")):
        path = tmp_path / name
        lines = [["note", "answers.u.noul", "labels.u"], ['"two\nlines"', "0.25", "true"], ["b", "0.5", "FALSE"]]
        path.write_text("\n".join(between.join(line) for line in lines))
        log = calibrant.read_decisions(path)
        assert (log["u"].probs.tolist(), log["u"].targets.tolist()) == ([0.25, 0.5], [1, 0])
        assert is_decision_log(str(path))
    path.write_text("answers.u.noul,labels.u\n0.5,true\n0.5,true,3\n")
    with pytest.raises(FileError, match="row 2 has 3 cells, and the header has 2"):
        calibrant.read_decisions(path)


def test_labels_may_be_in_several_files(tmp_path: Any) -> None:
    rows = [{"id": i, "answers": {"u": {"noul": 0.5}}} for i in range(4)]
    for k in range(2):
        labels = [{"id": i, "u": True} for i in (2 * k, 2 * k + 1)]
        (tmp_path / f"L{k}.jsonl").write_text("\n".join(map(json.dumps, labels)))
    assert calibrant.read_decisions(rows, labels=tmp_path / "L?.jsonl")["u"].n == 4


def test_a_predicate_with_probabilities_is_the_event() -> None:
    answer = {"type": "predicate", "probability": 0.9, "probabilities": {"true": 0.9, "false": 0.1}, "confidence": 0.5}
    for label in (True, 1):
        log = calibrant.read_decisions([answered(answer, label)] * 64)
        assert (log["a"].kind, log["a"].probs.shape, log["a"].differing) == ("predicate", (64,), 64)
    both = {"noul": None, "probability": 0.5}
    assert calibrant.read_decisions([answered(both, True)])["a"].probs.tolist() == [0.5]
    with pytest.raises(InputError, match="'a' has no probabilities"):
        calibrant.read_decisions([answered({"type": "predicate", "probabilities": {"true": 1.0, "false": 0.0}}, True)])


def test_numbers_of_numpy_and_missing_labels_of_frames_are_read() -> None:
    rows = [{"id": np.int64(i), "answers": {"u": {"noul": np.float32(0.5)}}} for i in range(3)]
    log = calibrant.read_decisions(rows, labels={0: {"u": np.True_}, 1: {"u": float("nan")}, 2: {"u": np.int64(0)}})
    assert (log["u"].targets.tolist(), log["u"].unlabelled) == ([1, 0], 1)


def test_the_id_of_a_batch_is_the_callers() -> None:
    rows = [{"id": "batch_1", "custom_id": "t", "response": {"body": {"answers": {"u": {"noul": 0.5}}}}}]
    assert calibrant.read_decisions(rows, labels={"t": {"u": True}}).ids == ("t",)


ODD: dict[str, tuple[Any, dict[str, Any], str]] = {
    "nothing": (None, {}, "a file or a list of rows, got NoneType"),
    "a number": (5, {}, "a file or a list of rows, got int"),
    "only refusals": ([answered({"type": "refusal"}, True)], {}, "no question has both an answer and a label"),
    "huge": ([answered({"noul": 10**400}, True)], {}, "a probability that is not a number"),
    "type": ([answered({"type": ["x"], "noul": 0.5}, True)], {}, "unknown type"),
    "legend": (
        [answered({"score": 1, "probabilities": {"0": 0.5, "1": 0.5}, "legend": {"0": "low", "1": "low"}}, "low")],
        {},
        "a legend that gives two levels the same number or text",
    ),
    "columns": ([{"answers.q.choice": "a", "answers.q.choice.x": 0.5, "labels.q": "a"}], {}, "'q' is not an object"),
    "labels of one kind": (
        [answered({"noul": 0.5}, True)],
        {"labels": [True]},
        "the labels are of type bool, not a map",
    ),
    "labels": ([answered({"noul": 0.5}, True)], {"labels": 5}, "a mapping or a list, got int"),
    "labels of a cache": (
        [{"row": 0, "id": "u", "question": {}, "answer": {"noul": 0.5}, "gold": True}],
        {"labels": {"0": {"u": False}}},
        "labels were passed, but the rows of the log already contain the right answers",
    ),
}


@pytest.mark.parametrize("odd", ODD)
def test_odd_values_are_named(odd: str) -> None:
    source, how, words = ODD[odd]
    with pytest.raises(InputError, match=words):
        calibrant.read_decisions(source, **how)
    for legend in ({"0": ["low"]}, ["low"], 3) if odd == "legend" else ():  # of other types, a legend names nothing
        rows = [answered({"score": 1, "probabilities": {"0": 0.5, "1": 0.5}, "legend": legend}, 1)]
        assert calibrant.read_decisions(rows)["a"].targets.tolist() == [1]


def test_a_log_is_recognised_after_requests_that_failed(tmp_path: Any) -> None:
    path = tmp_path / "log.jsonl"
    rows = [{"custom_id": "a", "response": None, "error": {"code": 500}}] * 3 + [answered({"noul": 0.5}, True)]
    path.write_text("\n".join(json.dumps({**row, "custom_id": str(i)}) for i, row in enumerate(rows)))
    assert is_decision_log(str(path))
    assert calibrant.read_decisions(path)["a"].n == 1


# ---------------------------------------------------------------- many rows at a time


def odd_row(rng: np.random.Generator, i: int, oddities: dict[str, float]) -> dict[str, Any]:
    """Return a row in the usual form, and with given probabilities in unusual ones."""
    probs = rng.dirichlet((1, 1, 1)).round(3).tolist()
    probs[0] = round(1 - probs[1] - probs[2], 3)
    names = ["a", "b", "true"]
    answers: dict[str, Any] = {
        "urgent": {"noul": round(float(rng.random()), 4)},
        "team": {"probabilities": dict(zip(names, probs, strict=True)), "confidence": max(probs)},
        "mood": {
            "type": "score",
            "probabilities": dict(zip("lmh", probs, strict=True)),
            "legend": {"l": 0, "m": 1, "h": 2},
        },
    }
    labels: dict[str, Any] = {
        "urgent": bool(rng.random() < 0.5),
        "team": names[rng.integers(3)],
        "mood": int(rng.integers(3)),
    }
    row: dict[str, Any] = {"id": f"r{i}", "model": "m-1", "answers": answers, "labels": labels}
    changes: dict[str, Callable[[], object]] = {
        "refused": lambda: answers.update(mood={"type": "refusal"}),
        "unlabelled": lambda: labels.pop("team"),
        "null label": lambda: labels.update(team=None),
        "no labels": lambda: row.update(labels=None),
        "unanswered": lambda: answers.pop("urgent"),
        "null answer": lambda: answers.update(urgent=None),
        "other question": lambda: labels.update(other="x"),
        "another answer": lambda: answers.update(late={"noul": 0.25}) or labels.update(late=True),
        "order of keys": lambda: answers.update(
            team={"probabilities": dict(list(zip(names, probs, strict=True))[::-1])}
        ),
        "whole numbers": lambda: answers.update(urgent={"noul": int(rng.integers(2))}),
        "text of a level": lambda: labels.update(mood="m"),
        "another model": lambda: row.update(model="m-2"),
        "no model": lambda: row.pop("model"),
        "an option less": lambda: (
            answers.update(team={"probabilities": {"a": 0.25, "b": 0.75}}) or labels.update(team="a")
        ),
        "another legend": lambda: answers["mood"].update(legend={"l": 2, "m": 1, "h": 0}),
        "of a list": lambda: answers.update(
            team={"probabilities": [{"value": x, "probability": p} for x, p in zip(names, probs, strict=True)]}
        ),
        "no confidence": lambda: answers["team"].pop("confidence"),
        "label of a number": lambda: labels.update(urgent=1),
        "a failed request": lambda: (row.pop("answers"), row.update(error="overloaded")),
        "other columns": lambda: row.update(meta={"lang": "de"}, text="2026-01-01"),
    }
    for what, share in oddities.items():
        if rng.random() < share:
            changes[what]()
    return row


ODDITIES = (
    *("refused", "unlabelled", "null label", "no labels", "unanswered", "null answer", "other question"),
    *("another answer", "order of keys", "whole numbers", "text of a level", "another model", "no model"),
    *("an option less", "another legend", "of a list", "no confidence", "label of a number", "a failed request"),
    "other columns",
)


def state(log: calibrant.DecisionLog) -> dict[str, Any]:
    """Return all of a log, with bits of its numbers."""
    questions = {
        name: {key: value.tobytes() if isinstance(value, np.ndarray) else value for key, value in vars(each).items()}
        for name, each in log.items()
    }
    return {**vars(log), "questions": questions}


@pytest.mark.parametrize("share", [0.004, 0.3])
@pytest.mark.parametrize("oddity", [None, "several", *ODDITIES])
def test_rows_that_are_added_together_are_those_that_are_added_alone(
    oddity: str | None, share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, added = np.random.default_rng([sum(map(ord, oddity or "")), 3]), list[bool]()

    def add(*args: Any) -> bool:
        added.append(add_columns(*args))
        return added[-1]

    names = rng.choice(ODDITIES, 4, replace=False).tolist() if oddity == "several" else [oddity] if oddity else []
    rows = [odd_row(rng, i, dict.fromkeys(names, share)) for i in range(600)]
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    monkeypatch.setattr(decisions, "_BLOCK", 40_000)
    monkeypatch.setattr(decisions, "add_columns", add)
    try:
        expected = state(calibrant.read_decisions(rows))
    except InputError as error:
        with pytest.raises(FileError, match=re.escape(error.got.split(";")[0])):
            calibrant.read_decisions(path)
        return
    assert state(calibrant.read_decisions(path)) == expected
    assert any(added) or share > 0.1
    assert all(added) or oddity is not None


def test_a_line_that_is_not_json_is_named_among_rows_that_are_added_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [json.dumps(odd_row(np.random.default_rng(i), i, {})) for i in range(1000)]
    monkeypatch.setattr(decisions, "_BLOCK", 40_000)
    path = tmp_path / "log.jsonl"
    for line, message in (("{", "line 701 is not valid JSON"), (rows[3], "row 701: row 4 already has the id 'r3'")):
        path.write_text("\n".join([*rows[:700], line, *rows[701:]]), encoding="utf-8")
        with pytest.raises(FileError, match=message):
            calibrant.read_decisions(path)


# ---------------------------------------------------------------- tables


def test_answers_as_json_in_a_table_are_those_of_json_lines(tmp_path: Path) -> None:
    rows = [odd_row(np.random.default_rng(i), i, {"refused": 0.1}) for i in range(100)]
    expected = state(calibrant.read_decisions(rows))
    texts = [
        {key: value if isinstance(value, str) else json.dumps(value) for key, value in row.items()} for row in rows
    ]
    with (tmp_path / "log.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, texts[0])
        writer.writeheader()
        writer.writerows(texts)
    pq.write_table(pa.Table.from_pylist(texts), tmp_path / "log.parquet")
    for name in ("log.csv", "log.parquet"):
        assert is_decision_log(str(tmp_path / name))
        assert state(calibrant.read_decisions(tmp_path / name)) == expected


def test_maps_of_arrow_are_objects(tmp_path: Path) -> None:
    rows = [{"urgent": {"noul": 0.25 + i / 200}} for i in range(100)]
    labels = [{"urgent": bool(i % 3)} for i in range(100)]
    of_answers = pa.map_(pa.string(), pa.struct([("noul", pa.float64())]))
    columns = {
        "answers": pa.array([list(row.items()) for row in rows], of_answers),
        "labels": pa.array([list(row.items()) for row in labels], pa.map_(pa.string(), pa.bool_())),
    }
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")
    both = [{"answers": row, "labels": label} for row, label in zip(rows, labels, strict=True)]
    assert state(calibrant.read_decisions(tmp_path / "log.parquet")) == state(calibrant.read_decisions(both))


def test_a_fault_in_the_second_file_has_its_row_there(tmp_path: Path) -> None:
    good = [odd_row(np.random.default_rng(i), i, {}) for i in range(90)]
    bad = [odd_row(np.random.default_rng(i), i, {}) for i in range(90, 180)]
    bad[40]["answers"]["urgent"]["noul"] = 1.5
    for name, rows in (("a.jsonl", good), ("b.jsonl", bad)):
        (tmp_path / name).write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    paths = [str(tmp_path / name) for name in ("a.jsonl", "b.jsonl")]
    with pytest.raises(FileError, match=r"b\.jsonl: row 41: the answer to 'urgent' has the probability 1\.5"):
        decisions.read_files(paths, labels=None, on="id", yes=None, by=None)


def test_options_that_differ_in_every_row_take_no_table_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table would have a column for every option: 20 rows of 16 MB would take gigabytes."""
    tables: list[Any] = []

    def parsed(lines: Any) -> Any:
        tables.append(real(lines))
        return tables[-1]

    real = decisions._parsed
    monkeypatch.setattr(decisions, "_parsed", parsed)
    options = [[f"document {i}-{k}" for k in range(4)] for i in range(3000)]
    rows = [
        {"answers": {"best": {"probabilities": dict.fromkeys(names, 0.25)}}, "labels": {"best": names[0]}}
        for names in options
    ]
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert state(calibrant.read_decisions(path)) == state(calibrant.read_decisions(rows))
    rows[:2500] = [rows[0]] * 2500  # options that differ only after those that are looked at
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert state(calibrant.read_decisions(path)) == state(calibrant.read_decisions(rows))
    assert tables == [None, None]
