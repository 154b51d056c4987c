"""Options from a file: where it is found, what may stand in it, and that the command line wins."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.in_process import fail, json_of, run, succeed
from tests.samples import draw

ROOT = Path(__file__).parents[2]
REPORT = ("report", "games.csv", "--score", "win", "--outcome", "won")
COMPARE = ("compare", "games.csv", "--scores", "win,late", "--outcome", "won")


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory inside a folder that belongs to nobody's home and to no repository."""
    place = tmp_path / "a" / "b"
    place.mkdir(parents=True)
    monkeypatch.chdir(place)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    score, outcome = draw(1, 200, decimals=3)
    lines = [f"{s},{s**2:.4f},{o},{i % 2}" for i, (s, o) in enumerate(zip(score, outcome, strict=True))]
    Path("games.csv").write_text("\n".join(["win,late,won,home", *lines]) + "\n")


def write(name: str, text: str) -> Path:
    Path(name).write_text(text, encoding="utf-8")
    return Path(name)


def refused(*args: object) -> str:
    """Run the command on a wrong file of options, returning its message."""
    status, out, err = run(*(args or REPORT))
    assert (status, out) == (2, "")
    return err.rpartition("Error: ")[2].rstrip("\n")


# ---------------------------------------------------------------- what the options do


def test_options_of_a_file_are_as_if_typed() -> None:
    typed = json_of(
        *REPORT, "--n-bins", 7, "--level", 0.9, "--n-resamples", 0, "--measures", "ece,ks", "--no-classwise"
    )
    write(
        "calibrant.toml",
        'level = 0.9\nn-bins = 7\n[report]\nn_resamples = 0\nmeasures = ["ece", "ks"]\nclasswise = false\n'
        "[compare]\nlevel = 0.8\n",
    )
    found = json_of(*REPORT)
    source = found["source"].pop("config")
    assert found == typed
    assert source["path"] == "calibrant.toml"
    assert set(source["options"]) == {"level", "n-bins", "n-resamples", "measures", "classwise"}
    compared = json_of(*COMPARE)
    assert (compared["level"], compared["n_bins"]) == (0.8, 7)
    assert json_of("floor", "--n", 50)["n_bins"] == 15  # its options mean something else


def test_a_list_of_texts_is_a_repeated_or_a_comma_separated_option() -> None:
    write(
        "calibrant.toml",
        '[report]\nfail-if = ["ece > 0.9", "n > 100"]\ncluster = "home"\nlabels = ["0", "1"]\n'
        '[compare]\nscores = ["win", "late"]\noutcome = "won"\ncluster = ["home"]\n',
    )
    err = fail(*REPORT, "--n-resamples", 0, status=3)
    assert "--fail-if 'n > 100' holds" in err
    assert "--fail-if 'ece > 0.9'" not in err
    assert json_of("compare", "games.csv")["models"].keys() == {"win", "late"}
    assert json_of(*REPORT, "--fail-if", "n > 1000", "--n-resamples", 0)["clusters"]["clusters"] == 2


def test_the_command_line_wins() -> None:
    write("calibrant.toml", 'level = 0.9\nbins = 7\n[report]\nfail-if = "n > 100"\nclasswise = true\n')
    found = json_of(*REPORT, "--level", 0.8, "--n-bins", 5, "--fail-if", "n > 1000", "--no-classwise")
    assert (found["level"], found["n_bins"]) == (0.8, 5)
    assert "config" not in found["source"]
    assert json_of(*REPORT, "--no-config")["level"] == 0.95


def test_every_output_names_the_file_and_its_options() -> None:
    write("calibrant.toml", "level = 0.9\nn-resamples = 0\n")
    out, _ = succeed(*REPORT, "--html", "a.html", "--markdown", "a.md")
    said = "options from calibrant.toml: level, n-resamples"
    assert f"probs: win, targets: won; {said}\n" in out
    assert said.removeprefix("options ") in Path("a.html").read_text(encoding="utf-8")
    assert f"- options: {said.removeprefix('options ')}\n" in Path("a.md").read_text(encoding="utf-8")
    assert "options from calibrant.toml: level" in run(*COMPARE)[1]
    assert "options from" not in run(*COMPARE, "--level", 0.9)[1]
    write("calibrant.toml", 'tolerance = 0.02\n[monitor]\nscore = "win"\noutcome = "won"\n')
    out = run("monitor", "state.json", "games.csv", "--html", "m.html")[1]
    assert "\noptions from calibrant.toml: score, outcome, tolerance\n" in out
    assert "from calibrant.toml: score, outcome, tolerance" in Path("m.html").read_text(encoding="utf-8")
    assert json_of("monitor", "state.json", "--no-config")["source"] == {"event": "won = 1"}
    shown = json_of("monitor", "state.json")["source"]["config"]
    assert shown == {"path": "calibrant.toml", "options": ["score", "outcome", "tolerance"]}


def test_an_error_names_the_file_that_an_option_came_from() -> None:
    write("calibrant.toml", 'n-resamples = 0\n[report]\nprobs = "p_*"\ntitle = "Games"\n')
    assert refused() == (
        "--score is for one event, and --probs is for many classes; pass only one of the two options "
        "(--probs comes from calibrant.toml; "
        "--no-config leaves it out)"
    )
    write("calibrant.toml", '[report]\nlevel = 3\nfail-if = "ece >"\n')
    assert refused().endswith("(--level, --fail-if come from calibrant.toml; --no-config leaves them out)")
    write("calibrant.toml", "[report]\nlevel = 3\nn-bins = 5\n")
    hint = "3; pass a share from 0.5 to below 1, such as 0.95 or 95%"
    assert refused() == (
        f"Invalid value for --level: {hint} (--level comes from calibrant.toml; --no-config leaves it out)"
    )
    assert refused(*REPORT, "--level", 4).endswith("such as 0.95 or 95%")
    write("calibrant.toml", "[report]\ntolerance = 0.02\n")
    assert "comes from" not in refused(*REPORT, "--tolerance-of", "eec")
    write("calibrant.toml", 'where = "nothing = 1"\n')
    err = fail(*REPORT)
    assert err.endswith(" (options from calibrant.toml: where)\n")


def test_a_title_in_the_file_needs_no_page() -> None:
    write("calibrant.toml", 'title = "Games"\ndate = "November"\nn-resamples = 0\n')
    assert run(*REPORT)[0] == 0
    run(*REPORT, "--html", "a.html")
    assert "<h1>Games</h1>" in Path("a.html").read_text(encoding="utf-8")


# ---------------------------------------------------------------- where the file is


def test_the_nearest_file_is_used_up_to_the_root_of_the_repository(tmp_path: Path) -> None:
    write("../../calibrant.toml", "n-bins = 2\n")
    assert json_of(*COMPARE)["n_bins"] == 15  # neither a repository nor the user's folder
    (tmp_path / "a" / ".git").mkdir()
    assert json_of(*COMPARE)["n_bins"] == 15  # above the repository
    write("../pyproject.toml", "[tool.calibrant]\nn-bins = 3\n[tool.calibrant.report]\nn-bins = 4\n")
    found = json_of(*COMPARE)
    assert (found["n_bins"], found["source"]["config"]["path"]) == (3, str(tmp_path / "a" / "pyproject.toml"))
    assert json_of(*REPORT)["n_bins"] == 4
    write("../calibrant.toml", "n-bins = 5\n")
    assert json_of(*COMPARE)["n_bins"] == 5
    write("pyproject.toml", '[project]\nname = "calibrant"\n')  # without a table of options
    assert json_of(*COMPARE)["n_bins"] == 5
    write("pyproject.toml", "[tool]\ncalibrant.n-bins = 6\n")
    found = json_of(*COMPARE)
    assert (found["n_bins"], found["source"]["config"]["path"]) == (6, "pyproject.toml")
    write("calibrant.toml", "")
    assert json_of(*COMPARE)["n_bins"] == 15
    assert "options from" not in run(*COMPARE, "--html", "a.html")[1]
    assert "calibrant.toml" not in Path("a.html").read_text(encoding="utf-8")


def test_without_a_repository_the_search_ends_at_the_users_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "a"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "a"))
    write("../../calibrant.toml", "n-bins = 2\n")
    assert json_of(*COMPARE)["n_bins"] == 15
    write("../calibrant.toml", "n-bins = 3\n")
    assert json_of(*COMPARE)["n_bins"] == 3


def test_a_file_can_be_named() -> None:
    write("calibrant.toml", "n-bins = 2\n")
    write("other.toml", "n-bins = 3\n")
    Path("project").mkdir()
    write("project/pyproject.toml", "[tool.calibrant]\nn-bins = 4\n")
    assert json_of(*COMPARE, "--config", "other.toml")["n_bins"] == 3
    assert json_of(*COMPARE, "--config", "project/pyproject.toml")["n_bins"] == 4
    assert refused(*COMPARE, "--config", "no.toml") == ("no.toml: no such file; check the path, or pass --no-config")
    write("project/pyproject.toml", "[tool.other]\nn-bins = 4\n")
    assert refused(*COMPARE, "--config", "project/pyproject.toml") == (
        "project/pyproject.toml: has no table [tool.calibrant]; add the table, or name another file"
    )
    both = "--config names a file of options, but --no-config excludes it; pass only one of the two options"
    assert refused(*COMPARE, "--no-config", "--config", "other.toml") == both


def test_help_and_completion_need_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    write("calibrant.toml", "nonsense")
    assert run("report", "--help")[0] == 0
    status, out, _ = run("report", "--help-all")
    assert (status, "Options from a file:" in out, "--config PATH" in out) == (0, True, True)
    assert run("merge", "--help")[0] == 0
    monkeypatch.setenv("_CALIBRANT_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "calibrant report --not")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert run()[1] == "plain,--notion\n"


def test_a_removed_working_directory_has_no_file(tmp_path: Path) -> None:
    games = Path("games.csv").resolve()
    (tmp_path / "gone").mkdir()
    os.chdir(tmp_path / "gone")
    try:
        (tmp_path / "gone").rmdir()
        assert run("report", games, *REPORT[2:], "--n-resamples", 0)[0] == 0
    finally:
        os.chdir(games.parent)


# ---------------------------------------------------------------- what the file may hold


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n-bin = 5", "n-bin: expected the name of an option, got 'n-bin'; did you mean 'n-bins'?"),
        ("[report]\nlevle = 0.9", "report.levle: expected the name of an option, got 'levle'; did you mean 'level'?"),
        ("[compare]\nexact = true", "compare.exact: expected the name of an option, got 'exact'; "),
        ("[reprot]\nlevel = 0.9", "[reprot]: expected the name of a command, got another name; did you mean 'report'?"),
        (
            "[zzz]\nlevel = 0.9",
            "[zzz]: expected the name of a command, got another name; choose from 'report', 'compare'",
        ),
        ("[merge]\nkeep-going = true", "[merge]: expected the name of a command, got another name; "),
        (
            "n-bins = 5\nn_bins = 6",
            "n-bins: expected one value, got two, perhaps in two spellings of the option; remove one of them",
        ),
        (
            "n-bins = 5\nbins = 6",
            "n-bins: expected one value, got two, perhaps in two spellings of the option; remove one of them",
        ),
        ('n-bins = "5"', "n-bins: expected a whole number, got '5'; correct the file, or pass --no-config"),
        ("n-bins = 5.7", "n-bins: expected a whole number, got 5.7; correct the file, or pass --no-config"),
        ("n-bins = true", "n-bins: expected a whole number, got True; correct the file, or pass --no-config"),
        ('level = "0.9"', "level: expected a number, got '0.9'; correct the file, or pass --no-config"),
        ("exact = 1", "exact: expected true or false, got 1; correct the file, or pass --no-config"),
        ("score = 3", "score: expected a text in quotes, got 3; correct the file, or pass --no-config"),
        ('score = ["a"]', "score: expected a text in quotes, got ['a']; correct the file, or pass --no-config"),
        ("cluster = [1]", "cluster: expected a text in quotes, or an array of them, got [1]; correct the file"),
        (
            'labels = ["a,b", "c"]',
            "labels: expected a text in quotes, or an array of them in which none contains a comma, got ['a,b'",
        ),
        ("date = 2026-11-23", "date: expected a text in quotes, got datetime.date(2026, 11, 23); correct the file"),
        (
            "[report.level]\nx = 1",
            "report.level: expected a number, got {'x': 1}; correct the file, or pass --no-config",
        ),
        ("level = ", "expected TOML, got invalid TOML (Invalid value (at end of document)); correct the file, or pass"),
        ("level = 0.9\xff".encode("latin-1"), "expected TOML, got invalid TOML ('utf-8' codec can't decode byte 0xff"),
        ("x = " + "[" * 5000, "expected TOML, got invalid TOML ("),
        ("# " + "x" * 1_000_000, "has more than 1,000,000 bytes; check the path, or pass --no-config"),
    ],
)
def test_a_wrong_file_is_named_with_its_key(text: str | bytes, message: str) -> None:
    Path("calibrant.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    problem = refused()
    assert problem.startswith("calibrant.toml: ")
    assert message in problem
    assert run(*REPORT, "--no-config", "--n-resamples", 0)[0] == 0


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(
            (name, '"a"')
            for name in ("json", "html", "markdown", "png", "svg", "pdf", "sketch", "targets", "master", "config")
        ),
        ("engine", '"spark"'),
        ("open", "true"),
        ("no-config", "true"),
    ],
)
def test_a_file_names_no_file_and_no_host(key: str, value: str) -> None:
    for text, place in ((f"{key} = {value}", key), (f"[report]\n{key} = {value}", f"report.{key}")):
        write("calibrant.toml", text)
        problem = "this option is allowed only on the command line; remove it from the file"
        assert refused() == f"calibrant.toml: {place}: {problem}"
    assert set(os.listdir()) == {"calibrant.toml", "games.csv"}


@pytest.mark.parametrize(("option", "sql"), [("where", "home = 1"), ("by", "home"), ("cluster", "home")])
def test_spark_runs_no_sql_of_a_file(option: str, sql: str) -> None:
    write("calibrant.toml", f'n-resamples = 0\n[report]\n{option} = "{sql}"\n')
    problem = f"calibrant.toml: {option}: SQL for Spark is allowed only on the command line, because calibrant "
    problem += "cannot restrict what it does; type this option on the command line, or pass --no-config"
    assert refused(*REPORT, "--engine", "spark") == problem
    assert refused(*REPORT, "--engine=spark", "--master", "local") == problem
    assert run(*REPORT)[0] == 0
    typed = run(*REPORT, "--engine", "spark", f"--{option}", "home", "--level", 3)[2]
    assert "pass a share from 0.5" in typed


@pytest.mark.parametrize(("option", "sql"), [("score", "win + 0"), ("outcome", "won = 1")])
def test_spark_runs_no_expression_of_a_file(option: str, sql: str) -> None:
    write("calibrant.toml", f'[report]\n{option} = "{sql}"\n')
    problem = f"calibrant.toml: {option}: SQL for Spark is allowed only on the command line, because calibrant "
    problem += "cannot restrict what it does; type this option on the command line, or pass --no-config"
    assert refused("report", "games.csv", "--engine", "spark") == problem


def test_the_example_of_the_docs_works() -> None:
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    write("calibrant.toml", example)
    table = Path("games.csv").read_text().replace("win,late", "win_prob,other", 1)
    write("games.csv", table)
    status, out, err = run("report", "games.csv", "--n-resamples", 0)
    assert (status, "--fail-if 'n < 1000' holds" in err) == (3, True)
    assert "options from calibrant.toml: score, outcome, n-bins, level, tolerance, fail-if" in " ".join(out.split())
    write("games.csv", table.replace("win_prob,other", "old,new", 1))
    assert json_of("compare", "games.csv", "--outcome", "won")["models"].keys() == {"old", "new"}


def test_the_table_of_a_project_is_a_table() -> None:
    write("pyproject.toml", "[tool]\ncalibrant = 3\n")
    assert refused() == "pyproject.toml: tool.calibrant: expected a table, got 3; correct it"


def test_a_file_that_cannot_be_read_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    write("calibrant.toml", "level = 0.9\n")
    real = open

    def denied(path: Any, *args: Any, **options: Any) -> Any:
        if path == "calibrant.toml":
            raise PermissionError(13, "Permission denied")
        return real(path, *args, **options)

    monkeypatch.setattr("builtins.open", denied)
    assert refused() == "calibrant.toml: cannot be read (Permission denied); check the path, or pass --no-config"
