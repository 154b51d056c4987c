"""Uniform bins in the states of a metric: what a batch adds to them, and what they hold."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calibrant.inputs.notions import read
from calibrant.inputs.predictions import Layout, Notion, Predictions
from calibrant.kernels import tensors
from calibrant.kernels.tensors import Reading
from calibrant.measures.binned import binned
from calibrant.measures.binned.binned import Bins, Closed
from calibrant.measures.binned.histograms import read_histograms
from calibrant.torch.base import Increments


def bins_of_host(predictions: Predictions, notion: Notion, num_bins: int, closed: Closed) -> Increments:
    """Count a batch into uniform bins, for the judged event or for each class."""
    if notion in ("classwise", "multilabel"):
        counts, score_sums, positives = read_histograms(predictions, notion, num_bins, closed=closed).sums
    else:
        bins = binned.bin_events(read(predictions, notion, scoring=False).events, num_bins, closed)
        counts, score_sums, positives = bins.counts, bins.score_sums, bins.positives
    return increments_of(counts, score_sums, positives)


def increments_of(counts: Any, score_sums: Any, positives: Any) -> Increments:
    """Return what the sums of a batch's bins add to the states."""
    return {
        "counts": torch.from_numpy(np.rint(counts).astype(np.int64)),
        "positives": torch.from_numpy(np.rint(positives).astype(np.int64)),
        "score_sums": torch.from_numpy(np.ascontiguousarray(score_sums)),
    }


@lru_cache(64)
def uppers_on(num_bins: int, closed: Closed, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the largest score of each bin, on a device; they are copied there once."""
    precision = np.dtype(np.float64 if dtype == torch.float64 else np.float32)
    return torch.from_numpy(uppers(num_bins, closed, precision)).to(device)


@cache
def uppers(num_bins: int, closed: Closed, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the largest score that each uniform bin can hold."""
    return binned.largest_members(binned.uniform_edges(num_bins), closed, dtype)


def bins_of_device(reading: Reading, layout: Layout, notion: Notion, num_bins: int, closed: Closed) -> Increments:
    """Count a batch into uniform bins, on its device."""
    if notion in ("classwise", "multilabel"):
        scores, outcomes, judged = tensors.each_class(reading, layout=layout)
    else:
        scores, outcomes = tensors.event(reading, layout=layout, notion=notion)
        judged = reading.judged
    largest = uppers_on(num_bins, closed, scores.dtype, scores.device)
    counts, positives, sums = tensors.bin_rows(scores, outcomes, judged, largest)
    return {"counts": counts, "positives": positives, "score_sums": sums}


def histograms_of(metric: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return a metric's histograms (3, bins, classes): counts, sums of scores, sums of outcomes."""
    states = (metric.counts, tensors.joined(metric.score_sums), metric.positives)
    return np.stack([state.cpu().numpy().astype(np.float64) for state in states])


def bins_of(counts: Tensor, positives: Tensor, score_sums: Tensor) -> Bins:
    """Return the bins that the states hold; squared residuals are not kept (NaN)."""
    mass, outcomes = counts.cpu().numpy().astype(np.float64), positives.cpu().numpy().astype(np.float64)
    sums = tensors.joined(score_sums).numpy()
    return Bins(binned.uniform_edges(len(mass)), mass, sums, outcomes, np.full(len(mass), np.nan))
