"""Cases of the functions: of the package, of inference, figures, scikit-learn, and of other libraries' signatures."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np

from same_numbers import public
from same_numbers.inputs import (
    CLASSES,
    CLUSTERS,
    EVENT,
    FRACTIONS,
    GROUPS,
    KINDS,
    LABELS,
    WHOLE,
    logit,
)
from same_numbers.public import Public
from same_numbers.reports import Cases, filled
from same_numbers.values import artists, attempt

calibrant = Public("calibrant")
inference = Public("calibrant.inference")
plot = Public("calibrant.plot")

#: Functions that other cases call.
_ELSEWHERE = {
    *("evaluate", "compare", "standardised_maximum", "noise_floor", "rows_to_prove", "recalibrate"),
    *("certify_threshold", "certify_two_sided", "risk_coverage_curve", "area_under_risk_coverage", "censoring_weights"),
    *("certify_questions", "compare_results", "prior_shift", "read_decisions", "read_maps"),
}

#: What a function needs besides predictions.
_NEEDED: dict[str, dict[str, Any]] = {
    "top_k_calibration_error": {"k": 2},
    "top_r_calibration_error": {"r": 2},
    "hosmer_lemeshow_test": {"sample": "external"},
    "multicalibration_error": {"groups": GROUPS},
    "bootstrap": {"statistic": lambda table: calibrant.auroc(table)},
    "consistency": {"statistic": lambda table: calibrant.expected_calibration_error(table, n_bins=7)},
}

#: The values that each parameter takes one after the other; a function refuses those of another one's parameter.
_VARIANTS: dict[str, tuple[Any, ...]] = {
    "n_bins": (7,),
    "notion": ("positive", "top-label", "classwise", "multilabel"),
    "binning": ("quantile",),
    "norm": ("l2", "max"),
    "closed": ("left",),
    "weights": (FRACTIONS, WHOLE),
    "clusters": (CLUSTERS, CLUSTERS % 5),
    "level": (0.9, None),
    "n_resamples": (0,),
    "rng": (5,),
    "threshold": (0.1,),
    "thresholds": ([0.1, 0.3, 0.5],),
    "score": ("log",),
    "method": ("murphy", "exact", "mesh"),
    "kernel": ("laplace", "gaussian", "reflected", "logit"),
    "width": (0.2,),
    "unbiased": (False,),
    "span": (0.5,),
    "debiased": (True,),
    "least_rows": (30,),
    "block": (20,),
    "eps": (1e-3,),
    "k": (1, 3),
    "r": (1, 3),
    "sample": ("in-sample",),
    "n_groups": (5,),
    "cuts": ("mass", "width"),
    "bandwidth": (0.05,),
    "mesh_points": (50,),
    "tolerance": (0.01,),
    "refine_steps": (4,),
}

#: Options that go together.
_TOGETHER: dict[str, tuple[dict[str, Any], ...]] = {
    "smooth_calibration_error": (
        {"method": "mesh", "mesh_points": 50, "tolerance": 0.01, "refine_steps": 4},
        {"method": "mesh", "kernel": "logit", "weights": FRACTIONS},
    ),
    "score_decomposition": ({"method": "murphy", "binning": "quantile", "n_bins": 7},),
    "hosmer_lemeshow_test": ({"sample": "in-sample", "cuts": "width", "n_groups": 5},),
}


def cases() -> Cases:
    """Yield the name of each case, and how to make its result."""
    for name in public.documented():
        module, _, last = name.rpartition(".")
        function = public.resolve(name)
        if module in ("calibrant", "calibrant.inference") and inspect.isfunction(function) and last not in _ELSEWHERE:
            yield f"function: {name}", partial(_each, getattr(Public(module), last), last)
    yield from _inference()
    yield from _measures()
    yield from _plots()
    yield from _recalibrations()
    yield from _compat()
    yield from _sklearn()


# ---------------------------------------------------------------- functions of predictions


def _each(function: Any, name: str) -> dict[str, Any]:
    """Return the results of a function of all kinds of predictions, with each option."""
    return {label: attempt(partial(function, probs, **options)) for label, probs, options in _calls(function, name)}


def _calls(function: Any, name: str) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    parameters = inspect.signature(function.target).parameters
    fixed = {**_NEEDED.get(name, {}), **({"n_resamples": 30} if "n_resamples" in parameters else {})}
    kinds = {"event": EVENT, "classes": CLASSES, "labels": LABELS}
    for label, probs in _inputs().items():
        rest = {option: value for option, value in fixed.items() if option != "groups"}
        yield label, probs, rest
    for kind, data in kinds.items():
        evaluated = data.evaluated if "notion" in parameters else {}
        base = {**fixed, **evaluated, "targets": data.targets}
        yield kind, data.probs, base
        if kind == "labels":
            continue
        logits = logit(data.probs) if kind == "event" else np.log(data.probs) + 1
        yield f"{kind}, logits", logits, {**base, "logits": True}
        yield f"{kind}, left out", data.probs, {**base, "targets": _left_out(data.targets), "ignore_index": -1}
        for parameter in parameters:
            for i, value in enumerate(_VARIANTS.get(parameter, ())):
                said = value if isinstance(value, (str, int, float, type(None))) else i
                yield f"{kind}, {parameter}={said}", data.probs, {**base, parameter: value}
        if "clusters" in parameters and "weights" in parameters:
            for said, weights in (("weights", FRACTIONS), ("whole weights", WHOLE)):
                yield f"{kind}, clusters, {said}", data.probs, {**base, "clusters": CLUSTERS, "weights": weights}
        for i, together in enumerate(_TOGETHER.get(name, ())):
            yield f"{kind}, together {i}", data.probs, {**base, **together}


@cache
def _inputs() -> dict[str, Any]:
    """Return tables and sketches, which come without targets."""
    sketches = {
        f"a sketch, {kind}{said}": filled(data, design, groups)
        for kind, data in KINDS.items()
        for said, design, groups in (
            ("", {}, None),
            (", weights", {"weights": FRACTIONS}, None),
            (", clusters, groups", {"clusters": CLUSTERS}, GROUPS),
        )
        if not (design.get("clusters") is not None and data.notion)  # of one event alone
    }
    table = calibrant.ReliabilityTable.from_scores(*EVENT[::2])
    return {"a table": table, "a table on a grid": table.on_grid("standard"), **sketches}


def _left_out(targets: np.ndarray) -> np.ndarray:
    kept = targets.copy()
    kept[::7] = -1
    return kept


# ---------------------------------------------------------------- inference and measures


def _inference() -> Cases:
    table = calibrant.ReliabilityTable.from_scores(*EVENT[::2])
    yield "inference: standardised_maximum", lambda: [inference.standardised_maximum(table, n_bins=n) for n in (7, 15)]
    for scores in ("uniform", "confident", "rare", EVENT.probs, "?"):
        said = scores if isinstance(scores, str) else "given"
        options = {"scores": scores, "level": 0.9, "rng": 3}
        yield f"inference: rows_to_prove, {said}", lambda o=options: inference.rows_to_prove(0.02, n_bins=10, **o)
        yield (
            f"inference: noise_floor, {said}",
            lambda o=options: _walked(inference.noise_floor(500, n_bins=10, n_resamples=50, **o)),
        )
    yield "inference: noise_floor", lambda: inference.noise_floor(500)
    yield (
        "inference: groups",
        lambda: _walked(
            calibrant.multicalibration_error(*EVENT[::2], groups=GROUPS, clusters=CLUSTERS, n_resamples=30)
        ),
    )
    times, horizon = 2 + EVENT.probs.round(1), 2.5
    yield (
        "inference: censoring_weights",
        lambda: [calibrant.censoring_weights(times, EVENT.targets, horizon=horizon, groups=g) for g in (None, GROUPS)],
    )
    values = (("classwise_calibration", CLASSES), ("reliability_diagram", EVENT), ("murphy_curve", EVENT))
    for name, data in values:
        yield f"inference: {name}", lambda n=name, d=data: _walked(getattr(calibrant, n)(*d[::2][:2]))


def _walked(value: Any) -> Any:
    """Return all fields of a result, and what its members return."""
    return attempt(lambda: value, deep=True)


def _measures() -> Cases:
    """Yield what the list of measures says, without its functions."""
    measures = Public("calibrant.measures")

    def listed() -> list[dict[str, Any]]:
        public.note(measures.MEASURES)
        each = (
            {part: getattr(measure, part) for part in measure.__dataclass_fields__} for measure in measures.MEASURES
        )
        return [{part: value for part, value in one.items() if isinstance(value, (str, bool, float))} for one in each]

    yield "measures: the list", listed


# ---------------------------------------------------------------- figures

_FIGURES: dict[str, tuple[str, ...]] = {
    "reliability_diagram": ("event", "simultaneous", "groups", "diagram", "classwise"),
    "calibration_curve": ("event", "loess", "curve", "classwise"),
    "score_histogram": ("event", "diagram"),
    "classwise": ("classes", "classwise"),
    "compare": ("comparison", "three models"),
    "differences": ("comparison", "three models"),
    "groups": ("groups", "event"),
    "decision_curve": ("net benefit", "decision curve"),
    "murphy_curve": ("Murphy",),
    "roc_curve": ("ROC",),
    "risk_coverage": ("risk",),
    "evidence": ("monitor",),
    "leaderboard": ("three models",),
}

#: The values of their options: the kinds one by one, the first values of the others together, and so on.
_DRAWN: dict[str, tuple[Any, ...]] = {
    "kind": ("points", "stacked", "smooth", "loess"),
    "legend": (True, False),
    "intervals": (True, False),
    "band": (True, False),
    "counts": (True, False),
    "confidence": (False, True),
    "consistency": (True, False),
    "label": ("a model",),
    "color": ("red",),
    "number": ("smece", None),
    "order": ("index", "support"),
    "max_classes": (2,),
    "measure": ("auroc",),
    "log": (True,),
    "max_risk": (0.3,),
    "coverage": (0.5,),
    "line": ({"linestyle": "--"},),
}

#: Options that not every kind has.
_DASHED = {"line": {"linestyle": "--"}}
_ALONE: dict[str, tuple[dict[str, Any], ...]] = {
    "reliability_diagram": ({"kind": "points", "bands": "pointwise", **_DASHED}, {"bands": "simultaneous"}),
    **dict.fromkeys(("calibration_curve", "decision_curve", "murphy_curve", "roc_curve"), (_DASHED,)),
    "groups": ({"order": "p_value"},),
}


def _plots() -> Cases:
    for name in (name for name in public.documented() if name.startswith("calibrant.plot.")):
        last = name.rpartition(".")[2]
        yield f"figure: {last}", partial(_figures, getattr(plot, last), last)


def _figures(draw: Any, name: str) -> dict[str, Any]:
    """Return the picture of each result, and with other options what is drawn, without its layout."""
    import matplotlib.pyplot as plt

    results = {label: _result(label) for label in _FIGURES[name]}
    drawn = {label: attempt(partial(draw, result)) for label, result in results.items()}
    first = next(iter(results.values()))
    taken = {name: values for name, values in _DRAWN.items() if name in inspect.signature(draw.target).parameters}
    options = [{"kind": value} for value in taken.pop("kind", ())]
    for i in range(max(map(len, taken.values()))):
        options.append({option: values[i] for option, values in taken.items() if i < len(values)})
    for each in (*options, *_ALONE.get(name, ())):
        drawn[str(each)] = attempt(lambda each=each: artists(draw(first, **each)))
    drawn["on axes"] = attempt(lambda: artists(draw(first, ax=plt.subplots()[1])))
    return drawn


def _result(label: str) -> Any:
    """Return what a figure shows."""
    p, q, y, _ = EVENT
    few = {"n_resamples": 30}
    risks = partial(calibrant.evaluate, p, y, **few, clusters=CLUSTERS)

    def monitored() -> Any:
        watch = calibrant.Monitor()
        watch.update(p, y)
        watch.update(q, y)
        return watch

    makers: dict[str, Callable[[], Any]] = {
        "event": risks,
        "simultaneous": lambda: calibrant.evaluate(p, y, bands="simultaneous", **few),
        "loess": lambda: risks(profile="clinical"),
        "groups": lambda: risks(groups=GROUPS, profile="clinical"),
        "classes": lambda: calibrant.evaluate(CLASSES.probs, CLASSES.targets, **few),
        "classwise": lambda: calibrant.evaluate(CLASSES.probs, CLASSES.targets, notion="classwise", **few),
        "diagram": lambda: calibrant.reliability_diagram(p, y, level=0.9),
        "curve": lambda: risks().curves["isotonic"],
        "comparison": lambda: calibrant.compare(p, q, y),
        "three models": lambda: calibrant.compare({"a": p, "b": q, "c": p**0.8}, y, clusters=CLUSTERS),
        "net benefit": lambda: calibrant.net_benefit(p, y),
        "decision curve": lambda: risks(profile="clinical").panels["decision_curve"],
        "Murphy": lambda: risks(profile="forecast").panels["murphy_curve"],
        "ROC": lambda: risks(profile="forecast").panels["roc_curve"],
        "risk": lambda: calibrant.risk_coverage_curve(p, y),
        "monitor": monitored,
    }
    return makers[label]()


# ---------------------------------------------------------------- recalibration


def _recalibrations() -> Cases:
    p, _, y, _ = EVENT
    few: dict[str, Any] = {"n_resamples": 30}
    options: dict[str, dict[str, Any]] = {
        method: {"method": method}
        for method in ("auto", "identity", "cox", "beta", "isotonic", "shift", "temperature", "histogram")
    }
    options |= {
        "clusters": {"clusters": CLUSTERS},
        "whole weights": {"weights": WHOLE, "weights_are": "frequency"},
        "fractional weights": {"weights": FRACTIONS},
        "other settings": {"prior_rows": 5, "level": 0.9, "rng": 3, "notion": "positive", "ignore_index": -1},
    }
    for name, given in options.items():
        yield f"recalibrate: {name}", lambda g=given: _fix(calibrant.recalibrate(p, y, **few, **g))
    yield "recalibrate: logits", lambda: _fix(calibrant.recalibrate(logit(p), y, logits=True, **few))
    names = [str(label) for label in range(CLASSES.probs.shape[1])]
    yield (
        "recalibrate: classes",
        lambda: _fix(calibrant.recalibrate(CLASSES.probs, CLASSES.targets, class_names=names, **few)),
    )


def _fix(fix: Any) -> dict[str, Any]:
    """Return the numbers, the texts and the stored forms of a recalibration."""
    from tempfile import TemporaryDirectory

    grid, fitted = np.linspace(0, 1, 101), fix.map
    curve, drift = public.call(fix, "curve"), public.call(fitted, "check", grid)
    for value in (fix, fitted, fix.gain, fitted.fitted, curve, drift):
        public.note(type(value))
    text = public.call(fitted, "to_json")
    again = public.call(fitted, "from_json", text)
    with TemporaryDirectory() as folder:
        public.call(fix, "to_html", f"{folder}/fix.html")
        fitted.to_json(f"{folder}/map.json")
        read = public.call(fitted, "read", f"{folder}/map.json")
    return {
        "dict": public.call(fix, "to_dict"),
        "proven": public.call(fix, "proven"),
        "verdict": public.call(fix, "verdict"),
        "markdown": public.call(fix, "to_markdown"),
        "plot": artists(public.call(fix, "plot")),
        "mapped": public.call(fitted, "__call__", grid),
        "inverse": attempt(lambda: public.call(fitted, "inverse", 0.3)),
        "drift": [vars(drift), public.call(drift, "drifted")],
        "json": [text, again == read == fitted],
        "sql": public.call(fitted, "to_sql", "score"),
        "expression": str(type(public.call(fitted, "to_expression", "score"))),
        "onnx": len(public.call(fitted, "to_onnx").SerializeToString()),
    }


# ---------------------------------------------------------------- other libraries


def _compat() -> Cases:
    bensemble, pyhealth, triples = (Public(f"calibrant.compat.{name}") for name in ("bensemble", "pyhealth", "triples"))
    p, _, y, _ = EVENT
    probs, _, targets, _ = CLASSES
    top, predicted = probs.max(axis=1), probs.argmax(axis=1)
    yield "compat: bensemble.brier_score", lambda: bensemble.brier_score(probs, targets)
    yield (
        "compat: bensemble.expected_calibration_error",
        lambda: [bensemble.expected_calibration_error(probs, targets, n_bins=n) for n in (7, 15)],
    )
    yield (
        "compat: bensemble.negative_log_likelihood",
        lambda: [bensemble.negative_log_likelihood(probs, targets, eps=eps) for eps in (0, 1e-8, 0.1)],
    )
    yield (
        "compat: bensemble.reliability_diagram",
        lambda: [bensemble.reliability_diagram(probs, targets, n_bins=n) for n in (7, 15)],
    )
    yield "compat: pyhealth.brier_top1", lambda: pyhealth.brier_top1(probs, targets)
    options: tuple[dict[str, Any], ...] = (
        {},
        {"bins": 7},
        {"bins": [0, 0.3, 0.6, 1]},
        {"adaptive": True},
        {"threshold": 0.1},
    )
    for name, given in (
        ("ece_classwise", (probs, targets)),
        ("ece_confidence_binary", (p[:, None], y[:, None])),
        ("ece_confidence_multiclass", (probs, targets)),
    ):
        own = options if name == "ece_classwise" else options[:4]
        yield f"compat: pyhealth.{name}", lambda n=name, g=given, o=own: [getattr(pyhealth, n)(*g, **x) for x in o]
    for name in ("compute_ece", "compute_mce", "compute_adaptive_ece"):
        yield (
            f"compat: triples.{name}",
            lambda n=name: [getattr(triples, n)(top, predicted, targets, n_bins=bins) for bins in (7, 15)],
        )
    yield (
        "compat: triples.compute_brier_score",
        lambda: [triples.compute_brier_score(*given) for given in ((p, y), (probs, targets))],
    )


def _sklearn() -> Cases:
    """Yield the scores and displays of an estimator without a fit: its probabilities are columns."""
    scikit = Public("calibrant.sklearn")

    class Columns:
        """A fitted classifier whose probabilities are the columns themselves."""

        _estimator_type = "classifier"

        def __init__(self, width: int) -> None:
            self.classes_ = np.arange(width)

        def predict_proba(self, X: np.ndarray) -> np.ndarray:
            return X

    two = Columns(2), np.column_stack([1 - EVENT.probs, EVENT.probs]), EVENT.targets
    three = Columns(3), CLASSES.probs, CLASSES.targets
    raw = {name: public.resolve(name) for name in public.documented() if name.rpartition(".")[0] == "calibrant"}
    for name, metric in raw.items():
        if inspect.isfunction(metric):

            def scored(name: str = name, metric: Any = metric) -> dict[str, Any]:
                needed = _NEEDED.get(name.rpartition(".")[2], {})

                def of(data: tuple[Any, ...], **options: Any) -> Any:
                    scorer = scikit.make_scorer(metric, **needed, **options)
                    public.note(type(scorer))
                    return {
                        "repr": repr(scorer),
                        "score": attempt(lambda: public.call(scorer, "__call__", *data)),
                        "weighted": attempt(lambda: scorer(*data, sample_weight=FRACTIONS)),
                    }

                return {
                    "two classes": attempt(lambda: of(two)),
                    "three classes": attempt(lambda: of(three)),
                    "one of three": attempt(lambda: of(three, pos_label=1)),
                    "two, seven bins": attempt(lambda: of(two, n_bins=7, greater_is_better=False)),
                }

            yield f"scikit-learn: {name}", scored

    def routed() -> Any:
        import sklearn

        scorer = scikit.make_scorer("ece")
        with sklearn.config_context(enable_metadata_routing=True):
            public.call(scorer, "set_score_request", sample_weight=True)
            return str(public.call(scorer, "get_metadata_routing"))

    yield "scikit-learn: metadata", routed
    shown = {
        "sample_weight": WHOLE,
        "name": "a model",
        "n_bins": 7,
        "strategy": "quantile",
        "level": 0.9,
        "n_resamples": 30,
        "rng": 3,
    }

    def drawn(display: Any, **options: Any) -> dict[str, Any]:
        public.note(type(display))
        again = public.call(display, "plot", **options)
        return {"report": display.report, "figure": display.ax_, "again": again.ax_}

    reliability = scikit.ReliabilityDisplay
    yield (
        "scikit-learn: of predictions",
        lambda: drawn(reliability.from_predictions(EVENT.targets, EVENT.probs, **shown), kind="points"),
    )
    yield "scikit-learn: of an estimator", lambda: drawn(reliability.from_estimator(*two, **shown), kind="isotonic")
    yield (
        "scikit-learn: of one class",
        lambda: drawn(reliability.from_estimator(*three, pos_label=1, n_resamples=30), name="one"),
    )
    quantiles = partial(calibrant.reliability_diagram, *EVENT[::2], binning="quantile")
    yield (
        "scikit-learn: of a report",
        lambda: drawn(
            reliability(calibrant.evaluate(*EVENT[::2], n_resamples=30), name="x", pos_label=1, diagram=quantiles())
        ),
    )
