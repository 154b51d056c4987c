"""A report for the terminal, from the dictionary that `Report.to_dict` returns."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Summary = Mapping[str, Any]

_BEFORE_BAR = 52  # characters of a line of the diagram before its bar
_CLASSES = 5  # classes listed, the worst first

_EVENTS = {
    "positive": "the event 1",
    "top-label": "whether the predicted class is right",
    "classwise": "every class by itself",
    "multilabel": "every label by itself",
}


@dataclass(frozen=True, slots=True)
class Style:
    """What the terminal can show: colours, more than ASCII, how many characters in a line."""

    colour: bool = False
    unicode: bool = True
    width: int = 80

    @property
    def bar(self) -> int:
        """Characters of a bar from 0 to 1."""
        return min(max(self.width - _BEFORE_BAR, 20), 40)

    def bold(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self.colour else text

    def faint(self, text: str) -> str:
        return f"\x1b[2m{text}\x1b[0m" if self.colour else text

    def plain(self, text: str) -> str:
        """Return the text in characters that the terminal has."""
        return text if self.unicode else text.translate(_ASCII)


#: What a terminal must be able to show for `Style.unicode`.
GLYPHS = "█░┃·–…"

_ASCII = str.maketrans({"█": "#", "░": "-", "┃": "|", "·": "-", "–": "-", "…": "..."})


def render(summary: Summary, *, title: str = "", used: str = "", style: Style | None = None) -> str:
    """Return the report as lines of text, as wide as the style says but for long names."""
    style = style or Style()
    blocks = [_head(summary, title, used, style), _words(summary, style), _numbers(summary, style)]
    if summary["diagram"] is not None:
        blocks.append(_diagram(summary, style))
    if summary["classwise"] is not None:
        blocks.append(_classes(summary, style))
    return style.plain("\n\n".join("\n".join(block) for block in blocks))


def _head(summary: Summary, title: str, used: str, style: Style) -> list[str]:
    classes = summary["n_classes"]
    of = f" of {classes:,} {'labels' if summary['notion'] == 'multilabel' else 'classes'}" if classes else ""
    line = f"{summary['n']:,} predictions{of} · judged: {_EVENTS[summary['notion']]}"
    if not title:
        return [style.bold(line)]
    return [style.bold(title), line, *([style.faint(used)] if used else [])]


# ---------------------------------------------------------------- in words


def verdict(summary: Summary) -> list[str]:
    """Say in sentences whether the scores are too high or too extreme, and what recalibration could gain."""
    sentences = []
    if summary["diagram"] is not None:
        sentences.append(_lean(summary))
        if summary["notion"] == "positive":
            sentences.append(_extremeness(summary["diagram"]))
    sentences.append(_gain(summary))
    return sentences


def _words(summary: Summary, style: Style) -> list[str]:
    lines = []
    for sentence in verdict(summary):
        lines += textwrap.wrap(sentence, style.width - 2, initial_indent="  ", subsequent_indent="    ")
    return lines


def _lean(summary: Summary) -> str:
    said, happened = summary["estimates"]["mean_confidence"]["value"], summary["outcome_rate"]
    points = 100 * (said - happened)
    size = f"{abs(points):.1f} points"
    if summary["notion"] == "top-label":
        facts = f"it claims {100 * said:.1f} % and is right in {100 * happened:.1f} %"
        if abs(points) < 0.05:
            return f"Neither over- nor under-confident on average: {facts}."
        return f"{'Over' if points > 0 else 'Under'}-confident by {size} on average: {facts}."
    facts = f"it claims {100 * said:.1f} %, the event happened in {100 * happened:.1f} %"
    if abs(points) < 0.05:
        return f"Neither too high nor too low on average: {facts}."
    return f"Too {'high' if points > 0 else 'low'} by {size} on average: {facts}."


def _extremeness(diagram: Mapping[str, Any]) -> str:
    """For one event, over-confidence is scores farther from 1/2 than the outcomes are."""
    lean = sum(
        math.copysign(share, said - 0.5) * (said - happened)
        for share, said, happened in zip(
            diagram["proportions"], diagram["confidences"], diagram["accuracies"], strict=True
        )
        if said is not None and said != 0.5
    )
    if abs(lean) < 0.0005:
        return "Neither over- nor under-confident: the scores are about as far from 50 % as the outcomes."
    word, way = ("Over", "farther from") if lean > 0 else ("Under", "nearer to")
    return f"{word}-confident by {100 * abs(lean):.1f} points: the scores are {way} 50 % than the outcomes."


def _gain(summary: Summary) -> str:
    parts = summary["estimates"]
    gain = parts["miscalibration"]["value"]
    issued = gain - parts["discrimination"]["value"] + parts["uncertainty"]["value"]
    of = "the Brier score of the judged event" if summary["diagram"] is not None else "the classes' mean Brier score"
    if gain < 5e-7:
        return f"A monotone recalibration could not lower {of} of {issued:.4f}."
    share = f"{100 * gain / issued:.0f}" if gain >= 0.005 * issued else "less than 1"
    return f"A monotone recalibration could lower {of} from {issued:.4f} by at most {gain:.4f}, {share} % of it."


# ---------------------------------------------------------------- the numbers


def _numbers(summary: Summary, style: Style) -> list[str]:
    parts = summary["estimates"]
    bins = summary["n_bins"]
    top = "right answers" if summary["notion"] == "top-label" else "right at the threshold 0.5"
    if summary["n_classes"]:
        top = "right at the threshold 0.5" if summary["notion"] == "multilabel" else "right answers"
    multiclass = summary["n_classes"] and summary["notion"] != "multilabel"
    mean = "mean score of the judged event"
    rows = [
        ("accuracy", "accuracy", top),
        ("mean confidence", "mean_confidence", mean),
        ("Brier score", "brier", f"0 is best, {2 if multiclass else 1} worst"),
        ("log loss", "nll", _loss_note(parts["nll"])),
        ("ECE", "ece", f"{bins} bins of equal width"),
        ("RMSCE", "rmsce", _rmsce_note(parts["rmsce"])),
        ("MCE", "mce", _mce_note(parts["mce"])),
        ("adaptive ECE", "ace", f"{bins} bins of equal mass"),
        ("classwise ECE", "classwise_ece", _classwise_note(parts["classwise_ece"])),
        ("smooth ECE", "smece", "no bins, exact" if summary["diagram"] is not None else "no bins, mean over classes"),
        ("miscalibration", "miscalibration", "CORP: what recalibration could gain"),
        ("discrimination", "discrimination", "CORP: what telling cases apart gains"),
        ("uncertainty", "uncertainty", "CORP: the score of the base rate"),
    ]
    return [
        f"  {label:<17}{_number(parts[key]['value']):>8}   {style.faint(note)}".rstrip()
        for label, key, note in rows
        if parts[key]["value"] is not None or key == "nll"
    ]


def _number(value: float | None) -> str:
    return "inf" if value is None else f"{value:.4f}"


def _loss_note(estimate: Mapping[str, Any]) -> str:
    rows = estimate["details"].get("infinite_rows")
    return "nats" if rows is None else f"{rows:,} outcomes happened that had probability 0"


def _rmsce_note(estimate: Mapping[str, Any]) -> str:
    debiased = estimate["details"].get("debiased")
    return "" if debiased is None else f"{debiased:.4f} with the noise of the bins taken out"


def _mce_note(estimate: Mapping[str, Any]) -> str:
    place = estimate["details"]
    if "count" not in place:
        return "the worst bin of all classes"
    count = place["count"]
    return f"bin {place['low']:.3f} – {place['high']:.3f}, {count:,} row{'' if count == 1 else 's'}"


def _classwise_note(estimate: Mapping[str, Any]) -> str:
    place = estimate["details"]
    return f"worst: class {place['worst_class']} with {place['worst']:.4f}" if "worst" in place else ""


# ---------------------------------------------------------------- pictures


def _diagram(summary: Summary, style: Style) -> list[str]:
    diagram = summary["diagram"]
    happened = "right" if summary["notion"] == "top-label" else "happened"
    scale = "0" + " " * (style.bar - 2) + "1"
    lines = [
        style.bold("Reliability diagram"),
        f"  {'score':^13} {'rows':>9} {'claimed':>7} {happened:>8} {'gap':>6}  {scale}",
    ]
    edges, empty = diagram["edges"], 0
    columns = zip(diagram["counts"], diagram["confidences"], diagram["accuracies"], strict=True)
    for b, (count, said, hit) in enumerate(columns):
        if said is None:
            empty += 1
            continue
        ends = f"{edges[b]:.3f} – {edges[b + 1]:.3f}"
        lines.append(
            f"  {ends:^13} {count:>9,.0f} {said:>7.3f} {hit:>8.3f} {said - hit:>+6.3f}  {_bar(said, hit, style.bar)}"
        )
    note = f"  █ {happened}  ┃ claimed  ░ claimed too much"
    lines.append(style.faint(note + (f"  ({empty} empty bin{'s' * (empty > 1)} left out)" if empty else "")))
    return lines


def _bar(said: float, hit: float, size: int) -> str:
    """Draw a bar as long as the outcome rate, with a mark where the mean score is."""
    filled, mark = round(hit * size), min(round(said * size), size - 1)
    cells = ["█" if i < filled else "░" if i < mark else " " for i in range(size)]
    cells[mark] = "┃"
    return "".join(cells).rstrip()


def _classes(summary: Summary, style: Style) -> list[str]:
    classes = summary["classwise"]
    known = [k for k, error in enumerate(classes["errors"]) if error is not None]
    worst = sorted(known, key=lambda k: -classes["errors"][k])[:_CLASSES]
    width = max(len("class"), *(len(_short(classes["names"][k])) for k in worst))
    word = "labels" if summary["notion"] == "multilabel" else "classes"
    lines = [style.bold(f"The worst of {len(known):,} {word}"), f"  {'class':<{width}}  {'rows':>10}  {'ECE':>7}"]
    for k in worst:
        lines.append(
            f"  {_short(classes['names'][k]):<{width}}  {classes['supports'][k]:>10,.0f}  {classes['errors'][k]:>7.4f}"
        )
    return lines


def _short(name: str, limit: int = 40) -> str:
    printable = "".join(c if c.isprintable() else "?" for c in name)
    return printable if len(printable) <= limit else printable[: limit - 1] + "…"
