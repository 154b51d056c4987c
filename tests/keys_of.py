"""The keys that the page about the JSON explains, itself or by the Python classes to which it refers."""

from __future__ import annotations

import inspect
import re
from operator import attrgetter
from pathlib import Path

import calibrant
import calibrant.inference.multicalibration
import calibrant.recalibration
import calibrant.report
import calibrant.results
import calibrant.thresholds

DOCS = Path(__file__).parents[1] / "docs"


def explained() -> set[str]:
    """Return the words in code on the page, and the attributes of the classes that its table of classes names."""
    page = (DOCS / "json.md").read_text(encoding="utf-8")
    table = "".join(re.findall(r"^\|.*\n", page, re.MULTILINE))
    classes = set(re.findall(r"\(api-\w+\.md#calibrant\.([\w.]+)\)", table))
    return set(re.findall(r"`([^`\n]+)`", page)).union(*map(attributes, classes))


def attributes(name: str) -> set[str]:
    """Return the parameters and attributes of a class that its description explains, and the values that it lists."""
    described = inspect.getdoc(attrgetter(name)(calibrant)) or ""
    sections = re.findall(
        r"^(?:Parameters|Attributes)\n-+\n(.*?)(?=^\w+\n-+\n|\Z)", described, re.MULTILINE | re.DOTALL
    )
    assert sections, name
    names = re.findall(r"^([\w, ]+) : ", "".join(sections), re.MULTILINE)
    values = re.findall(r'``(\w+)``|"(\w+)"', "".join(sections))
    return {each for line in names for each in line.split(", ")}.union(*values)
