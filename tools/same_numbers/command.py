"""Cases of the command: what it prints, the files it writes, and how it ends."""

from __future__ import annotations

import json
import os
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import chdir
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from same_numbers.inputs import CLASSES, CLUSTERS, EVENT, FRACTIONS, GROUPS, LABELS, WHOLE
from same_numbers.public import ROOT
from same_numbers.reports import Cases
from same_numbers.values import clean, plain

_EVENT = ("--score", "score", "--outcome", "won")
_FEW = ("--n-resamples", "30")

#: Options that no case passes, and why.
EXEMPT = {
    "--engine": "Spark needs Java; its tests compare it with the embedded engine",
    "--master": "as --engine",
    "--open": "it opens a browser",
}

#: What maps, thresholds and monitors share.
_OF_DECISIONS = (
    "{map} games.csv {event} --json out.json --markdown out.md --html out.html --title Games --date today",
    "{map} games.csv --score 1-lost --outcome won --where patient>10 --timezone Europe/Berlin --markdown - --no-config",
    "{map} games.csv --score rate --percent --outcome word --labels no,yes --weight whole --weights-are frequency",
    "{map} games.csv missing.csv {event} --keep-going --by patient --by-values --cluster season --svg out.svg",
    "{map} comma.csv {event} --decimal-comma --png out.png --quiet",
    "{map} classes.parquet --probs p_* --target label --class-names a,b,c --notion top-label --ignore-index 2",
    "{map} probs.npy --targets targets.npy --json -",
    "{map} model.npz --logits",
    "{map} games.csv --config calibrant.toml",
    "{map} --help",
)

#: The arguments of each call, which hold no space; " && " is between several calls in a row.
_CALLS = (
    "report games.csv",
    "report games.csv {event} --json out.json --markdown out.md --html out.html --title Games --date today {few}",
    "report games.csv {event} --profile clinical --by season --cluster patient --json out.json {few}",
    "report games.csv {event} --profile forecast --by season --by whole --by-values --json out.json {few}",
    "report games.csv {event} --cluster patient --cluster season --weight weight --json - {few}",
    "report games.csv {event} --weight whole --weights-are sampling --level 0.9 --rng 3 --n-bins 7 {few}",
    "report games.csv {event} --profile all --all --bands simultaneous {few}",
    "report games.csv {event} --measures ece,ks,auroc --tolerance 0.02 --tolerance-of smece --gate {few}",
    "report games.csv {event} --fail-if ece>0.01 --quiet --n-resamples 0",
    "report games.csv --score 1-lost --outcome won --where patient>10 --by month(day) --timezone Europe/Berlin {few}",
    "report games.csv --score rate --percent --outcome word --labels no,yes {few}",
    "report games.csv {event} --svg out.svg --markdown - {few}",
    "report games.csv {event} --png out.png --dpi 90 --quiet {few}",
    "report games.csv {event} --by season --by whole --by-values --marginal --profile clinical --pdf out.pdf --json -",
    "report comma.csv {event} --decimal-comma --no-config {few}",
    "report games.csv --score nothing --outcome won",
    "report games.csv missing.csv {event} --keep-going {few}",
    "report classes.parquet --probs p_* --target label --class-names a,b,c --ordered --json out.json {few}",
    "report classes.parquet --probs p_* --target label --classwise --notion classwise --json out.json {few}",
    "report classes.parquet --probs p_* --target label --no-classwise --ignore-index 2 --profile all --exact {few}",
    "report probs.npy --targets targets.npy --json out.json {few}",
    "report model.npz --logits --json out.json {few}",
    "report labels.npz --notion multilabel {few}",
    "report games.csv {event} --cluster patient --by season --sketch a.cal {few} && report a.cal --json out.json {few}"
    " && report other.csv {event} --cluster patient --by season --sketch b.cal {few}"
    " && compare a.cal b.cal --paired --json out.json",
    "report games.csv {event} --sketch a.cal --quiet {few} && report other.csv {event} --sketch b.cal --quiet {few}"
    " && merge a.cal b.cal --sketch c.cal && report c.cal --json out.json {few} && compare a.cal b.cal --independent"
    " && merge a.cal missing.cal --keep-going -o d.cal",
    "report games.csv {event} --json last.json --quiet {few} && compare other.csv --baseline last.json {event}",
    "compare games.csv other.csv {event} --json out.json --markdown out.md --html out.html --title Two --date today",
    "compare games.csv other.csv {event} --on id --by season --cluster patient --tolerance 0.02 --gate --json out.json",
    "compare games.csv --scores score,other --outcome won --weight weight --level 0.9 --n-bins 7 --svg out.svg",
    "compare games.csv --scores score,other --outcome won --weight whole --weights-are sampling --fail-if ece>0.01",
    "compare games.csv --scores score,other --outcome won --where patient>10 --by patient --by-values --quiet",
    "compare games.csv --scores score,other --outcome won --png out.png --timezone Europe/Berlin --no-config",
    "compare classes.parquet --scores p_*,q_* --outcome label --notion top-label --class-names a,b,c --ignore-index 2",
    "compare classes.parquet other.parquet --probs p_* --outcome label",
    "compare games.csv --scores rate,rate2 --percent --outcome word --labels no,yes",
    "compare comma.csv comma2.csv {event} --decimal-comma",
    "compare probs.npy other.npy --targets targets.npy",
    "compare model.npz other.npz --logits",
    "compare games.csv --scores score,other,lost --outcome won --sort-by auroc --same-outcomes",
    "compare answers.csv --scores score,other --outcome right,right2 --own-outcomes --sort-by accuracy",
    *(call.replace("{map}", "recalibrate") for call in _OF_DECISIONS),
    "recalibrate games.csv {event} --method isotonic --map m.json --sql m.sql --onnx m.onnx --anyway {few}"
    " && apply m.json games.csv --score score --name better -o games2.csv && apply m.json comma.csv --decimal-comma"
    " --score score --quiet -o comma2.parquet",
    "recalibrate classes.parquet --probs p_* --target label --method vector --map m.json --anyway --exact {few}"
    " && apply m.json classes.parquet --probs p_* -o out.csv",
    "recalibrate model.npz --logits --method temperature --map m.json --anyway --quiet {few}"
    " && apply m.json classes.csv --probs l_* --logits -o out.csv",
    "recalibrate games.csv {event} --level 0.9 --rng 3 --cluster patient --by season {few}",
    *(call.replace("{map}", "threshold") for call in _OF_DECISIONS),
    "threshold games.csv {event} --max-risk 0.4 --confidence 0.9 --cost-of-error 10 --cost-of-referral 1 --exact",
    "threshold games.csv {event} --thresholds 0.1,0.5 --json b.json",
    "threshold games.csv {event} --cost-of-false-positive 1 --cost-of-false-negative 4 --cluster patient --html b.html",
    "threshold games.csv {event} --yes-risk 0.4 --no-risk 0.4 --cluster patient --largest-cluster 60",
    "threshold games.csv {event} --max-risk 0.4 --weight weight --max-weight 3 --method betting --by season",
    "threshold classes.parquet --probs p_* --target label --max-risk 0.4 --per-class --class-names a,b,c",
    *(call.replace("{map}", "monitor s.json") for call in _OF_DECISIONS),
    "threshold games.csv {event} --max-risk 0.45 --json t.json && monitor s.json games.csv {event} --threshold t.json"
    " --label one --alpha 0.1 --tolerance 0.01 --by season --groups a,b,c,few --cluster patient"
    " && monitor s.json other.csv {event} --by season --cluster patient --prometheus s.prom --since-onset w.cal"
    " && monitor s.json --json -",
    "monitor s.json games.csv {event} --time day --every month --tolerance-odds 1.1 --weight weight --max-weight 3"
    " --exact",
    "floor --n 500 --bins 10 --level 0.9 --n-resamples 50 --rng 3 --json out.json",
    "floor --prove 0.02",
    "completion bash",
    "completion zsh",
    "completion fish",
    "report --help",
    "compare --help",
    "merge --help",
    "floor --help",
)

#: Calls with a file of options.
_CONFIGURED = (
    ["report", "games.csv"],
    ["report", "games.csv", "--config", "calibrant.toml", "--by", "season"],
    ["compare", "games.csv", "other.csv", "--config", "calibrant.toml", *_EVENT],
)


def cases() -> Cases:
    """Yield the name of each case, and how to make its result."""
    for calls in _CALLS:
        yield f"command: {calls}", lambda c=calls: _run(c)
    yield "command: a file of options", _configured


def uncovered() -> list[str]:
    """Return the options that no case passes."""
    each = [*(call.split() for calls in _CALLS for call in _words(calls)), *_CONFIGURED]
    passed = {(call[0], word) for call in each for word in call}
    left = []
    for name, command in main().commands.items():
        options = (parameter for parameter in command.params if parameter.param_type_name == "option")
        for spelled in (opts for option in options for opts in (option.opts, option.secondary_opts) if opts):
            if not any((name, word) in passed or word in EXEMPT for word in spelled):
                left.append(f"{name} {spelled[0]}")
    return left


@cache
def main() -> Any:
    """Return the command, which is a script of the package."""
    script = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]["calibrant"]
    module, _, name = script.partition(":")
    return getattr(import_module(module), name)


def _words(calls: str) -> Iterator[str]:
    for call in calls.split(" && "):
        yield call.format(event=" ".join(_EVENT), few=" ".join(_FEW))


def _run(calls: str) -> list[Any]:
    """Return what calls print and write, in a folder of their own."""
    from click.testing import CliRunner

    results = []
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        _write(Path())
        known = set(os.listdir())
        for call in _words(calls):
            result = CliRunner().invoke(main(), call.split(), prog_name="calibrant", env={"COLUMNS": "80"})
            if result.exception is not None and not isinstance(result.exception, SystemExit):
                raise result.exception
            printed = {"status": result.exit_code, "out": _printed(result.stdout), "err": clean(result.stderr)}
            results.append(
                {**printed, **{path.name: _read(path) for path in sorted(Path().iterdir()) if path.name not in known}}
            )
    return results


def _printed(text: str) -> Any:
    """Return what was printed; JSON as its numbers."""
    return json.loads(text) if text.startswith("{") else clean(text)


def _read(path: Path) -> Any:
    """Return the content of a file that the command wrote."""
    if path.suffix == ".json":
        return json.loads(path.read_text(encoding="utf-8"))
    if path.suffix in (".cal", ".png", ".pdf", ".onnx", ".parquet"):
        return plain(path.read_bytes())
    return clean(path.read_text(encoding="utf-8"))


def _configured() -> Any:
    """Return what the command prints with the options of a file."""
    from click.testing import CliRunner

    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        _write(Path())
        Path("calibrant.toml").write_text('[report]\nscore = "score"\noutcome = "won"\nn-resamples = 30\n')
        results = [CliRunner().invoke(main(), call, env={"COLUMNS": "80"}) for call in _CONFIGURED]
    return [[result.exit_code, clean(result.stdout), clean(result.stderr)] for result in results]


# ---------------------------------------------------------------- files


@cache
def _frames() -> dict[str, Any]:
    """Return the tables of the files."""
    import polars

    p, q, y, _ = EVENT
    days = np.datetime64("2024-01-01T22:30") + np.arange(len(p)) * np.timedelta64(1, "D")
    games = {
        "id": np.arange(len(p)),
        "score": p,
        "other": q,
        "lost": 1 - p,
        "rate": 100 * p,
        "rate2": 100 * q,
        "won": y,
        "word": np.where(y == 1, "yes", "no"),
        "season": GROUPS,
        "patient": CLUSTERS,
        "weight": FRACTIONS,
        "whole": WHOLE,
        "day": days.astype("datetime64[us]"),
    }
    columns = {f"p_{k}": CLASSES.probs[:, k] for k in range(3)}
    others = {f"q_{k}": CLASSES.other[:, k] for k in range(3)}
    label = {"label": CLASSES.targets}
    return {
        "games.csv": polars.DataFrame(games),
        "other.csv": polars.DataFrame({**games, "score": q}),
        "classes.parquet": polars.DataFrame({**columns, **others, **label}),
        "other.parquet": polars.DataFrame({**dict(zip(columns, others.values(), strict=True)), **label}),
    }


def _write(folder: Path) -> None:
    """Write the files that cases name."""
    for name, frame in _frames().items():
        write = frame.write_csv if name.endswith(".csv") else frame.write_parquet
        write(folder / name)
    for name, scores in (("comma.csv", EVENT.probs), ("comma2.csv", EVENT.other)):
        rows = (f"{p:.4f};{y}".replace(".", ",") for p, y in zip(scores, EVENT.targets, strict=True))
        (folder / name).write_text("\n".join(["score;won", *rows]) + "\n")
    for name, probs in (("probs.npy", CLASSES.probs), ("other.npy", CLASSES.other)):
        np.save(folder / name, probs)
    np.save(folder / "targets.npy", CLASSES.targets)
    for name, probs in (("model.npz", CLASSES.probs), ("other.npz", CLASSES.other)):
        np.savez(folder / name, logits=np.log(probs) + 1, targets=CLASSES.targets)
    right = ((EVENT.probs > 0.5) == EVENT.targets).astype(int)
    answers = np.column_stack([EVENT.probs, EVENT.other, right, 1 - right])
    np.savetxt(folder / "answers.csv", answers, delimiter=",", header="score,other,right,right2", comments="")
    logits = np.log(CLASSES.probs)
    np.savetxt(folder / "classes.csv", logits, delimiter=",", header="l_0,l_1,l_2", comments="")
    np.savez(folder / "labels.npz", probs=LABELS.probs, targets=LABELS.targets)
