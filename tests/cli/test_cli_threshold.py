"""``calibrant threshold``: what it prints and writes, its exit status, sketches, clusters, groups, wrong use."""

from __future__ import annotations

import json
import re
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibrant
from tests.in_process import run, succeed

COLUMNS = ("--score", "confidence", "--outcome", "correct")


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    n = 2_000
    frame = pd.DataFrame({"question": np.arange(n) // 4, "confidence": rng.beta(6, 1, n).round(4)})
    frame["correct"] = (rng.random(n) < frame["confidence"]).astype(int)
    frame["model"] = np.where(np.arange(n) % 2, "a", "b")
    frame["hard"] = (rng.random(n) < 0.5).astype(int)
    frame["times"] = rng.integers(1, 3, n)
    frame.to_csv("answers.csv", index=False)
    risk = rng.beta(0.5, 1.5, n).round(4)
    pd.DataFrame({"risk": risk, "readmitted": (rng.random(n) < risk).astype(int)}).to_csv("visits.csv", index=False)


def certify(*options: object) -> tuple[int, str, str]:
    return run("threshold", "answers.csv", *COLUMNS, "--max-risk", "0.1", *options)


def summary(*args: object) -> dict[str, Any]:
    _, out, err = run("threshold", *args, "--json", "-")
    assert out, err
    found: dict[str, Any] = json.loads(out)
    return found


def test_a_negative_net_benefit_is_said_to_cost_more() -> None:
    costs = ("--cost-of-error", "100", "--cost-of-referral", "1")
    numbers = json.loads(certify(*costs, "--json", "-")[1])["costs"]["net_benefit"]
    assert numbers["value"] < 0
    text = " ".join(certify(*costs)[1].split())
    interval = f"(net benefit {numbers['value']:.4g}, 95 % CI {numbers['low']:.4g} to {numbers['high']:.4g})"
    assert f"automatic decisions cost {-numbers['value']:.4g} referrals more per row {interval}." in text


def test_it_prints_one_sentence_first_and_writes_every_form() -> None:
    outputs = ("--html", "t.html", "--json", "t.json", "--markdown", "t.md", "--png", "t.png", "--svg", "t.svg")
    status, out, err = certify(*outputs, "--by", "model", "--cost-of-error", "10", "--cost-of-referral", "1")
    assert status == 0, err
    frame = pd.read_csv("answers.csv")
    t = calibrant.certify_threshold(frame["confidence"], frame["correct"], max_risk=0.1)
    text = " ".join(out.split())
    groups = calibrant.certify_threshold(frame["confidence"], frame["correct"], max_risk=0.1, groups=frame["model"])
    reach = [
        f"{name} (score at least {part.rounded:.15g}, {100 * part.coverage:.3g} % of its cases)"
        for name, part in groups.by_group.items()
    ]
    assert f"2 of 2 groups have certified thresholds of their own: {', '.join(reach)}." in text
    assert "the error rate of each of them is at most 10 %, with 95 % confidence for all groups together" in text
    lacking = [name for name, part in groups.by_group.items() if part.value > t.value]
    common = f"The common threshold {t.rounded:.15g} is certified for all rows together, but not for "
    assert (common in text) == bool(lacking)
    assert 'An error is a case in which "correct = 1" is false.' in text
    assert "net benefit" in text
    numbers = json.loads(Path("t.json").read_text())
    assert (numbers["value"], numbers["coverage"], numbers["max_risk"]) == (t.value, t.coverage, 0.1)
    assert [part["name"] for part in numbers["by_group"]] == ["a", "b"]
    assert numbers["source"]["event"] == "correct = 1"
    assert "Cases can be automated in 2 of 2 groups" in Path("t.html").read_text()
    assert Path("t.md").read_text().startswith("## answers.csv")
    assert Path("t.png").stat().st_size > 10_000
    assert "<svg" in Path("t.svg").read_text()
    assert max(map(len, out.splitlines())) <= 80


def test_without_groups_the_first_sentence_is_about_all_rows() -> None:
    frame = pd.read_csv("answers.csv")
    t = calibrant.certify_threshold(frame["confidence"], frame["correct"], max_risk=0.1)
    status, out, _ = certify("--html", "t.html")
    text = " ".join(out.split())
    assert status == 0
    assert f"Automate the {100 * t.coverage:.3g} % of cases with score at least {t.rounded:.15g}: their error" in text
    assert f"error rate is at most 10 %, with 95 % confidence; observed {100 * t.risk:.3g} %." in text
    assert f"{100 * t.coverage:.3g} % of cases can be automated" in Path("t.html").read_text()


def test_the_verdict_of_groups_is_about_each_group() -> None:
    """The common threshold keeps the bound over all rows, but breaks it in the group of hard cases."""
    rng = np.random.default_rng(3)
    kind = rng.choice(["easy", "hard", "few"], 4_000, p=[0.75, 0.24, 0.01])
    confidence = rng.beta(6, 1, 4_000)
    truth = np.where(kind == "hard", confidence**3, confidence)
    t = calibrant.certify_threshold(confidence, rng.random(4_000) < truth, max_risk=0.1, groups=kind)
    assert t.value is not None
    verdict = " ".join(t.verdict())
    assert verdict.startswith("1 of 3 groups has a certified threshold of its own: easy (score at least ")
    assert "Without a certified threshold, refer all cases to a person: few (fewer than " in verdict
    hard, few = (t.common[name].risk for name in ("hard", "few"))
    assert t.common["easy"].risk < 0.1 < hard
    assert (
        f"but not for few (observed error rate {100 * few:.3g} %), hard (observed error rate {100 * hard:.3g} %)"
        in (verdict)
    )
    assert "Automate" not in verdict
    assert "Coverage" not in verdict


def test_no_threshold_is_a_result_with_status_4() -> None:
    for outputs in ((), ("--quiet",), ("--html", "t.html")):
        status, out, err = run("threshold", "answers.csv", "--score", "confidence", "--outcome", "hard", *outputs)
        assert (status, "Traceback" in err) == (4, False)
        if not outputs:
            assert "No threshold is certified to have an error rate of at most 5 %" in " ".join(out.split())
            assert "The number of rows that a threshold needs cannot be estimated" in " ".join(out.split())
    assert "No threshold is certified" in Path("t.html").read_text()
    assert run("threshold", "answers.csv", "--score", "confidence", "--outcome", "hard", "--by", "model")[0] == 4


def test_two_sides_act_refer_and_dismiss() -> None:
    given = ("visits.csv", "--score", "risk", "--outcome", "readmitted", "--yes-risk", "0.3", "--no-risk", "0.05")
    out, _ = succeed("threshold", *given)
    text = " ".join(out.split())
    numbers = summary(*given)
    yes, no = numbers["yes"], numbers["no"]
    assert f'Decide "no" for the {100 * no["coverage"]:.3g} % of cases with score at most {no["rounded"]:.15g}' in text
    assert f"Refer the other {100 * (1 - yes['coverage'] - no['coverage']):.3g} % of cases." in text
    assert "Each promise holds with 97.5 % confidence, so that both hold together with 95 % confidence." in text
    assert run("threshold", *given, "--html", "two.html", "--png", "two.png", "--quiet")[0] == 0
    assert "decisions" in Path("two.html").read_text()
    one = " ".join(run("threshold", *given[:-4], "--yes-risk", "0.001", "--no-risk", "0.1")[1:][0].split())
    assert one == ""  # fewer rows than a risk of 0.001 needs
    half = " ".join(run("threshold", *given[:-4], "--yes-risk", "0.01", "--no-risk", "0.1")[1].split())
    assert 'No threshold is certified for the decision "yes" with an error rate of at most 1 %.' in half
    assert "The promise holds with 97.5 % confidence." in half


def test_a_sketch_is_certified_and_its_threshold_is_that_of_the_table() -> None:
    assert run("report", "answers.csv", *COLUMNS, "--sketch", "answers.cal", "--cluster", "question", "--quiet")[0] == 0
    of_sketch = summary("answers.cal", "--max-risk", "0.1")
    frame = pd.read_csv("answers.csv")
    acted = frame["confidence"] >= of_sketch["value"]
    assert of_sketch["n_automatic"] == acted.sum()
    assert of_sketch["clusters"]["clusters"] == "more than 256"
    status, _, err = run("threshold", "answers.cal", "--max-risk", "0.1", "--method", "betting")
    assert (status, "a sketch pools the clusters" in " ".join(err.split())) == (1, True)


def test_clusters_weights_and_filters_reach_the_function() -> None:
    frame = pd.read_csv("answers.csv")
    for options, how in (
        (("--cluster", "question"), {"clusters": frame["question"]}),
        (("--cluster", "question", "--method", "betting"), {"clusters": frame["question"], "method": "betting"}),
        (("--method", "fixed-sequence", "--confidence", "0.9"), {"method": "fixed-sequence", "confidence": 0.9}),
        (("--weight", "times"), {"weights": frame["times"]}),
        (("--weight", "times", "--max-weight", "3"), {"weights": frame["times"], "max_weight": 3}),
        (("--cluster", "question", "--largest-cluster", "9"), {"clusters": frame["question"], "largest_cluster": 9}),
    ):
        expected = calibrant.certify_threshold(frame["confidence"], frame["correct"], max_risk=0.2, **how)
        found = summary("answers.csv", *COLUMNS, "--max-risk", "0.2", *options)
        assert (found["value"], found["coverage_low"]) == (expected.value, expected.coverage_low)
    part = frame[frame["model"] == "a"]
    expected = calibrant.certify_threshold(part["confidence"], part["correct"], max_risk=0.2)
    found = summary("answers.csv", *COLUMNS, "--max-risk", "0.2", "--where", "model = 'a'")
    assert (found["value"], found["n"]) == (expected.value, 1_000)


def test_classes_are_certified_by_their_confidence() -> None:
    rng = np.random.default_rng(0)
    probs = rng.dirichlet([0.3] * 3, 2_000)
    labels = ["xyz"[rng.choice(3, p=row)] for row in probs]
    pd.DataFrame(probs, columns=["p_x", "p_y", "p_z"]).assign(label=labels).to_csv("classes.csv", index=False)
    given = ("threshold", "classes.csv", "--probs", "p_*", "--target", "label", "--per-class", "--max-risk")
    out, _ = succeed(*given, "0.1")
    assert "own: x (confidence at least 0." in " ".join(out.split())
    _, out, _ = run(*given, "0.3")
    assert "own: x (all cases), y (all cases), z (all cases)." in " ".join(out.split())
    assert "common threshold" not in " ".join(out.split("Error rate by coverage")[0].split("Thresholds of")[0].split())
    assert "3 of 3 predicted classes have certified thresholds of their own" in " ".join(out.split())
    assert re.findall(r"^  ([xyz]) ", out, re.MULTILINE) == ["x", "y", "z"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--max-risk", "5"), "--max-risk: 5; pass a share above 0 and up to 0.5, such as 0.05 or 5%"),
        (("--max-risk", "0.7"), "--max-risk: 0.7; pass a share above 0 and up to 0.5, such as 0.05 or 5%"),
        (("--confidence", "95"), "--confidence: 95; pass a share from 0.5 to below 1, such as 0.95"),
        (("--yes-risk", "0.1"), "--yes-risk and --no-risk belong together"),
        (("--yes-risk", "0.1", "--no-risk", "0.1", "--max-risk", "0.1"), "--max-risk does not work with --yes-risk"),
        (("--yes-risk", "0.1", "--no-risk", "0.1", "--by", "model"), "--by does not work with --yes-risk"),
        (
            ("--yes-risk", "0.1", "--no-risk", "0.1", "--notion", "top-label"),
            "--notion top-label does not work with --yes-risk",
        ),
        (("--per-class", "--by", "model"), "--per-class and --by exclude each other"),
        (("--cost-of-error", "3"), "--cost-of-error and --cost-of-referral belong together"),
        (("--cost-of-error", "3", "--cost-of-referral", "4"), "pass a cost above 0 and below 3, the cost of an error"),
        (("--notion", "classwise"), "--notion: 'classwise'; choose from 'positive', 'top-label'"),
        (("--method", "holm"), "--method"),
        (("--largest-cluster", "5"), "--largest-cluster is for --cluster; pass --cluster too"),
        (("--max-weight", "5"), "--max-weight is for --weight; pass --weight too"),
        (("--max-weight", "0", "--weight", "w"), "--max-weight: 0; pass a weight, such as 20"),
        (
            ("--largest-cluster", "5", "--cluster", "c", "--method", "closed"),
            "--largest-cluster works only with --method betting; leave --method closed out",
        ),
        (("--html", "t.txt"), "name a file that ends in .html"),
    ],
)
def test_wrong_use_is_said_before_a_file_is_opened(options: tuple[str, ...], said: str) -> None:
    status, out, err = run("threshold", "none.csv", *options)
    assert (status, out) == (2, "")
    assert said in " ".join(err.split())


@pytest.mark.parametrize("wrong", ["--yes-risk", "--no-risk"])
def test_an_invalid_risk_is_not_a_missing_one(wrong: str) -> None:
    given = {"--yes-risk": "5%", "--no-risk": "5%", wrong: "40"}
    status, _, err = run("threshold", "none.csv", *chain(*given.items()))
    said = " ".join(err.split())
    assert (status, f"Invalid value for {wrong}: 40" in said, "belong together" in said) == (2, True, False)


def test_rare_events_lead_to_decisions_at_low_scores() -> None:
    """No error rate of "yes" is below the bound, and "no" is what can be decided."""
    rng = np.random.default_rng(5)
    p = rng.beta(1, 5, 3_000).round(4)
    pd.DataFrame({"p": p, "y": (rng.random(3_000) < p).astype(int), "fine": 1}).to_csv("rare.csv", index=False)
    said = "To automate cases with low scores (mostly non-events), pass --yes-risk and --no-risk"
    given = ("threshold", "rare.csv", "--score", "p", "--outcome")
    status, out, _ = run(*given, "y")
    assert (status, said in " ".join(out.split())) == (4, True)
    status, out, _ = run(*given, "y", "--yes-risk", "0.05", "--no-risk", "0.05")
    assert (status, said in " ".join(out.split())) == (0, False)
    assert 'The number of rows that a threshold of "yes" needs cannot be est' in " ".join(out.split())
