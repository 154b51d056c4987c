"""Certified thresholds of the questions of a decision log, with one promise for all of them together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from calibrant.errors import InputError, check_choice, quoted
from calibrant.inputs.decision_log import DecisionLog, Question
from calibrant.render.blocks import Document, Source
from calibrant.render.shown import NO_SOURCE, ShownByQuestion
from calibrant.report import evaluated_data
from calibrant.results.values import frame_of
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.thresholds.asked import ThresholdOptions, as_confidence, as_risk, separating
from calibrant.thresholds.certify import jointly
from calibrant.thresholds.ranked import Judged
from calibrant.thresholds.result import Method, Side, Threshold, ThresholdResult, TwoSidedThreshold

if TYPE_CHECKING:
    import pandas as pd

#: The version of the dictionary and the JSON.
SCHEMA_VERSION: Final = 1
#: The version of the file of gates that jev-eval and its readers share.
GATES_VERSION: Final = 1

_METHODS: Final = ("closed", "fixed-sequence")
_GATES_KIND: Final = {"predicate": "noul"}  # the name of a kind in the file of gates

#: A group of rows, or an empty text for all; and a question, or None for all choices and scores together.
_Key = tuple[str, str | None]


class Gate(NamedTuple):
    """The lowest confidence at which an answer is accepted automatically, for programs that read a file of gates.

    The confidence of a predicate is ``2 |p - 1/2|``, and otherwise the largest probability.

    Attributes
    ----------
    threshold : float
        The lowest confidence that is accepted, in [0, 1].
    coverage : float
        The share of all answers and refusals that are accepted, in [0, 1].
    """

    threshold: float
    coverage: float


@dataclass(frozen=True, eq=False, kw_only=True)
class QuestionThresholds(ShownByQuestion[ThresholdResult]):
    """The result of `certify_questions`: a mapping from the name of each question to its certified thresholds.

    It is a `TwoSidedThreshold` for a predicate, and a `Threshold` of the largest probability for a choice or a score.

    Attributes
    ----------
    questions : mapping of str to ThresholdResult
        The thresholds of each question.
    composite : Threshold or None
        One threshold for all choices and scores, on the smallest of their confidences for an input. The input counts as
        right only if all these answers are right. None with fewer than two such questions, or without an input that has
        labelled answers to all.
    composite_of : tuple of str
        The choices and scores.
    by_group : mapping of str to QuestionThresholds
        The thresholds in each group of the log's rows, certified together.
    max_risk, confidence : float
        The promise: with this confidence, no error rate is above ``max_risk``.
    each : bool
        Whether each question, also of a group, has a promise of its own.
    log : DecisionLog
        The log.
    """

    questions: Mapping[str, ThresholdResult]
    composite: Threshold | None
    composite_of: tuple[str, ...]
    by_group: Mapping[str, QuestionThresholds]
    max_risk: float
    confidence: float
    each: bool
    log: DecisionLog

    @property
    def certified(self) -> bool:
        """Whether there is a threshold of a question, or of all choices and scores together."""
        every = [*self.questions.values(), *([] if self.composite is None else [self.composite])]
        return any(found.certified for found in every) or any(part.certified for part in self.by_group.values())

    def gate(self, name: str) -> Gate | None:
        """Return the certified gate of a question, or None; a predicate needs a certified threshold on both sides."""
        found, question = self[name], self.log[name]
        if isinstance(found, Threshold):
            return None if found.value is None else Gate(float(found.value), found.coverage)
        ends = [side.value for side in found.sides]
        if None in ends:
            return None
        threshold = float(np.max(_of_yes(np.array(ends, np.float64))))
        acted = int(np.count_nonzero(_gate_confidence(question) >= threshold))
        return Gate(threshold, acted / (question.n + question.referred))

    def observed_gate(self, name: str) -> Gate | None:
        """Return the lowest gate whose error rate in these rows is at most ``max_risk``; None without one.

        It promises nothing: its true error rate is above ``max_risk`` in about half of all samples.
        """
        question = self.log[name]
        values, places = np.unique(-_gate_confidence(question), return_inverse=True)
        rows = np.cumsum(np.bincount(places, minlength=len(values)))
        wrong = np.cumsum(np.bincount(places[~question.right], minlength=len(values)))
        kept = np.flatnonzero(wrong <= self.max_risk * rows)
        if not len(kept):
            return None
        return Gate(float(-values[kept[-1]]), float(rows[kept[-1]]) / (question.n + question.referred))

    def gates(self, generated_at: str = "") -> dict[str, Any]:
        """Return the certified gates as the version 1 of ``thresholds.json``, which jev-eval and its readers load.

        ``accuracy`` is the certified lower bound, 1 - ``max_risk``; ``coverage`` is a share of all answers and
        refusals. A question without a certified gate is left out. For a predicate, both answers need a certified
        threshold.

        Parameters
        ----------
        generated_at : str
            The time to write into the file, such as "2026-11-29T12:00:00Z".

        Raises
        ------
        calibrant.errors.InputError
            For the log of several models. Also if stated confidences differ from the largest probability: certify
            ``log.stated()`` instead, because programs apply the gate to the stated confidence.
        """
        if len(self.log.models) > 1:
            names = ", ".join(map(quoted, self.log.models[:3]))
            expected = "the log of one model, because a file of gates belongs to one model"
            raise InputError("log", expected, names, "certify the log of each model alone")
        for name, question in self.log.items():
            if question.differing:
                got = f"other confidences in {question.differing:,} answers to {quoted(name)}"
                remedy = (
                    "certify log.stated() (--stated), because programs that read the certified thresholds compare "
                    "stated confidences with them"
                )
                raise InputError(
                    "log", "stated confidences equal to the largest probability of each answer", got, remedy
                )
        accuracy, found = 1 - self.max_risk, {}
        for name, question in self.log.items():
            if (gate := self.gate(name)) is not None:
                kind = {"type": _GATES_KIND.get(question.kind, question.kind)}
                found[name] = {**kind, **_entry(gate, accuracy), "n": question.n}
        gates = {
            "version": GATES_VERSION,
            "model": next(iter(self.log.models), ""),
            "generatedAt": generated_at,
            "guard": {
                "method": "certified",
                "maxRisk": self.max_risk,
                "confidence": self.confidence,
                "together": not self.each,
            },
            "tolerance": 0,
            "questions": found,
        }
        composite = self.composite
        if composite is not None and composite.value is not None:
            entry = _entry(Gate(composite.value, composite.coverage), accuracy)
            gates["composite"] = {**entry, "n": composite.n, "questions": list(self.composite_of)}
        return gates

    def _document(self, source: Source = NO_SOURCE, *, full: bool = False, complete: bool = False) -> Document:
        from calibrant.thresholds.question_threshold_document import document_of

        return document_of(self, source, full=full, observed=complete)

    def to_dict(self) -> dict[str, Any]:
        """Return every number as plain Python values that are strict JSON; numbers that are not finite are None."""
        return {
            "schema_version": SCHEMA_VERSION,
            "n": self.log.n,
            "models": list(self.log.models),
            "max_risk": self.max_risk,
            "confidence": self.confidence,
            "each": self.each,
            **self._plain(),
            "groups": [{"name": name, **part._plain()} for name, part in self.by_group.items()],
        }

    def _plain(self) -> dict[str, Any]:
        def one(name: str, found: ThresholdResult) -> dict[str, Any]:
            question = self.log[name]
            certified, observed = (
                None if gate is None else gate._asdict() for gate in (self.gate(name), self.observed_gate(name))
            )
            facts = {"name": name, "kind": question.kind, "refusals": question.refusals}
            return {**facts, "gate": certified, "observed_gate": observed, **found.to_dict(curves=False)}

        return {
            "questions": [one(name, found) for name, found in self.items()],
            "composite": None if self.composite is None else self.composite.to_dict(curves=False),
            "composite_of": list(self.composite_of),
        }

    def to_pandas(self) -> pd.DataFrame:
        """Return a frame of pandas with a row for each question: its thresholds, their coverage and observed risk."""
        rows = []
        for name, found in self.items():
            sides = {side.side: side for side in found.sides}
            values = {f"{side}": sides[side].value if side in sides else None for side in ("yes", "no")}
            row = {"question": name, "kind": self.log[name].kind, "rows": found.n, "refusals": self.log[name].refusals}
            rows.append({**row, **values, "coverage": found.coverage, "risk": found.risk})
        return frame_of(rows, "question")

    def __repr__(self) -> str:
        certified = sum(found.certified for found in self.questions.values())
        return f"<QuestionThresholds: {certified:,} of {len(self):,} questions have a certified threshold>"


def certify_questions(
    log: DecisionLog,
    /,
    *,
    max_risk: float = 0.05,
    confidence: float = 0.95,
    method: Method | None = None,
    each: bool = False,
) -> QuestionThresholds:
    """Return, for each question of a decision model, the lowest confidence of automatic answers.

    A predicate gets two thresholds, as by `certify_two_sided`: the decision is yes at or above one probability, and no
    at or below the other. A question of the kind choice or score gets one threshold, on its largest probability, as by
    `certify_threshold`. Two or more such questions also get one composite threshold, on the smallest of their
    confidences for an input. An input then counts as right only if all these answers are right. The promise: over
    repeated samples, the probability that any of the returned thresholds has a risk above ``max_risk`` is at most
    1 - ``confidence``.

    Parameters
    ----------
    log : DecisionLog
        What `read_decisions` returns. If its rows have groups, each group gets thresholds of its own too, with a
        promise for all groups together.
    max_risk : float, default 0.05
        The largest acceptable error rate of the automatic answers to a question, in (0, 0.5].
    confidence : float, default 0.95
        The probability that all promises are kept, in [0.5, 1).
    method : {"closed", "fixed-sequence"}, default "closed"
        As in `certify_threshold`.
    each : bool, default False
        Whether the promise is made for each question, and in groups for each question of a group, alone.

    Returns
    -------
    QuestionThresholds
        A mapping from the name of each question to its `Threshold` or `TwoSidedThreshold`. ``reason`` says why there is
        none, and ``flag`` is a caution, such as about scores that separate the outcomes without an error. Refusals are
        cases that are never automatic: ``coverage`` is a share of answers and refusals.

    Raises
    ------
    calibrant.errors.InputError
        For something else than a log, and as `certify_threshold` for the other arguments.

    Notes
    -----
    The error probability 1 - ``confidence`` is split equally between the questions and the composite threshold. A
    question in which every decision is certified passes its part on (Holm). This is valid whatever the dependence of
    the answers of one input. A predicate shares its part equally between yes and no. Refusals among answers without a
    label are assumed to be as frequent as among those with one. Cost: as `certify_threshold` for each question.

    References
    ----------
    Holm (1979). Bretz et al. (2009), doi 10.1002/sim.3495.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant
    >>> rng = np.random.default_rng(0)
    >>> rows = [
    ...     {"answers": {"urgent": {"noul": p}}, "labels": {"urgent": bool(rng.random() < p)}}
    ...     for p in rng.beta(0.2, 0.2, 2_000).round(4).tolist()
    ... ]
    >>> gates = calibrant.certify_questions(calibrant.read_decisions(rows), max_risk=0.1)
    >>> round(gates["urgent"].no.value, 2), round(gates["urgent"].yes.value, 2)
    (0.45, 0.66)
    """
    given: object = log
    if not isinstance(given, DecisionLog):
        remedy = "pass what read_decisions returns; for arrays, use certify_threshold or certify_two_sided"
        raise InputError("log", "a DecisionLog", type(given).__name__, remedy)
    max_risk, confidence = as_risk("max_risk", max_risk), as_confidence(confidence)
    method = "closed" if method is None else method
    check_choice("method", method, _METHODS)
    asked = ThresholdOptions(method, confidence, None)
    common: dict[str, Any] = {"max_risk": max_risk, "confidence": confidence, "each": each}
    whole = _thresholds({"": log}, asked, common)[""]
    groups = {group: log.of_group(group) for group in sorted(set(log.groups))}
    return _made(log, whole.questions, whole.composite, common, _thresholds(groups, asked, common) if groups else {})


def _made(
    log: DecisionLog,
    questions: Mapping[str, ThresholdResult],
    composite: Threshold | None,
    common: Mapping[str, Any],
    by_group: Mapping[str, QuestionThresholds],
) -> QuestionThresholds:
    return QuestionThresholds(
        questions=questions,
        composite=composite,
        composite_of=tuple(_confident(log)),
        by_group=by_group,
        log=log,
        **common,
    )


def _thresholds(
    logs: Mapping[str, DecisionLog], asked: ThresholdOptions, common: Mapping[str, Any]
) -> dict[str, QuestionThresholds]:
    """Return the thresholds of the questions of logs, all certified together."""
    family: dict[_Key, tuple[Judged, tuple[Side, ...]]] = {}
    for group, log in logs.items():
        for name, question in log.items():
            sides: tuple[Side, ...] = ("yes", "no") if question.kind == "predicate" else ("yes",)
            judged = Judged.of(
                evaluated_data.of_arguments(question.probs, question.targets, class_names=question.class_names)
            )
            family[group, name] = judged._replace(referred=question.referred), sides
        composite = _composite(log)
        if composite is not None:
            family[group, None] = composite, ("yes",)
    parts = [{key: entry} for key, entry in family.items()] if common["each"] else [family]
    found = {key: sides for part in parts for key, sides in jointly(part, asked, common["max_risk"]).items()}
    return {
        group: _made(
            log,
            {name: _result(found[group, name], asked.confidence, family[group, name][0]) for name in log},
            found[group, None][0] if (group, None) in found else None,
            common,
            {},
        )
        for group, log in logs.items()
    }


def _result(sides: tuple[Threshold, ...], confidence: float, judged: Judged) -> ThresholdResult:
    """Return the thresholds of a question, with a caution if its labels may be the answers of the model."""
    score = separating(judged.ranked())
    if score is not None:
        flag = (
            f"the threshold {score:.6g} separates the outcomes perfectly; "
            "check that the labels are not the answers of the model"
        )
        sides = tuple(replace(side, flag="; ".join(filter(None, (side.flag, flag)))) for side in sides)
    return sides[0] if len(sides) == 1 else TwoSidedThreshold(yes=sides[0], no=sides[1], confidence=confidence)


def _confident(log: DecisionLog) -> list[str]:
    """Return the questions whose answers have a confidence: choices and scores."""
    return [name for name, question in log.items() if question.kind != "predicate"]


def _composite(log: DecisionLog) -> Judged | None:
    """Return the smallest confidence of each input and whether all answers are right; None for fewer than 2 questions.

    An input counts if it has an answer with a label, or a refusal, for every question; with a refusal it is referred.
    """
    names = _confident(log)
    if len(names) < 2 or not len((found := log.together(names)).right):
        return None
    judged = Judged.of(evaluated_data.of_arguments(found.least, found.right))
    return judged._replace(referred=float(found.refused))


def _of_yes(p: Float64s) -> Float64s:
    """Return the confidence of predicates, as readers of a file of gates calculate it."""
    return np.asarray(np.abs(p - 0.5) * 2)


def _gate_confidence(question: Question) -> Float64s:
    return _of_yes(question.probs) if question.kind == "predicate" else question.largest


def _entry(gate: Gate, accuracy: float) -> dict[str, Any]:
    return {"threshold": gate.threshold, "accuracy": accuracy, "coverage": gate.coverage}
