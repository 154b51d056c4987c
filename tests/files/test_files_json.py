"""JSON files: the shapes that are read, those that an error names, and keys within objects by dotted paths."""

from __future__ import annotations

import gzip
import json
import shlex
from pathlib import Path

import numpy as np
import pytest

from calibrant.errors import FileError
from calibrant.files import column_names
from tests.reading_of import read_predictions, refuse

pa = pytest.importorskip("pyarrow", reason="the report extra is not installed")
pytest.importorskip("duckdb", reason="the report extra is not installed")
import pyarrow.feather as feather  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

SCORES = [0.1, 0.7, 0.4, 0.9]
OUTCOMES = [0, 1, 1, 1]
ROWS = [{"score": score, "outcome": outcome} for score, outcome in zip(SCORES, OUTCOMES, strict=True)]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS)
NESTED = [
    {"meta": {"task": "ab"[k % 2], "run": {"n": k}}, "pred": {"p": score}, "label": {"won": outcome}}
    for k, (score, outcome) in enumerate(zip(SCORES, OUTCOMES, strict=True))
]


def write(path: Path, content: str) -> Path:
    path.write_bytes(gzip.compress(content.encode()) if path.suffix == ".gz" else content.encode())
    return path


@pytest.mark.covering
@pytest.mark.parametrize("name", ["f.json", "f.json.gz"])
@pytest.mark.parametrize("content", [json.dumps(ROWS), json.dumps(ROWS, indent=2), LINES, f" \n{json.dumps(ROWS)}\n "])
@pytest.mark.parametrize("where", [None, "outcome >= 0"])
def test_an_array_of_objects_or_an_object_a_line(tmp_path, name, content, where):
    path = write(tmp_path / name, content)
    read = read_predictions([path], where=where)
    assert read.probs.tolist() == SCORES
    assert read.targets.tolist() == OUTCOMES
    assert read.locate(2) == (str(path), 3)
    assert column_names(str(path)) == ("score", "outcome")


def test_a_byte_order_mark_before_an_array(tmp_path):
    path = write(tmp_path / "f.json", "\ufeff" + json.dumps(ROWS))
    assert read_predictions([path]).probs.tolist() == SCORES


def test_what_pandas_writes(tmp_path):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame(ROWS)
    frame.to_json(tmp_path / "records.json", orient="records")
    frame.to_json(tmp_path / "lines.json", orient="records", lines=True)
    for name in ("records.json", "lines.json"):
        assert read_predictions([tmp_path / name]).probs.tolist() == SCORES
    for orient in ("split", "index", "columns", "table", "values"):
        path = tmp_path / f"{orient}.json"
        frame.to_json(path, orient=orient)
        with pytest.raises(FileError, match=rf"orient '{orient}'") as caught:
            read_predictions([path])
        if orient == "values":
            assert "write an array of objects, such as with DataFrame.to_json" in caught.value.remedy
            continue
        exec(caught.value.remedy.removeprefix("in Python, use "), {"pandas": pandas, "json": json})
        assert read_predictions([path.with_suffix(".parquet")]).probs.tolist() == SCORES


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("", r"is empty \(0 bytes\)"),
        (" [ ] ", r"holds no rows"),
        ("[1, 2]", "contains an array whose values are not objects; write an array of objects"),
        (
            '[{"score": 0.5, "outcome": 1}, 3]',
            ("contains an array with values that are not objects; write the array again"),
        ),
        (
            '[{"score": 0.5, "outcome": 1}, {"score": 0.25',
            ("contains an array without a closing bracket; write the file again, because it is damaged"),
        ),
        # DuckDB takes this one.
        (
            '[{"score": 0.5, "outcome": 1},',
            ("contains an array without a closing bracket; write the file again, because it is damaged"),
        ),
        (
            '[{"score": 0.5,, "outcome": 1}]',
            (r"does not contain a valid array of objects near object \d+ \(.*\); write the array again"),
        ),
        ('{"results": [{"score": 0.5, "outcome": 1}]}', "contains one object, with rows in 'results'; in Python, use "),
        (
            '{\n"score": 0.5,\n"outcome": 1\n}',
            r"contains a single object over several lines; write an array of objects",
        ),
        ("score,outcome\n0.5,1\n", r"starts with 'score,outc', not with an object; write an array of objects"),
    ],
)
def test_json_of_other_shapes(tmp_path, content, match):
    path = write(tmp_path / "f.json", content)
    said = refuse([path], match)
    assert said.startswith(str(path))
    assert "\n" not in said


def test_an_array_in_a_file_of_lines(tmp_path):
    path = write(tmp_path / "f.jsonl", json.dumps(ROWS))
    refuse(
        [path],
        (
            "not with an object; write each object on one line, or rename a file with an array of "
            r"objects to \.json$"
        ),
    )


# Keys within objects.


def stored(path: Path) -> Path:
    """Write the nested rows in the format of the path's ending."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(NESTED), path)
    elif path.suffix == ".feather":
        feather.write_feather(pa.Table.from_pylist(NESTED), path)
    else:
        lines = path.suffix == ".jsonl"
        write(path, "".join(json.dumps(row) + "\n" for row in NESTED) if lines else json.dumps(NESTED))
    return path


@pytest.mark.parametrize("name", ["f.jsonl", "f.json", "f.parquet", "f.feather"])
@pytest.mark.parametrize("where", [None, "meta.run.n > 0 AND meta.task = 'b'"])
def test_dotted_paths_name_keys_within_objects(tmp_path, name, where):
    path = stored(tmp_path / name)
    read = read_predictions(
        [path],
        score="pred.p",
        outcome="label.won",
        weight="meta.run.n",
        by=["meta.task"],
        clusters=["meta.run.n"],
        where=where,
    )
    kept = [0, 1, 2, 3] if where is None else [1, 3]
    assert read.probs.tolist() == [SCORES[k] for k in kept]
    assert read.targets.tolist() == [OUTCOMES[k] for k in kept]
    assert read.weights.tolist() == kept
    assert read.groups.tolist() == ["ab"[k % 2] for k in kept]
    assert read.clusters.tolist() == kept
    assert read.sources["groups"] == "meta.task"
    assert [read.locate(k)[1] for k in range(len(kept))] == [k + 1 for k in kept]


@pytest.mark.parametrize("name", ["f.jsonl", "f.parquet", "f.feather"])
def test_a_column_of_that_very_name_comes_before_a_path(tmp_path, name):
    rows = [{"a.p": 0.25, "a": {"p": 0.5}, "y": 1}, {"a.p": 0.75, "a": {"p": 0.5}, "y": 0}]
    if name.endswith("jsonl"):
        write(tmp_path / name, "".join(json.dumps(row) + "\n" for row in rows))
    elif name.endswith("parquet"):
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / name)
    else:
        feather.write_feather(pa.Table.from_pylist(rows), tmp_path / name)
    assert read_predictions([tmp_path / name], score="a.p", outcome="y").probs.tolist() == [0.25, 0.75]


@pytest.mark.parametrize("ending", ["json", "parquet"])
def test_a_pattern_names_the_keys_of_an_object_and_so_the_classes(tmp_path, ending):
    rows = [{"probs": {"cat": 0.25, "dog": 0.75}, "label": "dog"}, {"probs": {"cat": 0.5, "dog": 0.5}, "label": "cat"}]
    path = tmp_path / f"f.{ending}"
    if ending == "json":
        write(path, json.dumps(rows))
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    read = read_predictions([path], probs="probs.*", target="label")
    np.testing.assert_array_equal(read.probs, [[0.25, 0.75], [0.5, 0.5]])
    assert read.class_names == ("cat", "dog")
    assert read.targets.tolist() == ["dog", "cat"]


def test_objects_where_numbers_are_expected(tmp_path):
    path = stored(tmp_path / "f.jsonl")
    refuse(
        [path],
        r"'pred' holds objects, not numbers; .* name the keys of the objects, such as pred\.\*",
        score="pred",
        outcome="label.won",
    )
    refuse(
        [path], r"has no column 'pred\.q' \(--score\); did you mean 'pred\.p'\?", score="pred.q", outcome="label.won"
    )


def test_names_of_keys_for_the_completion(tmp_path):
    names = ("meta", "meta.task", "meta.run", "meta.run.n", "pred", "pred.p", "label", "label.won")
    assert column_names(str(stored(tmp_path / "f.jsonl"))) == names
    assert column_names(str(stored(tmp_path / "f.json"))) == names


def test_a_key_within_objects_is_proposed_with_its_path(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"meta": {"task": "x"}, "mask": 1, "score": 0.3, "label": 1}\n')
    refuse([tmp_path / "a.jsonl"], r"has no column 'task' \(--by\); did you mean 'meta\.task'\?", by=["task"])


# ---------------------------------------------------------------- probabilities by label

LABELS = ["it's", "b c", "ü"]
BY_LABEL = np.random.default_rng(10).dirichlet(np.ones(3), 6).round(3)
TRUTH = [LABELS[k] for k in (0, 1, 2, 2, 1, 0)]


def objects(key: str, value: str, labels: list[object] = LABELS) -> list[list[dict[str, object]]]:
    """Return a list of objects for each row, the most probable label first, as classifiers write them."""
    rows = []
    for row in BY_LABEL:
        pairs = sorted(zip(row.tolist(), labels, strict=True), key=lambda pair: -pair[0])
        rows.append([{key: label, value: share} for share, label in pairs])
    return rows


def saved(path: Path, columns: dict[str, object]) -> str:
    """Write columns in the format of the path's ending."""
    table = pa.table(columns)
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".arrow":
        feather.write_feather(table, path, compression="uncompressed")
    else:
        rows = table.to_pylist(maps_as_pydicts="strict")
        text = json.dumps(rows) if path.suffix == ".json" else "".join(json.dumps(row) + "\n" for row in rows)
        path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.covering
@pytest.mark.parametrize("ending", ["jsonl", "json", "parquet", "arrow"])
@pytest.mark.parametrize(
    ("key", "value"), [("label", "score"), ("class", "prob"), ("name", "probability"), ("category", "confidence")]
)
def test_lists_of_objects_have_a_column_for_each_label(tmp_path, ending, key, value):
    path = saved(tmp_path / f"f.{ending}", {"output": objects(key, value), "label": TRUTH})
    for probs in ("output", "output.*"):
        read = read_predictions([path], probs=probs)
        names = list(read.class_names)
        assert sorted(names) == sorted(LABELS)
        np.testing.assert_array_equal(read.probs, BY_LABEL[:, [LABELS.index(name) for name in names]])
        assert [str(label) for label in read.targets] == TRUTH
    with pytest.raises(FileError, match=r"such as --probs 'output\.\*'$") as caught:
        read_predictions([path])
    assert caught.value.options == ("--probs", "output.*")


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_lists_of_objects_with_whole_numbers_as_labels(tmp_path, ending):
    columns = {"predicted_label_probs": objects("label", "prob", [2, 0, 1]), "label": [2, 0, 1, 1, 0, 2]}
    read = read_predictions([saved(tmp_path / f"f.{ending}", columns)], probs="predicted_label_probs")
    np.testing.assert_array_equal(read.probs, BY_LABEL[:, [1, 2, 0]])
    np.testing.assert_array_equal(read.targets, columns["label"])


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "arrow"])
def test_structs_and_maps_of_probabilities(tmp_path, ending):
    rows = [dict(zip(LABELS, row.tolist(), strict=True)) for row in BY_LABEL]
    columns: dict[str, object] = {"probs": rows, "target": TRUTH}
    if ending != "jsonl":
        columns["scores"] = pa.array([list(row.items()) for row in rows], pa.map_(pa.string(), pa.float64()))
    path = saved(tmp_path / f"f.{ending}", columns)
    for probs in ("probs", "probs.*", *(["scores"] if ending != "jsonl" else [])):
        read = read_predictions([path], probs=probs)
        np.testing.assert_array_equal(read.probs, BY_LABEL[:, [LABELS.index(name) for name in read.class_names]])
    path = saved(tmp_path / f"g.{ending}", {"probs": rows, "target": TRUTH})
    refuse([path], r"column 'probs' contains objects; .*, such as --probs 'probs\.\*'$")


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_a_list_without_a_label_or_with_one_twice_is_an_error(tmp_path, ending):
    for change in (lambda row: row[:2], lambda row: [*row[:2], row[0]]):
        lists = objects("label", "score")
        lists[3] = change(lists[3])
        path = saved(tmp_path / f"f.{ending}", {"pred": lists, "label": TRUTH})
        said = refuse([path], r"row 4, column .pred\..* is empty \(null\)", probs="pred")
        where = shlex.split(said.split("out with ")[1])[1]
        assert len(read_predictions([path], probs="pred", where=where).probs) == 5


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.jsonl", '{"score": 0.5, "outcome": 1, "x": %s}\n' % ("[" * 5000 + "]" * 5000), "deeper than 128"),
        ("a.jsonl", '{"score": 0.5, "outcome": 1, "x": %s}\n' % ('{"a":' * 5000 + "1" + "}" * 5000), "deeper than 128"),
        ("a.json", '[{"score": 0.5, "outcome": 1, "x": %s}]' % ("[" * 5000 + "]" * 5000), "deeper than 128"),
        ("a.jsonl", '{"score": 0.5, "outcome": 1}\n{"score": 0.5, "outcome": 1, "": 3}\n', "line 2 has a key without"),
        ("a.jsonl", '{"score": 0.5, "outcome": 1}\n[1, 2]\n', "line 2 is not an object"),
    ],
)
def test_what_is_wrong_with_json_is_said(tmp_path, name, content, words):
    (tmp_path / name).write_text(content)
    refuse([tmp_path / name], words)
