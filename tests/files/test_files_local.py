"""Files that are copied before they are read: standard input, workbooks, and files on the network."""

from __future__ import annotations

import gzip
import http.server
import io
import json
import os
import re
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from calibrant import files
from calibrant.errors import MissingDependencyError
from calibrant.errors.exceptions import install_command, package_command
from calibrant.files import FilePredictions, column_names, engine, local
from tests.in_process import fail, run, succeed
from tests.reading_of import asked, read_predictions, refuse

pa = pytest.importorskip("pyarrow", reason="the report extra is not installed")
pytest.importorskip("duckdb", reason="the report extra is not installed")
import pyarrow.parquet as pq  # noqa: E402

open_engine = engine.open_engine  # before the tests share one
SCORES = [0.1, 0.7, 0.4, 0.9]
OUTCOMES = [0, 1, 1, 1]
CSV = "score,outcome\n" + "".join(f"{s},{y}\n" for s, y in zip(SCORES, OUTCOMES, strict=True))
ROWS = [{"score": score, "outcome": outcome} for score, outcome in zip(SCORES, OUTCOMES, strict=True)]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS)


class Stream(io.TextIOWrapper):
    """Standard input with some bytes in it."""

    def __init__(self, content: str | bytes) -> None:
        super().__init__(io.BytesIO(content if isinstance(content, bytes) else content.encode()))


# Standard input.


@pytest.mark.covering
@pytest.mark.parametrize(
    "content", [CSV, "\ufeff" + CSV, CSV.replace(",", ";"), LINES, "\n  " + LINES, json.dumps(ROWS)]
)
@pytest.mark.parametrize("where", [None, "outcome >= 0"])
def test_standard_input(monkeypatch, content, where):
    monkeypatch.setattr(sys, "stdin", Stream(content))
    for _ in range(2):  # the command looks at its files more than once
        read = read_predictions(["-"], where=where)
        assert read.probs.tolist() == SCORES
        assert read.targets.tolist() == OUTCOMES
        assert read.paths == ("standard input",)
        assert read.locate(2) == ("standard input", 3)


def test_the_command_reads_standard_input(tmp_path):
    path = tmp_path / "f.csv"
    path.write_text(CSV)
    expected = run("report", str(path), "--n-resamples", "0")
    status, out, err = run("report", "-", "--n-resamples", "0", stdin=CSV)
    assert (status, err) == (expected[0], expected[2])
    assert out == out.replace(str(path), "standard input")
    assert out.splitlines()[0] == "standard input"
    assert out.splitlines()[1:] == expected[1].splitlines()[1:]
    models = "old,new,came\n" + "0.5,0.25,1\n0.25,0.5,0\n" * 20
    assert run("compare", "-", "--scores", "old,new", "--outcome", "came", stdin=models)[0] == 0


def test_an_error_in_standard_input_names_it_and_the_row():
    err = fail("report", "-", stdin=CSV + "1.5,1\n")
    assert err.startswith("calibrant: standard input: row 5, column 'score': expected")
    assert "/" not in err.replace("n/a", "")  # no path of a copy
    _, _, err = run("report", "-", stdin="x,y\n0.5,1\n0.25,0\n")
    assert err.endswith("name the right columns, such as: calibrant report - --score x --outcome y\n")


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("", "^standard input: is empty; pipe CSV with a header, or JSON lines, into the command"),
        (" \n", r"^standard input: is empty"),
        (
            b"PAR1xxxx",
            r"^standard input: is not text but Parquet \(\.parquet\); write the data to a file, and name that file$",
        ),
        (b"\x1f\x8b\x08", "^standard input: is not text but compressed \\(.gz\\); write the data"),
        ('{"score": 0.5,\n', r"^standard input: line 1 is not valid JSON"),
        ("score,outcome\n0.5\n", r"^standard input: line 2 has 1 field and the header 2"),
    ],
)
def test_standard_input_that_cannot_be_used(monkeypatch, content, match):
    monkeypatch.setattr(sys, "stdin", Stream(content))
    refuse(["-"], match)


def test_standard_input_that_is_closed_or_a_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    refuse(["-"], r"^standard input: is closed; name a file, or pipe")

    class Terminal(io.BytesIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Terminal(CSV.encode())))
    refuse(["-"], r"^standard input: is a terminal; pipe CSV or JSON lines into the command, such as: .*< predictions")


def test_standard_input_twice(monkeypatch):
    monkeypatch.setattr(sys, "stdin", Stream(CSV))
    refuse(["-", "-"], r"^standard input: is named twice; name each file once$")


# Workbooks.


@pytest.fixture
def workbook(tmp_path):
    pytest.importorskip("python_calamine", reason="python-calamine is not installed")
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl, which writes the workbooks of these tests, is missing")

    def write(name: str, **sheets: list[list[object]]) -> Path:
        book = openpyxl.Workbook()
        book.remove(book.active)
        for title, rows in sheets.items():
            sheet = book.create_sheet(title)
            for row in rows:
                sheet.append(row)
        book.save(tmp_path / name)
        return tmp_path / name

    return write


TABLE = [["score", "outcome", "who"], *([s, y, f"w, {y}"] for s, y in zip(SCORES, OUTCOMES, strict=True))]


def test_empty_rows_and_columns_before_a_table_are_not_read(workbook):
    rows = [[None] * 4, [None] * 4, *([None, None, *row] for row in TABLE)]
    read = read_predictions([workbook("f.xlsx", A=rows)])
    assert read.probs.tolist() == read_predictions([workbook("g.xlsx", A=TABLE)]).probs.tolist()


def test_every_byte_of_a_workbook_passes_its_checksum(tmp_path, workbook):
    """The reader stops at the end of the cells, before the checksum of the archive."""
    good = workbook("f.xlsx", A=TABLE)
    with zipfile.ZipFile(good) as archive, zipfile.ZipFile(tmp_path / "stored.xlsx", "w") as stored:
        for name in archive.namelist():
            stored.writestr(name, archive.read(name))
    data, cell = (tmp_path / "stored.xlsx").read_bytes(), f"<v>{TABLE[1][0]}</v>".encode()
    assert data.count(cell) == 1
    (tmp_path / "bad.xlsx").write_bytes(data.replace(cell, cell.replace(b"0.", b"1.")))
    refuse([tmp_path / "bad.xlsx"], r"bad\.xlsx: cannot be read \(.*(checksum|CRC)")


def test_the_reader_of_a_workbook_may_end_in_any_way(workbook, monkeypatch, tmp_path):
    """A panic is no Exception, and a failed allocation ends the process."""
    path, program = workbook("f.xlsx", A=TABLE), tmp_path / "reader.py"
    monkeypatch.setattr(local, "_READER", str(program))
    for code, words in {
        "import os; os.abort()": r"cannot be read \(the process that reads the workbook ended with status -6\)",
        "import sys; sys.stderr.write('memory allocation of 9 bytes failed'); sys.exit(1)": "takes more than 1 GB",
        "import os, signal; os.kill(os.getpid(), signal.SIGXCPU)": "reading takes more than 60 seconds",
        "print('{}')": r"cannot be read",
    }.items():
        program.write_text(code)
        path.touch()  # another version of the file
        os.utime(path, ns=(0, hash(code) % 10**15))
        refuse([path], words)


@pytest.mark.parametrize("where", [None, "outcome >= 0"])
def test_the_sheet_of_a_workbook(workbook, where):
    path = workbook("f.xlsx", Predictions=TABLE, Notes=[])
    assert column_names(str(path)) == ("score", "outcome", "who")
    read = read_predictions([path], by=["who"], where=where)
    assert read.probs.tolist() == SCORES
    assert read.targets.tolist() == OUTCOMES
    assert read.targets.dtype.kind == "i"
    assert read.groups.tolist() == ["w, 0", "w, 1", "w, 1", "w, 1"]
    assert read.locate(2) == (str(path), 3)
    workbook("f.xlsx", Predictions=TABLE[:3])  # another file of the same name
    assert read_predictions([path]).probs.tolist() == SCORES[:2]


def test_cells_of_a_workbook(workbook):
    import datetime

    days = [datetime.date(2024, 1, day) for day in (1, 2, 3)]
    rows = [["score", "outcome", "day"], *([s, s > 0.2, day] for s, day in zip((0.1, 1 / 3, 1), days, strict=True))]
    read = read_predictions([workbook("f.xlsx", A=rows)], by=["day"])
    assert read.probs.tolist() == [0.1, 1 / 3, 1]
    assert read.targets.tolist() == [False, True, True]
    assert read.groups.tolist() == ["2024-01-01", "2024-01-02", "2024-01-03"]


def formatted(path: Path, formats: list[str], scores: list[object], first: str = "A1") -> Path:
    """Write a workbook of scores, each with the format of its cell, and outcomes; ``first`` is the corner."""
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl, which writes the workbooks of these tests, is missing")
    book = openpyxl.Workbook()
    corner = book.active[first]
    for k, row in enumerate([("score", "outcome"), *((score, n % 2) for n, score in enumerate(scores))]):
        for j, value in enumerate(row):
            cell = book.active.cell(corner.row + k, corner.column + j, value)
            if k and not j:
                cell.number_format = formats[(k - 1) % len(formats)]
    book.save(path)
    return path


@pytest.mark.covering
@pytest.mark.parametrize("first", ["A1", "C4", "AB2"])
@pytest.mark.parametrize("formats", [["0%"], ["0.00%"], ["0%", "0.0%"], ["0.0\\ %;[Red]-0.0\\ %"]])
def test_the_format_of_cells_says_whether_they_are_per_cents(tmp_path, formats, first):
    """Excel shows 20 % and stores 0.2: with the option and without it is the same number."""
    path = formatted(tmp_path / "f.xlsx", formats, [0.2, 0.9, 0, 1], first)
    for percent in (False, True):
        assert read_predictions([path], percent=percent).probs.tolist() == [0.2, 0.9, 0, 1]


@pytest.mark.parametrize("number_format", ["General", "0.00", '0.0" %"', "0\\%"])
def test_cells_that_are_not_formatted_as_per_cent(tmp_path, number_format):
    """A sign in quotes is shown, and multiplies nothing."""
    path = formatted(tmp_path / "f.xlsx", [number_format], [20, 90.5, 0])
    assert read_predictions([path], percent=True).probs.tolist() == [0.2, 0.905, 0]
    path = formatted(tmp_path / "g.xlsx", [number_format], [0.2, 0.9, 1])
    refuse([path], "exceeds 1, so the values look like fractions; leave --percent out", percent=True)


@pytest.mark.parametrize("scores", [[0.2, 20, 0.9], [0.2, "20%", 0.9]])
def test_cells_of_which_some_are_formatted_as_per_cent(tmp_path, scores):
    path = formatted(tmp_path / "f.xlsx", ["0%", "General"], scores)
    match = (
        r"f\.xlsx: 2 cells of score are formatted as percent, but 1 are not; in the workbook, give "
        "all cells with probabilities the same format"
    )
    refuse([path], match, percent=True)
    path = formatted(tmp_path / "g.xlsx", ["0%", "General"], [0.2, 0, 0.9])
    assert read_predictions([path], percent=True).probs.tolist() == [0.2, 0, 0.9]


def test_workbooks_that_cannot_be_used(workbook, tmp_path, monkeypatch):
    path = workbook("two.xlsx", A=TABLE, B=TABLE)
    refuse([path], r"two\.xlsx: has 2 sheets with cells: A, B; name the sheet .*--sheet A")
    refuse([workbook("none.xlsx", A=[])], r"none\.xlsx: has no filled cells")
    hole = [*TABLE[:2], [None, 1, "x"]]
    refuse([workbook("hole.xlsx", A=hole)], r"hole\.xlsx: row 2, column 'score' is empty \(null\)")
    whole = workbook("whole.xlsx", A=TABLE)
    (tmp_path / "cut.xlsx").write_bytes(whole.read_bytes()[:800])
    refuse(
        [tmp_path / "cut.xlsx"], r"cut\.xlsx: cannot be read \(.*\); save the file again as \.xlsx, without a password"
    )
    read = files.read_predictions([str(tmp_path / "cut.xlsx"), str(whole)], asked({}), keep=True, keep_going=True)
    assert isinstance(read, FilePredictions)
    assert [path for path, _ in read.omitted] == [str(tmp_path / "cut.xlsx")]
    (tmp_path / "empty.xlsx").touch()
    refuse([tmp_path / "empty.xlsx"], r"empty\.xlsx: is empty \(0 bytes\)")
    monkeypatch.setenv("CALIBRANT_MAX_MEMORY", "20kB")
    refuse(
        [workbook("large.xlsx", A=TABLE)], r"large\.xlsx: takes .* kB when it is decompressed; save the sheet as CSV"
    )


def test_the_library_of_workbooks_is_missing(tmp_path, monkeypatch):
    (tmp_path / "f.xlsx").write_bytes(b"PK\x03\x04")
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    needed = rf"python-calamine is needed to read f\.xlsx .*{re.escape(install_command('excel'))}"
    with pytest.raises(MissingDependencyError, match=needed):
        read_predictions([tmp_path / "f.xlsx"])


# Files on the network. The server of these tests is in this process.

#: A file that takes longer to send, at 100 kB/s, than a server may be silent in these tests.
SLOW = "score,outcome\n" + "0.2500000000,0\n0.7500000000,1\n" * 5_000


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:  # a client that went away
        pass


class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/silent.csv":
            time.sleep(1)
        if self.path not in ("/slow.csv", "/cut.csv"):
            super().do_GET()
            return
        content = SLOW.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        for start in range(0, len(content) // (1 if self.path == "/slow.csv" else 2), 2_000):
            self.wfile.write(content[start : start + 2_000])
            time.sleep(0.02 if self.path == "/slow.csv" else 0)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    web = Server(("127.0.0.1", 0), lambda *args: Handler(*args, directory=str(tmp_path)))
    thread = threading.Thread(target=web.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{web.server_port}"
    web.shutdown()
    web.server_close()
    thread.join()


@pytest.mark.parametrize("name", ["f.csv", "f.parquet", "f.jsonl", "f.npz"])
def test_files_of_the_web(tmp_path, server, name):
    path = tmp_path / name
    if name == "f.parquet":
        pq.write_table(pa.table({"score": SCORES, "outcome": OUTCOMES}), path)
    elif name == "f.npz":
        np.savez(path, score=SCORES, outcome=OUTCOMES)
    else:
        path.write_text(CSV if name == "f.csv" else LINES)
    url = f"{server}/{name}"
    read = read_predictions([url])
    assert read.probs.tolist() == SCORES
    assert read.paths == (url,)
    assert read.locate(2) == (url, 3)
    if name != "f.npz":
        assert read_predictions([url], where="score > 0.2").probs.tolist() == SCORES[1:]
    assert run("report", url, "--n-resamples", "0")[1].splitlines()[0] == url


def test_what_the_web_does_not_give(tmp_path, server, monkeypatch):
    refuse([f"{server}/none.csv"], r"/none\.csv: cannot be fetched \(.*404.*\); check the name, the net")
    (tmp_path / "silent.csv").write_text(CSV)
    monkeypatch.setattr(local, "PATIENCE", 0.3)
    start = time.monotonic()
    refuse([f"{server}/silent.csv"], r"silent\.csv: (sent nothing for 0 seconds|cannot be fetched \(timed out\)); che")
    assert time.monotonic() - start < 2
    assert local.PATIENCE < 10


def test_a_slow_server_is_not_a_silent_one(server, monkeypatch):
    monkeypatch.setattr(local, "PATIENCE", 0.5)
    start = time.monotonic()
    assert len(read_predictions([f"{server}/slow.csv"]).probs) == 10_000
    assert time.monotonic() - start > 1


def test_a_file_that_ends_early_is_refused(server):
    refuse([f"{server}/cut.csv"], r"/cut\.csv: ended after \d\d,000 of 150,014 bytes; try again, or copy")


def test_a_slow_bucket_is_not_a_silent_one(monkeypatch):
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    content, pieces = SLOW.encode(), []

    class Stream(fsspec.spec.AbstractBufferedFile):
        def _fetch_range(self, start, end):
            pieces.append(len(content[start:end]))
            time.sleep((end - start) / 200_000)
            return content[start:end]

    class Bucket(fsspec.AbstractFileSystem):
        protocol = "slow"

        def info(self, path, **_):
            return {"name": path, "size": len(content), "type": "file"}

        def _open(self, path, mode="rb", **options):
            options.pop("block_size", None)
            return Stream(self, path, mode, **options)

    fsspec.register_implementation("slow", Bucket, clobber=True)
    monkeypatch.setitem(local._PACKAGES, "slow", "fsspec")
    monkeypatch.setattr(local, "PATIENCE", 0.6)
    assert len(read_predictions(["slow://logs/slow.csv"]).probs) == 10_000
    assert sum(pieces) == len(content)  # nothing is fetched twice


@pytest.mark.parametrize(("protocol", "package"), [("s3", "s3fs"), ("gs", "gcsfs"), ("hf", "huggingface_hub")])
def test_the_package_of_a_protocol_is_missing(monkeypatch, protocol, package):
    monkeypatch.setitem(sys.modules, package, None)
    start = time.monotonic()
    command = re.escape(package_command(package))
    match = rf"^{protocol}://b/f\.csv: needs the package {package}, which is not installed; run: {command}, or"
    refuse([f"{protocol}://b/f.csv"], match)
    assert time.monotonic() - start < 10


def test_an_unknown_protocol():
    refuse(["ftp://b/f.csv"], r"^ftp://b/f\.csv: unknown protocol ftp://; use one of s3://, gs://")


def test_other_protocols_are_read_by_fsspec(monkeypatch):
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    monkeypatch.setitem(local._PACKAGES, "memory", "fsspec")  # buckets need accounts; files in memory do not
    for part in "ba":
        with fsspec.open(f"memory://logs/{part}.csv", "wb") as stream:
            stream.write(CSV.encode())
    read = read_predictions(["memory://logs/*.csv"])
    assert read.probs.tolist() == SCORES * 2
    assert read.paths == ("memory:///logs/a.csv", "memory:///logs/b.csv")
    assert read_predictions(["memory://logs/a.csv"]).paths == ("memory://logs/a.csv",)
    refuse(["memory://logs/*.npz"], r"^memory://logs/\*\.npz: no file matches this pattern; check")


def test_what_spark_cannot_read(tmp_path):
    (tmp_path / "a.csv").write_text(CSV.replace(",", ";"))
    (tmp_path / "a.json").write_text(json.dumps(ROWS))
    for name, words in (("a.csv", " (CSV with semicolons)"), ("a.json", ""), ("-", "")):
        path = name if name == "-" else str(tmp_path / name)
        status, _, err = run("report", path, "--engine", "spark", stdin=CSV)
        shown = path.replace("-", "standard input") if name == "-" else path
        assert (status, err) == (
            1,
            f"calibrant: {shown}: is of a kind{words} that --engine spark cannot read; "
            "write it as Parquet, or leave --engine spark out\n",
        )


def test_copies_are_removed_at_the_end():
    code = (
        "import sys, io; from calibrant import files; from calibrant.files import Options, local;"
        "files.read_predictions(['-'], Options()); print(local.temporary_folder())"
    )
    done = subprocess.run([sys.executable, "-c", code], input=CSV, text=True, capture_output=True, check=True)
    assert "calibrant-" in done.stdout
    assert not Path(done.stdout.strip()).exists()


@pytest.mark.skipif(sys.platform == "win32", reason="pipes and devices of POSIX")
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.npz", "a.parquet", "a.xlsx", "a.eval", "a.cal"])
def test_pipes_and_devices_are_not_read(tmp_path, name):
    os.mkfifo(tmp_path / name)
    os.symlink("/dev/zero", tmp_path / f"zero{name}")
    for path in (name, f"zero{name}"):
        refuse([tmp_path / path], r"is a pipe or a device, not a file; copy the data")


def test_a_name_of_many_parts_is_refused_at_once(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"score": 0.5, "outcome": 1, "a": {"b": 1}}\n')
    for options in ({"score": ".".join("a" * 50_000)}, {"by": [".".join("a" * 50_000)]}):
        refuse(
            [path],
            "the name of a column has 99,999 characters; pass a name or an expression of at most 5,000 characters",
            **options,
        )


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("raise ImportError('libx.so: failed to map segment')", "a library cannot be loaded (libx.so: failed to map"),
        ("import no_such_module_of_theirs", "a library cannot be loaded (No module named 'no_such_module_of_theirs')"),
        ("raise MemoryError", "the predictions do not fit into memory"),
    ],
)
@pytest.mark.parametrize(("package", "name"), [("python_calamine", "f.xlsx"), ("duckdb", "f.jsonl")])
def test_a_package_that_does_not_load_is_not_called_missing(tmp_path, monkeypatch, code, words, package, name):
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").write_text(code)
    (tmp_path / name).write_text('{"score": 0.5, "outcome": 1}\n')
    monkeypatch.syspath_prepend(tmp_path)
    for loaded in [each for each in sys.modules if each.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setattr(engine, "open_engine", open_engine)
    err = fail("report", tmp_path / name, "--n-resamples", "0")
    assert words in err
    assert "not installed" not in err
    assert err.count("\n") == 1


# Texts in other encodings.

NAMED = "größe,score,outcome\n" + "".join(
    f"Müller {k},{s},{y}\n" for k, (s, y) in enumerate(zip(SCORES, OUTCOMES, strict=True))
)
NAMED_LINES = "".join(json.dumps({"größe": "Müller", **row}, ensure_ascii=False) + "\n" for row in ROWS)
ENCODINGS = ("cp1252", "latin-1", "utf-16", "utf-16-be", "mac-roman")


def brier(*args: str, stdin: bytes | None = None) -> float:
    out, _ = succeed("report", *args, "--measures", "brier", "--json", "-", "--quiet", stdin=stdin)
    return float(json.loads(out)["estimates"]["brier"]["value"])


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", ["f.csv", "f.tsv", "f.jsonl", "f.json", "f.csv.gz"])
def test_a_text_in_another_encoding_is_read_like_one_in_utf8(tmp_path, name, encoding):
    path = tmp_path / name
    text = NAMED_LINES if "jsonl" in name else json.dumps(ROWS) if "json" in name else NAMED
    content = text.replace(",", "\t" if "tsv" in name else ",").encode(encoding)
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    expected = np.mean((np.array(SCORES) - OUTCOMES) ** 2)
    assert brier(str(path), "--encoding", encoding) == pytest.approx(expected)
    if not name.endswith((".tsv", ".gz")):
        assert brier("-", "--encoding", encoding, stdin=content) == pytest.approx(expected)
    if "json" not in name or "jsonl" in name:
        _, out, _ = run("report", str(path), "--encoding", encoding, "--by", "größe", "--quiet", "--json", "-")
        assert "Müller" in json.loads(out)["groups"][0]["name"]
    assert not local._recoded  # nothing is left of the copies


def test_an_error_proposes_the_encoding(tmp_path):
    path = tmp_path / "f.csv"
    for text, encoding, words in (
        (
            NAMED,
            "cp1252",
            "if the line should contain 'größe,score,outcome",
        ),
        (
            NAMED.replace("größe", "who"),
            "cp1252",
            "if the line should contain 'Müller 0,0.1,0', type: calibrant",
        ),
        (NAMED, "utf-16", "is text in utf-16, not in UTF-8; save the file as UTF-8, or name its encoding: calibrant"),
        (NAMED_LINES, "utf-16", " --encoding utf-16"),
        (NAMED_LINES, "cp1252", '"größe": "Müller", "score"'),
        (
            NAMED.replace("größe", "who").replace("ü", "\x81"),
            "latin-1",
            "or name its encoding with --encoding, such as cp1250 (Polish, Czech)",
        ),
    ):
        path = tmp_path / ("f.jsonl" if text is NAMED_LINES else "f.csv")
        path.write_bytes(text.encode(encoding))
        assert words in fail("report", str(path), "--by", "who" if "who," in text else "größe")
        succeed("report", str(path), "--encoding", encoding, "--quiet")  # the remedy, typed


def test_encodings_and_sheets_that_cannot_be_used(tmp_path, workbook):
    (tmp_path / "f.csv").write_bytes(NAMED.encode("cp1252"))
    path, sheets = str(tmp_path / "f.csv"), str(workbook("two.xlsx", First=TABLE[:3], Second=TABLE))
    for args, status, words in (
        ((path, "--encoding", "ascii"), 1, "is not text in the encoding ascii ("),
        ((path, "--encoding", "nonsense"), 2, "'nonsense'; name an encoding, such as cp1252 or utf-16"),
        ((path, "--encoding", "rot13"), 2, "'rot13'; name an encoding"),
        ((path, "--sheet", "A"), 1, "--sheet is for workbooks (.xlsx), but the file is not one; leave --sheet out"),
        ((sheets, "--encoding", "cp1252"), 1, "--encoding is for text files, but the file is not one"),
        ((sheets,), 1, "has 2 sheets with cells: First, Second; name the sheet with the predictions, such as --sheet"),
        ((sheets, "--sheet", "second"), 1, "has no sheet 'second' with cells; did you mean 'Second'? the sheets with"),
    ):
        found, _, err = run("report", *args)
        assert (found, words in err) == (status, True), err


def test_a_sheet_is_read_by_its_name(workbook):
    path = str(workbook("two.xlsx", Notes=[["read me"]], **{"A & B": TABLE}))
    assert brier(path, "--sheet", "A & B") == pytest.approx(np.mean((np.array(SCORES) - OUTCOMES) ** 2))
    assert run("report", path, "--quiet")[0] == 1  # the next command asks again


def test_the_per_cents_of_a_sheet_are_those_of_its_cells(tmp_path):
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl, which writes the workbook, is missing")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, form in (("Plain", "General"), ("Percent", "0%")):
        sheet = book.create_sheet(title)
        for row in TABLE:
            sheet.append(row)
        for row in range(2, len(TABLE) + 1):
            sheet.cell(row, 1).number_format = form
            sheet.cell(row, 1).value = SCORES[row - 2] * (1 if form == "0%" else 100)
    book.save(tmp_path / "f.xlsx")
    found = [brier(str(tmp_path / "f.xlsx"), "--sheet", name, "--percent") for name in ("Plain", "Percent")]
    assert found == pytest.approx([np.mean((np.array(SCORES) - OUTCOMES) ** 2)] * 2)
