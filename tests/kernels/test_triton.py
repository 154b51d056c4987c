"""Triton's kernels against torch operations: rows, states of metrics, bits, launches, and code for a GPU.

They run on a GPU, or on the host where TRITON_INTERPRET=1 is set. The other tests of tensors run through the kernels
too if it is set (tests/conftest.py).
"""

from __future__ import annotations

import inspect
import math
import os
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton", reason="Triton is not installed")
pytest.importorskip("torchmetrics")

from calibrant.kernels import fused, tensors, triton_rows  # noqa: E402
from calibrant.torch import adding  # noqa: E402
from calibrant.torch.base import ProbabilityMetric  # noqa: E402

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
HAS_GPU = torch.cuda.is_available() and not INTERPRETED
DEVICE = torch.device("cuda" if HAS_GPU else "cpu")
pytestmark = pytest.mark.every_value  # `.ci/run` has one quick run of these with Triton

runs = pytest.mark.skipif(not (INTERPRETED or HAS_GPU), reason="needs a GPU, or TRITON_INTERPRET=1")

import calibrant.torch as ct  # noqa: E402

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
FLOATS = ("top", "p_target", "log_p_target", "squares", "largest")


@pytest.fixture(params=["operations", "kernels"])
def way(request, monkeypatch):
    """Metrics read tensors of the host as those of a device."""
    monkeypatch.setattr(ProbabilityMetric, "_read_host", ProbabilityMetric._read_device)
    by(monkeypatch, request.param)


def by(monkeypatch, way):
    monkeypatch.setattr(tensors, "kernels_on", lambda _: fused if way == "kernels" else None)


def batch(n, size, dtype, *, logits, seed=0):
    """Return predictions and targets; of every kind of row there are some."""
    generator = torch.Generator().manual_seed(1000 * seed + size)
    z = torch.randn((n, size), generator=generator, dtype=torch.float64) * 3
    x = z if logits else z.softmax(1)
    y = torch.randint(0, size, (n,), generator=generator)
    for row, fill in enumerate([math.nan, math.inf, -math.inf]):
        if n > row + 20:
            x[row + 5, 0] = fill
    if n > 30:
        x[10] = -math.inf if logits else 0.0
        x[11] = x[11, 0]  # ties
        x[12, :2] = x[12].max() + (1.0 if logits else 0.0)
        x[13] *= 0.9
        y[14], y[15] = -7, size
        y[16::9] = -1
    return x.to(dtype).to(DEVICE), y.to(DEVICE)


def close(a, b, dtype):
    near = {"rtol": 1e-13, "atol": 1e-15} if dtype == torch.float64 else {"rtol": 3e-6, "atol": 2e-7}
    torch.testing.assert_close(a, b, equal_nan=True, **near)


# ---------------------------------------------------------------- rows


@runs
@pytest.mark.covering
@dtypes
@pytest.mark.parametrize(
    ("size", "n"), [(2, 1), (2, 333), (3, 0), (3, 57), (10, 130), (100, 41), (1000, 37), (5000, 3)]
)
@pytest.mark.parametrize("logits", [False, True, "neither"], ids=["probs", "logits", "undeclared"])
@pytest.mark.parametrize("ignore_index", [None, -1])
def test_kernels_read_rows_as_operations_do(size, n, logits, ignore_index, dtype, monkeypatch):
    x, y = batch(n, size, dtype, logits=logits is not False)
    found = []
    for way in ("operations", "kernels"):
        by(monkeypatch, way)
        for scale in (True, False) if logits == "neither" else (logits,):
            scale = torch.tensor(scale, device=DEVICE) if logits == "neither" else scale
            found.append(tensors.read_blocks(x, y, logits=scale, ignore_index=ignore_index, tolerance=0.02))
    for a, b in zip(found[: len(found) // 2], found[len(found) // 2 :], strict=True):
        for name in FLOATS[: 4 if n > 20 else 5]:  # of faulty rows the largest value may be anything
            close(getattr(a, name), getattr(b, name), dtype)
        assert torch.equal(a.correct, b.correct)
        assert torch.equal(a.faults, b.faults)
        assert torch.equal(a.normalised, b.normalised)


@runs
@pytest.mark.parametrize("size", [3, 1000])
@pytest.mark.parametrize("layout", ["transposed", "strided", "images", "floats"])
def test_any_layout_is_read(size, layout, monkeypatch):
    x, y = batch(24, size, torch.float32, logits=True)
    if layout == "transposed":
        views, y = [x, x.T.contiguous().T], [y, y]
    elif layout == "strided":
        views, y = [x, torch.stack([x, x], 2)[..., 0]], [y, y.repeat_interleave(2)[::2]]
    elif layout == "images":
        deep = x.reshape(2, 3, 4, size).movedim(-1, 1).contiguous()
        views, y = [x, deep], [y, y.reshape(2, 3, 4)]
    else:
        views, y = [x, x], [y, y.float()]
    by(monkeypatch, "kernels")
    plain, other = (
        tensors.read_blocks(view, one.reshape(-1), logits=True, ignore_index=None, tolerance=1e-3)
        for view, one in zip(views, y, strict=True)
    )
    for a, b in zip(plain, other, strict=True):
        torch.testing.assert_close(a, b, equal_nan=True, rtol=2e-6, atol=1e-7)  # in chunks, or a class at a time


# ---------------------------------------------------------------- states

CLASSES = {
    "bins": lambda k, **how: ct.CalibrationError("multiclass", num_classes=k, **how),
    "many bins": lambda k, **how: ct.CalibrationError("multiclass", num_bins=100, num_classes=k, **how),
    "bins of classes": lambda k, **how: ct.CalibrationError("multiclass", num_classes=k, notion="classwise", **how),
    "classwise": lambda k, **how: ct.ClasswiseCalibrationError(num_classes=k, **how),
    "adaptive": lambda k, **how: ct.CalibrationError("multiclass", num_classes=k, adaptive=True, **how),
    "sketch": lambda k, **how: ct.CalibrationError("multiclass", adaptive=True, num_classes=k, state="sketch", **how),
    "sketch of classes": lambda k, **how: ct.CalibrationError(
        "multiclass", adaptive=True, num_classes=k, state="sketch", notion="classwise", **how
    ),
    "brier": lambda _, **how: ct.BrierScore(**how),
    "likelihood": lambda _, **how: ct.NegativeLogLikelihood(**how),
    "report": lambda _, **how: ct.CalibrationReport(level=None, **how),
    "report, sketch": lambda _, **how: ct.CalibrationReport(level=None, state="sketch", **how),
    "positive": lambda _, **how: ct.AUROC(state="sketch", **({"notion": "positive"} if _ == 2 else {}), **how),
}
SINGLE = {
    "bins": lambda **how: ct.CalibrationError("binary", **how),
    "bins of predicted": lambda **how: ct.CalibrationError("binary", notion="top-label", **how),
    "adaptive": lambda **how: ct.CalibrationError("binary", adaptive=True, **how),
    "smooth": lambda **how: ct.SmoothCalibrationError(kernel_type="reflected", method="exact", state="sketch", **how),
    "risk": lambda **how: ct.AURC(state="sketch", **how),
    "brier": lambda **how: ct.BrierScore(**how),
    "report": lambda **how: ct.CalibrationReport(level=None, **how),
}


def states_after(make, batches):
    metric = make().to(DEVICE)
    for each in batches:
        metric.update(*each)
    return {
        name: torch.cat(state) if isinstance(state, list) and state else state
        for name, state in metric.metric_state.items()
    }


def agree(one, other):
    for name, state in one.items():
        if name in ("singles", "doubles") and len(state):  # scores of the last place, with their outcomes
            assert torch.equal(state & 1, other[name] & 1)
            assert (state - other[name]).abs().max() <= 1 << (8 if name == "singles" else 14)
        elif name.startswith("cell_"):  # a score at an edge may be in the next cell
            torch.testing.assert_close(state.sum(-1), other[name].sum(-1), rtol=2e-6, atol=1e-7)
            assert (state - other[name]).abs().sum() <= 2e-6 * state.abs().sum() + (4 if name == "cell_counts" else 1)
        elif isinstance(state, torch.Tensor):
            torch.testing.assert_close(state, other[name], rtol=2e-6, atol=2e-7)


def fine(n, size, dtype, *, logits, seed=0):
    generator = torch.Generator().manual_seed(100 * seed + size)
    z = torch.randn((n, size), generator=generator, dtype=torch.float64) * 3
    y = torch.randint(0, size, (n,), generator=generator)
    y[::7] = -1
    return (z if logits else z.softmax(1)).to(dtype).to(DEVICE), y.to(DEVICE)


@runs
@pytest.mark.covering
@pytest.mark.parametrize("name", CLASSES)
@dtypes
@pytest.mark.parametrize("logits", [False, True], ids=["probs", "logits"])
@pytest.mark.parametrize("declared", [False, True], ids=["undeclared", "declared"])
def test_kernels_add_classes_as_operations_do(name, dtype, logits, declared, monkeypatch):
    monkeypatch.setattr(ProbabilityMetric, "_read_host", ProbabilityMetric._read_device)
    how = {"ignore_index": -1, "logits": logits if declared else None, "validate_args": dtype != torch.bfloat16}
    for size, n in ((3, 40), (2, 300)):
        batches = [fine(n, size, dtype, logits=logits, seed=seed) for seed in range(2)]
        found = []
        for way in ("operations", "kernels"):
            by(monkeypatch, way)
            found.append(states_after(lambda size=size: CLASSES[name](size, **how), batches))
        agree(*found)


@runs
@pytest.mark.covering
@pytest.mark.parametrize("name", SINGLE)
@dtypes
@pytest.mark.parametrize("logits", [False, True], ids=["probs", "logits"])
def test_kernels_add_scores_as_operations_do(name, dtype, logits, monkeypatch):
    monkeypatch.setattr(ProbabilityMetric, "_read_host", ProbabilityMetric._read_device)
    generator, batches = torch.Generator().manual_seed(3), []
    for n in (33, 1000):
        z = torch.randn(n, generator=generator, dtype=torch.float64) * 3
        y = (torch.rand(n, generator=generator) < 0.5).to(torch.int32 if logits else torch.float32)
        y[::5] = -1
        batches.append(((z if logits else z.sigmoid()).to(dtype).to(DEVICE), y.to(DEVICE)))
    for declared in (None, logits):
        found = []
        for way in ("operations", "kernels"):
            by(monkeypatch, way)
            found.append(states_after(lambda how=declared: SINGLE[name](ignore_index=-1, logits=how), batches))
        agree(*found)


@runs
@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("faulty", [math.nan, math.inf, 1.5, "sum", "target"])
@pytest.mark.parametrize("name", ["bins", "sketch", "classwise", "report"])
def test_faults_are_counted_alike(name, faulty):
    x, y = fine(40, 3, torch.float32, logits=False)
    if faulty == "target":
        y[3] = 9
    elif faulty == "sum":
        x[3] *= 0.5
    else:
        x[3, 1] = faulty
    metric = CLASSES[name](3, ignore_index=-1, logits=False).to(DEVICE)
    metric.update(x, y)
    kinds = {"sum": 2, "target": 3, 1.5: 1}
    assert metric.faults.tolist() == [int(k == kinds.get(faulty, 0)) for k in range(5)]
    with pytest.raises(ValueError, match="1 row with"):
        metric.compute()


@runs
@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("name", ["bins", "sketch", "report"])
def test_probabilities_after_logits_are_counted(name):
    metric = CLASSES[name](3).to(DEVICE)
    metric.update(*fine(40, 3, torch.float32, logits=True)[:1], torch.zeros(40, dtype=torch.int64, device=DEVICE))
    metric.update(*fine(40, 3, torch.float32, logits=False)[:1], torch.zeros(40, dtype=torch.int64, device=DEVICE))
    assert metric.faults.tolist() == [0, 0, 0, 0, 1]


@runs
@pytest.mark.usefixtures("way")
def test_what_counts_as_true_declares_logits_and_an_empty_batch_decides_nothing():
    x, y = fine(40, 3, torch.float32, logits=True)
    found = []
    for logits in (1, True, None, 1.0, np.True_):
        metric = CLASSES["bins"](3, ignore_index=-1, logits=logits).to(DEVICE)
        metric.update(x[:0], y[:0])
        metric.update(x, y)
        found.append(metric.compute().item())
    assert found == found[:1] * 5


@runs
@pytest.mark.usefixtures("way")
def test_rows_of_zeros_are_in_the_bins_of_classes():
    metric = CLASSES["classwise"](3, logits=False, validate_args=False, ignore_index=-1).to(DEVICE)
    metric.update(torch.zeros(4, 3, device=DEVICE), torch.tensor([0, 1, -1, 2], device=DEVICE))
    assert metric.counts.sum().item() == 9


@runs
@pytest.mark.usefixtures("way")
def test_counters_go_beyond_31_bits():
    metric, (x, y) = (
        ct.CalibrationError("multiclass", num_classes=3, num_bins=1),
        fine(40, 3, torch.float32, logits=True),
    )
    metric = metric.to(DEVICE)
    metric.counts += 1 << 40
    metric.positives += 1 << 40
    metric.update(x, y.clamp(min=0))
    right = int((x.argmax(1) == y.clamp(min=0)).sum())
    assert metric.counts.tolist() == [(1 << 40) + 40]
    assert metric.positives.tolist() == [(1 << 40) + right]


@runs
@pytest.mark.parametrize("name", CLASSES)
def test_bits_depend_on_no_block_and_no_order(name, monkeypatch):
    """Sums of scores of whole predictions are added in the order of the rows; all other numbers in any order."""
    monkeypatch.setattr(ProbabilityMetric, "_read_host", ProbabilityMetric._read_device)
    by(monkeypatch, "kernels")
    size = 20 if name in ("sketch of classes", "bins") else 410  # a thread a row, or in chunks
    x, y = fine(300 if size == 20 else 24, size, torch.float32, logits=True)
    first = states_after(lambda: CLASSES[name](x.shape[1], ignore_index=-1), [(x, y)])
    again = states_after(lambda: CLASSES[name](x.shape[1], ignore_index=-1), [(x, y)])
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1)).to(DEVICE)
    mixed = states_after(lambda: CLASSES[name](x.shape[1], ignore_index=-1), [(x[order], y[order])])
    for constant, number in {"_THREADS": 8, "_WARPS": 4}.items():
        monkeypatch.setattr(fused, constant, number)
    adding._adding.cache_clear()
    waves = states_after(lambda: CLASSES[name](x.shape[1], ignore_index=-1), [(x, y)])
    for state, value in first.items():
        if not isinstance(value, torch.Tensor):
            continue
        assert torch.equal(value, again[state])
        if state in ("brier_sum", "nll_sum", "brier_squares", "nll_squares"):
            torch.testing.assert_close(value, mixed[state], rtol=1e-14, atol=0)
        elif state in ("singles", "doubles"):
            assert torch.equal(value[order], mixed[state])
        else:
            assert torch.equal(value, mixed[state])
            assert torch.equal(value, waves[state])


# ---------------------------------------------------------------- launches


@runs
@pytest.mark.parametrize(
    ("name", "most"), [("bins", 2), ("sketch", 3), ("brier", 2), ("report", 4), ("report, sketch", 5)]
)
def test_an_update_costs_few_launches(name, most, monkeypatch):
    """Beside Triton's kernels, torch only makes views and empty tensors."""
    from torch.utils._python_dispatch import TorchDispatchMode

    operations, launched = [], []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, kinds, args=(), kwargs=None):
            operations.append(function.overloadpacket.__name__)
            return function(*args, **(kwargs or {}))

    monkeypatch.setattr(ProbabilityMetric, "_read_host", ProbabilityMetric._read_device)
    by(monkeypatch, "kernels")
    metric = CLASSES[name](10).to(DEVICE)
    batches = [fine(256, 10, torch.float32, logits=True, seed=seed) for seed in range(2)]
    batches = [(x, y.clamp(min=0)) for x, y in batches]
    metric.update(*batches[0])
    launch = fused._Launch.__call__
    monkeypatch.setattr(
        fused._Launch, "__call__", lambda self, *tensors: (launched.append(self), launch(self, *tensors))
    )
    with Watch():
        metric.update(*batches[1])
    assert len(launched) == most
    views = {"detach", "alias", "view", "unsqueeze", "slice", "select", "empty", "unbind", "_unsafe_view", "reshape"}
    interpreted = {"copy_", "new_empty", "set_"} if INTERPRETED else set()
    assert set(operations) <= views | interpreted, set(operations)


class _Kernel:
    """A kernel that notes the calls of itself and of what it compiles."""

    def __init__(self, calls, *, compiles=True):
        self.calls, self.compiles = calls, compiles

    def __getitem__(self, grid):
        def run(*arguments, num_warps):
            self.calls.append(("compiled", grid, arguments[1:], num_warps))
            return {grid: lambda *again: self.calls.append(("remembered", grid, again[1:]))} if self.compiles else None

        return run


def test_compiled_kernels_are_remembered_by_the_alignment_of_tensors(monkeypatch):
    monkeypatch.setattr(fused, "_REMEMBERS", True)
    calls, x = [], torch.zeros(64)
    launch = fused._Launch(_Kernel(calls), (3, 1, 1), (7, True), warps=2)
    for tensor in (x, x[1:], x[16:], x[1:]):
        launch(tensor)
    new, again = ("compiled", (3, 1, 1), (7, True), 2), ("remembered", (3, 1, 1), (7, True))
    assert calls == [new, new, again, again]
    calls.clear()
    interpreted = fused._Launch(_Kernel(calls, compiles=False), (3, 1, 1), (7, True), warps=2)
    for _ in range(2):
        interpreted(x)
    assert calls == [new, new]


@pytest.mark.skipif(not HAS_GPU or torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_a_metric_reads_on_its_own_gpu():
    x, y = fine(256, 10, torch.float32, logits=True)
    found = [ct.CalibrationError("multiclass", num_classes=10).to(f"cuda:{k}") for k in range(2)]
    for k, metric in enumerate(found):
        metric.update(x.to(f"cuda:{k}"), y.clamp(min=0).to(f"cuda:{k}"))
    assert found[0].compute().item() == found[1].compute().item()


@pytest.mark.skipif(not HAS_GPU, reason="needs a GPU")
@pytest.mark.parametrize("name", CLASSES)
def test_a_gpu_is_not_waited_for(name):
    metric = CLASSES[name](10, ignore_index=-1).to(DEVICE)
    batches = [fine(256, 10, torch.float32, logits=True, seed=seed) for seed in range(3)]
    metric.update(*batches[0])
    torch.cuda.set_sync_debug_mode("error")
    try:
        for each in batches[1:]:
            metric.update(*each)
    finally:
        torch.cuda.set_sync_debug_mode("default")


# ---------------------------------------------------------------- where kernels run

KINDS = {
    **dict.fromkeys(("tolerance", "slack", "scale", "unit"), "fp32"),
    **dict.fromkeys(("uppers_ptr", "edges_ptr", "scales_ptr", "out_ptr", "top_ptr", "largest_ptr"), "*fp32"),
    **dict.fromkeys(("sums_ptr", "parts_ptr"), "*fp64"),
    **dict.fromkeys(("brier_ptr", "nll_ptr", "brier_squares_ptr", "nll_squares_ptr"), "*fp64"),
    **{"correct_ptr": "*u8", "keys_ptr": "*i32"},
}
BOTH = {"PROBS": True, "LOGITS": True}
ROWS = BOTH | {
    **{"WIDE": False, "SINGLE": False, "FLAT": True, "FLOATS": False, "IGNORES": True, "EVENT": "top", "FAR": False},
    **{"BINS": 1, "CELLS": False, "COPIES": 1, "KEYS": False, "TOTALS": False, "COLUMNS": 0, "STEPS": 4},
    **{"BLOCK_N": 32, "BLOCK_C": 4},
}
ENTRIES = BOTH | {"FLAT": True, "BINS": True, "CELLS": False, "STEPS": 4, "BLOCK_N": 1, "BLOCK_C": 128}
STATES = BOTH | {"BINS": 16, "TOTALS": True, "SQUARES": True, "CHECKED": True, "PROGRAMS": 2048, "PRECISION": 3}
WIDE = {"WIDE": True, "BLOCK_N": 1, "BLOCK_C": 1024}
COMPILED = [
    ("rows_kernel", ROWS | {"BINS": 16}),
    ("rows_kernel", ROWS | {"COLUMNS": 2, "PROBS": False, **WIDE}),
    ("rows_kernel", ROWS | {"CELLS": True, "COPIES": 32, "TOTALS": True, "STEPS": 13, **WIDE}),
    ("rows_kernel", ROWS | {"SINGLE": True, "EVENT": "folded", "KEYS": True, "TOTALS": True, "FLOATS": True}),
    ("rows_kernel", ROWS | {"FAR": True, "LOGITS": False, "FLAT": False}),
    ("entries_kernel", ENTRIES),
    ("entries_kernel", ENTRIES | {"BINS": False, "CELLS": True, "STEPS": 13, "BLOCK_N": 8, "BLOCK_C": 16}),
    ("states_kernel", STATES),
    ("class_bins_kernel", {"BLOCK": 256}),
    ("cells_kernel", {"CHECKED": False, "PARTS": 128, "COPIES": 32, "BLOCK": 1024}),
]


@pytest.mark.skipif(INTERPRETED, reason="TRITON_INTERPRET=1 is set: nothing is compiled")
@pytest.mark.parametrize(("name", "plan"), COMPILED)
@pytest.mark.parametrize(
    ("dtype", "numbers"), [("fp32", "small"), ("bf16", "large"), ("fp64", "small"), ("fp32", "ones")]
)
def test_kernels_compile_for_a_gpu(name, plan, dtype, numbers):
    """Triton compiles for a GPU that is not there."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel = getattr(triton_rows, name)
    names = list(inspect.signature(kernel.fn).parameters)
    plan = {**plan, **({"DOUBLE": dtype == "fp64"} if "DOUBLE" in names else {})}
    kinds = KINDS | {"x_ptr": f"*{dtype}", "t_ptr": "*fp32" if plan.get("FLOATS") else "*i64"}
    if dtype == "fp64":
        kinds = {key: kind.replace("*fp32", "*fp64").replace("*i32", "*i64") for key, kind in kinds.items()}
    # Triton makes a constant of a number that is 1, and 64 bits of one that needs them.
    ones = ("n", "n_classes", "depth", "class_step", "ignored", "n_bins", "width", "n_programs", "size")
    plan |= {key: 1 for key in names if numbers == "ones" and key in ones}
    kinds |= {"n": "i64" if numbers == "large" else "i32"}
    kind_of = {key: kinds.get(key, "*i64" if key.endswith("_ptr") else "i32") for key in names}
    if triton.__version__.startswith("3.2."):  # which names parameters that are no constants
        signature, constants = {key: kind_of[key] for key in names if key not in plan}, plan
    elif fused._REMEMBERS:
        signature = {key: "constexpr" if key in plan else kind_of[key] for key in names}
        constants = {(names.index(key),): value for key, value in plan.items()}
    else:  # Triton 3.0 and 3.1 name parameters by their places
        signature = {place: kind_of[key] for place, key in enumerate(names) if key not in plan}
        constants = {names.index(key): value for key, value in plan.items()}
    source = ASTSource(kernel, signature, constants)
    assert triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["cubin"]


@runs
def test_the_first_use_tries_the_kernel_that_asks_most_of_a_compiler(monkeypatch):
    class Broken:
        def __getitem__(self, grid):
            raise RuntimeError("chained operators are not supported")

    fused.try_out(DEVICE)
    monkeypatch.setattr(triton_rows, "rows_kernel", Broken())
    with pytest.raises(RuntimeError, match="chained operators"):
        fused.try_out(DEVICE)


@pytest.mark.skipif(INTERPRETED, reason="TRITON_INTERPRET=1 is set: the kernels run on every device")
def test_a_device_without_kernels_is_named_once(monkeypatch):
    def broken(_):
        raise RuntimeError("no C compiler")

    monkeypatch.setattr(fused, "try_out", broken)
    tensors.kernels_on.cache_clear()
    device = torch.device("cuda", 0)
    try:
        with pytest.warns(RuntimeWarning, match=r"cannot run on cuda:0 .RuntimeError: no C compiler"):
            assert tensors.kernels_on(device) is None
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert tensors.kernels_on(device) is None
            assert tensors.kernels_on(torch.device("cpu")) is None
    finally:
        tensors.kernels_on.cache_clear()


@runs
def test_numbers_are_those_of_numpy(monkeypatch):
    monkeypatch.setattr(ProbabilityMetric, "_read_host", ProbabilityMetric._read_device)
    by(monkeypatch, "kernels")
    x, y = fine(700, 5, torch.float32, logits=True)
    metric = ct.CalibrationError("multiclass", num_classes=5, ignore_index=-1).to(DEVICE)
    metric.update(x, y)
    z, t = x.double().cpu().numpy(), y.cpu().numpy()
    z, t = z[t >= 0], t[t >= 0]
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    top, right = p.max(1), p.argmax(1) == t
    bins = np.minimum((top * 10).astype(int), 9)
    gaps = [abs(top[bins == b].sum() - right[bins == b].sum()) for b in range(10)]
    assert float(metric.compute()) == pytest.approx(sum(gaps) / len(t), rel=1e-6)
