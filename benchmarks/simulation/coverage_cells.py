"""The results of `coverage.py`: a cell for each measure, law, N and level, and what it must reach."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from coverage_clusters import cluster_laws
from coverage_laws import Law
from coverage_pairs import PAIRS
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

Columns = Mapping[str, NDArray[Any]]
#: A measure, the name and tilt of a law, and N.
Setting = tuple[str, str, float, int]

CLASSES = ("softmax, 10 classes", "softmax, 50 classes")
TILTS = (1.0, 1.1, 1.4, 2.0)
PEERS = ("relplot", "uncertainty-calibration")
REGIMES = ("null", "r < 1", "1 to 3", "3 to 8", ">= 8")
LEAST = 30  # data sets of a cell with an interval
ALLOWED = 0.02
IN_CLUSTERS = {law.name for law in cluster_laws()}
#: By how much the lowest setting with clusters was below 90 % when these intervals were derived, on other data sets;
#: of other measures, `ALLOWED`.
#: Others have the goal of a neighbour: skills as their score, the Brier score of the event as that of the predictions,
#: the AUROC as the accuracy, the ICI as the ACE, the O:E ratio and the log-odds line as the gap.
ALLOWED_IN_CLUSTERS = {
    "mean_gap": 0.1,
    "mean_confidence": 0.1,
    "oe_ratio": 0.1,
    "calibration_intercept": 0.1,
    "calibration_slope": 0.1,
    "auroc": 0.066,
    "ici": 0.04,
    "accuracy": 0.066,
    "brier": 0.065,
    "brier_event": 0.065,
    "brier_skill": 0.065,
    "nll": 0.07,
    "log_loss_skill": 0.07,
    "ece": 0.039,
    "ace": 0.04,
    "rmsce": 0.0,
    "debiased_square": 0.0,
    "mce": 0.0,
    "ks": 0.077,
    "smece": 0.043,
    "miscalibration": 0.029,
    "discrimination": 0.05,
    "uncertainty": 0.066,
}


def _allowed(measure: str, law: str) -> float:
    """Return by how much coverage may be below the nominal level."""
    return ALLOWED_IN_CLUSTERS.get(measure, ALLOWED) if law in IN_CLUSTERS else ALLOWED


@dataclass(frozen=True)
class Cell:
    """The results of the intervals of one measure in one setting."""

    measure: str
    law: str
    tilt: float
    n: int
    level: float
    sets: int
    flagged: int
    allowed: float  # how far the coverage may be below its level; NaN if most data sets are flagged
    true: float
    coverage: float
    below: float  # share of intervals that lie below the true value
    width: float
    oracle: float
    ratio: float  # true value over noise floor

    @property
    def error(self) -> float:
        """The Monte-Carlo standard error of the coverage, at its nominal value."""
        return math.sqrt(self.level * (1 - self.level) / self.sets)

    @property
    def fails(self) -> bool:
        return self.coverage + 3 * self.error < self.level - self.allowed

    @property
    def most_flagged(self) -> bool:
        return math.isnan(self.allowed)

    @property
    def flagged_share(self) -> float:
        return self.flagged / self.sets

    @property
    def relative(self) -> float:
        return self.width / self.oracle if self.oracle > 0 else math.nan

    @property
    def regime(self) -> str:
        if math.isnan(self.ratio):
            return ""
        if self.true <= 1e-12:
            return "null"
        edges = (1, 3, 8)
        return REGIMES[1 + int(np.searchsorted(edges, self.ratio, side="right"))]


def setting_of(part: Any, laws: Sequence[Law]) -> tuple[str, float]:
    """Return the name of a part's distribution (for pairs, of both models) and its distance from calibration."""
    if part.kind == "classwise":
        return CLASSES[part.law // len(TILTS)], TILTS[part.law % len(TILTS)]
    if part.kind == "pairs":
        return PAIRS[part.law].name, 0.0
    return laws[part.law].name, laws[part.law].tilt


def gather(parts: Mapping[Any, Columns], laws: Sequence[Law]) -> dict[Setting, Columns]:
    """Join the parts of each setting and measure."""
    by_setting: dict[Setting, list[Columns]] = defaultdict(list)
    for part, columns in parts.items():
        name, tilt = setting_of(part, laws)
        for measure in np.unique(columns["measure"]):
            rows = columns["measure"] == measure
            by_setting[str(measure), name, tilt, part.n].append({key: column[rows] for key, column in columns.items()})
    return {
        key: {name: np.concatenate([one[name] for one in several]) for name in several[0]}
        for key, several in sorted(by_setting.items())
    }


def cells_of(settings: Mapping[Setting, Columns]) -> list[Cell]:
    """Return the cells; settings where most data sets are flagged are left out, but for rows in clusters."""
    cells = []
    for (measure, law, tilt, n), columns in settings.items():
        for level in np.unique(columns["level"]):
            rows = columns["level"] == level
            low, high, true = (columns[name][rows] for name in ("low", "high", "true"))
            # Leave out settings, not data sets: leaving out data sets would select those with many outcomes.
            flagged = int(np.count_nonzero(columns["few"][rows]))
            has_interval = ~np.isnan(high)
            few = 2 * flagged > len(high)
            if (few and law not in IN_CLUSTERS) or np.count_nonzero(has_interval) < LEAST:
                continue
            allowed = _allowed(measure, law)
            low, high, true = low[has_interval], high[has_interval], true[has_interval]
            value, floor = columns["value"][rows][has_interval], columns["floor"][rows][has_interval]
            slack = 1e-9  # a true value of 0 is known to rounding
            inside = (low <= true + slack) & (true <= high + slack)
            oracle = 2 * float(ndtri(0.5 + level / 2)) * float(value.std(ddof=1))
            mean = float(true.mean())
            cells.append(
                Cell(
                    measure,
                    law,
                    tilt,
                    n,
                    float(level),
                    len(true),
                    flagged,
                    math.nan if few else allowed,
                    mean,
                    float(inside.mean()),
                    float((high + slack < true).mean()),
                    float(np.median(high - low)),
                    oracle,
                    abs(mean) / float(floor.mean()) if floor.mean() > 0 else math.nan,
                )
            )
    return cells


def failing(parts: Mapping[Any, Columns], laws: Sequence[Law]) -> list[tuple[str, int, int]]:
    """Return the settings, as (kind, law, N), in which a measure's coverage is below the goal."""
    index = {(*setting_of(part, laws), part.n): part for part in parts if part.kind != "peers"}
    fails = [cell for cell in cells_of(gather(parts, laws)) if cell.fails and cell.measure not in PEERS]
    failed_parts = (index[cell.law, cell.tilt, cell.n] for cell in fails)
    return sorted({(part.kind, part.law, part.n) for part in failed_parts})


def by_chance(cells: Sequence[Cell]) -> str:
    """Return how many cells would fail if each covered exactly its level."""
    return f"{sum(float(ndtr(-3 - cell.allowed / cell.error)) for cell in cells if not cell.most_flagged):.1f}"


COLUMNS = (
    "measure",
    "law",
    "tilt",
    "n",
    "level",
    "sets",
    "flagged",
    "true",
    "coverage",
    "error",
    "below",
    "width",
    "oracle",
    "ratio",
)


def read_cells(path: Path) -> list[Cell]:
    """Return the cells that `write_cells` wrote."""
    cells = []
    with path.open(newline="", encoding="utf-8") as file:
        for entry in csv.DictReader(file):
            n, sets, flagged = (int(entry.pop(name)) for name in ("n", "sets", "flagged"))
            measure, law, _ = entry.pop("measure"), entry.pop("law"), entry.pop("error")
            allowed = math.nan if 2 * flagged > sets else _allowed(measure, law)
            numbers = {name: float(value) for name, value in entry.items()}
            cells.append(Cell(measure=measure, law=law, n=n, sets=sets, flagged=flagged, allowed=allowed, **numbers))
    return cells


def write_cells(cells: Sequence[Cell], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for cell in cells:
            values = [getattr(cell, name) for name in COLUMNS]
            writer.writerow([f"{value:.6g}" if isinstance(value, float) else value for value in values])
