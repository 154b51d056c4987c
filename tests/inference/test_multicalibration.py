"""The multicalibration error: its formula, its p-value, groups of every form, and where it is shown.

Tolerances. Two ways to one sum of some hundred terms below 1 agree to about 1e-13; `CLOSE` is 1e-10, relative. Shares
seen in simulations are held to 4 binomial standard deviations.
"""

from __future__ import annotations

import functools
import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calibrant
from calibrant import CalibrationSketch, ReliabilityTable, evaluate, multicalibration_error
from calibrant.errors import InputError
from calibrant.inference import kuiper_test
from calibrant.measures.cumulative.cumulative import brownian_range_sf
from tests.samples import sketch_of

CLOSE = 1e-10
near = functools.partial(pytest.approx, rel=CLOSE, abs=1e-12, nan_ok=True)
bad = functools.partial(pytest.raises, InputError)


def draw(seed, n=2_000, n_groups=8, wrong=None, scale=1.0):
    """Uniform scores and calibrated outcomes, but for one group."""
    rng = np.random.default_rng(seed)
    p, group, u = scale * rng.random(n), rng.integers(0, n_groups, n), rng.random(n)
    return p, (u < np.where(group == wrong, p**2, p)).astype(int), group


def naive(p, y, weights=None):
    """Kuiper's error and its standard deviation, by a loop over the distinct scores."""
    w = np.ones(len(p)) if weights is None else weights
    sums = [0.0]
    for score in sorted(set(p)):
        rows = p == score
        sums.append(sums[-1] + float(np.sum(w[rows] * (y[rows] - score))))
    whole = np.array_equal(w, np.rint(w))  # then a row of weight 2 is two rows
    variance = np.sum((w if whole else w**2) * p * (1 - p))
    return (max(sums) - min(sums)) / w.sum(), math.sqrt(variance) / w.sum()


@pytest.mark.parametrize("weighting", ["none", "whole", "any"])
def test_it_is_the_largest_standardised_kuiper_error_over_groups(weighting):
    p, y, group = draw(1, 600, 4, wrong=2)
    p = np.round(p, 2)  # ties
    rng = np.random.default_rng(2)
    weights = {"none": None, "whole": rng.integers(1, 4, 600).astype(float), "any": rng.uniform(0.3, 2, 600)}[weighting]
    found = multicalibration_error(p, y, groups=group, weights=weights)
    expected = {}
    for name in (None, 0, 1, 2, 3):
        rows = np.ones(600, bool) if name is None else group == name
        expected[None if name is None else str(name)] = naive(
            p[rows], y[rows], None if weights is None else weights[rows]
        )
    assert [one.name for one in found.groups] == list(expected)
    for one, (error, deviation) in zip(found.groups, expected.values(), strict=True):
        assert (one.kuiper, one.standardised) == near((error, error / deviation))
        assert one.p_value == near(brownian_range_sf(error / deviation))
    worst = max(expected, key=lambda name: expected[name][0] / expected[name][1])
    assert (found.group, found.value) == (worst, near(expected[worst][0] / expected[worst][1]))
    assert found.group == "2"
    rate = np.average(y, weights=weights)
    assert found.absolute == near(found.value * expected[None][1])
    assert found.relative == near(found.absolute / min(rate, 1 - rate))
    ordered = sorted(one.p_value for one in found.groups)
    assert found.p_value == near(5 * ordered[0])
    assert float(found) == found.value
    assert found.n == 600


def test_relative_is_to_the_rarer_outcome_whichever_it_is():
    p, y, group = draw(19, 300, 2)
    p = np.sqrt(p)  # most scores are above .5, and outcomes with them
    y[p > 0.5] = 1
    assert y.mean() > 0.6
    found = multicalibration_error(p, y, groups=group)
    turned = multicalibration_error(1 - p, 1 - y, groups=group)
    assert found.relative == near(found.absolute / (1 - y.mean()))
    assert (turned.value, turned.relative, turned.p_value) == near((found.value, found.relative, found.p_value))


def test_it_agrees_with_mcgrad():
    """MCGrad 0.1.5, `MulticalibrationError(..., max_depth=1, precision_dtype="float64")`, without ties.

    Its weights are not frequencies: these are not whole. Its p-value is the smallest, without a correction.
    """
    i = np.arange(240)
    p = (i * 0.6180339887498949 + 0.05) % 1
    y = ((i * 0.7548776662466927 + 0.3) % 1 < p ** (1 + (i % 3) / 2)).astype(int)
    groups = np.array(list("abc"))[(i * 7 // 5) % 3]
    recorded = {  # mce_sigma, mce, mce_relative, mce_pvalue, then segments_ecce_sigma and segments_ecce: all, a, b, c
        None: (
            (3.5537280302633083, 0.09358743763466318, 22.46098503231916, 0.0015192470700191585),
            (3.5537280302633083, 1.5562567438988428, 2.3894371976416546, 2.680746556225029),
            (0.09358743763466318, 0.07091386827301244, 0.10909310242631222, 0.12228841155233229),
        ),
        0.75: (
            (3.5308915739388755, 0.10413617149101106, 25.795198442727507, 0.0016566459219417018),
            (3.5308915739388755, 1.3901950955687021, 2.288641281085634, 2.9505178707847355),
            (0.10413617149101106, 0.072670467849501, 0.11324209333574488, 0.15182038349703034),
        ),
    }
    for least, (numbers, sigmas, errors) in recorded.items():
        found = multicalibration_error(p, y, groups=groups, weights=None if least is None else least + i % 4)
        least_p = min(one.p_value for one in found.groups)
        assert (found.value, found.absolute, 100 * found.relative, least_p) == near(numbers)
        assert [one.standardised for one in found.groups] == near(list(sigmas))
        assert [one.kuiper for one in found.groups] == near(list(errors))
        assert found.p_value == near(4 * least_p)


def rows_of(group):
    """At least 30 rows, the least that are tested: weights do not count there, but repeated rows do."""
    return st.lists(st.tuples(st.integers(0, 10), st.integers(0, 1), st.just(group)), min_size=30, max_size=80)


rows_of_groups = st.builds(
    lambda a, b, random: random.sample(a + b, len(a + b)), rows_of("a"), rows_of("b"), st.randoms()
)


@given(rows_of_groups, st.randoms(use_true_random=False))
def test_the_order_of_rows_and_weight_two_play_no_part(rows, random):
    twice = [row for i, row in enumerate(rows) for _ in range(1 + i % 2)]
    random.shuffle(twice)
    p, y, group = (np.array(column) for column in zip(*rows, strict=True))
    found = multicalibration_error(p / 10, y, groups=group, weights=1.0 + np.arange(len(rows)) % 2)
    p, y, group = (np.array(column) for column in zip(*twice, strict=True))
    other = multicalibration_error(p / 10, y, groups=group)
    assert [one.flag for one in found.groups] == [one.flag for one in other.groups]
    assert (found.value, found.absolute) == near((other.value, other.absolute))
    if not any(one.flag for one in found.groups) and not any(one.flag for one in other.groups):
        assert [one.p_value for one in found.groups] == near([one.p_value for one in other.groups])


# ---------------------------------------------------------------- groups of every form


def test_groups_may_overlap_and_be_crossed():
    p, y, ward = draw(3, n_groups=3)
    young = np.random.default_rng(4).random(2_000) < 0.3
    found = multicalibration_error(p, y, groups={"ward": ward, "young": young, "high": (p > 0.5).tolist()})
    assert [one.name for one in found.groups] == [None, "ward: 0", "ward: 1", "ward: 2", "young", "high"]
    assert [one.n for one in found.groups] == [
        2_000,
        *np.bincount(ward).tolist(),
        np.count_nonzero(young),
        np.count_nonzero(p > 0.5),
    ]
    alone = multicalibration_error(p, y, groups=young)
    assert [one.name for one in alone.groups] == [None, "False", "True"]
    assert found.groups[4].standardised == near(alone.groups[2].standardised)
    assert found.groups[4].p_value == near(kuiper_test(p[young], y[young]).p_value)
    assert "Holm's correction for 6 groups, including all rows as a group" in found.method


def test_small_groups_are_listed_and_count_for_nothing():
    p, y, group = draw(5, 500, 2)
    group[:29] = 7
    y[:29] = p[:29] < 0.5  # as wrong as can be
    found = multicalibration_error(p, y, groups=group)
    small = found.groups[-1]
    assert (small.name, small.n, small.flag[:20]) == ("7", 29, "fewer than 30 rows, ")
    assert small.standardised > 4
    assert math.isnan(small.p_value)
    assert math.isnan(small.adjusted_p_value)
    assert found.group != "7"
    assert "Holm's correction for 3 groups" in found.method


def test_groups_of_sure_scores_are_0_or_infinite():
    p, y = np.repeat([0.0, 1.0], 50), np.repeat([0, 1], 50)
    found = multicalibration_error(p, y, groups=y)
    assert (found.value, found.absolute, found.p_value, found.group) == (0, 0, 1, None)
    y[0] = 1
    found = multicalibration_error(
        np.r_[p, np.full(50, 0.5)], np.r_[y, np.arange(50) % 2], groups=np.repeat([0, 1, 2], 50)
    )
    assert (found.value, found.group, found.p_value) == (math.inf, "0", 0)
    assert math.isnan(multicalibration_error(p, np.zeros(100, int), groups=y).relative)


def test_the_top_label_is_judged_by_default():
    rng = np.random.default_rng(6)
    probs = rng.dirichlet(np.ones(3), 400)
    labels, group = rng.integers(0, 3, 400), np.arange(400) % 2
    found = multicalibration_error(probs, labels, groups=group)
    other = multicalibration_error(probs.max(axis=1), probs.argmax(axis=1) == labels, groups=group)
    assert (found.value, found.p_value) == near((other.value, other.p_value))


def test_arguments_that_cannot_be_used_are_refused():
    p, y, group = draw(7, 200, 2)
    with bad(match="groups: expected an array of each row's group name, or a mapping .* got None"):
        multicalibration_error(p, y)
    with bad(match="groups: expected .* got groups with a table"):
        multicalibration_error(ReliabilityTable.from_scores(p, y), groups=group)
    with bad(match="groups: expected .* got an empty mapping"):
        multicalibration_error(p, y, groups={})
    with bad(match="groups: expected distinct names, got several with the same text"):
        multicalibration_error(p, y, groups={"a: 1": group > 0, "a": group})
    with bad(match="groups: expected 200 names"):
        multicalibration_error(p, y, groups=group[1:])
    with bad(match="notion: expected 'positive' or 'top-label' for groups, got 'classwise'"):
        multicalibration_error(np.column_stack([1 - p, p]), y, groups=group, notion="classwise")
    with bad(match="n_resamples: expected an integer from 1"):
        multicalibration_error(p, y, groups=group, n_resamples=0)
    sketch = sketch_of(p, y)
    with bad(match="probs: expected a sketch with groups, got one without groups"):
        multicalibration_error(sketch)
    with bad(match="groups: expected no value with a CalibrationSketch"):
        multicalibration_error(sketch, groups=group)


# ---------------------------------------------------------------- sketches


@pytest.mark.parametrize("law", ["spread", "one cell", "alternating"])
def test_a_sketch_brackets_the_value(law):
    rng = np.random.default_rng(8)
    p, y, group = draw(9, 1_500, 3, wrong=1)
    if law == "one cell":  # within a cell of the standard grid, in an order that the cell does not know
        p = rng.uniform(0.5001, 0.5030, 1_500)
        y = (p < 0.5015).astype(int)
    elif law == "alternating":
        p = np.sort(rng.uniform(0, 1, 1_500))
        y = np.repeat([0, 1], 5)[np.arange(1_500) % 10]
    exact = multicalibration_error(p, y, groups=group)
    sketches = {}
    for name in range(3):
        sketches[name] = CalibrationSketch()
        for half in (slice(None, None, 2), slice(1, None, 2)):
            rows = np.flatnonzero(group == name)[half]
            sketches[name].update(p[rows], y[rows])
    together = sketch_of(p, y, groups=group)
    for found in (multicalibration_error(sketches), multicalibration_error(together)):
        assert found.value - CLOSE <= exact.value <= found.value + found.error_bound + CLOSE
        assert found.error_bound < (20 if law == "one cell" else 0.5)
        for one, other in zip(found.groups, exact.groups, strict=True):
            assert (one.name, one.n) == (other.name, other.n)
            assert one.standardised - CLOSE <= other.standardised <= one.standardised + one.error_bound + CLOSE
    assert exact.error_bound == 0


# ---------------------------------------------------------------- clusters


def test_the_law_of_groups_in_clusters_is_that_of_kuipers_test():
    rng = np.random.default_rng(10)
    patient = np.repeat(np.arange(300), 4)
    p, u, group = rng.random(300)[patient], rng.random(300)[patient], (np.arange(300) % 2)[patient]
    y = (u < p).astype(int)
    found = multicalibration_error(p, y, groups=group, clusters=patient, n_resamples=399)
    for one, rows in zip(found.groups, (group >= 0, group == 0, group == 1), strict=True):
        test = kuiper_test(p[rows], y[rows], clusters=patient[rows], n_resamples=399)
        assert (one.standardised, one.p_value) == (test.statistic, test.p_value)
    plain = multicalibration_error(p, y, groups=group)
    assert found.value == plain.value
    assert found.p_value > 0.05 > plain.p_value  # four copies of each row mislead a test of independent rows
    assert found.method.endswith("; by cluster")
    by_sketch = {}
    for name in (0, 1):
        by_sketch[name] = CalibrationSketch()
        by_sketch[name].update(p[group == name], y[group == name], clusters=patient[group == name])
    assert multicalibration_error(by_sketch).p_value > 0.05
    single = multicalibration_error(p, y, groups=np.where(patient == 0, 9, group), clusters=patient)
    assert single.groups[-1].flag  # four rows
    lone = multicalibration_error(
        p, y, groups=np.where(patient < 30, 9, group), clusters=np.where(patient < 30, 0, patient)
    )
    assert lone.groups[-1].flag.startswith("all rows are in one cluster")
    assert multicalibration_error(p, y, groups=group, clusters=np.arange(1_200)).p_value == plain.p_value


def test_replicates_become_finer_where_the_correction_needs_it():
    rng = np.random.default_rng(11)
    patient = np.repeat(np.arange(200), 5)
    p, group = rng.random(1_000), (np.arange(200) % 4)[patient]
    y = (rng.random(1_000) < np.where(group == 3, p**4, p)).astype(int)
    found = multicalibration_error(p, y, groups=group, clusters=patient, n_resamples=19)
    # 5 groups at 5 % need 400 replicates: 19 alone know no p-value below 5 / 20 after the correction.
    assert found.p_value == near(5 / 401)
    assert found.group == "3"


# ---------------------------------------------------------------- the p-value


def test_the_law_of_sparse_groups_is_drawn():
    """One rare outcome at score .001 in 100 rows is 3 standard deviations, and happens in a tenth of samples."""
    p, y = np.full(200, 0.001), np.zeros(200, int)
    y[0] = 1
    found = multicalibration_error(p, y, groups=np.repeat([0, 1], 100), n_resamples=20_000)
    first = found.groups[1]
    assert first.standardised == near(0.9 / math.sqrt(100 * 0.001 * 0.999))
    assert brownian_range_sf(first.standardised) < 0.02
    # One outcome or more: 1 - .999^100 = .095. The p-value is 10 / l, draw l the tenth with an outcome: 105, give or
    # take 32.
    assert 10 / 300 < first.p_value < 10 / 40
    assert found.groups[2].p_value > 0.9  # no outcome: as usual


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.0, 0.04])
def test_eight_calibrated_groups_are_rejected_in_at_most_five_per_cent(scale):
    """The contract's eight groups of 2,000 calibrated rows; the smallest p-value alone rejects 29 %."""
    draws, rejected, smallest = 400, 0, 0
    for seed in range(draws):
        p, y, group = draw([12, seed], scale=scale)
        found = multicalibration_error(p, y, groups=group, n_resamples=400)
        rejected += found.p_value <= 0.05
        smallest += min(one.p_value for one in found.groups) <= 0.05
    print(f"scores up to {scale}: {rejected / draws}, uncorrected {smallest / draws}")
    assert rejected / draws <= 0.05 + 4 * math.sqrt(0.05 * 0.95 / draws)
    assert smallest / draws > 0.2


@pytest.mark.slow
def test_a_group_that_is_off_is_found():
    found = []
    for seed in range(100):
        p, y, group = draw([13, seed], wrong=5)
        found.append(multicalibration_error(p, y, groups=group))
    share = np.mean([one.group == "5" and one.p_value <= 0.05 for one in found])
    print(f"power {share}")
    assert share > 0.9


# ---------------------------------------------------------------- reports


def test_a_report_on_groups_has_it_and_shows_it_everywhere(tmp_path):
    p, y, number = draw(14, 1_000, 3, wrong=1)
    names = np.array(["north", "south", "*west*"])[number]
    report = evaluate(p, y, groups=names, n_resamples=99)
    found, alone = report.multicalibration, multicalibration_error(p, y, groups=names)
    assert found is not None
    assert (found.value, found.p_value, found.group) == (alone.value, alone.p_value, "south")
    written = json.loads(report.to_json())["multicalibration"]
    assert written["value"] == found.value
    assert [group["name"] for group in written["groups"]] == [None, "*west*", "north", "south"]
    line = f"ulticalibration error: {found.value:.1f} standard deviations in group south (Holm-adjusted p < 0.001)"
    page = report.to_html(tmp_path / "a.html").read_text("utf-8")
    for shown in (str(report), report.to_markdown(), page):
        assert line in " ".join(shown.replace("&lt;", "<").split()).replace("(Holm- adj", "(Holm-adj")
    assert evaluate(p, y, n_resamples=99).multicalibration is None
    assert evaluate(p, y, groups=names, level=None).multicalibration is None
    wide = np.column_stack([1 - p, p])
    assert evaluate(wide, y, groups=names, notion="classwise", n_resamples=99).multicalibration is None
    assert "ulticalibration" not in str(evaluate(p, y, groups=names, level=None))


def test_all_rows_may_be_the_worst_and_errors_infinite():
    rng = np.random.default_rng(15)
    p, group = rng.random(400), np.arange(400) % 4
    report = evaluate(p, rng.random(400) < p**2, groups=group, n_resamples=99)
    assert report.multicalibration.group is None
    assert "standard deviations in all rows (Holm-adjusted p < 0.001)" in " ".join(str(report).split())
    certain = evaluate(np.zeros(80), np.arange(80) == 0, groups=np.repeat([0, 1], 40), n_resamples=99)
    assert certain.multicalibration.value == math.inf
    assert "Multicalibration error: infinite" in str(certain)
    assert json.loads(certain.to_json())["not_finite"]["multicalibration.value"] == "infinite"


def test_without_resamples_sparse_and_clustered_groups_have_no_p_value():
    p, y, group = draw(16, 400, 2)
    clustered = evaluate(p, y, groups=group, clusters=np.arange(400) // 4, n_resamples=0).multicalibration
    assert math.isnan(clustered.p_value)
    assert {one.flag for one in clustered.groups} == {
        "the null distribution needs simulated data sets: pass n_resamples=1000"
    }
    assert clustered.value == multicalibration_error(p, y, groups=group).value
    assert evaluate(p, y, groups=group, n_resamples=0).multicalibration.p_value == near(
        multicalibration_error(p, y, groups=group).p_value
    )
    report = evaluate(p, y, groups=group, clusters=np.arange(400) // 4, n_resamples=0)
    assert "Multicalibration error: " in str(report)
    written = json.loads(report.to_json())
    assert written["multicalibration"]["p_value"] is None
    assert written["not_finite"]["multicalibration.groups[0].p_value"].startswith("the null distribution needs ")


def test_the_command_shows_it_with_by(tmp_path):
    from tests.in_process import run

    p, y, group = draw(17, 600, 2, wrong=1)
    pd.DataFrame({"score": p, "outcome": y, "ward": group}).to_csv(tmp_path / "a.csv", index=False)
    _, shown, _ = run("report", tmp_path / "a.csv", "--by", "ward", "--n-resamples", "99")
    assert "Multicalibration error: " in shown
    assert " standard deviations in group 1 (" in shown


def test_it_is_a_frame_of_groups():
    p, y, group = draw(18, 300, 2)
    frame = multicalibration_error(p, y, groups=group).to_pandas()
    assert list(frame.index) == ["", "0", "1"]
    assert list(frame.columns) == [
        "n",
        "kuiper",
        "standardised",
        "p_value",
        "adjusted_p_value",
        "flag",
        "error_bound",
    ]
    assert isinstance(multicalibration_error(p, y, groups=group), calibrant.MulticalibrationError)
