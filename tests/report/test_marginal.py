"""Marginal subgroups: the values of several columns as groups, in one forest plot with all rows."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import calibrant
import calibrant.plot as cp
from calibrant.errors import InputError
from calibrant.files import reading
from calibrant.files.column_values import BETWEEN, ValueWords, joined, parted
from calibrant.render.figure import Tips
from calibrant.report.group_document import group_blocks
from calibrant.statistics.group_tests import holm
from tests.in_process import fail, run, succeed

RNG = np.random.default_rng(3)
N = 1_200
SCORES = RNG.random(N)
SEX = np.array(["F", "M"])[RNG.integers(0, 2, N)]
WARD = np.array(["10", "9", "2"])[RNG.integers(0, 3, N)]
OUTCOMES = (RNG.random(N) < np.where(SEX == "M", SCORES**1.8, SCORES)).astype(int)
GROUPS = {"sex": SEX, "ward": WARD}
FEW: Any = {"n_resamples": 50}


def marginal(**options: Any) -> calibrant.Report:
    return calibrant.evaluate(SCORES, OUTCOMES, **{"groups": GROUPS, **FEW, **options})


def test_a_subgroup_is_the_group_of_its_column_alone() -> None:
    """Only Holm's correction differs, which is for all subgroups."""
    report = marginal()
    assert [group.name for group in report.groups] == ["sex: F", "sex: M", "ward: 2", "ward: 9", "ward: 10"]
    for column, values in GROUPS.items():
        alone = {group.name: group for group in marginal(groups=values).groups}
        for group in (group for group in report.groups if group.column == column):
            one = alone[group.label]
            assert (group.n, group.ece, group.mean_gap) == (one.n, one.ece, one.mean_gap)
            assert group.report["brier"] == one.report["brier"]
    adjusted = holm([group.p_value for group in report.groups])
    assert [group.adjusted_p_value for group in report.groups] == pytest.approx(adjusted)
    assert [group.called_out for group in report.groups] == [p <= 0.05 for p in adjusted]


def test_differences_are_tested_within_each_column() -> None:
    forests = marginal(profile="clinical").forests
    for column, values in GROUPS.items():
        for name, alone in marginal(profile="clinical", groups=values).forests.items():
            own = forests[name].columns[column]
            assert (own.heterogeneity, own.p_value) == (alone.heterogeneity, alone.p_value)
            assert np.isnan(own.pooled)
            by_name = dict(zip(alone.groups, alone.values, strict=True))
            places = [i for i, group in enumerate(forests[name].groups) if group.startswith(f"{column}: ")]
            assert [forests[name].values[i] for i in places] == [
                by_name[forests[name].groups[i].removeprefix(f"{column}: ")] for i in places
            ]
    assert np.isnan(forests["oe_ratio"].heterogeneity)  # rows of different columns overlap


def test_all_rows_are_the_report() -> None:
    report = marginal(profile="all")
    assert report.all_rows is not None
    assert (report.all_rows.n, report.all_rows.ece) == (report.n, report["ece"])
    assert report.all_rows.report.estimates == report.estimates
    assert marginal(groups=SEX).all_rows is None


def test_ordered_columns_keep_their_order() -> None:
    levels = pd.Series(pd.Categorical(np.where(SCORES < 0.5, "low", "high"), ["low", "high"], ordered=True))
    report = marginal(groups={"risk": levels, "ward": WARD.astype(int)})
    assert [group.label for group in report.groups] == ["low", "high", "2", "9", "10"]


def test_sketches_of_the_groups_are_the_rows() -> None:
    def sketch(rows: Any = slice(None)) -> calibrant.CalibrationSketch:
        made = calibrant.CalibrationSketch()
        made.update(SCORES[rows], OUTCOMES[rows])
        return made

    by_column = {
        column: {name: sketch(values == name) for name in np.unique(values)} for column, values in GROUPS.items()
    }
    report = calibrant.evaluate(sketch(), groups=by_column, **FEW)
    of_rows = {group.name: group for group in marginal().groups}
    assert set(of_rows) == {group.name for group in report.groups}
    for group in report.groups:
        assert group.n == of_rows[group.name].n
        assert group.mean_gap.value == pytest.approx(of_rows[group.name].mean_gap.value, abs=1e-6)
    del by_column["ward"]["9"]
    with pytest.raises(InputError, match="for each column of groups, sketches of the same 1,200 rows"):
        calibrant.evaluate(sketch(), groups=by_column)
    with pytest.raises(InputError, match="a mapping from each column to the sketches of its groups"):
        calibrant.evaluate(sketch(), groups=GROUPS)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({}, "at least one column"),
        ({"a: b": ["c"] * N, "a": ["b: c"] * N}, "two groups named 'a: b: c'"),
        ({"sex": SEX[1:]}, f"{N} names, one for each prediction"),
        ({"sex": [None, *SEX[1:]]}, "groups: .*None|groups: "),
    ],
)
def test_wrong_columns_are_named(groups: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        marginal(groups=groups)


# ---------------------------------------------------------------- shown


@pytest.mark.parametrize("profile", ["standard", "clinical"])
def test_one_figure_has_the_columns_as_headings(profile: str) -> None:
    report = marginal(profile=profile)
    figures = [block for block in group_blocks(report, full=True) if hasattr(block, "marks")]
    assert len(figures) == 1 + len(report.forests)
    for figure in figures:
        names = list(figure.y.names.values())
        assert [name.parts[0] for name in names] == ["sex", "F", "M", "ward", "2", "9", "10", "all rows"]
        assert [name.heading for name in names] == [name.parts[0] in GROUPS for name in names]
        (tips,) = (mark for mark in figure.marks if isinstance(mark, Tips))
        assert list(tips.y) == [1, 2, 4, 5, 6, 7]
        assert "all rows" in tips.texts[-1]


def test_it_is_in_the_terminal_the_page_markdown_and_json(tmp_path: Path) -> None:
    report = marginal(profile="clinical")
    text, page, markdown = str(report), report.to_html(tmp_path / "a.html").read_text(), report.to_markdown()
    flat = " ".join(text.split())
    assert re.search(r"\n  sex\n    F .*\n    M .*\n  ward\n    2 .*\n    9 .*\n    10 .*\n  all rows +1,200", text)
    assert "Holm's correction is valid for overlapping groups" in flat
    assert page.count('<th scope="rowgroup"') == 2 * (1 + len(report.forests))
    assert markdown.count("| **ward** |") == 1 + len(report.forests)
    assert "sex: I² = " in flat
    assert "ward: I² = " in flat
    assert "The groups are the values of sex and ward" in report.methods
    summary = json.loads(report.to_json())
    assert [group["column"] for group in summary["groups"]] == ["sex"] * 2 + ["ward"] * 3
    assert set(summary["forests"]["oe_ratio"]["columns"]) == {"sex", "ward"}
    frame = report.to_pandas(groups=True)
    assert list(frame.index) == [group.name for group in report.groups]


def test_the_plot_has_the_same_rows() -> None:
    report = marginal(profile="clinical")
    for measure, order in (("ece", "index"), ("oe_ratio", "error")):
        axes = cp.groups(report, measure=measure, order=order)
        texts = [label.get_text() for label in axes.get_yticklabels()]
        assert [text for text in texts if "(" not in text] == ["sex", "ward"]
        assert texts[-1] == "all rows (1,200)"
        assert {label.get_fontweight() for label in axes.get_yticklabels() if "(" not in label.get_text()} == {"bold"}


# ---------------------------------------------------------------- the command


@pytest.fixture
def _patients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"risk": SCORES, "died": OUTCOMES, "sex": SEX, "ward": WARD.astype(int)})
    frame["ward"] = frame["ward"].map({2: "ICU · 2", 9: "nine", 10: "ten"})
    frame.to_csv("patients.csv", index=False)


@pytest.mark.usefixtures("_patients")
@pytest.mark.parametrize("most", [None, 0], ids=["rows", "sketch"])
def test_the_command_makes_marginal_groups(most: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if most is not None:
        monkeypatch.setattr(reading, "MOST_ROWS", most)
    given = ("report", "patients.csv", "--score", "risk", "--outcome", "died", "--n-resamples", "0", "--json", "a.json")
    succeed(*given, "--by", "sex", "--by", "ward", "--marginal")
    groups = json.loads(Path("a.json").read_text())["groups"]
    names = ["sex: F", "sex: M", "ward: ICU · 2", "ward: nine", "ward: ten"]
    assert [group["name"] for group in groups] == names
    assert [group["report"]["n"] for group in groups] == [
        *((value == SEX).sum() for value in ("F", "M")),
        *((value == WARD).sum() for value in ("2", "9", "10")),
    ]
    assert run(*given, "--by", "sex", "--marginal")[0] == 0
    assert [group["name"] for group in json.loads(Path("a.json").read_text())["groups"]] == names[:2]
    assert run(*given, "--by", "sex", "--by", "ward")[0] == 0
    assert len(json.loads(Path("a.json").read_text())["groups"]) == 6


@pytest.mark.usefixtures("_patients")
def test_the_picture_of_the_command_is_the_forest() -> None:
    given = ("report", "patients.csv", "--score", "risk", "--outcome", "died", "--n-resamples", "0", "--svg", "a.svg")
    assert run(*given, "--by", "sex", "--by", "ward", "--marginal", "--profile", "clinical")[0] == 0
    assert "all rows (1,200)" in Path("a.svg").read_text()
    assert "--marginal needs the columns of --by; pass --by too" in fail(*given, "--marginal", status=2)


TEXTS = st.text(st.sampled_from("ab'\"\\ ·\n"), max_size=6) | st.just(BETWEEN)


@given(st.lists(TEXTS, min_size=1, max_size=4))
@example([" ·", ""])  # the signs between names may overlap
def test_joined_names_are_parted(names: list[str]) -> None:
    name = joined([ValueWords.of(np.array([each], object)) for each in names]).array()[0]
    with contextlib.suppress(InputError):  # names that other names would give too
        assert parted(str(name), len(names)) == tuple(names)


@pytest.mark.parametrize("names", [("F", "ICU"), ("a · b", "c"), ("it's", "d"), ("'q'", "a · 'b'"), ("", "x")])
def test_usual_names_are_parted(names: tuple[str, ...]) -> None:
    name = joined([ValueWords.of(np.array([each], object)) for each in names]).array()[0]
    assert parted(name, len(names)) == names
