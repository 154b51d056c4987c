"""Record the numbers of reports, and compare them with those of another version.

    python tools/same_numbers.py record before.json     # in a checkout of the version before
    python tools/same_numbers.py compare before.json    # in this one: exit status 1 if a number differs

The numbers are those of `to_dict`: of thirteen reports on generated predictions, two comparisons, a noise floor, and a
report on each file in ``../shared/data``, if that folder exists. Numbers must be equal up to rounding: a relative
error of 1e-12, which is counted separately. Words may change.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import calibrant
from calibrant.inference import noise_floor

DATA = Path(__file__).parents[1] / ".." / "shared" / "data"


def event(n: int, seed: int, power: float = 1.3) -> tuple[np.ndarray, np.ndarray]:
    """Return scores of one event, and outcomes that happen less often than the scores say."""
    rng = np.random.default_rng(seed)
    scores = rng.random(n)
    return scores, (rng.random(n) < scores**power).astype(int)


def classes(n: int, width: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities of classes and labels drawn from flatter ones."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, width)) * 2
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    flat = np.exp(logits * 0.6) / np.exp(logits * 0.6).sum(axis=1, keepdims=True)
    labels = (rng.random((n, 1)) > flat.cumsum(axis=1)).sum(axis=1)
    return probs, np.minimum(labels, width - 1)


def generated() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the name of each report on generated predictions, and how to make it."""
    evaluate = calibrant.evaluate
    p, y = event(2_000, 1)
    rng = np.random.default_rng(2)
    integers, fractions = rng.integers(0, 4, 2_000), rng.random(2_000) * 3
    names = rng.choice(["a", "b", "c"], 2_000)
    yield "one event", lambda: evaluate(p, y)
    yield "whole weights and groups", lambda: evaluate(p, y, weights=integers, groups=names)
    yield "weights", lambda: evaluate(p, y, weights=fractions, n_bins=10)
    yield "no resamples", lambda: evaluate(p, y, n_resamples=0, level=0.9)
    yield "values alone", lambda: evaluate(p, y, level=None)
    yield "ties, few rows", lambda: evaluate(np.round(p[:50], 1), y[:50], n_bins=7)
    yield "certain and wrong", lambda: evaluate(np.append(p[:300], [0.0, 1.0]), np.append(y[:300], [1, 1]))
    probs, labels = classes(1_500, 5, 3)
    yield "classes", lambda: evaluate(probs, labels, groups=names[:1_500])
    yield "single precision", lambda: evaluate(probs.astype(np.float32), labels, notion="classwise")
    many = rng.random((800, 4))
    yield "labels", lambda: evaluate(many, rng.random((800, 4)) < many, notion="multilabel")
    yield "a sketch of events", lambda: evaluate(sketch(p, y, groups=names), n_bins=7)
    yield "a sketch of classes", lambda: evaluate(sketch(probs, labels, make={"classwise": True}), n_bins=9)
    yield "a table", lambda: evaluate(calibrant.ReliabilityTable.from_scores(p, y, grid="standard"), notion="top-label")
    yield "two models", lambda: calibrant.compare(p, p**1.3, y)
    yield "two sketches", lambda: calibrant.compare({"a": sketch(p, y), "b": sketch(p**1.3, y)})


def sketch(probs: Any, targets: Any, *, groups: Any = None, make: Any = None) -> calibrant.CalibrationSketch:
    """Return the sketch of predictions."""
    filled = calibrant.CalibrationSketch(**(make or {}))
    filled.update(probs, targets, groups=groups)
    return filled


def real() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the name of each report on a real file, and how to make it."""
    import pandas as pd

    columns = {
        "nba_games.csv": ("prob1", "prob1_outcome", "season"),
        "mlb_games.csv": ("prob1", "prob1_outcome", "season"),
        "governors_elections.csv": ("probwin", "probwin_outcome", "year"),
        "precip_niamey_2016.csv": ("EMOS", "obs", None),
    }
    for name, (score, outcome, group) in columns.items():
        frame = pd.read_csv(DATA / name)
        frame = frame[frame[outcome].isin([0, 1])]
        by = None if group is None else frame[group].to_numpy()
        yield name, lambda f=frame, s=score, o=outcome, b=by: calibrant.evaluate(f[s], f[o], groups=b)  # type: ignore[misc]
    for name in ("wideresnet-16-4-cifar-10.npz", "densenet-bc-100-cifar-100.npz"):
        arrays = np.load(DATA / name)
        probs, labels = arrays["predictions"], arrays["ground_truth"].reshape(-1)
        yield name, lambda p=probs, y=labels: calibrant.evaluate(p, y)  # type: ignore[misc]


def numbers(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every number of nested results, and every missing one, by its path."""
    if isinstance(value, dict):
        for key, entry in value.items():
            if key == "schema_version":
                continue
            yield from numbers(entry, f"{path}.{key}")
    elif isinstance(value, list):
        for i, entry in enumerate(value):
            yield from numbers(entry, f"{path}[{i}]")
    elif value is None or isinstance(value, (int, float)):
        yield path, value


def rounded(expected: Any, now: Any) -> bool:
    """Return whether two numbers differ by rounding alone."""
    both = (expected, now)
    return all(isinstance(x, float) for x in both) and abs(expected - now) <= 1e-12 * max(abs(x) for x in both)


def recorded() -> dict[str, dict[str, Any]]:
    """Return all numbers of all reports."""
    reports = {name: make().to_dict() for name, make in generated()}
    if DATA.is_dir():
        reports |= {name: make().to_dict() for name, make in real()}
    floor = noise_floor(500)
    reports["noise floor"] = {name: [one.mean, one.upper] for name, one in floor.floors.items()}
    return {name: dict(numbers(report)) for name, report in reports.items()}


def main(command: str, path: str) -> int:
    """Record or compare."""
    now = recorded()
    if command == "record":
        Path(path).write_text(json.dumps(now))
        print(f"{sum(map(len, now.values())):,} numbers of {len(now)} results")
        return 0
    before, different = json.loads(Path(path).read_text()), 0
    for name, expected in before.items():
        missing, added = expected.keys() - now[name].keys(), now[name].keys() - expected.keys()
        unequal = [key for key in expected.keys() & now[name].keys() if expected[key] != now[name][key]]
        changed = [key for key in unequal if not rounded(expected[key], now[name][key])]
        print(
            f"{name}: {len(expected):,} numbers, {len(changed)} differ, {len(unequal) - len(changed)} by rounding, "
            f"{len(missing)} gone, {len(added)} new"
        )
        for key in sorted(changed)[:20]:
            print(f"    {key}: {expected[key]!r} -> {now[name][key]!r}")
        for word, keys in (("gone", missing), ("new", added)):
            for key in sorted(keys)[: 0 if word == "new" else 20]:
                print(f"    {word}: {key}")
        different += len(changed) + len(missing)
    return int(different > 0)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("record", "compare"):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
