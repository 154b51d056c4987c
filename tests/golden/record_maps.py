"""Record the recalibration maps that other packages fit to the cases below, into maps.json beside this file.

To run it again, in an environment of its own (the tests need none of these packages), with Python 3.11:

    python -m venv maps-env
    maps-env/bin/pip install torch==2.13.0
    maps-env/bin/pip install scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1 statsmodels==0.15.0 probcal==0.4.0
    maps-env/bin/pip install betacal==1.1.0 probmetrics==1.3.0 netcal==1.4.0 numba
    maps-env/bin/python tests/golden/record_maps.py

The cases are made from seeds, with uniform numbers, arithmetic and square roots only, so that the recorder and the
tests see the same rows. Packages move scores into different ranges before they take logarithms. So each package is
given scores that are already in [CLIP, 1 - CLIP], and so is calibrant.

In maps.json each package has, for each case:

- map: the mapped scores of `GRID`; for classes, the mapped probabilities of the first `SHOWN` test rows
- loss: the mean log loss of the rows that it was fitted to, weighted with their weights
- test_loss: the mean log loss of the test rows (classes only)
- parameters: what the package calls its intercept and slope (or its inverse temperature)

Isotonic fits are recorded at the distinct scores, as runs of equal values: [value, how many scores].
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FILE = Path(__file__).resolve().parent / "maps.json"
PACKAGES = ("numpy", "scipy", "scikit-learn", "statsmodels", "probcal", "betacal", "probmetrics", "netcal", "torch")

#: Scores are moved into [CLIP, 1 - CLIP] first: sin(pi / 8192) ** 2.
CLIP = math.sin(math.pi / 8192) ** 2
#: The probabilities of classes are cut here, in the packages and in the tests.
LEAST = 2.0**-126

GRID = np.array(
    [1e-6, 1e-4, 1e-3, 0.01, 0.03, *np.arange(1, 16) / 16, 0.97, 0.99, 1 - 1e-3, 1 - 1e-4, 1 - 1e-6], np.float64
)
SHOWN = 5


class Case(NamedTuple):
    """Scores (N,) of an event, outcomes (N,), and weights (N,) or None."""

    probs: np.ndarray
    targets: np.ndarray
    weights: np.ndarray | None = None


class Classes(NamedTuple):
    """Probabilities (N, C) and targets (N,) of the rows to fit and of the rows to test."""

    probs: np.ndarray
    targets: np.ndarray
    test_probs: np.ndarray
    test_targets: np.ndarray


def cases() -> dict[str, Case]:
    """Return name -> case of one event."""
    found = {}
    for n in (60, 400, 3_000):
        rng = np.random.default_rng(n)
        p, u = rng.random(n), rng.random(n)
        found[f"uniform {n}"] = Case(p, (u < 0.15 + 0.6 * p).astype(np.int64))
    rng = np.random.default_rng(7)
    p, u, v = rng.random((3, 800))
    found["tenths"] = Case(np.round(p, 1), (u < 0.1 + 0.8 * p * p).astype(np.int64))
    found["hundredths"] = Case(np.round(p, 2), (u < np.sqrt(p)).astype(np.int64))
    rare, y = p * p * p * p / 5, (u < p * p * p / 3).astype(np.int64)
    found["rare"] = Case(rare, y)
    odds = np.sqrt(p) * p / (1 - p)
    odds = odds * odds * odds * odds
    extreme = odds / (1 + odds)
    extreme[:6], extreme[-6:] = 0, 1
    found["near 0 and 1"] = Case(extreme, (u < 0.05 + 0.9 * p).astype(np.int64))
    # The rate falls again at high scores, so that beta calibration has a factor at its bound 0.
    found["factor 0"] = Case(p, (u < 0.1 + 3.2 * p * (1 - p) * (1 - p / 4)).astype(np.int64))
    found["counts"] = Case(p, (u < 0.15 + 0.6 * p).astype(np.int64), np.floor(5 * v))
    found["weights"] = Case(np.round(p, 2), (u < 0.3 + 0.6 * p).astype(np.int64), 0.25 + 2 * v)
    return found


def classes() -> dict[str, Classes]:
    """Return name -> case of several classes."""
    found = {}
    for c, n in ((2, 1_500), (3, 1_000), (4, 2_000), (10, 4_000)):
        found[f"{c} classes"] = _classes(np.random.default_rng([n, c]), c, n)
    zeros = _classes(np.random.default_rng(3), 4, 1_500, zeros=True)
    found["4 classes, zeros"] = zeros
    return found


def _classes(rng: np.random.Generator, c: int, n: int, *, zeros: bool = False) -> Classes:
    raw, u = rng.random((n + 4_000, c)), rng.random(n + 4_000)
    cubes = raw * raw * raw
    roots = np.sqrt(cubes)
    truth = _normalised(roots * np.sqrt(roots) * (1 + np.arange(c) / c) + 0.002)
    if zeros:
        cubes = np.where(raw < 0.2, 0, cubes) + (np.arange(c) == 0) * 1e-3
    probs = _normalised(cubes)
    targets, reached = np.zeros(len(u), np.int64), np.zeros(len(u))
    for k in range(c - 1):
        reached = reached + truth[:, k]
        targets += u >= reached
    return Classes(probs[:n], targets[:n], probs[n:], targets[n:])


def _normalised(weights: np.ndarray) -> np.ndarray:
    # Column after column: NumPy's order of a sum may differ between machines.
    return weights / sum(weights.T)[:, None]


def kept(case: Case) -> Case:
    """Return the rows of weight above 0: probcal refuses others."""
    if case.weights is None:
        return case
    rows = case.weights > 0
    return Case(case.probs[rows], case.targets[rows], case.weights[rows])


def inside(p: np.ndarray) -> np.ndarray:
    """Return scores in [CLIP, 1 - CLIP]."""
    return np.clip(p, CLIP, 1 - CLIP)


def log_odds(p: np.ndarray) -> np.ndarray:
    """Return the log-odds of scores."""
    return np.log(inside(p)) - np.log1p(-inside(p))


def log_loss(q: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Return the mean log loss of probabilities (N,) of an event, or (N, C) of classes."""
    q = np.asarray(q, np.float64)
    right = q[np.arange(len(y)), y] if q.ndim == 2 else np.where(y == 1, q, 1 - q)
    return float(np.average(-np.log(right), weights=weights))


def platt_targets(y: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Return Platt's targets: (N1 + 1) / (N1 + 2) with the event, 1 / (N0 + 2) without it."""
    w = np.ones(len(y)) if weights is None else weights
    positives, negatives = float(w[y == 1].sum()), float(w[y == 0].sum())
    return np.where(y == 1, (positives + 1) / (positives + 2), 1 / (negatives + 2))


def load() -> dict[str, Any]:
    """Return the recording."""
    return json.loads(FILE.read_text(encoding="utf-8"))


# ---------------------------------------------------------------- what each package fits

Answer = tuple[str, Callable[[np.ndarray], Any], dict[str, float]]


def _statsmodels(case: Case) -> Iterator[Answer]:
    import statsmodels.api as sm

    z, y, weights = log_odds(case.probs), case.targets, case.weights
    tight = {"tol": 1e-14, "tol_criterion": "params", "maxiter": 200}
    for name, targets in (("cox", y), ("platt", platt_targets(y, weights))):
        fit = sm.GLM(targets, sm.add_constant(z), sm.families.Binomial(), freq_weights=weights).fit(**tight)
        intercept, slope = fit.params.tolist()
        yield (
            f"statsmodels/{name}",
            lambda p, fit=fit: fit.predict(sm.add_constant(log_odds(p))),
            {"intercept": intercept, "slope": slope},
        )
    fit = sm.GLM(y, np.ones(len(y)), sm.families.Binomial(), freq_weights=weights, offset=z).fit(**tight)
    (shift,) = fit.params.tolist()
    yield "statsmodels/shift", lambda p: fit.predict(np.ones(len(p)), offset=log_odds(p)), {"intercept": shift}


def _sklearn(case: Case) -> Iterator[Answer]:
    from sklearn.calibration import _SigmoidCalibration, _TemperatureScaling
    from sklearn.linear_model import LogisticRegression

    z, y, weights = log_odds(case.probs), case.targets, case.weights
    line = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-12).fit(z[:, None], y, weights)
    yield (
        "sklearn/logistic regression",
        lambda p: line.predict_proba(log_odds(p)[:, None])[:, 1],
        {"intercept": float(line.intercept_[0]), "slope": float(line.coef_[0, 0])},
    )
    sigmoid = _SigmoidCalibration().fit(z, y, weights)
    yield (
        "sklearn/sigmoid",
        lambda p: sigmoid.predict(log_odds(p)),
        {"intercept": -float(sigmoid.b_), "slope": -float(sigmoid.a_)},
    )

    # Of numbers in [0, 1] that sum to 1 it takes the logarithm of p + 1e-12: give it the logarithms.
    def logs(p: np.ndarray) -> np.ndarray:
        return np.stack([np.log1p(-inside(p)), np.log(inside(p))], axis=1)

    temperature = _TemperatureScaling().fit(logs(case.probs), y, weights)
    yield "sklearn/temperature", lambda p: temperature.predict(logs(p))[:, 1], {"slope": float(temperature.beta_)}


def _probcal(case: Case) -> Iterator[Answer]:
    from probcal import BetaCalibrator, PlattCalibrator, TemperatureCalibrator

    case = kept(case)
    for name, made in (
        ("beta", BetaCalibrator()),
        ("platt", PlattCalibrator()),
        ("temperature", TemperatureCalibrator()),
    ):
        fit = made.fit(inside(case.probs), case.targets, sample_weight=case.weights)
        numbers = {
            "beta": lambda fit: {"constant": fit.c_, "positive": fit.a_, "negative": fit.b_},
            "platt": lambda fit: {"intercept": fit.b_, "slope": fit.a_},
            "temperature": lambda fit: {"slope": 1 / fit.T_},
        }[name](fit)
        yield f"probcal/{name}", lambda p, fit=fit: fit.predict_proba(inside(p)), numbers


def _betacal(case: Case) -> Iterator[Answer]:
    from betacal import BetaCalibration

    fit = BetaCalibration("abm").fit(inside(case.probs), case.targets, case.weights)
    yield "betacal/beta", lambda p: fit.predict(inside(p)), {}


def _probmetrics(case: Case) -> Iterator[Answer]:
    from probmetrics.calibrators import get_calibrator

    def columns(p: np.ndarray) -> np.ndarray:
        return np.stack([1 - inside(p), inside(p)], axis=1)

    if case.weights is None:
        for name in ("beta", "temp-scaling"):
            fit = get_calibrator(name).fit(columns(case.probs), case.targets)
            yield f"probmetrics/{name}", lambda p, fit=fit: fit.predict_proba(columns(p))[:, 1], {}


def _netcal(case: Case) -> Iterator[Answer]:
    from netcal.scaling import BetaCalibration, LogisticCalibration, TemperatureScaling

    if case.weights is None:
        for name, made in (
            ("logistic", LogisticCalibration()),
            ("temperature", TemperatureScaling()),
            ("beta", BetaCalibration()),
        ):
            made.fit(inside(case.probs), case.targets, random_state=0)
            yield f"netcal/{name}", lambda p, made=made: made.transform(inside(p)), {}


def _event(case: Case) -> dict[str, Any]:
    answers = {}
    for package in (_statsmodels, _sklearn, _probcal, _betacal, _probmetrics, _netcal):
        for name, predict, parameters in package(case):
            mapped = np.asarray(predict(GRID), np.float64)
            loss = log_loss(predict(case.probs), case.targets, case.weights)
            answers[name] = {"map": mapped.tolist(), "loss": loss, "parameters": parameters}
    return answers


def _isotonic(case: Case) -> dict[str, Any]:
    from probcal import IsotonicCalibrator
    from sklearn.isotonic import IsotonicRegression

    case = kept(case)
    p, at = case.probs, np.unique(case.probs)
    theirs = IsotonicRegression(out_of_bounds="clip").fit(p, case.targets, case.weights)
    probcal = IsotonicCalibrator().fit(p, case.targets, sample_weight=case.weights)
    return {"sklearn": _runs(theirs.predict(at)), "probcal": _runs(probcal.predict_proba(at))}


def _runs(values: np.ndarray) -> list[list[float]]:
    """Return runs of values that are equal to 1e-14, each with the value of its middle."""
    starts = np.flatnonzero(np.diff(values, prepend=-1) > 1e-14).tolist()
    ends = [*starts[1:], len(values)]
    return [[float(values[(a + b) // 2]), b - a] for a, b in zip(starts, ends, strict=True)]


def _of_classes(case: Classes) -> dict[str, Any]:
    from netcal.scaling import TemperatureScaling
    from probmetrics.calibrators import get_calibrator
    from sklearn.calibration import _TemperatureScaling

    def logs(p: np.ndarray) -> np.ndarray:
        return np.log(np.maximum(p, LEAST))

    made: dict[str, tuple[Callable[[np.ndarray], Any], dict[str, float]]] = {}
    temperature = _TemperatureScaling().fit(logs(case.probs), case.targets)
    made["sklearn/temperature"] = (lambda p: temperature.predict(logs(p))), {"slope": float(temperature.beta_)}
    for name in ("temp-scaling", "svs", "sms"):
        fit = get_calibrator(name).fit(case.probs, case.targets)
        numbers = {"slope": float(fit.invtemp_)} if name == "temp-scaling" else {}
        made[f"probmetrics/{name}"] = fit.predict_proba, numbers
    if case.probs.shape[1] > 2:
        netcal = TemperatureScaling()
        netcal.fit(case.probs, case.targets, random_state=0)
        made["netcal/temperature"] = netcal.transform, {}
    answers = {}
    for name, (predict, parameters) in made.items():
        answers[name] = {
            "map": np.asarray(predict(case.test_probs[:SHOWN]), np.float64).tolist(),
            "loss": log_loss(predict(case.probs), case.targets),
            "test_loss": log_loss(predict(case.test_probs), case.test_targets),
            "parameters": parameters,
        }
    return answers


def main() -> None:
    """Record."""
    recording = {
        "versions": {name: version(name) for name in PACKAGES},
        "event": {name: _event(case) for name, case in cases().items()},
        "isotonic": {name: _isotonic(case) for name, case in cases().items()},
        "classes": {name: _of_classes(case) for name, case in classes().items()},
    }
    FILE.write_text(_lines(recording) + "\n", encoding="utf-8")


def _lines(value: Any, depth: int = 0) -> str:
    """Return JSON with a line for each answer of a package."""
    if not isinstance(value, dict) or depth > 2:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    parts = [f"{' ' * depth} {json.dumps(key)}: {_lines(part, depth + 1)}" for key, part in value.items()]
    return "{\n" + ",\n".join(parts) + f"\n{' ' * depth}}}"


if __name__ == "__main__":
    main()
