"""The torch metrics behave as those of TorchUncertainty: names, types, errors and figures.

``tests/golden/record_drop_ins.py`` wrote what TorchUncertainty does, and says how to do it again. Tolerance: it adds in
single precision.
"""

from __future__ import annotations

import importlib.util
import json
import math
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the torch extra is not installed")
torchmetrics = pytest.importorskip("torchmetrics", reason="the torch extra is not installed")

from calibrant import torch as ct  # noqa: E402
from calibrant.errors import InputError  # noqa: E402
from calibrant.torch.base import ProbabilityMetric  # noqa: E402

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
_spec = importlib.util.spec_from_file_location("record_drop_ins", GOLDEN / "record_drop_ins.py")
RECORDER = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(RECORDER)
RECORDED = json.loads((GOLDEN / "drop_ins.json").read_text(encoding="utf-8"))["metrics"]
RELPLOT = json.loads((GOLDEN / "relplot.json").read_text(encoding="utf-8"))
SINGLE = 1e-6

#: The attributes that a state of constant size does not have: docs/migrating.md names them.
ABSENT = {
    "binary": {"confidences", "accuracies"},
    "multiclass": {"confidences", "accuracies"},
    "classwise": {"probs", "targets"},
}
#: Values that differ, as docs/migrating.md says: the mesh of the smooth error, and ties in adaptive bins and curves.
OTHER_VALUES = ("smooth", "adaptive", "aurc", "augrc", "coverage", "risk")

every = pytest.mark.parametrize("name", RECORDED)


def made(name):
    return RECORDER.METRICS[name][0](ct)


def updated(name, kind=torch.float32):
    batches = [(p.to(kind), y) for p, y in RECORDER.batches(RECORDER.METRICS[name][1])]
    return RECORDER.updated(made(name), batches)


def test_every_metric_is_recorded():
    assert list(RECORDED) == list(RECORDER.METRICS)


@every
def test_a_metric_has_the_attributes_of_the_original(name):
    metric, recorded = updated(name), RECORDED[name]
    metric.compute()
    for attribute, theirs in recorded["attributes"].items():
        if attribute in ABSENT.get(name, ()):
            assert not hasattr(metric, attribute)
            continue
        if (attribute, "each row" in name) == ("total", True):  # 0, whatever came
            continue
        ours = RECORDER.plain(getattr(metric, attribute))
        if attribute == "final_bandwidth":  # TorchUncertainty has another number of mesh points
            assert ours == pytest.approx(theirs, rel=0.05)
        elif isinstance(theirs, list):
            assert [len(batch) for batch in ours] == [10, 14]
            for batch, expected in zip(ours, theirs, strict=True):
                np.testing.assert_allclose(batch, expected, rtol=SINGLE)
        else:
            assert ours == (pytest.approx(theirs, rel=SINGLE) if isinstance(theirs, float) else theirs), attribute
    if not name.startswith(OTHER_VALUES):
        np.testing.assert_allclose(metric.compute(), recorded["value"], rtol=SINGLE)


ROWS = {
    "adaptive multiclass": lambda **k: ct.MulticlassAdaptiveCalibrationError(3, **k),
    "smooth binary": ct.SmoothCalibrationError,
    "aurc": ct.AURC,
    "risk": lambda **k: ct.RiskAtxCov(0.8, **k),
}


@pytest.mark.parametrize("reads", ["_read_host", "_read_device"])
@pytest.mark.parametrize("name", ROWS)
def test_lists_of_rows_leave_out_ignored_rows_and_survive_a_copy(name, reads, monkeypatch):
    monkeypatch.setattr(ProbabilityMetric, "_read_host", getattr(ProbabilityMetric, reads))
    (p, y), second = RECORDER.batches(RECORDER.METRICS[name][1])
    ignoring = ROWS[name](ignore_index=-1)
    ignoring.update(p, torch.where(torch.arange(10) < 4, -1, y))
    ignoring.update(*second)
    whole = updated(name)
    assert torch.equal(ignoring.confidences[0], whole.confidences[0][4:])
    assert torch.equal(ignoring.accuracies[0], whole.accuracies[0][4:])
    copied = pickle.loads(pickle.dumps(ignoring))
    assert torch.equal(copied.confidences[1], whole.confidences[1])
    double = made(name)
    double.update(second[0].double(), second[1])
    double.update(p, y)
    assert [batch.dtype for batch in double.confidences] == [torch.float32, torch.float64]
    np.testing.assert_allclose(double.confidences[1], whole.confidences[1], rtol=SINGLE)


@every
def test_a_value_has_the_type_of_the_original(name):
    for kind, theirs in RECORDED[name]["types"].items():
        assert str(updated(name, getattr(torch, kind)).compute().dtype) == theirs
    mixed = updated(name, torch.float16)
    mixed.update(*RECORDER.batches(RECORDER.METRICS[name][1])[0])
    assert mixed.compute().dtype == torch.float32
    mixed.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torchmetrics: no update was called
        if not RECORDED[name]["without a batch"]:
            assert mixed.compute().dtype == torch.float32


@every
def test_half_precision_rounds_the_value_and_no_sum(name):
    for kind in (torch.float16, torch.bfloat16):
        half, wide = updated(name, kind).compute(), made(name)
        for p, y in RECORDER.batches(RECORDER.METRICS[name][1]):
            wide.update(p.to(kind).float() if name == "binary" else p.to(kind), y)
        assert torch.equal(half, wide.compute().to(half.dtype))


@every
def test_without_a_batch_a_metric_raises_as_the_original_does(name):
    metric = made(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torchmetrics: no update was called
        if RECORDED[name]["without a batch"]:
            assert RECORDED[name]["without a batch"] == ["ValueError"]
            with pytest.raises(InputError, match="preds: expected at least one batch before compute, got none; call"):
                metric.compute()
        else:
            assert metric.compute().isnan()
    (p, y), _ = RECORDER.batches(RECORDER.METRICS[name][1])
    metric.update(p[:0], y[:0])
    assert metric.compute().isnan().all()
    metric.update(p, y)
    assert metric.compute().isfinite().all()
    loaded = made(name)
    loaded.persistent(True)
    metric.persistent(True)
    loaded.load_state_dict(metric.state_dict())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torchmetrics does not count loaded batches
        assert torch.equal(loaded.compute(), metric.compute())
    metric.reset()
    assert RECORDER.errors_of(metric.compute) or not RECORDED[name]["without a batch"]


@every
@pytest.mark.filterwarnings("ignore:The ``compute`` method")
def test_an_invalid_batch_raises_an_error_that_handlers_of_the_original_catch(name):
    for which, theirs in RECORDED[name]["invalid"].items():
        batch = RECORDER.invalid(RECORDER.METRICS[name][1])[which]
        ours = RECORDER.errors_of(lambda batch=batch: RECORDER.updated(made(name), [batch]).compute())
        assert set(theirs) <= set(ours), which
        assert not theirs or {"ValueError", "RuntimeError"} <= set(ours)


def test_an_error_keeps_its_parts():
    metric = ct.CalibrationError("binary")
    with pytest.raises(RuntimeError, match="target: expected outcomes 0 or 1, got 2 at row 1") as caught:
        metric.update(torch.tensor([0.3, 0.4]), torch.tensor([0, 2]))
    error = caught.value
    assert isinstance(error, InputError)
    assert (error.argument, error.row) == ("target", 1)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.row, again.fault) == (str(error), 1, error.fault)
    with pytest.raises(RuntimeError):
        metric(torch.tensor([0.3, 0.4]), torch.tensor([0, 2]))


@pytest.mark.parametrize("name", [name for name in RECORDED if "figure" in RECORDED[name]])
def test_a_figure_has_the_size_and_labels_of_the_original(name):
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="the report extra is not installed")
    assert RECORDER.figure_of(updated(name)) == RECORDED[name]["figure"]
    pyplot.close("all")


@pytest.mark.parametrize("kernel", ["reflected", "logit"])
def test_small_options_of_the_smooth_error_have_relplots_numbers(kernel):
    spec = importlib.util.spec_from_file_location("record_relplot", GOLDEN / "record_relplot.py")
    relplot = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(relplot)
    scores, outcomes = (torch.tensor(x) for x in relplot.cases()["calibrated 1000"])
    for (points, eps, steps), (value, h) in zip(relplot.SEARCHES, RELPLOT["searches"][kernel], strict=True):
        metric = ct.SmoothCalibrationError(kernel, eps=eps, mesh_pts=points, refine_steps=steps, notion="positive")
        assert metric(scores, outcomes).item() == pytest.approx(value, rel=1e-9)
        assert metric.final_bandwidth == h


def test_the_number_of_bins_has_both_names():
    for metric in (ct.BinaryCalibrationError(7), ct.MulticlassAdaptiveCalibrationError(3, 7)):
        assert (metric.n_bins, metric.num_bins) == (7, 7)


def test_a_refused_batch_leaves_the_metric_as_it_was() -> None:
    """torchmetrics counts a batch before it is read."""
    good, labels = torch.tensor([0.1, 0.9]), torch.tensor([0, 1])
    for batches in (0, 1):
        metric = ct.CalibrationError("binary")
        for _ in range(batches):
            metric.update(good, labels)
        for preds in (torch.tensor([0.1, math.nan]), torch.tensor([0.1])):
            with pytest.raises(InputError, match="preds: expected"):
                metric.update(preds, labels)
        assert metric.update_count == batches
        if batches:
            assert metric.compute() == pytest.approx(0.1)
        else:
            with pytest.warns(UserWarning, match="before"), pytest.raises(InputError, match="at least one batch"):
                metric.compute()
