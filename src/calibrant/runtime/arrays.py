"""The types of arrays that many modules name."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.floating[Any]]
Float64s: TypeAlias = NDArray[np.float64]
Int64s: TypeAlias = NDArray[np.int64]
UInt8s: TypeAlias = NDArray[np.uint8]
UInt16s: TypeAlias = NDArray[np.uint16]
UInt64s: TypeAlias = NDArray[np.uint64]
Keys: TypeAlias = NDArray[np.unsignedinteger[Any]]  # packed events: bits << 1 | outcome
