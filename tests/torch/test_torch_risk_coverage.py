"""The metrics of selective classification: TorchUncertainty's numbers, a naive oracle, and laws.

Tolerances: values of float32 batches come back in single precision, 2^-24 relative. TorchUncertainty adds N terms in
single precision. Values of float64 batches agree with the oracle to 1e-12, as both add at most some thousand terms.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="the torch extra is not installed")
torchmetrics = pytest.importorskip("torchmetrics", reason="the torch extra is not installed")

from calibrant import torch as ct  # noqa: E402
from calibrant.errors import InputError  # noqa: E402
from calibrant.table.grid import edges  # noqa: E402
from calibrant.torch import risk_coverage  # noqa: E402
from calibrant.torch.base import ProbabilityMetric  # noqa: E402
from tests.examples_of import at_most  # noqa: E402

SINGLE = 2.0**-22
CLOSE = 1e-12

METRICS = {
    "aurc": ct.AURC,
    "augrc": ct.AUGRC,
    "coverage at 20 % risk": lambda **k: ct.CovAtxRisk(0.2, **k),
    "coverage at 5 % risk": ct.CovAt5Risk,
    "risk at 50 % coverage": lambda **k: ct.RiskAtxCov(0.5, **k),
    "risk at 80 % coverage": ct.RiskAt80Cov,
}
#: The values that are linear in the curve, so that the mean over orders is the value of the mean curve.
LINEAR = [name for name in METRICS if not name.startswith("coverage")]

every = pytest.mark.parametrize("name", METRICS)
law = at_most(40, derandomize=True, database=None)


@pytest.fixture(params=["host", "device"])
def either(request, monkeypatch):
    """Have batches read on the host, or as on a device: by torch operations, with faults counted."""
    if request.param == "device":
        monkeypatch.setattr(ProbabilityMetric, "_read_host", ProbabilityMetric._read_device)
    return request.param


def data(kind, n, seed, dtype=torch.float32):
    """Return predictions of one event ("binary") or of ``kind`` classes, with labels drawn from them."""
    rng = np.random.default_rng([seed, n])
    if kind == "binary":
        p = rng.random(n)
        return torch.tensor(p, dtype=dtype), torch.tensor((rng.random(n) < p).astype(np.int64))
    exp = np.exp(2 * rng.normal(size=(n, kind)))
    p = exp / exp.sum(1, keepdims=True)
    y = (p.cumsum(1) < rng.random((n, 1))).sum(1).clip(max=kind - 1)
    return torch.tensor(p, dtype=dtype), torch.tensor(y)


def tied(kind, n, seed):
    """Return predictions with many equal confidences, which every precision represents."""
    p, y = data(kind, n, seed, torch.float64)
    if kind == "binary":
        return (p * 16).round() / 16, y
    top = (p.max(1).values * 8).ceil() / 8
    others = ((1 - top) / (kind - 1)).repeat(kind, 1).T  # of equal probability
    return others.scatter(1, p.argmax(1, keepdim=True), top[:, None]), y


def rows_of(preds, target):
    """Return confidence and error of each row, as lists of Python numbers."""
    p, y = preds.double().tolist(), target.tolist()
    if preds.ndim == 1:
        return [max(v, 1 - v) for v in p], [int((v > 0.5) != (label == 1)) for v, label in zip(p, y, strict=True)]
    return [max(row) for row in p], [int(row.index(max(row)) != label) for row, label in zip(p, y, strict=True)]


def in_order(errors):
    """Return every metric's value for expected errors in decreasing order of confidence, by the definition."""
    n, total, risks, accepted = len(errors), 0.0, [], []
    for k, error in enumerate(errors, start=1):
        total += error
        risks.append(total / k)
        accepted.append(total / n)
    enough = [k for k, risk in enumerate(risks, start=1) if risk <= 0.2 + CLOSE]
    few = [k for k, risk in enumerate(risks, start=1) if risk <= 0.05 + CLOSE]
    return {
        "aurc": trapezoid(risks),
        "augrc": trapezoid(accepted),
        "coverage at 20 % risk": enough[-1] / n if enough else math.nan,
        "coverage at 5 % risk": few[-1] / n if few else math.nan,
        "risk at 50 % coverage": risks[math.ceil(n * 0.5) - 1],
        "risk at 80 % coverage": risks[math.ceil(n * 0.8) - 1],
    }


def trapezoid(heights):
    """Return the area over coverages 1/N, ..., 1, divided by 1 - 1/N."""
    n, area = len(heights), 0.0
    for left, right in itertools.pairwise(heights):
        area += (left + right) / 2 / n
    return area / (1 - 1 / n) if n > 1 else math.nan


def naive(preds, target):
    """Return every metric's value; tied rows share their errors evenly."""
    confidences, errors = rows_of(preds, target)
    shares = []
    for confidence in sorted(set(confidences), reverse=True):
        own = [error for each, error in zip(confidences, errors, strict=True) if each == confidence]
        shares += [sum(own) / len(own)] * len(own)
    return in_order(shares)


def number(value):
    assert value.ndim == 0
    return value.item()


def assert_same(value, expected):
    """Hold two values to equality, NaN included."""
    torch.testing.assert_close(value, expected, rtol=0, atol=0, equal_nan=True)


# ---------------------------------------------------------------- values

#: Values of TorchUncertainty 0.13.0 for `data` without ties, in the order of METRICS. They were recorded from its file
#: metrics/classification/risk_coverage.py, with torch 2.13 on a CPU.
RECORDED = {
    ("binary", 2, 0): (0.25, 0.25, 0.5, 0.5, 0, 0.5),
    ("binary", 10, 6): (0.3798942, 0.1944445, 0.1, 0.1, 0.4, 0.25),
    ("binary", 57, 2): (0.1118402, 0.08897243, 0.7017544, 0.4736842, 0.1034483, 0.2608696),
    ("binary", 400, 3): (0.1293147, 0.09043232, 0.7525, 0.28, 0.15, 0.215625),
    (3, 5, 9): (0.025, 0.025, 1, 0.8, 0, 0),
    (3, 64, 5): (0.1201169, 0.08556548, 0.796875, 0.484375, 0.0625, 0.2115385),
    (10, 33, 6): (0.1569519, 0.1098485, 0.7575758, 0.2424242, 0.1764706, 0.2592593),
    (10, 300, 7): (0.3241542, 0.1960925, 0.1666667, 0.02, 0.32, 0.4541667),
    (4, 2000, 8): (0.1484668, 0.1005042, 0.666, 0.1535, 0.142, 0.245625),
    (2, 12, 10): (0.2042339, 0.1401515, 0.5, 0.25, 0.1666667, 0.3),
}


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("case", RECORDED, ids=str)
def test_values_are_those_of_torch_uncertainty(case):
    preds, target = data(*case)
    confidences, _ = rows_of(preds, target)
    assert len(set(confidences)) == len(target)
    for (name, make), theirs in zip(METRICS.items(), RECORDED[case], strict=True):
        assert number(make()(preds, target)) == pytest.approx(theirs, rel=1e-6), name


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("make_data", [data, tied])
@pytest.mark.parametrize("kind", ["binary", 3])
@pytest.mark.parametrize("n", [2, 3, 17, 90, 700])
def test_values_are_those_of_a_loop_over_rows(make_data, kind, n):
    preds, target = make_data(kind, n, 1)
    expected = naive(preds.double(), target)
    for name, make in METRICS.items():
        double = number(make()(preds.double(), target))
        assert double == pytest.approx(expected[name], rel=CLOSE, abs=CLOSE, nan_ok=True), name
        if make_data is tied:  # single precision would make other ties of `data`
            single = make()(preds.float(), target)
            assert single.dtype == torch.float32
            assert number(single) == pytest.approx(expected[name], rel=SINGLE, nan_ok=True), name


def test_values_by_hand():
    """Three rows with confidences 0.9, 0.8, 0.7, of which the second is wrong: risks 0, 1/2, 1/3."""
    batch = torch.tensor([0.2, 0.9, 0.7], dtype=torch.float64), torch.tensor([1, 1, 1])
    found = {name: number(make()(*batch)) for name, make in METRICS.items()}
    assert found["aurc"] == pytest.approx((0 + 1 / 2) / 4 + (1 / 2 + 1 / 3) / 4, rel=CLOSE)
    assert found["augrc"] == pytest.approx((0 + 1 / 3) / 4 + (1 / 3 + 1 / 3) / 4, rel=CLOSE)
    assert found["coverage at 20 % risk"] == found["coverage at 5 % risk"] == 1 / 3
    assert found["risk at 50 % coverage"] == 1 / 2
    assert found["risk at 80 % coverage"] == 1 / 3


@pytest.mark.parametrize("label", [0, 1])
def test_all_correct_and_all_wrong(label):
    preds = torch.linspace(0.05, 0.45, 8, dtype=torch.float64)  # class 0 is predicted
    target = torch.full((8,), label)
    assert number(ct.AURC()(preds, target)) == label
    assert number(ct.AUGRC()(preds, target)) == pytest.approx(label * 9 / 16, rel=CLOSE)
    assert number(ct.RiskAtxCov(0.3)(preds, target)) == label
    coverage = ct.CovAtxRisk(0.99)(preds, target)
    assert math.isnan(coverage) if label else coverage == 1
    assert number(ct.CovAtxRisk(1.0)(preds, target)) == 1


def test_random_confidences_have_the_error_rate():
    """Over all orders of the errors, the mean AURC is the error rate e, and the mean AUGRC is e (1 + 1 / N) / 2."""
    preds = torch.linspace(0.1, 0.4, 6, dtype=torch.float64)
    orders = [torch.tensor([int(k in wrong) for k in range(6)]) for wrong in itertools.combinations(range(6), 2)]
    areas = [number(ct.AURC()(preds, order)) for order in orders]
    shares = [number(ct.AUGRC()(preds, order)) for order in orders]
    assert np.mean(areas) == pytest.approx(1 / 3, rel=CLOSE)
    assert np.mean(shares) == pytest.approx(1 / 3 * 7 / 12, rel=CLOSE)


def test_the_last_crossing_of_the_risk_counts():
    """Risks 1, 1/2, 1/3, 1/2, 2/5: 0.35 holds at three rows, and 0.45 again at five."""
    preds, target = torch.tensor([0.05, 0.1, 0.15, 0.2, 0.25]), torch.tensor([1, 0, 0, 1, 0])
    assert number(ct.CovAtxRisk(0.35)(preds, target)) == pytest.approx(3 / 5)
    assert number(ct.CovAtxRisk(0.45)(preds, target)) == 1
    assert number(ct.CovAtxRisk(0.3)(preds, target).isnan())


@pytest.mark.parametrize(("errors", "n"), [(1, 20), (3, 10), (1, 3), (7, 100), (11, 49)])
@pytest.mark.parametrize("equal", [False, True])
def test_a_risk_equal_to_the_threshold_is_admissible(errors, n, equal):
    """The quotient is rounded as the literal is, also within a tie, where each risk is the same quotient."""
    preds = torch.full((n,), 0.25) if equal else torch.linspace(0.01, 0.4, n)
    target = (torch.arange(n) >= n - errors).long()  # the least confident rows are wrong
    assert number(ct.CovAtxRisk(errors / n)(preds, target)) == 1
    below = number(ct.CovAtxRisk(float(np.nextafter(errors / n, 0)))(preds, target))
    assert math.isnan(below) if equal else below < 1


def test_coverages_round_up_to_rows():
    """From 0.25 to 0.5 of four rows are two rows, with risk 1/2."""
    preds, target = torch.tensor([0.1, 0.2, 0.3, 0.4]), torch.tensor([0, 1, 0, 0])
    for coverage, risk in ((0.01, 0), (0.25, 0), (0.26, 0.5), (0.5, 0.5), (0.75, 1 / 3), (1.0, 0.25)):
        assert number(ct.RiskAtxCov(coverage)(preds, target)) == pytest.approx(risk)
    assert number(ct.RiskAtxCov(0.0)(preds, target).isnan())  # no row is accepted; TorchUncertainty returns r_N


# ---------------------------------------------------------------- ties


def test_ties_are_the_mean_over_all_orders():
    """For each order of the rows that does not decrease in confidence, the naive value; then their mean."""
    confidences, errors = [0.9, 0.8, 0.8, 0.8, 0.6, 0.6], [1, 0, 1, 1, 0, 1]
    found = []
    for order in itertools.permutations(range(6)):
        if all(confidences[a] >= confidences[b] for a, b in itertools.pairwise(order)):
            found.append(in_order([errors[k] for k in order]))
    assert len(found) == 12
    preds = 1 - torch.tensor(confidences, dtype=torch.float64)  # class 0 is predicted
    for name in LINEAR:
        mean = np.mean([values[name] for values in found])
        assert number(METRICS[name]()(preds, torch.tensor(errors))) == pytest.approx(mean, rel=CLOSE), name


@every
@pytest.mark.parametrize("state", ["rows", "sketch"])
def test_the_order_of_rows_has_no_effect(name, state):
    preds, target = tied(4, 200, 3)
    order = torch.randperm(200, generator=torch.Generator().manual_seed(0))
    value = METRICS[name](state=state)(preds, target)
    assert_same(METRICS[name](state=state)(preds[order], target[order]), value)


def test_one_tie():
    """With one confidence for all rows, every risk is the error rate."""
    preds, target = torch.full((10,), 0.75), torch.tensor([1] * 8 + [0] * 2)
    assert number(ct.AURC()(preds, target)) == pytest.approx(0.2, rel=SINGLE)
    assert number(ct.AUGRC()(preds, target)) == pytest.approx(0.2 * 11 / 20, rel=SINGLE)
    assert number(ct.CovAtxRisk(0.2)(preds, target)) == 1
    assert number(ct.CovAtxRisk(0.19)(preds, target).isnan())
    assert number(ct.RiskAtxCov(0.01)(preds, target)) == pytest.approx(0.2, rel=SINGLE)


def test_the_risk_rises_and_falls_within_a_tie():
    """One correct row, then ten tied rows with 5 errors: 0.2 is reached after one of them, r = (k - 1) / (2 k)."""
    preds = torch.tensor([0.1] + [0.25] * 10)
    target = torch.tensor([0] + [0, 1] * 5)
    assert number(ct.CovAtxRisk(0.25)(preds, target)) == pytest.approx(2 / 11)
    assert number(ct.CovAtxRisk(0.4)(preds, target)) == pytest.approx(5 / 11)
    falls = torch.tensor([1] + [0] * 10)  # then r = 1 / k
    assert number(ct.CovAtxRisk(0.1)(preds, falls)) == 1
    assert number(ct.CovAtxRisk(0.09)(preds, falls).isnan())


# ---------------------------------------------------------------- batches, states, types


@every
@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("state", ["rows", "sketch"])
@pytest.mark.parametrize("kind", ["binary", 3])
def test_batches_and_merged_states_are_the_whole(name, state, kind):
    preds, target = data(kind, 150, 4)
    value = METRICS[name](state=state)(preds, target)
    parts = list(zip(preds.tensor_split((1, 40, 90)), target.tensor_split((1, 40, 90)), strict=True))
    metric, first, second = (METRICS[name](state=state) for _ in range(3))
    for k, part in enumerate(parts):
        assert_same(metric(*part), METRICS[name](state=state)(*part))
        (first if k < 2 else second).update(probs=part[0], targets=part[1])
    assert_same(metric.compute(), value)
    first.merge_state(second)
    assert_same(first.compute(), value)


@every
@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("kind", ["binary", 3])
def test_half_precision_gives_the_numbers_of_the_widened_values(name, dtype, kind):
    """More than 256 rows: bfloat16 cannot count them, so TorchUncertainty's risks are wrong."""
    preds, target = tied(kind, 600, 5)
    if kind != "binary":
        preds = torch.cat([preds[:, :1] * 0, preds], 1)  # in half precision the others round, but their sum is close
    value = METRICS[name]()(preds.to(dtype), target)
    assert value.dtype == torch.float32
    assert_same(value, METRICS[name]()(preds.to(dtype).float(), target))
    confidences, _ = rows_of(preds.to(dtype), target)
    assert len(set(confidences)) <= 9
    assert number(value) == pytest.approx(naive(preds.to(dtype), target)[name], rel=SINGLE, nan_ok=True)


@every
@pytest.mark.parametrize("state", ["rows", "sketch"])
@pytest.mark.parametrize("kind", ["binary", 3])
@pytest.mark.parametrize("declared", [None, False])
def test_nothing_waits_for_the_device(name, state, kind, declared):
    """The meta device has no values, so an operation that reads one raises."""
    metric = METRICS[name](state=state, logits=declared, ignore_index=-1).to("meta")
    preds, target = data(kind, 20, 6)
    for labels in (target, target.float()):
        metric.update(preds.to("meta"), labels.to("meta"))
    assert metric.device.type == "meta"


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("kind", ["binary", 3])
def test_logits_ignored_rows_and_more_axes(kind):
    preds, target = data(kind, 60, 7, torch.float64)
    logits = preds.logit() if kind == "binary" else preds.log() + 1
    labels = torch.where(torch.arange(60) % 5 == 0, -100, target)
    for name, make in METRICS.items():
        expected = naive(preds, target)[name]
        assert number(make()(logits, target)) == pytest.approx(expected, rel=1e-9, nan_ok=True)
        assert number(make(logits=True)(logits, target)) == pytest.approx(expected, rel=1e-9, nan_ok=True)
        kept = labels >= 0
        partial = make(ignore_index=-100)(preds, labels)
        assert number(partial) == pytest.approx(naive(preds[kept], target[kept])[name], rel=CLOSE, nan_ok=True)
        if kind == "binary":
            deep, flat = preds[:, None], target
        else:
            deep, flat = preds.reshape(5, 12, 3).movedim(2, 1), target.reshape(5, 12)
        assert number(make()(deep, flat)) == pytest.approx(expected, rel=CLOSE, nan_ok=True)


def test_equal_probabilities_predict_the_first_class():
    for preds in (torch.tensor([0.5, 0.5]), torch.tensor([[0.5, 0.5], [0.5, 0.5]])):
        assert ct.RiskAtxCov(1.0)(preds, torch.tensor([0, 0])) == 0
        assert ct.RiskAtxCov(1.0)(preds, torch.tensor([1, 1])) == 1
    assert ct.RiskAtxCov(1.0)(torch.full((1, 4), 0.25), torch.tensor([0])) == 0


@every
@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("state", ["rows", "sketch"])
def test_without_rows(name, state):
    metric = METRICS[name](state=state)
    with pytest.warns(UserWarning, match="before the"), pytest.raises(InputError, match="one batch before compute"):
        metric.compute()
    assert metric.error_bound is None
    assert metric(torch.zeros(0), torch.zeros(0)).isnan()
    assert math.isnan(metric.error_bound)
    metric = METRICS[name](state=state, ignore_index=-1)
    assert metric(torch.tensor([0.3]), torch.tensor([-1])).isnan()


def test_one_row():
    """An area needs two rows."""
    for label in (0, 1):
        batch = torch.tensor([0.3]), torch.tensor([label])
        for state in ("rows", "sketch"):
            for make in (ct.AURC, ct.AUGRC):
                metric = make(state=state)
                assert metric(*batch).isnan()
                assert metric.error_bound == 0
        assert ct.RiskAt80Cov()(*batch) == label
        assert ct.CovAt5Risk()(*batch).isnan() if label else ct.CovAt5Risk()(*batch) == 1


@every
@pytest.mark.parametrize("state", ["rows", "sketch"])
def test_copies_pickles_and_saved_states_go_on(name, state):
    metric = METRICS[name](state=state)
    metric.persistent(True)
    metric.update(*data(3, 40, 8))
    loaded = METRICS[name](state=state)
    loaded.persistent(True)
    loaded.load_state_dict(metric.state_dict())
    others = [pickle.loads(pickle.dumps(metric)), copy.deepcopy(metric), metric.clone(), loaded]
    metric.update(*data(3, 30, 9))
    for each in others:
        each.update(*data(3, 30, 9))
        assert_same(each.compute(), metric.compute())
        each.reset()
        assert_same(each(*data(3, 30, 9)), METRICS[name](state=state)(*data(3, 30, 9)))


@pytest.mark.parametrize("groups", [True, [list(METRICS)]])
@pytest.mark.parametrize("state", ["rows", "sketch"])
def test_all_share_one_state(groups, state):
    collection = torchmetrics.MetricCollection(
        {name: make(state=state) for name, make in METRICS.items()}, compute_groups=groups
    )
    for seed in (0, 1):
        collection.update(*data(3, 50, seed))
    assert len(collection.compute_groups) == 1
    for name, value in collection.compute().items():
        alone = METRICS[name](state=state)
        for seed in (0, 1):
            alone.update(*data(3, 50, seed))
        assert_same(value, alone.compute())


# ---------------------------------------------------------------- a sketch


def shapes_of_predictions(n):
    """Yield predictions of one event: spread, saturated, in few cells, with the errors in order within a cell."""
    rng = np.random.default_rng([9, n])
    saturated = np.where(rng.random(n) < 0.5, np.rint(rng.random(n)), rng.beta(20, 0.3, n))
    crowded = 0.75 + 2e-4 * rng.random(n)
    for p in (rng.random(n), saturated, crowded, np.round(rng.random(n), 2)):
        yield torch.tensor(p), torch.tensor((rng.random(n) < p).astype(np.int64))
    cell = np.searchsorted(edges("standard"), 0.7)
    low, high = edges("standard")[cell - 1 : cell + 1]
    p = np.linspace(low, high, n + 2)[1:-1]
    yield torch.tensor(p), torch.tensor((np.arange(n) >= n // 3).astype(np.int64))
    yield torch.tensor(p), torch.tensor((np.arange(n) < n // 3).astype(np.int64))


@pytest.mark.parametrize("n", [2, 7, 60, 3000])
def test_values_of_a_sketch_are_within_the_bound_of_those_of_rows(n):
    off, nearest = 0, 0.0
    for preds, target in shapes_of_predictions(n):
        for name, make in METRICS.items():
            rows, sketch = make(), make(state="sketch")
            exact, value = number(rows(preds, target)), number(sketch(preds, target))
            assert rows.error_bound == 0
            if math.isnan(sketch.error_bound):  # undefined for one order of a cell
                assert name.startswith("coverage")
                continue
            if math.isnan(exact):
                assert math.isnan(value)
                assert sketch.error_bound == 0
                continue
            error = abs(exact - value)
            assert error <= sketch.error_bound + CLOSE, name
            off += error > 1e-4
            nearest = max(nearest, error / max(sketch.error_bound, CLOSE))
    assert off >= (4 if n > 7 else 0)  # the bound is needed
    assert nearest > 0.95 or n == 2  # and is reached, by errors in order


@every
def test_a_sketch_of_one_confidence_in_each_cell_is_exact(name):
    """The bound is 0 but for rounding if cells have one row, or their errors are all equal."""
    preds = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.45], dtype=torch.float64).repeat_interleave(3)
    for target in (torch.zeros(15).long(), torch.tensor([0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0])):
        rows, sketch = METRICS[name](), METRICS[name](state="sketch")
        assert number(sketch(preds, target)) == pytest.approx(number(rows(preds, target)), rel=CLOSE, nan_ok=True)
        assert sketch.error_bound <= 15 * 2.0**-52
    rows, sketch = METRICS[name](), METRICS[name](state="sketch")
    sure, both = torch.tensor([1.0, 0.0, 1.0, 0.0, 0.75], dtype=torch.float64), torch.tensor([1, 1, 1, 0, 1])
    assert number(sketch(sure, both)) == pytest.approx(number(rows(sure, both)), rel=CLOSE, nan_ok=True)
    assert sketch.error_bound <= 5 * 2.0**-52  # the cells of 0 and 1 have one score each
    single = torch.tensor([0, 1, 0, 1, 1])
    assert number(sketch(preds[::3], single)) == pytest.approx(number(rows(preds[::3], single)), nan_ok=True)
    assert sketch.error_bound <= 5 * 2.0**-52


def test_a_sketch_returns_all_batches():
    metric = ct.AURC(state="sketch")
    metric.update(*data(3, 40, 0))
    assert metric.sketch().table.n == 40
    assert metric.sketch().table.positives.sum() == 40 - round(40 * number(ct.RiskAtxCov(1.0)(*data(3, 40, 0))))
    with pytest.raises(InputError, match="state: expected 'sketch'"):
        ct.AURC().sketch()


# ---------------------------------------------------------------- the curve


@law
@given(
    st.lists(st.integers(0, 300), max_size=8),
    st.lists(st.tuples(st.integers(1, 300), st.integers(0, 300)), min_size=1, max_size=8),
)
def test_areas_of_ties_are_those_of_their_rows(singles, ties):
    """In closed form, and added row by row; sums of 2,400 terms below 1 differ by rounding alone."""
    sizes = [1] * len(singles) + [size for size, _ in ties]
    errors = [k % 2 for k in singles] + [min(size, wrong) for size, wrong in ties]
    curve = risk_coverage._RiskCurve._of_ties(np.array(sizes), np.array(errors))
    shares = [wrong / size for size, wrong in zip(sizes, errors, strict=True) for _ in range(size)]
    expected = in_order(shares)
    assert curve.n == len(shares)
    close = {"rel": 1e-11, "abs": 1e-13, "nan_ok": True}
    assert curve.area == pytest.approx(expected["aurc"], **close)
    assert curve.generalized_area == pytest.approx(expected["augrc"], **close)
    assert curve.coverage_at(0.2) == pytest.approx(expected["coverage at 20 % risk"], **close)
    assert curve.risk_at(0.5) == pytest.approx(expected["risk at 50 % coverage"], **close)


def test_a_curve_of_a_trillion_rows():
    """Two ties, of which all rows of the second are wrong: the sum of (k - n) / k from n + 1 to 2 n is n (1 - ln 2)."""
    n = 10**12
    curve = risk_coverage._RiskCurve._of_ties(np.array([n, n]), np.array([0, n]))
    assert curve.area == pytest.approx((1 - math.log(2)) / 2, rel=1e-11)
    assert curve.generalized_area == pytest.approx(1 / 8, rel=1e-11)
    assert curve.coverage_at(0.2) == pytest.approx(0.625, rel=1e-11)  # (k - n) / k = 1 / 5
    assert curve.risk_at(0.75) == pytest.approx(1 / 3, rel=1e-11)


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("state", ["rows", "sketch"])
def test_the_risks_of_all_coverages(state):
    metric = ct.AURC(state=state)
    preds, target = tied("binary", 60, 2)
    metric.update(preds[:20], target[:20])
    metric.update(preds[20:], target[20:])
    _, errors = rows_of(preds, target)
    risks = metric.partial_compute()
    assert risks.shape == (60,)
    assert risks.dtype == torch.float64
    assert trapezoid(risks.tolist()) == pytest.approx(number(metric.compute()), rel=CLOSE)
    assert number(risks[-1]) == pytest.approx(sum(errors) / 60, rel=CLOSE)
    assert ct.AUGRC().partial_compute().shape == (0,)


# ---------------------------------------------------------------- arguments


@pytest.mark.parametrize(("make", "name"), [(ct.CovAtxRisk, "risk_threshold"), (ct.RiskAtxCov, "cov_threshold")])
def test_invalid_thresholds(make, name):
    """The tests of TorchUncertainty look for these types and words."""
    for value in ("0.5", 1, True, None, torch.tensor(0.5)):
        with pytest.raises(TypeError, match=rf"{name}: Expected threshold to be of type float, got .*; pass a number"):
            make(**{name: value})
    for value in (-0.5, 1.5, math.nan, math.inf):
        with pytest.raises(
            InputError, match=rf"{name}: expected a number in \[0, 1\], got {value}; .*Threshold should be in the range"
        ) as caught:
            make(value)
        assert isinstance(caught.value, ValueError)
    for value in (0.0, 1.0, np.float64(0.5)):
        assert getattr(make(value), name) == value
    with pytest.raises(TypeError, match=name):
        make()


def test_signatures_are_those_of_torch_uncertainty():
    """The first arguments, their names and their order; the others can be passed by name only."""
    positional = {
        "AURC": [],
        "AUGRC": [],
        "CovAtxRisk": ["risk_threshold"],
        "CovAt5Risk": [],
        "RiskAtxCov": ["cov_threshold"],
        "RiskAt80Cov": [],
    }
    higher = {"CovAtxRisk", "CovAt5Risk"}
    for name, expected in positional.items():
        kind = getattr(ct, name)
        parameters = inspect.signature(kind).parameters.values()
        assert [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD] == expected
        assert [p.kind for p in parameters][-1] is inspect.Parameter.VAR_KEYWORD
        assert kind.is_differentiable is False
        assert kind.full_state_update is False
        assert kind.higher_is_better is (name in higher)
        metric = kind(*[0.5] * len(expected), sync_on_compute=False, dist_sync_on_step=True)
        assert metric.sync_on_compute is False
    assert ct.CovAt5Risk().risk_threshold == 0.05
    assert ct.RiskAt80Cov().cov_threshold == 0.8
    assert issubclass(ct.AUGRC, ct.AURC)
    assert issubclass(ct.CovAt5Risk, ct.CovAtxRisk)
    assert issubclass(ct.RiskAt80Cov, ct.RiskAtxCov)


def test_arguments_that_they_do_not_have():
    for name in ("notion", "half", "bins", "num_classes"):
        with pytest.raises(InputError, match=f"{name}: expected an argument of AURC"):
            ct.AURC(**{name: "top-label"})
    with pytest.raises(InputError, match="risk_threshold: expected an argument of CovAt5Risk"):
        ct.CovAt5Risk(risk_threshold=0.1)
    with pytest.raises(InputError, match="state: expected one of 'rows', 'sketch'"):
        ct.AURC(state="cells")


# ---------------------------------------------------------------- the checks of TorchUncertainty's suite


FIVE = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.2])


@pytest.mark.parametrize("columns", [False, True])
def test_five_rows_with_a_tie(columns):
    """Float targets as well; the tied rows are both correct, so their order does not matter."""
    preds = torch.stack([FIVE, 1 - FIVE], 1) if columns else FIVE

    def area(labels):
        target = torch.tensor(labels, dtype=torch.float32)
        return number(ct.AURC()(preds, 1 - target if columns else target))

    assert area([1, 1, 1, 1, 1]) == pytest.approx(1)
    assert area([0, 0, 0, 0, 0]) == pytest.approx(0)
    # Risks 0, 0, 0, 1/4, 2/5 at the coverages 0.2, ..., 1.
    assert area([0, 0, 1, 1, 0]) == pytest.approx((0.25 / 2 + (0.25 + 0.4) / 2) * 0.2 / 0.8)
    assert ct.AURC()(preds[:1], torch.tensor([1.0])).isnan()


def test_coverages_and_risks_of_few_rows():
    wrong = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4], [0.8, 0.2]]), torch.ones(5)
    assert ct.CovAtxRisk(risk_threshold=0.5)(*wrong).isnan()
    assert ct.RiskAtxCov(cov_threshold=0.5)(*wrong) == 1
    nine = torch.tensor([0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.48, 0.49])
    several = ct.CovAtxRisk(risk_threshold=0.55)(nine, torch.tensor([1.0, 0, 1, 1, 1, 0, 0, 0, 1]))
    assert number(several) == pytest.approx(8 / 9)
    assert number(ct.RiskAtxCov(cov_threshold=0.5)(FIVE, torch.tensor([0.0, 0, 1, 1, 1]))) == pytest.approx(1 / 3)
    assert number(ct.CovAtxRisk(risk_threshold=0.5)(FIVE, torch.tensor([0.0, 0, 1, 1, 1]))) == pytest.approx(4 / 5)
    assert ct.CovAtxRisk(risk_threshold=0.5)(FIVE, torch.tensor([0.0, 0, 1, 1, 0])) == 1
    assert ct.CovAtxRisk(risk_threshold=0.5)(torch.zeros(0), torch.zeros(0)).isnan()
    six, target = torch.tensor([0.1, 0.19, 0.3, 0.15, 0.4, 0.2]), torch.tensor([0.0, 0, 1, 0, 1, 1])
    assert ct.RiskAtxCov(cov_threshold=0.5)(six, target) == 0
    six[1] = 0.2  # tied with the last row, which is wrong
    assert ct.RiskAtxCov(cov_threshold=0.55)(six, target) == 1 / 4


@pytest.mark.parametrize("logits", [False, True])
def test_targets_with_fractions_are_errors_with_a_warning(logits):
    """TorchUncertainty's tests have such targets. The class that is not predicted has the same effect."""
    preds, target = data("binary", 40, 3)
    wrong, some = (preds <= 0.5).long(), torch.arange(40) % 4 == 0
    preds = preds.logit() if logits else preds
    for name, make in METRICS.items():
        with pytest.warns(UserWarning, match="target: expected 0 or 1, got fractions in 10 of 40 rows"):
            value = make()(preds, torch.where(some, target + 0.25, target.float()))
        assert_same(value, make()(preds, torch.where(some, wrong, target)))
        assert not value.isnan() or name.startswith("coverage")


def test_other_targets_that_are_no_labels():
    """Arguments in the wrong order, fractions for classes, NaN, a missing class; whole floats are labels."""
    preds, target = data("binary", 40, 3)
    probs, labels = data(3, 40, 3)
    for batch in (
        (target.float(), preds),
        (probs, labels + 0.25),
        (preds, torch.full((40,), torch.nan)),
        (preds, torch.full((40,), 7.0)),
    ):
        with pytest.raises(InputError, match="target"):
            ct.AURC()(*batch)
    assert_same(ct.AURC()(preds, target.float()), ct.AURC()(preds, target))
    assert_same(ct.AURC()(probs, labels.double()), ct.AURC()(probs, labels))


def test_targets_with_fractions_on_a_device_are_faults(monkeypatch):
    monkeypatch.setattr(risk_coverage._RiskCoverage, "_read_host", lambda self, *batch: self._read_device(*batch))
    metric = ct.AURC()
    metric.update(FIVE, torch.tensor([0.0, 0.5, 1, 0, 0]))
    with pytest.raises(InputError, match="1 row with a label out of range"):
        metric.compute()


# ---------------------------------------------------------------- the figure


@pytest.fixture
def plt():
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="the report extra is not installed")
    yield pyplot
    pyplot.close("all")


@pytest.mark.parametrize(
    ("make", "label", "ylabel"),
    [(ct.AURC, "AURC", "Risk - Error Rate (%)"), (ct.AUGRC, "AUGRC", "Generalized Risk (%)")],
)
def test_the_curve_is_drawn(make, label, ylabel, plt):
    metric = make()
    preds, target = tied("binary", 60, 2)
    metric.update(preds, target)
    figure, axes = metric.plot()
    assert isinstance(figure, plt.Figure)
    assert isinstance(axes, plt.Axes)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("Coverage (%)", ylabel)
    assert [text.get_text() for text in axes.texts] == [f"{label} = {number(metric.compute()):.2%}"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["Model"]
    x, y = axes.lines[0].get_data()
    np.testing.assert_allclose(x, 100 * np.arange(1, 61) / 60)
    risks = metric.partial_compute().numpy()
    np.testing.assert_allclose(y, 100 * risks * (np.arange(1, 61) / 60 if make is ct.AUGRC else 1))
    assert axes.get_xlim() == (0, 100)
    assert axes.get_ylim() == (0, max(1, math.ceil(y.max())))
    _, silent = metric.plot(plot_value=False)
    assert not silent.texts


def test_the_axes_and_the_name_of_a_curve(plt):
    metric = ct.AURC()
    metric.update(*data(3, 5000, 0))
    _, axes = plt.subplots()
    assert metric.plot(axes) == (None, axes)
    assert metric.plot(axes, False, "another") == (None, axes)
    assert metric.plot(ax=axes, plot_value=True, name="third") == (None, axes)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["Model", "another", "third"]
    assert len({line.get_color() for line in axes.lines}) == 3
    assert len(axes.texts) == 2
    assert all(len(line.get_xdata()) == 1001 for line in axes.lines)
    with pytest.raises(InputError, match="preds: expected at least one batch before plot"):
        ct.AUGRC().plot()
    with pytest.raises(InputError, match="ax: expected a matplotlib Axes"):
        metric.plot(ax=axes.figure)


def test_values_are_drawn_as_torchmetrics_draws_them(plt):
    metric = ct.AURC()
    values = [metric(*data(3, 50, seed)) for seed in range(3)]
    _, axes = plt.subplots()
    for arguments, names in (((values, axes), {}), ((), {"val": values, "ax": axes}), ((values,), {"ax": axes})):
        assert metric.plot(*arguments, **names)[1] is axes
        np.testing.assert_array_equal(axes.get_lines()[0].get_ydata(), values)
        axes.clear()
    collection = torchmetrics.MetricCollection({name: make() for name, make in METRICS.items()})
    collection.update(*data(3, 50, 0))
    assert len(collection.plot()) == len(METRICS)
    collection.plot(together=True)
