"""The full report, from batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calibrant.inputs.notions import ScoreMeans
from calibrant.inputs.predictions import Layout, Notion
from calibrant.kernels import tensors
from calibrant.kernels.tensors import WIDTH
from calibrant.measures.means.means import ONLY_RIGHT, BaseRates, PredictionMeans
from calibrant.measures.read_arguments import ClassHistograms
from calibrant.plot import diagrams
from calibrant.report.evaluated_data import EvaluatedData
from calibrant.report.evaluation import ReportSettings, report_on
from calibrant.report.report import Report
from calibrant.results import ReliabilityDiagram
from calibrant.statistics.resampling import Resampling, Rng
from calibrant.table import ReliabilityTable
from calibrant.torch.base import Batch, check_bins, check_notion, no_batch
from calibrant.torch.sharing import untraced
from calibrant.torch.tables import State, TableMetric


class _Sealed:
    """A wrapper that hides a report from torchmetrics, which searches mappings for tensors."""

    def __init__(self, report: Report) -> None:
        self.report = report


class CalibrationReport(TableMetric):
    """All measures of `calibrant.evaluate`, from batches: `compute` returns a `Report`.

    Parameters
    ----------
    num_bins : int, default 15
        The bins of the binned measures, right-closed as in `calibrant.evaluate`.
    notion : {"positive", "top-label"}, optional
        The evaluated event; by default "positive" for (N,) and (N, 1), "top-label" for (N, C).
    level, n_resamples, rng
        The confidence level of the intervals, the number of resamples for noise floors and p-values, their seed: as
        in `calibrant.evaluate`.
    state : {"rows", "sketch"}, default "rows"
        "sketch" keeps 176 kB for any number of rows. Numbers that are then not exact have a certified
        `Estimate.error_bound`, and `sketch` returns all batches so far, without the classes' bins.
    ignore_index, validate_args, logits, kwargs
        As in `CalibrationError`.

    Raises
    ------
    calibrant.errors.InputError
        From `update` as in `CalibrationError`; from `compute` before the first batch.

    Notes
    -----
    The state keeps score and outcome of the evaluated event, 4 bytes a row (8 in double precision), or a sketch. Each
    bin of each class takes 24 bytes more. Intervals cost 0.1 to 1 second in `compute`, and in `forward` for each
    batch: ``level=None`` leaves them out.

    Examples
    --------
    >>> import torch
    >>> from calibrant.torch import CalibrationReport
    >>> metric = CalibrationReport(num_bins=2)
    >>> metric.update(torch.tensor([0.25, 0.25, 0.55]), torch.tensor([0, 0, 1]))
    >>> metric.update(torch.tensor([0.75, 0.75]), torch.tensor([1, 1]))
    >>> report = metric.compute()
    >>> round(report["ece"].value, 4), report.n
    (0.29, 5)
    """

    def __init__(
        self,
        num_bins: int = 15,
        *,
        level: float | None = 0.95,
        n_resamples: int = 1000,
        rng: Rng = 0,
        notion: Notion | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        logits: bool | None = None,
        state: State = "rows",
        **kwargs: Any,
    ) -> None:
        check_bins(num_bins)
        resampling = None if level is None else Resampling.of(level, n_resamples, rng)
        check_notion(notion, ("positive", "top-label"))
        make = ("report" if state == "rows" else "sketch report", num_bins)
        super().__init__(
            state=state,
            notion=notion,
            ignore_index=ignore_index,
            logits=logits,
            validate_args=validate_args,
            class_bins=num_bins,
            make=make,
            **kwargs,
        )
        self.num_bins, self.resampling = num_bins, resampling
        if state == "rows":
            self._add_totals()
        # Bins of all classes, flat: only the first batch shows the number of classes. Counts and outcomes; scores.
        self._add_list("class_counts", torch.int64)
        self._add_list("class_scores", torch.float64)

    def _add(self, batch: Batch) -> None:
        super()._add(batch)
        for name in ("class_counts", "class_scores"):
            if len(getattr(self, name)) > 1:
                setattr(self, name, [self._class_sums(name, self._width or 1).reshape(-1)])

    def _class_sums(self, name: str, width: int) -> Tensor:
        """Return the sums of the classes' bins over batches and ranks."""
        flat = self._gathered(name)
        if name == "class_counts":
            return flat.reshape(-1, 2, self.num_bins, width).sum(0)
        pairs = () if flat.dtype == torch.float64 else (2,)
        return tensors.add_sums(flat.reshape(-1, *pairs, self.num_bins, width))

    def _value(self) -> _Sealed:
        if int(self.total) == 0:
            raise no_batch("compute")
        width = int(self.seen[WIDTH])
        layout: Layout = "multiclass" if width > 1 else "binary"
        n_classes = width if width > 1 else None
        histograms = None
        if layout == "multiclass":
            counts, positives = self._class_sums("class_counts", width).cpu().numpy()
            scores = tensors.joined(self._class_sums("class_scores", width)).numpy()
            histograms = np.stack([counts, scores, positives]).astype(np.float64)
        table, notion = self._tables()[0], self._notion_of(layout)
        data = EvaluatedData(
            notion=notion,
            means=replace(self._means(layout), **self._base_rates(notion, table, histograms)),
            tables=[table],
            n_classes=n_classes,
            histograms=None if histograms is None else ClassHistograms(sums=histograms, totals=int(self.total)),
        )
        return _Sealed(report_on(data, ReportSettings(n_bins=self.num_bins, resampling=self.resampling)).report)

    def _base_rates(
        self, notion: Notion, table: ReliabilityTable, histograms: NDArray[np.float64] | None
    ) -> dict[str, Any]:
        """Return the base rates, or why the states do not have them."""
        if histograms is None and notion == "positive":
            return {"base_rates": BaseRates.of_tables([table])}
        if histograms is None:
            return {"no_base_rates": ONLY_RIGHT.format("sketch" if self.state == "sketch" else "metric")}
        masses = histograms[2].sum(axis=0)
        return {"base_rates": BaseRates.of_classes(masses, masses)}

    def _means(self, layout: Layout) -> PredictionMeans:
        """Return the means over whole predictions."""
        total = int(self.total)
        sums = (self.brier_sum, self.nll_sum, self.brier_squares, self.nll_squares)
        brier, nll, brier_square, nll_square = (float(tensors.joined(x)) / total for x in sums)
        infinite = int(self.infinite)
        scores = ScoreMeans(
            accuracy=int(self.correct) / total,
            brier=brier,
            brier_square=brier_square,
            nll=np.inf if infinite else nll,
            nll_square=nll_square,
            infinite=infinite,
        )
        return PredictionMeans.of_scores(scores, scores, effective_n=total, n=total, layout=layout)

    def _wrap_compute(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        """Unwrap the report, after torchmetrics has gathered and cached it."""
        wrapped = super()._wrap_compute(compute)
        return lambda *args, **kwargs: wrapped(*args, **kwargs).report

    @torch.jit.unused
    @untraced
    def forward(self, *args: Any, **kwargs: Any) -> Report:
        """Add a batch and return the report on this batch alone."""
        report: Report = super().forward(*args, **kwargs)
        self._forward_cache = None  # torchmetrics would search it for tensors to move
        return report

    def plot(self, title: Any = "Reliability Diagram", ax: Any = None) -> tuple[Any, Any]:
        """Draw the reliability diagram of all batches so far; on ``ax`` without the histogram.

        As in torchmetrics, the first argument may be a report, which is then drawn instead of that of the batches.
        """
        report: Report = title if isinstance(title, Report) else self.compute()
        title = title if isinstance(title, str) else "Reliability Diagram"
        if ax is not None:
            diagrams.reliability_diagram(report, counts=False, ax=ax).set_title(title)
            return ax.figure, ax
        words = diagrams.WORDS["positive" if report.notion == "positive" else "top-label"]
        number = f"ECE = {report['ece'].value:.2%}"
        diagram = cast("ReliabilityDiagram", report.diagram)  # there is one for every evaluated event
        return diagrams.reliability_figure(
            diagram, number=number, title=title, labels=(*words, words[0], diagrams.SHARE)
        )
