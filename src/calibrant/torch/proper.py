"""Proper scores: the Brier score and the negative log likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from calibrant.estimators import isotonic
from calibrant.inputs import Layout, Notion, Predictions
from calibrant.kernels import tensors
from calibrant.kernels.tensors import Reading
from calibrant.notions import read
from calibrant.table import ReliabilityTable
from calibrant.torch.base import Increments, ProbabilityMetric, check_notion
from calibrant.torch.sums import score_increments, score_sums_of_device, summed


class _MeanScore(ProbabilityMetric):
    """The mean of a proper score. States: its sum, the number of terms, the number of infinite terms."""

    total: Tensor
    infinite: Tensor
    brier_sum: Tensor
    nll_sum: Tensor

    def __init__(
        self,
        num_classes: int | None = None,
        *,
        notion: Notion | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        logits: bool | None = None,
        **kwargs: Any,
    ) -> None:
        check_notion(notion, ("positive", "top-label", "multilabel"), num_classes)
        super().__init__(
            layout="multilabel" if notion == "multilabel" else None,
            num_classes=num_classes,
            notion=notion,
            ignore_index=ignore_index,
            logits=logits,
            validate_args=validate_args,
            make=("proper scores",),
            **kwargs,
        )
        self._add_counts("total")
        self._add_counts("infinite")
        self._add_sums("brier_sum")
        self._add_sums("nll_sum")

    def _read_host_batch(self, predictions: Predictions, notion: Notion) -> Increments:
        if self.notion in (None, "multilabel") or (predictions.layout == "binary" and notion == "positive"):
            reading = read(predictions, notion)
            return score_increments(reading.total, reading.means.brier, reading.means.nll, reading.means.infinite)
        table = ReliabilityTable.pool(read(predictions, notion, scoring=False).events)
        brier, nll = isotonic.table_score(table, "brier"), isotonic.table_score(table, "log")
        return score_increments(table.total, brier, nll, table.impossible)

    def _read_device_batch(self, reading: Reading, layout: Layout, notion: Notion) -> Increments:
        if self.notion in (None, "multilabel"):
            return score_sums_of_device(reading, layout)
        scores, outcomes = tensors.event(reading, layout=layout, notion=notion)
        return summed(*tensors.score_sums(scores, outcomes, reading.judged), reading.judged)

    def plot(self, val: Any = None, ax: Any = None) -> tuple[Any, Any]:
        """Draw the metric's value, or ``val``, as torchmetrics does."""
        return self._plot(val, ax)


class BrierScore(_MeanScore):
    r"""Brier score: the mean squared distance between predicted probabilities and outcomes.

    .. math:: \frac1N \sum_i (p_i - y_i)^2 \;\text{for (N,)}, \qquad
              \frac1N \sum_i \sum_k (p_{ik} - [y_i = k])^2 \;\text{for (N, C)}

    A proper score, lower is better, in [0, 1] and [0, 2]. Never clipped.

    Parameters
    ----------
    num_classes : int, optional
        Used only to check the number of columns.
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

    def _value(self) -> Tensor:
        total = int(self.total)
        return self._scalar(float(tensors.joined(self.brier_sum)) / total if total else np.nan)


class NegativeLogLikelihood(_MeanScore):
    r"""Negative log likelihood (log loss, cross-entropy): the mean of :math:`-\log p_y`, in nats.

    A proper score, from 0 to infinity, lower is better. It is infinite if an outcome had probability 0; the state
    ``infinite`` counts such rows. Logits go through log-sum-exp, which does not overflow.

    Parameters
    ----------
    num_classes, notion, ignore_index, validate_args, logits, kwargs
        As in `BrierScore`.

    Examples
    --------
    >>> import torch
    >>> from calibrant.torch import NegativeLogLikelihood
    >>> NegativeLogLikelihood()(torch.tensor([[0.7, 0.3], [0.4, 0.6]]), torch.tensor([0, 1]))
    tensor(0.4338)
    """

    def _value(self) -> Tensor:
        total, infinite = int(self.total), int(self.infinite)
        mean = float(tensors.joined(self.nll_sum)) / total if total else np.nan
        return self._scalar(np.inf if infinite else mean)
