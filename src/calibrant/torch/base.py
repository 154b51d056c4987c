"""The base of the torch metrics: it checks arguments, reads batches, tells logits from probabilities, counts faults."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from itertools import takewhile
from typing import Any, ClassVar, Final, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calibrant.errors import InputError, NothingJudgedError, check_choice
from calibrant.errors.faults import MAY_BE_LOGITS, Fault
from calibrant.errors.wording import SOFT_LABELS, Terms, translate
from calibrant.inputs.conversion import check_stored, on_device
from calibrant.inputs.notions import DEFAULTS, NOTIONS
from calibrant.inputs.predictions import Layout, Notion, as_predictions, sum_tolerance
from calibrant.kernels import tensors
from calibrant.kernels.compiling import following
from calibrant.kernels.tensors import LOGITS, PRECISION, PRECISIONS, PROBABILITIES
from calibrant.measures.binned import binned
from calibrant.torch import adding
from calibrant.torch.adding import Increments, Kept
from calibrant.torch.sharing import SharingMetric, untraced


class _History(NamedTuple):
    """What the batches before say about the next one: `seen` here and on all ranks, and the number of columns."""

    seen: Tensor
    agreed: list[int] | None
    width: int | None

    def scales(self) -> list[int]:
        """Return whether there were probabilities, and whether there were logits, on any rank."""
        return (self.agreed or self.seen.tolist())[:2]


class Batch(NamedTuple):
    """A batch after reading: its number of columns, and what it still adds to the states.

    An empty batch leaves the number of columns, and the decision on logits, to the next one.
    """

    width: int | None
    increments: Increments


_FLOATS: Final = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_NAMES: Final = {"probs": "preds", "targets": "target"}
_FAST: Final = (torch.float32, torch.float64)
_DECLARE: Final = "pass logits=True or logits=False to the metric"
_CONFIDENCES: Final = (
    'For confidences of predictions, use CalibrationError("binary")(confidence, correct). With validate_args=False, '
    "rows with other sums are evaluated without a check"
)

#: What a device counts: the fault, what was expected, what came with a place for the plural, the remedy.
_COUNTED: Final = {
    "infinite": (
        Fault.NOT_FINITE,
        "finite numbers",
        "row{} with NaN or infinite values",
        "find the source of these values",
    ),
    "outside": (
        Fault.OUTSIDE_RANGE,
        "values in [0, 1], as in the first batch",
        "row{} with values outside [0, 1]",
        _DECLARE,
    ),
    "sum": (
        Fault.ROW_SUM,
        "rows that sum to 1",
        "row{} with a different sum",
        f"normalise the rows, or {_DECLARE}. {_CONFIDENCES}",
    ),
    "target": (
        Fault.LABEL_RANGE,
        "labels within range",
        "row{} with a label out of range",
        "pass ignore_index to leave such rows out",
    ),
    "scale": (Fault.PROBABILITIES_AS_LOGITS, "logits, as in the first batch", "batch{} of probabilities", _DECLARE),
}
#: The words of remedies: a metric has these arguments.
_TERMS: Final = Terms(
    probs="preds",
    targets="target",
    equal="target == {!r}",
    logits="pass logits=True to the metric",
    multilabel="use ClasswiseCalibrationError(num_classes, notion='multilabel')",
    ignore_index="pass ignore_index={} to the metric to leave such rows out",
    unsummed=f". {_CONFIDENCES}",
    soft_labels=SOFT_LABELS,
)
_TERMS_OF_LABELS: Final = replace(_TERMS, multilabel="pass notion='multilabel' to the metric")


class BatchError(InputError, RuntimeError, IndexError):
    """Batches that cannot be used.

    For wrong shapes and labels, torchmetrics and TorchUncertainty raise one of these three classes of Python.
    """

    @classmethod
    def of(cls, error: InputError) -> BatchError:
        """Return an error about an argument as an error about a batch."""
        words = (error.argument, error.expected, error.got, error.remedy)
        return cls(*words, fault=error.fault, facts=error.facts, row=error.row, column=error.column)


class ProbabilityMetric(SharingMetric):
    """A metric of predicted probabilities: `update` reads a batch once and adds its sums to the states.

    On the host the library's kernels read, and errors are raised before any state changes. On other devices torch
    reads and nothing waits for the device: faults are counted, and `compute` raises.

    A subclass says what its states hold (``kept``), and computes the value from them (`_value`).

    Parameters
    ----------
    layout : {"binary", "multiclass", "multilabel"} or None
        None follows the shape: (N,) and (N, 1) binary, (N, C) multiclass.
    num_classes : int or None
        The number of classes, if the caller passed it.
    notion : str or None
        The evaluated event; None follows the layout.
    ignore_index, logits, validate_args
        As in `CalibrationError`.
    kept : Kept
        What the states hold.
    make : tuple
        What else decides the meaning of the states: metrics of one make may share them in a `MetricCollection`.
    by_shape : bool
        Whether the layout and the number of classes decide this too.
    kwargs
        Passed on to `torchmetrics.Metric`.
    """

    is_differentiable = False
    higher_is_better: bool | None = False
    full_state_update = False
    plot_lower_bound: float | None = 0.0

    #: Whether ``notion="multilabel"`` is taken.
    of_labels: ClassVar[bool] = False

    #: Whether the metric of this name in another library keeps rows: without a batch, its `compute` raises an error.
    _raises_empty: bool = False
    #: Whether the value has half precision if all batches have.
    _halves: bool = False

    faults: Tensor

    def __new__(cls, *_: Any, **kwargs: Any) -> Self:
        check_keywords(cls, kwargs)
        return super().__new__(cls)

    def __init__(
        self,
        *,
        layout: Layout | None,
        num_classes: int | None,
        notion: str | None,
        ignore_index: int | None,
        logits: bool | None,
        validate_args: bool,
        kept: Kept,
        make: tuple[Any, ...],
        by_shape: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if logits not in (None, True, False):
            remedy = "leave logits out, to let the first batch decide"
            raise InputError("logits", "True, False or None", repr(logits), remedy)
        if ignore_index is not None and (isinstance(ignore_index, bool) or not isinstance(ignore_index, int)):
            remedy = "pass the target of the rows to leave out, such as -1"
            raise InputError("ignore_index", "an integer", repr(ignore_index), remedy)
        self.layout = layout
        self.num_classes = num_classes
        self.notion = notion
        self.ignore_index = ignore_index
        self.logits = None if logits is None else bool(logits)
        self.validate_args = validate_args
        self._kept = kept
        self._width: int | None = None  # the number of columns of the batches so far
        self._agreed: list[int] | None = None  # `seen` of all ranks, at the last compute
        self._lists: dict[str, tuple[torch.dtype, tuple[int, ...]]] = {}
        self._numbers = 0  # read so far: a metric of a large stream takes compiled kernels
        self._before: _History | None = None  # what `forward` resets, for the updates that it calls
        shape = (layout, num_classes) if by_shape else ()
        reader = None if type(self).update is ProbabilityMetric.update else type(self)
        self._add_make(*shape, notion, ignore_index, logits, *make, reader=reader)
        self.add_state("seen", torch.zeros(4, dtype=torch.int64), dist_reduce_fx="max")
        self.add_state("faults", torch.zeros(len(tensors.FAULTS), dtype=torch.int64), dist_reduce_fx="sum")

    # ------------------------------------------------------------ states

    def _add_counts(self, name: str, *shape: int) -> None:
        self.add_state(name, torch.zeros(shape, dtype=torch.int64), dist_reduce_fx="sum")

    def _add_sums(self, name: str, *shape: int) -> None:
        self.add_state(name, torch.zeros(shape, dtype=torch.float64), dist_reduce_fx=tensors.add_sums)

    def _add_list(self, name: str, dtype: torch.dtype, *columns: int) -> None:
        self._lists[name] = (dtype, columns)
        self.add_state(name, [], dist_reduce_fx="cat")

    def _apply(self, fn: Callable[[Tensor], Tensor], exclude_state: Any = "") -> Any:
        """Move the states; a device without float64 gets its sums as pairs of float32."""
        here = tensors.has_float64(self.device)
        there = tensors.has_float64(fn(torch.zeros(0, device=self.device)).device)
        if here and not there:
            self._convert_sums(tensors.paired)

        def place(x: Tensor) -> Tensor:  # .to(torch.float16) moves states and keeps their types
            placed = fn(x)
            return placed if placed.dtype == x.dtype else x.to(placed.device)

        moved = super()._apply(place, exclude_state)
        if there and not here:
            self._convert_sums(tensors.joined)
        return moved

    def _convert_sums(self, convert: Callable[[Tensor], Tensor]) -> None:
        for name, reduction in self._reductions.items():
            if reduction is tensors.add_sums:
                setattr(self, name, convert(getattr(self, name)))
                self._defaults[name] = convert(self._defaults[name])  # type: ignore[arg-type]
        for name, (dtype, _) in self._lists.items():
            if dtype == torch.float32 and convert is tensors.paired:  # numbers of rows: of double batches, double
                setattr(self, name, [x.float() for x in getattr(self, name)])
            if dtype == torch.float64:
                pairs = [x if x.dtype == dtype else x.reshape(2, -1) for x in getattr(self, name)]
                setattr(self, name, [convert(x).reshape(-1) for x in pairs])

    def set_dtype(self, dst_type: str | torch.dtype) -> ProbabilityMetric:
        """Do nothing: counts stay integers and sums double; the value has the type of the data."""
        del dst_type
        return self

    def reset(self) -> None:
        """Forget all batches, their width and their scale."""
        for name in self._lists:  # torchmetrics empties the list itself, which `Running` may have set aside
            if isinstance(self.__dict__[name], list):
                self.__dict__[name] = []
        super().reset()
        self._width = self._agreed = None

    def sync(self, *args: Any, **kwargs: Any) -> None:
        """Gather the states of all ranks in types that do not depend on the batches, which some ranks may lack."""
        for name, (dtype, columns) in self._lists.items():
            state = getattr(self, name)
            form = tensors.wide(self.device) if dtype.is_floating_point else dtype
            if isinstance(state, list):  # a tensor has been gathered already
                empty = torch.zeros((0, *columns), dtype=form, device=self.device)
                setattr(self, name, [x.to(form) for x in state] or [empty])
        with self._own_states():
            super().sync(*args, **kwargs)

    # ------------------------------------------------------------ a batch

    @torch.jit.unused
    @untraced
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Add a batch with `update`, and return the value of this batch alone. An error leaves the metric as it was.

        torchmetrics calls `update` after a reset. It reads the batch as the next one of those before.
        """
        before = {name: [*x] if isinstance(x, list) else x for name, x in self.__dict__.items()}
        self._before = self._history()
        try:
            return super().forward(*args, **kwargs)
        except BaseException:
            self.__dict__.update(before)
            raise
        finally:
            self.__dict__.update(_before=None, _missed=before["_missed"])

    @untraced
    def update(
        self,
        preds: Tensor | None = None,
        target: Tensor | None = None,
        *,
        probs: Tensor | None = None,
        targets: Tensor | None = None,
    ) -> None:
        """Add a batch.

        Parameters
        ----------
        preds : (N,), (N, 1), (N, C) or (N, C, ...) floating-point tensor
            Probabilities or logits. TorchUncertainty's name, ``probs``, does too.
        target : (N,) or (N, ...) tensor
            0 or 1, or class indices; ``targets`` is the same.
        """
        method = "update" if self._before is None else "forward"
        try:
            preds, target = batch_of(method, preds, target, probs=probs, targets=targets)
            self._take(preds, target)
        except BaseException:
            self._update_count -= 1  # torchmetrics counts a batch before it is read
            raise
        if self._before is None:  # a collection calls `forward` of each metric
            self._offer(preds, target)

    def _history(self) -> _History:
        return self._before or _History(self.seen, self._agreed, self._width)

    def _take(self, preds: Tensor, target: Tensor) -> None:
        try:
            batch = self._read(preds, target)
        except InputError as error:
            raise BatchError.of(error) from None
        self._add(batch)

    def _add(self, batch: Batch) -> None:
        states = self.__dict__  # direct: a Module's __setattr__ would first search its parameters
        states["_width"], states["_known"] = batch.width, True
        for name, increment in batch.increments.items():
            state = states[name]
            if isinstance(state, list):
                state.append(increment)
            elif state is increment:  # `seen` of a batch like the one before
                continue
            elif name == "seen":
                seen = torch.maximum(state, increment)
                states[name] = increment if seen.device.type == "cpu" and torch.equal(seen, increment) else seen
            elif state.dtype == torch.float32:
                states[name] = tensors.add_sums(torch.stack([state, increment]))
            else:
                states[name] = state + increment

    def _read(self, preds: Any, target: Any, *, apart: bool = False) -> Batch:
        if not (isinstance(preds, Tensor) and isinstance(target, Tensor)):
            # Arrays of other libraries on a GPU share their memory; those elsewhere are refused.
            preds, target = (x if (shared := on_device(x)) is None else shared for x in (preds, target))
        preds, target = self._checked(preds, target)
        width = 1 if preds.ndim == 1 else preds.shape[1]
        if target.numel() == 0:
            return Batch(self._history().width, {})
        layout = self.layout or ("binary" if preds.ndim == 1 else "multiclass")
        if preds.device.type != "cpu":
            return Batch(width, self._read_device(preds, target, layout, apart=apart))
        with following(self._numbers):
            batch = Batch(width, self._read_host(preds, target, layout))
        self.__dict__["_numbers"] += preds.numel()
        return batch

    def _checked(self, preds: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Check types, shapes and devices of a batch. A single event comes back as (n,)."""
        check_tensor("preds", preds, self.device)
        check_tensor("target", target, self.device)
        if preds.dtype not in _FLOATS:
            preds = self._of_whole_numbers(preds)
        if preds.requires_grad or target.requires_grad:
            preds, target = preds.detach(), target.detach()
        single = self.layout == "binary" or (self.layout is None and (preds.ndim < 2 or preds.shape[1] == 1))
        if single:
            if [n for n in preds.shape if n != 1] != [n for n in target.shape if n != 1]:
                expected, got = f"the shape of target, {tuple(target.shape)}", f"{tuple(preds.shape)}"
                remedy = "for one event, pass the probability of class 1, such as preds[:, 1]"
                raise InputError("preds", expected, got, remedy)
            self._check_width(1)
            return preds.reshape(-1), target.reshape(-1)
        self._check_classes(tuple(preds.shape), tuple(target.shape))
        return preds, target

    def _check_classes(self, shape: tuple[int, ...], of_target: tuple[int, ...]) -> None:
        """Reject shapes that are not those of rows of classes."""
        if len(shape) < 2:
            remedy = 'pass a column for every class; for one event, use CalibrationError("binary")'
            raise InputError("preds", "shape (N, C) or (N, C, ...)", f"{shape}", remedy)
        if self.layout == "multilabel" and len(shape) > 2:
            remedy = "move the axis of the labels to the end and reshape to (N, C)"
            raise InputError("preds", "shape (N, C) for multilabel", f"{shape}", remedy)
        self._check_width(shape[1])
        shapes = [shape] if self.layout == "multilabel" or shape[1] < 2 else [(shape[0], *shape[2:]), shape]
        if of_target not in shapes:
            expected = " or ".join(map(str, shapes))
            raise InputError("target", f"shape {expected}", f"{of_target}", "pass one label for each row")

    def _of_whole_numbers(self, preds: Tensor) -> Tensor:
        """Return whole numbers as floating-point ones: logits, if declared, or the probabilities 0 and 1.

        On a device, where nobody looks at a value, others become NaN, which `compute` reports.
        """
        if preds.is_complex():
            raise InputError("preds", "real numbers", str(preds.dtype), "pass probabilities or logits")
        values = preds.to(torch.float32)
        if self.logits:
            return values
        sure = (preds == 0) | (preds == 1)
        if preds.device.type == "cpu" and self.ignore_index is None and not bool(sure.all()):
            expected = "0 or 1, the only probabilities that are whole numbers"
            remedy = "pass probabilities; if the values are logits, pass logits=True to the metric"
            raise InputError("preds", expected, f"{preds[~sure][0].item()}", remedy)
        return torch.where(sure, values, torch.nan)

    def _check_width(self, width: int) -> None:
        before = self._width if self._before is None else self._before.width
        if before == width:
            return
        check_notion(self.notion, NOTIONS, width)
        if self.num_classes is not None and width != self.num_classes:
            got, remedy = f"{width}", "check num_classes and the shape of preds"
            raise InputError("preds", f"{self.num_classes} columns, the number in num_classes", got, remedy)
        if before is not None:
            got, remedy = f"{width}", "use a separate metric for each kind of predictions"
            raise InputError("preds", f"{before} columns, as in the previous batches", got, remedy)

    def _read_host(self, preds: Tensor, target: Tensor, layout: Layout) -> Increments:
        logits = self._scale(preds, target, layout)
        if (
            not logits
            and self.ignore_index is None
            and preds.dtype in _FAST
            and target.dtype == torch.int64
            and target.ndim == 1
            and preds.is_contiguous()
            and target.is_contiguous()
        ):  # the plain case, in one read; everything else is read again below, with full errors
            tolerance = _tolerance(preds.dtype) if self.validate_args else np.inf  # of the sum of a row
            increments = adding.of_plain(preds.numpy(), target.numpy(), self._notion_of(layout), self._kept, tolerance)
            if increments is not None:
                width = 1 if preds.ndim == 1 else preds.shape[1]
                return {**increments, "seen": _seen(False, preds.dtype, width)}
        try:
            predictions = as_predictions(
                preds,
                target,
                ignore_index=self.ignore_index,
                logits=logits,
                notion="multilabel" if layout == "multilabel" else None,
            )
            if not self.validate_args:
                predictions = replace(predictions, tolerance=np.inf)
            increments = adding.of_host(predictions, self._notion_of(layout), self._kept)
        except NothingJudgedError:
            return {}
        except InputError as error:
            raise self._explained(error) from None
        return {**increments, "seen": _seen(logits, preds.dtype, predictions.n_classes)}

    def _explained(self, error: InputError) -> InputError:
        translated = translate(error, _NAMES, _TERMS_OF_LABELS if self.of_labels else _TERMS)
        if self.logits is None and any(self._history().scales()) and error.facts.mistake in MAY_BE_LOGITS:
            remedy = (
                "the first batch looked like probabilities; if all values are logits, pass logits=True to the metric"
            )
            return translated.reworded(translated.argument, remedy)
        return translated

    def _scale(self, preds: Tensor, target: Tensor, layout: Layout) -> bool:
        """Return whether the batch holds logits: as declared, as decided before, or by its values."""
        if self.logits is not None:
            return self.logits
        seen = self._history().scales()
        if seen[PROBABILITIES]:
            return False
        if not seen[LOGITS]:
            values = preds
            if self.ignore_index is not None:
                evaluated = target != self.ignore_index
                values = preds.movedim(1, -1)[evaluated] if preds.ndim > target.ndim else preds[evaluated]
            if values.numel() == 0:
                return False
            low, high = (float(x) for x in values.aminmax())
            return low < -tensors.SLACK or high > 1 + tensors.SLACK
        if layout == "multiclass" and self.validate_args and _look_normalised(preds[:1]) and _look_normalised(preds):
            got = "rows of numbers in [0, 1] that sum to 1"
            expected, fault = "logits, as in the first batch", Fault.PROBABILITIES_AS_LOGITS
            raise InputError("preds", expected, got, _DECLARE, fault=fault)
        return True

    def _read_device(self, preds: Tensor, target: Tensor, layout: Layout, *, apart: bool = False) -> Increments:
        """Read a batch on its device; ``apart`` changes no state."""
        declared, before = self.logits, self._history()
        if declared is None and before.agreed is not None and any(before.agreed[:2]):
            declared = bool(before.agreed[LOGITS])
        if layout == "multiclass" and target.shape == preds.shape:
            target = target.argmax(1)
        notion = self._notion_of(layout)
        tolerance = _tolerance(preds.dtype) if self.validate_args else np.inf
        read_as = adding.ReadingOptions(
            self.ignore_index, declared, before.seen, before.width is None, tolerance, self.validate_args
        )
        if not apart:
            lists = adding.in_place(self.__dict__, preds, target, read_as, layout, notion, self._kept)
            if lists is not None:
                return lists
        reading = adding.read_device(preds, target, read_as, layout)
        increments = adding.of_device(reading, layout, notion, self._kept)
        return {**increments, "seen": reading.seen, "faults": reading.faults}

    def _notion_of(self, layout: Layout) -> Notion:
        """Return the evaluated event of a batch."""
        return self.notion or DEFAULTS[layout]  # type: ignore[return-value]

    # ------------------------------------------------------------ the value

    @untraced
    def compute(self) -> Any:
        """Return the value of all batches: a scalar tensor.

        Raises
        ------
        calibrant.errors.InputError
            Before the first batch, for metrics of torchmetrics or TorchUncertainty that raise a `ValueError` then; the
            other metrics return NaN. On a GPU also for the batches.
        """
        try:
            self._check_make()
            self._raise_faults()
            if self._raises_empty and not (self._update_count or bool(self.seen.any())):
                raise no_batch("compute")
            return self._value()
        except InputError as error:
            raise BatchError.of(error) from None

    @abstractmethod
    def _value(self) -> Any:
        """Return the value of the state."""

    def plot(self, val: Any = None, ax: Any = None) -> tuple[Any, Any]:
        """Draw the metric's value, or ``val``, as torchmetrics does."""
        return self._plot(val, ax)

    def _raise_faults(self) -> None:
        counts = dict(zip(tensors.FAULTS, self.faults.tolist(), strict=True))
        for name, (fault, expected, what, remedy) in _COUNTED.items():
            if counts[name]:
                plural = "" if counts[name] == 1 else "es" if name == "scale" else "s"
                got = f"{counts[name]:,} {what.format(plural)} in the batches since the last reset"
                raise InputError("target" if name == "target" else "preds", expected, got, remedy, fault=fault)
        seen = self.seen.tolist()
        if seen[PROBABILITIES] and seen[LOGITS]:
            raise InputError(
                "preds", "the same scale on all ranks", "probabilities on one rank and logits on another", _DECLARE
            )
        self._agreed = seen if any(seen) else None

    def _scalar(self, value: float | NDArray[np.float64]) -> Tensor:
        """Return a value in the widest type of any batch: single at least, unless `_halves`."""
        kind = PRECISIONS[int(self.seen[PRECISION])]
        if kind == torch.float64 and not tensors.has_float64(self.device):
            kind = torch.float32
        if kind.itemsize < 4 and not self._halves:
            kind = torch.float32
        return torch.tensor(value, dtype=kind, device=self.device)

    def _gathered(self, name: str) -> Tensor:
        """Return a list state as one tensor; gathered ranks are one already."""
        state = getattr(self, name)
        dtype, columns = self._lists[name]
        if isinstance(state, Tensor):
            return state
        return torch.cat(state) if state else torch.zeros((0, *columns), dtype=dtype)


@cache
def _seen(logits: bool, kind: torch.dtype, width: int) -> Tensor:
    return torch.tensor([int(not logits), int(logits), tensors.precision_of(kind), width])


def _look_normalised(preds: Tensor) -> bool:
    """Return whether a batch of class scores could be probabilities."""
    inside = bool(((preds >= 0) & (preds <= 1)).all())
    return inside and bool(((preds.sum(1, dtype=torch.float64) - 1).abs() <= _tolerance(preds.dtype)).all())


@cache
def _tolerance(dtype: torch.dtype | np.dtype[Any]) -> float:
    return sum_tolerance(str(dtype).removeprefix("torch."))


# ---------------------------------------------------------------- arguments


def batch_of(
    method: str, preds: Any = None, target: Any = None, *, probs: Any = None, targets: Any = None
) -> tuple[Any, Any]:
    """Return the two arguments of a method; each has two names."""
    if probs is None and targets is None and preds is not None and target is not None:
        return preds, target
    arguments = []
    for names, values in ((("preds", "probs"), (preds, probs)), (("target", "targets"), (target, targets))):
        passed = [value for value in values if value is not None]
        if not passed:
            message = f"{method}() missing 1 required positional argument: {names[0]!r}"
            raise TypeError(message)
        if len(passed) > 1:
            raise InputError(
                names[0],
                f"a tensor, passed as {names[0]} or as {names[1]}",
                "both",
                "pass only one of the two arguments",
            )
        arguments += passed
    return arguments[0], arguments[1]


def no_batch(method: str) -> InputError:
    """Return the error of a method that needs a batch."""
    return InputError("preds", f"at least one batch before {method}", "none", "call update first")


def check_keywords(made: type, keywords: Mapping[str, Any]) -> None:
    """Reject arguments that only the bases of a metric have, and the number of bins by another library's name.

    A caller's own class may take what it likes. torchmetrics refuses all other names.
    """
    taken, of_bases = _keywords(made)
    for one, other in (("n_bins", "num_bins"), ("num_bins", "n_bins")):
        if keywords.get(one) is not None and one not in taken and other in taken:
            raise InputError(one, f"{other}, the name in calibrant", one, f"rename the argument to {other}")
    name = next((name for name in keywords if name in of_bases and name not in taken), None)
    if name is not None:
        remedy = "leave this argument out" + ", because the shape of preds gives the number" * (name == "num_classes")
        raise InputError(name, f"an argument of {made.__name__}", f"{name}={keywords[name]!r}", remedy)


@lru_cache(128)
def _keywords(made: type) -> tuple[frozenset[str], frozenset[str]]:
    """Return the arguments that a class of calibrant takes, and those of its bases too.

    Its own are its parameters and the keywords of its bases, up to the classes with ``make``, which it fills in.
    """
    ours = [base for base in made.__mro__ if str(getattr(base.__init__, "__module__", "")).startswith("calibrant.")]  # type: ignore[misc]
    if made not in ours:
        return frozenset(), frozenset()
    bases = [inspect.signature(base.__init__).parameters for base in ours]  # type: ignore[misc]
    taken = set(bases[0])
    for parameters in takewhile(lambda parameters: "make" not in parameters, bases[1:]):
        taken |= {name for name, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY}
    return frozenset(taken), frozenset().union(*bases) - {"self", "args", "kwargs", "options"}


def check_tensor(name: str, value: object, device: torch.device) -> None:
    """Reject what is not a dense tensor, or on another device than the metric."""
    if not isinstance(value, Tensor):
        remedy = "convert the value, or use the functions of calibrant"
        raise InputError(name, "a tensor", f"a {type(value).__name__}", remedy)
    check_stored(name, value)
    if value.device != device:
        expected, remedy = (
            f"a tensor on {device}, the device of the metric",
            "move the tensor or the metric with .to(device)",
        )
        raise InputError(name, expected, f"a tensor on {value.device}", remedy)


def check_columns(num_classes: object) -> None:
    """Reject a number of columns that is not an integer."""
    if isinstance(num_classes, bool) or not isinstance(num_classes, int):
        message = f"num_classes: expected an integer, got {num_classes!r}; pass the number of columns of preds"
        raise TypeError(message)


def check_classes(num_classes: Any) -> None:
    """Reject a number of classes that is not an integer from 2."""
    check_columns(num_classes)
    if num_classes < 2:
        raise InputError(
            "num_classes", "an integer, 2 or larger", repr(num_classes), 'for one event, use CalibrationError("binary")'
        )


def check_notion(notion: object, choices: tuple[str, ...], num_classes: int | None = None) -> None:
    """Reject a notion that the metric does not evaluate."""
    if notion is not None:
        check_choice("notion", notion, choices)
    if notion == "positive" and num_classes not in (None, 1, 2):
        remedy = "pass the column of one class, or another notion"
        raise InputError("notion", f"'top-label' or 'classwise' for {num_classes} classes", "'positive'", remedy)


def check_bins(num_bins: object, norm: object = "l1", closed: object = "left") -> None:
    """Reject invalid options of uniform bins."""
    try:
        binned.check_bins(num_bins, "uniform", norm, closed)
    except InputError as error:
        raise error.renamed({"n_bins": "num_bins"}) from None
