"""The correction for another event rate as a document: the shares, what is assumed, the check, and the map."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from calibrant.recalibration.map_document import classes_map, map_figure, scores_map
from calibrant.render.blocks import Block, Column, Document, Heading, Method, Notes, Sentence, Source, Table
from calibrant.render.figure import Axis, Bars, Figure, Intervals, Mark, Name, Points, Tips
from calibrant.render.words import (
    chance,
    ends_column,
    ends_text,
    facts_of,
    named,
    number,
    percent,
    rows_text,
    share_text,
    short,
    signed,
)

if TYPE_CHECKING:
    from calibrant.recalibration.prior_result import PriorCheck, PriorShift

_SHARES: Final = "Shares of the classes"
_MIXTURE: Final = "Scores and fitted mixture"

_NAMED: Final = 5  # classes in a sentence
_HALF: Final = 0.31  # of the height of a bar, in rows
_MARGIN: Final = 1.04  # of the axis
_ERRORS: Final = 3  # standard errors of a mean that a sentence calls different


def document_of(fix: PriorShift, source: Source, *, full: bool) -> Document:
    """Return the document; a full one has the pictures and the map."""
    what = f"{fix.n_classes} classes" if fix.n_classes else "one event"
    count = f"known {_name_of_shares(fix)}" if fix.estimate is None else f"{rows_text(fix.estimate.n)} without outcomes"
    rejected = bool(fix.objection)
    conclusion = "The scores contradict the assumption" if rejected else "Assumed, not proven"
    return Document(
        title="Correction for another event rate",
        headline=f"{count} ({what})",
        conclusion=Sentence(conclusion, "bad" if rejected else ""),
        verdict=list(_verdict(fix)),
        blocks=list(_blocks(fix, full=full)),
        facts=facts_of(
            source,
            ("event rate of training" if fix.n_classes is None else "shares of training", _shares(fix, trained=True)),
            n=0 if fix.estimate is None else fix.estimate.n,
            notion=fix.notion,
            n_classes=fix.n_classes,
            level=None if fix.estimate is None else fix.estimate.level,
        ),
        measured="result",
        methods=_methods(fix),
    )


def _methods(fix: PriorShift) -> list[Method]:
    """Return how the map, the shares and the check were computed."""
    methods = [
        Method("map", "what scores become for other shares", "Bayes' theorem: odds times the ratio of the prior odds")
    ]
    if fix.estimate is not None:
        what = _name_of_shares(fix)
        how = "maximum likelihood of the mixture of the scores; interval by the likelihood ratio"
        methods.append(Method(what, f"the {what} of the new population", how))
    if fix.check is not None:
        how = "the mean of the density ratio where an estimate is 0"
        if fix.check.kind == "reference":
            how = "chi-square of the shares in cells of the scores, of new and of weighted reference scores"
        methods.append(Method("check", "whether the scores contradict the assumption", how))
    return methods


def figure_of(fix: PriorShift) -> Figure:
    """Return the picture of the map of one event, or of the shares of the classes."""
    level = "" if fix.estimate is None else percent(fix.estimate.level)
    return _shares_figure(fix) if fix.curve is None else map_figure(fix.curve, level)


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
    cases = "cases with the event, and those without it," if fix.n_classes is None else "the cases of each class"
    yield Sentence(
        f"Assumed, not proven: only the {_name_of_shares(fix)} changed, so that {cases} have the same scores as in "
        "training, and the scores were calibrated there."
    )
    if fix.check is not None:
        yield from _check(fix.check)
        yield from _means(fix, fix.check)
    elif fix.unchecked:
        yield Sentence(f"The assumption is not checked, because {fix.unchecked}.")
    yield Sentence(" ".join(_map(fix)))
    if fix.estimate is not None:
        clusters = fix.estimate.clusters
        of = "independent rows" if clusters is None else f"independent clusters, of which there are {clusters:,}"
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


def _check(check: PriorCheck) -> Iterator[Sentence]:
    p = chance(check.p_value)
    if check.kind == "end":
        if check.rejects:
            yield Sentence(f"The scores contradict the assumption: no share explains them (p {p}).", "bad")
        else:
            yield Sentence(f"An estimate at the end of its range does not contradict the assumption (p {p}).")
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
        of = "" if fix.n_classes is None else f" of {short(name)}"
        what = "event rate" if fix.n_classes is None else "share"
        text = f"Caution: the mean of the reference scores{of} is {share_text(mean)}, and the {what} of training "
        yield Sentence(f"{text}{share_text(share)}.", "caution")


def _map(fix: PriorShift) -> Iterator[str]:
    """Yield the map, and what it does to the order, to 0 and to 1."""
    if fix.unchanged:
        yield "Map: the unchanged scores."
        return
    if fix.n_classes is not None:
        yield "Map: a constant for each log-probability. The predicted class of a row can change."
        return
    intercept = fix.map.parameters["intercept"]
    yield f"Map: a shift of the log-odds, log-odds {'+' if intercept > 0 else '-'} {abs(intercept):.3g}."
    yield "The order of the scores, and so the AUROC, does not change."
    yield "Scores of exactly 0 or 1 stay 0 or 1 to rounding, because no event rate changes infinite log-odds."


# ---------------------------------------------------------------- the numbers


def _blocks(fix: PriorShift, *, full: bool) -> Iterator[Block]:
    level = "" if fix.estimate is None else percent(fix.estimate.level)
    if fix.n_classes is not None:
        if full:
            yield from (Heading(_SHARES, "shares"), _shares_figure(fix))
        yield _shares_table(fix)
    elif fix.curve is not None and fix.estimate is None and not full:
        yield scores_map(fix.curve, level)[-1]
    if fix.check is not None and fix.check.cells:
        if full:
            yield Heading(_MIXTURE, "check")
            yield _check_figure(fix.check)
        yield _check_table(fix.check)
        yield Notes(["expected: the share of the reference scores in each cell, weighted for the estimated shares"])
    if not full:
        return
    if fix.curve is not None:
        yield from scores_map(fix.curve, level)
    else:
        yield from classes_map(fix.map, fix.class_names)


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


def _check_figure(check: PriorCheck) -> Figure:
    """Return bars of the observed shares, and points of those of the fitted mixture."""
    rows = range(len(check.cells))
    sides = [row - _HALF for row in rows], [row + _HALF for row in rows]
    tips = [
        f"scores {cell}: observed {observed:.4f}, expected {expected:.4f}"
        for cell, observed, expected in zip(check.cells, check.observed, check.expected, strict=True)
    ]
    marks: list[Mark] = [
        Bars([0.0] * len(rows), check.observed, *sides, "noise", "Observed share"),
        Points(check.expected, list(rows), "dot", "Fitted mixture"),
        Tips(check.expected, list(rows), tips, "the arrow keys move between the cells"),
    ]
    top = _MARGIN * max(*check.observed, *check.expected)
    caption = "Each bar is the share of the new scores in a cell; the point is the share that the assumption implies."
    return Figure(_MIXTURE, Axis("Share of the scores", 0.0, top), _rows("Scores", check.cells), marks, caption=caption)


def _shares_figure(fix: PriorShift) -> Figure:
    """Return the shares of the classes before and after, with the intervals of estimated ones."""
    rows = list(range(len(fix.prior)))
    found = fix.estimate
    new = fix.prior if found is None else found.value
    marks: list[Mark] = [Points(fix.trained_prior, rows, "hollow", "In training"), Points(new, rows, "dot", "New")]
    top = max(*fix.trained_prior, *new)
    if found is not None:
        marks.insert(1, Intervals(rows, found.low, found.high, False, "dot", f"{percent(found.level)} CI"))
        top = max(top, *found.high)
    triples = zip(fix.class_names, fix.trained_prior, new, strict=True)
    tips = [f"{name}: {before:.4f} in training, {after:.4f} new" for name, before, after in triples]
    marks.append(Tips(new, rows, tips, "the arrow keys move between the classes"))
    return Figure(_SHARES, Axis("Share", 0.0, _MARGIN * top), _rows("", fix.class_names), marks)


def _rows(label: str, names: Sequence[str]) -> Axis:
    """Return an axis of rows, the first one above."""
    return Axis(label, len(names) - 0.4, -0.6, names={i: Name((name,)) for i, name in enumerate(names)})
