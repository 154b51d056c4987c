"""Maps of several labels, and groups after a shared map."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.errors import InputError
from calibrant.recalibration import CalibrationMap, LabelRecalibrations
from calibrant.statistics.group_tests import holm
from tests.samples import draw_classes

NAMES = ["toxic", "spam", "fine", "rare"]


def drawn(n: int = 1_500, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return scores of four labels and outcomes: two miscalibrated, one calibrated, one with three events."""
    rng = np.random.default_rng(seed)
    p = rng.random((n, 4))
    y = rng.random((n, 4)) < np.stack([p[:, 0] ** 2, 0.2 + 0.6 * p[:, 1], p[:, 2], 0 * p[:, 3]], axis=1)
    y[:3, 3] = True
    return p, y


def fix_of(p: Any, y: Any = None, **options: Any) -> LabelRecalibrations:
    fix = calibrant.recalibrate(p, y, **{"n_resamples": 0, "notion": "multilabel", "class_names": NAMES, **options})
    assert isinstance(fix, LabelRecalibrations)
    return fix


P, Y = drawn()


@pytest.fixture(scope="module")
def fix() -> LabelRecalibrations:
    return fix_of(P, Y)


def test_each_label_is_recalibrated_alone(fix: LabelRecalibrations) -> None:
    for k, name in enumerate(NAMES[:3]):
        alone = calibrant.recalibrate(P[:, k], Y[:, k], n_resamples=0)
        assert fix.labels[name].gain == alone.gain
        assert fix.labels[name].map.parameters == alone.map.parameters
    adjusted = holm([fix.labels[name].gain.p_value for name in NAMES[:3]])
    assert list(fix.adjusted_p_values.values()) == adjusted


def test_only_proven_labels_change(fix: LabelRecalibrations) -> None:
    mapped = fix.map(P)
    for k, name in enumerate(NAMES[:2]):
        np.testing.assert_array_equal(mapped[:, k], fix.labels[name].map(P[:, k]))
    np.testing.assert_array_equal(mapped[:, 2:], P[:, 2:])
    assert fix.proven
    assert fix.map.proven


def test_a_label_with_few_events_keeps_its_scores_and_is_named(fix: LabelRecalibrations) -> None:
    assert fix.refused == {"rare": "expected at least 5 rows of each outcome, got 3 rows of the less frequent outcome"}
    assert "no map was fitted to label rare: expected at least 5 rows" in " ".join(str(fix).split())
    with pytest.raises(InputError, match="at least 5 rows of each outcome"):
        fix_of(P, np.zeros_like(Y))


def test_the_map_as_it_was_fitted_has_every_label() -> None:
    fix = fix_of(P, Y, method="cox")
    assert [each["kind"] for each in fix.map.parameters["maps"]] == ["line", "line", "identity", "identity"]
    assert [each["kind"] for each in fix.fitted().parameters["maps"]] == ["line", "line", "line", "identity"]


def test_a_sketch_has_the_maps_of_its_cells(fix: LabelRecalibrations) -> None:
    sketch = calibrant.CalibrationSketch(notion="multilabel", class_names=NAMES)
    sketch.update(P, Y)
    of_cells = fix_of(sketch, class_names=None)
    # Cells are dealt into other folds than scores, which decide by how much a map is shrunk.
    np.testing.assert_allclose(of_cells.map(P), fix.map(P), rtol=0, atol=1e-3)


def test_clusters_of_copies_have_the_gain_of_the_rows_with_wider_ends() -> None:
    groups = np.arange(len(P)) // 5
    fix = fix_of(P, Y, clusters=groups, method="cox")
    assert "in 300 clusters" in str(fix)
    alone = calibrant.recalibrate(P[:, 0], Y[:, 0], n_resamples=0, clusters=groups, method="cox")
    # The sums of labels have coarser cells than those of one event.
    assert fix.labels["toxic"].gain.value == pytest.approx(alone.gain.value, abs=0.005)


def test_json_keeps_every_bit(fix: LabelRecalibrations) -> None:
    again = CalibrationMap.from_json(fix.map.to_json())
    assert again == fix.map
    np.testing.assert_array_equal(again(P), fix.map(P))


@pytest.mark.parametrize("maps", [[], {}, [1], [{"kind": "softmax", "parameters": {}}], [{"kind": "labels"}]])
def test_a_changed_map_is_refused(fix: LabelRecalibrations, maps: Any) -> None:
    from calibrant.results.envelope import digest_of

    content = json.loads(fix.map.to_json())
    del content["checksum"]
    content["parameters"]["maps"] = maps
    with pytest.raises(InputError):
        CalibrationMap.from_json(json.dumps({**content, "checksum": digest_of(content)}))


def test_every_form_equals_python(fix: LabelRecalibrations) -> None:
    import duckdb
    import narwhals as nw
    import pandas as pd

    p = np.concatenate([P, [[0.0] * 4, [1.0] * 4, [1e-9] * 4]])
    frame = pd.DataFrame(p, columns=list("abcd"))
    sql = ", ".join(f"{each} AS c{k}" for k, each in enumerate(fix.map.to_sql(list("abcd"))))
    np.testing.assert_allclose(duckdb.sql(f"SELECT {sql} FROM frame").df(), fix.map(p), rtol=1e-12, atol=1e-300)
    of = [each.alias(f"c{k}") for k, each in enumerate(fix.map.to_expression(list("abcd")))]
    np.testing.assert_allclose(nw.from_native(frame).select(*of).to_numpy(), fix.map(p), rtol=1e-12, atol=1e-300)
    torch = pytest.importorskip("torch")
    from calibrant.torch import RecalibrationLayer

    layer = RecalibrationLayer(fix.map)
    np.testing.assert_allclose(layer(torch.from_numpy(p)).numpy(), fix.map(p), rtol=1e-12, atol=1e-300)
    assert layer(torch.full((1, 4), math.nan)).isnan().all()
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(fix.map.to_onnx().SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"score": p})[0], fix.map(p), rtol=1e-12, atol=1e-15)


def test_it_is_shown_as_text_and_as_a_page(fix: LabelRecalibrations) -> None:
    assert repr(fix).startswith("<LabelRecalibrations: Recalibration lowers the loss of 2 of 4 labels: toxic, spam")
    assert "toxic" in fix._repr_html_()
    assert f"| toxic | {fix.labels['toxic'].chosen} |" in fix.to_markdown()
    assert fix.plot().get_title() == "toxic"


# ---------------------------------------------------------------- groups


def test_groups_are_evaluated_with_the_common_map() -> None:
    groups = np.array(["a", "b"])[np.arange(len(P)) % 2]
    fix = calibrant.recalibrate(P[:, 0], Y[:, 0], groups=groups, n_resamples=0, method="cox")
    assert fix.by_group is not None
    direct = calibrant.evaluate(fix.map(P[:, 0]), Y[:, 0], groups=groups, n_resamples=0)
    assert fix.by_group["ece"].value == pytest.approx(direct["ece"].value, abs=1e-12)
    of = {group.name: group for group in direct.groups}
    for group in fix.by_group.groups:
        assert group.n == of[group.name].n
        assert group.ece.value == pytest.approx(of[group.name].ece.value, abs=1e-12)
        assert group.p_value == pytest.approx(of[group.name].p_value, rel=1e-6)


@pytest.mark.parametrize("method", ["identity", "temperature"])
def test_groups_of_classes_are_evaluated_with_the_common_map(method: str) -> None:
    p, y = draw_classes(0, 900, [0.5] * 3)
    groups = np.arange(900) % 3
    fix = calibrant.recalibrate(p, y, groups=groups, n_resamples=0, method=method, clusters=np.arange(900) // 2)
    direct = calibrant.evaluate(fix.map(p), y, groups=groups, n_resamples=0, clusters=np.arange(900) // 2)
    assert fix.by_group is not None
    for group in fix.by_group.groups:
        same = next(other for other in direct.groups if other.name == group.name)
        assert (group.n, group.ece.value) == (same.n, pytest.approx(same.ece.value, abs=1e-9))


def test_labels_have_no_groups() -> None:
    with pytest.raises(InputError, match="groups: expected no groups of several labels"):
        fix_of(P, Y, groups=np.arange(len(P)) % 2)


def test_groups_of_a_sketch_and_of_clusters_count_rows() -> None:
    groups, clusters = np.arange(len(P)) % 3, np.arange(len(P)) // 10
    fix = calibrant.recalibrate(P[:, 0], Y[:, 0], groups=groups, clusters=clusters, n_resamples=0, method="cox")
    assert [group.n for group in fix.by_group.groups] == [500] * 3
    sketches = {}
    for name in range(3):
        sketches[str(name)] = calibrant.CalibrationSketch()
        sketches[str(name)].update(P[groups == name, 0], Y[groups == name, 0])
    fix = calibrant.recalibrate(sketches, n_resamples=0, method="cox")
    assert [group.n for group in fix.by_group.groups] == [500] * 3


def test_maps_of_other_scores_have_no_labels(fix: LabelRecalibrations) -> None:
    assert len(fix.map.of_labels()) == fix.map.n_classes
    for other, what in ((fix.map.of_labels()[0], "of one event"), (of_classes(), "of classes")):
        with pytest.raises(InputError, match=f"map: expected a map of several labels, got a map {what}; use the map"):
            other.of_labels()


def of_classes() -> calibrant.CalibrationMap:
    probs = np.random.default_rng(0).dirichlet(np.ones(3), 300)
    return calibrant.recalibrate(probs, np.arange(300) % 3, method="temperature").map
