"""Calibration over time in MLflow: evidence as a metric, state and page as artefacts.

    pip install ".[report]" mlflow
    python examples/mlflow_monitor.py FOLDER
    mlflow ui --backend-store-uri sqlite:///FOLDER/mlflow.db

One run follows a deployed model over eight simulated weeks. From the sixth week on, the
event occurs less often than predicted. With a tracking server, pass its address to
``set_tracking_uri``, and leave ``artifact_location`` out.
"""

import sys
import tempfile
from pathlib import Path

import mlflow
import numpy as np

import calibrant

STATE = "calibration/state.json"


def log_week(week, scores, outcomes):
    """Add a week to the monitor of the active run, and log what is known now."""
    folder = mlflow.get_artifact_uri()
    old = mlflow.artifacts.load_text(f"{folder}/{STATE}") if week > 1 else None
    watch = calibrant.Monitor() if old is None else calibrant.Monitor.from_json(old)
    watch.update(scores, outcomes, label=f"week {week}")
    numbers = watch.to_dict()
    names = ("log_evidence", "p_value", "alarm", "mean_difference")
    mlflow.log_metrics({name: float(numbers[name]) for name in names}, step=week)
    mlflow.log_text(watch.to_json(), STATE)
    with tempfile.TemporaryDirectory() as place:
        mlflow.log_artifact(watch.to_html(Path(place) / "history.html"), "calibration")
    return watch


def main(folder):
    folder = Path(folder).resolve()
    mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlflow.db'}")
    artifacts = (folder / "artifacts").as_uri()
    experiment = mlflow.create_experiment("deployed", artifact_location=artifacts)
    with mlflow.start_run(experiment_id=experiment, run_name="risk model") as run:
        run_id = run.info.run_id
    rng = np.random.default_rng(0)
    for week in range(1, 9):
        scores = rng.random(400)
        rates = scores if week < 6 else scores**1.3
        # Each week is another process, which goes on with the same run.
        with mlflow.start_run(run_id=run_id):
            watch = log_week(week, scores, rng.random(400) < rates)

    # As others find it later.
    for metric in mlflow.MlflowClient().get_metric_history(run_id, "log_evidence"):
        print(f"week {metric.step}: largest evidence so far {np.exp(metric.value):.1f}")
    print(watch.verdict()[0])
    return watch


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
