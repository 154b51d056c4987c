"""What the name of a column says: usual names, and words that say what a column holds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from calibrant.files.class_names import words_of


class Usual(NamedTuple):
    """Names that are read without a question, and how an error asks for others: for columns, and for arrays."""

    names: tuple[str, ...]
    prefixes: tuple[str, ...]
    what: str
    wanted: Mapping[str, str]
    examples: Mapping[str, str]


def all_of(words: str) -> tuple[str, ...]:
    """Return the words of a text."""
    return tuple(words.split())


USUAL: Final = {
    "probs": Usual(
        all_of("""
            probs prob probability probabilities proba predictions predicted_probability pred_prob y_prob y_proba
            y_score score scores confidence confidences softmax p logits logit
        """),
        ("p_", "prob_", "probs_", "proba_", "probability_", "logit_", "logits_"),
        "the probabilities",
        {"column": "--score (one event) or --probs (many classes)", "array": "--probs"},
        {"column": "probs, p_*, probability, score", "array": "probs, predictions, logits"},
    ),
    "targets": Usual(
        all_of("""
            target targets label labels true_label true_labels y y_true outcome outcomes ground_truth groundtruth truth
            gt correct is_correct event obs observed class
        """),
        (),
        "the targets",
        {"column": "--outcome (one event) or --target (many classes)", "array": "--target"},
        dict.fromkeys(("column", "array"), "target, label, y, outcome"),
    ),
}

#: What a word of a name, or its plural, says that the column holds.
WORDS: Final = {
    "right": all_of("correct correctness"),
    "predicted": all_of("""
        pred predict predicted predicting prediction ypred yhat hat scored classified assigned inferred guess
        guessed estimate estimated forecast forecasted argmax call called
    """),
    "wrong": all_of("incorrect wrong misclassified"),
    "true": all_of("""
        true truth ytrue gold golden gt ground groundtruth actual actually observed obs real reference target
        outcome resolution resolved annotated annotation human
    """),
    "label": all_of("label class category categories"),
    "confidence": all_of("conf confidence certainty chosen top max msp"),
    # Things that have several rows, and what of them is something else; then what names one with other columns.
    "thing": all_of("""
        patient subject participant person respondent user customer client member student pupil player candidate
        question prompt image img picture photo video document doc article game match race election session
        conversation household family hospital clinic school id uid uuid
    """),
    "of a thing": all_of("date time day type kind status result score prob count age"),
    "side": all_of("team club home away opponent side fighter station store site product symbol"),
    "rank": all_of("rank ranking decile percentile quantile quintile quartile grade rating stars position"),
    "answer": all_of("answer response reply output completion choice option selected"),
    "log-odds": all_of("margin logit logodds lin linpred xb raw decision"),
    "points": all_of("score point pts goal run final"),
    "follow-up": all_of("time duration followup follow futime survtime tte"),
    "odds": all_of("odds moneyline moneylines cote cotes quote quoten cuota cuotas quota"),
    "when": all_of("season year month week day date round leg"),
}
#: Whole names, as words, that say the same; some words of `right` do only alone or after another one.
_PHRASES: Final = {
    "right": re.compile(
        r"(?:.+ )?(?:exact match|acc)"
        r"|(?:(?:is|was|exact|pred|prediction|answer|model) )?(?:right|accurate|match|matched)"
        r"|(?:is|was|exact|pred|prediction|answer|model) hit"
    ),
    "true": re.compile("y"),
}
#: Names such as ``correct_answer``, which say what is true, and not whether a prediction was.
_TRUE_ANSWER: Final = re.compile(r"(?:.+ )?(?:correct|right) (?:answer|label|option|class|choice|category|letter)s?")
#: The roles of a column next to scores. A name has the first that it says; the first three are of a prediction.
_ROLES: Final = ("right", "predicted", "wrong", "true", "label")
OF_A_PREDICTION: Final = _ROLES[:3]
#: Names that are preferred, where the values allow several columns.
LIKE_SCORES: Final = re.compile(r"prob|score|pred|risk|chance|conf|forecast|^p(_|$)|_p$", re.IGNORECASE)
#: Names of logarithms of probabilities, and of p-values, which are not probabilities of an event.
LIKE_LOGS: Final = re.compile(r"log_?p(rob(abilit(y|ies))?)?s?(_|$)|log_?lik", re.IGNORECASE)
P_VALUES: Final = re.compile(r"(^|[^a-z])p[ _.-]?val(ue)?s?([^a-z]|$)", re.IGNORECASE)
#: Names of quantiles of a number.
QUANTILES: Final = re.compile(r"(q|quantile|percentile)[ _.-]?[0-9.]+", re.IGNORECASE)
#: A time in the name of a risk, such as ``risk_5y``.
HORIZON: Final = re.compile(
    r"(?<![0-9])[0-9]+[ _-]?(y|yr|yrs|year|years|m|mo|month|months|d|day|days)(?![a-z])", re.IGNORECASE
)
LIKE_OUTCOMES: Final = re.compile(
    r"outcome|label|target|true|truth|actual|obs|result|won|win|event|hit|class|^y(_|$)", re.IGNORECASE
)


def has_word(name: str, what: str) -> bool:
    """Whether a word of a name, or its singular, says what the column holds."""
    return any(form in WORDS[what] for word in words_of(name) for form in (word, word.removesuffix("s")))


@lru_cache(4096)
def role_of(name: str) -> str:
    """Return the role that a name says, such as ``"right"`` or ``"true"``; empty if it says none."""
    phrase = " ".join(words_of(name))
    if _TRUE_ANSWER.fullmatch(phrase):
        return "true"
    said = (role for role in _ROLES if has_word(name, role) or (role in _PHRASES and _PHRASES[role].fullmatch(phrase)))
    return next(said, "")
