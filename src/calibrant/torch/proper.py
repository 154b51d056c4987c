"""Proper scores: the Brier score and the negative log likelihood."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from calibrant.errors import InputError, check_choice
from calibrant.inputs.predictions import Notion
from calibrant.kernels import tensors
from calibrant.torch.adding import SCORES, Kept
from calibrant.torch.base import Batch, ProbabilityMetric, check_columns, check_notion

Reduction = Literal["mean", "sum", "none"]


class _MeanScore(ProbabilityMetric):
    """A proper score of each row, reduced. States: its sum, the numbers of terms and of infinite ones; or all terms."""

    of_labels = True
    _each: ClassVar[Literal["brier", "nll"]]

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
            kept=Kept(
                scores="whole" if notion in (None, "multilabel") else "event",
                each=self._each if self.keeps_rows else None,
            ),
            make=(type(self).__name__, "rows") if self.keeps_rows else ("proper scores",),
            **kwargs,
        )
        self.reduction = reduction
        self._raises_empty = self._halves = self.keeps_rows
        self._add_counts("total")
        self._add_counts("infinite")
        self._add_sums("brier_sum")
        self._add_sums("nll_sum")
        if self.keeps_rows:
            self._add_list(SCORES, torch.float32)

    @property
    def values(self) -> Tensor | list[Tensor]:
        """The sum of the scores so far; the scores of each batch if the reduction is "none" or None."""
        if not self.keeps_rows:
            return self._scalar(self._sum())
        state, kind = getattr(self, SCORES), self._scalar(0.0).dtype
        return [rows[~rows.isnan()].to(kind) for rows in ([state] if isinstance(state, Tensor) else state)]

    def _sum(self) -> float:
        if self._each == "nll" and int(self.infinite):
            return np.inf
        return float(tensors.joined(self.brier_sum if self._each == "brier" else self.nll_sum))

    def _value(self) -> Tensor:
        if self.keeps_rows:
            rows = self._gathered(SCORES)
            return self._scalar(rows[~rows.isnan()].cpu().numpy())
        total = int(self.total)
        return self._scalar(self._sum() if self.reduction == "sum" else self._sum() / total if total else np.nan)


class BrierScore(_MeanScore):
    r"""Brier score: the mean squared distance between predicted probabilities and outcomes.

    .. math:: \frac1N \sum_i (p_i - y_i)^2 \;\text{for (N,)}, \qquad
              \frac1N \sum_i \sum_k (p_{ik} - [y_i = k])^2 \;\text{for (N, C)}

    A proper score; lower is better. It is in [0, 1] for (N,) and in [0, 2] for (N, C). Probabilities are never clipped.
    A drop-in for TorchUncertainty's metric.

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

    Attributes
    ----------
    values : tensor, or list of tensors
        The sum of the scores so far; the scores of each batch if the reduction is "none" or None.

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

    _each = "brier"

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

    def _read(self, preds: Any, target: Any, *, apart: bool = False) -> Batch:
        n_classes = self.num_classes
        if n_classes is None or not (isinstance(preds, Tensor) and isinstance(target, Tensor)) or preds.ndim < 2:
            return super()._read(preds, target, apart=apart)
        if target.ndim == 2 and target.shape[1] == 1:
            target = target[:, 0]
        ensemble = preds.ndim == 3 and preds.shape[2] == n_classes and preds.shape[1] > 0
        if not (ensemble and tuple(target.shape) in ((len(preds),), (len(preds), n_classes))):
            return super()._read(preds, target, apart=apart)
        members = preds.shape[1]
        rows = preds.flatten(0, 1) if n_classes > 1 else preds.flatten()
        width, increments = super()._read(rows, target.repeat_interleave(members, 0), apart=True)
        for name in increments.keys() & {"total", "infinite"}:  # every row stands in the batch for each member
            increments[name] = increments[name] // members
        for name in increments.keys() & {"brier_sum", "nll_sum"}:
            increments[name] = increments[name] / members
        if SCORES in increments:
            increments[SCORES] = increments[SCORES].reshape(-1, members).mean(1)
        return Batch(width, increments)


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

    _each = "nll"

    def __init__(self, reduction: Reduction | None = "mean", *, num_classes: int | None = None, **kwargs: Any) -> None:
        super().__init__(num_classes, reduction, **kwargs)


class CategoricalNLL(NegativeLogLikelihood):
    """`NegativeLogLikelihood` by its name in TorchUncertainty, with the same parameters and values.

    Examples
    --------
    >>> import torch
    >>> from calibrant.torch import CategoricalNLL
    >>> CategoricalNLL(reduction="mean")(torch.tensor([[0.7, 0.3], [0.4, 0.6]]), torch.tensor([0, 1]))
    tensor(0.4338)
    """
