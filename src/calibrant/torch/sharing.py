"""Metrics among others: which of them share states, and how the compilers of torch leave them alone."""

from __future__ import annotations

import hashlib
import inspect
import weakref
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from itertools import count
from typing import Any, NamedTuple

import torch
import torchmetrics
from torch import Tensor
from torch.torch_version import TorchVersion
from torchmetrics import Metric

from calibrant.errors import InputError, MissingDependencyError

# Collections of an older one set states of one metric on another, without a way to notice it.
if TorchVersion(torchmetrics.__version__) < "1.6.3":
    raise MissingDependencyError("torchmetrics 1.6.3 or later", "for calibrant.torch", "torch")


class UntracedMetric(Metric):
    """A metric that models with it can be compiled around: by `torch.compile`, and by `torch.jit.script`.

    TorchScript takes a class's annotations for types, and compiles properties that it is not told to leave out.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        annotations = inspect.get_annotations(cls)
        cls.__annotations__ = {name: Tensor for name, kind in annotations.items() if kind == "Tensor"}
        properties = [name for name in dir(cls) if isinstance(getattr(cls, name, None), property)]
        cls.__jit_unused_properties__ = list({*Metric.__jit_unused_properties__, *properties})


def untraced(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that `torch.compile` calls and does not trace: tracing NumPy takes time and gains nothing.

    `torch.compiler.disable` as a decorator would import the compiler at once.
    """

    @wraps(method)
    def run(self: Metric, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return torch.compiler.disable(method)(self, *args, **kwargs)  # type: ignore[no-untyped-call]
        return method(self, *args, **kwargs)

    return run


class _Batch(NamedTuple):
    """The last batch of a metric, which others may need; nobody keeps it alive."""

    number: int
    preds: weakref.ref[Tensor]
    target: weakref.ref[Tensor]


_PLAIN = ("_computed", "_update_count")  # what torchmetrics sets at each update
_numbers = count()
_updated: weakref.WeakValueDictionary[int, SharingMetric] = weakref.WeakValueDictionary()  # by the id of `make`


class SharingMetric(UntracedMetric):
    """A metric with the state `make`, which says what the other states mean.

    A `MetricCollection` updates the first metric of each group, and sets its states on the others. Where the caller
    names the groups, nobody asks if the states mean the same. A metric of another make then leaves its own states
    alone, and reads the first one's batch itself.
    """

    make: Tensor
    seen: Tensor

    def _add_make(self, *kind: Any, reader: type | None) -> None:
        """Add the state `make`: metrics with equal arguments may share their states.

        ``reader`` is the class of a metric whose `update` is its own: it shares with metrics of this class alone.
        """
        of_reader = () if reader is None else (f"{reader.__module__}.{reader.__qualname__}",)
        digest = hashlib.blake2b(repr(kind + of_reader).encode(), digest_size=8).digest()
        self.add_state("make", torch.tensor(list(digest)), dist_reduce_fx="max")
        self.__dict__.update(_digest=digest, _last=None, _heard=-1, _changes=reader is not None)
        self.__dict__.update(_left=False, _missed=False, _known=False, _gathers=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_last": None}

    def __setattr__(self, name: str, value: Any) -> None:
        states = self.__dict__
        if states.get("_gathers", True):
            super().__setattr__(name, value)
            return
        if states.get("_left"):  # states of another make, which `_update_count` ends
            if name != "_update_count":
                return
            states["_left"] = False
        elif name == "make" and self._is_other(value):
            states["_left"] = True
            return
        if name in _PLAIN and name in states:
            states[name] = value  # a Module would first search its parameters
            return
        super().__setattr__(name, value)

    def _is_other(self, make: Tensor) -> bool:
        """Return whether states of another make are about to be set; read the batch that they are from."""
        states = self.__dict__
        if make is states["make"]:
            return False
        first = _updated.get(id(make))
        if first is None or first.__dict__.get("make") is not make:  # a copy; a look at a device would wait for it
            return make.device.type == "cpu" and bytes(make.tolist()) != states["_digest"]
        states["_known"] = True
        if first.__dict__["_digest"] == states["_digest"]:
            return False
        batch: _Batch | None = first.__dict__["_last"]
        if batch is not None and batch.number != states["_heard"]:
            preds, target = batch.preds(), batch.target()
            states["_heard"] = batch.number
            changed = states["_changes"] or first.__dict__["_changes"]  # by an `update` that only the other one has
            if preds is None or target is None or changed:
                states["_missed"] = True
            else:
                self._take(preds, target)
        return True

    @abstractmethod
    def _take(self, preds: Tensor, target: Tensor) -> None:
        """Add a batch to the states."""

    def _offer(self, preds: object, target: object) -> None:
        """Let other metrics of a group read the batch that was just added."""
        if not (isinstance(preds, Tensor) and isinstance(target, Tensor)):  # arrays of another library on a GPU
            return
        states = self.__dict__
        states["_last"] = _Batch(next(_numbers), weakref.ref(preds), weakref.ref(target))
        _updated[id(states["make"])] = self

    @contextmanager
    def _own_states(self) -> Iterator[None]:
        """States that are set now are this metric's, from all ranks."""
        self.__dict__["_gathers"] = True
        try:
            yield
        finally:
            self.__dict__["_gathers"] = False

    def _check_make(self) -> None:
        """Raise if the states are not those of all batches."""
        lost = self._missed or (self._update_count > 0 and not (self._known or bool(self.seen.any())))
        if lost or bytes(self.make.tolist()) != self._digest:
            got = f"states of a different metric in a {type(self).__name__}"
            raise InputError(
                "compute_groups", "metrics with equal arguments in each group", got, "leave compute_groups out"
            )

    def reset(self) -> None:
        """Forget all batches."""
        super().reset()
        self.__dict__.update(_missed=False, _known=False)

    def merge_state(self, incoming_state: dict[str, Any] | Metric) -> None:
        """Add the states of another metric, which must have equal arguments."""
        if isinstance(incoming_state, (dict, SharingMetric)):
            states: dict[str, Any] = (
                incoming_state if isinstance(incoming_state, dict) else {**incoming_state.metric_state}
            )
            self._check_incoming("incoming_state", states.get("make"))
        super().merge_state(incoming_state)
        self.__dict__["_known"] = True

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        self._check_incoming("state_dict", state_dict.get(f"{prefix}make"))
        super()._load_from_state_dict(state_dict, prefix, *args)
        self.__dict__["_known"] = True

    def _check_incoming(self, argument: str, make: Tensor | None) -> None:
        if make is not None and bytes(make.tolist()) != self._digest:
            expected = "the states of a metric with the same arguments"
            raise InputError(
                argument, expected, "the states of another metric", "make both metrics with the same arguments"
            )
