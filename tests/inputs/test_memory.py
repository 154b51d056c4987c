"""The limit of memory: how it is written, and what it bounds."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from calibrant.errors import FileError, InputError
from calibrant.files import Options, engine, read_predictions
from calibrant.inputs.memory import DEFAULT, bytes_in_words, is_set, max_memory

open_engine = engine.open_engine  # before the tests share one


@pytest.mark.parametrize(
    ("text", "size"),
    [("2000000", 2_000_000), ("2MB", 2_000_000), ("2.5 MiB", 2_621_440), (" 0.01gb", 10_000_000), ("3kB", 3_000)],
)
def test_the_limit_is_read(monkeypatch: pytest.MonkeyPatch, text: str, size: int) -> None:
    assert max_memory() == DEFAULT
    assert not is_set()
    monkeypatch.setenv("CALIBRANT_MAX_MEMORY", text)
    assert max_memory() == size
    assert is_set()


@pytest.mark.parametrize("text", ["", "0", "-1", "1e9", "9" * 30, "9" * 17 + "GB", "2 TB", "0.5", "GB", "1.GB", "٣MB"])
def test_another_limit_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("CALIBRANT_MAX_MEMORY", text)
    with pytest.raises(InputError, match="CALIBRANT_MAX_MEMORY: expected bytes, such as 2000000000 or 2GB, got"):
        max_memory()


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (7, "7 bytes"),
        (950, "950 bytes"),
        (12_340, "12.3 kB"),
        (999_999, "1,000 kB"),
        (250e6, "250 MB"),
        (1.62e9, "1.6 GB"),
        (4e12, "4,000 GB"),
    ],
)
def test_a_number_of_bytes_in_words(size: float, words: str) -> None:
    assert bytes_in_words(size) == words


def test_rows_that_are_kept_obey_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "p.npz")
    np.savez(path, score=np.full(10_000, 0.5), outcome=np.arange(10_000) % 2)
    monkeypatch.setenv("CALIBRANT_MAX_MEMORY", "200kB")
    with pytest.raises(FileError, match=r"its rows take more than half of the 200 kB of CALIBRANT_MAX_MEMORY"):
        read_predictions([path], Options(), keep=True)
    monkeypatch.setenv("CALIBRANT_MAX_MEMORY", "1MB")
    assert len(read_predictions([path], Options(), keep=True).probs) == 10_000


def test_the_engine_obeys_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb", reason="the report extra is not installed")
    path = tmp_path / "p.csv"
    path.write_text('"score",outcome\n' + ".5,1\n.5,0\n" * 20_000)  # plain numbers would need no engine
    monkeypatch.setattr(engine, "open_engine", open_engine)
    monkeypatch.setenv("CALIBRANT_MAX_MEMORY", "200kB")
    with pytest.raises(
        FileError, match="takes more memory than CALIBRANT_MAX_MEMORY allows; raise CALIBRANT_MAX_MEMORY"
    ):
        read_predictions([str(path)], Options())
    monkeypatch.setenv("CALIBRANT_MAX_MEMORY", "400MB")
    assert len(read_predictions([str(path)], Options()).probs) == 40_000


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators keep freed memory by other rules")
def test_blocks_of_replicates_keep_their_memory() -> None:
    # Without that, every block asks the system for its pages again: 20 blocks of 10 arrays of 256 pages.
    program = """
import resource
import numpy as np
from calibrant.statistics.resampling import Resampling, Stream
work = lambda rng, size: len([rng.random((size, 4096)) for _ in range(10)])
blocks = lambda: list(Resampling.of(0.95, 640, 0).blocks(Stream.CALIBRATED, work, cells=4096))
blocks()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
blocks()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    environment = {**os.environ, "CALIBRANT_NUM_THREADS": "1"}
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert int(run.stdout) < 20 * 256
