"""The command as a process: how signals end it, and what it does where its output cannot go anywhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from calibrant.runtime import process

pytest.importorskip("pyarrow", reason="the report extra is not installed")

ROOT = Path(__file__).parents[2]
DIGITS = str(ROOT / "examples" / "digits.parquet")
COMMAND = [sys.executable, "-m", "calibrant"]
NONE = ["--n-resamples", "0"]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals, pipes and descriptors of POSIX")

#: Seconds from the signal to the end. It takes 0.05; the machine of the tests may be busy.
PROMPT = 1.5

MESSAGES = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "hung up"}


@pytest.fixture(autouse=True)
def _hang_up_is_not_ignored() -> Iterator[None]:
    """Programs inherit signals that are ignored, as nohup has it."""
    if not hasattr(signal, "SIGHUP"):
        yield
        return
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def started(*args: str, first: str | None = None, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """Start the command; with ``first``, after this code in the same process."""
    command = [sys.executable, "-X", "importtime", "-m", "calibrant"]
    if first is not None:
        command = [sys.executable, "-c", f"{first}\nfrom calibrant.cli import main\nmain(prog_name='calibrant')"]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([*command, *args], text=True, env={**os.environ, **(environment or {})}, **streams)


def ended(running: subprocess.Popen[str], marker: str, name: str = "SIGINT") -> tuple[int, str, str]:
    """Wait for a marker on standard error, send the signal, and return status, output and messages of the process."""
    assert running.stderr is not None
    for line in running.stderr:
        if marker in line:
            break
    sent = time.monotonic()
    running.send_signal(getattr(signal, name))
    out, err = running.communicate(timeout=30)
    assert time.monotonic() - sent < PROMPT
    return running.returncode, out, "".join(line for line in err.splitlines(True) if not line.startswith("import time"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "marker", ["calibrant.runtime.process", "numpy", "calibrant.measures", "click", "numba", "scipy"]
)
def test_ctrl_c_during_the_imports(monkeypatch: pytest.MonkeyPatch, marker: str) -> None:
    monkeypatch.setenv("CALIBRANT_KERNELS", "numba")
    status, out, err = ended(started("report", DIGITS), marker)
    assert (status, out, err) == (130, "", "calibrant: interrupted\n")


#: Waits, and says so, after the part file is written and before it replaces the old file.
WRITING = """
import os, sys, time
def fsync(descriptor):
    print("writing", file=sys.stderr, flush=True)
    time.sleep(60)
os.fsync = fsync
"""


@pytest.mark.parametrize("name", MESSAGES)
@pytest.mark.slow
def test_a_signal_leaves_no_part_of_a_file(tmp_path: Path, name: str) -> None:
    page = tmp_path / "page.html"
    page.write_text("the old page")
    status, out, err = ended(started("report", DIGITS, *NONE, "--html", str(page), first=WRITING), "writing", name)
    assert (status, out, err) == (128 + getattr(signal, name), "", f"calibrant: {MESSAGES[name]}\n")
    assert page.read_text() == "the old page"
    assert os.listdir(tmp_path) == ["page.html"]


#: The same in Python's own threads.
REPLICATES = """
import sys
from calibrant.report import evaluation
own = evaluation.evaluate
def evaluate(*args, **options):
    print("evaluating", file=sys.stderr, flush=True)
    return own(*args, **options)
evaluation.evaluate = evaluate
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", MESSAGES)
@pytest.mark.parametrize("pause", [0.0, 1.0, 4.0])
def test_a_signal_during_the_evaluation(tmp_path: Path, name: str, pause: float) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "f.npz"
    score = rng.random(300_000)
    np.savez(path, score=score, outcome=rng.random(len(score)) < score)
    options = ["--score", "score", "--outcome", "outcome", "--n-resamples", "100000"]
    running = started("report", str(path), *options, first=f"import time\n{REPLICATES}")
    assert running.stderr is not None
    assert running.stderr.readline() == "evaluating\n"
    time.sleep(pause)
    sent = time.monotonic()
    running.send_signal(getattr(signal, name))
    out, err = running.communicate(timeout=60)
    assert time.monotonic() - sent < PROMPT
    expected = (130, "calibrant: interrupted\n") if name == "SIGINT" else (-getattr(signal, name), "")
    assert (running.returncode, err, out) == (*expected, "")


#: Holds the lock of Python's threads for ever, as OpenBLAS does while it tries to take memory.
STUCK = """
import ctypes, sys
from calibrant.report import evaluation
from calibrant.files.local import temporary_folder
def evaluate(*args, **options):
    print(temporary_folder(), file=sys.stderr, flush=True)
    ctypes.PyDLL(None).pause()
evaluation.evaluate = evaluate
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_ends_the_process_whatever_code_runs(name: str) -> None:
    running = started("report", DIGITS, *NONE, first=STUCK)
    assert running.stderr is not None
    folder = running.stderr.readline().strip()
    assert os.path.isdir(folder)
    running.send_signal(getattr(signal, name))
    assert running.wait(PROMPT) == -getattr(signal, name)
    running.communicate()
    stop = time.monotonic() + 10  # another process removes the folder
    while os.path.exists(folder) and time.monotonic() < stop:
        time.sleep(0.02)
    assert not os.path.exists(folder)


# ---------------------------------------------------------------- little memory


def limited(kilobytes: int, *args: str) -> subprocess.CompletedProcess[str]:
    script = f'ulimit -v {kilobytes}; exec "$0" -m calibrant "$@"'
    command = ["bash", "-c", script, sys.executable, *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit addresses")
@pytest.mark.parametrize("kilobytes", [300_000, 1_000_000, pytest.param(1_800_000, marks=pytest.mark.slow)])
def test_a_small_address_space_is_one_line(kilobytes: int) -> None:
    done = limited(kilobytes, "report", DIGITS, *NONE)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"calibrant: the address space is limited to {kilobytes * 1024 / 1e9:.2f} GB")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit addresses")
@pytest.mark.parametrize("options", [NONE, ["--profile", "all", "--html", "a.html", "--png", "a.png"]])
def test_the_limit_that_the_message_proposes_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    proposed = int(limited(1_000_000, "report", DIGITS).stderr.split()[-1])
    done = limited(proposed, "report", DIGITS, *options)
    assert done.returncode == 0, done.stderr
    assert "Reliability diagram" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("place", ["reading", "rendering"])
def test_ctrl_c_in_other_work(tmp_path: Path, place: str) -> None:
    """Both places are held up in C, where Python's own handlers do not run."""
    first = f"""
import sys
from calibrant.files import stored
from calibrant.render import page
def endless(*args, **options):
    print("busy", file=sys.stderr, flush=True)
    import hashlib
    hashlib.pbkdf2_hmac("sha256", b"", b"", 1 << 30)
if {place!r} == "reading":
    stored.ParquetTable.batches = endless
else:
    page.to_page = endless
"""
    page = tmp_path / "a.html"
    status, out, err = ended(started("report", DIGITS, *NONE, "--html", str(page), first=first), "busy")
    assert (status, out, err) == (130, "", "calibrant: interrupted\n")
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_ctrl_c_gives_the_terminal_its_cursor_back() -> None:
    import pty  # POSIX only

    keeper, terminal = pty.openpty()
    first = (
        "import time\nfrom calibrant.cli import output\nfrom calibrant.report import evaluation\noutput._PATIENCE = 0\n"
    )
    first += "evaluation.evaluate = lambda *a, **o: time.sleep(60)\nfrom calibrant.cli import main\nmain(prog_name='x')"
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"}
    command = [sys.executable, "-c", first, "report", DIGITS]
    running = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment)
    os.close(terminal)
    seen = b""
    while b"evaluating" not in seen:
        seen += os.read(keeper, 4096)
    running.send_signal(signal.SIGINT)
    assert running.wait(20) == 130
    rest = seen
    while not rest.endswith(b"interrupted\r\n"):
        rest += os.read(keeper, 4096)
    os.close(keeper)
    assert rest.rindex(b"\x1b[?25h") > rest.rindex(b"\x1b[?25l")


@pytest.mark.slow
def test_ignored_signals_stay_ignored() -> None:
    first = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)"
    running = started("report", DIGITS, *NONE, first=f"{first}\n{REPLICATES}")
    assert running.stderr is not None
    assert running.stderr.readline() == "evaluating\n"
    running.send_signal(signal.SIGHUP)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (0, "")
    assert "Reliability diagram" in out


def test_a_library_leaves_signals_alone() -> None:
    code = "import signal, threading, calibrant; print(signal.getsignal(signal.SIGTERM), threading.active_count())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{signal.SIG_DFL!s} 1\n"
    assert not process.is_command()


# ---------------------------------------------------------------- output that goes nowhere


def in_shell(line: str, **environment: str) -> tuple[int, str, str]:
    """Run a line of bash in which ``calibrant`` is the command, and return status, output and messages."""
    names = {"PYTHON": sys.executable, "DIGITS": DIGITS, **environment}
    script = f'set -o pipefail; calibrant() {{ "$PYTHON" -m calibrant "$@"; }}; {line}'
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env={**os.environ, **names}, timeout=120, check=False
    )
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    return done.returncode, done.stdout, done.stderr


LOST = "calibrant: calibrant cannot write to standard output ({}); check the destination of the output\n"
REPORT = 'calibrant report "$DIGITS" --n-resamples 0'


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize("line", [REPORT, f"{REPORT} --json -", "calibrant --help", "calibrant --version"])
def test_a_full_disk_behind_the_output_is_one_line(line: str) -> None:
    assert in_shell(f"{line} >/dev/full") == (1, "", LOST.format("the disk is full"))


@pytest.mark.slow
@pytest.mark.parametrize("line", [REPORT, f"{REPORT} --json -", "calibrant report --help"])
def test_a_closed_output_is_one_line(line: str) -> None:
    assert in_shell(f"{line} >&-") == (1, "", LOST.format("Bad file descriptor"))


@pytest.mark.slow
def test_the_output_of_others_is_not_written_to_files(tmp_path: Path) -> None:
    """The lowest free descriptor is that of the closed stream: what is opened next would receive the messages."""
    target = tmp_path / "a.json"
    status, out, err = in_shell(f'{REPORT} --json "$TARGET" >&- 2>&-', TARGET=str(target))
    assert (status, out, err) == (1, "", "")
    assert json.loads(target.read_text())["n"] == 1_797


@pytest.mark.slow
def test_closed_messages_change_nothing_else() -> None:
    status, out, err = in_shell(f"{REPORT} 2>&-")
    assert (status, err) == (0, "")
    assert "Reliability diagram" in out
    assert in_shell("calibrant report nosuch.csv 2>&-")[0] == 1
    assert in_shell("calibrant report nosuch.csv 2>/dev/full")[0] == 1
    assert in_shell(f"{REPORT} <&-")[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("line", [REPORT, f"{REPORT} --json -", "calibrant --help", "calibrant completion bash"])
def test_a_pipe_that_nobody_reads_ends_the_command_in_silence(line: str) -> None:
    assert in_shell(f"{{ sleep 0.2; {line}; }} | true") == (141, "", "")
    assert in_shell(f"{{ sleep 0.2; {line}; }} 2>&1 | true") == (141, "", "")


@pytest.mark.slow
@pytest.mark.parametrize("columns", ["1", "2", "5", "20", "100000", "-3", "wide"])
def test_any_width_of_the_terminal(columns: str) -> None:
    status, out, err = in_shell(f"{REPORT} && calibrant floor --n 50 --n-resamples 9", COLUMNS=columns)
    assert (status, err) == (0, "")
    assert "ECE" in out


@pytest.mark.slow
def test_json_goes_to_standard_output_by_any_name() -> None:
    for name in ("-", "/dev/stdout", "/dev/fd/1"):
        status, out, err = in_shell(f'{REPORT} --json "$NAME" | cat', NAME=name)
        assert (status, err) == (0, "")
        assert json.loads(out)["n"] == 1_797
    status, out, _ = in_shell(f"{REPORT} --json >(cat >&2)")
    assert status == 0
    assert "Reliability diagram" in out
    status, out, err = in_shell(
        f'{REPORT} --json >("$PYTHON" -c "import json, sys; print(json.load(sys.stdin)[\'n\'])")'
    )
    assert status == 0
    assert "1797" in out


# ---------------------------------------------------------------- Numba without its compiler


@pytest.mark.slow
def test_without_the_compiler_the_numbers_are_the_same() -> None:
    plain, slow = (
        json.loads(in_shell(f"{REPORT} --json -", **environment)[1])["estimates"]
        for environment in ({}, {"NUMBA_DISABLE_JIT": "1"})
    )
    assert plain.keys() == slow.keys()
    for name, estimate in plain.items():
        assert slow[name]["value"] == pytest.approx(estimate["value"], rel=1e-6, abs=1e-12)
