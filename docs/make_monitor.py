"""The data and the screens of docs/monitor.md, and its simulations: docs/make_examples.py shows them."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent

#: The simulations, which benchmarks/simulation/monitor.py writes.
SIMULATED = ROOT / "docs" / "monitor.csv"

#: Real forecasts, which are not in the repository: without this folder, their screen does not change.
GAMES = ROOT.parent / "shared" / "data"

#: Each channel with its share of the documents, and by how much its documents become harder in week 33, in log-odds.
CHANNELS = {"email": (0.4, 0.3), "portal": (0.3, 0.3), "scan": (0.3, 1.0)}

WEEKS = (31, 32, 33, 34)
COLUMNS = "--score confidence --outcome correct"


def write_documents(folder: Path) -> None:
    """Write labelled documents: those of July, of each of four weeks, and of the four weeks together.

    The confidences are calibrated until week 33, when new forms arrive that the model knows less well.
    """
    rng = np.random.default_rng(1)
    head = "day,channel,confidence,correct"
    july = documents(rng, 3_000, date(2026, 7, 20), new=False)
    weeks = {
        f"2026-W{week}": documents(rng, 600, date.fromisocalendar(2026, week, 1), new=week >= 33) for week in WEEKS
    }
    together = [line for lines in weeks.values() for line in lines]
    for name, lines in {"july": july, **weeks, "documents": together}.items():
        (folder / f"{name}.csv").write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")


def documents(rng: np.random.Generator, n: int, monday: date, *, new: bool) -> list[str]:
    """Return so many documents of five days as lines of CSV."""
    lines = []
    names, shares = list(CHANNELS), [share for share, _ in CHANNELS.values()]
    for _ in range(n):
        channel = names[rng.choice(len(names), p=shares)]
        log_odds = rng.normal(2.4, 1.6)
        day = monday + timedelta(days=int(rng.integers(5)))
        correct = rng.random() < expit(log_odds - new * CHANNELS[channel][1])
        lines.append(f"{day},{channel},{expit(log_odds):.4f},{int(correct)}")
    return lines


def expit(log_odds: float) -> float:
    """Return the probability with these log-odds."""
    return 1 / (1 + math.exp(-log_odds))


def screens(run: Callable[..., tuple[str, int]]) -> dict[str, str]:
    """Return the screens of the page, from a function that runs a command line in the current folder."""
    write_documents(Path())
    run(f"calibrant threshold july.csv {COLUMNS} --json threshold.json --quiet")
    *_, (last, status) = (run(f"calibrant monitor documents.json 2026-W{week}.csv {COLUMNS}") for week in WEEKS)
    for week in WEEKS:
        by_channel, _ = run(f"calibrant monitor channels.json 2026-W{week}.csv {COLUMNS} --by channel")
        promised, _ = run(f"calibrant monitor promise.json 2026-W{week}.csv {COLUMNS} --threshold threshold.json")
    return {
        "monitor-alarm.txt": f"{last[: last.index('  E: evidence')]}$ echo $?\n{status}\n",
        "monitor-channels.txt": part(by_channel, "Groups"),
        "monitor-promise.txt": sentence(promised, "the promised error rate of the threshold"),
    }


def games(run: Callable[..., tuple[str, int]]) -> dict[str, str]:
    """Return a table of real forecasts by month; none where their folder is missing."""
    if not GAMES.is_dir():
        return {}
    lines = [heads(["forecasts", "months", "games", "result"])]
    for sport, outcome in {"nba": "prob1_outcome", "mlb": "'prob1_outcome = 1'"}.items():
        name = f"{sport}_games.csv"
        Path(name).write_bytes((GAMES / name).read_bytes())
        text, _ = run(
            f"calibrant monitor {sport}.json {name} --score prob1 --outcome {outcome} --time date --every month"
        )
        slices, rows = re.findall(r"^([\d,]+) slices, ([\d,]+) rows", text, re.MULTILINE)[0]
        first, _, _ = " ".join(re.split(r"\n  (?=\S)", verdict(text))[1].split()).partition(": evidence")
        lines.append(line([sport.upper(), slices, rows, first]))
    return {"monitor-games.md": "\n".join(lines) + "\n"}


def verdict(text: str) -> str:
    """Return the beginning of an output, to the end of its verdict."""
    return "\n\n".join(text.split("\n\n")[:2]) + "\n"


def part(text: str, heading: str) -> str:
    """Return the command line of an output and the table below a heading."""
    table = text[text.index(heading) : text.index("\n  the E of the monitor")]
    return f"{text.splitlines()[0]}\n...\n{table}\n"


def sentence(text: str, words: str) -> str:
    """Return the command line of an output and the sentence of its verdict with some words."""
    found = next(each for each in re.split(r"\n(?=  \S)", verdict(text)) if words in " ".join(each.split()))
    return f"{text.splitlines()[0]}\n...\n{found.rstrip()}\n...\n"


# ---------------------------------------------------------------- simulations

#: What the settings of the simulations are called on the page.
SETTINGS = {
    "uniform": "uniform scores",
    "Beta(1, 20)": "rare events, scores Beta(1, 20)",
    "Beta(8, 1)": "high scores, Beta(8, 1)",
    "tenths": "uniform scores, rounded to tenths",
    "20 clusters": "clusters of 10, correlation 0.3",
    "10 groups": "ten groups",
    "tolerance 0.02": "errors of 0.02, `tolerance=0.02`",
    "odds 1.1": "odds 1.1 times as large, `tolerance_odds=1.1`",
    "calibrated": "calibrated: share with an alarm",
    "top": "too high in the top fifth",
}
METHODS = {"calibrant, rows": "calibrant, clusters not declared"}

#: What an alarm says: the statistic in the file, its name on the page, and which of the values for several drifts
#: the table shows. The first two repairs are right for a shift and for a slope.
SAID = {
    "median delay": ("slices from the drift to the alarm, median", None),
    "range of starts covers the onset": ("90 % credible interval covers the onset, lowest", min),
    "interval of the size covers": ("95 % CI covers the size, lowest", min),
    "repair": ("proposes the right repair, lowest", min),
}
REPAIRS = {"shift": "repair: offset", "slope": "repair: slope", "scores": "repair: offset"}

Row = dict[str, str]


def simulated() -> dict[str, str]:
    """Return the tables of the simulations in Markdown; none before the simulations are done."""
    if not SIMULATED.exists():
        return {}
    with SIMULATED.open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))

    def of(kind: str) -> list[Row]:
        return [row for row in rows if row["kind"] == kind]

    return {
        "monitor-alarms.md": alarms(of("false alarms")),
        "monitor-delays.md": crossed([row for row in of("delays") if row["statistic"] == "median delay"], "n"),
        "monitor-means.md": means(of("mean difference")),
        "monitor-said.md": said([*of("drift"), *of("size")]),
        "monitor-promises.md": promised_table(of("promise")),
        "monitor-peers.md": crossed([row for row in of("peers") if "first" not in row["statistic"]], "method"),
    }


def alarms(rows: list[Row]) -> str:
    """Return the largest share of calibrated models with an alarm, by setting, over the rows in a slice."""
    lines = [heads(["calibrated models", "share with an alarm, highest"])]
    found: dict[str, list[Row]] = {}
    for row in rows:
        name = SETTINGS.get(row["setting"], row["setting"])
        if row["method"] in METHODS:
            name = f"{name}; clusters not declared"
        if row["statistic"].startswith("group"):
            name = f"{name}: a group is flagged"
        found.setdefault(name, []).append(row)
    for name, held in found.items():
        lines.append(line([name, number(max(held, key=lambda row: float(row["value"])))]))
    return "\n".join(lines) + "\n"


def crossed(rows: list[Row], key: str) -> str:
    """Return a table with a line for each value of a key, and a column for each setting."""
    settings = list(dict.fromkeys(row["setting"] for row in rows))
    cells = {(row[key], row["setting"]): row for row in rows if row["statistic"] != "alarm"}
    first = "rows in a slice" if key == "n" else "method"
    lines = [heads([first, *(SETTINGS.get(setting, setting) for setting in settings)])]
    for value in dict.fromkeys(row[key] for row in rows):
        name = f"{int(value):,}" if key == "n" else value
        lines.append(line([name, *(number(cells.get((value, setting))) for setting in settings)]))
    return "\n".join(lines) + "\n"


def means(rows: list[Row]) -> str:
    """Return in words how often the confidence sequence of the mean difference misses, and its width."""
    missed, widths = (
        [float(row["value"]) for row in rows if row["statistic"] == name]
        for name in ("missed within 100 slices", "width")
    )
    return (
        f"In each of {len(missed)} settings, at most {100 * max(missed):.1f} % of monitors exclude the true value "
        f"within 100 slices.\nAfter 100 slices, the interval is {min(widths):.2f} to {max(widths):.2f} times as wide "
        "as Robbins' normal mixture interval.\n"
    )


def said(rows: list[Row]) -> str:
    """Return what an alarm says about drifts, with a column for each number of rows, and for one constant score."""
    columns = {"200 rows": [], "2,000 rows": [], "one score, 50 rows": []}
    for row in rows:
        columns["one score, 50 rows" if row["kind"] == "size" else f"{int(row['n']):,} rows"].append(row)
    lines = [heads(["", *columns])]
    for key, (name, pick) in SAID.items():
        cells = []
        for held in columns.values():
            found = [
                float(row["value"])
                for row in held
                if row["statistic"] == (REPAIRS[row["setting"].split(" ")[0]] if key == "repair" else key)
            ]
            cells.append("–" if not found else f"{pick(found):.3f}" if pick else f"{min(found):g} to {max(found):g}")
        lines.append(line([name, *cells]))
    return "\n".join(lines) + "\n"


def promised_table(rows: list[Row]) -> str:
    """Return how often the promise of a threshold raises an alarm, and after how many slices."""
    lines = [heads(["error rate at and above the threshold", "share with an alarm", "median delay"])]
    for setting in dict.fromkeys(row["setting"] for row in rows):
        held = {row["statistic"]: row for row in rows if row["setting"] == setting}
        alarm, when = next((row, name[6:]) for name, row in held.items() if name.startswith("alarm "))
        delay = held.get("median delay")
        lines.append(line([setting.removeprefix("risk "), f"{number(alarm)} {when}", number(delay)]))
    return "\n".join(lines) + "\n"


def number(row: Row | None) -> str:
    """Return a share with three decimals, or a median; a dash where nothing was simulated."""
    if row is None:
        return "–"
    value = float(row["value"])
    if not row["statistic"].startswith("median"):
        return f"{value:.3f}"
    return f"{value:g}" if math.isfinite(value) else "more than 200"


def heads(names: list[str]) -> str:
    """Return the two lines that begin a table."""
    return f"{line(names)}\n{'|---' * len(names)}|"


def line(cells: list[str]) -> str:
    """Return a line of a table."""
    return f"| {' | '.join(cells)} |"
