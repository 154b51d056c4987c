"""The layers of the package: what each package holds, and which packages import which.

This is the one place that gives a package its layer. tests/test_architecture.py checks every import against it, and
`python tools/layers.py` draws the picture in CONTRIBUTING.md.
"""

from __future__ import annotations

import ast
import functools
import graphlib
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "calibrant"
sys.path.insert(0, str(ROOT / "docs"))

import shown  # noqa: E402

#: The packages of each layer, the lowest layer first, and what they hold. A package imports only from layers below.
LAYERS = (
    {"runtime": "frozen dataclasses, lazy imports, the process"},
    {"errors": "faults, facts and the sentences for them"},
    {"kernels": "loops over rows: NumPy, compiled, torch"},
    {"inputs": "arrays, weights, groups, the evaluated event"},
    {"table": "ReliabilityTable, the grid, sums over clusters", "results": "the values that functions return"},
    {"sketch": "CalibrationSketch", "statistics": "variances, simulated data sets, groups"},
    {
        "measures": "a folder for each family; listed.py lists all",
        "files": "files to arrays and sketches",
        "frames": "tables in engines to sketches",
    },
    {
        "inference": "tests, noise floors, bootstrap, decisions",
        "render": "documents as text, pages and Markdown",
        "compat": "signatures of other packages",
    },
    {"plot": "matplotlib figures"},
    {"report": "evaluate, compare"},
    {
        "recalibration": "maps of scores, their choice and proof",
        "thresholds": "certified thresholds, risk-coverage curves",
        "monitoring": "e-processes of deployed models, their state",
    },
    {"torch": "torchmetrics metrics", "sklearn": "displays and scorers", "cli": "the command"},
)
PACKAGES = {name: height for height, layer in enumerate(LAYERS) for name in layer}


def modules() -> dict[tuple[str, ...], ast.Module]:
    """Return the syntax tree of each module, by its parts below the package."""
    paths = sorted(path for path in SOURCE.rglob("*.py") if "__pycache__" not in path.parts)
    return {path.relative_to(SOURCE).with_suffix("").parts: ast.parse(path.read_text("utf-8")) for path in paths}


def imports(tree: ast.AST, module: tuple[str, ...], *, types: bool = True) -> set[tuple[str, ...]]:
    """List what a module imports of the package, in functions too; a name of the package itself is ('', name).

    Without ``types``, what is imported for a type checker alone is left out.
    """
    found = set()
    for node in ast.walk(tree) if types else _running(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            # Of a relative import, the first level is the folder of the module.
            base = ["calibrant", *module[:-1]][: len(module) - node.level + 1] if node.level else []
            base += node.module.split(".") if node.module else []
            names = [[*base, alias.name] for alias in node.names]
        found |= {resolved(tuple(name[1:])) for name in names if name[0] == "calibrant"}
    return found


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that run, not those under ``if TYPE_CHECKING``."""
    yield node
    for child in ast.iter_child_nodes(node):
        parts: list[ast.AST] = [child]
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            parts = [*child.orelse]
        for part in parts:
            yield from _running(part)


@functools.cache
def resolved(parts: tuple[str, ...]) -> tuple[str, ...]:
    """Cut the name of a function or class off the name of its module."""
    for end in range(len(parts), 0, -1):
        path = SOURCE.joinpath(*parts[:end])
        if path.is_dir() or path.with_suffix(".py").exists():
            return parts[:end]
    return ("", *parts)


def arrows() -> dict[str, set[str]]:
    """Return which packages each package imports."""
    found: dict[str, set[str]] = {name: set() for name in PACKAGES}
    for module, tree in modules().items():
        if module[0] in found:
            found[module[0]] |= {target[0] for target in imports(tree, module)} & found.keys() - {module[0]}
    return found


def picture() -> str:
    """Draw the layers, the highest first, with the imports that do not follow from others and what a package holds."""
    below = arrows()
    reached: dict[str, set[str]] = {}
    for name in graphlib.TopologicalSorter(below).static_order():
        reached[name] = below[name].union(*(reached[other] for other in below[name]))
    lines = []
    for height in range(len(LAYERS), 0, -1):
        for place, name in enumerate(LAYERS[height - 1]):
            further = set().union(*(reached[other] for other in below[name]))
            direct = sorted(below[name] - further, key=list(PACKAGES).index, reverse=True)
            number = "" if place else f"{height}"
            drawn = f"{'─> ' * bool(direct)}{', '.join(direct)}"
            lines.append(f"{number:>2}  {name:<10}  {drawn:<24}  {LAYERS[height - 1][name]}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    shown.write({"packages.txt": picture()})
