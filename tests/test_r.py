"""The numbers of the R packages in ``docs/migrating.md``, on their own data.

Three kinds of expected numbers. Texts are numbers as a package prints them in its documentation: ours are rounded to
their decimals. `PROC` holds what the tests of pROC expect, to 12 digits. ``golden/record_r.R`` ran R itself, wrote
``golden/r.json``, and says where the data come from.

Tolerances: sums in another order, relative 1e-12. rms ends its logistic fits early: its slope below is 2e-8 from the
maximum of the likelihood, ours 1e-16. Where a number differs from R's, the test names the reason and checks that it
applies.

Published numbers:

- pROC: https://github.com/xrobin/pROC, commit ee2877e, ``tests/testthat/test-ci.auc.R``, ``test-var.R`` and
  ``test-roc.test.R``; printed areas in ``tests/testthat/print_output``
- reliabilitydiag: https://github.com/aijordan/reliabilitydiag, commit a3d3572, ``README.md``; figures of Dimitriadis,
  Gneiting and Jordan (2021): https://github.com/TimoDimi/replication_DGJ20, commit 193cf2f,
  ``replication_supplement/plots/Precip.pdf``
- dcurves: https://github.com/ddsjoberg/dcurves, commit 2362730, ``tests/testthat/test-dca.R`` and
  ``test-net_intervention_avoided.R``
- CalibrationCurves: https://github.com/BavoDC/websiteCalibrationCurves, commit c0d0dec,
  ``articles/CalibrationCurves.html``, section 1.4.2
- ResourceSelection: https://github.com/psolymos/ResourceSelection, commit 32647a0, ``reference/hoslem.test.md``
"""

from __future__ import annotations

import csv
import functools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import calibrant
from calibrant.inference import cox_test, hosmer_lemeshow_test, spiegelhalter_test

GOLDEN = Path(__file__).resolve().parent / "golden"
R: dict[str, dict[str, float]] = json.loads((GOLDEN / "r.json").read_text(encoding="utf-8"))
SAME = 1e-12
FITTED = 1e-7
Z = float(norm.ppf(0.975))

#: pROC, data aSAH: ``var(roc(outcome, marker))``; and of ``roc.test(first, second)`` the statistic and the interval.
PROC_VARIANCES = {"wfns": 0.00146991470882363, "s100b": 0.00266868245717244, "ndka": 0.0031908105493913}
PROC_TESTS = {
    ("wfns", "s100b"): (2.20898359144091, 0.0104061769564846, 0.174214419249478),
    ("wfns", "ndka"): (2.79777591868904, 0.0634011709339876, 0.3600405634833566),
    ("ndka", "s100b"): (-1.39077002573558, -0.2876917446341914, 0.0488706064228094),
}

#: The pooled scores of ``reliabilitydiag(EMOS = X, y = Y)``: how many rows, and their observed frequency. The package's
#: own code gave them in R 4.2.2.
POOLED = ((1, 0), (6, 1 / 3), (10, 2 / 5), (12, 5 / 12), (6, 1 / 2), (32, 5 / 8), (14, 9 / 14), (5, 4 / 5), (6, 1))


@functools.cache
def data(name: str) -> dict[str, Any]:
    with (GOLDEN / "r" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {column: np.array([float(row[column]) for row in rows]) for column in rows[0]}


def prints(value: float, printed: str) -> bool:
    """Return whether the value, rounded to the printed decimals, is the printed number."""
    return f"{value:.{len(printed.partition('.')[2])}f}" == printed


def test_printed_numbers_are_compared_to_their_last_decimal() -> None:
    assert prints(0.12345, "0.123")
    assert not prints(0.12355, "0.123")
    assert not prints(0.1241, "0.123")


# ---------------------------------------------------------------- pROC


def markers() -> tuple[dict[str, Any], Any]:
    """Return the markers of aSAH, mapped into [0, 1) in their order, and the outcomes."""
    table = data("asah")
    return {name: table[name] / (1 + table[name]) for name in PROC_VARIANCES}, table["poor"].astype(int)


def plain_error(estimate: calibrant.Estimate) -> float:
    """Return the standard error of an area from its interval, which is symmetric in log-odds."""
    low, high = (math.log(end / (1 - end)) for end in (estimate.low, estimate.high))
    assert (low + high) / 2 == pytest.approx(math.log(estimate.value / (1 - estimate.value)), rel=SAME)
    return (high - low) / (2 * Z) * estimate.value * (1 - estimate.value)


def area(probs: Any, targets: Any) -> calibrant.Estimate:
    return calibrant.evaluate(probs, targets, measures=["auroc"], n_resamples=0)["auroc"]


@pytest.mark.parametrize(("marker", "printed"), [("wfns", "0.8237"), ("s100b", "0.7314"), ("ndka", "0.612")])
def test_area_and_delong_variance_of_proc(marker: str, printed: str) -> None:
    probs, targets = markers()
    ours, theirs = area(probs[marker], targets), R[f"pROC {marker}"]
    assert prints(ours.value, printed)
    assert ours.value == calibrant.auroc(probs[marker], targets) == pytest.approx(theirs["auc"], rel=SAME)
    assert plain_error(ours) ** 2 == pytest.approx(PROC_VARIANCES[marker], rel=SAME)
    # The limits differ: pROC adds and subtracts on the scale of the area, calibrant on the log-odds.
    limits = (ours.value - Z * plain_error(ours), ours.value + Z * plain_error(ours))
    assert limits == pytest.approx((theirs["low"], theirs["high"]), rel=SAME)
    assert max(abs(ours.low - theirs["low"]), abs(ours.high - theirs["high"])) < 0.015


def test_delong_limits_that_proc_expects() -> None:
    """``ci.auc(roc(outcome, ndka))``, of all patients and of the women."""
    probs, targets = markers()
    women = data("asah")["female"] == 1
    for rows, expected, digits in (
        (slice(None), (0.501244999271703, 0.611957994579946, 0.722670989888189), SAME),
        (women, (0.5261398281, 0.6671428571, 0.8081458862), 1e-9),
    ):
        ours = area(probs["ndka"][rows], targets[rows])
        half = Z * plain_error(ours)
        assert (ours.value - half, ours.value, ours.value + half) == pytest.approx(expected, rel=digits)


@pytest.mark.parametrize(("first", "second"), PROC_TESTS)
def test_paired_difference_of_areas(first: str, second: str) -> None:
    """The difference is that of ``roc.test``, the interval is about 1 % narrower.

    The variance of DeLong's test has n / (n - 1) for the n rows of each outcome, that of a comparison for all rows.
    """
    probs, targets = markers()
    statistic, low, high = PROC_TESTS[first, second]
    pair = calibrant.compare({name: probs[name] for name in (first, second)}, targets, measures=["auroc"]).pairs[0]
    ours = pair["auroc"]
    assert ours.value == pytest.approx((low + high) / 2, rel=SAME)
    assert statistic * (high - low) / (2 * Z) == pytest.approx(ours.value, rel=SAME)
    assert (ours.high - ours.low) / (high - low) == pytest.approx(1, abs=0.012)


# ---------------------------------------------------------------- reliabilitydiag


def decomposed(model: str) -> calibrant.ScoreDecomposition:
    table = data("niamey")
    return calibrant.score_decomposition(table[model], table["obs"].astype(int))


def test_decomposition_of_the_readme() -> None:
    """``reliabilitydiag(EMOS = X, y = Y)``."""
    ours = decomposed("EMOS")
    assert prints(ours.score, "0.232")
    assert prints(ours.miscalibration, "0.0183")
    assert prints(ours.discrimination, "0.0305")
    assert prints(ours.uncertainty, "0.244")


@pytest.mark.parametrize(
    ("model", "miscalibration", "discrimination"),
    [
        ("ENS", "0.066", "0.044"),
        ("EMOS", "0.018", "0.030"),
        ("EPC", "0.022", "0.032"),
        ("Logistic", "0.017", "0.056"),
    ],
)
def test_decompositions_of_the_paper(model: str, miscalibration: str, discrimination: str) -> None:
    ours = decomposed(model)
    assert prints(ours.miscalibration, miscalibration)
    assert prints(ours.discrimination, discrimination)
    assert prints(ours.uncertainty, "0.244")


def test_isotonic_curve_of_reliabilitydiag() -> None:
    """A report shows the curve at some of the scores, and the rates there are those of the pooled rows."""
    table = data("niamey")
    curve = calibrant.evaluate(table["EMOS"], table["obs"].astype(int), n_resamples=0).curves["isotonic"]
    expected = np.repeat([rate for _, rate in POOLED], [n for n, _ in POOLED])
    places = np.searchsorted(np.sort(table["EMOS"]), curve.scores)
    assert curve.rates == pytest.approx(expected[places], abs=SAME)
    assert set(expected[places]) == set(expected)


# ---------------------------------------------------------------- dcurves


def test_net_benefit_of_dcurves() -> None:
    """``dca(cancer ~ cancerpredmarker, data = df_binary)`` at the threshold 0.25."""
    table = data("cancer")
    curve = calibrant.net_benefit(table["cancerpredmarker"], table["cancer"].astype(int), thresholds=[0.25])
    assert prints(curve.treat_all[0], "-0.1466667")
    assert prints(curve.net_benefit[0], "0.0640000")
    # net_intervention_avoided()
    assert (curve.net_benefit - curve.treat_all)[0] * (1 - 0.25) / 0.25 == pytest.approx(0.632, rel=SAME)
    assert (0 - curve.treat_all)[0] * (1 - 0.25) / 0.25 == pytest.approx(0.44, rel=SAME)


def test_prevalence_of_dcurves_is_a_weight() -> None:
    """``dca(casecontrol ~ cancerpredmarker, data = df_case_control, prevalence = 0.15)`` at the threshold 0.25."""
    table = data("cancer")
    cases = table["casecontrol"].astype(int)
    weights = np.where(cases == 1, 0.15 / cases.mean(), 0.85 / (1 - cases.mean()))
    curve = calibrant.net_benefit(table["cancerpredmarker"], cases, thresholds=[0.25], weights=weights)
    assert prints(curve.treat_all[0], "-0.13333333")
    assert prints(curve.net_benefit[0], "0.01495671")


# ---------------------------------------------------------------- CalibrationCurves


def vignette() -> tuple[Any, Any]:
    table = data("vignette")
    return table["p"], table["y"].astype(int)


def test_statistics_of_val_prob_ci_2() -> None:
    """``val.prob.ci.2(pHat, yTest)``."""
    probs, targets = vignette()
    report = calibrant.evaluate(probs, targets, profile="clinical", n_resamples=0)
    assert prints(2 * report["auroc"].value - 1, "0.62853462")
    assert prints(report["auroc"].value, "0.81426731")
    assert prints(report["brier"].value, "0.17703339")
    assert prints(report["brier_skill"].value, "0.28730517")  # "Brier scaled"
    assert prints(report["calibration_intercept"].value, "0.22404680")
    assert prints(report["calibration_slope"].value, "0.82278297")
    test = cox_test(probs, targets)
    assert prints(test.statistic, "8.43195136")
    assert prints(test.p_value, "0.01475792")


def test_interval_of_the_c_statistic_is_that_of_val_prob_ci_2() -> None:
    """Its default, ``method.ci = "pepe"``, is DeLong's variance on the log-odds, as ours."""
    ours = area(*vignette())
    assert prints(ours.low, "0.774")
    assert prints(ours.high, "0.848")


def test_intervals_of_intercept_and_slope_have_another_variance() -> None:
    """``Calibration`` of val.prob.ci.2: variances from the information, ours by the sandwich formula.

    The sandwich holds where the line does not fit: with slope 1, where the slope is not 1. The information alone has
    R's limits.
    """
    probs, targets = vignette()
    report = calibrant.evaluate(probs, targets, profile="clinical", n_resamples=0)
    x = np.log(probs / (1 - probs))
    for key, slope, printed, most in (
        ("calibration_intercept", 1.0, ("0.00339", "0.4447"), 0.013),
        ("calibration_slope", report["calibration_slope"].value, ("0.666", "0.98"), 0.001),
    ):
        ours, fixed = report[key], key == "calibration_intercept"
        level = ours.value if fixed else cox_test(probs, targets).details["intercept"]
        rates = 1 / (1 + np.exp(-level - slope * x))
        design = np.ones((1, len(x))) if fixed else np.stack([np.ones_like(x), x])
        inverse = np.linalg.inv((design * rates * (1 - rates)) @ design.T)
        influence = (inverse @ design)[-1] * (targets - rates)
        half = Z * math.sqrt(inverse[-1, -1])
        assert prints(ours.value - half, printed[0])
        assert prints(ours.value + half, printed[1])
        assert (ours.high - ours.low) / 2 == pytest.approx(Z * math.sqrt(np.sum(influence**2)), rel=1e-9)
        assert 0 < (ours.high - ours.low) / 2 - half < most


def test_ici_by_parabolas_and_by_lines() -> None:
    """``Eavg`` of val.prob.ci.2 is the ICI of ``loess(y ~ p)``, which fits parabolas; with ``degree = 1`` it is ours.

    By default R's loess interpolates between some fits; with ``surface = "direct"`` it fits at each score, as we do.
    """
    probs, targets = vignette()
    report = calibrant.evaluate(probs, targets, profile="clinical", n_resamples=0)
    assert prints(R["loess"]["ici"], "0.04747448")  # as printed in the vignette
    assert report["ici"].value == calibrant.integrated_calibration_index(probs, targets)
    for key in ("ici", "e50", "e90"):
        assert report[key].value == pytest.approx(R["loess degree=1 direct"][key], rel=SAME)
        assert report[key].value == pytest.approx(R["loess degree=1"][key], rel=0.01)
    assert R["loess"]["ici"] / report["ici"].value > 1.1


# ---------------------------------------------------------------- rms


VALIDATED = {"fitted": ("valprob", "fitted"), "x2": ("valprob", "x2"), "vignette": ("vignette", "p")}


@pytest.mark.parametrize("name", VALIDATED)
def test_statistics_of_val_prob(name: str) -> None:
    table, column = VALIDATED[name]
    probs, targets, theirs = data(table)[column], data(table)["y"].astype(int), R[f"val.prob {name}"]
    assert calibrant.brier_score(probs, targets) == pytest.approx(theirs["Brier"], rel=SAME)
    cox, z = cox_test(probs, targets), spiegelhalter_test(probs, targets)
    assert cox.statistic == pytest.approx(theirs["U:Chi-sq"], rel=1e-11)
    assert cox.p_value == pytest.approx(theirs["U:p"], rel=FITTED)
    assert cox.details["intercept"] == pytest.approx(theirs["Intercept"], abs=FITTED)
    assert cox.details["slope"] == pytest.approx(theirs["Slope"], abs=FITTED)
    assert calibrant.calibration_slope(probs, targets) == pytest.approx(theirs["Slope"], abs=FITTED)
    assert z.statistic == pytest.approx(theirs["S:z"], rel=1e-11)
    assert z.p_value == pytest.approx(theirs["S:p"], rel=1e-10)
    # Before version 7, rms put probabilities into bins of width 0.0002, and ties counted half.
    dxy = 2 * calibrant.auroc(probs, targets) - 1
    binned = 2 * calibrant.auroc(np.floor(probs / 0.0002) * 0.0002, targets) - 1
    assert theirs["Dxy"] == pytest.approx(dxy, abs=1e-4)
    assert theirs["Dxy"] == pytest.approx(binned, rel=SAME)


@pytest.mark.parametrize("name", VALIDATED)
def test_eavg_of_val_prob_is_an_ici_with_another_span(name: str) -> None:
    """``lowess`` fits lines too, with span 2/3. It rounds the number of neighbours down, and we round it up.

    By default it also interpolates over distances of 1 % of the range.
    """
    table, column = VALIDATED[name]
    probs, targets, theirs = data(table)[column], data(table)["y"].astype(int), R[f"val.prob {name}"]
    assert calibrant.integrated_calibration_index(probs, targets, span=2 / 3) == pytest.approx(
        theirs["Eavg"], rel=0.011
    )
    span = math.floor(len(probs) * 2 / 3) / len(probs)
    rounded_down = calibrant.integrated_calibration_index(probs, targets, span=span)
    assert rounded_down == pytest.approx(theirs["Eavg"], rel=0.001)
    if name == "vignette":
        assert rounded_down == pytest.approx(R["lowess delta=0"]["ici"], rel=1e-9)


# ---------------------------------------------------------------- ResourceSelection


def test_hosmer_lemeshow_statistic_of_resource_selection() -> None:
    """``hoslem.test(m$y, fitted(m))``."""
    table = data("hoslem")
    ours = hosmer_lemeshow_test(table["p"], table["y"].astype(int), sample="in-sample")
    assert prints(ours.statistic, "4.5227")
    assert ours.details["degrees_of_freedom"] == 8
    assert prints(ours.p_value, "0.8072")
