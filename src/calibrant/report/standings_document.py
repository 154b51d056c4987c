"""The leaderboard of a comparison as blocks and sentences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from calibrant.measures.means.in_the_large import MEAN_CONFIDENCE
from calibrant.render.blocks import Bar, Block, Column, Heading, Notes, Table
from calibrant.render.figure import Figure
from calibrant.render.row_figures import leaderboard_figure
from calibrant.render.words import (
    capital,
    chance,
    chance_text,
    distinct,
    left_out,
    named,
    number,
    percent,
    ranks_text,
    score_text,
    texts,
)
from calibrant.results import Estimate
from calibrant.statistics.resampling import alpha_of

if TYPE_CHECKING:
    from calibrant.report.comparison import Comparison, RankedModels
    from calibrant.report.leaderboard import Standing


_LISTED: Final = 20  # models in a brief table
_NAMED: Final = 6  # models in a sentence
_SHORT: Final = 11  # characters of a heading
_BRIEFLY: Final = 3  # models that a headline names


def leaderboard_blocks(comparison: RankedModels, *, full: bool) -> list[Block]:
    """Return the leaderboard: each model's measure, its rank and its difference to the best; in brief with bars."""
    label, level = label_of(comparison), percent(comparison.level)
    best = (
        f"Among the best: no other model is shown to have a better {label}. With {level} confidence, all ranges of "
        "ranks and all CIs of differences are correct together."
    )
    columns = [*_value_of_rank(comparison, full=full), *_ranks(comparison), *_differences(comparison)]
    columns.insert(0, Column.of("model", "model", (each.name for each in comparison.leaderboard)))
    if full:
        minor = ("among the best", f"{level} CI", "p adjusted")  # which phones leave out
        columns = [column._replace(spare=int(column.heading in minor)) for column in columns]
        return [Heading("Leaderboard"), Table("leaderboard", columns, "Leaderboard"), Notes([best])]
    places = range(len(comparison.leaderboard))[:_LISTED]
    bars = _bars([each.difference for each in comparison.leaderboard])
    left = len(comparison.leaderboard) - len(places)
    notes = [best, *left_out(left, "models", "--json, --html, or comparison.leaderboard")]
    title = f"Leaderboard by {label}, difference to the best with simultaneous CI"
    return [Heading(title), Table("leaderboard", columns, "Leaderboard", listed=places, bars=bars), Notes(notes)]


def models_table(comparison: Comparison) -> Table:
    """Return all measures of each model: those that readers know first, the one that decides about pairs last."""
    standings = {each.name: each for each in comparison.leaderboard}
    in_turn = [standings[name] for name in comparison.names]
    columns = [
        Column.of("model", "model", comparison.names),
        Column.of("calibration", "calibration", map(_calibration, in_turn), words=True),
    ]
    known = [comparison.sorted_by, *_KNOWN, *comparison.descriptions]
    for key in sorted(dict.fromkeys(known), key=lambda key: key == comparison.decides):  # a stable order
        if key in comparison.descriptions or key == MEAN_CONFIDENCE.name:
            columns.append(_measure(comparison, key))
        if key == "ece":
            columns.append(_ece_if_calibrated(in_turn, percent(comparison.level)))
    return Table("models", columns, "Models")


#: Measures that most readers know, in the order of the table of models.
_KNOWN: Final = ("brier", "nll", "accuracy", MEAN_CONFIDENCE.name, "ece")
#: Measures that a narrow terminal leaves out: those with the largest numbers first.
_SPARE: Final = {"accuracy": 1, MEAN_CONFIDENCE.name: 2}


def label_of(comparison: RankedModels) -> str:
    """Return the label of the measure that decides the order."""
    return comparison.descriptions[comparison.sorted_by].label


# ---------------------------------------------------------------- in words


def conclusion(comparison: RankedModels) -> str:
    """Return which models show evidence of miscalibration, and then which may be the best, in a few words."""
    return "; ".join(filter(None, (_calibration_in_brief(comparison), _best(comparison))))


def _best(comparison: RankedModels) -> str:
    best = [each.name for each in comparison.leaderboard if each.among_best]
    label, number = label_of(comparison), len(comparison.leaderboard)
    if len(best) == 1:
        return f"{_names(comparison, best)} has the best {label}"
    if len(best) == number:
        which = "either" if number == 2 else f"any of {number}"
        return f"{which} may have the best {label}"
    return f"{len(best)} of {number} models may have the best {label}"


def _calibration_in_brief(comparison: RankedModels) -> str:
    tested = [each for each in comparison.leaderboard if not math.isnan(each.p_value)]
    found = [each.name for each in tested if each.miscalibrated]
    others = [each.name for each in tested if not each.miscalibrated]
    if not tested:
        return ""
    if not found:
        return f"No evidence of miscalibration in {'either model' if len(tested) == 2 else f'{len(tested)} models'}"
    if not others:
        every = "Both models" if len(tested) == 2 else f"All {len(tested)} models"
        return f"{every} show evidence of miscalibration"
    if len(others) > _BRIEFLY:
        return f"{len(others)} of {len(tested)} models show no evidence of miscalibration"
    shows = "shows" if len(others) == 1 else "show"
    return f"{_names(comparison, others)} {shows} no evidence of miscalibration"


def ranking(comparison: RankedModels) -> list[str]:
    """Return which models may be the best, and how many are worse."""
    standings, label = comparison.leaderboard, label_of(comparison)
    best = [each.name for each in standings if each.among_best]
    worse = [each for each in standings if not each.among_best]
    confidence = f"simultaneous {percent(comparison.level)} confidence"
    if any(math.isnan(each.adjusted_p_value) for each in worse):
        confidence += "; models with an infinite value rank last without a test"
    if not worse and all(math.isnan(each.adjusted_p_value) for each in standings):
        unknown = f"The sampling variance of the {label} cannot be estimated from these data"
        return [f"{unknown}, so the order of the models is not tested."]
    names = _names(comparison, best)
    if len(best) == 1:
        others = {1: "the other model", 2: "both other models"}.get(len(worse), f"all {len(worse)} other models")
        return [f"{names} has a better {label} than {others} ({confidence})."]
    if not worse:
        return [f"The data do not show which of the {len(best)} models has the best {label}: {names}."]
    have_worse = f"{len(worse)} of {len(standings)} models have a worse {label}"
    if len(worse) == 1:
        have_worse = f"{_names(comparison, [worse[0].name])} has a worse {label}"
    return [
        f"{have_worse} than the best model ({confidence}).",
        f"The data do not show which of the other {len(best)} models is the best: {names}.",
    ]


def calibration(comparison: RankedModels, *, with_p: bool) -> list[str]:
    """Return which models show no evidence of miscalibration, and which ones do; with the p-values of few models."""
    names, alpha = distinct(comparison.names), alpha_of(comparison.level)
    p_values = {name: comparison.tests[name].p_value for name in comparison.names if name in comparison.tests}
    tested = {name: p_value for name, p_value in p_values.items() if not math.isnan(p_value)}

    def listed(of: Sequence[str], *, alone: bool = False) -> str:
        texts = [f"p {chance(tested[name])}" if alone else f"{names[name]} (p {chance(tested[name])})" for name in of]
        return named(texts if with_p else [names[name] for name in of], _NAMED)

    found = [name for name, p_value in tested.items() if p_value <= alpha]
    others = [name for name in tested if name not in found]
    if tested and not (found and others):
        every, none = (
            ("Both", "Neither model") if len(tested) == 2 else (f"All {len(tested)}", f"No model of {len(tested)}")
        )
        whole = f"{every} models show" if found else f"{none} shows"
        return [f"{whole} evidence of miscalibration{f': {listed(list(tested))}' * with_p}."]
    sentences = []
    for evidence, of in (("no evidence", others), ("evidence", found)):
        if len(of) == 1:
            p = f" ({listed(of, alone=True)})" * with_p
            sentences.append(f"{names[of[0]]} shows {evidence} of miscalibration{p}.")
        elif of:
            many = f"{len(of)} of {len(tested)} models show {evidence} of miscalibration"
            sentences.append(f"{many}: {listed(of)}.")
    return sentences


def impossible(comparison: RankedModels) -> list[str]:
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


def _names(comparison: RankedModels, names: Iterable[str]) -> str:
    """Return the names of models, of many the first."""
    return named([distinct(comparison.names)[name] for name in names], _NAMED)


# ---------------------------------------------------------------- the table


def _value_of_rank(comparison: RankedModels, *, full: bool) -> list[Column]:
    """Return the columns of the measure that ranks the models; in brief the bars replace its interval."""
    key = comparison.sorted_by
    parts = [each[key] for each in comparison.leaderboard]
    ends = {f"{key}_low": [part.low for part in parts], f"{key}_high": [part.high for part in parts]}
    label = label_of(comparison)
    value = Column(label, list(map(_value, parts)), {key: [part.value for part in parts]}, brief=_brief(label))
    return [value, *([Column(f"{percent(comparison.level)} CI", list(map(_ends, parts)), ends)] * full)]


def _ranks(comparison: RankedModels) -> list[Column]:
    standings = comparison.leaderboard
    ends = {"rank_low": [each.rank_low for each in standings], "rank_high": [each.rank_high for each in standings]}
    return [
        Column("rank", list(map(_rank, standings)), ends),
        Column.of(
            "among the best", "among_best", (each.among_best for each in standings), _yes, brief="best", words=True
        ),
    ]


def _differences(comparison: RankedModels) -> list[Column]:
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


def _measure(comparison: Comparison, key: str) -> Column:
    """Return the column of a measure of each model, in the order in which the models were given."""
    if key == MEAN_CONFIDENCE.name:
        standings = {each.name: each for each in comparison.leaderboard}
        label = _mean(comparison)
        values = [standings[name][key].value for name in comparison.names]
    else:
        label, values = comparison.descriptions[key].label, [comparison.models[name][key] for name in comparison.names]
    write = "{:z.6f}".format if key == comparison.decides else number
    spare = 4 if key == comparison.decides else _SPARE.get(key, 0) if key != comparison.sorted_by else 0
    return Column.of(label, key, values, write, brief=_brief(label), spare=spare)


def _brief(label: str) -> str:
    return (
        f"{label[:9]}."
        if label.startswith("mean ") and len(label) > _SHORT
        else label.removesuffix(" score").removesuffix(" at 0.5")
    )


def _ece_if_calibrated(standings: Sequence[Standing], level: str) -> Column:
    uppers = (math.nan if (floor := each["ece"].floor) is None else floor.upper for each in standings)
    write = partial(score_text, written=".4f")
    heading = f"ECE if calibrated, {level} below"
    return Column.of(heading, "ece_if_calibrated", uppers, write, brief=f"if cal. {level.replace(' ', '')}", spare=3)


def _mean(comparison: Comparison) -> str:
    is_confidence = comparison.notion == "top-label" or comparison.own_outcomes
    return "mean confidence" if is_confidence else "mean prediction"


def _rank(standing: Standing) -> str:
    return ranks_text(standing.rank_low, standing.rank_high)


def _calibration(standing: Standing) -> str:
    if math.isnan(standing.p_value):
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


def picture(comparison: RankedModels) -> Figure | None:
    """Return the picture of the values with their own intervals; None without a value."""
    level, key, tips = percent(comparison.level), comparison.sorted_by, []
    for each in comparison.leaderboard:
        part = each[key]
        words = [
            f"{each.name}: {_value(part)}",
            f"{level} CI {_ends(part)}" if math.isfinite(part.low) else "",
            f"rank {_rank(each)}",
            "no evidence that another model is better" if each.among_best else "worse than the best",
        ]
        tips.append("; ".join(filter(None, words)))
    if not any(math.isfinite(each[key].value) for each in comparison.leaderboard):
        return None
    measure = comparison.descriptions[key]
    figure = leaderboard_figure(comparison.leaderboard, key, measure, comparison.level, tips=tips)
    caption = f"The {level} CI of each model, with the best model first."
    return figure._replace(title=f"{capital(measure.label)} of each model", caption=caption)
