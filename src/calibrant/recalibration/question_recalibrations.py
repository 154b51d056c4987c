"""The recalibrations of the questions of a decision log, as a value."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from calibrant.inputs.decision_log import DecisionLog
from calibrant.recalibration.maps import CalibrationMap, maps_to_json
from calibrant.recalibration.recalibrations import Recalibration
from calibrant.render.blocks import Document, Source
from calibrant.render.shown import NO_SOURCE, ShownByQuestion
from calibrant.results.values import frame_of
from calibrant.results.writing import replace_file
from calibrant.runtime.dataclass import dataclass
from calibrant.runtime.progress import counted
from calibrant.statistics.resampling import alpha_of

if TYPE_CHECKING:
    import pandas as pd

#: The version of the dictionary and the JSON.
SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, eq=False, kw_only=True)
class QuestionRecalibrations(ShownByQuestion[Recalibration]):
    """The result of `recalibrate` for a `DecisionLog`: a mapping from each question with a map to its `Recalibration`.

    ``print(fixes)`` shows a table of the questions and a section for each, ``to_html`` writes a page, ``to_pandas``
    makes a frame, ``to_dict`` and ``to_json`` give every number, ``maps_to_json`` writes the maps.

    Attributes
    ----------
    questions : mapping of str to Recalibration
        The recalibration of each question that a map was fitted to. Its own ``proven`` and p-value are those of the
        question alone.
    adjusted_p_values : mapping of str to float
        The p-values of the gains after Holm's correction for the number of these questions. It is valid even if the
        answers to one input depend on each other.
    refused : mapping of str to str
        The questions that no map was fitted to, and why.
    log : DecisionLog
        The log.
    method : str
        The method that was asked for.
    level : float
        The confidence of the intervals. A gain is proven if its adjusted p-value is at most 1 - level.
    """

    questions: Mapping[str, Recalibration]
    adjusted_p_values: Mapping[str, float]
    refused: Mapping[str, str]
    log: DecisionLog
    method: str
    level: float

    def _missing(self, name: str) -> str:
        if name in self.refused:
            return f"no map of the question {name!r}: {self.refused[name]}"
        return super()._missing(name)

    @property
    def proven(self) -> tuple[str, ...]:
        """The questions whose gain is proven: their adjusted p-value is at most 1 - level."""
        alpha = alpha_of(self.level)
        return tuple(name for name, p in self.adjusted_p_values.items() if p <= alpha)

    @property
    def maps(self) -> dict[str, CalibrationMap]:
        """The fitted map of each question. ``proven`` of a map says whether the gain is proven among all questions."""
        proven = set(self.proven)
        return {
            name: replace(
                fix.map,
                proven=name in proven,
                evidence={**fix.map.evidence, "adjusted_p_value": self.adjusted_p_values[name]},
            )
            for name, fix in self.questions.items()
        }

    def maps_to_json(self, path: str | os.PathLike[str] | None = None, *, anyway: bool = False) -> str:
        """Return the maps of the proven questions as JSON, which `calibrant.read_maps` reads.

        Parameters
        ----------
        path : path, optional
            The file to write as well, as a whole or not at all.
        anyway : bool, default False
            Whether to add the maps whose gain is not proven.

        Raises
        ------
        calibrant.errors.InputError
            Without a map to return, and for the name of a question that is not Unicode text.
        """
        text = maps_to_json({name: fitted for name, fitted in self.maps.items() if fitted.proven or anyway})
        if path is not None:
            replace_file(os.fspath(path), f"{text}\n".encode())
        return text

    def _document(self, source: Source = NO_SOURCE, *, full: bool = False, **_: bool) -> Document:
        from calibrant.recalibration.question_map_document import document_of

        return document_of(self, source, full=full)

    def to_dict(self, *, curves: bool = True) -> dict[str, Any]:
        """Return every number as plain Python values that are strict JSON; numbers that are not finite are None.

        Without ``curves`` the curves of the maps with their bands are left out: they take most of the time.
        """
        proven = set(self.proven)
        fixes = counted("evaluating maps", list(self.questions.items())) if curves else self.questions.items()
        return {
            "schema_version": SCHEMA_VERSION,
            "n": self.log.n,
            "level": self.level,
            "method": self.method,
            "models": list(self.log.models),
            "questions": [
                {
                    "name": name,
                    "kind": self.log[name].kind,
                    "adjusted_p_value": self.adjusted_p_values[name],
                    **fix.to_dict(curves=curves),
                    "proven": name in proven,
                }
                for name, fix in fixes
            ],
            "refused": dict(self.refused),
        }

    def to_pandas(self) -> pd.DataFrame:
        """Return a frame of pandas with a row for each question of the log.

        The index ``question`` has the names. ``kind``, ``n`` and ``map`` name the kind of the question, its rows and
        the family of its map. ``log_loss_before``, ``log_loss_after``, ``brier_before`` and ``brier_after`` are the
        losses; ``gain``, ``low``, ``high``, ``p_value`` and ``adjusted_p_value`` are about their decrease. ``proven``
        says whether it is proven, and ``reason`` why no map was fitted.
        """
        return frame_of([{"question": name, **self.row_of(name)} for name in self.log], "question")

    def row_of(self, name: str) -> dict[str, Any]:
        """Return the numbers of a question of the log in a table; those of one without a map are NaN."""
        fix, question, adjusted = self.questions.get(name), self.log[name], self.adjusted_p_values.get(name, math.nan)
        gains = {"value": "gain", "low": "low", "high": "high", "p_value": "p_value"}
        losses = {"log_loss": "nll", "brier": "brier" if fix is not None and "brier" in fix.before else "brier_event"}
        return {
            "kind": question.kind,
            "n": question.n,
            "map": "" if fix is None else fix.chosen,
            **{
                f"{loss}_{when}": math.nan if fix is None else getattr(fix, when)[measure].value
                for loss, measure in losses.items()
                for when in ("before", "after")
            },
            **{key: math.nan if fix is None else getattr(fix.gain, part) for part, key in gains.items()},
            "adjusted_p_value": adjusted,
            "proven": adjusted <= alpha_of(self.level),
            "reason": self.refused.get(name, ""),
        }

    def __repr__(self) -> str:
        helped = f"recalibration helps {len(self.proven):,} of {len(self.log):,} questions"
        return f"<QuestionRecalibrations: {self.log.n:,} inputs; {helped}>"
