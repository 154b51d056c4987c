"""All measures of 2,000,000 float32 scores of one event, after their table, and from a sketch."""

from __future__ import annotations

import dcurves
import numpy as np
import pandas as pd
import probcal.metrics
import pytest
from contest import Contest, faster_than, within
from samples import Sample
from sklearn.metrics import roc_auc_score

import calibrant
from calibrant import CalibrationSketch, ReliabilityTable
from calibrant.measures import MEASURES
from calibrant.measures.listed import FURTHER, OF_LEVELS

KEYS = [measure.name for measure in MEASURES if measure.judges != "classes" and measure not in OF_LEVELS]
OF_CLASSES = (
    calibrant.ranked_probability_score,
    calibrant.spherical_score,
    calibrant.thresholded_adaptive_calibration_error,
    calibrant.top_k_calibration_error,
    calibrant.top_r_calibration_error,
)
#: Every function of one event's table: those of measures, and those that are in no report.
FUNCTIONS = [
    *(f for measure in MEASURES if measure.judges == "event" for f in measure.functions),
    *(f for f in FURTHER if f not in OF_CLASSES),
    calibrant.net_benefit,
    calibrant.murphy_curve,
    calibrant.variational_calibration_error,
    calibrant.score_decomposition,
]


@pytest.fixture(scope="module")
def table(long: Sample) -> ReliabilityTable:
    return ReliabilityTable.from_scores(long.probs, long.targets)


@pytest.fixture(scope="module")
def sketch(long: Sample) -> CalibrationSketch:
    found = CalibrationSketch()
    found.update(long.probs, long.targets)
    return found


def test_all_measures_of_a_report(contest: Contest, long: Sample, table: ReliabilityTable) -> None:
    found = contest(
        "2,000,000 scores, from their table: every measure of reports on one event, values alone",
        lambda: calibrant.evaluate(table, measures=KEYS, level=None),
        floor=long.probs,
        goals=[within(0.5)],
    ).ours
    assert found["ece"].value == pytest.approx(calibrant.expected_calibration_error(long.probs, long.targets), rel=1e-9)
    assert list(found) == KEYS


def test_all_functions(contest: Contest, long: Sample, table: ReliabilityTable) -> None:
    found = contest(
        f"the same table: {len(FUNCTIONS)} functions of one event, one after the other",
        lambda: [function(table) for function in FUNCTIONS],
        floor=long.probs,
        goals=[within(3)],
    ).ours
    values = dict(zip((function.__name__ for function in FUNCTIONS), found, strict=True))
    # The same S up to rounding, and each search stops within 2e-8 of its root.
    smooth = calibrant.smooth_calibration_error(long.probs, long.targets)
    assert values["smooth_calibration_error"] == pytest.approx(smooth, abs=4e-8)
    assert values["lipschitz_calibration_error"] <= values["kuiper_calibration_error"] * 2 + 1e-9


def test_everything_from_a_sketch(contest: Contest, long: Sample, sketch: CalibrationSketch) -> None:
    found = contest(
        "a sketch of the same scores: every measure of reports and every function",
        lambda: (
            calibrant.evaluate(sketch, measures=KEYS, level=None),
            [function(sketch.table) for function in FUNCTIONS],
        ),
        floor=long.probs,
        goals=[within(0.3)],
    ).ours
    exact = calibrant.expected_calibration_error(long.probs, long.targets)
    assert found[0]["ece"].value == pytest.approx(exact, abs=found[0]["ece"].error_bound + 1e-9)


def test_the_integrated_calibration_index(contest: Contest, long: Sample, sketch: CalibrationSketch) -> None:
    few = slice(None, 20_000)
    answers = contest(
        f"ICI of a sketch, {len(sketch.table):,} cells; peer: ICI of 20,000 scores",
        lambda: calibrant.integrated_calibration_index(sketch),
        floor=long.probs,
        peers={"probcal": lambda: probcal.metrics.ici(long.targets[few], long.probs[few].astype(np.float64))},
        goals=[within(0.2)],
    )
    theirs = float(answers.peers["probcal"])
    ours = calibrant.integrated_calibration_index(long.probs[few], long.targets[few])
    assert ours == pytest.approx(theirs, abs=2e-4)  # anchors at equal steps of the rows, theirs of the scores
    assert answers.ours == pytest.approx(calibrant.integrated_calibration_index(long.probs, long.targets), abs=1e-9)


def test_the_auroc(contest: Contest, long: Sample, table: ReliabilityTable) -> None:
    answers = contest(
        "AUROC of 2,000,000 scores, from their table",
        lambda: calibrant.auroc(table),
        floor=long.probs,
        peers={"scikit-learn": lambda: roc_auc_score(long.targets, long.probs)},
        goals=[faster_than("scikit-learn", 4)],
    )
    assert answers.ours == pytest.approx(answers.peers["scikit-learn"], rel=1e-12)


def test_the_decision_curve(contest: Contest, long: Sample, table: ReliabilityTable) -> None:
    thresholds = np.arange(1, 100) / 100
    frame = pd.DataFrame({"y": long.targets, "m": long.probs.astype(np.float64)})
    answers = contest(
        "net benefit at 99 thresholds, from the table; peer: without intervals",
        lambda: calibrant.net_benefit(table, thresholds=thresholds),
        floor=long.probs,
        peers={"dcurves": lambda: dcurves.dca(data=frame, outcome="y", modelnames=["m"], thresholds=thresholds)},
    )
    theirs = answers.peers["dcurves"].query("model == 'm'").sort_values("threshold")["net_benefit"].to_numpy()
    # Scores that equal a threshold in float32 are treated; the peer compares in float64. A handful of rows differ.
    np.testing.assert_allclose(answers.ours.net_benefit, theirs, atol=3e-6)
