"""The smooth calibration error (smECE)."""

from __future__ import annotations

import math
from typing import Any, Final, Literal

import numpy as np

from calibrant.errors import InputError, check_choice
from calibrant.inputs.predictions import Notion
from calibrant.kernels import dispatch
from calibrant.kernels.compensated import largest_of
from calibrant.measures.context import Inference, Replicates
from calibrant.measures.event import Event
from calibrant.measures.means.in_the_large import largest_gap
from calibrant.measures.measure import Measure, Null
from calibrant.measures.read_arguments import evaluated_event_of, is_number
from calibrant.measures.simulated import ClusterNull, RowNull, null_of
from calibrant.measures.smooth import mesh
from calibrant.measures.smooth.smooth import event_error, smooth_error
from calibrant.measures.smooth.smooth_inference import NullSmooth, interval
from calibrant.runtime.arrays import ArrayLike, Float64s
from calibrant.sketch import Arguments, Predicted
from calibrant.statistics.null import Interval

_LEAST_DEFF: Final = 0.01  # of all bins together, for the bandwidths of simulated data sets


def smooth_calibration_error(
    probs: Predicted,
    targets: ArrayLike | None = None,
    *,
    kernel: Literal["reflected", "logit"] = "reflected",
    bandwidth: float | Literal["auto"] = "auto",
    method: Literal["exact", "mesh"] | None = None,
    mesh_points: int = 200,
    tolerance: float = 1e-3,
    refine_steps: int = 10,
    notion: Notion | None = None,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the smooth calibration error (smECE): the integral of the smoothed residuals' absolute values.

    .. math:: \hat r_\sigma(t) = \frac1W \sum_i w_i (y_i - p_i) K_\sigma(t, p_i), \qquad
              S(\sigma) = \int_0^1 |\hat r_\sigma(t)|\,dt

    The bandwidth is the one that equals the error:

    .. math:: \mathrm{smECE} = \sigma^* \quad\text{with}\quad S(\sigma^*) = \sigma^*

    K is the Gaussian kernel reflected at 0 and 1. The error is in [0, 1]; lower is better. It has no bins and changes
    continuously with the predictions. It is a consistent measure: powers of the distance to the nearest calibrated
    predictor bound it from above and below.

    Parameters
    ----------
    probs, targets, notion, weights, ignore_index, logits
        As in `expected_calibration_error`.
    kernel : {"reflected", "logit"}, default "reflected"
        "reflected" is the paper's kernel. "logit" smooths in log-odds, as relplot defines it. No theory covers it, and
        only the mesh computes it.
    bandwidth : float or "auto", default "auto"
        A number gives S at that bandwidth; it is at least 1e-9, or 1e-6 for the mesh.
    method : {"exact", "mesh"}, optional
        "exact", the default for the reflected kernel, has an error certified below 1e-7 at any N. "mesh", the default
        for the logit kernel, is the algorithm of relplot 1.0 and gives its numbers. They differ most from the exact
        ones if scores crowd at 0 or 1.
    mesh_points, tolerance, refine_steps
        Only for the mesh: the least number of points, the bandwidth below which the search stops, and the number of
        halvings.

    Returns
    -------
    float
        Ties and the order of the rows play no part.

    Raises
    ------
    calibrant.errors.InputError
        As `expected_calibration_error`; also for ``method="exact"`` with the logit kernel or an option of the mesh, for
        the mesh with a table or a sketch, a bandwidth that is too small, and a classwise or multilabel notion.

    Notes
    -----
    Cost: one read, one pass over the scores, then transforms of about 32 / smECE points.

    References
    ----------
    Błasiok, Nakkiran (2024), arXiv 2309.12236.

    Examples
    --------
    >>> import calibrant
    >>> round(calibrant.smooth_calibration_error([0.5, 0.5, 0.5], [1, 1, 1]), 6)
    0.5
    """
    check_choice("kernel", kernel, ("reflected", "logit"))
    if method is None:
        method = "exact" if kernel == "reflected" else "mesh"
    check_choice("method", method, ("exact", "mesh"))
    if method == "exact":
        if (mesh_points, tolerance, refine_steps) != (200, 1e-3, 10):
            expected = "mesh_points, tolerance and refine_steps only with method 'mesh'"
            got = "one of these arguments with method 'exact'"
            raise InputError("mesh_points", expected, got, "pass method='mesh', or leave them out")
        _check_exact(kernel, bandwidth)
    arguments = Arguments(probs, targets, notion, weights, ignore_index, logits)
    table = arguments.ready_table()
    if table is not None:
        if method == "mesh":
            expected = "'exact' for a ReliabilityTable or a CalibrationSketch"
            raise InputError("method", expected, "'mesh'", "pass the predictions themselves")
        return event_error(Event(table=table), _fixed(bandwidth)).value
    events = evaluated_event_of(*arguments.predictions(), "the smooth error")
    residuals, sum_, size = dispatch.residuals(events.scores, events.outcomes, events.weights)
    if method == "mesh":
        return mesh.mesh_smooth_error(
            events.scores,
            residuals,
            events.weights,
            kernel=kernel,
            bandwidth=bandwidth,
            mesh_points=mesh_points,
            tolerance=tolerance,
            refine_steps=refine_steps,
        ).value
    largest = 1.0 if events.weights is None else largest_of(events.weights)
    return smooth_error(events.scores, residuals, events.total, _fixed(bandwidth), sums=(sum_, size, largest)).value


def _fixed(bandwidth: float | Literal["auto"]) -> float | None:
    """Return the bandwidth as a number; None where it is searched."""
    return None if isinstance(bandwidth, str) else float(bandwidth)


def _check_exact(kernel: str, bandwidth: Any) -> None:
    """Reject a kernel and bandwidths that the exact method does not have."""
    if kernel == "logit":
        remedy = "leave method out, or pass kernel='reflected'"
        raise InputError("method", "'mesh' for the logit kernel", "'exact'", remedy)
    searched = isinstance(bandwidth, str) and bandwidth == "auto"
    if not searched and not (is_number(bandwidth) and 1e-9 <= bandwidth < math.inf):
        raise InputError(
            "bandwidth", "'auto' or a positive number from 1e-9", repr(bandwidth), "pass a number such as 0.05"
        )


def _interval(inference: Inference) -> Interval:
    value, rejected = inference.event.value(SMECE), inference.rejects(SMECE)
    low, high = interval(inference.design, value, inference.level, rejected=rejected)
    method = "inverted at each bandwidth"
    if not inference.resampling.n_resamples:
        method += "; the lower end is 0 and the noise floor is missing, because both need n_resamples > 0"
    return Interval(low, high, method)


def null_smooth(null: RowNull | ClusterNull, value: float) -> NullSmooth:
    """Return what gives smooth errors of simulated data sets, to compare with the data's at bandwidth ``value``.

    A design effect d of clusters moves the smooth error by d^(1/3), as its bandwidth grows with it.
    """
    of_rows = NullSmooth.of(null.cells, value)
    if isinstance(null, RowNull):
        return of_rows
    squares = float(null.uniform.own_squares.sum()), float(null.uniform.moments.squared_residuals.sum())
    deff = max(squares[0] / max(squares[1], np.finfo(float).tiny), _LEAST_DEFF)
    bandwidths = np.minimum(of_rows.bandwidths * deff ** (1 / 3), 1.0)
    least = min(float(np.median(bandwidths)), max(value, float(bandwidths[0])))
    return NullSmooth.around(null.cells, least, value, bandwidths)


def _null_smooth(inference: Inference) -> NullSmooth:
    """Return what gives the smooth errors of simulated data sets."""
    bandwidth = inference.smooth_bandwidth
    value = inference.event.of(event_error).value if bandwidth is None else bandwidth
    return null_smooth(inference.event.of(null_of), value)


def _replicate(replicates: Replicates) -> tuple[Float64s, Float64s]:
    """Return the smooth calibration errors, (B,), and S at the bandwidth of the data's error, (B,)."""
    return replicates.inference.of(_null_smooth)(replicates.gap_sums)


SMECE = Measure(
    name="smece",
    label="smooth ECE",
    meaning="Smooth calibration error: the mean absolute difference between predictions and outcomes after kernel "
    "smoothing, without bins.",
    misleads="Positive and negative differences within a bandwidth cancel.",
    computed="The smooth ECE is the mean absolute difference between smoothed scores and smoothed outcomes, with a "
    "reflected Gaussian kernel whose bandwidth equals the smooth ECE",
    sources=("Błasiok and Nakkiran 2024",),
    value=lambda event: event.of(event_error).value,
    bound=lambda event: event.of(event_error).error_bound,
    interval=_interval,
    implied=largest_gap,
    null=Null(
        replicate=lambda replicates: replicates.of(_replicate)[0],
        statistic=lambda replicates: replicates.of(_replicate)[1],
    ),
    functions=(smooth_calibration_error,),
)
