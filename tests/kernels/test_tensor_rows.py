"""Rows of probabilities or logits read by torch operations, against NumPy in double precision.

Tolerances. u = 2^-24 is the rounding of float32, and u z that of a number z. Sums and what follows from them are in
float64, which adds less than u / 100: `ROUND` u. A logarithm or an exponential in float32 is within 1 or 2 units in the
last place, 2 u or 4 u. From logits, a term exp(-t), with t the distance from the largest, is off by t u for the rounded
distance, and by 4 u. So with t averaged over the terms their sum is off by (t + 4) u, and the sum of their squares by
(2 t + 8 + 1) u: `error_of_sum`. What is made of it follows to first order.
"""

from __future__ import annotations

import math
import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from calibrant.kernels import tensor_cells, tensors  # noqa: E402
from calibrant.kernels.reference import IGNORED  # noqa: E402
from calibrant.table import grid  # noqa: E402

U = 2.0**-24
ROUND = (1.01 if os.environ.get("TRITON_INTERPRET") != "1" else 12) * U  # kernels add chunks in single precision
TINY = 2.0**-148  # of numbers below float32's normal ones, two units in the last place
FLOATS = ("top", "p_target", "log_p_target", "squares")

#: Classes, rows, and why.
SHAPES = [
    (2, 1, "the fewest classes and rows"),
    (2, 1025, "many rows"),
    (3, 343, "odd numbers"),
    (10, 130, "a few"),
    (1000, 3, "many classes"),
    (50_257, 2, "a language model's vocabulary"),
    (262_144, 17, "the most, and a second block"),
]
shapes = pytest.mark.parametrize(("size", "n"), [shape[:2] for shape in SHAPES])


def logits_of(n, size, seed=0, spread=3.0):
    return np.random.default_rng([seed, n, size]).normal(0, spread, (n, size)).astype(np.float32)


def probs_of(n, size, seed=0):
    z = logits_of(n, size, seed).astype(np.float64)
    e = np.exp(z - z.max(1, keepdims=True))
    return (e / e.sum(1, keepdims=True)).astype(np.float32)


def labels_of(n, size, seed=1):
    return np.random.default_rng([seed, n, size]).integers(0, size, n)


def read(values, targets, logits, ignore_index=None, tolerance=1e-3):
    values, targets = torch.as_tensor(values), torch.as_tensor(targets)
    return tensors.read_blocks(values, targets, logits=logits, ignore_index=ignore_index, tolerance=tolerance)


def naive(values, targets, logits):
    """What is to be found in good rows, by the formulas, in float64; and how far off float32 may be."""
    x = np.asarray(values, np.float64)
    rows, y = np.arange(len(x)), np.asarray(targets).astype(np.int64)
    m, best = x.max(1), x.argmax(1)
    if not logits:
        p_target = x[rows, y]
        with np.errstate(divide="ignore"):
            found = {"top": m, "p_target": p_target, "log_p_target": np.log(p_target), "squares": (x**2).sum(1)}
        off_log = 2 * U * np.abs(np.where(p_target > 0, found["log_p_target"], 0))
        return found, best == y, {"top": 0, "p_target": 0, "log_p_target": off_log, "squares": ROUND * found["squares"]}
    t = m[:, None] - x
    others = np.where(np.arange(x.shape[1]) == best[:, None], 0, np.exp(-t))
    t = np.where(others > 0, t, 0)  # a term of 0 has no error
    rest, second = others.sum(1), (others**2).sum(1)
    given = x[rows, y] - m
    found = {
        "top": 1 / (1 + rest),
        "p_target": np.exp(given) / (1 + rest),
        "log_p_target": given - np.log1p(rest),
        "squares": (1 + second) / (1 + rest) ** 2,
    }
    of_given = np.where(np.isfinite(given), np.abs(given), 0) * U  # the logarithm of 0 has no error either
    of_rest = (error_of_sum(t, others, 1) * rest + x.shape[1] * TINY) / (1 + rest)
    of_second = (error_of_sum(t, others**2, 2) * second + x.shape[1] * TINY) / (1 + second)
    off = {
        "top": (of_rest + ROUND) * found["top"],
        "p_target": (of_rest + of_given + ROUND) * found["p_target"] + TINY,
        "log_p_target": of_rest + of_given + ROUND * np.abs(np.where(np.isfinite(given), found["log_p_target"], 0)),
        "squares": (2 * of_rest + of_second + ROUND) * found["squares"],
    }
    return found, best == y, off


def error_of_sum(t, terms, power):
    total = np.maximum(terms.sum(1), 1e-300)
    return (power * ((t * terms).sum(1) / total + 4) + power - 1) * U


def agree(reading, expected, correct, off):
    for name in FLOATS:
        found, value = getattr(reading, name).double().numpy(), expected[name]
        finite = np.isfinite(value)
        np.testing.assert_array_equal(found[~finite], value[~finite], err_msg=name)
        error, allowed = np.abs(found[finite] - value[finite]), np.broadcast_to(off[name], value.shape)[finite]
        assert (error <= allowed).all(), (name, (error / np.maximum(allowed, 1e-300)).max(), found, value)
    np.testing.assert_array_equal(reading.correct.numpy(), correct)


# ---------------------------------------------------------------- rows


@pytest.mark.covering
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


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("size", "n"), [(5, 300), (300, 3)])
@pytest.mark.parametrize("logits", [False, True], ids=["probs", "logits"])
def test_strides_change_nothing(layout, size, n, logits):
    values, targets = LAYOUTS[layout]((logits_of if logits else probs_of)(n, size)), labels_of(n, size)
    view = torch.from_numpy(values) if values.flags.writeable else torch.from_numpy(values[:1].copy()).expand(n, size)
    assert view.stride() == tuple(s // 4 for s in values.strides)
    agree(read(view, targets, logits), *naive(values, targets, logits))


@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 3, 7, 19), (2, 20, 1)], ids=str)
@pytest.mark.parametrize("logits", [False, True], ids=["probs", "logits"])
def test_the_axis_of_classes_may_be_the_second_of_many(shape, logits):
    size, n = shape[1], math.prod(shape) // shape[1]
    rows = (logits_of if logits else probs_of)(n, size)
    values = np.ascontiguousarray(np.moveaxis(rows.reshape(shape[0], *shape[2:], size), -1, 1))
    targets = labels_of(n, size)
    reading = read(values, targets, logits)
    agree(reading, *naive(rows, targets, logits))


def test_offsets_need_more_than_31_bits(tmp_path):
    """Rows 2^30 + 8 entries apart, and columns likewise: the third is beyond 2^31. Of the file 3 pages are touched."""
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


@pytest.mark.parametrize("size", [2, 1000])
@pytest.mark.parametrize("logits", [False, True], ids=["probs", "logits"])
def test_of_equal_maxima_the_lowest_class_is_predicted(size, logits):
    places = [(0, size - 1)] + [(5, 5 + apart) for apart in (1, 64, 994) if 5 + apart < size]
    values = np.full((2 * len(places) + 1, size), -1.5 if logits else 0.0, np.float32)
    targets = []
    for i, pair in enumerate(places):
        values[2 * i : 2 * i + 2, pair] = 2.5 if logits else 0.5
        targets += pair
    values[-1] = values[0]
    values[-1, 0] = np.nextafter(np.float32(values[0, 0]), np.float32(0))  # no tie by the least there is
    reading = read(values, [*targets, size - 1], logits)
    assert reading.correct.tolist() == [1, 0] * len(places) + [1]


def test_zeros_of_both_signs_tie():
    reading = read(np.array([[-0.0, 0.0, -1.0], [0.0, -0.0, -1.0]], np.float32), [0, 0], True)
    assert reading.correct.tolist() == [1, 1]
    reading = read(np.array([[-0.0, 1.0], [0.5, 0.5]], np.float32), [0, 0], False)  # -0.0 is no value below 0
    assert reading.faults.tolist() == [0] * 5
    assert reading.p_target.tolist() == [0.0, 0.5]


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


@pytest.mark.parametrize("size", [2, 1025])
def test_small_losses_keep_their_digits(size):
    """A loss of 1e-9 is not 0, as it is where 1 is added to 1e-9 in single precision."""
    values = np.zeros((4, size), np.float32)
    values[range(4), [0, size - 1, size // 2, 0]] = 20, 30, 60, 87
    targets = values.argmax(1)
    reading = read(values, targets, True)
    agree(reading, *naive(values, targets, True))
    assert (reading.log_p_target < 0).all()
    assert reading.top.tolist() == pytest.approx((1 / (1 + (size - 1) * np.exp(-values.max(1).astype(float)))).tolist())


@pytest.mark.parametrize("size", [3, 1025, 40_000])
def test_extreme_logits_neither_overflow_nor_vanish(size):
    largest = np.finfo(np.float32).max
    values = np.zeros((6, size), np.float32)
    values[0] = 1e30
    values[1] = -largest
    values[2] = np.linspace(-200, 200, size)
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


@pytest.mark.covering
@pytest.mark.parametrize("decided", [False, True], ids=["declared", "decided"])
@pytest.mark.parametrize(("size", "n"), [(2, 1025), (10, 130), (1000, 3), (50_257, 2)])
def test_masked_classes_have_probability_0(size, n, decided):
    values, targets = mask(logits_of(n, size)), labels_of(n, size)
    values[np.isneginf(values).all(1), 0] = 0.5
    values[-1, :2] = -np.inf, 0.5
    targets[0], targets[-1] = size - 1, 0  # the only class of a row; a masked one, whose loss is infinite
    reading = read(values, targets, torch.tensor(True) if decided else True)
    expected, correct, off = naive(values, targets, True)
    agree(reading, expected, correct, off)
    assert reading.faults.tolist() == [0] * 5
    assert reading.p_target[-1] == 0
    assert reading.log_p_target[-1] == -np.inf
    assert reading.top[0] == 1
    assert reading.squares[0] == 1
    assert reading.log_p_target[0] == 0
    assert int(reading.normalised) == 0


def test_all_classes_but_one_may_be_masked():
    """The lowest float is a logit like others."""
    size, lowest = 1000, -np.finfo(np.float32).max
    places = [0, 500, size - 1]
    values = np.full((2 * len(places) + 2, size), -np.inf, np.float32)
    values[range(len(places)), places] = 1.5
    values[range(len(places), 2 * len(places)), places] = lowest
    values[-2, [7, 500]] = lowest, lowest  # of equal ones the first
    values[-1, [70, 900]] = 0.25, 0.75
    targets = [*places, *places, 7, 900]
    reading = read(values, targets, True)
    agree(reading, *naive(values, targets, True))
    assert reading.faults.tolist() == [0] * 5
    assert reading.correct.tolist() == [1] * len(values)


@pytest.mark.parametrize("size", [2, 1025])
def test_a_row_with_every_class_masked_is_a_fault(size):
    values = logits_of(3, size)
    values[1] = -np.inf
    reading = read(values, labels_of(3, size), True)
    assert reading.faults.tolist() == [1, 0, 0, 0, 0]
    assert reading.correct.tolist()[1] == IGNORED
    assert reading.top.isnan().tolist() == [False, True, False]
    assert read(values, [0, -1, 0], True, ignore_index=-1).faults.tolist() == [0] * 5


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("logits", [None, True])
def test_metrics_read_masked_logits_as_their_softmax(logits, dtype):
    """Masked logits and their softmax give the same events and scores."""
    values = torch.from_numpy(mask(logits_of(60, 6))).to(getattr(torch, dtype))
    values[values.isneginf().all(1), 0] = 0.5
    targets = torch.from_numpy(labels_of(60, 6))
    seen = torch.zeros(4, dtype=torch.int64)
    options = {"ignore_index": None, "logits": logits, "seen": seen, "tolerance": 1e-3, "checked": True}
    rows = tensors.read(values, targets, layout="multiclass", **options)
    probs = tensors.read(values.float().softmax(1), targets, layout="multiclass", **(options | {"logits": False}))
    assert rows.faults.tolist() == [0] * 5
    (a, b), (c, d) = (tensors.event(x, layout="multiclass", notion="top-label") for x in (rows, probs))
    torch.testing.assert_close(a, c, rtol=2e-6, atol=2e-6)
    assert torch.equal(b, d)
    torch.testing.assert_close(rows.log_p_target.exp(), probs.log_p_target.exp(), rtol=2e-6, atol=2e-6)
    assert torch.equal(rows.log_p_target.isneginf(), probs.log_p_target.isneginf())


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


@pytest.mark.every_value
@pytest.mark.parametrize("size", [2, 1025])
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("logits", [False, "undeclared"])
@pytest.mark.parametrize("size", [2, 1025])
def test_values_outside_by_rounding_are_read_as_0_and_1(size, logits, dtype):
    """As on the host, up to 4 units in the last place of the values' own type; 5 are a fault."""
    eps = torch.finfo(dtype).eps
    values = torch.zeros((4, size), dtype=dtype)
    for row, (first, last) in enumerate([(1 + 4 * eps, -4 * eps), (-eps, 1 + eps), (1 + 5 * eps, 0), (-5 * eps, 1)]):
        values[row, 0], values[row, -1] = first, last
    scale = torch.tensor([False]) if logits else False
    reading = read(values, [0, 0, 0, size - 1], scale, tolerance=0.1)
    assert reading.faults.tolist() == [0, 2, 0, 0, 0]
    assert reading.top[:2].tolist() == [1, 1]
    assert reading.p_target[:2].tolist() == [1, 0]
    assert reading.squares[:2].tolist() == [1, 1]
    assert reading.correct.tolist() == [1, 0, IGNORED, IGNORED]


def test_a_row_is_counted_once():
    values = np.array([[np.nan, 7.0, 0.0], [7.0, 0.0, 0.0], [0.5, 0.1, 0.1], [0.5, 0.5, 0.0]], np.float32)
    assert read(values, [5, 5, 5, 5], False).faults.tolist() == [1, 1, 1, 1, 0]


def test_row_sums_are_held_to_the_tolerance():
    values = np.array([[0.5, 0.5 + d] for d in (9e-4, 1.1e-3, -9e-4, -1.1e-3)], np.float32)
    assert read(values, [0, 0, 0, 0], False).top.isnan().tolist() == [False, True, False, True]


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


def test_booleans_are_classes_0_and_1():
    reading = read(np.array([[0.75, 0.25], [0.75, 0.25]], np.float32), torch.tensor([True, False]), False)
    assert reading.p_target.tolist() == [0.25, 0.75]


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


def test_no_rows():
    reading = read(np.zeros((0, 5), np.float32), np.zeros(0, np.int64), False)
    assert [len(part) for part in reading[:5]] == [0] * 5
    assert reading.faults.tolist() == [0] * 5


@pytest.mark.parametrize(("size", "n"), [(2, 1100), (1000, 5), (16_385, 2)])
def test_a_row_has_the_same_bits_wherever_it_stands(size, n):
    values, targets = logits_of(n, size), labels_of(n, size)
    order = np.random.default_rng(2).permutation(n)
    one, other = read(values, targets, True), read(values[order], targets[order], True)
    again = read(values, targets, True)
    for name in ("correct", *FLOATS):
        assert torch.equal(getattr(one, name), getattr(again, name))
        assert torch.equal(getattr(one, name)[torch.from_numpy(order)], getattr(other, name))


# ---------------------------------------------------------------- a scale that the device decides


@pytest.mark.parametrize("size", [2, 1025])
@pytest.mark.parametrize("decided", [False, True], ids=["probs", "logits"])
def test_the_device_decides_what_the_values_are(size, decided):
    values, targets = (logits_of if decided else probs_of)(3, size), labels_of(3, size)
    declared = read(values, targets, decided)
    found = read(values, targets, torch.tensor(decided))
    assert all(torch.equal(a, b) for a, b in zip(declared[:6], found[:6], strict=True))
    assert int(found.normalised) == 0


@pytest.mark.parametrize(("size", "several"), [(300, 5), (4096, 1)])
def test_logits_that_could_be_probabilities_are_counted(size, several):
    probs, raw = probs_of(several, size), logits_of(several, size)
    values = np.concatenate([raw, probs, probs[:1] * 0.9, -probs[:1]])
    targets, yes = np.zeros(len(values), np.int64), torch.tensor(True)
    assert int(read(values, targets, yes).normalised) == several
    targets[several] = 7
    assert int(read(values, targets, yes, ignore_index=7).normalised) == several - 1


@pytest.mark.parametrize("size", [2, 1025])
@pytest.mark.parametrize(("value", "far"), [(1.0005, False), (-0.0005, False), (1.01, True), (-0.01, True)])
def test_values_beyond_probabilities_are_found(size, value, far):
    values, targets = torch.zeros((3, size)), torch.zeros(3, dtype=torch.int64)
    values[-1, -1] = value

    def found(ignore_index=None):
        return bool(tensors.beyond(values, targets, ignore_index=ignore_index, low=-1e-3, high=1 + 1e-3))

    assert found() is far
    targets[-1] = -1
    assert found() is far
    assert found(ignore_index=-1) is False


@pytest.mark.parametrize("logits", [None, False, True])
def test_batches_are_read_as_the_first_one_says(logits):
    """Events, scores of classes, faults and scales, batch after batch, against the softmax in double precision."""
    probs, raw = torch.from_numpy(probs_of(60, 4)), torch.from_numpy(logits_of(60, 4))
    targets = torch.from_numpy(np.where(np.arange(60) % 7 == 0, -1, labels_of(60, 4)))
    off, wrong = probs * 0.9, targets.clone()
    wrong[5] = 9
    streams = [[(raw, targets), (raw, wrong), (probs, targets)], [(probs, targets), (off, targets), (raw, targets)]]
    for k, stream in enumerate(streams[: 2 if logits is None else 1]):
        seen, as_logits = torch.zeros(4, dtype=torch.int64), logits is True or (logits is None and k == 0)
        for values, y in stream:
            options = {"ignore_index": -1, "logits": logits, "seen": seen, "tolerance": 1e-3, "checked": True}
            rows = tensors.read(values, y, layout="multiclass", **options)
            assert rows.seen.tolist() == [not as_logits, as_logits, tensors.PRECISIONS.index(torch.float32, 1), 4]
            assert torch.equal(rows.evaluated, y != -1)
            soft = values.double().softmax(1) if as_logits else values.double()
            inside = ((soft >= 0) & (soft <= 1)).all(1)
            fine = inside & ((soft.sum(1) - 1).abs() <= 1e-3)
            known = (y >= 0) & (y < 4)
            again = as_logits and logits is None and values is probs and bool(seen.sum())
            faults = [
                0,
                *(int((rows.evaluated & x).sum()) for x in (~inside, inside & ~fine, fine & ~known)),
                int(again),
            ]
            assert rows.faults.tolist() == faults
            good = rows.evaluated & fine & known
            scores, outcomes = tensors.event(rows, layout="multiclass", notion="top-label")
            assert set(outcomes.tolist()) <= {0, 1}  # faulty and ignored rows included: keys are packed of it
            near = {"rtol": 2e-6, "atol": 2e-6, "check_dtype": False}
            torch.testing.assert_close(scores[good], soft.amax(1)[good], **near)
            assert torch.equal(outcomes[good] == 1, (soft.argmax(1) == y)[good])
            of_target = soft.gather(1, y.clamp(0, 3)[:, None])[:, 0]
            torch.testing.assert_close(rows.log_p_target[good], of_target.log()[good], **near)
            squares = (soft**2).sum(1) - 2 * of_target + 1
            torch.testing.assert_close(tensors.class_square_errors(rows)[good], squares[good], **near)
            each, hot, _ = tensors.each_class(rows)
            torch.testing.assert_close(each[good], soft[good], **near)
            assert torch.equal(hot[good].argmax(1), y[good])
            if logits is None:
                seen = torch.maximum(seen, rows.seen)
        unchecked = tensors.read(off, wrong, layout="multiclass", **(options | {"checked": False}))
        assert unchecked.faults.tolist() == [0] * 5


def test_an_ignored_batch_is_of_no_scale():
    """A batch of which nothing is judged says nothing of a scale that an earlier one decided."""
    seen, probs = torch.tensor([0, 1, 0, 4]), torch.from_numpy(probs_of(5, 4))
    options = {"ignore_index": -1, "logits": None, "seen": seen, "tolerance": 1e-3, "checked": True}
    for targets, faults in ((torch.full((5,), -1), [0] * 5), (torch.zeros(5), [0, 0, 0, 0, 1])):
        assert tensors.read(probs, targets, layout="multiclass", **options).faults.tolist() == faults


def test_the_largest_logit_is_predicted_though_its_probability_is_rounded_to_anothers():
    values, targets = torch.tensor([[0.0, 1e-20, -1.0]]), torch.tensor([1])
    soft = values.softmax(1)[0]
    assert soft[0] == soft[1]
    options = {"ignore_index": None, "logits": True, "seen": torch.zeros(4), "tolerance": 1e-3, "checked": True}
    rows = tensors.read(values, targets, layout="multiclass", **options)
    assert tensors.event(rows, layout="multiclass", notion="top-label")[1].tolist() == [1]


# ---------------------------------------------------------------- nothing waits, nothing large is made


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="interpreted kernels look at values")
@pytest.mark.parametrize("logits", [None, False, True])
def test_nothing_is_looked_at(logits):
    """On the meta device there are no values: whatever would look at one raises."""
    values, y = torch.empty((6, 4, 5), device="meta"), torch.empty((6, 5), dtype=torch.int64, device="meta")
    seen = torch.zeros(4, dtype=torch.int64, device="meta")
    options = {"ignore_index": -1, "logits": logits, "seen": seen, "tolerance": 1e-3, "checked": True}
    reading = tensors.read(values, y, layout="multiclass", **options)
    scores, outcomes = tensors.event(reading, layout="multiclass", notion="top-label")
    assert scores.shape == outcomes.shape == (30,)
    table = tensor_cells.cell_table(grid.edges("standard").astype(np.float32), torch.device("meta"))
    found = tensor_cells.cells(scores, outcomes, reading.evaluated, table)
    assert found.counts.shape == (2, 4396)
    assert found.sums.shape == (3, 4396)


@pytest.mark.covering
@pytest.mark.parametrize("shape", [(90, 30), (4, 30, 17), (23, 30, 2, 2)], ids=str)
@pytest.mark.parametrize("logits", [False, True, torch.tensor(True)], ids=["probs", "logits", "undeclared"])
def test_operations_go_block_by_block(monkeypatch, shape, logits):
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
    targets = torch.zeros(len(rows), dtype=torch.int64)
    known = {values.untyped_storage().data_ptr()}
    whole = tensors.read_blocks(values, targets, logits=logits, ignore_index=-1, tolerance=1e-3)
    far = tensors.beyond(values, targets, ignore_index=-1, low=0, high=0.5)
    monkeypatch.setattr(tensors, "_BLOCK", 30 * 8)
    with Watch():
        parts = tensors.read_blocks(values, targets, logits=logits, ignore_index=-1, tolerance=1e-3)
        also = tensors.beyond(values, targets, ignore_index=-1, low=0, high=0.5)
    assert all(torch.equal(a, b) for a, b in zip(whole, parts, strict=True))
    assert torch.equal(far, also)
    assert largest <= 30 * 8 * 8 < values.nbytes / 3  # a block of 8 rows, as indices or in double precision


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_gpu_reads_without_waiting(dtype):
    """Nothing synchronises, two runs give the same bits, and the host reads the same numbers."""
    values = torch.randn((4000, 1000), device="cuda", dtype=dtype)
    targets = torch.randint(0, 1000, (4000,), device="cuda")
    seen = torch.zeros(4, dtype=torch.int64, device="cuda")
    options = {"ignore_index": 3, "logits": None, "tolerance": 1e-3, "checked": True}
    table = tensor_cells.cell_table(grid.edges("standard").astype(np.float32), values.device)

    def once():
        reading = tensors.read(values, targets, layout="multiclass", seen=seen, **options)
        event = tensors.event(reading, layout="multiclass", notion="top-label")
        return reading, tensor_cells.cells(*event, reading.evaluated, table)

    first, counted = once()
    torch.cuda.set_sync_debug_mode("error")
    try:
        second, again = once()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert all(torch.equal(a, b) for a, b in zip(first.rows, second.rows, strict=True))
    assert torch.equal(counted.counts, again.counts)
    assert torch.equal(counted.sums, again.sums)
    host = tensors.read(values.cpu(), targets.cpu(), layout="multiclass", seen=seen.cpu(), **options)
    for a, b in zip(second.rows, host.rows, strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-5, atol=1e-5)


# ---------------------------------------------------------------- the benchmark


@pytest.fixture
def benchmark(monkeypatch):
    pytest.importorskip("torchmetrics")
    spec = spec_from_file_location("gpu", Path(__file__).parents[2] / "benchmarks" / "gpu.py")
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "gpu", module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(torch.cuda.is_available(), reason="measures where there is a GPU")
def test_the_benchmark_says_that_there_is_no_gpu(benchmark, capsys):
    assert benchmark.main([]) == 0
    assert capsys.readouterr().out == "no GPU here (torch.cuda.is_available() is False): nothing was measured\n"


@pytest.mark.slow
@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="takes a minute if kernels are interpreted")
def test_the_benchmark_runs_on_the_host(benchmark, capsys):
    assert benchmark.main(["--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith(("float32, ", "bfloat16, ", "float16, ")) for line in lines) == 9
    assert lines[-1] == "a dry run: these figures mean nothing"
