"""The comparison of models as a value: each model's measures and the differences of each two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from calibrant.inputs.predictions import Notion
from calibrant.render.blocks import Document, Source
from calibrant.render.shown import NO_SOURCE, ShownAsJson
from calibrant.render.words import named
from calibrant.report.leaderboard import DEFAULT, ONE_ROW, Standing
from calibrant.results import (
    Decision,
    Description,
    Estimate,
    ReliabilityDiagram,
    TestResult,
)
from calibrant.results.values import columns_of, frame_of, plain, plain_diagram, plain_estimate, plain_test
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.resampling import alpha_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

#: The version of the dictionary and the JSON that a comparison writes.
SCHEMA_VERSION: Final = 4

_NAMED: Final = 5  # models that the repr names
ONLY_REPORTS: Final = {"floor_mean", "floor_upper", "error_bound"}  # columns that differences lack


@dataclass(frozen=True)
class Pair:
    """How two models differ: for each measure the `Estimate` of first minus second.

    Attributes
    ----------
    first, second : str
        The models.
    estimates : mapping
        ``debiased_square``, ``ece``, ``brier``, ``nll``, ``accuracy`` (in a `ResultComparison`, only the mean, with a
        p-value). Below 0 the first model has less of it: less error (better), or fewer right answers (worse). Only
        ``debiased_square``, which decides, has a p-value: the probability of a difference as large if both models were
        equally calibrated. Further measures that were asked for follow.
    decision : Decision or None
        Whether the second model's ECE exceeds the first's by less than the tolerance; None if none was given.
    """

    first: str
    second: str
    estimates: Mapping[str, Estimate]
    decision: Decision | None = None

    def __getitem__(self, name: str) -> Estimate:
        return self.estimates[name]

    def differs(self, name: str) -> bool:
        """Return whether the models are shown to differ by a measure: the interval of the difference excludes 0."""
        estimate = self.estimates.get(name)
        return estimate is not None and (estimate.low > 0 or estimate.high < 0)

    @property
    def raw_p_value(self) -> float:
        """The p-value of this pair alone, before the correction for the number of pairs."""
        decides = self.estimates.get("debiased_square", next(iter(self.estimates.values())))
        return float(decides.details.get("raw_p_value", decides.p_value))


class RankedModels(ShownAsJson):
    """Models in the order of a measure: a `Comparison` or a `ResultComparison`."""

    names: tuple[str, ...]
    level: float
    sorted_by: str
    descriptions: Mapping[str, Description]
    leaderboard: tuple[Standing, ...]
    tests: Mapping[str, TestResult]

    def __repr__(self) -> str:
        names = named([*map(repr, self.names)], _NAMED)
        return f"<{type(self).__name__} of {names}: {self.verdict()[0]} Print the comparison to see everything.>"


@dataclass(frozen=True, eq=False, kw_only=True)
class Comparison(RankedModels):
    """What `compare` found: each model's measures, and the differences of each pair of models with their intervals.

    ``print(comparison)`` draws it in the terminal, ``verdict`` says it in sentences, ``to_html`` writes it as a page,
    ``plot`` draws it, ``to_pandas`` makes it a frame, ``to_dict`` and ``to_json`` give every number. Notebooks show it
    as a page.

    Attributes
    ----------
    names : tuple of str
        The models, in the order given.
    n : int
        The evaluated rows; for sketches, those of the model with the fewest.
    notion : str
        The evaluated event.
    n_classes : int or None
        The number of classes; None for one event.
    n_bins : int
        The bins of the calibration errors.
    level : float
        The confidence of each interval.
    descriptions : mapping
        A description of each compared measure, by its name. Only the first measure has a p-value, that of the
        test whether two models are equally calibrated.
    models : mapping
        For each model, the values of the compared measures.
    tests : mapping
        The test of each model's own calibration, in closed form, as `Report.test`.
    pairs : tuple of Pair
        Every pair of models; with more than 20 models, only the pairs with the first or the best one. ``pair.first``
        and ``pair.second`` are their names, and ``pair["debiased_square"]``, ``pair["ece"]``, ``pair["brier"]``,
        ``pair["nll"]``, ``pair["accuracy"]`` are the `Estimate` of first minus second.
    diagrams : mapping
        The `ReliabilityDiagram` of the evaluated event for each model, with intervals and consistency band.
    paired : bool
        Whether the comparison is paired, so that what the models have in common cancels: for models on the same rows,
        and for sketches with ``paired=True``.
    independent : bool
        Whether the rows of the models are independent, so that the variances of their estimates add up.
    clusters : mapping or None
        The number of ``clusters`` and the share of the ``largest_cluster``; None without clusters.
    groups : tuple of GroupComparison
        The comparison in each group, if groups were given.
    lone_groups : tuple of str
        The groups that at least one sketch lacks: they are not compared.
    leaderboard : tuple of Standing
        The models, the best first: each one's measures, its difference to the best one, and the range of its rank.
    sorted_by : str
        The measure that decides the order.
    own_outcomes : bool
        Whether each model has its own outcomes, 1 if its answer is right, instead of targets shared by all models.
    """

    names: tuple[str, ...]
    n: int
    notion: Notion
    n_classes: int | None
    n_bins: int
    level: float
    descriptions: Mapping[str, Description]
    models: Mapping[str, Mapping[str, float]]
    tests: Mapping[str, TestResult]
    pairs: tuple[Pair, ...]
    diagrams: Mapping[str, ReliabilityDiagram]
    paired: bool = True
    independent: bool = False
    clusters: Mapping[str, Any] | None = None
    groups: tuple[GroupComparison, ...] = ()
    lone_groups: tuple[str, ...] = ()
    leaderboard: tuple[Standing, ...] = ()
    sorted_by: str = DEFAULT
    own_outcomes: bool = False
    _cautions: tuple[str, ...] = ()  # why intervals are not to be trusted

    __repr__ = RankedModels.__repr__

    @property
    def decides(self) -> str:
        """The measure that decides whether two models are equally calibrated: the only one with a p-value."""
        return next(iter(self.descriptions))

    def worse(self, pair: Pair) -> bool:
        """Return whether the second model of a pair is shown to be worse calibrated than the first."""
        return self._is_decided(pair) and pair[self.decides].value < 0

    def better(self, pair: Pair) -> bool:
        """Return whether the second model of a pair is shown to be better calibrated than the first."""
        return self._is_decided(pair) and pair[self.decides].value > 0

    def _is_decided(self, pair: Pair) -> bool:
        return pair[self.decides].p_value <= alpha_of(self.level)

    def to_dict(self) -> dict[str, Any]:
        """Return every number as plain Python values that are strict JSON.

        A number that is not finite is None, and stands with the reason in ``not_finite`` under its path.
        """
        missing: dict[str, str] = {}
        lost = {"nll": "an observed outcome had predicted probability 0"}
        undefined = "the measure has no value for these data"
        return {
            "schema_version": SCHEMA_VERSION,
            "n": self.n,
            "notion": self.notion,
            "n_classes": self.n_classes,
            "n_bins": self.n_bins,
            "level": self.level,
            "paired": self.paired,
            "independent": self.independent,
            "clusters": None if self.clusters is None else dict(self.clusters),
            "decides": self.decides,
            "measures": {name: asdict(description) for name, description in self.descriptions.items()},
            "models": {
                name: {
                    key: plain(value, f"models.{name}.{key}", missing, lost.get(key, undefined))
                    for key, value in values.items()
                }
                for name, values in self.models.items()
            },
            "tests": {name: plain_test(test, f"tests.{name}", missing) for name, test in self.tests.items()},
            "pairs": [
                {
                    "first": pair.first,
                    "second": pair.second,
                    "decision": plain(pair.decision and asdict(pair.decision), f"pairs[{i}].decision", missing),
                    "estimates": {
                        key: self._plain(key, estimate, f"pairs[{i}].estimates.{key}", missing)
                        for key, estimate in pair.estimates.items()
                    },
                }
                for i, pair in enumerate(self.pairs)
            ],
            "diagrams": {
                name: plain_diagram(diagram, f"diagrams.{name}", missing) for name, diagram in self.diagrams.items()
            },
            "groups": [group.to_dict() for group in self.groups],
            "lone_groups": list(self.lone_groups),
            "own_outcomes": self.own_outcomes,
            "sorted_by": self.sorted_by,
            "leaderboard": [
                standing.to_dict(f"leaderboard[{i}]", missing) for i, standing in enumerate(self.leaderboard)
            ],
            "not_finite": missing,
        }

    def _plain(self, key: str, estimate: Estimate, path: str, missing: dict[str, str]) -> dict[str, Any]:
        known = estimate.method.startswith(("no interval", "not available"))
        numbers = plain_estimate(estimate, path, missing, None if known else ONE_ROW, tested=False)
        if key == self.decides:
            numbers["p_value"] = plain(estimate.p_value, f"{path}.p_value", missing, ONE_ROW)
        return numbers

    def plot(self, **options: Any) -> Axes:
        """Draw the reliability diagrams of all models in one with matplotlib, and return the axes.

        Parameters
        ----------
        **options
            Those of `calibrant.plot.compare`, such as ``intervals`` and ``ax``.

        Returns
        -------
        matplotlib.axes.Axes
            The axes that were drawn on. `calibrant.plot.differences` draws the differences.

        Raises
        ------
        calibrant.errors.MissingDependencyError
            Without matplotlib, which the extra ``report`` installs.

        Examples
        --------
        >>> import calibrant
        >>> comparison = calibrant.compare({"old": [0.1, 0.4, 0.7, 0.9], "new": [0.2, 0.3, 0.9, 0.8]}, [0, 0, 1, 1])
        >>> comparison.plot().get_xlabel()
        'Mean predicted probability'
        """
        from calibrant.plot import compare

        return compare(self, **options)

    def to_pandas(self) -> pd.DataFrame:
        """Return the differences as a frame of pandas, a row for each pair of models and each measure.

        Returns
        -------
        pandas.DataFrame
            The index has the levels ``first``, ``second`` and ``measure``. ``label`` is the label of the measure;
            ``value``, ``low``, ``high``, ``level``, ``p_value``, ``n`` and ``method`` are those of the `Estimate` of
            first minus second. Only the measure that decides has a p-value. A missing number is NaN.

        Raises
        ------
        calibrant.errors.MissingDependencyError
            Without pandas, which the extra ``pandas`` installs.

        Examples
        --------
        >>> import calibrant
        >>> comparison = calibrant.compare({"old": [0.1, 0.4, 0.7, 0.9], "new": [0.2, 0.3, 0.9, 0.8]}, [0, 0, 1, 1])
        >>> comparison.to_pandas()["value"].round(3).to_dict()["old", "new", "ece"]
        0.025
        """
        return frame_of(self.differences(), ["first", "second", "measure"])

    def differences(self) -> list[dict[str, Any]]:
        """Return the rows of `to_pandas`."""
        rows = []
        for pair in self.pairs:
            for name, estimate in pair.estimates.items():
                numbers = {key: value for key, value in columns_of(estimate).items() if key not in ONLY_REPORTS}
                head = {"first": pair.first, "second": pair.second, "measure": name}
                rows.append({**head, "label": self.descriptions[name].label, **numbers})
        return rows

    def _document(self, source: Source = NO_SOURCE, *, full: bool = False, **_: bool) -> Document:
        from calibrant.report.comparison_document import document_of

        return document_of(self, source, full=full)


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupComparison:
    """The comparison of models in one group of rows, and which of them differ after the correction for all groups.

    Attributes
    ----------
    name : str
        The group.
    comparison : Comparison
        The comparison of its rows alone.
    adjusted_p_values : tuple of float
        For each of ``comparison.pairs`` the p-value of ``debiased_square``, after Holm's correction for the number of
        groups and pairs; NaN in a group of fewer than 30 rows.
    flag : str
        Why the group has no p-value; empty if it has one.
    """

    name: str
    comparison: Comparison
    adjusted_p_values: tuple[float, ...]
    flag: str = ""

    @property
    def n(self) -> int:
        """The evaluated rows."""
        return self.comparison.n

    @property
    def called_out(self) -> tuple[bool, ...]:
        """For each pair whether one model is shown to be better calibrated than the other in this group."""
        alpha = alpha_of(self.comparison.level)
        return tuple(p_value <= alpha for p_value in self.adjusted_p_values)

    def to_dict(self) -> dict[str, Any]:
        """Return every number as plain Python values that are strict JSON; as `Comparison.to_dict`."""
        missing: dict[str, str] = {}
        return {
            "name": self.name,
            "flag": self.flag,
            "adjusted_p_values": plain(list(self.adjusted_p_values), "adjusted_p_values", missing, self.flag),
            "called_out": list(self.called_out),
            "comparison": self.comparison.to_dict(),
            "not_finite": missing,
        }
