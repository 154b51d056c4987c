"""The torch metrics: against the library's own functions, and as torchmetrics expects a metric to behave.

Tolerances: values come back in single precision, 2^-24 relative; sums of scores are double and merge in another order,
1e-12 relative.
"""

from __future__ import annotations

import copy
import io
import pickle
import re
import subprocess
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
torchmetrics = pytest.importorskip("torchmetrics")

import calibrant  # noqa: E402
from calibrant import torch as ct  # noqa: E402
from calibrant.errors import CalibrantError, InputError  # noqa: E402
from calibrant.errors.exceptions import install_command  # noqa: E402
from calibrant.inputs.conversion import on_device  # noqa: E402
from calibrant.kernels import tensors  # noqa: E402
from calibrant.torch.base import ProbabilityMetric  # noqa: E402

SINGLE = 2.0**-22
NORMS = ("l1", "l2", "max")


def binary(n=1000, seed=0, dtype=torch.float32):
    rng = np.random.default_rng([seed, n])
    p = rng.random(n)
    y = rng.random(n) < 0.2 + 0.6 * p
    return torch.tensor(p, dtype=dtype), torch.tensor(y.astype(np.int64))


def classes(n=1000, size=4, seed=0, dtype=torch.float32):
    rng = np.random.default_rng([seed, n, size])
    logits = torch.tensor(2 * rng.normal(size=(n, size)), dtype=dtype)
    return logits.softmax(1), torch.tensor(rng.integers(0, size, n)), logits


#: Every metric, how to make it, and which batches it takes.
METRICS = {
    "binary": (lambda **k: ct.CalibrationError("binary", **k), "binary"),
    "binary right": (lambda **k: ct.CalibrationError("binary", num_bins=15, closed="right", **k), "binary"),
    "binary adaptive": (lambda **k: ct.CalibrationError("binary", adaptive=True, **k), "binary"),
    "multiclass": (lambda **k: ct.CalibrationError("multiclass", num_classes=4, norm="l2", **k), "multiclass"),
    "multiclass max": (lambda **k: ct.CalibrationError("multiclass", num_classes=4, norm="max", **k), "multiclass"),
    "adaptive": (lambda **k: ct.AdaptiveCalibrationError("multiclass", num_classes=4, **k), "multiclass"),
    "event classwise": (
        lambda **k: ct.CalibrationError("multiclass", num_classes=4, notion="classwise", norm="l2", **k),
        "multiclass",
    ),
    "adaptive classwise": (
        lambda **k: ct.AdaptiveCalibrationError("multiclass", num_classes=4, notion="classwise", **k),
        "multiclass",
    ),
    "classwise": (lambda **k: ct.ClasswiseCalibrationError(4, **k), "multiclass"),
    "classwise none": (lambda **k: ct.ClasswiseCalibrationError(4, reduction="none", **k), "multiclass"),
    "multilabel": (lambda **k: ct.ClasswiseCalibrationError(4, notion="multilabel", **k), "multilabel"),
    "smooth": (lambda **k: ct.SmoothCalibrationError("reflected", **k), "multiclass"),
    "smooth binary": (lambda **k: ct.SmoothCalibrationError(**k), "binary"),
    "smooth exact": (lambda **k: ct.SmoothCalibrationError("reflected", method="exact", **k), "multiclass"),
    "brier": (lambda **k: ct.BrierScore(**k), "multiclass"),
    "brier binary": (lambda **k: ct.BrierScore(**k), "binary"),
    "brier top": (lambda **k: ct.BrierScore(notion="top-label", **k), "multiclass"),
    "brier labels": (lambda **k: ct.BrierScore(notion="multilabel", **k), "multilabel"),
    "nll": (lambda **k: ct.NegativeLogLikelihood(**k), "multiclass"),
    "nll binary": (lambda **k: ct.NegativeLogLikelihood(**k), "binary"),
    "nll top": (lambda **k: ct.NegativeLogLikelihood(notion="top-label", **k), "multiclass"),
    "report": (lambda **k: ct.CalibrationReport(n_resamples=20, **k), "multiclass"),
    "report binary": (lambda **k: ct.CalibrationReport(level=None, **k), "binary"),
}


#: The metrics whose value has half precision if all batches have, as in TorchUncertainty.
HALVES = ("binary", "binary right", "classwise", "classwise none", "multilabel")


def data(kind, n=1000, seed=0, dtype=torch.float32, logits=False):
    if kind == "binary":
        p, y = binary(n, seed, dtype)
        return (p.logit() if logits else p), y
    probs, y, raw = classes(n, 4, seed, dtype)
    if kind == "multiclass":
        return (raw if logits else probs), y
    p = raw.sigmoid()
    return (raw if logits else p), (torch.rand(n, 4, generator=torch.Generator().manual_seed(seed)) < p).long()


def numbers(value):
    """Return what compute gives as an array of float64."""
    if isinstance(value, calibrant.Report):
        own = [value[name].value for name in value]
        return np.array([*own, value.n, *value.diagram.counts, *(value.classwise.errors if value.classwise else ())])
    return value.double().numpy().reshape(-1)


def batches(preds, target, cuts=(1, 17, 300, 301)):
    return zip(torch.tensor_split(preds, cuts), torch.tensor_split(target, cuts), strict=True)


def filled(name, logits=False, n=1000, seed=0, **options):
    make, kind = METRICS[name]
    metric = make(**options)
    for preds, target in batches(*data(kind, n, seed, logits=logits)):
        metric.update(preds, target)
    return metric


every = pytest.mark.parametrize("name", METRICS)


@pytest.fixture
def elsewhere(monkeypatch):
    """Have batches read as on a device: by torch operations, with faults counted."""
    monkeypatch.setattr(ProbabilityMetric, "_read_host", ProbabilityMetric._read_device)


# ---------------------------------------------------------------- values: the library's own functions are the oracle


def oracle(name, preds, target, logits=False):
    p, y = preds.numpy(), target.numpy()
    own = {"logits": logits}
    left = {"n_bins": 10, "closed": "left"} | own
    if name == "binary":
        return calibrant.expected_calibration_error(p, y, **left)
    if name == "binary right":
        return calibrant.expected_calibration_error(p, y, **own)
    if name == "multiclass":
        return calibrant.root_mean_square_calibration_error(p, y, **left)
    if name == "multiclass max":
        return calibrant.maximum_calibration_error(p, y, **left)
    if name == "smooth binary":
        return calibrant.smooth_calibration_error(p, y, kernel="logit", notion="top-label", **own)
    if name == "event classwise":
        return calibrant.classwise_calibration_error(p, y, norm="l2", **left)
    if name.startswith("classwise"):
        errors = calibrant.classwise_calibration_errors(p, y, closed="left", **own)
        return errors if "none" in name else errors.mean()
    if name == "multilabel":
        return calibrant.classwise_calibration_error(p, y, closed="left", notion="multilabel", **own)
    if name == "smooth":
        return calibrant.smooth_calibration_error(p, y, method="mesh", **own)
    if name == "smooth exact":
        return calibrant.smooth_calibration_error(p, y, **own)
    if name == "brier top":
        return calibrant.top_label_brier_score(p, y, **own)
    if name == "brier labels":
        return calibrant.evaluate(p, y, notion="multilabel", **own)["brier"].value
    if name.startswith("brier"):
        return calibrant.brier_score(p, y, **own)
    if name == "nll top":
        parts = calibrant.score_decomposition(p, y, score="log", **own)
        return parts.score
    if name.startswith("nll"):
        return calibrant.negative_log_likelihood(p, y, **own)
    return numbers(calibrant.evaluate(p, y, level=None, **own))  # only values are compared


# Bins of given sizes are no function's: they have tests of their own below.
@pytest.mark.covering
@pytest.mark.parametrize("name", [name for name in METRICS if "adaptive" not in name])
@pytest.mark.parametrize("logits", [False, True])
def test_values_are_those_of_the_functions(name, logits):
    preds, target = data(METRICS[name][1], logits=logits)
    expected = oracle(name, preds, target, logits)
    metric = filled(name, logits=logits)
    np.testing.assert_allclose(numbers(metric.compute()), expected, rtol=SINGLE, atol=1e-9)


@pytest.mark.parametrize("n", [3, 10, 25, 1003])
@pytest.mark.parametrize("norm", NORMS)
def test_adaptive_bins_are_equal_parts_of_the_sorted_rows(n, norm):
    p, y = binary(n, dtype=torch.float64)
    confidence, right = torch.maximum(p, 1 - p).numpy(), ((p > 0.5).long() == y).numpy()
    order = np.argsort(confidence)
    gaps, shares = [], []
    for part in np.array_split(order, 10):  # the first n % 10 parts have one more, as in the original
        if len(part):
            gaps.append(abs(confidence[part].mean() - right[part].mean()))
            shares.append(len(part) / n)
    gaps, shares = np.array(gaps), np.array(shares)
    expected = {"l1": gaps @ shares, "l2": np.sqrt(gaps**2 @ shares), "max": gaps.max()}[norm]
    metric = ct.AdaptiveCalibrationError("binary", norm=norm)
    for batch in batches(p, y, (2,)):
        metric.update(*batch)
    assert metric.compute().item() == pytest.approx(expected, rel=1e-12)


def test_tied_scores_share_their_outcomes_in_any_order():
    y = torch.tensor([1] * 50 + [0] * 50)
    for order in (torch.arange(100), torch.randperm(100, generator=torch.Generator().manual_seed(1))):
        metric = ct.AdaptiveCalibrationError("binary", num_bins=7, norm="max")
        metric.update(torch.full((100,), 0.5), y[order])
        assert metric.compute().item() == 0
    # Bins of 2 and 2 over scores .6 (one row), .8 (three rows, two right): each takes part of two thirds.
    metric = ct.AdaptiveCalibrationError("binary", num_bins=2, norm="l1")
    metric.update(torch.tensor([0.6, 0.8, 0.8, 0.8], dtype=torch.float64), torch.tensor([1, 1, 0, 1]))
    gaps = abs((0.6 + 0.8) / 2 - (1 + 2 / 3) / 2), abs(0.8 - 2 / 3)
    assert metric.compute().item() == pytest.approx(sum(gaps) / 2, rel=1e-12)


def test_a_binary_score_of_a_half_predicts_0_in_adaptive_bins_and_1_in_the_smooth_error():
    p = torch.tensor([0.5])
    assert ct.AdaptiveCalibrationError("binary")(p, torch.tensor([1])).item() == 0.5
    assert ct.AdaptiveCalibrationError("binary", notion="positive")(p, torch.tensor([1])).item() == 0.5
    table = {}
    for half, label in ((0, 0), (0, 1), (1, 0), (1, 1)):
        metric = ct.SmoothCalibrationError("reflected") if half else ct.AdaptiveCalibrationError("binary")
        metric.update(p, torch.tensor([label]))
        table[half, label] = metric._tables()[0].positives.tolist()
    assert table == {(0, 0): [1], (0, 1): [0], (1, 0): [0], (1, 1): [1]}


def test_the_seeds_own_examples():
    predicted_probs = torch.tensor([0.9, 0.8, 0.3, 0.2])
    true_labels = torch.tensor([1, 1, 0, 0])
    metric = ct.CalibrationError(task="binary", num_bins=5, norm="l1", adaptive=False)
    assert f"Calibration Error: {metric(predicted_probs, true_labels):.3g}" == "Calibration Error: 0.2"
    adaptive = ct.CalibrationError(task="binary", num_bins=5, norm="l1", adaptive=True)  # the original gives NaN
    assert f"{adaptive(predicted_probs, true_labels):.3g}" == "0.2"
    preds = torch.tensor([[0.25, 0.20, 0.55], [0.55, 0.05, 0.40], [0.10, 0.30, 0.60], [0.90, 0.05, 0.05]])
    target = torch.tensor([0, 1, 2, 0])
    for norm, value in (("l1", 0.2), ("l2", 0.2082), ("max", 0.2333)):  # torchmetrics' documentation
        found = ct.CalibrationError("multiclass", num_classes=3, num_bins=3, norm=norm)(preds, target)
        assert round(found.item(), 4) == value


def test_left_and_right_closed_bins_and_one():
    p = torch.tensor([0, 0.05, 0.1, 0.2, 0.2, 0.35, 0.5, 0.75, 0.9, 1])
    y = torch.tensor([0, 0, 1, 0, 1, 0, 1, 1, 1, 0])
    for closed, norm, value in (
        ("left", "l1", 0.275),
        ("left", "l2", 0.31292),
        ("left", "max", 0.5),
        ("right", "l1", 0.345),
        ("right", "l2", 0.35504),
        ("right", "max", 0.5),
    ):
        metric = ct.CalibrationError("binary", num_bins=5, norm=norm, closed=closed)
        assert metric(p, y).item() == pytest.approx(value, abs=1e-5)
    assert ct.CalibrationError("binary")(torch.tensor([0.95, 1.0]), torch.tensor([1, 0])).item() == pytest.approx(0.475)


def test_extra_dimensions_are_rows():
    probs, target, _ = classes(24, 3)
    flat = ct.CalibrationError("multiclass", num_classes=3)(probs, target)
    image = probs.reshape(2, 3, 4, 3).permute(0, 3, 1, 2)
    assert ct.CalibrationError("multiclass", num_classes=3)(image, target.reshape(2, 3, 4)) == flat
    p, y = binary(24)
    assert ct.CalibrationError("binary")(p.reshape(2, 3, 4), y.reshape(2, 3, 4)) == ct.CalibrationError("binary")(p, y)
    smooth = ct.SmoothCalibrationError("reflected")
    assert smooth(p[:, None], y) == ct.SmoothCalibrationError("reflected")(p, y[:, None])


def test_one_hot_targets():
    probs, target, _ = classes(50)
    one_hot = torch.nn.functional.one_hot(target, 4)
    assert ct.ClasswiseCalibrationError(4)(probs, one_hot) == ct.ClasswiseCalibrationError(4)(probs, target)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@every
def test_every_precision(name, dtype):
    make, kind = METRICS[name]
    preds, target = data(kind, 500, dtype=torch.float64)
    preds = (64 * preds).floor() / 64  # what every precision holds
    if kind == "multiclass":
        preds[:, 0] += 1 - preds.sum(1)
    metric, wide = make(), make()
    metric.update(preds.to(dtype), target)
    wide.update(preds if dtype == torch.float64 else preds.float(), target)
    value, expected = metric.compute(), wide.compute()
    np.testing.assert_array_equal(numbers(value), numbers(expected.to(dtype) if name in HALVES else expected))
    if isinstance(value, torch.Tensor):
        assert value.dtype == (dtype if dtype.itemsize > 2 or name in HALVES else torch.float32)


def test_half_precision_does_not_overflow():
    p = torch.full((70_000,), 0.5, dtype=torch.float16)
    y = (torch.arange(70_000) % 3 == 0).long()
    value = ct.CalibrationError("binary")(p, y)
    assert value.dtype == torch.float16
    assert value.item() == pytest.approx(0.5 - 23334 / 70000, rel=2.0**-11)  # the value is rounded, no count is


def test_mixed_precisions_are_widened():
    p, y = binary(100)
    for name in ("binary adaptive", "smooth binary", "binary"):
        mixed, wide = METRICS[name][0](), METRICS[name][0]()
        for k, (a, b) in enumerate(batches(p, y, (30, 60))):
            mixed.update(a.double() if k == 1 else a, b)
            wide.update(a.double(), b)
        assert mixed.compute().dtype == torch.float64
        if name != "binary":  # whose edges are rounded to each batch's type
            assert mixed.compute().item() == pytest.approx(wide.compute().item(), rel=1e-6)  # 1 - p is rounded


@pytest.mark.covering
@every
@pytest.mark.parametrize("kind_of_read", ["host", "elsewhere"])
def test_ignored_rows_play_no_part(name, kind_of_read, request):
    if kind_of_read == "elsewhere":
        request.getfixturevalue("elsewhere")
    make, kind = METRICS[name]
    preds, target = data(kind, 60)
    whole = make(ignore_index=-100)
    expected = make()
    if kind == "multilabel":
        ignored = torch.rand(60, 4, generator=torch.Generator().manual_seed(5)) < 0.3
        target = torch.where(ignored, torch.full_like(target, -100), target)
        whole.update(torch.where(ignored, torch.full_like(preds, torch.nan), preds), target)
        measure = calibrant.classwise_calibration_error if name == "multilabel" else None
        if measure is not None:
            value = measure(preds, target, notion="multilabel", closed="left", ignore_index=-100)
        else:
            value = calibrant.evaluate(preds, target, notion="multilabel", ignore_index=-100)["brier"].value
        assert whole.compute().item() == pytest.approx(value, rel=SINGLE)
        return
    ignored = torch.arange(60) % 3 == 0
    spoiled = preds.clone()
    spoiled[ignored] = torch.nan
    whole.update(spoiled, torch.where(ignored, torch.full_like(target, -100), target))
    expected.update(preds[~ignored], target[~ignored])
    np.testing.assert_allclose(numbers(whole.compute()), numbers(expected.compute()), rtol=1e-12)
    before = numbers(whole.compute())
    whole.update(spoiled[ignored], torch.full_like(target[ignored], -100))  # a batch of nothing but these
    whole.update(preds[:0], target[:0])
    np.testing.assert_array_equal(numbers(whole.compute()), before)


# ---------------------------------------------------------------- on devices: torch operations, checked on the host


@pytest.mark.covering
@every
@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_devices_read_as_the_host_does(name, logits, dtype, monkeypatch):
    make, kind = METRICS[name]
    preds, target = data(kind, dtype=dtype, logits=logits)
    host, device = make(), make()
    for batch in batches(preds, target):
        host.update(*batch)
    monkeypatch.setattr(ProbabilityMetric, "_read_host", ProbabilityMetric._read_device)
    for batch in batches(preds, target):
        device.update(*batch)
    # Softmaxes differ in their last bit, which may move a row over an edge: 2e-6 is a thousandth of a row.
    near = 1e-10 if not logits and dtype == torch.float64 else 2e-6
    np.testing.assert_allclose(numbers(device.compute()), numbers(host.compute()), rtol=near, atol=near)
    if not logits and hasattr(host, "counts"):
        assert torch.equal(device.counts, host.counts)
        assert torch.equal(device.positives, host.positives)
        torch.testing.assert_close(device.score_sums, host.score_sums, rtol=1e-12, atol=1e-12)


@pytest.mark.covering
@every
@pytest.mark.parametrize("declared", [None, False, True])
def test_nothing_waits_for_the_device(name, declared):
    # On the meta device there are no values: whatever would look at one raises.
    make, kind = METRICS[name]
    metric = make(logits=declared, ignore_index=-1).to("meta")
    preds, target = data(kind, 60)
    for _ in range(2):  # the first batch, and one that meets its state
        metric.update(preds.to("meta"), target.to("meta"))
    assert metric.device.type == "meta"


@pytest.mark.usefixtures("elsewhere")
def test_sums_on_devices_do_not_depend_on_the_order():
    p, y = binary(10_000)
    order = torch.randperm(len(p), generator=torch.Generator().manual_seed(2))
    one, other = ct.CalibrationError("binary"), ct.CalibrationError("binary")
    one.update(p, y)
    other.update(p[order], y[order])
    assert torch.equal(one.score_sums, other.score_sums)


FAULTY = {
    "NaN": ([0.1, float("nan"), 0.3], [0, 1, 0], "1 row with NaN or infinite values in"),
    "infinite": ([0.1, float("inf"), float("-inf")], [0, 1, 0], "2 rows with NaN or infinite"),
    "outside": ([0.1, 1.2, 0.3], [0, 1, 0], "1 row with values outside"),
    "target": ([0.1, 0.2, 0.3], [0, 2, -1], "2 rows with a label out of range"),
    "half a target": ([0.1, 0.2, 0.3], [0.0, 0.5, 1.0], "1 row with a label out of range"),
}


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("fault", FAULTY)
def test_faults_on_devices_are_raised_by_compute(fault):
    preds, target, match = FAULTY[fault]
    for name in ("binary", "smooth binary", "brier binary", "nll binary", "report binary", "binary adaptive"):
        metric = METRICS[name][0](logits=False)
        metric.update(*binary(20))
        metric.compute()
        metric.update(torch.tensor(preds), torch.tensor(target))
        metric.update(*binary(20))
        with pytest.raises(InputError, match=match):
            metric.compute()
        metric.reset()
        metric.update(*binary(20))
        metric.compute()
        unchecked = METRICS[name][0](logits=False, validate_args=False)
        unchecked.update(torch.tensor(preds), torch.tensor(target))
        if fault in ("NaN", "infinite", "outside") and hasattr(unchecked, "singles"):
            with pytest.raises(InputError, match="NaN or values outside"):  # where rows are kept, scores show
                unchecked.compute()
        else:
            unchecked.compute()  # wrong, but no harm


@pytest.mark.usefixtures("elsewhere")
def test_faults_of_classes_on_devices():
    probs, target, logits = classes(20)
    metric = METRICS["multiclass"][0]()
    metric.update(probs, target)
    metric.update(probs * 0.9, target)
    with pytest.raises(InputError, match="rows that sum to 1, got 20 rows with a different sum"):
        metric.compute()
    metric = METRICS["multiclass"][0]()
    metric.update(logits, target)
    metric.update(probs, target)
    with pytest.raises(InputError, match="preds: expected logits, as in the first batch, got 1 batch of"):
        metric.compute()


@pytest.mark.usefixtures("elsewhere")
def test_without_double_precision_sums_are_kept_in_pairs(monkeypatch):
    """A device without float64, as Apple's, played by the meta device's neighbour: the host itself."""
    metrics = {name: METRICS[name][0]() for name in ("binary", "classwise", "brier", "nll", "report")}
    plain = {name: METRICS[name][0]() for name in metrics}
    for name, metric in metrics.items():
        metric.update(*data(METRICS[name][1], 500))
        plain[name].update(*data(METRICS[name][1], 500))
    poor = False
    monkeypatch.setattr(tensors, "has_float64", lambda _device: not poor)
    seen = []

    def move(x):  # what .to("mps") would do
        nonlocal poor
        poor = True
        seen.append(x.dtype)
        return x

    for name, metric in metrics.items():
        poor = False
        metric._apply(move)
        floats = [s for s in metric.metric_state.values() if isinstance(s, torch.Tensor) and s.is_floating_point()]
        floats += [x for s in metric.metric_state.values() if isinstance(s, list) for x in s if x.is_floating_point()]
        assert floats
        assert all(x.dtype == torch.float32 for x in floats)
        for _ in range(3):
            metric.update(*data(METRICS[name][1], 500, seed=3))
        poor = False
        for _ in range(3):
            plain[name].update(*data(METRICS[name][1], 500, seed=3))
        expected = numbers(plain[name].compute())
        poor = True
        value = numbers(metric.compute())
        # Brier and NLL add single precision within a batch: 2^-24 log2(500); pairs lose 2^-48 from batch to batch.
        np.testing.assert_allclose(value, expected, rtol=1e-6, atol=1e-9)
    assert torch.float64 not in seen


def test_pairs_lose_nothing():
    rng = np.random.default_rng(4)
    values = torch.tensor(rng.random((1000, 3)) * 10.0 ** rng.integers(-3, 4, (1000, 3)))
    total = tensors.paired(torch.zeros(3, dtype=torch.float64))
    for row in values:
        total = tensors.add_sums(torch.stack([total, tensors.paired(row)]))
    assert total.dtype == torch.float32
    torch.testing.assert_close(tensors.joined(total), values.sum(0), rtol=1e-11, atol=0)  # 1000 times 2^-48


class Posing:
    """An array of another library that says where it lies; it cannot lie there, so it hands out what lies here."""

    def __init__(self, kind):
        self.tensor, self.kind, self.streams = torch.arange(6.0).reshape(2, 3), kind, []

    def __dlpack_device__(self):
        return self.kind, 0

    def __dlpack__(self, *, stream=None, **options):
        self.streams.append(stream)
        return self.tensor.__dlpack__(**options)


@pytest.mark.parametrize("kind", [2, 10], ids=["CUDA", "ROCm"])
def test_arrays_on_a_gpu_come_through_dlpack_without_a_copy(monkeypatch, kind):
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _device: SimpleNamespace(cuda_stream=77))
    array = Posing(kind)
    tensor = on_device(array)
    assert tensor.data_ptr() == array.tensor.data_ptr()
    assert tensor.shape == (2, 3)
    assert array.streams == [77]  # so that the other library's work is done before ours begins


def test_arrays_with_the_older_interface(monkeypatch):
    asked = []
    monkeypatch.setattr(torch, "as_tensor", lambda x, device: asked.append((x, device)))
    array = SimpleNamespace(__cuda_array_interface__={})
    on_device(array)
    assert asked == [(array, "cuda")]


@pytest.mark.parametrize("array", [Posing(1), np.zeros(1), [0.5]], ids=lambda x: type(x).__name__)
def test_arrays_elsewhere_are_refused(array):
    with pytest.raises(InputError, match=f"preds: expected a tensor, got a {type(array).__name__}; convert the value"):
        ct.CalibrationError("binary").update(array, torch.zeros(1))


# ---------------------------------------------------------------- logits or probabilities: decided once


def test_the_first_batch_decides():
    p, y = binary(100)
    logits = p.logit()
    inside = (logits >= 0) & (logits <= 1)
    expected = ct.CalibrationError("binary", logits=True)(logits, y)
    metric = ct.CalibrationError("binary")
    metric.update(logits[~inside], y[~inside])
    metric.update(logits[inside], y[inside])  # torchmetrics takes these for probabilities
    assert metric.compute() == pytest.approx(expected.item(), rel=1e-6)
    metric = ct.CalibrationError("binary")
    metric.update(p, y)
    with pytest.raises(
        InputError, match=r"preds: expected values in \[0, 1\].*the first batch looked like probabilities"
    ):
        metric.update(logits, y)
    assert metric.compute() == ct.CalibrationError("binary")(p, y)  # nothing was added


def test_remedies_are_in_the_words_of_the_metric():
    for preds, target, remedy in (
        ([0.5, torch.nan], [0, 1], "find the source of this value, or remove the row from preds and target"),
        ([0.5, 0.5], [-1, 1], r"the labels are -1 and 1: pass target == 1 if 1 is the event"),
        ([[0.5, 0.4]], [0], r"normalise the rows .*, pass logits=True to the metric if they are logits"),
        ([[0.5, 0.5]], [-100], "pass ignore_index=-100 to the metric to leave such rows out"),
    ):
        with pytest.raises(InputError, match=f"; {remedy}") as caught:
            ct.BrierScore().update(torch.tensor(preds), torch.tensor(target))
        assert caught.value.argument in ("preds", "target")
        assert caught.value.row is not None


def test_rounding_does_not_make_logits():
    with pytest.raises(InputError, match=r"preds: expected values in \[0, 1\], got 1.00001 at row 1"):
        ct.CalibrationError("binary").update(torch.tensor([0.5, 1.00001]), torch.tensor([0, 1]))


def test_probabilities_where_logits_came_are_refused():
    probs, target, logits = classes(30)
    metric = METRICS["multiclass"][0]()
    metric.update(logits, target)
    with pytest.raises(InputError, match=r"preds: expected logits, as in the first batch.*pass logits=True"):
        metric.update(probs, target)
    metric.update(logits, target)
    told = METRICS["multiclass"][0](logits=True)
    told.update(probs, target)  # who says so is believed


@pytest.mark.usefixtures("elsewhere_or_host")
@pytest.mark.parametrize("how", ["forward", "pickle", "clone", "deepcopy", "merge"])
def test_the_decision_survives(how):
    p, y = binary(200)
    logits = p.logit()
    inside = (logits >= 0) & (logits <= 1)
    metric = ct.CalibrationError("binary")
    if how == "forward":
        metric(logits[~inside], y[~inside])
        batch = metric(logits[inside], y[inside])
        assert batch.item() == pytest.approx(
            ct.CalibrationError("binary", logits=True)(logits[inside], y[inside]).item()
        )
    else:
        metric.update(logits[~inside], y[~inside])
        if how == "pickle":
            metric = pickle.loads(pickle.dumps(metric))
        elif how == "clone":
            metric = metric.clone()
        elif how == "deepcopy":
            metric = copy.deepcopy(metric)
        else:
            fresh = ct.CalibrationError("binary")
            fresh.merge_state(metric)
            metric = fresh
        metric.update(logits[inside], y[inside])
    expected = ct.CalibrationError("binary", logits=True)
    expected.update(logits, y)
    assert metric.compute().item() == pytest.approx(expected.compute().item(), rel=1e-6)


@pytest.fixture(params=["host", "device"])
def elsewhere_or_host(request, monkeypatch):
    if request.param == "device":
        monkeypatch.setattr(ProbabilityMetric, "_read_host", ProbabilityMetric._read_device)


def test_reset_forgets_the_decision_and_the_shape():
    p, y = binary(50)
    metric = ct.BrierScore()
    metric.update(p.logit(), y)
    metric.reset()
    probs, target, _ = classes(50)
    assert metric(probs, target) == ct.BrierScore()(probs, target)


# ---------------------------------------------------------------- as torchmetrics expects of a metric


@every
def test_batches_in_any_order_are_the_whole(name):
    make, kind = METRICS[name]
    preds, target = data(kind)
    whole = make()
    whole.update(preds, target)
    parts = list(batches(preds, target))
    forwards, backwards = make(), make()
    for batch in parts:
        forwards.update(*batch)
    for batch in parts[::-1]:
        backwards.update(*batch)
    for metric in (forwards, backwards):
        np.testing.assert_allclose(numbers(metric.compute()), numbers(whole.compute()), rtol=2e-7, atol=1e-12)
        if hasattr(metric, "counts"):
            assert torch.equal(metric.counts, whole.counts)
            torch.testing.assert_close(metric.score_sums, whole.score_sums, rtol=1e-12, atol=1e-12)


@every
def test_forward_gives_the_batch_and_adds_it(name):
    make, kind = METRICS[name]
    preds, target = data(kind)
    metric = make()
    for batch in batches(preds, target):
        alone = make()
        alone.update(*batch)
        np.testing.assert_array_equal(numbers(metric(*batch)), numbers(alone.compute()))
    np.testing.assert_allclose(numbers(metric.compute()), numbers(filled(name).compute()), rtol=2e-7, atol=1e-12)


@pytest.mark.covering
@every
@pytest.mark.parametrize("method", ["update", "forward"])
def test_a_bad_batch_changes_nothing(name, method):
    make, kind = METRICS[name]
    preds, target = data(kind, 60)
    metric = make()
    metric.update(preds, target)
    before = numbers(metric.compute())
    spoiled = preds.clone()
    spoiled.view(-1)[7] = torch.nan
    wrong = target.clone()
    wrong.view(-1)[3] = 9
    for bad in ((spoiled, target), (preds, wrong), (preds[:10], target)):
        with pytest.raises(InputError):
            getattr(metric, method)(*bad)
        metric._computed = None
        np.testing.assert_array_equal(numbers(metric.compute()), before)


@every
def test_copies_and_pickles_go_on(name):
    preds, target = data(METRICS[name][1], 300, seed=8)
    metric = filled(name)
    others = [pickle.loads(pickle.dumps(metric)), metric.clone(), copy.deepcopy(metric)]
    metric.update(preds, target)
    for other in others:
        other.update(preds, target)
        np.testing.assert_array_equal(numbers(other.compute()), numbers(metric.compute()))


@every
def test_reset_is_a_new_metric(name):
    make, kind = METRICS[name]
    metric = filled(name, seed=3)
    metric.compute()
    metric.reset()
    assert metric.update_count == 0
    preds, target = data(kind, 100)
    fresh = make()
    np.testing.assert_array_equal(numbers(metric(preds, target)), numbers(fresh(preds, target)))


@every
def test_state_dict_holds_the_state_only_if_asked(name):
    make, _ = METRICS[name]
    metric = filled(name)
    assert dict(metric.state_dict()) == {}
    metric.persistent(True)
    file = io.BytesIO()
    torch.save(metric.state_dict(), file)
    file.seek(0)
    other = make()
    other.persistent(True)
    other.load_state_dict(torch.load(file))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torchmetrics: no update was called
        np.testing.assert_array_equal(numbers(other.compute()), numbers(metric.compute()))


@every
def test_moving_and_casting_keep_the_state(name):
    metric = filled(name)
    before = {k: copy.deepcopy(v) for k, v in metric.metric_state.items()}
    for change in (
        lambda m: m.to("cpu"),
        lambda m: m.half(),
        lambda m: m.double(),
        lambda m: m.float(),
        lambda m: m.set_dtype(torch.float16),
        lambda m: m.to(torch.bfloat16),
    ):
        change(metric)
    for key, state in metric.metric_state.items():
        assert str(state) == str(before[key])
        assert getattr(state, "dtype", None) == getattr(before[key], "dtype", None)


def test_the_state_is_small():
    def size(metric):
        return sum(
            s.nbytes if isinstance(s, torch.Tensor) else sum(x.nbytes for x in s) for s in metric.metric_state.values()
        )

    p, y = binary(10_000)
    probs, target, _ = classes(10_000, 10)
    uniform = ct.CalibrationError("binary", num_bins=15)
    small = size(uniform)
    for _ in range(20):
        uniform.update(p, y)
    assert size(uniform) == small <= 2048
    scores = ct.BrierScore()
    fixed = size(scores)
    scores.update(probs, target)
    assert size(scores) == fixed <= 256
    classwise = ct.ClasswiseCalibrationError(10)
    classwise.update(probs, target)
    assert size(classwise) <= 24 * 150 + 200
    for make in (lambda: ct.AdaptiveCalibrationError("binary"), lambda: ct.SmoothCalibrationError()):
        rows = make()
        empty = size(rows)
        rows.update(p, y)
        assert size(rows) - empty == 4 * 10_000
        rows.reset()
        rows.update(p.double(), y)
        assert size(rows) - empty == 8 * 10_000


def test_metrics_of_one_make_share_their_state_in_a_collection():
    p, y = binary(500)
    first = torch.full((20,), 0.75), torch.ones(20, dtype=torch.long)  # in which many makes would look the same
    made = {
        "ece": ct.CalibrationError("binary"),
        "rmsce": ct.CalibrationError("binary", norm="l2"),
        "mce": ct.CalibrationError("binary", norm="max"),
        "right": ct.CalibrationError("binary", closed="right"),
        "top": ct.CalibrationError("binary", notion="top-label"),
        "ignoring": ct.CalibrationError("binary", ignore_index=0),
        "adaptive": ct.AdaptiveCalibrationError("binary", num_bins=5),
        "adaptive 10": ct.AdaptiveCalibrationError("binary", norm="l2"),
        "smooth": ct.SmoothCalibrationError("reflected"),
        "exact": ct.SmoothCalibrationError("reflected", method="exact"),
        "positive": ct.SmoothCalibrationError("reflected", notion="positive"),
        "brier": ct.BrierScore(),
        "nll": ct.NegativeLogLikelihood(),
    }
    alone = {name: metric.clone() for name, metric in made.items()}
    collection = torchmetrics.MetricCollection(made)
    for batch in (first, *batches(p, y)):
        collection.update(*batch)
        for metric in alone.values():
            metric.update(*batch)
    groups = sorted(sorted(group) for group in collection.compute_groups.values())
    assert groups == [
        ["adaptive", "adaptive 10"],
        ["brier", "nll"],
        ["ece", "mce", "rmsce"],
        ["exact", "smooth"],
        ["ignoring"],
        ["positive"],
        ["right"],
        ["top"],
    ]
    for name, value in collection.compute().items():
        assert value == alone[name].compute(), name
    collection.reset()
    for name, value in collection(p, y).items():
        assert value == alone[name].clone()(p, y), name
    named = torchmetrics.MetricCollection([ct.BrierScore(), ct.CalibrationReport()])
    named.update(preds=p, target=y)
    assert isinstance(named.compute()["CalibrationReport"], calibrant.Report)


def test_metric_tracker():
    tracker = torchmetrics.wrappers.MetricTracker(ct.CalibrationError("binary"), maximize=False)
    values = []
    for epoch in range(3):
        tracker.increment()
        p, y = binary(200, seed=epoch)
        tracker.update(p, y)
        values.append(tracker.compute().item())
    assert tracker.best_metric() == min(values)
    assert tracker.compute_all().tolist() == pytest.approx(values)


def test_arithmetic_of_metrics():
    p, y = binary(100)
    difference = ct.CalibrationError("binary", norm="l2") - ct.CalibrationError("binary")
    difference.update(p, y)
    assert difference.compute() >= 0


def test_metrics_keep_no_gradients_and_change_no_input():
    p, y = binary(100)
    p.requires_grad_(True)
    kept = p.detach().clone(), y.clone()
    for name in ("binary", "binary adaptive", "smooth binary", "brier binary"):
        metric = METRICS[name][0]()
        assert not metric(p, y).requires_grad
        with torch.inference_mode():
            metric.update(p, y)
        metric.update(p, y)
    assert torch.equal(p.detach(), kept[0])
    assert torch.equal(y, kept[1])


def test_loading_a_state_does_not_let_updates_change_it():
    metric = filled("binary")
    metric.persistent(True)
    saved = metric.state_dict()
    before = saved["counts"].clone()
    other = ct.CalibrationError("binary")
    other.persistent(True)
    other.load_state_dict(dict(saved))
    other.update(*binary(50))
    assert torch.equal(saved["counts"], before)


def test_nothing_yet():
    for name in ("brier", "nll"):
        with pytest.warns(UserWarning, match="before the"):
            assert METRICS[name][0]().compute().isnan()
    for name in ("binary", "binary adaptive", "smooth", "classwise", "event classwise", "report"):
        with pytest.warns(UserWarning, match="before the"), pytest.raises(InputError, match="at least one batch"):
            METRICS[name][0]().compute()


def test_kwargs_reach_torchmetrics():
    metric = ct.SmoothCalibrationError(compute_on_cpu=True, sync_on_compute=False)
    assert metric.compute_on_cpu
    assert not metric.sync_on_compute
    metric.update(*binary(20))
    assert 0 <= metric.compute() <= 1
    with pytest.raises(ValueError, match="Unexpected keyword arguments"):
        ct.BrierScore(colour="red")


def test_the_bandwidth_found_is_an_attribute():
    p, y = binary(1000)
    metric = ct.SmoothCalibrationError("reflected")
    assert metric.final_bandwidth is None
    metric.update(p, y)
    metric.compute()
    assert metric.final_bandwidth * 1024 == int(metric.final_bandwidth * 1024)
    fixed = ct.SmoothCalibrationError("reflected", bandwidth=0.1)
    fixed.update(p, y)
    fixed.compute()
    assert fixed.final_bandwidth == 0.1
    exact = ct.SmoothCalibrationError("reflected", method="exact")
    exact.update(p, y)
    assert exact.final_bandwidth is None
    assert exact.compute() == pytest.approx(exact.final_bandwidth)
    fixed = ct.SmoothCalibrationError("reflected", bandwidth=0.1, method="exact")
    fixed.update(p, y)
    assert fixed.compute().item() == pytest.approx(
        calibrant.smooth_calibration_error(p, y, bandwidth=0.1, notion="top-label"), rel=SINGLE
    )


# ---------------------------------------------------------------- bad arguments and bad input


@pytest.mark.parametrize(
    ("make", "kind", "match"),
    [
        (lambda: ct.CalibrationError("multilabel"), InputError, "task: expected one of 'binary', 'multiclass'"),
        (lambda: ct.CalibrationError("multiclass"), TypeError, "num_classes: expected an integer, got None"),
        (lambda: ct.CalibrationError("multiclass", num_classes=2.0), TypeError, "num_classes: .* got 2.0"),
        (lambda: ct.CalibrationError("multiclass", num_classes=True), TypeError, "num_classes: .* got True"),
        (
            lambda: ct.CalibrationError("multiclass", num_classes=1),
            ValueError,
            "num_classes: expected an integer, 2 or larger",
        ),
        (lambda: ct.CalibrationError("binary", n_bins=10), ValueError, "n_bins: expected num_bins"),
        (
            lambda: ct.CalibrationError("binary", num_bins=0),
            ValueError,
            "num_bins: expected an integer from 1",
        ),
        (
            lambda: ct.CalibrationError("binary", num_bins=1.5),
            ValueError,
            "num_bins: expected an integer from 1",
        ),
        (lambda: ct.CalibrationError("binary", norm="l3"), ValueError, "norm: expected one of 'l1', 'l2', 'max'"),
        (lambda: ct.CalibrationError("binary", closed="both"), ValueError, "closed: expected one of"),
        (lambda: ct.CalibrationError("binary", notion="classwise"), ValueError, "notion: expected one of 'positive'"),
        (
            lambda: ct.CalibrationError("multiclass", num_classes=3, notion="positive"),
            ValueError,
            "notion: expected 'top-label' or 'classwise' for 3 classes",
        ),
        (lambda: ct.CalibrationError("binary", logits="yes"), ValueError, "logits: expected True, False or None"),
        (lambda: ct.CalibrationError("binary", ignore_index=0.5), ValueError, "ignore_index: expected an integer"),
        (lambda: ct.AdaptiveCalibrationError("other"), ValueError, "task: expected one of 'binary', 'multiclass'"),
        (lambda: ct.ClasswiseCalibrationError(None), TypeError, "num_classes"),
        (lambda: ct.ClasswiseCalibrationError(3, reduction="max"), ValueError, "reduction: expected one of 'mean'"),
        (lambda: ct.ClasswiseCalibrationError(3, norm="l0"), ValueError, "norm"),
        (
            lambda: ct.ClasswiseCalibrationError(3, notion="top-label"),
            ValueError,
            "notion: expected one of 'classwise'",
        ),
        (lambda: ct.SmoothCalibrationError("box"), ValueError, "kernel_type: expected one of 'logit', 'reflected'"),
        (lambda: ct.SmoothCalibrationError(bandwidth=-1.0), ValueError, "bandwidth"),
        (lambda: ct.SmoothCalibrationError(bandwidth="wide"), ValueError, "bandwidth"),
        (lambda: ct.SmoothCalibrationError(eps=-1), ValueError, "eps: expected a finite number, 0 or"),
        (lambda: ct.SmoothCalibrationError(mesh_pts=-1), ValueError, "mesh_pts: expected an integer"),
        (lambda: ct.SmoothCalibrationError(refine_steps=-1), ValueError, "refine_steps"),
        (lambda: ct.SmoothCalibrationError(method="exact"), ValueError, "method: expected 'mesh' for the logit kernel"),
        (
            lambda: ct.SmoothCalibrationError("reflected", mesh_pts=300, method="exact"),
            ValueError,
            "no mesh options with method='exact'",
        ),
        (lambda: ct.SmoothCalibrationError(notion="classwise"), ValueError, "notion"),
        (lambda: ct.BrierScore(notion="classwise"), ValueError, "notion"),
        (lambda: ct.CalibrationReport(num_bins=0), ValueError, "num_bins: expected an integer from 1"),
        (lambda: ct.CalibrationReport(notion="classwise"), ValueError, "notion"),
    ],
)
def test_bad_arguments(make, kind, match):
    with pytest.raises(kind, match=match):
        make()


P2, Y2 = torch.tensor([0.2, 0.7]), torch.tensor([0, 1])


@pytest.mark.parametrize(
    ("name", "preds", "target", "match"),
    [
        ("binary", [0.2, 0.7], Y2, "preds: expected a tensor, got a list"),
        ("binary", P2, np.array([0, 1]), "target: expected a tensor, got a ndarray"),
        (
            "binary",
            torch.tensor([0, 3]),
            Y2,
            "preds: expected 0 or 1, the only probabilities that are whole numbers, got 3",
        ),
        ("binary", torch.tensor([0j, 1]), Y2, "preds: expected real numbers, got torch.complex64"),
        ("binary", torch.rand(2, 2), Y2, r"preds: expected the shape of target, \(2,\), got \(2, 2\).*preds\[:, 1\]"),
        ("binary", P2, torch.tensor([0, 2]), "target: expected outcomes 0 or 1, got 2 at row 1"),
        ("binary", P2, torch.tensor([0, 0.5]), "target: expected outcomes 0 or 1, got 0.5 at row 1"),
        ("binary", torch.tensor([0.2, torch.nan]), Y2, "preds: expected finite numbers, got nan at row 1"),
        ("multiclass", P2, Y2, r"preds: expected shape \(N, C\)"),
        ("multiclass", torch.rand(2, 3).softmax(1), Y2, "preds: expected 4 columns, the number in num_classes, got 3"),
        ("multiclass", torch.rand(2, 4).softmax(1), torch.tensor([0, 4]), "target: expected class indices 0 to 3"),
        ("multiclass", torch.rand(2, 4).softmax(1), torch.tensor([0, -1]), "pass ignore_index=-1"),
        (
            "multiclass",
            torch.full((2, 4), 0.2),
            Y2,
            "preds: expected rows that sum to 1.*; normalise the rows",
        ),
        ("multiclass", torch.rand(2, 4).softmax(1), torch.tensor([0, 1, 1]), r"target: expected shape \(2,\) or"),
        ("multilabel", torch.rand(2, 4), torch.tensor([0, 1]), r"target: expected shape \(2, 4\), got"),
        ("smooth", torch.rand(2, 4).softmax(1), torch.tensor([[0, 1], [1, 0]]), "target: expected shape"),
    ],
)
def test_bad_input(name, preds, target, match):
    metric = METRICS[name][0]()
    with pytest.raises(InputError, match=match) as caught:
        metric.update(preds, target)
    assert isinstance(caught.value, (CalibrantError, ValueError))
    assert metric._width is None


UNSTORED = {
    "sparse": (lambda x: x.to_sparse(), r"a sparse tensor \(layout torch.sparse_coo\); convert it with .to_dense\(\)"),
    "compressed": (lambda x: x.to_sparse_csr(), "a sparse tensor .*to_dense"),
    "quantised": (
        lambda x: torch.quantize_per_tensor(x.float(), 0.01, 0, torch.quint8),
        r"a quantised tensor \(quint8\); convert it with .dequantize\(\)",
    ),
    "nested": (lambda x: torch.nested.nested_tensor(list(x)), "a nested tensor; pass the rows as one tensor"),
    "jagged": (lambda x: torch.nested.nested_tensor(list(x), layout=torch.jagged), "a nested tensor"),
    "masked": (lambda x: torch.masked.masked_tensor(x, x > 0.5), "a masked tensor; leave the masked rows out"),
    "8 bits": (lambda x: x.to(torch.float8_e4m3fn), r"dtype float8_e4m3fn; convert it with .float\(\)"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", UNSTORED)
@pytest.mark.parametrize("name", METRICS)
def test_tensors_that_do_not_store_their_numbers_are_refused(kind, name):
    make, match = UNSTORED[kind]
    preds, target = torch.rand(6, 3).softmax(1), torch.eye(3).repeat(2, 1)
    for argument, arguments in {"preds": (make(preds), target), "target": (preds, make(target))}.items():
        with pytest.raises(InputError, match=f"{argument}: expected a dense tensor.*, got {match}"):
            METRICS[name][0]().update(*arguments)
    with pytest.raises(InputError, match=f"probs: expected a dense tensor.*, got {match}"):
        calibrant.evaluate(make(preds), target)
    with pytest.raises(InputError, match="targets: expected a tensor with numbers, got a tensor on the meta device"):
        calibrant.evaluate(preds, target.to("meta"))


def test_bad_input_for_the_batches_before():
    metric = ct.BrierScore()
    metric.update(*classes(20, 4)[:2])
    with pytest.raises(InputError, match="preds: expected 4 columns, as in the previous batches, got 3"):
        metric.update(*classes(20, 3)[:2])
    with pytest.raises(InputError, match="preds: expected 4 columns, as in the previous batches, got 1"):
        metric.update(*binary(20))
    with pytest.raises(
        InputError, match="preds: expected a tensor on cpu, the device of the metric, got a tensor on meta"
    ):
        metric.update(*(x.to("meta") for x in classes(20, 4)[:2]))


# ---------------------------------------------------------------- pictures


@pytest.fixture
def pyplot():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    settings = dict(matplotlib.rcParams)
    yield plt
    plt.close("all")
    assert dict(matplotlib.rcParams) == settings


def bars(axes):
    return [b for b in axes.patches if b.get_width() or b.get_height()]


@pytest.mark.usefixtures("pyplot")
def test_plot_of_uniform_bins():
    metric = filled("multiclass max")
    figure, axes = metric.plot()
    assert axes[0].get_figure() is figure
    assert axes[0].get_xlabel() == "Top-class Confidence (%)"
    assert axes[0].get_ylabel() == "Success Rate (%)"
    assert [t.get_text() for t in axes[0].texts] == [f"MCE = {metric.compute():.2%}"]
    counts, hits, sums = (getattr(metric, n).numpy() for n in ("counts", "positives", "score_sums"))
    at = np.flatnonzero(counts)
    rates, scores = 100 * hits[at] / counts[at], 100 * sums[at] / counts[at]
    for bar, k, rate, score in zip(bars(axes[0]), at, rates, scores, strict=True):
        assert bar.get_x() == pytest.approx(10 * k)
        assert bar.get_width() == pytest.approx(10)
        assert sorted([bar.get_y(), bar.get_y() + bar.get_height()]) == pytest.approx(sorted([rate, score]))
    assert [b.get_height() for b in bars(axes[1])] == pytest.approx(100 * counts[at] / counts.sum())


@pytest.mark.usefixtures("pyplot")
@pytest.mark.parametrize(("norm", "kind"), [("l1", "ECE"), ("l2", "RMSCE"), ("max", "MCE")])
def test_plot_says_the_metrics_own_number(norm, kind):
    p, y = binary(300)
    metric = ct.CalibrationError("binary", norm=norm)
    metric.update(p, y)
    _, axes = metric.plot(title="A", rd_xlabel="B", rd_ylabel="C", ch_xlabel="D", ch_ylabel="E")
    assert [t.get_text() for t in axes[0].texts] == [f"{kind} = {metric.compute():.2%}"]
    words = axes[0].get_title(), axes[0].get_xlabel(), axes[0].get_ylabel(), axes[1].get_xlabel(), axes[1].get_ylabel()
    assert words == tuple("ABCDE")
    metric = ct.CalibrationError("binary", norm=norm, notion="positive")
    metric.update(p, y)
    _, axes = metric.plot()
    assert axes[0].get_xlabel() == "Predicted Probability (%)"
    assert axes[0].get_ylabel() == "Observed Frequency (%)"
    assert axes[1].get_ylabel() == "Share of Rows (%)"


@pytest.mark.usefixtures("pyplot")
def test_plot_of_adaptive_bins_stands_where_the_scores_are():
    metric = ct.AdaptiveCalibrationError("binary", num_bins=4, notion="positive")
    p, y = binary(200)
    metric.update(p, y)
    _, axes = metric.plot()
    ends = 100 * np.sort(p.numpy())[[0, 49, 99, 149, 199]]
    assert [b.get_x() for b in bars(axes[0])] == pytest.approx(ends[:-1])
    assert [b.get_width() for b in bars(axes[0])] == pytest.approx(np.diff(ends), rel=1e-5)
    assert axes[0].texts[0].get_text() == f"Adaptive ECE = {metric.compute():.2%}"


@pytest.mark.usefixtures("pyplot")
def test_plot_of_a_report_has_intervals_and_a_band():
    metric = filled("report")
    diagram = metric.compute().diagram
    _, axes = metric.plot()
    at = np.flatnonzero(diagram.counts)
    whiskers = axes[0].collections[-1].get_segments()
    for whisker, score, low, high in zip(
        whiskers, diagram.confidences[at], diagram.lows[at], diagram.highs[at], strict=True
    ):
        np.testing.assert_allclose(whisker, [[100 * score, 100 * low], [100 * score, 100 * high]])
    boxes = axes[0].containers[-1].patches
    for box, low, high in zip(boxes, diagram.band_lows[at], diagram.band_highs[at], strict=True):
        assert (box.get_y(), box.get_y() + box.get_height()) == pytest.approx((100 * low, 100 * high))
    words = [text.get_text() for text in axes[0].get_legend().get_texts()]
    assert "95 % CI" in words
    assert "Calibrated (95 % band)" in words


@pytest.mark.usefixtures("pyplot")
def test_other_plots():
    for name in ("smooth", "brier", "nll", "classwise", "classwise none"):
        figure, _ = filled(name).plot()
        assert figure is not None
    report = filled("report")
    _, axes = report.plot()
    assert axes[0].texts[0].get_text() == f"ECE = {report.compute()['ece'].value:.2%}"
    with pytest.raises(InputError, match="call update first"), pytest.warns(UserWarning, match="before the"):
        ct.CalibrationError("binary").plot()
    with pytest.raises(InputError, match="a notion with a single event, because a plot shows one event"):
        filled("event classwise").plot()


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(CalibrantError, match=f"matplotlib is needed to draw .* {re.escape(install_command('report'))}"):
        filled("binary").plot()


def test_without_torch():
    """Without torchmetrics a bare module stands for torch, whose import takes seconds."""
    program = """
import sys, types
for package in ("torch", "torchmetrics"):
    sys.modules[package] = None
    try:
        import calibrant.torch
    except ImportError as error:
        print(error)
    sys.modules[package] = types.ModuleType(package)
    sys.modules[package].Tensor = object
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    for line, package in zip(found.splitlines(), ("torch", "torchmetrics"), strict=True):
        assert f"{package} is needed for calibrant.torch and is not installed" in line
        assert line.endswith(f"; run: {install_command('torch')}")


@pytest.mark.usefixtures("elsewhere_or_host")
def test_the_positive_class_is_of_two():
    probs, target, _ = classes(30, 3)
    pairs = torch.stack([probs[:, 0], 1 - probs[:, 0]], 1)
    for make in (ct.SmoothCalibrationError, ct.BrierScore, ct.NegativeLogLikelihood, ct.CalibrationReport):
        with pytest.raises(InputError, match="notion: expected 'top-label' or 'classwise' for 3 classes"):
            make(notion="positive").update(probs, target)
        ours = numbers(make(notion="positive")(pairs, (target > 0).long()))
        alone = numbers(make(notion="positive")(pairs[:, 1], (target > 0).long()))
        if make is not ct.CalibrationReport:  # which says more of two classes than of one event
            np.testing.assert_allclose(ours, alone, rtol=1e-6)


def test_multilabel_takes_two_dimensions():
    with pytest.raises(InputError, match=r"preds: expected shape \(N, C\) for multilabel, got \(2, 4, 3\)"):
        METRICS["multilabel"][0]().update(torch.rand(2, 4, 3), torch.ones(2, 4, 3).long())


def test_a_missing_target_is_said_to_be_missing():
    metric = ct.CalibrationError("binary")
    for method in ("forward", "update"):
        with pytest.raises(TypeError, match=f"{method}.* missing 1 required positional argument: 'target'"):
            getattr(metric, method)(P2)
    assert metric(preds=P2, target=Y2).item() == pytest.approx(0.25)


def test_a_report_can_be_moved_after_forward():
    metric = METRICS["report"][0]()
    metric(*data("multiclass", 30))
    metric.compute()
    metric.to("cpu")
    assert isinstance(metric.compute(), calibrant.Report)


def test_a_reports_classes_take_no_more_room_with_every_batch():
    metric = filled("report")
    metric(*data("multiclass", 30))
    metric.update(*data("multiclass", 30))
    assert [len(metric.class_counts), len(metric.class_scores)] == [1, 1]
    assert metric.class_scores[0].nbytes == 15 * 4 * 8


@pytest.mark.usefixtures("elsewhere_or_host")
def test_ties_of_classes_go_to_the_first():
    preds = torch.tensor([[0.4, 0.4, 0.2], [0.2, 0.4, 0.4]])
    for target, value in ((torch.tensor([0, 1]), 0.6), (torch.tensor([1, 2]), 0.4)):
        metric = ct.CalibrationError("multiclass", num_classes=3)
        assert metric(preds, target).item() == pytest.approx(value)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_outside_by_rounding_are_read_as_0_and_1(dtype):
    """On the host and on a device; beyond that they are faults, as before."""
    eps = torch.finfo(dtype).eps
    given = torch.tensor([1 + eps, 0.5, -eps, 0.25, 1 + 4 * eps], dtype=dtype)
    target = torch.tensor([1, 0, 0, 1, 1])
    expected = calibrant.brier_score(given.clamp(0, 1).numpy(), target.numpy())
    for make in (lambda: ct.BrierScore(), lambda: ct.NegativeLogLikelihood()):
        host = make()
        host.update(given, target)
        wanted = make()
        wanted.update(given.clamp(0, 1), target)
        assert float(host.compute()) == float(wanted.compute())
    metric = ct.BrierScore()
    metric.update(given, target)
    np.testing.assert_allclose(float(metric.compute()), expected, rtol=SINGLE)
    far = tensors.read(
        torch.tensor([[1 + eps], [1 + 5 * eps], [-eps]], dtype=dtype),
        torch.tensor([1, 1, 0]),
        layout="binary",
        ignore_index=None,
        logits=False,
        seen=torch.zeros(4, dtype=torch.int64),
        tolerance=1e-3,
        checked=True,
    )
    assert far.faults[tensors.FAULTS.index("outside")] == 1
    assert far.probs[[0, 2], 0].tolist() == [1, 0]
