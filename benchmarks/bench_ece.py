"""The binned calibration error of 2,000,000 float32 scores of one event."""

from __future__ import annotations

import naive
import numpy as np
import pytest
import torch
from contest import Contest, faster_than
from samples import Sample
from sklearn.calibration import calibration_curve
from torchmetrics.functional.classification import binary_calibration_error

import calibrant

N_BINS = 15


def test_uniform(contest: Contest, long: Sample) -> None:
    scores, targets = torch.from_numpy(long.probs), torch.from_numpy(long.targets)
    answers = contest(
        "binary, 2,000,000 scores: ECE, 15 bins",
        lambda: calibrant.expected_calibration_error(long.probs, long.targets, N_BINS),
        floor=long.probs,
        peers={
            "torchmetrics": lambda: float(binary_calibration_error(scores, targets, n_bins=N_BINS)),
            "scikit-learn": lambda: calibration_curve(long.targets, long.probs, n_bins=N_BINS),
        },
        goals=[faster_than("torchmetrics", 12)],
        peer_rounds=9,
    )
    bins = naive.uniform_bins(long.probs, N_BINS)
    expected = naive.gaps(long.probs, long.targets, bins)
    assert answers.ours == pytest.approx(expected.ece, rel=1e-9)
    assert answers.ours == pytest.approx(answers.peers["torchmetrics"], abs=1e-4)  # it adds up in float32
    rates, means = answers.peers["scikit-learn"]
    assert answers.ours == pytest.approx(expected.shares @ np.abs(rates - means), abs=1e-6)


def test_quantile(contest: Contest, long: Sample) -> None:
    answers = contest(
        "the same: ECE, 15 quantile bins",
        lambda: calibrant.expected_calibration_error(long.probs, long.targets, N_BINS, binning="quantile"),
        floor=long.probs,
        peers={"scikit-learn": lambda: calibration_curve(long.targets, long.probs, n_bins=N_BINS, strategy="quantile")},
        goals=[faster_than("scikit-learn", 6)],
        peer_rounds=9,
    )
    expected = naive.gaps(long.probs, long.targets, naive.quantile_bins(long.probs, N_BINS)).ece
    assert answers.ours == pytest.approx(expected, rel=1e-9)
    # Its edges are interpolated quantiles, so a score or two near each edge may be in the neighbouring bin.
    rates, means = answers.peers["scikit-learn"]
    assert answers.ours == pytest.approx(np.abs(rates - means).mean(), abs=1e-5)
