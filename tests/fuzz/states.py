"""Attacks on stored states of monitors: real states with damaged bytes, and foreign content with a checksum that fits.

`attacks` yields them without end, the same ones for the same seed. As a program it tries as many as ``--n`` says, and
ends with status 1 if one gets through:

    python tests/fuzz/states.py --n 20000 --seed 7
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import itertools
import json
import math
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from golden_files import mutations

from calibrant.errors import FileError, InputError
from calibrant.monitoring import state

HEAD = b'{\n"format": "calibrant.monitor",\n"version": 3,\n'
TYPES: dict[str, tuple[Any, tuple[int, ...] | None]] = {
    "logs": (np.float64, (50,)),
    "cells": (np.int64, None),
    "counts": (np.float64, (2, 7)),
}


class Attack(NamedTuple):
    """The bytes of a state, and what was done to it."""

    name: str
    data: bytes


def real() -> dict[str, dict[str, Any]]:
    """Return the content of small states, with text, numbers at the ends of their ranges, and packed arrays."""
    rng = np.random.default_rng(0)
    arrays = {"logs": rng.normal(size=50), "cells": np.arange(7), "counts": np.zeros((2, 7))}
    packed = {name: state.pack(array) for name, array in arrays.items()}
    slices = [{"label": f"2026-0{k}", "n": 800.0 + k, "gap": float(rng.normal())} for k in range(1, 4)]
    numbers = [5e-324, 1.7976931348623157e308, -0.0, 0.1, 2**63, -(2**70), True, None]
    return {
        "nothing": {},
        "slices": {"alpha": 0.05, "slices": slices, **packed},
        "texts": {"groups": {"süd 😀": {"n": 1}, 'a"b\\c\n': {}}, "names": ["", "\u2028", "NaN", "}{"]},
        "numbers": {"numbers": numbers, "deep": [[[[{}]]]]},
    }


def forged(body: bytes) -> bytes:
    """Return any lines after the first two, with the checksum that fits."""
    data = HEAD + body
    return data + b'"checksum": "' + hashlib.sha256(data).hexdigest().encode() + b'"\n}\n'


FOREIGN: dict[str, bytes] = {
    "nothing": b"",
    "a list": b"[]",
    "a number": b"1",
    "text": b"hello",
    "zeros": bytes(1000),
    "not UTF-8": b"\xff\xfe{\x00}\x00",
    "a byte order mark": b"\xef\xbb\xbf" + HEAD,
    "a map": b'{\n "schema": "calibrant.map",\n "version": 1\n}\n',
    "a workbook": b"PK\x03\x04" + bytes(100),
    "a pickle": b"\x80\x04\x95\x10\x00cposix\nsystem\n(S'false'\ntR.",
    "its format twice": b'{"format": "calibrant.monitor", "format": "calibrant.monitor", "version": 1}',
    "a conflict of Git": b"<<<<<<< HEAD\n" + HEAD,
}
BODIES: dict[str, bytes] = {
    "NaN": b'"a": NaN,\n',
    "infinity": b'"a": -Infinity,\n',
    "a number that overflows": b'"a": [1e999],\n',
    "many digits": b'"a": ' + b"1" * 10_000 + b",\n",
    "a key twice": b'"a": 1,\n"a": 1,\n',
    "a key twice, escaped": b'"a": 1,\n"\\u0061": 1,\n',
    "a key twice inside": b'"a": {"b": 1, "b": 2},\n',
    "another version": b'"version": 3,\n',
    "another checksum": b'"checksum": "' + b"0" * 64 + b'",\n',
    "two states": b'"a": 1}\n' + HEAD,
    "deep lists": b'"a": ' + b"[" * 100_000 + b"]" * 100_000 + b",\n",
    "deeper lists": b'"a": ' + b"[" * 2_000_000 + b"]" * 2_000_000 + b",\n",
    "deep objects": b'"a": ' + b'{"b":' * 21 + b"1" + b"}" * 21 + b",\n",
    "open lists": b'"a": ' + b"[" * 900_000,
    "many lists": b'"a": [' + b"[]," * 600_000 + b"[]],\n",
    "half a surrogate": b'"a": "\\ud800",\n',
    "half a surrogate in a key": b'"\\udc00": 1,\n',
    "half a surrogate in UTF-8": b'"a": "\xed\xa0\x80",\n',
    "not UTF-8": b'"a": "\xff",\n',
    "a line in text": b'"a": "x\ny",\n',
    "a comment": b'/* "a": 1, */\n',
    "Python": b'"a": __import__("os"),\n',
    "a comma too many": b'"a": [1,],\n',
    "no comma": b'"a": 1\n',
    "zeros": b'"a": "' + bytes(10) + b'",\n',
}
_VALUES: tuple[Any, ...] = (
    *(-1, 0, 1, 2**63, 10**400, 0.0, -0.0, 1e-320, 1e308, math.nan, math.inf, True, None, "", "x", "\ud800"),
    *([], {}, [[]], {"a": 1}, "f8:", "f8z:", "i8:AAAA", "f8:AAAAAAAAAAA=", "f8z:eJwDAAAAAAE="),
)


def _replaced(value: Any, rng: np.random.Generator) -> Any:
    """Return a copy with another value somewhere inside."""
    if isinstance(value, (dict, list)) and value and rng.random() < 0.9:
        value = copy.copy(value)
        places = list(value) if isinstance(value, dict) else list(range(len(value)))
        place = places[int(rng.integers(len(places)))]
        value[place] = _replaced(value[place], rng)
        return value
    return _VALUES[int(rng.integers(len(_VALUES)))]


def attacks(seed: int = 0) -> Iterator[Attack]:
    """Yield attacks without end: the listed ones first, then damaged bytes and changed values in turn."""
    rng = np.random.default_rng(seed)
    for name, data in FOREIGN.items():
        yield Attack(name, data)
    for name, body in BODIES.items():
        yield Attack(name, forged(body))
    for version in (b"0", b"1", b"2", b"999999999", b"-1", b"1.0", b"01", b"null", b'"1"', b"1" * 10_000):
        yield Attack(
            f"version {version[:20]!r}", forged(b"").replace(b": %d," % state.VERSION, b": " + version + b",", 1)
        )
    damaged = {name: mutations(state.encode(content), rng) for name, content in real().items()}
    for name, content in itertools.cycle(real().items()):
        yield Attack(f"{name}: damaged", next(damaged[name]))
        lines = [f"{json.dumps(key)}: {json.dumps(value)},\n" for key, value in _replaced_all(content, rng).items()]
        yield Attack(f"{name}: changed", forged("".join(lines).encode()))
        body = state.encode(content).partition(HEAD)[2].rpartition(b'"checksum')[0]
        yield Attack(f"{name}: damaged, with a checksum that fits", forged(next(mutations(body, rng))))


def _replaced_all(content: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    changed = _replaced(content, rng) if content else {"a": _replaced(None, rng)}
    return changed if isinstance(changed, dict) else {"a": changed}


def tried(attack: Attack) -> str:
    """Decode an attack; return "refused" or "accepted".

    Raises
    ------
    Exception
        Any but `FileError`, of the decoder or of `unpack`.
    AssertionError
        If a decoded state is not what JSON says, or is not decoded again when it is written.
    """
    try:
        content = state.decode(attack.data, "a.json")
    except FileError as error:
        refused = error
    else:
        check(attack, content)
        return "accepted"
    assert refused.path == "a.json"
    assert refused.remedy
    assert len(str(refused)) < 500, "a message shows some of the state, not all"
    return "refused"


def check(attack: Attack, content: dict[str, Any]) -> None:
    """Assert that decoded content is that of the JSON, and is decoded again when it is written."""
    plain = json.loads(attack.data)
    assert {**content, "format": "calibrant.monitor", "version": state.VERSION, "checksum": plain["checksum"]} == plain
    assert json.dumps(state.decode(state.encode(content), ""), allow_nan=False) == json.dumps(content)
    for text in _inside(content):
        for dtype, shape in TYPES.values():
            try:
                array = state.unpack(text, dtype, shape)
            except InputError:
                continue
            assert array.dtype == dtype
            assert array.shape == (shape or (array.size,))


def _inside(value: Any) -> Iterator[Any]:
    """Yield every value inside a value."""
    yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _inside(each)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    outcomes: Counter[str] = Counter()
    for attack in itertools.islice(attacks(options.seed), options.n):
        try:
            outcomes[tried(attack)] += 1
        except Exception as error:
            outcomes["failed"] += 1
            print(f"{attack.name!a}: {type(error).__name__}: {str(error)[:160]!a}", flush=True)
    print(dict(outcomes))
    return int(outcomes["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
