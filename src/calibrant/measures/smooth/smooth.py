"""Compute the smooth calibration error with the reflected Gaussian kernel, with a certified error of 1e-7.

With residuals r_i = y_i - p_i (W their total weight) and the normal density phi_s of standard deviation s,

    g_s(t) = (1/W) sum_i r_i sum_k [phi_s(t - p_i + 2k) + phi_s(t + p_i + 2k)],     S(s) = integral over [0, 1] of
    |g_s|,

and smECE is the s with S(s) = s (Błasiok and Nakkiran 2024, arXiv 2309.12236). The reflections make g_s a cosine
series,

    g_s(t) = a_0 + 2 sum_k a_k exp(-(pi k s)^2 / 2) cos(pi k t),     a_k = (1/W) sum_i r_i cos(pi k p_i),

so one cosine transform gives g_s on a mesh, and one sine transform its slope. Three errors have bounds, each
relative to R = sum |r_i| / W <= 1, with c_j = integral of |j-th derivative of phi_1| <= sqrt(j!):

- Cells. The moments 0..5 of the residuals in cells of width w replace the rows: R (w/2s)^6 c_6 / 6!.
- Mesh. |g_s| is integrated exactly for the cubic Hermite interpolant on a mesh of width h: R (h/s)^4 c_4 / 384.
- Series. Terms with pi k s > 7 are left out: below 1e-10.

Since S falls with s, the root lies between s and S(s) for every s, and an error of S moves the root by at most the
same amount.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.kernels import dispatch
from calibrant.kernels.compensated import binned, joined, largest_of, sums_of, total_of
from calibrant.measures.event import Event
from calibrant.runtime.arrays import Float64s, Floats
from calibrant.runtime.cached import cached_property
from calibrant.runtime.dataclass import dataclass
from calibrant.table import GridCells

_STEPS_PER_SD = 32  # mesh widths in one s: (1/32)^4 sqrt(24) / 384 = 1.2e-8
_CELLS_PER_SD = 6.25  # cells in one s: (0.08)^6 / sqrt(720) = 9.8e-9
_REACH = 7.0  # the kernel is cut after so many standard deviations, the series after this value of pi k s
_TOLERANCE = 2e-8  # |S(s) - s| at which the search stops
_DIRECT = 300_000  # up to so many rows times terms, cosine sums run row by row
_COSINES = 1 << 16  # computed together
_LEAST_TERMS = 64  # computed together: the search asks for more and more terms, and 64 cost little more than 32
_FEW = 16  # or up to this many rows, for any number of terms
_RESOLUTIONS = (1 << 12, 1 << 14, 1 << 17, 1 << 20)  # numbers of cells
_SMALLEST = _CELLS_PER_SD / _RESOLUTIONS[-1]  # below it, no number of cells suffices
_SMALL = _CELLS_PER_SD / _RESOLUTIONS[1]  # below it, `_local_integral` is faster for scores in few cells
_SPARSE = 0.02  # few cells: at most this share of them is filled
_STEEP = 32  # the most that one step of the search may divide s by
_MOST_STEPS = 200  # five are usual; if 200 do not suffice, the bracket gives the error
_ROUGH, _ROUGH_STEPS = 0.005, 5  # of log s: nearer to the root, or after so many steps, slopes are taken too
_WIDEST = 100.0  # this and any wider bandwidth leave only the mean
_PARTS = 64  # parts of a mesh cell if the interpolant changes sign in it and is bent
_STRAIGHT = 0.05  # of the rise: a cell whose slopes deviate from it by no more is nearly straight
_SECOND: Final = 4 * math.exp(-0.5) / math.sqrt(2 * math.pi)  # the integral of |phi''|: 0.968
_FIRST: Final = math.sqrt(2 / math.pi)  # the integral of |phi'|
_SINGLE: Final = 2.0**-24  # half a unit in the last place of a float32, relative


@dataclass(frozen=True)
class SmoothError:
    """The smooth calibration error, and a bound on how far the true root can be from it."""

    value: float
    error_bound: float


def smooth_error(
    scores: Floats,
    residuals: Float64s,
    total: float,
    bandwidth: float | None = None,
    *,
    sums: tuple[float, float, float] | None = None,
) -> SmoothError:
    """Return the smooth calibration error of rows with these scores and sums of outcome - score.

    With a bandwidth it is S(bandwidth), the integral of the absolute smoothed residuals. Rows may be single predictions
    or rows of a table; ``sums`` are the sums of residuals and of their sizes, and a bound on a size, if the caller has
    them. Cost: O(N) once, then a few transforms of about 32 / s points.
    """
    smoother = _Smoother(scores, residuals, total, sums)
    return _search(smoother) if bandwidth is None else SmoothError(smoother.integral(bandwidth), smoother.error)


def _search(smoother: _Smoother) -> SmoothError:
    """Return the root of S(s) = s by secants in log s, inside a bracket that shrinks; S is nearly a power of s.

    The first steps take S from the values on the mesh alone, without slopes: about 4e-5 more.
    """
    low, high = smoother.least, smoother.most
    if high - low <= 2 * _TOLERANCE:
        return SmoothError((low + high) / 2, _TOLERANCE)
    s = min(math.sqrt(max(low, 1e-4 * high) * high), 0.5)
    before: tuple[float, float] | None = None
    rough = True
    for step in range(_MOST_STEPS):
        rough = rough and step < _ROUGH_STEPS and s >= _SMALL
        value = smoother.integral(s, rough=rough)
        if not rough:
            low, high = max(low, min(s, value)), min(high, max(s, value))
        here = (math.log(s), math.log(max(value, 1e-300) / s))
        slope = -1.5 if before is None or before[0] == here[0] else (here[1] - before[1]) / (here[0] - before[0])
        guess = math.exp(here[0] - here[1] / min(slope, -1.0))  # log S(s) / s falls with slope -1 or steeper
        before = here
        if rough:
            rough = abs(here[1]) > _ROUGH
            s = min(max(guess, s / _STEEP, low, _TOLERANCE), high)
            continue
        if abs(value - s) <= _TOLERANCE or high - low <= _TOLERANCE:
            return SmoothError(min(max(guess, low), high), _TOLERANCE + smoother.error)
        if value * _STEEP < s:  # far above the root, or residuals of equal scores cancel
            smoother.pool_ties()
            high = min(high, smoother.most)
            if high - low <= 2 * _TOLERANCE:
                return SmoothError((low + high) / 2, _TOLERANCE)
        s = max(guess if low < guess < high else (low + high) / 2, s / _STEEP, _TOLERANCE)
    return SmoothError((low + high) / 2, (high - low) / 2 + smoother.error)


class _Smoother:
    """Evaluates S(s) for one set of residuals; one evaluation costs about 1 / s."""

    def __init__(
        self,
        scores: Floats,
        residuals: Float64s,
        total: float,
        sums: tuple[float, float, float] | None,
    ) -> None:
        self.scores = scores
        self.residuals = residuals
        self.total = total
        if sums is None:
            sum_, size = joined(sums_of(np.stack([residuals, np.abs(residuals)]))).tolist()
        sum_, size, self.largest = sums or (sum_, size, largest_of(residuals))
        self.most = size / total
        self.least = min(abs(sum_) / total, self.most)
        self.spectra: dict[int, Float64s] = {}
        self.pooled = False
        self.rounding = 0.0  # of a term of the moments

    @property
    def error(self) -> float:
        """A bound on the error of S(s), the same for every s."""
        mesh = _STEPS_PER_SD**-4 * math.sqrt(24) / 384 + 1e-10
        cells = (0.5 / _CELLS_PER_SD) ** 6 / math.sqrt(720)
        parts = 0.968 / 8 / (_STEPS_PER_SD * _PARTS) ** 2
        rounding = self.rounding * math.exp(_REACH / _CELLS_PER_SD) * len(self.residuals) / self.total
        return self.most * (mesh + cells + parts) + rounding

    def pool_ties(self) -> None:
        """Add up the residuals of equal scores, once: if they cancel, no smoothed density contains them."""
        if self.pooled:
            return
        distinct, place = np.unique(self.scores, return_inverse=True)
        self.scores, self.pooled = distinct, True
        self.residuals = binned(place, self.residuals, len(distinct))
        self.most = max(self.least, total_of(np.abs(self.residuals)) / self.total)
        self.largest = largest_of(self.residuals)

    def integral(self, s: float, *, rough: bool = False) -> float:
        """Return S(s), or, if ``rough``, about 4e-5 more."""
        s = min(s, _WIDEST)
        if s < _SMALLEST or (s < _SMALL and self._filled < _SPARSE):
            return self._local_integral(s)
        n_terms = math.ceil(_REACH / (math.pi * s)) + 1
        n_mesh = fast_length(max(_STEPS_PER_SD / s, 2 * n_terms))
        frequencies = math.pi * np.arange(n_terms)
        terms = self._coefficients(s, n_terms) * np.exp(-0.5 * (s * frequencies) ** 2)
        if rough:
            around = np.fft.irfft(terms, 2 * n_mesh, norm="forward")  # the series over a whole period
            return float(np.abs(around).mean())
        values, slopes = series_at_ends(terms, n_mesh)
        return _absolute_integral(values, slopes, 1 / n_mesh)

    def _coefficients(self, s: float, n_terms: int) -> Float64s:
        if len(self.scores) * n_terms <= _DIRECT or len(self.scores) <= _FEW:
            if n_terms > len(self.spectra.get(0, ())):
                terms = max(n_terms, _LEAST_TERMS)
                self.spectra[0] = _cosine_sums(self.scores, self.residuals, terms) / self.total
            return self.spectra[0][:n_terms]
        n_cells = next(n for n in _RESOLUTIONS if n * s >= _CELLS_PER_SD)
        if n_cells not in self.spectra:
            self.spectra[n_cells] = self._moment_spectrum(n_cells) / self.total
        return self.spectra[n_cells][:n_terms]

    def _moment_spectrum(self, n_cells: int) -> Float64s:
        """Return the cosine sums from the moments of cells: exp(-i k (c + d)) is expanded in d around the middle c.

        There are as many as the smallest bandwidth needs that these cells are narrow enough for.
        """
        moments, rounding = dispatch.residual_moments(self.scores, self.residuals, n_cells, self.largest)
        self.rounding = max(self.rounding, rounding)
        terms = math.ceil(_REACH / _CELLS_PER_SD * n_cells / math.pi) + 1
        width = -1j * math.pi / n_cells * np.arange(terms)  # -i pi k w
        spectrum = np.zeros(terms, dtype=np.complex128)
        for power in reversed(range(dispatch.N_MOMENTS)):
            spectrum *= width / (power + 1)
            spectrum += np.fft.rfft(moments[:, power], 2 * n_cells)[:terms]
        return np.asarray((spectrum * np.exp(width / 2)).real)

    @cached_property
    def _filled(self) -> float:
        """The share of coarse cells that hold a score."""
        cells = (self.scores * (_RESOLUTIONS[1] - 1)).astype(np.int64)
        return np.count_nonzero(np.bincount(cells, minlength=_RESOLUTIONS[1])) / _RESOLUTIONS[1]

    def _local_integral(self, s: float) -> float:
        """Return S(s) for an s so small that a mesh over all of [0, 1] would be wasteful.

        Such a small root means small or few residuals. The scores (with their reflections in 0 and 1) then lie in short
        stretches. Each is cut into cells, and the moments of the cells are convolved with derivatives of the kernel,
        phi_s^(j)(x) = (-1)^j He_j(x / s) phi_s(x) / s^j.
        """
        positions, residuals = self.scores.astype(np.float64), self.residuals / self.total
        reach = _REACH * s
        near, far = positions < reach, positions > 1 - reach
        positions = np.concatenate([-positions[near], positions, 2 - positions[far]])
        residuals = np.concatenate([residuals[near], residuals, residuals[far]])
        order = np.lexsort((residuals, positions))
        positions, residuals = positions[order], residuals[order]
        width = s / _CELLS_PER_SD
        cells = np.floor(positions / width)
        first = np.flatnonzero(np.diff(cells, prepend=np.nan) != 0)
        middles = (cells[first] + 0.5) * width
        offsets = positions / s - (cells + 0.5) / _CELLS_PER_SD
        moments = np.stack(
            [np.add.reduceat(residuals * (-offsets) ** j, first) / math.factorial(j) for j in range(dispatch.N_MOMENTS)]
        )
        breaks = np.flatnonzero(np.diff(middles) > 2 * reach) + 1
        total = 0.0
        for stretch in np.split(np.arange(len(middles)), breaks):
            low, high = max(middles[stretch[0]] - reach, 0.0), min(middles[stretch[-1]] + reach, 1.0)
            if high > low:
                total += _stretch_integral(middles[stretch], moments[:, stretch], s, low, high)
        return total


def _cosine_sums(scores: Floats, residuals: Float64s, n: int) -> Float64s:
    """Return sum_i r_i cos(pi k p_i) for k < n: the real parts of r z^k, z = exp(i pi p)."""
    order = np.lexsort((residuals, scores))  # sums then do not depend on the order of the rows
    scores, residuals = scores[order], residuals[order]
    sums, unit = np.zeros(n), np.exp(1j * np.pi * scores.astype(np.float64))
    step = max(1, _COSINES // n)
    for first in range(0, len(scores), step):
        z = unit[first : first + step]
        powers = np.empty((n, len(z)), dtype=np.complex128)
        powers[0], filled = residuals[first : first + step], 1
        while filled < n:  # twice as many each time, so that rounding grows with the logarithm of k
            more = min(filled, n - filled)
            np.multiply(powers[:more], z, out=powers[filled : filled + more])
            filled, z = filled + more, z * z
        sums += powers.real.sum(axis=1)
    return sums


def _stretch_integral(middles: Float64s, moments: Float64s, s: float, low: float, high: float) -> float:
    """Return the integral of |g_s| from low to high for cells with these middles and moments (divided by j! s^j)."""
    n_steps = max(1, math.ceil((high - low) / s * _STEPS_PER_SD))
    step, total, at = (high - low) / n_steps, 0.0, 0
    while at < n_steps:
        stop = min(at + 512, n_steps)
        t = low + step * np.arange(at, stop + 1)
        window = slice(
            int(np.searchsorted(middles, t[0] - _REACH * s)), int(np.searchsorted(middles, t[-1] + _REACH * s))
        )
        u = (t[:, None] - middles[None, window]) / s
        hermite = [np.exp(-0.5 * u * u) / (math.sqrt(2 * math.pi) * s)]
        hermite.append(-u * hermite[0])  # derivatives of the density: f^(j+1) = -u f^(j) - j f^(j-1)
        for j in range(1, dispatch.N_MOMENTS):
            hermite.append(-u * hermite[j] - j * hermite[j - 1])
        values = sum(hermite[j] @ moments[j, window] for j in range(dispatch.N_MOMENTS))
        slopes = sum(hermite[j + 1] @ moments[j, window] for j in range(dispatch.N_MOMENTS)) / s
        total += _absolute_integral(np.asarray(values), np.asarray(slopes), step)
        at = stop
    return total


def _absolute_integral(values: Float64s, slopes: Float64s, step: float) -> float:
    """Return the integral of the absolute cubic Hermite interpolant of equidistant values and slopes.

    A cubic whose Bernstein coefficients have one sign has no zero: a formula gives its integral. The few others have a
    rule of their own if they are nearly straight, and else are cut into parts.
    """
    left, right = values[:-1], values[1:]
    slopes = slopes * step
    rise, fall = slopes[:-1], slopes[1:]
    integrals = step * (0.5 * (left + right) + (rise - fall) / 12)
    third, below = slopes / 3, values < 0
    several = below[:-1] != below[1:]
    several |= below[:-1] != (left + third[:-1] < 0)
    several |= below[1:] != (right - third[1:] < 0)
    mixed = several.nonzero()[0]
    total = float(np.abs(integrals).sum())
    if len(mixed) == 0:
        return total
    a, b, run, end = left[mixed], rise[mixed], right[mixed] - left[mixed], fall[mixed]
    straight = (a * (a + run) < 0) & (np.abs(b - run) + np.abs(end - run) <= _STRAIGHT * np.abs(run))
    area = _straight_areas(a[straight], b[straight], run[straight], end[straight]).sum()
    if not straight.all():
        bent = ~straight
        area += _bent_areas(a[bent], b[bent], run[bent], end[bent]).sum()
    return total + step * float(area) - float(np.abs(integrals[mixed]).sum())


def _straight_areas(a: Float64s, b: Float64s, run: Float64s, end: Float64s) -> Float64s:
    """Return the area under |q| of cubics on [0, 1] that start at a, rise by ``run``, with slopes b and ``end``.

    Each has one zero, and all its slopes are near ``run``: `_STRAIGHT`. A step of Newton's method from the zero of the
    straight line misses the zero by less than 2e-5 and the area by less than 4e-10 of ``run``.
    """
    first, last, x = b - run, end - run, -a / run
    y = 1 - x
    x = x - x * y * (y * first - x * last) / (run + y * (y - 2 * x) * first - x * (2 * y - x) * last)
    square = x * x
    before = a * x + square * (run / 2 + first * (0.5 - x * (2 / 3 - x / 4)) - last * x * (1 / 3 - x / 4))
    return np.abs(2 * before - (a + run / 2 + (first - last) / 12))


def _bent_areas(a: Float64s, b: Float64s, run: Float64s, end: Float64s) -> Float64s:
    """Return the same for any cubics, cut into parts. Newton's method refines the zero in a part."""
    a, b, run, end = (x[:, None] for x in (a, b, run, end))
    c, d = 3 * run - 2 * b - end, b + end - 2 * run

    def cubic(x: Any) -> Any:
        return a + x * (b + x * (c + x * d))

    def antiderivative(x: Any) -> Any:
        return x * (a + x * (b / 2 + x * (c / 3 + x * d / 4)))

    x = np.arange(_PARTS + 1)[None, :] / _PARTS
    y, area = cubic(x), antiderivative(x)
    start, stop = x[:, :-1], x[:, 1:]
    crossing = y[:, :-1] * y[:, 1:] < 0
    rise = np.where(crossing, y[:, 1:] - y[:, :-1], 1.0)
    zero = start - np.where(crossing, y[:, :-1] / rise, 0.0) / _PARTS
    for _ in range(2):
        slope = b + zero * (2 * c + zero * 3 * d)
        zero = np.clip(zero - np.where(crossing, cubic(zero) / np.where(slope == 0, 1.0, slope), 0.0), start, stop)
    middle = antiderivative(zero)
    pieces = np.where(
        crossing, np.abs(middle - area[:, :-1]) + np.abs(area[:, 1:] - middle), np.abs(area[:, 1:] - area[:, :-1])
    )
    return np.asarray(pieces.sum(axis=1))


# ------------------------------------------------------------ the cells of a grid


def certified_error(cells: GridCells, bandwidth: float | None = None) -> SmoothError:
    """Return the smooth calibration error with its bound; with a bandwidth S at it.

    The residuals of each cell move to its two ends, and keep their sum and first moment, S1 - Q. This replaces the
    kernel in a cell of width w by a linear interpolant. Its error is at most the second derivative times w^2 / 8,
    and at most the first times w / 2. S is off by at most sum A min(0.968 (w / s)^2 / 8, 0.798 (w / s) / 2, 2) / N. S
    falls, so the root moves by no more.
    """
    error = smooth_error(*_tents(cells), cells.table.total, bandwidth)
    bound = kernel_bound(cells, error.value if bandwidth is None else bandwidth)
    return SmoothError(error.value, error.error_bound + bound)


def kernel_bound(cells: GridCells, bandwidth: float) -> float:
    """Bound the change of S by the cells at a bandwidth.

    Scores of float32 are counted by edges rounded to float32. So a score may lie outside its cell by half a unit of its
    last place: the bound treats cells as wider by that.
    """
    low, high = cells.low, cells.high
    width = (high - low + 2 * _SINGLE * high) / max(bandwidth, 1e-100)
    each = np.minimum(np.minimum(_SECOND / 8 * width**2, _FIRST / 2 * width), 2.0)
    return float(np.sum((cells.absolute * each)[cells.several])) / cells.table.total


def _tents(cells: GridCells) -> tuple[Float64s, Float64s]:
    """Return the edges and the residuals that move to them."""
    several, sums = cells.several, cells.table.residuals
    low, high = cells.low[several], cells.high[several]
    first = (cells.s1 - cells.squares)[several] - low * sums[several]
    most = 2 * cells.absolute[several]
    upper = np.clip(first / (high - low), -most, most)  # beyond it is only the rounding of a narrow cell
    places = np.concatenate([low, high, cells.table.scores[~several]])
    laid = np.concatenate([sums[several] - upper, upper, sums[~several]])
    distinct, at = np.unique(places, return_inverse=True)
    return distinct, np.bincount(at, laid, len(distinct)).astype(np.float64, copy=False)


def event_error(event: Event, bandwidth: float | None = None) -> SmoothError:
    """Return the smooth error of an event with its bound; with a bandwidth the smoothed gap at it.

    ``event.of(event_error)`` computes the error once.
    """
    table, cells = event.table, event.grid_cells
    if cells is None:
        return smooth_error(table.scores, table.residuals, table.total, bandwidth)
    return certified_error(cells, bandwidth)


# ------------------------------------------------------------ cosine transforms at the middles of equal cells
# By NumPy's FFT: the import of SciPy's would be felt at each start.


def fast_length(least: float) -> int:
    """Return the smallest 2^k or 3 2^(k - 1) that is not below ``least`` >= 2."""
    power = 1 << (int(np.ceil(least)) - 1).bit_length()
    return power if least > 0.75 * power else 3 * power // 4


def spectrum_of(masses: Float64s, terms: int) -> Float64s:
    """Return sum_j m_j cos(pi k (j + 1/2) / M), k below ``terms`` <= M / 2, of (..., M) masses; M is even.

    Makhoul (1980), doi 10.1109/TASSP.1980.1163351: the Fourier transform of the even places and the reversed odd ones.
    """
    size = masses.shape[-1]
    turned = np.fft.rfft(np.concatenate([masses[..., ::2], masses[..., ::-2]], axis=-1)) * _turns(size, -1)
    return turned[..., :terms].real


def series_at_middles(coefficients: Float64s, size: int) -> Float64s:
    """Return c_0 + 2 sum_k c_k cos(pi k (j + 1/2) / M), j = 0..M - 1, of (..., K) coefficients.

    M is ``size``, which is even, and K at most half of it. This is `spectrum_of` backwards.
    """
    terms = coefficients.shape[-1]
    turned = np.zeros((*coefficients.shape[:-1], size // 2 + 1), dtype=np.complex128)
    np.multiply(coefficients, _turns(size, 1)[:terms] * size, out=turned[..., :terms])
    mixed, values = np.fft.irfft(turned, size), np.empty((*coefficients.shape[:-1], size))
    values[..., ::2], values[..., ::-2] = mixed[..., : size // 2], mixed[..., size // 2 :]
    return values


def series_at_ends(coefficients: Float64s, size: int) -> tuple[Float64s, Float64s]:
    """Return c_0 + 2 sum_k c_k cos(pi k t) and its derivative at t = 0, 1 / M, ..., 1, of K <= M coefficients."""
    both = np.zeros((2, len(coefficients)), dtype=np.complex128)
    both.real[0] = coefficients
    np.multiply(np.pi * np.arange(len(coefficients)), coefficients, out=both.imag[1])
    values, slopes = np.fft.irfft(both, 2 * size, norm="forward")[:, : size + 1]
    return values, slopes


@lru_cache(16)
def _turns(size: int, sign: int) -> NDArray[np.complex128]:
    """Return exp(i pi k / (2 M)), k = 0..M / 2."""
    turns: NDArray[np.complex128] = np.exp(sign * 0.5j * np.pi * np.arange(size // 2 + 1) / size)
    turns.flags.writeable = False
    return turns
