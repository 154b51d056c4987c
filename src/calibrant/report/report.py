"""A report as a value: the `Report` that `evaluate` returns, and the reports on its groups."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, field
from typing import TYPE_CHECKING, Any, Final

from calibrant.errors import InputError, nearest
from calibrant.inference.multicalibration import MulticalibrationError
from calibrant.inputs.group_rows import subgroup_name
from calibrant.inputs.predictions import Notion
from calibrant.render.blocks import Document, Source
from calibrant.render.shown import NO_SOURCE, ShownAsJson
from calibrant.results import (
    Bands,
    CalibrationCurve,
    Choices,
    ClasswiseCalibration,
    Code,
    Decision,
    Description,
    Estimate,
    Finding,
    ReliabilityDiagram,
    TestResult,
)
from calibrant.results.values import (
    Forest,
    Panel,
    columns_of,
    frame_of,
    plain,
    plain_classes,
    plain_curve,
    plain_diagram,
    plain_estimate,
    plain_panel,
    plain_test,
)
from calibrant.runtime.cached import Late
from calibrant.runtime.dataclass import dataclass
from calibrant.runtime.progress import counted
from calibrant.statistics.resampling import alpha_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

#: The version of the dictionary and the JSON that a report writes.
SCHEMA_VERSION: Final = 7


@dataclass(frozen=True, eq=False, kw_only=True)
class Report(ShownAsJson, Mapping[str, Estimate]):
    """The result of `evaluate`: a mapping from the name of a measure to its `Estimate`, and the curves behind them.

    ``print(report)`` draws it in the terminal, ``verdict`` says it in sentences, ``to_html`` writes it as a page,
    ``plot`` draws it, ``to_pandas`` makes it a frame, ``to_dict`` and ``to_json`` give every number. Notebooks show it
    as a page.

    Attributes
    ----------
    estimates : mapping
        The estimate of each measure by its name, in the requested order.
    descriptions : mapping
        What each measure is: label, meaning, scale, direction.
    profile : str
        The profile that was asked for.
    listed : bool
        Whether the caller listed the measures, instead of taking those of the profile.
    findings : tuple of Finding
        The test of calibration, which way the scores err, what recalibration could gain, and warnings. They do not
        depend on the measures shown.
    test : TestResult or None
        The test of calibration behind the verdict: the p-values of the mean, the spread and the ECE, combined.
        ``details`` have the ``parts`` and the ``leading`` one. None without intervals. If every class is evaluated by
        itself, it is the test of the ECE over classes.
    decision : Decision or None
        Whether an error is below the tolerance; None if none was given, and without intervals.
    clusters : mapping or None
        The number of ``clusters`` (a text if they were not counted), the share of the rows in the ``largest_cluster``,
        and ``effective_rows``, the effective sample size for the mean difference (None if unknown). The whole attribute
        is None without clusters.
    notion : str
        The evaluated event.
    n : int
        The number of evaluated rows.
    n_classes : int or None
        The number of classes or labels; None for one event.
    n_bins : int
        The number of bins of the binned measures.
    outcome_rate : float
        The share of rows in which the evaluated event occurred; for the top label, the share of right answers.
    diagram : ReliabilityDiagram or None
        The uniform bins of the evaluated event; None if every class is evaluated alone.
    classwise : ClasswiseCalibration or None
        The calibration error of each class.
    at_least : mapping
        For ordered levels, the `GroupReport` of each event "the level is at least this one", by the name of the level,
        from the second level on. Computed when it is first looked at. Empty unless the classes were declared as ordered
        levels.
    class_names : tuple of str or None
        The names of the classes.
    level : float or None
        The confidence of intervals and bands; None for a report without them.
    n_resamples : int
        The number of simulated data sets behind noise floors and p-values; 0 if they come from closed forms.
    curves : mapping
        The `CalibrationCurve` of the evaluated event, "isotonic" and "smooth"; the profiles "clinical" and "all" have
        "loess" too. Empty without intervals, and if every class is evaluated alone. They are computed when they are
        first looked at.
    bands : {"pointwise", "simultaneous"}
        Where the confidence band of the isotonic curve holds.
    panels : mapping
        The further curves of the profile: "decision_curve", "murphy_curve", "roc_curve". Computed when they are first
        looked at.
    groups : tuple of GroupReport
        The reports on the groups, if groups were given.
    all_rows : GroupReport or None
        All rows as a group, to compare marginal subgroups with; None without such groups.
    forests : mapping
        The `Forest` of each measure that the profile shows for every group, by the measure's name: its value and its
        interval in each group, and how much the groups differ. Computed when it is first looked at.
    multicalibration : MulticalibrationError or None
        The largest standardised Kuiper error over groups; None without groups, without intervals, and if every class is
        evaluated alone.
    choices : Choices
        The arguments and the seed that the numbers do not show. ``methods`` describes them.
    omitted : mapping
        Inputs that were left out, such as files that could not be read: name and reason. Empty unless the caller asked
        to go on without them.
    """

    estimates: Mapping[str, Estimate]
    descriptions: Mapping[str, Description]
    profile: str
    findings: tuple[Finding, ...]
    test: TestResult | None
    decision: Decision | None
    clusters: Mapping[str, Any] | None
    notion: Notion
    n: int
    n_classes: int | None
    n_bins: int
    outcome_rate: float
    diagram: ReliabilityDiagram | None
    classwise: ClasswiseCalibration | None = None
    at_least: Mapping[str, GroupReport] = field(default_factory=dict)
    class_names: tuple[str, ...] | None = None
    level: float | None = None
    n_resamples: int = 0
    curves: Mapping[str, CalibrationCurve] = field(default_factory=dict)
    bands: Bands = "pointwise"
    panels: Mapping[str, Panel] = field(default_factory=dict)
    groups: tuple[GroupReport, ...] = ()
    all_rows: GroupReport | None = None
    forests: Mapping[str, Forest] = field(default_factory=dict)
    multicalibration: MulticalibrationError | None = None
    choices: Choices = field(default_factory=Choices)
    omitted: Mapping[str, str] = field(default_factory=dict)
    listed: bool = False

    def __getitem__(self, name: str) -> Estimate:
        if name not in self.estimates:
            msg = f"no measure {name!r}; {nearest(str(name), self.estimates)}"
            raise KeyError(msg)
        return self.estimates[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    @property
    def miscalibrated(self) -> bool:
        """Whether the test of calibration rejects at the report's level; False without intervals."""
        return self.test is not None and self.level is not None and self.test.p_value <= alpha_of(self.level)

    @property
    def methods(self) -> str:
        """A paragraph for the methods section of a paper: the version, the data, and every choice behind the numbers.

        It names what the report shows, and nothing that was not computed. With ``profile="clinical"``, the page and
        Markdown have it, and the terminal has a shorter one.

        Examples
        --------
        >>> import calibrant
        >>> report = calibrant.evaluate([0.2, 0.3, 0.8, 0.9], [0, 0, 1, 1], measures=["ece"], level=None)
        >>> print(report.methods)  # doctest: +ELLIPSIS
        Calibration was evaluated with calibrant ... The ECE is the mean absolute difference between mean predicted...
        """
        from calibrant.report.methods_text import paragraph

        return paragraph(self, NO_SOURCE)

    @property
    def results(self) -> str:
        """A paragraph for the results section of a paper: the rows and events, and what was estimated and tested.

        Its numbers are those of the table of measures, with their confidence intervals. The page and Markdown have it
        with ``profile="clinical"``.

        Examples
        --------
        >>> import calibrant
        >>> report = calibrant.evaluate([0.2, 0.3, 0.8, 0.9], [0, 0, 1, 1], measures=["ece"], level=None)
        >>> print(report.results)
        We evaluated 4 predictions. The event (outcome = 1) was observed in 2 of 4 (50 %), and the mean predicted
        probability was 55 %. The ECE was 0.2000.
        """
        from calibrant.report.results_text import paragraph

        return paragraph(self, NO_SOURCE)

    def _document(self, source: Source = NO_SOURCE, *, full: bool = False, complete: bool = False) -> Document:
        from calibrant.report.report_document import document_of

        return document_of(self, source, full=full, complete=complete)

    def to_dict(self, *, curves: bool = True, groups: bool = True) -> dict[str, Any]:
        """Return every number as plain Python values that are strict JSON.

        A number that is not finite is None. ``not_finite`` maps its path to the reason. ``curves=False`` leaves
        out the curves, which saves their computation. Reports on groups never have curves here. ``groups=False``
        reduces each of them to the number of rows, the test and the diagram, which saves the other measures.
        """
        from calibrant.report import methods_text, results_text

        missing: dict[str, str] = {}
        each = counted("evaluating groups", self.groups) if groups else self.groups
        estimates = {
            name: plain_estimate(estimate, f"estimates.{name}", missing) for name, estimate in self.estimates.items()
        }
        return {
            "schema_version": SCHEMA_VERSION,
            "n": self.n,
            "notion": self.notion,
            "n_classes": self.n_classes,
            "n_bins": self.n_bins,
            "level": self.level,
            "n_resamples": self.n_resamples,
            "outcome_rate": self.outcome_rate,
            "test": plain_test(self.test, "test", missing),
            "decision": None if self.decision is None else plain(asdict(self.decision), "decision", missing),
            "clusters": None if self.clusters is None else plain(dict(self.clusters), "clusters", missing),
            "findings": [
                {"code": str(finding.code), **plain(dict(finding.facts), f"findings[{i}]", missing)}
                for i, finding in enumerate(self.findings)
            ],
            "profile": self.profile,
            "listed": self.listed,
            "measures": {name: asdict(description) for name, description in self.descriptions.items()},
            "estimates": estimates,
            "diagram": plain_diagram(self.diagram, "diagram", missing),
            "curves": {
                name: plain_curve(curve, f"curves.{name}", missing)
                for name, curve in (self.curves.items() if curves else ())
            },
            "classwise": None if self.classwise is None else plain_classes(self.classwise, self.class_names, missing),
            "at_least": [event.to_dict(whole=False) for event in self.at_least.values()],
            "panels": {name: plain_panel(panel, f"panels.{name}", missing) for name, panel in self.panels.items()},
            "groups": [group.to_dict(whole=groups) for group in each],
            "forests": {name: plain_panel(forest, f"forests.{name}", missing) for name, forest in self.forests.items()},
            "multicalibration": None if self.multicalibration is None else self.multicalibration.to_dict(missing),
            "choices": {**asdict(self.choices), "bands": self.bands},
            "omitted": dict(self.omitted),
            "not_finite": missing,
            "methods": methods_text.paragraph(self, NO_SOURCE),
            "methods_brief": methods_text.brief(self, NO_SOURCE),
            "results": results_text.paragraph(self, NO_SOURCE),
        }

    def plot(self, **options: Any) -> Axes:
        """Draw the reliability diagram with matplotlib, and return the axes.

        Parameters
        ----------
        **options
            Those of `calibrant.plot.reliability_diagram`, such as ``kind``, ``number`` and ``ax``.

        Returns
        -------
        matplotlib.axes.Axes
            The axes that were drawn on. ``report.plot().figure.savefig("diagram.png")`` writes a file.

        Raises
        ------
        calibrant.errors.InputError
            For a report on every class (see `calibrant.plot.classwise`), and for an option that does not fit.
        calibrant.errors.MissingDependencyError
            Without matplotlib, which the extra ``report`` installs.

        Examples
        --------
        >>> import calibrant
        >>> report = calibrant.evaluate([0.2] * 50 + [0.8] * 50, [1] * 12 + [0] * 38 + [1] * 39 + [0] * 11)
        >>> report.plot(kind="points").get_ylabel()
        'Observed frequency'
        """
        from calibrant.plot import reliability_diagram

        return reliability_diagram(self, **options)

    def to_pandas(self, *, groups: bool = False, levels: bool = False) -> pd.DataFrame:
        """Return the measures as a frame of pandas, a row for each; or the groups, or the ordered levels.

        Parameters
        ----------
        groups : bool, default False
            Whether the rows of the frame are the groups of the report. The frame of measures is about all rows.
        levels : bool, default False
            Whether the rows of the frame are the events "the level is at least this one", those of ``at_least``.

        Returns
        -------
        pandas.DataFrame
            Of measures: the index ``measure`` has their names, ``label`` their labels. ``value``, ``low``, ``high``,
            ``level``, ``p_value``, ``error_bound``, ``n`` and ``method`` are those of the `Estimate`; ``floor_mean``
            and ``floor_upper`` are the noise floor. For groups, the index ``group`` has their names; ``n``,
            ``mean_gap``, ``ece`` with its ``low``, ``high``, ``floor_mean`` and ``floor_upper``; ``p_value``,
            ``adjusted_p_value``, ``called_out`` and ``flag`` are those of the `GroupReport`. Rows have the order of the
            report. A missing number is NaN, an infinite one is ``inf``. For levels, the index ``level`` has their
            names, and the columns are those of groups.

        Raises
        ------
        calibrant.errors.InputError
            With ``groups``, for a report without groups; with ``levels``, for one without ordered levels; with both.
        calibrant.errors.MissingDependencyError
            Without pandas, which the extra ``pandas`` installs.

        Examples
        --------
        >>> import calibrant
        >>> report = calibrant.evaluate([0.2] * 50 + [0.8] * 50, [1] * 12 + [0] * 38 + [1] * 39 + [0] * 11)
        >>> report.to_pandas().loc[["ece", "brier"], ["label", "value"]].round(3)
                       label  value
        measure
        ece              ECE  0.030
        brier    Brier score  0.178
        """
        if groups and levels:
            raise InputError("levels", "False with groups=True", "True", "ask for one of the two frames")
        if levels:
            if not self.at_least:
                raise InputError("levels", "a report on ordered levels", "another", "evaluate with ordered=True")
            rows = [group_row(event) for event in self.at_least.values()]
            return frame_of([{"level": row.pop("group"), **row} for row in rows], "level")
        if not groups:
            rows = [
                {"measure": name, "label": self.descriptions[name].label, **columns_of(estimate)}
                for name, estimate in self.estimates.items()
            ]
            return frame_of(rows, "measure")
        if not self.groups:
            remedy = "evaluate with groups=..., a name for each row, or leave groups out"
            raise InputError("groups", "a report on groups", "one without groups", remedy)
        return frame_of([group_row(group) for group in self.groups], "group")

    def __repr__(self) -> str:
        from calibrant.report.report_document import headline

        name = "ece" if "ece" in self.estimates else next(iter(self.estimates))
        number = f"{self.descriptions[name].label} {self[name].value:.4f}"
        return f"<Report: {headline(self, NO_SOURCE)}; {number}; print the report to see everything>"


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupReport:
    """The report on one group of predictions, and whether it stands out among all groups.

    Attributes
    ----------
    name : str
        The group.
    n : int
        The number of its evaluated rows.
    test : TestResult or None
        Its test of calibration, as in a report.
    diagram : ReliabilityDiagram or None
        Its uniform bins, without the band that the report's diagram has.
    report : Report
        All measures of its predictions, computed when they are first looked at.
    ece, mean_gap : Estimate
        Its expected calibration error and its mean difference. They are there whichever measures the report shows.
    p_value : float
        The p-value of the group's test, ``report.test``. If it is the smallest that the resamples can show, it comes
        from a closed form instead, or, in a group with few expected outcomes, from more resamples. NaN for a group
        with a ``flag``, and in a report without intervals.
    adjusted_p_value : float
        The p-value after Holm's correction for the number of groups.
    called_out : bool
        Whether the group is miscalibrated at the report's level after the correction.
    flag : str
        Why the group has no p-value; empty if it has one, and in a report without intervals.
    cautions : tuple of Code
        Why the intervals of a tested group may be too short, or wide: "rare-outcome", "large-cluster" or
        "heavy-weights".
    column : str
        The column whose value defines this marginal subgroup; empty for other groups.
    """

    name: str
    n: int
    test: TestResult | None
    diagram: ReliabilityDiagram | None
    ece: Estimate
    mean_gap: Estimate
    p_value: float
    adjusted_p_value: float
    called_out: bool
    flag: str
    whole: Late[Report] = field(repr=False)
    column: str = ""
    cautions: tuple[Code, ...] = ()

    @property
    def label(self) -> str:
        """The name of the group; of a marginal subgroup, the value of its column."""
        return self.name.removeprefix(subgroup_name(self.column, "")) if self.column else self.name

    @property
    def evidence(self) -> tuple[float, float]:
        """The rank by evidence of miscalibration, the strongest first: the p-value, then the ECE, negative."""
        p_value, ece = self.p_value, self.ece.value
        return 2.0 if math.isnan(p_value) else p_value, math.inf if math.isnan(ece) else -ece

    @property
    def report(self) -> Report:
        """All measures of the group's predictions."""
        return self.whole.value

    def __getitem__(self, name: str) -> Estimate:
        """Return the estimate of a measure."""
        return {"ece": self.ece, "mean_gap": self.mean_gap}.get(name) or self.report[name]

    def to_dict(self, *, whole: bool = True) -> dict[str, Any]:
        """Return every number as plain Python values that are strict JSON.

        Unless ``whole``, the report contains only the number of rows, the test and the diagram.
        """
        tested = not math.isnan(self.p_value)
        missing: dict[str, str] = {}
        if whole:
            report = self.report.to_dict(curves=False)
            for name in ("measures", "methods", "methods_brief", "results"):  # the report on all rows has them
                del report[name]
        else:
            lacking: dict[str, str] = {}
            parts = {"test": plain_test(self.test, "test", lacking)}
            parts["diagram"] = plain_diagram(self.diagram, "diagram", lacking)
            report = {"n": self.n, **parts, "not_finite": lacking}
        return {
            "name": self.name,
            "column": self.column,
            "ece": plain_estimate(self.ece, "ece", missing),
            "mean_gap": plain_estimate(self.mean_gap, "mean_gap", missing),
            "p_value": self.p_value if tested else None,
            "adjusted_p_value": self.adjusted_p_value if tested else None,
            "called_out": self.called_out,
            "flag": self.flag,
            "report": report,
            "not_finite": missing,
        }


def group_row(group: GroupReport) -> dict[str, Any]:
    """Return a group's row of a frame."""
    ece = columns_of(group.ece)
    return {
        "group": group.name,
        "n": group.n,
        "mean_gap": group.mean_gap.value,
        "ece": ece["value"],
        **{name: ece[name] for name in ("low", "high", "floor_mean", "floor_upper")},
        "p_value": group.p_value,
        "adjusted_p_value": group.adjusted_p_value,
        "called_out": group.called_out,
        "flag": group.flag,
    }
