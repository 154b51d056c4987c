"""A map as the last layer of a model: it is saved, loaded, moved and exported with the model."""

from __future__ import annotations

import copy
import io
import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.errors import InputError

torch = pytest.importorskip("torch", reason="torch is not installed (extra 'torch')")
pytest.importorskip("torchmetrics", reason="torchmetrics is not installed (extra 'torch')")

from calibrant.torch import RecalibrationLayer  # noqa: E402

N_CLASSES = 4

#: Maps of every form, by the method that fits them: of one event, of classes, of labels.
METHODS = (
    *("identity", "temperature", "cox", "beta", "isotonic", "constant", "histogram", "clipped"),
    *("classes temperature", "classes vector", "classes matrix", "classes identity", "labels isotonic", "labels cox"),
)


@cache
def fitted(method: str) -> calibrant.CalibrationMap:
    rng = np.random.default_rng(5)
    scores = rng.random((600, 2))
    outcomes = (rng.random((600, 2)) < scores**1.6).astype(int)
    kind, _, name = method.rpartition(" ")
    if kind == "labels":
        return calibrant.recalibrate(scores, outcomes, notion="multilabel", method=name).map
    if kind == "classes":
        probs = rng.dirichlet(np.ones(N_CLASSES), 600)
        targets = (rng.random((600, 1)) > np.cumsum(probs, axis=1)).sum(axis=1).clip(max=N_CLASSES - 1)
        return calibrant.recalibrate(probs, targets, method=name).map
    return calibrant.recalibrate(scores[:, 0], outcomes[:, 0], method=name).map


def width_of(method: str) -> int:
    return {"labels": 2, "classes": N_CLASSES}.get(method.rpartition(" ")[0], 3)


def model_of(method: str, *, logits: bool = False, layer: Any = None) -> Any:
    """A model with a layer of its own below the map."""
    last = RecalibrationLayer(fitted(method), logits=logits) if layer is None else layer
    squash = torch.nn.Softmax(-1) if method.startswith("classes") else torch.nn.Sigmoid()
    return torch.nn.Sequential(torch.nn.Linear(5, width_of(method)), torch.nn.Identity() if logits else squash, last)


def inputs(n: int = 9) -> Any:
    return torch.from_numpy(np.random.default_rng(1).normal(0, 3, (n, 5))).float()


def saved(model: Any) -> Any:
    """The state of a model after it was a file, read as torch reads files that it does not trust."""
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    return torch.load(file, weights_only=True)


# ---------------------------------------------------------------- the state


@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_the_state_of_the_model_contains_the_map(method: str, logits: bool) -> None:
    model = model_of(method, logits=logits)
    assert [*model.parameters()] == [*model[0].parameters()]  # an optimiser does not change the map
    fresh = model_of(method, logits=logits, layer=RecalibrationLayer())
    fresh.load_state_dict(saved(model))
    assert torch.equal(fresh(inputs()), model(inputs()))
    assert repr(fresh) == repr(model)
    assert (fresh[2].logits, fresh[2].n_classes) == (logits, fitted(method).n_classes)
    again = model_of(method, logits=logits, layer=RecalibrationLayer())
    again.load_state_dict(saved(fresh))
    assert torch.equal(again(inputs()), model(inputs()))


@pytest.mark.parametrize("before", METHODS)
@pytest.mark.parametrize("method", METHODS)
def test_a_state_replaces_a_map_of_any_kind_for_the_same_scores(method: str, before: str) -> None:
    state, layer = RecalibrationLayer(fitted(method)).state_dict(), RecalibrationLayer(fitted(before))
    counts = fitted(method).n_classes, fitted(before).n_classes
    if counts[0] != counts[1]:
        with pytest.raises(RuntimeError, match=r"RecalibrationLayer: expected a map of .*, as in this layer, got one"):
            layer.load_state_dict(state)
        return
    layer.load_state_dict(state)
    p = torch.full((3, width_of(method)), 0.25)
    assert torch.equal(layer(p), RecalibrationLayer(fitted(method))(p))


def test_a_state_for_logits_is_not_taken_for_probabilities() -> None:
    state = torch.nn.Sequential(RecalibrationLayer(fitted("cox"), logits=True)).state_dict()
    said = r"0: expected a state with logits=False, as in this layer, got logits=True; load it into RecalibrationLayer"
    with pytest.raises(RuntimeError, match=said):
        torch.nn.Sequential(RecalibrationLayer(fitted("cox"))).load_state_dict(state)


def test_states_without_a_map_or_with_damage_are_refused() -> None:
    layer = RecalibrationLayer()
    with pytest.raises(RuntimeError, match="expected a state with a map, got a state without a map; save the model"):
        layer.load_state_dict(RecalibrationLayer().state_dict())
    state = RecalibrationLayer(fitted("cox")).state_dict()
    for damaged in (state["settings"][:-1], torch.tensor([91, 93], dtype=torch.uint8), state["settings"].double() / 2):
        with pytest.raises(RuntimeError, match="its settings are damaged; save the state of the model again"):
            layer.load_state_dict({**state, "settings": damaged})
    with pytest.raises(RuntimeError, match=r"Missing key.*settings"):
        layer.load_state_dict({name: numbers for name, numbers in state.items() if name != "settings"})
    with pytest.raises(RuntimeError, match=r"Missing key.*breaks"):
        layer.load_state_dict({name: numbers for name, numbers in state.items() if name != "breaks"})


def test_a_layer_without_a_map_says_so() -> None:
    layer = RecalibrationLayer()
    assert repr(layer) == "RecalibrationLayer(no map)"
    with pytest.raises(InputError, match="fitted: expected a layer with a map, got a layer without a map; load"):
        layer(torch.tensor([0.5]))
    with pytest.raises(InputError, match="logits: expected a map to apply to logits, got no map; leave logits out"):
        RecalibrationLayer(logits=True)
    fix = calibrant.recalibrate([0.2] * 50 + [0.8] * 50, [0, 1] * 50)
    for other in (fix, "map.json", torch.nn.Identity()):
        with pytest.raises(InputError, match=r"fitted: expected a CalibrationMap, got a .*pass the map of a recalib"):
            RecalibrationLayer(other)


@pytest.mark.parametrize("method", METHODS)
def test_half_precision_of_a_model_leaves_the_numbers_of_the_map(method: str) -> None:
    layer = RecalibrationLayer(fitted(method))
    p = torch.from_numpy(np.random.default_rng(2).dirichlet(np.ones(width_of(method)), 50))
    for change in (torch.nn.Module.half, torch.nn.Module.bfloat16, torch.nn.Module.float):
        changed = change(torch.nn.Sequential(copy.deepcopy(layer)))
        assert torch.equal(changed(p), layer(p))
        fresh = torch.nn.Sequential(RecalibrationLayer())
        fresh.load_state_dict(changed.state_dict())
        assert torch.equal(fresh(p), layer(p))
    assert all(numbers.is_meta for numbers in layer.to("meta").buffers())


def test_a_layer_is_one_line() -> None:
    for method in METHODS:
        said = repr(RecalibrationLayer(fitted(method)))
        assert said == f"RecalibrationLayer({fitted(method).described})"
        assert "\n" not in said


# ---------------------------------------------------------------- other forms of the model


@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_it_is_exported(method: str, logits: bool) -> None:
    model = model_of(method, logits=logits)
    exported = torch.export.export(model, (inputs(),), dynamic_shapes=({0: torch.export.Dim("rows")},))
    torch.testing.assert_close(exported.module()(inputs(31)), model(inputs(31)), rtol=0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["temperature", "isotonic", "classes matrix", "labels cox"])
def test_it_is_compiled(method: str) -> None:
    model = model_of(method)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of torch itself
        try:
            found = torch.compile(model)(inputs())
        except torch._inductor.exc.InductorError as error:
            pytest.skip(f"torch.compile does not work here: {error}"[:200])
    torch.testing.assert_close(found, model(inputs()), rtol=0, atol=1e-6)


@pytest.mark.parametrize("dynamo", [True, False], ids=["dynamo", "traced"])
@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_it_is_exported_to_onnx_with_its_model(method: str, logits: bool, dynamo: bool, tmp_path: Any) -> None:
    pytest.importorskip("onnx", reason="onnx is not installed (extra 'onnx')")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (extra 'dev')")
    if dynamo:
        pytest.importorskip("onnxscript", reason="onnxscript, which torch.onnx needs, is not installed")
    model, path = model_of(method, logits=logits).eval(), str(tmp_path / "model.onnx")
    sizes: dict[str, Any] = {"dynamic_axes": {"x": {0: "rows"}}}
    if dynamo:
        sizes = {"dynamic_shapes": ({0: torch.export.Dim("rows")},), "verbose": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch itself
        torch.onnx.export(model, (inputs(),), path, input_names=["x"], dynamo=dynamo, **sizes)
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    found = session.run(None, {"x": inputs(31).numpy()})[0]
    np.testing.assert_allclose(found, model(inputs(31)).detach().numpy(), rtol=0, atol=2e-6)


def test_the_script_of_torch_is_refused() -> None:
    for model in (RecalibrationLayer(fitted("cox")), model_of("classes vector")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of torch itself
            with pytest.raises(InputError, match=r"use torch\.export\.export or torch\.compile"):
                torch.jit.script(model)
