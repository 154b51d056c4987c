"""Files larger than memory: the sketch that is read is the one of the arrays, and nothing fails half-way in silence."""

from __future__ import annotations

import errno
import functools
import gzip
import itertools
import json
import os
import re
import shlex
import signal
import stat
import subprocess
import sys
import threading
import time
import types
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrant import CalibrationSketch, evaluate, files
from calibrant.cli import output
from calibrant.errors import FileError
from calibrant.files import (
    BadRows,
    FilePredictions,
    FileSketch,
    Judging,
    Options,
    array_rows,
    chunks,
    engine,
    read_sketches,
    reading,
    stored,
    write_sketch,
)
from calibrant.files.chunks import Background
from calibrant.files.engine import Engines, Stopped
from calibrant.files.paths import check_text
from calibrant.files.sources import open_sources
from calibrant.kernels.compiling import SMALL
from calibrant.results.writing import replace_file
from tests import in_process
from tests.reading_of import asked, read_predictions

pa = pytest.importorskip("pyarrow", reason="the report extra is not installed")
pytest.importorskip("duckdb", reason="the report extra is not installed")
import pyarrow.ipc as ipc  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

KINDS = ("csv", "csv.gz", "tsv", "parquet", "arrow", "jsonl", "npz")
N = 3000
RNG = np.random.default_rng(0)
P = RNG.random(N)
Y = (RNG.random(N) < P).astype(int)
ROWS, TARGETS = RNG.dirichlet(np.ones(4), N), RNG.integers(0, 4, N)
WORDS = np.array(["cat", "dog", "eel", "fox"])
OF_CLASSES = {f"p_{k}": ROWS[:, k] for k in range(4)}
K = RNG.integers(0, 3, N)
FAST = ("--n-resamples", "0")

#: What may stand in a file, and how it is read.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({"score": P, "outcome": Y}, {}),
    "weights": ({"score": P, "outcome": Y, "w": RNG.integers(0, 4, N) + 0.5}, {"weight": "w"}),
    "groups": ({"score": P, "outcome": Y, "g": np.array(list("abc"))[K]}, {"by": ("g",)}),
    "numbered groups": ({"score": P, "outcome": Y, "g": K, "w": K}, {"by": ("g",), "weight": "w"}),
    "labels": ({"score": P, "outcome": np.array(["no", "yes"])[Y]}, {"labels": ["no", "yes"]}),
    "numbered labels": ({"score": P, "outcome": Y + 1}, {"labels": ["1", "2"]}),
    "per cents": ({"score": 100 * P, "outcome": Y}, {"percent": True}),
    "logits": ({"logits": np.log(P / (1 - P)), "outcome": Y}, {}),
    "classes": ({**OF_CLASSES, "target": TARGETS}, {}),
    "named classes": ({**{f"p_{name}": ROWS[:, k] for k, name in enumerate(WORDS)}, "target": WORDS[TARGETS]}, {}),
    "lists": ({"probs": ROWS.tolist(), "target": TARGETS, "g": K}, {"by": ("g",)}),
    "condition": ({"score": P, "outcome": Y, "k": K}, {"where": "k > 0"}),
}


def read_or_stream(patterns: Any, options: Options, judging: Judging, **how: Any) -> FilePredictions | FileSketch:
    return files.read_predictions(patterns, options, judging, **how)


def stream_predictions(patterns: Any, **options: Any) -> FileSketch:
    """Read files into a sketch, however few rows there are."""
    evaluated = ("notion", "classwise", "ignore_index", "logits", "grid")
    how = {name: options.pop(name) for name in ("targets_file", "keep_going", "progress") if name in options}
    judging = Judging(**{name: options.pop(name) for name in evaluated if name in options})
    read = files.read_predictions(patterns, asked(options), judging, keep=False, **how)
    assert isinstance(read, FileSketch)
    return read


def write(path: Path, columns: dict[str, Any]) -> str:
    """Write columns in the format of the path's ending."""
    name = path.name
    if name.endswith(".npz"):
        np.savez(path, **{key: np.array(column) for key, column in columns.items()})
        return str(path)
    table = pa.table({key: column if isinstance(column, list) else pa.array(column) for key, column in columns.items()})
    if name.endswith(".parquet"):
        pq.write_table(table, path, row_group_size=1000)
    elif name.endswith(".arrow"):
        with ipc.new_stream(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=700)
    else:
        rows = table.to_pylist()
        separator = "\t" if ".tsv" in name else ","
        lines = [json.dumps(row) for row in rows]
        if ".json" not in name:
            lines = [separator.join(table.column_names), *(separator.join(map(str, row.values())) for row in rows)]
        data = ("\n".join(lines) + "\n").encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return str(path)


def whole(paths: list[str], sketch: CalibrationSketch | None = None, **options: Any) -> CalibrationSketch:
    """Return the sketch of the arrays that the files are read into."""
    read = read_predictions(paths, **options)
    own = CalibrationSketch(classwise=sketch is not None and sketch.classwise, class_names=read.class_names)
    own.update(read.probs, read.targets, weights=read.weights, groups=read.groups, logits=read.logits)
    return own


def assert_same(found: CalibrationSketch, expected: CalibrationSketch) -> None:
    """Compare counts bit for bit, and sums but for the order of addition."""
    ours, theirs = (json.loads(each.to_json()) for each in (found, expected))
    for name in ("count_0", "count_1", "group", "curve", "cell"):
        assert ours["cells"][name] == theirs["cells"][name], name
    for name in ("score_sum_0", "score_sum_1", "square_sum"):
        np.testing.assert_allclose(ours["cells"][name], theirs["cells"][name], rtol=1e-12)
    assert [ours[name] for name in ("rows", "groups", "notion", "class_names", "grid", "classwise")] == [
        theirs[name] for name in ("rows", "groups", "notion", "class_names", "grid", "classwise")
    ]
    for own, other in zip(ours["totals"], theirs["totals"], strict=True):
        np.testing.assert_allclose(list(own.values()), list(other.values()), rtol=1e-12)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks so small that every file has several."""
    monkeypatch.setattr(chunks, "_CHUNK", 1400)
    monkeypatch.setattr(chunks, "_CHUNK_OF_CLASSES", 300)


@pytest.fixture
def nothing_is_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every row make a sketch necessary."""
    monkeypatch.setattr(reading, "MOST_ROWS", 0)


# ---------------------------------------------------------------- the sketch is that of the arrays


@pytest.mark.parametrize("width", [1, 3, 10, 1_000])
def test_a_chunk_is_a_large_input_for_any_number_of_columns(tmp_path: Path, width: int) -> None:
    pq.write_table(pa.table({"score": P, "outcome": Y}), tmp_path / "rows.parquet")
    opened = open_sources([str(tmp_path / "rows.parquet")], Options(), None, engines=Engines(), keep_going=False)
    plan = chunks.Plan.of(width, Judging(classwise=False), opened.first)
    assert SMALL < plan.chunk * width <= SMALL + width


@pytest.mark.slow
@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("kind", KINDS)
def test_the_stream_makes_the_sketch_of_the_arrays(tmp_path: Path, kind: str) -> None:
    for name, (columns, options) in CASES.items():
        if (kind == "npz" and ("where" in options or name == "named classes")) or (
            name == "lists" and ("csv" in kind or "tsv" in kind)
        ):
            continue
        columns = {"probs": ROWS, "target": TARGETS} if (kind, name) == ("npz", "classes") else columns
        half = N // 3
        paths = [
            write(tmp_path / f"{name}-{part}.{kind}", {key: values[rows] for key, values in columns.items()})
            for part, rows in enumerate((slice(0, half), slice(half, N)))
        ]
        found = stream_predictions(paths, **options)
        assert_same(found.sketch, whole(paths, found.sketch, **options))
        read = read_predictions(paths, **options)
        assert (found.rows, found.described(), found.paths) == (read.rows, read.described(), read.paths)
        assert found.sketch.classwise == ("class" in name)  # and not where there are groups


def test_npy_and_arrays_stored_by_columns(tmp_path: Path) -> None:
    targets = str(tmp_path / "y.npy")
    np.save(targets, TARGETS)
    paths = [str(tmp_path / f"{part}.npy") for part in "ab"]
    np.save(paths[0], ROWS[:1000].astype("f4"))
    np.save(paths[1], np.asfortranarray(ROWS[1000:].astype("f4")))
    expected = CalibrationSketch(classwise=True)
    expected.update(ROWS.astype("f4"), TARGETS)
    found = stream_predictions(paths, targets_file=targets)
    assert_same(found.sketch, expected)
    assert found.rows == (1000, 2000)
    for save, order in itertools.product((np.savez, np.savez_compressed), "CF"):
        path = str(tmp_path / f"{save.__name__}{order}.npz")
        save(path, probs=np.array(ROWS.astype("f4"), order=order), y=TARGETS)
        assert_same(stream_predictions([path]).sketch, expected)


@pytest.mark.covering
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("keep", [True, False])
def test_every_array_of_an_archive_passes_its_checksum(tmp_path: Path, order: str, save: Any, keep: bool) -> None:
    path, probs = tmp_path / "f.npz", np.array(ROWS, order=order)
    save(path, probs=probs, y=TARGETS)
    read = read_or_stream([path], Options(), Judging(), keep=keep)
    if isinstance(read, FilePredictions):
        np.testing.assert_array_equal(read.probs, ROWS)
    if save is np.savez:  # an array that says it is shorter
        short = tmp_path / "short.npz"
        save(short, probs=probs, y=TARGETS[:2000])
        short.write_bytes(short.read_bytes().replace(b"(3000,", b"(2000,"))
        with pytest.raises(FileError, match=r"short\.npz: cannot be read \(Bad CRC-32 for file 'probs\.npy'\)"):
            read_or_stream([short], Options(), Judging(), keep=keep)
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        checksum = archive.getinfo("probs.npy").CRC.to_bytes(4, "little")
    for place in (found.start() for found in re.finditer(re.escape(checksum), bytes(data))):
        data[place] ^= 1  # of the member's own head, and in the directory
    path.write_bytes(data)
    with pytest.raises(FileError, match=r"f\.npz: cannot be read \(Bad CRC-32 for file 'probs\.npy'\)"):
        read_or_stream([path], Options(), Judging(), keep=keep)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(50,), (50, 3), (50, 3, 2), (0, 3)])
def test_an_array_is_read_in_parts(tmp_path: Path, order: str, shape: tuple[int, ...]) -> None:
    array = np.array(RNG.random(shape), order=order)
    np.save(tmp_path / "a.npy", array)
    stored = array_rows.open_npy(str(tmp_path / "a.npy"))
    assert (stored.shape, stored.dtype, len(stored)) == (shape, np.float64, shape[0])
    parts = list(stored.parts(7))
    assert [len(part) for part in parts] == [7] * (shape[0] // 7) + ([1] if shape[0] else [])
    np.testing.assert_array_equal(np.concatenate([np.empty((0, *shape[1:])), *parts]), array)
    if shape[0]:
        np.testing.assert_array_equal(np.concatenate(list(stored.parts(7, 10, 30))), array[10:30])


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_array_stored_by_columns_is_read_within_the_memory_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: Any
) -> None:
    path = tmp_path / "f.npz"
    save(path, probs=np.asfortranarray(ROWS), y=TARGETS)
    for size in (ROWS.nbytes, ROWS.nbytes - 1):
        monkeypatch.setenv("CALIBRANT_MAX_MEMORY", str(size))
        read = functools.partial(stream_predictions, [path])
        if size == ROWS.nbytes:
            assert read().rows == (len(ROWS),)
            continue
        with pytest.raises(FileError, match=rf"'probs' takes {ROWS.nbytes / 1000:g} kB and is stored column"):
            read()


@pytest.mark.usefixtures("small_chunks")
def test_the_bits_depend_on_no_format_and_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = {**CASES["weights"][0], "g": CASES["groups"][0]["g"]}
    found = [
        stream_predictions([write(tmp_path / f"f.{kind}", columns)], weight="w", by=("g",)).sketch.to_bytes()
        for kind in KINDS
    ]
    for threads in ("1", "5"):
        monkeypatch.setenv("CALIBRANT_NUM_THREADS", threads)
        found.append(stream_predictions([tmp_path / "f.parquet"], weight="w", by=("g",)).sketch.to_bytes())
    assert len(set(found)) == 1


def test_the_order_of_files_changes_no_count(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / f"{k}.parquet", {"score": P[k::3], "outcome": Y[k::3], "g": CASES["groups"][0]["g"][k::3]})
        for k in range(3)
    ]
    first = stream_predictions(paths, by=("g",)).sketch
    for order in itertools.permutations(paths):
        assert_same(stream_predictions(order, by=("g",)).sketch, first)


@pytest.mark.parametrize("widths", [("f2", "f4"), ("f4", "f8"), ("f8", "f4")])
def test_the_widest_floats_of_all_files_say_which_cell_a_score_is_in(tmp_path: Path, widths: tuple[str, str]) -> None:
    # These are the edges, rounded: as floats of their own width they are in the cell on their left, as wider ones not.
    edges = np.arange(1, 300) / 300
    paths = [
        write(tmp_path / f"{k}.parquet", {"score": edges.astype(width), "outcome": np.ones(299, int)})
        for k, width in enumerate(widths)
    ]
    assert_same(stream_predictions(paths).sketch, whole(paths))
    if "f8" in widths:  # the kernels read half precision as single
        alone = stream_predictions(paths[:1]).sketch + stream_predictions(paths[1:]).sketch
        assert not np.array_equal(alone.table.counts, whole(paths).table.counts)


# ---------------------------------------------------------------- rows are kept while they are few


@pytest.mark.slow
@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("kind", ["csv", "parquet", "npz", "arrow"])
@pytest.mark.parametrize("name", ["weights", "groups", "numbered groups", "labels", "numbered labels", "classes"])
def test_rows_that_become_too_many_make_the_sketch_that_a_stream_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, name: str
) -> None:
    columns, options = CASES[name]
    columns = {"probs": ROWS, "target": TARGETS} if (kind, name) == ("npz", "classes") else columns
    paths = [
        write(tmp_path / f"{part}.{kind}", {key: values[part::3] for key, values in columns.items()})
        for part in range(3)
    ]
    asked = Options(**{key: tuple(value) if key == "labels" else value for key, value in options.items()})
    few = read_or_stream(paths, asked, Judging())
    assert isinstance(few, FilePredictions)
    assert few.rows == (1000, 1000, 1000)
    stream = stream_predictions(paths, **options)
    numbers = N * (4 if name == "classes" else 1)
    for rows, most in ((0, numbers), (999, numbers), (N - 1, numbers), (N, numbers - 1), (N, 1500)):
        monkeypatch.setattr(reading, "MOST_ROWS", rows)
        monkeypatch.setattr(reading, "MOST_NUMBERS", most)
        many = read_or_stream(paths, asked, Judging())
        assert isinstance(many, FileSketch)
        assert many.sketch.to_bytes() == stream.sketch.to_bytes()
        assert (many.rows, many.paths, many.described()) == (stream.rows, stream.paths, stream.described())
        assert isinstance(read_or_stream(paths, asked, Judging(), keep=True), FilePredictions)
    monkeypatch.setattr(reading, "MOST_ROWS", N)
    monkeypatch.setattr(reading, "MOST_NUMBERS", numbers)
    assert isinstance(read_or_stream(paths, asked, Judging()), FilePredictions)


def test_the_footers_say_at_once_that_rows_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [write(tmp_path / f"{part}.parquet", {"score": P, "outcome": Y}) for part in range(2)]
    kept: list[int] = []
    keep = reading._Reader._keep_rows

    def spy(self: Any, chunk: Any, rows: Any) -> None:
        kept.append(len(chunk.arrays["probs"]))
        keep(self, chunk, rows)

    monkeypatch.setattr(reading._Reader, "_keep_rows", spy)
    monkeypatch.setattr(reading, "MOST_ROWS", 2 * N - 1)
    assert isinstance(read_or_stream(paths, Options(), Judging()), FileSketch)
    assert not kept
    kept.clear()
    read_or_stream(paths, Options(where="outcome >= 0"), Judging())
    assert sum(kept) >= N  # how many rows meet it shows only at the end


def test_the_report_says_which_it_is_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "f.csv", {"score": P, "outcome": Y})
    status, out, _ = run("report", path, *FAST)
    assert status == 0
    assert "from a sketch" not in out
    monkeypatch.setattr(reading, "MOST_ROWS", N - 1)
    status, out, _ = run("report", path, *FAST)
    assert status == 0
    assert "from a sketch (standard grid)" in " ".join(out.split())
    assert "details" in out or "table" not in out
    summary = json.loads(run("report", path, *FAST, "--json", "-")[1])
    assert summary["estimates"]["ece"]["details"]["table"] == "standard grid"
    expected = evaluate(P, Y, n_resamples=0)
    assert summary["estimates"]["ece"]["value"] == pytest.approx(expected["ece"].value, abs=1e-14)
    assert summary["source"]["files"] == [path]
    exact = json.loads(run("report", path, *FAST, "--exact", "--json", "-")[1])
    assert exact["estimates"] == expected.to_dict()["estimates"]


# ---------------------------------------------------------------- what a sketch has room for


@pytest.mark.usefixtures("nothing_is_few")
def test_classes_have_curves_while_they_are_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "f.parquet", {**OF_CLASSES, "target": TARGETS, "g": K})
    assert stream_predictions([path]).sketch.has_classes
    assert not stream_predictions([path], classwise=False).sketch.has_classes
    assert not stream_predictions([path], by=("g",)).sketch.has_classes
    assert stream_predictions([path], by=("g",), classwise=True).sketch.groups["0"].has_classes
    monkeypatch.setattr(chunks, "MOST_CURVES", 4)  # and there are five: that of the top label too
    assert not stream_predictions([path]).sketch.has_classes
    assert stream_predictions([path], notion="classwise").sketch.has_classes
    for judging in ({"classwise": True}, {"notion": "multilabel"}):
        monkeypatch.setattr(chunks, "MOST_CURVES", 5 if "classwise" in judging else 4)
        if "classwise" in judging:
            assert stream_predictions([path], **judging).sketch.has_classes
        monkeypatch.setattr(chunks, "MOST_CURVES", 3)
        match = r"f\.parquet: has 4 classes, but a sketch supports at most {}; pass --exact to keep"
        with pytest.raises(FileError, match=match.format(2 if "classwise" in judging else 3)):
            stream_predictions([path], **judging)
    monkeypatch.undo()
    monkeypatch.setattr(reading, "MOST_ROWS", 0)
    status, out, _ = run("report", path, *FAST, "--no-classwise")
    assert status == 0
    assert "ECE by class" not in out
    assert "ECE by class" in run("report", path, *FAST)[1]


@pytest.mark.usefixtures("nothing_is_few")
def test_a_report_on_classes_that_a_sketch_does_not_keep_says_so_and_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "f.parquet", {**OF_CLASSES, "target": TARGETS})
    why = (
        "classwise ECE: to save memory, the sketch does not contain the 4 single classes: evaluate all rows at once "
        "(--exact), or make the sketch with classwise=True (--classwise)"
    )
    monkeypatch.setattr(reading, "MOST_ROWS", 0)
    monkeypatch.setattr(chunks, "MOST_CURVES", 4)
    status, out, _ = run("report", path, *FAST)
    assert status == 0
    assert why in " ".join(out.split())
    for options in (["--exact"], ["--no-classwise"]):
        assert "does not contain the 4 single classes" not in run("report", path, *FAST, *options)[1]
    sketch = stream_predictions([path]).sketch
    report = evaluate(sketch, n_resamples=0)
    assert report["classwise_ece"].details["unkept_classes"] == 4
    assert report["classwise_ece"].method == f"not available: {why.removeprefix('classwise ECE: ')}"
    assert why in " ".join(report.to_html(tmp_path / "r.html").read_text(encoding="utf-8").split())
    assert "unkept_classes" not in evaluate(sketch, classwise=False)["classwise_ece"].details
    assert "unkept_classes" not in evaluate([0.2, 0.8], [0, 1])["classwise_ece"].details


def test_a_thousand_classes_are_a_thousand_in_the_message() -> None:
    source = types.SimpleNamespace(path="wide.npz", selection=types.SimpleNamespace(groups=None))
    selection: Any = source.selection
    for judging, most in ((chunks.Judging(classwise=True), 499), (chunks.Judging(notion="multilabel"), 500)):
        plan = chunks.Plan.of(1_000, judging, selection)
        with pytest.raises(FileError, match=rf"has 1,000 classes, but a sketch supports at most {most}; pass --exact"):
            plan.check(source, 0, kept=False)  # type: ignore[arg-type]
        chunks.Plan.of(most, judging, selection).check(source, 0, kept=False)  # type: ignore[arg-type]
        with pytest.raises(FileError):
            chunks.Plan.of(most + 1, judging, selection).check(source, 0, kept=False)  # type: ignore[arg-type]


@pytest.mark.usefixtures("nothing_is_few")
def test_groups_are_as_many_as_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "f.parquet", {"score": P, "outcome": Y, "g": [f"group {k % 30}" for k in range(N)]})
    monkeypatch.setattr(chunks, "MOST_CURVES", 31)  # with that of all rows
    found = stream_predictions([path], by=("g",)).sketch
    assert len(found.groups) == 30
    monkeypatch.setattr(chunks, "MOST_CURVES", 30)
    said = (
        "f.parquet: column 'g' has more than 29 groups; sketches of so many groups take too much "
        "memory; name a column with fewer groups, or pass --exact to keep all rows"
    )
    for keep_going in (False, True):  # which is no fault of the file
        with pytest.raises(FileError) as caught:
            stream_predictions([path], by=("g",), keep_going=keep_going)
        assert str(caught.value).endswith(said)
    status, out, _ = run("report", path, "--by", "g", "--exact", *FAST, "--json", "-")
    assert status == 0
    assert len(json.loads(out)["groups"]) == 30


def test_names_of_groups_are_those_of_arrays(tmp_path: Path) -> None:
    values: list[tuple[Any, list[str]]] = [
        ([1.0, 2.0, 2.0], ["1", "2"]),
        ([1.5, 2.0, 2.0], ["1.5", "2"]),
        ([True, False, True], ["False", "True"]),
        (["b", "a", "b"], ["a", "b"]),
        ([10, 9, 9], ["10", "9"]),
    ]
    for number, (groups, names) in enumerate(values):
        path = write(tmp_path / f"{number}.parquet", {"score": [0.5] * 3, "outcome": [0, 1, 1], "g": groups})
        found = stream_predictions([path], by=("g",))
        assert list(found.sketch.groups) == sorted(names)
        assert sorted(whole([path], by=("g",)).groups) == sorted(names)
    one = write(tmp_path / "a.parquet", {"score": [0.5], "outcome": [1], "g": [1.0]})
    other = write(tmp_path / "b.parquet", {"score": [0.5], "outcome": [1], "g": [2.5]})
    assert list(stream_predictions([one, other], by=("g",)).sketch.groups) == ["1", "2.5"]


@pytest.mark.parametrize("kind", ["parquet", "npz"])
@pytest.mark.parametrize(
    "groups", [np.array([0.1, 0.1, 2], np.float32), np.array([0.1, 0.5, 2], np.float16), [1.0, float("inf"), 1e300]]
)
def test_groups_have_the_same_names_whether_rows_are_kept_or_not(tmp_path: Path, kind: str, groups: Any) -> None:
    path = write(tmp_path / f"g.{kind}", {"score": [0.5] * 3, "outcome": [0, 1, 1], "g": groups})
    streamed = stream_predictions([path], by=("g",)).sketch
    assert list(streamed.groups) == sorted(whole([path], by=("g",)).groups)
    assert sum(group.n for group in streamed.groups.values()) == streamed.n == 3


@pytest.mark.parametrize("kind", ["parquet", "npz"])
@pytest.mark.parametrize("keep", [True, False])
def test_a_group_without_a_name_is_refused_with_its_row(tmp_path: Path, kind: str, keep: bool) -> None:
    columns = {"score": [0.5] * 3, "outcome": [0, 1, 1], "g": [1.0, 2.0, float("nan")]}
    good = write(tmp_path / f"a.{kind}", {**columns, "g": [1.0, 2.0, 2.0]})
    bad = write(tmp_path / f"b.{kind}", columns)
    words = (
        r"b\.\w+: row 3, column 'g': expected a name in every row, got a missing value; name the "
        "group of the row, such as 'unknown'"
    )
    with pytest.raises(FileError, match=words):
        read_or_stream([good, bad], Options(by=("g",)), Judging(), keep=keep)
    found = read_or_stream([good, bad], Options(by=("g",)), Judging(), keep=keep, keep_going=True)
    assert (found.paths, [own.path for own in found.omitted]) == ((good,), [bad])


def test_names_of_bytes_and_of_text_are_one(tmp_path: Path) -> None:
    paths = []
    for name, groups in (("a", np.array(["x", "y"])), ("b", np.array([b"x", b"z"]))):
        paths.append(write(tmp_path / f"{name}.npz", {"score": [0.5, 0.5], "outcome": [0, 1], "g": groups}))
    groups = stream_predictions(paths, by=("g",)).sketch.groups
    assert {name: group.n for name, group in groups.items()} == {"x": 2, "y": 1, "z": 1}


@pytest.mark.parametrize("transition", [False, True])
def test_a_name_for_each_row_is_refused_before_a_sketch_of_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transition: bool
) -> None:
    made = []
    update = reading._Sums._update

    def spy(self: Any, group: int, arrays: Any) -> None:
        made.append(group)
        update(self, group, arrays)

    monkeypatch.setattr(reading._Sums, "_update", spy)
    monkeypatch.setattr(reading, "MOST_ROWS", N // 2)
    path = write(tmp_path / "ids.csv", {"score": P, "outcome": Y, "id": np.arange(N)})
    with pytest.raises(FileError, match="column 'id' has more than 499 groups"):
        read_or_stream([path], Options(by=("id",), by_values=True), Judging(), keep=None if transition else False)
    monkeypatch.setattr(reading, "MOST_ROWS", 10 * N)
    kept = read_or_stream([path], Options(by=("id",), by_values=True), Judging(), keep_going=True)
    assert isinstance(kept, FilePredictions)
    assert len(set(made)) <= 1


def test_the_last_rows_of_a_file_do_not_make_logits_of_probabilities(tmp_path: Path) -> None:
    paths = []
    for name, rows in (("a", slice(0, 1995)), ("b", slice(1995, 2000))):
        columns = {f"p_{k}": ROWS[rows, k] for k in range(4)} | {"target": TARGETS[rows]}
        paths.append(write(tmp_path / f"{name}.parquet", columns))
    with pytest.raises(BadRows, match="logits: expected logits, got probabilities"):
        stream_predictions(paths, logits=True)


# ---------------------------------------------------------------- files that are left out of kept rows


def test_a_torn_first_file_leaves_no_shape_behind(tmp_path: Path) -> None:
    many = RNG.dirichlet(np.ones(3), 140_000)
    first = tmp_path / "a.arrow"
    table = pa.table({**{f"p_{k}": many[:, k] for k in range(3)}, "target": np.zeros(len(many), int)})
    with ipc.new_stream(str(first), table.schema) as writer:
        writer.write_table(table, max_chunksize=70_000)
    cut(str(first), 0.8)
    good = write(
        tmp_path / "b.arrow", {f"p_{k}": many[:50, k] / many[:50, :2].sum(1) for k in range(2)} | {"target": [0] * 50}
    )
    found = read_or_stream([str(first), good], Options(probs="p_0,p_1", target="target"), Judging(), keep_going=True)
    assert (found.paths, found.rows) == ((good,), (50,))


@pytest.mark.parametrize("keep", [True, False])
def test_a_first_file_that_is_left_out_says_nothing_about_the_classes(tmp_path: Path, keep: bool) -> None:
    wide = write(tmp_path / "a.parquet", {"probs": [[0.5, 0.25, 0.75]], "target": [0]})  # and do not add up to 1
    good = write(tmp_path / "b.parquet", {"probs": [[0.5, 0.5]], "target": [1]})
    read = read_or_stream([wide, good], Options(), Judging(), keep=keep, keep_going=True)
    assert (read.paths, read.sources["probs"]) == ((good,), "probs (lists of 2)")


@pytest.mark.parametrize("few", [True, False])
def test_a_first_file_that_cannot_be_judged_settles_nothing(tmp_path: Path, monkeypatch: Any, few: bool) -> None:
    monkeypatch.setattr(reading, "MOST_ROWS", 10 * N if few else 0)
    words = write(tmp_path / "a.csv", {"score": P, "outcome": np.array(["no", "yes"])[Y]})
    numbers = write(tmp_path / "b.csv", {"score": P, "outcome": Y})
    found = read_or_stream([words, numbers], Options(), Judging(), keep_going=True)
    assert (found.paths, found.rows, [own.path for own in found.omitted]) == ((numbers,), (N,), [words])


def test_a_file_that_is_left_out_changes_no_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "_CHUNK", 1024)
    columns = {"score": P, "outcome": Y, "weight": RNG.random(N), "g": np.array(["u", "v"])[Y]}
    good = [
        write(tmp_path / f"{k}.csv", {name: np.roll(values, k) for name, values in columns.items()}) for k in range(3)
    ]
    scores = np.where(np.arange(N) == N - 1, np.nan, P)
    bad = write(tmp_path / "bad.csv", {**columns, "score": scores, "g": np.array(["w", "x"])[Y]})
    for options in ({"weight": "weight"}, {"weight": "weight", "by": ("g",)}):
        expected = stream_predictions(good, **options).sketch.to_bytes()
        for place in range(4):
            found = stream_predictions([*good[:place], bad, *good[place:]], keep_going=True, **options)
            assert [omitted.path for omitted in found.omitted] == [bad]
            assert found.sketch.to_bytes() == expected


@pytest.mark.parametrize("place", [0, 1])
def test_rows_of_a_file_that_is_left_out_do_not_count_as_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    monkeypatch.setattr(chunks, "_CHUNK", 1024)
    ignored = write(tmp_path / "ignored.parquet", {"score": P, "outcome": np.full(N, -1)})
    bad = write(tmp_path / "bad.parquet", {"score": np.where(np.arange(N) == N - 1, np.nan, P), "outcome": Y})
    paths = [bad, ignored] if place == 0 else [ignored, bad]
    with pytest.raises(BadRows, match="ignore_index: expected a value that leaves at least one row") as caught:
        stream_predictions(paths, ignore_index=-1, keep_going=True)
    assert caught.value.rows.paths == (ignored,)


@pytest.mark.parametrize("keep", [None, False])
def test_of_no_usable_file_the_first_fault_is_told(tmp_path: Path, keep: bool | None) -> None:
    nothing = write(tmp_path / "a.parquet", {"score": P[:0], "outcome": Y[:0]})
    wrong = write(tmp_path / "b.parquet", {"score": [0.5, float("nan")], "outcome": [0, 1]})
    with pytest.raises(BadRows) as caught:
        read_or_stream([nothing, wrong], Options(), Judging(), keep=keep, keep_going=True)
    assert caught.value.rows.place(caught.value.error)[0] == wrong


def test_where_only_ignored_rows_are_left_their_file_is_named(tmp_path: Path) -> None:
    wrong = write(tmp_path / "a.parquet", {"score": [0.5, 2.0], "outcome": [0, 1]})
    ignored = write(tmp_path / "b.parquet", {"score": [0.5, 0.2], "outcome": [-1, -1]})
    with pytest.raises(BadRows, match="ignore_index: expected a value that leaves at least one row") as caught:
        stream_predictions([wrong, ignored], ignore_index=-1, keep_going=True)
    assert caught.value.rows.paths == (ignored,)


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ({"probs": [[], []], "target": [0, 0]}, {}, "column 'probs' holds empty lists; write one value for each class"),
        (
            {"score": [0.5, 0.5], "outcome": [0, 1], "g": [[1], [2]]},
            {"by": ("g",)},
            "column 'g' holds lists, not single values",
        ),
    ],
)
def test_lists_where_none_can_be_are_refused(tmp_path: Path, columns: Any, options: Any, words: str) -> None:
    path = write(tmp_path / "l.parquet", columns)
    for keep in (True, False):
        with pytest.raises(FileError, match=words):
            read_or_stream([path], Options(**options), Judging(), keep=keep)


def test_what_is_stopped_opens_no_more_files(tmp_path: Path) -> None:
    engines = Engines()
    paths = [write(tmp_path / f"{k}.csv.gz", {"score": P, "outcome": Y}) for k in range(2)]
    engines.interrupt()
    for keep_going in (True, False):
        with pytest.raises(Stopped):
            open_sources(paths, Options(), engines=engines, keep_going=keep_going)
    with pytest.raises(Stopped):
        check_text(paths[0], engines.check)


# ---------------------------------------------------------------- the same words for the same fault


def run(*args: object) -> tuple[int, str, str]:
    """Run the command in this process, returning status, standard output and standard error."""
    status, out, err = in_process.run(*args)
    # Kernels are compiled by whoever comes first, if all inputs take compiled ones.
    return status, out, err.replace("calibrant: preparing kernels, once\n", "")


FAULTS = {
    "an outcome of a half": ({"score": [0.5, 0.5, 0.5], "outcome": [1, 0.5, 1]}, ""),
    "a NaN": ({"score": [0.5, float("nan"), 0.5], "outcome": [1, 0, 1]}, ""),
    "a score beyond 1": ({"score": [0.5, 0.2, 1.5], "outcome": [1, 0, 1]}, ""),
    "a null": ({"score": [0.5, None, 0.5], "outcome": [1, 0, 1]}, ""),
    "nothing but nulls": ({"score": pa.nulls(3, pa.float64()), "outcome": [1, 0, 1]}, ""),
    "another label": ({"score": [0.5, 0.2, 0.5], "outcome": ["no", "yes", "on"]}, "--labels no,yes"),
    "labels that are not named": ({"score": [0.5, 0.2, 0.5], "outcome": ["no", "yes", "no"]}, ""),
    "1-based classes": ({"probs": [[0.5, 0.25, 0.25]] * 3, "target": [1, 2, 3]}, ""),
    "rows that do not sum to 1": (
        {"probs": [[0.5, 0.25, 0.25], [0.5, 0.5, 0.5]], "target": [1, 2]},
        "",
    ),
    "names of another number": ({"probs": [[0.5, 0.25, 0.25]] * 3, "target": [1, 2, 0]}, "--class-names a,b"),
    "a label beyond the last": ({"probs": [[0.5, 0.25, 0.25]] * 3, "target": [1, 7, 0]}, ""),
    "swapped columns": ({"a": [1, 0, 1], "b": [0.5, 0.25, 0.75]}, "--score a --outcome b"),
    "a bad weight": ({"score": [0.5, 0.2, 0.5], "outcome": [1, 0, 1], "w": [1.0, -2.0, 1.0]}, "--weight w"),
    "weights that are all 0": ({"score": [0.5, 0.2, 0.5], "outcome": [1, 0, 1], "w": [0, 0, 0]}, "--weight w"),
    "an ignored label everywhere": ({"score": [0.5, 0.2, 0.5], "outcome": [7, 7, 7]}, "--ignore-index 7"),
    "a group without a name": ({"score": [0.5, 0.2], "outcome": [1, 0], "g": ["a", None]}, "--by g"),
    "a bad row of a group": ({"score": [0.5, 2, 0.5, 3], "outcome": [1, 0, 1, 1], "g": list("babb")}, "--by g"),
    "probabilities as logits": ({"logits": [[0.5, 0.5]] * 12, "target": [0, 1] * 6}, ""),
    "no rows": ({"score": pa.array([], pa.float64()), "outcome": pa.array([], pa.int64())}, ""),
    "no rows that meet a condition": ({"score": [0.5], "outcome": [1]}, "--where 'outcome = 0'"),
    "a notion that does not fit": ({"score": [0.5], "outcome": [1]}, "--notion classwise"),
    "no column": ({"score": [0.5], "outcome": [1]}, "--score scor"),
    "an infinite logit": ({"logits": [0.5, float("inf")], "outcome": [1, 0]}, ""),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_told_as_it_is_where_rows_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    columns, options = FAULTS[name]
    path = write(tmp_path / "f.parquet", columns)
    status, _, said = run("report", path, *shlex.split(options), *FAST)
    assert status == 1
    assert said.startswith(f"calibrant: {path}: ")
    monkeypatch.setattr(reading, "MOST_ROWS", 0)
    monkeypatch.setattr(chunks, "_CHUNK", 1024)
    assert run("report", path, *shlex.split(options), *FAST) == (status, "", said)


@pytest.mark.usefixtures("small_chunks", "nothing_is_few")
@pytest.mark.parametrize("kind", ["csv", "parquet", "npz"])
def test_rows_are_counted_in_their_own_file(tmp_path: Path, kind: str) -> None:
    first = write(tmp_path / f"a.{kind}", {"score": P, "outcome": Y, "g": K})
    bad = np.where(np.arange(N) == 2900, 1.5, P)
    second = write(tmp_path / f"b.{kind}", {"score": bad, "outcome": Y, "g": K})
    for options in ((), ("--by", "g")):
        status, _, err = run("report", first, second, *options)
        assert status == 1
        assert err.startswith(f"calibrant: {second}: row 2,901, column 'score': expected values in [0, 1], got 1.5; ")
    if kind != "npz":
        kept = int(np.flatnonzero(K[2900] == K).searchsorted(2900))
        _, _, err = run("report", first, second, "--where", f"g = {K[2900]}")
        assert kept > 300
        assert f"{second}: row 2,901, column 'score'" in err


def test_a_row_is_refused_wherever_chunks_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "_CHUNK", 1024)
    for row in (0, 1023, 1024, 2048, 2999):
        path = write(tmp_path / f"{row}.parquet", {"score": np.where(np.arange(N) == row, -1, P), "outcome": Y})
        with pytest.raises(BadRows) as caught:
            stream_predictions([path])
        assert caught.value.rows.locate(caught.value.error.row or 0) == (path, row + 1)
        assert caught.value.problem == f"row {row + 1:,}, column 'score': expected values in [0, 1], got -1"


# ---------------------------------------------------------------- files that cannot be used


def cut(path: str, part: float) -> str:
    """Cut a file off."""
    data = Path(path).read_bytes()
    Path(path).write_bytes(data[: int(len(data) * part)])
    return path


def cut_row(path: str, part: float) -> str:
    """Cut a text file off in a row, behind its first cell."""
    data = Path(path).read_bytes()
    Path(path).write_bytes(data[: data.index(b",", int(len(data) * part))])
    return path


def spoilt(folder: Path, kind: str) -> Iterator[tuple[str, str]]:
    """Write files that cannot be used; yield each with its error."""
    plain = {"score": P, "outcome": Y}
    for part in (0.3, 0.95):
        if kind in ("parquet", "arrow", "csv.gz", "npz"):
            yield cut(write(folder / f"torn-{part}.{kind}", plain), part), r"(cannot be read|is damaged) \("
    noun = "array" if kind == "npz" else "column"
    yield write(folder / f"renamed.{kind}", {"points": P, "outcome": Y}), f"has no {noun} 'score' \\(--score\\)"
    nan = {"score": np.where(np.arange(N) == 2345, np.nan, P), "outcome": Y}
    yield write(folder / f"nan.{kind}", nan), "row 2,346, column 'score': expected finite numbers, got nan"
    words = np.array(["low", "high"])[Y]
    yield write(folder / f"text.{kind}", {"score": words, "outcome": Y}), f"{noun} 'score'.*'?(low|high|text)"
    yield (
        write(folder / f"words.{kind}", {"score": P, "outcome": words}),
        f"{noun} 'outcome' contains text, but .* contains numbers",
    )
    if kind != "npz":
        nulls = {"score": pa.nulls(N, pa.float64()), "outcome": Y}
        path = folder / f"nulls.{kind}"
        if "csv" in kind:
            lines = "\n".join(["score,outcome", *(f",{y}" for y in Y)]) + "\n"
            path.write_bytes(gzip.compress(lines.encode()) if kind.endswith("gz") else lines.encode())
        else:
            write(path, nulls)
        yield str(path), r"row 1, column 'score' is empty \(null\)"


@pytest.mark.slow
@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("kind", ["parquet", "arrow", "csv", "csv.gz", "npz"])
@pytest.mark.parametrize("few", [True, False])
def test_a_file_that_cannot_be_used_is_named_or_left_out_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, few: bool
) -> None:
    good = [write(tmp_path / f"good-{k}.{kind}", {"score": P[k::2], "outcome": Y[k::2]}) for k in range(2)]
    monkeypatch.setattr(reading, "MOST_ROWS", 10 * N if few else 0)
    asked = Options(score="score", outcome="outcome")
    expected: Any = read_or_stream(good, asked, Judging(), keep_going=True)
    bad = list(spoilt(tmp_path, kind))
    for path, words in bad:
        if not (few and "nan" in path):  # of rows that are kept, `evaluate` says what is wrong
            with pytest.raises((FileError, BadRows)) as caught:
                read_or_stream([good[0], path, good[1]], asked, Judging())
            problem = caught.value.problem
            assert re.search(words, problem), problem
            assert isinstance(caught.value, BadRows) or caught.value.path == path
        for places in ((0, 1, 2), (1, 0, 2)):  # in the middle, and in the first place
            paths = [[good[0], path, good[1]][place] for place in places]
            if "words" in path and places[0] == 1:
                continue  # it is the others then that differ from it
            found = read_or_stream(paths, asked, Judging(), keep_going=True)
            ((omitted, reason),) = found.omitted
            assert omitted == path
            assert re.search(words, reason), reason
            assert found.paths == tuple(good)
            assert found.rows == (1500, 1500)
            if isinstance(found, FilePredictions):
                np.testing.assert_array_equal(found.probs, expected.probs)
                np.testing.assert_array_equal(found.targets, expected.targets)
                assert found.locate(1600) == (good[1], 101)
            else:
                assert found.sketch == expected.sketch
    both = [path for path, _ in bad]
    found = read_or_stream([*both[:2], *good, *both[2:]], asked, Judging(), keep_going=True)
    assert [path for path, _ in found.omitted] == both
    assert found.paths == tuple(good)
    with pytest.raises(FileError, match=bad[0][1]):  # no other file is left
        read_or_stream([both[0]], asked, Judging(), keep_going=True)


def test_a_torn_file_enters_nothing_though_most_of_it_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "_CHUNK", 1024)
    evaluated: list[int] = []
    add = reading._Sums.add
    monkeypatch.setattr(
        reading._Sums, "add", lambda self, arrays: (evaluated.append(len(arrays["probs"])), add(self, arrays))
    )
    monkeypatch.setattr(engine, "CELLS", 1024)
    monkeypatch.setattr(stored, "_CELLS_OF_NUMBERS", 1024)
    good, torn = (str(tmp_path / f"{name}.parquet") for name in ("good", "torn"))
    for path in (good, torn):
        table = pa.table({"score": P, "outcome": Y})
        pq.write_table(table, path, compression="none", row_group_size=500, write_page_checksum=True)
    data = bytearray(Path(torn).read_bytes())
    data[int(len(data) * 0.75)] ^= 1
    Path(torn).write_bytes(data)
    expected = stream_predictions([good], keep_going=True).sketch
    evaluated.clear()
    found = stream_predictions([torn, good], keep_going=True)
    assert sum(evaluated) > N  # rows of the torn one were judged
    assert found.sketch == expected
    assert [omitted.path for omitted in found.omitted] == [torn]


def test_a_file_with_two_faults_is_left_out_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "_CHUNK", 1024)
    good = write(tmp_path / "good.csv", {"score": P, "outcome": Y})
    # Its first chunk holds a NaN, and right behind that chunk it ends.
    torn = cut_row(write(tmp_path / "torn.csv", {"score": np.where(np.arange(N) == 5, np.nan, P), "outcome": Y}), 0.55)
    found = stream_predictions([torn, good], keep_going=True)
    assert [omitted.path for omitted in found.omitted] == [torn]
    assert found.sketch == stream_predictions([good], keep_going=True).sketch


@pytest.mark.parametrize("few", [True, False])
def test_a_file_that_is_left_out_settles_nothing_for_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: bool
) -> None:
    monkeypatch.setattr(reading, "MOST_ROWS", 10 * N if few else 0)
    words = cut(write(tmp_path / "a.arrow", {"score": P, "outcome": np.array(["no", "yes"])[Y]}), 0.8)
    good = write(tmp_path / "b.arrow", {"score": P, "outcome": Y})
    found = read_or_stream([words, good], Options(), Judging(), keep_going=True)
    assert found.paths == (good,)
    assert found.rows == (N,)


def test_what_was_left_out_stands_in_every_output(tmp_path: Path) -> None:
    good = write(tmp_path / "good.parquet", {"score": P, "outcome": Y})
    torn = cut(write(tmp_path / "torn.parquet", {"score": P, "outcome": Y}), 0.5)
    page, numbers = tmp_path / "r.html", tmp_path / "r.json"
    status, out, err = run(
        "report", tmp_path / "*.parquet", "--keep-going", *FAST, "--html", page, "--json", numbers, "--fail-if", "n > 1"
    )
    assert status == 3  # by the condition alone
    caution = "Caution: these inputs are not evaluated: "
    assert f"{caution}{torn} (cannot be read (".replace(" ", "") in "".join(out.split())  # in lines of 80 columns
    assert f"calibrant: left out 1 of 2 files:\n  {torn}: cannot be read (" in err
    summary = json.loads(numbers.read_text())
    assert summary["source"]["files"] == [good]
    assert list(summary["omitted"]) == [torn]
    assert summary["omitted"][torn].startswith("cannot be read (")
    assert f"{caution}torn.parquet (cannot be read (" in page.read_text()
    assert run("report", tmp_path / "*.parquet", "--keep-going", *FAST)[0] == 0
    status, out, err = run("report", good, "--keep-going", *FAST)
    assert (status, err) == (0, "")
    assert "left out" not in out


def test_npy_cannot_leave_one_out(tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", P)
    np.save(tmp_path / "y.npy", Y)
    with pytest.raises(
        FileError,
        match=(
            r"p\.npy: --keep-going does not work with \.npy files, because all targets are in one file; "
            "save a .npz"
        ),
    ):
        stream_predictions([tmp_path / "p.npy"], targets_file=str(tmp_path / "y.npy"), keep_going=True)


# ---------------------------------------------------------------- sketches in files


def test_a_sketch_is_saved_read_and_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reading, "MOST_ROWS", 0)
    for k in range(2):
        rows = {"score": P[k::2], "outcome": Y[k::2], "g": CASES["groups"][0]["g"][k::2]}
        write(Path(f"{k}.parquet"), rows)
        status, first, err = run("report", f"{k}.parquet", "--by", "g", *FAST, "--sketch", f"{k}.cal", "--json", "-")
        assert status == 0
        assert re.fullmatch(rf"calibrant: wrote {k}\.cal \([\d,]+ kB\)\n", err)
        status, again, err = run("report", f"{k}.cal", *FAST, "--json", "-")
        assert (status, err) == (0, "")
        ours, theirs = json.loads(again), json.loads(first)
        assert {**ours, "source": None} == {**theirs, "source": None}
        assert ours["source"] == {"files": [f"{k}.cal"], "columns": {}, "where": None, "event": None}
        assert {group["name"] for group in ours["groups"]} == {"a", "b", "c"}
    status, out, err = run("merge", "0.cal", "1.cal", "-o", "both.cal")
    assert (status, err) == (0, "")
    assert out == "both.cal: 3,000 rows, positive, 3 groups, standard grid, 703 kB, from 2 files\n"
    summed = CalibrationSketch.from_bytes(Path("both.cal").read_bytes())
    assert_same(summed, stream_predictions(["0.parquet", "1.parquet"], by=("g",)).sketch)
    several = json.loads(run("report", "[01].cal", *FAST, "--json", "-")[1])
    merged = json.loads(run("report", "both.cal", *FAST, "--json", "-")[1])
    assert several["estimates"] == merged["estimates"]
    assert several["n"] == N
    status, out, err = run("merge", "both.cal", "0.cal", "--sketch", "both.cal")  # onto one of those that are read
    assert (status, err) == (0, "")
    assert "4,500 rows" in out
    status, out, err = run("report", "0.cal", "--sketch", "copy.cal", *FAST)
    assert status == 0
    assert Path("copy.cal").read_bytes() == Path("0.cal").read_bytes()


def test_files_are_written_before_anything_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(output.console, "write", gone)
    path, saved = write(tmp_path / "a.csv", {"score": P, "outcome": Y}), tmp_path / "a.cal"
    in_process.run("report", path, "--sketch", saved, *FAST)
    assert CalibrationSketch.from_bytes(saved.read_bytes()).n == N


def test_sketches_that_cannot_be_added_or_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    one, classes = CalibrationSketch(), CalibrationSketch()
    one.update(P, Y)
    classes.update(ROWS, TARGETS)
    write_sketch(one, "one.cal")
    write_sketch(classes, "classes.cal")
    write_sketch(CalibrationSketch(), "empty.cal")
    whole_bytes = Path("one.cal").read_bytes()
    Path("cut.cal").write_bytes(whole_bytes[:-100])
    Path("changed.cal").write_bytes(whole_bytes[:200] + b"x" + whole_bytes[201:])
    Path("text.cal").write_bytes(b"score,outcome\n")
    Path("nothing.cal").touch()
    Path("later.cal").write_bytes(whole_bytes.replace(b"sketch-2.json", b"sketch-9.json"))
    for name, words in {
        "cut.cal": "expected a sketch that matches its checksum, got content that was truncated or",
        "changed.cal": "expected a sketch that matches its checksum, got",
        "text.cal": r"expected a calibrant sketch, got bytes that begin with b'score,outcome.*'; pass a file that ",
        "nothing.cal": r"is empty \(0 bytes\)",
        "later.cal": "expected a sketch of version 2 or 3, got version 9; read the sketch with the version",
    }.items():
        for command in (("report",), ("merge", "-o", "out.cal")):
            status, _, err = run(*command, "one.cal", name)
            assert status == 1
            assert re.match(rf"calibrant: {re.escape(name)}: {words}", err), err
        found = read_sketches(["one.cal", name], keep_going=True)
        assert found.sketch == one
        assert [omitted.path for omitted in found.omitted] == [name]
    assert not Path("out.cal").exists()
    status, _, err = run("merge", "one.cal", "classes.cal", "-o", "out.cal")
    assert (status, Path("out.cal").exists()) == (1, False)
    assert err.startswith(
        "calibrant: classes.cal: cannot be merged with one.cal: expected a sketch with the notion 'positive'"
    )
    assert run("report", "empty.cal")[2].startswith("calibrant: empty.cal: holds a sketch without rows; name a")
    status, out, err = run("merge", "one.cal", "cut.cal", "--keep-going", "-o", "out.cal")
    assert (status, out) == (0, "out.cal: 3,000 rows, positive, standard grid, 176 kB, from 1 file\n")
    assert "left out 1 of 2 files" in err
    given = (
        "--score s",
        "--by g",
        "--logits",
        "--ignore-index 0",
        "--ignore-index 1",
        "--exact",
        "--where 'a = 1'",
        "--no-classwise",
        "--engine spark",
    )
    for options in given:
        status, _, err = run("report", "one.cal", *shlex.split(options))
        assert status == 2
        assert f"{options.split()[0]} has no effect on a sketch, because a sketch contains no rows; leave it out" in err
    status, _, err = run("report", "one.cal", "--score", "s", "--percent")
    assert "--score, --percent have no effect on a sketch, because a sketch contains no rows; leave them out" in err
    path = write(Path("f.csv"), {"score": P, "outcome": Y})
    assert "is not of the same kind as" in run("report", "one.cal", path)[2]
    for name, said in (
        ("week.bin", "name a file that ends in .cal, such as week.cal"),
        ("no/x.cal", "make the folder first"),
    ):
        status, _, err = run("report", path, "--sketch", name)
        assert status == 2
        assert said in " ".join(err.split())
    assert run("report", "one.cal", "--sketch", "one.cal")[0] == 2  # which it would write over


def test_the_page_says_what_fits() -> None:
    page = " ".join((Path(__file__).parents[2] / "docs" / "large-data.md").read_text(encoding="utf-8").split())
    words = {"rows": reading.MOST_ROWS, "numbers": reading.MOST_NUMBERS}
    assert f"**{words['rows'] / 1e6:g} million rows** with up to **{words['numbers'] / 1e6:g} million" in page
    assert f"at most {chunks.MOST_CURVES} tables" in page


# ---------------------------------------------------------------- disks


FULL = "cannot be written: the disk is full; free some space, or name another place"


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    path = tmp_path / "a.cal"
    replace_file(str(path), b"old")
    path.chmod(0o640)
    replace_file(str(path), b"older")
    assert path.read_bytes() == b"older"
    assert path.stat().st_mode & 0o777 == 0o640
    (tmp_path / "link.cal").symlink_to(path)
    replace_file(str(tmp_path / "link.cal"), b"through the link")
    assert (tmp_path / "link.cal").is_symlink()
    assert path.read_bytes() == b"through the link"
    monkeypatch.setattr(os, step, full_disk)
    with pytest.raises(FileError, match=r"a\.cal: cannot be written: the disk is full; free some space, or name"):
        replace_file(str(path), b"new")
    assert path.read_bytes() == b"through the link"
    assert sorted(os.listdir(tmp_path)) == ["a.cal", "link.cal"]
    monkeypatch.setattr(os, step, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        replace_file(str(path), b"new")
    assert path.read_bytes() == b"through the link"
    assert sorted(os.listdir(tmp_path)) == ["a.cal", "link.cal"]


def test_a_full_disk_ends_with_a_line_and_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "f.parquet", {"score": P, "outcome": Y})
    monkeypatch.setattr(os, "fsync", full_disk)
    outputs = {"--sketch": "a.cal", "--json": "a.json", "--html": "a.html"}
    for option, name in outputs.items():
        (tmp_path / name).write_text("what stood there")
        status, out, err = run("report", path, *FAST, option, tmp_path / name)
        assert status == 1
        assert "Reliability diagram" in out
        assert err == f"calibrant: {tmp_path / name}: {FULL}\n"
        assert (tmp_path / name).read_text() == "what stood there"
    assert sorted(os.listdir(tmp_path)) == ["a.cal", "a.html", "a.json", "f.parquet"]


@pytest.mark.skipif(not hasattr(os, "mknod"), reason="devices of POSIX")
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    path = write(tmp_path / "f.parquet", {"score": P, "outcome": Y})
    try:  # the numbers of the device that is always full; the machine's own is not written to
        os.mknod(tmp_path / "full", stat.S_IFCHR | 0o666, os.makedev(1, 7))
    except OSError:
        pytest.skip("only root makes devices")
    (tmp_path / "a.cal").symlink_to(tmp_path / "full")
    status, _, err = run("report", path, *FAST, "--sketch", tmp_path / "a.cal", "--json", tmp_path / "a.json")
    assert status == 1
    assert err == f"calibrant: {tmp_path / 'a.cal'}: {FULL}\n"
    assert json.loads((tmp_path / "a.json").read_text())["n"] == N  # the others are written all the same


# ---------------------------------------------------------------- Ctrl-C


SLOWLY = """
import sys, time
from calibrant.cli import main
from calibrant.files import stored
read = stored.ParquetTable.batches
def slowly(self, selection):
    for batch in read(self, selection):
        print("reading", file=sys.stderr, flush=True)
        yield batch
        time.sleep(0.05)
stored.ParquetTable.batches = slowly
main(prog_name="calibrant")
"""
#: A condition that the engine does not finish on twenty million rows before the signal comes.
LONG = f"{' + '.join(f'sin(score + {k})' for k in range(100))} > outcome"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
@pytest.mark.parametrize(("command", "where"), [("report", None), ("report", LONG), ("compare", LONG)])
def test_ctrl_c_ends_at_once_and_leaves_nothing_behind(tmp_path: Path, where: str | None, command: str) -> None:
    n = 2_000_000 if where is None else 20_000_000
    columns = {"score": np.full(n, 0.5, "f4"), "new": np.full(n, 0.5, "f4"), "outcome": np.ones(n, "i1")}
    path = write(tmp_path / "f.parquet", columns)
    options = ["--score", "score", "--sketch", str(tmp_path / "a.cal")]
    if command == "compare":
        options = ["--scores", "score,new"]
    options += ["--where", where] if where is not None else []
    line = [sys.executable, "-c", SLOWLY, command, path, *options]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    if where is None:
        assert process.stderr.readline() == "reading\n"
    else:
        time.sleep(2.5)  # by then the engine is at it
        assert process.poll() is None
    sent = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert time.monotonic() - sent < 5
    assert process.returncode == 130
    assert out == ""
    assert err.replace("reading\n", "") == "calibrant: interrupted\n"
    assert os.listdir(tmp_path) == ["f.parquet"]


# ---------------------------------------------------------------- reading ahead


def test_items_are_made_ahead_in_their_order_and_no_further_than_asked() -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for k in range(20):
            made.append(k)
            yield k

    with Background(items()) as ahead:
        for expected, item in enumerate(ahead):
            assert item == expected
            time.sleep(0.001)
            assert len(made) <= expected + 3  # the one in hand, and two that are made ahead
    assert made == list(range(20))
    assert not alive()


def alive() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("calibrant-reader")]


def test_leaving_early_ends_the_thread_and_closes_what_it_read() -> None:
    closed = threading.Event()

    def items() -> Iterator[int]:
        try:
            yield from itertools.count()
        finally:
            closed.set()

    with Background(items()) as ahead:
        assert next(iter(ahead)) == 0
    assert closed.is_set()
    assert not alive()


def test_what_goes_wrong_on_the_other_thread_comes_up_here() -> None:
    def items() -> Iterator[int]:
        yield 1
        msg = "disk"
        raise OSError(msg)

    found = []
    with pytest.raises(OSError, match="disk"), Background(items()) as ahead:
        found.extend(ahead)
    assert not alive()
    with Background(iter([None, 1])) as ahead:  # an item may be nothing
        assert list(ahead) == [None, 1]


def test_a_thread_that_waits_for_an_engine_is_interrupted() -> None:
    running = threading.Event()

    def items() -> Iterator[int]:
        assert running.wait(30)
        yield 1

    started = time.monotonic()
    with Background(items(), running.set):
        pass
    assert time.monotonic() - started < 5
    assert not alive()


@pytest.mark.parametrize("fault", [None, "row", "file"])
def test_no_thread_is_left_behind(tmp_path: Path, fault: str | None) -> None:
    path = write(tmp_path / "f.parquet", {"score": [0.5, 7.0 if fault == "row" else 0.5], "outcome": [1, 0]})
    if fault is None:
        stream_predictions([path])
    else:
        with pytest.raises((FileError, BadRows)):
            stream_predictions([cut(path, 0.9) if fault == "file" else path])
    assert not alive()


# ---------------------------------------------------------------- progress and memory


def test_progress_counts_bytes_and_rows(tmp_path: Path) -> None:
    n = 200_000
    paths = [write(tmp_path / f"{k}.parquet", {"score": RNG.random(n), "outcome": np.ones(n, int)}) for k in range(2)]
    calls: list[tuple[int, int, int]] = []
    stream_predictions(paths, progress=lambda *call: calls.append(call))
    done, totals, rows = map(list, zip(*calls, strict=True))
    assert set(totals) == {sum(os.path.getsize(path) for path in paths)}
    assert (done[-1], rows[-1]) == (totals[0], 2 * n)
    assert (done, rows) == (sorted(done), sorted(rows))
    assert len(calls) > 3


MEMORY = """
import sys
from calibrant.files import Options, read_predictions

def peak():  # of this process alone: what getrusage tells begins with that of its parent
    with open("/proc/self/status") as status:
        return next(line.split()[1] for line in status if line.startswith("VmHWM"))

read_predictions([sys.argv[1]], Options(), keep=False)
before = peak()
assert read_predictions([sys.argv[2]], Options(), keep=False).sketch.n == int(sys.argv[3])
print(before, peak())
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process is read from /proc")
@pytest.mark.parametrize("kind", ["parquet", "arrow", "npy in npz"])
def test_memory_does_not_grow_with_the_rows(tmp_path: Path, kind: str) -> None:
    n, small = 12_000_000, 4_100_000  # which fills a chunk
    scores, outcomes = np.full(n, 0.25), np.ones(n, np.int64)  # 192 MB
    paths = []
    for rows in (small, n):
        columns = {"score": scores[:rows], "outcome": outcomes[:rows]}
        path = tmp_path / f"{rows}.{'npz' if kind == 'npy in npz' else kind}"
        if kind == "arrow":  # a single batch, which would fill the memory
            with ipc.new_file(str(path), (table := pa.table(columns)).schema) as writer:
                writer.write_table(table)
        elif kind == "parquet":
            pq.write_table(pa.table(columns), path, compression="none", use_dictionary=False, row_group_size=n)
        else:
            np.savez(path, **columns)
        paths.append(str(path))
    done = subprocess.run([sys.executable, "-c", MEMORY, *paths, str(n)], capture_output=True, text=True, check=True)
    before, after = (int(kilobytes) / 1e3 for kilobytes in done.stdout.split())
    assert after < before + 70  # of 126 MB more to read
    assert after < 1000
