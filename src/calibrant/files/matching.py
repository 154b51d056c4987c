"""Models side by side: from files of their own, or from one long file with a column that names the model.

Rows belong together by their keys, if there are any, otherwise by their positions. With keys the rows that every model
has are compared, in the order of the first model's, and the rows that are left out are counted.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import FileError, quoted
from calibrant.files.column_words import role_of
from calibrant.files.hints import keys_of_rows
from calibrant.files.loaded import FileModels, FilePredictions
from calibrant.files.paths import ending_of
from calibrant.inputs.group_rows import group_name
from calibrant.table.cluster_labels import SEPARATOR

#: The most models in one file.
MOST_MODELS: Final = 200

_FEW: Final = 3  # models whose columns are listed one by one
_LARGEST_INTEGER: Final = 2**53  # floats hold all integers up to this one
_DOUBTFUL: Final = 0.05  # of the rows: outcomes that differ in fewer may be mistakes

#: What must be alike for all models, and what a row's is called.
_ALIKE: Final = {"targets": "outcome", "weights": "weight", "groups": "group", "clusters": "cluster"}
_SPARSE: Final = "or pass --sparse to compare models that answered different questions"
_NOTHING_IN_COMMON: Final = f"compare models that answer the same questions, {_SPARSE}"


def model_names(models: Sequence[str]) -> list[str]:
    """Return a name for each model: its file without folder and ending, or where two would be alike, its path.

    Folders that all paths begin with are left out, and a file name that all share.
    """
    files = [os.path.basename(path) for path in models]
    names = [file[: len(file) - len(ending_of(file))] or path for file, path in zip(files, models, strict=True)]
    if len(set(names)) == len(names):
        return names
    parts = [path.replace(os.sep, "/").split("/") for path in models]
    common = len(os.path.commonprefix([each[:-1] for each in parts]))  # noqa: RUF071 - lists of folders
    ends = [each[common:] for each in parts]
    folders = ["/".join(each[:-1]) for each in ends]
    if len({each[-1] for each in ends}) == 1 and all(folders) and len(set(folders)) == len(folders):
        return folders
    paths = ["/".join(each) for each in ends]
    return paths if len(set(paths)) == len(paths) else list(models)


def check_models(path: str, column: str, number: int) -> None:
    """Reject a column that names too few or too many models."""
    if number < 2:
        problem = f"column {quoted(column)} names one model"
        raise FileError(path, problem, "name the column of models with --by, or use calibrant report")
    if number > MOST_MODELS:
        problem = f"column {quoted(column)} names {number:,} models, but at most {MOST_MODELS} are compared"
        raise FileError(path, problem, "name the column of models with --by, or choose models with --where")


def by_model(read: FilePredictions) -> dict[str, FilePredictions]:
    """Return the rows of each model of a long file, by the models' names, in the order of their first rows.

    The groups of the file are its models.
    """
    codes: dict[Any, int] = {}
    numbers = [codes.setdefault(value, len(codes)) for value in read.arrays["groups"].tolist()]
    check_models(read.paths[0], read.sources["groups"], len(codes))
    model_of_row = np.array(numbers, np.intp)
    order = np.argsort(model_of_row, kind="stable")
    ends = np.cumsum(np.bincount(model_of_row))[:-1]
    every = _without(read, "groups")
    return {group_name(name): _rows_of(every, rows) for name, rows in zip(codes, np.split(order, ends), strict=True)}


def _rows_of(read: FilePredictions, rows: NDArray[np.intp]) -> FilePredictions:
    """Return some rows of a file, with the way back to it."""
    return replace(
        read,
        arrays={argument: values[rows] for argument, values in read.arrays.items()},
        rows=(len(rows),),
        paths=read.paths[:1],
        find_row=lambda _, row: read.locate(int(rows[row]))[1],
    )


def _without(read: FilePredictions, argument: str) -> FilePredictions:
    """Return what was read, without an argument."""
    parts: Any = {
        part: {name: value for name, value in getattr(read, part).items() if name != argument}
        for part in ("arrays", "sources", "columns")
    }
    return replace(read, **parts)


# ---------------------------------------------------------------- rows that belong together


class Keyed(NamedTuple):
    """One model with the numbers of its keys."""

    name: str
    read: FilePredictions
    keys: NDArray[np.intp]


def matched(
    models: Mapping[str, FilePredictions], *, own: bool | None = False, long: bool = False, keyed: bool = True
) -> FileModels:
    """Return models with their rows side by side, in the order of the first model's.

    What is not a prediction must be alike in all of them: outcomes, weights, groups and clusters. It raises `FileError`
    for models of different numbers of rows, or whose rows, keys or classes do not match.

    Parameters
    ----------
    models : mapping
        What was read of each model.
    own : bool or None
        Whether each model has outcomes of its own. None: if they differ.
    long : bool
        Whether the models are rows of one file.
    keyed : bool
        Whether the keys were asked for. Otherwise keys that stand twice in a model, or that models do not share, are of
        no use, and outcomes must be alike.
    """
    if not keyed and not _share_keys(list(models.values())):
        models, own = {name: _without(read, "keys") for name, read in models.items()}, own or False
    reads = list(models.values())
    _check_files(reads[0], reads[1:])
    each = [_Placed(*model, places) for model, places in zip(models.items(), _places(models, long=long), strict=True)]
    first, differing = each[0], np.zeros(len(each[0].values("probs")), np.bool_)
    if own is None and reads[0].probs.ndim > 1:
        own = False  # true classes are those of the questions
    for other in each[1:]:
        for argument in (name for name in _ALIKE if name in first.read.arrays):
            differs = _differing(argument, first, other)
            if argument != "targets" or own is False:
                _check_alike(argument, differs, first, other, long=long)
            else:
                differing |= differs
    number = int(np.count_nonzero(differing))
    if own is None:
        check_doubtful(first.read, number, len(differing))
    return _side_by_side(each, own=number > 0 if own is None else own, differing=number, long=long)


def check_doubtful(first: FilePredictions, differing: int, rows: int) -> None:
    """Ask whose outcomes they are, where they differ in few rows and the name of their column does not say it."""
    column = first.column_name("targets")
    if 0 < differing < _DOUBTFUL * rows and role_of(column) != "right":
        problem = f"column {quoted(column)} differs between the models in {differing:,} of {rows:,} rows"
        remedy = (
            "pass --own-outcomes if each model has its own outcomes; if the outcomes should be the same, pass "
            "--same-outcomes to see the first row that differs"
        )
        raise FileError(first.paths[0], problem, remedy)


def _check_files(first: FilePredictions, others: Sequence[FilePredictions]) -> None:
    """Reject models of other classes, and logs that repeat questions among logs that do not."""
    for other in others:
        several, once = (first, other) if "clusters" in first.arrays else (other, first)
        if "clusters" in several.arrays and "clusters" not in once.arrays:
            problem = f"answers each question once, but {_title(several.paths)} answers questions several times"
            raise FileError(once.paths[0], problem, "compare logs of the same questions and epochs")
        if other.probs.shape[1:] != first.probs.shape[1:]:
            problem = f"contains {_events(other)}, but {_title(first.paths)} contains {_events(first)}"
            raise FileError(other.paths[0], problem, "compare models of the same classes")
        if other.class_names != first.class_names:
            listed = [", ".join(each.class_names or ("numbered",)) for each in (other, first)]
            problem = f"has the classes {listed[0]}, but {first.paths[0]} has {listed[1]}"
            raise FileError(other.paths[0], problem, "name the columns in the same order with --probs a,b,c")


def _places(models: Mapping[str, FilePredictions], *, long: bool) -> list[NDArray[np.intp] | None]:
    """Return for each model the places of the rows that all have; None where they are all rows in their order."""
    first, *others = models.values()
    if "keys" not in first.arrays:
        for other in others:
            if len(first.probs) != len(other.probs):
                problem = f"has {len(other.probs):,} rows, but {_title(first.paths)} has {len(first.probs):,}"
                raise FileError(other.paths[0], problem, _by_key(first, other))
        return [None] * len(models)
    keyed, distinct = keyed_models(models)
    for each in keyed:
        check_once(each, distinct, long=long)
    counts = np.zeros(distinct.size, np.intp)
    for each in keyed:
        counts[each.keys] += 1
    common = counts == len(keyed)
    if not common.any():
        explain_nothing_in_common(keyed, distinct, long=long)
    _check_spelling(keyed, distinct, common)
    order = keyed[0].keys[common[keyed[0].keys]]
    places: list[NDArray[np.intp] | None] = []
    for each in keyed:
        if np.array_equal(each.keys, order):
            places.append(None)
            continue
        place_of_key = np.empty(distinct.size, np.intp)
        place_of_key[each.keys] = np.arange(len(each.keys))
        places.append(place_of_key[order])
    return places


def _share_keys(reads: Sequence[FilePredictions]) -> bool:
    """Whether no model has a key twice, and all models share some keys."""
    if any("keys" not in read.arrays for read in reads):
        return False
    keys = [set(read.arrays["keys"].tolist()) for read in reads]
    once = all(len(each) == len(read.probs) for each, read in zip(keys, reads, strict=True))
    return once and bool(set.intersection(*keys))


def keyed_models(models: Mapping[str, FilePredictions]) -> tuple[list[Keyed], NDArray[Any]]:
    """Return the models with their keys as numbers, and the distinct keys; all are numbers, or all are text."""
    first, *_ = models.values()
    is_text = first.arrays["keys"].dtype.kind not in "fiub"
    for other in models.values():
        if (other.arrays["keys"].dtype.kind not in "fiub") != is_text:
            words = ["text" if text else "numbers" for text in (not is_text, is_text)]
            problem = f"{_in_words(other)} contains {words[0]}, but {first.paths[0]} contains {words[1]}"
            raise FileError(
                other.paths[0], problem, "write the values of the --on column in the same form in all files"
            )
    if is_text:
        codes: dict[Any, int] = {}
        numbers = [
            np.array([codes.setdefault(key, len(codes)) for key in map(group_name, read.arrays["keys"].tolist())])
            for read in models.values()
        ]
        distinct: NDArray[Any] = np.array([*codes, None], object)[:-1]
    else:
        ends = np.cumsum([len(read.arrays["keys"]) for read in models.values()])[:-1]
        keys = _numbers([read.arrays["keys"] for read in models.values()], first.paths[0])
        distinct, inverse = np.unique(keys, return_inverse=True)
        numbers = np.split(inverse, ends)
    return [
        Keyed(name, read, keys.astype(np.intp)) for (name, read), keys in zip(models.items(), numbers, strict=True)
    ], distinct


def _numbers(keys: Sequence[NDArray[Any]], path: str) -> NDArray[Any]:
    """Return the keys of all models as numbers of one type, in which no two of them become one."""
    several = len({each.dtype for each in keys}) > 1 and any(each.dtype.kind in "iu" for each in keys)
    if several and any(np.abs(each.astype(object)).max(initial=0) > _LARGEST_INTEGER for each in keys):
        problem = "the values of the --on column are numbers above 2^53 of several types"
        raise FileError(path, problem, "write these values as text, or as integers of one type in all files")
    return np.concatenate(keys)


def check_once(model: Keyed, distinct: NDArray[Any], *, long: bool) -> None:
    """Reject a key that several rows of a model have."""
    counts = np.bincount(model.keys, minlength=distinct.size)
    if counts.max() <= 1:
        return
    twice = int(np.argmax(counts[model.keys] > 1))
    path, row = model.read.locate(twice)
    key, many = model.keys[twice], int(counts[model.keys[twice]])
    of_model = f" of model {quoted(model.name)}" * long
    problem = f"row {row:,}: {many} rows{of_model} have {shown_key(distinct[key])} in {_in_words(model.read)}"
    remedy = "name more columns that together identify one row, with --on for each column"
    if long:
        column = " ".join(f"--cluster {shlex.quote(name)}" for name in model.read.columns["keys"])
        remedy += (
            f"; if a model has several rows for one unit, such as the boxes of an image, pass {column} instead of --on"
        )
    raise FileError(path, problem, remedy)


def _check_spelling(keyed: Sequence[Keyed], distinct: NDArray[Any], common: NDArray[np.bool_]) -> None:
    """Reject keys that are left out because they are spelled in two ways, such as 0 and 0.0."""
    if distinct.dtype != object or common.all():
        return
    spelled: dict[Any, tuple[str, Keyed, int]] = {}
    for model in keyed:
        for place in np.flatnonzero(~common[model.keys]).tolist():
            text = str(distinct[model.keys[place]])
            plain = _plain(text)
            other = spelled.setdefault(plain, (text, model, place))
            if other[0] != text and other[1] is not model:
                path, row = model.read.locate(place)
                theirs = f"{other[1].read.locate(other[2])[1]:,} of model {quoted(other[1].name)}"
                where = f"row {row:,} of model {quoted(model.name)}, {_in_words(model.read)}"
                problem = f"{where}: {shown_key(text)} may be the same key as {shown_key(other[0])} in row {theirs}"
                raise FileError(path, problem, "write the values of the --on column in the same form for all models")


def _plain(text: str) -> str:
    """Return a key without spaces around it, and a whole number without zeros that do not change it."""
    match = re.fullmatch(r"([-+]?)0*([0-9]+)(\.0*)?", text.strip())
    return text.strip() if match is None else f"{match[1].strip('+')}{match[2]}"


def explain_nothing_in_common(keyed: Sequence[Keyed], distinct: NDArray[Any], *, long: bool) -> None:
    """Raise for models without a common key."""
    _check_spelling(keyed, distinct, np.zeros(distinct.size, np.bool_))
    first = keyed[0]
    for other in keyed[1:]:
        if not np.isin(first.keys, other.keys).any():
            examples = [shown_key(distinct[each.keys[0]]) for each in (first, other)]
            names = [f"model {quoted(each.name)}" if long else each.read.paths[0] for each in (first, other)]
            problem = f"{_in_words(first.read)} has no value that {names[0]} and {names[1]} have in common "
            problem += f"(such as {examples[0]} and {examples[1]})"
            raise FileError(other.read.paths[0], problem, _NOTHING_IN_COMMON)
    fewest = min(keyed, key=lambda model: len(model.keys))
    problem = f"{_in_words(first.read)} has no value that all {len(keyed)} models have in common; model "
    problem += f"{quoted(fewest.name)} has the fewest, {len(fewest.keys):,}"
    raise FileError(first.read.paths[0], problem, f"leave such models out, for example with --where, {_SPARSE}")


class _Placed(NamedTuple):
    """What was read of a model, and the places of the rows that are compared; None for all of them in their order."""

    name: str
    read: FilePredictions
    places: NDArray[np.intp] | None

    def values(self, argument: str) -> NDArray[Any]:
        """Return the values of an argument in the rows that are compared."""
        values = self.read.arrays[argument]
        return values if self.places is None else values[self.places]

    def locate(self, row: int) -> tuple[str, int]:
        """Return the file and the data row of a row that is compared."""
        return self.read.locate(row if self.places is None else int(self.places[row]))


def _differing(argument: str, first: _Placed, other: _Placed) -> NDArray[np.bool_]:
    """Return in which rows an outcome, weight, group or cluster differs between two models."""
    one, another = _comparable(first.values(argument), other.values(argument))
    if one.shape != another.shape:
        return np.ones(len(one), np.bool_)
    return np.asarray((one != another).reshape(len(one), -1).any(axis=1))


def _check_alike(argument: str, differs: NDArray[np.bool_], first: _Placed, other: _Placed, *, long: bool) -> None:
    """Reject a row whose outcome, weight, group or cluster differs between the models."""
    if not differs.any():
        return
    row = int(np.argmax(differs))
    (path, data_row), (first_path, first_row) = other.locate(row), first.locate(row)
    one, another = _comparable(first.values(argument), other.values(argument))
    got = f"row {data_row:,}, column {quoted(other.read.column_name(argument))} contains {shown_key(another[row])}"
    where = f"row {first_row:,}" + f" of {first_path}" * (not long)
    problem = f"{got}, but {where} contains {shown_key(one[row])}"
    remedy = f"correct the {_ALIKE[argument]} in one of the two {'rows' if long else 'files'}"
    if "keys" not in first.read.arrays:
        remedy = f"if the rows of the files are in different orders, {_by_key(first.read, other.read)}"
    if argument == "groups":
        remedy += ", or leave --by out if its column only names the model of each file"
    if argument == "targets" and other.read.probs.ndim == 1:
        remedy += "; if each model has its own outcomes, such as whether its answer is correct, pass --own-outcomes"
    raise FileError(path, problem, remedy)


def _by_key(first: FilePredictions, other: FilePredictions) -> str:
    """Return how to match the rows of two files in any order."""
    keys = keys_of_rows([first.paths[0], other.paths[0]])
    example = f", such as --on {shlex.quote(keys[0])}" if keys else " with --on"
    return f"name the column that identifies each row{example}"


def _comparable(one: NDArray[Any], other: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return two columns as numbers if both are numbers, otherwise both as text."""
    if all(each.dtype.kind in "fiub" for each in (one, other)) or one.dtype == other.dtype != np.dtype(object):
        return one, other
    texts = [np.array([group_name(value) for value in each.reshape(-1)], object) for each in (one, other)]
    return texts[0].reshape(one.shape), texts[1].reshape(other.shape)


# ---------------------------------------------------------------- the models as one value


def _side_by_side(models: Sequence[_Placed], *, own: bool, differing: int, long: bool) -> FileModels:
    """Return models as one value, in the order of the first model's rows."""
    first = models[0].read
    arguments = {model.name: f"probs[{model.name!r}]" + "[0]" * own for model in models}
    targets = {model.name: f"probs[{model.name!r}][1]" for model in models} if own else {}
    arrays = {arguments[model.name]: model.values("probs") for model in models}
    columns = {arguments[model.name]: model.read.columns["probs"] for model in models}
    for model in models if own else ():
        arrays[targets[model.name]] = model.values("targets")
        columns[targets[model.name]] = model.read.columns["targets"]
    shared = [name for name in _ALIKE if name in first.arrays and not (own and name == "targets")]
    compared = len(models[0].values("probs"))
    return FileModels(
        **_way_back(models, long=long),
        arrays={**arrays, **{name: models[0].values(name) for name in shared}},
        class_names=first.class_names,
        columns=columns | {name: names for name, names in first.columns.items() if name != "probs"},
        sources=_sources(models, arguments, long=long),
        targets_from=first.targets_from,
        doubts=_doubts(models, long=long),
        repeated=first.repeated,
        models=arguments,
        targets_of=targets,
        differing=differing,
        logits={model.name: model.read.logits for model in models},
        left_out={each.name: count for each in models if (count := len(each.read.probs) - compared)},
    )


def _way_back(models: Sequence[_Placed], *, long: bool) -> dict[str, Any]:
    """Return the files, their rows, and what finds a row in them."""
    first = models[0]
    if long or first.places is not None:  # the rows are some of those of the first model
        paths = dict.fromkeys(path for model in models for path in model.read.paths)
        rows = (len(first.values("probs")),)
        return {"paths": tuple(paths), "rows": rows, "find_row": lambda _, row: first.locate(row)[1]}
    files = [(model.read, number) for model in models for number in range(len(model.read.paths))]
    return {
        "paths": tuple(read.paths[number] for read, number in files),
        "rows": tuple(read.rows[number] for read, number in files),
        "find_row": lambda number, row: files[number][0].find_row(files[number][1], row),
    }


def _sources(models: Sequence[_Placed], arguments: Mapping[str, str], *, long: bool) -> dict[str, str]:
    """Return what was read as what; the columns of many models once, if they are the same."""
    first = models[0].read
    if long:
        sources = {"probs": f"{first.sources['probs']} of each model"}
    elif (len(models) > _FEW or first.protocol) and len({model.read.sources["probs"] for model in models}) == 1:
        sources = {"probs": f"{first.sources['probs']} in each of {len(models)} files"}
    else:
        sources = {arguments[model.name]: _source(model.read) for model in models}
    sources |= {name: source for name, source in first.sources.items() if name != "probs"}
    if "keys" not in sources:
        sources["rows"] = "paired by position"
    elif all(model.places is None for model in models):
        sources["keys"] += " (the same in every row)"
    protocols = list(dict.fromkeys(model.read.protocol for model in models if model.read.protocol))
    return sources | ({"protocol": " | ".join(protocols)} if protocols else {})


def _doubts(models: Sequence[_Placed], *, long: bool) -> tuple[str, ...]:
    """Return the doubts about the models, each once."""
    if long:
        return models[0].read.doubts
    doubts = (f"{_title(model.read.paths)}: {doubt}" for model in models for doubt in model.read.doubts)
    return tuple(dict.fromkeys(doubts))


def _events(read: FilePredictions) -> str:
    shape = read.probs.shape[1:]
    return f"probabilities of {shape[0]:,} classes" if shape else "the probability of one event"


def _source(read: FilePredictions) -> str:
    """Say where the predictions of a model are; an .npy has no columns."""
    source = read.sources["probs"]
    return source if source in read.paths else f"{source} in {_title(read.paths)}"


def _title(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{paths[0]} … ({len(paths)} files)"


def _in_words(read: FilePredictions) -> str:
    names = read.columns["keys"]
    return f"column {quoted(names[0])}" if len(names) == 1 else f"columns {', '.join(map(repr, names))}"


def shown_key(value: Any) -> str:
    """Return a key, or another value of a row, in an error."""
    return repr(value.replace(SEPARATOR, ", ") if isinstance(value, str) else np.asarray(value).item())
