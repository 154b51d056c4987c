"""Proper scores, the Brier score and the negative log likelihood, and the sums of scores over whole predictions."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Final, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from calibrant.errors import InputError, check_choice
from calibrant.inputs.notions import DEFAULTS, read, scores_of_rows
from calibrant.inputs.notions import Reading as HostReading
from calibrant.inputs.predictions import Layout, Notion, Predictions
from calibrant.inputs.scores import event_row_scores
from calibrant.kernels import dispatch, tensors
from calibrant.kernels.tensors import Reading
from calibrant.measures.isotonic import isotonic
from calibrant.table import ReliabilityTable
from calibrant.torch.base import Batch, Increments, ProbabilityMetric, check_columns, check_notion

Reduction = Literal["mean", "sum", "none"]

_ROWS: Final = "scores"  # the state that holds each row's score


class _MeanScore(ProbabilityMetric):
    """A proper score of each row, reduced. States: its sum, the numbers of terms and of infinite ones; or all terms."""

    of_labels = True

    total: Tensor
    infinite: Tensor
    brier_sum: Tensor
    nll_sum: Tensor

    def __init__(
        self,
        num_classes: int | None,
        reduction: Reduction | None,
        *,
        notion: Notion | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        logits: bool | None = None,
        **kwargs: Any,
    ) -> None:
        if num_classes is not None:
            check_columns(num_classes)
        if reduction is not None:
            check_choice("reduction", reduction, get_args(Reduction))
        check_notion(notion, ("positive", "top-label", "multilabel"), num_classes)
        self.keeps_rows = reduction in (None, "none")
        super().__init__(
            layout="multilabel" if notion == "multilabel" else None,
            num_classes=num_classes,
            notion=notion,
            ignore_index=ignore_index,
            logits=logits,
            validate_args=validate_args,
            make=(type(self).__name__, "rows") if self.keeps_rows else ("proper scores",),
            **kwargs,
        )
        self.reduction = reduction
        self._add_counts("total")
        self._add_counts("infinite")
        self._add_sums("brier_sum")
        self._add_sums("nll_sum")
        if self.keeps_rows:
            self._add_list(_ROWS, torch.float32)

    def _read_host_batch(self, predictions: Predictions, notion: Notion) -> Increments:
        of_rows = self.notion in (None, "multilabel") or (predictions.layout == "binary" and notion == "positive")
        if of_rows:
            reading = read(predictions, notion)
            sums = score_increments(reading.total, reading.means.brier, reading.means.nll, reading.means.infinite)
        else:
            table = ReliabilityTable.pool(read(predictions, notion, scoring=False).events)
            brier, nll = isotonic.table_score(table, "brier"), isotonic.table_score(table, "log")
            sums = score_increments(table.total, brier, nll, table.impossible)
        if not self.keeps_rows:
            return sums
        if of_rows and predictions.layout != "multilabel":
            squares, losses, _ = scores_of_rows(predictions)
        else:
            events = read(predictions, notion, scoring=False).events
            with np.errstate(divide="ignore"):  # an outcome may have probability 0
                squares, losses, _ = event_row_scores(events.scores[:, None], events.outcomes.astype(np.int64), False)
        return {**sums, _ROWS: self._rows(torch.from_numpy(squares), torch.from_numpy(losses), predictions.rows.dtype)}

    def _read_device_batch(self, reading: Reading, layout: Layout, notion: Notion) -> Increments:
        if self.notion in (None, "multilabel"):
            squares, logs = score_terms(reading, layout)
        else:
            scores, outcomes = tensors.event(reading, layout=layout, notion=notion)
            squares, logs = tensors.score_sums(scores, outcomes, reading.evaluated)
        sums = summed(squares, logs, reading.evaluated)
        if not self.keeps_rows:
            return sums
        left_out = torch.full_like(squares, np.nan)  # left out in the end: to know how many there are would take a wait
        squares, losses = (torch.where(reading.evaluated, x, left_out).reshape(-1) for x in (squares, -logs))
        return {**sums, _ROWS: self._rows(squares, losses, reading.probs.dtype)}

    def _rows(self, squares: Tensor, losses: Tensor, dtype: Any) -> Tensor:
        """Return the score of each row in the precision of the data."""
        double = dtype in (np.float64, torch.float64)
        rows: Tensor = self._of(squares, losses)
        return rows.to(torch.float64 if double else torch.float32)

    @abstractmethod
    def _of(self, squares: Any, losses: Any) -> Any:
        """Return the one of two scores that this metric is about."""

    def _value(self) -> Tensor:
        if self.keeps_rows:
            rows = self._gathered(_ROWS)
            return self._scalar(rows[~rows.isnan()].cpu().numpy())
        total = int(self.total)
        sums = [float(tensors.joined(x)) for x in (self.brier_sum, self.nll_sum)]
        value = self._of(sums[0], np.inf if int(self.infinite) else sums[1])
        return self._scalar(value if self.reduction == "sum" else value / total if total else np.nan)


class BrierScore(_MeanScore):
    r"""Brier score: the mean squared distance between predicted probabilities and outcomes.

    .. math:: \frac1N \sum_i (p_i - y_i)^2 \;\text{for (N,)}, \qquad
              \frac1N \sum_i \sum_k (p_{ik} - [y_i = k])^2 \;\text{for (N, C)}

    A proper score, lower is better, in [0, 1] and [0, 2]. Never clipped. A drop-in for TorchUncertainty's metric.

    Parameters
    ----------
    num_classes : int, optional
        The number of columns. With it, (B, E, C) are the probabilities of the E members of ensembles, as in
        TorchUncertainty: a row's score is the mean of its members' scores. Without it, (N, C, ...) has the classes
        second. Should both readings fit, as for (B, C, C) with targets (B, C), those are one-hot targets of ensembles.
    top_class : bool, default False
        Whether the score is that of the top label alone: ``notion="top-label"``.
    reduction : {"mean", "sum", "none"} or None, default "mean"
        "none" and None return the score of each evaluated row, in order; the state then grows.
    notion : {"positive", "top-label", "multilabel"}, optional
        By default the score of the whole row. "top-label": (max p - [right])^2. "positive": the score of class 1 of
        two. "multilabel": the mean over labels.
    ignore_index, validate_args, logits, kwargs
        As in `CalibrationError`.

    References
    ----------
    Brier (1950), Monthly Weather Review 78.

    Examples
    --------
    >>> import torch
    >>> from calibrant.torch import BrierScore
    >>> metric = BrierScore()
    >>> metric(torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3]]), torch.tensor([0, 2]))
    tensor(0.5200)
    """

    def __init__(
        self,
        num_classes: int | None = None,
        top_class: bool = False,
        reduction: Reduction | None = "mean",
        *,
        notion: Notion | None = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(top_class, bool):
            raise InputError(
                "top_class",
                "True or False",
                repr(top_class),
                "pass num_classes as the first argument and top_class as the second",
            )
        if top_class and notion not in (None, "top-label"):
            raise InputError("notion", "'top-label' with top_class=True", repr(notion), "leave notion or top_class out")
        super().__init__(num_classes, reduction, notion="top-label" if top_class else notion, **kwargs)
        self.top_class = top_class

    def _read(self, preds: Tensor, target: Tensor) -> Batch:
        n_classes = self.num_classes
        if n_classes is None or not (isinstance(preds, Tensor) and isinstance(target, Tensor)) or preds.ndim < 2:
            return super()._read(preds, target)
        if target.ndim == 2 and target.shape[1] == 1:
            target = target[:, 0]
        ensemble = preds.ndim == 3 and preds.shape[2] == n_classes and preds.shape[1] > 0
        if not (ensemble and tuple(target.shape) in ((len(preds),), (len(preds), n_classes))):
            return super()._read(preds, target)
        members = preds.shape[1]
        rows = preds.flatten(0, 1) if n_classes > 1 else preds.flatten()
        width, increments = super()._read(rows, target.repeat_interleave(members, 0))
        for name in increments.keys() & {"total", "infinite"}:  # every row stands in the batch for each member
            increments[name] = increments[name] // members
        for name in increments.keys() & {"brier_sum", "nll_sum"}:
            increments[name] = increments[name] / members
        if _ROWS in increments:
            increments[_ROWS] = increments[_ROWS].reshape(-1, members).mean(1)
        return Batch(width, increments)

    def _of(self, squares: Any, losses: Any) -> Any:
        del losses
        return squares


class NegativeLogLikelihood(_MeanScore):
    r"""Negative log likelihood (log loss, cross-entropy): the mean of :math:`-\log p_y`, in nats.

    A proper score, from 0 to infinity, lower is better. It is infinite if an outcome had probability 0; the state
    ``infinite`` counts such rows. Logits go through log-sum-exp, which does not overflow.

    Parameters
    ----------
    reduction, notion, ignore_index, validate_args, logits, kwargs
        As in `BrierScore`.
    num_classes : int, optional
        The number of columns, which is then checked.

    Examples
    --------
    >>> import torch
    >>> from calibrant.torch import NegativeLogLikelihood
    >>> NegativeLogLikelihood()(torch.tensor([[0.7, 0.3], [0.4, 0.6]]), torch.tensor([0, 1]))
    tensor(0.4338)
    """

    def __init__(self, reduction: Reduction | None = "mean", *, num_classes: int | None = None, **kwargs: Any) -> None:
        super().__init__(num_classes, reduction, **kwargs)

    def _of(self, squares: Any, losses: Any) -> Any:
        del squares
        return losses


# ---------------------------------------------------------------- sums in the states of metrics


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
    squares, logs = score_terms(reading, layout)
    of_squares = summed(squares**2, -(logs**2), reading.evaluated)
    right = tensors.event(reading, layout=layout, notion="top-label")[1]
    return {
        **summed(squares, logs, reading.evaluated),
        "brier_squares": of_squares["brier_sum"],
        "nll_squares": of_squares["nll_sum"],
        "correct": (right * reading.evaluated).sum(),
    }


def score_terms(reading: Reading, layout: Layout) -> tuple[Tensor, Tensor]:
    """Return each row's Brier score and the log probability of its target; 0 for rows that are left out."""
    if layout == "multiclass":
        squares = tensors.class_square_errors(reading)
    else:
        scores, outcomes = tensors.event(reading, layout=layout, notion=DEFAULTS[layout])
        squares, _ = tensors.score_sums(scores, outcomes, reading.evaluated)
    logs = torch.where(reading.evaluated, reading.log_p_target, torch.zeros_like(reading.log_p_target))
    return squares, logs


def summed(squares: Tensor, logs: Tensor, evaluated: Tensor) -> Increments:
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
