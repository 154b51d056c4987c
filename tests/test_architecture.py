"""The shape of the package: who may import whom, what an import costs, what is public.

The first part is an AST check over every import, those inside functions included, so a forbidden import fails here and
not when somebody calls the function.
"""

from __future__ import annotations

import ast
import doctest
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
from types import FrameType

import layers
import numpy as np
import pytest
import shown
import stops

import calibrant
from calibrant import errors
from calibrant.errors import wording
from calibrant.errors.faults import Facts, Fault, Mistake, Place
from calibrant.kernels.row_blocks import Rows
from tests.covering import covering

SOURCE = Path(calibrant.__file__).parent
ROOT = Path(__file__).resolve().parent.parent

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


MODULES = layers.modules()


def complaint(module: tuple[str, ...], target: tuple[str, ...]) -> str | None:
    """Say what is wrong with an import from another package, if anything."""
    names = f"{'.'.join(module)} imports {'.'.join(target)}"
    if target[0] == "":  # from the package's __init__
        allowed = FROM_PACKAGE.get(module[0], set())
        return None if target[1:] and set(target[1:]) <= allowed else f"{names} from the package itself"
    if target[0] == module[0]:
        return None
    below = layers.PACKAGES[target[0]] < layers.PACKAGES[module[0]]
    return None if below else f"{names}, which is not in a layer below"


def test_the_top_level_holds_packages_alone() -> None:
    at_top = {path.name for path in SOURCE.iterdir() if path.name != "__pycache__"}
    assert at_top == {*layers.PACKAGES, "__init__.py", "__main__.py", "py.typed"}, (
        "give each package its layer, in tools/layers.py"
    )
    assert all(SOURCE.joinpath(*module[:-1], "__init__.py").exists() for module in MODULES)


def test_imports_point_down() -> None:
    imports = [
        (module, target)
        for module, tree in MODULES.items()
        if len(module) > 1
        for target in layers.imports(tree, module)
    ]
    assert [wrong for module, target in imports if (wrong := complaint(module, target))] == []


def test_modules_import_in_no_circle() -> None:
    """Also not inside functions: what needs something above itself belongs above it.

    A document imports the type of its result for the type checker alone.
    """
    graph = {}
    for module, tree in MODULES.items():
        name = module[:-1] if module[-1] == "__init__" else module
        graph[name] = layers.imports(tree, module, types=False) - {name, ("",)} if name else set()
    assert tuple(graphlib.TopologicalSorter(graph).static_order())


@pytest.mark.parametrize(
    ("module", "line", "fault"),
    [
        (("inputs", "arrays"), "from calibrant.table import ReliabilityTable", "inputs.arrays imports table, which is"),
        (("inputs", "scores"), "def f():\n    from calibrant import results", "inputs.scores imports results, which"),
        (("report", "report"), "import calibrant", "from the package itself"),
        (("report", "report"), "def f():\n    from calibrant.plot import groups", None),
        (
            ("results", "values"),
            "def f():\n    from calibrant.plot import groups",
            "results.values imports plot, which",
        ),
        (("cli", "commands"), "from calibrant import __version__", None),
        (("cli", "commands"), "from calibrant import evaluate", "from the package itself"),
        (("table", "grid"), "from .. import report", "table.grid imports report, which is not in a layer below"),
        (("measures", "binned", "ece"), "from ... import report", "measures.binned.ece imports report, which is not"),
        (("measures", "binned", "ece"), "from . import binned", None),
        (("torch", "base"), "from calibrant.sklearn import Scorer", "torch.base imports sklearn, which is not"),
        (("kernels", "reference"), "from calibrant.inputs.predictions import Predictions", "not in a layer below"),
    ],
)
def test_the_check_itself(module: tuple[str, ...], line: str, fault: str | None) -> None:
    wrong = [said for target in layers.imports(ast.parse(line), module) if (said := complaint(module, target))]
    assert (fault in wrong[0]) if fault else not wrong


def test_contributing_shows_the_layers() -> None:
    assert shown.stale({"packages.txt": layers.picture()}) == [], "out of date; run: python tools/layers.py"


def test_the_files_that_contributing_names_exist() -> None:
    page = ROOT.joinpath("CONTRIBUTING.md").read_text("utf-8")
    rows = re.findall(r"^\| .*? \| (`[\w/]+\.py`.*) \|$", page, re.MULTILINE)
    assert len(rows) > 10
    for row in rows:
        for path, names in re.findall(r"`([\w/]+\.py)`((?:(?!`[\w/]+\.py`).)*)", row):
            source = SOURCE.joinpath(path).read_text("utf-8")
            asked = [name.rpartition(".")[2] for name in re.findall(r"`([\w.]+)`", names)]
            missing = [name for name in asked if not re.search(rf"(def|class) {name}\b", source)]
            assert not missing, (path, missing)


def test_evaluate_calls_what_the_data_flow_names() -> None:
    page = ROOT.joinpath("CONTRIBUTING.md").read_text("utf-8")
    flow = page.partition("pass through these\nsubpackages:\n\n```text\n")[2].partition("```")[0].splitlines()
    assert len(flow) == 8
    lines = [re.split(" {2,}", line.strip()) for line in flow[1:]]
    named = {(package, name) for package, names, _ in lines for name in names.split(", ")}
    called = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(f"{SOURCE}"):
            path = Path(frame.f_code.co_filename).relative_to(SOURCE)
            called.add((path.parts[0], frame.f_code.co_qualname.partition(".")[0]))

    (classes, labels), (scores, outcomes) = stops.examples().values()
    sys.setprofile(note)
    try:
        calibrant.evaluate(classes, labels, n_resamples=0)
        calibrant.evaluate(scores, outcomes, clusters=outcomes.cumsum(), n_resamples=0, tolerance=0.1)
    finally:
        sys.setprofile(None)
    assert named - called == set()


def test_the_count_of_stops_itself() -> None:
    """Views count, and objects up to three steps away; copies, other arguments and modules outside do not."""
    numbers = np.arange(6.0).reshape(3, 2)
    rows = Rows(numbers[:, :, None])
    assert stops.leads_to(numbers.T[1:], numbers)
    assert stops.leads_to(rows, numbers, 1)
    assert not stops.leads_to(rows, numbers, 0)
    assert stops.leads_to([{"rows": rows}], numbers)
    assert not stops.leads_to([[{"rows": rows}]], numbers)
    assert not stops.leads_to([numbers.copy(), Rows, np, "numbers"], numbers)
    route = [stops.Stop(module, "f") for module in "aabacab"]
    assert stops.visits_of(route) == {"a": 3, "b": 2, "c": 1}
    assert stops.returns_of(route) == 3
    assert stops.stops_of(lambda values: [Rows(values[:, :, None]), sum(values)], numbers) == [
        ("kernels.row_blocks", "__post_init__")
    ]


def test_the_quick_cases_of_a_product_cover_it() -> None:
    """Four values of each axis, others from another start; every value of axes with fewer; a product with holes."""
    cases = list(itertools.product("abcdefg", "xy", "1234", "j"))
    chosen = [cases[k] for k in covering(cases)]
    assert [set(column) for column in zip(*chosen, strict=True)] == [set("abdf"), set("xy"), set("1234"), {"j"}]
    assert len(chosen) == 4
    assert {cases[k][0] for k in covering(cases, start=2)} == set("cdfa")
    assert len(covering(cases, few=7)) == 7
    holes = [("a", "d"), ("a", "e"), ("b", "d"), ("b", "e"), ("c", "e")]
    assert covering(holes) == {0, 3, 4}
    assert covering([("a",)]) == {0}


FOLDERS = ("benchmarks", "docs", "examples", "tools")
SCRIPTS = sorted(path.relative_to(ROOT) for folder in FOLDERS for path in ROOT.joinpath(folder).rglob("*.py"))


def test_what_a_script_imports_of_the_package_exists() -> None:
    """Scripts that no test runs, such as benchmarks, follow a module that moves."""
    for script in SCRIPTS:
        for node in ast.walk(ast.parse(ROOT.joinpath(script).read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "calibrant":
                module = importlib.import_module(str(node.module))
                missing = [alias.name for alias in node.names if not hasattr(module, alias.name)]
                missing = [name for name in missing if importlib.util.find_spec(f"{node.module}.{name}") is None]
                assert not missing, f"{script} imports {missing} from {node.module}"


@pytest.mark.every_value
@pytest.mark.parametrize("package", sorted(layers.PACKAGES.keys() - {"errors"}))
def test_a_package_init_imports_no_module_of_its_own(package: str) -> None:
    """It lists names, and `lazy` imports them: a thread that imports one of the modules never waits for the package."""
    tree, listed = MODULES[package, "__init__"], set()
    for node in tree.body:
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                listed = {(f"{part.module}", alias.name) for part in node.body for alias in part.names}  # type: ignore[attr-defined]
            case ast.ImportFrom(module=module):
                assert module in ("typing", "calibrant.runtime.cached", "calibrant.errors"), package
            case ast.Try() | ast.Expr(value=ast.Constant()):
                assert not layers.imports(node, (package, "__init__")), package
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
FIRST = {"calibrant.runtime", "calibrant.runtime.process", "calibrant.kernels", "calibrant.kernels.compiling"}


def loaded_by(module: tuple[str, ...]) -> set[str]:
    """Return what importing a module imports: its packages, and what its body imports outside of functions."""
    name = ".".join(("calibrant", *module)).removesuffix(".__init__")
    parts = name.split(".")
    found = {".".join(parts[:end]) for end in range(1, len(parts))}
    nodes = list(MODULES[module].body)
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
                is_module = layers.resolved(tuple(inner.split(".")[1:])) == tuple(inner.split(".")[1:])
                # A name of a package is imported from its home when it is taken.
                home = inner if is_module else getattr(getattr(package, alias.name), "__module__", node.module)
                found |= {str(node.module), home if str(home).startswith("calibrant") else str(node.module)}
    return found - {name}


#: What packages, and modules, cannot be imported without.
NEEDED = {("torch",): "torchmetrics", ("kernels", "fused"): "triton", ("kernels", "triton_rows"): "triton"}


def test_no_module_imports_itself_through_others() -> None:
    """Two threads that import in a circle wait for each other; without one they cannot, whatever they begin with."""
    graph = {
        ".".join(("calibrant", *module)).removesuffix(".__init__"): loaded_by(module)
        for module in MODULES
        if module[-1] != "__main__" and importlib.util.find_spec(NEEDED.get(module[:1], NEEDED.get(module, "sys")))
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
    tree = MODULES["__init__",]
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
        "calibrant.kernels.compiling",
        "calibrant.runtime",
        "calibrant.runtime.process",
    ]
    assert "numpy" not in loaded


def test_packages_are_attributes_of_the_package() -> None:
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


def test_a_report_loads_no_other_result() -> None:
    code = f"""
import sys, json
from calibrant.cli import main
try:
    main(["report", {str(ROOT / "examples" / "digits.parquet")!r}, "--quiet"])
except SystemExit as stopped:
    assert not stopped.code
print(json.dumps(sorted(sys.modules)))
"""
    loaded = [name.removeprefix("calibrant.") for name in json.loads(run(code)) if name.startswith("calibrant.")]
    others = ("recalibration", "thresholds", "monitoring", "plot", "torch", "sklearn", "frames", "compat")
    assert [name for name in loaded if name.startswith(others)] == []
    assert [name for name in loaded if name.endswith(("comparison", "leaderboard", "compare_models"))] == []


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
    "files.applied._writing",  # DuckDB
    "files.engine._about_dates",  # DuckDB
    "files.engine.explain",  # DuckDB
    "files.local.first_line",  # any
    "files.text._wrong_line",  # json
    "files.text.explain",  # DuckDB
    "frames.grid_sums.fetch",  # DuckDB
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


def test_nothing_is_decided_by_the_words_of_an_error() -> None:
    found = {
        f"{'.'.join(module)}.{function}": looks
        for module, tree in MODULES.items()
        for function, looks in looks_of(tree).items()
    }
    assert {name: looks for name, looks in found.items() if name not in FOREIGN_TEXT} == {}


def test_looks_at_words_are_found() -> None:
    lines = [
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
    ]
    assert [line for line in lines if not looks_of(ast.parse(f"def f(error: InputError):\n    {line}"))] == []


def test_words_that_are_only_passed_on_are_no_look() -> None:
    lines = [
        "if error.fault is Fault.TEXT: ...",
        "if error.argument == 'probs' and error.row is not None: ...",
        "raise FileError(path, f'expected {error.expected}, got {error.got}', error.remedy)",
        "return error.facts.mistake in MAY_BE_LOGITS",
        "return ' '.join([str(error), 'more'])",
    ]
    assert [line for line in lines if looks_of(ast.parse(f"def f(error: InputError):\n    {line}"))] == []


# ---------------------------------------------------------------- what is public


def test_all_lists_the_public_names() -> None:
    modules = {path.stem for path in SOURCE.iterdir()}
    machinery = {"Any", "Final", "LOADING", "TYPE_CHECKING", "import_module", "process"}
    public = {name for name in dir(calibrant) if not name.startswith("_") and name not in modules | machinery}
    assert set(calibrant.__all__) == public
    assert calibrant.__all__ == sorted(calibrant.__all__)


def test_public_names_are_documented() -> None:
    for name in calibrant.__all__:
        own = getattr(calibrant, name)
        assert own.__doc__, name
        assert own.__doc__.split("\n", 1)[0].strip().endswith((".", ":")), name
        if inspect.isfunction(own):
            assert "Examples\n" in inspect.cleandoc(own.__doc__), name
            assert doctest.DocTestParser().get_examples(own.__doc__), name
            for parameter in inspect.signature(own).parameters.values():
                positional = parameter.kind is parameter.POSITIONAL_OR_KEYWORD
                arrays = ("probs", "targets", "probs_a", "probs_b", "scores", "correct", "times", "events", "results")
                assert positional == (parameter.name in arrays) or parameter.name == "n_bins", (name, parameter)


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    "error",
    [
        errors.CalibrantError("something"),
        errors.InputError("probs", "numbers", "text", "convert it", row=3, column=1),
        errors.InputError("probs", "numbers", "text", "convert it"),
        wording.refuse("probs", Fault.ROW_SUM, "rows that sum to 1", "0.9", facts=Facts(value=0.9, place=Place(4))),
        wording.refuse("targets", Fault.SWAPPED, "targets", "fractions").renamed({"targets": "target"}),
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


def test_every_fault_and_mistake_is_stated_somewhere() -> None:
    sources = [path.read_text("utf-8") for path in SOURCE.rglob("*.py") if path.name not in ("faults.py", "wording.py")]
    stated = {name for text in sources for name in re.findall(r"\b(?:Fault|Mistake)\.\w+", text)}
    assert {f"{member}" for member in (*Fault, *Mistake)} <= stated


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
