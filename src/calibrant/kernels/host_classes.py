"""A compiled loop over the rows of many classes; its readable version is in `reference_classes`."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.kernels import reference_classes
from calibrant.kernels.bin_lookup import bin_of
from calibrant.kernels.compiled import kernel


@kernel(reference_classes.slope_rows)
def slope_rows(probs: Any, targets: Any, squares: Any, masses: Any, uppers: Any, slopes: Any, sums: Any) -> Any:
    """See `reference_classes.slope_rows`."""
    n_bins, n_slopes = uppers.shape[0], slopes.shape[0]
    psi = np.empty(n_slopes)
    for i in range(probs.shape[0]):
        psi[:] = 0.0
        for k in range(probs.shape[1]):
            p = probs[i, k]
            place = np.uint64(k * n_bins) + bin_of(p, uppers)
            gap = np.float64(p) - np.float64(k == targets[i])
            for r in range(n_slopes):
                psi[r] += slopes[r, place] * gap
        for r in range(n_slopes):
            sums[r, 0] += squares[i] * psi[r] * psi[r]
            sums[r, 1] += squares[i] * psi[r]
            sums[r, 2] += squares[i]
            sums[r, 3] += masses[i] * psi[r]
            sums[r, 4] += masses[i]
