"""The torch metrics in the place of others: explicit compute groups, TorchUncertainty's signatures and names."""

from __future__ import annotations

import copy
import importlib.util
import itertools
import pickle
import sys
from contextlib import nullcontext

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the torch extra is not installed")
torchmetrics = pytest.importorskip("torchmetrics", reason="the torch extra is not installed")

from calibrant import torch as ct  # noqa: E402
from calibrant.errors import InputError, MissingDependencyError  # noqa: E402
from calibrant.torch import sharing  # noqa: E402
from calibrant.torch.base import BatchError  # noqa: E402


def classes(n=300, width=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, width, generator=generator)
    return logits.softmax(1), torch.randint(width, (n,), generator=generator)


def calibration_errors():
    """The metrics that TorchUncertainty's routines put into one group, and one with other bins."""
    return {
        "ece": ct.CalibrationError("multiclass", num_bins=10, num_classes=5),
        "finer": ct.CalibrationError("multiclass", num_bins=25, num_classes=5),
        "mce": ct.CalibrationError("multiclass", num_bins=10, num_classes=5, norm="max"),
        "right": ct.CalibrationError("multiclass", num_bins=10, num_classes=5, closed="right"),
        "adaptive": ct.AdaptiveCalibrationError("multiclass", num_classes=5),
        "smooth": ct.SmoothCalibrationError(),
    }


BATCHES = [classes(seed=seed) for seed in range(3)]
ORDERS = [
    list(calibration_errors()),
    ["smooth", "adaptive", "right", "finer", "ece", "mce"],
    ["adaptive", "ece", "mce"],
]


def alone():
    metrics = calibration_errors()
    for metric in metrics.values():
        for batch in BATCHES:
            metric.update(*batch)
    return {name: metric.compute() for name, metric in metrics.items()}


def check(values):
    expected = alone()
    assert values
    for name, value in values.items():
        assert torch.equal(value, expected[name.removeprefix("val/")]), name


@pytest.mark.covering
@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order[0])
@pytest.mark.parametrize("looks", [False, True])
def test_metrics_in_a_named_group_have_their_own_values(order, looks):
    """Looking at the items makes torchmetrics copy the first metric's states to the others."""
    made = {name: metric for name, metric in calibration_errors().items() if name in order}
    collection = torchmetrics.MetricCollection(made, compute_groups=[order])
    for _ in range(2):
        for batch in BATCHES:
            if looks:
                list(collection.items())
            collection.update(*batch)
            if looks:
                assert all(metric.compute() >= 0 for _, metric in collection.items())
        check(collection.compute())
        collection.reset()
    clone = collection.clone(prefix="val/")
    for batch in BATCHES:
        clone(*batch)
    for same in (clone, copy.deepcopy(clone), pickle.loads(pickle.dumps(clone))):
        check(same.compute())


def test_several_named_groups():
    made = calibration_errors()
    groups = [["smooth", "ece", "mce"], ["finer", "adaptive"], ["right"]]
    collection = torchmetrics.MetricCollection(made, compute_groups=groups)
    for preds, target in BATCHES:
        collection.update(probs=preds, target=target)
    check(collection.compute())


def test_metrics_of_one_make_still_share_one_read():
    made = {name: metric for name, metric in calibration_errors().items() if name in ("ece", "mce")}
    collection = torchmetrics.MetricCollection(made, compute_groups=[["ece", "mce"]])
    collection.update(*BATCHES[0])
    assert made["mce"].counts is made["ece"].counts
    assert made["mce"].make is made["ece"].make


def test_a_metric_whose_batches_nobody_can_give_it_says_so():
    made = {"mean": torchmetrics.MeanMetric(), "ece": ct.CalibrationError("multiclass", num_classes=5)}
    collection = torchmetrics.MetricCollection(made, compute_groups=[["mean", "ece"]])
    collection.update(value=torch.ones(3), preds=BATCHES[0][0], target=BATCHES[0][1])
    with pytest.raises(
        InputError,
        match=(
            r"compute_groups: expected metrics with equal arguments in each group, got states of a "
            "different metric in a.*leave compute_groups out"
        ),
    ):
        collection.compute()
    late = ct.CalibrationError("binary", num_bins=4)
    first = ct.CalibrationError("binary", num_bins=5)
    first.update(torch.rand(9), torch.ones(9))
    late.make = first.make  # the batch is gone
    late._update_count = 1
    with pytest.raises(BatchError, match="leave compute_groups out"):
        late.compute()
    late.reset()
    assert late(torch.tensor([0.5]), torch.tensor([1])) == 0.5


def test_no_sketch_of_the_states_of_another_metric_is_returned():
    first, late = ct.AUROC(state="sketch", ignore_index=-1), ct.AUROC(state="sketch")
    first.update(torch.rand(9), torch.ones(9))
    late.make, late._update_count = first.make, 1  # as in a group that the caller names; the batch is gone
    with pytest.raises(InputError, match="leave compute_groups out"):
        late.sketch()


@pytest.mark.parametrize("other", [{"num_bins": 15}, {"closed": "right"}, {"ignore_index": 0}])
def test_states_of_another_make_are_refused(other):
    metric, foreign = ct.CalibrationError("binary"), ct.CalibrationError("binary", **other)
    for each in (metric, foreign):
        each.persistent(True)
        each.update(torch.tensor([0.2, 0.9]), torch.tensor([1, 1]))
    expected = metric.compute()
    with pytest.raises(InputError, match="incoming_state: expected the states of a metric with the same arguments"):
        metric.merge_state(foreign)
    with pytest.raises(InputError, match="incoming_state"):
        metric.merge_state(foreign.metric_state)
    with pytest.raises(InputError, match="state_dict: expected the states of a metric with the same arguments"):
        metric.load_state_dict(foreign.state_dict())
    assert metric.compute() == expected
    metric.merge_state(copy.deepcopy(metric))
    metric._computed = None  # torchmetrics keeps the last value
    assert metric.compute() == expected
    fresh = ct.CalibrationError("binary")
    fresh.persistent(True)
    fresh.load_state_dict(metric.state_dict())
    with pytest.warns(UserWarning, match="before the ``update`` method"):  # torchmetrics does not count loaded batches
        assert fresh.compute() == expected


# ---------------------------------------------------------------- TorchUncertainty's proper scores


def naive_brier(probs, target, top):
    """The score of each row: the mean over members of the squared distance, or of (max p - right)^2."""
    p, y = probs.double().numpy(), target.numpy()
    p = p.reshape(len(p), 1, -1) if p.ndim < 3 else p
    if p.shape[2] == 1:
        p = np.concatenate([1 - p, p], axis=2) if top else p
        truth = np.eye(2)[y] if top else y[:, None]
    else:
        truth = np.eye(p.shape[2])[y]
    if top:
        right = np.take_along_axis(np.broadcast_to(truth[:, None], p.shape), p.argmax(2)[..., None], 2)[..., 0]
        return ((p.max(2) - right) ** 2).mean(1)
    return ((p - truth[:, None]) ** 2).sum(2).mean(1)


SHAPES = [(n, members) for n in (1, 2, 3, 4) for members in dict.fromkeys((None, 1, 3, n))]


@pytest.mark.covering
@pytest.mark.parametrize(("width", "members"), SHAPES)
@pytest.mark.parametrize("top", [False, True])
@pytest.mark.parametrize("one_hot", [False, True])
def test_brier_scores_of_ensembles(width, members, top, one_hot):
    generator = torch.Generator().manual_seed(3)
    metrics = {how: ct.BrierScore(width, top, how) for how in ("mean", "sum", "none", None)}
    expected = []
    for n in (5, 7):
        raw = torch.randn(n, *(() if members is None else (members,)), width, generator=generator)
        probs = raw.sigmoid() if width == 1 else raw.softmax(-1)
        target = torch.randint(max(width, 2), (n,), generator=generator)
        expected.append(naive_brier(probs, target, top))
        if one_hot:
            target = target[:, None] if width == 1 else torch.nn.functional.one_hot(target, width)
        for metric in metrics.values():
            metric.update(probs=probs, target=target)
    rows = np.concatenate(expected)
    found = {how: metric.compute().double().numpy() for how, metric in metrics.items()}
    single = 4 * float(np.finfo(np.float32).eps)  # probabilities and values are rounded to single precision
    assert found["mean"] == pytest.approx(rows.mean(), rel=single)
    assert found["sum"] == pytest.approx(rows.sum(), rel=single)
    for how in ("none", None):
        np.testing.assert_allclose(found[how], rows, rtol=single, atol=single)


@pytest.mark.covering
@pytest.mark.parametrize("layout", ["binary", "multiclass", "top-label", "logits", "multilabel"])
@pytest.mark.parametrize("reads", ["_read_host", "_read_device"])
def test_the_score_of_each_row(layout, reads, monkeypatch):
    """The mean of the rows is the metric's mean; rows that are not judged are left out, in the order of the others."""
    if reads == "_read_device":
        monkeypatch.setattr(ct.BrierScore, "_read_host", ct.BrierScore._read_device)
        monkeypatch.setattr(ct.NegativeLogLikelihood, "_read_host", ct.NegativeLogLikelihood._read_device)
    probs, target = classes(50, 4)
    options = {"ignore_index": 9}
    if layout == "binary":
        probs, target = probs[:, 0], (target == 0).long()
    elif layout == "multilabel":
        target, options["notion"] = torch.nn.functional.one_hot(target, 4), layout
    elif layout == "logits":
        probs, options["logits"] = probs.log(), True
    elif layout == "top-label":
        options["notion"] = layout
    target[7] = 9
    for make, dtype in itertools.product((ct.BrierScore, ct.NegativeLogLikelihood), (torch.float32, torch.float64)):
        mean, total, rows = (make(reduction=how, **options) for how in ("mean", "sum", "none"))
        for metric in (mean, total, rows):
            metric.update(probs[:20].to(dtype), target[:20])
            metric.update(probs[20:].to(dtype), target[20:])
        found = rows.compute()
        assert found.dtype == dtype
        assert found.shape == (4 * 49 if layout == "multilabel" else 49,)
        close = {"rel": 1e-6 if dtype == torch.float32 else 1e-12}
        assert mean.compute() == pytest.approx(float(found.mean()), **close)
        assert total.compute() == pytest.approx(float(found.sum()), **close)
        assert rows(probs[7:9].to(dtype), target[7:9]).numel() == found.numel() / 49
        one = make(**options)(probs[:1].to(dtype), target[:1])
        assert one == pytest.approx(float(found[: found.numel() // 49].mean()), **close)


def test_an_impossible_outcome_costs_infinitely_much():
    probs, target = torch.tensor([[1.0, 0.0], [0.5, 0.5]]), torch.tensor([1, 0])
    assert ct.NegativeLogLikelihood("sum")(probs, target) == np.inf
    assert ct.NegativeLogLikelihood("none")(probs, target).tolist() == [np.inf, pytest.approx(np.log(2))]


def test_both_names_of_an_argument():
    probs, target = classes(20)
    for name, other in itertools.product(("preds", "probs"), ("target", "targets")):
        assert ct.BrierScore()(**{name: probs, other: target}) == ct.BrierScore()(probs, target)
    metric = ct.BrierScore()
    for method in (metric.update, metric.forward):
        with pytest.raises(
            InputError,
            match=(
                "preds: expected a tensor, passed as preds or as probs, got both; pass only one of the two arguments"
            ),
        ):
            method(preds=probs, probs=probs, target=target)
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'preds'"):
            method(target=target)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: ct.BrierScore("3"), TypeError, "num_classes: expected an integer, got '3'"),
        (lambda: ct.BrierScore(True), TypeError, "num_classes: expected an integer, got True"),
        (lambda: ct.BrierScore(3, 1), InputError, "top_class: expected True or False, got 1"),
        (
            lambda: ct.BrierScore(3, False, "max"),
            InputError,
            "reduction: expected one of 'mean', 'sum', 'none', got 'max'",
        ),
        (lambda: ct.BrierScore(2, True, notion="positive"), InputError, "notion: expected 'top-label' with top_class"),
        (lambda: ct.NegativeLogLikelihood(10), InputError, "reduction: expected one of 'mean', 'sum', 'none', got 10"),
    ],
)
def test_arguments_are_checked_when_a_metric_is_made(make, error, message):
    with pytest.raises(error, match=message):
        make()


# ---------------------------------------------------------------- pictures and compilers


def every_metric():
    return {
        "ece": ct.CalibrationError("multiclass", num_classes=5),
        "adaptive": ct.AdaptiveCalibrationError("multiclass", num_classes=5),
        "classwise": ct.ClasswiseCalibrationError(5),
        "smooth": ct.SmoothCalibrationError(),
        "brier": ct.BrierScore(),
        "nll": ct.NegativeLogLikelihood(reduction="none"),
        "report": ct.CalibrationReport(n_resamples=20),
    }


METRICS = list(every_metric())


@pytest.mark.parametrize("together", [False, True])
def test_the_pictures_of_a_collection(together):
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="the report extra is not installed")
    made = every_metric()
    del made["nll"]
    if together:
        del made["report"]
    collection = torchmetrics.MetricCollection(made)
    collection.update(*BATCHES[0])
    drawn = collection.plot(together=together)
    assert len([drawn] if together else drawn) == (1 if together else len(made))
    pyplot.close("all")


def test_values_are_drawn_as_torchmetrics_draws_them():
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="the report extra is not installed")
    metric = ct.CalibrationError("multiclass", num_classes=5)
    values = [metric(*batch) for batch in BATCHES]
    _, own = pyplot.subplots()
    for arguments, names in (((values, own), {}), ((), {"val": values, "ax": own})):
        assert metric.plot(*arguments, **names)[1] is own
        np.testing.assert_array_equal(own.get_lines()[0].get_ydata(), values)
        own.clear()
    assert metric.plot(values[0])[1].get_lines()[0].get_ydata() == values[0]
    _, (diagram, histogram) = metric.plot("A title", "score", "rate", ch_ylabel="share")
    assert diagram.get_title() == "A title"
    assert (diagram.get_xlabel(), diagram.get_ylabel(), histogram.get_ylabel()) == ("score", "rate", "share")
    report = ct.CalibrationReport(level=None)
    _, axes = report.plot(report(*BATCHES[0]), own)
    assert axes is own
    assert axes.get_title() == "Reliability Diagram"
    pyplot.close("all")


class Model(torch.nn.Module):
    """A model that holds a metric."""

    def __init__(self, metric):
        super().__init__()
        self.layer = torch.nn.Linear(5, 5)
        self.metric = metric

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


class Measured(Model):
    """A model that updates its metric."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        probs = self.layer(x).softmax(1)
        self.metric.update(probs, y)
        return probs * 1


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="TorchScript is for Python up to 3.13")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("name", METRICS)
def test_torchscript_compiles_around_a_metric(name):
    metric, x = every_metric()[name], torch.randn(3, 5)
    assert isinstance(torch.jit.script(metric), torch.jit.ScriptModule)
    model = Model(metric)
    assert torch.equal(torch.jit.script(model)(x), model(x))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", METRICS)
def test_torch_compile_calls_a_metric_and_does_not_trace_it(name):
    x, y = torch.randn(30, 5), torch.randint(5, (30,))
    model, traced = Measured(every_metric()[name]), []

    def backend(graph, _):
        traced.append(sum(node.op == "call_function" for node in graph.graph.nodes))
        return graph.forward

    compiled = torch.compile(model, backend=backend)
    with torch.no_grad():
        probs = [compiled(x, y) for _ in range(2)]
        alone = every_metric()[name]
        for each in probs:
            alone.update(each, y)
    found, expected = model.metric.compute(), alone.compute()
    assert found.to_dict() == expected.to_dict() if name == "report" else torch.equal(found, expected)
    assert sum(traced) <= 4  # the layer, softmax and the product; the operations of a metric are many more


@pytest.mark.parametrize("name", METRICS)
def test_the_last_values_of_a_stream(name):
    """`Running` sets states aside and puts them back."""
    running, alone = torchmetrics.wrappers.Running(every_metric()[name], window=2), every_metric()[name]
    for batch in BATCHES:
        running(*batch)
    for batch in BATCHES[1:]:
        alone.update(*batch)
    found, expected = running.compute(), alone.compute()
    if name == "report":
        assert found["ece"].value == pytest.approx(expected["ece"].value)
    else:
        assert torch.allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("version", ["1.4.0", "1.6.2", "1.6.3", "1.10.0rc1"])
def test_a_torchmetrics_whose_collections_mix_states_is_refused(version, monkeypatch):
    """Up to 1.6.2, a group that is named by the caller has wrong values, as the tests above would show."""
    monkeypatch.setattr(torchmetrics, "__version__", version)
    spec = importlib.util.spec_from_file_location("imported_again", sharing.__file__)
    refused = pytest.raises(MissingDependencyError, match=r"torchmetrics 1\.6\.3 or later is needed")
    with refused if version in ("1.4.0", "1.6.2") else nullcontext():
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
