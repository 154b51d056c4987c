"""A look at the rows before they are read: the numbers of `--by`, and the questions of evaluation logs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from calibrant.errors import FileError, quoted
from calibrant.files.choices import QUESTION
from calibrant.files.column_options import Options
from calibrant.files.engine import Engines
from calibrant.files.expressions import parse, year_of
from calibrant.files.groups import Values
from calibrant.files.logs import name_questions
from calibrant.files.sources import Opened, Source
from calibrant.files.sql import period
from calibrant.inputs.groups import group_name

if TYPE_CHECKING:
    from calibrant.files.columns import Selection
    from calibrant.files.values import Words


def looked_at(opened: Opened, options: Options, engines: Engines, keep_going: bool) -> Opened:
    """Return the files with the cuts of `--by`, and with the questions of logs as clusters if they are repeated."""
    opened = with_years(with_cuts(opened, options, engines.check, keep_going), engines)
    return with_questions(opened, options, engines.check, keep_going)


def with_years(opened: Opened, engines: Engines) -> Opened:
    """Return the files with a caution where a part of dates in `--by`, such as the quarter, puts years together.

    What cannot be read is said by the pass over all columns.
    """
    first = opened.first
    for name, year in _years(opened, engines).items():
        years: dict[str, set[int]] = {}
        for source in opened.sources:
            asked = replace(_groups_alone(source), clusters=(year,))
            with suppress(FileError), closing(source.pieces(asked)) as pieces:
                for piece in pieces:
                    engines.check()
                    words, found = cast("Words", piece["groups"]), np.asarray(piece["clusters"])
                    for code in np.unique(words.codes):
                        held = np.unique(found[words.codes == code]).tolist()
                        years.setdefault(group_name(words.names[code]), set()).update(held)
        pooled = next((held for held in years.values() if len(held) > 1), None)
        if pooled is not None:
            together = f"{min(map(min, years.values()))} to {max(map(max, years.values()))} together"
            caution = f"--by {quoted(name)} puts {together}; add --by {quoted(year)} for groups of each year"
            described = {**opened.described, "groups": f"{first.sources()['groups']} ({together})"}
            return replace(opened, described=described, cautions=(caution,))
    return opened


def _years(opened: Opened, engines: Engines) -> dict[str, str]:
    """Return the SQL of the years of dates of which `--by` takes a part, by its expressions."""
    found: dict[str, str] = {}
    for name in opened.first.groups:
        if opened.first.noun == "column" and not re.fullmatch(r"\w+", name) and period(name) == name:
            with engines.running(engines.connect("for --by")) as connection, suppress(Exception):
                tree = parse(connection, name)
                year = None if tree is None else year_of(tree, name)
                found |= {} if year is None else {name: year}
    return found


def with_questions(opened: Opened, options: Options, check: Callable[[], None], keep_going: bool) -> Opened:
    """Return the files with questions as clusters, if logs answer a question several times: epochs, models, prompts.

    Without repeated questions the rows are independent, and no clusters are named.
    """
    sources = opened.sources
    if options.clusters or not name_questions([source.path for source in sources]):
        return opened
    names, rows = set[object](), 0
    for source in sources:
        with suppress(FileError) if keep_going else nullcontext():
            for words in _column(source, QUESTION, check):
                names.update(words.names.tolist())
                rows += len(words)
    if len(names) >= rows:
        return opened
    first = replace(opened.first, clusters=(QUESTION,))
    return replace(opened, first=first, described={**opened.described, "clusters": QUESTION})


def with_cuts(opened: Opened, options: Options, check: Callable[[], None], keep_going: bool) -> Opened:
    """Return the files with the cuts of each column of many numbers, unless all values are to be kept.

    One pass over these columns alone, for groups that do not depend on the order of the rows. It ends at the first
    name. With ``keep_going`` it skips what cannot be read: the pass over all columns names such files.
    """
    first = opened.first
    if not first.groups or options.by_values:
        return opened
    columns = {name: Values() for name in first.groups}
    for source in opened.sources:
        for name, values in columns.items():
            with suppress(FileError) if keep_going else nullcontext():
                _look(source, name, values, check)
    cuts = {name: cut for name, values in columns.items() if (cut := values.cuts()) is not None}
    if not cuts:
        return opened
    first = replace(first, cuts=cuts)
    return replace(opened, first=first, described={**opened.described, "groups": first.sources()["groups"]})


def _look(source: Source, name: str, values: Values, check: Callable[[], None]) -> None:
    """Count the values of one column of a file, while they are numbers."""
    for words in _column(source, name, check):
        values.add(words)
        if not values.numbers:
            return


def _column(source: Source, name: str, check: Callable[[], None]) -> Iterator[Words]:
    """Yield the values of one column of a file, some rows at a time."""
    with closing(source.pieces(replace(_groups_alone(source), groups=(name,)))) as pieces:
        for piece in pieces:
            check()
            yield cast("Words", piece["groups"])


def _groups_alone(source: Source) -> Selection:
    return replace(source.selection, probs=(), targets=(), weights=None, models=(), clusters=(), keys=())
