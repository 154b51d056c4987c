"""The layers of the package: what each package holds, and which packages import which.

This is the one place that gives a package its layer. tests/test_architecture.py checks every import against it, and
`python tools/layers.py` writes the table and the picture in CONTRIBUTING.md.
"""

from __future__ import annotations

import ast
import functools
import graphlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "calibrant"
sys.path.insert(0, str(ROOT / "docs"))

import shown  # noqa: E402

#: The packages of each layer, the lowest layer first, and what they hold. A package imports only from layers below.
LAYERS = (
    {"runtime": "frozen dataclasses, values computed once, names imported late, the process and its streams, progress"},
    {"errors": "the one family of errors: faults and facts as values, the likely mistakes, the sentences for them"},
    {"kernels": "loops over rows and tables: readable in NumPy, compiled for large inputs, as torch operations"},
    {"inputs": "the boundary: arrays, predictions, weights, groups, the evaluated event, memory limits"},
    {
        "table": "`ReliabilityTable`: sorted, free of ties, additive; its Arrow form, its units, the grid",
        "results": "the frozen values that functions return, as JSON and in files",
    },
    {"clusters": "cluster labels as hashes, additive sums over buckets of clusters"},
    {
        "sketch": "`CalibrationSketch`: cells and exact sums in constant memory; bytes, JSON, Arrow",
        "statistics": "how sums over rows vary: rows, classes, clusters; simulated data sets; groups",
    },
    {
        "measures": "one folder for each family of measures, with the formulas, intervals and null distributions; "
        "`listed` lists the measures, `event` and `context` hold what they share",
        "files": "files into arrays and sketches; the logs of evaluation harnesses into tables",
        "frames": "tables in engines into sketches",
    },
    {
        "inference": "what users call: tests of calibration, noise floors, the bootstrap; findings and decisions",
        "render": "results as text and pages",
        "compat": "wrappers with other libraries' signatures",
    },
    {"plot": "matplotlib figures of results"},
    {"report": "`evaluate` and `Report`, `compare` and `Comparison`"},
    {
        "torch": "torchmetrics metrics",
        "sklearn": "scikit-learn's displays and scorers",
        "cli": "the command: its options, its messages, completion by the TAB key",
    },
)
PACKAGES = {name: height for height, layer in enumerate(LAYERS) for name in layer}


def modules() -> dict[tuple[str, ...], ast.Module]:
    """Return the syntax tree of each module, by its parts below the package."""
    paths = sorted(path for path in SOURCE.rglob("*.py") if "__pycache__" not in path.parts)
    return {path.relative_to(SOURCE).with_suffix("").parts: ast.parse(path.read_text("utf-8")) for path in paths}


def imports(tree: ast.AST, module: tuple[str, ...]) -> set[tuple[str, ...]]:
    """List what a module imports of the package, in functions too; a name of the package itself is ('', name)."""
    found = set()
    for node in ast.walk(tree):
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


def table() -> str:
    """Return the table of packages, in Markdown."""
    rows = [f"| {k} | `{name}/` | {holds} |" for k, layer in enumerate(LAYERS, 1) for name, holds in layer.items()]
    return "\n".join(["| layer | package | what it holds |", "|---|---|---|", *rows])


def picture() -> str:
    """Draw the layers, the highest first, with the imports that do not follow from others."""
    below = arrows()
    reached: dict[str, set[str]] = {}
    for name in graphlib.TopologicalSorter(below).static_order():
        reached[name] = below[name].union(*(reached[other] for other in below[name]))
    lines = []
    for height in range(len(LAYERS), 0, -1):
        for place, name in enumerate(LAYERS[height - 1]):
            further = set().union(*(reached[other] for other in below[name]))
            direct = sorted(below[name] - further, key=list(PACKAGES).index, reverse=True)
            lines.append(
                f"{'' if place else height:>2}  {name:<10}  {'─> ' * bool(direct)}{', '.join(direct)}".rstrip()
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    shown.write({"layers.md": table(), "packages.txt": picture()})
