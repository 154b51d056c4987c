"""A monitor as metrics in the text format of Prometheus, without times."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from calibrant.monitoring.history import History

#: The values of a gauge with their labels.
_Samples: TypeAlias = Sequence[tuple[Mapping[str, str], float]]

#: What each gauge is.
_HELP: Final = {
    "evidence": "Largest evidence E against calibration so far.",
    "log10_evidence": "Decimal logarithm of the largest evidence E so far.",
    "p_value": "The p-value of calibration, valid at any time.",
    "alarm": "1 if the model is no longer calibrated, else 0.",
    "slices": "Number of slices.",
    "rows": "Number of rows, or their weight.",
    "mean_difference": "Mean predicted probability minus observed frequency over all slices.",
    "group_log10_evidence": "Decimal logarithm of the largest evidence against the calibration of a "
    "group, after closed testing.",
    "group_called_out": "1 if the group is no longer calibrated, after closed testing, else 0.",
    "promise_log10_evidence": "Decimal logarithm of the largest evidence that the error rate of a threshold "
    "exceeds its maximum.",
    "promise_broken": "1 if the error rate of a threshold exceeds its maximum, else 0.",
    "promise_risk": "Observed error rate of the automatic decisions.",
}
_TEN: Final = math.log(10)


def to_text(history: History, model: str = "") -> str:
    """Return the numbers as gauges; ``model`` becomes a label."""
    own = {"model": model} if model else {}
    groups = [({**own, "group": part.name}, part) for part in history.groups]
    promises = [
        (
            {
                **own,
                **({"group": part.group} if part.group else {}),
                **({"question": part.question} if part.question else {}),
                **({"composite_of": ",".join(part.composite_of)} if part.composite_of else {}),
                "threshold": f"{part.value:.17g}",
                "side": part.side,
            },
            part,
        )
        for part in history.promises
    ]
    gauges: dict[str, _Samples] = {
        "evidence": [(own, history.evidence)],
        "log10_evidence": [(own, history.log_evidence / _TEN)],
        "p_value": [(own, history.p_value)],
        "alarm": [(own, history.alarm)],
        "slices": [(own, len(history.slices))],
        "rows": [(own, history.n)],
        "mean_difference": [(own, history.mean_difference)],
        "group_log10_evidence": [(labels, part.log_e / _TEN) for labels, part in groups],
        "group_called_out": [(labels, part.called_out) for labels, part in groups],
        "promise_log10_evidence": [(labels, part.log_evidence / _TEN) for labels, part in promises],
        "promise_broken": [(labels, part.broken) for labels, part in promises],
        "promise_risk": [(labels, part.risk) for labels, part in promises],
    }
    return "".join(_gauge(name, samples) for name, samples in gauges.items() if samples)


def _gauge(name: str, samples: _Samples) -> str:
    full = f"calibrant_monitor_{name}"
    lines = [f"# HELP {full} {_HELP[name]}", f"# TYPE {full} gauge"]
    for labels, value in samples:
        inside = ",".join(f'{key}="{_escaped(label)}"' for key, label in labels.items())
        lines.append(f"{full}{f'{{{inside}}}' if inside else ''} {_sample(value)}")
    return "".join(f"{line}\n" for line in lines)


def _escaped(label: str) -> str:
    r"""Return the value of a label: backslashes, quotes, ends of lines and surrogates are escaped."""
    text = label.encode("utf-8", "backslashreplace").decode()
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _sample(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(int(value)) if float(value).is_integer() and abs(value) < 2**53 else repr(float(value))
