"""The numbers behind each picture of a page: a table to read, and the same as CSV to download."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import repeat
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from calibrant.render import words
from calibrant.render.style import Estimate, Facts, Summary, number, percent, signed
from calibrant.runtime.dataclass import dataclass

LISTED: Final = 32  # points of a curve that a page lists; the file has all

#: A mean score below which the axes of a diagram are those of rare events.
RARE: Final = 0.03

#: How a formula may begin, in wide characters too. Spreadsheets skip a tab or an end of line before it.
_BEFORE_FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


class Column(NamedTuple):
    """A column of a table: the heading and the texts on the page, and the exact values of the file by their names."""

    heading: str
    texts: Sequence[str]
    exact: Mapping[str, Sequence[Any]]

    @classmethod
    def of(cls, heading: str, name: str, values: Iterable[Any], write: Callable[[Any], str] = str) -> Column:
        """Return a column of values that are written one by one."""
        values = list(values)
        return cls(heading, list(map(write, values)), {name: values})


@dataclass(frozen=True)
class Table:
    """Numbers: ``columns`` holds the exact ones by name, ``rows`` the texts on the page, under ``headings``.

    ``name`` is the name of the file, ``marked`` the rows that stand out, ``texts`` the columns of words, ``minor``
    those that a phone leaves out. The last text of a row with fewer texts than headings takes the rest of its width.
    """

    name: str
    columns: Mapping[str, Sequence[Any]]
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    marked: Sequence[bool] = ()
    texts: Sequence[int] = (0,)
    minor: Sequence[int] = ()

    @classmethod
    def of(cls, name: str, columns: Sequence[Column], **look: Sequence[Any]) -> Table:
        """Return the table of columns; ``look`` is the rest of the arguments."""
        exact = {key: values for column in columns for key, values in column.exact.items()}
        rows = list(zip(*(column.texts for column in columns), strict=True))
        return cls(name, exact, [column.heading for column in columns], rows, **look)

    @property
    def filename(self) -> str:
        return f"{self.name}.csv"

    def of_rows(self, indices: Sequence[int]) -> Table:
        """Return the table with these rows of the page alone; the file keeps all."""
        marked = [self.marked[i] for i in indices] if self.marked else ()
        return replace(self, rows=[self.rows[i] for i in indices], marked=marked)

    def to_csv(self) -> str:
        """Return the exact values as CSV; missing values are empty.

        A spreadsheet would compute a name such as ``=1+1``: an apostrophe stands before it.
        """
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\r\n")  # so that names with \r or \n are quoted
        writer.writerow(map(_no_formula, self.columns))
        writer.writerows(map(_no_formula, row) for row in zip(*self.columns.values(), strict=True))
        return text.getvalue()

    @property
    def link(self) -> str:
        """Return the CSV as a data URL, which needs no server."""
        return "data:text/csv;charset=utf-8," + quote(self.to_csv(), safe=",.:;+-_", errors="replace")


def _no_formula(cell: Any) -> Any:
    """Return a text that a spreadsheet does not take for a formula; numbers are unchanged."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_BEFORE_FORMULAS) else cell


# ---------------------------------------------------------------- how numbers are written


def rows_words(count: float) -> str:
    """Return a number of rows, or their weight, with the word."""
    return f"weight {words.amount(count)}" if isinstance(count, float) else words.rows_text(count)


def share_text(share: float) -> str:
    """Return a share in percent, to three digits."""
    return f"{100 * share:.3g} %"


def score_text(value: float | None, written: str = ".3f") -> str:
    """Return a score or a rate; empty if missing."""
    return "" if value is None else f"{value:{written}}"


def score_writer(*, rare: bool) -> Callable[[float | None], str]:
    """Return how scores are written: with three decimal places, scores of rare events with three digits."""
    return partial(score_text, written=".3g") if rare else score_text


def is_rare(bins: Facts) -> bool:
    """Return whether the scores of a diagram are small on average, so that equal steps would hide them."""
    pairs = zip(bins["proportions"], bins["confidences"], strict=True)
    return bool(sum(share * score for share, score in pairs if score is not None) < RARE)


def ends_text(low: float | None, high: float | None, write: Callable[[float], str] = number) -> str:
    """Return an interval; empty if missing."""
    return "" if low is None or high is None else f"{write(low)} – {write(high)}"


def chance_text(p_value: float | None, n_resamples: int = 0) -> str:
    """Return a p-value without an equals sign; empty if missing."""
    return "" if p_value is None else words.chance(p_value, n_resamples).removeprefix("= ")


# ---------------------------------------------------------------- the tables


def diagram(bins: Facts, level: float | None, name: str = "reliability-diagram") -> Table:
    """Return the filled bins of a diagram."""
    filled = [b for b, score in enumerate(bins["confidences"]) if score is not None]
    write = score_writer(rare=is_rare(bins))

    def of(key: str, shift: int = 0) -> list[Any]:
        return [bins[key][b + shift] for b in filled]

    def between(heading: str, **exact: list[Any]) -> Column:
        return Column(heading, [ends_text(low, high, write) for low, high in zip(*exact.values(), strict=True)], exact)

    counts, shares, mean_scores, event_rates = map(of, ("counts", "proportions", "confidences", "accuracies"))
    columns = [
        between("score", left=of("edges"), right=of("edges", 1)),
        Column(words.counted(bins["counts"]), list(map(words.amount, counts)), {"count": counts}),
        Column("share", list(map(share_text, shares)), {"proportion": shares}),
        Column("predicted", list(map(write, mean_scores)), {"confidence": mean_scores}),
        Column("observed", list(map(write, event_rates)), {"accuracy": event_rates}),
    ]
    if level is not None and bins["lows"] is not None:
        columns.append(between(f"{percent(level)} CI", low=of("lows"), high=of("highs")))
    if level is not None and bins["band_lows"] is not None:
        columns.append(between("if calibrated", band_low=of("band_lows"), band_high=of("band_highs")))
    return Table.of(name, columns)


def steps(n: int, most: int) -> list[int]:
    """Return at most so many of n indices, at equal steps."""
    return sorted({round(i * (n - 1) / (most - 1)) for i in range(most)}) if n > 1 else [0]


def curve(kind: str, points: Facts, level: float, write: Callable[[float | None], str]) -> Table:
    """Return the points of a curve with its bands; the page lists some of them."""
    listed = steps(len(points["scores"]), LISTED)

    def of(heading: str, name: str, key: str) -> Column:
        return Column(heading, [write(points[key][i]) for i in listed], {name: points[key]})

    def band(heading: str, name: str) -> Column:
        lows, highs = points[f"{name}_lows"], points[f"{name}_highs"]
        texts = [ends_text(lows[i], highs[i], write) for i in listed]
        return Column(heading, texts, {f"{name}_low": lows, f"{name}_high": highs})

    bands = "simultaneous band" if points["bands"] == "simultaneous" else "band"
    columns = [
        of("score", "score", "scores"),
        of("observed", "rate", "rates"),
        band(f"{percent(level)} {bands}", "confidence"),
        band("if calibrated", "consistency"),
    ]
    return Table.of(f"{kind}-curve", columns)


def _interval(parts: Iterable[Estimate], level: float, writes: Iterable[Callable[[float], str]]) -> Column:
    """Return the column of the intervals of estimates."""
    ends = [(part["low"], part["high"]) for part in parts]
    texts = [ends_text(*pair, write) for pair, write in zip(ends, writes, strict=False)]
    return Column(f"{percent(level)} CI", texts, {"low": [low for low, _ in ends], "high": [high for _, high in ends]})


def floors(parts: Iterable[Estimate]) -> tuple[list[float | None], list[float | None]]:
    """Return the means and the upper ends of the noise floors of estimates."""
    floors = [part["floor"] or {"mean": None, "upper": None} for part in parts]
    return [floor["mean"] for floor in floors], [floor["upper"] for floor in floors]


def number_texts(values: Iterable[float | None]) -> list[str]:
    """Return numbers as texts; empty if missing."""
    return ["" if value is None else number(value) for value in values]


def measures(summary: Summary) -> Table:
    """Return every measure with its interval, noise floor and p-value."""
    shown, level = words.shown_estimates(summary), summary["level"]
    parts = list(shown.values())
    writes = [signed if summary["measures"][key]["signed"] else number for key in shown]
    values = [math.inf if words.is_infinite(part) else part["value"] for part in parts]
    columns = [
        Column("measure", [words.label_of(summary, key) for key in shown], {"measure": list(shown)}),
        Column("estimate", list(map(words.value_text, parts, writes)), {"value": values}),
    ]
    if level is None:
        return Table.of("measures", columns)
    (means, uppers), p_values = floors(parts), [part["p_value"] for part in parts]
    tests = {"p_value": p_values, "error_bound": [part["error_bound"] for part in parts]}
    columns += [
        _interval(parts, level, writes),
        Column("calibrated: mean", number_texts(means), {"noise_mean": means}),
        Column(f"calibrated: {percent(level)} below", number_texts(uppers), {"noise_upper": uppers}),
        Column("p", [chance_text(p, summary["n_resamples"]) for p in p_values], tests),
    ]
    table = Table.of("measures", columns, minor=(3, 4))
    rows = [
        (*row[:2], words.no_interval(part)) if part["low"] is None and part["floor"] is None else row
        for row, part in zip(table.rows, parts, strict=True)
    ]
    return replace(table, rows=rows)


def classes(summary: Summary, most: int | None = None) -> Table:
    """Return the errors of all classes, or of the ``most`` worst, the largest first, with the test of each."""
    classwise = summary["classwise"]
    order = by_error(classwise["errors"])[:most]

    def of(key: str) -> list[Any]:
        return [classwise[key][k] for k in order]

    names, supports, errors = map(of, ("names", "supports", "errors"))
    counts = words.counted(classwise["bins"]["count"])
    columns = [
        Column("class", list(map(str, names)), {"class": names}),
        Column(f"{counts} of it", list(map(words.amount, supports)), {"rows": supports}),
        Column("ECE", number_texts(errors), {"ece": errors, "kept": of("kept")}),
    ]
    if classwise["adjusted_p_values"] is None:
        return Table.of("classes", columns)
    marks, adjusted = words.called_out(summary), of("adjusted_p_values")
    marked = [marks[k] for k in order]
    tests = {"p_value": of("p_values"), "adjusted_p_value": adjusted, "called_out": marked}
    columns.append(Column("p adjusted", list(map(chance_text, adjusted)), tests))
    return Table.of("classes", columns, marked=marked)


def by_error(errors: Sequence[float | None]) -> list[int]:
    """Return the indices of errors, the largest first, missing ones last."""
    return sorted(range(len(errors)), key=lambda k: (errors[k] is None, -(errors[k] or 0.0)))


def class_bins(summary: Summary) -> Table:
    """Return the filled bins of all classes."""
    classwise = summary["classwise"]
    columns = {"index": classwise["bins"]["class"], **classwise["bins"]}
    columns["class"] = [classwise["names"][k] for k in columns["index"]]
    return Table("class-bins", columns, (), ())


def groups(summary: Summary) -> Table:
    """Return the ECE of every group with its interval and noise floor, and the test of the group."""
    groups, level = summary["groups"], summary["level"]
    names, eces = [group["name"] for group in groups], [group["ece"] for group in groups]
    counts, gaps = [group["report"]["n"] for group in groups], [group["mean_gap"]["value"] for group in groups]
    values = [ece["value"] for ece in eces]
    columns = [
        Column("group", list(map(str, names)), {"group": names}),
        Column("rows", list(map(words.amount, counts)), {"rows": counts}),
        Column("difference", list(map(signed, gaps)), {"mean_gap": gaps}),
        Column("ECE", list(map(number, values)), {"ece": values}),
    ]
    if level is None:
        return Table.of("groups", columns)
    tests = {key: [group[key] for group in groups] for key in ("p_value", "adjusted_p_value", "called_out", "flag")}
    means, uppers = floors(eces)
    columns += [
        _interval(eces, level, repeat(number)),
        Column(
            f"calibrated: {percent(level)} below", number_texts(uppers), {"noise_mean": means, "noise_upper": uppers}
        ),
        Column("p adjusted", [group["flag"] or chance_text(group["adjusted_p_value"]) for group in groups], tests),
    ]
    return Table.of("groups", columns, marked=tests["called_out"], minor=(5,))
