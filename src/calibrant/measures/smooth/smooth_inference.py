"""The interval and the noise floor of the smooth calibration error, by inverting tests at each bandwidth.

With G_s(t) = sum_c R_c K_s(t, c) / N the smoothed residuals of cells (R_c the sum of outcome - score) and S(s) the
integral of |G_s|, smECE <= s exactly when S(s) <= s. So an interval for S(s) at every s is an interval for smECE, and
a simulated data set's error is at least T exactly when its S(T) is.

Cells are smoothed by a cosine series, in which the reflections at 0 and 1 come by themselves: few cells directly, many
by cosine transforms, once they are laid on a mesh by linear weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Final

import numpy as np

from calibrant.measures.smooth.smooth import fast_length, series_at_middles, spectrum_of
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import cached_property
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import SamplingDesign
from calibrant.statistics.intervals import Variance, blend, root, thinned_ends

if TYPE_CHECKING:
    from scipy.sparse import csr_array


_LEAST_MESH = 1 << 5
_MOST_MESH = 1 << 16
_FEW_NODES, _FEW = 1 << 8, 1 << 15  # nodes, and cells times nodes, that matrices smooth faster than transforms
_PART = 1 << 18  # multiplications: OpenBLAS starts no threads for so small a product of matrices
_STEPS_PER_SD = 8.0  # mesh widths in one bandwidth, at least: the mesh then widens it by less than one part in 300
_STEPS_OF_DRAWS = 4.0  # where simulated data sets are integrated: S is then 3 parts in 1,000 larger, also of the data
_AT_ONCE = 1 << 16  # nodes of simulated data sets that are in the cache together
_REACH = 6.0  # the series is cut after this value of pi k s
_FAR = 6.0  # bandwidths from an end, where exp(-x^2) is lost in rounding
_ROOT_STEPS = 4  # bandwidths at which the distribution under calibration is evaluated
_SPAN = 2.0  # the largest of them over the middle; beyond it the distribution is continued
_STEP = 0.25  # of log s, in the search for an end
_DEEP = 3.0  # of log s below the value: lower, the lower end is 0
_SMALLEST = 1e-9
_NOTHING = 1e-9  # of the largest deviation: where less is smoothed to, only rounding is left
_NODES: Final = 1024  # steps of the mesh of design effects
_NARROWEST: Final = 8 / _NODES  # the smallest bandwidth that this mesh shows
_TINY: Final = float(np.finfo(float).tiny)


@lru_cache(16)
def _node_waves(size: int) -> Float64s:
    """Return cos(pi k t_j) at the nodes, k along the first axis."""
    return _waves((np.arange(size) + 0.5) / size, size)


def _waves(places: Float64s, terms: int) -> Float64s:
    return np.cos(np.pi * np.arange(terms)[:, None] * places)


def _doubled(spectrum: Float64s) -> Float64s:
    """Return the coefficients of a cosine series: 2 a_k, but a_0."""
    coefficients = 2 * spectrum
    coefficients[..., 0] *= 0.5
    return np.asarray(coefficients)


def _product(rows: Float64s, matrix: Float64s) -> Float64s:
    """Return (..., K) rows times a (K, M) matrix: in parts so small that no library starts threads for them."""
    if rows.ndim == 1:
        return np.asarray(np.einsum("k,km->m", rows, matrix))
    step = max(1, _PART // matrix.size)
    return np.concatenate([rows[first : first + step] @ matrix for first in range(0, len(rows), step)])


@dataclass(frozen=True, eq=False)
class Mesh:
    """Sums of cells, smoothed at the nodes t_j = (j + 1/2) / M, j = 0..M - 1."""

    cells: Cells
    size: int

    @classmethod
    def fine_enough(cls, cells: Cells, bandwidth: float, steps: float = _STEPS_PER_SD) -> Mesh:
        """Return a mesh for bandwidths from this one upwards."""
        wanted = max(steps / max(bandwidth, 1e-12), _LEAST_MESH)
        return cls(cells, min(fast_length(wanted), _MOST_MESH))

    @property
    def nodes(self) -> Float64s:
        return np.asarray((np.arange(self.size) + 0.5) / self.size)

    # ------------------------------------------------------------ smoothing: from sums or masses to densities

    def smoothed(self, sums: Float64s, bandwidth: float) -> Float64s:
        """Return the density, on the nodes, of (..., K) sums of cells smoothed by the reflected kernel."""
        return self._on_nodes(self._spectrum(sums, bandwidth), bandwidth)

    def smoothed_at_cells(self, sums: Float64s, bandwidth: float) -> Float64s:
        """Return this density at the cells."""
        return self._at_cells(self._spectrum(sums, bandwidth), bandwidth)

    def convolved_at_cells(self, function: Float64s, bandwidth: float) -> Float64s:
        """Return, at the cells, the convolution of a function on the nodes with the kernel."""
        return self._at_cells(self._node_spectrum(function / self.size, bandwidth), bandwidth)

    @property
    def _direct(self) -> bool:
        return self.size <= _FEW_NODES and len(self.cells) * self.size <= _FEW

    def _terms(self, bandwidth: float) -> int:
        return min(self.size // 2, math.ceil(_REACH / (math.pi * bandwidth)) + 1)

    def _spectrum(self, sums: Float64s, bandwidth: float) -> Float64s:
        """Return sum_c m_c cos(pi k c) of sums of cells, for all k that bandwidths from this one upwards let pass."""
        if self._direct:
            return _product(sums, _waves(self.cells.scores, self._terms(bandwidth)).T)
        return self._node_spectrum(np.ascontiguousarray(sums @ self._weights), bandwidth)

    def _node_spectrum(self, masses: Float64s, bandwidth: float) -> Float64s:
        """Return the same of masses on the nodes."""
        terms = self._terms(bandwidth)
        if self._direct:
            return _product(masses, _node_waves(self.size)[:terms].T)
        return spectrum_of(masses, terms)

    def _damped(self, spectrum: Float64s, bandwidth: float) -> Float64s:
        kept = min(spectrum.shape[-1], self._terms(bandwidth))
        return np.asarray(spectrum[..., :kept] * np.exp(-0.5 * (math.pi * bandwidth * np.arange(kept)) ** 2))

    def _on_nodes(self, spectrum: Float64s, bandwidth: float) -> Float64s:
        """Return the density, on the nodes, of masses with this spectrum."""
        damped = self._damped(spectrum, bandwidth)
        if self._direct:
            return _product(_doubled(damped), _node_waves(self.size)[: damped.shape[-1]])
        return series_at_middles(damped, self.size)

    def _at_cells(self, spectrum: Float64s, bandwidth: float) -> Float64s:
        """Return the density at the cells."""
        if self._direct:
            damped = self._damped(spectrum, bandwidth)
            return _product(_doubled(damped), _waves(self.cells.scores, damped.shape[-1]))
        return self.at_cells(self._on_nodes(spectrum, bandwidth))

    @cached_property
    def _weights(self) -> csr_array:
        """The linear weights (K, M) of the nodes next to each cell; beyond the outermost lie their reflections."""
        from scipy.sparse import csr_array

        position = self.cells.scores * self.size - 0.5
        left = np.floor(position)
        share = position - left
        nodes = np.clip(np.stack([left, left + 1], axis=-1), 0, self.size - 1).astype(np.intp)
        starts = 2 * np.arange(len(position) + 1)
        shape = (len(position), self.size)
        return csr_array((np.stack([1 - share, share], axis=-1).ravel(), nodes.ravel(), starts), shape=shape)

    def at_cells(self, values: Float64s) -> Float64s:
        """Interpolate values on the nodes at the cells."""
        return np.asarray(self._weights @ values)

    # ------------------------------------------------------------ what intervals and simulated data sets need

    def integral(self, values: Float64s) -> Float64s:
        """Integrate (..., M) values over [0, 1]."""
        return np.asarray(values.sum(axis=-1) / self.size)

    def variance(self, variances: Float64s, bandwidth: float) -> Float64s:
        """Return sum_c v_c K_s(t, c)^2 on the nodes.

        The square of the normal density phi_s is phi_(s / sqrt 2) / (2 s sqrt pi); the products of the kernel with its
        reflection in 0 add exp(-t^2 / s^2) sum v exp(-c^2 / s^2) / (pi s^2), and the same at 1.
        """
        laid = self.smoothed(variances, bandwidth / math.sqrt(2))
        squares = np.maximum(laid, 0.0) / (2 * bandwidth * math.sqrt(math.pi))
        for t, c in ((self.nodes, self.cells.scores), (1 - self.nodes, 1 - self.cells.scores)):
            near = c < _FAR * bandwidth
            mass = float(np.sum(variances[near] * np.exp(-((c[near] / bandwidth) ** 2))))
            squares += mass / (math.pi * bandwidth**2) * np.exp(-((t / bandwidth) ** 2))
        return np.asarray(squares)

    def errors(self, gap_sums: Float64s, bandwidths: Sequence[float]) -> Float64s:
        """Return S of (B, K) sums of residuals at each bandwidth, (B, S), on as coarse a mesh as each allows."""
        step = max(1, _AT_ONCE // self.size)
        if step < len(gap_sums):
            parts = range(0, len(gap_sums), step)
            return np.concatenate([self.errors(gap_sums[first : first + step], bandwidths) for first in parts])
        spectrum, errors = self._spectrum(gap_sums, min(bandwidths)), []
        for bandwidth in bandwidths:
            wanted = Mesh.fine_enough(self.cells, min(bandwidth, 1.0), _STEPS_OF_DRAWS)
            mesh = min(self, wanted, key=lambda mesh: mesh.size)
            errors.append(mesh.integral(np.abs(mesh._on_nodes(spectrum, bandwidth))) / self.cells.total)
        return np.stack(errors, axis=-1)


@dataclass(frozen=True, eq=False)
class DesignEffects:
    """The design effect of the smoothed residual along the scores, and the clusters that the kernel sees.

    Both are given at (j + 1/2) / 1024; 1 and infinite for independent rows.
    """

    deff: Float64s | float
    clusters: Float64s | float

    @classmethod
    def of(cls, design: SamplingDesign, bandwidth: float) -> DesignEffects:
        """Return the design effects at a bandwidth."""
        s, mesh = max(bandwidth, _NARROWEST), Mesh(design.cells, _NODES)
        smoothed, variance = partial(mesh.smoothed, bandwidth=s), partial(mesh.variance, bandwidth=s)
        clusters = design.units_near(smoothed)
        return cls(design.effects(smoothed, variance, clusters), clusters)

    def at(self, scores: Float64s) -> tuple[Float64s | float, Float64s | float]:
        """Return both at these scores."""
        if isinstance(self.deff, float) or isinstance(self.clusters, float):
            return self.deff, self.clusters
        places = (np.arange(_NODES) + 0.5) / _NODES
        return np.interp(scores, places, self.deff), np.interp(scores, places, self.clusters)


def interval(design: SamplingDesign, value: float, level: float, *, rejected: bool) -> tuple[float, float]:
    """Return the interval of the smooth calibration error.

    L_s and U_s are the ends of an interval for S(s), the `thinned_ends` of the integral of |G|; low solves L_s = s and
    high U_s = s. tau^2(t) is the variance of G(t). Variances of cells are blended with what calibration implies as if
    each had the rows that the kernel sees, or the clusters if they are fewer: with its own few it would have little
    else.
    """
    effects, start = DesignEffects.of(design, value), max(value, _SMALLEST)
    high = crossing(lambda s: _ends(design, effects, s, level)[1], start, up=True)
    low = crossing(lambda s: _ends(design, effects, s, level)[0], start, up=False) if rejected else 0.0
    return min(low, value), max(high, value)


def _ends(design: SamplingDesign, effects: DesignEffects, s: float, level: float) -> tuple[float, float]:
    """Return L_s and U_s."""
    cells = design.cells
    mesh, n = Mesh.fine_enough(cells, s), cells.total
    rows = mesh.smoothed_at_cells(cells.rows, s) * s * math.sqrt(2 * math.pi)  # in the width of the kernel
    near = np.minimum(np.maximum(rows, 1.0), effects.at(cells.scores)[1])
    v = blend(near, cells.squared_residuals, cells.null_variances)
    density = mesh.smoothed(cells.gap_sums, s) / n
    deviation = np.sqrt(mesh.variance(v, s) * effects.at(mesh.nodes)[0]) / n
    deviation = np.maximum(deviation, _NOTHING * max(float(deviation.max()), float(np.abs(density).max())) + _TINY)

    def variances(directions: Sequence[Float64s]) -> list[Variance]:
        sums = [design.linear(mesh.convolved_at_cells(direction, s), v) for direction in directions]
        return [each._replace(value=each.value / n**2) for each in sums]

    low, high, _ = thinned_ends(
        density,
        deviation,
        total=lambda values: float(mesh.integral(values)),
        variances=variances,
        common=design.common(mesh.nodes),
        level=level,
    )
    return low, high


def crossing(end: Callable[[float], float], start: float, *, up: bool) -> float:
    """Return the s at which an end of the interval for S(s), which falls with s, equals s."""

    @cache
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
    """What the smooth error of simulated data sets needs: the mesh, and bandwidths around the likely root."""

    mesh: Mesh
    value: float
    bandwidths: Float64s

    @classmethod
    def of(cls, cells: Cells, value: float) -> NullSmooth:
        """Prepare for simulated data sets under calibration, to be compared with the data's error."""
        centre = expected(cells)
        bandwidths = centre * np.geomspace(1 / _SPAN, _SPAN, _ROOT_STEPS)
        return cls.around(cells, min(centre, max(value, centre / _SPAN)), value, bandwidths)

    @classmethod
    def around(cls, cells: Cells, least: float, value: float, bandwidths: Float64s) -> NullSmooth:
        """Return what evaluates simulated data sets at bandwidths from ``least`` upwards."""
        return cls(Mesh.fine_enough(cells, least, _STEPS_OF_DRAWS), value, bandwidths)

    def __call__(self, gap_sums: Float64s) -> tuple[Float64s, Float64s]:
        """Return of (B, K) sums of residuals the errors (B,), and S at the data's error (B,)."""
        errors = self.mesh.errors(gap_sums, [*self.bandwidths, max(self.value, _SMALLEST)])
        errors, at_value, logs = errors[:, :-1], errors[:, -1], np.log(self.bandwidths)
        excess = np.log(np.maximum(errors, 1e-300)) - logs  # falls along the last axis
        right = np.clip(np.sum(excess > 0, axis=-1), 1, len(logs) - 1)[:, None]
        high, low = (np.take_along_axis(excess, right - shift, axis=-1)[:, 0] for shift in (0, 1))
        share = low / np.maximum(low - high, 1e-12)
        step = logs[1] - logs[0]
        roots = np.exp(logs[right[:, 0] - 1] + share * step)
        roots = np.where(errors[..., 0] > 0, np.minimum(roots, 1.0), 0.0)  # nothing varies, or nothing deviates
        return roots, at_value


def expected(cells: Cells) -> float:
    """Return the s at which S(s) has mean s under calibration: the integral of sqrt(2 / pi) tau_0(t) dt = s."""

    @cache
    def excess(log_s: float) -> float:
        s = math.exp(log_s)
        mesh = Mesh.fine_enough(cells, s)
        deviation = np.sqrt(mesh.variance(cells.null_variances, s)) / cells.total
        mean = math.sqrt(2 / math.pi) * float(mesh.integral(deviation))
        return math.log(max(mean, np.finfo(float).tiny)) - log_s

    near = math.log(max(cells.effective_n, 1.0) ** -(2 / 3) / 2)
    far = min(near + excess(near), 0.0)  # the mean falls with s: the root is between s and the mean at s
    if far <= near:
        return math.exp(near)
    return math.exp(far if excess(far) > 0 else root(excess, near, far, xtol=1e-4))
