"""What a new user is told: help that fits and runs, and errors that end with what to type."""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

import calibrant
from calibrant.cli import main
from calibrant.cli.parameters import Checked, Fraction, share_in
from calibrant.cli.usage import SECTIONS, section_of
from tests.in_process import fail, run, succeed
from tests.samples import sketch_of

pa = pytest.importorskip("pyarrow", reason="the report extra is not installed")
import pyarrow.parquet as pq  # noqa: E402

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
COMMANDS = ("report", "compare", "recalibrate", "threshold", "monitor", "apply", "merge", "floor", "completion")
LONG = ("report", "compare", "recalibrate", "threshold", "monitor")
FAST = ("--n-resamples", "0")

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the folder shared/data is not beside this checkout")

pytestmark = pytest.mark.usefixtures("in_folder")


def refused(*args: object) -> str:
    """Run the command on bad data, returning its one line without the name of the command and of the file."""
    status, out, err = run(*args)
    assert (status, out) == (1, "")
    assert err.startswith("calibrant: ")
    assert err.count("\n") == 1
    return err.removeprefix("calibrant: ").rstrip("\n")


def mended(*args: object) -> Any:
    """Run the command on bad data, then the one that its error ends with, returning the report of that."""
    _, found, line = refused(*args).rpartition(": calibrant ")
    assert found
    out, _ = succeed(*shlex.split(line), *FAST, "--json", "-")
    return json.loads(out)


def write(name: str, text: str) -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


def table(name: str, **columns: Any) -> str:
    """Write columns as CSV."""
    rows = zip(*columns.values(), strict=True)
    return write(name, "\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n")


SCORES = [0.1, 0.7, 0.4, 0.9, 0.2, 0.6]
WON = [0, 1, 1, 1, 0, 0]


# ---------------------------------------------------------------- help


def examples() -> list[str]:
    """List the examples in the help of all commands."""
    texts = [run("--help", columns=200)[1], *(run(command, "--help", columns=200)[1] for command in COMMANDS)]
    return [line.strip() for text in texts for line in text.splitlines() if line.startswith("  calibrant ")]


@pytest.fixture
def example_files(in_folder: None, tmp_path: Path) -> None:
    """The files that the examples name."""
    del in_folder  # where the files are written
    rng = np.random.default_rng(0)
    rows, target = rng.dirichlet(np.ones(3), 60), rng.integers(0, 3, 60)
    score, won = rng.random(60), rng.integers(0, 2, 60)
    right = (np.random.default_rng(1).random(60) < score).astype(int)
    one = {"score": score, "old": score**2, "new": score**0.5, "outcome": won}
    pq.write_table(pa.table(one), tmp_path / "predictions.parquet")
    day = [f"2026-11-{1 + i % 28:02d}" for i in range(60)]
    season = rng.integers(2020, 2022, 60)
    table("games.csv", win_prob=score, old=score**2, new=score**0.5, won=won, season=season, day=day)
    for week in ("week30.csv", "week31.csv"):
        table(week, score=score, outcome=right)
    pq.write_table(
        pa.table({"confidence": score, "correct": right, "question_id": np.arange(60) // 3}), "answers.parquet"
    )
    shutil.copy(ROOT / "examples" / "digits.parquet", tmp_path)
    for model in ("old", "new"):
        np.savez(tmp_path / f"{model}.npz", probs=one[model], target=won)
        table(f"{model}.csv", game_id=np.arange(60), win_prob=one[model], won=won, risk=one[model])
    risk = rng.random(400)
    died = (rng.random(400) < 0.3 + 0.4 * risk).astype(int)
    table("held_out.csv", score=risk, risk=risk, outcome=died, died=died)
    sexes, wards = np.array(["f", "m"])[np.arange(len(risk)) % 2], np.array(["a", "b", "c"])[np.arange(len(risk)) % 3]
    table("patients.csv", score=risk, outcome=died, sex=sexes, ward=wards)
    pq.write_table(pa.table({"score": score}), tmp_path / "2026.parquet")
    pq.write_table(pa.table({"score": score, "outcome": won}), tmp_path / "today.parquet")
    run(
        "report",
        "today.parquet",
        "--score",
        "score",
        "--outcome",
        "outcome",
        "--json",
        "last.json",
        "--n-resamples",
        "20",
    )
    for day in ("monday", "tuesday", "last"):
        sketch = sketch_of(score, won)
        (tmp_path / f"{day}.cal").write_bytes(sketch.to_bytes())
    (tmp_path / "logs").mkdir()
    shutil.copy(tmp_path / "monday.cal", tmp_path / "logs" / "monday.cal")
    columns = {f"p_{k}": rows[:, k] for k in range(3)} | {"target": target, "split": ["test", "train"] * 30}
    pq.write_table(pa.table(columns), tmp_path / "logs" / "a.parquet")
    confidence = np.tile([0.99, 0.95], 200)
    right = np.arange(400) % 50 > 0
    pq.write_table(
        pa.table(
            {"p_0": 1 - confidence, "p_1": confidence, "target": right.astype(int), "customer": np.arange(400) // 2}
        ),
        tmp_path / "cases.parquet",
    )
    text = "\n".join(f"{p},{int(y)}" for p, y in zip(confidence, right, strict=True))
    named = "\n".join(f"{line},{'ab'[k % 2]},{k // 2}" for k, line in enumerate(text.splitlines()))
    (tmp_path / "answers.csv").write_text(f"confidence,correct,model,question_id\n{named}\n")
    solved = "\n".join(f"{'ab'[k % 2]},{k // 2},{int(k % 3 > 0)}" for k in range(60))
    (tmp_path / "solved.csv").write_text(f"agent,task,solved\n{solved}\n")
    for name in "abc":
        answers = [json.dumps({"id": k, "p": 0.7, "correct": (k + len(name)) % 3 > 0}) for k in range(60)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(answers))
    decisions = [{"answers": {"urgent": {"noul": k / 60}}, "labels": {"urgent": k % 3 > 0}} for k in range(60)]
    for name in ("decisions", "decisions_old", "decisions_new"):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, decisions)))
    (tmp_path / "visits.csv").write_text(f"risk,outcome\n{text}\n")
    np.savez(tmp_path / "model.npz", logits=np.log(rows), target=target)
    np.savez(tmp_path / "models.npz", small=np.log(rows), large=2 * np.log(rows), target=target)


def test_there_are_examples_of_every_command() -> None:
    assert {line.split()[1] for line in examples()} == set(COMMANDS)
    assert len(examples()) >= 12


@pytest.mark.slow
@pytest.mark.usefixtures("example_files")
def test_every_example_in_the_help_runs() -> None:
    for line in examples():
        words = shlex.split(line.partition("|")[0])
        status, out, err = run(*words[1:])
        may_fail = "--fail-if" in line or "recalibrate" in line
        statuses = (
            (0, 3, 4)
            if "--gate" in line
            else (0, 4)
            if "threshold" in line
            else (0, 3)
            if "monitor" in line
            else (0, 3)
            if may_fail
            else (0,)
        )
        assert status in statuses, f"{line}\n{err}"
        assert out or "wrote" in err, line


@pytest.mark.parametrize("columns", [80, 100])
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_into_the_terminal(command: str, columns: int) -> None:
    for option in ("--help", "--help-all")[: 1 + bool(command)]:
        out, _ = succeed(*command.split(), option, columns=columns)
        assert max(map(len, out.splitlines())) <= columns


@pytest.mark.every_value
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_the_help_of_a_command_is_one_screen(command: str) -> None:
    for name in ("--help", "-h"):
        assert len(run(*command.split(), name, columns=80)[1].splitlines()) <= 40


@pytest.mark.every_value
@pytest.mark.parametrize("command", LONG)
def test_the_help_lists_common_options_and_the_long_help_all(command: str) -> None:
    options = [param for param in main.commands[command].params if isinstance(param, click.Option)]
    brief, whole = (run(command, name)[1] for name in ("--help", "--help-all"))
    assert f"Show all {len(options)} options and exit." in brief
    listed = re.findall(r"^  (?:-h, )?--(?:\[no-\])?([\w-]+)", brief.partition("Common options:")[2], re.MULTILINE)
    common = [option for option in options if getattr(option, "common", "")]
    assert 8 <= len(common) <= 18
    assert listed == [*(option.opts[0][2:] for option in common), "help-all", "help"]
    for option in options:
        name = option.opts[0].removeprefix("--")
        assert re.search(rf"^  (-\w, )?--(\[no-\])?{name}\b", whole, re.MULTILINE), name
    # Both begin alike: usage, examples, exit status.
    assert whole.startswith(brief.partition("Common options:")[0])
    assert run("--help-all")[0] == 2  # of a command


def test_the_long_help_reads_no_file_of_options(tmp_path: Path) -> None:
    (tmp_path / "calibrant.toml").write_text("nonsense")
    assert run("report", "--help-all")[0] == 0


def test_the_options_of_a_long_help_are_in_sections() -> None:
    _, out, _ = run("report", "--help-all")
    heads = re.findall(r"^(\w[\w ]*):$", out, re.MULTILINE)
    assert heads == [*SECTIONS, "Others"]
    common = out[out.index("\nCommon options:") : out.index("\nColumns:")]
    assert re.findall(r"^  (--[\w-]+)", common, re.MULTILINE) == [
        "--score",
        "--outcome",
        "--probs",
        "--target",
        "--by",
        "--cluster",
        "--where",
        "--logits",
        "--profile",
        "--tolerance",
        "--json",
        "--html",
        "--gate",
    ]
    assert re.findall(r"^  (-.*?)  ", out[out.index("\nOthers:") :], re.MULTILINE) == ["--help-all", "-h, --help"]
    starts = {match.start(1) for match in re.finditer(r"(?<=\n)  --\S+ \S+ +(\S)", out)}
    assert {start - out.rindex("\n", 0, start) for start in starts} == {27}


@pytest.mark.parametrize("command", ["report", "compare"])
def test_every_option_has_a_section(command: str) -> None:
    own = main.commands[command]
    assert isinstance(own, click.Command)
    options = [param for param in own.params if isinstance(param, click.Option)]
    assert [option.name for option in options if section_of(option) == "Others"] == []


def test_the_commands_are_listed_in_the_order_of_their_use() -> None:
    listed = re.findall(r"^  (\w+)  +\w", run("--help")[1].partition("Commands:")[2], re.MULTILINE)
    assert tuple(listed) == COMMANDS


# ---------------------------------------------------------------- wrong usage: status 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("predictions.csv", "No such command 'predictions.csv'; did you mean: calibrant report predictions.csv?"),
        ("a.npz --n-bins 5", "No such command 'a.npz'; did you mean: calibrant report a.npz --n-bins 5?"),
        ("'logs/*.parquet'", "No such command 'logs/*.parquet'; did you mean: calibrant report 'logs/*.parquet'?"),
        ("reprot a.csv", "No such command 'reprot'; did you mean 'report'?"),
        ("Compare a.csv", "No such command 'Compare'; did you mean 'compare'?"),
        (
            "xyz",
            "No such command 'xyz'; choose from 'report', 'compare', 'recalibrate', 'threshold', 'monitor', 'apply', "
            "'merge', 'floor', 'completion'",
        ),
        (
            "--score win a.csv",
            "Option '--score' belongs to a command; did you mean: calibrant report --score win a.csv?",
        ),
        (
            "--scores a,b a.csv",
            "Option '--scores' belongs to a command; did you mean: calibrant compare --scores a,b a.csv?",
        ),
        ("--nosuch", "No such option"),
        ("report", "Missing argument 'FILE...'. Name a file, such as predictions.csv."),
        (
            "compare a.csv",
            ("a.csv is the only file; name a second file, or the columns of the models, such as --scores old,new"),
        ),
        (
            "floor",
            "name the number of predictions, such as --n 500, or the largest acceptable ECE, such as --prove 0.02",
        ),
        ("floor --n many", "'many' is not a valid integer."),
        ("report a.csv --scor x", "No such option '--scor'; did you mean '--score'?"),
        ("report a.csv --scores x", "No such option '--scores'; did you mean '--score'?"),
        (
            "compare a.csv --score x,y",
            "name a second file, or the columns of the models, such as --scores x,y",
        ),
        (
            "compare a.csv b.csv --scores x,y --on id",
            "--scores names models in one file, but --on is for separate files",
        ),
        (
            "compare a.csv b.csv --scores x,y --paired",
            "--scores names models in one file, but --paired is for separate files",
        ),
        (
            "compare a.csv --scores x,y --baseline old.json",
            "but --baseline is for separate files; pass only one of the two, and name the baseline first in --scores",
        ),
        (
            "compare a.npy --scores x,y --targets y.npy",
            "--scores names models in one file, but --targets is for separate files",
        ),
        ("report a.csv --by-values", "--by-values works only with --by; pass --by too"),
        (
            "compare a.csv b.csv --score x --probs y",
            "--score is for one event, and --probs is for many classes; pass only one",
        ),
        ("compare a.csv b.csv --fail-if 'mce > 1'", "there is no measure 'mce'; did you mean 'ece'?"),
        (
            "compare a.csv b.csv --fail-if 'ece.p_value < 1'",
            "'ece' has no value 'p_value'; the values of ece are value, low, high",
        ),
        ("report a.csv --n_bins 5", "No such option '--n_bins'; did you mean '--n-bins'?"),
        ("report a.csv --output x.html", "No such option '--output'; did you mean '--html'?"),
        ("report a.csv --out=x.HTML", "No such option '--out'; did you mean '--html'?"),
        ("report a.csv --output x.json", "No such option '--output'; did you mean '--json'?"),
        ("report a.csv --seed 5", "No such option '--seed'; did you mean '--rng'?"),
        ("report a.csv --outcmoe y", "No such option '--outcmoe'; did you mean '--outcome'?"),
        ("report a.csv -score x", "No such option '-score'; did you mean '--score'?"),
        ("report a.csv -s x", "No such option '-s'; did you mean '--score' or '--sheet' or '--stated'?"),
        ("report a.csv --xyz", "No such option '--xyz'; 'calibrant report --help-all' lists them"),
        ("floor --xyz", "No such option '--xyz'; 'calibrant floor --help' lists them"),
        ("threshold a.csv --max-error 5%", "No such option '--max-error'; did you mean '--max-risk'?"),
        ("report a.csv --metrics ece", "No such option '--metrics'; did you mean '--measures'?"),
        ("completion tcsh", "'tcsh' is not one of 'bash', 'zsh', 'fish'."),
        ("report a.csv --labels yes", "'yes'; name two labels or more, each once, such as no,yes or 1-10"),
        ("report a.csv --labels a,b,a", "'a,b,a'; name two labels or more, each once"),
        ("report a.csv --labels 5-1", "'5-1'; name two labels or more, each once"),
        ("report a.csv --labels a,b --class-names c,d", "--labels and --class-names both name the classes"),
        ("compare a.csv --scores a,b --labels a,b --class-names c,d", "--labels and --class-names both name"),
    ],
)
def test_wrong_usage_says_what_was_meant(line: str, said: str) -> None:
    status, out, err = run(*shlex.split(line))
    assert (status, out) == (2, "")
    assert said in " ".join(err.split())


def test_a_file_without_an_ending_is_no_command_either() -> None:
    write("predictions", "x")
    assert "did you mean: calibrant report predictions?" in run("predictions")[2]


# ---------------------------------------------------------------- columns that are not found


def test_columns_without_a_usual_name_are_proposed_with_the_whole_command() -> None:
    path = table("my games.csv", day=[3, 5, 3, 5, 3, 5], chance=SCORES, came=WON)
    assert refused("report", path, "--n-bins", 5) == (
        "my games.csv: no column has a usual name for the probabilities (probs, p_*, probability, "
        "score, ...); probabilities may be in chance; outcomes in came (a guess from the values); "
        "name the right columns, such as: calibrant report 'my games.csv' --n-bins 5 --score chance "
        "--outcome came"
    )
    assert mended("report", path, "--n-bins", 5)["n"] == 6
    said = refused("report", path, "--score", "chance")
    assert said.endswith(
        "; outcomes may be in came (a guess from the values); name the right columns, such as: "
        "calibrant report 'my games.csv' --score chance --outcome came"
    )


def test_several_usual_names_are_all_listed_with_their_commands() -> None:
    path = table("a.csv", score=SCORES, prob=SCORES, outcome=WON)
    said = refused("report", path)
    words = [
        f"({place}) if '{name}' is the probability of the event in 'outcome', type: calibrant report a.csv --score "
        f"{name} --outcome outcome"
        for place, name in enumerate(("score", "prob"), 1)
    ]
    assert said.endswith("; ".join(words))
    for line in re.findall(r"type: calibrant ([^;]+)", said):
        status, out, _ = run(*shlex.split(line), *FAST, "--json", "-")
        assert (status, json.loads(out)["n"]) == (0, 6)


def test_equally_near_columns_are_all_named() -> None:
    path = table("a.csv", prob1=SCORES, prob2=SCORES, won=WON)
    said = refused("report", path, "--score", "prob", "--outcome", "won")
    assert (
        said
        == "a.csv: has no column 'prob' (--score); did you mean 'prob1' or 'prob2'? the columns are prob1, prob2, won"
    )


def test_a_column_of_text_is_no_score() -> None:
    path = table("a.csv", team=["Celtics", "Lakers"], won=[0, 1])
    said = refused("report", path, "--score", "team", "--outcome", "won")
    assert said == "a.csv: column 'team' holds text such as 'Celtics', not numbers; name a column of numbers"


@pytest.mark.parametrize(
    "style",
    [
        ("--score", "won", "--outcome", "win"),
        ("--score=won", "--outcome=win"),
        ("--score=won", "--outcome", "win"),
        ("--score", "won", "--outcome=win"),
    ],
)
def test_swapped_columns_are_told_apart(style: tuple[str, ...]) -> None:
    path = table("a.csv", win=SCORES, won=WON)
    assert refused("report", path, *style, "--level", 0.9) == (
        "a.csv: the scores 'won' are labels and the outcomes 'win' are fractions, so the two columns "
        "look swapped; type: calibrant report a.csv --level 0.9 --score win --outcome won"
    )
    assert mended("report", path, *style)["outcome_rate"] == 0.5


def test_swapped_arrays_and_models_are_told_apart() -> None:
    rows = np.random.default_rng(0).dirichlet(np.ones(3), 6)
    np.savez("a.npz", probs=np.eye(3)[[0, 1, 2, 0, 1, 2]], targets=rows)
    assert refused("report", "a.npz").endswith("swapped; type: calibrant report a.npz --probs targets --target probs")
    path = table("a.csv", win=SCORES, won=WON, home=WON)
    said = refused("compare", path, "--scores", "won,home", "--outcome", "win")
    assert "the scores 'won' are labels and the outcomes 'win' are fractions" in said
    assert said.endswith("; name the scores with --scores and the outcomes with --outcome")


@pytest.mark.parametrize("wrong", [["Celtics", "Lakers", "Bulls"] * 2, [2020, 2021, 2022] * 2, [0.5, 2.5, 3.5] * 2])
def test_another_column_is_proposed_for_outcomes_that_are_none(wrong: list[object]) -> None:
    path = table("a.csv", win=SCORES, season=wrong, won=WON)
    said = refused("report", path, "--score", "win", "--outcome", "season")
    assert said.endswith(
        "; name the column that holds 0 and 1, such as: calibrant report a.csv --score win --outcome won"
    )
    path = table("b.csv", win=SCORES, season=wrong)
    report = mended("report", path, "--score", "win", "--outcome", "season")
    assert (report["n"], report["outcome_rate"]) == (6, 1 / 3)  # one of three values is the event


def test_another_column_is_proposed_for_scores_that_are_whole_numbers() -> None:
    path = table("a.csv", season=[2020, 2021, 2022] * 2, win=SCORES, won=WON)
    line = ("report", path, "--score", "season", "--outcome", "won")
    assert refused(*line) == (
        "a.csv: row 1, column 'season': expected values in [0, 1], got 2020; name the column that holds the "
        "probabilities, such as: calibrant report a.csv --outcome won --score win"
    )
    assert mended(*line)["n"] == 6
    # Numbers that are not whole may be logits, and so may those beside which no column is better.
    path = table("b.csv", z=[-1.5, 2.5, 0.5] * 2, win=SCORES, won=WON)
    assert refused("report", path, "--score", "z", "--outcome", "won").endswith("; pass --logits if they are logits")
    path = table("c.csv", season=[2020, 2021, 2022] * 2, won=WON)
    said = refused("report", path, "--score", "season", "--outcome", "won")
    assert said.endswith("; pass --logits if they are logits")


def test_groups_that_are_the_targets_too() -> None:
    path = table("a.csv", p_0=[0.5, 0.25], p_1=[0.5, 0.75], target=[0, 1])
    assert refused("report", path, "--by", "target") == (
        "a.csv: --by uses 'target', and no other column has a usual name for the targets; if "
        "'target' also holds the targets, type: calibrant report a.csv --by target --target target"
    )
    assert mended("report", path, "--by", "target")["n"] == 2
    path = table("b.csv", score=SCORES, event=WON)
    assert refused("report", path, "--by", "event").endswith("report b.csv --by event --outcome event")
    path = table("c.csv", score=SCORES, event=WON, team=WON)
    assert "no column has a usual name for the targets" not in run("report", path, "--by", "team", *FAST)[2]


def test_columns_of_models_are_no_classes() -> None:
    path = table("a.csv", old=SCORES, new=SCORES[::-1], won=WON)
    line = ("report", path, "--probs", "old,new", "--target", "won", "--where", "old > 0.15")
    said = refused(*line)
    assert "; normalise the rows" in said
    words = "; if the columns are models of one event, type: calibrant compare a.csv --scores old,new --outcome won"
    assert said.endswith(words + " --where 'old > 0.15'")
    out, _ = succeed(*shlex.split(said.rpartition(": calibrant ")[2]), "--json", "-")
    assert json.loads(out)["n"] == 5
    # Labels beyond 0 and 1 are those of classes.
    path = table("b.csv", a=SCORES, b=SCORES, c=SCORES, k=[0, 1, 2] * 2)
    assert "compare" not in refused("report", path, "--probs", "a,b,c", "--target", "k")


@pytest.mark.parametrize(
    ("words", "proposal"),
    [
        (("--probs", "p_y", "p_z"), "--probs 'p_*'"),
        (("--probs", "p_y"), "--probs 'p_*'"),
        (("--probs", "prob.txt", "proba.txt"), "--probs 'prob*'"),
    ],
)
def test_a_pattern_that_the_shell_filled_in(words: tuple[str, ...], proposal: str) -> None:
    path = table("a.csv", p_0=[0.5, 0.25], p_1=[0.5, 0.75], target=[0, 1])
    for name in words[1:]:
        write(name, "x")
    said = refused("report", path, *words)
    assert said.endswith(f"; {words[1]!r} is a file: if the shell expanded a pattern, quote it: {proposal}")
    said = refused("compare", path, "--scores", f"{words[1]},other")
    assert "quote the pattern" not in said


# ---------------------------------------------------------------- conditions


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_a_column_is_no_condition(ending: str) -> None:
    columns = {"season": [2016, 2017] * 3, "team 1": ["Celtics", "Lakers"] * 3, "score": SCORES, "outcome": WON}
    path = table("a.csv", **columns)
    if ending == "parquet":
        path = "a.parquet"
        pq.write_table(pa.table(columns), path)
    elif ending == "jsonl":
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        path = write("a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    rest = ", because the shell interprets >"
    assert refused("report", path, "--where", "season") == (
        f"{path}: --where 'season' is not a condition but a column of numbers; write the condition in quotes, such as "
        f'--where "season >= 2016"{rest}'
    )
    said = refused("report", path, "--where", '"team 1"')
    assert "is not a condition but a column of texts; write the condition in quotes, such as --where " in said
    shell = said.partition("such as --where ")[2].removesuffix(rest)
    for condition, n in ((shlex.split(shell)[0], 3), ("season > 2016", 3)):
        assert json.loads(run("report", path, *FAST, "--where", condition, "--json", "-")[1])["n"] == n
    assert " is not a condition but numbers; write the condition in quotes, because " in refused(
        "report", path, "--where", "1 + 1"
    )


def test_a_text_in_double_quotes_is_told_from_a_column() -> None:
    path = table("a.csv", team=["Celtics", "Lakers"] * 3, score=SCORES, outcome=WON)
    for wrong in ('team = "Celtics"', "team = Celtics", 'team IN ("Celtics")', "team LIKE Celtics"):
        said = refused("report", path, "--where", wrong)
        mended = re.sub('"?Celtics"?', "'Celtics'", wrong)
        assert "there is no column 'Celtics'; write texts in single quotes: " in said
        assert f'--where "{mended}"; the columns are team, score, outcome' in said
        assert json.loads(run("report", path, *FAST, "--where", mended, "--json", "-")[1])["n"] == 3
    assert "single quotes" not in refused("report", path, "--where", "Celtics = 'x'")


def test_decimal_commas_are_told_of() -> None:
    for name, text in (("a.csv", "score;outcome\n0,512;1\n"), ("b.tsv", "outcome\tscore\n1\t0,512\n")):
        told = (
            "row 1, column 'score': '0,512' is not a number; if the scores are numbers with a decimal comma, "
            "type: calibrant report"
        )
        assert refused("report", write(name, text)) == f"{name}: {told} {name} --decimal-comma"
        assert mended("report", name)["n"] == 1
    for name, between in (("e.tsv", ","), ("f.tsv", ";"), ("g.tsv", "|"), ("h.csv", "\t")):
        write(name, f"outcome{between}score\n1{between}0.5\n")
        assert run("report", name, *FAST)[0] == 0
    assert refused("report", write("c.csv", "outcome\tscore\n1\t,5\n")).endswith("report c.csv --decimal-comma")


# ---------------------------------------------------------------- labels that are not 0 to C - 1


def test_columns_named_like_the_labels_are_proposed_at_once() -> None:
    rows, words = np.random.default_rng(0).dirichlet(np.ones(3), 9).round(4), ["cat", "dog", "eel"] * 3
    path = table("a.csv", eel=rows[:, 2], cat=rows[:, 0], dog=rows[:, 1], species=words)
    proposal = "calibrant report a.csv --probs eel,cat,dog --target species --labels eel,cat,dog"
    assert refused("report", path).endswith(f"; name the right columns, such as: {proposal}")
    assert refused("report", path, "--probs", "eel,cat,dog").endswith(f"; name the right columns, such as: {proposal}")
    said = refused("report", path, "--probs", "eel,cat,dog", "--target", "species")
    assert said.endswith(f"; the columns have the names of the labels; type: {proposal}")
    table("b.csv", p_0=rows[:, 0], p_1=rows[:, 1], p_2=rows[:, 2], target=[0, 1, 2] * 3)
    plain = json.loads(run("report", "b.csv", *FAST, "--json", "-")[1])
    found = mended("report", path)["estimates"]["ece"]["value"]
    assert found == pytest.approx(plain["estimates"]["ece"]["value"], abs=1e-12)


@pytest.mark.parametrize(("first", "option"), [(0, "--class-names cat,dog,eel"), (1, "--labels 1-3")])
def test_integers_beside_columns_that_name_the_classes(first: int, option: str) -> None:
    rows = np.random.default_rng(0).dirichlet(np.ones(3), 9)
    target = np.arange(9) % 3
    path = table("a.csv", p_cat=rows[:, 0], p_dog=rows[:, 1], p_eel=rows[:, 2], target=target + first)
    assert refused("report", path) == (
        f"a.csv: row 1, column 'target': expected one of cat, dog, eel, got '{first}'; "
        f"if label {first} is class 'cat', and so on, "
        f"type: calibrant report a.csv {option}"
    )
    np.savez("b.npz", probs=rows, target=target)
    plain = json.loads(run("report", "b.npz", *FAST, "--json", "-")[1])
    assert mended("report", path)["estimates"]["ece"] == plain["estimates"]["ece"]
    if first == 0:
        said = refused("report", path, "--labels", "cat,dog,eel")
        assert said.endswith("type: calibrant report a.csv --labels 0-2")
    path = table("c.csv", p_cat=rows[:, 0], p_dog=rows[:, 1], p_eel=rows[:, 2], target=target + 7)
    assert refused("report", path).endswith(
        "got '7'; pass --labels if the file spells the labels differently, or correct the row"
    )


@pytest.mark.covering
@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([1, 2, 2, 2, 1, 1], "if '2' is the event, type: calibrant report a.csv --labels 1,2"),
        ([1.0, 2.0, 2.0, 2.0, 1.0, 1.0], "if '2' is the event, type: calibrant report a.csv --labels 1,2"),
        (["B", "M", "M", "M", "B", "B"], "if 'M' is the event, type: calibrant report a.csv --labels B,M"),
        ([-1, 1, 1, 1, -1, -1], "if '1' is the event, type: calibrant report a.csv --labels -1,1"),
        (
            ["no", "yes", "yes", "yes", "no", "no"],
            "if 'yes' is the event, type: calibrant report a.csv --labels no,yes",
        ),
        (["lost", "won", "won", "won", "lost", "lost"], "if 'won' is the event, type: calibrant report a.csv --labels"),
        ([0, 255, 255, 255, 0, 0], "if '255' is the event, type: calibrant report a.csv --labels 0,255"),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "npz"])
def test_labels_of_one_event(labels: list[object], words: str, ending: str) -> None:
    path = table("a.csv", score=SCORES, outcome=labels)
    if ending == "npz":
        np.savez("a.npz", score=SCORES, outcome=labels)
        path, words = "a.npz", words.replace("a.csv", "a.npz")
    said = refused("report", path)
    assert words in said
    plain = json.loads(run("report", table("b.csv", score=SCORES, outcome=WON), *FAST, "--json", "-")[1])
    line = re.search(re.escape(words) + r"[^;]*", said)[0].rpartition("type: calibrant ")[2]
    assert json.loads(run(*shlex.split(line), *FAST, "--json", "-")[1])["estimates"] == plain["estimates"]
    assert ("; (2) if '" in said) == (labels[0] in (1, "B"))  # these two do not say which is the event


def test_truth_values_need_no_option() -> None:
    plain = run("report", table("a.csv", score=SCORES, outcome=WON), *FAST, "--json", "-")[1]
    said = run("report", table("b.csv", score=SCORES, outcome=[bool(y) for y in WON]), *FAST, "--json", "-")[1]
    assert json.loads(said)["estimates"] == json.loads(plain)["estimates"]


@pytest.mark.parametrize("ending", ["csv", "npz"])
def test_labels_of_classes_from_1(ending: str) -> None:
    rows, target = np.random.default_rng(0).dirichlet(np.ones(3), 9), np.arange(9) % 3
    table("a.csv", p_0=rows[:, 0], p_1=rows[:, 1], p_2=rows[:, 2], target=target + 1)
    np.savez("a.npz", probs=rows, target=target + 1)
    said = refused("report", f"a.{ending}")
    assert "expected class indices 0 to 2, got 3" in said
    assert said.endswith(f"; the labels look 1-based; type: calibrant report a.{ending} --labels 1-3")
    np.savez("b.npz", probs=rows, target=target)
    own, plain = mended("report", f"a.{ending}"), json.loads(run("report", "b.npz", *FAST, "--json", "-")[1])
    assert own["classwise"] == plain["classwise"] | {"names": ["1", "2", "3"]}
    assert own["estimates"]["ece"] == plain["estimates"]["ece"]


def test_two_labels_of_two_columns() -> None:
    path = table("a.csv", p_0=[0.25, 0.5], p_1=[0.75, 0.5], target=[-1, 1])
    said = refused("report", path)
    assert said.endswith("; the columns have the names of the labels; type: calibrant report a.csv --labels -1,1")
    assert mended("report", path)["classwise"]["names"] == ["-1", "1"]


def test_labels_of_classes_that_are_words() -> None:
    rows, words = np.random.default_rng(0).dirichlet(np.ones(3), 9), ["cat", "dog", "eel"] * 3
    path = table("a.csv", p_0=rows[:, 0], p_1=rows[:, 1], p_2=rows[:, 2], target=words)
    said = refused("report", path)
    assert said.endswith(
        "; if the columns have the order of these labels, type: calibrant report a.csv --labels cat,dog,eel"
    )
    summary = mended("report", path)
    assert summary["classwise"]["names"] == ["cat", "dog", "eel"]
    two = table("b.csv", p_0=rows[:, 0], p_1=rows[:, 1], p_2=rows[:, 2], target=["cat", "dog", "dog"] * 3)
    said = refused("report", two)
    words = "; pass --labels with the labels of the columns p_0, p_1, p_2, in this order; the file has cat, dog"
    assert said.endswith(words)
    said = refused("report", path, "--labels", "cat,dgo,eel")
    assert said == "a.csv: row 2, column 'target': expected one of cat, dgo, eel, got 'dog'; did you mean 'dgo'?"
    said = refused("report", path, "--labels", "cat,dog")
    assert said == "a.csv: --labels: expected 3 names, one per class, got 2; name the classes in column order"
    said = refused("report", path, "--class-names", "cat,dog")
    assert said == "a.csv: --class-names: expected 3 names, one per class, got 2; name the classes in column order"


def test_labels_are_those_of_a_comparison_too() -> None:
    path = table("a.csv", old=SCORES, new=SCORES[::-1], outcome=["no", "yes", "yes", "yes", "no", "no"])
    said = refused("compare", path, "--scores", "old,new")
    words = "if 'yes' is the event, type: calibrant compare a.csv --scores old,new --labels no,yes"
    assert said.endswith(words)
    ours = run("compare", path, "--scores", "old,new", "--labels", "no,yes", "--json", "-")[1]
    path = table("b.csv", old=SCORES, new=SCORES[::-1], outcome=WON)
    assert (
        json.loads(ours)["models"]
        == json.loads(run("compare", path, "--scores", "old,new", "--json", "-")[1])["models"]
    )


def test_a_few_other_outcomes_are_kept_by_the_command_that_is_proposed() -> None:
    path = table("a.csv", score=SCORES, outcome=[0, 1, 1, 0.5, 0, 1])
    report = mended("report", path)
    assert (report["n"], report["outcome_rate"]) == (5, 0.6)  # without the tie
    np.savez("a.npz", score=SCORES, outcome=[0, 1, 1, 0.5, 0, 1])
    assert refused("report", "a.npz").endswith("; save the outcomes as 0 and 1")


def test_soft_labels_are_answered_with_their_page() -> None:
    soft = [0.2, 0.7, 0.9, 0.5, 0.1, 1]
    path = table("a.csv", score=SCORES, label=soft)
    remedy = "with --outcome, name the column that holds 0 and 1; for soft labels, see docs/soft-labels.md"
    assert refused("report", path, "--score", "score", "--outcome", "label").endswith(remedy)
    path = table("b.csv", score=SCORES, label=soft, won=WON)  # another column may hold the outcomes
    assert "--outcome won" in refused("report", path, "--score", "score", "--outcome", "label")
    path = table("d.csv", score=SCORES, label=[0, 0.5, 0.5, 0.5, 0.5, 1])  # ties
    assert refused("report", path, "--score", "score", "--outcome", "label").endswith("--where 'label IN (0, 1)'")
    path = table("c.csv", score=SCORES, label=[0, 1, 2.5, 0.5, 0.1, 1])  # not probabilities
    assert "soft" not in refused("report", path, "--score", "score", "--outcome", "label")
    np.savez("a.npz", probs=SCORES, targets=soft)
    assert refused("report", "a.npz").endswith("class indices; for soft labels, see docs/soft-labels.md")


def test_a_sketch_that_something_else_wrote() -> None:
    path = write("a.cal", "score,outcome")
    assert refused("report", path).endswith(
        "; pass a file that calibrant report --sketch or CalibrationSketch.save wrote"
    )


# ---------------------------------------------------------------- arrays that are something else


def test_transposed_arrays() -> None:
    rows, target = np.random.default_rng(0).dirichlet(np.ones(3), 9), np.arange(9) % 3
    np.savez("a.npz", probs=rows.T, target=target)
    assert refused("report", "a.npz") == (
        "a.npz: array 'target' has 9 rows and 'probs' has 3; 'probs' looks transposed; save probs.T, "
        "with one row for each prediction"
    )
    np.savez("b.npz", probs=rows, target=np.eye(3)[target].T)
    assert refused("report", "b.npz").endswith("; 'target' looks transposed; save target.T")
    np.savez("c.npz", probs=rows, target=target[:5])
    assert refused("report", "c.npz").endswith("; save arrays of the same length")


def test_probabilities_are_no_logits() -> None:
    rows, target = np.random.default_rng(0).dirichlet(np.ones(3), 12), np.arange(12) % 3
    np.savez("a.npz", probs=rows, other=rows, target=target)
    said = (
        "a.npz: --logits: expected logits, got probabilities: every row is in [0, 1] and adds up to 1; leave --logits "
        "out, or save the softmax of probs if they are logits"
    )
    assert refused("report", "a.npz", "--logits") == said
    assert refused("compare", "a.npz", "--scores", "probs,other", "--logits") == said
    np.savez("b.npz", logits=rows, target=target)
    assert refused("report", "b.npz").endswith(
        "; the name of the array suggests logits; if it holds probabilities, rename it to probs"
    )


@needs_data
def test_swapped_columns_of_a_real_file() -> None:
    path = DATA / "governors_elections.csv"
    said = refused("report", path, "--score", "probwin_outcome", "--outcome", "probwin")
    assert said.endswith(f"type: calibrant report {path} --score probwin --outcome probwin_outcome")


@needs_data
def test_a_real_file_is_reported_on_by_the_command_that_its_error_proposes() -> None:
    assert mended("report", DATA / "nba_games.csv")["n"] == 8886


# ---------------------------------------------------------------- the page on errors

PAGE = ROOT / "docs" / "troubleshooting.md"


def test_the_page_on_errors_shows_what_the_command_says() -> None:
    blocks = re.findall(r"```text\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    write("games.csv", blocks[0])
    shown = re.findall(r"\$ (calibrant .*)\n((?:(?!\$).*\n)*)", blocks[1])
    assert len(shown) == 3
    for line, expected in shown:
        _, out, err = run(*shlex.split(line)[1:])
        assert (out, err.replace("calibrant -h'", "calibrant --help'")) == ("", expected), line  # click 8.2 says -h
    _, _, last = shown[-1][1].strip().rpartition(": calibrant ")
    assert run(*shlex.split(last), *FAST)[0] == 0


# Words of messages, and lines that have them said. The page quotes some; the rest are in the tests above.
QUOTED = {
    "no such file; did you mean": "report game.csv",
    "no file matches this pattern": "report 'logs/*.parquet'",
    "is a folder without a file": "report folder",
    "is named twice": "report games.csv games.csv",
    "is not of the same kind as": "report games.csv a.npz",
    "unknown ending": "report a.pkl",
    "is empty (0 bytes)": "report empty.csv",
    "holds no rows": "report header.csv",
    "cannot be read": "report wrong.parquet",
    "has numbers in its first line": "report headless.csv",
    "does not name the columns": "report title.csv",
    "standard input: is empty": "report -",
    "has a usual name for": "report games.csv",
    "could be the probabilities": "report rivals.csv",
    "could be the targets": "report rivals.csv --score score",
    "may be the probability of a predicted label": "report confident.csv",
    "shows whether a prediction was correct": "report right.csv",
    "has only two values, like a predicted label": "report guesses.csv",
    "has no column": "report games.csv --score winprob",
    "holds text such as": "report games.csv --score day --outcome result",
    "look swapped": "report plain.csv --score won --outcome p",
    "name the column that holds 0 and 1": "report plain.csv --score p --outcome year",
    "name the column that holds the probabilities": "report plain.csv --score year --outcome won",
    "and no other column has a usual name": "report grouped.csv --by label",
    "looks transposed; save": "report transposed.npz",
    "is empty (null)": "report hole.csv",
    "if the scores are percentages": "report percent.csv",
    "pass --logits if they are logits": "report logits.csv",
    "expected logits, got probabilities": "report a.npz --logits",
    "the name of the array suggests logits": "report named.npz",
    "rows that sum to 1": "report unsummed.npz",
    "expected finite numbers": "report nan.csv",
    "the labels look 1-based": "report from-1.npz",
    "is the event, type": "report games.csv --score win_prob --outcome result",
    "the order of these labels": "report words.npz",
    "the columns have the names of the labels": "report named.csv --probs cat,dog,eel --target kind",
    "and so on, type": "report patterned.csv",
    "expected one of": "report words.npz --labels cat,dgo,eel",
    "check that probs has a column for every class": "report beyond.npz",
    "leave such rows out with": "report hole.csv",
    "for ties as a class of their own": "report draw.csv",
    "is also read, as": "report games.csv --json games.csv",
    "is not a regular file": "apply folder plain.csv --score p --output out.csv",
    "differ only in upper and lower case": "report cases.csv --score p --outcome P",
    "No such command": "reprot games.csv",
    "belongs to a command": "--score p plain.csv",
    "No such option": "report games.csv --sorce p",
    "is the only file; name a second file": "compare games.csv",
    "is not a condition but": "report plain.csv --score p --outcome won --where year",
    "write texts in single quotes": "report plain.csv --score p --outcome won --where 'won = \"Celtics\"'",
    "is a file: if the shell expanded a pattern": "report plain.csv --probs p_y",
    "is not a condition; put the condition in quotes": "report games.csv --fail-if ece",
    "is not a condition; write a condition such as": "report games.csv --fail-if 'any(ece > 0.1)'",
    "the data have no groups": "report plain.csv --score p --outcome won --fail-if 'groups.any(n > 9)'",
    "to require evidence": "report plain.csv --score p --outcome won --fail-if 'ece > 0.001'",
    "there is no measure": "report games.csv --fail-if 'eces > 0.1'",
    "exclude each other": "report games.csv --logits --percent",
    "has probs in": "report numbers.parquet other.parquet",
    "contains text, but": "report numbers.parquet words.parquet",
    "is damaged": "report torn.csv.gz",
    "has more than": "report many.parquet --by g --by-values --sketch a.cal",
    "a sketch supports at most": "report wide.npz --classwise --sketch a.cal",
    "expected a calibrant sketch": "report foreign.cal",
    "expected a sketch that matches its checksum": "merge one.cal cut.cal -o a.cal",
    "expected a valid sketch": "report forged.cal",
    "expected a sketch of at most": "report one.cal",
    "cannot be merged with": "merge one.cal three.cal -o a.cal",
    "on a sketch, because a sketch contains no rows": "report one.cal --where 'a = 1'",
    "the disk is full": "merge one.cal -o full.cal",
    "is needed": "report plain.csv --score p --outcome won --engine spark",
    "for a risk of": "threshold numbers.parquet",
    "separates perfectly": "threshold separable.csv",
    "clusters with 'betting'": "threshold separable.csv --method betting",
    "is a sketch, which does not contain the predicted class": "threshold three.cal --per-class",
    "belong together": "threshold numbers.parquet --yes-risk 0.1",
    "name the file of the state first": "monitor week31.csv",
    "name a file with the first slice": "monitor none.json",
    "a label that was not used": "monitor state.json plain.csv --score p --outcome won",
    "as in the first slice": "monitor state.json a.npz",
    "the declared groups": "monitor state.json other_teams.csv --by team",
    "or start a new state": "monitor state.json teams.csv --alpha 0.05",
    "whole numbers, or max_weight": "monitor new.json weighted.csv --weight weight",
    "a result that contains a certified threshold": "monitor new.json teams.csv --threshold other.json",
    "a threshold at an edge of the grid": "monitor new.json narrow.cal --threshold within.json",
    "does not work with --time": "monitor new.json teams.csv --time team --label x",
    "is not the state of a monitor": "monitor other.json",
    "was written by a newer calibrant": "monitor later.json",
    "restore the file from a copy": "monitor edited.json",
}


def full_disk(_: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_the_page_on_errors_quotes_what_the_command_says(monkeypatch: pytest.MonkeyPatch) -> None:
    page = PAGE.read_text("utf-8")
    write("games.csv", re.findall(r"```text\n(.*?)```", page, re.DOTALL)[0])
    rows, target = np.random.default_rng(0).dirichlet(np.ones(3), 12), np.arange(12) % 3
    Path("folder").mkdir()
    for name, text in {
        "a.pkl": "x",
        "empty.csv": "",
        "header.csv": "score,outcome\n",
        "wrong.parquet": "x",
        "headless.csv": "0.5,1\n",
        "title.csv": "Report\nscore,outcome\n0.5,1\n",
        "commas.tsv": "score,outcome\n0.5,1\n",
        "hole.csv": "score,outcome\n0.5,\n",
        "cases.csv": "p,P\n0.5,1\n",
        "nan.csv": "score,outcome\nnan,1\n",
        "percent.csv": "score,outcome\n85,1\n",
        "logits.csv": "score,outcome\n-5,1\n",
        "draw.csv": "score,outcome\n0.5,1\n0.5,0.5\n0.5,0\n",
    }.items():
        write(name, text)
    table("rivals.csv", score=SCORES, prob=SCORES, label=WON, outcome=WON)
    write("p_y", "x")
    table("grouped.csv", score=SCORES, label=WON)
    table("named.csv", cat=[0.5] * 3, dog=[0.25] * 3, eel=[0.25] * 3, kind=["cat", "dog", "eel"])
    table("patterned.csv", p_cat=[0.5] * 3, p_dog=[0.25] * 3, p_eel=[0.25] * 3, target=[0, 1, 2])
    table("separable.csv", score=[i / 200 for i in range(200)], outcome=[int(i >= 100) for i in range(200)])
    table("plain.csv", p=SCORES, won=WON, year=range(2020, 2026))
    table("confident.csv", score=[0.5 + p / 2 for p in SCORES], label=WON, pred_label=WON[::-1])
    table("right.csv", score=SCORES, correct=WON)
    table("guesses.csv", predictions=WON[::-1], label=WON)
    for stem, probs, labels in (
        ("a", rows, target),
        ("transposed", rows.T, target),
        ("unsummed", rows / 2, target),
        ("from-1", rows, target + 1),
        ("beyond", rows, 2 * target),
        ("words", rows, np.array(["cat", "dog", "eel"])[target]),
    ):
        np.savez(f"{stem}.npz", probs=probs, target=labels)
    np.savez("named.npz", logits=rows, target=target)
    pq.write_table(pa.table({"prob": SCORES, "outcome": WON}), "other.parquet")
    pq.write_table(pa.table({"score": SCORES, "outcome": WON}), "numbers.parquet")
    pq.write_table(pa.table({"score": SCORES, "outcome": list("nyynny")}), "words.parquet")
    Path("torn.csv.gz").write_bytes(gzip.compress(b"score,outcome\n0.5,1\n" * 100)[:-9])
    pq.write_table(pa.table({"score": [0.5] * 600, "outcome": [1] * 600, "g": range(600)}), "many.parquet")
    np.savez("wide.npz", probs=np.full((2, 600), 1 / 600), target=[0, 1])
    for name, probs in (("one", np.array(SCORES)), ("three", rows[:6])):
        sketch = sketch_of(probs, WON)
        Path(f"{name}.cal").write_bytes(sketch.to_bytes())
    Path("foreign.cal").write_text("score,outcome")
    sketch._part.totals.n += 1
    Path("forged.cal").write_bytes(sketch.to_bytes())
    Path("cut.cal").write_bytes(Path("one.cal").read_bytes()[:-1])
    table("weighted.csv", score=SCORES, outcome=WON, weight=[0.5, 1, 1, 1, 1, 2])
    table("teams.csv", score=SCORES, outcome=WON, team=list("aabbab"))
    table("other_teams.csv", score=SCORES, outcome=WON, team=list("aabbac"))
    watch = calibrant.Monitor(alpha=0.1)
    watch.update(SCORES, WON, label="plain", groups=list("aabbaa"))
    state = watch.to_json("state.json")
    write("edited.json", state.replace('"plain"', '"other"'))
    write("later.json", state.replace('"version": 3', '"version": 9'))
    write("other.json", "{}")
    write("within.json", '{"value": 0.31234, "side": "yes", "max_risk": 0.05}')
    narrow = sketch_of(np.linspace(0.3, 0.32, 2_000), np.arange(2_000) % 2)
    Path("narrow.cal").write_bytes(narrow.to_bytes())
    monkeypatch.setattr(os, "fsync", full_disk)
    for module in ("pyspark", "pyspark.sql"):  # another test may have imported both
        monkeypatch.setitem(sys.modules, module, None)
    quotes = re.findall(r"`([^`]+)`", " ".join(re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)))
    assert len(quotes) == len(set(quotes)) >= 20
    assert set(quotes) - set(QUOTED) == set()
    for words, line in QUOTED.items():
        with monkeypatch.context() as limited:
            if words == "expected a sketch of at most":
                limited.setenv("CALIBRANT_MAX_MEMORY", "100kB")
            status, _, err = run(*shlex.split(line))
        # A warning stands next to a condition that holds.
        assert status in ((3,) if words == "to require evidence" else (1, 2)), line
        assert words in err, line


WRONG = {
    ("--n-bins", "0"): "0 bins; pass 1 or more",
    ("--level", "1.5"): "pass a share from 0.5 to below 1",
    ("--rng", "-1"): "-1; pass 0 or more",
    ("--tolerance", "2"): "pass the largest acceptable error",
    ("--html", "page.txt"): "name a file that ends in .html",
    ("--by-values",): "--by-values works only with --by",
    ("--score", "p", "--probs", "q"): "--score is for one event",
    ("--sketch", "a.txt"): "name a file that ends in .cal",
    ("--master", "local"): "--master works only with --engine spark",
}


def test_all_wrong_options_are_said_at_once():
    together = fail("report", "none.csv", *(word for words in WRONG for word in words), status=2)
    for words, said in WRONG.items():
        assert said in run("report", "none.csv", *words)[2]
        assert together.count(said) == 1


#: Options that are wrong by themselves, with their errors: found by click, by the parser, and by the checks.
FAULTY = {
    ("--n-bins", "x"): "Invalid value for '--n-bins' / '--bins': 'x' is not a valid integer",
    ("--level", "high"): "Invalid value for '--level': 'high' is not a number or a percentage",
    ("--fail-if", "ecee > 1"): "there is no measure 'ecee'; did you mean 'ece'?",
    ("--fail-if", "ece << 1", "--fail-if", "ece > 1"): "'ece << 1' is not a condition",
    ("--measures", "eceee"): "Invalid value for '--measures': 'eceee'; did you mean 'ece'?",
    ("--labels", "yes"): "'yes'; name two labels or more",
    ("--timezone", "Mars"): "there is no time zone 'Mars'",
    ("--bands", "wide"): "'wide' is not one of",
    ("--scor", "p"): "No such option '--scor'; did you mean '--score'?",
    ("--seed=5",): "No such option '--seed'; did you mean '--rng'?",
    ("--n-resamples", "-1"): "-1; pass 0 or more",
    ("--tolerance", "2"): "2; pass the largest acceptable error, such as 0.02",
    ("--html", "page.pdf"): "name a file that ends in .html",
}


@pytest.mark.parametrize("seed", range(40))
def test_faulty_options_of_every_kind_are_said_in_one_run(seed: int) -> None:
    rng = np.random.default_rng(seed)
    faulty = list(FAULTY)
    chosen = [faulty[k] for k in rng.choice(len(faulty), rng.integers(2, 5), replace=False)]
    status, out, err = run("report", "none.csv", *(word for words in chosen for word in words))
    assert (status, out) == (2, "")
    for words in chosen:
        assert " ".join(err.split()).count(FAULTY[words]) == 1


def test_an_option_with_an_error_is_not_said_to_be_missing() -> None:
    assert "name the number" not in run("floor", "--n", "many")[2]
    assert "pass --tolerance too" not in run("report", "a.csv", "--tolerance", "x", "--tolerance-of", "mean_gap")[2]


def test_an_unknown_option_beside_a_file_of_options() -> None:
    write("o.toml", "level = 0.9\n")
    err = fail("report", "a.csv", "--config", "o.toml", "--scor", "p", "--n-bins", "x", status=2)
    assert "No such option '--scor'" in err
    assert "'x' is not a valid integer" in err


# ---------------------------------------------------------------- numbers that would be right if they were rounded


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("command", "column", "value"),
    [
        *((command, "score", 1.0000000001) for command in ("report", "recalibrate", "threshold", "monitor", "apply")),
        ("report", "outcome", 1.0000000001),
        ("report --weight weight", "weight", -1e-12),
        ("report --weight weight --weights-are frequency", "weight", 2.0000000001),
        ("monitor --weight weight --max-weight 2", "weight", 2.0000000001),
        ("monitor --weight weight --max-weight 2.5", "weight", 2.500000001),
        ("report --percent", "score", 100.00000001),
        ("compare --scores score,other --outcome outcome", "other", 1.0000000001),
    ],
)
def test_a_cell_that_is_right_when_it_is_rounded_is_shown_in_full(
    command: str, column: str, value: float, kind: str
) -> None:
    weight = 2.0 if "frequency" in command else 1.5
    columns = {name: np.array([0.25, 0.5] * 20) for name in ("score", "other")}
    columns |= {"outcome": np.array([0.0, 1.0] * 20), "weight": np.full(40, weight)}
    columns[column][-1] = value
    if kind == "csv":
        table("in.csv", **columns)
    else:
        pq.write_table(pa.table(columns), "in.parquet")
    name, *options = command.split()
    words = {"monitor": ["s.json"], "apply": ["m.json"]}.get(name, [])
    if name == "apply":
        options += ["--score", "score", "--output", "out.csv"]
        calibrant.recalibrate([0.1, 0.4, 0.6, 0.9] * 9, [0, 1, 0, 1] * 9, method="cox").fitted().to_json("m.json")
    assert str(value) in refused(name, *words, f"in.{kind}", *options)


@pytest.mark.parametrize(
    "words",
    [
        *("report in.csv --level 0.4999999999", "report in.csv --tolerance 1.0000000001"),
        *("threshold in.csv --max-risk 0.5000000001", "threshold in.csv --confidence 0.4999999999"),
        *("threshold in.csv --cost-of-error 1 --cost-of-referral 1.0000000001", "floor --prove 1.0000000001"),
        *("monitor s.json in.csv --alpha 0.5000000001", "monitor s.json in.csv --tolerance-odds 0.9999999999"),
    ],
)
def test_an_option_that_is_right_when_it_is_rounded_is_shown_in_full(words: str) -> None:
    status, _, err = run(*words.split())
    assert (status, words.split()[-1] in err) == (2, True), err


def test_a_sum_of_classes_is_shown_with_the_digits_that_are_wrong() -> None:
    """The sums may differ from 1 by 0.001."""
    table("in.csv", p_a=[0.5] * 40, p_b=[0.5] * 39 + [0.50100001], target=["a", "b"] * 20)
    assert "got 1.00100001;" in refused("report", "in.csv")


def test_every_share_may_be_a_percentage():
    shares = [
        (command, param)
        for command in main.commands.values()
        for param in command.params
        if isinstance(param.type, Checked) and isinstance(param.type.base, Fraction)
    ]
    assert {param.name for _, param in shares} >= {"level", "tolerance", "max_risk", "confidence", "alpha", "prove"}
    for command, param in shares:
        context = click.Context(command)
        percent, fraction = ("95 %", "0.95") if param.name in ("level", "confidence") else ("2.5%", "0.025")
        assert param.type.convert(percent, param, context) == param.type.convert(fraction, param, context)
    assert [share_in("5%"), share_in("0.1%")] == [0.05, 0.001]  # the doubles nearest to them
    assert (
        not [  # a share of an option that is a plain number would refuse the sign
            (command.name, param.name)
            for command in main.commands.values()
            for param in command.params
            if param.name in ("level", "confidence", "alpha", "prove", "tolerance", "max_risk", "yes_risk", "no_risk")
            and not isinstance(getattr(param.type, "base", None), Fraction)
        ]
    )
