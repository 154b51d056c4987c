"""The attributes of a monitor from its state, whose checksum says nothing of who wrote it: each number is checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calibrant.monitoring import window
from calibrant.monitoring.evidence import TILTS
from calibrant.monitoring.promise import Promise
from calibrant.monitoring.slices import SUMS, Group, Slice
from calibrant.monitoring.state import unpack
from calibrant.statistics.e_processes import ERROR_TILTS, Mixture


def settings_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that the monitor was made with."""
    settings = content["settings"]
    return {
        "alpha": settings["alpha"],
        "tolerance": settings["tolerance"] or None,
        "tolerance_odds": settings["tolerance_odds"] if settings["tolerance_odds"] > 1 else None,
        "max_weight": settings["max_weight"],
    }


def attributes_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the other attributes of the monitor.

    Raises
    ------
    KeyError, TypeError, ValueError, InputError
        For content that is not that of a monitor.
    """
    settings, frame = content["settings"], content["frame"]
    notion, n_classes = settings["notion"], settings["n_classes"]
    _require(notion in (None, "positive", "top-label") and (n_classes is None or n_classes >= 1))
    rows, scores = (_array(frame[name], np.float64, (window.CELLS,)) for name in ("rows", "scores"))
    _require(bool((rows >= 0).all() and (scores >= 0).all()))
    slices = _slices(content["slices"])
    mixture = Mixture.start(len(TILTS))
    for each in slices:
        mixture = mixture.grown(each.growth)
    blocks, groups = [_block(part) for part in content["blocks"]], content["groups"]
    _require(sum(block.slices for block in blocks) == len(slices) and (notion is None) == (not slices))
    return {
        "_settings": None if notion is None else (notion, n_classes),
        "_rows": rows,
        "_scores": scores,
        "_slices": slices,
        "_mixture": mixture,
        "_most": _finite(settings["most"]),
        "_groups": None if groups is None else {str(name): _group(part) for name, part in groups.items()},
        "_blocks": blocks,
        "_promises": [_promise(part) for part in content["promises"]],
    }


def _slices(parts: Sequence[Mapping[str, Any]]) -> tuple[Slice, ...]:
    slices = tuple(_slice(part) for part in parts)
    labels = {each.label for each in slices}
    _require(all(each.n > 0 for each in slices) and len(labels) == len(slices))
    return slices


def _slice(part: Mapping[str, Any]) -> Slice:
    growth = _array(part["growth"], np.float64, (len(TILTS),))
    numbers = {name: _finite(part[name]) for name in (*SUMS, "log_evidence")}
    found = Slice(label=str(part["label"]), growth=growth, **numbers)
    found.__dict__["packed"] = part["growth"]  # as it was read
    return found


def _group(part: Mapping[str, Any]) -> Group:
    most = -math.inf if part["most"] is None else _finite(part["most"])
    return Group(mixture=_mixture(part, len(TILTS)), n=_finite(part["n"]), gap=_finite(part["gap"]), most=most)


def _promise(part: Mapping[str, Any]) -> Promise:
    return replace(
        Promise.of(dict(part))[0],
        rows=_finite(part["rows"]),
        errors=_finite(part["errors"]),
        most=_finite(part["most"]),
        mixture=_mixture(part, len(ERROR_TILTS)),
    )


def _block(part: Mapping[str, Any]) -> window.Block:
    cells = _array(part["cells"], np.int64, None)
    counts = _array(part["counts"], np.float64, (2, len(cells)))
    _require(bool((np.diff(cells) > 0).all() and (counts >= 0).all()) and len(cells) > 0)
    _require(cells[0] >= 0 and cells[-1] < window.CELLS and part["first"] >= 0 and part["slices"] >= 1)
    found = window.Block(int(part["first"]), int(part["slices"]), cells, counts)
    found.__dict__["packed"] = {name: part[name] for name in ("cells", "counts")}  # as they were read
    return found


def _mixture(part: Mapping[str, Any], number: int) -> Mixture:
    slices = int(part["slices"])
    _require(slices >= 0)
    return Mixture(_array(part["logs"], np.float64, (number,), infinite=slices == 0), slices)


def _array(packed: Any, dtype: Any, shape: tuple[int, ...] | None, *, infinite: bool = False) -> Any:
    array = unpack(packed, dtype, shape)
    _require(infinite or bool(np.isfinite(array).all()))
    return array


def _finite(number: Any) -> float:
    _require(isinstance(number, (int, float)) and not isinstance(number, bool) and math.isfinite(number))
    return float(number)


def _require(condition: object) -> None:
    if not condition:
        raise ValueError
