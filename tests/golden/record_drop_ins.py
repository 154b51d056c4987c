"""Record how TorchUncertainty's metrics behave, into drop_ins.json beside this file: names, types, errors, figures.

To run it again, make the environment that record_peers.py describes, with matplotlib 3.11.2, and

    peers-env/bin/python tests/golden/record_drop_ins.py

An error is recorded by its class and the built-in classes of errors above it, as a caller may catch any of these.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

HERE = Path(__file__).resolve().parent

#: Each metric, from a module with the names of TorchUncertainty, and whether it takes classes.
METRICS: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "binary": (lambda m: m.CalibrationError("binary", num_bins=4), False),
    "multiclass": (lambda m: m.CalibrationError("multiclass", num_bins=4, num_classes=3), True),
    "adaptive binary": (lambda m: m.AdaptiveCalibrationError("binary", num_bins=4), False),
    "adaptive multiclass": (lambda m: m.AdaptiveCalibrationError("multiclass", num_bins=4, num_classes=3), True),
    "classwise": (lambda m: m.ClasswiseCalibrationError(3, num_bins=4), True),
    "smooth binary": (lambda m: m.SmoothCalibrationError(), False),
    "smooth multiclass": (lambda m: m.SmoothCalibrationError(), True),
    "brier": (lambda m: m.BrierScore(3), True),
    "brier of each row": (lambda m: m.BrierScore(3, reduction="none"), True),
    "nll": (lambda m: m.CategoricalNLL(), True),
    "nll of each row": (lambda m: m.CategoricalNLL("none"), True),
    "aurc": (lambda m: m.AURC(), True),
    "augrc": (lambda m: m.AUGRC(), True),
    "coverage": (lambda m: m.CovAtxRisk(0.5), True),
    "risk": (lambda m: m.RiskAtxCov(0.8), True),
}
TYPES = ("float16", "bfloat16", "float32")


def batches(several: bool) -> list[tuple[Any, Any]]:
    """Return two batches without ties, which every metric takes."""
    import torch

    p = (torch.arange(1, 25) * 7 % 25).float() / 26
    y = (torch.arange(24) * 5 % 7 < 3).long()
    if several:
        p = torch.stack([p / 2, 1 - p, p / 2], 1)
        y = torch.arange(24) * 5 % 7 % 3
    return [(p[:10], y[:10]), (p[10:], y[10:])]


def invalid(several: bool) -> dict[str, tuple[Any, Any]]:
    """Return batches of the wrong shape and with labels out of range."""
    import torch

    (p, y), _ = batches(several)
    wide = y.clone()
    wide[3] = 3
    low = y.clone()
    low[3] = -1
    return {
        "label too large": (p, wide),
        "negative label": (p, low),
        "more labels": (p, torch.cat([y, y])),
        "fewer labels": (p, y[:3]),
        "labels of two axes": (p, torch.stack([y, y])),
        "predictions of another layout": (*batches(not several)[0][:1], y),
        "predictions of three axes": (p[:, None, None].expand(10, 2, 3) if not several else p[:, :, None] + 0, y),
        "columns that are missing": (p[:, :2] if several else p[:7], y),
    }


def errors_of(ask: Callable[[], Any]) -> list[str]:
    """Return the error of a call as its class and the built-in ones above; empty without an error."""
    try:
        ask()
    except Exception as error:
        kinds = [kind for kind in type(error).__mro__ if kind.__module__ == "builtins"]
        return [kind.__name__ for kind in kinds if kind not in (object, BaseException, Exception)]
    return []


def updated(metric: Any, given: list[tuple[Any, Any]]) -> Any:
    """Return the metric after the batches."""
    for batch in given:
        metric.update(*batch)
    return metric


def plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return [plain(part) for part in value] if isinstance(value, (list, tuple)) else value


def attributes(metric: Any) -> dict[str, Any]:
    """Return what users may read of a metric, as the original calls it."""
    from torchmetrics import MeanMetric, Metric

    names = [name for name in dir(metric) if not name.startswith("_") and name not in dir(Metric)]
    own = {name: getattr(metric, name) for name in names if name not in vars(MeanMetric())}
    return {name: plain(value) for name, value in own.items() if not callable(value)}


def figure_of(metric: Any) -> dict[str, Any]:
    """Return size and labels of the figure that a metric draws."""
    figure, axes = metric.plot()
    axes = list(axes) if hasattr(axes, "__len__") else [axes]
    labels = [[part.get_title(), part.get_xlabel(), part.get_ylabel()] for part in axes]
    return {"inches": [round(x, 6) for x in figure.get_size_inches()], "dpi": figure.dpi, "labels": labels}


def behaviour(module: Any, name: str) -> dict[str, Any]:
    """Return what is recorded of a metric."""
    import torch

    make, several = METRICS[name]
    metric = updated(make(module), batches(several))
    value = metric.compute()
    empty = [(p[:0], y[:0]) for p, y in batches(several)]
    found = {
        "attributes": attributes(metric),
        "value": plain(value),
        "without a batch": errors_of(lambda: make(module).compute()),
        "types": {
            kind: str(updated(make(module), [(p.to(dtype), y) for p, y in batches(several)]).compute().dtype)
            for kind, dtype in ((kind, getattr(torch, kind)) for kind in TYPES)
        },
        "invalid": {
            which: errors_of(lambda batch=batch: updated(make(module), [batch]).compute())
            for which, batch in invalid(several).items()
        },
        "empty batches": errors_of(lambda: updated(make(module), empty).compute()),
    }
    if any(part in name for part in ("binary", "multiclass", "au")) and "smooth" not in name:
        found["figure"] = figure_of(metric)
    return found


def main() -> None:
    """Ask TorchUncertainty and write the file."""
    import importlib.metadata

    import matplotlib as mpl
    import record_peers

    mpl.use("agg")
    warnings.simplefilter("ignore")
    calibration, brier, nll = record_peers._load_torch_uncertainty()
    risks = importlib.import_module("torch_uncertainty.metrics.classification.risk_coverage")
    parts = (calibration, brier, nll, risks)
    theirs = SimpleNamespace(
        **{key: value for part in parts for key, value in vars(part).items() if isinstance(value, type)}
    )
    versions = {name: importlib.metadata.version(name) for name in ("torch_uncertainty", "torchmetrics", "torch")}
    out = {"versions": versions, "metrics": {name: behaviour(theirs, name) for name in METRICS}}
    (HERE / "drop_ins.json").write_text(json.dumps(out, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
