"""A map for other programs: as SQL, as an expression of Narwhals, as an ONNX model.

Each form turns NULL, NaN and what is outside [0, 1] into NULL, except ONNX, which has none and keeps NaN.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from calibrant.errors import MissingDependencyError, is_missing
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


def onnx_model(pieces: Pieces) -> Any:
    """Return a model of ONNX from ``score``, (N,) doubles, to ``probability``, (N,); invalid scores become NaN."""
    helper = _onnx().helper
    double, booleans = _onnx().TensorProto.DOUBLE, _onnx().TensorProto.INT64
    constants: list[Any] = []
    nodes: list[Any] = []

    def constant(name: str, values: Any) -> str:
        constants.append(_onnx().numpy_helper.from_array(np.asarray(values), name))
        return name

    def node(kind: str, *inputs: str, **attributes: Any) -> str:
        output = f"{kind.lower()}_{len(nodes)}"
        nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    valid = node(
        "And",
        node("GreaterOrEqual", "score", constant("zero", 0.0)),
        node("LessOrEqual", "score", constant("one", 1.0)),
    )
    if pieces.clip == 0:
        mapped = "score"
    else:
        x = node("Clip", "score", constant("lowest", pieces.clip), constant("highest", 1 - pieces.clip))
        columns = {"constants": pieces.constants, "positive": pieces.positive, "negative": pieces.negative}
        if len(pieces.edges):
            column = node("Unsqueeze", x, constant("axis", np.array([1], np.int64)))
            above = node("Cast", node("GreaterOrEqual", column, constant("edges", pieces.edges)), to=booleans)
            piece = node("ReduceSum", above, "axis", keepdims=0)
            c, a, b = (node("Gather", constant(name, values), piece) for name, values in columns.items())
        else:
            c, a, b = (constant(name, values) for name, values in columns.items())
        rest = node("Log", node("Sub", "one", x))
        rising, falling = node("Mul", a, node("Log", x)), node("Mul", b, rest)
        mapped = node("Sigmoid", node("Add", c, node("Sub", rising, falling)))
    nodes.append(helper.make_node("Where", [valid, mapped, constant("invalid", math.nan)], ["probability"]))
    graph = helper.make_graph(
        nodes,
        "calibrant_map",
        [helper.make_tensor_value_info("score", double, ["N"])],
        [helper.make_tensor_value_info("probability", double, ["N"])],
        constants,
    )
    # The version of 2022: every runtime since then reads it.
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    _onnx().checker.check_model(model, full_check=True)
    return model


def _onnx() -> Any:
    try:
        import onnx
    except ModuleNotFoundError as error:
        if not is_missing(error, "onnx"):
            raise
        raise MissingDependencyError("onnx", "to write a map as ONNX", "onnx") from None
    return onnx
