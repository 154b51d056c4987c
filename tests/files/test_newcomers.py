"""Files as people have them: the first error proposes a command, and what is typed gives the right number."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the report extra is not installed")
pytest.importorskip("duckdb", reason="the report extra is not installed")
from tests import in_process

RNG = np.random.default_rng(20261130)
N = 120
P = RNG.uniform(0.02, 0.98, N).round(3)
Y = (RNG.uniform(size=N) < P**1.3).astype(int)
TOP = np.maximum(P, 1 - P).round(3)
RIGHT = (P >= 0.5) == Y
LETTERS = "ABC"
TABLE = RNG.dirichlet((0.6, 0.6, 0.6), N).round(4)
TABLE[:, 2] = np.round(1 - TABLE[:, 0] - TABLE[:, 1], 4)
CLASS = np.array([RNG.choice(3, p=row / row.sum()) for row in TABLE])


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*words: str) -> tuple[int, str, str]:
    status, out, err = in_process.run(*words)
    return status, out, " ".join(err.split())


def proposed(err: str) -> list[list[str]]:
    """Return the commands that an error proposes, without the name of the program."""
    found = re.findall(r"calibrant (report .*?)(?=; \(\d\) |; if |$)", err)
    return [shlex.split(command) for command in found]


def briers(*words: str, steps: int = 3) -> list[float]:
    """Return the Brier scores that all commands give which errors propose, typed one after the other."""
    status, out, err = run(*words, "--n-resamples", "0", "--quiet", "--json", "-")
    if status == 0:
        return [json.loads(out)["estimates"]["brier"]["value"]]
    assert steps, err
    _, _, err = run(*words)
    commands = proposed(err)
    assert commands, err
    return [value for command in commands for value in briers(*command, steps=steps - 1)]


def brier(probs: Any, targets: Any) -> float:
    probs, targets = np.asarray(probs, float), np.asarray(targets)
    if probs.ndim == 1:
        return float(np.mean((probs - targets) ** 2))
    return float(np.mean(np.sum((probs / probs.sum(axis=1, keepdims=True) - np.eye(3)[targets]) ** 2, axis=1)))


def save(name: str, header: Sequence[str] | None, *columns: Iterable[Any], between: str = ",") -> str:
    rows = [] if header is None else [header]
    lines = [between.join(map(str, row)) for row in (*rows, *zip(*columns, strict=True))]
    Path(name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return name


def put(name: str, content: str | bytes) -> str:
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return name


def body(name: str) -> str:
    return Path(name).read_text(encoding="utf-8")


def words(no: Any, yes: Any) -> list[Any]:
    return [(no, yes)[value] for value in Y]


# ---------------------------------------------------------------- lines above the header, separators


PLAIN = "id,prob,outcome\n" + "".join(f"{i},{p},{y}\n" for i, (p, y) in enumerate(zip(P, Y, strict=True)))
ABOVE: dict[str, Callable[[], str]] = {
    "a title": lambda: put("f.csv", "Churn model,,\nExported,,\n,,\n" + PLAIN),
    "a short title": lambda: put("f.csv", "Churn model\n\n" + PLAIN),
    "comments": lambda: put("f.csv", "# model v3\n# 2026-11-01\n" + PLAIN),
    "two headers": lambda: put("f.csv", "row,model,model\n" + PLAIN),
    "the separator": lambda: put("f.csv", "sep=;\n" + PLAIN.replace(",", ";").replace(".", ",")),
    "tabs": lambda: put("f.csv", PLAIN.replace(",", "\t")),
    "bars": lambda: put("f.csv", PLAIN.replace(",", "|")),
    "a title in UTF-16": lambda: put("f.csv", ("Title\n" + PLAIN.replace(",", "\t")).encode("utf-16")),
    "empty columns": lambda: put("f.csv", "Title,,,,\n" + PLAIN.replace("\n", ",,\n")),
}


@pytest.mark.parametrize("kind", ABOVE)
def test_lines_above_the_header_and_separators(kind):
    assert briers("report", ABOVE[kind]()) == [pytest.approx(brier(P, Y), abs=1e-12)]


def test_a_title_above_the_header_of_a_sheet():
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is not installed")
    pytest.importorskip("python_calamine", reason="the excel extra is not installed")
    book = openpyxl.Workbook()
    book.active.append(["Read me"])
    sheet = book.create_sheet("Data")
    for row in (["Model", None, None], [], ["id", "prob", "outcome"]):
        sheet.append(row)
    for number, (p, y) in enumerate(zip(P.tolist(), Y.tolist(), strict=True)):
        sheet.append([number, p, y])
        sheet.cell(number + 4, 2).number_format = "0.0%"
    book.save("f.xlsx")
    _, _, err = run("report", "f.xlsx")
    assert err.endswith("such as --sheet Data")  # the largest one
    assert briers("report", "f.xlsx", "--sheet", "Data") == [pytest.approx(brier(P, Y), abs=1e-12)]
    # Excel shows 20 %, and the file holds 0.2: the title is not among the cells whose format is compared.
    typed = ("report", "f.xlsx", "--sheet", "Data", "--header-line", "3", "--percent")
    assert briers(*typed) == [pytest.approx(brier(P, Y), abs=1e-12)]
    for line in ("999", "124"):
        assert run("report", "f.xlsx", "--sheet", "Data", "--header-line", line)[0] == 1


@pytest.mark.every_value
@pytest.mark.parametrize(
    ("above", "names"),
    [
        ([[]], ["id", "prob", "outcome"]),
        ([[], ["Model"]], ["id", "prob", "outcome"]),
        ([["Model"], []], ["id", "prob", "outcome"]),
        ([[], [], ["Model"], []], ["id", "prob", "outcome"]),
        ([["Model\nversion 3\n"]], ["id", "prob", "outcome"]),
        ([[], ["Model"], ["of", "risk\n\n2026", None]], ["id", "prob", "outcome"]),
        ([["Model"]], ["id\nof client", "prob", "outcome"]),
    ],
)
def test_the_header_of_a_sheet_is_named_by_its_row(above, names):
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is not installed")
    pytest.importorskip("python_calamine", reason="the excel extra is not installed")
    book, right = openpyxl.Workbook(), str(len(above) + 1)
    for row in (*above, names, *zip(range(N), P.tolist(), Y.tolist(), strict=True)):
        book.active.append(row)
    book.save("f.xlsx")
    expected = [pytest.approx(brier(P, Y), abs=1e-12)]
    assert briers("report", "f.xlsx") == expected
    assert briers("report", "f.xlsx", "--header-line", right) == expected
    for command in proposed(run("report", "f.xlsx")[2]):
        assert command[-2:] == ["--header-line", right] or "--header-line" not in command


@pytest.mark.parametrize("write", [put, None])
def test_a_line_above_the_header_is_named_again(write):
    lines = [
        "Model,,",
        "2026,,",
        "id,prob,outcome",
        *(f"{i},{p},{y}" for i, (p, y) in enumerate(zip(P, Y, strict=True))),
    ]
    if write is None:
        pytest.importorskip("python_calamine", reason="the excel extra is not installed")
        book = pytest.importorskip("openpyxl", reason="openpyxl is not installed").Workbook()
        for line in lines:
            book.active.append([float(cell) if cell[0].isdigit() else cell for cell in filter(None, line.split(","))])
        book.save("f.xlsx")
    name = "f.xlsx" if write is None else write("f.csv", "\n".join(lines) + "\n")
    err = run("report", name, "--header-line", "2")[2]
    assert "line 2 does not name the columns, but line 3 may do so (id, prob, outcome)" in err
    (command,) = proposed(err)
    assert briers(*command) == [pytest.approx(brier(P, Y), abs=1e-12)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("c0,0.25,no\nc1,0.5,yes\nc2,0.75,no\n", "has data in its first line"),
        ('"prob","outcome"\n"1",0.5,1\n"2",0.25,0\n', "has 2 names in its first line, but 3 fields in each row"),
        ("prob outcome\n0.5 1\n0.25 0\n", "has its columns separated by spaces"),
        ("<html><body>\n<table>\n", "is a web page or XML, not CSV"),
        (b"PAR1\x15\x04\xff\xfe", "is not text but Parquet"),
        (b"\x1f\x8b\x08\x00\xff\xfe", "is not text but compressed"),
        ("prob,outcome\n'0.5,1\n'0.25,0\n", "write the number alone, such as 0.5"),
        ("prob,outcome\n[0.5 0.5],1\n[0.25 0.75],0\n", "write lists with commas"),
        ("confidence,correct\nlikely,1\nnever,0\n", "give each text a probability"),
        ("prob;outcome\n0,5;1\n0.25;0\n", "write all numbers with a point, or all with a comma"),
    ],
)
def test_what_a_file_could_mean(content, said):
    status, _, err = run("report", put("f.csv", content))
    assert status == 1
    assert said in err
    assert run("report", "f.csv", "--header-line", "50")[0] == 1


def test_lines_within_a_cell_are_no_header():
    texts = [f'"Why {k}?\nfirst, second, third, last\n{k}, 0.5"' for k in range(N)]
    assert briers("report", save("f.csv", ["text", "prob", "outcome"], texts, P, Y)) == [pytest.approx(brier(P, Y))]
    assert briers("report", save("g.csv", ["", "answer", "p", "y"], range(N), texts, P, Y)) == [
        pytest.approx(brier(P, Y))
    ]


def test_names_that_are_numbers_are_names():
    path = save("f.csv", ["", "0", "1", "y_true"], range(N), (1 - P).round(3), P, Y)
    assert briers("report", path) == [pytest.approx(brier(P, Y), abs=1e-12)]
    path = save("g.csv", ["id", "0.1", "outcome"], range(N), P, Y)  # such as a quantile
    assert briers("report", path) == [pytest.approx(brier(P, Y), abs=1e-12)]


# ---------------------------------------------------------------- rows and cells that are no predictions

FEW = np.arange(N) % 40 == 3


def few(cells: Iterable[Any], other: Any) -> list[Any]:
    return [other if bad else cell for cell, bad in zip(cells, FEW, strict=True)]


ROWS: dict[str, tuple[Callable[[], str], float]] = {
    "a total": (lambda: put("f.csv", PLAIN + f"Total,{P.mean():.3f},{Y.mean():.3f}\n"), brier(P, Y)),
    "sums": (lambda: put("f.csv", PLAIN + f"Sum,{P.sum():.3f},{Y.sum()}\n"), brier(P, Y)),
    "a source": (lambda: put("f.csv", PLAIN + "\nSource: CRM,,\n"), brier(P, Y)),
    "points": (lambda: save("f.csv", ["p", "y"], few(P, "."), Y), brier(P[~FEW], Y[~FEW])),
    "#N/A": (lambda: save("f.csv", ["p", "y"], few(P, "#N/A"), few(Y, "NA")), brier(P[~FEW], Y[~FEW])),
    "-1": (lambda: save("f.csv", ["p", "y"], few(P, -1), Y), brier(P[~FEW], Y[~FEW])),
    "inf": (lambda: save("f.csv", ["p", "y"], few(P, "inf"), Y), brier(P[~FEW], Y[~FEW])),
    "-1 and unusual names": (
        lambda: save("f.csv", ["predictedmortality", "status"], few(P, -1), words("ALIVE", "EXPIRED")),
        brier(P[~FEW], Y[~FEW]),
    ),
}


@pytest.mark.parametrize("kind", ROWS)
def test_a_few_rows_without_a_prediction_are_left_out(kind):
    make, expected = ROWS[kind]
    assert briers("report", make()) == [pytest.approx(expected, abs=1e-12)]


def test_many_rows_with_another_outcome_are_not_left_out():
    outcomes = np.where(np.arange(N) % 3 == 0, 0.25, Y)
    _, _, err = run("report", save("f.csv", ["p", "y"], P, outcomes))
    assert "all other values are not the event" in err
    assert "left out" not in err


# ---------------------------------------------------------------- what the numbers and the labels are

ODDS = [f"{1 / p:.2f}" for p in P]
ANSWER = [LETTERS[row.argmax()] for row in TABLE]
GOLD = [LETTERS[k] for k in CLASS]
IS_GOLD = TABLE.argmax(axis=1) == CLASS
LOGS = np.log(TABLE.clip(1e-4)).round(6)
LOGITS = RNG.normal(0, 2, (N, 3)).round(4)
SOFTMAX = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
BOOK = (1 / (1.05 * TABLE.clip(0.04) / TABLE.clip(0.04).sum(axis=1, keepdims=True))).round(4)
GUESS = np.where(P >= 0.5, 1, 0)
READ: dict[str, tuple[Callable[[], str], list[float]]] = {
    "decimal odds": (
        lambda: save("f.csv", ["bet", "odds", "result"], range(N), ODDS, words("Lost", "Won")),
        [brier([1 / float(text) for text in ODDS], Y)],
    ),
    "per cents beside a share": (
        lambda: save("f.csv", ["win_probability", "vote_share", "won"], (100 * P).round(1), P[::-1], Y),
        [brier(P, Y)],
    ),
    "ids like scores": (
        lambda: save("f.csv", ["key", "yhat", "churn"], RNG.uniform(size=N).round(5), P, Y),
        [brier(P, Y)],
    ),
    "exponents": (
        lambda: save("f.csv", ["Score", "Ziel"], [f"{p:.3E}".replace(".", ",") for p in P], Y, between=";"),
        [brier(P, Y)],
    ),
    "log-probability": (
        lambda: save("f.csv", ["answer", "gold", "logprob"], ANSWER, GOLD, LOGS.max(axis=1)),
        [brier(np.exp(LOGS.max(axis=1)), IS_GOLD)],
    ),
    "log-probabilities": (
        lambda: save("f.csv", ["gold", *(f"logprob_{each}" for each in LETTERS)], GOLD, *LOGS.T),
        [brier(np.exp(LOGS), CLASS)],
    ),
    "logits": (
        lambda: save("f.csv", ["target", "out_0", "out_1", "out_2"], CLASS, *LOGITS.T),
        [brier(SOFTMAX, CLASS)],
    ),
    "confidence in per cent": (
        lambda: save(
            "f.csv", ["id", "answer", "gold", "confidence"], range(N), ANSWER, GOLD, (100 * TABLE.max(axis=1)).round()
        ),
        [brier((100 * TABLE.max(axis=1)).round() / 100, IS_GOLD)],
    ),
    "labels in another case": (
        lambda: save("f.csv", ["gold", "label", "score"], words("no", "yes"), [("NO", "YES")[k] for k in GUESS], TOP),
        [brier(TOP, RIGHT), brier(np.where(GUESS, TOP, 1 - TOP), Y)],
    ),
    "labels with a beginning": (
        lambda: save("f.csv", ["target", "label", "score"], Y, [f"LABEL_{k}" for k in GUESS], TOP),
        [brier(TOP, RIGHT), brier(np.where(GUESS, TOP, 1 - TOP), Y)],
    ),
    "labels with spaces": (
        lambda: save(
            "f.csv", ["truth", *(f"prob_{each}" for each in "abc")], [(" A", "b", "C ")[k] for k in CLASS], *TABLE.T
        ),
        [brier(TABLE, CLASS)],
    ),
    "a row for each class": (
        lambda: save(
            "f.csv",
            ["id", "class", "probability", "actual"],
            np.repeat(range(N), 3),
            [*LETTERS] * N,
            TABLE.ravel(),
            np.repeat(GOLD, 3),
        ),
        [brier(TABLE.ravel(), np.eye(3)[CLASS].ravel())],
    ),
    "labels from 1": (
        lambda: save("f.csv", ["Y", "P0", "P1", "P2"], CLASS + 1, *TABLE.T),
        [brier(TABLE, CLASS)],
    ),
    "points of two sides": (
        lambda: save("f.csv", ["elo_prob1", "elo_prob2", "score1", "score2"], P, 1 - P, 90 + 9 * Y, [95] * N),
        [brier(P, Y)],
    ),
    "an answer and the correct one": (
        lambda: save(
            "f.csv",
            ["model_answer", "correct_answer", "logprob"],
            [("no", "yes")[k] for k in GUESS],
            words("no", "yes"),
            np.log(TOP).round(6),
        ),
        [
            brier(np.exp(np.log(TOP).round(6)), RIGHT),
            brier(np.where(GUESS, np.exp(np.log(TOP).round(6)), 1 - np.exp(np.log(TOP).round(6))), Y),
        ],
    ),
    "two bookmakers": (
        lambda: save(
            "f.csv",
            ["result", "AX", "AY", "AZ", "BX", "BY", "BZ"],
            [("X", "Y", "Z")[k] for k in CLASS],
            *BOOK.T,
            *(BOOK * 0.98).T,
        ),
        [brier(1 / BOOK, CLASS)] * 2,
    ),
    "a margin": (
        lambda: save("f.csv", ["id", "margin", "churn"], range(N), LOGITS[:, 0], Y),
        [brier(1 / (1 + np.exp(-LOGITS[:, 0])), Y)],
    ),
    "a sum in German": (
        lambda: put(
            "f.csv",
            body(
                save(
                    "g.csv",
                    ["Kunde", "Wahrscheinlichkeit", "Ausfall"],
                    range(N),
                    [f"{p:.3f}".replace(".", ",") for p in P],
                    words("nein", "ja"),
                    between=";",
                )
            )
            + f"Summe;{P.sum():.3f};{Y.sum()}\n".replace(".", ","),
        ),
        [brier(P, Y)],
    ),
    "points and a draw": (
        lambda: save("f.csv", ["prob1", "prob2", "probtie", "score1", "score2"], *TABLE.T, 2 - CLASS % 2, 1 + CLASS),
        [],
    ),
}


@pytest.mark.parametrize("kind", READ)
def test_what_numbers_and_labels_are(kind):
    make, expected = READ[kind]
    if kind == "points and a draw":
        path = save(
            "f.csv", ["prob1", "prob2", "probtie", "score1", "score2"], *TABLE.T, [(2, 0, 1)[k] for k in CLASS], [1] * N
        )
        expected = [brier(TABLE, CLASS)]
    else:
        path = make()
    assert briers("report", path) == [pytest.approx(value, abs=1e-9) for value in expected]
    assert len(run("report", path)[2]) < 2_000


@pytest.mark.parametrize(
    ("header", "columns", "said"),
    [
        (["study", "p_value", "replicated"], [range(N), P, words("no", "yes")], "'p_value' has numbers from"),
        (["id", "decile_score", "two_year"], [range(N), np.ceil(P * 10).astype(int), Y], "numbers from 1 to 10"),
        (["id", "credit_score", "bad"], [range(N), (300 + 500 * P).astype(int), Y], "'credit_score' has numbers from"),
        (["id", "risk_5y", "time", "status"], [range(N), P, 9 * P[::-1], Y], "is known at the time in 'risk_5y'"),
        (["q10", "q50", "q90", "obs"], [P - 2, P + 5, P + 9, P + 4], "for quantile forecasts, see docs/quantiles.md"),
    ],
)
def test_numbers_that_are_no_probabilities_are_not_read(header, columns, said):
    _, _, err = run("report", save("f.csv", header, *columns))
    assert said in err
    assert len(proposed(err)) == ("risk_5y" in header)


def test_an_id_is_no_amount_above_0():
    _, _, err = run("report", save("f.csv", ["id", "p"], range(N), P))
    assert "no column looks like the outcome" in err
    assert "id > 0" not in err


def test_a_mark_in_some_rows_is_an_outcome():
    save("f.csv", ["patient", "p_death", "died"], range(N), P, words("", "x"))
    _, _, err = run("report", "f.csv")
    typed = re.search(r"such as (--score .*?);", err)
    assert typed is not None
    assert briers("report", "f.csv", *shlex.split(typed[1])) == [pytest.approx(brier(P, Y), abs=1e-12)]


def test_lists_in_another_order_than_their_labels_are_not_proposed():
    for order, expected in (((0, 1, 2), 1), ((2, 1, 0), 0)):
        rows = zip(GOLD, TABLE[:, order].tolist(), strict=True)
        put("f.csv", "truth;scores\n" + "".join(f"{gold};{json.dumps(row)}\n" for gold, row in rows))
        assert len(proposed(run("report", "f.csv")[2])) == expected


def test_many_columns_are_named_by_a_pattern():
    table = RNG.dirichlet([0.1] * 40, N)
    path = save("f.csv", ["label", *(f"c{k}" for k in range(40))], table.argmax(axis=1), *table.T)
    _, _, err = run("report", path)
    (command,) = proposed(err)
    assert command[:4] == ["report", "f.csv", "--probs", "c*"]
    assert run(*command, "--quiet")[0] == 0


def test_arrays_of_one_split_belong_together():
    np.savez("f.npz", val_probs=TABLE, val_labels=CLASS, test_probs=TABLE[::-1], test_labels=CLASS[::-1])
    assert briers("report", "f.npz") == [pytest.approx(brier(TABLE, CLASS), abs=1e-12)] * 2
    np.savez("g.npz", y_pred=TABLE, y_test=np.eye(3)[CLASS])
    assert briers("report", "g.npz") == [pytest.approx(brier(TABLE, CLASS), abs=1e-12)]
    Path("h").mkdir()
    np.save("h/preds.npy", TABLE)
    np.save("h/labels.npy", CLASS)
    assert briers("report", "h/preds.npy") == [pytest.approx(brier(TABLE, CLASS), abs=1e-12)]


def test_lists_of_objects_and_of_classes():
    rows = [
        {
            "text": f"{i % 7}",
            "gold": gold,
            "output": [{"label": a, "score": p} for a, p in zip(LETTERS, row, strict=True)],
        }
        for i, (gold, row) in enumerate(zip(GOLD, TABLE.tolist(), strict=True))
    ]
    put("f.jsonl", "\n".join(map(json.dumps, rows)))
    assert briers("report", "f.jsonl") == [pytest.approx(brier(TABLE, CLASS), abs=1e-12)]
    rows = [{"truth": gold, "scores": row} for gold, row in zip(GOLD, TABLE.tolist(), strict=True)]
    put("g.jsonl", "\n".join(map(json.dumps, rows)))
    assert briers("report", "g.jsonl") == [pytest.approx(brier(TABLE, CLASS), abs=1e-12)]
    put("h.json", json.dumps({"probs": P.tolist(), "labels": Y.tolist()}))
    assert "contains one object whose lists are columns; in Python, use pandas.DataFrame(" in run("report", "h.json")[2]


# ---------------------------------------------------------------- several files, dates, SQL


def test_several_files():
    save("a.csv", ["id", "prob"], range(N), P)
    save("b.csv", ["id", "label"], range(N), Y)
    _, _, err = run("report", "a.csv", "b.csv")
    frame = re.search(r"in Python with (.*)$", err)
    assert frame is not None
    exec(frame[1], {"pandas": pytest.importorskip("pandas", reason="pandas is not installed")})
    assert briers("report", "joined.parquet") == [pytest.approx(brier(P, Y), abs=1e-12)]
    save("c.csv", ["prob", "outcome"], P, Y)
    save("d.csv", ["probability", "won"], P, Y)
    _, _, err = run("report", "c.csv", "d.csv")
    assert "d.csv: has the columns probability, won, but c.csv has prob, outcome; give the columns" in err
    assert proposed(err) == []


DAYS = np.datetime64("2026-01-31") + np.arange(N)
DATES = {
    "%d.%m.%Y": None,
    "%d-%b-%y": None,
    "%b %d, %Y": None,
    "%Y%m%d": None,
    "Excel": (DAYS - np.datetime64("1899-12-30")).astype(int),
    "seconds": DAYS.astype("datetime64[s]").astype(int),
    "milliseconds": DAYS.astype("datetime64[ms]").astype(int),
}


@pytest.mark.parametrize("kind", DATES)
def test_dates_of_a_monitor_are_read_as_proposed(kind):
    cells = DATES[kind]
    if cells is None:
        cells = [f'"{day.item().strftime(kind)}"' for day in DAYS]
    save("f.csv", ["day", "prob", "outcome"], cells, P, Y)
    _, _, err = run("monitor", "s.json", "f.csv", "--time", "day", "--quiet")
    typed = re.search(r"to read the cells as dates, pass (--time .*)$", err)
    assert typed is not None, err
    status, _, err = run("monitor", "s.json", "f.csv", *shlex.split(typed[1]), "--every", "day", "--quiet")
    assert status in (0, 3), err
    labels = [each["label"] for each in json.loads(body("s.json"))["slices"]]
    assert labels == [str(day) for day in DAYS]


def test_columns_whose_names_are_words_of_sql_and_decimal_commas():
    save("f.csv", ["when", "prob", "outcome"], DAYS, P, Y)
    _, _, err = run("report", "f.csv", "--by", "month(when)")
    typed = re.search(r"in double quotes: (.*)$", err)
    assert typed is not None
    assert run("report", "f.csv", *shlex.split(typed[1]), "--quiet")[0] == 0
    comma = [f"{p:.3f}".replace(".", ",") for p in P]
    save("g.csv", ["prob", "outcome", "age"], comma, Y, comma, between=";")
    _, _, err = run("report", "g.csv", "--where", "age > 0.5")
    assert err.endswith("if the comma is the decimal point, pass --decimal-comma")
    assert run("report", "g.csv", "--where", "age > 0.5", "--decimal-comma", "--quiet")[0] == 0


# ---------------------------------------------------------------- what one fault hides behind another


def test_a_comparison_keeps_its_models_in_proposals():
    rows = "".join(f"0.{k % 9 + 1},0.{(k + 3) % 9 + 1},{('yes', 'no')[k % 2]}\n" for k in range(60))
    Path("games.csv").write_text(f"old,new,result\n{rows}")
    _, _, err = run("compare", "games.csv", "--scores", "old,new")
    assert err.endswith("calibrant compare games.csv --scores old,new --outcome result --labels no,yes")


def test_a_column_with_a_space_is_quoted_in_a_condition():
    rows = "".join(f"{-1 if k == 5 else 0.1 * (k % 9 + 1):.1f},{k % 2}\n" for k in range(60))
    Path("a.csv").write_text(f"my score,outcome\n{rows}")
    _, _, err = run("report", "a.csv", "--score", "my score")
    assert run(*shlex.split(err.rpartition("type: calibrant ")[2]), "--quiet")[0] == 0


def test_semicolons_within_a_name_separate_nothing():
    rows = "".join(f"0.{k % 9 + 1},{k % 2},x\n" for k in range(60))
    Path("a.csv").write_text(f'prob,outcome,"how; why; when; who"\n{rows}')
    assert run("report", "a.csv", "--quiet")[0] == 0


@pytest.mark.every_value
@pytest.mark.parametrize("key", ["a{b", "{parquet}", '"]; raise SystemExit; ["'])
def test_a_key_of_a_file_stays_a_text_in_python(key):
    Path("a.json").write_text(json.dumps({key: [{"score": 0.5, "outcome": 1}]}))
    _, _, err = run("report", "a.json")
    code = err.rpartition("in Python, use ")[2]
    assert ast.literal_eval(code[code.index(")[") + 1 : code.index(").to_parquet")]) == [key]
    assert code.endswith('.to_parquet("a.parquet")')


def test_tables_to_join_are_read_with_their_separator():
    Path("a.tsv").write_text("id\tscore\n" + "".join(f"{k}\t0.{k % 9 + 1}\n" for k in range(60)))
    Path("b.tsv").write_text("id\toutcome\n" + "".join(f"{k}\t{k % 2}\n" for k in range(60)))
    _, _, err = run("report", "a.tsv", "b.tsv")
    exec(err.rpartition("such as in Python with ")[2], {"pandas": pytest.importorskip("pandas")})
    assert run("report", "joined.parquet", "--quiet")[0] == 0


def test_a_long_line_above_the_header_is_an_error():
    Path("a.csv").write_text("x" * 2_000_001 + "\nscore,outcome\n0.5,1\n")
    status, _, err = run("report", "a.csv", "--header-line", "2")
    assert (status, err) == (
        1,
        "calibrant: a.csv: has a line of more than 2,000,000 characters above its header; delete this line",
    )
