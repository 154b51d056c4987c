"""The attributes of a monitor from its state, whose checksum says nothing of who wrote it: each number is checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, Final

import numpy as np

from calibrant.monitoring import window
from calibrant.monitoring.evidence import TILTS
from calibrant.monitoring.promise import Promise
from calibrant.monitoring.slices import SUMS, Group, Impossible, Slice
from calibrant.monitoring.state import unpack
from calibrant.statistics.e_processes import BETS, ERROR_TILTS, Bounds, Mixture, Wealth

_LEAST_ROWS: Final = 1e-100
_MOST_ROWS: Final = 1e18
_MOST_CLASSES: Final = 10**9
_ROUNDED: Final = 1 + 1e-6  # a sum may be so much larger than its bound
_STEEPEST: Final = 10.0  # nats that a row or a slice changes the evidence by at most: tilts move log-odds by 2.4
_LOST: Final = 4.0  # times as much for the wealth of a bet: log(2^-53) = -37
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
    _require(notion in (None, "positive", "top-label"))
    _require(n_classes is None or (type(n_classes) is int and 1 <= n_classes <= _MOST_CLASSES))
    unit = min(_number(settings["max_weight"] or 1.0, 0.0, math.inf), 1.0)
    slices = _slices(content["slices"], unit)
    n = sum(each.n for each in slices)
    rows, scores = (_array(frame[name], np.float64, (window.CELLS,)) for name in ("rows", "scores"))
    _require(bool((rows >= 0).all() and (scores >= 0).all() and (scores <= _ROUNDED * rows).all()))
    mixture = Mixture.start(len(TILTS))
    for each in slices:
        mixture = mixture.grown(each.growth)
    blocks, groups = [_block(part) for part in content["blocks"]], content["groups"]
    ends = [0, *accumulate(block.slices for block in blocks)]
    _require([block.first for block in blocks] == ends[:-1] and ends[-1] == len(slices))
    _require((notion is None) == (not slices))
    _require(all(math.isclose(float(total), n, rel_tol=1e-6) for total in (rows.sum(), _weight(blocks))))
    return {
        "_settings": None if notion is None else (notion, n_classes),
        "_rows": rows,
        "_scores": scores,
        "_slices": slices,
        "_mixture": mixture,
        "_wealth": _wealth(content["wealth"], slices, n, unit),
        "_most": _number(settings["most"], 0.0, _most(n, unit, len(slices))),
        "_groups": None if groups is None else {str(k): _group(part, unit, len(slices)) for k, part in groups.items()},
        "_blocks": blocks,
        "_promises": [_promise(part, n, unit, len(slices)) for part in content["promises"]],
    }


def _most(n: float, unit: float, slices: int) -> float:
    """Return a bound on the logarithm of any evidence, from the weight of the rows and that of the heaviest row."""
    return _STEEPEST * min(n / unit + slices, _MOST_ROWS)


def _slices(parts: Sequence[Mapping[str, Any]], unit: float) -> tuple[Slice, ...]:
    slices, before = [], 0.0
    for number, part in enumerate(parts):
        slices.append(_slice(part, before, unit, number + 1))
        before += slices[-1].n
    _require(len({each.label for each in slices}) == len(slices))
    return tuple(slices)


def _slice(part: Mapping[str, Any], before: float, unit: float, number: int) -> Slice:
    """Return a slice after so many rows. Log-odds of scores above 0 are at most 745."""
    n = _number(part["n"], _LEAST_ROWS, _MOST_ROWS)
    square, evidence = _ROUNDED * n**2, _most(before + n, unit, number)  # n^2 is that of one cluster
    ranges = {
        "predicted": (0.0, _ROUNDED * n),
        "gap": (-_ROUNDED * n, _ROUNDED * n),
        "square": (0.0, square),
        "information": (0.0, square),
        "skewness": (-square, square),
        "tilted": (-_FARTHEST * n, _FARTHEST * n),
        "tilted_information": (0.0, _FARTHEST**2 * square),
        "log_evidence": (-evidence, evidence),
    }
    _require(set(SUMS) <= {"n", *ranges})
    numbers = {name: _number(part[name], low, high) for name, (low, high) in ranges.items()}
    low, high, informative = part["bounds"]
    bounds = Bounds(_number(low, -1.0, 1.0), _number(high, -1.0, 1.0), informative)
    _require(bounds.low <= bounds.high and type(informative) is bool)
    growth = _array(part["growth"], np.float64, (len(TILTS),), evidence)
    impossible = _impossible(part["impossible"], n)
    label, digest = part["label"], part["digest"]
    _require(type(label) is str and type(digest) is str and len(digest) in (0, 16))
    _require(abs(numbers["skewness"]) <= _ROUNDED * numbers["information"])
    found = Slice(label=label, digest=digest, n=n, growth=growth, bounds=bounds, impossible=impossible, **numbers)
    found.__dict__["packed"] = part["growth"]  # as it was read
    return found


def _impossible(part: Sequence[Any], n: float) -> Impossible:
    events, non_events = (_number(each, 0.0, _ROUNDED * n) for each in part)
    return Impossible(events, non_events)


def _wealth(part: Mapping[str, Any], slices: Sequence[Slice], n: float, unit: float) -> Wealth:
    logs = unpack(part["logs"], np.float64, (len(BETS),))  # a bet that was lost has the logarithm -inf
    most = _LOST * _most(n, unit, len(slices))
    _require(bool((logs <= most).all() and ((logs >= -most) | np.isneginf(logs)).all()))
    wealth = Wealth(logs, _number(part["units"], 0.0, most))
    if slices:  # a bet that could lose more than everything was lost, and nobody wins against the mean that is seen
        gap = sum(each.gap for each in slices) / n
        held = np.isfinite(logs)
        _require(bool((np.abs(BETS[held]) * n < _ROUNDED * wealth.units).all()))
        _require(wealth.units > 0 and wealth.log_e(gap, n, slices[0].information) <= _ROUNDED - 1)
    return wealth


def _group(part: Mapping[str, Any], unit: float, most_slices: int) -> Group:
    n = _number(part["n"], 0.0, _MOST_ROWS)
    evidence = _most(n, unit, most_slices)
    most = -math.inf if part["most"] is None else _number(part["most"], -evidence, evidence)
    return Group(
        mixture=_mixture(part, len(TILTS), evidence, most_slices),
        n=n,
        gap=_number(part["gap"], -_ROUNDED * n, _ROUNDED * n),
        impossible=_impossible(part["impossible"], n),
        most=most,
    )


def _promise(part: Mapping[str, Any], most_rows: float, unit: float, most_slices: int) -> Promise:
    rows = _number(part["rows"], 0.0, _ROUNDED * most_rows)
    return replace(
        Promise.of(dict(part))[0],
        rows=rows,
        errors=_number(part["errors"], 0.0, _ROUNDED * rows),
        most=_number(part["most"], 0.0, _most(rows, unit, most_slices)),
        mixture=_mixture(part, len(ERROR_TILTS), _most(rows, unit, most_slices), most_slices),
    )


def _block(part: Mapping[str, Any]) -> window.Block:
    cells = _array(part["cells"], np.int64, None)
    counts = _array(part["counts"], np.float64, (2, len(cells)))
    _require(bool((np.diff(cells) > 0).all() and (counts >= 0).all()) and len(cells) > 0)
    _require(cells[0] >= 0 and cells[-1] < window.CELLS and part["first"] >= 0 and part["slices"] >= 1)
    found = window.Block(int(part["first"]), int(part["slices"]), cells, counts)
    found.__dict__["packed"] = {name: part[name] for name in ("cells", "counts")}  # as they were read
    return found


def _mixture(part: Mapping[str, Any], number: int, evidence: float, most_slices: int) -> Mixture:
    slices = part["slices"]
    _require(type(slices) is int and 0 <= slices <= most_slices)
    if slices == 0:
        return Mixture.start(number)
    return Mixture(_array(part["logs"], np.float64, (number,), evidence), slices)


def _weight(blocks: Sequence[window.Block]) -> float:
    return sum(float(block.counts.sum()) for block in blocks)


def _array(packed: Any, dtype: Any, shape: tuple[int, ...] | None, most: float = _MOST_ROWS) -> Any:
    array = unpack(packed, dtype, shape)
    _require(bool((np.abs(array) <= most).all()))
    return array


def _number(number: Any, low: float, high: float) -> float:
    _require(type(number) in (int, float) and low <= number <= high)
    return float(number)


def _require(condition: object) -> None:
    if not condition:
        raise ValueError
