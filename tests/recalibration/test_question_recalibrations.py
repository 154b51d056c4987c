"""Maps of the questions of a decision log: each for itself, proven together, and written to one file."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.errors import FileError, InputError
from calibrant.recalibration import QuestionRecalibrations
from calibrant.recalibration.maps import maps_to_json
from calibrant.results.envelope import digest_of
from tests.report.test_question_reports import rows_of

ODD_NAMES = (
    "<i>\x1b[31mx\x1b[0m</i>",
    'a"b\\c',
    "two\nlines",
    "\u202eturned",
    "\U0001f600 mood",
    "__proto__",
    "",
    "maps",
    "schema",
    "\x7f\x9b",
    "k" * 3_000,
)


def with_rare(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with a question that eight of them answer."""
    for i, row in enumerate(rows[:8]):
        row["answers"]["rare"], row["labels"]["rare"] = {"noul": 0.3}, bool(i % 2)
    return rows


def predicates(probs: dict[str, Any], outcomes: dict[str, Any]) -> calibrant.DecisionLog:
    """Return the log of predicates, from the probabilities and outcomes of all rows."""
    n = len(next(iter(probs.values())))
    return calibrant.read_decisions(
        [
            {
                "answers": {name: {"noul": float(p[i])} for name, p in probs.items()},
                "labels": {name: bool(y[i]) for name, y in outcomes.items()},
            }
            for i in range(n)
        ]
    )


@pytest.fixture(scope="module")
def log() -> calibrant.DecisionLog:
    return calibrant.read_decisions(with_rare(rows_of(900, sharpen=2.0)))


@pytest.fixture(scope="module")
def fixes(log: calibrant.DecisionLog) -> QuestionRecalibrations:
    return calibrant.recalibrate(log, n_resamples=0)


@pytest.fixture(scope="module")
def one_map(fixes: QuestionRecalibrations) -> calibrant.CalibrationMap:
    return fixes.maps["tool"]


def test_a_question_has_the_map_of_its_arrays(log: calibrant.DecisionLog, fixes: QuestionRecalibrations) -> None:
    assert list(fixes) == ["urgent", "tool", "mood", "open"]
    for name, fix in fixes.items():
        question = log[name]
        options: dict[str, Any] = {} if name != "open" else {"notion": "top-label"}
        alone = calibrant.recalibrate(
            question.probs, question.targets, class_names=question.class_names, n_resamples=0, **options
        )
        assert fix.to_dict(curves=False) == alone.to_dict(curves=False)
    assert {name: fix.map.event["notion"] for name, fix in fixes.items()} == {
        "urgent": "positive",
        "tool": "classes",
        "mood": "classes",
        "open": "top-label",
    }
    assert fixes["mood"].map.event["class_names"] == ["0", "1", "2"]


def test_a_gain_is_proven_among_all_questions(fixes: QuestionRecalibrations) -> None:
    p_values = {name: fix.gain.p_value for name, fix in fixes.items()}
    order = sorted(p_values, key=p_values.__getitem__)
    least, expected = 0.0, {}
    for k, name in enumerate(order):  # Holm (1979)
        least = expected[name] = max(least, min(1.0, (len(order) - k) * p_values[name]))
    assert fixes.adjusted_p_values == {name: expected[name] for name in fixes}
    assert fixes.proven == ("tool", "open")
    maps = fixes.maps
    assert {name: fitted.proven for name, fitted in maps.items()} == {name: name in fixes.proven for name in fixes}
    assert maps["tool"].evidence["adjusted_p_value"] == expected["tool"]


def test_a_gain_that_is_proven_alone_may_be_unproven_among_many() -> None:
    rng = np.random.default_rng(13)
    probs = {"q0": rng.random(400)}
    outcomes = {"q0": rng.random(400) < np.clip(probs["q0"] + 0.07, 0, 1)}
    for k in range(1, 12):
        probs[f"q{k}"] = rng.random(400)
        outcomes[f"q{k}"] = rng.random(400) < probs[f"q{k}"]
    fixes = calibrant.recalibrate(predicates(probs, outcomes), n_resamples=0)
    alone = fixes["q0"]
    assert 0.05 / 12 < alone.gain.p_value <= 0.05
    assert alone.proven
    assert fixes.proven == ()
    assert not fixes.maps["q0"].proven
    assert "After Holm's correction for all questions with a map, the decrease is not significant (p = " in " ".join(
        str(fixes).split()
    )
    with pytest.raises(InputError, match=r"maps: expected one map or more, got none; to write maps without evidence"):
        fixes.maps_to_json()
    assert len(json.loads(fixes.maps_to_json(anyway=True))["maps"]) == 12


def family_errors(samples: int, n: int, n_questions: int) -> float:
    """Return how often a map is proven if all questions are calibrated, with one latent outcome in each row."""
    rng, found = np.random.default_rng(n_questions), 0
    for _ in range(samples):
        u, p = rng.random(n), rng.random((n_questions, n))
        log = predicates({f"q{k}": p[k] for k in range(n_questions)}, {f"q{k}": u < p[k] for k in range(n_questions)})
        found += bool(calibrant.recalibrate(log, n_resamples=0).proven)
    return found / samples


def test_maps_of_calibrated_questions_are_rarely_proven() -> None:
    assert family_errors(12, 150, 4) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 12)


@pytest.mark.slow
@pytest.mark.parametrize("n_questions", [1, 6])
def test_maps_of_calibrated_questions_are_proven_in_the_stated_share(n_questions: int) -> None:
    assert family_errors(100, 200, n_questions) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 100)


def test_a_question_without_a_map_is_named(fixes: QuestionRecalibrations) -> None:
    assert fixes.refused == {
        "rare": "expected at least 5 rows of each outcome, got 4 rows of the less frequent outcome"
    }
    assert "No map was fitted to rare: expected at least 5 rows of each outcome" in " ".join(str(fixes).split())
    assert fixes.to_pandas().loc["rare", "reason"].startswith("expected at least 5 rows")
    with pytest.raises(KeyError, match="no map of the question 'rare': expected at least 5 rows"):
        fixes["rare"]
    with pytest.raises(KeyError, match="no question 'tol'; did you mean 'tool'"):
        fixes["tol"]


def test_a_log_without_any_map_is_a_result_too() -> None:
    fixes = calibrant.recalibrate(calibrant.read_decisions(rows_of(6)), n_resamples=0)
    assert (len(fixes), fixes.proven, list(fixes.refused)) == (0, (), ["urgent", "tool", "mood", "open"])
    assert "No map can be fitted to any question." in str(fixes)
    assert fixes.to_dict()["questions"] == []
    with pytest.raises(InputError, match="expected one map or more"):
        fixes.maps_to_json(anyway=True)


def test_a_method_maps_the_questions_that_it_suits(log: calibrant.DecisionLog) -> None:
    fixes = calibrant.recalibrate(log, method="cox", n_resamples=0)
    assert {name: fix.chosen for name, fix in fixes.items()} == {"urgent": "cox", "open": "cox"}
    assert fixes.refused["tool"].startswith("expected one of auto, identity")
    with pytest.raises(InputError, match="method: expected one of"):
        calibrant.recalibrate(log, method="coks")


def test_the_order_of_rows_changes_no_bit() -> None:
    rows = with_rare(rows_of(300, sharpen=2.0))
    texts = []
    for seed in range(3):
        np.random.default_rng(seed).shuffle(rows)
        fixes = calibrant.recalibrate(calibrant.read_decisions(rows), n_resamples=0)
        texts.append([fixes.maps[name].to_json() for name in sorted(fixes)])
    assert texts[0] == texts[1] == texts[2]


# ---------------------------------------------------------------- the file of maps


def test_the_file_has_the_proven_maps(fixes: QuestionRecalibrations, tmp_path: Path) -> None:
    path = tmp_path / "maps.json"
    text = fixes.maps_to_json(path)
    assert path.read_text(encoding="utf-8") == f"{text}\n"
    maps = calibrant.read_maps(path)
    assert maps == {name: fixes.maps[name] for name in ("tool", "open")}
    probs = fixes.log["tool"].probs
    np.testing.assert_array_equal(maps["tool"](probs), fixes["tool"].map(probs))
    fixes.maps_to_json(path, anyway=True)
    assert list(calibrant.read_maps(path)) == list(fixes)
    # A line is one question, whose content is the file of its map.
    line = next(line for line in text.splitlines() if line.startswith('"open": '))
    assert calibrant.CalibrationMap.from_json(line.removeprefix('"open": ').rstrip(",")) == fixes.maps["open"]


@pytest.mark.parametrize("names", [ODD_NAMES, tuple(f"q{k}" for k in range(10_000))], ids=["odd", "many"])
def test_names_survive_the_file(one_map: calibrant.CalibrationMap, tmp_path: Path, names: tuple[str, ...]) -> None:
    path, bare = tmp_path / "maps.json", replace(one_map, evidence={})
    text = maps_to_json(dict.fromkeys(names, bare))
    path.write_text(text, encoding="utf-8")
    assert text.isascii()
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text)
    maps = calibrant.read_maps(path)
    assert tuple(maps) == names
    assert maps[names[-1]] == bare
    with pytest.raises(FileError, match="expected one calibration map, got the maps of ") as caught:
        calibrant.CalibrationMap.read(path)
    assert f"the maps of {len(names):,} questions: " in str(caught.value)
    assert f" and {len(names) - 4:,} more; make the map of one question (--question), or read" in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_name_that_is_no_text_is_refused(one_map: calibrant.CalibrationMap) -> None:
    with pytest.raises(InputError, match=r"maps: expected names in Unicode, got 'a\\ud800'"):
        maps_to_json({"a\ud800": one_map})


def changed(text: str, change: Any) -> str:
    """Return the file with other content, and the checksum of that."""
    content = json.loads(text)
    del content["checksum"]
    change(content)
    return json.dumps({**content, "checksum": digest_of(content)})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda content: content.update(maps={}), "no maps"),
        (lambda content: content.update(maps=[1]), "no maps"),
        (lambda content: content.pop("maps"), "an invalid file of maps"),
        (lambda content: content["maps"].update(tool=1), "expected a calibration map, got other JSON"),
        (lambda content: content["maps"]["tool"].update(kind="line"), "a map that matches its checksum"),
        (lambda content: content.update(version=9), "version 9"),
        (lambda content: content.update(schema="calibrant.map"), "one calibration map"),
        (lambda content: content.update(schema="other"), "expected the calibration maps of questions, got other JSON"),
    ],
)
def test_a_changed_file_is_refused(fixes: QuestionRecalibrations, tmp_path: Path, change: Any, said: str) -> None:
    path = tmp_path / "maps.json"
    path.write_text(changed(fixes.maps_to_json(), change), encoding="utf-8")
    with pytest.raises(FileError, match=re.escape(str(path))) as caught:
        calibrant.read_maps(path)
    assert said in str(caught.value)
    with pytest.raises(FileError):
        calibrant.CalibrationMap.read(path)


def test_a_cut_file_and_the_file_of_one_map_are_refused(fixes: QuestionRecalibrations, tmp_path: Path) -> None:
    path, text = tmp_path / "maps.json", fixes.maps_to_json()
    for cut in (text[:-1], text[:1_000], "", text.replace('"proven": true', '"proven": false', 1)):
        path.write_text(cut, encoding="utf-8")
        with pytest.raises(FileError):
            calibrant.read_maps(path)
    fixes.maps["tool"].to_json(path)
    with pytest.raises(FileError, match="got one calibration map; read it with calibrant"):
        calibrant.read_maps(path)


# ---------------------------------------------------------------- how it is shown


def test_the_first_screen_has_a_row_for_each_question(fixes: QuestionRecalibrations) -> None:
    text = str(fixes)
    assert text.startswith("900 inputs, 5 questions\n")
    assert "Recalibration lowers the loss of 2 of 4 questions after Holm correction (95 %): tool, open." in " ".join(
        text.split()
    )
    table = text.partition("\nQuestions\n")[2].partition("\n\n")[0]
    rows = {line.split()[0]: line.split() for line in table.splitlines()[2:7]}
    assert list(rows) == ["urgent", "tool", "mood", "open", "rare"]
    tool = fixes["tool"]
    assert rows["tool"][1:5] == [
        "900",
        tool.chosen,
        f"{tool.before['nll'].value:.4f}",
        f"{tool.after['nll'].value:.4f}",
    ]
    assert rows["tool"][-2:] == ["helps", "*"]
    assert rows["rare"][-2:] == ["no", "map"]
    assert rows["urgent"][-2:] == ["no", "change"]
    assert [line for line in text.splitlines() if line.startswith("Question ")] == [
        f"Question {name}" for name in fixes
    ]
    assert max(map(len, text.splitlines())) <= 80


def test_a_page_has_every_name_once(fixes: QuestionRecalibrations, tmp_path: Path) -> None:
    page = fixes.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    for pattern in (r'\bid="([^"]+)"', r'download="([^"]+)"'):
        assert [name for name, count in Counter(re.findall(pattern, page)).items() if count > 1] == []
    assert all(f"Question {name}" in page for name in fixes)
    markdown = fixes.to_markdown()
    assert all(f"# Question {name}" in markdown for name in fixes)


def test_of_many_questions_some_have_a_section() -> None:
    rng = np.random.default_rng(1)
    probs = {f"q{k}": rng.random(60) for k in range(20)}
    fixes = calibrant.recalibrate(predicates(probs, {name: rng.random(60) < p for name, p in probs.items()}))
    text = str(fixes)
    assert text.count("\nQuestion q") == 12
    assert "to see the other 8 questions, use --question NAME, or result[NAME] in Python" in text


def test_names_do_not_act(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    p = rng.random(80)
    fixes = calibrant.recalibrate(predicates(dict.fromkeys(ODD_NAMES, p), dict.fromkeys(ODD_NAMES, rng.random(80) < p)))
    page = fixes.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    for text in (str(fixes), page, fixes.to_markdown(), repr(fixes)):
        assert not re.search("[\x1b\x7f\x9b\u202e]", text)
    assert "<i>" not in page
    assert [each["name"] for each in json.loads(fixes.to_json())["questions"]] == list(ODD_NAMES)


def test_numbers_come_as_json_and_as_a_frame(fixes: QuestionRecalibrations) -> None:
    summary = fixes.to_dict(curves=False)
    json.dumps(summary, allow_nan=False)
    assert {each["name"]: each["proven"] for each in summary["questions"]} == {
        "urgent": False,
        "tool": True,
        "mood": False,
        "open": True,
    }
    assert summary["refused"] == dict(fixes.refused)
    frame = fixes.to_pandas()
    assert list(frame.index) == [*fixes, "rare"]
    assert frame.loc["tool", "gain"] == fixes["tool"].gain.value
    assert frame.loc["open", "brier_after"] == fixes["open"].after["brier_event"].value
    assert frame["proven"].tolist() == [False, True, False, True, False]
    assert repr(fixes) == "<QuestionRecalibrations: 900 inputs; recalibration helps 2 of 5 questions>"


@pytest.mark.parametrize(
    ("argument", "value"),
    [("targets", [1]), ("weights", [1.0]), ("groups", ["a"]), ("logits", True), ("weights_are", "sampling")],
)
def test_a_log_brings_its_data(log: calibrant.DecisionLog, argument: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"{argument}: expected no other data together with a DecisionLog"):
        calibrant.recalibrate(log, **{argument: value})
