"""Which of many groups stand out: Holm's correction of their p-values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calibrant.results import Estimate

#: Rows below which a group is too small to say anything.
LEAST_GROUP: Final = 30


def finest_p_value(estimate: Estimate) -> float:
    """Return the p-value, in closed form where it is at the limit of what the resamples resolve.

    B resamples know no p-value below 1 / (B + 1), which a correction for many groups would make large.
    """
    closed = float(estimate.details.get("closed_form_p_value", estimate.p_value))
    least = float(estimate.details.get("least_p_value", 0.0))
    return min(estimate.p_value, closed) if estimate.p_value <= least * (1 + 1e-9) else estimate.p_value


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted so that rejecting those below alpha errs in a share alpha of families at most.

    The k-th smallest of m is multiplied by m - k + 1 and made no smaller than the one before (Holm 1979).
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, before = [0.0] * len(p_values), 0.0
    for k, i in enumerate(order):
        before = max(before, min(1.0, (len(p_values) - k) * p_values[i]))
        adjusted[i] = before
    return adjusted
