"""The repr of every public result is one line that says what it is; the text of the terminal is that of `str`."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import Enum
from functools import cache
from importlib import import_module
from typing import Any, get_origin

import numpy as np
import pytest

import calibrant
from calibrant import inference
from calibrant.errors import InputError
from calibrant.render.shown import Shown
from calibrant.sklearn import (
    MappedClassifier,
    RecalibratedClassifier,
    Recalibrator,
    ReliabilityDisplay,
    ThresholdedClassifier,
)

PACKAGES = ("", "inference", "monitoring", "recalibration", "report", "results", "sklearn")
PACKAGES += ("thresholds", "torch")

#: What users make or catch, and whose repr is that of scikit-learn, torchmetrics, Enum or an exception.
OTHERS = {"CalibrantError", "Code", "Scorer"}

LONGEST = 700


def public_classes() -> set[type]:
    """Every class with a public name."""
    found: set[type] = set()
    for name in PACKAGES:
        module = import_module(f"calibrant.{name}".rstrip("."))
        values = [getattr(module, public) for public in module.__all__]
        found |= {value for value in values if inspect.isclass(value) and get_origin(value) is None}
    return {each for each in found if each.__name__ not in OTHERS and not _is_metric(each)}


def _is_metric(kind: type) -> bool:
    return any(base.__module__.startswith("torchmetrics") for base in kind.__mro__)


def log_of(seed: int, extra: float = 0.0) -> Any:
    rng = np.random.default_rng(seed)
    rows = []
    for k in range(300):
        p = float(rng.random())
        options = rng.dirichlet(np.ones(3)).tolist()
        answers = {
            "urgent\nor not": {"noul": round(p**2 + extra * (p - p**2), 6)},
            "topic": {"probabilities": dict(zip("abc", options, strict=True))},
        }
        labels = {"urgent\nor not": bool(rng.random() < p), "topic": "abc"[int(rng.integers(3))]}
        rows.append({"id": k, "answers": answers, "labels": labels})
    return rows


@cache
def results() -> tuple[Any, ...]:
    """Results of every kind; names of groups, classes, models and columns have line breaks."""
    rng = np.random.default_rng(1)
    p = rng.random(2_000)
    y = (rng.random(2_000) < p**1.4).astype(int)
    probs = rng.dirichlet(np.ones(5), 800)
    targets = (rng.random((800, 1)) > np.cumsum(probs**1.5, axis=1) / (probs**1.5).sum(1, keepdims=True)).sum(axis=1)
    groups = np.array(["north\nwest", "south"])[np.arange(2_000) % 2]
    sketch = calibrant.CalibrationSketch()
    sketch.update(p, y)
    watch = calibrant.Monitor(tolerance=0.01)
    for week in range(3):
        watch.update(p, y, groups=groups, label=f"week\n{week}")
    fix = calibrant.recalibrate(p, y)
    report = calibrant.evaluate(p, y, groups=groups, tolerance=0.05, n_resamples=99)
    names = [f"class\n{k}" for k in range(5)]
    of_classes = calibrant.evaluate(probs, targets.clip(max=4), class_names=names, n_resamples=0)
    models = {f"model\n{k}": p ** (1 + k / 10) for k in range(12)}
    compared = calibrant.compare(models, y, groups=groups)
    found: list[Any] = [report, of_classes, compared, fix, fix.map, fix.map.check(p**2), sketch, sketch.table, watch]
    found += [watch.drift, calibrant.compare({"A": p, "B": p**2}, y, tolerance=0.01)]
    found += [calibrant.compare_results({name: p < each for name, each in models.items()})]
    found += [calibrant.prior_shift(p**2, trained_prior=0.5, reference=p)]
    found += [calibrant.recalibrate(probs, targets.clip(max=4), method="temperature")]
    found += [calibrant.recalibrate(np.stack([p, p**2], 1), np.stack([y, y], 1), notion="multilabel")]
    found += [calibrant.certify_threshold(p, y, max_risk=0.3, groups=groups, cost_of_error=9, cost_of_referral=1)]
    found += [calibrant.certify_two_sided(p, y, yes_risk=0.3, no_risk=0.3)]
    found += [calibrant.net_benefit(p, y), calibrant.murphy_curve(p, y), calibrant.risk_coverage_curve(p, y)]
    found += [calibrant.squared_kernel_calibration_error(p, y), calibrant.variational_calibration_error(p, y)]
    found += [calibrant.score_decomposition(p, y), calibrant.multicalibration_error(p, y, groups=groups)]
    found += [calibrant.classwise_calibration(probs, targets.clip(max=4)), calibrant.reliability_diagram(p, y)]
    found += [inference.ks_test(p, y), inference.noise_floor(500)]
    found += _of_logs()
    found += [
        Recalibrator(),
        ReliabilityDisplay.from_predictions(y, p),
        *_of_models(fix),
        MappedClassifier(None, fix.map),
    ]
    return tuple(found)


def _of_logs() -> list[Any]:
    logs = [calibrant.read_decisions(log_of(0, extra)) for extra in (0.0, 0.5)]
    compared = calibrant.compare(dict(zip(("old", "new"), logs, strict=True)))
    gates = calibrant.certify_questions(logs[0], max_risk=0.4)
    return [
        logs[0],
        calibrant.evaluate(logs[0], n_resamples=0),
        compared,
        calibrant.recalibrate(logs[0]),
        gates,
        gates.observed_gate("urgent\nor not"),
    ]


def _of_models(fix: Any) -> list[Any]:
    from sklearn.linear_model import LogisticRegression

    from calibrant.torch import RecalibrationLayer

    x = np.random.default_rng(0).normal(size=(300, 2))
    models = [RecalibratedClassifier(LogisticRegression()), ThresholdedClassifier(LogisticRegression(), max_risk=0.4)]
    return [RecalibrationLayer(fix.map), *(model.fit(x, (x[:, 0] > 0).astype(int)) for model in models)]


def walked(value: Any, depth: int = 4) -> Iterator[Any]:
    """Every object of this package within a result."""
    if isinstance(value, Mapping) or type(value) in (tuple, list):
        parts = list(value.values() if isinstance(value, Mapping) else value)[:4]
        yield from (each for part in parts for each in walked(part, depth))
    if not type(value).__module__.startswith("calibrant.") or isinstance(value, Enum):
        return
    yield value
    names = {field.name for field in dataclasses.fields(value)} if dataclasses.is_dataclass(value) else set()
    names |= {*getattr(value, "_fields", ()), "classwise", "leaderboard", "drift", "curve", "curves", "descriptions"}
    for name in sorted(names) if depth else ():
        with suppress(InputError):  # what this result does not have
            yield from walked(getattr(value, name, None), depth - 1)


def test_the_repr_of_every_public_result_is_one_line() -> None:
    pytest.importorskip("torch", reason="torch is not installed (extra 'torch')")
    public, found = public_classes(), set()
    for value in (each for result in results() for each in walked(result)):
        if type(value) not in public:
            continue
        found.add(type(value))
        said = repr(value)
        assert said.startswith((f"<{type(value).__name__}", type(value).__name__, "ThresholdedClassifier")), said[:200]
        assert len(said.splitlines()) == 1 or "sklearn" in type(value).__module__, said[:500]
        assert len(said) <= LONGEST, said
    assert public - found == set()


def test_what_is_printed_is_the_text_of_the_terminal() -> None:
    for value in results():
        if isinstance(value, Shown):
            assert len(str(value).splitlines()) > 3
            assert str(value) != repr(value)
