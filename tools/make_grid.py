"""Write the edges of the sketch's grids, correctly rounded, and print their checksums for `calibrant.grid`.

The edges are sin(pi j / 2K)^2 for j = 0..K together with i / M for i = 0..M, (K, M) = (4096, 300) for the standard grid
and (16384, 3600) for the fine one. Run it with mpmath installed: python tools/make_grid.py
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import mpmath
import numpy as np

TARGET = Path(__file__).parents[1] / "src" / "calibrant" / "table" / "grid_edges.npz"


def edges(k: int, m: int) -> np.ndarray:
    """Return the edges of one grid, in order."""
    with mpmath.workdps(60):
        arcsine = {float(mpmath.sin(mpmath.pi * j / (2 * k)) ** 2) for j in range(k + 1)}
    return np.array(sorted(arcsine | {i / m for i in range(m + 1)}))


def main() -> None:
    """Write both tables and print their checksums."""
    tables = {"standard": edges(4096, 300), "fine": edges(16384, 3600)}
    for name, table in tables.items():
        assert np.all(np.diff(table) > 0)
        print(name, len(table), hashlib.sha256(table.tobytes()).hexdigest())
    np.savez_compressed(TARGET, **tables)


if __name__ == "__main__":
    main()
