"""The logs and the screens of docs/decision-models.md: docs/make_examples.py shows them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

TEAMS = ("billing", "technical", "sales")
MOODS = ("calm", "annoyed", "angry")
WEEKS = (47, 48, 49)

#: The models of the two logs.
PINS = {"pin_a": "m-2026-09", "pin_b": "m-2026-11"}


def write_logs(folder: Path) -> None:
    """Write the answers of two decision models about the same tickets, and those of the second one in later weeks.

    The probabilities of a team of the first model are too extreme. In week 49 new products arrive, which neither knows.
    """
    rng = np.random.default_rng(0)
    tickets = [ticket(rng) for _ in range(3_000)]
    for (name, model), sharpened in zip(PINS.items(), (1.7, 1.0), strict=True):
        _write(folder / f"{name}.jsonl", [row(k, each, model, sharpened) for k, each in enumerate(tickets, 1)])
    for week in WEEKS:
        rng = np.random.default_rng(week)
        later = [ticket(rng, known=0.3 if week == 49 else 1.0) for _ in range(800)]
        _write(folder / f"week_{week}.jsonl", [row(k, each, PINS["pin_b"], 1.0) for k, each in enumerate(later, 1)])


class Ticket(NamedTuple):
    """What a model knows of a ticket, in log-odds, what is right, and whether the model refuses to name a team."""

    urgent: float
    team: np.ndarray
    mood: np.ndarray
    labels: dict[str, Any]
    refused: bool


def ticket(rng: np.random.Generator, known: float = 1.0) -> Ticket:
    """Return a ticket; ``known`` is the share of the log-odds of a team that is true."""
    urgent, team, mood = rng.normal(-1, 5), rng.gumbel(0, 1.7, 3), rng.gumbel([1.5, 0.5, 0], 1.3)
    draws = rng.random(4)
    labels = {
        "urgent": bool(draws[0] < 1 / (1 + np.exp(-urgent))),
        "team": TEAMS[drawn(softmax(known * team), draws[1])],
        "mood": MOODS[drawn(softmax(mood), draws[2])],
    }
    return Ticket(urgent, team, mood, labels, bool(draws[3] < 0.03))


def row(k: int, about: Ticket, model: str, sharpened: float) -> dict[str, Any]:
    """Return the answers of a model about a ticket; ``sharpened`` multiplies its log-odds of teams."""
    answers: dict[str, Any] = {
        "urgent": {"noul": round(1 / (1 + float(np.exp(-about.urgent))), 4)},
        "team": {"type": "refusal"} if about.refused else probabilities(TEAMS, sharpened * about.team),
        "mood": {**probabilities(MOODS, about.mood), "legend": {level: i for i, level in enumerate(MOODS)}},
    }
    return {"id": f"t{k:04d}", "model": model, "answers": answers, "labels": about.labels}


def screens(run: Callable[..., tuple[str, int]]) -> dict[str, str]:
    """Return the screens of the page, from a function that runs a command line in the current folder."""
    write_logs(Path())
    first = json.loads(Path("pin_a.jsonl").read_text(encoding="utf-8").splitlines()[0])
    report, _ = run("calibrant report pin_a.jsonl")
    compared, _ = run("calibrant compare pin_a.jsonl pin_b.jsonl --on id")
    certified, _ = run("calibrant threshold pin_b.jsonl --max-risk 0.05 --gates thresholds.json --json all.json")
    mapped, _ = run("calibrant recalibrate pin_a.jsonl --map maps.json")
    *_, (last, status) = (run(f"calibrant monitor state.json week_{week}.jsonl --threshold all.json") for week in WEEKS)
    gates = json.loads(Path("thresholds.json").read_text(encoding="utf-8"))
    return {
        "decisions-head.txt": f"$ head -1 pin_a.jsonl\n{json.dumps(first)}\n",
        "decisions-report.txt": before(report, "\nQuestion urgent"),
        "decisions-compared.txt": before(compared, "\nQuestion urgent"),
        "decisions-threshold.txt": before(certified, "\nQuestion urgent"),
        "decisions-gates.json": json.dumps({**gates, "generatedAt": "2026-11-29T12:00:00Z"}, indent=2) + "\n",
        "decisions-maps.txt": before(mapped, "\nQuestion urgent"),
        "decisions-monitor.txt": f"{last}$ echo $?\n{status}\n",
    }


def before(text: str, words: str) -> str:
    """Return an output up to some words."""
    return text.partition(words)[0].rstrip() + "\n...\n"


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
