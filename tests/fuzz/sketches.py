"""Attacks on stored sketches: real sketches with foreign content and a checksum that fits.

`attacks` yields them without end, the same ones for the same seed. As a program it tries as many as ``--n`` says, and
ends with status 1 if one gets through:

    python tests/fuzz/sketches.py --n 20000 --seed 7
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import io
import itertools
import json
import math
import struct
import sys
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import calibrant
from calibrant import CalibrationSketch
from calibrant.errors import InputError
from calibrant.results.envelope import digest_of
from calibrant.sketch.content import types_of

Head = dict[str, Any]
Columns = dict[str, Any]

GOLDEN = Path(__file__).parent.parent / "golden"


class Attack(NamedTuple):
    """A stored sketch: what was done to it, its format, and what a reader gets."""

    name: str
    format: str
    payload: Any


# ---------------------------------------------------------------- real sketches


@cache
def real() -> dict[str, CalibrationSketch]:
    """Return a sketch of every kind; all are small."""
    rng = np.random.default_rng(0)
    p = np.concatenate([rng.random(57), [0.0, 1.0, 0.5]])
    y = (rng.random(60) < p).astype(int)
    classes, label = rng.dirichlet(np.ones(3), 60).astype(np.float32), rng.integers(0, 3, 60)
    several, marks = rng.random((60, 3)), rng.integers(0, 2, (60, 3))
    marks[:7, 0] = -1
    w, clusters, groups = (
        rng.integers(1, 9, 60) / 4,
        rng.integers(0, 12, 60),
        np.array(["a", "b"])[rng.integers(0, 2, 60)],
    )
    batches: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
        "event": ({}, [{"probs": p, "targets": y}]),
        "float32": ({}, [{"probs": p.astype(np.float32), "targets": y}, {"probs": p, "targets": y}]),
        "fine": ({"grid": "fine"}, [{"probs": p, "targets": y}]),
        "top label of one event": ({"notion": "top-label"}, [{"probs": p, "targets": y}]),
        "weights": ({}, [{"probs": p, "targets": y, "weights": w}]),
        "whole weights": ({}, [{"probs": p, "targets": y, "weights": np.rint(4 * w)}]),
        "late weights": ({}, [{"probs": p, "targets": y}, {"probs": p, "targets": y, "weights": w}]),
        "top label": ({}, [{"probs": classes, "targets": label}]),
        "classes": ({"classwise": True}, [{"probs": classes, "targets": label, "weights": w}]),
        "class by class": (
            {"notion": "classwise", "class_names": ["x", "y", "z"]},
            [{"probs": classes, "targets": label}],
        ),
        "labels": ({"notion": "multilabel"}, [{"probs": several, "targets": marks, "ignore_index": -1}]),
        "weighed labels": (
            {"notion": "multilabel"},
            [{"probs": several, "targets": marks, "ignore_index": -1, "weights": w}],
        ),
        "infinite": ({}, [{"probs": [0.0, 1.0, 0.4], "targets": [1, 0, 1]}]),
        "groups": ({}, [{"probs": p, "targets": y, "groups": groups, "weights": w}]),
        "clusters": ({}, [{"probs": p, "targets": y, "clusters": clusters, "weights": w}]),
        "clusters of classes": (
            {"classwise": True},
            [{"probs": classes, "targets": label, "clusters": clusters, "groups": groups}],
        ),
        "empty": ({"class_names": ["no", "yes"]}, []),
    }
    made = {}
    for name, (options, parts) in batches.items():
        made[name] = CalibrationSketch(**options)
        for part in parts:
            made[name].update(**part)
    return made


# ---------------------------------------------------------------- formats


def to_json(head: Head, columns: Columns) -> str:
    """Return any head and columns as JSON, with the checksum that fits."""
    content = {**head, "cells": columns}
    return json.dumps({**content, "sha256": digest_of(content)})


def to_arrow(head: Head, columns: Columns) -> Any:
    """Return any head and columns as an Arrow table; None if Arrow cannot hold them."""
    lists = dict(columns)
    cells = {name: lists.pop(name) for name in columns if not name.startswith("clusters.")}
    try:
        kinds = {name: pa.float64() if kind == "<f8" else pa.int64() for name, kind in types_of(cells).items()}
        table = pa.table({name: pa.array(column, None if column else kinds[name]) for name, column in cells.items()})
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    numbers = {name: table.column(name).to_pylist() for name in cells}
    metadata = {
        "calibrant.sketch": json.dumps(head),
        "calibrant.sha256": digest_of({**head, "cells": {**numbers, **lists}}),
    }
    if lists:
        metadata["calibrant.clusters"] = json.dumps(lists)
    return table.replace_schema_metadata(metadata)


def to_bytes(head: Head, columns: Columns, *, members: dict[str, bytes] | None = None) -> bytes:
    """Return any head and columns as a ``.cal``; ``members`` replaces some of its files."""
    version = 3 if "clusters" in head else 2
    files = {f"sketch-{version}.json": json.dumps(head).encode()}
    types = types_of(columns)
    for name, column in columns.items():
        files[f"{name}.npy"] = npy(column, types[name])
    return zipped({**files, **(members or {})})


def npy(column: Any, kind: str = "<f8") -> bytes:
    """Return values as NumPy writes them; integers, and no values, as the type that the column should have."""
    stream = io.BytesIO()
    plain = isinstance(column, list) and set(map(type, column)) <= ({float} if kind == "<f8" else {int})
    try:
        array = np.array(column, kind if plain else None)
    except (ValueError, OverflowError):
        array = np.array([None])
    np.lib.format.write_array(stream, array, version=(1, 0), allow_pickle=True)
    return stream.getvalue()


def zipped(files: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for place, (name, data) in enumerate(files.items()):
            archive.writestr(name, data, zipfile.ZIP_STORED if place == 0 else compression)
        archive.comment = bytes(64)
    return signed(stream.getvalue()[:-64])


def bomb(files: dict[str, bytes], bombed: str, megabytes: int = 400) -> bytes:
    """Return an archive in which one file is so large before it is compressed."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compresslevel=1) as archive:  # the fastest
        for name, data in files.items():
            if name != bombed:
                archive.writestr(name, data, zipfile.ZIP_STORED)
                continue
            archive.compression = zipfile.ZIP_DEFLATED
            with archive.open(name, "w") as file:
                file.write(data)
                for _ in range(megabytes):
                    file.write(bytes(10**6) if name.endswith("npy") else b" " * 10**6)
        archive.comment = bytes(64)
    return signed(stream.getvalue()[:-64])


def signed(body: bytes) -> bytes:
    return body + hashlib.sha256(body).hexdigest().encode()


def to_version_1(head: Head, columns: Columns) -> bytes | None:
    """Return a head and columns as the first version's bytes; None if a column cannot be one."""
    text, cells = json.dumps(head).encode(), []
    for column in columns.values():
        try:
            array = np.array(column)
            cells.append(array.astype("<f8" if array.dtype.kind == "f" else "<i8").tobytes())
        except (ValueError, OverflowError, TypeError):
            return None
    body = b"\x89calsketch\r\n\n" + struct.pack("<IQ", 1, len(text)) + text + b"".join(cells)
    return body + hashlib.sha256(body).digest()


FORMATS: dict[str, Callable[[Head, Columns], Any]] = {
    "json": to_json,
    "arrow": to_arrow,
    "bytes": to_bytes,
    "version 1": to_version_1,
}
READERS: dict[str, Callable[[Any], CalibrationSketch]] = {
    "json": CalibrationSketch.from_json,
    "arrow": CalibrationSketch.from_arrow,
    "bytes": CalibrationSketch.from_bytes,
    "version 1": CalibrationSketch.from_bytes,
}


def parts_of(sketch: CalibrationSketch) -> tuple[Head, Columns]:
    """Return the head and the columns of a sketch, as plain Python."""
    content = json.loads(sketch.to_json())
    del content["sha256"]
    return content, content.pop("cells")


# ---------------------------------------------------------------- what is changed

_DEEP: Any = []
for _ in range(300):
    _DEEP = [_DEEP]

VALUES: tuple[Any, ...] = (
    *(-1, 0, 1, 2, 3, 59, 61, 2**31, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**400),
    *(0.0, -0.0, 0.5, 1.0, -1.0, 1e-320, 1e-200, 1e200, 1e308, math.nan, math.inf, -math.inf),
    *(True, False, None, "", "x", "60", "positive", "multilabel", "fine", "\ud800", [], {}, [[]], [1, [2]], {"a": 1}),
    _DEEP,
)
COUNTS = (10**4, 10**5)


def places_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value inside a value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places_of(inner, (*path, key))


def replaced(root: Any, path: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    """Return a copy in which one value is changed."""
    if not path:
        return change(root)
    root = copy.copy(root)
    root[path[0]] = replaced(root[path[0]], path[1:], change)
    return root


def scaled(rng: np.random.Generator) -> Callable[[Any], Any]:
    """Return a change of a number that stays near it, or any value for what is not a number."""
    kind, by = int(rng.integers(0, 5)), float(rng.choice([0.0, 0.5, 0.99, 1.0001, 1.01, 2.0, 1e6, -1.0]))

    def change(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return VALUES[int(rng.integers(len(VALUES)))]
        if kind == 0:
            return value + 1
        if kind == 1:
            return value - 1
        return type(value)(value * by) if math.isfinite(value) else by

    return change


def change_head(rng: np.random.Generator, head: Head, columns: Columns) -> tuple[str, Head, Columns]:
    paths = [path for path in places_of(head) if path]
    path = paths[int(rng.integers(len(paths)))]
    match int(rng.integers(0, 6)):
        case 0:
            head = copy.deepcopy(head)
            at: Any = head
            for key in path[:-1]:
                at = at[key]
            del at[path[-1]]
            return f"without {path}", head, columns
        case 1:
            return f"extra key at {path[:1]}", {**head, "another": 1, str(path[0]) + "2": []}, columns
        case 2 | 3:
            return f"near {path}", replaced(head, path, scaled(rng)), columns
        case _:
            value = VALUES[int(rng.integers(len(VALUES)))]
            return f"{path} = {str(value)[:20]}", replaced(head, path, lambda _: value), columns


def change_column(rng: np.random.Generator, head: Head, columns: Columns) -> tuple[str, Head, Columns]:
    name = list(columns)[int(rng.integers(len(columns)))]
    column, columns = list(columns[name]), dict(columns)
    place = int(rng.integers(len(column))) if column else 0
    match int(rng.integers(0, 9)):
        case 0:
            del columns[name]
            return f"no {name}", head, columns
        case 1:
            columns[name] = column[:-1]
        case 2:
            columns[name] = column[::-1]
        case 3:
            columns[name] = [scaled(rng)(x) for x in column]
        case 4:
            columns[name] = VALUES[int(rng.integers(len(VALUES)))]
        case 5:
            columns[name] = [column, column] if rng.random() < 0.5 else [[x] for x in column]
        case 6 | 7:
            columns[name] = [scaled(rng)(x) if i == place else x for i, x in enumerate(column)]
        case _:
            value = VALUES[int(rng.integers(len(VALUES)))]
            columns[name] = [value if i == place else x for i, x in enumerate(column)]
    return f"{name}", head, columns


def change_rows(rng: np.random.Generator, head: Head, columns: Columns) -> tuple[str, Head, Columns]:
    """Change all columns of cells together: repeat, drop, move or shuffle rows."""
    names = [name for name in columns if not name.startswith("clusters.")]
    size = len(columns["cell"])
    if not size:
        return "rows of an empty sketch", head, {name: [1] for name in columns}
    order = list(range(size))
    what = str(rng.choice(["repeat", "drop", "swap", "many"]))
    place = int(rng.integers(size))
    match what:
        case "repeat":
            order.insert(place, place)
        case "drop":
            del order[place]
        case "swap":
            order = rng.permutation(size).tolist()
        case _:
            order = order * 40
    return (
        what,
        head,
        {name: [column[i] for i in order] if name in names else column for name, column in columns.items()},
    )


def change_n(rng: np.random.Generator, head: Head, columns: Columns) -> tuple[str, Head, Columns]:
    """Change the number of rows everywhere in the head."""
    if not head["totals"]:
        return "n of an empty sketch", {**head, "rows": [[3]]}, columns
    n = int(rng.choice([0, 1, 59, 61, 10**6, 2**62, 2**63 - 1]))
    totals = [{**part, "n": n} for part in head["totals"]]
    return (
        f"n = {n} everywhere",
        {**head, "totals": totals, "rows": [[n] * len(rows) for rows in head["rows"]]},
        columns,
    )


def change_sizes(rng: np.random.Generator, head: Head, columns: Columns) -> tuple[str, Head, Columns]:
    """Promise many groups, classes or parts."""
    many = int(rng.choice(COUNTS))
    head = copy.deepcopy(head)
    match int(rng.integers(0, 4)):
        case 0:
            head |= {"n_classes": many, "layout": "multilabel", "notion": "multilabel", "rows": [[0] * many]}
            return f"{many} labels", head, columns
        case 1 if head["totals"]:
            head["groups"] = [str(k) for k in range(many // 10)]
            head["totals"] = [head["totals"][0]] * (many // 10 + 1)
            head["rows"] = [head["rows"][0]] * (many // 10 + 1)
            head["kinds"] = [head["kinds"][0]] * (many // 10 + 1)
            return f"{many // 10} groups", head, columns
        case 2:
            head |= {"n_classes": 10**12}
            return "10^12 classes", head, columns
        case _:
            head["clusters"] = [[{"hash": "splitmix64-md5/1"}] * (many // 100)] * max(len(head["totals"]), 1)
            return "many curves of clusters", head, columns


CHANGES = (change_head, change_head, change_head, change_column, change_column, change_rows, change_n, change_sizes)


# ---------------------------------------------------------------- the containers


def containers(rng: np.random.Generator) -> Iterator[Attack]:
    """Yield attacks on the archive itself, on text that is not JSON, and on Arrow's own types."""
    head, columns = parts_of(real()["weights"])
    size = len(columns["cell"])
    member = f"{rng.choice(list(columns))}.npy"
    plain = npy(list(range(size)))
    for name, data in {
        "a promised length": plain.replace(f"({size},), }}".encode() + b" " * 11, b"(4000000000000,), }"),
        "a header of tuples": plain[:10] + b"(" * (len(plain) - 11) + b"\n",
        "Python objects": npy([None] * size),
        "text": npy(["x"] * size),
        "complex": npy([1j] * size),
        "times": npy(np.zeros(size, "M8[s]")),
        "big-endian": npy(np.zeros(size, ">i4")),
        "half precision": npy(np.zeros(size, "f2")),
        "booleans": npy(np.ones(size, bool)),
        "two dimensions": npy(np.ones((size, 2))),
        "a number": npy(3),
        "wide": npy(np.ones(10**6)),
        "nothing": b"",
        "no header": b"\x93NUMPY\x09\x09",
    }.items():
        yield Attack(f"{member}: {name}", "bytes", to_bytes(head, columns, members={member: data}))
    files = {"sketch-2.json": json.dumps(head).encode(), **{f"{name}.npy": npy(x) for name, x in columns.items()}}
    yield Attack("compressed", "bytes", zipped(files, zipfile.ZIP_DEFLATED))
    for name in ("sketch-2.json", "cell.npy"):
        yield Attack(f"a bomb in {name}", "bytes", bomb(files, name))
    for name, text in {
        "deep": b"[" * 100_000,
        "deep objects": b'{"a":' * 100_000,
        "no UTF-8": b"\xff\xfe",
        "a list": b"[]",
        "a number": b"1",
        "many digits": b"1" * 10_000,
        "nothing": b"",
    }.items():
        yield Attack(f"head: {name}", "bytes", to_bytes(head, columns, members={"sketch-2.json": text}))
        yield Attack(f"text: {name}", "json", text)
        metadata = {"calibrant.sketch": text, "calibrant.sha256": "0" * 64}
        yield Attack(f"metadata: {name}", "arrow", pa.table(columns).replace_schema_metadata(metadata))
        body = b"\x89calsketch\r\n\n" + struct.pack("<IQ", 1, len(text)) + text
        yield Attack(f"version 1: {name}", "version 1", body + hashlib.sha256(body).digest())
    for length in (2**64 - 1, 2**63, 0):
        body = b"\x89calsketch\r\n\n" + struct.pack("<IQ", 1, length) + json.dumps(head).encode()
        yield Attack(f"version 1: length {length}", "version 1", body + hashlib.sha256(body).digest())
    table = FORMATS["arrow"](head, columns)
    for name, column in {
        "nulls": pa.nulls(size),
        "many nulls": pa.nulls(10**8),
        "some null": pa.array([None, *columns["cell"][1:]]),
        "text": pa.array(["1"] * size),
        "lists": pa.array([[1]] * size),
        "a dictionary": pa.array(columns["cell"]).dictionary_encode(),
        "large numbers": pa.array([2**64 - 1] * size, pa.uint64()),
        "booleans": pa.array([True] * size),
        "times": pa.array(columns["cell"], pa.timestamp("s")),
        "runs": pa.RunEndEncodedArray.from_arrays(pa.array([10**9], pa.int32()), pa.array([3])),
    }.items():
        if len(column) == table.num_rows:
            wrong = table.set_column(table.column_names.index("cell"), "cell", column)
        else:
            wrong = pa.table([column] * table.num_columns, names=table.column_names)
        yield Attack(f"Arrow: {name}", "arrow", wrong.replace_schema_metadata(table.schema.metadata))
    yield Attack("Arrow: a column twice", "arrow", table.append_column("cell", table.column("cell")))


def attacks(seed: int = 0) -> Iterator[Attack]:
    """Yield attacks without end: first those on the containers, then changed heads and columns in every format."""
    rng = np.random.default_rng(seed)
    yield from containers(rng)
    sketches = {name: parts_of(sketch) for name, sketch in real().items()}
    old = json.loads((GOLDEN / "sketch_v1.json").read_text())
    del old["sha256"]
    sketches["golden"] = old, old.pop("cells")
    for name, form in itertools.cycle(itertools.product(sketches, FORMATS)):
        head, columns = sketches[name]
        if form == "version 1" and "clusters" in head:
            continue
        how = []
        for _ in range(1 if rng.random() < 0.7 else 2):
            change = CHANGES[int(rng.integers(len(CHANGES)))]
            try:
                what, head, columns = change(rng, head, columns)
            except (KeyError, TypeError, IndexError, AttributeError, ValueError, OverflowError):
                continue  # the change before left nothing to change
            how.append(what)
        try:
            payload = FORMATS[form](head, columns)
        except (ValueError, TypeError, OverflowError, AttributeError, MemoryError):
            continue  # no such content can be written in this format
        if payload is not None:
            yield Attack(f"{name}: {' and '.join(how)}", form, payload)


# ---------------------------------------------------------------- what must happen


def tried(attack: Attack) -> str:
    """Load what an attack wrote; return "refused" or "accepted".

    Raises
    ------
    Exception
        Any but `InputError`, of the loader or of `evaluate`.
    AssertionError
        If a loaded sketch gives a number that is missing without a reason.
    """
    try:
        sketch = READERS[attack.format](attack.payload)
    except InputError:
        return "refused"
    if sketch.n == 0:
        return "accepted"
    check(sketch)
    return "accepted"


def check(sketch: CalibrationSketch) -> None:
    """Assert that a sketch is evaluated or refused, and that there is a reason for each number that is missing."""
    for each in (sketch, *sketch.groups.values()):
        clusters = each.clusters
        lone = clusters is not None and np.count_nonzero(clusters.event.rows) < 2
        try:
            report = calibrant.evaluate(each, n_resamples=0, level=None if lone else 0.95)
        except InputError:
            continue
        assert report.n == each.n
        assert str(report)
        for name, estimate in report.items():
            missing = math.isnan(estimate.value)
            assert not missing or "reason" in estimate.details, name


def limit_memory(size: int) -> None:
    """Let this process take so many more bytes of addresses than it has after it has evaluated real sketches."""
    import resource

    for sketch in real().values():
        if sketch.n:
            check(sketch)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + size,) * 2)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory", type=int, help="the most MB that all attacks may take, on top of Python itself")
    parser.add_argument("--verbose", action="store_true", help="name every attack before it is tried")
    options = parser.parse_args(arguments)
    if options.memory is not None:
        limit_memory(options.memory * 10**6)
    outcomes: Counter[str] = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for attack in itertools.islice(attacks(options.seed), options.n):
            if options.verbose:
                print(attack.format, ascii(attack.name), flush=True)
            try:
                outcomes[tried(attack)] += 1
            except Exception as error:
                outcomes["failed"] += 1
                print(f"{attack.format}: {attack.name}: {type(error).__name__}: {str(error)[:160]}", flush=True)
    print(dict(outcomes))
    return int(outcomes["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
