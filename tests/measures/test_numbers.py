"""Published and derived numbers: worked examples of others, laws whose truth is known, and the defects of peers.

Tolerances. A number printed with d decimals is met to half a unit of the last. Where the value is a ratio of small
integers or of given decimals, only float64 rounding of a few sums remains: 1e-12.
Simulated laws say theirs at the test.
"""

from __future__ import annotations

import csv
import functools
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.fft import dct
from scipy.integrate import quad
from scipy.special import beta, expit, ndtri

import calibrant
from calibrant.errors import InputError
from calibrant.measures.smooth import smooth as cosines
from calibrant.measures.smooth.mesh import mesh_smooth_error
from calibrant.statistics.intervals import root

#: Values alone: intervals and noise floors have tests of their own.
evaluate = functools.partial(calibrant.evaluate, level=None)

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"

TEN = ([0, 0.05, 0.1, 0.2, 0.2, 0.35, 0.5, 0.75, 0.9, 1], [0, 0, 1, 0, 1, 0, 1, 1, 1, 0])
FIVE = ([0.25, 0.25, 0.55, 0.75, 0.75], [0, 0, 1, 1, 1])


def exactly(value):
    return pytest.approx(value, rel=1e-12, abs=1e-12)


def printed(value, decimals):
    return pytest.approx(value, rel=0, abs=0.5 * 10.0**-decimals)


def shared(name):
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"needs {name} in ../shared/data")
    return path


# ---------------------------------------------------------------- worked examples


def test_torchmetrics_documentation():
    # Its documentation prints four decimals; the l1 is (2 * .25 + .9500) / 5 = .29 in full.
    assert calibrant.expected_calibration_error(*FIVE, n_bins=2) == exactly(0.29)
    assert calibrant.root_mean_square_calibration_error(*FIVE, n_bins=2) == printed(0.2918, 4)
    assert calibrant.maximum_calibration_error(*FIVE, n_bins=2) == printed(0.3167, 4)


def test_scikit_learn_documentation():
    p, y = [0.1, 0.2, 0.3, 0.4, 0.65, 0.7, 0.8, 0.9, 1], [0] * 4 + [1] * 5
    diagram = calibrant.reliability_diagram(p, y, n_bins=3)
    assert diagram.accuracies == exactly(np.array([0, 0.5, 1]))
    assert diagram.confidences == exactly(np.array([0.2, 0.525, 0.85]))
    assert diagram.counts.tolist() == [3, 2, 4]


def test_pyhealth_documentation():
    probs, label = [[0.2, 0.2, 0.6], [0.2, 0.31, 0.49], [0.1, 0.1, 0.8]], [2, 1, 2]
    assert calibrant.expected_calibration_error(probs, label, n_bins=2) == exactly(0.36333333333333334)


@pytest.mark.parametrize("n", [1, 2, 37])
def test_all_positive_at_one_half(n):
    assert calibrant.expected_calibration_error([0.5] * n, [1] * n) == 0.5
    assert calibrant.smooth_calibration_error([0.5] * n, [1] * n) == pytest.approx(0.5, abs=1e-7)  # its certificate


@pytest.mark.parametrize(
    ("closed", "l1", "l2", "most"), [("right", 0.345, 0.35504, 0.5), ("left", 0.275, 0.31292, 0.5)]
)
def test_ten_rows_binned(closed, l1, l2, most):
    # scikit-learn agrees with the first row, netcal with the second; torchmetrics (.295, .39802, 1.0) with neither.
    assert calibrant.expected_calibration_error(*TEN, n_bins=5, closed=closed) == exactly(l1)
    assert calibrant.root_mean_square_calibration_error(*TEN, n_bins=5, closed=closed) == printed(l2, 5)
    assert calibrant.expected_calibration_error(*TEN, n_bins=5, closed=closed, norm="l2") == printed(l2, 5)
    assert calibrant.maximum_calibration_error(*TEN, n_bins=5, closed=closed) == exactly(most)


def test_ten_rows_of_equal_mass():
    assert calibrant.expected_calibration_error(*TEN, n_bins=5, binning="quantile") == exactly(0.285)
    assert calibrant.adaptive_calibration_error(*TEN, n_bins=5) == exactly(0.285)
    # The tie at .2 (ranks 4 and 5) has C - w/2 = 4 of 10: both go to the third of five bins.
    counts = calibrant.reliability_diagram(*TEN, n_bins=5, binning="quantile").counts
    assert counts.tolist() == [2, 1, 3, 2, 2]


def test_ten_rows_scored():
    assert calibrant.brier_score(*TEN) == exactly(0.29375)
    assert calibrant.negative_log_likelihood(*TEN) == math.inf
    assert evaluate(*TEN)["nll"].details["infinite_rows"] == 1
    parts = calibrant.score_decomposition(*TEN)
    found = (parts.score, parts.miscalibration, parts.discrimination, parts.uncertainty, parts.within_bins)
    assert found == exactly((0.29375, 0.11875, 0.075, 0.25, 0.0))


def test_ten_rows_by_murphy():
    # By hand, five right-closed bins of counts 5, 1, 1, 1, 2: P = .11, .35, .5, .75, .95, Y = .4, 0, 1, 1, .5.
    # REL = (5 * .29^2 + .35^2 + .5^2 + .25^2 + 2 * .45^2) / 10, RES = (5 * .01 + 3 * .25) / 10.
    parts = calibrant.score_decomposition(*TEN, method="murphy", n_bins=5)
    assert parts.miscalibration == exactly(0.12605)
    assert parts.discrimination == exactly(0.08)
    assert parts.uncertainty == exactly(0.25)
    assert parts.within_bins == exactly(0.29375 - 0.12605 + 0.08 - 0.25)


def test_ten_rows_without_bias():
    report = evaluate(*TEN, n_bins=5)
    assert report["rmsce"].details["debiased_square"] == exactly(-0.00475)
    assert report["rmsce"].details["debiased"] == 0.0
    assert calibrant.root_mean_square_calibration_error(*TEN, n_bins=5, debiased=True) == 0.0


def test_ten_rows_smooth():
    assert calibrant.smooth_calibration_error(*TEN) == printed(0.205849, 6)
    assert calibrant.smooth_calibration_error(*TEN, method="mesh") == printed(0.19717, 5)


def test_niamey():
    # reliabilitydiag's README prints three figures.
    with shared("precip_niamey_2016.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    p, y = [float(row["EMOS"]) for row in rows], [int(row["obs"]) for row in rows]
    parts = calibrant.score_decomposition(p, y)
    assert parts.score == printed(0.232, 3)
    assert parts.miscalibration == printed(0.0183, 4)
    assert parts.discrimination == printed(0.0305, 4)
    assert parts.uncertainty == printed(0.244, 3)


def test_wideresnet():
    with np.load(shared("wideresnet-16-4-cifar-10.npz")) as data:
        probs, labels = data["predictions"], data["ground_truth"].reshape(-1)
    assert calibrant.expected_calibration_error(probs, labels) == printed(0.0537163, 7)
    exact = calibrant.smooth_calibration_error(probs, labels)
    assert exact == printed(0.0537163, 7)
    assert calibrant.smooth_calibration_error(probs, labels, method="mesh") == printed(0.0756816, 7)
    top = probs.max(axis=1)
    right = probs.argmax(axis=1) == labels
    _, place = np.unique(top, return_inverse=True)
    finest = np.abs(np.bincount(place, right - top.astype(np.float64))).sum() / len(top)
    assert exact <= finest + 1e-7


# ---------------------------------------------------------------- laws whose truth is known
#
# Each law draws a score p and an outcome of rate q(p); the truth is E|q - p| and the root of E(q - p)^2.


def power(a):
    return lambda p: p**a / (p**a + (1 - p) ** a)


def temperature(scale, temperature, sign):
    """E |sigmoid(z) - sigmoid(z / T)|^sign for z ~ N(0, scale^2), by adaptive quadrature (error below 1e-9)."""

    def integrand(z):
        density = math.exp(-0.5 * (z / scale) ** 2) / (scale * math.sqrt(2 * math.pi))
        return abs(expit(z) - expit(z / temperature)) ** sign * density

    return 2 * quad(integrand, 0, 12 * scale, epsabs=1e-12)[0]


def polynomial(a, b, d):
    l1 = abs(a / (a + b) - beta(a + d, b) / beta(a, b))
    return l1, math.sqrt((beta(a + 2, b) - 2 * beta(a + 1 + d, b) + beta(a + 2 * d, b)) / beta(a, b))


# Each with the quantile function of its scores, so that midpoints of (0, 1) give the law itself. Outcome rates cross
# the diagonal at 1/2 or at the ends alone: with an edge at 1/2, no bin mixes signs and binning costs the l1 nothing.
LAWS = {
    "uniform, a = 2": (lambda u: u, power(2), math.log(2) / 2 - 1 / 4, math.sqrt(3 * math.pi / 8 - 7 / 6)),
    "uniform, a = 0": (lambda u: u, power(0), 1 / 4, 1 / math.sqrt(12)),
    "arcsine, a = 1/2": (lambda u: np.sin(math.pi * u / 2) ** 2, power(0.5), 0.0976743, 0.1077950),
    "Beta(2, 1), q = p^2": (np.sqrt, lambda p: p**2, *polynomial(2, 1, 2)),
    "Beta(1, 3), q = p^1/2": (lambda u: 1 - (1 - u) ** (1 / 3), np.sqrt, *polynomial(1, 3, 0.5)),
    "temperature 1/2": (
        lambda u: expit(1.5 * ndtri(u) / 0.5),
        lambda p: expit(0.5 * np.log(p / (1 - p))),
        temperature(1.5, 0.5, 1),
        math.sqrt(temperature(1.5, 0.5, 2)),
    ),
}


@pytest.mark.parametrize("name", LAWS)
def test_a_law_itself(name):
    """The law as weighted rows: 50,000 midpoints of its quantiles, each with weight q of outcome 1 and 1 - q of 0.

    No sampling error is left. The midpoint rule costs about h^2 = 4e-10 times the curvature, and sqrt(h) times less at
    the ends where the quantile function has a root or a logarithm: below 1e-6. Binning costs l1 nothing and l2^2 the
    mean variance of q - p within a bin, at most slope^2 / (12 M^2): slopes are up to 1 / sqrt(4 p) here at p -> 0 for
    square roots, in bins of mass O(1 / M), hence O(log M / M^2) = 1e-6 for M = 3,000; relative to l2^2 > .01, 1e-4.
    """
    draw, rate, l1, l2 = LAWS[name]
    p = draw((np.arange(50_000) + 0.5) / 50_000)
    q = rate(p)
    scores, outcomes, weights = np.tile(p, 2), np.repeat([1, 0], len(p)), np.concatenate([q, 1 - q])
    for n_bins in (2, 20):
        found = calibrant.expected_calibration_error(scores, outcomes, n_bins, weights=weights)
        assert found == pytest.approx(l1, abs=1e-6)
    fine = calibrant.root_mean_square_calibration_error(scores, outcomes, 3000, weights=weights)
    assert fine == pytest.approx(l2, abs=1e-4)
    assert calibrant.smooth_calibration_error(scores, outcomes, weights=weights) < l1 + 1e-6


@pytest.mark.parametrize("name", LAWS)
def test_a_sample_of_a_law(name):
    """The estimators on N = 400,000 rows.

    Sampling: N ECE changes by |r| + |r'| at most when a row is exchanged, so by Efron and Stein its variance is below
    2 E r^2 / N, where E r^2 is the Brier score; five standard deviations. Bias upwards: at most the noise floor
    sqrt(2 / pi) sum_b sqrt(v_b) / N <= .8 sqrt(M / (4 N)) = .003. The debiased square is without bias but for binning
    (above) and has the standard deviation 2 l2 sqrt(E r^2 / N) + sqrt(2 M) / (4 N).
    """
    draw, rate, l1, l2 = LAWS[name]
    rng = np.random.default_rng(20_26)
    n, n_bins = 400_000, 20
    p = draw(rng.random(n))
    y = rng.random(n) < rate(p)
    report = evaluate(p, y, n_bins=n_bins)
    deviation = math.sqrt(report["brier"].value / n)
    floor = math.sqrt(2 / math.pi) * math.sqrt(n_bins / (4 * n))
    for value in (report["ece"].value, report["ace"].value):
        assert l1 - 5 * math.sqrt(2) * deviation < value < l1 + floor + 5 * math.sqrt(2) * deviation
    square = calibrant.root_mean_square_calibration_error(p, y, 200, debiased=True) ** 2
    assert square == pytest.approx(l2**2, abs=5 * (2 * l2 * deviation + math.sqrt(400) / (4 * n)) + 1e-4)
    # The isotonic fit is within its own noise of the truth: MCB is the l2^2 of the monotone q, to O(N^-2/3) = 2e-4.
    assert report["miscalibration"].value == pytest.approx(l2**2, abs=5 * 2 * l2 * deviation + 1e-3)


@pytest.mark.parametrize("n_classes", [2, 4, 5])
def test_the_multiclass_law(n_classes):
    """Top probability t ~ U(1/C, 1), right with rate q = t^2 < t, the rest shared equally.

    As weighted rows: midpoints of t, every top class, every label. t > 1/C > the others, and 1/C is an edge for M = 20,
    so no bin mixes residuals of two signs and binning costs nothing; E|q - t| is a polynomial, met by 400 midpoints to
    h^2 / 24 times its curvature 2 and length: 5e-7.
    """
    t = 1 / n_classes + (1 - 1 / n_classes) * (np.arange(400) + 0.5) / 400
    shape = (len(t), n_classes, n_classes)
    probs = np.empty((*shape, n_classes))
    probs[...] = ((1 - t) / (n_classes - 1))[:, None, None, None]
    for k in range(n_classes):
        probs[:, k, :, k] = t[:, None]
    weights = np.empty(shape)
    weights[...] = ((1 - t**2) / (n_classes - 1))[:, None, None]
    for k in range(n_classes):
        weights[:, k, k] = t**2
    labels = np.broadcast_to(np.arange(n_classes), shape)
    args = probs.reshape(-1, n_classes), labels.reshape(-1)
    a = 1 / n_classes
    truth = ((1 - a**2) / 2 - (1 - a**3) / 3) / (1 - a)
    top = calibrant.expected_calibration_error(*args, 20, weights=weights.reshape(-1))
    assert top == pytest.approx(truth, abs=1e-6)
    each = calibrant.classwise_calibration(*args, 20, weights=weights.reshape(-1))
    assert each.value == pytest.approx(2 / n_classes * truth, abs=1e-6)
    assert each.errors == pytest.approx(np.full(n_classes, 2 / n_classes * truth), abs=1e-6)


# ---------------------------------------------------------------- what went wrong elsewhere


def test_a_score_of_one_is_in_the_last_bin():
    # torchmetrics issue 3510: .525.
    assert calibrant.expected_calibration_error([0.95, 1.0], [1, 0], n_bins=10) == exactly(0.475)
    for closed in ("right", "left"):
        assert calibrant.reliability_diagram([1.0], [1], n_bins=10, closed=closed).counts.tolist() == [0] * 9 + [1]


def test_a_score_of_zero_is_counted():
    # calzone loses it, inspect_evals counts it without binning it.
    for closed in ("right", "left"):
        diagram = calibrant.reliability_diagram([0.0, 0.0, 0.3], [1, 0, 0], n_bins=10, closed=closed)
        assert diagram.counts.sum() == 3
        assert diagram.counts[0] == 2
    assert calibrant.expected_calibration_error([0.0, 0.0], [1, 0]) == 0.5


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_seventy_thousand_rows(dtype):
    # torchmetrics in float16 counts to 2048 and says 0.0: every third of 70,000 is 23,334, of scores of one half.
    p, y = np.full(70_000, 0.5, dtype=dtype), np.arange(70_000) % 3 == 0
    truth = 0.5 - 23_334 / 70_000
    assert calibrant.expected_calibration_error(p, y) == exactly(truth)
    assert calibrant.adaptive_calibration_error(p, y) == exactly(truth)
    assert calibrant.smooth_calibration_error(p, y) == pytest.approx(truth, abs=1e-7)
    assert calibrant.reliability_diagram(p, y).counts.sum() == 70_000


@pytest.mark.covering
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize(
    "measure",
    [
        calibrant.expected_calibration_error,
        calibrant.adaptive_calibration_error,
        calibrant.smooth_calibration_error,
        calibrant.brier_score,
        calibrant.negative_log_likelihood,
        calibrant.score_decomposition,
        calibrant.reliability_diagram,
        calibrant.evaluate,
    ],
)
def test_what_is_not_finite_is_never_hidden(measure, logits, bad):
    # torchmetrics puts the whole batch through a sigmoid and hides it; scikit-learn returns a bin of NaN.
    with pytest.raises(InputError, match=rf"probs: expected finite numbers, got {bad} at row 2; ") as error:
        measure([0.1, 0.9, bad, bad], [0, 1, 1, 0], logits=logits)
    assert error.value.row == 2


def test_logits_are_never_guessed():
    # torchmetrics: .226 in one batch, .091 in two of the same logits, since a batch inside [0, 1] is taken as it is.
    z, y = np.array([0.2, 0.9, -1.0, 3.0]), np.array([0, 1, 0, 1])
    with pytest.raises(
        InputError, match=r"values in \[0, 1\], got -1(\.0)? at row 2; pass logits=True if they are logits"
    ):
        calibrant.expected_calibration_error(z, y)
    assert calibrant.expected_calibration_error(z[:2], y[:2], 10) == exactly((0.2 + 0.1) / 2)
    errors = [calibrant.brier_score(z[a:b], y[a:b], logits=True) for a, b in ((0, 2), (2, 4), (0, 4))]
    assert errors[0] / 2 + errors[1] / 2 == exactly(errors[2]) == exactly(np.mean((expit(z) - y) ** 2))
    with pytest.raises(InputError, match="pass logits=True"):
        calibrant.smooth_calibration_error([3.0, -2.0], [1, 0])  # relplot says 3.0


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_a_perfect_model_has_a_float_for_an_error(norm):
    found = calibrant.expected_calibration_error(np.array([0, 1]), np.array([0, 1]), norm=norm)
    assert type(found) is float
    assert found == 0.0


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_smooth_error_takes_every_float(dtype):
    # TorchUncertainty raises for float64. All residuals are positive, so the error is their mean at any bandwidth.
    p = np.array([0.25, 0.5, 1.0], dtype=dtype)
    assert calibrant.smooth_calibration_error(p, [1, 1, 1]) == pytest.approx(1.25 / 3, abs=1e-7)


@pytest.mark.parametrize("binning", ["uniform", "quantile"])
def test_fewer_rows_than_bins(binning):
    # TorchUncertainty: NaN. Two rows, a bin each.
    assert calibrant.expected_calibration_error([0.2, 0.7], [0, 1], 15, binning=binning) == exactly(0.25)
    assert calibrant.expected_calibration_error([0.2], [0], 15, binning=binning) == exactly(0.2)
    assert calibrant.maximum_calibration_error([0.2, 0.7], [0, 1], 15, binning=binning) == exactly(0.3)


def test_ties_are_not_split():
    # A calibrated constant score: TorchUncertainty says .28, or .08 after a shuffle; netcal raises.
    y = np.repeat([0, 1], [70, 30])
    for order in (np.arange(100), np.random.default_rng(0).permutation(100)):
        assert calibrant.adaptive_calibration_error(np.full(100, 0.3), y[order], 10) == exactly(0.0)
    # Half of the rows tied: three bins of five, {.1, .2} {.3 x 6} {.8, .9}.
    p = [0.1, 0.2, *[0.3] * 6, 0.8, 0.9]
    counts = calibrant.reliability_diagram(p, [0] * 10, 5, binning="quantile").counts
    assert counts.tolist() == [2, 0, 6, 0, 2]


def test_every_measure_judges_the_same_event():
    # TorchUncertainty's binary error is of the positive class, its ACE and smECE of the predicted one.
    p, y = [0.3, 0.7], [1, 1]
    measures = (
        calibrant.expected_calibration_error,
        calibrant.adaptive_calibration_error,
        calibrant.smooth_calibration_error,
    )
    for measure in measures:
        assert measure(p, y) == pytest.approx(0.5, abs=1e-7)
        assert measure(p, y, notion="top-label") == pytest.approx(0.2, abs=1e-7)


def test_the_task_does_not_depend_on_the_labels_seen():
    # netcal infers it from them: of three classes only the first two are seen, of two events only one.
    probs = np.array([[0.5, 0.2, 0.3], [0.1, 0.7, 0.2]])
    assert calibrant.expected_calibration_error(probs, [0, 1]) == exactly(0.4)
    assert calibrant.expected_calibration_error([0.8, 0.8], [0, 0]) == exactly(0.8)
    assert evaluate([0.8, 0.8], [1, 1]).notion == "positive"


def test_absent_classes_stay():
    # probmetrics drops the columns of absent classes and normalises the rest.
    probs, labels = np.array([[0.5, 0.2, 0.3], [0.1, 0.7, 0.2]]), [0, 1]
    brier = (0.25 + 0.04 + 0.09 + 0.01 + 0.09 + 0.04) / 2
    assert calibrant.brier_score(probs, labels) == exactly(brier)
    assert calibrant.negative_log_likelihood(probs, labels) == exactly(-(math.log(0.5) + math.log(0.7)) / 2)
    errors = calibrant.classwise_calibration_errors(probs, labels, 1)
    assert errors == exactly(np.array([0.2, 0.05, 0.25]))
    assert calibrant.classwise_calibration_error(probs, labels, 1) == exactly(0.5 / 3)


def test_as_many_bins_as_asked():
    # MAPIE's are one fewer and a {0}.
    diagram = calibrant.reliability_diagram([0.0, 0.05, 0.15], [0, 0, 0], 10)
    assert len(diagram.edges) == 11
    assert diagram.counts.tolist() == [2, 1] + [0] * 8
    assert diagram.proportions == exactly(np.array([2 / 3, 1 / 3] + [0] * 8))
    assert np.isnan(diagram.confidences[2:]).all()
    assert np.isnan(diagram.accuracies[2:]).all()


def test_mass_at_the_ends_counts_in_full():
    # 1,000 rows at 0 with 20 % positives and 1,000 calibrated rows at 1/2: .1 at any bandwidth. relplot: .068.
    p, y = np.repeat([0.0, 0.5], 1000), np.concatenate([np.arange(1000) < 200, np.arange(1000) < 500])
    assert calibrant.smooth_calibration_error(p, y) == pytest.approx(0.1, abs=1e-7)
    assert calibrant.smooth_calibration_error(1 - p, ~y) == pytest.approx(0.1, abs=1e-7)
    assert calibrant.smooth_calibration_error(p, y, method="mesh") == printed(0.068, 3)
    assert mesh_smooth_error(p, y - p, kernel="reflected").value == printed(0.068, 3)


def test_tenths_fall_in_the_same_bins_in_every_precision():
    # numpy.linspace's 3rd, 6th and 7th edge of ten are not 3 / 10, 6 / 10 and 7 / 10, and neither are float32's.
    p, y = np.repeat(np.arange(1, 11) / 10, 10), np.tile(np.arange(10) < 6, 10)
    found = [calibrant.reliability_diagram(p.astype(t), y, 10).counts.tolist() for t in (np.float32, np.float64)]
    assert found == [[10] * 10] * 2
    left = [calibrant.reliability_diagram(p.astype(t), y, 10, closed="left").counts for t in (np.float32, np.float64)]
    assert [counts.tolist() for counts in left] == [[0, *[10] * 8, 20]] * 2


# ---------------------------------------------------------------- cosine series


@pytest.mark.parametrize("size", [4, 6, 48, 512])
def test_cosine_series_are_those_of_scipy(size):
    rng, terms = np.random.default_rng(size), size // 2
    masses, coefficients = rng.normal(size=(3, size)), rng.normal(size=(3, terms))
    near = {"rtol": 0, "atol": size * 2.0**-50}  # sums of so many normal numbers, with some rounding
    np.testing.assert_allclose(cosines.spectrum_of(masses, terms), dct(masses, type=2)[:, :terms] / 2, **near)
    padded = np.pad(coefficients, ((0, 0), (0, size - terms)))
    np.testing.assert_allclose(cosines.series_at_middles(coefficients, size), dct(padded, type=3), **near)
    values, slopes = cosines.series_at_ends(coefficients[0], size)
    t, k = np.arange(size + 1)[:, None] / size, np.pi * np.arange(terms)
    twice = np.where(k > 0, 2, 1) * coefficients[0]
    np.testing.assert_allclose(values, np.cos(k * t) @ twice, rtol=0, atol=size * 2.0**-48)  # angles round, too
    np.testing.assert_allclose(slopes, -np.sin(k * t) @ (k * twice), rtol=0, atol=size**2 * 2.0**-46)


@pytest.mark.parametrize(("least", "length"), [(4, 4), (4.1, 6), (6, 6), (6.5, 8), (32, 32), (33, 48), (49, 64)])
def test_fast_lengths(least, length):
    assert cosines.fast_length(least) == length


# ---------------------------------------------------------------- roots


@pytest.mark.parametrize(
    ("function", "low", "high", "expected", "bound"),
    [
        (lambda x: x**3 - 2, 0.0, 2.0, 2 ** (1 / 3), 1e-12),
        (lambda x: math.exp(-x) - 1e-9, 0.0, 100.0, 9 * math.log(10), 1e-7),  # 1e-7 away it is below the rounding
        (lambda x: math.copysign(1.0, x - 0.3), 0.0, 1.0, 0.3, 1e-12),  # a jump: bisection
        (lambda x: (x - 0.3) ** 9, 0.0, 1.0, 0.3, 1e-12),
        (lambda x: x, 0.0, 1.0, 0.0, 0),
        (lambda x: 1 - x, 0.0, 1.0, 1.0, 0),
        (lambda x: 1e-300 * (x - 0.5), 0.0, 1.0, 0.5, 1e-12),
    ],
)
def test_root(function, low, high, expected, bound):
    calls = []

    def counted(x):
        calls.append(x)
        return function(x)

    assert root(counted, low, high, xtol=1e-12) == pytest.approx(expected, rel=0, abs=bound)
    assert low <= min(calls) <= max(calls) <= high
    assert len(calls) <= 2 * math.log2((high - low) / 1e-12)  # twice as many as by bisection


def test_root_needs_two_signs():
    with pytest.raises(ValueError, match=r"same sign at 0\.0 and 1\.0"):
        root(lambda x: 1 + x, 0.0, 1.0, xtol=1e-9)
