"""The correction for another event rate as a document: the shares, what is assumed, the check, and the map."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

from calibrant.recalibration.map_document import scores_map
from calibrant.render.blocks import Block, Column, Document, Heading, Method, Notes, Sentence, Source, Table
from calibrant.render.figure import Axis, Figure, Intervals, Mark, Name, Points, Tips
from calibrant.render.words import (
    amount,
    capital,
    chance,
    ends_column,
    ends_text,
    named,
    number,
    percent,
    rows_text,
    share_text,
    short,
    signed,
    version,
)

if TYPE_CHECKING:
    from calibrant.recalibration.prior_result import PriorCheck, PriorEstimate, PriorShift

_SHARES: Final = "Shares of the classes"
_MIXTURE: Final = "Scores and fitted mixture"

_NAMED: Final = 5  # classes in a sentence
_MARGIN: Final = 1.04  # of the axis
_ERRORS: Final = 3  # standard errors of a mean that a sentence calls different


def document_of(fix: PriorShift, source: Source, *, full: bool) -> Document:
    """Return the document; a full one has the pictures and the map."""
    what = f"{fix.n_classes} classes" if fix.n_classes else "one event"
    count = f"known {_name_of_shares(fix)}" if fix.estimate is None else f"{rows_text(fix.estimate.n)} without outcomes"
    if fix.check is not None and fix.check.rejects:
        conclusion = "The scores contradict the assumption"
    else:
        conclusion = capital(fix.objection or "assumed, not proven")
    return Document(
        title="Correction for another event rate",
        headline=f"{count} ({what})",
        conclusion=Sentence(conclusion, "bad" if fix.objection else ""),
        verdict=list(_verdict(fix)),
        blocks=list(_blocks(fix, full=full)),
        facts=[
            ("predictions", "" if fix.estimate is None else amount(fix.estimate.n)),
            ("classes", str(fix.n_classes or "")),
            ("confidence level", "" if fix.estimate is None else percent(fix.estimate.level)),
            (f"{_name_of_shares(fix)} in training", _shares(fix, trained=True)),
            *source.facts(),
            ("made by", f"calibrant {version()}"),
        ],
        measured="result",
        methods=list(_methods(fix)),
    )


def _methods(fix: PriorShift) -> Iterator[Method]:
    """Yield how the map, the shares and the check were computed."""
    what = _name_of_shares(fix)
    how = "Bayes' theorem: odds times the ratio of the prior odds"
    yield Method("map", f"the correction of the scores for the new {what}", how)
    if fix.estimate is not None:
        how = "maximum likelihood of the mixture of the scores; interval by the likelihood ratio"
        yield Method(what, f"the {what} of the new population", how)
    if fix.check is not None:
        by_kind = {
            "reference": (
                "chi-square test of two differences: between the new scores and the weighted reference scores in each "
                f"score range, and between the mean of the reference scores and the {what} in training"
            ),
            "end": (
                "for each class or outcome with an estimated share of 0, a test whether the mean of this ratio is "
                "below 1: density of the class or outcome / density of the fitted mixture"
            ),
        }
        yield Method("check", "whether the scores contradict the assumption", by_kind[fix.check.kind])


def figure_of(fix: PriorShift) -> Figure:
    """Return the picture of the map of one event, or of the shares of the classes."""
    return _shares_figure(fix) if fix.curve is None else cast("Figure", scores_map(fix.curve, _level(fix))[1])


def _level(fix: PriorShift) -> float:
    return math.nan if fix.estimate is None else fix.estimate.level


def _name_of_shares(fix: PriorShift) -> str:
    return "event rate" if fix.n_classes is None else "shares of the classes"


def _shares(fix: PriorShift, *, trained: bool = False) -> str:
    """Return the shares in words: the event rate, or those of some classes."""
    shares = fix.trained_prior if trained else fix.prior
    if fix.n_classes is None:
        return share_text(shares[0])
    pairs = zip(fix.class_names, shares, strict=True)
    return named([f"{short(name)} {share_text(share)}" for name, share in pairs], _NAMED)


# ---------------------------------------------------------------- the verdict


def _verdict(fix: PriorShift) -> Iterator[Sentence]:
    """Yield the cautions, the shares, the assumption and its check, and the map."""
    if fix.flag:
        yield Sentence(f"Caution: {fix.flag}.", "caution")
    yield Sentence(_change(fix))
    cases = "cases with the event, and for those without it," if fix.n_classes is None else "the cases of each class"
    yield Sentence(
        f"Assumed, not proven: the scores were calibrated in training, and since then only the {_name_of_shares(fix)} "
        f"changed. Then the distribution of the scores for {cases} is as in training."
    )
    if fix.check is not None:
        yield from _check(fix, fix.check)
        yield from _means(fix, fix.check)
    elif fix.unchecked:
        yield Sentence(f"The assumption is not checked, because {fix.unchecked}.")
    yield Sentence(" ".join(_map(fix)))
    if fix.estimate is not None:
        clusters = fix.estimate.clusters
        of = "independent rows" if clusters is None else f"independent clusters ({clusters:,})"
        yield Sentence(f"Confidence intervals and p-values assume {of}.")


def _change(fix: PriorShift) -> str:
    """Return the shares before and after."""
    before, after = _shares(fix, trained=True), _shares(fix)
    what = _name_of_shares(fix)
    if fix.estimate is None:
        same = f"The {what} of training and of the new population {'is' if fix.n_classes is None else 'are'} the same"
        return f"{same}, {before}." if fix.unchanged else f"Known {what}: {after}; in training {before}."
    found, level = fix.estimate, percent(fix.estimate.level)
    if fix.n_classes is None:
        value, ends = share_text(found.value[0]), ends_text(found.low[0], found.high[0], share_text)
        return f"Estimated event rate: {value} ({level} CI {ends}); in training {before}."
    return f"Estimated {what}: {after}; in training {before}."


def _check(fix: PriorShift, check: PriorCheck) -> Iterator[Sentence]:
    p, event = chance(check.p_value), fix.n_classes is None
    if check.kind == "end":
        if check.rejects:
            found = "no event rate explains" if event else "no shares of the classes explain"
            yield Sentence(f"The scores contradict the assumption: {found} their distribution (p {p}).", "bad")
        else:
            rate = share_text(cast("PriorEstimate", fix.estimate).value[0])
            estimate = f"estimated event rate is {rate}" if event else "estimated share of a class is 0 %"
            end = "the limit of the possible values. This does not contradict the assumption"
            yield Sentence(f"The {estimate}, {end} (p {p}).")
        return
    test = f"chi-square {check.statistic:.3g}, {check.df} degrees of freedom, p {p}"
    if check.rejects:
        text = "The scores contradict the assumption: their distribution differs from the mixture that the reference "
        yield Sentence(f"{text}scores imply ({test}).", "bad")
    else:
        yield Sentence(f"The scores do not contradict the assumption ({test}).")


def _means(fix: PriorShift, check: PriorCheck) -> Iterator[Sentence]:
    """Yield the mean of reference scores that is farthest from the share in training, if by more than chance.

    Then the scores are not calibrated in the reference sample, or it is from another population.
    """
    rows = zip(fix.class_names, check.reference_mean, check.reference_error, fix.trained_prior, strict=False)
    far = [(abs(mean - share) / error, name, mean, share) for name, mean, error, share in rows if error > 0]
    distance, name, mean, share = max(far, default=(0.0, "", 0.0, 0.0))
    if distance > _ERRORS:
        of = "" if fix.n_classes is None else f" for class {short(name)}"
        what = "event rate" if fix.n_classes is None else "share of this class"
        text = f"Caution: the mean of the reference scores{of} is {share_text(mean)}, but the {what} in training is "
        yield Sentence(f"{text}{share_text(share)}.", "caution")


def _map(fix: PriorShift) -> Iterator[str]:
    """Yield the map, and what it does to the order, to 0 and to 1."""
    if fix.unchanged:
        yield "Map: the unchanged scores."
        return
    if fix.n_classes is not None:
        yield "Map: a constant is added to the log-probability of each class. The predicted class of a row can change."
        return
    intercept = fix.map.parameters["intercept"]
    yield f"Map: new log-odds = old log-odds {'+' if intercept > 0 else '-'} {abs(intercept):.3g}."
    yield "The order of the scores, and so the AUROC, does not change."
    yield "Scores of exactly 0 or 1 stay 0 or 1 (up to rounding), because no event rate changes infinite log-odds."


# ---------------------------------------------------------------- the numbers


def _blocks(fix: PriorShift, *, full: bool) -> Iterator[Block]:
    if fix.n_classes is not None:
        if full:
            yield from (Heading(_SHARES, "shares"), _shares_figure(fix))
        yield _shares_table(fix)
    elif fix.curve is not None and fix.estimate is None and not full:
        yield scores_map(fix.curve, _level(fix))[-1]
    if fix.check is not None and fix.check.cells:
        what = _name_of_shares(fix)
        if full:
            yield Heading(_MIXTURE, "check")
            yield _check_figure(fix.check, what)
        yield _check_table(fix.check)
        weighted = f"after they are weighted to match the estimated {what}"
        yield Notes([f"expected: the proportion of the reference scores in each range, {weighted}"])
    if full:
        yield from scores_map(fix.curve, _level(fix))


def _shares_table(fix: PriorShift) -> Table:
    """Return the share of each class in training and in the new population."""
    columns = [
        Column.of("class", "class", fix.class_names, short),
        Column.of("in training", "trained_prior", fix.trained_prior, number),
        Column.of("new", "prior", fix.prior if fix.estimate is None else fix.estimate.value, number),
    ]
    if fix.estimate is not None:
        ends = {"low": list(fix.estimate.low), "high": list(fix.estimate.high)}
        columns.append(ends_column(f"{percent(fix.estimate.level)} CI", ends))
    columns.append(Column.of("constant", "constant", fix.map.parameters["constants"], signed))
    return Table("shares", columns, _SHARES)


def _check_table(check: PriorCheck) -> Table:
    columns = [
        Column("scores", list(check.cells), {"cell": list(check.cells)}),
        Column.of("observed", "observed", check.observed, number),
        Column.of("expected", "expected", check.expected, number),
        Column.of("difference", "difference", _differences(check), signed),
    ]
    return Table("check", columns, _MIXTURE)


def _differences(check: PriorCheck) -> list[float]:
    return [observed - expected for observed, expected in zip(check.observed, check.expected, strict=True)]


def _check_figure(check: PriorCheck, what: str) -> Figure:
    """Return the observed shares of the cells, and those of the fitted mixture."""
    caption = (
        "Each row of the figure is a range of scores. Observed: the share of the new scores in this range. Fitted "
        f"mixture: the expected share, if only the {what} changed since training."
    )
    series = {"Observed": check.observed, "Fitted mixture": check.expected}
    return _figure(_MIXTURE, "Scores", check.cells, series, caption=caption)


def _shares_figure(fix: PriorShift) -> Figure:
    """Return the shares of the classes before and after, with the intervals of estimated ones."""
    found = fix.estimate
    series = {"In training": fix.trained_prior, "New": fix.prior if found is None else found.value}
    if found is None:
        return _figure(_SHARES, "", fix.class_names, series)
    rows = list(range(len(fix.prior)))
    intervals = Intervals(rows, found.low, found.high, False, "dot", f"{percent(found.level)} CI")
    return _figure(_SHARES, "", fix.class_names, series, intervals, top=max(found.high))


def _figure(
    title: str,
    label: str,
    names: Sequence[str],
    series: Mapping[str, Sequence[float]],
    *others: Mark,
    top: float = 0.0,
    caption: str = "",
) -> Figure:
    """Return two shares in each row, the first row above."""
    rows, (first, second) = list(range(len(names))), series
    tips = [
        f"{name}: {first.lower()} {x:.4f}, {second.lower()} {y:.4f}"
        for name, x, y in zip(names, series[first], series[second], strict=True)
    ]
    marks = [
        Points(series[first], rows, "hollow", first),
        *others,
        Points(series[second], rows, "dot", second),
        Tips(series[second], rows, tips, "the arrow keys move between the rows"),
    ]
    y = Axis(label, len(names) - 0.4, -0.6, names={i: Name((name,)) for i, name in enumerate(names)})
    x = Axis("Share", 0.0, _MARGIN * max(top, *series[first], *series[second]))
    return Figure(title, x, y, marks, caption=caption)
