"""The files of ``examples/``: each runs, says what an independent computation says, and prints what its page shows.

Marked, because they need other people's packages: ``pip install -e ".[examples]" -c constraints.txt``, then
``pytest -m examples``.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import make_printed
import numpy as np
import pytest
import shown

import calibrant

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
DOCS = ROOT / "docs"
DATA = ROOT.parent / "shared" / "data"

pytestmark = [
    pytest.mark.examples,
    # The packages that the examples are about warn of each other's future. Any other warning is an error.
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning"),
]
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the folder shared/data is not beside this checkout")

#: Examples that train no model: they print the same characters everywhere.
EXACT = {"language_model_confidences", "mlflow_artifacts", "mlflow_monitor", "weather_and_sports"}


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No network, no windows, and nothing said about who runs this."""
    for name in ("HF_HUB_OFFLINE", "MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK"):
        monkeypatch.setenv(name, "true")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("COLUMNS", "80")


def module_of(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def text_shown(name: str) -> str:
    """Return what the pages show under a name, without its fence."""
    (text,) = {text for page in shown.PAGES for text in shown.texts(page.read_text(encoding="utf-8"), name)}
    return text


def run(name: str, *args: Any, needs: tuple[str, ...] = ()) -> Any:
    """Run an example's main, compare what it prints with what its page shows, and return its values."""
    for package in needs:
        pytest.importorskip(package, reason=f"{package} is of the extra 'examples'")
    example = module_of(EXAMPLES / f"{name}.py")
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        found = example.main(*args)
    expected = text_shown(f"printed/{name}.txt")
    complaint = f"out of date: run docs/make_printed.py {name}"
    if name in EXACT:
        assert said.getvalue() == expected, complaint
    else:
        assert alike(said.getvalue(), expected), f"{complaint}; it prints\n{said.getvalue()}"
    return found


def alike(said: str, shown: str) -> bool:
    """Whether two texts have the same words, and numbers that two machines may come to by training the same model."""
    number = re.compile(r"[-+]?\d[\d,]*\.?\d*(?:e-?\d+)?")
    numbers = [[float(part.replace(",", "")) for part in number.findall(text)] for text in (said, shown)]
    words = [" ".join(number.sub("#", text).split()) for text in (said, shown)]
    return words[0] == words[1] and np.allclose(*numbers, rtol=0.2, atol=0.05)


def naive_ece(scores: Any, outcomes: Any, n_bins: int = 15) -> float:
    """The ECE over bins (j / M, (j + 1) / M], the first with 0 as well, written row by row."""
    scores, outcomes = np.asarray(scores), np.asarray(outcomes, dtype=float)
    edges = (np.arange(1, n_bins) / n_bins).astype(scores.dtype)
    gaps = np.zeros(n_bins)
    for score, outcome in zip(scores, outcomes, strict=True):
        gaps[sum(score > edge for edge in edges)] += float(score) - outcome
    return float(np.abs(gaps).sum() / len(scores))


def top_label(probs: Any, targets: Any) -> tuple[Any, Any]:
    return probs.max(axis=1), probs.argmax(axis=1) == np.asarray(targets)


def softmax(logits: Any) -> Any:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def log_loss(probs: Any, targets: Any) -> float:
    if probs.ndim == 1:
        return float(-np.log(np.where(np.asarray(targets), probs, 1 - probs)).mean())
    return float(-np.log(probs[np.arange(len(probs)), np.asarray(targets)]).mean())


def naive_smooth_ece(scores: Any, outcomes: Any) -> float:
    """The smooth ECE: the bandwidth that equals the mean absolute smoothed residual, by midpoints and bisection."""
    grid = (np.arange(2_000) + 0.5) / 2_000

    def smoothed(width: float) -> float:
        sums = np.zeros(len(grid))
        for score, outcome in zip(scores, outcomes, strict=True):
            for mirrored in (score, -score, 2 - score):
                sums += (outcome - score) * np.exp(-0.5 * ((grid - mirrored) / width) ** 2)
        return float(np.abs(sums).mean() / (width * np.sqrt(2 * np.pi) * len(scores)))

    low, high = 1e-3, 0.5
    while high - low > 1e-5:
        middle = (low + high) / 2
        low, high = (middle, high) if smoothed(middle) > middle else (low, middle)
    return (low + high) / 2


# ---------------------------------------------------------------- the pages

SHOWN = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem != "make_digits")


@pytest.mark.parametrize("name", SHOWN)
def test_every_example_has_a_page_that_shows_it_and_what_it_prints(name: str) -> None:
    pages = [page.read_text(encoding="utf-8") for page in DOCS.glob("*.md")]
    (page,) = (page for page in pages if f"examples/{name}.py" in shown.names(page))
    assert f"printed/{name}.txt" in shown.names(page)


def test_the_pages_show_the_examples_as_they_are() -> None:
    assert shown.stale(make_printed.sources()) == [], "out of date; run: python docs/make_printed.py"


def test_what_is_shown_is_made_and_listed() -> None:
    assert sorted(make_printed.NAMES) == SHOWN
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| \[(\S+)\]", listed, re.MULTILINE)) == {
        path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb", ".parquet", ".yml", ".sh")
    }


@pytest.mark.parametrize("name", SHOWN)
def test_an_example_is_short_and_its_lines_fit(name: str) -> None:
    lines = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8").splitlines()
    assert 40 <= len(lines) <= 120
    assert max(map(len, lines)) <= 92  # what the pages have room for


def test_texts_are_alike_in_their_words_and_nearly_in_their_numbers() -> None:
    assert alike("ECE 0.104, p 2e-05\n", "ECE 0.101,  p 1e-05\n")
    assert not alike("ECE 0.304", "ECE 0.101")
    assert not alike("ECE 0.1", "MCE 0.1")
    assert not alike("1 2", "1")


# ---------------------------------------------------------------- training loops


def test_a_plain_pytorch_loop() -> None:
    found = run("pytorch_loop", needs=("torch", "torchmetrics", "sklearn"))
    import torch

    images, labels = found["valid"].dataset.tensors
    with torch.no_grad():
        logits = found["model"](images)
        probs = torch.softmax(logits, dim=1).numpy()
        loss = torch.nn.functional.cross_entropy(logits.double(), labels).item()
    scores, right = top_label(probs, labels)
    report, (last, last_loss) = found["report"], found["history"][-1]
    assert report["ece"].value == pytest.approx(naive_ece(scores, right), abs=1e-6)
    assert last == pytest.approx(report["ece"].value, abs=1e-6)
    assert last_loss == pytest.approx(loss, rel=1e-6)
    assert report["mean_gap"].value == pytest.approx(scores.mean() - right.mean(), abs=1e-6)
    # What the page says: it trained too long, which the log loss and the calibration error both show.
    losses = [entry[1] for entry in found["history"]]
    assert min(losses) < losses[-1] - 0.3
    assert report["mean_gap"].low > 0.05
    assert report["ece"].low > report["ece"].floor.upper


def test_a_lightning_module() -> None:
    found = run("lightning_module", needs=("pytorch_lightning", "torchmetrics", "sklearn"))
    import torch

    images, labels = found["valid"].dataset.tensors
    with torch.no_grad():
        probs = torch.softmax(found["module"].network(images).double(), dim=1).numpy()
    scores, right = top_label(probs, labels)
    logged, history = found["logged"], found["module"].history
    assert logged["valid_ece"] == pytest.approx(naive_ece(scores.astype(np.float32), right), abs=1e-6)
    assert logged["valid_log_loss"] == pytest.approx(log_loss(probs, labels), rel=1e-5)
    assert history[-1] == pytest.approx((logged["valid_ece"], logged["valid_log_loss"]), rel=1e-5)
    assert logged["valid_ece_low"] < logged["valid_ece"] < logged["valid_ece_high"]
    # It stopped because the log loss had not fallen for three epochs, and the metrics start anew in each.
    losses = [entry[1] for entry in history]
    assert len(losses) < 30
    assert int(np.argmin(losses)) == len(losses) - 4
    assert found["module"].ece.update_count == found["module"].calibration.update_count == 0


def test_a_hugging_face_trainer() -> None:
    found = run("huggingface_trainer", needs=("transformers", "accelerate"))
    probs, labels = softmax(found["logits"].astype(np.float64)), found["labels"]
    scores, right = top_label(probs, labels)
    last = found["history"][-1]
    assert [entry["epoch"] for entry in found["history"]] == [1, 2, 3]
    assert last["eval_ece"] == pytest.approx(naive_ece(scores, right), abs=1e-6)
    assert last["eval_log_loss"] == pytest.approx(log_loss(probs, labels), rel=1e-5)
    assert last["eval_log_loss"] == pytest.approx(last["eval_loss"], rel=1e-5)  # as there is no label smoothing
    assert last["eval_accuracy"] == pytest.approx(right.mean())
    assert last["eval_smooth_ece"] == pytest.approx(naive_smooth_ece(scores, right), abs=1e-4)
    assert all(type(last[f"eval_{name}"]) is float for name in ("ece", "ece_low", "ece_high", "ece_noise"))


# ---------------------------------------------------------------- boosted trees


def test_lightgbm() -> None:
    found = run("lightgbm_eval", needs=("lightgbm",))
    booster, features, bought, logs = (found[name] for name in ("booster", "features", "bought", "logs"))
    seen = logs["log loss"]["valid"]
    for i in (1, 40, booster.best_iteration):
        probs = booster.predict(features, num_iteration=i)
        assert seen["smooth_ece"][i - 1] == pytest.approx(naive_smooth_ece(probs, bought), abs=1e-4)
        assert seen["binary_logloss"][i - 1] == pytest.approx(log_loss(probs, bought), rel=1e-9)
    assert booster.best_iteration == int(np.argmin(seen["binary_logloss"])) + 1 == len(seen["binary_logloss"]) - 20
    # By the calibration error it would have stopped where nothing was learnt yet.
    assert found["hasty"].best_iteration == int(np.argmin(logs["smooth ECE"]["valid"]["smooth_ece"])) + 1 == 1
    # With a custom objective there is no link: what the function gets are raw scores, and so is what predict gives.
    raw = found["custom"].predict(features)
    assert raw.min() < 0
    errors = logs["custom"]["valid"]["smooth_ece"]
    assert errors[-1] == pytest.approx(naive_smooth_ece(1 / (1 + np.exp(-raw)), bought), abs=1e-4)


def test_xgboost() -> None:
    found = run("xgboost_eval", needs=("xgboost", "sklearn"))
    import xgboost as xgb

    booster, features, amounts, logs = (found[name] for name in ("booster", "features", "amounts", "logs"))
    bought, rows = amounts > 0, xgb.DMatrix(features)
    seen = logs["event"]["valid"]
    for i in (1, 10, booster.best_iteration + 1):
        probs = booster.predict(rows, iteration_range=(0, i))
        assert seen["ece"][i - 1] == pytest.approx(naive_ece(probs, bought), abs=1e-5)  # the log has five digits
        assert seen["logloss"][i - 1] == pytest.approx(log_loss(probs.astype(float), bought), abs=1e-5)
    assert booster.best_iteration == int(np.argmin(seen["logloss"])) == len(seen["logloss"]) - 21
    raw = found["custom"].predict(rows, output_margin=True)
    assert logs["custom"]["valid"]["ece"][-1] == pytest.approx(naive_ece(1 / (1 + np.exp(-raw)), bought), abs=1e-5)
    assert found["classes"].predict(rows).shape == (2_000, 3)
    scores, right = top_label(found["classes"].predict(rows), amounts)
    assert logs["classes"]["valid"]["ece"][-1] == pytest.approx(naive_ece(scores, right), abs=1e-5)
    probs = found["model"].predict_proba(features)[:, 1]
    assert logs["sklearn"]["validation_0"]["ece"][-1] == pytest.approx(naive_ece(probs, bought), abs=1e-5)


# ---------------------------------------------------------------- logs and notebooks


def test_mlflow(tmp_path: Path) -> None:
    for package in ("mlflow", "sqlalchemy", "alembic"):
        pytest.importorskip(package, reason=f"{package} is of the extra 'examples'")
    import mlflow

    reports = run("mlflow_artifacts", tmp_path)
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    (experiment,) = client.search_experiments(filter_string="name = 'digits'")
    runs = {run.info.run_id: run for run in client.search_runs([experiment.experiment_id])}
    assert runs.keys() == reports.keys()
    for run_id, report in reports.items():
        metrics = runs[run_id].data.metrics
        for name, estimate in report.items():
            ends = {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
            assert {k: v for k, v in ends.items() if np.isfinite(v)} == {k: metrics[k] for k in ends if k in metrics}
        assert metrics["ece_noise"] == report["ece"].floor.upper
        paths = {entry.path for entry in client.list_artifacts(run_id, "calibration")}
        assert paths == {f"calibration/{name}" for name in ("report.json", "report.html", "diagram.png")}
        local = {path: Path(client.download_artifacts(run_id, path, str(tmp_path))).read_bytes() for path in paths}
        assert json.loads(local["calibration/report.json"]) == report.to_dict()
        page = local["calibration/report.html"].decode("utf-8")
        assert f"{report['ece'].value:.4f}" in page
        assert page.lstrip().lower().startswith("<!doctype html>")
        assert local["calibration/diagram.png"].startswith(b"\x89PNG\r\n")
    # An infinite log loss is no metric.
    by_name = {run.info.run_name: run.data.metrics for run in runs.values()}
    assert "nll" not in by_name["naive Bayes"]
    assert by_name["logistic"]["nll"] == pytest.approx(0.1545, abs=5e-5)


def test_the_notebook_shows_a_report() -> None:
    for package in ("nbclient", "nbformat", "ipykernel"):
        pytest.importorskip(package, reason=f"{package} is of the extra 'examples'")
    import nbformat
    import pyarrow.parquet as pq
    from nbclient import NotebookClient

    notebook = nbformat.read(EXAMPLES / "notebook.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)  # they would be old some day
    client = NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(EXAMPLES)}})
    client.execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    table = pq.read_table(EXAMPLES / "digits.parquet").to_pydict()
    probs = np.stack([table[f"p_{k}"] for k in range(10)], axis=1).astype(np.float32)
    ece = naive_ece(*top_label(probs, table["target"]))
    (shown,) = code[1].outputs
    assert f"{ece:.4f}" in shown.data["text/html"]
    assert "<svg" in shown.data["text/html"]
    assert code[2].outputs[0].text.startswith(f"ECE {ece:.4f}, 95 % CI 0.0512 to")
    (compared,) = code[3].outputs
    assert "naive Bayes" in compared.data["text/html"]
    assert "(../examples/notebook.ipynb)" in (DOCS / "frameworks.md").read_text(encoding="utf-8")


# ---------------------------------------------------------------- answers, rain, games, patients


def test_a_language_models_confidences(tmp_path: Path) -> None:
    found = run("language_model_confidences", tmp_path)
    lines = [json.loads(line) for line in found["path"].read_text(encoding="utf-8").splitlines()]
    said = np.array([int(re.fullmatch(r"(\d+)%", line["confidence"])[1]) / 100 for line in lines])  # type: ignore[index]
    correct = np.array([line["answer"] == line["truth"] for line in lines])
    assert [line["correct"] for line in lines] == correct.tolist()
    np.testing.assert_array_equal(found["stated"], said)
    assert {0.0, 1.0} <= set(said.tolist())  # the extremes are there, and counted
    assert len(lines) == 600
    command = [sys.executable, "-m", "calibrant", "report", str(found["path"]), "--score", "confidence"]
    command += ["--outcome", "correct"]
    refused = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    assert refused.returncode == 1
    assert re.search(
        r"row 1, column 'confidence': '\d+%' is not a number; if the scores are percentages, type: ", refused.stderr
    )
    evaluated = subprocess.run(
        [*command, "--percent", "--json", "-"], capture_output=True, encoding="utf-8", check=True
    )
    estimate = json.loads(evaluated.stdout)["estimates"]["ece"]
    assert (estimate["n"], estimate["value"]) == (600, pytest.approx(naive_ece(said, correct), abs=1e-12))
    # The token probabilities: of the answer, and over the four options.
    logprobs = np.array([[line["logprobs"][option] for option in "ABCD"] for line in lines])
    np.testing.assert_allclose(found["tokens"], np.exp(logprobs.max(axis=1)), rtol=1e-15)
    models = found["comparison"].models
    assert models["the stated confidence"]["ece"] == pytest.approx(naive_ece(said, correct), abs=1e-12)
    assert models["the token probability"]["ece"] == pytest.approx(naive_ece(found["tokens"], correct), abs=1e-12)
    scores, right = top_label(softmax(logprobs), ["ABCD".index(line["truth"]) for line in lines])
    assert found["report"]["ece"].value == pytest.approx(naive_ece(scores, right), abs=1e-12)
    assert found["comparison"].pairs[0]["debiased_square"].low > 0


@needs_data
def test_rain_and_basketball() -> None:
    found = run("weather_and_sports", DATA)
    days = np.genfromtxt(DATA / "precip_niamey_2016.csv", delimiter=",", names=True, dtype=None, encoding="utf-8")
    comparison = found["rain"]
    for column, name in module_of(EXAMPLES / "weather_and_sports.py").FORECASTS.items():
        scores, wet = days[column], days["obs"]
        assert comparison.models[name]["ece"] == pytest.approx(naive_ece(scores, wet), abs=1e-12)
        assert comparison.models[name]["brier"] == pytest.approx(np.mean((scores - wet) ** 2), abs=1e-12)
    # Holm's correction of six p-values by hand.
    raw = [pair["debiased_square"].details["raw_p_value"] for pair in comparison.pairs]
    order = np.argsort(raw)
    stepped = np.minimum(np.maximum.accumulate(np.array(raw)[order] * np.arange(6, 0, -1)), 1)
    adjusted = np.array([pair["debiased_square"].p_value for pair in comparison.pairs])
    np.testing.assert_allclose(adjusted[order], stepped, rtol=1e-12)
    assert adjusted.min() > 0.05  # 92 days do not tell, although ...
    assert calibrant.evaluate(days["ENS"], days["obs"])["ece"].p_value < 0.01  # ... the ensemble is off for sure
    games = np.genfromtxt(DATA / "nba_games.csv", delimiter=",", names=True, dtype=None, encoding="utf-8")
    report = found["games"]
    assert report["ece"].value == pytest.approx(naive_ece(games["prob1"], games["prob1_outcome"]), abs=1e-12)
    for season in report.groups:
        own = games[games["season"] == int(season.name)]
        assert season.report["ece"].value == pytest.approx(naive_ece(own["prob1"], own["prob1_outcome"]), abs=1e-12)
    assert all(season.called_out for season in report.groups)
    first = report.groups[0]
    assert first.name == "2016"
    assert first.report["ece"].p_value > 0.05  # its mean decides, and the ECE alone would not have shown it
    assert first.report.test is not None
    assert first.report.test.details["leading"] == "mean"


def test_a_clinical_risk_model() -> None:
    found = run("clinical_risk", needs=("sklearn",))
    from scipy.optimize import minimize
    from sklearn.isotonic import IsotonicRegression

    risks, outcomes, sizes, report, cox = (found[name] for name in ("risks", "outcomes", "groups", "report", "cox"))
    assert len(risks) == report.n == 150
    assert report["ece"].value == pytest.approx(naive_ece(risks, outcomes), abs=1e-12)
    log_odds = np.log(risks / (1 - risks))

    def loss(intercept: float, slope: float) -> float:
        fitted = intercept + slope * log_odds
        return float(np.sum(np.logaddexp(0, fitted) - outcomes * fitted))

    both = minimize(lambda x: loss(*x), [0, 1], tol=1e-10)
    alone = minimize(lambda x: loss(x[0], 1), [0], tol=1e-10)
    assert cox.details["slope"] == pytest.approx(both.x[1], abs=1e-4)
    assert cox.details["in_the_large"] == pytest.approx(alone.x[0], abs=1e-4)
    assert cox.statistic == pytest.approx(2 * (loss(0, 1) - both.fun), abs=1e-6)
    for slope in (0.8, 1.4):  # these fit as well, says the page: by likelihood ratio, at 5 %
        assert 2 * (minimize(lambda x, b=slope: loss(x[0], b), [0], tol=1e-10).fun - both.fun) < 3.84
    recalibrated = IsotonicRegression().fit_transform(risks, outcomes)
    gain = np.mean((risks - outcomes) ** 2) - np.mean((recalibrated - outcomes) ** 2)
    assert report["miscalibration"].value == pytest.approx(gain, abs=1e-9)
    for group in report.groups:
        own = sizes == group.name
        assert group.report["mean_gap"].value == pytest.approx(risks[own].mean() - outcomes[own].mean(), abs=1e-12)
    # What the page says: no evidence on the whole, and two of three groups are off.
    assert report["ece"].p_value > 0.05
    assert {group.name for group in report.groups if group.called_out} == {"1 small", "3 large"}
    # The noise floor before the data, by drawing calibrated outcomes for evenly spread scores.
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(400):
        scores = rng.random(150)
        drawn.append(naive_ece(scores, rng.random(150) < scores))
    assert found["floor"].mean == pytest.approx(np.mean(drawn), abs=4 * np.std(drawn) / 20)


def test_mlflow_follows_a_deployed_model(tmp_path: Path) -> None:
    for package in ("mlflow", "sqlalchemy", "alembic"):
        pytest.importorskip(package, reason=f"{package} is of the extra 'examples'")
    import mlflow

    watch = run("mlflow_monitor", tmp_path)
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    (experiment,) = client.search_experiments(filter_string="name = 'deployed'")
    (found,) = client.search_runs([experiment.experiment_id])
    assert [metric.step for metric in client.get_metric_history(found.info.run_id, "alarm")] == list(range(1, 9))
    assert found.data.metrics["alarm"] == watch.alarm == 1
    assert found.data.metrics["p_value"] == watch.p_value
    path = client.download_artifacts(found.info.run_id, "calibration/state.json", str(tmp_path))
    assert calibrant.Monitor.from_json(path).to_dict() == watch.to_dict()
    assert watch.drift is not None
    assert watch.drift.since == "week 6"  # what the docstring says
