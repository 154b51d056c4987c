"""Reports on the questions of a decision log: each as a report of its own, tested together."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.errors import InputError
from calibrant.report import QuestionReports
from calibrant.statistics.group_tests import holm

TOOLS = ("search", "browse", "stop")


def rows_of(n: int, seed: int = 3, *, sharpen: float = 1.0) -> list[dict[str, Any]]:
    """Return rows with a predicate, a choice, a score and a choice whose options differ; `sharpen` errs."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        p, logits, levels = rng.random(), rng.normal(0, 1.5, 3), rng.dirichlet((1, 1, 1))
        true = np.exp(logits) / np.exp(logits).sum()
        said = np.exp(sharpen * logits) / np.exp(sharpen * logits).sum()
        names = TOOLS if i % 2 else TOOLS[:2]
        some = said[: len(names)] / said[: len(names)].sum()
        answers = {
            "urgent": {"noul": p},
            "tool": {"probabilities": dict(zip(TOOLS, said.tolist(), strict=True)), "confidence": float(said.max())},
            "mood": {"score": 1.0, "probabilities": dict(zip("012", levels.tolist(), strict=True))},
            "open": {"probabilities": dict(zip(names, some.tolist(), strict=True))},
        }
        labels = {
            "urgent": bool(rng.random() < p),
            "tool": TOOLS[rng.choice(3, p=true)],
            "mood": int(rng.choice(3, p=levels)),
            "open": names[rng.choice(len(names), p=true[: len(names)] / true[: len(names)].sum())],
        }
        rows.append({"id": i, "model": "m-1", "answers": answers, "labels": labels})
    return rows


@pytest.fixture(scope="module")
def log() -> calibrant.DecisionLog:
    return calibrant.read_decisions(rows_of(600, sharpen=2.0))


@pytest.fixture(scope="module")
def reports(log: calibrant.DecisionLog) -> QuestionReports:
    return calibrant.evaluate(log, n_resamples=199)


def test_a_question_has_the_report_of_its_arrays(log: calibrant.DecisionLog, reports: QuestionReports) -> None:
    assert list(reports) == ["urgent", "tool", "mood", "open"]
    for name, question in log.items():
        alone = calibrant.evaluate(
            question.probs,
            question.targets,
            class_names=question.class_names,
            classwise=None if question.fixed else False,
            ordered=name == "mood",
            n_resamples=199,
        )
        own, expected = (each.to_dict(curves=False) for each in (reports[name], alone))
        if name == "open":
            assert reports[name]["classwise_ece"].method == "not available: the options differ between rows"
            for each in (own, expected):
                del each["estimates"]["classwise_ece"], each["not_finite"]
        assert own == expected
        facts = reports.questions[name]
        assert facts.accuracy == alone["accuracy"].value
        largest = np.maximum(question.probs, 1 - question.probs) if name == "urgent" else question.probs.max(axis=1)
        assert facts.question.mean_confidence == pytest.approx(largest.mean(), rel=1e-14)
    assert reports["tool"].classwise is not None
    assert reports["open"].classwise is None


def test_p_values_are_adjusted_for_the_number_of_questions(reports: QuestionReports) -> None:
    tested = [question.tested for question in reports.questions.values()]
    adjusted = holm([each.p_value for each in tested])
    np.testing.assert_allclose([each.adjusted_p_value for each in tested], adjusted, rtol=1e-12)
    assert set(reports.miscalibrated) == {each.name for each in tested if each.adjusted_p_value <= 0.05}
    assert {"tool", "open"} <= set(reports.miscalibrated) < set(reports)


@pytest.mark.slow
@pytest.mark.parametrize("n_questions", [1, 5, 20])
def test_calibrated_questions_are_rarely_called_out(n_questions: int) -> None:
    """Holm's method holds although the answers of one input depend on each other: here all have one latent outcome."""
    rng, found, samples = np.random.default_rng(n_questions), 0, 200
    for _ in range(samples):
        u, p = rng.random(100), rng.random((100, n_questions)) ** rng.choice([0.3, 1, 3])
        rows = [
            {
                "answers": {f"q{k}": {"noul": float(p[i, k])} for k in range(n_questions)},
                "labels": {f"q{k}": bool(u[i] < p[i, k]) for k in range(n_questions)},
            }
            for i in range(100)
        ]
        found += bool(calibrant.evaluate(calibrant.read_decisions(rows), n_resamples=0).miscalibrated)
    assert found / samples <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / samples)


def test_the_first_screen_has_a_row_for_each_question(reports: QuestionReports) -> None:
    text = str(reports)
    assert text.startswith("600 inputs, 4 questions\n")
    assert re.search(r"Evidence of miscalibration in \d of 4 tested\s+questions after Holm correction", text)
    rows = {line.split()[0]: line for line in text.splitlines() if re.match(r"  (urgent|tool|mood|open) ", line)}
    assert rows["tool"].rstrip(" *").endswith("over-confident")
    assert rows["urgent"].endswith("no evidence")
    assert "The options of open differ between rows" in text
    assert [line for line in text.splitlines() if line.startswith("Question ")] == [
        f"Question {name}" for name in reports
    ]
    assert max(map(len, text.splitlines())) <= 80


def test_the_page_and_markdown_have_a_section_for_each_question(reports: QuestionReports, tmp_path: Any) -> None:
    page = reports.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    ids = Counter(re.findall(r'\bid="([^"]+)"', page))
    assert [name for name, count in ids.items() if count > 1] == []
    files = Counter(re.findall(r'download="([^"]+)"', page))
    assert [name for name, count in files.items() if count > 1] == []
    assert all(f"Question {name}" in page for name in reports)
    assert page.count("<h3>All measures</h3>") == len(reports)
    assert page.count("<h3>Events: at least this level</h3>") == 1
    markdown = reports.to_markdown()
    assert all(f"# Question {name}" in markdown for name in reports)
    assert "Details" not in repr(reports)


def test_what_was_not_evaluated_is_said() -> None:
    rows = rows_of(60)
    for i in range(10):
        rows[i]["answers"]["urgent"] = {"type": "refusal"}
        rows[20 + i]["labels"]["tool"] = None
        del rows[40 + i]["answers"]["mood"]
    rows[0]["answers"]["spare"] = {"noul": 0.1}
    rows[1]["labels"]["lost"] = True
    rows[2]["model"] = "m-2"
    rows[3]["answers"]["tool"]["confidence"] = 0.01
    text = " ".join(str(calibrant.evaluate(calibrant.read_decisions(rows), n_resamples=0)).split())
    for words in (
        "Refusals, which are not evaluated: 10, in urgent (10).",
        "Answers without a label, which are not evaluated: 10, in tool (10).",
        "Labels without an answer, which are not evaluated: 10.",
        "Questions without labels: spare.",
        "Questions without answers: lost.",
        "The stated confidence differs from the largest probability by more than 0.001 in tool",
        "The log contains answers of 2 models, which are evaluated together.",
    ):
        assert words in text


def test_numbers_come_as_json_and_as_a_frame(reports: QuestionReports) -> None:
    summary = json.loads(reports.to_json())
    assert [each["name"] for each in summary["questions"]] == list(reports)
    tool = summary["questions"][1]
    assert (tool["kind"], tool["fixed"], tool["refusals"]) == ("choice", True, 0)
    assert tool["report"]["estimates"]["ece"]["value"] == reports["tool"]["ece"].value
    frame = reports.to_pandas()
    assert list(frame.index) == list(reports)
    assert frame.loc["tool", "ece"] == reports["tool"]["ece"].value
    assert frame.loc["mood", "kind"] == "score"
    assert repr(reports).startswith("<QuestionReports: 600 inputs, 4 questions; evidence of miscalibration in ")


def test_values_alone_and_few_rows() -> None:
    values = calibrant.evaluate(calibrant.read_decisions(rows_of(40)), level=None)
    assert values.level is None
    assert "verdict" not in str(values)
    few = calibrant.evaluate(calibrant.read_decisions(rows_of(5)), n_resamples=0)
    assert "No question has enough rows for a test" in str(few)
    assert few.miscalibrated == ()


def test_of_many_questions_some_have_a_section() -> None:
    rng = np.random.default_rng(1)
    rows = [
        {
            "answers": {f"q{k}": {"noul": float(rng.random())} for k in range(40)},
            "labels": {f"q{k}": bool(rng.integers(2)) for k in range(40)},
        }
        for _ in range(30)
    ]
    text = str(calibrant.evaluate(calibrant.read_decisions(rows), n_resamples=0))
    assert text.count("\nQuestion q") == 12
    assert "to see the other 28 questions" in text


def test_names_do_not_act(tmp_path: Any) -> None:
    name = "<i>\x1b[31mx\x1b[0m</i>"
    rows = [{"answers": {name: {"noul": 0.3}}, "labels": {name: i % 3 == 0}} for i in range(40)]
    reports = calibrant.evaluate(calibrant.read_decisions(rows), n_resamples=0)
    assert "\x1b" not in str(reports)
    page = reports.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<i>" not in page
    assert "\x1b" not in page


@pytest.mark.parametrize(
    ("argument", "value"),
    [("targets", [1]), ("weights", [1.0]), ("groups", ["a"]), ("logits", True), ("weights_are", "sampling")],
)
def test_a_log_brings_its_data(log: calibrant.DecisionLog, argument: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"{argument}: expected no other data together with a DecisionLog"):
        calibrant.evaluate(log, **{argument: value})
    with pytest.raises(KeyError, match="no question 'tol'; did you mean 'tool'"):
        calibrant.evaluate(log, level=None)["tol"]
    with pytest.raises(InputError, match="bands: expected 'pointwise' without intervals"):
        calibrant.evaluate(log, level=None, bands="simultaneous")


def test_a_truth_value_next_to_its_text_has_another_name() -> None:
    probs = [{"value": True, "probability": 0.5}, {"value": "true", "probability": 0.5}]
    rows = [
        {"answers": [{"type": "choice", "name": "q", "probabilities": probs}], "labels": {"q": i % 2 == 0 or "true"}}
        for i in range(40)
    ]
    log = calibrant.read_decisions(rows)
    assert log["q"].class_names == ("true (truth value)", "true")
    assert calibrant.evaluate(log, n_resamples=0)["q"].class_names == ("true (truth value)", "true")
