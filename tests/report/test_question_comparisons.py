"""Comparisons of models on the questions of their logs: each as `compare` of its arrays, and all together."""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, ndtr
from scipy.stats import norm

import calibrant
from calibrant.errors import InputError
from calibrant.inputs.decision_log import DecisionLog, Question
from calibrant.report import QuestionComparisons
from calibrant.statistics.group_tests import holm
from tests.report.test_question_reports import rows_of

Rows = list[dict[str, Any]]


def compare(logs: Mapping[str, Rows], **options: Any) -> QuestionComparisons:
    return calibrant.compare({name: calibrant.read_decisions(rows) for name, rows in logs.items()}, **options)


@pytest.fixture(scope="module")
def logs() -> dict[str, Rows]:
    """Return the logs of two models with the same inputs and labels; the second is bolder about tools."""
    return {"old": rows_of(600), "new": rows_of(600, sharpen=2.0)}


@pytest.fixture(scope="module")
def comparisons(logs: dict[str, Rows]) -> QuestionComparisons:
    return compare(logs)


# ---------------------------------------------------------------- each question


def test_a_question_has_the_comparison_of_its_arrays(logs: dict[str, Rows], comparisons: QuestionComparisons) -> None:
    old, new = (calibrant.read_decisions(rows) for rows in logs.values())
    assert list(comparisons) == ["urgent", "tool", "mood", "open"]
    for name in ("urgent", "tool", "mood"):
        models = {"old": old[name].probs, "new": new[name].probs}
        alone = calibrant.compare(models, old[name].targets, class_names=old[name].class_names)
        assert comparisons[name].to_dict() == alone.to_dict()
    # options that differ between rows: the likeliest one of each model, and whether it was right
    answers = {
        model: (log["open"].probs.max(axis=1), (log["open"].probs.argmax(axis=1) == log["open"].targets).astype(int))
        for model, log in (("old", old), ("new", new))
    }
    assert comparisons["open"].to_dict() == calibrant.compare(answers).to_dict()
    assert comparisons["open"].own_outcomes


@pytest.mark.parametrize("options", [{}, {"level": 0.9, "tolerance": 0.05, "sort_by": "nll", "measures": ["auroc"]}])
@pytest.mark.parametrize("name", ["urgent", "tool", "mood"])
def test_a_log_of_one_question_is_a_comparison_of_arrays(
    logs: dict[str, Rows], name: str, options: dict[str, Any]
) -> None:
    one = {
        model: [{key: {name: row[key][name]} for key in ("answers", "labels")} | {"id": row["id"]} for row in rows]
        for model, rows in logs.items()
    }
    found = compare(one, **options)
    old, new = (calibrant.read_decisions(rows)[name] for rows in one.values())
    alone = calibrant.compare({"old": old.probs, "new": new.probs}, old.targets, class_names=old.class_names, **options)
    assert found[name].to_dict() == alone.to_dict()
    [pair], [own] = found.questions[name].pairs, alone.pairs
    for key, estimate in own.estimates.items():
        for number in ("value", "low", "high", "level", "p_value"):
            np.testing.assert_array_equal(getattr(pair[key], number), getattr(estimate, number))
    assert pair.decision == own.decision


def test_rows_are_matched_by_their_ids_in_any_order(logs: dict[str, Rows], comparisons: QuestionComparisons) -> None:
    rng = np.random.default_rng(0)
    shuffled = {
        model: [{**rows[i], "answers": dict(reversed(rows[i]["answers"].items()))} for i in rng.permutation(len(rows))]
        for model, rows in logs.items()
    }
    found = compare(dict(reversed(shuffled.items())))
    again = compare(shuffled)
    assert list(again) == list(comparisons)[::-1]
    for name, question in comparisons.questions.items():
        assert again.questions[name].to_dict() == question.to_dict()
        for key, estimate in question.pairs[0].estimates.items():
            other = found.questions[name].pairs[0][key]
            assert (other.low, other.high) == pytest.approx((-estimate.high, -estimate.low), rel=1e-9, abs=1e-12)


def test_without_ids_rows_are_matched_by_position(logs: dict[str, Rows], comparisons: QuestionComparisons) -> None:
    found = compare({model: [{**row, "id": None} for row in rows] for model, rows in logs.items()})
    assert not found.common.by_id
    for name, question in comparisons.questions.items():
        assert found.questions[name].to_dict() == question.to_dict()
    assert "The rows have no ids, so they were matched by their positions." in str(found)


# ---------------------------------------------------------------- all questions together


def test_p_values_are_adjusted_for_questions_and_pairs(comparisons: QuestionComparisons) -> None:
    raw = [comparison.pairs[0]["debiased_square"].p_value for comparison in comparisons.values()]
    adjusted = [each.pairs[0]["debiased_square"].p_value for each in comparisons.questions.values()]
    np.testing.assert_allclose(adjusted, holm(raw), rtol=1e-12)
    assert [name for name, each in comparisons.questions.items() if each.worse] == ["tool", "open"]
    assert comparisons.differing == ("tool", "open")


def decided(probs: Mapping[str, np.ndarray], targets: np.ndarray, **options: Any) -> QuestionComparisons:
    """Return the comparison of models on predicates, (n, questions)."""

    def log(p: np.ndarray) -> DecisionLog:
        n, k = p.shape
        questions = {
            f"q{j:02}": Question(
                name=f"q{j:02}", kind="predicate", probs=p[:, j], targets=targets[:, j], classes=(), rows=np.arange(n)
            )
            for j in range(k)
        }
        return DecisionLog(questions=questions, n=n, refusals={}, unlabelled={}, unanswered={})

    return calibrant.compare({name: log(p) for name, p in probs.items()}, **options)


def levels_of(comparisons: QuestionComparisons, measure: str) -> set[float]:
    return {pair[measure].details["interval_level"] for each in comparisons.questions.values() for pair in each.pairs}


def sampled(rng: np.random.Generator, n: int, k: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    p = rng.random((n, k))
    return {"a": p, "b": expit(1.5 * np.log(p / (1 - p)) + rng.normal(0, 0.5, (n, k)))}, (rng.random((n, k)) < p) * 1


@pytest.mark.parametrize(("measure", "most"), [("brier", 1.01), ("nll", 1.01), ("accuracy", 1.2)])
def test_copies_of_a_question_need_no_correction(measure: str, most: float) -> None:
    """The largest of equal differences is one of them; the quantile is simulated, with an error of about 0.2 %.

    The accuracy counts an answer of each model that was not seen, which questions do not have in common.
    """
    probs, targets = sampled(np.random.default_rng(4), 400, 1)
    found = decided({name: np.repeat(p, 8, axis=1) for name, p in probs.items()}, np.repeat(targets, 8, axis=1))
    [level] = levels_of(found, measure)
    assert 0.99 <= norm.isf((1 - level) / 2) / norm.isf(0.025) <= most < norm.isf(0.025 / 8) / norm.isf(0.025)


def test_independent_questions_have_the_quantile_of_the_largest_of_independent_differences() -> None:
    """Šidák's level for 20 pairs; estimated correlations of 4,000 rows are within 0.05 of 0."""
    found = decided(*sampled(np.random.default_rng(5), 4_000, 20))
    [level] = levels_of(found, "brier")
    assert norm.isf((1 - level) / 2) == pytest.approx(norm.isf((1 - 0.95 ** (1 / 20)) / 2), rel=0.01)


def test_dependent_questions_have_the_quantile_of_their_correlations() -> None:
    """An independent simulation of the correlations of the differences, with three models."""
    rng = np.random.default_rng(6)
    logits = rng.logistic(0, 1, (1_000, 1)) + rng.normal(0, 0.3, (1_000, 6))
    targets = (rng.random((1_000, 1)) < expit(logits)) * 1
    probs = {"a": expit(logits), "b": expit(logits + rng.normal(0, 1, (1_000, 1)))}
    probs["c"] = expit(logits + rng.normal(0, 0.7, (1_000, 1)) + rng.normal(0, 0.2, (1_000, 6)))
    losses = {name: (p - targets) ** 2 for name, p in probs.items()}
    pairs = [losses[one] - losses[other] for one, other in ("ab", "ac", "bc")]
    correlations = np.corrcoef(np.concatenate(pairs, axis=1).T)
    largest = np.abs(np.random.default_rng(7).multivariate_normal(np.zeros(18), correlations, 200_000)).max(axis=1)
    [level] = levels_of(decided(probs, targets), "brier")
    assert norm.isf((1 - level) / 2) == pytest.approx(np.quantile(largest, 0.95), rel=0.01)
    assert 1 - level > 2 * 0.05 / 18  # and Bonferroni's is clearly larger


@pytest.mark.parametrize(("measure", "n"), [("ece", 400), ("debiased_square", 400), ("brier", 40)])
def test_what_is_not_known_to_vary_together_has_bonferronis_level(measure: str, n: int) -> None:
    found = decided(*sampled(np.random.default_rng(8), n, 5))
    assert levels_of(found, measure) == {1 - 0.05 / 5}


def dependent(rng: np.random.Generator, n: int) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Return two models' answers to five questions, the outcomes and their probabilities; an input has effects."""
    logits = rng.normal(0, 1, (n, 1)) + rng.normal(0, 0.7, (n, 5))
    errors = rng.normal(0, 0.8, (n, 1)) + rng.normal(0, 0.4, (n, 5))
    probs = {"a": expit(logits + rng.normal(0, 0.3, (n, 5))), "b": expit(np.linspace(0.8, 1.8, 5) * logits + errors)}
    true = expit(logits)
    luck = ndtr(0.7 * rng.normal(size=(n, 1)) + np.sqrt(0.51) * rng.normal(size=(n, 5)))
    return probs, (luck < true).astype(np.int64), true


LOSSES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "brier": lambda p, true: (p - true) ** 2,
    "nll": lambda p, true: -(true * np.log(p) + (1 - true) * np.log1p(-p)),
    "accuracy": lambda p, true: np.where(p >= 0.5, true, 1 - true),
}


def coverage(samples: int, n: int = 300) -> dict[str, float]:
    """Return the share of samples in which the intervals of all questions contain the true differences."""
    probs, _, true = dependent(np.random.default_rng(1), 1_000_000)
    truths = {name: (loss(probs["a"], true) - loss(probs["b"], true)).mean(axis=0) for name, loss in LOSSES.items()}
    covered = Counter[str]()
    for sample in range(samples):
        probs, outcomes, _ = dependent(np.random.default_rng([2, sample]), n)
        questions = decided(probs, outcomes).questions.values()
        for name, truth in truths.items():
            ends = [(each.pairs[0][name].low, each.pairs[0][name].high) for each in questions]
            covered[name] += all(low <= value <= high for (low, high), value in zip(ends, truth, strict=True))
    return {name: covered[name] / samples for name in truths}


def test_intervals_hold_together() -> None:
    """With 30 samples, fewer than 25 covered ones have a probability below 0.5 % at a coverage of 93 %."""
    assert min(coverage(30).values()) >= 25 / 30


@pytest.mark.slow
@pytest.mark.parametrize("n", [100, 300])
def test_intervals_hold_together_in_many_samples(n: int) -> None:
    """The standard error of a coverage of 95 % is 0.9 percentage points."""
    assert min(coverage(600, n).values()) >= 0.93


# ---------------------------------------------------------------- what is not compared


def test_what_is_in_one_log_alone_is_named(logs: dict[str, Rows]) -> None:
    old, new = copy.deepcopy(logs["old"][:200]), copy.deepcopy(logs["new"][:180])
    for row in old:
        row["answers"]["spare"], row["labels"]["spare"] = {"noul": 0.2}, False
    for row in new:
        row["answers"]["tool"]["probabilities"]["ask"] = 0.0
    for i in range(7):
        new[i]["answers"]["urgent"] = {"type": "refusal"}
    found = compare({"old": old, "new": new})
    text = " ".join(str(found).split())
    for words in (
        "180 inputs, 4 questions, 2 models",
        "Rows that are not compared, because their id is not in all logs: old (20).",
        "The question spare is not compared, because only old answered it.",
        "Answer options of tool that only new has: ask.",
        "Refusals are not compared: old 0, new 7.",
        "Labelled answers are not compared if another model has no labelled answer to the same input: old 87, new 0.",
        "Only the likeliest answer is compared in open, because the options differ between rows.",
    ):
        assert words in text
    assert (found["urgent"].n, found["tool"].n, found["tool"].n_classes) == (173, 180, 4)
    summary = found.to_dict()
    assert summary["lone_rows"] == {"old": 20, "new": 0}
    assert summary["lone_questions"] == {"spare": ["old"]}
    urgent, tool = summary["questions"][:2]
    assert (urgent["refusals"], urgent["left_out"]) == ({"old": 0, "new": 7}, {"old": 27, "new": 0})
    assert tool["lone_options"] == {"new": ["ask"]}


def test_stated_confidences_are_those_of_the_likeliest_answer(logs: dict[str, Rows]) -> None:
    old, new = (calibrant.read_decisions(rows).stated() for rows in logs.values())
    found = calibrant.compare({"old": old, "new": new})
    answers = {"old": (old["tool"].probs, old["tool"].targets), "new": (new["tool"].probs, new["tool"].targets)}
    assert found["tool"].to_dict() == calibrant.compare(answers).to_dict()
    assert "answer is compared in tool, because its confidence is stated." in " ".join(str(found).split())


def test_options_are_matched_by_their_names(logs: dict[str, Rows], comparisons: QuestionComparisons) -> None:
    new = copy.deepcopy(logs["new"])
    for row in new:
        answer = row["answers"]["tool"]
        answer["probabilities"] = dict(reversed(answer["probabilities"].items()))
    found = compare({"old": logs["old"], "new": new})
    assert found["tool"].to_dict() == comparisons["tool"].to_dict()


def test_small_questions_are_not_tested(logs: dict[str, Rows]) -> None:
    old = copy.deepcopy(logs["old"][:100])
    for row in old[29:]:
        row["answers"]["mood"] = {"type": "refusal"}
    found = compare({"old": old, "new": logs["new"][:100]})
    mood = found.questions["mood"]
    assert mood.flag == "fewer than 30 rows, too few for a test"
    assert np.isnan([mood.pairs[0]["brier"].low, mood.pairs[0]["debiased_square"].p_value]).all()
    assert np.isfinite(mood.comparison.pairs[0]["brier"].low)
    assert "mood: fewer than 30 rows, too few for a test" in str(found)
    few = compare({name: rows[:20] for name, rows in logs.items()})
    assert "No question has enough rows for a test." in str(few)
    assert few.differing == ()
    json.loads(few.to_json())


def _relabelled(rows: Rows) -> Rows:
    rows[5]["labels"]["tool"] = "stop" if rows[5]["labels"]["tool"] != "stop" else "browse"
    return rows


def _renamed(rows: Rows) -> Rows:
    return [
        {**row, **{key: {f"{name}!": each for name, each in row[key].items()} for key in ("answers", "labels")}}
        for row in rows
    ]


def _as_choice(rows: Rows) -> Rows:
    for row in rows:
        row["answers"]["urgent"] = {"probabilities": {"y": 0.5, "n": 0.5}}
        row["labels"]["urgent"] = "y"
    return rows


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_relabelled, r"the label '\w+' for 'tool' in the row with the id '5', as in old, got '\w+'"),
        (lambda rows: [{**row, "id": row["id"] + 60} for row in rows], "got no such id in 60 of 100 rows"),
        (lambda rows: [{**row, "id": None} for row in rows], "expected rows with ids, as in old, got rows without ids"),
        (_renamed, "a question that all logs answer in the same rows, got 'urgent', 'tool', 'mood' in old"),
        (_as_choice, "expected 'urgent' to be a predicate, as in old, got a choice"),
    ],
)
def test_logs_that_do_not_match_are_refused(logs: dict[str, Rows], change: Callable[[Rows], Rows], said: str) -> None:
    with pytest.raises(InputError, match=rf"probs\['new'\]: expected .*{said}|{said}"):
        compare({"old": logs["old"][:100], "new": change(copy.deepcopy(logs["new"][:100]))})


def test_without_ids_logs_have_the_same_number_of_rows(logs: dict[str, Rows]) -> None:
    old, new = ([{**row, "id": None} for row in rows[:n]] for rows, n in zip(logs.values(), (60, 50), strict=True))
    with pytest.raises(InputError, match="expected 60 rows, as many as old, because the rows have no ids, got 50"):
        compare({"old": old, "new": new})


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("targets", [1]),
        ("weights", [1.0]),
        ("clusters", [1]),
        ("logits", True),
        ("paired", True),
        ("notion", "positive"),
    ],
)
def test_logs_bring_their_data(logs: dict[str, Rows], argument: str, value: Any) -> None:
    log = calibrant.read_decisions(logs["old"])
    with pytest.raises(InputError, match=f"{argument}: expected no other data together with a DecisionLog"):
        calibrant.compare({"a": log, "b": log}, **{argument: value})  # type: ignore[call-overload]
    with pytest.raises(InputError, match=r"probs\['b'\]: expected a DecisionLog, like the other models, got a list"):
        calibrant.compare({"a": log, "b": [0.1]})
    with pytest.raises(KeyError, match="no question 'tol'; did you mean 'tool'"):
        calibrant.compare(log, log)["tol"]


# ---------------------------------------------------------------- how it is shown


def test_the_first_screen_has_a_row_for_each_question(comparisons: QuestionComparisons) -> None:
    text = str(comparisons)
    assert text.startswith("600 inputs, 4 questions, 2 models\n")
    assert "new has a worse Brier score than old in 2 of 4 questions: tool, open" in " ".join(text.split())
    assert "new is worse calibrated than old after Holm correction in 2 of 4" in " ".join(text.split())
    table = text.split("Brier score: old minus new\n")[1].split("\n  * ")[0].splitlines()[1:]
    assert [line.split()[0] for line in table] == list(comparisons)
    assert [line.endswith("*") for line in table] == [False, True, False, True]
    tool = comparisons.questions["tool"].pairs[0]["brier"]
    assert f"{tool.value:+.4f}  {tool.low:+.4f} to {tool.high:+.4f}" in table[1]
    assert [line for line in text.splitlines() if line.startswith("Question ")] == [
        f"Question {name}" for name in comparisons
    ]
    assert max(map(len, text.splitlines())) <= 80


def test_the_page_and_markdown_have_a_section_for_each_question(
    comparisons: QuestionComparisons, tmp_path: Any
) -> None:
    page = comparisons.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    for pattern in (r'\bid="([^"]+)"', r'download="([^"]+)"'):
        assert [name for name, count in Counter(re.findall(pattern, page)).items() if count > 1] == []
    assert all(f"Question {name}" in page for name in comparisons)
    assert all(f"# Question {name}" in comparisons.to_markdown() for name in comparisons)


def test_numbers_come_as_json_and_as_a_frame(comparisons: QuestionComparisons) -> None:
    summary = json.loads(comparisons.to_json())
    assert [each["name"] for each in summary["questions"]] == list(comparisons)
    tool = summary["questions"][1]["pairs"][0]
    assert tool["estimates"]["brier"]["low"] == comparisons.questions["tool"].pairs[0]["brier"].low
    assert tool["called_out"]
    frame = comparisons.to_pandas()
    assert frame.index.names == ["question", "first", "second", "measure"]
    assert frame.loc[("tool", "old", "new", "brier"), "low"] == tool["estimates"]["brier"]["low"]
    assert repr(comparisons) == (
        "<QuestionComparisons of 'old', 'new': 600 inputs, 4 questions; brier differs in 2 of 4 tested>"
    )


def test_three_models_and_a_tolerance(logs: dict[str, Rows]) -> None:
    found = compare({**logs, "same": logs["old"]}, tolerance=0.05)
    assert [len(each.pairs) for each in found.questions.values()] == [3] * 4
    text = " ".join(str(found).split())
    above = "that of old by more than the tolerance of 0.05 in 2 of 4 questions"
    assert f"The ECE of another model exceeds {above}: tool, open." in text
    assert f"The ECE of every other model does not exceed {above}" in text
    assert "same has a worse" not in text
    assert "to see the pairs without old, use --json" in text
    assert {name for name, each in found.questions.items() if "new" in each.worse} == {"tool", "open"}


def test_a_model_that_is_better_is_said_to_be_so() -> None:
    probs, targets = sampled(np.random.default_rng(9), 500, 2)
    noisy = np.where(np.random.default_rng(9).random((500, 1)) < 0.4, 1 - probs["a"], probs["a"])
    found = decided({"noisy": noisy, "true": probs["a"]}, targets)
    assert found.verdict()[0] == (
        "true has a better Brier score than noisy in 2 of 2 questions: q00, q01 (simultaneous 95 % CI)."
    )
    assert found.verdict()[1].startswith("true is better calibrated than noisy after Holm correction in 2 of 2")
    by_accuracy = decided({"noisy": noisy, "true": probs["a"]}, targets, sort_by="accuracy")
    assert "true has a better accuracy at 0.5 than noisy in 2 of 2 questions: q00, q01" in by_accuracy.verdict()[0]
    assert "\nAccuracy at 0.5: noisy minus true\n" in str(by_accuracy)


def test_of_many_questions_some_have_a_section() -> None:
    text = str(decided(*sampled(np.random.default_rng(1), 60, 40)))
    assert text.count("\nQuestion q") == 12
    assert "to see the other 28 questions" in text


def test_names_do_not_act(tmp_path: Any) -> None:
    name = "<i>\x1b[31mx\x1b[0m</i>"
    rows = [
        {"id": i, "answers": {name: {"noul": i / 40}, f"{name}1": {"noul": 0.2}}, "labels": {name: i % 3 == 0}}
        for i in range(40)
    ]
    other = [{**row, "labels": {**row["labels"], f"{name}1": True}} for row in rows]
    found = compare({name: other, "new": rows}, tolerance=0.1)
    page = found.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<i>" not in page
    assert not any("\x1b" in text for text in (page, str(found), found.to_markdown()))
