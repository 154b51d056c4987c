"""A recalibration as a document: whether it helps, the map, and the measures before and after."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from calibrant.measures.line.line import CALIBRATION_INTERCEPT, CALIBRATION_SLOPE
from calibrant.recalibration.families import FAMILIES
from calibrant.recalibration.maps import formula_of
from calibrant.recalibration.pieces import Pieces
from calibrant.recalibration.softmax import CLASS_FAMILIES, Softmax
from calibrant.render.blocks import (
    Block,
    Column,
    Document,
    Heading,
    Method,
    Notes,
    Sentence,
    Source,
    Table,
)
from calibrant.render.figure import Axis, Band, Figure, Mark, Polyline, Rule
from calibrant.render.line_figures import tips_along
from calibrant.render.reliability import side_by_side
from calibrant.render.words import (
    chance,
    chance_text,
    ends_column,
    ends_text,
    evaluated_event,
    facts_of,
    in_clusters,
    is_clustered,
    is_rare,
    named,
    number,
    percent,
    rows_text,
    short,
    signed,
    steps,
    texts,
)
from calibrant.statistics.resampling import alpha_of

if TYPE_CHECKING:
    from calibrant.recalibration.recalibrations import LabelRecalibrations, MapCurve, Recalibration, RecalibrationResult
    from calibrant.report.report import Report
    from calibrant.results import ReliabilityDiagram

_LISTED: Final = 11  # rows of the table of a map
_LABELS_DRAWN: Final = 8  # diagrams before and after
_NAMED: Final = 10  # labels in a sentence
_NOTABLE: Final = 1e-6  # limit of probabilities that the text names
_NOTABLE_SHARE: Final = 0.05  # of the shrinkage

#: The measures of the scores whose intervals a reader compares with the proof, and their ideal values.
_IDEAL: Final = {CALIBRATION_INTERCEPT: 0.0, CALIBRATION_SLOPE: 1.0}
#: The losses that prove a gain, in words.
_LOSSES: Final = {"log": "log loss", "brier": "Brier score"}
#: The families of maps, in words.
_FAMILIES: Final = {family.name: family.label for family in (*FAMILIES, *CLASS_FAMILIES)}


def document_of(fix: Recalibration, source: Source, *, full: bool) -> Document:
    """Return the document of one map; a full one has pictures, the map and the tables behind them."""
    event = evaluated_event(fix.notion, fix.n_classes, source)
    what = f"all {fix.n_classes} classes" if isinstance(fix.map.form, Softmax) else event
    return _document(fix, fix, what, _verdict(fix), _blocks(fix, full=full), source)


def document_of_labels(result: LabelRecalibrations, source: Source, *, full: bool) -> Document:
    """Return the document of the maps of several labels; a full one has the diagrams of the first labels."""
    first, what = next(iter(result.labels.values())), f"{result.n_classes} labels"
    return _document(result, first, what, _verdict_of_labels(result), _blocks_of_labels(result, full=full), source)


def _document(
    result: RecalibrationResult,
    one: Recalibration,
    what: str,
    verdict: list[Sentence],
    blocks: list[Block],
    source: Source,
) -> Document:
    """Return the document of ``what`` was mapped, with the settings and methods of ``one`` of the maps."""
    clusters, n = one.before.clusters, one.before.n
    assumed = [] if is_clustered(clusters, n) else ["Confidence intervals and p-values assume independent rows."]
    unchanged = one is result and one.chosen == "identity"
    unproven = (
        "No map is clearly better than the unchanged scores" if unchanged else "No evidence that recalibration helps"
    )
    return Document(
        title="Recalibration",
        headline=f"{rows_text(n)}{in_clusters(clusters)} ({what})",
        conclusion=Sentence("Recalibration helps", "good") if result.proven else Sentence(unproven),
        verdict=[*verdict, *map(Sentence, assumed)],
        blocks=blocks,
        facts=facts_of(
            source,
            n=n,
            notion=result.notion,
            n_classes=result.n_classes,
            level=one.gain.level,
            weight=float(_diagram(one.before).counts.sum()),
        ),
        measured="measure",
        methods=[
            Method(description.label, description.meaning, one.after[name].method)
            for name, description in one.before.descriptions.items()
        ],
    )


def _diagram(report: Report) -> ReliabilityDiagram:
    """Return the bins of a report, which recalibrations always have."""
    return cast("ReliabilityDiagram", report.diagram)


# ---------------------------------------------------------------- the verdict of one map


def _verdict(fix: Recalibration) -> list[Sentence]:
    """Return the cautions, the gain, the map, and the errors."""
    sentences = [Sentence(f"Caution: {fix.flag}.", "caution")] if fix.flag else []
    sentences += [Sentence(_gain(fix), "good" if fix.proven else ""), *map(Sentence, _apart(fix))]
    sentences.append(Sentence(" ".join(_choice(fix))))
    if fix.chosen != "identity":
        of_all = f"The map is fitted to all {rows_text(fix.before.n)}."
        out_of_fold = "The numbers after recalibration are cross-validated in five folds: each row is "
        sentences += [
            Sentence(_errors(fix)),
            Sentence(f"{of_all} {out_of_fold}evaluated with a map that was fitted without its fold."),
        ]
    return sentences


def _gain(fix: Recalibration) -> str:
    gain = fix.gain
    if fix.chosen == "identity" and fix.method != "auto":
        return "The scores remain unchanged, as requested."
    if fix.chosen == "identity":
        return (
            "No map is clearly better than the unchanged scores, because none has a clearly smaller log loss "
            "on rows that it was not fitted to."
        )
    value, low, high = texts([gain.value, gain.low, gain.high], 4, [0.0])
    numbers = f"{value} ({percent(gain.level)} CI {low} to {high}; p {chance(gain.p_value)})"
    why = ""
    if not math.isfinite(fix.before["nll"].value):
        clipped = " The decrease therefore compares the map with scores that are clipped away from 0 and 1."
        why = " The log loss before the map is infinite, because an observed outcome had predicted probability 0."
        why += clipped * (gain.score == "log")
    elif gain.score == "brier":
        why = " The log loss after the map is infinite, because the map gives an observed outcome the probability 0."
    if fix.proven:
        return f"Recalibration lowers the {_LOSSES[gain.score]} of new rows by {numbers}.{why}"
    return f"No evidence that recalibration helps: estimated decrease of the {_LOSSES[gain.score]} {numbers}.{why}"


def _apart(fix: Recalibration) -> Iterator[str]:
    """Yield why a measure of the scores may be significant although the gain of a map is not."""
    if fix.proven or (fix.chosen == "identity" and fix.method != "auto"):
        return
    level = percent(fix.gain.level)
    off = [
        f"{measure.label} ({signed(part.low)} to {signed(part.high)}) excludes {ideal:g}"
        for measure, ideal in _IDEAL.items()
        if (part := fix.before.get(measure.name)) is not None and (part.low > ideal or part.high < ideal)
    ]
    if off:
        yield (
            f"The {level} CI of the {' and the CI of the '.join(off)}, which is evidence of miscalibration. "
            f"But a map counts as helpful only if the {_LOSSES[fix.gain.score]} of new rows is clearly lower."
        )


def _choice(fix: Recalibration) -> Iterator[str]:
    """Yield the family of the map, why it was chosen, and what it does to the order and to extreme scores."""
    formula = formula_of(fix.map)
    yield f"Map: {_FAMILIES[fix.chosen]}{', ' if formula else ''}{formula}."
    if fix.runner_up is not None:
        other, loss = _FAMILIES[fix.runner_up], fix.losses[fix.chosen][0]
        if loss <= fix.losses[fix.runner_up][0]:
            yield (
                "Of all maps, it has the smallest log loss on rows that it was not fitted to; the next best is "
                f"{other}."
            )
        else:
            yield f"The log loss of {other} is smaller, but the difference may be chance."
    if fix.chosen == "constant":
        auroc = fix.before["auroc"]
        if auroc.low > 0.5:
            yield (
                "The map gives all rows one probability, although higher scores go with more events (AUROC "
                f"{number(auroc.value)})."
            )
        else:
            yield (
                "The map gives all rows one probability. There is no clear sign that higher scores go with more events."
            )
    if fix.shrinkage >= _NOTABLE_SHARE:
        numbers = "log-probabilities" if isinstance(fix.map.form, Softmax) else "log-odds"
        share = f"{100 * fix.shrinkage:.0f} %"
        yield f"The map is shrunk: its {numbers} are moved {share} of the way to the {numbers} of the unchanged scores."
    if fix.chosen not in ("identity", "constant"):
        yield from _moved(fix)


def _moved(fix: Recalibration) -> Iterator[str]:
    """Yield what is moved before the map."""
    form = cast("Pieces | Softmax", fix.map.form)
    smallest, rest = form.smallest, 1 - form.largest if isinstance(form, Pieces) else 0.0
    if smallest >= _NOTABLE and math.isclose(smallest, rest):
        yield (
            f"Before the map, scores outside [{smallest:.3g}, 1 - {smallest:.3g}] are moved to the nearer end of "
            "this interval."
        )
        return
    if smallest >= _NOTABLE:
        yield f"Before the map, probabilities below {smallest:.3g} become {smallest:.3g}."
    if rest >= _NOTABLE:
        yield f"Before the map, probabilities above 1 - {rest:.3g} become 1 - {rest:.3g}."


def _errors(fix: Recalibration) -> str:
    before, after, level = fix.before["ece"], fix.after["ece"], percent(fix.gain.level)
    calibrated = ""
    if after.floor is not None:
        calibrated = f"; a perfectly calibrated model would stay below {after.floor.upper:.4f} in {level} of samples"
    interval = f"{level} CI {ends_text(after.low, after.high)}"
    return f"ECE {number(before.value)} before, {number(after.value)} ({interval}) after{calibrated}."


# ---------------------------------------------------------------- the numbers of one map


def _blocks(fix: Recalibration, *, full: bool) -> list[Block]:
    blocks: list[Block] = [_measures_table(fix), *_remarks(fix)]
    if full:
        pictures = _before_and_after({"before": fix.before, "after": fix.after}, fix.gain.level, blocks)
        blocks = [
            *pictures,
            *(_classes_map(fix) if isinstance(fix.map.form, Softmax) else scores_map(fix.curve, fix.gain.level)),
        ]
    if fix.by_group is not None:
        from calibrant.report.group_document import group_blocks

        blocks += group_blocks(
            fix.by_group, full=full, heading="Groups after recalibration (one map, fitted to all rows)"
        )
    return blocks


def _measures_table(fix: Recalibration) -> Table:
    """Return the measures before and after, with their intervals."""
    descriptions = fix.before.descriptions
    writes = [signed if description.signed else number for description in descriptions.values()]
    labels = [description.label for description in descriptions.values()]
    columns = [Column("measure", labels, {"measure": list(descriptions)})]
    for when, report in (("before", fix.before), ("after", fix.after)):
        parts = [report[name] for name in descriptions]
        ends = {f"{when}_low": [part.low for part in parts], f"{when}_high": [part.high for part in parts]}
        values = [part.value for part in parts]
        columns += [
            Column(when, [write(value) for write, value in zip(writes, values, strict=True)], {when: values}),
            ends_column(f"{percent(fix.gain.level)} CI", ends, writes),
        ]
    return Table("recalibration", columns, "Before and after")


def _remarks(fix: Recalibration) -> list[Notes]:
    """Return what happens to the order of the scores, and how exact the loss after is."""
    if fix.chosen in ("vector", "matrix"):
        return [Notes(["the predicted class of a row can change, and so can the accuracy"])]
    if fix.distinct_scores is None or fix.chosen in ("identity", "histogram", "constant"):
        return []
    before, after = fix.distinct_scores
    mapped = (
        f"the AUROC may change, because the map gives the {before:,} different scores only {after:,} different values"
    )
    same = "the AUROC does not change, because increasing maps keep the order of the scores"
    notes = [same if after == before else mapped]
    loss = _LOSSES[fix.gain.score]
    bound = fix.after["nll" if fix.gain.score == "log" else "brier_event"].error_bound
    if 0 < bound < math.inf:
        notes.append(
            f"the {loss} after recalibration is computed from scores pooled into grid cells; its error is at most "
            f"{bound:.1g}"
        )
    return [Notes(notes)]


def _before_and_after(reports: Mapping[str, Report], level: float, numbers: Sequence[Block]) -> list[Block]:
    """Return the section with the diagrams of reports by their names, the numbers, and the bins."""
    diagrams = {name: _diagram(report) for name, report in reports.items()}
    notion = next(iter(reports.values())).notion
    rare = all(map(is_rare, diagrams.values()))  # one scale for all
    figures, tables = side_by_side(diagrams, notion, level, files=[f"bins-{name}" for name in diagrams], rare=rare)
    caption = (
        "Each point shows the mean predicted probability and the observed frequency of a bin, with the "
        f"{percent(level)} CI of the frequency. Grey: consistency band. A diamond marks a point outside its "
        "band. The bars count the rows of each bin, with the event (up) and without it (down)."
    )
    return [Heading("Before and after"), figures, Notes([caption]), *numbers, tables]


def scores_map(curve: MapCurve | None, level: float) -> list[Block]:
    """Return the section of a map of scores: its picture, with the band if there is one, and some of its points."""
    if curve is None:
        return []
    title, band = "The map of the scores", f"{percent(level)} CI"
    scores, mapped, lows, highs = (x.tolist() for x in (curve.scores, curve.mapped, curve.lows, curve.highs))
    marks: list[Mark] = [
        Polyline(scores, mapped, "curve"),
        *([Band(scores, lows, highs, "sure")] if curve.has_band else []),
        Rule("both", "ideal"),
        tips_along(scores, mapped, lambda i: f"score {scores[i]:.3f} becomes {mapped[i]:.3f}"),
    ]
    caption = f" The band is the pointwise {percent(level)} confidence band." * curve.has_band
    columns = [
        Column.of("score", "score", scores, number),
        Column.of("recalibrated", "recalibrated", mapped, number),
        *([ends_column(band, {"low": lows, "high": highs})] if curve.has_band else []),
    ]
    x, y = Axis("Score", 0.0, 1.0), Axis("Recalibrated probability", 0.0, 1.0)
    figure = Figure(title, x, y, marks, square=True, caption=f"The dashed line leaves scores unchanged.{caption}")
    table = Table("map", columns, title).of_rows(steps(len(scores), _LISTED))
    return [Heading(title, "map"), figure, table]


def _classes_map(fix: Recalibration) -> list[Block]:
    """Return the section of a map of classes: the factors, of a matrix those on its diagonal, and the constants."""
    form = cast("Softmax", fix.map.form)
    how = (
        "The map multiplies the log-probability of each class by the factor of the class and adds the "
        "constant of the class. The softmax turns the sums into probabilities."
    )
    others = (
        " To each sum, the map also adds the log-probabilities of the other classes, each multiplied by its own "
        "factor. These factors are only in the JSON."
    )
    names = fix.before.class_names or tuple(map(str, range(form.n_classes)))
    factors = np.diagonal(form.factors) if form.is_matrix else form.factors
    columns = [
        Column.of("class", "class", names),
        Column.of("factor", "factor", factors.tolist(), number),
        Column.of("constant", "constant", form.constants.tolist(), signed),
    ]
    title = "The map of the classes"
    return [Heading(title, "map"), Notes([how + others * (fix.chosen == "matrix")]), Table("map", columns, title)]


# ---------------------------------------------------------------- several labels


def _verdict_of_labels(result: LabelRecalibrations) -> list[Sentence]:
    """Return for which labels recalibration helps, and which labels have no map."""
    level, adjusted = percent(result.level), result.adjusted_p_values
    proven = [short(name) for name, p_value in adjusted.items() if p_value <= alpha_of(result.level)]
    if proven:
        helped = f"{len(proven)} of {result.n_classes} labels: {named(proven, _NAMED)}"
        sentences = [
            Sentence(f"Recalibration lowers the loss of {helped} (Holm-adjusted, at {level} confidence).", "good")
        ]
        if len(proven) < result.n_classes:
            sentences.append(Sentence("The map leaves the scores of the other labels unchanged."))
    else:
        none = f"No evidence that recalibration lowers the loss of any label (Holm-adjusted, at {level} confidence)."
        sentences = [Sentence(none)]
    for name, reason in result.refused.items():
        sentences.append(Sentence(f"Caution: no map was fitted to label {short(name)}: {reason}."))
    return sentences


def _blocks_of_labels(result: LabelRecalibrations, *, full: bool) -> list[Block]:
    remark = (
        "decrease: decrease of the mean log loss, or of the Brier score if an observed outcome had predicted "
        "probability 0; p: Holm-adjusted p-value of the decrease"
    )
    blocks: list[Block] = [_labels_table(result), Notes([remark])]
    if not full:
        return blocks
    reports: dict[str, Report] = {}
    for name, fix in list(result.labels.items())[:_LABELS_DRAWN]:
        reports |= {f"{short(name)}, before": fix.before, f"{short(name)}, after": fix.after}
    return _before_and_after(reports, result.level, blocks)


def _labels_table(result: LabelRecalibrations) -> Table:
    """Return the map, the decrease of the loss, and the ECE of each label."""
    names, fixes = list(result.labels), list(result.labels.values())
    gains = [fix.gain for fix in fixes]
    written = [texts([gain.value, gain.low, gain.high], 4, [0.0]) for gain in gains]
    columns = [
        Column.of("label", "label", names, short),
        Column.of("map", "map", (fix.chosen for fix in fixes), words=True),
        Column("decrease", [value for value, _, _ in written], {"gain": [gain.value for gain in gains]}),
        Column(
            f"{percent(result.level)} CI",
            [f"{low} to {high}" for _, low, high in written],
            {"low": [gain.low for gain in gains], "high": [gain.high for gain in gains]},
        ),
        Column.of("p", "adjusted_p_value", (result.adjusted_p_values[name] for name in names), chance_text),
        Column.of("ECE before", "ece_before", (fix.before["ece"].value for fix in fixes), number),
        Column.of("ECE after", "ece_after", (fix.after["ece"].value for fix in fixes), number),
    ]
    return Table("labels", columns, "Labels")
