"""`CalibrationSketch`: the sums of any number of predictions, in constant memory."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from calibrant.errors import FileError, InputError, NothingJudgedError, check_choice
from calibrant.inputs.conversion import shape_of
from calibrant.inputs.group_rows import as_groups
from calibrant.inputs.notions import NOTIONS, PER_CLASS, resolve
from calibrant.inputs.predictions import Layout, Notion, Predictions, as_predictions, names_of
from calibrant.inputs.weights import WeightsAre
from calibrant.kernels.compiling import following
from calibrant.results.envelope import of_file, opened
from calibrant.results.writing import replace_file
from calibrant.runtime.arrays import ArrayLike
from calibrant.sketch import storage
from calibrant.sketch.content import Content, same
from calibrant.sketch.totals import SEVERAL, SketchConfig, SketchSums, Totals, in_units
from calibrant.table import ReliabilityTable
from calibrant.table import grid as grids
from calibrant.table.cluster_labels import ClusterLabels
from calibrant.table.cluster_sums import BucketSums, ClusterSums, check_notion, labels_of

if TYPE_CHECKING:
    import pyarrow as pa

_ENDING: Final = ".cal"
_REMEDY: Final = "pass a file that calibrant report --sketch or CalibrationSketch.save wrote"

#: Held while a thread reads or changes the sums of a sketch. A fork waits for it: its child then has whole sums, and no
#: lock of a thread that it lacks. Hooks run backwards, so a fork takes this lock before LOADING, as an update does.
_SUMS: Final = RLock()
_FORKS: Final[list[None]] = []  # one while a fork holds the lock


def _before_fork() -> None:
    _SUMS.acquire()
    _FORKS.append(None)


def _after_fork() -> None:
    if _FORKS:  # else this module was imported after the fork had begun, which then did not take the lock
        _FORKS.pop()
        _SUMS.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


class CalibrationSketch:
    r"""Any number of predictions, summed up in constant memory.

    A sketch cuts [0, 1] into 4,396 cells, narrow near 0 and 1 for rare events and confident classifiers. For each cell
    it keeps the number of predictions by outcome, the sums of their scores by outcome and the sum of squared scores. It
    also keeps the exact sums of Brier score, log loss and accuracy. Add batches with `update`, add sketches from other
    machines with ``+``, and pass a sketch as ``probs`` to `evaluate`, `compare` or any measure.

    Exact up to the rounding of sums: the accuracy, Brier score and log loss, the mean score, and the errors of
    equal-width bins whose number divides 300 (2 to 6, 10, 12, 15, 20, 25, 30, 50, 60, 75, 100, 150, 300). Other
    measures have a certified bound of their error, `Estimate.error_bound`; it is NaN for the calibration slope and
    intercept, ICI, E50 and E90.

    Parameters
    ----------
    notion : {"positive", "top-label", "classwise", "multilabel"}, optional
        The evaluated event, as in `expected_calibration_error`. By default the shape of the first batch decides.
    classwise : bool, default False
        Whether to keep a curve (see Notes) for every class too, with notion "top-label" or "positive", at 176 kB each.
    class_names : sequence of str, optional
        The names of the classes, in the order of the columns, for targets that are strings.
    grid : {"standard", "fine"}, default "standard"
        The cells: "fine" has 19,984, a quarter as wide; bounds of the smooth error are sixteen times as tight.

    Notes
    -----
    Several threads may update a sketch; it may be pickled and sent to other processes. The counts do not depend on the
    order of batches or merges, nor on the number of threads; sums agree to a relative 1e-12. A rejected batch changes
    nothing.

    A curve holds the sums of each cell for one event: the evaluated event, or one class. Memory: each curve takes 176
    kB (246 kB with weights) in each group, and 4.5 times as much on the fine grid. Clusters take up to 2.7 MB more a
    group, and 50 kB for each class. Cost of an update: one read of the batch, as in `evaluate`, and about 10 ns per row
    and curve.

    Examples
    --------
    >>> import calibrant
    >>> sketch = calibrant.CalibrationSketch()
    >>> sketch.update([0.2, 0.8], [0, 1])
    >>> other = calibrant.CalibrationSketch()
    >>> other.update([0.8, 0.2], [1, 0])
    >>> both = sketch + other
    >>> both
    <CalibrationSketch: 4 rows, positive, standard grid, 176 kB>
    >>> round(calibrant.expected_calibration_error(both), 12)
    0.2
    >>> calibrant.CalibrationSketch.from_bytes(both.to_bytes()) == both
    True
    """

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __init__(
        self,
        *,
        notion: Notion | None = None,
        classwise: bool = False,
        class_names: Sequence[str] | None = None,
        grid: grids.Grid = "standard",
    ) -> None:
        if notion is not None:
            check_choice("notion", notion, NOTIONS)
        check_choice("grid", grid, grids.GRIDS)
        if not isinstance(classwise, (bool, np.bool_)):
            raise InputError(
                "classwise", "True or False", repr(classwise), "pass True to evaluate the classes too, else False"
            )
        names = None if class_names is None else names_of(class_names)
        self._make = SketchConfig(notion=notion, classwise=bool(classwise), class_names=names, grid=grid)
        self._part: SketchSums | None = None
        self._groups: dict[str, CalibrationSketch] = {}

    # ------------------------------------------------------------ adding up

    def update(
        self,
        probs: ArrayLike,
        targets: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        ignore_index: int | None = None,
        logits: bool = False,
        groups: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
        weights_are: WeightsAre | None = None,
    ) -> None:
        """Add a batch of predictions.

        Parameters
        ----------
        probs, targets, weights, ignore_index, logits
            As in `expected_calibration_error`. A batch without an evaluated row adds nothing.
        groups : array, (N,), optional
            The name of each row's group, in every batch or in none: each group gets its own sketch.
        clusters : array, (N,), optional
            The label of each row's cluster, in every batch or in none, as in `evaluate`. A cluster may be split among
            batches and among sketches. Not with the notions "classwise" and "multilabel". Without it rows are taken as
            independent.
        weights_are : {"frequency", "sampling"}, optional
            What the weights are, as in `evaluate`; the same in every batch.

        Raises
        ------
        calibrant.errors.InputError
            As `expected_calibration_error`, and for a batch of another shape than earlier ones. The sketch is then
            unchanged.
        """
        if 0 in shape_of("targets", targets) and 0 in shape_of("probs", probs):
            return
        part = self._like()
        with following(self.n * (self._make.n_classes or 1)):
            try:
                predictions = as_predictions(
                    probs,
                    targets,
                    weights=weights,
                    ignore_index=ignore_index,
                    logits=logits,
                    class_names=self.class_names,
                    notion=self.notion,
                    units=False,
                    weights_are=weights_are,
                )
            except NothingJudgedError:
                return
            self._make.check_shape(part._make.shaped_as(predictions))
            labels = None if clusters is None else labels_of(clusters, predictions)
            part._take(predictions, labels)
            for name, places in () if groups is None else as_groups(groups, predictions):
                group = part._groups[name] = part._like()
                group._take(predictions.take(places), None if labels is None else labels.take(places))
        self._absorb(part)

    def merge(self, *others: CalibrationSketch) -> None:
        """Add other sketches with the same settings to this one, in place.

        Raises
        ------
        calibrant.errors.InputError
            For a sketch with other settings or another number of classes, and if only one of the two has groups or
            clusters. Nothing is then changed.
        """
        parts = []
        for other in others:
            self._check_make(other)
            parts.append(other._snapshot())
        for part in parts[1:]:  # copies: nothing has changed yet if one does not fit
            parts[0]._absorb(part)
        if parts:
            self._absorb(parts[0])

    def __add__(self, other: CalibrationSketch) -> CalibrationSketch:
        """Return the sketch of the predictions of both."""
        both = self._snapshot()
        both.merge(other)
        return both

    def __radd__(self, other: Literal[0]) -> CalibrationSketch:
        """Return a copy for ``0 + sketch``: ``sum(sketches)`` starts from 0."""
        return self._snapshot() if other == 0 else NotImplemented

    @classmethod
    def of_groups(cls, groups: Mapping[Any, Any]) -> CalibrationSketch:
        """Return the sketch of all groups together, with the sketch of each group.

        Parameters
        ----------
        groups : mapping
            From the name of each group to its sketch, all with the same settings.

        Raises
        ------
        calibrant.errors.InputError
            For an empty mapping, for sketches with different settings, and for groups of groups.
        """
        if not groups:
            raise InputError("groups", "at least one group", "an empty mapping", "pass {'name': sketch, ...}")
        named = {str(name): groups[name] for name in sorted(groups, key=str)}
        if len(named) < len(groups):
            raise InputError("groups", "distinct names", "several names with the same text", "rename one of them")
        for name, sketch in named.items():
            if not isinstance(sketch, CalibrationSketch):
                got = f"a {type(sketch).__name__} for {name!r}"
                raise InputError("groups", "a CalibrationSketch for every name", got, "pass {'name': sketch, ...}")
            if sketch._groups:
                raise InputError(
                    "groups", "sketches without groups", f"groups in {name!r}", "merge these sketches instead"
                )
        merged: CalibrationSketch = next(iter(named.values()))._like()
        merged.merge(*named.values())
        merged._groups = {name: sketch._snapshot() for name, sketch in named.items() if sketch.n}
        return merged

    def _take(self, predictions: Predictions, labels: ClusterLabels | None) -> None:
        evaluated = resolve(predictions, self.notion)
        self._make = replace(self._make.shaped_as(predictions), notion=evaluated)
        if labels is not None:
            check_notion(evaluated)
        self._part = SketchSums.of(predictions, self._make, labels)

    def _like(self) -> CalibrationSketch:
        """Return an empty sketch with the same settings."""
        return self.of_parts(replace(self._make, layout=None, n_classes=None))

    @classmethod
    def of_parts(cls, make: SketchConfig, part: SketchSums | None = None) -> CalibrationSketch:
        """Return a sketch of these settings that takes over the sums; without sums an empty one."""
        sketch = cls(notion=make.notion, classwise=make.classwise, class_names=make.class_names, grid=make.grid)
        sketch._make, sketch._part = make, part
        return sketch

    def _snapshot(self) -> CalibrationSketch:
        """Return a consistent copy while other threads may add."""
        with _SUMS:
            now = self.of_parts(self._make, copy.deepcopy(self._part))
            now._groups = {name: group._snapshot() for name, group in self._groups.items()}
            return now

    def _check_make(self, other: Any) -> None:
        """Reject anything but a sketch with the same settings."""
        if not isinstance(other, CalibrationSketch):
            raise InputError(
                "other", "a CalibrationSketch", f"a {type(other).__name__}", "make a CalibrationSketch, and update it"
            )
        self._make.check_settings(other._make)

    def _absorb(self, other: CalibrationSketch) -> None:
        """Add a sketch that no other code uses."""
        if other._part is None:
            return
        with _SUMS:
            self._check_make(other)
            if self._part is None:
                self._make, self._part, self._groups = other._make, other._part, other._groups
                return
            self._make.check_shape(other._make)
            if bool(self._groups) != bool(other._groups):
                got = "groups after batches without groups" if other._groups else "no groups after batches with groups"
                raise InputError("groups", "groups in every batch or in none", got, SEVERAL)
            self._part = self._part.add(other._part)
            for name, group in other._groups.items():
                self._groups.setdefault(name, self._like())._absorb(group)

    # ------------------------------------------------------------ what it holds

    @property
    def notion(self) -> Notion | None:
        """The evaluated event; None before the first batch, unless it was passed."""
        return self._make.notion

    @property
    def classwise(self) -> bool:
        """Whether a curve for every class was requested."""
        return self._make.classwise

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """The names of the classes; None if they were not passed."""
        return self._make.class_names

    @property
    def grid(self) -> grids.Grid:
        """The grid of the cells."""
        return self._make.grid

    @property
    def layout(self) -> Layout | None:
        """The layout of the predictions: "binary", "multiclass" or "multilabel"; None before the first batch."""
        return self._make.layout

    @property
    def n_classes(self) -> int | None:
        """The number of classes or labels; None for one event, and before the first batch."""
        return self._make.n_classes

    @property
    def has_classes(self) -> bool:
        """Whether the sketch keeps a curve for every class."""
        return self._make.has_classes

    @property
    def n(self) -> int:
        """The number of evaluated rows."""
        return self.totals.n

    @property
    def totals(self) -> Totals:
        """The current exact sums over all rows."""
        with _SUMS:
            return Totals() if self._part is None else replace(self._part.totals)

    @property
    def groups(self) -> Mapping[str, CalibrationSketch]:
        """The sketch of each group, by name; empty without groups."""
        return {name: self._groups[name] for name in sorted(self._groups)}

    @property
    def nbytes(self) -> int:
        """The memory of all sums, in bytes."""
        bytes_of_all = 0 if self._part is None else self._part.nbytes
        return bytes_of_all + sum(group.nbytes for group in self._groups.values())

    @property
    def clusters(self) -> ClusterSums | None:
        """The sums over buckets of clusters; None if batches had none."""
        with _SUMS:
            return None if self._part is None else self._part.clusters

    @property
    def buckets(self) -> BucketSums | None:
        """The sums of the evaluated event over buckets of clusters; None if batches had no clusters."""
        clusters = self.clusters
        return None if clusters is None else clusters.event

    @property
    def table(self) -> ReliabilityTable:
        """The table of the evaluated event, on the sketch's grid.

        Raises
        ------
        calibrant.errors.InputError
            For an empty sketch, and for one that evaluates every class separately.
        """
        self.check_filled()
        if self.notion in PER_CLASS:
            remedy = "use class_tables, or a sketch of 'positive' or 'top-label'"
            raise InputError(
                "sketch", "a sketch with the notion 'positive' or 'top-label'", f"a sketch with {self.notion!r}", remedy
            )
        return self._tables(0, 1)[0]

    @property
    def class_tables(self) -> list[ReliabilityTable]:
        """The table of each class (label), on the sketch's grid.

        Raises
        ------
        calibrant.errors.InputError
            For an empty sketch, and for one without the sums of single classes.
        """
        self.check_filled()
        if not self.has_classes or self.n_classes is None:
            got = "a sketch that keeps only the evaluated event" if self.n_classes else "a sketch of a single event"
            raise InputError(
                "sketch", "a sketch of classes", got, "make the sketch with CalibrationSketch(classwise=True)"
            )
        n_curves = self._make.n_curves
        return self._tables(n_curves - self.n_classes, n_curves)

    def in_units(self) -> CalibrationSketch:
        """Return the sketch, without groups, in the units of weights that results are computed in.

        Equal weights count as no weights; weights far from 1 are divided by a power of 2; else it is the sketch itself.
        """
        with _SUMS:
            part = None if self._part is None else in_units(self._part)
            if part is self._part:
                return self
            return self.of_parts(self._make, part)

    def of_event(self) -> CalibrationSketch:
        """Return a copy without the curves of the classes, for a sketch that evaluates one event."""
        make, groups, parts = self._content()
        return self._from_content(Content(replace(make, classwise=False), groups, [part.of_event() for part in parts]))

    def check_filled(self) -> None:
        """Reject a sketch without a row."""
        if self.n == 0:
            raise InputError("sketch", "a sketch with at least one row", "an empty sketch", "update the sketch first")

    def _tables(self, first: int, stop: int) -> list[ReliabilityTable]:
        with _SUMS:
            if self._part is None:
                return []
            part = self._part
            return [part.curves.table(k, self.grid, whole=part.totals.whole) for k in range(first, stop)]

    def __eq__(self, other: object) -> bool:
        """Return whether two sketches have the same settings and the same sums, bit for bit."""
        return isinstance(other, CalibrationSketch) and same(self._content(), other._content())

    def __repr__(self) -> str:
        if self._part is None:
            return f"<CalibrationSketch: empty, {self.grid} grid>"
        rows = f"{self.n:,} row{'s' * (self.n != 1)}, {self.notion}"
        shape = "" if self.layout == "binary" else f" of {self._make.shape}"
        groups = f", {len(self._groups):,} group{'s' * (len(self._groups) != 1)}" if self._groups else ""
        size = f"{self.nbytes / 1e3:,.0f} kB" if self.nbytes < 1e6 else f"{self.nbytes / 1e6:,.1f} MB"
        clusters = "" if self._part.clusters is None else f", {self._part.clusters.event.number} clusters"
        return f"<CalibrationSketch: {rows}{shape}{clusters}{groups}, {self.grid} grid, {size}>"

    # ------------------------------------------------------------ files, bytes, JSON and Arrow tables

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the sketch to a file, which `load` and ``calibrant report`` read.

        The file holds the bytes of `to_bytes`: sums, never the rows.

        Parameters
        ----------
        path : str or path
            The file to write; its name ends in ``.cal``. An old file stays until the new one is complete on the disk.

        Raises
        ------
        calibrant.errors.InputError
            If the file name does not end in ``.cal``, or if ``path`` is not a path.
        calibrant.errors.FileError
            If the file cannot be written, as on a full disk. An old file is then unchanged.

        Examples
        --------
        >>> import tempfile, calibrant
        >>> sketch = calibrant.CalibrationSketch()
        >>> sketch.update([0.2, 0.8], [0, 1])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     sketch.save(f"{folder}/monday.cal")
        ...     calibrant.CalibrationSketch.load(f"{folder}/monday.cal") == sketch
        True
        """
        name = _name_of(path)
        if not name.lower().endswith(_ENDING):
            remedy = f"use the name {name + _ENDING!r}, because calibrant report recognises a file by its ending"
            raise InputError("path", f"a name that ends in {_ENDING}", repr(name), remedy)
        replace_file(name, self.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> CalibrationSketch:
        """Return the sketch that `save` or ``calibrant report --sketch`` wrote.

        The file is not trusted: its version, its checksum, and the types and ranges of its numbers are checked. Nothing
        in it is executed.

        Parameters
        ----------
        path : str or path
            The file, with any ending.

        Raises
        ------
        calibrant.errors.InputError
            For what is not a path.
        calibrant.errors.FileError
            For a file that does not exist, cannot be read, is not a sketch, is damaged, or has an unknown version.
        """
        name = _name_of(path)
        with opened(name, _REMEDY, storage.MOST_BYTES) as stream:
            head = stream.read(64)
            if not storage.is_sketch(head):  # before a large file of another kind is read
                got = f"bytes that begin with {head[:16]!r}" if head else "an empty file"
                raise FileError(name, f"expected a calibrant sketch, got {got}", _REMEDY)
            data = head + stream.read()
        with of_file(name):
            return cls.from_bytes(data)

    def to_bytes(self) -> bytes:
        """Return the sketch as bytes: versioned, checksummed, the same for the same sums.

        The bytes are an ``.npz`` of the occupied cells, with some 36 bytes for each (60 with weights).
        """
        return storage.to_bytes(self._content())

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> CalibrationSketch:
        """Return the sketch that `to_bytes` wrote.

        Raises
        ------
        calibrant.errors.InputError
            For other data, for a damaged sketch, and for a version that this calibrant does not know.
        """
        return cls._from_content(storage.from_bytes(data))

    def to_json(self) -> str:
        """Return the sketch as JSON: unrounded numbers, only occupied cells."""
        return storage.to_json(self._content())

    @classmethod
    def from_json(cls, text: str) -> CalibrationSketch:
        """Return the sketch that `to_json` wrote.

        Raises
        ------
        calibrant.errors.InputError
            As `from_bytes`.
        """
        return cls._from_content(storage.from_json(text))

    def to_arrow(self) -> pa.Table:
        """Return the occupied cells as a `pyarrow.Table`, with everything else in the schema's metadata.

        Raises
        ------
        calibrant.errors.MissingDependencyError
            Without pyarrow, which the extra ``report`` installs.
        """
        return storage.to_arrow(self._content())

    @classmethod
    def from_arrow(cls, table: pa.Table) -> CalibrationSketch:
        """Return the sketch that `to_arrow` wrote, also after a round trip through any Arrow file.

        Raises
        ------
        calibrant.errors.InputError
            As `from_bytes`.
        """
        return cls._from_content(storage.from_arrow(table))

    def _content(self) -> Content:
        now = self._snapshot()
        groups = now.groups
        parts = [each._part for each in (now, *groups.values()) if each._part is not None]
        return Content(now._make, list(groups), parts)

    @classmethod
    def _from_content(cls, content: Content) -> CalibrationSketch:
        sketch = cls.of_parts(content.make, content.parts[0] if content.parts else None)
        named = zip(content.groups, content.parts[1:], strict=True)
        sketch._groups = {name: cls.of_parts(content.make, part) for name, part in named}
        return sketch

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, **self._snapshot().__dict__}  # other threads may add while a pickle is written


def _name_of(path: Any) -> str:
    """Return a path as text."""
    name = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if not isinstance(name, str):
        raise InputError("path", "the name of a file", type(path).__name__, "pass a str or a pathlib.Path")
    return name
