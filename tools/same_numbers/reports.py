"""Cases of reports and comparisons: each design, judged event, profile and kind of interval, of rows and sketches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from same_numbers.inputs import (
    CLASSES,
    CLUSTERS,
    DESIGNS,
    EVENT,
    FRACTIONS,
    GROUPS,
    KINDS,
    MAIN_DESIGNS,
    WHOLE,
    Data,
    classes,
    event,
    logit,
)
from same_numbers.public import ROOT, Public, note

calibrant = Public("calibrant")
measures = Public("calibrant.measures")
results = Public("calibrant.results")

Cases = Iterator[tuple[str, Callable[[], Any]]]

_DATA = ROOT.parent / "shared" / "data"
_PROFILES = ("standard", "clinical", "forecast", "all")
_FEW = {"n_resamples": 30}

#: Options of reports that every design meets.
_EVERYWHERE: dict[str, dict[str, Any]] = {
    "every measure": {"profile": "all", **_FEW},
    "no resamples": {"profile": "all", "n_resamples": 0},
}

#: Options of reports that the main designs meet.
_SETTINGS: dict[str, dict[str, Any]] = {
    "defaults": {},
    **{f"profile {name}": {"profile": name, **_FEW} for name in _PROFILES[:3]},
    "simultaneous": {"bands": "simultaneous", **_FEW},
    "values alone": {"level": None, "profile": "forecast"},
    "another level and seed": {"level": 0.9, "rng": 5, "n_bins": 12, **_FEW},
    "groups": {"profile": "clinical", "groups": GROUPS, **_FEW},
    "groups without resamples": {"groups": GROUPS, "n_resamples": 0},
    "no classes": {"classwise": False, **_FEW},
    "a list": {"measures": ["ks", "ece", "auroc", "brier", "classwise_ece"], "tolerance": 0.02, **_FEW},
    **{f"tolerance of {name}": {"tolerance": 0.05, "tolerance_of": name, **_FEW} for name in ("smece", "rmsce")},
    "tolerance of mean_gap": {"tolerance": 0.1, "tolerance_of": "mean_gap", "n_resamples": 0},
}

_COMPARED: dict[str, dict[str, Any]] = {
    "plain": {},
    "tolerance": {"tolerance": 0.02, "level": 0.9, "n_bins": 10},
    "groups": {"groups": GROUPS},
}


def cases() -> Cases:
    """Yield the name of each case, and how to make its result."""
    yield from _reports()
    yield from _comparisons()
    yield from _unusual()
    yield from _special()
    if _DATA.is_dir():
        yield from _real()


def filled(data: Data, design: dict[str, Any], groups: Any = None, **make: Any) -> Any:
    """Return the sketch of predictions, from two batches."""
    sketch = calibrant.CalibrationSketch(**{**data.evaluated, **make})
    half = len(data.probs) // 2
    for part in (slice(None, half), slice(half, None)):
        rows = {**design, "groups": groups}
        own = {name: value[part] if isinstance(value, np.ndarray) else value for name, value in rows.items()}
        sketch.update(data.probs[part], data.targets[part], **own)
    return sketch


# ---------------------------------------------------------------- reports


def _reports() -> Cases:
    crossed = [*product(DESIGNS, _EVERYWHERE), *product(MAIN_DESIGNS, _SETTINGS)]
    options = {**_EVERYWHERE, **_SETTINGS}
    for (kind, data), (design, setting) in product(KINDS.items(), crossed):
        given, chosen = DESIGNS[design], options[setting]
        name = f"report: {kind}, {design}, {setting}"
        yield (
            f"{name}, of rows",
            lambda d=data, g=given, c=chosen: calibrant.evaluate(*_rows(d), **d.evaluated, **g, **c),
        )
        if setting != "defaults":
            yield f"{name}, of a sketch", lambda d=data, g=given, c=chosen: _of_sketch(d, g, c)


def _rows(data: Data) -> tuple[np.ndarray, np.ndarray]:
    return data.probs, data.targets


def _of_sketch(data: Data, design: dict[str, Any], chosen: dict[str, Any]) -> Any:
    rest = {name: value for name, value in chosen.items() if name != "groups"}
    return calibrant.evaluate(filled(data, design, chosen.get("groups")), **rest)


# ---------------------------------------------------------------- comparisons


def _comparisons() -> Cases:
    crossed = [*product(DESIGNS, ["plain"]), *product(MAIN_DESIGNS, list(_COMPARED)[1:])]
    for (kind, data), (design, setting) in product(list(KINDS.items())[:2], crossed):
        given, chosen = DESIGNS[design], _COMPARED[setting]
        name = f"comparison: {kind}, {design}, {setting}"
        yield (
            f"{name}, of rows",
            lambda d=data, g=given, c=chosen: calibrant.compare(d.probs, d.other, d.targets, **d.evaluated, **g, **c),
        )
        for paired in (None, True, False):
            yield (
                f"{name}, of sketches, paired={paired}",
                lambda d=data, g=given, c=chosen, p=paired: _of_sketches(d, g, c, paired=p),
            )


def _of_sketches(data: Data, design: dict[str, Any], chosen: dict[str, Any], *, paired: bool | None) -> Any:
    rest = {name: value for name, value in chosen.items() if name != "groups"}
    groups = chosen.get("groups")
    first, second = (filled(d, design, groups) for d in (data, data._replace(probs=data.other)))
    return calibrant.compare(first, second, paired=paired, **rest)


def _unusual() -> Cases:
    """Yield comparisons of other than two models of all rows."""
    compare = calibrant.compare
    p, q, y, _ = EVENT
    three = {"one": p, "two": q, "three": p**0.8}
    for design, given in MAIN_DESIGNS.items():
        yield f"comparison: three models, {design}", lambda g=given: compare(three, y, **g, groups=GROUPS)
        halves = {
            name: filled(Data(p[part], q[part], y[part]), _part(given, part), GROUPS[part])
            for name, part in (("odd", slice(None, None, 2)), ("even", slice(1, None, 2)))
        }
        for paired in (None, True, False):
            yield f"comparison: other rows, {design}, {paired}", lambda h=halves, p=paired: compare(h, paired=p)
    classwise = KINDS["classwise"]
    yield "comparison: classwise", lambda: compare(*classwise[:3], notion="classwise")
    yield "comparison: classwise, of sketches", lambda: _of_sketches(classwise, {}, {}, paired=None)
    yield "comparison: names", lambda: compare(p, q, y, names=("old", "new"), ignore_index=-1)
    further = ["auroc", "oe_ratio", "calibration_slope", "log_loss_skill", _detailed(law=True)]
    for design, given in MAIN_DESIGNS.items():
        yield f"comparison: further measures, {design}", lambda g=given: compare(p, q, y, measures=further, **g)
    yield "comparison: logits", lambda: compare({"a": logit(p), "b": q}, y, logits={"a": True})
    yield "comparison: names of classes", lambda: compare(*CLASSES[:2], _WORDS[CLASSES.targets], class_names=_NAMES)
    yield "comparison: images", lambda: compare(_IMAGES.probs, _IMAGES.other, _IMAGES.targets)
    yield "comparison: single precision", lambda: compare(*(x.astype(np.float32) for x in (p, q)), y)
    yield "comparison: certain and wrong", lambda: compare(np.round(p), q, y)


def _part(design: dict[str, Any], part: slice) -> dict[str, Any]:
    return {name: value[part] if isinstance(value, np.ndarray) else value for name, value in design.items()}


# ---------------------------------------------------------------- other inputs

_NAMES = ("bird", "cat", "dog")
_WORDS = np.array(_NAMES)


def _images() -> Data:
    """Return predictions for the pixels of forty images: (N, C, ...)."""
    data = classes(240, seed=7)
    shaped = (x.reshape(40, 6, 3).transpose(0, 2, 1) for x in data[:2])
    return Data(*shaped, data.targets.reshape(40, 6))


_IMAGES = _images()


def _special() -> Cases:
    """Yield reports on inputs and with options that no design has."""
    evaluate = calibrant.evaluate
    p, _, y, _ = EVENT
    probs, _, targets, _ = CLASSES
    ends = np.append(p[:300], [0.0, 1.0]), np.append(y[:300], [1, 1])
    for n_resamples in (0, 30):
        few = {"n_resamples": n_resamples, "profile": "all"}
        at = f"{n_resamples} resamples"
        yield f"report: ties, few rows, {at}", lambda f=few: evaluate(np.round(p[:50], 1), y[:50], n_bins=7, **f)
        yield f"report: certain and wrong, {at}", lambda f=few: evaluate(*ends, **f)
        yield (
            f"report: certain and wrong, clusters, {at}",
            lambda f=few: evaluate(*ends, clusters=CLUSTERS[:302], **f),
        )
        yield f"report: one row, {at}", lambda f=few: evaluate(p[:1], y[:1], **f)
        yield f"report: no event, {at}", lambda f=few: evaluate(p, 0 * y, clusters=CLUSTERS, **f)
        yield f"report: rare events, {at}", lambda f=few: evaluate(p / 20, y * (p > 0.9), clusters=CLUSTERS, **f)
        yield f"report: ties in clusters, {at}", lambda f=few: evaluate(np.round(p, 1), y, clusters=CLUSTERS, **f)
        yield f"report: images, {at}", lambda f=few: evaluate(_IMAGES.probs, _IMAGES.targets, **f)
        yield (
            f"report: images, rows, {at}",
            lambda f=few: evaluate(_IMAGES.probs, _IMAGES.targets, clusters=False, **f),
        )
    yield "report: single precision", lambda: evaluate(probs.astype(np.float32), targets, notion="classwise", **_FEW)
    yield "report: half precision", lambda: evaluate(p.astype(np.float16), y, clusters=CLUSTERS, **_FEW)
    yield "report: logits", lambda: evaluate(np.log(probs) + 1, targets, logits=True, clusters=CLUSTERS, **_FEW)
    yield "report: two columns", lambda: evaluate(np.column_stack([1 - p, p]), y, **_FEW)
    yield (
        "report: one class of several",
        lambda: evaluate(probs, targets, notion="positive", ignore_index=2, **_FEW),
    )
    yield (
        "report: left out rows and names of classes",
        lambda: evaluate(probs, _WORDS[targets], class_names=_NAMES, groups=GROUPS, **_FEW),
    )
    yield "report: left out", lambda: evaluate(probs, np.where(GROUPS == "a", -1, targets), ignore_index=-1, **_FEW)
    yield "report: numbered groups", lambda: evaluate(p, y, groups=CLUSTERS // 10, clusters=CLUSTERS, **_FEW)
    yield "report: groups are clusters", lambda: evaluate(p, y, groups=CLUSTERS // 10, clusters=CLUSTERS // 10, **_FEW)
    yield "report: many classes", lambda: evaluate(*_rows(classes(300, 40)), **_FEW)
    yield (
        "report: many clusters",  # more than a sketch has buckets
        lambda: evaluate(*_rows(event(3_000)), clusters=np.arange(3_000) // 2, profile="all", **_FEW),
    )
    yield (
        "report: many clusters, of a sketch",
        lambda: evaluate(filled(event(3_000), {"clusters": np.arange(3_000) // 2}), profile="all", **_FEW),
    )
    yield "report: many rows", lambda: evaluate(*_rows(event(20_000)), profile="all", **_FEW)
    yield "report: many rows, no resamples", lambda: evaluate(*_rows(event(20_000)), profile="all", n_resamples=0)
    yield "report: many rows, simultaneous", lambda: evaluate(*_rows(event(20_000)), bands="simultaneous", **_FEW)
    yield (
        "report: compiled kernels",  # from 2^20 numbers on
        lambda: evaluate(*_rows(event(2**20)), clusters=np.arange(2**20) // 300, n_resamples=0),
    )
    yield from _tables()
    for profile in ("?", *_PROFILES):
        yield f"report: as measures, {profile}", lambda m=profile: evaluate(p, y, measures=m, **_FEW)
    for design, given in MAIN_DESIGNS.items():
        yield (
            f"report: ordered levels, {design}",
            lambda g=given: evaluate(probs, targets, **g, ordered=True, class_names=_NAMES, **_FEW),
        )
        yield (
            f"report: an own measure, {design}",
            lambda g=given: evaluate(p, y, **g, measures=["ece", _own()], groups=GROUPS, **_FEW),
        )
        for law in (True, False):
            for kind in ("event", "classwise"):
                yield (
                    f"report: a detailed measure, {kind}, law={law}, {design}",
                    lambda g=given, k=KINDS[kind], w=law: evaluate(
                        *_rows(k), **k.evaluated, **g, measures=[_detailed(law=w)], **_FEW
                    ),
                )
        yield (
            f"report: an own measure of classes, {design}",
            lambda g=given: evaluate(*_rows(KINDS["classwise"]), notion="classwise", **g, measures=[_own()], **_FEW),
        )


def _tables() -> Cases:
    """Yield reports on tables, on sketches of other makes, and on sketches of groups."""
    evaluate = calibrant.evaluate
    p, _, y, _ = EVENT
    for weighted, weights in (("", None), (", weights", FRACTIONS), (", whole weights", WHOLE)):
        for grid in (None, "standard", "fine"):

            def table(w: Any = weights, g: Any = grid) -> Any:
                return calibrant.ReliabilityTable.from_scores(p, y, weights=w, grid=g)

            for n in (0, 30):
                yield (
                    f"report: a table, grid {grid}{weighted}, {n} resamples",
                    lambda t=table, n=n: evaluate(t(), profile="all", n_resamples=n),
                )
    yield "report: a table of right answers", lambda: evaluate(table(), notion="top-label", **_FEW)
    for kind, data in KINDS.items():
        for design, given in MAIN_DESIGNS.items():
            yield (
                f"report: a sketch, fine grid, {kind}, {design}",
                lambda d=data, g=given: evaluate(filled(d, g, grid="fine"), profile="all", **_FEW),
            )
            yield (
                f"report: a mapping of sketches, {kind}, {design}",
                lambda d=data, g=given: evaluate(_by_name(d, g), profile="clinical", **_FEW),
            )
    for design, given in MAIN_DESIGNS.items():
        yield (
            f"report: a sketch of classes too, {design}",
            lambda g=given: evaluate(filled(CLASSES, g, classwise=True, class_names=_NAMES), n_bins=10, **_FEW),
        )


def _by_name(data: Data, design: dict[str, Any]) -> dict[str, Any]:
    """Return the sketch of each group by its name."""
    rows = {name: np.flatnonzero(name == GROUPS) for name in ("a", "b", "few")}
    return {name: filled(_taken(data, at), _taken_design(design, at)) for name, at in rows.items()}


def _taken(data: Data, at: np.ndarray) -> Data:
    return Data(data.probs[at], data.other[at], data.targets[at], data.notion)


def _taken_design(design: dict[str, Any], at: np.ndarray) -> dict[str, Any]:
    return {name: value[at] if isinstance(value, np.ndarray) else value for name, value in design.items()}


def _own() -> Any:
    """Return the measure of the page on measures of one's own."""
    meaning = "How far mean score and outcome rate are apart among scores below one half."
    return measures.Measure(name="low_gap", label="gap below 1/2", meaning=meaning, value=_gap_of_low_scores)


def _gap_of_low_scores(event: Any) -> float:
    note(type(event))
    table, low = event.table, event.table.scores < 0.5
    return float(abs(table.residuals[low].sum()) / table.counts[low].sum()) if low.any() else float("nan")


def _detailed(*, law: bool) -> Any:
    """Return an own measure that says all that it may: with replicates, or with a law of its own."""

    def interval(inference: Any) -> Any:
        note(type(inference))
        value = inference.event.value(measure)
        return measures.Interval(value - 0.01, value + 0.02, "an interval")

    def replicate(replicates: Any) -> np.ndarray:
        note(type(replicates))
        return np.asarray(np.abs(replicates.gap_sums.sum(axis=1)) / replicates.inference.cells.total)

    own = measures.OwnLaw(lambda _: measures.Law(results.Floor(0.01, 0.03), 0.2, "a law", details={"a fact": 2}))
    drawn = measures.Null(replicate=replicate, statistic=replicate, closed_form=lambda _: None)
    measure = measures.Measure(
        name="own",
        label="own",
        meaning="The size of the mean gap.",
        computed="It is the size of the mean gap over {bins}",
        misleads="Always.",
        sources=("Nobody 2026",),
        value=lambda event: float(abs(event.table.residuals.sum()) / event.table.total),
        judges="event",
        scale="square",
        better="lower",
        signed=True,
        range=(0.0, 0.5),
        class_range=(0.0, 0.4),
        binning="uniform",
        link="identity",
        profiles=frozenset({"standard"}),
        details=lambda _: {"a fact": 1},
        caution=lambda _: {"flag": "a warning"},
        influence=lambda event: np.full((2, len(event.table)), 1 / event.table.total),
        origin=0.5,
        bound=lambda _: 0.001,
        interval=interval,
        implied=lambda _: 0.3,
        null=own if law else drawn,
        over_classes=measures.Unavailable("not of classes")
        if law
        else measures.OverClasses(norm="l2", binning="uniform"),
    )
    return measure


# ---------------------------------------------------------------- real data


def _real() -> Cases:
    """Yield reports on the files of forecasts and of networks that may lie beside the checkout."""
    import pandas as pd

    columns = {
        "nba_games.csv": ("prob1", "prob1_outcome", "season"),
        "mlb_games.csv": ("prob1", "prob1_outcome", "season"),
        "governors_elections.csv": ("probwin", "probwin_outcome", "year"),
        "precip_niamey_2016.csv": ("EMOS", "obs", None),
    }

    def of_events(name: str, score: str, outcome: str, group: str | None) -> Any:
        frame = pd.read_csv(_DATA / name)
        frame = frame[frame[outcome].isin([0, 1])].head(20_000)
        by = None if group is None else frame[group].to_numpy()
        return calibrant.evaluate(frame[score], frame[outcome], groups=by, n_resamples=100)

    def of_classes(name: str) -> Any:
        arrays = np.load(_DATA / name)
        return calibrant.evaluate(arrays["predictions"], arrays["ground_truth"].reshape(-1), n_resamples=100)

    for name, chosen in columns.items():
        yield f"report: {name}", lambda n=name, c=chosen: of_events(n, *c)
    for name in ("wideresnet-16-4-cifar-10.npz", "densenet-bc-100-cifar-100.npz"):
        yield f"report: {name}", lambda n=name: of_classes(n)


# ---------------------------------------------------------------- texts


def texts() -> Cases:
    """Yield results whose every field, text and page is recorded."""
    evaluate, compare = calibrant.evaluate, calibrant.compare
    p, q, y, _ = EVENT
    designs = {"rows": {}, "clusters": {"clusters": CLUSTERS}}
    for design, given in designs.items():
        yield f"texts: an event, {design}", lambda g=given: evaluate(p, y, tolerance=0.02, **g, **_FEW)
        yield (
            f"texts: a risk model, {design}",
            lambda g=given: evaluate(p, y, groups=GROUPS, profile="clinical", **g, **_FEW),
        )
        yield (
            f"texts: forecasts, {design}",
            lambda g=given: evaluate(p, y, weights=FRACTIONS, profile="forecast", **g, **_FEW),
        )
        yield (
            f"texts: classes, {design}",
            lambda g=given: evaluate(
                CLASSES.probs, CLASSES.targets, class_names=["<b>", "c|d", "e"], profile="all", **g, **_FEW
            ),
        )
        yield (
            f"texts: a sketch of groups, {design}",
            lambda g=given: evaluate(filled(EVENT, g, GROUPS), profile="all", **_FEW),
        )
        yield f"texts: models, {design}", lambda g=given: compare(p, q, y, groups=GROUPS, tolerance=0.01, **g)
        yield (
            f"texts: models by sketches, {design}",
            lambda g=given: _of_sketches(EVENT, g, {}, paired=None),
        )
    yield "texts: without resamples", lambda: evaluate(p, y, groups=GROUPS, n_resamples=0, clusters=CLUSTERS)
    yield "texts: values alone", lambda: evaluate(p, y, level=None)
