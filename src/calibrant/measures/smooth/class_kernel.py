"""The squared kernel calibration error of classes, of one block of rows."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


def pair_terms(probs: NDArray[np.float64], classes: NDArray[np.int64], width: float) -> NDArray[np.float64]:
    """Return k(p_i, p_j) <e_i - p_i, e_j - p_j> of all pairs i < j of rows, (n (n - 1) / 2,).

    e_i is 1 at the true class of row i and 0 elsewhere. k is exp(-d / width), d the total variation distance, half the
    sum of absolute differences.
    """
    from scipy.spatial.distance import pdist

    residuals = -probs
    residuals[np.arange(len(probs)), classes] += 1
    products = residuals @ residuals.T
    kernel = np.exp(pdist(probs, "cityblock") * (-0.5 / width))
    return np.asarray(kernel * products.ravel()[_pairs(len(probs))])


@lru_cache(maxsize=2)  # blocks have two sizes
def _pairs(n: int) -> NDArray[np.intp]:
    """Return the places of the pairs i < j in a matrix (n, n), row by row."""
    first, second = np.triu_indices(n, 1)
    return first * n + second
