"""Thresholds by net benefit, in ``calibrant threshold``: the numbers are counted by hand, wrong use is an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibrant
from calibrant.errors import InputError
from calibrant.thresholds.benefit import WrongDecisions, benefit_of_thresholds
from tests import in_process

SCORES = ("visits.csv", "--score", "risk", "--outcome", "died")
COSTS = ("--cost-of-false-positive", "1", "--cost-of-false-negative", "9")


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    risk = rng.beta(0.7, 3, 1_500).round(3)
    frame = pd.DataFrame({"risk": risk, "died": (rng.random(1_500) < risk).astype(int)})
    frame["patient"], frame["weight"] = np.arange(1_500) // 3, rng.uniform(0.5, 2, 1_500)
    frame["ward"] = np.where(np.arange(1_500) % 2, "a", "b")
    frame.to_csv("visits.csv", index=False)


def run(*args: object) -> tuple[int, str, str]:
    """Certify thresholds, returning status, standard output and standard error, each in one line."""
    status, out, err = in_process.run("threshold", *args)
    return status, " ".join(out.split()), " ".join(err.split())


def summary(*args: object) -> dict[str, Any]:
    status, out, err = run(*args, "--json", "-")
    assert status == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def mean_cost(frame: pd.DataFrame, threshold: float, false_positive: float, false_negative: float) -> float:
    """Return the mean cost of a row, counted row by row."""
    treated = frame["risk"] >= threshold
    wrong = false_positive * (treated & (frame["died"] == 0)) + false_negative * (~treated & (frame["died"] == 1))
    return float(wrong.mean())


def test_costs_imply_the_threshold_and_what_it_saves() -> None:
    frame = pd.read_csv("visits.csv")
    numbers = summary(*SCORES, *COSTS)
    (chosen,) = numbers["chosen"]["thresholds"]
    assert chosen == pytest.approx(1 / (1 + 9))
    nobody, everyone, model = (mean_cost(frame, t, 1, 9) for t in (2.0, 0.0, 0.1))
    (benefit,), (of_everyone,) = numbers["chosen"]["net_benefit"], numbers["chosen"]["treat_all"]
    assert 9 * benefit == pytest.approx(nobody - model, abs=1e-12)
    assert 9 * of_everyone == pytest.approx(nobody - everyone, abs=1e-12)
    assert numbers["costs"] == {"false_positive": 1.0, "false_negative": 9.0}
    status, out, _ = run(*SCORES, *COSTS)
    assert status == 0
    assert "Treat the rows with score at least 0.1." in out
    assert f"this saves {nobody - model:.4f} per row" in out
    assert f"treating everyone saves {nobody - everyone:.4f}" in out
    assert f"{int((frame['risk'] >= 0.1).sum()):,} of 1,500 rows are treated" in out


def test_a_loss_is_said_to_cost_more() -> None:
    """The scores put rows without the event first, so that acting on them costs more than treating nobody."""
    rng = np.random.default_rng(0)
    p = rng.random(600)
    frame = pd.DataFrame({"risk": p, "died": (rng.random(600) < 0.3 * (1 - p)).astype(int)})
    frame.to_csv("visits.csv", index=False)
    nobody, everyone, model = (mean_cost(frame, t, 1, 1) for t in (2.0, 0.0, 0.5))
    costs = ("--cost-of-false-positive", "1", "--cost-of-false-negative", "1")
    numbers = summary(*SCORES, *costs)["chosen"]
    low, high = (-numbers[end][0] for end in ("highs", "lows"))
    _, out, _ = run(*SCORES, *costs)
    words = " ".join(out.split())
    assert model > nobody
    assert f"this costs {model - nobody:.4f} more per row (95 % CI {low:.4f} to {high:.4f})" in words
    assert f"treating everyone costs {everyone - nobody:.4f} more." in words


def test_only_the_ratio_of_the_costs_matters_for_the_threshold() -> None:
    assert WrongDecisions(2, 18).threshold == pytest.approx(WrongDecisions(1, 9).threshold)
    assert WrongDecisions(1, 1).threshold == 0.5


def test_for_calibrated_scores_no_other_threshold_costs_less() -> None:
    """The expected cost, with the score as the probability, is lowest at the threshold of the costs."""
    scores = np.arange(1, 1_000) / 1_000
    costs = WrongDecisions(3, 7)
    expected = [np.where(scores >= t, (1 - scores) * 3, scores * 7).mean() for t in (0.1, 0.2, costs.threshold, 0.4)]
    assert min(expected) == expected[2]


def test_listed_thresholds_have_the_numbers_of_net_benefit() -> None:
    frame = pd.read_csv("visits.csv")
    numbers = summary(*SCORES, "--thresholds", "0.05,12.5%,0.5")["chosen"]
    curve = calibrant.net_benefit(frame["risk"], frame["died"], thresholds=[0.05, 0.125, 0.5])
    for name in ("thresholds", "net_benefit", "lows", "highs", "treat_all", "treated"):
        assert numbers[name] == pytest.approx(getattr(curve, name).tolist()), name
    out = run(*SCORES, "--thresholds", "0.05,12.5%,0.99")[1]
    assert "0.125" in out
    assert "at the thresholds 0.05, 0.125." in out


def test_clusters_weights_and_sketches_reach_the_intervals() -> None:
    frame = pd.read_csv("visits.csv")
    clustered = summary(*SCORES, *COSTS, "--cluster", "patient")
    report = calibrant.evaluate(frame["risk"], frame["died"], clusters=frame["patient"], profile="clinical")
    place = list(report.panels["decision_curve"].thresholds.round(2)).index(0.1)
    assert clustered["chosen"]["lows"][0] == pytest.approx(report.panels["decision_curve"].lows[place])
    assert clustered["chosen"]["lows"] != summary(*SCORES, *COSTS)["chosen"]["lows"]
    weighted = summary(*SCORES, *COSTS, "--weight", "weight")["chosen"]["net_benefit"][0]
    curve = calibrant.net_benefit(frame["risk"], frame["died"], thresholds=[0.1], weights=frame["weight"])
    assert weighted == pytest.approx(curve.net_benefit[0])
    in_process.succeed("report", *SCORES, "--sketch", "visits.cal", "--quiet")
    of_sketch, of_rows = (summary(*data, "--thresholds", "0.1,0.5")["chosen"] for data in (("visits.cal",), SCORES))
    gap = np.abs(np.subtract(of_sketch["net_benefit"], of_rows["net_benefit"]))
    assert (gap <= np.array(of_sketch["error_bounds"]) + 1e-12).all()


def test_every_form_is_written() -> None:
    outputs = ("--html", "b.html", "--markdown", "b.md", "--png", "b.png", "--json", "b.json")
    assert run(*SCORES, *COSTS, *outputs)[0] == 0
    page = Path("b.html").read_text(encoding="utf-8")
    assert "Decision curve" in page
    assert "net-benefit.csv" in page
    assert Path("b.md").read_text(encoding="utf-8").startswith("## visits.csv")
    assert Path("b.png").stat().st_size > 10_000


@pytest.mark.every_value
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--thresholds", "0.5,0.1"), "pass increasing numbers above 0 and below 1"),
        (("--thresholds", "0.1,1.5"), "pass increasing numbers above 0 and below 1"),
        (("--thresholds", "0.1", *COSTS), "pass only one of the two"),
        (("--cost-of-false-positive", "1"), "belong together; pass both"),
        (("--cost-of-false-negative", "1"), "belong together; pass both"),
        (("--cost-of-false-positive", "0", "--cost-of-false-negative", "1"), "pass a cost above 0"),
        ((*COSTS, "--max-risk", "0.1"), "--max-risk does not work with --cost-of-false-positive"),
        (("--thresholds", "0.1", "--by", "ward"), "--by does not work with --thresholds"),
        ((*COSTS, "--cost-of-error", "3"), "--cost-of-error does not work with --cost-of-false-positive"),
    ],
)
def test_wrong_use_is_an_error(options: tuple[str, ...], words: str) -> None:
    status, _, err = run(*SCORES, *options)
    assert status == 2
    assert words in err


def test_several_classes_and_one_cost_are_an_error() -> None:
    with pytest.raises(InputError, match="several classes"):
        benefit_of_thresholds([[0.2, 0.8]] * 40, [0, 1] * 20, thresholds=[0.1])
    with pytest.raises(InputError, match="cost_of_false_negative"):
        benefit_of_thresholds([0.2, 0.8] * 40, [0, 1] * 40, cost_of_false_positive=1)


@pytest.mark.parametrize("cost", ["positive", "negative"])
def test_a_cost_beside_thresholds_is_refused(cost: str) -> None:
    status, _, err = run(*SCORES, "--thresholds", "0.1", f"--cost-of-false-{cost}", "2")
    assert status == 2
    assert f"--cost-of-false-{cost} implies a threshold" in err


def test_costs_without_a_threshold_are_refused() -> None:
    with pytest.raises(InputError, match="costs whose ratio is that of a threshold between 0 and 1"):
        benefit_of_thresholds([0.2, 0.8], [0, 1], cost_of_false_positive=1e-300, cost_of_false_negative=1e300)
