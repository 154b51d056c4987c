"""What maps of scores cost: the temperature of 1,000 classes, and the choice of a map with its proof."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from contest import Contest, at_most_floors, over_floor
from probmetrics.calibrators import TemperatureScalingCalibrator
from probmetrics.distributions import CategoricalLogits
from samples import Sample
from sklearn.linear_model import LogisticRegression

import calibrant
from calibrant.recalibration.events import MEASURES
from calibrant.recalibration.softmax import CLASS_TEMPERATURE, Softmax, SoftmaxRows, prepared

#: Without simulated noise floors: the floor is the two reports, so that what is above it is the map and its proof.
VALUES = {"n_resamples": 0}


def slope_of_loss(b: float, sample: Sample, smallest: float) -> float:
    """Return the derivative of the mean log loss of softmax(b z) in b, z the log-probabilities, in float64."""
    total = 0.0
    for start in range(0, len(sample.targets), 1_000):
        x = sample.logits[start : start + 1_000].astype(np.float64)
        x -= x.max(axis=1, keepdims=True)
        z = np.maximum(x - np.log(np.exp(x).sum(axis=1, keepdims=True)), np.log(smallest))
        q = np.exp(b * z)
        own = z[np.arange(len(z)), sample.targets[start : start + 1_000]]
        total += float(np.sum(np.sum(q * z, axis=1) / q.sum(axis=1) - own))
    return total / len(sample.targets)


def test_temperature(contest: Contest, wide: Sample) -> None:
    ones = np.ones(len(wide.targets))
    scores, targets = torch.from_numpy(wide.logits), torch.from_numpy(wide.targets)

    def ours() -> Softmax:
        fitted: Softmax = CLASS_TEMPERATURE.fit(SoftmaxRows(prepared(wide.logits, logits=True), wide.targets, ones))
        return fitted

    def theirs() -> float:
        fitted = TemperatureScalingCalibrator().fit_torch(CategoricalLogits(scores), targets)
        return float(fitted.invtemp_)

    answers = contest(
        "temperature of 50,000 × 1,000 logits",
        ours,
        floor=wide.logits,
        peers={"probmetrics": theirs},
        goals=[at_most_floors(10)],
        peer_rounds=1,
    )
    b, smallest = float(answers.ours.factors[0]), answers.ours.smallest
    assert slope_of_loss(b * (1 - 1e-6), wide, smallest) < 0 < slope_of_loss(b * (1 + 1e-6), wide, smallest)
    assert b == pytest.approx(answers.peers["probmetrics"], rel=0.01)  # theirs has no least probability


def test_scores(contest: Contest, long: Sample) -> None:
    log_odds = long.logits.astype(np.float64)[:, np.newaxis]
    platt = LogisticRegression(C=np.inf, tol=1e-8)
    answers = contest(
        "2,000,000 scores: a map by `auto`, its proof, two reports; floor: two reports; peer: one logistic regression",
        lambda: calibrant.recalibrate(long.probs, long.targets, **VALUES),
        floor=lambda: [
            calibrant.evaluate(long.probs, long.targets, measures=list(MEASURES), **VALUES) for _ in range(2)
        ],
        peers={"scikit-learn": lambda: platt.fit(log_odds, long.targets)},
        goals=[over_floor(1.0)],
        rounds=9,
        peer_rounds=3,
    )
    check(answers.ours, long)
    cox = calibrant.recalibrate(long.probs, long.targets, method="cox", prior_rows=0, **VALUES).map.parameters
    fitted = answers.peers["scikit-learn"]
    assert cox["intercept"] == pytest.approx(fitted.intercept_[0], abs=1e-4)
    assert cox["slope"] == pytest.approx(fitted.coef_[0, 0], abs=1e-4)


def test_a_sketch(contest: Contest, long: Sample) -> None:
    sketch = calibrant.CalibrationSketch()
    sketch.update(long.probs, long.targets)
    answers = contest(
        "the same from a sketch",
        lambda: calibrant.recalibrate(sketch, **VALUES),
        floor=lambda: [calibrant.evaluate(sketch, measures=list(MEASURES), **VALUES) for _ in range(2)],
        goals=[over_floor(0.3)],
        rounds=9,
    )
    check(answers.ours, long)


def check(fix: calibrant.Recalibration, sample: Sample) -> None:
    """Compare the gain in sample with the mean losses of the rows before and after."""
    y = sample.targets == 1

    def loss(p: np.ndarray) -> float:
        return float(-np.log(np.where(y, p, 1 - p)).mean())

    p = sample.probs.astype(np.float64)
    assert fix.proven
    assert fix.gain.in_sample == pytest.approx(loss(p) - loss(fix.map(p)), abs=1e-6)  # the cells' mean scores
