"""Rows of class probabilities or logits that stay on a device: what the host needs of each row and of each class.

torch computes here, in blocks, so that no copy of the rows is made. `to_host` brings the results to the host: of each
row at most four numbers of its type and one byte, and of each class its histogram. This module imports torch, so it is
imported where a tensor has come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calibrant.kernels import tensors
from calibrant.kernels.dispatch import BRIER, BRIER_SQUARES, CORRECT, IGNORED, INFINITE, NLL, NLL_SQUARES, ClassReading
from calibrant.kernels.reference import N_TOTALS
from calibrant.kernels.row_blocks import BadRow, Rows
from calibrant.runtime.arrays import Float64s, Floats, Int64s, UInt8s, to_host

_BLOCK: Final = 1 << 23  # entries of a block: 64 MB of float64

Bools = NDArray[np.bool_]


class DeviceRows(Rows):
    """Rows on a device, as `blocks.Rows` on the host.

    Parameters
    ----------
    values : (B, C, D) tensor
        Row ``b * D + d`` is ``values[b, :, d]``.
    labels : (n,) int64
        The class of each row, -1 for a row that is not evaluated.
    logits : bool
        Whether the values are logits.
    tolerance : float
        How far the sum of a row of probabilities may be from 1.

    Attributes
    ----------
    places : (n,) or None
        Which rows these are; None for all.
    known : dict
        Results for all rows, by their names; rows that are taken share them.
    """

    on_device: ClassVar[bool] = True
    dtype: np.dtype[Any]

    def __init__(
        self,
        values: Tensor,
        labels: Int64s,
        *,
        logits: bool,
        tolerance: float,
    ) -> None:
        integers = not values.is_floating_point()  # also booleans
        wide = integers or values.dtype == torch.float64
        floats = values.to(tensors.wide(values.device)) if integers else values
        self.__dict__.update(
            tensor=floats,
            labels=labels,
            logits=logits,
            tolerance=tolerance,
            places=None,
            known={},
            bfloat16=values.dtype == torch.bfloat16,
            of_integers=integers and values.dtype != torch.bool,
            n=values.shape[0] * values.shape[2],
            width=values.shape[1],
            dtype=np.dtype(np.float64 if wide else np.float32),
        )

    tensor: Tensor
    labels: Int64s
    logits: bool
    tolerance: float
    places: NDArray[np.intp] | None
    known: dict[str, Any]
    of_integers: bool

    __eq__, __hash__ = object.__eq__, object.__hash__

    def __repr__(self) -> str:
        return f"DeviceRows(n={self.n}, width={self.width}, device={self.tensor.device})"

    @property
    def integers(self) -> bool:
        """Whether the values were passed as integers."""
        return self.of_integers

    @property
    def depth(self) -> int:
        """D, of all rows; of taken rows 1."""
        return int(self.tensor.shape[2]) if self.places is None else 1

    @property
    def direct(self) -> None:
        """None: the host cannot read the rows."""
        return

    def _with(self, **changes: Any) -> DeviceRows:
        """Return the same with other attributes."""
        other = object.__new__(DeviceRows)
        vars(other).update(vars(self) | changes)
        return other

    def labelled(self, labels: Int64s) -> DeviceRows:
        """Return the same rows with these labels."""
        return self._with(labels=labels, known={})

    def with_tolerance(self, tolerance: float) -> DeviceRows:
        """Return the same rows with another tolerance of their sums."""
        return self._with(tolerance=tolerance, known={})

    def take(self, places: NDArray[np.intp]) -> DeviceRows:
        """Return some of the rows, which are not copied."""
        return self._with(places=places if self.places is None else self.places[places], n=len(places))

    # ------------------------------------------------------------ blocks

    def parts(self, start: int, stop: int, *, entries: int = _BLOCK) -> Iterator[tuple[slice, Tensor]]:
        """Yield which rows, and the rows (k, C) on the device in the type ``dtype``, as they were passed."""
        step = max(1, entries // self.width)
        for first in range(start, stop, step):
            rows = slice(first, min(first + step, stop))
            yield rows, self._part(rows)

    def _part(self, rows: slice) -> Tensor:
        depth, places = self.tensor.shape[2], self.places
        if places is None and depth == 1:
            x = self.tensor[rows, :, 0]
        else:
            at = self._sent(np.arange(rows.start, rows.stop) if places is None else places[rows])
            x = self.tensor[at // depth, :, at % depth]
        return (x if x.dtype == torch.float64 else x.float()).contiguous()

    def blocks(self, start: int, stop: int) -> Iterator[tuple[int, Floats]]:
        """Yield (index of the first row, rows), copied to the host block by block, for what needs them there."""
        for rows, x in self.parts(start, stop):
            yield rows.start, np.asarray(to_host(x), self.dtype)

    def probabilities(self, x: Tensor) -> Tensor:
        """Return the class probabilities of rows in the widest type of the device."""
        wide = x.to(tensors.wide(x.device))
        return wide.softmax(1) if self.logits else wide.clamp(0, 1)

    def each(self, work: Callable[[Tensor, Tensor], tuple[Tensor, ...]], *, raw: bool = False) -> list[NDArray[Any]]:
        """Return on the host what ``work`` returns for each row from probabilities (k, C), or raw values, and classes.

        What it returns for a row that is not evaluated is of no meaning.
        """
        labels = self._own(self.labels)
        columns = []
        for rows, x in self.parts(0, self.n):
            y = self._sent(np.maximum(labels[rows], 0))
            columns.append(work(x if raw else self.probabilities(x), y))
        return [to_host(torch.cat(column)) for column in zip(*columns, strict=True)]

    def _own(self, column: NDArray[Any]) -> NDArray[Any]:
        return column if self.places is None else column[self.places]

    def _sent(self, column: NDArray[Any]) -> Tensor:
        """Return a column of the host on the device."""
        return torch.from_numpy(np.require(column, requirements=("C", "W"))).to(self.tensor.device)

    # ------------------------------------------------------------ one read

    @property
    def _values(self) -> Tensor:
        """All rows, (N, C) or (N, C, D)."""
        return self.tensor if self.tensor.shape[2] > 1 else self.tensor[:, :, 0]

    def column(self, name: str) -> NDArray[Any]:
        """Return ``top``, ``correct``, ``brier``, ``loss`` or ``p_target`` of each row, brought to the host once."""
        known = self.known
        if "reading" not in known:
            known["reading"] = tensors.read_blocks(
                self._values, self._sent(self.labels), logits=self.logits, ignore_index=-1, tolerance=self.tolerance
            )
        if name not in known:
            reading = known["reading"]
            if name == "brier":
                p, squares = (x.to(tensors.wide(x.device)) for x in (reading.p_target, reading.squares))
                column = (squares - 2 * p + 1).clamp(min=0).to(reading.top.dtype)
            else:
                column = -reading.log_p_target if name == "loss" else getattr(reading, name)
            known[name] = to_host(column)
        return self._own(known[name])

    def check(self, evaluated: Bools) -> UInt8s:
        """Return which rows are right, `IGNORED` for those not evaluated.

        Raises
        ------
        BadRow
            At the first evaluated row that is not valid.
        """
        correct = self.column("correct")
        bad = evaluated & (correct == IGNORED)
        if bad.any():
            raise BadRow(int(np.argmax(bad)))
        return np.where(evaluated, correct, np.uint8(IGNORED))

    def row_scores(self) -> tuple[Float64s, Float64s, Bools]:
        """Return the Brier score of each row, its log loss, and whether its predicted class is right."""
        brier, loss = (self.column(name).astype(np.float64) for name in ("brier", "loss"))
        return brier, loss, self.column("correct") == 1

    def read_classes(
        self,
        targets: Int64s,
        weights: Float64s | None,
        *,
        eps: float,
        scoring: bool,
        uppers: Floats | None,
        threshold: float,
    ) -> ClassReading:
        """Return what `dispatch.read_classes` returns, without the probabilities.

        Raises
        ------
        BadRow
            As `dispatch.read_classes`.
        """
        evaluated = targets >= 0 if weights is None else (targets >= 0) & (weights != 0)
        correct, totals = self.check(evaluated), np.zeros(N_TOTALS)
        if scoring:
            _add_scores(
                [x[evaluated] for x in self.row_scores()],
                weights if weights is None else weights[evaluated],
                eps,
                totals,
            )
        histograms = np.zeros((3, 0, 0))
        if uppers is not None:
            histograms = self.histograms(targets, evaluated, weights, uppers, threshold)
        return ClassReading(
            top=np.asarray(self.column("top"), self.dtype),
            correct=correct,
            probs=np.empty((0, self.width), self.dtype),
            histograms=histograms,
            totals=totals,
        )

    # ------------------------------------------------------------ classes

    def histograms(
        self, labels: Int64s, evaluated: Bools, weights: Float64s | None, uppers: Floats, threshold: float
    ) -> Float64s:
        """Return the count, the sum of scores and the count of true outcomes of each bin and class, (3, M, C)."""
        edges = self._sent(uppers)
        sums = torch.zeros(3, len(uppers), self.width, dtype=tensors.wide(edges.device), device=edges.device)
        classes = torch.arange(self.width, device=edges.device)
        for rows, x in self.parts(0, self.n):
            p = self.probabilities(x).to(x.dtype)
            kept = self._sent(evaluated[rows])[:, None] & (p >= threshold)
            p = torch.where(kept, p, 0)
            true = (self._sent(labels[rows])[:, None] == classes) & kept
            if weights is None:
                counts, positives, scores = tensors.bin_rows(p, true.long(), kept, edges)
                scores = (
                    scores if scores.shape == counts.shape else scores.sum(0)
                )  # pairs of float32 on a device without float64
                sums += torch.stack([counts.to(sums.dtype), scores.to(sums.dtype), positives.to(sums.dtype)])
            else:
                _add_weighted(p, true, kept, self._sent(weights[rows]).to(sums.dtype), edges, sums)
        return np.asarray(to_host(sums), np.float64)

    def quantile_histograms(self, evaluated: Bools, n_bins: int, threshold: float) -> tuple[Float64s, Float64s]:
        """Return the sums of `histograms` for equal-mass bins, and the largest score of each bin, (C, M).

        The bins are those of `reference_tables.bin_quantiles` of each class, from its scores from the threshold on. A
        class without one has NaN.
        """
        keep, labels = self._sent(evaluated)[:, None], self._sent(self._own(self.labels))
        step, sums, uppers = max(1, _BLOCK // self.n), [], []
        for first in range(0, self.width, step):
            classes = torch.arange(first, min(first + step, self.width), device=keep.device)
            p = self._scores(slice(first, first + step))
            p, order = torch.where(keep & (p >= threshold), p, torch.inf).sort(0)
            of_class, k = p.T.contiguous(), len(classes)  # (k, n), ascending
            kept = of_class < torch.inf
            middle = torch.searchsorted(of_class, of_class) + torch.searchsorted(of_class, of_class, right=True)
            total = kept.sum(1, keepdim=True)
            bins = (n_bins * middle // (2 * total.clamp(min=1))).clamp(max=n_bins - 1)
            bins = torch.where(kept, bins, n_bins)
            places = (bins + (n_bins + 1) * torch.arange(k, device=bins.device)[:, None]).reshape(-1)
            columns = (kept, torch.where(kept, of_class, 0), labels[order.T] == classes[:, None])
            added = torch.stack([_added(places, column, k * (n_bins + 1)) for column in columns])
            sums.append(added.view(3, k, n_bins + 1)[:, :, :n_bins].transpose(1, 2))
            ends = torch.searchsorted(
                bins, torch.arange(n_bins, device=bins.device).expand(k, -1).contiguous(), right=True
            )
            ends = torch.where(ends > 0, of_class.gather(1, (ends - 1).clamp(min=0)), 0)
            uppers.append(torch.where(total > 0, ends, torch.nan))
        return np.asarray(to_host(torch.cat(sums, 2)), np.float64), np.asarray(to_host(torch.cat(uppers)), np.float64)

    def class_scores(self, k: int) -> Floats:
        """Return the probability of one class in each row, on the host."""
        return np.asarray(to_host(self._scores(slice(k, k + 1))[:, 0]), self.dtype)

    def _scores(self, classes: slice) -> Tensor:
        """Return the probabilities of some classes in each row, (n, k)."""
        places = None if self.places is None else self._sent(self.places)
        raw = self.tensor[:, classes].movedim(1, -1).flatten(0, 1)
        raw = raw if places is None else raw[places]
        x = raw if raw.dtype == torch.float64 else raw.float()
        if not self.logits:
            return x.clamp(0, 1)
        if "totals" not in self.known:
            every = self._with(places=None, n=self.tensor.shape[0] * self.tensor.shape[2])
            logs = [part.to(tensors.wide(x.device)).logsumexp(1) for _, part in every.parts(0, every.n)]
            self.known["totals"] = torch.cat(logs)
        totals: Tensor = self.known["totals"]
        totals = totals if places is None else totals[places]
        return (x.to(totals.dtype) - totals[:, None]).exp().to(x.dtype)

    def _raw(self, k: int) -> Tensor:
        x = self.tensor[:, k].reshape(-1)
        return x if self.places is None else x[self._sent(self.places)]

    def raw(self, k: int, rows: NDArray[np.intp]) -> NDArray[Any]:
        """Return the numbers of one class in these rows as they were passed or rounded, bfloat16 as its bits."""
        x = self.take(rows)._raw(k)
        return to_host(x if self.logits or self.bfloat16 else x.clamp(0, 1))

    def predicted(self) -> Int64s:
        """Return the predicted class of each row."""
        small = torch.int16 if self.width < 2**15 else torch.int32
        (classes,) = self.each(lambda x, _: (x.argmax(1).to(small),), raw=True)
        return classes.astype(np.int64)

    def log_odds(self, notion: str) -> tuple[Float64s, UInt8s]:
        """Return the log-odds that the label of each row is a class, from logits, and whether it is."""
        z, right = self.each(partial(_log_odds, notion), raw=True)
        return z.astype(np.float64, copy=False), right

    def impossible_classes(self, evaluated: Bools) -> Bools:
        """Return which classes have an outcome that their probability excludes, (C,)."""
        device = self.tensor.device
        found = torch.zeros(self.width, dtype=torch.int64, device=device)
        classes, labels = torch.arange(self.width, device=device), self._own(self.labels)
        for rows, x in self.parts(0, self.n):
            own = self._sent(labels[rows])[:, None] == classes
            wrong = (own & (x <= 0)) | (~own & (x >= 1))
            found += (wrong & self._sent(evaluated[rows])[:, None]).sum(0)
        return np.asarray(to_host(found) > 0)

    def rounded(self, evaluated: Bools) -> int:
        """Return how many probabilities of evaluated rows are outside [0, 1], by rounding in valid rows."""
        if self.logits or not self._beyond:
            return 0
        count = torch.zeros((), dtype=torch.int64, device=self.tensor.device)
        for rows, x in self.parts(0, self.n):
            count += (((x < 0) | (x > 1)).sum(1) * self._sent(evaluated[rows])).sum()
        return int(to_host(count))

    @property
    def _beyond(self) -> bool:
        """Whether any evaluated value of all rows is outside [0, 1]."""
        if "beyond" not in self.known:
            targets = self._sent(self.labels)
            outside = tensors.beyond(self._values, targets, ignore_index=-1, low=0.0, high=1.0)
            self.known["beyond"] = bool(to_host(outside))
        return bool(self.known["beyond"])

    def kinds_of_columns(self, labels: Int64s, evaluated: Bools) -> tuple[Bools, Bools, Bools]:
        """Return which columns are probabilities, equal the labels, and are whole numbers in all evaluated rows."""
        every = torch.ones(3, self.width, dtype=torch.bool, device=self.tensor.device)
        for rows, x in self.parts(0, self.n):
            left_out = ~self._sent(evaluated[rows])[:, None]
            alike = x == self._sent(labels[rows])[:, None]
            kinds = ((x >= 0) & (x <= 1), alike, x == x.floor())
            every &= torch.stack([(kind | left_out).all(0) for kind in kinds])
        inside, alike, whole = to_host(every)
        return inside, alike, whole

    @property
    def whole(self) -> bool:
        """Whether all numbers are whole."""
        return bool(to_host(torch.stack([(x == x.floor()).all() for _, x in self.parts(0, self.n)]).all()))

    # ------------------------------------------------------------ sums over all classes

    def dependence(self, squares: Float64s, uppers: Floats) -> tuple[float, float, float]:
        """Return what `ClassRows.dependence` takes of these rows with weights q.

        They are the sum over pairs of rows of squared products over the bins that they share, the sum over bins of the
        squares of their own terms, and the sum of the variances.
        """
        edges = self._sent(uppers)
        n_bins, dtype = len(uppers), tensors.wide(edges.device)
        q, (_, x) = self._sent(squares).to(dtype), next(self.parts(0, self.n, entries=self.n * self.width))
        scores = self.probabilities(x).to(x.dtype)
        places = torch.searchsorted(edges, scores) + n_bins * torch.arange(self.width, device=edges.device)
        p = scores.to(dtype)
        terms = (q[:, None] * p * (1 - p), q[:, None] * p.square())
        variances, of_rows = (_added(places, term, (n_bins + 1) * self.width) for term in terms)
        some = variances > 0
        roots = torch.where(some, variances, 1).sqrt()
        scaled = torch.where(some[places], p / roots.sqrt()[places], 0) * q.sqrt()[:, None]
        products = torch.zeros(self.n, self.n, dtype=dtype, device=edges.device)
        together = 64
        for first in range(0, self.width, together):
            part = slice(first, first + together)
            dense = torch.zeros(self.n, scaled[:, part].shape[1] * n_bins, dtype=dtype, device=edges.device)
            dense.scatter_(1, places[:, part] - first * n_bins, scaled[:, part])
            products += dense @ dense.T
        own = torch.where(some, of_rows.square() / torch.where(some, variances, 1), 0)
        pairs, of_bins, total = to_host(torch.stack([products.square().sum(), own.sum(), variances.sum()])).tolist()
        return pairs, of_bins, total

    def slope_sums(
        self, evaluated: Bools, squares: Float64s, masses: Float64s, uppers: Floats, slopes: Float64s
    ) -> Float64s:
        """Return the sums of `reference.slope_rows` over all evaluated rows, (R, 5)."""
        edges, labels = self._sent(uppers), self._own(self.labels)
        dtype, device = tensors.wide(edges.device), edges.device
        sums = torch.zeros(len(slopes), 5, dtype=dtype, device=device)
        of_bins = self._sent(slopes).to(dtype)
        classes = torch.arange(self.width, device=device)
        for rows, x in self.parts(0, self.n):
            kept = self._sent(evaluated[rows])
            q, w = (self._sent(np.where(evaluated[rows], each[rows], 0)).to(dtype) for each in (squares, masses))
            p = torch.where(kept[:, None], self.probabilities(x).to(x.dtype), 0)
            places = torch.searchsorted(edges, p) + len(uppers) * classes
            gaps = p.to(dtype) - (self._sent(labels[rows])[:, None] == classes).to(dtype)
            for slope, total in zip(of_bins, sums, strict=True):
                psi = (slope[places] * gaps).sum(1)
                total += torch.stack([y.sum() for y in (q * psi.square(), q * psi, q, w * psi, w)])
        return np.asarray(to_host(sums), np.float64)

    def pair_means(self, bounds: NDArray[np.intp], rows: NDArray[np.intp], width: float) -> Float64s:
        """Return the mean of `skce.pair_terms` over the pairs of each block ``rows[bounds[i] : bounds[i + 1]]``."""
        sizes, means = np.diff(bounds), np.empty(len(bounds) - 1)
        labels = self._own(self.labels)
        for size in np.unique(sizes):
            of_size = np.flatnonzero(sizes == size)
            step = max(1, _BLOCK // (int(size) * self.width))
            for first in range(0, len(of_size), step):
                blocks = of_size[first : first + step]
                places = rows[bounds[blocks][:, None] + np.arange(size)].reshape(-1)
                x = self.take(places)._part(slice(0, len(places)))
                p = self.probabilities(x).reshape(len(blocks), int(size), self.width)
                y = self._sent(labels[places]).reshape(len(blocks), int(size), 1)
                residuals = (-p).scatter_add(2, y, torch.ones_like(p[:, :, :1]))
                terms = (torch.cdist(p, p, p=1) * (-0.5 / width)).exp() * (residuals @ residuals.mT)
                pairs = terms.sum((1, 2)) - terms.diagonal(dim1=1, dim2=2).sum(1)
                means[blocks] = to_host(pairs / (size * (size - 1)))
        return means


def _add_scores(scores: Sequence[NDArray[Any]], weights: Float64s | None, eps: float, totals: Float64s) -> None:
    """Add the scores of rows to the totals that are named in `reference`."""
    brier, loss, right = scores
    with np.errstate(divide="ignore"):
        loss = np.minimum(loss, -np.log(np.float64(eps)))
    infinite = loss == np.inf
    finite = np.where(infinite, 0.0, loss)
    columns = {
        BRIER: brier,
        NLL: finite,
        INFINITE: infinite,
        CORRECT: right,
        BRIER_SQUARES: brier**2,
        NLL_SQUARES: finite**2,
    }
    for entry, values in columns.items():
        totals[entry] = (values if weights is None else weights * values).sum()


def _add_weighted(p: Tensor, true: Tensor, kept: Tensor, weights: Tensor, edges: Tensor, sums: Tensor) -> None:
    """Add rows with weights to histograms (3, M, C)."""
    n_classes = p.shape[1]
    bins = torch.searchsorted(edges, p).clamp(max=len(edges) - 1)
    places = (bins * n_classes + torch.arange(n_classes, device=p.device)).reshape(-1)
    mass = weights[:, None] * kept
    for histogram, column in zip(sums, (mass, mass * p, mass * true), strict=True):
        histogram += _added(places, column, histogram.numel()).view_as(histogram)


def _added(places: Tensor, numbers: Tensor, size: int) -> Tensor:
    """Return the sums of numbers from 0 on over their places, added as integers: the order has no effect."""
    wide, bits = tensors.wide(numbers.device), 62 - numbers.numel().bit_length()
    flat = numbers.reshape(-1).to(wide)
    top = flat.new_ones(())  # a power of 2, so that whole numbers remain so
    top = torch.ldexp(top, flat.amax().frexp().exponent) if len(flat) else top
    fixed = (flat / top * 2.0**bits).round().long()
    total = torch.zeros(size, dtype=torch.int64, device=flat.device).scatter_add_(0, places.reshape(-1), fixed)
    return total.to(wide) * 2.0**-bits * top


class NotOneHot(NamedTuple):
    """A row of targets (B, C, D) that is not one-hot, and what all of them look like.

    ``one_each`` says whether each column has one 1, and ``fractions`` whether some are fractions.
    """

    place: int
    row: NDArray[Any]
    one_each: bool
    fractions: bool


def one_hot_classes(targets: Tensor) -> tuple[Int64s, NotOneHot | None]:
    """Return the place of the 1 in each row of (B, C, D), and the first row that is not one-hot, if there is one."""
    good = ((targets == 0) | (targets == 1)).all(1) & ((targets != 0).sum(1) == 1)
    classes = to_host(torch.where(good, (targets != 0).to(torch.uint8).argmax(1), -1)).reshape(-1)
    bad = np.flatnonzero(classes < 0)
    if not len(bad):
        return classes, None
    b, d = divmod(int(bad[0]), targets.shape[2])
    row, one_each = targets[b, :, d], ((targets[:, :, 0] == 1).sum(0) == 1).all()
    row = row.float() if row.dtype == torch.bfloat16 else row
    fractions = (
        (targets.isfinite() & (targets != targets.floor())).any() if row.is_floating_point() else one_each & False
    )
    return classes, NotOneHot(int(bad[0]), to_host(row), bool(to_host(one_each)), bool(to_host(fractions)))


# ---------------------------------------------------------------- functions of each row, as those of the host


def ranked_probability_scores(p: Tensor, y: Tensor) -> tuple[Tensor]:
    """Return the ranked probability score of each row; see `inputs.scores`."""
    classes = torch.arange(p.shape[1] - 1, device=p.device)
    distances = p.cumsum(1)[:, :-1] - (y[:, None] <= classes).to(p.dtype)
    return (distances.square().sum(1),)


def spherical_scores(p: Tensor, y: Tensor) -> tuple[Tensor]:
    """Return the spherical score of each row; see `inputs.scores`."""
    return (p.gather(1, y[:, None])[:, 0] / p.square().sum(1).sqrt(),)


def _ranks(p: Tensor, y: Tensor) -> Tensor:
    own = p.gather(1, y[:, None])
    earlier = torch.arange(p.shape[1], device=p.device) < y[:, None]
    return ((p > own) | ((p == own) & earlier)).sum(1)


def first_together(k: int, p: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sum of the k largest probabilities of each row, and whether the true class is one of them."""
    return p.topk(k, 1).values.sum(1).clamp(max=1), (_ranks(p, y) < k).to(torch.uint8)


def one_of_them(r: int, p: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return the r-th largest probability of each row, and whether the true class is that one."""
    return p.topk(r, 1).values[:, -1], (_ranks(p, y) == r - 1).to(torch.uint8)


def _log_odds(notion: str, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return the log-odds that the label of each row is a class, and whether it is, from logits (k, C).

    The class is that of index 1, or the predicted one; of two equal ones the second.
    """
    wide = x.to(tensors.wide(x.device))
    if notion == "positive":
        classes = torch.ones_like(y)
    else:
        classes = (wide[:, 1] >= wide[:, 0]).long() if x.shape[1] == 2 else wide.argmax(1)
    own = wide.gather(1, classes[:, None])
    rest = wide.scatter(1, classes[:, None], -torch.inf).logsumexp(1)
    return own[:, 0] - rest, (classes == y).to(torch.uint8)


#: The functions of each row of probabilities, by the names of the host's.
ROW_FUNCTIONS: Final[dict[str, Callable[..., tuple[Tensor, ...]]]] = {
    each.__name__: each for each in (ranked_probability_scores, spherical_scores, first_together, one_of_them)
}


def row_function(name: str, *options: Any) -> Callable[[Tensor, Tensor], tuple[Tensor, ...]]:
    """Return the function of rows of this name, with its options."""
    return partial(ROW_FUNCTIONS[name], *options)
