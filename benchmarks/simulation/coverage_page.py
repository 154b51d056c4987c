"""The page that `coverage.py` writes: tables of coverage, width, size and power, and a figure."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from coverage_laws import Law
from coverage_pairs import COMPARED, KINDS, PAIRS
from numpy.typing import NDArray
from scipy.special import ndtri

from calibrant.measures import MEASURES, Null

Columns = Mapping[str, NDArray[Any]]

LABELS = {measure.name: measure.label for measure in MEASURES}
CLASSES = ("softmax, 10 classes", "softmax, 50 classes")
TILTS = (1.0, 1.1, 1.4, 2.0)
#: The differences between two models.
DIFFERENCES = {f"pair {measure.name}": f"difference of the {measure.label}" for measure in COMPARED}
PEERS = ("relplot", "uncertainty-calibration")
#: The measures whose tests the page shows. The squared CE is left out: the RMSCE stands for both.
TESTED = [m.name for m in MEASURES if m.judges == "classes" or (isinstance(m.null, Null) and m.scale != "square")]
CLASSICAL = ("Spiegelhalter", "Hosmer-Lemeshow", "Kolmogorov-Smirnov", "Kuiper", "Cox", "T-Cal")
TESTS = ("verdict", *TESTED, *CLASSICAL)
REGIMES = ("null", "r < 1", "1 to 3", "3 to 8", ">= 8")
LIMITS = {"3 to 8": 1.6, ">= 8": 1.3}
LEAST = 30  # data sets of a cell with an interval
ALLOWED = 0.02


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
        return self.coverage + 3 * self.error < self.level - ALLOWED

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
    """Return the law of a part, by its name and how far it is from calibration; that of pairs names both models."""
    if part.kind == "classwise":
        return CLASSES[part.law // len(TILTS)], TILTS[part.law % len(TILTS)]
    if part.kind == "pairs":
        return PAIRS[part.law].name, 0.0
    return laws[part.law].name, laws[part.law].tilt


def gather(parts: Mapping[Any, Columns], laws: Sequence[Law]) -> dict[tuple[str, str, float, int], Columns]:
    """Join the parts of each setting and measure."""
    by_setting: dict[tuple[str, str, float, int], list[Columns]] = defaultdict(list)
    for part, columns in parts.items():
        name, tilt = setting_of(part, laws)
        for measure in np.unique(columns["measure"]):
            rows = columns["measure"] == measure
            by_setting[str(measure), name, tilt, part.n].append({key: column[rows] for key, column in columns.items()})
    return {
        key: {name: np.concatenate([one[name] for one in several]) for name in several[0]}
        for key, several in sorted(by_setting.items())
    }


def cells_of(settings: Mapping[tuple[str, str, float, int], Columns]) -> list[Cell]:
    cells = []
    for (measure, law, tilt, n), columns in settings.items():
        for level in np.unique(columns["level"]):
            rows = columns["level"] == level
            low, high, true = (columns[name][rows] for name in ("low", "high", "true"))
            # Leave out settings, not data sets: leaving out data sets would select those with many outcomes.
            flagged = int(np.count_nonzero(columns["few"][rows]))
            has_interval = ~np.isnan(high)
            if 2 * flagged > len(high) or np.count_nonzero(has_interval) < LEAST:
                continue
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


def write_page(
    parts: Mapping[Any, Columns], repeated: Mapping[Any, Columns], laws: Sequence[Law], docs: Path | None
) -> str:
    """Return the page. With ``docs``, write it, its figure and the table of all cells.

    ``repeated`` are fresh data sets of the settings with failures.
    """
    settings = gather(parts, laws)
    cells = cells_of(settings)
    our_cells = [cell for cell in cells if cell.measure not in PEERS]
    pieces = [
        _HEAD.format(sets=sum(cell.sets for cell in our_cells), cells=len(our_cells)),
        _COVERAGE,
        table(coverage_rows(our_cells)),
        _FAILS.format(chance=by_chance(our_cells)),
        failures(our_cells, cells_of(gather(repeated, laws))),
        _WIDTH,
        table(width_rows(our_cells)),
        _SIZE,
        table(size_rows(settings)),
        _POWER,
        table(power_rows(settings)),
        _PAIRS,
        table(pair_rows(our_cells, settings)),
        _PEERS,
        table(peer_rows(cells)),
        _END,
    ]
    page = "\n".join(pieces)
    if docs is not None:
        (docs / "coverage.md").write_text(page, encoding="utf-8")
        write_cells(cells, docs / "coverage.csv")
        draw(our_cells, docs / "coverage.png")
    return page


def table(rows: Iterable[Sequence[str]]) -> str:
    head, *rest = rows
    lines = [head, ["---"] * len(head), *rest]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def coverage_rows(cells: Sequence[Cell]) -> Iterable[Sequence[str]]:
    yield ["measure", "level", "lowest", "± error", "where", "mean", "settings", "below the goal", "data sets flagged"]
    rows = []
    for measure, label in LABELS.items():
        for level in (0.9, 0.95):
            selected = [cell for cell in cells if cell.measure == measure and cell.level == level]
            if not selected:
                continue
            worst = min(selected, key=lambda cell: cell.coverage)
            fails = sum(cell.fails for cell in selected)
            entries = [
                label,
                f"{level:.0%}",
                f"{worst.coverage:.3f}",
                f"{worst.error:.3f}",
                place(worst),
                f"{np.mean([cell.coverage for cell in selected]):.3f}",
                str(len(selected)),
                str(fails) if fails else "none",
                f"{sum(cell.flagged for cell in selected) / sum(cell.sets for cell in selected):.1%}",
            ]
            rows.append((worst.coverage - worst.level, entries))
    yield from (entries for _, entries in sorted(rows, key=lambda row: row[0]))


def place(cell: Cell) -> str:
    if cell.measure in DIFFERENCES:
        return f"{cell.law}, N = {cell.n:,}"
    if cell.law.startswith("U(.8"):
        return f"{cell.law}, N = {cell.n:,}"
    way = "gap" if cell.law.startswith("alternating") else "a" if not cell.law.startswith("softmax") else "factor"
    return f"{cell.law}, {way} = {cell.tilt:g}, N = {cell.n:,}"


def by_chance(cells: Sequence[Cell]) -> str:
    """Return how many cells would fail if each covered exactly its level."""
    from scipy.special import ndtr

    return f"{sum(float(ndtr(-3 - ALLOWED / cell.error)) for cell in cells):.1f}"


def failures(cells: Sequence[Cell], repeated: Sequence[Cell]) -> str:
    failed = sorted((cell for cell in cells if cell.fails), key=lambda cell: cell.coverage - cell.level)
    if not failed:
        return "None.\n"
    again = {(cell.measure, cell.law, cell.tilt, cell.n, cell.level): cell for cell in repeated}
    rows = [
        [
            "measure",
            "setting",
            "level",
            "coverage",
            "± error",
            "intervals below the truth",
            "truth / floor",
            "again, fresh data",
            "± error",
            "fails again",
        ]
    ]
    for cell in failed:
        ratio = "" if math.isnan(cell.ratio) else f"{cell.ratio:.1f}"
        label = LABELS.get(cell.measure) or DIFFERENCES[cell.measure]
        rows.append(
            [
                label,
                place(cell),
                f"{cell.level:.0%}",
                f"{cell.coverage:.3f}",
                f"{cell.error:.3f}",
                f"{cell.below:.3f}",
                ratio,
                *repeat(again.get((cell.measure, cell.law, cell.tilt, cell.n, cell.level))),
            ]
        )
    return table(rows)


def repeat(cell: Cell | None) -> list[str]:
    if cell is None:
        return ["–", "–", "–"]
    return [f"{cell.coverage:.3f}", f"{cell.error:.3f}", "**yes**" if cell.fails else "no"]


def width_rows(cells: Sequence[Cell]) -> Iterable[Sequence[str]]:
    yield ["measure", *REGIMES, "goals met"]
    for measure, label in LABELS.items():
        selected = [cell for cell in cells if cell.measure == measure and cell.regime]
        if not selected:
            continue
        entries, met = [], []
        for regime in REGIMES:
            ratios = [cell.relative for cell in selected if cell.regime == regime and not math.isnan(cell.relative)]
            if not ratios:
                entries.append("–")
                continue
            middle = float(np.median(ratios))
            entries.append(f"{middle:.2f} ({max(ratios):.2f})")
            if regime in LIMITS:
                met.append(middle <= LIMITS[regime])
        verdict = "–" if not met or measure == "mce" else "yes" if all(met) else "**no**"
        yield [label, *entries, verdict]


def size_rows(settings: Mapping[tuple[str, str, float, int], Columns]) -> Iterable[Sequence[str]]:
    yield ["test", "data sets", "size at 5 %", "size at 10 %", "± error", "lowest and highest at 10 %", "goal met"]
    for test in TESTS:
        p_values = [
            unique_p(columns)
            for (measure, law, tilt, _), columns in settings.items()
            if measure == test and tilt == 1.0 and not law.startswith("alternating")
        ]
        p_values = [p for p in p_values if len(p)]
        if not p_values:
            continue
        every = np.concatenate(p_values)
        at = {alpha: float(np.mean(every <= alpha + 1e-12)) for alpha in (0.05, 0.1)}
        each = [float(np.mean(p <= 0.1 + 1e-12)) for p in p_values]
        # A setting misses the goal if its standard error does not explain it.
        spread = [2 * math.sqrt(0.09 / len(p)) for p in p_values]
        good = all(0.08 - s <= size <= 0.125 + s for size, s in zip(each, spread, strict=True))
        good = good and all(0.8 * alpha <= size <= 1.25 * alpha for alpha, size in at.items())
        error = math.sqrt(0.09 / len(every))
        yield [
            LABELS.get(test, test),
            f"{len(every):,}",
            f"{at[0.05]:.3f}",
            f"{at[0.1]:.3f}",
            f"{error:.3f}",
            f"{min(each):.3f} – {max(each):.3f}",
            "yes" if good else "**no**",
        ]


def unique_p(columns: Columns) -> NDArray[np.float64]:
    """Return one p-value of each data set; both levels have the same."""
    p = columns["p"][columns["level"] == 0.9]
    return np.asarray(p[~np.isnan(p)], dtype=np.float64)


def power_rows(settings: Mapping[tuple[str, str, float, int], Columns]) -> Iterable[Sequence[str]]:
    sizes = sorted({n for *_, n in settings})
    columns = [(tilt, n) for tilt in (1.1, 1.4) for n in sizes if n <= 20_000]
    yield ["test", *(f"a = {tilt:g}, N = {n:,}" for tilt, n in columns)]
    for test in TESTS:
        entries = []
        for tilt, n in columns:
            p_values = [
                unique_p(rows_of_setting)
                for (measure, law, a, rows), rows_of_setting in settings.items()
                if measure == test and a == tilt and rows == n and not law.startswith("alternating")
            ]
            every = np.concatenate(p_values) if p_values else np.empty(0)
            entries.append(f"{np.mean(every <= 0.05):.2f}" if len(every) else "–")
        yield [LABELS.get(test, test), *entries]


def peer_rows(cells: Sequence[Cell]) -> Iterable[Sequence[str]]:
    yield [
        "setting",
        "relplot: coverage",
        "width",
        f"ours ({LABELS['smece']})",
        "width",
        "uncertainty-calibration: coverage",
        "width",
        f"ours ({LABELS['rmsce']})",
        "width",
    ]
    by = {(c.measure, c.law, c.tilt, c.n): c for c in cells if c.level == 0.95}
    for measure, law, tilt, n in by:
        if measure != "relplot":
            continue
        entries = []
        for name in ("relplot", "smece", "uncertainty-calibration", "rmsce"):
            cell = by.get((name, law, tilt, n))
            entries += ["–", "–"] if cell is None else [f"{cell.coverage:.2f}", f"{cell.width:.4f}"]
        yield [place(by[measure, law, tilt, n]), *entries]


def pair_rows(
    cells: Sequence[Cell], settings: Mapping[tuple[str, str, float, int], Columns]
) -> Iterable[Sequence[str]]:
    yield [
        "models",
        "difference of the",
        "settings",
        "90%: mean",
        "lowest",
        "95%: mean",
        "lowest",
        "below the goal",
        "width",
        "called different",
    ]
    for kind in KINDS:
        laws = {pair.name for pair in PAIRS if pair.models == kind}
        for measure in COMPARED:
            name = f"pair {measure.name}"
            selected = [cell for cell in cells if cell.measure == name and cell.law in laws]
            entries = []
            for level in (0.9, 0.95):
                held = [cell.coverage for cell in selected if cell.level == level]
                entries += [f"{np.mean(held):.3f}", f"{min(held):.3f}"]
            fails = sum(cell.fails for cell in selected)
            ratios = [cell.relative for cell in selected if not math.isnan(cell.relative)]
            width = f"{np.median(ratios):.2f}" if ratios else "–"
            called = "–"
            if measure.difference.decides:
                p_values = np.concatenate(
                    [
                        unique_p(columns)
                        for (difference, law, *_), columns in settings.items()
                        if difference == name and law in laws
                    ]
                )
                called = f"{np.mean(p_values <= 0.05):.3f}"
            failed = str(fails) if fails else "none"
            yield [kind, measure.label, str(len(selected) // 2), *entries, failed, width, called]


def write_cells(cells: Sequence[Cell], path: Path) -> None:
    names = (
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
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for cell in cells:
            values = [getattr(cell, name) for name in names]
            writer.writerow([f"{value:.6g}" if isinstance(value, float) else value for value in values])


def draw(cells: Sequence[Cell], path: Path) -> None:
    """Draw the coverage of every setting against N, a panel for each measure."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    shown = [name for name in LABELS if any(cell.measure == name for cell in cells)]
    rows = math.ceil(len(shown) / 4)
    with mpl.rc_context({"font.size": 8, "savefig.dpi": 110}):
        figure, axes = plt.subplots(rows, 4, figsize=(10, 2.25 * rows), sharex=True, sharey=True, layout="constrained")
        for ax, name in zip(axes.flat, shown, strict=False):
            for level, colour, shift in ((0.9, "#0072b2", 0.93), (0.95, "#d55e00", 1.07)):
                selected = [cell for cell in cells if cell.measure == name and cell.level == level]
                x = [cell.n * shift for cell in selected]
                ax.scatter(x, [cell.coverage for cell in selected], s=8, alpha=0.5, color=colour, label=f"{level:.0%}")
                ax.axhline(level, color=colour, linewidth=0.8)
            ax.set_xscale("log")
            ax.set_title(LABELS[name])
            ax.set_ylim(0.8, 1.005)
        for ax in list(axes.flat)[len(shown) :]:
            ax.set_visible(False)
        axes[0, 0].legend(loc="lower right")
        figure.supxlabel("N")
        figure.supylabel("coverage (below .8: in the tables)")
        figure.savefig(path)
        plt.close(figure)


_HEAD = """# Do the intervals hold?

Every interval and every test was tried on data with known calibration: `benchmarks/coverage.py` draws data sets,
computes the interval, and checks whether it holds the true value. That script writes this page and its numbers;
{cells:,} cells (measure, law, N, level) of {sets:,} intervals are in [coverage.csv](coverage.csv).

Laws of the scores: Beta(.5, .5), uniform, Beta(1, 20) (rare events), Beta(8, 1), ten tied values, the top label of a
softmax over ten normal logits. Outcomes have probability q(p) = p^a / (p^a + (1 - p)^a), calibrated at a = 1; the
softmax reports its logits times a factor. One more law has uniform scores with gaps of one size and alternating sign.
N = 200, 2,000, 20,000, 200,000; 15 bins; 199 resamples; 1,000 data sets of each calibrated setting and 300 of each
other one, half as many from N = 20,000. True values are those of a population of a million points, for the adaptive ECE
over each data set's own bins: its interval is for these edges.

Harder settings, up to N = 20,000: one to three distinct scores; nine tenths of the scores at .999; events of rate .005;
scores from .8 to 1 in bins of width .2 with the rate .997; weights, log-normal, uneven with tied scores, and one row in
a hundred of weight 30.5, more often at high scores; the outputs of a real model for handwritten digits, with labels
drawn from them; a softmax over 50 classes.

Settings where most data sets are flagged are left out: the report says that their intervals may be too short. The share
of flagged data sets in the other settings is given.

![Coverage of the intervals of each measure against N, one dot for each law](coverage.png)
"""
_COVERAGE = """## Coverage

The goal: no setting is below its level by more than two points plus three standard errors of the simulation. The
measure with the lowest coverage comes first. Intervals that hold 0 are honest near calibration and cover more than
their level there.
"""
_FAILS = """This list has every failure. If every interval covered exactly its level, {chance} cells would fail by
chance. So each setting of the list was tried again, on 600 fresh data sets.
"""
_WIDTH = """## Width

The median width as a multiple of the oracle's width: median over settings (maximum), by r, the true value over its
noise floor. The oracle knows the standard deviation of the reported value, but not its bias. Goals: at most 1.6 for r
from 3 to 8, 1.3 from 8, except for the maximum.
"""
_SIZE = """## Tests: how often they err

The share of calibrated data sets in which p is at most 5 % and 10 %. The goal is .8 to 1.25 times that, over all
settings together, and in each up to two of its standard errors.
"""
_POWER = """## Tests: how often they detect

The share of p at most 5 %, over all laws with that tilt.
"""
_PAIRS = """## Two models on the same rows

Differences of `compare`, first minus second, at N = 200, 2,000 and 20,000. The probability x of the outcome is uniform,
Beta(.5, .5), Beta(8, 1) or Beta(1, 20). A coarse model knows only twenty values of x. The models report the log-odds of
x times two factors: nearly the same 1 and 1.05, one calibrated 1 and 1.4, to opposite sides 1.4 and 1 / 1.4, equally
wrong 1.4 and 1.4. If two models never differ in accuracy, its width has no oracle.
The width is the median's multiple of the oracle's; "called different" is the share of p at most 5 %, over all settings.
"""
_PEERS = """## Others' intervals

At 95 %: relplot's interval (basic bootstrap of its smooth ECE, widened to both sides) against ours of the smooth ECE,
and that of uncertainty-calibration (basic bootstrap of the l2 error over 15 bins of equal mass; its `alpha` is in per
cent) against ours of the RMSCE.
"""
_END = ""
