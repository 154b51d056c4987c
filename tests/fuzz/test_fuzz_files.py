"""Attacks on the readers of files: a damaged file is refused with an error of the library, or read as others read it.

`python tests/fuzz/attack.py --seconds 600` runs them for longer.
"""

from __future__ import annotations

import codecs
import gzip
import io
import json
import math
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attack import FORGED, attack
from golden_files import golden

import calibrant
from calibrant.errors import FileError, InputError
from calibrant.files import BadRows, Options, engine, read_predictions
from calibrant.files.stored import decompressed_bytes

pa = pytest.importorskip("pyarrow", reason="the report extra is not installed")
pytest.importorskip("duckdb", reason="the report extra is not installed")
import pyarrow.parquet as pq  # noqa: E402
from pyarrow import ipc  # noqa: E402

open_engine = engine.open_engine  # before the tests share one
EVENT = {"score": "score", "outcome": "outcome"}


@pytest.mark.parametrize("name", golden())
@pytest.mark.slow
def test_short_attack(name: str) -> None:
    outcome = attack(name, seed=16, count=60)
    assert outcome.tried == 60
    assert not [fault for fault, _ in outcome.faults]


@pytest.mark.slow
@pytest.mark.parametrize("name", golden())
def test_long_attack(name: str) -> None:
    outcome = attack(name, seed=17, seconds=3, least=51)  # a slow machine takes longer
    assert outcome.tried > 50
    assert not [fault for fault, _ in outcome.faults]


@pytest.mark.parametrize("count", [6, pytest.param(100, marks=pytest.mark.slow)])
def test_forged_workbooks(count: int) -> None:
    """The first six hold a cell far away and a promised count, which made the reader of workbooks end its process."""
    pytest.importorskip("python_calamine", reason="python-calamine is not installed")
    outcome = attack(FORGED, seed=0, count=count)
    assert outcome.tried == count
    assert outcome.read == outcome.compared > 0
    assert not [fault for fault, _ in outcome.faults]


@pytest.mark.slow
def test_the_attack_finds_a_reader_that_dies_or_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, a broken harness would find nothing for ever."""
    monkeypatch.setenv("CALIBRANT_FUZZ_SELF_TEST", "1")
    faults = [fault for fault, _ in attack("flat.csv", seed=1, count=2).faults]
    assert "ends the process" in faults[0]
    assert "raises ZeroDivisionError" in faults[1]


# ---------------------------------------------------------------- SQL of the user's own


@pytest.fixture
def own_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open the engine as users do, once for each call."""
    monkeypatch.setattr(engine, "open_engine", open_engine)


CONDITIONS = {
    "two statements": ("score > 0; COPY (SELECT 1) TO '{folder}/out.csv'", "more|syntax error|single SELECT"),
    "out of its brackets": ("true); COPY (SELECT 1) TO '{folder}/out.csv'; SELECT (true", "syntax error"),
    "settings in the middle": ("true); SET threads=1; SELECT (true", "syntax error"),
    "a union": ("true) UNION ALL SELECT * FROM (SELECT 1, 1 WHERE true", "syntax error"),
    "two expressions": ("score > 0, outcome = 1", "consists of several expressions; join conditions with AND"),
    "another table": ("score > 0 FROM other", "FROM|from"),
    "another file": ("(SELECT count(*) FROM read_text('{folder}/secret.txt')) > 0", "a subquery is not allowed"),
    "another file by its name": ("(SELECT count(*) FROM '{folder}/other.csv') > 0", "a subquery is not allowed"),
    "names of files": ("(SELECT count(*) FROM glob('{folder}/*')) > 0", "a subquery is not allowed"),
    "the network": ("(SELECT count(*) FROM read_csv('https://example.com/x.csv')) > 0", "a subquery is not allowed"),
}


@pytest.mark.covering
@pytest.mark.usefixtures("own_engine")
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "arrow"])
@pytest.mark.parametrize("what", CONDITIONS)
@pytest.mark.parametrize("option", ["where", "clusters"])
def test_sql_is_one_expression_over_the_file(tmp_path: Path, ending: str, what: str, option: str) -> None:
    tmp_path.joinpath("secret.txt").write_text("hunter2")
    tmp_path.joinpath("other.csv").write_text("x\n1\n")
    names = {"csv": "flat.csv", "jsonl": "rows.jsonl", "parquet": "plain.parquet", "arrow": "file.arrow"}
    path = tmp_path / names[ending]
    path.write_bytes(golden()[names[ending]])
    sql, words = CONDITIONS[what]
    sql = sql.format(folder=tmp_path)
    words = "does not give one value for each row" if option == "clusters" and "several" in words else words
    with pytest.raises(FileError, match=words) as error:
        read_predictions([str(path)], Options(**EVENT, **{option: sql if option == "where" else (sql,)}))
    assert "hunter2" not in str(error.value)
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(["secret.txt", "other.csv", path.name])


def test_the_engine_sees_no_variable() -> None:
    numbers = pa.table({"x": [1]})
    assert numbers.num_rows == 1
    with pytest.raises(Exception, match="Table with name numbers does not exist"):
        open_engine("for a test", [], "UTC").execute("SELECT count(*) FROM numbers")


@pytest.mark.usefixtures("own_engine")
@pytest.mark.parametrize("name", ["a.csv", "b[1].csv", "c*?.csv", "d'e.csv", "[f].csv"])
def test_names_of_files_mean_themselves(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(golden()["flat.csv"])
    rows = read_predictions([str(path)], Options(**EVENT, where="score > 0.5"))
    assert 0 < len(rows.probs) < 60


# ---------------------------------------------------------------- small files that promise much


def npz(arrays: dict[str, tuple[tuple[int, ...], str, bool]]) -> bytes:
    """Return an archive of zeros; each array has a shape, a type, and whether it is stored by columns."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, (shape, dtype, by_columns) in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                head = {"descr": np.dtype(dtype).str, "fortran_order": by_columns, "shape": shape}
                np.lib.format.write_array_header_1_0(member, head)
                left, zeros = math.prod(shape) * np.dtype(dtype).itemsize, bytes(1 << 22)
                while left > 0:
                    member.write(zeros[:left])
                    left -= len(zeros)
    return stream.getvalue()


def arrow(kind: str, rows: int = 100_000_000) -> bytes:
    """Return one compressed batch of zeros in a few kilobytes."""
    stream, zeros = io.BytesIO(), np.zeros(rows)
    table = pa.table({"score": zeros, "outcome": zeros})
    new = ipc.new_stream if kind == "stream" else ipc.new_file
    with new(stream, table.schema, options=ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table, max_chunksize=rows)
    return stream.getvalue()


def parquet(lengths: list[int]) -> bytes:
    """Return lists of a constant: Parquet stores them in a few bytes, however long they are."""
    stream = io.BytesIO()
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    lists = pa.ListArray.from_arrays(offsets, np.full(offsets[-1], 0.5))
    pq.write_table(pa.table({"probs": lists, "target": [0] * len(lengths)}), stream)
    return stream.getvalue()


def keys(rows: int, each: int) -> bytes:
    """Return objects with other keys in each row, of several types."""
    rows_of = (
        {"score": 0.5, "outcome": r % 2, **{f"k{r}_{k}": [k, "a"][k % 2] for k in range(each)}} for r in range(rows)
    )
    return "".join(json.dumps(row) + "\n" for row in rows_of).encode()


def inner_keys(rows: int, each: int) -> bytes:
    """Return objects that hold an object with other keys in each row."""
    rows_of = ({"score": 0.5, "outcome": r % 2, "a": {"b": {f"k{r}_{k}": k for k in range(each)}}} for r in range(rows))
    return "".join(json.dumps(row) + "\n" for row in rows_of).encode()


WIDE = "score,outcome," + ",".join(f"c{k}" for k in range(150_000))
#: Files that are small and promise much: by name what they hold, and what is said of them; None where they are read.
PROMISES: dict[str, tuple[Callable[[], bytes], str | None]] = {
    "rows.npz": (lambda: npz({"score": ((60_000_000,), "f8", False), "outcome": ((60_000_000,), "u1", False)}), None),
    "wide.npz": (lambda: npz({"probs": ((2, 50_000_000), "f8", False), "target": ((2,), "i8", False)}), "rows of 400,"),
    "by_columns.npz": (
        lambda: npz({"probs": ((3, 5_000_000), "f8", True), "target": ((3,), "i8", False)}),
        "got 0 at row 0",
    ),
    "text.npz": (lambda: npz({"score": ((40_000,), "f8", False), "outcome": ((40_000,), "U5000", False)}), "strings"),
    "batch.arrow": (lambda: arrow("file"), "has a batch that takes 1.6 GB when it is decompressed"),
    "stream.arrow": (lambda: arrow("stream"), "has a batch that takes 1.6 GB when it is decompressed"),
    "lists.parquet": (lambda: parquet([1_000_000] * 100), "got 500000 at row 0"),
    "uneven.parquet": (lambda: parquet([2] * 1_000 + [100_000_000]), "has 100,002,000 numbers in lists"),
    "cell.csv": (lambda: b"score,outcome,x\n.5,1,\n.5,0," + b"a" * 50_000_000, "line 3 has more than 2 MB"),
    "header.csv": (
        lambda: WIDE.encode() + b"\n" + b"0," * 150_001 + b"0\n",
        "has 150,002 columns, but calibrant reads at most 100,000",
    ),
    "line.jsonl": (lambda: b'{"score": 0.5, "outcome": 1, "x": "' + b"a" * 50_000_000, "a line of more than 16 MB"),
    "keys.jsonl": (lambda: keys(60, 500), "has more than 20,000 keys"),
    "inner.jsonl": (lambda: inner_keys(60, 300), "has more than 2,000 keys within objects"),
    "deep.jsonl": (
        lambda: b'{"score": 0.5, "outcome": 1, "x": ' + b"[" * 10**5 + b"]" * 10**5 + b"}",
        "deeper than 128",
    ),
}

READ = """
import sys, resource
import calibrant, calibrant.files as files
calibrant.evaluate([.2, .7], [0, 1], n_resamples=0)
files.column_names(sys.argv[2])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    rows = files.read_predictions([sys.argv[1]], files.Options())
    print("read", rows.paths)
    if isinstance(rows, files.FilePredictions):
        calibrant.evaluate(rows.probs, rows.targets, n_resamples=0)
except calibrant.CalibrantError as error:
    print(error)
except files.BadRows as error:
    print(error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured as Linux does")
@pytest.mark.slow
@pytest.mark.parametrize("name", PROMISES)
def test_small_files_that_promise_much_take_no_gigabyte(tmp_path: Path, name: str) -> None:
    path, small = tmp_path / name, tmp_path / "small.parquet"
    content, words = PROMISES[name]
    path.write_bytes(content())
    small.write_bytes(golden()["plain.parquet"])  # the libraries are loaded before memory is measured
    done = subprocess.run([sys.executable, "-c", READ, path, small], capture_output=True, text=True, timeout=60)
    said, memory = done.stdout.strip().rsplit("\n", 1)
    assert done.returncode == 0, done.stderr
    assert ("read" if words is None else words) in said
    assert int(memory) < 1_000_000  # kilobytes


# ---------------------------------------------------------------- what stays right


def test_a_mark_of_byte_order_is_no_part_of_json_lines(tmp_path: Path) -> None:
    plain = golden()["rows.jsonl"]
    for name, data in (("a.jsonl", codecs.BOM_UTF8 + plain), ("b.jsonl.gz", gzip.compress(codecs.BOM_UTF8 + plain))):
        path = tmp_path / name
        path.write_bytes(data)
        for where in (None, "weight > 1"):
            path.with_name("plain.jsonl").write_bytes(plain)
            expected, rows = (
                read_predictions([str(each)], Options(**EVENT, where=where))
                for each in (tmp_path / "plain.jsonl", path)
            )
            np.testing.assert_array_equal(rows.probs, expected.probs)
            assert rows.paths == (str(path),)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", "score,outcome\n.5,1\n0.1_5,1\n", "row 2, column 'score': '0.1_5' is not a number"),
        ("a.csv", "score,outcome\n.5,1\n.5,0_1\n", "row 2, column 'outcome': '0_1' is not a number"),
        (
            "a.jsonl",
            '{"probs": ["0.1_5", "0.85"], "target": 1}\n',
            "row 1, column 'probs': .* is not a list of numbers",
        ),
        (
            "a.jsonl",
            '{"score": 0.5, "Score": 0.7, "outcome": 1}\n',
            "differ only in upper and lower case: 'Score', 'score'",
        ),
    ],
)
def test_texts_mean_what_others_take_them_for(tmp_path: Path, name: str, content: str, words: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(FileError, match=words):
        read_predictions([str(path)], Options())


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((-3, 2), r"has the shape \(-3, 2\)"),
        ((4, 0), r"has the shape \(4, 0\)"),
        ((4, 0, 3), "has the shape"),
        ((0, 3), "has 4 rows, but the probabilities have 0"),
    ],
)
@pytest.mark.parametrize("by_columns", [False, True])
def test_arrays_of_no_size_are_named(tmp_path: Path, shape: tuple[int, ...], words: str, by_columns: bool) -> None:
    with open(tmp_path / "p.npy", "wb") as stream:
        np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": by_columns, "shape": shape})
    np.save(tmp_path / "y.npy", [0, 1, 0, 1])
    with pytest.raises(FileError, match=words):
        read_predictions([str(tmp_path / "p.npy")], Options(), targets_file=str(tmp_path / "y.npy"))


@pytest.mark.parametrize("by_columns", [False, True])
def test_an_archive_without_rows_says_so(tmp_path: Path, by_columns: bool) -> None:
    path = tmp_path / "empty.npz"
    path.write_bytes(npz({"probs": ((0, 3), "f8", by_columns), "target": ((0,), "i8", False)}))
    with pytest.raises(FileError, match="holds no rows"):
        read_predictions([str(path)], Options())


KINDS = {
    "first": np.zeros(5_000),
    "null": pa.nulls(5_000),
    "bool": np.zeros(5_000, bool),
    "text": pa.array(["abc"] * 5_000),
    "view": pa.array(["x" * 50] * 5_000).cast(pa.string_view()),
    "struct": pa.array([{"u": 1.0, "w": [1, 2, 3]}] * 5_000),
    "fixed": pa.FixedSizeListArray.from_arrays(np.zeros(15_000), 3),
    "map": pa.array([[("a", 1)]] * 5_000, pa.map_(pa.string(), pa.int64())),
    "sparse": pa.UnionArray.from_sparse(pa.array(np.zeros(5_000, np.int8)), [pa.array(np.zeros(5_000))]),
    "dense": pa.UnionArray.from_dense(
        pa.array(np.zeros(5_000, np.int8)), pa.array(np.arange(5_000, dtype=np.int32)), [pa.array(np.zeros(5_000))]
    ),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([5_000], pa.int32()), pa.array([0.5])),
    "list view": pa.array([[1, 2]] * 5_000, pa.list_view(pa.int64())),
    "codes": pa.array(["abc"] * 5_000).dictionary_encode(),
    "last": np.zeros(5_000),
}


@pytest.mark.parametrize("new", [ipc.new_file, ipc.new_stream])
@pytest.mark.parametrize("kind", KINDS)
def test_the_sizes_that_a_batch_promises_belong_to_their_columns(tmp_path: Path, new: Any, kind: str) -> None:
    """Arrow's own size of each column is the oracle; it rounds bits up to bytes and buffers to 8 bytes."""
    path, table = (
        tmp_path / "a.arrow",
        pa.table({"first": KINDS["first"], "middle": KINDS[kind], "last": KINDS["last"]}),
    )
    with new(str(path), table.schema, options=ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    alone = {name: decompressed_bytes(str(path), table.schema, [name]) for name in table.column_names}
    dictionary = 7 if kind == "codes" else 0  # bytes of "abc", which every batch needs, and their ends
    for name in table.column_names:
        assert alone[name] == pytest.approx(table[name].nbytes, abs=40 + dictionary)
    assert decompressed_bytes(str(path), table.schema, table.column_names) == pytest.approx(table.nbytes, abs=80)


def test_two_arrays_of_one_name_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "two.npz", "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for values in ([0.2, 0.7], [0.4, 0.1]):
            with archive.open("score.npy", "w") as member:
                np.save(member, values)
    with pytest.raises(FileError, match="has 2 arrays named 'score'"):
        read_predictions([str(tmp_path / "two.npz")], Options())


@pytest.mark.parametrize("keep", [True, False])
def test_rows_of_targets_are_those_of_their_own_file(tmp_path: Path, keep: bool) -> None:
    paths = [str(tmp_path / f"p{k}.npy") for k in range(2)]
    for path in paths:
        np.save(path, [0.2, 0.7, 0.4])
    np.save(tmp_path / "y.npy", [0, 1, 0, 1, 7, 0])
    try:
        rows = read_predictions(paths, Options(), targets_file=str(tmp_path / "y.npy"), keep=keep)
    except BadRows as bad:
        rows, error = bad.rows, bad.error
    else:
        with pytest.raises(InputError) as wrong:
            calibrant.evaluate(rows.probs, rows.targets)
        error = wrong.value
    path, problem = rows.place(error)
    assert path == str(tmp_path / "y.npy")
    assert problem.startswith("row 5, column 'targets': expected outcomes 0 or 1, got 7")


@pytest.mark.parametrize("name", ["pages.parquet", "file.arrow", "compressed.feather"])
def test_a_damaged_file_is_blamed_and_not_the_condition(tmp_path: Path, name: str) -> None:
    table = pq.read_table(io.BytesIO(golden()["plain.parquet"]), columns=["score", "outcome", "probs"])
    path, stream = tmp_path / name, io.BytesIO()
    if name.endswith("parquet"):
        pq.write_table(table, stream, compression="zstd", use_dictionary=False)
        data = bytearray(stream.getvalue())
        at = pq.read_metadata(io.BytesIO(data)).row_group(0).column(2).data_page_offset
        data[at + 60 : at + 100] = bytes(40)
    else:
        with ipc.new_file(stream, table.schema) as writer:
            writer.write_table(table)
        data = bytearray(stream.getvalue())
        at = data.index(np.arange(0, 24, 3, dtype=np.int32).tobytes())  # the ends of lists
        data[at + 8 : at + 12] = b"\xff" * 4
    path.write_bytes(data)
    with pytest.raises(FileError, match="damaged") as error:
        read_predictions([str(path)], Options(probs="probs", target="outcome", where="score > 0.1"))
    assert "--where" not in str(error.value)
    good = tmp_path / f"good-{name}"
    good.write_bytes(stream.getvalue())
    for where in (None, "score > 0"):
        options = Options(probs="probs", target="outcome", where=where)
        left = read_predictions([str(path), str(good)], options, keep_going=True)
        assert [each.path for each in left.omitted] == [str(path)]
        assert len(left.probs) == 60


def test_a_link_to_itself_hides_no_other_name(tmp_path: Path) -> None:
    (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
    (tmp_path / "scores.csv").write_text("score,outcome\n.5,1\n")
    with pytest.raises(FileError, match=r"no such file; did you mean 'scores.csv'\?"):
        read_predictions([str(tmp_path / "score.csv")], Options())
    assert read_predictions([str(tmp_path)], Options()).paths == (str(tmp_path / "scores.csv"),)
