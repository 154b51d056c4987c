"""Record what relplot says of the cases below, into relplot.json beside this file.

To run it again, in an environment of its own (relplot is no dependency of the tests):

    python -m venv relplot-env && relplot-env/bin/pip install relplot==1.0.3
    relplot-env/bin/python tests/golden/record_relplot.py

The cases are made from seeds, with uniform numbers and arithmetic only, so that recorder and test see the same ones;
the two real ones are read from ../shared/data (beside the repository) and are left out of the recording if absent.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[2] / "shared" / "data"
REAL = ("wideresnet-16-4-cifar-10", "densenet-bc-100-cifar-100")
KERNELS = ("reflected", "logit")
# 0.0123 and 0.003 have finer meshes, one of them with an even number of nodes, which shifts the kernel.
BANDWIDTHS = (2.0, 0.5, 0.1, 0.03, 0.0123, 0.003)
PRECISIONS = ("float32", "float16", "bfloat16")
ROUNDED = ("over-confident 50", "over-confident 1000", "over-confident 200000", "near one 1000")
# Departures from the defaults: mesh points, tolerance, halvings.
SEARCHES = (
    *((200, 1e-3, 10), (37, 1e-3, 10), (1500, 1e-3, 10), (200, 0.05, 10), (200, 2.0, 10), (200, 1e-9, 12)),
    *((1, 1e-3, 10), (0, 1e-3, 4), (3, 0.0, 10), (200, 0.0, 12), (200, 1e-3, 0), (200, 0.0, 1), (2, 0.0, 0)),
)


def cases() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return name -> (scores, outcomes), float64 both."""
    found: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def add(name: str, scores: object, outcomes: object) -> None:
        found[name] = np.asarray(scores, dtype=np.float64), np.asarray(outcomes, dtype=np.float64)

    add("one row", [0.3], [1])
    add("one row at 0, right", [0.0], [0])
    add("one row at 0, wrong", [0.0], [1])
    add("one row at 1, right", [1.0], [1])
    add("two rows", [0.25, 0.9], [1, 0])
    add("ten rows", [0, 0.05, 0.1, 0.2, 0.2, 0.35, 0.5, 0.75, 0.9, 1], [0, 0, 1, 0, 1, 0, 1, 1, 1, 0])
    for n in (50, 1_000, 200_000):
        rng = np.random.default_rng(n)
        p, u = rng.random(n), rng.random(n)
        add(f"calibrated {n}", p, u < p)
        add(f"over-confident {n}", p, u < 0.25 + 0.5 * p)
        add(f"near one {n}", 1 - p**6, u < 1 - p**5)
        add(f"near the clip {n}", 0.002 * p, u < 0.002 * p)
        add(f"tenths {n}", np.round(p, 1), u < p * p)
        add(f"zeros and ones {n}", np.round(p), (u < 0.1) != (p >= 0.5))
        add(f"all zero {n}", np.zeros(n), u < 0.2)
        add(f"all one {n}", np.ones(n), u < 0.8)
        add(f"constant {n}", np.full(n, 0.5), u < 0.53)
    add("half at zero", np.repeat([0.0, 0.5], 1000), np.tile(np.repeat([1, 0, 1, 0], [200, 800, 500, 500]), 1))
    add("perfect", np.repeat([0.0, 1.0], 500), np.repeat([0.0, 1.0], 500))
    return found


def rounded(scores: np.ndarray, precision: str) -> np.ndarray:
    """Return float64 scores that are exact in another precision; bfloat16 is the upper half of a float32."""
    if precision != "bfloat16":
        return scores.astype(precision).astype(np.float64)
    bits = scores.astype(np.float32).view(np.uint32)
    nearest = bits + 0x7FFF + ((bits >> 16) & 1)  # ties to even
    return (nearest & 0xFFFF0000).astype(np.uint32).view(np.float32).astype(np.float64)


def real_case(name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Return top-label confidences and whether they were right, float64, or None where the file is absent."""
    path = DATA / f"{name}.npz"
    if not path.exists():
        return None
    with np.load(path) as file:
        probs, targets = file["predictions"], file["ground_truth"]
    return probs.max(axis=1).astype(np.float64), (probs.argmax(axis=1) == targets).astype(np.float64)


def main() -> None:
    """Ask relplot and write the file."""
    import importlib.metadata

    import relplot
    from relplot import config, metrics

    def record(scores: np.ndarray, outcomes: np.ndarray) -> dict[str, object]:
        answer: dict[str, object] = {}
        for kernel in KERNELS:
            config.use_logit_scaling = kernel == "logit"
            answer[kernel] = {
                "auto": [float(x) for x in relplot.smECE(scores, outcomes, return_width=True)],
                "fixed": [float(relplot.smECE_sigma(scores, outcomes, h)) for h in BANDWIDTHS],
            }
        return answer

    def searches(scores: np.ndarray, outcomes: np.ndarray, kernel: str) -> list[list[float]]:
        config.use_logit_scaling = kernel == "logit"
        rows = []
        for mesh_points, tolerance, halvings in SEARCHES:
            config.smECE_mesh_pts = mesh_points

            def small_or_above(h: float, tolerance: float = tolerance) -> bool:
                return h < tolerance or h < metrics.smooth_ece(scores, outcomes, h)

            h = metrics.search_param(small_or_above, start=1, refine=halvings)
            rows.append([float(metrics.smooth_ece(scores, outcomes, h)), float(h)])
        config.smECE_mesh_pts = 200
        return rows

    recorded: dict[str, object] = {}
    for name, (scores, outcomes) in cases().items():
        recorded[name] = record(scores, outcomes)
    for name in REAL:
        case = real_case(name)
        if case is not None:
            recorded[name] = record(*case)
    halves = {
        f"{name}, {precision}": record(rounded(cases()[name][0], precision), cases()[name][1])
        for name in ROUNDED
        for precision in PRECISIONS
    }
    varied = {kernel: searches(*cases()["calibrated 1000"], kernel) for kernel in KERNELS}
    versions = {name: importlib.metadata.version(name) for name in ("relplot", "numpy")}
    out = {"versions": versions, "cases": recorded, "rounded": halves, "searches": varied}
    (HERE / "relplot.json").write_text(json.dumps(out, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
