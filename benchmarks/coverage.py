"""Proof by simulation: do the intervals hold the true value as often as they say, and do the tests err as often?

    python benchmarks/coverage.py            # everything, two hours on 2 processors; writes docs/coverage.md
    python benchmarks/coverage.py --quick    # N = 200 and 2,000, a tenth of the data sets: minutes; prints only
    python benchmarks/coverage.py --only brier_skill nll    # these measures of one event alone, on the same data sets
    python benchmarks/coverage.py --page     # no simulation: writes docs/coverage.md and its figure from the tables

Data sets are drawn from laws whose calibration is known (`simulation/coverage_laws.py`, `coverage_clusters.py`,
`coverage_pairs.py`), and every interval of `evaluate` and `compare` is held against the true value: at 90 % and 95 %,
at N = 200 to 200,000, at calibration and away from it. The finished parts lie in `benchmarks/.coverage/`; a run that
was stopped goes on where it was. Every part has a seed of its own, so the table does not depend on processors or
interruptions.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

if __name__ not in ("__main__", "__mp_main__"):
    # Numba imports a package `coverage` if it finds one. It must not find this file, which is on the benchmarks' path.
    msg = "a script, and no module"
    raise ImportError(msg)

os.environ.setdefault("CALIBRANT_NUM_THREADS", "1")  # the data sets are what runs side by side
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "simulation"))

import numpy as np  # noqa: E402
from coverage_cells import failing  # noqa: E402
from coverage_page import rewrite_page, update_page, write_page  # noqa: E402
from coverage_parts import LAWS, SIMULATED, Part, limited, parts, repeats, run  # noqa: E402


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="N = 200 and 2,000, a tenth of the data sets; print only")
    parser.add_argument(
        "--page", action="store_true", help="no simulation: write the page and its figure from the tables"
    )
    parser.add_argument("--only", nargs="+", default=[], choices=[m.name for m in SIMULATED], metavar="MEASURE")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args(arguments)
    if options.page:
        rewrite_page(HERE.parent / "docs")
        return 0
    only = tuple(options.only)
    wanted = limited(parts(options.quick), only)
    missing = [part for part in wanted if not part.path.exists()]
    started = time.monotonic()
    compute(missing, options.processes)
    again = limited(repeats(failing(loaded(wanted), LAWS), options.quick), only)
    compute([part for part in again if not part.path.exists()], options.processes)
    spent = time.monotonic() - started
    results, docs = (loaded(wanted), loaded(again), LAWS), HERE.parent / "docs"
    if only and not options.quick:
        update_page(*results, docs, only)
    else:
        page = write_page(*results, None if options.quick else docs)
    if options.quick:
        print("\n".join(page.values()))
    print(f"{len(missing)} of {len(wanted)} parts computed in {spent / 60:.1f} minutes", file=sys.stderr)
    return 0


def loaded(wanted: list[Part]) -> dict[Part, dict[str, np.ndarray]]:
    return {part: dict(np.load(part.path)) for part in wanted}


def compute(missing: list[Part], processes: int) -> None:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

    if not missing:
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns) as bar, ProcessPoolExecutor(processes) as pool:
        task = bar.add_task("", total=len(missing))
        for done in as_completed([pool.submit(run, part) for part in missing]):
            done.result()
            bar.advance(task)


if __name__ == "__main__":
    sys.exit(main())
