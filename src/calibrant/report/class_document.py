"""The classes or labels of a report as blocks: their errors and tests, and a small diagram of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from calibrant.render.blocks import Block, Column, Details, Heading, Sentence, Table, Tile, Tiles
from calibrant.render.reliability import small_figure
from calibrant.render.words import amount, capital, chance_text, counted_in_classes, number_text, percent
from calibrant.report.group_document import correction
from calibrant.results import ClasswiseCalibration
from calibrant.results.values import class_bins
from calibrant.statistics.resampling import alpha_of

if TYPE_CHECKING:
    from calibrant.report.report import Report

_BRIEF: Final = 5  # classes that the terminal lists, the worst first
_LISTED: Final = 8  # classes that a page lists; the others are folded
_DRAWN: Final = 1_000  # a page with so many has about a megabyte
_HARD_SPACE: Final = "\N{NO-BREAK SPACE}"


def class_blocks(report: Report, *, full: bool) -> list[Block]:
    """Return the errors of the classes with their tests; ``full`` adds a diagram of each. Nothing without classes."""
    if report.classwise is None:
        return []
    kind, plural = ("label", "labels") if report.notion == "multilabel" else ("class", "classes")
    classes, table = report.classwise, _classes_table(report, report.classwise, kind)
    total, note = len(classes.errors), ""
    if classes.adjusted_p_values is not None:
        note = correction(classes.adjusted_p_values.tolist(), table.marked, kind, plural)
    if not full:
        evaluated = total - int(np.isnan(classes.errors).sum())
        listed = min(_BRIEF, evaluated)
        of_all = f", the {listed} largest of {evaluated:,}" if listed < evaluated else ""
        notes = [Sentence(f"* {note}")] if note else []
        return [Heading(f"ECE by {kind}{of_all}", "classes"), table.of_rows(range(listed)), *notes]
    blocks: list[Block] = [Heading(f"The {total:,} {plural}", "classes")]
    if note:
        blocks.append(Sentence(f"{capital(note)}{', marked ◆' * any(table.marked)}."))
    folded = total > _LISTED
    blocks.append(table.of_rows(range(min(total, _LISTED))))
    if folded:
        rest = table.of_rows(range(_LISTED, total))
        blocks.append(Details(f"The other {total - _LISTED} {plural} as a table", [rest], long=True))
    about = Sentence(_about_diagrams(classes, kind, plural))
    tiles = _tiles(report, classes, kind, table)
    return [*blocks, Details(f"A diagram of each {kind}", [about, tiles], long=True, open=not folded)]


def _names(report: Report, classes: ClasswiseCalibration) -> Sequence[str]:
    return report.class_names or [str(k) for k in range(len(classes.errors))]


def _by_error(classes: ClasswiseCalibration) -> list[int]:
    """Return the indices of the classes, the largest error first, missing ones last."""
    return list(map(int, np.argsort(-classes.errors, kind="stable")))  # which puts NaN last


def _classes_table(report: Report, classes: ClasswiseCalibration, kind: str) -> Table:
    """Return the errors of all classes, the largest first, with the test of each."""
    order, counted = _by_error(classes), counted_in_classes(classes.counts)
    names, errors, supports = _names(report, classes), classes.errors[order], classes.supports[order].tolist()
    exact = {"ece": errors.tolist(), "kept": classes.kept[order].tolist()}
    columns = [
        Column.of("class", "class", (names[k] for k in order), brief=kind),
        Column(f"{counted} of it", list(map(amount, supports)), {"rows": supports}, brief=counted),
        Column("ECE", list(map(number_text, errors)), exact),
    ]
    title = "The labels" if kind == "label" else "The classes"
    if classes.p_values is None or classes.adjusted_p_values is None or report.level is None:
        return Table("classes", columns, title, marked=[False] * len(order))
    adjusted = classes.adjusted_p_values[order].tolist()
    marked = [p <= alpha_of(report.level) for p in adjusted]
    tests = {"p_value": classes.p_values[order].tolist(), "adjusted_p_value": adjusted, "called_out": marked}
    columns.append(Column("p adjusted", list(map(chance_text, adjusted)), tests, brief="p adj."))
    return Table("classes", columns, title, marked=marked)


def _about_diagrams(classes: ClasswiseCalibration, kind: str, plural: str) -> str:
    counted = counted_in_classes(classes.counts)
    shown = f"Each diagram evaluates the predicted probability of one {kind}. The first {kind} has the largest error."
    if len(classes.errors) > _DRAWN:
        shown = f"The diagrams show the {_DRAWN:,} {plural} with the largest errors. The tables contain all {plural}."
    return (
        f"{shown} The horizontal axis is the predicted probability, the vertical axis the observed frequency, both "
        f"from 0 to 1. A point is small if it has less than 2 % of all {counted}, and large if it has at least 20 %."
    )


def _tiles(report: Report, classes: ClasswiseCalibration, kind: str, table: Table) -> Tiles:
    """Return the small diagrams of the worst classes, with the bins behind them."""
    counted, names, tiles = counted_in_classes(classes.counts), _names(report, classes), []
    for place, k in enumerate(_by_error(classes)[:_DRAWN]):
        error, support, text = classes.errors[k].item(), classes.supports[k].item(), "no rows"
        if not math.isnan(error):
            text = f"ECE {error:.4f}; {'weight ' * (counted == 'weight')}{amount(support)} of this {kind}"
        text += f"; ◆{_HARD_SPACE}evidence of miscalibration" * table.marked[place]
        error = -1.0 if math.isnan(error) else error
        picture = small_figure(classes.diagram(k))
        tiles.append(Tile(str(names[k]), text, picture, table.marked[place], k, error, support))
    level = "" if report.level is None else percent(report.level)
    return Tiles(tiles, sortable=True, counted=counted, bins=_class_bins(report, classes), level=level)


def _class_bins(report: Report, classes: ClasswiseCalibration) -> Table:
    """Return the filled bins of all classes."""
    bins, names = class_bins(classes), _names(report, classes)
    indices = bins["class"].tolist()
    of_bins = [names[k] for k in indices]
    return Table("class-bins", [Column("class", of_bins, {"index": indices, **bins, "class": of_bins})])
