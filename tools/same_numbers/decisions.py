"""Cases of decisions: certified thresholds, risk-coverage curves, monitors, leaderboards, recalibrated estimators."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from same_numbers.inputs import CLASSES, CLUSTERS, EVENT, FRACTIONS, GROUPS, LABELS, WHOLE, Data, event, logit
from same_numbers.public import Public, call, note
from same_numbers.reports import Cases
from same_numbers.values import attempt

calibrant = Public("calibrant")
recalibration = Public("calibrant.recalibration")
thresholds = Public("calibrant.thresholds")
scikit = Public("calibrant.sklearn")

_COSTS = {"cost_of_error": 10.0, "cost_of_referral": 1.0}

#: Options of certified thresholds of one event or of classes.
_CERTIFIED: dict[str, dict[str, Any]] = {
    "defaults": {},
    "a loose promise": {"max_risk": 0.3, "confidence": 0.9, **_COSTS},
    **{f"method {name}": {"max_risk": 0.3, "method": name} for name in ("closed", "fixed-sequence", "betting")},
    "clusters": {"max_risk": 0.4, "clusters": CLUSTERS},
    "declared clusters": {"max_risk": 0.45, "clusters": CLUSTERS, "largest_cluster": 60, "method": "betting"},
    "weights": {"max_risk": 0.4, "weights": FRACTIONS, "max_weight": 3.0},
    "weights of a survey": {"max_risk": 0.4, "weights": WHOLE, "weights_are": "sampling"},
    "groups": {"max_risk": 0.4, "groups": GROUPS},
    "left out": {"max_risk": 0.4, "ignore_index": 1},
}


def cases() -> Cases:
    """Yield the name of each case, and how to make its result."""
    yield from _thresholds()
    yield from _monitors()
    yield from _leaderboards()
    yield from _questions()
    yield from _priors()
    yield from _maps()
    yield from _estimators()


# ---------------------------------------------------------------- thresholds


def _thresholds() -> Cases:
    for (kind, data), (name, options) in (
        ((kind, data), each) for kind, data in (("event", EVENT), ("classes", CLASSES)) for each in _CERTIFIED.items()
    ):
        yield f"threshold: {kind}, {name}", partial(_certified, data, **options)
    names = ["a", "b", "c"]
    yield (
        "threshold: classes, per class",
        partial(_certified, CLASSES, max_risk=0.4, per_class=True, class_names=names, notion="top-label"),
    )
    yield "threshold: logits", lambda: calibrant.certify_threshold(logit(EVENT.probs), EVENT.targets, logits=True)
    for name, options in _CERTIFIED.items():
        rest = {key: value for key, value in options.items() if key not in ("max_risk", "groups")}
        promises = {"yes_risk": options.get("max_risk", 0.05), "no_risk": options.get("max_risk", 0.05)}
        yield f"threshold: two sides, {name}", partial(_two_sided, **promises, **rest)
    yield "threshold: two sides, logits", partial(_two_sided, probs=logit(EVENT.probs), logits=True, yes_risk=0.3)
    correct = (EVENT.targets == 1).astype(int)
    for name, rows in (("rows", {}), ("clusters", {"clusters": CLUSTERS}), ("weights", {"weights": FRACTIONS})):
        given = {"correct": correct, "level": 0.9, **rows}
        yield f"risk and coverage: curve, {name}", partial(calibrant.risk_coverage_curve, EVENT.probs, **given)
        yield (
            f"risk and coverage: areas, {name}",
            lambda g=given: [
                calibrant.area_under_risk_coverage(EVENT.probs, kind=kind, **g) for kind in ("aurc", "augrc", "excess")
            ],
        )


def _certified(data: Data, **options: Any) -> Any:
    """Return a threshold with its texts, or its error."""
    return attempt(lambda: _said(calibrant.certify_threshold(data.probs, data.targets, **options)))


def _two_sided(probs: Any = EVENT.probs, **options: Any) -> Any:
    return attempt(lambda: _said(calibrant.certify_two_sided(probs, EVENT.targets, **options)))


def _said(result: Any) -> dict[str, Any]:
    """Return a result with its texts, pages and figures, and what its values do."""
    parts = [result, *getattr(result, "by_group", {}).values(), *getattr(result, "common", {}).values()]
    for part in (*parts, getattr(result, "costs", None)):
        note(type(part))
    found = {"dictionary": call(result, "to_dict"), "text": str(result), "repr": repr(result)}
    found |= {"markdown": call(result, "to_markdown", title="A title"), "figure": call(result, "plot")}
    found |= {"verdict": call(result, "verdict"), "certified": call(result, "certified"), "page": _page(result)}
    if hasattr(result, "accepts"):
        found |= {"accepted": call(result, "accepts", np.linspace(0, 1, 21)), "areas": dict(call(result, "areas"))}
        found |= {"curve": call(result, "curve")}
    else:
        found |= {"coverage": call(result, "coverage")}
    return found


def _page(result: Any) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        call(result, "to_html", path, title="A title", date="today")
        return path.read_text(encoding="utf-8")


# ---------------------------------------------------------------- monitors


def _monitors() -> Cases:
    designs: dict[str, dict[str, Any]] = {
        "rows": {},
        "clusters": {"clusters": CLUSTERS},
        "weights": {"weights": WHOLE, "weights_are": "frequency"},
        "groups": {"groups": GROUPS},
    }
    for name, rows in designs.items():
        for said, options in (("", {}), (", a tolerance", {"tolerance": 0.02, "alpha": 0.01})):
            for drift in (False, True):
                yield (
                    f"monitor: {name}{said}{', a drift' * drift}",
                    partial(_watched, rows, options, drift=drift),
                )
    yield (
        "monitor: odds and weights",
        partial(_watched, {"weights": FRACTIONS}, {"tolerance_odds": 1.1, "max_weight": 3}),
    )
    yield "monitor: a threshold", partial(_watched, {}, {}, promise=True)


def _watched(rows: dict[str, Any], options: dict[str, Any], *, drift: bool = False, promise: bool = False) -> Any:
    """Return what a monitor says of four slices, after each and at the end."""
    certified = calibrant.certify_threshold(EVENT.probs, EVENT.targets, max_risk=0.45) if promise else None
    groups = np.unique(rows["groups"]).tolist() if "groups" in rows else None
    watch = calibrant.Monitor(**options, threshold=certified, groups=groups)
    note(type(watch))
    if promise:
        call(watch, "watch_threshold", certified)
    said = []
    for i in range(4):
        data = event(seed=20 + i)
        targets = (
            data.targets if not drift or i < 1 else (data.probs * 0.6 > np.linspace(0, 1, len(data.probs))).astype(int)
        )
        call(watch, "update", data.probs, targets, label=f"week {i}", **rows)
        said.append(call(watch, "verdict"))
    members = ("settings", "log_e", "evidence", "p_value", "alarm", "promise_broken", "labels", "drift", "called_out")
    members += ("notion", "n_classes", "history")
    found = {member: call(watch, member) for member in members}
    if found["drift"] is not None:
        note(type(found["drift"]))
    with tempfile.TemporaryDirectory() as folder:
        call(watch, "to_json", Path(folder) / "state.json")
        again = calibrant.Monitor.from_json(Path(folder) / "state.json")
    texts = {"after each slice": said, "text": str(watch), "repr": repr(watch), "again": str(again)}
    texts |= {member: call(watch, member) for member in ("to_dict", "to_markdown", "to_prometheus")}
    return {
        **found,
        **texts,
        "page": _page(watch),
        "figure": call(watch, "plot"),
        "since the onset": attempt(lambda: call(watch, "since_onset")),
    }


# ---------------------------------------------------------------- several models, labels, estimators


def _leaderboards() -> Cases:
    p, q, y, _ = EVENT
    several = {"a": p, "b": q, "c": p**0.8, "d": 1 - p}
    for sort_by in ("brier", "nll", "accuracy", "ece", "auroc"):
        yield (
            f"leaderboard: by {sort_by}",
            lambda s=sort_by: attempt(lambda: _texts(calibrant.compare(several, y, sort_by=s, clusters=CLUSTERS))),
        )
    answers = {name: (probs > 0.5).astype(int) for name, probs in several.items()}
    right = {name: (answer == y).astype(int) for name, answer in answers.items()}
    confident = {name: np.maximum(probs, 1 - probs) for name, probs in several.items()}
    yield "leaderboard: own outcomes", lambda: _texts(calibrant.compare(confident, right, own_outcomes=True))
    yield "leaderboard: groups", lambda: _texts(calibrant.compare(several, y, groups=GROUPS))


def _texts(comparison: Any) -> dict[str, Any]:
    return {"dictionary": comparison.to_dict(), "text": str(comparison), "page": _page(comparison)}


def _questions() -> Cases:
    def log() -> Any:
        rows = [
            {"id": i, "site": group, "answers": {"urgent": {"noul": p}, "late": {"noul": q}}, "labels": {"urgent": y}}
            for i, (p, q, y, group) in enumerate(zip(*(part.tolist() for part in (*EVENT[:3], GROUPS)), strict=True))
        ]
        labels = {str(i): {"late": "yes" if y else "no"} for i, y in enumerate(EVENT.targets.tolist())}
        return rows, calibrant.read_decisions(rows, labels=labels, on="id", yes="yes", by="site")

    def certified() -> Any:
        _, read = log()
        each = {"max_risk": 0.4, "confidence": 0.9, "method": "closed"}
        return [_texts(calibrant.certify_questions(read, **each, each=each_one)) for each_one in (False, True)]

    def maps() -> Any:
        _, read = log()
        fixes = calibrant.recalibrate(read, n_resamples=30)
        note(type(fixes))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "maps.json"
            call(fixes, "maps_to_json", path, anyway=True)
            stored = calibrant.read_maps(path)
        each = {name: fitted.to_json() for name, fitted in stored.items()}
        return {**_texts(fixes), "maps": each, "the same": stored == call(fixes, "maps")}

    def results() -> Any:
        y, right = EVENT.targets, {"a": EVENT.targets, "b": 1 - EVENT.targets, "c": (EVENT.probs > 0.5).astype(int)}
        missing = {name: np.where(np.arange(len(y)) % 7, each, np.nan) for name, each in right.items()}
        options: tuple[dict[str, Any], ...] = ({}, {"clusters": CLUSTERS, "level": 0.9})
        found = [attempt(partial(calibrant.compare_results, right, **each)) for each in options]
        return [*found, attempt(partial(calibrant.compare_results, missing, sparse=True))]

    yield "questions: a log", lambda: attempt(lambda: vars(log()[1]))
    yield "questions: reports", lambda: attempt(lambda: _texts(calibrant.evaluate(log()[1], n_resamples=30)))
    yield "questions: thresholds", lambda: attempt(certified)
    yield "questions: maps", lambda: attempt(maps)
    yield "results: comparison", results


def _priors() -> Cases:
    names = ["a", "b", "c"]
    each = dict.fromkeys(names, 1 / 3)
    calls: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
        "given": ((), {"prior": 0.1, "trained_prior": 0.5}),
        "given, classes": ((), {"prior": {"a": 0.5, "b": 0.3, "c": 0.2}, "trained_prior": each}),
        "estimated": ((EVENT.probs,), {"trained_prior": 0.5, "level": 0.9}),
        "clusters": ((EVENT.probs,), {"trained_prior": 0.5, "clusters": CLUSTERS}),
        "weights": ((EVENT.probs,), {"trained_prior": 0.5, "weights": WHOLE, "weights_are": "frequency"}),
        "logits": ((logit(EVENT.probs),), {"trained_prior": 0.5, "logits": True, "reference": EVENT.other}),
        "classes": ((CLASSES.probs,), {"trained_prior": each, "class_names": names}),
    }
    for name, (given, options) in calls.items():
        yield f"priors: {name}", lambda g=given, o=options: attempt(lambda: calibrant.prior_shift(*g, **o))


def _maps() -> Cases:
    p, y = EVENT.probs, EVENT.targets
    few = {"n_resamples": 30}
    yield "recalibrate: groups", lambda: _texts(recalibration.recalibrate(p, y, groups=GROUPS, **few))

    def labels() -> Any:
        fix = calibrant.recalibrate(LABELS.probs, LABELS.targets, notion="multilabel", **few)
        note(type(fix))
        fitted = call(fix, "fitted")
        each = [one.to_json() for one in call(fitted, "of_labels")]
        return {**_texts(fix), "map": fitted.to_json(), "maps": each, "mapped": fitted(LABELS.probs)}

    yield "recalibrate: labels", lambda: attempt(labels)


def _estimators() -> Cases:
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(8)
    x = rng.normal(size=(300, 3))
    y = (rng.random(300) < 1 / (1 + np.exp(-x @ [1.0, -2.0, 0.5]))).astype(int)

    settings = {"prior_rows": 10.0, "level": 0.9, "n_resamples": 30, "rng": 3}

    def classifier() -> dict[str, Any]:
        import polars

        made = scikit.RecalibratedClassifier(LogisticRegression(), method="cox", cv=3, n_jobs=1, **settings)
        note(type(made))
        call(made, "fit", polars.DataFrame(x, schema=["a", "b", "c"]), y)
        members = ("n_features_in_", "feature_names_in_", "get_metadata_routing")
        return {
            **{name: str(call(made, name)) for name in members},
            **{
                name: call(made, name, polars.DataFrame(x, schema=["a", "b", "c"]))
                for name in ("predict_proba", "predict")
            },
        }

    def abstaining() -> dict[str, Any]:
        options = {"max_risk": 0.3, "confidence": 0.9, "method": "closed", "abstain": -1, "cv": 3, "n_jobs": 1}
        made = scikit.ThresholdedClassifier(LogisticRegression(), threshold=None, per_class=False, **options)
        note(type(made))
        call(made, "fit", x, y)
        each = {name: call(made, name, x) for name in ("predict", "accepts", "predict_proba", "coverage")}
        betting = scikit.ThresholdedClassifier(LogisticRegression(), max_risk=0.4, largest_cluster=10, max_weight=2.0)
        each["betting"] = attempt(lambda: betting.fit(x, y, clusters=np.arange(300) // 5).coverage(x))
        return {**each, "score": call(made, "score", x, y), "routing": str(call(made, "get_metadata_routing"))}

    def scores() -> Any:
        made = scikit.Recalibrator(method="beta", **settings)
        note(type(made))
        return call(call(made, "fit", EVENT.probs[:, None], EVENT.targets), "transform", EVENT.probs[:, None])

    yield "scikit-learn: a recalibrated classifier", classifier
    yield "scikit-learn: a classifier that abstains", abstaining
    yield "scikit-learn: a map of scores", scores
