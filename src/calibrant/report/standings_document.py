"""The leaderboard of a comparison as blocks and sentences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from calibrant.measures.means.in_the_large import MEAN_CONFIDENCE
from calibrant.render.blocks import Bar, Block, Column, Heading, Notes, Table
from calibrant.render.row_figures import leaderboard_figure
from calibrant.render.words import chance_text, distinct, named, percent, ranks_text, score_text, texts
from calibrant.results import Estimate

if TYPE_CHECKING:
    from calibrant.report.comparison import Comparison
    from calibrant.report.leaderboard import Standing

_LISTED: Final = 20  # models in a brief table
_NAMED: Final = 6  # models in a sentence


def leaderboard_blocks(comparison: Comparison, *, full: bool) -> list[Block]:
    """Return the leaderboard: the picture and one table, or in brief a table of differences and one of measures."""
    label, level = label_of(comparison), percent(comparison.level)
    best = (
        f"Among the best: no other model is shown to have a better {label}; differences and ranges of ranks hold "
        f"together with {level} confidence."
    )
    ranks, differences, values = _ranks(comparison), _differences(comparison), _values(comparison)
    if full:
        table = Table("leaderboard", [*ranks, *differences, *values], "Leaderboard")
        return [Heading("Leaderboard"), *_picture(comparison), table, Notes([best])]
    places = range(len(comparison.leaderboard))[:_LISTED]
    bars = _bars([each.difference for each in comparison.leaderboard])
    ranking = Table("leaderboard", [*ranks, *differences], "Leaderboard", listed=places, bars=bars)
    measured = Table("measures-of-models", [ranks[0], *values], "Measures of models", listed=places)
    notes = ["95 %: 95th percentile of the ECE of a perfectly calibrated model with these predictions"]
    if left := len(comparison.leaderboard) - len(places):
        notes.append(f"to see the other {left} models, use --json, --html, or comparison.leaderboard in Python")
    title = f"Leaderboard by {label}, difference to the best with simultaneous CI"
    return [Heading(title), ranking, Notes([best]), measured, Notes(notes)]


def label_of(comparison: Comparison) -> str:
    """Return the label of the measure that decides the order."""
    return comparison.descriptions[comparison.sorted_by].label


# ---------------------------------------------------------------- in words


def best_models(comparison: Comparison) -> str:
    """Return which models may be the best, in a few words."""
    best = [each.name for each in comparison.leaderboard if each.among_best]
    if len(best) == 1:
        return f"{_names(comparison, best)} has the best {label_of(comparison)}"
    return f"{len(best)} of {len(comparison.leaderboard)} models may have the best {label_of(comparison)}"


def ranking(comparison: Comparison) -> list[str]:
    """Return which models may be the best, and how many are worse."""
    standings, label = comparison.leaderboard, label_of(comparison)
    best = [each.name for each in standings if each.among_best]
    worse = [each for each in standings if not each.among_best]
    confidence = f"simultaneous {percent(comparison.level)} confidence"
    if any(math.isnan(each.adjusted_p_value) for each in worse):
        confidence += "; infinite values rank last by rule"
    if not worse and all(math.isnan(each.adjusted_p_value) for each in standings):
        return [f"The data do not show how the {label} varies, so the order of the models is not tested."]
    names = _names(comparison, best)
    if len(best) == 1:
        others = "the other model" if len(worse) == 1 else f"all {len(worse)} other models"
        return [f"{names} has a better {label} than {others} ({confidence})."]
    if not worse:
        return [f"The data do not show which of the {len(best)} models has the best {label}: {names}."]
    are_worse = f"{len(worse)} of {len(standings)} models are worse"
    if len(worse) == 1:
        are_worse = f"{_names(comparison, [worse[0].name])} is worse"
    return [
        f"{are_worse} than the best by the {label} ({confidence}).",
        f"The data do not show which of the other {len(best)} models is the best: {names}.",
    ]


def calibration(comparison: Comparison) -> str:
    """Return which of many models show evidence of miscalibration."""
    found = [each.name for each in comparison.leaderboard if each.miscalibrated]
    number = len(comparison.leaderboard)
    if not found:
        return f"No model of {number} shows evidence of miscalibration."
    if len(found) == number:
        return f"All {number} models show evidence of miscalibration."
    verb = "shows" if len(found) == 1 else "show"
    return f"{len(found)} of {number} models {verb} evidence of miscalibration: {_names(comparison, found)}."


def impossible(comparison: Comparison) -> list[str]:
    """Return how many outcomes the scores of each model exclude, of many models the first: one sentence, or none."""
    parts = []
    for each in comparison.leaderboard:
        if number := each.impossible_outcomes:
            parts.append(f"{number:,} outcome{'s' * (number != 1)} in {_names(comparison, [each.name])}")
    if not parts:
        return []
    more = len(parts) - _NAMED
    others = f" and outcomes in {more} more models" if more > 0 else ""
    found = f"Observed outcomes had predicted probability 0: {', '.join(parts[:_NAMED])}{others}."
    return [f"Caution: {found} The log loss is then infinite."]


def _names(comparison: Comparison, names: Iterable[str]) -> str:
    """Return the names of models, of many the first."""
    return named([distinct(comparison.names)[name] for name in names], _NAMED)


# ---------------------------------------------------------------- the table


def _ranks(comparison: Comparison) -> list[Column]:
    """Return the columns of the models and their ranks."""
    standings = comparison.leaderboard
    ends = {"rank_low": [each.rank_low for each in standings], "rank_high": [each.rank_high for each in standings]}
    return [
        Column.of("model", "model", (each.name for each in standings)),
        Column("rank", list(map(_rank, standings)), ends),
        Column.of(
            "among the best", "among_best", (each.among_best for each in standings), _yes, brief="best", words=True
        ),
    ]


def _differences(comparison: Comparison) -> list[Column]:
    """Return the columns of the difference to the best model."""
    standings, level = comparison.leaderboard, percent(comparison.level)
    parts = [each.difference for each in standings]
    values = {"difference": [part.value for part in parts]}
    ends = {"difference_low": [part.low for part in parts], "difference_high": [part.high for part in parts]}
    return [
        Column("difference to the best", [_value(part, "+") for part in parts], values, brief="diff."),
        Column(f"simultaneous {level} CI", list(map(_ends, parts)), ends, brief=f"{level} CI"),
        Column.of(
            "p adjusted", "adjusted_p_value", (each.adjusted_p_value for each in standings), chance_text, brief="p adj."
        ),
    ]


def _values(comparison: Comparison) -> list[Column]:
    """Return the columns of the measure that decides, of the accuracy, the mean prediction, the ECE and its test."""
    standings, key, level = comparison.leaderboard, comparison.sorted_by, percent(comparison.level)
    parts = [each[key] for each in standings]
    ends = {f"{key}_low": [part.low for part in parts], f"{key}_high": [part.high for part in parts]}
    columns = {
        key: _measure(comparison, key),
        "interval": Column(f"{level} CI", list(map(_ends, parts)), ends, spare=4),
        "accuracy": _measure(comparison, "accuracy", spare=1),
        MEAN_CONFIDENCE.name: _measure(comparison, MEAN_CONFIDENCE.name, spare=2),
        "ece": _measure(comparison, "ece"),
        "ece_if_calibrated": Column.of(
            "ECE if calibrated: 95 % below",
            "ece_if_calibrated",
            (math.nan if (floor := each["ece"].floor) is None else floor.upper for each in standings),
            lambda upper: score_text(upper, ".4f"),
            brief="95 %",
            spare=3,
        ),
        "calibration": Column.of("calibration", "calibration", map(_calibration, standings), words=True),
    }
    columns[key] = columns[key]._replace(spare=0)
    return list(columns.values())


def _measure(comparison: Comparison, key: str, *, spare: int = 0) -> Column:
    """Return the column of a measure."""
    parts = [each[key] for each in comparison.leaderboard]
    label = _mean(comparison) if key == MEAN_CONFIDENCE.name else comparison.descriptions[key].label
    brief = f"{label[:9]}." if key == MEAN_CONFIDENCE.name else label.removesuffix(" score").partition(" (")[0]
    return Column(label, list(map(_value, parts)), {key: [part.value for part in parts]}, brief=brief, spare=spare)


def _mean(comparison: Comparison) -> str:
    """Return the name of the mean score."""
    is_confidence = comparison.notion == "top-label" or comparison.own_outcomes
    return "mean confidence" if is_confidence else "mean prediction"


def _rank(standing: Standing) -> str:
    return ranks_text(standing.rank_low, standing.rank_high)


def _calibration(standing: Standing) -> str:
    if math.isnan(standing.test.p_value):
        return ""
    return "miscalibrated" if standing.miscalibrated else "no evidence"


def _yes(answer: bool) -> str:
    return "yes" if answer else "no"


def _value(part: Estimate, sign: str = "") -> str:
    """Return a number; a dash if it is missing."""
    if not math.isfinite(part.value):
        return "–" if math.isnan(part.value) else "inf"
    return texts([part.value], 4, [0.0], sign)[0]


def _ends(part: Estimate) -> str:
    return f"{part.low:z.4f} to {part.high:z.4f}" if math.isfinite(part.low) else ""


# ---------------------------------------------------------------- the pictures


def _bars(differences: Sequence[Estimate]) -> list[Bar]:
    """Return each difference to the best as a bar: its interval, and in it the estimate."""
    most = max((part.high for part in differences if math.isfinite(part.low)), default=0.0)
    if not most:
        return []
    return [
        [(part.low / most, part.high / most, "░"), (part.value / most, part.value / most, "█")]
        if math.isfinite(part.low)
        else []
        for part in differences
    ]


def _picture(comparison: Comparison) -> list[Block]:
    """Return the picture of the values with their own intervals and what it shows; nothing without a value."""
    level, key, tips = percent(comparison.level), comparison.sorted_by, []
    for each in comparison.leaderboard:
        part = each[key]
        words = [
            f"{each.name}: {_value(part)}",
            f"{level} CI {_ends(part)}" if math.isfinite(part.low) else "",
            f"rank {_rank(each)}",
            "no other model is shown to be better" if each.among_best else "worse than the best",
        ]
        tips.append("; ".join(filter(None, words)))
    if not any(math.isfinite(each[key].value) for each in comparison.leaderboard):
        return []
    measure = comparison.descriptions[key]
    figure = leaderboard_figure(comparison.leaderboard, key, measure, comparison.level, tips=tips)
    return [figure, Notes([f"Each model with its own {level} CI, the best first."])]
