"""Where a function of one variable is 0. The import of `scipy.optimize` would be felt at each start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_EPS: Final = 2.0**-52


def root(function: Callable[[float], float], low: float, high: float, *, xtol: float) -> float:
    """Return a root of a continuous function between two points where it has opposite signs, to ``xtol``.

    Chandrupatla's method (Advances in Engineering Software 28, 1997): inverse quadratic interpolation where it is
    safe, else bisection. So it ends for every function.
    """
    a, b = high, low
    at_a, at_b = function(a), function(b)
    if at_a == 0 or at_b == 0:
        return a if at_a == 0 else b
    if (at_a > 0) == (at_b > 0):
        msg = f"the function has the same sign at {low} and {high}"
        raise ValueError(msg)
    share = 0.5  # of the way from a to b
    while True:
        x = a + share * (b - a)
        at_x = function(x)
        if (at_x > 0) == (at_a > 0):
            c, at_c = a, at_a
        else:
            c, at_c, b, at_b = b, at_b, a, at_a
        a, at_a = x, at_x
        best = a if abs(at_a) < abs(at_b) else b
        least = (xtol + 2 * _EPS * abs(best)) / abs(b - a)
        if at_a == 0 or least > 0.5:
            return best
        xi, phi = (a - b) / (c - b), (at_a - at_b) / (at_c - at_b)
        share = 0.5
        if phi**2 < xi and (1 - phi) ** 2 < 1 - xi:
            quadratic = at_a / (at_b - at_a) * at_c / (at_b - at_c)
            share = quadratic + (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (at_c - at_b)
        share = min(max(share, least), 1 - least)
