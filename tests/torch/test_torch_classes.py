"""Classes of torch metrics: a caller's own, those of torchmetrics and TorchUncertainty, and their arguments."""

from __future__ import annotations

import copy
import inspect
import os
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the torch extra is not installed")
torchmetrics = pytest.importorskip("torchmetrics", reason="the torch extra is not installed")

from torchmetrics.utilities.enums import ClassificationTask, ClassificationTaskNoMultilabel  # noqa: E402

import calibrant  # noqa: E402
from calibrant import torch as ct  # noqa: E402
from calibrant.compat import bensemble, pyhealth, triples  # noqa: E402
from calibrant.errors import InputError  # noqa: E402
from calibrant.torch.base import BatchError, ProbabilityMetric  # noqa: E402

#: The metrics; the package has a layer too.
METRICS = [name for name in ct.__all__ if issubclass(getattr(ct, name), torchmetrics.Metric)]

#: What each class needs, for batches of three classes.
NEEDS = {
    "AdaptiveCalibrationError": {"task": "multiclass", "num_classes": 3},
    "BinaryAdaptiveCalibrationError": None,  # tried as what `CalibrationError` returns
    "BinaryCalibrationError": None,
    "CalibrationError": {"task": "multiclass", "num_classes": 3},
    "CalibrationReport": {"level": None},
    "ClasswiseCalibrationError": {"num_classes": 3, "reduction": "none"},
    "CovAtxRisk": {"risk_threshold": 0.9},
    "MulticlassAdaptiveCalibrationError": {"num_classes": 3},
    "MulticlassCalibrationError": {"num_classes": 3},
    "RiskAtxCov": {"cov_threshold": 0.5},
}
TRIED = {name: needs for name in METRICS if (needs := NEEDS.get(name, {})) is not None}


def logits_of(n, seed):
    generator = torch.Generator().manual_seed(seed)
    return 3 * torch.randn(n, 3, generator=generator), torch.randint(3, (n,), generator=generator)


BATCHES = [logits_of(40, 0), logits_of(1, 1), logits_of(60, 2)]


def cooled(name, **attributes):
    """Return a subclass whose `update` makes probabilities of logits, and counts the rows in a state of its own."""

    def update(self, logits, target, temperature=2.0):
        self.rows += len(target)
        super(made, self).update((logits / temperature).softmax(1), target)

    def start(self, **options):
        super(made, self).__init__(**options)
        self.add_state("rows", torch.tensor(0), dist_reduce_fx="sum")

    made = type(f"Cooled{name}", (getattr(ct, name),), {"update": update, "__init__": start, **attributes})
    return made


def numbers(value):
    if isinstance(value, calibrant.Report):
        return np.array([value[name].value for name in value])
    return value.double().numpy()


# ---------------------------------------------------------------- a caller's own update


@pytest.mark.covering
@pytest.mark.parametrize("name", TRIED)
@pytest.mark.parametrize("collected", [False, True])
@pytest.mark.parametrize("full", [False, True])
def test_forward_goes_through_an_overridden_update(name, collected, full):
    """Each batch's value, and that of all, are those of the plain metric on the batches that `update` makes."""
    plain, own = getattr(ct, name)(**TRIED[name]), cooled(name, full_state_update=full)(**TRIED[name])
    called = own
    if collected:
        collection = torchmetrics.MetricCollection({"own": own, "other": ct.BrierScore(logits=True)})
        called = lambda *batch: collection(*batch)["own"]  # noqa: E731
    for logits, target in BATCHES:
        alone = plain.clone()
        alone.reset()
        probs = (logits / 2).softmax(1)
        alone.update(probs, target)
        plain.update(probs, target)
        np.testing.assert_array_equal(numbers(called(logits, target)), numbers(alone.compute()))
    np.testing.assert_allclose(numbers(own.compute()), numbers(plain.compute()), rtol=2e-7, atol=1e-12)
    assert own.rows == 101
    assert own.update_count == 3


def test_forward_passes_on_what_an_overridden_update_takes():
    logits, target = BATCHES[0]
    own, plain = cooled("BrierScore")(), ct.BrierScore()
    assert own(logits, target, temperature=5.0) == plain((logits / 5).softmax(1), target)


def test_an_update_set_on_one_metric_is_called_too():
    logits, target = BATCHES[0]
    metric = ct.BrierScore()
    given = metric.update
    metric.update = lambda preds, target: given((preds / 2).softmax(1), target)
    assert metric(logits, target) == ct.BrierScore()((logits / 2).softmax(1), target)


@pytest.mark.parametrize("name", TRIED)
def test_a_batch_that_fails_in_forward_changes_nothing(name):
    metric = cooled(name)(**TRIED[name])
    metric(*BATCHES[0])
    before = {key: copy.deepcopy(value) for key, value in metric.metric_state.items()}
    spoiled = BATCHES[2][0].clone()
    spoiled[3, 1] = torch.nan
    with pytest.raises(InputError, match="preds: expected finite numbers"):
        metric(spoiled, BATCHES[2][1])
    for key, value in metric.metric_state.items():
        torch.testing.assert_close(value, before[key], rtol=0, atol=0, equal_nan=True)
    assert metric.rows == 40
    assert metric.update_count == 1
    metric(*BATCHES[1])
    assert metric.rows == 41


@pytest.mark.parametrize("own", [False, True])
def test_forward_reads_a_batch_once(own, monkeypatch):
    reads = []
    read = ProbabilityMetric._read
    monkeypatch.setattr(
        ProbabilityMetric, "_read", lambda self, *batch, **how: reads.append(1) or read(self, *batch, **how)
    )
    metric = (cooled("BrierScore") if own else ct.BrierScore)()
    for batch in BATCHES:
        metric(batch[0] if own else batch[0].softmax(1), batch[1])
    assert len(reads) == len(BATCHES)


def test_the_scale_of_the_first_batch_holds_in_forward_of_a_subclass():
    """In [0, 1] a batch of logits looks like probabilities; only the batches before show that it is none."""

    class Same(ct.CalibrationError):
        def update(self, preds, target):
            super().update(preds, target)

    for kind in (Same, ct.CalibrationError):
        metric = kind("binary")
        metric(torch.tensor([-3.0, 2.0]), torch.tensor([0, 1]))
        assert metric(torch.tensor([0.5]), torch.tensor([1])) == pytest.approx(1 - 1 / (1 + np.exp(-0.5)))


@pytest.mark.parametrize("first", ["own", "plain"])
@pytest.mark.parametrize("named", [False, True])
def test_a_subclass_with_its_own_update_shares_no_states(first, named):
    """Nobody can tell a metric of one `update` what the batch of another was: a named group says so."""

    class Clamped(ct.CalibrationError):
        def update(self, preds, target):
            super().update(preds.clamp(max=0.5), target)

    made = {"a" if first == "own" else "z": Clamped("binary"), "m": ct.CalibrationError("binary")}
    groups = [sorted(made)] if named else True
    collection = torchmetrics.MetricCollection(made, compute_groups=groups)
    low, high = torch.full((8,), 0.25), torch.full((8,), 0.75)  # the first batch looks the same in both
    for preds in (low, high):
        collection.update(preds, torch.ones(8, dtype=torch.long))
    if named:
        with pytest.raises(BatchError, match="leave compute_groups out"):
            collection.compute()
    else:
        values = collection.compute()
        assert values.pop("m") == pytest.approx(0.5)
        assert values.popitem()[1] == pytest.approx(0.625)


# ---------------------------------------------------------------- the names of torchmetrics and TorchUncertainty

#: Tasks and bins, and the class that TorchUncertainty returns for them: torchmetrics' own, or one of its own.
NAMES = {
    ("binary", False): "BinaryCalibrationError",
    ("multiclass", False): "MulticlassCalibrationError",
    ("binary", True): "BinaryAdaptiveCalibrationError",
    ("multiclass", True): "MulticlassAdaptiveCalibrationError",
}


def by_task(task, adaptive, **options):
    classes = {"num_classes": 3} if str(task).lower().endswith("multiclass") else {}
    return ct.CalibrationError(task, adaptive=adaptive, **classes, **options)


def batch_for(task):
    logits, target = BATCHES[0]
    return (logits[:, 0].sigmoid(), (target > 0).long()) if task == "binary" else (logits.softmax(1), target)


@pytest.mark.parametrize(("task", "adaptive"), NAMES)
def test_a_metric_has_the_class_of_its_task(task, adaptive):
    name = NAMES[task, adaptive]
    kind = getattr(ct, name)
    metric = by_task(task, adaptive)
    assert type(metric) is kind
    assert isinstance(metric, ct.CalibrationError)
    assert isinstance(metric, ct.AdaptiveCalibrationError) == adaptive
    batch = batch_for(task)
    value = metric(*batch)
    own = kind(*([3] if task == "multiclass" else []), n_bins=10)
    assert own(*batch) == value
    assert own.merge_state(metric) is None  # of one make
    for other in (pickle.loads(pickle.dumps(metric)), copy.deepcopy(metric), metric.clone()):
        assert type(other) is kind
        assert other.compute() == metric.compute()
    assert torchmetrics.MetricCollection([metric]).compute() == {name: value}
    assert repr(metric) == f"{name}()"
    if adaptive:
        shorter = ct.AdaptiveCalibrationError(task, num_classes=3 if task == "multiclass" else None)
        assert type(shorter) is kind


def test_metrics_of_each_task_and_kind_of_bins_go_into_one_collection():
    collection = torchmetrics.MetricCollection([by_task("binary", False), by_task("binary", True)])
    collection.update(*batch_for("binary"))
    assert set(collection.compute()) == {"BinaryCalibrationError", "BinaryAdaptiveCalibrationError"}


def test_a_subclass_keeps_its_name():
    class Mine(ct.CalibrationError):
        pass

    assert type(Mine("binary")) is Mine


def test_arguments_have_the_names_and_defaults_of_torchmetrics():
    """Facts: BinaryCalibrationError and MulticlassCalibrationError of torchmetrics 1.9 are installed here."""
    for name in ("BinaryCalibrationError", "MulticlassCalibrationError"):
        theirs = inspect.signature(getattr(torchmetrics.classification, name)).parameters
        ours = inspect.signature(getattr(ct, name)).parameters
        assert list(ours) == list(theirs)
        assert [p.default for p in ours.values()] == [p.default for p in theirs.values()]


@pytest.mark.parametrize("enum", [ClassificationTask, ClassificationTaskNoMultilabel])
@pytest.mark.parametrize("adaptive", [False, True])
def test_tasks_may_be_members_of_torchmetrics_enumerations(enum, adaptive):
    for task in ("binary", "multiclass"):
        member = enum[task.upper()]
        assert type(by_task(member, adaptive, n_bins=None)) is getattr(ct, NAMES[task, adaptive])
    with pytest.raises(InputError, match="task: expected one of 'binary', 'multiclass', got 'multilabel'"):
        ct.CalibrationError(ClassificationTask.MULTILABEL)


# ---------------------------------------------------------------- arguments that a class does not have


@pytest.mark.parametrize("name", METRICS)
def test_arguments_of_other_classes_are_refused_in_words(name):
    """Every argument of any metric, and of their bases, is taken, or refused with its name: no raw TypeError."""
    kind = getattr(ct, name)
    needs = TRIED.get(name, {})
    bases = {base for other in METRICS for base in getattr(ct, other).__mro__ if base.__module__.startswith("calib")}
    names = {key for base in bases for key in inspect.signature(base.__init__).parameters} - {"self", "kwargs", "args"}
    refused = 0
    for key in sorted(names - needs.keys() - {"options"}):
        try:
            kind(**needs, **{key: None})
        except (TypeError, ValueError) as error:  # torchmetrics' own refusal, or a check of an integer
            refused += f"an argument of {name}" in str(error)
            said = re.match(rf"({key}|n_bins|num_bins): expected", str(error)) or f"`{key}`" in str(error)
            assert said, error  # noqa: PT017
    assert refused >= 3  # layout, by_shape and make, at least


def test_what_to_do_about_an_argument_of_another_class():
    with pytest.raises(
        InputError,
        match=(
            r"num_classes: expected an argument of SmoothCal.*leave this argument out, because the shape "
            "of preds gives the number"
        ),
    ):
        ct.SmoothCalibrationError(num_classes=3)
    for make, one, other in (
        (lambda: ct.CalibrationError("binary", n_bins=10), "n_bins", "num_bins"),
        (lambda: ct.CalibrationReport(n_bins=10), "n_bins", "num_bins"),
        (lambda: ct.BinaryCalibrationError(num_bins=10), "num_bins", "n_bins"),
    ):
        with pytest.raises(
            InputError, match=f"{one}: expected {other}, the name in calibrant.*rename the argument to {other}"
        ):
            make()
    with pytest.raises(InputError, match="n_bins: expected an integer from 1"):
        ct.BinaryCalibrationError(n_bins=0)


# ---------------------------------------------------------------- what is taken, and what messages propose


@pytest.mark.covering
@pytest.mark.parametrize("name", TRIED)
@pytest.mark.parametrize("place", ["host", "device"])
def test_unchecked_rows_may_have_any_sum(name, place, monkeypatch):
    """Sigmoid heads and matrices of confidences: both readings, and rows that sum to 1 are judged as ever."""
    if place == "device":
        monkeypatch.setattr(ProbabilityMetric, "_read_host", ProbabilityMetric._read_device)
    generator = torch.Generator().manual_seed(3)
    probs, target = torch.rand(50, 3, generator=generator), BATCHES[2][1][:50]
    with pytest.raises(InputError, match=r'sum to 1.*CalibrationError\("binary"\)\(confidence, correct\)'):
        getattr(ct, name)(**TRIED[name])(probs, target)
    value = numbers(getattr(ct, name)(**TRIED[name], validate_args=False)(probs, target))
    assert np.isfinite(value).any() or name in ("CalibrationIntercept", "CalibrationSlope"), value
    if name == "CalibrationError":
        confidence, correct = probs.max(1).values, probs.argmax(1) == target
        assert value == ct.CalibrationError("binary")(confidence, correct.long())
    if name == "BrierScore":
        one_hot = torch.nn.functional.one_hot(target, 3)
        assert value == pytest.approx(float(((probs - one_hot) ** 2).sum(1).mean()), rel=1e-6)
    normal = probs / probs.sum(1, keepdim=True)
    unchecked, plain = getattr(ct, name)(**TRIED[name], validate_args=False), getattr(ct, name)(**TRIED[name])
    np.testing.assert_array_equal(numbers(unchecked(normal, target)), numbers(plain(normal, target)))


@pytest.mark.parametrize("name", TRIED)
def test_unchecked_values_on_the_host_are_still_probabilities(name):
    probs, target = BATCHES[0][0].softmax(1), BATCHES[0][1]
    for value, match in ((torch.nan, "finite"), (1.5, r"values in \[0, 1\]")):
        spoiled = probs.clone()
        spoiled[3, 1] = value
        with pytest.raises(InputError, match=match):
            getattr(ct, name)(**TRIED[name], validate_args=False, logits=False).update(spoiled, target)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32, torch.int64])
@pytest.mark.parametrize("place", ["host", "device"])
def test_whole_numbers_are_probabilities_of_0_and_1(dtype, place, monkeypatch):
    if place == "device":
        monkeypatch.setattr(ProbabilityMetric, "_read_host", ProbabilityMetric._read_device)
    labels, target = torch.tensor([0, 1, 1, 0]), torch.tensor([0, 1, 0, 1])
    for metric in (ct.CalibrationError("binary"), ct.BrierScore(), ct.AdaptiveCalibrationError("binary", num_bins=2)):
        assert metric(labels.to(dtype), target) == metric.clone()(labels.float(), target)
    rows = torch.nn.functional.one_hot(BATCHES[0][1], 3).to(dtype)
    assert ct.BrierScore()(rows, BATCHES[0][1]) == 0
    if dtype.is_signed:
        logits = torch.tensor([-2, 3, 0, 1], dtype=dtype)
        assert ct.BrierScore(logits=True)(logits, target) == ct.BrierScore(logits=True)(logits.float(), target)
        with pytest.raises(
            InputError, match="preds: expected 0 or 1, the only probabilities that are whole numbers, got -2"
        ):
            ct.BrierScore()(logits, target)


@pytest.mark.slow
def test_small_batches_never_start_a_compiler(tmp_path):
    """A stream of 1,024,000 numbers: from 2^20 on, it takes compiled kernels."""
    code = """
import sys, torch
from calibrant import torch as ct
torch.manual_seed(0)
probs, target = torch.randn(4096, 10).softmax(1), torch.randint(10, (4096,))
metrics = [ct.CalibrationError("multiclass", num_classes=10), ct.BrierScore(), ct.ClasswiseCalibrationError(10)]
for _ in range(25):
    for metric in metrics:
        metric.update(probs, target)
print("numba" in sys.modules, metrics[0].counts.sum().item())
"""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    environment.pop("CALIBRANT_KERNELS", None)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "False 102400\n"


BAD_ROWS = np.array([[0.5, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7]])
GOOD_ROWS = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7]])
#: Inputs that fail, each for another reason.
FAILING = {
    "sums": (BAD_ROWS, [0, 1, 2]),
    "logits": (np.array([[3.0, -1, 2], [0, 1, 5], [1, 2, 3]]), [0, 1, 2]),
    "percent": (GOOD_ROWS * 100, [0, 1, 2]),
    "nan": (np.where(GOOD_ROWS == 0.5, np.nan, GOOD_ROWS), [0, 1, 2]),
    "one-based": (GOOD_ROWS, [1, 2, 3]),
    "ignored": (GOOD_ROWS, [-1, 1, 2]),
    "above": (GOOD_ROWS, [0, 1, 7]),
    "fractions": (GOOD_ROWS, [0.5, 1, 2]),
    "lengths": (GOOD_ROWS, [0, 1]),
    "several labels": (GOOD_ROWS, [[1, 1, 0], [0, 1, 0], [0, 0, 1]]),
    "event of two labels": (GOOD_ROWS[:, 0], [1, 2, 2]),
    "event of ignored labels": (GOOD_ROWS[:, 0], [1, -1, 0]),
    "event beyond": (GOOD_ROWS[:, 0] * 3, [1, 1, 0]),
    "swapped": (np.array([0, 1, 1]), GOOD_ROWS[:, 0]),
}
#: Functions with other libraries' signatures, by how they are called with (probs, targets).
FUNCTIONS = {
    **{f"pyhealth.{name}": getattr(pyhealth, name) for name in pyhealth.__all__},
    **{f"bensemble.{name}": getattr(bensemble, name) for name in bensemble.__all__},
    "triples.compute_brier_score": triples.compute_brier_score,
    "triples.compute_ece": triples.compute_ece,
    "triples.compute_adaptive_ece": triples.compute_adaptive_ece,
}
#: Callees that a message may name, with the arguments that follow.
OTHERS = re.compile(
    r"use ClasswiseCalibrationError\(num_classes, notion='multilabel'\)"
    r"|pass them to calibrant\.evaluate with notion='multilabel'"
    r"|(class_names(=\[[^]]*\])?) to calibrant\.evaluate"
)


def refusal(call):
    """Return the error of a call; None if it has none."""
    try:
        call()
    except InputError as error:
        return error
    return None


def proposed(remedy):
    """Return the arguments that a remedy proposes: those with a value, and arrays by their names."""
    rest = OTHERS.sub("", remedy)
    found = set(re.findall(r"\b(\w+)=(?!=)", rest)) - {"axis", "dtype"}
    found |= set(re.findall(r"np\.asarray\((\w+)", rest))
    found |= set(re.findall(r"\b(\w+)\.(?:reshape|T|argmax)\b", rest)) - {"np"}
    return found | (set(re.findall(r"\b(probs|preds|prob)\b", rest)))


@pytest.mark.parametrize("fault", FAILING)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_other_libraries_propose_arguments_that_they_have(name, fault):
    probs, targets = FAILING[fault]
    function = FUNCTIONS[name]
    arguments = (probs, targets)
    if name.startswith("triples") and "brier" not in name:
        arguments = (probs if probs.ndim == 1 else probs.max(axis=1), [0, 1, 2], targets)
    error = refusal(lambda: function(*arguments))
    if error is not None:
        assert error.argument in inspect.signature(function).parameters
        assert proposed(error.remedy) <= set(inspect.signature(function).parameters), error


@pytest.mark.parametrize("fault", FAILING)
@pytest.mark.parametrize("name", TRIED)
def test_metrics_propose_arguments_that_they_have(name, fault):
    """A metric has the arguments of its class and of its `update`; True ones are tried: the remedy is no new error."""
    probs, targets = (torch.as_tensor(np.asarray(x)) for x in FAILING[fault])
    kind = getattr(ct, name)
    known = {"preds", "target", *inspect.signature(kind).parameters}
    for options in ({}, {"logits": False}):
        metric = kind(**TRIED[name], **options)
        error = refusal(lambda metric=metric: metric.update(probs, targets))
        if error is None:
            continue
        assert error.argument in known
        for argument in proposed(error.remedy.replace("validate_args=False", "")) - known:
            passed = {"logits": True, "notion": "multilabel", "ignore_index": -1}[argument]
            kind(**TRIED[name], **{argument: passed})  # passed on to its base
        if "notion='multilabel' to the metric" in error.remedy:
            getattr(ct, name)(**{**TRIED[name], "notion": "multilabel"})
