"""Draws of a table's cells, in blocks of bounded memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np

from calibrant.errors import InputError, check_integer
from calibrant.results import Bands
from calibrant.runtime.arrays import Float64s
from calibrant.runtime.dataclass import dataclass

Rng: TypeAlias = int | np.integer[Any] | np.random.Generator | np.random.SeedSequence


class Stream(IntEnum):
    """What is drawn: each has random numbers of its own, whatever else is drawn with the same seed."""

    CALIBRATED = 0  # outcomes, from the scores
    FOLDS = 1  # the split into folds
    REFITTED = 2  # outcomes, from the isotonic fit
    CLASSES = 3  # outcomes of the classes' bins
    BOOTSTRAP = 4  # predictions, with replacement
    DEALS = 5  # the folds that maps of scores are chosen and proven with
    CUTS = 6  # errors at cuts, for the rows that a threshold needs
    AUDITS = 7  # errors in slices, for the rows that keep a promise checkable
    RANKS = 8  # the errors of several models, for the critical value of all their differences


#: Simulated data sets drawn together, so many that all cells of a block are about a megabyte.
_FEWEST, _MANY, _ENTRIES = 32, 1024, 1 << 17
_MOST: Final = 10_000_000

#: Bytes allocated and freed, untouched, before blocks are drawn. glibc gives freed memory back to the system as soon as
#: it is more than twice the largest array freed so far. Each block would then ask for its memory again, page by page.
_KEPT: Final = 1 << 24

Result = TypeVar("Result")


def check_draws(n_resamples: object, least: int = 1) -> None:
    """Reject a number of resamples that is not an integer from ``least``, which is 0 if closed forms will do."""
    remedy = "pass 1000" + ("" if least else ", or 0 to use only closed forms, without resampling")
    check_integer("n_resamples", n_resamples, remedy, least=least, most=_MOST)


def check_level(level: object) -> None:
    """Reject a level outside [0.5, 1)."""
    number = isinstance(level, (float, np.floating)) and 0.5 <= level < 1
    if not number:
        remedy = "pass a share such as 0.95" + (", not percent" if isinstance(level, (int, float)) else "")
        raise InputError("level", "a number from 0.5 to below 1", repr(level), remedy)


def alpha_of(level: float) -> float:
    """Return 1 - level, as a decimal number: 1 - 0.9 is 0.1, and not 0.09999999999999998."""
    return round(1 - level, 12)


def normal_quantile(level: float) -> float:
    """Return the normal quantile of the ends of an interval."""
    from scipy.special import ndtri

    return float(ndtri(1 - alpha_of(level) / 2))


def t_quantile(level: float, df: float) -> float:
    """Return the quantile of Student's law for the ends of an interval; the normal one for infinite ``df``."""
    from scipy.special import stdtrit

    return normal_quantile(level) if math.isinf(df) else float(stdtrit(df, 1 - alpha_of(level) / 2))


def seed_of(rng: Rng) -> np.random.SeedSequence:
    """Return the seed of all draws; a Generator is asked for one, so that it moves on."""
    if isinstance(rng, np.random.SeedSequence):
        return rng
    if isinstance(rng, np.random.Generator):
        return np.random.SeedSequence([int(word) for word in rng.integers(1 << 32, size=4)])
    if isinstance(rng, (int, np.integer)) and not isinstance(rng, bool) and rng >= 0:
        return np.random.SeedSequence(int(rng))
    remedy = "pass a seed such as 0, or numpy.random.default_rng(0)"
    raise InputError("rng", "a non-negative integer or a numpy.random.Generator", repr(rng), remedy)


@dataclass(frozen=True)
class Resampling:
    """How intervals, noise floors and bands are made: the level, the number of data sets, the seed.

    ``bands`` says where the confidence band of the isotonic curve holds.
    """

    level: float
    n_resamples: int
    seed: np.random.SeedSequence
    bands: Bands = "pointwise"

    @classmethod
    def of(cls, level: float, n_resamples: int, rng: Rng, *, least: int = 0, bands: Bands = "pointwise") -> Resampling:
        """Return the checked settings, with ``least`` resamples or more."""
        check_draws(n_resamples, least)
        check_level(level)
        return cls(float(level), int(n_resamples), seed_of(rng), bands)

    @property
    def number(self) -> int | None:
        """The seed as one number; None if a generator gave it."""
        entropy = self.seed.entropy
        return entropy if isinstance(entropy, int) and not self.seed.spawn_key else None

    @property
    def tail(self) -> float:
        """The probability beyond each end of an interval."""
        return alpha_of(self.level) / 2

    def draws(
        self, stream: Stream, work: Callable[[np.random.Generator, int], Float64s], *, cells: int = _ENTRIES
    ) -> Float64s:
        """Return what ``work`` makes of all simulated data sets, (B, ...), in `blocks`."""
        return np.concatenate(list(self.blocks(stream, work, cells=cells)))

    def blocks(
        self, stream: Stream, work: Callable[[np.random.Generator, int], Result], *, cells: int = _ENTRIES
    ) -> Iterator[Result]:
        """Yield ``work(generator, size)`` of each block of simulated data sets in order.

        One thread computes them. Several would wait for the interpreter's lock: SciPy's isotonic regression holds it,
        as do NumPy's cumulative sums along rows and the start of every call.

        The number of ``cells`` of a simulated data set decides how many are drawn together.
        """
        together = min(max(_ENTRIES // max(cells, 1), _FEWEST), _MANY)
        np.empty(_KEPT, np.uint8)

        def block(i: int) -> Result:
            return work(generator(self.seed, stream, i), min(together, self.n_resamples - i * together))

        return map(block, range(-(-self.n_resamples // together)))

    def band(self, replicates: Float64s) -> tuple[Float64s, Float64s]:
        """Return the ends of the pointwise band that holds a share ``level`` of (B, M) simulated data sets."""
        low, high = np.quantile(replicates, [self.tail, 1 - self.tail], axis=0)
        return low, high

    @property
    def source(self) -> str:
        """Where floors and p-values come from, in words."""
        return f"{self.n_resamples:,} resamples" if self.n_resamples else "closed form"


def generator(seed: np.random.SeedSequence, stream: Stream, block: int = 0) -> np.random.Generator:
    """Return the generator of one block of one stream of draws."""
    key = (*seed.spawn_key, int(stream), block)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed.entropy, spawn_key=key)))
