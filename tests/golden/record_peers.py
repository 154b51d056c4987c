"""Record what other packages say of the cases below, into peers.json beside this file.

To run it again, in an environment of its own (none of them is a dependency of the tests), with Python 3.11:

    python -m venv peers-env
    peers-env/bin/pip install torch==2.13.0 torchmetrics==1.9.0 bensemble==0.2.2 netcal==1.4.0
    peers-env/bin/pip install scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1 pandas==3.1.1 seaborn==0.13.2
    peers-env/bin/pip install --no-deps torch-uncertainty==0.13.0 pyhealth==1.1.6
    peers-env/bin/python tests/golden/record_peers.py

torch-uncertainty and pyhealth import much that their metrics do not need: only the files needed are loaded.

The cases are made from seeds, with uniform numbers and arithmetic only, so that recorder and test see the same ones;
the two real ones are read from ../shared/data (beside the repository) and are left out of the recording if absent.

In peers.json a key is "package/what/options": a table of case -> value, where a NaN is null, an infinity is the text
"inf" and an exception is {"error": its name}. `load` reads it back. Under "fed" stands what each package was given.
Where scores are tied, equal-mass bins that split the tie depend on how this machine's sort orders the tied rows
(torch's and pandas' default sorts are not stable): "torch_uncertainty/adaptive" and "pyhealth/.../adaptive" of such
cases are what was seen once, not what the package will say elsewhere.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[2] / "shared" / "data"
REAL = {"cifar10": "wideresnet-16-4-cifar-10", "cifar100": "densenet-bc-100-cifar-100"}
PRECISIONS = {"f32": np.float32, "f64": np.float64}
NORMS = ("l1", "l2", "max")
PACKAGES = (
    "torch",
    "torchmetrics",
    "torch-uncertainty",
    "bensemble",
    "pyhealth",
    "netcal",
    "scikit-learn",
    "numpy",
    "scipy",
    "pandas",
)
FED = {
    "torchmetrics": "binary: probs, targets; multiclass: probs (N, C), targets (N,)",
    "torch_uncertainty": "as torchmetrics; smooth: [value, final_bandwidth]; brier: num_classes = 1 where binary",
    "bensemble": "multiclass only: probs (N, C), targets (N,)",
    "pyhealth": "multiclass: probs (N, C), targets as (N,) indices or (N, C) one-hot",
    "pyhealth/ece_confidence_binary": "it judges column 0 of both arrays; columns=(p,1-p): labels (y,1-y), "
    "so y = 1 is judged; columns=(1-p,p): labels (1-y,y), so y = 0 is judged",
    "netcal": "binary: probs, targets; multiclass: a row's highest probability and whether that class was right",
    "sklearn": "probs, targets, all classes as labels; calibration_curve: [prob_true, prob_pred] without empty bins",
}


@dataclass(frozen=True)
class Case:
    """Probabilities (N,) of y = 1 or (N, C), their int64 targets, and which of the two it is."""

    probs: np.ndarray
    targets: np.ndarray
    kind: str


def _normalised(weights: np.ndarray) -> np.ndarray:
    # Column after column: the order of the sum is then no choice of numpy's, which could differ between machines.
    return weights / sum(weights.T)[:, None]


def _drawn(probs: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    # Labels of an over-confident model: the truth lies between what it says and indifference.
    n, c = probs.shape
    targets, reached = np.zeros(n, dtype=np.int64), np.zeros(n)
    for k in range(c - 1):
        reached = reached + (0.6 * probs[:, k] + 0.4 / c)
        targets += uniform >= reached
    return targets


def _binary() -> Iterator[tuple[str, Any, Any]]:
    for n in (50, 1_000, 20_000):
        rng = np.random.default_rng(n)
        p, u = rng.random(n), rng.random(n)
        yield f"random {n}", p, u < 0.25 + 0.5 * p
    rng = np.random.default_rng(7)
    p, u = rng.random(1_000), rng.random(1_000)
    yield "calibrated", p, u < p
    yield "tenths", np.round(p, 1), u < p * p
    yield "clipped", np.minimum(np.maximum(1.5 * p - 0.25, 0), 1), u < p
    yield "zeros and ones", np.round(p[:200]), (u[:200] < 0.1) != (p[:200] >= 0.5)
    yield "constant", np.full(40, 0.3), u[:40] < 0.5
    yield "only zeros", p[:60], np.zeros(60)
    yield "prime rows", p[:47], u[:47] < p[:47] * p[:47]
    for m in (10, 15, 20):
        # A row on every edge, and amid every bin enough to outweigh it. Neighbouring bins err to opposite sides, so
        # that a row counted on the wrong side of an edge changes the sum of absolute gaps.
        half = np.repeat(np.arange(2 * m + 1), np.where(np.arange(2 * m + 1) % 2, 15, 1))
        yield f"edges {m}", half / (2 * m), half % 4 < 2
    yield "confidence one", [0.95, 1.0], [1, 0]
    yield "three rows", [0.2, 0.55, 0.9], [0, 0, 1]
    yield "one row", [0.3], [1]


def _multiclass() -> Iterator[tuple[str, Any, Any]]:
    for n in (50, 1_000, 20_000):
        for c in (2, 3, 10):
            rng = np.random.default_rng([n, c])
            raw, u = rng.random((n, c)), rng.random(n)
            probs = _normalised(raw * raw * raw)
            yield f"random {n}x{c}", probs, _drawn(probs, u)
    rng = np.random.default_rng(11)
    raw, u = rng.random((1_000, 4)), rng.random(1_000)
    probs = _normalised(raw * raw * raw)
    one_hot = np.eye(4)[probs.argmax(axis=1)]
    targets = _drawn(probs, u)
    yield "some certain", np.where(u[::-1, None] < 0.3, one_hot, probs), targets
    yield "all certain", one_hot[:200], targets[:200]
    yield "constant", np.tile([0.125, 0.5, 0.25, 0.125], (40, 1)), targets[:40]
    yield "indifferent", np.full((40, 4), 0.25), targets[:40]
    yield "class absent", probs[:200], targets[:200] % 3
    yield "prime rows", probs[:47], targets[:47]
    cuts = np.sort(np.floor(11 * raw[:, :2]), axis=1)
    tenths = np.stack([cuts[:, 0], cuts[:, 1] - cuts[:, 0], 10 - cuts[:, 1]], axis=1) / 10
    yield "tenths", tenths, _drawn(tenths, u)
    for m in (10, 15, 20):
        # The same for the top label (here class 1), over the confidences that three classes leave it.
        half = np.arange(2 * m // 3 + 1, 2 * m + 1)
        half = np.repeat(half, np.where(half % 2, 15, 1))
        rows = np.stack([2 * m - half, 2 * half, 2 * m - half], axis=1) / (4 * m)
        yield f"edges {m}", rows, np.where(half % 4 < 2, 1, np.arange(len(half)) % 2 * 2)
    yield "confidence one", [[0.05, 0.95], [0.0, 1.0]], [1, 0]
    yield "three rows", [[0.2, 0.5, 0.3], [0.7, 0.2, 0.1], [0.05, 0.05, 0.9]], [1, 1, 2]
    yield "one row", [[0.6, 0.3, 0.1]], [1]


def cases() -> dict[str, Case]:
    """Return name -> case, every one in float32 and in float64."""
    found = {}
    for kind, made in (("binary", _binary()), ("multiclass", _multiclass())):
        for name, probs, targets in made:
            for precision, dtype in PRECISIONS.items():
                case = Case(np.asarray(probs, dtype=dtype), np.asarray(targets, dtype=np.int64), kind)
                found[f"{kind} {name} {precision}"] = case
    return found


def real_cases() -> dict[str, Case]:
    """Return name -> case of the real predictions, without those whose file is absent."""
    found = {}
    for name, file_name in REAL.items():
        path = DATA / f"{file_name}.npz"
        if path.exists():
            with np.load(path) as file:
                found[name] = Case(file["predictions"], file["ground_truth"].astype(np.int64), "multiclass")
    return found


def defects() -> dict[str, dict[str, Any]]:
    """Return name -> inputs on which a package errs; what it says of them is under "defects" in peers.json."""
    rng = np.random.default_rng(70_000)
    p, u = rng.random(70_000), rng.random(70_000)
    one_nan = p[:1_000].astype(np.float32)
    one_nan[17] = np.nan
    # The first half looks like probabilities, the whole does not.
    logits = np.concatenate([p[:500], 6 * p[500:1_000] - 3]).astype(np.float32)
    tied = np.arange(1_000) < 700
    three = np.stack([p[:50] / 2, (1 - p[:50]) / 2, np.full(50, 0.5)], axis=1)
    return {
        "torchmetrics: confidence 1 has a bin of its own": {
            "probs": np.float32([0.95, 1]),
            "targets": np.array([1, 0]),
        },
        # The true error is E|p - p^2| = 1/6.
        "torchmetrics: float16 counts": {"probs": p.astype(np.float16), "targets": (u < p * p).astype(np.int64)},
        "torchmetrics: one NaN": {"probs": one_nan, "targets": (u[:1_000] < p[:1_000]).astype(np.int64)},
        "torchmetrics: batches of logits": {"logits": logits, "targets": (u[:1_000] < 0.5).astype(np.int64)},
        "torchmetrics: l2 of a perfect model": {"probs": np.float32([0, 1]), "targets": np.array([0, 1])},
        "torchmetrics: rows kept": {
            "probs": p[:300].astype(np.float32),
            "targets": (u[:300] < p[:300]).astype(np.int64),
        },
        "torch_uncertainty: float64 in the smooth error": {
            "probs": p[:50],
            "targets": (u[:50] < p[:50]).astype(np.int64),
        },
        "torch_uncertainty: fewer rows than bins": {
            "probs": np.float32([0.95, 0.85, 0.15, 0.05]),
            "targets": np.array([1, 1, 0, 0]),
        },
        "torch_uncertainty: four rows": {"probs": np.float32([0.9, 0.8, 0.3, 0.2]), "targets": np.array([1, 1, 0, 0])},
        # Calibrated: .7 is said 1,000 times and is right 700 times, the right ones first or in the order of `shuffled`.
        "torch_uncertainty: ties in row order": {
            "probs": np.full(1_000, 0.7, dtype=np.float32),
            "targets": tied.astype(np.int64),
            "shuffled": np.argsort(u[:1_000]),
        },
        "torch_uncertainty: classwise l2 of a perfect model": {
            "probs": np.eye(3, dtype=np.float32),
            "targets": np.arange(3),
        },
        "pyhealth: one-dimensional labels": {
            "probs": np.stack([1 - p[:50], p[:50]], axis=1),
            "targets": tied[650:700] * 1,
        },
        "pyhealth: the documented example": {
            "probs": np.array([[0.2, 0.2, 0.6], [0.2, 0.31, 0.49], [0.1, 0.1, 0.8]]),
            "targets": np.array([2, 1, 2]),
        },
        # As many rows as classes: the comparison of one-hot labels with indices broadcasts.
        "pyhealth: one-hot to brier_top1": {
            "probs": np.array([[0.8, 0.2], [0.3, 0.7]]),
            "targets": np.eye(2, dtype=int),
        },
        "bensemble: half precision": {
            "probs": np.float16([[1, 0], [0, 1], [0.25, 0.75], [0.5, 0.5]]),
            "targets": np.array([1, 1, 0, 0]),
        },
        # A top score of 0 is in no bin, and only a row of zeros has one; it still counts as a row.
        "bensemble: rows of zeros": {"probs": np.float32([[0, 0], [0, 0], [0.2, 0.8]]), "targets": np.array([0, 1, 1])},
        # A third of the rows at .5: quantiles, and so edges, coincide.
        "netcal: equal-mass ties": {
            "probs": np.where(u[:1_000] < 0.3, 0.5, p[:1_000]),
            "targets": (u[:1_000] < p[:1_000]).astype(np.int64),
        },
        # The float32 that prints as .9 is counted in one bin and averaged in another, and so is lost.
        "netcal: float32 on an edge": {"probs": np.float32([0.9]), "targets": np.array([0])},
        # Three classes, of which the labels show two.
        "netcal: the task from the labels": {"probs": three, "targets": (u[:50] < 0.5).astype(np.int64)},
        "netcal: logits": {"logits": np.array([-5.0, -2.0, 2.0, 5.0]), "targets": np.array([0, 0, 1, 1])},
        # p = y = 0 throughout: perfect, and matched with "was the prediction right" it is the worst there is.
        "netcal: one-dimensional MMCE": {"probs": np.zeros(20), "targets": np.zeros(20, dtype=np.int64)},
        "sklearn: NaN": {
            "probs": np.array([0.1, 0.2, np.nan, 0.7, 0.9]),
            "targets": np.array([0, 0, 1, 1, 1]),
        },
    }


def load() -> dict[str, Any]:
    """Return the recording with its NaN and infinities as floats."""

    def back(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: back(part) for key, part in value.items()}
        if isinstance(value, list):
            return [back(part) for part in value]
        return math.nan if value is None else math.inf if value == "inf" else value

    return back(json.loads((HERE / "peers.json").read_text(encoding="utf-8")))


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def _said(ask: Callable[..., Any], *args: Any, **options: Any) -> Any:
    try:
        return _plain(ask(*args, **options))
    except Exception as error:
        return {"error": type(error).__name__}


@functools.cache
def _load_torch_uncertainty() -> tuple[Any, Any, Any]:
    """Return its modules calibration, brier_score and categorical_nll, without its own packages' imports."""
    import importlib
    import importlib.util
    import sys
    import types

    folder = Path(importlib.util.find_spec("torch_uncertainty").origin).parent
    parent = "torch_uncertainty"
    for child in (None, "metrics", "classification"):
        if child is not None:
            parent, folder = f"{parent}.{child}", folder / child
        package = types.ModuleType(parent)
        package.__path__ = [str(folder)]
        sys.modules[parent] = package
    names = ("calibration", "brier_score", "categorical_nll")
    return tuple(importlib.import_module(f"{parent}.{name}") for name in names)


@functools.cache
def _load_pyhealth() -> Any:
    import importlib.util

    path = Path(importlib.util.find_spec("pyhealth").origin).parent / "metrics" / "calibration.py"
    spec = importlib.util.spec_from_file_location("pyhealth_calibration", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _torch_answers(case: Case) -> Iterator[tuple[str, Any]]:
    import torch
    from torchmetrics.classification import BinaryCalibrationError, MulticlassCalibrationError

    calibration, brier, nll = _load_torch_uncertainty()
    probs, targets = torch.from_numpy(case.probs), torch.from_numpy(case.targets)
    several = case.kind == "multiclass"
    c = probs.shape[1] if several else 1
    sized = {"num_classes": c} if several else {}

    def ask(metric: Callable[..., Any], **options: Any) -> Any:
        def value() -> Any:
            made = metric(**options)
            made.update(probs, targets)
            return made.compute()

        return _said(value)

    def smooth(kernel: str) -> Any:
        made = calibration.SmoothCalibrationError(kernel_type=kernel)
        made.update(probs, targets)
        return [made.compute().item(), made.final_bandwidth]

    theirs = MulticlassCalibrationError if several else BinaryCalibrationError
    ours = {"task": case.kind, **sized}
    for norm in NORMS:
        for bins in (10, 15):
            yield f"torchmetrics/{case.kind}/{norm}/{bins}", ask(theirs, n_bins=bins, norm=norm, **sized)
            answer = ask(calibration.CalibrationError, adaptive=True, num_bins=bins, norm=norm, **ours)
            yield f"torch_uncertainty/adaptive/{case.kind}/{norm}/{bins}", answer
        answer = ask(calibration.CalibrationError, adaptive=False, num_bins=10, norm=norm, **ours)
        yield f"torch_uncertainty/calibration_error/{case.kind}/{norm}/10", answer
    for kernel in ("logit", "reflected"):
        yield f"torch_uncertainty/smooth/{kernel}", _said(smooth, kernel)
        for h in (0.1, 0.03):
            answer = ask(calibration.SmoothCalibrationError, kernel_type=kernel, bandwidth=h)
            yield f"torch_uncertainty/smooth/{kernel}/{h}", answer
    yield "torch_uncertainty/brier", ask(brier.BrierScore, num_classes=c)
    yield "torch_uncertainty/nll", ask(nll.CategoricalNLL)
    if not several:
        return
    for norm in NORMS:
        for reduction in ("mean", "sum", "none"):
            metric = calibration.ClasswiseCalibrationError
            answer = ask(metric, num_classes=c, num_bins=15, norm=norm, reduction=reduction)
            yield f"torch_uncertainty/classwise/{norm}/{reduction}", answer


def _bensemble_answers(case: Case) -> Iterator[tuple[str, Any]]:
    import torch
    from bensemble import metrics

    if case.kind == "binary":
        return
    given = torch.from_numpy(case.probs), torch.from_numpy(case.targets)
    yield "bensemble/brier_score", _said(metrics.brier_score, *given)
    yield "bensemble/negative_log_likelihood", _said(metrics.negative_log_likelihood, *given)
    for bins in (10, 15):
        yield f"bensemble/expected_calibration_error/{bins}", _said(metrics.expected_calibration_error, *given, bins)
    yield "bensemble/reliability_diagram/15", _said(metrics.reliability_diagram, *given, 15)


def _pyhealth_answers(case: Case) -> Iterator[tuple[str, Any]]:
    pyhealth = _load_pyhealth()
    p, y = case.probs, case.targets
    binnings = [(bins, adaptive) for bins in (10, 20) for adaptive in (False, True)]
    if case.kind == "binary":
        orders = {
            "columns=(p,1-p)": [np.stack([x, 1 - x], axis=1) for x in (p, y)],
            "columns=(1-p,p)": [np.stack([1 - x, x], axis=1) for x in (p, y)],
        }
        for order, (probs, labels) in orders.items():
            for bins, adaptive in binnings:
                answer = _said(pyhealth.ece_confidence_binary, probs, labels, bins=bins, adaptive=adaptive)
                yield f"pyhealth/ece_confidence_binary/{bins}/{_binning(adaptive)}/{order}", answer
        return
    for form, labels in {"indices": y, "one-hot": np.eye(p.shape[1])[y]}.items():
        yield f"pyhealth/brier_top1/{form}", _said(pyhealth.brier_top1, p, labels)
        for bins, adaptive in binnings:
            options = {"bins": bins, "adaptive": adaptive}
            answer = _said(pyhealth.ece_confidence_multiclass, p, labels, **options)
            yield f"pyhealth/ece_confidence_multiclass/{bins}/{_binning(adaptive)}/{form}", answer
            for threshold in (0, 0.1):
                answer = _said(pyhealth.ece_classwise, p, labels, threshold=threshold, **options)
                yield f"pyhealth/ece_classwise/{bins}/{_binning(adaptive)}/{threshold}/{form}", answer


def _binning(adaptive: bool) -> str:
    return "adaptive" if adaptive else "uniform"


def _netcal_answers(case: Case) -> Iterator[tuple[str, Any]]:
    from netcal.metrics import ECE, MCE

    p, y = case.probs, case.targets
    if case.kind == "multiclass":
        p, y = p.max(axis=1), (p.argmax(axis=1) == y).astype(np.int64)
    for bins in (10, 15):
        yield f"netcal/ece/{bins}", _said(ECE(bins).measure, p, y)
        yield f"netcal/mce/{bins}", _said(MCE(bins).measure, p, y)


def _sklearn_answers(case: Case) -> Iterator[tuple[str, Any]]:
    from sklearn.calibration import calibration_curve
    from sklearn.metrics import brier_score_loss, log_loss

    p, y = case.probs, case.targets
    if case.kind == "binary":
        for bins in (10, 15):
            yield f"sklearn/calibration_curve/{bins}", _said(calibration_curve, y, p, n_bins=bins, pos_label=1)
        yield "sklearn/brier_score_loss", _said(brier_score_loss, y, p, pos_label=1, labels=[0, 1])
        yield "sklearn/log_loss", _said(log_loss, y, p, labels=[0, 1])
    else:
        classes = list(range(p.shape[1]))
        yield "sklearn/brier_score_loss", _said(brier_score_loss, y, p, labels=classes)
        yield "sklearn/log_loss", _said(log_loss, y, p, labels=classes)


def _defect_answers() -> dict[str, Any]:
    """Return name -> label -> what the package says of the defect's inputs."""
    import torch
    from bensemble import metrics
    from netcal.metrics import ECE, MMCE
    from sklearn.calibration import calibration_curve
    from torchmetrics.classification import BinaryCalibrationError

    calibration = _load_torch_uncertainty()[0]
    pyhealth = _load_pyhealth()
    inputs = defects()

    def tensors(name: str) -> list[Any]:
        return [torch.from_numpy(np.asarray(part)) for part in inputs[name].values()]

    def arrays(name: str) -> list[Any]:
        return list(inputs[name].values())

    def error(probs: Any, targets: Any, n_bins: int = 10, norm: str = "l1", batches: int = 1) -> Any:
        metric = BinaryCalibrationError(n_bins=n_bins, norm=norm)
        for some, outcomes in zip(probs.tensor_split(batches), targets.tensor_split(batches), strict=True):
            metric.update(some, outcomes)
        return metric.compute()

    def kept(probs: Any, targets: Any) -> list[int]:
        metric, sizes = BinaryCalibrationError(n_bins=10), []
        for some, outcomes in zip(probs.tensor_split(3), targets.tensor_split(3), strict=True):
            metric.update(some, outcomes)
            sizes.append(sum(len(part) for part in metric.confidences))
        return sizes

    def asked(metric: Any, *given: Any) -> Any:
        metric.update(*given)
        return metric.compute()

    def uncertain(adaptive: bool, num_bins: int) -> Any:
        return calibration.CalibrationError(task="binary", adaptive=adaptive, num_bins=num_bins)

    found: dict[str, Any] = {}

    name = "torchmetrics: confidence 1 has a bin of its own"
    found[name] = {f"l1/{bins}": _said(error, *tensors(name), bins) for bins in (10, 15)}
    name = "torchmetrics: float16 counts"
    p, y = tensors(name)
    found[name] = {"float16": _said(error, p, y), "the same in float64": _said(error, p.double(), y)}
    name = "torchmetrics: one NaN"
    p, y = tensors(name)
    whole = ~p.isnan()
    found[name] = {"with": _said(error, p, y), "without": _said(error, p[whole], y[whole])}
    name = "torchmetrics: batches of logits"
    found[name] = {f"batches={k}": _said(error, *tensors(name), batches=k) for k in (1, 2)}
    name = "torchmetrics: l2 of a perfect model"
    answer = error(*tensors(name), norm="l2")
    found[name] = {"value": _plain(answer), "dtype": str(answer.dtype)}
    name = "torchmetrics: rows kept"
    found[name] = {"after each of three batches": _said(kept, *tensors(name))}

    name = "torch_uncertainty: float64 in the smooth error"
    found[name] = {
        k: _said(asked, calibration.SmoothCalibrationError(k), *tensors(name)) for k in ("logit", "reflected")
    }
    for name in ("torch_uncertainty: fewer rows than bins", "torch_uncertainty: four rows"):
        found[name] = {_binning(a): _said(asked, uncertain(a, 5), *tensors(name)) for a in (False, True)}
    name = "torch_uncertainty: ties in row order"
    p, y, order = tensors(name)
    found[name] = {
        "sorted": _said(asked, uncertain(True, 10), p, y),
        "shuffled": _said(asked, uncertain(True, 10), p[order], y[order]),
    }
    name = "torch_uncertainty: classwise l2 of a perfect model"
    found[name] = {
        reduction: _said(
            asked, calibration.ClasswiseCalibrationError(3, norm="l2", reduction=reduction), *tensors(name)
        )
        for reduction in ("mean", "sum", "none")
    }

    name = "pyhealth: one-dimensional labels"
    found[name] = {"ece_confidence_binary": _said(pyhealth.ece_confidence_binary, *arrays(name))}
    name = "pyhealth: the documented example"
    found[name] = {"ece_confidence_multiclass/2": _said(pyhealth.ece_confidence_multiclass, *arrays(name), bins=2)}
    name = "pyhealth: one-hot to brier_top1"
    p, y = arrays(name)
    found[name] = {
        "one-hot": _said(pyhealth.brier_top1, p, y),
        "indices": _said(pyhealth.brier_top1, p, y.argmax(axis=1)),
    }

    functions = (metrics.brier_score, metrics.expected_calibration_error, metrics.negative_log_likelihood)
    for name in ("bensemble: half precision", "bensemble: rows of zeros"):
        found[name] = {ask.__name__: _said(ask, *tensors(name)) for ask in functions}

    name = "netcal: equal-mass ties"
    found[name] = {"ECE/10": _said(ECE(10, equal_intervals=False).measure, *arrays(name))}
    for name in ("netcal: float32 on an edge", "netcal: the task from the labels", "netcal: logits"):
        found[name] = {"ECE/10": _said(ECE(10).measure, *arrays(name))}
    name = "netcal: one-dimensional MMCE"
    found[name] = {"MMCE": _said(MMCE().measure, *arrays(name))}

    name = "sklearn: NaN"
    p, y = arrays(name)
    found[name] = {"calibration_curve/2": _said(calibration_curve, y, p, n_bins=2)}
    return found


def _lines(recorded: dict[str, Any]) -> str:
    # A line per case: indented lists would put every number of a diagram on a line of its own.
    tables = []
    for key in sorted(recorded):
        rows = [f"  {json.dumps(name)}: {json.dumps(recorded[key][name])}" for name in sorted(recorded[key])]
        tables.append(f" {json.dumps(key)}: {{\n" + ",\n".join(rows) + "\n }")
    return "{\n" + ",\n".join(tables) + "\n}\n"


def main() -> None:
    """Ask everyone and write the file."""
    import importlib.metadata
    import logging
    import warnings

    import torch

    warnings.simplefilter("ignore")
    logging.disable()
    # Sums in float32 should not depend on how many cores this machine has.
    torch.set_num_threads(1)
    recorded: dict[str, Any] = {}
    askers = (_torch_answers, _bensemble_answers, _pyhealth_answers, _netcal_answers, _sklearn_answers)
    for name, case in {**cases(), **real_cases()}.items():
        for answers in askers:
            for key, value in answers(case):
                recorded.setdefault(key, {})[name] = value
    recorded["defects"] = _defect_answers()
    recorded["fed"] = FED
    recorded["versions"] = {name: importlib.metadata.version(name) for name in PACKAGES}
    (HERE / "peers.json").write_text(_lines(recorded), encoding="utf-8")


if __name__ == "__main__":
    main()
