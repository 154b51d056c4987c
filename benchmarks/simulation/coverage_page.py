"""What `coverage.py` writes: the numbers of docs/coverage.md, a figure, and the tables as CSV.

The page shows each text between two comments (docs/shown.py).
"""

from __future__ import annotations

import csv
import math
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import coverage_edges
import leaderboard
import numpy as np
import priors
import sparse_questions
from coverage_cells import (
    ALLOWED_IN_CLUSTERS,
    IN_CLUSTERS,
    PEERS,
    Cell,
    Columns,
    Setting,
    by_chance,
    cells_of,
    gather,
    read_cells,
    write_cells,
)
from coverage_laws import Law
from coverage_pairs import COMPARED, KINDS, PAIRS
from numpy.typing import NDArray

from calibrant.measures import MEASURES, Null

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))

LABELS = {measure.name: measure.label for measure in MEASURES}
#: The differences between two models.
DIFFERENCES = {f"pair {measure.name}": f"difference of the {measure.label}" for measure in COMPARED}
#: The measures whose tests the page shows. The squared error is left out, because the RMSCE has the same test.
TESTED = [m.name for m in MEASURES if m.judges == "classes" or (isinstance(m.null, Null) and m.scale != "square")]
CLASSICAL = ("Spiegelhalter", "Hosmer-Lemeshow, equal frequency", "Kolmogorov-Smirnov", "Kuiper", "Cox", "T-Cal")
TESTS = ("verdict", *TESTED, *CLASSICAL)
#: What the page calls distributions of scores and clusters, unless their names are clear.
LAWS_IN_WORDS = {
    "Beta(1, 20), intercepts": "Beta(1, 20) scores, random intercepts",
    "spike at 0.999": "90 % of the scores at 0.999",
}
#: The tests in the table of the page.
SHOWN = ("verdict", "ece", "smece", *CLASSICAL)


@dataclass(frozen=True)
class Rejections:
    """How often a test rejects: the shares of p-values of at most 5 % and 10 %, one row of coverage-tests.csv."""

    test: str
    models: str = ""  # the kind of two compared models
    clusters: int = 0
    tilt: float = math.nan
    n: int | None = None  # None: all of them together
    sets: int | None = None
    rejected_5: float = math.nan
    rejected_10: float = math.nan
    lowest_10: float = math.nan
    highest_10: float = math.nan


def write_page(
    parts: Mapping[Any, Columns], repeated: Mapping[Any, Columns], laws: Sequence[Law], docs: Path | None
) -> dict[str, str]:
    """Return the texts of the page. With ``docs``, write the page, its figure and the tables.

    ``repeated`` are fresh data sets of the settings with failures.
    """
    settings = gather(parts, laws)
    cells, again, tests = cells_of(settings), cells_of(gather(repeated, laws)), list(rejections(settings))
    return written(cells, again, tests, docs)


def update_page(
    parts: Mapping[Any, Columns], repeated: Mapping[Any, Columns], laws: Sequence[Law], docs: Path, only: Sequence[str]
) -> dict[str, str]:
    """Replace the cells of some measures in the page, its figure and the tables; return the texts of the page.

    The other cells come from the tables. The sizes and the power of tests, the pairs and the peers do not change.
    """
    cells, again, tests = stored(docs)
    cells = [cell for cell in cells if cell.measure not in only] + cells_of(gather(parts, laws))
    again = [cell for cell in again if cell.measure not in only] + cells_of(gather(repeated, laws))
    return written(cells, again, tests, docs)


def rewrite_page(docs: Path) -> dict[str, str]:
    """Write the page and its figure from the tables; return the texts of the page."""
    return written(*stored(docs), docs)


def stored(docs: Path) -> tuple[list[Cell], list[Cell], list[Rejections]]:
    """Return the three tables: the cells, those of repeated settings, and how often tests reject."""
    cells, again = (read_cells(docs / name) for name in ("coverage.csv", "coverage-repeated.csv"))
    with (docs / "coverage-tests.csv").open(newline="", encoding="utf-8") as file:
        tests = [
            Rejections(
                entry["test"],
                entry["models"],
                int(entry["clusters"]),
                **{name: int(entry[name]) if entry[name] else None for name in ("n", "sets")},
                **{name: float(entry[name] or "nan") for name in _SHARES},
            )
            for entry in csv.DictReader(file)
        ]
    return cells, again, tests


_SHARES = ("tilt", "rejected_5", "rejected_10", "lowest_10", "highest_10")


def written(
    cells: Sequence[Cell], again: Sequence[Cell], tests: Sequence[Rejections], docs: Path | None
) -> dict[str, str]:
    """Return the texts of the page. With ``docs``, write the page, its figure and the tables."""
    cells = sorted(cells, key=lambda cell: (cell.law in IN_CLUSTERS, cell.measure))
    ours = [cell for cell in cells if cell.measure not in PEERS]
    plain, in_clusters = ([cell for cell in ours if (cell.law in IN_CLUSTERS) == wanted] for wanted in (False, True))
    again = [cell for cell in again if cell.measure not in PEERS]
    texts = {
        "coverage-flagged.md": lowest_flagged(ours),
        "coverage-intervals.md": f"{table(coverage_rows(plain))}\n{others(plain, in_clusters)}",
        "coverage-goal.md": failures(ours, again),
        "coverage-tests.md": f"{table(test_rows(tests))}\n{other_sizes(tests)}",
        "coverage-models.md": f"{models(ours, tests)}\n{peers(cells)}",
        **coverage_edges.texts(),
        **leaderboard.texts(),
        **priors.texts(),
        **sparse_questions.texts(),
    }
    if docs is not None:
        import shown

        shown.write(texts)
        write_cells(cells, docs / "coverage.csv")
        write_cells(again, docs / "coverage-repeated.csv")
        write_rejections(tests, docs / "coverage-tests.csv")
        draw(plain, docs / "coverage.png")
    return texts


def write_rejections(tests: Sequence[Rejections], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(asdict(Rejections("")))
        for row in tests:
            values = asdict(row).values()
            numbers = [f"{x:.4g}".replace("nan", "") if isinstance(x, float) else x for x in values]
            writer.writerow(["" if value is None else value for value in numbers])


def paragraph(text: str) -> str:
    return textwrap.fill(text, 120, break_on_hyphens=False) + "\n"


def table(rows: Iterable[Sequence[str]]) -> str:
    head, *rest = rows
    lines = [head, ["---"] * len(head), *rest]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def lowest_flagged(cells: Sequence[Cell]) -> str:
    """Return a sentence about the cells with clusters where most data sets are flagged."""
    worst = min((cell for cell in cells if cell.most_flagged), key=lambda cell: cell.coverage - cell.level)
    return paragraph(
        "A setting is omitted if reports warn for most of its data sets that intervals can be too short. The lowest "
        f"coverage of an omitted setting with clusters is {worst.coverage:.3f} at the {100 * worst.level:.0f} % level "
        f"({label_of(worst)}, {place(worst)})."
    )


def label_of(cell: Cell) -> str:
    return LABELS.get(cell.measure) or DIFFERENCES[cell.measure]


def coverage_rows(cells: Sequence[Cell]) -> Iterator[Sequence[str]]:
    """Yield the coverage of each measure at 95 %, the lowest first."""
    yield ["measure", "mean", "lowest"]
    found = {measure: [c.coverage for c in cells if c.measure == measure and c.level == 0.95] for measure in LABELS}
    rows = [(min(each), measure, np.mean(each)) for measure, each in found.items() if each]
    for lowest, measure, mean in sorted(rows, key=lambda row: row[0]):
        yield [LABELS[measure], f"{mean:.3f}", f"{lowest:.3f}"]


def others(plain: Sequence[Cell], in_clusters: Sequence[Cell]) -> str:
    """Return two sentences about intervals at 95 %: their lowest coverage with clusters, and their width."""
    clustered = [cell for cell in in_clusters if cell.level == 0.95 and not cell.most_flagged]
    low = min(clustered, key=lambda cell: cell.coverage)
    found = {name: [c.relative for c in plain if c.measure == name and c.level == 0.95] for name in LABELS}
    *most, (width, widest) = sorted((float(np.nanmedian(each)), LABELS[name]) for name, each in found.items() if each)
    return paragraph(
        f"With clusters, the lowest coverage of a 95 % interval is {low.coverage:.3f} ({label_of(low)}). Depending on "
        f"the measure, the median interval is {most[0][0]:.2f} to {most[-1][0]:.2f} times as wide as a normal interval "
        f"with the true standard deviation of the estimate, but {width:.2f} times for the {widest}."
    )


def place(cell: Cell) -> str:
    law = LAWS_IN_WORDS.get(cell.law, cell.law)
    if cell.measure in DIFFERENCES or law.startswith("U(0.8"):
        return f"{law}, N = {cell.n:,}"
    way = "difference" if law.startswith("alternating") else "factor" if law.startswith("softmax") else "a"
    return f"{law}, {way} = {cell.tilt:g}, N = {cell.n:,}"


def failures(cells: Sequence[Cell], repeated: Sequence[Cell]) -> str:
    """Return how many cells are below the goal, and which of them are below it on fresh data too."""
    failed = {key_of(cell) for cell in cells if cell.fails}
    again: dict[str, list[str]] = {}
    for cell in repeated:
        if cell.fails and key_of(cell) in failed:
            where = f"{label_of(cell)}, {place(cell)}"
            again.setdefault(where, []).append(f"{cell.coverage:.3f} at the {100 * cell.level:.0f} % level")
    count = sum(map(len, again.values()))
    where = "; ".join(f"{' and '.join(coverages)} for {name}" for name, coverages in again.items())
    allowed = 100 * max(ALLOWED_IN_CLUSTERS.values())
    return paragraph(
        "The goal for the coverage is the confidence level minus two percentage points, minus three standard errors of "
        "the simulation. With clusters, the largest shortfall of the coverage during development (up to "
        f"{allowed:.0f} percentage points) replaces the two points. "
        f"The coverage is below the goal in {len(failed)} settings. If the true coverage were always the confidence "
        f"level, about {by_chance(cells)} such settings would be expected. With 600 new data sets for each setting, "
        f"the coverage is below the goal again in {count or 'none'} of the {len(failed)} settings"
        f"{f' ({where})' if where else ''}."
    )


def key_of(cell: Cell) -> tuple[str, str, float, int, float]:
    return cell.measure, cell.law, cell.tilt, cell.n, cell.level


def rejections(settings: Mapping[Setting, Columns]) -> Iterator[Rejections]:
    """Yield how often each test rejects: on calibrated data, on others by their tilt and N, and between models."""
    for test in TESTS:
        columns = {key: columns for key, columns in settings.items() if key[0] == test and key[1][:5] != "alter"}
        for clustered in (0, 1):
            sized = [
                p
                for (_, law, tilt, _), one in columns.items()
                if tilt == 1.0 and (law in IN_CLUSTERS) == bool(clustered) and len(p := unique_p(one))
            ]
            if sized:
                every, each = np.concatenate(sized), [share(p, 0.1) for p in sized]
                low, high = min(each), max(each)
                shares = (share(every, 0.05), share(every, 0.1), low, high)
                yield Rejections(test, "", clustered, 1.0, None, len(every), *shares)
        for tilt, n in ((1.1, 200), (1.1, 2_000), (1.1, 20_000), (1.4, 200), (1.4, 2_000), (1.4, 20_000)):
            found = [
                unique_p(one)
                for (_, law, a, rows), one in columns.items()
                if (a, rows) == (tilt, n) and law not in IN_CLUSTERS
            ]
            if found and len(every := np.concatenate(found)):
                yield Rejections(test, "", 0, tilt, n, len(every), share(every, 0.05))
    for measure in (measure for measure in COMPARED if measure.difference.decides):
        for kind in KINDS:
            names = {pair.name for pair in PAIRS if pair.models == kind}
            found = [
                unique_p(one)
                for (name, law, *_), one in settings.items()
                if name == f"pair {measure.name}" and law in names
            ]
            every = np.concatenate(found)
            yield Rejections(f"pair {measure.name}", kind, sets=len(every), rejected_5=share(every, 0.05))


def share(p_values: NDArray[np.float64], level: float) -> float:
    return float(np.mean(p_values <= level + 1e-12))


def unique_p(columns: Columns) -> NDArray[np.float64]:
    """Return one p-value of each data set; both levels have the same."""
    p = columns["p"][columns["level"] == 0.9]
    return np.asarray(p[~np.isnan(p)], dtype=np.float64)


def test_rows(tests: Sequence[Rejections]) -> Iterator[Sequence[str]]:
    """Yield the size of each shown test at 5 % without clusters, and its power, in percent."""
    yield ["test", "calibrated", "a = 1.1, N = 2,000", "a = 1.4, N = 200"]
    wanted = ((1.0, None), (1.1, 2_000), (1.4, 200))
    for test in SHOWN:
        found = {(row.tilt, row.n): row.rejected_5 for row in tests if row.test == test and not row.clusters}
        yield [LABELS.get(test, test), *(f"{100 * found[key]:.{int(key[1] is None)}f}" for key in wanted)]


def other_sizes(tests: Sequence[Rejections]) -> str:
    """Return a sentence about the sizes of the tests of all errors."""
    sizes = [
        [100 * row.rejected_5 for row in tests if row.test in TESTED and row.tilt == 1.0 and row.clusters == clusters]
        for clusters in (0, 1)
    ]
    (low, high), (low_clusters, high_clusters) = ((min(each), max(each)) for each in sizes)
    return paragraph(
        f"For calibrated scores, the tests of all calibration errors reject in {low:.1f} to {high:.1f} % of data sets "
        f"without clusters, and in {low_clusters:.1f} to {high_clusters:.1f} % with clusters."
    )


def models(cells: Sequence[Cell], tests: Sequence[Rejections]) -> str:
    """Return what the page says about differences of two models."""
    held = [cell for cell in cells if cell.measure in DIFFERENCES and cell.level == 0.95]
    (decides,) = (measure.name for measure in COMPARED if measure.difference.decides)
    rejected = {row.models: row.rejected_5 for row in tests if row.test == f"pair {decides}"}
    both, equal = (
        " % and ".join(f"{100 * rejected[kind]:.1f}" for kind in KINDS if kind.startswith(start)) + " %"
        for start in ("both calibrated", "equally wrong")
    )
    return paragraph(
        "For two models on the same rows, the coverage of the 95 % interval of a difference is at least "
        f"{min(cell.coverage for cell in held):.3f}, and reaches the [goal](#settings-below-the-goal) in "
        f"{sum(not cell.fails for cell in held)} of {len(held)} settings. At the 5 % level, the test of equal "
        f"calibration rejects {both} of pairs of calibrated models, {equal} of pairs of equally miscalibrated models, "
        f"and {100 * rejected['one calibrated']:.0f} % of pairs with only one calibrated model."
    )


def peers(cells: Sequence[Cell]) -> str:
    """Return how often the intervals of other packages cover the true value of calibrated scores, in words."""
    null = [cell for cell in cells if cell.level == 0.95 and cell.tilt == 1.0]
    parts, covered = [], []
    errors = ("smooth ECE", "RMSCE, equal-frequency bins")
    for name, own, error in zip(PEERS, ("smece", "rmsce"), errors, strict=True):
        theirs = [cell for cell in null if cell.measure == name]
        settings = {(cell.law, cell.n) for cell in theirs}
        covered += [cell.coverage for cell in null if cell.measure == own and (cell.law, cell.n) in settings]
        low, high = min(cell.coverage for cell in theirs), max(cell.coverage for cell in theirs)
        parts.append(f"{name} ({error}) in {100 * low:.0f} to {100 * high:.0f} %")
    return paragraph(
        "With calibrated scores, the 95 % bootstrap intervals of other packages too rarely cover the true value: "
        f"{' of data sets, and '.join(parts)}. In the same settings, the intervals of calibrant for smooth ECE and "
        f"RMSCE cover the true value in at least {100 * min(covered):.1f} %."
    )


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
        figure.supylabel("coverage (below 0.8: in coverage.csv)")
        figure.savefig(path)
        plt.close(figure)
