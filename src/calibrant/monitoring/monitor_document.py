"""A monitor as a document: whether there is an alarm, what has drifted, and the history of the evidence."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

from calibrant.monitoring.history import GroupSeen, History, PromiseSeen, SliceSeen
from calibrant.monitoring.slices import Drift
from calibrant.render.blocks import (
    Block,
    Column,
    Document,
    Figures,
    Heading,
    Method,
    Notes,
    Sentence,
    Source,
    Table,
)
from calibrant.render.figure import Axis, Band, Figure, Mark, Polyline, Rule, power_text
from calibrant.render.line_figures import evidence_cut, evidence_figure, slices_axis, tips_along
from calibrant.render.words import (
    amount,
    capital,
    ends_text,
    evaluated_event,
    facts_of,
    gathered,
    impossible_kinds,
    named,
    percent,
    percentages,
    rows_or_weight,
    share_text,
    short,
    signed,
    terms_of,
    texts,
)

#: What the numbers of a page are, in words.
METHODS: Final = (
    Method(
        "evidence E",
        (
            "A number that grows while the outcomes contradict the scores. If the model stays calibrated, the "
            "probability that E ever reaches 1 / a is at most a."
        ),
        (
            "e-process: a mixture over three kinds of drift (a shift of all log-odds, a change of their slope, a "
            "shift in one of five ranges of the scores) and over the slices in which the drift may start"
        ),
    ),
    Method(
        "onset",
        "The most likely first slice of the drift, with a 90 % credible interval.",
        (
            "the probability of each first slice is proportional to the evidence from this slice on (equal prior "
            "probabilities)"
        ),
    ),
    Method(
        "mean so far",
        "The mean of score minus outcome over all slices up to and including this slice.",
        "CI: confidence sequence from a mixture of bets on the residuals, valid for all slices at once",
    ),
)

_LISTED: Final = 12  # slices that a table shows, the last ones; its file has all
_GROUPS: Final = 20  # groups that a table shows
_NAMED: Final = 10  # names in a sentence
_MOST: Final = 300 * math.log(10)  # the largest logarithm of E that is written as a number
_MANY: Final = 1e6  # from here on E is written as a power of ten
_PLACES: Final = 9
_POINTS: Final = 60  # of a line of differences; of more slices some are together


_QUESTION_NOTES: Final = (
    (
        "the score of a yes-no question (predicate) is the probability of yes; for any other question, the score "
        "is the probability of the likeliest option, and the event is that this option is right"
    ),
    "all answers about one input are treated as one cluster, because they may depend on each other",
)
_RESERVE: Final = (
    "in the mean E of the questions, a part of the weights is reserved for questions that may appear later; to use "
    "all weights, name all questions with --groups"
)


def document_of(history: History, source: Source, *, full: bool) -> Document:
    """Return the document of a monitor; a full one has pictures."""
    level, alarm, one = percent(history.level), bound_text(history.alpha), len(history.promises) == 1
    named_sides = not one and not any(each.group or each.question or each.composite_of for each in history.promises)
    risks = list(dict.fromkeys(f'"{each.side}" ' * named_sides + percent(each.max_risk) for each in history.promises))
    blocks: list[Block] = []
    if full and len(history.slices) > 1:
        blocks.append(Figures([_evidence_figure(history), _difference_figure(history)]))
    if history.slices:
        many, terms = len(history.slices), terms_of(history.notion)
        heading = f"The last {_LISTED} of {many:,} slices" if many > _LISTED else "Slices"
        notes = [
            "E: evidence against calibration after each slice; p = 1 / (largest E so far), valid at any time",
            f"difference: {terms.predicted} - {terms.observed} of the slice",
            (
                f"mean so far: the mean difference of all {_row_word(history)}s up to this slice; its {level} CI is "
                "valid for all slices at once (confidence sequence)"
            ),
        ]
        blocks += [Heading(heading, "slices"), _slices_table(history), Notes(notes)]
    if history.groups:
        many, what = len(history.groups), _group_word(history)
        heading = (
            f"The {_GROUPS} of {many:,} {what}s with the largest adjusted E" if many > _GROUPS else f"{capital(what)}s"
        )
        notes = [
            (
                "the E of the monitor (evidence against calibration) is the average of the E of all "
                f"{_row_word(history)}s together and the mean E of the {what}s"
            ),
            f"adjusted E: the largest E so far, after closed testing; a {what} is flagged if it reaches {alarm}",
            *(_QUESTION_NOTES if history.questions else ()),
            *([_RESERVE] if history.questions == "open" else ()),
        ]
        blocks += [Heading(heading, f"{what}s"), _groups_table(history, marks=full), Notes(notes)]
    assumed = (
        "the guarantee assumes that decisions based on the scores do not change the outcomes, and that no "
        "patient or user is in several slices"
    )
    event = evaluated_event(history.notion, history.n_classes, source)
    if history.questions:
        event = f"{len(history.groups):,} question{'s' * (len(history.groups) != 1)}"
    return Document(
        title="Calibration monitor",
        headline=_slices(history) + (f", {_rows(history.n, history)} ({event})" if history.slices else ""),
        conclusion=_conclusion(history),
        verdict=_verdict(history, source),
        blocks=[*blocks, Notes([assumed])],
        facts=facts_of(
            source,
            ("tolerance", _tolerance_text(history)),
            ("largest error rate", ", ".join(risks)),
            ("alarm", f"at E = {alarm}"),
            n=history.n,
            notion=history.notion,
            n_classes=history.n_classes,
            level=history.level,
        ),
        measured="number",
        methods=METHODS,
    )


# ---------------------------------------------------------------- numbers


def bound_text(alpha: float) -> str:
    """Return the evidence at which there is an alarm."""
    bound = 1 / alpha
    return f"{bound:,.0f}" if bound >= 100 or abs(bound - round(bound)) < 1e-9 else f"{bound:.3g}"


def evidence_text(log_evidence: float, alpha: float) -> str:
    """Return E from its logarithm; rounding never lifts it to the alarm."""
    if log_evidence > _MOST:
        return "more than 1e300"
    evidence = math.exp(log_evidence)
    if evidence >= _MANY:
        digits, _, power = f"{evidence:.1e}".partition("e")
        return f"{digits}e{int(power)}"
    places = 0 if evidence >= 100 else 1 if evidence >= 1 else 1 - math.floor(math.log10(evidence))
    is_below = log_evidence < -math.log(alpha)
    while is_below and places < _PLACES and round(evidence, places) >= 1 / alpha:
        places += 1
    return f"{evidence:,.{places}f}"


def _in_table(log_evidence: float, alpha: float) -> str:
    """Return E in few characters; a dash if it is missing."""
    if math.isnan(log_evidence):
        return "–"
    return "infinite" if math.isinf(log_evidence) else evidence_text(log_evidence, alpha).replace("more than", ">")


def _bounded(p_value: float) -> str:
    """Return a bound on a p-value with its sign, to three decimal places and never below it."""
    return "< 0.001" if p_value < 0.001 else f"≤ {math.ceil(p_value * 1000 - 1e-9) / 1000:g}"


def _group_word(history: History) -> str:
    return "question" if history.questions else "group"


def _row_word(history: History) -> str:
    return "answer" if history.questions else "row"


def _rows(n: float, history: History) -> str:
    if history.questions:
        return f"{amount(n)} answer{'s' * (n != 1)}"
    return rows_or_weight(n, "rows" if float(n).is_integer() else "weight")


def _slices(history: History) -> str:
    many = len(history.slices)
    return f"{many:,} slice{'s' * (many != 1)}"


def _tolerance_text(history: History) -> str:
    """Return the tolerance; empty without."""
    if history.tolerance is not None:
        return f"{100 * history.tolerance:g} percentage points"
    return "" if history.tolerance_odds is None else f"a factor of {history.tolerance_odds:g} of the odds"


def _within(history: History) -> str:
    return " within the tolerance" * bool(_tolerance_text(history))


# ---------------------------------------------------------------- the verdict


def _conclusion(history: History) -> Sentence:
    if history.alarm:
        return Sentence(f"Alarm: {_not_calibrated(history)}", "bad")
    if history.promise_broken:
        return Sentence("Alarm: a threshold does not keep its promised error rate", "bad")
    return Sentence(f"No alarm after {_slices(history)}" if history.slices else "No slices yet")


def _verdict(history: History, source: Source) -> list[Sentence]:
    """Return what was found: the evidence, the drift, groups, promises, what to do."""
    sentences = [*_repeated(history), *_impossible(history), *_evidence(history)]
    if _tolerance_text(history):
        true = "true probabilities" if history.tolerance is not None else "true odds"
        within = f"within {_tolerance_text(history)} of the score"
        sentences.append(Sentence(f"Tolerance: {true} {within} are treated as calibrated."))
    sentences += [*_drift(history), *_groups(history), *_promises(history)]
    if not history.alarm:
        chance = f"with a probability of at most {percent(history.alpha)} over its whole life"
        about = " about its calibration" * bool(history.promises)
        sentences.append(Sentence(f"A model that stays calibrated{_within(history)} raises an alarm{about} {chance}."))
    elif history.questions:
        sentences.append(
            Sentence("Next: calibrant recalibrate LOG --map maps.json, where LOG contains the rows since the drift")
        )
    elif history.drift_of_rows is not None:
        write = (
            "Pass --since-onset window.cal to write the rows since the start of the drift (since_onset() in Python)."
        )
        sentences += [Sentence(write)] * (not source.window)
        # The scores may be those of a map in map.json, which is still in use.
        window = shlex.quote(source.window or "window.cal")
        sentences.append(Sentence(f"Next: calibrant recalibrate {window} --map new_map.json"))
    # Alarms come first: without one for the model, those of promises.
    return sentences if history.alarm else sorted(sentences, key=lambda sentence: sentence.tone != "bad")


def _not_calibrated(history: History) -> str:
    """Return that the model is not calibrated: "no longer", unless the first slice is the most likely start."""
    drift = history.drift_of_rows
    word = "not" if history.drift is None or (drift is not None and drift.first == 0) else "no longer"
    return f"the model is {word} calibrated{_within(history)}"


def _repeated(history: History) -> Iterator[Sentence]:
    """Yield a caution for each set of slices with identical rows."""
    equal = gathered((part.equal_to, part.label) for part in history.slices if part.equal_to is not None)
    for first, others in equal.items():
        names = named([short(label) for label in (first, *others)], _NAMED)
        yield Sentence(f"Caution: the slices {names} contain identical rows.", "caution")
        remedy = "start a new state and add each row once"
        yield Sentence(f"If rows were added twice, the evidence is not valid, so {remedy}.", "caution")


def _impossible(history: History) -> Iterator[Sentence]:
    """Yield how many outcomes the scores exclude, and what follows if the scores are exact and if they are rounded."""
    if not history.impossible:
        return
    count = sum(history.impossible)
    are = "1 outcome is" if count == 1 else f"{amount(count)} outcomes are"
    kinds = impossible_kinds(*history.impossible, terms_of(history.notion))
    yield Sentence(
        f"Alarm: {are} impossible according to the scores: {kinds}. A calibrated model never has such outcomes, so "
        "p = 0.",
        "bad",
    )
    evidence = evidence_text(history.log_evidence_of_drifts, history.alpha)
    yield Sentence(
        f"If the scores were only rounded to 0 and 1, use the evidence of a drift instead: E = {evidence}, "
        f"alarm at {bound_text(history.alpha)}. In that case, start a new state with the largest rounding "
        "error as --tolerance, such as 0.005 for two decimal places."
    )


def _evidence(history: History) -> Iterator[Sentence]:
    """Yield the evidence; nothing if impossible outcomes alone have raised the alarm."""
    if not history.slices:
        yield Sentence("No slices have been added yet.")
        return
    evidence, bound = evidence_text(history.log_evidence_of_drifts, history.alpha), bound_text(history.alpha)
    after = f"{_slices(history)} ({_rows(history.n, history)})"
    if history.drift is not None:
        yield Sentence(f"Alarm: {_not_calibrated(history)} (p {_bounded(history.p_value)}).", "bad")
        reached = f"has reached E = {evidence} in {after}. The alarm is at {bound}."
        yield Sentence(f"The evidence against calibration {reached}")
    elif not history.alarm:
        p_value = "1" if history.p_value == 1 else texts([history.p_value], 2, [history.alpha])[0]
        numbers = f"E = {evidence} (p = {p_value}); an alarm needs E = {bound}"
        overall = " overall" * history.promise_broken
        yield Sentence(f"No{overall} alarm after {after}: evidence against calibration {numbers}.")


def _drift(history: History) -> Iterator[Sentence]:
    """Yield the onset, the size and the kind of a drift; without an alarm the mean difference over all slices."""
    drift = history.drift_of_rows
    if drift is not None:
        size = _size(drift.difference, drift.low, drift.high, history)
        yield Sentence(f"{_since(drift)}, {size}.", "bad")
        if not history.questions:  # each question has a repair of its own
            yield Sentence(_repair(drift))
    elif history.drift is not None:
        of_groups = f"The evidence against calibration comes from individual {_group_word(history)}s."
        yield Sentence(f"{of_groups} All {_row_word(history)}s together would not raise an alarm.")
    elif history.slices:
        last, terms = history.slices[-1], terms_of(history.notion)
        if last.informative:
            size = _size(history.mean_difference, last.low, last.high, history, ", valid at any time")
        else:
            value = _difference(history.mean_difference)
            few = "There are not yet enough rows for a useful CI"
            size = f"{terms.predicted} minus {terms.observed} is {value}. {few}"
        yield Sentence(f"Over all slices, {size}.")


def _since(drift: Drift) -> str:
    since, earliest, latest = map(short, (drift.since, drift.earliest, drift.latest))
    if drift.earliest == drift.latest:
        return f"Since {since} (90 % credible interval: this slice alone)"
    return f"Since about {since} (90 % credible interval {earliest} to {latest})"


def _repair(drift: Drift) -> str:
    """Return the kind of a drift, and the recalibration that suffices."""
    if drift.family == "level":
        return (
            "The log-odds of all scores are wrong by the same amount, so recalibration by a constant suffices (about "
            f"{drift.offset:+z.2f} in log-odds)."
        )
    if drift.family == "slope":
        extreme, slope = "extreme" if drift.slope < 1 else "moderate", texts([drift.slope], 2, [1.0])[0]
        drifted = f"The calibration slope has drifted: predictions are too {extreme}"
        return f"{drifted}. Recalibration by a slope suffices (about {slope})."
    if drift.family == "range":
        return "The scores in one range are miscalibrated, so fit a new recalibration map."
    return "There are several kinds of errors, so fit a new recalibration map."


def _difference(share: float) -> str:
    return f"{percentages(share, sign='+', marks=[0.0])[0]} percentage points"


def _size(difference: float, low: float, high: float, history: History, note: str = "") -> str:
    """Return the direction and the size of a mean difference, with its interval."""
    terms, level = terms_of(history.notion), percent(history.level)
    if low <= 0 <= high:
        value, *ends = percentages(difference, low, high, sign="+", marks=[0.0])
        finding = (
            f"there is no clear {terms.either}: {terms.predicted} minus {terms.observed} {value} percentage points"
        )
    else:
        value, *ends = percentages(abs(difference), *sorted((abs(low), abs(high))), marks=[0.0])
        does, where = (terms.over, "high") if low > 0 else (terms.under, "low")
        verb = "is " * (history.notion == "top-label")
        finding = f"the model {verb}{does}: {terms.predicted} {value} percentage points too {where}"
    return f"{finding} ({level} CI {ends[0]} to {ends[1]}{note})"


def _groups(history: History) -> Iterator[Sentence]:
    what = _group_word(history)
    flagged, many = history.called_out, f"{len(history.groups):,} {what}{'s' * (len(history.groups) != 1)}"
    if flagged:
        names = [f"{short(part.name)} ({_difference(part.difference)})" for part in flagged]
        show = f"show{'s' * (len(flagged) == 1)} evidence of miscalibration after closed testing"
        yield Sentence(f"{len(flagged):,} of {many} {show}: {named(names, _NAMED)}.", "bad")
    elif history.groups:
        yield Sentence(f"No {what} shows evidence of miscalibration after closed testing ({many}).")
    later = gathered((part.since, short(part.name)) for part in history.groups if part.since)
    for since, names in later.items():
        questions = f"{what}s" if len(names) > 1 else what
        first = f"The {questions} {named(names, _NAMED)} first appeared in slice {short(since)}"
        rows = f"earlier slices contain no evaluated {_row_word(history)}s to {'them' if len(names) > 1 else 'it'}"
        yield Sentence(f"{first}; {rows}.")


def _promises(history: History) -> Iterator[Sentence]:
    """Yield whether each promise of a threshold is kept, and how often kept promises raise an alarm."""
    yield from (_promise(part, history) for part in history.promises)
    if history.promises and not history.promise_broken:
        promise = "If the promised error rate is" if len(history.promises) == 1 else "If all promised error rates are"
        chance = f"with a probability of at most {percent(min(1.0, history.promises_alpha))}"
        yield Sentence(f"{promise} never exceeded, calibrant raises an alarm about this {chance}.")


def _promise(part: PromiseSeen, history: History) -> Sentence:
    """Return whether the promise of a threshold is kept so far."""
    value = f"{part.value:.4g}" if 0.001 <= part.value <= 0.999 else f"{part.value:.8g}"
    subject = (part.group, part.question, part.composite_of)
    both = sum((each.group, each.question, each.composite_of) == subject for each in history.promises) > 1
    side = f' of "{part.side}"' if both or part.side == "no" else ""
    subjects = [short(name) for name in part.composite_of or [part.question] if name]
    side += f" for {named(subjects, _NAMED)}{' together' * bool(part.composite_of)}" * bool(subjects)
    side += f" in group {short(part.group)}" * bool(part.group)
    promise = f"the promised error rate of the threshold {value}{side}"
    if math.isnan(part.risk):
        return Sentence(f"Nothing is known yet about {promise}, because no decision was automatic.")
    are = "is" if part.n_errors == 1 else "are"
    wrong = f"{amount(part.n_errors)} of {amount(part.n_automatic)} automatic decisions {are} wrong"
    wrong += f" ({share_text(part.risk)}, bound {percent(part.max_risk)})"
    is_above = part.risk > part.max_risk
    if part.broken:
        p_value = _bounded(min(1.0, math.exp(-part.log_evidence)))
        later = "" if is_above else "; the error rate of later slices is above the bound"
        return Sentence(f"Alarm: {promise} is exceeded (p {p_value}): {wrong}{later}.", "bad")
    if is_above:
        numbers = f"E = {evidence_text(part.log_evidence, history.alpha)}, alarm at {bound_text(history.alpha)}"
        return Sentence(f"No alarm for {promise}: {wrong}. The excess over the bound may be chance ({numbers}).")
    return Sentence(f"{capital(promise)} is kept so far: {wrong}.")


# ---------------------------------------------------------------- the tables


def _slices_table(history: History) -> Table:
    """Return the slices: the last ones to read, and all in the file."""
    parts, means = history.slices, _means(history)
    impossible = accumulate(part.impossible for part in parts)
    evidence = [math.inf if count else part.log_evidence for part, count in zip(parts, impossible, strict=True)]
    ends = [ends_text(part.low, part.high, signed) if part.informative else "not yet" for part in parts]
    columns = [
        Column.of("slice", "slice", [part.label for part in parts], short),
        *_counts_and_differences(parts, history),
        Column(
            "E",
            [_in_table(log_evidence, history.alpha) for log_evidence in evidence],
            {"log_evidence": [part.log_evidence for part in parts]},
        ),
        Column.of("mean so far", "mean_difference", means, signed, spare=1),
        Column(
            f"{percent(history.level)} CI",
            ends,
            {"low": [part.low for part in parts], "high": [part.high for part in parts]},
            spare=1,  # as the mean
        ),
    ]
    return Table("slices", columns, listed=range(max(len(parts) - _LISTED, 0), len(parts)))


def _groups_table(history: History, *, marks: bool) -> Table:
    """Return the groups; of many those with the most evidence, and all in the file."""
    parts = history.groups
    flagged = [part.called_out for part in parts]
    columns = [
        Column.of(_group_word(history), _group_word(history), [part.name for part in parts], short),
        *_question_columns(history),
        *_counts_and_differences(parts, history),
        Column(
            "adjusted E",
            [_in_table(part.log_e, history.alpha) for part in parts],
            {"log_evidence": [part.log_evidence for part in parts]},
        ),
        Column("flagged", ["yes" * called for called in flagged], {"flagged": flagged}, words=True),
    ]
    places = range(len(parts))
    most = sorted(places, key=lambda i: -parts[i].log_e)[:_GROUPS] if len(parts) > _GROUPS else places
    return Table(f"{_group_word(history)}s", columns, marked=flagged if marks else (), listed=most)


def _question_columns(history: History) -> list[Column]:
    """Return the kind of each question, and of later ones the slice in which they appeared; nothing of groups."""
    if not history.questions:
        return []
    kinds = Column.of(
        "kind", "kind", [part.kind for part in history.groups], lambda kind: kind or "–", words=True, spare=1
    )
    since = [part.since for part in history.groups]
    return [kinds, Column.of("since", "since", since, short, words=True, spare=2)] if any(since) else [kinds]


def _counts_and_differences(parts: Sequence[SliceSeen] | Sequence[GroupSeen], history: History) -> list[Column]:
    heading = f"{_row_word(history)}s" if all(float(part.n).is_integer() for part in parts) else "weight"
    return [
        Column.of(heading, "n", [part.n for part in parts], amount),
        Column.of("difference", "difference", [part.difference for part in parts], signed),
    ]


def _means(history: History) -> list[float]:
    """Return the mean difference over all slices up to each slice."""
    counts = accumulate(part.n for part in history.slices)
    sums = accumulate(part.n * part.difference for part in history.slices)
    return [total / n for total, n in zip(sums, counts, strict=True)]


# ---------------------------------------------------------------- pictures


def _onset_in_words(history: History) -> str:
    return " The vertical line is the most likely start of the drift." * (history.drift_of_rows is not None)


def _evidence_figure(history: History) -> Figure:
    parts, drift = history.slices, history.drift_of_rows
    labels, log_evidence = [part.label for part in parts], [part.log_evidence for part in parts]
    excluded = " The line ignores outcomes with a predicted probability of 0." * bool(history.impossible)
    bound = bound_text(history.alpha)
    line = f"The line is the evidence E after each slice. An alarm is raised if E reaches {bound}.{excluded}"
    cut = evidence_cut(history.alpha)
    if max(log_evidence) > cut:
        line += (
            f" Evidence above {power_text(cut)} is drawn at the upper edge as a diamond, and the table contains "
            "its value."
        )
    figure = evidence_figure(
        labels,
        log_evidence,
        history.alpha,
        onset=None if drift is None else drift.first,
        tip=lambda i: f"{short(labels[i])}: E = {evidence_text(log_evidence[i], history.alpha)}",
    )
    return figure._replace(caption=line + _onset_in_words(history), name="evidence", label=figure.title)


def _together(slices: Sequence[SliceSeen]) -> tuple[float, float]:
    """Return the rows of some slices, and their mean difference."""
    n = sum(part.n for part in slices)
    return n, sum(part.n * part.difference for part in slices) / n


def _difference_figure(history: History) -> Figure:
    """Return the mean difference of each slice, of many slices that of some together, and the mean so far."""
    parts, level, terms = history.slices, percent(history.level), terms_of(history.notion)
    size = -(-len(parts) // _POINTS)
    bundles = [parts[i : i + size] for i in range(0, len(parts), size)]
    counts, differences = zip(*map(_together, bundles), strict=True)
    places = [min((i + 1) * size, len(parts)) for i in range(len(bundles))]
    every, lasts = _means(history), [bundle[-1] for bundle in bundles]
    means, lows, highs = [every[i - 1] for i in places], [part.low for part in lasts], [part.high for part in lasts]
    # The band is wide at the first slices: the axis follows the rest of it.
    later = len(bundles) // 4
    low, high = min(*differences, *means, *lows[later:], 0.0), max(*differences, *means, *highs[later:], 0.0)
    margin = 0.05 * (high - low) or 0.01

    def tip(i: int) -> str:
        first, last = short(bundles[i][0].label), short(lasts[i].label)
        name = first if len(bundles[i]) == 1 else f"{first} to {last}"
        band = f"{signed(means[i])}, {level} CI {ends_text(lows[i], highs[i], signed)}"
        return f"{name}: difference {signed(differences[i])}, {_rows(counts[i], history)}; mean so far {band}"

    of_each, drift = "each slice" if size == 1 else f"{size} slices at a time", history.drift_of_rows
    marks: list[Mark] = [
        Polyline(places, differences, "curve", f"Difference of {of_each}"),
        Polyline(places, means, "other", "Mean so far"),
        Band(places, lows, highs, "sure"),
        Rule("y", "zero", value=0.0),
        tips_along(places, differences, tip),
    ]
    if drift is not None:
        marks.append(Rule("x", "zero", value=drift.first + 1))
    caption = (
        f"The line is the {terms.predicted} minus the {terms.observed} of {of_each}. The dashed line is the mean over "
        f"all slices so far, and the band is its {level} CI, valid for all slices at once. The ideal value is 0."
        f"{_onset_in_words(history)}"
    )
    x, y = slices_axis([part.label for part in parts]), Axis("Predicted - observed", low - margin, high + margin)
    return Figure("Mean difference", x, y, marks, caption=caption, name="difference", label="Mean difference")
