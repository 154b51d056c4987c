"""Small good files of every format, and seeded mutations of their bytes, for the attacks on the readers."""

from __future__ import annotations

import gzip
import io
import json
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

ROWS = 60
_NUMBERS = (0, 1, 2, 7, 8, 63, 64, 127, 128, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1)
_TOKENS = (b"", b"\x00", b"\xff", b"NaN", b"-1", b"1e309", b'"', b"\n", b"\r", b",", b"{", b"[", b"]]", b"\xef\xbb\xbf")


def columns(rows: int = ROWS) -> dict[str, Any]:
    """Return columns of every kind that a prediction may have."""
    rng = np.random.default_rng(1)
    score = rng.random(rows)
    classes = rng.dirichlet(np.ones(3), rows)
    return {
        "score": score,
        "outcome": (rng.random(rows) < score).astype(np.int64),
        "weight": rng.integers(1, 4, rows).astype(np.float32),
        "site": np.array(["north", "süd", "east"])[rng.integers(0, 3, rows)],
        "patient": rng.integers(0, 12, rows),
        "probs": classes,
        "label": rng.integers(0, 3, rows),
    }


def golden() -> dict[str, bytes]:
    """Return a good file of each format, by a name with its ending; several variants where the layout differs."""
    return {**_arrays(), **_texts(), **_tables()}


def _arrays() -> dict[str, bytes]:
    data = columns()
    files = {}
    for name, save, order in (
        ("plain.npz", np.savez, "C"),
        ("compressed.npz", np.savez_compressed, "C"),
        ("by_columns.npz", np.savez_compressed, "F"),
    ):
        stream = io.BytesIO()
        save(stream, **{key: np.asarray(value, order=order) for key, value in data.items()})  # type: ignore[operator]
        files[name] = stream.getvalue()
    stream = io.BytesIO()
    np.save(stream, data["score"])
    files["score.npy"] = stream.getvalue()
    return files


def _texts() -> dict[str, bytes]:
    flat = {name: column.tolist() for name, column in columns().items() if column.ndim == 1}
    rows = [dict(zip(flat, row, strict=True)) for row in zip(*flat.values(), strict=True)]
    lists = columns()["probs"].tolist()
    lines = [",".join(flat), *(",".join(map(str, row.values())) for row in rows)]
    objects = [
        json.dumps({**row, "probs": numbers}, ensure_ascii=False) for row, numbers in zip(rows, lists, strict=True)
    ]
    csv, jsonl = ("\n".join(each).encode() + b"\n" for each in (lines, objects))
    return {
        "flat.csv": csv,
        "flat.csv.gz": gzip.compress(csv, mtime=0),
        "rows.jsonl": jsonl,
        "rows.jsonl.gz": gzip.compress(jsonl, mtime=0),
    }


def _tables() -> dict[str, bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import ipc

    data = columns()
    arrays = {name: pa.array(value if value.ndim == 1 else value.tolist()) for name, value in data.items()}
    arrays["site"] = arrays["site"].dictionary_encode()
    arrays["text"] = pa.array(data["site"])
    arrays["tenth"] = pa.array([None if x < 0.1 else x for x in data["score"]])
    table = pa.table(arrays)
    files = {}
    for name, options in (
        ("plain.parquet", {"compression": "none", "use_dictionary": False}),
        ("pages.parquet", {"compression": "snappy", "row_group_size": 20, "write_page_checksum": True}),
    ):
        stream = io.BytesIO()
        pq.write_table(table, stream, **options)
        files[name] = stream.getvalue()
    for name, new, compression in (
        ("file.arrow", ipc.new_file, None),
        ("compressed.feather", ipc.new_file, "zstd"),
        ("stream.arrow", ipc.new_stream, None),
    ):
        stream = io.BytesIO()
        with new(stream, table.schema, options=ipc.IpcWriteOptions(compression=compression)) as writer:
            writer.write_table(table, max_chunksize=25)
        files[name] = stream.getvalue()
    return files


def mutations(data: bytes, rng: np.random.Generator) -> Iterator[bytes]:
    """Yield damaged copies without end: flipped bits, numbers written over, cuts, and pieces moved or repeated."""
    kinds = (_flip, _number, _number, _cut, _insert, _move, _repeat)
    while True:
        damaged = bytearray(data)
        for _ in range(int(rng.choice([1, 1, 1, 2, 5]))):
            kinds[rng.integers(len(kinds))](damaged, rng)
        yield bytes(damaged)


def _flip(data: bytearray, rng: np.random.Generator) -> None:
    if data:
        data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))


def _number(data: bytearray, rng: np.random.Generator) -> None:
    size = int(rng.choice([1, 2, 4, 8]))
    value = _NUMBERS[rng.integers(len(_NUMBERS))] * int(rng.choice([1, 1, -1]))
    if len(data) >= size:
        at = int(rng.integers(len(data) - size + 1)) // size * size
        data[at : at + size] = struct.pack("<q", value)[:size]


def _cut(data: bytearray, rng: np.random.Generator) -> None:
    first, last = sorted(rng.integers(0, len(data) + 1, 2).tolist())
    if rng.random() < 0.5:
        del data[first : min(last, first + 64)]
    else:
        del data[last:]


def _insert(data: bytearray, rng: np.random.Generator) -> None:
    at = int(rng.integers(len(data) + 1))
    data[at:at] = _TOKENS[rng.integers(len(_TOKENS))] * int(rng.integers(1, 4))


def _move(data: bytearray, rng: np.random.Generator) -> None:
    size = int(rng.integers(1, 65))
    if len(data) >= size:
        source, target = (int(rng.integers(len(data) - size + 1)) for _ in range(2))
        data[target : target + size] = data[source : source + size]


def _repeat(data: bytearray, rng: np.random.Generator) -> None:
    first = int(rng.integers(len(data) + 1))
    data[first:first] = data[first : first + int(rng.integers(1, 200))] * int(rng.integers(1, 20))
