"""A comparison for the terminal, from the dictionary of `Comparison.to_dict`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from calibrant.render import leaderboard, tables
from calibrant.render.style import (
    Facts,
    Pair,
    Style,
    Summary,
    Tone,
    aligned,
    distinct,
    evaluated_event,
    head,
    number,
    paragraphs,
    percent,
    short,
    wrapped,
)
from calibrant.render.tables import Column, Table
from calibrant.render.words import chance, classes_text, in_clusters, rows_text, texts, worst
from calibrant.statistics.resampling import alpha_of

_NAME: Final = 24  # characters of a model's name
_CLOSED_FORM: Final = (
    "p-values of calibration are calculated in closed form; a report simulates data sets, so its p-value may differ"
)
_LISTED: Final = 6  # models whose measures are all listed in the terminal


def _called(summary: Summary, name: str, limit: int = 40) -> str:
    """Return the name of a model, cut so that it stays distinct from the others."""
    return distinct(tuple(summary["models"]), limit)[name]


def labels_of(summary: Summary) -> dict[str, str]:
    """Return the labels of the compared measures; the first one decides."""
    return {key: str(measure["label"]) for key, measure in summary["measures"].items()}


def headline(summary: Summary) -> str:
    """Return the numbers of rows and models and the evaluated event, in words."""
    counts = [each["difference"]["n"] for each in summary["leaderboard"]]
    number = rows_text(max(counts)) if min(counts) == max(counts) else f"{min(counts):,} to {rows_text(max(counts))}"
    rows, models = f"{number}{in_clusters(summary['clusters'])}", f"{len(summary['models'])} models"
    parts = filter(None, [rows, classes_text(summary), models])
    return f"{', '.join(parts)} ({evaluated_event(summary)})"


def render(summary: Summary, *, title: str = "", used: str = "", style: Style | None = None) -> str:
    """Return the comparison as lines of text."""
    style = style or Style()
    blocks = [head(headline(summary), title, used, style), paragraphs(verdict(summary), style)]
    blocks.append(leaderboard.lines(summary, style))
    if len(summary["models"]) <= _LISTED:
        blocks.append(_models(summary, style))
    if has_few(summary):
        blocks += [_pair(pair, summary, style) for pair in summary["pairs"]]
    blocks += [_groups(place, summary, style) for place in grouped_pairs(summary)]
    if notes := remarks(summary):
        blocks.append([style.faint(line) for line in paragraphs(notes, style)])
    return style.plain("\n\n".join("\n".join(block) for block in blocks))


# ---------------------------------------------------------------- in words


def verdict(summary: Summary) -> list[str]:
    """Return which model of each pair is better calibrated, or that the rows do not show it; a tolerance first."""
    pairs = summary["pairs"] if has_few(summary) else []
    sentences = [_tolerated(pair, summary) for pair in _with_first(summary) if pair["decision"] is not None]
    sentences += [] if len(pairs) == 1 else leaderboard.sentences(summary)
    sentences += [_decision(pair, summary) for pair in pairs]
    if len(pairs) == 1:
        sentences += _sharpness(pairs[0], summary)
        if summary["sorted_by"] != "brier":
            sentences += leaderboard.sentences(summary)
    elif pairs:
        sentences.append(
            f"The p-values are Holm-adjusted for {len(pairs)} pairs, but the confidence intervals are not adjusted."
        )
    if summary["independent"]:
        sentences.append("The models were evaluated on independent rows, so the variances of the errors are added.")
    elif not summary["paired"]:
        sentences.append("Sketches contain no single rows, so the confidence intervals are conservative.")
    sentences += _model_verdicts(summary) if pairs else [leaderboard.calibration(summary)]
    sentences += leaderboard.impossible(summary)
    if summary["clusters"] is None:
        sentences.append("Confidence intervals and p-values assume independent rows.")
    flags = [pair["estimates"][summary["decides"]]["details"].get("flag") for pair in _with_first(summary)]
    return sentences + [f"Caution: {flag}." for flag in dict.fromkeys(flags) if flag]


def has_few(summary: Summary) -> bool:
    """Whether the models are so few that each pair is shown."""
    return len(summary["models"]) <= leaderboard.FEW


def _with_first(summary: Summary) -> list[Pair]:
    """Return the pairs to name: all of few models, of many those with the first one."""
    first = next(iter(summary["models"]))
    return [pair for pair in summary["pairs"] if has_few(summary) or first == pair["first"]]


def remarks(summary: Summary) -> list[str]:
    """Return the remarks below the numbers."""
    notes = []
    if summary["lone_groups"]:
        names = ", ".join(map(short, summary["lone_groups"]))
        notes.append(f"groups that are not in every sketch are not compared: {names}")
    return [*notes, _CLOSED_FORM]


def deciding(pair: Pair, summary: Summary) -> str:
    """Return the sentence that decides about a pair: about the tolerance, or without one about both models."""
    return _decision(pair, summary) if pair["decision"] is None else _tolerated(pair, summary)


def _decision(pair: Pair, summary: Summary) -> str:
    estimate = pair["estimates"][summary["decides"]]
    first, second = (_called(summary, pair[place]) for place in ("first", "second"))
    p = f"p {chance(estimate['p_value'])}"
    if estimate["p_value"] > alpha_of(summary["level"]):
        return f"No evidence in {rows_text(estimate['n'])} that {first} or {second} is better calibrated ({p})."
    better, worse = (second, first) if estimate["value"] > 0 else (first, second)
    size = _size(estimate, summary)
    return f"{better} is better calibrated than {worse} ({p}): its squared calibration error is smaller by {size}."


def _model_verdicts(summary: Summary) -> list[str]:
    """Return whether each model shows evidence of miscalibration; in one sentence if all of them do."""
    tests = summary["tests"]
    p_values = {name: f"p {chance(test['p_value'])}" for name, test in tests.items()}
    rejected = [name for name, test in tests.items() if test["p_value"] <= alpha_of(summary["level"])]
    if len(rejected) == len(tests) > 1:
        every = "Both models" if len(tests) == 2 else f"All {len(tests)} models"
        each = ", ".join(f"{_called(summary, name)} ({p_values[name]})" for name in tests)
        return [f"{every} show evidence of miscalibration: {each}."]
    evidence = {name: "evidence" if name in rejected else "no evidence" for name in tests}
    return [f"{_called(summary, name)}: {evidence[name]} of miscalibration ({p_values[name]})." for name in tests]


def heading(summary: Summary) -> tuple[str, Tone]:
    """Return the headline of a page with its tone: the decision about the first pair, without its numbers."""
    pair = summary["pairs"][0]
    if len(summary["pairs"]) > 1:
        return leaderboard.heading(summary), ""
    if pair["decision"] is not None:
        states = {"proven": "Within", "disproven": "Above", "open": "Inconclusive for"}
        tones: dict[str, Tone] = {"proven": "good", "disproven": "bad", "open": ""}
        state = pair["decision"]["state"]
        return f"{states[state]} the tolerance of {pair['decision']['tolerance']:g}", tones[state]
    estimate = pair["estimates"][summary["decides"]]
    if estimate["p_value"] > alpha_of(summary["level"]):
        return "No evidence of a difference in calibration", ""
    better = pair["second"] if estimate["value"] > 0 else pair["first"]
    return f"{_called(summary, better)} is better calibrated", "bad" if is_worse(summary) else "good"


def is_worse(summary: Summary) -> bool:
    """Return whether a model is shown to be worse than one before it, or to exceed it by more than the tolerance."""
    worse = [
        estimate["value"] < 0 and estimate["p_value"] <= alpha_of(summary["level"])
        for estimate in (pair["estimates"][summary["decides"]] for pair in summary["pairs"])
    ]
    decisions = [pair["decision"] for pair in summary["pairs"]]
    return any(worse) or any(decision is not None and decision["state"] == "disproven" for decision in decisions)


def _tolerated(pair: Pair, summary: Summary) -> str:
    """Return whether the second model's ECE is larger by more than the tolerance."""
    decision, tolerance = pair["decision"], pair["decision"]["tolerance"]
    bound = f"{percent(decision['level'])} confidence bound"
    second, first = (_called(summary, pair[place]) for place in ("second", "first"))
    difference = f"The ECE of {second} minus the ECE of {first}"
    ends = [end for end in (decision["low"], decision["high"]) if end is not None]
    low, high = texts(ends, 4, [tolerance], "+") if len(ends) == 2 else ("", "")
    if decision["state"] == "proven":
        return f"{difference} is within the tolerance of {tolerance:g}: upper {bound} {high}."
    if decision["state"] == "disproven":
        return f"{difference} exceeds the tolerance of {tolerance:g}: lower {bound} {low}."
    more = decision["more_rows"]
    rest = ""
    if more is not None:
        rest = f" About {more:,} more rows would settle it if the true difference equals the estimate."
    bounds = f": {bound}s of the difference of the ECEs {low} and {high}" if high else ""
    return f"Inconclusive for a tolerance of {tolerance:g}{bounds}.{rest}"


def _sharpness(pair: Pair, summary: Summary) -> list[str]:
    """Return which model has the better Brier score, if the rows show it. Calibration is only a part of it."""
    estimate = pair["estimates"]["brier"]
    if estimate["low"] is None or estimate["low"] <= 0 <= estimate["high"]:
        return []
    better = _called(summary, pair["second"] if estimate["value"] > 0 else pair["first"])
    size = _size(estimate, summary)
    return [f"By the Brier score, which also rewards discrimination, {better} is better by {size}."]


def _size(estimate: Facts, summary: Summary) -> str:
    """Return the size of a difference with its interval, which excludes 0."""
    ends = sorted(abs(estimate[end]) for end in ("low", "high"))
    value, low, high = texts([abs(estimate["value"]), *ends], _places(estimate), [0.0])
    return f"{value} ({percent(summary['level'])} CI {low} to {high})"


# ---------------------------------------------------------------- the numbers


def models(summary: Summary) -> Table:
    """Return the measures of each model."""
    labels, decides = labels_of(summary), summary["decides"]
    exact = {key: [values[key] for values in summary["models"].values()] for key in labels}
    names = list(summary["models"])
    columns = [Column("model", names, {"model": names})]
    for key, label in labels.items():
        write = "{:.6f}".format if key == decides else number
        columns.append(Column(label, list(map(write, exact[key])), {key: exact[key]}))
    return Table.of("models", columns)


def _models(summary: Summary, style: Style) -> list[str]:
    """Return the measures of the models: a line for each model or, if that is too wide, a line for each measure."""
    table = models(summary)
    (_, *labels), names = table.headings, [_called(summary, row[0], _NAME) for row in table.rows]
    texts = list(zip(*table.rows, strict=True))[1:]
    width = max(len("model"), *map(len, names))
    narrow = max(map(len, labels)) < 12
    if narrow and 3 + width + 12 * len(labels) <= style.width:
        formats = ["{:>13}", *["{:>12}"] * (len(labels) - 1)]
        head, *lines = aligned([(f"  {{:<{width}}}", "model", names), *zip(formats, labels, texts, strict=True)])
        return [style.faint(head), *lines]
    indent, column = max(map(len, labels)), max(10, *map(len, names))
    each = max((style.width - 2 - indent) // (column + 2), 1)
    lines = []
    for start in range(0, len(names), each):
        part = [(f"  {{:>{column}}}", names[i], table.rows[i][1:]) for i in range(len(names))[start : start + each]]
        head, *rows = aligned([(f"  {{:<{indent}}}", "", labels), *part])
        lines += [style.faint(head), *rows]
    return lines


def _pair(pair: Pair, summary: Summary, style: Style) -> list[str]:
    title = " minus ".join(_called(summary, pair[place], _NAME) for place in ("first", "second"))
    interval = f"  with {percent(summary['level'])} CI"
    lines = [style.bold(title) + style.faint(interval)]
    if len(title + interval) > style.width:
        lines = [style.bold(title), style.faint(interval)]
    labels = labels_of(summary)
    width = max(12, *map(len, labels.values()))
    for name, label in labels.items():
        estimate = pair["estimates"][name]
        note = note_of(name, estimate, summary)
        value, ends = difference(estimate)
        line = f"  {label:<{width}} " + (f"{value:<10} {ends:<22} " if value else "")
        if len(line + note) <= style.width:
            lines.append((line + style.faint(note)).rstrip())
        else:
            indent = " " * (width + 3)
            if len(line.rstrip()) > style.width:
                line = f"  {label:<{width}} {value} {ends}"
            lines += [line.rstrip()] * bool(value)
            first = indent if value else line
            lines += [style.faint(part) for part in wrapped(note, style, first=first, later=indent)]
    return lines


def groups(place: int, summary: Summary) -> tuple[str, Table, str]:
    """Return the differences of one pair in every group: a title, the table, and what is flagged."""
    decides, pair, groups = summary["decides"], summary["pairs"][place], summary["groups"]
    names, counts = [group["name"] for group in groups], [group["comparison"]["n"] for group in groups]
    parts = [group["comparison"]["pairs"][place]["estimates"][decides] for group in groups]
    p_values = [group["adjusted_p_values"][place] for group in groups]
    marked = [group["called_out"][place] for group in groups]
    tests = [group["flag"] or tables.chance_text(p) for group, p in zip(groups, p_values, strict=True)]
    columns = [
        Column("group", names, {"group": names}),
        Column("rows", [f"{count:,}" for count in counts], {"rows": counts}),
        *_differences(parts, summary["level"]),
        Column("p adjusted", tests, {"adjusted_p_value": p_values, "called_out": marked}),
    ]
    names_of = " minus ".join(_called(summary, pair[place], _NAME) for place in ("first", "second"))
    title = f"{names_of}, {labels_of(summary)[decides]}"
    number_of_tests = sum(len(summary["pairs"]) for group in groups if not group["flag"])
    note = f"one model is better calibrated after Holm correction: {sum(marked)} of {number_of_tests} comparisons"
    return f"Groups: {title}", Table.of(f"groups-{place + 1}", columns, marked=marked), note


def _differences(parts: Sequence[Facts], level: float) -> list[Column]:
    """Return the columns of differences and their intervals."""
    values, ends = zip(*map(difference, parts), strict=True)
    exact = {name: [part[name] for part in parts] for name in ("value", "low", "high")}
    return [Column("difference", values, exact), Column(f"{percent(level)} CI", ends, {})]


def grouped_pairs(summary: Summary) -> list[int]:
    """Return the places of the pairs that are shown in every group, if there are groups."""
    shown = shown_pairs(summary) if summary["groups"] else []
    return [place for place, pair in enumerate(summary["pairs"]) if pair in shown]


def worst_groups(table: Table) -> list[int]:
    """Return the rows of a table of groups to show: all, or of many the worst."""
    return worst(table.columns["adjusted_p_value"], [value or 0.0 for value in table.columns["value"]])


def _groups(place: int, summary: Summary, style: Style) -> list[str]:
    """Return the differences of one pair in every group, or in the worst of many."""
    title, table, note = groups(place, summary)
    listed = worst_groups(table)
    names = [short(row[0]) for row in table.rows]
    width = min(max(map(len, ["group", *names])), 40)
    _, rows, values, ends, tests = (list(texts) for texts in zip(*table.of_rows(listed).rows, strict=True))
    columns = [
        (f"  {{:<{width}}}", "group", [names[i] for i in listed]),
        ("  {:>9}", "rows", rows),
        ("  {:<10}", "difference", values),
        (" {:<22}", table.headings[3], ends),
        (" {:>7}", "p adj.", tests),
        ("{}", "", [" *" * table.marked[i] for i in listed]),
    ]
    head, *lines = aligned(columns)
    notes = [f"* {note}"]
    if len(names) > len(listed):
        more = len(names) - len(listed)
        notes.append(f"to see the other {more:,} groups, use --json, --html, or comparison.groups in Python")
    return [style.bold(title), style.faint(head), *lines, *(style.faint(line) for line in paragraphs(notes, style))]


def difference(estimate: Facts) -> tuple[str, str]:
    """Return a difference and its interval as text; the interval may be missing."""
    places = _places(estimate)
    value = "" if estimate["value"] is None else f"{estimate['value']:+z.{places}f}"
    if estimate["low"] is None:
        return value, ""
    return value, f"{estimate['low']:+z.{places}f} to {estimate['high']:+z.{places}f}"


def shown_pairs(summary: Summary) -> list[Pair]:
    """Return the pairs that a page shows: all of few models, of many those with the best one."""
    best = summary["leaderboard"][0]["name"]
    return [pair for pair in summary["pairs"] if has_few(summary) or best in (pair["first"], pair["second"])]


def differences(summary: Summary) -> Table:
    """Return the differences of the pairs of models that a page shows."""
    labels, pairs = labels_of(summary), shown_pairs(summary)
    listed = [(pair, key, pair["estimates"][key]) for pair in pairs for key in labels]
    parts = [part for _, _, part in listed]
    names = {name: [pair[name] for pair, _, _ in listed] for name in ("first", "second")}
    keys = [key for _, key, _ in listed]
    columns = [
        Column("measure", [labels[key] for key in keys], {**names, "measure": keys}),
        *_differences(parts, summary["level"]),
        Column(
            "remark",
            [note_of(key, part, summary) for _, key, part in listed],
            {"p_value": [part.get("p_value") for part in parts]},
        ),
    ]
    if len(pairs) == 1:  # the heading of the page names it
        return Table.of("differences", columns, texts=(0, 3))
    first = next(iter(labels))  # a pair is named in its first row
    named = [f"{pair['first']} − {pair['second']}" if key == first else "" for pair, key, _ in listed]
    return Table.of("differences", [Column("first − second", named, {}), *columns], texts=(0, 1, 4))


def note_of(name: str, estimate: Facts, summary: Summary) -> str:
    """Return the remark on a difference."""
    details = estimate["details"]
    if estimate["low"] is None:
        return str(details.get("reason", "no interval: an interval needs at least two rows"))
    if name == summary["decides"]:
        return f"main test: p {chance(estimate['p_value'])}"
    if summary["measures"][name]["binning"] is not None:
        return f"{summary['n_bins']} bins; conservative"
    if "only_first" not in details:
        return ""
    first, second = (f"{details[key]:,.6g}" for key in ("only_first", "only_second"))
    return f"rows that only the first model predicts correctly: {first}; only the second model: {second}"


def _places(estimate: Facts) -> int:
    """Return the decimal places that show two digits of the interval's half width; at least four."""
    if estimate["low"] is None or estimate["high"] <= estimate["low"]:
        return 4
    return min(max(4, 1 - math.floor(math.log10((estimate["high"] - estimate["low"]) / 2))), 9)
