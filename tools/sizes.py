"""Write into the docs what each extra installs, and how many megabytes that takes in this environment.

    python tools/sizes.py    # in an environment with the extras dev and torch

An extra is counted with everything that it needs, less what the plain installation has.
"""

from __future__ import annotations

import sys
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "docs"))

import shown

#: What each extra is for.
EXTRAS = {
    "": "arrays, data frames and sketches in Python",
    "fast": "compiled loops, several times faster for more than a million numbers",
    "report": "the command, files, HTML pages and figures; includes `fast`",
    "excel": "workbooks (`.xlsx`); includes `report`",
    "pandas": "`to_pandas` of reports and comparisons",
    "torch": "`calibrant.torch`; includes `fast`",
    "sklearn": "displays and scorers for scikit-learn",
}


def needed(name: str, extras: frozenset[str] = frozenset()) -> set[str]:
    """Return the distributions that one needs with these extras, itself included."""
    found = {canonicalize_name(name)}
    for line in distribution(name).requires or []:
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            found |= needed(requirement.name, frozenset(requirement.extras))
    return found


def megabytes(names: set[str]) -> float:
    """Return the size of the files of distributions, in 10^6 bytes."""
    files = [file for name in names for file in distribution(name).files or []]
    paths = {Path(file.locate()).resolve() for file in files if "__pycache__" not in file.parts}
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6


def table() -> str:
    """Return the table of the extras, in Markdown."""
    plain = needed("calibrant")
    lines = ["| install | for | MB |", "|---|---|---|"]
    for extra, purpose in EXTRAS.items():
        names = needed("calibrant", frozenset([extra])) - (plain if extra else set()) - {"calibrant"}
        label, plus = (f"`calibrant[{extra}]`", "+ ") if extra else ("`calibrant`", "")
        lines.append(f"| {label} | {purpose} | {plus}{megabytes(names):,.0f} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    shown.write({"sizes.md": table()})
