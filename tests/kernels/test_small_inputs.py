"""NumPy runs the kernels for small inputs, compiled code for large ones: which of the two, and that they agree.

Tolerances. Both add the same n terms in another order: n 2^-53 times their sum at most, some sqrt(n) 2^-53 in practice.
Compiled loops add in blocks of 2^17 rows and 15 bins, NumPy in pairs: 1e-14.
"""

from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys
import time
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import calibrant
from calibrant.errors import InputError
from calibrant.errors.exceptions import install_command
from calibrant.kernels import compiling, dispatch
from calibrant.kernels.compiling import SMALL, following, kernels_for
from calibrant.kernels.reference_lookup import bins_of, cells_of
from calibrant.measures import calibration_curves as curves
from calibrant.report import evaluation
from calibrant.runtime import progress
from calibrant.table import grid
from tests.samples import sketch_of

ROOT = Path(__file__).resolve().parents[2]
SUMS = 1e-14

needs_click = pytest.mark.skipif(find_spec("click") is None, reason="needs click, from the extra report")


def forced(monkeypatch, kernels, function, *args, **kwargs):
    monkeypatch.setenv("CALIBRANT_KERNELS", kernels)
    return function(*args, **kwargs)


# ---------------------------------------------------------------- which of the two


@pytest.mark.parametrize(("family", "names"), compiling.VERSIONS.items())
def test_the_size_alone_decides(monkeypatch, family, names):
    monkeypatch.delenv("CALIBRANT_KERNELS", raising=False)
    readable, compiled = (f"calibrant.kernels.{name}" for name in names)
    assert [kernels_for(family, size).__name__ for size in (0, SMALL, SMALL + 1)] == [readable, readable, compiled]
    assert forced(monkeypatch, "numpy", kernels_for, family, SMALL + 1).__name__ == readable
    assert forced(monkeypatch, "numba", kernels_for, family, 0).__name__ == compiled


def test_a_stream_of_small_batches_is_large_in_the_end(monkeypatch):
    monkeypatch.delenv("CALIBRANT_KERNELS", raising=False)
    with following(SMALL - 3):
        names = [kernels_for("rows", size).__name__ for size in (3, 4)]
    assert names == ["calibrant.kernels.reference", "calibrant.kernels.host"]
    assert kernels_for("rows", SMALL).__name__ == "calibrant.kernels.reference"
    seen = []

    def watched(family, size, choose=compiling.kernels_for):
        seen.append(choose(family, size).__name__)
        return choose(family, size)

    monkeypatch.setattr(dispatch, "kernels_for", watched)
    p, y, _ = events(1_000)
    sketch = sketch_of(p, y)
    assert {name.rpartition(".")[2] for name in seen} == {"reference"}
    monkeypatch.setattr(compiling, "SMALL", 2_500)
    for _ in range(2):
        sketch.update(p, y)
    assert seen[-1] == "calibrant.kernels.host"


def test_a_metric_of_many_batches_takes_compiled_kernels(monkeypatch):
    torch = pytest.importorskip("torch")
    metrics = pytest.importorskip("calibrant.torch")
    monkeypatch.delenv("CALIBRANT_KERNELS", raising=False)
    monkeypatch.setattr(compiling, "SMALL", 2_500)
    seen = []
    monkeypatch.setattr(
        dispatch, "kernels_for", lambda *args: seen.append(compiling.kernels_for(*args).__name__) or kernels_for(*args)
    )
    metric = metrics.CalibrationError("binary")
    p, y, _ = events(1_000)
    for _ in range(3):
        metric.update(torch.tensor(p), torch.tensor(y))
        metric.reset()
    assert [name.rpartition(".")[2] for name in seen] == ["reference", "reference", "host"]


def test_the_size_of_the_input_decides_for_its_table_too(monkeypatch):
    monkeypatch.delenv("CALIBRANT_KERNELS", raising=False)
    monkeypatch.setattr(compiling, "SMALL", 2_500)
    seen = []
    monkeypatch.setattr(
        dispatch, "kernels_for", lambda *args: seen.append(compiling.kernels_for(*args).__name__) or kernels_for(*args)
    )
    p, y, _ = events(1_300)
    probs, labels, halves = np.column_stack([1 - p, p]), y.astype(int), np.arange(1_300) % 2

    def kernels_of(rows, **groups):
        seen.clear()
        calibrant.evaluate(probs[:rows], labels[:rows], level=None, **groups)
        return [name.rpartition(".")[2] for name in seen]

    small, large = kernels_of(1_250), kernels_of(1_300)
    assert set(small) == {"reference", "reference_tables"}
    assert large == [name.replace("reference", "host") for name in small]
    assert kernels_of(1_300, groups=halves)[-1] == "reference_tables", "each group is a small input of its own"


def test_other_kernels_are_an_error(monkeypatch):
    with pytest.raises(InputError, match="CALIBRANT_KERNELS: expected numpy or numba, got 'cython'; correct or unset"):
        forced(monkeypatch, "cython", kernels_for, "rows", 1)


def test_without_numba_large_inputs_are_slower_and_say_so_once(monkeypatch):
    monkeypatch.delenv("CALIBRANT_KERNELS", raising=False)
    monkeypatch.setattr(compiling, "find_spec", lambda _: None)
    compiling.numba_is_there.cache_clear()
    try:
        with pytest.warns(UserWarning, match=f"Numba is not installed.*{re.escape(install_command('fast'))}"):
            assert kernels_for("rows", SMALL + 1).__name__ == "calibrant.kernels.reference"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert kernels_for("tables", SMALL + 1).__name__ == "calibrant.kernels.reference_tables"
            kernels_for("rows", SMALL)
    finally:
        compiling.numba_is_there.cache_clear()


SMALL_WORK = """
import sys
import numpy as np
import calibrant
rng = np.random.default_rng(1)
p, z = rng.random(500), rng.normal(size=(200, 4))
calibrant.evaluate(p, rng.random(500) < p, weights=rng.random(500))
calibrant.evaluate(z, rng.integers(0, 4, 200), logits=True, classwise=True)
calibrant.evaluate(p, rng.random(500) < p, clusters=rng.integers(0, 50, 500))
sketch = calibrant.CalibrationSketch()
sketch.update(p, rng.random(500) < p)
calibrant.evaluate(sketch)
calibrant.compare({"a": p, "b": p**2}, rng.random(500) < p)
print(sorted({"numba", "llvmlite", "pandas", "scipy.optimize"} & set(sys.modules)))
"""
REPORT = f"""
import sys
from calibrant.cli import main
main(["report", {str(ROOT / "examples" / "digits.parquet")!r}], standalone_mode=False)
print(sorted({{"numba", "llvmlite", "pandas", "scipy.optimize", "matplotlib", "duckdb"}} & set(sys.modules)))
"""


@pytest.mark.parametrize("code", [SMALL_WORK, pytest.param(REPORT, marks=needs_click)], ids=["library", "report"])
@pytest.mark.slow
def test_small_inputs_load_no_compiler(monkeypatch, code):
    monkeypatch.delenv("CALIBRANT_KERNELS", raising=False)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


# ---------------------------------------------------------------- progress, and what is computed late


def test_long_computations_tell_how_far_they_are():
    heard = []
    with progress.listening(lambda *what: heard.append(what)):
        assert list(progress.counted("counting", "ab")) == ["a", "b"]
        with progress.announced("waiting"):
            time.sleep(0.5)
        with progress.announced("not waiting"):
            pass
    progress.tell("nobody hears this")
    assert heard == [("counting", 0, 2), ("counting", 1, 2), ("", 0, 0), ("waiting", 0, 0), ("", 0, 0), ("", 0, 0)]


def test_groups_are_counted():
    heard = []
    p, y, _ = events(90)
    with progress.listening(lambda *what: heard.append(what)):
        calibrant.evaluate(p, y, groups=np.arange(90) % 3, n_resamples=0)
    works = ("evaluating groups", "comparing groups")
    assert heard == [step for work in works for step in (*((work, k, 3) for k in range(3)), ("", 0, 0))]


def test_curves_are_computed_when_they_are_looked_at(monkeypatch):
    computed = []
    monkeypatch.setattr(curves, "isotonic_curve", lambda *_: computed.append("isotonic"))
    p, y, _ = events(300)
    report = calibrant.evaluate(p, y, n_resamples=30)
    assert str(report)
    assert report.verdict()
    assert repr(report)
    assert report.to_dict(curves=False)["curves"] == {}
    assert computed == []
    assert set(report.curves) == {"isotonic", "smooth"}
    assert report.curves["isotonic"] is None
    assert computed == ["isotonic"]


def test_reports_on_groups_are_computed_when_they_are_looked_at(monkeypatch):
    computed = []
    whole = evaluation._whole
    monkeypatch.setattr(evaluation, "_whole", lambda *what: computed.append(1) or whole(*what))
    p, y, _ = events(300)
    report = calibrant.evaluate(p, y, groups=np.arange(300) % 3, n_resamples=30, tolerance=0.3)
    assert str(report)
    assert report.verdict()
    assert repr(report.groups[0])
    summary = report.to_dict(groups=False)
    assert [group["report"]["n"] for group in summary["groups"]] == [100, 100, 100]
    assert report.groups[0]["ece"] is report.groups[0].ece
    assert computed == []
    assert report.groups[1]["brier"] is report.groups[1].report["brier"]
    assert computed == [1]
    heard = []
    with progress.listening(lambda *what: heard.append(what)):
        full = report.to_dict()
    assert heard == [*(("evaluating groups", k, 3) for k in range(3)), ("", 0, 0)]
    assert len(computed) == 3
    for found in (pickle.loads(pickle.dumps(report)), copy.deepcopy(report)):
        assert found.to_dict() == full
    assert len(computed) == 3


def test_curves_are_the_same_late_early_in_copies_and_in_groups():
    p, y, _ = events(300)
    report = calibrant.evaluate(p, y, groups=np.arange(300) % 2, n_resamples=30)
    alone = calibrant.evaluate(p[::2], y[::2], n_resamples=30)
    for found in (report, pickle.loads(pickle.dumps(report)), copy.deepcopy(report)):
        for kind in ("isotonic", "smooth"):
            np.testing.assert_array_equal(found.curves[kind].rates, report.curves[kind].rates)
            np.testing.assert_array_equal(found.groups[0].report.curves[kind].rates, alone.curves[kind].rates)
    assert type(pickle.loads(pickle.dumps(report)).curves) is dict
    assert repr(report.curves) == repr(dict(report.curves))
    assert len(report.curves) == 2


# ---------------------------------------------------------------- they agree


def events(n, dtype="float64", seed=3):
    rng = np.random.default_rng([seed, n])
    p = rng.beta(0.6, 0.8, n).astype(dtype)
    p[::7] = np.round(p[::7], 1)  # ties, and scores on edges
    return p, (rng.random(n) < p).astype(int), rng.random(n)


def class_rows(n, size, dtype="float64", seed=4):
    rng = np.random.default_rng([seed, n])
    z = rng.normal(0, 2, (n, size))
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    return z, p.astype(dtype), rng.integers(0, size, n), rng.random(n)


CASES = {
    "events": lambda: (events(5_000)[:2], {}),
    "events in float32": lambda: (events(5_000, "float32")[:2], {}),
    "weighted events": lambda: (events(5_000)[:2], {"weights": events(5_000)[2]}),
    "log-odds": lambda: ((9 * events(5_000)[0] - 4, events(5_000)[1]), {"logits": True}),
    "classes": lambda: (class_rows(800, 7)[1:3], {"classwise": True}),
    "classes in float32": lambda: (class_rows(800, 7, "float32")[1:3], {"classwise": True}),
    "weighted logits": lambda: (class_rows(800, 7)[:3:2], {"logits": True, "weights": class_rows(800, 7)[3]}),
}


@pytest.mark.parametrize("case", CASES)
def test_both_give_the_same_numbers(monkeypatch, case):
    (probs, targets), options = CASES[case]()
    classwise = options.pop("classwise", None)
    extra = {} if classwise is None else {"classwise": classwise}
    found = [
        forced(monkeypatch, kernels, calibrant.evaluate, probs, targets, level=None, **options, **extra)
        for kernels in ("numpy", "numba")
    ]
    diagrams = [report.diagram for report in found]
    assert diagrams[0].counts.tolist() == pytest.approx(diagrams[1].counts.tolist(), rel=SUMS)
    if "weights" not in options:
        assert diagrams[0].counts.tolist() == diagrams[1].counts.tolist()
    for measure, estimate in found[0].items():
        # The smooth ECE is found to 1e-7 by bisection; a gap is a difference of sums that are up to 1e3 times as large.
        bound = 1e-7 if measure == "smece" else 1e3 * SUMS
        assert estimate.value == pytest.approx(found[1][measure].value, rel=bound, nan_ok=True), measure


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("weighted", [False, True])
def test_both_give_the_same_cells(monkeypatch, dtype, weighted):
    p, y, weights = events(200_000, dtype)
    args = p, y.astype(np.uint8), weights if weighted else None, *grid.lookup("standard", p.dtype)
    cells = [forced(monkeypatch, kernels, dispatch.cell_rows, *args) for kernels in ("numpy", "numba")]
    if not weighted:
        np.testing.assert_array_equal(cells[0][:, :2], cells[1][:, :2])
    np.testing.assert_allclose(*cells, rtol=SUMS)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_row_more_than_small_changes_no_count(monkeypatch, dtype):
    monkeypatch.delenv("CALIBRANT_KERNELS", raising=False)
    p, y, _ = events(SMALL + 1, dtype)
    small, large = (calibrant.evaluate(p[:n], y[:n], level=None, n_bins=15) for n in (SMALL, SMALL + 1))
    last = calibrant.evaluate(p[-1:], y[-1:], level=None, n_bins=15)
    assert (large.diagram.counts - small.diagram.counts).tolist() == last.diagram.counts.tolist()
    brier = (small["brier"].value * SMALL + last["brier"].value) / (SMALL + 1)
    assert large["brier"].value == pytest.approx(brier, rel=SUMS)
    nll = (small["nll"].value * SMALL + last["nll"].value) / (SMALL + 1)
    assert large["nll"].value == pytest.approx(nll, rel=SUMS)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_bins", [1, 2, 3, 15, 100, 4_395])
def test_the_bins_are_those_of_a_binary_search(n_bins, dtype):
    edges = (np.arange(1, n_bins + 1) / n_bins).astype(dtype)
    below = np.append(np.nextafter(edges[:-1], edges.dtype.type(0)), edges[-1])  # closed on the left
    uneven = edges**2
    p = np.concatenate([np.random.default_rng(n_bins).random(5_000), np.arange(n_bins + 1) / n_bins]).astype(dtype)
    p = np.concatenate([p, np.nextafter(p, p.dtype.type(0)), np.minimum(np.nextafter(p, p.dtype.type(2)), 1)])
    for uppers in (edges, below, uneven):
        assert bins_of(p, uppers).tolist() == np.minimum(np.searchsorted(uppers, p), n_bins - 1).tolist()


@pytest.mark.parametrize("name", ["standard", "fine"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_lookup_finds_the_cell_of_a_binary_search(name, dtype):
    lookup = grid.lookup(name, np.dtype(dtype))
    edges, rng = lookup.edges, np.random.default_rng(5)
    around = [edges, np.nextafter(edges, dtype(-1)), np.nextafter(edges, dtype(2))]
    p = np.concatenate(
        [*around, [dtype(-0.0), dtype(5e-324)], rng.random(2_000).astype(dtype), rng.beta(0.1, 0.1, 2_000)]
    )
    p = p.astype(dtype)[(p >= 0) & (p <= 1)]
    expected = np.where(p == 1, len(edges), np.searchsorted(edges, p))
    np.testing.assert_array_equal(cells_of(p, *lookup), expected)
