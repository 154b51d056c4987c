"""The interval and the noise floor of the smooth calibration error, by inverting tests at each bandwidth.

With G_s(t) = sum_c R_c K_s(t, c) / N the smoothed residuals of cells (R_c the sum of outcome - score) and S(s) the
integral of |G_s|, smECE <= s exactly when S(s) <= s. So an interval for S(s) at every s is an interval for smECE, and
a replicate's error is at least T exactly when its S(T) is.

Cells are laid on a mesh by linear weights and smoothed by cosine transforms; the reflections at 0 and 1 come with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrant.cached import cached_property
from calibrant.estimators.roots import root
from calibrant.sampling.binned import FEWEST, blend, thinned, unbiased_end
from calibrant.sampling.cells import Cells

Float64s = NDArray[np.float64]

_LEAST_MESH = 1 << 10
_MOST_MESH = 1 << 16
_STEPS_PER_SD = 8.0  # mesh widths in one bandwidth, at least: the mesh then widens it by less than one part in 300
_ROOT_STEPS = 6  # bandwidths at which the law under calibration is evaluated
_SPAN = 3.0  # the largest of them over the middle
_STEP = 0.25  # of log s, in the search for an end
_DEEP = 3.0  # of log s below the value: lower, the lower end is 0
_SMALLEST = 1e-9
_NOTHING = 1e-9  # of the largest deviation: where less is smoothed to, only rounding is left
_TIE = 1e-9  # relative: replicates that equal the data but for rounding count as at least as large


@dataclass(frozen=True, eq=False)
class Mesh:
    """Cells laid on j / M, j = 0..M, by linear weights."""

    cells: Cells
    size: int

    @classmethod
    def fine_enough(cls, cells: Cells, bandwidth: float) -> Mesh:
        """Return a mesh for bandwidths from this one upwards."""
        wanted = _STEPS_PER_SD / max(bandwidth, 1e-12)
        return cls(cells, min(max(_LEAST_MESH, 1 << math.ceil(math.log2(wanted))), _MOST_MESH))

    @cached_property
    def _place(self) -> tuple[NDArray[np.intp], Float64s, NDArray[np.intp], NDArray[np.intp]]:
        """The node at the left of each cell, how far beyond it the cell lies, the runs of equal nodes, their nodes."""
        position = self.cells.scores * self.size
        left = np.minimum(position.astype(np.intp), self.size - 1)
        left = np.maximum.accumulate(left)  # mean scores of neighbouring cells increase, but for rounding
        runs = np.flatnonzero(np.diff(left, prepend=-1))
        return left, position - left, runs, left[runs]

    def lay(self, sums: Float64s) -> Float64s:
        """Lay (..., K) sums of cells on the (..., M + 1) nodes."""
        _, beyond, runs, nodes = self._place
        laid = np.zeros((*sums.shape[:-1], self.size + 1))
        laid[..., nodes] += np.add.reduceat(sums * (1 - beyond), runs, axis=-1)
        laid[..., nodes + 1] += np.add.reduceat(sums * beyond, runs, axis=-1)
        return laid

    def at_cells(self, values: Float64s) -> Float64s:
        """Interpolate values on the nodes at the cells."""
        left, beyond, _, _ = self._place
        return np.asarray(values[left] * (1 - beyond) + values[left + 1] * beyond)

    def spectrum(self, laid: Float64s) -> Float64s:
        """Return sum_j m_j cos(pi k t_j), k = 0..M, of (..., M + 1) masses on the nodes."""
        from scipy.fft import dct

        halved = laid * 0.5
        halved[..., 0] *= 2
        halved[..., -1] *= 2
        return np.asarray(dct(halved, type=1, axis=-1))

    def density(self, spectrum: Float64s, bandwidth: float) -> Float64s:
        """Return the density, on the nodes, of masses with this spectrum smoothed by the reflected kernel."""
        from scipy.fft import dct

        kept = min(self.size, math.ceil(7 / (math.pi * bandwidth))) + 1
        damped = np.zeros_like(spectrum)
        damped[..., :kept] = spectrum[..., :kept] * np.exp(-0.5 * (math.pi * bandwidth * np.arange(kept)) ** 2)
        return np.asarray(dct(damped, type=1, axis=-1))

    def integral(self, values: Float64s) -> Float64s:
        """Integrate (..., M + 1) values over [0, 1]."""
        inner = values[..., 1:-1].sum(axis=-1)
        return np.asarray((inner + 0.5 * (values[..., 0] + values[..., -1])) / self.size)

    def smooth(self, function: Float64s, bandwidth: float) -> Float64s:
        """Return the convolution of a function on the nodes with the kernel."""
        masses = function / self.size
        masses[..., 0] *= 0.5
        masses[..., -1] *= 0.5
        return self.density(self.spectrum(masses), bandwidth)

    def variance(self, variances: Float64s, bandwidth: float) -> Float64s:
        """Return sum_c v_c K_s(t, c)^2 on the nodes.

        The square of the normal density phi_s is phi_(s / sqrt 2) / (2 s sqrt pi); the products of the kernel with its
        reflection in 0 add exp(-t^2 / s^2) sum v exp(-c^2 / s^2) / (pi s^2), and the same at 1.
        """
        laid = self.density(self.spectrum(self.lay(variances)), bandwidth / math.sqrt(2))
        squares = np.maximum(laid, 0.0) / (2 * bandwidth * math.sqrt(math.pi))
        nodes = np.arange(self.size + 1) / self.size
        for t, c in ((nodes, self.cells.scores), (1 - nodes, 1 - self.cells.scores)):
            mass = float(np.sum(variances * np.exp(-((c / bandwidth) ** 2))))
            squares += mass / (math.pi * bandwidth**2) * np.exp(-((t / bandwidth) ** 2))
        return np.asarray(squares)

    def rows_near(self, bandwidth: float) -> Float64s:
        """Return how many rows, at each cell, the kernel sees: their density times the width s sqrt(2 pi) of phi_s."""
        density = self.density(self.spectrum(self.lay(self.cells.rows)), bandwidth)
        return np.maximum(self.at_cells(density) * bandwidth * math.sqrt(2 * math.pi), 1.0)

    def error_of(self, spectrum: Float64s, bandwidth: float) -> Float64s:
        """Return S at a bandwidth, on as coarse a mesh as it allows, whose nodes are some of this one's."""
        enough = 1 << math.ceil(math.log2(2 * _STEPS_PER_SD / min(bandwidth, 1.0)))
        mesh = Mesh(self.cells, min(self.size, enough))
        density = mesh.density(spectrum[..., : mesh.size + 1], bandwidth)
        return mesh.integral(np.abs(density)) / self.cells.total


def interval(cells: Cells, value: float, z: float, *, rejected: bool) -> tuple[float, float]:
    """Return the interval of the smooth calibration error.

    L_s = integral of tau g(G / tau) dt - z sd[g'(G / tau)] and U_s = integral of |G| + z sd[sign G] are the ends of an
    interval for S(s), or as upper end the integral of tau (g(G / tau) + .481) + z sd[g'(G / tau)] if it is smaller; low
    solves L_s = s and high U_s = s. tau^2(t) is the variance of G(t), sd[psi] the standard deviation of the integral of
    psi G, and g as for binned errors. Variances of cells are blended with what calibration implies as if each had the
    rows that the kernel sees: with its own few it would have little else.
    """
    high = crossing(lambda s: _ends(cells, s, z)[1], max(value, _SMALLEST), up=True)
    low = crossing(lambda s: _ends(cells, s, z)[0], max(value, _SMALLEST), up=False) if rejected else 0.0
    return min(low, value), max(high, value)


def _ends(cells: Cells, s: float, z: float) -> tuple[float, float]:
    """Return L_s and U_s."""
    mesh, n = Mesh.fine_enough(cells, s), cells.total
    v = blend(mesh.rows_near(s), cells.squared_residuals, cells.null_variances)
    density = mesh.density(mesh.spectrum(mesh.lay(cells.gap_sums)), s) / n
    deviation = np.sqrt(mesh.variance(v, s)) / n
    deviation = np.maximum(deviation, _NOTHING * deviation.max() + np.finfo(float).tiny)
    g, slope = thinned(density / deviation)

    def spread(direction: Float64s) -> float:
        moved = mesh.at_cells(mesh.smooth(direction, s))
        return cells.spread(moved, v) / n

    middle, roots, half = float(mesh.integral(deviation * g)), float(mesh.integral(deviation)), z * spread(slope)
    sign_spread = spread(np.sign(density))
    jensen = float(mesh.integral(np.abs(density))) + z * sign_spread
    least_biased = unbiased_end(middle, roots, half, several=roots**2 >= FEWEST * sign_spread**2)
    return middle - half, min(jensen, least_biased)


def crossing(end: Callable[[float], float], start: float, *, up: bool) -> float:
    """Return the s at which an end of the interval for S(s), which falls with s, equals s."""

    def excess(log_s: float) -> float:
        return end(math.exp(log_s)) - math.exp(log_s)

    near, step = math.log(start), (_STEP if up else -_STEP)
    while (excess(near + step) > 0) == up:
        near += step
        if near > 0:
            return 1.0
        if near < math.log(start) - _DEEP:
            return 0.0  # an interval that starts at 0 is honest, if wider
    return math.exp(root(excess, near, near + step, xtol=1e-4)) if (excess(near) > 0) == up else start


@dataclass(frozen=True, eq=False)
class NullSmooth:
    """What the smooth calibration error of replicates needs: the mesh, and bandwidths around the likely root."""

    mesh: Mesh
    value: float
    bandwidths: Float64s

    @classmethod
    def of(cls, cells: Cells, value: float) -> NullSmooth:
        """Prepare for replicates under calibration, to be compared with the data's error."""
        centre = expected(cells)
        bandwidths = centre * np.geomspace(1 / _SPAN, _SPAN, _ROOT_STEPS)
        return cls(Mesh.fine_enough(cells, min(centre, max(value, centre / _SPAN))), value, bandwidths)

    def __call__(self, gap_sums: Float64s) -> tuple[Float64s, Float64s]:
        """Return of (B, K) sums of residuals the errors (B,), and S at the data's error (B,)."""
        spectrum = self.mesh.spectrum(self.mesh.lay(gap_sums))
        logs = np.log(self.bandwidths)
        errors = np.stack([self.mesh.error_of(spectrum, s) for s in self.bandwidths], axis=-1)
        excess = np.log(np.maximum(errors, 1e-300)) - logs  # falls along the last axis
        right = np.clip(np.sum(excess > 0, axis=-1), 1, len(logs) - 1)[:, None]
        high, low = (np.take_along_axis(excess, right - shift, axis=-1)[:, 0] for shift in (0, 1))
        share = low / np.maximum(low - high, 1e-12)
        step = logs[1] - logs[0]
        roots = np.exp(logs[right[:, 0] - 1] + share * step)
        roots = np.where(errors[..., 0] > 0, np.minimum(roots, 1.0), 0.0)  # nothing varies, or nothing deviates
        return roots, self.at_value(spectrum)

    def at_value(self, spectrum: Float64s) -> Float64s:
        return self.mesh.error_of(spectrum, max(self.value, _SMALLEST))

    @property
    def threshold(self) -> float:
        """S of the data at the data's error, as the mesh has it."""
        cells = self.mesh.cells
        return float(self.at_value(self.mesh.spectrum(self.mesh.lay(cells.gap_sums)))) * (1 - _TIE)


def expected(cells: Cells) -> float:
    """Return the s at which S(s) has mean s under calibration: the integral of sqrt(2 / pi) tau_0(t) dt = s."""

    def mean(s: float) -> float:
        mesh = Mesh.fine_enough(cells, s)
        root = np.sqrt(mesh.variance(cells.null_variances, s))
        return math.sqrt(2 / math.pi) * float(mesh.integral(root)) / cells.total

    return crossing(mean, max(cells.effective_n, 1.0) ** -(2 / 3) / 2, up=True)
