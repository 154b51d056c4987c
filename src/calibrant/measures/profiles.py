"""Profiles: for whom a report is, and what it shows in addition to its measures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Final

from calibrant.results import CurveKind
from calibrant.runtime.dataclass import dataclass

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Profile:
    """What a report shows. Its measures are those that name the profile; see `calibrant.measures.MEASURES`."""

    name: str  # the name, for ``profile=`` and ``--profile``
    meaning: str  # whom it serves, in one sentence
    key_measures: tuple[str, ...] = ()  # the measures that the terminal shows; empty for all
    #: The calibration curves next to the bins, in the order in which they are offered.
    curves: tuple[CurveKind, ...] = ("isotonic", "smooth")
    panels: tuple[str, ...] = ()  # the further curves: "decision_curve", "roc_curve", "murphy_curve"
    #: Whether its measures that tell groups apart are shown for each group, with their heterogeneity.
    by_group: bool = False
    methods: bool = False  # whether the report shows its paragraph for a methods section
    #: What readers would look for and the profile leaves out, and why.
    left_out: Mapping[str, str] = field(default_factory=lambda: _NOTHING)


#: The measures that the terminal shows, unless a profile asks for others.
KEY_MEASURES: Final = (
    *("ece", "smece", "brier", "brier_event", "brier_skill", "nll", "rps"),
    *("accuracy", "within_one"),
)

STANDARD: Final = Profile(
    name="standard",
    meaning="Calibration, proper scores and accuracy, for any model.",
    key_measures=KEY_MEASURES,
)

CLINICAL: Final = Profile(
    name="clinical",
    meaning="Validation of a risk model: calibration, skill, net benefit, distribution of risks.",
    curves=("loess", "isotonic", "smooth"),
    panels=("decision_curve",),
    by_group=True,
    methods=True,
    left_out={
        "accuracy": "accuracy depends on one threshold and weights false positives and false negatives equally",
        "Hosmer-Lemeshow test": "the p-value depends on the grouping of rows and does not show the size or the "
        "place of the error",
    },
)

FORECAST: Final = Profile(
    name="forecast",
    meaning="Verification of forecasts: skill, components of the Brier score, Murphy curve, ROC curve.",
    panels=("murphy_curve", "roc_curve"),
)

ALL: Final = Profile(
    name="all", meaning="All measures.", key_measures=KEY_MEASURES, curves=("isotonic", "smooth", "loess")
)

#: All profiles by name. `ALL` has every measure, whichever profiles it names.
PROFILES: Final = {profile.name: profile for profile in (STANDARD, CLINICAL, FORECAST, ALL)}
