"""Predictions on a device: the same numbers and errors as from the host, and few bytes a row that come to the host.

Without a GPU a tensor of the host stands in. The package has no way from a tensor to the host except `to_host`, whose
bytes are counted. The last tests take a GPU instead, where there is one.
"""

from __future__ import annotations

import copy
import inspect
import math
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant import (
    CalibrationSketch,
    Monitor,
    ReliabilityTable,
    certify_threshold,
    certify_two_sided,
    compare,
    expected_calibration_error,
    recalibrate,
)
from calibrant.errors import CalibrantError
from calibrant.inputs import conversion
from calibrant.recalibration import CalibrationMap

torch = pytest.importorskip("torch")

from calibrant.kernels import device_rows  # noqa: E402

evaluate = partial(calibrant.evaluate, n_resamples=20)
GPU = torch.cuda.is_available()
SOURCE = str(Path(calibrant.__file__).parent)
#: The ways of a tensor to the host.
WAYS = ("cpu", "numpy", "tolist", "item", "__array__", "__bool__", "__float__", "__int__", "__index__")


class OnDevice(torch.Tensor):  # type: ignore[misc]
    """A tensor that stands for one on a device."""


class Copies:
    """What has come to the host."""

    def __init__(self) -> None:
        self.largest = self.total = 0

    def add(self, tensor: Any) -> None:
        size = tensor.numel() * tensor.element_size()
        self.total += size
        self.largest = max(self.largest, size)


def refusing(way: str) -> Callable[..., Any]:
    """Return a method of a tensor that refuses calls from the package, except from `to_host`."""
    method = getattr(torch.Tensor, way)

    def refuse(*args: Any, **options: Any) -> Any:
        caller = sys._getframe(1).f_code
        assert caller.co_name == "to_host" or not caller.co_filename.startswith(SOURCE), f"{way} brings it to the host"
        return method(*args, **options)

    return refuse


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> Copies:
    """Count the bytes that `to_host` brings, and refuse every other way to the host."""
    counted, to_host = Copies(), conversion.to_host

    def spy(tensor: Any) -> Any:
        counted.add(tensor)
        return to_host(tensor.detach().as_subclass(torch.Tensor))

    for module in [each for name, each in sys.modules.items() if name.startswith("calibrant.")]:
        if getattr(module, "to_host", None) is to_host:
            monkeypatch.setattr(module, "to_host", spy)
    elsewhere = conversion.is_on_device
    monkeypatch.setattr(conversion, "is_on_device", lambda x: isinstance(x, OnDevice) or elsewhere(x))
    for way in WAYS:
        monkeypatch.setattr(torch.Tensor, way, refusing(way))
    return counted


def stand_in(x: Any, dtype: Any = None) -> Any:
    return torch.as_tensor(np.array(x)).to(dtype).as_subclass(OnDevice)


def on_gpu(x: Any, dtype: Any = None) -> Any:
    return torch.as_tensor(np.array(x)).to(dtype).cuda()


def plain(x: Any) -> Any:
    return x.as_subclass(torch.Tensor).cpu() if isinstance(x, torch.Tensor) else x


# ---------------------------------------------------------------- data

N, C = 1500, 6
RNG = np.random.default_rng(5)
LOGITS = (RNG.normal(size=(N, C)) * 2).astype(np.float32)
SOFT = np.exp(LOGITS.astype(np.float64))
SOFT /= SOFT.sum(axis=1, keepdims=True)
PROBS = SOFT.astype(np.float32)
TARGETS = np.array([RNG.choice(C, p=row) for row in SOFT])
WEIGHTS = RNG.random(N) + 0.1
COUNTS = RNG.integers(0, 4, N).astype(np.float64)
CLUSTERS = RNG.integers(0, 100, N)
GROUPS = np.array(["a", "b"])[TARGETS % 2]
SOME = np.where(RNG.random(N) < 0.2, -100, TARGETS)

#: What functions need beside probabilities and targets.
OPTIONS = {
    "multicalibration_error": {"groups": GROUPS},
    "top_k_calibration_error": {"k": 3},
    "top_r_calibration_error": {"r": 2},
    "certify_threshold": {"max_risk": 0.35},
}
#: Those of one event.
OF_ONE_EVENT = {"certify_two_sided"}


def public() -> Iterator[str]:
    for name in calibrant.__all__:
        function = getattr(calibrant, name)
        if inspect.isfunction(function) and {"probs", "targets"} <= set(inspect.signature(function).parameters):
            yield name


FUNCTIONS = [name for name in public() if name not in OF_ONE_EVENT]


def numbers(result: Any, name: str = "") -> dict[str, Any]:
    """Return all numbers of a result by name."""
    if hasattr(result, "to_dict"):
        result = result.to_dict()
    if isinstance(result, dict):
        parts: Any = result.items()
    elif isinstance(result, (list, tuple)) and not hasattr(result, "_fields"):
        parts = enumerate(result)
    elif isinstance(result, np.ndarray):
        return {name: result}
    elif hasattr(result, "__dataclass_fields__"):
        parts = ((field, getattr(result, field)) for field in result.__dataclass_fields__)
    else:
        return {name: result}
    return {key: value for part, each in parts for key, value in numbers(each, f"{name}.{part}").items()}


def assert_same(device: Any, host: Any, rtol: float = 5e-6) -> None:
    """Assert that results agree.

    The rounding of single precision, 6e-8, is larger relative to a difference, and larger by the root of the number of
    rows in a test statistic.
    """
    found, expected = numbers(device), numbers(host)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if isinstance(value, (float, np.ndarray)) and np.asarray(value).dtype.kind == "f":
            np.testing.assert_allclose(found[name], value, rtol=rtol, atol=2e-8, err_msg=name)
        elif isinstance(value, np.ndarray):
            np.testing.assert_array_equal(found[name], value, err_msg=name)
        else:
            assert found[name] == value or callable(value) or "object at" in repr(value), name


def host_of(x: Any, dtype: Any) -> Any:
    """Return what the host is passed for a tensor of this type: bfloat16 has no type of NumPy."""
    tensor = torch.as_tensor(x).to(dtype)
    return tensor if dtype is torch.bfloat16 else tensor.numpy()


# ---------------------------------------------------------------- every function


@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str, logits: bool, copies: Copies) -> None:
    function = partial(getattr(calibrant, name), **OPTIONS.get(name, {}), logits=logits)
    values = LOGITS if logits else PROBS
    result = function(stand_in(values), TARGETS)
    assert_same(result, function(values, TARGETS))
    classes = 3 * 15 * 8 * C * 2 + 512 * 8 * 4 * 4  # histograms, and the rows that stand for all
    each = 26 if logits and name == "recalibrate" else 17
    if name == "recalibrate":  # of classes
        return
    assert copies.total <= each * N + classes


def test_no_more_than_17_bytes_a_row(copies: Copies) -> None:
    """The rows are many, so that histograms and samples do not count."""
    n, n_classes = 60_000, 5
    rng = np.random.default_rng(3)
    probs, targets = rng.dirichlet(np.ones(n_classes), n).astype(np.float32), rng.integers(0, n_classes, n)
    read = stand_in(probs)
    for function in (
        expected_calibration_error,
        calibrant.classwise_calibration_error,
        calibrant.brier_score,
        calibrant.ranked_probability_score,
        partial(evaluate, n_resamples=0),
        partial(evaluate, level=None, classwise=False),
        partial(certify_threshold, max_risk=0.5),
        partial(recalibrate, notion="top-label", n_resamples=0),
        Monitor().update,
        CalibrationSketch().update,
    ):
        copies.total = 0
        function(read, targets)
        assert copies.total <= 17 * n + 300_000, function
    copies.total = 0
    compare({"a": read, "b": read}, targets)
    assert copies.total <= 2 * 17 * n + 300_000


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize("function", [evaluate, calibrant.classwise_calibration, calibrant.top_label_brier_score])
def test_types(function: Callable[..., Any], logits: bool, dtype: Any, copies: Copies) -> None:
    values = LOGITS if logits else PROBS
    result = function(stand_in(values, dtype), stand_in(TARGETS), logits=logits)
    assert_same(result, function(host_of(values, dtype), TARGETS, logits=logits))
    assert copies.total


@pytest.mark.parametrize(
    "options",
    [
        {"weights": WEIGHTS},
        {"weights": COUNTS},
        {"weights": stand_in(WEIGHTS)},
        {"clusters": CLUSTERS},
        {"clusters": stand_in(CLUSTERS)},
        {"groups": GROUPS},
        {"groups": GROUPS, "clusters": CLUSTERS, "weights": WEIGHTS},
        {"notion": "classwise"},
        {"notion": "classwise", "weights": WEIGHTS},
        {"notion": "multilabel"},
        {"class_names": list("abcdef")},
        {"ordered": True, "clusters": CLUSTERS},
    ],
    ids=lambda options: "-".join(f"{name}" for name in options),
)
@pytest.mark.parametrize("logits", [False, True])
def test_options_of_evaluate(options: dict[str, Any], logits: bool, copies: Copies) -> None:
    targets = np.eye(C, dtype=int)[TARGETS] if options.get("notion") == "multilabel" else TARGETS
    on_host = {name: plain(value) for name, value in options.items()}
    values = LOGITS if logits else PROBS
    found = evaluate(stand_in(values), stand_in(targets), logits=logits, n_resamples=20, **options)
    assert_same(found, evaluate(values, targets, logits=logits, n_resamples=20, **on_host))
    assert copies.total


@pytest.mark.parametrize("binning", ["uniform", "quantile"])
@pytest.mark.parametrize("notion", ["top-label", "classwise"])
def test_ignored_rows_may_hold_anything(notion: Any, binning: Any, copies: Copies) -> None:
    dirty = PROBS.copy()
    dirty[SOME == -100] = np.nan
    options: Any = {"notion": notion, "binning": binning, "ignore_index": -100}
    for function in (expected_calibration_error, calibrant.root_mean_square_calibration_error):
        found = function(stand_in(dirty), stand_in(SOME), **options)
        assert found == pytest.approx(function(PROBS, SOME, **options), rel=1e-6)
    weightless = np.where(SOME == -100, 0.0, WEIGHTS)
    kept = {"notion": notion, "binning": binning}
    found = expected_calibration_error(stand_in(dirty), TARGETS, weights=weightless, **kept)
    assert found == pytest.approx(expected_calibration_error(PROBS, TARGETS, weights=weightless, **kept), rel=1e-6)
    assert copies.total


@pytest.mark.parametrize("weights", [None, WEIGHTS, COUNTS], ids=["none", "fractions", "counts"])
@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize("threshold", [0.0, 0.01, 0.999999])
def test_quantile_bins_of_classes(threshold: float, logits: bool, weights: Any, copies: Copies) -> None:
    values = np.round(LOGITS * 4) / 4 if logits else np.round(PROBS * 64) / 64  # ties
    if not logits:
        values[:, 0] += 1 - values.sum(axis=1)
        values = np.where((values < 0).any(axis=1, keepdims=True), np.float32(1 / 6), values)
    for n_bins in (1, 15, 2_000):
        options: Any = {"threshold": threshold, "weights": weights, "logits": logits, "n_bins": n_bins}
        found = calibrant.thresholded_adaptive_calibration_error(stand_in(values), SOME, ignore_index=-100, **options)
        expected = calibrant.thresholded_adaptive_calibration_error(values, SOME, ignore_index=-100, **options)
        assert found == pytest.approx(expected, rel=1e-6, nan_ok=True)
    errors = calibrant.classwise_calibration(stand_in(values), TARGETS, binning="quantile", logits=logits)
    assert_same(errors, calibrant.classwise_calibration(values, TARGETS, binning="quantile", logits=logits))
    assert copies.total


@pytest.mark.parametrize(
    "shape", [(N, C), (N // 4, C, 4), (N // 4, C, 2, 2), (1, C, N)], ids=lambda shape: "x".join(map(str, shape))
)
@pytest.mark.parametrize("one_hot", [False, True])
def test_shapes(shape: tuple[int, ...], one_hot: bool, copies: Copies) -> None:
    depth = math.prod(shape[2:])
    values = np.moveaxis(PROBS.reshape(shape[0], depth, C), 2, 1).reshape(shape)
    targets = TARGETS.reshape(shape[0], *shape[2:])
    if one_hot:
        targets = np.moveaxis(np.eye(C)[targets], -1, 1)
    turned = torch.from_numpy(np.ascontiguousarray(np.moveaxis(values, 1, -1))).movedim(-1, 1).as_subclass(OnDevice)
    expected = evaluate(values, targets, clusters=False, level=None)
    columns = torch.from_numpy(np.ascontiguousarray(values.T)).permute(*range(values.ndim)[::-1]).as_subclass(OnDevice)
    for device in (stand_in(values), turned, columns):  # any strides
        assert_same(evaluate(device, stand_in(targets), clusters=False, level=None), expected)
    assert_same(evaluate(stand_in(values), targets, n_resamples=20), evaluate(values, targets, n_resamples=20))
    assert copies.largest <= 8 * N  # the targets


def test_arrays_that_cannot_be_written_to(copies: Copies) -> None:
    targets, weights = TARGETS.copy(), WEIGHTS.copy()
    targets.flags.writeable = weights.flags.writeable = False
    found = calibrant.classwise_calibration_error(stand_in(PROBS), targets, weights=weights)
    assert found == pytest.approx(calibrant.classwise_calibration_error(PROBS, targets, weights=weights), rel=1e-6)
    assert copies.total


def test_two_classes_and_one_event(copies: Copies) -> None:
    p, y = PROBS[:, 0], (TARGETS == 0).astype(int)
    two = np.stack([1 - p, p], axis=1)
    for notion in ("positive", "top-label", "classwise"):
        for logits, values in ((False, two), (True, np.log(two))):
            options: Any = {"notion": notion, "logits": logits}
            assert_same(evaluate(stand_in(values), stand_in(y), **options), evaluate(values, y, **options))
    for values in (p, p[:, None]):
        for targets in (y, y.astype(bool), y.astype(np.float32)):
            copies.total = 0
            found = evaluate(stand_in(values), stand_in(targets))
            assert copies.total == N * (4 + targets.itemsize)
            assert_same(found, evaluate(values, targets), rtol=1e-12)
    options = {"yes_risk": 0.3, "no_risk": 0.3}
    assert_same(certify_two_sided(stand_in(p), stand_in(y), **options), certify_two_sided(p, y, **options))


# ---------------------------------------------------------------- decisions, sketches


@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize("options", [{}, {"clusters": CLUSTERS}, {"groups": GROUPS}, {"weights": WEIGHTS}], ids=str)
def test_compare(logits: bool, options: dict[str, Any], copies: Copies) -> None:
    first, second = (LOGITS, LOGITS * 0.5) if logits else (PROBS, PROBS[:, ::-1].copy())
    found = compare({"a": stand_in(first), "b": stand_in(second)}, TARGETS, logits=logits, **options)
    assert_same(found, compare({"a": first, "b": second}, TARGETS, logits=logits, **options))
    assert copies.largest <= 4 * N


@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize("options", [{"notion": "top-label"}, {"method": "temperature"}, {"method": "vector"}], ids=str)
def test_recalibrate(logits: bool, options: dict[str, Any], copies: Copies) -> None:
    values = LOGITS if logits else PROBS
    found = recalibrate(stand_in(values), TARGETS, logits=logits, **options)
    assert_same(found, recalibrate(values, TARGETS, logits=logits, **options))
    if "notion" in options:
        assert copies.total <= (13 + 9 * logits) * N + 16
    else:  # the maps of classes are fitted to a copy in host memory, one
        assert copies.total <= (17 + 4 * C) * N + 10_000 + 512 * 8 * 4 * 4


def test_certify_each_class(copies: Copies) -> None:
    options: Any = {"max_risk": 0.5, "per_class": True}
    assert_same(certify_threshold(stand_in(PROBS), TARGETS, **options), certify_threshold(PROBS, TARGETS, **options))
    assert copies.total <= 2 * 17 * N


def test_monitor(copies: Copies) -> None:
    watched = []
    for move in (stand_in, np.asarray):
        monitor = Monitor()
        for part in (slice(0, 700), slice(700, N)):
            monitor.update(move(PROBS[part]), move(TARGETS[part]), clusters=CLUSTERS[part])
        watched.append(monitor)
    assert watched[0].log_e == pytest.approx(watched[1].log_e, rel=1e-6)
    assert watched[0].verdict() == watched[1].verdict()
    assert copies.largest <= 8 * N


@pytest.mark.parametrize("notion", [None, "classwise"])
def test_sketches_and_tables(notion: Any, copies: Copies) -> None:
    sketches = []
    for move in (stand_in, np.asarray):
        sketch = CalibrationSketch(notion=notion)
        sketch.update(move(PROBS), move(TARGETS), weights=COUNTS)
        sketch.update(move(np.zeros((0, C), np.float32)), move(np.zeros(0, np.int64)))
        sketches.append(evaluate(sketch))
    assert_same(*sketches)
    table = ReliabilityTable.from_predictions(stand_in(PROBS), TARGETS)
    assert np.array_equal(table.scores, ReliabilityTable.from_predictions(PROBS, TARGETS).scores)
    assert copies.largest <= 8 * N


# ---------------------------------------------------------------- errors


def changed(values: Any, row: int, column: Any, value: Any) -> Any:
    values = np.array(values)
    values[row, column] = value
    return values


SINGLE = np.float32([[0.5, 0.5], [0.2, 0.8]])
FRACTIONS = np.eye(C)[TARGETS] * 0.9 + 0.1 / C
WRONG = [
    (changed(PROBS, 7, 2, np.nan), TARGETS, {}),
    (changed(PROBS, 7, 2, np.inf), TARGETS, {}),
    (changed(PROBS, 1499, 5, 1.5), TARGETS, {}),
    (changed(changed(PROBS, 9, 1, -0.2), 3, slice(None), 0.3), TARGETS, {}),
    (changed(PROBS, 3, 2, 1.0005), TARGETS, {}),
    (PROBS * 100, TARGETS, {}),
    ((PROBS * 0 + 7).astype(np.int64), TARGETS, {}),
    (changed(PROBS, slice(None), 3, TARGETS), TARGETS, {}),
    (changed(PROBS, slice(None), 3, np.arange(N)), TARGETS, {}),
    (LOGITS, TARGETS, {}),
    (changed(LOGITS, 4, 1, np.nan), TARGETS, {"logits": True}),
    (changed(LOGITS, 4, 1, np.inf), TARGETS, {"logits": True}),
    (changed(LOGITS, 4, slice(None), -np.inf), TARGETS, {"logits": True}),
    (PROBS, changed(TARGETS[:, None], 5, 0, C)[:, 0], {}),
    (PROBS, changed(TARGETS[:, None], 5, 0, -1)[:, 0], {}),
    (PROBS, TARGETS + 1, {}),
    (PROBS, TARGETS + 0.5, {}),
    (PROBS, TARGETS[:-1], {}),
    (PROBS, np.eye(C)[TARGETS] * 2, {}),
    (PROBS, FRACTIONS, {}),
    (np.eye(C)[TARGETS], PROBS, {}),
    (PROBS[:1], np.eye(C, dtype=int)[:1, :] * 0, {}),
    (np.round(PROBS), TARGETS + 0.25, {}),
    (PROBS, TARGETS, {"class_names": ["a"]}),
    (PROBS, TARGETS, {"class_names": list("aabcde")}),
    (PROBS, TARGETS * 0 + 3, {"ignore_index": 3}),
    (PROBS, TARGETS, {"weights": WEIGHTS - 5}),
    (PROBS, TARGETS, {"notion": "positive"}),
    (PROBS, TARGETS, {"notion": "multilabel"}),
    (PROBS.astype(np.complex64), TARGETS, {}),
    (PROBS[:0], TARGETS[:0], {}),
]


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_errors_are_those_of_the_host(case: int, copies: Copies) -> None:
    values, targets, options = WRONG[case]
    for function in (evaluate, expected_calibration_error):
        taken = {name: x for name, x in options.items() if name in inspect.signature(function).parameters}
        if taken != options:
            continue
        with pytest.raises(CalibrantError) as on_host:
            function(values, targets, **options)
        for move in (stand_in, np.asarray):  # the targets
            with pytest.raises(CalibrantError) as on_device:
                function(stand_in(values), move(targets), **options)
            assert str(on_device.value) == str(on_host.value)
            assert vars(on_device.value).get("row") == vars(on_host.value).get("row")
    assert copies.largest <= max(8 * N, 4 * C * 4) or options.get("notion") == "multilabel" or values.dtype.kind == "c"


@pytest.mark.parametrize("name", ["ranked_probability_score", "spherical_score", "squared_kernel_calibration_error"])
def test_errors_of_functions_of_all_classes(name: str, copies: Copies) -> None:
    wrong = changed(PROBS, 7, 2, np.nan)
    with pytest.raises(CalibrantError) as on_host:
        getattr(calibrant, name)(wrong, TARGETS)
    with pytest.raises(CalibrantError) as on_device:
        getattr(calibrant, name)(stand_in(wrong), TARGETS)
    assert str(on_device.value) == str(on_host.value)
    assert copies.total <= N + 4 * C


def test_rounding_is_read_and_counted(copies: Copies) -> None:
    rounded = PROBS.copy()
    certain = np.float32([1 + 2**-22, -(2.0**-23), 0, 0, 0, 0])
    rounded[:3] = certain
    rounded[0] = np.roll(certain, TARGETS[0])
    on_host, on_device = evaluate(rounded, TARGETS), evaluate(stand_in(rounded), TARGETS)
    assert_same(on_device, on_host)
    assert_same(recalibrate(stand_in(rounded), TARGETS), recalibrate(rounded, TARGETS))
    assert copies.total


def test_blocks_do_not_matter(copies: Copies, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = evaluate(stand_in(PROBS), TARGETS).to_dict()
    functions = ("ranked_probability_score", "squared_kernel_calibration_error", "classwise_calibration_error")
    others = [getattr(calibrant, name)(stand_in(PROBS), TARGETS) for name in functions]
    monkeypatch.setattr(device_rows, "_BLOCK", 100 * C + 1)
    assert_same(evaluate(stand_in(PROBS), TARGETS).to_dict(), expected, rtol=1e-12)
    for name, value in zip(functions, others, strict=True):
        assert_same(getattr(calibrant, name)(stand_in(PROBS), TARGETS), value, rtol=1e-12)
    assert copies.total


@pytest.mark.parametrize("way", ["np.asarray(x)", "bool(x)", "float(x)", "x.cpu()", "x.item()", "x.tolist()"])
def test_other_ways_to_the_host_are_refused(way: str, copies: Copies) -> None:
    inside: dict[str, Any] = {"np": np}
    exec(compile(f"def peek(x):\n    return {way}", f"{SOURCE}/kernels/device_rows.py", "exec"), inside)
    with pytest.raises(AssertionError, match="brings it to the host"):
        inside["peek"](stand_in(0.5))
    assert not copies.total


# ---------------------------------------------------------------- other libraries


class OfLibrary:
    """An array of another library on a GPU, whose memory torch shares through DLPack."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    shape = property(lambda self: tuple(self.tensor.shape))

    def get(self) -> Any:
        return conversion.to_host(self.tensor)

    def __dlpack__(self, **_: Any) -> Any:
        raise AssertionError("from_dlpack is replaced")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


@pytest.mark.parametrize("library", ["cupy", "jaxlib"])
def test_arrays_of_other_libraries(library: str, copies: Copies, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = type("ndarray", (OfLibrary,), {"__module__": library})
    fake = types.ModuleType(library.removesuffix("lib"))
    holder = fake if library == "cupy" else types.SimpleNamespace()
    holder.from_dlpack = kind
    if library != "cupy":
        fake.dlpack = holder  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, fake.__name__, fake)
    monkeypatch.setattr("torch.utils.dlpack.from_dlpack", lambda x: x.tensor)
    probs, targets = kind(stand_in(PROBS)), kind(stand_in(TARGETS))
    assert_same(evaluate(probs, targets), evaluate(PROBS, TARGETS))
    fix, found = recalibrate(PROBS, TARGETS), certify_threshold(PROBS, TARGETS, max_risk=0.35)
    mapped, accepted = fix.map(probs), found.accepts(kind(stand_in(PROBS.max(axis=1))))
    assert type(mapped) is type(accepted) is kind
    assert copies.total
    np.testing.assert_allclose(plain(mapped.tensor).numpy(), fix.map(PROBS), rtol=1e-6)
    assert np.array_equal(plain(accepted.tensor).numpy(), found.accepts(PROBS.max(axis=1)))


@pytest.mark.parametrize("failure", [AssertionError("not compiled with CUDA"), BufferError("no such type"), None])
def test_other_libraries_where_torch_has_no_cuda(failure: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Array(OfLibrary):
        def __array__(self, *_: Any, **__: Any) -> Any:
            return self.tensor.numpy()

    def refuse(_: Any) -> Any:
        raise failure

    if failure is None:  # no torch at all
        monkeypatch.setitem(sys.modules, "torch.utils.dlpack", None)
    else:
        monkeypatch.setattr("torch.utils.dlpack.from_dlpack", refuse)
    array = Array(torch.from_numpy(PROBS))
    assert expected_calibration_error(array, TARGETS) == expected_calibration_error(PROBS, TARGETS)


def test_cuda_array_interface(copies: Copies, monkeypatch: pytest.MonkeyPatch) -> None:
    device = stand_in(PROBS)
    numba = types.SimpleNamespace(__cuda_array_interface__={}, shape=PROBS.shape)
    monkeypatch.setattr(
        torch, "as_tensor", lambda x, **options: {(id(numba), "cuda"): device}[id(x), options["device"]]
    )
    assert_same(evaluate(numba, TARGETS), evaluate(PROBS, TARGETS))
    assert copies.total


# ---------------------------------------------------------------- maps and thresholds

EVENT = (PROBS[:, 0], TARGETS == 0)
OF_EVENT, OF_CLASSES = ("identity", "cox", "beta", "isotonic", "histogram"), ("ts", "vector", "matrix")


@cache
def map_of(method: str) -> CalibrationMap:
    data = EVENT if method in OF_EVENT else (PROBS, TARGETS)
    return recalibrate(*data, method=method, n_resamples=0).map


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize("method", [*OF_EVENT, *OF_CLASSES])
def test_maps_return_what_came_in(method: str, logits: bool, dtype: Any, copies: Copies) -> None:
    fitted = map_of(method)
    values = LOGITS if logits else PROBS
    values = torch.from_numpy(values if fitted.n_classes else values[:, 0]).to(dtype)
    double = values.double().numpy()
    if dtype is torch.float16:
        double = double.astype(np.float16)  # whose sums may be as far from 1
    elif dtype is torch.bfloat16 and fitted.n_classes and not logits:  # has no type of NumPy
        expected = fitted(np.log(double), logits=True)
    if dtype is not torch.bfloat16 or not fitted.n_classes or logits:
        expected = fitted(double, logits=logits)
    for tensor in (values, values.as_subclass(OnDevice)):
        mapped = fitted(tensor, logits=logits)
        assert type(mapped) is type(tensor)
        assert mapped.dtype == dtype
        assert mapped.device == tensor.device
        rounding = max(float(torch.finfo(dtype).eps), 1e-12)
        least = 2 * torch.finfo(dtype).tiny
        np.testing.assert_allclose(plain(mapped).double().numpy(), expected, rtol=rounding, atol=least)
    assert copies.total <= 4  # whether all scores are valid, of two tensors


def test_maps_of_labels_and_of_integers(copies: Copies) -> None:
    labels = (np.random.default_rng(2).random((N, C)) < PROBS).astype(int)
    fitted = recalibrate(PROBS, labels, notion="multilabel").fitted()
    np.testing.assert_allclose(plain(fitted(stand_in(PROBS))).numpy(), fitted(PROBS), rtol=1e-6)
    whole = map_of("cox")(stand_in([0, 1]))
    assert whole.dtype == torch.float32
    np.testing.assert_allclose(plain(whole).numpy(), map_of("cox")(np.array([0, 1])), rtol=1e-6, atol=1e-37)
    single = map_of("cox")(stand_in(0.25))
    assert single.shape == ()
    assert copies.total


@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize("method", ["cox", "ts"])
def test_maps_refuse_what_they_refuse_on_the_host(method: str, logits: bool, copies: Copies) -> None:
    fitted = map_of(method)
    wrong: list[Any] = [np.float32(np.nan)]
    if fitted.n_classes is None:
        wrong += [np.float32([0.5, np.nan]), np.float32([[0.5, 0.5], [1.5, 0.5]])]
    else:
        wrong += [changed(PROBS, 3, 2, np.nan), PROBS[:, :3], changed(LOGITS, 2, slice(None), -np.inf)]
        wrong += [changed(PROBS, 5, 2, -0.5), changed(PROBS, 5, slice(None), PROBS[5] * 1.25), PROBS.astype(complex)][
            : 3 - logits
        ]
    for values in wrong:
        if values.dtype.kind == "c":
            with pytest.raises(CalibrantError, match="real numbers"):
                fitted(stand_in(values), logits=logits)
            continue
        try:
            fitted(values, logits=logits)
        except CalibrantError as error:
            expected = str(error)
        else:
            assert logits
            continue
        for tensor in (stand_in(values), torch.from_numpy(np.array(values))):
            with pytest.raises(CalibrantError) as refused:
                fitted(tensor, logits=logits)
            assert str(refused.value) == expected
    assert copies.total <= 1000


def test_drift_of_a_map(copies: Copies) -> None:
    assert map_of("ts").check(stand_in(PROBS)) == map_of("ts").check(PROBS)
    assert copies.total == 4 * N + 2  # the largest probabilities, and two answers of the check
    assert map_of("cox").check(stand_in(PROBS[:, 0])) == map_of("cox").check(PROBS[:, 0])


def test_thresholds_accept_where_the_scores_are(copies: Copies) -> None:
    found, scores = certify_threshold(PROBS, TARGETS, max_risk=0.35), PROBS.max(axis=1)
    assert found.certified
    none = copy.copy(found)
    vars(none)["value"] = None
    for threshold in (found, none):
        for dtype in (torch.float16, torch.float32, torch.float64):
            accepted = threshold.accepts(stand_in(scores, dtype))
            assert type(accepted) is OnDevice
            assert accepted.dtype == torch.bool
            assert np.array_equal(plain(accepted).numpy(), threshold.accepts(host_of(scores, dtype)))
        assert isinstance(threshold.accepts(torch.from_numpy(scores)), torch.Tensor)
        assert isinstance(threshold.accepts(scores), np.ndarray)
    with pytest.raises(CalibrantError, match="scores: expected real numbers, got dtype complex64"):
        found.accepts(stand_in(scores, torch.complex64))
    assert not copies.total


# ---------------------------------------------------------------- on a GPU


@pytest.mark.skipif(not GPU, reason="needs a GPU")
@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_on_a_gpu(name: str, logits: bool) -> None:
    function = partial(getattr(calibrant, name), **OPTIONS.get(name, {}), logits=logits)
    values = LOGITS if logits else PROBS
    assert_same(function(on_gpu(values), on_gpu(TARGETS)), function(values, TARGETS))


@pytest.mark.skipif(not GPU, reason="needs a GPU")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("logits", [False, True])
def test_types_on_a_gpu(logits: bool, dtype: Any) -> None:
    values = LOGITS if logits else PROBS
    result = evaluate(on_gpu(values, dtype), on_gpu(TARGETS), logits=logits)
    assert_same(result, evaluate(host_of(values, dtype), TARGETS, logits=logits))


@pytest.mark.skipif(not GPU, reason="needs a GPU")
@pytest.mark.parametrize("case", range(len(WRONG)))
def test_errors_on_a_gpu(case: int) -> None:
    values, targets, options = WRONG[case]
    with pytest.raises(CalibrantError) as on_host:
        evaluate(values, targets, **options)
    with pytest.raises(CalibrantError) as on_device:
        evaluate(on_gpu(values), on_gpu(targets), **options)
    assert str(on_device.value) == str(on_host.value)


@pytest.mark.skipif(not GPU, reason="needs a GPU")
def test_only_results_wait_for_a_gpu(copies: Copies, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside `to_host` and the sending of targets nothing waits."""
    read, targets = on_gpu(PROBS), on_gpu(TARGETS)
    expected_calibration_error(read, targets)  # kernels are compiled
    for module in (conversion, device_rows):
        counted = module.to_host

        def waiting(tensor: Any, counted: Callable[[Any], Any] = counted) -> Any:
            mode = torch.cuda.get_sync_debug_mode()
            torch.cuda.set_sync_debug_mode("default")
            try:
                return counted(tensor)
            finally:
                torch.cuda.set_sync_debug_mode(mode)

        monkeypatch.setattr(module, "to_host", waiting)
    sent = device_rows.DeviceRows._sent

    def send(self: Any, column: Any) -> Any:
        torch.cuda.set_sync_debug_mode("default")
        try:
            return sent(self, column)
        finally:
            torch.cuda.set_sync_debug_mode("error")

    monkeypatch.setattr(device_rows.DeviceRows, "_sent", send)
    torch.cuda.set_sync_debug_mode("error")
    try:
        expected_calibration_error(read, targets)
        calibrant.brier_score(read, targets)
        calibrant.classwise_calibration_error(read, targets)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert copies.total <= 26 * N * 3


@pytest.mark.skipif(not GPU, reason="needs a GPU")
@pytest.mark.parametrize("method", [*OF_EVENT, *OF_CLASSES])
def test_maps_on_a_gpu(method: str) -> None:
    fitted = map_of(method)
    values = PROBS if fitted.n_classes else PROBS[:, 0]
    mapped = fitted(on_gpu(values))
    assert mapped.device.type == "cuda"
    assert mapped.dtype == torch.float32
    np.testing.assert_allclose(mapped.cpu().numpy(), fitted(values), rtol=1e-6)
    with pytest.raises(CalibrantError), warnings.catch_warnings():
        fitted(on_gpu(values * np.nan))
