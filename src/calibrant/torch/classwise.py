"""The classwise calibration error."""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor

from calibrant.errors import check_choice
from calibrant.inputs.predictions import Layout, Notion, Predictions
from calibrant.kernels.tensors import Reading
from calibrant.measures.binned import binned
from calibrant.measures.binned.binned import Closed, Norm
from calibrant.torch.base import Increments, ProbabilityMetric, check_bins, check_classes, check_notion
from calibrant.torch.binned import bins_of_device, bins_of_host, histograms_of

Reduction = Literal["mean", "sum", "none"]


class ClasswiseCalibrationError(ProbabilityMetric):
    r"""Classwise (static) calibration error: the calibration error of each class, reduced over classes.

    .. math:: \frac1C \sum_k \mathrm{CE}_k, \qquad \mathrm{CE}_k \text{ over uniform bins of class k's score}

    A drop-in for TorchUncertainty's metric. The mean is in [0, 1], lower is better. It is the plain mean of the
    classes' errors for every norm; `calibrant.classwise_calibration_error` combines l2 errors by the root of their
    mean square. A class absent from the targets counts like any other.

    Parameters
    ----------
    num_classes : int
        The number of classes.
    num_bins : int, default 15
        The number of bins of equal width, closed on the left as in `CalibrationError`.
    norm : {"l1", "l2", "max"}, default "l1"
        How the gaps of the bins combine within a class.
    reduction : {"mean", "sum", "none"} or None, default "mean"
        How the errors combine over classes; "none" and None return each error, (C,).
    notion : {"classwise", "multilabel"}, optional
        "multilabel" for independent labels: targets (N, C) of 0 and 1; rows need not sum to 1.
    closed, ignore_index, validate_args, logits, kwargs
        As in `CalibrationError`.

    Notes
    -----
    The state takes 24 bytes for each bin of each class, for any number of rows.

    References
    ----------
    Kull et al. (2019), arXiv 1910.12656. Nixon et al. (2019), arXiv 1904.01685.

    Examples
    --------
    >>> import torch
    >>> from calibrant.torch import ClasswiseCalibrationError
    >>> metric = ClasswiseCalibrationError(num_classes=3, reduction="none")
    >>> metric(torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3]]), torch.tensor([0, 2]))
    tensor([0.3000, 0.4000, 0.4000])
    """

    plot_upper_bound = 1.0
    of_labels = True

    counts: Tensor
    positives: Tensor
    score_sums: Tensor

    def __init__(
        self,
        num_classes: int,
        num_bins: int = 15,
        norm: Norm = "l1",
        reduction: Reduction | None = "mean",
        *,
        notion: Notion | None = None,
        closed: Closed = "left",
        ignore_index: int | None = None,
        validate_args: bool = True,
        logits: bool | None = None,
        **kwargs: Any,
    ) -> None:
        check_bins(num_bins, norm, closed)
        check_classes(num_classes)
        check_notion(notion, ("classwise", "multilabel"))
        if reduction is not None:
            check_choice("reduction", reduction, ("mean", "sum", "none"))
        super().__init__(
            layout="multilabel" if notion == "multilabel" else "multiclass",
            num_classes=num_classes,
            notion=notion or "classwise",
            ignore_index=ignore_index,
            logits=logits,
            validate_args=validate_args,
            make=("bins", num_bins, closed),
            **kwargs,
        )
        self.num_bins = num_bins
        self.norm: Norm = norm
        self.reduction = reduction
        self.closed: Closed = closed
        self._add_counts("counts", num_bins, num_classes)
        self._add_counts("positives", num_bins, num_classes)
        self._add_sums("score_sums", num_bins, num_classes)

    def _read_host_batch(self, predictions: Predictions, notion: Notion) -> Increments:
        return bins_of_host(predictions, notion, self.num_bins, self.closed)

    def _read_device_batch(self, reading: Reading, layout: Layout, notion: Notion) -> Increments:
        return bins_of_device(reading, layout, notion, self.num_bins, self.closed)

    def _value(self) -> Tensor:
        errors = binned.classwise_errors(histograms_of(self), 1.0, self.norm).errors
        if self.reduction == "sum":
            return self._scalar(errors.sum())
        return self._scalar(errors.mean() if self.reduction == "mean" else errors)
