"""The data and the screens of docs/threshold.md, and its table of simulations: docs/make_examples.py shows them."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

#: Each subject with its share of the questions, and by how much its questions are easier than others, in log-odds.
SUBJECTS = {"biology": (0.4, 0.4), "history": (0.4, 0.0), "law": (0.2, -1.2)}

#: The kinds of insurance cases, with their frequency in log-odds.
KINDS = {"fire": -1.0, "glass": 0.6, "theft": 0.0, "water": 0.3}

ANSWERS = "calibrant threshold answers.jsonl --score confidence --outcome correct --cluster question_id"
CASES = "calibrant threshold insurance.csv --probs 'p_*' --target kind --cluster customer"
FRAUD = "calibrant threshold insurance.csv --score fraud_risk --outcome fraud --cluster customer"

#: The simulations, which benchmarks/simulation/thresholds.py writes.
SIMULATED = Path(__file__).resolve().parent / "thresholds.csv"

#: The methods of the table: their names in the file, and on the page.
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
    "closed, whole weights": "`closed`, weights read as numbers of rows",
    "closed, sampling weights": "`closed`, sampling weights",
    "betting, declared": "`betting`, bound declared",
}

#: The columns of the tables with a line for each setting.
COLUMNS = {
    "levels": {"design": "confidence", "runs": "samples", "certified": "first threshold", "broken": "worst threshold"},
    "doubtful": {"design": "rows", "method": "method", "broken": "broken", "flagged": "with a caution"},
    "planned": {
        "risk": "scores",
        "n": "N",
        "certified": "planned",
        "broken": "not reached",
        "broken_se": "standard error",
    },
}

#: The error rates of the scores in the simulations that are named otherwise on the page.
RISKS = {"flat 0.051": "5.1 % everywhere", "flat 0.03": "3 % everywhere", "0.06, 0.04, rising": "6 %, 4 %, rising"}


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
    head = Path("answers.jsonl").read_text(encoding="utf-8").splitlines()[:3]
    by_subject, _ = run(f"{ANSWERS} --max-risk 0.05")
    law, status = run(f"{ANSWERS} --max-risk 0.05 --where \"subject = 'law'\"")
    kinds, _ = run(f"{CASES} --cost-of-error 40 --cost-of-referral 4")
    fraud, _ = run(f"{FRAUD} --yes-risk 0.2 --no-risk 0.02")
    by_channel, _ = run(f"{CASES} --by channel", columns=130)
    by_class, _ = run(f"{CASES} --per-class")
    return {
        "threshold-head.txt": "$ head -3 answers.jsonl\n" + "".join(f"{line}\n" for line in head),
        "threshold-answers.txt": by_subject,
        "threshold-law.txt": f"{verdict(law)}...\n$ echo $?\n{status}\n",
        "threshold-kinds.txt": verdict(kinds),
        "threshold-fraud.txt": verdict(fraud),
        "threshold-channels.txt": part(by_channel, "Thresholds of groups"),
        "threshold-classes.txt": part(by_class, "Thresholds of predicted classes"),
    }


def verdict(text: str) -> str:
    """Return the beginning of an output, to the end of its verdict."""
    return "\n\n".join(text.split("\n\n")[:2]) + "\n"


def part(text: str, heading: str) -> str:
    """Return the command line of an output and the table below a heading."""
    return f"{text.splitlines()[0]}\n...\n{text[text.index(heading) :]}"


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
    ours = ("observed risk", "closed", "fixed-sequence")
    one_side = [row for row in rows if row["kind"] == "one side" and (row["n"] == "2000" or row["method"] in ours)]
    clusters = [row for row in rows if row["kind"] == "clusters"]
    two_sides = [row for row in rows if row["kind"] == "two sides"]
    return {
        "thresholds.md": table(one_side, ("n", "method")),
        "thresholds-clusters.md": table(clusters, ("design", "method")),
        "thresholds-sides.md": table(two_sides, ("n",)),
        "thresholds-levels.md": listed(rows, "levels"),
        "thresholds-doubtful.md": listed(rows, "doubtful"),
        "thresholds-planned.md": listed(rows, "planned"),
    }


def listed(rows: list[dict[str, str]], kind: str) -> str:
    """Return a table with a line for each row of a kind."""
    columns = COLUMNS[kind]
    lines = [f"| {' | '.join(columns.values())} |", "|---" * len(columns) + "|"]
    lines += [f"| {' | '.join(words(key, row[key]) for key in columns)} |" for row in rows if row["kind"] == kind]
    return "\n".join(lines) + "\n"


def table(rows: list[dict[str, str]], keys: tuple[str, ...]) -> str:
    """Return a table with a line for each value of the keys and a column for each risk of the scores."""
    heads = {"n": "N", "method": "method", "design": "clusters"}
    risks = list(dict.fromkeys(row["risk"] for row in rows))
    best = {row["risk"]: f"{float(row['oracle']):.2f}" for row in rows}
    lines = [
        f"| {' | '.join([*(heads[key] for key in keys), *map(risk_text, risks)])} |",
        "|---" * (len(keys) + len(risks)) + "|",
        f"| {' | '.join([*([''] * (len(keys) - 1)), 'best possible', *(f'0 / {best[risk]}' for risk in risks)])} |",
    ]
    cells = {(*(row[key] for key in keys), row["risk"]): row for row in rows}
    places = {name: k for k, name in enumerate(METHODS)}
    order = dict.fromkeys(tuple(row[key] for key in keys) for row in rows)
    designs = list(dict.fromkeys(row["design"] for row in rows))
    for line in sorted(order, key=lambda line: line_place(dict(zip(keys, line, strict=True)), designs, places)):
        shown = [cells.get((*line, risk)) for risk in risks]
        texts = ["–" if row is None else f"{float(row['broken']):.3f} / {float(row['share']):.2f}" for row in shown]
        names = [words(key, value) for key, value in zip(keys, line, strict=True)]
        lines.append(f"| {' | '.join([*names, *texts])} |")
    return "\n".join(lines) + "\n"


def line_place(line: Mapping[str, str], designs: list[str], places: Mapping[str, int]) -> tuple[int, int, int]:
    """Return the place of a line: by number of rows, by clusters, by method."""
    design = designs.index(line["design"]) if "design" in line else 0
    return int(line.get("n", 0)), design, places.get(line.get("method", ""), 0)


def words(key: str, value: str) -> str:
    """Return a cell in words: a number, a share, a method, an error rate or a design."""
    if key in ("n", "runs"):
        return f"{int(value):,}"
    if key in ("certified", "broken", "broken_se", "flagged"):
        return f"{float(value):.3g}" if value else "–"
    if key == "risk":
        return risk_text(value)
    return METHODS[value] if key == "method" else value.removeprefix("confidence ")


def risk_text(risk: str) -> str:
    """Return what the error rate of a score is, in words."""
    return RISKS.get(risk, risk)
