"""The data and the screens of several models: docs/comparing.md and docs/images.md."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

#: The models of the page: how much they know, how overconfident they are, and how much noise their confidence has.
MODELS = {
    "atlas-large": (1.5, 1.0, 0.4),
    "atlas-small": (0.9, 1.0, 0.6),
    "birch-2": (1.45, 1.6, 0.4),
    "cobalt": (1.3, 1.0, 1.2),
    "delta-chat": (0.6, 2.0, 1.0),
}
QUESTIONS = 800

ANSWERS = "calibrant compare answers.csv --by model --score confidence --outcome correct --on question_id"
RESULTS = "calibrant compare answers.csv --by model --correct correct --on question_id"
FORECASTS = (
    "calibrant compare forecasts.csv --by forecaster --score probability --outcome outcome --on question --sparse"
)
FORECAST_QUESTIONS = 300
BOXES = "calibrant compare boxes.csv --by detector --score confidence --outcome matched --own-outcomes --cluster image"


def expit(x: np.ndarray) -> np.ndarray:
    """Return probabilities from log-odds."""
    return 1 / (1 + np.exp(-x))


def write_answers(folder: Path) -> None:
    """Write the answers of five language models to the same questions; one model lacks some of them."""
    rng = np.random.default_rng(4)
    easy = rng.normal(0, 1.2, QUESTIONS)
    lines = ["model,question_id,confidence,correct"]
    for name, (skill, factor, noise) in MODELS.items():
        known = skill + easy + rng.normal(0, 0.8, QUESTIONS)
        correct = rng.random(QUESTIONS) < expit(known)
        confidence = expit(factor * known + rng.normal(0, noise, QUESTIONS))
        for question in rng.permutation(QUESTIONS):
            if name != "cobalt" or question % 100:
                lines.append(f"{name},q{question + 1:03d},{confidence[question]:.3f},{int(correct[question])}")
    (folder / "answers.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_boxes(folder: Path) -> None:
    """Write the boxes of three detectors in 300 images: the confidence, and whether the box matches an object."""
    rng = np.random.default_rng(5)
    hard = rng.normal(0, 0.9, 300)
    lines = ["detector,image,confidence,matched,size"]
    for name, skill, factor in (("yolo-s", 0.2, 1.5), ("yolo-l", 0.7, 1.4), ("detr", 0.6, 1.0)):
        for image in range(300):
            n = 1 + rng.poisson(5)
            small = rng.random(n) < 0.4
            known = skill - hard[image] + rng.normal(0, 1.2, n) - 0.8 * small
            matched = rng.random(n) < expit(known)
            for p, hit, little in zip(expit(factor * known), matched, small, strict=True):
                lines.append(f"{name},{image:04d}.jpg,{p:.3f},{int(hit)},{'small' if little else 'large'}")
    (folder / "boxes.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_forecasts(folder: Path) -> None:
    """Write the forecasts of four forecasters, each of some questions; no question has the forecasts of all."""
    rng = np.random.default_rng(6)
    known = rng.normal(0, 1.5, FORECAST_QUESTIONS)
    outcomes = rng.random(FORECAST_QUESTIONS) < expit(known)
    lines = ["forecaster,question,probability,outcome"]
    for place, (name, noise) in enumerate((("ada", 0.2), ("bo", 0.7), ("cy", 0.8), ("di", 2.4))):
        probs = expit(known + rng.normal(0, noise, FORECAST_QUESTIONS)).clip(0.01, 0.99)
        for question in np.flatnonzero(np.arange(FORECAST_QUESTIONS) % 4 != place):
            if rng.random() < 0.6:
                lines.append(f"{name},q{question + 1:03d},{probs[question]:.2f},{int(outcomes[question])}")
    (folder / "forecasts.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def screens(run: Callable[[str], tuple[str, int]]) -> dict[str, str]:
    """Return the screens of the pages, made in the current folder."""
    here = Path()
    for write in (write_answers, write_boxes, write_forecasts):
        write(here)
    head = "".join(f"{line}\n" for line in Path("answers.csv").read_text(encoding="utf-8").splitlines()[:3])
    return {
        "models-head.txt": "$ head -3 answers.csv\n" + head,
        "models.txt": run(ANSWERS)[0],
        "results.txt": run(RESULTS)[0],
        "sparse.txt": run(FORECASTS)[0],
        "boxes-report.txt": verdict(
            run(
                "calibrant report boxes.csv --where \"detector = 'yolo-l'\" --cluster image "
                "--score confidence --outcome matched --by size"
            )[0]
        ),
        "boxes.txt": run(BOXES)[0],
    }


def verdict(text: str) -> str:
    """Return the beginning of a report, to the end of its verdict."""
    return "\n\n".join(text.split("\n\n")[:2]) + "\n"
