"""A monitor as text, page, Markdown and metrics: every sentence, and numbers as in `to_dict`."""

from __future__ import annotations

import copy
import math
import re
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit

import calibrant
from calibrant.render import drawing, html, markdown, monitor
from calibrant.render.style import GLYPHS, Style
from tests.render.test_html import EVIL, Page, numbers, read
from tests.render.test_markdown import PARSER, cells

HOSTILE = 'ward "7"\\\n| <b>x</b> \x07\ud800'


def drifted(kind: str, scores: np.ndarray) -> np.ndarray:
    """Return the probabilities of events after a drift."""
    z = logit(scores)
    return {
        "none": lambda: scores,
        "down": lambda: expit(z - 0.4),
        "up": lambda: expit(z + 0.4),
        "extreme": lambda: expit(0.5 * z),
        "moderate": lambda: expit(1.9 * z),
        "range": lambda: np.where(scores > 0.85, expit(z - 1.5), scores),
        "several": lambda: np.where(scores > 0.5, expit(0.4 * z + 0.9), expit(z - 1.2)),
    }[kind]()


@cache
def watched(
    kind: str = "none",
    slices: int = 16,
    first: int = 8,
    size: int = 500,
    groups: tuple[str, ...] = (),
    label: str = "2026-W{:02}",
    top_label: bool = False,
    promises: tuple[tuple[str, float, float], ...] = (),
    **options: Any,
) -> calibrant.Monitor:
    rng = np.random.default_rng(7)
    sides = {side: {"value": value, "side": side, "max_risk": risk} for side, value, risk in promises}
    watch = calibrant.Monitor(threshold=sides or None, **options)
    for t in range(slices):
        scores = rng.uniform(0.02, 0.98, size)
        if top_label:
            scores = 0.5 + scores / 2
        right = rng.random(size) < (scores if t < first else drifted(kind, scores))
        probs, targets = scores, right.astype(int)
        if top_label:
            side = rng.integers(0, 2, size)
            probs = np.stack([np.where(side == k, scores, 1 - scores) for k in (0, 1)], axis=1)
            targets = np.where(right, side, 1 - side)
        names = np.array(groups)[np.arange(size) % len(groups)] if groups else None
        watch.update(probs, targets, label=label.format(t + 1), groups=names)
    return watch


def summary(*arguments: Any, **options: Any) -> dict[str, Any]:
    return copy.deepcopy(watched(*arguments, **options).to_dict())


def long(slices: int = 520) -> dict[str, Any]:
    """Return a monitor with as many slices, those of a shorter one again and again."""
    found = summary("down", groups=tuple(f"group {i:02}" for i in range(25)))
    found["slices"] = [found["slices"][i % 16] | {"label": f"day {i + 1}"} for i in range(slices)]
    return found


def promised(**changed: Any) -> dict[str, Any]:
    """Return a calibrated monitor with one promise."""
    found = summary(promises=(("yes", 0.87, 0.1),))
    found["promises"][0] |= changed
    return found


EVERY = {
    "calibrated": summary,
    "level": lambda: summary("down"),
    "under": lambda: summary("up"),
    "top label": lambda: summary("down", top_label=True),
    "extreme": lambda: summary("extreme"),
    "moderate": lambda: summary("moderate"),
    "range": lambda: summary("range", slices=30),
    "several": lambda: summary("several"),
    "groups": lambda: summary("down", groups=("north", "south")),
    "tolerance": lambda: summary(tolerance=0.02),
    "promise": promised,
    "hostile": lambda: summary("down", groups=(HOSTILE, "b"), label=f"{HOSTILE} {{}}"),
    "empty": lambda: calibrant.Monitor().to_dict(),
    "one slice": lambda: summary(slices=1),
    "two slices": lambda: summary(slices=2),
    "long": long,
    "infinite": lambda: infinite().to_dict(),
    "impossible": lambda: impossible(groups=True).to_dict(),
    "few events": lambda: repeated(1).to_dict(),
    "repeated": lambda: repeated(14).to_dict(),
}


def impossible(*, groups: bool = False, **options: Any) -> calibrant.Monitor:
    """Return a calibrated monitor with two impossible outcomes in its second slice."""
    watch = calibrant.Monitor(**options)
    p, y = np.repeat([0.0, 1.0, 0.5], [20, 20, 60]), np.repeat([0, 1, 0, 1], [20, 20, 30, 30])
    for changed in ((), (0, 20), ()):
        y = y.copy()
        y[list(changed)] ^= 1
        watch.update(p, y, groups=np.where(p == 1, "ones", "others") if groups else None)
        y[list(changed)] ^= 1
    return watch


def repeated(slices: int) -> calibrant.Monitor:
    """Return a monitor of the same rare events, again and again."""
    watch, rng = calibrant.Monitor(), np.random.default_rng(0)
    p = rng.uniform(0.001, 0.02, 100)
    y = rng.random(100) < p
    for t in range(slices):
        watch.update(p, y, label=f"w{t}")
    return watch


@cache
def infinite() -> calibrant.Monitor:
    """Return a monitor whose evidence is not a float."""
    watch = calibrant.Monitor()
    for t in range(3):
        watch.update(np.full(2_000, 0.5), np.ones(2_000), label=f"{t}")
    return watch


# ---------------------------------------------------------------- the sentences


def test_without_an_alarm_the_evidence_is_given_with_what_it_is_worth() -> None:
    found = summary()
    first, difference, guarantee = monitor.verdict(found)
    evidence, p_value = found["evidence"], found["p_value"]
    assert 1 < evidence < 20
    assert first == (
        f"No alarm after 16 slices (8,000 rows): evidence against calibration E = {evidence:.1f}, alarm at 20 "
        f"(p = {p_value:.2f})."
    )
    value, low, high = (100 * x for x in (found["mean_difference"], *(found["slices"][-1][k] for k in ("low", "high"))))
    assert difference == (
        "Over all slices, there is no clear over- or underestimation: mean predicted probability minus observed "
        f"frequency {value:+.1f} percentage points (95 % CI {low:+.1f} to {high:+.1f}, valid at any time)."
    )
    assert guarantee == (
        "A model that stays calibrated raises an alarm with a probability of at most 5 % over its whole life."
    )
    assert monitor.heading(found) == ("No alarm after 16 slices", "")
    assert {tone for _, tone in monitor.toned_verdict(found)} == {""}
    assert monitor.headline(found) == "16 slices, 8,000 rows (event: outcome = 1)"


def test_a_difference_that_is_clear_before_an_alarm_has_its_direction() -> None:
    found = summary()
    found["slices"][-1] |= {"low": 0.002, "high": 0.021}
    found["mean_difference"] = 0.0121
    assert monitor.verdict(found)[1] == (
        "Over all slices, the model overestimates the event: mean predicted probability 1.2 percentage points too high "
        "(95 % CI 0.2 to 2.1, valid at any time)."
    )


@pytest.mark.parametrize(
    ("kind", "options", "direction"),
    [
        ("down", {}, "the model overestimates the event: mean predicted probability {} percentage points too high"),
        ("up", {}, "the model underestimates the event: mean predicted probability {} percentage points too low"),
        ("down", {"top_label": True}, "the model is over-confident: mean confidence {} percentage points too high"),
        ("up", {"top_label": True}, "the model is under-confident: mean confidence {} percentage points too low"),
    ],
)
def test_an_alarm_says_since_when_and_how_large(kind: str, options: dict[str, Any], direction: str) -> None:
    found = summary(kind, **options)
    drift, (alarm, reached, since, *_) = found["drift"], monitor.verdict(found)
    assert alarm == "Alarm: the model is no longer calibrated (p < 0.001)."
    digits, power = f"{found['evidence']:.1e}".split("e")
    assert reached == (
        f"The evidence against calibration has reached E = {digits}e{int(power)} in 16 slices (8,000 rows). "
        "The alarm is at 20."
    )
    ends = sorted(abs(100 * drift[end]) for end in ("low", "high"))
    about = f"Since about {drift['since']} (90 % range {drift['earliest']} to {drift['latest']})"
    if drift["earliest"] == drift["latest"]:
        about = f"Since {drift['since']} (90 % range: this slice alone)"
    size = direction.format(f"{abs(100 * drift['difference']):.1f}")
    assert since == f"{about}, {size} (95 % CI {ends[0]:.1f} to {ends[1]:.1f})."
    assert monitor.heading(found) == ("Alarm: the model is no longer calibrated", "bad")
    assert monitor.verdict(found)[-2:] == [
        "Pass --since-onset window.cal to write the rows since then (since_onset() in Python).",
        "Next: calibrant recalibrate window.cal --map map.json",
    ]


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("down", "The whole level has drifted, so a new offset suffices (about {offset:+.2f} in log-odds)."),
        ("extreme", "The slope has drifted: predictions are too extreme. A new slope suffices (about {slope:.2f})."),
        ("moderate", "The slope has drifted: predictions are too moderate. A new slope suffices (about {slope:.2f})."),
        ("range", "One range of the scores has drifted, so fit the map again."),
        ("several", "There are several kinds of errors, so fit the map again."),
    ],
)
def test_the_kind_of_a_drift_and_what_suffices(kind: str, sentence: str) -> None:
    found = summary(kind, slices=30 if kind == "range" else 16)
    if kind == "several":  # no family has most of the evidence
        found["drift"] |= {"family": "several", "repair": "refit"}
    assert monitor.verdict(found)[3] == sentence.format(**found["drift"])


def test_an_unclear_direction_is_said() -> None:
    found = summary("extreme")
    drift = found["drift"]
    assert drift["low"] < 0 < drift["high"]
    value, low, high = (f"{100 * drift[key]:+.1f}" for key in ("difference", "low", "high"))
    assert monitor.verdict(found)[2].endswith(
        "there is no clear over- or underestimation: mean predicted probability minus observed frequency "
        f"{value} percentage points (95 % CI {low} to {high})."
    )
    found["drift"]["earliest"], found["drift"]["latest"] = "2026-W07", "2026-W11"
    assert monitor.verdict(found)[2].startswith("Since about 2026-W09 (90 % range 2026-W07 to 2026-W11), there is")


def test_a_model_that_never_was_calibrated_is_not_called_drifted() -> None:
    found = summary("down", first=0)
    assert found["drift"]["first"] == 0
    assert monitor.verdict(found)[0] == "Alarm: the model is not calibrated (p < 0.001)."
    assert monitor.heading(found)[0] == "Alarm: the model is not calibrated"


def test_a_tolerance_is_named() -> None:
    sentences = monitor.verdict(summary(tolerance=0.02))
    assert sentences[1] == "Probabilities within 2 percentage points of the score count as calibrated (tolerance)."
    assert sentences[-1].startswith("A model that stays calibrated within the tolerance raises an alarm")
    sentences = monitor.verdict(summary("several", tolerance_odds=1.25, alpha=0.01))
    assert sentences[0] == "Alarm: the model is no longer calibrated within the tolerance (p < 0.001)."
    assert sentences[1].endswith(" The alarm is at 100.")
    assert sentences[2] == "Odds within a factor of 1.25 of the odds of the score count as calibrated (tolerance)."
    assert "(99 % CI " in sentences[3]


def test_impossible_outcomes_are_the_first_sentence() -> None:
    found = monitor.verdict(impossible().to_dict())
    assert found[:2] == [
        "Alarm: 2 outcomes are impossible according to the scores: 1 event with a score of 0 and 1 non-event with a "
        "score of 1. A calibrated model never has such outcomes, so p = 0.",
        "If the scores were rounded to 0 and 1, the evidence is E = 3.8, alarm at 20. Begin a new state with the "
        "largest rounding error as --tolerance, such as 0.005 for two decimal places.",
    ]
    assert not any("calibrant recalibrate" in sentence for sentence in found)
    assert [row[3] for row in monitor.slices(impossible().to_dict()).rows] == ["0.91", "infinite", "infinite"]
    of_groups = impossible(groups=True).to_dict()
    table = monitor.groups(of_groups)
    assert table is not None
    assert [row[3] for row in table.rows] == ["infinite", "infinite"]
    assert "2 of 2 groups show evidence of miscalibration" in " ".join(monitor.verdict(of_groups))
    assert monitor.heading(of_groups) == ("Alarm: the model is not calibrated", "bad")


def test_slices_with_equal_rows_are_a_caution() -> None:
    named = ", ".join(f"w{t}" for t in range(10))
    first, second = monitor.toned_verdict(repeated(14).to_dict())[:2]
    assert first == (f"Caution: the slices {named} and 4 more have equal rows.", "caution")
    assert second[0].startswith("If the same rows were added again, the evidence is not valid")


def test_too_few_rows_have_no_interval_yet() -> None:
    found = repeated(1).to_dict()
    assert monitor.verdict(found)[1] == (
        "Over all slices, mean predicted probability minus observed frequency is "
        "+0.14 percentage points. There are not yet enough rows for a useful CI."
    )
    assert monitor.slices(found).rows[0][-1] == "not yet"


def test_groups_that_are_flagged_are_named() -> None:
    found = summary("down", groups=("north", "south"))
    shares = [f"{100 * group['difference']:+.1f} percentage points" for group in found["groups"]]
    sentence = monitor.verdict(found)[4]
    assert sentence == (
        f"2 of 2 groups show evidence of miscalibration after closed testing: north ({shares[0]}), south ({shares[1]})."
    )
    found["groups"][0] |= {"called_out": False}
    found["groups"][1] |= {"difference": None}
    assert monitor.verdict(found)[4] == ("1 of 2 groups shows evidence of miscalibration after closed testing: south.")
    found = summary(groups=("north", "south"))
    assert monitor.verdict(found)[2] == ("No group shows evidence of miscalibration after closed testing (2 groups).")
    assert monitor.verdict(summary(groups=("all",)))[2].endswith("(1 group).")


def test_of_many_groups_ten_are_named_and_twenty_are_listed() -> None:
    found = long()
    for i, group in enumerate(found["groups"]):
        group |= {"called_out": i >= 2, "log_evidence": None if i == 0 else float(i)}
    sentence = next(sentence for sentence in monitor.verdict(found) if sentence.startswith("23 of 25 groups show "))
    assert sentence.endswith(" and 13 more.")
    assert sentence.count("percentage points") == 10
    table = monitor.groups(found)
    assert table is not None
    assert [row[0] for row in table.rows] == [f"group {i:02}" for i in range(24, 4, -1)]
    assert len(table.columns["group"]) == 25
    assert monitor.groups_heading(found) == "The 20 of 25 groups with the most evidence"


def test_evidence_of_the_groups_alone_describes_no_drift_of_all_rows() -> None:
    rng = np.random.default_rng(0)
    watch = calibrant.Monitor()
    for t in range(12):
        scores, group = rng.uniform(0.3, 0.7, 600), np.arange(600) % 2
        watch.update(scores, rng.random(600) < expit(logit(scores) + 0.3 * (1 - 2 * group)), groups=group, label=f"{t}")
    found = watch.to_dict()
    assert max(part["log_evidence_of_rows"] for part in found["slices"]) < math.log(20)
    sentences = monitor.verdict(found)
    assert sentences[0].startswith("Alarm: the model is no longer calibrated (p ")
    assert sentences[2] == "The evidence comes from the groups. All rows together would not raise an alarm."
    assert sentences[3].startswith("2 of 2 groups show evidence")
    assert len(sentences) == 4
    assert [picture.chart["upright"] for picture in monitor.pictures(found)] == [None, None]


def test_a_group_can_be_flagged_without_an_overall_alarm() -> None:
    found = summary(groups=("north", "south"))
    found["groups"][0] |= {"called_out": True}
    sentences = monitor.verdict(found)
    assert sentences[0].startswith("1 of 2 groups shows evidence")
    assert sentences[1].startswith("No overall alarm after 16 slices")
    assert monitor.heading(found) == ("Alarm for 1 of 2 groups", "bad")


def test_the_promise_of_a_threshold() -> None:
    found = promised()
    (promise,) = found["promises"]
    wrong, rows = promise["n_errors"], promise["n_automatic"]
    assert 0 < wrong / rows < 0.1
    decisions = f"{wrong:.0f} of {rows:,.0f} automatic decisions are wrong"
    (sentence,) = monitor.promises(found)
    assert sentence == (
        f"The promise of the threshold 0.87 is kept so far: {decisions} ({100 * wrong / rows:.3g} %, bound 10 %)."
    )
    assert sentence in monitor.verdict(found)
    above = promised(risk=0.12, log_evidence=math.log(3.24))
    assert monitor.promises(above) == [
        f"No alarm for the promise of the threshold 0.87: {decisions} (12 %, bound 10 %). This may be chance "
        "(E = 3.2, alarm at 20)."
    ]
    broken = promised(risk=0.16, log_evidence=math.log(352), broken=True)
    alarm = f"Alarm: the promise of the threshold 0.87 is broken (p ≤ 0.003): {decisions} (16 %, bound 10 %)."
    assert monitor.promises(broken) == [alarm]
    first, second, *_ = monitor.verdict(broken)
    assert first == alarm
    assert second.startswith("No overall alarm after 16 slices")
    assert monitor.heading(broken) == ("Alarm: a promise is broken", "bad")
    late = promised(risk=0.08, log_evidence=math.log(352), broken=True)
    assert monitor.promises(late)[0].endswith("(8 %, bound 10 %), and later slices are above the bound.")
    one = promised(n_errors=1.0, risk=0.001)
    assert " 1 of " in monitor.promises(one)[0]
    assert " automatic decisions is wrong" in monitor.promises(one)[0]
    none = promised(n_automatic=0.0, n_errors=0.0, risk=None)
    assert monitor.promises(none) == [
        "Nothing is known yet about the promise of the threshold 0.87, because no decision was automatic."
    ]


def test_the_promises_of_two_sides() -> None:
    found = summary(promises=(("yes", 0.9, 0.1), ("no", 0.0625, 0.2)))
    yes, no = monitor.promises(found)
    assert yes.startswith('The promise of the threshold 0.9 of "yes" is kept so far: ')
    assert no.startswith('The promise of the threshold 0.0625 of "no" is kept so far: ')
    assert ("largest error rate", '"yes" 10 %, "no" 20 %') in html.facts(found, {}, "")
    exact = found | {"promises": [found["promises"][0] | {"value": 0.9999}]}
    assert "the threshold 0.9999 is kept" in monitor.promises(exact)[0]


def test_no_slices_and_one() -> None:
    found = calibrant.Monitor().to_dict()
    first, guarantee = monitor.verdict(found)
    assert first == "No slices have been added yet."
    assert guarantee.startswith("A model that stays calibrated")
    assert monitor.heading(found) == ("No slices yet", "")
    assert (monitor.headline(found), monitor.pictures(found), monitor.slices(found).rows) == ("0 slices", [], [])
    found = summary(slices=1)
    assert monitor.verdict(found)[0].startswith("No alarm after 1 slice (500 rows): ")
    assert monitor.pictures(found) == []


def test_evidence_that_is_not_a_float() -> None:
    found = infinite().to_dict()
    assert found["evidence"] is None
    sentences = monitor.verdict(found)
    assert sentences[1].startswith("The evidence against calibration has reached E = more than 1e300 in 3 slices")
    assert monitor.slices(found).rows[-1][3] == "> 1e300"
    assert "calibrant_monitor_evidence +Inf\n" in monitor.prometheus(found)


@pytest.mark.parametrize(
    ("evidence", "alpha", "shown"),
    [
        (0.0018, 0.05, "0.0018"),
        (0.26, 0.05, "0.26"),
        (1.0, 0.05, "1.0"),
        (19.97, 0.05, "19.97"),
        (20.0, 0.05, "20.0"),
        (331.4, 0.05, "331"),
        (999.9, 0.001, "999.9"),
        (33.33, 0.03, "33.3"),
        (999_999.0, 0.05, "999,999"),
        (3.24e6, 0.05, "3.2e6"),
        (1e299, 0.05, "1.0e299"),
    ],
)
def test_evidence_is_rounded_but_never_up_to_the_alarm(evidence: float, alpha: float, shown: str) -> None:
    assert monitor.evidence_text(math.log(evidence), {"alpha": alpha}) == shown


@pytest.mark.parametrize(("alpha", "shown"), [(0.05, "20"), (0.03, "33.3"), (0.001, "1,000"), (0.5, "2"), (0.1, "10")])
def test_the_alarm_in_words(alpha: float, shown: str) -> None:
    assert monitor.bound_text({"alpha": alpha}) == shown


def test_the_bound_of_a_p_value_is_never_below_it() -> None:
    for p_value, shown in ((0.0500, "≤ 0.05"), (0.0028, "≤ 0.003"), (0.0120001, "≤ 0.013"), (0.0002, "< 0.001")):
        found = summary("down") | {"p_value": p_value}
        assert monitor.verdict(found)[0] == f"Alarm: the model is no longer calibrated (p {shown})."


# ---------------------------------------------------------------- the terminal


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("width", [80, 60])
def test_lines_fit_and_nothing_acts_on_the_terminal(name: str, width: int) -> None:
    found = EVERY[name]()
    for style in (Style(width=width), Style(width=width, unicode=False)):
        text = monitor.render(found, title=f"title {EVIL}", style=style)
        assert max(map(len, text.splitlines())) <= width
        assert all(c.isprintable() or c == "\n" for c in text)
        if not style.unicode:
            assert not set(GLYPHS) & set(text)
        else:
            joined = " ".join(text.split())
            assert all(" ".join(sentence.split()) in joined for sentence in monitor.verdict(found))
    assert "\x1b[" in monitor.render(found, style=Style(colour=True))


def test_a_command_stays_on_its_line() -> None:
    lines = monitor.render(summary("down"), style=Style(width=70)).splitlines()
    assert "  Next: calibrant recalibrate window.cal --map map.json" in lines
    assert any("--since-onset window.cal" in line for line in lines)
    for width in range(45, 90):
        text = monitor.render(summary(), style=Style(width=width))
        assert re.search(r"\bE = \d\.\d,", text), text


def test_the_last_slices_are_listed() -> None:
    found = long()
    text = monitor.render(found)
    assert "The last 12 of 520 slices" in text
    assert re.findall(r"^  day (\d+) ", text, re.MULTILINE) == [str(i) for i in range(509, 521)]
    assert "\nSlices\n" in monitor.render(summary(slices=12))
    assert str(watched()) == monitor.render(summary())
    assert repr(watched()).startswith("<Monitor: No alarm after 16 slices (8,000 rows): ")


def test_weights_that_are_not_rows() -> None:
    watch = calibrant.Monitor(max_weight=2)
    watch.update([0.2, 0.8, 0.5], [0, 1, 1], weights=[0.5, 1.5, 0.7])
    found = watch.to_dict()
    assert monitor.headline(found) == "1 slice, weight 2.7 (event: outcome = 1)"
    assert monitor.slices(found).headings[1] == "weight"


# ---------------------------------------------------------------- the page and Markdown


@cache
def page_of(name: str) -> Page:
    return read(html.page(EVERY[name](), title=EVIL))


@pytest.mark.parametrize("name", EVERY)
def test_a_page_is_well_formed_and_shows_every_sentence(name: str) -> None:
    found, page = EVERY[name](), page_of(name)
    shown = " ".join("".join(page.text).replace("\N{NO-BREAK SPACE}", " ").split())
    for sentence in (*monitor.verdict(found), *monitor.remarks(found), monitor.heading(found)[0]):
        assert " ".join(sentence.split()) in shown
    assert not page.all("b", of="")
    assert html.kind_of(found) == "monitor"
    assert read(html.cell(found, lambda: "")).open == []
    assert len(page.all("figure")) == (0 if len(found["slices"]) < 2 else 2)


@pytest.mark.parametrize("name", ["groups", "long"])
def test_the_files_of_a_page_hold_all_numbers_and_its_tables_the_last(name: str) -> None:
    found, page = EVERY[name](), page_of(name)
    files = page.files()
    rows = files["slices.csv"]
    assert [row["slice"] for row in rows] == [part["label"] for part in found["slices"]]
    for key in ("n", "difference", "log_evidence", "low", "high"):
        assert numbers(rows, key) == [part[key] for part in found["slices"]]
    if name == "groups":
        assert float(rows[-1]["mean_difference"]) == pytest.approx(found["mean_difference"], rel=1e-9)
    assert [row["group"] for row in files["groups.csv"]] == [group["name"] for group in found["groups"]]
    assert numbers(files["groups.csv"], "log_evidence") == [group["log_evidence"] for group in found["groups"]]
    assert [row["flagged"] for row in files["groups.csv"]] == [str(group["called_out"]) for group in found["groups"]]
    slices, groups = page.tables
    assert slices[0] == ["slice", "rows", "difference", "E", "mean so far", "95 % CI"]
    assert [row[0] for row in slices[1:]] == [part["label"] for part in found["slices"][-12:]]
    last = found["slices"][-1]
    assert slices[-1][2] == f"{last['difference']:+.4f}"
    assert slices[-1][5] == f"{last['low']:+.4f} – {last['high']:+.4f}"
    assert groups[0] == ["group", "rows", "difference", "adjusted E", "flagged"]


def test_the_pictures_stand_where_the_numbers_say() -> None:
    found = summary("down")
    evidence, difference = (picture.chart for picture in monitor.pictures(found))
    x, y = evidence["x"], evidence["y"]
    for i, (left, top, text) in enumerate(evidence["marks"]):
        part = found["slices"][i]
        assert (left, top) == (x.at(i), y.at(part["log_evidence"] / math.log(10)))
        assert text.startswith(f"{part['label']}: E = ")
    looks = dict(evidence["lines"])
    assert looks["other"].startswith(f"M{x.at(0):g} {y.at(math.log10(20)):g}L")
    assert evidence["upright"] == x.at(found["drift"]["first"])
    assert y.low < min(part["log_evidence"] for part in found["slices"]) / math.log(10)
    for place, text in y.ticks():
        power = {"0.1": -1, "1": 0, "10": 1, "100": 2, "1,000": 3}.get(text)
        if power is None:
            power = int(text.removeprefix("10").translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")))
        assert place == y.at(power)
    for i, (left, top, text) in enumerate(difference["marks"]):
        part = found["slices"][i]
        assert (left, top) == (difference["x"].at(i), difference["y"].at(part["difference"]))
        assert f"difference {part['difference']:+.4f}, 500 rows; mean so far" in text
    assert difference["band"]
    assert difference["x"].ticks()[-1][1] == "2026-W16"


@pytest.mark.parametrize("slices", [2, 3, 8, 31, 61, 520])
@pytest.mark.parametrize("label", ["{}", "2026-W{}", "a label that is much too long {}", "日本語のラベル{}"])
def test_the_names_of_slices_do_not_touch(slices: int, label: str) -> None:
    found = long(slices)
    for i, part in enumerate(found["slices"]):
        part["label"] = label.format(i + 1)
    for picture in monitor.pictures(found):
        ticks = picture.chart["x"].ticks()
        widths = [sum(map(drawing._width, text)) for _, text in ticks]
        assert ticks[-1][1] == drawing.fit(found["slices"][-1]["label"], 90)
        for (left, right), (first, second) in zip(pairwise(place for place, _ in ticks), pairwise(widths), strict=True):
            assert right - left > (first + second) / 2
        assert ticks[-1][0] + widths[-1] / 2 <= drawing.WIDTH + 4
        assert len(picture.chart["marks"]) <= 25


def test_of_many_slices_some_are_drawn_together() -> None:
    found = long()
    _, picture = monitor.pictures(found)
    assert "of 9 slices at a time." in picture.caption
    _, path = picture.chart["lines"][-1]
    assert path.count("L") == math.ceil(520 / 9) - 1
    block = found["slices"][:9]
    first = np.average([part["difference"] for part in block], weights=[part["n"] for part in block])
    left, top, text = picture.chart["marks"][0]
    assert (left, top) == (picture.chart["x"].at(8), picture.chart["y"].at(first))
    assert text.startswith(f"day 1 to day 9: difference {first:+.4f}, 4,500 rows; mean so far {first:+.4f}, 95 % CI ")
    assert picture.chart["marks"][-1][2].startswith("day 514 to day 520: ")


def test_the_facts_of_a_page() -> None:
    facts = dict(html.facts(summary("down", tolerance=0.02), {}, ""))
    assert facts["predictions"] == "8,000"
    assert facts["alarm"] == "from E = 20 on"
    assert facts["tolerance"] == "2 percentage points"
    assert "largest error rate" not in facts
    assert dict(html.facts(promised(), {}, ""))["largest error rate"] == "10 %"


@pytest.mark.parametrize("name", EVERY)
def test_markdown_shows_the_verdict_and_the_tables(name: str) -> None:
    found = EVERY[name]()
    source = markdown.render(found)
    assert source.startswith("## Calibration monitor\n")
    first, *others = monitor.verdict(found)
    assert f"**{markdown.text(first)}**" in source
    assert all(markdown.text(sentence) in source for sentence in others)
    rows = cells(source)
    assert sum(row[0] == "slice" for row in rows) == bool(found["slices"])
    if name != "hostile":
        assert [row[0] for row in rows[1:13]][: len(found["slices"])] == [
            part["label"] for part in found["slices"][-12:]
        ]
    headings = [token.content for before, token in pairwise(PARSER.parse(source)) if before.type == "heading_open"]
    assert ("Groups" in headings) == (0 < len(found["groups"]) <= 20)
    assert source.count("<details>") == 1


# ---------------------------------------------------------------- Prometheus

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
VALUE = r"(?:[+-]?Inf|NaN|[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? ({VALUE})")


def metrics(text: str) -> dict[tuple[str, str], float]:
    """Return the samples of the text format; each line must be valid, and all of a metric follow its type."""
    assert text.endswith("\n")
    samples: dict[tuple[str, str], float] = {}
    current, seen = "", []
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            assert re.fullmatch(rf"# HELP {NAME} [^\n\\]+", line), line
            current = line.split()[2]
            assert current not in seen
            seen.append(current)
        elif line.startswith("# TYPE "):
            assert line == f"# TYPE {current} gauge"
        else:
            match = SAMPLE.fullmatch(line)
            assert match, line
            assert match[1] == current
            assert (match[1], match[2] or "") not in samples
            samples[match[1], match[2] or ""] = float(match[3])
    return samples


@pytest.mark.parametrize("name", EVERY)
def test_metrics_are_those_of_the_dictionary(name: str) -> None:
    found = EVERY[name]()
    text = monitor.prometheus(found)
    text.encode()
    samples = metrics(text)
    expected = {
        "evidence": math.inf if found["evidence"] is None else found["evidence"],
        "log10_evidence": math.inf if found["log_evidence"] is None else found["log_evidence"] / math.log(10),
        "p_value": found["p_value"],
        "alarm": float(found["alarm"]),
        "slices": len(found["slices"]),
        "rows": found["n"],
        "mean_difference": math.nan if found["mean_difference"] is None else found["mean_difference"],
    }
    for key, value in expected.items():
        np.testing.assert_equal(samples[f"calibrant_monitor_{key}", ""], value)
    assert len(samples) == 7 + 2 * len(found["groups"]) + 3 * len(found["promises"])
    for metric, key in (("group_log10_evidence", "log_evidence"), ("group_called_out", "called_out")):
        values = [value for (found_name, _), value in samples.items() if found_name == f"calibrant_monitor_{metric}"]
        scale = math.log(10) if key == "log_evidence" else 1
        wanted = [math.inf if scale != 1 and group["impossible"] else group[key] / scale for group in found["groups"]]
        assert values == pytest.approx(wanted)


def test_labels_of_metrics_are_escaped() -> None:
    samples = metrics(monitor.prometheus(EVERY["hostile"]()))
    assert ("calibrant_monitor_group_called_out", 'group="ward \\"7\\"\\\\\\n| <b>x</b> \x07\\\\ud800"') in samples
    assert ("calibrant_monitor_group_called_out", 'group="b"') in samples


def test_metrics_of_promises() -> None:
    found = promised(risk=None)
    samples = metrics(monitor.prometheus(found))
    label = 'threshold="0.87",side="yes"'
    assert math.isnan(samples["calibrant_monitor_promise_risk", label])
    assert samples["calibrant_monitor_promise_broken", label] == 0
    log_evidence = found["promises"][0]["log_evidence"] / math.log(10)
    assert samples["calibrant_monitor_promise_log10_evidence", label] == pytest.approx(log_evidence)
    found = summary(groups=("a", "b"))
    found["groups"][0] |= {"log_evidence": None}
    assert math.isnan(metrics(monitor.prometheus(found))["calibrant_monitor_group_log10_evidence", 'group="a"'])
    assert watched().to_prometheus() == monitor.prometheus(summary())
