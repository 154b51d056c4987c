"""A report for the terminal, from the dictionary that `Report.to_dict` returns."""

from __future__ import annotations

from calibrant.render.style import GLYPHS, Style, Summary, head, number, paragraphs, percent, short, signed
from calibrant.render.words import (
    called_out,
    chance,
    correction,
    headline,
    label_of,
    parts_of,
    remarks,
    shown_estimates,
    value_text,
    verdict,
)

__all__ = ["GLYPHS", "Style", "render", "verdict"]

_CLASSES = 5  # classes listed, the worst first
_ADJUSTED = "p adj."


def render(summary: Summary, *, title: str = "", used: str = "", style: Style | None = None) -> str:
    """Return the report as lines of text, as wide as the style; long names may exceed it."""
    style = style or Style()
    blocks = [_head(summary, title, used, style), paragraphs(verdict(summary), style), _numbers(summary, style)]
    if summary["diagram"] is not None:
        blocks.append(_diagram(summary, style))
    if summary["classwise"] is not None:
        blocks.append(_classes(summary, style))
    if summary["groups"]:
        blocks.append(_groups(summary, style))
    return style.plain("\n\n".join("\n".join(block) for block in blocks))


def _head(summary: Summary, title: str, used: str, style: Style) -> list[str]:
    return head(headline(summary), title, used, style)


# ---------------------------------------------------------------- the numbers


def _numbers(summary: Summary, style: Style) -> list[str]:
    level, shown = summary["level"], shown_estimates(summary)
    notes = [style.faint(line) for line in paragraphs(remarks(summary), style)]
    labels = {key: label_of(summary, key) for key in shown}
    width = max(len(label) for label in labels.values())
    if level is None:
        return [f"  {labels[key]:<{width}}{value_text(part, number):>10}" for key, part in shown.items()] + notes
    head = f"  {'':<{width}}{'value':>9}  {percent(level) + ' interval':^17}  {'noise':>7}{'up to':>8}  {'p':>7}"
    lines = [style.faint(head.rstrip())]
    for key, part in shown.items():
        write = signed if summary["measures"][key]["signed"] else number
        ends = "" if part["low"] is None else f"{write(part['low'])} – {write(part['high'])}"
        floor = part["floor"]
        noise = "" if floor is None else f"{number(floor['mean']):>7}{number(floor['upper']):>8}"
        p_value = "" if part["p_value"] is None else chance(part["p_value"], summary["n_resamples"]).removeprefix("= ")
        line = f"  {labels[key]:<{width}}{value_text(part, write):>9}  {ends:^17}  {noise:<15}  {p_value:>7}"
        lines.append(line.rstrip())
    return lines + notes


# ---------------------------------------------------------------- pictures


def _diagram(summary: Summary, style: Style) -> list[str]:
    diagram = summary["diagram"]
    outcome_word = "right" if summary["notion"] == "top-label" else "happened"
    scale = "0" + " " * (style.bar - 2) + "1"
    lines = [
        style.bold("Reliability diagram"),
        f"  {'score':^13} {'rows':>9} {'claimed':>7} {outcome_word:>8} {'gap':>6}   {scale}",
    ]
    edges, empty = diagram["edges"], 0
    columns = zip(diagram["counts"], diagram["confidences"], diagram["accuracies"], strict=True)
    for b, (count, mean_score, event_rate) in enumerate(columns):
        if mean_score is None:
            empty += 1
            continue
        ends = f"{edges[b]:.3f} – {edges[b + 1]:.3f}"
        numbers = (
            f"{count:>9,.0f} {mean_score:>7.3f} {event_rate:>8.3f} {mean_score - event_rate:>+6.3f}{_mark(diagram, b)}"
        )
        lines.append(f"  {ends:^13} {numbers}  {_bar(mean_score, event_rate, style.bar)}")
    notes = [f"█ {outcome_word}  ┃ claimed  ░ claimed too much"]
    if empty:
        notes.append(f"({empty} empty bin{'s' * (empty > 1)} left out)")
    if summary["level"] is not None:
        notes.append(f"* outside the band of calibrated scores ({percent(summary['level'])} of samples)")
    return lines + [style.faint(line) for line in paragraphs(notes, style)]


def _mark(diagram: Summary, b: int) -> str:
    """Return a mark if the event rate of a bin lies outside the consistency band."""
    if diagram["band_lows"] is None or diagram["band_lows"][b] is None:
        return " "
    return " " if diagram["band_lows"][b] <= diagram["accuracies"][b] <= diagram["band_highs"][b] else "*"


def _bar(mean_score: float, event_rate: float, size: int) -> str:
    """Return a bar as long as the event rate, with a mark at the mean score."""
    filled, mark = round(event_rate * size), min(round(mean_score * size), size - 1)
    cells = ["█" if i < filled else "░" if i < mark else " " for i in range(size)]
    cells[mark] = "┃"
    return "".join(cells).rstrip()


def _classes(summary: Summary, style: Style) -> list[str]:
    classes = summary["classwise"]
    judged = [k for k, error in enumerate(classes["errors"]) if error is not None]
    worst = sorted(judged, key=lambda k: -classes["errors"][k])[:_CLASSES]
    width = max(len("class"), *(len(short(classes["names"][k])) for k in worst))
    plural = "labels" if summary["notion"] == "multilabel" else "classes"
    adjusted, marked = classes["adjusted_p_values"], called_out(summary)
    columns = f"  {'class':<{width}}  {'rows':>10}  {'ECE':>7}" + (f" {_ADJUSTED:>7}" if adjusted else "")
    lines = [style.bold(f"The worst of {len(judged):,} {plural}"), columns]
    for k in worst:
        line = (
            f"  {short(classes['names'][k]):<{width}}  {classes['supports'][k]:>10,.0f}  {classes['errors'][k]:>7.4f}"
        )
        if adjusted:
            line += f" {_p_value(adjusted[k]):>7}" + " *" * marked[k]
        lines.append(line.rstrip())
    if adjusted:
        word = "label" if summary["notion"] == "multilabel" else "class"
        lines.append(style.faint(f"  {correction(adjusted, marked, word, plural, '* ')}"))
    return lines


def _groups(summary: Summary, style: Style) -> list[str]:
    groups = summary["groups"]
    width = min(max(len("group"), *(len(short(group["name"])) for group in groups)), 40)
    inferred = summary["level"] is not None
    columns = f"  {'group':<{width}}  {'rows':>9} {'gap':>7} {'ECE':>7}"
    if inferred:
        columns += f"  {percent(summary['level']) + ' interval':^15} {'up to':>7} {_ADJUSTED:>7}"
    lines = [style.bold("Groups"), columns]
    for group in groups:
        ece, gap = group["ece"], group["mean_gap"]["value"]
        line = f"  {short(group['name']):<{width}}  {group['report']['n']:>9,} {gap:>+7.3f} {number(ece['value']):>7}"
        if inferred:
            ends = "" if ece["low"] is None else f"{number(ece['low'])} – {number(ece['high'])}"
            noise = "" if ece["floor"] is None else number(ece["floor"]["upper"])
            line += f"  {ends:^15} {noise:>7} {_p_value(group['adjusted_p_value']):>7}"
        lines.append(line + (" *" if group["called_out"] else f"  {group['flag']}" if group["flag"] else ""))
    if inferred:
        marked = [group["called_out"] for group in groups]
        note = correction([group["adjusted_p_value"] for group in groups], marked, "group", "groups", "* ")
        if parts_of(groups):
            lines.append(style.faint(f"  {_ADJUSTED}: {parts_of(groups)}"))
        lines.append(style.faint(f"  {note}"))
    return lines


def _p_value(adjusted: float | None) -> str:
    return "" if adjusted is None else chance(adjusted).removeprefix("= ")
