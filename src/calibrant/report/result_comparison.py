"""Models compared by a mean: by results without probabilities, or on different questions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError
from calibrant.inputs.conversion import as_values
from calibrant.measures.differences.pair import OnlyRight
from calibrant.measures.means.means import wilson_interval
from calibrant.render.blocks import Document, Source
from calibrant.render.shown import NO_SOURCE
from calibrant.report.comparison import ONLY_REPORTS, Pair, RankedModels
from calibrant.report.leaderboard import Standing, compared_places, difference_to_best
from calibrant.results import Description, Estimate, TestResult
from calibrant.results.values import columns_of, frame_of, plain_estimate
from calibrant.runtime.arrays import ArrayLike, Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.statistics.resampling import alpha_of, check_level, normal_quantile, t_quantile
from calibrant.statistics.simultaneous import Spread, ranking
from calibrant.statistics.two_way import TwoWay, linked, two_way
from calibrant.table.cluster_labels import ClusterLabels, as_clusters, content_order

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

#: The version of the dictionary and the JSON.
SCHEMA_VERSION: Final = 1

_FORM: Final = "pass {'one model': results, 'other model': results}"
_DECIDED: Final = "no interval: a single cluster of questions decides the difference"
_ONE: Final = "no interval: the variance cannot be estimated from one cluster of questions"

ACCURACY: Final = Description(
    label="accuracy", meaning="The share of questions that the model answered correctly.", better="higher"
)
MEAN_RESULT: Final = Description(label="mean result", meaning="The mean of the model's results.", better="higher")


@dataclass(frozen=True, eq=False, kw_only=True)
class ResultComparison(RankedModels):
    """What `compare_results` found: each model's mean, the differences, and the ranks that the data allow.

    `compare` with ``sparse=True`` returns it too: the mean is then a loss, such as the Brier score.
    ``print(comparison)`` shows it in the terminal, ``verdict`` returns it as sentences, ``to_html`` writes a page,
    ``plot`` draws the leaderboard, and ``to_dict``, ``to_json`` and ``to_pandas`` return every number.

    Attributes
    ----------
    names : tuple of str
        The compared models, in the order given.
    n : int
        The questions.
    level : float
        The confidence level.
    sorted_by : str
        The key of the mean: ``accuracy``, ``mean_result``, or a loss.
    descriptions : mapping
        The `Description` of the mean, by its key.
    leaderboard : tuple of Standing
        The models, the best first, with their means, differences to the best model and ranges of ranks, as in
        `Comparison`. With ``sparse``, means are adjusted for the difficulty of the questions.
    pairs : tuple of Pair
        The difference of each two models, the first minus the second, with the interval and the p-value of this pair
        alone; with more than 20 models only the pairs with the first or the best model. The details contain the number
        of questions in ``common``, and their ``share`` of the questions that at least one of the two answered.
    answered : mapping
        The number of questions that each model answered.
    unadjusted : mapping
        The mean of each model over the questions that it answered.
    attempts : (int, int)
        The least and the largest number of attempts of a model at a question.
    sparse : bool
        Whether models may have answered different questions.
    unlinked : tuple of str
        The models that are not compared: no common questions link them to the others.
    clusters : mapping or None
        The number of ``clusters`` of questions; None if questions are independent.
    tests : mapping
        For probabilities, the test of each model's calibration on its own questions.
    """

    names: tuple[str, ...]
    n: int
    level: float
    sorted_by: str
    descriptions: Mapping[str, Description]
    leaderboard: tuple[Standing, ...]
    pairs: tuple[Pair, ...]
    answered: Mapping[str, int]
    unadjusted: Mapping[str, float]
    attempts: tuple[int, int] = (1, 1)
    sparse: bool = False
    unlinked: tuple[str, ...] = ()
    clusters: Mapping[str, Any] | None = None
    tests: Mapping[str, TestResult]
    groups: ClassVar[tuple[()]] = ()

    __repr__ = RankedModels.__repr__

    def worse(self, pair: Pair) -> bool:
        """Return whether the second model is shown to be worse: the interval excludes 0, and the test rejects."""
        higher = self.descriptions[self.sorted_by].better == "higher"
        difference = pair[self.sorted_by]
        is_worse = difference.low > 0 if higher else difference.high < 0
        return is_worse and difference.p_value <= alpha_of(self.level)

    def to_dict(self) -> dict[str, Any]:
        """Return every number as plain Python values that are strict JSON.

        A number that is not finite is None, and ``not_finite`` contains the reason under its path.
        """
        missing: dict[str, str] = {}
        return {
            "schema_version": SCHEMA_VERSION,
            "n": self.n,
            "level": self.level,
            "sorted_by": self.sorted_by,
            "measures": {name: asdict(description) for name, description in self.descriptions.items()},
            "attempts": list(self.attempts),
            "sparse": self.sparse,
            "unlinked": list(self.unlinked),
            "clusters": None if self.clusters is None else dict(self.clusters),
            "models": {
                name: {"answered": self.answered[name], "unadjusted": self.unadjusted[name]} for name in self.names
            },
            "leaderboard": [each.to_dict(f"leaderboard[{i}]", missing) for i, each in enumerate(self.leaderboard)],
            "pairs": [
                {
                    "first": pair.first,
                    "second": pair.second,
                    "difference": plain_estimate(
                        pair[self.sorted_by], f"pairs[{i}].difference", missing, pair[self.sorted_by].method
                    ),
                }
                for i, pair in enumerate(self.pairs)
            ],
            "not_finite": missing,
        }

    def to_pandas(self) -> pd.DataFrame:
        """Return the differences as a frame of pandas, a row for each pair of models.

        Returns
        -------
        pandas.DataFrame
            The index has the levels ``first`` and ``second``. The columns are those of `Comparison.to_pandas` without
            ``label``, and the number of questions in ``common`` with their ``share``.

        Raises
        ------
        calibrant.errors.MissingDependencyError
            Without pandas, which the extra ``pandas`` installs.
        """
        rows = []
        for pair in self.pairs:
            part = pair[self.sorted_by]
            numbers = {key: columns_of(part)[key] for key in columns_of(part) if key not in ONLY_REPORTS}
            shared = {key: part.details[key] for key in ("common", "share")}
            rows.append({"first": pair.first, "second": pair.second, **numbers, **shared})
        return frame_of(rows, ["first", "second"])

    def plot(self, **options: Any) -> Axes:
        """Draw the leaderboard with matplotlib, and return the axes; ``options`` are those of `plot.leaderboard`."""
        from calibrant.plot import leaderboard

        return leaderboard(self, **options)

    def _document(self, source: Source = NO_SOURCE, *, full: bool = False, **_: bool) -> Document:
        from calibrant.report.result_document import document_of

        return document_of(self, source, full=full)


def compare_results(
    results: Mapping[str, ArrayLike], *, clusters: ArrayLike | None = None, sparse: bool = False, level: float = 0.95
) -> ResultComparison:
    r"""Compare models by their results on the same questions, without probabilities.

    A result is 1 for a correct answer and 0 for a wrong one, or a number between them for partial credit. The mean of a
    model is its accuracy, or its mean result. Differences are paired by question, and the leaderboard has simultaneous
    intervals, marks and ranges of ranks as in `compare`.

    With ``sparse``, models may have answered different questions. The result of model :math:`m` on question :math:`q`
    is then :math:`\alpha_m + \gamma_q` plus an error, estimated by least squares. So the difference of two models uses
    all questions that link them, directly or through other models, and a model that answered harder questions loses
    nothing by it. Two assumptions are needed: difficulty acts alike on all models, and models did not choose questions
    by how well they would do. Without missing results, the differences are those of the plain means.

    Parameters
    ----------
    results : mapping of str to array, (Q,) or (Q, A)
        The results of each model on Q questions in the same order, from 0 to 1: numbers or booleans. Columns are A
        attempts at each question, and the mean of the attempts is the result. NaN is a missing attempt.
    clusters : array, (Q,), optional
        The label of each question's cluster, such as its source. Clusters are independent, questions in one are not.
        By default, questions are independent.
    sparse : bool, default False
        Whether models may lack results. Otherwise, a question without a result of every model is an error.
    level : float, default 0.95
        The confidence of each interval, from 0.5 to below 1.

    Returns
    -------
    ResultComparison
        Without missing results, the interval of a mean is Wilson's (1927), for clusters and partial credit with the
        effective number of questions. If also each result is a single 0 or 1 and questions are independent, the
        interval of a difference is Bonett and Price's (2012), with the exact p-value of McNemar's test. The other
        intervals and p-values use Student's distribution, with variances by cluster and Satterthwaite's degrees of
        freedom.

    Raises
    ------
    calibrant.errors.InputError
        For fewer than two models, results outside 0 to 1, different numbers of questions, missing results without
        ``sparse``, and models without any common question.

    Notes
    -----
    Cost: a few passes over Q x M numbers, and for each pattern of missing results the cube of the number of models.

    References
    ----------
    Pustejovsky and Tipton (2018), doi 10.1080/07350015.2016.1247004. Bonett and Price (2012), doi
    10.3102/1076998611411915. McNemar (1947), doi 10.1007/BF02295996.

    Examples
    --------
    >>> import calibrant
    >>> a, b = [1] * 30 + [0] * 10, [1] * 18 + [0] * 22
    >>> comparison = calibrant.compare_results({"a": a, "b": b})
    >>> difference = comparison.pairs[0]["accuracy"]
    >>> round(difference.value, 3), round(difference.low, 3), round(difference.high, 3), round(difference.p_value, 5)
    (0.3, 0.134, 0.437, 0.00049)
    """
    check_level(level)
    if sparse not in (True, False):
        raise InputError("sparse", "True or False", repr(sparse), "pass sparse=True if models lack results")
    values, attempts = _values(results, sparse=bool(sparse))
    key, description = ("accuracy", ACCURACY) if _are_shares(results) else ("mean_result", MEAN_RESULT)
    labels = None if clusters is None or clusters is False else as_clusters(clusters, len(values))
    means = Means(tuple(map(str, results)), values, key, description, attempts=attempts)
    return compare_means(means, labels, sparse=bool(sparse), level=float(level))


class Means(NamedTuple):
    """The values whose means are compared: (Q, M), NaN where a model has none, and what they are."""

    names: tuple[str, ...]
    values: Float64s
    key: str
    description: Description
    attempts: tuple[int, int] = (1, 1)
    tests: Mapping[str, TestResult] = MappingProxyType({})

    @property
    def are_results(self) -> bool:
        """Whether the values are shares of right answers."""
        return self.description.better == "higher"


def compare_means(means: Means, labels: ClusterLabels | None, *, sparse: bool, level: float) -> ResultComparison:
    """Return the comparison of models by means, of those that are linked by common questions."""
    order = sorted(range(len(means.names)), key=means.names.__getitem__)  # so that no sum depends on the order given
    values = means.values[:, order]
    present = np.isfinite(values)
    parts = linked(present)
    own = parts == np.argmax(np.bincount(parts, present.sum(axis=0)))
    if np.count_nonzero(own) < 2:
        remedy = "compare models that answered the same questions"
        raise InputError("results", "models with a question in common", "models without a question in common", remedy)
    kept = present[:, own].any(axis=1)
    values = values[np.ix_(kept, own)]
    clusters = None if labels is None or labels.alone(None) else labels.take(np.flatnonzero(kept))
    by_content = content_order([*values.T, *([] if clusters is None else [clusters.hashes])])
    values = values[by_content]
    numbers = None if clusters is None else clusters.take(by_content).numbered()[0].astype(np.intp)
    names = [means.names[place] for place, is_own in zip(order, own, strict=True) if is_own]
    found = _Found(means, names, values, numbers, two_way(values, numbers, shares=means.are_results), level)
    given = [name for name in means.names if name in names]
    standings = found.standings()
    places = compared_places([names.index(name) for name in given], [names.index(standings[0].name)])
    answered = np.isfinite(values).sum(axis=0)
    return ResultComparison(
        names=tuple(given),
        n=len(values),
        level=level,
        sorted_by=means.key,
        descriptions={means.key: means.description},
        leaderboard=standings,
        pairs=tuple(found.pair(i, j) for i, j in places),
        answered={name: int(answered[names.index(name)]) for name in given},
        unadjusted={name: float(np.nanmean(values[:, names.index(name)])) for name in given},
        attempts=means.attempts,
        sparse=sparse,
        unlinked=tuple(name for name in means.names if name not in names),
        clusters=None if numbers is None else {"clusters": 1 + int(numbers.max())},
        tests={name: means.tests[name] for name in given if name in means.tests},
    )


class _Found(NamedTuple):
    """What was estimated; the models are in the order of their names, and the questions in that of their values."""

    means: Means
    names: Sequence[str]
    values: Float64s
    clusters: NDArray[np.intp] | None
    estimated: TwoWay
    level: float

    @property
    def complete(self) -> bool:
        """Whether every model answered every question."""
        return bool(np.isfinite(self.values).all())

    @property
    def exact(self) -> bool:
        """Whether the results are single answers, right or wrong, to the same independent questions."""
        single = self.means.are_results and self.means.attempts[1] == 1 and self.clusters is None
        return single and self.complete and bool(np.isin(self.values, (0.0, 1.0)).all())

    def standings(self) -> tuple[Standing, ...]:
        """Return the standing of each model, the best first."""
        sign = -1.0 if self.means.description.better == "higher" else 1.0
        losses = sign * self.estimated.means
        order = np.argsort(losses, kind="stable")
        scale = len(self.values) / (len(self.values) + 2) if self.exact else 1.0
        ranked = ranking(scale * losses[order], self._spread().take(order), self.level)
        ranked = replace(ranked, excess=ranked.excess / scale)
        number, standings = len(order), []
        for rank, place in enumerate(order.tolist()):
            name = self.names[place]
            difference, among_best, ends = difference_to_best(
                ranked, rank, losses[place], number, 0, number, self.level
            )
            if not math.isfinite(difference.high):
                difference = Estimate(difference.value, p_value=difference.p_value, method=_DECIDED)
            test = self.means.tests.get(name)
            standings.append(
                Standing(
                    name=name,
                    estimates={self.means.key: self.mean(place)},
                    test=test,
                    miscalibrated=test is not None and test.p_value <= alpha_of(self.level),
                    difference=difference,
                    adjusted_p_value=difference.p_value,
                    among_best=among_best,
                    rank_low=ends[0],
                    rank_high=ends[1],
                )
            )
        return tuple(standings)

    def _spread(self) -> Spread:
        """Return how the means vary together; of single answers, their differences as in `OnlyRight.interval`.

        So the interval of two models is that of Bonett and Price, about the difference times n / (n + 2).
        """
        spread = self.estimated.spread
        if not self.exact:
            return spread
        n, means = len(self.values), self.estimated.means
        differs = n * (means[:, None] + means) - 2 * np.einsum("qi,qj->ij", self.values, self.values)
        gaps = n * (means[:, None] - means) / (n + 2)
        squares = np.maximum((differs + 2) / (n + 2) - gaps**2, 0.0) / (n + 2)
        np.fill_diagonal(squares, 0.0)
        return Spread(np.sqrt(squares), spread.covariance)

    def mean(self, place: int) -> Estimate:
        """Return the mean of a model with its own interval."""
        value, variance = float(self.estimated.means[place]), float(self.estimated.variances[place])
        n, units = int(np.isfinite(self.values[:, place]).sum()), len(self.values)
        if self.clusters is not None:
            units = 1 + int(self.clusters.max())
        if self.means.are_results and self.complete:
            t, z, trials = t_quantile(self.level, self.estimated.df), normal_quantile(self.level), float(units)
            if self.exact:
                trials = float(n)
            elif variance > 0 and 0 < value < 1:
                trials = value * (1 - value) / variance * (z / t) ** 2
            return Estimate(value, *wilson_interval(value, trials, z), level=self.level, method="Wilson", n=n)
        if units < 2:
            return Estimate(value, method=_ONE, n=n)
        half = t_quantile(self.level, self.estimated.df) * math.sqrt(variance)
        return Estimate(value, value - half, value + half, level=self.level, method=self._method, n=n)

    @property
    def _method(self) -> str:
        by = " by cluster" if self.clusters is not None else ""
        if self.complete:
            return f"paired by question{by}, Student's t"
        return f"two-way additive model, variances{by or ' by question'} (CR2), Student's t"

    def pair(self, i: int, j: int) -> Pair:
        """Return the difference of two models, the first minus the second."""
        estimated, one, other = self.estimated, self.values[:, i], self.values[:, j]
        both = np.isfinite(one) & np.isfinite(other)
        common, either = int(both.sum()), int((np.isfinite(one) | np.isfinite(other)).sum())
        details: dict[str, Any] = {"common": common, "share": common / either}
        value = float(estimated.means[i] - estimated.means[j])
        error, df = float(estimated.spread.errors[i, j]), float(np.asarray(estimated.spread.df)[i, j])
        settings: dict[str, Any] = {"level": self.level, "n": len(self.values)}
        if self.exact:
            first, second = int(np.sum(one > other)), int(np.sum(one < other))
            only = OnlyRight(first / common, second / common, float(common))
            ends = only.interval(value, float(common), normal_quantile(self.level))
            details |= {"only_first": first, "only_second": second}
            estimate = Estimate(
                value, *ends, p_value=mcnemar(first, second), method="Bonett and Price", details=details, **settings
            )
        elif not math.isfinite(error):
            estimate = Estimate(value, method=_DECIDED, n=len(self.values), details=details)
        else:
            details["degrees_of_freedom"] = df
            half = t_quantile(self.level, df) * error
            p = _two_sided(abs(value) / error, df) if error > 0 else 1.0 if value == 0 else 0.0
            estimate = Estimate(
                value, value - half, value + half, p_value=p, method=self._method, details=details, **settings
            )
        return Pair(self.names[i], self.names[j], {self.means.key: estimate})


def mcnemar(first: int, second: int) -> float:
    """Return the exact p-value of McNemar's test: of so many questions that only one of two models answered correctly.

    If both were equally good, ``first`` of all n would have a binomial distribution with probability 1/2.
    """
    from scipy.special import bdtr

    fewer, n = min(first, second), first + second
    return min(1.0, 2 * float(bdtr(fewer, n, 0.5))) if n else 1.0


def _two_sided(statistic: float, df: float) -> float:
    from scipy.special import ndtr, stdtr

    return 2 * float(ndtr(-statistic) if math.isinf(df) else stdtr(df, -statistic))


# ---------------------------------------------------------------- the results


def _values(results: Any, *, sparse: bool) -> tuple[Float64s, tuple[int, int]]:
    """Return the mean result of each question and model, and the least and largest number of attempts."""
    if not isinstance(results, Mapping):
        remedy = "pass dict(frame.items()), with a column for each model" if hasattr(results, "columns") else _FORM
        expected = "a mapping from the names of models to results"
        raise InputError("results", expected, f"a {type(results).__name__}", remedy)
    if len(results) < 2:
        raise InputError("results", "two models or more", f"a mapping of {len(results)}", _FORM)
    if len({*map(str, results)}) < len(results):
        names = ", ".join(map(repr, results))
        raise InputError("results", "models whose names differ as text", names, "rename one of them")
    columns, least, most = list[Float64s](), list[int](), list[int]()
    for name, given in results.items():
        argument = f"results[{name!r}]"
        means, counts = _of_model(argument, given)
        if columns and len(means) != len(columns[0]):
            expected = f"{len(columns[0]):,} questions, as many as results[{next(iter(results))!r}]"
            raise InputError(argument, expected, f"{len(means):,}", "give results of the same questions, in one order")
        if not sparse and not counts.all():
            row = int(np.argmin(counts))
            remedy = "pass sparse=True if models did not answer all questions, or leave the question out"
            raise InputError(argument, "a result for every question", f"none at row {row:,}", remedy, row=row)
        columns.append(means)
        least.append(int(np.min(counts, where=counts > 0, initial=counts.max(initial=0))))
        most.append(int(counts.max(initial=0)))
    if not len(columns[0]):
        raise InputError("results", "one question or more", "none", "pass the results of questions")
    return np.column_stack(columns), (min(least), max(most))


def _of_model(argument: str, given: Any) -> tuple[Float64s, NDArray[np.intp]]:
    """Return the mean result of each question, and the number of attempts at it."""
    array = as_values(argument, with_nan(given))
    if array.dtype.kind not in "fiub":
        raise InputError(
            argument, "numbers from 0 to 1", f"values of type {array.dtype}", "pass 1 for right, 0 for wrong"
        )
    if array.ndim not in (1, 2):
        expected = "results of shape (questions,) or (questions, attempts)"
        raise InputError(argument, expected, f"shape {array.shape}", "reshape the results")
    table = array.astype(np.float64).reshape(len(array), *array.shape[1:] or (1,))
    wrong = ~(np.isnan(table) | ((table >= 0) & (table <= 1)))
    if wrong.any():
        row, column = map(int, np.argwhere(wrong)[0])
        got = f"{table[row, column]:g} at row {row:,}"
        remedy = (
            "divide the results by their largest possible value"
            if 1 < table[row, column] < math.inf
            else "correct the result"
        )
        raise InputError(argument, "results from 0 to 1", got, remedy, row=row)
    counts = np.isfinite(table).sum(axis=1)
    sums = np.sum(np.sort(table, axis=1), axis=1, where=np.isfinite(np.sort(table, axis=1)))
    return np.divide(sums, counts, out=np.full(len(table), np.nan), where=counts > 0), counts


def with_nan(given: Any) -> Any:
    """Return numbers with NaN for missing ones: None, a masked entry, or NA of pandas; anything else unchanged."""
    if isinstance(given, np.ma.MaskedArray):
        return np.where(np.ma.getmaskarray(given), np.nan, given.data)
    if hasattr(getattr(given, "dtype", None), "na_value") and getattr(given.dtype, "kind", "") in "fiub":
        return given.to_numpy(np.float64, na_value=np.nan)
    entries = given.ravel().tolist() if isinstance(given, np.ndarray) and given.dtype == object else given
    if isinstance(entries, (list, tuple)) and any(entry is None for entry in entries):
        filled = [np.nan if entry is None else entry for entry in entries]
        return np.array(filled).reshape(given.shape) if isinstance(given, np.ndarray) else filled
    return given


def _are_shares(results: Mapping[str, Any]) -> bool:
    """Whether every single result is right or wrong, so that means over attempts are shares."""
    tables = (np.asarray(as_values(name, with_nan(given)), np.float64) for name, given in results.items())
    return all(bool(np.all(np.isnan(table) | np.isin(table, (0.0, 1.0)))) for table in tables)
