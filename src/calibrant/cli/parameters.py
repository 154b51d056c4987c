"""The values of options and arguments: which are accepted, what is wrong with others, and what the TAB key proposes.

A type has the name that the help shows in place of a value.
"""

from __future__ import annotations

import glob
import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import click

from calibrant.errors import nearest, quoted

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: The variable that click's scripts of shells set.
COMPLETING: Final = "_CALIBRANT_COMPLETE"

_MOST_LABELS: Final = 100_000


def label(param: click.Parameter) -> str:
    """Return the name of an option or an argument in messages."""
    return max(param.opts, key=len) if isinstance(param, click.Option) else str(param.metavar).strip("[.]")


class Checked(click.ParamType):  # type: ignore[type-arg,unused-ignore] # generic from click 8.4 on
    """Values of one of click's types without a problem; ``missing`` says what to pass if a value is missing."""

    def __init__(
        self,
        name: str = "",
        problem_of: Callable[[Any], str] = lambda _: "",
        *,
        base: click.ParamType[Any] = click.STRING,
        missing: str = "",
    ) -> None:
        self.name, self.base, self._problem_of, self._missing = name or base.name, base, problem_of, missing

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value, or raise what is wrong with it."""
        value = self.base.convert(value, param, ctx)
        if problem := self._problem_of(value):
            raise click.BadParameter(problem, ctx, param, param_hint=None if param is None else label(param))
        return value

    def get_missing_message(self, *_: Any, **__: Any) -> str | None:
        """Return what to pass."""
        return self._missing or None


# ---------------------------------------------------------------- numbers


def exact_number(value: float) -> str:
    """Return a number with the digits that make it wrong."""
    from calibrant.errors.wording import number  # which loads NumPy

    return number(value)


def whole(is_valid: Callable[[int], bool], remedy: str, got: str = "{}", name: str = "integer") -> Checked:
    """Return the type of whole numbers that are valid; the error of others says what to pass."""
    return Checked(name, lambda n: "" if is_valid(n) else f"{got.format(exact_number(n))}; {remedy}", base=click.INT)


def real(
    is_valid: Callable[[float], bool],
    remedy: str,
    name: str = "float",
    base: click.ParamType[Any] = click.FLOAT,
) -> Checked:
    """Return the type of numbers that are valid; the error of others says what to pass."""
    return Checked(name, lambda x: "" if is_valid(x) else f"{exact_number(x)}; {remedy}", base=base)


def share_in(text: str) -> float:
    """Return the number of a text; of a percentage such as 5% its share, the double nearest to it.

    It raises `ValueError` for a text without a number.
    """
    if not text.endswith("%"):
        return float(text)
    try:
        return float(Decimal(text[:-1].strip()) / 100)
    except ArithmeticError as error:
        raise ValueError(text) from error


class Fraction(click.ParamType):  # type: ignore[type-arg,unused-ignore] # generic from click 8.4 on
    """A share as a fraction, such as 0.05, or with a percent sign, such as 5%."""

    name = "float"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the fraction."""
        try:
            return share_in(str(value).strip())
        except ValueError:
            self.fail(f"{quoted(str(value))} is not a number or a percentage", param, ctx)


_SHARE: Final = Fraction()


def share(is_valid: Callable[[float], bool], remedy: str, name: str = "float") -> Checked:
    """Return the type of shares that are valid; the error of others says what to pass."""
    return real(is_valid, remedy, name, _SHARE)


class Prior(click.ParamType):  # type: ignore[type-arg,unused-ignore] # generic from click 8.4 on
    """The share of the event, or those of classes with commas between them, in order or by their names."""

    name = "share"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | tuple[float, ...] | dict[str, float]:
        """Return the share, the shares, or the shares by name."""
        from calibrant.errors import InputError
        from calibrant.recalibration.priors import shares_of

        pairs = [part.rpartition("=") for part in str(value).split(",")]
        names = [name.strip() for name, _, _ in pairs]
        shares = [_SHARE.convert(text, param, ctx) for _, _, text in pairs]
        if any(names) and (not all(names) or len(set(names)) < len(names)):
            self.fail(f"{quoted(value)}; name each class once, such as cat=0.2,dog=0.8", param, ctx)
        prior = dict(zip(names, shares, strict=True)) if any(names) else tuple(shares) if len(shares) > 1 else shares[0]
        try:
            shares_of("prior", prior)
        except InputError as error:
            self.fail(f"expected {error.expected}, got {error.got}; {error.remedy}", param, ctx)
        return prior


PRIOR: Final = Prior()


class Thresholds(click.ParamType):  # type: ignore[type-arg,unused-ignore] # generic from click 8.4 on
    """Increasing thresholds above 0 and below 1 with commas between them."""

    name = "thresholds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        """Return the thresholds."""
        thresholds = tuple(_SHARE.convert(part, param, ctx) for part in split(str(value)))
        above = (0.0, *thresholds)
        if not thresholds or not all(low < high for low, high in zip(above, (*thresholds, 1.0), strict=True)):
            remedy = "pass increasing numbers above 0 and below 1, such as 0.05,0.1,0.2"
            self.fail(f"{quoted(str(value))}; {remedy}", param, ctx)
        return thresholds


THRESHOLDS: Final = Thresholds()


def _problem_of_risk(risk: float) -> str:
    example = f", such as {risk / 100:g} or {risk:g}%" if 1 <= risk <= 50 else ", such as 0.05 or 5%"
    return "" if 0 < risk <= 0.5 else f"{exact_number(risk)}; pass a share above 0 and up to 0.5{example}"


SHARE: Final = share(lambda level: 0.5 <= level < 1, "pass a share from 0.5 to below 1, such as 0.95 or 95%")
ERROR: Final = share(lambda error: 0 < error < 1, "pass the largest acceptable error, such as 0.02 or 2%", "error")
COST: Final = real(lambda cost: 0 < cost < float("inf"), "pass a cost above 0, such as 1", "cost")
RISK: Final = Checked("risk", _problem_of_risk, base=_SHARE)
NATURAL: Final = whole(lambda n: n >= 0, "pass 0 or more")
POSITIVE: Final = whole(lambda n: n >= 1, "pass 1 or more")


# ---------------------------------------------------------------- files


class FileName(Checked):
    """The name of a file; the TAB key leaves these names to the shell."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Leave the names of files to the shell."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


class InputFile(FileName):
    """The name of a file to read, or a pattern."""

    def __init__(self, name: str = "file", missing: str = "") -> None:
        super().__init__(name, missing=missing)


class OutputFile(FileName):
    """The name of a file to write, with one of some endings; ``may_be_read`` if it may be one of the inputs."""

    def __init__(self, *endings: str, remedy: str = "", missing: str = "", may_be_read: bool = False) -> None:
        self.may_be_read = may_be_read

        def problem_of(path: str) -> str:
            folder = os.path.dirname(path)
            if endings and not path.lower().endswith(endings):
                return (
                    f"{quoted(path)}; {remedy or f'name a file that ends in {endings[0]}, such as report{endings[0]}'}"
                )
            if not path:
                return "''; name a file or leave the option out; perhaps a shell variable is empty"
            if folder and not os.path.isdir(folder):
                return f"{quoted(path)}; the folder {quoted(folder)} does not exist; make the folder first"
            return ""

        super().__init__("path", problem_of, missing=missing)


# ---------------------------------------------------------------- names


class Among(Checked):
    """One of some names, which are looked up when they are needed."""

    def __init__(self, name: str, names: Callable[[], Iterable[str]], problem: str = "{}") -> None:
        self._names = names

        def problem_of(value: str) -> str:
            known = list(names())
            return "" if value in known else f"{problem.format(quoted(value))}; {nearest(value, known)}"

        super().__init__(name, problem_of)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the name, or raise the nearest ones; the default needs no look-up."""
        return value if param is not None and value == param.default else super().convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Propose the names."""
        return starting(self._names(), incomplete)


class ColumnName(Checked):
    """The name of a column, or an expression in SQL."""

    def __init__(self) -> None:
        super().__init__("column")

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Propose the columns of the first file."""
        return starting(_columns(ctx), incomplete)


class Listed(Checked):
    """Names with commas between them; a list of columns may have patterns, which the TAB key proposes first."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Propose the names that are not in the list yet."""
        before, comma, last = incomplete.rpartition(",")
        free = [name for name in self._known(ctx) if name not in before.split(",")]
        return starting([before + comma + name for name in free if name.startswith(last)], incomplete)

    def _known(self, ctx: click.Context) -> list[str]:
        return _with_patterns(_columns(ctx)) if self.name == "columns" else []


class MeasureNames(Listed):
    """The names of measures with commas between them."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the names of a list; a profile is not a measure."""
        from calibrant.errors import InputError
        from calibrant.measures.listed import selected
        from calibrant.measures.profiles import PROFILES

        if value.strip() in PROFILES:
            hint = f"{quoted(value.strip())} is a profile, not a measure; pass --profile {value.strip()}"
            raise click.BadParameter(hint, ctx, param)
        try:
            selected(split(value))
        except InputError as error:
            hint = f"{error.got}; {error.remedy}"
            raise click.BadParameter(hint, ctx, param) from None
        return split(value)

    def _known(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        from calibrant.measures.listed import BY_NAME

        return list(BY_NAME)


class ClassNames(Listed):
    """The names or labels of classes with commas between them; of labels, 1-3 means 1,2,3."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the names of a list."""
        names = [name.strip() for name in value.split(",")]
        if self.name != "labels":
            return tuple(names)
        ends = re.fullmatch(r"(-?\d{1,9})-(\d{1,9})", names[0]) if len(names) == 1 else None
        if ends is not None and 0 < int(ends[2]) - int(ends[1]) < _MOST_LABELS:
            names = [str(number) for number in range(int(ends[1]), int(ends[2]) + 1)]
        if len(set(names)) < max(len(names), 2):
            hint = f"{quoted(value)}; name two labels or more, each once, such as no,yes or 1-10"
            raise click.BadParameter(hint, ctx, param)
        return tuple(names)


def split(listed: str) -> tuple[str, ...]:
    """Return the names in a list, split at commas; empty ones are left out."""
    return tuple(name.strip() for name in listed.split(",") if name.strip())


# ---------------------------------------------------------------- what the TAB key proposes


def starting(values: Iterable[str], incomplete: str) -> list[CompletionItem]:
    """Return the proposals for the beginning of a value; a line break would end a value."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(_word(value)) for value in values if value.startswith(incomplete) and value.isprintable()]


def _word(value: str) -> str:
    """Return a value as bash inserts it, which does not quote it; within quotes, and for other shells, unchanged."""
    if not os.environ.get(COMPLETING, "").startswith("bash"):
        return value
    try:
        shlex.split(os.environ.get("COMP_WORDS", ""))
    except ValueError:  # a quote is open
        return value
    return shlex.quote(value)


def _columns(ctx: click.Context) -> tuple[str, ...]:
    """Return the columns of the first readable file; empty without one, and no error."""
    from calibrant.files import column_names

    # While an option waits for its value, click has not sorted the arguments yet.
    for name in ctx.params.get("files") or ctx.args:
        path = os.path.expanduser(name)
        for file in [path] if os.path.isfile(path) else sorted(glob.glob(path))[:1]:
            try:
                return column_names(file)
            except Exception:  # no error may appear in a line that is being typed
                continue
    return ()


def _with_patterns(names: Sequence[str]) -> list[str]:
    """Return patterns, then names; a pattern replaces names that differ only by a final number."""
    stems = Counter(match[1] for name in names if (match := re.fullmatch(r"(.*\D)\d+", name)))
    many = [stem for stem, count in stems.items() if count > 2]
    return [f"{stem}*" for stem in many] + [name for name in names if name.rstrip("0123456789") not in many]
