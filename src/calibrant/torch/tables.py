"""Metrics of reliability tables, from all rows or from a sketch of constant size: the sums in the cells of a grid."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calibrant.errors import InputError, check_choice
from calibrant.inputs.predictions import Layout
from calibrant.kernels import dispatch, tensors
from calibrant.kernels.tensors import WIDTH
from calibrant.measures.binned.binned import Closed
from calibrant.sketch import CalibrationSketch
from calibrant.sketch.totals import Curves, SketchConfig, SketchSums, Totals
from calibrant.table import ReliabilityTable
from calibrant.table import grid as grids
from calibrant.torch.adding import GRID, Kept
from calibrant.torch.base import ProbabilityMetric

State = Literal["rows", "sketch"]

STATES: Final = ("rows", "sketch")

_ROUNDED: Final = 1e-6  # relative: float32 scores may lie this far outside their cell; sums round


class TableMetric(ProbabilityMetric):
    """A metric of the evaluated event's reliability table, or of each class's; `compute` pools the rows.

    Parameters
    ----------
    state : {"rows", "sketch"}
        What the metric keeps: score and outcome of every row; or their sums in each cell of a grid, with the exact
        sums of Brier score, log loss and accuracy.
    half : {0, 1}
        The class that a binary score of 0.5 predicts, if the evaluated event is that the predicted class is right.
    bins : (int, {"left", "right"}), optional
        Bins of equal width, kept instead of a table; the subclass adds their states.
    class_bins : int, optional
        As in `Kept`; the subclass adds the states.
    layout, num_classes
        As in `ProbabilityMetric`.
    make : tuple, optional
        As in `ProbabilityMetric`; by default ``state`` and ``half``.
    options
        Passed on to `ProbabilityMetric`.
    """

    total: Tensor
    infinite: Tensor
    correct: Tensor
    brier_sum: Tensor
    nll_sum: Tensor
    brier_squares: Tensor
    nll_squares: Tensor
    cell_counts: Tensor
    cell_sums: Tensor

    def __init__(
        self,
        *,
        state: State,
        half: Literal[0, 1] = 1,
        bins: tuple[int, Closed] | None = None,
        class_bins: int | None = None,
        layout: Layout | None = None,
        num_classes: int | None = None,
        make: tuple[Any, ...] | None = None,
        **options: Any,
    ) -> None:
        check_choice("state", state, STATES)
        if state == "sketch" and bins is not None:
            remedy = "leave state out, because bins of equal width have an exact state of constant size"
            raise InputError("state", "'rows' for bins of equal width", "'sketch'", remedy)
        # Metrics of any shape may share a sketch of one event: `_raise_faults` checks the shape.
        make, by_shape = make or (state, f"half {half}"), state == "rows"
        kept = Kept(bins=bins)
        if bins is None:
            kept = Kept(table=state, half=half, totals=class_bins is not None, class_bins=class_bins)
        super().__init__(layout=layout, num_classes=num_classes, kept=kept, make=make, by_shape=by_shape, **options)
        self.state: State = state
        if bins is not None:
            return
        columns = (self.num_classes,) if self.notion == "classwise" and self.num_classes else ()
        if state == "rows":
            # Events are packed into integers. Each precision has a state, so that ranks always agree on types.
            self._add_list("singles", torch.int32, *columns)
            self._add_list("doubles", torch.int64, *columns)
            return
        self._add_counts("cell_counts", *columns, 2, n_cells())
        self._add_sums("cell_sums", *columns, 3, n_cells())
        self._add_totals()

    def _add_totals(self) -> None:
        for name in ("total", "infinite", "correct"):
            self._add_counts(name)
        for name in ("brier_sum", "nll_sum", "brier_squares", "nll_squares"):
            self._add_sums(name)

    # ------------------------------------------------------------ from the state

    @property
    def confidences(self) -> list[Tensor]:
        """The score of each evaluated row, in a tensor for each batch; only of metrics that keep rows.

        Batches in double precision come after all others.
        """
        return [
            (keys >> 1).view(torch.float32 if keys.dtype == torch.int32 else torch.float64) for keys in self._keys()
        ]

    @property
    def accuracies(self) -> list[Tensor]:
        """The outcome of each evaluated row, 1.0 or 0.0, in the order of `confidences`."""
        return [(keys & 1).to(torch.float32) for keys in self._keys()]

    def _keys(self) -> list[Tensor]:
        """Return the packed rows of each batch, without those that are not evaluated."""
        if "singles" not in self._lists:
            raise AttributeError
        states = [getattr(self, name) for name in ("singles", "doubles")]
        batches = [keys for state in states for keys in ([state] if isinstance(state, Tensor) else state) if len(keys)]
        evaluated = [keys != tensors.IGNORED_KEY for keys in batches]
        return [keys[rows if keys.ndim == 1 else rows.any(1)] for keys, rows in zip(batches, evaluated, strict=True)]

    def _raise_faults(self) -> None:
        super()._raise_faults()
        width = int(self.seen[WIDTH])
        if width and self.state == "sketch":  # a metric of another layout may have filled the state
            self._check_width(width)

    def _tables(self) -> list[ReliabilityTable]:
        """Pool the rows or cells of the state into one table, or one for each class."""
        if self.state == "sketch":
            curves = curves_of(self.cell_counts, self.cell_sums)
            return [curves.table(k, GRID, whole=True) for k in range(len(curves.rows))]
        tables = []
        keys = self._packed_rows()
        unsigned = np.uint32 if keys.dtype.itemsize == 4 else np.uint64
        for column in keys[:, None].T if keys.ndim == 1 else keys.T:
            table = ReliabilityTable.unpack(column[column != tensors.IGNORED_KEY].view(unsigned))
            if len(table) and not table.scores[-1] <= 1:  # NaN and negative scores sort last too
                raise _outside()
            tables.append(table)
        return tables

    def _packed_rows(self) -> NDArray[Any]:
        """Return the packed rows of the state, in the widest precision of any batch."""
        single, double = (self._gathered(name).cpu().numpy() for name in ("singles", "doubles"))
        if len(double) == 0 or len(single) == 0:
            return double if len(double) else single
        scores = np.right_shift(single, 1).view(np.float32).astype(np.float64)
        widened = dispatch.pack(scores.reshape(-1), (single & 1).astype(np.uint8).reshape(-1)).view(np.int64)
        widened = np.where(single == tensors.IGNORED_KEY, tensors.IGNORED_KEY, widened.reshape(single.shape))
        return np.concatenate([widened, double])

    def sketch(self) -> CalibrationSketch:
        """Return all batches so far as a `calibrant.CalibrationSketch`, to be saved, merged and evaluated.

        It is a copy: later batches do not change it. In a distributed run it holds all ranks, as in `compute`, so
        every rank must call it; with ``sync_on_compute=False`` it holds this rank alone.

        Raises
        ------
        calibrant.errors.InputError
            If the metric keeps no sketch, and for the errors of `compute`.
        """
        if self.state != "sketch":
            remedy = "make the metric with state='sketch'"
            raise InputError("state", "'sketch', to have a sketch of the metric", repr(self.state), remedy)
        with self._of_all_ranks():
            return self._sketch()

    @contextmanager
    def _of_all_ranks(self) -> Iterator[None]:
        """Gather the states of all ranks as `compute` does, and check them."""
        alone = not self._is_synced
        with self.sync_context(
            dist_sync_fn=self.dist_sync_fn, should_sync=self.sync_on_compute and alone, should_unsync=alone
        ):
            self._check_make()
            self._raise_faults()
            yield

    def _sketch(self) -> CalibrationSketch:
        n, width = int(self.total), int(self.seen[WIDTH])
        layout: Layout = "multiclass" if width > 1 else "binary"
        if n == 0:
            notion: Any = self.notion if self.layout is None else self._notion_of(self.layout)
            return CalibrationSketch.of_parts(SketchConfig(notion=notion, classwise=False, class_names=None, grid=GRID))
        config = SketchConfig(
            notion=self._notion_of(layout),
            classwise=False,
            class_names=None,
            grid=GRID,
            layout=layout,
            n_classes=width if width > 1 else None,
        )
        totals = Totals.unweighted(
            n,
            correct=float(self.correct),
            brier=float(tensors.joined(self.brier_sum)),
            brier_square=float(tensors.joined(self.brier_squares)),
            nll=float(tensors.joined(self.nll_sum)),
            nll_square=float(tensors.joined(self.nll_squares)),
            infinite=float(self.infinite),
        )
        return CalibrationSketch.of_parts(config, SketchSums(totals, curves_of(self.cell_counts, self.cell_sums)))


# ---------------------------------------------------------------- cells


def n_cells() -> int:
    """Return the number of cells."""
    return len(grids.edges(GRID)) + 1


def _outside() -> InputError:
    """Return the error of values that were not checked."""
    remedy = "pass validate_args=True, which checks each update, to find them"
    return InputError("preds", "values in [0, 1]", "NaN or values outside [0, 1]", remedy)


def curves_of(counts: Tensor, sums: Tensor) -> Curves:
    """Return a copy of the cells as curves: one, or one for each class.

    Raises
    ------
    InputError
        If a sum does not fit its cell: a value that was not checked was outside [0, 1].
    """
    cell_counts = counts.cpu().numpy().reshape(-1, 2, n_cells())
    totals = tensors.joined(sums).numpy().reshape(-1, 3, n_cells())
    edges = grids.edges(GRID)
    low, high = np.concatenate([[0.0], edges[:-1], [1.0]]), np.concatenate([edges, [1.0]])
    least, most = low * cell_counts * (1 - _ROUNDED), high * cell_counts * (1 + _ROUNDED)
    if not ((totals[:, :2] >= least) & (totals[:, :2] <= most)).all():
        raise _outside()
    rows = cell_counts.sum(axis=(1, 2))
    class_counts, class_sums = (np.array(part.transpose(0, 2, 1), order="C") for part in (cell_counts, totals))
    return Curves(class_counts, class_sums, None, rows)
