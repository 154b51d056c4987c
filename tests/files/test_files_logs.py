"""Evaluation logs of language models: what the harnesses wrote and reported is what is read and judged.

The logs in `golden/logs` were written by lm-evaluation-harness 0.4.13 and inspect 0.3.285 themselves, and the scores
there are what they reported (`golden/record_logs.py`). The other logs are written here in the same formats.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import re
import shlex
import shutil
import sys
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant import files
from calibrant.errors import CalibrantError, FileError
from calibrant.files import FilePredictions, FileSketch, Judging, Options, column_names, engine, logs
from calibrant.files.log_rows import objects
from tests import in_process
from tests.reading_of import read_predictions, refuse

pa = pytest.importorskip("pyarrow", reason="the report extra is not installed")
pytest.importorskip("duckdb", reason="the report extra is not installed")

LOGS = Path(__file__).resolve().parents[1] / "golden" / "logs"
HARNESS = json.loads((LOGS / "scores_harness.json").read_text())["results"]
INSPECT = json.loads((LOGS / "scores_inspect.json").read_text())


def log(task: str) -> str:
    (path,) = LOGS.glob(f"samples_{task}_*.jsonl")
    return str(path)


def lines(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def write(path: Path, rows: list[Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def report_of(read: FilePredictions) -> calibrant.Report:
    return calibrant.evaluate(
        read.probs, read.targets, clusters=read.clusters, groups=read.groups, measures=("brier", "accuracy")
    )


run = partial(in_process.run, columns=300)
succeed = partial(in_process.succeed, columns=300)
fail = partial(in_process.fail, columns=300)


# ---------------------------------------------------------------- lm-evaluation-harness


@pytest.mark.parametrize(
    ("task", "metric", "probs"),
    [
        ("four", "acc", None),
        ("four", "acc_norm", "acc_norm_probs"),
        ("four", "acc_bytes", "acc_bytes_probs"),
        ("ragged", "acc", "probs"),
        ("ragged", "acc_norm", "acc_norm_probs"),
        ("tail", "acc", None),
    ],
)
def test_the_accuracy_is_the_harness_own(task, metric, probs):
    read = read_predictions([log(task)], probs=probs)
    assert len(read.probs) == HARNESS[task]["sample_len"]
    assert report_of(read)["accuracy"].value == pytest.approx(HARNESS[task][f"{metric},none"], abs=1e-15)


def test_the_brier_score_is_the_harness_own():
    read = read_predictions([log("four")])
    # Both sum 12 * 4 squares of numbers up to 1 in 64 bits.
    assert report_of(read)["brier"].value == pytest.approx(HARNESS["four"]["brier_score,none"], abs=1e-14)


def test_choices_that_a_question_lacks_have_probability_zero():
    samples, read = lines(log("ragged")), read_predictions([log("ragged")])
    assert read.probs.shape == (10, 5)
    scores = []
    for row, sample in zip(read.probs, samples, strict=True):
        values = [math.exp(float(value)) for value, _ in sample["filtered_resps"]]
        expected = [value / sum(values) for value in values]  # the harness subtracts the largest value first
        assert row[: len(values)] == pytest.approx(expected, rel=1e-12)
        assert not row[len(values) :].any()
        scores.append(sum((p - (k == int(sample["target"]))) ** 2 for k, p in enumerate(expected)))
    assert report_of(read)["brier"].value == pytest.approx(np.mean(scores), rel=1e-12)


@pytest.mark.parametrize(
    ("probs", "length"), [("acc_norm_probs", len), ("acc_bytes_probs", lambda text: len(text.encode()))]
)
def test_log_likelihoods_per_length_of_the_choice(probs, length):
    read = read_predictions([log("four")], probs=probs)
    for row, sample in zip(read.probs, lines(log("four")), strict=True):
        values = [float(value) for value, _ in sample["filtered_resps"]]
        lengths = [length(text) for text in sample["doc"]["choices"]]
        powers = [math.exp(value / each) for value, each in zip(values, lengths, strict=True)]
        assert row == pytest.approx([power / sum(powers) for power in powers], rel=1e-12)


def test_tasks_of_different_widths_are_read_together_and_alone():
    alone = read_predictions([log("four")]).probs
    together = read_predictions([log("tail"), log("four"), log("ragged")], by=["task"])
    assert together.probs.shape == (26, 5)
    assert together.probs[4:16, :4].tolist() == alone.tolist()
    assert read_predictions([log("four")]).probs.tolist() == alone.tolist()  # not the wider copy
    assert set(together.groups) == {"tail", "four", "ragged"}
    groups = {group.name: group.report for group in report_of(together).groups}
    for task in ("tail", "four", "ragged"):
        assert groups[task]["accuracy"].value == pytest.approx(HARNESS[task]["acc,none"], abs=1e-15)


def test_the_protocol_says_how_the_log_was_made(tmp_path):
    read = read_predictions([log("four")])
    assert read.protocol == (
        "lm-evaluation-harness 0.4.13, task four (version 1.0), 0-shot, model hashed; "
        "softmax of the log-likelihoods of the choices (like acc)"
    )
    assert read.described() == "probs: probs (lists of 4), targets: target"
    alone = shutil.copy(log("four"), tmp_path / "renamed.jsonl")  # no results in its folder, no task in its name
    assert read_predictions([alone]).protocol.startswith("lm-evaluation-harness, task renamed; softmax")
    several = read_predictions([log("four"), log("tail")], probs="probs").protocol
    assert several.startswith(
        "lm-evaluation-harness 0.4.13, tasks four (version 1.0), tail (version 1.0), 0-shot, model"
    )
    assert read_predictions([log("four")], probs="acc_norm_probs").protocol.endswith("per character (like acc_norm)")


def test_questions_are_clusters_only_if_they_are_repeated(tmp_path):
    read = read_predictions([log("four")])
    assert read.clusters is None
    other = shutil.copy(log("four"), tmp_path / Path(log("four")).name)  # another run of the same task
    read = read_predictions([log("four"), other])
    assert len(read.probs) == 24
    assert len(set(read.clusters)) == 12
    assert read.sources["clusters"] == "question"
    assert read_predictions([log("four"), log("ragged")]).clusters is None  # question 0 of two tasks
    named = read_predictions([log("four"), other], clusters=["doc_id", "task"])
    assert named.sources["clusters"] == "doc_id, task (2 columns)"
    halves = read_predictions([log("four"), other], where="doc.subject = 'law' AND question = 'four/0'")
    assert halves.clusters is not None
    once = read_predictions([log("four")], where="doc.subject = 'law'")
    assert once.clusters is None


def test_what_names_a_group_is_a_column():
    read = read_predictions([log("four")], by=["doc.subject"], where="doc_id > 1")
    assert len(read.probs) == 10
    assert set(read.groups) == {"law", "art"}
    assert read.locate(0)[1] == 3  # the third line
    columns = column_names(log("four"))
    assert {"question", "task", "doc.subject", "acc", "probs", "acc_norm_probs", "target", "correct"} <= set(columns)


def test_the_chosen_answer_by_itself():
    read = read_predictions([log("ragged")], score="chosen_probability")
    choices = read_predictions([log("ragged")])
    assert read.probs.tolist() == choices.probs.max(axis=1).tolist()
    assert read.targets.tolist() == [sample["acc"] for sample in lines(log("ragged"))]


@pytest.mark.parametrize("form", ["gz", "array", "array in jsonl", "standard input", "old"])
def test_other_forms_of_the_same_log(tmp_path, monkeypatch, form):
    """The harness wrote an array up to version 0.4.2, without filters, metrics and hashes, and numbers as numbers."""
    samples, expected = lines(log("four")), read_predictions([log("four")]).probs.tolist()
    path = tmp_path / {"gz": "a.jsonl.gz", "array": "a.json", "array in jsonl": "a.jsonl"}.get(form, "a.jsonl")
    if form == "gz":
        path.write_bytes(gzip.compress(Path(log("four")).read_bytes()))
    elif form.startswith("array"):
        path.write_text(json.dumps(samples, indent=2))
    elif form == "standard input":
        stream = io.TextIOWrapper(io.BytesIO(Path(log("four")).read_bytes()))
        monkeypatch.setattr(sys, "stdin", stream)
        for _ in range(2):
            assert read_predictions(["-"]).probs.tolist() == expected
        return
    else:
        for sample in samples:
            for name in ("filter", "metrics", "doc_hash", "prompt_hash", "target_hash", "brier_score"):
                del sample[name]
            sample["filtered_resps"] = [[float(value), greedy == "True"] for value, greedy in sample["filtered_resps"]]
            sample["arguments"] = [list(pair.values()) for pair in sample["arguments"].values()]
        write(path, samples)
    read = read_predictions([str(path)])
    assert read.probs.tolist() == expected
    assert read.targets.tolist() == read_predictions([log("four")]).targets.tolist()


def test_a_file_that_changes_is_read_again(tmp_path):
    path = tmp_path / "answers.jsonl"
    write(path, lines(log("four")))
    assert read_predictions([str(path)]).probs.shape == (12, 4)
    write(path, [{"score": 0.5, "outcome": 1}] * 3)
    read = read_predictions([str(path)])
    assert read.probs.tolist() == [0.5] * 3
    assert not read.protocol
    write(path, lines(log("ragged")))
    assert read_predictions([str(path)]).probs.shape == (10, 5)


def test_many_rows_become_a_sketch():
    read = files.read_predictions([log("four")], Options(), Judging(), keep=False)
    assert isinstance(read, FileSketch)
    assert read.protocol.startswith("lm-evaluation-harness 0.4.13")
    found = calibrant.evaluate(read.sketch, measures=("brier", "accuracy"))
    assert found["brier"].value == pytest.approx(HARNESS["four"]["brier_score,none"], abs=1e-12)
    assert found["accuracy"].value == pytest.approx(HARNESS["four"]["acc,none"], abs=1e-15)


def sample(
    likelihoods: list[float], target: Any, *, texts: tuple[str, ...] | None = None, **metrics: Any
) -> dict[str, Any]:
    """Return a sample in the format of the harness: its evaluator.py and its loggers/evaluation_tracker.py."""
    texts = texts or tuple("abcdefgh"[: len(likelihoods)])
    arguments = {f"gen_args_{k}": {"arg_0": "Q", "arg_1": f" {text}"} for k, text in enumerate(texts)}
    pairs = [[str(value), "False"] for value in likelihoods]
    logged = {"doc_id": 0, "doc": {}, "target": str(target), "arguments": arguments, "resps": [[p] for p in pairs]}
    return {**logged, "filtered_resps": pairs, "filter": "none", "metrics": list(metrics), **metrics}


@pytest.mark.parametrize(
    ("row", "right"),
    [
        (sample([-1.0, -2.0], 1), 1),
        (sample([-1.0, -2.0, -3.0], "c"), 2),  # the choice itself
        (sample([-1.0, -2.0, -3.0], "2", texts=("1", "2", "3"), acc=0.0, likelihood=[1, "[-1 -2 -3]"]), 1),
        (sample([-1.0, -2.0, -3.0], "2", texts=("2", "1", "3"), acc=1.0), 0),  # by its text: acc says so
        (sample([-1.0, -2.0, -3.0], "2", texts=("2", "1", "3"), acc=0.0), 2),  # by its place
        (sample([-1.0, -2.0], "the tail", acc=0.0), 1),  # there is no third choice
        (sample([-1.0, -2.0, -3.0], "the tail", acc=1.0), 0),
    ],
)
def test_the_right_choice(tmp_path, row, right):
    assert read_predictions([write(tmp_path / "log.jsonl", [row] * 2)]).targets.tolist() == [right] * 2


def test_unconditional_log_likelihoods_are_no_choices(tmp_path):
    row = sample([-1.0, -2.0, -0.1, -0.1], 1, acc=0.0, acc_mutual_info=0.0)
    read = read_predictions([write(tmp_path / "log.jsonl", [row])])
    assert read.probs.shape == (1, 2)


def test_a_choice_that_is_impossible_has_probability_zero(tmp_path):
    read = read_predictions([write(tmp_path / "log.jsonl", [sample([-math.inf, -2.0], 1, acc=1.0)])])
    assert read.probs.tolist() == [[0.0, 1.0]]


JUDGE = r"evaluate only the chosen answer, with --score chosen_probability --outcome correct$"


@pytest.mark.parametrize(
    ("row", "options", "match"),
    [
        (
            sample([-1, -2, -3], "[0, 2]", acc=1.0),
            {},
            "row 1, column 'target': several choices are marked as right; " + JUDGE,
        ),
        (
            sample([-1, -2, -3], "?", acc=0.0),
            {},
            r"the target '\?' does not say which of the 3 choices is right; " + JUDGE,
        ),
        (sample([-1, -2, -3], "?", f1=[-100, 0]), {}, "the target is not among the 3 choices; " + JUDGE),
        (
            sample([-1, -2], 0, acc=0.0),
            {},
            "acc is 0, but the log-likelihoods and the target contradict this value; name",
        ),
        (
            sample([-1, -2], 0, acc=1.0, acc_norm=0.0),
            {"probs": "acc_norm_probs"},
            "acc_norm is 0, but the texts of the choices contradict this value",
        ),
        (
            sample([-1, -2], 0, texts=("", "b"), acc=1.0),
            {"probs": "acc_norm_probs"},
            "a choice is empty; leave --probs out",
        ),
        (
            sample([-1, -2], "t", texts=("t", "t"), acc=1.0),
            {"probs": "acc_norm_probs"},
            "the log does not contain the texts of the choices",
        ),
        (sample([-1, -2], "?"), {"score": "chosen_probability"}, "column 'correct': the target .*--outcome COLUMN$"),
        (sample([math.nan, -2], 0), {}, "line 1 has a log-likelihood that is not a number; run the evaluation again"),
        (sample([-math.inf, -math.inf], 0), {}, "line 1 has a log-likelihood that is not a number"),
        ({**sample([-1, -2], 0), "filtered_resps": {"a": 1}}, {}, "no choices with log-likelihoods"),
        ({**sample([-1], 0), "filtered_resps": [["-1.5", "True"]]}, {}, "no choices with log-likelihoods"),
    ],
)
def test_what_a_log_does_not_say_is_an_error_only_where_it_is_read(tmp_path, row, options, match):
    path = write(tmp_path / "log.jsonl", [row])
    refuse([path], match, **options)


def test_several_right_choices_can_be_judged_by_the_chosen_one(tmp_path):
    path = write(tmp_path / "log.jsonl", [sample([-1, -2, -3], "[0, 2]", acc=1.0), sample([-1, -2, -3], "[1, 2]")])
    read = read_predictions([path], score="chosen_probability")
    assert read.targets.tolist() == [1, 0]


def test_generated_answers_need_a_stated_confidence(tmp_path):
    refuse([log("sums")], r"holds no probabilities: the log has no choices .*--score COLUMN --percent; the")
    rows = lines(log("sums"))
    for row, stated in zip(rows, ("95%", "80%", "60%"), strict=True):
        row["doc"]["stated"] = stated
    read = read_predictions([write(tmp_path / "log.jsonl", rows)], score="doc.stated", percent=True)
    assert read.probs.tolist() == [0.95, 0.8, 0.6]
    assert read.targets.mean() == pytest.approx(HARNESS["sums"]["exact_match,none"])
    assert "name a column of stated confidences with --score COLUMN --percent" in fail("report", log("sums"))


def test_filters_are_chosen(tmp_path):
    rows = [{**row, "filter": name} for name in ("none", "strict") for row in lines(log("four"))]
    path = write(tmp_path / "log.jsonl", rows)
    refuse(
        [path],
        (
            r"has one row for each of 2 filters: none, strict; choose one filter: --where \"filter = "
            "'none'\\\""
        ),
    )
    refuse([path], "has one row for each of 2 filters", where="doc_id > 3")
    read = read_predictions([path], where="filter = 'strict'")
    assert (len(read.probs), read.clusters) == (12, None)
    strict = write(tmp_path / "strict.jsonl", rows[12:])  # another task, with another filter
    assert len(read_predictions([strict, log("four")]).probs) == 24


def test_probabilities_that_follow_from_the_log_are_no_per_cents():
    refuse(
        [log("four")],
        "--percent is given, but probs is a probability computed from log-likelihoods; leave",
        percent=True,
    )


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda text: text + "{", r"line 13 is not valid JSON"),
        (lambda text: text + "7\n", r"line 13 holds no object"),
        (
            lambda text: text + '{"doc_id": 1}\n',
            r"line 13 lacks 'doc', 'filtered_resps', 'resps', 'target', which lm-eval",
        ),
        (
            lambda text: text + "[" * 100_000 + "\n",
            "line 13 (is not valid JSON|holds no object)|does not contain a valid array",
        ),
        (lambda text: text.replace('"acc": ', '"x": 1e999, "acc": '), "row 1 holds a number that is not finite"),
        (lambda text: text.replace('"arg_1"', '"arg_9"', 1), None),
    ],
)
def test_a_damaged_log(tmp_path, change, match):
    path = tmp_path / "log.jsonl"
    path.write_text(change(Path(log("four")).read_text()))
    if match is None:
        assert len(read_predictions([str(path)]).probs) == 12
        return
    for _ in range(2):
        refuse([str(path)], match)
    other = files.read_predictions([str(path), log("four")], Options(), keep=True, keep_going=True)
    assert other.paths == (log("four"),)
    assert [omitted.path for omitted in other.omitted] == [str(path)]


# ---------------------------------------------------------------- choices without a harness


def test_plain_json_lines_of_choices(tmp_path):
    rows = [
        {"question_id": "q1", "choices": ["Rome", "Oslo"], "logprobs": [-0.5, -2.0], "target": 0, "area": "south"},
        {"question_id": "q2", "choices": ["Rome", "Oslo", "Lima"], "logprobs": [-1, -2.0, -0.25], "target": "Oslo"},
    ]
    path = write(tmp_path / "answers.jsonl", rows)
    read = read_predictions([path])
    odds = math.exp(1.5)
    assert read.probs[0].tolist() == pytest.approx([odds / (1 + odds), 1 / (1 + odds), 0], rel=1e-15)
    assert read.targets.tolist() == [0, 1]
    assert read.protocol == "choices with log-probabilities; softmax of the log-likelihoods of the choices (like acc)"
    assert read.clusters is None
    assert len(set(read_predictions([write(tmp_path / "twice.jsonl", rows * 2)]).clusters)) == 2
    assert len(read_predictions([path], where="area = 'south'").probs) == 1
    for row in rows:
        del row["question_id"]
    assert read_predictions([write(tmp_path / "nameless.jsonl", rows * 2)]).clusters is None


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"choices": ["Rome"]}, r"line 2: 'choices' is not a list of at least two texts; write \{\"question_id\""),
        ({"logprobs": [-1.0]}, r"line 2: 'logprobs' is not a list of 2 numbers"),
        ({"logprobs": [-1.0, None]}, r"line 2: 'logprobs' is not a list of 2 numbers"),
        ({"target": 2}, r"line 2: 'target' is 2, not one of the 2 choices"),
        ({"target": True}, r"line 2: 'target' is True, not one of"),
        ({"target": "Lima"}, r"line 2: 'target' is 'Lima', not one of"),
    ],
)
def test_plain_json_lines_of_another_shape(tmp_path, change, match):
    row = {"choices": ["Rome", "Oslo"], "logprobs": [-0.5, -2.0], "target": 0}
    refuse([write(tmp_path / "answers.jsonl", [row, {**row, **change}])], match)


def test_files_that_only_resemble_logs_are_read_as_before(tmp_path):
    rows = [{"confidence": 0.5, "correct": 1, "logprobs": {"A": -1.0}, "choices": ["A"]}] * 2
    read = read_predictions([write(tmp_path / "answers.jsonl", rows)])
    assert read.probs.tolist() == [0.5, 0.5]
    assert not read.protocol


# ---------------------------------------------------------------- inspect


def test_the_accuracy_is_inspects_own():
    read = read_predictions([str(LOGS / "capitals.eval")])
    assert read.targets.mean() == INSPECT["capitals"]["choice"]
    assert sorted(read.probs) == pytest.approx(sorted([0.7 / 0.95, 0.6 / 0.95, 0.5 / 0.95, 0.9 / 0.95]), rel=1e-12)
    assert read.sources["clusters"] == "question"
    assert sorted(read.clusters) == ["capitals/fr"] * 2 + ["capitals/pe/1"] * 2
    assert read.protocol == (
        "inspect 0.3.285, task capitals (version 3), 2 epochs, scored by choice, model mockllm/model"
    )
    one = read_predictions([str(LOGS / "capitals.eval")], where="epoch = 2", by=["metadata.continent"])
    assert one.clusters is None
    assert list(one.groups) == ["Europe", "America"]


def test_stated_confidences():
    read = read_predictions([str(LOGS / "stated.eval")], percent=True)
    assert read.probs.tolist() == [0.95, 0.85, 0.6, 1.0]
    assert read.targets.mean() == INSPECT["stated"]["stated"]
    assert read.sources["probs"] == "confidence in percent"
    err = fail("report", str(LOGS / "stated.eval"))
    assert "column 'confidence': '95%' is not a number; if the scores are percentages, type: " in err


def test_one_of_several_scorers_is_named():
    path = str(LOGS / "two.json")
    refuse([path], r"scores\.stated\.confidence; name the column to evaluate --score scores.stated.conf", percent=True)
    read = read_predictions([path], score="scores.stated.confidence", percent=True)
    assert read.sources["targets"] == "scores.stated.correct"
    assert read.targets.mean() == INSPECT["two"]["stated"]
    other = read_predictions([path], score="scores.stated.confidence", outcome="scores.match.correct", percent=True)
    assert other.targets.mean() == INSPECT["two"]["match"]
    refuse(
        [path],
        (
            r"row 1, column 'correct': the log has several scorers \(stated, match\); name the scorer to "
            "evaluate"
        ),
        score="epoch",
        outcome="correct",
    )


def zipped(path: Path, members: dict[str, Any], compression: int = zipfile.ZIP_DEFLATED) -> str:
    """Write a log of inspect: its header, and a member for each sample."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content if isinstance(content, (str, bytes)) else json.dumps(content))
    return str(path)


def members_of(samples: list[dict[str, Any]], **header: Any) -> dict[str, Any]:
    made = {"version": 2, "status": "success", "eval": {"task": "t", "task_version": 0, "model": "m"}, **header}
    return {"header.json": made} | {f"samples/{each['id']}_epoch_{each['epoch']}.json": each for each in samples}


def answered(number: Any, value: Any, confidence: Any = 0.5, **more: Any) -> dict[str, Any]:
    score = {"value": value, "answer": "x", "metadata": {"confidence": confidence}}
    return {"id": number, "epoch": 1, "scores": {"s": score}, "metadata": {}, **more}


def test_logs_of_inspect_without_probabilities_are_compared_by_results(tmp_path):
    """Epochs are attempts at a question, and the mean over them counts."""
    paths, means = [], {}
    for name, step in (("a", 3), ("b", 2)):
        right = [[(number + epoch) % step > 0 for epoch in range(2)] for number in range(30)]
        samples = [
            {"id": number, "epoch": epoch + 1, "scores": {"s": {"value": "CI"[not is_right], "answer": "x"}}}
            for number, epochs in enumerate(right)
            for epoch, is_right in enumerate(epochs)
        ]
        paths.append(zipped(tmp_path / f"{name}.eval", members_of(samples, eval={"task": "t", "model": name})))
        means[name] = np.array(right, float)
    out, err = succeed("compare", *paths, "--json", "-")
    assert "the logs contain no probabilities, so the models are compared by their results" in err
    found, expected = json.loads(out), calibrant.compare_results(means).to_dict()
    assert found["attempts"] == [2, 2]
    assert found["pairs"] == expected["pairs"]


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_samples_in_the_order_of_their_epochs_and_ids(tmp_path, compression):
    values = {"C": 1, "I": 0, "N": 0, True: 1, 0.0: 0}
    samples = [answered(10 - k, value, k / 10) for k, value in enumerate(values)]
    samples.append({**answered(1, "C"), "epoch": 2})
    path = zipped(tmp_path / "a.eval", members_of(samples), compression)
    read = read_predictions([path])
    assert read.probs.tolist() == [0.4, 0.3, 0.2, 0.1, 0.0, 0.5]
    assert read.targets.tolist() == [0, 1, 0, 0, 1, 1]
    assert read.protocol == "inspect, task t, model m"
    as_json = tmp_path / "a.json"
    header = members_of([])["header.json"]
    as_json.write_text(json.dumps({**header, "samples": samples}, indent=2))
    assert sorted(read_predictions([str(as_json)]).probs) == sorted(read.probs)


@pytest.mark.parametrize(
    ("sample", "why"),
    [
        (answered(1, "P"), "the score 'P' is neither correct nor incorrect"),
        (answered(1, 0.5), r"the score 0\.5 is neither correct nor incorrect"),
        (answered(1, {"a": 1}), r"the score \{'a': 1\} is neither"),
        ({**answered(1, "C"), "scores": None}, "the sample has no score"),
        ({**answered(1, "C"), "scores": None, "error": {"message": "x"}}, "the sample ended with an error"),
    ],
)
def test_samples_without_a_verdict_are_an_error_unless_they_are_left_out(tmp_path, sample, why):
    path = zipped(tmp_path / "a.eval", members_of([sample, answered(2, "C", 0.25)]))
    refuse([path], f"row 1, column 'correct': {why}.*; leave such samples out with --where")
    assert read_predictions([path], where="correct IS NOT NULL").probs.tolist() == [0.25]


def spoken(letter: str, tokens: dict[str, float], *, choices: int = 3, said: str = "ANSWER") -> dict[str, Any]:
    """Return a sample with the log-probabilities of its tokens."""
    top = [{"token": name, "logprob": math.log(share)} for name, share in tokens.items()]
    content = [
        {"token": f"{said}: ", "logprob": -0.1},
        {"token": letter, "logprob": math.log(0.5), "top_logprobs": top},
    ]
    output = {"choices": [{"logprobs": {"content": content}}]}
    score = {"s": {"value": "C", "answer": "A"}}
    return {"id": 1, "epoch": 1, "scores": score, "choices": ["x"] * choices, "output": output}


def test_the_probability_of_a_letter_among_the_letters(tmp_path):
    tokens = {"B": 0.5, " B": 0.1, "A": 0.1, "C": 0.1, "The": 0.2}
    path = zipped(tmp_path / "a.eval", members_of([spoken("B", tokens)]))
    assert read_predictions([path]).probs.tolist() == pytest.approx([0.75], rel=1e-12)


@pytest.mark.parametrize(
    ("sample", "why"),
    [
        (spoken("B", {"A": 0.1}), "no log-probability of the choice C; generate answers with top_logprobs=20"),
        (
            spoken("D", {"A": 0.1, "B": 0.1, "C": 0.1}),
            "no log-probability of the choice D; generate answers with top_logprobs=20",
        ),
        (spoken("B", {}, said="I say"), "the answer does not contain 'ANSWER:' with a letter"),
        (spoken("B", {}, choices=1), "the question has no choices with letters"),
        ({**spoken("B", {}), "output": {}}, "the answer has no log-probabilities of tokens"),
    ],
)
def test_letters_without_a_probability(tmp_path, sample, why):
    path = zipped(tmp_path / "a.eval", members_of([sample]))
    refuse([path], f"holds no probabilities: .*{why}; name a column of stated confidences")


def bomb() -> bytes:
    return b'{"id": 1, "epoch": 1, "scores": {}, "x": "' + b" " * 2_000_000 + b'"}'


@pytest.mark.parametrize(
    ("members", "match"),
    [
        (
            {"notes.txt": "x"},
            (
                r"is an archive without header\.json, but inspect always writes header\.json; pass a log of "
                "Inspect, or rename the file"
            ),
        ),
        ({"header.json": "{"}, "header.json is not valid JSON .*; write the log again with: inspect log convert"),
        ({"header.json": "[]"}, r"header.json holds no object"),
        (
            {"header.json": {"version": 7}},
            r"the header of the log has no 'eval' \(log version 7; calibrant reads versions 1 and 2\)",
        ),
        (members_of([]), r"holds no samples; run the evaluation again"),
        (members_of([{"id": 1, "epoch": 1}], version=9), r"samples/1_epoch_1.json has no 'scores' \(log version 9"),
        (
            members_of([{**answered(1, "C"), "scores": [1]}]),
            "samples/1_epoch_1.json does not have the structure that inspect writes",
        ),
        (
            members_of([]) | {"samples/1_epoch_1.json": bomb()},
            r"takes 2 MB when it is decompressed; raise CALIBRANT_MAX_MEMORY, if you trust the file",
        ),
    ],
)
def test_archives_that_cannot_be_used(tmp_path, monkeypatch, members, match):
    monkeypatch.setenv("CALIBRANT_MAX_MEMORY", "7MB")  # a quarter is less than the bomb
    path = zipped(tmp_path / "a.eval", members)
    refuse([path], match)


def test_every_member_passes_its_checksum(tmp_path):
    """Also those compressed by zstd, which Python's zipfile does not read before version 3.14."""
    path = LOGS / "stated.eval"
    with zipfile.ZipFile(path) as archive:
        checksum = archive.getinfo("samples/2_epoch_1.json").CRC.to_bytes(4, "little")
    data = path.read_bytes()
    assert data.count(checksum) == 2  # before the member, and in the directory
    damaged = tmp_path / "a.eval"
    damaged.write_bytes(data.replace(checksum, bytes(4)))
    refuse(
        [str(damaged)],
        r"samples/2_epoch_1.json does not match the length or checksum stored in the archive; copy",
        percent=True,
    )


@pytest.mark.parametrize(
    ("place", "value", "match"),
    [(8, 1, "samples/1_epoch_1.json is encrypted"), (10, 12, "samples/1_epoch_1.json is compressed by method 12")],
)
def test_members_that_are_not_read(tmp_path, place, value, match):
    path = Path(zipped(tmp_path / "a.eval", members_of([answered(1, "C")]), zipfile.ZIP_STORED))
    data = bytearray(path.read_bytes())
    entry = data.rindex(b"PK\x01\x02")  # the last one of the directory
    data[entry + place] = value
    path.write_bytes(bytes(data))
    refuse([str(path)], match)


def test_a_member_without_a_name_is_no_sample(tmp_path):
    path = Path(zipped(tmp_path / "a.eval", {**members_of([answered(1, "C", 0.5)]), "x.txt": "x"}))
    path.write_bytes(path.read_bytes().replace(b"x.txt", b"\0.txt"))  # a name ends at its first zero byte
    assert read_predictions([str(path)]).probs.tolist() == [0.5]


def test_an_archive_that_promises_too_much_in_all(tmp_path, monkeypatch):
    monkeypatch.setenv("CALIBRANT_MAX_MEMORY", "100kB")
    path = zipped(tmp_path / "a.eval", members_of([]) | {f"samples/{k}_epoch_1.json": bomb() for k in range(2)})
    refuse([path], r"a\.eval: it takes 4 MB when it is decompressed; raise CALIBRANT_MAX_MEMORY, if you trust the file")


LIMITS = (Path(__file__).parents[2] / "docs" / "service.md").read_text(encoding="utf-8")


def limit(what: str, unit: int) -> int:
    """Return a limit of docs/service.md in bytes, for M bytes of ``unit``."""
    (said,) = re.findall(rf"{what} (M / \d+|\d+ M)", LIMITS)
    return unit // int(said[4:]) if said.startswith("M / ") else unit * int(said[:-2])


def padded(size: int) -> list[dict[str, Any]]:
    """Return one sample whose JSON has this many bytes."""
    sample = {**answered(1, "C", 0.5), "notes": ""}
    return [{**sample, "notes": "x" * (size - len(json.dumps(sample)))}]


def test_logs_are_limited_as_the_page_says(tmp_path, monkeypatch):
    """A log just below each limit is read, one just above it is an error."""
    unit = 100_000
    monkeypatch.setenv("CALIBRANT_MAX_MEMORY", str(unit))
    most = limit(r"or a sample in `\.eval`", unit)
    assert read_predictions([zipped(tmp_path / "a.eval", members_of(padded(most)))]).probs.tolist() == [0.5]
    refuse([zipped(tmp_path / "b.eval", members_of(padded(most + 1)))], "CALIBRANT_MAX_MEMORY")
    in_all = limit("all samples", unit)
    many = members_of([answered(1, "C", 0.5)])
    own = sum(len(json.dumps(value)) for value in many.values())
    for above, path in ((0, tmp_path / "c.eval"), (1, tmp_path / "d.eval")):
        sizes = [most] * (in_all // most)
        sizes[-1] += in_all - sum(sizes) - own + above
        others = {f"notes/{k}.json": "x" * size for k, size in enumerate(sizes)}
        zipped(path, many | others)
    assert read_predictions([str(tmp_path / "c.eval")]).probs.tolist() == [0.5]
    refuse([str(tmp_path / "d.eval")], "CALIBRANT_MAX_MEMORY")
    array = limit(r"a `\.json` file or a sample in `\.eval`", unit)
    rows = [json.dumps({"logprobs": [-0.1, -2.0], "answer": 0, "notes": ""})] * 2
    for more, path in ((-1, tmp_path / "e.json"), (0, tmp_path / "f.json")):
        text = f"[{rows[0]}, {rows[1]}]"
        text = text.replace('"notes": ""', '"notes": "' + "x" * (array - len(text) + more) + '"', 1)
        path.write_text(text, encoding="utf-8")
    with pytest.raises(FileError, match="contains an array that does not fit into memory"):
        list(objects(str(tmp_path / "f.json")))
    assert len(list(objects(str(tmp_path / "e.json")))) == 2


def test_an_unfinished_log_says_so(tmp_path):
    members = members_of([answered(1, "C")])
    start = members.pop("header.json")
    del start["status"]
    path = zipped(tmp_path / "a.eval", {"_journal/start.json": start, **members})
    assert read_predictions([path]).protocol == "inspect, task t, unfinished, status unknown, model m"
    refuse(
        [write(tmp_path / "b.eval", [{}])],
        r"is not a readable ZIP archive .*; copy the log again, because it is damaged",
    )
    headless = write(tmp_path / "c.json", [{"version": 2, "status": "started", "eval": {}}])
    refuse([headless], "is a log of inspect without samples; run the evaluation with log_samples=True")


@pytest.mark.parametrize("name", ["capitals.eval", "stated.eval", "two.json"])
def test_damaged_logs_are_refused_or_read(tmp_path, name):
    """Bytes that change at random: no other error, and what is read is what the log held."""
    rng, data = np.random.default_rng(3), (LOGS / name).read_bytes()
    options = {"score": "scores.stated.confidence"} if name == "two.json" else {}
    options |= {"percent": True} if name != "capitals.eval" else {}
    expected = sorted(read_predictions([str(LOGS / name)], **options).probs)
    path = tmp_path / name
    read = 0
    for _ in range(60):
        changed = bytearray(data)
        for place in rng.integers(len(data), size=int(rng.integers(1, 4))):
            changed[place] = rng.integers(256)
        path.write_bytes(bytes(changed[: int(rng.integers(1, len(data)))] if rng.random() < 0.2 else changed))
        try:
            found = sorted(read_predictions([str(path)], **options).probs)
        except (CalibrantError, files.BadRows):
            continue
        read += 1
        if name.endswith(".eval") and len(found) == len(expected):  # every member passes its checksum
            assert found == expected
    assert read < 60


# ---------------------------------------------------------------- the command


def test_the_command_needs_no_options(tmp_path):
    page = tmp_path / "page.html"
    out = tmp_path / "out.json"
    text, err = succeed("report", log("four"), "--n-resamples", "0", "--html", str(page), "--json", str(out))
    assert "probs: probs (lists of 4), targets: target; lm-evaluation-harness 0.4.13, task four (version 1.0)" in text
    assert "--cluster" not in err
    summary = json.loads(out.read_text())
    assert summary["source"]["protocol"].startswith("lm-evaluation-harness 0.4.13, task four")
    assert summary["source"]["columns"] == {"probs": "probs (lists of 4)", "targets": "target"}
    assert summary["classwise"] is None
    assert "<dt>protocol</dt><dd>lm-evaluation-harness 0.4.13, task four" in page.read_text()
    _, text, _ = run("report", log("four"), "--n-resamples", "0", "--classwise", "--json", "-")
    assert len(json.loads(text)["classwise"]["names"]) == 4
    text, _ = succeed("report", str(LOGS / "capitals.eval"), "--n-resamples", "0")
    assert "4 predictions in 2 clusters" in text


def test_logs_without_probabilities_are_left_out():
    read = files.read_predictions([log("sums"), log("four")], Options(), keep=True, keep_going=True)
    assert read.paths == (log("four"),)
    assert "no choices with log-likelihoods" in read.omitted[0].reason


def test_models_are_compared(tmp_path):
    other = shutil.copy(log("four"), tmp_path / "other.jsonl")
    text, _ = succeed("compare", log("four"), str(other))
    assert "(like acc) | lm-evaluation-harness, task other; softmax" in " ".join(text.split())
    status, text, err = run("compare", log("four"), "--scores", "probs,acc_norm_probs")
    assert (status, err) == (0, "")
    assert "per character (like acc_norm)" in text
    text, _ = succeed("compare", log("four"), log("four").replace("/logs/", "/logs/../logs/"), "--on", "question")
    assert " ".join(text.split()).count("lm-evaluation-harness 0.4.13") == 1


def test_a_report_on_logs_of_the_same_questions_says_that_models_may_be_pooled(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        shutil.copy(log("four"), tmp_path / name)
    text, _ = succeed("report", str(tmp_path), "--n-resamples", "0")
    said = "Several files answer the same questions, so several models may be pooled. To compare the models, use: "
    command = " ".join(text.split()).partition(said)[2]
    assert command.startswith(f"calibrant compare {tmp_path} ")
    status, text, _ = run("compare", str(tmp_path))
    assert (status, "probs: probs (lists of 4) in each of 2 files" in text) == (0, True)
    assert "may be pooled" not in run("report", log("four"), log("tail"), "--n-resamples", "0")[1]


def test_models_of_repeated_questions_are_compared_by_question(tmp_path):
    rows = lines(log("four"))
    twice, once = (write(tmp_path / f"{name}.jsonl", made) for name, made in (("a", rows[:6] * 2), ("b", rows)))
    read = files.read_models([twice], Options(models=("probs", "acc_norm_probs")))
    assert len(set(read.clusters)) == 6
    status, text, _ = run("compare", twice, "--scores", "probs,acc_norm_probs")
    assert (status, "6 clusters" in text) == (0, True)
    for names in ((once, twice), (twice, once)):
        err = fail("compare", *names)
        assert (
            f"{once}: answers each question once, but {twice} answers questions several times; compare logs of the same"
            in err
        )


def test_reading_a_log_can_be_stopped(tmp_path):
    def stop() -> None:
        raise engine.Stopped

    path = str(shutil.copy(log("tail"), tmp_path / "log.jsonl"))
    with pytest.raises(engine.Stopped):
        logs.read_logs([path], stop)
    assert len(read_predictions([path]).probs) == 4


@pytest.mark.parametrize(
    ("others", "match"),
    [
        (
            ["stated.eval"],
            (
                "stated.eval: is a log of inspect, but "
                r".* is a log of "
                "lm-evaluation-harness; pass logs of one kind at a time"
            ),
        ),
        (
            [],
            ("plain.jsonl: is not an evaluation log, but .* is a log of lm-evaluation-harness"),
        ),
    ],
)
def test_logs_of_one_kind_at_a_time(tmp_path, others, match):
    plain = write(tmp_path / "plain.jsonl", [{"score": 0.5, "outcome": 1}])
    refuse([log("four"), *([str(LOGS / name) for name in others] or [plain])], match)


def test_logs_are_not_read_on_spark():
    err = fail("report", log("four"), "--engine", "spark")
    assert "is an evaluation log, which --engine spark cannot read; leave --engine spark out" in err


def test_a_shell_that_expands_the_logs_of_folders_gets_a_command_that_works(tmp_path, monkeypatch):
    """Without quotes, `runs/*/samples_*.jsonl` is a file for each task and model; the folders are the models."""
    monkeypatch.chdir(tmp_path)
    tasks = ("four", "tail")
    for model in ("small", "a large"):
        folder = Path("runs") / model
        folder.mkdir(parents=True)
        for task in tasks:
            shutil.copy(log(task), folder)
    expanded = sorted(map(str, Path("runs").glob("*/samples_*.jsonl")))
    err = fail("compare", *expanded, status=2)
    assert "4 logs in 2 folders would be compared as 4 models, but the logs of a folder are of different tasks" in err
    command = shlex.split(err.strip().rpartition("does not expand it: ")[2])
    assert command[:2] == ["calibrant", "compare"]
    assert all(name.count("*") == 1 for name in command[2:])
    out, _ = succeed(*command[1:])
    assert "2 models" in out
    of_one_task = [path for path in expanded if "samples_four_" in path]
    assert run("compare", *of_one_task)[0] == 0
