"""What the command writes besides its report: Markdown, pictures, a page in a browser, or nothing at all."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
import warnings
import xml.etree.ElementTree as ET
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.cli import console, loading, output
from calibrant.files import reading
from calibrant.render import markdown
from calibrant.render.blocks import Source
from tests.in_process import fail, run, succeed

ROOT = Path(__file__).parents[2]
FAST = ("--n-resamples", "0")
REPORT = ("report", "games.csv", "--score", "win", "--outcome", "won", *FAST)
COMPARE = ("compare", "games.csv", "--scores", "win,late", "--outcome", "won")
#: The variables that say whether a browser can be shown.
SCREENS = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION", "SSH_TTY")

posix = pytest.mark.skipif(sys.platform == "win32", reason="a shell script as the browser")


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (*SCREENS, "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    rng = np.random.default_rng(1)
    score = rng.random(400).round(3)
    outcome = (rng.random(400) < score**1.5).astype(int)
    lines = [f"{s},{s**3:.4f},{o},{i % 2}" for i, (s, o) in enumerate(zip(score, outcome, strict=True))]
    Path("games.csv").write_text("\n".join(["win,late,won,home", *lines]) + "\n")
    classes, target = rng.dirichlet(np.ones(3), 90), rng.integers(0, 3, 90)
    np.savez("classes.npz", probs=classes, target=target)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that the browser was asked to open; no browser starts."""
    addresses: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: addresses.append(url) is None)
    return addresses


def rows() -> np.ndarray[Any, Any]:
    return np.genfromtxt("games.csv", delimiter=",", skip_header=1)


# ---------------------------------------------------------------- outputs change nothing else

OUTPUTS = {
    "--sketch": "a.cal",
    "--json": "a.json",
    "--html": "a.html",
    "--markdown": "a.md",
    "--png": "a.png",
    "--svg": "a.svg",
    "--pdf": "a.pdf",
}
JUDGED: dict[str, tuple[str, ...]] = {
    "event": REPORT,
    "groups": (*REPORT, "--by", "home"),
    "clusters": (*REPORT, "--cluster", "cast(late * 20 AS int)"),
    "classes": ("report", "classes.npz", *FAST),
    "classes, top label": ("report", "classes.npz", "--notion", "top-label", "--no-classwise", *FAST),
    "clinical": (*REPORT, "--profile", "clinical"),
}


@pytest.mark.parametrize("most", [None, 0], ids=["rows", "stream"])
@pytest.mark.parametrize("evaluated", JUDGED)
@pytest.mark.slow
def test_an_output_changes_no_number(monkeypatch: pytest.MonkeyPatch, evaluated: str, most: int | None) -> None:
    if most is not None:
        monkeypatch.setattr(reading, "MOST_ROWS", most)
    out, err = succeed(*JUDGED[evaluated], "--all")
    written = [word for option in OUTPUTS.items() for word in option]
    status, shown, said = run(*JUDGED[evaluated], "--all", *written)
    assert (status, shown) == (0, out)
    assert set(err.splitlines()) <= set(said.splitlines())
    plain = json.loads(run(*JUDGED[evaluated], "--json", "-")[1])
    in_file = json.loads(Path("a.json").read_text())
    in_file.pop("sketch", None)
    assert in_file == plain


@pytest.mark.parametrize("evaluated", JUDGED)
def test_the_sketch_of_kept_rows_is_that_of_a_stream(monkeypatch: pytest.MonkeyPatch, evaluated: str) -> None:
    for name, options in (("kept.cal", ()), ("exact.cal", ("--exact",)), ("streamed.cal", ())):
        if name == "streamed.cal":
            monkeypatch.setattr(reading, "MOST_ROWS", 0)
        assert run(*JUDGED[evaluated], *options, "--sketch", name)[0] == 0
    assert Path("kept.cal").read_bytes() == Path("exact.cal").read_bytes() == Path("streamed.cal").read_bytes()


def test_floor_writes_its_file_before_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(console, "write", gone)
    run("floor", "--n", "30", "--n-resamples", "9", "--json", "f.json")
    assert json.loads(Path("f.json").read_text())["n"] == 30


# ---------------------------------------------------------------- an input is read once


@pytest.mark.covering
@pytest.mark.parametrize("ending", ["csv", "npz", "parquet", "arrow", "jsonl", "npy"])
@pytest.mark.parametrize("damage", ["gone", "other"])
def test_what_was_read_may_change(monkeypatch: pytest.MonkeyPatch, ending: str, damage: str) -> None:
    """The hint about repeated ids stays too: it is from what was read."""
    import pyarrow as pa
    from pyarrow import feather, parquet

    path, number = Path(f"a.{ending}"), np.arange(60)
    columns = {"score": (number % 9 + 1) / 10, "outcome": number // 6 % 2, "patient_id": number // 6}
    if ending == "npz":
        np.savez(path, **columns)
    elif ending == "npy":
        np.save(path, columns["score"])
        np.save("y.npy", columns["outcome"])
    elif ending == "jsonl":
        rows_of = zip(*(column.tolist() for column in columns.values()), strict=True)
        path.write_text("".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows_of))
    elif ending == "csv":
        np.savetxt(path, np.transpose([*columns.values()]), delimiter=",", header=",".join(columns), comments="")
    else:
        write = parquet.write_table if ending == "parquet" else feather.write_feather
        write(pa.table(columns), str(path))
    options = [path, *FAST, *(("--targets", "y.npy") if ending == "npy" else ())]
    expected = run("report", *options)
    assert expected[0] == 0
    assert ("--cluster patient_id" in expected[2]) == (ending != "npy")
    own = loading.evaluate

    def evaluate(*args: Any) -> Any:
        for read in (path, Path("y.npy")):
            if damage == "gone":
                read.unlink(missing_ok=True)
            else:
                read.write_bytes(b"PK\x05\x06 other")
        return own(*args)

    monkeypatch.setattr(loading, "evaluate", evaluate)
    assert run("report", *options) == expected


# ---------------------------------------------------------------- Markdown


def test_markdown_is_that_of_the_report_with_its_source() -> None:
    status, out, err = run(*REPORT, "--markdown", "summary.md", "--where", "home = 1")
    assert (status, re.sub(r" \(\d kB\)", "", err)) == (0, "calibrant: wrote summary.md\n")
    assert "Reliability diagram" in out
    table = rows()
    home = table[table[:, 3] == 1]
    used = "probs: win, targets: won"
    source = Source(event="won = 1", files="games.csv", where="home = 1", timezone="UTC", columns=used)
    document = calibrant.evaluate(home[:, 0], home[:, 2], n_resamples=0)._document(source)
    expected = markdown.to_markdown(document, title="games.csv")
    assert Path("summary.md").read_text(encoding="utf-8") == expected
    assert "- condition: home = 1\n" in expected


def test_markdown_on_standard_output_stands_alone() -> None:
    for arguments in (REPORT, COMPARE):
        status, out, err = run(*arguments, "--markdown", "-")
        assert (status, err) == (0, "")
        assert out.startswith("## games.csv\n\n**")
        assert out.endswith("</details>\n")
    title = run(*COMPARE, "--markdown", "-", "--html", "page.html", "--title", "a|b")[1]
    assert title.startswith("## a&#124;b\n")
    assert run(*REPORT, "--markdown", "/dev/stdout")[1].startswith("## games.csv\n")


def test_a_file_is_replaced_and_the_summary_of_a_step_is_appended_to(monkeypatch: pytest.MonkeyPatch) -> None:
    run(*REPORT, "--markdown", "alone.md")
    alone = Path("alone.md").read_bytes()
    Path("summary.md").write_bytes(b"of another step")
    run(*REPORT, "--markdown", "summary.md")
    assert Path("summary.md").read_bytes() == alone
    Path("summary.md").write_bytes(b"of another step")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", os.path.join("..", os.path.basename(os.getcwd()), "summary.md"))
    for _ in range(2):
        assert run(*REPORT, "--markdown", "summary.md")[0] == 0
    assert Path("summary.md").read_bytes() == b"of another step" + 2 * (b"\n" + alone)
    Path("summary.md").unlink()
    run(*REPORT, "--markdown", "summary.md")
    assert Path("summary.md").read_bytes() == b"\n" + alone


def test_all_lists_every_measure() -> None:
    assert "| MCE (bins of 30 rows) |" not in run(*REPORT, "--markdown", "-")[1]
    assert "| MCE (bins of 30 rows) |" in run(*REPORT, "--markdown", "-", "--all")[1]
    assert "MCE (bins of 30 rows)" not in run(*REPORT)[1]
    assert "MCE (bins of 30 rows)" in run(*REPORT, "--all")[1]
    assert "No such option '--all'" in fail(*COMPARE, "--all", status=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--markdown", ""), "for --markdown: ''; name a file or leave the option out; perhaps a shell variable"),
        (("--json", ""), "for --json: ''; name a file or leave the option out"),
        (("--markdown", "no/a.md"), "for --markdown: 'no/a.md'; the folder 'no' does not exist; make the folder first"),
        (
            ("--markdown", "-", "--json", "-"),
            "--json and --markdown both name -; name a different file for each option",
        ),
        (("--markdown", "a.html", "--html", "a.html"), "--html and --markdown both name a.html; name a different file"),
        (("--png", "a.jpg"), "for --png: 'a.jpg'; name a file that ends in .png, such as report.png"),
        (("--svg", "-"), "for --svg: '-'; name a file that ends in .svg, such as report.svg"),
        (("--svg", "no/a.svg"), "for --svg: 'no/a.svg'; the folder 'no' does not exist; make the folder first"),
        (("--date", "today"), "--date sets the date of the HTML page; pass --html too"),
        (("--pdf", "a.ps"), "for --pdf: 'a.ps'; name a file that ends in .pdf, such as report.pdf"),
        (("--dpi", "200"), "--dpi works only with --png, because it sets the resolution of a PNG file; pass --png too"),
        (
            ("--dpi", "300", "--svg", "a.svg"),
            "because --svg writes a vector image, which has no resolution; pass --png too",
        ),
        (
            ("--dpi", "300", "--pdf", "a.pdf"),
            "because --pdf writes a vector image, which has no resolution; pass --png too",
        ),
        (("--dpi", "0", "--png", "a.png"), "for --dpi: 0; pass a number from 30 to 1200"),
        (("--dpi", "5000", "--png", "a.png"), "for --dpi: 5000; pass a number from 30 to 1200"),
        (("--title", "x"), "--title sets the title of the HTML page; pass --html too"),
    ],
)
def test_outputs_that_cannot_be_written_are_named_first(arguments: tuple[str, ...], message: str) -> None:
    for command in (REPORT, COMPARE):
        status, out, err = run(*command, *arguments)
        assert (status, out) == (2, "")
        assert message in err
    assert {name for name in os.listdir() if name not in ("games.csv", "classes.npz")} == set()


@pytest.mark.parametrize("option", ["--markdown", "--png", "--svg", "--pdf"])
def test_no_output_replaces_the_input(option: str) -> None:
    name = "games.csv" if option == "--markdown" else f"games{option.replace('--', '.')}"
    if name != "games.csv":
        os.link("games.csv", name)
    before = Path("games.csv").read_bytes()
    err = fail(*REPORT, option, name, status=2)
    assert f"Invalid value for {option}: {name!r} is also read, as FILE; name another file" in err
    assert Path("games.csv").read_bytes() == before


def test_files_that_can_be_written_are_written_if_others_cannot() -> None:
    os.mkdir("folder.md")
    status, out, err = run(*REPORT, "--markdown", "folder.md", "--json", "a.json", "--svg", "a.svg")
    assert status == 1
    assert "calibrant: folder.md: cannot be written (Is a directory)" in err
    assert "Reliability diagram" in out
    assert json.loads(Path("a.json").read_text())["n"] == 400
    assert Path("a.svg").exists()


# ---------------------------------------------------------------- pictures


@pytest.mark.parametrize(("profile", "curve"), [("standard", None), ("clinical", "loess"), ("all", "loess")])
def test_the_picture_has_the_curve_of_the_page(profile: str, curve: str | None) -> None:
    assert run(*REPORT, "--profile", profile, "--svg", "a.svg", "--html", "a.html")[0] == 0
    svg, page = (Path(f"a.{kind}").read_text() for kind in ("svg", "html"))
    assert re.findall(r"<!-- Observed frequency, (\w+) -->", svg) == ([] if curve is None else [curve])
    assert re.findall(r'class="r-(\w+)" checked', page) == [curve or "bins"]


@pytest.mark.parametrize("arguments", [REPORT, COMPARE, ("report", "classes.npz", "--notion", "classwise", *FAST)])
@pytest.mark.slow
def test_pictures_are_complete_and_the_same_each_time(arguments: tuple[str, ...]) -> None:
    for name in ("a", "b"):
        written = [f"{name}.{kind}" for kind in ("png", "svg", "pdf")]
        options = ["--png", "--svg", "--pdf"]
        _, err = succeed(*arguments, *chain.from_iterable(zip(options, written, strict=True)))
        assert [line.split(" (")[0] for line in err.splitlines()] == [f"calibrant: wrote {path}" for path in written]
    for kind in ("png", "svg", "pdf"):
        assert Path(f"a.{kind}").read_bytes() == Path(f"b.{kind}").read_bytes()
    png, svg, pdf = (Path(f"a.{kind}").read_bytes() for kind in ("png", "svg", "pdf"))
    assert pdf.startswith(b"%PDF-")
    assert b"/FontFile2" in pdf  # TrueType
    assert b"CreationDate" not in pdf
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert png.endswith(b"IEND\xaeB`\x82")
    width, height = struct.unpack(">II", png[16:24])
    root = ET.fromstring(svg)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    points = [float(root.attrib[side].removesuffix("pt")) for side in ("width", "height")]
    assert [width, height] == pytest.approx([200 / 72 * side for side in points], abs=1)
    assert b"<dc:date>" not in svg


def test_dpi_is_the_resolution_of_the_png() -> None:
    sizes = {}
    for dpi in (100, 300):
        assert run(*REPORT, "--png", "a.png", "--dpi", dpi, "--quiet")[0] == 0
        png = Path("a.png").read_bytes()
        sizes[dpi] = np.array(struct.unpack(">II", png[16:24]))
        place = png.index(b"pHYs")
        assert struct.unpack(">I", png[place + 4 : place + 8])[0] == pytest.approx(dpi / 0.0254, abs=1)
    assert sizes[300] == pytest.approx(3 * sizes[100], abs=3)


def test_a_picture_is_the_diagram_of_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    from calibrant import plot

    drawn: list[Any] = []
    original = plot.reliability_diagram
    monkeypatch.setattr(plot, "reliability_diagram", lambda result: drawn.append(result) or original(result))
    run(*REPORT, "--svg", "a.svg", "--n-bins", 4)
    table = rows()
    expected = calibrant.evaluate(table[:, 0], table[:, 2], n_bins=4, n_resamples=0).diagram
    assert expected is not None
    assert drawn[0].diagram.accuracies == pytest.approx(expected.accuracies)


def test_without_matplotlib_the_other_files_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    from calibrant.errors.exceptions import install_command

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    status, out, err = run(*REPORT, "--png", "a.png", "--json", "a.json")
    needed = "matplotlib is needed to draw and is not installed"
    assert (status, err) == (1, f"calibrant: {needed}; run: {install_command('report')}\n")
    assert "Reliability diagram" in out
    assert Path("a.json").exists()
    assert not Path("a.png").exists()


# ---------------------------------------------------------------- a browser


def test_open_opens_the_page(opened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    status, _, err = run(*REPORT, "--html", "my page.html", "--open")
    assert (status, opened) == (0, [Path("my page.html").resolve().as_uri()])
    assert err.startswith("calibrant: wrote my page.html (")
    assert err.count("\n") == 1


def test_open_without_a_file_opens_a_page_that_stays(
    opened: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    for command in (REPORT, COMPARE):
        assert run(*command, "--open", "--title", "Rain")[0] == 0
    pages = sorted(folder.iterdir())
    assert sorted(opened) == [page.as_uri() for page in pages]
    assert len(pages) == 2
    for page in pages:
        assert "<h1>Rain</h1>" in page.read_text(encoding="utf-8")
        assert sys.platform == "win32" or page.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("platform", "variables", "shown"),
    [
        ("linux", {}, False),
        ("linux", {"DISPLAY": ":0"}, True),
        ("linux", {"SSH_CONNECTION": "a", "DISPLAY": "localhost:10"}, True),
        ("linux", {"BROWSER": "firefox"}, True),
        ("darwin", {}, True),
        ("darwin", {"SSH_CONNECTION": "a"}, False),
        ("win32", {}, True),
    ],
)
def test_without_a_screen_the_page_is_named(
    opened: list[str], monkeypatch: pytest.MonkeyPatch, platform: str, variables: dict[str, str], shown: bool
) -> None:
    monkeypatch.setattr(output.sys, "platform", platform)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    problem = output.open_page("a.html")
    assert len(opened) == shown
    named = "--open: no browser was found; open this page yourself: a.html"
    assert problem == ("" if shown else named)


def test_a_browser_that_fails_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("webbrowser.open", lambda _: False)
    status, out, err = run(*REPORT, "--html", "a.html", "--open", "--quiet")
    assert (status, out) == (0, "")
    assert err == "calibrant: --open: no browser was found; open this page yourself: a.html\n"


@posix
def test_the_browser_of_the_variable_is_started(tmp_path: Path) -> None:
    script = tmp_path / "browser"
    script.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/address\n')
    script.chmod(0o755)
    environment = {**os.environ, "BROWSER": str(script)}
    command = [sys.executable, "-m", "calibrant", *REPORT, "--html", "a.html", "--open"]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    assert (tmp_path / "address").read_text() == f"{Path('a.html').resolve().as_uri()}\n"


# ---------------------------------------------------------------- less, and other names


def test_quiet_leaves_errors_and_failed_gates() -> None:
    everything = ("--html", "a.html", "--json", "a.json", "--markdown", "a.md", "--svg", "a.svg", "--quiet")
    for command in (REPORT, COMPARE):
        assert run(*command, *everything) == (0, "", "")
    assert {"a.html", "a.json", "a.md", "a.svg"} <= set(os.listdir())
    status, out, err = run(*REPORT, "--quiet", "--fail-if", "ece > 0", "--gate")
    assert (status, out) == (3, "")
    assert err.startswith("calibrant: --fail-if 'ece > 0' holds: ")
    assert "\ncalibrant: --gate: " in err
    status, out, err = run("report", "games.csv", "--score", "wni", "--quiet")
    assert (status, out) == (1, "")
    assert "'wni'" in err
    assert json.loads(run(*REPORT, "--quiet", "--json", "-")[1])["n"] == 400
    assert run(*REPORT, "--quiet", "--markdown", "-")[1].startswith("## games.csv")


def test_quiet_hides_the_files_left_out_and_proposals() -> None:
    Path("bad.csv").write_text("win,won\nx,y\n")
    Path("ids.csv").write_text("user_id,win,won\n" + "".join(f"{i // 4},{i % 10 / 10},{i % 2}\n" for i in range(200)))
    arguments = ("--score", "win", "--outcome", "won", *FAST)
    loud = run("report", "games.csv", "bad.csv", "--keep-going", *arguments)
    assert "left out 1 of 2 files" in loud[2]
    assert run("report", "games.csv", "bad.csv", "--keep-going", "--quiet", *arguments) == (0, "", "")
    assert "--cluster user_id" in run("report", "ids.csv", *arguments)[2]
    assert run("report", "ids.csv", "--quiet", *arguments) == (0, "", "")


def test_quiet_hides_warnings() -> None:
    for quiet in (False, True):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with output.progress(quiet=quiet) as step:
                step(1, 2, 3)
                warnings.warn("slow", stacklevel=1)
        assert len(caught) == (not quiet)


def test_a_page_and_markdown_name_no_folders(tmp_path: Path) -> None:
    outputs = ("--html", "a.html", "--markdown", "a.md")
    assert run("report", tmp_path / "games.csv", *REPORT[2:], *outputs)[0] == 0
    for name in ("a.html", "a.md"):
        text = Path(name).read_text(encoding="utf-8")
        assert "games.csv" in text
        assert str(tmp_path) not in text


def test_a_page_names_how_a_file_was_read() -> None:
    games = Path("games.csv").read_text()
    Path("games.csv").write_text(f"Temporada de béisbol\n{games}", encoding="cp1252")
    succeed(*REPORT, "--encoding", "cp1252", "--header-line", "2", "--html", "a.html", "--markdown", "a.md")
    assert "- read with: --encoding cp1252 --header-line 2\n" in Path("a.md").read_text()
    assert "--encoding cp1252 --header-line 2" in Path("a.html").read_text()
    from openpyxl import Workbook

    book = Workbook()
    for line in games.splitlines():
        book.active.append([cell if cell.isalpha() else float(cell) for cell in line.split(",")])
    book.active.title = "Season 1"
    book.save("games.xlsx")
    succeed(
        *("games.xlsx" if word == "games.csv" else word for word in REPORT), "--sheet", "Season 1", "--html", "b.html"
    )
    assert "--sheet &#39;Season 1&#39;" in Path("b.html").read_text()


def test_bins_is_another_name_of_n_bins() -> None:
    for command in (REPORT, COMPARE):
        found = [json.loads(run(*command, option, 7, "--json", "-")[1]) for option in ("--bins", "--n-bins")]
        assert found[0] == found[1]
        assert found[0]["n_bins"] == 7


def test_a_date_reaches_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    from calibrant.render import page

    dates: list[Any] = []
    monkeypatch.setattr(page, "to_page", lambda *_, date, **__: str(dates.append(date)))
    for command in (REPORT, COMPARE):
        run(*command, "--html", "a.html")
        run(*command, "--html", "a.html", "--date", "23 November 2026")
    assert dates == ["", "23 November 2026"] * 2


def test_the_terminal_shows_the_same_with_other_outputs() -> None:
    assert run(*COMPARE)[1] == run(*COMPARE, "--markdown", "a.md", "--svg", "a.svg")[1]


def test_files_of_one_name_are_named_by_the_folders_that_differ() -> None:
    games = Path("games.csv").read_text()
    for folder in ("runs/old", "runs/new"):
        Path(folder).mkdir(parents=True)
        Path(folder, "games.csv").write_text(games)
    command = ("compare", "--score", "win", "--outcome", "won", "--html", "page.html")
    for paths, title, files in (
        (["runs/old/games.csv", "runs/new/games.csv"], "old/games.csv … new/games.csv", "old/games.csv, new/games.csv"),
        (["games.csv", "runs/new/games.csv"], "games.csv … new/games.csv", "games.csv, new/games.csv"),
    ):
        assert run(*command, *paths)[0] == 0
        page = Path("page.html").read_text()
        assert f"<h1>{title} (2 files)</h1>" in page
        assert f"<dt>files</dt><dd>{files}</dd>" in page
