"""The types of arrays that many modules name."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Float64s: TypeAlias = NDArray[np.float64]
