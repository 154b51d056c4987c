"""The noise floor for the terminal, from the command's dictionary."""

from __future__ import annotations

from calibrant.render.style import Style, Summary, number, paragraphs, percent


def render(summary: Summary, *, style: Style | None = None) -> str:
    """Return the floors for each distribution of scores as lines of text."""
    style = style or Style()
    n, share = summary["n"], percent(summary["level"])
    blocks = [[style.bold(f"What perfectly calibrated scores show at N = {n:,}, by chance alone")]]
    laws = summary["laws"]
    labels = summary["measures"]
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
    blocks.append(lines)
    notes = [f"{name}: scores {law['description']}" for name, law in laws.items()]
    notes.append(f"{summary['n_bins']} bins; up to: in {share} of samples")
    blocks.append([style.faint(line) for line in paragraphs(notes, style)])
    rows = ", ".join(f"{law['rows_for_ece_of_0.01']:,} ({name})" for name, law in laws.items())
    blocks.append(paragraphs([f"The mean ECE by chance is 0.01 at about this many rows: {rows}."], style))
    return style.plain("\n\n".join("\n".join(block) for block in blocks))
