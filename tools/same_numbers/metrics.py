"""Cases of the torch metrics: batches, merged states, values, sketches and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torchmetrics import Metric

from same_numbers import public
from same_numbers.inputs import CLASSES, EVENT, LABELS, Data
from same_numbers.public import Public, call
from same_numbers.reports import Cases
from same_numbers.values import attempt

metrics = Public("calibrant.torch")

_CUTS = (1, 200)

_TWO, _THREE = {"task": "binary"}, {"task": "multiclass", "num_classes": 3}
_FEW = {"n_resamples": 20, "rng": 3}
_FUNCTION: tuple[tuple[str, dict[str, Any]], ...] = (
    ("event", {}),
    ("classes", {}),
    ("classes", {"notion": "top-label"}),
)

#: How each metric is made, and the predictions that it takes. A metric that is not named takes no arguments.
_MADE: dict[str, tuple[tuple[str, dict[str, Any]], ...]] = {
    "CalibrationError": (
        ("event", _TWO),
        ("classes", _THREE),
        ("event", {**_TWO, "adaptive": True, "num_bins": 7}),
        ("classes", {**_THREE, "adaptive": True, "norm": "l2"}),
        ("event", {**_TWO, "norm": "l2", "closed": "right", "notion": "positive"}),
        ("classes", {**_THREE, "norm": "max", "notion": "top-label"}),
        ("classes", {**_THREE, "notion": "classwise"}),
        ("classes", {**_THREE, "notion": "classwise", "adaptive": True}),
    ),
    "AdaptiveCalibrationError": (("event", {**_TWO, "num_bins": 7}), ("classes", {**_THREE, "norm": "l2"})),
    "BinaryCalibrationError": (("event", {}), ("event", {"n_bins": 7, "norm": "l2"})),
    "BinaryAdaptiveCalibrationError": (("event", {}), ("event", {"n_bins": 7, "norm": "max"})),
    "MulticlassCalibrationError": (
        ("classes", {"num_classes": 3}),
        ("classes", {"num_classes": 3, "n_bins": 7, "norm": "l2"}),
    ),
    "MulticlassAdaptiveCalibrationError": (
        ("classes", {"num_classes": 3}),
        ("classes", {"num_classes": 3, "n_bins": 7, "norm": "max"}),
    ),
    "ClasswiseCalibrationError": (
        ("classes", {"num_classes": 3}),
        ("classes", {"num_classes": 3, "num_bins": 7, "norm": "l2", "reduction": "sum", "closed": "right"}),
        ("classes", {"num_classes": 3, "reduction": "none"}),
        ("labels", {"num_classes": 3, "notion": "multilabel"}),
    ),
    "SmoothCalibrationError": (
        *_FUNCTION,
        ("event", {"kernel_type": "reflected", "method": "exact"}),
        ("classes", {"kernel_type": "reflected", "bandwidth": 0.05}),
        ("event", {"eps": 0.01, "mesh_pts": 50, "refine_steps": 4}),
    ),
    "IntegratedCalibrationIndex": (*_FUNCTION, ("event", {"span": 0.5})),
    "BrierScore": (
        *_FUNCTION,
        ("classes", {"num_classes": 3, "top_class": True, "reduction": "sum"}),
        ("classes", {"reduction": "none"}),
        ("labels", {"notion": "multilabel"}),
    ),
    "NegativeLogLikelihood": (
        *_FUNCTION,
        ("classes", {"num_classes": 3, "reduction": "sum"}),
        ("event", {"reduction": "none"}),
    ),
    "CategoricalNLL": (*_FUNCTION, ("classes", {"num_classes": 3, "reduction": "sum"})),
    "CovAtxRisk": (("event", {"risk_threshold": 0.3}), ("classes", {"risk_threshold": 0.4})),
    "RiskAtxCov": (("event", {"cov_threshold": 0.3}), ("classes", {"cov_threshold": 0.4})),
    "CalibrationReport": (
        ("event", _FEW),
        ("classes", {**_FEW, "num_bins": 7, "level": 0.9}),
        ("event", {"n_resamples": 0, "notion": "positive"}),
        ("classes", {"level": None}),
    ),
}

#: Metrics whose states are of constant size, or rows alone.
_WITHOUT_SKETCH = ("BrierScore", "CategoricalNLL", "ClasswiseCalibrationError", "NegativeLogLikelihood")

#: Options that every metric takes, or refuses.
_OPTIONS: dict[str, dict[str, Any]] = {
    "": {},
    "double precision": {},
    "logits": {"logits": True},
    "left out": {"ignore_index": -1},
    "unchecked": {"validate_args": False},
    "a sketch": {"state": "sketch"},
}


def cases() -> Cases:
    """Yield the name of each case, and how to make its result."""
    for name in public.documented():
        module, _, last = name.rpartition(".")
        if module == "calibrant.torch" and issubclass(public.resolve(name), Metric):
            made = _MADE.get(last, _FUNCTION)
            for i, (kind, options) in enumerate(made):
                first = kind not in [kind for kind, _ in made[:i]]
                yield (
                    f"metric: {last} {i}, {kind}",
                    lambda n=last, k=kind, o=options, f=first: _each(n, k, o, first=f),
                )
    yield "metric: a collection", _collection
    yield "metric: risks of each coverage", _risks
    yield "layer: a map", _layer


def _risks() -> Any:
    metric = metrics.AURC()
    metric.update(torch.tensor(CLASSES.probs), torch.tensor(CLASSES.targets))
    return call(metric, "partial_compute")


def _layer() -> Any:
    fitted = Public("calibrant").recalibrate(EVENT.probs, EVENT.targets, method="beta", n_resamples=30).fitted()
    layer = metrics.RecalibrationLayer(fitted, logits=False)
    public.note(type(layer))
    return call(layer, "forward", torch.tensor(EVENT.probs, dtype=torch.float32))


def _each(name: str, kind: str, options: dict[str, Any], *, first: bool) -> dict[str, Any]:
    """Return what a metric says; the first of a kind with each of the options that all take, and its figure."""
    metric = getattr(metrics, name)
    results = {}
    for said, more in _OPTIONS.items():
        if ("state" in more and name in _WITHOUT_SKETCH) or not (first or said in ("", "left out", "a sketch")):
            continue
        make = partial(metric, **options, **more)
        results[said] = attempt(partial(_followed, make, kind, said, drawn=first and said == ""))
    return results


def _followed(make: Callable[[], Any], kind: str, said: str, *, drawn: bool) -> dict[str, Any]:
    """Return what a metric says of each batch, of all, after a merge, and after a reset."""
    whole, by_batch, parts = make(), make(), (make(), make())
    values = []
    for i, (preds, target) in enumerate(_batches(kind, said)):
        call(whole, "update", preds, target)
        call(parts[i % 2], "update", preds, target)
        values.append(by_batch(preds, target) if i else attempt(lambda p=preds, t=target: by_batch(p, t)))
    parts[0].merge_state(parts[1])
    found = {
        "value": whole.compute(),
        "error bound": getattr(whole, "error_bound", None),
        "of batches": values,
        "after the batches": by_batch.compute(),
        "merged": parts[0].compute(),
    }
    if hasattr(whole, "sketch"):
        found["sketch"] = attempt(lambda: call(whole, "sketch"))
    if drawn:
        found["figure"] = attempt(lambda: call(whole, "plot")[0])
    whole.reset()
    for preds, target in list(_batches(kind, said))[:2]:
        whole.update(probs=preds, targets=target)
    return {**found, "after a reset": whole.compute()}


def _batches(kind: str, said: str) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Return the batches of predictions, of one row and more."""
    data: Data = {"event": EVENT, "classes": CLASSES, "labels": LABELS}[kind]
    probs, target = data.probs, data.targets.copy()
    if said == "logits":
        probs = np.log(probs) + 1 if kind == "classes" else np.log(probs / (1 - probs))
    if said == "left out":
        target[::7] = -1
    dtype = torch.float64 if said == "double precision" else torch.float32
    preds, targets = torch.tensor(probs, dtype=dtype), torch.tensor(target)
    return zip(torch.tensor_split(preds, _CUTS), torch.tensor_split(targets, _CUTS), strict=True)


def _collection() -> Any:
    """Return what metrics say that share their states."""
    from torchmetrics import MetricCollection

    together = MetricCollection(
        {
            "ece": metrics.CalibrationError("binary"),
            "ace": metrics.AdaptiveCalibrationError("binary"),
            "auroc": metrics.AUROC(),
            "slope": metrics.CalibrationSlope(),
            "brier": metrics.BrierScore(),
            "nll": metrics.NegativeLogLikelihood(),
        }
    )
    for preds, target in _batches("event", ""):
        together.update(preds, target)
    return together.compute()
