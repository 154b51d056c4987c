"""A reliability diagram as a matplotlib figure: it takes a result, estimates nothing, and leaves settings alone."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import MissingDependencyError
from calibrant.results import ReliabilityDiagram

#: What the axes are called: score and outcome rate, by what is judged.
WORDS: Final = {
    "top-label": ("Top-class Confidence (%)", "Success Rate (%)"),
    "positive": ("Predicted Probability (%)", "Observed Frequency (%)"),
}

SHARE: Final = "Share of Rows (%)"


def reliability_figure(
    diagram: ReliabilityDiagram, *, number: str, title: str, labels: tuple[str, str, str, str]
) -> tuple[Any, Any]:
    """Draw a reliability diagram above a histogram of the scores.

    Parameters
    ----------
    diagram : ReliabilityDiagram
        The bins: each bar stands where its bin stands, from mean score to outcome rate, the darker the more rows. Its
        intervals and its consistency band are drawn where it has them.
    number : str
        What is written into the picture.
    title : str
        Above it.
    labels : (str, str, str, str)
        Of the diagram's two axes and of the histogram's.

    Returns
    -------
    figure, axes
        The figure and an array of its two axes, diagram first.

    Raises
    ------
    calibrant.errors.MissingDependencyError
        Without matplotlib.
    """
    try:
        from matplotlib import pyplot as plt
    except ImportError:
        raise MissingDependencyError("matplotlib", "to draw", "report") from None
    figure, (top, bottom) = plt.subplots(2, 1, sharex=True, figsize=(6, 8), height_ratios=(4, 1), layout="constrained")
    filled = diagram.counts > 0
    lefts, rights = 100 * diagram.edges[:-1][filled], 100 * diagram.edges[1:][filled]
    rates, scores = 100 * diagram.accuracies[filled], 100 * diagram.confidences[filled]
    shares = 100 * diagram.proportions[filled]
    strength = 0.25 + 0.75 * shares / shares.max()
    red = [(0.84, 0.19, 0.15, alpha) for alpha in strength]
    gaps = top.bar(
        lefts, np.abs(rates - scores), rights - lefts, np.minimum(rates, scores),
        align="edge", color=red, edgecolor=red, linewidth=1, label="Gap",
    )  # fmt: skip
    reached = top.hlines(rates, lefts, rights, colors="black", linewidth=2, label=labels[1].removesuffix(" (%)"))
    top.plot([0, 100], [0, 100], linestyle="--", color="grey", linewidth=1)
    handles = [gaps, reached, *_intervals(top, diagram, filled)]
    top.text(0.97, 0.03, number, ha="right", va="bottom", transform=top.transAxes)
    top.set(xlim=(0, 100), ylim=(0, 100), title=title, xlabel=labels[0], ylabel=labels[1])
    top.legend(handles=handles, loc="upper left")
    bottom.bar(lefts, shares, rights - lefts, align="edge", color="0.75", edgecolor="0.45", linewidth=0.8)
    mean_rate, mean_score = (float(values @ shares) / 100 for values in (rates, scores))
    lines = [
        bottom.axvline(mean_rate, color="black", linewidth=2, label=f"Mean {labels[1].removesuffix(' (%)').lower()}"),
        bottom.axvline(mean_score, color="black", linestyle=":", linewidth=2, label="Mean score"),
    ]
    bottom.set(ylim=(0, None), xlabel=labels[2], ylabel=labels[3])
    bottom.legend(handles=lines, fontsize="small", loc="upper left")
    for axes in (top, bottom):
        axes.grid(visible=True, alpha=0.3, linestyle="--")
        axes.set_axisbelow(True)
    return figure, np.array([top, bottom])


def _intervals(axes: Any, diagram: ReliabilityDiagram, filled: NDArray[np.bool_]) -> list[Any]:
    """Draw the bins' intervals as whiskers at their mean scores, and the band as steps; return the legend's entries."""
    if diagram.lows is None or diagram.highs is None or diagram.band_lows is None or diagram.band_highs is None:
        return []
    lefts, rights = 100 * diagram.edges[:-1][filled], 100 * diagram.edges[1:][filled]
    low, high = 100 * diagram.band_lows[filled], 100 * diagram.band_highs[filled]
    share = f"{100 * diagram.level:g} %"
    band = axes.bar(
        lefts, high - low, rights - lefts, low, align="edge", color="0.6", alpha=0.35, linewidth=0, zorder=0.5,
        label=f"Calibrated scores, {share}",
    )  # fmt: skip
    scores = 100 * diagram.confidences[filled]
    whiskers = axes.vlines(
        scores, 100 * diagram.lows[filled], 100 * diagram.highs[filled], colors="black", linewidth=1,
        label=f"{share} interval",
    )  # fmt: skip
    return [whiskers, band]
