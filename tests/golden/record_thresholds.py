"""Record the thresholds that other packages certify for the cases below, into thresholds.json beside this file.

To run it again, in an environment of its own (the tests need none of these packages), with Python 3.11:

    python -m venv thresholds-env
    thresholds-env/bin/pip install kunko-judge-audit==0.5.1 mapie==1.6.0 torch==2.13.0 torchmetrics==1.9.0 matplotlib
    thresholds-env/bin/pip install scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1
    thresholds-env/bin/pip install --no-deps torch-uncertainty==0.13.0
    thresholds-env/bin/python tests/golden/record_thresholds.py

torch-uncertainty imports much that its metrics do not need: only the file needed is loaded.

The cases are made from seeds, with uniform numbers, arithmetic and square roots only, so that the recorder and the
tests see the same rows. A target is 1 if acting on the row is right.

In thresholds.json each case has:

- rows, errors: how many rows, and how many targets 0
- sha256: the first 16 digits of the hash of the scores and the targets, see `checksum`
- kunko: for each maximum risk, [threshold, rows, errors] at or above the threshold of a fixed sequence of tests that
  starts where no error (0), or two errors (2), would pass. No threshold is null.
- mapie: for each maximum risk, the threshold by Holm's method (the default) and by the fixed sequence
- kunko_aurc, kunko_failure_auroc: the mean over k of the errors in the top k / k, where tied scores are in random
  order; and the probability that a right row has the higher score. `augrc` calculates the AUGRC from the latter.
- torch_uncertainty: its AURC and AUGRC, by trapezoids, of cases without ties; `from_trapezoids` calculates the means
"""

from __future__ import annotations

import hashlib
import json
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FILE = Path(__file__).resolve().parent / "thresholds.json"
PACKAGES = ("numpy", "scipy", "kunko-judge-audit", "mapie", "torch-uncertainty", "torch")

CONFIDENCE = 0.95
MAX_RISKS = (0.02, 0.05, 0.1)
STARTS = (0, 2)


class Case(NamedTuple):
    """Scores (N,) and targets (N,): 1 if acting is right."""

    probs: np.ndarray
    targets: np.ndarray


def cases() -> dict[str, Case]:
    """Return name -> case. Scores are Beta(4, 1), odds of the truth are a power of those of the score."""
    return {
        "calibrated 200": _case(200, 1),
        "calibrated 2000": _case(2_000, 1),
        "calibrated 3000, hundredths": _case(3_000, 1, places=2),
        "overconfident 1000": _case(1_000, 0.75),
        "overconfident 3000": _case(3_000, 0.75),
        "overconfident 1500, hundredths": _case(1_500, 0.75, places=2),
        "underconfident 300": _case(300, 1.5),
        "underconfident 1500": _case(1_500, 1.5),
        "underconfident 1000, tenths": _case(1_000, 1.5, places=1),
        "flat 0.03, 500": _case(500, risk=0.03),
        "flat 0.03, 2500, hundredths": _case(2_500, risk=0.03, places=2),
        "flat 0.051, 1000": _case(1_000, risk=0.051),
        "flat 0.051, 3000": _case(3_000, risk=0.051),
        "no errors 250": _case(250, risk=0),
        "one score 400": Case(np.full(400, 0.75), (np.random.default_rng(400).random(400) < 0.97).astype(np.int64)),
    }


def _case(n: int, power: float = 1, *, risk: float | None = None, places: int | None = None) -> Case:
    """Return n rows with the odds of the score to a power (1, 0.75 or 1.5) as true odds, or with one risk."""
    u, v = np.random.default_rng(n).random((2, n))
    p = np.sqrt(np.sqrt(u))
    odds = p / (1 - p)
    root = np.sqrt(odds)
    truth = {1: odds, 0.75: root * np.sqrt(root), 1.5: odds * root}[power]
    rate = truth / (1 + truth) if risk is None else 1 - risk
    return Case(p if places is None else np.round(p, places), (v < rate).astype(np.int64))


def tied(case: Case) -> bool:
    """Return whether rows share a score."""
    return len(np.unique(case.probs)) < len(case.probs)


def checksum(case: Case) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of the scores and the targets, as little-endian numbers."""
    numbers = case.probs.astype("<f8").tobytes() + case.targets.astype("<i8").tobytes()
    return hashlib.sha256(numbers).hexdigest()[:16]


def augrc(auroc: float | None, errors: int, n: int) -> float:
    """Return the mean over k of the errors in the top k / N, from the AUROC of the scores against the errors."""
    wrong = errors / n
    ranked = 0.0 if auroc is None else (1 - auroc) * (1 - wrong) * wrong
    return ranked + wrong * wrong / 2 + errors / (2 * n * n)


def from_trapezoids(area: float, first: float, last: float, n: int) -> float:
    """Return the mean of a curve at 1/N, 2/N, ..., 1 from its normalised area by trapezoids and its two ends."""
    return (area * (n - 1) + (first + last) / 2) / n


def load() -> dict[str, Any]:
    """Return the recording."""
    return json.loads(FILE.read_text(encoding="utf-8"))


# ---------------------------------------------------------------- what each package returns


def _kunko(case: Case) -> dict[str, Any]:
    from judge_audit.metrics.selective import aurc, certify_threshold, failure_auroc

    p, right = case.probs.tolist(), case.targets.astype(bool).tolist()
    found: dict[str, Any] = {}
    for max_risk in MAX_RISKS:
        for start in STARTS:
            answer = certify_threshold(p, right, max_risk, 1 - CONFIDENCE, start)
            kept = [answer["threshold"], answer["covered"], answer["errors"]]
            found.setdefault(str(max_risk), {})[str(start)] = None if kept[0] is None else kept
    return {"kunko": found, "kunko_aurc": aurc(p, right), "kunko_failure_auroc": failure_auroc(p, right)}


def _mapie(case: Case) -> dict[str, Any]:
    from mapie.risk_control import BinaryClassificationController

    found: dict[str, Any] = {}
    for max_risk in MAX_RISKS:
        for method in ("bonferroni_holm", "fixed_sequence"):
            controller = BinaryClassificationController(
                lambda scores: np.stack([1 - scores, scores], axis=1),
                "precision",
                target_level=1 - max_risk,
                confidence_level=CONFIDENCE,
                fwer_method=method,
            )
            controller.calibrate(case.probs, case.targets)
            found.setdefault(str(max_risk), {})[method] = controller.best_predict_param
    return {"mapie": found}


def _torch_uncertainty(case: Case) -> dict[str, Any]:
    import importlib.util

    import torch

    folder = Path(importlib.util.find_spec("torch_uncertainty").origin).parent  # type: ignore[union-attr, arg-type]
    path = folder / "metrics" / "classification" / "risk_coverage.py"
    spec = importlib.util.spec_from_file_location("risk_coverage", path)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    # Two classes of which the first is predicted, with a probability that rises with the score.
    first = torch.from_numpy(0.5 + case.probs / 2)
    answers = []
    for metric in (module.AURC(), module.AUGRC()):
        metric.set_dtype(torch.float64)
        metric.update(torch.stack([first, 1 - first], dim=1), torch.from_numpy(1 - case.targets))
        answers.append(metric.compute().item())
    return {"torch_uncertainty": answers}


def _answers(case: Case) -> dict[str, Any]:
    found = {
        "rows": len(case.targets),
        "errors": int((1 - case.targets).sum()),
        "sha256": checksum(case),
        **_kunko(case),
        **_mapie(case),
    }
    return found if tied(case) else {**found, **_torch_uncertainty(case)}


def main() -> None:
    """Record."""
    warnings.simplefilter("ignore")
    recording = {
        "versions": {name: version(name) for name in PACKAGES},
        "confidence": CONFIDENCE,
        "max_risks": MAX_RISKS,
        "cases": {name: _answers(case) for name, case in cases().items()},
    }
    FILE.write_text(_lines(recording) + "\n", encoding="utf-8")


def _lines(value: Any, depth: int = 0) -> str:
    """Return JSON with a line for each answer of a package."""
    if not isinstance(value, dict) or depth > 2:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    parts = [f"{' ' * depth} {json.dumps(key)}: {_lines(part, depth + 1)}" for key, part in value.items()]
    return "{\n" + ",\n".join(parts) + f"\n{' ' * depth}}}"


if __name__ == "__main__":
    main()
