"""The smooth calibration error."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from torch import Tensor

from calibrant.errors import InputError, check_choice
from calibrant.inputs.predictions import Notion
from calibrant.measures.event import Event
from calibrant.measures.smooth import mesh
from calibrant.measures.smooth.smooth import event_error
from calibrant.torch.base import check_notion
from calibrant.torch.tables import State, TableMetric


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
        The search stops below this bandwidth.
    mesh_pts : int, default 200
        The least number of grid points; small bandwidths need more.
    refine_steps : int, default 10
        The number of halvings in the search.
    method : {"mesh", "exact"}, default "mesh"
        "exact" has an error below 1e-7. It needs the reflected kernel, and rejects the three options above.
    notion : {"top-label", "positive"}, optional
        The judged event. By default the predicted class: max(p, 1 - p) of (N,) and (N, 1) (.5 predicts class 1), the
        top label of (N, C).
    state : {"rows", "sketch"}, default "rows"
        "sketch" keeps 176 kB for any number of rows; it needs ``method="exact"``. The value then has a certified
        error, ``error_bound``, and `sketch` returns all batches so far.
    ignore_index, validate_args, logits, kwargs
        As in `CalibrationError`.

    Attributes
    ----------
    final_bandwidth : float or None
        The bandwidth of the last `compute`.
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
            raise InputError("state", "'rows' for method='mesh', which needs the rows", "'sketch'", remedy)
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
                    "mesh_pts", "no mesh options with method='exact'", "one", "leave eps, mesh_pts and refine_steps out"
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
