"""Sketches of rows in clusters: additive, whatever the batches, and judged as the rows themselves are."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from threading import Thread
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calibrant
from calibrant import CalibrationSketch, evaluate
from calibrant.errors import InputError
from calibrant.results.envelope import digest_of
from calibrant.sketch.content import columns_of_cells, head_of
from tests.samples import sketch_of

ROUND_TRIPS = [
    pytest.param(lambda sketch: CalibrationSketch.from_bytes(sketch.to_bytes()), id="bytes"),
    pytest.param(lambda sketch: CalibrationSketch.from_json(sketch.to_json()), id="JSON"),
    pytest.param(lambda sketch: CalibrationSketch.from_arrow(sketch.to_arrow()), id="Arrow"),
    pytest.param(lambda sketch: pickle.loads(pickle.dumps(sketch)), id="pickle"),
]


def rows(n: int = 1_200, clusters: int = 60, seed: int = 0) -> dict[str, Any]:
    """Rows whose outcomes agree in a cluster more often than chance has it; scores are binary fractions."""
    rng = np.random.default_rng([seed, n, clusters])
    labels = rng.integers(0, clusters, n)
    probs = rng.integers(1, 64, n) / 64
    targets = (rng.random(clusters)[labels] * 0.6 + rng.random(n) * 0.4 < probs).astype(int)
    return {"probs": probs, "targets": targets, "clusters": labels}


def classes(n: int = 900, clusters: int = 50) -> dict[str, Any]:
    rng = np.random.default_rng(n)
    probs = rng.dirichlet(np.ones(4), n)
    labels = np.arange(n) % clusters
    targets = (rng.random(clusters)[labels][:, None] > probs.cumsum(axis=1)).sum(axis=1).clip(max=3)
    return {"probs": probs, "targets": targets, "clusters": labels}


def of(data: dict[str, Any], *parts: Any, **options: Any) -> CalibrationSketch:
    """The sketch of rows, in these batches."""
    sketch = CalibrationSketch(**options)
    for part in parts or [slice(None)]:
        sketch.update(**{name: array[part] for name, array in data.items()})
    return sketch


def numbers(report: calibrant.Report) -> dict[str, tuple[float, ...]]:
    """All numbers of inference of a report."""
    found = {"test": (report.test.p_value,)}
    for name, one in report.items():
        floor = (np.nan, np.nan) if one.floor is None else (one.floor.mean, one.floor.upper)
        found[name] = (one.value, one.low, one.high, one.p_value, *floor)
    return found


@pytest.mark.covering
@pytest.mark.parametrize("clusters", [2, 60, 256, 257, 900])
@pytest.mark.parametrize("n_resamples", [0, 49])
def test_a_sketch_is_judged_as_its_rows(clusters: int, n_resamples: int) -> None:
    data = rows(clusters=clusters)
    report, expected = (
        evaluate(*given, n_resamples=n_resamples, **options)
        for given, options in (
            ((of(data, slice(0, 500), slice(500, None)),), {}),
            ((data["probs"], data["targets"]), {"clusters": data["clusters"]}),
        )
    )
    for name, found in numbers(report).items():
        bound = 1e-12 if name == "test" else report[name].error_bound  # of the smooth error alone more than rounding
        assert found == pytest.approx(numbers(expected)[name], rel=1e-9, abs=max(1e-12, 3 * bound), nan_ok=True), name
    number = len(np.unique(data["clusters"]))
    assert report["ece"].details["clusters"] == (number if number <= 256 else "more than 256")
    assert report["ece"].method == expected["ece"].method
    assert ("in more than 256 clusters" in str(report)) == (number > 256)


def test_the_classes_of_a_sketch_are_judged_by_cluster() -> None:
    """Sums of a class are on the grid: bins of equal width are exact, and so are the numbers by cluster."""
    data = classes()
    report = evaluate(of(data, slice(0, 300), slice(300, None), classwise=True), n_resamples=0)
    expected = evaluate(data["probs"], data["targets"], clusters=data["clusters"], n_resamples=0)
    for name in ("ece", "classwise_ece", "brier", "accuracy"):
        assert numbers(report)[name] == pytest.approx(numbers(expected)[name], rel=1e-9, abs=1e-12, nan_ok=True), name
    assert report.classwise is not None
    assert expected.classwise is not None
    for name in ("lows", "highs", "p_values"):
        found, wanted = getattr(report.classwise, name), getattr(expected.classwise, name)
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


@given(data=st.data(), clusters=st.sampled_from([3, 250, 260]))
def test_any_batches_in_any_order_are_one_sketch(data: st.DataObject, clusters: int) -> None:
    """Scores are binary fractions: sums of weights, outcomes and gaps are exact, so equal to the last bit."""
    whole = rows(400, clusters)
    cuts = sorted(data.draw(st.lists(st.integers(0, 400), max_size=4)))
    batches = [slice(a, b) for a, b in zip([0, *cuts], [*cuts, 400], strict=True)]
    parts = [of(whole, batch) for batch in data.draw(st.permutations(batches))]
    merged, one = sum(parts), of(whole)
    for x, y in zip(merged.clusters.parts, one.clusters.parts, strict=True):
        np.testing.assert_array_equal(x.cell_sums, y.cell_sums)
        np.testing.assert_array_equal(x.hashes, y.hashes)
        np.testing.assert_allclose(x.scalars, y.scalars, rtol=1e-12, atol=1e-12)


@pytest.mark.covering
@pytest.mark.parametrize("passed", ROUND_TRIPS)
@pytest.mark.parametrize("clusters", [2, 200, 300])
def test_clusters_survive(passed: Callable[[CalibrationSketch], CalibrationSketch], clusters: int) -> None:
    data = rows(clusters=clusters)
    data |= {"weights": np.random.default_rng(1).random(1_200) + 0.1, "groups": np.arange(1_200) % 3}
    for sketch in (of(data), of({**data, "clusters": np.char.add("id ", data["clusters"].astype(str))})):
        found = passed(sketch)
        assert found == sketch
        more = rows(50, clusters, seed=1) | {"weights": np.ones(50), "groups": np.zeros(50, int)}
        if sketch.buckets.kind == "number":  # the state goes on
            found.update(**more)
            sketch.update(**more)
            assert found == sketch
    several = of(classes(), classwise=True)
    assert passed(several) == several
    assert len(several.clusters.classes) == 4
    assert several != of({**classes(), "clusters": np.arange(900) % 49}, classwise=True)


def test_groups_have_their_own_clusters() -> None:
    data = rows() | {"groups": np.arange(1_200) % 2}
    report = evaluate(of(data), n_resamples=49)
    expected = evaluate(**data, n_resamples=49)
    assert [group.p_value for group in report.groups] == pytest.approx([group.p_value for group in expected.groups])
    assert report.groups[0].report.clusters == pytest.approx(expected.groups[0].report.clusters)


def test_clusters_come_in_every_batch_or_in_none() -> None:
    data, plain = rows(), {name: array for name, array in rows().items() if name != "clusters"}
    for first, second, got in (
        (data, plain, "no clusters after batches with clusters"),
        (plain, data, "clusters after batches without clusters"),
    ):
        sketch = of(first)
        before = sketch.to_bytes()
        with pytest.raises(InputError, match=f"clusters: expected clusters in every batch or in none, got {got}"):
            sketch.update(**second)
        with pytest.raises(InputError, match="clusters in every batch or in none"):
            sketch.merge(of(second))
        assert sketch.to_bytes() == before


def test_labels_of_another_kind_are_refused_and_nothing_changes() -> None:
    data = rows()
    sketch = of(data | {"groups": np.arange(1_200) % 2})
    before = sketch.to_bytes()
    text = {**data, "clusters": data["clusters"].astype(str), "groups": np.arange(1_200) % 2}
    with pytest.raises(InputError, match="clusters: expected labels that are whole numbers, got text"):
        sketch.update(**text)
    with pytest.raises(InputError, match="clusters: expected 1200 labels, one for each row"):
        sketch.update(**{**text, "clusters": np.arange(3)})
    with pytest.raises(InputError, match="clusters: expected a label in every row, got a missing value at row 2"):
        sketch.update([0.5] * 3, [0, 1, 1], clusters=[1, 2, None], groups=[1, 1, 1])
    assert sketch.to_bytes() == before


def test_a_notion_of_many_events_is_not_judged_by_cluster() -> None:
    data = classes()
    for notion in ("classwise", "multilabel"):
        targets = data["targets"] if notion == "classwise" else np.eye(4, dtype=int)[data["targets"]]
        with pytest.raises(InputError, match="clusters: expected a notion with one event"):
            of({**data, "targets": targets}, notion=notion)


def test_one_cluster_is_an_error_of_the_report_alone() -> None:
    sketch = of({**rows(), "clusters": np.zeros(1_200, int)})
    with pytest.raises(InputError, match="at least 2 clusters"):
        evaluate(sketch)
    assert evaluate(sketch, level=None)["ece"].value > 0


def test_pixels_may_have_the_label_of_their_image() -> None:
    rng = np.random.default_rng(3)
    probs = rng.dirichlet(np.ones(3), (20, 5)).transpose(0, 2, 1)
    targets, images = rng.integers(0, 3, (20, 5)), np.arange(20)
    sketch, each = CalibrationSketch(), CalibrationSketch()
    sketch.update(probs, targets, clusters=images)
    each.update(probs, targets, clusters=np.repeat(images, 5))
    assert sketch == each
    assert sketch.buckets.n_clusters == 20
    unguessed = sketch_of(probs, targets)
    assert unguessed.buckets is None
    assert "assume independent rows" in str(evaluate(unguessed, n_resamples=0))


def test_threads_add_up() -> None:
    sketch, data = CalibrationSketch(), rows(2_000, 300)
    batches = [{name: array[start::8] for name, array in data.items()} for start in range(8)]
    threads = [Thread(target=sketch.update, kwargs=batch) for batch in batches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(sketch.buckets.cell_sums, of(data).buckets.cell_sums)


def test_it_stays_below_five_megabytes_a_curve() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(400_000)
    sketch = sketch_of(p, rng.random(400_000) < p, clusters=np.arange(400_000) // 10)
    assert sketch.nbytes < 3e6
    assert len(sketch.to_bytes()) < 3.5e6
    assert repr(sketch).startswith("<CalibrationSketch: 400,000 rows, positive, more than 256 clusters, standard grid")


# ---------------------------------------------------------------- forged files


def forged(change: Callable[[dict[str, Any], dict[str, Any]], None]) -> bytes:
    """A sketch whose head and columns were changed, with the checksum that fits."""
    content = of(rows(100, 5))._content()
    head, columns = head_of(content), columns_of_cells(content)
    change(head, columns)
    text = {**head, "cells": {name: np.asarray(column).tolist() for name, column in columns.items()}}
    return json.dumps({**text, "sha256": digest_of(text)}).encode()


def set_head(*keys: Any, to: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def change(head: dict[str, Any], columns: dict[str, Any]) -> None:
        del columns
        at: Any = head
        for key in keys[:-1]:
            at = at[key]
        at[keys[-1]] = to

    return change


def set_column(name: str, to: Callable[[Any], Any]) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def change(head: dict[str, Any], columns: dict[str, Any]) -> None:
        del head
        columns[f"clusters.0.0.{name}"] = to(columns[f"clusters.0.0.{name}"])

    return change


@pytest.mark.parametrize(
    "change",
    [
        set_head("clusters", to=[]),
        set_head("clusters", to=[[]]),
        set_head("clusters", to=3),
        set_head("clusters", 0, 0, "hash", to="fnv/1"),
        set_head("clusters", 0, 0, "kind", to="float"),
        set_head("clusters", 0, 0, "grid", to=[1, 2, 3, 1]),
        set_head("clusters", 0, 0, "pooled", to=True),
        set_column("bucket", lambda x: x + 5),
        set_column("cell", lambda x: x[::-1]),
        set_column("cell", lambda x: x + 400),
        set_column("weight", lambda x: -x),
        set_column("weight", lambda x: x * 2),
        set_column("positives", lambda x: x * np.nan),
        set_column("hashes", lambda x: x[::-1]),
        set_column("rows", lambda x: x[:-1]),
        set_column("right", lambda x: x + 1_000),
    ],
)
def test_forged_sums_are_refused(change: Callable[[dict[str, Any], dict[str, Any]], None]) -> None:
    with pytest.raises(InputError):
        CalibrationSketch.from_json(forged(change).decode())


def test_a_reader_without_clusters_refuses_a_file_with_them() -> None:
    """The name of the first member tells the version, which earlier readers compare."""
    for data, name in ((of(rows()), "sketch-3.json"), (CalibrationSketch(), "sketch-2.json")):
        with zipfile.ZipFile(io.BytesIO(data.to_bytes())) as archive:
            assert archive.namelist()[0] == name
    assert json.loads(of(rows()).to_json())["calibrant.sketch"] == 2
