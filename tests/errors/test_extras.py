"""What a message about a missing package says to type: for an index, a clone, an archive and a repository."""

from __future__ import annotations

import builtins
import importlib
import json
import os
import shlex
import subprocess
import sys
import types
from importlib import machinery, metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from calibrant.cli import spark
from calibrant.errors import MissingDependencyError, exceptions
from calibrant.errors.exceptions import install_command
from calibrant.files import engine, log_rows
from calibrant.inputs import conversion
from calibrant.plot import canvas
from calibrant.render import page
from calibrant.results import values

ROOT = Path(__file__).parents[2]
REPOSITORY = "https://example.org/team/calibrant.git"
COMMIT = "0f6aa3e1d34ba0c80a3dd9aab8b2ecf2a5f1b2c3"

posix = pytest.mark.skipif(os.name == "nt", reason="the quotes of POSIX's shells")


@pytest.fixture(autouse=True)
def _pip_of_this_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell finds the pip of this Python."""
    monkeypatch.setattr("shutil.which", lambda _: os.path.join(os.path.dirname(sys.executable), "pip"))
    monkeypatch.chdir(tmp_path)


def recorded(monkeypatch: pytest.MonkeyPatch, record: Any) -> str:
    """Return the command for an installation with this record of its source."""

    class Installed:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return record if record is None or isinstance(record, str) else json.dumps(record)

    monkeypatch.setattr(metadata, "distribution", lambda name: {"calibrant": Installed()}[name])
    return install_command("report")


@pytest.mark.parametrize(
    "record", [None, "", "{", "[]", "{}", '{"url": 3}', {"url": "file:///nowhere", "dir_info": {}}]
)
def test_an_installation_from_an_index(monkeypatch: pytest.MonkeyPatch, record: Any) -> None:
    assert recorded(monkeypatch, record) == "pip install 'calibrant[report]'"


@posix
@pytest.mark.parametrize("folder", ["clone", "my clone", "it's $HOME;`x`", "né"])
def test_an_installation_from_a_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    clone = tmp_path / folder
    clone.mkdir()
    for info, option in (({"editable": True}, ["-e"]), ({"editable": False}, []), ({}, [])):
        line = recorded(monkeypatch, {"url": clone.as_uri(), "dir_info": info})
        script = f'pip() {{ "{sys.executable}" -c "import json, sys; print(json.dumps(sys.argv[1:]))" "$@"; }}\n{line}'
        words = json.loads(subprocess.run(["sh", "-c", script], capture_output=True, check=True).stdout)
        assert words == ["install", *option, f"{clone}[report]"]


@posix
def test_an_installation_from_a_repository_names_the_same_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    version = {"vcs": "git", "requested_revision": "main", "commit_id": COMMIT}
    record = {"url": REPOSITORY, "vcs_info": version}
    line = recorded(monkeypatch, record)
    assert line == f"pip install 'calibrant[report] @ git+{REPOSITORY}@{COMMIT}'"
    requirement = Requirement(shlex.split(line)[-1])
    assert (requirement.name, requirement.extras) == ("calibrant", {"report"})
    assert requirement.url == f"git+{REPOSITORY}@{COMMIT}"
    assert recorded(monkeypatch, record | {"subdirectory": "py"}).endswith(f"@{COMMIT}#subdirectory=py'")


@posix
def test_an_installation_from_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = tmp_path / "calibrant-0.1.0-py3-none-any.whl"
    for url in (wheel.as_uri(), "https://example.org/calibrant-0.1.0.tar.gz"):
        line = recorded(monkeypatch, {"url": url, "archive_info": {}})
        if url == wheel.as_uri():
            assert line == "pip install 'calibrant[report]'"  # the file is gone
            wheel.touch()
            line = recorded(monkeypatch, {"url": url, "archive_info": {}})
        assert line == f"pip install 'calibrant[report] @ {url}'"
        assert Requirement(shlex.split(line)[-1]).url == url


def test_without_metadata_the_command_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    assert install_command("torch") == "pip install 'calibrant[torch]'"


@posix
def test_the_pip_is_that_of_this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    own = f"{shlex.quote(sys.executable)} -m pip install 'calibrant[report]'"
    for elsewhere in (None, "/elsewhere/bin/pip"):
        monkeypatch.setattr("shutil.which", lambda _, found=elsewhere: found)
        assert recorded(monkeypatch, None) == own
    monkeypatch.setattr(machinery.PathFinder, "find_spec", lambda _: None)
    assert recorded(monkeypatch, None) == "pip install 'calibrant[report]'"


@posix
def test_the_finders_of_other_packages_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of setuptools warns, and replaces distutils, when it is asked for pip."""

    class Finder:
        def find_spec(self, name: str, *_: object) -> None:
            assert name != "pip"

    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    assert " -m pip install " in recorded(monkeypatch, None)


def test_windows_has_other_quotes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exceptions.os, "name", "nt")
    assert recorded(monkeypatch, None) == 'pip install "calibrant[report]"'


def test_the_error_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    command = recorded(monkeypatch, {"url": REPOSITORY, "vcs_info": {"vcs": "git", "commit_id": COMMIT}})
    error = MissingDependencyError("jinja2", "to write a page", "report")
    assert str(error) == f"jinja2 is needed to write a page and is not installed; run: {command}"


def test_the_command_without_click_says_it() -> None:
    code = "import sys; sys.modules['click'] = None; from calibrant.cli import main"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    line = subprocess.run(
        [sys.executable, "-c", "from calibrant.errors.exceptions import *; print(install_command('report'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert (done.returncode, done.stderr) == (1, f"calibrant: the command needs the extra 'report'; run: {line}")


def test_no_other_module_writes_the_command() -> None:
    lines = [path.name for path in ROOT.glob("src/**/*.py") if "pip install" in path.read_text(encoding="utf-8")]
    assert lines == ["exceptions.py"]


#: What imports a library only when it is needed.
LAZY = {
    "pandas": lambda: values.frame_of([], "bin"),
    "jinja2": lambda: page._environment.__wrapped__(),
    "pyarrow": conversion.import_pyarrow,
    "pyarrow of zstd": lambda: log_rows.Archive._decompressed(None, None),
    "matplotlib": canvas.matplotlib,
    "pyspark": lambda: spark._session(None).__enter__(),
    "duckdb": lambda: engine.load("duckdb", "to read files"),
    "sklearn": lambda: importlib.import_module("calibrant.sklearn"),
    "torch": lambda: importlib.import_module("calibrant.torch"),
    "torchmetrics": lambda: importlib.import_module("calibrant.torch"),
}


@pytest.mark.parametrize("ours", [True, False], ids=["absent", "broken"])
@pytest.mark.parametrize("what", LAZY)
def test_only_a_library_that_is_absent_is_said_to_be_missing(what: str, ours: bool, monkeypatch) -> None:
    """A library that is installed and lacks another one raises what Python says."""
    library = what.split()[0]
    real, real_module = builtins.__import__, importlib.import_module

    def check(name: str) -> None:
        if name.partition(".")[0] == library:
            raise ModuleNotFoundError("No module", name=library if ours else "another")

    def importing(name: str, *rest: Any) -> Any:
        if library == "torchmetrics" and name == "torch":
            return types.ModuleType("torch")
        check(name)
        return real(name, *rest)

    def importing_module(name: str, *rest: Any) -> Any:
        check(name)
        return real_module(name, *rest)

    for module in ("calibrant.sklearn", "calibrant.torch"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setattr(builtins, "__import__", importing)
    monkeypatch.setattr(importlib, "import_module", importing_module)
    with pytest.raises(ModuleNotFoundError if not ours else MissingDependencyError):
        LAZY[what]()
