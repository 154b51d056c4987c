"""What every result can do with its document: show itself in the terminal, in notebooks, as a page and as Markdown."""

from __future__ import annotations

import json
import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from calibrant.errors import nearest
from calibrant.render import terminal
from calibrant.render.blocks import Document, Source

#: The source of data that did not come from files.
NO_SOURCE: Final = Source()


class Shown:
    """A result that is read as a document. It is not an ABC, so results keep the class of their type."""

    @abstractmethod
    def _document(self, source: Source = NO_SOURCE, *, full: bool = False, complete: bool = False) -> Document:
        """Return the document; ``full`` for a page, ``complete`` with every measure of a profile."""

    def verdict(self) -> list[str]:
        """Return what was found as sentences."""
        return self._document().sentences

    def to_html(self, path: str | os.PathLike[str], *, title: str = "", date: str = "") -> Path:
        """Write the result as one page of HTML, which needs no other file and no network, and return its path.

        It is readable without JavaScript, on paper and on a phone. The numbers behind each picture can be downloaded
        from it.

        Parameters
        ----------
        path : str or path
            The file to write. An old file stays until the new one is complete on the disk.
        title : str
            The title of the page.
        date : str
            A date to show under the title. Without it the page has no date, so the same numbers give the same page.

        Raises
        ------
        calibrant.errors.MissingDependencyError
            Without jinja2, which the extra ``report`` installs.
        OSError
            If the file cannot be written, as on a full disk. An old file is then unchanged.
        """
        from calibrant.render import page
        from calibrant.results.writing import write_file

        write_file(path, page.to_page(self._document(full=True), title=title, date=date).encode())
        return Path(path)

    def to_markdown(self, *, title: str = "") -> str:
        """Return the result as Markdown for GitHub: for a pull request, or for the summary of a workflow's step.

        No character in a name acts as markup, as a link or as a mention.

        Parameters
        ----------
        title : str
            The heading.
        """
        from calibrant.render import markdown

        return markdown.to_markdown(self._document(), title=title)

    def __str__(self) -> str:
        return terminal.to_terminal(self._document())

    def _repr_html_(self) -> str:
        from calibrant.render import page

        return page.to_cell(lambda: self._document(full=True), self.__str__)


class ShownAsJson(Shown):
    """A result whose numbers are also read as JSON."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return every number as plain Python values that are strict JSON."""

    def to_json(self, *, indent: int | None = 2) -> str:
        """Return `to_dict` as strict JSON: no NaN, no Infinity."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False, ensure_ascii=False)


Result = TypeVar("Result")


class ShownByQuestion(ShownAsJson, Mapping[str, Result]):
    """The results of the questions of a decision log, by their names, in the order of the log."""

    questions: Mapping[str, Any]

    def _result(self, name: str) -> Result:
        """Return the result of a question that there is."""
        return cast("Result", self.questions[name])

    def _missing(self, name: str) -> str:
        """Return why a question has no result."""
        return f"no question {name!r}; {nearest(name, self.questions)}"

    def __getitem__(self, name: str) -> Result:
        if name not in self.questions:
            raise KeyError(self._missing(str(name)))
        return self._result(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.questions)

    def __len__(self) -> int:
        return len(self.questions)
