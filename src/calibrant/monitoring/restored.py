"""The attributes of a monitor from its state: the type, the size and the range of each number are checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, Final, get_args

import numpy as np

from calibrant.inputs.decision_log import Kind
from calibrant.monitoring import window
from calibrant.monitoring.evidence import TILTS
from calibrant.monitoring.promise import MOST_CLASSES, Promise
from calibrant.monitoring.slices import Group, Impossible, Slice
from calibrant.monitoring.state import unpack
from calibrant.results.envelope import integer, number, require
from calibrant.statistics.e_processes import BETS, ERROR_TILTS, Bounds, Mixture, Wealth

_LEAST_ROWS: Final = 1e-100
_MOST_ROWS: Final = 1e18
_MOST_EVIDENCE: Final = 1e19  # the logarithm: a row changes it by less than 10, because tilts move log-odds by 2.4
_ROUNDED: Final = 1 + 1e-6  # a sum may be so much larger than its bound
_FARTHEST: Final = 3 * 745.0  # of the mean log-odds, in log-odds


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
    require(notion in (None, "positive", "top-label"), "an unknown notion")
    if n_classes is not None:
        integer(n_classes, 1, MOST_CLASSES)
    slices = tuple(map(_slice, content["slices"]))
    require(len({each.label for each in slices}) == len(slices), "labels of slices that are not distinct")
    require((notion is None) == (not slices), "slices without an event")
    questions, groups = settings["questions"], content["groups"]
    require(questions in ("", "declared", "open"), "questions of another kind")
    require(not questions or (slices and groups and (notion, n_classes) == ("positive", None)), "questions of no log")
    read_from = settings.get("read_from", {})  # which states of earlier versions lack
    require(all(isinstance(text, str) for text in read_from.values()), "no names of columns")
    rows, scores = (_array(frame[name], np.float64, (window.CELLS,), low=0.0) for name in ("rows", "scores"))
    require((scores <= _ROUNDED * rows).all(), "scores above 1")
    mixture = Mixture.start(len(TILTS))
    for each in slices:
        mixture = mixture.grown(each.growth)
    blocks = [_block(part) for part in content["blocks"]]
    ends = [0, *accumulate(block.slices for block in blocks)]
    require([block.first for block in blocks] == ends[:-1] and ends[-1] == len(slices), "blocks of other slices")
    return {
        "_questions": questions,
        "read_from": read_from,
        "_settings": None if notion is None else (notion, n_classes),
        "_rows": rows,
        "_scores": scores,
        "_slices": slices,
        "_mixture": mixture,
        "_wealth": _wealth(content["wealth"], slices),
        "_most": number(settings["most"], 0.0, _MOST_EVIDENCE),
        "_groups": None if groups is None else {str(k): _group(part, len(slices)) for k, part in groups.items()},
        "_blocks": blocks,
        "_promises": [_promise(part, len(content["promises"]), len(slices)) for part in content["promises"]],
    }


def _slice(part: Mapping[str, Any]) -> Slice:
    """Return a slice. Log-odds of scores above 0 are at most 745."""
    n = number(part["n"], _LEAST_ROWS, _MOST_ROWS)
    square = _ROUNDED * n**2  # n^2 is that of one cluster
    ranges = {
        "predicted": (0.0, _ROUNDED * n),
        "gap": (-_ROUNDED * n, _ROUNDED * n),
        "square": (0.0, square),
        "information": (0.0, square),
        "skewness": (-square, square),
        "tilted": (-_FARTHEST * n, _FARTHEST * n),
        "tilted_information": (0.0, _FARTHEST**2 * square),
        "log_evidence": (-_MOST_EVIDENCE, _MOST_EVIDENCE),
    }
    numbers = {name: number(part[name], low, high) for name, (low, high) in ranges.items()}
    require(abs(numbers["skewness"]) <= _ROUNDED * numbers["information"], "a skewness of no rows")
    low, high, informative = part["bounds"]
    bounds = Bounds(number(low, -1.0, 1.0), number(high, -1.0, 1.0), informative)
    require(bounds.low <= bounds.high and type(informative) is bool, "bounds in another order")
    label, digest = part["label"], part["digest"]
    require(type(label) is str and type(digest) is str and len(digest) in (0, 16), "a label that is not text")
    found = Slice(
        label=label,
        digest=digest,
        n=n,
        growth=_array(part["growth"], np.float64, (len(TILTS),)),
        bounds=bounds,
        impossible=_impossible(part["impossible"], n),
        **numbers,
    )
    found.__dict__["packed"] = part["growth"]  # as it was read
    return found


def _impossible(part: Sequence[Any], n: float) -> Impossible:
    events, non_events = (number(each, 0.0, _ROUNDED * n) for each in part)
    return Impossible(events, non_events)


def _wealth(part: Mapping[str, Any], slices: Sequence[Slice]) -> Wealth:
    logs = unpack(part["logs"], np.float64, (len(BETS),))
    held = np.isfinite(logs)
    require((np.isneginf(logs) | (np.abs(logs) <= _MOST_EVIDENCE)).all(), "a number under 'wealth' that is too large")
    wealth = Wealth(logs, number(part["units"], 0.0, _MOST_EVIDENCE))
    if slices:  # a bet that could lose more than everything was lost, and nobody wins against the mean that is seen
        n, gap = (sum(getattr(each, name) for each in slices) for name in ("n", "gap"))
        reason = "numbers under 'wealth' that do not fit the slices"
        require((np.abs(BETS[held]) * n < _ROUNDED * wealth.units).all(), reason)
        require(wealth.units and wealth.log_e(gap / n, n, slices[0].information) <= _ROUNDED - 1, reason)
    return wealth


def _group(part: Mapping[str, Any], most_slices: int) -> Group:
    n = number(part["n"], 0.0, _MOST_ROWS)
    require(part["kind"] in ("", *get_args(Kind)), "a question of another kind")
    return Group(
        kind=part["kind"],
        since=integer(part["since"], 0, max(most_slices - 1, 0)),
        mixture=_mixture(part, len(TILTS), most_slices),
        n=n,
        gap=number(part["gap"], -_ROUNDED * n, _ROUNDED * n),
        impossible=_impossible(part["impossible"], n),
        most=-math.inf if part["most"] is None else number(part["most"], -_MOST_EVIDENCE, _MOST_EVIDENCE),
    )


def _promise(part: Mapping[str, Any], number_of_promises: int, most_slices: int) -> Promise:
    """Return one of so many promises; states of earlier versions do not say how many are watched together."""
    rows = number(part["rows"], 0.0, _MOST_ROWS)
    return replace(
        Promise.of(dict(part))[0],
        together=integer(part.get("together", number_of_promises), 1, number_of_promises),
        rows=rows,
        errors=number(part["errors"], 0.0, _ROUNDED * rows),
        most=number(part["most"], 0.0, _MOST_EVIDENCE),
        mixture=_mixture(part, len(ERROR_TILTS), most_slices),
    )


def _block(part: Mapping[str, Any]) -> window.Block:
    first, slices = (integer(part[name], least, 10**9) for name, least in (("first", 0), ("slices", 1)))
    cells = _array(part["cells"], np.int64, None, low=0, high=window.CELLS - 1)
    counts = _array(part["counts"], np.float64, (2, len(cells)), low=0.0)
    require(len(cells) > 0 and (np.diff(cells) > 0).all(), "cells in another order")
    found = window.Block(first, slices, cells, counts)
    found.__dict__["packed"] = {name: part[name] for name in ("cells", "counts")}  # as they were read
    return found


def _mixture(part: Mapping[str, Any], size: int, most_slices: int) -> Mixture:
    slices = integer(part["slices"], 0, most_slices)
    return Mixture.start(size) if slices == 0 else Mixture(_array(part["logs"], np.float64, (size,)), slices)


def _array(
    packed: Any,
    dtype: Any,
    shape: tuple[int, ...] | None,
    *,
    low: float = -_MOST_EVIDENCE,
    high: float = _MOST_EVIDENCE,
) -> Any:
    array = unpack(packed, dtype, shape)
    require(((array >= low) & (array <= high)).all(), "numbers outside their range")
    return array
