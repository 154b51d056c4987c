"""The logs and the screens of docs/decision-models.md: docs/make_examples.py shows them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

TEAMS = ("billing", "technical", "sales")
MOODS = ("calm", "annoyed", "angry")
WEEKS = (47, 48, 49)

LOG = "decisions.jsonl"


def write_logs(folder: Path) -> None:
    """Write the answers of a decision model about tickets: labelled ones, three later weeks, and those of another pin.

    The probabilities of a team are too extreme. In week 49 new products arrive, which the model does not know.
    """
    _write(folder / LOG, rows(np.random.default_rng(0), 3_000))
    for week in WEEKS:
        _write(folder / f"week_{week}.jsonl", rows(np.random.default_rng(week), 800, known=0.3 if week == 49 else 1.0))
    _write(folder / "pin_b.jsonl", rows(np.random.default_rng(0), 3_000, model="m-2026-11", sharpened=1.1))


def rows(
    rng: np.random.Generator, n: int, *, model: str = "m-2026-09", sharpened: float = 1.8, known: float = 1.0
) -> list[dict[str, Any]]:
    """Return answers with labels: of a team the log-odds are too far apart by a factor; ``known`` weakens the truth."""
    return [row(rng, k, model, sharpened, known) for k in range(1, n + 1)]


def row(rng: np.random.Generator, k: int, model: str, sharpened: float, known: float) -> dict[str, Any]:
    """Return the answers about one ticket, with what was right."""
    urgent, team, mood = rng.normal(-1, 3), rng.gumbel(0, 2.2, 3), rng.gumbel(0, 1.5, 3) + [1.5, 0.5, 0]
    refused, draws = rng.random() < 0.03, rng.random(3)
    answers: dict[str, Any] = {
        "urgent": {"noul": round(1 / (1 + float(np.exp(-urgent))), 4)},
        "team": {"type": "refusal"} if refused else probabilities(TEAMS, sharpened * team),
        "mood": {**probabilities(MOODS, mood), "legend": {level: i for i, level in enumerate(MOODS)}},
    }
    labels = {
        "urgent": bool(draws[0] < 1 / (1 + np.exp(-urgent))),
        "team": TEAMS[drawn(softmax(known * team), draws[1])],
        "mood": MOODS[drawn(softmax(mood), draws[2])],
    }
    return {"id": f"t{k:04d}", "model": model, "answers": answers, "labels": labels}


def probabilities(options: tuple[str, ...], logits: np.ndarray) -> dict[str, Any]:
    """Return an answer with the probability of each option, and the largest as its confidence."""
    probs = softmax(logits).round(4)
    probs[probs.argmax()] += 1 - probs.sum()
    numbers = probs.round(4).tolist()
    return {"probabilities": dict(zip(options, numbers, strict=True)), "confidence": max(numbers)}


def softmax(logits: np.ndarray) -> np.ndarray:
    """Return probabilities that sum to 1."""
    powers = np.exp(logits - logits.max())
    return np.asarray(powers / powers.sum())


def drawn(probs: np.ndarray, number: float) -> int:
    """Return the option that a number between 0 and 1 draws."""
    return min(int(np.searchsorted(np.cumsum(probs), number)), len(probs) - 1)


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
