"""The noise floor for the terminal, from the command's dictionary."""

from __future__ import annotations

from calibrant.render.style import Style, Summary, number, paragraphs, percent


def render(summary: Summary, *, style: Style | None = None) -> str:
    """Return the floors for each distribution of scores as lines of text, and the rows that a proof takes."""
    style = style or Style()
    noise, proof = summary["n"] is not None, summary["prove"] is not None
    notes = [f"{name}: scores {law['description']}" for name, law in summary["laws"].items()]
    notes.append("; ".join([f"{summary['n_bins']} bins", *([f"up to: {_share(summary)}"] if noise else [])]))
    blocks = [
        *(_floors(summary, style) if noise else []),
        *([_proof(summary, style)] if proof and not noise else []),
        [style.faint(line) for line in paragraphs(notes, style)],
        *([_rows_for(summary, style)] if noise else []),
        *([_proof(summary, style)] if proof and noise else []),
    ]
    return style.plain("\n\n".join("\n".join(block) for block in blocks))


def _share(summary: Summary) -> str:
    return f"in {percent(summary['level'])} of samples"


def _floors(summary: Summary, style: Style) -> list[list[str]]:
    """Return the title and the table of the floors, as lines."""
    laws, labels = summary["laws"], summary["measures"]
    width = max(len(label) for label in labels.values()) + 1
    head = f"  {'':<{width}}" + "".join(f"{name:^20}" for name in laws)
    below = f"  {'':<{width}}" + "".join(f"{'mean':>9} {'up to':>7}   " for _ in laws)
    lines = [head.rstrip(), style.faint(below.rstrip())]
    for measure, label in labels.items():
        entries = []
        for law in laws.values():
            floor = law["floors"].get(measure)
            ends = ("–", "–") if floor is None else (number(floor["mean"]), number(floor["upper"]))
            entries.append(f"{ends[0]:>9} {ends[1]:>7}   ")
        lines.append(f"  {label:<{width}}{''.join(entries)}".rstrip())
    return [[style.bold(f"What perfectly calibrated scores show at N = {summary['n']:,}, by chance alone")], lines]


def _rows_for(summary: Summary, style: Style) -> list[str]:
    rows = ", ".join(f"{law['rows_for_ece_of_0.01']:,} ({name})" for name, law in summary["laws"].items())
    return paragraphs([f"The mean ECE by chance is 0.01 at about this many rows: {rows}."], style)


def _proof(summary: Summary, style: Style) -> list[str]:
    """Return how many rows a proof takes, as lines."""
    rows = ", ".join(f"{law['rows_to_prove']:,} ({name})" for name, law in summary["laws"].items())
    sentences = [
        f"A proof that the ECE of a calibrated model is below {summary['prove']:g} takes about this many rows: {rows}.",
        f"With so many, 80 % of samples prove it (one-sided bound, {percent(summary['level'])}).",
    ]
    return paragraphs(sentences, style)
