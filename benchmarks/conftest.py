"""The fixtures of all benchmarks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent))  # pytest with --import-mode=importlib does not add it

from contest import Contest
from samples import Sample, binary, classes


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="few rounds: check that everything runs")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", "default")  # the peers' warnings, some at import, are not ours to fix


@pytest.fixture
def quick(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--quick"))


@pytest.fixture
def contest(benchmark: Any, quick: bool) -> Contest:
    return Contest(benchmark, quick=quick)


@pytest.fixture(scope="module")
def wide() -> Sample:
    """50,000 x 1,000, float32."""
    return classes(50_000, 1_000)


@pytest.fixture(scope="module")
def long() -> Sample:
    """2,000,000 scores of one event, float32."""
    return binary(2_000_000)
