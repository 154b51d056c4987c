"""Compare all measures on three data sets: python docs/make_comparison.py draws the figure (some minutes).

docs/make_examples.py shows the table. The data: 2,000 rows of three classes; the judged event is the last class.
Functions of several classes judge all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import calibrant
from calibrant.measures import MEASURES

Floats = NDArray[np.float64]

N = 2_000
DRAWS = 200
FIGURE = Path(__file__).resolve().parent / "_static" / "comparison.png"

#: By how much the reported log-odds are too far from 0, and the log-odds of the judged class at the centre.
SETTINGS = {"calibrated": (1.0, 0.0), "over-confident": (1.4, 0.0), "rare events": (1.4, -3.5)}

#: When a measure tells its reader the wrong thing.
MISLEADS = {measure.name: measure.misleads for measure in MEASURES} | {
    "lipschitz_calibration_error": "Neighbouring gaps of both signs cancel: it is below the ECE, and no mean gap.",
    "truthful_calibration_error": "Calibrated scores have the mean variance of a row over N, not 0.",
    "kernel_calibration_error": "The width decides what it sees; values of different widths do not compare.",
    "gaussian_debiased_calibration_error": "Near calibration most of the bias remains.",
    "monotone_sweep_calibration_error": "Near calibration noise chooses the number of bins.",
    "variational_calibration_error": "It is a lower bound: rates that fall as scores rise are seen in part only.",
    "thresholded_adaptive_calibration_error": "What happens to classes below the threshold is not seen.",
    "top_k_calibration_error": "As k grows it goes to 0, whatever happens among the k classes.",
    "top_r_calibration_error": "The scores are at most 1 / r, so few uniform bins are filled.",
    "ranked_probability_score": "The order of the classes must mean something. It rewards telling cases apart too.",
    "spherical_score": "It rewards telling cases apart too.",
    "squared_kernel_calibration_error": "It depends on the order of the rows, which makes the blocks.",
}

#: Functions that are in no report, and the label of each.
OF_EVENT: dict[str, tuple[str, Callable[[Floats, NDArray[np.int64]], float]]] = {
    "lipschitz_calibration_error": ("smCE", calibrant.lipschitz_calibration_error),
    "truthful_calibration_error": ("truthful error (ATB)", calibrant.truthful_calibration_error),
    "kernel_calibration_error": ("kernel error", calibrant.kernel_calibration_error),
    "gaussian_debiased_calibration_error": ("Gaussian-debiased ECE", calibrant.gaussian_debiased_calibration_error),
    "monotone_sweep_calibration_error": ("monotone sweep ECE", calibrant.monotone_sweep_calibration_error),
    "variational_calibration_error": (
        "variational lower bound",
        lambda p, y: calibrant.variational_calibration_error(p, y).low,
    ),
}
OF_CLASSES: dict[str, tuple[str, Callable[[Floats, NDArray[np.int64]], float]]] = {
    "thresholded_adaptive_calibration_error": ("TACE", calibrant.thresholded_adaptive_calibration_error),
    "top_k_calibration_error": ("top-2 ECE", lambda p, y: calibrant.top_k_calibration_error(p, y, k=2)),
    "top_r_calibration_error": ("second class's ECE", lambda p, y: calibrant.top_r_calibration_error(p, y, r=2)),
    "squared_kernel_calibration_error": (
        "squared kernel error",
        lambda p, y: calibrant.squared_kernel_calibration_error(p, y).value,
    ),
    "ranked_probability_score": ("ranked probability score", calibrant.ranked_probability_score),
    "spherical_score": ("spherical score", calibrant.spherical_score),
}
#: The errors of the figure. Scores reward discrimination too, and the lower bound of calibrated scores is mostly 0.
NO_ERRORS = (
    "brier",
    "brier_event",
    "nll",
    "ranked_probability_score",
    "spherical_score",
    "variational_calibration_error",
)
ERRORS = tuple(
    name
    for name in (*(m.name for m in MEASURES if m.better == "lower"), *OF_EVENT, *OF_CLASSES)
    if name not in NO_ERRORS
)


class Data(NamedTuple):
    """Reported probabilities of three classes, (N, 3), and the classes that happened."""

    probs: Floats
    labels: NDArray[np.int64]


def data(setting: str) -> Data:
    """Return one of the three data sets."""
    factor, centre = SETTINGS[setting]
    rng = np.random.default_rng([17, *setting.encode()])
    logits = rng.normal(0, 1.5, (N, 3)) + np.array([0, 0, centre])
    return Data(softmax(factor * logits), drawn(softmax(logits), rng))


def softmax(logits: Floats) -> Floats:
    """Return the probabilities of classes."""
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def drawn(probs: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return classes that happen with these probabilities."""
    return np.minimum((np.cumsum(probs, axis=1) < rng.random((len(probs), 1))).sum(axis=1), 2)


def values(found: Data) -> dict[str, float]:
    """Return every measure and function on these rows."""
    scores, outcomes = np.ascontiguousarray(found.probs[:, 2]), (found.labels == 2).astype(np.int64)
    report = calibrant.evaluate(scores, outcomes, measures="all", level=None)
    of_classes = calibrant.evaluate(*found, measures=["classwise_ece"], level=None)
    return {
        **{key: report[key].value for key in report},
        "classwise_ece": of_classes["classwise_ece"].value,
        **{name: function(scores, outcomes) for name, (_, function) in OF_EVENT.items()},
        **{name: function(*found) for name, (_, function) in OF_CLASSES.items()},
    }


def labels() -> dict[str, str]:
    """Return the name of every measure and function, in the order of the table."""
    return {
        **{measure.name: measure.label for measure in MEASURES},
        **{name: label for name, (label, _) in (OF_EVENT | OF_CLASSES).items()},
    }


def table() -> str:
    """Return the values as a table in Markdown."""
    found = [values(data(setting)) for setting in SETTINGS]
    lines = [f"| measure | {' | '.join(SETTINGS)} | when it misleads |", "|---|---|---|---|---|"]
    for key, label in labels().items():
        cells = " | ".join(written(one[key]) for one in found)
        lines.append(f"| {label} | {cells} | {MISLEADS[key]} |")
    return "\n".join(lines) + "\n"


def written(value: float) -> str:
    """Return a number with four decimals; with six if it is small."""
    return f"{value:z.4f}" if abs(value) >= 0.001 else f"{value:z.6f}"


def floors(setting: str) -> dict[str, float]:
    """Return for every error what calibrated scores exceed in one sample of twenty, by labels drawn from the scores."""
    probs = data(setting).probs
    rng = np.random.default_rng(18)
    found = [values(Data(probs, drawn(probs, rng))) for _ in range(DRAWS)]
    return {key: float(np.quantile([one[key] for one in found], 0.95)) for key in ERRORS}


def ratios() -> Iterator[tuple[str, dict[str, float]]]:
    """Yield each setting with every error, in units of its floor."""
    for setting in SETTINGS:
        floor, value = floors(setting), values(data(setting))
        yield setting, {key: value[key] / floor[key] for key in ERRORS}


def main() -> None:
    """Draw every error in units of its noise floor."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import NullLocator

    names = labels()
    figure, axes = plt.subplots(figsize=(7.2, 7.0), layout="constrained")
    places = np.arange(len(ERRORS))[::-1]
    for (setting, found), marker, colour in zip(ratios(), "osD", ("#4c4c4c", "#c2410c", "#1d4ed8"), strict=True):
        shown = np.clip([found[key] for key in ERRORS], 0.1, None)
        axes.plot(shown, places, marker, color=colour, label=setting, markersize=5, linestyle="none")
    axes.axvspan(0.1, 1, color="#0000000f")
    axes.axvline(1, color="#4c4c4c", linewidth=1)
    axes.set(xscale="log", xlim=(0.1, None), xlabel="error / noise floor (95 % of calibrated samples are below 1)")
    axes.set_xticks(ticks := [0.1, 0.2, 0.5, 1, 2, 5], [f"{tick:g}" for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_yticks(places, [names[key] for key in ERRORS])
    axes.grid(axis="y", color="#00000014")
    axes.legend(loc="lower right")
    figure.savefig(FIGURE, dpi=130)


if __name__ == "__main__":
    main()
