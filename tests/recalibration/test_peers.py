"""Maps without prior rows against those of other packages, which tests/golden/record_maps.py recorded.

The maximum likelihood of a family is one number, so each tolerance is that of the other package's search. The fits of
calibrant end where a Newton step gains less than rounding. A log loss is flat at its least: a package that searches by
values alone knows a parameter to the square root of the rounding, about 1e-8 of it.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, softmax

import calibrant
from calibrant.measures.isotonic.isotonic import isotonic_fit
from calibrant.recalibration import CalibrationMap, classes
from calibrant.recalibration.families import FAMILIES, Fit, names_of
from calibrant.recalibration.pieces import CLIP
from calibrant.recalibration.scored_rows import FitRows

_spec = importlib.util.spec_from_file_location("record_maps", Path(__file__).parents[1] / "golden" / "record_maps.py")
assert _spec is not None
assert _spec.loader is not None
PEERS: Any = importlib.util.module_from_spec(_spec)
sys.modules["record_maps"] = PEERS
_spec.loader.exec_module(PEERS)

RECORDED = PEERS.load()
FAMILY = names_of(FAMILIES)
EVENT, ISOTONIC, CLASSES = (RECORDED[part] for part in ("event", "isotonic", "classes"))
CASES_OF_CLASSES = PEERS.classes()
#: The packages are given scores in this range, too.
CASES = {
    name: case._replace(probs=np.clip(case.probs, PEERS.CLIP, 1 - PEERS.CLIP)) for name, case in PEERS.cases().items()
}

#: Packages that find the maximum: our method, and how far their map may be from ours.
EXACT = {
    # Newton until the parameters move by 1e-14.
    "statsmodels/cox": ("cox", 1e-12),
    "statsmodels/shift": ("shift", 1e-12),
    # Newton until the gradient of the mean loss is 1e-12: 8e-13 was the largest difference.
    "sklearn/logistic regression": ("cox", 1e-11),
    # Brent's method, on values of the loss: see above. 7e-8 was the largest difference.
    "sklearn/temperature": ("temperature", 3e-7),
    # Bisection to 1e-12.
    "probcal/temperature": ("temperature", 1e-11),
    # Newton until a step moves the parameters by less than 1e-10, or gains nothing; 1.2e-9 was the largest difference.
    "probcal/beta": ("beta", 1e-8),
    # Bisection, in float32.
    "probmetrics/temp-scaling": ("temperature", 1e-6),
}
#: Packages whose search ends early: our method, and by how much their mean log loss may exceed ours.
EARLY = {
    "betacal/beta": ("beta", 1e-7),
    "netcal/logistic": ("cox", 1e-9),
    "netcal/temperature": ("temperature", 1e-9),
    "netcal/beta": ("beta", 1e-8),
    "probmetrics/beta": ("beta", 1e-7),
}
#: In float32, losses are known to its rounding, 6e-8, of the logarithm of a probability; their mean to less.
FLOAT32 = 3e-8
#: probmetrics takes logarithms of 1 - p in float32, so beta calibration of scores of 1 - 1e-7 is another one.
UNLIKE = {("probmetrics/beta", "near 0 and 1"), ("probmetrics/beta", "tenths")}
#: These packages take no weights.
UNWEIGHTED = ("netcal", "probmetrics")


def compared(peers: Any) -> list[tuple[str, str]]:
    weighted = {name for name, case in CASES.items() if case.weights is not None}
    return [
        (peer, case)
        for peer in peers
        for case in CASES
        if (peer, case) not in UNLIKE and not (case in weighted and peer.startswith(UNWEIGHTED))
    ]


@functools.cache
def fitted(method: str, name: str) -> CalibrationMap:
    case = CASES[name]
    kind = None if case.weights is None else "frequency" if name == "counts" else "sampling"
    return calibrant.recalibrate(
        case.probs,
        case.targets,
        method=method,
        weights=case.weights,
        weights_are=kind,
        prior_rows=0,
        n_resamples=0,
    ).map


def rows_of(case: Any, targets: np.ndarray) -> FitRows:
    weights = np.ones(len(targets)) if case.weights is None else case.weights
    scores, place = np.unique(case.probs, return_inverse=True)
    counts, positives = np.bincount(place, weights), np.bincount(place, weights * targets)
    held = counts > 0
    return FitRows.of_scores(scores[held], counts[held], positives[held])


def mapped(fit: Fit, probs: np.ndarray) -> np.ndarray:
    return np.asarray(expit(fit.pieces.log_odds(probs)))


# ---------------------------------------------------------------- one event


@pytest.mark.parametrize(("peer", "name"), compared(EXACT))
def test_a_map_is_that_of_the_package(peer: str, name: str) -> None:
    method, tolerance = EXACT[peer]
    recorded, ours = EVENT[name][peer], fitted(method, name)
    np.testing.assert_allclose(ours(PEERS.GRID), recorded["map"], rtol=0, atol=tolerance)
    for parameter, value in recorded["parameters"].items():
        # A map moves by its parameter times at least 0.01 somewhere on the grid.
        assert ours.parameters[parameter] == pytest.approx(value, rel=100 * tolerance, abs=100 * tolerance)


@pytest.mark.parametrize(("peer", "name"), compared([*EXACT, *EARLY]))
def test_no_package_has_a_lower_loss(peer: str, name: str) -> None:
    method, tolerance = EARLY.get(peer, (EXACT.get(peer, ("",))[0], 1e-12))
    case = CASES[name]
    ours = PEERS.log_loss(fitted(method, name)(case.probs), case.targets, case.weights)
    rounding = FLOAT32 if peer.startswith("probmetrics") else 1e-14
    assert -rounding <= EVENT[name][peer]["loss"] - ours <= max(tolerance, rounding)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    ("peer", "tolerance"),
    [
        ("statsmodels/platt", 1e-12),
        ("probcal/platt", 1e-12),
        # L-BFGS until the gradient of the summed loss is 1e-6; 7e-9 was the largest difference.
        ("sklearn/sigmoid", 1e-7),
    ],
)
def test_cox_with_the_targets_of_platt_is_platt_scaling(peer: str, tolerance: float, name: str) -> None:
    """The positives are fractions: (N1 + 1) / (N1 + 2) of a row with the event, 1 / (N0 + 2) of one without it."""
    case = CASES[name]
    fit = FAMILY["cox"].fit(rows_of(case, PEERS.platt_targets(case.targets, case.weights)))
    np.testing.assert_allclose(mapped(fit, PEERS.GRID), EVENT[name][peer]["map"], rtol=0, atol=tolerance)


def test_platt_without_its_targets_is_another_map() -> None:
    """`platt` is an alias of `cox`, whose targets are the outcomes: with few rows the two differ."""
    recorded = np.array(EVENT["uniform 60"]["statsmodels/platt"]["map"])
    assert np.abs(fitted("platt", "uniform 60")(PEERS.GRID) - recorded).max() > 0.01


def test_beta_has_a_factor_at_its_bound_in_some_cases() -> None:
    bound = {name for name in CASES if fitted("beta", name).parameters["negative"] == 0}
    assert bound == {"factor 0", "uniform 60"}


@pytest.mark.parametrize("peer", ["sklearn", "probcal"])
@pytest.mark.parametrize("name", CASES)
def test_isotonic_rates_are_those_of_the_package_at_the_rows(name: str, peer: str) -> None:
    case = PEERS.cases()[name]
    rows = rows_of(case, case.targets)
    fit = isotonic_fit(rows.counts, rows.positives)
    sizes = np.diff([*fit.starts, len(rows.counts)])
    runs = np.array(ISOTONIC[name][peer])
    assert len(runs) > 3
    recorded = np.repeat(runs[:, 0], runs[:, 1].astype(int))
    np.testing.assert_allclose(np.repeat(fit.positives / fit.counts, sizes), recorded, rtol=0, atol=1e-14)


# ---------------------------------------------------------------- classes


@pytest.fixture(autouse=True)
def _smallest_of_the_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take logarithms of smaller probabilities than maps do, as the packages of several classes."""

    def with_smallest(procedure: classes.ClassProcedure, rows: Any) -> classes.ClassProcedure:
        del rows
        data = procedure.data
        return replace(procedure, data=replace(data, log=data.log._replace(smallest=PEERS.LEAST)))

    monkeypatch.setattr(classes, "_with_smallest", with_smallest)


@functools.cache
def fitted_to_classes(method: str, name: str) -> Any:
    case = CASES_OF_CLASSES[name]
    return calibrant.recalibrate(case.probs, case.targets, method=method, prior_rows=0, n_resamples=0).map


def losses(method: str, name: str) -> tuple[float, float]:
    """The mean log loss of the rows that a map of classes was fitted to, and of the test rows."""
    case, fix = CASES_OF_CLASSES[name], fitted_to_classes(method, name)
    return (
        PEERS.log_loss(fix(case.probs), case.targets),
        PEERS.log_loss(fix(case.test_probs), case.test_targets),
    )


@pytest.mark.parametrize(
    ("peer", "tolerance"),
    [
        ("sklearn/temperature", 3e-7),  # Brent's method, on values of the loss
        ("probmetrics/temp-scaling", 3e-6),  # bisection of the slope of the loss, in float32
    ],
)
@pytest.mark.parametrize("name", CASES_OF_CLASSES)
def test_the_temperature_of_classes_is_that_of_the_package(name: str, peer: str, tolerance: float) -> None:
    case, recorded = CASES_OF_CLASSES[name], CLASSES[name][peer]
    ours = fitted_to_classes("temperature", name)(case.test_probs[: PEERS.SHOWN])
    np.testing.assert_allclose(ours, recorded["map"], rtol=0, atol=tolerance)
    rounding = FLOAT32 if peer.startswith("probmetrics") else 1e-13
    theirs = recorded["loss"], recorded["test_loss"]
    np.testing.assert_allclose(losses("temperature", name), theirs, rtol=0, atol=max(tolerance, rounding))
    assert recorded["loss"] - losses("temperature", name)[0] >= -rounding


def test_the_temperature_of_two_classes_is_that_of_their_event() -> None:
    """Beyond CLIP, double precision has lost digits of 1 - p: leave these rows out."""
    case = CASES_OF_CLASSES["2 classes"]
    held = (case.probs > CLIP).all(axis=1)
    assert held.mean() > 0.9
    probs, targets = case.probs[held], case.targets[held]
    event = FAMILY["temperature"].fit(rows_of(PEERS.Case(probs[:, 1], targets), targets))
    fix = calibrant.recalibrate(probs, targets, method="temperature", prior_rows=0, n_resamples=0).map
    # The rounding of 1 - p, 1e-16, at the smallest p, 1.5e-7.
    np.testing.assert_allclose(fix(probs)[:, 1], mapped(event, probs[:, 1]), rtol=0, atol=1e-9)


#: The cases without probabilities of 0; in the other one the two normalisations below differ by 0.02.
WITHOUT_ZEROS = [name for name in CASES_OF_CLASSES if "zeros" not in name]


@pytest.mark.parametrize(("method", "peer", "tolerance"), [("vector", "svs", 3e-4), ("matrix", "sms", 6e-4)])
@pytest.mark.parametrize("name", WITHOUT_ZEROS)
def test_structured_scaling_has_the_test_loss_of_its_authors(
    name: str, method: str, peer: str, tolerance: float
) -> None:
    recorded = CLASSES[name][f"probmetrics/{peer}"]
    assert losses(method, name)[1] == pytest.approx(recorded["test_loss"], abs=tolerance)
    # Temperature scaling is further away: the test sees which method it is.
    assert losses("temperature", name)[1] > recorded["test_loss"] + 2 * tolerance


def definition(method: str, name: str, *, authors: bool) -> tuple[float, float]:
    """The losses of structured scaling, found by L-BFGS from its definition.

    The authors normalise the scaled probabilities again, and mix them with 1 / (N + 1) of a uniform one. W then acts on
    other numbers, so the same ridge leads to another map.
    """
    case = CASES_OF_CLASSES[name]
    n, c = case.probs.shape
    slope = CLASSES[name]["sklearn/temperature"]["parameters"]["slope"]
    one_hot = np.eye(c)[case.targets]

    def scaled(probs: np.ndarray) -> np.ndarray:
        t = slope * np.log(np.maximum(probs, PEERS.LEAST))
        return np.asarray(np.log((n * softmax(t, axis=1) + 1 / c) / (n + 1)) if authors else t)

    diagonal = np.eye(c, dtype=bool)
    free = np.ones((c, c), bool) if method == "matrix" else diagonal
    ridge = np.where(diagonal, c / n, c * (c - 1) / n)
    x = scaled(case.probs)

    def unpacked(parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        change = np.zeros((c, c))
        change[free] = parameters[:-c]
        return change, parameters[-c:]

    def objective(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        change, constants = unpacked(parameters)
        log_q = log_softmax(x + x @ change.T + constants, axis=1)
        value = -np.mean(np.sum(one_hot * log_q, axis=1)) + np.sum(ridge * change**2) + c / n * np.sum(constants**2)
        errors = (np.exp(log_q) - one_hot) / n
        slopes = errors.T @ x + 2 * ridge * change
        return value, np.concatenate([slopes[free], errors.sum(axis=0) + 2 * c / n * constants])

    options = {"maxiter": 10_000, "maxfun": 20_000, "ftol": 1e-16, "gtol": 1e-10}
    start = np.zeros(free.sum() + c)
    change, constants = unpacked(minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x)

    def loss(probs: np.ndarray, targets: np.ndarray) -> float:
        t = scaled(probs)
        return PEERS.log_loss(softmax(t + t @ change.T + constants, axis=1), targets)

    return loss(case.probs, case.targets), loss(case.test_probs, case.test_targets)


@pytest.mark.parametrize(("method", "peer"), [("vector", "svs"), ("matrix", "sms")])
@pytest.mark.parametrize("name", CASES_OF_CLASSES)
def test_structured_scaling_is_its_definition(name: str, method: str, peer: str) -> None:
    """The definition that finds the authors' losses, to their float32, finds ours without what the authors add."""
    recorded = CLASSES[name][f"probmetrics/{peer}"]
    theirs = recorded["loss"], recorded["test_loss"]
    np.testing.assert_allclose(definition(method, name, authors=True), theirs, rtol=0, atol=5e-5)
    # A gradient of 1e-9 at a curvature of at least 2 C / N moves a loss by far less.
    np.testing.assert_allclose(losses(method, name), definition(method, name, authors=False), rtol=0, atol=2e-7)
