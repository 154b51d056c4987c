"""A monitor of decision logs: one state, in which each question has an e-process, and all answers together one."""

from __future__ import annotations

import itertools
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.errors import FileError, InputError
from calibrant.monitoring import state
from calibrant.monitoring.evidence import WEIGHTS
from calibrant.statistics.e_processes import adjusted
from tests.recalibration.test_question_recalibrations import ODD_NAMES, predicates
from tests.report.test_question_reports import rows_of

LATER = 4  # the slice in which the fifth question appears


def log_of(answers: dict[str, tuple[Any, Any]]) -> calibrant.DecisionLog:
    """Return the log of probabilities (N,) or (N, C) and targets, whose row numbers are those of the arrays."""
    questions = {
        name: calibrant.Question(
            name=name,
            kind="predicate" if probs.ndim == 1 else "choice",
            probs=probs,
            targets=targets.astype(np.int64),
            classes=() if probs.ndim == 1 else tuple("abc"),
            rows=np.arange(len(targets)),
        )
        for name, (probs, targets) in answers.items()
    }
    n = len(next(iter(questions.values())).targets)
    return calibrant.DecisionLog(questions=questions, n=n, refusals={}, unlabelled={}, unanswered={})


def drawn(rng: np.random.Generator, n: int, many: int, *, alike: bool = True, power: float = 1.0) -> Any:
    """Return answers to calibrated questions with one latent outcome in each row; those to q0 err by a power.

    If they are alike, all questions have the scores of the first one.
    """
    latent, base, answers = rng.random(n), rng.random(n), {}
    for k in range(many):
        p = base if alike else rng.random(n)
        if k % 2 == 0:
            answers[f"q{k}"] = p, latent < (p**power if k == 0 else p)
        else:
            top = 0.4 + 0.6 * p
            probs = np.stack([top, 0.6 * (1 - top), 0.4 * (1 - top)], axis=1)
            answers[f"q{k}"] = probs, np.where(latent < top, 0, np.where(rng.random(n) < 0.6, 1, 2))
    return log_of(answers)


def events_of(log: calibrant.DecisionLog) -> tuple[Any, ...]:
    """Return the scores, the outcomes, the questions and the rows of all answers, in another way than the monitor."""
    scores, outcomes, names, rows = [], [], [], []
    for name, question in log.items():
        for p, target, row in zip(
            question.probs.tolist(), question.targets.tolist(), question.rows.tolist(), strict=True
        ):
            scores.append(max(p) if isinstance(p, list) else p)
            outcomes.append(int(target == p.index(max(p))) if isinstance(p, list) else target)
            names.append(name)
            rows.append(row)
    return np.array(scores), np.array(outcomes), np.array(names), np.array(rows)


def test_a_declared_log_is_its_events_with_groups_and_clusters() -> None:
    names = [f"q{k}" for k in range(5)]
    ours, plain = calibrant.Monitor(groups=names), calibrant.Monitor(groups=names)
    for t in range(6):
        log = drawn(np.random.default_rng(t), 80, 5 if t >= LATER else 4, alike=False, power=1.3)
        scores, outcomes, groups, rows = events_of(log)
        ours.update(log)
        plain.update(scores, outcomes, groups=groups, clusters=rows)
        assert ours.log_e == plain.log_e
    assert ours.called_out == plain.called_out
    for own, other in zip(ours.to_dict()["groups"], plain.to_dict()["groups"], strict=True):
        assert own["log_evidence"] == pytest.approx(other["log_evidence"], abs=1e-9)
        assert own["difference"] == pytest.approx(other["difference"], abs=1e-12)
    assert ours.to_dict()["slices"] == plain.to_dict()["slices"]


def test_weights_are_kept_for_questions_to_come() -> None:
    watch = calibrant.Monitor()
    for t, names in enumerate((["a", "b"], ["a", "b"], ["a", "c"], ["d", "e", "f"])):
        rng = np.random.default_rng(t)
        answers = {name: (p := rng.random(50), rng.random(50) < p**1.5) for name in names}
        watch.update(log_of(answers), label=f"week {t + 1}")
    rows = watch._mixture.log_e(WEIGHTS)
    e = {name: math.exp(group.mixture.log_e(WEIGHTS)) for name, group in watch._groups.items()}
    weights = {"a": 1 / 4, "b": 1 / 4, "c": 1 / 6, "d": 1 / 36, "e": 1 / 36, "f": 1 / 36}
    reserve = 1 / 4
    assert sum(weights.values()) + reserve == pytest.approx(1)
    of_questions = sum(weights[name] * e[name] for name in e) + reserve
    assert watch.log_e == pytest.approx(math.log((math.exp(rows) + of_questions) / 2), rel=1e-12)
    assert [group["since"] for group in watch.to_dict()["groups"]] == ["", "", "week 3", *["week 4"] * 3]
    assert (
        "The questions d, e, f first appeared in slice week 4; earlier slices contain no evaluated answers to them."
        in " ".join(str(watch).split())
    )
    assert {name: group.mixture.slices for name, group in watch._groups.items()} == {
        "a": 3,
        "b": 2,
        **dict.fromkeys("cdef", 1),
    }


def test_weighted_closed_testing_is_that_of_all_subsets() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        logs = dict(zip("abcde", rng.normal(1, 2, 5).tolist(), strict=True))
        weights, reserve = dict(zip("abcde", rng.random(5).tolist(), strict=True)), float(rng.random())
        found = adjusted(logs, weights, reserve)
        values = {name: (weights[name], math.exp(logs[name])) for name in logs} | {"": (reserve, 1.0)}
        for name in logs:
            others = [values[each] for each in values if each != name]
            subsets = itertools.chain.from_iterable(itertools.combinations(others, k) for k in range(6))
            sums = [np.sum([(w, w * e) for w, e in (values[name], *subset)], axis=0) for subset in subsets]
            assert found[name] == pytest.approx(math.log(min(total / weight for weight, total in sums)))
    assert adjusted({}) == {}


def rates(samples: int, n: int, seed: int, **how: Any) -> tuple[float, float]:
    """Return how often there is an alarm, and a flagged question, in 20 slices of calibrated questions."""
    alarms, flagged = 0, 0
    for sample in range(samples):
        rng, watch = np.random.default_rng([seed, sample]), calibrant.Monitor()
        for t in range(20):
            watch.update(drawn(rng, n, 5 if t >= LATER else 4, **how))
        alarms += watch.alarm
        flagged += bool(watch.called_out)
    return alarms / samples, flagged / samples


def test_dependent_calibrated_questions_rarely_raise_an_alarm() -> None:
    assert max(rates(15, 40, 3)) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 15)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "alike"), [(40, True), (200, False)])
def test_an_alarm_is_false_in_the_stated_share(n: int, alike: bool) -> None:
    samples = 150
    assert max(rates(samples, n, n + alike, alike=alike)) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / samples)


@pytest.mark.slow
def test_without_the_row_as_cluster_alarms_would_be_false() -> None:
    """The simulation can fail: with dependent answers taken as independent rows, it does."""
    samples, alarms = 100, 0
    for sample in range(samples):
        rng, watch = np.random.default_rng([5, sample]), calibrant.Monitor()
        for _ in range(20):
            p = rng.random(40)
            watch.update(np.tile(p, 5), np.tile(rng.random(40) < p, 5))
        alarms += watch.alarm
    assert alarms / samples > 0.15


@pytest.mark.parametrize("declared", [False, True])
def test_a_drift_of_one_question_is_found_and_named(declared: bool) -> None:
    rng = np.random.default_rng(1)
    watch = calibrant.Monitor(groups=[f"q{k}" for k in range(5)] if declared else None)
    for t in range(20):
        watch.update(drawn(rng, 100, 5 if t >= LATER else 4, power=2.0 if t >= 10 else 1.0), label=f"week {t + 1}")
        assert watch.alarm <= (t >= 10)
    assert watch.alarm
    assert watch.called_out == ["q0"]
    text = " ".join(str(watch).split())
    assert re.search(r"1 of 5 questions shows evidence of miscalibration after closed testing: q0 \(\+\d", text)
    assert "Next: calibrant recalibrate LOG --map maps.json" in text
    assert ("The question q4 first appeared in slice week 5;" in text) != declared
    with pytest.raises(InputError, match="since_onset: expected a monitor of one event, got one of several questions"):
        watch.since_onset()


def test_a_drift_of_a_later_question_is_named() -> None:
    rng, watch = np.random.default_rng(2), calibrant.Monitor()
    for t in range(12):
        log = drawn(rng, 100, 3)
        if t >= LATER:
            p = rng.random(100)
            log = log_of({name: (q.probs, q.targets) for name, q in log.items()} | {"new": (p, rng.random(100) < p**2)})
        watch.update(log)
    assert watch.called_out == ["new"]


def test_the_order_of_rows_changes_no_bit() -> None:
    found = []
    for seed in range(3):
        watch = calibrant.Monitor()
        for t in range(4):
            rows = rows_of(150, t, sharpen=1.4)
            for i, row in enumerate(rows):
                if i % 3:
                    del row["answers"]["mood"], row["labels"]["mood"]
            np.random.default_rng([seed, t]).shuffle(rows)
            watch.update(calibrant.read_decisions(rows))
        numbers = watch.to_dict()
        numbers["groups"] = sorted(numbers["groups"], key=lambda group: group["name"])
        found.append(json.dumps(numbers))
    assert found[0] == found[1] == found[2]


# ---------------------------------------------------------------- the state


def test_a_state_goes_on_bit_for_bit(tmp_path: Path) -> None:
    path, once = tmp_path / "state.json", calibrant.Monitor()
    for t in range(7):
        log = drawn(np.random.default_rng(t), 60, 5 if t >= LATER else 4)
        once.update(log)
        again = calibrant.Monitor.from_json(path) if t else calibrant.Monitor()
        again.update(log)
        again.to_json(path)
        assert again.to_json() == once.to_json()
        assert again.to_dict() == once.to_dict()


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content["settings"].update(questions="closed"),
        lambda content: content["settings"].update(questions=1),
        lambda content: content["settings"].update(notion="top-label", n_classes=3),
        lambda content: content["groups"]["q0"].update(kind="other"),
        lambda content: content["groups"]["q0"].update(kind=[]),
        lambda content: content["groups"]["q0"].update(since=2),
        lambda content: content["groups"]["q0"].update(since=-1),
        lambda content: content["groups"]["q0"].pop("since"),
        lambda content: content.update(groups=None),
        lambda content: content.update(groups={}),
    ],
)
def test_a_changed_state_is_refused(tmp_path: Path, change: Any) -> None:
    watch, path = calibrant.Monitor(), tmp_path / "state.json"
    for t in range(2):
        watch.update(drawn(np.random.default_rng(t), 30, 3))
    content = json.loads(json.dumps(watch.to_state()))
    state.write(path, content)
    assert calibrant.Monitor.from_json(path).to_json() == watch.to_json()
    change(content)
    state.write(path, content)
    with pytest.raises(FileError, match="is not the state of a monitor"):
        calibrant.Monitor.from_json(path)


def test_names_are_any_text_and_do_not_act(tmp_path: Path) -> None:
    rng, watch = np.random.default_rng(0), calibrant.Monitor()
    for _ in range(2):
        p = rng.random(40)
        watch.update(predicates(dict.fromkeys(ODD_NAMES, p), dict.fromkeys(ODD_NAMES, rng.random(40) < p)))
    again = calibrant.Monitor.from_json(watch.to_json(tmp_path / "state.json"))
    assert again.groups == list(ODD_NAMES)
    page = watch.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    for text in (str(watch), page, watch.to_markdown()):
        assert not re.search("[\x1b\x7f\x9b\u202e]", text)
    assert "<i>" not in page


# ---------------------------------------------------------------- what does not fit


def test_a_log_and_one_event_need_monitors_of_their_own() -> None:
    log, p = drawn(np.random.default_rng(0), 40, 3), np.full(40, 0.5)
    of_log, of_event = calibrant.Monitor(), calibrant.Monitor()
    of_log.update(log)
    of_event.update(p, np.arange(40) % 2)
    before = of_log.to_json(), of_event.to_json()
    with pytest.raises(
        InputError, match=r"probs: expected a DecisionLog, as in the first slice, got other data; begin"
    ):
        of_log.update(p, np.arange(40) % 2)
    with pytest.raises(InputError, match=r"probs: expected scores of one event, as in the first slice, got a Decision"):
        of_event.update(log)
    changed = log_of({"q0": (log["q1"].probs, log["q1"].targets)})
    with pytest.raises(
        InputError, match="expected answers of the kind predicate to 'q0', as in earlier slices, got the"
    ):
        of_log.update(changed)
    assert (of_log.to_json(), of_event.to_json()) == before


def test_declared_questions_are_all_questions() -> None:
    watch = calibrant.Monitor(groups=["q0", "q1", "q2"])
    watch.update(drawn(np.random.default_rng(0), 40, 2))
    with pytest.raises(
        InputError, match=r"groups: expected the declared questions \(q0, q1, q2\), got 'q3'; begin a new"
    ):
        watch.update(drawn(np.random.default_rng(1), 40, 4))
    watch.update(drawn(np.random.default_rng(1), 40, 3))
    assert [group["kind"] for group in watch.to_dict()["groups"]] == ["predicate", "choice", "predicate"]
    assert watch.to_dict()["questions"] == "declared"
    assert "for questions that may appear later" not in " ".join(str(watch).split())


def test_a_threshold_is_watched_with_one_question() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(2_000)
    threshold = calibrant.certify_threshold(p, rng.random(2_000) < p, max_risk=0.2)
    log = drawn(rng, 300, 3)
    with pytest.raises(InputError, match="threshold: expected thresholds that name their questions"):
        calibrant.Monitor(threshold=threshold).update(log)
    watch = calibrant.Monitor(threshold=threshold)
    watch.update(log["q0"].probs, log["q0"].targets)
    assert watch.to_dict()["promises"][0]["n_automatic"] > 10


def test_the_promises_of_all_questions_are_watched_together() -> None:
    """Each is that of its question alone, and all have one alarm of probability alpha together."""
    rng = np.random.default_rng(0)
    found = calibrant.certify_questions(drawn(rng, 3_000, 3), max_risk=0.3)
    watch, logs = calibrant.Monitor(threshold=found), [drawn(rng, 300, 3) for _ in range(2)]
    for log in logs:
        watch.update(log)
    promises = watch.to_dict()["promises"]
    assert {each["question"] for each in promises} == {name for name in found if found[name].certified}
    assert len(promises) >= 3
    for name in found:
        alone = calibrant.Monitor(threshold=found[name])
        for log in logs:
            alone.update(log[name].probs, log[name].targets)
        own = [each for each in promises if each["question"] == name]
        for mine, other in zip(own, alone.to_dict()["promises"], strict=True):
            adjusted = other["log_evidence"] + np.log(len(own)) - np.log(len(promises))
            assert mine == {**other, "question": name, "log_evidence": pytest.approx(adjusted)}
    again = calibrant.Monitor.from_json(watch.to_json())
    assert again.to_dict() == watch.to_dict()
    again.watch_threshold(found.to_dict())
    assert again.to_dict()["promises"] == promises
    assert "for q0 is kept so far" in " ".join(str(watch).split())
    with pytest.raises(InputError, match="threshold: expected one threshold, got thresholds of questions"):
        calibrant.Monitor(threshold=found).update(logs[0]["q0"].probs, logs[0]["q0"].targets)


def test_thresholds_of_groups_of_rows_are_refused() -> None:
    """The groups of a monitored log are its questions, so that no group of rows could be watched."""
    rng = np.random.default_rng(0)
    found = calibrant.certify_questions(drawn(rng, 3_000, 3), max_risk=0.3)
    grouped = replace(found, by_group={"de": found})
    for given in (grouped, grouped.to_dict()):
        watch = calibrant.Monitor(threshold=given)
        with pytest.raises(InputError, match=r"expected thresholds without groups, .*, got thresholds of groups"):
            watch.update(drawn(rng, 300, 3))
        assert watch.labels == []


def test_a_broken_promise_of_a_question_is_named() -> None:
    rng = np.random.default_rng(0)
    found = calibrant.certify_questions(drawn(rng, 3_000, 3), max_risk=0.3)
    log, watch = drawn(rng, 600, 3), calibrant.Monitor(threshold=found)
    turned = replace(log["q0"], targets=1 - log["q0"].targets)
    watch.update(replace(log, questions={**log.questions, "q0": turned}))
    broken = {each["question"] for each in watch.to_dict()["promises"] if each["broken"]}
    assert broken == {"q0"}
    assert watch.promise_broken


def counted_together(log: calibrant.DecisionLog, names: tuple[str, ...], value: float) -> tuple[int, int]:
    """Return the inputs whose answers to all these questions are this sure, and how many have a wrong one."""
    automatic = errors = 0
    for row in range(log.n):
        places = [list(log[name].rows).index(row) for name in names if row in log[name].rows]
        answers = [
            (log[name].probs[place], log[name].targets[place]) for name, place in zip(names, places, strict=False)
        ]
        if len(places) == len(names) and min(max(probs) for probs, _ in answers) >= value:
            automatic += 1
            errors += any(int(np.argmax(probs)) != target for probs, target in answers)
    return automatic, errors


def test_the_threshold_of_several_questions_together_is_watched() -> None:
    """Its decisions are those about inputs, and it takes part in the alarm of all thresholds."""
    rng = np.random.default_rng(0)
    found = calibrant.certify_questions(drawn(rng, 4_000, 4), max_risk=0.3)
    assert found.composite is not None
    assert found.composite.value is not None
    watch, logs = calibrant.Monitor(threshold=found), [drawn(rng, 200, 4) for _ in range(2)]
    for log in logs:
        watch.update(log)
    (composite,) = (each for each in watch.to_dict()["promises"] if each["composite_of"])
    assert composite["composite_of"] == ("q1", "q3")
    counts = [counted_together(log, ("q1", "q3"), found.composite.value) for log in logs]
    assert (composite["n_automatic"], composite["n_errors"]) == tuple(map(sum, zip(*counts, strict=True)))
    alone = calibrant.Monitor(threshold=found.composite)
    for log in logs:
        least = np.minimum(log["q1"].probs.max(axis=1), log["q3"].probs.max(axis=1))
        alone.update(least, log["q1"].right & log["q3"].right)
    (own,) = alone.to_dict()["promises"]
    several = len(watch.to_dict()["promises"])
    assert composite["log_evidence"] == pytest.approx(own["log_evidence"] - np.log(several))
    again = calibrant.Monitor.from_json(watch.to_json())
    assert again.to_dict() == watch.to_dict()
    again.watch_threshold(found.to_dict())
    assert len(again.to_dict()["promises"]) == several
    assert "for q1, q3 together is kept so far" in " ".join(str(watch).split())
    assert 'composite_of="q1,q3"' in watch.to_prometheus("m")


def test_a_broken_threshold_of_several_questions_together_is_named() -> None:
    rng = np.random.default_rng(0)
    found = calibrant.certify_questions(drawn(rng, 4_000, 4), max_risk=0.3)
    log, watch = drawn(rng, 900, 4), calibrant.Monitor(threshold=found)
    turned = replace(log["q3"], targets=(log["q3"].targets + 1) % 3)
    watch.update(replace(log, questions={**log.questions, "q3": turned}))
    broken = [each["question"] or each["composite_of"] for each in watch.to_dict()["promises"] if each["broken"]]
    assert broken == ["q3", ("q1", "q3")]
    without = calibrant.Monitor(threshold=found)
    without.update(log.only(["q1", "q2"]))
    (composite,) = (each for each in without.to_dict()["promises"] if each["composite_of"])
    assert composite["n_automatic"] == 0


@pytest.mark.parametrize(
    ("argument", "value"), [("targets", [1]), ("clusters", [1]), ("groups", ["a"]), ("logits", True)]
)
def test_a_log_brings_its_data(argument: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"{argument}: expected no other data together with a DecisionLog"):
        calibrant.Monitor().update(drawn(np.random.default_rng(0), 40, 2), **{argument: value})


def test_what_is_shown_names_the_questions(tmp_path: Path) -> None:
    watch = calibrant.Monitor()
    for t in range(3):
        watch.update(drawn(np.random.default_rng(t), 60, 3), label=f"week {t + 1}")
    text = " ".join(str(watch).split())
    assert text.startswith("3 slices, 540 answers (3 questions)")
    assert "No question shows evidence of miscalibration after closed testing (3 questions)." in text
    assert "all answers about one input are treated as one cluster" in text
    assert "Questions question kind answers difference adjusted E flagged q0 predicate 180" in text
    page = watch.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    assert 'download="questions.csv"' in page
    assert 'calibrant_monitor_group_called_out{group="q1"} 0' in watch.to_prometheus()
    impossible = log_of({"q0": (np.array([0.0, 1.0, 0.5]), np.array([1, 1, 0]))})
    watch.update(impossible)
    assert watch.called_out == ["q0"]
