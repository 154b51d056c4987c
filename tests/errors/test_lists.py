"""A message prints a list of names once: what was expected, or what to choose from, but not both."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant import inference
from calibrant.errors import CalibrantError, meant

P = np.random.default_rng(0).random(60)
Y = (np.random.default_rng(1).random(60) < P).astype(int)
PROBS = np.random.default_rng(2).dirichlet(np.ones(3), 60)
TARGETS = np.arange(60) % 3
UNLIKE = "qqqqqq"  # no name is similar


def assert_no_list_twice(message: str) -> None:
    again = [pair for pair, times in Counter(_pairs(message)).items() if times > 1]
    assert again == [], message


def _pairs(message: str) -> list[tuple[str, str]]:
    """Neighbours in lists: words with a comma between them, in quotes or not, but for those of a line to type."""
    message = re.sub(r",? type: calibrant [^;]*", "", message)
    words = re.findall(r"[^\s,;]+,?", message)
    names = [word.strip("'\",()[]") for word in words]
    return [(names[k], names[k + 1]) for k in range(len(words) - 1) if words[k].endswith(",")]


def test_the_check_finds_lists_that_are_printed_twice() -> None:
    with pytest.raises(AssertionError):
        assert_no_list_twice("method: expected one of auto, cox, beta, got 'x'; choose from 'auto', 'cox', 'beta'")
    with pytest.raises(AssertionError):
        assert_no_list_twice("expected one of 'a', 'b', got 'x'; choose from 'a', 'b'")
    assert_no_list_twice("expected one of 'a', 'b', got 'x'; pass one of these")


#: Wrong names for every argument with a choice.
CALLS: dict[str, Callable[[Any], Any]] = {
    "evaluate notion": lambda x: calibrant.evaluate(P, Y, notion=x),
    "evaluate profile": lambda x: calibrant.evaluate(P, Y, measures=x),
    "evaluate measures": lambda x: calibrant.evaluate(P, Y, measures=[x]),
    "evaluate bands": lambda x: calibrant.evaluate(P, Y, bands=x),
    "evaluate weights": lambda x: calibrant.evaluate(P, Y, weights=np.ones(60), weights_are=x),
    "evaluate names": lambda x: calibrant.evaluate(PROBS, [x] * 60, class_names=["a", "b", "c"]),
    "evaluate tolerance": lambda x: calibrant.evaluate(P, Y, tolerance=0.1, tolerance_of=x),
    "compare sort_by": lambda x: calibrant.compare({"a": P, "b": P**2}, Y, sort_by=x),
    "compare sort_by that cannot": lambda _: calibrant.compare({"a": P, "b": P**2}, Y, sort_by="mean_gap"),
    "compare logits": lambda x: calibrant.compare({"a": P, "b": P**2}, Y, logits=[x]),
    "recalibrate method": lambda x: calibrant.recalibrate(P, Y, method=x),
    "recalibrate method of classes": lambda x: calibrant.recalibrate(PROBS, TARGETS, method=x),
    "recalibrate method of an event": lambda _: calibrant.recalibrate(P, Y, method="vector"),
    "recalibrate notion": lambda x: calibrant.recalibrate(P, Y, notion=x),
    "threshold method": lambda x: calibrant.certify_threshold(P, Y, method=x),
    "threshold notion": lambda x: calibrant.certify_threshold(P, Y, notion=x),
    "monitor notion": lambda x: calibrant.Monitor().update(P, Y, notion=x),
    "sketch grid": lambda x: calibrant.CalibrationSketch(grid=x),
    "sketch notion": lambda x: calibrant.CalibrationSketch(notion=x),
    "ece binning": lambda x: calibrant.expected_calibration_error(P, Y, binning=x),
    "ece closed": lambda x: calibrant.expected_calibration_error(P, Y, closed=x),
    "smooth method": lambda x: calibrant.smooth_calibration_error(P, Y, method=x),
    "smooth kernel": lambda x: calibrant.smooth_calibration_error(P, Y, kernel=x),
    "report measure": lambda x: calibrant.evaluate(P, Y, n_resamples=0)[x],
    "floor scores": lambda x: inference.noise_floor(500, scores=x),
}


@pytest.mark.every_value
@pytest.mark.parametrize("wrong", [UNLIKE, "positve", "isotnic", "", 3, None])
@pytest.mark.parametrize("call", CALLS)
def test_an_error_of_python_lists_names_once(call: str, wrong: Any) -> None:
    try:
        CALLS[call](wrong)
    except TypeError:
        assert wrong is not UNLIKE, "no such argument"
    except (CalibrantError, KeyError) as error:
        assert_no_list_twice(str(error))
    else:
        assert wrong is not UNLIKE


#: Wrong names for every option with a choice, and for columns.
LINES = (
    *(f"report a.csv --{option} WRONG" for option in ("notion", "profile", "measures", "bands", "engine", "timezone")),
    *(f"report a.csv --{option} WRONG" for option in ("weights-are", "score", "outcome", "by", "cluster", "weight")),
    *(
        "report a.csv --tolerance 0.1 --tolerance-of WRONG",
        "report a.csv --fail-if 'WRONG > 1'",
        "report a.csv --WRONG",
    ),
    *("report a.csv --probs WRONG", "report a.csv --target WRONG", "report a.csv --where 'WRONG = 1'"),
    *("compare a.csv --scores p,WRONG --outcome y", "compare a.csv --scores p,q --outcome y --sort-by WRONG"),
    *("compare a.csv --scores p,q --outcome WRONG", "compare a.csv --by WRONG", "compare a.csv a.csv --on WRONG"),
    *("recalibrate a.csv --method WRONG --score p --outcome y", "recalibrate a.csv --notion WRONG"),
    *("recalibrate a.csv --method vector --score p --outcome y", "recalibrate c.csv --method WRONG"),
    *("threshold a.csv --method WRONG", "threshold a.csv --notion WRONG", "monitor s.json a.csv --every WRONG"),
    *("monitor s.json a.csv --score p --outcome y --by g --groups WRONG", "completion WRONG", "WRONG", "WRONG a.csv"),
    *("report c.csv --labels WRONG,b", "report c.csv --class-names WRONG,b,c", "report a.csv --score p --outcome g"),
    *("report c.csv --question WRONG", "report d.jsonl --question WRONG", "merge a.csv --sketch x.cal"),
    *("report WRONG.csv", "report a.csv --target g --score p", "report names.csv", "apply a.csv a.csv -o b.csv"),
)


@pytest.mark.every_value
@pytest.mark.parametrize("line", LINES)
def test_an_error_of_the_command_lists_names_once(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    click = pytest.importorskip("click.testing", reason="the report extra is not installed")
    pytest.importorskip("duckdb", reason="the report extra is not installed")
    import shlex

    from calibrant.cli import main

    monkeypatch.chdir(tmp_path)
    rows = "\n".join(f"{p:.4f},{p**2:.4f},{y},{'ns'[y]}" for p, y in zip(P, Y, strict=True))
    Path("a.csv").write_text(f"p,q,y,g\n{rows}\n")
    Path("names.csv").write_text(f"prob_a,prob_b,w,target\n{rows}\n")
    table = "\n".join(",".join(map(str, [*map(float, p), "abc"[k]])) for p, k in zip(PROBS, TARGETS, strict=True))
    Path("c.csv").write_text(f"p_a,p_b,p_c,target\n{table}\n")
    Path("d.jsonl").write_text('{"answers": {"x": {"noul": 0.5}, "y": {"noul": 0.4}}, "labels": {"x": true}}\n' * 9)
    for wrong in (UNLIKE, "postive", "g2"):
        done = click.CliRunner().invoke(main, shlex.split(line.replace("WRONG", wrong)))
        if "WRONG" in line:
            assert done.exit_code in (1, 2), (line, done.output)
        assert_no_list_twice(done.stderr)


@pytest.mark.parametrize(
    ("name", "proposed"), [("new", ""), ("nn", "did you mean 'n'?"), ("ecee", "did you mean 'ece'?")]
)
def test_a_name_of_one_letter_is_meant_by_a_short_name_alone(name: str, proposed: str) -> None:
    assert meant(name, ["n", "ece"]) == proposed
