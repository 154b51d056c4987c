"""`calibrant compare` of one file with a column that names the model, of models' own outcomes, and of logs."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from tests import in_process

pa = pytest.importorskip("pyarrow", reason="the report extra is not installed")
pytest.importorskip("duckdb", reason="the report extra is not installed")
import pyarrow.csv as pc  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

N = 400
RNG = np.random.default_rng(5)
Q = RNG.random(N)
Y = (RNG.random(N) < Q).astype(int)
NAMES = ("gpt", "claude", "llama")
SCORES = {name: Q ** (0.7 + 0.4 * k) for k, name in enumerate(NAMES)}
RIGHT = {name: (RNG.random(N) < p).astype(int) for name, p in SCORES.items()}
IDS = np.array([f"q{k}" for k in RNG.permutation(N)])
TOPICS = np.arange(N) // 8

pytestmark = pytest.mark.usefixtures("in_folder")


def long(outcomes: dict[str, Any] | None = None, ids: Any = IDS, names: tuple[str, ...] = NAMES) -> dict[str, Any]:
    """Return the rows of all models below each other, each model's in an order of its own."""
    orders = {name: np.random.default_rng(k).permutation(N) if k else np.arange(N) for k, name in enumerate(names)}
    return {
        "model": np.repeat(names, N),
        "id": np.concatenate([ids[orders[name]] for name in names]),
        "confidence": np.concatenate([SCORES[name][orders[name]] for name in names]),
        "correct": np.concatenate([(outcomes or dict.fromkeys(names, Y))[name][orders[name]] for name in names]),
        "topic": np.concatenate([TOPICS[orders[name]] for name in names]),
    }


def write(name: str, columns: dict[str, Any], rows: Any = slice(None)) -> None:
    table = pa.table({key: np.asarray(column)[rows] for key, column in columns.items()})
    if name.endswith(".jsonl"):
        Path(name).write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist()), encoding="utf-8")
    else:
        pc.write_csv(table, name) if name.endswith(".csv") else pq.write_table(table, name)


run = partial(in_process.run, "compare")
succeed = partial(in_process.succeed, "compare")
fail = partial(in_process.fail, "compare")


def compared(*arguments: object) -> dict[str, Any]:
    status, out, err = run(*arguments, "--json", "-")
    hint = "" if "--on" in arguments or "--cluster" in arguments or "--by" not in arguments else HINT
    assert (status, err) == (0, hint), err
    found: dict[str, Any] = json.loads(out)
    return found


def without_source(summary: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in summary.items() if name != "source"}


#: Where the rows of a file are not paired.
HINT = "calibrant: 'id' may identify the same item in all models; to pair the models' rows, pass --on id\n"
LONG = ("--by", "model", "--score", "confidence", "--outcome", "correct")


# ---------------------------------------------------------------- one file


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_a_long_file_equals_the_same_models_as_columns(kind: str) -> None:
    write(f"long.{kind}", long())
    write("wide.parquet", {**SCORES, "correct": Y, "topic": TOPICS})
    wide = compared("wide.parquet", "--scores", ",".join(NAMES), "--outcome", "correct")
    found = compared(f"long.{kind}", *LONG, "--on", "id")
    assert without_source(found) == without_source(wide) == calibrant.compare(SCORES, Y).to_dict()
    clusters = compared(f"long.{kind}", *LONG, "--on", "id", "--cluster", "topic", "--sort-by", "accuracy")
    assert without_source(clusters) == calibrant.compare(SCORES, Y, clusters=TOPICS, sort_by="accuracy").to_dict()


def test_outcomes_that_differ_are_the_models_own() -> None:
    write("long.parquet", long(RIGHT))
    theirs = calibrant.compare({name: (SCORES[name], RIGHT[name]) for name in NAMES}).to_dict()
    assert without_source(compared("long.parquet", *LONG, "--on", "id")) == theirs
    assert without_source(compared("long.parquet", *LONG, "--on", "id", "--own-outcomes")) == theirs
    out, _ = succeed("long.parquet", *LONG, "--on", "id")
    differing = int(np.sum(np.any([RIGHT[name] != RIGHT["gpt"] for name in NAMES], axis=0)))
    assert f"each model has its own outcomes: they differ in {differing} rows" in " ".join(out.split())
    err = fail("long.parquet", *LONG, "--on", "id", "--same-outcomes")
    assert re.search(r"row \d+, column 'correct' contains [01], but row \d+ contains [01]; correct the outcome", err)
    assert "pass --own-outcomes" in err


def test_outcomes_that_differ_in_few_rows_are_a_question() -> None:
    few = {name: np.where(np.arange(N) < 7, 1 - Y, Y) if name == "llama" else Y for name in NAMES}
    columns = long(few)
    write("long.csv", {**columns, "y": columns["correct"]})
    options = ("--by", "model", "--score", "confidence", "--outcome", "y", "--on", "id")
    err = fail("long.csv", *options)
    assert (
        "column 'y' differs between the models in 7 of 400 rows; pass --own-outcomes if each model has its own" in err
    )
    own = compared("long.csv", *options, "--own-outcomes")
    assert without_source(own) == without_source(compared("long.csv", *LONG, "--on", "id"))  # the column 'correct'
    assert run("long.csv", *options, "--same-outcomes")[0] == 1


def test_true_classes_that_differ_are_an_error() -> None:
    rows = {"model": np.repeat(["a", "b"], 50), "q": np.tile(np.arange(50), 2), "p_0": 0.2, "p_1": 0.3, "p_2": 0.5}
    target = np.tile(np.arange(50) % 3, 2)
    target[77] = (target[77] + 1) % 3
    write("classes.csv", {name: np.broadcast_to(value, 100) for name, value in rows.items()} | {"target": target})
    err = fail("classes.csv", "--by", "model", "--on", "q", "--probs", "p_*", "--target", "target")
    assert "row 78, column 'target' contains" in err


@pytest.mark.parametrize("keyed", [True, False])
def test_the_first_model_of_the_file_is_the_reference(keyed: bool) -> None:
    write("long.csv", long())
    options = ("--on", "id") if keyed else ("--cluster", "topic")
    found = compared("long.csv", *LONG, *options)
    assert list(found["models"]) == list(NAMES)
    assert {pair["first"] for pair in found["pairs"][:2]} == {"gpt"}


def test_outcomes_that_are_alike_may_be_the_models_own_too() -> None:
    write("long.parquet", long())
    found = compared("long.parquet", *LONG, "--on", "id", "--own-outcomes")
    assert without_source(found) == calibrant.compare({name: (SCORES[name], Y) for name in NAMES}).to_dict()


def test_models_are_compared_on_the_rows_that_all_have() -> None:
    columns = long(RIGHT)
    lacking = (columns["model"] == "claude") & np.isin(columns["id"], IDS[:3])
    lacking |= (columns["model"] == "llama") & (columns["id"] == IDS[7])
    write("long.csv", columns, ~lacking)
    kept = np.setdiff1d(np.arange(N), [0, 1, 2, 7])
    found = compared("long.csv", *LONG, "--on", "id")
    theirs = calibrant.compare({name: (SCORES[name][kept], RIGHT[name][kept]) for name in NAMES})
    assert without_source(found) == theirs.to_dict()
    assert found["source"]["left_out"] == {"gpt": 4, "claude": 1, "llama": 3}
    _, out, _ = run("long.csv", *LONG, "--on", "id")
    said = "rows left out, because not all models have them: 4 of gpt, 1 of claude, 3 of llama"
    assert said in " ".join(out.split())


def test_without_keys_the_models_are_sketches() -> None:
    write("long.parquet", long(RIGHT))
    found = compared("long.parquet", *LONG, "--own-outcomes")
    sketches = {}
    for name in NAMES:
        rows = long(RIGHT)["model"] == name
        sketches[name] = calibrant.CalibrationSketch()
        sketches[name].update(long(RIGHT)["confidence"][rows], long(RIGHT)["correct"][rows])
    theirs = calibrant.compare(sketches, own_outcomes=True).to_dict()
    assert [each["name"] for each in found["leaderboard"]] == [each["name"] for each in theirs["leaderboard"]]
    for one, other in zip(found["leaderboard"], theirs["leaderboard"], strict=True):
        assert one["difference"]["value"] == pytest.approx(other["difference"]["value"], rel=1e-9)
        assert one["difference"]["high"] == pytest.approx(other["difference"]["high"], rel=1e-9)
        assert one["estimates"]["accuracy"]["value"] == pytest.approx(RIGHT[one["name"]].mean())
    _, out, _ = run("long.parquet", *LONG)
    assert "rows: not paired, because no column of questions was named with --on" in " ".join(out.split())
    clusters = compared("long.parquet", *LONG, "--cluster", "topic")
    assert clusters["paired"]
    narrow, wide = (each["leaderboard"][-1]["difference"] for each in (clusters, found))
    assert narrow["high"] - narrow["low"] < wide["high"] - wide["low"]
    assert compared("long.parquet", *LONG, "--independent")["independent"]


def test_models_are_named_by_numbers_and_by_several_columns() -> None:
    columns = long()
    numbers = np.repeat([3, 1, 2], N)
    write("long.parquet", {**columns, "model": numbers, "prompt": np.repeat(["a", "b", "a"], N)})
    assert compared("long.parquet", *LONG, "--on", "id")["models"].keys() == {"3", "1", "2"}
    both = compared("long.parquet", *LONG, "--by", "prompt", "--on", "id")
    assert list(both["models"]) == ["3 · a", "1 · b", "2 · a"]


@pytest.mark.slow
def test_many_rows_and_models_are_streamed() -> None:
    names = np.array([f"m{k:03}" for k in range(200)])
    rng = np.random.default_rng(1)
    p = rng.random(20_000)
    write("many.parquet", {"model": names[rng.integers(0, 200, len(p))], "score": p, "outcome": rng.random(len(p)) < p})
    status, out, err = run("many.parquet", "--by", "model", "--json", "-")
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert len(found["leaderboard"]) == 200
    assert found["leaderboard"][0]["difference"]["value"] == 0


# ---------------------------------------------------------------- files of their own


def test_files_of_models_with_their_own_outcomes() -> None:
    for k, name in enumerate(NAMES):
        order = np.random.default_rng(k).permutation(N)
        columns = {"id": IDS, "confidence": SCORES[name], "correct": RIGHT[name]}
        write(f"{name}.jsonl", columns, order if k else slice(None))
    files = [f"{name}.jsonl" for name in NAMES]
    theirs = calibrant.compare({name: (SCORES[name], RIGHT[name]) for name in NAMES}).to_dict()
    assert without_source(compared(*files, "--on", "id", "--own-outcomes")) == theirs
    err = fail(*files, "--on", "id")
    assert "correct the outcome in one of the two files; if each model has its own outcomes" in err


def choices(name: str, right: Any, chosen: Any, questions: Any) -> None:
    """Write a log of questions whose right choice is not known, but whether the answer is right."""
    rows = [
        {
            "question_id": str(q),
            "choices": ["x", "y"],
            "logprobs": [float(np.log(p)), float(np.log1p(-p))],
            "target": int(t),
        }
        for q, p, t in zip(questions, chosen, right, strict=True)
    ]
    Path(name).write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def test_logs_of_one_task_are_matched_by_their_questions() -> None:
    orders = {name: np.random.default_rng(k).permutation(N) for k, name in enumerate(NAMES)}
    for name in NAMES:
        order = orders[name]
        choices(f"{name}.jsonl", Y[order], np.clip(SCORES[name], 0.01, 0.99)[order], IDS[order])
    files = [f"{name}.jsonl" for name in NAMES]
    found = compared(*files)
    first = orders["gpt"]
    probs = {name: np.clip(SCORES[name], 0.01, 0.99)[first] for name in NAMES}
    theirs = calibrant.compare({name: np.stack([p, 1 - p], axis=1) for name, p in probs.items()}, Y[first])
    assert [each["name"] for each in found["leaderboard"]] == [each.name for each in theirs.leaderboard]
    for one, other in zip(found["leaderboard"], theirs.leaderboard, strict=True):
        assert one["difference"]["value"] == pytest.approx(other.difference.value, rel=1e-9)
    own = compared(*files, "--score", "chosen_probability", "--outcome", "correct")
    assert own["own_outcomes"]
    right = {name: ((p > 0.5) == (Y[first] == 0)) for name, p in probs.items()}
    for each in own["leaderboard"]:
        assert each["estimates"]["accuracy"]["value"] == pytest.approx(right[each["name"]].mean())


def test_logs_without_a_common_question_must_have_the_same_outcomes() -> None:
    choices("a.jsonl", Y, np.clip(Q, 0.01, 0.99), IDS)
    choices("b.jsonl", Y, np.clip(Q, 0.01, 0.99) ** 2, [f"other{k}" for k in range(N)])
    assert compared("a.jsonl", "b.jsonl")["n"] == N  # by position
    choices("b.jsonl", 1 - Y, np.clip(Q, 0.01, 0.99) ** 2, [f"other{k}" for k in range(N)])
    status, _, err = run("a.jsonl", "b.jsonl", "--score", "chosen_probability", "--outcome", "correct")
    assert (status, "contains" in err) == (1, True)


# ---------------------------------------------------------------- what cannot be compared


def spelled(columns: dict[str, Any], model: str, old: Any, new: Any) -> dict[str, Any]:
    ids = columns["id"].astype(object)
    ids[(columns["model"] == model) & (ids == old)] = new
    return {**columns, "id": ids.astype(str)}


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        (
            spelled(long(ids=np.arange(N).astype(str)), "claude", "7", "7.0"),
            ("--on", "id"),
            "of model 'claude', column 'id': '7.0' may be the same key as '7' in row 8 of model 'gpt'; "
            "write the values of the --on column in the same form",
        ),
        (
            spelled(long(), "gpt", IDS[5], IDS[4]),
            ("--on", "id"),
            f"row 5: 2 rows of model 'gpt' have '{IDS[4]}' in column 'id'; name more columns that together",
        ),
        (
            {**long(), "id": np.arange(3 * N)},
            ("--on", "id"),
            "column 'id' has no value that model 'gpt' and model 'claude' have in common (such as 0 and 400)",
        ),
        (
            {**long(), "model": np.repeat(["gpt"], 3 * N)},
            ("--on", "id"),
            "column 'model' names one model; name the column of models with --by, or use calibrant report",
        ),
        (
            {**long(), "model": np.repeat(["gpt"], 3 * N)},
            (),
            "column 'model' names one model; name the column of models with --by, or use calibrant report",
        ),
        (
            {**long(), "model": np.arange(3 * N)},
            ("--on", "id"),
            "column 'model' names 1,200 models, but at most 200 are compared",
        ),
        ({**long(), "model": np.arange(3 * N)}, (), "column 'model' has more than 499 groups"),
        ({**long(), "model": np.arange(3 * N) % 300}, (), "names 300 models, but at most 200 are compared"),
        (long(), ("--on", "idd"), "has no column 'idd' (--on); did you mean 'id'?"),
        (
            {**long(), "confidence": np.where(np.arange(3 * N) == 700, 2.0, long()["confidence"])},
            ("--on", "id"),
            "row 701, column 'confidence': expected values in [0, 1]",
        ),
        (
            {**long(), "confidence": np.where(np.arange(3 * N) == 700, 2.0, long()["confidence"])},
            (),
            "row 701, column 'confidence': expected values in [0, 1]",
        ),
    ],
)
def test_bad_rows_are_named(columns: dict[str, Any], options: tuple[str, ...], said: str) -> None:
    write("long.parquet", columns)
    status, out, err = run("long.parquet", *LONG, *options)
    assert (status, out) == (1, "")
    assert said in err, err


def test_large_integers_of_several_types_are_not_paired() -> None:
    write("a.parquet", {"id": np.arange(N, dtype=np.uint64) * 4 + 2**53, "p": Q, "y": Y})
    write("b.parquet", {"id": np.arange(N, dtype=np.int64) * 4 + 2**53 + 1, "p": Q**2, "y": Y})
    err = fail("a.parquet", "b.parquet", "--score", "p", "--outcome", "y", "--on", "id")
    assert "the values of the --on column are numbers above 2^53 of several types; write these values as text" in err


def test_keys_of_other_types_in_files_of_their_own() -> None:
    write("a.parquet", {"id": np.arange(N), "p": Q, "y": Y})
    write("b.parquet", {"id": np.arange(N).astype(str), "p": Q**2, "y": Y})
    write("c.parquet", {"id": np.arange(N).astype(float), "p": Q**2, "y": Y})
    options = ("--score", "p", "--outcome", "y", "--on", "id")
    err = fail("a.parquet", "b.parquet", *options)
    assert (
        "b.parquet: column 'id' contains text, but a.parquet contains numbers; write the values of the "
        "--on column in the same form" in err
    )
    assert compared("a.parquet", "c.parquet", *options)["n"] == N


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("long.csv",), "long.csv is the only file; name a second file, or the columns of the models"),
        (("long.csv", "--scores", "a,b", "--own-outcomes"), "leave --own-outcomes out"),
        (("long.csv", *LONG, "--on", "id", "--paired"), "--paired does not work with --on, which pairs the rows"),
        (("long.csv", *LONG, "--paired"), "--paired needs the clusters that pair the models; pass --cluster too"),
        (("long.csv", *LONG, "--same-outcomes"), "--same-outcomes needs rows that are paired; pass --on too"),
    ],
)
def test_wrong_use(options: tuple[str, ...], said: str) -> None:
    write("long.csv", long())
    assert said in fail(*options, status=2)


def test_an_unknown_measure_to_sort_by() -> None:
    write("long.csv", long())
    status, _, err = run("long.csv", *LONG, "--on", "id", "--sort-by", "breir")
    assert status != 0
    assert "did you mean 'brier'?" in err


def test_a_report_by_model_says_that_models_are_pooled() -> None:
    write("long.csv", long(RIGHT))
    _, out, _ = in_process.run("report", "long.csv", *LONG, "--n-resamples", "0", "--html", "page.html")
    proposed = "calibrant compare long.csv --by model --score confidence --outcome correct"
    first = " ".join(out.split("\n\n")[1].split())
    assert first.startswith(f"The models in 'model' are pooled. To compare the models, use: {proposed} ")
    assert proposed in Path("page.html").read_text(encoding="utf-8")
    status, out, _ = run(*proposed.split()[2:])
    assert (status, "Leaderboard by Brier score" in out) == (0, True)
    assert "pooled" not in in_process.run("report", "long.csv", "--by", "topic", *LONG[2:])[1]
