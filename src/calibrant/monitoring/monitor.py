"""`Monitor`: whether a deployed model is still calibrated, slice by slice, with alarms that are rarely false."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from threading import RLock
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from calibrant.errors import FileError, InputError, quoted, wording
from calibrant.inputs.conversion import as_values
from calibrant.inputs.decision_log import DecisionLog, check_no_other
from calibrant.inputs.notions import PER_CLASS, read
from calibrant.inputs.predictions import Notion
from calibrant.inputs.weights import WeightsAre
from calibrant.kernels.compensated import total_of
from calibrant.monitoring import restored, state, window
from calibrant.monitoring.evidence import (
    TILTS,
    WEIGHTS,
    Clusters,
    Frame,
    Tolerance,
    bets_of_cells,
    bets_of_units,
    growth_of_buckets,
    growth_of_cells,
    growth_of_clusters,
)
from calibrant.monitoring.history import GroupSeen, History, PromiseSeen, SliceSeen
from calibrant.monitoring.promise import STORED, Promise
from calibrant.monitoring.slices import SUMS, Drift, Group, Impossible, Slice, drift_of
from calibrant.render.blocks import Document, Source
from calibrant.render.shown import NO_SOURCE, Shown
from calibrant.render.words import named, short
from calibrant.report import evaluated_data
from calibrant.report.evaluated_data import EvaluatedData
from calibrant.results.envelope import reason_of
from calibrant.runtime.arrays import ArrayLike, Float64s
from calibrant.runtime.progress import counted
from calibrant.sketch import CalibrationSketch, PredictedGroups
from calibrant.statistics.cells import Cells
from calibrant.statistics.e_processes import Mixture, Wealth, adjusted, log_mean
from calibrant.table import ReliabilityTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAMED: Final = 10  # declared groups that an error names

#: Held while a monitor is updated, so that several threads may update it.
_UPDATES: Final = RLock()


class Monitor(Shown):
    r"""Watches the calibration of a deployed model, one slice of rows after the other.

    The hypothesis is that each outcome occurs with the probability of its score, given all that came before, or with a
    probability within a tolerance. The evidence E against it is an e-process: it reaches 1 / ``alpha`` with a
    probability of at most ``alpha``, however long and however often one looks. So a model that stays calibrated raises
    an alarm with a probability of at most ``alpha`` over its whole life.

    .. math:: \log e_t = \sum_c \lambda_c k_c - n_c \log(1 + P_c (e^{\lambda_c} - 1)), \qquad
              A_j \leftarrow \Bigl(A_j + \frac1{t (t + 1)}\Bigr) e_{t,j}, \qquad
              E_t = \sum_j w_j A_j + \frac1{t + 1}

    Each alternative j, a tilt, adds lambda to the log-odds of the outcomes in cell c, which has n rows, k events and
    the mean score P. A tilt changes the level at all scores, the slope, or one of five ranges of the scores.

    Parameters
    ----------
    alpha : float, default 0.05
        The probability of a false alarm, over all slices together, in (0, 0.5].
    tolerance : float, optional
        The largest error of the probabilities without practical importance, such as 0.02. Errors up to the tolerance
        are not evidence against the scores.
    tolerance_odds : float, optional
        The tolerance as a factor of the odds, such as 1.1, for rare events. Pass only one of the two tolerances.
    max_weight : float, optional
        A bound on the weight of every row, known before the outcomes, for weights that are not whole numbers.
    threshold : Threshold, TwoSidedThreshold, QuestionThresholds or dict, optional
        Certified thresholds, whose promises are watched too, as by `watch_threshold`.
    groups : sequence of str, optional
        The names of the groups that are watched, with or without rows in the first slice; by default the groups of the
        first slice. For decision logs the groups are the questions, by default all of them, also those that first
        appear in later slices.

    Attributes
    ----------
    alarm : bool
        Whether the evidence has reached 1 / ``alpha``.
    evidence : float
        The largest E so far.
    p_value : float
        min(1, 1 / E), valid at any time.
    impossible : tuple of float
        The weight of the events with a score of 0, and that of the non-events with a score of 1. One of them refutes
        calibration: E is infinite. With ``tolerance``, no outcome is impossible.

    Notes
    -----
    Monitor rows without intervention, or a random sample without it: where people act on a score, the outcome is no
    longer what the score predicted. Feed rows only when their outcome would be known either way. Late rows are a slice
    of their own. Rows of one cluster, such as a patient, in several slices violate the hypothesis: pass each cluster in
    one slice only.

    Each question of a `DecisionLog` is a group with an e-process of its own. The score of a predicate is the
    probability of yes. The score of another question is the probability of its likeliest option, and the outcome is
    whether this option is right. Refusals and answers without a label are left out. All answers to all questions form
    one pool, in which each row is a cluster, because answers about one input may depend on each other in any way. E is
    the mean of the evidence of the pool and of the weighted mean of the evidence of the questions. Declared questions
    have equal weights. Otherwise new questions may appear in any slice, and their e-processes begin there at 1. The
    j-th slice with new questions gives them the weight 1 / (j (j + 1)), which they share. The weight 1 / (j + 1) that
    is left counts as evidence of 1. So a false alarm has a probability of at most ``alpha`` for any number of questions
    and any dependence between them. This is also true of ``called_out``, if earlier outcomes do not decide which
    miscalibrated questions are added. A log costs about 2 ms for each question.

    After an alarm, change the model or its recalibration, and start a new monitor. Cost of an update: that of a table
    of the rows, plus one pass over the cells of the grid. The state of ten years of weekly slices takes less than 1 MB.

    References
    ----------
    Shin, Ramdas, Rinaldo (2024), arXiv 2203.03532. Henzi, Puke, Dimitriadis, Ziegel (2023), arXiv 2203.00426. Vovk,
    Wang (2021), doi 10.1214/20-AOS2020.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant
    >>> rng = np.random.default_rng(0)
    >>> watch = calibrant.Monitor()
    >>> for week in range(12):
    ...     scores = rng.random(500)
    ...     drifted = scores if week < 6 else scores**1.5
    ...     watch.update(scores, rng.random(500) < drifted, label=f"week {week + 1}")
    >>> watch.alarm, watch.drift.since, watch.drift.repair
    (True, 'week 7', 'offset')
    """

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __init__(
        self,
        *,
        alpha: float = 0.05,
        tolerance: float | None = None,
        tolerance_odds: float | None = None,
        max_weight: float | None = None,
        threshold: Any = None,
        groups: Sequence[str] | None = None,
    ) -> None:
        self.alpha = _number("alpha", alpha, 0.0, 0.5, "a share such as 0.05")
        if tolerance is not None and tolerance_odds is not None:
            raise InputError("tolerance_odds", "one tolerance", "both tolerances", "leave one of them out")
        points = 0.0 if tolerance is None else _number("tolerance", tolerance, 0.0, 0.5, "an error such as 0.02")
        odds = 1.0
        if tolerance_odds is not None:
            odds = _number("tolerance_odds", tolerance_odds, 1.0, 100.0, "a factor of the odds such as 1.1")
        self._tolerance = Tolerance(points, odds)
        self.max_weight = None
        if max_weight is not None:
            self.max_weight = _number("max_weight", max_weight, 0.0, 1e300, "the largest possible weight of a row")
        self._settings: tuple[Notion, int | None] | None = None
        self._questions = ""  # "declared" or "open" for decision logs
        self._rows, self._scores = np.zeros(window.CELLS), np.zeros(window.CELLS)
        self._slices: tuple[Slice, ...] = ()
        self._mixture, self._wealth = Mixture.start(len(TILTS)), Wealth.start()
        self._most = 0.0
        self._groups = None if groups is None else _empty_groups(_names(groups))
        self._blocks: list[window.Block] = []
        self._promises = [] if threshold is None else Promise.of(threshold)
        #: What the command read slices from: the column of the "score", and the "event", such as "churned = 1".
        self.read_from: Mapping[str, str] = {}

    # ------------------------------------------------------------ updates

    def update(
        self,
        probs: PredictedGroups | DecisionLog,
        targets: ArrayLike | None = None,
        *,
        label: str | None = None,
        notion: Notion | None = None,
        weights: ArrayLike | None = None,
        ignore_index: int | None = None,
        logits: bool = False,
        class_names: Sequence[str] | None = None,
        groups: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
        weights_are: WeightsAre | None = None,
    ) -> None:
        """Add one slice of rows; a slice without evaluated rows is an error.

        Parameters
        ----------
        probs, targets, notion, weights, ignore_index, logits, class_names, groups, weights_are
            As in `calibrant.evaluate`: arrays, a `ReliabilityTable` or a `CalibrationSketch` of one evaluated event.
            The groups that are watched are those of the monitor, or of the first slice. With ``max_weight``, weights
            are those of a sample (``weights_are="sampling"``) unless ``weights_are`` says otherwise. Or ``probs`` is a
            `DecisionLog`, which comes with no other data and whose questions are the groups.
        label : str, optional
            The name of the slice, such as "2026-W31"; by default its number. A label is used once.
        clusters : array, (N,), or False, optional
            Rows of one cluster, within this slice, may depend on each other in any way.

        Raises
        ------
        calibrant.errors.InputError
            As `calibrant.evaluate`; for a label that was used, another notion or number of classes, another grid than
            "standard", classes or labels that are evaluated one by one, a group that was not declared, rows without
            groups if earlier ones have them, and weights that are not whole numbers without ``max_weight``; for a log
            after slices of one event, and the other way round, for a question of another kind than before; with a
            threshold, for clusters, and for a log unless the threshold is of its questions. The monitor stays as it
            was.
        """
        if weights is not None and weights_are is None and self.max_weight is not None:
            weights_are = "sampling"
        rows: dict[str, Any] = {
            "targets": targets,
            "notion": notion,
            "weights": weights,
            "ignore_index": ignore_index,
            "class_names": class_names,
            "groups": groups,
            "clusters": clusters,
            "weights_are": weights_are,
        }
        with _UPDATES:
            name = self._label(label)
            if isinstance(probs, DecisionLog):
                check_no_other(**rows, logits=logits or None)
                self._check_log(probs)
                kinds = {each.name: each.kind for each in probs.values()}
                self._update(name, _data_of_log(probs), 1.0, kinds, self._composites(probs))
            else:
                data = evaluated_data.of_arguments(probs, **rows, logits=logits)
                self._check(data)
                self._update(name, data, self._unit(data, probs, weights), {}, {})

    def _label(self, label: str | None) -> str:
        """Return the label of a slice, which was not used."""
        name = self._next_label() if label is None else str(label)
        if name in self.labels:
            remedy = f"pass a new label (--label); for late rows of this slice, pass for example {f'{name}, late'!r}"
            raise InputError("label", "a label that was not used", repr(name), remedy)
        return name

    def _update(
        self,
        name: str,
        data: EvaluatedData,
        unit: float,
        kinds: Mapping[str, str],
        composites: Mapping[str | tuple[str, ...], ReliabilityTable],
    ) -> None:
        """Add a slice; ``kinds`` and ``composites`` are those of the questions of a log."""
        table = data.tables[0]
        on_grid = table if table.grid is not None else table.on_grid("standard")
        rows, scores = self._rows.copy(), self._scores.copy()
        cells = np.asarray(on_grid.cells, np.intp)
        rows[cells] += on_grid.counts
        scores[cells] += np.asarray(on_grid.score_sums)
        held = rows > 0
        frame = Frame.of(rows[held], np.clip(scores[held] / rows[held], 0.0, 1.0))
        grown, wealth = self._slice(name, data, frame, unit)
        of_groups = {name: one.tables[0] for name, one in data.groups.items()}
        of_rows: dict[str | tuple[str, ...], ReliabilityTable] = {"": table, **composites}
        of_rows |= {question: of_groups[question] for question in kinds}
        promises = []
        for promise in self._promises:
            seen = of_groups.get(promise.group) if promise.group else of_rows.get(promise.subject)
            promises.append(promise if seen is None else promise.updated(seen, _unit_in(seen, unit)))
        questions = self._questions or ("" if not kinds else "open" if self._groups is None else "declared")
        found = self._grown_groups(data.groups, frame, unit, kinds)
        block = window.Block.of(len(self._slices), on_grid)
        # From here on nothing can fail.
        self._settings, self._questions = (data.notion, data.n_classes), questions
        self._rows, self._scores = rows, scores
        self._mixture, self._wealth = self._mixture.grown(grown.growth), wealth
        self._groups, self._promises = found, promises
        log_evidence = self._log_e_of_tilts
        self._slices = (*self._slices, replace(grown, digest=block.digest, log_evidence=log_evidence))
        self._blocks = window.appended(self._blocks, block)
        self._most = max(self._most, log_evidence)

    def _next_label(self) -> str:
        """Return the number of the slice, or the next that was not used."""
        number, known = len(self._slices) + 1, set(self.labels)
        while str(number) in known:
            number += 1
        return str(number)

    def _composites(self, log: DecisionLog) -> dict[str | tuple[str, ...], ReliabilityTable]:
        """Return the decisions of a log about inputs that thresholds of several questions together are about."""
        found = {promise.composite_of: log.together(promise.composite_of) for promise in self._promises}
        return {
            names: evaluated_data.of_arguments(each.least, each.right).tables[0]
            for names, each in found.items()
            if names and len(each.right)
        }

    def _check_promises(self, data: EvaluatedData) -> None:
        for promise in self._promises:
            of, own = _event(promise.notion, promise.n_classes), _event(data.notion, data.n_classes)
            if promise.notion is not None and of != own:
                remedy = "certify a threshold for this event, or begin a new monitor"
                raise InputError("threshold", f"a threshold for {own}", f"one for {of}", remedy)
        if self._promises and data.clusters is not None:
            expected = "independent rows with a threshold"
            remedy = "monitor the threshold separately, with one row for each cluster"
            raise InputError("clusters", expected, "clusters", remedy)
        remedy = "pass the group of each row (--by) and name all groups with groups= (--groups)"
        _check_groups(self._promises, data.groups if self._groups is None else self._groups, remedy)

    def _check_log(self, log: DecisionLog) -> None:
        """Reject a log after slices of one event, with a threshold, or with other questions than before."""
        if self._settings is not None and not self._questions:
            expected = f"{_event(*self._settings)}, as in the first slice"
            remedy = "pass one question (--question), or begin a new monitor for the log"
            raise InputError("probs", expected, "a DecisionLog", remedy)
        if not all(promise.subject for promise in self._promises):
            remedy = "pass what certify_questions returned, or monitor one question alone (--question)"
            expected = "thresholds that name their questions, because probs is a DecisionLog"
            raise InputError("threshold", expected, "a threshold without a question", remedy)
        if any(promise.group for promise in self._promises):
            remedy = "certify the thresholds without groups (--by), or monitor the log of each group alone"
            expected = "thresholds without groups, because the groups of a monitored log are its questions"
            raise InputError("threshold", expected, "thresholds of groups", remedy)
        groups = self._groups or {}
        if self._groups is not None and self._questions != "open":
            self._check_declared(log, "questions")
        for name, question in log.items():
            kind = groups[name].kind if name in groups else ""
            if kind not in ("", question.kind):
                expected = f"answers of the kind {kind} to {quoted(short(name))}, as in earlier slices"
                remedy = "give the question another name, or begin a new monitor"
                raise InputError("probs", expected, f"the kind {question.kind}", remedy)

    def _check_declared(self, names: Iterable[str], what: str) -> None:
        """Reject a group that was not declared; ``what`` the groups are."""
        known = self._groups or {}
        if unknown := [name for name in names if name not in known]:
            listed = named(list(map(short, known)), _NAMED) or f"no {what}"
            remedy = f"begin a new monitor, and declare all {what} with groups= (--groups)"
            raise InputError("groups", f"the declared {what} ({listed})", repr(unknown[0]), remedy)

    def _check(self, data: EvaluatedData) -> None:
        if any(promise.subject for promise in self._promises):
            remedy = "pass a DecisionLog, or begin a new monitor with a threshold of this event"
            raise InputError("threshold", "one threshold", "thresholds of questions", remedy)
        self._check_promises(data)
        if self._questions:
            remedy = "begin a new monitor for this event"
            raise InputError("probs", "a DecisionLog, as in the first slice", "other data", remedy)
        if data.notion in PER_CLASS:
            remedy = "monitor the predicted class, or use one monitor for each class or label"
            raise InputError("notion", "'positive' or 'top-label'", repr(data.notion), remedy)
        if self._settings is not None and self._settings != (data.notion, data.n_classes):
            expected, got = (_event(*settings) for settings in (self._settings, (data.notion, data.n_classes)))
            raise InputError("probs", f"{expected}, as in the first slice", got, "begin a new monitor for this event")
        if data.tables[0].grid not in (None, "standard"):
            remedy = "make the sketch with grid='standard'"
            raise InputError("probs", "the standard grid", f"the {data.tables[0].grid} grid", remedy)
        if data.counted is not None:
            remedy = "pass weights_are='frequency' (--weights-are frequency) if they count equal rows, else 'sampling'"
            raise InputError("weights", "weights of a known kind", "large whole numbers that differ", remedy)
        if self._groups is not None:
            self._check_declared(data.groups, "groups")
            if self._groups and not data.groups:
                remedy = "pass groups= (--by), or begin a new monitor without groups"
                raise InputError("groups", "the group of each row, as in the first slice", "none", remedy)

    def _unit(self, data: EvaluatedData, probs: Any, weights: ArrayLike | None) -> float:
        """Return the bound on the weight of a row, in the unit of the table; 1 if a unit of weight is a row.

        Raises
        ------
        InputError
            For weights that are not whole numbers without a bound, or above it.
        """
        table = data.tables[0]
        if table.whole:
            return 1.0
        if self.max_weight is None:
            remedy = "pass max_weight (--max-weight), a bound on all weights, chosen before the outcomes are known"
            raise InputError("weights", "whole numbers, or max_weight", "other weights", remedy)
        if data.predictions is not None:
            given = np.asarray(as_values("weights", weights), np.float64).reshape(-1)
            held = data.predictions.evaluated.reshape(-1)
            total, most = math.fsum(given[held]), float(given[held].max())  # in any order of the rows
        else:
            whole = CalibrationSketch.of_groups(probs) if isinstance(probs, Mapping) else probs
            own = whole if isinstance(whole, ReliabilityTable) else whole.table
            total, most = own.total, float(np.max(own.own_weights.sum(axis=0) / own.counts))
        if most > self.max_weight * (1 + 1e-12):
            remedy = "begin a new monitor with a larger max_weight (--max-weight), chosen before the outcomes are known"
            expected = f"at most max_weight = {wording.number(self.max_weight)}"
            raise InputError("weights", expected, wording.number(most), remedy)
        return self.max_weight * table.total / total

    def _slice(self, label: str, data: EvaluatedData, frame: Frame, unit: float) -> tuple[Slice, Wealth]:
        """Return the sums of one slice, and the wealth after it."""
        cells = Cells.from_table(data.tables[0])
        slopes, gaps = frame.spread * frame.slopes(cells.scores), cells.gap_sums
        square, bets = float(cells.squared_residuals.sum()), bets_of_cells(cells, unit)
        clusters = _clustered(data)
        if data.clusters is not None:
            sums, sizes = data.clusters.event.gap, data.clusters.event.weight
            if clusters is not None:
                sums, sizes = clusters.gaps, clusters.sizes
            scale = cells.total / float(sizes.sum())  # a table may have weights in another unit
            sums, sizes = scale * sums[sizes > 0], scale * sizes[sizes > 0]
            square, bets = total_of(sums**2), bets_of_units(sums, sizes)
        grown = Slice(
            label=label,
            n=cells.total,
            predicted=float(cells.score_sums.sum()),
            gap=float(gaps.sum()),
            square=square,
            information=float(cells.null_variances.sum()),
            skewness=float((cells.null_variances * (1 - 2 * cells.scores)).sum()),
            tilted=float((slopes * gaps).sum()),
            tilted_information=float((slopes**2 * cells.null_variances).sum()),
            growth=self._growth(data, clusters, frame, unit),
            impossible=self._impossible(data),
        )
        slices, wealth = (*self._slices, grown), self._wealth.grown(*bets)
        n, gap, predicted = (sum(getattr(each, name) for each in slices) for name in ("n", "gap", "predicted"))
        return replace(grown, bounds=wealth.bounds(n, gap, predicted, slices[0].information, self.alpha)), wealth

    def _impossible(self, data: EvaluatedData) -> Impossible:
        """Return the outcomes that a score of 0 or 1 excludes; none with a tolerance around the scores.

        A score of 1 that was computed from a logit is rounded, so that it excludes nothing.
        """
        if self._tolerance.points > 0:
            return Impossible()
        table, rounded = data.tables[0], data.predictions is not None and data.predictions.logits
        events, non_events = table.positives[table.scores == 0], (table.counts - table.positives)[table.scores == 1]
        return Impossible(float(events.sum()), 0.0 if rounded else float(non_events.sum()))

    def _growth(self, data: EvaluatedData, clusters: Clusters | None, frame: Frame, unit: float) -> Float64s:
        if clusters is not None:
            return growth_of_clusters(clusters, frame, self._tolerance)
        if data.clusters is not None:
            return growth_of_buckets(data.clusters.event, frame, self._tolerance)
        return growth_of_cells(Cells.from_table(data.tables[0]), frame, self._tolerance, unit)

    def _grown_groups(
        self, data: Mapping[str, EvaluatedData], frame: Frame, unit: float, kinds: Mapping[str, str]
    ) -> dict[str, Group]:
        """Return the groups with one more slice; a group without rows is unchanged, and new questions begin."""
        groups = _empty_groups(data) if self._groups is None else dict(self._groups)
        for name, one in data.items():
            new = Group(mixture=Mixture.start(len(TILTS)), since=len(self._slices))
            group, cells = groups.get(name, new), Cells.from_table(one.tables[0])
            growth = self._growth(one, _clustered(one), frame, _unit_in(one.tables[0], unit))
            groups[name] = replace(
                group,
                mixture=group.mixture.grown(growth),
                n=group.n + cells.total,
                gap=group.gap + float(cells.gap_sums.sum()),
                impossible=group.impossible + self._impossible(one),
                kind=kinds.get(name, ""),
            )
        opened = bool(kinds) and (self._groups is None or self._questions == "open")
        log_es = {name: group.mixture.log_e(WEIGHTS) for name, group in groups.items()}
        found = adjusted(log_es, *_shares_of(groups, opened=opened))
        return {name: replace(group, most=max(group.most, found[name])) for name, group in groups.items()}

    def watch_threshold(self, threshold: Any) -> None:
        """Watch the promise of a certified threshold from the next slice on; one already watched is not restarted.

        Parameters
        ----------
        threshold : Threshold, TwoSidedThreshold, QuestionThresholds or dict
            What `calibrant.certify_threshold`, `calibrant.certify_two_sided` or `calibrant.certify_questions` returned,
            or its dictionary. Both sides of a threshold, or the thresholds of all groups or questions, raise a false
            alarm with a probability of at most ``alpha`` together, and those of a later call with one of at most
            ``alpha`` in addition. With thresholds of groups, the common threshold is
            watched too, and the monitor needs these groups; for thresholds of predicted classes, the groups are the
            predicted classes.

        Raises
        ------
        calibrant.errors.InputError
            Without a certified threshold; for a threshold of groups that a monitor with slices does not have.
        """

        def key(promise: Promise) -> tuple[Any, ...]:
            return promise.value, promise.side, promise.max_risk, promise.group, promise.subject

        known = set(map(key, self._promises))
        new = [each for each in Promise.of(threshold) if key(each) not in known]
        if self._slices:
            remedy = "begin a new monitor (a new state file) with these groups, or leave this threshold out"
            _check_groups(new, self._groups or {}, remedy)
        self._promises = [*self._promises, *(replace(each, together=len(new)) for each in new)]

    @property
    def settings(self) -> dict[str, float | None]:
        """The numbers that the monitor was made with; None for those left out."""
        return {
            "alpha": self.alpha,
            "tolerance": self._tolerance.points or None,
            "tolerance_odds": self._tolerance.odds if self._tolerance.odds > 1 else None,
            "max_weight": self.max_weight,
        }

    # ------------------------------------------------------------ evidence

    @property
    def _log_e_of_tilts(self) -> float:
        whole = self._mixture.log_e(WEIGHTS)
        if not self._groups:
            return whole
        shares, reserve = _shares_of(self._groups, opened=self._questions == "open")
        logs = [group.mixture.log_e(WEIGHTS) for group in self._groups.values()]
        of_groups = log_mean([*logs, 0.0], [*shares.values(), reserve]) if reserve else log_mean(logs)
        return log_mean([whole, of_groups])

    @property
    def log_e(self) -> float:
        """The logarithm of the evidence after the last slice.

        With groups, this evidence is the average of the evidence from all rows and of the mean evidence of the groups.
        """
        return math.inf if self.impossible else self._log_e_of_tilts

    @property
    def impossible(self) -> Impossible:
        """The weight of the impossible outcomes: events with a score of 0, and non-events with a score of 1.

        One of them refutes the scores, so the evidence is infinite. With ``tolerance`` none is impossible.
        """
        return sum((each.impossible for each in self._slices), Impossible())

    @property
    def evidence(self) -> float:
        """The largest evidence so far; infinite if it is too large for a float, and after an impossible outcome."""
        return math.inf if self.impossible or self._most >= 700 else math.exp(self._most)

    @property
    def p_value(self) -> float:
        """The p-value of the hypothesis, valid at any time."""
        return 0.0 if self.impossible else min(1.0, math.exp(-self._most))

    @property
    def alarm(self) -> bool:
        """Whether the model is no longer calibrated: a false alarm has a probability of at most ``alpha``."""
        return bool(self.impossible) or self._has_drifted

    @property
    def _has_drifted(self) -> bool:
        return self._most >= -math.log(self.alpha)

    @property
    def promise_broken(self) -> bool:
        """Whether the promise of the threshold is no longer kept; False without a threshold."""
        return any(promise.log_evidence >= -math.log(self.alpha) for promise in self._promises)

    @property
    def groups(self) -> list[str] | None:
        """The names of the declared groups, which are those of the first slice by default; None before it."""
        return None if self._groups is None else list(self._groups)

    @property
    def notion(self) -> Notion:
        """The evaluated event: that of the slices; "positive" before the first one."""
        return "positive" if self._settings is None else self._settings[0]

    @property
    def n_classes(self) -> int | None:
        """The number of classes; None without classes, and before the first slice."""
        return None if self._settings is None else self._settings[1]

    @property
    def labels(self) -> list[str]:
        """The labels of the slices, in order."""
        return [each.label for each in self._slices]

    @property
    def drift(self) -> Drift | None:
        """What has drifted; None without an alarm, and if impossible outcomes alone have raised it."""
        return drift_of(self._slices, 1 - self.alpha) if self._has_drifted else None

    @property
    def called_out(self) -> list[str]:
        """The groups that are no longer calibrated, by closed testing; none without an alarm.

        The probability that a calibrated group is ever among them is at most ``alpha`` (family-wise error). Without
        the alarm as a first step, a model that stays calibrated could raise an alarm or flag a group with a probability
        above ``alpha``, because the evidence of all rows and the mean evidence of the groups can differ.
        """
        if not self.alarm:
            return []
        bound = -math.log(self.alpha)
        return [name for name, group in (self._groups or {}).items() if group.most >= bound or bool(group.impossible)]

    def since_onset(self) -> CalibrationSketch:
        """Return a sketch of the rows since the onset of the drift, to recalibrate on.

        Raises
        ------
        calibrant.errors.InputError
            Without a drift, and for the questions of decision logs.

        Notes
        -----
        Each row has the mean score of its cell of the grid. Old slices are kept in blocks, so the sketch may begin
        some slices after the onset.
        """
        drift = self.drift
        if self._questions:
            remedy = "recalibrate the logs of these slices, because each question needs a map of its own"
            raise InputError("since_onset", "a monitor of one event", "one of several questions", remedy)
        if drift is None or self._settings is None:
            got = "impossible outcomes alone" if self.alarm else "no alarm"
            raise InputError(
                "since_onset",
                "an alarm about a drift",
                got,
                "call since_onset() after an alarm about a drift, because other alarms have no onset",
            )
        scores = window.mean_scores(self._rows, self._scores)
        return window.since(self._blocks, drift.first, self._settings[0], scores)[0]

    # ------------------------------------------------------------ views

    def __repr__(self) -> str:
        return f"<Monitor: {self.verdict()[0]} Print the monitor to see everything.>"

    def _document(self, source: Source = NO_SOURCE, *, full: bool = False, **_: bool) -> Document:
        from calibrant.monitoring.monitor_document import document_of

        return document_of(self.history, source, full=full)

    def to_prometheus(self, model: str = "") -> str:
        """Return the evidence as metrics in the text format of Prometheus, for its textfile collector.

        Parameters
        ----------
        model : str, optional
            The value of the label ``model``, which tells several monitors apart.
        """
        from calibrant.monitoring import prometheus

        return prometheus.to_text(self.history, model)

    def plot(self, **options: Any) -> Axes:
        """Draw the evidence over the slices with matplotlib, and return the axes.

        Parameters
        ----------
        **options
            Those of `calibrant.plot.evidence`.
        """
        from calibrant.plot import evidence

        return evidence(self, **options)

    @property
    def history(self) -> History:
        """Everything that was seen and found so far."""
        mixture, logs = Mixture.start(len(TILTS)), []
        for each in self._slices:
            mixture = mixture.grown(each.growth)
            logs.append(mixture.log_e(WEIGHTS))
        n, gap = sum(each.n for each in self._slices), sum(each.gap for each in self._slices)
        first = {each.digest: each.label for each in reversed(self._slices)}
        called_out = self.called_out
        return History(
            n=n,
            notion=self.notion,
            n_classes=self.n_classes,
            questions=self._questions,
            alpha=self.alpha,
            tolerance=self.settings["tolerance"],
            tolerance_odds=self.settings["tolerance_odds"],
            alarm=self.alarm,
            evidence=self.evidence,
            log_evidence=math.inf if self.impossible else self._most,
            log_evidence_of_drifts=self._most,
            impossible=self.impossible,
            p_value=self.p_value,
            mean_difference=gap / n if n else math.nan,
            slices=tuple(
                SliceSeen(
                    each.label,
                    each.n,
                    each.gap / each.n,
                    each.log_evidence,
                    log_evidence_of_rows,
                    sum(each.impossible),
                    *each.bounds,
                    first[each.digest] if each.digest and first[each.digest] != each.label else None,
                )
                for each, log_evidence_of_rows in zip(self._slices, logs, strict=True)
            ),
            drift=self.drift,
            groups=tuple(self._group_seen(name, group, called_out) for name, group in (self._groups or {}).items()),
            promises=tuple(
                PromiseSeen(
                    promise.value,
                    promise.side,
                    promise.max_risk,
                    promise.rows,
                    promise.errors,
                    promise.risk,
                    promise.log_evidence,
                    promise.log_evidence >= -math.log(self.alpha),
                    promise.question,
                    promise.composite_of,
                    promise.group,
                )
                for promise in self._promises
            ),
            promises_alpha=self.alpha * float(sum(Fraction(1, promise.together) for promise in self._promises)),
        )

    def _group_seen(self, name: str, group: Group, called_out: Collection[str]) -> GroupSeen:
        return GroupSeen(
            name,
            group.n,
            group.gap / group.n if group.n else math.nan,
            group.most if math.isfinite(group.most) else math.nan,
            sum(group.impossible),
            name in called_out,
            group.kind,
            self._slices[group.since].label if group.since else "",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return every number as plain Python values that are strict JSON; numbers that are not finite are None."""
        return self.history.to_dict()

    # ------------------------------------------------------------ the state

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the state as JSON, and write it to a file if one is named: whole or not at all.

        A monitor that is read from it goes on bit for bit.
        """
        content = self.to_state()
        if path is not None:
            state.write(path, content)
        return state.encode(content).decode()

    @classmethod
    def from_json(cls, source: str | os.PathLike[str]) -> Monitor:
        """Return the monitor of a state: the path of its file, or the text that `to_json` returned.

        Raises
        ------
        calibrant.errors.FileError
            For a file that is missing, damaged, truncated, or of another program.
        """
        if isinstance(source, str) and source.lstrip().startswith("{"):
            return cls.of_state(state.decode(source.encode("utf-8", "surrogatepass"), "state"), "state")
        content = state.read(source)
        if content is None:
            raise FileError(str(source), "does not exist", "name a state that calibrant monitor wrote")
        return cls.of_state(content, str(source))

    @classmethod
    def of_state(cls, content: Mapping[str, Any], source: str) -> Monitor:
        """Return the monitor of a decoded state; ``source`` is its file, for errors.

        Raises
        ------
        FileError
            For a state whose checksum is right, and whose content is not that of a monitor.
        """
        try:
            watch = cls(**restored.settings_of(content))
            vars(watch).update(restored.attributes_of(content))
        except (KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError, InputError) as error:
            problem = f"is not the state of a monitor ({reason_of(error)})"
            raise FileError(source, problem, "name a state that calibrant monitor wrote") from None
        return watch

    def to_state(self) -> dict[str, Any]:
        """Return the state as a dictionary of strict JSON, which `to_json` writes."""
        notion, n_classes = self._settings or (None, None)
        return {
            "settings": {
                "alpha": self.alpha,
                "tolerance": self._tolerance.points,
                "tolerance_odds": self._tolerance.odds,
                "max_weight": self.max_weight,
                "notion": notion,
                "n_classes": n_classes,
                "most": self._most,
                "questions": self._questions,
                "read_from": dict(self.read_from),
            },
            "wealth": {"logs": state.pack(self._wealth.logs), "units": self._wealth.units},
            "frame": {"rows": state.pack(self._rows), "scores": state.pack(self._scores)},
            "groups": None
            if self._groups is None
            else {
                name: {
                    **{key: getattr(group, key) for key in ("n", "gap", "impossible", "kind", "since")},
                    "most": group.most if math.isfinite(group.most) else None,
                    **_stored(group.mixture),
                }
                for name, group in self._groups.items()
            },
            "promises": [
                {
                    **{key: getattr(promise, key) for key in STORED},
                    "composite_of": list(promise.composite_of),
                    **_stored(promise.mixture),
                }
                for promise in self._promises
            ],
            "blocks": [{"first": block.first, "slices": block.slices, **block.packed} for block in self._blocks],
            "slices": [
                {
                    "label": each.label,
                    **{name: getattr(each, name) for name in (*SUMS, "impossible", "digest", "log_evidence")},
                    "bounds": each.bounds,
                    "growth": each.packed,
                }
                for each in self._slices
            ],
        }


def _check_groups(promises: Iterable[Promise], known: Collection[str], remedy: str) -> None:
    """Reject promises about groups that are not known."""
    if lacking := [promise.group for promise in promises if promise.group and promise.group not in known]:
        expected = f"the groups of the threshold, which has a promise for {quoted(short(lacking[0]))}"
        got = named([quoted(short(name)) for name in known], _NAMED) or "no groups"
        raise InputError("groups", expected, got, f"{remedy}, or certify the threshold without groups")


def _stored(mixture: Mixture) -> dict[str, Any]:
    return {"logs": state.pack(mixture.logs), "slices": mixture.slices}


def _number(name: str, value: object, low: float, high: float, example: str) -> float:
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if number and low < float(value) <= high:  # type: ignore[arg-type]
        return float(value)  # type: ignore[arg-type]
    raise InputError(name, f"a number above {low:g} and up to {high:g}", repr(value), f"pass {example}")


def _data_of_log(log: DecisionLog) -> EvaluatedData:
    """Return all answers with the row as cluster, and as groups the answers to each question.

    The event of a predicate is yes, and that of another question that the likeliest option is right.
    """
    groups = {
        name: evaluated_data.of_arguments(
            question.probs, question.targets, notion="positive" if question.probs.ndim == 1 else "top-label"
        )
        for name, question in counted("reading questions", list(log.items()))
    }
    events = [read(one.predictions, one.notion, scoring=False).events for one in groups.values() if one.predictions]
    scores, outcomes = (np.concatenate([getattr(each, name) for each in events]) for name in ("scores", "outcomes"))
    rows = np.concatenate([question.rows for question in log.values()])
    return replace(evaluated_data.of_arguments(scores, outcomes, clusters=rows), groups=groups)


def _shares_of(groups: Mapping[str, Group], *, opened: bool) -> tuple[dict[str, float], float]:
    """Return the weight of each group, and what is kept for groups to come: nothing unless questions are open.

    The j-th slice with new questions has the weight 1 / (j (j + 1)), which they share, so that 1 / (j + 1) is left.
    """
    if not opened:
        return dict.fromkeys(groups, 1.0), 0.0
    sizes = Counter(group.since for group in groups.values())
    shares = {since: 1 / (j * (j + 1) * sizes[since]) for j, since in enumerate(sorted(sizes), 1)}
    return {name: shares[group.since] for name, group in groups.items()}, 1 / (len(sizes) + 1)


def _unit_in(table: ReliabilityTable, unit: float) -> float:
    """Return the bound on the weight of a row of a table: equal weights, also of a group alone, become rows."""
    return 1.0 if table.whole else unit


def _clustered(data: EvaluatedData) -> Clusters | None:
    """Return the rows of predictions in clusters; None for independent rows, and for sums over clusters."""
    if data.clusters is None or data.predictions is None or data.labels is None:
        return None
    events = read(data.predictions, data.notion, scoring=False).events
    return Clusters.of(events, data.labels.take(np.flatnonzero(data.predictions.evaluated)).hashes)


def _names(groups: Sequence[str]) -> list[str]:
    names = [] if isinstance(groups, str) else [str(name) for name in groups]
    if not names or len(set(names)) < len(names):
        remedy = "pass the names of all groups, such as ['north', 'south']"
        raise InputError("groups", "one or more names, each once", repr(groups)[:80], remedy)
    return names


def _empty_groups(names: Iterable[str]) -> dict[str, Group]:
    return {name: Group(mixture=Mixture.start(len(TILTS))) for name in names}


def _event(notion: str | None, n_classes: int | None) -> str:
    if n_classes is None:
        return "scores of one event"
    return f"{'the predicted class' if notion == 'top-label' else 'one event'} of {n_classes} classes"
