"""Numbers that are written in other ways than as fractions: percentages, decimal commas, odds, and counts."""

from __future__ import annotations

import itertools
import json
import math
import shlex
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calibrant
from calibrant.errors import FileError
from calibrant.files.column_kinds import Candidates
from calibrant.files.odds import implied, probabilities
from tests.in_process import fail, run, succeed

pytest.importorskip("pyarrow", reason="the report extra is not installed")
pytest.importorskip("duckdb", reason="the report extra is not installed")

RNG = np.random.default_rng(20261129)
SCORES = RNG.uniform(0.02, 0.98, 150).round(3)
OUTCOMES = (RNG.uniform(size=150) < SCORES).astype(int)
BRIER = float(np.mean((SCORES - OUTCOMES) ** 2))

#: Names of an id, a score and an outcome, and labels of no and yes, in several languages.
LANGUAGES = {
    "English": ("id", "win chance", "went up", "no", "yes"),
    "German": ("Nr", "Wahrscheinlichkeit", "Ergebnis", "nein", "ja"),
    "French": ("numéro", "Probabilité", "Résultat", "non", "oui"),
    "Spanish": ("número", "estimación", "sucedió", "no", "sí"),
    "Polish": ("lp", "szansa", "wynik", "nie", "tak"),
    "Russian": ("номер", "вероятность", "исход", "нет", "да"),
    "Chinese": ("编号", "概率", "结果", "否", "是"),
    "Japanese": ("番号", "確率", "結果", "いいえ", "はい"),
    "none": ("a", "b", "c", "0", "1"),
}
#: How a score is written, with the separator of the columns.
WRITTEN = {
    "fraction": (lambda p: f"{p:.3f}", ","),
    "comma": (lambda p: f"{p:.3f}".replace(".", ","), ";"),
    "sign": (lambda p: f"{100 * p:.1f}%", ","),
    "sign and space": (lambda p: f"{100 * p:.1f} %", ","),
    "sign and comma": (lambda p: f"{100 * p:.1f}%".replace(".", ","), ";"),
    "percent": (lambda p: f"{100 * p:.1f}", ","),
    "percent and comma": (lambda p: f"{100 * p:.1f}".replace(".", ","), ";"),
}


def estimates(*args: object) -> dict[str, float]:
    out, _ = succeed(*args, "--n-resamples", 0, "--json", "-", "--quiet")
    return {name: each["value"] for name, each in json.loads(out)["estimates"].items()}


def proposed(err: str) -> list[list[str]]:
    """Return the commands that an error proposes."""
    parts = err.replace("such as: calibrant", "type: calibrant").strip().split("type: calibrant ")[1:]
    return [shlex.split(part.rpartition("; if ")[0] or part) for part in parts]


def save(path: Path, between: str, *columns: tuple[str, Any]) -> str:
    names, values = zip(*columns, strict=True)
    lines = [between.join(map(str, row)) for row in (names, *zip(*values, strict=True))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("how", WRITTEN)
def test_the_first_error_proposes_a_command_that_works(tmp_path, language, how):
    number, score, outcome, no, yes = LANGUAGES[language]
    write, between = WRITTEN[how]
    words = [(no, yes)[y] for y in OUTCOMES]
    path = save(
        tmp_path / "f.csv", between, (number, range(150)), (score, map(write, SCORES.tolist())), (outcome, words)
    )
    err = fail("report", path)
    (command,) = proposed(err)
    assert estimates(*command)["brier"] == pytest.approx(BRIER, abs=1e-12)


@pytest.mark.parametrize("how", [how for how in WRITTEN if how != "fraction"])
@pytest.mark.parametrize("named", [True, False])
def test_an_error_about_a_number_proposes_all_that_is_missing(tmp_path, how, named):
    write, between = WRITTEN[how]
    path = save(tmp_path / "f.csv", between, ("score", map(write, SCORES.tolist())), ("outcome", OUTCOMES))
    columns = ("--score", "score", "--outcome", "outcome") if named else ()
    for given_already in ((), ("--percent",), ("--decimal-comma",)):
        status, _, err = run("report", path, *columns, *given_already)
        if status == 0:  # nothing is missing
            assert given_already == {"comma": ("--decimal-comma",)}.get(how, ("--percent",))
            continue
        found = proposed(err)
        if how == "comma" and given_already == ("--percent",):
            continue  # fractions with --percent are another error
        assert len(found) == 1, err
        assert estimates(*found[0])["brier"] == pytest.approx(BRIER, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "largest"), [("decile", 10), ("rank", 80), ("age", 90), ("percentile", 99), ("x", 10)]
)
def test_ranks_and_ages_are_not_percentages(tmp_path, name, largest):
    values = np.ceil(SCORES * largest).astype(int)
    path = save(tmp_path / "f.csv", ",", (name, values), ("outcome", OUTCOMES))
    err = fail("report", path)
    assert "--percent" not in err
    if largest == 10:
        _, _, err = run("report", path, "--score", name)
        assert "--percent" not in err
        assert "whole numbers up to 10 may be ranks or deciles" in err


def test_an_unknown_event_is_that_of_the_larger_scores(tmp_path):
    words = [("good", "bad")[y] for y in OUTCOMES]
    path = save(tmp_path / "f.csv", ",", ("risk", SCORES), ("truth", words))
    (command,) = proposed(run("report", path, "--score", "risk", "--outcome", "truth", "--where", "risk > 2")[2]) or [
        []
    ]
    path = save(tmp_path / "g.csv", ",", ("riskiness", SCORES), ("verdict", words))
    (command,) = proposed(run("report", path)[2])
    assert command[command.index("--labels") + 1] == "good,bad"
    coin = RNG.permutation(words)
    path = save(tmp_path / "h.csv", ",", ("riskiness", SCORES), ("verdict", coin))
    assert len(proposed(run("report", path)[2])) == 2  # the values do not say which label is the event


# ---------------------------------------------------------------- ties


@pytest.mark.parametrize(
    ("no", "tie", "yes"), [(0, 0.5, 1), ("loss", "draw", "win"), ("L", "tie", "W"), (0, "push", 1)]
)
def test_ties_are_left_out_and_never_losses(tmp_path, no, tie, yes):
    ties = np.arange(150) % 5 == 0
    results = [tie if is_tie else (no, yes)[y] for is_tie, y in zip(ties, OUTCOMES, strict=True)]
    path = save(tmp_path / "f.csv", ",", ("p_win", SCORES), ("result", results))
    expected = float(np.mean((SCORES - OUTCOMES)[~ties] ** 2))
    for named in ((), ("--score", "p_win", "--outcome", "result")):
        err = fail("report", path, *named)
        commands = proposed(err)
        assert commands or not named
        for command in commands:
            again = run(*command)  # the labels may be asked for in a second step
            command = proposed(again[2])[0] if again[0] else command
            assert estimates(*command)["brier"] == pytest.approx(expected)


# ---------------------------------------------------------------- equal columns


@pytest.mark.parametrize(
    "names", [("judge_verdict", "human_verdict", "judge_confidence"), ("rater", "gold", "rater_conf")]
)
def test_a_judge_is_right_where_two_columns_are_equal(tmp_path, names):
    truth = RNG.choice(["RETRY", "ACCEPT"], 150)
    judged = np.where(OUTCOMES == 1, truth, np.where(truth == "RETRY", "ACCEPT", "RETRY"))
    path = save(tmp_path / "f.csv", ",", *zip(names, (judged, truth, SCORES), strict=True))
    named = ("--score", names[2], "--outcome", names[1])  # whose labels are not 0 and 1
    for command in itertools.product(("report", "threshold"), ((), named)):
        commands = proposed(run(command[0], path, *command[1])[2])
        assert [each for each in commands if f"{names[0]} = {names[1]}" in each]
    command = next(each for each in commands if f"{names[0]} = {names[1]}" in each)
    assert estimates("report", *command[1:])["brier"] == pytest.approx(BRIER)


# ---------------------------------------------------------------- odds


@given(st.lists(st.floats(1.01, 500), min_size=2, max_size=6))
def test_decimal_odds_are_normalised(odds):
    found = probabilities(np.array([odds]), "decimal", "f", tuple("abcdef"[: len(odds)]), int)
    np.testing.assert_allclose(found[0], [1 / o / math.fsum(1 / q for q in odds) for o in odds], rtol=1e-12)


def test_american_odds_pay_like_decimal_odds():
    """+150 pays 1.5 for each 1, so it is 2.5 in decimal odds; -150 pays 1 for each 1.5, so it is 1 + 1 / 1.5."""
    american = np.array([100.0, 150, 2000, -100, -150, -2000])
    decimal = np.array([2.0, 2.5, 21, 2, 1 + 1 / 1.5, 1.05])
    np.testing.assert_allclose(implied(american, "american"), implied(decimal, "decimal"), rtol=1e-14)
    assert np.isnan(implied(np.array([1.0, 0.5, -2, np.inf, np.nan]), "decimal")).all()
    assert np.isnan(implied(np.array([0.0, 99, -99, 1.85, np.inf]), "american")).all()


@pytest.fixture(params=["decimal", "american"])
def market(tmp_path, request):
    """Odds of home, draw and away with an overround of 6 %, and the class that occurred."""
    probs = RNG.dirichlet([4, 3, 3], 300)
    result = np.array([RNG.choice(3, p=row) for row in probs])
    odds = 1 / (1.06 * probs)
    if request.param == "american":
        odds = np.where(odds >= 2, 100 * (odds - 1), -100 / (odds - 1))
    odds = odds.round(2)
    path = save(
        tmp_path / "f.csv", ",", ("FTR", np.array(list("HDA"))[result]), *zip(("H", "D", "A"), odds.T, strict=True)
    )
    shares = implied(odds, request.param)
    return path, request.param, shares / shares.sum(axis=1, keepdims=True), result


def test_odds_are_recognised_and_read(market):
    path, form, probs, result = market
    named = ("--probs", "H,D,A", "--target", "FTR")
    for asked in ((), (*named, "--labels", "H,D,A")):
        err = fail("report", path, *asked)
        (command,) = proposed(err)
        assert command[command.index("--odds") + 1] == form
        found = estimates(*command)
        picked = probs[np.arange(300), result]
        assert found["nll"] == pytest.approx(-np.log(picked).mean())
        assert found["brier"] == pytest.approx(np.mean(1 - 2 * picked + (probs**2).sum(axis=1)))
    _, out, _ = run(*command)
    assert f"as {form} odds (mean overround 6.0 % in the first 300" in " ".join(out.split())


def test_an_error_about_targets_says_nothing_of_odds(market):
    """Odds above 1 are not values outside [0, 1], and nobody who passes --odds means percentages."""
    path, form, _, _ = market
    given = ("report", path, "--probs", "H,D,A", "--target", "FTR", "--odds", form)
    for labels in ((), ("--labels", "X,D,A")):
        status, _, err = run(*given, *labels)
        assert status == 1
        assert "FTR" in err
        assert "outside [0, 1]" not in err
        assert "--percent" not in err
    (command,) = proposed(run(*given)[2])
    assert run(*command)[0] == 0


def test_numbers_that_are_no_odds_are_counted(tmp_path):
    path = save(
        tmp_path / "f.csv", ",", ("FTR", list("HDAH")), ("H", [2.0, 0.5, 3.1, 1.0]), ("D", [3.0] * 4), ("A", [4.0] * 4)
    )
    _, _, err = run("report", path, "--probs", "H,D,A", "--target", "FTR", "--labels", "H,D,A", "--odds", "decimal")
    assert "column 'H': not decimal odds in 2 rows" in err


def test_a_map_is_applied_to_odds(market, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path, form, probs, _ = market
    named = ("--probs", "H,D,A", "--odds", form)
    fit = ("--target", "FTR", "--labels", "H,D,A", "--method", "temperature", "--anyway", "--quiet")
    assert run("recalibrate", path, *named, *fit, "--map", "m.json")[0] in (0, 3)
    assert run("apply", "m.json", path, *named, "-o", "o.parquet", "--quiet")[0] == 0
    mapped = pd.read_parquet("o.parquet").iloc[:, -3:]
    np.testing.assert_allclose(mapped, calibrant.CalibrationMap.read("m.json")(probs), rtol=1e-12)
    Path("bad.csv").write_text(Path(path).read_text() + "H,0.5,2,3\n")
    calibrant.prior_shift(trained_prior=0.5, prior=0.1).map.to_json("one.json")
    labels = np.eye(3, dtype=int)[np.arange(300) % 3]
    calibrant.recalibrate(probs, labels, notion="multilabel", class_names=list("HDA")).map.to_json("many.json")
    for args, status, said in (
        (("apply", "m.json", path, "--probs", "H,D,A"), 1, "or --odds if they are betting odds"),
        (("apply", "m.json", "bad.csv", *named), 1, "row 301, column 'H': expected"),
        (("apply", "m.json", path, *named, "--logits"), 2, "--logits and --odds exclude each other"),
        (("apply", "one.json", path, "--odds", form), 1, "--odds does not suit a map of one event"),
        (("apply", "many.json", path, *named), 1, "--odds does not suit a map of several labels"),
    ):
        found, _, err = run(*args, "-o", "new.csv")
        assert (found, said in " ".join(err.split()), Path("new.csv").exists()) == (status, True, False), err


def test_odds_that_cannot_be_read(market, tmp_path):
    path, form, *_ = market
    np.savez(tmp_path / "f.npz", probs=SCORES, target=OUTCOMES)
    other = {"decimal": "american", "american": "decimal"}[form]
    named = ("--probs", "H,D,A", "--target", "FTR", "--labels", "H,D,A")
    for args, status, words in (
        (("report", path, *named, "--odds", other), 1, "expected"),
        (
            ("report", path, "--score", "H", "--outcome", "FTR = 'H'", "--odds", form),
            1,
            "needs the odds of all classes",
        ),
        (("report", path, *named, "--odds", form, "--percent"), 2, "--percent and --odds exclude each other"),
        (("report", tmp_path / "f.npz", "--odds", form), 1, "--odds is for tables, but a .npz file has arrays"),
    ):
        found, _, err = run(*args)
        assert (found, words in err) == (status, True), err


def test_odds_of_several_bookmakers_are_compared(tmp_path):
    probs = RNG.dirichlet([4, 3], 200)
    result = (RNG.uniform(size=200) < probs[:, 1]).astype(int)
    names = [f"{maker}_{k}" for maker in ("one", "two") for k in (0, 1)]
    odds = np.concatenate([1 / (1.05 * probs), 1 / (1.1 * probs**1.1)], axis=1).round(3)
    path = save(tmp_path / "f.csv", ",", ("result", result), *zip(names, np.maximum(odds, 1.01).T, strict=True))
    out, _ = succeed(
        *("compare", path, "--scores", "one_*,two_*", "--outcome", "result", "--odds", "decimal", "--json", "-")
    )
    assert len(json.loads(out)["models"]) == 2


# ---------------------------------------------------------------- counts


LEVELS = {"stated": [0.9, 0.6, 0.3], "n": [300, 1100, 200], "correct": [200, 800, 100]}


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_counts_of_levels_are_their_rows(tmp_path, ending):
    path = tmp_path / f"f.{ending}"
    rows = [dict(zip(LEVELS, row, strict=True)) for row in zip(*LEVELS.values(), strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    if ending == "csv":
        save(path, ",", *LEVELS.items())
    counts = ("--score", "stated", "--events", "correct", "--trials", "n")
    scores = np.repeat(LEVELS["stated"], LEVELS["n"])
    outcomes = np.concatenate([np.arange(n) < k for k, n in zip(LEVELS["correct"], LEVELS["n"], strict=True)]).astype(
        int
    )
    long = save(tmp_path / "long.csv", ",", ("score", scores), ("outcome", outcomes))
    found, expected = estimates("report", path, *counts), estimates("report", long)
    assert found["ece"] == pytest.approx(0.15625)
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, abs=1e-12), name
    assert proposed(run("report", path)[2]) == [["report", str(path), *counts]]
    _, _, err = run("report", path, "--score", "stated", "--outcome", "correct/n")
    assert f"type: calibrant report {path} --score stated --events correct --trials n" in err
    _, out, _ = run("report", path, *counts)
    assert "(event: correct of n)" in out
    for command in ("recalibrate", "threshold"):
        assert run(command, path, *counts)[0] in (0, 3, 4)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ((0.5, 10, 11), "row 2: expected whole numbers, 'correct' between 0 and 'n', got 11 of 10; correct the row"),
        ((0.5, 10, -1), "got -1 of 10"),
        ((0.5, 10, 2.5), "got 2.5 of 10"),
        ((0.5, 10.5, 2), "got 2 of 10.5"),
    ],
)
def test_counts_that_cannot_be(tmp_path, row, words):
    path = save(
        tmp_path / "f.csv", ",", *((name, [LEVELS[name][0], value]) for name, value in zip(LEVELS, row, strict=True))
    )
    assert words in fail("report", path, "--score", "stated", "--events", "correct", "--trials", "n")


def test_options_that_do_not_go_with_counts(tmp_path):
    path = save(tmp_path / "f.csv", ",", *LEVELS.items())
    counts = ("--score", "stated", "--events", "correct", "--trials", "n")
    for extra, words in (
        (("--outcome", "correct"), "--outcome does not work with --events and --trials"),
        (("--weight", "n"), "--weight does not work with --events and --trials"),
        (("--weights-are", "sampling"), "which are always counts"),
    ):
        status, _, err = run("report", path, *counts, *extra)
        assert (status, words in err) == (2, True), err
    assert "--events and --trials belong together" in run("report", path, "--events", "correct")[2]
    assert (
        "has no column 'k' (--events)" in run("report", path, "--events", "k", "--trials", "n", "--score", "stated")[2]
    )


def test_what_columns_look_like():
    seen = Candidates(
        {"a": ["12,5 %", "80 %", None], "b": ["0,1", "0.2", "1"], "c": ["x", "1,5", "2"], "d": [5, 60, 100]}
    )
    assert seen.flags == {"a": ("--percent", "--decimal-comma"), "b": (), "c": (), "d": ()}
    assert seen.numbers("a")[:2].tolist() == [0.125, 0.8]
    assert Candidates({"d": [5, 60, 100]}, percent=True).scores == ("d",)
    assert not Candidates({"d": [5, 60, 101], "age": [5, 60, 90]}, percent=True).scores


def test_a_single_class_has_no_overround():
    with pytest.raises(FileError, match="needs the odds of all classes"):
        probabilities(np.array([1.5]), "decimal", "f.csv", ("a",), int)


def test_scores_without_an_outcome_are_named_with_a_condition(tmp_path):
    rain = np.where(OUTCOMES == 1, RNG.uniform(1, 20, 150).round(1), 0)
    days = [f"2026-01-{1 + k % 28:02d}" for k in range(150)]
    path = save(tmp_path / "f.csv", ",", ("date", days), ("PoP", np.round(SCORES * 100, 1)), ("rain_mm", rain))
    err = fail("report", path)
    assert (
        "probabilities may be in PoP, rain_mm (such as --score PoP --percent), but no column looks like the outcome"
        in err
    )
    assert 'or write the event as a condition, such as --score PoP --percent --outcome "rain_mm > 0"' in err
    found = estimates("report", path, "--score", "PoP", "--percent", "--outcome", "rain_mm > 0")
    assert found["brier"] == pytest.approx(BRIER)


def test_an_outcome_among_more_words_is_proposed_in_two_steps(tmp_path):
    words = np.where(np.arange(150) % 10 == 0, "CANCEL", np.array(["NO", "YES"])[OUTCOMES])
    path = save(tmp_path / "f.csv", ",", ("price", SCORES), ("resolved_as", words))
    (first,) = proposed(run("report", path)[2])
    assert first[-2:] == ["--outcome", "resolved_as"]
    (second,) = proposed(run(*first)[2])
    kept = np.arange(150) % 10 != 0
    assert estimates(*second)["brier"] == pytest.approx(np.mean((SCORES - OUTCOMES)[kept] ** 2))


def test_scores_come_before_ratios_that_look_like_odds(tmp_path):
    columns = {name: RNG.uniform(1.6, 2.0, 150).round(2) for name in ("height", "length")}
    path = save(tmp_path / "f.csv", ",", ("chance", SCORES), *columns.items(), ("result", OUTCOMES))
    (command,) = proposed(run("report", path)[2])
    assert command[2:] == ["--score", "chance", "--outcome", "result"]


def test_wide_files_are_looked_at_in_a_moment():
    """Pairs of columns would be 10^8; what is looked at grows with the columns alone."""
    wide = {f"x{k}": [1.9, 2.3, 2.9] for k in range(10_000)} | {f"n{k}": [3, 5, 9] for k in range(10_000)}
    begin = time.process_time()
    seen = Candidates(wide)
    assert not seen.counts_beside("x0")
    assert len(seen.odds) < 40_000
    assert time.process_time() - begin < 20


@pytest.mark.parametrize(
    "counts", [[(0.9, 10, 10), (0.2, 10, 0), (0.5, 8, 4)], [(0.9, 4, 3), (0.2, 0, 0), (0.5, 8, 4)]]
)
def test_levels_without_events_or_trials(tmp_path, counts):
    scores, trials, events = zip(*counts, strict=True)
    path = save(tmp_path / "f.csv", ",", ("s", scores), ("n", trials), ("k", events))
    found = estimates("report", path, "--score", "s", "--events", "k", "--trials", "n")
    squares = sum(k * (1 - p) ** 2 + (n - k) * p**2 for p, n, k in counts)
    assert found["brier"] == pytest.approx(squares / sum(trials))


@pytest.mark.parametrize("given", [(), ("--percent",)])
def test_the_remedy_for_a_text_in_another_encoding_works(tmp_path, given):
    rows = zip(SCORES, OUTCOMES, strict=True)
    lines = [f"{100 * p:.1f} %".replace(".", ",") + f";{'ja' if y else 'nein'}" for p, y in rows]
    (tmp_path / "f.csv").write_bytes("\n".join(["Güte;Gekündigt", *lines]).encode("cp1252"))
    columns = ("--score", "Güte", "--outcome", "Gekündigt", "--labels", "nein,ja", "--encoding", "cp1252")
    err = fail("report", tmp_path / "f.csv", *columns, *given)
    assert "leave the row out" not in err
    (command,) = proposed(err)
    assert estimates(*command)["brier"] == pytest.approx(BRIER)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_events_of_levels_are_not_outcomes(tmp_path, order):
    """A number of events that is named as the outcome leads to the counts, not to one number as the event."""
    levels = [("stated", (0.2, 0.5, 0.9)), ("correct", (10, 55, 170)), ("n", (50, 100, 200))]
    path = save(tmp_path / "f.csv", ",", *(levels[k] for k in order))
    (command,) = proposed(run("report", path, "--score", "stated", "--outcome", "correct")[2])
    assert command[2:] == ["--score", "stated", "--events", "correct", "--trials", "n"]
    assert run(*command)[0] == 0
