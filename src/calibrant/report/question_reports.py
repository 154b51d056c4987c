"""The reports on the questions of a decision log, as a value. They are those of groups, with other columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from calibrant.inputs.decision_log import DecisionLog, Question
from calibrant.render.blocks import Document, Source
from calibrant.render.shown import NO_SOURCE, ShownByQuestion
from calibrant.report.report import GroupReport, Report, group_row
from calibrant.results.values import frame_of
from calibrant.runtime.dataclass import dataclass
from calibrant.runtime.progress import counted

if TYPE_CHECKING:
    import pandas as pd

#: The version of the dictionary and the JSON.
SCHEMA_VERSION: Final = 1
#: What the dictionary has of a `Question`.
_FACTS: Final = ("kind", "mean_confidence", "refusals", "unanswered", "unlabelled", "differing", "fixed")


@dataclass(frozen=True, eq=False, kw_only=True)
class QuestionReport:
    """The report on one question, and whether it stands out among all questions.

    Attributes
    ----------
    question : Question
        The question: its answers, and how many were not evaluated.
    tested : GroupReport
        Its test with the p-value after Holm's correction for the number of questions, its errors and its report.
    accuracy : float
        The share of right answers: of the likeliest option, or of yes from a probability of 0.5 on.
    """

    question: Question
    tested: GroupReport
    accuracy: float

    def to_dict(self, *, whole: bool = True) -> dict[str, Any]:
        """Return every number as plain Python values that are strict JSON; see `GroupReport.to_dict`."""
        group = self.tested.to_dict(whole=whole)
        own = {name: getattr(self.question, name) for name in _FACTS}
        return {"name": group.pop("name"), "accuracy": self.accuracy, **own, **group}


@dataclass(frozen=True, eq=False, kw_only=True)
class QuestionReports(ShownByQuestion[Report]):
    """The result of `evaluate` for a `DecisionLog`: a mapping from the name of each question to its `Report`.

    ``print(reports)`` shows a table of the questions and a section for each, ``to_html`` writes a page, ``to_pandas``
    makes a frame, ``to_dict`` and ``to_json`` give every number.

    Attributes
    ----------
    questions : mapping
        The `QuestionReport` of each question, in the order of the log.
    log : DecisionLog
        The log.
    level : float or None
        The confidence of the intervals; None without them.
    """

    questions: Mapping[str, QuestionReport]
    log: DecisionLog
    level: float | None

    def _result(self, name: str) -> Report:
        return self.questions[name].tested.report

    @property
    def miscalibrated(self) -> tuple[str, ...]:
        """The questions whose test rejects calibration after Holm's correction for the number of questions."""
        return tuple(name for name, question in self.questions.items() if question.tested.called_out)

    @property
    def tested(self) -> tuple[str, ...]:
        """The questions with enough rows for a test; none without intervals."""
        return tuple(name for name, each in self.questions.items() if not math.isnan(each.tested.p_value))

    def _document(self, source: Source = NO_SOURCE, *, full: bool = False, complete: bool = False) -> Document:
        from calibrant.report.question_document import document_of

        return document_of(self, source, full=full, complete=complete)

    def to_dict(self, *, whole: bool = True) -> dict[str, Any]:
        """Return every number as plain Python values that are strict JSON.

        Unless ``whole``, each report contains only the number of rows, the test and the diagram.
        """
        questions = counted("evaluating questions", list(self.questions.values())) if whole else self.questions.values()
        return {
            "schema_version": SCHEMA_VERSION,
            "n": self.log.n,
            "level": self.level,
            "models": list(self.log.models),
            "questions": [question.to_dict(whole=whole) for question in questions],
            **{name: dict(getattr(self.log, name)) for name in ("refusals", "unlabelled", "unanswered")},
        }

    def to_pandas(self) -> pd.DataFrame:
        """Return a frame of pandas with a row for each question.

        The index ``question`` has the names. The other columns are those of `Report.to_pandas` for groups, and
        ``kind``, ``accuracy``, ``mean_confidence`` and ``refusals``.
        """
        rows = []
        for name, each in self.questions.items():
            own = {key: getattr(each.question, key) for key in ("kind", "mean_confidence", "refusals")}
            rest = {key: value for key, value in group_row(each.tested).items() if key != "group"}
            rows.append({"question": name, "accuracy": each.accuracy, **own, **rest})
        return frame_of(rows, "question")

    def __repr__(self) -> str:
        found = f"evidence of miscalibration in {len(self.miscalibrated):,} of {len(self.tested):,} tested"
        return f"<QuestionReports: {self.log.n:,} inputs, {len(self):,} questions; {found}>"
