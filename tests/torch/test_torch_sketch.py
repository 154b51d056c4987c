"""The torch metrics with ``state="sketch"``: constant memory, the numbers of `CalibrationSketch`, within their bounds.

Tolerances: counts are integers and agree bit for bit. Sums are double and merge in another order: 1e-12 relative.
Values come back in single precision, 2^-24 relative, unless double came in.
"""

from __future__ import annotations

import copy
import dataclasses
import io
import math
import pickle
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
torchmetrics = pytest.importorskip("torchmetrics")

import calibrant  # noqa: E402
from calibrant import torch as ct  # noqa: E402
from calibrant.errors import InputError  # noqa: E402
from calibrant.kernels import tensors  # noqa: E402
from calibrant.measures.binned.certified import sized_bound  # noqa: E402
from calibrant.table.grid import edges  # noqa: E402
from calibrant.table.reliability_table import GridCells  # noqa: E402
from calibrant.torch.base import ProbabilityMetric  # noqa: E402

SINGLE = 2.0**-22
CELLS = 4396
SKETCH = {"state": "sketch"}
EXACT = {"method": "exact", "state": "sketch"}

#: Every metric that can keep a sketch: how to make it (of rows with ``state="rows"``), the predictions it takes, and
#: the notion that it judges.
METRICS = {
    "adaptive binary": (lambda **k: ct.AdaptiveCalibrationError("binary", **SKETCH | k), "binary", "top-label"),
    "adaptive positive": (
        lambda **k: ct.CalibrationError("binary", True, norm="l2", notion="positive", **SKETCH | k),
        "binary",
        "positive",
    ),
    "adaptive": (
        lambda **k: ct.AdaptiveCalibrationError("multiclass", norm="max", num_classes=4, **SKETCH | k),
        "multiclass",
        "top-label",
    ),
    "adaptive pair": (
        lambda **k: ct.AdaptiveCalibrationError("multiclass", num_classes=2, notion="positive", **SKETCH | k),
        "pair",
        "positive",
    ),
    "adaptive classwise": (
        lambda **k: ct.AdaptiveCalibrationError(
            "multiclass", norm="l2", num_classes=4, notion="classwise", **SKETCH | k
        ),
        "multiclass",
        "classwise",
    ),
    "smooth": (lambda **k: ct.SmoothCalibrationError("reflected", **EXACT | k), "multiclass", "top-label"),
    "smooth binary": (
        lambda **k: ct.SmoothCalibrationError("reflected", 0.03, **EXACT | k),
        "binary",
        "top-label",
    ),
    "smooth positive": (
        lambda **k: ct.SmoothCalibrationError("reflected", notion="positive", **EXACT | k),
        "binary",
        "positive",
    ),
    "auroc": (lambda **k: ct.AUROC(**SKETCH | k), "multiclass", "top-label"),
    "ici": (lambda **k: ct.IntegratedCalibrationIndex(**SKETCH | k), "binary", "positive"),
    "kuiper": (lambda **k: ct.KuiperCalibrationError(**SKETCH | k), "binary", "positive"),
    "truthful": (lambda **k: ct.TruthfulCalibrationError(notion="top-label", **SKETCH | k), "binary", "top-label"),
    "lipschitz": (lambda **k: ct.LipschitzCalibrationError(**SKETCH | k), "pair", "top-label"),
    "slope": (lambda **k: ct.CalibrationSlope(**SKETCH | k), "binary", "positive"),
    "intercept": (lambda **k: ct.CalibrationIntercept(**SKETCH | k), "binary", "positive"),
    "ratio": (lambda **k: ct.ObservedExpectedRatio(**SKETCH | k), "multiclass", "top-label"),
    "report": (lambda **k: ct.CalibrationReport(level=None, **SKETCH | k), "multiclass", "top-label"),
    "report binary": (lambda **k: ct.CalibrationReport(level=None, **SKETCH | k), "binary", "positive"),
    "report pair": (
        lambda **k: ct.CalibrationReport(7, level=None, notion="positive", **SKETCH | k),
        "pair",
        "positive",
    ),
}
#: What the metrics of functions of the judged event's table compute.
FUNCTIONS = {
    "auroc": calibrant.auroc,
    "ici": calibrant.integrated_calibration_index,
    "kuiper": calibrant.kuiper_calibration_error,
    "truthful": calibrant.truthful_calibration_error,
    "lipschitz": calibrant.lipschitz_calibration_error,
    "slope": calibrant.calibration_slope,
    "intercept": calibrant.calibration_intercept,
    "ratio": calibrant.observed_expected_ratio,
}
every = pytest.mark.parametrize("name", METRICS)


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Have torch add small tensors on the thread that asks, as waiting for others takes longer where they are busy."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def data(kind, n=1000, seed=0, dtype=torch.float32, logits=False):
    rng = np.random.default_rng([seed, n])
    if kind == "binary":
        p = rng.random(n)
        z, y = np.log(p / (1 - p)), rng.random(n) < 0.2 + 0.6 * p
        return torch.tensor(z if logits else p, dtype=dtype), torch.tensor(y.astype(np.int64))
    size = 2 if kind == "pair" else 4
    raw = torch.tensor(2 * rng.normal(size=(n, size)))
    target = torch.multinomial(raw.softmax(1).sqrt(), 1, generator=torch.Generator().manual_seed(seed))[:, 0]
    return raw.to(dtype) if logits else raw.to(dtype).softmax(1), target


def batches(preds, target, cuts=(1, 17, 300, 301)):
    return zip(torch.tensor_split(preds, cuts), torch.tensor_split(target, cuts), strict=True)


def filled(name, n=1000, seed=0, cuts=(1, 17, 300, 301), dtype=torch.float32, logits=False, **options):
    make, kind, _ = METRICS[name]
    metric = make(**options)
    for batch in batches(*data(kind, n, seed, dtype, logits), cuts):
        metric.update(*batch)
    return metric


def numbers(value):
    """Return what compute gives as an array of float64."""
    if isinstance(value, calibrant.Report):
        return np.array([*(value[name].value for name in value), value.n, *value.diagram.counts])
    return value.double().numpy().reshape(-1)


@pytest.fixture
def elsewhere(monkeypatch):
    """Have batches read as on a device: by torch operations, with faults counted."""
    monkeypatch.setattr(ProbabilityMetric, "_read_host", ProbabilityMetric._read_device)


@pytest.fixture(params=["host", "device"])
def either(request):
    if request.param == "device":
        request.getfixturevalue("elsewhere")


def assert_same_state(metric, other, rtol=1e-12):
    """Counts are the same bit for bit, sums but for the order in which they were added."""
    assert torch.equal(metric.cell_counts, other.cell_counts)
    torch.testing.assert_close(metric.cell_sums, other.cell_sums, rtol=rtol, atol=1e-300)
    for name in ("total", "correct", "infinite"):
        assert torch.equal(getattr(metric, name), getattr(other, name))
    for name in ("brier_sum", "nll_sum", "brier_squares", "nll_squares"):
        torch.testing.assert_close(getattr(metric, name), getattr(other, name), rtol=max(rtol, 1e-12), atol=1e-300)


# ---------------------------------------------------------------- values: CalibrationSketch and evaluate are the oracle


def sketch_of(name, logits=False, **options):
    """Return `CalibrationSketch` of the same batches as `filled`."""
    _, kind, notion = METRICS[name]
    sketch = calibrant.CalibrationSketch(notion=notion)
    for preds, target in batches(*data(kind, logits=logits, **options)):
        sketch.update(preds, target, logits=logits)
    return sketch


def assert_same(found, expected):
    """Hold cells to equality, and the sums over whole predictions, which may be read in another pass, to 1e-12."""
    mine, own = found._part, expected._part
    np.testing.assert_array_equal(mine.curves.counts, own.curves.counts)
    np.testing.assert_array_equal(mine.curves.sums, own.curves.sums)
    assert dataclasses.asdict(mine.totals) == pytest.approx(dataclasses.asdict(own.totals), rel=1e-12)


@pytest.mark.covering
@every
@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_cells_are_calibration_sketchs_bit_for_bit(name, logits, dtype):
    metric = filled(name, logits=logits, dtype=dtype)
    assert_same(metric.sketch(), sketch_of(name, logits, dtype=dtype))
    undeclared = filled(name, dtype=dtype) if not logits else None  # the first batch, a single row, is in [0, 1]
    assert undeclared is None or undeclared.sketch() == metric.sketch()


def naive_sized_error(table, n_bins, norm):
    """Cut sorted cells into parts of equal size, each row with its cell's mean score and outcome rate."""
    at = np.repeat(np.arange(len(table)), table.counts)
    scores, rates = (table.score_sums / table.counts)[at], (table.positives / table.counts)[at]
    parts = [part for part in np.array_split(np.arange(table.n), n_bins) if len(part)]
    gaps = np.array([abs(scores[part].mean() - rates[part].mean()) for part in parts])
    shares = np.array([len(part) for part in parts]) / table.n
    return {"l1": gaps @ shares, "l2": np.sqrt(gaps**2 @ shares), "max": gaps.max()}[norm]


@every
def test_values_are_those_of_the_sketch(name):
    metric, sketch = filled(name), sketch_of(name)
    value = metric.compute()
    if name.startswith("report"):
        expected = calibrant.evaluate(sketch, level=None, n_bins=metric.num_bins)
        own = calibrant.evaluate(*data(METRICS[name][1]), level=None, n_bins=metric.num_bins, notion=metric.notion)
        for key in expected:
            if key in ("classwise_ece", "brier_skill"):  # of which the sketch may know nothing, and the metric all
                assert value[key].value == pytest.approx(own[key].value, rel=1e-12, nan_ok=True)
                assert value[key].error_bound == 0
                continue
            assert value[key].value == pytest.approx(expected[key].value, rel=1e-12, nan_ok=True)
            bound = pytest.approx(expected[key].error_bound, rel=1e-9, abs=1e-15, nan_ok=True)
            assert value[key].error_bound == bound
        np.testing.assert_array_equal(value.diagram.counts, own.diagram.counts)
        assert (value.n, value.n_classes, value.notion) == (own.n, own.n_classes, own.notion)
        return
    if name.startswith("smooth"):
        expected = calibrant.smooth_calibration_error(sketch, bandwidth=metric.bandwidth)
    elif "classwise" in name:
        errors = [naive_sized_error(table, 10, "l2") for table in sketch.class_tables]
        expected = math.sqrt(np.mean(np.square(errors)))
    elif name in FUNCTIONS:
        expected = FUNCTIONS[name](sketch)
        bounded = {"auroc", "kuiper", "ratio"} & {name}
        assert math.isnan(metric.error_bound) == (not bounded)
        if bounded:
            key = {"ratio": "oe_ratio"}.get(name, name)
            bound = calibrant.evaluate(sketch, measures=[key], level=None)[key].error_bound
            assert metric.error_bound == pytest.approx(bound, rel=1e-12, abs=1e-15)
    else:
        expected = naive_sized_error(sketch.table, 10, metric.norm)
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(expected, rel=SINGLE)


def test_a_report_with_intervals_is_evaluates():
    metric = ct.CalibrationReport(n_resamples=50, rng=3, state="sketch")
    for batch in batches(*data("multiclass", 300)):
        metric.update(*batch)
    found, expected = metric.compute(), calibrant.evaluate(metric.sketch(), n_resamples=50, rng=3)
    for key in set(expected) - {"classwise_ece", "brier_skill"}:
        for number in ("value", "low", "high", "p_value", "error_bound", "method", "floor"):
            np.testing.assert_equal(getattr(found[key], number), getattr(expected[key], number), err_msg=key)
    skill = calibrant.evaluate(*data("multiclass", 300), n_resamples=50)["brier_skill"]
    assert found["brier_skill"].value == pytest.approx(skill.value, rel=1e-12)
    assert found["brier_skill"].low <= skill.low  # classes without rows: the widest interval that they allow
    assert skill.high <= found["brier_skill"].high
    assert found["classwise_ece"].low <= found["classwise_ece"].value <= found["classwise_ece"].high
    assert found["ece"].details["table"] == "standard grid"


def test_an_infinite_log_loss_is_infinite():
    for kind_of_read in (ProbabilityMetric._read_host, ProbabilityMetric._read_device):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ProbabilityMetric, "_read_host", kind_of_read)
            metric = ct.CalibrationReport(level=None, state="sketch")
            metric.update(torch.tensor([0.0, 1.0, 0.5]), torch.tensor([1, 1, 0]))
        assert metric.compute()["nll"].value == math.inf
        totals = metric.sketch().totals
        assert (totals.infinite, totals.correct, totals.n) == (1, 1, 3)  # .5 predicts class 1
        assert totals.nll == pytest.approx(math.log(2), rel=1e-6)
        assert (totals.brier, totals.brier_square) == (1.25, 1.0625)


# ---------------------------------------------------------------- values: within the certified bound of those of rows


def shapes_of_scores(n, seed):
    """Yield scores and outcomes of one event: spread, rare, saturated, tied, crowded into few cells."""
    rng = np.random.default_rng([7, seed, n])
    made = {
        "uniform": rng.random(n),
        "rare": rng.beta(0.5, 200, n),
        "saturated": np.where(rng.random(n) < 0.5, np.rint(rng.random(n)), rng.beta(20, 0.3, n)),
        "rounded": np.round(rng.random(n), 1),
        "crowded": 0.5 + 0.001 * rng.random(n),
    }
    for name, p in made.items():
        yield name, torch.tensor(p), torch.tensor((rng.random(n) < 0.1 + 0.8 * p).astype(np.int64))
    p = np.sort(0.4999 + 1e-5 * rng.random(n))  # one cell, in which the outcomes are in order
    yield "in order", torch.tensor(p), torch.tensor((np.arange(n) >= n // 2).astype(np.int64))


def width_of_cell(scores):
    ends = edges("standard")
    place = np.clip(np.searchsorted(ends, scores), 1, len(ends) - 1)
    return np.where((scores == 0) | (scores == 1), 0.0, ends[place] - ends[place - 1])


@pytest.mark.parametrize("n", [5, 60, 3000])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_values_lie_within_the_bound_of_those_of_rows(n, seed):
    off, nearest = 0, 0.0
    for shape, p, y in shapes_of_scores(n, seed):
        for notion in ("positive", "top-label"):
            score = p if notion == "positive" else torch.maximum(p, 1 - p)
            hit = y if notion == "positive" else ((p > 0.5).long() == y).long()
            sizes = (score - hit).abs().numpy()
            for norm in ("l1", "l2", "max"):
                rows, kept = (
                    ct.AdaptiveCalibrationError("binary", 7, norm, notion=notion, state=state)
                    for state in ("rows", "sketch")
                )
                error = abs(rows(p, y).item() - kept(p, y).item())
                assert error <= kept.error_bound + 1e-12, (shape, notion, norm)
                assert rows.error_bound == 0
                if norm == "l1":  # (2 / N) sum A over straddled cells, of which there are at most 6
                    held = np.zeros(CELLS)
                    cells = np.searchsorted(edges("standard"), score.numpy())
                    np.add.at(held, cells, sizes)
                    assert kept.error_bound <= 2 / n * np.sort(held)[-6:].sum() * (1 + 1e-9), shape
                off += error > 1e-4
                nearest = max(nearest, error / max(kept.error_bound, 1e-12))
            rows, kept = (
                ct.SmoothCalibrationError("reflected", method="exact", notion=notion, state=state)
                for state in ("rows", "sketch")
            )
            error = abs(rows(p, y).item() - kept(p, y).item())
            assert error <= kept.error_bound + rows.error_bound, (shape, notion)
            assert rows.error_bound < 1e-7
            loosest = math.sqrt(2 / math.pi) / kept.final_bandwidth * np.mean(sizes * width_of_cell(score.numpy()))
            assert kept.error_bound <= loosest + 1e-7, (shape, notion)
    assert off >= 6  # the bound is needed
    assert nearest > 0.3  # and is no multiple of what is needed


def test_a_fixed_bandwidth_is_within_its_bound():
    for h in (0.001, 0.01, 0.2):
        for _, p, y in shapes_of_scores(500, 3):
            rows, kept = (
                ct.SmoothCalibrationError("reflected", h, method="exact", state=state) for state in ("rows", "sketch")
            )
            error = abs(rows(p, y).item() - kept(p, y).item())
            assert error <= kept.error_bound + rows.error_bound
            assert kept.final_bandwidth == h


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_the_classes_bound_is_the_norm_of_their_bounds(norm):
    preds, target = data("multiclass", 400, dtype=torch.float64)
    rows, kept = (
        ct.AdaptiveCalibrationError("multiclass", 7, norm, 4, notion="classwise", state=state)
        for state in ("rows", "sketch")
    )
    value, exact = kept(preds, target).item(), rows(preds, target).item()
    assert abs(value - exact) <= kept.error_bound
    each = []
    for k in range(4):
        alone = ct.AdaptiveCalibrationError("binary", 7, norm, notion="positive", state="sketch")
        alone(preds[:, k].contiguous(), (target == k).long())
        each.append(alone.error_bound)
    expected = {"l1": np.mean(each), "l2": math.sqrt(np.mean(np.square(each))), "max": max(each)}[norm]
    assert kept.error_bound == pytest.approx(expected, rel=1e-12)


def test_reports_are_within_their_bounds():
    for n_bins in (15, 7):  # whose edges are on the grid, and are not
        for _, p, y in shapes_of_scores(400, 5):
            rows, kept = (ct.CalibrationReport(n_bins, level=None, state=state)(p, y) for state in ("rows", "sketch"))
            for key in rows:
                if key == "calibration_slope":  # nothing is certified
                    assert math.isnan(kept[key].error_bound)
                    continue
                if not math.isfinite(rows[key].value):
                    assert str(kept[key].value) == str(rows[key].value)
                    continue
                slack = kept[key].error_bound + rows[key].error_bound + 1e-9 * max(1, abs(rows[key].value))
                assert abs(kept[key].value - rows[key].value) <= slack, key
            for key in ("accuracy", "brier", "nll", "mean_gap", "uncertainty", *(("ece",) if n_bins == 15 else ())):
                assert kept[key].error_bound == 0, key
                assert kept[key].value == pytest.approx(rows[key].value, rel=1e-9, abs=1e-12), key


def test_the_bound_of_bins_of_given_sizes_by_hand():
    # Ten rows in one cell around .3, six of them with y = 1, cut after three: A = 6 (1 - .3) + 4 .3 = 5.4.
    table = calibrant.ReliabilityTable.from_scores([0.3] * 10, [1] * 6 + [0] * 4, grid="standard")
    known, sizes = GridCells.of(table), np.array([3, 7])
    first, second = (1 + 0.3) * 5.4, (1 + 0.7) * 5.4
    assert sized_bound(known, sizes, "l1", 0.5) == 0.5  # 2 * 5.4 / 10 is beyond 1
    assert sized_bound(known, sizes, "max", 0.0) == 1.0
    more = calibrant.ReliabilityTable.from_scores([0.1] * 100, [0] * 90 + [1] * 10, grid="standard")
    known, sizes = GridCells.of(more + table), np.array([103, 7])
    assert sized_bound(known, sizes, "l1", 0.1) == pytest.approx(2 * 5.4 / 110)
    assert sized_bound(known, sizes, "max", 0.1) == 0.9  # 1.7 * 5.4 / 7 is beyond
    assert sized_bound(known, np.array([60, 50]), "l1", 0.1) == pytest.approx(2 * (9 * 1.1) * 2 / 110 / 1.1)
    expected = math.sqrt((first**2 / 103 + second**2 / 7) / 110)
    assert sized_bound(known, sizes, "l2", 0.1) == pytest.approx(expected)
    assert sized_bound(known, np.array([100, 10]), "l1", 0.1) == 0  # between the cells
    certain = calibrant.ReliabilityTable.from_scores([1.0] * 10, [1] * 6 + [0] * 4, grid="standard")
    assert sized_bound(GridCells.of(certain), np.array([3, 7]), "l1", 0.4) == 0  # one score: shares are exact
    few = GridCells.of(calibrant.ReliabilityTable.from_scores([0.3, 0.6], [1, 0], grid="standard"))
    assert sized_bound(few, np.array([1, 1, 0, 0]), "l2", 0.1) == 0


# ---------------------------------------------------------------- on devices: torch operations, checked on the host


def on_edges(dtype):
    """Return scores on the edges of the grid and beside them, in the edges' own rounding to the type."""
    own = np.float64 if dtype == torch.float64 else np.float32
    at = edges("standard").astype(own)
    beside = np.concatenate([at, np.nextafter(at, own(-1)), np.nextafter(at, own(2)), [own(1e-30), own(1e-300)]])
    return torch.tensor(np.unique(beside[(beside >= 0) & (beside <= 1)]))


@pytest.mark.covering
@every
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_devices_count_as_the_host_does(name, dtype, monkeypatch):
    make, kind, _ = METRICS[name]
    preds, target = data(kind, dtype=torch.float64)
    if kind == "binary":
        special = on_edges(dtype)
        preds, target = torch.cat([preds, special]), torch.cat([target, (torch.arange(len(special)) % 3 == 0).long()])
    preds = (preds if dtype in (torch.float32, torch.float64) else (256 * preds).floor() / 256).to(dtype)
    if kind != "binary" and dtype in (torch.float16, torch.bfloat16):
        preds[:, 0] += 1 - preds.sum(1)
    host, device = make(), make()
    for batch in batches(preds, target):
        host.update(*batch)
    monkeypatch.setattr(ProbabilityMetric, "_read_host", ProbabilityMetric._read_device)
    for batch in batches(preds, target, (400, 500)):
        device.update(*batch)
    assert host.total == len(target)
    assert torch.equal(device.cell_counts, host.cell_counts)
    # Within a cell sums are to 2^-51 of the largest score it may hold; the cell of the smallest holds 1e-300 too.
    torch.testing.assert_close(device.cell_sums, host.cell_sums, rtol=1e-12, atol=1e-22)
    assert torch.equal(device.correct, host.correct)
    for score in ("brier_sum", "nll_sum", "brier_squares", "nll_squares"):  # logarithms of single precision
        torch.testing.assert_close(getattr(device, score), getattr(host, score), rtol=1e-6, atol=0)
    np.testing.assert_allclose(numbers(device.compute()), numbers(host.compute()), rtol=2e-6, atol=1e-9)


@pytest.mark.covering
@every
@pytest.mark.parametrize("declared", [None, True])
def test_logits_on_devices(name, declared, monkeypatch):
    make, kind, _ = METRICS[name]
    preds, target = data(kind, logits=True)
    host, device = make(logits=declared), make(logits=declared)
    host.update(preds, target)
    monkeypatch.setattr(ProbabilityMetric, "_read_host", ProbabilityMetric._read_device)
    device.update(preds, target)
    # Softmaxes differ in their last bit, which may move a row by a cell.
    assert (device.cell_counts - host.cell_counts).abs().sum() <= 4 * 4
    assert torch.equal(device.cell_counts.sum((-1, -2)), host.cell_counts.sum((-1, -2)))
    if name.startswith("smooth"):
        np.testing.assert_allclose(numbers(device.compute()), numbers(host.compute()), rtol=1e-5, atol=1e-7)


@every
@pytest.mark.parametrize("declared", [None, False, True])
@pytest.mark.slow
def test_nothing_waits_for_the_device(name, declared):
    # On the meta device there are no values: whatever would look at one raises.
    make, kind, _ = METRICS[name]
    metric = make(logits=declared, ignore_index=-1).to("meta")
    preds, target = data(kind, 60)
    for _ in range(2):  # the first batch, and one that meets its state
        metric.update(preds.to("meta"), target.to("meta"))
    assert metric.device.type == metric.cell_sums.device.type == "meta"
    assert metric.cell_counts.dtype == torch.int64


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sums_on_devices_do_not_depend_on_the_order(dtype):
    p, y = data("binary", 10_000, dtype=dtype)
    order = torch.randperm(len(p), generator=torch.Generator().manual_seed(2))
    one, other = METRICS["smooth positive"][0](), METRICS["smooth positive"][0]()
    one.update(p, y)
    other.update(p[order], y[order])
    assert torch.equal(one.cell_sums, other.cell_sums)
    # And they are those of the scores: of float32 as near as a double can be, else to 2^-47 and more a score.
    cells = np.searchsorted(edges("standard").astype(p.numpy().dtype), p.numpy())
    for k, values in enumerate([p * (y == 0), p * (y == 1), p.double() ** 2]):
        near = dtype == torch.float32 and k < 2
        exact = [math.fsum(values.double().numpy()[cells == c]) for c in range(0, 4395, 97)]
        np.testing.assert_allclose(one.cell_sums[k, :4395:97], exact, rtol=1e-15 if near else 1e-13, atol=0)


@pytest.mark.usefixtures("elsewhere")
def test_without_double_precision_sums_are_kept_in_pairs(monkeypatch):
    """A device without float64, as Apple's, played by the host."""
    poor = False

    def move(x):  # what .to("mps") would do
        nonlocal poor
        poor = True
        return x

    monkeypatch.setattr(tensors, "has_float64", lambda _device: not poor)
    for name in ("adaptive", "adaptive classwise", "smooth binary", "report"):
        kind = METRICS[name][1]
        metric, plain = METRICS[name][0](), METRICS[name][0]()
        for each in (metric, plain):
            each.update(*data(kind, 500))
        metric._apply(move)
        assert metric.cell_sums.shape == (2, *plain.cell_sums.shape)
        assert metric.cell_sums.dtype == torch.float32
        for _ in range(3):
            metric.update(*data(kind, 500, seed=3))
        found, sketch = numbers(metric.compute()), metric.sketch()
        poor = False
        for _ in range(3):
            plain.update(*data(kind, 500, seed=3))
        np.testing.assert_allclose(found, numbers(plain.compute()), rtol=1e-6, atol=1e-9)
        assert torch.equal(metric.cell_counts, plain.cell_counts)
        # Scores of single precision are exact in pairs, their squares rounded once: 2^-24.
        torch.testing.assert_close(tensors.joined(metric.cell_sums), plain.cell_sums, rtol=1e-7, atol=1e-18)
        assert sketch.n == plain.sketch().n == 2000


@pytest.mark.covering
@every
@pytest.mark.usefixtures("either")
def test_ignored_rows_play_no_part(name):
    make, kind, _ = METRICS[name]
    preds, target = data(kind, 60)
    ignored = torch.arange(60) % 3 == 0
    spoiled = preds.clone()
    spoiled[ignored] = torch.nan
    whole, expected = make(ignore_index=-100), make()
    whole.update(spoiled, torch.where(ignored, torch.full_like(target, -100), target))
    expected.update(preds[~ignored], target[~ignored])
    assert_same_state(whole, expected)
    assert whole.total == 40
    whole.update(spoiled[ignored], torch.full_like(target[ignored], -100))  # a batch of nothing but these
    whole.update(preds[:0], target[:0])
    np.testing.assert_allclose(numbers(whole.compute()), numbers(expected.compute()), rtol=1e-9)


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1.2, -0.1])
def test_what_was_never_checked_shows_in_compute(bad):
    for name in ("adaptive positive", "smooth positive", "report binary"):
        metric = METRICS[name][0](logits=False, validate_args=False)
        metric.update(*data("binary", 20))
        metric.compute()
        metric.update(torch.tensor([0.1, bad, 0.3]), torch.tensor([0, 1, 0]))
        for call in (metric.compute, metric.sketch):
            with pytest.raises(
                InputError, match=r"preds: expected values in \[0, 1\], got NaN or values outside \[0, 1\]; pass"
            ):
                call()
        checked = METRICS[name][0](logits=False)
        checked.update(torch.tensor([0.1, bad, 0.3]), torch.tensor([0, 1, 0]))
        for call in (checked.compute, checked.sketch):
            with pytest.raises(
                InputError,
                match=(r"1 row with (NaN or infinite values|values outside \[0, 1\]) in "),
            ):
                call()
        checked.reset()
        checked.update(*data("binary", 20))
        checked.compute()


# ---------------------------------------------------------------- batches, ranks, copies


@pytest.mark.covering
@every
@pytest.mark.parametrize("cuts", [(), (500,), tuple(range(0, 1000, 37)), (999, 999, 1000)])
def test_any_batches_are_the_whole(name, cuts):
    whole = filled(name, cuts=())
    parts = filled(name, cuts=cuts)
    assert_same_state(parts, whole)
    np.testing.assert_allclose(numbers(parts.compute()), numbers(whole.compute()), rtol=2e-7, atol=1e-9)


@every
def test_forward_gives_the_batch_and_adds_it(name):
    make, kind, _ = METRICS[name]
    metric = make()
    for batch in batches(*data(kind, 400), (20, 200)):
        alone = make()
        alone.update(*batch)
        np.testing.assert_array_equal(numbers(metric(*batch)), numbers(alone.compute()))
        if not name.startswith("report"):
            np.testing.assert_equal(metric.error_bound, alone.error_bound)  # NaN where no bound is known
    assert_same_state(metric, filled(name, 400))
    assert metric.sketch().n == 400


@every
def test_a_bad_batch_changes_nothing(name):
    make, kind, _ = METRICS[name]
    preds, target = data(kind, 60)
    metric = make()
    metric.update(preds, target)
    before = metric.sketch()
    spoiled, wrong = preds.clone(), target.clone()
    spoiled.view(-1)[7] = torch.nan
    wrong[3] = 9
    for method in (metric.update, metric.forward):
        for bad in ((spoiled, target), (preds, wrong), (preds[:10], target)):
            with pytest.raises(InputError):
                method(*bad)
            assert metric.sketch() == before


@every
def test_copies_pickles_and_loaded_states_go_on(name):
    make, kind, _ = METRICS[name]
    preds, target = data(kind, 300, seed=8)
    metric = filled(name)
    metric.persistent(True)
    file = io.BytesIO()
    torch.save(metric.state_dict(), file)
    file.seek(0)
    loaded, merged = make(), make()
    loaded.load_state_dict(torch.load(file))
    merged.merge_state(metric)
    others = [pickle.loads(pickle.dumps(metric)), metric.clone(), copy.deepcopy(metric), loaded, merged]
    metric.update(preds, target)
    for other in others:
        other.update(preds, target)
        assert other.sketch() == metric.sketch()
        np.testing.assert_array_equal(numbers(other.compute()), numbers(metric.compute()))


@every
def test_reset_is_a_new_metric(name):
    metric = filled(name, seed=3)
    metric.compute()
    metric.reset()
    assert metric.sketch().n == 0
    assert int(metric.cell_counts.sum()) == 0
    preds, target = data(METRICS[name][1], 100)
    np.testing.assert_array_equal(numbers(metric(preds, target)), numbers(METRICS[name][0]()(preds, target)))


@every
def test_moving_and_casting_keep_the_state(name):
    metric = filled(name)
    before = metric.sketch()
    for change in (
        lambda m: m.to("cpu"),
        lambda m: m.half(),
        lambda m: m.double(),
        lambda m: m.float(),
        lambda m: m.set_dtype(torch.float16),
        lambda m: m.to(torch.bfloat16),
    ):
        change(metric)
        assert metric.cell_counts.dtype == torch.int64
        assert metric.cell_sums.dtype == metric.brier_sum.dtype == torch.float64
    assert metric.sketch() == before


def size(metric):
    return sum(
        s.nbytes if isinstance(s, torch.Tensor) else sum(x.nbytes for x in s) for s in metric.metric_state.values()
    )


@pytest.mark.covering
@every
@pytest.mark.usefixtures("either")
def test_the_state_is_of_constant_size(name):
    make, kind, notion = METRICS[name]
    metric = make()
    metric.update(*data(kind, 10))
    small = size(metric)
    for n in (1, 1000, 3000):
        metric.update(*data(kind, n))
    assert size(metric) == small
    curves = 4 if notion == "classwise" else 1
    classes = 24 * metric.num_bins * {"binary": 0, "pair": 2, "multiclass": 4}[kind] if "report" in name else 0
    assert small == 40 * CELLS * curves + classes + 24 + 32 + 136
    assert metric.sketch().nbytes == 40 * CELLS * curves


def test_mixed_precisions():
    (p, y), (q, z) = data("binary", 200), data("binary", 100, seed=1, dtype=torch.float64)
    metric = METRICS["smooth positive"][0]()
    metric.update(p, y)
    assert metric.compute().dtype == torch.float32
    metric.update(q, z)
    assert metric.compute().dtype == torch.float64
    sketch = calibrant.CalibrationSketch()
    sketch.update(p, y)
    sketch.update(q, z)
    assert_same(metric.sketch(), sketch)


def test_the_first_batch_decides_whether_these_are_logits():
    preds, target = data("binary", 200, logits=True)
    inside = (preds >= 0) & (preds <= 1)
    expected = METRICS["smooth binary"][0](logits=True)
    metric = METRICS["smooth binary"][0]()
    for part in (~inside, inside):
        expected.update(preds[part], target[part])
        metric.update(preds[part], target[part])
    assert metric.sketch() == expected.sketch()
    metric = METRICS["smooth binary"][0]()
    metric.update(*data("binary", 20))
    with pytest.raises(InputError, match="the first batch looked like probabilities"):
        metric.update(preds, target)


def test_extra_dimensions_are_rows():
    probs, target = data("multiclass", 24)
    image = probs.reshape(2, 3, 4, 4).permute(0, 3, 1, 2)
    for name in ("adaptive", "adaptive classwise", "smooth", "report"):
        flat, deep = METRICS[name][0](), METRICS[name][0]()
        flat.update(probs, target)
        deep.update(image, target.reshape(2, 3, 4))
        assert flat.sketch() == deep.sketch()
    p, y = data("binary", 24)
    flat, deep = METRICS["adaptive binary"][0](), METRICS["adaptive binary"][0]()
    flat.update(p, y)
    deep.update(p.reshape(2, 3, 4), y.reshape(2, 3, 4))
    assert flat.sketch() == deep.sketch()


def test_a_binary_score_of_a_half_predicts_0_in_adaptive_bins_and_1_in_the_smooth_error():
    for read in (ProbabilityMetric._read_host, ProbabilityMetric._read_device):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ProbabilityMetric, "_read_host", read)
            found = {}
            for name in ("adaptive binary", "smooth binary"):
                for label in (0, 1):
                    metric = METRICS[name][0]()
                    metric.update(torch.tensor([0.5]), torch.tensor([label]))
                    found[name, label] = metric._tables()[0].positives.tolist()
        assert found == {
            ("adaptive binary", 0): [1],
            ("adaptive binary", 1): [0],
            ("smooth binary", 0): [0],
            ("smooth binary", 1): [1],
        }


# ---------------------------------------------------------------- collections


def test_metrics_of_one_notion_share_their_sketch_in_a_collection():
    probs, target = data("multiclass", 500)
    right = probs[:, 0].argsort()[:20]  # a first batch in which many makes look the same
    probs, target = probs[torch.cat([right, right])], target[torch.cat([right, right])]

    def adaptive(*args, **options):
        return ct.AdaptiveCalibrationError("multiclass", *args, num_classes=4, state="sketch", **options)

    made = {
        "ace": adaptive(15),
        "ace max": adaptive(10, "max"),
        "smece": ct.SmoothCalibrationError("reflected", **EXACT),
        "smece at": ct.SmoothCalibrationError("reflected", 0.1, **EXACT),
        "rows": ct.AdaptiveCalibrationError("multiclass", num_classes=4),
        "classwise": adaptive(notion="classwise"),
        "classwise 15": adaptive(15, notion="classwise"),
        "ignoring": adaptive(ignore_index=-1),
        "told": ct.SmoothCalibrationError("reflected", logits=False, **EXACT),
        "report": ct.CalibrationReport(level=None, **SKETCH),
        "report 7": ct.CalibrationReport(7, level=None, **SKETCH),
        "report again": ct.CalibrationReport(n_resamples=20, **SKETCH),
    }
    alone = {name: metric.clone() for name, metric in made.items()}
    collection = torchmetrics.MetricCollection(made)
    for batch in batches(probs, target, (20,)):
        collection.update(*batch)
        for metric in alone.values():
            metric.update(*batch)
    assert sorted(sorted(group) for group in collection.compute_groups.values()) == [
        ["ace", "ace max", "smece", "smece at"],
        ["classwise", "classwise 15"],
        ["ignoring"],
        ["report", "report again"],
        ["report 7"],
        ["rows"],
        ["told"],
    ]
    for name, value in collection.compute().items():
        np.testing.assert_array_equal(numbers(value), numbers(alone[name].compute()), err_msg=name)
        if name in ("ace", "ace max", "smece at", "classwise"):
            assert collection[name].error_bound == alone[name].error_bound
            assert collection[name].sketch() == alone[name].sketch()


def test_binary_metrics_share_their_sketch_where_a_half_cannot_part_them():
    p, y = data("binary", 300)
    made = {
        "ace": METRICS["adaptive binary"][0](),
        "positive": METRICS["adaptive positive"][0](),
        "smooth": METRICS["smooth binary"][0](),
        "smooth positive": METRICS["smooth positive"][0](),
        "report": METRICS["report binary"][0](),
        "report 7": ct.CalibrationReport(7, level=None, **SKETCH),  # as classes would show
        "report again": ct.CalibrationReport(n_resamples=20, **SKETCH),
    }
    collection = torchmetrics.MetricCollection(made)
    collection.update(p, y)
    assert sorted(sorted(group) for group in collection.compute_groups.values()) == [
        ["ace"],
        ["positive", "smooth positive"],
        ["report", "report again"],
        ["report 7"],
        ["smooth"],
    ]
    collection.update(torch.tensor([0.5]), torch.tensor([1]))
    assert collection["ace"].sketch().table.positives.sum() + 1 == collection["smooth"].sketch().table.positives.sum()


def test_a_shared_sketch_of_another_shape_is_noticed():
    collection = torchmetrics.MetricCollection(
        {"a": ct.SmoothCalibrationError("reflected", **EXACT), "b": METRICS["adaptive"][0]()}
    )
    collection.update(*data("multiclass", 50))
    assert len(collection.compute_groups) == 1
    collection.reset()
    probs = torch.rand(50, 5).softmax(1)
    collection.update(probs, torch.arange(50) % 5)  # by the first of the group, which has no number of classes
    with pytest.raises(InputError, match="preds: expected 4 columns, the number in num_classes, got 5"):
        collection.compute()


# ---------------------------------------------------------------- the sketch itself


def test_sketches_of_metrics_are_saved_merged_and_evaluated():
    first, second = filled("adaptive", seed=1), filled("report", seed=2)
    whole = calibrant.CalibrationSketch.from_bytes(first.sketch().to_bytes()) + second.sketch()
    direct = calibrant.CalibrationSketch()
    for seed in (1, 2):
        direct.update(*data("multiclass", seed=seed))
    assert whole.n == 2000
    assert repr(whole) == "<CalibrationSketch: 2,000 rows, top-label of 4 classes, standard grid, 176 kB>"
    np.testing.assert_array_equal(whole.table.counts, direct.table.counts)
    found, expected = (calibrant.evaluate(sketch, level=None) for sketch in (whole, direct))
    for key in expected:
        assert found[key].value == pytest.approx(expected[key].value, rel=1e-9, nan_ok=True)
    probs, target = (torch.cat(parts) for parts in zip(*(data("multiclass", seed=s) for s in (1, 2)), strict=True))
    own = calibrant.evaluate(probs, target, level=None)
    for key in ("accuracy", "brier", "nll", "ece", "mean_confidence"):
        assert found[key].value == pytest.approx(own[key].value, rel=1e-9)


@every
def test_a_sketch_is_a_copy(name):
    metric = filled(name)
    sketch = metric.sketch()
    before = sketch.to_bytes()
    metric.update(*data(METRICS[name][1], 50))
    assert sketch.to_bytes() == before
    kept, sums = int(metric.cell_counts.sum()), metric.cell_sums.clone()
    metric.sketch().merge(sketch)
    assert int(metric.cell_counts.sum()) == kept
    assert torch.equal(metric.cell_sums, sums)
    assert metric.sketch().n == 1050


@every
def test_an_empty_sketch_takes_what_comes(name):
    sketch = METRICS[name][0]().sketch()
    assert sketch.n == 0
    assert sketch.notion == METRICS[name][0]().notion
    sketch.merge(filled(name).sketch())
    assert sketch == filled(name).sketch()


def test_nothing_yet():
    for name in METRICS:
        metric = METRICS[name][0]()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torchmetrics: no update was called
            if name.startswith(("report", "adaptive", "smooth")):  # those of other libraries raise an error then
                with pytest.raises(InputError, match="at least one batch before compute"):
                    metric.compute()
                continue
            assert metric.error_bound is None
            assert metric.compute().isnan()
            assert math.isnan(metric.error_bound)


def test_error_bounds_of_other_states():
    p, y = data("binary", 100)
    mesh = ct.SmoothCalibrationError()
    mesh(p, y)
    assert math.isnan(mesh.error_bound)
    uniform = ct.CalibrationError("binary")
    assert uniform.error_bound is None
    uniform(p, y)
    assert uniform.error_bound == 0


def test_the_default_keeps_rows():
    for make in (
        lambda: ct.CalibrationError("binary", adaptive=True),
        lambda: ct.AdaptiveCalibrationError("binary"),
        lambda: ct.SmoothCalibrationError(),
        lambda: ct.CalibrationReport(),
    ):
        metric = make()
        assert metric.state == "rows"
        metric.update(*data("binary", 100))
        assert metric.singles[0].shape == (100,)


def test_plot_of_adaptive_bins_stands_where_the_cells_are():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    rows = METRICS["adaptive positive"][0](state="rows")
    kept = METRICS["adaptive positive"][0]()
    p, y = data("binary", 200)
    ends = []
    for metric in (rows, kept):
        metric.update(p, y)
        _, axes = metric.plot()
        ends.append([b.get_x() for b in axes[0].patches if b.get_width() or b.get_height()])
        assert axes[0].texts[0].get_text() == f"Adaptive RMSCE = {metric.compute():.2%}"
    assert ends[1] == pytest.approx(ends[0], abs=100 * np.diff(edges("standard")).max())
    plt.close("all")


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: ct.CalibrationError("binary", True, state="cells"), "state: expected one of 'rows', 'sketch', got 'c"),
        (lambda: ct.CalibrationError("binary", state="cells"), "state: expected one of 'rows', 'sketch', got 'cells'"),
        (
            lambda: ct.AdaptiveCalibrationError("binary", state=None),
            "state: expected one of 'rows', 'sketch', got None",
        ),
        (lambda: ct.CalibrationReport(state="sketches"), r"got 'sketches'; did you mean 'sketch'\?"),
        (lambda: ct.SmoothCalibrationError(state="row"), r"state: expected one of .* did you mean 'rows'\?"),
        (
            lambda: ct.CalibrationError("binary", state="sketch"),
            (
                "state: expected 'rows' for bins of equal width, got 'sketch'; "
                "leave state out, because bins of equal width have an exact state of constant size"
            ),
        ),
        (
            lambda: ct.SmoothCalibrationError("reflected", state="sketch"),
            ("state: expected 'rows', because method='mesh' needs the rows, got 'sketch'; pass kernel_type="),
        ),
        (lambda: ct.SmoothCalibrationError(state="sketch"), "kernel_type='reflected' and method='exact', or leave"),
        (
            lambda: ct.CalibrationReport().sketch(),
            "state: expected 'sketch', to have a sketch of the metric, got 'rows'; make",
        ),
        (lambda: ct.CalibrationError("binary").sketch(), "make the metric with state='sketch'"),
    ],
)
def test_bad_arguments(make, match):
    with pytest.raises(InputError, match=match):
        make()


# ---------------------------------------------------------------- functions of the judged event's table


@pytest.mark.parametrize("name", FUNCTIONS)
def test_from_rows_a_function_is_that_of_the_rows(name):
    make, kind, notion = METRICS[name]
    preds, target = data(kind, 500, dtype=torch.float64)
    metric = make(state="rows")
    for batch in batches(preds, target):
        metric.update(*batch)
    expected = FUNCTIONS[name](preds.numpy(), target.numpy(), notion=notion)
    assert metric.compute().item() == pytest.approx(expected, rel=1e-12)
    assert metric.error_bound == 0


def test_functions_have_a_direction_and_one_event():
    greater = {name: METRICS[name][0]().higher_is_better for name in FUNCTIONS}
    neither = dict.fromkeys(("slope", "intercept", "ratio"))
    assert greater == {**dict.fromkeys(FUNCTIONS, False), "auroc": True, **neither}
    with pytest.raises(InputError, match="notion"):
        ct.AUROC(notion="classwise")
    with pytest.raises(InputError, match="span: expected a share of the rows"):
        ct.IntegratedCalibrationIndex(0)
    narrow = ct.IntegratedCalibrationIndex(0.3)
    narrow.update(*data("binary", 400))
    assert narrow.compute() != filled("ici", 400, state="rows").compute()


def test_an_auroc_of_one_kind_of_outcome_is_nan():
    metric = ct.AUROC()
    metric.update(torch.tensor([0.2, 0.4]), torch.tensor([0, 0]))
    assert torch.isnan(metric.compute())
