"""Certified thresholds of the questions of a decision log: one promise for all of them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

import calibrant
from calibrant.errors import InputError
from calibrant.inputs.decision_log import DecisionLog, Question
from calibrant.thresholds import QuestionThresholds

TEAMS = ("billing", "sales", "other")


def question(name: str, kind: str, confidence: Any, right: Any, yes: Any, rows: Any = None, **more: Any) -> Question:
    """Return a question whose answers have these confidences and are right or not."""
    if kind == "predicate":
        probs, targets = np.where(yes, confidence, 1 - confidence), (right == yes).astype(np.int64)
    else:
        probs, targets = np.stack([confidence, 1 - confidence], axis=1), (~right).astype(np.int64)
    classes = () if kind == "predicate" else ("a", "b")
    rows = np.arange(len(probs)) if rows is None else rows
    return Question(name=name, kind=kind, probs=probs, targets=targets, classes=classes, rows=rows, **more)  # type: ignore[arg-type]


def log_of(questions: list[Question], n: int, **more: Any) -> DecisionLog:
    held = {each.name: each for each in questions}
    return DecisionLog(questions=held, n=n, refusals={}, unlabelled={}, unanswered={}, **more)


def dependent(rng: np.random.Generator, n: int, size: int, rho: float, risk: float) -> DecisionLog:
    """Return questions whose errors have this probability and depend on each other within a row (Gaussian copula)."""
    common, questions = rng.normal(size=n), []
    for k in range(size):
        error = norm.sf(np.sqrt(rho) * common + np.sqrt(1 - rho) * rng.normal(size=n)) < risk
        kind, confidence = ("predicate", "choice")[k % 2], rng.uniform(0.5, 1, n).round(1 if k % 4 > 1 else 9)  # ties
        questions.append(question(f"q{k}", kind, confidence, ~error, rng.random(n) < 0.5))
    return log_of(questions, n)


def rows_of(n: int, seed: int = 1) -> list[dict[str, Any]]:
    """Return rows with a predicate, two choices and a score; some are refused."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        p = round(float(rng.beta(0.3, 0.3)), 4)
        answers: dict[str, Any] = {"urgent": {"noul": p}}
        labels: dict[str, Any] = {"urgent": bool(rng.random() < p)}
        for name in ("team", "area"):
            probs = rng.dirichlet((0.2, 0.2, 0.2))
            answers[name] = {"probabilities": dict(zip(TEAMS, probs.tolist(), strict=True))}
            labels[name] = TEAMS[rng.choice(3, p=probs)]
        if rng.random() < 0.1:
            answers["team"] = {"type": "refusal"}
        rows.append(
            {"id": i, "model": "m-1", "answers": answers, "labels": labels, "meta": {"lang": "de" if i % 3 else "en"}}
        )
    return rows


@pytest.fixture(scope="module")
def log() -> DecisionLog:
    return calibrant.read_decisions(rows_of(3000), by="meta.lang")


@pytest.fixture(scope="module")
def found(log: DecisionLog) -> QuestionThresholds:
    return calibrant.certify_questions(log, max_risk=0.1)


def test_one_question_has_the_thresholds_of_its_arrays(log: DecisionLog) -> None:
    """Alone, a predicate is certified as by `certify_two_sided`, and a choice as by `certify_threshold`."""
    urgent, area = log["urgent"], log["area"]
    two = calibrant.certify_two_sided(urgent.probs, urgent.targets, yes_risk=0.1, no_risk=0.1)
    one = calibrant.certify_threshold(area.probs, area.targets, max_risk=0.1)
    for each in (True, False):
        by_name = calibrant.certify_questions(log.only(["urgent"]), max_risk=0.1, each=each)
        assert [side.value for side in by_name["urgent"].sides] == [two.yes.value, two.no.value]
        assert [side.coverage for side in by_name["urgent"].sides] == [two.yes.coverage, two.no.coverage]
    alone = calibrant.certify_questions(log, max_risk=0.1, each=True)
    assert alone["area"].sides[0].to_dict(curves=False) == one.to_dict(curves=False)
    assert alone["area"].sides[0].curve is not None


def test_several_questions_share_the_confidence(log: DecisionLog) -> None:
    """Without a question that is certified whole, each has a part of alpha: as with so much more confidence."""
    found = calibrant.certify_questions(log, max_risk=0.1)
    area = log["area"]
    part = calibrant.certify_threshold(area.probs, area.targets, max_risk=0.1, confidence=1 - 0.05 / 4)
    assert found["area"].sides[0].value == part.value
    urgent = log["urgent"]
    sided = calibrant.certify_two_sided(
        urgent.probs, urgent.targets, yes_risk=0.1, no_risk=0.1, confidence=1 - 0.05 / 4
    )
    assert [side.value for side in found["urgent"].sides] == [sided.yes.value, sided.no.value]


def test_refusals_are_not_automatic(log: DecisionLog, found: QuestionThresholds) -> None:
    team, side = log["team"], found["team"].sides[0]
    assert team.refusals > 200
    assert side.value is not None
    acted = np.count_nonzero(team.largest >= side.value)
    assert side.coverage == pytest.approx(acted / (team.n + team.refusals), rel=1e-14)
    assert side.coverage_low < side.coverage < side.coverage_high
    assert side.n_automatic == acted


def test_an_input_is_automatic_by_its_smallest_confidence(log: DecisionLog, found: QuestionThresholds) -> None:
    team, area = log["team"], log["area"]
    held = area.rows[np.isin(area.rows, team.rows)]
    at_team, at_area = np.searchsorted(team.rows, held), np.searchsorted(area.rows, held)
    least = np.minimum(team.probs.max(axis=1)[at_team], area.probs.max(axis=1)[at_area])
    right = (team.probs.argmax(axis=1) == team.targets)[at_team] & (area.probs.argmax(axis=1) == area.targets)[at_area]
    composite = found.composite
    assert found.composite_of == ("team", "area")
    assert composite is not None
    assert composite.value is not None
    alone = calibrant.certify_threshold(least, right, max_risk=0.1, confidence=1 - 0.05 / 4)
    assert composite.value == alone.value
    assert composite.risk == alone.risk
    assert composite.coverage == pytest.approx(np.count_nonzero(least >= composite.value) / log.n)


def test_groups_are_certified_together(log: DecisionLog, found: QuestionThresholds) -> None:
    assert list(found.by_group) == ["de", "en"]
    german = np.array(log.groups) == "de"
    area = log["area"].among(german)
    assert area.n == german.sum()
    part = calibrant.certify_threshold(area.probs, area.targets, max_risk=0.1, confidence=1 - 0.05 / 8)
    assert found.by_group["de"]["area"].sides[0].value == part.value
    team = log["team"]
    assert sum(group.log["team"].refusals for group in found.by_group.values()) == team.refusals


def test_gates_are_those_that_readers_apply(log: DecisionLog, found: QuestionThresholds) -> None:
    gates = found.gates("2026-11-29T00:00:00Z")
    assert list(gates) == ["version", "model", "generatedAt", "guard", "tolerance", "questions", "composite"]
    assert (gates["version"], gates["model"], gates["generatedAt"], gates["tolerance"]) == (
        1,
        "m-1",
        "2026-11-29T00:00:00Z",
        0,
    )
    assert {name: gate["type"] for name, gate in gates["questions"].items()} == {
        "urgent": "noul",
        "team": "choice",
        "area": "choice",
    }
    assert {gate["accuracy"] for gate in gates["questions"].values()} == {0.9}
    assert all(list(gate) == ["type", "threshold", "accuracy", "coverage", "n"] for gate in gates["questions"].values())
    urgent = log["urgent"]
    acted = np.abs(urgent.probs - 0.5) * 2 >= gates["questions"]["urgent"]["threshold"]
    assert gates["questions"]["urgent"]["coverage"] == acted.mean()
    yes, no = found["urgent"].sides
    assert not (acted & ~(yes.accepts(urgent.probs) | no.accepts(urgent.probs))).any()
    ends = urgent.probs[acted]
    assert min(abs(ends - yes.value).min(), abs(ends - no.value).min()) == 0  # one of the two is reached
    assert gates["composite"]["questions"] == ["team", "area"]
    assert json.loads(json.dumps(gates, allow_nan=False)) == gates


def test_a_predicate_needs_both_sides_for_a_gate() -> None:
    """A reader of gates acts on both answers, so one certified side is not enough."""
    rng = np.random.default_rng(2)
    p = rng.beta(0.2, 3, 4000)
    part = question("rare", "predicate", np.maximum(p, 1 - p), rng.random(4000) < np.maximum(p, 1 - p), p >= 0.5)
    found = calibrant.certify_questions(log_of([part], 4000), max_risk=0.05)
    yes, no = found["rare"].sides
    assert (yes.value, no.value is None) == (None, False)
    assert found.certified
    assert found.gate("rare") is None
    assert found.gates()["questions"] == {}


def test_the_observed_gate_has_the_error_rate_in_these_rows(log: DecisionLog, found: QuestionThresholds) -> None:
    for name, of in log.items():
        gate = found.observed_gate(name)
        assert gate is not None
        confidence = np.abs(of.probs - 0.5) * 2 if of.kind == "predicate" else of.largest
        errors = [1 - of.right[confidence >= cut].mean() for cut in np.unique(confidence)]
        naive = np.unique(confidence)[np.array(errors) <= 0.1].min()
        assert gate.threshold == naive
        certified = found.gate(name)
        assert certified is None or certified.threshold > gate.threshold
    text = str(found)
    assert "observed gate" not in text
    assert "observed gate" in "".join(str(block) for block in found._document(complete=True).blocks)


@pytest.mark.parametrize("size", [1, 5, 20])
def test_the_promise_of_all_questions_holds(size: int) -> None:
    """With an error rate just above the bound, a certified question breaks the promise: in 5 % of samples at most."""
    rng, broken, draws = np.random.default_rng([9, size]), 0, 200 if size < 20 else 60
    for k in range(draws):
        log = dependent(rng, 600, size, (0.0, 0.5, 0.9999)[k % 3], 0.1001)
        broken += calibrant.certify_questions(log, max_risk=0.1).certified
    assert broken <= binom.ppf(0.995, draws, 0.05)
    rng, alone = np.random.default_rng([9, size]), 0
    if size == 20:  # without Holm the promise of all together would be broken
        for _ in range(20):
            log = dependent(rng, 600, size, 0.0, 0.1001)
            alone += calibrant.certify_questions(log, max_risk=0.1, each=True).certified
        assert alone > binom.ppf(0.999, 20, 0.05)


def test_few_rows_and_one_score_are_said() -> None:
    rng = np.random.default_rng(0)
    few = question("few", "choice", rng.uniform(0.5, 1, 20), rng.random(20) < 0.9, np.ones(20, bool))
    many = question("many", "choice", rng.uniform(0.5, 1, 900), rng.random(900) < 0.99, np.ones(900, bool))
    found = calibrant.certify_questions(log_of([few, many], 900), max_risk=0.1)
    assert found["few"].sides[0].reason.startswith("fewer than")
    assert found["many"].sides[0].value is not None
    assert "Too few rows for a threshold: few" in str(found)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"max_risk": 5}, "max_risk"),
        ({"confidence": 95}, "confidence"),
        ({"method": "betting"}, "method"),
    ],
)
def test_bad_arguments_are_refused(log: DecisionLog, how: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        calibrant.certify_questions(log, **how)
    with pytest.raises(InputError, match="read_decisions"):
        calibrant.certify_questions([0.5, 0.2])  # type: ignore[arg-type]


def test_gates_of_two_models_and_of_other_confidences_are_refused() -> None:
    rows = rows_of(400)
    rows[3]["model"] = "m-2"
    with pytest.raises(InputError, match="log: expected the log of one model"):
        calibrant.certify_questions(calibrant.read_decisions(rows), max_risk=0.3).gates()
    rows = rows_of(400)
    for row in rows:
        row["answers"]["area"]["confidence"] = 0.5
    log = calibrant.read_decisions(rows)
    with pytest.raises(InputError, match="stated confidences"):
        calibrant.certify_questions(log, max_risk=0.3).gates()


def test_stated_confidences_are_certified_in_place_of_probabilities() -> None:
    rows = rows_of(1500)
    for row in rows:
        probs = row["answers"]["area"]["probabilities"]
        row["answers"]["area"]["confidence"] = round(max(probs.values()) ** 2, 4)
    log = calibrant.read_decisions(rows)
    area, stated = log["area"], log.stated()
    found = calibrant.certify_questions(stated, max_risk=0.2)
    alone = calibrant.certify_threshold(area.confidence, area.right, max_risk=0.2, confidence=1 - 0.05 / 4)
    assert found["area"].sides[0].value == alone.value
    gate = found.gates()["questions"]["area"]
    assert gate["threshold"] == alone.value
    assert gate["coverage"] == np.mean(area.confidence >= alone.value)
    assert found.composite is not None
    report = calibrant.evaluate(stated, n_resamples=19)["area"]
    assert report.to_dict() == calibrant.evaluate(area.confidence, area.right, n_resamples=19).to_dict()
    assert list(stated) == list(log)
    assert stated["urgent"] is log["urgent"]
    rows[7]["answers"]["area"].pop("confidence")
    with pytest.raises(InputError, match="got none in row 8"):
        calibrant.read_decisions(rows).stated()
    with pytest.raises(InputError, match="in at least one answer to a choice or score question, got none"):
        calibrant.read_decisions(rows_of(30)).stated()


def test_the_result_is_a_document(found: QuestionThresholds, tmp_path: Any) -> None:
    text = " ".join(str(found).split())
    assert "Questions with a certified threshold in each group: de (3 of 3), en (3 of 3)." in text
    assert "Some answers to 3 of 3 questions" in str(replace(found, by_group={}))
    assert "with 95 % confidence, for all questions together:" in " ".join(str(found).split())
    assert "have a wrong answer to at least one of these questions" in " ".join(str(found).split())
    page = found.to_html(tmp_path / "page.html").read_text()
    assert page.count("<svg") >= 4  # risk-coverage curves
    plain = json.loads(found.to_json())
    assert [entry["name"] for entry in plain["questions"]] == ["urgent", "team", "area"]
    assert [group["name"] for group in plain["groups"]] == ["de", "en"]
    assert plain["questions"][0]["gate"] == found.gate("urgent")._asdict()  # type: ignore[union-attr]
    with pytest.raises(KeyError, match="no question"):
        found["nothing"]
    assert list(found.to_pandas().index) == ["urgent", "team", "area"]


def test_labels_that_are_the_answers_are_a_caution() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(800)
    copied = Question(
        name="copied", kind="predicate", probs=p, targets=(p > 0.5).astype(np.int64), classes=(), rows=np.arange(800)
    )
    drawn = question("drawn", "choice", rng.uniform(0.5, 1, 800), rng.random(800) < 0.95, np.ones(800, bool))
    found = calibrant.certify_questions(log_of([copied, drawn], 800), max_risk=0.1)
    assert "check that the labels are not the answers of the model" in found["copied"].sides[0].flag
    assert "separates" not in found["drawn"].sides[0].flag
    assert "Caution: the threshold 0.50" in " ".join(str(found).split())
