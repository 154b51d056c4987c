"""What the compiled loop over rows of many classes computes, in readable code; its fast twin is in `host_classes`."""

from __future__ import annotations

import numpy as np

from calibrant.kernels.reference import Float64s, Floats, Int64s


def slope_rows(
    probs: Floats,
    targets: Int64s,
    squares: Float64s,
    masses: Float64s,
    uppers: Floats,
    slopes: Float64s,
    sums: Float64s,
) -> None:
    """Add judged rows, (n, C), to the sums that the variance of sum f S over classes and bins takes, (R, 5).

    A row adds psi = sum over classes of f (p - y), f the slope of the score's bin: ``slopes`` (R, C M), class by class;
    ``uppers`` (M,) are the largest scores of the bins. The sums are of q psi^2, q psi, q, w psi and w, with q from
    ``squares`` and w from ``masses``.
    """
    n_bins = len(uppers)
    for i, row in enumerate(probs):
        places = np.searchsorted(uppers, row) + n_bins * np.arange(len(row))
        gaps = row.astype(np.float64) - (np.arange(len(row)) == targets[i])
        for own, total in zip(slopes, sums, strict=True):
            psi = float(np.sum(own[places] * gaps))
            total += squares[i] * psi**2, squares[i] * psi, squares[i], masses[i] * psi, masses[i]
