"""States of monitors that are damaged or forged: each is refused with a `FileError`, or has the content of its JSON.

`python tests/fuzz/states.py --n 20000` tries more of them.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
from states import BODIES, FOREIGN, Attack, attacks, forged, real, tried

from calibrant.errors import FileError, InputError
from calibrant.monitoring import state

LISTED = len(FOREIGN) + len(BODIES)


@pytest.mark.parametrize(("seed", "count"), [(0, 600), pytest.param(1, 30_000, marks=pytest.mark.slow)])
def test_attacks_are_refused_or_harmless(seed: int, count: int) -> None:
    outcomes = [tried(attack) for attack in itertools.islice(attacks(seed), count)]
    assert outcomes.count("refused") > count / 2
    assert outcomes.count("accepted") > count / 20  # the generator makes more than noise


def test_all_listed_attacks_are_refused() -> None:
    accepted = [attack.name for attack in itertools.islice(attacks(), LISTED) if tried(attack) == "accepted"]
    assert accepted == []


@pytest.mark.parametrize("name", real())
def test_the_generator_writes_what_the_library_writes(name: str) -> None:
    """Else the attacks would be refused for another reason than theirs."""
    lines = [f"{json.dumps(key)}: {json.dumps(value)},\n" for key, value in real()[name].items()]
    assert tried(Attack(name, forged("".join(lines).encode()))) == "accepted"
    assert state.decode(forged("".join(lines).encode()), "a.json") == real()[name]


def test_the_attack_finds_a_decoder_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, a broken harness would find nothing for ever."""
    attack = Attack("one", forged(b'"a": 1,\n'))
    monkeypatch.setattr(state, "decode", lambda *_: {"a": 2})
    with pytest.raises(AssertionError):
        tried(attack)


ITEMS: dict[str, str] = {
    "lists": "[]",
    "objects": "{}",
    "objects of one": '{"a": 1}',
    "floats": "1.5",
    "texts": '"ab"',
    "wide texts": '"😀ab"',
    "long texts": json.dumps("A" * 600),
}


@pytest.mark.parametrize("item", ITEMS)
def test_memory_is_bounded_by_the_size(item: str) -> None:
    """26 times: an empty object takes 64 bytes, 8 in its list and as many in the pairs, and is written with 3 bytes."""
    count = max(1, 600_000 // len(ITEMS[item]))
    data = forged(f'"a": [{",".join([ITEMS[item]] * count)}],\n'.encode())
    tracemalloc.start()
    try:
        assert len(state.decode(data, "a.json")["a"]) == count
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < (4 if item == "long texts" else 26) * len(data)


def test_a_file_of_a_gigabyte_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with path.open("wb") as stream:
        stream.write(state.encode({"a": 1}))
        stream.truncate(10**9)  # a file with a hole
    tracemalloc.start()
    try:
        with pytest.raises(FileError, match=r"a\.json: has more than 100,000,000 bytes; name a state that"):
            state.read(path)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_a_small_file_takes_little_memory(tmp_path: Path) -> None:
    state.write(tmp_path / "a.json", {"a": 1})
    tracemalloc.start()
    try:
        assert state.read(tmp_path / "a.json") == {"a": 1}
        assert (
            tracemalloc.get_traced_memory()[1] < 500_000
        )  # Python's own buffers, and not the most that a file may have
    finally:
        tracemalloc.stop()


@pytest.mark.skipif(os.name != "posix", reason="devices of POSIX")
@pytest.mark.parametrize("path", ["/dev/zero", "/dev/full"])
def test_a_device_is_not_read(path: str) -> None:
    with pytest.raises(FileError, match="is not a regular file"):
        state.read(path)


@pytest.mark.parametrize("shape", [None, (0,), (50,), (10**12,), (10**6,)])
def test_packed_zeros_take_the_memory_of_the_shape(shape: tuple[int, ...] | None) -> None:
    """The text has three copies: decoded, and what is left of it."""
    text = "f8z:" + base64.b64encode(zlib.compress(bytes(5 * 10**7))).decode()
    most = min(8_000_000, 8 * shape[0]) if shape else 8_000_000
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="packed numbers of type float64"):
            state.unpack(text, np.float64, shape)
        assert tracemalloc.get_traced_memory()[1] < 2 * most + 4 * len(text)
    finally:
        tracemalloc.stop()
