"""The numbers that docs/migrating.md compares with those of other packages."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_numbers_of_the_migration_page_are_those_of_the_code() -> None:
    examples = Path(__file__).with_name("differences.txt").read_text("utf-8")
    test = doctest.DocTestParser().get_doctest(examples, {}, "differences", "differences.txt", 0)
    said: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.append)
    assert not said
    assert result.attempted > 40
