"""Folders of files: partitions as Hive and Spark write them, and names of columns that stand twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrant.errors import FileError
from calibrant.files.paths import expand, partitions_of
from tests.in_process import fail, run, succeed

pa = pytest.importorskip("pyarrow", reason="the report extra is not installed")
pytest.importorskip("duckdb", reason="the report extra is not installed")
import pyarrow.feather as feather  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

Table = dict[str, list[Any]]
KINDS = ("csv", "tsv", "jsonl", "json", "parquet", "arrow")


def save(path: Path, table: Table) -> None:
    """Write a table in the kind of file that its name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]
    if path.suffix in (".csv", ".tsv"):
        between = "," if path.suffix == ".csv" else "\t"
        lines = [between.join(map(str, values)) for values in (table, *(row.values() for row in rows))]
        path.write_text("\n".join(lines) + "\n")
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    else:
        write: Callable[..., None] = pq.write_table if path.suffix == ".parquet" else feather.write_feather
        write(pa.table(table), str(path))


def predictions(seed: int, rows: int = 40) -> Table:
    rng = np.random.default_rng(seed)
    scores = rng.uniform(size=rows).round(3)
    return {"score": scores.tolist(), "outcome": (rng.uniform(size=rows) < scores).astype(int).tolist()}


def groups(*args: object) -> dict[str, int]:
    out, _ = succeed("report", *args, "--json", "-", "--quiet")
    return {group["name"]: group["report"]["n"] for group in json.loads(out)["groups"]}


@pytest.fixture(params=KINDS)
def lake(tmp_path, request):
    """Files of one kind in folders that name a month, a day, a year and a site."""
    sites = {2021: "north%20%26%20west", 2022: "__HIVE_DEFAULT_PARTITION__"}
    for seed, (year, day) in enumerate([(2021, "2021-01-05"), (2021, "2021-02-03"), (2022, "2022-02-03")]):
        folder = tmp_path / "lake" / f"year={year}" / f"day={day}" / f"site={sites[year]}"
        save(folder / f"part-{seed}.{request.param}", predictions(seed, 40 + seed))
    (tmp_path / "lake" / "_SUCCESS").touch()
    (tmp_path / "lake" / ".hidden.npz").touch()
    (tmp_path / "lake" / "_delta_log").mkdir()
    (tmp_path / "lake" / "_delta_log" / "0.json").write_text("{}")
    return tmp_path / "lake"


def test_the_columns_of_paths_are_columns(lake):
    assert groups(lake, "--by", "year") == {"2021": 81, "2022": 42}
    assert groups(lake, "--by", "day") == {"2021-01-05": 40, "2021-02-03": 41, "2022-02-03": 42}
    assert groups(lake, "--by", "month(day)") == {"2021-01": 40, "2021-02": 41, "2022-02": 42}
    assert groups(lake, "--by", "year", "--where", "year >= 2022") == {"2022": 42}
    assert groups(lake, "--by", "year", "--where", "site = 'north & west'") == {"2021": 81}
    assert groups(lake, "--by", "year", "--where", "site IS NULL") == {"2022": 42}
    out, _ = succeed("report", lake, "--cluster", "day", "--json", "-", "--quiet")
    assert json.loads(out)["clusters"]["clusters"] == 3
    assert "did you mean 'year'?" in fail("report", lake, "--by", "yaer")


def test_a_monitor_makes_slices_of_the_days_in_paths(lake, tmp_path):
    status, out, err = run("monitor", tmp_path / "state.json", lake, "--time", "day", "--every", "month")
    assert status in (0, 3), err
    assert "3 slices, 123 rows" in out


def test_the_rows_of_a_folder_are_those_of_its_files(lake):
    _, whole, _ = run("report", lake, "--json", "-", "--quiet")
    _, listed, _ = run("report", *sorted(lake.rglob("part-*")), "--json", "-", "--quiet")
    assert json.loads(whole)["estimates"] == json.loads(listed)["estimates"]
    _, screen, _ = run("report", lake)
    assert screen.startswith(f"{lake}/**/*.")
    assert "(3 files)" in screen.splitlines()[0]


def test_a_column_of_the_file_comes_before_one_of_the_path(tmp_path):
    for kind in KINDS:
        save(tmp_path / kind / "who=path" / f"f.{kind}", {**predictions(1, 4), "who": ["file"] * 4})
        assert groups(tmp_path / kind, "--by", "who") == {"file": 4}


def test_a_usual_name_in_a_path_is_not_read_without_an_option(tmp_path):
    for kind in KINDS:
        save(tmp_path / kind / "label=cat" / "p=1" / f"f.{kind}", predictions(1, 8))
        for extra in ((), ("--where", "score >= 0")):
            out, _ = succeed("report", tmp_path / kind, *extra, "--json", "-", "--quiet")
            assert json.loads(out)["source"]["columns"] == {"probs": "score", "targets": "outcome"}


def test_names_that_are_no_partitions():
    assert partitions_of("a=1/b=/=c/plain/d=e=f/x=1.csv") == {"a": "1", "b": "", "d": "e=f"}
    assert partitions_of("x=1.csv") == {}


def test_folders_that_cannot_be_used(tmp_path):
    with pytest.raises(FileError, match="is a folder without a file that calibrant can read; name a file such as"):
        expand([str(tmp_path)])
    save(tmp_path / "a.csv", predictions(1))
    save(tmp_path / "deep" / "b.parquet", predictions(1))
    save(tmp_path / "deep" / "c.parquet", predictions(2))
    match = (
        r"files of several kinds \(2 \.parquet, 1 \.csv\); name the files of one kind, such as '.*/\*\*/\*\.parquet'"
    )
    with pytest.raises(FileError, match=match):
        expand([str(tmp_path)])
    assert len(expand([str(tmp_path / "**" / "*.parquet")])) == 2  # what the message proposes


def test_an_output_is_no_file_below_a_folder_that_is_read(tmp_path):
    save(tmp_path / "data" / "deep" / "a.jsonl", predictions(1))
    before = (tmp_path / "data" / "deep" / "a.jsonl").read_bytes()
    err = fail("report", tmp_path / "data", "--json", tmp_path / "data" / "deep" / "a.jsonl", status=2)
    assert "is also read" in err
    assert (tmp_path / "data" / "deep" / "a.jsonl").read_bytes() == before


def test_a_pattern_that_matches_only_folders_stands_for_their_files(tmp_path):
    for k in range(3):
        save(tmp_path / f"data/day={k}/deep/a.csv", predictions(k))
    pattern = str(tmp_path / "data" / "day=[01]")
    assert expand([pattern]) == [str(tmp_path / f"data/day={k}/deep/a.csv") for k in range(2)]
    assert groups(pattern, "--by", "day") == {"0": 40, "1": 40}
    assert expand([str(tmp_path / "**" / "")]) == expand([str(tmp_path / "data")])  # each file once
    save(tmp_path / "data" / "b.csv", predictions(4))
    assert expand([str(tmp_path / "data" / "*")]) == [str(tmp_path / "data" / "b.csv")]
    with pytest.raises(FileError, match="no file matches this pattern"):
        expand([str(tmp_path / "data" / "week=*")])


# Names that stand twice.


def twice(folder: Path, kind: str, other: str) -> str:
    """Write a file with the columns ``id`` and ``other``, or twice ``id``, next to the predictions."""
    path, table = folder / f"twice.{kind}", predictions(3)
    names = ["id", other, *table]
    columns = [list(range(40)), list(range(40)), *table.values()]
    if kind in ("csv", "tsv"):
        between = "," if kind == "csv" else "\t"
        rows = [names, *map(list, zip(*columns, strict=True))]
        path.write_text("\n".join(between.join(map(str, row)) for row in rows) + "\n")
    else:
        pq.write_table(pa.Table.from_arrays(list(map(pa.array, columns)), names=names), path)
    return str(path)


@pytest.mark.parametrize("other", ["id", "ID"])
@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet"])
def test_columns_that_are_not_used_may_have_one_name(tmp_path, kind, other):
    path = twice(tmp_path, kind, other)
    save(tmp_path / f"once.{kind}", predictions(3))
    _, expected, _ = run("report", tmp_path / f"once.{kind}", "--json", "-", "--quiet")
    for extra in ((), ("--where", "score >= 0")):
        out, _ = succeed("report", path, *extra, "--json", "-", "--quiet")
        assert json.loads(out)["estimates"] == json.loads(expected)["estimates"]


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet"])
@pytest.mark.parametrize("option", ["--by", "--cluster", "--where", "--score", "--outcome"])
def test_a_column_that_is_used_has_a_name_of_its_own(tmp_path, kind, option):
    err = fail("report", twice(tmp_path, kind, "id"), option, "id > 3" if option == "--where" else "id")
    assert "has 2 columns named 'id'; rename all but one" in err
