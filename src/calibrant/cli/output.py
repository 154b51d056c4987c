"""The output of the command: the report, its files, pages and pictures, and a progress bar."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from calibrant.cli import console
from calibrant.cli.options import ENGINES, OF_STORED, CommandOptions
from calibrant.errors import CalibrantError, quoted
from calibrant.render.words import named, short
from calibrant.runtime.process import undone

if TYPE_CHECKING:
    from calibrant.cli.floors import Floors
    from calibrant.files.loaded import FileRead, FileSketch
    from calibrant.recalibration.maps import CalibrationMap
    from calibrant.recalibration.question_recalibrations import QuestionRecalibrations
    from calibrant.recalibration.recalibrations import RecalibrationResult
    from calibrant.render.blocks import Document, Source
    from calibrant.render.terminal import Style
    from calibrant.report.comparison import Comparison
    from calibrant.report.question_comparisons import QuestionComparisons
    from calibrant.report.question_reports import QuestionReports
    from calibrant.report.report import Report
    from calibrant.thresholds import QuestionThresholds
    from calibrant.thresholds.benefit import BenefitOfThresholds
    from calibrant.thresholds.result import ThresholdResult

    Result = Report | QuestionReports | Comparison | QuestionComparisons | RecalibrationResult
    Result |= QuestionRecalibrations | ThresholdResult | QuestionThresholds | BenefitOfThresholds
    from calibrant.monitoring import Monitor

_NAMED: Final = 3  # columns that a hint names
_LEFT_OUT: Final = 10  # questions without a map that a hint names
_MAPS: Final = ("map", "sql", "onnx")  # the forms of a map
_COLUMN: Final = re.compile(r"\w+")
#: Names of columns whose groups are models.
_MODELS: Final = ("model", "llm", "judge", "forecaster", "checkpoint", "vendor", "classifier", "algorithm", "learner")
_NAMES_MODELS: Final = re.compile(rf"({'|'.join(_MODELS)})s?([_ .-]?(name|id))?", re.IGNORECASE)
#: The characters that JSON need not escape, and that act on a terminal or are not Unicode; see `render.words.shown`.
_ACTING: Final = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_PATIENCE: Final = 1.0  # seconds before a progress bar appears

#: No date and no version in a picture, so that the same result gives the same bytes.
_METADATA: Final[dict[str, dict[str, Any]]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
#: The ids in an SVG follow from a salt. Journals want fonts of type 42 (TrueType) in a PDF.
_STYLE: Final[dict[str, Any]] = {"svg.hashsalt": "calibrant", "pdf.fonttype": 42}


def write(result: Result, predictions: FileRead, options: CommandOptions) -> None:
    """Write a result as the options say: to the terminal, to files, as a page.

    Raises
    ------
    calibrant.errors.FileError
        The first error, if files cannot be written; the other files are written first.
    """
    from calibrant.report.report import Report

    event = event_of(result, predictions, options)
    sources = _sources(predictions, options, event)
    if isinstance(result, Report):
        sources |= _pooled(predictions, options)
    source = _source(sources, predictions, options)
    names = {Path(path).name: reason for path, reason in predictions.omitted}
    readable = result  # with the names of files left out without their folders, if these differ
    if isinstance(result, Report) and len(names) == len(predictions.omitted):
        readable = replace(result, omitted=names)

    title = options.title or _title(_names(predictions.paths), options.files)
    contents: dict[str, Callable[[], bytes]] = {
        "sketch": lambda: cast("FileSketch", predictions).sketch.to_bytes(),
        "json": lambda: _json(
            {**_described(result, source, options), "source": sources, **_for_comparisons(result, predictions, options)}
        ),
        **_contents(readable, source, title, options),
        **_actions(result, predictions, options),
    }

    def text() -> str:
        used = "; ".join(filter(None, (predictions.described(), predictions.protocol, str(options.config or ""))))
        document = result._document(source, complete=options.all_measures)
        return _text(document, title=_title(predictions.paths, options.files), used=used)

    failures = _write_all(contents, text, options)
    if not options.quiet:
        warn(predictions)
        suggest_clusters(predictions, options)
    if failures:
        raise failures[0]


def _actions(result: Any, predictions: FileRead, options: CommandOptions) -> dict[str, Callable[[], bytes]]:
    """Return what other programs act on: maps and gates, if there is evidence for them."""
    actions: dict[str, Callable[[], bytes]] = {}
    if options.outputs.keys() & set(_MAPS) and _is_written(result, options):
        of_questions = isinstance(result, Mapping)
        fitted: Any = None if of_questions else result.fitted() if options.anyway else result.map
        actions = {
            "map": lambda: (
                f"{result.maps_to_json(anyway=options.anyway) if of_questions else fitted.to_json()}\n".encode()
            ),
            "sql": lambda: _sql(fitted, predictions),
            "onnx": lambda: fitted.to_onnx().SerializeToString(),
        }
    if options.gates_path is not None and _has_gates(result, options):
        actions["gates"] = lambda: _json(result.gates(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"))
    return actions


def _has_gates(result: QuestionThresholds, options: CommandOptions) -> bool:
    """Return whether there is a gate to write, and name the questions that are left out of the file."""
    without = [name for name in result if result.gate(name) is None]
    composite = result.composite is not None and result.composite.certified
    if len(without) == len(result) and not composite:
        console.say(f"{options.gates_path} is not written, because no threshold is certified")
        return False
    if without and not options.quiet:
        console.say(
            f"{options.gates_path} does not contain the questions without a certified threshold: {', '.join(without)}"
        )
    return True


def _is_written(result: RecalibrationResult | QuestionRecalibrations, options: CommandOptions) -> bool:
    """Return whether a map is written, and say on standard error which maps are not."""
    if isinstance(result, Mapping):  # the questions of a log
        kept = set(result.questions if options.anyway else result.proven)
        left = named([short(name) for name in result.log if name not in kept], _LEFT_OUT)
        why = (
            "no map can be fitted"
            if options.anyway
            else "there is no evidence that any map helps; to write every fitted map, pass --anyway"
        )
        if left:
            console.say(
                f"{options.map_path} does not contain {left}, for which {why}" if kept else f"not written: {why}"
            )
        return bool(kept)
    if not options.anyway and result.objection:
        console.say(f"the map is not written, because {result.objection}; to write it, pass --anyway")
        return False
    return True


def write_monitor(watch: Monitor, predictions: FileRead | None, options: CommandOptions) -> None:
    """Write a monitor as the options say: to the terminal, to files, as a page."""
    from calibrant.files.loaded import FileDecisions
    from calibrant.render.blocks import Source

    event = watch.read_from.get("event")
    window = (options.since_onset_path or "") if watch.drift is not None else ""
    source = Source(event=event or "", window=window, options=_configured(options))
    read = ({} if event is None else {"event": event}) | _configuration(options)
    summary = watch.to_dict() | ({"source": read} if read else {})
    contents: dict[str, Callable[[], bytes]] = {
        "json": lambda: _json(summary),
        **_contents(watch, source, options.title or Path(options.state_path).name, options),
        "since_onset": lambda: watch.since_onset().to_bytes(),
        "prometheus": lambda: watch.to_prometheus(Path(options.state_path).stem).encode(),
    }
    if watch.drift is None and options.since_onset_path is not None:
        if not options.quiet:
            console.say(
                f"{options.since_onset_path} is not written, because the monitor has not raised an alarm about a drift"
            )
        del contents["since_onset"]
    used = str(options.config or "")
    failures = _write_all(
        contents, lambda: _text(watch._document(source), title=options.state_path, used=used), options
    )
    if predictions is not None and not options.quiet:
        warn(predictions)
        if isinstance(predictions, FileDecisions) and options.question is None:
            from calibrant.report.question_document import cautions_of

            for caution in cautions_of(predictions.log):
                console.say(caution.text)
    if failures:
        raise failures[0]


def write_floors(floors: Floors, options: CommandOptions) -> None:
    """Write noise floors as JSON and to the terminal."""
    from calibrant.render.terminal import to_lines

    contents = {"json": lambda: _json(floors.to_dict())}
    failures = _write_all(contents, lambda: to_lines(floors.blocks(), style()), options)
    if failures:
        raise failures[0]


def _contents(
    result: Result | Monitor, source: Source, title: str, options: CommandOptions
) -> dict[str, Callable[[], bytes]]:
    """Return the page, the Markdown and the pictures of a result."""

    def page() -> bytes:
        from calibrant.render import page

        document = result._document(source, full=True)
        return page.to_page(document, title=title, used=source.columns, date=options.date or "").encode()

    def markdown() -> bytes:
        from calibrant.render import markdown

        return markdown.to_markdown(result._document(source, complete=options.all_measures), title=title).encode()

    pictures = {kind: partial(_picture, result, kind, options.dpi) for kind in _METADATA}
    return {"html": page, "markdown": markdown, **pictures}


def _write_all(
    contents: Mapping[str, Callable[[], bytes]], text: Callable[[], str], options: CommandOptions
) -> list[CalibrantError]:
    """Write files, and then to the terminal, whose pipe may be closed; return the errors of files."""
    failures = _write_files(contents, options)
    if "-" in (options.markdown_path, options.json_path):
        console.put_utf8(contents["markdown" if options.markdown_path == "-" else "json"]())
    elif not options.quiet:
        console.write(text())
    return failures


def _described(result: Result, source: Source, options: CommandOptions) -> dict[str, Any]:
    from calibrant.report.report import Report

    curves = any((options.json_path, options.html_path, options.open_page))
    if isinstance(result, Report):
        from calibrant.report import methods_text, results_text

        summary = result.to_dict(curves=curves, groups=options.json_path is not None)
        texts = {"methods": methods_text.paragraph(result, source), "methods_brief": methods_text.brief(result, source)}
        return summary | texts | {"results": results_text.paragraph(result, source)}
    from calibrant.recalibration.question_recalibrations import QuestionRecalibrations
    from calibrant.recalibration.recalibrations import RecalibrationResult

    if isinstance(result, (RecalibrationResult, QuestionRecalibrations)):
        return result.to_dict(curves=curves)
    return result.to_dict()


def _sql(fitted: CalibrationMap, predictions: FileRead) -> bytes:
    """Return the map as SQL: of the columns that were read, or of others if the scores are not columns."""
    from calibrant.files.loaded import FileRows
    from calibrant.files.sql import identifier

    columns = list(predictions.columns["probs"]) if isinstance(predictions, FileRows) else []
    n_classes = fitted.n_classes
    if n_classes is None:
        is_column = len(columns) == 1 and _COLUMN.fullmatch(columns[0])
        return f"{fitted.to_sql(columns[0] if is_column else 'score')}\n".encode()
    names = fitted.event["class_names"] or range(n_classes)
    if len(columns) != n_classes:
        columns = [f"p_{name}" for name in names]
    lines = [
        f"{expression} AS {identifier(f'calibrated_{name}')}"
        for expression, name in zip(fitted.to_sql(columns), names, strict=True)
    ]
    return (",\n".join(lines) + "\n").encode()


def _write_files(contents: Mapping[str, Callable[[], bytes]], options: CommandOptions) -> list[CalibrantError]:
    """Write the files that the options name, each as a whole or not at all, and say so; return what fails."""
    from calibrant.results.writing import append_file, replace_file

    targets = options.outputs
    if options.open_page and options.html_path is None:
        targets["html"] = _temporary_page()
    shared_file = os.environ.get("GITHUB_STEP_SUMMARY")
    failures = []
    for name, content in contents.items():
        target = targets.get(name, "-")
        if target == "-":
            continue
        try:
            data = content()
            if name == "markdown" and shared_file and os.path.realpath(target) == os.path.realpath(shared_file):
                append_file(target, b"\n" + data)  # other steps of GitHub may use it
            else:
                replace_file(target, data)
        except CalibrantError as error:
            failures.append(error)
            continue
        if name != "json" and not options.quiet:
            console.say(f"wrote {target} ({len(data) / 1000:,.0f} kB)")
        if name == "html" and options.open_page and (problem := open_page(target)):
            console.say(problem)  # with --quiet too: nobody would find the page
    return failures


def event_of(result: Result | Monitor, predictions: FileRead, options: CommandOptions) -> str | None:
    """Return the evaluated event by its column and its label, such as "churned = 1"; None if no column holds it."""
    column = predictions.sources.get("targets", options.question)
    if column is None or getattr(result, "notion", None) != "positive" or getattr(result, "n_classes", None):
        return None
    if "targets" not in predictions.sources:  # a yes-no question of a decision log
        return column
    labels = options.labels or ()
    if options.trials is not None:
        return f"{column} of {options.trials}"
    if not labels and re.search("[=<>(]", column):  # a condition in SQL
        return column
    return f"{column} = {labels[1] if len(labels) == 2 else 1}"


def _pooled(predictions: FileRead, options: CommandOptions) -> dict[str, str]:
    """Say that the groups or the logs of a report look like models, with the command that compares them."""
    if _have_common_questions(predictions):
        are_pooled, files = "Several files answer the same questions, so several models may be pooled.", options.files
    elif len(options.by) == 1 and _NAMES_MODELS.fullmatch(options.by[0]):
        are_pooled, files = f"The models in {quoted(options.by[0])} are pooled.", predictions.paths[:1]
    else:
        return {}
    named = [part for name in options.by for part in ("--by", name)]
    named += _typed(options, "score", "probs", "outcome", "target", "where", "weight", "weights_are", *OF_STORED)
    named += [part for name in options.clusters for part in ("--cluster", name)]
    named += _typed(options, "logits", "percent", "decimal_comma")
    command = shlex.join(["calibrant", "compare", *files, *named])
    return {"pooled": f"{are_pooled} To compare the models, use: {command}"}


def _typed(options: CommandOptions, *names: str) -> list[str]:
    """Return the options with these names that have a value, as the words of a command."""
    words = []
    for name in names:
        value = getattr(options, name)
        if value is not None and value is not False:
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return words


def _have_common_questions(predictions: FileRead) -> bool:
    """Whether files of logs have questions in common, as those of several models have."""
    import numpy as np

    from calibrant.files.loaded import FilePredictions

    if not isinstance(predictions, FilePredictions) or not predictions.protocol or len(predictions.paths) < 2:
        return False
    questions = predictions.clusters
    if questions is None or predictions.columns.get("clusters") != ("question",):
        return False
    first, rest = np.split(questions, [predictions.rows[0]])
    return bool(np.isin(first, rest).any())


def _sources(predictions: FileRead, options: CommandOptions, event: str | None) -> dict[str, Any]:
    """Return where the predictions come from, for the JSON."""
    sources = {"files": list(predictions.paths), "columns": predictions.columns_read, "where": options.where}
    sources["event"] = event
    if options.timezone_used is not None:
        sources["timezone"] = options.timezone_used
    if predictions.protocol:
        sources["protocol"] = predictions.protocol
    if left_out := getattr(predictions, "left_out", {}):
        sources["left_out"] = dict(left_out)
    return sources | _configuration(options)


def _configuration(options: CommandOptions) -> dict[str, Any]:
    """Return the file of options, and which of them it set, for the JSON; nothing without a file."""
    return {} if options.config is None else {"config": asdict(options.config)}


def _configured(options: CommandOptions) -> str:
    """Return the same for readers, without the folder of the file."""
    config = options.config and str(replace(options.config, path=Path(options.config.path).name))
    return (config or "").removeprefix("options ")


def _json(summary: Mapping[str, Any]) -> bytes:
    """Return JSON as UTF-8; what acts on a terminal, and bytes of a file's name that are not text, are escaped."""
    text = json.dumps(summary, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    return _ACTING.sub(lambda match: f"\\u{ord(match[0]):04x}", text).encode()


def _source(sources: Mapping[str, Any], predictions: FileRead, options: CommandOptions) -> Source:
    """Return what readers see of where the predictions come from: names of files without folders."""
    from calibrant.render.blocks import Source

    return Source(
        event=sources["event"] or "",
        pooled=sources.get("pooled", ""),
        files=", ".join(_names(predictions.paths)),
        where=options.where or "",
        columns=predictions.described(),
        reading=shlex.join(_typed(options, *OF_STORED)),
        timezone=options.timezone_used or "",
        protocol=predictions.protocol or "",
        options=_configured(options),
    )


def _for_comparisons(result: Result, predictions: FileRead, options: CommandOptions) -> dict[str, str]:
    """Return what the JSON file of a report on one event holds too: its sketch, for `calibrant compare`."""
    from calibrant.files.loaded import FilePredictions, FileSketch
    from calibrant.files.sketches import event_sketch, sketch_as_text
    from calibrant.inputs.notions import PER_CLASS
    from calibrant.report.report import Report

    if not isinstance(result, Report) or result.notion in PER_CLASS or options.json_path == "-":
        return {}
    if not isinstance(predictions, (FilePredictions, FileSketch)):
        return {}
    sketch = event_sketch(
        predictions,
        notion=options.notion,
        ignore_index=options.ignore_index,
        logits=options.logits or (isinstance(predictions, FilePredictions) and predictions.logits),
        weights_are=options.weights_are,
        groups=len(result.groups),
    )
    return {"sketch": sketch_as_text(sketch)}


def _temporary_page() -> str:
    """Return the path of a new file for a page, which only this user may read.

    Nothing removes it: the browser reads it after the command has ended. The system clears its temporary files.
    """
    import tempfile

    descriptor, path = tempfile.mkstemp(prefix="calibrant-", suffix=".html")
    os.close(descriptor)
    return path


def open_page(path: str) -> str:
    """Open a page in a browser; return why not if none can be shown here, else an empty text."""
    import webbrowser

    has_screen = any(os.environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"))
    is_remote = any(os.environ.get(name) for name in ("SSH_CONNECTION", "SSH_TTY"))
    # A browser that runs in this terminal would hide the report.
    if (has_screen or (sys.platform in ("darwin", "win32") and not is_remote)) and webbrowser.open(
        Path(path).resolve().as_uri()
    ):
        return ""
    return f"--open: no browser was found; open this page yourself: {path}"


def _text(document: Document, *, title: str, used: str = "") -> str:
    from calibrant.render import terminal

    return terminal.to_terminal(document, title=title, used=used, style=style())


def _picture(result: Result | Monitor, kind: str, dpi: int) -> bytes:
    """Return the picture: of a report its diagram, the worst classes, or the forest of marginal subgroups.

    In a profile with the loess curve, this curve is the diagram, as on the page. Models have their diagrams, or a
    leaderboard.
    """
    from calibrant import plot
    from calibrant.plot import canvas
    from calibrant.report.comparison import Comparison
    from calibrant.report.leaderboard import FEW
    from calibrant.report.report import Report

    matplotlib = canvas.matplotlib()
    matplotlib.use("agg")  # this process opens no windows
    from matplotlib import pyplot as plt

    picture = io.BytesIO()
    with matplotlib.rc_context(_STYLE):
        if isinstance(result, Comparison):
            axes: Any = (plot.compare if len(result.names) <= FEW else plot.leaderboard)(result)
        elif isinstance(result, Report) and result.all_rows is not None:
            axes = plot.groups(result, measure=next(iter(result.forests), "ece"))
        elif isinstance(result, Report) and result.diagram is None:
            axes = plot.classwise(result)[0]
        elif isinstance(result, Report) and "loess" in result.curves:
            axes = plot.calibration_curve(result, kind="loess")
        else:
            axes = cast("Report", result).plot()
        axes.figure.savefig(picture, format=kind, dpi=dpi, metadata=_METADATA[kind])
        plt.close(axes.figure)
    return picture.getvalue()


def suggest_clusters(predictions: FileRead, options: CommandOptions) -> None:
    """Name on standard error the columns that look like ids of things with several rows each.

    In a file with the rows of several models these may be the questions that all models answer.
    """
    if options.clusters or predictions.protocol or options.engine != ENGINES[0] or not predictions.sources:
        return
    from calibrant.files.loaded import FileModels, FileSketches

    if options.is_long and isinstance(predictions, (FileModels, FileSketches)):
        keys = " ".join(f"--on {shlex.quote(name)}" for name in next(iter(predictions.repeated), ()))
        if keys and not options.on:
            named = ", ".join(map(repr, predictions.repeated[0]))
            console.say(f"{named} may identify the same item in all models; to pair the models' rows, pass {keys}")
        return
    if predictions.repeated:
        first, *others = predictions.repeated
        listed = ", ".join(map(repr, (*first, *(name for (name,) in others))[:_NAMED]))
        verb = "together identify" if len(first) > 1 else "identify" if others else "identifies"
        options_of = " ".join(f"--cluster {shlex.quote(name)}" for name in first)
        console.say(
            f"{listed} {verb} units with several rows each; if the rows of one unit are dependent, pass {options_of}"
        )


def warn(predictions: FileRead) -> None:
    """Name on standard error the files that were left out, and what may be a mistake."""
    for doubt in predictions.doubts:
        console.say(doubt)
    if predictions.omitted:
        files = len(predictions.omitted) + len(predictions.paths)
        console.say(f"left out {len(predictions.omitted):,} of {files:,} files:")
        for path, reason in predictions.omitted:
            console.tell(f"  {path}: {reason}")


def _names(paths: Sequence[str]) -> list[str]:
    """Return the names of files, with as many of their folders as tell them apart."""
    parts = [Path(path).parts for path in paths]
    lengths = range(1, max(map(len, parts), default=0) + 1)
    each_length = ([str(Path(*part[-length:])) for part in parts] for length in lengths)
    return next((names for names in each_length if len(set(names)) == len(set(paths))), list(paths))


def _title(paths: Sequence[str], named: Sequence[str]) -> str:
    """Return the names of the files that were read, if any; of a folder, the pattern of all files below it."""
    if not paths:
        return ""
    if len(named) == 1 and len(paths) > 1 and os.path.isdir(named[0]):
        from calibrant.files.paths import ending_of

        endings = {ending_of(path) for path in paths}
        return f"{os.path.join(named[0], '**', '*')}{endings.pop() if len(endings) == 1 else ''} ({len(paths)} files)"
    return paths[0] if len(paths) == 1 else f"{paths[0]} … {paths[-1]} ({len(paths)} files)"


def style() -> Style:
    """Return what the terminal can show."""
    from calibrant.render import terminal

    encoding = sys.stdout.encoding or "ascii"
    try:
        terminal.GLYPHS.encode(encoding)
        rich = True
    except UnicodeEncodeError:
        rich = False
    return terminal.Style(
        colour=sys.stdout.isatty() and "NO_COLOR" not in os.environ,
        unicode=rich,
        width=shutil.get_terminal_size().columns,
    )


def _say_once() -> Callable[[str, int, int], None]:
    """Return a listener that says each work of unknown length once."""
    said: set[str] = set()

    def say(work: str, _done: int, total: int) -> None:
        if work and not total and work not in said:
            said.add(work)
            console.say(work)

    return say


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[Callable[[int, int, int], None]]:
    """Show a bar on standard error, if it is a terminal, after one second of work; nothing if ``quiet``.

    Yields a function of the bytes done, all bytes, and the rows; (0, 0, 0) means that everything is read.
    """
    from calibrant.runtime.progress import listening

    if quiet:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield lambda _done, _total, _rows: None
        return
    if not sys.stderr.isatty():
        with listening(_say_once()):
            yield lambda _done, _total, _rows: None
        return
    from rich.console import Console
    from rich.filesize import decimal
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TextColumn("{task.fields[count]}"))
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    phase = "reading"
    task, started = bar.add_task(phase, total=None, count=""), time.monotonic()

    def step(done: int, total: int, rows: int) -> None:
        nonlocal phase
        if total:
            seconds = max(time.monotonic() - started, 1e-3)
            count = f"{decimal(done)} of {decimal(total)}, {rows:,} rows, {rows / seconds:,.0f} a second"
            bar.update(task, completed=done, total=total, count=count)
        else:
            phase = "evaluating"
            bar.update(task, description=phase, total=None, count="")

    def tell(work: str, done: int, total: int) -> None:
        count = f"{done:,} of {total:,}" if total else ""
        if phase == "evaluating":
            bar.update(task, description=work or phase, completed=done, total=total or None, count=count)
        else:  # files are being read: the bar shows how many of their bytes
            bar.update(task, description=work or phase)

    def begin() -> None:
        bar.start()
        bar.console.show_cursor(True)  # a signal may end the process at any time

    timer = threading.Timer(_PATIENCE, begin)
    timer.daemon = True
    timer.start()
    try:
        with undone(lambda: None, lambda: console.clear_line(bar.live.is_started)), listening(tell):
            yield step
    finally:
        timer.cancel()
        timer.join()
        bar.stop()
