"""The items of TRIPOD+AI (Collins et al. 2024) that a report answers, from the dictionary of `Report.to_dict`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from calibrant.measures.listed import BY_NAME
from calibrant.measures.profiles import PROFILES
from calibrant.render.drawing import heterogeneity
from calibrant.render.style import Summary, event_of, is_clustered, number, percent
from calibrant.render.tables import Table
from calibrant.render.words import amount, label_of, shown_estimates, total_weight, value_text
from calibrant.statistics.design import MINORITY

#: The heading above the table.
TRIPOD: Final = "TRIPOD+AI checklist"

#: Below the table.
REST: Final = (
    "The other items of TRIPOD+AI (Collins et al. 2024) are about the study, its participants and the model, so the "
    "authors have to answer them."
)


def checklist(summary: Summary) -> Table:
    """Return the items with what this report says about each; what only the authors know is said to be theirs."""
    return Table("tripod-ai", {}, ["item", "topic", "in this report"], list(_rows(summary)), texts=(0, 1, 2))


def _rows(summary: Summary) -> Iterator[tuple[str, str, str]]:
    events = _events(summary)
    event = f"Event: {event_of(summary)}."
    yield "8a", "outcome", f"{event} The authors must define the event and state how it was assessed."
    yield "10", "sample size", f"{events}.{_few(summary)} The authors must justify the sample size."
    yield "11", "missing data", _missing(summary)
    yield "12d", "clusters", _clusters(summary)
    yield "12e", "measures and plots", _measures(summary)
    yield "14", "fairness", _fairness(summary)
    yield (
        "15",
        "model output",
        "Predicted probabilities" + (", transformed from logits." if summary["choices"]["logits"] else "."),
    )
    yield "21", "participants and events", f"{events}.{_events_of_groups(summary)}"
    yield "23a", "performance", _performance(summary)
    yield "23b", "heterogeneity", _heterogeneity(summary)


def _events(summary: Summary) -> str:
    total = summary["n"] if summary["choices"]["weights"] is None else total_weight(summary)
    of = f"{summary['n']:,} predictions"
    if total is None:
        return of
    events = round(summary["outcome_rate"] * total, 1)
    return f"{of}, {amount(events)} events and {amount(round(total - events, 1))} non-events"


def _few(summary: Summary) -> str:
    few = any(finding["code"] == "rare-outcome" for finding in summary["findings"])
    return f" Fewer than {MINORITY} events or non-events are too few for reliable inference." if few else ""


def _missing(summary: Summary) -> str:
    left_out = {"without a target": summary["choices"]["ignored"], "of weight 0": summary["choices"]["weightless"]}
    parts = [f"{count:,} {why}" for why, count in left_out.items() if count]
    rows = f"Rows left out: {', '.join(parts)}." if parts else "No row was left out."
    return f"{rows} The authors must state how missing predictors were handled."


def _clusters(summary: Summary) -> str:
    if not is_clustered(summary):
        return "Rows were assumed to be independent."
    number = summary["clusters"]["clusters"]
    named = number if isinstance(number, str) else f"{number:,}"
    return f"Intervals and p-values allow for dependence within {named} clusters."


def _measures(summary: Summary) -> str:
    labels = [label_of(summary, key) for key in shown_estimates(summary)]
    plots = ["reliability diagram"] if summary["diagram"] is not None else []
    plots += [f"{name} calibration curve" for name in PROFILES[summary["profile"]].curves if plots]
    plots += [name.replace("_", " ") for name in summary["panels"]]
    return f"Measures: {', '.join(labels)}. Plots: {', '.join(plots) or 'none'}."


def _fairness(summary: Summary) -> str:
    groups = summary["groups"]
    if not groups:
        return "Performance in groups was not examined. To examine groups, name the column of groups with --by."
    return f"Performance was examined in {len(groups):,} groups."


def _events_of_groups(summary: Summary) -> str:
    sizes = [f"{group['name']} {group['report']['n']:,}" for group in summary["groups"]]
    return f" Predictions by group: {', '.join(sizes)}." if sizes else ""


def _performance(summary: Summary) -> str:
    level = summary["level"]
    parts = []
    for key, part in shown_estimates(summary, complete=False).items():
        low, high = part["low"], part["high"]
        missing = level is None or low is None or high is None
        ends = "" if missing else f" ({percent(level)} CI {number(low)} to {number(high)})"
        parts.append(f"{label_of(summary, key)} {value_text(part, number)}{ends}")
    groups = " The table of groups shows the performance in each group." if summary["groups"] else ""
    return f"{'; '.join(parts)}.{groups}"


def _heterogeneity(summary: Summary) -> str:
    if not summary["forests"]:
        return "Not examined."
    level = summary["level"]
    texts = [f"{BY_NAME[name].label}: {heterogeneity(forest, level)}" for name, forest in summary["forests"].items()]
    return " ".join(texts)
