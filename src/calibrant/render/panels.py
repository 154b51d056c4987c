"""The further pictures of a profile, from the dictionary of `to_dict`: charts of lines, tables, and what they say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from calibrant.measures.binned.binned import LEAST_ROWS
from calibrant.measures.binned.clustered import LEAST_CLUSTERS
from calibrant.measures.listed import BY_NAME
from calibrant.measures.profiles import PROFILES
from calibrant.render import drawing, tables
from calibrant.render.drawing import Axis, Row
from calibrant.render.style import Summary, is_clustered, number, percent
from calibrant.render.tables import Table
from calibrant.render.words import chance, worst_groups

Panel = Mapping[str, Any]

_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 428, 10, 300  # the frame of a chart of lines
_LISTED: Final = 11  # rows of a table on a page
_BRIEF: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)  # thresholds of a short table
_NAMED: Final = 5  # groups in a sentence
_MARKS: Final = 25  # points of a line that a page describes
#: Where the chart of a measure by group has its line: the value of calibrated scores.
ORIGINS: Final = {"oe_ratio": 1.0, "calibration_slope": 1.0, "auroc": 0.5}


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of a panel: its heading, chart, caption and numbers; ``brief`` is the table of the terminal, if any."""

    name: str
    heading: str
    chart: Mapping[str, Any]
    caption: str
    table: Table
    brief: Table | None
    keys: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class _Line:
    look: str  # the class of the line
    values: Sequence[float]


def pictures(summary: Summary) -> list[Picture]:
    """Return the pictures of the report's panels, in the order of its profile."""
    return [_MAKERS[name](panel, summary) for name, panel in summary["panels"].items()]


# ---------------------------------------------------------------- the panels


def _decision_curve(panel: Panel, summary: Summary) -> Picture:
    thresholds, benefits, everyone = panel["thresholds"], panel["net_benefit"], panel["treat_all"]
    most = max(*benefits, *everyone, 1e-6)
    last = max([i for i, treated in enumerate(panel["treated"]) if treated > 0], default=len(thresholds) - 1)
    shown = slice(0, max(min(last + 2, len(thresholds)), 2))
    top = max(1.08 * most, *(high for high in panel["highs"][shown] if high is not None), 0.0)
    ends = (0.0, thresholds[shown][-1]), (-0.15 * most, top)
    chart = lines(
        thresholds[shown],
        [_Line("other", everyone[shown]), _Line("curve", benefits[shown])],
        band=None if panel["level"] is None else (panel["lows"][shown], panel["highs"][shown]),
        ends=ends,
        axes=("threshold of action", "net benefit"),
        told=lambda i: (
            f"threshold {thresholds[i]:.2f}: net benefit {benefits[i]:.4f}"
            + _interval_words(panel, i, summary["level"])
            + f"; treat all {everyone[i]:.4f}"
        ),
    )
    columns = {
        "threshold": thresholds,
        "net_benefit": benefits,
        "low": panel["lows"],
        "high": panel["highs"],
        "treat_all": everyone,
        "treated": panel["treated"],
    }
    headings = ["threshold", "net benefit", "treat all", "treated"]
    level = None if panel["level"] is None else f"{percent(panel['level'])} interval"
    if level is not None:
        headings.insert(2, level)

    def row(i: int) -> list[str]:
        cells = [
            f"{thresholds[i]:.2f}",
            number(benefits[i]),
            number(everyone[i]),
            tables.rows_text(panel["treated"][i]),
        ]
        if level is not None:
            cells.insert(2, tables.ends_text(panel["lows"][i], panel["highs"][i]))
        return cells

    reached = [i for i, treated in enumerate(panel["treated"]) if treated >= LEAST_ROWS]
    of_clusters = f" of {LEAST_CLUSTERS} clusters" * is_clustered(summary)
    needed = f"An interval is for one threshold, and needs {LEAST_ROWS} treated rows{of_clusters}"
    method = str(panel["method"])
    caption = (
        "Outcomes found for each row, less the false alarms, each at the odds of the threshold. Treating "
        "nobody has net benefit 0. The scores are of use where they are above both. "
        f"{needed if level is not None else method[:1].upper() + method[1:]}."
    )
    listed = _every(thresholds, reached or range(len(thresholds)))
    return Picture(
        name="decision-curve",
        heading="Net benefit",
        chart=chart,
        caption=caption,
        table=Table("decision-curve", columns, headings, [row(i) for i in listed], texts=()),
        brief=Table(
            "decision-curve", columns, headings, [row(i) for i in _places(thresholds, reached or [0])], texts=()
        ),
        keys=[("curve", "act on the scores"), ("other", "treat all"), ("zero", "treat none")],
    )


def _interval_words(panel: Panel, i: int, level: float | None) -> str:
    if panel["lows"][i] is None or level is None:
        return ""
    return f", {percent(level)} interval {tables.ends_text(panel['lows'][i], panel['highs'][i])}"


def _murphy_curve(panel: Panel, summary: Summary) -> Picture:
    thresholds, scores, rate = panel["thresholds"], panel["scores"], summary["outcome_rate"]
    base = [min(t * (1 - rate), (1 - t) * rate) for t in thresholds]
    chart = lines(
        thresholds,
        [_Line("other", base), _Line("curve", scores)],
        ends=((0.0, 1.0), (0.0, 1.08 * max(*scores, *base, 1e-6))),
        axes=("threshold of action", "mean elementary score"),
        told=lambda i: f"threshold {thresholds[i]:.2f}: {scores[i]:.4f}; base rate {base[i]:.4f}",
    )
    columns = {"threshold": thresholds, "score": scores, "base_rate": base}

    def row(i: int) -> list[str]:
        return [f"{thresholds[i]:.2f}", number(scores[i]), number(base[i])]

    headings = ["threshold", "score", "base rate"]
    every = range(len(thresholds))
    return Picture(
        name="murphy-curve",
        heading="Murphy curve",
        chart=chart,
        caption="The mean loss of acting above each threshold t: a false alarm costs t, a missed outcome 1 - t. Lower "
        "is better. Twice the area is the Brier score. Where one forecast is below another at every threshold, every "
        "proper score prefers it.",
        table=Table("murphy-curve", columns, headings, [row(i) for i in _every(thresholds, every)], texts=()),
        brief=Table("murphy-curve", columns, headings, [row(i) for i in _places(thresholds, every)], texts=()),
        keys=[("curve", "the scores"), ("other", "always the base rate")],
    )


def _roc_curve(panel: Panel, summary: Summary) -> Picture:
    del summary
    thresholds, hits, alarms = panel["thresholds"], panel["hits"], panel["false_alarms"]

    def written(i: int) -> str:
        return "none" if thresholds[i] is None else f"{thresholds[i]:.3f}"

    chart = lines(
        alarms,
        [_Line("curve", hits)],
        ends=((0.0, 1.0), (0.0, 1.0)),
        axes=("share of false alarms", "share of hits"),
        told=lambda i: f"threshold {written(i)}: hits {hits[i]:.3f}, false alarms {alarms[i]:.3f}",
        diagonal=True,
    )
    columns = {"threshold": thresholds, "hits": hits, "false_alarms": alarms}
    rows = [[written(i), f"{hits[i]:.3f}", f"{alarms[i]:.3f}"] for i in _steps(len(hits), _LISTED)]
    return Picture(
        name="roc-curve",
        heading="ROC curve",
        chart=chart,
        caption="Hits against false alarms for every threshold. It says how well the scores tell cases apart, and "
        "nothing of calibration: an increasing map of the scores leaves it as it is.",
        table=Table("roc-curve", columns, ["threshold", "hits", "false alarms"], rows, texts=()),
        brief=None,
        keys=[("curve", "the scores"), ("ideal", "no discrimination")],
    )


_MAKERS: Final[Mapping[str, Callable[[Panel, Summary], Picture]]] = {
    "decision_curve": _decision_curve,
    "murphy_curve": _murphy_curve,
    "roc_curve": _roc_curve,
}


def _places(thresholds: Sequence[float], allowed: Sequence[int]) -> list[int]:
    """Return the indices of round thresholds, among those allowed."""
    last = allowed[-1]
    found = [min(range(len(thresholds)), key=lambda i: abs(thresholds[i] - t)) for t in _BRIEF]
    return sorted({i for i in found if i <= last}) or [0]


def _every(thresholds: Sequence[float], allowed: Sequence[int]) -> list[int]:
    """Return the indices of about a dozen thresholds at equal steps, among those allowed."""
    places = _steps(allowed[-1] + 1, _LISTED)
    return [i for i in places if i < len(thresholds)]


def _steps(n: int, most: int) -> list[int]:
    return sorted({round(i * (n - 1) / (most - 1)) for i in range(most)}) if n > 1 else [0]


# ---------------------------------------------------------------- charts of lines


def lines(
    places: Sequence[float],
    values: Sequence[_Line],
    *,
    ends: tuple[tuple[float, float], tuple[float, float]],
    axes: tuple[str, str],
    told: Callable[[int], str],
    band: tuple[Sequence[Any], Sequence[Any]] | None = None,
    diagonal: bool = False,
) -> dict[str, Any]:
    """Return a chart of lines over the same places; the last one is described point by point.

    Lines are cut at the lower end of the axis.
    """
    x, y = Axis(*ends[0], _LEFT, _RIGHT), Axis(*ends[1], _BOTTOM, _TOP)
    described = values[-1].values
    marks = [
        (x.at(places[i]), y.at(described[i]), told(i)) for i in _steps(len(places), _MARKS) if described[i] >= y.low
    ]
    area = ""
    if band is not None:
        held = [(places[i], low, high) for i, (low, high) in enumerate(zip(*band, strict=True)) if low is not None]
        lower = [(x.at(p), y.at(max(low, y.low))) for p, low, _ in held]
        upper = [(x.at(p), y.at(min(max(high, y.low), y.high))) for p, _, high in held]
        area = drawing.line([*lower, *reversed(upper)]) + "Z" if len(held) > 1 else ""
    return {
        "x": x,
        "y": y,
        "axes": axes,
        "frame": (_LEFT, _TOP, _RIGHT - _LEFT, _BOTTOM - _TOP),
        "height": _BOTTOM + 42,
        "zero": y.at(0.0) if y.low < 0 else None,
        "diagonal": diagonal,
        "band": area,
        "lines": [(line.look, _path(places, line.values, x, y)) for line in values],
        "marks": marks,
    }


def _path(places: Sequence[float], values: Sequence[float], x: Axis, y: Axis) -> str:
    """Return a line, up to where it leaves the chart at the bottom."""
    points: list[tuple[float, float]] = []
    for place, value, before in zip(places, values, [None, *values], strict=False):
        if value < y.low:
            if before is not None and before > y.low:
                previous = places[len(points) - 1]
                share = (before - y.low) / (before - value)
                points.append((x.at(previous + share * (place - previous)), y.at(y.low)))
            break
        points.append((x.at(place), y.at(value)))
    return drawing.line(points) if points else "M0 0"


# ---------------------------------------------------------------- groups side by side


def forests(summary: Summary) -> list[Picture]:
    """Return a picture for each measure that the profile shows for every group; of many groups the worst."""
    if not summary["forests"]:
        return []
    order = worst_groups(summary)
    return [_forest(name, summary["forests"][name], order, summary) for name in PROFILES[summary["profile"]].by_group]


def _forest(name: str, forest: Panel, order: Sequence[int], summary: Summary) -> Picture:
    label, level = BY_NAME[name].label, summary["level"]
    rows = []
    for i in order:
        value, low, high = forest["values"][i], forest["lows"][i], forest["highs"][i]
        if value is None:
            continue
        words = f"{forest['groups'][i]}: {label} {number(value)}"
        if low is not None and level is not None:
            words += f"; {percent(level)} interval {tables.ends_text(low, high)}"
        rows.append(Row(forest["groups"][i], value, None if low is None else (low, high), None, False, words))
    columns = {"group": forest["groups"], "value": forest["values"], "low": forest["lows"], "high": forest["highs"]}
    texts = [[forest["groups"][i], *forest_cells(forest, i, level is not None)] for i in order]
    headings = ["group", label, *([f"{percent(level)} interval"] if level is not None else [])]
    return Picture(
        name=f"{name.replace('_', '-')}-of-groups",
        heading=f"{label} by group",
        chart=drawing.chart(rows, origin=ORIGINS.get(name, 0.0)) if rows else {},
        caption=heterogeneity(forest),
        table=Table(f"{name.replace('_', '-')}-of-groups", columns, headings, texts),
        brief=None,
        keys=(),
    )


def _brief(value: float) -> str:
    return f"{value:z.2f}"


def forest_cells(forest: Panel, i: int, with_interval: bool) -> list[str]:
    """Return the value of a group and its interval, as texts."""
    value = forest["values"][i]
    ends = tables.ends_text(forest["lows"][i], forest["highs"][i], _brief)
    return ["–" if value is None else _brief(value), *([ends] if with_interval else [])]


def heterogeneity(forest: Panel) -> str:
    """Return how much the groups differ, in words."""
    if forest["heterogeneity"] is None:
        return f"Fewer than two groups can be compared, so their differences are not tested.{left_out(forest)}"
    share = f"{100 * forest['heterogeneity']:.0f} %"
    return (
        f"Sampling error does not explain {share} of the variation between {forest['compared']:,} groups (I²). "
        f"Cochran's test that all groups have one value: p {chance(forest['p_value'])}.{left_out(forest)}"
    )


def left_out(forest: Panel) -> str:
    """Return which groups are not compared and why, with a space before it; empty if all are."""
    names: dict[str, list[str]] = {}
    for name, reason in forest["left_out"].items():
        names.setdefault(reason, []).append(name)
    return "".join(f" Not compared ({reason}): {_some(those)}." for reason, those in names.items())


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED:,} more"
