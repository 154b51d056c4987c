"""The paragraph for the methods section of a paper, from the dictionary of `Report.to_dict`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from calibrant.inputs.notions import PER_CLASS
from calibrant.measures.binned.binned import LEAST_CLUSTERS
from calibrant.measures.binned.mce import MCE
from calibrant.measures.line.cox import CALIBRATION_INTERCEPT, CALIBRATION_SLOPE
from calibrant.measures.line.line import CERTAIN
from calibrant.measures.listed import BY_NAME
from calibrant.measures.measure import OverClasses
from calibrant.measures.profiles import PROFILES
from calibrant.render.style import Facts, Summary, event_of, is_clustered, percent, version
from calibrant.render.words import BINS, COMPONENTS, amount, gathered, label_of, rounded, shown_estimates, total_weight
from calibrant.statistics.design import BY_CLUSTER, LONE
from calibrant.statistics.groups import LEAST_GROUP
from calibrant.table.cluster_sums import EVENT_CELLS

#: The heading above the paragraph.
METHODS: Final = "Methods"

_CLOSED: Final = "closed form"
_BRIEF: Final = 8  # measures that the short paragraph names
_NORMS: Final = {"l1": "the mean", "l2": "the root mean square", "max": "the maximum"}
_REASON: Final = ("no interval: ", "not available: ")


def paragraph(summary: Summary) -> str:
    """Return the paragraph: full sentences, in the order of data, measures, intervals, tests, curves and groups."""
    parts = (_data, _left_out, _clusters, _measures, _intervals, _floors, _test, _decision, _pictures, _groups, _seed)
    sentences = chain.from_iterable(part(summary) for part in parts)
    return " ".join(f"{sentence}." for sentence in sentences)


def brief(summary: Summary) -> str:
    """Return the paragraph in at most 120 words: data, measures, intervals, the test, the diagram and groups."""
    sentences = chain(_brief_data(summary), _brief_measures(summary), _brief_test(summary), _brief_groups(summary))
    return " ".join(f"{sentence}." for sentence in sentences)


def _brief_data(summary: Summary) -> Iterable[str]:
    n, rate = summary["n"], summary["outcome_rate"]
    what = f"{n:,} prediction{'s' * (n != 1)}{_classes(summary)}"
    per_class = summary["notion"] in PER_CLASS
    event = f"event: {event_of(summary)}" + ("" if per_class else f", observed frequency {100 * rate:.3g} %")
    yield f"We evaluated the calibration of {what} ({event}) with calibrant {version()}"


def _brief_measures(summary: Summary) -> Iterable[str]:
    labels, level = [label_of(summary, key) for key in shown_estimates(summary, complete=False)], summary["level"]
    named = (
        _listed(labels) if len(labels) <= _BRIEF else f"{len(labels)} measures, among them {_listed(labels[:_BRIEF])}"
    )
    if level is None:
        yield f"We report {named}"
        return
    rows = "assume independent rows"
    if is_clustered(summary):
        number = summary["clusters"]["clusters"]
        rows = f"allow for dependence within {number if isinstance(number, str) else f'{number:,}'} clusters"
    yield f"We report {named}. {percent(level)} confidence intervals and p-values {rows}"


def _brief_test(summary: Summary) -> Iterable[str]:
    test, drawn = summary["test"], summary["n_resamples"]
    if test is not None:
        parts = [name for part, name in COMPONENTS.items() if part in test["details"]["parts"]]
        source = f", with {drawn:,} simulated data sets" if drawn else ""
        yield f"One test combined {_listed(parts)}{source}" if len(parts) > 1 else f"We tested {parts[0]}{source}"
    if summary["diagram"] is not None:
        loess = " and a loess curve" if "loess" in PROFILES[summary["profile"]].curves else ""
        yield f"The reliability diagram has {summary['n_bins']:,} bins {BINS['uniform']}{loess}"


def _brief_groups(summary: Summary) -> Iterable[str]:
    tested = sum(group["adjusted_p_value"] is not None for group in summary["groups"])
    if tested:
        yield f"The test was repeated in {tested:,} group{'s' * (tested > 1)}, with Holm's correction"


def shows_methods(summary: Summary) -> bool:
    """Return whether the profile of a report shows the paragraphs."""
    return PROFILES[summary["profile"]].methods


# ---------------------------------------------------------------- the data


def _data(summary: Summary) -> Iterable[str]:
    """Yield the version, the rows, the evaluated event with its frequency, and what the numbers and the weights are."""
    choices, n = summary["choices"], summary["n"]
    yield f"Calibration was evaluated with calibrant {version()} on {n:,} prediction{'s' * (n != 1)}{_classes(summary)}"
    yield _event(summary)
    where = summary.get("source", {}).get("where")
    if where:
        yield f"Only rows with {where} were used"
    if choices["logits"] is not None:
        sigmoid = "softmax" if summary["n_classes"] and summary["notion"] != "multilabel" else "logistic function"
        if choices["logits"]:
            yield f"Logits were transformed to probabilities by the {sigmoid}"
    if choices["data"] == "sketch":
        yield "The predictions were summarised as a sketch, with counts of rows and events in narrow score ranges"
    if choices["data"] == "table":
        yield "The predictions were summarised as a table, with counts of rows and events for each score"
    if choices["weights"] is not None:
        total = total_weight(summary)
        weight = "" if total is None else f" with a total of {amount(total)}"
        counted = {
            "integer": "A row with weight w counts as w equal rows",
            "fractional": "Variances use sums of squared weights, and sample sizes are effective sample sizes (Kish)",
        }
        yield f"The rows have weights{weight}. {counted[choices['weights']]}"


def _classes(summary: Summary) -> str:
    if not summary["n_classes"]:
        return ""
    return f" of {summary['n_classes']:,} {'labels' if summary['notion'] == 'multilabel' else 'classes'}"


def _event(summary: Summary) -> str:
    """Return the evaluated event with its observed frequency."""
    rate, choices = summary["outcome_rate"], summary["choices"]
    share = f"{100 * rate:.4g} %"
    if summary["notion"] in PER_CLASS:
        each = event_of(summary)
        return f"We evaluated {each}, by its own probability. The mean observed frequency is {share}"
    total = summary["n"] if choices["weights"] is None else total_weight(summary)
    events = "" if total is None else f"{amount(round(rate * total, 1))} "
    of = "rows" if choices["weights"] is None else "units of weight"
    return f"The evaluated event is {event_of(summary)}. The event was observed in {events}{of} ({share})"


def _left_out(summary: Summary) -> Iterable[str]:
    """Yield which rows and inputs were left out, and why."""
    choices = summary["choices"]
    ignored, weightless = choices["ignored"], choices["weightless"]
    for count, why in ((ignored, "without a target"), (weightless, "of weight 0")):
        if count:
            yield f"{count:,} row{'s' * (count > 1)} {why} {'were' if count > 1 else 'was'} left out"
    if choices["rounded"]:
        yield rounded(choices["rounded"])
    omitted = summary["omitted"]
    if omitted:
        why = "; ".join(dict.fromkeys(omitted.values()))
        yield f"{len(omitted):,} input{'s were' if len(omitted) > 1 else ' was'} left out: {why.rstrip('.')}"


def _clusters(summary: Summary) -> Iterable[str]:
    """Yield the clusters, and how they enter what is inferred."""
    clusters, inferred = summary["clusters"], summary["level"] is not None
    if clusters is None:
        if inferred:
            yield "Rows were assumed to be independent"
        return
    number = clusters["clusters"]
    if not is_clustered(summary):
        yield "Each cluster has one row, so rows were assumed to be independent"
        return
    named = number if isinstance(number, str) else f"{number:,}"
    largest = f"{100 * clusters['largest_cluster']:.2g} %"
    yield f"The rows are in {named} clusters. The largest cluster has {largest} of the rows"
    if inferred:
        pooled = isinstance(number, str) or number > EVENT_CELLS.n_buckets
        buckets = f" (pooled at random into {EVENT_CELLS.n_buckets} larger ones)" * pooled
        yield (
            "Clusters were assumed to be independent, but rows of one cluster may depend on each other. Variances use "
            f"sums over clusters{buckets} and degrees of freedom from Satterthwaite's approximation (Bell and "
            "McCaffrey 2002)"
        )


def _samples(summary: Summary, source: str = "the predicted probabilities") -> str:
    """Return what was simulated."""
    how = "a random normal multiplier for each cluster" if is_clustered(summary) else f"outcomes drawn from {source}"
    return f"{summary['n_resamples']:,} simulated data sets with {how}"


# ---------------------------------------------------------------- the measures


def _measures(summary: Summary) -> Iterable[str]:
    """Yield what each shown measure estimates."""
    shown = shown_estimates(summary)
    for key in shown:
        measure, description = BY_NAME.get(key), summary["measures"][key]
        if measure is None or not measure.computed:
            yield f"{description['label']}: {description['meaning'].rstrip('.')}"
            continue
        bins = f"{summary['n_bins']:,} bins {BINS[description['binning'] or 'uniform']}"
        sentence = measure.computed.format(bins=bins)
        if key == MCE.name and summary["clusters"] is not None:
            sentence += f" of {LEAST_CLUSTERS} clusters"
        yield sentence + cited(measure.sources)
    if any(key in shown for key in (CALIBRATION_INTERCEPT.name, CALIBRATION_SLOPE.name)):
        yield f"For log-odds, scores within {CERTAIN:g} of 0 or 1 were counted as {CERTAIN:g} or 1 - {CERTAIN:g}"
    if summary["notion"] in PER_CLASS:
        yield from _over_classes(summary)


def _over_classes(summary: Summary) -> Iterable[str]:
    """Yield how measures of one event were combined over classes."""
    combined = {key: BY_NAME[key].over_classes for key in shown_estimates(summary) if key in BY_NAME}
    names = gathered(
        (_NORMS[over.norm], _named(key, summary))
        for key, over in combined.items()
        if isinstance(over, OverClasses) and "per_class" in summary["estimates"][key]["details"]
    )
    if names:
        yield f"Measures of one event were computed for each class and combined by {_with_names(names)}"


def _named(key: str, summary: Summary) -> str:
    """Return a measure's name within a sentence."""
    computed = BY_NAME[key].computed if key in BY_NAME else ""
    name = computed.partition(" is ")[0] or f"The {label_of(summary, key)}"
    return f"the{name.removeprefix('The')}"


def _intervals(summary: Summary) -> Iterable[str]:
    """Yield the level and the method of the intervals, and which measures have none, and why."""
    shown, level = shown_estimates(summary), summary["level"]
    names = [(_parts_of(part["method"])[0], _named(key, summary), part["low"] is None) for key, part in shown.items()]
    held = gathered((method, name) for method, name, is_missing in names if not is_missing)
    lacking = gathered((reason, name) for reason, name, is_missing in names if is_missing)
    if level is None:
        yield "No confidence intervals were computed"
        lacking = {reason: names for reason, names in lacking.items() if reason.startswith(_REASON[1])}
    if held:
        methods = {method.replace("; ", ", "): names for method, names in held.items()}
        yield f"Confidence intervals have a level of {percent(level)} and are not adjusted for the number of measures"
        yield f"The methods of the confidence intervals are {_with_names(methods)}"
    for reason, of in lacking.items():
        what = "value" if reason.startswith(_REASON[1]) else "interval"
        why = reason.removeprefix(_REASON[0]).removeprefix(_REASON[1])
        yield f"There is no {what} for {_listed(of)}: {why}"


def _with_names(names: Mapping[str, Sequence[str]]) -> str:
    """Return sources or methods, each with the names of its measures."""
    return "; ".join(f"{source} ({_listed(of)})" for source, of in names.items())


def _parts_of(method: str) -> tuple[str, str]:
    """Return the methods of an interval and of the noise floor, without what belongs to the clusters."""
    interval, _, floor = method.removesuffix(BY_CLUSTER).removesuffix(LONE).partition("; floor: ")
    return interval, floor


def _floors(summary: Summary) -> Iterable[str]:
    """Yield where noise floors and p-values of measures come from."""
    sources = gathered(
        (_distribution(_parts_of(part["method"])[1], summary), _named(key, summary))
        for key, part in shown_estimates(summary).items()
        if part["floor"] is not None
    )
    if sources:
        ends = f"the mean and the {100 * summary['level']:g}th percentile under calibration"
        yield f"Noise floors ({ends}) and p-values of measures were computed {_with_names(sources)}"


def _distribution(source: str, summary: Summary) -> str:
    """Return where a null distribution comes from, in words."""
    drawn = summary["n_resamples"]
    if not source or (drawn and source == f"{drawn:,} resamples"):
        return f"from {_samples(summary)}" if drawn else f"in {_CLOSED}"
    return f"in {_CLOSED}" if source == _CLOSED else f"from {source}"


# ---------------------------------------------------------------- tests


def _test(summary: Summary) -> Iterable[str]:
    """Yield what the test of calibration is, and where its p-value comes from."""
    test = summary["test"]
    if test is None:
        return
    parts = [name for part, name in COMPONENTS.items() if part in test["details"]["parts"]]
    what = f"the Cauchy combination (Liu and Xie 2020) of tests of {_listed(parts)}"
    if len(parts) == 1:
        what = f"a test of {parts[0]}"
    if summary["notion"] in PER_CLASS:
        what += " over all classes"
    source = f"{summary['n_resamples']:,} resamples" if summary["n_resamples"] else _CLOSED
    yield f"The test of calibration is {what}, and its p-value was computed {_distribution(source, summary)}"


def _decision(summary: Summary) -> Iterable[str]:
    """Yield what was decided about a tolerance."""
    decision = summary["decision"]
    if decision is not None:
        what = f"the {BY_NAME[decision['measure']].label} is below {decision['tolerance']:g}"
        yield f"One-sided {percent(decision['level'])} confidence bounds were used to test whether {what}"


def _pictures(summary: Summary) -> Iterable[str]:
    """Yield how diagrams and curves were made."""
    level, panels = summary["level"], summary["panels"]
    if summary["diagram"] is not None:
        bins = f"{summary['n_bins']:,} bins {BINS['uniform']}"
        ends = (
            f", with {percent(level)} confidence intervals by Clopper and Pearson (1934)" if level is not None else ""
        )
        yield f"The reliability diagram has {bins}{ends}"
        if level is not None:
            yield from _bands(summary)
    if "decision_curve" in panels:
        yield _net_benefit(panels["decision_curve"])
    if "murphy_curve" in panels:
        places = _thresholds(panels["murphy_curve"])
        yield f"The Murphy curve is the mean elementary score at {places} (Ehm et al. 2016)"
    if "roc_curve" in panels:
        yield "The ROC curve uses every distinct score as a threshold"


def _bands(summary: Summary) -> Iterable[str]:
    """Yield how the calibration curves and their bands were made."""
    drawn, simultaneous = summary["n_resamples"], summary["choices"]["bands"] == "simultaneous"
    level = percent(summary["level"])
    if drawn:
        yield f"The consistency bands were computed from {_samples(summary)} (Bröcker and Smith 2007)"
    isotonic = "The isotonic calibration curve (CORP, Dimitriadis et al. 2021) has"
    if simultaneous:
        yield f"{isotonic} a simultaneous {level} band (Dimitriadis et al. 2023)"
    elif drawn:
        yield f"{isotonic} a pointwise {level} band from {_samples(summary, 'the fitted curve')}"
    else:
        yield f"{isotonic} no confidence band"
    if "loess" in PROFILES[summary["profile"]].curves:
        yield (
            "The flexible calibration curve is the loess curve of the ICI, limited to values from 0 to 1. The "
            f"pointwise {level} band of the flexible curve is a normal approximation with the rates of the curve"
        )
    yield (
        "The smooth calibration curve is a kernel regression of outcomes on scores with a reflected Gaussian kernel "
        f"and a pointwise {level} band. The bandwidth of the kernel is the smooth ECE"
    )


def _net_benefit(panel: Facts) -> str:
    """Return how the decision curve was made."""
    what = f"Net benefit was computed at {_thresholds(panel)} (Vickers and Elkin 2006)"
    cited_what = f"{what}. Rows with a score of at least the threshold count as treated"
    if panel["level"] is None:
        return cited_what
    method = _parts_of(panel["method"])[0]
    return f"{cited_what}. Each {percent(panel['level'])} confidence interval is for one threshold ({method})"


def _thresholds(panel: Facts) -> str:
    places = panel["thresholds"]
    return f"{len(places)} thresholds from {places[0]:g} to {places[-1]:g}"


# ---------------------------------------------------------------- groups, and what was drawn


def _groups(summary: Summary) -> Iterable[str]:
    """Yield how groups and classes were compared."""
    groups, level, classes = summary["groups"], summary["level"], summary["classwise"]
    if classes is not None and classes["adjusted_p_values"] is not None:
        yield "The ECE of each class was tested, with Holm's (1979) correction for the number of classes"
    if not groups:
        return
    yield f"Each of {len(groups):,} group{'s' * (len(groups) > 1)} was evaluated separately"
    tested = sum(group["adjusted_p_value"] is not None for group in groups)
    if tested:
        yield (
            f"The test was repeated in the {tested:,} group{'s' * (tested > 1)} with at least {LEAST_GROUP} rows"
            f"{' in at least two clusters' * is_clustered(summary)}, with Holm's (1979) correction"
        )
    labels = [f"the {BY_NAME[name].label}" for name in summary["forests"]]
    if labels and level is not None:
        yield (
            f"Differences between groups in {_listed(labels)} were tested by Cochran's Q at a common value (Cochran "
            "1954) and described by I² (Higgins and Thompson 2002). The groups compared have at least 15 events and at "
            "least 15 non-events"
        )
    error = summary["multicalibration"]
    if error is not None:
        what = "The multicalibration error is the largest standardised Kuiper error over groups"
        yield f"{what}. The p-value is from this method: {_parts_of(error['method'])[0]}"


def _seed(summary: Summary) -> Iterable[str]:
    """Yield the seed, where something was drawn."""
    folds = any("fold" in part["method"] for part in shown_estimates(summary).values())
    if summary["level"] is None or not (summary["n_resamples"] or folds):
        return
    seed = summary["choices"]["seed"]
    yield "The random seed is " + ("from the caller's generator" if seed is None else str(seed))


def _listed(names: Sequence[str]) -> str:
    """Return names with commas, the last one after "and"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def cited(sources: Sequence[str]) -> str:
    """Return sources in parentheses; nothing without any."""
    return f" ({'; '.join(sources)})" if sources else ""
