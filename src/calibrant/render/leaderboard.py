"""The leaderboard of a comparison, from the dictionary of `Comparison.to_dict`: sentences, the table, the picture."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from calibrant.render import drawing
from calibrant.render.drawing import Row
from calibrant.render.style import Facts, Style, Summary, aligned, distinct, paragraphs, percent
from calibrant.render.tables import Column, Table, chance_text, score_text
from calibrant.render.words import texts

#: The most models whose pairs, diagrams and calibration are shown one by one.
FEW: Final = 3

_NAME: Final = 40  # characters of a model's name in a table of a wide terminal
_SHORT: Final = 18  # and of a narrow one
_WIDE: Final = 100  # columns of a terminal
_LISTED: Final = 20  # models in the terminal
_NAMED: Final = 6  # models in a sentence
_BAR: Final = 14  # characters of a bar in the terminal


def heading(summary: Summary) -> str:
    """Return the headline of a page of many models."""
    best = _best(summary)
    label = _label(summary)
    if len(best) == 1:
        return f"{_named(summary, best[0])} has the best {label}"
    return f"{len(best)} of {len(summary['leaderboard'])} models may have the best {label}"


def sentences(summary: Summary) -> list[str]:
    """Return which models may be the best, and how many are worse."""
    best, standings, label = _best(summary), summary["leaderboard"], _label(summary)
    worse = [each for each in standings if not each["among_best"]]
    confidence = f"simultaneous {percent(summary['level'])} confidence"
    if any(each["adjusted_p_value"] is None for each in worse):
        confidence += "; infinite values rank last by rule"
    if all(each["adjusted_p_value"] is None for each in standings) and not worse:
        return [f"The data do not show how the {label} varies, so the order of the models is not tested."]
    if len(best) == 1:
        others = "the other model" if len(worse) == 1 else f"all {len(worse)} other models"
        return [f"{_named(summary, best[0])} has a better {label} than {others} ({confidence})."]
    names = _names(summary, best)
    if not worse:
        return [f"The data do not show which of the {len(best)} models has the best {label}: {names}."]
    found = f"{len(worse)} of {len(standings)} models are worse than the best by the {label} ({confidence})"
    if len(worse) == 1:
        found = f"{_named(summary, worse[0])} is worse than the best by the {label} ({confidence})"
    return [f"{found}.", f"The data do not show which of the other {len(best)} models is the best: {names}."]


def calibration(summary: Summary) -> str:
    """Return which of many models show evidence of miscalibration."""
    found = [each for each in summary["leaderboard"] if each["miscalibrated"]]
    number = len(summary["leaderboard"])
    if not found:
        return f"No model of {number} shows evidence of miscalibration."
    if len(found) == number:
        return f"All {number} models show evidence of miscalibration."
    verb = "shows" if len(found) == 1 else "show"
    return f"{len(found)} of {number} models {verb} evidence of miscalibration: {_names(summary, found)}."


def impossible(summary: Summary) -> list[str]:
    """Return how many outcomes the scores of each model exclude, of many models the first."""
    found = [each for each in summary["leaderboard"] if each["impossible_outcomes"]]
    said = []
    for each in found[:_NAMED]:
        number = each["impossible_outcomes"]
        said.append(f"{number:,} outcome{'s' * (number != 1)} in {_named(summary, each)}")
    more = f" and outcomes in {len(found) - _NAMED} more models" if len(found) > _NAMED else ""
    sentence = f"Caution: Observed outcomes had predicted probability 0: {', '.join(said)}{more}."
    return [f"{sentence} The log loss is then infinite."] if said else []


def table(summary: Summary) -> Table:
    """Return the leaderboard, a row for each model."""
    standings, key = summary["leaderboard"], summary["sorted_by"]
    ranks = {end: [each[end] for each in standings] for end in ("rank_low", "rank_high")}
    columns = [
        Column("rank", list(map(_rank, standings)), ranks),
        Column.of("model", "model", (each["name"] for each in standings)),
        *_estimates(summary, key),
        *_differences(summary),
    ]
    for other in ("accuracy", "mean_confidence", "ece"):
        columns += _estimates(summary, other)[:1] if other != key else []
    columns += [
        Column.of("ECE if calibrated: 95 % below", "ece_if_calibrated", map(_floor, standings), score_text),
        Column.of("calibration", "calibration", map(_verdict, standings)),
    ]
    minor = tuple(i for i, column in enumerate(columns) if column.heading.startswith(("mean", "ECE if")))
    return Table.of("leaderboard", columns, texts=(0, 1), minor=minor)


def _differences(summary: Summary) -> list[Column]:
    """Return the columns of the difference to the best model."""
    standings, level = summary["leaderboard"], percent(summary["level"])
    parts = [each["difference"] for each in standings]
    ends = {f"difference_{end}": [part[end] for part in parts] for end in ("low", "high")}
    return [
        Column(
            "difference to the best", list(map(_difference, parts)), {"difference": [part["value"] for part in parts]}
        ),
        Column(f"simultaneous {level} CI", list(map(_ends, parts)), ends),
        Column.of("p adjusted", "adjusted_p_value", (each["adjusted_p_value"] for each in standings), chance_text),
        Column.of("among the best", "among_best", (each["among_best"] for each in standings), _yes),
    ]


def note(summary: Summary) -> str:
    """Return what it means to be among the best, and how far the statements hold."""
    together = f"differences and ranges of ranks hold together with {percent(summary['level'])} confidence"
    return f"Among the best: no other model is shown to have a better {_label(summary)}; {together}"


def lines(summary: Summary, style: Style) -> list[str]:
    """Return the leaderboard for the terminal: the differences with bars, then the measures of each model."""
    standings, level = summary["leaderboard"][:_LISTED], percent(summary["level"])
    called = distinct(tuple(summary["models"]), _SHORT if style.width < _WIDE else _NAME)
    names = [called[each["name"]] for each in standings]
    width = max(len("model"), *map(len, names))
    differences = [each["difference"] for each in standings]
    ends = [_ends(part) for part in differences]
    columns = [
        ("  {:<6}", "rank", list(map(_rank, standings))),
        (f" {{:<{width}}}", "model", names),
        (" {:>8}", "diff.", list(map(_difference, differences))),
        (f"  {{:<{max(map(len, ends))}}}", f"{level} CI", ends),
        (f" {{:<{_BAR}}}", "", _bars(differences)),
        (" {:>7}", "p adj.", [chance_text(each["adjusted_p_value"]) for each in standings]),
        ("{}", "", [" *" * each["among_best"] for each in standings]),
    ]
    heading, *rows = _fitting(columns, (4, 5, 3), style)
    title, how = f"Leaderboard by {_label(summary)}", "difference to the best with simultaneous CI"
    shown = [style.bold(title) + style.faint(f", {how}")]
    if len(title) + len(how) + 2 > style.width:
        shown = [style.bold(title), style.faint(f"  {how}")]
    shown += [style.faint(heading), *rows]
    notes = [f"* {note(summary)[0].lower()}{note(summary)[1:]}"]
    if len(standings) < len(summary["leaderboard"]):
        more = len(summary["leaderboard"]) - len(standings)
        notes.append(f"to see the other {more} models, use --json, --html, or comparison.leaderboard in Python")
    shown += [style.faint(line) for line in paragraphs(notes, style)]
    return [*shown, "", *_measured(summary, standings, names, width, style)]


def _fitting(columns: Sequence[tuple[str, str, Sequence[str]]], spare: Sequence[int], style: Style) -> list[str]:
    """Return lines of columns, without as many of the ``spare`` ones, in this order, as the width demands."""
    for left_out in range(len(spare) + 1):
        kept = [column for i, column in enumerate(columns) if i not in spare[:left_out]]
        lines = aligned(kept)
        if max(map(len, lines)) <= style.width:
            break
    return lines


def _measured(
    summary: Summary, standings: Sequence[Facts], names: Sequence[str], width: int, style: Style
) -> list[str]:
    """Return the value that decides, the accuracy, the mean prediction, the ECE and the verdict of each model."""
    keys = {"accuracy": "accuracy", "mean_confidence": f"{_mean(summary)[:9]}.", "ece": "ECE"}
    if summary["sorted_by"] not in keys:
        keys = {summary["sorted_by"]: _label(summary).removesuffix(" score"), **keys}
    columns = [
        (f"  {{:<{width}}}", "model", names),
        *(
            (f" {{:>{max(len(head), 7)}}}", head, [_value(each["estimates"][key]) for each in standings])
            for key, head in keys.items()
        ),
        (" {:>6}", "95 %", [score_text(_floor(each), ".4f") for each in standings]),
        ("  {}", "calibration", list(map(_verdict, standings))),
    ]
    heading, *rows = _fitting(columns, (len(columns) - 2, 3, 2, 1), style)
    remark = "95 %: 95th percentile of the ECE of a perfectly calibrated model with these predictions"
    return [style.faint(heading), *rows, *(style.faint(line) for line in paragraphs([remark], style))]


def chart(summary: Summary) -> dict[str, Any] | None:
    """Return the picture of the values with their own intervals, a row for each model; None without a value."""
    rows, key = [], summary["sorted_by"]
    for each in summary["leaderboard"]:
        part = each["estimates"][key]
        if part["value"] is None:
            continue
        interval = None if part["low"] is None else (part["low"], part["high"])
        words = [f"{each['name']}: {_value(part)}", f"rank {_rank(each)}"]
        if interval is not None:
            words.insert(1, f"{percent(summary['level'])} CI {_ends(part)}")
        words.append("no other model is shown to be better" if each["among_best"] else "worse than the best")
        rows.append(Row(each["name"], part["value"], interval, None, not each["among_best"], "; ".join(words)))
    if not rows:
        return None
    least = min(row.interval[0] if row.interval else row.value for row in rows)
    return drawing.chart(rows, origin=least)


# ---------------------------------------------------------------- parts


def _mean(summary: Summary) -> str:
    """Return the name of the mean score."""
    return "mean confidence" if summary["notion"] == "top-label" or summary["own_outcomes"] else "mean prediction"


def _label(summary: Summary) -> str:
    return str(summary["measures"][summary["sorted_by"]]["label"])


def _best(summary: Summary) -> list[Facts]:
    return [each for each in summary["leaderboard"] if each["among_best"]]


def _named(summary: Summary, standing: Facts) -> str:
    return distinct(tuple(summary["models"]))[standing["name"]]


def _names(summary: Summary, standings: Sequence[Facts]) -> str:
    """Return the names of models, of many the first."""
    names = [_named(summary, each) for each in standings[:_NAMED]]
    return ", ".join(names) + (f" and {len(standings) - _NAMED} more" if len(standings) > _NAMED else "")


def ranks_text(low: int, high: int) -> str:
    """Return a range of ranks."""
    return f"{low}" if low == high else f"{low}–{high}"


def _rank(standing: Facts) -> str:
    return ranks_text(standing["rank_low"], standing["rank_high"])


def _verdict(standing: Facts) -> str:
    if standing["p_value"] is None:
        return ""
    return "miscalibrated" if standing["miscalibrated"] else "no evidence"


def _yes(answer: bool) -> str:
    return "yes" if answer else "no"


def _floor(standing: Facts) -> float | None:
    """Return what the ECE of a calibrated model is below in 95 % of samples."""
    floor = standing["estimates"]["ece"]["floor"]
    return None if floor is None else float(floor["upper"])


def _value(part: Facts, sign: str = "") -> str:
    """Return a number; what is missing is infinite, or has no value."""
    if part["value"] is None:
        return "inf" if part["method"].startswith("no interval: ") else "–"
    return texts([part["value"]], 4, [0.0], sign)[0]


_difference = partial(_value, sign="+")


def _ends(part: Facts) -> str:
    return "" if part["low"] is None else f"{part['low']:z.4f} to {part['high']:z.4f}"


def _estimates(summary: Summary, key: str) -> list[Column]:
    """Return the columns of a measure: values, and their own intervals."""
    label = _mean(summary) if key == "mean_confidence" else str(summary["measures"][key]["label"])
    parts = [each["estimates"][key] for each in summary["leaderboard"]]
    exact = {f"{key}_{end}": [part[end] for part in parts] for end in ("low", "high")}
    return [
        Column(label, list(map(_value, parts)), {key: [part["value"] for part in parts]}),
        Column(f"{percent(summary['level'])} CI", list(map(_ends, parts)), exact),
    ]


def _bars(differences: Sequence[Facts]) -> list[str]:
    """Return each difference to the best as a bar: its interval, and in it the estimate."""
    known = [part for part in differences if part["low"] is not None]
    most = max((part["high"] for part in known), default=0.0)
    if not most:
        return [""] * len(differences)
    bars = []
    for part in differences:
        if part["low"] is None:
            bars.append("")
            continue
        low, value, high = (min(int(part[key] / most * _BAR), _BAR - 1) for key in ("low", "value", "high"))
        bars.append(" " * low + "░" * (value - low) + "█" + "░" * (high - value))
    return bars
