"""The files of the pages about quantile forecasts and soft labels, and the reports of the command on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.special import ndtri

TAUS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)


def write_quantiles(path: Path) -> None:
    """Write the forecasts of `docs/quantiles.md`, a row for each quantile; their standard deviation is 0.8 of 1."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=1_000)
    outcomes = means + rng.normal(size=1_000)
    lines = ["case,level,quantile,outcome"]
    lines += [
        f"{case},{tau},{mean + 0.8 * ndtri(tau):.6f},{outcome:.6f}"
        for case, (mean, outcome) in enumerate(zip(means, outcomes, strict=True))
        for tau in TAUS
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_annotations(path: Path) -> None:
    """Write items with 2 to 5 annotators each; an annotator says "yes" with the probability p^1.5 of an item."""
    rng = np.random.default_rng(0)
    scores = rng.random(500)
    annotators = rng.integers(2, 6, 500)
    yes = rng.binomial(annotators, scores**1.5)
    lines = ["item,score,annotators,yes"]
    lines += [
        f"{item},{score:.4f},{m},{count}"
        for item, (score, m, count) in enumerate(zip(scores, annotators, yes, strict=True))
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def screens(run: Callable[[str], tuple[str, int]]) -> dict[str, str]:
    """Return the reports on both files, which are written to the working directory."""
    write_quantiles(Path("quantiles.csv"))
    write_annotations(Path("annotations.csv"))
    columns = "--score level --outcome 'outcome <= quantile' --cluster case"
    quantiles, _ = run(f"calibrant report quantiles.csv {columns}")
    columns = "--score score --events yes --trials annotators --cluster item"
    annotators, _ = run(f"calibrant report annotations.csv {columns}")
    return {"quantiles.txt": quantiles, "annotators.txt": annotators}
