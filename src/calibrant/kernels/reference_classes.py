"""What the compiled loop over rows of many classes computes, in readable code; that loop is in `host_classes`."""

from __future__ import annotations

import numpy as np

from calibrant.kernels.reference_lookup import Floats, Int64s
from calibrant.runtime.arrays import Float64s


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
    classes = np.arange(probs.shape[1])
    places = np.searchsorted(uppers, probs) + len(uppers) * classes
    gaps = probs.astype(np.float64) - (classes == targets[:, None])
    for slope, total in zip(slopes, sums, strict=True):
        psi = np.sum(slope[places] * gaps, axis=1)
        total += [np.sum(x) for x in (squares * psi**2, squares * psi, squares, masses * psi, masses)]
