"""No command writes over a file that it reads, or writes one file twice; this covers every option of every command."""

from __future__ import annotations

import itertools
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pytest

import calibrant
from calibrant.cli import main
from calibrant.cli.parameters import Checked, Fraction, InputFile, OutputFile
from tests import in_process

#: The parameters of text that do not name files of the user. A new one belongs here, or among those of the command.
TEXTS = {
    *(
        "score",
        "scores",
        "outcome",
        "probs",
        "target",
        "weight",
        "by",
        "groups",
        "clusters",
        "where",
        "on",
        "time",
        "name",
    ),
    *("notion", "labels", "class_names", "measures", "profile", "tolerance_of", "sort_by", "method", "timezone"),
    *("title", "date", "label", "master", "conditions", "question", "truth_on", "yes", "encoding", "events", "trials"),
    *("sheet", "correct", "prior", "trained_prior", "thresholds"),
}
#: A file of options is read before the other options are known.
CONFIG = "config"
CONTENT = b"score,outcome\n0.2,0\n0.7,1\n"
ENDING = {
    **{
        "state_path": ".json",
        "html_path": ".html",
        "png_path": ".png",
        "svg_path": ".svg",
        "pdf_path": ".pdf",
        "sketch_path": ".cal",
    },
    **{
        "map_path": ".json",
        "gates_path": ".json",
        "sql_path": ".sql",
        "onnx_path": ".onnx",
        "since_onset_path": ".cal",
    },
    **{"prometheus_path": ".prom", "output": ".csv"},
}

pytestmark = pytest.mark.usefixtures("in_folder")


def run(*args: str) -> tuple[int, str, str]:
    status, out, err = in_process.run(*args, columns=200)
    return status, out, " ".join(err.split())


def is_text(param: click.Parameter) -> bool:
    base = param.type.base if isinstance(param.type, Checked) else param.type
    plain = isinstance(base, (Fraction, click.Choice, click.types.IntParamType, click.types.FloatParamType))
    return param.expose_value and not plain and not getattr(param, "is_flag", False)


def of_files(names: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the commands and their parameters of these names."""
    for command in main.commands.values():
        yield from ((str(command.name), str(param.name)) for param in command.params if param.name in names)


def label(command: str, name: str) -> str:
    param = next(param for param in main.commands[command].params if param.name == name)
    if isinstance(param, click.Option):
        return max(param.opts, key=len)
    return param.make_metavar(click.Context(main)).removesuffix("...").strip("[.]")


def line(command: str, **files: str) -> list[str]:
    """Return a command line with files for parameters, and with other files for those that must be named."""
    words = [command]
    for param in main.commands[command].params:
        name = str(param.name)
        path = files.get(name) or (f"other{ENDING.get(name, '.csv')}" if param.required else None)
        if path is not None:
            words += [path] if isinstance(param, click.Argument) else [max(param.opts, key=len), path]
    return words


PARAMETERS = [param for command in main.commands.values() for param in command.params]
WRITES = {str(param.name) for param in PARAMETERS if isinstance(param.type, OutputFile)}
READS = {CONFIG, *(str(param.name) for param in PARAMETERS if isinstance(param.type, InputFile))}
IN_AND_OUT = [
    (command, given, target)
    for (command, given), (other, target) in itertools.product(of_files(READS), of_files(WRITES))
    if command == other and (command, target) != ("merge", "sketch_path")
]
TWO_OUTPUTS = [
    (command, one, two)
    for (command, one), (other, two) in itertools.combinations(of_files(WRITES), 2)
    if command == other
]


@pytest.mark.parametrize("command", main.commands)
def test_each_text_is_known_to_name_a_file_or_not(command: str) -> None:
    texts = {str(param.name) for param in main.commands[command].params if is_text(param)}
    assert texts <= TEXTS | READS | WRITES


@pytest.mark.parametrize(("command", "name"), list(of_files(TEXTS)))
def test_a_text_that_is_not_utf8_is_refused(command: str, name: str) -> None:
    """The terminal hands on bytes as they are."""
    Path("in.csv").write_bytes(CONTENT)
    option = label(command, name)
    words = line(command, files="in.csv", path="in.csv", state_path="s.json")
    status, out, err = run(*words, option, "a\udcff")
    assert (status, out) == (2, "")
    assert option in err


@pytest.mark.parametrize("how", ["same", "link", "hard link", "folder"])
@pytest.mark.parametrize(("command", "given", "target"), IN_AND_OUT)
def test_no_output_is_an_input(command: str, given: str, target: str, how: str, tmp_path: Path) -> None:
    source = f"in{ENDING.get(target, '.csv')}"
    Path(source).write_bytes(CONTENT)
    path = source
    match how:
        case "link":
            path = f"other_name{ENDING.get(target, '.csv')}"
            os.symlink(source, path)
        case "hard link":
            path = f"other_name{ENDING.get(target, '.csv')}"
            os.link(source, path)
        case "folder":
            os.symlink(tmp_path, "here")
            path = os.path.join("here", source)
    before = sorted(os.listdir())
    if given == CONFIG:  # its content is read first, and must be valid then
        Path(source).write_bytes(content := b"quiet = true\n")
    else:
        content = CONTENT
    status, out, err = run(*line(command, **{given: source, target: path}))
    assert (status, out) == (2, ""), err
    assert f"for {label(command, target)}: {path!r} is also read, as " in err
    assert (Path(source).read_bytes(), sorted(os.listdir())) == (content, before)


@pytest.mark.parametrize(
    ("command", "given", "target"), [each for each in IN_AND_OUT if each[1] in ("files", "path", "baseline")]
)
def test_no_output_is_among_the_files_of_a_pattern(command: str, given: str, target: str) -> None:
    source = f"in{ENDING.get(target, '.csv')}"
    Path(source).write_bytes(CONTENT)
    status, _, err = run(*line(command, **{given: "i?*", target: source}))
    assert status == 2
    assert f"for {label(command, target)}: {source!r} is also read, as " in err
    assert Path(source).read_bytes() == CONTENT


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize(("command", "one", "two"), TWO_OUTPUTS)
def test_no_two_outputs_are_one_file(command: str, one: str, two: str, exists: bool) -> None:
    first, second = f"a{ENDING.get(one, '')}", f"b{ENDING.get(two, '')}"
    if exists:
        Path(first).write_bytes(CONTENT)
    os.symlink(first, second)
    status, _, err = run(*line(command, **{one: first, two: second}))
    assert status == 2
    names = {label(command, one), label(command, two)}
    assert any(f"{a} and {b} both name " in err for a, b in itertools.permutations(names))
    assert os.path.exists(first) == exists
    assert os.path.islink(second)


def test_standard_input_that_is_a_file_is_not_replaced() -> None:
    Path("in.csv").write_bytes(CONTENT)
    for option, path in (("--json", "in.csv"), ("--markdown", "in.csv")):
        with open("in.csv", "rb") as stream:
            done = subprocess.run(
                [sys.executable, "-m", "calibrant", "report", "-", option, path],
                stdin=stream,
                capture_output=True,
                text=True,
                check=False,
            )
        assert (done.returncode, "is also read, as standard input" in done.stderr) == (2, True), done.stderr
    assert Path("in.csv").read_bytes() == CONTENT


#: A command line of each command, without outputs; `--output` and `--sketch` of two commands must be named.
LINES = {
    "report": "report in.csv --n-resamples 0 --exact",
    "compare": "compare in.csv --scores score,other --outcome outcome",
    "recalibrate": "recalibrate in.csv --method cox --n-resamples 0",
    "threshold": "threshold in.csv --max-risk 0.4",
    "monitor": "monitor state.json in.csv",
    "apply": "apply map.json in.csv --score score",
    "merge": "merge in.cal",
    "floor": "floor --n 50 --n-resamples 2",
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of POSIX")
@pytest.mark.parametrize(("command", "target"), list(of_files(WRITES - {"state_path"})))
def test_an_output_that_is_a_pipe_is_written_to(command: str, target: str) -> None:
    """Everything that is not a file is written by the same code; see tests/results."""
    rng = np.random.default_rng(1)
    score = rng.uniform(0.01, 0.99, 300).round(3)
    outcome = (rng.random(300) < 0.5 + 0.2 * (score - 0.5)).astype(int)
    rows = "".join(f"{p},{1 - p:.3f},{y}\n" for p, y in zip(score, outcome, strict=True))
    Path("in.csv").write_text(f"score,other,outcome\n{rows}")
    if command == "apply":
        calibrant.recalibrate(score, outcome, method="cox", n_resamples=0).fitted().to_json("map.json")
    sketch = calibrant.CalibrationSketch()
    sketch.update(score, outcome)
    sketch.save("in.cal")
    log = [
        {
            "answers": {"team": {"probabilities": {"a": 0.5 + p / 2, "b": 0.5 - p / 2}}},
            "labels": {"team": "ab"[i % 20 == 0]},
        }
        for i, p in enumerate(score.tolist())
    ]
    Path("log.jsonl").write_text("\n".join(map(json.dumps, log)))
    line = "threshold log.jsonl --max-risk 0.4" if target == "gates_path" else LINES[command]
    pipe, link = "pipe", f"link{ENDING.get(target, '')}"
    os.mkfifo(pipe)
    os.symlink(pipe, link)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(Path(pipe).read_bytes()), daemon=True)
    reader.start()
    status, _, err = run(*line.split(), label(command, target), link)
    reader.join(10)
    assert status in (0, 3, 4), err
    assert len(got[0]) > 50
    assert stat.S_ISFIFO(os.lstat(pipe).st_mode)
    assert os.readlink(link) == pipe
    assert not [name for name in os.listdir() if name.endswith(".part")]


def test_a_sum_of_sketches_may_replace_one_of_them() -> None:
    Path("in.csv").write_bytes(CONTENT)
    for name in ("week.cal", "monday.cal"):
        assert run("report", "in.csv", "--sketch", name, "--n-resamples", "0", "--quiet")[0] == 0
    status, out, _ = run("merge", "week.cal", "monday.cal", "--sketch", "week.cal")
    assert (status, "4 rows" in out) == (0, True)
