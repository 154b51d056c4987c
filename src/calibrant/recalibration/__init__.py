"""Maps that recalibrate scores: fitted, proven on rows that the map never saw, and written for other programs."""

from typing import TYPE_CHECKING

from calibrant.runtime.cached import names_of

if TYPE_CHECKING:
    from calibrant.recalibration.fitting import recalibrate
    from calibrant.recalibration.maps import CalibrationMap, Fitted, ScoreDrift, read_maps
    from calibrant.recalibration.prior_result import PriorCheck, PriorEstimate, PriorShift
    from calibrant.recalibration.priors import prior_shift
    from calibrant.recalibration.proof import Gain
    from calibrant.recalibration.question_recalibrations import QuestionRecalibrations
    from calibrant.recalibration.recalibrations import LabelRecalibrations, MapCurve, Recalibration

__all__ = [
    "CalibrationMap",
    "Fitted",
    "Gain",
    "LabelRecalibrations",
    "MapCurve",
    "PriorCheck",
    "PriorEstimate",
    "PriorShift",
    "QuestionRecalibrations",
    "Recalibration",
    "ScoreDrift",
    "prior_shift",
    "read_maps",
    "recalibrate",
]

__getattr__, __dir__ = names_of(
    __name__,
    {
        "calibrant.recalibration.maps": ("CalibrationMap", "ScoreDrift", "Fitted", "read_maps"),
        "calibrant.recalibration.prior_result": ("PriorCheck", "PriorEstimate", "PriorShift"),
        "calibrant.recalibration.priors": ("prior_shift",),
        "calibrant.recalibration.proof": ("Gain",),
        "calibrant.recalibration.fitting": ("recalibrate",),
        "calibrant.recalibration.question_recalibrations": ("QuestionRecalibrations",),
        "calibrant.recalibration.recalibrations": ("LabelRecalibrations", "MapCurve", "Recalibration"),
    },
)
