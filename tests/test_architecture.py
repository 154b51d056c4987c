"""The shape of the package: who may import whom, what an import costs, what is public.

The first part is an AST check over every import, those inside functions included, so a forbidden import fails here and
not when somebody calls the function.
"""

from __future__ import annotations

import ast
import doctest
import functools
import graphlib
import importlib
import importlib.util
import inspect
import itertools
import json
import pickle
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import house
import pytest
import shown
from covering import covering

import calibrant
from calibrant import errors, wording
from calibrant.faults import Fault, Mistake, Place, SumFacts

SOURCE = Path(calibrant.__file__).parent
ROOT = Path(__file__).resolve().parent.parent

# Per floor of the package, and per floor inside a folder, the names of what stands on it.
FLOORS = tuple(tuple(room.name for room in floor) for floor in house.HOUSE)
ROOMS = {room.name: room.floors for floor in house.HOUSE for room in floor if room.inside}
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
    "pyspark",
)


def level(floors: tuple[tuple[str, ...], ...], name: str, module: str) -> int:
    """Find a module's floor, or fail: every module must have one."""
    for height, floor in enumerate(floors):
        if name in floor:
            return height
    pytest.fail(f"{module} has no place in the table of floors: add it to tools/house.py")


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


@functools.cache
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


@functools.cache
def tree_of(module: tuple[str, ...]) -> ast.Module:
    return ast.parse(SOURCE.joinpath(*module).with_suffix(".py").read_text("utf-8"))


MODULES = sorted(
    path.relative_to(SOURCE).with_suffix("").parts for path in SOURCE.rglob("*.py") if "__pycache__" not in path.parts
)


@pytest.mark.parametrize("module", MODULES, ids=".".join)
def test_imports_point_down(module: tuple[str, ...]) -> None:
    level(FLOORS, module[0], ".".join(module))
    if len(module) > 1:
        assert module[0] in ROOMS, f"{module[0]} has no floors inside: add it to tools/house.py"
        level((*ROOMS[module[0]], ("__init__",)), module[1], ".".join(module))
    assert [wrong for target in imports(tree_of(module), module) if (wrong := complaint(module, target))] == []


@pytest.mark.parametrize(
    ("module", "line", "fault"),
    [
        (("inputs",), "from calibrant.table import ReliabilityTable", "inputs imports table, which is not on a floor"),
        (("scores",), "def f():\n    from calibrant import results", "scores imports results, which is not on"),
        (("report",), "import calibrant", "from the package itself"),
        (("report",), "def f():\n    from calibrant.plot import groups", None),
        (("results",), "def f():\n    from calibrant.plot import groups", "results imports plot, which is not on"),
        (("cli",), "from calibrant import __version__", None),
        (("cli",), "from calibrant import evaluate", "from the package itself"),
        (("estimators", "binned"), "from calibrant.estimators import isotonic", "below inside estimators"),
        (("estimators", "binned"), "from . import isotonic", "below inside estimators"),
        (("estimators", "binned"), "from .. import report", "not on a floor below"),
        (("estimators", "isotonic"), "from calibrant.estimators.binned import Bins", None),
        (("estimators", "binned"), "import calibrant.estimators", "below inside estimators"),
        (("kernels", "reference"), "from calibrant.inputs import Predictions", "not on a floor below"),
        (("measures", "__init__"), "from calibrant.measures.smece import smooth_calibration_error", None),
    ],
)
def test_the_check_itself(module: tuple[str, ...], line: str, fault: str | None) -> None:
    wrong = [said for target in imports(ast.parse(line), module) if (said := complaint(module, target))]
    assert (fault in wrong[0]) if fault else not wrong


def test_a_module_without_a_floor_fails() -> None:
    with pytest.raises(pytest.fail.Exception, match="has no place in the table of floors"):
        level(FLOORS, "utils", "utils")


def test_no_room_of_the_house_is_missing() -> None:
    names = {module[: 2 if len(module) > 1 else 1] for module in MODULES}
    rooms = {(room,) for floor in FLOORS for room in floor if room not in ROOMS}
    inside = {(room, name) for room, floors in ROOMS.items() for floor in floors for name in floor}
    assert rooms | inside | {(room, "__init__") for room in ROOMS} == names


def test_contributing_shows_the_house() -> None:
    assert shown.stale({"house.md": house.table()}) == [], "out of date; run: python tools/house.py"


def test_every_test_is_of_a_room_or_of_the_whole_house() -> None:
    whole = {"architecture", "cli_spark", "docs", "examples", "laws", "personas", "spark", "torch_lightning"}
    of_rooms = {test for floor in house.HOUSE for room in floor for test in room.tests.split()}
    assert of_rooms | whole == {path.stem.removeprefix("test_") for path in Path(__file__).parent.glob("test_*.py")}


def test_the_quick_cases_of_a_product_cover_it() -> None:
    """Each pair of values that a case has; each value of two axes; a product with holes; no axis at all."""
    cases = list(itertools.product("abc", "de", "fghi", "j"))[3:]
    chosen = [cases[k] for k in covering(cases)]
    for first, second in itertools.combinations(range(4), 2):
        assert {(case[first], case[second]) for case in chosen} == {(case[first], case[second]) for case in cases}
    assert len(chosen) < len(cases)
    values = [("a", "d"), ("a", "e"), ("b", "d"), ("b", "e"), ("c", "e")]
    assert covering(values) == {0, 3, 4}
    assert covering(values, 2) == set(range(5))
    assert covering([]) == set()
    assert covering([()]) == {0}


FOLDERS = ("benchmarks", "docs", "examples", "tools")
SCRIPTS = sorted(path.relative_to(ROOT) for folder in FOLDERS for path in ROOT.joinpath(folder).rglob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=str)
def test_what_a_script_imports_of_the_package_exists(script: Path) -> None:
    """Scripts that no test runs, such as benchmarks, follow a module that moves."""
    for node in ast.walk(ast.parse(ROOT.joinpath(script).read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "calibrant":
            module = importlib.import_module(str(node.module))
            missing = [alias.name for alias in node.names if not hasattr(module, alias.name)]
            missing = [name for name in missing if importlib.util.find_spec(f"{node.module}.{name}") is None]
            assert not missing, f"{script} imports {missing} from {node.module}"


PACKAGES = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_init_imports_no_module_of_its_own(package: str) -> None:
    """It lists names, and `lazy` imports them: a thread that imports one of the modules never waits for the package."""
    tree, listed = tree_of((package, "__init__")), set()
    for node in tree.body:
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                listed = {(f"{part.module}", alias.name) for part in node.body for alias in part.names}  # type: ignore[attr-defined]
            case ast.ImportFrom(module=module):
                assert module in ("typing", "calibrant.lazy", "calibrant.errors"), package
            case ast.Try() | ast.Expr(value=ast.Constant()):
                assert not imports(node, (package, "__init__")), package
            case ast.Assign():
                assert ast.unparse(node.targets[0]) in ("__all__", "(__getattr__, __dir__)"), package
            case _:
                pytest.fail(f"{package}: {ast.unparse(node)}")
    if package == "torch":
        pytest.importorskip("torchmetrics")
    if listed:
        module = importlib.import_module(f"calibrant.{package}")
        assert sorted(name for _, name in listed) == sorted(module.__all__)
        for home, name in listed:
            assert getattr(module, name) is getattr(importlib.import_module(home), name), name
        assert set(module.__all__) <= set(dir(module))
        with pytest.raises(AttributeError, match=f"module 'calibrant.{package}' has no attribute 'evalute'"):
            module.evalute  # noqa: B018


#: What `import calibrant` imports. Nobody imports these by themselves: they import the standard library alone.
FIRST = {"calibrant.process", "calibrant.kernels", "calibrant.kernels.loading"}


def loaded_by(module: tuple[str, ...]) -> set[str]:
    """Return what importing a module imports: its packages, and what its body imports outside of functions."""
    name = ".".join(("calibrant", *module)).removesuffix(".__init__")
    parts = name.split(".")
    found = {".".join(parts[:end]) for end in range(1, len(parts))}
    nodes = list(tree_of(module).body)
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        nodes += list(ast.iter_child_nodes(node))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("calibrant"):
            for alias in node.names:
                package, inner = importlib.import_module(str(node.module)), f"{node.module}.{alias.name}"
                is_module = resolve(tuple(inner.split(".")[1:])) == tuple(inner.split(".")[1:])
                # A name of a package is imported from its home when it is taken.
                home = inner if is_module else getattr(getattr(package, alias.name), "__module__", node.module)
                found |= {str(node.module), home if str(home).startswith("calibrant") else str(node.module)}
    return found - {name}


def test_no_module_imports_itself_through_others() -> None:
    """Two threads that import in a circle wait for each other; without one they cannot, whatever they begin with."""
    graph = {
        ".".join(("calibrant", *module)).removesuffix(".__init__"): loaded_by(module)
        for module in MODULES
        if module[-1] != "__main__" and (module[0] != "torch" or importlib.util.find_spec("torchmetrics"))
    }
    assert {name for name in graph["calibrant"] if name.startswith("calibrant.")} <= FIRST
    for name in FIRST:
        assert graph[name] <= {"calibrant", *FIRST}
    graph["calibrant"] = set()
    try:
        tuple(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as error:
        pytest.fail(f"{error}")


#: Each public module, and a name of it to take.
PUBLIC = {
    "calibrant": "evaluate",
    "calibrant.compat.bensemble": "brier_score",
    "calibrant.compat.pyhealth": "ece_classwise",
    "calibrant.compat.triples": "compute_ece",
    "calibrant.errors": "InputError",
    "calibrant.files": "read_predictions",
    "calibrant.frames": "sketch",
    "calibrant.inference": "ks_test",
    "calibrant.measures": "ranked_probability_score",
    "calibrant.measures.listed": "BY_NAME",
    "calibrant.plot": "reliability_diagram",
    "calibrant.sketch": "CalibrationSketch",
    "calibrant.sklearn": "make_scorer",
}
TOGETHER = """
import importlib, sys, threading
start, failed = threading.Barrier(2), []
def load(name, attribute):
    start.wait()
    try:
        value = getattr(importlib.import_module(name), attribute)
        if attribute == "evaluate":
            value([0.1, 0.9, 0.4], [0, 1, 1], n_resamples=0)
    except BaseException as error:
        failed.append(repr(error))
threads = [threading.Thread(target=load, args=pair.split("/"), daemon=True) for pair in sys.argv[1:]]
for thread in threads: thread.start()
for thread in threads: thread.join(60)
print(*failed, *("waits for ever" for thread in threads if thread.is_alive()), end="")
"""


@pytest.mark.slow
@pytest.mark.parametrize("first", PUBLIC)
def test_two_threads_may_import_any_two_modules_at_once(first: str) -> None:
    for second in list(PUBLIC)[list(PUBLIC).index(first) :]:
        pair = [f"{name}/{PUBLIC[name]}" for name in (first, second)]
        done = subprocess.run([sys.executable, "-c", TOGETHER, *pair], capture_output=True, text=True, check=True)
        assert done.stdout == "", pair


@pytest.mark.slow
@pytest.mark.parametrize("second", ["calibrant", "calibrant.sklearn", "calibrant.measures"])
def test_a_thread_may_import_the_metrics_meanwhile(second: str) -> None:
    pytest.importorskip("torchmetrics")
    pair = ["calibrant.torch/CalibrationError", f"{second}/{PUBLIC[second]}"]
    done = subprocess.run([sys.executable, "-c", TOGETHER, *pair], capture_output=True, text=True, check=True)
    assert done.stdout == ""


def test_a_lazy_name_is_one_object_in_every_thread() -> None:
    """All threads ask at once, and the package forgets what it has between the rounds."""
    module = importlib.import_module("calibrant.measures")
    with ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            vars(module).pop("auroc", None)
            assert len(set(map(id, pool.map(lambda _: module.auroc, range(16))))) == 1


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_the_lazy_package_knows_where_every_name_is_defined() -> None:
    tree = tree_of(("__init__",))
    typed = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {
        alias.name: node.module for node in typed.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert sorted(imported) == sorted(calibrant._HOMES) == calibrant.__all__
    for name, home in calibrant._HOMES.items():
        assert (imported[name] or "").removeprefix("calibrant.") in (home, f"{home}.{name}")
        assert getattr(calibrant, name) is getattr(importlib.import_module(f"calibrant.{home}"), name)


def test_import_loads_nothing_that_takes_time() -> None:
    loaded = json.loads(run("import sys, json, calibrant; print(json.dumps(sorted(sys.modules)))"))
    assert sorted(name for name in loaded if name.startswith("calibrant")) == [
        "calibrant",
        "calibrant.kernels",
        "calibrant.kernels.loading",
        "calibrant.process",
    ]
    assert "numpy" not in loaded


def test_rooms_are_attributes_of_the_package() -> None:
    assert run("import calibrant; print(calibrant.inference.ks_test.__name__)") == "ks_test\n"
    assert run("import calibrant; print('numpy' in dir(calibrant), {'evaluate', 'frames'} <= set(dir(calibrant)))") == (
        "False True\n"
    )
    with pytest.raises(AttributeError, match="module 'calibrant' has no attribute 'evalute'"):
        calibrant.evalute  # noqa: B018


def test_computing_imports_nothing_heavy_but_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CALIBRANT_KERNELS", raising=False)
    code = "import sys, json, calibrant; calibrant.brier_score([.5], [1]); print(json.dumps(sorted(sys.modules)))"
    assert {name.partition(".")[0] for name in json.loads(run(code))} & set(HEAVY) == set()


def test_the_command_line_loads_nothing_heavy_but_click() -> None:
    code = "import sys, json; from calibrant.cli import main; print(json.dumps(sorted(sys.modules)))"
    assert {name.partition(".")[0] for name in json.loads(run(code))} & {"numpy", *HEAVY} == {"click"}


def test_a_bad_argument_is_refused_without_numba() -> None:
    code = """
import sys, calibrant
try:
    calibrant.expected_calibration_error([0.5], [2])
except calibrant.CalibrantError as error:
    print(error, "numba" in sys.modules)
"""
    said = run(code)
    assert said.startswith("targets: expected outcomes 0 or 1, got 2 at row 0")
    assert said.endswith("False\n")


# ---------------------------------------------------------------- no branch on prose

PROSE = {"expected", "got", "remedy", "problem", "message", "msg"}
LOOKS = {
    *("startswith", "endswith", "find", "index", "count", "replace", "split", "rsplit", "partition", "rpartition"),
    *("removeprefix", "removesuffix", "casefold", "lower", "upper", "translate"),
}
# Functions that look at a message of another library, which tells what happened in no other way.
FOREIGN_TEXT = {
    "files.engine.explain",  # DuckDB
    "files.local.first_line",  # any
    "files.text.explain",  # DuckDB, json
    "frames.cells.fetch",  # DuckDB
    "frames.columns.as_frame",  # Narwhals
}


class Looks(ast.NodeVisitor):
    """The places in one function where the words of an error decide something."""

    def __init__(self, function: ast.FunctionDef) -> None:
        annotated = [arg for arg in function.args.args if arg.annotation is not None]
        self.errors = {arg.arg for arg in annotated if re.search("Error|Exception", ast.unparse(arg.annotation or arg))}
        self.texts: set[str] = set()
        self.found: list[str] = []
        self.generic_visit(function)

    def is_text(self, node: ast.AST) -> bool:
        """Whether the words of an error are part of an expression."""
        for part in ast.walk(node):
            written = part.args if isinstance(part, ast.Call) and ast.unparse(part.func) in ("str", "repr") else []
            if (
                (isinstance(part, ast.Attribute) and part.attr in PROSE)
                or (isinstance(part, ast.Name) and part.id in self.texts)
                or any(isinstance(own, ast.Name) and own.id in self.errors for own in written)
            ):
                return True
        return False

    def look(self, node: ast.AST, *parts: ast.AST) -> None:
        if any(map(self.is_text, parts)):
            self.found.append(ast.unparse(node))
        self.generic_visit(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self.errors |= {node.name} if node.name else set()
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            pairs: list[tuple[ast.expr, ast.expr]] = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=True))
            for names, value in pairs:
                if self.is_text(value):
                    self.texts |= {name.id for name in ast.walk(names) if isinstance(name, ast.Name)}
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        self.look(node, *([] if all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops) else [node]))

    def visit_Match(self, node: ast.Match) -> None:
        self.look(node, node.subject)

    def visit_Call(self, node: ast.Call) -> None:
        owner, _, name = ast.unparse(node.func).rpartition(".")
        looks = isinstance(node.func, ast.Attribute) and name in LOOKS
        self.look(node, *(node.args if owner == "re" else [node.func.value] if looks else []))


def looks_of(tree: ast.AST) -> dict[str, list[str]]:
    """List the functions that decide by the words of an error, each with the expressions that do."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {function.name: found for function in functions if (found := Looks(function).found)}


@pytest.mark.parametrize("module", MODULES, ids=".".join)
def test_nothing_is_decided_by_the_words_of_an_error(module: tuple[str, ...]) -> None:
    found = {f"{'.'.join(module)}.{function}": looks for function, looks in looks_of(tree_of(module)).items()}
    assert {name: looks for name, looks in found.items() if name not in FOREIGN_TEXT} == {}


@pytest.mark.parametrize(
    "line",
    [
        "if error.remedy.startswith('pass'): ...",
        "if 'logits=True' in error.remedy: ...",
        "if error.expected == 'integers': ...",
        "words = re.sub('the frame', '', error.remedy)",
        "words = error.got.replace('probs', 'column')",
        "words = str(error).split(';')",
        "words = f'{error.expected}'; return words.endswith('1')",
        "argument, words = error.argument, error.remedy; return 'pass' in words",
        "match error.problem:\n        case 'is empty': ...",
        "try: ...\n    except ValueError as failure: return str(failure).lower()",
    ],
)
def test_a_look_at_words_is_found(line: str) -> None:
    assert looks_of(ast.parse(f"def f(error: InputError):\n    {line}"))


@pytest.mark.parametrize(
    "line",
    [
        "if error.fault is Fault.TEXT: ...",
        "if error.argument == 'probs' and error.row is not None: ...",
        "raise FileError(path, f'expected {error.expected}, got {error.got}', error.remedy)",
        "return error.facts.mistake in MAY_BE_LOGITS",
        "return ' '.join([str(error), 'more'])",
    ],
)
def test_words_that_are_only_passed_on_are_no_look(line: str) -> None:
    assert looks_of(ast.parse(f"def f(error: InputError):\n    {line}")) == {}


# ---------------------------------------------------------------- what is public


def test_all_lists_the_public_names() -> None:
    modules = {path.stem for path in SOURCE.iterdir()}
    machinery = {"Any", "Final", "LOADING", "TYPE_CHECKING", "import_module"}
    public = {name for name in dir(calibrant) if not name.startswith("_") and name not in modules | machinery}
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
        wording.refuse("probs", Fault.ROW_SUM, SumFacts(total=0.9, tolerance=1e-3, place=Place(4))),
        wording.refuse("targets", Fault.SWAPPED).renamed({"targets": "target"}),
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


@pytest.mark.parametrize("member", [*Fault, *Mistake], ids=str)
def test_every_fault_and_mistake_is_stated_somewhere(member: Fault | Mistake) -> None:
    sources = [path for path in SOURCE.rglob("*.py") if path.name not in ("faults.py", "wording.py")]
    assert any(re.search(rf"\b{member}\b", path.read_text("utf-8")) for path in sources)


def test_a_fault_without_words_is_a_bug_of_ours() -> None:
    with pytest.raises(TypeError, match=r"Fault\.COLUMN_TYPE with Facts\(.* has no words"):
        wording.refuse("probs", Fault.COLUMN_TYPE)


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
