"""Sketches: laws of adding up, exact scalars, storage that refuses what it did not write, and the doors that take them.

How far numbers from a sketch can be off is in test_certified.py. Sums of N numbers in [0, 1] agree to N units of
rounding, far below the 1e-12 of themselves that is promised.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import io
import json
import math
import pickle
import re
import threading
import tracemalloc
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calibrant
from calibrant import CalibrantError, CalibrationSketch, ReliabilityTable
from calibrant.errors import FileError, InputError
from calibrant.inference import cox_test, hosmer_lemeshow_test, ks_test, kuiper_test, spiegelhalter_test, t_cal_test
from calibrant.sketch.totals import SQUARED
from calibrant.table import grid
from tests.examples_of import at_most
from tests.samples import sketch_of

SUMS = 1e-12
GOLDEN = Path(__file__).parents[1] / "golden"


def one_event(n: int = 400, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    probs = np.concatenate([rng.random(n - 3), [0.0, 1.0, 0.5]])
    return {"probs": probs, "targets": (rng.random(n) < probs).astype(int)}


def classes(n: int = 300, size: int = 4, seed: int = 1) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(size) / 2, n).astype(np.float32)
    return {"probs": probs, "targets": rng.integers(0, size, n)}


def labels(n: int = 200, size: int = 3, seed: int = 2) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {"probs": rng.random((n, size)), "targets": rng.integers(0, 2, (n, size))}


def weights(n: int, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 9, n) / 4


#: Settings of a sketch, and what its batches hold.
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "one event": ({}, one_event()),
    "top label of one event": ({"notion": "top-label"}, one_event()),
    "fine grid": ({"grid": "fine"}, one_event()),
    "whole weights": ({}, {**one_event(), "weights": np.rint(weights(400))}),
    "weights": ({}, {**one_event(), "weights": weights(400)}),
    "logits": ({}, {"probs": np.random.default_rng(4).normal(size=50), "targets": np.arange(50) % 2, "logits": True}),
    "classes": ({}, classes()),
    "classes and each of them": ({"classwise": True}, {**classes(), "weights": weights(300)}),
    "class by class": ({"notion": "classwise", "class_names": ["a", "b", "c", "d"]}, classes()),
    "second of two classes": ({"notion": "positive"}, classes(size=2)),
    "labels": ({"notion": "multilabel"}, {**labels(), "weights": weights(200)}),
    "ignored": ({}, {**classes(), "ignore_index": 2}),
    "groups": ({}, {**one_event(), "groups": np.arange(400) % 3}),
    "half precision": ({}, {**one_event(), "probs": one_event()["probs"].astype(np.float16)}),
}


def filled(name: str, batches: int = 1) -> CalibrationSketch:
    """Make a sketch of one kind, from so many batches."""
    made, data = KINDS[name]
    sketch = CalibrationSketch(**made)
    n = len(data["probs"])
    for part in np.array_split(np.arange(n), batches):
        sketch.update(**{k: v[part] if isinstance(v, np.ndarray) else v for k, v in data.items()})
    return sketch


def alike(one: CalibrationSketch, other: CalibrationSketch) -> None:
    """Assert that counts agree bit for bit and sums to 1e-12 of themselves."""
    a, b = json.loads(one.to_json()), json.loads(other.to_json())
    for own, more in zip(a.pop("totals"), b.pop("totals"), strict=True):
        for name in sorted(own.keys() - {"n", "whole"}):
            np.testing.assert_allclose(own.pop(name), more.pop(name), rtol=SUMS, atol=SUMS)
        assert own == more
    for name, column in a.pop("cells").items():
        if name.startswith(("score", "square")):
            np.testing.assert_allclose(column, b["cells"][name], rtol=SUMS, atol=SUMS)
        else:
            assert column == b["cells"][name], name
    b.pop("cells")
    del a["sha256"], b["sha256"]
    assert a == b


# ---------------------------------------------------------------- adding up


@pytest.mark.covering
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("batches", [2, 7])
def test_batches_add_up_to_the_whole(name, batches):
    alike(filled(name, batches), filled(name))


@pytest.mark.parametrize("name", KINDS)
def test_merging_is_associative_and_commutative(name):
    made, data = KINDS[name]
    parts = []
    for part in np.array_split(np.arange(len(data["probs"])), 3):
        own = CalibrationSketch(**made)
        own.update(**{k: v[part] if isinstance(v, np.ndarray) else v for k, v in data.items()})
        parts.append(own)
    a, b, c = parts
    for other in ((a + b) + c, a + (b + c), c + a + b, sum(reversed(parts))):
        alike(other, filled(name))
    before = copy.deepcopy(a)
    into = CalibrationSketch(**made)
    into.merge(b, a, c)
    alike(into, filled(name))
    assert a == before


@at_most(60)
@given(
    scores=st.lists(st.floats(0, 1), min_size=1, max_size=60),
    seed=st.integers(0, 2**32 - 1),
    cut=st.integers(0, 60),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_cells_are_those_of_the_frozen_edges(scores, seed, cut, dtype):
    rng = np.random.default_rng(seed)
    p, y = np.array(scores, dtype), rng.integers(0, 2, len(scores))
    whole = CalibrationSketch()
    for part in (slice(None, cut), slice(cut, None)):
        whole.update(p[part], y[part])
    cells = grid.cell_of(p, "standard")
    wide = p.astype(np.float64)
    held = np.unique(cells)
    np.testing.assert_array_equal(whole.table.cells, held)
    np.testing.assert_array_equal(whole.table.counts, np.bincount(cells)[held])
    np.testing.assert_array_equal(whole.table.positives, np.bincount(cells, y)[held])
    np.testing.assert_allclose(whole.table.score_sums, np.bincount(cells, wide)[held], rtol=SUMS, atol=1e-300)
    np.testing.assert_allclose(whole.table.square_scores, np.bincount(cells, wide**2)[held], rtol=SUMS, atol=1e-300)


def test_a_weight_of_two_is_the_row_twice():
    data, twice = one_event(), CalibrationSketch()
    twice.update(data["probs"], data["targets"], weights=np.full(400, 2))
    doubled = filled("one event") + filled("one event")
    a, b = calibrant.evaluate(twice, level=None), calibrant.evaluate(doubled, level=None)
    for name in a:
        np.testing.assert_allclose(a[name].value, b[name].value, rtol=1e-12, atol=1e-15)


def test_weights_may_come_late():
    data, own = one_event(), weights(400)
    mixed = sketch_of(data["probs"], data["targets"])
    mixed.update(data["probs"], data["targets"], weights=own)
    both = {"probs": np.tile(data["probs"], 2), "targets": np.tile(data["targets"], 2)}
    exact = calibrant.evaluate(**both, weights=np.concatenate([np.ones(400), own]), n_resamples=0)
    found = calibrant.evaluate(mixed, n_resamples=0)
    assert found["ece"].low == pytest.approx(exact["ece"].low, rel=1e-9)
    assert found["ece"].high == pytest.approx(exact["ece"].high, rel=1e-3)  # squares of weights, at the cells' means
    assert found["brier"].high == pytest.approx(exact["brier"].high, rel=1e-7)


@pytest.mark.parametrize("grid", ["standard", "fine"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_table_has_the_cells_of_a_sketch(dtype, grid):
    """Near 1 as well: in half and single precision several edges of the fine grid round to 1."""
    small = 10.0 ** -np.arange(1, 40)
    p = np.concatenate([np.linspace(0, 1, 1001), small, 1 - small]).astype(dtype)
    y = np.arange(len(p)) % 2
    table, sketch = calibrant.ReliabilityTable.from_scores(p, y).on_grid(grid), calibrant.CalibrationSketch(grid=grid)
    sketch.update(p, y)
    for name in ("cells", "counts", "positives"):
        np.testing.assert_array_equal(getattr(table, name), getattr(sketch.table, name))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_read_is_the_general_passes(dtype):
    """Rows of one event are summed in one read, unless weights, an ignored row or their layout take the general way."""
    rng = np.random.default_rng(8)
    probs = np.concatenate([rng.random(300_000), [0.0, 1.0, 1.0, 0.0, -0.0, 0.5]]).astype(dtype)
    targets = np.concatenate([rng.random(300_000) < probs[:-6], [1, 0, 1, 0, 0, 1]]).astype(np.int64)
    sketches = [CalibrationSketch() for _ in range(4)]
    sketches[0].update(probs, targets)
    sketches[1].update(np.append(probs, dtype(0.3)), np.append(targets, -1), ignore_index=-1)
    sketches[2].update(probs, targets, weights=np.ones(len(probs)))
    sketches[3].update(np.repeat(probs, 2)[::2], targets)
    first = sketches[0]
    for other in sketches[1:]:
        np.testing.assert_array_equal(other._part.curves.counts, first._part.curves.counts)
        np.testing.assert_allclose(other._part.curves.sums, first._part.curves.sums, rtol=SUMS)
        for name in [field.name for field in dataclasses.fields(first.totals)]:
            assert getattr(other.totals, name) == pytest.approx(getattr(first.totals, name), rel=SUMS), name
    assert first.totals.infinite == 2


def test_groups_that_are_written_alike_are_refused():
    one = filled("one event")
    with pytest.raises(
        InputError, match="groups: expected distinct names, got several names with the same text; rename"
    ):
        CalibrationSketch.of_groups({1: one, "1": one})


@pytest.mark.parametrize("threads", ["1", "2", "5"])
def test_no_number_of_threads_changes_a_bit(threads, monkeypatch):
    rng = np.random.default_rng(0)
    p = rng.random(900_000).astype(np.float32)
    y = (rng.random(len(p)) < p).astype(np.int64)
    first = sketch_of(p, y)
    monkeypatch.setenv("CALIBRANT_NUM_THREADS", threads)
    second = sketch_of(p, y)
    assert first.to_bytes() == second.to_bytes()


def test_several_threads_may_update_one_sketch():
    sketch, data = CalibrationSketch(), one_event()
    started = threading.Barrier(4)

    def work(_: int) -> None:
        started.wait()
        for _ in range(25):
            sketch.update(data["probs"], data["targets"], groups=np.arange(400) % 2)
            assert sketch.n % 400 == 0
            calibrant.expected_calibration_error(sketch)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert sketch.n == 100 * 400
    single = filled("one event")
    np.testing.assert_array_equal(sketch.table.counts, 100 * single.table.counts)
    assert sum(own.n for own in sketch.groups.values()) == sketch.n


def test_memory_does_not_grow_with_the_rows():
    sketch = filled("one event")
    size = sketch.nbytes
    assert size == 4396 * 5 * 8  # 176 kB
    for _ in range(3):
        sketch.merge(sketch)
    assert (sketch.nbytes, sketch.n) == (size, 3200)
    assert len(sketch.to_bytes()) < 180_000


def test_a_refused_batch_changes_nothing():
    sketch = filled("groups")
    before = copy.deepcopy(sketch)
    bad = [
        ([0.5, 1.2], [0, 1], ["a", "b"]),
        ([0.5, 0.2], [0, 2], ["a", "b"]),
        ([0.5, 0.2], [0, 1], ["a"]),
        ([0.5, 0.2], [0, 1], None),
        ([[0.5, 0.5]], [1], ["a"]),
    ]
    for probs, targets, groups in bad:
        with pytest.raises(CalibrantError):
            sketch.update(probs, targets, groups=groups)
        assert sketch == before


@pytest.mark.parametrize(
    "batch",
    [
        {"probs": [], "targets": []},
        {"probs": np.zeros((0, 3)), "targets": []},
        {"probs": [0.3, 0.4], "targets": [7, 7], "ignore_index": 7},
        {"probs": [0.3, 0.4], "targets": [0, 1], "weights": [0, 0]},
    ],
)
def test_a_batch_without_a_judged_row_adds_nothing(batch):
    for sketch in (CalibrationSketch(), filled("one event")):
        before = copy.deepcopy(sketch)
        sketch.update(**batch)
        assert sketch == before


def test_losses_that_a_sketch_cannot_add_up_are_refused():
    sketch = filled("one event")
    before = sketch.to_bytes()
    with pytest.raises(
        InputError, match="probs: expected log losses below 1e140, got larger log losses; check the logits"
    ):
        sketch.update([1e200, -1.0], [0, 1], logits=True)
    assert sketch.to_bytes() == before
    sketch.update([1e130, -1.0], [0, 1], logits=True)
    assert CalibrationSketch.from_bytes(sketch.to_bytes()) == sketch


def test_a_label_may_be_ignored_in_every_row():
    sketch, data = CalibrationSketch(notion="multilabel"), labels(40)
    data["targets"][:, 1] = -1
    sketch.update(**data, ignore_index=-1)
    report = calibrant.evaluate(**data, ignore_index=-1, notion="multilabel", n_resamples=0)
    assert calibrant.evaluate(sketch, n_resamples=0)["ece"].value == pytest.approx(report["ece"].value)
    assert [table.n for table in sketch.class_tables] == [40, 0, 40]


# ---------------------------------------------------------------- what it holds


@pytest.mark.parametrize("name", [name for name in KINDS if name != "groups"])
def test_brier_log_loss_and_accuracy_are_exact(name):
    made, data = KINDS[name]
    sketch, notion = filled(name, 3), made.get("notion")
    if notion == "multilabel":
        report = calibrant.evaluate(**data, notion=notion, level=None)
        assert calibrant.brier_score(sketch) == pytest.approx(report["brier"].value, rel=SUMS)
        assert calibrant.negative_log_likelihood(sketch) == pytest.approx(report["nll"].value, rel=SUMS)
        assert calibrant.accuracy(sketch) == pytest.approx(report["accuracy"].value, rel=SUMS)
        return
    for measure in (calibrant.brier_score, calibrant.negative_log_likelihood, calibrant.accuracy):
        assert measure(sketch) == pytest.approx(measure(**data), rel=1e-12)
    if notion not in ("classwise", "multilabel"):
        assert calibrant.top_label_brier_score(sketch) == pytest.approx(
            calibrant.top_label_brier_score(**data), rel=1e-6
        )  # of float32 scores the difference 1 - p is rounded


def test_an_infinite_loss_stays_infinite_and_is_counted():
    sketch = sketch_of([0.0, 0.5], [1, 0])
    sketch.update([0.9, 1.0], [1, 0])
    assert calibrant.negative_log_likelihood(sketch) == math.inf
    assert calibrant.evaluate(sketch, n_resamples=0)["nll"].details["infinite_rows"] == 2


@pytest.mark.parametrize("name", KINDS)
def test_evaluate_takes_a_sketch_like_the_predictions(name):
    made, data = KINDS[name]
    classwise = made.get("classwise", False)
    exact = calibrant.evaluate(**data, notion=made.get("notion"), classwise=classwise, n_resamples=20)
    found = calibrant.evaluate(filled(name, 2), n_resamples=20)
    assert (found.n, found.notion, found.n_classes) == (exact.n, exact.notion, exact.n_classes)
    assert found.outcome_rate == pytest.approx(exact.outcome_rate, rel=SUMS)
    for key in ("accuracy", "brier", "nll", "mean_gap", "ece", "rmsce", "uncertainty", "classwise_ece"):
        np.testing.assert_allclose(found[key].value, exact[key].value, rtol=1e-9, atol=1e-12)
        if "classes and bins;" in exact[key].method:  # rows tell more of several classes than a sketch
            assert "classes and bins, variances times 2;" in found[key].method
            assert found[key].low <= exact[key].low
            assert found[key].high >= exact[key].high
            continue
        np.testing.assert_allclose(
            (found[key].low, found[key].high), (exact[key].low, exact[key].high), rtol=2e-3, atol=1e-4
        )  # the cells of the inference: of an exact table its rows
    assert found["ece"].details["table"] == f"{made.get('grid', 'standard')} grid"
    assert [group.name for group in found.groups] == [group.name for group in exact.groups]
    for own, group in zip(found.groups, exact.groups, strict=True):
        assert own.report["ece"].value == pytest.approx(group.report["ece"].value, rel=1e-9)
        assert own.report.n == group.report.n
    if exact.classwise is not None:
        assert found.classwise is not None
        np.testing.assert_allclose(found.classwise.errors, exact.classwise.errors, rtol=1e-6, atol=1e-9)
    assert found.class_names == (tuple(made["class_names"]) if "class_names" in made else None)


def test_a_report_from_a_sketch_says_how_exact_it_is():
    rng = np.random.default_rng(6)
    scores = rng.random(20_000)
    sketch = of(scores, (rng.random(20_000) < scores**1.5).astype(int))
    report = calibrant.evaluate(sketch, level=None, measures=["ece", "ace", "smece"])
    text = " ".join(str(report).split())
    assert "computed from a sketch (standard grid); largest errors: adaptive ECE " in text
    assert f"adaptive ECE {report['ace'].error_bound:.4f}" in text
    assert "smooth ECE" not in text.partition("from a sketch")[2]
    few = calibrant.evaluate(of(np.array([0.1, 0.7]), np.array([0, 1])), level=None)
    assert "computed from a sketch (standard grid); all numbers shown are exact to the digits shown" in " ".join(
        str(few).split()
    )
    assert "sketch" not in str(calibrant.evaluate([0.1, 0.7], [0, 1], level=None))
    bare = calibrant.evaluate(ReliabilityTable.from_scores([1e-9, 0.5], [1, 0], grid="standard"), level=None)
    assert "; the error is unknown for log loss" in " ".join(str(bare).split())
    assert json.loads(bare.to_json())["estimates"]["nll"]["error_bound"] is None


def test_a_report_says_what_was_left_out():
    report = calibrant.evaluate([0.2, 0.8], [0, 1], level=None)
    assert "are not evaluated" not in " ".join(str(report).split())
    assert report.to_dict()["omitted"] == {}
    partial = replace(report, omitted={f"{i}.parquet": "its end is cut" for i in range(5)})
    text = " ".join(str(partial).split())
    assert "Caution: these inputs are not evaluated: 0.parquet (its end is cut); 1.parquet (its end is cut); " in text
    assert "2.parquet (its end is cut); and 2 more." in text
    assert partial.to_dict()["omitted"]["4.parquet"] == "its end is cut"


def test_a_mapping_of_sketches_is_a_report_with_groups():
    sketch = filled("groups")
    found = calibrant.evaluate(dict(sketch.groups), n_resamples=20)
    again = calibrant.evaluate(sketch, n_resamples=20)
    assert [group.name for group in found.groups] == ["0", "1", "2"]
    assert found["ece"].value == pytest.approx(again["ece"].value, rel=SUMS)
    assert [group.p_value for group in found.groups] == [group.p_value for group in again.groups]
    assert CalibrationSketch.of_groups(sketch.groups).groups == sketch.groups


MEASURES = {
    "ece": lambda *args, **kw: calibrant.expected_calibration_error(*args, **kw),
    "ece of ten": lambda *args, **kw: calibrant.expected_calibration_error(*args, n_bins=10, **kw),
    "mce": lambda *args, **kw: calibrant.maximum_calibration_error(*args, **kw),
    "rmsce": lambda *args, **kw: calibrant.root_mean_square_calibration_error(*args, **kw),
    "debiased": lambda *args, **kw: calibrant.root_mean_square_calibration_error(*args, debiased=True, **kw),
    "ace": lambda *args, **kw: calibrant.adaptive_calibration_error(*args, **kw),
    "smece": lambda *args, **kw: calibrant.smooth_calibration_error(*args, **kw),
    "smooth at": lambda *args, **kw: calibrant.smooth_calibration_error(*args, bandwidth=0.1, **kw),
    "corp": lambda *args, **kw: calibrant.score_decomposition(*args, **kw).discrimination,
    "murphy": lambda *args, **kw: calibrant.score_decomposition(*args, method="murphy", n_bins=10, **kw).miscalibration,
    "diagram": lambda *args, **kw: calibrant.reliability_diagram(*args, **kw).accuracies,
    "cox": lambda *args, **kw: cox_test(*args, eps=1e-6, **kw).statistic,
    "spiegelhalter": lambda *args, **kw: spiegelhalter_test(*args, **kw).statistic,
    "hosmer": lambda *args, **kw: hosmer_lemeshow_test(*args, sample="external", **kw).statistic,
    "t-cal": lambda *args, **kw: t_cal_test(*args, **kw).statistic,
    "ks": lambda *args, **kw: ks_test(*args, **kw).statistic,
    "kuiper": lambda *args, **kw: kuiper_test(*args, **kw).statistic,
}


@pytest.mark.covering
@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("name", ["one event", "classes"])
def test_every_measure_takes_a_sketch(measure, name):
    data = KINDS[name][1]
    exact, found = MEASURES[measure](data["probs"], data["targets"]), MEASURES[measure](filled(name))
    np.testing.assert_allclose(found, exact, rtol=0.1 if measure == "hosmer" else 0.02, atol=2e-4)


def test_a_test_from_a_sketch_says_so():
    assert ks_test(filled("one event")).details["table"] == "standard grid"
    assert spiegelhalter_test(filled("fine grid")).details == {"table": "fine grid"}
    assert "table" not in spiegelhalter_test(*one_event().values()).details


@pytest.mark.parametrize("name", ["classes and each of them", "class by class", "labels"])
@pytest.mark.parametrize("binning", ["uniform", "quantile"])
def test_measures_of_classes_take_a_sketch_that_keeps_them(name, binning):
    made, data = KINDS[name]
    notion = "multilabel" if made.get("notion") == "multilabel" else None
    own = {"binning": binning, "n_bins": 10}
    exact = calibrant.classwise_calibration(**data, notion=notion, **own)
    found = calibrant.classwise_calibration(filled(name), notion=notion, **own)
    np.testing.assert_allclose(found.supports, exact.supports)
    if binning == "uniform":
        np.testing.assert_allclose(found.errors, exact.errors, rtol=1e-6, atol=1e-9)
    assert calibrant.classwise_calibration_error(filled(name), **own) == pytest.approx(found.value)
    if "notion" in made:
        assert calibrant.expected_calibration_error(filled(name), **own) == pytest.approx(found.value)


# ---------------------------------------------------------------- comparing


def two_models(n: int = 4000, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    honest = rng.random(n)
    return honest, honest**2 / (honest**2 + (1 - honest) ** 2), (rng.random(n) < honest).astype(int)


def of(probs: np.ndarray, targets: np.ndarray, **options: Any) -> CalibrationSketch:
    sketch = CalibrationSketch(**options)
    sketch.update(probs, targets)
    return sketch


@pytest.mark.parametrize("seed", range(4))
def test_sketches_are_compared_safely(seed):
    honest, bold, outcomes = two_models(seed=seed)
    paired = calibrant.compare(honest, bold, outcomes).pairs[0]
    comparison = calibrant.compare(of(honest, outcomes), of(bold, outcomes))
    found = comparison.pairs[0]
    assert not comparison.paired
    for name in ("debiased_square", "ece", "brier", "nll", "accuracy"):
        assert found[name].value == pytest.approx(paired[name].value, rel=1e-9, abs=1e-12)
    for name in ("debiased_square", "brier", "nll", "accuracy"):  # sums of deviations are never below paired ones
        assert found[name].low <= paired[name].low + 1e-9
        assert found[name].high >= paired[name].high - 1e-9
    assert found["debiased_square"].p_value >= paired["debiased_square"].p_value
    own = [calibrant.evaluate(p, outcomes, n_resamples=0, level=0.975)["ece"] for p in (honest, bold)]
    assert found["ece"].low == pytest.approx(own[0].low - own[1].high, abs=1e-9)
    assert found["ece"].high == pytest.approx(own[0].high - own[1].low, abs=1e-9)
    assert "Sketches do not contain individual rows" in " ".join(comparison.verdict())
    for a, b in zip(
        comparison.diagrams["A"].lows, calibrant.compare(honest, bold, outcomes).diagrams["A"].lows, strict=True
    ):
        assert a == pytest.approx(b, abs=1e-12)


def test_a_model_is_as_good_as_itself():
    honest, _, outcomes = two_models()
    pair = calibrant.compare({"a": of(honest, outcomes), "b": of(honest, outcomes)}).pairs[0]
    for name in ("debiased_square", "ece", "brier", "nll", "accuracy"):
        assert pair[name].value == 0
        assert pair[name].low < 0 < pair[name].high
    assert pair["debiased_square"].p_value == 1


def test_models_of_different_rows_may_be_compared():
    honest, bold, outcomes = two_models()
    comparison = calibrant.compare(of(honest[:3000], outcomes[:3000]), of(bold, outcomes))
    assert comparison.n == 3000
    assert comparison.pairs[0]["brier"].details["rows"] == [3000, 4000]
    assert comparison.pairs[0]["debiased_square"].high < 0


def test_the_certified_errors_of_a_difference_add_up():
    honest, bold, outcomes = two_models()
    a, b = of(honest, outcomes), of(bold, outcomes)
    pair = calibrant.compare(a, b, n_bins=7).pairs[0]
    own = [calibrant.evaluate(x, n_bins=7, level=None)["ece"].error_bound for x in (a, b)]
    assert pair["ece"].error_bound == sum(own) > 0
    assert pair["brier"].error_bound == 0
    assert json.loads(calibrant.compare(a, b, n_bins=7).to_json())["pairs"][0]["estimates"]["ece"]["error_bound"] > 0


def test_an_infinite_loss_of_a_sketch_is_named():
    honest, _, outcomes = two_models()
    certain = np.where(outcomes == 1, 0.9, 0.1)
    certain[0] = 1 - outcomes[0]
    pair = calibrant.compare(of(honest, outcomes), of(certain, outcomes)).pairs[0]
    assert pair["nll"].value == -math.inf
    assert pair["nll"].method == "not available: infinite: 1 observed outcome had predicted probability 0 in B"


# ---------------------------------------------------------------- storage


STORED = {
    "bytes": (lambda s: s.to_bytes(), CalibrationSketch.from_bytes),
    "json": (lambda s: s.to_json(), CalibrationSketch.from_json),
    "arrow": (lambda s: s.to_arrow(), CalibrationSketch.from_arrow),
    "pickle": (pickle.dumps, pickle.loads),
    "copy": (lambda s: s, copy.deepcopy),
}


@pytest.mark.covering
@pytest.mark.parametrize("way", STORED)
@pytest.mark.parametrize("name", [*KINDS, "empty"])
def test_a_sketch_comes_back_as_it_was(way, name):
    sketch = CalibrationSketch(class_names=["no", "yes"]) if name == "empty" else filled(name)
    write, read = STORED[way]
    back = read(write(sketch))
    assert back == sketch
    assert back.to_bytes() == sketch.to_bytes()
    assert repr(back) == repr(sketch)
    if name != "empty":
        back.update(**KINDS[name][1])
        assert back.n == 2 * sketch.n


@pytest.mark.parametrize("name", ["weights", "groups", "class by class"])
def test_arrow_survives_files(name, tmp_path):
    sketch = filled(name)
    pq.write_table(sketch.to_arrow(), tmp_path / "a.parquet")
    assert CalibrationSketch.from_arrow(pq.read_table(tmp_path / "a.parquet")) == sketch
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as sink, pa.ipc.new_file(sink, sketch.to_arrow().schema) as file:
        file.write_table(sketch.to_arrow(), max_chunksize=7)
    with pa.memory_map(str(tmp_path / "a.arrow")) as source:
        assert CalibrationSketch.from_arrow(pa.ipc.open_file(source).read_all()) == sketch


def test_version_1_is_read_for_ever(monkeypatch):
    """A file written once, by compiled kernels; whatever changes, its numbers must come out of it."""
    monkeypatch.setenv("CALIBRANT_KERNELS", "numba")
    sketch = CalibrationSketch.from_bytes((GOLDEN / "sketch_v1.cal").read_bytes())
    assert CalibrationSketch.from_json((GOLDEN / "sketch_v1.json").read_text()) == sketch
    # Version 1 began without the sums with squared weights, and without those to the power of 4. The weights are then
    # taken to tell nothing of the scores.
    found, expected = (json.loads(one.to_json()) for one in (sketch, golden_sketch()))
    for old, new in zip(found.pop("totals"), expected.pop("totals"), strict=True):
        share = new["square_weight"] / new["weight"]
        expected_now = {**new, "quartic_weight": 0.0, **{f"squared_{name}": share * new[name] for name in SQUARED}}
        assert old == pytest.approx(expected_now, rel=1e-15)  # sums of rows were rounded otherwise then
    del found["sha256"], expected["sha256"]
    assert found == expected


def golden_sketch() -> CalibrationSketch:
    """What was written to the files of version 1: sums of few binary fractions, which no order of addition changes."""
    sketch = CalibrationSketch(notion="top-label", classwise=True, class_names=["a", "b", "c"])
    probs = np.array([[0.5, 0.25, 0.25], [0.125, 0.75, 0.125], [0.25, 0.25, 0.5], [0.0, 1.0, 0.0]])
    sketch.update(probs, ["a", "b", "a", "b"], weights=[1, 2, 0.5, 1], groups=["x", "y", "x", "y"])
    return sketch


@pytest.mark.parametrize("cut", [0, 1, 12, 14, 20, 26, 100, -33, -32, -1])
def test_a_cut_sketch_is_refused(cut):
    data = filled("one event").to_bytes()
    with pytest.raises(CalibrantError, match=r"a calibrant sketch|its checksum"):
        CalibrationSketch.from_bytes(data[:cut])


@at_most(80)
@given(place=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_no_changed_byte_goes_unnoticed(place, flip):
    data = bytearray(CACHED)
    data[int(place * len(data))] ^= flip
    with pytest.raises(CalibrantError):
        CalibrationSketch.from_bytes(bytes(data))


CACHED = filled("weights").to_bytes()


def test_what_is_no_sketch_is_refused():
    calls = [
        (CalibrationSketch.from_bytes, b"", "data: expected a calibrant sketch, got bytes that begin with nothing"),
        (CalibrationSketch.from_bytes, b"PAR1" * 20, "expected a calibrant sketch, got bytes that begin with b'PAR1"),
        (CalibrationSketch.from_bytes, "text", "data: expected bytes, got a str"),
        (CalibrationSketch.from_json, "{", "text: expected JSON, got invalid JSON"),
        (CalibrationSketch.from_json, "[1]", "text: expected a calibrant sketch, got other JSON"),
        (CalibrationSketch.from_json, '{"a": 1}', "expected a calibrant sketch, got other JSON"),
        (CalibrationSketch.from_json, None, "text: expected JSON"),
        (CalibrationSketch.from_arrow, pa.table({"a": [1]}), "table: expected a pyarrow.Table with the metadata"),
        (CalibrationSketch.from_arrow, 3, "table: expected a pyarrow.Table with the metadata of a sketch"),
    ]
    for read, data, message in calls:
        with pytest.raises(CalibrantError) as caught:
            read(data)
        assert message in str(caught.value)


def test_a_newer_version_says_so():
    text = filled("one event").to_json().replace('"calibrant.sketch": 1', '"calibrant.sketch": 3')
    with pytest.raises(
        CalibrantError,
        match=(
            "expected a sketch of version 1 or 2, got version 3; read the sketch with the version of "
            "calibrant that wrote it, or a newer version"
        ),
    ):
        CalibrationSketch.from_json(text)
    data = filled("one event").to_bytes().replace(b"sketch-2.json", b"sketch-4.json")
    with pytest.raises(
        InputError,
        match=(
            "expected a sketch of version 2 or 3, got version 4; read the sketch with the version of "
            "calibrant that wrote it, or a newer version"
        ),
    ):
        CalibrationSketch.from_bytes(data)
    old = bytearray((GOLDEN / "sketch_v1.cal").read_bytes())
    old[13] = 7
    with pytest.raises(InputError, match="expected a sketch of version 1, got version 7"):
        CalibrationSketch.from_bytes(bytes(old))


@pytest.mark.parametrize("cut", [13, 14, 20, 26, 100, -33, -32, -1])
def test_a_cut_or_changed_sketch_of_version_1_is_refused(cut):
    old = (GOLDEN / "sketch_v1.cal").read_bytes()
    changed = bytearray(old)
    changed[cut] ^= 1
    for data in (old[:cut], bytes(changed)):
        with pytest.raises(InputError):
            CalibrationSketch.from_bytes(data)


def test_a_full_curve_fits_into_180_kilobytes():
    edges = grid.edges("standard")
    scores = np.repeat([0.0, *(edges[1:] + edges[:-1]) / 2, 1.0], 300)
    sketch = of(scores, (np.arange(len(scores)) % 3 == 0).astype(int))
    data = sketch.to_bytes()
    assert len(json.loads(sketch.to_json())["cells"]["cell"]) == 4396
    assert len(data) < 4396 * (1 + 1 + 2 + 4 + 4 + 24) + 4000 < 180_000  # which has room for counts up to 2**31
    assert CalibrationSketch.from_bytes(data) == sketch


def test_numpy_opens_a_sketch():
    sketch = filled("weights")
    cells = json.loads(sketch.to_json())["cells"]
    with np.load(io.BytesIO(sketch.to_bytes()), allow_pickle=False) as archive:
        assert archive.files == ["sketch-2.json", *cells]
        assert json.loads(archive["sketch-2.json"])["notion"] == sketch.notion
        for name, column in cells.items():
            assert archive[name].tolist() == column
    with zipfile.ZipFile(io.BytesIO(sketch.to_bytes())) as archive:  # nothing in it tells when or where it was written
        assert {(own.date_time, own.create_system) for own in archive.infolist()} == {((1980, 1, 1, 0, 0, 0), 3)}


def forged(name: str, data: bytes, compression: int = zipfile.ZIP_STORED) -> bytes:
    """Return a sketch with another member, and the checksum that fits."""
    stream = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(filled("one event").to_bytes())) as source,
        zipfile.ZipFile(stream, "w", compression) as archive,
    ):
        for own in source.namelist():
            archive.writestr(own, data if own == name else source.read(own))
        archive.comment = bytes(64)
    body = stream.getvalue()[:-64]
    return body + hashlib.sha256(body).hexdigest().encode()


def array_bytes(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


class Trap:
    """Fails a test that unpickles it."""

    def __reduce__(self):
        return pytest.fail, ("unpickled",)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("cell.npy", array_bytes(np.array([Trap()], object))),
        ("cell.npy", array_bytes(np.arange(4, dtype="<i2")).replace(b"(4,), }" + b" " * 12, b"(4000000000000,), }")),
        ("cell.npy", array_bytes(np.zeros((2, 2), "<i2"))),
        ("cell.npy", array_bytes(np.zeros(3, "S3"))),
        ("cell.npy", b""),
        ("sketch-2.json", b'{"weighted": false}'),
        ("sketch-2.json", b"[" * 100_000),
        ("sketch-2.json", b"\xff"),
    ],
)
def test_a_forged_sketch_is_refused_before_it_takes_memory(name, data):
    sketch = forged(name, data)
    tracemalloc.start()
    with pytest.raises(InputError, match="data: expected a valid sketch, got an invalid sketch"):
        CalibrationSketch.from_bytes(sketch)
    assert tracemalloc.get_traced_memory()[1] < 3_000_000
    tracemalloc.stop()


def test_a_forged_sketch_does_not_blow_up():
    sketch = forged("cell.npy", array_bytes(np.zeros(10**7, "<i2")), zipfile.ZIP_DEFLATED)
    assert len(sketch) < 100_000
    with pytest.raises(InputError, match="a compressed archive member"):
        CalibrationSketch.from_bytes(sketch)
    body = (GOLDEN / "sketch_v1.cal").read_bytes()[:26] + b"no JSON"
    with pytest.raises(InputError, match="data: expected a valid sketch, got an invalid sketch"):
        CalibrationSketch.from_bytes(body + hashlib.sha256(body).digest())


def test_edited_json_and_arrow_are_noticed():
    content = json.loads(filled("one event").to_json())
    content["cells"]["count_1"][0] += 1
    with pytest.raises(CalibrantError, match="text: expected a sketch that matches its checksum"):
        CalibrationSketch.from_json(json.dumps(content))
    table = filled("one event").to_arrow()
    with pytest.raises(CalibrantError, match="table: expected a sketch that matches its checksum"):
        CalibrationSketch.from_arrow(table.slice(1))
    with pytest.raises(CalibrantError, match="no column 'cell'"):
        CalibrationSketch.from_arrow(table.drop_columns(["cell"]))


def test_json_in_another_layout_is_the_same_sketch():
    sketch = filled("groups")
    content = json.loads(sketch.to_json())
    assert CalibrationSketch.from_json(json.dumps(content, indent=4, sort_keys=True)) == sketch


def test_sums_that_no_predictions_have_are_refused_with_a_good_checksum():
    from calibrant.results.envelope import digest_of

    content = json.loads(filled("one event").to_json())
    del content["sha256"]
    for spoil in (
        lambda c: c["cells"]["count_0"].__setitem__(0, -1),
        lambda c: c["cells"]["score_sum_1"].__setitem__(3, 1e6),
        lambda c: c["totals"][0].__setitem__("brier", -1.0),
        lambda c: c.__setitem__("notion", "other"),
        lambda c: c["rows"].__setitem__(0, [1, 2]),
        lambda c: c["rows"].__setitem__(0, [0] * 10**6),
        lambda c: c["cells"]["cell"].__setitem__(0, 99_999),
        lambda c: c["cells"]["cell"].__setitem__(0, -1),
        lambda c: c.pop("totals"),
        lambda c: c.__setitem__("edges", "0" * 64),
    ):
        wrong = copy.deepcopy(content)
        spoil(wrong)
        wrong["sha256"] = digest_of(wrong)
        with pytest.raises(CalibrantError):
            CalibrationSketch.from_json(json.dumps(wrong))


# ---------------------------------------------------------------- what it refuses


def test_messages_of_settings_and_arguments():
    sketch = filled("one event")
    calls = {
        "notion: expected one of": lambda: CalibrationSketch(notion="top"),
        "grid: expected one of 'standard', 'fine', got 'coarse'": lambda: CalibrationSketch(grid="coarse"),
        "classwise: expected True or False, got 'yes'": lambda: CalibrationSketch(classwise="yes"),
        "class_names: expected a list of names": lambda: CalibrationSketch(class_names="ab"),
        "probs: expected one event, as in the previous batches, got 4 classes": lambda: sketch.update(**classes()),
        "other: expected a CalibrationSketch, got a int": lambda: sketch.merge(3),
        "other: expected a sketch with the same grid (standard), got fine": lambda: sketch + filled("fine grid"),
        "other: expected a sketch with the notion 'positive', got 'top-label'": lambda: (
            sketch + filled("top label of one event")
        ),
        "groups: expected groups in every batch or in none, got groups after batches without groups": lambda: (
            sketch + filled("groups")
        ),
        "got no groups after batches with groups": lambda: filled("groups") + sketch,
        "the same class names (None)": lambda: sketch + CalibrationSketch(class_names=["a", "b"]),
        "groups: expected at least one group, got an empty mapping": lambda: CalibrationSketch.of_groups({}),
        "groups: expected a CalibrationSketch for every name, got a int for 'a'": lambda: CalibrationSketch.of_groups(
            {"a": 3}
        ),
        "groups: expected sketches without groups, got groups in 'a'": lambda: CalibrationSketch.of_groups(
            {"a": filled("groups")}
        ),
        "sketch: expected a sketch with at least one row, got an empty sketch": lambda: calibrant.evaluate(
            CalibrationSketch()
        ),
        "targets: expected no value with a CalibrationSketch": lambda: calibrant.evaluate(sketch, [1]),
        "weights: expected no value with a CalibrationSketch": lambda: calibrant.brier_score(sketch, weights=[1]),
        "logits: expected no value with": lambda: calibrant.expected_calibration_error(sketch, logits=True),
        "notion: expected 'positive', the notion of the sketch, got 'top-label'": lambda: (
            calibrant.expected_calibration_error(sketch, notion="top-label")
        ),
        "sketch: expected a sketch of classes, got a sketch of a single event": lambda: calibrant.classwise_calibration(
            sketch
        ),
        (
            "got a sketch that keeps only the evaluated event; make the sketch with CalibrationSketch(classwise=True)"
        ): lambda: calibrant.classwise_calibration(filled("classes")),
        "sketch: expected a sketch with the notion 'positive' or 'top-label', got a sketch with 'classwise'": lambda: (
            calibrant.smooth_calibration_error(filled("class by class"))
        ),
        "threshold: expected 0 for a CalibrationSketch, got 0.1": lambda: calibrant.classwise_calibration_error(
            filled("class by class"), threshold=0.1
        ),
        "eps: expected 0 for a CalibrationSketch": lambda: calibrant.negative_log_likelihood(sketch, eps=1e-9),
        "method: expected 'exact' for a ReliabilityTable or a CalibrationSketch": lambda: (
            calibrant.smooth_calibration_error(sketch, method="mesh")
        ),
        "probs_b: expected a CalibrationSketch, like the other models, got a list": lambda: calibrant.compare(
            sketch, [0.5]
        ),
        "probs_b: expected a sketch with notion 'positive', like probs_a": lambda: calibrant.compare(
            sketch, filled("classes")
        ),
        "probs_b: expected a sketch with at least one row": lambda: calibrant.compare(sketch, CalibrationSketch()),
        "probs_a: expected a sketch with the notion 'positive' or 'top-label'": lambda: calibrant.compare(
            filled("class by class"), filled("class by class")
        ),
        "targets: expected an array, got None; call compare": lambda: calibrant.compare([0.5], [0.5]),
    }
    for message, call in calls.items():
        with pytest.raises(CalibrantError) as caught:
            call()
        assert message in str(caught.value), str(caught.value)


def test_a_failed_merge_of_several_changes_nothing():
    sketch = CalibrationSketch()
    with pytest.raises(CalibrantError):
        sketch.merge(filled("one event"), filled("classes"))
    assert sketch == CalibrationSketch()


def test_inputs_are_left_as_they_were():
    data = one_event()
    before = {name: value.copy() for name, value in data.items()}
    for value in data.values():
        value.setflags(write=False)
    CalibrationSketch().update(**data)
    for name, value in data.items():
        np.testing.assert_array_equal(value, before[name])


def test_a_sketch_can_be_no_key():
    with pytest.raises(TypeError, match="unhashable"):
        hash(CalibrationSketch())


def test_a_table_of_a_sketch_is_the_table_of_the_scores():
    data = one_event()
    table = ReliabilityTable.from_scores(data["probs"], data["targets"], grid="standard")
    own = filled("one event").table
    for name in ("cells", "counts", "positives", "score_sums", "positive_scores", "square_scores"):
        np.testing.assert_array_equal(getattr(own, name), getattr(table, name))


def test_it_says_what_it_is():
    assert repr(CalibrationSketch()) == "<CalibrationSketch: empty, standard grid>"
    assert repr(filled("one event")) == "<CalibrationSketch: 400 rows, positive, standard grid, 176 kB>"
    assert repr(filled("labels")) == "<CalibrationSketch: 179 rows, multilabel of 3 labels, standard grid, 739 kB>"
    assert repr(filled("groups")).startswith("<CalibrationSketch: 400 rows, positive, 3 groups, ")
    assert repr(filled("classes and each of them")).endswith("top-label of 4 classes, standard grid, 1.2 MB>")


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("kind", [str, Path])
def test_a_sketch_is_saved_and_loaded(tmp_path: Path, kind: Any) -> None:
    sketch = filled("one event")
    path = kind(tmp_path / "monday.CAL")
    assert sketch.save(path) is None
    assert Path(path).read_bytes() == sketch.to_bytes()
    assert CalibrationSketch.load(path) == sketch
    CalibrationSketch().save(path)  # a file that exists is replaced
    assert CalibrationSketch.load(path) == CalibrationSketch()
    assert [own.name for own in tmp_path.iterdir()] == ["monday.CAL"]
    Path(tmp_path / "other").write_bytes(sketch.to_bytes())
    assert CalibrationSketch.load(tmp_path / "other") == sketch


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "expected a calibrant sketch, got an empty file; pass a file that calibrant report --sketch or Cal"),
        (b"score,target\n0.5,1\n", "expected a calibrant sketch, got bytes that begin with b'score,target\\n0.5'; "),
        (None, "no such file; pass a file that calibrant report --sketch or Cal"),
        ("cut", "expected "),
        ("flipped", "expected "),
        ("version", "expected "),
    ],
)
def test_a_file_that_is_no_sketch_is_refused(tmp_path: Path, data: Any, message: str) -> None:
    path, whole = tmp_path / "x.cal", filled("one event").to_bytes()
    if isinstance(data, str):
        middle = len(whole) // 2
        flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
        data = {"cut": whole[:-9], "flipped": flipped, "version": whole.replace(b"sketch-2.json", b"sketch-9.json")}[
            data
        ]
        assert data != whole
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(FileError, match=f"^{re.escape(f'{path}: {message}')}"):
        CalibrationSketch.load(path)


def test_a_folder_is_no_sketch(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"is not a regular file; pass a file that calibrant report"):
        CalibrationSketch.load(tmp_path)


def test_names_that_the_command_would_not_know_and_what_is_no_name_are_refused(tmp_path: Path) -> None:
    sketch = filled("one event")
    with pytest.raises(
        InputError, match=r"path: expected a name that ends in \.cal, got '.*x\.npz'; use the name '.*x\.npz\.cal'"
    ):
        sketch.save(tmp_path / "x.npz")
    for call in (sketch.save, CalibrationSketch.load):
        for wrong in (sketch.to_bytes(), 3, None):
            name = type(wrong).__name__
            with pytest.raises(
                InputError, match=f"path: expected the name of a file, got {name}; pass a str or a pathlib.Path"
            ):
                call(wrong)
    with pytest.raises(FileError, match=r"cannot be written .No such file or directory."):
        sketch.save(tmp_path / "missing" / "x.cal")
    assert list(tmp_path.iterdir()) == []
