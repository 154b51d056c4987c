"""What the measures of one event show under perfect calibration, at the data's scores and number of rows.

The outcomes of each cell are drawn from the binomial law that its score claims, and every measure is computed of each
replicate: the mean and a quantile are its noise floor, the share of replicates at least as large as the data's value is
its p-value, (1 + #{T* >= T}) / (B + 1) (Bröcker and Smith 2007; Vaicenavicius et al. 2019).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrant.results import Floor
from calibrant.sampling import corp, null_closed_form
from calibrant.sampling.binned import BinStatistics, consistency_band
from calibrant.sampling.cells import Cells
from calibrant.sampling.resampling import Resampling, Stream, draw_outcomes, in_blocks
from calibrant.sampling.smooth import NullSmooth

Float64s = NDArray[np.float64]

_TIE: Final = 1e-9  # relative: a replicate that equals the data but for rounding is at least as large


def p_value(replicates: Float64s, value: float) -> float:
    """Return (1 + #{T* >= T}) / (B + 1)."""
    return (1 + int(np.count_nonzero(replicates >= value - _TIE * abs(value)))) / (len(replicates) + 1)


def floor_of(replicates: Float64s, level: float) -> Floor:
    """Return the mean and the quantile of replicates."""
    return Floor(float(replicates.mean()), float(np.quantile(replicates, level, method="higher")))


@dataclass(frozen=True, eq=False, slots=True)
class Null:
    """What calibration shows: floors and p-values by the name of the measure.

    ``miscalibration_sd`` is the standard deviation of CORP's miscalibration; ``rates`` are the ends of the band of the
    bins' outcome rates, ``curve`` those of the isotonic curve at chosen cells. What only resampling gives is None.
    """

    floors: Mapping[str, Floor]
    p_values: Mapping[str, float]
    rates: tuple[Float64s, Float64s]
    miscalibration_sd: float | None = None
    curve: tuple[Float64s, Float64s] | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Observed:
    """The data as the replicates are made of it: its cells, bins of both kinds, smooth error, cells of the curve."""

    cells: Cells
    uniform: BinStatistics
    quantile: BinStatistics
    smece: float
    shown: NDArray[np.intp]

    def values(self) -> dict[str, float]:
        """Return the measures of the cells, which differ from the data's where bins cut through cells."""
        own, masses = self.uniform.bins.gaps, self.quantile.bins.gaps
        return {
            "ece": float(self.uniform.absolute(own)),
            "rmsce": float(self.uniform.root_square(own)),
            "ace": float(self.quantile.absolute(masses)),
            "ks": float(np.abs(np.cumsum(self.cells.gaps)).max() / self.cells.total),
        }


def closed_form(data: Observed, resampling: Resampling) -> Null:
    """Return what needs no resampling."""
    level, values, bins = resampling.level, data.values(), data.uniform.bins
    laws = {
        "ece": null_closed_form.absolute_law(bins, values["ece"], level),
        "ace": null_closed_form.absolute_law(data.quantile.bins, values["ace"], level),
        "ks": null_closed_form.cumulative_law(data.cells, values["ks"], level),
    }
    if data.uniform.held.any():
        laws["mce"] = null_closed_form.maximum_law(data.uniform, level)
    root, square, tail = null_closed_form.square_law(bins, values["rmsce"], level)
    laws |= {"rmsce": (root, tail), "debiased_square": (square, tail)}
    band = consistency_band(bins.score_sums / bins.counts, bins.rows, resampling.tail)
    floors, p_values = ({name: law[i] for name, law in laws.items()} for i in (0, 1))
    return Null(floors, p_values, band)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False, slots=True)
class Draws:
    """Every measure of each of B replicates under calibration: (B,), (B, bins) and (B, cells of the curve).

    ``smooth_threshold`` is what the replicates' S at the data's smooth error is compared with.
    """

    measures: Mapping[str, Float64s]
    smooth_threshold: float


def draw(data: Observed, resampling: Resampling) -> Draws:
    """Draw every measure of one event under calibration."""
    cells, uniform, quantile = data.cells, data.uniform, data.quantile
    law = NullSmooth.of(cells, data.smece)
    maximal = bool(uniform.held.any())

    def block(rng: np.random.Generator, size: int) -> dict[str, Float64s]:
        positives = draw_outcomes(cells, cells.scores, rng, size)
        gaps = cells.score_sums - positives
        own = uniform.gaps(gaps)
        roots, at_value = law(gaps)
        fits = corp.isotonic_fits(cells, positives)
        drawn = {
            "ece": uniform.absolute(own),
            "rmsce": uniform.root_square(own),
            "debiased_square": uniform.debiased_square(own, uniform.gaps(_squares(cells, positives))),
            "ace": quantile.absolute(quantile.gaps(gaps)),
            "ks": np.abs(np.cumsum(gaps, axis=-1)).max(axis=-1) / cells.total,
            "smece": roots,
            "smooth_at": at_value,
            "miscalibration": corp.miscalibrations(cells, positives, fits),
            "rates": uniform.gaps(positives) / uniform.bins.counts,
            "curve": fits[:, data.shown],
        }
        if maximal:
            drawn |= {"mce": uniform.maximum(own), "standard_maximum": uniform.standard_maximum(own)}
        return drawn

    blocks = list(in_blocks(resampling.n_resamples, resampling.seed, Stream.CALIBRATED, block))
    return Draws({name: np.concatenate([one[name] for one in blocks]) for name in blocks[0]}, law.threshold)


def resampled(data: Observed, draws: Draws, resampling: Resampling) -> Null:
    """Return what the replicates show."""
    cells, uniform, drawn = data.cells, data.uniform, draws.measures
    level, values = resampling.level, data.values()
    p_values = {name: p_value(drawn[name], value) for name, value in values.items()}
    p_values["debiased_square"] = p_values["rmsce"]
    p_values["smece"] = p_value(drawn["smooth_at"], draws.smooth_threshold)
    seen = corp.miscalibrations(cells, cells.positives[None], corp.isotonic_fits(cells, cells.positives[None]))
    p_values["miscalibration"] = p_value(drawn["miscalibration"], float(seen[0]))
    names = [*values, "debiased_square", "smece", "miscalibration"]
    if "mce" in drawn:
        names.append("mce")
        p_values["mce"] = p_value(drawn["standard_maximum"], float(uniform.standard_maximum(uniform.bins.gaps)))
    return Null(
        {name: floor_of(drawn[name], level) for name in names},
        p_values,
        resampling.band(drawn["rates"]),
        float(drawn["miscalibration"].std()),
        resampling.band(drawn["curve"]),
    )


def _squares(cells: Cells, positives: Float64s) -> Float64s:
    """Return the sums of (score - outcome)^2 of cells with other outcomes, in units of squared weight."""
    own = cells.table.square_scores
    scores = cells.counts * cells.scores**2 if own is None else own
    return np.asarray(cells.units * (scores + positives * (1 - 2 * cells.scores)))
