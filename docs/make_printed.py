"""Make what the examples print, for their pages: run ``python docs/make_printed.py``, or with names of examples.

Each file of examples/ with a page is run as a reader would run it. What it prints goes to docs/_printed;
tests/test_examples.py asserts that it still does. This needs the extra "examples", so make_examples.py does without it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(__file__).with_name("_printed")

#: The examples that have a page.
NAMES = (
    "clinical_risk",
    "huggingface_trainer",
    "language_model_confidences",
    "lightgbm_eval",
    "lightning_module",
    "mlflow_artifacts",
    "pytorch_loop",
    "weather_and_sports",
    "xgboost_eval",
)


def printed(name: str) -> str:
    """Run an example and return what it prints."""
    command = [sys.executable, f"examples/{name}.py"]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout


def main(names: list[str]) -> None:
    """Write the files."""
    TARGET.mkdir(exist_ok=True)
    for name in names or NAMES:
        (TARGET / f"{name}.txt").write_text(printed(name), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
