"""Is the promise of a threshold still kept? An e-process of the errors among the rows at and above it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from calibrant.errors import InputError
from calibrant.results.envelope import integer, number, require
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.e_processes import ERROR_TILTS, ERROR_WEIGHTS, Mixture, error_growth
from calibrant.table import GridCells, ReliabilityTable

#: The most classes of the event of a threshold, or of a monitor.
MOST_CLASSES: Final = 10**9


#: The attributes of a promise that are stored as they are.
STORED: Final = (
    *("value", "side", "max_risk", "notion", "n_classes", "group", "question", "together", "rows", "errors", "most"),
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Promise:
    """A threshold that is watched: what was promised, and the rows and errors at and above it so far.

    Attributes
    ----------
    value, side, max_risk : float, str, float
        The threshold, "yes" for rows at and above it or "no" for those at and below, and the largest error rate.
    notion, n_classes : str and int, or None
        The event of the threshold; None if it is not known.
    group : str
        The group whose rows it is about, or the predicted class; empty for all rows.
    question : str
        The question of a decision log whose answers it is about; empty for other data.
    composite_of : tuple of str
        The questions that it is about together: of each input, the smallest confidence of the answers, and whether all
        are right; empty for other thresholds.
    together : int
        How many promises are watched together: both sides of a threshold, or those of all groups or questions. The
        evidence against each is divided by their number (Bonferroni).
    rows, errors : float
        The rows that were decided automatically, and the errors among them, over all slices.
    mixture : Mixture
        The mixture of tilts and starts.
    most : float
        The largest logarithm of the e-process so far.
    """

    value: float
    side: str
    max_risk: float
    notion: str | None = None
    n_classes: int | None = None
    group: str = ""
    question: str = ""
    composite_of: tuple[str, ...] = ()
    together: int = 1
    rows: float = 0.0
    errors: float = 0.0
    mixture: Mixture = Mixture.start(len(ERROR_TILTS))
    most: float = 0.0

    def updated(self, table: ReliabilityTable, unit: float) -> Promise:
        """Return the same with one more slice; ``unit`` is a bound on the weight of a row.

        Raises
        ------
        InputError
            If the threshold is within a cell of the grid, so that nobody knows which of its rows are above it.
        """
        rows, errors = self._counted(table)
        if rows == 0:
            return self
        mixture = self.mixture.grown(error_growth(rows, errors, self.max_risk) / unit)
        return replace(
            self,
            rows=self.rows + rows,
            errors=self.errors + errors,
            mixture=mixture,
            most=max(self.most, mixture.log_e(ERROR_WEIGHTS)),
        )

    def _counted(self, table: ReliabilityTable) -> tuple[float, float]:
        """Return the weight of the rows that are decided automatically, and of the errors among them."""
        scores, cells, below = table.scores.astype(np.float64), GridCells.of(table), self.side == "no"
        if cells is not None:
            edges = np.nextafter(cells.low, 1.0)  # scores in a cell are from here on
            if bool((cells.several & (edges < self.value) & (self.value < cells.high)).any()):
                expected = "a threshold at an edge of the grid of the sketch"
                remedy = "certify the threshold from a sketch, or pass the rows of each slice"
                raise InputError("threshold", expected, f"{self.value:.17g}", remedy)
            scores = np.where(cells.several, cells.high if below else edges, scores)
        acted = scores <= self.value if below else scores >= self.value
        wrong = table.positives if below else table.counts - table.positives
        return float(table.counts[acted].sum()), float(wrong[acted].sum())

    @property
    def log_evidence(self) -> float:
        """The logarithm of the largest evidence so far, adjusted for the promises that are watched together."""
        return self.most - math.log(self.together)

    @property
    def subject(self) -> str | tuple[str, ...]:
        """The question, or the questions together, of a decision log; empty for other data."""
        return self.composite_of or self.question

    @property
    def risk(self) -> float:
        """The observed error rate so far; NaN without rows."""
        return self.errors / self.rows if self.rows else math.nan

    @classmethod
    def of(cls, threshold: Any) -> list[Promise]:
        """Return the promises of a certified threshold, of those of questions, or of their dictionary.

        A threshold has one, or one for each side. Those of groups have promises of their own.
        """
        try:
            numbers: Any = threshold
            if not isinstance(threshold, dict):
                options = {} if isinstance(threshold, Mapping) else {"curves": False}
                numbers = threshold.to_dict(**options)
            found = cls._of_result(numbers)
            for part in numbers.get("groups", ()):
                found += cls._of_result(part, part["name"])
        except (AttributeError, KeyError, TypeError, ValueError):
            found = []
        if not found:
            expected, got = "a result that contains a certified threshold", "something else"
            raise InputError("threshold", expected, got, "pass what certify_threshold returned, or its JSON")
        return [replace(promise, together=len(found)) for promise in found]

    @classmethod
    def _of_result(cls, numbers: Mapping[str, Any], group: str = "") -> list[Promise]:
        if "questions" not in numbers:
            return cls._of_sides(numbers, group)
        found = [promise for each in numbers["questions"] for promise in cls._of_sides(each, group, each["name"])]
        if numbers.get("composite") is not None:
            found += cls._of_sides({**numbers["composite"], "composite_of": numbers["composite_of"]}, group)
        return found

    @classmethod
    def _of_sides(cls, numbers: Mapping[str, Any], group: str, question: str = "") -> list[Promise]:
        parts = [numbers[side] for side in ("yes", "no") if side in numbers] or [numbers]
        found = [cls._of_part(part, group, question) for part in parts if part["value"] is not None]
        for part in numbers.get("by_group", ()):
            found += cls._of_sides(part, part["name"], question)
        return found

    @classmethod
    def _of_part(cls, part: Mapping[str, Any], group: str, question: str) -> Promise:
        group, question = part.get("group", group), part.get("question", question)
        require(isinstance(group, str) and isinstance(question, str), "a group or a question that is not a text")
        together = part.get("composite_of", [])
        require(isinstance(together, list) and all(isinstance(name, str) for name in together), "no questions")
        notion, n_classes = part.get("notion"), part.get("n_classes")
        require(part["side"] in ("yes", "no") and notion in (None, "positive", "top-label"), "another event")
        require(part["max_risk"] > 0, "a risk of 0")
        return cls(
            value=number(part["value"], 0.0, 1.0),
            side=part["side"],
            max_risk=number(part["max_risk"], 0.0, 0.5),
            notion=notion,
            n_classes=None if n_classes is None else integer(n_classes, 1, MOST_CLASSES),
            group=group,
            question=question,
            composite_of=tuple(together),
        )
