"""The figures of results in TensorBoard, MLflow and Weights & Biases, by the lines of the page about training loops."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import calibrant

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra 'report')")

PAGE = Path(__file__).parents[2] / "docs" / "training-loops.md"


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """No network, no windows, files of this test alone."""
    for name, value in {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "true",
        "WANDB_MODE": "offline",
        "WANDB_SILENT": "true",
        "WANDB_DIR": str(tmp_path),
        "WANDB_ERROR_REPORTING": "false",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    matplotlib.use("agg")
    yield
    matplotlib.pyplot.close("all")


def results() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    p = rng.random(500)
    y = (rng.random(500) < p).astype(int)
    watch = calibrant.Monitor()
    watch.update(p, y)
    watch.update(p[:200], y[:200])
    return {
        "report": calibrant.evaluate(p, y, n_resamples=0),
        "comparison": calibrant.compare({"a": p, "b": p**2}, y),
        "recalibration": calibrant.recalibrate(p, y),
        "labels": calibrant.recalibrate(np.stack([p, p**2], 1), np.stack([y, y], 1), notion="multilabel"),
        "threshold": calibrant.certify_threshold(p, y, max_risk=0.4),
        "two thresholds": calibrant.certify_two_sided(p, y, yes_risk=0.4, no_risk=0.4),
        "monitor": watch,
    }


def shown() -> list[str]:
    """The lines of the section about figures."""
    section = PAGE.read_text(encoding="utf-8").partition("## Log figures")[2]
    return re.search(r"```python\n(.*?)```", section, re.DOTALL)[1].splitlines()


def run(word: str, **names: Any) -> Any:
    """Run the line of the page with this word, for the figure of the first line."""
    first, *lines = shown()
    (line,) = [line for line in lines if word in line]
    names |= {"step": 7}
    for each in (first, line):
        exec(each, names)
    return names["figure"]


def test_every_plot_has_a_figure_of_matplotlib() -> None:
    for name, result in results().items():
        axes = result.plot()
        assert isinstance(axes, matplotlib.axes.Axes), name
        assert isinstance(axes.figure, matplotlib.figure.Figure), name
        figure = run("add_figure", report=result, writer=SimpleNamespace(add_figure=lambda *_: None))
        assert isinstance(figure, matplotlib.figure.Figure)
        matplotlib.pyplot.close("all")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_figure_in_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path / "runs")) as writer:
        run("add_figure", report=results()["report"], writer=writer)
    found = EventAccumulator(str(tmp_path / "runs"))
    found.Reload()
    (image,) = found.Images("calibration")
    assert image.step == 7
    assert image.encoded_image_string.startswith(b"\x89PNG")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_figure_in_mlflow(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    pytest.importorskip("sqlalchemy", reason="sqlalchemy, which the store of mlflow needs, is not installed")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'mlflow.db'}")
    experiment = mlflow.create_experiment("figures", artifact_location=(tmp_path / "artifacts").as_uri())
    with mlflow.start_run(experiment_id=experiment):
        run("mlflow", report=results()["report"], mlflow=mlflow)
    (written,) = (tmp_path / "artifacts").rglob("calibration-7.png")
    assert written.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_figure_in_weights_and_biases(tmp_path: Path) -> None:
    wandb = pytest.importorskip("wandb", reason="wandb is not installed")
    pytest.importorskip("PIL", reason="pillow, which images of wandb need, is not installed")
    with wandb.init(project="calibration", mode="offline", dir=str(tmp_path)):
        run("wandb", report=results()["report"], wandb=wandb)
    (written,) = tmp_path.rglob("calibration_*.png")
    assert written.read_bytes().startswith(b"\x89PNG")
