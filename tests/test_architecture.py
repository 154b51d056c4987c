"""The shape of the package: who may import whom, what an import costs, what is public.

The first part is an AST check over every import, those inside functions included, so a forbidden import fails here and
not when somebody calls the function.
"""

from __future__ import annotations

import ast
import doctest
import inspect
import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import calibrant
from calibrant import errors

SOURCE = Path(calibrant.__file__).parent

# The floors, lowest first. A module may import only from floors below its own; on one floor nobody imports anybody,
# save inside a folder, whose own floors are in ROOMS. A folder stands for all its modules.
FLOORS = (
    ("errors",),
    ("grid", "kernels", "remedies"),
    ("inputs",),
    ("notions", "results", "scores"),
    ("table",),
    ("sketch",),
    ("estimators",),
    ("inference",),
    ("metrics", "files", "frames", "render"),
    ("report", "comparison"),
    ("__init__",),
    ("plot",),
    ("torch", "compat", "sklearn"),
    ("cli",),
)
# Inside a folder likewise. The folder's __init__ is above its modules and below whoever is outside.
ROOMS = {
    "kernels": (
        ("compiled", "reference"),
        ("bits", "cuda_kernels"),
        ("bin_lookup",),
        ("host", "host_tables", "cuda"),
        ("dispatch", "tensors"),
        ("cuda_cells",),
    ),
    "sketch": (("sums",), ("storage",), ("sketch",), ("as_table",)),
    "estimators": (("binned", "smooth", "smooth_mesh", "cumulative", "regression"), ("isotonic",), ("certified",)),
    "inference": (
        ("cells", "groups"),
        ("binned", "resampling", "cumulative"),
        ("smooth", "corp", "null_closed_form"),
        ("curves", "null", "means"),
        ("classwise", "event", "floor", "hypotheses", "paired", "statistic", "t_cal"),
        ("unpaired",),
    ),
    "metrics": (("arguments",), ("classwise", "proper", "smooth"), ("binned",)),
    "files": (
        ("background", "columns", "paths", "predictions", "values"),
        ("arrays", "engine", "sketches"),
        ("stored", "text", "cells", "suggestions"),
        ("sources",),
        ("chunks",),
        ("reading",),
    ),
    "frames": (("cell_keys", "columns"), ("rows",), ("cells",), ("faults",), ("api",)),
    "render": (
        ("style",),
        ("words",),
        ("tables",),
        ("terminal", "comparison", "floor", "drawing"),
        ("html",),
    ),
    "plot": (("canvas",), ("marks",), ("curves", "diagrams", "forest", "models", "multiples", "stacked")),
    "sklearn": (("arguments", "labels"), ("display", "scorer")),
    "torch": (("base",), ("bins", "cells", "sums"), ("tables",), ("binned", "proper", "smooth"), ("report",)),
    "cli": (
        ("checks", "completion", "conditions", "output", "spark", "usage"),
        ("errors", "loading"),
        ("commands",),
        ("__main__",),
    ),
    "compat": (("bensemble", "pyhealth", "triples"),),
}
# The names that a module above the package's __init__ may take from it, and who may.
FROM_PACKAGE = {"cli": {"__version__"}}
HEAVY = (
    "numba",
    "torch",
    "matplotlib",
    "duckdb",
    "polars",
    "pandas",
    "click",
    "rich",
    "scipy",
    "pyarrow",
    "narwhals",
    "sklearn",
    "jinja2",
    "triton",
    "pyspark",
)


def level(floors: tuple[tuple[str, ...], ...], name: str, module: str) -> int:
    """Find a module's floor, or fail: every module must have one."""
    for height, floor in enumerate(floors):
        if name in floor:
            return height
    pytest.fail(f"{module} has no place in the table of floors: add it to tests/test_architecture.py")


def imports(tree: ast.AST, module: tuple[str, ...]) -> set[tuple[str, ...]]:
    """List what a module imports of the package, as parts below it; a name of the package itself is ('', name)."""
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
        for name in names:
            if name[0] == "calibrant":
                found.add(resolve(tuple(name[1:])))
    return found


def resolve(parts: tuple[str, ...]) -> tuple[str, ...]:
    """Cut the name of a function or class off the name of its module."""
    for end in range(len(parts), 0, -1):
        path = SOURCE.joinpath(*parts[:end])
        if path.is_dir() or path.with_suffix(".py").exists():
            return parts[:end]
    return ("", *parts)


def complaint(module: tuple[str, ...], target: tuple[str, ...]) -> str | None:
    """Say what is wrong with an import, if anything."""
    names = f"{'.'.join(module)} imports {'.'.join(target)}"
    own = level(FLOORS, module[0], module[0])
    if target[0] == "":  # from the package's __init__
        allowed = FROM_PACKAGE.get(module[0], set())
        return None if target[1:] and set(target[1:]) <= allowed else f"{names} from the package itself"
    if module[0] != target[0] or len(module) == 1:
        return None if level(FLOORS, target[0], names) < own else f"{names}, which is not on a floor below"
    rooms = (*ROOMS[module[0]], ("__init__",))
    room = level(rooms, module[1], names)
    inner = level(rooms, target[1] if len(target) > 1 else "__init__", names)
    return None if inner < room else f"{names}, which is not on a floor below inside {module[0]}"


MODULES = sorted(
    path.relative_to(SOURCE).with_suffix("").parts for path in SOURCE.rglob("*.py") if "__pycache__" not in path.parts
)


@pytest.mark.parametrize("module", MODULES, ids=".".join)
def test_imports_point_down(module: tuple[str, ...]) -> None:
    level(FLOORS, module[0], ".".join(module))
    if len(module) > 1:
        assert module[0] in ROOMS, f"{module[0]} has no floors inside: add it to ROOMS"
        level((*ROOMS[module[0]], ("__init__",)), module[1], ".".join(module))
    tree = ast.parse(SOURCE.joinpath(*module).with_suffix(".py").read_text("utf-8"))
    assert [wrong for target in imports(tree, module) if (wrong := complaint(module, target))] == []


@pytest.mark.parametrize(
    ("module", "line", "fault"),
    [
        (("inputs",), "from calibrant.table import ReliabilityTable", "inputs imports table, which is not on a floor"),
        (("scores",), "def f():\n    from calibrant import results", "scores imports results, which is not on"),
        (("report",), "import calibrant", "from the package itself"),
        (("cli",), "from calibrant import __version__", None),
        (("cli",), "from calibrant import evaluate", "from the package itself"),
        (("estimators", "binned"), "from calibrant.estimators import isotonic", "below inside estimators"),
        (("estimators", "binned"), "from . import isotonic", "below inside estimators"),
        (("estimators", "binned"), "from .. import report", "not on a floor below"),
        (("estimators", "isotonic"), "from calibrant.estimators.binned import Bins", None),
        (("estimators", "binned"), "import calibrant.estimators", "below inside estimators"),
        (("kernels", "reference"), "from calibrant.inputs import Predictions", "not on a floor below"),
        (("metrics", "__init__"), "from calibrant.metrics.smooth import smooth_calibration_error", None),
    ],
)
def test_the_check_itself(module: tuple[str, ...], line: str, fault: str | None) -> None:
    wrong = [said for target in imports(ast.parse(line), module) if (said := complaint(module, target))]
    assert (fault in wrong[0]) if fault else not wrong


def test_a_module_without_a_floor_fails() -> None:
    with pytest.raises(pytest.fail.Exception, match="has no place in the table of floors"):
        level(FLOORS, "utils", "utils")


def test_a_package_init_only_imports_and_lists() -> None:
    for path in SOURCE.rglob("__init__.py"):
        for node in ast.parse(path.read_text("utf-8")).body:
            names = [target.id for target in node.targets] if isinstance(node, ast.Assign) else []
            docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            assert isinstance(node, ast.ImportFrom) or docstring or names[0] in ("__all__", "__version__"), path


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_import_loads_nothing_heavy() -> None:
    loaded = json.loads(run("import sys, json, calibrant; print(json.dumps(sorted(sys.modules)))"))
    assert "calibrant.report" in loaded
    assert sorted({name.partition(".")[0] for name in loaded} & set(HEAVY)) == []


def test_import_of_the_command_line_loads_nothing_heavy_but_click() -> None:
    loaded = json.loads(run("import sys, json, calibrant.cli; print(json.dumps(sorted(sys.modules)))"))
    assert {name.partition(".")[0] for name in loaded} & set(HEAVY) <= {"click"}


def test_a_bad_argument_is_refused_without_numba() -> None:
    code = """
import sys, calibrant
try:
    calibrant.expected_calibration_error([0.5], [2])
except calibrant.CalibrantError as error:
    print(error, "numba" in sys.modules)
"""
    assert run(code).startswith("targets: expected outcomes 0 or 1, got 2 at row 0")
    assert run(code).endswith("False\n")


# ---------------------------------------------------------------- what is public


def test_all_lists_the_public_names() -> None:
    modules = {path.stem for path in SOURCE.iterdir()}
    public = {name for name in vars(calibrant) if not name.startswith("_") and name not in modules}
    assert set(calibrant.__all__) == public
    assert calibrant.__all__ == sorted(calibrant.__all__)


@pytest.mark.parametrize("name", calibrant.__all__)
def test_public_names_are_documented(name: str) -> None:
    own = getattr(calibrant, name)
    assert own.__doc__
    assert own.__doc__.split("\n", 1)[0].strip().endswith((".", ":"))
    if inspect.isfunction(own):
        assert "Examples\n" in inspect.cleandoc(own.__doc__)
        assert doctest.DocTestParser().get_examples(own.__doc__)
        for parameter in inspect.signature(own).parameters.values():
            positional = parameter.kind is parameter.POSITIONAL_OR_KEYWORD
            arrays = ("probs", "targets", "probs_a", "probs_b")
            assert positional == (parameter.name in arrays) or parameter.name == "n_bins"


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    "error",
    [
        errors.CalibrantError("something"),
        errors.InputError("probs", "numbers", "text", "convert it", row=3, column=1),
        errors.InputError("probs", "numbers", "text", "convert it"),
        errors.NothingJudgedError("weights", "one above 0", "only zeros", "leave them out"),
        errors.FileError("a.csv", "row 3 is cut", "write it again"),
        errors.FileError("a.csv", "is empty", "type", ("--score", "p"), fault=errors.FileFault.EMPTY),
        errors.MissingDependencyError("pyarrow", "to exchange tables", "report"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_keep_their_attributes_in_a_pickle(error: errors.CalibrantError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)
    assert isinstance(copy, ValueError)


def test_every_error_is_among_the_pickled() -> None:
    own = {name for name, kind in vars(errors).items() if inspect.isclass(kind) and issubclass(kind, Exception)}
    assert own == {"CalibrantError", "InputError", "NothingJudgedError", "FileError", "MissingDependencyError"}


def test_an_input_error_has_its_parts() -> None:
    with pytest.raises(errors.InputError) as caught:
        calibrant.brier_score([0.5, 0.5, 7.0], [0, 1, 1])
    error = caught.value
    parts = (error.argument, error.expected, error.got, error.remedy, error.row, error.column)
    assert parts == ("probs", "values in [0, 1]", "7 at row 2", error.remedy, 2, 0)
    assert str(error) == f"probs: expected values in [0, 1], got 7 at row 2; {error.remedy}"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("maximum", "did you mean 'max'?"),
        ("L2", "did you mean 'l2'?"),
        ("MAX", "did you mean 'max'?"),
        ("euclid", "choose from 'l1', 'l2', 'max'"),
    ],
)
def test_nearest(name: str, hint: str) -> None:
    assert errors.nearest(name, ["l1", "l2", "max"]) == hint
