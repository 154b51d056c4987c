"""Sums over whole predictions in the states of a metric: proper scores, their squares, right answers."""

from __future__ import annotations

import torch
from torch import Tensor

from calibrant.inputs.notions import DEFAULTS
from calibrant.inputs.notions import Reading as HostReading
from calibrant.inputs.predictions import Layout
from calibrant.kernels import dispatch, tensors
from calibrant.kernels.tensors import Reading
from calibrant.torch.base import Increments


def score_increments(total: float, brier: float, nll: float, infinite: float) -> Increments:
    """Return what a batch adds to the sums of scores, from its means; infinite losses are counted, not added."""
    return {
        "total": torch.tensor(round(total)),
        "infinite": torch.tensor(round(infinite)),
        "brier_sum": torch.tensor(brier * total, dtype=torch.float64),
        "nll_sum": torch.tensor(0.0 if infinite else nll * total, dtype=torch.float64),
    }


def totals_of_host(reading: HostReading) -> Increments:
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


def totals_of_device(reading: Reading, layout: Layout) -> Increments:
    """Return the same sums, computed on the batch's device."""
    right = tensors.event(reading, layout=layout, notion="top-label")[1]
    return {
        **score_sums_of_device(reading, layout),
        **score_squares_of_device(reading, layout),
        "correct": (right * reading.judged).sum(),
    }


def score_sums_of_device(reading: Reading, layout: Layout) -> Increments:
    """Return the sums of a batch's scores of whole predictions, computed on its device."""
    return summed(*score_terms(reading, layout), reading.judged)


def score_squares_of_device(reading: Reading, layout: Layout) -> Increments:
    """Return the sums of a batch's squared scores of whole predictions, computed on its device."""
    squares, logs = score_terms(reading, layout)
    sums = summed(squares**2, -(logs**2), reading.judged)
    return {"brier_squares": sums["brier_sum"], "nll_squares": sums["nll_sum"]}


def score_terms(reading: Reading, layout: Layout) -> tuple[Tensor, Tensor]:
    """Return each row's Brier score and the log probability of its target; 0 for rows that are not judged."""
    if layout == "multiclass":
        squares = tensors.class_square_errors(reading)
    else:
        scores, outcomes = tensors.event(reading, layout=layout, notion=DEFAULTS[layout])
        squares, _ = tensors.score_sums(scores, outcomes, reading.judged)
    logs = torch.where(reading.judged, reading.log_p_target, torch.zeros_like(reading.log_p_target))
    return squares, logs


def summed(squares: Tensor, logs: Tensor, judged: Tensor) -> Increments:
    """Return the sums of scores and of finite losses, and the number of infinite losses."""
    infinite = judged & logs.isneginf()
    finite = torch.where(infinite, torch.zeros_like(logs), logs)
    wide = tensors.wide(logs.device)
    return {
        "total": judged.sum(),
        "infinite": infinite.sum(),
        "brier_sum": tensors.in_state_form(squares.sum(dtype=wide)),
        "nll_sum": tensors.in_state_form(-finite.sum(dtype=wide)),
    }
