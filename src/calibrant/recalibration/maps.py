"""`CalibrationMap`: the map of scores that is shipped, with the evidence for it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import InputError, quoted, wording
from calibrant.inputs.conversion import as_numbers, as_values, is_tensor, like, name_of_type, on_device, real_tensor
from calibrant.inputs.notions import NOTIONS
from calibrant.inputs.predictions import sum_tolerance
from calibrant.recalibration import forms
from calibrant.recalibration.pieces import HIGHEST, KINDS, LEAST, MOST, Labels, Pieces, floats, probabilities
from calibrant.recalibration.softmax import Softmax, log_probabilities, log_softmax
from calibrant.render.words import named, rows_text, short
from calibrant.results.envelope import (
    MOST_BYTES,
    Envelope,
    check_json,
    integer,
    listed,
    number,
    of_file,
    read_bytes,
    require,
)
from calibrant.results.writing import replace_file
from calibrant.runtime.arrays import ArrayLike, Float64s, to_host
from calibrant.runtime.cached import cached_property
from calibrant.runtime.dataclass import dataclass

if TYPE_CHECKING:
    import narwhals as nw

#: Maps as JSON. In version 1, maps of one event have one limit for both ends. Before version 3, all maps were fitted to
#: rows with outcomes.
MAP: Final = Envelope(
    name="map",
    kind="a calibration map",
    origin="pass a map that calibrant wrote",
    versions=(1, 2, 3),
    version="version",
    checksum="checksum",
    schema="calibrant.map",
)

#: Maps of several questions as JSON, by the names of the questions.
MAPS: Final = Envelope(
    name="file of maps",
    kind="the calibration maps of questions",
    origin="pass a file that calibrant recalibrate --map wrote for the log of a decision model",
    versions=(1,),
    version="version",
    checksum="checksum",
    schema="calibrant.maps",
)

_MOST_LABELS: Final = 10_000
_MOST_BYTES_OF_MAPS: Final = 10 * MOST_BYTES
_NAMED: Final = 4  # questions of a file of maps that an error names
_MOST_ROWS: Final = (1 << 53) - 1
_MOST_WEIGHT: Final = 1e300

#: The maps of one event, of classes, of labels.
Form = Pieces | Softmax | Labels

#: The intercept and the slope of a line that only moves scores within limits.
_NO_CHANGE: Final = (0.0, 1.0)

#: Distances of distributions below this are what 21 quantiles do not resolve.
_RESOLUTION: Final = 0.05
_DRIFT_ALPHA: Final = 0.01


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """What a map was fitted to.

    Attributes
    ----------
    n : int
        The number of rows.
    positives : float or None
        How many of them (their weight) had the event; None for scores without outcomes.
    low, high : float
        The smallest and the largest score.
    quantiles : tuple of float
        The quantiles of the scores at 0, 0.05, ..., 1.
    cluster : bool
        Whether the rows were in clusters.
    """

    n: int
    positives: float | None
    low: float
    high: float
    quantiles: tuple[float, ...]
    cluster: bool


@dataclass(frozen=True, kw_only=True)
class ScoreDrift:
    """How new scores differ from those that a map was fitted to.

    Attributes
    ----------
    n : int
        The number of new scores.
    outside : float
        The share of the new scores that are outside the range of the fitted scores.
    distance : float
        The Kolmogorov distance of the two distributions, by 21 quantiles.
    limit : float
        The distance that independent scores without drift exceed in less than 1 % of samples.
    """

    n: int
    outside: float
    distance: float
    limit: float

    @property
    def drifted(self) -> bool:
        """Whether the distance exceeds the limit."""
        return self.distance > self.limit


class Watch:
    """Compares new scores with those that a map was fitted to, in constant memory."""

    def __init__(self, fitted: Fitted) -> None:
        self._fitted = fitted
        self._n = 0
        self._below, self._upto = np.zeros((2, len(fitted.quantiles)), np.int64)
        self._outside = 0

    def add(self, probs: ArrayLike) -> None:
        """Add scores."""
        x = np.sort(np.asarray(probs, np.float64).reshape(-1))
        quantiles = self._fitted.quantiles
        self._n += len(x)
        self._below += np.searchsorted(x, quantiles, side="left")
        self._upto += np.searchsorted(x, quantiles, side="right")
        self._outside += int(np.sum((x < self._fitted.low) | (x > self._fitted.high)))

    def result(self) -> ScoreDrift:
        """Return how all scores so far differ."""
        n = self._n
        if not n:
            raise InputError("probs", "at least one score", "none", "pass scores of new rows")
        steps = np.linspace(0, 1, len(self._fitted.quantiles))
        distance = float(np.max(np.maximum(self._below / n - steps, steps - self._upto / n), initial=0.0))
        spread = math.sqrt(math.log(2 / _DRIFT_ALPHA) / 2) * math.sqrt(1 / n + 1 / self._fitted.n)
        return ScoreDrift(n=n, outside=self._outside / n, distance=distance, limit=_RESOLUTION + spread)


@dataclass(frozen=True, eq=False, kw_only=True)
class CalibrationMap:
    """A map of scores of one event or of the probabilities of classes, as `calibrant.recalibrate` fits it.

    Call it with new scores. It never changes, and it is written and read as JSON. Maps of one event never decrease,
    except those of kind "bins". A constant is a map with one bin.

    Attributes
    ----------
    kind : {"identity", "line", "beta", "knots", "bins", "softmax", "labels"}
        The form of the map; "softmax" is a map of classes, softmax(W log p + c), "labels" has a map for each label.
    parameters : mapping
        Its numbers, by name.
    event : mapping
        What the scores are of: ``notion``, which is "classes" for a map of classes, and ``class_names``, if there are
        any.
    fitted : Fitted or None
        What the map was fitted to; None for a map of known rates.
    evidence : mapping
        The measures before and after, and the gain, as in `Recalibration.to_dict`; of labels, the gain of each. The map
        of `calibrant.prior_shift` has the key "assumed", with the shares before and after.
    proven : bool
        Whether the gain is significantly above 0, at the level given in ``evidence``.
    """

    kind: str
    parameters: Mapping[str, Any]
    event: Mapping[str, Any]
    fitted: Fitted | None
    evidence: Mapping[str, Any] = field(default_factory=dict, repr=False)
    proven: bool = False

    @cached_property
    def form(self) -> Form:
        """The map as pieces of logistic curves, as a softmax of classes, or as pieces for each label."""
        return _FORMS[self.kind](self.parameters)

    @property
    def assumed(self) -> bool:
        """Whether the map assumes that only the event rate, or the shares of the classes, changed."""
        return self.kind != "labels" and "assumed" in self.evidence

    @property
    def n_classes(self) -> int | None:
        """The number of classes or labels; None for one event."""
        if isinstance(self.form, Pieces):
            return None
        return self.form.n_classes if isinstance(self.form, Softmax) else len(self.form.maps)

    def __call__(self, probs: ArrayLike, *, logits: bool = False) -> Any:
        """Return the recalibrated probabilities of new scores.

        Parameters
        ----------
        probs : array of any library
            Scores in [0, 1]. For a map of one event, they have any shape; for C labels, the shape (..., C); for C
            classes, the shape (..., C) with rows that sum to 1. With ``logits``, log-odds or logits of classes instead.
        logits : bool, default False
            Whether ``probs`` are log-odds or logits.

        Returns
        -------
        array of float64
            The probabilities, in the shape of ``probs``: above 0, and for one event or labels below 1, but for the
            identity, and for bins with one outcome, fitted with ``prior_rows=0``. For a tensor of torch, a tensor of
            its type on its device, as from `calibrant.torch.RecalibrationLayer`; an array of CuPy or JAX on a GPU
            remains there.

        Raises
        ------
        calibrant.errors.InputError
            For NaN, for a score outside [0, 1], for classes whose sum is not 1, and for another number of classes.

        Examples
        --------
        >>> import calibrant
        >>> fix = calibrant.recalibrate([0.2] * 50 + [0.8] * 50, [0] * 48 + [1] * 2 + [0] * 5 + [1] * 45)
        >>> fix.map([0.2, 0.8]).round(2).tolist()
        [0.1, 0.9]
        """
        form, tensor = self.form, probs if is_tensor(probs) else on_device(probs)
        if tensor is not None:
            from calibrant.recalibration import on_tensors

            double = on_tensors.in_double(real_tensor("probs", tensor))
            self._check(double, name_of_type(tensor), logits=logits)
            return like(on_tensors.mapped(form, double, tensor.dtype, logits=logits), probs)
        x = self._valid(probs, logits=logits)
        return _of_classes(form, x, logits=logits) if isinstance(form, Softmax) else form.mapped(x, logits=logits)

    def _valid(self, probs: ArrayLike, *, logits: bool = False) -> Float64s:
        """Return scores that are not on a GPU, in double precision."""
        array = as_numbers("probs", as_values("probs", probs))
        x = np.asarray(array, np.float64)
        self._check(x, array.dtype.name, logits=logits)
        return x

    def _check(self, x: Any, dtype: str, *, logits: bool) -> None:
        """Reject scores, an array or a tensor of double precision; ``dtype`` is the type that was passed."""
        if self.n_classes is not None and (x.ndim == 0 or x.shape[-1] != self.n_classes):
            expected = f"shape (N, {self.n_classes}), a column for each class of the map"
            raise InputError("probs", expected, f"shape {tuple(x.shape)}", "pass the columns in the order of the fit")
        if isinstance(self.form, Softmax):
            _check_classes(x.reshape(-1, self.form.n_classes), x, sum_tolerance(dtype), logits=logits)
            return
        wrong = x != x if logits else ~((x >= 0) & (x <= 1))
        if _some(wrong):
            expected = "log-odds" if logits else "probabilities in [0, 1]"
            remedy = "drop the row" if logits else "pass probabilities, or logits=True if they are log-odds"
            raise _refused_at(x.reshape(1) if x.ndim == 0 else x, wrong, expected, remedy)

    def of_labels(self) -> list[CalibrationMap]:
        """Return the maps of the labels, of a map of kind "labels".

        Raises
        ------
        calibrant.errors.InputError
            For a map of one event or of classes.
        """
        if self.kind != "labels":
            what = "of one event" if self.n_classes is None else "of classes"
            raise InputError("map", "a map of several labels", f"a map {what}", "use the map itself")
        return [replace(self, kind=each["kind"], parameters=each["parameters"]) for each in self.parameters["maps"]]

    def inverse(self, probability: float) -> float:
        """Return the score that the map turns into this probability, such as the score to act at.

        Raises
        ------
        calibrant.errors.InputError
            For a probability that the map does not reach, and for a map of bins, classes or labels.
        """
        if self.kind == "bins" or not isinstance(self.form, Pieces):
            got = f"a map of {'bins' if self.kind == 'bins' else 'several classes'}"
            remedy = "use a map of one event that was fitted by another method, such as isotonic"
            raise InputError("map", "a strictly increasing map of one event", got, remedy)
        low, high = (float(self(np.array([end]))[0]) for end in (0.0, 1.0))
        if not low <= probability <= high:
            expected = f"a probability that the map reaches, from {low:.6g} to {high:.6g}"
            raise InputError("probability", expected, f"{probability!r}", "pass one of these")
        if self.kind == "identity":
            return float(probability)
        return self.form.score_at(math.log(probability) - math.log1p(-probability))

    def check(self, probs: ArrayLike) -> ScoreDrift:
        """Return how new scores differ from the fitted ones; ``drifted`` says whether more than chance explains.

        It sees scores only. Whether the map still fits needs outcomes: make a report.

        Raises
        ------
        calibrant.errors.InputError
            For a map of known rates, which was not fitted to scores; without scores, and for scores that the map
            rejects.
        """
        if self.fitted is None:
            remedy = "estimate the event rate from scores, with calibrant.prior_shift"
            raise InputError("map", "a map that was fitted to scores", "a map from a known event rate alone", remedy)
        watch, tensor = Watch(self.fitted), on_device(probs)
        if tensor is not None and isinstance(self.form, Softmax):
            from calibrant.recalibration import on_tensors

            checked = real_tensor("probs", tensor)
            self._check(on_tensors.in_double(checked), name_of_type(tensor), logits=False)
            watch.add(as_values("probs", checked.amax(-1)))
        else:
            watch.add(self.watched(self._valid(probs)))
        return watch.result()

    def watched(self, probs: NDArray[Any], *, logits: bool = False) -> NDArray[Any]:
        """Return the scores whose drift is watched: of classes the largest probability of each row."""
        if isinstance(self.form, Softmax):
            p = np.exp(log_softmax(probs.reshape(-1, self.form.n_classes))) if logits else probs
            return np.asarray(p.max(axis=-1))
        return probabilities(probs) if logits else probs

    def to_sql(self, column: str | Sequence[str], *, quote: str = '"') -> str | list[str]:
        """Return the map as an expression of SQL over a column of scores; of C classes or labels as C expressions.

        NULL, NaN and numbers outside [0, 1] become NULL, and so do rows of classes whose sum is not 1. The numbers
        equal those of Python to rounding. The database needs CASE, LN and EXP, and for classes ABS.

        Parameters
        ----------
        column : str or sequence of str
            The name of the column, or those of the classes. Reserved words, and other names than letters, digits and
            underscores, are quoted.
        quote : str
            The quotation mark of the dialect: "`" for Spark and BigQuery.

        Raises
        ------
        calibrant.errors.InputError
            For another number of columns, a quotation mark that is not one character, and for matrix scaling or more
            than 64 classes.

        Examples
        --------
        >>> import calibrant
        >>> fix = calibrant.recalibrate([0.2] * 50 + [0.8] * 50, [1] * 10 + [0] * 40 + [1] * 40 + [0] * 10)
        >>> fix.map.to_sql("risk")
        'CASE WHEN risk >= 0 AND risk <= 1 THEN risk * 1e0 END'
        """
        form = self.form
        if isinstance(form, Softmax):
            return forms.sql_of_classes(form, column, quote=quote)
        if isinstance(form, Labels):
            columns = forms.columns_of(column, len(form.maps))
            return [forms.sql(each, name, quote=quote) for each, name in zip(form.maps, columns, strict=True)]
        return forms.sql(form, forms.one_column(column), quote=quote)

    def to_expression(self, column: str | nw.Expr | Sequence[str]) -> nw.Expr | list[nw.Expr]:
        """Return the map as an expression of Narwhals, for frames of any engine; invalid scores become null.

        A map of classes or labels takes the names of the columns, and returns an expression for each of them. It raises
        the errors of `to_sql`.
        """
        import narwhals as nw

        form = self.form
        if isinstance(form, Softmax):
            return forms.expressions_of_classes(form, column)
        if isinstance(form, Labels):
            columns = forms.columns_of(column, len(form.maps))
            return [forms.expression(each, name) for each, name in zip(form.maps, columns, strict=True)]
        return forms.expression(form, column if isinstance(column, nw.Expr) else forms.one_column(column))

    def to_onnx(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Return the map as a model of ONNX, and with ``path`` write it there, as a whole or not at all.

        Its input ``score`` and its output ``probability`` are vectors of doubles, (N,), or matrices of classes or
        labels, (N, C). Invalid scores, and invalid rows of classes, become NaN.

        Returns
        -------
        onnx.ModelProto
            The model, of opset 17.

        Raises
        ------
        calibrant.errors.MissingDependencyError
            Without onnx, which the extra ``onnx`` installs.
        """
        form = self.form
        if isinstance(form, Pieces):
            model = forms.onnx_model(form)
        else:
            model = forms.onnx_of_classes(form) if isinstance(form, Softmax) else forms.onnx_of_labels(form)
        if path is not None:
            replace_file(os.fspath(path), model.SerializeToString())
        return model

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the map as JSON with a checksum; with ``path`` also write it there, as a whole or not at all.

        Raises
        ------
        calibrant.errors.InputError
            For a map of more than 64 MB, such as matrix scaling of 2,000 classes.
        """
        text = json.dumps(self._stored, indent=1, allow_nan=False, ensure_ascii=False)
        _check_size("map", text, "use vector scaling, which has one factor for each class")
        if path is not None:
            replace_file(os.fspath(path), f"{text}\n".encode())
        return text

    @property
    def _stored(self) -> dict[str, Any]:
        """The map as JSON content with a checksum."""
        content = {
            "schema": MAP.schema,
            "version": MAP.versions[-1],
            "kind": self.kind,
            "parameters": dict(self.parameters),
            "event": dict(self.event),
            "fitted": plain_fitted(self.fitted),
            "evidence": dict(self.evidence),
            "proven": self.proven,
        }
        return MAP.sealed(content)

    @classmethod
    def from_json(cls, text: str | bytes) -> CalibrationMap:
        """Return the map that `to_json` wrote.

        Raises
        ------
        calibrant.errors.InputError
            For text that is not a map, is damaged, or has an unknown version or kind; for the maps of several
            questions, which it names.
        """
        _check_size("text", text, MAP.origin)
        content = MAP.parsed(text, "text")
        if MAPS.is_kind(content):
            names = [quoted(short(name)) for name in _stored_maps(content)]
            got = f"the maps of {len(names):,} question{'s' * (len(names) != 1)}: {named(names, _NAMED)}"
            remedy = "make the map of one question (--question), or read all in Python with calibrant.read_maps"
            raise InputError("text", "one calibration map", got, remedy)
        return cls._restored(content)

    @classmethod
    def _restored(cls, stored: Any) -> CalibrationMap:
        """Return the map of JSON content."""
        content = MAP.opened(stored, "text")
        with MAP.restoring("text"):
            read = cls(
                kind=content["kind"],
                parameters=content["parameters"],
                event=content["event"],
                fitted=_fitted(content["fitted"]),
                evidence=content["evidence"],
                proven=content["proven"],
            )
            require(type(read.proven) is bool and isinstance(read.evidence, dict), "evidence of another type")
            require(not (read.assumed and read.proven), "proof of what is assumed")
            require(read.assumed or (read.fitted and read.fitted.positives is not None), "no rows with outcomes")
            _check_form(read.form)
            _check_event(read)
        return read

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> CalibrationMap:
        """Return the map in a file that `to_json` wrote.

        Raises
        ------
        calibrant.errors.FileError
            For a file that cannot be read or is not a map.
        """
        name = os.fspath(path)
        with of_file(name):
            return cls.from_json(read_bytes(name, MAP.origin))

    def __repr__(self) -> str:
        return f"<CalibrationMap: {self.described}>"

    @property
    def described(self) -> str:
        """What the map is, in a line: its family, its formula, its classes and the rows that it was fitted to."""
        form = self.form
        if isinstance(form, Labels):
            what = f"maps of {len(form.maps):,} label{'s' * (len(form.maps) != 1)}"
        elif (temperature := _temperature(form)) is not None:
            what = f"temperature, T = {temperature:.3g}"
        else:
            what = ", ".join(filter(None, [_family(self.kind, form, formula_of(self)), formula_of(self)]))
        classes = [f"{form.n_classes:,} classes"] if isinstance(form, Softmax) else []
        rows = "assumed" if self.fitted is None else f"fitted to {rows_text(self.fitted.n)}"
        return ", ".join([what, *classes, rows])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CalibrationMap) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())


def formula_of(fitted: CalibrationMap) -> str:
    """Return the formula of a map of one event or of classes, or its size; empty if the map has no short one."""
    form, numbers = fitted.form, fitted.parameters
    if isinstance(form, Softmax):
        temperature = _temperature(form)
        return "" if temperature is None else f"temperature {temperature:.3g}"
    if fitted.kind == "line" and (numbers["intercept"], numbers["slope"]) != _NO_CHANGE:
        intercept, slope = numbers["intercept"], numbers["slope"]
        constant = f" {'+' if intercept > 0 else '-'} {abs(intercept):.3g}" if intercept else ""
        return f"{slope:.3g} × log-odds{constant}"
    if fitted.kind == "knots":
        return f"{len(numbers['log_odds'])} knots"
    if fitted.kind == "bins":
        rates = numbers["rates"]
        return f"{len(rates)} bins" if len(rates) > 1 else f"{rates[0]:.4g}, for every score"
    return ""


def _temperature(form: Pieces | Softmax) -> float | None:
    """Return the temperature that divides the logits, if that is all that a map does."""
    if isinstance(form, Softmax):
        same = not form.is_matrix and np.ptp(form.factors) == 0
        factor, constant = (float(form.factors[0]) if same else 1.0), bool(form.constants.any())
    else:
        factor, constant = float(form.positive[0]), len(form.constants) > 1 or bool(form.constants[0] != 0)
        constant = constant or bool(form.negative[0] != factor)
    return None if constant or factor in (0.0, 1.0) else 1 / factor


def _family(kind: str, form: Pieces | Softmax, formula: str) -> str:
    """Return the family of a map of one event or of classes; bins have only a formula."""
    if isinstance(form, Softmax):
        family = "matrix" if form.is_matrix else "vector"
        unchanged = not form.is_matrix and bool((form.factors == 1).all()) and not form.constants.any()
    else:
        family = {"line": "logistic", "beta": "beta", "knots": "isotonic"}.get(kind, "")
        unchanged = kind == "identity" or (kind == "line" and not formula)
    if not unchanged:
        return family
    return "unchanged scores" if form.unchanged else "scores clipped away from 0 and 1"


def maps_to_json(maps: Mapping[str, CalibrationMap]) -> str:
    """Return maps by the names of their questions as JSON with a checksum, in ASCII: a line for each question.

    Raises
    ------
    calibrant.errors.InputError
        Without a map; for a name that is not Unicode text; for more than 640 MB.
    """
    if not maps:
        raise InputError(
            "maps",
            "one map or more",
            "none",
            "to write maps without evidence that they help, pass anyway=True (--anyway)",
        )
    for name in maps:
        if not name.isascii():
            try:
                check_json(name)
            except ValueError:
                raise InputError("maps", "names in Unicode", ascii(name)[:80], "rename the question") from None
    stored = {name: fitted._stored for name, fitted in maps.items()}
    sealed = MAPS.sealed({"schema": MAPS.schema, "version": MAPS.versions[-1], "maps": stored})
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(each, allow_nan=False)}" for name, each in stored.items())
    parts = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in sealed.items() if key != "maps"]
    parts.insert(2, f'"maps": {{\n{lines}\n}}')
    text = "{\n" + ",\n".join(parts) + "\n}"
    _check_size("maps", text, "write the maps of fewer questions", _MOST_BYTES_OF_MAPS)
    return text


def read_maps(path: str | os.PathLike[str], /) -> dict[str, CalibrationMap]:
    """Return the maps in a file that `calibrant recalibrate --map` wrote for the log of a decision model.

    Parameters
    ----------
    path : path
        The file, of at most 640 MB. `QuestionRecalibrations.maps_to_json` writes it too.

    Returns
    -------
    dict of str to CalibrationMap
        The map of each question, by its name, in the order of the file. It takes the probability of yes of a predicate,
        (N,), or of all options or levels, (N, C). If the options differ between rows, it takes that of the
        likeliest one, (N,), and ``event["notion"]`` is "top-label". ``proven`` says whether the gain was proven among
        all questions of the log. Questions without a proven map are only in files written with ``anyway``.

    Raises
    ------
    calibrant.errors.FileError
        For a file that cannot be read, is damaged, or does not contain the maps of questions; for the file of one map,
        which `CalibrationMap.read` reads.

    Examples
    --------
    >>> import os
    >>> import tempfile
    >>> import calibrant
    >>> rows = [{"answers": {"urgent": {"noul": 0.9}}, "labels": {"urgent": i % 2 == 0}} for i in range(400)]
    >>> fixes = calibrant.recalibrate(calibrant.read_decisions(rows))
    >>> path = os.path.join(tempfile.mkdtemp(), "maps.json")
    >>> _ = fixes.maps_to_json(path)
    >>> maps = calibrant.read_maps(path)
    >>> {name: round(float(fitted(0.9)), 1) for name, fitted in maps.items()}
    {'urgent': 0.5}
    """
    name = os.fspath(path)
    with of_file(name):
        content = MAPS.parsed(read_bytes(name, MAPS.origin, _MOST_BYTES_OF_MAPS), "text")
        if MAP.is_kind(content):
            remedy = "read it with calibrant.CalibrationMap.read"
            raise InputError("text", MAPS.kind, "one calibration map", remedy)
        return {question: CalibrationMap._restored(each) for question, each in _stored_maps(content).items()}


def _stored_maps(content: Any) -> dict[str, Any]:
    """Return the JSON contents of the maps in that of a file of maps, one or more."""
    stored = MAPS.opened(content, "text")
    with MAPS.restoring("text"):
        maps: dict[str, Any] = stored["maps"]
        require(isinstance(maps, dict) and maps, "no maps")
        return maps


def _check_size(argument: str, text: str | bytes, remedy: str, most: int = MOST_BYTES) -> None:
    size = len(text.encode("utf-8", "surrogatepass")) if isinstance(text, str) else len(text)
    if size > most:
        raise InputError(argument, f"at most {most:,} bytes", f"{size:,}", remedy)


def _softmax(parameters: Mapping[str, Any]) -> Softmax:
    constants, factors = floats(parameters["constants"]), parameters["factors"]
    if isinstance(factors, list) and factors and isinstance(factors[0], list):
        matrix = np.stack([floats(row) for row in factors])
    else:
        matrix = floats(factors)
    alike = len(constants) > 1 and {*matrix.shape} == {len(constants)}
    require(alike, "a number of factors that differs from the number of classes")
    return Softmax(matrix, constants, number(parameters["smallest"], 0.0, HIGHEST))


def _labels(parameters: Mapping[str, Any]) -> Labels:
    maps = listed(parameters["maps"], dict)
    require(0 < len(maps) <= _MOST_LABELS, f"{len(maps):,} labels")
    return Labels(tuple(Pieces.of(each["kind"], each["parameters"]) for each in maps))


_FORMS: Final[Mapping[str, Callable[[Mapping[str, Any]], Form]]] = {
    **{kind: partial(Pieces.of, kind) for kind in KINDS},
    "softmax": _softmax,
    "labels": _labels,
}


def plain_fitted(fitted: Fitted | None) -> dict[str, Any] | None:
    """Return what a map was fitted to as content of JSON."""
    return None if fitted is None else {**vars(fitted), "quantiles": list(fitted.quantiles)}


def _fitted(stored: dict[str, Any] | None) -> Fitted | None:
    """Return what a stored map was fitted to."""
    if stored is None:
        return None
    scores = [stored["low"], stored["high"], *listed(stored["quantiles"], float)]
    low, high, *quantiles = (number(score, 0.0, 1.0) for score in scores)
    rising = len(quantiles) > 1 and quantiles == sorted(quantiles)
    require(rising, "quantiles that do not increase")
    require(type(stored["cluster"]) is bool, "a key 'cluster' that is neither true nor false")
    n, positives = integer(stored["n"], 1, _MOST_ROWS), stored["positives"]
    positives = None if positives is None else number(positives, 0.0, _MOST_WEIGHT)
    return Fitted(**{**stored, "n": n, "positives": positives, "low": low, "high": high, "quantiles": tuple(quantiles)})


def _check_event(read: CalibrationMap) -> None:
    """Reject an unknown notion, and other names than one for each class."""
    require(read.event["notion"] in (*NOTIONS, "classes"), "an unknown notion")
    if read.event["class_names"] is not None:
        names = listed(read.event["class_names"], str)
        require(
            len(names) == len({*names}) == (read.n_classes or len(names)),
            "repeated class names, or a number of names that differs from the number of classes",
        )


def _check_form(form: Form) -> None:
    """Reject numbers that no fit gives."""
    if isinstance(form, Softmax):
        _check_range(form.factors, form.constants)
        return
    for pieces in form.maps if isinstance(form, Labels) else [form]:
        bins = not (pieces.positive.any() or pieces.negative.any())  # empty ones are at an end
        constants = probabilities(pieces.constants) if bins else pieces.constants
        _check_range(pieces.breaks, constants, pieces.positive, pieces.negative)
        require((np.diff(pieces.breaks) > 0).all(), "scores in another order")
        require((pieces.positive >= 0).all() and (pieces.negative >= 0).all(), "a map that falls")
        require(pieces.unchanged or 0 <= pieces.smallest < 0.5 < pieces.largest <= 1, "limits of other scores")


def _check_range(*parts: Float64s) -> None:
    """Reject numbers that are larger than a fit can give, and NaN."""
    require(all((np.abs(numbers) <= MOST).all() for numbers in parts), "numbers that are too large")


def _of_classes(softmax: Softmax, x: Float64s, *, logits: bool) -> Float64s:
    """Return the mapped probabilities of valid classes (..., C)."""
    rows = x.reshape(-1, softmax.n_classes)
    if softmax.unchanged:
        return x.copy() if not logits else np.exp(log_softmax(rows)).reshape(x.shape)
    mapped = np.exp(softmax.log_probabilities(log_probabilities(rows, softmax.smallest, logits=logits)))
    return np.asarray(np.maximum(mapped, LEAST).reshape(x.shape))


def _check_classes(rows: Any, x: Any, tolerance: float, *, logits: bool) -> None:
    """Reject a row (n, C) that is not valid; ``x`` are the rows as they were passed, (..., C)."""
    if logits:
        wrong = (rows != rows) | (rows == math.inf) | (rows == -math.inf).all(axis=1, keepdims=True)
        expected, remedy = "logits", "drop the row"
    else:
        wrong = ~((rows >= 0) & (rows <= 1))
        expected, remedy = "probabilities in [0, 1]", "pass probabilities, or logits=True if they are logits"
    if _some(wrong):
        raise _refused_at(x, wrong.reshape(x.shape), expected, remedy)
    if logits:
        return
    sums = rows.sum(axis=1)
    off = abs(sums - 1) > tolerance
    if _some(off):
        row = _first(off)
        at = f"{_on_host(sums[row]):.10g} at row {row}"
        raise InputError("probs", "rows with the sum 1", at, "pass the probabilities of all classes", row=row)


def _on_host(x: Any) -> Any:
    """Return a number of an array or a tensor."""
    return to_host(x)[()] if is_tensor(x) else x


def _some(mask: Any) -> bool:
    return bool(_on_host(mask.any()))


def _first(mask: Any) -> int:
    """Return the first true entry, counted row by row."""
    flat = mask.reshape(-1)
    return int(to_host(flat.byte().argmax()) if is_tensor(flat) else flat.argmax())


def _refused_at(x: Any, wrong: Any, expected: str, remedy: str) -> InputError:
    place = tuple(int(i) for i in np.unravel_index(_first(wrong), tuple(x.shape)))
    at = place[0] if len(place) == 1 else place
    column = place[1] if len(place) == 2 else None
    got = f"{wording.number(_on_host(x[place]))} at row {at}"
    return InputError("probs", expected, got, remedy, row=place[0], column=column)
