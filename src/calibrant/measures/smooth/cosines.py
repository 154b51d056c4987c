"""Cosine transforms at the middles of equal cells by NumPy's FFT: the import of SciPy's would be felt at each start."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from calibrant.runtime.arrays import Float64s

Complex128s = NDArray[np.complex128]


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


def series_around(coefficients: Float64s, size: int) -> Float64s:
    """Return c_0 + 2 sum_k c_k cos(pi k t) at t = 0, 1 / M, ..., 2 - 1 / M, of K <= M coefficients: a whole period."""
    return np.fft.irfft(coefficients, 2 * size, norm="forward")


def series_at_ends(coefficients: Float64s, size: int) -> tuple[Float64s, Float64s]:
    """Return c_0 + 2 sum_k c_k cos(pi k t) and its derivative at t = 0, 1 / M, ..., 1, of K <= M coefficients."""
    both = np.zeros((2, len(coefficients)), dtype=np.complex128)
    both.real[0] = coefficients
    np.multiply(np.pi * np.arange(len(coefficients)), coefficients, out=both.imag[1])
    values, slopes = np.fft.irfft(both, 2 * size, norm="forward")[:, : size + 1]
    return values, slopes


@lru_cache(16)
def _turns(size: int, sign: int) -> Complex128s:
    """Return exp(i pi k / (2 M)), k = 0..M / 2."""
    turns: Complex128s = np.exp(sign * 0.5j * np.pi * np.arange(size // 2 + 1) / size)
    turns.flags.writeable = False
    return turns
