"""Logits of -inf: classes of probability 0, at every door."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

import calibrant
from calibrant import CalibrationSketch, ReliabilityTable
from calibrant.errors import InputError

N, C = 400, 6
RNG = np.random.default_rng(4)
MASKED = RNG.random((N, C)) < 0.3
MASKED[np.arange(N), RNG.integers(0, C, N)] = False
LOGITS = np.where(MASKED, -np.inf, 2 * RNG.normal(size=(N, C)))
PROBS = softmax(LOGITS, axis=1)
POSSIBLE = np.array([RNG.choice(C, p=row) for row in PROBS])  # no outcome of probability 0
ANY = RNG.integers(0, C, N)


@pytest.fixture(params=["numpy", "numba"], autouse=True)
def _kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "numba":
        pytest.importorskip("numba", reason="the extra fast is not installed")
    monkeypatch.setenv("CALIBRANT_KERNELS", request.param)


def values_of(probs: Any, targets: Any, **options: Any) -> dict[str, float]:
    report = calibrant.evaluate(probs, targets, level=None, **options)
    return {name: estimate.value for name, estimate in report.items()}


@pytest.mark.covering
@pytest.mark.parametrize(("kind", "relative"), [(np.float64, 1e-12), (np.float32, 1e-5), (np.float16, 1e-2)])
@pytest.mark.parametrize("notion", ["top-label", "classwise"])
def test_every_measure_is_that_of_the_softmax(kind: Any, relative: float, notion: Any) -> None:
    logits = LOGITS.astype(kind)
    probs = softmax(logits.astype(np.float64), axis=1)
    found, expected = (
        values_of(logits, POSSIBLE, logits=True, notion=notion),
        values_of(probs.astype(kind) if kind is np.float32 else probs, POSSIBLE, notion=notion),
    )
    assert found == pytest.approx(expected, rel=relative, abs=relative, nan_ok=True)
    assert found["nll"] == pytest.approx(-np.log(probs[np.arange(N), POSSIBLE]).mean(), rel=max(relative, 1e-12))


def test_a_class_that_is_masked_has_the_score_0() -> None:
    for kind in (np.float64, np.float32):
        sketch = CalibrationSketch(classwise=True)
        sketch.update(LOGITS.astype(kind), POSSIBLE, logits=True)
        own = CalibrationSketch(classwise=True)
        own.update(softmax(LOGITS.astype(kind), axis=1), POSSIBLE)
        for k, (table, expected) in enumerate(zip(sketch.class_tables, own.class_tables, strict=True)):
            assert table.scores[0] == expected.scores[0] == 0.0
            assert table.counts[0].sum() == MASKED[:, k].sum()
    table = ReliabilityTable.from_predictions(LOGITS, POSSIBLE, logits=True)
    assert table.scores == pytest.approx(np.unique(PROBS.max(axis=1)), rel=1e-12)


def test_an_outcome_that_was_masked_has_an_infinite_loss_that_is_counted() -> None:
    lost = MASKED[np.arange(N), ANY]
    report = calibrant.evaluate(LOGITS, ANY, logits=True, n_resamples=0)
    assert report["nll"].value == np.inf
    assert report["nll"].details["infinite_rows"] == lost.sum() > 0
    assert report["brier"].value == pytest.approx(((PROBS - np.eye(C)[ANY]) ** 2).sum(axis=1).mean(), rel=1e-12)
    sketches = [CalibrationSketch(), CalibrationSketch()]
    for sketch, rows in zip(sketches, (slice(0, 100), slice(100, N)), strict=True):
        sketch.update(LOGITS[rows], ANY[rows], logits=True)
    assert calibrant.evaluate(sketches[0] + sketches[1], level=None)["nll"].value == np.inf
    pair = calibrant.compare({"a": LOGITS, "b": LOGITS * 0.5}, POSSIBLE, logits=True).pairs[0]
    theirs = calibrant.compare({"a": PROBS, "b": softmax(LOGITS * 0.5, axis=1)}, POSSIBLE).pairs[0]
    assert pair["nll"].value == pytest.approx(theirs["nll"].value, rel=1e-9)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (
            [-np.inf] * 3,
            (
                "probs: expected a finite logit in each row, got only -inf at row 2; give at least one "
                "class of every row a finite logit, or remove the row from probs and targets"
            ),
        ),
        ([np.inf, 0, 0], r"probs: expected finite numbers, got inf at row 2, column 0"),
        ([-np.inf, np.nan, 0], r"probs: expected finite numbers, got nan at row 2, column 1"),
        ([-np.inf, np.inf, 0], r"probs: expected finite numbers, got inf at row 2, column 1"),
    ],
)
def test_rows_without_a_softmax_are_refused(row: list[float], expected: str) -> None:
    logits = np.array([[1.0, -np.inf, 2], [0, 1, 2], row, [3, 2, 1]])
    for kind in (np.float64, np.float32):
        with pytest.raises(InputError, match=expected):
            calibrant.evaluate(logits.astype(kind), [0, 1, 2, 0], logits=True)
        with pytest.raises(InputError, match=expected):
            CalibrationSketch().update(logits.astype(kind), [0, 1, 2, 0], logits=True)


def test_minus_infinity_stays_an_error_where_it_is_all_there_is() -> None:
    for probs, targets, options in (
        (np.array([0.5, -np.inf]), [0, 1], {"logits": True}),
        (np.array([[0.5, -np.inf]]), [[0, 1]], {"logits": True, "notion": "multilabel"}),
        (np.array([[0.5, 0.5, -np.inf]]), [0], {}),
    ):
        with pytest.raises(InputError, match="probs: expected finite numbers, got -inf"):
            calibrant.evaluate(probs, targets, **options)


def test_rows_that_are_not_judged_may_hold_anything() -> None:
    logits = np.vstack([LOGITS, np.full((1, C), -np.inf), np.full((1, C), np.nan)])
    targets = np.append(POSSIBLE, [-1, -1])
    assert values_of(logits, targets, logits=True, ignore_index=-1) == values_of(LOGITS, POSSIBLE, logits=True)


def test_the_command_reads_masked_logits(tmp_path: Path) -> None:
    from tests.in_process import fail, succeed

    np.savez(tmp_path / "m.npz", logits=LOGITS, targets=POSSIBLE)
    succeed("report", tmp_path / "m.npz", "--n-resamples", "0")
    np.savez(tmp_path / "n.npz", logits=np.vstack([LOGITS, np.full((1, C), -np.inf)]), targets=np.append(POSSIBLE, 0))
    err = fail("report", tmp_path / "n.npz", "--n-resamples", "0")
    place = f"row {N + 1}, column 'logits': "
    problem = "expected a finite logit in each row, got only -inf; give at least one class of every row a finite logit"
    assert place + problem in err


def test_an_error_in_a_streamed_file_names_the_row_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from calibrant.files import reading
    from tests.in_process import fail

    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(reading, "MOST_ROWS", 1000)
    rows = 1_100_000  # more than one part
    logits = np.zeros((rows, 2), np.float32)
    logits[-7] = -np.inf
    table = {"logit_0": logits[:, 0], "logit_1": logits[:, 1], "label": np.zeros(rows, np.int8)}
    pq.write_table(pa.table(table), tmp_path / "m.parquet")
    err = fail("report", tmp_path / "m.parquet", "--logits", "--n-resamples", "0")
    assert "row 1,099,994, column" in err
    assert "got only -inf; " in err


@pytest.mark.covering
@pytest.mark.parametrize("state", ["rows", "sketch"])
@pytest.mark.parametrize("width", ["float32", "float64", "float16", "bfloat16"])
def test_torch_metrics_read_masked_logits(state: str, width: str) -> None:
    torch = pytest.importorskip("torch", reason="the extra torch is not installed")
    from calibrant import torch as metrics

    logits = torch.tensor(LOGITS).to(getattr(torch, width))
    probs = logits.float().softmax(1) if width != "float64" else logits.softmax(1)
    target = torch.tensor(POSSIBLE)
    makes = [
        lambda: metrics.CalibrationError(task="multiclass", num_classes=C),
        lambda: metrics.SmoothCalibrationError(kernel_type="reflected", method="exact", state=state),
        lambda: metrics.ClasswiseCalibrationError(C),
        lambda: metrics.BrierScore(num_classes=C),
        metrics.NegativeLogLikelihood,
    ]
    for make in makes:
        values = []
        for x in (logits, probs):
            metric = make()
            metric.update(x, target)
            values.append(float(metric.compute()))
        is_half = width in ("float16", "bfloat16") and isinstance(metric, metrics.ClasswiseCalibrationError)
        rel = 5e-3 if is_half else 2e-5  # the value has the type of the scores, as in TorchUncertainty
        assert values[0] == pytest.approx(values[1], rel=rel, abs=1e-6), type(metric).__name__
    metric = metrics.CalibrationError(task="multiclass", num_classes=C)
    nothing = torch.full((1, C), -torch.inf, dtype=logits.dtype)

    def refused() -> None:
        metric.update(nothing, target[:1])
        metric.compute()

    metric.update(logits, target)
    with pytest.raises(InputError, match="finite"):
        refused()


@pytest.mark.parametrize("logits", [True, None])
def test_the_operations_for_devices_read_masked_logits(logits: bool | None) -> None:
    torch = pytest.importorskip("torch", reason="the extra torch is not installed")
    from calibrant.kernels import tensors

    x, y = torch.tensor(LOGITS), torch.tensor(ANY)
    values = [-torch.inf, torch.inf, *([torch.nan] if logits else [])]  # beside NaN no scale can be seen
    bad = torch.vstack([x, *(torch.full((1, C), value) for value in values)])
    targets = torch.cat([y, y[: len(values)]])
    how = {"ignore_index": None, "logits": logits, "seen": torch.zeros(4, dtype=torch.int64), "tolerance": 1e-3}
    found = tensors.read(x, y, layout="multiclass", checked=True, **how)
    np.testing.assert_allclose(tensors.each_class(found)[0].numpy(), PROBS, rtol=1e-12)
    expected = np.log(PROBS[np.arange(N), ANY], where=PROBS[np.arange(N), ANY] > 0, out=np.full(N, -np.inf))
    np.testing.assert_allclose(found.log_p_target.numpy(), expected, rtol=1e-9)
    assert found.faults.tolist() == [0] * 5
    found = tensors.read(bad, targets, layout="multiclass", checked=True, **how)
    assert found.faults.tolist() == [len(values), 0, 0, 0, 0]
