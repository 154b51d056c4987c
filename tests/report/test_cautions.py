"""Every caution in the JSON of a report is also shown on the terminal, on the page and in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.results import Code

CLUSTER = "so intervals are wide and p-values conservative"
WEIGHTS = "few rows have most of the weight"
RARE = "fewer than 15"
ERRORS = "the scores predict only"
IMAGE = "rows of one image are assumed to be independent"


def scored(n: int, a: float = 2, b: float = 2) -> tuple[Any, Any, np.random.Generator]:
    rng = np.random.default_rng(7)
    probs = rng.beta(a, b, n)
    return probs, (rng.random(n) < probs).astype(int), rng


def of_large_cluster() -> calibrant.Report:
    probs, outcomes, _ = scored(1_200)
    return calibrant.evaluate(probs, outcomes, clusters=np.maximum(np.arange(1_200) // 6, 49))


def of_large_cluster_in_a_group() -> calibrant.Report:
    probs, outcomes, _ = scored(1_200)
    groups = np.where(np.arange(1_200) < 200, "small", "large")
    return calibrant.evaluate(probs, outcomes, clusters=np.maximum(np.arange(1_200) // 4, 24), groups=groups)


def of_large_cluster_with_classes() -> calibrant.Report:
    probs, _, rng = scored(1_200)
    clusters = np.maximum(np.arange(1_200) // 6, 49)
    both = np.stack([1 - probs, probs], axis=1)
    return calibrant.evaluate(both, rng.integers(0, 2, 1_200), notion="classwise", clusters=clusters)


def of_heavy_weights() -> calibrant.Report:
    probs, outcomes, rng = scored(3_000)
    weights = rng.uniform(0.5, 1.5, 3_000)
    weights[:40] = 150.5
    weights[:18] = 600.5
    return calibrant.evaluate(probs, outcomes, weights=weights)


def of_few_expected_errors() -> calibrant.Report:
    probs, _, rng = scored(2_000, 1, 1_500)
    return calibrant.evaluate(probs, (rng.random(2_000) < 0.03).astype(int), profile="all")


def of_few_outcomes_in_a_group() -> calibrant.Report:
    probs, outcomes, _ = scored(1_200)
    return calibrant.evaluate(probs, outcomes, groups=np.where(np.arange(1_200) < 35, "small", "large"))


def of_one_image() -> calibrant.Report:
    probs, outcomes, _ = scored(900)
    both = np.stack([1 - probs, probs])[np.newaxis]
    return calibrant.evaluate(both.reshape(1, 2, 30, 30), outcomes.reshape(1, 30, 30))


CASES = [
    (of_large_cluster, CLUSTER),
    (of_large_cluster_in_a_group, CLUSTER),
    (of_large_cluster_with_classes, CLUSTER),
    (of_heavy_weights, WEIGHTS),
    (of_few_expected_errors, ERRORS),
    (of_few_outcomes_in_a_group, RARE),
    (of_one_image, IMAGE),
]


def flags_in(value: Any) -> Iterator[str]:
    """Yield the parts of each "flag" in plain JSON."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from part.split("; ") if name == "flag" and part else flags_in(part)
    elif isinstance(value, list):
        for part in value:
            yield from flags_in(part)


def in_one_line(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", text).replace("&nbsp;", " "))


@pytest.mark.every_value
@pytest.mark.parametrize(("made", "words"), CASES)
def test_what_a_flag_says_is_shown(made: Any, words: str, tmp_path: Path) -> None:
    report = made()
    flags = set(flags_in(report.to_dict(groups=False)))
    assert any(words in flag for flag in flags)
    kinds = {kind for kind in (CLUSTER, WEIGHTS, RARE, ERRORS, IMAGE) if any(kind in flag for flag in flags)}
    report.to_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for text in map(in_one_line, (str(report), report.to_markdown(), page)):
        missing = {kind for kind in kinds if kind not in text}
        assert not missing


def test_a_measure_has_no_caution_below_too_little_data() -> None:
    probs, outcomes, _ = scored(400, 1, 400)
    report = calibrant.evaluate(probs, outcomes)
    assert ERRORS in report["nll"].details["flag"]
    assert "Too little data" in str(report)
    assert ERRORS not in str(report)


@pytest.mark.parametrize(("made", "words"), [(of_large_cluster, CLUSTER), (of_few_expected_errors, ERRORS)])
def test_a_caution_is_shown_once(made: Any, words: str) -> None:
    assert in_one_line(str(made())).count(words) == 1


def test_cautions_have_facts() -> None:
    facts = {finding.code: finding.facts for finding in of_large_cluster().findings}
    assert facts[Code.LARGE_CLUSTER] == {"share": pytest.approx(300 / 1_200), "most": 0.1}
    facts = {finding.code: finding.facts for finding in of_heavy_weights().findings}
    weights = np.random.default_rng(7)
    weights.beta(2, 2, 3_000), weights.random(3_000)
    drawn = weights.uniform(0.5, 1.5, 3_000)
    drawn[:40], drawn[:18] = 150.5, 600.5
    drawn[18:40] = 150.5
    rows = np.sum(drawn**2) ** 2 / np.sum(drawn**4)
    assert facts[Code.HEAVY_WEIGHTS] == {"rows": pytest.approx(rows), "enough": 30}
    assert Code.ONE_IMAGE in {finding.code for finding in of_one_image().findings}


def test_a_measure_keeps_its_own_caution_next_to_that_of_all_rows() -> None:
    """The flag of the log loss names few expected errors also where all rows have a flag."""
    probs, outcomes, _ = scored(400, 1, 400)
    report = calibrant.evaluate(probs, outcomes)
    flag = report["nll"].details["flag"]
    assert ERRORS in flag
    assert "less frequent outcome" in flag
    assert report["nll"].details["measure_flag"] == flag.split("; ")[0]
    assert "measure_flag" not in report["ece"].details


def test_cautions_of_groups_are_shown_with_a_comparison(tmp_path: Path) -> None:
    probs, outcomes, rng = scored(1_200)
    other = np.clip(probs + rng.normal(0, 0.1, 1_200), 0.01, 0.99)
    groups = np.where(np.arange(1_200) < 31, "small", "large")
    comparison = calibrant.compare({"old": probs, "new": other}, outcomes, groups=groups)
    comparison.to_html(tmp_path / "comparison.html")
    page = (tmp_path / "comparison.html").read_text(encoding="utf-8")
    small = next(group.comparison for group in comparison.groups if group.name == "small")
    flag = small.pairs[0][comparison.decides].details["flag"]
    assert RARE in flag
    for text in map(in_one_line, (str(comparison), comparison.to_markdown(), page)):
        assert f"small: {flag}" in text
