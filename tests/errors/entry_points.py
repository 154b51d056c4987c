"""Use everything that needs an extra, without some packages, and print what came of it as JSON.

`test_missing_extras.py` runs ``python entry_points.py FOLDER PACKAGE...``, because a process cannot lose a package that
it has imported.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

#: Packages that are published under another name than that of the import.
PUBLISHED: Final = {"sklearn": "scikit_learn"}


class Without:
    """A finder of modules that does not find some packages, nor what is known of them: they are not installed."""

    def __init__(self, finder: Any, packages: list[str]) -> None:
        self.finder = finder
        self.packages = {*packages, *(PUBLISHED[package] for package in packages if package in PUBLISHED)}

    def find_spec(self, name: str, *places: Any) -> Any:
        return None if name.partition(".")[0] in self.packages else self.finder.find_spec(name, *places)

    def find_distributions(self, context: Any = None) -> Any:
        named = str(getattr(context, "name", None)).replace("-", "_").lower()
        find = getattr(self.finder, "find_distributions", None)
        return [] if named in self.packages or find is None else find(context)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.finder, name)


def files_in(folder: str) -> dict[str, str]:
    """The files that `test_missing_extras.py` has written."""
    return {name: os.path.join(folder, name) for name in os.listdir(folder)}


def results() -> dict[str, Any]:
    """A result of every kind with methods that need an extra."""
    import numpy as np

    import calibrant
    from calibrant import inference

    rng = np.random.default_rng(0)
    p = rng.random(400)
    y = (rng.random(400) < p).astype(int)
    probs = rng.dirichlet(np.ones(3), 400)
    targets = rng.integers(0, 3, 400)
    watch = calibrant.Monitor()
    watch.update(p, y)
    watch.update(p[:200], y[:200])
    sketch = calibrant.CalibrationSketch()
    sketch.update(p, y)
    rows = [
        {"answers": {"a": {"noul": float(s)}, "b": {"noul": float(s)}}, "labels": {"a": bool(o), "b": bool(o)}}
        for s, o in zip(p, y, strict=True)
    ]
    log = calibrant.read_decisions(rows)
    report = calibrant.evaluate(p, y, groups=np.arange(400) % 2, profile="clinical", n_resamples=0)
    fix = calibrant.recalibrate(p, y)
    return {
        "report": report,
        "report of classes": calibrant.evaluate(probs, targets, n_resamples=0),
        "comparison": calibrant.compare({"a": p, "b": p**2}, y),
        "recalibration": fix,
        "map": fix.map,
        "map of classes": calibrant.recalibrate(probs, targets, method="vector").map,
        "threshold": calibrant.certify_threshold(p, y, max_risk=0.4),
        "two thresholds": calibrant.certify_two_sided(p, y, yes_risk=0.4, no_risk=0.4),
        "monitor": watch,
        "sketch": sketch,
        "table": sketch.table,
        "questions": calibrant.evaluate(log, n_resamples=0),
        "maps of questions": calibrant.recalibrate(log),
        "compared questions": calibrant.compare({"x": log, "y": log}),
        "gates": calibrant.certify_questions(log, max_risk=0.4),
        "diagram": report.diagram,
        "net benefit": calibrant.net_benefit(p, y),
        "murphy curve": calibrant.murphy_curve(p, y),
        "risk-coverage curve": calibrant.risk_coverage_curve(p, y),
        "multicalibration": calibrant.multicalibration_error(p, y, groups=np.arange(400) % 2),
        "test": inference.ks_test(p, y),
        "floor": inference.noise_floor(200),
        "classwise": calibrant.classwise_calibration(probs, targets),
    }


def of_results(folder: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every public method that needs no argument, or a path; and the texts of a result."""
    for name, result in results().items():
        for method in sorted(dir(type(result))):
            if (method.startswith("_") and method not in ("_repr_html_", "__str__", "__repr__")) or method == "update":
                continue
            found = getattr(type(result), method)
            if not inspect.isfunction(found):
                continue
            needed = [
                parameter.name
                for parameter in list(inspect.signature(found).parameters.values())[1:]
                if parameter.default is parameter.empty and parameter.kind.name.startswith("POSITIONAL")
            ]
            path = os.path.join(folder, f"out {name} {method}")
            if needed in ([], ["path"]):
                yield f"{name}.{method}", partial(getattr(result, method), *[path] * len(needed))
            elif method in ("to_sql", "to_expression"):
                columns = "score" if result.n_classes is None else ["a", "b", "c"]
                yield f"{name}.{method}", partial(getattr(result, method), columns)


def names_of(package: str) -> list[Any]:
    """The public names of a package, which are imported when they are looked at."""
    module = importlib.import_module(f"calibrant.{package}")
    return [getattr(module, name) for name in getattr(module, "__all__", dir(module))]


def of_packages() -> Iterator[tuple[str, Callable[[], Any]]]:
    """The functions of packages for other libraries."""
    import numpy as np

    import calibrant

    p, y = np.linspace(0.1, 0.9, 60), np.arange(60) % 2
    for package in ("sklearn", "torch", "frames", "plot", "compat.bensemble", "compat.pyhealth"):
        yield f"names of {package}", partial(names_of, package)

    def draw(name: str) -> Any:
        import calibrant.plot as cp

        result = calibrant.evaluate(p, y, groups=y, profile="clinical", n_resamples=0)
        return getattr(cp, name)(result)

    for name in (
        "reliability_diagram",
        "calibration_curve",
        "decision_curve",
        "groups",
        "roc_curve",
        "score_histogram",
    ):
        yield f"plot.{name}", partial(draw, name)

    def of_frame(make: Callable[[dict[str, Any]], Any]) -> Any:
        from calibrant import frames

        return frames.sketch(make({"p": p, "y": y}), score="p", target="y")

    def frame(library: str) -> Any:
        module = importlib.import_module(library)
        return {"pandas": lambda d: module.DataFrame(d), "pyarrow": lambda d: module.table(d)}[library]

    for library in ("pandas", "pyarrow"):
        try:
            make = frame(library)
        except ModuleNotFoundError:  # a user without it has no such frame
            continue
        yield f"frame of {library}", partial(of_frame, make)


def of_files(folder: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Readers of files, and the command."""
    import calibrant

    files = files_in(folder)
    for name in files:
        if name.startswith("log."):
            yield f"read_decisions {name}", partial(calibrant.read_decisions, files[name])
    out = ["html", "json", "markdown", "png", "svg", "sketch"]
    lines = [["report", files[name]] for name in files if name.startswith("rows.")]
    written = [f"--{each}={os.path.join(folder, 'out')}.{'cal' if each == 'sketch' else each}" for each in out]
    lines += [["report", files["rows.csv"], option] for option in written]
    lines += [["recalibrate", files["rows.csv"], f"--{each}={folder}/o.{each}", "--anyway"] for each in ("onnx", "sql")]
    lines += [["compare", files["rows.csv"], files["rows.csv"]], ["floor", "--n", "50"], ["report", "--help"]]
    lines += [
        ["threshold", files["rows.csv"]],
        ["monitor", os.path.join(folder, f"state{os.getpid()}.json"), files["rows.csv"]],
    ]
    lines += [["report", files["log.jsonl"]], ["report", files["rows.csv"], "--engine", "spark"]]

    def command(words: list[str]) -> Any:
        from click.testing import CliRunner

        from calibrant.cli import main

        done = CliRunner().invoke(main, [*words])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        if done.exit_code in (1, 2):
            raise RuntimeError(done.stderr)

    try:
        import click  # noqa: F401
    except ModuleNotFoundError:  # `test_extras.py` starts the command without it
        return
    for words in lines:
        yield " ".join(["calibrant", *words]).replace(folder, "").replace(str(os.getpid()), ""), partial(command, words)


def main(folder: str, packages: list[str]) -> None:
    sys.meta_path[:] = [Without(finder, packages) for finder in sys.meta_path]
    os.environ["MPLBACKEND"] = "agg"
    warnings.simplefilter("ignore")
    from calibrant.errors import CalibrantError

    found = {}
    for uses in (of_results(folder), of_packages(), of_files(folder)):
        for name, use in uses:
            try:
                use()
                found[name] = ["works", "", ""]
            except CalibrantError as error:
                found[name] = ["says", type(error).__name__, str(error)]
            except RuntimeError as error:
                found[name] = ["says", "the command", str(error)]
            except Exception as error:
                found[name] = ["breaks", type(error).__name__, traceback.format_exc()[-1500:]]
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
