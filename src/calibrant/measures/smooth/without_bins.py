"""Errors without bins that no report shows: kernel errors, the Lipschitz and the truthful calibration error."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError, check_choice, check_integer
from calibrant.inputs.notions import checked_on_device, class_rows
from calibrant.inputs.predictions import Notion, Predictions
from calibrant.inputs.weights import integer_weights
from calibrant.kernels.compiling import kernels_for
from calibrant.kernels.row_blocks import in_order
from calibrant.measures.read_arguments import class_predictions, event_table, is_number
from calibrant.runtime.arrays import ArrayLike, Float64s
from calibrant.runtime.dataclass import dataclass
from calibrant.sketch import Arguments, Predicted
from calibrant.table import ReliabilityTable

Kernel = Literal["laplace", "gaussian"]

_WIDTHS: Final = (0.001, 1000.0)
_REACH: Final = 8.6  # Gaussians this many standard deviations from their centre are below 1e-16
_ENTRIES: Final = 1 << 20  # of the cosines and sines that are computed together


def kernel_calibration_error(
    probs: Predicted,
    targets: ArrayLike | None = None,
    *,
    kernel: Kernel = "laplace",
    width: float = 0.4,
    unbiased: bool = True,
    notion: Notion | None = None,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the squared kernel calibration error of one event, over all pairs of rows.

    .. math:: \frac1{N (N - 1)} \sum_{i \ne j} r_i r_j\, k(p_i, p_j), \qquad r_i = y_i - p_i

    It is the U-statistic, an unbiased estimate of :math:`\mathbb E\, r r' k(p, p')` over two independent rows. That is
    0 if, and only if, the scores are calibrated. ``unbiased=False`` is the mean over all N^2 pairs, a row with itself
    included: the square of the maximum mean calibration error (MMCE). It is in [-1, 1], or [0, 1] with the bias; lower
    is better. Its unit is that of a squared probability.

    It misleads where the width is taken for granted: errors that change sign over a shorter distance are hardly seen,
    and values of different widths do not compare.

    Parameters
    ----------
    probs, targets, notion, weights, ignore_index, logits
        As in `expected_calibration_error`, for one evaluated event; ``probs`` may be a `ReliabilityTable` or a
        `CalibrationSketch`.
    kernel : {"laplace", "gaussian"}, default "laplace"
        :math:`\exp(-|p - p'| / \nu)` or :math:`\exp(-(p - p')^2 / (2 \nu^2))`, with :math:`\nu` the width.
    width : float, default 0.4
        From 0.001 to 1,000, in units of probability.
    unbiased : bool, default True
        Whether pairs of a row with itself are left out. Then two rows are needed, and the value may be below 0 by
        chance, though the true value cannot be.

    Returns
    -------
    float
        Ties are pooled, so the order of the rows plays no part. A row of weight 2 is two rows; weights that are not
        whole count squared in the pairs of a row with itself. With a sketch, every row counts with the mean score of
        its grid cell.

    Raises
    ------
    calibrant.errors.InputError
        As `expected_calibration_error`; also for an unknown kernel, a width outside its range, ``unbiased`` with one
        row, and a classwise or multilabel notion.

    Notes
    -----
    Cost: one read and one sort of N integers. Then O(N) for the Laplace kernel, in one pass; O(N / width) for the
    Gaussian one, whose Fourier series gives the sum over pairs to 1e-16: 3 seconds for 2 million scores at width 0.1.

    `squared_kernel_calibration_error` evaluates all classes together. For one event given as two classes its kernel
    sums both: its value is twice this one.

    References
    ----------
    Widmann, Lindsten, Zachariah (2019), arXiv 1910.11385. Kumar, Sarawagi, Jain (2018), ICML, PMLR 80, 2805-2814.

    Examples
    --------
    >>> import calibrant
    >>> round(calibrant.kernel_calibration_error([0.2, 0.6], [0, 1]), 6)  # -0.2 x 0.4 x exp(-0.4 / 0.4)
    -0.02943
    """
    check_choice("kernel", kernel, KERNELS)
    if not is_number(width) or not _WIDTHS[0] <= width <= _WIDTHS[1]:
        raise InputError("width", "a number from 0.001 to 1,000", repr(width), "pass a number such as 0.4")
    if not isinstance(unbiased, (bool, np.bool_)):
        raise InputError(
            "unbiased", "True or False", repr(unbiased), "pass False to include the pairs of each row with itself"
        )
    arguments = Arguments(probs, targets, notion, weights, ignore_index, logits)
    table = event_table(arguments, "the kernel calibration error")
    if unbiased and len(table) == 1 and table.total == 1:
        remedy = "pass more rows, or unbiased=False"
        raise InputError("probs", "two rows or more", "one row", remedy)
    return kernel_square(table, kernel, float(width), unbiased=bool(unbiased))


def kernel_square(table: ReliabilityTable, kernel: Kernel, width: float, *, unbiased: bool) -> float:
    """Return the mean of r_i r_j k(p_i, p_j) over pairs of rows: over all, or over those of two different rows.

    Different rows are the U-statistic. If weights are not integers, the products of a row with itself have squared
    weights.
    """
    scores, residuals = table.scores.astype(np.float64), table.residuals
    pairs = _SUMS[kernel](scores, residuals, width)
    if not unbiased:
        return pairs / table.total**2
    with_itself, squares = float(table.own_products.sum()), float(table.own_weights.sum())
    return (pairs - with_itself) / (table.total**2 - squares)


def _laplace_sum(scores: Float64s, residuals: Float64s, width: float) -> float:
    """Return the sum over pairs i, j of R_i R_j exp(-|p_i - p_j| / width), for increasing scores.

    Scores are cut into segments of one width, so that exponentials stay between 1 / e and e. Within a segment the
    pairs are prefix sums. Between segments one number is carried on: the sum of R exp(-distance) at its start.
    """
    places = scores / width
    segments = np.floor(places)
    grown = residuals * np.exp(places - segments)
    fallen = residuals * np.exp(segments - places)
    first = np.flatnonzero(np.diff(segments, prepend=-1.0))
    before = np.cumsum(grown) - grown  # of all earlier scores; those of earlier segments are taken off again
    within = np.add.reduceat(fallen * before, first) - before[first] * np.add.reduceat(fallen, first)
    carried = total = 0.0
    steps = zip(
        np.exp(-np.diff(segments[first], append=np.inf)).tolist(),
        np.add.reduceat(grown, first).tolist(),
        np.add.reduceat(fallen, first).tolist(),
        strict=True,
    )
    for decay, rise, fall in steps:
        total += carried * fall
        carried = decay * (carried + rise)
    return float(residuals @ residuals) + 2 * (total + float(within.sum()))


def _gaussian_sum(scores: Float64s, residuals: Float64s, width: float) -> float:
    """Return the sum over pairs i, j of R_i R_j exp(-(p_i - p_j)^2 / (2 width^2)).

    A Gaussian repeated with period 2 L is a sum of cosines, and the sum over pairs of R_i R_j cos(w (p_i - p_j)) is
    |sum R exp(i w p)|^2. L is so large that no repetition is seen at distances up to 1, to 1e-16.
    """
    half = (1 + _REACH * width) / 2
    frequencies = np.arange(math.ceil(_REACH * half / (math.pi * width)) + 1) * (math.pi / half)
    heights = width * math.sqrt(2 * math.pi) / half * np.exp(-((frequencies * width) ** 2) / 2)
    heights[0] /= 2
    sums = np.zeros(len(frequencies), np.complex128)
    step = max(1, _ENTRIES // len(frequencies))
    for start in range(0, len(scores), step):
        angles = np.multiply.outer(frequencies, scores[start : start + step])
        part = residuals[start : start + step]
        sums += np.cos(angles) @ part + 1j * (np.sin(angles) @ part)
    return float(heights @ (sums.real**2 + sums.imag**2))


_SUMS: Final[dict[Kernel, Callable[[Float64s, Float64s, float], float]]] = {
    "laplace": _laplace_sum,
    "gaussian": _gaussian_sum,
}

KERNELS: Final = tuple(_SUMS)


def lipschitz_calibration_error(
    probs: Predicted,
    targets: ArrayLike | None = None,
    *,
    notion: Notion | None = None,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the Lipschitz calibration error (smCE): the largest mean of h(p) (y - p) over 1-Lipschitz functions h.

    .. math:: \mathrm{smCE} = \max_h \frac1N \sum_i h(p_i)\,(y_i - p_i), \qquad
              |h(p) - h(q)| \le |p - q|,\quad |h| \le 1

    It is in [0, 1], in units of probability; lower is better. It has no bins, changes continuously with the
    predictions, and is within a factor of 2 of the lower distance to calibration, the least mean change of the scores
    that makes them calibrated: half that distance <= smCE <= twice that distance. It is never above the ECE over
    distinct scores. It is not the smooth calibration error smECE of `smooth_calibration_error`, which smooths by a
    kernel instead.

    It misleads as a mean difference: gaps of both signs next to each other cancel, so it is below the ECE, often by
    much.

    It is the exact maximum. Ties are pooled, so the order of the rows plays no part; a row of weight 2 is two rows.
    Scores of 0 and 1 are scores like all others. With a sketch, every row counts with the mean score of its grid cell.
    Parameters and errors are those of `expected_calibration_error`, for one evaluated event. Cost: one read and one
    sort of N integers, then one pass of a dynamic programme, with a few steps for each distinct score. Weights of very
    different size can need more.

    References
    ----------
    Błasiok, Gopalan, Hu, Nakkiran (2023), arXiv 2211.16886. Hu, Jambulapati, Tian, Yang (2024), arXiv 2402.13187.

    Examples
    --------
    >>> import calibrant
    >>> probs = [0, 0.05, 0.1, 0.2, 0.2, 0.35, 0.5, 0.75, 0.9, 1]
    >>> round(calibrant.lipschitz_calibration_error(probs, [0, 0, 1, 0, 1, 0, 1, 1, 1, 0]), 12)
    0.14475
    """
    arguments = Arguments(probs, targets, notion, weights, ignore_index, logits)
    return lipschitz_error(event_table(arguments, "the Lipschitz calibration error"))


#: Steps of the loop that a row takes, up to some millions of rows: they decide when compiled code is worth loading.
_STEPS: Final = 64


def lipschitz_error(table: ReliabilityTable) -> float:
    """Return the largest mean of h(p) (y - p) over functions h with slopes and values in [-1, 1]: smCE, exactly."""
    kernels = kernels_for("tables", _STEPS * len(table))
    return float(kernels.lipschitz_sum(table.scores, table.residuals)) / table.total


def truthful_calibration_error(
    probs: Predicted,
    targets: ArrayLike | None = None,
    *,
    notion: Notion | None = None,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> float:
    r"""Return the truthful calibration error: the averaged two-bin calibration error (ATB).

    .. math:: \mathrm{ATB} = \frac1{N^2} \int_0^1 \Bigl(\sum_{p_i < q} r_i\Bigr)^2 +
              \Bigl(\sum_{p_i \ge q} r_i\Bigr)^2 \, dq
              = \frac1{N^2} \sum_{i, j} r_i r_j\, (1 - |p_i - p_j|), \qquad r_i = y_i - p_i

    The scores are cut into two bins at q, and the squared l2 error of the two is averaged over all q. Its expectation
    is least for a forecaster who gives the true probabilities, whatever these are: an error over fixed bins can be
    made smaller by false ones. It is in [0, 1], in units of a squared probability; lower is better.

    It misleads as a measure of size: under calibration its mean is not 0, but the sum of p (1 - p) over all rows,
    divided by N^2. Errors that change sign within a short range of scores are hardly seen, as by Kuiper's error.

    Ties are pooled, so the order of the rows plays no part; a row of weight 2 is two rows. Scores of 0 and 1 are scores
    like all others. With a sketch, every row counts with the mean score of its grid cell. Parameters and errors are
    those of `expected_calibration_error`, for one evaluated event. Cost: one read and one sort of N integers, then
    O(N).

    References
    ----------
    Hartline, Hu, Wu (2026), COLT, PMLR 336, 3185-3223, arXiv 2508.13100.

    Examples
    --------
    >>> import calibrant
    >>> calibrant.truthful_calibration_error([0.5, 0.5, 0.5], [1, 1, 1])
    0.25
    """
    arguments = Arguments(probs, targets, notion, weights, ignore_index, logits)
    return truthful_square(event_table(arguments, "the truthful calibration error"))


def truthful_square(table: ReliabilityTable) -> float:
    """Return the integral over q of (sum of r below q)^2 + (sum of r from q)^2, over N^2, with r = outcome - score."""
    scores, residuals = table.scores.astype(np.float64), table.residuals
    below = np.concatenate([[0.0], np.cumsum(residuals)])
    squares = below**2 + (below[-1] - below) ** 2
    return float(np.diff(scores, prepend=0.0, append=1.0) @ squares) / table.total**2


_TOGETHER: Final = 1 << 16  # of the rows that are read at a time

_ONE_BLOCK: Final = "no standard error: there is one block of rows; pass more rows or smaller blocks"
_ALL_EQUAL: Final = "no p-value: all blocks of rows have the same value"
_METHOD: Final = "Student's t distribution of the mean over blocks of rows, one-sided"


@dataclass(frozen=True, kw_only=True)
class SquaredKernelError:
    """An unbiased estimate of the squared kernel calibration error of classes.

    Attributes
    ----------
    value : float
        The mean over blocks; below 0 by chance, though the true value cannot be negative.
    standard_error : float
        Its standard error; NaN with one block.
    p_value : float
        The probability of a value at least this large under perfect calibration; if it is NaN, ``method`` gives the
        reason.
    n_blocks : int
        The number of blocks.
    method : str
        Where the p-value comes from, or why it is missing.
    n : int
        The number of rows, each as often as its weight.
    """

    value: float
    standard_error: float
    p_value: float
    n_blocks: int
    method: str
    n: int

    def __float__(self) -> float:
        return self.value


def squared_kernel_calibration_error(
    probs: ArrayLike,
    targets: ArrayLike | None = None,
    *,
    width: float = 0.4,
    block: int = 50,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    logits: bool = False,
) -> SquaredKernelError:
    r"""Return the squared kernel calibration error (SKCE) of all classes together, with a test of calibration.

    .. math:: \mathrm{SKCE} = \mathbb E\, k(p, p')\,\langle e_y - p,\, e_{y'} - p' \rangle, \qquad
              k(p, p') = \exp\Bigl(-\frac{1}{2 \nu} \sum_k |p_k - p'_k|\Bigr)

    over independent pairs of rows, :math:`e_y` being 1 at the true class y and 0 elsewhere, and :math:`\nu` the width.
    It is 0 if, and only if, all class probabilities are right together: rows with equal probabilities p have classes
    with these probabilities. It is at most 2; lower is better. Its unit is that of a squared probability.

    The rows are cut into blocks of at least ``block`` rows, in their order. The value is the mean over blocks of the
    mean over pairs within each. **So it depends on the order of the rows**, and reports do not show it. The order must
    have nothing to do with the outcomes: shuffle rows that are sorted by class.

    Parameters
    ----------
    probs, targets, ignore_index, logits
        As in `expected_calibration_error`. A table or a sketch is not accepted, because pairs need the rows. Scores of
        one event, (N,), count as two classes, and the value is twice that of the event alone.
    width : float, default 0.4
        The distance of probabilities, in total variation, over which the kernel falls to 1 / e.
    block : int, default 50
        The least number of rows in a block. The blocks differ by one row at most and use every row; with fewer rows
        than two blocks there is one.
    weights : array, (N,), optional
        Whole numbers: a row of weight 2 is two rows, one after the other.

    Returns
    -------
    SquaredKernelError
        The value, its standard error over blocks and a one-sided p-value. The value is unbiased, so it may be below 0.

    Raises
    ------
    calibrant.errors.InputError
        As `expected_calibration_error`; also for a table or a sketch, fewer than two rows, weights that are not whole
        numbers, a width that is not a positive number and a block of fewer than two rows.

    Notes
    -----
    Under calibration the mean of a block is 0 whatever its rows, so the p-value is Student's, from the mean over blocks
    and its standard error. With 2 to 40 blocks, 1 to 5 % of calibrated samples had p < 0.05. The width is a
    choice: errors that change sign over a shorter distance are seen less.

    Cost: one read, and block x N x C operations.

    References
    ----------
    Widmann, Lindsten, Zachariah (2019), arXiv 1910.11385.

    Examples
    --------
    >>> import calibrant
    >>> result = calibrant.squared_kernel_calibration_error([[1, 0], [0, 1]], [1, 0], width=1)
    >>> round(result.value, 6)  # -2 / e
    -0.735759
    """
    if not is_number(width) or not 0 < width < math.inf:
        raise InputError("width", "a positive number", repr(width), "pass a number such as 0.4")
    check_integer("block", block, "pass a number of rows such as 50", least=2)
    arguments = Arguments(probs, targets, None, weights, ignore_index, logits)
    predictions = class_predictions(arguments, "the squared kernel calibration error")
    rows = _rows(predictions)
    if len(rows) < 2:
        raise InputError("probs", "two rows or more", "one row", "pass more rows")
    values = _block_values(predictions, rows, float(width), int(block))
    return _inferred(values, len(rows))


def _rows(predictions: Predictions) -> NDArray[np.intp]:
    """Return the evaluated rows in their order, each as often as its weight."""
    rows, weights = np.flatnonzero(predictions.evaluated), predictions.weights
    if weights is None:
        return rows
    if not integer_weights(weights):
        remedy = "leave weights out, or pass the number of times that each row counts"
        raise InputError(
            "weights", "whole numbers, because each row is repeated as often as its weight", "fractions", remedy
        )
    return np.repeat(rows, weights[rows].astype(np.int64))


def _block_values(predictions: Predictions, rows: NDArray[np.intp], width: float, block: int) -> NDArray[np.float64]:
    """Return the mean over pairs of rows of each block: blocks of at least so many rows, in their order."""
    n_blocks = max(1, len(rows) // block)
    bounds = np.arange(n_blocks + 1) * len(rows) // n_blocks
    if predictions.rows.on_device:
        return checked_on_device(predictions).pair_means(bounds, rows, width)
    together = max(1, _TOGETHER // (block * predictions.n_classes))

    def work(part: int) -> NDArray[np.float64]:
        ends = bounds[part * together : (part + 1) * together + 1]
        start, stop = int(rows[ends[0]]), int(rows[ends[-1] - 1]) + 1
        probs, classes, _ = class_rows(predictions, start, stop)
        places = (np.cumsum(predictions.evaluated[start:stop]) - 1)[rows[ends[0] : ends[-1]] - start]
        cuts = ends - ends[0]
        taken = [places[a:b] for a, b in pairwise(cuts)]
        return np.array([pair_terms(probs[at], classes[at], width).mean() for at in taken])

    return np.concatenate(list(in_order(work, -(-n_blocks // together))))


def pair_terms(probs: NDArray[np.float64], classes: NDArray[np.int64], width: float) -> NDArray[np.float64]:
    """Return k(p_i, p_j) <e_i - p_i, e_j - p_j> of all pairs i < j of rows, (n (n - 1) / 2,).

    e_i is 1 at the true class of row i and 0 elsewhere. k is exp(-d / width), d the total variation distance, half the
    sum of absolute differences.
    """
    from scipy.spatial.distance import pdist

    residuals = -probs
    residuals[np.arange(len(probs)), classes] += 1
    products = residuals @ residuals.T
    kernel = np.exp(pdist(probs, "cityblock") * (-0.5 / width))
    return np.asarray(kernel * products.ravel()[_pairs(len(probs))])


@lru_cache(maxsize=2)  # blocks have two sizes
def _pairs(n: int) -> NDArray[np.intp]:
    """Return the places of the pairs i < j in a matrix (n, n), row by row."""
    first, second = np.triu_indices(n, 1)
    return first * n + second


def _inferred(values: NDArray[np.float64], n: int) -> SquaredKernelError:
    """Return the mean over blocks with its standard error and its p-value."""
    from scipy.special import stdtr

    m, mean = len(values), float(values.mean())
    error = float(values.std(ddof=1)) / math.sqrt(m) if m > 1 else math.nan
    p_value = float(stdtr(m - 1, -mean / error)) if error > 0 else math.nan
    method = _METHOD if error > 0 else _ONE_BLOCK if m == 1 else _ALL_EQUAL
    return SquaredKernelError(value=mean, standard_error=error, p_value=p_value, n_blocks=m, method=method, n=n)
