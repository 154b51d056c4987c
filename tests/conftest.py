"""What holds for all tests: one thread and one engine in each worker, and how many examples Hypothesis tries."""

from __future__ import annotations

import atexit
import gc
import os
from collections.abc import Generator, Iterator
from contextlib import nullcontext
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

from tests.covering import mark_uncovered

if "PYTEST_XDIST_WORKER" in os.environ:  # the workers share the processors; tests about threads set their number
    for name in ("CALIBRANT_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")

# `pytest --hypothesis-profile=deep` (so .ci/run) tries every example that a test asks for, plain `pytest` a tenth.
settings.register_profile("deep", deadline=None, max_examples=100)
settings.register_profile("quick", deadline=None, max_examples=10)
settings.load_profile("quick")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exclude what is imported from garbage collection, and collect less often.

    Python looks at every object of torch, Matplotlib and others in each full collection. That takes half a second, and
    the tests cause dozens of them.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000, 10, 10)
        gc.enable()


# DuckDB reports objects that are never collected as leaks. Not earlier: at the end pytest collects ten times.
atexit.register(gc.unfreeze)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of each product of parameters, mark as slow what the quick tests do not need; before pytest deselects."""
    mark_uncovered(items)


@pytest.fixture(scope="session", autouse=True)
def _one_engine() -> Iterator[None]:
    """Have all files share one engine: opening one takes longer than most tests of files."""
    if find_spec("duckdb") is None:
        yield
        return
    import duckdb

    from calibrant.files import engine

    @cache
    def shared(timezone: str) -> duckdb.DuckDBPyConnection:
        opened = duckdb.connect(":memory:", config=engine.SETTINGS)
        engine.settle(opened, timezone)
        return opened

    with pytest.MonkeyPatch.context() as patch:
        # A test may say that the engine is missing.
        patch.setattr(engine, "open_engine", lambda purpose, _, zone: engine.load("duckdb", purpose) and shared(zone))
        yield


@pytest.fixture(scope="session", autouse=True)
def _kernels_load_silently() -> Iterator[None]:
    """Leave out the message of compiled kernels that load slowly, which depends on the machine and its other work."""
    if os.environ.get("CALIBRANT_KERNELS") != "numba":
        yield
        return
    from calibrant.kernels import compiled

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "announced", lambda _: nullcontext())
        yield


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)


if os.environ.get("TRITON_INTERPRET") == "1":

    @pytest.fixture(autouse=True)
    def _interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
        """Read tensors of the host that a test calls those of a device by Triton's kernels, not by torch operations."""
        from calibrant.kernels import fused, tensors
        from calibrant.torch import adding

        monkeypatch.setattr(tensors, "kernels_on", lambda device: fused if tensors.has_float64(device) else None)
        monkeypatch.setattr(fused, "_THREADS", 128)  # the interpreter takes as long for few rows as for many
        monkeypatch.setattr(fused, "_TILE", 1024)
        adding._adding.cache_clear()  # no test has the launches of one that changed numbers of `fused`
