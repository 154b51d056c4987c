"""Make the output of the examples for their pages: run ``python docs/make_printed.py``, or with names of examples.

Each file of examples/ with a page is run as a reader would run it. The page shows the file and its output
(docs/shown.py); tests/test_examples.py asserts that they agree. This needs the extra "examples"; make_examples.py does
not.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import shown

ROOT = Path(__file__).resolve().parent.parent

#: The examples that have a page.
NAMES = (
    "clinical_risk",
    "huggingface_trainer",
    "language_model_confidences",
    "lightgbm_eval",
    "lightning_module",
    "mlflow_artifacts",
    "mlflow_monitor",
    "pytorch_loop",
    "weather_and_sports",
    "xgboost_eval",
)


def printed(name: str) -> str:
    """Run an example and return its output."""
    command = [sys.executable, f"examples/{name}.py"]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout


def sources() -> dict[str, str]:
    """Return the files of examples/ by their names."""
    return {f"examples/{name}.py": (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8") for name in NAMES}


if __name__ == "__main__":
    shown.write(sources() | {f"printed/{name}.txt": printed(name) for name in sys.argv[1:] or NAMES})
