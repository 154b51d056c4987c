"""The types of arrays that many modules name, and the one way of a tensor to the host."""

from __future__ import annotations

import sys
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy import typing as npt
from numpy.typing import NDArray


class _DLPack(Protocol):
    """What shares its numbers by DLPack, on any device."""

    def __dlpack__(self) -> object: ...


#: Numbers or labels as people have them: lists, and arrays, columns and tensors of any library.
ArrayLike: TypeAlias = npt.ArrayLike | _DLPack

Floats: TypeAlias = NDArray[np.floating[Any]]
Float64s: TypeAlias = NDArray[np.float64]
Int64s: TypeAlias = NDArray[np.int64]
UInt8s: TypeAlias = NDArray[np.uint8]
UInt16s: TypeAlias = NDArray[np.uint16]
UInt64s: TypeAlias = NDArray[np.uint64]
Keys: TypeAlias = NDArray[np.unsignedinteger[Any]]  # packed events: bits << 1 | outcome


def to_host(tensor: Any) -> NDArray[Any]:
    """Return the numbers of a tensor of torch as an array on the host, bfloat16 as its bits, uint16."""
    values = tensor.detach().resolve_conj().cpu()
    torch = sys.modules["torch"]
    return np.asarray((values.view(torch.uint16) if values.dtype is torch.bfloat16 else values).numpy())
