"""Every measure of one judged event, each with its interval, its noise floor and its p-value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.estimators import binned, cumulative, isotonic, smooth
from calibrant.estimators.certified import Certified
from calibrant.results import CalibrationCurve, Estimate, ReliabilityDiagram, ScoreDecomposition, whole_number
from calibrant.sampling import corp, curves, means, null, null_closed_form
from calibrant.sampling import cumulative as sums
from calibrant.sampling import smooth as smooth_inference
from calibrant.sampling.binned import (
    LEAST_ROWS,
    BinMoments,
    BinStatistics,
    absolute_interval,
    clopper_pearson,
    enough_rows,
    maximum_interval,
    square_interval,
)
from calibrant.sampling.cells import Cells
from calibrant.sampling.resampling import Resampling
from calibrant.table import ReliabilityTable

Float64s = NDArray[np.float64]

NEEDS_RESAMPLING: Final = "no interval: it needs resampling (n_resamples)"
NO_BIN: Final = f"not available: no bin holds {LEAST_ROWS} rows"


@dataclass(frozen=True, eq=False)
class Event:
    """One judged event: the values of its measures."""

    table: ReliabilityTable
    n_bins: int

    @cached_property
    def bins(self) -> binned.Bins:
        return binned.bin_table(self.table, self.n_bins)

    @cached_property
    def smece(self) -> smooth.SmoothError:
        if self.certified is not None:
            return self.certified.smooth_error()
        return smooth.smooth_error(self.table.scores, self.table.residuals, self.table.total)

    @cached_property
    def certified(self) -> Certified | None:
        """The certified errors of a table on a grid."""
        return Certified.of(self.table)

    @cached_property
    def decomposition(self) -> ScoreDecomposition:
        return isotonic.corp(self.table, "brier")

    @cached_property
    def rows(self) -> Float64s:
        """The number of rows of each bin, with weights that are not whole that of as many equal ones."""
        rows, squares = self.bins.counts, self.table.square_weights
        if squares is not None:
            own = np.bincount(binned.uniform_bin_of(self.table, self.n_bins), squares.sum(axis=0), self.n_bins)
            rows = np.divide(rows**2, own, out=np.zeros_like(rows), where=own > 0)
        return rows

    @property
    def held(self) -> NDArray[np.intp]:
        """The uniform bins with rows enough for the maximum."""
        return np.flatnonzero(enough_rows(self.rows))

    @cached_property
    def values(self) -> dict[str, float]:
        """Each measure's value."""
        table, parts = self.table, self.decomposition
        said, gaps = table.sums.scores / table.total, np.abs(self.bins.gaps[self.held])
        return {
            "mean_confidence": said,
            "mean_gap": said - table.sums.positives / table.total,
            "ece": binned.calibration_error(self.bins, "l1"),
            "rmsce": binned.calibration_error(self.bins, "l2"),
            "debiased_square": binned.debiased_square_error(self.bins),
            "mce": float(gaps.max()) if len(gaps) else math.nan,
            "ace": binned.calibration_error(binned.quantile_bins(table, self.n_bins), "l1"),
            "smece": self.smece.value,
            "ks": cumulative.ks_error(table),
            "miscalibration": parts.miscalibration,
            "discrimination": parts.discrimination,
            "uncertainty": parts.uncertainty,
        }

    @cached_property
    def bounds(self) -> dict[str, float]:
        """The certified error of each measure that is not exact."""
        found = {"smece": self.smece.error_bound}
        if self.certified is None:
            return found
        known, n_bins, values = self.certified, self.n_bins, self.values
        recalibrated = known.recalibrated()
        return found | {
            "ece": known.ece(n_bins),
            "rmsce": known.rmsce(n_bins, values["rmsce"]),
            "debiased_square": known.debiased_square(n_bins, values["debiased_square"]),
            "mce": known.mce(n_bins, values["mce"]),
            "ace": known.ace(n_bins),
            "ks": known.ks(),
            "miscalibration": recalibrated,
            "discrimination": recalibrated,
        }

    def bounded(self, estimates: Mapping[str, Estimate]) -> dict[str, Estimate]:
        """Return the estimates with their certified errors."""
        return {
            name: replace(estimate, error_bound=self.bounds[name]) if self.bounds.get(name) else estimate
            for name, estimate in estimates.items()
        }

    @cached_property
    def details(self) -> dict[str, dict[str, Any]]:
        """What belongs to some of the measures."""
        bins, total = self.bins, self.table.total
        gaps, square = bins.score_sums - bins.positives, self.values["debiased_square"]
        worst: dict[str, Any] = {"least_rows": LEAST_ROWS, "of_all_bins": float(np.nanmax(np.abs(bins.gaps)))}
        if len(self.held):
            b = int(self.held[np.argmax(np.abs(bins.gaps[self.held]))])
            worst |= {
                "bin": b,
                "left": float(bins.edges[b]),
                "right": float(bins.edges[b + 1]),
                "count": whole_number(float(bins.counts[b])),
                "gap": float(bins.gaps[b]),
            }
        else:
            worst["reason"] = NO_BIN
        return {
            "ece": {
                "over_stated": float(gaps[gaps > 0].sum() / total),
                "under_stated": float(-gaps[gaps < 0].sum() / total),
            },
            "rmsce": {"debiased": math.sqrt(max(square, 0.0)), "debiased_square": square},
            "mce": worst,
            "miscalibration": {"brier_of_event": self.decomposition.score},
        }

    def plain_estimates(self) -> dict[str, Estimate]:
        """Return the values without intervals."""
        n = self.table.n
        found = {
            name: Estimate(value, method=means.NOT_ASKED, n=n, details=self.details.get(name, {}))
            for name, value in self.values.items()
        }
        return self.bounded(found if len(self.held) else {**found, "mce": replace(found["mce"], method=NO_BIN)})

    def diagram(self) -> ReliabilityDiagram:
        """Return the uniform bins."""
        return binned.diagram(self.bins, weighted=self.table.counts.dtype.kind == "f")


@dataclass(frozen=True, eq=False)
class EventInference:
    """What is inferred of one judged event: intervals, floors, p-values, bands."""

    event: Event
    cells: Cells
    resampling: Resampling
    draws: null.Draws | None = None

    def at(self, level: float) -> EventInference:
        """Return the same at another level, without drawing again."""
        draws = self._draws if self.resampling.n_resamples else None
        return replace(self, resampling=replace(self.resampling, level=level), draws=draws)

    @cached_property
    def _draws(self) -> null.Draws:
        return self.draws or null.draw(self._data, self.resampling)

    @cached_property
    def _data(self) -> null.Observed:
        cells, n_bins = self.cells, self.event.n_bins
        return null.Observed(
            cells,
            BinStatistics(BinMoments.of(cells, binned.uniform_bin_of(cells.table, n_bins))),
            BinStatistics(BinMoments.of(cells, binned.quantile_bin_of(cells.table, n_bins))),
            self.event.smece.value,
            curves.shown_cells(cells),
        )

    @cached_property
    def _null(self) -> null.Null:
        if self.resampling.n_resamples:
            return null.resampled(self._data, self._draws, self.resampling)
        return null.closed_form(self._data, self.resampling)

    def _rejected(self, name: str) -> bool:
        return bool(self._null.p_values.get(name, 1.0) <= self.resampling.tail)

    def _estimate(self, name: str, ends: tuple[float, float], how: str) -> Estimate:
        """Build an estimate; a calibration error's floor and p-value are those of the null law."""
        floor, p_value = self._null.floors.get(name), self._null.p_values.get(name, math.nan)
        source = "" if floor is None else f"; floor: {self.resampling.source}"
        level = math.nan if math.isnan(ends[1]) else self.resampling.level
        details = self.event.details.get(name, {})
        value = self.event.values[name]
        ends = ends[0], min(ends[1], max(value, 1.0)) if ends[1] > 1 else ends[1]  # no error is above 1
        return Estimate(value, *ends, level, floor, p_value, how + source, self.event.table.n, details)

    def estimates(self) -> dict[str, Estimate]:
        """Return every measure that is a function of the event's table."""
        return self.event.bounded(
            {
                **self._means(),
                **self._binned(),
                "mce": self._maximum(),
                "smece": self._smooth(),
                "ks": self._cumulative(),
                **self._corp(),
            }
        )

    def _means(self) -> dict[str, Estimate]:
        cells, z, level, n = self.cells, self.resampling.z, self.resampling.level, self.event.table.n
        said, gap = self.event.values["mean_confidence"], self.event.values["mean_gap"]
        square = float(np.sum(cells.counts * cells.scores**2)) / cells.total
        low, high = means.normal_interval(said, square, cells.effective_n, z)
        floor, p_value = null_closed_form.mean_gap_law(cells, gap, level)
        half = z * means.gap_error(cells)
        how = f"{means.NORMAL}; floor: closed form, of its size"
        return {
            "mean_confidence": Estimate(said, max(low, 0.0), min(high, 1.0), level, method=means.NORMAL, n=n),
            "mean_gap": Estimate(gap, max(gap - half, -1.0), min(gap + half, 1.0), level, floor, p_value, how, n),
        }

    def _binned(self) -> dict[str, Estimate]:
        data, z, values = self._data, self.resampling.z, self.event.values
        low, high = square_interval(data.uniform.bins, values["debiased_square"], z, rejected=self._rejected("rmsce"))
        roots = math.sqrt(max(low, 0.0)), max(math.sqrt(max(high, 0.0)), values["rmsce"])
        inverted = "normal below, score-inverted above"
        found = {
            "rmsce": self._estimate("rmsce", roots, f"roots of the square's ends: {inverted}"),
            "debiased_square": self._estimate("debiased_square", (low, high), inverted),
        }
        for name, bins in (("ece", data.uniform.bins), ("ace", data.quantile.bins)):
            ends = absolute_interval(bins, values[name], z, rejected=self._rejected(name))
            found[name] = self._estimate(name, ends, "Gaussian thinning")
        if self.resampling.n_resamples:
            _, chance = null_closed_form.absolute_law(data.uniform.bins, values["ece"], self.resampling.level)
            limits = {"closed_form_p_value": chance, "least_p_value": 1 / (self.resampling.n_resamples + 1)}
            found["ece"] = with_details(found["ece"], limits)
        return found

    def _maximum(self) -> Estimate:
        if not len(self.event.held) or not self._data.uniform.held.any():
            n, details = self.event.table.n, self.event.details["mce"]
            return Estimate(math.nan, method=NO_BIN, n=n, details={**details, "reason": NO_BIN})
        value, level = self.event.values["mce"], self.resampling.level
        ends = maximum_interval(self._data.uniform.bins, value, level, rejected=self._rejected("mce"))
        return self._estimate("mce", ends, f"over bins with {LEAST_ROWS} rows; Clopper-Pearson")

    def _smooth(self) -> Estimate:
        value, rejected = self.event.values["smece"], self._rejected("smece")
        ends = smooth_inference.interval(self.cells, value, self.resampling.z, rejected=rejected)
        how = "inverted at each bandwidth"
        if not self.resampling.n_resamples:
            how += "; low end 0: a higher one, and the floor, need resampling"
        return self._estimate("smece", ends, how)

    def _cumulative(self) -> Estimate:
        ends = sums.interval(self.cells, self.event.values["ks"], self.resampling.level)
        return self._estimate("ks", ends, "Brownian bounds")

    def _corp(self) -> dict[str, Estimate]:
        cells, z, n, level = self.cells, self.resampling.z, self.event.table.n, self.resampling.level
        values = self.event.values
        fit, base = corp.in_sample(cells)
        counts, hits, fits, bases = corp.out_of_fold(cells, self.resampling.seed)
        own, rest = (cells.counts, cells.positives), (counts, hits)
        value, how, ends = values["miscalibration"], NEEDS_RESAMPLING, (math.nan, math.nan)
        if self._null.miscalibration_sd is not None:
            sides = corp.difference(cells, *own, cells.scores, fit), corp.difference(cells, *rest, cells.scores, fits)
            shown = self._rejected("miscalibration")
            low, high = corp.part_interval(*sides, self._null.miscalibration_sd, z, shown=shown)
            how, ends = corp.METHOD, (min(low, value), max(high, value))
        gains = corp.difference(cells, *own, base, fit), corp.difference(cells, *rest, bases, fits)
        told = corp.rank_p_value(cells) <= self.resampling.tail
        low, high = corp.part_interval(*gains, corp.null_discrimination_sd(cells), z, shown=told)
        gain = min(low, values["discrimination"]), max(high, values["discrimination"])
        doubt, of_rate = corp.uncertainty_interval(cells, self.resampling.tail), "Clopper-Pearson of the base rate"
        return {
            "miscalibration": self._estimate("miscalibration", ends, how),
            "discrimination": Estimate(values["discrimination"], *gain, level, method=corp.METHOD, n=n),
            "uncertainty": Estimate(values["uncertainty"], *doubt, level, method=of_rate, n=n),
        }

    def diagram(self) -> ReliabilityDiagram:
        """Return the uniform bins with Clopper-Pearson intervals of their rates, and the band of calibration."""
        plain, moments = self.event.diagram(), self._data.uniform.bins
        low, high, least, most = (np.full(len(plain.accuracies), math.nan) for _ in range(4))
        filled, rows = self.event.bins.counts > 0, self.event.rows
        hits = plain.accuracies[filled] * rows[filled]
        low[filled], high[filled] = clopper_pearson(hits, rows[filled], self.resampling.tail)
        least[moments.index], most[moments.index] = self._null.rates
        level = self.resampling.level
        return replace(plain, lows=low, highs=high, band_lows=least, band_highs=most, level=level)

    def curves(self) -> dict[str, CalibrationCurve]:
        """Return the isotonic and the smooth curve with their bands."""
        shown, resampling = self._data.shown, self.resampling
        return {
            "isotonic": curves.isotonic_curve(self.cells, shown, self._null.curve, resampling),
            "smooth": curves.smooth_curve(self.cells, shown, self.event.smece.value, resampling),
        }


def with_details(estimate: Estimate, more: Mapping[str, Any]) -> Estimate:
    """Return the estimate with more details."""
    return replace(estimate, details={**estimate.details, **more})
