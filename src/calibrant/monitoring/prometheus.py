"""A monitor as metrics in the text format of Prometheus, without times."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

from calibrant.monitoring.history import GroupSeen, History, PromiseSeen

Part = TypeVar("Part")
#: Of each gauge, what it is, and its value of a part.
_Gauges: TypeAlias = Mapping[str, tuple[str, Callable[[Part], float]]]

_TEN: Final = math.log(10)

#: The gauges of a monitor, of each group and of each promise: what they are, and their value.
_OF_MONITOR: Final[_Gauges[History]] = {
    "evidence": ("Largest evidence E against calibration so far.", lambda seen: seen.evidence),
    "log10_evidence": ("Decimal logarithm of the largest evidence E so far.", lambda seen: seen.log_evidence / _TEN),
    "p_value": ("The p-value of calibration, valid at any time.", lambda seen: seen.p_value),
    "alarm": ("1 if the model is no longer calibrated, else 0.", lambda seen: seen.alarm),
    "slices": ("Number of slices.", lambda seen: len(seen.slices)),
    "rows": ("Number of rows, or their weight.", lambda seen: seen.n),
    "mean_difference": (
        "Mean predicted probability minus observed frequency over all slices.",
        lambda seen: seen.mean_difference,
    ),
}
_OF_GROUPS: Final[_Gauges[GroupSeen]] = {
    "group_log10_evidence": (
        "Decimal logarithm of the largest evidence against the calibration of a group, after closed testing.",
        lambda part: part.log_e / _TEN,
    ),
    "group_called_out": (
        "1 if the group is no longer calibrated, after closed testing, else 0.",
        lambda part: part.called_out,
    ),
}
_OF_PROMISES: Final[_Gauges[PromiseSeen]] = {
    "promise_log10_evidence": (
        "Decimal logarithm of the largest evidence that the error rate of a threshold exceeds its maximum.",
        lambda part: part.log_evidence / _TEN,
    ),
    "promise_broken": ("1 if the error rate of a threshold exceeds its maximum, else 0.", lambda part: part.broken),
    "promise_risk": ("Observed error rate of the automatic decisions.", lambda part: part.risk),
}


def to_text(history: History, model: str = "") -> str:
    """Return the numbers as gauges; ``model`` becomes a label."""
    own = {"model": model} if model else {}
    groups = [({**own, "group": part.name}, part) for part in history.groups]
    promises = [({**own, **_labels(part)}, part) for part in history.promises]
    return _text(_OF_MONITOR, [(own, history)]) + _text(_OF_GROUPS, groups) + _text(_OF_PROMISES, promises)


def _labels(part: PromiseSeen) -> dict[str, str]:
    subject = {"group": part.group, "question": part.question, "composite_of": ",".join(part.composite_of)}
    known = {name: label for name, label in subject.items() if label}
    return {**known, "threshold": f"{part.value:.17g}", "side": part.side}


def _text(gauges: _Gauges[Part], parts: Sequence[tuple[Mapping[str, str], Part]]) -> str:
    """Return the gauges of some parts with their labels; nothing without parts."""
    lines = []
    for name, (about, value_of) in gauges.items() if parts else ():
        full = f"calibrant_monitor_{name}"
        lines += [f"# HELP {full} {about}", f"# TYPE {full} gauge"]
        for labels, part in parts:
            inside = ",".join(f'{key}="{_escaped(label)}"' for key, label in labels.items())
            lines.append(f"{full}{f'{{{inside}}}' if inside else ''} {_sample(value_of(part))}")
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
