"""The torch metrics against what torchmetrics, TorchUncertainty and relplot said when they were asked.

``tests/golden/record_peers.py`` and ``record_relplot.py`` wrote the values, and say how to do it again. Where a peer is
right ours agree to 1e-6. Where they differ, the test names the reason, checks that it applies, and holds ours against
the definition written out naively.
"""

from __future__ import annotations

import functools
import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchmetrics")

from calibrant import torch as ct  # noqa: E402

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


def recorder(name):
    spec = importlib.util.spec_from_file_location(name, GOLDEN / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


PEERS, RELPLOT = recorder("record_peers"), recorder("record_relplot")
RECORDED = PEERS.load()
SMOOTH = json.loads((GOLDEN / "relplot.json").read_text(encoding="utf-8"))
CASES, SMOOTH_CASES = PEERS.cases() | PEERS.real_cases(), RELPLOT.cases()
NEAR = 1e-6
# Ten thousand rows and more, added up in single precision: the sum of a bin is off by some 2^-24 a step.
LONG, DRIFT = 10_000, 2e-5


def tensors_of(case):
    return torch.tensor(np.array(case.probs)), torch.tensor(np.array(case.targets)).long()


def top(case):
    """Return the top label's confidence and whether it was right; for one event, the predicted class's."""
    p, y = case.probs, case.targets
    if case.kind == "binary":
        return np.maximum(p, 1 - p), ((p > 0.5) == (y == 1)).astype(float)
    return p.max(axis=1), (p.argmax(axis=1) == y).astype(float)


def evaluated(case):
    return (case.probs, case.targets.astype(float)) if case.kind == "binary" else top(case)


def naive(scores, outcomes, bins, norm):
    """Average each bin, then the bins: the definition."""
    gaps, shares = [], []
    for b in np.unique(bins):
        inside = bins == b
        gaps.append(abs(float(np.mean(scores[inside].astype(np.float64))) - float(np.mean(outcomes[inside]))))
        shares.append(inside.mean())
    gaps, shares = np.array(gaps), np.array(shares)
    return {"l1": gaps @ shares, "l2": np.sqrt(gaps**2 @ shares), "max": gaps.max()}[norm]


def left_bins(scores, n_bins):
    edges = (np.arange(n_bins + 1) / n_bins).astype(scores.dtype)
    return np.minimum(np.searchsorted(edges, scores, side="right") - 1, n_bins - 1)


def equal_parts(scores, outcomes, n_bins, norm):
    """Split the sorted rows as the original does, each with the mean outcome of all rows of its score."""
    _, place = np.unique(scores, return_inverse=True)
    shared = (np.bincount(place, outcomes) / np.bincount(place))[place]
    order = np.argsort(scores, kind="stable")
    bins = np.empty(len(scores), int)
    for b, part in enumerate(np.array_split(order, n_bins)):
        bins[part] = b
    return naive(scores, shared, bins, norm)


def reason(scores, n_bins):
    """Say why equal-width bins of torchmetrics may be wrong for these scores."""
    if (scores == 1).any():
        return "1 has a bin of its own"
    place = scores.astype(np.float64) * n_bins
    # Its edges are linspace's, which is not j / M in every place: .2 lies below the third of fifteen edges.
    return "a score on an edge" if (np.abs(place - np.rint(place)) < 1e-5).any() else None


def differs(ours, theirs, n):
    if isinstance(theirs, dict):
        return True
    return not np.allclose(ours, theirs, rtol=0, atol=DRIFT if n >= LONG else NEAR)


def keys(*starts):
    return [key for key in RECORDED if key.startswith(starts)]


def real_or_skip(name):
    if name not in CASES:
        pytest.skip(f"needs the predictions of {name} in ../shared/data")
    return CASES[name]


@functools.cache
def naive_error(name, n_bins, norm):
    """The error in bins of equal width, by the definition."""
    scores, outcomes = evaluated(CASES[name])
    return naive(scores, outcomes, left_bins(scores, n_bins), norm)


@pytest.mark.parametrize("key", keys("torchmetrics/", "torch_uncertainty/calibration_error/"))
def test_equal_width_bins(key):
    *_, kind, norm, n_bins = key.split("/")
    agreed, reasons = 0, set()
    for name, theirs in RECORDED[key].items():
        if name not in CASES:
            continue  # the real ones, without the data beside the repository
        case = CASES[name]
        classes = None if kind == "binary" else case.probs.shape[1]
        metric = ct.CalibrationError(kind, num_bins=int(n_bins), norm=norm, num_classes=classes)
        ours = metric(*tensors_of(case)).item()
        scores, _ = evaluated(case)
        assert ours == pytest.approx(naive_error(name, int(n_bins), norm), abs=NEAR), name
        if differs(ours, theirs, len(scores)):
            reasons.add(reason(scores, int(n_bins)))
            assert None not in reasons, name
        else:
            agreed += 1
    assert agreed >= 10
    assert "1 has a bin of its own" in reasons  # the defect is among the cases


@pytest.mark.parametrize("key", keys("torch_uncertainty/adaptive/"))
def test_adaptive_bins(key):
    *_, kind, norm, n_bins = key.split("/")
    agreed, reasons = 0, set()
    for name, theirs in RECORDED[key].items():
        if name not in CASES:
            continue
        case = CASES[name]
        classes = None if kind == "binary" else case.probs.shape[1]
        metric = ct.CalibrationError(kind, adaptive=True, num_bins=int(n_bins), norm=norm, num_classes=classes)
        ours = metric(*tensors_of(case)).item()
        scores, outcomes = top(case)
        assert ours == pytest.approx(equal_parts(scores, outcomes, int(n_bins), norm), abs=NEAR), name
        if differs(ours, theirs, len(scores)):
            few, tied = len(scores) < int(n_bins), len(np.unique(scores)) < len(scores)
            assert few or tied, name
            reasons.add("fewer rows than bins" if few else "ties in row order")
        else:
            agreed += 1
    assert agreed >= 8
    assert reasons == {"fewer rows than bins", "ties in row order"}


@functools.cache
def naive_class_errors(name, norm):
    """Each class's error in fifteen bins, by the definition."""
    probs, targets = CASES[name].probs, CASES[name].targets
    return np.array(
        [
            naive(probs[:, k], (targets == k).astype(float), left_bins(probs[:, k], 15), norm)
            for k in range(probs.shape[1])
        ]
    )


@pytest.mark.parametrize("key", keys("torch_uncertainty/classwise/"))
@pytest.mark.slow
def test_classwise(key):
    *_, norm, reduction = key.split("/")
    agreed = 0
    for name, theirs in RECORDED[key].items():
        if name not in CASES or CASES[name].kind == "binary":
            continue
        case = CASES[name]
        n_classes = case.probs.shape[1]
        metric = ct.ClasswiseCalibrationError(n_classes, 15, norm, reduction)
        ours = metric(*tensors_of(case)).double().numpy()
        errors = naive_class_errors(name, norm)
        expected = {"mean": errors.mean(), "sum": errors.sum(), "none": errors}[reduction]
        np.testing.assert_allclose(ours, expected, rtol=NEAR, atol=NEAR, err_msg=name)
        theirs = theirs if isinstance(theirs, dict) else np.array(theirs)
        if differs(ours, theirs, len(case.probs) * (n_classes if reduction == "sum" else 1)):
            perfect = norm == "l2" and isinstance(theirs, dict)  # an integer 0 for a perfect class cannot be averaged
            assert perfect or any(reason(case.probs[:, k], 15) for k in range(n_classes)), name
        else:
            agreed += 1
    assert agreed >= 10


@pytest.mark.parametrize(("key", "make"), [("brier", ct.BrierScore), ("nll", ct.NegativeLogLikelihood)])
def test_proper_scores(key, make):
    found = RECORDED[f"torch_uncertainty/{key}"]
    assert len(found) >= 40
    for name, theirs in found.items():
        if name in CASES:
            ours = make()(*tensors_of(CASES[name])).item()
            assert ours == pytest.approx(theirs, rel=DRIFT, abs=NEAR), name


@pytest.mark.parametrize("key", keys("torch_uncertainty/smooth/"))
@pytest.mark.slow
def test_smooth_is_near_torch_uncertaintys(key):
    """TorchUncertainty takes int(10 / h) points where relplot rounds, odd grids where relplot's may be even.

    Ours are relplot's, to six figures: the tests below.
    """
    *_, kernel, h = key.split("/") if key.count("/") == 3 else (*key.split("/"), None)
    near = 0
    for name, theirs in RECORDED[key].items():
        if name not in CASES:
            continue
        metric = ct.SmoothCalibrationError(kernel, bandwidth=float(h) if h else "auto")
        ours = metric(*tensors_of(CASES[name])).item()
        if isinstance(theirs, dict):
            assert name.endswith("f64")  # double precision raises there
            assert 0 <= ours <= 1
            continue
        value = theirs if h else theirs[0]
        assert ours == pytest.approx(value, rel=5e-3, abs=2e-5), name
        assert h or metric.final_bandwidth == pytest.approx(theirs[1], abs=2 / 1024)
        near += ours == pytest.approx(value, rel=1e-5, abs=1e-7)
    assert near >= 20


# ---------------------------------------------------------------- relplot, to six figures


def smooth_of(scores, outcomes, kernel, precision, **options):
    metric = ct.SmoothCalibrationError(kernel, notion="positive", logits=False, **options)
    rounded = torch.tensor(RELPLOT.rounded(scores, precision))  # exact in that precision
    metric.update(rounded.to(getattr(torch, precision)), torch.tensor(outcomes))
    return metric.compute().item(), metric.final_bandwidth


@pytest.mark.covering
@pytest.mark.parametrize("kernel", RELPLOT.KERNELS)
@pytest.mark.parametrize("name", SMOOTH_CASES)
def test_smooth_is_relplots(name, kernel):
    scores, outcomes = SMOOTH_CASES[name]
    recorded = SMOOTH["cases"][name][kernel]
    value, bandwidth = smooth_of(scores, outcomes, kernel, "float64")
    assert value == pytest.approx(recorded["auto"][0], rel=1e-6, abs=1e-12)
    assert bandwidth == recorded["auto"][1]
    for h, expected in zip(RELPLOT.BANDWIDTHS, recorded["fixed"], strict=True):
        value, bandwidth = smooth_of(scores, outcomes, kernel, "float64", bandwidth=h)
        assert value == pytest.approx(expected, rel=1e-6, abs=1e-12)
        assert bandwidth == h


@pytest.mark.covering
@pytest.mark.parametrize("kernel", RELPLOT.KERNELS)
@pytest.mark.parametrize("name", SMOOTH["rounded"])
def test_smooth_of_less_precise_scores_is_relplots_of_the_widened(name, kernel):
    case, precision = name.rsplit(", ", 1)
    scores, outcomes = SMOOTH_CASES[case]
    recorded = SMOOTH["rounded"][name][kernel]
    value, bandwidth = smooth_of(scores, outcomes, kernel, precision)
    assert value == pytest.approx(recorded["auto"][0], rel=1e-6)
    assert bandwidth == recorded["auto"][1]
    for h, expected in zip(RELPLOT.BANDWIDTHS, recorded["fixed"], strict=True):
        assert smooth_of(scores, outcomes, kernel, precision, bandwidth=h)[0] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("kernel", RELPLOT.KERNELS)
@pytest.mark.parametrize("name", RELPLOT.REAL)
def test_smooth_is_relplots_on_real_predictions(name, kernel):
    path = RELPLOT.DATA / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"needs {name}.npz in ../shared/data")
    with np.load(path) as file:
        probs, targets = torch.tensor(file["predictions"]), torch.tensor(file["ground_truth"]).long()
    recorded = SMOOTH["cases"][name][kernel]
    metric = ct.SmoothCalibrationError(kernel)
    for batch in zip(probs.split(999), targets.reshape(-1).split(999), strict=True):
        metric.update(*batch)
    assert metric.compute().item() == pytest.approx(recorded["auto"][0], rel=1e-6)
    assert metric.final_bandwidth == recorded["auto"][1]


# ---------------------------------------------------------------- every defect that was seen


def said(name):
    return RECORDED["defects"][name]


def given(name):
    found = PEERS.defects()[name]
    return {k: torch.tensor(np.array(v)) if isinstance(v, np.ndarray) else v for k, v in found.items()}


def test_confidence_one_is_in_the_last_bin():
    data = given("torchmetrics: confidence 1 has a bin of its own")
    theirs = said("torchmetrics: confidence 1 has a bin of its own")
    for n_bins in (10, 15):
        ours = ct.CalibrationError("binary", num_bins=n_bins)(data["probs"], data["targets"]).item()
        assert ours == pytest.approx(0.475)
        assert theirs[f"l1/{n_bins}"] == pytest.approx(0.525)


def test_half_precision_counts():
    theirs = said("torchmetrics: float16 counts")
    data = given("torchmetrics: float16 counts")
    ours = ct.CalibrationError("binary")(data["probs"].half(), data["targets"]).item()
    assert theirs["float16"] == 0
    assert ours == pytest.approx(theirs["the same in float64"], abs=2.0**-12)  # scores were rounded to half precision


def test_one_nan_is_an_error():
    data = given("torchmetrics: one NaN")
    assert said("torchmetrics: one NaN")["with"] != pytest.approx(said("torchmetrics: one NaN")["without"], rel=0.1)
    with pytest.raises(ValueError, match="preds: expected finite numbers, got nan"):
        ct.CalibrationError("binary")(data["probs"], data["targets"])


def test_batches_of_logits_are_the_whole():
    data = given("torchmetrics: batches of logits")
    theirs = said("torchmetrics: batches of logits")
    assert theirs["batches=1"] != pytest.approx(theirs["batches=2"], rel=0.01)
    logits, targets = data["logits"], data["targets"]
    whole = ct.CalibrationError("binary", logits=True)(logits, targets).item()
    parts = list(zip(logits.tensor_split(2), targets.tensor_split(2), strict=True))
    told = ct.CalibrationError("binary", logits=True)
    for part in parts:
        told.update(*part)
    assert told.compute().item() == pytest.approx(whole, rel=1e-6)
    untold = ct.CalibrationError("binary")
    untold.update(*parts[0])  # all of these lie in [0, 1]
    with pytest.raises(ValueError, match="the first batch looked like probabilities"):
        untold.update(*parts[1])
    assert whole == pytest.approx(theirs["batches=1"], abs=1e-5)


def test_a_perfect_models_l2_is_a_float():
    theirs = said("torchmetrics: l2 of a perfect model")
    assert theirs["dtype"] == "torch.int64"
    data = given("torchmetrics: l2 of a perfect model")
    ours = ct.CalibrationError("binary", norm="l2")(data["probs"], data["targets"])
    assert ours == 0
    assert ours.is_floating_point()


def test_double_precision_in_the_smooth_error():
    data = given("torch_uncertainty: float64 in the smooth error")
    for kernel in ("logit", "reflected"):
        assert said("torch_uncertainty: float64 in the smooth error")[kernel] == {"error": "RuntimeError"}
        double = ct.SmoothCalibrationError(kernel)(data["probs"].double(), data["targets"])
        single = ct.SmoothCalibrationError(kernel)(data["probs"].float(), data["targets"])
        assert double.dtype == torch.float64
        assert double.item() == pytest.approx(single.item(), rel=1e-5)


def test_four_rows_and_fewer_rows_than_bins():
    for name in ("torch_uncertainty: four rows", "torch_uncertainty: fewer rows than bins"):
        data, theirs = given(name), said(name)
        bins = 5 if "four" in name else 10
        assert np.isnan(theirs["adaptive"])
        ours = ct.CalibrationError("binary", adaptive=True, num_bins=bins)(data["probs"], data["targets"]).item()
        scores = torch.maximum(data["probs"], 1 - data["probs"]).numpy()
        outcomes = ((data["probs"] > 0.5).long() == data["targets"]).numpy().astype(float)
        assert ours == pytest.approx(equal_parts(scores, outcomes, bins, "l1"), abs=NEAR)
        uniform = ct.CalibrationError("binary", num_bins=bins)(data["probs"], data["targets"]).item()
        assert uniform == pytest.approx(theirs["uniform"], abs=1e-6)


def test_ties_in_row_order():
    theirs = said("torch_uncertainty: ties in row order")
    assert min(theirs.values()) > 0.03
    data = given("torch_uncertainty: ties in row order")
    for targets in (data["targets"], data["targets"][data["shuffled"]]):
        assert ct.AdaptiveCalibrationError("binary")(data["probs"], targets).item() == pytest.approx(0, abs=1e-7)


def test_rows_are_not_kept():
    assert said("torchmetrics: rows kept")["after each of three batches"] == [100, 200, 300]
    metric = ct.CalibrationError("binary")
    sizes = []
    for _ in range(3):
        metric.update(torch.rand(100), torch.zeros(100, dtype=torch.long))
        sizes.append(sum(state.nbytes for state in metric.metric_state.values()))
    assert len(set(sizes)) == 1


def test_classwise_l2_of_a_perfect_model():
    theirs = said("torch_uncertainty: classwise l2 of a perfect model")
    assert theirs["mean"] == {"error": "RuntimeError"}
    data = given("torch_uncertainty: classwise l2 of a perfect model")
    metric = ct.ClasswiseCalibrationError(data["probs"].shape[1], norm="l2")
    assert metric(data["probs"], data["targets"]) == 0
