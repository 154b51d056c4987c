"""A monitor as text, page, Markdown and metrics: every sentence, and numbers as in its history."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from functools import cache
from html import unescape
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit

import calibrant
from calibrant.monitoring import prometheus
from calibrant.monitoring.history import History
from calibrant.monitoring.monitor_document import bound_text, document_of, evidence_text
from calibrant.render import markdown, page, svg, terminal
from calibrant.render.blocks import Document, Figures, Heading, Notes, Source, Table
from calibrant.render.figure import Band, Figure, Mark, Name, Polyline, Rule, Tips
from calibrant.render.line_figures import evidence_cut, evidence_figure
from calibrant.render.terminal import GLYPHS, Style
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


def history(*arguments: Any, **options: Any) -> History:
    return watched(*arguments, **options).history


def long(slices: int = 520, label: str = "day {}") -> History:
    """Return a monitor with as many slices, those of a shorter one again and again."""
    found = history("down", groups=tuple(f"group {i:02}" for i in range(25)))
    repeated = [found.slices[i % 16]._replace(label=label.format(i + 1)) for i in range(slices)]
    return found._replace(slices=tuple(repeated))


def promised(**changed: Any) -> History:
    """Return a calibrated monitor with one promise."""
    found = history(promises=(("yes", 0.87, 0.1),))
    return found._replace(promises=(found.promises[0]._replace(**changed),))


def document(found: History) -> Document:
    return document_of(found, Source(), full=True)


def verdict(found: History) -> list[str]:
    return document(found).sentences


def figures(found: History) -> list[Figure]:
    return [figure for block in document(found).blocks if isinstance(block, Figures) for figure in block.figures]


def marks(figure: Figure, kind: type[Mark], look: str = "") -> list[Any]:
    return [mark for mark in figure.marks if isinstance(mark, kind) and getattr(mark, "look", "") in ("", look)]


def table(found: History, name: str) -> Table:
    (own,) = (block for block in document(found).blocks if isinstance(block, Table) and block.name == name)
    return own


def rows(found: History, name: str) -> list[list[str]]:
    own = table(found, name)
    return [own.cells(place) for place in own.places]


def promises(found: History) -> list[str]:
    return [sentence for sentence in verdict(found) if "promised error rate of the threshold" in sentence]


def remarks(found: History) -> list[str]:
    return [remark for block in document(found).blocks if isinstance(block, Notes) for remark in block.sentences]


def in_terminal(found: History, **options: Any) -> str:
    return terminal.to_terminal(document_of(found, Source(), full=False), **options)


def drift_of(found: History) -> calibrant.Drift:
    assert found.drift is not None
    return found.drift


def headings(found: History) -> list[str]:
    return [block.text for block in document(found).blocks if isinstance(block, Heading)]


EVERY = {
    "calibrated": history,
    "level": lambda: history("down"),
    "under": lambda: history("up"),
    "top label": lambda: history("down", top_label=True),
    "extreme": lambda: history("extreme"),
    "moderate": lambda: history("moderate"),
    "range": lambda: history("range", slices=30),
    "several": lambda: history("several"),
    "groups": lambda: history("down", groups=("north", "south")),
    "tolerance": lambda: history(tolerance=0.02),
    "promise": promised,
    "hostile": lambda: history("down", groups=(HOSTILE, "b"), label=f"{HOSTILE} {{}}"),
    "empty": lambda: calibrant.Monitor().history,
    "one slice": lambda: history(slices=1),
    "two slices": lambda: history(slices=2),
    "long": long,
    "infinite": lambda: infinite().history,
    "impossible": lambda: impossible(groups=True).history,
    "few events": lambda: repeated(1).history,
    "repeated": lambda: repeated(14).history,
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
    found = history()
    first, difference, guarantee = verdict(found)
    evidence, p_value = found.evidence, found.p_value
    assert 1 < evidence < 20
    assert first == (
        f"No alarm after 16 slices (8,000 rows): evidence against calibration E = {evidence:.1f} "
        f"(p = {p_value:.2f}); an alarm needs E = 20."
    )
    last = found.slices[-1]
    value, low, high = 100 * found.mean_difference, 100 * last.low, 100 * last.high
    assert difference == (
        "Over all slices, there is no clear over- or underestimation: mean predicted probability minus observed "
        f"frequency {value:+.1f} percentage points (95 % CI {low:+.1f} to {high:+.1f}, valid at any time)."
    )
    assert guarantee == (
        "A model that stays calibrated raises an alarm with a probability of at most 5 % over its whole life."
    )
    assert document(found).conclusion == ("No alarm after 16 slices", "")
    assert {tone for _, tone in document(found).verdict} == {""}
    assert document(found).headline == "16 slices, 8,000 rows (event: outcome = 1)"


def test_a_difference_that_is_clear_before_an_alarm_has_its_direction() -> None:
    found = history()
    last = found.slices[-1]._replace(low=0.002, high=0.021)
    found = found._replace(slices=(*found.slices[:-1], last), mean_difference=0.0121)
    assert verdict(found)[1] == (
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
    found = history(kind, **options)
    drift, (alarm, reached, since, *_) = drift_of(found), verdict(found)
    assert alarm == "Alarm: the model is no longer calibrated (p < 0.001)."
    digits, power = f"{found.evidence:.1e}".split("e")
    assert reached == (
        f"The evidence against calibration has reached E = {digits}e{int(power)} in 16 slices (8,000 rows). "
        "The alarm is at 20."
    )
    ends = sorted((abs(100 * drift.low), abs(100 * drift.high)))
    about = f"Since about {drift.since} (90 % credible interval {drift.earliest} to {drift.latest})"
    if drift.earliest == drift.latest:
        about = f"Since {drift.since} (90 % credible interval: this slice alone)"
    size = direction.format(f"{abs(100 * drift.difference):.1f}")
    assert since == f"{about}, {size} (95 % CI {ends[0]:.1f} to {ends[1]:.1f})."
    assert document(found).conclusion == ("Alarm: the model is no longer calibrated", "bad")
    assert verdict(found)[-2:] == [
        "Pass --since-onset window.cal to write the rows since the start of the drift (since_onset() in Python).",
        "Next: calibrant recalibrate window.cal --map new_map.json",
    ]


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (
            "down",
            "The log-odds of all scores are wrong by the same amount, so recalibration by a constant suffices "
            "(about {offset:+.2f} in log-odds).",
        ),
        (
            "extreme",
            "The calibration slope has drifted: predictions are too extreme. Recalibration by a slope suffices "
            "(about {slope:.2f}).",
        ),
        (
            "moderate",
            "The calibration slope has drifted: predictions are too moderate. Recalibration by a slope suffices "
            "(about {slope:.2f}).",
        ),
        ("range", "The scores in one range are miscalibrated, so fit a new recalibration map."),
        ("several", "There are several kinds of errors, so fit a new recalibration map."),
    ],
)
def test_the_kind_of_a_drift_and_what_suffices(kind: str, sentence: str) -> None:
    found = history(kind, slices=30 if kind == "range" else 16)
    if kind == "several":  # no family has most of the evidence
        found = found._replace(drift=replace(drift_of(found), family="several"))
    assert verdict(found)[3] == sentence.format(**vars(found.drift))


def test_an_unclear_direction_is_said() -> None:
    found = history("extreme")
    drift = drift_of(found)
    assert drift.low < 0 < drift.high
    value, low, high = (f"{100 * getattr(drift, key):+.1f}" for key in ("difference", "low", "high"))
    assert verdict(found)[2].endswith(
        "there is no clear over- or underestimation: mean predicted probability minus observed frequency "
        f"{value} percentage points (95 % CI {low} to {high})."
    )
    found = found._replace(drift=replace(drift, earliest="2026-W07", latest="2026-W11"))
    assert verdict(found)[2].startswith("Since about 2026-W09 (90 % credible interval 2026-W07 to 2026-W11), there is")


def test_a_model_that_never_was_calibrated_is_not_called_drifted() -> None:
    found = history("down", first=0)
    assert drift_of(found).first == 0
    assert verdict(found)[0] == "Alarm: the model is not calibrated (p < 0.001)."
    assert document(found).conclusion.text == "Alarm: the model is not calibrated"


def test_a_tolerance_is_named() -> None:
    sentences = verdict(history(tolerance=0.02))
    assert (
        sentences[1]
        == "Tolerance: true probabilities within 2 percentage points of the score are treated as calibrated."
    )
    assert sentences[-1].startswith("A model that stays calibrated within the tolerance raises an alarm")
    sentences = verdict(history("several", tolerance_odds=1.25, alpha=0.01))
    assert sentences[0] == "Alarm: the model is no longer calibrated within the tolerance (p < 0.001)."
    assert sentences[1].endswith(" The alarm is at 100.")
    assert (
        sentences[2]
        == "Tolerance: true odds within a factor of 1.25 of the odds of the score are treated as calibrated."
    )
    assert "(99 % CI " in sentences[3]


def test_impossible_outcomes_are_the_first_sentence() -> None:
    found = verdict(impossible().history)
    assert found[:2] == [
        "Alarm: 2 outcomes are impossible according to the scores: 1 event with a score of 0 and 1 non-event with a "
        "score of 1. A calibrated model never has such outcomes, so p = 0.",
        "If the scores were only rounded to 0 and 1, use the evidence of a drift instead: E = 3.8, alarm at 20. In "
        "that case, start a new state with the largest rounding error as --tolerance, such as "
        "0.005 for two decimal places.",
    ]
    assert not any("calibrant recalibrate" in sentence for sentence in found)
    assert [row[3] for row in rows(impossible().history, "slices")] == ["0.91", "infinite", "infinite"]
    of_groups = impossible(groups=True).history
    assert [row[3] for row in rows(of_groups, "groups")] == ["infinite", "infinite"]
    assert "2 of 2 groups show evidence of miscalibration" in " ".join(verdict(of_groups))
    assert document(of_groups).conclusion == ("Alarm: the model is not calibrated", "bad")


def test_slices_with_equal_rows_are_a_caution() -> None:
    named = ", ".join(f"w{t}" for t in range(10))
    first, second = document(repeated(14).history).verdict[:2]
    assert first == (f"Caution: the slices {named} and 4 more contain identical rows.", "caution")
    assert second[0].startswith("If rows were added twice, the evidence is not valid")


def test_too_few_rows_have_no_interval_yet() -> None:
    found = repeated(1).history
    assert verdict(found)[1] == (
        "Over all slices, mean predicted probability minus observed frequency is "
        "+0.14 percentage points. There are not yet enough rows for a useful CI."
    )
    assert rows(found, "slices")[0][-1] == "not yet"


def test_groups_that_are_flagged_are_named() -> None:
    found = history("down", groups=("north", "south"))
    shares = [f"{100 * group.difference:+.1f} percentage points" for group in found.groups]
    sentence = verdict(found)[4]
    assert sentence == (
        f"2 of 2 groups show evidence of miscalibration after closed testing: north ({shares[0]}), south ({shares[1]})."
    )
    found = found._replace(groups=(found.groups[0]._replace(called_out=False), found.groups[1]))
    sentence = f"1 of 2 groups shows evidence of miscalibration after closed testing: south ({shares[1]})."
    assert verdict(found)[4] == sentence
    found = history(groups=("north", "south"))
    assert verdict(found)[2] == ("No group shows evidence of miscalibration after closed testing (2 groups).")
    assert verdict(history(groups=("all",)))[2].endswith("(1 group).")


def test_of_many_groups_ten_are_named_and_twenty_are_listed() -> None:
    found = long()
    groups = [group._replace(called_out=i >= 2, log_evidence=float(i)) for i, group in enumerate(found.groups)]
    found = found._replace(groups=tuple(groups))
    sentence = next(sentence for sentence in verdict(found) if sentence.startswith("23 of 25 groups show "))
    assert sentence.endswith(" and 13 more.")
    assert sentence.count("percentage points") == 10
    assert [row[0] for row in rows(found, "groups")] == [f"group {i:02}" for i in range(24, 4, -1)]
    assert len(table(found, "groups").exact["group"]) == 25
    assert headings(found)[-1] == "The 20 of 25 groups with the largest adjusted E"


def test_evidence_of_the_groups_alone_describes_no_drift_of_all_rows() -> None:
    rng = np.random.default_rng(0)
    watch = calibrant.Monitor()
    for t in range(12):
        scores, group = rng.uniform(0.3, 0.7, 600), np.arange(600) % 2
        watch.update(scores, rng.random(600) < expit(logit(scores) + 0.3 * (1 - 2 * group)), groups=group, label=f"{t}")
    found = watch.history
    assert max(part.log_evidence_of_rows for part in found.slices) < math.log(20)
    sentences = verdict(found)
    assert sentences[0].startswith("Alarm: the model is no longer calibrated (p ")
    assert sentences[2] == (
        "The evidence against calibration comes from individual groups. All rows together would not raise an alarm."
    )
    assert sentences[3].startswith("2 of 2 groups show evidence")
    assert len(sentences) == 4
    assert not any(rule.axis == "x" for picture in figures(found) for rule in marks(picture, Rule, "zero"))


def test_the_promise_of_a_threshold() -> None:
    found = promised()
    (promise,) = found.promises
    wrong, n = promise.n_errors, promise.n_automatic
    assert 0 < wrong / n < 0.1
    decisions = f"{wrong:.0f} of {n:,.0f} automatic decisions are wrong"
    (sentence,) = promises(found)
    assert sentence == (
        f"The promised error rate of the threshold 0.87 is kept so far: {decisions} "
        f"({100 * wrong / n:.3g} %, bound 10 %)."
    )
    above = promised(risk=0.12, log_evidence=math.log(3.24))
    assert promises(above) == [
        f"No alarm for the promised error rate of the threshold 0.87: {decisions} "
        "(12 %, bound 10 %). The excess over the bound may be chance "
        "(E = 3.2, alarm at 20)."
    ]
    broken = promised(risk=0.16, log_evidence=math.log(352), broken=True)
    alarm = (
        f"Alarm: the promised error rate of the threshold 0.87 is exceeded (p ≤ 0.003): {decisions} (16 %, bound 10 %)."
    )
    assert promises(broken) == [alarm]
    first, second, *_ = verdict(broken)
    assert first == alarm
    assert second.startswith("No overall alarm after 16 slices")
    assert document(broken).conclusion == ("Alarm: a threshold does not keep its promised error rate", "bad")
    late = promised(risk=0.08, log_evidence=math.log(352), broken=True)
    assert promises(late)[0].endswith("(8 %, bound 10 %); the error rate of later slices is above the bound.")
    one = promised(n_errors=1.0, risk=0.001)
    assert " 1 of " in promises(one)[0]
    assert " automatic decisions is wrong" in promises(one)[0]
    none = promised(n_automatic=0.0, n_errors=0.0, risk=math.nan)
    assert promises(none) == [
        "Nothing is known yet about the promised error rate of the threshold 0.87, because no decision was automatic."
    ]


def test_the_promises_of_two_sides() -> None:
    found = history(promises=(("yes", 0.9, 0.1), ("no", 0.0625, 0.2)))
    yes, no = promises(found)
    assert yes.startswith('The promised error rate of the threshold 0.9 of "yes" is kept so far: ')
    assert no.startswith('The promised error rate of the threshold 0.0625 of "no" is kept so far: ')
    assert ("largest error rate", '"yes" 10 %, "no" 20 %') in document(found).facts
    exact = promised(value=0.9999)
    assert "the threshold 0.9999 is kept" in promises(exact)[0]


def test_no_slices_and_one() -> None:
    found = calibrant.Monitor().history
    first, guarantee = verdict(found)
    assert first == "No slices have been added yet."
    assert guarantee.startswith("A model that stays calibrated")
    assert document(found).conclusion == ("No slices yet", "")
    assert (document(found).headline, figures(found), headings(found)) == ("0 slices", [], [])
    found = history(slices=1)
    assert verdict(found)[0].startswith("No alarm after 1 slice (500 rows): ")
    assert figures(found) == []


def test_evidence_that_is_not_a_float() -> None:
    found = infinite().history
    assert found.evidence == math.inf
    sentences = verdict(found)
    assert sentences[1].startswith("The evidence against calibration has reached E = more than 1e300 in 3 slices")
    assert rows(found, "slices")[-1][3] == "> 1e300"
    assert "calibrant_monitor_evidence +Inf\n" in prometheus.to_text(found)


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
    assert evidence_text(math.log(evidence), alpha) == shown


@pytest.mark.parametrize(("alpha", "shown"), [(0.05, "20"), (0.03, "33.3"), (0.001, "1,000"), (0.5, "2"), (0.1, "10")])
def test_the_alarm_in_words(alpha: float, shown: str) -> None:
    assert bound_text(alpha) == shown


def test_the_bound_of_a_p_value_is_never_below_it() -> None:
    for p_value, shown in ((0.0500, "≤ 0.05"), (0.0028, "≤ 0.003"), (0.0120001, "≤ 0.013"), (0.0002, "< 0.001")):
        found = history("down")._replace(p_value=p_value)
        assert verdict(found)[0] == f"Alarm: the model is no longer calibrated (p {shown})."


# ---------------------------------------------------------------- the terminal


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("width", [80, 60])
def test_lines_fit_and_nothing_acts_on_the_terminal(name: str, width: int) -> None:
    found = EVERY[name]()
    for style in (Style(width=width), Style(width=width, unicode=False)):
        text = in_terminal(found, title=f"title {EVIL}", style=style)
        assert max(map(len, text.splitlines())) <= width
        assert all(c.isprintable() or c == "\n" for c in text)
        if not style.unicode:
            assert not set(GLYPHS) & set(text)
        else:
            joined = " ".join(text.split())
            assert all(" ".join(sentence.split()) in joined for sentence in verdict(found))
    assert "\x1b[" in in_terminal(found, style=Style(colour=True))


def test_a_command_stays_on_its_line() -> None:
    lines = in_terminal(history("down"), style=Style(width=70)).splitlines()
    assert "  Next: calibrant recalibrate window.cal --map new_map.json" in lines
    assert any("--since-onset window.cal" in line for line in lines)
    for width in range(45, 90):
        text = in_terminal(history(), style=Style(width=width))
        assert re.search(r"\bE = \d\.\d\b", text), text


def test_the_last_slices_are_listed() -> None:
    found = long()
    text = in_terminal(found)
    assert "The last 12 of 520 slices" in text
    assert re.findall(r"^  day (\d+) ", text, re.MULTILINE) == [str(i) for i in range(509, 521)]
    assert "\nSlices\n" in in_terminal(history(slices=12))
    assert str(watched()) == in_terminal(history())
    assert repr(watched()).startswith("<Monitor: No alarm after 16 slices (8,000 rows): ")


def test_weights_that_are_not_rows() -> None:
    watch = calibrant.Monitor(max_weight=2)
    watch.update([0.2, 0.8, 0.5], [0, 1, 1], weights=[0.5, 1.5, 0.7])
    found = watch.history
    assert document(found).headline == "1 slice, weight 2.7 (event: outcome = 1)"
    assert table(found, "slices").headings[1] == "weight"


# ---------------------------------------------------------------- the page and Markdown


@cache
def page_of(name: str) -> Page:
    return read(page.to_page(document(EVERY[name]()), title=EVIL))


@pytest.mark.parametrize("name", EVERY)
def test_a_page_is_well_formed_and_shows_every_sentence(name: str) -> None:
    found, shown = EVERY[name](), page_of(name)
    text = " ".join("".join(shown.text).replace("\N{NO-BREAK SPACE}", " ").split())
    for sentence in (*verdict(found), *remarks(found), document(found).conclusion.text):
        assert " ".join(sentence.split()) in text
    assert len(shown.all("figure")) == len(shown.all("b")) == (0 if len(found.slices) < 2 else 2)
    assert read(page.to_cell(lambda: document(found), lambda: "")).open == []


@pytest.mark.parametrize("name", ["groups", "long"])
def test_the_files_of_a_page_hold_all_numbers_and_its_tables_the_last(name: str) -> None:
    found, shown = EVERY[name](), page_of(name)
    files = shown.files()
    file = files["slices.csv"]
    assert [row["slice"] for row in file] == [part.label for part in found.slices]
    for key in ("n", "difference", "log_evidence", "low", "high"):
        assert numbers(file, key) == [getattr(part, key) for part in found.slices]
    if name == "groups":
        assert float(file[-1]["mean_difference"]) == pytest.approx(found.mean_difference, rel=1e-9)
    assert [row["group"] for row in files["groups.csv"]] == [group.name for group in found.groups]
    assert numbers(files["groups.csv"], "log_evidence") == [group.log_evidence for group in found.groups]
    assert [row["flagged"] for row in files["groups.csv"]] == [str(group.called_out) for group in found.groups]
    slices, groups = shown.tables
    assert slices[0] == ["slice", "rows", "difference", "E", "mean so far", "95 % CI"]
    assert [row[0] for row in slices[1:]] == [part.label for part in found.slices[-12:]]
    last = found.slices[-1]
    assert slices[-1][2] == f"{last.difference:+.4f}"
    assert slices[-1][5] == f"{last.low:+.4f} – {last.high:+.4f}"
    assert groups[0] == ["group", "rows", "difference", "adjusted E", "flagged"]


def test_the_pictures_stand_where_the_numbers_say() -> None:
    found = history("down")
    evidence, difference = figures(found)
    n, values = len(found.slices), [min(part.log_evidence, evidence_cut(found.alpha)) for part in found.slices]
    (line,) = marks(evidence, Polyline, "curve")
    assert (list(line.x), list(line.y)) == (list(range(1, n + 1)), values)
    (tips,) = marks(evidence, Tips)
    for place, value, text in zip(tips.x, tips.y, tips.texts, strict=True):
        assert value == values[place - 1]
        assert text.startswith(f"{found.slices[place - 1].label}: E = ")
    (alarm,) = marks(evidence, Rule, "other")
    assert alarm.value == pytest.approx(math.log(20))
    assert [rule.value for rule in marks(evidence, Rule, "zero")] == [drift_of(found).first + 1]
    assert evidence.y.low < min(values) < max(values) < evidence.y.high
    for value, text in evidence.y.ticks():
        power = {"0.1": -1, "1": 0, "10": 1, "100": 2, "1,000": 3, "10,000": 4}.get(text)
        if power is None:
            power = int(text.removeprefix("10").translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")))
        assert value == pytest.approx(power * math.log(10))
    (line,), (tips,) = marks(difference, Polyline, "curve"), marks(difference, Tips)
    assert list(line.y) == pytest.approx([part.difference for part in found.slices])
    for place, text in zip(tips.x, tips.texts, strict=True):
        assert f"difference {found.slices[place - 1].difference:+.4f}, 500 rows; mean so far" in text
    assert marks(difference, Band, "sure")
    assert ticks(difference)[-1][1] == "2026-W16"


def ticks(figure: Figure) -> list[tuple[float, str]]:
    """Return what stands below a picture, with its place."""
    below = re.findall(r'<text class="tick" x="(\S+)" y="\S+" text-anchor="middle">(.*?)</text>', svg.picture(figure))
    return [(float(x), unescape(text)) for x, text in below]


@pytest.mark.parametrize("slices", [2, 3, 8, 31, 61, 520])
@pytest.mark.parametrize("label", ["{}", "2026-W{}", "a label that is much too long {}", "日本語のラベル{}"])
def test_the_names_of_slices_do_not_touch(slices: int, label: str) -> None:
    found = long(slices, label)
    for picture in figures(found):
        below = ticks(picture)
        widths = [svg.width_of(text) for _, text in below]
        assert below[-1][1] == svg.fit(Name((found.slices[-1].label,)), svg.TICK_WIDTH)
        places = [x for x, _ in below]
        for (left, right), (first, second) in zip(pairwise(places), pairwise(widths), strict=True):
            assert right - left > (first + second) / 2
        assert places[-1] + widths[-1] / 2 <= svg.WIDTH + 4.1
        assert svg.picture(picture).count("<title>") <= 25


def test_of_many_slices_some_are_drawn_together() -> None:
    found = long()
    _, picture = figures(found)
    assert "of 9 slices at a time." in picture.caption
    (line,), (tips,) = marks(picture, Polyline, "curve"), marks(picture, Tips)
    assert len(line.x) == math.ceil(520 / 9)
    block = found.slices[:9]
    first = np.average([part.difference for part in block], weights=[part.n for part in block])
    assert (tips.x[0], tips.y[0]) == (9, pytest.approx(first))
    start = f"day 1 to day 9: difference {first:+.4f}, 4,500 rows; mean so far {first:+.4f}, 95 % CI "
    assert tips.texts[0].startswith(start)
    assert tips.texts[-1].startswith("day 514 to day 520: ")


def test_the_facts_of_a_page() -> None:
    facts = dict(document(history("down", tolerance=0.02)).facts)
    assert facts["predictions"] == "8,000"
    assert facts["alarm"] == "at E = 20"
    assert facts["tolerance"] == "2 percentage points"
    assert facts["largest error rate"] == ""
    assert dict(document(promised()).facts)["largest error rate"] == "10 %"


@pytest.mark.parametrize("name", EVERY)
def test_markdown_shows_the_verdict_and_the_tables(name: str) -> None:
    found = EVERY[name]()
    source = markdown.to_markdown(document_of(found, Source(), full=False))
    assert source.startswith("## Calibration monitor\n")
    first, *others = verdict(found)
    assert f"**{markdown.text(first)}**" in source
    assert all(markdown.text(sentence) in source for sentence in others)
    rows = cells(source)
    assert sum(row[0] == "slice" for row in rows) == bool(found.slices)
    if name != "hostile":
        assert [row[0] for row in rows[1:13]][: len(found.slices)] == [part.label for part in found.slices[-12:]]
    headings = [token.content for before, token in pairwise(PARSER.parse(source)) if before.type == "heading_open"]
    assert ("Groups" in headings) == (0 < len(found.groups) <= 20)
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
    text = prometheus.to_text(found)
    text.encode()
    samples = metrics(text)
    expected = {
        "evidence": found.evidence,
        "log10_evidence": found.log_evidence / math.log(10),
        "p_value": found.p_value,
        "alarm": float(found.alarm),
        "slices": len(found.slices),
        "rows": found.n,
        "mean_difference": found.mean_difference,
    }
    for key, value in expected.items():
        np.testing.assert_equal(samples[f"calibrant_monitor_{key}", ""], value)
    assert len(samples) == 7 + 2 * len(found.groups) + 3 * len(found.promises)
    evidence = [math.inf if group.impossible else group.log_evidence / math.log(10) for group in found.groups]
    of_groups = {
        "group_log10_evidence": evidence,
        "group_called_out": [float(group.called_out) for group in found.groups],
    }
    for metric, wanted in of_groups.items():
        values = [value for (found_name, _), value in samples.items() if found_name == f"calibrant_monitor_{metric}"]
        assert values == pytest.approx(wanted)


def test_labels_of_metrics_are_escaped() -> None:
    samples = metrics(prometheus.to_text(EVERY["hostile"]()))
    assert ("calibrant_monitor_group_called_out", 'group="ward \\"7\\"\\\\\\n| <b>x</b> \x07\\\\ud800"') in samples
    assert ("calibrant_monitor_group_called_out", 'group="b"') in samples


def test_metrics_of_promises() -> None:
    found = promised(risk=math.nan)
    samples = metrics(prometheus.to_text(found))
    label = 'threshold="0.87",side="yes"'
    assert math.isnan(samples["calibrant_monitor_promise_risk", label])
    assert samples["calibrant_monitor_promise_broken", label] == 0
    log_evidence = found.promises[0].log_evidence / math.log(10)
    assert samples["calibrant_monitor_promise_log10_evidence", label] == pytest.approx(log_evidence)
    found = history(groups=("a", "b"))
    found = found._replace(groups=(found.groups[0]._replace(log_evidence=math.nan),))
    assert math.isnan(metrics(prometheus.to_text(found))["calibrant_monitor_group_log10_evidence", 'group="a"'])
    assert watched().to_prometheus() == prometheus.to_text(history())


@pytest.mark.parametrize("log_evidence", [[0.0, 3.0, 9.0], [0.0, 3.0, 60.0], [0.0, 1.0, 2.0]])
def test_the_title_of_an_axis_is_left_of_its_ticks(log_evidence: list[float]) -> None:
    """The tick 10,000 is the widest."""
    drawn = svg.picture(evidence_figure(["a", "b", "c"], log_evidence, 0.05))
    left = float(re.search(r'viewBox="(\S+)', drawn)[1])
    title = float(re.search(r"translate\((-?[\d.]+)", drawn)[1])
    ticks = re.findall(r'<text class="tick" x="([\d.]+)"[^>]*text-anchor="end">([^<]+)<', drawn)
    assert ticks
    assert title + 4 < min(float(x) - svg.width_of(text) for x, text in ticks)
    assert left <= title - 12


def test_a_narrow_table_has_no_interval_without_its_mean() -> None:
    """The interval is one of the mean so far; next to the difference of the slice it would be read as one of that."""
    columns = {
        column.heading: column.spare
        for column in next(block for block in document(history("down")).blocks if isinstance(block, Table)).columns
    }
    assert columns["95 % CI"] == columns["mean so far"] > columns["difference"]
    for width in range(45, 90):
        lines = in_terminal(history("down"), style=Style(width=width)).splitlines()
        (head,) = [line for line in lines if line.split()[:2] == ["slice", "rows"]]
        assert "mean so far" in head or "95 % CI" not in head
