"""Whether the outcomes of a file are those that its scores predict: then they may be predicted labels."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import quoted

#: Calibrated predictions rarely have outcomes whose probability is smaller.
_CHANCE: Final = 0.05


@dataclass(frozen=True)
class Agreement:
    """How the outcomes of the rows so far follow from their probabilities.

    Parameters
    ----------
    holds : bool
        Whether one threshold separates the scores of outcomes 1 from those of 0, or of classes, whether that of the
        largest probability is the target in every row.
    of_0, of_1 : float
        The largest score of an outcome 0, the smallest of an outcome 1; unused for classes.
    log_chance : float
        The logarithm of the probability that calibrated predictions would have these outcomes.
    """

    holds: bool = True
    of_0: float = -math.inf
    of_1: float = math.inf
    log_chance: float = 0.0

    def with_rows(self, probs: NDArray[Any], targets: NDArray[Any], ignore_index: int | None) -> Agreement:
        """Return the agreement of these rows too. Rows that cannot be judged agree with nothing."""
        if not self.holds or targets.ndim != 1 or targets.dtype.kind not in "fiub" or probs.dtype.kind not in "fiub":
            return replace(self, holds=False)
        if ignore_index is not None:
            probs, targets = probs[targets != ignore_index], targets[targets != ignore_index]
        if not len(targets):
            return self
        probs = probs if probs.dtype.kind == "f" else probs.astype(np.float64)
        inside = np.all((probs >= 0) & (probs <= 1))
        if probs.ndim == 1:
            happened = targets == 1
            of_0 = max(self.of_0, float(np.max(probs, where=~happened, initial=-math.inf)))
            of_1 = min(self.of_1, float(np.min(probs, where=happened, initial=math.inf)))
            holds = inside and np.all(happened | (targets == 0)) and of_0 < of_1
            seen = np.where(happened, probs, 1.0 - probs)
        else:
            width = probs.shape[1]
            known = inside and np.all((targets >= 0) & (targets < width) & (targets == np.floor(targets)))
            if not known:
                return replace(self, holds=False)
            of_0, of_1 = self.of_0, self.of_1
            seen = np.take_along_axis(probs, targets.astype(np.intp)[:, None], axis=1)[:, 0]
            holds = np.all(seen == probs.max(axis=1))
        if not holds:
            return replace(self, holds=False)
        with np.errstate(divide="ignore"):
            chance = self.log_chance + float(np.log(seen, dtype=np.float64).sum())
        return Agreement(True, of_0, of_1, chance)

    def doubt(self, probs: str, target: str, *, one_event: bool) -> str | None:
        """Return, in words, that the outcomes look like predicted labels; None if they do not."""
        both = not one_event or (math.isfinite(self.of_0) and math.isfinite(self.of_1))
        if not self.holds or not both or self.log_chance > math.log(_CHANCE):
            return None
        rule = f"is the class of the largest probability in {probs}"
        if one_event:
            rule = f"is 1 where {quoted(probs)} is {self.of_1:.4g} or more, and 0 where it is less"
        option = "--outcome" if one_event else "--target"
        looks = "this looks like the predicted label"
        return f"{quoted(target)} {rule}, in every row: {looks}; if it is, name the truth with {option}"
