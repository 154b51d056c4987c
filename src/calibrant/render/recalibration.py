"""A recalibration for the terminal and for pages, from the dictionary of `Recalibration.to_dict`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from calibrant.render import drawing, tables, terminal
from calibrant.render.style import (
    Estimate,
    Facts,
    Style,
    Summary,
    Tone,
    aligned,
    evaluated_event,
    head,
    is_clustered,
    lead,
    number,
    paragraphs,
    percent,
    short,
    signed,
    wrapped,
)
from calibrant.render.tables import Column, Table, chance_text
from calibrant.render.words import chance, in_clusters, rows_text, texts, value_text
from calibrant.statistics.resampling import alpha_of

_LISTED: Final = 11  # rows of the table of a map
_NAMED: Final = 10  # labels in a sentence
_NOTABLE: Final = 1e-6  # limit of probabilities that the text names
_NOTABLE_SHARE: Final = 0.05  # of the shrinkage

#: The columns of the terminal, but for the first.
_WIDTHS: Final = ("{:>10}", "  {:^18}", "{:>10}", "  {:^18}")
_WIDTHS_OF_LABELS: Final = ("  {:<9}", "  {:>8}", "  {:^18}", "{:>9}", "{:>12}", "{:>11}")

#: The losses that prove a gain, in words.
LOSSES: Final = {"log": "log loss", "brier": "Brier score"}

#: The families of maps, in words.
FAMILIES: Final = {
    "identity": "the unchanged scores",
    "cox": "a line in log-odds",
    "beta": "beta calibration",
    "isotonic": "isotonic regression, shrunken to a line in log-odds",
    "shift": "a shift of the log-odds",
    "temperature": "temperature scaling",
    "clipped": "the unchanged scores, but for 0 and 1",
    "constant": "a constant",
    "histogram": "the observed frequency of each bin",
    "vector": "vector scaling",
    "matrix": "matrix scaling",
}


def of_labels(summary: Summary) -> bool:
    """Return whether each of several labels has a map."""
    return "labels" in summary


def of_classes(summary: Summary) -> bool:
    """Return whether the map is of the probabilities of all classes."""
    return not of_labels(summary) and bool(summary["map"]["kind"] == "softmax")


def headline(summary: Summary) -> str:
    """Return the number of predictions and the evaluated event, in words."""
    rows = f"{rows_text(summary['n'])}{in_clusters(summary['clusters'])}"
    if of_labels(summary):
        return f"{rows} ({summary['n_classes']} labels)"
    if of_classes(summary):
        return f"{rows} (all {summary['n_classes']} classes)"
    return f"{rows} ({evaluated_event(summary)})"


def heading(summary: Summary) -> tuple[str, Tone]:
    """Return the headline of a page with its tone."""
    if summary["proven"]:
        return "Recalibration helps", "good"
    if of_labels(summary):
        return "No evidence that recalibration helps", ""
    if summary["chosen"] == "identity":
        return "No change of the scores is supported", ""
    return "No evidence that recalibration helps", ""


def toned_verdict(summary: Summary) -> list[tuple[str, Tone]]:
    """Return the verdict as sentences with their tones: cautions, the gain, the map, the errors, dependence."""
    sentences: list[tuple[str, Tone]] = []
    if of_labels(summary):
        sentences += [(sentence, heading(summary)[1] if i == 0 else "") for i, sentence in enumerate(_labels(summary))]
        if not is_clustered(summary):
            sentences.append(_INDEPENDENT)
        return sentences
    if summary["flag"]:
        sentences.append((f"Caution: {summary['flag']}.", "caution"))
    sentences += [(_gain(summary), heading(summary)[1]), (_choice(summary), "")]
    if summary["chosen"] != "identity":
        sentences += [(_errors(summary), ""), (_how(summary), "")]
    if not is_clustered(summary):
        sentences.append(_INDEPENDENT)
    return sentences


def verdict(summary: Summary) -> list[str]:
    """Return the verdict as sentences."""
    return [sentence for sentence, _ in toned_verdict(summary)]


_INDEPENDENT: Final[tuple[str, Tone]] = ("Confidence intervals and p-values assume independent rows.", "")


def _labels(summary: Summary) -> Iterator[str]:
    """Yield the sentences about several labels."""
    labels, level = summary["labels"], percent(summary["level"])
    proven = [short(part["name"]) for part in labels if part["adjusted_p_value"] <= alpha_of(summary["level"])]
    many = f"{len(proven)} of {summary['n_classes']} labels"
    if proven:
        named = ", ".join(proven[:_NAMED]) + " and others" * (len(proven) > _NAMED)
        yield f"Recalibration lowers the loss of {many}: {named} (Holm's adjustment, {level})."
        if len(proven) < summary["n_classes"]:
            yield "The map leaves the scores of the other labels unchanged."
    else:
        yield f"No evidence that recalibration lowers the loss of any of the labels (Holm's adjustment, {level})."
    for name, reason in summary["refused"].items():
        yield f"Caution: no map was fitted to label {short(name)}: {reason}."


def labels(summary: Summary) -> Table:
    """Return the map, the decrease of the loss, and the ECE of each label."""
    parts, level = summary["labels"], f"{percent(summary['level'])} CI"
    gains = [part["gain"] for part in parts]
    written = [texts([gain["value"], gain["low"], gain["high"]], 4, [0.0]) for gain in gains]
    columns = [
        Column.of("label", "label", (part["name"] for part in parts), short),
        Column.of("map", "map", (part["chosen"] for part in parts)),
        Column("decrease", [each[0] for each in written], {"gain": [gain["value"] for gain in gains]}),
        Column(
            level,
            [f"{low} to {high}" for _, low, high in written],
            {end: [gain[end] for gain in gains] for end in ("low", "high")},
        ),
        Column.of("p", "adjusted_p_value", (part["adjusted_p_value"] for part in parts), chance_text),
    ]
    for when in ("before", "after"):
        errors = (part[when]["ece"]["value"] for part in parts)
        columns.append(Column.of(f"ECE {when}", f"ece_{when}", errors, number))
    return Table.of("labels", columns, texts=(0, 1))


def _gain(summary: Summary) -> str:
    gain = summary["gain"]
    loss = LOSSES[gain["score"]]
    if summary["chosen"] == "identity" and summary["method"] != "auto":
        return "The scores remain unchanged, as asked."
    if summary["chosen"] == "identity":
        return (
            "No change of the scores is supported: no map has a clearly smaller log loss on rows it was not fitted to."
        )
    value, low, high = texts([gain["value"], gain["low"], gain["high"]], 4, [0.0])
    interval = f"{percent(summary['level'])} CI {low} to {high}; p {chance(gain['p_value'])}"
    why = ""
    if "before.nll.value" in summary["not_finite"]:
        why = " The log loss is infinite, because a probability of 0 or 1 was wrong"
        why += "; the decrease is relative to clipped scores." if gain["score"] == "log" else "."
    elif gain["score"] == "brier":
        why = " The log loss after the map is infinite, because it makes a probability 0 or 1."
    if summary["proven"]:
        return f"Recalibration lowers the {loss} of new rows by {value} ({interval}).{why}"
    return f"No evidence that recalibration helps: estimated decrease of the {loss} {value} ({interval}).{why}"


def _choice(summary: Summary) -> str:
    chosen, runner_up = FAMILIES[summary["chosen"]], summary["runner_up"]
    formula = "" if summary["chosen"] == "clipped" else map_text(summary["map"])
    sentences = [f"Map: {chosen}{formula}."]
    if runner_up is not None:
        other, losses = FAMILIES[runner_up], summary["losses"]
        best = f"It has the smallest log loss on rows that it was not fitted to; the next best is {other}."
        smaller = f"The log loss of {other} is smaller, but not by more than chance explains."
        sentences.append(best if losses[summary["chosen"]]["mean"] <= losses[runner_up]["mean"] else smaller)
    if summary["chosen"] == "constant":
        auroc = summary["before"]["auroc"]
        ranked = auroc["value"] is not None and auroc["low"] is not None and auroc["low"] > 0.5
        found = f", although it goes with the outcomes (AUROC {number(auroc['value'])})" if ranked else ""
        none = "" if ranked else " There is no clear sign that higher scores go with more events."
        sentences.append(f"The order of the scores is lost{found}.{none}")
    if summary["shrinkage"] >= _NOTABLE_SHARE:
        numbers = "log-probabilities" if of_classes(summary) else "log-odds"
        sentences.append(
            f"Its {numbers} are shrunk by {summary['shrinkage']:.0%} towards no change.".replace("%", " %")
        )
    if summary["chosen"] not in ("identity", "constant"):
        sentences += _moved(summary["map"]["parameters"])
    return " ".join(sentences)


def _moved(numbers: Facts) -> Iterator[str]:
    """Yield what is moved before the map."""
    smallest, rest = numbers["smallest"], 1 - numbers.get("largest", 1.0)
    if smallest >= _NOTABLE and math.isclose(smallest, rest):
        yield f"Before the map, scores outside [{smallest:.3g}, 1 - {smallest:.3g}] are moved to its ends."
        return
    if smallest >= _NOTABLE:
        yield f"Before the map, probabilities below {smallest:.3g} become {smallest:.3g}."
    if rest >= _NOTABLE:
        yield f"Before the map, probabilities above 1 - {rest:.3g} become 1 - {rest:.3g}."


def map_text(fitted: Facts) -> str:
    """Return the formula of a map, if it is short."""
    numbers = fitted["parameters"]
    if fitted["kind"] == "line":
        intercept, slope = numbers["intercept"], numbers["slope"]
        constant = f" {'+' if intercept > 0 else '-'} {abs(intercept):.3g}" if intercept else ""
        return f", {slope:.3g} × log-odds{constant}"
    if fitted["kind"] == "softmax":
        factors = numbers["factors"]
        same = not isinstance(factors[0], list) and len(set(factors)) == 1 and not any(numbers["constants"])
        return f", temperature {1 / factors[0]:.3g}" if same else ""
    if fitted["kind"] == "knots":
        return f", {len(numbers['log_odds'])} knots"
    if fitted["kind"] == "bins":
        rates = numbers["rates"]
        return f", {len(rates)} bins" if len(rates) > 1 else f", {rates[0]:.4g}, for every score"
    return ""


def _errors(summary: Summary) -> str:
    before, after = (summary[when]["ece"] for when in ("before", "after"))
    floor = after["floor"]
    calibrated = ""
    if floor is not None:
        share = percent(summary["level"])
        calibrated = f"; a perfectly calibrated model would stay below {floor['upper']:.4f} in {share} of samples"
    return f"ECE {number(before['value'])} before, {_with_ends(after, summary)} after{calibrated}."


def _with_ends(estimate: Estimate, summary: Summary) -> str:
    ends = tables.ends_text(estimate["low"], estimate["high"])
    return f"{number(estimate['value'])} ({percent(summary['level'])} CI {ends})"


def _how(summary: Summary) -> str:
    return (
        f"The map is fitted to all {rows_text(summary['n'])}. The numbers after recalibration come from maps that were "
        "fitted without the rows that they are evaluated on, in five folds."
    )


#: The heading of groups.
GROUPS: Final = "Groups, after the map of all rows"


def by_group(summary: Summary) -> Summary | None:
    """Return the report with the groups, if there are any."""
    found: Summary | None = summary.get("by_group")
    return found


def measures(summary: Summary) -> Table:
    """Return the measures before and after, with their intervals; of several labels one row for each."""
    if of_labels(summary):
        return labels(summary)
    names = list(summary["measures"])
    write = {name: signed if summary["measures"][name]["signed"] else number for name in names}
    columns = [Column("measure", [summary["measures"][name]["label"] for name in names], {"measure": names})]
    for when in ("before", "after"):
        parts = [summary[when][name] for name in names]
        values = [value_text(part, write[name]) for name, part in zip(names, parts, strict=True)]
        ends = [
            tables.ends_text(part["low"], part["high"], write[name]) for name, part in zip(names, parts, strict=True)
        ]
        columns += [
            Column(when, values, {when: [part["value"] for part in parts]}),
            Column(
                f"{percent(summary['level'])} CI",
                ends,
                {f"{when}_{end}": [part[end] for part in parts] for end in ("low", "high")},
            ),
        ]
    return Table.of("recalibration", columns)


def render(summary: Summary, *, title: str = "", used: str = "", style: Style | None = None) -> str:
    """Return the recalibration as lines of text."""
    style = style or Style()
    blocks = [head(headline(summary), title, used, style)]
    blocks.append(
        [
            line
            for sentence, tone in toned_verdict(summary)
            for line in lead(wrapped(sentence, style, first="  ", later="    "), tone, style)
        ]
    )
    table = measures(summary)
    names, *texts_of = zip(*table.rows, strict=True)
    first = table.headings[0] if of_labels(summary) else ""
    widths = _WIDTHS_OF_LABELS if of_labels(summary) else _WIDTHS
    heading_line, *lines = aligned(
        [
            (f"  {{:<{max(map(len, [first, *names]))}}}", first, names),
            *zip(widths, table.headings[1:], texts_of, strict=True),
        ]
    )
    blocks.append(
        [style.faint(heading_line), *lines, *(style.faint(line) for line in paragraphs(remarks(summary), style))]
    )
    groups = by_group(summary)
    if groups is not None:
        _, *lines = terminal.groups_of(groups, style)
        blocks.append([style.bold(GROUPS), *lines])
    return style.plain("\n\n".join("\n".join(block) for block in blocks))


def remarks(summary: Summary) -> list[str]:
    """Return the remarks below the numbers."""
    if of_labels(summary):
        return [
            "decrease: of the mean log loss, or of the Brier score where a probability of 0 or 1 was wrong; p: of the "
            "decrease, by Holm's adjustment"
        ]
    if summary["chosen"] in ("vector", "matrix"):
        return ["the predicted class of a row can change, and so can the accuracy"]
    if summary["chosen"] in ("identity", "histogram", "constant") or of_classes(summary):
        return []
    numbers = summary["distinct_scores"]
    order = "the AUROC does not change, because increasing maps keep the order of the scores"
    if numbers["after"] != numbers["before"]:
        order = (
            f"the AUROC after is that of the mapped scores: the {numbers['before']:,} different scores become "
            f"{numbers['after']:,}"
        )
    name = "nll" if summary["gain"]["score"] == "log" else "brier_event"
    bound = summary["after"][name]["error_bound"]
    if not bound:
        return [order]
    loss = LOSSES[summary["gain"]["score"]]
    return [order, f"the {loss} after is computed from cells of the scores; its certified error is {bound:.1g}"]


def parameters(summary: Summary) -> Table:
    """Return the factor and the constant of each class; of a matrix, the factors of the class itself."""
    numbers = summary["map"]["parameters"]
    factors, constants = numbers["factors"], numbers["constants"]
    own = [row[k] if isinstance(row, list) else row for k, row in enumerate(factors)]
    names = summary["class_names"] or [str(k) for k in range(len(own))]
    columns = [
        Column("class", names, {"class": names}),
        Column("factor", [f"{factor:.4f}" for factor in own], {"factor": own}),
        Column("constant", [signed(constant) for constant in constants], {"constant": constants}),
    ]
    return Table.of("map", columns)


def picture(summary: Summary) -> drawing.Picture | None:
    """Return the picture of the map with its band; None for a map of classes."""
    if of_labels(summary) or of_classes(summary):
        return None
    curve = summary["curve"]
    scores, mapped, lows, highs = (curve[name] for name in ("scores", "mapped", "lows", "highs"))
    level = percent(summary["level"])
    columns = [
        Column("score", [f"{score:.4f}" for score in scores], {"score": scores}),
        Column("recalibrated", [f"{value:.4f}" for value in mapped], {"recalibrated": mapped}),
        Column(
            f"{level} CI",
            [tables.ends_text(*ends) for ends in zip(lows, highs, strict=True)],
            {"low": lows, "high": highs},
        ),
    ]
    return drawing.Picture(
        name="map",
        heading="The map of the scores",
        chart=drawing.lines(
            scores,
            {"curve": mapped},
            ends=((0.0, 1.0), (0.0, 1.0)),
            axes=("score", "recalibrated probability"),
            described=lambda i: f"score {scores[i]:.3f} becomes {mapped[i]:.3f}",
            band=(lows, highs),
            diagonal=True,
        ),
        caption=f"The dashed line leaves scores unchanged. The band is the pointwise {level} confidence band.",
        table=Table.of("map", columns, texts=()).of_rows(tables.steps(len(scores), _LISTED)),
    )
