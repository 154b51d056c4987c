"""TorchUncertainty's own routines with one import changed: its calibration metrics are those of calibrant.torch.

Marked: run it with ``pytest -m examples``. What TorchUncertainty imports and these routines do not use is replaced
where it is not installed. Tolerance: its metrics add in single precision, so values agree to 1e-5.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
import types

import pytest

torch = pytest.importorskip("torch", reason="the torch extra is not installed")
pytest.importorskip("torchmetrics", reason="the torch extra is not installed")

from calibrant import torch as ct  # noqa: E402

pytestmark = [
    pytest.mark.examples,
    pytest.mark.filterwarnings("ignore"),  # TorchUncertainty's and torchmetrics' own
]

#: The one import that changes, in both routines: the names on the left are TorchUncertainty's.
CHANGED = {
    "BrierScore": ct.BrierScore,
    "CalibrationError": ct.CalibrationError,
    "CategoricalNLL": ct.CategoricalNLL,
    "SmoothCalibrationError": ct.SmoothCalibrationError,
}
#: Equal by definition, unless a score lies on the edge of a bin; adaptive bins are cut in another way.
EQUAL = ("Brier", "NLL", "ECE", "MCE", "SmECE")
ABSENT = {"einops", "glest", "jsonargparse", "lightning", "seaborn", "timm", "torchvision"}
ARRANGED = {
    "(m b) c -> b m c": lambda x, b: x.unflatten(0, (-1, b)).transpose(0, 1),
    "(m b) c h w -> b m c h w": lambda x, b: x.unflatten(0, (-1, b)).transpose(0, 1),
    "b c h w -> (b h w) c": lambda x: x.movedim(1, -1).flatten(0, 2),
    "b c h w -> b h w c": lambda x: x.movedim(1, -1),
}


class Anything(type):
    """A class whose attributes are such classes."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything(name, (), {})

    def __or__(cls, other):
        return cls

    __ror__ = __or__


class Replaced(types.ModuleType):
    """A module of a package that is not installed."""

    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "rearrange":
            return lambda tensor, pattern, **sizes: ARRANGED[pattern](tensor, **sizes)
        if name == "resize":
            return lambda targets, size, **_: targets if targets.shape[-2:] == size else 1 / 0
        if name == "LightningModule":
            return type(name, (torch.nn.Module,), {"log": log, "log_dict": log_dict})
        return Anything(name, (), {})


def log(self, name, value, **_):
    self.logged[name] = value


def log_dict(self, values, **_):
    self.logged.update(values)


class Finder:
    """Finds modules of the packages that are not installed."""

    def __init__(self, packages):
        self.packages = packages

    def find_spec(self, name, *_):
        known = name.partition(".")[0] in self.packages
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if known else None

    def create_module(self, spec):
        return Replaced(spec.name)

    def exec_module(self, module):
        pass


@pytest.fixture(scope="module")
def routines():
    """TorchUncertainty's two routines, imported next to stand-ins that are gone afterwards."""
    if importlib.util.find_spec("torch_uncertainty") is None:
        pytest.skip("pip install --no-deps torch-uncertainty")
    before = set(sys.modules)
    finder = Finder({name for name in ABSENT if importlib.util.find_spec(name) is None})
    sys.meta_path.append(finder)
    try:
        package = "torch_uncertainty.routines."
        yield {name: importlib.import_module(package + name) for name in ("classification", "segmentation")}
    finally:
        sys.meta_path.remove(finder)
        for name in set(sys.modules) - before:
            if name.partition(".")[0] in {*finder.packages, "torch_uncertainty"}:
                del sys.modules[name]


def batches(kind):
    """Three batches of logits and labels; in segmentation some pixels are to be ignored."""
    generator = torch.Generator().manual_seed(0)
    shape, classes = {"binary": ((80, 1), 2), "multiclass": ((80, 5), 5), "ensemble": ((240, 5), 5)}.get(
        kind, ((2, 5, 32, 32), 5)
    )
    made = []
    for _ in range(3):
        logits = 2 * torch.randn(shape, generator=generator)
        rows = (2, 32, 32) if kind == "segmentation" else (80,)
        target = torch.randint(classes, rows, generator=generator)
        if kind == "segmentation":
            target[torch.rand(rows, generator=generator) < 0.1] = 255
        made.append((logits, target))
    return made


def made(module, kind):
    """Return a routine whose model returns its input."""
    options = {"num_bins_calibration_error": 10}
    if kind == "segmentation":
        return module.SegmentationRoutine(torch.nn.Identity(), 5, metric_subsampling_rate=1.0, **options)
    if kind == "ensemble":
        options |= {"is_ensemble": True, "format_batch_fn": torch.nn.Identity()}
    return module.ClassificationRoutine(torch.nn.Identity(), 1 if kind == "binary" else 5, **options)


def run(routine, kind):
    """Return what a routine logs in a validation and in a test of three batches, twice over."""
    routine.logged, routine.logger = {}, None
    for _ in range(2):  # the second epoch finds metrics that were reset
        for batch in batches(kind):
            routine.validation_step(batch)
        routine.on_validation_epoch_end()
        for k, batch in enumerate(batches(kind)):
            routine.test_step(batch, k)
        routine.on_test_epoch_end()
    return routine.logged


def alone(kind, metrics):
    """Return the values of lone metrics, which read the probabilities of all rows at once."""
    probs, targets = [], []
    for logits, target in batches(kind):
        if kind == "segmentation":
            logits, target = logits.movedim(1, -1)[target != 255], target[target != 255]
        probs.append(logits.sigmoid()[:, 0] if kind == "binary" else logits.softmax(-1))
        targets.append(target)
    if kind == "ensemble":
        probs = [part.unflatten(0, (3, -1)).mean(0) for part in probs]
    rows, labels = torch.cat(probs), torch.cat(targets)
    binned, width = metrics["CalibrationError"], 1 if kind == "binary" else 5
    options = {"task": "binary" if kind == "binary" else "multiclass", "num_bins": 10, "num_classes": width}
    made = {
        "Brier": metrics["BrierScore"](num_classes=width),
        "NLL": metrics["CategoricalNLL"](),
        "ECE": binned(**options),
        "MCE": binned(norm="max", **options),
        "aECE": binned(adaptive=True, **options),
        "SmECE": metrics["SmoothCalibrationError"](),
    }
    return {name: float(metric(rows, labels)) for name, metric in made.items()}


@pytest.mark.parametrize("kind", ["binary", "multiclass", "ensemble", "segmentation"])
def test_a_routine_of_torch_uncertainty_runs_with_one_import_changed(kind, routines, monkeypatch):
    """In the binary routine TorchUncertainty's smooth error reads the states of its ECE, which judge another event."""
    module = routines["segmentation" if kind == "segmentation" else "classification"]
    theirs = run(made(module, kind), kind)
    lone, original = alone(kind, CHANGED), alone(kind, vars(module))
    for name, metric in CHANGED.items():
        monkeypatch.setattr(module, name, metric)
    routine = made(module, kind)
    ours = run(routine, kind)
    assert sum(isinstance(metric, ct.CalibrationError | ct.SmoothCalibrationError) for metric in routine.modules()) >= 6
    assert set(ours) == set(theirs)
    evaluated = {name: name.rpartition("/")[2] for name in ours if name.rpartition("/")[2] in lone}
    assert len(evaluated) == 12  # six metrics, in validation and in the test
    for name, short in evaluated.items():
        assert float(ours[name]) == pytest.approx(lone[short], rel=1e-6), name
        if short in EQUAL:
            assert lone[short] == pytest.approx(original[short], rel=1e-5), name
            if (kind, short) != ("binary", "SmECE"):
                assert float(ours[name]) == pytest.approx(float(theirs[name]), rel=1e-5), name
    for name in set(ours) - set(evaluated):
        if isinstance(theirs[name], torch.Tensor):
            assert torch.allclose(ours[name].double(), theirs[name].double(), equal_nan=True), name
