"""Files larger than memory: from two columns of Parquet to a full report, compared with pyarrow that only reads them.

The file was just written, so it is in the cache of the system. The report has no intervals: their resampling takes
about a second at any number of rows.
"""

from __future__ import annotations

from pathlib import Path

import naive
import numpy as np
import pytest
from contest import Contest, at_most_floors
from numpy.typing import NDArray

import calibrant
from calibrant.files import FileSketch, Options, read_predictions

pa = pytest.importorskip("pyarrow", reason="the report extra is not installed")
import pyarrow.parquet as pq  # noqa: E402

ROWS, FEW = 20_000_000, 2_000_000
COLUMNS = ["score", "outcome"]
#: The types of the two columns: of the scores, and of the outcomes.
TYPES = {"float32, int8": ("f4", "i1"), "float32, boolean": ("f4", "?"), "float64, int64": ("f8", "i8")}


def report_of(path: Path, options: Options) -> calibrant.Report:
    """Report on a file, by way of a sketch."""
    read = read_predictions([str(path)], options, keep=False)
    assert isinstance(read, FileSketch)
    return calibrant.evaluate(read.sketch, level=None)


def events(n: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return scores of one event whose log-odds are a quarter too large, and what happened."""
    rng = np.random.default_rng(20_261_122)
    logits = rng.normal(-0.5, 1.8, n)
    return 1 / (1 + np.exp(-logits)), rng.random(n) < 1 / (1 + np.exp(-0.8 * logits))


@pytest.mark.parametrize("types", TYPES, ids=lambda types: types.replace(", ", "-"))
def test_report_of_a_file(contest: Contest, tmp_path: Path, quick: bool, types: str) -> None:
    n = FEW if quick else ROWS
    scores, outcomes = events(n)
    scores = scores.astype(TYPES[types][0])
    path = tmp_path / "events.parquet"
    pq.write_table(pa.table({"score": scores, "outcome": outcomes.astype(TYPES[types][1])}), path)
    expected = naive.gaps(scores.astype(np.float64), outcomes.astype(np.int64), naive.uniform_bins(scores, 15))
    positives = int(np.count_nonzero(outcomes))
    del scores, outcomes

    answers = contest(
        f"{n:,} rows of Parquet ({types}) to a report, values alone; floor: pyarrow reads the two columns",
        lambda: report_of(path, Options()),
        floor=lambda: pq.read_table(path, columns=COLUMNS).num_rows,
        goals=[at_most_floors(2)],
        rounds=15,
    )
    report = answers.ours
    assert report.n == n
    assert report["ece"].value == pytest.approx(expected.ece, abs=1e-12)
    assert report.outcome_rate == pytest.approx(positives / n, abs=1e-15)


def test_report_on_groups(contest: Contest, tmp_path: Path, quick: bool) -> None:
    """Time reports on ten models, whose names are text."""
    n = FEW if quick else ROWS
    scores, outcomes = events(n)
    models = np.random.default_rng(0).integers(0, 10, n)
    names = pa.DictionaryArray.from_arrays(pa.array(models, pa.int8()), [f"model {k}" for k in range(10)])
    path = tmp_path / "events.parquet"
    pq.write_table(
        pa.table({"score": scores.astype("f4"), "outcome": outcomes, "model": names.cast(pa.string())}), path
    )
    answers = contest(
        f"{n:,} rows of Parquet with 10 groups to reports on each, values alone; floor: pyarrow reads the columns",
        lambda: report_of(path, Options(by=("model",))),
        floor=lambda: pq.read_table(path).num_rows,
        rounds=5,
    )
    found = {group.name: group.report.n for group in answers.ours.groups}
    assert found == {f"model {k}": count for k, count in enumerate(np.bincount(models).tolist())}
