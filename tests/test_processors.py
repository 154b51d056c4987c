"""Results on another processor: OpenBLAS adds in another order on each, and the last bits of its sums differ.

OpenBLAS chooses its kernels by the processor, or by the variable OPENBLAS_CORETYPE. Matrix products differ by about
1e-15, relative. No choice may depend on that, so that results agree to 1e-9.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the kernels are those of x86 processors"),
]

KERNELS = ("Haswell", "Zen", "SkylakeX", "Sandybridge", "Nehalem", "Prescott")
SKLEARN = ("tests/sklearn/test_recalibrator.py", "-m", "slow", "-k", "checks_of_scikit_learn")
PRODUCTS = "import numpy as np; a = np.ones((300, 300)); a @ a; np.linalg.inv(a + np.eye(300))"
ROOT = Path(__file__).parent.parent

RESULTS = """
import json
import numpy as np
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
import calibrant
from calibrant.sklearn import RecalibratedClassifier

rng = np.random.default_rng(5)
z = rng.normal(0, 1.5, 2_000)
p, other = (1 / (1 + np.exp(-x)) for x in (z, z + rng.normal(0, 0.5, len(z))))
y = rng.random(len(z)) < 1 / (1 + np.exp(-0.7 * z - 0.2))
clusters, weights = rng.integers(0, 150, len(z)), rng.uniform(0.5, 2, len(z))
logits = rng.normal(0, 2, (1_000, 4))
classes = np.array([rng.choice(4, p=e / e.sum()) for e in np.exp(0.6 * logits)])
probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
X, labels = make_classification(300, random_state=0)
repeats = np.random.default_rng(1).integers(1, 4, len(X))
model = RecalibratedClassifier(LogisticRegression(tol=1e-12))
once = model.fit(X, labels, sample_weight=repeats).predict_proba(X)
often = model.fit(np.repeat(X, repeats, axis=0), np.repeat(labels, repeats)).predict_proba(X)
monitor = calibrant.Monitor()
for start in range(0, len(z), 500):
    rows = slice(start, start + 500)
    monitor.update(p[rows], y[rows], label=str(start))
results = {
    "report": calibrant.evaluate(p, y),
    "clusters": calibrant.evaluate(p, y, clusters=clusters),
    "weights": calibrant.evaluate(p, y, weights=weights),
    "classes": calibrant.evaluate(probs, classes),
    "compare": calibrant.compare({"a": p, "b": other}, y),
    "compare, clusters": calibrant.compare({"a": p, "b": other}, y, clusters=clusters),
    **{
        f"recalibrate, {method}": calibrant.recalibrate(p, y, method=method)
        for method in ("auto", "beta", "isotonic", "histogram")
    },
    "recalibrate, clusters": calibrant.recalibrate(p, y, clusters=clusters),
    "recalibrate, classes": calibrant.recalibrate(probs, classes),
    "prior": calibrant.prior_shift(p, trained_prior=0.3, clusters=clusters),
    "prior, classes": calibrant.prior_shift(probs, trained_prior=[0.25] * 4, weights=weights[:1_000], reference=probs),
    "prior, weights": calibrant.prior_shift(p, trained_prior=0.3, weights=weights),
    "results": calibrant.compare_results({"a": y[:400], "b": y[400:800], "c": p[:400]}, clusters=clusters[:400]),
    "sparse": calibrant.compare(
        {"a": np.where(weights > 1.4, np.nan, p), "b": np.where(weights < 0.8, np.nan, other)}, y, sparse=True
    ),
    "threshold": calibrant.certify_threshold(p, y, max_risk=0.2),
    "threshold, clusters": calibrant.certify_threshold(p, y, max_risk=0.2, clusters=clusters),
    "threshold, betting": calibrant.certify_threshold(p, y, max_risk=0.2, clusters=clusters, method="betting"),
}
found = {name: result.to_dict() for name, result in results.items()}
found["monitor"] = monitor.to_dict()
found["classifier"] = {"once": once.tolist(), "often": often.tolist()}
print(json.dumps(found, default=str))
"""


def environment(kernel: str, threads: int) -> dict[str, str]:
    numbers = dict.fromkeys(("CALIBRANT_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    return {**os.environ, **numbers, "OPENBLAS_CORETYPE": kernel}


def run(kernel: str, threads: int, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        env=environment(kernel, threads),
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )


def skip_without(kernel: str) -> None:
    """Skip a kernel with instructions that this processor lacks."""
    if run(kernel, 1, "-c", PRODUCTS).returncode:
        pytest.skip(f"the processor does not have the instructions of OpenBLAS's kernel {kernel}")


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        return {k: v for name, part in value.items() for k, v in leaves(part, f"{path}/{name}").items()}
    if isinstance(value, list):
        return {k: v for i, part in enumerate(value) for k, v in leaves(part, f"{path}/{i}").items()}
    return {path: value}


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return results("Prescott", 1)  # of the first processors of 64 bits: each one has its instructions


def results(kernel: str, threads: int) -> dict[str, Any]:
    done = run(kernel, threads, "-c", RESULTS)
    assert done.returncode == 0, done.stderr
    return leaves(json.loads(done.stdout))


@pytest.mark.parametrize("kernel", KERNELS)
def test_results_do_not_depend_on_the_processor(kernel: str, expected: dict[str, Any]) -> None:
    skip_without(kernel)
    found = results(kernel, 2)
    assert found == {
        name: pytest.approx(value, rel=1e-9, abs=1e-12, nan_ok=True) if isinstance(value, float) else value
        for name, value in expected.items()
    }


def test_weights_of_a_classifier_are_repeated_rows(expected: dict[str, Any]) -> None:
    once, often = ([expected[f"/classifier/{kind}/{i}/1"] for i in range(300)] for kind in ("once", "often"))
    assert once == pytest.approx(often, rel=1e-9)


@pytest.mark.parametrize("kernel", ["Prescott", "SkylakeX"])
def test_the_checks_of_scikit_learn_pass(kernel: str) -> None:
    skip_without(kernel)
    done = run(kernel, 2, "-m", "pytest", "-q", "-n0", *SKLEARN)
    assert done.returncode == 0, done.stdout[-3_000:]
