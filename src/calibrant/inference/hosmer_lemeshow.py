"""Hosmer and Lemeshow's test: observed against expected outcomes in groups of the score."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError, check_choice, check_integer
from calibrant.inference.event_rows import (
    UNUSED_LEVEL,
    EventRows,
    degrees,
    group_p_value,
    score_sums_of,
    standardised,
    units_of,
)
from calibrant.inputs.predictions import Notion
from calibrant.measures.binned.binned import quantile_bin_of, sample_quantile_bin_of, uniform_bin_of
from calibrant.results import TestResult
from calibrant.runtime.arrays import ArrayLike, Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.sketch import Arguments, Predicted
from calibrant.statistics.resampling import Resampling, Rng, check_draws
from calibrant.table import ReliabilityTable

Sample = Literal["external", "in-sample"]

Cuts = Literal["r", "mass", "width"]

SAMPLES: Final = ("external", "in-sample")

#: What returns the group of each row of a table, for each kind of cuts.
_GROUPS_OF: Final[Mapping[str, Callable[[ReliabilityTable, int], NDArray[np.intp]]]] = {
    "r": sample_quantile_bin_of,
    "mass": quantile_bin_of,
    "width": uniform_bin_of,
}

_MOST_GROUPS: Final = 1_000_000


def hosmer_lemeshow_test(
    probs: Predicted,
    targets: ArrayLike | None = None,
    *,
    sample: Sample,
    n_groups: int = 10,
    cuts: Cuts = "r",
    notion: Notion | None = None,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
    clusters: ArrayLike | None = None,
    n_resamples: int = 1000,
    rng: Rng = 0,
) -> TestResult:
    r"""Test calibration by Hosmer and Lemeshow's chi-square: observed against expected outcomes in groups of the score.

    .. math:: H = \sum_g \frac{(O_g - E_g)^2}{E_g (1 - E_g / n_g)}

    over groups of the score, which never split ties. Group g has :math:`n_g` predictions; :math:`O_g` is the sum of
    their outcomes and :math:`E_g` the sum of their scores. Larger is worse. The p-value is that of a chi-square law.
    With G filled groups it has G degrees of freedom for held-out data, and G - 2 for the data that the scores were
    fitted to. The data do not show which it is, so the caller must say. If the scores of a group leave no doubt (E = 0
    or E = n), the group adds 0 if O = E; otherwise H is infinite and the p-value 0.

    Parameters
    ----------
    sample : {"external", "in-sample"}
        Whether the scores come from a model that never saw these outcomes, or from a logistic regression fitted to
        them. Required.
    n_groups : int, default 10
        The number of groups; fewer may be filled if scores are tied.
    cuts : {"r", "mass", "width"}, default "r"
        Where the groups end. "r": at the quantiles of the scores, as R's ``hoslem.test`` cuts them: of type 7, with
        groups closed on the right and the lowest score in the first. Equal cuts count once, as there; but the degrees
        of freedom follow the groups that are left, where R counts all. "mass": the bins of
        `adaptive_calibration_error`. "width": ``n_groups`` intervals of [0, 1] of equal width, closed on the right:
        calzone's HL-H, which leaves out scores of 0. Weights that are whole numbers repeat rows; others count as many
        small equal ones.
    n_resamples, rng
        As in `ks_test`: only for rows in clusters.
    probs, targets, notion, weights, ignore_index, logits, clusters
        As in `spiegelhalter_test`. With weights that are not whole numbers each group counts as (sum w)^2 / sum w^2
        predictions. With clusters the distribution of H comes from simulated data sets, as in `ks_test`. With
        ``sample="in-sample"``, the part that a refit of the log-odds line would explain is subtracted from each
        simulated data set.

    Returns
    -------
    TestResult
        ``details`` hold the ``degrees_of_freedom`` (not with clusters) and, for each filled group, its ``counts``,
        ``observed`` and ``expected`` outcomes.

    Raises
    ------
    calibrant.errors.InputError
        Also for fewer than 3 filled groups with ``sample="in-sample"``, which leave no degree of freedom.

    Notes
    -----
    The groups of a sketch end between its cells, so the statistic is an approximation, unless ``cuts`` is "width" and
    ``n_groups`` divides 300.

    The chi-square law needs about five expected outcomes of either kind in each group. Cost: as `spiegelhalter_test`.

    References
    ----------
    Hosmer, Lemeshow (1980), doi 10.1080/03610928008827941. Hosmer, Lemeshow, Sturdivant (2013), Applied Logistic
    Regression, doi 10.1002/9781118548387.

    Examples
    --------
    >>> from calibrant.inference import hosmer_lemeshow_test
    >>> p, y = [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9], [0, 1, 0, 1, 0, 1, 1, 1]
    >>> test = hosmer_lemeshow_test(p, y, sample="external", n_groups=2)
    >>> test.details["observed"], test.details["degrees_of_freedom"], round(test.statistic, 6)
    ((2.0, 3.0), 2, 1.333333)
    """
    from scipy.special import chdtrc

    check_choice("sample", sample, SAMPLES)
    check_integer("n_groups", n_groups, "pass the number of groups, such as 10", most=_MOST_GROUPS)
    check_choice("cuts", cuts, _GROUPS_OF)
    check_draws(n_resamples)
    rows = EventRows.of_arguments(Arguments(probs, targets, notion, weights, ignore_index, logits), clusters)

    groups = _Groups.of(rows.table, _GROUPS_OF[cuts](rows.table, n_groups))
    statistic, details, filled = groups.statistic, groups.details, len(groups.counts)
    freedom = filled - (0 if sample == "external" else 2)
    if freedom < 1:
        remedy = "if the scores were not fitted to these outcomes, use sample='external', or use another test"
        raise InputError("n_groups", "at least 3 filled groups with sample='in-sample'", str(filled), remedy)
    if rows.clusters is None:
        p_value, law = float(chdtrc(freedom, statistic)), f"{degrees(freedom)} of freedom"
        details = {"degrees_of_freedom": freedom, **details}
    else:
        law = f"{n_resamples:,} resamples"
        bins = _GROUPS_OF[cuts](rows.clusters.fine.table, n_groups)
        resampling = Resampling.of(UNUSED_LEVEL, n_resamples, rng, least=1)
        p_value = group_p_value(rows.clusters, bins, resampling, fitted=sample == "in-sample")
    return rows.result(statistic, p_value, f"Hosmer and Lemeshow's chi-square, {sample}, {law}", **details)


@dataclass(frozen=True, eq=False)
class _Groups:
    """The filled groups of Hosmer and Lemeshow, (G,) each; ``squares`` are sums of squared weights."""

    counts: Float64s
    observed: Float64s
    expected: Float64s
    squares: Float64s

    @classmethod
    def of(cls, table: ReliabilityTable, groups: NDArray[np.intp]) -> _Groups:
        """Return the filled groups of a table; ``groups`` is that of each row, in increasing order."""
        first = np.flatnonzero(np.diff(groups, prepend=-1))
        columns = (table.counts, table.positives, score_sums_of(table), units_of(table) * table.counts)
        return cls(*(np.add.reduceat(column.astype(np.float64), first) for column in columns))

    @property
    def statistic(self) -> float:
        """The sum of squared deviations over their variances."""
        variances = np.maximum(self.expected * (1 - self.expected / self.counts), 0.0) * self.squares / self.counts
        groups = zip(self.observed - self.expected, variances, self.counts, strict=True)
        with np.errstate(over="ignore"):  # a score of 1e-320 whose event occurred
            return float(np.sum(np.array([standardised(*group) for group in groups]) ** 2))

    @property
    def details(self) -> dict[str, Any]:
        """The sums of each group."""
        columns = {"counts": self.counts, "observed": self.observed, "expected": self.expected}
        return {name: tuple(map(float, column)) for name, column in columns.items()}
