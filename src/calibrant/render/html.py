"""A report or a comparison as one HTML page that needs no other file, from the dictionary of `to_dict`.

The markup is in `templates`; every text passes through jinja2's escaping. Nothing is estimated here.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from html import escape
from pathlib import Path
from typing import Any, Final

from calibrant.errors import MissingDependencyError, is_missing
from calibrant.measures.listed import BY_NAME
from calibrant.measures.profiles import PROFILES, STANDARD
from calibrant.render import comparison, drawing, leaderboard, monitor, recalibration, tables, threshold, verdict, words
from calibrant.render.checklist import REST, TRIPOD, checklist
from calibrant.render.drawing import Row
from calibrant.render.methods import METHODS, shows_methods
from calibrant.render.style import Estimate, Facts, Group, Summary, event_of, number, percent, short, shown, version
from calibrant.results.writing import write_file
from calibrant.statistics.resampling import alpha_of

#: The default titles of pages.
TITLES: Final = {
    "report": "Calibration report",
    "comparison": "Comparison of models",
    "recalibration": "Recalibration",
    "threshold": "Certified threshold",
    "monitor": "Calibration monitor",
}

_CLASSES_DRAWN: Final = 1_000  # a page with so many has about a megabyte
_FEW_CLASSES: Final = 12  # in a notebook's cell
_CLASSES_LISTED: Final = 8  # the others are folded
_MODELS_DRAWN: Final = 12
_LABELS_DRAWN: Final = 8  # diagrams before and after
_GROUPS_SEARCHED: Final = 20  # so many groups have a field to search by name
_HARD_SPACE: Final = "\N{NO-BREAK SPACE}"  # keeps a number and its sign on one line

#: A text without characters that a page cannot hold, such as half of a surrogate pair.
_clean = partial(shown, instead="\N{REPLACEMENT CHARACTER}")


def page(
    summary: Summary,
    *,
    title: str = "",
    used: str = "",
    sources: Facts | None = None,
    date: str | None = None,
) -> str:
    """Return the page of a report or of a comparison.

    Parameters
    ----------
    summary
        What `to_dict` returns.
    title, used
        The title of the page, and the columns that were read.
    sources
        The ``files`` and the condition ``where``, if any.
    date
        A date to show under the title. Without it the page has no date, so the same report gives the same bytes.
    """
    return _render("page.html", summary, title, used, sources or {}, _CLASSES_DRAWN, date or "")


def cell(summary: Summary, text: Callable[[], str]) -> str:
    """Return a part of a page for a notebook's cell, without scripts and with the worst classes alone.

    Without jinja2 it is ``text``, the text for the terminal.
    """
    try:
        return _render("fragment.html", summary, "", "", {}, _FEW_CLASSES)
    except MissingDependencyError:
        return f"<pre>{escape(text())}</pre>"


def write_page(text: str, path: str | os.PathLike[str]) -> Path:
    """Write a page, complete or not at all, and return its path."""
    target = Path(path)
    write_file(target, text.encode())
    return target


def _render(
    template: str,
    summary: Summary,
    title: str,
    used: str,
    sources: Facts,
    most_classes: int,
    date: str = "",
) -> str:
    kind = kind_of(summary)
    contexts: dict[str, Callable[[], dict[str, Any]]] = {
        "report": lambda: _report(summary, most_classes, template == "page.html"),
        "comparison": lambda: _comparison(summary),
        "recalibration": lambda: _recalibration(summary),
        "threshold": lambda: _threshold(summary),
        "monitor": lambda: _monitor(summary),
    }
    context = contexts[kind]()
    digest = hashlib.sha256(json.dumps(summary, sort_keys=True).encode("utf-8", "backslashreplace")).hexdigest()
    shared = {
        "title": _clean(title) or TITLES[kind],
        "used": _clean(used),
        "date": _clean(date),
        "uid": f"c{digest[:8]}",
        "version": version(),
        "running": {
            "left": _css_string(_clean(title) or TITLES[kind]),
            "right": _css_string(" · ".join(filter(None, [_clean(date), f"calibrant {version()}"]))),
        },
        "level": None if summary["level"] is None else percent(summary["level"]),
        "facts": facts(summary, sources, used),
    }
    return str(_environment().get_template(template).render({**context, **shared}))


def kind_of(summary: Summary) -> str:
    """Return what a summary is of: a report, a comparison, a recalibration, a threshold or a monitor."""
    if "monitor" in summary:
        return "monitor"
    if "pairs" in summary:
        return "comparison"
    if "audit_rows" in summary or threshold.is_two_sided(summary):
        return "threshold"
    return "recalibration" if "gain" in summary or recalibration.of_labels(summary) else "report"


def _css_string(text: str) -> Any:
    """Return a text as a string of CSS, in which every unusual character is escaped."""
    from markupsafe import Markup

    return Markup('"' + re.sub(r"[^A-Za-z0-9 ._-]", lambda match: f"\\{ord(match[0]):06x} ", text) + '"')


@cache
def _environment() -> Any:
    try:
        import jinja2
    except ModuleNotFoundError as error:
        if not is_missing(error, "jinja2"):
            raise
        raise MissingDependencyError("jinja2", "to write a page", "report") from None
    loader = jinja2.PackageLoader("calibrant.render", "templates")
    environment = jinja2.Environment(
        loader=loader,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: _clean(value) if type(value) is str else value,
    )
    environment.filters["flush"] = _flush
    return environment


def _flush(code: Any) -> Any:
    """Return a script or a style without the indents of its lines, which are a twentieth of it."""
    from markupsafe import Markup

    return Markup(re.sub(r"\n +", "\n", code))


def _unbroken(sentences: Sequence[str]) -> list[str]:
    """Return sentences with hard spaces between numbers and their signs."""
    return [re.sub(r" (?=%)|(?<=[=<≤]) | (?=[=<≤])", _HARD_SPACE, sentence) for sentence in sentences]


def facts(summary: Summary, sources: Facts, used: str) -> list[tuple[str, str]]:
    """Return the settings of the report, as names and texts."""
    level, n_classes = summary["level"], summary["n_classes"]
    profile = PROFILES.get(summary.get("profile", ""), STANDARD)
    samples = summary.get("n_resamples")
    rows = [
        ("predictions", words.amount(summary["n"])),
        ("total weight", _weight(summary)),
        ("event", event_of(summary)),
        ("labels" if summary["notion"] == "multilabel" else "classes", f"{n_classes:,}" if n_classes else ""),
        ("bins", f"{summary['n_bins']:,}, right-closed" if "n_bins" in summary else ""),
        ("intervals", "not requested" if level is None else ""),
        ("confidence level", "" if level is None else percent(level)),
        ("noise floors", f"{samples:,} simulated data sets" if samples else ""),
        ("profile", "" if profile is STANDARD else f"{profile.name}: {profile.meaning}"),
        *((f"no {name}", reason) for name, reason in profile.left_out.items() if not summary.get("listed", True)),
        ("tolerance", _tolerated(summary)),
        ("largest error rate", _promised(summary)),
        ("alarm", f"from E = {monitor.bound_text(summary)} on" if kind_of(summary) == "monitor" else ""),
        ("files", ", ".join(sources.get("files", []))),
        ("columns", used),
        ("condition", sources.get("where")),
        ("time zone", sources.get("timezone")),
        ("protocol", sources.get("protocol")),
        ("options", sources.get("config")),
        ("made by", f"calibrant {version()}"),
    ]
    return [(name, text) for name, text in rows if text]


def _tolerated(summary: Summary) -> str:
    """Return the tolerance of the decision or of the monitor, if there is one."""
    if kind_of(summary) == "monitor":
        return monitor.tolerance_text(summary)
    decision = summary["pairs"][0]["decision"] if "pairs" in summary else summary.get("decision")
    if decision is None:
        return ""
    minus = " of the second model minus that of the first" if "pairs" in summary else ""
    return f"{BY_NAME[decision['measure']].label}{minus}: up to {decision['tolerance']:g}"


def _promised(summary: Summary) -> str:
    """Return the largest error rates of automatic decisions, of a threshold or of a monitor that watches one."""
    kind = kind_of(summary)
    if kind not in ("threshold", "monitor"):
        return ""
    sides = summary["promises"] if kind == "monitor" else threshold.sides(summary)
    if len(sides) == 1:
        return percent(sides[0]["max_risk"])
    return ", ".join(f'"{side["side"]}" {percent(side["max_risk"])}' for side in sides)


def _weight(summary: Summary) -> str:
    """Return the weight of all rows, if it differs from their number."""
    if kind_of(summary) in ("threshold", "monitor"):
        return ""
    part = summary["labels"][0] if recalibration.of_labels(summary) else summary
    models = [sum(bins["counts"]) for bins in part.get("diagrams", {}).values()]
    total = models[0] if models else words.total_weight(summary)
    return "" if total is None or abs(total - summary["n"]) <= 1e-6 * summary["n"] else words.amount(total)


# ---------------------------------------------------------------- a report


def _report(summary: Summary, most_classes: int, is_page: bool) -> dict[str, Any]:
    level, test = summary["level"], summary["test"]
    of_test = {"label": "test", "meaning": "The test of calibration.", "method": (test or {}).get("method")}
    of_measures = [
        {"label": words.label_of(summary, key), "meaning": _meaning(summary, key), "method": part["method"]}
        for key, part in words.shown_estimates(summary).items()
    ]
    return {
        "body": "report.html",
        "measured": "measure",
        "headline": _unbroken([words.headline(summary)])[0],
        "heading": verdict.title(summary),
        "verdict": _unbroken(verdict.verdict(summary)),
        "numbers": verdict.key_numbers(summary),
        "steps": verdict.next_steps(summary),
        "diagram": _diagram(summary),
        "diagram_tables": _diagram_tables(summary),
        "noise": None if level is None else _noise(summary),
        "measures": tables.measures(summary),
        "remarks": words.remarks(summary),
        "panels": drawing.pictures(summary),
        "groups": _groups(summary) if summary["groups"] else None,
        "forests": drawing.forests(summary),
        "paper": _paper(summary) if shows_methods(summary) else None,
        "classes": _classes(summary, most_classes, is_page) if summary["classwise"] is not None else None,
        "methods": [*([of_test] if test else []), *of_measures],
    }


def _paper(summary: Summary) -> tuple[Any, ...]:
    """Return what a paper needs: the short and the full paragraph, and the checklist."""
    return METHODS, summary["methods_brief"], summary["methods"], TRIPOD, checklist(summary), REST


def _diagram(summary: Summary) -> dict[str, Any] | None:
    if summary["diagram"] is None:
        return None
    diagram = drawing.diagram(summary["diagram"], summary["curves"], summary["notion"], summary["level"])
    first = next(iter(summary["curves"]), "bins") if diagram["outside"] else "bins"
    return {**diagram, "first": "loess" if "loess" in summary["curves"] else first}


def _diagram_tables(summary: Summary) -> list[tables.Table]:
    if summary["diagram"] is None:
        return []
    level = summary["level"]
    write = tables.score_writer(rare=tables.is_rare(summary["diagram"]))
    curves = [tables.curve(kind, points, level, write) for kind, points in summary["curves"].items()]
    return [tables.diagram(summary["diagram"], level), *curves]


def _noise(summary: Summary) -> dict[str, Any] | None:
    """Return the chart of the errors that share a scale, with their noise floors."""
    parts = {key: part for key, part in words.shown_estimates(summary).items() if part["value"] is not None}
    measures = summary["measures"]
    errors = [key for key in parts if (measures[key]["scale"], measures[key]["better"]) == ("probability", "lower")]
    rows = [_row(words.label_of(summary, key), parts[key], summary) for key in errors]
    return drawing.chart(rows) if rows else None


def _meaning(summary: Summary, key: str) -> str:
    return str(summary["measures"][key]["meaning"])


def _row(label: str, part: Estimate, summary: Summary) -> Row:
    """Return the row of a measure: it is marked if its p-value is significant."""
    p_value = part["p_value"]
    beyond = p_value is not None and p_value <= alpha_of(summary["level"])
    note = "" if p_value is None else f"p {tables.chance_text(p_value, summary['n_resamples'])}"
    return _marked_row(label, part, summary, beyond, [note])


def _marked_row(label: str, part: Estimate, summary: Summary, marked: bool, notes: Iterable[str]) -> Row:
    """Return the row of an estimate with its interval and its noise floor, and all of it in words."""
    low, high, value = part["low"], part["high"], part["value"] or 0.0
    ends = None if low is None or high is None else (low, high)
    floor = None if part["floor"] is None else (part["floor"]["mean"], part["floor"]["upper"])
    texts = [
        f"{label}: {number(part['value'])}",
        "" if ends is None else f"{percent(summary['level'])} CI {tables.ends_text(*ends)}",
        ""
        if floor is None
        else f"calibrated: mean {number(floor[0])}, {percent(summary['level'])} below {number(floor[1])}",
        *notes,
    ]
    return Row(label, value, ends, floor, marked, "; ".join(filter(None, texts)))


# ---------------------------------------------------------------- groups and classes


def _groups(summary: Summary) -> dict[str, Any]:
    groups, level = summary["groups"], summary["level"]
    drawn = words.worst_groups(summary)
    cut = len(drawn) < len(groups)
    rows = []
    for group in (groups[i] for i in drawn):
        p_value = group["adjusted_p_value"]
        notes = ["" if p_value is None else f"p adjusted {tables.chance_text(p_value)}", group["flag"]]
        rows.append(_marked_row(group["name"], group["ece"], summary, group["called_out"], notes))
    diagrams = [groups[i] for i in drawn if groups[i]["report"]["diagram"] is not None]
    table = tables.groups(summary)
    rest = sorted(set(range(len(groups))) - set(drawn))
    return {
        "words": _groups_words(groups, level),
        "chart": drawing.chart(rows),
        "timeline": drawing.timeline(summary),
        "error": [f"{sentence[0].upper()}{sentence[1:]}." for sentence in words.multicalibration(summary)],
        "tested": words.parts_of(groups),
        "table": table,
        "listed": table.of_rows(drawn) if cut else table,
        "rest": table.of_rows(rest) if cut else None,
        "searched": len(groups) >= _GROUPS_SEARCHED,
        "left_out": f"The {len(drawn):,} groups with the most evidence are drawn, and the other {len(rest):,} groups "
        "are listed."
        if cut
        else "",
        "tiles": [_group_tile(group) for group in diagrams],
    }


def _groups_words(groups: Sequence[Group], level: float | None) -> str:
    """Return the numbers of groups and of tested groups, and the names of those that are flagged, in words."""
    many = f"{len(groups):,} group{'s' * (len(groups) != 1)}"
    if level is None:
        return f"{many}."
    tested = sum(group["adjusted_p_value"] is not None for group in groups)
    if not tested:
        return f"{many}, none with enough rows for a test."
    flagged = [group["name"] for group in groups if group["called_out"]]
    after = " after Holm correction" if tested > 1 else ""
    evidence = (
        f"Evidence of miscalibration{after}: {_listed(flagged)}."
        if flagged
        else f"No group shows evidence of miscalibration{after}."
    )
    return f"{many}, {tested:,} with enough rows for a test. {evidence}"


def _listed(names: Sequence[str]) -> str:
    """Return names, the first ones of many."""
    more = len(names) - words.GROUPS_WORST
    return ", ".join(names) if more <= 0 else f"{', '.join(names[: words.GROUPS_WORST])} and {more:,} more"


def _group_tile(group: Group) -> dict[str, Any]:
    bins = group["report"]["diagram"]
    filled = [b for b, score in enumerate(bins["confidences"]) if score is not None]
    scores, rates, counts = ([bins[name][b] for b in filled] for name in ("confidences", "accuracies", "counts"))
    ends = [] if bins["lows"] is None else [(bins["lows"][b], bins["highs"][b]) for b in filled]
    text = f"ECE {group['ece']['value']:.4f}, {tables.rows_words(group['report']['n'])}"
    return _tile(group["name"], text, group["called_out"], drawing.tile(scores, rates, counts, ends))


def _tile(name: str, text: str, marked: bool, picture: dict[str, Any]) -> dict[str, Any]:
    """Return a small diagram with its words."""
    text += f"; ◆{_HARD_SPACE}evidence of miscalibration" if marked else ""
    return {"name": name, "marked": marked, "text": text, "picture": picture}


def _classes(summary: Summary, most: int, is_page: bool) -> dict[str, Any]:
    classes, notion = summary["classwise"], summary["notion"]
    adjusted, marked = classes["adjusted_p_values"], words.called_out(summary)
    kind, word = ("label", "labels") if notion == "multilabel" else ("class", "classes")
    order, total = tables.by_error(classes["errors"]), len(classes["errors"])
    counts = words.counted(classes["bins"]["count"])
    places: dict[int, list[int]] = {k: [] for k in range(total)}
    for i, k in enumerate(classes["bins"]["class"]):
        places[k].append(i)
    shown = f"Each {kind} is evaluated by its own probability. The {kind} with the largest error is first."
    if total > most:
        where = "The tables contain" if is_page else "The HTML page contains"
        shown = f"The diagrams show the {most:,} {word} with the largest errors. {where} all {word}."
    texts = (
        f"{shown} The horizontal axis is the predicted probability, the vertical axis the observed frequency, both "
        f"from 0 to 1. Larger points have more {counts} (steps at 2 % and 20 % of all {counts})."
    )
    note = "" if adjusted is None else words.correction(adjusted, marked, kind, word)
    table = tables.classes(summary, None if is_page else most)
    return {
        "counted": counts,
        "heading": f"The {total:,} {word}",
        "note": f"{note[:1].upper()}{note[1:]}{', marked ◆' * any(marked)}." if note else "",
        "word": word,
        "words": texts,
        "tiles": [_class_tile(classes, k, places[k], kind, marked[k], counts == "weight") for k in order[:most]],
        "kind": kind,
        "table": table,
        "listed": table.of_rows(range(_CLASSES_LISTED)) if len(table.rows) > _CLASSES_LISTED else table,
        "rest": table.of_rows(range(_CLASSES_LISTED, len(table.rows))) if len(table.rows) > _CLASSES_LISTED else None,
        "bins": tables.class_bins(summary) if is_page else None,
    }


def _class_tile(
    classes: Facts, k: int, places: Sequence[int], kind: str, marked: bool, weighted: bool
) -> dict[str, Any]:
    bins, error, support = classes["bins"], classes["errors"][k], classes["supports"][k]
    scores, rates, counts = ([bins[name][i] for i in places] for name in ("confidence", "accuracy", "count"))
    ends = [(bins["low"][i], bins["high"][i]) for i in places] if "low" in bins else []
    text = "no rows"
    if error is not None:
        text = f"ECE {error:.4f}; {'weight ' * weighted}{words.amount(support)} of this {kind}"
    tile = _tile(str(classes["names"][k]), text, marked, drawing.tile(scores, rates, counts, ends))
    return {**tile, "index": k, "error": -1 if error is None else error, "rows": support}


# ---------------------------------------------------------------- a comparison


def _comparison(summary: Summary) -> dict[str, Any]:
    level = summary["level"]
    models, files = [], []
    rare = all(map(tables.is_rare, summary["diagrams"].values()))  # one scale for all
    drawn = [each["name"] for each in summary["leaderboard"][:_MODELS_DRAWN]]
    for i, (name, bins) in enumerate(summary["diagrams"].items()):
        if name not in drawn:
            continue
        picture = drawing.diagram(bins, {}, summary["notion"], level, histogram=False, rare=rare)
        models.append({"name": name, "diagram": picture, "label": f"{name}. {picture['alt']}"})
        files.append(tables.diagram(bins, level, f"reliability-diagram-{i + 1}"))
    labels = comparison.labels_of(summary)
    pair = summary["pairs"][0] if len(summary["pairs"]) == 1 else None
    return {
        "body": "comparison.html",
        "measured": "difference",
        "headline": _unbroken([comparison.headline(summary)])[0],
        "heading": comparison.heading(summary),
        "verdict": _unbroken(comparison.verdict(summary)),
        "remarks": comparison.remarks(summary),
        "rare": rare,
        "pair": None if pair is None else f"{pair['first']} − {pair['second']}",
        "leaderboard": leaderboard.table(summary),
        "leaderboard_chart": leaderboard.chart(summary),
        "leaderboard_note": leaderboard.note(summary),
        "models": models,
        "models_left": len(summary["leaderboard"]) - len(models),
        "models_table": comparison.models(summary),
        "diagram_tables": files,
        "charts": [chart for chart in (_differences(summary, key) for key in labels) if chart],
        "differences": comparison.differences(summary),
        "groups": [comparison.groups(i, summary) for i in comparison.grouped_pairs(summary)],
        "methods": [
            {
                "label": "difference to the best",
                "meaning": "By how much a model is worse than the best model.",
                "method": summary["leaderboard"][0]["difference"]["method"],
            },
            *(
                {"label": label, "meaning": _meaning(summary, key), "method": _method(summary, key)}
                for key, label in labels.items()
            ),
        ],
    }


def _method(summary: Summary, key: str) -> str:
    """Return the method of a difference, from a pair that has this difference."""
    parts = [pair["estimates"][key] for pair in summary["pairs"]]
    return str(next((part["method"] for part in parts if part["value"] is not None), parts[0]["method"]))


def _differences(summary: Summary, key: str) -> dict[str, Any] | None:
    """Return the chart of one measure's differences, a row for each pair of models; None without any.

    The heading of the page names a single pair, so its row has the name of the measure.
    """
    rows, notes, alone = [], [], len(summary["pairs"]) == 1
    for pair in comparison.shown_pairs(summary):
        part = pair["estimates"][key]
        if part["value"] is None:
            continue
        ends = None if part["low"] is None else (part["low"], part["high"])
        beyond = ends is not None and not ends[0] <= 0 <= ends[1]
        if key == summary["decides"]:
            beyond = part["p_value"] <= alpha_of(summary["level"])
        label = words.label_of(summary, key) if alone else drawing.fit_pair(pair["first"], pair["second"])
        value, interval = comparison.difference(part)
        note = comparison.note_of(key, part, summary)
        texts = [
            f"{pair['first']} minus {pair['second']}: {value}",
            f"{percent(summary['level'])} CI {interval}" if interval else "",
            note,
        ]
        good = part["value"] < 0 if summary["measures"][key]["better"] == "higher" else part["value"] > 0
        rows.append(Row(label, part["value"], ends, None, beyond, "; ".join(filter(None, texts)), good))
        notes.append(note)
    if not rows:
        return None
    note = f": {notes[0]}" if len(notes) == 1 and notes[0] else ""
    chart = drawing.chart(rows, signed=True)
    return {"label": words.label_of(summary, key), "note": note, "alone": alone, "chart": chart}


# ---------------------------------------------------------------- a recalibration


def _recalibration(summary: Summary) -> dict[str, Any]:
    """Return what the page of a recalibration shows; of several labels the diagrams of the first ones."""
    level, of_labels = summary["level"], recalibration.of_labels(summary)
    parts = summary["labels"] if of_labels else [summary]
    diagrams = {
        f"{short(part['name'])}, {when}" if of_labels else when: bins
        for part in parts[:_LABELS_DRAWN]
        for when, bins in part["diagrams"].items()
    }
    rare = all(map(tables.is_rare, diagrams.values()))
    notion = "positive" if of_labels else summary["notion"]
    groups = recalibration.by_group(summary)
    pictures = {name: drawing.diagram(bins, {}, notion, level, rare=rare) for name, bins in diagrams.items()}
    return {
        "body": "recalibration.html",
        "measured": "measure",
        "headline": _unbroken([recalibration.headline(summary)])[0],
        "heading": recalibration.heading(summary),
        "verdict": _unbroken(recalibration.verdict(summary)),
        "remarks": recalibration.remarks(summary),
        "models": [
            {"name": name, "diagram": picture, "label": f"{name}. {picture['alt']}"}
            for name, picture in pictures.items()
        ],
        "measures": recalibration.measures(summary),
        "diagram_tables": [tables.diagram(bins, level, f"bins-{name}") for name, bins in diagrams.items()],
        "map": recalibration.picture(summary),
        "chosen": parts[0]["chosen"],
        "groups": None if groups is None else tables.groups(groups),
        "groups_heading": recalibration.GROUPS,
        "groups_words": "" if groups is None else _groups_words(groups["groups"], level),
        "parameters": recalibration.parameters(summary) if recalibration.of_classes(summary) else None,
        "methods": [
            {
                "label": words.label_of(parts[0], key),
                "meaning": _meaning(parts[0], key),
                "method": parts[0]["after"][key]["method"],
            }
            for key in parts[0]["measures"]
        ],
    }


# ---------------------------------------------------------------- a threshold


def _threshold(summary: Summary) -> dict[str, Any]:
    """Return what the page of a threshold shows."""
    sides = threshold.sides(summary)
    method = {
        "label": "threshold",
        "meaning": "The lowest score from which on the error rate is certified.",
        "method": threshold.METHODS[sides[0]["method"]],
    }
    return {
        "body": "threshold.html",
        "measured": "number",
        "headline": _unbroken([threshold.headline(summary)])[0],
        "heading": threshold.heading(summary),
        "verdict": _unbroken(threshold.verdict(summary)),
        "remarks": threshold.remarks(summary),
        "panels": [(threshold.picture(side, summary), threshold.areas(side)) for side in sides],
        "groups": threshold.by_group(summary),
        "groups_heading": threshold.groups_heading(summary),
        "methods": [
            method,
            *(
                {"label": label, "meaning": meaning, "method": sides[0]["areas"][name]["method"]}
                for name, (label, meaning) in threshold.AREAS.items()
            ),
        ],
    }


# ---------------------------------------------------------------- a monitor


def _monitor(summary: Summary) -> dict[str, Any]:
    """Return what the page of a monitor shows."""
    return {
        "body": "monitor.html",
        "measured": "number",
        "headline": _unbroken([monitor.headline(summary)])[0],
        "heading": monitor.heading(summary),
        "verdict": _unbroken(monitor.verdict(summary)),
        "remarks": monitor.remarks(summary),
        "panels": monitor.pictures(summary),
        "slices": monitor.slices(summary) if summary["slices"] else None,
        "slices_heading": monitor.slices_heading(summary),
        "groups": monitor.groups(summary),
        "groups_heading": monitor.groups_heading(summary),
        "methods": monitor.METHODS,
    }
