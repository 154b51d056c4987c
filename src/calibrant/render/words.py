"""How numbers, counts, chances and names are written, and the common phrases of results."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from calibrant.render.blocks import Column, Source

if TYPE_CHECKING:
    from calibrant.results import ReliabilityDiagram

_MOST_PLACES: Final = 9  # decimal places
_USUAL_LEVELS: Final = (0.01, 0.05, 0.1)  # of significance
#: With fewer groups all are shown; otherwise so many of them.
GROUPS_WHOLE: Final = 100
GROUPS_WORST: Final = 20
#: The kinds of bins, in words.
BINS: Final = {"uniform": "of equal width", "quantile": "of equal frequency"}
#: The components of the verdict's test, in words.
COMPONENTS: Final = {"mean": "calibration in the large", "spread": "the calibration slope", "ece": "the ECE"}

#: A mean score below which the axes of a diagram are those of rare events.
RARE: Final = 0.03

#: The evaluated event of each notion.
EVENTS: Final = {
    "positive": "outcome = 1",
    "top-label": "the predicted class is correct",
    "classwise": "each class separately",
    "multilabel": "each label separately",
}

#: The characters that change the direction of text: Unicode's property Bidi_Control.
_DIRECTIONS: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


# ---------------------------------------------------------------- numbers


def number(value: float) -> str:
    """Format a value; a dash if it is missing."""
    return "–" if math.isnan(value) else "inf" if value == math.inf else f"{value:z.4f}"


def signed(value: float) -> str:
    """Return a difference with its sign."""
    return "–" if math.isnan(value) else f"{value:+z.4f}"


def percent(share: float) -> str:
    """Return a share in percent."""
    return f"{100 * share:g} %"


def share_text(share: float) -> str:
    """Return a share in percent, to three digits."""
    return f"{100 * share:.3g} %"


def score_text(value: float, written: str = ".3f") -> str:
    """Return a score or a rate; empty if missing."""
    return "" if math.isnan(value) else f"{value:{written}}"


def score_writer(*, rare: bool) -> Callable[[float], str]:
    """Return how scores are written: with three decimal places, scores of rare events with three digits."""
    return partial(score_text, written=".3g") if rare else score_text


def is_rare(bins: ReliabilityDiagram) -> bool:
    """Return whether the scores of a diagram are small on average, so that equal steps would hide them."""
    filled = bins.counts > 0
    return bool((bins.proportions[filled] * bins.confidences[filled]).sum() < RARE)


def ends_text(low: float, high: float, write: Callable[[float], str] = number) -> str:
    """Return an interval; empty if missing."""
    return "" if math.isnan(low) or math.isnan(high) else f"{write(low)} – {write(high)}"


def ranks_text(low: int, high: int) -> str:
    """Return a range of ranks."""
    return f"{low}" if low == high else f"{low}–{high}"


def number_text(value: float) -> str:
    """Return a number; empty if missing."""
    return "" if math.isnan(value) else number(value)


def texts(values: Iterable[float], places: int, marks: Sequence[float] = (), sign: str = "") -> list[str]:
    """Return numbers with so many decimal places, or with more where rounding would hide that one is not at a mark.

    Nine places are the most. A number that they do not tell from a mark is at the mark: it differs by rounding errors.
    """
    values = list(values)

    def hidden(value: float, mark: float, places: int) -> bool:
        return f"{value:z.{places}f}" == f"{mark:z.{places}f}"

    apart = [(value, mark) for value in values for mark in marks if not hidden(value, mark, _MOST_PLACES)]
    while any(hidden(value, mark, places) for value, mark in apart):
        places += 1
    return [f"{value:{sign}z.{places}f}" for value in values]


def percentages(*shares: float, sign: str = "", marks: Iterable[float] = ()) -> list[str]:
    """Return shares in percent: with one decimal place, or small ones with two digits of the largest."""
    numbers = [100 * share for share in shares]
    largest = max(map(abs, numbers))
    places = 1 if largest >= 1 or largest == 0 else 1 - math.floor(math.log10(largest))
    return texts(numbers, min(places, _MOST_PLACES), list(marks), sign)


def chance(p_value: float, n_resamples: int = 0) -> str:
    """Return a p-value with its sign: "=", or a bound at the limit of the simulated data sets."""
    if n_resamples and math.isclose(p_value, 1 / (n_resamples + 1), rel_tol=1e-9):
        return f"≤ {p_value:.3f}"
    return f"= {texts([p_value], 3, _USUAL_LEVELS)[0]}" if p_value >= 0.0005 else "< 0.001"


def chance_text(p_value: float, n_resamples: int = 0) -> str:
    """Return a p-value without an equals sign; empty if missing."""
    return "" if math.isnan(p_value) else chance(p_value, n_resamples).removeprefix("= ")


def ends_column(
    heading: str, ends: Mapping[str, Any], writes: Iterable[Callable[[float], str]] = repeat(number)
) -> Column:
    """Return a column of intervals, from the names and the values of both ends; ``writes`` are those of the rows."""
    lows, highs = ends.values()
    return Column(heading, [ends_text(*row) for row in zip(lows, highs, writes, strict=False)], ends)


# ---------------------------------------------------------------- counts


def amount(count: float) -> str:
    """Return a number of rows, or their weight."""
    return f"{count:,.0f}" if float(count).is_integer() else f"{count:,.1f}"


def rows_text(count: float) -> str:
    """Return a number of rows with the word."""
    return f"{amount(count)} row{'s' * (count != 1)}"


def rows_or_weight(count: float, counted: str) -> str:
    """Return a number of rows, or their weight, with the word."""
    return f"weight {amount(count)}" if counted == "weight" else rows_text(count)


def counted_in(counts: Any) -> str:
    """Return what the counts of bins are numbers of: rows, or their weight."""
    return "weight" if counts.dtype.kind == "f" else "rows"


def counted_in_classes(counts: Any) -> str:
    """Return what the counts (C, M) of the bins of classes are numbers of."""
    from calibrant.inputs.weights import integer_weights

    return "rows" if integer_weights(counts[counts > 0]) else "weight"


def rounded(count: int) -> str:
    """Say how many probabilities were read as 0 or 1."""
    were = "probabilities were" if count > 1 else "probability was"
    return f"{count:,} {were} outside [0, 1] because of rounding and read as 0 or 1"


def gathered(pairs: Iterable[tuple[_Key, _Value]]) -> dict[_Key, list[_Value]]:
    """Return the names with each key, both in their order."""
    names: dict[_Key, list[_Value]] = {}
    for key, name in pairs:
        names.setdefault(key, []).append(name)
    return names


def explained(pairs: Iterable[tuple[str, str]], most: int | None = None) -> list[str]:
    """Return each reason once, after the names that it is about; of many names the first ones."""
    names_by = gathered(pairs).items()
    return [f"{named(names, len(names) if most is None else most)}: {reason}" for reason, names in names_by]


def left_out(left: int, what: str, use: str) -> list[str]:
    """Return how to see the other ones; nothing if none is left out."""
    return [f"to see the other {left:,} {what}, use {use} in Python"] if left > 0 else []


def steps(n: int, most: int) -> list[int]:
    """Return at most so many of n indices, at equal steps."""
    return sorted({round(i * (n - 1) / (most - 1)) for i in range(most)}) if n > 1 else [0]


def worst(p_values: Sequence[float], errors: Sequence[float]) -> list[int]:
    """Return the indices of all groups in order, or of many the smallest p-values first, then the largest errors."""
    indices = list(range(len(p_values)))
    if len(indices) < GROUPS_WHOLE:
        return indices
    ranks = [
        (2.0 if math.isnan(p) else p, 0.0 if math.isnan(error) else -abs(error))
        for p, error in zip(p_values, errors, strict=True)
    ]
    return sorted(indices, key=ranks.__getitem__)[:GROUPS_WORST]


# ---------------------------------------------------------------- clusters and events


def in_clusters(clusters: Mapping[str, Any] | None) -> str:
    """Return the number of clusters; nothing without."""
    return "" if clusters is None else f" in {clusters_text(clusters)}"


def clusters_text(clusters: Mapping[str, Any]) -> str:
    """Return the number of clusters with the word."""
    number = clusters["clusters"]
    return f"{number if isinstance(number, str) else f'{number:,}'} clusters"


def is_clustered(clusters: Mapping[str, Any] | None, n: int) -> bool:
    """Return whether inference is for rows in clusters: those of one row each are independent rows."""
    return clusters is not None and clusters["clusters"] != n


def event_of(notion: str, source: Source) -> str:
    """Return the evaluated event: by its column, where the source names it."""
    return short(source.event) if source.event else EVENTS[notion]


def evaluated_event(
    notion: str, n_classes: int | None, source: Source, class_names: Sequence[str] | None = None
) -> str:
    """Return the evaluated event for the first line; for two classes also the event that is not evaluated.

    scikit-learn's scorers and displays evaluate that one, so that one model has two calibration errors.
    """
    event = event_of(notion, source)
    if notion != "top-label" or n_classes != 2:
        return f"event: {event}"
    return f"event: {event}; to evaluate class {short((class_names or ['0', '1'])[1])}, pass its column alone"


class DifferenceTerms(NamedTuple):
    """What the two sides of a difference are called, its directions, and both outcomes."""

    predicted: str
    observed: str
    over: str
    under: str
    either: str
    outcomes: tuple[str, str]


_CONFIDENCE: Final = DifferenceTerms(
    "mean confidence",
    "accuracy",
    "over-confident",
    "under-confident",
    "over- or under-confidence",
    ("correct prediction", "incorrect prediction"),
)
_EVENT: Final = DifferenceTerms(
    "mean predicted probability",
    "observed frequency",
    "overestimates the event",
    "underestimates the event",
    "over- or underestimation",
    ("event", "non-event"),
)


def terms_of(notion: str) -> DifferenceTerms:
    """Return the terms of a notion."""
    return _CONFIDENCE if notion == "top-label" else _EVENT


def impossible_kinds(events: float, non_events: float, terms: DifferenceTerms) -> str:
    """Return the outcomes that scores of 0 and 1 exclude, in words."""
    counts = zip((events, non_events), terms.outcomes, ("0", "1"), strict=True)
    return " and ".join(
        f"{amount(count)} {kind}{'s' * (count != 1)} with a score of {score}" for count, kind, score in counts if count
    )


# ---------------------------------------------------------------- names


def named(names: Sequence[str], most: int) -> str:
    """Return names with commas, of many the first ones and how many more there are."""
    more = len(names) - most
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:most])} and {more:,} more"


def named_with(word: str, label: str | None) -> str:
    """Return the word of a band or an interval; with a label it names its series."""
    return f"{word}: {label}" if label else word


def capital(sentence: str) -> str:
    """Return a sentence with a capital letter at its beginning."""
    return sentence[:1].upper() + sentence[1:]


def shown(text: str, instead: str) -> str:
    """Return a text without invisible control: control characters, surrogates, changes of direction.

    Every space becomes an ordinary one, except the no-break space. Joiners within words stay.
    """
    if text.isprintable():
        return text
    return "".join(_shown(c, instead) for c in text)


def _shown(c: str, instead: str) -> str:
    if c.isprintable() or c == "\N{NO-BREAK SPACE}":
        return c
    if c.isspace():
        return " "
    acts = unicodedata.category(c) in ("Cc", "Cs", "Cn") or c in _DIRECTIONS
    return instead if acts else c


def short(name: str, limit: int = 40) -> str:
    """Return a name without control characters, cut to ``limit`` characters."""
    printable = shown(name, "?")
    return printable if len(printable) <= limit else printable[: limit - 1] + "…"


@cache
def distinct(names: tuple[str, ...], limit: int = 40) -> Mapping[str, str]:
    """Return names cut to ``limit`` characters so that they stay distinct: at the end, or in the middle.

    In the middle, the end that all names share is left out if need be. Names that are still alike get a number.
    """
    end = len(_common_end(names))

    def middle(name: str) -> str:
        printable = short(name, len(name) + 1)
        cut = limit // 3
        return printable if len(printable) <= limit else f"{printable[:cut]}…{printable[cut + 1 - limit :]}"

    ways = [
        [short(name, limit) for name in names],
        [middle(name) for name in names],
        [middle(name[: len(name) - end]) for name in names],
        [f"{short(name, limit - 5)} {number}" for number, name in enumerate(names, 1)],
    ]
    cuts = next((cut for cut in ways if len(set(cut)) == len(cut)), ways[-1])
    return dict(zip(names, cuts, strict=True))


def _common_end(names: Sequence[str]) -> str:
    """Return the end that all names share."""
    length = 0
    while len({name[-length - 1 :] for name in names}) == 1 and length < min(map(len, names)):
        length += 1
    return names[0][len(names[0]) - length :]


# ---------------------------------------------------------------- settings


@cache
def version() -> str:
    """Return the version of calibrant."""
    from importlib.metadata import version

    return version("calibrant")


def facts_of(
    source: Source,
    *more: tuple[str, str],
    n: float,
    notion: str,
    n_classes: int | None,
    level: float | None,
    n_bins: int | None = None,
    weight: float = math.nan,
) -> list[tuple[str, str]]:
    """Return the settings of a result as names and texts, with ``more`` of its own before those of the source."""
    differs = not math.isnan(weight) and abs(weight - n) > 1e-6 * n
    return [
        ("predictions", amount(n)),
        ("total weight", amount(weight) if differs else ""),
        ("event", event_of(notion, source)),
        ("labels" if notion == "multilabel" else "classes", f"{n_classes:,}" if n_classes else ""),
        ("bins", f"{n_bins:,}, right-closed" if n_bins else ""),
        ("intervals", "not requested" if level is None else ""),
        ("confidence level", "" if level is None else percent(level)),
        *more,
        *source.facts(),
        ("made by", f"calibrant {version()}"),
    ]
