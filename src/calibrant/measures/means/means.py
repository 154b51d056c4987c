"""Means over whole predictions and over rows: the values, how they vary, and their intervals.

The values are the accuracy and proper scores, of the predictions and of always predicting the base rates. Intervals are
by the central limit theorem, Wilson's for a share.

All rows of one kind get the same Brier score u from the base rates: the kinds are the classes, or each label with each
of its outcomes. With B the mean Brier score b of the predictions and U that of the base rates, the skill is 1 - B / U.
U is least at the base rates, so that their own error plays no part to first order, and the skill varies as a ratio of
two means over the same rows: var = var(b - (B / U) u) / (U^2 n).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.inputs.notions import ScoreMeans, ordered_scores_of_rows, read, scores_of_rows
from calibrant.inputs.predictions import Layout, Notion, Predictions
from calibrant.inputs.scores import Score, mean_score, mean_square
from calibrant.inputs.weights import integer_weights, share_rows
from calibrant.kernels.compensated import binned, total_of
from calibrant.measures.isotonic import isotonic
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.cached import Late
from calibrant.runtime.dataclass import dataclass
from calibrant.sketch import Arguments, CalibrationSketch
from calibrant.statistics.buckets import around_mean
from calibrant.statistics.cells import Cells
from calibrant.statistics.design import MINORITY, Clustered, Influence, SamplingDesign
from calibrant.statistics.intervals import Variance, blend, centred_blend, clopper_pearson
from calibrant.statistics.resampling import alpha_of, normal_quantile
from calibrant.table import GridCells, ReliabilityTable
from calibrant.table.cluster_labels import ClusterLabels
from calibrant.table.cluster_sums import over_buckets

if TYPE_CHECKING:
    from calibrant.measures.event import Event

DECIDING_ROWS: Final = 30  # rows whose weights decide a variance, below which every interval is flagged
#: Why right answers alone have no skill.
ONLY_RIGHT: Final = "the {} records which predictions are correct, but not how often each class occurs"

_READ_AGAIN: Final = 2**26  # scores that are read once more, for how Brier scores differ between classes
_CANCELS: Final = 1e-8  # of the mean's square: a difference of mean squares that is smaller has lost half its digits
_SQUARABLE: Final = 1e150  # the square of a larger log loss is not a float
_ROUNDING: Final = 1e-12  # relative: a smaller variance of rows is rounding


@dataclass(frozen=True, eq=False, kw_only=True)
class BaseRates:
    """The base rates of the outcomes, and the Brier score of always predicting them."""

    #: masses, squares: (K,): the weight and the squared weight of the rows of each kind; with whole weights they are
    #: the same.
    masses: Float64s
    squares: Float64s
    losses: Float64s  # (K,): u, the Brier score that the base rates get in a row of each kind
    #: The sum of squared weight times b over the rows of each kind, (K,); None if it is not known.
    brier: Late[Float64s] | None = None
    #: (B, K): the weight of each kind in each bucket of clusters; None if it is not known, and without clusters.
    buckets: Float64s | None = None
    #: (H,): the bucket of these for each bucket of the evaluated event, which may be finer.
    places: NDArray[np.intp] | None = None

    @classmethod
    def of_classes(
        cls, masses: Float64s, squares: Float64s, brier: Late[Float64s] | None = None, *, single: bool = False
    ) -> BaseRates:
        """Return the base rates of exclusive classes; ``single`` says that two of them are one event's outcomes."""
        rates = masses / masses.sum()
        losses = 1 - 2 * rates + float(np.sum(rates**2))
        return cls(masses=masses, squares=squares, losses=losses / 2 if single else losses, brier=brier)

    @classmethod
    def of_tables(cls, tables: Sequence[ReliabilityTable]) -> BaseRates:
        """Return the base rates of events that are evaluated together: one, or the labels of multilabel predictions."""
        each = [table for table in tables if len(table)]
        parts = []
        for table in each:
            masses = np.array([(table.counts - table.positives).sum(), table.positives.sum()], dtype=np.float64)
            parts.append(cls.of_classes(masses, table.own_weights.sum(axis=1), single=True))

        def brier() -> Float64s:
            scores = [table.scores.astype(np.float64) for table in each]
            sums = [
                (table.own_weights * np.stack([p**2, (1 - p) ** 2])).sum(axis=1)
                for table, p in zip(each, scores, strict=True)
            ]
            return np.concatenate(sums)

        masses, squares, losses = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("masses", "squares", "losses")
        )
        return cls(masses=masses, squares=squares, losses=losses, brier=Late(brier))

    @classmethod
    def of_predictions(cls, predictions: Predictions, notion: Notion, tables: Sequence[ReliabilityTable]) -> BaseRates:
        """Return the base rates of predictions: from the tables of the event or of each label, else from the rows."""
        single = predictions.layout == "binary"
        if predictions.layout == "multilabel" or (single and notion == "positive"):
            return cls.of_tables(tables)
        evaluated, weights = predictions.evaluated, predictions.weights
        kinds = predictions.targets[evaluated]
        weights = None if weights is None else weights[evaluated]
        n_kinds = 2 if single else predictions.n_classes
        squares = weights if weights is None or integer_weights(weights) else weights**2

        def by_kind(values: Float64s | None) -> Float64s:
            return binned(kinds, values, n_kinds)

        def brier() -> Float64s:
            scores = scores_of_rows(predictions)[0]
            return by_kind(scores if squares is None else squares * scores)

        few = predictions.n * predictions.rows.width <= _READ_AGAIN
        masses = by_kind(weights)
        return cls.of_classes(
            masses, masses if squares is weights else by_kind(squares), Late(brier) if few else None, single=single
        )

    @property
    def score(self) -> float:
        """U, the mean Brier score of the base rates: 0 if all outcomes are equal."""
        return float(self.masses @ self.losses) / float(self.masses.sum())

    @property
    def own_variance(self) -> float:
        """The variance of u over rows."""
        return float(self.squares @ (self.losses - self.score) ** 2) / float(self.squares.sum())

    def variance(self, ratio: float, mean: float, variance: float) -> float:
        """Return the variance of b - ratio u over rows, from the mean and the variance of b.

        Where b is not known by kind, it is the largest that any covariance allows (Cauchy and Schwarz).
        """
        of_rates = self.own_variance
        if self.brier is None:
            return (math.sqrt(variance) + abs(ratio) * math.sqrt(of_rates)) ** 2
        around = self.losses - self.score
        shared = float((self.brier.value - mean * self.squares) @ around) / float(self.squares.sum())
        return max(variance - 2 * ratio * shared + ratio**2 * of_rates, 0.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class OrderedMeans:
    """Means over predictions of ordered levels, and how they vary."""

    rps: float  # the mean ranked probability score
    #: variance, implied: the mean square of a row's score around it: as seen, and over levels with their probabilities.
    variance: float
    implied: float
    within_one: float  # the share of rows whose likeliest level is at most one level from the true one
    rows: float  # the number of equal rows in which the share would be as uncertain
    #: (B, 2): the sums of the score and of the rows within one level over the buckets of clusters; empty without them.
    buckets: Float64s

    @classmethod
    def of(cls, predictions: Predictions, labels: ClusterLabels | None) -> OrderedMeans:
        """Return the means of predictions in host memory, whose columns are in the order of the levels."""
        (scores, expected, square, near), evaluated = ordered_scores_of_rows(predictions), predictions.evaluated
        weights = np.ones(len(scores)) if predictions.weights is None else predictions.weights[evaluated]
        squares = weights if integer_weights(weights) else weights**2
        rps, share = (total_of(weights * x) / total_of(weights) for x in (scores, near))
        kinds, buckets = np.array([total_of(squares * ~near), total_of(squares * near)]), np.empty((0, 2))
        if labels is not None:
            buckets = over_buckets(labels.take(np.flatnonzero(evaluated)), [weights * scores, weights * near])
        return cls(
            rps=rps,
            variance=total_of(squares * (scores - rps) ** 2) / total_of(squares),
            implied=max(total_of(squares * (square - rps * (2 * expected - rps))) / total_of(squares), 0.0),
            within_one=min(share, 1.0),
            rows=float(share_rows(share, total_of(weights), kinds)),
            buckets=buckets,
        )


@dataclass(frozen=True, kw_only=True)
class PredictionMeans:
    """Means over whole predictions, not over an evaluated event: accuracy, Brier score, log loss and their spread."""

    accuracy: float
    brier: float
    nll: float
    accuracy_rows: float  # the number of equal rows in which the accuracy would be as uncertain
    #: brier_variance, nll_variance: those of a row's Brier score and of its finite log loss: ``effective_n`` times that
    #: of the mean.
    brier_variance: float
    nll_variance: float
    infinite: float  # the weight of the rows whose log loss is infinite
    n: int
    effective_n: float
    layout: Layout  # for one event, "binary", calibration says what the scores should be
    accuracy_bound: float = 0.0  # the certified error of the accuracy
    nll_bound: float = 0.0  # that of the log loss
    #: The Brier score of always predicting the base rates; None if they are not known. ``no_base_rates`` says why.
    base_rates: BaseRates | None = None
    no_base_rates: str = ""
    ordered: OrderedMeans | None = None  # means that need an order of the classes; None if none was declared

    @property
    def event(self) -> bool:
        """Whether the scores are those of the evaluated event itself."""
        return self.layout == "binary"

    @classmethod
    def of_scores(
        cls,
        scores: ScoreMeans,
        squared: ScoreMeans,
        *,
        effective_n: float,
        n: int,
        layout: Layout,
        base_rates: BaseRates | None = None,
        no_base_rates: str = "",
        ordered: OrderedMeans | None = None,
    ) -> PredictionMeans:
        """Return the means, with the variances that the same means with squared weights give.

        The variance of a mean m is sum w^2 (x - m)^2 / W^2. With whole weights a row of weight 2 is two rows, and
        ``squared`` is ``scores``.
        """
        rows = effective_n
        if squared != scores:
            kinds = effective_n * np.array([1 - squared.accuracy, squared.accuracy])
            rows = float(share_rows(scores.accuracy, effective_n, kinds))
        return cls(
            accuracy=scores.accuracy,
            brier=scores.brier,
            nll=scores.nll,
            accuracy_rows=rows,
            brier_variance=_variance(scores.brier, squared.brier, squared.brier_square),
            nll_variance=_variance(scores.nll, squared.nll, squared.nll_square),
            infinite=scores.infinite,
            n=n,
            effective_n=effective_n,
            layout=layout,
            base_rates=base_rates,
            no_base_rates=no_base_rates,
            ordered=ordered,
        )

    @classmethod
    def of_sketch(cls, sketch: CalibrationSketch) -> PredictionMeans:
        """Return the exact means of a sketch."""
        sums = sketch.totals
        rates, reason = _rates_of_sketch(sketch)
        return cls.of_scores(
            sums.means,
            sums.squared_means,
            effective_n=sums.effective_n,
            n=sums.n,
            layout=sketch.layout or "binary",
            base_rates=rates,
            no_base_rates=reason,
        )

    def of_answers(self, masses: Float64s, squares: Float64s) -> PredictionMeans:
        """Return the means if the outcome of an event is whether an answer is right.

        ``masses`` and ``squares`` are the weight and the squared weight of the rows with outcome 0 and with outcome 1.
        """
        total = float(masses.sum())
        rate = float(masses[1]) / total
        rows = float(share_rows(rate, total, squares))
        return replace(self, accuracy=rate, accuracy_rows=rows, accuracy_bound=0.0)

    @classmethod
    def of_table(cls, table: ReliabilityTable, *, right: bool) -> PredictionMeans:
        """Return the means of a table of one event; ``right`` says that the event is a right answer."""
        means, cells = cls.of_event(table, right=right), GridCells.of(table)
        if cells is None:
            return means
        nll, nll_bound = log_loss_of_cells(cells)
        bound = 0.0 if right else accuracy_bound(cells, means.accuracy)
        return replace(means, nll=nll, nll_bound=nll_bound, accuracy_bound=bound)

    @classmethod
    def of_event(cls, table: ReliabilityTable, *, right: bool) -> PredictionMeans:
        """Return the same with the log loss and the accuracy of the cells' mean scores, without certified errors."""
        scores = _table_scores(table, np.stack([table.counts - table.positives, table.positives]), right=right)
        squared = scores if table.whole else _table_scores(table, table.own_weights, right=right)
        scores = replace(scores, brier=isotonic.table_score(table, "brier"), nll=isotonic.table_score(table, "log"))
        return cls.of_scores(
            scores,
            squared,
            effective_n=Cells.from_table(table).effective_n,
            n=table.n,
            layout="binary",
            base_rates=None if right else BaseRates.of_tables([table]),
            no_base_rates=ONLY_RIGHT.format("table") if right else "",
        )


def score_means(arguments: Arguments) -> ScoreMeans:
    """Return the mean scores of whole predictions, or those that a sketch keeps."""
    totals = arguments.totals()
    return (read(*arguments.predictions()) if totals is None else totals).means


def _rates_of_sketch(sketch: CalibrationSketch) -> tuple[BaseRates | None, str]:
    """Return the base rates, or why the sketch does not have them."""
    if sketch.layout == "binary":
        if sketch.notion == "top-label":
            return None, ONLY_RIGHT.format("sketch")
        return BaseRates.of_tables([sketch.table]), ""
    if not sketch.has_classes:
        return None, "the sketch does not keep its classes: make it with classwise=True"
    tables = sketch.class_tables
    if sketch.layout == "multilabel":
        return BaseRates.of_tables(tables), ""
    masses = np.array([float(table.positives.sum()) for table in tables])
    squares = np.array([float(table.own_weights[1].sum()) for table in tables])
    return BaseRates.of_classes(masses, squares), ""


def _table_scores(table: ReliabilityTable, weights: NDArray[Any], *, right: bool) -> ScoreMeans:
    """Return the mean scores of a table's rows whose weights by outcome, (2, K), are these."""
    counts, positives = weights.sum(axis=0), weights[1]
    hits = positives if right else np.where(table.scores >= 0.5, positives, counts - positives)
    total, rows = float(counts.sum()), (table.scores, counts, positives)
    return ScoreMeans(
        accuracy=float(hits.sum()) / total,
        brier=mean_score("brier", *rows, total),
        brier_square=mean_square("brier", *rows, total),
        nll=mean_score("log", *rows, total),
        nll_square=mean_square("log", *rows, total),
        infinite=table.impossible,
    )


def _variance(mean: float, squared_mean: float, square: float) -> float:
    """Return the mean of (x - m)^2 over rows of squared weight; 0 for an infinite mean, which has no interval."""
    return max(square - mean * (2 * squared_mean - mean), 0.0) if math.isfinite(mean) else 0.0


def heavy(rows: float) -> str:
    """Return a warning where the weights of so few rows decide that variances are not to be trusted, or nothing."""
    if rows >= DECIDING_ROWS:
        return ""
    return f"few rows have most of the weight (effective number of rows {rows:.2g}), so intervals may be too short"


def counted_rows(rows: int, weight: float) -> str:
    """Return a warning about whole weights, which may be those of a sample."""
    total = f"the weights are whole numbers with a sum of {weight:,.0f} for {rows:,} rows"
    counted = f"{total}, so each weight is read as a number of rows"
    told = 'pass weights_are="sampling" (--weights-are sampling)'
    return f'{counted}; for sampling weights, {told}; for counts, pass "frequency"'


def wilson_interval(share: float, n: float, z: float) -> tuple[float, float]:
    """Return Wilson's interval (1927) of a share seen in n rows."""
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    low = 0.0 if share <= 0 else min(max(middle - half, 0.0), share)
    return low, 1.0 if share >= 1 else max(min(middle + half, 1.0), share)


def accuracy_bound(cells: GridCells, value: float) -> float:
    """Bound the error of the share of right answers: a score of 0.5 predicts 1, lower scores in its cell 0."""
    doubt = cells.table.counts[cells.high == 0.5].sum() / cells.table.total
    return float(min(doubt, max(value, 1 - value)))


def log_loss_of_cells(cells: GridCells) -> tuple[float, float]:
    """Return the least log loss that the sums allow, and how much larger it can be.

    The losses -log p of n1 predictions with mean score m in a cell sum to at least -n1 log m (Jensen), and at most
    to n1 times the chord between the cell's ends, at m.
    """
    least, most = 0.0, 0.0
    missed = (cells.n0, cells.n0 - cells.s0, 1 - cells.high, 1 - cells.low)
    for n, sums, low, high in ((cells.n1, cells.s1, cells.low, cells.high), missed):
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.clip(sums / n, low, high)
            share = np.where(high > low, (high - mean) / (high - low), 0.0)
            chord = -(np.where(share > 0, share * np.log(low), 0.0) + (1 - share) * np.log(high))
            least += float(np.sum(np.where(n > 0, -n * np.log(mean), 0.0)))
            most += float(np.sum(np.where(n > 0, n * chord, 0.0)))
    if math.isinf(least):
        return math.inf, 0.0
    return least / cells.table.total, max(most - least, 0.0) / cells.table.total


# ------------------------------------------------------------ the mean difference, the mean score


def gap_influence(design: SamplingDesign) -> Influence:
    """Return the influence on the mean difference, score - outcome, its square blended with what calibration implies.

    The blend is (K Q + 5 V0) / (K + 5), K the effective number of rows, or of clusters.
    """
    cells, fine, total = design.cells, design.fine, design.cells.total
    observed = cells.squared_residuals
    steadied = blend(np.full(len(cells), design.units), observed, cells.null_variances)
    mean, squared_gaps = float(cells.gap_sums.sum()) / total, float(cells.squared_gaps.sum())
    centre = mean * (2 * squared_gaps - mean * float(cells.square_weights.sum()))
    square, blended = (max(float(squares.sum()) - centre, 0.0) / total**2 for squares in (observed, steadied))
    return Influence(
        square=square,
        by_bucket=lambda clusters: clusters.gaps.sum(axis=1) / total,
        n=cells.effective_n,
        steadied=centred_blend(design.units, square, float(cells.null_variances.sum()) / total**2, blended),
        rounding=_ROUNDING * float(observed.sum()) / total**2,
        cells=fine,
        values=np.stack([fine.scores, fine.scores - 1]) / total,
    )


def gap_variance(design: SamplingDesign) -> Variance:
    """Return the variance of the mean difference."""
    return design.variance(gap_influence(design))


def mean_score_influence(cells: Cells, value: float) -> Influence:
    """Return the influence on the mean score of these cells, whose value is given."""
    total = cells.total
    square = float(np.sum(cells.square_weights * (cells.scores - value) ** 2)) / total**2
    return Influence(
        square=square,
        by_bucket=lambda clusters: (clusters.gaps + clusters.y).sum(axis=1) / total,
        n=cells.effective_n,
        rounding=_ROUNDING / cells.effective_n,
        cells=cells,
        values=np.stack([cells.scores, cells.scores]) / total,
    )


# ------------------------------------------------------------ proper scores


def _rows(design: SamplingDesign, means: PredictionMeans) -> float:
    """Return the effective number of rows of means; in clusters each label of multilabel predictions is one."""
    return design.effective_n if isinstance(design, Clustered) else means.effective_n


def score_influence(
    design: SamplingDesign,
    score: Score,
    means: PredictionMeans,
    by_bucket: Callable[[Clustered], Float64s] | None = None,
) -> Influence:
    """Return the influence on the mean Brier score or log loss; the buckets of clusters must be scored.

    The variance is `steadied_by_scores`. With more than two classes, the scores of the top label decide: the loss of
    the other answers is taken as that of two classes. ``by_bucket`` are other sums of the buckets.
    """
    cells, n, name = design.fine, _rows(design, means), "brier" if score == "brier" else "nll"
    mean, variance = (means.brier, means.brier_variance) if score == "brier" else (means.nll, means.nll_variance)
    steadied = None
    if mean > _SQUARABLE:  # of logits such as 1e300
        return Influence(square=math.inf, by_bucket=lambda clusters: np.zeros(len(clusters.sizes)), n=n)
    if means.layout != "multilabel":
        by_scores = implied_square(cells, score, means)
        if means.event and min(variance, by_scores) < _CANCELS * mean**2:
            of_cells, by_scores = _around(cells, score, mean)
            variance = of_cells if cells.table.grid is None else max(variance, of_cells)
        steadied = steadied_by_scores(cells, n, variance, by_scores) / n
    return Influence(
        square=variance / n,
        by_bucket=by_bucket or (lambda clusters: clusters.scalar(name) / clusters.total),
        n=n,
        steadied=steadied,
        rounding=_ROUNDING * (mean**2 + variance) / n,
    )


def rps_influence(design: SamplingDesign, means: PredictionMeans, ordered: OrderedMeans) -> Influence:
    """Return the influence on the mean ranked probability score, its variance `steadied_by_scores`."""
    n, variance = _rows(design, means), ordered.variance
    return Influence(
        square=variance / n,
        by_bucket=lambda clusters: ordered.buckets[clusters.held, 0] / clusters.total,
        n=n,
        steadied=steadied_by_scores(design.fine, n, variance, ordered.implied) / n,
        rounding=_ROUNDING * (ordered.rps**2 + variance) / n,
    )


def implied_square(cells: Cells, score: Score, means: PredictionMeans) -> float:
    """Return the mean square of a prediction's Brier score or log loss around the mean, as calibration implies it."""
    (expected, square), mean = _implied(cells.scores, score), means.brier if score == "brier" else means.nll
    if score == "brier" and not means.event:  # a sum over classes
        expected, square = 2 * expected, 4 * square
    squares = cells.square_weights
    return float(np.sum(squares * (square - mean * (2 * expected - mean)))) / float(squares.sum())


def steadied_by_scores(cells: Cells, n: float, variance: float, by_scores: float) -> float:
    """Return the variance of a mean score over n rows, blended with what calibration implies, if that is larger.

    Outcomes with a probability below 0.5 make most of the variance, and few or none of them may have occurred. The
    blend is (m Q + 5 V0) / (m + 5), m twice their expected or their observed number, whichever is larger: n where all
    scores are 0.5.
    """
    counts, p = cells.counts, cells.scores
    expected = float(np.sum(counts * np.minimum(p, 1 - p)))
    observed = float(np.sum(np.where(p > 0.5, counts - cells.positives, cells.positives)))
    unlikely = 2 * n * max(expected, observed) / cells.total
    return max(variance, float(blend(*np.array([[unlikely], [variance], [by_scores]]))[0]))


def event_brier_influence(design: SamplingDesign) -> Influence:
    """Return the influence on the evaluated event's own mean Brier score.

    The sum of (p - y)^2 over a bucket is that of p (1 - p) less the exact one of (p - y) (1 - 2 p); p (1 - p) is
    linear in each coarse cell, around the cell's mean score.
    """

    def by_bucket(rows: Clustered) -> Float64s:
        c = rows.cells.scores
        sums = rows.n @ (c * (1 - c)) + (rows.gaps + rows.y - rows.n * c) @ (1 - 2 * c) - rows.scalar("tilt")
        return np.asarray(sums / rows.total)

    cells = design.fine
    influence = score_influence(design, "brier", PredictionMeans.of_event(cells.table, right=False), by_bucket)
    values = np.stack([cells.scores**2, (1 - cells.scores) ** 2]) / cells.total
    return replace(influence, cells=cells, values=values)


def _implied(scores: Float64s, score: Score) -> tuple[Float64s, Float64s]:
    """Return the mean and the mean square of a prediction's Brier score or log loss if its score is right."""
    p, q = scores, 1 - scores
    if score == "brier":
        return p * q, p * q**4 + q * p**4
    hit, miss = np.log(np.where(p > 0, p, 1.0)), np.log(np.where(q > 0, q, 1.0))
    return -p * hit - q * miss, p * hit**2 + q * miss**2


def _around(cells: Cells, score: Score, mean: float) -> tuple[float, float]:
    """Return the variance of a prediction's finite score around the mean, as seen and as calibration implies.

    They are sums of squares: where scores hardly vary, differences of mean squares are rounding alone.
    """
    p, q = cells.scores, 1 - cells.scores
    if score == "brier":
        missed, hit = p**2, q**2
    else:
        missed, hit = -np.log(np.where(q > 0, q, 1.0)), -np.log(np.where(p > 0, p, 1.0))
    squares, (missed, hit) = cells.table.own_weights, ((missed - mean) ** 2, (hit - mean) ** 2)
    observed = float(squares[0] @ missed + squares[1] @ hit)
    implied_sum = float(cells.square_weights @ (q * missed + p * hit))
    return observed / float(squares.sum()), implied_sum / float(squares.sum())


def surprises(event: Event) -> dict[str, str]:
    """Return a warning where too few outcomes are expected that scores call unlikely; a detail, or nothing."""
    cells = event.design.cells
    likely = float(np.sum(cells.rows * np.minimum(cells.scores, 1 - cells.scores)))
    if likely >= MINORITY:
        return {}
    few = f"the scores predict only {likely:.2g} errors (rows with the less probable outcome)"
    return {"flag": f"{few}, fewer than {MINORITY}, so the interval may be too short"}


# ------------------------------------------------------------ shares


class RowShare(NamedTuple):
    """A share of predictions, which is as uncertain as in so many equal rows, and its sums over buckets of clusters."""

    value: float
    rows: float
    by_bucket: Callable[[Clustered], Float64s]

    @classmethod
    def right(cls, means: PredictionMeans) -> RowShare:
        """Return the accuracy; the buckets of clusters must be scored."""
        return cls(means.accuracy, means.accuracy_rows, lambda clusters: clusters.scalar("right") / clusters.total)

    @classmethod
    def within_one(cls, ordered: OrderedMeans) -> RowShare:
        """Return the accuracy within one level."""
        buckets = ordered.buckets
        return cls(ordered.within_one, ordered.rows, lambda clusters: buckets[clusters.held, 1] / clusters.total)

    def influence(self, design: SamplingDesign, means: PredictionMeans) -> Influence:
        """Return the influence on the share."""
        n, share = _rows(design, means), self.value
        square = share * (1 - share) * means.effective_n / self.rows / n
        return Influence(square=square, by_bucket=self.by_bucket, n=n, rounding=_ROUNDING * (share**2 / n + square))

    def interval(self, design: SamplingDesign, means: PredictionMeans, level: float) -> tuple[float, float]:
        """Return Wilson's interval."""
        variance = design.variance(self.influence(design, means))
        n = design.trials(self.rows, variance, level, varied=0 < self.value < 1)
        return wilson_interval(self.value, n, normal_quantile(level))


def rate_rows(design: SamplingDesign, level: float) -> float:
    """Return in how many independent rows the base rate would be as uncertain."""
    cells = design.fine
    rate, squares = float(cells.positives.sum()) / cells.total, cells.table.own_weights.sum(axis=1)
    square = around_mean(float(squares[1]), rate, float(squares[1]), float(squares.sum()))
    influence = Influence(square=square, by_bucket=lambda clusters: clusters.y.sum(axis=1), n=cells.effective_n)
    n, variance = float(share_rows(rate, cells.total, squares)), design.variance(influence)
    return design.trials(n, variance, level, varied=0 < rate < 1)


def rate_interval(rate: float, rows: float, level: float) -> tuple[float, float]:
    """Return Clopper and Pearson's interval of a base rate that was seen in so many independent rows."""
    ends: tuple[Float64s, Float64s] = clopper_pearson(rate * rows, rows, alpha_of(level) / 2)
    return float(ends[0]), float(ends[1])


def uncertainty_interval(rate: float, rows: float, level: float) -> tuple[float, float]:
    """Return the range of r (1 - r) over the base rates r in `rate_interval`."""
    low, high = rate_interval(rate, rows, level)
    most = 0.25 if low <= 0.5 <= high else max(low * (1 - low), high * (1 - high))
    return min(low * (1 - low), high * (1 - high)), most
