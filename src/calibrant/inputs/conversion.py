"""Convert arrays of any library to NumPy: numbers, text or booleans, without a copy if the memory can be shared."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence, Set
from typing import Any, Final, TypeGuard

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError, MissingDependencyError, is_missing, mistakes
from calibrant.errors.faults import Facts, Fault, Mistake, Place, Suspicion
from calibrant.errors.wording import MISSING, refuse
from calibrant.runtime.arrays import to_host

#: What every row of the groups should have, and what to do about a row without it.
NAMES: Final = ("a name in every row", "name the row's group, such as 'unknown'")
#: The same of arguments that do not hold numbers.
_EXPECTED: Final = {"targets": ("a label in every row", ""), "groups": NAMES}

#: DLPack's numbers for CUDA and ROCm; torch calls both cuda.
_ON_CUDA: Final = (2, 10)


def import_pyarrow() -> Any:
    """Return PyArrow, which exchanges tables with other libraries."""
    try:
        import pyarrow as pa
    except ModuleNotFoundError as error:
        if not is_missing(error, "pyarrow"):
            raise
        raise MissingDependencyError("pyarrow", "to exchange Arrow tables", "report") from None
    return pa


def is_masked(x: Any) -> bool:
    """Return whether an array has masked entries; ``numpy.ma`` is not imported for this."""
    is_masked_array = getattr(sys.modules.get("numpy.ma"), "is_masked", None)
    return is_masked_array is not None and bool(is_masked_array(x))


def as_array(argument: str, x: Any) -> NDArray[Any]:
    """Return x as a NumPy array, without a copy if its library shares memory; never write to it.

    The module name of the type identifies the library, which is never imported for this. bfloat16 is returned as its
    bits, uint16, or as the dtype that JAX registers: see `is_bfloat16`.
    """
    if isinstance(x, (str, bytes, Mapping, Set)) or x is None:
        raise _no_array(argument, x)
    if is_masked(x):
        raise InputError(argument, "no masked entries", "a masked array", "filter the masked rows out first")
    try:
        array = _from_library(argument, x)
    except InputError:
        raise
    except (ValueError, TypeError, RuntimeError, BufferError) as error:
        if isinstance(x, Sequence) and isinstance(error, ValueError):
            remedy = "give every row the same number of entries"
            raise InputError(argument, "rows of equal length", "rows of different lengths", remedy) from error
        remedy = "convert it to a NumPy array first"
        raise InputError(argument, "an array", f"a {type(x).__name__} ({error})", remedy) from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "polars":
            raise
        got = f"a {type(x).__name__} that NumPy cannot hold ({error})"
        raise InputError(argument, "an array", got, "cast it to floats, or to integers of 64 bits") from error
    if array.dtype != object:
        return array
    if array.ndim == 0:
        raise _no_array(argument, x)
    return as_typed(argument, array)


def on_device(x: Any) -> Any:
    """Return an array as a tensor of torch if it is on a device other than the host, else None.

    An array of CuPy, JAX or another library on a CUDA (or ROCm) device shares its memory with the tensor: through
    DLPack, which orders the work of the two libraries' streams, or else through ``__cuda_array_interface__``. Without
    torch, the result is None.
    """
    if isinstance(x, (np.ndarray, list, tuple)):
        return None
    if is_tensor(x):
        return x.detach() if is_on_device(x) else None
    if not (_is_on_cuda(x) or hasattr(x, "__cuda_array_interface__")):
        return None
    try:
        import torch
        from torch.utils.dlpack import from_dlpack
    except ModuleNotFoundError:
        return None
    try:
        return from_dlpack(x) if _is_on_cuda(x) else torch.as_tensor(x, device="cuda")
    except (TypeError, ValueError, RuntimeError, BufferError, AssertionError):
        # A type that torch or DLPack does not have; torch without CUDA says so by an AssertionError.
        return None


def shape_of(argument: str, x: Any) -> tuple[int, ...]:
    """Return the shape of an array of any library; one on a device is not copied for this."""
    tensor = on_device(x)
    return as_array(argument, x).shape if tensor is None else tuple(tensor.shape)


def is_on_device(tensor: Any) -> bool:
    """Return whether a tensor of torch is on a device other than the host."""
    return tensor.device.type not in ("cpu", "meta") and not type(tensor).__module__.startswith("torch._subclasses")


def _is_on_cuda(x: Any) -> bool:
    if not (hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__")):
        return False
    try:
        return x.__dlpack_device__()[0] in _ON_CUDA
    except (TypeError, ValueError, RuntimeError, BufferError):  # an array of several devices
        return False


def like(result: Any, x: Any) -> Any:
    """Return a tensor of torch in the library of ``x``, an array of the same device."""
    library = sys.modules.get(type(x).__module__.partition(".")[0].removesuffix("lib"))
    from_dlpack = getattr(getattr(library, "dlpack", library), "from_dlpack", None)  # JAX's; CuPy's
    return result if from_dlpack is None or is_tensor(x) else from_dlpack(result)


def is_tensor(x: object) -> TypeGuard[Any]:
    """Return whether x is a tensor of torch, which is not imported for this."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def check_stored(argument: str, tensor: Any) -> None:
    """Reject a tensor of torch that does not store its numbers one by one, each with at least 16 bits."""
    if tensor.is_nested:
        got, remedy = "a nested tensor", "pass the rows as one tensor"
    elif str(tensor.layout) != "torch.strided":
        got, remedy = f"a sparse tensor (layout {tensor.layout})", "convert it with .to_dense()"
    elif type(tensor).__module__.startswith("torch.masked"):
        got, remedy = "a masked tensor", "leave the masked rows out, and pass .get_data() of the others"
    elif tensor.is_quantized:
        got, remedy = f"a quantised tensor ({name_of_type(tensor)})", "convert it with .dequantize()"
    elif tensor.element_size() < 2 and tensor.is_floating_point():
        got, remedy = f"dtype {name_of_type(tensor)}", "convert it with .float()"
    else:
        return
    raise InputError(argument, "a dense tensor of integers or of floats of at least 16 bits", got, remedy)


def checked_tensor(argument: str, tensor: Any) -> Any:
    """Return a tensor of torch that stores numbers; see `check_stored`."""
    check_stored(argument, tensor)
    if tensor.is_meta or type(tensor).__module__.startswith("torch._subclasses"):  # or a fake one
        got, remedy = "a tensor on the meta device", "pass a tensor with data"
        raise InputError(argument, "a tensor with numbers", got, remedy)
    return tensor


def real_tensor(argument: str, tensor: Any) -> Any:
    """Return a tensor of torch that stores real numbers, without its gradient."""
    checked = checked_tensor(argument, tensor)
    if checked.is_complex():
        as_numbers(argument, np.empty(0, name_of_type(checked)))
    return checked.detach()


def name_of_type(tensor: Any) -> str:
    """Return the name of the type of a tensor of torch."""
    return str(tensor.dtype).removeprefix("torch.")


def _from_library(argument: str, x: Any) -> NDArray[Any]:
    if is_tensor(x):
        return to_host(checked_tensor(argument, x))
    library = type(x).__module__.partition(".")[0]
    if library == "cupy":
        return np.asarray(x.get())
    if library == "pyarrow":
        return _arrow_column(x)
    if library in ("pandas", "polars", "modin", "cudf"):
        return _column(x)
    if not hasattr(x, "__array__"):
        tensor = on_device(x)
        if tensor is not None:
            return to_host(tensor)
        if hasattr(x, "__dlpack__"):
            return np.from_dlpack(x)
    return np.asarray(x)


def _no_array(argument: str, x: Any) -> InputError:
    path = mistakes.named_file(x)
    mistake = Mistake.NOT_COLLECTED if hasattr(x, "collect") else Mistake.FILE_NAME if path else None
    remedy = "pass an array, a column or a list of numbers"
    if mistake is not None:
        remedy = "collect it first" if mistake is Mistake.NOT_COLLECTED else "read the file first"
    if mistake is Mistake.FILE_NAME and argument == "probs":
        remedy += f", or run: calibrant report {path}"
    name = type(x).__name__
    got = "None" if x is None else f"{'an' if name[0] in 'aeiouAEIO' else 'a'} {name}"
    facts = Facts(suspicion=None if mistake is None else Suspicion(mistake))
    return refuse(argument, Fault.NO_ARRAY, "an array", got, remedy, facts)


def _column(x: Any) -> NDArray[Any]:
    """Return a column, or the columns of a frame, as an array; a column of lists becomes two-dimensional."""
    import narwhals as nw

    data = nw.from_native(x, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(data, nw.DataFrame) and data.shape[1] == 1:
        data = data.get_column(data.columns[0])
    if isinstance(data, nw.Series) and data.dtype == nw.String:  # NumPy's strings would end before a NUL
        return np.array(data.to_list(), dtype=object)
    return _stacked(data.to_numpy() if isinstance(data, (nw.DataFrame, nw.Series)) else np.asarray(data))


def _arrow_column(x: Any) -> NDArray[Any]:
    if hasattr(x, "columns"):  # a Table or a RecordBatch
        columns = [_arrow_column(column) for column in x.columns]
        return columns[0] if len(columns) == 1 else np.column_stack(columns)
    column = x.combine_chunks() if hasattr(x, "combine_chunks") else x
    size = getattr(column.type, "list_size", None)
    if size is not None and not column.null_count:
        return np.asarray(column.flatten().to_numpy(zero_copy_only=False)).reshape(-1, size)
    return _stacked(column.to_numpy(zero_copy_only=False))


def _stacked(column: Any) -> NDArray[Any]:
    """Return a column of lists as a two-dimensional array."""
    array = np.asarray(column)
    if array.dtype == object and array.ndim == 1 and len(array) and isinstance(array[0], (list, tuple, np.ndarray)):
        return np.stack([np.asarray(row) for row in array])
    return array


def is_bfloat16(x: Any, array: NDArray[Any]) -> bool:
    """Return whether ``array``, made from x, holds bfloat16 (its bits, or the dtype that JAX registers with NumPy)."""
    if is_tensor(x):
        return str(x.dtype) == "torch.bfloat16"
    return array.dtype.name == "bfloat16"


def as_numbers(argument: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return the array; reject other types than real numbers."""
    if array.dtype.kind in "UST":
        text = str(array.reshape(-1)[:1].astype(str)[0]) if array.size else None
        got = "strings" if text is None else f"strings such as {text!r}"
        facts = Facts(value=text, suspicion=mistakes.of_text(text or ""))
        raise refuse(argument, Fault.TEXT, "real numbers", got, facts=facts)
    if array.dtype.kind not in "fiub":
        raise InputError(argument, "real numbers", f"dtype {array.dtype}", "pass floating-point numbers")
    return array


def widened(bfloat16: NDArray[Any]) -> NDArray[np.float32]:
    """Return bfloat16 bits as float32."""
    bits = np.left_shift(bfloat16.view(np.uint16), 16, dtype=np.uint32)  # it is the upper half of a float32
    return bits.view(np.float32)


def as_values(argument: str, x: Any) -> NDArray[Any]:
    """Return x as `as_array` does, bfloat16 as float32."""
    array = as_array(argument, x)
    return widened(array) if is_bfloat16(x, array) else array


def as_typed(argument: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return an array of Python objects with the type that they share, numbers or strings."""
    entries, width = array.reshape(-1).tolist(), max(1, array.size // max(1, len(array)))
    missing = next((place for place, entry in enumerate(entries) if _is_missing(entry)), None)
    if missing is not None:
        expected, remedy = _EXPECTED.get(argument, ("numbers", ""))
        raise refuse(argument, Fault.MISSING, expected, MISSING, remedy, Facts(place=Place(missing // width)))
    texts = [isinstance(entry, str) for entry in entries]
    if any(texts) and not all(texts):
        raise _mixture(argument, array, texts.index(True))
    if argument in ("groups", "clusters") and any(texts) and any(entry.endswith("\0") for entry in entries):
        return array  # NumPy's strings end before such characters
    try:
        typed = np.array(entries)
        return (typed.astype(np.float64) if typed.dtype == object else typed).reshape(array.shape)
    except OverflowError as error:
        place = next(k for k, entry in enumerate(entries) if isinstance(entry, int) and entry.bit_length() > 1023)
        got = f"an integer of {entries[place].bit_length():,} bits at row {place // width}"
        remedy = "correct the number, or leave the row out"
        raise InputError(argument, "numbers that float64 holds", got, remedy) from error
    except (ValueError, TypeError) as error:
        got = f"objects such as {entries[0]!r}"
        raise InputError(argument, "numbers or strings", got, "pass an array of one type") from error


def _is_missing(entry: Any) -> bool:
    """Return whether an entry is None, NaN, or a missing value of pandas."""
    is_nan = isinstance(entry, (float, np.floating)) and entry != entry
    return entry is None or bool(is_nan) or type(entry).__name__ in ("NAType", "NaTType")


def _mixture(argument: str, array: NDArray[Any], place: int) -> InputError:
    """Return the error of an array with numbers and strings; ``place`` is the first string."""
    if array.ndim == 2 and argument == "probs":
        got = f"strings such as {array.flat[place]!r} in column {place % array.shape[1]}, and numbers"
        return InputError(argument, "numbers", got, "pass the columns of the probabilities alone")
    return InputError(argument, "numbers or strings", "a mixture of both", "convert all of them to one type")
