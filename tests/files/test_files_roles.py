"""Roles of columns: what names say, which class is whose, the questions of the audit's files, and predicted labels."""

from __future__ import annotations

import csv
import itertools
import json
import pickle
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import calibrant
from tests import in_process
from tests.reading_of import read_predictions, refuse

pytest.importorskip("duckdb", reason="the report extra is not installed")
from calibrant.errors import FileError
from calibrant.files.class_names import event_of, order_of
from calibrant.files.column_options import Unnamed
from calibrant.files.column_words import role_of
from calibrant.files.loaded import Agreement

CASES = Path(__file__).parents[2] / ".." / "shared" / "cases"
cases = pytest.mark.skipif(not CASES.is_dir(), reason="the folder of cases is not here")


def run(*words: object) -> tuple[int, str, str]:
    status, out, err = in_process.run(*words)
    return status, out, " ".join(err.split())


def written(path: Path, **columns: object) -> str:
    with open(path, "w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([columns, *zip(*columns.values(), strict=True)])
    return str(path)


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("role", "names"),
    [
        (
            "predicted",
            "y_pred ypred yhat y_hat .pred_class predict prediction pred_label PredictedLabel|Scored Labels|"
            "Prediction (churn)|prediction(label) predicted_label argmax forecast guess",
        ),
        ("right", "correct is_correct is_right was_right accurate acc exact_match pred_correct answer_right gpt_acc"),
        ("wrong", "incorrect is_wrong misclassified"),
        ("true", "y y_true ytrue true_label trueLabel ActualClass obs observed ground_truth gt gold target outcome"),
        ("label", "label Labels class category"),
    ],
)
def test_a_name_says_one_role(role, names):
    for name in re.split(r"[| ](?![LC(])", names):
        assert role_of(name) == role, name


def test_names_that_hold_such_words_in_others_say_nothing():
    for name in ("predator", "corrected_age", "trueness", "copyright", "match_id", "hit", "classy", "risk", "died"):
        assert role_of(name) == "", name


# ---------------------------------------------------------------- the order of classes

WAYS = [  # of writing a class in the name of a column, and a class in a cell
    (lambda word: f"prob_{word}", str),
    (lambda word: f"{word}_prob", str),
    (lambda word: f"p_{word.upper()}", str),
    (lambda word: f"P{word[0].upper()}", lambda word: word[0].upper()),
    (lambda word: f"p_{word[0]}", str),
    (lambda word: word[:3], str.upper),
    (lambda word: f"P (kind={word})", str),
    (lambda word: f"confidence({word})", str),
    (lambda word: f"Tree ({word})", str.title),
    (lambda word: f".pred_{word}", lambda word: word[0]),
    (lambda word: word, lambda word: f"kind-{word}"),
]


@pytest.mark.covering
@pytest.mark.parametrize("way", range(len(WAYS)))
@pytest.mark.parametrize("words", [("home", "draw", "away"), ("low", "medium", "high"), ("cat", "dog")])
def test_labels_are_matched_to_columns_in_any_order(way, words):
    column, cell = WAYS[way]
    for columns in itertools.permutations(words):
        for labels in itertools.permutations(words):
            order = order_of([column(word) for word in columns], [cell(word) for word in labels])
            assert order == tuple(cell(word) for word in columns)


@pytest.mark.parametrize(
    ("columns", "labels"),
    [
        (("PX", "PY", "PZ"), ("H", "D", "A")),
        (("p1", "px", "p2"), ("H", "D", "A")),
        (("win", "tie", "loss"), ("win", "draw", "loss")),
        (("p_cat", "p_dog", "p_eel"), ("0", "1", "2")),
        (("Class1", "Class2"), ("0", "1")),
        (("neg", "neu", "pos"), ("n", "p", "x")),  # n may be two columns
        (("a_b", "b_a"), ("a", "b")),  # by their beginnings one order, by their ends another
        (("p_a", "p_b", "p_c"), ("a",)),  # a single label names no order
        (("p_a", "p_b"), ("a", "a,b")),  # which --labels cannot hold
    ],
)
def test_names_that_leave_a_doubt_give_no_order(columns, labels):
    assert order_of(columns, labels) is None


@pytest.mark.parametrize("pattern", ["prob_{}", "{}_prob", "P {}", "{}"])
def test_classes_of_the_same_initial_are_told_apart_by_more_letters(pattern):
    words = ("negative", "neutral", "positive")
    for columns in itertools.permutations(words):
        order = tuple(word.upper() for word in columns)
        assert order_of([pattern.format(word) for word in columns], sorted(order)) == order
        assert order_of([pattern.format(word[:3]) for word in columns], sorted(order)) == order


@pytest.mark.parametrize(
    ("labels", "score", "event"),
    [
        (("no", "yes"), "prob", "yes"),
        (("yes", "no"), "prob_no", None),  # the name and the words do not agree
        (("lost", "won"), "win_prob", "won"),
        (("default", "paid"), "p_default", "default"),
        (("default", "paid"), "score", None),
        (("disease", "no disease"), "risk", "disease"),
        (("B", "M"), "probability", None),
        (("1", "2"), "p", None),
        (("0", "255"), "p", "255"),
        (("-1", "1"), "p", "1"),
        (("L", "W"), "p", "W"),
        (("incorrect", "correct"), "p", "correct"),
        (("a", "b", "c"), "p_x", None),
    ],
)
def test_the_event_of_two_labels(labels, score, event):
    assert event_of(labels, score) == event
    assert event_of(labels[::-1], score) == event


# ---------------------------------------------------------------- the files of the audit


def readings_of(name: str) -> list[tuple[str, ...]]:
    with pytest.raises(Unnamed) as caught:
        read_predictions([CASES / name])
    return [caught.value.options] if caught.value.options else [each.options for each in caught.value.readings]


def numbers_of(name: str) -> dict[str, np.ndarray]:
    with open(CASES / name, newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    columns = {column: [row[column] for row in rows] for column in rows[0]}
    return {n: np.array(cells, float) for n, cells in columns.items() if all(re.match(r"^[0-9.]+$", c) for c in cells)}


def ece(probs: np.ndarray, outcomes: np.ndarray, notion: str | None = None) -> float:
    return calibrant.evaluate(probs, outcomes.astype(int), notion=notion, n_resamples=0)["ece"].value


@cases
def test_a_predicted_label_beside_its_score():
    c = numbers_of("b_pycaret2.csv")
    assert readings_of("b_pycaret2.csv") == [
        ("--score", "Score", "--outcome", "Label"),
        ("--score", "Score", "--outcome", "Label = Survived"),
        ("--score", "CASE WHEN Label = 1 THEN Score ELSE 1 - Score END", "--outcome", "Survived"),
    ]
    commands = re.findall("type: calibrant (.+?)(?=; \\(|$)", run("report", CASES / "b_pycaret2.csv")[2])
    values = []
    for command in commands:
        status, out, _ = run(*shlex.split(command), "--n-resamples", 0, "--json", "-")
        assert status == 0
        values.append(json.loads(out)["estimates"]["ece"]["value"])
    assert values[1:] == pytest.approx([0.0321, 0.0829], abs=5e-5)
    assert ece(c["Score"], c["Label"] == c["Survived"]) == pytest.approx(0.0321, abs=5e-5)
    of_event = np.where(c["Label"] == 1, c["Score"], 1 - c["Score"])
    assert ece(of_event, c["Survived"]) == pytest.approx(0.0829, abs=5e-5)


@pytest.mark.parametrize(
    ("labels", "events"),
    [
        ((0, 1), [("CASE WHEN guess = 1 THEN", ())]),
        (("false", "true"), [("CASE WHEN guess THEN", ())]),
        (("no", "yes"), [("CASE WHEN guess = 'yes' THEN", ("--labels", "no,yes"))]),
        (
            ("B", "M"),
            [("CASE WHEN guess = 'M' THEN", ("--labels", "B,M")), ("CASE WHEN guess = 'B' THEN", ("--labels", "M,B"))],
        ),
    ],
)
def test_the_event_of_a_score_of_predicted_labels(labels, events, tmp_path):
    rng = np.random.default_rng(3)
    score, guess, truth = rng.uniform(0.5, 1, 60).round(3), rng.integers(0, 2, 60), rng.integers(0, 2, 60)
    words = {name: [labels[code] for code in codes] for name, codes in (("guess", guess), ("actual", truth))}
    path = written(tmp_path / "a.csv", **words, score=score)
    with pytest.raises(Unnamed) as caught:
        read_predictions([path])
    readings = [each.options for each in caught.value.readings]
    assert readings[0] == ("--score", "score", "--outcome", "guess = actual")
    expected = [(f"{start} score ELSE 1 - score END", "--outcome", "actual", *order) for start, order in events]
    assert readings[1:] == [("--score", *each) for each in expected]
    for options in readings[1:]:
        status, out, stderr = run("report", path, *options, "--n-resamples", 0, "--json", "-")
        assert status == 0, stderr
        assert json.loads(out)["estimates"]["brier"]["value"] == pytest.approx(
            np.mean((np.where(guess, score, 1 - score) - truth) ** 2), abs=1e-12
        )


def test_the_event_of_predicted_labels_is_proposed_for_two_labels_and_fractions_alone(tmp_path):
    rng = np.random.default_rng(3)
    score, guess, truth = rng.uniform(0.5, 1, 60).round(3), rng.integers(0, 3, 60), rng.integers(0, 3, 60)
    of_two = {"guess": guess % 2, "actual": truth % 2}
    for path, percent in (
        (written(tmp_path / "a.csv", guess=guess, actual=truth, score=score), False),
        (written(tmp_path / "b.csv", **of_two, score=100 * score), True),
        (written(tmp_path / "c.csv", **of_two, score=score / 2), False),  # below 1/2
    ):
        try:
            read_predictions([path], percent=percent)
        except FileError as error:
            assert "CASE" not in str(error)  # noqa: PT017


@cases
def test_whether_a_prediction_was_right():
    c = numbers_of("m_court.csv")
    event = ("--score", "prob", "--outcome", "(prob >= 0.5) = (correct = 1)")
    readings = [event, (*event, "--notion", "top-label"), ("--score", "prob", "--outcome", "correct")]
    assert readings_of("m_court.csv") == readings
    happened = (c["prob"] >= 0.5) == (c["correct"] == 1)
    sure = np.maximum(c["prob"], 1 - c["prob"])
    assert ece(c["prob"], happened, "top-label") == pytest.approx(ece(sure, c["correct"]), abs=1e-12)
    assert ece(c["prob"], happened) < 0.6 * ece(c["prob"], c["correct"])


def test_whether_predictions_were_right_without_any_probability(tmp_path):
    path = written(tmp_path / "f.csv", right=[0, 1, 1, 0], is_correct=[1, 1, 0, 0])
    with pytest.raises(Unnamed, match="no column has a usual name for the probabilities"):
        read_predictions([path])


@cases
def test_columns_that_name_the_classes():
    assert readings_of("c_foot.csv") == [("--probs", "PH,PD,PA", "--target", "FTR", "--labels", "H,D,A")]
    line = [CASES / "c_foot.csv", "--probs", "PH,PD,PA", "--target", "FTR"]
    message = run("report", *line)[2]
    assert message.endswith("--probs PH,PD,PA --target FTR --labels H,D,A")
    status, out, _ = run(*shlex.split(message.rpartition("type: calibrant ")[2]), "--n-resamples", 0, "--json", "-")
    estimates = json.loads(out)["estimates"]
    assert status == 0
    assert estimates["accuracy"]["value"] == 1
    assert estimates["brier"]["value"] == pytest.approx(0.416, abs=5e-4)


@cases
def test_a_predicted_class_beside_both_probabilities():
    assert readings_of("bb_sklearn2.csv") == [("--score", "y_proba_1", "--outcome", "y_true")]
    rows = read_predictions([CASES / "bb_sklearn2.csv"], score="y_proba_1", outcome="y_true")
    assert np.mean((rows.probs - rows.targets) ** 2) == pytest.approx(0.1334, abs=5e-5)


@cases
def test_a_predicted_class_with_its_confidence():
    assert readings_of("a_predlabel.csv") == [("--score", "pred_prob", "--outcome", "pred_label = true_label")]


def test_a_question_can_be_pickled(tmp_path):
    path = written(tmp_path / "a.csv", prob=[0.2, 0.9, 0.4], correct=[1, 1, 0])
    with pytest.raises(Unnamed) as caught:
        read_predictions([path])
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.readings) == (str(caught.value), caught.value.readings)


@pytest.mark.parametrize("sign", ["", "%"])
def test_per_cents_below_one_half_beside_what_was_right_are_asked_about(tmp_path, sign):
    path = written(tmp_path / "a.csv", prob=[f"{p}{sign}" for p in (20, 90, 40)], correct=[1, 1, 0])
    with pytest.raises(
        Unnamed, match=r"'prob' is below 0\.5 in some rows, but 'correct' shows whether a prediction was correct"
    ) as caught:
        read_predictions([path], percent=True)
    assert [each.options for each in caught.value.readings] == [("--score", "prob", "--outcome", "correct")]
    assert read_predictions([path], percent=True, score="prob", outcome="correct").probs.tolist() == [0.2, 0.9, 0.4]
    path = written(tmp_path / "b.csv", prob=[f"{p}{sign}" for p in (60, 90, 70)], correct=[1, 1, 0])
    assert read_predictions([path], percent=True).probs.tolist() == [0.6, 0.9, 0.7]
    path = written(tmp_path / "c.csv", prob=["low", "high", "low"], correct=[1, 1, 0])
    refuse([path], "holds text such as 'low'")


def test_arrays_of_predicted_labels_ask_for_an_array_of_what_is_right(tmp_path):
    rng = np.random.default_rng(0)
    confidences, predictions, labels = rng.uniform(0.5, 1, 40), rng.integers(0, 3, 40), rng.integers(0, 3, 40)
    np.savez(tmp_path / "a.npz", confidences=confidences, predictions=predictions, labels=labels)
    refuse([tmp_path / "a.npz"], r"save an array of outcomes, 1 for a correct prediction and 0 otherwise$")
    np.savez(tmp_path / "b.npz", confidences=confidences, correct=predictions == labels)
    assert read_predictions([tmp_path / "b.npz"]).probs.tolist() == confidences.tolist()


# ---------------------------------------------------------------- outcomes that the scores predict


def rows_of(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.uniform(size=n).round(4), rng.dirichlet(np.ones(3), n).round(4)


@pytest.mark.parametrize("threshold", [0.5, 0.3])
@pytest.mark.parametrize("kept", [True, False])
def test_an_outcome_that_a_threshold_gives_is_doubted(tmp_path, threshold, kept):
    score, _ = rows_of(60)
    guess = (score >= threshold).astype(int)
    path = written(tmp_path / "a.csv", score=score, outcome=guess)
    sketch = [] if kept else ["--sketch", tmp_path / "a.cal"]
    said = run("report", path, "--n-resamples", 0, *sketch)[2]
    least = score[score >= threshold].min()
    assert f"'outcome' is 1 in every row in which 'score' is {least:.4g} or more, and 0 in all other rows, so" in said
    assert "this looks like the predicted label; if so, name the column of true values with --outcome" in said
    guess[7] = 1 - guess[7]
    path = written(tmp_path / "b.csv", score=score, outcome=guess)
    assert "predicted label" not in run("report", path, "--n-resamples", 0, *sketch)[2]


def test_a_class_that_is_the_likeliest_in_every_row_is_doubted(tmp_path):
    _, probs = rows_of(60)
    np.savez(tmp_path / "a.npz", probs=probs, labels=probs.argmax(axis=1))
    said = run("report", tmp_path / "a.npz", "--n-resamples", 0)[2]
    assert "'labels' is the class of the largest probability in every row of probs, so this looks like the" in said
    np.savez(tmp_path / "b.npz", probs=probs, labels=np.roll(probs.argmax(axis=1), 1))
    assert "predicted label" not in run("report", tmp_path / "b.npz", "--n-resamples", 0)[2]


def test_one_of_several_models_may_have_predicted_the_outcome(tmp_path):
    old, _ = rows_of(60)
    new, _ = rows_of(60, seed=1)
    path = written(tmp_path / "a.csv", old=old, new=new, won=(new >= 0.5).astype(int))
    said = run("compare", path, "--scores", "old,new", "--outcome", "won")[2]
    assert "in which 'new' is" in said
    assert "where 'old' is" not in said


def test_confident_predictions_that_are_all_right_are_not_doubted():
    sure = np.array([0.999, 0.001] * 20)  # 40 rows, of which all are right with probability 0.96
    assert Agreement().with_rows(sure, (sure > 0.5).astype(int), None).doubt("p", "y", one_event=True) is None
    unsure = np.array([0.6, 0.4] * 20)
    doubted = Agreement().with_rows(unsure, (unsure > 0.5).astype(int), None)
    assert doubted.doubt("p", "y", one_event=True) is not None
    assert doubted.log_chance == pytest.approx(40 * np.log(0.6))


def test_agreement_is_the_same_in_any_pieces():
    score, probs = rows_of(50)
    for table, targets in ((score, (score >= 0.4).astype(int)), (probs, probs.argmax(axis=1))):
        whole = Agreement().with_rows(table, targets, None)
        parts = Agreement().with_rows(table[:7], targets[:7], None).with_rows(table[7:], targets[7:], None)
        assert (parts.holds, parts.of_0, parts.of_1) == (whole.holds, whole.of_0, whole.of_1)
        assert parts.log_chance == pytest.approx(whole.log_chance)
        masked = np.append(targets, -1)
        longer = np.concatenate([table, table[:1]])
        assert Agreement().with_rows(longer, masked, -1) == whole
    for probs_, targets in (([0.5, np.nan], [0, 1]), ([0.5, 1.5], [0, 1]), ([0.2, 0.9], [0, 0.5])):
        assert not Agreement().with_rows(np.array(probs_), np.array(targets), None).holds
