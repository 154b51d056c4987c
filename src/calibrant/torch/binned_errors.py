"""Calibration errors over bins: of one event in bins of equal width or equal frequency, and of each class."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final, Literal

import numpy as np
from torch import Tensor

from calibrant.errors import InputError, check_choice, renaming
from calibrant.inputs.predictions import Layout, Notion
from calibrant.kernels import tensors
from calibrant.measures.binned import binned
from calibrant.measures.binned.binned import Bins, Closed, Norm
from calibrant.measures.binned.certified import sized_bound
from calibrant.plot import diagrams
from calibrant.table import GridCells, ReliabilityTable
from calibrant.torch.adding import Kept
from calibrant.torch.base import ProbabilityMetric, check_bins, check_classes, check_notion, no_batch
from calibrant.torch.tables import State, TableMetric

Task = Literal["binary", "multiclass"]

TASKS: Final = ("binary", "multiclass")


class CalibrationError(TableMetric):
    r"""Calibration error over bins of the score: ECE, MCE or RMSCE, in constant memory.

    A drop-in for TorchUncertainty's `CalibrationError` and, with ``num_bins`` for ``n_bins``, for torchmetrics'. As
    there, the metric that is made has the class of its task and bins: `BinaryCalibrationError`,
    `MulticlassCalibrationError`, `BinaryAdaptiveCalibrationError` or `MulticlassAdaptiveCalibrationError`. With
    :math:`o_b` the share of the rows in bin b, :math:`P_b` their mean score and :math:`Y_b` their mean outcome:

    .. math:: \mathrm{ECE} = \sum_b o_b |P_b - Y_b| \;(\text{l1}), \quad
              \mathrm{RMSCE} = \Bigl(\sum_b o_b (P_b - Y_b)^2\Bigr)^{1/2} (\text{l2}), \quad
              \mathrm{MCE} = \max_b |P_b - Y_b| \;(\text{max})

    All are in [0, 1], lower is better; empty bins add nothing. Without ``notion`` the evaluated event is that of
    TorchUncertainty:

    ========================  ================================  =====================
    metric                    binary                            multiclass
    ========================  ================================  =====================
    uniform bins              the label is 1, with p            the top label, max p
    adaptive bins             the predicted class, max(p, 1-p)  the top label, max p
    smooth error              the predicted class, max(p, 1-p)  the top label, max p
    Brier score, likelihood   the label, with p                 the whole row
    classwise                 (no classes)                      each class, its score
    ========================  ================================  =====================

    Uniform bins are closed on the left here, as in torchmetrics; the functions of calibrant, scikit-learn and the
    papers close them on the right. 1 is in the last bin either way. Edges are j / M, rounded to the type of the
    scores. Adaptive bins hold N // M rows each, and the first N % M one more. Tied scores on both sides of a boundary
    share their outcomes, so the order of rows has no effect. With adaptive bins a binary score of 0.5 predicts class 0,
    as in TorchUncertainty; in the smooth error it predicts class 1.

    Parameters
    ----------
    task : {"binary", "multiclass"}, or torchmetrics' enumeration
        (N,) probabilities of class 1, or (N, C), (N, C, ...) probabilities of C classes.
    adaptive : bool, default False
        Whether bins have equal frequency, not equal width. The state then grows, unless it is a sketch: see ``state``.
    num_bins : int, default 10
        The number of bins.
    norm : {"l1", "l2", "max"}, default "l1"
        ECE, RMSCE or MCE.
    num_classes : int, optional
        The number of classes; needed for ``task="multiclass"``.
    ignore_index : int, optional
        Rows with this target are left out, with both kinds of bins.
    validate_args : bool, default True
        False also evaluates rows that do not sum to 1, such as rows of sigmoid heads, and skips the checks that cost a
        pass over the data or a wait for the device. Bad values on a GPU then give wrong numbers. On the CPU bad values
        are still rejected, because these checks need no extra pass.
    notion : {"positive", "top-label", "classwise"}, optional
        The evaluated event. "classwise" combines the classes' errors as `calibrant.classwise_calibration_error` does.
    closed : {"left", "right"}, default "left"
        The edge that belongs to a uniform bin.
    logits : bool, optional
        Whether predictions are logits. By default the first batch decides: values outside [0, 1] are logits.
    state : {"rows", "sketch"}, default "rows"
        What adaptive bins keep: "rows", 4 bytes each (8 in double precision), or "sketch", 176 kB for any number of
        rows (for each class, with ``notion="classwise"``). From a sketch the value has a certified error,
        ``error_bound``, and `sketch` returns all batches so far. Bins of equal width need no sketch: they are exact
        in constant memory.
    kwargs
        Passed on to `torchmetrics.Metric`: ``sync_on_compute``, ``dist_sync_on_step``, ...

    Attributes
    ----------
    error_bound : float or None
        How far the last value can be from the exact one, before rounding: 0 unless the state is a sketch.
    n_bins : int
        The number of bins, as ``num_bins``.
    confidences, accuracies : list of tensors
        The score and the outcome of each evaluated row, in a tensor for each batch. Only adaptive bins with
        ``state="rows"`` keep them.

    Raises
    ------
    TypeError
        For ``task="multiclass"`` without an integer ``num_classes``.
    calibrant.errors.InputError
        A `ValueError`: for unknown options, and for ``n_bins`` (its name here is ``num_bins``). `update` raises, before
        the state changes, for tensors of the wrong shape, type or device, for NaN, for labels out of range, for logits
        after probabilities, and for rows of probabilities after logits. On a GPU `update` does not look at values:
        `compute` raises. `compute` also raises before the first batch. Errors of `update` and `compute` are also a
        `RuntimeError` and an `IndexError`.

    Notes
    -----
    The value has single precision, unless any batch was double. If all batches have half precision, so has the value of
    binary predictions in bins of equal width, as in torchmetrics. Counts are integers and sums double for any type of
    data. The state of uniform bins takes 24 bytes a bin plus 136; ranks of a distributed run add theirs.

    References
    ----------
    Naeini, Cooper, Hauskrecht (2015), AAAI. Guo, Pleiss, Sun, Weinberger (2017), arXiv 1706.04599. Nixon et al.
    (2019), arXiv 1904.01685.

    Examples
    --------
    >>> import torch
    >>> from calibrant.torch import CalibrationError
    >>> predicted_probs = torch.tensor([0.9, 0.8, 0.3, 0.2])
    >>> true_labels = torch.tensor([1, 1, 0, 0])
    >>> metric = CalibrationError(task="binary", num_bins=5, norm="l1", adaptive=False)
    >>> metric(predicted_probs, true_labels)
    tensor(0.2000)
    >>> CalibrationError(task="binary", num_bins=5, adaptive=True)(predicted_probs, true_labels)
    tensor(0.2000)
    """

    plot_upper_bound = 1.0
    _raises_empty = True

    counts: Tensor
    positives: Tensor
    score_sums: Tensor

    def __init__(
        self,
        task: Task,
        adaptive: bool = False,
        num_bins: int = 10,
        norm: Norm = "l1",
        num_classes: int | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        *,
        notion: Notion | None = None,
        closed: Closed = "left",
        logits: bool | None = None,
        state: State = "rows",
        **kwargs: Any,
    ) -> None:
        kwargs.pop("n_bins", None)  # None: `check_keywords` has refused numbers
        task = str(task.value if isinstance(task, Enum) else task).lower()  # type: ignore[assignment]
        check_choice("task", task, TASKS)
        check_bins(num_bins, norm, closed)
        if task == "multiclass":
            check_classes(num_classes)
        check_notion(notion, ("positive", "top-label", "classwise")[: 2 if task == "binary" else 3], num_classes)
        classes = num_classes if task == "multiclass" else None
        is_folded = task == "binary" and notion != "positive"
        half: Any = int(not is_folded)  # 0.5 predicts class 0 then
        make: tuple[Any, ...] = ("rows", "half 0") if adaptive else ("bins", num_bins, closed)
        if state == "sketch":
            notion, make = notion or "top-label", ("sketch", f"half {half}")
        super().__init__(
            state=state,
            half=half,
            bins=None if adaptive else (num_bins, closed),
            layout=task,
            num_classes=classes,
            notion=notion,
            ignore_index=ignore_index,
            logits=logits,
            validate_args=validate_args,
            make=make,
            **kwargs,
        )
        self.adaptive = adaptive
        self.num_bins = num_bins
        self.norm: Norm = norm
        self.closed: Closed = closed
        self.error_bound: float | None = None
        self._halves = task == "binary" and not adaptive
        if not adaptive:
            columns = () if notion != "classwise" or classes is None else (classes,)
            self._add_counts("counts", num_bins, *columns)
            self._add_counts("positives", num_bins, *columns)
            self._add_sums("score_sums", num_bins, *columns)
        if type(self) in (CalibrationError, AdaptiveCalibrationError):  # a caller's own subclass keeps its name
            object.__setattr__(self, "__class__", _NAMED[task, bool(adaptive)])

    @property
    def n_bins(self) -> int:
        """The number of bins, by the name of torchmetrics."""
        return self.num_bins

    def _notion_of(self, layout: Layout) -> Notion:
        return "top-label" if self.adaptive and self.notion is None else super()._notion_of(layout)

    def _value(self) -> Tensor:
        self._bins = None
        if self.adaptive:
            errors = [self._adaptive(table) for table in self._tables() if len(table)]
            # By the triangle inequality, the norm of the classes' error bounds is a bound of the norm of their errors.
            value, self.error_bound = (
                binned.combine(np.array([part[i] for part in errors]), self.norm) for i in (0, 1)
            )
            if self.notion != "classwise" and errors:
                self._bins = errors[0][2]
            return self._scalar(value)
        self.error_bound = 0.0
        if self.notion == "classwise":
            return self._scalar(binned.classwise_errors(histograms_of(self), 1.0, self.norm).value)
        bins = bins_of(self.counts, self.positives, self.score_sums)
        self._bins = bins if bins.total > 0 else None
        return self._scalar(np.nan if self._bins is None else binned.calibration_error(self._bins, self.norm))

    def _adaptive(self, table: ReliabilityTable) -> tuple[float, float, Bins]:
        """Return the error over bins of equal frequency, its error bound, and the bins."""
        sizes = binned.even_sizes(table.n, self.num_bins, "first")
        bins = binned.sized_bins(table, sizes)
        value, cells = binned.calibration_error(bins, self.norm), GridCells.of(table)
        return value, 0.0 if cells is None else sized_bound(cells, sizes, self.norm, value), bins

    def plot(  # type: ignore[override] # the arguments of TorchUncertainty
        self,
        title: Any = None,
        rd_xlabel: Any = None,
        rd_ylabel: str | None = None,
        ch_xlabel: str | None = None,
        ch_ylabel: str | None = None,
        *,
        val: Any = None,
        ax: Any = None,
    ) -> tuple[Any, Any]:
        """Draw the reliability diagram of all batches so far, above a histogram of the scores.

        The labels of the axes are those of TorchUncertainty, unless ``notion`` was passed to the metric.
        ``plot(val, ax)`` draws a value, or several in turn, as in torchmetrics: a first argument that is not text is
        taken as ``val``, and a second argument that is not text as ``ax``.

        Returns
        -------
        figure, axes
            From matplotlib; the number in the picture is the metric's value.

        Raises
        ------
        calibrant.errors.InputError
            Before the first batch, and for ``notion="classwise"``, which has no single diagram.
        """
        val, title = (val, title) if title is None or isinstance(title, str) else (title, None)
        ax, rd_xlabel = (ax, rd_xlabel) if rd_xlabel is None or isinstance(rd_xlabel, str) else (rd_xlabel, None)
        if val is not None or ax is not None:
            return self._plot(val, ax)
        if self.notion == "classwise":
            raise InputError(
                "notion",
                "a notion with a single event, because a plot shows one event",
                "'classwise'",
                "make a binary metric of one class, and plot it",
            )
        value = float(self.compute())
        if self._bins is None:
            raise no_batch("plot")
        # Without a notion, the labels are those of TorchUncertainty, for every event.
        words, share = (diagrams.WORDS[self.notion], diagrams.SHARE) if self.notion else diagrams.DROP_IN
        kind, adaptive = {"l1": "ECE", "l2": "RMSCE", "max": "MCE"}[self.norm], "Adaptive " * bool(self.adaptive)
        return diagrams.reliability_figure(
            binned.diagram(self._bins, weighted=False),
            number=f"{adaptive}{kind} = {value:.2%}",
            title=title or f"{adaptive}Reliability Diagram",
            labels=(rd_xlabel or words[0], rd_ylabel or words[1], ch_xlabel or words[0], ch_ylabel or share),
        )


class AdaptiveCalibrationError(CalibrationError):
    """Calibration error over bins of equal frequency: `CalibrationError` with ``adaptive=True``.

    Parameters
    ----------
    task, num_bins, norm, num_classes, ignore_index, validate_args, notion, logits, state, kwargs
        As in `CalibrationError`.

    Attributes
    ----------
    error_bound : float or None
        As in `CalibrationError`.

    References
    ----------
    Nixon et al. (2019), arXiv 1904.01685.

    Examples
    --------
    >>> import torch
    >>> from calibrant.torch import AdaptiveCalibrationError
    >>> metric = AdaptiveCalibrationError(task="binary", num_bins=2)
    >>> metric.update(torch.tensor([0.5, 0.5, 0.5, 0.5]), torch.tensor([1, 1, 0, 0]))
    >>> metric.compute()
    tensor(0.)

    In constant memory, with the error that this can cause:

    >>> metric = AdaptiveCalibrationError(task="binary", num_bins=2, state="sketch")
    >>> metric(torch.tensor([0.2, 0.4, 0.6, 0.8]), torch.tensor([1, 0, 0, 1])), metric.error_bound
    (tensor(0.2000), 0.0)
    >>> metric.sketch()
    <CalibrationSketch: 4 rows, top-label, standard grid, 176 kB>
    """

    def __init__(
        self,
        task: Task,
        num_bins: int = 10,
        norm: Norm = "l1",
        num_classes: int | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            task,
            adaptive=True,
            num_bins=num_bins,
            norm=norm,
            num_classes=num_classes,
            ignore_index=ignore_index,
            validate_args=validate_args,
            **kwargs,
        )


class BinaryCalibrationError(CalibrationError):
    """`CalibrationError` of one event, with the arguments of torchmetrics' class of this name.

    Parameters
    ----------
    n_bins : int, default 15
        The number of bins of equal width.
    norm, ignore_index, validate_args, notion, closed, logits, kwargs
        As in `CalibrationError`.

    Examples
    --------
    >>> import torch
    >>> from calibrant.torch import BinaryCalibrationError
    >>> metric = BinaryCalibrationError(n_bins=5)
    >>> metric(torch.tensor([0.9, 0.8, 0.3, 0.2]), torch.tensor([1, 1, 0, 0]))
    tensor(0.2000)
    """

    def __init__(
        self,
        n_bins: int = 15,
        norm: Norm = "l1",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        with renaming(num_bins="n_bins"):
            super().__init__("binary", False, n_bins, norm, None, ignore_index, validate_args, **kwargs)


class MulticlassCalibrationError(CalibrationError):
    """`CalibrationError` of the top label of classes, with the arguments of torchmetrics' class of this name.

    Parameters
    ----------
    num_classes : int
        The number of classes.
    n_bins : int, default 15
        The number of bins of equal width.
    norm, ignore_index, validate_args, notion, closed, logits, kwargs
        As in `CalibrationError`.

    Examples
    --------
    >>> import torch
    >>> from calibrant.torch import MulticlassCalibrationError
    >>> metric = MulticlassCalibrationError(num_classes=3, n_bins=2)
    >>> metric(torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3]]), torch.tensor([0, 2]))
    tensor(0.0500)
    """

    def __init__(
        self,
        num_classes: int,
        n_bins: int = 15,
        norm: Norm = "l1",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        with renaming(num_bins="n_bins"):
            super().__init__("multiclass", False, n_bins, norm, num_classes, ignore_index, validate_args, **kwargs)


class BinaryAdaptiveCalibrationError(AdaptiveCalibrationError):
    """`AdaptiveCalibrationError` of one event, with the arguments of TorchUncertainty's class of this name.

    Parameters
    ----------
    n_bins : int, default 10
        The number of bins of equal frequency.
    norm, ignore_index, validate_args, notion, logits, state, kwargs
        As in `CalibrationError`.

    Examples
    --------
    >>> import torch
    >>> from calibrant.torch import BinaryAdaptiveCalibrationError
    >>> BinaryAdaptiveCalibrationError(n_bins=2)(torch.tensor([0.9, 0.8, 0.3, 0.2]), torch.tensor([1, 1, 0, 0]))
    tensor(0.2000)
    """

    def __init__(
        self,
        n_bins: int = 10,
        norm: Norm = "l1",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        with renaming(num_bins="n_bins"):
            super().__init__("binary", n_bins, norm, None, ignore_index, validate_args, **kwargs)


class MulticlassAdaptiveCalibrationError(AdaptiveCalibrationError):
    """`AdaptiveCalibrationError` of the top label, with the arguments of TorchUncertainty's class of this name.

    Parameters
    ----------
    num_classes : int
        The number of classes.
    n_bins : int, default 10
        The number of bins of equal frequency.
    norm, ignore_index, validate_args, notion, logits, state, kwargs
        As in `CalibrationError`.

    Examples
    --------
    >>> import torch
    >>> from calibrant.torch import MulticlassAdaptiveCalibrationError
    >>> metric = MulticlassAdaptiveCalibrationError(num_classes=3, n_bins=2)
    >>> metric(torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3]]), torch.tensor([0, 2]))
    tensor(0.4500)
    """

    def __init__(
        self,
        num_classes: int,
        n_bins: int = 10,
        norm: Norm = "l1",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        with renaming(num_bins="n_bins"):
            super().__init__("multiclass", n_bins, norm, num_classes, ignore_index, validate_args, **kwargs)


_NAMED: Final = {
    ("binary", False): BinaryCalibrationError,
    ("multiclass", False): MulticlassCalibrationError,
    ("binary", True): BinaryAdaptiveCalibrationError,
    ("multiclass", True): MulticlassAdaptiveCalibrationError,
}


# ---------------------------------------------------------------- uniform bins in the states of metrics


def histograms_of(metric: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return a metric's histograms (3, bins, classes): counts, sums of scores, sums of outcomes."""
    states = (metric.counts, tensors.joined(metric.score_sums), metric.positives)
    return np.stack([state.cpu().numpy().astype(np.float64) for state in states])


def bins_of(counts: Tensor, positives: Tensor, score_sums: Tensor) -> Bins:
    """Return the bins that the states hold; squared residuals are not kept (NaN)."""
    mass, outcomes = counts.cpu().numpy().astype(np.float64), positives.cpu().numpy().astype(np.float64)
    sums = tensors.joined(score_sums).numpy()
    return Bins(binned.uniform_edges(len(mass)), mass, sums, outcomes, np.full(len(mass), np.nan))


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
    _raises_empty = True
    _halves = True

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
            kept=Kept(bins=(num_bins, closed)),
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

    def _value(self) -> Tensor:
        errors = binned.classwise_errors(histograms_of(self), 1.0, self.norm).errors
        if self.reduction == "sum":
            return self._scalar(errors.sum())
        return self._scalar(errors.mean() if self.reduction == "mean" else errors)
