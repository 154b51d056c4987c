"""Files of predictions as programs write them: their columns, and which readings of them are right.

The names are those of the programs' own exports. `EXPORTS` says of each what the command may do with it: read it as it
is, propose one reading, ask which of several is meant, or refuse because no column holds the truth.
"""

from __future__ import annotations

import csv
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

ROWS = 60

READS, PROPOSES, ASKS, REFUSES = "reads", "proposes", "asks", "refuses"


@dataclass(frozen=True, eq=False)
class Export:
    """A file, what may be done with it, and its right readings.

    Parameters
    ----------
    columns : mapping of str to sequence
        The file.
    answer : str
        `READS`, `PROPOSES`, `ASKS` or `REFUSES`.
    right : sequence of (probs, outcomes)
        Scores with outcomes 0 and 1, or rows of classes with their indices.
    labels : tuple of str
        The labels of the outcomes where these are no indices, in their order.
    """

    columns: Mapping[str, Sequence[Any]]
    answer: str
    right: Sequence[tuple[NDArray[Any], NDArray[Any]]]
    labels: tuple[str, ...] = ()

    def write(self, folder: Path, ending: str = "csv") -> str:
        """Write the file, and return its name."""
        path = folder / f"export.{ending}"
        columns = {name: np.asarray(values).tolist() for name, values in self.columns.items()}
        rows = list(zip(*columns.values(), strict=True))
        if ending == "parquet":
            pq.write_table(pa.table(columns), path)
        elif ending == "jsonl":
            path.write_text("".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows))
        else:
            with open(path, "w", newline="", encoding="utf-8") as stream:
                csv.writer(stream).writerows([list(columns), *rows])
        return str(path)


class Model:
    """Outcomes of an event and of three classes, and predictions of them that are better than chance."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.p = np.round(np.clip(rng.beta(0.8, 0.8, ROWS), 0.02, 0.98), 4)
        self.p[np.abs(self.p - 0.5) < 0.01] = 0.6
        self.y = (rng.random(ROWS) < 0.15 + 0.7 * self.p).astype(int)
        self.y[:2], self.p[:2] = (0, 1), (0.8, 0.3)  # neither all right nor all of one class
        self.guess = (self.p >= 0.5).astype(int)
        self.confidence = np.maximum(self.p, 1 - self.p).round(4)
        self.right = (self.guess == self.y).astype(int)
        self.age = rng.integers(18, 80, ROWS)
        self.flag = rng.integers(0, 2, ROWS)
        self.fold = rng.integers(1, 6, ROWS)
        self.id = np.arange(1000, 1000 + ROWS)
        self.share = rng.random(ROWS).round(3)
        rows = np.floor(rng.dirichlet(np.full(3, 0.8), ROWS) * 1000) / 1000
        rows[:, 2] = (1 - rows[:, 0] - rows[:, 1]).round(3)
        self.rows = rows
        self.k = np.where(rng.random(ROWS) < 0.6, rows.argmax(axis=1), rng.integers(0, 3, ROWS))
        self.k[:3] = (0, 1, 2)
        self.class_guess = rows.argmax(axis=1)
        self.top = rows.max(axis=1)

    @property
    def q(self) -> NDArray[np.float64]:
        """The probability that the event does not happen."""
        return (1 - self.p).round(4)

    @property
    def event(self) -> tuple[NDArray[Any], NDArray[Any]]:
        return self.p, self.y

    @property
    def opposite(self) -> tuple[NDArray[Any], NDArray[Any]]:
        return self.q, 1 - self.y

    @property
    def answer(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The probability of the predicted label, and whether it is right."""
        return self.confidence, self.right

    @property
    def classes(self) -> tuple[NDArray[Any], NDArray[Any]]:
        return self.rows, self.k

    @property
    def class_answer(self) -> tuple[NDArray[Any], NDArray[Any]]:
        return self.top, (self.class_guess == self.k).astype(int)


def _words(codes: NDArray[Any], *words: str) -> list[str]:
    return [words[code] for code in codes]


def _events(m: Model) -> dict[str, Export]:
    """The probability of one event, or of both its labels."""
    y, p, q, guess, event = m.y, m.p, m.q, m.guess, [m.event]
    no_yes = ("no", "yes")
    words, guesses = _words(y, *no_yes), _words(guess, *no_yes)
    return {
        "val.prob": Export({"p": p, "y": y}, READS, event),
        "scikit-learn, a vector": Export({"y_true": y, "y_prob": p}, READS, event),
        "scikit-learn, labels": Export({"y_true": y, "y_pred": guess, "y_score": p}, READS, event),
        "scikit-learn, both": Export({"y_true": y, "y_pred": guess, "y_proba_0": q, "y_proba_1": p}, PROPOSES, event),
        "scikit-learn, guess first": Export(
            {"y_pred": guess, "y_true": y, "y_proba_0": q, "y_proba_1": p}, PROPOSES, event
        ),
        "scikit-learn, 1 first": Export({"y_proba_1": p, "y_proba_0": q, "y_hat": guess, "y_test": y}, PROPOSES, event),
        "scikit-learn, test": Export({"y_test": y, "y_pred": guess, "y_pred_proba": p}, PROPOSES, event),
        "pycaret 3, raw": Export(
            {"Age": m.age, "Survived": y, "prediction_label": guess, "prediction_score_0": q, "prediction_score_1": p},
            PROPOSES,
            event,
        ),
        "pycaret 2, raw": Export(
            {"Age": m.age, "Survived": y, "Label": guess, "Score_0": q, "Score_1": p}, PROPOSES, event
        ),
        "tidymodels": Export(
            {".pred_class": guesses, ".pred_no": q, ".pred_yes": p, "churn": words}, PROPOSES, event, no_yes
        ),
        "tidymodels, collected": Export(
            {
                "id": _words(guess, "Fold1", "Fold2"),
                ".pred_yes": p,
                ".pred_no": q,
                ".row": m.id,
                "churn": words,
                ".pred_class": guesses,
            },
            PROPOSES,
            event,
            no_yes,
        ),
        "yardstick": Export(
            {
                "truth": _words(y, "Class1", "Class2"),
                "Class1": q,
                "Class2": p,
                "predicted": _words(guess, "Class1", "Class2"),
            },
            ASKS,
            [m.event, m.opposite],
            ("Class1", "Class2"),
        ),
        "h2o": Export({"predict": guess, "p0": q, "p1": p, "churn": y}, PROPOSES, event),
        "h2o, truth first": Export({"churn": y, "predict": guess, "p0": q, "p1": p}, PROPOSES, event),
        "h2o, words": Export({"predict": guesses, "no": q, "yes": p, "response": words}, PROPOSES, event, no_yes),
        "caret": Export(
            {"pred": guesses, "obs": words, "no": q, "yes": p, "rowIndex": m.id, "Resample": _words(guess, "F1", "F2")},
            PROPOSES,
            event,
            no_yes,
        ),
        "caret, numbers": Export({"pred": guess, "obs": y, "no": q, "yes": p}, PROPOSES, event),
        "mlr3": Export(
            {
                "row_ids": m.id,
                "truth": _words(y, "neg", "pos"),
                "response": _words(guess, "neg", "pos"),
                "prob.pos": p,
                "prob.neg": q,
            },
            PROPOSES,
            event,
            ("neg", "pos"),
        ),
        "knime": Export({"churn": y, "P (churn=0)": q, "P (churn=1)": p, "Prediction (churn)": guess}, PROPOSES, event),
        "knime, with confidence": Export(
            {
                "churn": y,
                "P (churn=0)": q,
                "P (churn=1)": p,
                "Prediction (churn)": guess,
                "Prediction (churn) (Confidence)": m.confidence,
            },
            PROPOSES,
            event,
        ),
        "orange": Export(
            {
                "y": words,
                "Logistic Regression": guesses,
                "Logistic Regression (no)": q,
                "Logistic Regression (yes)": p,
                "Fold": m.fold,
            },
            PROPOSES,
            event,
            no_yes,
        ),
        "orange, another name": Export(
            {"survived": words, "Tree": guesses, "Tree (no)": q, "Tree (yes)": p, "Fold": m.fold},
            PROPOSES,
            event,
            no_yes,
        ),
        "rapidminer": Export(
            {"label": words, "prediction(label)": guesses, "confidence(yes)": p, "confidence(no)": q},
            PROPOSES,
            event,
            no_yes,
        ),
        "sas": Export({"churn": y, "I_churn": guess, "P_churn1": p, "P_churn0": q}, PROPOSES, event),
        "alteryx": Export({"Churn": words, "Score_No": q, "Score_Yes": p}, PROPOSES, event, no_yes),
        "azure": Export({"income": y, "Scored Labels": guess, "Scored Probabilities": p}, PROPOSES, event),
        "azure, words": Export(
            {
                "income": _words(y, "<=50K", ">50K"),
                "Scored Labels": _words(guess, "<=50K", ">50K"),
                "Scored Probabilities": p,
            },
            PROPOSES,
            [m.event, (p, 1 - y)],
            ("<=50K", ">50K"),
        ),
        "sagemaker": Export({"label": y, "predicted_label": guess, "score": p}, READS, event),
        "datarobot": Export(
            {
                "row_id": m.id,
                "readmitted": _words(y, "False", "True"),
                "readmitted_True_PREDICTION": p,
                "readmitted_False_PREDICTION": q,
                "readmitted_PREDICTION": _words(guess, "False", "True"),
                "THRESHOLD": [0.5] * ROWS,
                "POSITIVE_CLASS": ["True"] * ROWS,
            },
            PROPOSES,
            event,
        ),
        "datarobot, one column": Export(
            {"row_id": m.id, "Cross-Validation Prediction": p, "readmitted": y}, PROPOSES, event
        ),
        "autogluon": Export({"label": y, "0": q, "1": p}, PROPOSES, event),
        "autogluon, words": Export({"class": words, "no": q, "yes": p}, PROPOSES, event, no_yes),
        "dataiku": Export({"churn": y, "proba_0": q, "proba_1": p, "prediction": guess}, PROPOSES, event),
        "mlflow": Export({"target": y, "prediction": guess, "prob": p}, READS, event),
        "evidently": Export({"target": y, "prediction": p}, PROPOSES, event),
        "arize": Export({"actual_label": y, "prediction_label": guess, "prediction_score": p}, PROPOSES, event),
        "ml.net": Export({"Label": y, "PredictedLabel": guess, "Probability": p}, READS, event),
        "catboost": Export(
            {"SampleId": m.id, "RawFormulaVal": np.log(p / q).round(3), "Probability": p, "Class": guess, "Label": y},
            PROPOSES,
            event,
        ),
        "gold": Export({"gold": y, "pred_label": guess, "prob_0": q, "prob_1": p}, PROPOSES, event),
        "kaggle": Export({"id": m.id, "target": y, "pred": p}, PROPOSES, event),
        "ranger": Export({"actual": words, "predicted": guesses, "P.no": q, "P.yes": p}, PROPOSES, event, no_yes),
        "named alike, among features": Export(
            {"age_scaled": m.share, "sex": m.flag, "survived": y, "prob_survived": p}, PROPOSES, event
        ),
        "stata": Export({"died": y, "phat_died": p, "male": m.flag}, PROPOSES, event),
        "weather": Export({"fcst_prob": p, "obs": y}, PROPOSES, event),
        "markets": Export({"question_id": m.id, "probability": p, "resolution": words}, PROPOSES, event, no_yes),
        "games": Export(
            {"team": _words(guess, "a", "b"), "win_prob": p, "result": _words(y, "lost", "won")},
            PROPOSES,
            event,
            ("lost", "won"),
        ),
        "the event by the score's name": Export(
            {"p_default": p, "status": _words(y, "paid", "default")}, PROPOSES, event, ("paid", "default")
        ),
        "two models": Export({"churned": y, "prob_a": p, "prob_b": m.share}, ASKS, [m.event, (m.share, y)]),
        "two outcomes": Export({"model_output": p, "died": y, "male": m.flag}, ASKS, [m.event, (p, m.flag)]),
        "both sides of games": Export(
            {"prob1": p, "prob1_outcome": y, "prob2": q, "prob2_outcome": 1 - y}, PROPOSES, [m.event, m.opposite]
        ),
    }


def _answers(m: Model) -> dict[str, Export]:
    """The probability of the predicted label, or whether it was right."""
    y, guess, sure = m.y, m.guess, m.confidence
    answer, answers = [m.answer], [m.answer, m.event]  # of two labels the event is the other question
    no_yes = ("no", "yes")
    words, guesses = _words(y, *no_yes), _words(guess, *no_yes)
    signs, guessed_signs = _words(y, "NEGATIVE", "POSITIVE"), _words(guess, "NEGATIVE", "POSITIVE")
    kinds, guessed_kinds = _words(m.k, "cat", "dog", "eel"), _words(m.class_guess, "cat", "dog", "eel")
    return {
        "pycaret 3": Export(
            {"Age": m.age, "Survived": y, "prediction_label": guess, "prediction_score": sure}, ASKS, answers
        ),
        "pycaret 2": Export(
            {"Age": m.age, "Survived": y, "Label": guess, "Score": sure}, ASKS, [*answers, (sure, guess)]
        ),
        "weka": Export(
            {
                "inst#": m.id,
                "actual": _words(y, "1:no", "2:yes"),
                "predicted": _words(guess, "1:no", "2:yes"),
                "error": _words(m.right, "+", ""),
                "prediction": sure,
            },
            ASKS,
            answers,
        ),
        "spss": Export({"churn": words, "$N-churn": guesses, "$NC-churn": sure}, ASKS, [*answers, (sure, y)], no_yes),
        "knime, confidence alone": Export(
            {"churn": words, "Prediction (churn)": guesses, "Prediction (churn) (Confidence)": sure}, ASKS, answers
        ),
        "sagemaker, confidence": Export({"label": y, "predicted_label": guess, "score": sure}, ASKS, answers),
        "bigquery": Export({"predicted_label": guesses, "prob": sure, "label": words}, ASKS, answers),
        "hugging face": Export({"label": guessed_signs, "score": sure}, REFUSES, []),
        "hugging face, numbers": Export({"label": guess, "score": sure}, REFUSES, []),
        "hugging face, with truth": Export(
            {"text": m.id, "true_label": signs, "label": guessed_signs, "score": sure}, ASKS, answers
        ),
        "gold": Export({"gold": signs, "pred_label": guessed_signs, "prob": sure}, ASKS, answers),
        "images": Export(
            {"filename": m.id, "true_label": kinds, "pred_label": guessed_kinds, "pred_prob": m.top},
            PROPOSES,
            [m.class_answer],
        ),
        "images, other words": Export(
            {"path": m.id, "Actual Class": kinds, "Predicted Class": guessed_kinds, "Confidence": m.top},
            PROPOSES,
            [m.class_answer],
        ),
        "images, reserved words": Export(
            {"order": m.id, "truth": kinds, "guess": guessed_kinds, "top1 prob": m.top}, PROPOSES, [m.class_answer]
        ),
        "references": Export(
            {"references": m.k, "predictions": m.class_guess, "confidence": m.top}, PROPOSES, [m.class_answer]
        ),
        "labels as predictions": Export({"label": y, "predictions": guess}, REFUSES, []),
        "language model": Export(
            {"question_id": m.id, "confidence": m.top, "correct": m.class_answer[1]}, READS, [m.class_answer]
        ),
        "language model, one half or more": Export({"prob": sure, "correct": m.right}, READS, answer),
        "court": Export({"case": m.id, "prob": m.p, "correct": m.right}, ASKS, [m.event, (m.p, m.right)]),
        "court, words": Export(
            {"case": m.id, "prob": m.p, "correct": _words(m.right, "no", "yes")},
            ASKS,
            [m.event, (m.p, m.right)],
            no_yes,
        ),
        "court, truth values": Export(
            {"case": m.id, "prob": m.p, "is_correct": _words(m.right, "false", "true")}, ASKS, [m.event, (m.p, m.right)]
        ),
        "court, another name": Export(
            {"case": m.id, "prob": m.p, "is_right": m.right}, ASKS, [m.event, (m.p, m.right)]
        ),
        "hugging face, with answers": Export(
            {"label": guessed_signs, "score": sure, "correct": m.right},
            ASKS,
            [m.answer, (sure, guess)],
            ("NEGATIVE", "POSITIVE"),
        ),
        "right, and a label": Export({"prob": m.p, "label": y, "correct": m.right}, PROPOSES, [m.event]),
        "right, and a predicted label": Export(
            {"prob": m.p, "label": guess, "correct": m.right}, ASKS, [m.event, (m.p, m.right)]
        ),
        "right, beside classes": Export({"p_0": 1 - m.p, "p_1": m.p, "correct": m.right}, REFUSES, []),
        "right, and a decision": Export(
            {"Probability": m.p, "Decision": guess, "Actual Outcome": y, "Accurate": m.right}, PROPOSES, [m.event]
        ),
        "loud": Export({"PREDICTED_CLASS": guess, "CLASS_PROBABILITY": sure, "ACTUAL_CLASS": y}, ASKS, answers),
        "camels": Export({"predictedLabel": guesses, "maxProbability": sure, "trueLabel": words}, ASKS, answers),
        "right, and the truth": Export({"risk": m.p, "correct": m.right, "won": y}, PROPOSES, [m.event]),
    }


def _classes(m: Model) -> dict[str, Export]:
    """The probabilities of three classes."""
    a, b, c = m.rows.T
    right = [m.classes]
    football = _words(m.k, "H", "D", "A")
    signs = _words(m.k, "negative", "neutral", "positive")
    loud = tuple(word.upper() for word in ("negative", "neutral", "positive"))
    flowers = ("Iris-setosa", "Iris-versicolor", "Iris-virginica")
    return {
        "football": Export(
            {"Date": m.id, "FTR": football, "PH": a, "PD": b, "PA": c}, PROPOSES, right, ("H", "D", "A")
        ),
        "football, prefixed": Export(
            {"FTR": football, "prob_H": a, "prob_D": b, "prob_A": c}, PROPOSES, right, ("H", "D", "A")
        ),
        "football, words": Export(
            {"home_prob": a, "draw_prob": b, "away_prob": c, "result": football}, PROPOSES, right, ("H", "D", "A")
        ),
        "football, wins": Export(
            {"HomeWin": a, "Draw": b, "AwayWin": c, "Res": football}, PROPOSES, right, ("H", "D", "A")
        ),
        "sentiment": Export(
            {"prob_NEGATIVE": a, "prob_NEUTRAL": b, "prob_POSITIVE": c, "label": signs},
            READS,
            right,
            ("negative", "neutral", "positive"),
        ),
        "sentiment, suffixed": Export(
            {"neutral_prob": b, "positive_prob": c, "negative_prob": a, "sentiment": signs},
            PROPOSES,
            [(m.rows[:, [1, 2, 0]], (m.k + 2) % 3)],
            ("neutral", "positive", "negative"),
        ),
        "vader": Export(
            {"text": m.id, "neg": a, "neu": b, "pos": c, "gold": _words(m.k, *loud)}, PROPOSES, right, loud
        ),
        "iris": Export(
            {"species": _words(m.k, *flowers), "p_setosa": a, "p_versicolor": b, "p_virginica": c},
            PROPOSES,
            right,
            flowers,
        ),
        "rapidminer": Export(
            {
                "label": _words(m.k, "x", "y", "z"),
                "prediction(label)": _words(m.class_guess, "x", "y", "z"),
                "confidence(x)": a,
                "confidence(y)": b,
                "confidence(z)": c,
            },
            PROPOSES,
            right,
            ("x", "y", "z"),
        ),
        "h2o": Export(
            {
                "predict": _words(m.class_guess, "x", "y", "z"),
                "x": a,
                "y": b,
                "z": c,
                "kind": _words(m.k, "x", "y", "z"),
            },
            PROPOSES,
            right,
            ("x", "y", "z"),
        ),
        "orange": Export(
            {
                "iris": _words(m.k, *flowers),
                "kNN": _words(m.class_guess, *flowers),
                **{f"kNN ({f})": m.rows[:, k] for k, f in enumerate(flowers)},
            },
            PROPOSES,
            right,
            flowers,
        ),
        "scikit-learn": Export(
            {"y_true": m.k, "y_pred": m.class_guess, "proba_0": a, "proba_1": b, "proba_2": c}, READS, right
        ),
        "scikit-learn, backwards": Export(
            {"y_true": m.k, "y_pred": m.class_guess, "cls2": c, "cls1": b, "cls0": a},
            PROPOSES,
            [(m.rows[:, ::-1], 2 - m.k)],
            ("2", "1", "0"),
        ),
        "from 1": Export({"y": m.k + 1, "class_1": a, "class_2": b, "class_3": c}, PROPOSES, right, ("1", "2", "3")),
        "autogluon": Export({"kind": m.k, "0": a, "1": b, "2": c}, PROPOSES, right),
        "names that say nothing": Export({"PX": a, "PY": b, "PZ": c, "result": football}, REFUSES, []),
        "names that match in part": Export({"p1": a, "px": b, "p2": c, "result": football}, REFUSES, []),
        "numbers beside names": Export({"cat": a, "dog": b, "eel": c, "target": m.k}, ASKS, right),
        "no truth": Export({"PH": a, "PD": b, "PA": c, "goals": m.age}, REFUSES, []),
        "no truth but a guess": Export(
            {"PH": a, "PD": b, "PA": c, "pred": _words(m.class_guess, "H", "D", "A")}, REFUSES, []
        ),
    }


def exports(seed: int) -> dict[str, Export]:
    """Return all exports with the predictions of a seed."""
    kinds = {"event": _events, "answer": _answers, "classes": _classes}
    models = {kind: Model(zlib.crc32(f"{kind} {seed}".encode())) for kind in kinds}
    return {f"{kind}: {name}": each for kind, make in kinds.items() for name, each in make(models[kind]).items()}
