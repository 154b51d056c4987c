"""Intervals, noise floors and tests of calibration, from a reliability table."""

from typing import TYPE_CHECKING

from calibrant.runtime.cached import names_of

if TYPE_CHECKING:
    from calibrant.inference.floor import NoiseFloor, noise_floor, rows_to_prove
    from calibrant.inference.hosmer_lemeshow import hosmer_lemeshow_test
    from calibrant.inference.hypotheses import cox_test, ks_test, kuiper_test, spiegelhalter_test
    from calibrant.inference.statistic import bootstrap, consistency, standardised_maximum
    from calibrant.inference.t_cal import t_cal_test

__all__ = [
    "NoiseFloor",
    "bootstrap",
    "consistency",
    "cox_test",
    "hosmer_lemeshow_test",
    "ks_test",
    "kuiper_test",
    "noise_floor",
    "rows_to_prove",
    "spiegelhalter_test",
    "standardised_maximum",
    "t_cal_test",
]

__getattr__, __dir__ = names_of(
    __name__,
    {
        "calibrant.inference.floor": (
            "NoiseFloor",
            "noise_floor",
            "rows_to_prove",
        ),
        "calibrant.inference.hosmer_lemeshow": ("hosmer_lemeshow_test",),
        "calibrant.inference.hypotheses": (
            "cox_test",
            "ks_test",
            "kuiper_test",
            "spiegelhalter_test",
        ),
        "calibrant.inference.statistic": (
            "bootstrap",
            "consistency",
            "standardised_maximum",
        ),
        "calibrant.inference.t_cal": ("t_cal_test",),
    },
)
