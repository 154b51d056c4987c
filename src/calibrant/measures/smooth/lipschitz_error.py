"""The largest mean of h(p) (outcome - score) over tests h that change no faster than the score: smCE."""

from __future__ import annotations

from typing import Final

from calibrant.kernels.loading import kernels_for
from calibrant.table import ReliabilityTable

#: Steps of the loop that a row takes, up to some millions of rows: they decide when compiled code is worth loading.
_STEPS: Final = 64


def lipschitz_error(table: ReliabilityTable) -> float:
    """Return the largest mean of h(p) (y - p) over functions h with slopes and values in [-1, 1]: smCE, exactly."""
    kernels = kernels_for("tables", _STEPS * len(table))
    return float(kernels.lipschitz_sum(table.scores, table.residuals)) / table.total
