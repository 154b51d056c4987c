"""Without a package of an extra, whatever needs it says what to install, and everything else works."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packaging.requirements import Requirement

from calibrant.errors.exceptions import install_command

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("entry_points.py")

#: The extras of users; the others are for work on calibrant itself.
EXTRAS = ("fast", "report", "pandas", "excel", "sklearn", "torch", "spark", "onnx")
#: The names of packages that are imported under another name, and what an extra installs with others.
IMPORTED = {"scikit-learn": "sklearn", "python-calamine": "python_calamine"}


def packages() -> dict[str, set[str]]:
    """The packages of the extras by the names that are imported, with the extras that install them."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]

    def within(extra: str) -> set[str]:
        needed = [Requirement(line) for line in extras[extra]]
        own = {IMPORTED.get(need.name, need.name) for need in needed if need.name != "calibrant"}
        return own.union(*(within(other) for need in needed if need.name == "calibrant" for other in need.extras))

    found: dict[str, set[str]] = {"markupsafe": {"report"}}  # which jinja2 installs
    for extra in EXTRAS:
        for name in within(extra):
            found.setdefault(name, set()).add(extra)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Predictions and a log in every format that can be written here."""
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra 'report')")
    from pyarrow import feather, parquet

    made = tmp_path_factory.mktemp("files")
    scores = np.random.default_rng(0).random(60)
    columns = {"score": scores, "outcome": (np.arange(60) % 3 == 0).astype(int)}
    rows = [
        dict(zip(columns, row, strict=True)) for row in zip(*(part.tolist() for part in columns.values()), strict=True)
    ]
    text = "\n".join(",".join(map(str, row.values())) for row in rows)
    (made / "rows.csv").write_text(f"score,outcome\n{text}\n")
    (made / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    np.savez(made / "rows.npz", probs=scores, target=columns["outcome"])
    parquet.write_table(pa.table(columns), made / "rows.parquet")
    feather.write_feather(pa.table(columns), made / "rows.feather")
    if _has("openpyxl"):
        import openpyxl

        book = openpyxl.Workbook()
        for row in [[*columns], *([*row.values()] for row in rows)]:
            book.active.append(row)
        book.save(made / "rows.xlsx")
    log = [{"answers": {"a": {"noul": float(p)}}, "labels": {"a": bool(k % 2)}} for k, p in enumerate(scores)]
    (made / "log.jsonl").write_text("\n".join(map(json.dumps, log)))
    parquet.write_table(pa.Table.from_pylist(log), made / "log.parquet")
    return made


def _has(name: str) -> bool:
    from importlib.util import find_spec

    return find_spec(name) is not None


def used(folder: Path, *absent: str) -> dict[str, Any]:
    """What came of every use without some packages."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder), *absent],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def whole(folder: Path) -> dict[str, Any]:
    """What came of every use with all packages that are here."""
    return used(folder)


@pytest.mark.slow
@pytest.mark.every_value
@pytest.mark.parametrize("package", sorted(packages()))
def test_what_needs_a_missing_package_says_how_to_install_it(package: str, folder: Path, whole: dict[str, Any]) -> None:
    extras = packages()[package]
    commands = {install_command(extra) for extra in extras}
    without = used(folder, package)
    assert without.keys() <= whole.keys()
    # numba has a replacement, and a display in a notebook never fails.
    assert package != "numba" or without == whole
    for name, (outcome, kind, text) in without.items():
        assert outcome != "breaks" or whole[name][0] == "breaks", f"{name}\n{text}"
        assert outcome == "works" or not name.endswith("._repr_html_"), name
        if outcome == "says" and whole[name][0] == "works":
            assert kind in ("MissingDependencyError", "the command"), (name, text)
            assert re.search(r"is needed .* and is not installed; run: ", text), (name, text)
            assert any(text.rstrip().endswith(command) for command in commands), (name, text)
    if package not in ("numba", "rich", "pandas", "pyspark", "python_calamine", "click"):
        assert without != whole, "nothing needs it"


@pytest.mark.slow
def test_nothing_breaks_here(whole: dict[str, Any]) -> None:
    assert [(name, text) for name, (outcome, _, text) in whole.items() if outcome == "breaks"] == []
    assert len(whole) > 150
