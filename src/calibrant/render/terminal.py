"""A report for the terminal, from the dictionary of `Report.to_dict`, and noise floors, from the command's."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Final

from calibrant.measures.listed import BY_NAME
from calibrant.render import drawing, tables, verdict, words
from calibrant.render.methods import METHODS, shows_methods
from calibrant.render.style import (
    GLYPHS,
    Facts,
    Group,
    Style,
    Summary,
    aligned,
    head,
    lead,
    number,
    paragraphs,
    percent,
    short,
    signed,
    wrapped,
)
from calibrant.render.tables import Table, chance_text, ends_text
from calibrant.render.words import amount, called_out, value_text

__all__ = ["GLYPHS", "Style", "render"]

_CLASSES: Final = 5  # classes listed, the worst first
_NAMED: Final = 3  # untested groups that are named
_NAME: Final = 40  # characters of a name
_LEAST_NAME: Final = 8
_ADJUSTED: Final = "p adj."
_LEAST_BAR, _MOST_BAR = 10, 40


def render(
    summary: Summary, *, title: str = "", used: str = "", style: Style | None = None, complete: bool = False
) -> str:
    """Return the report as lines of text, as wide as the style; long names may exceed it.

    Of a profile it shows the key measures, or with ``complete`` all; measures that were asked for by name are shown.
    """
    style = style or Style()
    blocks = [
        head(words.headline(summary), title, used, style),
        _verdict(summary, style),
        _numbers(summary, style, complete),
    ]
    if summary["diagram"] is not None:
        blocks.append(_diagram(summary, style))
    for picture in drawing.pictures(summary):
        if picture.brief is not None:
            caption = _faint([picture.caption], style)
            blocks.append([style.bold(picture.heading), *columns_of(picture.brief, style), *caption])
    if summary["classwise"] is not None:
        blocks.append(_classes(summary, style))
    if summary["groups"]:
        blocks.append(groups_of(summary, style))
    if summary["forests"]:
        blocks.append(_forests(summary, style))
    if shows_methods(summary):
        whole = _faint(["the full paragraph: --html or --json, or report.methods in Python"], style)
        paragraph = wrapped(summary["methods_brief"], style, first="  ", later="  ")
        blocks.append([style.bold(METHODS), *paragraph, *whole])
    return style.plain("\n\n".join("\n".join(block) for block in blocks))


def _verdict(summary: Summary, style: Style) -> list[str]:
    lines = []
    for sentence, tone in verdict.toned_verdict(summary):
        lines += lead(wrapped(sentence, style, first="  ", later="    "), tone, style)
    return lines


def _faint(notes: Sequence[str], style: Style) -> list[str]:
    return [style.faint(line) for line in paragraphs(notes, style)]


# ---------------------------------------------------------------- the numbers


def _numbers(summary: Summary, style: Style, complete: bool) -> list[str]:
    """Return the table of the measures; narrow terminals lose the noise floors, the p-values, then the intervals."""
    level, shown = summary["level"], words.shown_estimates(summary, complete=complete)
    parts = list(shown.values())
    labels = [words.label_of(summary, key) for key in shown]
    width = max(map(len, labels))
    more = words.more_measures(summary, shown)
    if level is None:
        notes = [*words.remarks(summary, complete=complete), *more]
        _, *lines = aligned([(f"  {{:<{width}}}", "", labels), ("{:>10}", "", [value_text(p, number) for p in parts])])
        return [*lines, *_faint(notes, style)]
    with_ends, with_p, with_noise = (width + others <= style.width for others in (30, 39, 58))
    writes = [signed if summary["measures"][key]["signed"] else number for key in shown]
    columns = [(f"  {{:<{width}}}", "", labels), ("{:>9}", "estimate", list(map(value_text, parts, writes)))]
    above = ""
    if with_ends:
        ends = [ends_text(part["low"], part["high"], write) for part, write in zip(parts, writes, strict=True)]
        columns.append(("  {:^17}", f"{percent(level)} CI", ends))
    if with_noise:
        means, uppers = map(tables.number_texts, tables.floors(parts))
        columns += [(" {:>7}", "mean", means), ("{:>11}", f"{percent(level)} below", uppers)]
        above = f"{'':{width + 30}}{'calibrated':>17}"
    if with_p:
        columns.append(("  {:>7}", "p", [chance_text(part["p_value"], summary["n_resamples"]) for part in parts]))
    head, *lines = aligned(columns)
    notes = [*words.remarks(summary, complete=complete, noise=with_noise), *more]
    return [*([style.faint(above)] if above else []), style.faint(head), *lines, *_faint(notes, style)]


# ---------------------------------------------------------------- pictures


def _diagram(summary: Summary, style: Style) -> list[str]:
    """Return the bins as bars. Below 74 columns the differences are left out; below 57 the bars."""
    bins = summary["diagram"]
    filled = [b for b, score in enumerate(bins["confidences"]) if score is not None]
    scores, rates, counts = ([bins[key][b] for b in filled] for key in ("confidences", "accuracies", "counts"))
    width = max(9, *(len(amount(count)) for count in counts))
    bar = style.width - 38 - width
    with_gaps = bar >= 27 or (bar < _LEAST_BAR and width + 43 <= style.width)
    bar = min(bar - 7 * with_gaps, _MOST_BAR) if bar >= _LEAST_BAR else 0
    columns = [
        ("  {:^13}", "score", [f"{bins['edges'][b]:.3f} – {bins['edges'][b + 1]:.3f}" for b in filled]),
        (f" {{:>{width}}}", words.counted_in(summary), list(map(amount, counts))),
        (" {:>9}", "predicted", list(map("{:.3f}".format, scores))),
        (" {:>8}", "observed", list(map("{:.3f}".format, rates))),
    ]
    if with_gaps:
        columns.append((" {:>6}", "diff.", list(map("{:+.3f}".format, map(operator.sub, scores, rates)))))
    columns.append(("{:1}", "", ["*" * _is_outside(bins, b) for b in filled]))
    if bar:
        bars = [_bar(score, rate, bar) for score, rate in zip(scores, rates, strict=True)]
        columns.append(("  {}", f"0{' ' * (bar - 2)}1", bars))
    empty = len(bins["counts"]) - len(filled)
    notes = [*_legend(bar, with_gaps), *_diagram_notes(empty, summary["level"])]
    return [style.bold("Reliability diagram"), *aligned(columns), *_faint(notes, style)]


def _legend(bar: int, with_gaps: bool) -> list[str]:
    """Return what the marks of a diagram mean."""
    if not bar:
        return ["diff.: predicted - observed"] * with_gaps
    return ["█ observed  ┃ predicted  ░┃ overestimated (+)  ┃█ underestimated (-)"]


def _diagram_notes(empty: int, level: float | None) -> list[str]:
    """Return how many bins are empty, and what a star means."""
    notes = [f"{empty} empty bin{'s are' if empty > 1 else ' is'} not shown"] if empty else []
    if level is not None:
        notes.append(f"* outside its {percent(level)} consistency band; expect 1 in {1 / (1 - level):.3g} by chance")
    return notes


def _is_outside(bins: Facts, b: int) -> bool:
    """Return whether the observed frequency of a bin lies outside the consistency band."""
    if bins["band_lows"] is None or bins["band_lows"][b] is None:
        return False
    return not bins["band_lows"][b] <= bins["accuracies"][b] <= bins["band_highs"][b]


def _bar(mean_score: float, event_rate: float, size: int) -> str:
    """Return a bar as long as the observed frequency, with a mark at the mean score."""
    filled, mark = round(event_rate * size), min(round(mean_score * size), size - 1)
    cells = ["█" if i < filled else "░" if i < mark else " " for i in range(size)]
    cells[mark] = "┃"
    return "".join(cells).rstrip()


def columns_of(table: Table, style: Style) -> list[str]:
    """Return a table in columns, those of words on the left; the last ones that do not fit are left out."""
    cells = [table.headings, *table.rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(table.headings))]
    fits = [i for i in range(len(widths)) if sum(widths[: i + 1]) + 2 * (i + 1) <= style.width]

    def line(row: Sequence[str]) -> str:
        return "".join(f"  {row[i]:<{widths[i]}}" if i in table.texts else f"  {row[i]:>{widths[i]}}" for i in fits)

    return [style.faint(line(table.headings)), *(line(row).rstrip() for row in table.rows)]


def _forests(summary: Summary, style: Style) -> list[str]:
    """Return the measures of the profile for every group; narrow terminals lose the intervals."""
    order, measures, level = words.worst_groups(summary), list(summary["forests"]), summary["level"]
    names = [short(summary["forests"][measures[0]]["groups"][i], _name_width(style, 22 * len(measures))) for i in order]
    width = max(len("group"), *map(len, names))
    with_ends = level is not None and width + 22 * len(measures) + 2 <= style.width
    labels = [BY_NAME[name].label for name in measures]
    lines = []
    for place, i in enumerate(order):
        cells = [drawing.forest_cells(summary["forests"][name], i, with_ends) for name in measures]
        texts = [f"{cell[0]} ({cell[1]})" if with_ends and cell[1] else cell[0] for cell in cells]
        lines.append([names[place], *texts])
    title = "Measures by group" + (f", with {percent(level)} CI" if with_ends else "")
    table = Table("groups", {}, ["group", *labels], lines)
    notes = [
        f"{label}: {drawing.heterogeneity(summary['forests'][name], level)}"
        for name, label in zip(measures, labels, strict=True)
    ]
    return [style.bold(title), *columns_of(table, style), *_faint(notes, style)]


def _classes(summary: Summary, style: Style) -> list[str]:
    """Return the table of the worst classes."""
    classes, adjusted, marked = summary["classwise"], summary["classwise"]["adjusted_p_values"], called_out(summary)
    evaluated = [k for k, error in enumerate(classes["errors"]) if error is not None]
    worst = sorted(evaluated, key=lambda k: -classes["errors"][k])[:_CLASSES]
    names = [short(classes["names"][k], _name_width(style, 33)) for k in worst]
    word, plural = ("label", "labels") if summary["notion"] == "multilabel" else ("class", "classes")
    columns = [
        (f"  {{:<{max(map(len, [word, *names]))}}}", word, names),
        ("  {:>10}", words.counted_in(summary), [amount(classes["supports"][k]) for k in worst]),
        ("  {:>7}", "ECE", [f"{classes['errors'][k]:.4f}" for k in worst]),
    ]
    if adjusted:
        columns.append((" {:>7}", _ADJUSTED, [chance_text(adjusted[k]) for k in worst]))
        columns.append(("{}", "", [" *" * marked[k] for k in worst]))
    notes = _faint([words.correction(adjusted, marked, word, plural, "* ")], style) if adjusted else []
    of_all = f", the {len(worst)} largest of {len(evaluated):,}" if len(worst) < len(evaluated) else ""
    return [style.bold(f"ECE by {word}{of_all}"), *aligned(columns), *notes]


def _name_width(style: Style, others: int) -> int:
    """Return the characters of a name in front of columns that take the others."""
    return min(max(style.width - others, _LEAST_NAME), _NAME)


def groups_of(summary: Summary, style: Style) -> list[str]:
    """Return the table of the groups: as many columns as fit, the noise floor left out first, then the interval."""
    every, inferred = summary["groups"], summary["level"] is not None
    order = words.worst_groups(summary)
    groups = [every[i] for i in order]
    wanted = min(max(len("group"), *(len(short(group["name"])) for group in groups)), _NAME)
    with_interval, with_noise = (inferred and wanted + others <= style.width for others in (56, 67))
    others = 29 + 10 * inferred + 17 * with_interval + 11 * with_noise
    names = [short(group["name"], min(wanted, _name_width(style, others))) for group in groups]
    _, counts, _, eces, *intervals_and_noise = zip(*tables.groups(summary).of_rows(order).rows, strict=True)
    columns = [
        (f"  {{:<{max(map(len, ['group', *names]))}}}", "group", names),
        ("  {:>9}", "rows", counts),
        (" {:>7}", "diff.", [f"{group['mean_gap']['value']:+.3f}" for group in groups]),
        (" {:>7}", "ECE", eces),
    ]
    if with_interval:
        columns.append(("  {:^15}", f"{percent(summary['level'])} CI", intervals_and_noise[0]))
    if with_noise:
        columns.append((" {:>10}", f"{percent(summary['level'])} below", intervals_and_noise[1]))
    if inferred:
        columns.append((" {:>7}", _ADJUSTED, [chance_text(group["adjusted_p_value"]) or "–" for group in groups]))
    columns.append(("{}", "", [" *" * group["called_out"] for group in groups]))
    left = len(every) - len(groups)
    title = f"The {len(groups)} of {len(every):,} groups with the most evidence" if left else "Groups"
    notes = [*_group_notes(summary, every), *words.multicalibration(summary)]
    if left:
        notes.append(f"to see the other {left:,} groups, use --json, --html, or report.groups in Python")
    return [style.bold(title), *aligned(columns), *_faint(notes, style)]


def _group_notes(summary: Summary, groups: Sequence[Group]) -> list[str]:
    """Return what the tests of groups are, how many reject, and which groups have none."""
    if summary["level"] is None:
        return []
    marked = [group["called_out"] for group in groups]
    notes = [f"{_ADJUSTED}: {words.parts_of(groups)}"] if words.parts_of(groups) else []
    notes.append(words.correction([group["adjusted_p_value"] for group in groups], marked, "group", "groups", "* "))
    for flag in dict.fromkeys(group["flag"] for group in groups if group["flag"]):
        names = [short(group["name"]) for group in groups if group["flag"] == flag]
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        notes.append(f"– {', '.join(names[:_NAMED])}{more}: {flag}")
    return notes


# ---------------------------------------------------------------- a noise floor


def render_floor(summary: Summary, *, style: Style | None = None) -> str:
    """Return the noise floors for each distribution of scores as lines of text, and the sample size of a tolerance."""
    style = style or Style()
    distributions, level = summary["laws"], percent(summary["level"])
    notes = [f"{name}: scores {scores['description']}" for name, scores in distributions.items()]
    bins, proof = f"{summary['n_bins']} bins", []
    if summary["prove"] is not None:
        proof = [
            f"About this many rows are needed to show that the ECE of a perfectly calibrated model is below "
            f"{summary['prove']:g}: {_rows_by_distribution(summary, 'rows_to_prove')}.",
            f"With that many rows, the upper {level} confidence bound is below {summary['prove']:g} in 80 % of "
            "samples.",
        ]
    if summary["n"] is None:
        blocks = [paragraphs(proof, style), _faint([*notes, bins], style)]
    else:
        rows = _rows_by_distribution(summary, "rows_for_ece_of_0.01")
        title = f"Noise floors at n = {summary['n']:,}: errors of a perfectly calibrated model"
        blocks = [
            [style.bold(title)],
            _floors(summary, style),
            _faint([*notes, f"{bins}; {level} below: the value that {level} of samples stay below"], style),
            paragraphs(
                [f"The mean ECE of a perfectly calibrated model is 0.01 at about this many rows: {rows}."], style
            ),
            *([paragraphs(proof, style)] if proof else []),
        ]
    return style.plain("\n\n".join("\n".join(block) for block in blocks))


def _floors(summary: Summary, style: Style) -> list[str]:
    """Return the table of the floors."""
    distributions, labels = summary["laws"], summary["measures"]
    width = max(map(len, labels.values())) + 1
    columns = [(f"  {{:<{width}}}", "", list(labels.values()))]
    for scores in distributions.values():
        floors = [scores["floors"].get(measure) for measure in labels]
        below = f"{percent(summary['level'])} below"
        for form, heading, end in (("{:>7}", "mean", "mean"), (" {:>10}", below, "upper")):
            columns.append((form, heading, ["–" if floor is None else number(floor[end]) for floor in floors]))
    head, *lines = aligned(columns)
    names = "".join(f"{name:^18}" for name in distributions)
    return [f"  {'':<{width}}{names}".rstrip(), style.faint(head), *lines]


def _rows_by_distribution(summary: Summary, key: str) -> str:
    return ", ".join(f"{scores[key]:,} ({name})" for name, scores in summary["laws"].items())
