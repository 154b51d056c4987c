"""The parts of a sketch: its configuration, the cells of its curves, and exact sums over all rows."""

from __future__ import annotations

import math
from dataclasses import field, fields, replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError
from calibrant.inputs.notions import PER_CLASS, Events, ScoreMeans, class_events, read, read_squared
from calibrant.inputs.predictions import Layout, Notion, Predictions
from calibrant.inputs.weights import MOST_ROWS, MOST_WHOLE, deciding_rows, effective_n, integer_weights, unit_of
from calibrant.kernels import dispatch
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.table import ReliabilityTable, cell_sums
from calibrant.table import grid as grids
from calibrant.table.cluster_labels import ClusterLabels
from calibrant.table.cluster_sums import SCALARS, BucketSums, ClusterSums

#: The sums of a reading pass that a sketch keeps, and their indices in it.
SCORES: Final = {
    "correct": dispatch.CORRECT,
    "brier": dispatch.BRIER,
    "brier_square": dispatch.BRIER_SQUARES,
    "nll": dispatch.NLL,
    "nll_square": dispatch.NLL_SQUARES,
    "infinite": dispatch.INFINITE,
}


#: What to do about predictions that do not go together.
SEVERAL: Final = "use a separate sketch for each kind of predictions"

#: Finite losses add up to less than this when they are squared; more is lost in a sum of doubles.
_MOST_SQUARE: Final = 1e280

#: The sums that are kept with squared weights too.
SQUARED: Final = tuple(name for name in SCORES if name != "infinite")


def scores_of(totals: Float64s) -> dict[str, float]:
    """Return the sums of a reading pass that a sketch keeps, by name."""
    return {name: float(totals[place]) for name, place in SCORES.items()}


@dataclass(frozen=True, kw_only=True)
class SketchConfig:
    """Which predictions a sketch can hold; the first batch sets ``layout`` and ``n_classes``."""

    notion: Notion | None
    classwise: bool
    class_names: tuple[str, ...] | None
    grid: grids.Grid
    layout: Layout | None = None
    n_classes: int | None = None

    @property
    def has_classes(self) -> bool:
        """Whether the sketch keeps a curve for every class."""
        return self.notion in PER_CLASS or (self.classwise and self.layout == "multiclass")

    @property
    def n_curves(self) -> int:
        """The number of curves: one for the evaluated event, then one for each class."""
        return int(self.notion not in PER_CLASS) + (self.n_classes or 0) * self.has_classes

    @property
    def shape(self) -> str:
        """The shape of the predictions, in words."""
        words = {"binary": "one event", "multilabel": f"{self.n_classes} labels"}
        return words.get(str(self.layout), f"{self.n_classes} classes")

    def shaped_as(self, predictions: Predictions) -> SketchConfig:
        """Return the configuration with the shape of these predictions."""
        n_classes = None if predictions.layout == "binary" else predictions.n_classes
        return replace(self, layout=predictions.layout, n_classes=n_classes)

    def check_settings(self, other: SketchConfig) -> None:
        """Reject a sketch with other settings."""
        for name, of in (("grid", "grid"), ("classwise", "classwise"), ("class_names", "class names")):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                raise InputError("other", f"a sketch with the same {of} ({mine})", f"{theirs}", SEVERAL)
        if self.notion is not None and other.notion is not None and self.notion != other.notion:
            raise InputError("other", f"a sketch with the notion {self.notion!r}", repr(other.notion), SEVERAL)

    def check_shape(self, other: SketchConfig) -> None:
        """Reject predictions of another shape than those that this sketch has."""
        if self.layout is not None and (self.layout, self.n_classes) != (other.layout, other.n_classes):
            raise InputError("probs", f"{self.shape}, as in the previous batches", other.shape, SEVERAL)


@dataclass(kw_only=True)
class Totals:
    """Exact sums over all rows; ``squared_`` ones have squared weights, for variances if weights are not whole."""

    n: int = 0
    weight: float = 0.0
    square_weight: float = 0.0
    quartic_weight: float = 0.0  # of the weights to the power of 4; 0 where it is not known
    whole: bool = True  # whether all weights are integers: then each unit of weight is a prediction
    entries: float = 0.0  # the weight behind the means: of all rows; for multilabel, of all labels of all rows
    correct: float = 0.0  # the weight of the right answers
    brier: float = 0.0
    brier_square: float = 0.0
    nll: float = 0.0  # finite losses alone
    nll_square: float = 0.0
    infinite: float = 0.0  # the weight of the rows whose loss is infinite
    squared_correct: float = 0.0
    squared_brier: float = 0.0
    squared_brier_square: float = 0.0
    squared_nll: float = 0.0
    squared_nll_square: float = 0.0
    rounded: float = 0  # how many probabilities were outside [0, 1] by rounding alone, and read as 0 or 1

    @classmethod
    def unweighted(cls, n: int, **scores: float) -> Totals:
        """Return the sums of n rows that each weigh 1, with one label each; ``scores`` has the names of `SCORES`."""
        alike = {f"squared_{name}": scores[name] for name in SQUARED}
        weights = dict.fromkeys(("weight", "square_weight", "quartic_weight", "entries"), float(n))
        return cls(n=n, whole=True, **weights, **scores, **alike)

    @classmethod
    def weighted(cls, n: int, weights: Float64s | None, entries: float, totals: Float64s, squared: Float64s) -> Totals:
        """Return the sums of n rows from those of a reading pass, and of one with squared weights."""
        return cls(
            n=n,
            weight=float(n if weights is None else weights.sum()),
            square_weight=float(n if weights is None else np.sum(weights**2)),
            quartic_weight=float(n if weights is None else np.sum(weights**4)),
            whole=integer_weights(weights),
            entries=entries,
            **scores_of(totals),
            **{f"squared_{name}": float(squared[SCORES[name]]) for name in SQUARED},
        )

    @classmethod
    def of_stored(cls, stored: dict[str, Any]) -> Totals:
        """Return stored sums. Early files lack those with squared weights: they take weights that tell nothing."""
        share = stored["square_weight"] / stored["weight"] if stored["weight"] else 0.0
        return cls(**{**{f"squared_{name}": share * stored[name] for name in SQUARED}, **stored})

    def add(self, other: Totals) -> None:
        """Add the sums of more rows."""
        quartic_weights = [part.quartic_weight for part in (self, other) if part.n]
        for entry in fields(self):
            mine, added = getattr(self, entry.name), getattr(other, entry.name)
            setattr(self, entry.name, mine and added if entry.name == "whole" else mine + added)
        self.quartic_weight = sum(quartic_weights) if all(quartic_weights) else 0.0
        if self.weight > MOST_WHOLE and self.square_weight > self.weight:
            self.whole = False  # as `integer_weights` has it; without weights any number of rows is whole

    @property
    def effective_n(self) -> float:
        """The effective sample size of the rows (Kish)."""
        return self.weight if self.whole else effective_n(self.weight, self.square_weight)

    @property
    def deciding_rows(self) -> float:
        """How many equal rows would tell as much about variances; infinite for whole weights, or if it is not known."""
        return math.inf if self.whole else deciding_rows(self.square_weight, self.quartic_weight)

    @property
    def means(self) -> ScoreMeans:
        """The means over rows."""
        return self._means("")

    @property
    def squared_means(self) -> ScoreMeans:
        """The means over rows with squared weights; with whole weights a row of weight 2 is two rows: `means`."""
        return self.means if self.whole else self._means("squared_")

    def _means(self, prefix: str) -> ScoreMeans:
        total = self.entries * self.square_weight / self.weight if prefix else self.entries
        means = {name: getattr(self, prefix + name) / total for name in SQUARED}
        accuracy = min(means.pop("correct"), 1.0)
        if self.infinite:
            means["nll"] = math.inf
        return ScoreMeans(accuracy=accuracy, infinite=self.infinite, **means)


@dataclass(eq=False)
class Curves:
    """Sums over the cells of a grid for M curves, K cells each."""

    counts: NDArray[Any]  # (M, K, 2) int64, or float64 with weights: the predictions (their weight) by outcome
    sums: Float64s  # (M, K, 3): the sums of their scores, by outcome, and the sum of all squared scores
    squares: Float64s | None  # (M, K, 2): the sums of squared weights, by outcome; None if no batch had weights
    rows: NDArray[np.int64] = field(repr=False)  # (M,): the number of predictions of each curve, unweighted

    @classmethod
    def empty(cls, n_curves: int, grid: grids.Grid) -> Curves:
        """Return curves without predictions."""
        size = len(grids.edges(grid)) + 1
        counts, sums = np.zeros((n_curves, size, 2), np.int64), np.zeros((n_curves, size, 3))
        return cls(counts, sums, None, np.zeros(n_curves, np.int64))

    def add_events(self, k: int, events: Events, grid: grids.Grid) -> None:
        """Add evaluated events to one curve."""
        self.add_cells(k, cell_sums(events, grid), len(events.scores), weighted=events.weights is not None)

    def add_cells(self, k: int, sums: Float64s, rows: int, *, weighted: bool) -> None:
        """Add to one curve the cells of ``rows`` rows, as `dispatch.cell_rows` returns them."""
        if weighted:
            self._take_weights()
        self.counts[k] += sums[:, :2] if weighted else sums[:, :2].astype(np.int64)
        self.sums[k] += sums[:, 2:5]
        if self.squares is not None:
            self.squares[k] += sums[:, 5:] if weighted else sums[:, :2]
        self.rows[k] += rows

    def add(self, other: Curves) -> None:
        """Add the cells of the same number of other curves."""
        if other.squares is not None:
            self._take_weights()
        self.counts += other.counts
        self.sums += other.sums
        if self.squares is not None:
            self.squares += other.counts if other.squares is None else other.squares
        self.rows += other.rows

    def _take_weights(self) -> None:
        if self.squares is None:
            self.counts = self.counts.astype(np.float64)
            self.squares = self.counts.copy()  # each earlier prediction weighs 1

    def table(self, k: int, grid: grids.Grid, *, whole: bool) -> ReliabilityTable:
        """Return one curve as a table; ``whole`` says that all weights are integers."""
        squares = None if self.squares is None or whole else self.squares[k]
        return ReliabilityTable.of_cells(self.counts[k], self.sums[k], squares, n=int(self.rows[k]), grid=grid)

    @property
    def nbytes(self) -> int:
        """The memory of the sums, in bytes."""
        return self.counts.nbytes + self.sums.nbytes + (0 if self.squares is None else self.squares.nbytes)


class SketchSums(NamedTuple):
    """The sums of all rows of a sketch, or of a group; those over buckets if their clusters are known."""

    totals: Totals
    curves: Curves
    clusters: ClusterSums | None = None

    @classmethod
    def of(cls, predictions: Predictions, config: SketchConfig, labels: ClusterLabels | None) -> SketchSums:
        """Return the sums of predictions; ``labels`` are the clusters of their rows."""
        if labels is None and config.notion == "positive" and config.layout == "binary":
            sums = cls._of_events(predictions, config.grid)
            if sums is not None:
                return sums
        evaluated = config.notion or "positive"
        reading = read(predictions, evaluated)
        weights, n = reading.events.weights, reading.n
        if predictions.layout == "multilabel":
            evaluated_rows = predictions.evaluated
            weights = None if predictions.weights is None else predictions.weights[evaluated_rows]
            n = int(np.count_nonzero(evaluated_rows))
        curves = Curves.empty(config.n_curves, config.grid)
        if evaluated not in PER_CLASS:
            curves.add_events(0, reading.events, config.grid)
        if config.has_classes:
            first = config.n_curves - predictions.n_classes
            for k, (events, _) in enumerate(class_events(predictions)):
                curves.add_events(first + k, events, config.grid)
        squared = read_squared(predictions, evaluated) or reading
        totals = Totals.weighted(n, weights, reading.total, reading.totals, squared.totals)
        totals.rounded = predictions.rounded
        if not totals.nll_square < _MOST_SQUARE:
            remedy = "check the logits, because such log losses are too large to be squared"
            raise InputError("probs", "log losses below 1e140", "larger log losses", remedy)
        if labels is None:
            return cls(totals, curves)
        clusters = ClusterSums.of(predictions, reading.events, labels, classes=config.has_classes, count=False)
        return cls(totals, curves, clusters)

    @classmethod
    def _of_events(cls, predictions: Predictions, grid: grids.Grid) -> SketchSums | None:
        """Return the sums of one event's predictions, read once; None for logits, weights, ignored or bad rows."""
        direct = predictions.rows.direct
        if direct is None or predictions.logits or predictions.weights is not None:
            return None
        sums = dispatch.sum_events(direct[:, 0], predictions.labels, *grids.lookup(grid, direct.dtype))
        if sums is None:
            return None
        cells, totals = sums
        n, curves = predictions.n, Curves.empty(1, grid)
        curves.add_cells(0, cells, n, weighted=False)
        return cls(Totals.unweighted(n, **scores_of(totals)), curves)

    def of_event(self) -> SketchSums:
        """Return the sums of the evaluated event alone, without those of the classes."""
        counts, sums, squares, rows = (self.curves.counts, self.curves.sums, self.curves.squares, self.curves.rows)
        curves = Curves(counts[:1], sums[:1], None if squares is None else squares[:1], rows[:1])
        return SketchSums(self.totals, curves, None if self.clusters is None else ClusterSums(self.clusters.event))

    def add(self, other: SketchSums) -> SketchSums:
        """Return the sums of more rows too; the totals and curves of this part take them in.

        Clusters in one part alone, and labels of another kind, are rejected before anything has changed.
        """
        if (self.clusters is None) != (other.clusters is None):
            got = (
                "no clusters after batches with clusters"
                if self.clusters
                else "clusters after batches without clusters"
            )
            remedy = "make a separate sketch for rows without clusters, or pass the cluster of every row"
            raise InputError("clusters", "clusters in every batch or in none", got, remedy)
        if self.totals.n + other.totals.n > MOST_ROWS:
            got = f"{self.totals.n:,} rows and {other.totals.n:,} rows"
            raise InputError("sketch", "at most 2^63 - 1 rows in total", got, "keep several sketches")
        clusters = None if self.clusters is None or other.clusters is None else self.clusters + other.clusters
        self.totals.add(other.totals)
        self.curves.add(other.curves)
        return self._replace(clusters=clusters)

    @property
    def nbytes(self) -> int:
        """The memory of the sums, in bytes."""
        return self.curves.nbytes + (0 if self.clusters is None else self.clusters.nbytes)


# ---------------------------------------------------------------- units of weights

_COUNTED = tuple(SCALARS.index(name) for name in ("right", "infinite"))


def in_units(part: SketchSums) -> SketchSums:
    """Return the sums with weights divided by the unit that results are computed in; the same object if it is 1.

    If all weights are equal, counts are then integers, as without weights.
    """
    totals, curves = part.totals, part.curves
    if curves.squares is None or totals.whole or not totals.n:
        return part
    unit, equal = unit_of(totals.n, totals.weight, totals.square_weight)
    if equal and not np.array_equal(np.rint(curves.counts / unit).sum(axis=(1, 2)), curves.rows):
        return part  # so many rows that the unit is not exact enough to count them
    if unit == 1 and not equal:
        return part
    clusters = None
    if part.clusters is not None:
        event, *classes = (_buckets(sums, unit, equal) for sums in part.clusters.parts)
        clusters = ClusterSums(event, tuple(classes))
    return SketchSums(_totals(totals, unit, equal), _curves(curves, unit, equal), clusters)


def _totals(totals: Totals, unit: float, equal: bool) -> Totals:
    names = ("weight", "entries", "infinite", *SQUARED)
    divided = {name: getattr(totals, name) / unit for name in names}
    if equal:
        counts = {name: float(round(divided[name])) for name in ("entries", "correct", "infinite")}
        divided |= counts | dict.fromkeys(("weight", "square_weight", "quartic_weight"), float(totals.n))
        alike = {f"squared_{name}": divided[name] for name in SQUARED}
        return replace(totals, whole=True, **divided, **alike)
    squared = {f"squared_{name}": getattr(totals, f"squared_{name}") / unit / unit for name in SQUARED}
    square, quartic = totals.square_weight / unit / unit, totals.quartic_weight / unit / unit / unit / unit
    return replace(totals, square_weight=square, quartic_weight=quartic, **divided, **squared)


def _curves(curves: Curves, unit: float, equal: bool) -> Curves:
    counts, sums = curves.counts / unit, curves.sums / unit
    if equal:
        return Curves(np.rint(counts).astype(np.int64), sums, None, curves.rows)
    return Curves(counts, sums, None if curves.squares is None else curves.squares / unit / unit, curves.rows)


def _buckets(sums: BucketSums, unit: float, equal: bool) -> BucketSums:
    cell_sums, scalars = sums.cell_sums / unit, sums.scalars / unit
    scalars[:, SCALARS.index("rows")] = sums.rows
    if equal:
        cell_sums[:, :, :2] = np.rint(cell_sums[:, :, :2])
        scalars[:, _COUNTED] = np.rint(scalars[:, _COUNTED])
    return replace(sums, cell_sums=cell_sums, scalars=scalars)
