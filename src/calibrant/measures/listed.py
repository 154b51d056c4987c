"""All measures, in the order in which reports show them, and how some of them are chosen."""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from calibrant.errors import InputError, nearest, one_of_these
from calibrant.measures.binned.classwise import CLASSWISE_ECE, thresholded_adaptive_calibration_error
from calibrant.measures.binned.ece import ACE, ECE, gaussian_debiased_calibration_error
from calibrant.measures.binned.mce import MCE
from calibrant.measures.binned.rmsce import DEBIASED_SQUARE, MURPHY_RELIABILITY, MURPHY_RESOLUTION, RMSCE
from calibrant.measures.binned.sweep import monotone_sweep_calibration_error
from calibrant.measures.binned.top_k import top_k_calibration_error, top_r_calibration_error
from calibrant.measures.cumulative.cumulative import KS, KUIPER
from calibrant.measures.isotonic.corp import DISCRIMINATION, MISCALIBRATION, UNCERTAINTY
from calibrant.measures.line.line import CALIBRATION_INTERCEPT, CALIBRATION_SLOPE
from calibrant.measures.loess.loess import E50, E90, ICI
from calibrant.measures.means.in_the_large import MEAN_CONFIDENCE, MEAN_GAP, OE_RATIO
from calibrant.measures.means.mean_scores import (
    ACCURACY,
    BRIER,
    EVENT_BRIER,
    NLL,
    RPS,
    WITHIN_ONE,
    spherical_score,
)
from calibrant.measures.means.skill import BRIER_SKILL, LOG_LOSS_SKILL
from calibrant.measures.measure import Difference, Measure
from calibrant.measures.profiles import ALL, PROFILES, STANDARD, Profile
from calibrant.measures.ranking.auroc import AUROC
from calibrant.measures.smooth.smece import SMECE
from calibrant.measures.smooth.without_bins import (
    kernel_calibration_error,
    lipschitz_calibration_error,
    truthful_calibration_error,
)

#: Every measure, in the order in which reports show them. Nothing else lists measures.
MEASURES: Final = (
    ACCURACY,
    WITHIN_ONE,
    MEAN_CONFIDENCE,
    MEAN_GAP,
    OE_RATIO,
    CALIBRATION_INTERCEPT,
    CALIBRATION_SLOPE,
    BRIER,
    EVENT_BRIER,
    BRIER_SKILL,
    NLL,
    LOG_LOSS_SKILL,
    RPS,
    AUROC,
    ECE,
    ACE,
    CLASSWISE_ECE,
    SMECE,
    ICI,
    E50,
    E90,
    RMSCE,
    DEBIASED_SQUARE,
    MCE,
    KS,
    KUIPER,
    MISCALIBRATION,
    DISCRIMINATION,
    UNCERTAINTY,
    MURPHY_RELIABILITY,
    MURPHY_RESOLUTION,
)

#: The measures that need an order of the classes. Every report on ordered levels shows them.
OF_LEVELS: Final = (WITHIN_ONE, RPS)

#: The functions of one number that are in no report, and which direction is better.
FURTHER: Final[Mapping[Callable[..., float], Literal["lower", "higher"]]] = {
    gaussian_debiased_calibration_error: "lower",
    kernel_calibration_error: "lower",
    lipschitz_calibration_error: "lower",
    monotone_sweep_calibration_error: "lower",
    spherical_score: "higher",
    thresholded_adaptive_calibration_error: "lower",
    top_k_calibration_error: "lower",
    top_r_calibration_error: "lower",
    truthful_calibration_error: "lower",
}

BY_NAME: Final = {measure.name: measure for measure in MEASURES}


def _reduced(measure: Measure) -> Any:
    """Pickle a measure of calibrant by its name: another process has it, and copies are the measure itself."""
    if BY_NAME.get(measure.name) is measure:
        return by_name, (measure.name,)
    return measure.__reduce_ex__(2)


copyreg.pickle(Measure, _reduced)


def compared() -> list[Measure]:
    """Return the compared measures: first the one that decides, then those of the evaluated event, then the rest."""
    found = [(each, each.difference.decides) for each in MEASURES if isinstance(each.difference, Difference)]
    return [measure for measure, _ in sorted(found, key=lambda pair: (not pair[1], pair[0].judges != "event"))]


def compared_by(further: Any = None) -> tuple[Measure, ...]:
    """Return the measures that models are compared by: `compared`, and further keys or `Measure`s with an influence."""
    measures = compared()
    if further is None:
        return tuple(measures)
    if isinstance(further, str):
        raise InputError("measures", "a list of measures", repr(further), f"pass measures=[{further!r}]")
    for measure in _listed(further):
        if not isinstance(measure.comparison, Difference):
            able = [each.name for each in MEASURES if isinstance(each.comparison, Difference)]
            expected = f"measures with an influence function, such as {', '.join(able)}"
            remedy = "leave the measure out, or give the measure an influence function"
            raise InputError("measures", expected, repr(measure.name), remedy)
        if measure not in measures:
            measures.append(measure)
    return tuple(measures)


class Selection(NamedTuple):
    """The measures of a report, its profile, and whether the caller listed the measures."""

    measures: tuple[Measure, ...]
    profile: Profile
    listed: bool


def selected(measures: Any = None, profile: str | None = None) -> Selection:
    """Return the profile that is named, and its measures or those of a list of keys and `Measure`s, in its order."""
    if isinstance(measures, str):
        if profile is not None and measures != profile:
            remedy = "to select one measure, pass a list such as ['ece']; to select a profile, name it once"
            raise InputError("measures", "a list if a profile is given", repr(measures), remedy)
        return Selection(of_profile(_profile("measures", measures)), PROFILES[measures], listed=False)
    shown = _profile("profile", STANDARD.name if profile is None else profile)
    if measures is None:
        return Selection(of_profile(shown), shown, listed=False)
    return Selection(_listed(measures), shown, listed=True)


def of_profile(profile: Profile, *, ordered: bool = False) -> tuple[Measure, ...]:
    """Return the measures that name a profile, or all for `ALL`; `OF_LEVELS` only if classes are ``ordered``."""
    return tuple(
        measure
        for measure in MEASURES
        if (ordered if measure in OF_LEVELS else profile is ALL or profile.name in measure.profiles)
    )


def _profile(argument: str, name: Any) -> Profile:
    if isinstance(name, str) and name in PROFILES:
        return PROFILES[name]
    lists = argument == "measures"
    names = (*PROFILES, *BY_NAME) if lists else tuple(PROFILES)
    remedy = f"pass measures=['{name}'] for one measure" if name in BY_NAME else one_of_these(str(name), names)
    expected = f"one of {', '.join(map(repr, PROFILES))}" + ", or a list" * lists
    raise InputError(argument, expected, repr(name), remedy)


def _listed(measures: Any) -> tuple[Measure, ...]:
    if not isinstance(measures, Sequence) or not measures:
        remedy = "pass a profile such as 'standard', or a list such as ['ece', 'ks']"
        raise InputError("measures", "a profile or a list of measures", repr(measures), remedy)
    listed = [by_name(entry) for entry in measures]
    for measure in listed:
        if BY_NAME.get(measure.name, measure) is not measure:
            remedy = f"give your measure another name than {measure.name!r}"
            raise InputError("measures", "a name that is not taken", repr(measure.name), remedy)
    keys = [measure.name for measure in listed]
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice is not None:
        raise InputError("measures", "each measure once", f"{twice!r} twice", "leave one of them out")
    return tuple(listed)


def by_name(entry: Any) -> Measure:
    """Return the measure of calibrant with this name, which another version may lack; or the measure itself."""
    if isinstance(entry, Measure):
        return entry
    if not isinstance(entry, str):
        remedy = "pass a key such as 'ece', or a calibrant.measures.Measure"
        raise InputError("measures", "keys and Measures", f"a {type(entry).__name__}", remedy)
    if entry not in BY_NAME:
        raise InputError("measures", "the key of a measure", repr(entry), nearest(entry, BY_NAME))
    return BY_NAME[entry]
