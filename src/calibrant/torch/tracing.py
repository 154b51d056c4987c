"""Keep the compilers of torch out of metrics: to trace NumPy would take them time, and gain nothing."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from calibrant.errors import MissingDependencyError

try:
    import torch
    from torch import Tensor
    from torchmetrics import Metric
except ModuleNotFoundError as error:
    raise MissingDependencyError(error.name or "torch", "for calibrant.torch", "torch") from error


class UntracedMetric(Metric):
    """A metric that models with it can be compiled around: by `torch.compile`, and by `torch.jit.script`.

    TorchScript takes a class's annotations for types, and compiles properties that it is not told to leave out.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = inspect.get_annotations(cls)
        cls.__annotations__ = {name: Tensor for name, kind in own.items() if kind == "Tensor"}
        properties = [name for name, value in vars(cls).items() if isinstance(value, property)]
        cls.__jit_unused_properties__ = [*Metric.__jit_unused_properties__, *properties]


def untraced(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that `torch.compile` calls and does not trace. Its own decorator would import it at once."""

    @wraps(method)
    def run(self: Metric, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return torch.compiler.disable(method)(self, *args, **kwargs)  # type: ignore[no-untyped-call]
        return method(self, *args, **kwargs)

    return run
