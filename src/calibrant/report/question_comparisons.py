"""The comparisons of models on the questions of their decision logs, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from calibrant.inputs.common_questions import CommonQuestion, CommonQuestions
from calibrant.render.blocks import Document, Source
from calibrant.render.shown import NO_SOURCE, ShownByQuestion
from calibrant.report.comparison import Comparison, Pair
from calibrant.results.values import frame_of, plain, plain_estimate
from calibrant.runtime.dataclass import dataclass
from calibrant.runtime.progress import counted
from calibrant.statistics.resampling import alpha_of

if TYPE_CHECKING:
    import pandas as pd

#: The version of the dictionary and the JSON.
SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, eq=False, kw_only=True)
class QuestionComparison:
    """The comparison of models on one question, and which of them differ after the correction for all questions.

    Attributes
    ----------
    name : str
        The question.
    question : CommonQuestion
        Its rows that are compared, and what is not compared.
    comparison : Comparison
        The comparison of these rows alone, as `compare` of their arrays.
    pairs : tuple of Pair
        The pairs of ``comparison``. The intervals of each measure hold simultaneously for all questions and pairs, and
        the p-value of ``debiased_square`` is adjusted for the number of questions and pairs (Holm). Intervals and
        p-values are NaN with fewer than 30 rows.
    flag : str
        Why the pairs have no intervals and no p-values; empty if they have them.
    """

    name: str
    question: CommonQuestion
    comparison: Comparison
    pairs: tuple[Pair, ...]
    flag: str = ""

    @property
    def together(self) -> Comparison:
        """The comparison with the intervals and p-values for all questions together."""
        return replace(self.comparison, pairs=self.pairs)

    @property
    def with_first(self) -> tuple[Pair, ...]:
        """The pairs of the first model and another one."""
        return tuple(pair for pair in self.pairs if pair.first == self.comparison.names[0])

    @property
    def worse(self) -> tuple[str, ...]:
        """The models that are shown to be worse calibrated than the first one, after Holm's correction."""
        return tuple(pair.second for pair in self.with_first if self.comparison.worse(pair))

    def differs(self, measure: str) -> bool:
        """Return whether the models are shown to differ by a measure: an interval of ``pairs`` excludes 0."""
        return any(pair.differs(measure) for pair in self.pairs)

    def to_dict(self) -> dict[str, Any]:
        """Return every number as plain Python values that are strict JSON; see `Comparison.to_dict`."""
        missing: dict[str, str] = {}
        alpha, decides = alpha_of(self.comparison.level), self.comparison.decides
        return {
            "name": self.name,
            "kind": self.question.kind,
            "likeliest": self.question.likeliest,
            "left_out": dict(self.question.left_out),
            "refusals": dict(self.question.refusals),
            "lone_options": {model: list(options) for model, options in self.question.lone_options.items()},
            "flag": self.flag,
            "pairs": [
                {
                    "first": pair.first,
                    "second": pair.second,
                    "adjusted_p_value": plain(
                        pair[decides].p_value, f"pairs[{i}].adjusted_p_value", missing, self._reason(pair[decides])
                    ),
                    "called_out": pair[decides].p_value <= alpha,
                    "estimates": {
                        key: plain_estimate(
                            each, f"pairs[{i}].estimates.{key}", missing, self._reason(each), tested=False
                        )
                        for key, each in pair.estimates.items()
                    },
                }
                for i, pair in enumerate(self.pairs)
            ],
            "comparison": self.comparison.to_dict(),
            "not_finite": missing,
        }

    def _reason(self, estimate: Any) -> str:
        return self.flag or str(estimate.method)


@dataclass(frozen=True, eq=False, kw_only=True)
class QuestionComparisons(ShownByQuestion[Comparison]):
    """The result of `compare` for decision logs: a mapping from the name of each question to its `Comparison`.

    ``print(comparisons)`` shows a table of the questions and a section for each, ``to_html`` writes a page,
    ``to_pandas`` makes a frame, ``to_dict`` and ``to_json`` give every number.

    Attributes
    ----------
    questions : mapping
        The `QuestionComparison` of each question that all logs answer, in the order of the first log. Its ``pairs``
        have intervals that hold together for all questions.
    names : tuple of str
        The models, in the order given.
    common : CommonQuestions
        Which inputs are compared, how rows were matched, and which rows and questions are in some logs alone.
    level : float
        The confidence of the intervals.
    sorted_by : str
        The measure that the table of the questions shows.

    Examples
    --------
    >>> import calibrant, numpy as np
    >>> p = np.random.default_rng(0).random(200)
    >>> labels = np.random.default_rng(1).random(200) < p
    >>> def log(probs):
    ...     answers = [{"answers": {"urgent": {"noul": float(each)}}} for each in probs]
    ...     return calibrant.read_decisions(answers, labels=[{"urgent": bool(label)} for label in labels])
    >>> comparisons = calibrant.compare({"old": log(p), "new": log(p**3)})
    >>> comparisons.differing, comparisons.questions["urgent"].worse
    (('urgent',), ('new',))
    >>> comparisons["urgent"].pairs[0]["brier"].high < 0
    True
    """

    questions: Mapping[str, QuestionComparison]
    names: tuple[str, ...]
    common: CommonQuestions
    level: float
    sorted_by: str

    def _result(self, name: str) -> Comparison:
        return self.questions[name].comparison

    @property
    def differing(self) -> tuple[str, ...]:
        """The questions in which the models are shown to differ by the measure ``sorted_by``."""
        return tuple(name for name, each in self.questions.items() if each.differs(self.sorted_by))

    def _document(self, source: Source = NO_SOURCE, *, full: bool = False, complete: bool = False) -> Document:
        from calibrant.report.question_comparison_document import document_of

        return document_of(self, source, full=full, complete=complete)

    def to_dict(self) -> dict[str, Any]:
        """Return every number as plain Python values that are strict JSON."""
        questions = counted("comparing questions", list(self.questions.values()))
        return {
            "schema_version": SCHEMA_VERSION,
            "n": self.common.n,
            "level": self.level,
            "models": list(self.names),
            "sorted_by": self.sorted_by,
            "by_id": self.common.by_id,
            "lone_rows": dict(self.common.lone_rows),
            "lone_questions": {name: list(models) for name, models in self.common.lone_questions.items()},
            "questions": [each.to_dict() for each in questions],
        }

    def to_pandas(self) -> pd.DataFrame:
        """Return the differences as a frame of pandas, a row for each question, pair of models and measure.

        The index has the levels ``question``, ``first``, ``second`` and ``measure``. ``value``, ``low`` and ``high``
        are the difference with its interval for all questions together, and ``p_value`` is the one after Holm's
        correction. The other columns are those of `Comparison.to_pandas`.
        """
        rows = [
            {"question": name, **row} for name, each in self.questions.items() for row in each.together.differences()
        ]
        return frame_of(rows, ["question", "first", "second", "measure"])

    def __repr__(self) -> str:
        tested = sum(not each.flag for each in self.questions.values())
        names = ", ".join(map(repr, self.names))
        found = f"{self.sorted_by} differs in {len(self.differing):,} of {tested:,} tested"
        return f"<QuestionComparisons of {names}: {self.common.n:,} inputs, {len(self):,} questions; {found}>"
