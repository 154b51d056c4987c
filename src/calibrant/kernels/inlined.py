"""What compiled loops inline: bits of floats, exp and log in vector lanes, the bin or the cell of a score.

Three things make the reading passes run at the speed of memory:

- The largest entry of a row is found among the *bits* of its floats, viewed as integers: LLVM does not vectorise a
  floating-point maximum. For floats that are not negative both orders agree. For logits ``k ^ ((k >> 31) &
  0x7fffffff)`` turns the sign-magnitude order into that of integers. As unsigned integers, every NaN, infinity,
  negative number and number above 1 is larger than the bits of 1. So the same maximum validates the row.
- The exponential is a polynomial, and the exponent is added into the bits of its result: Numba has no vector exp.
- The logarithm is a series, and the exponent comes from the bits of its argument: Numba has no vector log.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic, overload

from calibrant.kernels.compiled import exact, inlined
from calibrant.kernels.reference_lookup import LOWERED

#: Entries that a kernel handles together: part of the work on them runs in vector lanes. The kernel takes a view of
#: them first. Numba cannot rule out that ``first + j`` is negative, and such an index keeps a loop out of the lanes.
CHUNK = 64

#: Sums of a cell that lie next to each other in one line of the processor's cache: 64 bytes.
LINE = 8

_f32 = np.float32
_LOG2E = 1.4426950408889634

#: q of degree 4 with the least largest relative error of 1 + r + r^2 q(r) from exp(r) for |r| <= ln(2) / 2, 3.1e-9; a
#: test finds it again by linear programming.
EXP_TERMS = (0.49999993440200224, 0.16666520636848478, 0.0416683899301085, 0.008368716347018757, 0.001381449248314885)


@intrinsic  # type: ignore[untyped-decorator]
def bits_of(_context: Any, number: Any) -> Any:
    """Return a float's bits as the signed integer of its width."""
    to = {types.float32: types.int32, types.float64: types.int64}[number]

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(to))

    return to(number), generate


@intrinsic  # type: ignore[untyped-decorator]
def float_of(_context: Any, bits: Any) -> Any:
    """Return an integer's bits as the float of its width."""
    to = {types.int32: types.float32, types.uint32: types.float32}.get(bits, types.float64)

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(to))

    return to(bits), generate


@inlined()
def _exp32(x: Any) -> Any:
    """Return exp(x) for x <= 0 in float32, relative error below 1e-7; exp(-87) for anything smaller.

    x = k ln 2 + r with |r| <= ln(2) / 2: adding 1.5 * 2^23 rounds x / ln 2 to the integer k and leaves k in the low
    bits. From there it is added to the exponent of exp(r) = 1 + r + r^2 q(r), with q from `EXP_TERMS`.
    """
    x = max(x, _f32(-87.0))
    shifted = x * _f32(_LOG2E) + _f32(12582912.0)
    k = shifted - _f32(12582912.0)
    r = x - k * _f32(0.693359375)  # ln 2 in two parts: the first has few bits, so its product with k is exact
    r = r - k * _f32(-2.12194440e-4)
    p = _f32(EXP_TERMS[4])
    p = p * r + _f32(EXP_TERMS[3])
    p = p * r + _f32(EXP_TERMS[2])
    p = p * r + _f32(EXP_TERMS[1])
    p = p * r + _f32(EXP_TERMS[0])
    p = p * r + _f32(1)
    p = p * r + _f32(1)
    return float_of(np.int32(bits_of(p) + (bits_of(shifted) << np.int32(23))))


@inlined()
def _exp64(x: Any) -> Any:
    """Return exp(x) for x <= 0 in float64, as `_exp32` but of degree 13 (remainder 4e-18); exp(-708) below -708."""
    x = max(x, -708.0)
    shifted = x * _LOG2E + 6755399441055744.0
    k = shifted - 6755399441055744.0
    r = x - k * 0.693147180369123816490
    r = r - k * 1.90821492927058770002e-10
    p = 1 / 6227020800
    p = p * r + 1 / 479001600
    p = p * r + 1 / 39916800
    p = p * r + 1 / 3628800
    p = p * r + 1 / 362880
    p = p * r + 1 / 40320
    p = p * r + 1 / 5040
    p = p * r + 1 / 720
    p = p * r + 1 / 120
    p = p * r + 1 / 24
    p = p * r + 1 / 6
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    return float_of(np.int64(bits_of(p) + (bits_of(shifted) << np.int64(52))))


def exp(x: Any) -> Any:
    """Return exp(x) for x <= 0 in the type of x; compiled code uses the overload below."""
    return np.exp(x)


@overload(exp, jit_options={"fastmath": {"contract"}})
def _exp_of(x):  # type: ignore[no-untyped-def]
    compute = _exp32 if x == types.float32 else _exp64
    return lambda x: compute(x)


_LEAST_NORMAL = 2.0**-1022
_ROOT_HALF = np.uint64(0x3FE6A09E667F3BCD)  # bits of the root of 1/2
_ONE = np.uint64(0x3FF0000000000000)
_INTEGERS = 6755399441055744.0  # 1.5 * 2^52: its lowest bit stands for 1


@inlined()
def log(x: Any) -> Any:
    """Return log(x) for a positive finite float64, relative error below 1e-15.

    x = 2^k m with m between the roots of 1/2 and 2, and log m = 2 atanh(s) = 2 s (1 + s^2/3 + s^4/5 + ...) with
    s = (m - 1) / (m + 1), |s| < 0.1716: the terms after s^22/23 are below 3e-19 of it. k becomes a float by its bits.
    """
    small = x < _LEAST_NORMAL
    bits = np.uint64(bits_of(x * 2.0**54 if small else x))
    exponent = (bits - _ROOT_HALF + _ONE) >> np.uint64(52)
    m = float_of(np.int64(bits - (exponent << np.uint64(52)) + _ONE))
    k = float_of(np.int64(np.uint64(bits_of(_INTEGERS)) + exponent)) - (_INTEGERS + 1023.0)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    p = 1 / 23
    p = p * z + 1 / 21
    p = p * z + 1 / 19
    p = p * z + 1 / 17
    p = p * z + 1 / 15
    p = p * z + 1 / 13
    p = p * z + 1 / 11
    p = p * z + 1 / 9
    p = p * z + 1 / 7
    p = p * z + 1 / 5
    p = p * z + 1 / 3
    return (k - (54.0 if small else 0.0)) * 0.6931471805599453 + 2.0 * (s + s * z * p)


def unsigned(floats: Any) -> Any:
    """Return a view of floats as unsigned integers of their width; compiled code uses the overload below."""
    return floats.view(np.uint32 if floats.itemsize == 4 else np.uint64)


@overload(unsigned)
def _unsigned_of(floats):  # type: ignore[no-untyped-def]
    kind = np.uint32 if floats.dtype == types.float32 else np.uint64
    return lambda floats: floats.view(kind)


def signed(floats: Any) -> Any:
    """Return a view of floats as signed integers of their width; compiled code uses the overload below."""
    return floats.view(np.int32 if floats.itemsize == 4 else np.int64)


@overload(signed)
def _signed_of(floats):  # type: ignore[no-untyped-def]
    kind = np.int32 if floats.dtype == types.float32 else np.int64
    return lambda floats: floats.view(kind)


# ---------------------------------------------------------------- compensated sums


@exact
def added(total: Any, lost: Any, term: Any) -> Any:
    """Return a sum and what rounding has lost of it, with one more term; see `compensated`."""
    new = total + term
    back = new - total
    return new, lost + ((total - (new - back)) + (term - back))


@exact
def rounded(term: Any, shift: Any) -> Any:
    """Return a term as a multiple of 2^-52 shift."""
    return (term + shift) - shift


# ---------------------------------------------------------------- bins and cells


@inlined()
def bin_of(p: Any, uppers: Any) -> Any:
    """Return the first bin whose largest member is not below p, without a branch; p is in [0, 1].

    The largest members are j / M, rounded to the scores' type, or the number before. See `LOWERED`.
    """
    b = np.uint64(np.int64(p * uppers.dtype.type(uppers.shape[0] * LOWERED)))
    return b + np.uint64(p > uppers[b])


@inlined()
def start_of(p: Any, one: Any, shift: Any, first: Any) -> Any:
    """Return the place in a grid's lookup from where a score starts; for an invalid score, any place.

    ``one`` has the score's type. This runs in vector lanes.
    """
    bucket = np.int32(bits_of(min(p, one - p)) >> shift) - np.int32(first)
    return np.uint32(2 * (bucket if bucket > 0 else np.int32(0)) + np.int32(p > 0.5))


@inlined()
def cell_of(p: Any, start: Any, edges: Any) -> Any:
    """Return the cell of a score, at most two edges above ``start``, without a branch.

    No processor can predict the side of an edge where a score lies.
    Indices are unsigned: Numba need not test for negative ones.
    """
    cell = np.uint64(start)
    cell += np.uint64(p > edges[cell])
    cell += np.uint64(p > edges[cell])
    return np.uint64(edges.shape[0]) if p == 1 else cell  # in float32 an edge before the last may be 1


@inlined()
def tallies_of(n_bins: Any) -> Any:
    """Return zeros for each bin and outcome: the count, and the sum of scores as a pair.

    There are two sets, which rows take in turn, so that no addition waits. A place is twice the bin plus the outcome:
    that is faster than another sum.
    """
    return np.zeros((4 * n_bins, 4))


@inlined()
def place_of(p: Any, y: Any, turn: Any, uppers: Any) -> Any:
    """Return the place of a score and its outcome in the first or the second set of tallies."""
    b = bin_of(p, uppers) + np.uint64(uppers.shape[0] * turn)
    return b + b + np.uint64(y)


@inlined()
def add_tally(p: Any, place: Any, tallies: Any) -> Any:
    """Add a score to its place in the tallies."""
    tallies[place, 0] += 1.0
    tallies[place, 1], tallies[place, 2] = added(tallies[place, 1], tallies[place, 2], np.float64(p))


@inlined()
def add_tallies(tallies: Any, sums: Any) -> Any:
    """Add them to the sums (2, 3, M) of the bins: count, sum of scores, number of outcomes 1."""
    n_bins = sums.shape[2]
    for place in range(tallies.shape[0]):
        b = (place // 2) % n_bins
        sums[0, 0, b] += tallies[place, 0]
        sums[0, 2, b] += tallies[place, 0] * (place % 2)
        sums[0, 1, b], lost = added(sums[0, 1, b], tallies[place, 2], tallies[place, 1])
        sums[1, 1, b] += lost
