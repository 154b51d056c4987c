"""Add batches to the states of metrics, where the batch is: in host memory, or on a device.

A metric says once what its states hold, as `Kept`. Four functions add a batch: `of_plain` and `of_host` by the kernels
of the host, `of_device` by torch operations, and `in_place` by Triton's kernels, which change the states themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calibrant.inputs.notions import DEFAULTS, Events, class_events, fold, read, scores_of_rows
from calibrant.inputs.notions import Reading as HostReading
from calibrant.inputs.predictions import Layout, Notion, Predictions
from calibrant.inputs.scores import event_row_scores
from calibrant.kernels import dispatch, tensor_cells, tensors
from calibrant.kernels.tensors import TensorReading
from calibrant.measures.binned import binned
from calibrant.measures.binned.binned import Closed
from calibrant.measures.isotonic import isotonic
from calibrant.measures.read_arguments import read_histograms
from calibrant.table import ReliabilityTable, cell_sums
from calibrant.table import grid as grids

#: What a batch adds to the states, by their names.
Increments = dict[str, Tensor]

#: The grid of the cells.
GRID: Final[grids.Grid] = "standard"

#: The state of a metric that keeps each row's score.
SCORES: Final = "scores"


class Kept(NamedTuple):
    """What the states of a metric hold. Everything is about the evaluated event if nothing else is said.

    Attributes
    ----------
    bins : (int, {"left", "right"}) or None
        Bins of equal width, their number and which edge is closed; for "classwise" and "multilabel" of each class.
    table : {"rows", "sketch"} or None
        All scores with their outcomes; or the cells of a grid, with the sums of ``totals``. For "classwise" of each
        class.
    half : {0, 1}
        The class that a binary score of 0.5 predicts, in the table.
    totals : bool
        With a table of rows: sums of the scores of whole predictions and of their squares, and right answers.
    class_bins : int or None
        With a table: the number of right-closed bins of each class.
    scores : {"whole", "event"} or None
        Sums of proper scores, of whole predictions or of the event.
    each : {"brier", "nll"} or None
        With ``scores``: that score of each row.
    """

    bins: tuple[int, Closed] | None = None
    table: Literal["rows", "sketch"] | None = None
    half: Literal[0, 1] = 1
    totals: bool = False
    class_bins: int | None = None
    scores: Literal["whole", "event"] | None = None
    each: Literal["brier", "nll"] | None = None


# ---------------------------------------------------------------- in host memory


def of_plain(
    probs: NDArray[Any], targets: NDArray[np.int64], notion: Notion, kept: Kept, tolerance: float
) -> Increments | None:
    """Evaluate plain probabilities in one read; None if they, or the states, need the longer way."""
    by_top = notion == "top-label"
    if kept.scores or kept.class_bins or kept.table == "sketch":
        return None
    if not by_top and (probs.ndim == 2 or notion != "positive"):
        return None
    options: dict[str, Any] = {"tolerance": tolerance, "fold": by_top}
    if kept.bins is not None:
        largest = uppers(*kept.bins, probs.dtype)
        sums = dispatch.tally(probs, targets, uppers=largest, half=True, **options)
        return None if sums is None else _bins(*sums)
    keys = dispatch.tally(probs, targets, uppers=None, half=bool(kept.half), **options)
    return None if keys is None else _keys(keys)


def of_host(predictions: Predictions, notion: Notion, kept: Kept) -> Increments:
    """Return what a batch in host memory adds to the states."""
    if kept.scores is not None:
        return _scores_of_host(predictions, notion, kept)
    if kept.bins is None:
        return _table_of_host(predictions, notion, kept)
    n_bins, closed = kept.bins
    if notion in ("classwise", "multilabel"):
        return _bins(*read_histograms(predictions, notion, n_bins, closed=closed).sums)
    bins = binned.bin_events(read(predictions, notion, scoring=False).events, n_bins, closed)
    return _bins(bins.counts, bins.score_sums, bins.positives)


def _bins(counts: Any, score_sums: Any, positives: Any) -> Increments:
    return {
        "counts": torch.from_numpy(counts.astype(np.int64)),  # sums of ones, which are exact
        "positives": torch.from_numpy(positives.astype(np.int64)),
        "score_sums": torch.from_numpy(np.ascontiguousarray(score_sums)),
    }


def _keys(keys: NDArray[Any]) -> Increments:
    signed = keys.view(np.int32 if keys.dtype.itemsize == 4 else np.int64)
    return {"singles" if keys.dtype.itemsize == 4 else "doubles": torch.from_numpy(signed)}


def _packed(events: Events) -> NDArray[Any]:
    return dispatch.pack(np.ascontiguousarray(events.scores), events.outcomes)


def _table_of_host(predictions: Predictions, notion: Notion, kept: Kept) -> Increments:
    sketched = kept.table == "sketch"
    if notion == "classwise":
        return _classwise_of_host(predictions, sketched=sketched)
    folded = notion == "top-label" and predictions.layout == "binary" and kept.half == 0
    several = kept.class_bins is not None and predictions.layout == "multiclass"
    largest = uppers(kept.class_bins or 1, "right", predictions.rows.dtype) if several else None
    scoring = sketched or kept.totals
    reading = read(predictions, "positive" if folded else notion, scoring=scoring, uppers=largest)
    events = reading.events
    if folded:
        events = Events(*fold(events.scores, events.outcomes, half=0), None)
    if sketched:
        counts, sums = _cells(events)
        increments = {"cell_counts": torch.from_numpy(counts), "cell_sums": torch.from_numpy(sums), **_totals(reading)}
    else:
        increments = _keys(_packed(events))
        if kept.totals:
            increments |= _totals_of_means(reading)
    if several:
        counts, scores, positives = reading.histograms
        class_counts = torch.from_numpy(np.stack([counts, positives])).round().long()
        increments |= {"class_counts": class_counts.reshape(-1), "class_scores": torch.from_numpy(scores).reshape(-1)}
    return increments


def _classwise_of_host(predictions: Predictions, *, sketched: bool) -> Increments:
    reading = read(predictions, "top-label", scoring=sketched)
    of_classes = (events for events, _ in class_events(predictions))
    if not sketched:
        return _keys(np.stack([_packed(events) for events in of_classes], axis=1))
    counts, sums = (np.stack(parts) for parts in zip(*map(_cells, of_classes), strict=True))
    return {"cell_counts": torch.from_numpy(counts), "cell_sums": torch.from_numpy(sums), **_totals(reading)}


def _cells(events: Events) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return what evaluated events add to the cells: counts (2, K) and sums (3, K)."""
    sums = cell_sums(events, GRID)
    return sums[:, :2].T.astype(np.int64, order="C"), np.ascontiguousarray(sums[:, 2:].T)


def _totals(reading: HostReading) -> Increments:
    """Return a batch's sums of scores and squared scores, and its right answers; only finite losses are added."""
    counts = {"total": reading.total, "infinite": reading.means.infinite, "correct": reading.totals[dispatch.CORRECT]}
    columns = {
        "brier_sum": dispatch.BRIER,
        "nll_sum": dispatch.NLL,
        "brier_squares": dispatch.BRIER_SQUARES,
        "nll_squares": dispatch.NLL_SQUARES,
    }
    return {
        **{name: torch.tensor(round(float(count))) for name, count in counts.items()},
        **{name: torch.tensor(float(reading.totals[at]), dtype=torch.float64) for name, at in columns.items()},
    }


def _totals_of_means(reading: HostReading) -> Increments:
    means = reading.means
    return {
        **_score_sums(reading.total, means.brier, means.nll, means.infinite),
        "brier_squares": torch.tensor(means.brier_square * reading.total, dtype=torch.float64),
        "nll_squares": torch.tensor(means.nll_square * reading.total, dtype=torch.float64),
        "correct": torch.tensor(round(means.accuracy * reading.total)),
    }


def _score_sums(total: float, brier: float, nll: float, infinite: float) -> Increments:
    """Return what a batch adds to the sums of scores, from its means; infinite losses are counted, not added."""
    return {
        "total": torch.tensor(round(total)),
        "infinite": torch.tensor(round(infinite)),
        "brier_sum": torch.tensor(brier * total, dtype=torch.float64),
        "nll_sum": torch.tensor(0.0 if infinite else nll * total, dtype=torch.float64),
    }


def _scores_of_host(predictions: Predictions, notion: Notion, kept: Kept) -> Increments:
    whole = kept.scores == "whole" or (predictions.layout == "binary" and notion == "positive")
    if whole:
        reading = read(predictions, notion)
        sums = _score_sums(reading.total, reading.means.brier, reading.means.nll, reading.means.infinite)
    else:
        table = ReliabilityTable.pool(read(predictions, notion, scoring=False).events)
        brier, nll = isotonic.table_score(table, "brier"), isotonic.table_score(table, "log")
        sums = _score_sums(table.total, brier, nll, table.impossible)
    if kept.each is None:
        return sums
    if whole and predictions.layout != "multilabel":
        squares, losses, _ = scores_of_rows(predictions)
    else:
        events = read(predictions, notion, scoring=False).events
        with np.errstate(divide="ignore"):  # an outcome may have probability 0
            squares, losses, _ = event_row_scores(events.scores[:, None], events.outcomes.astype(np.int64), False)
    rows = torch.from_numpy(squares if kept.each == "brier" else losses)
    return {**sums, SCORES: rows.to(torch.float64 if predictions.rows.dtype == np.float64 else torch.float32)}


@cache
def uppers(num_bins: int, closed: Closed, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the largest score that each uniform bin can hold."""
    return binned.largest_members(binned.uniform_edges(num_bins), closed, dtype)


# ---------------------------------------------------------------- on a device, by torch operations


@lru_cache(64)
def _uppers_on(num_bins: int, closed: Closed, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the largest score of each bin, on a device; they are copied there once."""
    precision = np.dtype(np.float64 if dtype == torch.float64 else np.float32)
    return torch.from_numpy(uppers(num_bins, closed, precision)).to(device)


@lru_cache(16)
def _slots_on(dtype: torch.dtype, device: torch.device) -> tensor_cells.CellTable:
    precision = np.float64 if dtype == torch.float64 else np.float32
    return tensor_cells.cell_table(grids.edges(GRID).astype(precision), device)


def of_device(reading: TensorReading, layout: Layout, notion: Notion, kept: Kept) -> Increments:
    """Return what a batch adds to the states, computed on its device without waiting for it."""
    if kept.scores is not None:
        return _scores_of_device(reading, layout, notion, kept)
    if notion in ("classwise", "multilabel"):
        scores, outcomes, evaluated = tensors.each_class(reading)
    else:
        half = 1 if kept.bins is not None else kept.half
        scores, outcomes = tensors.event(reading, layout=layout, notion=notion, half=half)
        evaluated = reading.evaluated
    if kept.bins is not None:
        counts, positives, sums = tensors.bin_rows(
            scores, outcomes, evaluated, _uppers_on(*kept.bins, scores.dtype, scores.device)
        )
        return {"counts": counts, "positives": positives, "score_sums": sums}
    if kept.table == "sketch":
        cells = tensor_cells.cells(scores, outcomes, evaluated, _slots_on(scores.dtype, scores.device))
        sums = torch.where(cells.refused > 0, torch.nan, cells.sums)  # an unchecked value outside [0, 1]
        increments = {"cell_counts": cells.counts, "cell_sums": sums}
    else:
        keys = tensors.pack(scores, outcomes, evaluated)
        increments = {"doubles" if keys.dtype == torch.int64 else "singles": keys}
    if kept.table == "sketch" or kept.totals:
        increments |= _totals_of_device(reading, layout)
    if kept.class_bins is not None and layout == "multiclass":
        probs, outcomes, evaluated = tensors.each_class(reading)
        largest = _uppers_on(kept.class_bins, "right", probs.dtype, probs.device)
        counts, positives, scores = tensors.bin_rows(probs, outcomes, evaluated, largest)
        increments |= {"class_counts": torch.stack([counts, positives]).reshape(-1), "class_scores": scores.reshape(-1)}
    return increments


def _totals_of_device(reading: TensorReading, layout: Layout) -> Increments:
    squares, logs = _score_terms(reading, layout)
    of_squares = _summed(squares**2, -(logs**2), reading.evaluated)
    right = tensors.event(reading, layout=layout, notion="top-label")[1]
    return {
        **_summed(squares, logs, reading.evaluated),
        "brier_squares": of_squares["brier_sum"],
        "nll_squares": of_squares["nll_sum"],
        "correct": (right * reading.evaluated).sum(),
    }


def _scores_of_device(reading: TensorReading, layout: Layout, notion: Notion, kept: Kept) -> Increments:
    if kept.scores == "whole":
        squares, logs = _score_terms(reading, layout)
    else:
        scores, outcomes = tensors.event(reading, layout=layout, notion=notion)
        squares, logs = tensors.score_sums(scores, outcomes, reading.evaluated)
    sums = _summed(squares, logs, reading.evaluated)
    if kept.each is None:
        return sums
    rows = squares if kept.each == "brier" else -logs
    # Rows are left out in the end: to know how many there are would take a wait.
    rows = torch.where(reading.evaluated, rows, torch.full_like(rows, np.nan)).reshape(-1)
    return {**sums, SCORES: rows.to(torch.float64 if reading.double else torch.float32)}


def _score_terms(reading: TensorReading, layout: Layout) -> tuple[Tensor, Tensor]:
    """Return each row's Brier score and the log probability of its target; 0 for rows that are left out."""
    if layout == "multiclass":
        squares = tensors.class_square_errors(reading)
    else:
        scores, outcomes = tensors.event(reading, layout=layout, notion=DEFAULTS[layout])
        squares, _ = tensors.score_sums(scores, outcomes, reading.evaluated)
    logs = torch.where(reading.evaluated, reading.log_p_target, torch.zeros_like(reading.log_p_target))
    return squares, logs


def _summed(squares: Tensor, logs: Tensor, evaluated: Tensor) -> Increments:
    """Return the sums of scores and of finite losses, and the number of infinite losses."""
    infinite = evaluated & logs.isneginf()
    finite = torch.where(infinite, torch.zeros_like(logs), logs)
    wide = tensors.wide(logs.device)
    return {
        "total": evaluated.sum(),
        "infinite": infinite.sum(),
        "brier_sum": tensors.in_state_form(squares.sum(dtype=wide)),
        "nll_sum": tensors.in_state_form(-finite.sum(dtype=wide)),
    }


# ---------------------------------------------------------------- on a GPU, by Triton's kernels


class ReadingOptions(NamedTuple):
    """How a batch on a device is read: as in `tensors.read_rows`; ``first`` if no batch was before it."""

    ignore_index: int | None
    logits: bool | None
    seen: Tensor
    first: bool
    tolerance: float
    checked: bool


def read_device(preds: Tensor, target: Tensor, read_as: ReadingOptions, layout: Layout) -> TensorReading:
    """Read a batch on a device by operations of torch, for `of_device`."""
    options: dict[str, Any] = {
        "ignore_index": read_as.ignore_index,
        "logits": read_as.logits,
        "seen": read_as.seen,
        "tolerance": read_as.tolerance,
        "checked": read_as.checked,
    }
    return tensors.read(preds[:, None] if layout == "binary" else preds, target, layout=layout, **options)


def in_place(
    states: Mapping[str, Any],
    preds: Tensor,
    target: Tensor,
    read_as: ReadingOptions,
    layout: Layout,
    notion: Notion,
    kept: Kept,
) -> Increments | None:
    """Read a batch once and add it to the states; return what their lists take. None without a kernel for it."""
    kernels = tensors.kernels_on(preds.device)
    if kernels is None:
        return None
    to = _adding(
        kernels, preds.dtype, preds.device, layout, notion, kept, read_as.logits, read_as.tolerance, read_as.checked
    )
    if to is None:
        return None
    lists: Increments = {}
    class_bins: tuple[Tensor, ...] = ()
    if to.class_uppers is not None and kept.bins is not None:
        class_bins = (states["counts"], states["positives"], states["score_sums"])
    elif to.class_uppers is not None:
        size = len(to.class_uppers) * preds.shape[1]
        if not states["class_counts"]:
            lists["class_counts"] = torch.zeros(2 * size, dtype=torch.int64, device=preds.device)
            lists["class_scores"] = torch.zeros(size, dtype=torch.float64, device=preds.device)
        counts, scores = lists.values() if lists else (states["class_counts"][0], states["class_scores"][0])
        class_bins = (counts[:size], counts[size:], scores)
    batch = kernels.DeviceBatch.of(preds, target, read_as.ignore_index)
    keys = kernels.add(batch, states, to, read_as.seen, first=read_as.first, class_bins=class_bins)
    return lists if keys is None else {**lists, "doubles" if keys.dtype == torch.int64 else "singles": keys}


@lru_cache(256)
def _adding(
    kernels: Any,
    dtype: torch.dtype,
    device: torch.device,
    layout: Layout,
    notion: Notion,
    kept: Kept,
    logits: bool | None,
    tolerance: float,
    checked: bool,
) -> Any:
    """Return what batches of a kind are added to; None if the kernels do not have the event, or not these states."""
    event = _event_of(kernels, dtype, layout, notion, kept)
    if event is None:
        return None
    by_class, names = notion == "classwise", _sums_of(kept)
    options: dict[str, Any] = {}
    if kept.bins is not None:
        options["class_uppers" if by_class else "uppers"] = _uppers_on(*kept.bins, dtype, device)
        names += () if by_class else ("counts", "positives", "score_sums")
    if kept.table == "sketch":
        options |= {"table": _slots_on(torch.float32, device), "class_cells": by_class}
    if kept.class_bins is not None and layout == "multiclass":
        options["class_uppers"] = _uppers_on(kept.class_bins, "right", dtype, device)
    return kernels.Adding(
        event=event,
        logits=logits,
        far=tensors.SLACK,
        precision=tensors.precision_of(dtype),
        tolerance=tolerance,
        slack=tensors.slack_of(dtype),
        checked=checked,
        states=names,
        keys=kept.table == "rows",
        **options,
    )


def _sums_of(kept: Kept) -> tuple[str, ...]:
    """Return the states with sums of scores."""
    if kept.scores is not None:
        return ("total", "infinite", "brier_sum", "nll_sum")
    if kept.table == "sketch" or kept.totals:
        return ("total", "infinite", "brier_sum", "nll_sum", "correct", "brier_squares", "nll_squares")
    return ()


def _event_of(kernels: Any, dtype: torch.dtype, layout: Layout, notion: Notion, kept: Kept) -> str | None:
    """Return the evaluated event by its name in the kernels; None if they do not have it, or not these states."""
    by_class = notion == "classwise"
    if layout == "multilabel" or kept.scores == "event" or kept.each is not None:
        return None
    if (kept.table == "rows" and by_class) or (kept.table == "sketch" and dtype == torch.float64):
        return None
    if kept.bins is not None and not by_class and kept.bins[0] > kernels.MOST_BINS:
        return None
    if layout == "multiclass":
        return "positive" if notion == "positive" else "top"
    if notion != "top-label":
        return "positive"
    return "folded" if kept.bins is None and kept.half == 0 else "top"
