"""A monitor for the terminal, for pages and for Prometheus, from the dictionary of `Monitor.to_dict`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

from calibrant.render import drawing, tables, terminal
from calibrant.render.style import (
    Facts,
    Style,
    Summary,
    Tone,
    evaluated_event,
    head,
    lead,
    paragraphs,
    percent,
    short,
    signed,
    wrapped,
)
from calibrant.render.tables import Column, Table
from calibrant.render.words import amount, rows_text, texts
from calibrant.runtime.dataclass import dataclass

#: What the numbers of a page are, in words.
METHODS: Final = (
    {
        "label": "evidence E",
        "meaning": "A number that grows if the outcomes do not fit the scores. If the model stays calibrated, E "
        "reaches 1 / a with a probability of at most a, however often it is looked at.",
        "method": "e-process: a mixture of drifts of the level, of the slope and of five ranges of the scores, and of "
        "their starts",
    },
    {
        "label": "onset",
        "meaning": "The most likely first slice of the drift, and the range of slices with 90 % of the evidence.",
        "method": "shares of the evidence by the start of the drift",
    },
    {
        "label": "mean so far",
        "meaning": "The mean difference over all slices up to each slice.",
        "method": "CI: confidence sequence from a mixture of bets on the residuals, valid at all slices together",
    },
)

_LISTED: Final = 12  # slices that a table shows, the last ones; its file has all
_GROUPS: Final = 20  # groups that a table shows
_NAMED: Final = 10  # groups in a sentence
_MOST: Final = 300 * math.log(10)  # the largest logarithm of E that is written as a number
_MANY: Final = 1e6  # from here on E is written as a power of ten
_PLACES: Final = 9
_POINTS: Final = 60  # of a line of differences; of more slices some are together
_NAME_WIDTH: Final = 90.0  # units of a picture that a name takes at most
_SPACE: Final = 10.0  # between two names
_FRAME, _OUTSIDE = 372.0, 6.0  # the width of a chart's frame, and of what is right of it
_PLAIN: Final = 3  # powers of ten that an axis writes out
_HYPHEN: Final = "\N{NON-BREAKING HYPHEN}"
_SUPERSCRIPT: Final = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


_Sentences = Iterator[tuple[str, Tone]]


class _Terms(NamedTuple):
    """What the two sides of a difference are called, what a model with an error does, and both outcomes."""

    predicted: str
    observed: str
    over: str
    under: str
    either: str
    outcomes: tuple[str, str]


_TERMS: Final = {
    "top-label": _Terms(
        "mean confidence",
        "accuracy",
        "is over-confident",
        "is under-confident",
        "over- or under-confidence",
        ("correct prediction", "incorrect prediction"),
    ),
    "positive": _Terms(
        "mean predicted probability",
        "observed frequency",
        "overestimates the event",
        "underestimates the event",
        "over- or underestimation",
        ("event", "non-event"),
    ),
}


# ---------------------------------------------------------------- numbers


def bound_text(summary: Summary) -> str:
    """Return the evidence at which there is an alarm."""
    bound = 1 / summary["alpha"]
    return f"{bound:,.0f}" if bound >= 100 or abs(bound - round(bound)) < 1e-9 else f"{bound:.3g}"


def evidence_text(log_evidence: float, summary: Summary) -> str:
    """Return E from its logarithm; rounding never lifts it to the alarm."""
    if log_evidence > _MOST:
        return "more than 1e300"
    evidence, bound = math.exp(log_evidence), 1 / summary["alpha"]
    if evidence >= _MANY:
        digits, _, power = f"{evidence:.1e}".partition("e")
        return f"{digits}e{int(power)}"
    places = 0 if evidence >= 100 else 1 if evidence >= 1 else 1 - math.floor(math.log10(evidence))
    is_below = log_evidence < -math.log(summary["alpha"])
    while is_below and places < _PLACES and round(evidence, places) >= bound:
        places += 1
    return f"{evidence:,.{places}f}"


def _bounded(p_value: float) -> str:
    """Return a bound on a p-value with its sign, to three decimal places and never below it."""
    return "< 0.001" if p_value < 0.001 else f"≤ {math.ceil(p_value * 1000 - 1e-9) / 1000:g}"


def _p_of(log_evidence: float) -> float:
    return min(1.0, math.exp(-log_evidence))


def _points(*shares: float, sign: str = "") -> list[str]:
    """Return differences in percentage points: with one decimal place, or small ones with two digits of the largest."""
    numbers = [100 * share for share in shares]
    largest = max(map(abs, numbers))
    places = 1 if largest >= 1 or largest == 0 else 1 - math.floor(math.log10(largest))
    return texts(numbers, min(places, _PLACES), [0.0], sign)


def _difference_text(share: float) -> str:
    return f"{_points(share, sign='+')[0]} percentage points"


def _rows(n: float) -> str:
    return rows_text(n) if float(n).is_integer() else f"weight {amount(n)}"


def _slices(summary: Summary) -> str:
    many = len(summary["slices"])
    return f"{many:,} slice{'s' * (many != 1)}"


def _score(value: float) -> str:
    return f"{value:.4g}" if 0.001 <= value <= 0.999 else f"{value:.8g}"


def tolerance_text(summary: Summary) -> str:
    """Return the tolerance; empty without."""
    if summary["tolerance"] is not None:
        return f"{100 * summary['tolerance']:g} percentage points"
    return "" if summary["tolerance_odds"] is None else f"a factor of {summary['tolerance_odds']:g} of the odds"


# ---------------------------------------------------------------- the verdict


def headline(summary: Summary) -> str:
    """Return the number of slices and rows, and the evaluated event, in words."""
    if not summary["slices"]:
        return _slices(summary)
    return f"{_slices(summary)}, {_rows(summary['n'])} ({evaluated_event(summary)})"


def heading(summary: Summary) -> tuple[str, Tone]:
    """Return the headline of a page with its tone."""
    if summary["alarm"]:
        return f"Alarm: {_not_calibrated(summary)}", "bad"
    if _is_broken(summary):
        return "Alarm: a promise is broken", "bad"
    flagged = _flagged(summary)
    if flagged:
        return f"Alarm for {len(flagged):,} of {len(summary['groups']):,} groups", "bad"
    return (f"No alarm after {_slices(summary)}" if summary["slices"] else "No slices yet"), ""


def toned_verdict(summary: Summary) -> list[tuple[str, Tone]]:
    """Return the verdict as sentences with their tones: the evidence, the drift, groups, promises, what to do."""
    parts = (_repeated, _impossible, _evidence, _tolerance, _drift, _of_groups, _promises, _guarantee, _next)
    sentences = [sentence for part in parts for sentence in part(summary)]
    # Alarms come first: without one for the model, those of groups and of promises.
    return sentences if summary["alarm"] else sorted(sentences, key=lambda sentence: sentence[1] != "bad")


def verdict(summary: Summary) -> list[str]:
    """Return the verdict as sentences."""
    return [sentence for sentence, _ in toned_verdict(summary)]


def promises(summary: Summary) -> list[str]:
    """Return a sentence for each promise of a threshold: whether it is kept so far."""
    return [sentence for sentence, _ in _promises(summary)]


def _not_calibrated(summary: Summary) -> str:
    """Return that the model is not calibrated: "no longer", unless the first slice is the most likely start."""
    drift = summary["drift"]
    word = "not" if drift is None or (drift["first"] == 0 and _of_all_rows(summary)) else "no longer"
    return f"the model is {word} calibrated{' within the tolerance' * bool(tolerance_text(summary))}"


def _repeated(summary: Summary) -> _Sentences:
    """Yield a caution for each set of slices with equal rows."""
    equal: dict[str, list[str]] = {}
    for part in summary["slices"]:
        if part["equal_to"] is not None:
            equal.setdefault(part["equal_to"], []).append(part["label"])
    for first, others in equal.items():
        names = [short(label) for label in (first, *others)]
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        yield f"Caution: the slices {', '.join(names[:_NAMED])}{more} have equal rows.", "caution"
        remedy = "begin a new state and add each row once"
        yield f"If the same rows were added again, the evidence is not valid, so {remedy}.", "caution"


def _impossible(summary: Summary) -> _Sentences:
    """Yield how many outcomes the scores exclude, and what follows if the scores are exact and if they are rounded."""
    counts = list(summary["impossible"].values())
    if not any(counts):
        return
    names = zip(counts, _TERMS[summary["notion"]].outcomes, ("0", "1"), strict=True)
    kinds = [
        f"{amount(count)} {name}{'s' * (count != 1)} with a score of {score}" for count, name, score in names if count
    ]
    are = "1 outcome is" if sum(counts) == 1 else f"{amount(sum(counts))} outcomes are"
    yield (
        f"Alarm: {are} impossible according to the scores: {' and '.join(kinds)}. A calibrated model never has such "
        "outcomes, so p = 0.",
        "bad",
    )
    evidence = evidence_text(summary["log_evidence_of_drifts"], summary)
    yield (
        f"If the scores were rounded to 0 and 1, the evidence is E = {evidence}, alarm at {bound_text(summary)}. Begin "
        "a new state with the largest rounding error as --tolerance, such as 0.005 for two decimal places.",
        "",
    )


def _evidence(summary: Summary) -> _Sentences:
    if not summary["slices"]:
        yield "No slices have been added yet.", ""
        return
    if summary["drift"] is None and summary["alarm"]:
        return
    evidence, bound = evidence_text(summary["log_evidence_of_drifts"], summary), bound_text(summary)
    after = f"{_slices(summary)} ({_rows(summary['n'])})"
    if summary["alarm"]:
        yield f"Alarm: {_not_calibrated(summary)} (p {_bounded(summary['p_value'])}).", "bad"
        yield f"The evidence against calibration has reached E = {evidence} in {after}. The alarm is at {bound}.", ""
        return
    p_value = "1" if summary["p_value"] == 1 else texts([summary["p_value"]], 2, [summary["alpha"]])[0]
    numbers = f"E = {evidence}, alarm at {bound} (p = {p_value})"
    overall = " overall" * (_is_broken(summary) or bool(_flagged(summary)))
    yield f"No{overall} alarm after {after}: evidence against calibration {numbers}.", ""


def _tolerance(summary: Summary) -> _Sentences:
    tolerated = tolerance_text(summary)
    if tolerated:
        what = "Probabilities" if summary["tolerance"] is not None else "Odds"
        yield f"{what} within {tolerated} of the score count as calibrated (tolerance).", ""


def _guarantee(summary: Summary) -> _Sentences:
    if not summary["alarm"]:
        within = " within the tolerance" * bool(tolerance_text(summary))
        yield (
            f"A model that stays calibrated{within} raises an alarm with a probability of at most "
            f"{percent(summary['alpha'])} over its whole life.",
            "",
        )


def _of_all_rows(summary: Summary) -> bool:
    """Return whether all rows together would raise the alarm; with groups, theirs is half of the evidence."""
    if not summary["groups"]:
        return True
    most: float = max(part["log_evidence_of_rows"] for part in summary["slices"])
    return most >= -math.log(summary["alpha"])


def _drift(summary: Summary) -> _Sentences:
    """Yield since when, how large and of which kind; without an alarm the mean difference over all slices."""
    drift = summary["drift"]
    if drift is None:
        if summary["slices"]:
            last = summary["slices"][-1]
            clause = _size(summary["mean_difference"], last["low"], last["high"], summary, ", valid at any time")
            if not last["informative"]:
                terms, (value,) = _TERMS[summary["notion"]], _points(summary["mean_difference"], sign="+")
                clause = (
                    f"{terms.predicted} minus {terms.observed} is {value} percentage points. There are not yet enough "
                    "rows for a useful CI"
                )
            yield f"Over all slices, {clause}.", ""
        return
    if not _of_all_rows(summary):
        yield "The evidence comes from the groups. All rows together would not raise an alarm.", ""
        return
    yield f"{_since(drift)}, {_size(drift['difference'], drift['low'], drift['high'], summary)}.", "bad"
    if drift["family"] == "level":
        yield f"The whole level has drifted, so a new offset suffices (about {drift['offset']:+z.2f} in log-odds).", ""
    elif drift["family"] == "slope":
        extreme = "extreme" if drift["slope"] < 1 else "moderate"
        slope = texts([drift["slope"]], 2, [1.0])[0]
        yield f"The slope has drifted: predictions are too {extreme}. A new slope suffices (about {slope}).", ""
    elif drift["family"] == "range":
        yield "One range of the scores has drifted, so fit the map again.", ""
    else:
        yield "There are several kinds of errors, so fit the map again.", ""


def _next(summary: Summary) -> _Sentences:
    if summary["drift"] is not None and _of_all_rows(summary):
        yield "Pass --since-onset window.cal to write the rows since then (since_onset() in Python).", ""
        yield "Next: calibrant recalibrate window.cal --map map.json", ""


def _since(drift: Facts) -> str:
    since, earliest, latest = (short(drift[key]) for key in ("since", "earliest", "latest"))
    if drift["earliest"] == drift["latest"]:
        return f"Since {since} (90 % range: this slice alone)"
    return f"Since about {since} (90 % range {earliest} to {latest})"


def _size(difference: float, low: float, high: float, summary: Summary, note: str = "") -> str:
    """Return the direction and the size of a mean difference, with its interval."""
    terms, level = _TERMS[summary["notion"]], percent(summary["level"])
    if low <= 0 <= high:
        value, *ends = _points(difference, low, high, sign="+")
        return (
            f"there is no clear {terms.either}: {terms.predicted} minus {terms.observed} {value} percentage points "
            f"({level} CI {ends[0]} to {ends[1]}{note})"
        )
    does, where = (terms.over, "high") if low > 0 else (terms.under, "low")
    value, *ends = _points(abs(difference), *sorted((abs(low), abs(high))))
    return (
        f"the model {does}: {terms.predicted} {value} percentage points too {where} "
        f"({level} CI {ends[0]} to {ends[1]}{note})"
    )


def _is_broken(summary: Summary) -> bool:
    return any(promise["broken"] for promise in summary["promises"])


def _flagged(summary: Summary) -> list[Facts]:
    return [group for group in summary["groups"] if group["called_out"]]


def _of_groups(summary: Summary) -> _Sentences:
    groups, flagged = summary["groups"], _flagged(summary)
    if not groups:
        return
    many = f"{len(groups):,} group{'s' * (len(groups) != 1)}"
    if not flagged:
        yield f"No group shows evidence of miscalibration after closed testing ({many}).", ""
        return
    named = [
        f"{short(group['name'])} ({_difference_text(group['difference'])})"
        if group["difference"] is not None
        else short(group["name"])
        for group in flagged[:_NAMED]
    ]
    others = f" and {len(flagged) - _NAMED:,} more" if len(flagged) > _NAMED else ""
    show = "show" if len(flagged) > 1 else "shows"
    yield (
        f"{len(flagged):,} of {many} {show} evidence of miscalibration after closed testing: "
        f"{', '.join(named)}{others}.",
        "bad",
    )


def _promises(summary: Summary) -> _Sentences:
    parts = summary["promises"]
    for part in parts:
        side = f' of "{part["side"]}"' if len(parts) > 1 or part["side"] == "no" else ""
        promise = f"the promise of the threshold {_score(part['value'])}{side}"
        if part["risk"] is None:
            yield f"Nothing is known yet about {promise}, because no decision was automatic.", ""
            continue
        wrong = (
            f"{amount(part['n_errors'])} of {amount(part['n_automatic'])} automatic decisions "
            f"{'is' if part['n_errors'] == 1 else 'are'} wrong"
        )
        numbers = f"{tables.share_text(part['risk'])}, bound {percent(part['max_risk'])}"
        is_above = part["risk"] > part["max_risk"]
        if part["broken"]:
            p_value = _bounded(_p_of(part["log_evidence"]))
            later = "" if is_above else ", and later slices are above the bound"
            yield f"Alarm: {promise} is broken (p {p_value}): {wrong} ({numbers}){later}.", "bad"
        elif is_above:
            evidence = evidence_text(part["log_evidence"], summary)
            yield (
                f"No alarm for {promise}: {wrong} ({numbers}). This may be chance "
                f"(E = {evidence}, alarm at {bound_text(summary)}).",
                "",
            )
        else:
            yield f"T{promise[1:]} is kept so far: {wrong} ({numbers}).", ""


# ---------------------------------------------------------------- the tables


def slices(summary: Summary) -> Table:
    """Return the slices: the last ones on a page, and all in the file."""
    parts = summary["slices"]
    means = _means(summary)
    columns = [
        Column("slice", [short(part["label"]) for part in parts], {"slice": _each(parts, "label")}),
        _count(parts),
        Column(
            "difference", [signed(part["difference"]) for part in parts], {"difference": _each(parts, "difference")}
        ),
        Column(
            "E",
            [
                "infinite" if impossible else _in_table(part["log_evidence"], summary)
                for part, impossible in zip(parts, accumulate(_each(parts, "impossible")), strict=True)
            ],
            {"log_evidence": _each(parts, "log_evidence")},
        ),
        Column("mean so far", list(map(signed, means)), {"mean_difference": means}),
        Column(
            f"{percent(summary['level'])} CI",
            [
                tables.ends_text(part["low"], part["high"], signed) if part["informative"] else "not yet"
                for part in parts
            ],
            {end: _each(parts, end) for end in ("low", "high")},
        ),
    ]
    first = max(len(parts) - _LISTED, 0)
    return Table.of("slices", columns, minor=(4,)).of_rows(range(first, len(parts)))


def slices_heading(summary: Summary) -> str:
    """Return the heading of the table of slices."""
    many = len(summary["slices"])
    return f"The last {_LISTED} of {many:,} slices" if many > _LISTED else "Slices"


def groups(summary: Summary) -> Table | None:
    """Return the groups; of many those with the most evidence, and all in the file. None without groups."""
    parts = summary["groups"]
    if not parts:
        return None
    columns = [
        Column("group", [short(part["name"]) for part in parts], {"group": _each(parts, "name")}),
        _count(parts),
        Column(
            "difference",
            ["–" if part["difference"] is None else signed(part["difference"]) for part in parts],
            {"difference": _each(parts, "difference")},
        ),
        Column(
            "adjusted E",
            [_of_group(part, summary) for part in parts],
            {"log_evidence": _each(parts, "log_evidence")},
        ),
        Column("flagged", ["yes" * part["called_out"] for part in parts], {"flagged": _each(parts, "called_out")}),
    ]
    table = Table.of("groups", columns, marked=[bool(part["called_out"]) for part in parts], texts=(0, 4))
    if len(parts) <= _GROUPS:
        return table
    found = [
        math.inf if part["impossible"] else (-math.inf if part["log_evidence"] is None else part["log_evidence"])
        for part in parts
    ]
    return table.of_rows(sorted(range(len(parts)), key=lambda i: -found[i])[:_GROUPS])


def _of_group(part: Facts, summary: Summary) -> str:
    if part["impossible"]:
        return "infinite"
    return "–" if part["log_evidence"] is None else _in_table(part["log_evidence"], summary)


def groups_heading(summary: Summary) -> str:
    """Return the heading of the table of groups."""
    many = len(summary["groups"])
    return f"The {_GROUPS} of {many:,} groups with the most evidence" if many > _GROUPS else "Groups"


def _count(parts: Sequence[Facts]) -> Column:
    counts = _each(parts, "n")
    heading = "rows" if all(float(n).is_integer() for n in counts) else "weight"
    return Column(heading, list(map(amount, counts)), {"n": counts})


def _in_table(log_evidence: float, summary: Summary) -> str:
    return evidence_text(log_evidence, summary).replace("more than", ">")


def _means(summary: Summary) -> list[float]:
    """Return the mean difference over all slices up to each slice."""
    counts = accumulate(part["n"] for part in summary["slices"])
    sums = accumulate(part["n"] * part["difference"] for part in summary["slices"])
    return [total / n for total, n in zip(sums, counts, strict=True)]


def _each(parts: Sequence[Facts], key: str) -> list[Any]:
    return [part[key] for part in parts]


# ---------------------------------------------------------------- the terminal


def render(summary: Summary, *, title: str = "", used: str = "", style: Style | None = None) -> str:
    """Return the monitor as lines of text."""
    style = style or Style()
    blocks = [head(headline(summary), title, used, style)]
    blocks.append(
        [line for sentence, tone in toned_verdict(summary) for line in lead(_wrapped(sentence, style), tone, style)]
    )
    if summary["slices"]:
        blocks.append([style.bold(slices_heading(summary)), *terminal.columns_of(slices(summary), style)])
    of_groups = groups(summary)
    if of_groups is not None:
        blocks.append([style.bold(groups_heading(summary)), *terminal.columns_of(of_groups, style)])
    blocks.append([style.faint(line) for line in paragraphs(remarks(summary), style)])
    return style.plain("\n\n".join("\n".join(block) for block in blocks))


def _wrapped(sentence: str, style: Style) -> list[str]:
    """Return a sentence as lines: no line ends within an option, a label or "E = 1.8"."""
    joined = sentence.replace("-", _HYPHEN).replace("E = ", "E\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")
    return [line.replace(_HYPHEN, "-") for line in wrapped(joined, style, first="  ", later="    ")]


def remarks(summary: Summary) -> list[str]:
    """Return the remarks below the numbers."""
    terms, notes = _TERMS[summary["notion"]], []
    if summary["slices"]:
        notes += [
            "E: evidence against calibration after each slice; p = 1 / (largest E), valid at any time",
            f"difference: {terms.predicted} - {terms.observed} of the slice; {percent(summary['level'])} CI: of the "
            "mean so far, valid at all slices together (confidence sequence)",
        ]
    if summary["groups"]:
        notes += [
            "E is the mean of the evidence of all rows and of the mean evidence of the groups",
            f"adjusted E: the largest so far, after closed testing; a group is flagged from {bound_text(summary)} on",
        ]
    notes.append(
        "the guarantee assumes that actions on the scores do not change the outcomes, and that no patient or user is "
        "in several slices"
    )
    return notes


# ---------------------------------------------------------------- pictures


@dataclass(frozen=True)
class _Powers(drawing.Axis):
    """Decimal logarithms, with the powers of ten as texts."""

    def ticks(self) -> list[tuple[float, str]]:
        """Return about six powers of ten at most, each with its coordinate and text."""
        first, last = math.ceil(self.low), math.floor(self.high)
        step = next(m * 10**k for k in range(9) for m in (1, 2, 5) if (last - first) / (m * 10**k) <= 6)
        powers = [k for k in range(first, last + 1) if k % step == 0]
        return [(self.at(k), _power(k)) for k in powers]


@dataclass(frozen=True)
class _Names(drawing.NamedAxis):
    """Slices by their numbers from 0, with so many names as fit, counted from the last one."""

    def ticks(self) -> list[tuple[float, str]]:
        """Return names at equal steps, each with its coordinate."""
        names = [drawing.fit(name, _NAME_WIDTH) for name in self.names]
        apart = (self.end - self.start) / (self.high - self.low)
        step = math.ceil((max(map(_width, names)) + _SPACE) / apart)
        return [(self.at(i), names[i]) for i in range(len(names) - 1, -1, -step)][::-1]


def _width(name: str) -> float:
    """Return the estimated width of a name that was cut to the largest width."""
    return min(7.0 * len(name), _NAME_WIDTH) if name.isascii() else _NAME_WIDTH


def _power(k: int) -> str:
    return f"{10.0**k:,g}" if abs(k) <= _PLAIN else f"10{str(k).translate(_SUPERSCRIPT)}"


def pictures(summary: Summary) -> list[drawing.Picture]:
    """Return the evidence and the mean difference over the slices; none for fewer than two slices."""
    if len(summary["slices"]) < 2:
        return []
    return [_evidence_picture(summary), _difference_picture(summary)]


def _upright(summary: Summary) -> tuple[float | None, str]:
    """Return where the drift began, and what a caption says about its line."""
    drift = summary["drift"]
    if drift is None or not _of_all_rows(summary):
        return None, ""
    return float(drift["first"]), " The vertical line is the most likely start of the drift."


def _over_slices(summary: Summary, values: Mapping[str, Sequence[float]], **look: Any) -> dict[str, Any]:
    """Return a chart of lines over the slices, with space for the name of the last one."""
    names = [part["label"] for part in summary["slices"]]
    last = len(names) - 1
    share = max(_width(drawing.fit(names[-1], _NAME_WIDTH)) / 2 - _OUTSIDE, 6.0) / _FRAME
    low, high = look["ends"]
    ends = (-0.02 * last, last + share / (1 - share) * 1.02 * last)
    chart = drawing.lines(values=values, **{"places": range(len(names)), **look, "ends": (ends, (low, high))})
    x = chart["x"]
    return {**chart, "x": _Names(x.low, x.high, x.start, x.end, tuple(names))}


def _evidence_picture(summary: Summary) -> drawing.Picture:
    parts, bound = summary["slices"], bound_text(summary)
    powers = [part["log_evidence"] / math.log(10) for part in parts]
    alarm = -math.log10(summary["alpha"])
    low, high = min(*powers, 0.0), max(*powers, alarm)
    margin = 0.06 * (high - low)
    upright, line = _upright(summary)
    excluded = " The line leaves out impossible outcomes." * any(summary["impossible"].values())
    chart = _over_slices(
        summary,
        {"other": [alarm] * len(parts), "curve": powers},
        ends=(low - margin, high + margin),
        axes=("", "evidence E (logarithmic)"),
        described=lambda i: f"{short(parts[i]['label'])}: E = {evidence_text(parts[i]['log_evidence'], summary)}",
        upright=upright,
    )
    y = chart["y"]
    return drawing.Picture(
        name="evidence",
        heading="Evidence against calibration",
        chart={**chart, "y": _Powers(y.low, y.high, y.start, y.end), "zero": None},
        caption=f"The line is the evidence E after each slice. An alarm is raised from {bound} on.{excluded}{line}",
        table=slices(summary),
        keys=[("curve", "evidence E"), ("other", f"alarm at {bound}")],
    )


def _difference_picture(summary: Summary) -> drawing.Picture:
    """Return the mean difference of each slice, of many slices that of some together, and the mean so far."""
    parts, level, terms = summary["slices"], percent(summary["level"]), _TERMS[summary["notion"]]
    size = -(-len(parts) // _POINTS)
    blocks = [parts[i : i + size] for i in range(0, len(parts), size)]
    differences = [sum(part["n"] * part["difference"] for part in block) / _total(block) for block in blocks]
    ends = [min((i + 1) * size, len(parts)) - 1 for i in range(len(blocks))]
    every = _means(summary)
    means = [every[i] for i in ends]
    lows, highs = ([parts[i][key] for i in ends] for key in ("low", "high"))
    # The band is wide at the first slices: the axis follows the rest of it.
    later = len(blocks) // 4
    low, high = min(*differences, *means, *lows[later:], 0.0), max(*differences, *means, *highs[later:], 0.0)
    margin = 0.05 * (high - low) or 0.01
    upright, line = _upright(summary)

    def described(i: int) -> str:
        names = [short(block["label"]) for block in blocks[i]]
        name = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
        band = f"{signed(means[i])}, {level} CI {tables.ends_text(lows[i], highs[i], signed)}"
        return f"{name}: difference {signed(differences[i])}, {_rows(_total(blocks[i]))}; mean so far {band}"

    of_each = "each slice" if size == 1 else f"{size} slices at a time"
    return drawing.Picture(
        name="difference",
        heading="Mean difference",
        chart=_over_slices(
            summary,
            {"other": means, "curve": differences},
            places=ends,
            ends=(low - margin, high + margin),
            axes=("", "predicted - observed"),
            described=described,
            band=(lows, highs),
            upright=upright,
        ),
        caption=f"The line is the {terms.predicted} minus the {terms.observed} of {of_each}. The dashed line is the "
        f"mean over all slices so far, and the band is its {level} CI, valid at all slices together. The ideal value "
        f"is 0.{line}",
        table=slices(summary),
        keys=[("curve", f"difference of {of_each}"), ("other", "mean so far")],
    )


def _total(parts: Sequence[Facts]) -> float:
    return float(sum(part["n"] for part in parts))


# ---------------------------------------------------------------- Prometheus


def prometheus(summary: Summary, model: str = "") -> str:
    """Return the numbers as metrics in the text format of Prometheus, without times; ``model`` becomes a label."""
    tens = math.log(10)
    metrics: list[tuple[str, str, list[tuple[Mapping[str, str], Any]]]] = [
        (
            "evidence",
            "Largest evidence E against calibration so far.",
            [({}, math.inf if summary["evidence"] is None else summary["evidence"])],
        ),
        (
            "log10_evidence",
            "Decimal logarithm of the evidence.",
            [({}, math.inf if summary["log_evidence"] is None else summary["log_evidence"] / tens)],
        ),
        ("p_value", "The p-value of calibration, valid at any time.", [({}, summary["p_value"])]),
        ("alarm", "1 if the model is no longer calibrated, else 0.", [({}, summary["alarm"])]),
        ("slices", "Number of slices.", [({}, len(summary["slices"]))]),
        ("rows", "Number of rows, or their weight.", [({}, summary["n"])]),
        (
            "mean_difference",
            "Mean predicted probability minus observed frequency over all slices.",
            [({}, summary["mean_difference"])],
        ),
    ]
    of_groups = [({"group": group["name"]}, group) for group in summary["groups"]]
    metrics += [
        (
            "group_log10_evidence",
            "Decimal logarithm of the largest evidence of a group after closed testing.",
            [(labels, _logarithm(group)) for labels, group in of_groups],
        ),
        (
            "group_called_out",
            "1 if the group is no longer calibrated, after closed testing, else 0.",
            [(labels, group["called_out"]) for labels, group in of_groups],
        ),
    ]
    of_promises = [
        ({"threshold": f"{promise['value']:.17g}", "side": promise["side"]}, promise) for promise in summary["promises"]
    ]
    metrics += [
        (
            "promise_log10_evidence",
            "Decimal logarithm of the largest evidence against the promise of a threshold.",
            [(labels, _logarithm(promise)) for labels, promise in of_promises],
        ),
        (
            "promise_broken",
            "1 if the promise of a threshold is no longer kept, else 0.",
            [(labels, promise["broken"]) for labels, promise in of_promises],
        ),
        (
            "promise_risk",
            "Observed error rate of the automatic decisions.",
            [(labels, promise["risk"]) for labels, promise in of_promises],
        ),
    ]
    own = {"model": model} if model else {}
    return "".join(
        _metric(f"calibrant_monitor_{name}", text, [({**own, **labels}, value) for labels, value in samples])
        for name, text, samples in metrics
        if samples
    )


def _logarithm(part: Facts) -> float | None:
    if part.get("impossible"):
        return math.inf
    return None if part["log_evidence"] is None else part["log_evidence"] / math.log(10)


def _metric(name: str, text: str, samples: Sequence[tuple[Mapping[str, str], Any]]) -> str:
    lines = [f"# HELP {name} {text}", f"# TYPE {name} gauge"]
    for labels, value in samples:
        inside = ",".join(f'{key}="{_escaped(label)}"' for key, label in labels.items())
        lines.append(f"{name}{f'{{{inside}}}' if inside else ''} {_sample(value)}")
    return "".join(f"{line}\n" for line in lines)


def _escaped(label: str) -> str:
    r"""Return the value of a label: backslashes, quotes, ends of lines and surrogates are escaped."""
    text = label.encode("utf-8", "backslashreplace").decode()
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _sample(value: float | None) -> str:
    """Return a number; a missing one is not a number."""
    if value is None or math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(int(value)) if float(value).is_integer() and abs(value) < 2**53 else repr(float(value))
