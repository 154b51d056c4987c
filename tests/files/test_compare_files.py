"""`calibrant compare` of models in files of their own, with a baseline, in groups, and with conditions."""

from __future__ import annotations

import base64
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant import CalibrationSketch
from calibrant.errors import InputError
from calibrant.files import reading
from calibrant.files.matching import model_names
from calibrant.statistics.group_tests import holm
from tests import in_process
from tests.samples import sketch_of

pa = pytest.importorskip("pyarrow", reason="the report extra is not installed")
pytest.importorskip("duckdb", reason="the report extra is not installed")
import pyarrow.csv as pc  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

N = 600
RNG = np.random.default_rng(3)
P = RNG.random(N)
Y = (RNG.random(N) < P).astype(int)
Q = P**1.7
IDS = np.array([f"g{k}" for k in RNG.permutation(N)])
SITES = np.array(["a", "b"])[RNG.integers(0, 2, N)]
OLD: dict[str, Any] = {"id": IDS, "score": P, "outcome": Y, "site": SITES, "w": RNG.integers(1, 4, N)}
NEW = {**OLD, "score": Q}
SHUFFLED = RNG.permutation(N)

pytestmark = pytest.mark.usefixtures("in_folder")


def write(name: str, columns: dict[str, Any], rows: Any = slice(None)) -> None:
    if name.endswith(".npz"):
        np.savez(name, **{key: np.asarray(column)[rows] for key, column in columns.items()})
        return
    table = pa.table({key: np.asarray(column)[rows] for key, column in columns.items()})
    pc.write_csv(table, name) if name.endswith(".csv") else pq.write_table(table, name)


run = partial(in_process.run, "compare")
succeed = partial(in_process.succeed, "compare")
fail = partial(in_process.fail, "compare")


def report(*arguments: object) -> tuple[str, str]:
    status, out, err = in_process.run("report", *arguments, "--n-resamples", "0")
    assert status == 0, err
    return out, err


def compared(*arguments: object) -> dict[str, Any]:
    status, out, err = run(*arguments, "--json", "-")
    assert (status, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


def expected(**options: Any) -> dict[str, Any]:
    return calibrant.compare({"old": P, "new": Q}, Y, **options).to_dict()


def without_source(summary: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in summary.items() if name != "source"}


# ---------------------------------------------------------------- rows that belong together


@pytest.mark.parametrize("kind", ["npz", "csv", "parquet"])
def test_two_files_are_two_models(kind: str) -> None:
    write(f"old.{kind}", OLD)
    write(f"new.{kind}", NEW)
    found = compared(f"old.{kind}", f"new.{kind}")
    assert without_source(found) == expected()
    assert found["source"]["files"] == [f"old.{kind}", f"new.{kind}"]
    assert compared(f"new.{kind}", "--baseline", f"old.{kind}") == found
    weighted = compared(f"old.{kind}", f"new.{kind}", "--weight", "w", "--cluster", "site", "--n-bins", 7)
    assert without_source(weighted) == expected(weights=OLD["w"], clusters=SITES, n_bins=7)


def test_rows_are_matched_by_a_key_in_any_order_and_kind() -> None:
    write("old.csv", OLD)
    write("new.parquet", NEW, SHUFFLED)
    found = compared("old.csv", "new.parquet", "--on", "id", "--by", "site")
    assert without_source(found) == expected(groups=SITES)
    out, _ = succeed("old.csv", "new.parquet", "--on", "id")
    assert "models: score in old.csv, score in new.parquet, targets: outcome, keys: id" in out


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("rows", [SHUFFLED, SHUFFLED[:400]])
def test_the_column_that_matches_rows_is_proposed(kind: str, rows: Any) -> None:
    columns = {"row": np.arange(N), "score": P, "game": IDS, "outcome": Y, "site": SITES}
    write(f"old.{kind}", columns)
    write(f"new.{kind}", {**columns, "score": Q}, rows)
    if len(rows) == N:
        write(f"new.{kind}", {**{name: each[rows] for name, each in columns.items()}, "row": np.arange(N)})
    err = fail(f"old.{kind}", f"new.{kind}")
    proposed = re.search(r"name the column that identifies each row, such as --on (\w+)", err)
    assert proposed is not None
    status, _, err = run(f"old.{kind}", f"new.{kind}", "--on", proposed[1])
    assert (status, err) == (0, "")


def test_without_a_column_that_matches_rows_none_is_proposed() -> None:
    write("old.csv", {"score": P, "outcome": Y, "site": SITES})
    write("new.csv", {"score": Q, "outcome": 1 - Y, "site": SITES})
    _, _, err = run("old.csv", "new.csv")
    assert "name the column that identifies each row with --on;" in err


def test_a_file_is_one_model() -> None:
    write("old.csv", OLD)
    for options in ((), ("--on", "id")):
        assert "'old.csv' is named as two models; name each file once" in fail("old.csv", "old.csv", *options, status=2)


def test_rows_are_matched_by_several_keys() -> None:
    halves = {"patient": np.arange(N) // 2, "visit": np.arange(N) % 2}
    write("old.parquet", {**OLD, **halves})
    write("new.npz", {**NEW, **halves}, SHUFFLED)
    assert without_source(compared("old.parquet", "new.npz", "--on", "patient", "--on", "visit")) == expected()


def test_arrays_share_a_file_of_targets() -> None:
    np.save("old.npy", P)
    np.save("new.npy", Q)
    np.save("y.npy", Y)
    assert without_source(compared("old.npy", "new.npy", "--targets", "y.npy")) == expected()


def test_a_pattern_in_quotes_is_one_model_and_one_pattern_alone_many() -> None:
    for model, columns in (("old", OLD), ("new", NEW)):
        Path(model).mkdir()
        write(f"{model}/1.parquet", columns, slice(0, 200))
        write(f"{model}/2.parquet", columns, slice(200, N))
        write(f"{model}.parquet", columns)
    found = compared("old/*.parquet", "new/*.parquet")
    assert list(found["models"]) == ["old", "new"]
    assert list(found["models"].values()) == list(expected()["models"].values())
    assert list(compared("*.parquet")["models"]) == ["new", "old"]


def test_models_are_called_by_their_files() -> None:
    assert model_names(["a/old.csv.gz", "b/new.v2.parquet", "x.cal"]) == ["old", "new.v2", "x"]
    assert model_names(["a/model.csv", "b/model.csv"]) == ["a", "b"]
    assert model_names(["runs/a/x/model.csv", "runs/b/x/model.csv"]) == ["a/x", "b/x"]
    assert model_names(["a/x.csv", "a/x.json", "b/x.csv"]) == ["a/x.csv", "a/x.json", "b/x.csv"]
    assert model_names(["model.csv", "b/model.csv"]) == ["model.csv", "b/model.csv"]
    assert model_names(["x.csv", "x.csv"]) == ["x.csv", "x.csv"]


def test_classes_and_logits_of_each_file() -> None:
    rows, target = RNG.dirichlet(np.ones(3), 200), RNG.integers(0, 3, 200)
    np.savez("old.npz", probs=rows, targets=target)
    np.savez("new.npz", logits=np.log(rows) * 2, targets=target)
    found = compared("old.npz", "new.npz")
    theirs = calibrant.compare({"old": rows, "new": np.log(rows) * 2}, target, logits={"new": True})
    assert without_source(found) == theirs.to_dict()
    np.savez("two.npz", probs=rows[:, :2] / rows[:, :2].sum(axis=1, keepdims=True), targets=target % 2)
    np.savez("one.npz", probs=rows, targets=target % 2)
    status, _, err = run("one.npz", "two.npz")
    words = "calibrant: two.npz: contains probabilities of 2 classes, but one.npz contains "
    words += "probabilities of 3 classes; compare models"
    assert (status, err) == (1, f"{words} of the same classes\n")
    write("a.csv", {"p_x": rows[:, 0], "p_y": rows[:, 1], "p_z": rows[:, 2], "label": np.array(list("xyz"))[target]})
    write("b.csv", {"p_y": rows[:, 1], "p_x": rows[:, 0], "p_z": rows[:, 2], "label": np.array(list("xyz"))[target]})
    status, _, err = run("a.csv", "b.csv")
    words = "calibrant: b.csv: has the classes y, x, z, but a.csv has x, y, z; "
    words += "name the columns in the same order with --probs a,b,c"
    assert (status, err) == (1, f"{words}\n")


@pytest.mark.parametrize(
    ("columns", "rows", "options", "said"),
    [
        (NEW, [*range(N), 5], ("--on", "id"), "new.csv: row 6: 2 rows have '{twice}' in column 'id'; name more"),
        (
            NEW,
            SHUFFLED,
            (),
            "new.csv: row {row}, column 'outcome' contains {got}, but row {row} of old.csv contains {was}; if the",
        ),
        (
            {**NEW, "outcome": np.where(np.arange(N) == 41, 1 - Y, Y)},
            SHUFFLED,
            ("--on", "id"),
            (
                "new.csv: row {at}, column 'outcome' contains {flipped}, but "
                "row 42 of old.csv contains {held}; correct the outcome"
            ),
        ),
        ({**NEW, "w": OLD["w"] + 1}, slice(None), ("--weight", "w"), "new.csv: row 1, column 'w' contains"),
        (NEW, slice(None), ("--on", "idd"), "old.csv: has no column 'idd' (--on); did you mean 'id'?"),
        ({**NEW, "score": Q + 1}, slice(None), (), "new.csv: row 1, column 'score': expected values in [0, 1]"),
    ],
)
def test_rows_that_do_not_match_are_named(columns: Any, rows: Any, options: tuple[str, ...], said: str) -> None:
    write("old.csv", OLD)
    write("new.csv", columns, rows)
    status, out, err = run("old.csv", "new.csv", *options)
    first = int(np.argmax(Y[SHUFFLED] != Y))
    facts = {
        "twice": IDS[5],
        "row": first + 1,
        "got": Y[SHUFFLED][first],
        "was": Y[first],
        "at": int(np.argmax(SHUFFLED == 41)) + 1,
        "flipped": 1 - Y[41],
        "held": Y[41],
    }
    assert (status, out) == (1, "")
    assert said.format(**facts) in err, err


def test_logits_that_may_be_probabilities_are_doubted_in_each_file() -> None:
    write("old.csv", OLD)
    write("new.csv", {**NEW, "score": Q * 8 - 4})
    _, err = succeed("old.csv", "new.csv", "--logits")
    assert err.startswith(
        "calibrant: old.csv: column 'score' is read as logits, but all its values lie in [0, 1]; if the"
    )
    assert "new.csv" not in err
    doubt = "column 'score' is read as logits, but all its values lie in [0, 1]; if the values are probabilities, leave"
    assert report("old.csv", "--logits")[1] == f"calibrant: {doubt} --logits out\n"  # once, and no other warning
    sketch = sketch_of(P, Y)
    sketch.save("last.cal")
    assert (
        "calibrant: old.csv: column 'score' is read as logits"
        in run("old.csv", "--baseline", "last.cal", "--logits")[2]
    )


# ---------------------------------------------------------------- sketches


def test_a_saved_sketch_is_the_other_side() -> None:
    write("old.csv", OLD)
    write("new.csv", NEW)
    old, new = (CalibrationSketch(), CalibrationSketch())
    old.update(P, Y)
    new.update(Q, Y)
    Path("last.cal").write_bytes(old.to_bytes())
    Path("last.json").write_text(old.to_json())
    Path("new.cal").write_bytes(new.to_bytes())
    theirs = calibrant.compare({"last": old, "new": new}).to_dict()
    for arguments in (
        ("new.csv", "--baseline", "last.cal"),
        ("new.csv", "--baseline", "last.json"),
        ("last.cal", "new.csv"),
        ("last.cal", "new.cal"),
    ):
        assert without_source(compared(*arguments)) == theirs, arguments


def test_groups_of_sketches_are_compared_where_all_have_them() -> None:
    models = {}
    early = np.arange(N) < 40
    for name, scores, sites in (("old", P, np.where(early, "d", SITES)), ("new", Q, np.where(early, "c", SITES))):
        models[name] = CalibrationSketch()
        models[name].update(scores, Y, groups=sites)
    comparison = calibrant.compare(models)
    assert {group.name for group in comparison.groups} == {"a", "b"}
    assert comparison.lone_groups == ("c", "d")
    alone = calibrant.compare({name: sketch.groups["a"] for name, sketch in models.items()})
    (group,) = (group for group in comparison.groups if group.name == "a")
    assert group.comparison.to_dict() == alone.to_dict()
    assert "groups that are not in every sketch are not compared: c, d" in " ".join(str(comparison).split())


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (
            ("new.csv", "--baseline", "report.json"),
            1,
            (
                "report.json: contains a report without a sketch (as printed by --json -), and a comparison "
                "needs the sketch; write the report again with calibrant report FILE --json report.json, or save a "
                "sketch with calibrant report FILE --sketch report.cal"
            ),
        ),
        (
            ("new.csv", "--baseline", "last.cal", "--by", "site"),
            1,
            "last.cal: has no group in common with new.csv",
        ),
        (
            ("new.csv", "--baseline", "last.cal", "--on", "id"),
            2,
            "--on matches rows, but a sketch contains no rows; leave",
        ),
        (
            ("last.cal", "other.cal", "--weight", "w"),
            2,
            "--weight has no effect on a sketch, because a sketch contains no rows",
        ),
        (("bad.csv", "--baseline", "last.cal"), 1, "bad.csv: row 1, column 'score': expected values in [0, 1]"),
        (("new.csv", "--baseline", "last.cal", "--paired"), 1, "expected a sketch with clusters, because"),
    ],
)
def test_what_cannot_be_compared_with_a_sketch_is_refused(arguments: Any, status: int, said: str) -> None:
    write("new.csv", NEW)
    write("bad.csv", {**NEW, "score": Q + 1})
    sketch = sketch_of(P, Y)
    for name in ("last.cal", "other.cal"):
        Path(name).write_bytes(sketch.to_bytes())
    Path("report.json").write_text(calibrant.evaluate(P, Y, level=None).to_json())
    found, out, err = run(*arguments)
    assert (found, out) == (status, "")
    assert said in " ".join(err.split()), err


ROWS = RNG.dirichlet(np.ones(3), N)
KINDS = RNG.integers(0, 3, N)
WORDS = np.where(Y, "yes", "no")
CLASSES: dict[str, Any] = {**{f"p_{k}": ROWS[:, k] for k in range(3)}, "label": KINDS, "site": SITES}
SHARPER = {**CLASSES, **{f"p_{k}": ROWS[:, k] ** 2 / (ROWS**2).sum(axis=1) for k in range(3)}}


@pytest.mark.parametrize(
    ("old", "new", "options"),
    [
        (OLD, NEW, ()),
        (OLD, NEW, ("--weight", "w")),
        (OLD, NEW, ("--notion", "top-label")),
        (OLD, NEW, ("--cluster", "id", "--weight", "w")),
        (OLD, NEW, ("--by", "site")),
        (OLD, NEW, ("--by", "site", "--cluster", "id")),
        ({**OLD, "score": P * 8 - 4}, {**NEW, "score": Q * 8 - 4}, ("--logits",)),
        ({**OLD, "outcome": np.where(P > 0.9, -1, Y)}, {**NEW, "outcome": Y}, ("--ignore-index", "-1")),
        ({**OLD, "outcome": WORDS}, {**NEW, "outcome": WORDS}, ("--labels", "no,yes")),
        (CLASSES, SHARPER, ("--class-names", "cat,dog,eel", "--by", "site")),
    ],
)  # fmt: skip
@pytest.mark.slow
def test_the_json_of_a_report_is_the_other_side(
    monkeypatch: pytest.MonkeyPatch, old: Any, new: Any, options: tuple[str, ...]
) -> None:
    write("old.parquet", old)
    write("new.parquet", new)
    report("old.parquet", *options, "--json", "last.json")
    Path("streamed").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(reading, "MOST_ROWS", 0)
        report("old.parquet", *options, "--json", "streamed/last.json", "--sketch", "last.cal")
    evaluated = json.loads(Path("last.json").read_text("utf-8"))
    assert without_source(evaluated).keys() - {"sketch"} == calibrant.evaluate(P, Y, level=None).to_dict().keys()
    theirs = without_source(compared("new.parquet", "--baseline", "last.cal", *options))
    assert theirs["groups"] or "--by" not in options
    assert theirs["clusters"] or "--cluster" not in options
    ours = [compared("new.parquet", "--baseline", path, *options) for path in ("last.json", "streamed/last.json")]
    assert without_source(ours[1]) == theirs
    if "--by" in options:  # a stream adds up the sums of groups: they agree to 1e-12
        found, wanted = leaves(without_source(ours[0])), leaves(theirs)
        assert found.keys() == wanted.keys()
        for path, value in wanted.items():
            exact = not isinstance(value, float)
            assert found[path] == (value if exact else pytest.approx(value, rel=1e-7, abs=1e-10)), path
    else:
        assert without_source(ours[0]) == theirs
    first = Path("last.json").read_bytes()
    report("old.parquet", *options, "--json", "last.json")
    assert Path("last.json").read_bytes() == first


def _without_names(summary: dict[str, Any]) -> dict[str, Any]:
    named = ("source", "models", "tests", "pairs", "diagrams", "leaderboard")
    return {name: value for name, value in summary.items() if name not in named}


def test_the_json_of_a_report_is_read_where_a_sketch_is() -> None:
    write("old.csv", OLD)
    write("new.csv", NEW)
    for model in ("old", "new"):
        report(f"{model}.csv", "--json", f"{model}.json")
        report(f"{model}.csv", "--sketch", f"{model}.cal")
    theirs = without_source(compared("old.cal", "new.cal"))
    for arguments in (("old.json", "new.json"), ("old.json", "new.cal"), ("new.csv", "--baseline", "old.json")):
        assert without_source(compared(*arguments)) == theirs, arguments
    assert report("old.json")[0].splitlines()[1:] == report("old.cal")[0].splitlines()[1:]
    report("old.json", "--json", "again.json")
    assert _without_names(compared("again.json", "new.cal")) == _without_names(theirs)
    assert json.loads(Path("again.json").read_text())["sketch"] == json.loads(Path("old.json").read_text())["sketch"]


def test_only_the_json_file_of_a_report_on_one_event_has_a_sketch(monkeypatch: pytest.MonkeyPatch) -> None:
    write("old.csv", OLD)
    write("new.csv", NEW)
    write("classes.csv", CLASSES)
    assert "sketch" not in json.loads(report("old.csv", "--json", "-")[0])
    assert run("old.csv", "new.csv", "--json", "pair.json")[0] == 0
    report("classes.csv", "--notion", "classwise", "--json", "each.json")
    report("classes.csv", "--sketch", "all.cal", "--json", "one.json")
    assert all("sketch" not in json.loads(Path(name).read_text("utf-8")) for name in ("pair.json", "each.json"))
    whole, event = CalibrationSketch.load("all.cal"), sketch_in("one.json")
    assert whole.has_classes
    assert not event.has_classes
    assert np.array_equal(event.table.counts, whole.table.counts)
    assert event.n == whole.n == N
    monkeypatch.setattr("calibrant.files.sketches.MOST_CURVES", 3)
    for column, groups in (("site", {"a", "b"}), ("w", set())):  # three groups and all rows are four curves
        report("old.csv", "--by", column, "--json", "groups.json")
        assert sketch_in("groups.json").groups.keys() == groups


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(value, (dict, list)):
        return {path: value}
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return {name: leaf for key, each in items for name, leaf in leaves(each, f"{path}.{key}").items()}


def sketch_in(path: str) -> CalibrationSketch:
    return CalibrationSketch.from_bytes(base64.b64decode(json.loads(Path(path).read_text("utf-8"))["sketch"]))


def test_the_json_of_a_report_that_holds_no_sketch_is_refused() -> None:
    write("new.csv", NEW)
    write("classes.csv", CLASSES)
    report("new.csv", "--json", "last.json")
    text = Path("last.json").read_text("utf-8")
    good = json.loads(text)
    data = base64.b64decode(good["sketch"])
    again = (
        "write the report again with calibrant report FILE --json bad.json, or save a sketch with "
        "calibrant report FILE --sketch bad.cal"
    )

    def with_bytes(data: bytes) -> str:
        return json.dumps({**good, "sketch": base64.b64encode(data).decode()})

    report("classes.csv", "--notion", "classwise", "--json", "each.json")
    run("new.csv", "last.json", "--json", "pair.json")
    for bad, said in (
        (text[: len(text) // 2], "contains a damaged report ("),
        (
            json.dumps({**good, "sketch": None}),
            "contains a report whose key 'sketch' is not valid base64 (argument should be",
        ),
        (json.dumps({**good, "sketch": good["sketch"][:-1]}), "'sketch' is not valid base64 (Incorrect padding)"),
        (
            json.dumps({**good, "sketch": "é" + good["sketch"]}),
            "contains a report whose key 'sketch' is not valid base64 (",
        ),
        (
            json.dumps({**good, "sketch": "!" + good["sketch"]}),
            "contains a report whose key 'sketch' is not valid base64 (",
        ),
        (with_bytes(b""), "key 'sketch': expected a calibrant sketch, got bytes that begin with nothing"),
        (with_bytes(data[:-100]), "key 'sketch': expected a sketch that matches its checksum, got"),
        (with_bytes(data[:200] + b"x" + data[201:]), "expected a sketch that matches its checksum, got"),
        (with_bytes(data.replace(b"sketch-2", b"sketch-9")), "expected a sketch of version 2 or 3, got version 9"),
        (
            Path("each.json").read_text(),
            "contains a report on every class (classwise), but a comparison evaluates only one event",
        ),
        (
            Path("pair.json").read_text(),
            "contains a comparison, not a report on one model; name the report files of the models",
        ),
    ):
        Path("bad.json").write_text(bad, "utf-8")
        for arguments in (("new.csv", "--baseline", "bad.json"), ("last.json", "bad.json")):
            status, out, err = run(*arguments)
            assert (status, out) == (1, "")
            assert err.startswith("calibrant: bad.json: contains a ")
            assert said in err
            assert again in err or "every class" in said or "comparison" in said


def test_rows_are_always_paired() -> None:
    write("old.csv", OLD)
    write("new.csv", NEW)
    status, out, err = run("old.csv", "new.csv", "--paired")
    assert (status, out) == (2, "")
    assert (
        "--paired is only for .cal files, because the rows of other files are always paired; leave the option out"
        in " ".join(err.split())
    )


def test_paired_sketches_cancel_what_they_share() -> None:
    models = {name: CalibrationSketch() for name in ("old", "new")}
    patients = np.arange(N) // 3
    for sketch, scores in zip(models.values(), (P, Q), strict=True):
        sketch.update(scores, Y, clusters=patients)
    for name, sketch in models.items():
        Path(f"{name}.cal").write_bytes(sketch.to_bytes())
    found = compared("old.cal", "new.cal", "--paired")
    assert without_source(found) == calibrant.compare(models, paired=True).to_dict()
    assert found["paired"]


# ---------------------------------------------------------------- groups


def test_each_group_is_compared_as_by_itself() -> None:
    sites = np.array(["north", "south", "few"])[np.minimum(np.arange(N) % 50, 2) * (np.arange(N) % 3 > 0)]
    sites[:20], sites[20:] = "few", np.where(np.arange(20, N) % 2, "north", "south")
    third = 0.5 + (P - 0.5) * 0.8
    models = {"old": P, "new": np.where(sites == "north", P, Q), "third": third}
    weights, clusters = RNG.uniform(0.5, 2, N), np.arange(N) // 2
    targets = np.where(RNG.random(N) < 0.1, -1, Y)
    for given in ({}, {"weights": weights}, {"clusters": clusters}, {"weights": weights, "clusters": clusters}):
        comparison = calibrant.compare(models, targets, groups=sites, ignore_index=-1, **given)
        assert {group.name for group in comparison.groups} == {"north", "south", "few"}
        evaluated = targets >= 0
        whole = calibrant.compare(
            {name: scores[evaluated] for name, scores in models.items()},
            targets[evaluated],
            **{name: values[evaluated] for name, values in given.items()},
        ).to_dict()
        assert {**comparison.to_dict(), "groups": []} == whole
        raw = []
        for group in comparison.groups:
            rows = sites == group.name
            alone = calibrant.compare(
                {name: scores[rows] for name, scores in models.items()},
                targets[rows],
                ignore_index=-1,
                **{name: values[rows] for name, values in given.items()},
            )
            assert group.comparison.to_dict() == alone.to_dict()
            assert group.flag == ("fewer than 30 rows, too few for a test" if group.name == "few" else "")
            raw += [pair.raw_p_value for pair in alone.pairs] if group.name != "few" else []
        adjusted = [p for group in comparison.groups if not group.flag for p in group.adjusted_p_values]
        assert adjusted == pytest.approx(holm(raw))
        assert comparison.groups[-1].name == "few"
        assert np.isnan(comparison.groups[-1].adjusted_p_values).all()
        assert not any(comparison.groups[-1].called_out)
    text = str(comparison)
    assert "Groups: old minus new, debiased squared CE" in text
    assert "After Holm correction, 0 of 6 comparisons show that" in " ".join(text.split())


def test_of_a_hundred_groups_the_worst_twenty_are_shown() -> None:
    groups = np.arange(6000) // 50
    p = RNG.random(6000)
    y = (RNG.random(6000) < p).astype(int)
    comparison = calibrant.compare(p, np.where(groups % 30 == 7, p**4, p**1.1), y, groups=groups, names=("old", "new"))
    assert [group.name for group in comparison.groups] == [str(k) for k in range(120)]
    worst = sorted(comparison.groups, key=lambda group: (group.adjusted_p_values[0], -abs(_value(group))))[:20]
    text = str(comparison)
    shown = text[text.index("Groups: old minus new") :]
    assert re.findall(r"^  (\d+) ", shown, re.MULTILINE) == [group.name for group in worst]
    assert {"7", "37", "67", "97"} <= {group.name for group in worst}
    assert "to see the other 100 groups, use --json, --html, or comparison.groups in Python" in " ".join(shown.split())
    source = comparison.to_markdown()
    assert "squared CE (the 20 of 120 groups with the most evidence of a difference)" in source
    rows = re.findall(r"^\| (?:◆ )?(\d+) \|", source[source.index("### Groups") :], re.MULTILINE)
    assert rows == [group.name for group in worst]


def _value(group: Any) -> float:
    return float(group.comparison.pairs[0]["debiased_square"].value)


def test_groups_are_checked_as_in_evaluate() -> None:
    with pytest.raises(InputError, match="groups: expected 600 names, one for each prediction"):
        calibrant.compare(P, Q, Y, groups=SITES[:5])
    pd = pytest.importorskip("pandas")
    sizes = pd.Categorical.from_codes(np.arange(N) % 2, ["small", "large"], ordered=True)
    assert [group.name for group in calibrant.compare(P, Q, Y, groups=sizes).groups] == ["small", "large"]


# ---------------------------------------------------------------- conditions


def test_a_condition_is_about_the_later_model_minus_the_first() -> None:
    write("old.csv", OLD)
    write("new.csv", NEW)
    comparison = calibrant.compare({"old": P, "new": Q}, Y, groups=SITES)
    pair = comparison.pairs[0]
    risen, least = -pair["ece"].value, -pair["ece"].high
    square = pair["debiased_square"]
    in_groups = {group.name: -group.comparison.pairs[0]["debiased_square"].high for group in comparison.groups}
    held = [f"{name} ({low:+.6g})" for name, low in in_groups.items() if low > 0]
    for condition, message in (
        (f"ece > {risen - 1e-6}", f"ece of new minus old is {risen:+.6g}"),
        (f"ece > {risen + 1e-6}", ""),
        (f"ece.low >= {least - 1e-6}", f"ece.low of new minus old is {least:+.6g}"),
        ("ece.high < 0", ""),
        ("accuracy > 1", ""),
        ("debiased_square.p_value < 0.01", f"debiased_square.p_value of new minus old is {square.p_value:.6g}"),
        ("n >= 600", "n is 600"),
        ("groups.any(debiased_square.low > 0)", f"debiased_square.low of new minus old in {len(held)} of 2 groups: "),
    ):
        status, out, err = run("old.csv", "new.csv", "--by", "site", "--fail-if", condition)
        assert status == (3 if message else 0), condition
        assert "old minus new" in out
        expected_words = f"calibrant: --fail-if {condition!r} holds: {message}"
        if "groups" in condition:
            expected_words += ", ".join(held)
        assert err == (f"{expected_words}\n" if message else "")


def test_a_condition_compares_with_the_first_model_alone() -> None:
    for name, scores in (("worst", Q**2), ("bad", Q), ("good", P)):
        write(f"{name}.csv", {**OLD, "score": scores})
    assert run("bad.csv", "worst.csv", "--fail-if", "ece > 0")[0] == 3
    assert run("worst.csv", "good.csv", "bad.csv", "--fail-if", "ece > 0")[0] == 0


def test_a_condition_needs_its_number() -> None:
    zero = np.where(Y == 1, 0.0, P)
    write("old.csv", OLD)
    write("zero.csv", {**OLD, "score": zero})
    status, _, err = run("old.csv", "zero.csv", "--fail-if", "nll.low > 0")
    assert (status, err) == (1, "calibrant: --fail-if 'nll.low > 0': nll.low has no value\n")
    status, _, err = run("old.csv", "zero.csv", "--fail-if", "groups.any(ece > 0)")
    assert (status, "the data have no groups; name the column of the groups with --by" in err) == (1, True)
