"""Compute the smooth calibration error on a mesh, as the reference implementation does, at the cost of a histogram.

Błasiok and Nakkiran (2024, arXiv 2309.12236) define the smooth calibration error as the fixed point of a smoothed error
that falls as its bandwidth grows. Their package relplot (and TorchUncertainty after it) approximates it on two
meshes. This module computes that approximation with all its conventions, for users who must reproduce its numbers. For
the quantity itself use the exact estimator (`smooth`). The two differ by about 5e-4 if the scores lie inside (0, 1),
and by much more if many scores are 0 or 1.

Notation: row i has score p_i, residual r_i (the sum of ``outcome - score`` over its predictions) and count c_i; h is
the bandwidth, phi_h the normal density of standard deviation h.
"""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError, check_choice
from calibrant.kernels.compensated import add_binned, joined
from calibrant.runtime.arrays import Floats
from calibrant.runtime.dataclass import dataclass

# Fixed in the reference implementation; each changes the digits.
_NODES_AT_LEAST = 1000  # cells of the mesh that carries the mass ...
_NODES_PER_BANDWIDTH = 10  # ... and at least so many of them per bandwidth
_POINTS_PER_BANDWIDTH = 10  # the same for the mesh that sums the error
_DENSITY_FLOOR = 1e-4  # in rows, added to the density at every point: visible at N = 1, not at N = 1,000
_LOGIT_CLIP = 1e-3  # scores enter the log-odds at least this far from 0 and 1
_LOGIT_UNIT = 4.0  # log-odds per unit of bandwidth: the slope of the logit at 1/2

# A bandwidth this small needs meshes of 10 million nodes (and some 8e9 products).
_SMALLEST_BANDWIDTH = 1e-6

# A kernel ends after so many bandwidths: exp(-37**2 / 2) is 1e-297, and beyond are the slow subnormal numbers.
_REACH = 37.0

# Rows per block: index, fraction and products (8 bytes each) stay in the cache of one core.
_BLOCK = 1 << 14


@dataclass(frozen=True)
class MeshSmoothError:
    """The smooth calibration error on the mesh."""

    value: float  # the smoothed error at ``bandwidth``; lower is better, 0 to 1
    bandwidth: float  # the bandwidth that was passed, or found by the search
    n_mesh: int  # the number of points that the error was summed over


def mesh_smooth_error(
    scores: Floats,
    residuals: Floats,
    counts: NDArray[Any] | None = None,
    *,
    kernel: Literal["reflected", "logit"],
    bandwidth: float | Literal["auto"] = "auto",
    mesh_points: int = 200,
    tolerance: float = 1e-3,
    refine_steps: int = 10,
) -> MeshSmoothError:
    r"""Return the smooth calibration error on a mesh, with the numbers of relplot 1.0.3.

    With the smoothed residuals and the smoothed density

    .. math:: g_h(t) = \sum_i r_i K_h(t, p_i), \qquad d_h(t) = \sum_i c_i K_h(t, p_i),

    both on a mesh of points :math:`t_j` from 0 to 1, the error at a bandwidth h is

    .. math:: S(h) = \frac{\sum_j w_j |g_h(t_j)|}{\sum_j w_j (d_h(t_j) + 10^{-4})} .

    Conventions kept, since they change the numbers:

    - *Points.* :math:`\max(\mathrm{round}(10 / h), \text{mesh\_points})` equidistant ones, the two ends weighted like
      the others (a Riemann sum, not a trapezoid).
    - *Nodes.* The mass is shared linearly between the two nearest of M equidistant nodes,
      :math:`M = \lfloor \max(2000, \mathrm{round}(20 / h)) / 2 \rfloor + 1`; between nodes the smoothed values are
      interpolated linearly.
    - *Kernel.* :math:`\phi_h` sampled at M points over [-1/2, 1/2] and zero beyond, not renormalised. If M is even,
      it has no sample at 0, so all mass moves by half a cell: down (reflected) or up (logit).
    - ``"reflected"``: mass that leaves [0, 1] comes back once. The end nodes lie on their own mirror images and are not
      doubled, so mass at scores 0 and 1 has half the weight of mass elsewhere. :math:`w_j = 1`.
    - ``"logit"``: positions are log-odds, scores clipped to [0.001, 0.999] first (the residuals use unclipped scores),
      scaled so that the extremes among clipped scores and inner points are 0 and 1; h is scaled by 4
      over the range of log-odds; mass that leaves is lost; :math:`w_j = 1 / (t_j (1 - t_j))` at inner points, and the
      two ends repeat their neighbours.
    - ``bandwidth="auto"``: bisection of [0, 1] with ``refine_steps`` halvings, down whenever ``h < tolerance`` or
      :math:`h < S(h)`; the upper end of the last interval is the bandwidth h, and S(h), not h, the value.

    Scores are (N,), residuals the outcome - score of each row, of either sign. A row of count c with a summed residual
    is c predictions at that score, and a row of count 0 is ignored. The floor of the density is counted in rows:
    scaling all weights changes the value, by about 1e-4 / N relatively. The options are those of
    `smooth_calibration_error`, with a ``bandwidth`` of at least 1e-6.

    The rows are read once per mesh of nodes; all bandwidths from 0.01 upward share one (logit: from about 0.03). A
    smoothing is a convolution of M nodes with at most M, or 740, taps. The order of the rows plays no part.
    """
    fixed, n_points, steps = check_options(kernel, bandwidth, mesh_points, tolerance, refine_steps)
    error = _smoothed_error(scores, residuals, counts, kernel, n_points)
    if fixed is not None:
        value, n_mesh = error(fixed)
        return MeshSmoothError(value, fixed, n_mesh)
    return _fixed_point(error, tolerance, steps)


def check_options(
    kernel: object, bandwidth: object, mesh_points: object, tolerance: object, refine_steps: object
) -> tuple[float | None, int, int]:
    """Return the bandwidth (None for "auto"), the points and the steps; reject an invalid option."""
    check_choice("kernel", kernel, ("reflected", "logit"))
    fixed = None
    if not (isinstance(bandwidth, str) and bandwidth == "auto"):
        remedy = "pass for example 0.05, or 'auto' to find it"
        fixed = _checked_number("bandwidth", bandwidth, "a finite number above 0 or 'auto'", remedy)
        if fixed < _SMALLEST_BANDWIDTH:
            remedy = "the mesh would need more than 10 million nodes; use a larger bandwidth or the exact estimator"
            raise InputError("bandwidth", f"at least {_SMALLEST_BANDWIDTH:g}", repr(bandwidth), remedy)
    n_points = _checked_count("mesh_points", mesh_points, "200 is the usual choice")
    least, most = 4 if kernel == "logit" else 2, 1.0 if fixed is None else fixed
    if n_points < least and round(_POINTS_PER_BANDWIDTH / most) < least:
        expected = f"at least {least} when bandwidth is {most:g}"
        raise InputError("mesh_points", expected, repr(mesh_points), "200 is the usual choice")
    steps = _checked_count("refine_steps", refine_steps, "pass for example 10, to find the bandwidth within 1/1024")
    remedy = "0.001 is the usual choice"
    lowest = _checked_number("tolerance", tolerance, "a finite number, 0 or larger", remedy, zero=True)
    if fixed is None and max(lowest, 2.0**-steps) < _SMALLEST_BANDWIDTH:  # the search could need too large a mesh
        expected = f"at least {_SMALLEST_BANDWIDTH:g} when refine_steps is {steps}"
        raise InputError("tolerance", expected, repr(tolerance), remedy)
    return fixed, n_points, steps


def _fixed_point(error: Callable[[float], tuple[float, int]], tolerance: float, steps: int) -> MeshSmoothError:
    """Return the error at the bandwidth that equals its error, by bisection: at the upper end of the last interval."""
    high, low = 1.0, 0.0
    value, n_mesh = error(high)
    if high < tolerance or high < value:
        return MeshSmoothError(value, high, n_mesh)
    for _ in range(steps):
        middle = (low + high) / 2
        if middle < tolerance:
            low = middle
            continue
        candidate, n_candidate = error(middle)
        if middle < candidate:
            low = middle
        else:
            high, value, n_mesh = middle, candidate, n_candidate
    return MeshSmoothError(value, high, n_mesh)


def _smoothed_error(
    scores: Floats,
    residuals: Floats,
    counts: NDArray[Any] | None,
    kernel: str,
    mesh_points: int,
) -> Callable[[float], tuple[float, int]]:
    """Return the function h -> (S(h), number of points) of these rows."""
    if counts is not None and not np.all(counts):
        # A row of count 0 must not widen the range of the log-odds.
        present = np.asarray(counts) != 0
        scores, residuals, counts = scores[present], residuals[present], counts[present]

    reflected = kernel == "reflected"
    positions = scores if reflected else _log_odds(np.clip(scores.astype(np.float64), _LOGIT_CLIP, 1 - _LOGIT_CLIP))
    first, last = (0.0, 1.0) if reflected else (float(positions.min()), float(positions.max()))
    # Bandwidths with the same mesh of nodes and the same range share a deposit.
    deposits: dict[tuple[int, float, float], NDArray[np.float64]] = {}

    def error(bandwidth: float) -> tuple[float, int]:
        n_points = max(round(_POINTS_PER_BANDWIDTH / bandwidth), mesh_points)
        points = np.linspace(0.0, 1.0, n_points)
        weights: NDArray[np.float64] | None = None
        low, high, width = first, last, bandwidth
        if not reflected:
            inner = points[1:-1]
            odds = _log_odds(inner)
            low, high = min(low, float(odds[0])), max(high, float(odds[-1]))
            width = bandwidth * _LOGIT_UNIT / (high - low)
            points = (odds - low) / (high - low)
            weights = 1 / (inner * (1 - inner))
            weights[[0, -1]] *= 2  # the points 0 and 1 repeat their neighbours

        n_nodes = max(2 * _NODES_AT_LEAST, round(2 * _NODES_PER_BANDWIDTH / width)) // 2 + 1
        key = (n_nodes, low, high)
        mass = deposits.get(key)
        if mass is None:
            deposits[key] = mass = _deposit(positions, residuals, counts, n_nodes=n_nodes, low=low, high=high)
        residual, density = (_interpolate(_smooth(row, width, reflected), points) for row in mass)
        gap, floor = np.abs(residual), density + _DENSITY_FLOOR
        if weights is None:
            return float(gap.sum() / floor.sum()), n_points
        return float(weights @ gap / (weights @ floor)), n_points

    return error


def _log_odds(p: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.log(p / (1 - p))


def _deposit(
    positions: Floats,
    residuals: Floats,
    counts: NDArray[Any] | None,
    *,
    n_nodes: int,
    low: float,
    high: float,
) -> NDArray[np.float64]:
    """Return residuals (first row) and counts (second row) shared linearly between nodes; sums are compensated.

    Each cell needs two sums: of a quantity q, and of q times the fraction of the cell to its left. The upper node takes
    the second, the lower node the first minus the second.
    """
    cells = n_nodes - 1
    total, upper = np.zeros((2, 2, cells)), np.zeros((2, 2, cells))
    scale = cells / (high - low)
    for start in range(0, len(positions), _BLOCK):
        block = slice(start, start + _BLOCK)
        where = positions[block].astype(np.float64)
        if low != 0.0:
            where -= low
        where *= scale
        cell = where.astype(np.intp)
        np.clip(cell, 0, cells - 1, out=cell)
        where -= cell  # now the fraction of the cell
        count = np.ones(len(where)) if counts is None else counts[block]
        for row, quantity in enumerate((residuals[block], count)):
            add_binned(total[:, row], cell, quantity)
            add_binned(upper[:, row], cell, quantity * where)
    low_sums, high_sums = joined(total), joined(upper)
    mass = np.zeros((2, n_nodes))
    mass[:, :-1] = low_sums - high_sums
    mass[:, 1:] += high_sums
    return mass


def _smooth(mass: NDArray[np.float64], width: float, reflected: bool) -> NDArray[np.float64]:
    """Return the mass on the nodes smoothed by a normal density sampled over [-1/2, 1/2], reflected or not.

    A direct sum, not a transform: in log-odds all mass may lie many widths away from every point. The values there are
    then far below the rounding of a transform.
    """
    n_nodes = len(mass)
    offsets = (np.linspace(0.0, 1.0, n_nodes) - 0.5) / width
    first = int(np.searchsorted(offsets, -_REACH))
    stop = int(np.searchsorted(offsets, _REACH, side="right"))
    centre = n_nodes // 2 if reflected else (n_nodes - 1) // 2
    taps = np.exp(-0.5 * offsets[first:stop] ** 2) / (math.sqrt(2 * math.pi) * width)
    before, after = stop - 1 - centre, centre - first
    if reflected:
        extended = np.concatenate([mass[before:0:-1], mass, mass[-2 : -2 - after : -1]])
    else:
        extended = np.concatenate([np.zeros(before), mass, np.zeros(after)])
    return np.convolve(extended, taps, "valid")


def _interpolate(values: NDArray[np.float64], at: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``values`` at equidistant nodes of [0, 1], interpolated linearly at ``at``."""
    cells = len(values) - 1
    cell = np.clip((at * cells).astype(np.intp), 0, cells - 1)
    fraction = at * cells - cell
    read: NDArray[np.float64] = values[cell] * (1 - fraction) + values[cell + 1] * fraction
    return read


def _checked_number(argument: str, value: object, expected: str, remedy: str, *, zero: bool = False) -> float:
    """Return a number that is finite and above 0, or 0 if ``zero``."""
    number = math.nan
    if not isinstance(value, (bool, str)):
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            number = float(value)  # type: ignore[arg-type]
    if not (0 < number < math.inf or (zero and number == 0)):
        raise InputError(argument, expected, repr(value), remedy)
    return number


def _checked_count(argument: str, value: object, remedy: str) -> int:
    """Return an integer argument that is at least 0."""
    number = None
    if not isinstance(value, bool):
        with contextlib.suppress(TypeError):
            number = operator.index(value)  # type: ignore[arg-type]
    if number is None or number < 0:
        raise InputError(argument, "an integer of at least 0", repr(value), remedy)
    return number
