"""Measures of the evaluated event's table as metrics: each is the function of calibrant, over all batches."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import numpy as np
from torch import Tensor

from calibrant.errors import InputError, check_choice
from calibrant.inputs.predictions import Notion
from calibrant.measures.cumulative.cumulative import RANGE, kuiper_bound
from calibrant.measures.event import Event
from calibrant.measures.line.line import calibration_intercept, calibration_slope
from calibrant.measures.loess.loess import SPAN, check_span, integrated_calibration_index
from calibrant.measures.means.in_the_large import observed_expected_ratio
from calibrant.measures.means.skill import LOG_LOSS_SKILL
from calibrant.measures.measure import Measure, Unavailable
from calibrant.measures.ranking.auroc import Placements, area_bound
from calibrant.measures.smooth import mesh
from calibrant.measures.smooth.smooth import event_error
from calibrant.measures.smooth.without_bins import lipschitz_error, truthful_square
from calibrant.table import GridCells
from calibrant.torch.base import check_notion
from calibrant.torch.tables import State, TableMetric


class _TableFunction(TableMetric):
    """A function of the evaluated event's table, with the parameters of `AUROC`."""

    #: The function of a table with rows, and the attributes that are its further arguments.
    _function: ClassVar[Callable[..., float]]
    _arguments: ClassVar[tuple[str, ...]] = ()
    #: The certified error of the value of a sketch; NaN if none is known.
    _bound: ClassVar[Callable[[GridCells], float]] = lambda cells: math.nan  # noqa: ARG005

    def __init__(
        self,
        *,
        notion: Notion | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        logits: bool | None = None,
        state: State = "rows",
        **kwargs: Any,
    ) -> None:
        check_notion(notion, ("positive", "top-label"))
        super().__init__(
            state=state,
            notion=notion,
            ignore_index=ignore_index,
            logits=logits,
            validate_args=validate_args,
            **kwargs,
        )
        self.error_bound: float | None = None

    def _value(self) -> Tensor:
        table = self._tables()[0]
        if not len(table):
            self.error_bound = math.nan
            return self._scalar(math.nan)
        cells, metric = GridCells.of(table), type(self)
        self.error_bound = 0.0 if cells is None else metric._bound(cells)
        return self._scalar(metric._function(table, **{name: getattr(self, name) for name in self._arguments}))


class AUROC(_TableFunction):
    """Area under the ROC curve: how well the scores tell the outcomes apart.

    In [0, 1], higher is better; NaN if all outcomes are equal. `calibrant.auroc` gives the formula.

    Parameters
    ----------
    notion : {"positive", "top-label"}, optional
        The evaluated event. By default class 1 of (N,) and (N, 1), and whether the top label of (N, C) is right.
    state : {"rows", "sketch"}, default "rows"
        What is kept: 4 bytes a row, 8 in double precision; or 176 kB for any number of rows. In a sketch two scores of
        one cell count as tied.
    ignore_index, validate_args, logits, kwargs
        As in `CalibrationError`.

    Attributes
    ----------
    error_bound : float or None
        How far the last value can be from the exact one, before rounding to the precision of the data: 0 with
        ``state="rows"``; with a sketch a certified bound, or NaN if no bound is known.

    Raises
    ------
    calibrant.errors.InputError
        For invalid options; from `update` as in `CalibrationError`.

    Examples
    --------
    >>> import torch
    >>> from calibrant.torch import AUROC
    >>> metric = AUROC(state="sketch")
    >>> metric.update(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1]))
    >>> metric.compute()
    tensor(0.7500)
    """

    higher_is_better = True
    plot_upper_bound = 1.0
    _function = lambda table: Placements.of(table).area  # noqa: E731
    _bound = area_bound


class KuiperCalibrationError(_TableFunction):
    """Kuiper's calibration error: the range of the cumulative residuals; `calibrant.kuiper_calibration_error`.

    In [0, 1], lower is better. Parameters, attributes and errors are those of `AUROC`.

    Examples
    --------
    >>> import torch
    >>> from calibrant.torch import KuiperCalibrationError
    >>> KuiperCalibrationError()(torch.tensor([0.2, 0.4, 0.6, 0.8]), torch.tensor([0, 1, 1, 1]))
    tensor(0.3000)
    """

    plot_upper_bound = 1.0
    _function = RANGE.error
    _bound = kuiper_bound


class IntegratedCalibrationIndex(_TableFunction):
    """Integrated calibration index (ICI): the mean difference between the scores and a loess curve of the outcomes.

    In [0, 1], lower is better. `calibrant.integrated_calibration_index` gives the curve. Other parameters, attributes
    and errors are those of `AUROC`; with a sketch, ``error_bound`` is NaN.

    Parameters
    ----------
    span : float, default 0.75
        The share of the rows that each local line of the loess curve is fitted to.

    Examples
    --------
    >>> import torch
    >>> from calibrant.torch import IntegratedCalibrationIndex
    >>> IntegratedCalibrationIndex()(torch.tensor([0.5, 0.5, 0.5, 0.5]), torch.tensor([1, 1, 1, 0]))
    tensor(0.2500)
    """

    plot_upper_bound = 1.0
    _function = integrated_calibration_index
    _arguments = ("span",)

    def __init__(self, span: float = SPAN, **options: Any) -> None:
        check_span(span)
        super().__init__(**options)
        self.span = span


class TruthfulCalibrationError(_TableFunction):
    """Truthful calibration error (ATB): the squared error of two bins, averaged over all cuts.

    In [0, 1], lower is better. `calibrant.truthful_calibration_error` gives the formula. Parameters, attributes and
    errors are those of `AUROC`; with a sketch, ``error_bound`` is NaN.

    Examples
    --------
    >>> import torch
    >>> from calibrant.torch import TruthfulCalibrationError
    >>> TruthfulCalibrationError()(torch.tensor([0.5, 0.5, 0.5]), torch.tensor([1, 1, 1]))
    tensor(0.2500)
    """

    plot_upper_bound = 1.0
    _function = truthful_square


class LipschitzCalibrationError(_TableFunction):
    """Lipschitz calibration error (smCE): the largest mean of h(p) (y - p) over 1-Lipschitz functions h of the score p.

    In [0, 1], lower is better. `calibrant.lipschitz_calibration_error` gives the formula. Parameters, attributes and
    errors are those of `AUROC`; with a sketch, ``error_bound`` is NaN.

    Examples
    --------
    >>> import torch
    >>> from calibrant.torch import LipschitzCalibrationError
    >>> LipschitzCalibrationError()(torch.tensor([0.5, 0.5]), torch.tensor([1, 1]))
    tensor(0.5000)
    """

    plot_upper_bound = 1.0
    _function = lipschitz_error


class CalibrationSlope(_TableFunction):
    """Calibration slope: 1 is right, below 1 the scores are too extreme; `calibrant.calibration_slope`.

    NaN with one distinct score or if all outcomes are equal; infinite if a threshold separates the outcomes.
    Parameters, attributes and errors are those of `AUROC`; with a sketch, ``error_bound`` is NaN.

    Examples
    --------
    >>> import torch
    >>> from calibrant.torch import CalibrationSlope
    >>> metric = CalibrationSlope()
    >>> metric.update(torch.tensor([0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9]), torch.tensor([0, 1, 0, 1, 1, 0, 1, 1]))
    >>> metric.compute()
    tensor(0.7002)
    """

    higher_is_better = None
    plot_lower_bound = None
    _function = calibration_slope


class CalibrationIntercept(_TableFunction):
    """Calibration intercept, in log-odds: 0 is right, above 0 events occur more often than the scores say.

    `calibrant.calibration_intercept` gives the formula. Infinite if all outcomes are equal. Parameters, attributes and
    errors are those of `AUROC`; with a sketch, ``error_bound`` is NaN.

    Examples
    --------
    >>> import torch
    >>> from calibrant.torch import CalibrationIntercept
    >>> CalibrationIntercept()(torch.tensor([0.5, 0.5, 0.5, 0.5]), torch.tensor([1, 1, 1, 0]))
    tensor(1.0986)
    """

    higher_is_better = None
    plot_lower_bound = None
    _function = calibration_intercept


class ObservedExpectedRatio(_TableFunction):
    """Ratio of observed to expected outcomes, O:E: 1 is right, above 1 the scores are too low.

    `calibrant.observed_expected_ratio` gives the formula. NaN if every score is 0. Parameters, attributes and errors
    are those of `AUROC`. From a sketch it is exact.

    Examples
    --------
    >>> import torch
    >>> from calibrant.torch import ObservedExpectedRatio
    >>> ObservedExpectedRatio()(torch.tensor([0.25, 0.25, 0.5, 1.0]), torch.tensor([0, 1, 0, 1]))
    tensor(1.)
    """

    higher_is_better = None
    _function = observed_expected_ratio
    _bound = lambda cells: 0.0  # noqa: ARG005, E731


def _metric_of(name: str, measure: Measure) -> type[_TableFunction]:
    """Return the metric of a measure of the evaluated event's table."""
    bound = measure.bound

    def _bound(cells: GridCells) -> float:
        return math.nan if isinstance(bound, Unavailable) else bound(Event(table=cells.table))

    doc = f"""The {measure.label}. {measure.meaning}

    `calibrant.{measure.functions[0].__name__}` gives the formula. Parameters, attributes and errors are those of
    `AUROC`.
    """
    attributes = {
        "__doc__": doc,
        "__module__": __name__,
        "__qualname__": name,
        "higher_is_better": {"lower": False, "higher": True, "neither": None}[measure.better],
        "_function": staticmethod(lambda table: measure.value(Event(table=table))),
        "_bound": staticmethod(_bound),
    }
    return type(name, (_TableFunction,), attributes)


LogLossSkill = _metric_of("LogLossSkill", LOG_LOSS_SKILL)


class SmoothCalibrationError(TableMetric):
    r"""Smooth calibration error (smECE): kernel-smoothed residuals, with a bandwidth equal to the error.

    A drop-in for TorchUncertainty's metric. The numbers equal those of relplot 1.0 (`smECE` for the reflected kernel
    with ``bandwidth="auto"``, `smECE_sigma` for a bandwidth), or are exact with ``method="exact"``. In [0, 1], lower
    is better; it has no bins. `calibrant.smooth_calibration_error` gives the formula.

    Parameters
    ----------
    kernel_type : {"logit", "reflected"}, default "logit"
        "logit": a Gaussian in log-odds, finer near 0 and 1; it has no theory, but people use it. "reflected": a
        Gaussian in the probability, reflected at 0 and 1, as in the paper.
    bandwidth : float or "auto", default "auto"
        The kernel's bandwidth; "auto" searches from 1 downwards for the fixed point.
    eps : float, default 0.001
        The search stops below this bandwidth; 0 or larger.
    mesh_pts : int, default 200
        The least number of grid points, 0 or larger; a bandwidth h needs at least 10 / h.
    refine_steps : int, default 10
        The number of halvings in the search. With 0, the bandwidth is 1.
    method : {"mesh", "exact"}, default "mesh"
        "exact" has an error below 1e-7. It needs the reflected kernel, and rejects the three options above.
    notion : {"top-label", "positive"}, optional
        The evaluated event. By default the predicted class: max(p, 1 - p) of (N,) and (N, 1) (0.5 predicts class 1),
        the top label of (N, C).
    state : {"rows", "sketch"}, default "rows"
        "sketch" keeps 176 kB for any number of rows; it needs ``method="exact"``. The value then has a certified
        error, ``error_bound``, and `sketch` returns all batches so far.
    ignore_index, validate_args, logits, kwargs
        As in `CalibrationError`.

    Attributes
    ----------
    final_bandwidth : float or None
        The bandwidth of the last `compute`.
    confidences, accuracies : list of tensors
        The score and the outcome of each evaluated row, in a tensor for each batch, with ``state="rows"``.
    error_bound : float or None
        How far the last value can be from the exact one, before rounding to the precision of the data: below 1e-7
        from rows; NaN for the mesh, whose error is unknown.

    Raises
    ------
    calibrant.errors.InputError
        For invalid options; from `update` as in `CalibrationError`.

    Notes
    -----
    The state keeps the rows, 4 bytes each (score and outcome together), 8 in double precision, or a sketch.

    References
    ----------
    Błasiok, Nakkiran (2024), arXiv 2309.12236.

    Examples
    --------
    >>> import torch
    >>> from calibrant.torch import SmoothCalibrationError
    >>> metric = SmoothCalibrationError(kernel_type="reflected")
    >>> metric.update(torch.tensor([0.9, 0.8, 0.3, 0.2]), torch.tensor([1, 1, 1, 0]))
    >>> metric.compute(), metric.final_bandwidth
    (tensor(0.1186), 0.1201171875)
    >>> SmoothCalibrationError("reflected", method="exact")(torch.tensor([0.5, 0.5]), torch.tensor([1, 1]))
    tensor(0.5000)
    """

    plot_upper_bound = 1.0
    _raises_empty = True

    def __init__(
        self,
        kernel_type: Literal["logit", "reflected"] = "logit",
        bandwidth: float | Literal["auto"] = "auto",
        eps: float = 0.001,
        mesh_pts: int = 200,
        refine_steps: int = 10,
        *,
        method: Literal["mesh", "exact"] = "mesh",
        notion: Notion | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        logits: bool | None = None,
        state: State = "rows",
        **kwargs: Any,
    ) -> None:
        check_choice("kernel_type", kernel_type, ("logit", "reflected"))
        check_choice("method", method, ("mesh", "exact"))
        check_notion(notion, ("positive", "top-label"))
        self._check_options(
            kernel_type, bandwidth, eps=eps, mesh_pts=mesh_pts, refine_steps=refine_steps, method=method
        )
        if state == "sketch" and method == "mesh":
            remedy = "pass kernel_type='reflected' and method='exact', or leave state out"
            raise InputError("state", "'rows', because method='mesh' needs the rows", "'sketch'", remedy)
        super().__init__(
            state=state,
            notion=notion or "top-label",
            ignore_index=ignore_index,
            logits=logits,
            validate_args=validate_args,
            **kwargs,
        )
        self.kernel_type: Literal["logit", "reflected"] = kernel_type
        self.bandwidth: float | Literal["auto"] = bandwidth
        self.eps = eps
        self.mesh_pts = mesh_pts
        self.refine_steps = refine_steps
        self.method = method
        self.final_bandwidth: float | None = None
        self.error_bound: float | None = None

    def _check_options(
        self, kernel_type: str, bandwidth: Any, *, eps: float, mesh_pts: int, refine_steps: int, method: str
    ) -> None:
        """Reject invalid options now, not in `compute`."""
        if method == "exact":
            if kernel_type == "logit":
                remedy = "leave method out, or pass kernel_type='reflected'"
                raise InputError("method", "'mesh' for the logit kernel", "'exact'", remedy)
            if (eps, mesh_pts, refine_steps) != (0.001, 200, 10):
                raise InputError(
                    "mesh_pts",
                    "no mesh options with method='exact'",
                    "a mesh option",
                    "leave eps, mesh_pts and refine_steps out",
                )
        names = {"mesh_points": "mesh_pts", "tolerance": "eps"}
        try:
            mesh.check_options(kernel_type, bandwidth, mesh_pts, eps, refine_steps)
        except InputError as error:
            raise error.renamed(names) from None

    def _value(self) -> Tensor:
        table = self._tables()[0]
        self.final_bandwidth, self.error_bound = None, np.nan
        if not len(table):
            return self._scalar(np.nan)
        if self.method == "mesh":
            estimate = mesh.mesh_smooth_error(
                table.scores,
                table.residuals,
                table.counts,
                kernel=self.kernel_type,
                bandwidth=self.bandwidth,
                mesh_points=self.mesh_pts,
                tolerance=self.eps,
                refine_steps=self.refine_steps,
            )
            self.final_bandwidth = estimate.bandwidth
            return self._scalar(estimate.value)
        exact = event_error(Event(table=table), None if isinstance(self.bandwidth, str) else float(self.bandwidth))
        # The search finds the bandwidth that equals the error.
        self.final_bandwidth = exact.value if isinstance(self.bandwidth, str) else float(self.bandwidth)
        self.error_bound = exact.error_bound
        return self._scalar(exact.value)
