"""Rows and cells on a device: plain torch operations, and the Triton kernels, against NumPy in double precision.

The kernels run in Triton's interpreter, on the host, in a process of their own, since what starts the interpreter must
be set before Triton is imported; and on a GPU where there is one. `ENGINES` says what runs here.

Tolerances. u = 2^-24 is the rounding of float32, and u z that of a number z. A sum of positive terms is off by
`cuda.ROUNDINGS` u of itself. From logits a term exp(-t), with t the distance from the largest, is off by 2 t u for its
rounded exponent, and is the product of up to 10 exponentials (8 tiles, the lane's and the panel's end), each within
2 units in the last place, 4 u, as CUDA's documentation says of its approximation. So with t averaged over the terms,
their sum is off by (2 t + 40 + ROUNDINGS) u: `error_of_sum`. What is made of it follows to first order.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import types
from importlib.metadata import version
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from calibrant import grid  # noqa: E402
from calibrant.errors import InputError  # noqa: E402
from calibrant.kernels import cuda, cuda_cells, dispatch, tensors  # noqa: E402
from calibrant.kernels.reference import IGNORED  # noqa: E402

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
HAS_TRITON = find_spec("triton") is not None
NEW_TRITON = HAS_TRITON and tuple(map(int, version("triton").split(".")[:2])) >= (3, 9)
ON_GPU = torch.cuda.is_available() and not INTERPRETED
DEVICE = torch.device("cuda:0" if ON_GPU else "cpu")
ENGINES = ["plain", *(["kernel"] if HAS_TRITON and (INTERPRETED or ON_GPU) else [])]
U = 2.0**-24
FLOATS = ("top", "p_target", "log_p_target", "squares", "total")
needs_triton = pytest.mark.skipif(not NEW_TRITON, reason="needs Triton 3.9 or later")

if INTERPRETED:
    pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of what is infinite or NaN

#: Classes, rows, and why.
SHAPES = [
    (2, 1, "the fewest classes, and one row of the 512 that a program reads"),
    (2, 1025, "two programs and one row"),
    (3, 343, "no power of two; one row more than a program reads"),
    (10, 130, "a few"),
    (1000, 3, "one tile that is not full"),
    (1023, 2, "a tile less one"),
    (1024, 2, "exactly a tile"),
    (1025, 2, "one more: from here on a tile is twice as wide"),
    (2048, 2, "exactly the wide tile"),
    (2049, 2, "a second tile, of one column"),
    (16_384, 1, "exactly a panel"),
    (16_385, 2, "a second panel, of one column; from here on in float64"),
    (50_257, 2, "a language model's vocabulary, odd"),
    (262_144, 1, "the most"),
]
shapes = pytest.mark.parametrize(("size", "n"), [shape[:2] for shape in SHAPES])


@pytest.fixture(params=ENGINES)
def engine(request, monkeypatch):
    """Have the passes run by plain operations or by the kernels."""
    kernel = request.param == "kernel"
    monkeypatch.setattr(cuda, "usable", lambda _device: kernel)


either = pytest.mark.usefixtures("engine")


def on(x):
    return torch.as_tensor(x).to(DEVICE)


def logits_of(n, size, seed=0, spread=3.0):
    return np.random.default_rng([seed, n, size]).normal(0, spread, (n, size)).astype(np.float32)


def probs_of(n, size, seed=0):
    z = logits_of(n, size, seed).astype(np.float64)
    e = np.exp(z - z.max(1, keepdims=True))
    return (e / e.sum(1, keepdims=True)).astype(np.float32)


def labels_of(n, size, seed=1):
    return np.random.default_rng([seed, n, size]).integers(0, size, n)


def read(values, targets, logits, ignore_index=None, tolerance=1e-3):
    return cuda.read(on(values), on(targets), logits=logits, ignore_index=ignore_index, tolerance=tolerance)


def naive(values, targets, logits):
    """What is to be found in good rows, by the formulas, in float64; and how far off float32 may be."""
    x = np.asarray(values, np.float64)
    rows, y = np.arange(len(x)), np.asarray(targets).astype(np.int64)
    m, best = x.max(1), x.argmax(1)
    if not logits:
        p_target = x[rows, y]
        with np.errstate(divide="ignore"):
            found = {
                "top": m,
                "p_target": p_target,
                "log_p_target": np.log(p_target),
                "squares": (x**2).sum(1),
                "total": x.sum(1),
            }
        summed = cuda.ROUNDINGS * U
        # The logarithm is within 2 units in its last place of one of a number that is exact.
        off = {
            "top": 0,
            "p_target": 0,
            "log_p_target": 4 * U * np.abs(np.where(p_target > 0, found["log_p_target"], 0)),
        }
        off |= {"squares": summed * found["squares"], "total": summed * found["total"]}
        return found, best == y, off
    t = m[:, None] - x
    others = np.where(np.arange(x.shape[1]) == best[:, None], 0, np.exp(-t))
    t = np.where(others > 0, t, 0)  # a term of 0 has no error
    rest, second = others.sum(1), (others**2).sum(1)
    loss, given = np.log1p(rest), x[rows, y] - m
    found = {"top": 1 / (1 + rest), "p_target": np.exp(given) / (1 + rest), "log_p_target": given - loss}
    given = np.where(np.isfinite(given), given, 0)  # the logarithm of 0 has no error either
    found |= {"squares": (1 + second) / (1 + rest) ** 2, "total": m + loss}
    relative = error_of_sum(t, others, 1)
    of_rest, of_second = relative * rest / (1 + rest), error_of_sum(t, others**2, 2) * second / (1 + second)
    of_loss = relative * np.minimum(rest, loss) + 6 * U * loss + 1e-37  # small losses keep their digits
    off = {
        "top": (of_rest + 4 * U) * found["top"],
        "p_target": (of_rest + 2 * np.abs(given) * U + 12 * U) * found["p_target"],
        "log_p_target": of_loss + 2 * U * np.abs(given),
        "squares": (2 * of_rest + of_second + 8 * U) * found["squares"],
        "total": of_loss + 2 * U * np.abs(found["total"]),
    }
    return found, best == y, off


def error_of_sum(t, terms, power):
    total = np.maximum(terms.sum(1), 1e-300)
    return (power * (2 * (t * terms).sum(1) / total + 40) + cuda.ROUNDINGS) * U


def agree(reading, expected, correct, off, rows=slice(None)):
    for name in FLOATS:
        found = getattr(reading, name).double().cpu().numpy()[rows]
        value = expected[name]
        finite = np.isfinite(value)
        np.testing.assert_array_equal(found[~finite], value[~finite], err_msg=name)
        allowed = np.broadcast_to(np.maximum(off[name], 1e-300), value.shape)
        ratio = np.abs(found[finite] - value[finite]) / allowed[finite]
        assert (ratio <= 1).all(), (name, ratio.max(), found, value)
    np.testing.assert_array_equal(reading.correct.cpu().numpy()[rows], correct)


# ---------------------------------------------------------------- rows


@either
@shapes
@pytest.mark.parametrize("logits", [False, True], ids=["probs", "logits"])
def test_rows_are_what_the_formulas_say(size, n, logits):
    values, targets = (logits_of if logits else probs_of)(n, size), labels_of(n, size)
    targets[0] = values[0].argmax()
    reading = read(values, targets, logits)
    agree(reading, *naive(values, targets, logits))
    assert reading.faults.tolist() == [0] * 5
    assert reading.top.dtype == torch.float32
    assert reading.correct.dtype == torch.uint8


@either
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("size", [3, 1025])
@pytest.mark.parametrize("logits", [False, True], ids=["probs", "logits"])
def test_half_types_are_read_as_they_are_and_widened(dtype, size, logits):
    half = torch.as_tensor((logits_of if logits else probs_of)(2, size)).to(getattr(torch, dtype))
    targets = labels_of(2, size)
    reading = read(half, targets, logits, tolerance=0.05)  # 2^-9 of each of 1025 entries
    agree(reading, *naive(half.double().numpy(), targets, logits))
    assert reading.top.dtype == torch.float32
    # bfloat16 and float16 are exact in float32: nothing but the type of the input differs.
    wide = read(half.float(), targets, logits, tolerance=0.05)
    assert all(torch.equal(a, b) for a, b in zip(reading, wide, strict=True))


def test_double_precision_is_kept():
    z, targets = logits_of(7, 30).astype(np.float64), labels_of(7, 30)
    reading = read(z, targets, True)
    expected, correct, _ = naive(z, targets, True)
    assert reading.top.dtype == torch.float64
    agree(reading, expected, correct, dict.fromkeys(FLOATS, 1e-14))


LAYOUTS = {
    "every other row": lambda x: np.repeat(x, 2, axis=0)[::2],
    "every third column": lambda x: np.repeat(x, 3, axis=1)[:, ::3],
    "columns before rows": lambda x: np.asfortranarray(x),
    "a corner of more": lambda x: np.pad(x, ((1, 2), (3, 4)))[1:-2, 3:-4],
    "one row many times": lambda x: np.broadcast_to(x[:1], x.shape),
}


@either
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("size", "n"), [(5, 300), (300, 3)])  # by rows 16 columns at a time: 19 tiles, 3 panels
@pytest.mark.parametrize("logits", [False, True], ids=["probs", "logits"])
def test_strides_change_nothing(layout, size, n, logits):
    values, targets = LAYOUTS[layout]((logits_of if logits else probs_of)(n, size)), labels_of(n, size)
    view = torch.from_numpy(values) if values.flags.writeable else torch.from_numpy(values[:1].copy()).expand(n, size)
    assert view.stride() == tuple(s // 4 for s in values.strides)
    agree(read(view, targets, logits), *naive(values, targets, logits))


@either
@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 3, 7, 19), (2, 20, 1)], ids=str)
@pytest.mark.parametrize("logits", [False, True], ids=["probs", "logits"])
def test_the_axis_of_classes_may_be_the_second_of_many(shape, logits):
    size, n = shape[1], math.prod(shape) // shape[1]
    rows = (logits_of if logits else probs_of)(n, size)
    values = np.ascontiguousarray(np.moveaxis(rows.reshape(shape[0], *shape[2:], size), -1, 1))
    targets = labels_of(n, size)
    reading = read(values, targets.reshape(shape[0], *shape[2:]), logits)
    agree(reading, *naive(rows, targets, logits))


@either
def test_offsets_need_more_than_31_bits(tmp_path):
    """Rows 2^30 + 8 entries apart, and columns likewise: the third is beyond 2^31. Of the file 3 pages are touched."""
    if ON_GPU:
        base = torch.zeros((1 << 31) + 64, dtype=torch.bfloat16, device=DEVICE)
    else:
        data = np.memmap(tmp_path / "sparse", np.uint16, "w+", shape=(1 << 31) + 64)
        base = torch.from_numpy(data).view(torch.bfloat16)
    far = (1 << 30) + 8
    rows = torch.tensor([[0.25, 0.75, 0.0], [0.5, 0.125, 0.375], [0.125, 0.25, 0.625]])
    for strides in ((far, 1), (1, far)):
        view = base.as_strided((3, 3), strides)
        view.copy_(rows)
        reading = read(view, [1, 2, 2], False)
        assert reading.top.tolist() == [0.75, 0.5, 0.625]
        assert reading.p_target.tolist() == [0.75, 0.375, 0.625]
        assert reading.correct.tolist() == [1, 0, 1]
        view.zero_()


@either
@pytest.mark.parametrize("size", [2, 1000, 2049, 16_390])  # within a tile; of two tiles; of two panels
@pytest.mark.parametrize("logits", [False, True], ids=["probs", "logits"])
def test_of_equal_maxima_the_lowest_class_is_predicted(size, logits):
    # The pairs share a lane where they can: 2048 columns apart, and 16,384.
    places = [(0, size - 1)] + [(5, 5 + apart) for apart in (1, 2047, 2048, 16_384) if 5 + apart < size]
    values = np.full((2 * len(places) + 1, size), -1.5 if logits else 0.0, np.float32)
    targets = []
    for i, pair in enumerate(places):
        values[2 * i : 2 * i + 2, pair] = 2.5 if logits else 0.5
        targets += pair
    values[-1] = values[0]
    values[-1, 0] = np.nextafter(np.float32(values[0, 0]), np.float32(0))  # no tie by the least there is
    reading = read(values, [*targets, size - 1], logits)
    assert reading.correct.tolist() == [1, 0] * len(places) + [1]


@either
def test_zeros_of_both_signs_tie():
    reading = read(np.array([[-0.0, 0.0, -1.0], [0.0, -0.0, -1.0]], np.float32), [0, 0], True)
    assert reading.correct.tolist() == [1, 1]
    reading = read(np.array([[-0.0, 1.0], [0.5, 0.5]], np.float32), [0, 0], False)  # -0.0 is no value below 0
    assert reading.faults.tolist() == [0] * 5
    assert reading.p_target.tolist() == [0.0, 0.5]


@either
@pytest.mark.parametrize("size", [2, 1025])
def test_rows_that_are_sure(size):
    values = np.zeros((3, size), np.float32)
    values[:, -1] = 1
    reading = read(values, [size - 1, 0, size - 1], False)
    assert reading.top.tolist() == [1, 1, 1]
    assert reading.p_target.tolist() == [1, 0, 1]
    assert reading.log_p_target.tolist() == [0, -math.inf, 0]
    assert reading.squares.tolist() == [1, 1, 1]
    assert reading.correct.tolist() == [1, 0, 1]


@either
@pytest.mark.parametrize("size", [2, 1025, 16_385])
def test_small_losses_keep_their_digits(size):
    """A loss of 1e-9 is not 0, as it is where 1 is added to 1e-9 in single precision."""
    values = np.zeros((4, size), np.float32)
    values[range(4), [0, size - 1, size // 2, 0]] = 20, 30, 60, 87
    targets = values.argmax(1)
    reading = read(values, targets, True)
    agree(reading, *naive(values, targets, True))
    assert (reading.log_p_target < 0).all()
    assert reading.top.tolist() == pytest.approx((1 / (1 + (size - 1) * np.exp(-values.max(1).astype(float)))).tolist())


@either
@pytest.mark.parametrize("size", [3, 2049, 40_000])
def test_extreme_logits_neither_overflow_nor_vanish(size):
    largest = np.finfo(np.float32).max
    values = np.zeros((6, size), np.float32)
    values[0] = 1e30
    values[1] = -largest
    values[2] = np.linspace(-200, 200, size)  # ever larger: each tile and panel has a new maximum
    values[3] = np.linspace(200, -200, size)
    values[4, -1] = largest
    values[5, 1], values[5, 2:] = 88.7, -largest
    targets = [0, 0, size - 1, 0, size - 1, 1]
    reading = read(values, targets, True)
    agree(reading, *naive(values, targets, True))
    assert reading.faults.tolist() == [0] * 5


def mask(values, seed=3):
    """Mask three tenths of the logits, and all of the first row but one."""
    values[np.random.default_rng(seed).random(values.shape) < 0.3] = -np.inf
    values[0] = -np.inf
    values[0, -1] = -3.0
    return values


@either
@pytest.mark.parametrize("decided", [False, True], ids=["declared", "decided"])
@pytest.mark.parametrize(
    ("size", "n"), [(2, 1025), (10, 130), (1000, 3), (1025, 2), (2049, 2), (16_385, 2), (50_257, 2)]
)
def test_masked_classes_have_probability_0(size, n, decided):
    values, targets = mask(logits_of(n, size)), labels_of(n, size)
    values[np.isneginf(values).all(1), 0] = 0.5
    values[-1, :2] = -np.inf, 0.5
    targets[0], targets[-1] = size - 1, 0  # the only class of a row; a masked one, whose loss is infinite
    reading = read(values, targets, on(torch.tensor(True)) if decided else True)
    expected, correct, off = naive(values, targets, True)
    agree(reading, expected, correct, off)
    assert reading.faults.tolist() == [0] * 5
    assert reading.p_target[-1] == 0
    assert reading.log_p_target[-1] == -np.inf
    assert reading.top[0] == 1
    assert reading.squares[0] == 1
    assert reading.log_p_target[0] == 0
    assert int(reading.normalised) == 0


@either
def test_whole_tiles_and_panels_may_be_masked():
    """The only logits of a row are at the ends of lanes, tiles and panels; the lowest float is a logit like others."""
    size, lowest = 40_000, -np.finfo(np.float32).max
    places = [0, 2047, 2048, 16_383, 16_384, 32_768, size - 1]
    values = np.full((2 * len(places) + 2, size), -np.inf, np.float32)
    values[range(len(places)), places] = 1.5
    values[range(len(places), 2 * len(places)), places] = lowest
    values[-2, [7, 16_391]] = lowest, lowest  # of equal ones the first
    values[-1, [2055, 30_000]] = 0.25, 0.75
    targets = [*places, *places, 7, 30_000]
    reading = read(values, targets, True)
    agree(reading, *naive(values, targets, True))
    assert reading.faults.tolist() == [0] * 5
    assert reading.correct.tolist() == [1] * len(values)


@either
@pytest.mark.parametrize("size", [2, 2049, 16_385])
def test_a_row_with_every_class_masked_is_a_fault(size):
    values = logits_of(3, size)
    values[1] = -np.inf
    reading = read(values, labels_of(3, size), True)
    assert reading.faults.tolist() == [1, 0, 0, 0, 0]
    assert reading.correct.tolist()[1] == IGNORED
    assert reading.top.isnan().tolist() == [False, True, False]
    assert read(values, [0, -1, 0], True, ignore_index=-1).faults.tolist() == [0] * 5


@either
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("logits", [None, True])
def test_metrics_read_masked_logits_as_their_softmax(logits, dtype):
    """Batches by `tensors.read_rows` and by the softmax of `tensors.read` give the same events and scores."""
    values = on(mask(logits_of(60, 6))).to(getattr(torch, dtype))
    values[values.isneginf().all(1), 0] = 0.5
    targets = on(labels_of(60, 6))
    seen = on(torch.zeros(4, dtype=torch.int64))
    options = {"ignore_index": None, "logits": logits, "seen": seen, "tolerance": 1e-3, "checked": True}
    rows = tensors.read_rows(values, targets, **options)
    probs = tensors.read(values.float().softmax(1), targets, layout="multiclass", **(options | {"logits": False}))
    assert rows.faults.tolist() == [0] * 5
    (a, b), (c, d) = (tensors.event(x, layout="multiclass", notion="top-label") for x in (rows, probs))
    torch.testing.assert_close(a, c, rtol=2e-6, atol=2e-6)
    assert torch.equal(b, d)
    torch.testing.assert_close(rows.log_p_target.exp(), probs.log_p_target.exp(), rtol=2e-6, atol=2e-6)
    assert torch.equal(rows.log_p_target.isneginf(), probs.log_p_target.isneginf())


@either
@pytest.mark.parametrize("logits", [False, True], ids=["probs", "logits"])
def test_panels_are_added_in_double_precision(logits):
    """Columns before rows, a panel is 128 columns. Each of 16 adds less than float32 can add to 1: half a place."""
    size, less = 2176, 0.99 * 2.0**-25
    x = np.full(size, less / 128)
    x[:128] = 0
    x[:2] = 0.5
    values = np.asfortranarray(np.stack([np.log(x + 1e-30) if logits else x] * 2).astype(np.float32))
    expected, correct, off = naive(values, [0, 1], logits)
    reading = read(torch.from_numpy(values), [0, 1], logits)
    agree(reading, expected, correct, off)
    error = np.abs(reading.total.double().cpu().numpy() - expected["total"])
    assert error.max() < 2 * U < 16 * less - 2 * U


FAULTY = [
    ("infinite", False, [np.nan, 1.0]),
    ("infinite", False, [np.inf, 1.0]),
    ("infinite", False, [-np.inf, 1.0]),
    ("infinite", False, [np.inf, -np.inf]),
    ("infinite", True, [np.nan, 1.0]),
    ("infinite", True, [np.inf, 1.0]),
    ("infinite", True, [-np.inf, np.nan]),
    ("infinite", True, [-np.inf, np.inf]),
    ("outside", False, [1.5, 0.0]),
    ("outside", False, [-0.25, 1.25]),
    ("outside", False, [-5 * 2.0**-23, 1.0]),  # beyond what rounding does: 4 units in the last place of 1
    ("outside", False, [3e38, 3e38]),  # whose sum overflows, though each is finite
    ("sum", False, [0.5, 0.4]),
    ("sum", False, [0.5, 0.502]),
    ("sum", False, [0.0, 0.0]),
]


@either
@pytest.mark.parametrize("size", [2, 2049])
@pytest.mark.parametrize(("kind", "logits", "pair"), FAULTY)
def test_faulty_rows_are_counted_and_leave_the_others_alone(size, kind, logits, pair):
    n = 5 if size == 2 else 3
    values, targets = (logits_of if logits else probs_of)(n, size), labels_of(n, size)
    clean = read(values, targets, logits)
    for row, columns in ((1, [0, -1]), (3, [-1, 0]))[: n // 2]:
        values[row] = 0
        values[row, columns] = pair
    reading = read(values, targets, logits)
    counts = dict(zip(tensors.FAULTS, reading.faults.tolist(), strict=True))
    assert counts == dict.fromkeys(tensors.FAULTS, 0) | {kind: n // 2}
    for name in FLOATS:
        found, before = getattr(reading, name), getattr(clean, name)
        assert torch.equal(found[::2], before[::2])
        assert found[1::2].isnan().all()
    assert reading.correct[1::2].tolist() == [IGNORED] * (n // 2)
    assert torch.equal(reading.correct[::2], clean.correct[::2])


@either
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("logits", [False, "undeclared"])
@pytest.mark.parametrize("size", [2, 2049])
def test_values_outside_by_rounding_are_read_as_0_and_1(size, logits, dtype):
    """As on the host, up to 4 units in the last place of the values' own type; 5 are a fault."""
    eps = torch.finfo(dtype).eps
    values = torch.zeros((4, size), dtype=dtype)
    for row, (first, last) in enumerate([(1 + 4 * eps, -4 * eps), (-eps, 1 + eps), (1 + 5 * eps, 0), (-5 * eps, 1)]):
        values[row, 0], values[row, -1] = first, last
    scale = torch.tensor([False], device=DEVICE) if logits else False
    reading = read(values, [0, 0, 0, size - 1], scale, tolerance=0.1)
    assert reading.faults.tolist() == [0, 2, 0, 0, 0]
    assert reading.top[:2].tolist() == [1, 1]
    assert reading.p_target[:2].tolist() == [1, 0]
    assert reading.squares[:2].tolist() == [1, 1]
    assert reading.correct.tolist() == [1, 0, IGNORED, IGNORED]


@either
def test_every_lane_and_every_tile_is_looked_at():
    """One bad value at each place where another piece of the kernel reads it."""
    size = 16_390
    places = [0, 2047, 2048, 16_383, 16_384, size - 1]
    for logits, bad in ((True, np.inf), (False, -1e-3)):
        values = np.zeros((len(places) + 1, size), np.float32)
        values[:, 7] = 1
        values[range(len(places)), places] = bad
        reading = read(values, np.full(len(values), 7), logits, tolerance=1e-2)
        assert reading.correct.tolist() == [IGNORED] * len(places) + [1]


@either
def test_a_row_is_counted_once():
    values = np.array([[np.nan, 7.0, 0.0], [7.0, 0.0, 0.0], [0.5, 0.1, 0.1], [0.5, 0.5, 0.0]], np.float32)
    assert read(values, [5, 5, 5, 5], False).faults.tolist() == [1, 1, 1, 1, 0]


@either
def test_row_sums_are_held_to_the_tolerance():
    values = np.array([[0.5, 0.5 + d] for d in (9e-4, 1.1e-3, -9e-4, -1.1e-3)], np.float32)
    assert read(values, [0, 0, 0, 0], False).top.isnan().tolist() == [False, True, False, True]


@either
@pytest.mark.parametrize(
    "targets",
    [
        torch.tensor([0, 1, 2, -1, 3]),
        torch.tensor([0, 1, 2, -1, 3], dtype=torch.int32),
        torch.tensor([0, 1, 2, 255, 3], dtype=torch.uint8),
        torch.tensor([0.0, 1.0, 2.0, 0.5, 3.0]),
        torch.tensor([0.0, 1.0, 2.0, math.nan, math.inf], dtype=torch.float64),
        torch.tensor([0, 9, 1, 9, 2, 9, 1 << 40, 9, -(1 << 62)])[::2],
    ],
    ids=["int64", "int32", "uint8", "fractions", "NaN", "strided"],
)
def test_targets_of_any_type(targets):
    values = np.array([[0.5, 0.25, 0.25]] * 5, np.float32)
    reading = read(values, targets, False)
    assert reading.correct.tolist() == [1, 0, 0, IGNORED, IGNORED]
    assert reading.faults.tolist() == [0, 0, 0, 2, 0]
    assert reading.p_target[:3].tolist() == [0.5, 0.25, 0.25]


@either
def test_booleans_are_classes_0_and_1():
    reading = read(np.array([[0.75, 0.25], [0.75, 0.25]], np.float32), torch.tensor([True, False]), False)
    assert reading.p_target.tolist() == [0.25, 0.75]


@either
@pytest.mark.parametrize(("ignored", "size"), [(-1, 3), (2, 3), (255, 3), (-1, 1025)])
@pytest.mark.parametrize("logits", [False, True], ids=["probs", "logits"])
def test_ignored_rows_are_not_looked_at(ignored, logits, size):
    values, targets = (logits_of if logits else probs_of)(7, size), labels_of(7, size)
    out = np.arange(7) % 3 == 1
    targets[targets == ignored] = 0
    kept = read(values[~out], targets[~out], logits)
    targets[out] = ignored
    values[out] = np.nan
    reading = read(values, targets, logits, ignore_index=ignored)
    assert reading.faults.tolist() == [0] * 5
    for name in ("correct", *FLOATS):
        found = getattr(reading, name).cpu()
        assert torch.equal(found[torch.from_numpy(~out)], getattr(kept, name).cpu())
        assert (found[torch.from_numpy(out)] == (IGNORED if name == "correct" else 0)).all()


@either
def test_no_rows():
    reading = read(np.zeros((0, 5), np.float32), np.zeros(0, np.int64), False)
    assert [len(part) for part in reading[:6]] == [0] * 6
    assert reading.faults.tolist() == [0] * 5


@either
@pytest.mark.parametrize(("size", "n"), [(2, 1100), (1000, 5), (2049, 4), (16_385, 2)])
def test_a_row_has_the_same_bits_wherever_it_stands(size, n):
    values, targets = logits_of(n, size), labels_of(n, size)
    order = np.random.default_rng(2).permutation(n)
    one, other = read(values, targets, True), read(values[order], targets[order], True)
    again = read(values, targets, True)
    for name in ("correct", *FLOATS):
        assert torch.equal(getattr(one, name), getattr(again, name))
        assert torch.equal(getattr(one, name)[torch.from_numpy(order).to(DEVICE)], getattr(other, name))


# ---------------------------------------------------------------- a scale that the device decides


@either
@pytest.mark.parametrize("size", [2, 2049, 16_385])
@pytest.mark.parametrize("decided", [False, True], ids=["probs", "logits"])
def test_the_device_decides_what_the_values_are(size, decided):
    values, targets = (logits_of if decided else probs_of)(3, size), labels_of(3, size)
    declared = read(values, targets, decided)
    found = read(values, targets, on(torch.tensor(decided)))
    assert all(torch.equal(a, b) for a, b in zip(declared[:7], found[:7], strict=True))
    assert int(found.normalised) == 0


@either
@pytest.mark.parametrize(("size", "several"), [(300, 5), (4096, 1)])
def test_logits_that_could_be_probabilities_are_counted(size, several):
    probs, raw = probs_of(several, size), logits_of(several, size)
    values = np.concatenate([raw, probs, probs[:1] * 0.9, -probs[:1]])
    targets, yes = np.zeros(len(values), np.int64), on(torch.tensor(True))
    assert int(read(values, targets, yes).normalised) == several
    targets[several] = 7
    assert int(read(values, targets, yes, ignore_index=7).normalised) == several - 1


@either
@pytest.mark.parametrize("size", [2, 2049])
@pytest.mark.parametrize(("value", "far"), [(1.0005, False), (-0.0005, False), (1.01, True), (-0.01, True)])
def test_values_beyond_probabilities_are_found(size, value, far):
    n = 700 if size == 2 else 2  # two programs
    values, targets = np.zeros((n, size), np.float32), np.zeros(n, np.int64)
    values[-1, -1] = value

    def found(targets, skip, ignore_index=None):
        skip = on(torch.tensor(skip))
        options = {"ignore_index": ignore_index, "low": -1e-3, "high": 1 + 1e-3, "skip": skip}
        return bool(cuda.beyond(on(values), on(targets), **options))

    assert found(targets, False) is far
    assert found(targets, True) is False
    targets[-1] = -1
    assert found(targets, False) is far
    assert found(targets, False, ignore_index=-1) is False


@either
@pytest.mark.parametrize("logits", [None, False, True])
def test_reading_rows_is_reading_whole_batches(logits):
    """`tensors.read_rows` and `tensors.read` give the same events, scores, faults and scales, batch after batch."""
    probs, raw = probs_of(60, 4), logits_of(60, 4)
    targets = np.where(np.arange(60) % 7 == 0, -1, labels_of(60, 4))
    off, wrong = probs * 0.9, targets.copy()
    wrong[5] = 9
    streams = [[(raw, targets), (raw, wrong), (probs, targets)], [(probs, targets), (off, targets), (raw, targets)]]
    for stream in streams[: 2 if logits is None else 1]:
        seen = on(torch.zeros(4, dtype=torch.int64))
        for values, y in stream:
            options = {"ignore_index": -1, "logits": logits, "seen": seen, "tolerance": 1e-3, "checked": True}
            whole = tensors.read(on(values), on(y), layout="multiclass", **options)
            rows = tensors.read_rows(on(values), on(y), **options)
            assert torch.equal(rows.seen, whole.seen)
            assert torch.equal(rows.judged, whole.judged)
            first = whole.faults.tolist()
            if values is raw and int(
                whole.seen[0]
            ):  # of the faults of a row, `read` counts each, `read_rows` the first
                first[2:4] = [0, 0]
            assert rows.faults.tolist() == first
            good = whole.judged & ~rows.log_p_target.isnan()
            (a, b), (c, d) = (tensors.event(x, layout="multiclass", notion="top-label") for x in (rows, whole))
            assert set(b.tolist()) <= {0, 1}  # faulty and ignored rows included: keys are packed of it
            near = {"rtol": 2e-6, "atol": 2e-6}
            torch.testing.assert_close(a[good], c[good], **near)
            assert torch.equal(b[good], d[good])
            torch.testing.assert_close(rows.log_p_target[good], whole.log_p_target[good], **near)
            squares = [tensors.class_square_errors(x)[good] for x in (rows, whole)]
            torch.testing.assert_close(*squares, check_dtype=False, **near)
            if logits is None:
                seen = torch.maximum(seen, whole.seen)
        unchecked = tensors.read_rows(on(off), on(wrong), **(options | {"checked": False}))
        assert unchecked.faults.tolist() == [0] * 5


@either
def test_an_ignored_batch_is_of_no_scale():
    """A batch of which nothing is judged says nothing of a scale that an earlier one decided."""
    seen, probs = on(torch.tensor([0, 1, 0, 4])), on(probs_of(5, 4))
    options = {"ignore_index": -1, "logits": None, "seen": seen, "tolerance": 1e-3, "checked": True}
    for targets, faults in ((np.full(5, -1), [0] * 5), (np.zeros(5, np.int64), [0, 0, 0, 0, 1])):
        assert tensors.read_rows(probs, on(targets), **options).faults.tolist() == faults
        assert tensors.read(probs, on(targets), layout="multiclass", **options).faults.tolist() == faults


@either
def test_the_largest_logit_is_predicted_though_its_probability_is_rounded_to_anothers():
    values = np.array([[0.0, 1e-20, -1.0]], np.float32)
    soft = torch.from_numpy(values).softmax(1)[0]
    assert soft[0] == soft[1]
    options = {"ignore_index": None, "logits": True, "seen": on(torch.zeros(4)), "tolerance": 1e-3, "checked": True}
    rows = tensors.read_rows(on(values), on([1]), **options)
    whole = tensors.read(on(values), on([1]), layout="multiclass", **options)
    for reading in (rows, whole):
        assert tensors.event(reading, layout="multiclass", notion="top-label")[1].tolist() == [1]


# ---------------------------------------------------------------- cells

GRIDS = ("standard", "fine")


def table_of(name, dtype=np.float32):
    return cuda_cells.cell_table(grid.edges(name).astype(dtype), DEVICE)


def cells_of(scores, outcomes, name="standard", judged=None, weights=None):
    scores = np.asarray(scores)
    judged = on(np.ones(scores.shape, bool) if judged is None else judged)
    weights = None if weights is None else on(weights)
    return cuda_cells.cells(on(scores), on(outcomes), judged, table_of(name, scores.dtype), weights)


def around_edges(name, dtype):
    """Return every edge of a grid, the numbers before and after it, and scores of every size."""
    edges, rng = grid.edges(name).astype(dtype), np.random.default_rng(5)
    sizes = 10.0 ** -rng.uniform(0, 29, 500)
    x = [edges, np.nextafter(edges, dtype(-1)), np.nextafter(edges, dtype(2)), sizes, 1 - sizes, rng.random(500)]
    x = np.concatenate(x).astype(dtype)
    return x[(x >= 0) & (x <= 1)]


def exact_cells(x, y, name):
    """Return the counts (2, K) and the sums (3, K) of cells, these added without rounding and then rounded once."""
    cell, size = grid.cell_of(x, name), len(grid.edges(name)) + 1
    counts, sums, p = np.zeros((2, size), np.int64), np.zeros((3, size)), x.astype(np.float64)
    np.add.at(counts, (y, cell), 1)
    order = np.argsort(cell, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(cell[order])) + 1):
        no, yes = rows[y[rows] == 0], rows[y[rows] == 1]
        sums[:, cell[rows[0]]] = math.fsum(p[no]), math.fsum(p[yes]), math.fsum(p[rows] ** 2)
    return counts, sums


@either
@pytest.mark.parametrize("name", GRIDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cells_around_every_edge_are_those_of_the_grid(name, dtype):
    x = around_edges(name, dtype)
    y = np.random.default_rng(6).integers(0, 2, len(x))
    found = cells_of(x, y, name)
    counts, sums = exact_cells(x, y, name)
    assert found.counts.dtype == torch.int64
    assert found.sums.dtype == torch.float64
    np.testing.assert_array_equal(found.counts.cpu(), counts)
    # Whole numbers, until the 75 or 79 slots of the first cell are added in float64; those of double precision are
    # the squares of numbers cut to 2^-56, and exact to 2^-50.
    np.testing.assert_allclose(found.sums.cpu(), sums, rtol=1e-14 if dtype == np.float32 else 2e-15, atol=0)
    exact = np.arange(sums.shape[1]) != 1
    np.testing.assert_allclose(found.sums.cpu()[:, exact], sums[:, exact], rtol=2.0**-51, atol=0)
    assert int(found.refused) == 0


@either
def test_cells_are_those_of_the_host_kernel():
    rng = np.random.default_rng(7)
    x = rng.beta(0.2, 0.2, 3000).astype(np.float32)
    y = (rng.random(3000) < x).astype(np.uint8)
    lookup = grid.lookup("standard", x.dtype)
    host = dispatch.cell_rows(x, y, None, *lookup).T
    found = cells_of(x, y)
    np.testing.assert_array_equal(found.counts.cpu(), host[:2])
    np.testing.assert_allclose(found.sums.cpu(), host[2:], rtol=1e-12, atol=0)


@either
def test_cells_have_the_same_bits_in_any_order_and_of_any_parts():
    rng = np.random.default_rng(8)
    x, y = rng.random(2500).astype(np.float32) ** 9, rng.integers(0, 2, 2500)
    x[rng.random(2500) < 0.3] = 1
    whole, order = cells_of(x, y), rng.permutation(2500)
    mixed = cells_of(x[order], y[order])
    assert torch.equal(whole.counts, mixed.counts)
    assert torch.equal(whole.sums, mixed.sums)
    parts = [cells_of(x[a:b], y[a:b]) for a, b in ((0, 1), (1, 1025), (1025, 2500))]
    assert torch.equal(sum(part.counts for part in parts), whole.counts)
    torch.testing.assert_close(sum(part.sums for part in parts), whole.sums, rtol=1e-15, atol=0)


@either
def test_every_column_has_cells_of_its_own():
    rng = np.random.default_rng(9)
    x, y = rng.random((700, 3)).astype(np.float32), rng.integers(0, 2, (700, 3))
    judged = rng.random((700, 3)) < 0.8
    found = cells_of(x, y, judged=judged)
    for k in range(3):
        kept = judged[:, k]
        alone = cells_of(x[kept, k], y[kept, k])
        assert torch.equal(found.counts[k], alone.counts)
        assert torch.equal(found.sums[k], alone.sums)


@either
def test_what_is_not_judged_is_in_no_cell():
    x = np.array([0.5, np.nan, 0.25, 7.0, -1e-9, 0.25, 1.0, 0.0], np.float32)
    y = np.array([0, 1, 255, 1, 0, 1, 1, 0])
    judged = np.array([True, True, True, True, True, False, True, True])
    found = cells_of(x, y, judged=judged)
    assert found.counts.sum(1).tolist() == [2, 1]
    assert found.sums.sum(1).tolist() == [0.5, 1.0, 1.25]
    assert found.counts[:, 0].tolist() == [1, 0]
    assert found.counts[:, -1].tolist() == [0, 1]
    assert int(found.refused) == 3
    empty = cells_of(x[:0], y[:0])
    assert int(empty.counts.sum()) == int(empty.refused) == 0


@either
def test_saturated_scores_do_not_fill_an_accumulator():
    """Where a cell's unit is smallest beside its scores: in (e, 4 e], just above the first edge e."""
    edge = grid.edges("standard")[2].astype(np.float32)
    found = cells_of(np.full(5000, edge), np.ones(5000, int))
    assert found.sums[1].sum().item() == 5000 * float(edge)
    assert found.sums[2].sum().item() == pytest.approx(5000 * float(edge) ** 2, rel=1e-15)
    whole = float(edge) * table_of("standard").scales.cpu().double()
    slot = int(torch.searchsorted(table_of("standard").edges.cpu(), torch.tensor(edge)))
    assert whole[slot] == int(whole[slot]) <= 2**26


@pytest.mark.parametrize("name", GRIDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_units_and_bounds_of_slots(name, dtype):
    """What makes sums exact: scores are multiples of the unit, 2^26 of them at most (2^55), and near the bound."""
    table = cuda_cells.cell_table(grid.edges(name).astype(dtype), torch.device("cpu"))
    edges, scales, bounds = (x.double().numpy() for x in table[:3])
    apart = np.diff(edges) > 0
    assert apart.all() or (name == "fine" and dtype == np.float32 and (~apart).sum() < 20)  # nobody is between equals
    lower, upper = edges[:-1], edges[1:]
    units = 1 / scales[1:-1]
    digits = np.finfo(dtype).nmant
    assert (np.frexp(units)[0] == 0.5).all()
    assert (np.spacing(np.maximum(lower, 2.0**-101).astype(dtype)) == units).all()
    assert (upper / units <= 2.0 ** (digits + 3)).all()
    inner = bounds[1:-1]
    assert (upper <= inner).all()
    assert (inner <= 8 * np.maximum(lower, 2.0**-101)).all()
    kept = np.r_[edges[0], edges[table.parts :]]
    np.testing.assert_array_equal(kept, grid.edges(name).astype(dtype).astype(float))


def test_more_scores_than_an_accumulator_holds_are_refused():
    x = torch.empty(1, device="meta").expand(1 << 34)
    with pytest.raises(InputError, match="scores: expected fewer than 17,179,869,184 at once, got 17,179,869,184; add"):
        cuda_cells.cells(x, x.bool(), x.bool(), None)
    assert (1 << 34) * (1 << 28) < 1 << 63


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weights(dtype):
    rng = np.random.default_rng(10)
    x = np.r_[rng.random(800) ** 6, 0, 1, 1].astype(dtype)
    y, w = rng.integers(0, 2, len(x)), rng.exponential(size=len(x)) * 1000
    w[::7] = 0
    found = cells_of(x, y, weights=w)
    host = dispatch.cell_rows(x, y.astype(np.uint8), w, *grid.lookup("standard", x.dtype)).T
    heaviest, cut = 2 ** np.ceil(np.log2(w.max())), len(x) * 2.0**-55
    for part, expected, most in (
        (found.counts, host[:2], heaviest),
        (found.sums, host[2:5], heaviest),
        (found.squares, host[5:], heaviest**2),
    ):
        np.testing.assert_allclose(part, expected, rtol=1e-14, atol=cut * most)
    order = rng.permutation(len(x))
    mixed = cells_of(x[order], y[order], weights=w[order])
    assert all(torch.equal(a, b) for a, b in zip(found, mixed, strict=True))
    twice, weighted = cells_of(np.r_[x, x], np.r_[y, y]), cells_of(x, y, weights=np.full(len(x), 2.0))
    assert torch.equal(twice.counts.double(), weighted.counts)
    torch.testing.assert_close(twice.sums, weighted.sums, rtol=2.0**-49, atol=0)
    nothing = cells_of(x, y, weights=np.zeros(len(x)))
    assert not any(part.any() for part in nothing)


def test_cells_without_double_precision_come_in_pairs(monkeypatch):
    x = around_edges("standard", np.float32)
    y = np.arange(len(x)) % 2
    whole = cells_of(x, y)
    monkeypatch.setattr(tensors, "has_float64", lambda _device: False)
    columns = cells_of(np.stack([x, x], 1), np.stack([y, y], 1))
    assert columns.sums.shape == (2, 2, 3, whole.counts.shape[1])
    pairs = cells_of(x, y)
    assert pairs.sums.dtype == torch.float32
    assert torch.equal(pairs.counts, whole.counts)
    assert torch.equal(columns.sums[:, 1], pairs.sums)
    # Pairs hold 48 digits; squares below float32's least are 0.
    torch.testing.assert_close(tensors.joined(pairs.sums), whole.sums.cpu(), rtol=2.0**-46, atol=1e-44)


# ---------------------------------------------------------------- nothing waits, nothing large is made


@pytest.mark.parametrize("logits", [None, False, True])
def test_nothing_is_looked_at(logits):
    """On the meta device there are no values: whatever would look at one raises."""
    values, y = torch.empty((6, 4, 5), device="meta"), torch.empty((6, 5), dtype=torch.int64, device="meta")
    seen = torch.zeros(4, dtype=torch.int64, device="meta")
    options = {"ignore_index": -1, "logits": logits, "seen": seen, "tolerance": 1e-3, "checked": True}
    reading = tensors.read_rows(values, y, **options)
    scores, outcomes = tensors.event(reading, layout="multiclass", notion="top-label")
    assert scores.shape == outcomes.shape == (30,)
    table = cuda_cells.cell_table(grid.edges("standard").astype(np.float32), torch.device("meta"))
    found = cuda_cells.cells(scores, outcomes, reading.judged, table)
    assert found.counts.shape == (2, 4396)
    assert found.sums.shape == (3, 4396)
    weighted = cuda_cells.cells(scores, outcomes, reading.judged, table, scores)
    assert weighted.squares.shape == (2, 4396)


@pytest.mark.parametrize("shape", [(90, 30), (4, 30, 17), (23, 30, 2, 2)], ids=str)
@pytest.mark.parametrize("logits", [False, True, torch.tensor(True)], ids=["probs", "logits", "undeclared"])
def test_plain_operations_go_block_by_block(monkeypatch, shape, logits):
    from torch.utils._python_dispatch import TorchDispatchMode

    largest = 0

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, kinds, args=(), kwargs=None):
            nonlocal largest
            out = function(*args, **(kwargs or {}))
            for x in out if isinstance(out, (tuple, list)) else [out]:
                if isinstance(x, torch.Tensor) and x.untyped_storage().data_ptr() not in known:
                    largest = max(largest, x.untyped_storage().nbytes())
            return out

    rows = probs_of(math.prod(shape) // 30, 30)
    values = torch.from_numpy(np.ascontiguousarray(np.moveaxis(rows.reshape(shape[0], *shape[2:], 30), -1, 1)))
    targets = torch.zeros((shape[0], *shape[2:]), dtype=torch.int64)
    known = {values.untyped_storage().data_ptr()}
    whole = cuda.read(values, targets, logits=logits, ignore_index=-1, tolerance=1e-3)
    far = cuda.beyond(values, targets, ignore_index=-1, low=0, high=0.5, skip=torch.tensor(False))
    monkeypatch.setattr(cuda, "_BLOCK", 30 * 8)
    with Watch():
        parts = cuda.read(values, targets, logits=logits, ignore_index=-1, tolerance=1e-3)
        also = cuda.beyond(values, targets, ignore_index=-1, low=0, high=0.5, skip=torch.tensor(False))
    assert all(torch.equal(a, b) for a, b in zip(whole, parts, strict=True))
    assert torch.equal(far, also)
    assert largest <= 30 * 8 * 8 < values.nbytes / 3  # a block of 8 rows, as indices or in double precision


# ---------------------------------------------------------------- where the kernels run


@pytest.fixture
def asked(monkeypatch):
    """Ask for the kernels as a user does."""
    monkeypatch.setenv("CALIBRANT_TRITON", "1")


@pytest.mark.usefixtures("asked")
def test_the_host_and_other_devices_use_plain_operations():
    assert cuda.usable(torch.device("cpu")) is False
    assert cuda.usable(torch.device("meta")) is False


@pytest.mark.parametrize(("wish", "used"), [(None, "plain"), ("0", "plain"), ("1", "kernel")])
def test_a_gpu_uses_plain_operations_unless_the_kernels_are_asked_for(wish, used, monkeypatch):
    """On a device that runs Triton, which nobody has measured there."""
    monkeypatch.delenv("CALIBRANT_TRITON", raising=False)
    if wish is not None:
        monkeypatch.setenv("CALIBRANT_TRITON", wish)
    monkeypatch.setattr(cuda, "_runs", lambda _device: True)
    monkeypatch.setattr(cuda, "_as_classes", lambda targets: targets)
    monkeypatch.setattr(cuda, "_launch", lambda *_args: "kernel")
    monkeypatch.setattr(cuda, "_read_plainly", lambda *_args: "plain")
    values = types.SimpleNamespace(dtype=torch.float32, device=torch.device("cuda:0"))
    assert cuda.read(values, None, logits=False, ignore_index=None, tolerance=1e-3) == used
    assert cuda.usable(torch.device("cuda:0")) is (used == "kernel")


def test_another_wish_for_triton_is_refused_where_it_matters(monkeypatch):
    monkeypatch.setenv("CALIBRANT_TRITON", "yes")
    assert cuda.usable(torch.device("cpu")) is False
    with pytest.raises(
        InputError, match="CALIBRANT_TRITON: expected 1 for the Triton kernels, 0 for torch operations, go"
    ):
        cuda.usable(torch.device("cuda:0"))


@pytest.mark.usefixtures("asked")
def test_a_triton_that_fails_is_told_and_done_without(monkeypatch):
    def fail(*_args):
        raise RuntimeError("no C compiler")

    monkeypatch.setattr(cuda, "_launch", fail)
    monkeypatch.setattr(torch, "full", lambda *_args, **_options: None)  # as if there were such a device
    monkeypatch.setattr(torch, "zeros", lambda *_args, **_options: None)
    with pytest.warns(RuntimeWarning, match=r"Triton does not work on cuda:7 \(RuntimeError: no C compiler\); plain"):
        assert cuda.usable(torch.device("cuda:7")) is False


def test_tiles_depend_on_nothing_but_the_row():
    for across in (True, False):
        for size in (2, 3, 16, 17, 1000, 1024, 1025, 2048, 2049, 262_144):
            tile = cuda._tile(size, across=across)
            assert tile.rows * tile.columns in (1024, 2048)
            assert tile.columns >= min(size, 2048 if across else 16)
            assert tile.rows * tile.columns == 256 * tile.warps  # 8 entries a thread: what ROUNDINGS counts on


class Posing:
    """An array of another library that says where it lies; it cannot lie there, so it hands out what lies here."""

    def __init__(self, kind):
        self.tensor, self.kind, self.streams = torch.arange(6.0).reshape(2, 3), kind, []

    def __dlpack_device__(self):
        return self.kind, 0

    def __dlpack__(self, *, stream=None, **options):
        self.streams.append(stream)
        return self.tensor.__dlpack__(**options)


@pytest.mark.parametrize("kind", [2, 10], ids=["CUDA", "ROCm"])
def test_arrays_on_a_gpu_come_through_dlpack_without_a_copy(monkeypatch, kind):
    stream = types.SimpleNamespace(cuda_stream=77)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _device: stream)
    array = Posing(kind)
    assert cuda.on_cuda(array)
    tensor = cuda.as_cuda_tensor(array)
    assert tensor.data_ptr() == array.tensor.data_ptr()
    assert tensor.shape == (2, 3)
    assert array.streams == [77]  # so that the other library's work is done before ours begins


def test_arrays_with_the_older_interface(monkeypatch):
    asked = []
    monkeypatch.setattr(torch, "as_tensor", lambda x, device: asked.append((x, device)) or torch.zeros(1))
    array = types.SimpleNamespace(__cuda_array_interface__={})
    cuda.as_cuda_tensor(array)
    assert asked == [(array, "cuda")]


@pytest.mark.parametrize(
    ("array", "match"),
    [
        (torch.zeros(1), "a tensor on cpu; move it with"),
        (Posing(1), "a Posing elsewhere; pass an array that lies on the GPU"),
        (np.zeros(1), "a ndarray elsewhere; pass an array that lies on the GPU"),
        ([0.5], "a list elsewhere; pass an array that lies on the GPU"),
    ],
)
def test_arrays_elsewhere_are_refused(array, match):
    assert not cuda.on_cuda(array)
    with pytest.raises(InputError, match=f"x: expected an array on a CUDA device, got {match}"):
        cuda.as_cuda_tensor(array)


# ---------------------------------------------------------------- Triton


@pytest.mark.slow
@needs_triton
@pytest.mark.skipif(INTERPRETED, reason="the other process does this")
def test_the_kernels_in_the_interpreter():
    """Run this file's tests of the kernels where nothing else has imported Triton."""
    command = [sys.executable, "-m", "pytest", __file__, "-q", "-k", "kernel", "-p", "no:cacheprovider"]
    environment = os.environ | {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert int(re.search(r"(\d+) passed", run.stdout)[1]) > 150
    assert "failed" not in run.stdout


TYPES = {"values": "*{}", "targets": "*i64", "correct": "*u8", "outcomes": "*u8", "scale": "*i8", "skip": "*i8"}
TYPES |= {"far": "*i32", **dict.fromkeys(("sums", "refused", "counters"), "*i64"), "ignore_index": "i32"}
TYPES |= dict.fromkeys(("top", "p_target", "log_p_target", "squares", "total", "scores", "edges", "scales"), "*fp32")
TYPES |= dict.fromkeys(("tolerance", "slack", "low", "high"), "fp32")
TYPES |= {"n": "i64", "columns": "i64", **dict.fromkeys(("depth", "sheet", "row", "step", "C", "n_edges"), "i32")}


def compiled(kernel, dtype, warps, **constants):
    """Compile a kernel as a launch would, for a GPU that need not be there."""
    import triton
    from triton.backends.compiler import GPUTarget

    names = kernel.arg_names
    signature = {name: "constexpr" if name in constants else TYPES[name].format(dtype) for name in names}
    aligned = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(names) if signature[name].startswith("*")}
    source = triton.compiler.ASTSource(kernel, signature, constants, aligned)
    options = {"num_warps": warps, "enable_fp_fusion": True}
    return triton.compile(source, target=GPUTarget("cuda", 80, 32), options=options)


#: Type of the values, scale, classes, whether columns are neighbours, and why.
COMPILED = [
    ("fp32", 1, 1000, True, "one tile"),
    ("bf16", 2, 50_257, True, "a loop of tiles in a loop of panels, both scales"),
    ("fp16", 0, 100, False, "by rows, a single panel"),
]


@needs_triton
@pytest.mark.skipif(INTERPRETED, reason="interpreted kernels cannot be compiled")
@pytest.mark.parametrize(("dtype", "scale", "size", "across"), [row[:4] for row in COMPILED])
def test_the_reading_kernel_compiles(dtype, scale, size, across, monkeypatch, tmp_path):
    """The compiler refuses what the interpreter does not. No float is added atomically, and none is wide needlessly."""
    from calibrant.kernels import cuda_kernels

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    values = torch.empty((8, size), device="meta")
    _, _, tile = cuda._geometry(values if across else values.T.contiguous().T)
    constants = cuda._constants(size, tile) | {"SCALE": scale, "IGNORING": True, "step" if across else "sheet": 1}
    found = compiled(cuda_kernels.read_rows, dtype, tile.warps, **constants)
    atomics = set(re.findall(r"(?:atom|red)\.global\.\S+", found.asm["ptx"]))
    assert all(name.endswith("add.u64") for name in atomics), atomics
    assert atomics
    assert (".f64" in found.asm["ptx"]) == (size > 8 * tile.columns)


@needs_triton
@pytest.mark.skipif(INTERPRETED, reason="interpreted kernels cannot be compiled")
def test_the_other_kernels_compile(monkeypatch, tmp_path):
    from calibrant.kernels import cuda_kernels

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    look = compiled(cuda_kernels.look_beyond, "bf16", 4, step=1, IGNORING=True, ROWS=1, COLS=1024)
    assert set(re.findall(r"(?:atom|red)\.global\.\S+", look.asm["ptx"])) == {"red.global.gpu.relaxed.max.s32"}
    cells = compiled(cuda_kernels.add_cells, "fp32", 4, columns=1, STEPS=13, LOW_BITS=28, BLOCK=1024)
    assert set(re.findall(r"(?:atom|red)\.global\.\S+", cells.asm["ptx"])) == {"red.global.gpu.relaxed.add.u64"}
    assert ".f64" not in cells.asm["ptx"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="measures where there is a GPU")
def test_the_benchmark_says_that_there_is_no_gpu(capsys, monkeypatch):
    pytest.importorskip("torchmetrics")
    path = Path(__file__).parents[1] / "benchmarks" / "gpu.py"
    spec = spec_from_file_location("gpu", path)
    benchmark = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "gpu", benchmark)
    spec.loader.exec_module(benchmark)
    assert benchmark.main([]) == 0
    assert capsys.readouterr().out == "no GPU here (torch.cuda.is_available() is False): nothing was measured\n"


@pytest.mark.skipif(not ON_GPU or not HAS_TRITON, reason="needs a GPU and Triton")
@pytest.mark.parametrize("size", [10, 1000, 50_257])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.usefixtures("asked")
def test_a_gpu_reads_at_once_without_waiting(size, dtype):
    """Nothing synchronises, nothing of the input's size is made, and two runs give the same bits."""
    assert cuda.usable(DEVICE)
    n = 2**22 // size
    values = torch.randn((n, size), device=DEVICE, dtype=getattr(torch, dtype))
    targets = torch.randint(0, size, (n,), device=DEVICE)
    seen = torch.zeros(4, dtype=torch.int64, device=DEVICE)
    options = {"ignore_index": 3, "logits": None, "seen": seen, "tolerance": 1e-3, "checked": True}
    table = table_of("standard")

    def once():
        reading = tensors.read_rows(values, targets, **options)
        event = tensors.event(reading, layout="multiclass", notion="top-label")
        return reading, cuda_cells.cells(*event, reading.judged, table)

    first, counted = once()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    held = torch.cuda.memory_allocated()
    torch.cuda.set_sync_debug_mode("error")
    try:
        second, again = once()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.cuda.max_memory_allocated() - held < 100 * n + 2**20
    assert all(torch.equal(a, b) for a, b in zip(first.rows, second.rows, strict=True))
    assert torch.equal(counted.counts, again.counts)
    assert torch.equal(counted.sums, again.sums)
    host = cuda.read(values.cpu(), targets.cpu(), logits=True, ignore_index=3, tolerance=1e-3)
    for name in FLOATS:
        torch.testing.assert_close(getattr(second.rows, name).cpu(), getattr(host, name), rtol=1e-5, atol=1e-5)
