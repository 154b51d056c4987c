"""Models in files of their own: their rows side by side, by position or by keys."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.clusters import SEPARATOR
from calibrant.errors import FileError, quoted
from calibrant.files.paths import KINDS
from calibrant.files.predictions import FileModels, FilePredictions
from calibrant.inputs.groups import group_name

_ALIKE = {"targets": "outcome", "weights": "weight", "groups": "group", "clusters": "cluster"}


def model_names(models: Sequence[str]) -> list[str]:
    """Return a name for each model: its file without folder and ending, or all of it where two would be alike."""
    names = []
    for path in models:
        name = os.path.basename(path)
        ending = max((ending for ending in KINDS if name.lower().endswith(ending)), key=len, default="")
        names.append(name[: len(name) - len(ending)] or path)
    return names if len(set(names)) == len(names) else list(models)


def matched(models: Mapping[str, FilePredictions]) -> FileModels:
    """Return models that were read from files of their own, their rows in the order of the first model's.

    Rows belong together by their keys if there are any, otherwise by their positions. What is no prediction must be
    alike in all files: outcomes, weights, groups and clusters.

    Raises
    ------
    FileError
        For files of different numbers of rows, or whose rows, keys or classes do not match.
    """
    first, *others = models.values()
    shared = {name: first.arrays[name] for name in _ALIKE if name in first.arrays}
    probs = [first.probs]
    for other in others:
        order = _order(first, other)
        _check_clusters(first, other)
        for argument, values in shared.items():
            _check_alike(argument, first, values, other, other.arrays[argument], order)
        if other.probs.shape[1:] != first.probs.shape[1:]:
            problem = f"holds {_events(other)}, and {_title(first.paths)} {_events(first)}"
            raise FileError(other.paths[0], problem, "compare models of the same classes")
        if other.class_names != first.class_names:
            listed = [", ".join(each.class_names or ("numbered",)) for each in (other, first)]
            problem = f"has the classes {listed[0]}, and {first.paths[0]} {listed[1]}"
            raise FileError(other.paths[0], problem, "name the columns in one order with --probs a,b,c")
        probs.append(other.probs if order is None else other.probs[order])
    return _side_by_side(models, probs, shared)


def _side_by_side(
    models: Mapping[str, FilePredictions], probs: Sequence[NDArray[Any]], shared: Mapping[str, NDArray[Any]]
) -> FileModels:
    """Return models as one value, from their probabilities in the order of the first model's rows."""
    reads = list(models.values())
    first = reads[0]
    arguments = {name: f"probs[{name!r}]" for name in models}
    by_argument = dict(zip(arguments.values(), reads, strict=True))
    columns = {argument: read.columns["probs"] for argument, read in by_argument.items()}
    sources = {argument: _source(read) for argument, read in by_argument.items()}
    sources |= {name: source for name, source in first.sources.items() if name != "probs"}
    protocols = list(dict.fromkeys(read.protocol for read in reads if read.protocol))
    if protocols:
        sources["protocol"] = " | ".join(protocols)
    files = [(read, number) for read in reads for number in range(len(read.paths))]
    return FileModels(
        arrays={**dict(zip(arguments.values(), probs, strict=True)), **shared},
        class_names=first.class_names,
        columns=columns | {name: names for name, names in first.columns.items() if name != "probs"},
        sources=sources,
        paths=tuple(read.paths[number] for read, number in files),
        rows=tuple(read.rows[number] for read, number in files),
        find_row=lambda number, row: files[number][0].find_row(files[number][1], row),
        targets_from=first.targets_from,
        doubts=tuple(dict.fromkeys(f"{_title(read.paths)}: {doubt}" for read in reads for doubt in read.doubts)),
        repeated=first.repeated,
        models=arguments,
        logits={name: read.logits for name, read in models.items()},
    )


def _events(read: FilePredictions) -> str:
    shape = read.probs.shape[1:]
    return f"probabilities of {shape[0]:,} classes" if shape else "the probability of one event"


def _source(read: FilePredictions) -> str:
    """Say where the predictions of a model are; an .npy has no columns."""
    source = read.sources["probs"]
    return source if source in read.paths else f"{source} in {_title(read.paths)}"


def _title(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{paths[0]} … ({len(paths)} files)"


def _order(first: FilePredictions, other: FilePredictions) -> NDArray[np.intp] | None:
    """Return the place of each row of the first model in the other; None where the positions are alike."""
    if "keys" not in first.arrays:
        if len(first.probs) != len(other.probs):
            problem = f"has {len(other.probs):,} rows, and {_title(first.paths)} {len(first.probs):,}"
            remedy = "name the column that tells which row is which, such as --on id"
            raise FileError(other.paths[0], problem, remedy)
        return None
    keys, others = _comparable(first.arrays["keys"], other.arrays["keys"])
    places = []
    for read, values in ((first, keys), (other, others)):
        distinct, index, counts = np.unique(values, return_index=True, return_counts=True)
        if (counts > 1).any():
            twice = int(index[counts > 1].min())
            path, row = read.locate(twice)
            many = int(counts[np.searchsorted(distinct, values[twice])])
            problem = f"row {row:,}, {_in_words(read)} is that of {many} rows: {_shown(values[twice])}"
            raise FileError(path, problem, "name more columns, --on once for each, that name one row together")
        places.append((distinct, index))
    (mine, _), (theirs, index) = places
    for one, values, another, other_keys in ((first, keys, other, theirs), (other, others, first, mine)):
        missing = ~np.isin(values, other_keys)
        if missing.any():
            row, number = int(np.argmax(missing)), int(missing.sum())
            path, data_row = one.locate(row)
            more = f", and {number - 1:,} more of its rows" * (number > 1)
            problem = (
                f"row {data_row:,}, {_in_words(one)}: {_shown(values[row])} is not in {_title(another.paths)}{more}"
            )
            raise FileError(path, problem, "compare files of the same rows, or leave the others out with --where")
    return index[np.searchsorted(theirs, keys)]


def _check_clusters(first: FilePredictions, other: FilePredictions) -> None:
    """Reject logs if one has several rows for a question and the other has not."""
    several, once = (first, other) if "clusters" in first.arrays else (other, first)
    if "clusters" in several.arrays and "clusters" not in once.arrays:
        problem = f"answers each question once, and {_title(several.paths)} several times"
        raise FileError(once.paths[0], problem, "compare logs of the same questions and epochs")


def _check_alike(
    argument: str,
    first: FilePredictions,
    values: NDArray[Any],
    other: FilePredictions,
    others: NDArray[Any],
    order: NDArray[np.intp] | None,
) -> None:
    """Reject a row whose outcome, weight, group or cluster differs between the files."""
    others = others if order is None else others[order]
    one, another = _comparable(values, others)
    differs = (
        np.ones(len(one), bool) if one.shape != another.shape else (one != another).reshape(len(one), -1).any(axis=1)
    )
    if not differs.any():
        return
    row = int(np.argmax(differs))
    path, data_row = other.locate(row if order is None else int(order[row]))
    first_path, first_row = first.locate(row)
    got = f"row {data_row:,}, column {quoted(other.column_name(argument))} holds {_shown(another[row])}"
    problem = f"{got}, and row {first_row:,} of {first_path} {_shown(one[row])}"
    if order is None:
        remedy = "if the rows have another order, name the column that tells which row is which, such as --on id"
    else:
        remedy = f"correct the {_ALIKE[argument]} in one of them"
    raise FileError(path, problem, remedy)


def _comparable(one: NDArray[Any], other: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return two columns as numbers if both are numbers, otherwise both as text."""
    if all(each.dtype.kind in "fiub" for each in (one, other)) or one.dtype == other.dtype != np.dtype(object):
        return one, other
    texts = [np.array([group_name(value) for value in each.reshape(-1)], object) for each in (one, other)]
    return texts[0].reshape(one.shape), texts[1].reshape(other.shape)


def _in_words(read: FilePredictions) -> str:
    names = read.columns["keys"]
    return f"column {quoted(names[0])}" if len(names) == 1 else f"columns {', '.join(map(repr, names))}"


def _shown(value: Any) -> str:
    return repr(value.replace(SEPARATOR, ", ") if isinstance(value, str) else np.asarray(value).item())
