"""The command as a person meets it: what it prints, what it writes, how it ends."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import calibrant
from calibrant.measures.listed import of_profile
from calibrant.measures.profiles import STANDARD
from tests.in_process import fail, json_of, run, succeed
from tests.samples import draw

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits.parquet"
DATA = ROOT.parent / "shared" / "data"

#: Fewer replicates than by default, or none, where a test asks how the command ends and not how near its numbers are.
FEW, NONE = ("--n-resamples", "199"), ("--n-resamples", "0")

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the folder shared/data is not beside this checkout")


@pytest.fixture
def one_event(tmp_path: Path) -> Path:
    """A CSV file of one event, mildly miscalibrated."""
    score, outcome = draw(1, 400, lambda p: p**1.5, decimals=3)
    path = tmp_path / "games.csv"
    lines = [f"{s},{o},{i % 2}" for i, (s, o) in enumerate(zip(score, outcome, strict=True))]
    path.write_text("\n".join(["win,won,home", *lines]) + "\n")
    return path


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


# ---------------------------------------------------------------- the main job


def test_the_quickstart_shows_what_the_first_command_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    status, out, err = run("report", "examples/digits.parquet")
    assert (status, err) == (0, "")
    page = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```text\n\$ calibrant report examples/digits.parquet\n(.*?)^```", page, re.M | re.S)
    assert len(shown.splitlines()) > 10
    assert out.startswith(shown)


def test_the_readme_begins_with_its_two_commands() -> None:
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == 2
    assert "calibrant report examples/digits.parquet" in blocks[0]
    test_command = (
        'python3 -m venv .venv && .venv/bin/pip install -e ".[dev,torch]" -c constraints.txt && .venv/bin/pytest'
    )
    assert blocks[1].strip() == test_command
    assert "torch==2.13.0" in (ROOT / "constraints.txt").read_text()


def test_the_printed_numbers_are_the_measures(one_event: Path) -> None:
    every = [measure for measure in of_profile(STANDARD) if measure.name != "classwise_ece"]
    out, _ = succeed(
        "report", one_event, "--score", "win", "--outcome", "won", "--measures", ",".join(m.name for m in every)
    )
    table = np.genfromtxt(one_event, delimiter=",", skip_header=1)
    report = calibrant.evaluate(table[:, 0], table[:, 1])
    for measure in every:
        own, write = report[measure.name], "+z.4f" if measure.signed else "z.4f"
        label = report.descriptions[measure.name].label
        line = next(line for line in out.splitlines() if line.startswith(f"  {label:<21} "))
        shown = [f"{own.value:{write}}", f"{own.low:{write}} – {own.high:{write}}"]
        if own.floor is not None:
            p_value = f"{own.p_value:.3f}" if own.p_value >= 0.0005 else "< 0.001"
            p_value = f"≤ {p_value}" if own.p_value == 1 / 1001 else p_value  # no less can be told by 1,000 resamples
            shown += [f"{own.floor.mean:z.4f}  {own.floor.upper:z.4f}", p_value]
        assert line.removeprefix(f"  {label}").split() == " ".join(shown).split(), measure.label
    worst = report["mce"].details
    assert f"bin {worst['left']:.3f} to {worst['right']:.3f} with {worst['count']} rows" in " ".join(out.split())


def test_without_options_the_command_prints_what_print_does(one_event: Path) -> None:
    table = np.genfromtxt(one_event, delimiter=",", skip_header=1)
    out, _ = succeed("report", one_event, "--score", "win", "--outcome", "won")
    heads = f"{one_event}\n", "probs: win, targets: won\n"
    said = str(calibrant.evaluate(table[:, 0], table[:, 1])).replace("event: outcome = 1", "event: won = 1")
    assert out.replace(heads[0], "").replace(heads[1], "") == f"{said}\n"


def test_the_judged_event_is_named_by_its_column(tmp_path: Path) -> None:
    path, page, numbers = tmp_path / "churn.csv", tmp_path / "page.html", tmp_path / "out.json"
    rows = "\n".join(f"{k / 40:.3f},{'yes' if k % 3 else 'no'},{k % 2}" for k in range(40))
    path.write_text(f"score,churned,again\n{rows}\n", encoding="utf-8")
    for column, options, event in (
        ("churned", ["--labels", "no,yes"], "churned = yes"),
        ("again", [], "again = 1"),
    ):
        outputs = ["--html", page, "--json", numbers]
        out, _ = succeed("report", path, "--score", "score", "--outcome", column, *options, *outputs, *FEW)
        assert f"40 predictions (event: {event})\n" in out
        assert f"(event: {event})" in page.read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")
        assert json.loads(numbers.read_text(encoding="utf-8"))["source"]["event"] == event
    _, out, _ = run("report", DIGITS, "--json", "-", *FEW)
    assert json.loads(out)["source"]["event"] is None


def test_the_second_model_of_the_example_is_over_confident() -> None:
    out, _ = succeed("report", DIGITS, "--probs", "overconfident_*", *FEW)
    assert re.search(
        r"Over-confident: mean confidence 98\.9 %, accuracy 90\.7 % "
        r"\(difference \+8\.2 percentage points, 95 % CI \+6\.\d to \+9\.\d\)\.",
        " ".join(out.split()),
    )
    assert "overconfident_0 ... overconfident_9 (10 columns)" in out


def test_json_holds_every_number_and_is_strict(tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    out, _ = succeed("report", DIGITS, "--probs", "overconfident_*", "--json", target, *FEW)
    assert "Reliability diagram" in out

    def refuse(constant: str) -> None:
        pytest.fail(f"{constant} is not JSON")

    summary = json.loads(target.read_text(encoding="utf-8"), parse_constant=refuse)
    assert summary["schema_version"] == 7
    assert summary["test"]["details"]["leading"] == "mean"
    assert summary["decision"] is None
    assert len(summary["classwise"]["adjusted_p_values"]) == 10
    assert list(summary["estimates"]) == [measure.name for measure in of_profile(STANDARD)]
    assert summary["estimates"]["nll"]["value"] is None
    assert summary["not_finite"]["estimates.nll.value"] == "infinite: an observed outcome had predicted probability 0"
    assert summary["not_finite"]["diagram.confidences[0]"] == "the bin is empty"
    assert len(summary["diagram"]["edges"]) == 16
    assert sum(summary["diagram"]["counts"]) == summary["n"] == 1797
    assert len(summary["classwise"]["errors"]) == 10
    assert sum(summary["classwise"]["supports"]) == 1797
    assert summary["source"]["columns"]["targets"] == "target"


def test_json_to_standard_output_is_all_that_is_printed() -> None:
    out, _ = succeed("report", DIGITS, "--json", "-", *NONE)
    assert json.loads(out)["n"] == 1797


def test_options_reach_the_measures(one_event: Path) -> None:
    options = ("report", one_event, "--score", "win", "--outcome", "won", "--json", "-", *NONE)
    _, out, _ = run(*options, "--n-bins", 4, "--where", "home = 1")
    summary = json.loads(out)
    table = np.genfromtxt(one_event, delimiter=",", skip_header=1)
    home = table[table[:, 2] == 1]
    assert summary["n"] == 200
    assert summary["source"]["where"] == "home = 1"
    expected = calibrant.expected_calibration_error(home[:, 0], home[:, 1], 4)
    assert summary["estimates"]["ece"]["value"] == pytest.approx(expected, abs=1e-14)
    _, out, _ = run(*options, "--notion", "top-label")
    expected = calibrant.expected_calibration_error(table[:, 0], table[:, 1], notion="top-label")
    assert json.loads(out)["estimates"]["ece"]["value"] == pytest.approx(expected, abs=1e-14)
    _, out, _ = run(*options, "--weight", "home")
    expected = calibrant.expected_calibration_error(table[:, 0], table[:, 1], weights=table[:, 2])
    assert json.loads(out)["estimates"]["ece"]["value"] == pytest.approx(expected, abs=1e-14)


def test_logits_and_class_names(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    logits = rng.normal(size=(50, 3)).astype(np.float32)
    names = np.array(["cat", "dog", "eel"])
    targets = names[rng.integers(0, 3, 50)]
    np.savez(tmp_path / "a.npz", probs=logits, y=targets)
    options = ("--logits", "--class-names", "cat, dog, eel", "--json", "-", *FEW)
    out, _ = succeed("report", tmp_path / "a.npz", *options)
    expected = calibrant.evaluate(logits, targets, logits=True, class_names=list(names), n_resamples=199)
    assert json.loads(out)["estimates"] == json.loads(expected.to_json())["estimates"]
    assert json.loads(out)["classwise"]["names"] == ["cat", "dog", "eel"]


def test_groups_stand_below_the_whole(one_event: Path, tmp_path: Path) -> None:
    lines = one_event.read_text().splitlines()
    tail = [f"{line},{'abc'[i % 3]}" for i, line in enumerate(lines[1:])] + ["0.5,1,0,tiny"]
    one_event.write_text("\n".join([lines[0] + ",day", *tail]) + "\n")
    target = tmp_path / "report.json"
    options = ("--score", "win", "--outcome", "won", "--by", "day", "--json", target, *FEW)
    out, _ = succeed("report", one_event, *options)
    groups = json.loads(target.read_text("utf-8"))["groups"]
    assert [group["name"] for group in groups] == ["a", "b", "c", "tiny"]
    assert [group["report"]["n"] for group in groups] == [134, 133, 133, 1]
    assert groups[3]["flag"] == "fewer than 30 rows, too few for a test"
    assert groups[3]["adjusted_p_value"] is None
    table = np.genfromtxt(one_event, delimiter=",", skip_header=1, usecols=(0, 1))
    own = calibrant.evaluate(table[:400:3, 0], table[:400:3, 1], n_resamples=199)
    assert groups[0]["report"]["estimates"] == own.to_dict()["estimates"]
    row = next(line for line in out.splitlines() if line.startswith("  a "))
    assert f"{own['ece'].value:.4f}  {own['ece'].low:.4f} – {own['ece'].high:.4f}" in row
    assert ("*" in row) == groups[0]["called_out"]
    called = sum(group["called_out"] for group in groups)
    said = " ".join(out.split())
    assert " p adj.: one test that combines calibration in the large, the calibration slope and the ECE " in said
    assert f"* evidence of miscalibration after Holm correction: {called or 'none'} of 3 groups" in said


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("0.4,1,\n0.2,0,x\n", "row 1, column 'day' is empty (null)"),
        ("0.4,1,x\n0.2,0,\n", "row 2, column 'day' is empty (null)"),
    ],
)
def test_a_row_without_a_group_is_named(tmp_path: Path, content: str, message: str) -> None:
    path = write(tmp_path / "games.csv", "win,won,day\n" + content)
    assert message in fail("report", path, "--score", "win", "--outcome", "won", "--by", "day")


def test_a_group_column_that_is_not_there(one_event: Path) -> None:
    err = fail("report", one_event, "--score", "win", "--outcome", "won", "--by", "hime")
    assert "--by" in err
    assert "did you mean 'home'?" in err


def test_level_and_resamples_reach_the_report(one_event: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    options = ("--score", "win", "--outcome", "won", "--level", "0.8", "--n-resamples", "99", "--rng", "7")
    _, out, _ = run("report", one_event, *options, "--json", target)
    table = np.genfromtxt(one_event, delimiter=",", skip_header=1)
    own = calibrant.evaluate(table[:, 0], table[:, 1], level=0.8, n_resamples=99, rng=7)
    assert json.loads(target.read_text("utf-8"))["estimates"] == own.to_dict()["estimates"]
    assert "80 % CI" in out


def test_the_noise_floor_needs_no_data() -> None:
    out, _ = succeed("floor", "--n", 500, "--bins", 15)
    found = calibrant.inference.noise_floor(500, 15)
    floor = found.floors["ece"]
    row = next(line for line in out.splitlines() if line.startswith("  ECE "))
    assert row.split()[1:3] == [f"{floor.mean:.4f}", f"{floor.upper:.4f}"]
    summary = json_of("floor", "--n", 500, "--level", "0.9")
    assert summary["laws"]["uniform"]["floors"]["ece"]["mean"] == floor.mean
    assert summary["laws"]["uniform"]["floors"]["ece"]["upper"] < floor.upper
    rows = found.rows_for(0.01)
    assert summary["laws"]["uniform"]["rows_for_ece_of_0.01"] == rows
    assert (summary["n"], summary["prove"]) == (500, None)
    # E0 of uniform scores, sqrt(2 / pi) sum sqrt(v_b) / N = .0386 sqrt(1000 / N): .01 at about 14,900 rows.
    assert 13_500 < rows < 16_500


@pytest.mark.slow
def test_rows_to_prove_need_no_data(tmp_path: Path) -> None:
    target = tmp_path / "floor.json"
    status, out, err = run("floor", "--prove", 0.02, "--json", target)
    assert (status, err) == (0, "")
    rows = {law: calibrant.inference.rows_to_prove(0.02, scores=law) for law in ("uniform", "confident", "rare")}
    said = " ".join(out.split())
    listed = ", ".join(f"{n:,} ({law})" for law, n in rows.items())
    assert f"to show that the ECE of a perfectly calibrated model is below 0.02: {listed}." in said
    assert "With that many rows, the upper 95 % confidence bound is below 0.02 in 80 % of samples." in said
    assert "noise" not in said
    assert "Noise floors" not in said
    summary = json.loads(target.read_text("utf-8"))
    assert {law: found["rows_to_prove"] for law, found in summary["laws"].items()} == rows
    assert (summary["n"], summary["prove"], summary["measures"]) == (None, 0.02, {})
    assert "floors" not in summary["laws"]["rare"]
    options = ("--bins", 5, "--level", 0.9, "--rng", 3, "--n", 500, "--n-resamples", 99)
    both = run("floor", "--prove", 0.05, "--json", target, *options)[1]
    assert run("floor", *options)[1].rstrip("\n") in both
    assert both.count("uniform: scores uniform on [0, 1]") == 1
    rows = {law: found["rows_to_prove"] for law, found in json.loads(target.read_text("utf-8"))["laws"].items()}
    assert rows["rare"] == calibrant.inference.rows_to_prove(0.05, 5, scores="rare", level=0.9, rng=3)
    assert ", ".join(f"{n:,} ({law})" for law, n in rows.items()) in " ".join(both.split())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "name the number of predictions, such as --n 500, or the largest acceptable ECE, such as --prove 0.02"),
        (("--prove", "1"), "Invalid value for --prove: 1; pass the largest acceptable error, such as 0.02"),
        (("--prove", "0"), "Invalid value for --prove: 0; pass the largest acceptable error"),
        (("--prove", "two"), "'two' is not a number or a percentage"),
        (("--prove", "0.02", "--level", "95"), "95; pass a share from 0.5 to below 1"),
    ],
)
def test_wrong_usage_of_the_floor(options: tuple[str, ...], words: str) -> None:
    status, out, err = run("floor", *options)
    assert (status, out) == (2, "")
    assert words in " ".join(err.split())


# ---------------------------------------------------------------- conditions and exit statuses


@pytest.mark.parametrize(
    ("condition", "status"),
    [
        ("ece > 0.05", 3),
        ("ece > 0.07", 0),
        ("n < 1797", 0),
        ("n <= 1797", 3),
        ("accuracy<0.97", 3),
        ("ece != ece", 2),
        ("ece.value > 0.05", 3),
        ("ece.low > 0.05", 3),
        ("ece.low>0.06", 0),
        (" ece.high >= 0.08 ", 0),
        ("ece.high >= 0.07", 3),
        ("ece.p_value < 0.01", 3),
        ("mean_gap < -6e-2", 3),
        ("test.p_value < 0.01", 3),
        ("test.p_value > 0.01", 0),
        ("groups.any(ece.low > 0.05)", 1),  # without --by there are no groups
    ],
)
def test_fail_if(condition: str, status: int) -> None:
    assert run("report", DIGITS, "--fail-if", condition, *NONE)[0] == status


def test_fail_if_names_the_measure_and_its_value(tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    conditions = ("--fail-if", "ece > 0.05", "--fail-if", "brier > 9", "--fail-if", "smece>0")
    status, out, err = run("report", DIGITS, *conditions, "--json", target, *FEW)
    assert status == 3
    assert "Reliability diagram" in out
    summary = json.loads(target.read_text("utf-8"))["estimates"]
    shown = {
        name: f"{one['value']:.6g} (95 % CI {one['low']:.6g} to {one['high']:.6g}, "
        f"calibrated: below {one['floor']['upper']:.6g})"
        for name, one in summary.items()
        if one["floor"] is not None
    }
    upper = f"{summary['smece']['floor']['upper']:.4f}"
    assert err.splitlines() == [
        f"calibrant: --fail-if 'ece > 0.05' holds: ece is {shown['ece']}",
        f"calibrant: --fail-if 'smece>0' holds: smece is {shown['smece']}",
        f"calibrant: --fail-if 'smece>0': the condition may be true by chance, because a perfectly calibrated model "
        f"has smece up to {upper} in 95 % of samples of 1,797 rows; "
        "write 'smece.low > 0' to require evidence",
    ]


def test_fail_if_shows_value_interval_and_floor_of_any_number(tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    conditions = ["ece.low > 0.05", "test.p_value < 0.01", "n > 1", "accuracy > 0.9"]
    options = [word for one in conditions for word in ("--fail-if", one)]
    err = fail("report", DIGITS, *options, "--json", target, *FEW, status=3)
    summary = json.loads(target.read_text("utf-8"))
    ece, accuracy = summary["estimates"]["ece"], summary["estimates"]["accuracy"]
    assert err.splitlines() == [
        f"calibrant: --fail-if 'ece.low > 0.05' holds: ece.low is {ece['low']:.6g} (value {ece['value']:.6g}, 95 % "
        f"CI {ece['low']:.6g} to {ece['high']:.6g}, calibrated: below {ece['floor']['upper']:.6g})",
        f"calibrant: --fail-if 'test.p_value < 0.01' holds: test.p_value is {summary['test']['p_value']:.6g}",
        "calibrant: --fail-if 'n > 1' holds: n is 1797",
        f"calibrant: --fail-if 'accuracy > 0.9' holds: accuracy is {accuracy['value']:.6g} (95 % CI "
        f"{accuracy['low']:.6g} to {accuracy['high']:.6g})",
    ]


def test_a_plain_bound_that_noise_alone_reaches_is_warned_about_though_it_does_not_hold(tmp_path: Path) -> None:
    """A calibrated model of 200 rows: the ECE is below .1 here, and above it in one of three such samples."""
    rng = np.random.default_rng(3)
    p = rng.random(200)
    path = write(
        tmp_path / "a.csv", "\n".join(["p,y", *(f"{a},{int(b)}" for a, b in zip(p, rng.random(200) < p, strict=True))])
    )
    columns = ("report", path, "--score", "p", "--outcome", "y", *FEW)
    report = calibrant.evaluate(*np.genfromtxt(path, delimiter=",", skip_header=1).T, n_resamples=199)
    floor = report["ece"].floor
    assert floor is not None
    bound = round((report["ece"].value + floor.upper) / 2, 4)
    assert report["ece"].value < bound < floor.upper
    for operator in (">", ">="):
        _, err = succeed(*columns, "--fail-if", f"ece {operator} {bound}")
        assert err == (
            f"calibrant: --fail-if 'ece {operator} {bound}': the condition may be true by chance, because a perfectly "
            f"calibrated model has ece up to {floor.upper:.4f} in 95 % of samples of 200 rows; "
            f"write 'ece.low {operator} {bound:g}' to require evidence\n"
        )
    above = round(floor.upper + 0.01, 4)
    for silent in (f"ece > {above}", f"ece.low > {bound}", f"ece < {bound / 2}", "ece.p_value > 1", "accuracy > 1"):
        assert run(*columns, "--fail-if", silent)[2] == "", silent


@pytest.fixture
def wards(tmp_path: Path) -> Path:
    """Four groups of one event: two calibrated, one with scores that are far too low, one of ten rows."""
    rng = np.random.default_rng(5)
    lines = ["risk,back,ward"]
    for ward, n, factor in (("a", 400, 1.0), ("b", 400, 1.0), ("c", 400, 3.0), ("few", 10, 1.0)):
        p = rng.beta(2, 8, n)
        odds = factor * p / (1 - p)
        happened = rng.random(n) < odds / (1 + odds)
        lines += [f"{a:.4f},{int(y)},{ward}" for a, y in zip(p, happened, strict=True)]
    return write(tmp_path / "wards.csv", "\n".join(lines) + "\n")


def test_fail_if_of_groups(wards: Path) -> None:
    columns = ("report", wards, "--score", "risk", "--outcome", "back", "--by", "ward", *NONE)
    groups = {group["name"]: group for group in json.loads(run(*columns, "--json", "-")[1])["groups"]}
    assert [name for name, group in groups.items() if group["called_out"]] == ["c"]
    low, adjusted = groups["c"]["ece"]["low"], groups["c"]["adjusted_p_value"]
    for condition, status, message in (
        ("groups.any(ece.low > 0.05)", 3, f"ece.low of 1 of 4 groups: c ({low:.6g})"),
        ("groups.any( test.p_value<0.01 )", 3, f"test.p_value of 1 of 4 groups: c ({adjusted:.6g})"),
        ("groups.any(n < 20)", 3, "n of 1 of 4 groups: few (10)"),
        ("groups.any(n > 0)", 3, "n of 4 of 4 groups: c (400), a (400), b (400) and 1 more"),
        ("groups.any(ece.low > 0.5)", 0, ""),
        ("groups.any(test.p_value < 1e-300)", 0, ""),
    ):
        found, out, err = run(*columns, "--fail-if", condition)
        assert found == status
        assert "Groups" in out
        assert err == (f"calibrant: --fail-if {condition!r} holds: {message}\n" if message else "")


def test_the_p_value_of_groups_is_that_after_the_correction(wards: Path) -> None:
    """Forty calibrated groups: one of them has a p-value below .05 by itself, and a condition must not fail for it."""
    columns = ("report", wards, "--score", "risk", "--outcome", "back", "--by", "ward", *NONE)
    groups = json.loads(run(*columns, "--json", "-")[1])["groups"]
    a = next(group for group in groups if group["name"] == "a")
    between = (a["p_value"] + a["adjusted_p_value"]) / 2
    assert a["p_value"] < between < a["adjusted_p_value"]
    _, _, err = run(*columns, "--fail-if", f"groups.any(test.p_value < {between})")
    assert "groups: c (" in err
    assert "a (" not in err


def test_a_plain_bound_on_groups_is_warned_about(wards: Path) -> None:
    columns = ("report", wards, "--score", "risk", "--outcome", "back", "--by", "ward", *NONE)
    groups = json.loads(run(*columns, "--json", "-")[1])["groups"]
    upper = max(group["ece"]["floor"]["upper"] for group in groups)
    status, _, err = run(*columns, "--fail-if", "groups.any(ece > 0.9)")
    assert (status, err) == (0, "")
    err = fail(*columns, "--fail-if", "groups.any(ece > 0.12)", status=3)
    assert err.splitlines()[1] == (
        "calibrant: --fail-if 'groups.any(ece > 0.12)': the condition may be true by chance, because a perfectly "
        f"calibrated model has ece up to {upper:.4f} in 95 % of samples in 1 of 4 groups: few; "
        "write 'groups.any(ece.low > 0.12)' to require evidence"
    )


def test_a_condition_on_groups_needs_groups_and_numbers(wards: Path) -> None:
    columns = ("report", wards, "--score", "risk", "--outcome", "back", *NONE)
    status, out, err = run(*columns, "--fail-if", "groups.any(ece.low > 0.05)")
    assert status == 1
    assert "Reliability diagram" in out
    assert err == (
        "calibrant: --fail-if 'groups.any(ece.low > 0.05)': the data have no groups; name the "
        "column of the groups with --by\n"
    )
    err = fail(*columns, "--by", "ward", "--fail-if", "groups.any(classwise_ece > 0)")
    assert "classwise_ece has no value in any group (only one event is evaluated, not classes)" in err
    err = fail(*columns, "--by", "ward", "--where", "ward = 'few'", "--fail-if", "groups.any(test.p_value < 1)")
    assert "test.p_value has no value in any group (fewer than 30 rows, too few for a test)" in err


def test_a_condition_on_a_measure_that_is_not_shown_is_wrong_usage(one_event: Path) -> None:
    columns = ("report", one_event, "--score", "win", "--outcome", "won", "--measures", "ks")
    for condition in ("ece.low > 0.1", "groups.any(ece > 0.1)"):
        err = fail(*columns, "--fail-if", condition, status=2)
        assert f"--fail-if {condition!r}: --measures leaves ece out; add the measure to that list" in err
    assert run(*columns, "--fail-if", "test.p_value > 1", "--fail-if", "n < 1", "--fail-if", "ks.low > 1")[0] == 0


# ---------------------------------------------------------------- the gate


@pytest.fixture
def events(tmp_path: Path) -> dict[str, tuple[object, ...]]:
    """The arguments of a report on calibrated scores, and on scores that are far too high."""
    p, y = draw(8, 1_500)
    high, low, higher = np.clip(p + 0.15, 0, 1), np.clip(p - 0.02, 0, 1), np.clip(p + 0.25, 0, 1)
    lines = [",".join(map(str, row)) for row in zip(p, high, low, higher, y, strict=True)]
    path = write(tmp_path / "events.csv", "\n".join(["p,high,low,higher,y", *lines]) + "\n")
    return {name: ("report", path, "--score", name, "--outcome", "y", *FEW) for name in ("p", "high", "low")}


def test_the_gate_fails_where_the_verdict_rejects(events: dict[str, tuple[object, ...]], tmp_path: Path) -> None:
    assert run(*events["p"], "--gate")[::2] == (0, "")
    target = tmp_path / "report.json"
    status, out, err = run(*events["high"], "--gate", "--json", target)
    assert status == 3
    assert "Reliability diagram" in out
    codes = [finding["code"] for finding in json.loads(target.read_text("utf-8"))["findings"]]
    assert codes[:2] == ["impossible-outcomes", "miscalibrated"]  # a score of 1 without the event
    assert err == "calibrant: --gate: Evidence of miscalibration (p = 0).\n"
    assert err.count("\n") == 1
    assert run(*events["high"])[0] == 0, "without --gate a report is a report"


@pytest.mark.parametrize(
    ("name", "tolerance", "status", "words"),
    [
        ("p", "0.2", 0, ""),
        ("high", "0.5", 0, ""),
        ("high", "0.05", 3, "--gate: ECE exceeds the tolerance of 0.05: lower 95 % confidence bound 0.1"),
        (
            "p",
            "0.02",
            4,
            "--gate: Inconclusive for a tolerance of 0.02: 95 % confidence bounds 0.000 and 0.0",
        ),
        ("p", "0.001", 4, "--gate: Inconclusive for a tolerance of 0.001: 95 % confidence bounds 0.000"),
    ],
)
def test_the_gate_with_a_tolerance_asks_for_the_decision(
    events: dict[str, tuple[object, ...]], tmp_path: Path, name: str, tolerance: str, status: int, words: str
) -> None:
    found, _, err = run(*events[name], "--tolerance", tolerance, "--gate")
    assert found == status
    assert words in err
    assert err.count("\n") == (status != 0)
    target = tmp_path / "report.json"
    alone = run(*events[name], "--tolerance", tolerance, "--json", target)
    assert alone[::2] == (0, ""), "a tolerance alone is no gate"
    state = {0: "proven", 3: "disproven", 4: "open"}[status]
    assert json.loads(target.read_text("utf-8"))["decision"]["state"] == state


def test_the_gate_is_about_the_measure_of_the_tolerance(events: dict[str, tuple[object, ...]]) -> None:
    """Two points too low: the RMSCE of 1,500 rows may be four points, the mean gap is not."""
    tolerance = (*events["low"], "--tolerance", "0.042", "--gate", "--tolerance-of")
    assert run(*tolerance, "mean_gap")[0] == 0
    assert "--gate: Inconclusive for a tolerance of 0.042: " in fail(*tolerance, "rmsce", status=4)


@pytest.mark.parametrize(
    ("options", "status"),
    [
        (("--tolerance", "0.001", "--fail-if", "ece.low > 0.9"), 4),
        (("--tolerance", "0.001", "--fail-if", "n > 1"), 3),
        (("--tolerance", "0.2", "--fail-if", "n > 1"), 3),
        (("--fail-if", "n > 1"), 3),
        (("--fail-if", "n < 1"), 0),
    ],
)
def test_a_condition_that_holds_comes_before_what_is_open(
    events: dict[str, tuple[object, ...]], options: tuple[str, ...], status: int
) -> None:
    found, _, err = run(*events["p"], "--gate", *options)
    assert found == status
    assert ("--fail-if 'n > 1' holds" in err) == ("n > 1" in options)


def test_bad_data_and_wrong_usage_come_before_the_gate(events: dict[str, tuple[object, ...]], tmp_path: Path) -> None:
    bad = write(tmp_path / "bad.csv", "p,y\n0.5,1\n1.5,0\n")
    assert run("report", bad, "--score", "p", "--outcome", "y", "--gate")[0] == 1
    assert run(*events["high"], "--gate", "--fail-if", "groups.any(n > 1)")[0] == 1
    for options, words in (
        (("--tolerance", "1"), "1; pass the largest acceptable error, such as 0.02"),
        (("--tolerance", "0"), "0; pass the largest acceptable error, such as 0.02"),
        (("--tolerance", "-0.1"), "-0.1; pass the largest acceptable error, such as 0.02"),
        (("--tolerance", "two"), "'two' is not a number or a percentage"),
        (("--tolerance", "0.1", "--tolerance-of", "brier"), "'brier'; choose from 'ece', 'smece', 'rmsce', 'mean_gap'"),
        (("--tolerance", "0.1", "--tolerance-of", "ECE"), "'ECE'; did you mean 'ece'?"),
        (("--tolerance-of", "smece"), "--tolerance-of works only with --tolerance; pass --tolerance too"),
    ):
        status, out, err = run(*events["p"], *options, "--gate")
        assert (status, out) == (2, "")
        assert words in err


def test_a_gate_of_single_classes_takes_the_ece_alone() -> None:
    status, out, err = run("report", DIGITS, "--notion", "classwise", "--tolerance", "0.02", "--tolerance-of", "smece")
    assert (status, out) == (2, "")
    assert (
        "--tolerance-of smece: with --notion classwise, a tolerance is available only for the ECE; "
        "leave --tolerance-of out"
    ) in err
    assert run("report", DIGITS, "--notion", "classwise", "--tolerance", "0.2", "--gate", *FEW)[0] == 0


def test_a_sketch_has_a_gate_too(events: dict[str, tuple[object, ...]], tmp_path: Path) -> None:
    run(*events["high"], "--sketch", tmp_path / "high.cal")
    assert run("report", tmp_path / "high.cal", "--gate", *FEW)[0] == 3
    assert run("report", tmp_path / "high.cal", "--gate", "--tolerance", "0.5", *FEW)[0] == 0
    assert run("report", tmp_path / "high.cal", "--gate", *NONE)[0] == 3


@pytest.mark.parametrize(
    ("scores", "options", "status", "words"),
    [
        ("p,high", (), 3, "--gate: p is better calibrated than high (p < 0.001): its squared calibration error is"),
        ("high,p", (), 0, ""),
        ("p,low", (), 0, ""),
        ("higher,p,high", (), 0, ""),  # high is worse than p, and neither is worse than the first
        ("higher,p,high", ("--tolerance", "0.02"), 0, ""),
        ("p,low,high", (), 3, "--gate: p is better calibrated than high"),
        (
            "p,high",
            ("--tolerance", "0.02"),
            3,
            "--gate: The ECE of high minus the ECE of p exceeds the tolerance of 0.02: lower 95 % confidence bound +0.",
        ),
        ("p,high", ("--tolerance", "0.5"), 0, ""),
        (
            "p,low",
            ("--tolerance", "0.001"),
            4,
            "--gate: Inconclusive for a tolerance of 0.001: 95 % confidence bounds -0.",
        ),
        (
            "p,low,high",
            ("--tolerance", "0.02"),
            3,
            "--gate: Inconclusive for a tolerance of 0.02: 95 % confidence bounds ",
        ),
        ("low,p", ("--tolerance", "0.2"), 0, ""),
    ],
)
def test_the_gate_of_a_comparison_asks_whether_a_model_is_worse_than_the_first(
    events: dict[str, tuple[object, ...]], scores: str, options: tuple[str, ...], status: int, words: str
) -> None:
    found, out, err = run("compare", events["p"][1], "--scores", scores, "--outcome", "y", *options, "--gate")
    assert found == status, err
    assert words in err
    assert re.search(r"evidence\s+of\s+miscalibration", out)
    assert (err == "") == (status == 0)
    assert run("compare", events["p"][1], "--scores", scores, "--outcome", "y", *options)[::2] == (0, "")


def test_wrong_usage_of_the_gate_of_a_comparison(events: dict[str, tuple[object, ...]]) -> None:
    models = ("compare", events["p"][1], "--scores", "p,high", "--outcome", "y", "--gate")
    assert "2; pass the largest acceptable error, such as 0.02" in fail(*models, "--tolerance", "2", status=2)
    assert run("compare", events["p"][1], "--scores", "p,y2", "--outcome", "y", "--gate")[0] == 1


def test_an_infinite_measure_fails_its_condition() -> None:
    assert run("report", DIGITS, "--probs", "overconfident_*", "--fail-if", "nll > 5", *NONE)[0] == 3


def test_a_condition_on_what_cannot_be_had_is_an_error(one_event: Path) -> None:
    err = fail("report", one_event, "--score", "win", "--outcome", "won", "--fail-if", "classwise_ece > 1")
    assert "classwise_ece has no value (only one event is evaluated, not classes)" in err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--fail-if", "eces > 0.1"], "there is no measure 'eces'; did you mean 'ece'?"),
        (
            ["--fail-if", "ece"],
            "'ece' is not a condition; put the condition in quotes, such as --fail-if 'ece > 0.05', because the",
        ),
        (["--fail-if", "ece > five"], "'five' is not a number; write 'ece > 0.05'"),
        (["--fail-if", "ece > nan"], "'nan' is not a number"),
        (["--fail-if", "ece.mean > 0.1"], "'ece' has no value 'mean'; the values of ece are value, low, high, p_value"),
        (["--fail-if", "eces.low > 0.1"], "there is no measure 'eces'; did you mean 'ece'?"),
        (["--fail-if", "n.low > 5"], "'n' has no value 'low'; n is a single number"),
        (["--fail-if", "test < 0.01"], "'test' is not a number; write 'test.p_value < 0.01'"),
        (["--fail-if", "test.low < 0.01"], "'test' has no value 'low'; the values of test are p_value"),
        (["--fail-if", "groups.any(eces > 1)"], "there is no measure 'eces'"),
        (
            ["--fail-if", "groups.all(ece > 1)"],
            "is not a condition; write a condition such as 'ece > 0.05', 'ece.low > 0.03',",
        ),
        (["--fail-if", "groups.any(ece > 1"], "or 'groups.any(ece.low > 0.05)'"),
        (["--fail-if", "ece > 0.1)"], "'ece > 0.1)' is not a condition; write a condition such as"),
        (["--fail-if", "ece > 5 percent"], "'ece > 5 percent' is not a condition; write a condition such as"),
        (
            ["--fail-if", "groups.any(ece)"],
            "'groups.any(ece)' is not a condition; put the condition in quotes, such as --fail-if",
        ),
        (["--notion", "toplabel"], "did you mean 'top-label'?"),
        (["--n-bins", "0"], "0 bins; pass 1 or more"),
        (["--n-bins", "many"], "not a valid integer"),
        (["--score", "a", "--probs", "b"], "pass only one of the two options"),
        (["--outcome", "a", "--target", "b"], "pass only one of the two options"),
        (["--level", "95"], "95; pass a share from 0.5 to below 1, such as 0.95"),
        (["--n-resamples", "-1"], "-1; pass 0 or more"),
        (["--rng", "-1"], "-1; pass 0 or more"),
        (["--nosuch"], "No such option"),
    ],
)
def test_wrong_usage_ends_with_2(args: list[str], words: str) -> None:
    status, out, err = run("report", DIGITS, *args)
    assert (status, out) == (2, "")
    assert words in err


def test_no_file_is_wrong_usage() -> None:
    assert run("report")[0] == 2


# ---------------------------------------------------------------- bad data: one line, status 1


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            "s,y\n0.5,1\n0.5,0.5\n0.5,0\n",
            [],
            "row 2, column 'y': expected outcomes 0 or 1, got 0.5 in 1 row; for ties as a class of their own",
        ),
        (
            "s,y\n50,1\n90,0\n",
            [],
            "row 1, column 's': expected values in [0, 1], got 50; if the scores are percentages, type: ",
        ),
        (
            "s,y\n0.5,1\n-0.2,0\n",
            [],
            "row 2, column 's': expected values in [0, 1], got -0.2; pass --logits if they are logits",
        ),
        ("s,y\n0.5,1\nnan,0\n", [], "row 2, column 's': expected finite numbers, got nan"),
        (
            "s,y\n0.5,1\n0.5,0\n",
            ["--weight", "y", "--where", "y = 0"],
            "column 'y': expected at least one above 0",
        ),
    ],
)
def test_bad_data_names_file_row_and_remedy(tmp_path: Path, text: str, options: list[str], message: str) -> None:
    path = write(tmp_path / "bad.csv", text)
    status, out, err = run("report", path, "--score", "s", "--outcome", "y", *options)
    assert (status, out) == (1, "")
    assert err.count("\n") == 1
    assert err.startswith(f"calibrant: {path}: ")
    assert message in err


def test_rows_are_counted_in_the_file_also_under_where(tmp_path: Path) -> None:
    path = write(tmp_path / "bad.csv", "s,y,k\n" + "0.5,1,0\n" * 10 + "0.5,0.5,1\n" + "0.5,1,1\n" * 2)
    _, _, err = run("report", path, "--score", "s", "--outcome", "y", "--where", "k = 1")
    assert "row 11, column 'y'" in err
    assert run(*shlex.split(err.rpartition(": calibrant ")[2]))[0] == 0


def test_a_class_column_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "bad.csv", "p_0,p_1,t\n0.5,0.5,1\n0.5,1.5,0\n")
    _, _, err = run("report", path, "--probs", "p_*", "--target", "t")
    assert "row 2, column 'p_1': expected values in [0, 1], got 1.5" in err
    path = write(tmp_path / "sum.csv", "p_0,p_1,t\n0.5,0.5,1\n0.5,0.7,0\n")
    _, _, err = run("report", path, "--probs", "p_*", "--target", "t")
    assert "row 2, column 'p_0, p_1 (2 columns)': expected rows that sum to 1" in err
    assert "pass --logits if they are logits, or --notion multilabel" in err


def test_an_output_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    status, out, err = run("report", DIGITS, "--json", tmp_path / "folder")
    assert status == 1
    assert "Reliability diagram" in out
    assert err == f"calibrant: {tmp_path / 'folder'}: cannot be written (Is a directory); check the path and the disk\n"


def test_a_file_that_is_not_there() -> None:
    status, out, err = run("report", "nosuch.parquet")
    assert (status, out) == (1, "")
    assert err == "calibrant: nosuch.parquet: no such file; check the name and the working directory\n"


# ---------------------------------------------------------------- the terminal


def in_terminal(*args: str, first: str = "pass") -> tuple[int, str]:
    """Run the command with a terminal as its standard output and error."""
    import pty  # POSIX only

    keeper, terminal = pty.openpty()
    command = [
        sys.executable,
        "-c",
        f"from calibrant import cli; from calibrant.cli import output\n{first}\ncli.main(prog_name='calibrant')",
        *args,
    ]
    environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8"}
    process = subprocess.Popen(command, stdout=terminal, stderr=terminal, stdin=terminal, env=environment)
    os.close(terminal)
    shown = b""
    while True:
        try:
            part = os.read(keeper, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(keeper)
    return process.wait(), shown.decode()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are POSIX")
def test_a_bar_is_shown_only_when_the_work_takes_its_time() -> None:
    for patience, shows in ((0.0, True), (60.0, False)):
        status, shown = in_terminal("report", str(DIGITS), first=f"output._PATIENCE = {patience}")
        assert status == 0
        assert ("evaluating" in shown) == shows
        assert "Reliability diagram" in shown


SLOWLY = """
import time; from calibrant.files import stored; output._PATIENCE = 0.0; read = stored.ParquetTable.batches
def slowly(self, selection):
    for batch in read(self, selection):
        for part in (batch[:1000], batch[1000:]):
            yield part
            time.sleep(0.5)
stored.ParquetTable.batches = slowly
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are POSIX")
def test_the_bar_tells_rows_a_second_and_headings_are_bold() -> None:
    status, shown = in_terminal("report", str(DIGITS), *NONE, first=SLOWLY)
    assert status == 0
    assert re.search(r"reading.* 1,000 rows, [\d,]+ a second", shown)
    assert "\x1b[1mReliability diagram\x1b[0m" in shown


def test_a_terminal_without_unicode_gets_ascii() -> None:
    command = [sys.executable, "-m", "calibrant", "report", str(DIGITS), "--n-resamples", "0"]
    done = subprocess.run(command, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}, check=True)
    assert "###" in done.stdout.decode("ascii")


def test_version_and_help() -> None:
    assert run("--version")[1] == f"calibrant {calibrant.__version__}\n"
    out, _ = succeed("report", "--help")
    assert "calibrant report games.csv --score win_prob" in out
    assert "Exit status: 0; 1 unusable data" in out


# ---------------------------------------------------------------- real files


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize(
    ("name", "options", "ece"),
    [
        ("nba_games.csv", ["--score", "prob1", "--outcome", "prob1_outcome"], None),
        (
            "mlb_games.csv",
            ["--score", "prob1", "--outcome", "prob1_outcome", "--where", "prob1_outcome IN (0, 1)"],
            None,
        ),
        ("governors_elections.csv", ["--score", "probwin", "--outcome", "probwin_outcome"], None),
        ("precip_niamey_2016.csv", ["--score", "EMOS", "--outcome", "obs"], None),
        ("wideresnet-16-4-cifar-10.npz", [], 0.0537163),
        ("densenet-bc-100-cifar-100.npz", [], None),
    ],
)
def test_every_real_file_gives_a_report(name: str, options: list[str], ece: float | None) -> None:
    status, out, err = run("report", DATA / name, *options, "--json", "-")
    hints = {
        "governors_elections.csv": "'candidate' identifies units with several rows each",
        "mlb_games.csv": "'season', 'team1', 'team2' together identify units with several rows each",
    }
    hint = hints.get(name, "")
    assert (status, bool(err)) == (0, bool(hint))
    assert hint in err
    summary = json.loads(out)
    if ece is not None:
        assert summary["estimates"]["ece"]["value"] == pytest.approx(ece, abs=5e-8)
        assert summary["estimates"]["smece"]["value"] == pytest.approx(0.0537163, abs=5e-8)


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize(
    ("name", "options", "clusters", "many", "verdicts"),
    [
        ("nba_games.csv", ["--score", "prob1", "--outcome", "prob1_outcome"], ["date"], 1_436, (True, True)),
        (
            "mlb_games.csv",
            ["--score", "prob1", "--outcome", "prob1_outcome", "--where", "prob1_outcome IN (0, 1)"],
            ["date"],
            1_319,
            (False, False),
        ),
        # Many forecasts of one race: the rows alone seem to prove what a hundred races do not.
        (
            "governors_elections.csv",
            ["--score", "probwin", "--outcome", "probwin_outcome"],
            ["state", "year"],
            109,
            (True, False),
        ),
        ("precip_niamey_2016.csv", ["--score", "EMOS", "--outcome", "obs"], ["week(date)"], 14, (False, False)),
    ],
)
def test_real_files_with_and_without_clusters(
    name: str, options: list[str], clusters: list[str], many: int, verdicts: tuple[bool, bool]
) -> None:
    given = [word for column in clusters for word in ("--cluster", column)]
    plain, by_cluster = (
        json.loads(run("report", DATA / name, *options, *more, "--json", "-")[1]) for more in ([], given)
    )
    assert plain["clusters"] is None
    assert by_cluster["clusters"]["clusters"] == many
    assert by_cluster["estimates"]["ece"]["value"] == plain["estimates"]["ece"]["value"]
    assert tuple(report["test"]["p_value"] <= 0.05 for report in (plain, by_cluster)) == verdicts


@needs_data
def test_the_baseball_file_names_its_row_and_the_remedy() -> None:
    path = DATA / "mlb_games.csv"
    err = fail("report", path, "--score", "prob1", "--outcome", "prob1_outcome")
    assert err == (
        f"calibrant: {path}: row 13,375, column 'prob1_outcome': expected outcomes 0 or 1, got 0.5 in 1 row; "
        "for ties as a class of their own, pass the probabilities of all results with --probs; if '1' is the event "
        f"and the ties (1) are left out, type: calibrant report {path} --score prob1 --outcome prob1_outcome "
        "--labels 0,1 --where 'prob1_outcome IN (0, 1)'\n"
    )


# ---------------------------------------------------------------- per cents


def test_per_cents_are_read_by_an_explicit_option(tmp_path: Path) -> None:
    said = [(0, 0), (100, 1), (85, 1), (85, 0), (100, 0), (0, 1), (40, 0), (70, 1)]
    texts, fractions = tmp_path / "answers.jsonl", tmp_path / "fractions.jsonl"
    write(texts, "".join(json.dumps({"confidence": f"{c}%", "correct": bool(y)}) + "\n" for c, y in said))
    write(fractions, "".join(json.dumps({"confidence": c / 100, "correct": bool(y)}) + "\n" for c, y in said))
    status, out, err = run("report", texts, "--percent", "--n-bins", 5)
    assert (status, err) == (0, "")
    assert out.splitlines()[2] == "probs: confidence in percent, targets: correct"
    ours, theirs = (run("report", *args, "--json", "-")[1] for args in ((texts, "--percent"), (fractions,)))
    assert json.loads(ours)["estimates"] == json.loads(theirs)["estimates"]
    assert json.loads(ours)["source"]["columns"]["probs"] == "confidence in percent"
    # Claims of 0 and of 1 count: of the 8 rows each of these has two, one of them wrong.
    estimates = json.loads(ours)["estimates"]
    assert estimates["ece"]["n"] == 8
    # 15 bins: the claims 0, 1, .85, .4, .7 are each alone in one.
    gaps = [abs(sum(c / 100 - y for c, y in said if c == claim)) for claim in (0, 100, 85, 40, 70)]
    assert estimates["ece"]["value"] == pytest.approx(sum(gaps) / 8, abs=1e-15)


@pytest.mark.parametrize("command", ["report", "compare"])
def test_per_cents_without_the_option_are_refused_and_it_is_proposed(tmp_path: Path, command: str) -> None:
    models = ["--outcome", "won", *(["--scores", "old,new"] if command == "compare" else ["--score", "old"])]
    texts = write(tmp_path / "texts.csv", "old,new,won\n0.4,0.5,1\n85%,0.7,0\n")
    err = fail(command, texts, *models)
    assert "row 2, column 'old': '85%' is not a number; if the scores are percentages, type: calibrant" in err
    numbers = write(tmp_path / "numbers.csv", "old,new,won\n40,50,1\n85,70,0\n")
    err = fail(command, numbers, *models)
    assert "row 1, column 'old': expected values in [0, 1], got 40; if the scores are percentages, type: " in err
    assert err.endswith(" --percent\n")
    assert run(command, numbers, *models, "--percent")[0] == 0


def test_models_in_per_cent_are_compared_like_their_fractions(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    old, new = rng.integers(0, 101, (2, 60))
    won = rng.integers(0, 2, 60)
    rows = list(zip(old.tolist(), new.tolist(), won.tolist(), strict=True))
    texts = write(tmp_path / "texts.csv", "old,new,won\n" + "".join(f"{a}%,{b} %,{y}\n" for a, b, y in rows))
    plain = write(tmp_path / "plain.csv", "old,new,won\n" + "".join(f"{a / 100},{b / 100},{y}\n" for a, b, y in rows))
    models = ["--scores", "old,new", "--outcome", "won"]
    ours = json.loads(run("compare", texts, *models, "--percent", "--json", "-")[1])
    theirs = json.loads(run("compare", plain, *models, "--json", "-")[1])
    assert (ours["models"], ours["pairs"]) == (theirs["models"], theirs["pairs"])
    assert "models: old in percent, new in percent" in run("compare", texts, *models, "--percent")[1]


@pytest.mark.parametrize("command", ["report", "compare"])
def test_logits_in_per_cent_are_wrong_usage(one_event: Path, command: str) -> None:
    models = ["--scores", "win,home"] if command == "compare" else []
    err = fail(command, one_event, *models, "--logits", "--percent", status=2)
    assert "--logits and --percent exclude each other; pass only one of them" in err
