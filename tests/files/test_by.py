"""`--by`: groups of rows by columns, by many numbers, by dates, by SQL and by several columns; and their order."""

from __future__ import annotations

import json
import math
import shlex
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrant import evaluate
from calibrant.errors import FileError
from calibrant.files import column_values as of_files
from calibrant.files.column_options import Cuts
from calibrant.files.column_values import MOST_VALUES, PARTS, Values, ValueWords, cut, joined
from calibrant.inputs.group_rows import natural_order
from tests.files.test_streaming import KINDS, read_predictions, stream_predictions, write
from tests.in_process import fail, run, succeed

N = 1000
RNG = np.random.default_rng(7)
P = RNG.random(N)
Y = (RNG.random(N) < P).astype(int)
AGES = RNG.integers(18, 90, N)
SITES = np.array(["north", "south", "east"])[RNG.integers(0, 3, N)]
COLUMNS = {"score": P, "outcome": Y}


def groups_of(path: str, *by: str, **options: Any) -> dict[str, int]:
    """Return the rows of each group, which are the same whether rows are kept or not."""
    kept, streamed = read_predictions([path], by=by, **options), stream_predictions([path], by=by, **options)
    names, counts = np.unique([str(name) for name in kept.groups], return_counts=True)
    found = dict(zip(names.tolist(), counts.tolist(), strict=True))
    assert {name: group.n for name, group in streamed.sketch.groups.items()} == found
    assert kept.described() == streamed.described()
    return found


def naive(values: np.ndarray[Any, Any]) -> dict[tuple[float, float], int]:
    """Cut values one after the other: a group ends at the first value that k fifths of all rows do not exceed."""
    uppers = [min(v for v in values if np.mean(values <= v) >= k / PARTS - 1e-12) for k in range(1, PARTS + 1)]
    found, below = {}, -math.inf
    for upper in dict.fromkeys(uppers):
        inside = values[(values > below) & (values <= upper)]
        found[inside.min(), inside.max()] = len(inside)
        below = upper
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_many_numbers_become_five_groups_of_about_equal_size(kind: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"a.{kind}", {**COLUMNS, "age": AGES})
    found = groups_of(path, "age")
    assert found == {f"{low} to {high}": n for (low, high), n in naive(AGES).items()}
    described = read_predictions([path], by=("age",)).described()
    assert "groups: age (5 groups of about equal size; to make each number a group, pass --by-values)" in described
    names, counts = np.unique(AGES, return_counts=True)
    values = groups_of(path, "age", by_values=True)
    assert values == dict(zip(map(str, names), counts.tolist(), strict=True))


@pytest.mark.parametrize(
    ("values", "names"),
    [
        pytest.param(np.arange(N) % MOST_VALUES, [str(k) for k in range(MOST_VALUES)], id="fifty numbers"),
        pytest.param(np.arange(N) % 51, ["0 to 9", "10 to 19", "20 to 29", "30 to 40", "41 to 50"], id="one more"),
        pytest.param([f"{k % 60:03d}" for k in range(N)], [f"{k:03d}" for k in range(60)], id="codes, no numbers"),
        pytest.param([f"ward {k % 60}" for k in range(N)], [f"ward {k}" for k in range(60)], id="words"),
        pytest.param([str(k % 60) if k else "other" for k in range(N)], ["other", *map(str, range(60))], id="a word"),
        pytest.param(np.repeat([3, *range(100, 200)], [900, *[1] * 100]), ["3", "100 to 199"], id="ties stay whole"),
        pytest.param(
            np.linspace(0, 1, N) / 1000,
            ["0 to 0.000199", "0.0002 to 0.000399", "0.0004 to 0.0006", "0.000601 to 0.0008", "0.000801 to 0.001"],
            id="fractions",
        ),
        pytest.param(-(np.arange(N) % 60.0), ["-59 to -47", "-46 to -35", "-34 to -23", "-22 to -11", "-10 to 0"]),
    ],
)
def test_only_many_numbers_are_cut(values: Any, names: list[str], tmp_path: Path) -> None:
    assert set(groups_of(write(tmp_path / "a.csv", {**COLUMNS, "g": values}), "g")) == set(names)
    assert set(groups_of(write(tmp_path / "a.parquet", {**COLUMNS, "g": values}), "g")) == set(names)


def test_groups_do_not_depend_on_the_order_of_rows_and_files(tmp_path: Path) -> None:
    order = np.argsort(AGES)
    halves = [
        write(tmp_path / f"{k}.parquet", {"score": P[rows], "outcome": Y[rows], "age": AGES[rows]})
        for k, rows in enumerate((order[: N // 2], order[N // 2 :]))
    ]
    whole = groups_of(write(tmp_path / "all.parquet", {**COLUMNS, "age": AGES}), "age")
    for paths in (halves, halves[::-1]):
        found = stream_predictions(paths, by=("age",)).sketch.groups
        assert {name: group.n for name, group in found.items()} == whole


def test_a_file_that_is_left_out_does_not_stop_the_look(tmp_path: Path) -> None:
    good = write(tmp_path / "a.csv", {**COLUMNS, "age": AGES})
    bad = write(tmp_path / "b.csv", {**COLUMNS, "age": AGES})
    Path(bad).write_text(Path(bad).read_text() + "0.5,1\n")
    found = read_predictions([good], by=("age",))
    kept = stream_predictions([good, bad], by=("age",), keep_going=True)
    assert [Path(each.path).name for each in kept.omitted] == ["b.csv"]
    assert set(kept.sketch.groups) == set(found.groups)
    with pytest.raises(FileError, match=r"b\.csv: line 1002 has 2 fields"):
        read_predictions([good, bad], by=("age",))


def test_more_numbers_than_are_counted_lose_their_last_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_files, "_COUNTED", 2048)
    numbers = np.concatenate([RNG.normal(0, 3, 3000), RNG.lognormal(0, 4, 2000)])
    found = []
    for order in (np.arange(5000), np.argsort(numbers), RNG.permutation(5000)):
        values = Values()
        for part in np.array_split(numbers[order], 7):
            values.add(ValueWords.of(part))
        cuts = values.cuts()
        assert cuts is not None
        found.append((cuts.names, cuts.uppers.tolist()))
        assert MOST_VALUES < len(values._values) <= 2048
    assert found[0] == found[1] == found[2]
    firsts = [numbers[numbers > below].min() for below in (-math.inf, *cuts.uppers[:-1])]
    assert cuts.names == Cuts.of(firsts, cuts.uppers.tolist()).names
    assert set(cuts.uppers) <= set(numbers)
    shares = np.diff(np.searchsorted(np.sort(numbers), cuts.uppers, side="right"), prepend=0) / 5000
    assert len(shares) == PARTS
    assert np.abs(shares - 1 / PARTS).max() <= values._values[:, 2].max() / 5000  # a group ends with a cell


def test_infinities_are_one_number() -> None:
    values = Values()
    for _ in range(60):
        values.add(ValueWords.of(np.array([1.0, math.inf, -math.inf, -math.inf, math.nan])))
    assert values.cuts() is None


def test_names_of_cuts_are_as_long_as_tells_them_apart() -> None:
    cuts = Cuts.of([0.12341, 0.12344, 2.0], [0.12343, 1.0, 2.0])
    assert cuts.names == ("0.12341 to 0.12343", "0.12344 to 1", "2")
    assert cut(ValueWords.of(np.array([0.12343, 0.5, 2.0, math.nan])), cuts).array()[:3].tolist() == list(cuts.names)


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow", "jsonl"])
def test_months_and_weeks_of_dates(kind: str, tmp_path: Path) -> None:
    days = [date(2024, 12, 20) + timedelta(int(k)) for k in RNG.integers(0, 30, N)]
    values: Any = [day.isoformat() for day in days] if kind in ("csv", "jsonl") else np.array(days, "M8[D]")
    path = write(tmp_path / f"a.{kind}", {**COLUMNS, "date": values})
    months, counts = np.unique([day.strftime("%Y-%m") for day in days], return_counts=True)
    assert groups_of(path, "month(date)") == dict(zip(months, counts.tolist(), strict=True))
    years_and_weeks = ["{}-W{:02d}".format(*day.isocalendar()) for day in days]
    weeks, counts = np.unique(years_and_weeks, return_counts=True)
    assert groups_of(path, "WEEK( date )") == dict(zip(weeks, counts.tolist(), strict=True))
    quarters = groups_of(path, "date_trunc('quarter', date)")
    assert set(quarters) == {"2024-10-01", "2025-01-01"}


def test_several_columns_name_groups_together(tmp_path: Path) -> None:
    flags = RNG.integers(0, 2, N)
    columns = {**COLUMNS, "site": SITES, "late": flags, "age": AGES}
    for kind in KINDS:
        path = write(tmp_path / f"a.{kind}", columns)
        names, counts = np.unique([f"{s} · {f}" for s, f in zip(SITES, flags, strict=True)], return_counts=True)
        assert groups_of(path, "site", "late") == dict(zip(names, counts.tolist(), strict=True)), kind
        assert len(groups_of(path, "site", "age")) == 3 * PARTS, kind
    path = str(tmp_path / "a.parquet")
    sql = groups_of(path, "site = 'east'", "late + 1")
    assert sum(sql.values()) == N
    assert {name.split(" · ")[0].lower() for name in sql} == {"true", "false"}


def test_names_that_hold_the_separator_stay_apart() -> None:
    first, other = np.array(["a · b", "a"], object), np.array(["c", "b · c"], object)
    words = joined([ValueWords(first, np.array([0, 1])), ValueWords(other, np.array([0, 1]))])
    assert words.array().tolist() == ["'a · b' · c", "a · 'b · c'"]


@pytest.mark.parametrize(
    ("by", "said"),
    [
        (
            "age,site",
            (
                "--by 'age,site' does not give one value for each row; for several columns, pass --by once "
                "for each column"
            ),
        ),
        ("[age]", "--by '[age]' does not give one value for each row"),
        ("month(dat)", "--by 'month(dat)': there is no column 'dat'; did you mean 'date'?"),
        ("month(site)", "--by 'month(site)': 'a' is not a date or a time, such as 2026-11-30"),
        ("sit", "has no column 'sit' (--by); did you mean 'site'?"),
        ("age); DROP TABLE x; --", "--by 'age); DROP TABLE x; --'"),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_what_cannot_name_groups_is_refused(by: str, said: str, kind: str, tmp_path: Path) -> None:
    columns = {"score": [0.2, 0.7], "outcome": [0, 1], "age": [1, 2], "site": ["a", "b"], "date": ["2024-01-01"] * 2}
    err = fail("report", write(tmp_path / f"a.{kind}", columns), "--by", by)
    assert said in err, err


@pytest.mark.parametrize(
    ("by", "dates", "proposed", "groups"),
    [
        ("month(date)", ["31.01.2025", "01.02.2025"], ["month(strptime(date, '%d.%m.%Y'))"], 2),
        ("week(date)", ["31.01.25", "01.02.25"], ["week(strptime(date, '%d.%m.%y'))"], 1),
        ("quarter(date)", ["2025-01-31", "2025-04-01"], ["quarter(CAST(date AS DATE))"], 2),
        ("month(date)", ["01/31/2025 08:15", "02/01/2025 09:00"], ["month(strptime(date, '%m/%d/%Y %H:%M'))"], 2),
        (
            "month(date)",
            ["01/02/2025", "01/03/2025"],
            ["month(strptime(date, '%d/%m/%Y'))", "month(strptime(date, '%m/%d/%Y'))"],
            2,
        ),
        ("month(date)", ["January", "May"], [], 0),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_dates_in_texts_are_read_as_proposed(
    by: str, dates: list[str], proposed: list[str], groups: int, kind: str, tmp_path: Path
) -> None:
    path = write(tmp_path / f"a.{kind}", {"score": [0.2, 0.7] * 20, "outcome": [0, 1] * 20, "date": dates * 20})
    status, _, err = run("report", path, "--by", by)
    is_typed = kind == "csv" and dates[0].startswith("2025-")  # DuckDB reads ISO dates in a CSV itself
    assert status == (0 if is_typed else 1)
    if is_typed:
        return
    if not proposed:
        assert "the columns are score, outcome, date" in err
        return
    typed = " or ".join(f'--by "{sql}"' for sql in proposed)
    assert err.rstrip().endswith(f"to read the cells as dates, pass {typed}")
    status, out, _ = run("report", path, *shlex.split(typed.partition(" or ")[0]), "--json", "-")
    assert (status, len(json.loads(out)["groups"])) == (0, groups)


def test_a_column_of_an_archive_that_is_missing_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.npz", {**COLUMNS, "site": SITES})
    status, _, err = run("report", path, "--by", "site", "--by", "month(date)")
    assert (status, "has no array 'month(date)' (--by)" in err) == (1, True)


# ---------------------------------------------------------------- the order of groups


@pytest.mark.parametrize(
    "names",
    [
        ["-2", "0", "1.5", "9", "10", "1e3"],
        ["2 to 9", "10 to 18", "100 to 200"],
        ["0.5 to 1 · a", "2 to 3 · a", "10 to 11 · a"],
        ["(-1.0, 0.0]", "(0.0, 10.0]", "(10.0, 200.0]"],
        ["2024-09", "2024-10", "2025-01"],
        ["2024-W09", "2024-W10", "2025-W01"],
        ["2024-01-31", "2024-02-01", "2024-02-01 12:00:00"],
    ],
)
def test_numbers_and_dates_have_an_order(names: list[str]) -> None:
    places = RNG.permutation(len(names)).tolist()
    shuffled = [names[place] for place in places]
    order = natural_order(shuffled)
    assert order is not None
    assert [shuffled[place] for place in order] == names


@pytest.mark.parametrize("names", [["a", "b"], ["1", "b"], ["007", "008"], ["2024-1-1", "x"], ["nan", "1"]])
def test_other_names_have_none(names: list[str]) -> None:
    assert natural_order(names) is None


def test_other_groups_begin_with_the_strongest_evidence(tmp_path: Path) -> None:
    shift = {"a": 0.0, "b": 0.25, "c": 0.1, "few": 0.4}
    groups = np.array(["a", "b", "c", "few"])[np.minimum(np.arange(1210) // 400, 3)]
    p = RNG.random(1210) * 0.6
    y = (RNG.random(1210) < p + np.array([shift[name] for name in groups])).astype(int)
    report = evaluate(p, y, groups=groups, n_resamples=50)
    found = [group.name for group in report.groups]
    assert found == ["b", "c", "a", "few"]  # too few rows have no p-value and come last
    p_values = [group.p_value for group in report.groups[:3]]
    assert p_values == sorted(p_values)
    plain = evaluate(p, y, groups=groups, level=None)
    eces = [group.ece.value for group in plain.groups]
    assert all(a >= b for a, b in pairwise(eces))
    path = write(tmp_path / "a.parquet", {"score": p, "outcome": y, "g": groups})
    out, _ = succeed("report", path, "--by", "g", "--n-resamples", 50, "--json", "-")
    assert [group["name"] for group in json.loads(out)["groups"]] == found
