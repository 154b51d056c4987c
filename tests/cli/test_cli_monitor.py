"""``calibrant monitor``: slices, periods, settings, outputs, exit status, two commands at once, wrong use."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibrant
from calibrant.files import reading
from tests.in_process import fail, run
from tests.samples import draw, sketch_of

COLUMNS = ("--score", "p", "--outcome", "y")


def week(number: int, change: int = 6, n: int = 500) -> pd.DataFrame:
    """Return the rows of one week, which are calibrated before a change."""
    p, y = draw(number, n, lambda p: p if number < change else p**1.7, decimals=3)
    day = pd.Timestamp("2026-01-05") + pd.to_timedelta(7 * number + np.arange(n) % 7, unit="D")
    return pd.DataFrame({"p": p, "y": y, "day": day, "ward": np.where(np.arange(n) % 2, "a", "b")})


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for number in range(10):
        week(number).to_csv(f"week{number}.csv", index=False)
    pd.concat(map(week, range(10))).to_csv("all.csv", index=False)


def watch(*args: object) -> tuple[int, str, str]:
    return run("monitor", "state.json", *args)


def numbers(*args: object) -> dict[str, Any]:
    _, out, err = watch(*args, "--json", "-")
    assert out, err
    found: dict[str, Any] = json.loads(out)
    return found


def test_week_after_week_until_an_alarm() -> None:
    statuses = []
    for number in range(10):
        status, _, err = watch(f"week{number}.csv", *COLUMNS, "--quiet", "--since-onset", "window.cal")
        statuses.append(status)
        assert Path("window.cal").exists() == (status == 3), err
    first = statuses.index(3)
    assert statuses == [0] * first + [3] * (10 - first)
    assert 6 <= first <= 9
    same = calibrant.Monitor()
    for number in range(10):
        frame = week(number)
        same.update(frame["p"], frame["y"], label=f"week{number}")
    assert calibrant.Monitor.from_json("state.json").to_dict() == same.to_dict()
    status, out, _ = watch()
    assert status == 3
    assert "week6" in out or "week7" in out
    sketch = calibrant.CalibrationSketch.load("window.cal")
    assert sketch.n % 500 == 0
    assert run("recalibrate", "window.cal", "--map", "map.json", "--quiet")[0] == 0


def test_the_state_is_named_first() -> None:
    status, _, err = run("monitor")
    assert (status, "Name the file of the state, such as state.json." in " ".join(err.split())) == (2, True)


def test_a_group_that_stands_out_ends_with_status_3() -> None:
    for number in range(6):
        frame = week(number, 99)
        p = frame["p"].to_numpy()
        frame.loc[frame["ward"] == "a", "y"] = (np.random.default_rng(number).random(500) < p**3)[::2].astype(int)
        frame.to_csv(f"week{number}.csv", index=False)
        status, out, _ = watch(f"week{number}.csv", *COLUMNS, "--by", "ward")
    assert status == 3
    assert "event: y = 1" in out
    assert calibrant.Monitor.from_json("state.json").called_out == ["a"]


def test_a_label_is_used_once_and_the_state_stays() -> None:
    watch("week0.csv", *COLUMNS, "--label", "2026-W02")
    before = Path("state.json").read_bytes()
    status, out, err = watch("week1.csv", *COLUMNS, "--label", "2026-W02")
    assert (status, out) == (1, "")
    said = "pass a new label (--label); for late rows of this slice, pass for example '2026-W02, late'"
    assert said in " ".join(err.split())
    assert Path("state.json").read_bytes() == before
    assert watch("week1.csv", *COLUMNS, "--label", "2026-W02, late", "--quiet")[0] == 0


def test_partitions_are_in_the_labels_and_several_files_have_the_first_and_the_last() -> None:
    for number in range(4):
        Path(f"at/day={number}/at.hour=1").mkdir(parents=True)
        week(number).to_csv(f"at/day={number}/at.hour=1/part-0.csv", index=False)
    given = (*COLUMNS, "--quiet")
    labels = []
    for files, label in (
        (["at/day=0/at.hour=1/part-0.csv"], "day=0/at.hour=1/part-0"),
        (["at/day=1/at.hour=1/part-0.csv"], "day=1/at.hour=1/part-0"),
        (["at/day=2"], "day=2"),
        (["at/day=3/at.hour=1/"], "day=3/at.hour=1"),
        (["week5.csv", "week6.csv"], "week5 … week6"),
        (["week[789].csv"], "week7 … week9"),
        (["week[4].csv"], "week4"),
    ):
        assert watch(*files, *given)[0] in (0, 3)
        labels.append(label)
        assert calibrant.Monitor.from_json("state.json").labels == labels


@pytest.mark.parametrize("first", ["day", "week", "month"])
@pytest.mark.parametrize("later", ["day", "week", "month"])
def test_rows_of_a_period_count_once(first: str, later: str) -> None:
    given = ("all.csv", *COLUMNS, "--time", "day", "--quiet")
    watch(*given, "--every", first)
    before = Path("state.json").read_bytes()
    status, _, err = watch(*given, "--every", later)
    said = " ".join(err.split())
    expected = (
        r"already has a slice '(2026-\S+)' that overlaps the period '2026-\S+'; pass the same --every as for slice '\1'"
    )
    assert (re.search(expected, said) is not None) == (first != later)
    assert (status == 1) == (first != later)
    assert Path("state.json").read_bytes() == before
    pd.concat(map(week, range(60, 64))).to_csv("later.csv", index=False)  # another year
    assert watch("later.csv", *given[1:], "--every", later)[0] in (0, 3)


def test_a_slice_without_the_groups_of_the_first_one_is_refused() -> None:
    watch("week0.csv", *COLUMNS, "--by", "ward", "--quiet")
    before = Path("state.json").read_bytes()
    for given, said in (
        ((), "--by: expected the group of each row, as in the first slice, got none; pass groups= (--by)"),
        (("--time", "day"), "state.json: was begun with --by, which does not work with --time; leave --time out"),
    ):
        status, _, err = watch("week1.csv", *COLUMNS, *given)
        assert (status, said in " ".join(err.split())) == (1, True)
        assert Path("state.json").read_bytes() == before
    assert watch("week1.csv", *COLUMNS, "--by", "ward", "--quiet")[0] == 0


def test_the_next_command_names_the_file_that_was_written() -> None:
    for number in range(9):
        watch(f"week{number}.csv", *COLUMNS, "--quiet")
    write, command = "Pass --since-onset window.cal", "Next: calibrant recalibrate {} --map new_map.json"
    out = watch()[1]
    assert write in out
    assert command.format("window.cal") in out
    out = watch("--since-onset", "my drift.cal", "--html", "page.html")[1]
    for text in (out, Path("page.html").read_text("utf-8").replace("&#39;", "'").replace("&#x27;", "'")):
        assert command.format("'my drift.cal'") in text
        assert write not in text
    Path("map.json").write_text("in use")
    args = shlex.split(re.search("Next: calibrant (.*)", out)[1])
    assert run(*args)[0] == 0
    assert Path("map.json").read_text() == "in use"


def test_periods_of_a_column_become_slices_and_known_ones_are_left_out() -> None:
    status, _, err = watch("all.csv", *COLUMNS, "--time", "day", "--quiet")
    assert status == 3, err
    found = calibrant.Monitor.from_json("state.json")
    assert found.labels == [f"2026-W{number:02d}" for number in range(2, 12)]
    pd.concat(map(week, range(11))).to_csv("all.csv", index=False)
    _, _, err = watch("all.csv", *COLUMNS, "--time", "day")
    assert "10 periods up to 2026-W11 are in the state already and are not added again" in " ".join(err.split())
    assert calibrant.Monitor.from_json("state.json").labels[-1] == "2026-W12"
    assert run("monitor", "days.json", "all.csv", *COLUMNS, "--time", "day", "--every", "day", "--quiet")[0] in (0, 3)
    assert calibrant.Monitor.from_json("days.json").labels[0] == "2026-01-05"
    run("monitor", "months.json", "all.csv", *COLUMNS, "--time", "day", "--every", "month", "--quiet")
    assert calibrant.Monitor.from_json("months.json").labels[:2] == ["2026-01", "2026-02"]


@pytest.mark.parametrize("every", ["day", "week", "month"])
@pytest.mark.parametrize(
    ("column", "said"),
    [("p", "--time 'p' contains numbers such as "), ("none", "--time 'none': there is no column 'none'")],
)
def test_an_error_about_periods_names_time(column: str, every: str, said: str) -> None:
    status, _, err = watch("week0.csv", *COLUMNS, "--time", column, "--every", every)
    assert status == 1
    assert said in " ".join(err.split())
    assert not any(word in err for word in ("--by", "week(", "month(", "strftime(p"))
    assert not Path("state.json").exists()


def test_an_empty_period_names_time() -> None:
    frame = week(0).astype({"day": str})
    frame.loc[3, "day"] = None
    frame.to_csv("empty.csv", index=False)
    status, _, err = watch("empty.csv", *COLUMNS, "--time", "day")
    said = " ".join(err.split())
    assert "row 4, column 'day' is empty (null); fill the cell, or leave such rows out with --where" in said
    assert "(day) IS NOT NULL" in said
    assert status == 1


def test_groups_are_declared_with_rows_or_without() -> None:
    frame = week(0)
    frame[frame["ward"] == "a"].to_csv("a.csv", index=False)
    frame[frame["ward"] == "b"].to_csv("b.csv", index=False)
    given = (*COLUMNS, "--by", "ward", "--quiet")
    assert watch("a.csv", *given, "--groups", "a,b")[0] == 0
    assert watch("b.csv", *given, "--groups", "b,a")[0] == 0
    assert calibrant.Monitor.from_json("state.json").groups == ["a", "b"]
    status, _, err = watch("week1.csv", *given, "--groups", "a")
    assert status == 1
    assert "was started with groups (a, b) that differ from --groups" in " ".join(err.split())
    assert run("monitor", "other.json", "a.csv", *given)[0] == 0
    err = fail("monitor", "other.json", "b.csv", *given)
    assert "expected the declared groups (a), got 'b'; begin a new monitor" in " ".join(err.split())


def test_a_file_that_is_added_again_is_noted() -> None:
    watch("week0.csv", *COLUMNS, "--label", "one", "--quiet")
    status, out, _ = watch("week0.csv", *COLUMNS, "--label", "two")
    assert status == 0
    assert "Caution: the slices one, two contain identical rows." in " ".join(out.split())


def test_a_period_without_labels_waits() -> None:
    frame = pd.concat(map(week, range(3)))
    frame.loc[frame["day"] >= "2026-01-19", "y"] = -1
    frame.to_csv("open.csv", index=False)
    given = ("open.csv", *COLUMNS, "--time", "day", "--ignore-index", "-1", "--quiet")
    assert watch(*given)[0] == 0
    assert calibrant.Monitor.from_json("state.json").labels == ["2026-W02", "2026-W03"]


def test_sketches_groups_and_clusters_feed_it() -> None:
    run("report", "week0.csv", *COLUMNS, "--sketch", "week0.cal", "--quiet")
    watch("week0.cal", "--quiet")
    frame = week(0)
    same = calibrant.Monitor()
    sketch = sketch_of(frame["p"].to_numpy(), frame["y"].to_numpy())
    same.update(sketch, label="week0")
    assert calibrant.Monitor.from_json("state.json").log_e == pytest.approx(same.log_e, rel=1e-9)
    found = run("monitor", "g.json", "week7.csv", *COLUMNS, "--by", "ward", "--cluster", "day", "--json", "-")[1]
    assert [group["name"] for group in json.loads(found)["groups"]] == ["a", "b"]


def test_settings_belong_to_the_state() -> None:
    settings = ("--alpha", "0.1", "--tolerance-odds", "1.2")
    assert numbers("week0.csv", *COLUMNS, *settings)["tolerance_odds"] == 1.2
    assert watch("week1.csv", *COLUMNS, *settings, "--quiet")[0] == 0
    status, _, err = watch("week2.csv", *COLUMNS, "--alpha", "0.05")
    assert (status, "was started with --alpha 0.1, not 0.05" in err) == (1, True)
    status, _, err = watch("week2.csv", *COLUMNS, "--tolerance", "0.05")
    assert (status, "was started without --tolerance" in err) == (1, True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--score q --outcome y", "is read with the score 'q', but earlier slices have 'p'; name the same column with"),
        (
            "--score p --outcome z",
            "is read with the event 'z = 1', but earlier slices have 'y = 1'; name the same",
        ),
        ("--score p --outcome word --labels no,yes", "is read with the event 'word = yes', but earlier slices have"),
    ],
)
def test_a_slice_with_another_score_or_event_is_refused(options: str, said: str) -> None:
    frame = week(1).assign(q=0.5, z=0)
    frame.assign(word=frame["y"].map({0: "no", 1: "yes"})).to_csv("more.csv", index=False)
    assert watch("week0.csv", *COLUMNS)[0] == 0
    before = Path("state.json").read_bytes()
    status, _, err = watch("more.csv", *options.split())
    assert (status, said in " ".join(err.split())) == (1, True), err
    assert Path("state.json").read_bytes() == before
    assert run("report", "more.csv", *COLUMNS, "--sketch", "more.cal", "--quiet")[0] == 0
    assert watch("more.cal")[0] == 0  # a sketch does not name its columns
    week(2).assign(p=100 * week(2)["p"]).to_csv("percent.csv", index=False)
    status, out, err = watch("percent.csv", *COLUMNS, "--percent")
    assert (status, "3 slices, 1,500 rows (event: y = 1)" in out) == (0, True), err
    assert "(event: y = 1)" in watch()[1]  # the state names it


@pytest.mark.parametrize("most", [reading.MOST_ROWS, 100])  # 100: the rows become a sketch
def test_slices_with_another_overround_have_the_same_scores(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_ROWS", most)
    rng = np.random.default_rng(1)
    for number in range(2):
        probs = rng.dirichlet([3, 2, 2], 300 + number)
        table = pd.DataFrame(1 / probs / (1.05 + number / 20), columns=["H", "D", "A"])
        table.assign(won=[rng.choice(list("HDA"), p=row) for row in probs]).to_csv(f"odds{number}.csv", index=False)
    read = ("--probs", "H,D,A", "--target", "won", "--labels", "H,D,A", "--odds", "decimal")
    for number in range(2):
        status, _, err = watch(f"odds{number}.csv", *read)
        assert status in (0, 3), err
    status, _, err = watch("odds1.csv", *read, "--label", "more", "--probs", "D,H,A")
    assert (status, "is read with the score 'D, H, A', but earlier slices have 'H, D, A'" in err) == (1, True), err


def test_the_promise_of_a_threshold_is_watched() -> None:
    run("threshold", "week0.csv", *COLUMNS, "--max-risk", "0.4", "--json", "threshold.json")
    for number in range(3):
        found = numbers(f"week{number}.csv", *COLUMNS, "--threshold", "threshold.json")
    (promise,) = found["promises"]
    value = json.loads(Path("threshold.json").read_text())["value"]
    assert promise["value"] == value
    assert promise["n_automatic"] == sum((week(number)["p"] >= value).sum() for number in range(3))
    Path("other.json").write_text("{}")
    Path("list.json").write_text("[1]")
    for name, said in (
        ("other.json", "expected a result that contains a certified threshold"),
        ("none.json", "none.json: no such file; did you mean"),
        ("0.63", "0.63: no such file; name the JSON file that calibrant threshold --json wrote"),
        ("list.json", "is not a threshold file of calibrant"),
    ):
        status, _, err = watch("week5.csv", *COLUMNS, "--threshold", name)
        assert (status, said in " ".join(err.split())) == (1, True)


def test_thresholds_of_groups_are_watched_by_group_or_refused() -> None:
    run("threshold", "week0.csv", *COLUMNS, "--by", "ward", "--max-risk", "0.45", "--json", "threshold.json")
    stored = json.loads(Path("threshold.json").read_text())
    values = {part["name"]: part["value"] for part in stored["by_group"]}
    assert None not in values.values()
    status, _, err = watch("week1.csv", *COLUMNS, "--threshold", "threshold.json")
    assert status == 1
    assert "--by: expected the groups of the threshold" in err
    assert not Path("state.json").exists()
    found = numbers("week1.csv", *COLUMNS, "--by", "ward", "--threshold", "threshold.json")
    frame = pd.read_csv("week1.csv")
    for part in found["promises"]:
        value, of = (values[part["group"]], frame.ward == part["group"]) if part["group"] else (stored["value"], True)
        assert part["n_automatic"] == (of & (frame.p >= value)).sum()
    assert [part["group"] for part in found["promises"]] == ["", "a", "b"]
    _, out, _ = watch("week2.csv", *COLUMNS, "--by", "ward")
    assert "in group b" in out


def test_every_output_is_written() -> None:
    watch("week0.csv", *COLUMNS, "--quiet")
    outputs = ("--html", "h.html", "--json", "h.json", "--markdown", "h.md", "--png", "h.png", "--svg", "h.svg")
    status, _, err = watch("week1.csv", *COLUMNS, *outputs, "--prometheus", "h.prom", "--quiet")
    assert (status, err) == (0, "")
    assert json.loads(Path("h.json").read_text())["slices"][1]["label"] == "week1"
    assert "calibrant_monitor_evidence" in Path("h.prom").read_text()
    assert "week1" in Path("h.html").read_text()
    assert "week1" in Path("h.md").read_text()
    assert Path("h.png").stat().st_size > 5_000
    assert "<svg" in Path("h.svg").read_text()


@pytest.mark.slow
def test_two_commands_at_once_lose_no_slice() -> None:
    command = [sys.executable, "-m", "calibrant", "monitor", "state.json"]
    running = [
        subprocess.Popen([*command, f"week{number}.csv", *COLUMNS, "--quiet"], stderr=subprocess.PIPE, text=True)
        for number in range(6)
    ]
    for each in running:
        _, err = each.communicate(timeout=120)
        assert each.returncode in (0, 3), err
    assert sorted(calibrant.Monitor.from_json("state.json").labels) == [f"week{number}" for number in range(6)]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("state.txt", "week0.csv"), "STATE: 'state.txt'; name the file of the state first, such as state.json"),
        (("none/state.json", "week0.csv"), "the folder 'none' does not exist"),
        (("state.json", "week0.csv", "--alpha", "0.6"), "--alpha: 0.6; pass a probability above 0 and up to 0.5"),
        (
            ("state.json", "week0.csv", "--tolerance", "0.1", "--tolerance-odds", "1.1"),
            "--tolerance and --tolerance-odds",
        ),
        (("state.json", "week0.csv", "--tolerance-odds", "1"), "--tolerance-odds: 1; pass a factor above 1"),
        (("state.json", "week0.csv", "--time", "day", "--by", "ward"), "--by does not work with --time"),
        (("state.json", "week0.csv", "--time", "day", "--label", "x"), "--label does not work with --time"),
        (("state.json", "--threshold", "t.json"), "--threshold describes a slice; name the file of the slice too"),
        (("state.json", "--alpha", "0.1"), "--alpha describes a slice; name the file of the slice too"),
        (("state.json", "--label", "x"), "--label describes a slice; name the file of the slice too"),
        (("state.json", "week0.csv", "--since-onset", "window.csv"), "name a file that ends in .cal"),
        (("state.json", "week0.csv", "--prometheus", "x.txt"), "name a file that ends in .prom"),
    ],
)
def test_wrong_use_is_said(args: tuple[str, ...], said: str) -> None:
    status, out, err = run("monitor", *args)
    assert (status, out) == (2, "")
    assert said in " ".join(err.split())


def test_a_state_that_is_missing_or_damaged_is_refused_and_left() -> None:
    status, _, err = watch()
    assert (status, "state.json: does not exist; name a file with the first slice" in " ".join(err.split())) == (
        1,
        True,
    )
    watch("week0.csv", *COLUMNS, "--quiet")
    whole = Path("state.json").read_bytes()
    for damaged in (whole[:-20], whole.replace(b"week0", b"week9"), b"{}", b""):
        Path("state.json").write_bytes(damaged)
        for args in ((), ("week1.csv", *COLUMNS)):
            status, out, err = watch(*args)
            assert (status, out) == (1, ""), damaged
            assert err.startswith("calibrant: state.json: ")
        assert Path("state.json").read_bytes() == damaged


def test_years_are_periods():
    frame = pd.concat([week(k).assign(year=2021 + k) for k in range(3)])
    frame.to_csv("years.csv", index=False)
    assert run("monitor", "years.json", "years.csv", *COLUMNS, "--time", "year", "--quiet")[0] in (0, 3)
    assert calibrant.Monitor.from_json("years.json").labels == ["2021", "2022", "2023"]
    _, _, err = run("monitor", "other.json", "years.csv", *COLUMNS, "--time", "year", "--every", "day")
    assert "contains years, but --every day needs dates; leave --every out" in err
