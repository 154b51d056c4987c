"""Metrics of selective classification: the risk of the most confident rows, as a function of their share."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from calibrant.errors import InputError
from calibrant.inputs.predictions import Layout
from calibrant.plot import canvas
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.table import GridCells, ReliabilityTable
from calibrant.thresholds.areas import reciprocals
from calibrant.torch.adding import Increments
from calibrant.torch.base import no_batch
from calibrant.torch.tables import State, TableMetric

_POINTS: Final = 1_001  # of a drawn curve, at most
_SQUARE: Final = (6.0, 6.0)  # inches


class _RiskCoverage(TableMetric):
    """A number of the risk-coverage curve, with the parameters of `AURC`."""

    _raises_empty = True

    def __init__(
        self,
        *,
        ignore_index: int | None = None,
        validate_args: bool = True,
        logits: bool | None = None,
        state: State = "rows",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            state=state,
            half=0,
            notion="top-label",
            ignore_index=ignore_index,
            logits=logits,
            validate_args=validate_args,
            **kwargs,
        )
        self.error_bound: float | None = None

    @property
    def scores(self) -> list[Tensor]:
        """The confidence of each row, as `confidences`."""
        return self.confidences

    @property
    def errors(self) -> list[Tensor]:
        """Whether each row is classified wrongly, 1.0 or 0.0, in the order of `scores`."""
        return [1 - right for right in self.accuracies]

    def _read_host(self, preds: Tensor, target: Tensor, layout: Layout) -> Increments:
        if layout == "binary" and target.is_floating_point():
            target = self._without_fractions(preds, target)
        return super()._read_host(preds, target, layout)

    def _without_fractions(self, preds: Tensor, target: Tensor) -> Tensor:
        """Replace targets that are not whole numbers by the class that is not predicted, with a warning.

        TorchUncertainty counts such a target as an error, because it equals no class. Its own tests have such targets.
        If all predictions are whole numbers, the arguments are in the wrong order, and the targets stay unchanged, so
        that reading them raises an error.
        """
        broken = target.isfinite() & (target != target.round())
        if not bool(broken.any()) or bool((preds == preds.round()).all()):
            return target
        message = (
            f"target: expected 0 or 1, got fractions in {int(broken.sum()):,} of {target.numel():,} rows; "
            "these rows count as errors, as in TorchUncertainty"
        )
        warnings.warn(message, UserWarning, stacklevel=2)
        wrong = preds <= (0.0 if self._scale(preds, target, "binary") else 0.5)
        return torch.where(broken, wrong.to(target.dtype), target)

    def _value(self) -> Tensor:
        table = self._tables()[0]
        if not len(table):
            self.error_bound = math.nan
            return self._scalar(math.nan)
        value, cells = self._of(_RiskCurve.of(table)), GridCells.of(table)
        self.error_bound = 0.0 if cells is None else self._bound(value, cells)
        return self._scalar(value)

    def _bound(self, value: float, cells: GridCells) -> float:
        """Return the largest distance between the value and that of the rows; NaN if only one of them is defined."""
        limits = [self._of(curve) for curve in _RiskCurve.extremes(cells)]
        if math.isnan(value) and all(map(math.isnan, limits)):
            return 0.0
        return float(np.max(np.abs(np.array(limits) - value))) + cells.rounding  # NaN if a limit is

    @abstractmethod
    def _of(self, curve: _RiskCurve) -> float:
        """Return the metric's value for a curve."""

    def _curve(self) -> _RiskCurve:
        """Return the curve of all batches so far, on all ranks as in `compute`."""
        with self._of_all_ranks():
            return _RiskCurve.of(self._tables()[0])


class AURC(_RiskCoverage):
    r"""Area under the risk-coverage curve (AURC): the mean error rate of the most confident rows, over all coverages.

    A selective classifier accepts the rows with the highest confidence. Let :math:`e_i = 1` if the row with the i-th
    highest confidence is classified wrongly, and 0 otherwise. If the k most confident of N rows are accepted, the
    coverage is k / N and the risk is the error rate among them,

    .. math:: r_k = \frac1k \sum_{i=1}^k e_i, \qquad
              \mathrm{AURC} = \frac{1}{N - 1} \Bigl(\sum_{k=1}^N r_k - \frac{r_1 + r_N}{2}\Bigr)

    This is the trapezoidal rule on the coverages 1 / N, ..., 1, divided by their range 1 - 1 / N, as in
    TorchUncertainty, for whose metric it is a drop-in. The mean of all :math:`r_k`, another common definition, differs
    from it by a term of order 1 / N. In [0, 1], lower is better. If the confidence does not discriminate between
    correct and incorrect predictions, the expected AURC is the error rate. The AURC depends only on the order of the
    confidences, so it does not measure calibration.

    The confidence is max(p, 1 - p) for (N,), where 0.5 predicts class 0, and the largest probability for (N, C).

    Rows with equal confidence have no order. The expected number of errors is therefore used: within a tie, it grows by
    the same amount with each row, which is the mean of the curve over all orders of the tied rows. The value does not
    depend on the order of the rows. Without ties, the value equals that of TorchUncertainty.

    NaN for fewer than two rows.

    Parameters
    ----------
    state : {"rows", "sketch"}, default "rows"
        What is kept: 4 bytes a row, 8 in double precision; or 176 kB for any number of rows. In a sketch, confidences
        in one grid cell count as tied.
    ignore_index, validate_args, logits, kwargs
        As in `CalibrationError`.

    Attributes
    ----------
    error_bound : float or None
        The largest possible distance between the last value and the value computed from all rows, before rounding to
        the precision of the data: 0 for rows. For a sketch it is a certified bound, from the best and the worst order
        of the rows within each grid cell; NaN if the value is undefined for one of these orders.
    scores, errors : list of tensors
        The confidence of each evaluated row, and whether it is classified wrongly (1.0 or 0.0), in a tensor for each
        batch. Only ``state="rows"`` keeps them.

    Raises
    ------
    calibrant.errors.InputError
        For invalid options; from `update` as in `CalibrationError`.

    Warns
    -----
    UserWarning
        If targets of predictions (N,) contain fractions such as 0.3. These rows count as errors, as in
        TorchUncertainty. On a GPU, and for (N, C), such targets are invalid.

    Notes
    -----
    `compute` sorts N integers, or reads the cells of a sketch.

    References
    ----------
    Geifman, El-Yaniv (2017), arXiv 1705.08500. Geifman, Uziel, El-Yaniv (2019), arXiv 1805.08206. Traub et al. (2024),
    arXiv 2407.01032.

    Examples
    --------
    >>> import torch
    >>> from calibrant.torch import AURC
    >>> metric = AURC()
    >>> metric.update(torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3], [0.6, 0.4]]), torch.tensor([0, 1, 1, 0]))
    >>> metric.compute()
    tensor(0.1528)

    With equal confidences, the order of the rows has no effect:

    >>> AURC()(torch.tensor([0.9, 0.9, 0.9, 0.9]), torch.tensor([0, 1, 1, 1]))
    tensor(0.2500)
    """

    plot_upper_bound = 1.0
    _label = "AURC"
    _ylabel = "Risk - Error Rate (%)"

    def _of(self, curve: _RiskCurve) -> float:
        return curve.area

    def partial_compute(self) -> Tensor:
        """Return the risks of all batches so far: element k - 1 is the error rate of the k most confident rows.

        Within a tie, it is the expected error rate. For a sketch too, the result has an element for each row.
        """
        curve = self._curve()
        return self._scalar(curve.risks(np.arange(1, curve.n + 1)))

    def plot(  # type: ignore[override] # the arguments of TorchUncertainty
        self, drawn: Any = None, /, plot_value: Any = True, name: str | None = None, *, ax: Any = None, val: Any = None
    ) -> tuple[Any, Any]:
        """Draw the curve of all batches so far: the risk over the coverage, both in percent.

        Parameters
        ----------
        drawn : matplotlib.axes.Axes, optional
            The same as ``ax``. As in torchmetrics, it may also be a value or a sequence of values (the same as
            ``val``); the second argument may then be the axes.
        plot_value : bool, default True
            Whether to write the value of `compute` into the figure.
        name : str, optional
            The name in the legend, by default "Model".
        ax : matplotlib.axes.Axes, optional
            The axes to draw on, by default those of a new figure.
        val : tensor or sequence of tensors, optional
            Values to draw instead of the curve.

        Returns
        -------
        figure, axes
            From matplotlib. As in TorchUncertainty, the figure of the curve is None if ``ax`` was passed.

        Raises
        ------
        calibrant.errors.InputError
            Before the first batch.
        calibrant.errors.MissingDependencyError
            Without matplotlib.

        Notes
        -----
        At most 1,001 points of the curve are drawn.
        """
        axes_type = canvas.matplotlib().axes.Axes
        if isinstance(drawn, axes_type):
            ax = drawn
        elif drawn is not None:
            val = drawn
        if isinstance(plot_value, axes_type):
            ax = plot_value
        if val is not None:
            return self._plot(val, ax)
        curve = self._curve()
        if not curve.n:
            raise no_batch("plot")
        ranks = np.unique(np.linspace(1, curve.n, min(curve.n, _POINTS)).round())
        axes = canvas.axes_for(ax, _SQUARE)
        series = canvas.series_on(axes)
        coverages, heights = 100 * ranks / curve.n, 100 * self._heights(curve, ranks)
        label = "Model" if name is None else canvas.literal(name)
        axes.plot(coverages, heights, color=series.colour, label=label, gid=series.gid)
        if plot_value:
            canvas.corner(axes, f"{self._label} = {float(self.compute()):.2%}")
        canvas.open_frame(axes)
        top = max(1.0, math.ceil(heights.max()), axes.get_ylim()[1] if series.place else 0.0)
        axes.set(xlim=(0, 100), ylim=(0, top), xlabel="Coverage (%)", ylabel=self._ylabel)
        axes.legend(loc="upper right")
        return None if ax is not None else axes.figure, axes

    def _heights(self, curve: _RiskCurve, ranks: Float64s) -> Float64s:
        """Return the values of the drawn curve."""
        return curve.risks(ranks)


class AUGRC(AURC):
    r"""Area under the generalized risk-coverage curve (AUGRC): the mean share of accepted errors, over all coverages.

    The generalized risk at coverage k / N is the number of errors among the k most confident rows, divided by N. It is
    the risk :math:`r_k` of `AURC` times the coverage:

    .. math:: g_k = \frac{k}{N} r_k, \qquad
              \mathrm{AUGRC} = \frac{1}{N - 1} \Bigl(\sum_{k=1}^N g_k - \frac{g_1 + g_N}{2}\Bigr)

    A drop-in for TorchUncertainty's metric, with the same trapezoidal rule as `AURC`. From 0 to (N + 1) / (2N); lower
    is better. If the confidence does not discriminate, the expected AUGRC is about half the error rate. The error with
    the i-th highest confidence has a weight of about (1 - i / N) / N in the AUGRC, and of about ln(N / i) / N in the
    AURC.

    Ties, NaN, parameters, attributes, warnings and errors are those of `AURC`.

    References
    ----------
    Traub et al. (2024), arXiv 2407.01032.

    Examples
    --------
    >>> import torch
    >>> from calibrant.torch import AUGRC
    >>> metric = AUGRC()
    >>> metric.update(torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3], [0.6, 0.4]]), torch.tensor([0, 1, 1, 0]))
    >>> metric.compute()
    tensor(0.1250)
    """

    _label = "AUGRC"
    _ylabel = "Generalized Risk (%)"

    def _of(self, curve: _RiskCurve) -> float:
        return curve.generalized_area

    def _heights(self, curve: _RiskCurve, ranks: Float64s) -> Float64s:
        return curve.risks(ranks) * ranks / curve.n


class CovAtxRisk(_RiskCoverage):
    r"""Coverage at a given risk: the largest share of rows that can be accepted with at most this error rate.

    .. math:: \frac1N \max \{k : r_k \le \rho\}

    with the risk :math:`r_k` of the k most confident rows, as in `AURC`, and the threshold :math:`\rho`. A drop-in for
    TorchUncertainty's metric. In [1 / N, 1], higher is better. If the curve crosses the threshold several times, the
    last crossing counts. NaN if the risk of every coverage is above the threshold, and without rows.

    With ties, :math:`r_k` is the expected risk, the mean over all orders of the tied rows, so the value does not depend
    on the order of the rows. Other parameters, attributes, warnings and errors are those of `AURC`.

    Parameters
    ----------
    risk_threshold : float
        The largest error rate, in [0, 1].

    Raises
    ------
    TypeError
        If the threshold is not a float.
    calibrant.errors.InputError
        If the threshold is outside [0, 1].

    References
    ----------
    Geifman, El-Yaniv (2017), arXiv 1705.08500.

    Examples
    --------
    >>> import torch
    >>> from calibrant.torch import CovAtxRisk
    >>> metric = CovAtxRisk(risk_threshold=0.25)
    >>> metric.update(torch.tensor([0.9, 0.8, 0.7, 0.6, 0.55]), torch.tensor([1, 1, 0, 1, 0]))
    >>> metric.compute()
    tensor(0.8000)
    """

    higher_is_better = True
    plot_upper_bound = 1.0

    def __init__(self, risk_threshold: float, **kwargs: Any) -> None:
        _check_threshold("risk_threshold", risk_threshold)
        super().__init__(**kwargs)
        self.risk_threshold = risk_threshold

    def _of(self, curve: _RiskCurve) -> float:
        return curve.coverage_at(self.risk_threshold)


class CovAt5Risk(CovAtxRisk):
    """Coverage at a risk of 5 %: `CovAtxRisk` with ``risk_threshold=0.05``.

    A drop-in for TorchUncertainty's metric. Parameters, attributes, warnings and errors are those of `AURC`.

    Examples
    --------
    >>> import torch
    >>> from calibrant.torch import CovAt5Risk
    >>> CovAt5Risk()(torch.tensor([0.9, 0.8, 0.7, 0.6]), torch.tensor([1, 1, 0, 1]))
    tensor(0.5000)
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(0.05, **kwargs)


class RiskAtxCov(_RiskCoverage):
    r"""Risk at a given coverage: the error rate among the most confident rows.

    .. math:: r_k, \qquad k = \lceil N \kappa \rceil

    with the risk :math:`r_k` of the k most confident rows, as in `AURC`, and the coverage :math:`\kappa`. A drop-in for
    TorchUncertainty's metric. In [0, 1], lower is better. NaN without rows, and for a coverage of 0, which accepts no
    row.

    With ties, :math:`r_k` is the expected risk, the mean over all orders of the tied rows, so the value does not depend
    on the order of the rows. Other parameters, attributes, warnings and errors are those of `AURC`.

    Parameters
    ----------
    cov_threshold : float
        The coverage, in [0, 1].

    Raises
    ------
    TypeError
        If the threshold is not a float.
    calibrant.errors.InputError
        If the threshold is outside [0, 1].

    References
    ----------
    Geifman, El-Yaniv (2017), arXiv 1705.08500.

    Examples
    --------
    >>> import torch
    >>> from calibrant.torch import RiskAtxCov
    >>> metric = RiskAtxCov(cov_threshold=0.6)
    >>> metric.update(torch.tensor([0.9, 0.8, 0.7, 0.6, 0.55]), torch.tensor([1, 1, 0, 1, 0]))
    >>> metric.compute()
    tensor(0.3333)
    """

    plot_upper_bound = 1.0

    def __init__(self, cov_threshold: float, **kwargs: Any) -> None:
        _check_threshold("cov_threshold", cov_threshold)
        super().__init__(**kwargs)
        self.cov_threshold = cov_threshold

    def _of(self, curve: _RiskCurve) -> float:
        return curve.risk_at(self.cov_threshold)


class RiskAt80Cov(RiskAtxCov):
    """Risk at a coverage of 80 %: `RiskAtxCov` with ``cov_threshold=0.8``.

    A drop-in for TorchUncertainty's metric. Parameters, attributes, warnings and errors are those of `AURC`.

    Examples
    --------
    >>> import torch
    >>> from calibrant.torch import RiskAt80Cov
    >>> RiskAt80Cov()(torch.tensor([0.9, 0.8, 0.7, 0.6, 0.55]), torch.tensor([1, 1, 0, 1, 0]))
    tensor(0.2500)
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(0.8, **kwargs)


def _check_threshold(name: str, value: object) -> None:
    """Reject a threshold with the types of errors, and the words, that the tests of TorchUncertainty look for."""
    if not isinstance(value, float):
        message = f"{name}: Expected threshold to be of type float, got {value!r}; pass a number such as 0.05"
        raise TypeError(message)
    if not 0 <= value <= 1:
        remedy = "pass a proportion, not a percentage. Threshold should be in the range 0 to 1"
        raise InputError(name, "a number in [0, 1]", f"{value}", remedy)


# ---------------------------------------------------------------- the curve


@dataclass(frozen=True, eq=False)
class _RiskCurve:
    """The risk-coverage curve of ties in decreasing order of confidence.

    Attributes
    ----------
    ends : (K + 1,) float64
        The number of rows that are accepted with the first 0, 1, ..., K ties.
    errors : (K + 1,) float64
        The number of errors among them. Both are whole numbers, which are exact below 2^53.
    """

    ends: Float64s
    errors: Float64s

    @classmethod
    def of(cls, table: ReliabilityTable) -> _RiskCurve:
        """Return the curve of a table whose scores are confidences and whose outcomes are correct predictions."""
        return cls._of_ties(table.counts[::-1], (table.counts - table.positives)[::-1])

    @classmethod
    def extremes(cls, cells: GridCells) -> tuple[_RiskCurve, _RiskCurve]:
        """Return the curves with all errors first, and with all errors last, within each cell of several confidences.

        The curve of the rows is between these two curves at every coverage.
        """
        wrong, right, several = (x[::-1] for x in (cells.n0, cells.n1, cells.several))
        nothing = np.zeros_like(wrong)
        sizes = np.stack([np.where(several, wrong, wrong + right), np.where(several, right, 0.0)], axis=1)
        errors = np.stack([wrong, nothing], axis=1)
        backwards = several.astype(np.int64)[:, None] ^ np.arange(2)  # swaps the two parts of a cell
        swapped = (np.take_along_axis(part, backwards, axis=1) for part in (sizes, errors))
        first, last = (cls._of_parts(*parts) for parts in ((sizes, errors), tuple(swapped)))
        return first, last

    @classmethod
    def _of_parts(cls, sizes: Float64s, errors: Float64s) -> _RiskCurve:
        kept = sizes > 0
        return cls._of_ties(sizes[kept], errors[kept])

    @classmethod
    def _of_ties(cls, sizes: Any, errors: Any) -> _RiskCurve:
        ends, sums = (np.concatenate([[0.0], np.cumsum(x, dtype=np.float64)]) for x in (sizes, errors))
        return cls(ends, sums)

    @property
    def n(self) -> int:
        return int(self.ends[-1])

    def risks(self, ranks: Any) -> Float64s:
        """Return the expected error rate of the k most confident rows, for each k from 1 to n.

        It is a quotient of whole numbers and so rounded correctly: a risk of 1 / 20 does not exceed 0.05.
        """
        place = np.searchsorted(self.ends, ranks) - 1  # the tie that contains the k-th row
        sizes, wrong = np.diff(self.ends)[place], np.diff(self.errors)[place]
        expected = self.errors[place] * sizes + (ranks - self.ends[place]) * wrong  # times the size of the tie
        return np.asarray(expected / (sizes * ranks))

    @property
    def area(self) -> float:
        """The mean of the curve by the trapezoidal rule; NaN for fewer than two rows."""
        if self.n < 2:
            return math.nan
        starts, sizes = self.ends[:-1], np.diff(self.ends)
        rates = np.diff(self.errors) / sizes
        # In a tie with the error rate q, after k0 rows with e0 errors, the risk is r_k = q + (e0 - q k0) / k.
        sums = rates * sizes + (self.errors[:-1] - rates * starts) * reciprocals(starts, sizes)[0]
        outer = self.risks(np.array([1.0, self.n]))
        return float((sums.sum() - outer.sum() / 2) / (self.n - 1))

    @property
    def generalized_area(self) -> float:
        """The mean of the curve of k r_k / n by the trapezoidal rule; NaN for fewer than two rows."""
        if self.n < 2:
            return math.nan
        sizes, wrong = np.diff(self.ends), np.diff(self.errors)
        sums = sizes * self.errors[:-1] + wrong * (sizes + 1) / 2  # expected errors grow linearly within a tie
        outer = float(self.risks(np.array([1.0]))[0]) + self.errors[-1]
        return float((sums.sum() - outer / 2) / (self.n - 1) / self.n)

    def coverage_at(self, risk: float) -> float:
        """Return the largest coverage whose risk is at most this; NaN without such a coverage."""
        first, last = self.risks(self.ends[:-1] + 1), self.errors[1:] / self.ends[1:]
        admissible = np.flatnonzero(np.minimum(first, last) <= risk)  # within a tie the risk rises or falls
        if not len(admissible):
            return math.nan
        tie = admissible[-1]
        low, high = int(self.ends[tie]) + 1, int(self.ends[tie + 1])
        if last[tie] <= risk:
            return high / self.n
        while high - low > 1:  # the risk rises: it is at most `risk` at low, and above at high
            middle = (low + high) // 2
            low, high = (middle, high) if float(self.risks(middle)) <= risk else (low, middle)
        return low / self.n

    def risk_at(self, coverage: float) -> float:
        """Return the risk of the smallest number of rows with at least this coverage; NaN for none."""
        rank = math.ceil(self.n * coverage)
        return float(self.risks(rank)) if rank else math.nan
