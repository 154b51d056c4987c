"""A map of scores as a layer of a model."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, NoReturn, Self

import torch

from calibrant.errors import InputError
from calibrant.recalibration import CalibrationMap, on_tensors
from calibrant.recalibration.pieces import Labels
from calibrant.recalibration.softmax import Softmax

#: The buffer that says what the others are: JSON in bytes, so that every format of a state holds it.
_SETTINGS: Final = "settings"


class _Settings(NamedTuple):
    """What a layer needs in addition to the numbers of its map; without a map, the defaults.

    ``what`` describes the map, ``n_classes`` is the number of classes or labels, and ``limits`` are those of scores.
    """

    what: str = "no map"
    fitted: bool = False
    logits: bool = False
    n_classes: int | None = None
    of_labels: bool = False
    of_classes: bool = False
    unchanged: bool = False
    limits: Any = ()

    @classmethod
    def of(cls, fitted: Any, *, logits: bool) -> _Settings:
        """Return the settings of a map."""
        if not isinstance(fitted, CalibrationMap):
            remedy = "pass the map of a recalibration, such as calibrant.recalibrate(...).map"
            raise InputError("fitted", "a CalibrationMap", f"a {type(fitted).__name__}", remedy)
        form = fitted.form
        if isinstance(form, Labels):
            return cls(fitted.described, True, logits, fitted.n_classes, of_labels=True)
        kind = {"of_classes": isinstance(form, Softmax), "unchanged": form.unchanged}
        return cls(fitted.described, True, logits, fitted.n_classes, **kind, limits=on_tensors.limits_of(form))

    @property
    def event(self) -> str:
        """What the scores are of."""
        return "one event" if self.n_classes is None else f"{self.n_classes:,} classes"

    @property
    def stored(self) -> torch.Tensor:
        """The settings as bytes of JSON."""
        return torch.frombuffer(bytearray(json.dumps(self._asdict()).encode()), dtype=torch.uint8).clone()

    @classmethod
    def restored(cls, stored: torch.Tensor) -> _Settings:
        """Return the settings of bytes; ``TypeError`` or ``ValueError`` for others."""
        settings = cls(**json.loads(bytes(stored.cpu().tolist())))
        return settings._replace(limits=_tuples(settings.limits))


class RecalibrationLayer(torch.nn.Module):
    """A map of scores as a layer: the last one of a model, which moves and is saved with it.

    It has buffers and no parameters, and the ``state_dict`` of the model contains the whole map. Scores that are not
    numbers in [0, 1] (with ``logits``, only NaN) become NaN, and so does a row of classes with such a number; no value
    is looked at, so that a device is never waited for.

    Parameters
    ----------
    fitted : calibrant.CalibrationMap, optional
        The map, from `calibrant.recalibrate` or `calibrant.CalibrationMap.read`: of one event for scores of any shape,
        of classes for (..., C). Without a map, the layer takes that of the state that it loads.
    logits : bool, default False
        Whether the input is log-odds, or logits of classes. Leave it out if ``fitted`` is None: the loaded state then
        determines it.

    Raises
    ------
    calibrant.errors.InputError
        If ``fitted`` is not a map; for ``logits`` without a map; for an input before a state is loaded; and for
        ``torch.jit.script``.
    RuntimeError
        From ``load_state_dict``, for a state without a map, for another number of classes, and for another ``logits``.

    Notes
    -----
    The result has the type of the input; half precision is computed in single. Unless the map changes nothing, the
    result is between the smallest normal number of its type and the largest number below 1: 2^-126 and 1 - 2^-24 in
    single precision. The numbers of the map keep their precision in ``model.half()``.

    A state may be loaded into a layer with a map of another kind. ``torch.export``, ``torch.compile``,
    ``torch.jit.trace`` and ``torch.onnx.export`` accept the layer, and ``torch.jit.script`` does not.

    Examples
    --------
    >>> import torch, calibrant
    >>> from calibrant.torch import RecalibrationLayer
    >>> fix = calibrant.recalibrate([0.2] * 50 + [0.8] * 50, [0] * 48 + [1] * 2 + [0] * 5 + [1] * 45)
    >>> layer = RecalibrationLayer(fix.map)
    >>> [round(p, 2) for p in layer(torch.tensor([0.2, 0.8])).tolist()]
    [0.1, 0.9]
    >>> again = RecalibrationLayer()
    >>> _ = again.load_state_dict(layer.state_dict())
    >>> again
    RecalibrationLayer(temperature, T = 0.637, fitted to 100 rows)
    """

    labels: torch.nn.ModuleList | None

    def __init__(self, fitted: CalibrationMap | None = None, *, logits: bool = False) -> None:
        super().__init__()
        if fitted is None and logits:
            remedy = "leave logits out, because the state_dict that you load contains this setting"
            raise InputError("logits", "a map to apply to logits", "no map", remedy)
        self._build(_Settings() if fitted is None else _Settings.of(fitted, logits=logits), torch.device("cpu"))
        if fitted is None:
            return
        if isinstance(fitted.form, Labels):
            self.labels = torch.nn.ModuleList([RecalibrationLayer(each, logits=logits) for each in fitted.of_labels()])
            return
        for name, numbers in on_tensors.numbers_of(fitted.form).items():
            self.register_buffer(name, numbers)

    def _build(self, made: _Settings, device: torch.device) -> None:
        """Set everything but the numbers of the map and the layers of labels."""
        self.made, self.labels = made, None
        self.register_buffer(_SETTINGS, made.stored.to(device))

    @property
    def logits(self) -> bool:
        """Whether the input is log-odds, or logits of classes."""
        return self.made.logits

    @property
    def n_classes(self) -> int | None:
        """The number of classes or labels; None for one event."""
        return self.made.n_classes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the recalibrated probabilities of scores of any shape, or of rows of classes (..., C)."""
        made = self.made
        if not made.fitted:
            remedy = "load the state_dict of a layer that has a map, or pass a map to RecalibrationLayer"
            raise InputError("fitted", "a layer with a map", "a layer without a map", remedy)
        if self.labels is not None:
            return torch.stack([layer(x[..., k].contiguous()) for k, layer in enumerate(self.labels)], -1)
        wide = x.to(torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x
        mapping = on_tensors.of_classes if made.of_classes else on_tensors.of_event
        numbers = self._numbers()
        mapped, valid = mapping(wide, numbers, logits=made.logits, unchanged=made.unchanged, limits=made.limits)
        return torch.where(valid, on_tensors.within(mapped, x.dtype, unchanged=made.unchanged), torch.nan)

    def _numbers(self) -> dict[str, torch.Tensor]:
        """Return the numbers of the map by their names."""
        return {name: numbers for name, numbers in self.named_buffers(recurse=False) if name != _SETTINGS}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.made.what})"

    # ------------------------------------------------------------ the state, and types of numbers

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        local_metadata: Mapping[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Take the map of a state, of any kind; torch calls this before it loads the layers of labels."""
        stored = state_dict.get(f"{prefix}{_SETTINGS}")
        if stored is not None:
            try:
                made = _Settings.restored(stored)
                problem = self._problem_of(made)
            except (TypeError, ValueError):
                problem = "its settings are damaged; save the state of the model again"
            if problem:
                error_msgs.append(f"{prefix.rstrip('.') or type(self).__name__}: {problem}")
                return
            self._take(made, state_dict, prefix)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def _problem_of(self, stored: _Settings) -> str:
        """Return what is wrong with a state for this layer."""
        made, remedy = self.made, "load it into RecalibrationLayer()"
        if not stored.fitted:
            return "expected a state with a map, got a state without a map; save the model with its map"
        if made.fitted and made.logits != stored.logits:
            got = f"logits={stored.logits}"
            return f"expected a state with logits={made.logits}, as in this layer, got {got}; {remedy}"
        if made.fitted and made.event != stored.event:
            return f"expected a map of {made.event}, as in this layer, got one of {stored.event}; {remedy}"
        return ""

    def _take(self, made: _Settings, state_dict: Mapping[str, Any], prefix: str) -> None:
        """Allocate the numbers of a state."""
        device = self.get_buffer(_SETTINGS).device
        for name in [*self._numbers(), *self._modules]:
            delattr(self, name)
        self._build(made, device)
        if made.of_labels:
            self.labels = torch.nn.ModuleList([RecalibrationLayer().to(device) for _ in range(made.n_classes or 0)])
            return
        for name in on_tensors.OF_CLASSES if made.of_classes else on_tensors.OF_EVENT:
            numbers = state_dict.get(f"{prefix}{name}", torch.empty(0))
            self.register_buffer(name, torch.empty_like(numbers, device=device))

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Self:
        """Move the layer; numbers of the map keep their precision, which a map with steps needs."""
        before = self._numbers()
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, numbers in before.items():
            moved = self.get_buffer(name)
            if moved.dtype != numbers.dtype:
                self.register_buffer(name, numbers.to(moved.device))
        return self

    def __prepare_scriptable__(self) -> NoReturn:
        """Say no to ``torch.jit.script``, which calls this."""
        remedy = "use torch.export.export or torch.compile"
        raise InputError("obj", "a module that torch.jit.script can compile", "a RecalibrationLayer", remedy)


def _tuples(limits: Any) -> Any:
    """Return nested lists of JSON as tuples."""
    return tuple(map(_tuples, limits)) if isinstance(limits, list | tuple) else limits
