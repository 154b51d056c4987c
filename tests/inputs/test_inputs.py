"""What is refused, in which words, and what works: every kind of input through the public functions."""

from __future__ import annotations

import re
import sys
import types
from pathlib import PurePosixPath

import numpy as np
import pytest

import calibrant
from calibrant import (
    CalibrationSketch,
    brier_score,
    classwise_calibration_error,
    expected_calibration_error,
    negative_log_likelihood,
    score_decomposition,
    smooth_calibration_error,
)
from calibrant.errors import InputError
from calibrant.errors.faults import Fault, Mistake
from calibrant.inputs.predictions import as_predictions, check_logits
from tests.samples import sketch_of


def evaluate(*args, **options):
    """Evaluate without intervals and noise floors, which have tests of their own."""
    return calibrant.evaluate(*args, level=None, **options)


PROBS = [0.1, 0.8, 0.6, 0.3]
TARGETS = [0, 1, 1, 0]
ROWS = [[0.2, 0.5, 0.3], [0.6, 0.3, 0.1], [0.3, 0.6, 0.1], [0.4, 0.4, 0.2]]
CLASSES = [1, 0, 2, 0]
SIXTEENTHS = [[3 / 16, 8 / 16, 5 / 16], [9 / 16, 6 / 16, 1 / 16], [5 / 16, 9 / 16, 2 / 16], [6 / 16, 7 / 16, 3 / 16]]
NAN, INF = float("nan"), float("inf")

# Functions of one event or of classes, and those of classes alone.
FUNCTIONS = [expected_calibration_error, smooth_calibration_error, brier_score, evaluate]
CLASS_FUNCTIONS = [expected_calibration_error, classwise_calibration_error, brier_score, evaluate]

every_function = pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
every_class_function = pytest.mark.parametrize("function", CLASS_FUNCTIONS, ids=lambda f: f.__name__)


def refused(function, *args, **options):
    """Call, and return the error: an InputError whose message is made of its parts."""
    with pytest.raises(InputError) as caught:
        function(*args, **options)
    error = caught.value
    assert str(error) == f"{error.argument}: expected {error.expected}, got {error.got}; {error.remedy}"
    assert error.__context__ is None or error.__suppress_context__ or error.__cause__ is not None
    return error


def case(message, probs, targets, **options):
    return pytest.param(probs, targets, options, message, id=message[:70])


# ---------------------------------------------------------------- what is refused: probs

SOFT = (
    "for soft labels, pass each row once per class, with the soft label of the class as weight and the row number as "
    "cluster (see docs/soft-labels.md)"
)
NO_ARRAY = "pass an array, a column or a list of numbers"
NOT_FINITE = "find the source of this value, or remove the row from probs and targets"
UNSUMMED = (
    "normalise the rows (divide each by its sum), pass logits=True if they are logits, or notion='multilabel' for one "
    "event per column"
)
SWAPPED = (
    "probs: expected probabilities first and targets second, got labels first and fractions second; the arguments look "
    "swapped: call f(probs, targets)"
)

BAD_PROBS = [
    case("probs: expected at least one row, got shape (0,); check where the rows were lost", [], []),
    case("probs: expected at least one row, got shape (0, 3)", np.empty((0, 3)), []),
    case("probs: expected at least one row, got shape (2, 0)", np.empty((2, 0)), [0, 1]),
    case(
        "probs: expected an array of shape (N,) or (N, C), got a single number; for one prediction pass a list of one",
        0.5,
        1,
    ),
    case("probs: expected an array of shape (N,) or (N, C), got a single number", np.array(0.5), [1]),
    case(
        "probs: expected rows of equal length, got rows of different lengths; give every row the same number of "
        "entries",
        [[0.5, 0.5], [0.2, 0.3, 0.5]],
        [0, 1],
    ),
    case(
        "probs: expected real numbers, got strings such as '0.5'; convert them to numbers first, with "
        "np.asarray(probs, dtype=float)",
        ["0.5", "0.25"],
        [0, 1],
    ),
    case(
        "probs: expected real numbers, got strings such as '85%'; convert them to fractions first, "
        "for example '85%' to 0.85",
        ["85%", "25%"],
        [0, 1],
    ),
    case("probs: expected real numbers, got strings such as 'cat'; pass numbers, not names", ["cat", "dog"], [0, 1]),
    case(
        "probs: expected numbers, got strings such as 'b' in column 2, and numbers; pass the columns of the "
        "probabilities alone",
        np.array([[0.5, 0.5, "b"], [0.3, 0.7, "a"]], object),
        [0, 1],
    ),
    case("probs: expected real numbers, got dtype complex128; pass floating-point numbers", [0.5 + 0j], [1]),
    case("probs: expected real numbers, got dtype datetime64[D]", np.array(["2026-01-01"], "M8[D]"), [1]),
    case(f"probs: expected an array, got a dict; {NO_ARRAY}", {"a": 0.5}, [1]),
    case(f"probs: expected an array, got a str; {NO_ARRAY}", "predictions", [1]),
    case(
        "probs: expected an array, got a str; read the file first, or run: calibrant report predictions.npy",
        "predictions.npy",
        [1],
    ),
    case(
        "probs: expected an array, got a PurePosixPath; read the file first, or run: calibrant report data/a.csv",
        PurePosixPath("data/a.csv"),
        [1],
    ),
    case(f"probs: expected an array, got a bytes; {NO_ARRAY}", b"0.5", [1]),
    case(f"probs: expected an array, got a set; {NO_ARRAY}", {0.5}, [1]),
    case(f"probs: expected an array, got None; {NO_ARRAY}", None, [1]),
    case(f"probs: expected an array, got a map; {NO_ARRAY}", map(float, PROBS), TARGETS),
    case(
        "probs: expected no masked entries, got a masked array; filter the masked rows out first",
        np.ma.array(PROBS, mask=[0, 0, 1, 0]),
        TARGETS,
    ),
    case(
        "probs: expected numbers, got a missing value at row 1; remove the row from probs and targets first",
        [0.5, None],
        [0, 1],
    ),
    case("probs: expected numbers, got a missing value at row 1", [[0.5, 0.5], [0.5, None]], [0, 1]),
    case(
        "probs: expected numbers or strings, got a mixture of both; convert all of them to one type",
        np.array([0.5, "a"], object),
        [0, 1],
    ),
    case("probs: expected numbers or strings, got objects such as", np.array([object()]), [1]),
    case(f"probs: expected finite numbers, got nan at row 2; {NOT_FINITE}", [0.5, 0.5, NAN, NAN], TARGETS),
    case(f"probs: expected finite numbers, got inf at row 1; {NOT_FINITE}", [0.5, INF, 0.5, 2.0], TARGETS),
    case("probs: expected finite numbers, got -inf at row 1", [0.5, -INF, 0.5, 2.0], TARGETS),
    case("probs: expected finite numbers, got nan at row 1", np.float16([0.5, NAN, 0.5, NAN]), TARGETS),
    case("probs: expected finite numbers, got nan at row 1", [0.5, NAN], [0, 1], logits=True),
    case(
        "probs: expected values in [0, 1], got 2.5 at row 1; pass logits=True if they are logits",
        [0.5, 2.5, -1.0, 0.3],
        TARGETS,
    ),
    case(
        "probs: expected values in [0, 1], got -0.25 at row 0; pass logits=True if they are logits",
        [-0.25, 250.0],
        [0, 1],
    ),
    case(
        "probs: expected values in [0, 1], got 1.00001 at row 1; clip the values to [0, 1] if rounding caused this, or "
        "pass logits=True if they are logits",
        np.float32([0.5, 1.00001]),
        [0, 1],
    ),
    case(
        "probs: expected values in [0, 1], got 90 at row 1; the values look like percent: divide them by 100",
        [0.5, 90.0, 12.0],
        [0, 1, 0],
    ),
    case(
        "probs: expected values in [0, 1], got 9 at row 0; whole numbers up to 10 may be ranks or deciles: pass the "
        "probabilities instead",
        [9, 3, 7],
        [1, 0, 1],
    ),
    case(
        "probs: expected values in [0, 1], got 90 at row 0; the values look like percent: divide them by 100 (if they "
        "are predicted classes, pass the probabilities instead)",
        [90, 3, 7],
        [1, 0, 1],
    ),
    case(
        "probs: expected probabilities, got whole numbers up to 2; they look like predicted classes: pass the "
        "probabilities of the classes, of shape (N, C)",
        [0, 2, 1, 2],
        [0, 2, 1, 1],
    ),
    case(
        "probs: expected values in [0, 1], got -1.23457 at row 0; pass logits=True if they are logits",
        [-1.2345678, 0.5],
        [0, 1],
    ),
]


@pytest.mark.covering
@every_function
@pytest.mark.parametrize(("probs", "targets", "options", "message"), BAD_PROBS)
def test_bad_probs(function, probs, targets, options, message):
    if isinstance(probs, map):
        probs = map(float, PROBS)  # the table's own is used up by the first function
    assert str(refused(function, probs, targets, **options)).startswith(message)


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="long double is double here")
@every_function
def test_long_double_is_refused(function):
    error = refused(function, np.longdouble(PROBS), TARGETS)
    assert error.expected == "float16, bfloat16, float32 or float64"
    assert error.remedy == "round it to float64"


BAD_ROWS = [
    case(
        f"probs: expected finite numbers, got nan at row 1, column 2; {NOT_FINITE}",
        [[0.5, 0.5, 0], [0.5, 0.5, NAN], [NAN, 0, 1]],
        [0, 1, 2],
    ),
    case("probs: expected finite numbers, got inf at row 1, column 0", np.float16([[0.5, 0.5], [INF, NAN]]), [0, 1]),
    case("probs: expected finite numbers, got inf at row 1, column 1", [[0.5, 0.5], [-INF, INF]], [0, 1], logits=True),
    case(
        "probs: expected values in [0, 1], got -1.5 at row 1, column 0; pass logits=True if they are logits",
        [[0.5, 0.5], [-1.5, 2.5]],
        [0, 1],
    ),
    case(
        "probs: expected values in [0, 1], got 20 at row 0, column 0; the values look like percent: divide them by 100",
        [[20, 50.0, 30], [60, 30, 10]],
        [0, 1],
    ),
    case(
        "probs: expected values in [0, 1], got 20 at row 0, column 0; pass logits=True if they are logits",
        [[20, 50.0, 90], [60, 30, 10]],
        [0, 1],
    ),
    case(
        "probs: expected rows that sum to 1 within 0.001, got 0.8 at row 0; column 1 of probs holds the targets, "
        "so leave the column out",
        [[0.8, 0], [0.6, 1], [0.3, 0]],
        [0, 1, 0],
    ),
    case(
        "probs: expected values in [0, 1], got 2 at row 1, column 3; column 3 of probs holds the targets, so "
        "leave the column out",
        [[0.2, 0.5, 0.3, 0], [0.6, 0.3, 0.1, 2], [0.6, 0.3, 0.1, 1]],
        [0, 2, 1],
    ),
    case(
        "probs: expected rows that sum to 1 within 0.001, got 0.5 at row 0; column 0 of probs holds whole numbers: "
        "leave the column out if it is not a probability",
        [[0, 0.5], [1, 0.3], [2, 0.7]],
        [0, 1, 1],
    ),
    case(
        f"probs: expected rows that sum to 1 within 0.001, got 0.9 at row 1; {UNSUMMED}",
        [[0.5, 0.5], [0.5, 0.4], [0.1, 0.1]],
        [0, 1, 0],
    ),
    case("probs: expected rows that sum to 1 within 0.001, got 1.7 at row 0", [[0.8, 0.9]], [0]),
    case(
        f"probs: expected rows that sum to 1 within 0.001, got 0.8 at row 0; {UNSUMMED}",
        [[0.5, 0.3, 0], [0.4, 0.3, 0]],
        [0, 1],
    ),
    case(
        "targets: expected 3 labels, one for each row (or one-hot rows of 4), got shape (4,); probs look "
        "transposed: pass shape (N, C), with a row for each prediction and a column for each class",
        np.transpose(ROWS),
        CLASSES,
    ),
]


@pytest.mark.covering
@every_class_function
@pytest.mark.parametrize(("probs", "targets", "options", "message"), BAD_ROWS)
def test_bad_rows(function, probs, targets, options, message):
    assert str(refused(function, probs, targets, **options)).startswith(message)


@pytest.mark.covering
@pytest.mark.parametrize("value", [NAN, 1.5])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("threads", ["1", "2"])
def test_the_first_bad_row_of_a_large_array_is_named(monkeypatch, value, dtype, threads):
    """Later than the first block, with another bad row in a still later one that another thread may meet earlier."""
    monkeypatch.setenv("CALIBRANT_NUM_THREADS", threads)
    n = 1_000_000
    probs, targets = np.full(n, 0.5, dtype), np.zeros(n, np.int8)
    probs[745_678] = probs[745_699] = probs[-1] = value
    error = refused(brier_score, probs, targets)
    assert (error.row, error.column) == (745_678, 0)
    assert error.got == f"{value} at row 745678"
    rows = np.stack([probs, 1 - probs], axis=1)[: n // 2]
    rows[434_567] = [0.25, value]
    rows[434_568] = value
    error = refused(brier_score, rows, targets[: n // 2])
    assert (error.row, error.column) == (434_567, 1)


def test_the_first_bad_row_of_stacked_sheets_is_named():
    """(N, C, D): row b D + d is probs[b, :, d]."""
    probs = np.full((3, 2, 5), 0.5)
    probs[1, 1, 4] = NAN
    error = refused(brier_score, probs, np.zeros((3, 5), int))
    assert (error.row, error.column) == (9, 1)


def half(name):
    if name == "bfloat16":
        torch = pytest.importorskip("torch")
        return lambda rows: torch.tensor(rows, dtype=torch.bfloat16), 2.0**-7
    return lambda rows: np.array(rows, dtype=name), float(np.finfo(name).eps)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_rows_may_miss_1_by_the_tolerance_of_their_type(name):
    """1e-3 and twice the type's resolution: entries that are exact in each type, just inside and just outside."""
    make, eps = half(name)
    tolerance = 1e-3 + 2 * eps
    step = 2.0**-9 if name == "bfloat16" else 2.0**-12
    inside = step * np.floor(tolerance / step)
    for sign in (1, -1):
        brier_score(make([[0.5, 0.5], [0.5, 0.5 + sign * inside]]), [0, 1])
        outside = make([[0.5, 0.5], [0.5, 0.5 + sign * (inside + 2 * step)]])
        error = refused(brier_score, outside, [0, 1])
        assert error.row == 1
        assert error.expected == f"rows that sum to 1 within {tolerance:.2g}"


# ---------------------------------------------------------------- what is refused: targets

FRACTION = "remove the row from probs and targets, or round the target if it should be an integer"

BAD_OUTCOMES = [
    case(
        "targets: expected 4 labels, one for each row, got shape (3,); pass exactly one entry of targets for each row "
        "of probs",
        PROBS,
        TARGETS[:3],
    ),
    case("targets: expected 1 label, one for each row, got shape (2,)", [0.5], [0, 1]),
    case(
        "targets: expected 4 labels, one for each row, got shape (); pass a label for each row, such as [1]",
        PROBS,
        1,
    ),
    case(
        "targets: expected 4 labels, one for each row, got shape (4, 2); the targets look one-hot: pass "
        "targets[:, 1] if that column marks the event",
        PROBS,
        [[1, 0], [0, 1], [0, 1], [1, 0]],
    ),
    case("targets: expected 4 labels, one for each row, got shape (1, 4)", PROBS, [TARGETS]),
    case(
        "targets: expected 4 labels, one for each row, got shape (4, 2); pass one label per row, or for "
        "several labels per row notion='multilabel' and probs of the same shape",
        PROBS,
        [[1, 1]] * 4,
    ),
    case(f"targets: expected an array, got None; {NO_ARRAY}", PROBS, None),
    case(f"targets: expected an array, got a str; {NO_ARRAY}", PROBS, "abcd"),
    case(f"targets: expected an array, got a dict; {NO_ARRAY}", PROBS, {}),
    case("targets: expected rows of equal length, got rows of different lengths", PROBS, [[0], [1, 0]]),
    case(
        "targets: expected outcomes 0 or 1, got dtype complex128; pass integers, booleans or class names",
        PROBS,
        [0j, 1, 1, 0],
    ),
    case(
        "targets: expected outcomes 0 or 1, got 2 at row 2; map the targets to 0 and 1, or for more than two classes "
        "pass probs of shape (N, C)",
        PROBS,
        [0, 1, 2, 3],
    ),
    case("targets: expected outcomes 0 or 1, got 2 at row 1; the labels look 1-based: subtract 1", PROBS, [1, 2, 2, 1]),
    case(
        "targets: expected outcomes 0 or 1, got -1 at row 1; the labels are -1 and 1: pass np.asarray(targets) == 1 "
        "if 1 is the event",
        PROBS,
        [1, -1, 1, -1],
    ),
    case(
        "targets: expected outcomes 0 or 1, got -1 at row 1; the labels are -1 and 1: pass np.asarray(targets) == 1",
        PROBS,
        [1.0, -1.0, 1.0, -1.0],
    ),
    case(
        "targets: expected outcomes 0 or 1, got 255 at row 1; the labels are 0 and 255: pass np.asarray(targets) == "
        "255 if 255 is the event",
        PROBS,
        np.uint8([0, 255, 255, 0]),
    ),
    case(
        "targets: expected outcomes 0 or 1, got -1 at row 1; map -1 to 0, or pass ignore_index=-1 to leave such "
        "rows out",
        PROBS,
        [1, -1, 0, -1],
    ),
    case(
        "targets: expected outcomes 0 or 1, got 2 at row 1; the labels look 1-based: subtract 1",
        PROBS,
        [1.0, 2.0, 2.0, 1.0],
    ),
    case(f"targets: expected outcomes 0 or 1, got 0.5 at row 2; {FRACTION}", PROBS, [0, 1, 0.5, 0.5]),
    case(
        "targets: expected outcomes 0 or 1, got nan at row 3; remove the row from probs and targets",
        PROBS,
        [0, 1, 1, NAN],
    ),
    case(
        "targets: expected outcomes 0 or 1, got inf at row 3; remove the row from probs and targets",
        PROBS,
        [0, 1, 1, INF],
    ),
    case("targets: expected outcomes 0 or 1, got 1e+300 at row 3", PROBS, [0, 1, 1, 1e300]),
    case(
        "targets: expected a label in every row, got a missing value at row 1; remove the row from probs and "
        "targets first",
        PROBS,
        [0, None, 1, 0],
    ),
    case("targets: expected a label in every row, got a missing value at row 2", PROBS, ["no", "yes", None, "no"]),
    case("targets: expected numbers or strings, got a mixture of both", PROBS, np.array(["no", 1, 1, 0], object)),
    case(
        "targets: expected integers, got strings such as 'no'; pass np.asarray(targets) == 'yes' if 'yes' is the "
        "event, or class_names=['no', 'yes'] to calibrant.evaluate",
        PROBS,
        ["no", "yes", "no", "yes"],
    ),
    case(
        "targets: expected integers, got strings such as 'True'; pass np.asarray(targets) == 'True' if 'True' is the "
        "event",
        PROBS,
        ["True", "False", "True", "False"],
    ),
    case(
        "targets: expected integers, got strings such as '1'; convert them to integers first, with "
        "np.asarray(targets, dtype=int)",
        PROBS,
        ["1", "0", "1", "0"],
    ),
    case(
        "targets: expected integers, got strings such as 'a'; pass class_names to calibrant.evaluate, "
        "or map the targets to integers",
        PROBS,
        ["a", "b", "c", "a"],
    ),
    case(
        "targets: expected outcomes 0 or 1, got 0.1 at row 0; the targets look like probabilities: pass the observed "
        f"outcomes, as 0 and 1 or class indices; {SOFT}",
        PROBS,
        PROBS,
    ),
    case("targets: expected no masked entries", PROBS, np.ma.array(TARGETS, mask=[1, 0, 0, 0])),
]


@pytest.mark.covering
@every_function
@pytest.mark.parametrize(("probs", "targets", "options", "message"), BAD_OUTCOMES)
def test_bad_outcomes(function, probs, targets, options, message):
    if function is evaluate and targets is None:
        message = "targets: expected an array, got None; pass the labels; without labels, probs must be a "
        message += "ReliabilityTable or a CalibrationSketch"
    assert str(refused(function, probs, targets, **options)).startswith(message)


ONE_HOT = "targets: expected one-hot rows (a single 1 among 0s), got"

BAD_CLASSES = [
    case(
        "targets: expected 4 labels, one for each row (or one-hot rows of 3), got shape (5,); pass exactly "
        "one entry of targets for each row of probs",
        ROWS,
        [0] * 5,
    ),
    case(
        "targets: expected 4 labels, one for each row (or one-hot rows of 3), got shape (4, 2)",
        ROWS,
        [[0, 1]] * 4,
    ),
    case(
        "targets: expected class indices 0 to 2, got 7 at row 1; check that probs has a column for every class, or "
        "pass ignore_index=7 to leave such rows out",
        ROWS,
        [0, 7, 8, 1],
    ),
    case("targets: expected class indices 0 to 2, got 255 at row 3", ROWS, np.uint8([0, 1, 2, 255])),
    case(
        "targets: expected class indices 0 to 2, got -100 at row 2; pass ignore_index=-100 to leave such rows out",
        ROWS,
        [0, 1, -100, 3],
    ),
    case("targets: expected class indices 0 to 2, got 7 at row 0; check that probs has", ROWS, [7, 1, -100, 1]),
    case(
        "targets: expected class indices 0 to 2, got 3 at row 2; the labels look 1-based: subtract 1",
        ROWS,
        [1, 2, 3, 1],
    ),
    case(f"targets: expected class indices 0 to 2, got 1.5 at row 1; {FRACTION}", ROWS, [0, 1.5, 0, 0.5]),
    case(
        "targets: expected class indices 0 to 2, got nan at row 1; remove the row from probs and targets",
        ROWS,
        [0, NAN, 0, 1],
    ),
    case(
        "targets: expected integers, got strings such as 'cat'; pass class_names to calibrant.evaluate, in the order "
        "of the columns (classes_ of scikit-learn), or map the targets to integers",
        ROWS,
        ["cat", "dog", "cat", "eel"],
    ),
    case(
        f"{ONE_HOT} 2 ones at row 3; pass class indices, or notion='multilabel' for several labels per row",
        ROWS,
        [[1, 0, 0]] * 3 + [[1, 0, 1]],
    ),
    case(f"{ONE_HOT} no ones at row 2", ROWS, [[1, 0, 0]] * 2 + [[0, 0, 0], [1, 1, 1]]),
    case(
        f"{ONE_HOT} 0.25 at row 1; the targets look like probabilities: pass class indices; if label smoothing "
        f"made them, pass targets.argmax(axis=1); {SOFT}",
        ROWS,
        [[1, 0, 0], [0.25, 0.75, 0], [1, 0, 0], [1, 0, 0]],
    ),
    case(
        f"{ONE_HOT} 2 ones at row 0; probs and targets look transposed: pass probs.T and targets.T",
        np.transpose(ROWS),
        np.eye(3, dtype=int)[CLASSES].T,
    ),
    case(
        f"{ONE_HOT} 2 ones at row 0; probs look like one prediction for many classes: if they are many predictions of "
        "one event, pass probs.reshape(-1), targets.reshape(-1)",
        [PROBS],
        [TARGETS],
    ),
    case(
        "targets: expected 1 label, one for each row (or one-hot rows of 4), got shape (4,); probs look like "
        "one prediction for many classes: if they are many predictions of one event, pass probs.reshape(-1)",
        [PROBS],
        TARGETS,
    ),
    case(
        "targets: expected 4 labels, one for each row (or one-hot rows of 3), got shape (3, 4); the one-hot "
        "targets look transposed: pass targets.T",
        ROWS,
        np.eye(3)[CLASSES].T,
    ),
    case(
        "targets: expected class indices 0 to 2, got 0.1 at row 0; the targets look like probabilities: pass the "
        f"observed outcomes, as 0 and 1 or class indices; {SOFT}",
        ROWS,
        PROBS,
    ),
    case(
        "targets: expected class indices 0 to 1, got -1 at row 1; the labels are -1 and 1: pass np.asarray(targets) "
        "== 1 if 1 is the second class",
        [[0.5, 0.5]] * 4,
        [1, -1, 1, -1],
    ),
    case(f"{ONE_HOT} nan at row 1", ROWS, [[1, 0, 0], [0, NAN, 1], [1, 0, 0], [1, 0, 0]]),
    case(f"{ONE_HOT} -1 at row 0", ROWS, [[-1, 1, 0]] * 4),
    case("targets: expected one-hot rows of 0 and 1, got dtype <U1; pass class indices", ROWS, [["a", "b", "c"]] * 4),
]


@pytest.mark.covering
@every_class_function
@pytest.mark.parametrize(("probs", "targets", "options", "message"), BAD_CLASSES)
def test_bad_classes(function, probs, targets, options, message):
    assert str(refused(function, probs, targets, **options)).startswith(message)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("n", [10, 500_000])
def test_probabilities_are_no_logits(dtype, n):
    """Ten rows in [0, 1] that each add up to 1 are none."""
    rows = np.random.default_rng(0).dirichlet(np.ones(3), n).astype(dtype)
    assert str(refused(check_logits, rows)) == (
        "logits: expected logits, got probabilities: every row is in [0, 1] and adds up to 1; leave logits=True out, "
        "or pass the softmax of probs if they are logits"
    )


@pytest.mark.parametrize("place", [0, 9, 400_000])
@pytest.mark.parametrize("row", [[0.2, 0.3, 0.6], [1.5, -0.5, 0.0], [NAN, 0.5, 0.5]])
def test_a_single_row_is_enough_for_logits(place, row):
    rows = np.random.default_rng(0).dirichlet(np.ones(3), 500_000)
    rows[place] = row
    check_logits(rows)


def test_what_may_be_logits_is_taken_for_logits():
    rows = np.random.default_rng(0).dirichlet(np.ones(3), 10)
    check_logits(rows[:9])  # too few to be sure
    check_logits(np.linspace(0.1, 0.9, 20))  # of one event it cannot be known
    check_logits(np.ones((20, 1)))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_evaluate_warns_where_logits_of_one_event_may_be_probabilities(dtype, shape):
    values, targets = np.linspace(0, 1, 10).astype(dtype).reshape(shape), np.arange(10) % 2
    words = (
        r"^logits: expected logits of one event, got values that all lie in \[0, 1\]; if they are probabilities, leave"
    )
    with pytest.warns(UserWarning, match=words) as caught:
        calibrant.evaluate(values, targets, logits=True, level=None)
    line = sys._getframe().f_lineno - 1
    assert [(warning.filename, warning.lineno) for warning in caught] == [(__file__, line)]
    # No doubt: fewer rows, a value outside, probabilities that are called so, classes.
    calibrant.evaluate(values[:9], targets[:9], logits=True, level=None)
    calibrant.evaluate(np.where(values == 1, 1.5, values), targets, logits=True, level=None)
    calibrant.evaluate(values, targets, level=None)
    calibrant.evaluate(np.full((10, 2), 0.25), targets, logits=True, level=None)


def test_the_doubt_about_logits_reads_bfloat16():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    values, targets = torch.linspace(0, 1, 10, dtype=torch.bfloat16), torch.arange(10) % 2
    with pytest.warns(UserWarning, match="^logits: expected logits of one event"):
        calibrant.evaluate(values, targets, logits=True, level=None)
    calibrant.evaluate(values - 0.5, targets, logits=True, level=None)


def test_a_bad_one_hot_row_is_found_late():
    targets = np.zeros((70_000, 4), np.int8)
    targets[:, 1] = 1
    targets[65_432, 1] = 0
    error = refused(brier_score, np.full((70_000, 4), 0.25, np.float32), targets)
    assert (error.row, error.got) == (65_432, "no ones at row 65432")
    stacked = np.moveaxis(targets.reshape(7, 10_000, 4), 2, 1)
    error = refused(brier_score, np.full((7, 4, 10_000), 0.25, np.float32), stacked)
    assert error.row == 65_432


# ---------------------------------------------------------------- facts, for whoever words the error

FACTS = [
    (None, TARGETS, {}, Fault.NO_ARRAY, None),
    ("a.npy", TARGETS, {}, Fault.NO_ARRAY, Mistake.FILE_NAME),
    (["a", "b"], [0, 1], {}, Fault.TEXT, None),
    (["85%", "2%"], [0, 1], {}, Fault.TEXT, Mistake.PERCENT_TEXT),
    (["0.5", "1"], [0, 1], {}, Fault.TEXT, Mistake.NUMBER_TEXT),
    ([0.5, None], [0, 1], {}, Fault.MISSING, None),
    ([0.5, NAN], [0, 1], {}, Fault.NOT_FINITE, None),
    ([0.5, 90.0], [0, 1], {}, Fault.OUTSIDE_RANGE, Mistake.PERCENT),
    ([5, 90], [0, 1], {}, Fault.OUTSIDE_RANGE, Mistake.PERCENT_OR_CLASSES),
    ([0.5, 1.0001], [0, 1], {}, Fault.OUTSIDE_RANGE, Mistake.ROUNDING),
    ([0.5, -5.0], [0, 1], {}, Fault.OUTSIDE_RANGE, Mistake.LOGITS),
    ([[0.8, 0], [0.6, 1], [0.3, 0]], [0, 1, 0], {}, Fault.ROW_SUM, Mistake.TARGET_COLUMN),
    ([[0, 0.5], [1, 0.3], [2, 0.7]], [0, 1, 1], {}, Fault.ROW_SUM, Mistake.COUNT_COLUMN),
    ([[0.5, 0.4]], [1], {}, Fault.ROW_SUM, Mistake.LOGITS),
    ([0, 2, 1], [0, 2, 1], {}, Fault.PREDICTED_CLASSES, None),
    (TARGETS, PROBS, {}, Fault.SWAPPED, None),
    (PROBS, TARGETS[1:], {}, Fault.LENGTHS, None),
    (PROBS, 1, {}, Fault.LENGTHS, Mistake.SINGLE_LABEL),
    ([PROBS], TARGETS, {}, Fault.LENGTHS, Mistake.SINGLE_ROW),
    (np.transpose(ROWS), CLASSES, {}, Fault.LENGTHS, Mistake.TRANSPOSED_PROBS),
    (ROWS, np.eye(3)[CLASSES].T, {}, Fault.LENGTHS, Mistake.TRANSPOSED_TARGETS),
    (PROBS, np.eye(2)[TARGETS], {}, Fault.LENGTHS, Mistake.ONE_HOT_EVENT),
    (PROBS, [[1, 1]] * 4, {}, Fault.LENGTHS, Mistake.SEVERAL_LABELS),
    (PROBS, [0, 1, 2, 3], {}, Fault.OUTCOMES, None),
    (PROBS, [1, 2, 2, 1], {}, Fault.OUTCOMES, Mistake.ONE_BASED),
    (PROBS, [5, 7, 7, 5], {}, Fault.OUTCOMES, Mistake.TWO_LABELS),
    (PROBS, [0, 1, -1, 0], {}, Fault.OUTCOMES, Mistake.IGNORED_LABEL),
    (PROBS, PROBS, {}, Fault.OUTCOMES, Mistake.PROBABILITY_TARGETS),
    (PROBS, [0, 1, 0.5, 0], {}, Fault.OUTCOMES, Mistake.FRACTION),
    (PROBS, [0j] * 4, {}, Fault.LABEL_TYPE, None),
    (PROBS, ["no", "yes", "no", "yes"], {}, Fault.LABEL_NAMES, Mistake.TWO_LABELS),
    (PROBS, ["0", "1", "0", "1"], {}, Fault.LABEL_NAMES, Mistake.NUMBER_TEXT),
    (ROWS, [1, 2, 3, 1], {}, Fault.CLASS_INDICES, Mistake.ONE_BASED),
    (ROWS, [0, 7, 0, 0], {}, Fault.CLASS_INDICES, Mistake.COLUMN_LACKING),
    (ROWS, [0, -7, 0, 0], {}, Fault.CLASS_INDICES, Mistake.IGNORED_LABEL),
    ([[0.5, 0.5]] * 4, [1, -1, 1, -1], {}, Fault.CLASS_INDICES, Mistake.TWO_LABELS),
    (ROWS, [[1, 0, 0]] * 3 + [[1, 0, 1]], {}, Fault.ONE_HOT, None),
    ([PROBS], [TARGETS], {}, Fault.ONE_HOT, Mistake.SINGLE_ROW),
    (np.transpose(ROWS), np.eye(3, dtype=int)[CLASSES].T, {}, Fault.ONE_HOT, Mistake.TRANSPOSED_BOTH),
    (ROWS, ROWS, {}, Fault.ONE_HOT, Mistake.PROBABILITY_TARGETS),
    (PROBS, TARGETS, {"weights": [1, 1, -1, 1]}, Fault.WEIGHT, None),
    (PROBS, TARGETS, {"ignore_index": 0.5}, Fault.VALUE, None),
]


@pytest.mark.parametrize(("probs", "targets", "options", "fault", "mistake"), FACTS)
def test_an_error_says_in_values_what_is_wrong(probs, targets, options, fault, mistake):
    error = refused(brier_score, probs, targets, **options)
    assert (error.fault, error.facts.mistake) == (fault, mistake)
    if error.facts.place is not None:
        assert error.got.endswith(f" at {error.facts.place}")
        assert (error.row, error.column) == (error.facts.place.row, error.facts.place.column)


def test_facts_are_numbers_and_names():
    error = refused(brier_score, PROBS, [5, 7, 7, 5])
    assert (error.facts.value, error.facts.n_classes, error.facts.suspicion.labels) == (5, None, (5, 7))
    error = refused(evaluate, ROWS[:2], ["dog", "eel"], class_names=["cat", "dof", "eel"])
    assert (error.fault, error.facts.value, error.facts.names) == (Fault.UNKNOWN_NAME, "dog", ("cat", "dof", "eel"))
    error = refused(brier_score, [[0.8, 0], [0.6, 1]], [0, 1])
    assert (error.facts.value, error.facts.suspicion.column) == (0.8, 1)
    labels = [[0, 1, 1], [1, 0, 2]]
    error = refused(expected_calibration_error, np.full((2, 3), 0.4), labels, notion="multilabel")
    assert (error.row, error.column, error.got) == (1, 2, "2 at row 1, column 2")
    assert refused(check_logits, np.full((10, 2), 0.5)).fault is Fault.PROBABILITIES_AS_LOGITS


def test_a_lazy_frame_is_a_mistake_of_its_own():
    polars = pytest.importorskip("polars")
    error = refused(brier_score, polars.LazyFrame({"p": PROBS}), TARGETS)
    assert (error.fault, error.facts.mistake) == (Fault.NO_ARRAY, Mistake.NOT_COLLECTED)


# ---------------------------------------------------------------- arguments in the wrong order

ONES = np.eye(3)[CLASSES]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(TARGETS, PROBS, id="integers"),
        pytest.param(np.array(TARGETS, float), PROBS, id="floats"),
        pytest.param(np.array(TARGETS, bool), PROBS, id="booleans"),
        pytest.param(np.array(TARGETS)[:, None], PROBS, id="a column"),
        pytest.param(["a", "b", "b", "a"], PROBS, id="strings"),
        pytest.param(np.array(["a", "b", "b", "a"], object), np.float16(PROBS), id="string objects"),
        pytest.param(TARGETS, np.float32(PROBS)[:, None], id="(N, 1) second"),
        pytest.param(CLASSES, ROWS, id="class indices"),
        pytest.param(np.array(CLASSES, np.float32), np.float32(ROWS), id="class indices as floats"),
        pytest.param(CLASSES, [0.2, 0.5, 0.3, 0.9], id="class indices, confidences"),
        pytest.param(ONES.astype(int), ROWS, id="one-hot integers"),
        pytest.param(ONES, ROWS, id="one-hot floats"),
        pytest.param(ONES.astype(bool), ROWS, id="one-hot booleans"),
        pytest.param(np.zeros((2, 5), int), np.full((2, 3, 5), 0.3), id="segmentation"),
        pytest.param(TARGETS, [2.5, -1.0, 0.5, 3.0], id="logits"),
    ],
)
@every_function
def test_swapped_arguments_are_recognised(function, first, second):
    assert str(refused(function, first, second)) == SWAPPED


def test_swapped_bfloat16():
    torch = pytest.importorskip("torch")
    for labels in (torch.tensor(TARGETS), torch.tensor(TARGETS, dtype=torch.bfloat16)):
        assert str(refused(brier_score, labels, torch.tensor(PROBS, dtype=torch.bfloat16))) == SWAPPED


def test_swapped_multilabel():
    targets = np.array([[0, 1, 1], [1, 0, 1]])
    assert str(refused(brier_score, targets, np.full((2, 3), 0.4))) == SWAPPED
    assert str(refused(expected_calibration_error, targets, np.full((2, 3), 0.4), notion="multilabel")) == SWAPPED


def test_fractional_targets_alone_do_not_look_swapped():
    assert "swapped" not in str(refused(brier_score, PROBS, [0, 1, 0.5, 0]))


# ---------------------------------------------------------------- what is refused: weights, ignore_index, names

BAD_WEIGHTS = [
    ([1, -0.5, 1, -1], "weights: expected finite numbers of 0 or more, got -0.5 at row 1; correct or drop the row"),
    ([1, 1, NAN, 1], "weights: expected finite numbers of 0 or more, got nan at row 2"),
    ([1, 1, 1, INF], "weights: expected finite numbers of 0 or more, got inf at row 3"),
    ([0, 0, 0, 0], "weights: expected at least one above 0, got only zeros; leave weights out to count every row once"),
    ([1, 2], "weights: expected 4 numbers, one per row, got shape (2,); pass one number per row"),
    (1.0, "weights: expected 4 numbers, one per row, got shape ()"),
    (["a", "b", "c", "d"], "weights: expected real numbers, got strings such as 'a'"),
    ([1j, 1, 1, 1], "weights: expected real numbers, got dtype complex128"),
    ([1, None, 1, 1], "weights: expected numbers, got a missing value at row 1"),
    ({"a": 1}, "weights: expected an array, got a dict"),
]


@pytest.mark.parametrize(("weights", "message"), BAD_WEIGHTS, ids=[message[:60] for _, message in BAD_WEIGHTS])
@every_function
def test_bad_weights(function, weights, message):
    error = refused(function, PROBS, TARGETS, weights=weights)
    assert str(error).startswith(message)
    assert error.row == (int(match[1]) if (match := re.search(r"at row (\d+)", error.got)) else None)


@every_function
def test_weights_that_leave_nothing_to_judge(function):
    error = refused(function, PROBS, [0, 1, -1, -1], weights=[0, 0, 1, 1], ignore_index=-1)
    assert error.got == "only zeros"


@every_function
def test_ignore_index_that_leaves_nothing(function):
    error = refused(function, PROBS, [-1] * 4, ignore_index=-1)
    assert str(error) == (
        "ignore_index: expected a value that leaves at least one row, got -1, which equals every target; check the "
        "targets, or leave ignore_index out"
    )
    assert refused(function, PROBS, [-1] * 4, ignore_index=-1, weights=[1] * 4).argument == "ignore_index"


@pytest.mark.parametrize("value", ["-1", 1.5, True, [0]])
def test_ignore_index_is_an_integer(value):
    error = refused(brier_score, PROBS, TARGETS, ignore_index=value)
    assert str(error).startswith(f"ignore_index: expected an integer, got {value!r}; pass the target of the rows to")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["cat", "dog"], "class_names: expected 3 names, one per class, got 2; name the classes in column order"),
        (["cat", "dog", "cat"], "class_names: expected distinct names, got 'cat' more than once; rename one of them"),
        ("cde", "class_names: expected a list of names, got 'cde'; pass a list such as ['cat', 'dog'], in the order"),
        (3, "class_names: expected a list of names, got 3"),
        (["cat", "dof", "eel"], "targets: expected names among class_names, got 'dog' at row 1; did you mean 'dof'?"),
        (["x", "y", "z"], "targets: expected names among class_names, got 'cat' at row 0; choose from 'x', 'y', 'z'"),
    ],
)
def test_bad_class_names(names, message):
    error = refused(evaluate, ROWS[:3], ["cat", "dog", "eel"], class_names=names)
    assert str(error).startswith(message)


def test_one_event_has_two_names():
    assert refused(evaluate, PROBS, TARGETS, class_names=["no", "yes", "maybe"]).got == "3"


# ---------------------------------------------------------------- what is refused: options

REFUSED_OPTIONS = [
    (
        expected_calibration_error,
        {"notion": "top_label"},
        "notion: expected one of 'positive', 'top-label', "
        "'classwise', 'multilabel', got 'top_label'; did you mean 'top-label'?",
    ),
    (brier_score, {"logits": "yes"}, "logits: expected True or False, got 'yes'; pass True if probs are logits"),
    (expected_calibration_error, {"logits": None}, "logits: expected True or False, got None"),
    (smooth_calibration_error, {"notion": "toplabel"}, "did you mean 'top-label'?"),
    (evaluate, {"notion": "multi-label"}, "did you mean 'multilabel'?"),
    (
        evaluate,
        {"notion": 3},
        "expected one of 'positive', 'top-label', 'classwise', 'multilabel', got 3; pass one of these",
    ),
    (
        expected_calibration_error,
        {"norm": "L1"},
        "norm: expected one of 'l1', 'l2', 'max', got 'L1'; did you mean 'l1'?",
    ),
    (expected_calibration_error, {"norm": np.array(["l1", "l2"])}, "norm: expected one of 'l1', 'l2', 'max', got "),
    (classwise_calibration_error, {"norm": "maximum"}, "did you mean 'max'?"),
    (
        expected_calibration_error,
        {"binning": "quantiles"},
        "binning: expected one of 'uniform', 'quantile', got 'quantiles'; did you mean 'quantile'?",
    ),
    (
        expected_calibration_error,
        {"closed": "rigth"},
        "closed: expected one of 'right', 'left', got 'rigth'; did you mean 'right'?",
    ),
    (
        smooth_calibration_error,
        {"kernel": "logits"},
        "kernel: expected one of 'reflected', 'logit', got 'logits'; did you mean 'logit'?",
    ),
    (smooth_calibration_error, {"method": "grid"}, "method: expected one of 'exact', 'mesh', got 'grid'; pass one of"),
    (smooth_calibration_error, {"method": "exact", "kernel": "logit"}, "method: expected 'mesh' for the logit kernel"),
    (smooth_calibration_error, {"bandwidth": -1}, "bandwidth: expected 'auto' or a positive number from 1e-9, got -1"),
    (smooth_calibration_error, {"bandwidth": NAN}, "expected 'auto' or a positive number from 1e-9, got nan"),
    (
        score_decomposition,
        {"score": "breir"},
        "score: expected one of 'brier', 'log', got 'breir'; did you mean 'brier'?",
    ),
    (
        score_decomposition,
        {"method": "murphey"},
        "method: expected one of 'corp', 'murphy', got 'murphey'; did you mean 'murphy'?",
    ),
    *(
        (
            function,
            {"n_bins": n},
            f"n_bins: expected an integer from 1 to 1,000,000, got {n!r}; pass the number of bins, such as 15",
        )
        for function in (expected_calibration_error, classwise_calibration_error, evaluate, score_decomposition)
        for n in (0, -3, 10**7, 1.5, 15.0, True, "15", None)
    ),
    *(
        (
            classwise_calibration_error,
            {"threshold": t},
            f"threshold: expected a number in [0, 1], got {t!r}; pass 0 to keep every score",
        )
        for t in (-0.1, 1.5, NAN, "0.1", None)
    ),
    *(
        (
            negative_log_likelihood,
            {"eps": eps},
            f"eps: expected a number in [0, 1), got {eps!r}; leave it out, or pass something like 1e-12",
        )
        for eps in (-1e-9, 1, 1.0, NAN, "0", None)
    ),
]


@pytest.mark.parametrize(
    ("function", "options", "message"),
    REFUSED_OPTIONS,
    ids=[f"{function.__name__} {options}" for function, options, _ in REFUSED_OPTIONS],
)
def test_bad_options(function, options, message):
    probs, targets = (ROWS, CLASSES) if function is classwise_calibration_error else (PROBS, TARGETS)
    assert message in str(refused(function, probs, targets, **options))


@pytest.mark.parametrize(
    ("function", "probs", "targets", "notion", "message"),
    [
        (
            expected_calibration_error,
            ROWS,
            CLASSES,
            "positive",
            "notion: expected 'top-label' or 'classwise' for 3 "
            "classes, got 'positive'; pass one class's column as probs, or another notion",
        ),
        (evaluate, ROWS, CLASSES, "positive", "notion: expected 'top-label' or 'classwise' for 3 classes"),
        (
            expected_calibration_error,
            PROBS,
            TARGETS,
            "classwise",
            "notion: expected 'positive' or 'top-label' for probs of shape (N,), got 'classwise'; pass (N, C)",
        ),
        (evaluate, PROBS, TARGETS, "multilabel", "notion: expected 'positive' or 'top-label' for probs of shape (N,)"),
        (
            smooth_calibration_error,
            ROWS,
            CLASSES,
            "classwise",
            "notion: expected 'positive' or 'top-label' for the "
            "smooth error, got 'classwise'; pass one class's column at a time",
        ),
        (
            score_decomposition,
            ROWS,
            CLASSES,
            "classwise",
            "notion: expected 'positive' or 'top-label' for a score decomposition",
        ),
        (classwise_calibration_error, PROBS, TARGETS, None, "expected 'positive' or 'top-label' for probs of shape"),
        (
            classwise_calibration_error,
            ROWS,
            CLASSES,
            "top-label",
            "notion: expected 'classwise' or 'multilabel', got 'top-label'; leave notion out",
        ),
        (
            expected_calibration_error,
            ROWS,
            CLASSES,
            "multilabel",
            "targets: expected shape (4, 3), the shape of probs, "
            "for notion='multilabel', got shape (4,); pass a 0 or 1 for every label of every row",
        ),
        (
            expected_calibration_error,
            np.full((2, 3, 2), 0.5),
            np.ones((2, 3, 2)),
            "multilabel",
            "probs: expected shape "
            "(N, C) for multilabel, got shape (2, 3, 2); move the axis of the labels to the end and reshape to (N, C)",
        ),
        (
            expected_calibration_error,
            np.full((4, 3), 0.5),
            np.ones((4, 3), int),
            None,
            "targets: expected one-hot rows "
            "(a single 1 among 0s), got 3 ones at row 0; pass class indices, or notion='multilabel' for several labels",
        ),
        (expected_calibration_error, np.full((4, 3), 0.5), CLASSES, None, "or notion='multilabel' for one event per"),
    ],
)
def test_notions_that_do_not_fit(function, probs, targets, notion, message):
    assert message in str(refused(function, probs, targets, notion=notion))


def test_places_in_multilabel_input():
    probs, targets = np.full((3, 4), 0.7), np.zeros((3, 4), int)
    targets[2, 1] = 5
    error = refused(expected_calibration_error, probs, targets, notion="multilabel")
    assert (error.row, error.got) == (2, "5 at row 2, column 1")
    soft = targets * 0.1
    assert refused(expected_calibration_error, probs, soft, notion="multilabel").got == "0.5 at row 2, column 1"
    targets[2, 1], targets[1, 0] = 1, -1
    probs[1, 0] = NAN  # not judged
    probs[1, 3] = NAN
    error = refused(expected_calibration_error, probs, targets, notion="multilabel", ignore_index=-1)
    assert (error.row, error.column, error.got) == (1, 3, "nan at row 1, column 3")


# ---------------------------------------------------------------- what works


def ece_of(probs, targets):
    return expected_calibration_error(probs, targets)


@every_function
def test_a_single_row(function):
    assert function([0.5], [1]) is not None
    assert function([[0.25, 0.75]], [1]) is not None
    assert function([[0.75]], [[1]]) is not None


def test_a_single_row_has_its_value():
    report = evaluate([0.75], [1])
    values = [report[name].value for name in ("accuracy", "brier", "ece", "smece", "ace")]
    assert values == pytest.approx([1, 0.0625, 0.25, 0.25, 0.25], abs=1e-7)
    assert np.isnan(report["mce"].value)
    assert report["mce"].details == {
        "least_rows": 30,
        "of_all_bins": 0.25,
        "reason": "no bin has 30 rows",
    }


@pytest.mark.parametrize("outcome", [0, 1])
def test_one_class_only(outcome):
    report = evaluate(PROBS, [outcome] * 4)
    assert report["ece"].value == pytest.approx(abs(np.mean(PROBS) - outcome))
    assert report["uncertainty"].value == 0
    assert evaluate(ROWS, [outcome] * 4)["accuracy"].value == np.mean(np.argmax(ROWS, axis=1) == outcome)


def test_constant_scores():
    report = evaluate([0.25] * 32, [1, 0, 0, 0] * 8)
    for name in ("ece", "rmsce", "mce", "ace", "smece", "miscalibration", "discrimination"):
        assert report[name].value == pytest.approx(0, abs=1e-12), name


def test_fewer_rows_than_bins():
    assert expected_calibration_error([0.25, 0.75], [0, 1], 1000) == 0.25
    assert calibrant.adaptive_calibration_error([0.25, 0.75], [0, 1], 1000) == 0.25


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int8, np.int32, np.uint64, np.float16, np.float64, ">i2", object])
def test_targets_of_every_type(dtype):
    assert evaluate(PROBS, np.array(TARGETS, dtype)).to_json() == evaluate(PROBS, TARGETS).to_json()
    assert brier_score(ROWS, ONES.astype(dtype)) == brier_score(ROWS, CLASSES)
    if dtype is not bool:
        assert evaluate(ROWS, np.array(CLASSES, dtype)).to_json() == evaluate(ROWS, CLASSES).to_json()


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int8])
def test_outcomes_in_bytes_are_read_as_they_are(dtype):
    rng = np.random.default_rng(48)
    scores, wide = rng.random(5000), np.zeros((5000, 3), dtype)
    outcomes = wide[:, 1]
    outcomes[:] = rng.integers(0, 2, 5000)
    outcomes.flags.writeable = False
    for labels in (outcomes, outcomes.copy()):
        assert as_predictions(scores, labels).labels.dtype == np.uint8
        found, expected = CalibrationSketch(), CalibrationSketch()
        found.update(scores, labels)
        expected.update(scores, labels.astype(np.int64))
        assert found.to_bytes() == expected.to_bytes()
    assert as_predictions(scores, outcomes, ignore_index=0).labels.dtype == np.int64
    if dtype is not bool:
        with pytest.raises(InputError, match="outcomes 0 or 1, got 2 at row 0"):
            as_predictions([0.5], dtype([2]))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4", ">f8"])
def test_layouts_do_not_matter(dtype):
    """Sixteenths are exact in every type, so every value must be the same whatever the memory looks like."""
    rng = np.random.default_rng(0)
    probs = rng.integers(1, 8, (60, 3)) / 16
    probs[:, 2] = 1 - probs[:, :2].sum(axis=1)
    targets = rng.integers(0, 3, 60)
    own = probs.astype(dtype)
    wide = np.float64 if own.dtype.itemsize == 8 else np.float32
    expected = evaluate(probs.astype(wide), targets)
    padded = np.full((120, 7), 9, dtype)
    padded[::2, ::3] = own
    readonly = own.copy()
    readonly.flags.writeable = False
    for layout in (own, np.asfortranarray(own), padded[::2, ::3], own[::-1][::-1], readonly, own.tolist()):
        report = evaluate(layout, targets)
        if isinstance(layout, list):
            assert report["ece"].value == pytest.approx(expected["ece"].value, abs=1e-15)
        else:
            assert report.to_json() == expected.to_json()
    column = evaluate(own[:, 0], targets == 0)
    for layout in (padded[::2, 0], readonly[:, 0], own[:, :1], own[:, 0].copy()[::-1][::-1]):
        assert evaluate(layout, targets == 0).to_json() == column.to_json()


def test_stacked_layouts_are_rows():
    """torchmetrics' (N, C, ...) is the rows of all positions; (N, 1, ...) is one event at each."""
    rng = np.random.default_rng(1)
    probs = rng.dirichlet(np.ones(3), (2, 4, 5))
    targets = rng.integers(0, 3, (2, 4, 5))
    stacked, flat = np.moveaxis(probs, -1, 1), probs.reshape(-1, 3)
    expected = evaluate(flat, targets.reshape(-1)).to_json()
    assert evaluate(stacked, targets, clusters=False).to_json() == expected
    assert evaluate(np.ascontiguousarray(stacked), targets, clusters=False).to_json() == expected
    assert evaluate(stacked, np.moveaxis(np.eye(3)[targets], -1, 1), clusters=False).to_json() == expected
    one = evaluate(flat[:, 0], targets.reshape(-1) == 0).to_json()
    assert evaluate(probs[:, None, :, :, 0], targets == 0, clusters=False).to_json() == one
    assert evaluate(probs[:, None, :, :, 0], (targets == 0)[:, None], clusters=False).to_json() == one


def test_many_rows_in_half_precision():
    """70,000 is more than float16 can count to: torchmetrics answers 0."""
    n = 70_000
    assert expected_calibration_error(np.full(n, 0.5, np.float16), np.arange(n) % 4 == 0) == 0.25
    rows = np.tile(np.float16([0.75, 0.25]), (n, 1))
    report = evaluate(rows, np.arange(n) % 2)
    assert report["ece"].value == 0.25
    assert report["brier"].value == 0.5 * 2 * 0.0625 + 0.5 * 2 * 0.5625


@pytest.mark.parametrize("n_bins", [1, 2, 7, 10, 15, 100])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_on_every_edge(n_bins, dtype):
    """p = j / M belongs to bin j (0 to the first), closed on the right; to bin j + 1 (1 to the last) on the left."""
    edges = (np.arange(n_bins + 1) / n_bins).astype(dtype)
    right = calibrant.reliability_diagram(edges, np.ones(n_bins + 1, int), n_bins).counts
    left = calibrant.reliability_diagram(edges, np.ones(n_bins + 1, int), n_bins, closed="left").counts
    ones = np.ones(n_bins, int)
    assert right.tolist() == [*(ones[:1] + 1), *ones[1:]]
    assert left.tolist() == [*ones[:-1], *(ones[-1:] + 1)]


def test_certainty_is_a_probability():
    assert brier_score([0.0, 1.0, -0.0], [0, 1, 0]) == 0
    assert evaluate([[0.0, 1.0], [1.0, 0.0]], [1, 0])["nll"].value == 0
    assert evaluate([0, 1], [1, 0])["nll"].details["infinite_rows"] == 2
    assert evaluate([False, True], [0, 1])["accuracy"].value == 1


def test_absent_classes():
    report = evaluate(np.full((4, 5), 0.2), [0, 0, 1, 1])
    assert report["classwise_ece"].details["without_targets"] == 3
    assert report["classwise_ece"].value == pytest.approx((0.3 + 0.3 + 0.2 * 3) / 5)


@every_class_function
def test_ignored_rows_are_not_looked_at(function):
    rows = np.array([*ROWS, [NAN, INF, -7.0], [0.0, 0.0, 0.0]])
    targets = np.array([*CLASSES, 255, 255])
    got, expected = function(rows, targets, ignore_index=255), function(ROWS, CLASSES)
    assert str(got) == str(expected)
    weighted = function(rows, np.where(targets == 255, 0, targets), weights=[1, 1, 1, 1, 0, 0])
    if function is not evaluate:
        assert weighted == expected
    one = [expected_calibration_error, brier_score, evaluate]
    for single in one:
        assert str(single([*PROBS, NAN], [*TARGETS, -1], ignore_index=-1)) == str(single(PROBS, TARGETS))


def test_percent_is_recognised_past_ignored_rows():
    error = refused(brier_score, [NAN, 50.0, 70.0], [-1, 1, 0], ignore_index=-1)
    assert error.remedy == "the values look like percent: divide them by 100"
    assert error.row == 1


def test_strings_with_names_in_the_order_of_the_columns():
    names = ["eel", "cat", "dog"]
    words = [names[k] for k in CLASSES]
    expected = evaluate(ROWS, CLASSES, class_names=names)
    assert evaluate(ROWS, words, class_names=names).to_json() == expected.to_json()
    assert evaluate(ROWS, words, class_names=np.array(names)).to_json() == expected.to_json()
    assert evaluate(ROWS, np.array(words, object), class_names=tuple(names)).to_json() == expected.to_json()
    assert evaluate(ROWS, np.array(words, "S"), class_names=names).to_json() == expected.to_json()
    assert expected.class_names == tuple(names)
    fewer = evaluate(ROWS, words, class_names=names, ignore_index=2)
    assert fewer.to_json() == evaluate(ROWS, CLASSES, class_names=names, ignore_index=2).to_json()


def test_strings_name_the_outcomes_of_one_event():
    words = np.array(["no", "yes"])[TARGETS]
    report = evaluate(PROBS, words, class_names=["no", "yes"])
    assert report.to_json() == evaluate(PROBS, TARGETS).to_json()
    assert report.class_names == ("no", "yes")
    assert evaluate(PROBS, words, class_names=["yes", "no"])["brier"] != report["brier"]
    error = refused(evaluate, PROBS, words, class_names=["nope", "yess"])
    assert str(error).endswith("got 'no' at row 0; did you mean 'nope'?")


def test_tuples_and_nested_lists():
    assert ece_of(tuple(PROBS), tuple(TARGETS)) == ece_of(np.array(PROBS), np.array(TARGETS))
    assert ece_of(tuple(map(tuple, ROWS)), CLASSES) == ece_of(np.array(ROWS), CLASSES)
    assert ece_of([0.5, 0.25], range(2)) == ece_of([0.5, 0.25], [0, 1])
    assert ece_of([np.array(row) for row in ROWS], CLASSES) == ece_of(ROWS, CLASSES)


# ---------------------------------------------------------------- the libraries


def test_pandas():
    pd = pytest.importorskip("pandas")
    expected, classes = ece_of(PROBS, TARGETS), ece_of(ROWS, CLASSES)
    for dtype in ("float64", "Float64", "double[pyarrow]", object):
        assert ece_of(pd.Series(PROBS, dtype=dtype, index=[7, 7, 1, 0]), TARGETS) == expected
    for dtype in ("int8", "Int64", "UInt8", "boolean", "bool", "int32[pyarrow]", "category", object):
        assert ece_of(PROBS, pd.Series(TARGETS, dtype=dtype)) == expected
    frame = pd.DataFrame(ROWS, columns=["a", "b", "c"])
    for own in (frame, frame.astype("Float64"), pd.Series(ROWS), frame.values, frame.iloc[::-1].iloc[::-1]):
        assert ece_of(own, pd.Series(CLASSES)) == classes
    for own in (pd.Index(PROBS), pd.array(PROBS), pd.DataFrame({"p": PROBS})):
        assert ece_of(own, TARGETS) == expected
    words = pd.Series(["b", "a", "c", "a"])
    for dtype in ("category", "string", object, "str"):
        report = evaluate(frame, words.astype(dtype), class_names=list(frame.columns))
        assert report["ece"].value == classes
    for dtype in ("Float64", "double[pyarrow]", object):
        error = refused(brier_score, pd.Series([0.5, None], dtype=dtype), [0, 1])
        assert (error.argument, error.row) == ("probs", 1)
    for dtype in ("Int64", "boolean", "category", "string", "float64"):
        error = refused(brier_score, [0.5, 0.5], pd.Series([None, 1 if dtype != "string" else "1"], dtype=dtype))
        assert (error.argument, error.row) == ("targets", 0)


def test_columns_of_pandas_with_different_indexes_are_not_paired_by_position():
    """A column that was shuffled or sorted by itself keeps its labels: their order says that rows would be mixed up."""
    pd = pytest.importorskip("pandas")
    index = list("dcba")
    probs, frame = pd.Series(PROBS, index=index), pd.DataFrame(ROWS, index=index)
    targets, classes = pd.Series(TARGETS, index=index), pd.Series(CLASSES, index=index)
    assert evaluate(probs, targets).to_json() == evaluate(PROBS, TARGETS).to_json()
    assert brier_score(frame, classes) == brier_score(ROWS, CLASSES)
    others = {"weights": [1, 2, 3, 4], "groups": ["a", "a", "b", "b"], "clusters": [1, 1, 2, 2]}
    sorted_by_itself = (
        "expected the same index as the columns before it, got a Series with another index; align them, or pass"
    )
    for name, values in others.items():
        good, bad = pd.Series(values, index=index), pd.Series(values, index=index).sort_index()
        expected = evaluate(PROBS, TARGETS, **{name: values}).to_json()
        assert evaluate(probs, targets, **{name: good}).to_json() == expected
        assert evaluate(probs, targets, **{name: bad.to_numpy()[::-1]}).to_json() == expected
        for first in ({"probs": probs, "targets": TARGETS}, {"probs": PROBS, "targets": targets}):
            with pytest.raises(InputError, match=f"{name}: {sorted_by_itself}"):
                evaluate(**first, **{name: bad})
            with pytest.raises(InputError, match=f"{name}: {sorted_by_itself}"):
                CalibrationSketch().update(**first, **{name: bad})
    for wrong in (targets.sort_index(), targets.reset_index(drop=True)):
        with pytest.raises(InputError, match=f"targets: {sorted_by_itself}"):
            expected_calibration_error(probs, wrong)
        with pytest.raises(InputError, match=f"targets: {sorted_by_itself}"):
            calibrant.compare(probs, probs, wrong)
    with pytest.raises(InputError, match="targets: expected"):  # the lengths differ: that is said first
        evaluate(probs, targets[:3])


def test_polars():
    pl = pytest.importorskip("polars")
    expected, classes = ece_of(PROBS, TARGETS), ece_of(ROWS, CLASSES)
    assert ece_of(pl.Series(PROBS), pl.Series(TARGETS)) == expected
    assert ece_of(pl.DataFrame({"p": PROBS}), pl.Series(TARGETS).cast(pl.Boolean)) == expected
    assert ece_of(pl.DataFrame(ROWS, orient="row"), pl.Series(CLASSES, dtype=pl.UInt8)) == classes
    for dtype in (pl.List(pl.Float64), pl.Array(pl.Float64, 3)):
        assert ece_of(pl.Series(ROWS, dtype=dtype), CLASSES) == classes
        assert ece_of(pl.DataFrame({"p": pl.Series(ROWS, dtype=dtype)}), CLASSES) == classes
    words = pl.Series(["b", "a", "c", "a"])
    for dtype in (pl.String, pl.Categorical, pl.Enum(["a", "b", "c"])):
        assert evaluate(ROWS, words.cast(dtype), class_names=["a", "b", "c"])["ece"].value == classes
    assert refused(brier_score, pl.Series([0.5, None]), [0, 1]).row == 1
    for missing in (pl.Series([None, 1]), pl.Series([None, True]), pl.Series([None, "b"])):
        error = refused(brier_score, [0.5, 0.5], missing)
        assert (error.argument, error.row) == ("targets", 0)
    error = refused(brier_score, pl.LazyFrame({"p": PROBS}), TARGETS)
    assert str(error) == "probs: expected an array, got a LazyFrame; collect it first"
    assert "got a Series (" in str(refused(brier_score, pl.Series([[0.5], [0.25, 0.75]]), [0, 1]))


def test_pyarrow():
    pa = pytest.importorskip("pyarrow")
    expected, classes = ece_of(PROBS, TARGETS), ece_of(ROWS, CLASSES)
    half = len(PROBS) // 2
    chunked = pa.chunked_array([PROBS[:half], PROBS[half:]])
    for own in (pa.array(PROBS), chunked, pa.array([0.9, *PROBS])[1:], pa.table({"p": chunked})):
        assert ece_of(own, pa.array(TARGETS)) == expected
        assert ece_of(own, pa.array(TARGETS).cast("bool")) == expected
        assert ece_of(own, pa.chunked_array([TARGETS[:1], TARGETS[1:]])) == expected
    columns = {name: [row[k] for row in ROWS] for k, name in enumerate("abc")}
    fixed = pa.array([[0.5] * 3, *ROWS], pa.list_(pa.float64(), 3))[1:]
    lists = (fixed, pa.chunked_array([fixed[:1], fixed[1:]]), pa.array(ROWS), pa.table({"p": fixed}))
    for own in (*lists, pa.table(columns), pa.RecordBatch.from_pydict(columns)):
        assert ece_of(own, CLASSES) == classes
    words = pa.array(["b", "a", "c", "a"])
    for own in (words, words.dictionary_encode()):
        assert evaluate(ROWS, own, class_names=["a", "b", "c"])["ece"].value == classes
    assert refused(brier_score, pa.array([0.5, None]), [0, 1]).row == 1
    for missing in (pa.array([None, 1]), pa.array([None, True]), pa.array([None, "b"])):
        assert refused(brier_score, [0.5, 0.5], missing).row == 0


def test_torch():
    torch = pytest.importorskip("torch")
    probs, targets = torch.tensor(PROBS, dtype=torch.float64), torch.tensor(TARGETS)
    expected, classes = ece_of(PROBS, TARGETS), ece_of(ROWS, CLASSES)
    for own in (probs, probs.clone().requires_grad_(), torch.stack([probs, probs], 1)[:, 0], probs[:, None]):
        for labels in (targets, targets.bool(), targets.to(torch.int8), targets.float(), targets.to(torch.bfloat16)):
            assert ece_of(own, labels) == expected
    rows = torch.tensor(ROWS, dtype=torch.float64)
    for own in (rows, rows.T.contiguous().T, rows[None].permute(0, 2, 1), torch.nn.Parameter(rows)):
        assert ece_of(own, torch.tensor(CLASSES).reshape(own.shape[:1] + own.shape[2:])) == classes
    for dtype in (torch.float16, torch.bfloat16):
        narrow = torch.tensor(SIXTEENTHS, dtype=dtype)
        for own in (narrow, narrow.T.contiguous().T):
            assert ece_of(own, CLASSES) == ece_of(narrow.float(), CLASSES)
    weights = torch.tensor([1.0, 2.0, 0.5, 0.0])
    for own in (weights, weights.to(torch.bfloat16), weights.double().requires_grad_()):
        assert brier_score(probs, targets, weights=own) == brier_score(PROBS, TARGETS, weights=[1, 2, 0.5, 0])
    assert ece_of([torch.tensor(0.5), torch.tensor(0.25)], [0, 1]) == ece_of([0.5, 0.25], [0, 1])
    message = "probs: expected a dense tensor of integers or of floats of at least 16 bits, got dtype float8_e4m3fn"
    assert str(refused(ece_of, probs.to(torch.float8_e4m3fn), targets)).startswith(message)
    assert refused(ece_of, torch.tensor([0.5, NAN], dtype=torch.bfloat16), [0, 1]).row == 1


class OnlyArray:
    """Such as a JAX or TensorFlow array."""

    def __init__(self, values):
        self.values = np.asarray(values)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=dtype, copy=copy)


class OnlyDLPack:
    """An array of a library that NumPy has never heard of."""

    def __init__(self, values, failure=None):
        self.values = np.array(values)
        self.failure = failure

    def __dlpack__(self, **options):
        if self.failure:
            raise self.failure
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


@pytest.mark.parametrize("kind", [OnlyArray, OnlyDLPack])
def test_arrays_by_protocol(kind):
    assert ece_of(kind(PROBS), kind(TARGETS)) == ece_of(PROBS, TARGETS)
    assert ece_of(kind(ROWS), kind(CLASSES)) == ece_of(ROWS, CLASSES)
    assert brier_score(kind(PROBS), TARGETS, weights=kind([1.0, 2, 3, 4])) == brier_score(
        PROBS, TARGETS, weights=[1, 2, 3, 4]
    )


def test_memory_that_numpy_cannot_reach():
    error = refused(ece_of, OnlyDLPack(PROBS, BufferError("on the device")), TARGETS)
    assert str(error) == (
        "probs: expected an array, got a OnlyDLPack (on the device); convert it to a NumPy array first"
    )


def test_cupy(monkeypatch):
    """A stand-in: like CuPy's, its array refuses __array__ and hands its numbers over by get()."""
    fake = types.ModuleType("cupy")

    class ndarray(OnlyArray):  # noqa: N801
        def get(self):
            return self.values

        def __array__(self, dtype=None, copy=None):
            raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`")

    ndarray.__module__ = "cupy"
    fake.ndarray = ndarray
    monkeypatch.setitem(sys.modules, "cupy", fake)
    assert ece_of(fake.ndarray(ROWS), fake.ndarray(CLASSES)) == ece_of(ROWS, CLASSES)


def test_registered_bfloat16():
    """JAX's arrays turn into NumPy arrays of the dtype bfloat16 that ml_dtypes registers."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    own = np.array(SIXTEENTHS, ml_dtypes.bfloat16)
    assert ece_of(own, CLASSES) == ece_of(own.astype(np.float32), CLASSES)
    assert ece_of(own, np.array(CLASSES, ml_dtypes.bfloat16)) == ece_of(own.astype(np.float32), CLASSES)


# ---------------------------------------------------------------- nothing is written to


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("logits", [False, True])
def test_inputs_are_never_written_to(dtype, logits):
    rng = np.random.default_rng(2)
    rows = rng.dirichlet(np.ones(4), 500)
    rows = (np.log(rows) if logits else rows).astype(dtype)
    targets, weights = rng.integers(0, 4, 500), rng.random(500)
    targets[::7] = -1
    own = [rows, np.ascontiguousarray(rows[:, 0]), targets, np.where(targets > 0, 1, targets), weights]
    before = [array.tobytes() for array in own]
    options = {"weights": weights, "ignore_index": -1, "logits": logits}
    for probs, labels in ((rows, targets), (own[1], own[3])):
        evaluate(probs, labels, **options)
        for notion in ("top-label", None):
            for binning in ("uniform", "quantile"):
                expected_calibration_error(probs, labels, notion=notion, binning=binning, **options)
        smooth_calibration_error(probs, labels, **options)
        score_decomposition(probs, labels, **options)
    evaluate(rows, targets, notion="classwise", **options)
    evaluate(rows, (rows > 0.25).astype(int), notion="multilabel", logits=logits)
    assert [array.tobytes() for array in own] == before


# ---------------------------------------------------------------- rounding at the ends of [0, 1]

#: Units in the last place of the numbers from 1 on.
ULP = {"float16": 2.0**-10, "float32": 2.0**-23, "float64": 2.0**-52}


@pytest.mark.parametrize("dtype", ULP)
@pytest.mark.parametrize("steps", [1, 4])
def test_values_outside_by_rounding_are_read_as_0_and_1(dtype, steps):
    """They give what 0 and 1 give, and are counted; the caller's array stays as it is."""
    given = np.array([1 + steps * ULP[dtype], 0.5, -steps * ULP[dtype], 0.25, 1, 0], dtype)
    targets, kept = [1, 0, 0, 1, 1, 0], given.copy()
    clipped = np.clip(given, 0, 1)
    report = calibrant.evaluate(given, targets, n_resamples=0)
    wanted = calibrant.evaluate(clipped, targets, n_resamples=0)
    assert {name: each.value for name, each in report.items()} == {name: each.value for name, each in wanted.items()}
    assert (report.choices.rounded, wanted.choices.rounded) == (2, 0)
    assert "2 probabilities were outside [0, 1] because of rounding and read as 0 or 1" in str(report).replace(
        "\n    ", " "
    )
    np.testing.assert_array_equal(given, kept)
    classes = np.stack([given, 1 - given.astype(np.float64)], axis=1).astype(dtype)
    for measure in (calibrant.brier_score, calibrant.expected_calibration_error):
        assert measure(given, targets) == measure(clipped, targets)
        assert measure(classes, targets) == measure(np.clip(classes, 0, 1), targets)


@pytest.mark.parametrize("dtype", ULP)
@pytest.mark.parametrize("value", [1.0, 0.0])
def test_values_farther_outside_are_an_error(dtype, value):
    wrong = value + (5 if value else -5) * ULP[dtype]
    with pytest.raises(InputError, match=r"expected values in \[0, 1\], got .* at row 1; "):
        calibrant.evaluate(np.array([0.5, wrong, 1 + ULP[dtype]], dtype), [0, 1, 1])
    with pytest.raises(InputError, match=r"got 1\.5 at row 2"):
        calibrant.evaluate(np.array([1 + ULP[dtype], 0.5, 1.5], dtype), [0, 1, 1])


def test_rounding_is_counted_over_judged_rows_and_carried_by_sketches():
    given, targets = [1.0000000000000002, -1e-17, 0.5, 1.0000000000000002], [1, 0, 1, -1]
    assert calibrant.evaluate(given, targets, ignore_index=-1, n_resamples=0).choices.rounded == 2
    sketch = sketch_of(given, targets, ignore_index=-1)
    sketch.update([0.5, 0.25], [1, 0])
    again = calibrant.CalibrationSketch.from_bytes((sketch + sketch).to_bytes())
    assert again.totals.rounded == 4
    assert calibrant.evaluate(again, n_resamples=0).choices.rounded == 4
    clean = sketch_of([0.5, 0.25], [1, 0])
    assert b"rounded" not in clean.to_json().encode()  # which earlier versions read


def test_mixtures_of_certain_models_are_within_rounding():
    """A weighted mean of ones is off by at most a unit for each product and sum: of 2 models, 3 units of half a ulp."""
    weights = np.random.default_rng(11).dirichlet(np.ones(2), 2000)
    mean = weights[:, 0] * 1.0 + weights[:, 1] * 1.0
    assert np.any(mean > 1)
    assert calibrant.brier_score(np.append(mean, 0.5), np.append(np.ones(2000, int), 0)) < 1


@pytest.mark.parametrize("argument", ["probs", "targets", "weights", "groups"])
def test_integers_beyond_float64_are_named(argument):
    arguments = {"probs": [0.2, 0.7, 0.4], "targets": [0, 1, 1], "weights": [1, 2, 1], "groups": [1, 1, 2]}
    arguments[argument] = [*arguments[argument][:2], 10**400]
    with pytest.raises(InputError, match=rf"{argument}: expected numbers .*, got an integer of 1,329 bits at row 2"):
        calibrant.evaluate(**arguments, n_resamples=0)


def test_a_type_that_numpy_lacks_is_named():
    pl = pytest.importorskip("polars", reason="polars is not installed")
    with pytest.raises(InputError, match=r"targets: expected an array, got a Series that NumPy cannot hold .*; cast"):
        calibrant.evaluate([0.2, 0.7], pl.Series([0, 1], dtype=pl.Int128), n_resamples=0)
    assert calibrant.evaluate([0.2, 0.7], pl.Series([0, 1], dtype=pl.Int128).cast(pl.Int64), n_resamples=0).n == 2


@pytest.mark.parametrize("scale", [1e100, 1e155, 1e200, 1e307, 5e307])
def test_large_weights_do_not_warn(scale):
    """The tests make warnings errors; only ratios of such weights count."""
    small, large = (
        calibrant.evaluate([0.3, 0.5, 0.2], [0, 1, 1], weights=np.array([1, 1.5, 2]) * unit, n_resamples=0)
        for unit in (1.1, scale)
    )
    assert large["ece"].value == pytest.approx(small["ece"].value, rel=1e-12)  # rounding of three terms


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_names_of_classes_have_the_order_of_the_columns_of_a_frame(library):
    columns = {"cat": [0.7, 0.2, 0.1], "dog": [0.2, 0.5, 0.1], "eel": [0.1, 0.3, 0.8]}
    module = pytest.importorskip(library)
    frame = module.table(columns) if library == "pyarrow" else module.DataFrame(columns)
    targets = ["cat", "dog", "eel"]
    found = evaluate(frame, targets, class_names=["cat", "dog", "eel"])
    assert found["accuracy"].value == 1
    assert evaluate(frame, ["a", "b", "c"], class_names=["a", "b", "c"])["accuracy"].value == 1  # other names
    with pytest.raises(InputError, match=r"^class_names: expected the order of the columns of probs \(cat, dog, eel\)"):
        evaluate(frame, targets, class_names=["dog", "cat", "eel"])
