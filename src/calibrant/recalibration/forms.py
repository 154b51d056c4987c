"""A map for other programs: as SQL, as an expression of Narwhals, as an ONNX model.

Each form turns NULL, NaN and what is outside [0, 1] into NULL, except ONNX, which has none and keeps NaN. A map of
classes is an expression for each class, q_k = 1 / sum_j exp(t_j - t_k).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from calibrant.errors import InputError, MissingDependencyError, is_missing
from calibrant.inputs.predictions import sum_tolerance
from calibrant.recalibration.pieces import Labels, Pieces
from calibrant.recalibration.softmax import Softmax

if TYPE_CHECKING:
    import narwhals as nw

_LARGEST: Final = 700.0  # of an exponent: some engines reject a larger one
_MOST_CLASSES: Final = 64  # of expressions: each names all columns
SUM_TOLERANCE: Final = sum_tolerance("float64")
#: Names that stand for something else in most dialects.
_RESERVED: Final = frozenset(
    re.findall(
        r"\w+",
        """
        all and any as asc between by case cast check column constraint create cross current_date default desc distinct
        else end except exists false fetch for foreign from full grant group having in inner intersect into is join left
        like limit natural not null offset on or order outer primary references right select some table then to true
        union unique user using when where window with
        """,
    )
)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def sql(pieces: Pieces, column: str, *, quote: str) -> str:
    """Return an expression of SQL for the mapped scores of a column, of CASE, LN and EXP."""
    name = _quoted(column, quote)
    valid = f"{name} >= 0 AND {name} <= 1"
    score = f"{name} * 1e0"  # a double: the name of that type differs between engines
    if pieces.unchanged:
        return f"CASE WHEN {valid} THEN {score} END"
    low, high = _ends(pieces)
    below, above = pieces.mapped(np.array([low, high]), logits=False).tolist()
    values = [_sql_piece(f"({score})", *numbers) for numbers in _pieces(pieces)]
    cases = [f"WHEN {name} <= {_literal(low)} THEN {_literal(below)}"]
    cases += [f"WHEN {name} >= {_literal(high)} THEN {_literal(above)}"]
    cases += [
        f"WHEN {name} < {_literal(edge)} THEN {value}"
        for edge, value in zip(pieces.edges.tolist(), values, strict=False)
    ]
    return f"CASE WHEN {valid} THEN CASE {' '.join(cases)} ELSE {values[-1]} END END"


def _ends(pieces: Pieces) -> tuple[float, float]:
    """Return the scores that smaller and larger ones are moved to, between which no exponent is too large."""
    low, high = pieces.ends
    if not pieces.rising:
        return low, high
    return max(low, pieces.score_at(-_LARGEST)), min(high, pieces.score_at(_LARGEST))


def _quoted(column: str, quote: str) -> str:
    if not isinstance(quote, str) or len(quote) != 1:
        raise InputError("quote", "one character, such as '\"' or '`'", repr(quote), "leave it out for standard SQL")
    plain = _NAME.fullmatch(column) and column.lower() not in _RESERVED
    return column if plain else quote + column.replace(quote, 2 * quote) + quote


def one_column(column: str | Sequence[str]) -> str:
    """Return the name of the only column.

    Raises
    ------
    InputError
        For several columns.
    """
    if not isinstance(column, str):
        raise InputError(
            "column", "the name of a column", repr(column), "pass one name, because the map is of one event"
        )
    return column


def _columns(softmax: Softmax, columns: str | Sequence[str] | nw.Expr) -> list[str]:
    """Return the names of the columns of classes.

    Raises
    ------
    InputError
        For another number of names, for a matrix, and for many classes, whose expressions would be too long.
    """
    n_classes = softmax.n_classes
    if softmax.is_matrix or n_classes > _MOST_CLASSES:
        expected = f"temperature or vector scaling of at most {_MOST_CLASSES} classes"
        got = "matrix scaling" if softmax.is_matrix else f"{n_classes} classes"
        raise InputError("map", expected, got, "write the map as ONNX, or use it in Python")
    return columns_of(columns, n_classes)


def columns_of(columns: str | Sequence[str] | nw.Expr, number: int) -> list[str]:
    """Return the names of so many columns.

    Raises
    ------
    InputError
        For another number of names.
    """
    if isinstance(columns, str) or not isinstance(columns, Sequence) or len(columns) != number:
        got = f"{len(columns)}" if isinstance(columns, (list, tuple)) else repr(columns)
        raise InputError("column", f"{number} names, one for each class", got, "name the columns of the classes")
    for name in columns:
        one_column(name)
    return list(columns)


def sql_of_classes(softmax: Softmax, columns: str | Sequence[str], *, quote: str) -> list[str]:
    """Return an expression of SQL for the mapped probability of each class."""
    names = [_quoted(name, quote) for name in _columns(softmax, columns)]
    inside = " AND ".join(f"{name} >= 0 AND {name} <= 1" for name in names)
    valid = f"{inside} AND ABS({' + '.join(names)} - 1) <= {_literal(SUM_TOLERANCE)}"
    if softmax.unchanged:
        return [f"CASE WHEN {valid} THEN {name} * 1e0 END" for name in names]
    least = _literal(softmax.floor)
    logs = [f"LN(CASE WHEN {name} < {least} THEN {least} ELSE {name} * 1e0 END)" for name in names]
    terms = [
        f"({_literal(constant)} + {_literal(factor)} * {log})"
        for log, factor, constant in zip(logs, softmax.factors.tolist(), softmax.constants.tolist(), strict=True)
    ]
    ends = softmax.factors * math.log(softmax.floor)
    lows, highs = softmax.constants + np.minimum(ends, 0), softmax.constants + np.maximum(ends, 0)
    shares = [
        " + ".join(
            "1e0" if j == k else _sql_exponential(f"{terms[j]} - {terms[k]}", cut=bool(highs[j] - lows[k] > _LARGEST))
            for j in range(len(terms))
        )
        for k in range(len(terms))
    ]
    return [f"CASE WHEN {valid} THEN 1e0 / ({share}) END" for share in shares]


def _sql_exponential(exponent: str, *, cut: bool) -> str:
    if not cut:
        return f"EXP({exponent})"
    return f"EXP(CASE WHEN {exponent} > {_literal(_LARGEST)} THEN {_literal(_LARGEST)} ELSE {exponent} END)"


def expressions_of_classes(softmax: Softmax, columns: str | Sequence[str] | nw.Expr) -> list[nw.Expr]:
    """Return an expression of Narwhals for the mapped probability of each class."""
    import narwhals as nw

    scores = [nw.col(name).cast(nw.Float64) for name in _columns(softmax, columns)]
    valid = (sum(scores[1:], start=scores[0]) - 1).abs() <= SUM_TOLERANCE
    for score in scores:
        valid = valid & (score >= 0) & (score <= 1)
    if softmax.unchanged:
        return [nw.when(valid).then(score) for score in scores]
    numbers = zip(scores, softmax.factors.tolist(), softmax.constants.tolist(), strict=True)
    terms = [score.clip(softmax.floor, 1).log() * factor + constant for score, factor, constant in numbers]
    mapped: list[nw.Expr] = []
    for k, own in enumerate(terms):
        others = [(term - own).clip(upper_bound=_LARGEST).exp() for j, term in enumerate(terms) if j != k]
        mapped.append(nw.when(valid).then(1 / (1 + sum(others[1:], start=others[0]))))
    return mapped


def _pieces(pieces: Pieces) -> list[tuple[float, float, float]]:
    return list(zip(pieces.constants.tolist(), pieces.positive.tolist(), pieces.negative.tolist(), strict=True))


def _sql_piece(x: str, constant: float, positive: float, negative: float) -> str:
    if positive == negative == 0:
        return _literal(_rate(constant))
    if positive == negative:
        moved = f"{_literal(positive)} * LN({x} / (1e0 - {x}))"
    else:
        moved = f"{_literal(positive)} * LN({x}) - {_literal(negative)} * LN(1e0 - {x})"
    return f"1e0 / (1e0 + EXP(-({_literal(constant)} + {moved})))"


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
    if pieces.unchanged:
        return nw.when(valid).then(score.cast(nw.Float64))
    x = score.cast(nw.Float64).clip(*_ends(pieces))
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
    return 1 / (1 + (-constant - log_odds).exp())


class _Graph:
    """The nodes and constants of a model of ONNX, while it grows."""

    def __init__(self) -> None:
        self.constants: list[Any] = []
        self.nodes: list[Any] = []

    def constant(self, values: Any) -> str:
        """Add a constant, and return its name."""
        name = f"constant_{len(self.constants)}"
        self.constants.append(_onnx().numpy_helper.from_array(np.asarray(values), name))
        return name

    def node(self, kind: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Add a node, and return the name of its output."""
        output = output or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(_onnx().helper.make_node(kind, inputs, [output], **attributes))
        return output

    def inside(self) -> str:
        """Add whether scores are in [0, 1]."""
        low, high = self.constant(0.0), self.constant(1.0)
        return self.node("And", self.node("GreaterOrEqual", "score", low), self.node("LessOrEqual", "score", high))

    def mapped(self, pieces: Pieces, score: str) -> str:
        """Add a map of scores (N,) in [0, 1]."""
        if pieces.unchanged:
            return score
        constant, node = self.constant, self.node
        x = node("Clip", score, *map(constant, pieces.ends))
        columns = (pieces.constants, pieces.positive, pieces.negative)
        if len(pieces.edges):
            axis = constant(np.array([1], np.int64))
            above = node("GreaterOrEqual", node("Unsqueeze", x, axis), constant(pieces.edges))
            piece = node("ReduceSum", node("Cast", above, to=_onnx().TensorProto.INT64), axis, keepdims=0)
            c, a, b = (node("Gather", constant(values), piece) for values in columns)
        else:
            c, a, b = map(constant, columns)
        rest = node("Log", node("Sub", constant(1.0), x))
        rising, falling = node("Mul", a, node("Log", x)), node("Mul", b, rest)
        return node("Sigmoid", node("Add", c, node("Sub", rising, falling)))

    def model(self, valid: str, mapped: str, shape: list[Any]) -> Any:
        """Return the model, whose output is NaN where the input is not valid."""
        helper, double = _onnx().helper, _onnx().TensorProto.DOUBLE
        self.node("Where", valid, mapped, self.constant(math.nan), output="probability")
        graph = helper.make_graph(
            self.nodes,
            "calibrant_map",
            [helper.make_tensor_value_info("score", double, shape)],
            [helper.make_tensor_value_info("probability", double, shape)],
            self.constants,
        )
        # The version of 2022: every runtime since then reads it.
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        _onnx().checker.check_model(model, full_check=True)
        return model


def onnx_model(pieces: Pieces) -> Any:
    """Return a model of ONNX from ``score``, (N,) doubles, to ``probability``, (N,); invalid scores become NaN."""
    graph = _Graph()
    return graph.model(graph.inside(), graph.mapped(pieces, "score"), ["N"])


def onnx_of_labels(labels: Labels) -> Any:
    """Return a model of ONNX from ``score``, (N, C) doubles, to ``probability``, (N, C); invalid scores become NaN."""
    graph = _Graph()
    axis = graph.constant(np.array([1], np.int64))
    columns = [
        graph.node("Gather", "score", graph.constant(np.array(k, np.int64)), axis=1) for k in range(len(labels.maps))
    ]
    mapped = [graph.mapped(each, column) for each, column in zip(labels.maps, columns, strict=True)]
    joined = graph.node("Concat", *(graph.node("Unsqueeze", column, axis) for column in mapped), axis=1)
    return graph.model(graph.inside(), joined, ["N", len(labels.maps)])


def onnx_of_classes(softmax: Softmax) -> Any:
    """Return a model of ONNX from ``score``, (N, C) doubles, to ``probability``, (N, C); invalid rows become NaN."""
    graph = _Graph()
    constant, node = graph.constant, graph.node
    integer, axis = _onnx().TensorProto.INT64, constant(np.array([1], np.int64))
    inside = node("ReduceMin", node("Cast", graph.inside(), to=integer), axes=[1], keepdims=1)
    gap = node("Abs", node("Sub", node("ReduceSum", "score", axis, keepdims=1), constant(1.0)))
    valid = node(
        "And", node("Cast", inside, to=_onnx().TensorProto.BOOL), node("LessOrEqual", gap, constant(SUM_TOLERANCE))
    )
    if softmax.unchanged:
        return graph.model(valid, "score", ["N", softmax.n_classes])
    log_p = node("Log", node("Max", "score", constant(softmax.floor)))
    moved = node("MatMul" if softmax.is_matrix else "Mul", log_p, constant(softmax.factors.T))
    t = node("Add", moved, constant(softmax.constants))
    return graph.model(valid, node("Softmax", t, axis=-1), ["N", softmax.n_classes])


def _onnx() -> Any:
    try:
        import onnx
    except ModuleNotFoundError as error:
        if not is_missing(error, "onnx"):
            raise
        raise MissingDependencyError("onnx", "to write a map as ONNX", "onnx") from None
    return onnx
