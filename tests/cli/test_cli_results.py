"""`calibrant compare --correct` and `--sparse`: files with results, and models that answered different questions."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import click
import numpy as np
import pytest

import calibrant
from calibrant.cli import main, options
from tests import in_process

pytest.importorskip("duckdb", reason="the report extra is not installed")

SOLVED = Path(__file__).resolve().parents[3] / "shared" / "cases" / "solved.csv"


run = partial(in_process.run, "compare", columns=300)
succeed = partial(in_process.succeed, "compare", columns=300)
fail = partial(in_process.fail, "compare", columns=300)


def found(tmp_path: Path, *args: str) -> dict:
    """The JSON of a comparison."""
    succeed(*args, "--json", str(tmp_path / "found.json"), "--quiet")
    return json.loads((tmp_path / "found.json").read_text("utf-8"))


def right(seed: int = 0, questions: int = 50, models: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    chance = np.linspace(0.4, 0.8, models) + rng.uniform(-0.2, 0.2, (questions, 1))
    return (rng.random((questions, models)) < chance).astype(int)


def write_long(path: Path, values: np.ndarray, kept: np.ndarray | None = None) -> str:
    lines = ["model,task,solved,source"]
    for model, question in np.ndindex(values.T.shape):
        if kept is None or kept[question, model]:
            lines.append(f"m{model},t{question},{values[question, model]},s{question // 5}")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def write_wide(path: Path, values: np.ndarray, kept: np.ndarray | None = None) -> str:
    lines = ["task," + ",".join(f"m{model}" for model in range(values.shape[1]))]
    for question, row in enumerate(values):
        cells = [str(each) if kept is None or kept[question, model] else "" for model, each in enumerate(row)]
        lines.append(f"t{question},{','.join(cells)}")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def write_files(folder: Path, values: np.ndarray) -> list[str]:
    paths = []
    for model, column in enumerate(values.T):
        path = folder / f"m{model}.csv"
        rows = np.random.default_rng(model).permutation(len(column))
        path.write_text("task,solved\n" + "".join(f"t{row},{column[row]}\n" for row in rows))
        paths.append(str(path))
    return paths


# ---------------------------------------------------------------- the forms of files


def test_all_forms_of_files_give_the_numbers_of_the_library(tmp_path):
    values = right()
    expected = calibrant.compare_results({f"m{k}": values[:, k] for k in range(3)}).to_dict()
    forms = (
        (write_long(tmp_path / "long.csv", values), "--by", "model", "--on", "task", "--correct", "solved"),
        (write_wide(tmp_path / "wide.csv", values), "--correct", "m*"),
        (str(tmp_path / "wide.csv"), "--correct", "m0,m1,m2"),
        (*write_files(tmp_path, values), "--on", "task", "--correct", "solved"),
    )
    for form in forms:
        numbers = found(tmp_path, *form)
        for key in ("n", "leaderboard", "pairs", "sorted_by", "attempts"):
            assert numbers[key] == expected[key], form


@pytest.mark.skipif(not SOLVED.exists(), reason="needs the shared cases")
def test_the_case_of_agents(tmp_path):
    numbers = found(tmp_path, str(SOLVED), "--correct", "agent*")
    rates = {each["name"]: each["estimates"]["accuracy"]["value"] for each in numbers["leaderboard"]}
    assert rates == pytest.approx({"agent0": 0.738, "agent1": 0.740, "agent2": 0.692, "agent3": 0.570})
    pairs = {(pair["first"], pair["second"]): pair["difference"] for pair in numbers["pairs"]}
    assert pairs["agent0", "agent3"]["p_value"] == pytest.approx(1.05e-10, rel=0.005)


def test_repeated_questions_are_attempts(tmp_path):
    values = right(1, 40, 2)
    path = tmp_path / "attempts.csv"
    write_long(path, values)
    again = [f"m1,t{question},{int(question % 3 == 0)},s{question // 5}\n" for question in range(40)]
    path.write_text(path.read_text() + "".join(again))
    numbers = found(tmp_path, str(path), "--by", "model", "--on", "task", "--correct", "solved")
    attempts = np.column_stack([values[:, 1], np.arange(40) % 3 == 0])
    expected = calibrant.compare_results({"m0": values[:, 0], "m1": attempts}).to_dict()
    assert numbers["attempts"] == [1, 2]
    assert numbers["pairs"] == expected["pairs"]


def test_clusters_are_those_of_the_questions(tmp_path):
    values = right(2)
    path = write_long(tmp_path / "long.csv", values)
    options = ("--by", "model", "--on", "task", "--correct", "solved", "--cluster", "source")
    expected = calibrant.compare_results({f"m{k}": values[:, k] for k in range(3)}, clusters=np.arange(50) // 5)
    assert found(tmp_path, path, *options)["pairs"] == expected.to_dict()["pairs"]
    broken = tmp_path / "broken.csv"
    broken.write_text(Path(path).read_text().replace("m1,t3,1,s0", "m1,t3,1,s9").replace("m1,t3,0,s0", "m1,t3,0,s9"))
    error = fail(str(broken), *options)
    assert "column 'source' contains" in error
    assert "another row of the same question contains" in error


def test_common_questions_are_compared_and_the_others_counted(tmp_path):
    values, kept = right(3), np.ones((50, 3), bool)
    kept[:10, 1] = False
    path = write_long(tmp_path / "long.csv", values, kept)
    text, _ = succeed(path, "--by", "model", "--on", "task", "--correct", "solved")
    assert "40 questions, 3 models" in text
    assert "rows left out, because not all models have them: 10 of m0, 10 of m2" in text


def test_words_are_named_by_labels(tmp_path):
    path = tmp_path / "words.csv"
    words = np.array(["fail", "pass"])[right(4, 30, 2)]
    write_long(path, words)
    options = (str(path), "--by", "model", "--on", "task", "--correct", "solved")
    error = fail(*options)
    assert "contains text" in error
    assert "--labels no,yes" in error
    numbers = found(tmp_path, *options, "--labels", "fail,pass")
    assert (
        numbers["pairs"] == found(tmp_path, write_long(tmp_path / "long.csv", right(4, 30, 2)), *options[1:])["pairs"]
    )


# ---------------------------------------------------------------- different questions


def test_sparse_results_in_all_forms(tmp_path):
    values = right(5)
    kept = np.random.default_rng(5).random(values.shape) < 0.6
    expected = calibrant.compare_results(
        {f"m{k}": np.where(kept[:, k], values[:, k], np.nan) for k in range(3)}, sparse=True
    ).to_dict()
    long = write_long(tmp_path / "long.csv", values, kept)
    wide = write_wide(tmp_path / "wide.csv", values, kept)
    for form in (
        (long, "--by", "model", "--on", "task", "--correct", "solved"),
        (wide, "--on", "task", "--correct", "m*"),
    ):
        numbers = found(tmp_path, *form, "--sparse")
        for key in ("leaderboard", "pairs", "models", "sparse"):
            assert numbers[key] == expected[key], form


def forecasts(path: Path, own: bool = False) -> tuple[str, dict[str, np.ndarray], np.ndarray]:
    """Forecasters without one question that all of them answered."""
    rng = np.random.default_rng(6)
    chance = rng.random(60)
    outcomes = (rng.random(60) < chance).astype(int)
    lines, probs = ["forecaster,question,p,outcome"], {}
    for k in range(5):
        values = np.clip(chance + rng.normal(0, 0.1 * (k + 1), 60), 0.01, 0.99).round(3)
        values[np.arange(60) % 5 == k] = np.nan
        probs[f"f{k}"] = values
        outcome = 1 - outcomes if own and k == 4 else outcomes
        lines += [f"f{k},q{q},{values[q]},{outcome[q]}" for q in range(60) if np.isfinite(values[q])]
    path.write_text("\n".join(lines) + "\n")
    return str(path), probs, outcomes


def test_forecasters_without_a_common_question(tmp_path):
    path, probs, outcomes = forecasts(tmp_path / "forecasts.csv")
    options = (path, "--by", "forecaster", "--on", "question", "--score", "p", "--outcome", "outcome")
    assert "pass --sparse to compare models that answered different questions" in fail(*options)
    numbers = found(tmp_path, *options, "--sparse")
    expected = calibrant.compare(probs, outcomes, sparse=True).to_dict()
    assert numbers["pairs"] == expected["pairs"]
    assert numbers["leaderboard"] == expected["leaderboard"]
    numbers = found(tmp_path, *options, "--sparse", "--sort-by", "nll")
    assert numbers["sorted_by"] == "nll"


def test_sparse_columns_of_scores(tmp_path):
    rng = np.random.default_rng(7)
    rows = [("q", "y", "a", "b")]
    for q in range(40):
        a, b = rng.random(2).round(3)
        rows.append((f"q{q}", str(q % 2), "" if q % 4 == 0 else str(a), "" if q % 4 == 1 else str(b)))
    path = tmp_path / "wide.csv"
    path.write_text("\n".join(map(",".join, rows)) + "\n")
    numbers = found(tmp_path, str(path), "--scores", "a,b", "--outcome", "y", "--on", "q", "--sparse")
    assert numbers["models"]["a"]["answered"] == 30
    assert numbers["pairs"][0]["difference"]["details"]["common"] == 20


def test_outcomes_of_a_question_must_agree_or_be_own_ones(tmp_path):
    path, *_ = forecasts(tmp_path / "own.csv", own=True)
    options = (path, "--by", "forecaster", "--on", "question", "--score", "p", "--outcome", "outcome", "--sparse")
    error = fail(*options, "--same-outcomes")
    assert "another row of the same question contains" in error
    assert "pass --own-outcomes" in error
    text, _ = succeed(*options, "--own-outcomes")
    assert "each model has its own outcomes" in text


def test_a_question_twice_is_an_error_for_forecasts(tmp_path):
    path, *_ = forecasts(tmp_path / "forecasts.csv")
    Path(path).write_text(Path(path).read_text() + "f0,q1,0.5,1\n")
    error = fail(path, "--by", "forecaster", "--on", "question", "--score", "p", "--outcome", "outcome", "--sparse")
    assert "2 rows of model 'f0' have" in error


# ---------------------------------------------------------------- logs


def write_log(path: Path, right_answers: np.ndarray) -> str:
    """A log of lm-evaluation-harness whose task has no log-likelihoods."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        {
            **{"doc_id": k, "doc": {"question": f"q{k}"}, "target": "1", "filter": "none", "metrics": ["exact_match"]},
            **{"arguments": {"gen_args_0": {"arg_0": "x", "arg_1": {}}}, "resps": [["1"]], "filtered_resps": ["1"]},
            **{"doc_hash": f"h{k}", "prompt_hash": f"p{k}", "target_hash": "t", "exact_match": int(value)},
        }
        for k, value in enumerate(right_answers)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_logs_without_probabilities_are_compared_by_results_and_say_so(tmp_path):
    values = right(8, 60, 2)
    name = "samples_gsm8k_2025-01-01T00-00-00.jsonl"
    paths = [write_log(tmp_path / f"m{k}" / name, values[:, k]) for k in range(2)]
    text, error = succeed(*paths)
    assert "60 questions, 2 models" in text
    assert "the logs contain no probabilities, so the models are compared by their results" in error
    expected = calibrant.compare_results({"m0": values[:, 0], "m1": values[:, 1]}).to_dict()
    assert found(tmp_path, *paths)["pairs"] == expected["pairs"]
    assert found(tmp_path, *paths, "--correct", "exact_match")["pairs"] == expected["pairs"]
    assert "holds no probabilities" in fail(*paths, "--tolerance", "0.01")


# ---------------------------------------------------------------- outputs and errors


def test_every_output_is_written(tmp_path):
    path = write_wide(tmp_path / "wide.csv", right(9))
    names = {kind: tmp_path / f"out.{kind}" for kind in ("html", "png", "svg", "pdf", "json")}
    options = [part for kind, name in names.items() for part in (f"--{kind}", str(name))]
    succeed(path, "--correct", "m*", *options, "--markdown", str(tmp_path / "out.md"))
    assert all(name.stat().st_size > 1000 for name in names.values())
    assert "Leaderboard by accuracy" in (tmp_path / "out.md").read_text("utf-8")


def test_the_gate_and_conditions(tmp_path):
    values = right(10, 200, 2)
    good = write_wide(tmp_path / "good.csv", values)
    assert run(good, "--correct", "m0,m1", "--gate")[0] == 0
    assert "--gate: m1 has a better accuracy than m0." in fail(good, "--correct", "m1,m0", "--gate", status=3)
    assert run(good, "--correct", "m0,m1", "--fail-if", "accuracy > 0.1")[0] == 3
    assert run(good, "--correct", "m0,m1", "--fail-if", "accuracy < 0")[0] == 0
    assert "brier has no value" in fail(good, "--correct", "m0,m1", "--fail-if", "brier > 0")


@pytest.mark.parametrize(
    ("args", "status", "message"),
    [
        (("--correct", "nope"), 1, "has no column 'nope' (--correct)"),
        (("--correct", "m0"), 2, "is the only file; name a second file"),
        (("--correct", "m*", "--score", "m0"), 2, "--score does not work with --correct"),
        (("--correct", "m*", "--weight", "m0"), 2, "--weight does not work with --correct"),
        (("--correct", "m*", "--tolerance", "0.1"), 2, "--tolerance does not work with --correct"),
        (("--correct", "m*", "--sort-by", "nll"), 2, "--sort-by does not work with --correct"),
        (("--correct", "m*", "--sparse"), 2, "--sparse matches rows by question; name the column of the question"),
        (("--by", "task", "--correct", "m0"), 2, "--correct compares models by question; name the column"),
    ],
)
def test_what_does_not_go_together(tmp_path, args, status, message):
    path = write_wide(tmp_path / "wide.csv", right(11))
    found_status, _, error = run(path, *args)
    assert found_status == status
    assert message in error


@pytest.mark.parametrize("mode", ["--correct", "--sparse"])
def test_no_option_is_ignored(tmp_path, mode):
    """Every option of the command is used with results or sparse questions, or refused by its name."""
    path = tmp_path / "long.csv"
    write_long(path, right(14))
    path.write_text(path.read_text().replace("solved", "score"))
    given = [str(path), "--by", "model", "--on", "task"]
    given += ["--correct", "score"] if mode == "--correct" else ["--sparse", "--score", "score", "--outcome", "score"]
    used = options._OF_RESULTS if mode == "--correct" else options._OF_SPARSE
    for param in main.commands["compare"].params:
        if not isinstance(param, click.Option) or param.is_eager or param.name in used or param.hidden:
            continue
        option = max(param.opts, key=len)
        values = [] if param.is_flag or param.count else [VALUES.get(str(param.name), "2")]
        status, out, error = run(*given, option, *values)
        assert (status, out) == (2, ""), (option, error)
        assert f"{option} does not work with {mode}" in error or option in error, error


VALUES = {
    "tolerance": "0.1",
    "notion": "positive",
    "baseline": "long.csv",
    "odds": "decimal",
    "weights_are": "sampling",
}


def test_a_result_outside_0_to_1_names_its_row(tmp_path):
    path = write_wide(tmp_path / "wide.csv", right(12) * 5)
    error = fail(path, "--correct", "m*")
    assert "expected a result from 0 to 1, got 5; divide the results by their largest possible value" in error


def test_arrays_have_no_columns(tmp_path):
    np.savez(tmp_path / "a.npz", probs=[0.5], targets=[1])
    assert "call calibrant.compare_results in Python" in fail(str(tmp_path / "a.npz"), "--correct", "right")


def test_lengths_without_keys_must_agree(tmp_path):
    values = right(13)
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    one, other = write_files(tmp_path / "one", values)[0], write_files(tmp_path / "other", values[:40])[1]
    error = fail(one, other, "--correct", "solved")
    assert "has 40 rows, but" in error
    assert "--on id" in error
