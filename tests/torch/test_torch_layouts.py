"""Tensors that are not one block of numbers: each is refused by name, wherever it comes in."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import calibrant
from calibrant.errors import InputError

torch = pytest.importorskip("torch")
import calibrant.torch as metrics  # noqa: E402

SCORES = torch.linspace(0.05, 0.95, 20)
LABELS = (torch.arange(20) % 3 == 0).long()


def fake() -> Any:
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        return torch.empty(20)


KINDS: dict[str, tuple[str, Callable[[], Any]]] = {
    "COO": ("sparse", SCORES.to_sparse),
    "CSR": ("sparse", lambda: SCORES.reshape(4, 5).to_sparse_csr()),
    "quantized": ("quantized", lambda: torch.quantize_per_tensor(SCORES, 1 / 255, 0, torch.quint8)),
    "nested": ("nested", lambda: torch.nested.nested_tensor([SCORES[:10], SCORES[10:]])),
    "jagged": ("nested", lambda: torch.nested.nested_tensor([SCORES[:10], SCORES[10:]], layout=torch.jagged)),
    "meta": ("meta", lambda: torch.empty(20, device="meta")),
    "fake": ("meta", fake),
}


def updated(made: Callable[[], Any]) -> Callable[[Any, Any], Any]:
    return lambda preds, target: made().update(preds, target)


DOORS: dict[str, tuple[str, str, Callable[[Any, Any], Any]]] = {
    "evaluate": ("probs", "targets", calibrant.evaluate),
    "function": ("probs", "targets", calibrant.expected_calibration_error),
    "sketch": ("probs", "targets", lambda p, y: calibrant.CalibrationSketch().update(p, y)),
    "CalibrationError": ("preds", "target", updated(lambda: metrics.CalibrationError(task="binary"))),
    "SmoothCalibrationError": ("preds", "target", updated(metrics.SmoothCalibrationError)),
    "BrierScore": ("preds", "target", updated(lambda: metrics.BrierScore(num_classes=1))),
    "CalibrationReport": ("preds", "target", updated(metrics.CalibrationReport)),
    "AURC": ("preds", "target", updated(metrics.AURC)),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_tensor_that_is_not_dense_is_refused_by_its_kind(kind: str, door: str) -> None:
    name, make = KINDS[kind]
    first, second, call = DOORS[door]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PyTorch: sparse CSR and nested tensors are prototypes
        tensor = make()
        for argument, values in ((first, (tensor, LABELS)), (second, (SCORES, tensor))):
            expected = f"a dense tensor of numbers, got a {name} tensor"
            if kind == "meta" and first == "preds":
                expected = "a tensor on cpu, the device of the metric, got a tensor on meta"
            with pytest.raises(InputError, match=f"^{argument}: expected {expected}"):
                call(*values)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_that_are_not_dense_are_refused(kind: str) -> None:
    name, make = KINDS[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(InputError, match=f"weights: expected a dense tensor of numbers, got a {name} tensor"):
            calibrant.evaluate(SCORES, LABELS, weights=make())


@pytest.mark.parametrize(
    ("kind", "remedy"),
    [
        ("COO", lambda x: x.to_dense()),
        ("quantized", lambda x: x.dequantize()),
        ("nested", lambda x: torch.cat(x.unbind())),
    ],
)
def test_the_remedy_works(kind: str, remedy: Callable[[Any], Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = remedy(KINDS[kind][1]())
    assert calibrant.evaluate(values, LABELS).n == 20
