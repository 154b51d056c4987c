"""The data and the screens of docs/threshold.md, and its simulations: docs/make_examples.py shows them."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from shown import lined

#: Each subject with its share of the questions, and by how much its questions are easier than others, in log-odds.
SUBJECTS = {"biology": (0.4, 0.4), "history": (0.4, 0.0), "law": (0.2, -1.2)}

#: The kinds of insurance cases, with their frequency in log-odds.
KINDS = {"fire": -1.0, "glass": 0.6, "theft": 0.0, "water": 0.3}

ANSWERS = "calibrant threshold answers.jsonl --score confidence --outcome correct --cluster question_id"
CASES = "calibrant threshold insurance.csv --probs 'p_*' --target kind --cluster customer"
FRAUD = "calibrant threshold insurance.csv --score fraud_risk --outcome fraud --cluster customer"

#: The simulations, which benchmarks/simulation/thresholds.py writes.
SIMULATED = Path(__file__).resolve().parent / "thresholds.csv"

Row = dict[str, str]

#: How the names of the methods of other packages begin.
OTHERS = ("kunko", "MAPIE")

#: The methods of the tables: their names in the file, and on the page.
METHODS = {
    "observed risk": "observed risk at most 5 %",
    "closed": "`closed`",
    "closed, sketch": "`closed`, from a sketch",
    "fixed-sequence": "`fixed-sequence`",
    "kunko, from 0 errors": "`kunko-judge-audit`, from 0 errors",
    "kunko, from 2 errors": "`kunko-judge-audit`, from 2 errors",
    "MAPIE": "MAPIE",
    "MAPIE, fixed sequence": "MAPIE, fixed sequence",
    "closed, rows": "`closed`, clusters not declared",
    "closed, clusters": "`closed`, clusters declared",
    "fixed-sequence, clusters": "`fixed-sequence`, clusters declared",
    "betting": "`betting`",
}

#: The scores whose coverage the first table shows, by their names in the file.
SHOWN_RISKS = {"calibrated": "calibrated", "underconfident": "underconfident", "flat 0.03": "3 % everywhere"}

#: The columns of the table of doubtful rows: the methods of a column, in the file.
DOUBTFUL = {
    "`closed`": ("closed",),
    "`closed`, weights as numbers of rows / sampling": ("closed, whole weights", "closed, sampling weights"),
    "`betting`": ("betting",),
    "`betting`, bound declared": ("betting, declared",),
}


def write_answers(folder: Path) -> None:
    """Write the log of a language model: three answers to each of 1,200 questions, with confidences that are too high.

    The answers to one question depend on each other, because the question is easy or difficult for all of them.
    """
    rng = np.random.default_rng(0)
    names = list(SUBJECTS)
    lines = []
    for question in range(1, 1_201):
        subject = names[rng.choice(len(names), p=[share for share, _ in SUBJECTS.values()])]
        known = rng.normal(2.4 + SUBJECTS[subject][1], 1.6)
        for log_odds in known + rng.normal(0, 0.5, 3):
            answer = {
                "question_id": f"q{question:04d}",
                "subject": subject,
                "confidence": round(float(expit(1.4 * log_odds)), 4),
                "correct": bool(rng.random() < expit(log_odds)),
            }
            lines.append(json.dumps(answer))
    (folder / "answers.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_cases(folder: Path) -> None:
    """Write the insurance cases of 1,500 customers: probabilities of four kinds, and the risk of fraud.

    The probabilities are too extreme, more so for letters than for cases from the app. Customers differ.
    """
    rng = np.random.default_rng(1)
    lines = [",".join(["customer", "channel", *(f"p_{kind}" for kind in KINDS), "kind", "fraud_risk", "fraud"])]
    for customer in range(1, 1_501):
        own = np.array(list(KINDS.values())) + rng.normal(0, 0.8, len(KINDS))
        for _ in range(1 + rng.poisson(1.4)):
            letter = rng.random() < 0.3
            evidence = own + rng.gumbel(0, 2.2 if letter else 2.8, len(KINDS))
            truth = softmax(evidence)
            predicted = softmax((2.0 if letter else 1.15) * evidence)
            log_odds = rng.normal(-4.2, 3.6)
            fields = [
                str(customer),
                "letter" if letter else "app",
                *(f"{p:.4f}" for p in predicted),
                list(KINDS)[rng.choice(len(KINDS), p=truth)],
                f"{expit(log_odds):.4f}",
                str(int(rng.random() < expit(0.95 * log_odds))),
            ]
            lines.append(",".join(fields))
    (folder / "insurance.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def expit(log_odds: float) -> float:
    """Return the probability with these log-odds."""
    return 1 / (1 + float(np.exp(-log_odds)))


def softmax(logits: np.ndarray) -> np.ndarray:
    """Return probabilities that sum to 1."""
    powers = np.exp(logits - logits.max())
    return np.asarray(powers / powers.sum())


def screens(run: Callable[..., tuple[str, int]]) -> dict[str, str]:
    """Return the screens of the page, from a function that runs a command line in the current folder."""
    write_answers(Path())
    write_cases(Path())
    by_subject, _ = run(f"{ANSWERS} --max-risk 0.05")
    kinds, _ = run(f"{CASES} --cost-of-error 40 --cost-of-referral 4")
    fraud, _ = run(f"{FRAUD} --yes-risk 0.2 --no-risk 0.02")
    benefit, _ = run(f"{FRAUD} --cost-of-false-positive 1 --cost-of-false-negative 9")
    by_channel, _ = run(f"{CASES} --by channel", columns=130)
    return {
        "threshold-answers.txt": by_subject,
        "threshold-kinds.txt": part(kinds, "  A row costs", "  Compared") + "...\n",
        "threshold-fraud.txt": part(fraud, "  Decide", "  Each promise") + "...\n",
        "threshold-benefit.txt": part(benefit, "  Treat", "  The net benefit") + "...\n",
        "threshold-channels.txt": part(by_channel, "Thresholds of groups", "\nError rate"),
    }


def part(text: str, start: str, stop: str = "") -> str:
    """Return the command line of an output, and its lines from some words to before others, or to its end."""
    rest = text[text.index(start) :]
    return f"{text.splitlines()[0]}\n...\n{rest[: rest.index(stop)] if stop else rest}"


def planned() -> dict[str, str]:
    """Return the rows that certify one planned threshold, as a table in Markdown."""
    from calibrant.thresholds.planning import planned_rows
    from calibrant.thresholds.rules import first_rows

    lines = [
        "| largest error rate | fewest rows | true rate a quarter of it | half of it | three quarters of it |",
        "|---|---|---|---|---|",
    ]
    for risk in (0.1, 0.05, 0.02, 0.01):
        rows = [first_rows(risk, 0.05), *(planned_rows(risk, 0.05, part * risk) for part in (0.25, 0.5, 0.75))]
        lines.append(f"| {100 * risk:g} % | {' | '.join(f'{n:,}' for n in rows)} |")
    return {"threshold-rows.md": "\n".join(lines) + "\n"}


def simulated() -> dict[str, str]:
    """Return the tables of the simulations in Markdown; none before the simulations are done."""
    if not SIMULATED.exists():
        return {}
    with SIMULATED.open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))

    def of(kind: str) -> list[Row]:
        return [row for row in rows if row["kind"] == kind]

    one_side = [row for row in of("one side") if row["n"] == "2000" or row["method"] == "closed"]
    own = [row for row in one_side if not row["method"].startswith(OTHERS)]
    levels = [f"{numbers(row, 'broken')[0]} ({row['design'].removeprefix('confidence ')})" for row in of("levels")]
    return {
        "thresholds.md": one_sided(own),
        "thresholds-peers.md": one_sided([row for row in one_side if row not in own]),
        "thresholds-clusters.md": clustered(of("clusters")),
        "thresholds-sides.md": two_sided(of("two sides")),
        "thresholds-levels.md": "The shares at the worst threshold (and confidences) are " + ", ".join(levels) + ".\n",
        "thresholds-doubtful.md": doubtful(of("doubtful")),
        "thresholds-planned.md": plans(of("planned")),
    }


def one_sided(rows: list[Row]) -> str:
    """Return, for each number of rows and method, the share of broken promises and the coverages."""
    shown = {risk: [row for row in rows if row["risk"] == risk] for risk in SHOWN_RISKS}
    best = [f"{float(held[0]['oracle']):.2f}" for held in shown.values()]
    lines = [["", "best possible", "0", *best]]
    places = list(METHODS)
    for n, method in sorted({(int(row["n"]), places.index(row["method"])) for row in rows}):
        held = [row for row in rows if (int(row["n"]), row["method"]) == (n, places[method])]
        coverage = {row["risk"]: f"{float(row['share']):.2f}" for row in held}
        shares = [coverage.get(risk, "–") for risk in SHOWN_RISKS]
        lines.append([f"{n:,}", METHODS[places[method]], highest(held), *shares])
    return lined(["N", "method", "broken, highest", *SHOWN_RISKS.values()], lines)


def clustered(rows: list[Row]) -> str:
    """Return, for each method, the largest share of broken promises, and the range of its coverage."""
    lines = []
    for method in (method for method in METHODS if any(row["method"] == method for row in rows)):
        held = [row for row in rows if row["method"] == method]
        shares = [float(row["share"]) for row in held if row["risk"] == "calibrated"]
        lines.append([METHODS[method], highest(held), f"{min(shares):.2f} to {max(shares):.2f}"])
    return lined(["method", "broken, highest", "coverage, calibrated scores"], lines)


def two_sided(rows: list[Row]) -> str:
    """Return, for each number of rows, the largest share of broken promises and the coverages of two thresholds."""
    risks = list(dict.fromkeys(row["risk"] for row in rows))
    best = [next(f"{float(row['oracle']):.2f}" for row in rows if row["risk"] == risk) for risk in risks]
    lines = [["best possible", "0", *best]]
    for n in dict.fromkeys(row["n"] for row in rows):
        held = [row for row in rows if row["n"] == n]
        shares = {row["risk"]: f"{float(row['share']):.2f}" for row in held}
        lines.append([f"{int(n):,}", highest(held), *(shares[risk] for risk in risks)])
    return lined(["N", "broken, highest", *risks], lines)


def doubtful(rows: list[Row]) -> str:
    """Return the shares of broken promises where the assumptions do not hold."""
    lines = []
    for design in dict.fromkeys(row["design"] for row in rows):
        held = {row["method"]: row for row in rows if row["design"] == design}
        flagged = min(float(row["flagged"]) for method, row in held.items() if method.startswith("closed"))
        cells = [" / ".join(numbers(held[m], "broken")[0] for m in names if m in held) for names in DOUBTFUL.values()]
        lines.append([design, *(cell or "–" for cell in cells), f"{flagged:.3g}"])
    return lined(["rows", *DOUBTFUL, "caution of `closed`"], lines)


def plans(rows: list[Row]) -> str:
    """Return how often a planned number of rows is not enough, for scores whose error rate rises as they fall."""
    lines = []
    for n in dict.fromkeys(row["n"] for row in rows):
        held = [row for row in rows if row["n"] == n and not row["risk"].startswith("flat")]
        ends = [[float(row[name]) for row in held] for name in ("certified", "broken")]
        planned, missed = (f"{min(each):.2f} to {max(each):.2f}" for each in ends)
        smaller = f"The share with a smaller coverage is {missed}."
        lines.append(f"After {int(n):,} rows, {planned} of samples have a plan. {smaller}\n")
    return "".join(lines)


def highest(rows: list[Row]) -> str:
    """Return the largest share of broken promises."""
    return f"{max(float(row['broken']) for row in rows):.3f}"


def numbers(row: Row, *names: str) -> list[str]:
    """Return numbers of a row."""
    return [f"{float(row[name]):.3g}" for name in names]
