"""A map for other programs: as SQL, as an expression of Narwhals, as an ONNX model.

Each form turns NULL, NaN and what is outside [0, 1] into NULL, except ONNX, which has none and keeps NaN.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from calibrant.recalibration.pieces import Pieces

if TYPE_CHECKING:
    import narwhals as nw

_LARGEST: Final = 700.0  # of an exponent: some engines reject a larger one
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def sql(pieces: Pieces, column: str, *, quote: str) -> str:
    """Return an expression of SQL for the mapped scores of a column."""
    name = column if _NAME.fullmatch(column) else quote + column.replace(quote, 2 * quote) + quote
    valid = f"{name} >= 0 AND {name} <= 1"
    if pieces.clip == 0:
        return f"CASE WHEN {valid} THEN CAST({name} AS DOUBLE PRECISION) END"
    x = f"LEAST(GREATEST(CAST({name} AS DOUBLE PRECISION), {_literal(pieces.clip)}), {_literal(1 - pieces.clip)})"
    values = [_sql_piece(x, *numbers) for numbers in _pieces(pieces)]
    inner = " ".join(
        f"WHEN {x} < {_literal(edge)} THEN {value}" for edge, value in zip(pieces.edges.tolist(), values, strict=False)
    )
    value = f"CASE {inner} ELSE {values[-1]} END" if inner else values[-1]
    return f"CASE WHEN {valid} THEN {value} END"


def _pieces(pieces: Pieces) -> list[tuple[float, float, float]]:
    return list(zip(pieces.constants.tolist(), pieces.positive.tolist(), pieces.negative.tolist(), strict=True))


def _sql_piece(x: str, constant: float, positive: float, negative: float) -> str:
    if positive == negative == 0:
        return _literal(_rate(constant))
    if positive == negative:
        moved = f"{_literal(positive)} * LN({x} / (1e0 - {x}))"
    else:
        moved = f"{_literal(positive)} * LN({x}) - {_literal(negative)} * LN(1e0 - {x})"
    return f"1e0 / (1e0 + EXP(LEAST({_literal(_LARGEST)}, -({_literal(constant)} + {moved}))))"


def _rate(log_odds: float) -> float:
    from scipy.special import expit

    return float(expit(log_odds))


def _literal(value: float) -> str:
    """Return a number as a double in every dialect, and not as a decimal number."""
    text = repr(value)
    return text if "e" in text else f"{text}e0"


def expression(pieces: Pieces, column: str | nw.Expr) -> nw.Expr:
    """Return an expression of Narwhals for the mapped scores of a column."""
    import narwhals as nw

    score = nw.col(column) if isinstance(column, str) else column
    valid = (score >= 0) & (score <= 1)
    if pieces.clip == 0:
        return nw.when(valid).then(score.cast(nw.Float64))
    x = score.cast(nw.Float64).clip(pieces.clip, 1 - pieces.clip)
    values = [_expression_of_piece(x, *numbers) for numbers in _pieces(pieces)]
    value: Any = values[-1]
    for edge, lower in zip(pieces.edges.tolist()[::-1], values[-2::-1], strict=True):
        value = nw.when(x < edge).then(lower).otherwise(value)
    return nw.when(valid).then(value)


def _expression_of_piece(x: nw.Expr, constant: float, positive: float, negative: float) -> nw.Expr:
    import narwhals as nw

    if positive == negative == 0:
        return nw.lit(_rate(constant), nw.Float64)
    log_odds = (x / (1 - x)).log() * positive if positive == negative else x.log() * positive - (1 - x).log() * negative
    return 1 / (1 + (-(constant + log_odds)).exp())
