"""Calibration in MLflow: numbers as metrics, the report as JSON and as a page, a figure.

    pip install ".[report]" mlflow
    python examples/mlflow_artifacts.py FOLDER
    mlflow ui --backend-store-uri sqlite:///FOLDER/mlflow.db

Two models of handwritten digits, whose predictions are in examples/digits.parquet, become
two runs of an experiment in a local database. With a tracking server, pass its address to
``set_tracking_uri``, and leave ``artifact_location`` out.
"""

import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import mlflow
import numpy as np
import pyarrow.parquet as pq

import calibrant
import calibrant.plot

DIGITS = Path(__file__).with_name("digits.parquet")


def log_report(report):
    """Log a report to the active run."""
    numbers = {}
    for name, estimate in report.items():
        numbers[name] = estimate.value
        numbers[f"{name}_low"], numbers[f"{name}_high"] = estimate.low, estimate.high
        if estimate.floor is not None:
            # Calibrated scores stay below it in 95 % of samples.
            numbers[f"{name}_noise"] = estimate.floor.upper
    # Unavailable values are NaN or infinite. Metrics are numbers; the JSON has the reasons.
    mlflow.log_metrics(
        {name: value for name, value in numbers.items() if np.isfinite(value)}
    )
    mlflow.log_text(report.to_json(), "calibration/report.json")
    with tempfile.TemporaryDirectory() as folder:
        mlflow.log_artifact(report.to_html(Path(folder) / "report.html"), "calibration")
    figure = calibrant.plot.reliability_diagram(report).figure
    mlflow.log_figure(figure, "calibration/diagram.png")
    plt.close(figure)


def main(folder):
    folder = Path(folder).resolve()
    mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlflow.db'}")
    artifacts = (folder / "artifacts").as_uri()
    experiment = mlflow.create_experiment("digits", artifact_location=artifacts)
    table = pq.read_table(DIGITS)
    reports = {}
    for name, columns in {"logistic": "p", "naive Bayes": "overconfident"}.items():
        probs = np.stack([table[f"{columns}_{k}"] for k in range(10)], axis=1)
        report = calibrant.evaluate(probs, table["target"])
        with mlflow.start_run(experiment_id=experiment, run_name=name) as run:
            log_report(report)
        reports[run.info.run_id] = report

    # As others find it later.
    for run in mlflow.MlflowClient().search_runs([experiment], order_by=["metrics.ece"]):
        name, logs = run.info.run_name, run.data.metrics
        low, high, noise = (logs[f"ece_{end}"] for end in ("low", "high", "noise"))
        print(f"{name}: accuracy {logs['accuracy']:.3f}, ECE {logs['ece']:.3f} ", end="")
        print(f"({low:.3f} to {high:.3f}), noise floor {noise:.3f}")
    return reports


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
