"""Stored sketches that somebody forged: each is refused with an `InputError`, or is as consistent as a real one."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sketches import FORMATS, READERS, attacks, parts_of, real, tried

from calibrant import CalibrationSketch
from calibrant.errors import InputError
from calibrant.table import grid as grids
from tests.examples_of import at_most

SHORT, LONG = 100, 2_000
HERE = Path(__file__).parent


def test_attacks_are_refused_or_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALIBRANT_MAX_MEMORY", str(2**27))
    outcomes = [tried(attack) for attack in itertools.islice(attacks(), SHORT)]
    assert outcomes.count("refused") > SHORT / 2
    assert outcomes.count("accepted") > SHORT / 50  # such as an extra key: the generator makes more than noise


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the limit of memory is Linux's")
def test_many_attacks_in_little_memory() -> None:
    command = [sys.executable, str(HERE / "sketches.py"), "--n", str(LONG), "--seed", "1", "--memory", "600"]
    environment = {**os.environ, "CALIBRANT_MAX_MEMORY": str(2**27)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=3600, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


# ---------------------------------------------------------------- what must still load


@pytest.mark.covering
@pytest.mark.parametrize("name", real())
@pytest.mark.parametrize("form", FORMATS)
def test_the_generator_writes_what_the_library_writes(name: str, form: str) -> None:
    """Else the attacks would be refused for another reason than theirs."""
    sketch = real()[name]
    if form == "version 1" and sketch.clusters is not None:
        return
    assert READERS[form](FORMATS[form](*parts_of(sketch))) == sketch


def loaded(sketch: CalibrationSketch) -> None:
    """Assert that a sketch comes back from each format."""
    assert CalibrationSketch.from_bytes(sketch.to_bytes()) == sketch
    assert CalibrationSketch.from_json(sketch.to_json()) == sketch
    assert CalibrationSketch.from_arrow(sketch.to_arrow()) == sketch


Draw = Callable[[np.random.Generator, Any], Any]

SCORES: dict[str, Draw] = {
    "uniform": lambda rng, shape: rng.random(shape),
    "rare": lambda rng, shape: 10.0 ** rng.uniform(-300, 0, shape),
    "sure": lambda rng, shape: 1 - 10.0 ** rng.uniform(-18, 0, shape),
    "certain": lambda rng, shape: rng.integers(0, 2, shape).astype(float),
    "edges": lambda rng, shape: rng.choice(grids.edges("standard"), shape),
    "few": lambda rng, shape: rng.choice([0.1, 0.5, 1 / 3], shape),
}
WEIGHTS: dict[str, Draw] = {
    "none": lambda _, n: None if n else n,
    "whole": lambda rng, n: rng.integers(0, 5, n),
    "large": lambda rng, n: rng.integers(0, 2**40, n),
    "fractions": lambda rng, n: rng.random(n),
    "equal": lambda _, n: np.full(n, 0.3),
    "tiny": lambda _, n: np.full(n, 1e-60),
    "huge": lambda _, n: np.full(n, 1e60),
    "mixed": lambda rng, n: 10.0 ** rng.uniform(-60, 60, n),
}


@at_most(100)
@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(["positive", "top-label", "pair", "classes", "classwise", "multilabel"]),
    scores=st.sampled_from(sorted(SCORES)),
    weights=st.sampled_from(sorted(WEIGHTS)),
    dtype=st.sampled_from([np.float16, np.float32, np.float64]),
    logits=st.booleans(),
    others=st.sampled_from(["", "groups", "clusters", "groups and clusters"]),
    grid=st.sampled_from(["standard", "fine"]),
    batches=st.integers(1, 4),
)
def test_every_real_sketch_is_loaded(
    seed: int,
    kind: str,
    scores: str,
    weights: str,
    dtype: type[np.floating],
    logits: bool,
    others: str,
    grid: str,
    batches: int,
) -> None:
    """The checks hold for rows of any kind: a mathematical error in one would refuse what somebody saved."""
    rng = np.random.default_rng(seed)
    options: dict[str, object] = {"grid": grid, "classwise": bool(rng.integers(2))}
    if kind not in ("classes", "pair"):
        options["notion"] = kind
    sketch = CalibrationSketch(**options)  # type: ignore[arg-type]
    width = 2 if kind == "pair" else 3
    for _ in range(batches):
        n = int(rng.integers(1, 80))
        one_event = kind in ("positive", "top-label")
        values = SCORES[scores](rng, n if one_event else (n, width))
        if not one_event and kind != "multilabel" and not logits:
            values = values + 1e-9
            values /= values.sum(axis=1, keepdims=True)
        if logits:
            values = rng.normal(0, 10.0 ** rng.integers(-9, 3), values.shape)
        batch = {"targets": rng.integers(0, 2 if one_event else width, n), "ignore_index": None}
        if kind == "multilabel":
            batch = {"targets": rng.integers(-1, 2, (n, width)), "ignore_index": -1}
        if "groups" in others:
            batch["groups"] = rng.integers(0, 3, n)
        if "clusters" in others and kind not in ("classwise", "multilabel"):
            batch["clusters"] = rng.integers(0, int(rng.choice([1, 9, 2**40])), n)
        weigh = WEIGHTS[weights] if rng.random() < 0.7 else WEIGHTS["none"]
        probs = values.astype(dtype).clip(None if logits else 0, None if logits else 1)
        sketch.update(probs, **batch, weights=weigh(rng, n), logits=logits)
    loaded(sketch)
    loaded(sketch + sketch)


def test_a_large_sketch_needs_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    sketch = real()["classes"]
    monkeypatch.setenv("CALIBRANT_MAX_MEMORY", "900000")
    with pytest.raises(
        InputError, match=r"data: expected a sketch of at most 1 MB in memory, got a sketch of 1 MB; if you"
    ):
        CalibrationSketch.from_bytes(sketch.to_bytes())
    for enough in ("2000000", "2MB", "2.5 MiB", " 0.01gb"):
        monkeypatch.setenv("CALIBRANT_MAX_MEMORY", enough)
        assert CalibrationSketch.from_bytes(sketch.to_bytes()) == sketch
